"""Partial derivatives of a learnt function at many points at once, and bounds of Taylor polynomials over cells.

A function of a kernel phi(q), q = -|A (x - y)|^2 / 2 with A diagonal, is a sum of terms b D_y^beta k(x, y), and with
D_y = -D_x all its derivatives are sums of D^gamma k, gamma = alpha + beta.  The formula of `calculus.matchings`, for
directions along the axes, has one term for each number j_k of pairs in each feature:

    D^gamma k = prod_k a_k^gamma_k  sum_j (-1)^(|gamma| - |j|) prod_k N(gamma_k, j_k) d_k^(gamma_k - 2 j_k)
                * phi^(|gamma| - |j|)(q),        d = A (x - y),  N(g, j) = g! / (j! (g - 2j)! 2^j)

so that a table of one derivative costs a few products, and all share phi and the powers of d.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement, product
from math import factorial, prod
from typing import Any

import numpy as np

from rkhs._backend.arrays import Matrix, to_numpy
from rkhs._calculus.atoms import Atoms
from rkhs._calculus.forms import Form
from rkhs._calculus.function_spaces import FunctionSpace
from rkhs._finite.function import Function
from rkhs._gram.blocks import blocks
from rkhs._progress import tick
from rkhs.functionals.values import Evaluation
from rkhs.kernels.base import Kernel

Index = tuple[int, ...]  # how often each feature is differentiated
ENTRIES = 2**17  # of a table that is held at a time: it stays in the processor's cache


def indices(order: int, features: Sequence[int], n: int) -> list[Index]:
    """All multi-indices over some of n features up to an order, by order.

    Examples
    --------
    >>> indices(2, [0, 2], 3)
    [(0, 0, 0), (1, 0, 0), (0, 0, 1), (2, 0, 0), (1, 0, 1), (0, 0, 2)]
    """
    chosen = (pick for size in range(order + 1) for pick in combinations_with_replacement(features, size))
    return [tuple(pick.count(k) for k in range(n)) for pick in chosen]


def along(axes: Sequence[int], n: int) -> Index:
    """The multi-index of a derivative along axes."""
    return tuple(list(axes).count(k) for k in range(n))


def plus(one: Index, other: Index) -> Index:
    """The multi-index of one derivative after another."""
    return tuple(a + b for a, b in zip(one, other, strict=True))


def axis_factors(kernel: Kernel, n: int) -> tuple[Form, Matrix] | None:
    """The form of a kernel of A (x - y), and A where it is diagonal (n,); None for any other kernel."""
    form = kernel.form(n)
    if form is None or not form.rho:
        return None
    linear = form.linear
    if linear is None:
        return form, np.ones(n)
    if linear.ndim == 1:
        return form, np.asarray(linear, dtype=np.float64)
    used = linear != 0
    if np.any(used.sum(axis=0) > 1) or np.any(used.sum(axis=1) > 1):
        return None
    return form, np.asarray(linear.sum(axis=0), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _Source:
    """sum_i sum_beta b_beta,i (-1)^|beta| D_x^beta k(x, y_i) for one kernel phi(q)."""

    form: Form
    factors: Matrix  # (n,)
    points: Matrix  # (N, n)
    weights: dict[Index, Matrix]  # (N,) each

    def add_to(self, out: Matrix, X: Matrix, wanted: Sequence[Index]) -> None:
        """out (m, wanted) += the derivatives at X (m, n)."""
        tall = max(1, ENTRIES // max(len(self.points), 1))
        for start in range(0, len(X), tall):
            rows = slice(start, start + tall)
            self._add(out[rows], X[rows], wanted)
            tick(min(start + tall, len(X)) / len(X))

    def _add(self, out: Matrix, X: Matrix, wanted: Sequence[Index]) -> None:
        asked: dict[Index, list[tuple[int, Matrix]]] = {}
        own = np.flatnonzero(self.factors)
        for place, alpha in enumerate(wanted):
            for beta, weight in self.weights.items():
                gamma = plus(alpha, beta)
                if all(gamma[k] == 0 or self.factors[k] for k in range(len(gamma))):
                    asked.setdefault(gamma, []).append((place, weight))
        if not asked:
            return
        d = {int(k): self.factors[k] * (X[:, k, None] - self.points[:, k]) for k in own}
        q = -0.5 * sum((one * one for one in d.values()), start=np.zeros((len(X), len(self.points))))
        top = max(map(sum, asked))
        rungs = self.form.ladder(q, range(min((sum(g) + 1) // 2 for g in asked), top + 1))
        powers = {k: [np.ones(()), one] for k, one in d.items()}
        for k, known in powers.items():
            for _ in range(2, max(g[k] for g in asked) + 1):
                known.append(known[-1] * d[k])
        for gamma, users in asked.items():
            table = _table(gamma, rungs, powers) * prod(self.factors[k] ** gamma[k] for k in own)
            found = table @ np.stack([weight for _, weight in users], axis=1)
            for column, (place, _) in enumerate(users):
                out[:, place] += found[:, column]


def _table(gamma: Index, rungs: dict[int, Matrix], powers: dict[int, list[Matrix]]) -> Matrix:
    """The sum over j of the formula above."""
    active = [k for k, times in enumerate(gamma) if times]
    by_rung: dict[int, Any] = {}  # rungs that are one array, as of the Gaussian, are multiplied once
    for pairs in product(*(range(gamma[k] // 2 + 1) for k in active)):
        rung = rungs[sum(gamma) - sum(pairs)]
        number = float((-1) ** (sum(gamma) - sum(pairs)))
        term: Any = None
        for k, j in zip(active, pairs, strict=True):
            left = gamma[k] - 2 * j
            number *= factorial(gamma[k]) / (factorial(j) * factorial(left) * 2**j)
            if left:
                term = powers[k][left] if term is None else term * powers[k][left]
        found = number if term is None else number * term
        by_rung[id(rung)] = (rung, by_rung[id(rung)][1] + found if id(rung) in by_rung else found)
    return sum(rung * found for rung, found in by_rung.values())


@dataclass(frozen=True, eq=False)
class Derivatives:
    """The partial derivatives of a function of a sum of radial kernels, with polynomials for a basis."""

    sources: tuple[_Source, ...]
    basis: FunctionSpace | None
    basis_coefficients: Matrix
    degree: int  # of the basis

    @classmethod
    def of(cls, f: Function, degree: int) -> Derivatives:
        n = f.functionals.dimension
        sources = []
        for block in blocks(f.kernel, Evaluation(np.zeros((1, n))).like(f.functionals.prototype), f.functionals):
            found = axis_factors(block.kernel, n)
            assert found is not None, "refused before: see `check_provable`"
            for part in block.rights:
                own = to_numpy(part.adjoint(block.weight * f.coefficients)).astype(np.float64)
                points = to_numpy(part.atoms.points).astype(np.float64)
                sources.append(_Source(*found, points, dict(_expanded(part.atoms, own))))
        basis = np.zeros(0) if f.basis_coefficients is None else to_numpy(f.basis_coefficients)
        return cls(tuple(sources), f.basis, basis, degree)

    def __call__(self, X: Matrix, wanted: Sequence[Index]) -> Matrix:
        """(m, wanted) at the rows of X (m, n)."""
        out = np.zeros((len(X), len(wanted)))
        for source in self.sources:
            source.add_to(out, X, wanted)
        if self.basis is not None:
            for place, alpha in enumerate(wanted):
                if sum(alpha) <= self.degree:
                    axes = [k for k, times in enumerate(alpha) for _ in range(times)]
                    directions = np.eye(X.shape[1])[axes].reshape(1, len(axes), X.shape[1])
                    out[:, place] += to_numpy(self.basis.on(Atoms(X, directions))) @ self.basis_coefficients
        return out


def _expanded(atoms: Atoms, coefficients: Matrix) -> Iterator[tuple[Index, Matrix]]:
    """What atoms with coefficients (t * k,) are in derivatives along axes: multi-indices and weights (t,)."""
    t, n = len(atoms.points), atoms.dimension
    found: dict[Index, Matrix] = {(0,) * n: coefficients.reshape(t, -1)}
    for which in range(atoms.order):
        u, before = to_numpy(atoms.u(which)), found
        found = {}
        for beta, weight in before.items():
            for k in np.flatnonzero(np.any(u != 0, axis=(0, 1))):
                raised = plus(beta, along([int(k)], n))
                found[raised] = found.get(raised, 0.0) + weight * u[..., k]
    for beta, weight in found.items():
        yield beta, (-1.0) ** sum(beta) * weight.sum(axis=1)


def least(slopes: Matrix, curvatures: Matrix, h: Matrix) -> tuple[Matrix, Matrix]:
    """The least of g t + d t^2 / 2 over |t| <= h, elementwise, and the t where it is.

    Examples
    --------
    >>> least(np.array([1.0, 1.0]), np.array([2.0, -1.0]), np.array([1.0, 1.0]))
    (array([-0.25, -1.5 ]), array([-0.5, -1. ]))
    """
    inside = curvatures * h > np.abs(slopes)
    t = np.where(inside, -slopes / np.where(inside, curvatures, 1.0), -np.where(slopes < 0, -1.0, 1.0) * h)
    return slopes * t + 0.5 * curvatures * t * t, t
