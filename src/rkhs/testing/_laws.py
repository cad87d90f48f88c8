"""What all laws share: the sentence they fail with, and tolerances derived from the dtype.

A rounding error is allowed `ROUNDING` units in the last place of the largest number that took part, and
nothing else is ever chosen by hand.  A limit is allowed what its own approximations differ by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, to_numpy

ROUNDING = 2.0**12  # times eps: 9e-13 in float64, 5e-4 in float32
SLACK = 16.0  # by which a limit may differ from its last approximation, in steps between approximations
CONVERGED = 0.1  # the most that the approximations of a limit may still move, in units of their size
STEPS = 8.0 ** -np.arange(8)  # of difference quotients: some of them suit every length scale from 1e-4 up
HAS_TORCH = find_spec("torch") is not None


def demand(subject: Any, law: str, measured: float, allowed: float) -> None:
    """measured <= allowed, or an AssertionError that says who broke which law, and by how much.

    Examples
    --------
    >>> demand("my kernel", "k(x, y) = k(y, x)", measured=0.5, allowed=1e-12)
    Traceback (most recent call last):
    ...
    AssertionError: 'my kernel' breaks the law k(x, y) = k(y, x): measured 0.5, allowed 1e-12.
    """
    if not measured <= allowed:  # also when it is NaN
        raise AssertionError(f"{subject!r} breaks the law {law}: measured {measured:.3g}, allowed {allowed:.3g}.")


def demand_equal(subject: Any, law: str, one: Array, other: Array, scale: float | None = None) -> None:
    """one = other up to rounding of numbers as large as `scale` (as the largest of `other` if None)."""
    one, other = to_numpy(one), to_numpy(other)
    if one.shape != other.shape:
        raise AssertionError(f"{subject!r} breaks the law {law}: shapes {one.shape} and {other.shape}.")
    eps = max(np.finfo(one.dtype).eps, np.finfo(other.dtype).eps)
    demand(subject, law, largest(one - other), ROUNDING * float(eps) * (largest(other) if scale is None else scale))


def demand_limit(subject: Any, law: str, value: Array, quotients: Iterable[tuple[Array, float]]) -> None:
    """value = lim of the quotients, each given with its rounding error, for `STEPS` that shrink by eight.

    Where the error of a quotient is even in the step h, Richardson's extrapolation cancels h^2.  The
    step at which neighbors differ least is taken: no length scale needs to be known.
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
    """The central difference quotients of f at 0, with their rounding errors."""
    noise = 0.0
    for h in STEPS.tolist():
        ahead, behind = f(h), f(-h)
        noise = max(noise, rounding(ahead, behind))
        yield (ahead - behind) / (2 * h), noise / h


def rounding(*arrays: Array) -> float:
    """The rounding error of the arrays' numbers: `ROUNDING` eps times the largest."""
    return max(ROUNDING * float(np.finfo(to_numpy(a).dtype).eps) * largest(a) for a in arrays)


def largest(array: Array) -> float:
    """max |a_i|, 0 for an empty array."""
    return float(np.max(np.abs(to_numpy(array)), initial=0.0))


def restricted(G: Array, P: Array) -> Array:
    """The quadratic form c'Gc on an orthonormal basis of the c with P'c = 0, all c if P has no columns."""
    if not P.shape[1]:
        return G
    U, values, _ = np.linalg.svd(P)
    null = U[:, int(np.sum(values > rounding(values))) :]
    return null.T @ G @ null
