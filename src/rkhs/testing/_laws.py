"""Assertions and families shared by all laws, with tolerances derived from the dtype.

The tolerance of an equality is `ROUNDING` units in the last place of the largest number involved.  The tolerance of a
limit is the difference between its approximations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse

from rkhs._core.backend.arrays import Array, Matrix, to_numpy
from rkhs.functionals import Functional, stack

ROUNDING = 2.0**12  # tolerance in units of eps: 9e-13 in float64, 5e-4 in float32
SLACK = 16.0  # tolerance of a limit in units of the difference between its last approximations
CONVERGED = 0.1  # the largest relative difference between the last approximations of a limit
STEPS = 8.0 ** -np.arange(8)  # steps of difference quotients; some are suitable for every length scale from 1e-4 on
HAS_TORCH = find_spec("torch") is not None


def demand(subject: Any, law: str, measured: float, allowed: float) -> None:
    """Raise an AssertionError that names the object and the law unless measured <= allowed.

    Examples
    --------
    >>> demand("my kernel", "k(x, y) = k(y, x)", measured=0.5, allowed=1e-12)
    Traceback (most recent call last):
    ...
    AssertionError: 'my kernel' breaks the law k(x, y) = k(y, x): measured 0.5, allowed 1e-12.
    """
    if not measured <= allowed:  # also true for NaN
        raise AssertionError(f"{subject!r} breaks the law {law}: measured {measured:.3g}, allowed {allowed:.3g}.")


def demand_equal(subject: Any, law: str, actual: Array, expected: Array, scale: float | None = None) -> None:
    """Raise an AssertionError unless the arrays are equal up to rounding errors of numbers of the size `scale`.

    The default of `scale` is the largest expected number.
    """
    actual, expected = to_numpy(actual), to_numpy(expected)
    if actual.shape != expected.shape:
        raise AssertionError(f"{subject!r} breaks the law {law}: shapes {actual.shape} and {expected.shape}.")
    eps = max(np.finfo(actual.dtype).eps, np.finfo(expected.dtype).eps)
    size = largest(expected) if scale is None else scale
    demand(subject, law, largest(actual - expected), ROUNDING * float(eps) * size)


def demand_limit(subject: Any, law: str, value: Array, quotients: Iterable[tuple[Array, float]]) -> None:
    """Raise an AssertionError unless value is the limit of the quotients, given with their rounding errors for `STEPS`.

    The errors of the quotients are even functions of the step h, so that Richardson extrapolation cancels h^2.  The
    step at which successive approximations differ least is used, so that no length scale is needed.
    """
    plain = [(to_numpy(quotient), noise) for quotient, noise in quotients]
    sharper = [((64 * fine - coarse) / 63, noise) for (coarse, _), (fine, noise) in pairwise(plain)]
    best, moved, error = sharper[0][0], np.inf, np.inf
    for (before, _), (now, noise), (after, _) in zip(sharper, sharper[1:], sharper[2:], strict=False):
        step = max(largest(now - before), largest(after - now))
        if step + noise < moved + error:
            best, moved, error = now, step, noise
    size = max(largest(best), largest(plain[0][0]))
    demand(subject, f"{law} (the quotients converge)", moved, CONVERGED * size + error)
    demand(subject, law, largest(best - to_numpy(value)), SLACK * (moved + error))


def central(f: Callable[[float], Array]) -> Iterable[tuple[Array, float]]:
    """Yield the central difference quotients of f at 0 with their rounding errors."""
    noise = 0.0
    for h in STEPS.tolist():
        ahead, behind = f(h), f(-h)
        noise = max(noise, rounding(ahead, behind))
        yield (ahead - behind) / (2 * h), noise / h


def rounding(*arrays: Array) -> float:
    """Return the tolerance for rounding errors of the arrays: `ROUNDING` eps times the largest number."""
    return max(ROUNDING * float(np.finfo(to_numpy(a).dtype).eps) * largest(a) for a in arrays)


def largest(array: Array) -> float:
    """Return max |a_i|, or 0 for an empty array."""
    return float(np.max(np.abs(to_numpy(array)), initial=0.0))


def restricted(G: Array, P: Array) -> Array:
    """Return Z'GZ for an orthonormal basis Z of {P'c = 0}; G itself if P has no columns."""
    if not P.shape[1]:
        return G
    U, values, _ = np.linalg.svd(P)
    null = U[:, int(np.sum(values > rounding(values))) :]
    return null.T @ G @ null


def combinations(L: Functional, values: Array, W: Matrix) -> Iterator[tuple[str, Functional, Array]]:
    """Yield families that are made of L, with their values, given those (N, ..) of L, which are linear in L."""
    turned = np.arange(L.size)[::-1]
    flat, M, other = L.take(slice(None)), L.take(turned), values[turned]
    yield "2 L - M / 2", 2 * flat - M / 2, 2 * values - other / 2
    yield "-L + 3 L", -L + 3 * L, 2 * values
    yield "W @ L", W @ L, W @ values
    yield "sparse W @ L", scipy.sparse.csr_array(W) @ L, W @ values
    yield "W @ (L + M)", W @ (flat + M), W @ (values + other)
    yield "stack([L, M])", stack([L, M]), np.concatenate([values, other])
    yield "L.take(rows)", L.take(turned[::2]), other[::2]
