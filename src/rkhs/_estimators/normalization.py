"""The sizes of values and functionals that make the weights of an estimator dimensionless (`problem`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, Vector, double, take_rows, to_numpy
from rkhs._finite.basis import on_basis, orthonormal
from rkhs._finite.term import Term
from rkhs._gram import gram
from rkhs.functionals import Evaluation, Functional
from rkhs.functionals._points import centered
from rkhs.kernels import GraphKernel, Kernel, Sum
from rkhs.losses import Loss

MOST_NORMS = 2048  # functionals over which norms are averaged, evenly spaced if there are more


@dataclass(frozen=True, eq=False)
class WeightNormalization:
    """The sizes v and s that make weights dimensionless, for a kernel and training points."""

    kernel: Kernel
    variance: float  # v, the mean of k(x, x)
    points: Array | None = None  # for a conditionally positive definite kernel, where polynomials are fitted

    @classmethod
    def at(cls, kernel: Kernel, X: Array, weight: Vector) -> WeightNormalization:
        """Compute v from points (t, n) and their weights; graph kernels have the mean one over their nodes."""
        points = take_rows(X, spaced(len(X), 256)) if kernel.order else None
        rows, summands = spaced(len(X), MOST_NORMS), kernel.summands()
        graphs = float(sum(factor for factor, k in summands if isinstance(k, GraphKernel)))
        others = [factor * k for factor, k in summands if not isinstance(k, GraphKernel)]
        if not others:
            return cls(kernel, graphs, points)
        rest = Sum(tuple(others)) if graphs else kernel
        squares = _squared_norms(rest, Evaluation(take_rows(X, rows)), points)
        return cls(kernel, graphs + _mean(squares, weight[rows]), points)

    def observed(self, term: Term) -> Term:
        """Return a term of observations with its weight divided by v."""
        return term if self.variance == 1.0 else term.changed(weight=np.asarray(term.weight) / self.variance)

    def size(self, L: Functional, times: Any) -> float:
        """Return s of functionals with the multiplicities `times`."""
        rows, per_row = _rows(L)
        subset = spaced(rows, max(32, MOST_NORMS // per_row))  # at least 32 points
        index = (subset[:, None] * per_row + np.arange(per_row)).ravel()
        squares = _squared_norms(self.kernel, L if len(index) == L.size else L.take(index), self.points)
        return float(np.sqrt(_mean(squares, np.broadcast_to(times, L.size)[index]) / self.variance))

    def invariance(
        self, L: Functional, loss: Loss, target: float, weight: float, times: Any, size: float, share: float = 1.0
    ) -> Term:
        """Return the term weight / v * mean_i sum_j loss(L_ij(f) / s; target / s), or a block's `share` of it."""
        rows, per_row = _rows(L)
        total = rows * times if isinstance(times, float) else float(np.sum(times)) / per_row
        mean = weight * share / (self.variance * total) * times if total > 0 else weight * times
        rescaled = loss.in_units(size)
        if rescaled is None:
            return Term(L / size, loss, target=target / size, weight=mean)
        scaled_loss, factor = rescaled
        return Term(L, scaled_loss, target=target, weight=factor * mean)


def _rows(L: Functional) -> tuple[int, int]:
    """Return the number of rows of a family, and of functionals in each row."""
    rows = int(L.shape[0]) if L.shape else 1
    return rows, max(1, L.size // max(rows, 1))


def spaced(count: int, most: int) -> Vector:
    return np.arange(count) if count <= most else np.linspace(0, count - 1, most).round().astype(np.intp)


def _mean(squares: Vector, times: Vector) -> float:
    """Return the weighted mean, or 1 if it is undefined, zero or overflows."""
    total = float(np.sum(times))
    mean = float(np.dot(squares, times)) / total if total > 0 else 0.0
    return mean if 0 < mean < np.inf else 1.0


def _squared_norms(kernel: Kernel, L: Functional, points: Array | None) -> Vector:
    """Return the squared norms |L_j|^2 of functionals.

    A conditionally positive definite kernel has them for functionals that vanish on its polynomials.  Then L is
    replaced by M(f) = L(f) - L(p), p being the least squares polynomial of f at `points`.
    """
    squares = double(gram(kernel, L).diagonal())
    if points is None:
        return squares
    E = Evaluation(points)
    space = centered(kernel.null_space, [E])
    Q, transform = orthonormal(on_basis(E, space), float(np.finfo(np.float64).eps))
    B = on_basis(L, space) @ transform @ Q.T  # L(p) = B f(points)
    cross, K = (to_numpy(gram(kernel, left, E).dense()) for left in (L, E))
    return squares - 2 * np.sum(B * cross, axis=1) + np.sum((B @ K) * B, axis=1)
