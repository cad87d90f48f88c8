"""From the configuration of an estimator and its training points to a `Problem`, with weights that have no units.

Before any data f is a Gaussian process with covariance k: a value f(x) has the variance k(x, x), and L(f) has |L|^2,
the squared norm of L in the RKHS.  With their means over the training points and over the functionals of an invariance,

    v = mean of k(x_i, x_i),        s^2 = mean of |L_ij|^2 / v

L_ij(f) / s is typically as large as a value of f, whatever the units of features are.  The problem of the estimators is

    1/2 |f|^2  +  C / v  sum_i loss(f(x_i); y_i)  +  nu / v  mean_i sum_j loss(L_ij(f) / s; target / s)

The mean is over the first axis of the family, which is that of the points, or of edges; the sum over all functionals at
one point: all its slopes, and their squares are those of any directions.  Of the Gaussian v = 1, and of its gradients
s = 1 / scale: squared losses are  nu scale^2 mean_i |grad f(x_i)|^2.  The kernel 7 k, features in other units or given
twice, repeated rows and more of them leave it where it was.  This is the one place where C and nu become weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, Matrix, Vector, taken, to_numpy
from rkhs._estimators.data import Sample
from rkhs._estimators.length_scales import resolve_kernel
from rkhs._estimators.options import INVARIANCE, ModelConfig, as_loss, check_number
from rkhs._finite.basis import on_basis, orthonormal
from rkhs._finite.term import Term
from rkhs._gram import gram
from rkhs._problem import Problem
from rkhs.functionals import Evaluation, Functional, GraphDifference
from rkhs.functionals._points import centered
from rkhs.invariances import Invariance
from rkhs.invariances._base import as_invariances, resolve_columns
from rkhs.kernels import Kernel
from rkhs.losses import Loss

MOST_NORMS = 2048  # functionals, evenly spaced, over which norms are averaged where there are more


@dataclass(frozen=True, eq=False)
class FormulatedProblem:
    """A problem, the variance v that its weights are divided by, and the metric of its kernel, if that was learned."""

    problem: Problem
    variance: float
    metric: Matrix | None = None


def formulate(config: ModelConfig, sample: Sample) -> FormulatedProblem:
    """Return the problem of the formula at the top, with a constant that is not penalized if there is an intercept."""
    kernel, metric = resolve_kernel(config, sample, lambda rows, kernel: _with_kernel(config, rows, kernel)[0])
    return FormulatedProblem(*_with_kernel(config, sample, kernel), metric)


def _with_kernel(config: ModelConfig, sample: Sample, kernel: Kernel) -> tuple[Problem, float]:
    norms = WeightNormalization.at(kernel, sample.X, sample.weight)
    nu, known = check_number(config.nu, "nu", or_zero=True), config.invariance
    if sample.slopes is not None and isinstance(known, str) and known == "gradient":
        known = None  # slopes that were measured are not also assumed to be small
    at_points = [one for one in as_invariances(known) if one.hard_constraint is None] if nu > 0 else []
    terms = [norms.observed(term) for term in config.observed_terms(sample)]
    for one in resolve_columns(at_points, config.feature_names):
        points = points_of(one, sample)
        if points.size:  # else it concerns none
            term = invariance_term(one, points, norms, replace(config, nu=nu))
            terms += [term] if term.size and np.any(np.asarray(term.weight) > 0) else []
    options = config.options
    where = {"device": options.device, "precision": options.precision, "approximation": config.approximation}
    return Problem(kernel, terms, config.basis, **where), norms.variance


def keeps_rows(invariance: Any) -> bool:
    """Return whether an invariance depends on the order of the rows of X, as a graph does that the user has made."""
    if isinstance(invariance, str):
        return False
    return any(getattr(one.maker, "graph", None) is not None for one in as_invariances(invariance))


def points_of(one: Invariance, sample: Sample) -> Sample:
    """Return the points that an invariance is about."""
    return sample if one.on == "all" else sample.take(sample.labeled == (one.on == "labeled"))


def invariance_term(
    one: Invariance,
    points: Sample,
    norms: WeightNormalization,
    config: ModelConfig,
    size: float | None = None,
    share: float = 1.0,
) -> Term:
    """Return nu * weight * mean_i sum_j loss(L_ij(f) / s; target / s) at points.

    Of one block of many the `size` s of functionals is known, and the `share` of the block in the mean.
    """
    functionals = one(points.X)
    times = 1.0 if one.once else multiplicity(functionals, points.weight)
    size = size_of(one, functionals, norms, times) if size is None else size
    loss = as_loss(one.loss, INVARIANCE, "The loss of an Invariance")
    return norms.invariance(functionals, loss, one.target, config.nu * one.weight, times, size, share)


def size_of(one: Invariance, functionals: Functional, norms: WeightNormalization, times: Any) -> float:
    """Return s; of an invariance that looks at all points together, squares on white noise have the sum 1."""
    if one.once:
        return float(max(functionals.size, 1) ** -0.5)
    return norms.size(functionals, times) if functionals.size else 1.0


def multiplicity(functionals: Functional, weight: Vector) -> Any:
    """Return how often each functional counts: the weight of its point, w_i w_j for an edge, or once if it has none."""
    if np.all(weight == 1):
        return 1.0
    if isinstance(functionals, GraphDifference):
        return weight[functionals.edges[:, 0]] * weight[functionals.edges[:, 1]]
    if functionals.shape[0] == len(weight):
        return np.repeat(weight, functionals.size // len(weight))
    return 1.0


@dataclass(frozen=True, eq=False)
class WeightNormalization:
    """A kernel with the mean v of its k(x, x) at points, which are kept where it is conditionally positive definite."""

    kernel: Kernel
    variance: float  # v
    points: Array | None = None

    @classmethod
    def at(cls, kernel: Kernel, X: Array, weight: Vector) -> WeightNormalization:
        """Compute v from points (t, n) and their weights."""
        points = taken(X, _spaced(len(X), 256)) if kernel.order else None  # where polynomials are fitted
        rows = _spaced(len(X), MOST_NORMS)
        return cls(kernel, _mean(_squared_norms(kernel, Evaluation(taken(X, rows)), points), weight[rows]), points)

    def observed(self, term: Term) -> Term:
        """Return a term of measurements, whose weight has C as its factor, with C / v."""
        return term if self.variance == 1.0 else term.changed(weight=np.asarray(term.weight) / self.variance)

    def size(self, L: Functional, times: Any) -> float:
        """Return s of functionals that count `times` each."""
        rows, each = _rows(L)
        some = _spaced(rows, max(32, MOST_NORMS // each))  # of a few points at least
        index = (some[:, None] * each + np.arange(each)).ravel()
        squares = _squared_norms(self.kernel, L if len(index) == L.size else L.take(index), self.points)
        return float(np.sqrt(_mean(squares, np.broadcast_to(times, L.size)[index]) / self.variance))

    def invariance(
        self, L: Functional, loss: Loss, target: float, weight: float, times: Any, size: float, share: float = 1.0
    ) -> Term:
        """Return weight / v * mean_i sum_j loss(L_ij(f) / s; target / s), or the share in it of one of many blocks."""
        rows, each = _rows(L)
        total = rows * times if isinstance(times, float) else float(np.sum(times)) / each
        mean = weight * share / (self.variance * total) * times if total > 0 else weight * times
        found = loss.in_units(size)
        if found is None:
            return Term(L / size, loss, target=target / size, weight=mean)
        scaled, factor = found
        return Term(L, scaled, target=target, weight=factor * mean)


def _rows(L: Functional) -> tuple[int, int]:
    """Return the rows of a family, and the number of functionals in each."""
    rows = int(L.shape[0]) if L.shape else 1
    return rows, max(1, L.size // max(rows, 1))


def _spaced(count: int, most: int) -> Vector:
    return np.arange(count) if count <= most else np.linspace(0, count - 1, most).round().astype(np.intp)


def _mean(squares: Vector, times: Vector) -> float:
    """Return the mean by weight; 1 where it is undefined, zero or overflows."""
    total = float(np.sum(times))
    mean = float(np.dot(squares, times)) / total if total > 0 else 0.0
    return mean if 0 < mean < np.inf else 1.0


def _squared_norms(kernel: Kernel, L: Functional, points: Array | None) -> Vector:
    """Return |L_j|^2; of a conditionally positive definite kernel, whose norm does not see polynomials, that of

    M = L - sum_i b_i f(x_i),   with b from the least squares polynomial at some points: M is zero on polynomials.
    """
    squares = to_numpy(gram(kernel, L).diagonal()).astype(np.float64)
    if points is None:
        return squares
    E = Evaluation(points)
    space = centered(kernel.null_space, [E])
    Q, back = orthonormal(on_basis(E, space), float(np.finfo(np.float64).eps))
    B = on_basis(L, space) @ back @ Q.T
    cross, K = (to_numpy(gram(kernel, one, E).dense()) for one in (L, E))
    return squares - 2 * np.sum(B * cross, axis=1) + np.sum((B @ K) * B, axis=1)
