"""Weights without units: C = 1 and nu = 1 mean the same on every data set, with every kernel.

Before any data f is a Gaussian process with covariance k: a value f(x) has the variance k(x, x), and L(f) has |L|^2,
the squared norm of L in the RKHS.  With their means over the training points and over the functionals of an invariance,

    v = mean of k(x_i, x_i),        s^2 = mean of |L_ij|^2 / v

L_ij(f) / s is typically as large as a value of f, whatever the units of features are.  The problem of the estimators is

    1/2 |f|^2  +  C / v  sum_i loss(f(x_i); y_i)  +  nu / v  mean_i sum_j loss(L_ij(f) / s; target / s)

The mean is over the first axis of the family, which is that of the points, or of edges; the sum over what is said of
one point: all its slopes, and their squares are those of any directions.  Of the Gaussian v = 1, and of its gradients
s = 1 / scale: squared losses are  nu scale^2 mean_i |grad f(x_i)|^2.  The kernel 7 k, features in other units or given
twice, repeated rows and more of them leave it where it was.  This is the one place where C and nu become weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, Vector, taken, to_numpy
from rkhs._finite.basis import on_basis, orthonormal
from rkhs._finite.term import Term
from rkhs._gram import gram
from rkhs.estimators.sample import Sample
from rkhs.functionals import Evaluation, Functional
from rkhs.functionals.centring import centred
from rkhs.kernels import Kernel
from rkhs.losses import Loss

MOST = 2048  # functionals of which norms are computed, about; evenly spaced where there are more
ROWS = 32  # of a family, at least
PLACES = 256  # points from which functionals lose the polynomials that a norm does not see


@dataclass(frozen=True, eq=False)
class Units:
    """A kernel with the mean of its k(x, x) at points, which are kept where it is only conditionally positive definite.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.random.default_rng(0).standard_normal((50, 3))
    >>> units = Units.at(7.0 * rkhs.Gaussian(scale=2.0), X, np.ones(50))
    >>> units.variance, units.size(rkhs.Gradient(X), 1.0)
    (7.0, 0.5)
    """

    kernel: Kernel
    variance: float  # v
    places: Array | None = None

    @classmethod
    def at(cls, kernel: Kernel, X: Array, weight: Vector) -> Units:
        """From points (t, n) and how often each is meant."""
        places = taken(X, _spaced(len(X), PLACES)) if kernel.order else None
        rows = _spaced(len(X), MOST)
        squares = _squares(kernel, Evaluation(taken(X, rows)), places)
        return cls(kernel, _mean(squares, weight[rows]), places)

    @classmethod
    def of(cls, kernel: Kernel, sample: Sample) -> Units:
        """From all training points."""
        return cls.at(kernel, sample.X, sample.weight)

    def data(self, term: Term) -> Term:
        """A term of what was measured, whose weight has C as its factor."""
        return term if self.variance == 1.0 else term.changed(weight=np.asarray(term.weight) / self.variance)

    def size(self, L: Functional, times: Any) -> float:
        """s, for functionals that are meant so many times each."""
        rows, each = _rows(L)
        some = _spaced(rows, max(ROWS, MOST // each))
        index = (some[:, None] * each + np.arange(each)).ravel()
        squares = _squares(self.kernel, L if len(index) == L.size else L.take(index), self.places)
        return float(np.sqrt(_mean(squares, np.broadcast_to(times, L.size)[index]) / self.variance))

    def known(
        self, L: Functional, loss: Loss, target: float, weight: float, times: Any, size: float, share: float = 1.0
    ) -> Term:
        """weight / v * mean_i sum_j loss(L_ij(f) / s; target / s), or the share in it of one of many blocks."""
        rows, each = _rows(L)
        total = rows * times if isinstance(times, float) else float(np.sum(times)) / each
        mean = weight * share / (self.variance * total) * times if total > 0 else weight * times
        found = loss.in_units(size)
        if found is None:
            return Term(L / size, loss, target=target / size, weight=mean)
        own, factor = found
        return Term(L, own, target=target, weight=factor * mean)


def _rows(L: Functional) -> tuple[int, int]:
    """The rows of a family, and the number of functionals in each."""
    rows = int(L.shape[0]) if L.shape else 1
    return rows, max(1, L.size // max(rows, 1))


def _spaced(count: int, most: int) -> Vector:
    """Indices below `count`: all, or `most` of them, evenly spaced, the same wherever they are asked for."""
    return np.arange(count) if count <= most else np.linspace(0, count - 1, most).round().astype(np.intp)


def _mean(squares: Vector, times: Vector) -> float:
    """The mean by weight; 1 where that is no unit: nothing is there, or numbers that a computer does not have."""
    total = float(np.sum(times))
    mean = float(np.dot(squares, times)) / total if total > 0 else 0.0
    return mean if 0 < mean < np.inf else 1.0


def _squares(kernel: Kernel, L: Functional, places: Array | None) -> Vector:
    """|L_j|^2, in NumPy; of a conditionally positive definite kernel, whose norm does not see polynomials, that of

    M = L - sum_i b_i f(x_i),   with b from the least squares polynomial at some places: M is zero on polynomials.
    """
    squares = to_numpy(gram(kernel, L).diagonal()).astype(np.float64)
    if places is None:
        return squares
    E = Evaluation(places)
    space = centred(kernel.null_space, [E])
    Q, back = orthonormal(on_basis(E, space), float(np.finfo(np.float64).eps))
    B = on_basis(L, space) @ back @ Q.T
    cross, K = (to_numpy(gram(kernel, one, E).dense()) for one in (L, E))
    return squares - 2 * np.sum(B * cross, axis=1) + np.sum((B @ K) * B, axis=1)
