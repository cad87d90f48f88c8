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

The terms of a problem: labels, and invariances at the points they are about.

The problem of the invariant machines, from their parameters and the training points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, Vector, like, taken, to_numpy
from rkhs._calculus.function_spaces import Constant
from rkhs._finite.basis import on_basis, orthonormal
from rkhs._finite.term import Term
from rkhs._gram import gram
from rkhs.estimators._data import Sample
from rkhs.estimators._length_scales import (
    BY_FOLDS,
    DIAGONAL,
    check_metric,
    kernel_by_folds,
    learns_scale,
    learnt_map,
    tuned_kernel,
)
from rkhs.estimators._options import INVARIANCE, as_kernel, as_loss, check_number
from rkhs.functionals import Evaluation, Functional, GraphDifference
from rkhs.functionals.points import centred
from rkhs.invariances import Invariance
from rkhs.invariances.base import as_invariances, resolve_columns
from rkhs.kernels import Kernel
from rkhs.losses import Loss
from rkhs.problem import Problem

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


def invariance_terms(
    invariances: Sequence[Invariance], sample: Sample, units: Units, nu: float, loss: Any, epsilon: float
) -> list[Term]:
    """The terms of all invariances; those that are about no point are left out."""
    places = ((one, about(one, sample)) for one in invariances)
    terms = [invariance_term(one, points, units, nu, loss, epsilon) for one, points in places if points.size]
    return [term for term in terms if term.size and np.any(np.asarray(term.weight) > 0)]


def keeps_rows(machine: Any) -> bool:
    """Return whether an invariance is about the rows of X in their order, as a graph is that the user has made."""
    known = getattr(machine, "invariance", None)
    if isinstance(known, str):
        return False
    return any(getattr(one.maker, "graph", None) is not None for one in as_invariances(known))


def about(one: Invariance, sample: Sample) -> Sample:
    """The points that an invariance is about."""
    return sample if one.on == "all" else sample.take(sample.labelled == (one.on == "labelled"))


def invariance_term(
    one: Invariance,
    points: Sample,
    units: Units,
    nu: float,
    loss: Any,
    epsilon: float,
    size: float | None = None,
    share: float = 1.0,
) -> Term:
    """nu * weight * mean_i sum_j loss(L_ij(f); target) at points, without units; with `loss` if it has none of its own.

    Of one block of many the `size` of functionals is known, and the `share` of the block in the mean.
    """
    given, name = (loss, "invariance_loss") if one.loss is None else (one.loss, "The loss of an Invariance")
    functionals = one(points.X)
    times = 1.0 if one.once else copies(functionals, points.weight)
    size = size_of(one, functionals, units, times) if size is None else size
    own = as_loss(given, INVARIANCE, name, epsilon)
    return units.known(functionals, own, one.target, nu * one.weight, times, size, share)


def size_of(one: Invariance, functionals: Functional, units: Units, times: Any) -> float:
    """s; an invariance that looks at all points together has said it: squares on white noise have the sum 1."""
    if one.once:
        return float(max(functionals.size, 1) ** -0.5)
    return units.size(functionals, times) if functionals.size else 1.0


def copies(functionals: Functional, weight: Vector) -> Any:
    """How often each functional is meant: the weight of its point, or w_i w_j for an edge between two points.

    A family whose first axis is not that of the points cannot be attributed to them and counts once.
    """
    if np.all(weight == 1):
        return 1.0
    if isinstance(functionals, GraphDifference):
        return weight[functionals.edges[:, 0]] * weight[functionals.edges[:, 1]]
    if functionals.shape[0] == len(weight):
        return np.repeat(weight, functionals.size // len(weight))
    return 1.0


FEWEST, HELD = 20, 5  # labels for a learnt metric, one of so many of which is held out


def invariant_problem(machine: Any, sample: Sample) -> Problem:
    """1/2 |f|^2 + C sum_i loss(f(x_i); y_i) + nu mean_i sum_j invariance_loss(L_ij(f)), with a constant if it has one.

    Weights are in the units of the kernel and of the functionals (`units`); leaves that of the kernel as `_unit`.
    """
    return _problem(machine, sample, kernel_of(machine, sample))


def kernel_of(machine: Any, sample: Sample) -> Kernel:
    """The kernel as it is given, or as the words for its scale and metric say, learnt from the labels of a sample."""
    metric = getattr(machine, "metric", None)
    check_metric(metric)
    if metric is not None:
        return _in_learnt_metric(machine, sample, metric == DIAGONAL)
    if not learns_scale(machine):
        return as_kernel(machine.kernel, machine.scale, sample.X)
    if machine.scale == BY_FOLDS:
        return kernel_by_folds(machine, sample, partial(_problem, machine))
    return tuned_kernel(machine, _data(machine, sample.apart()))


def _in_learnt_metric(machine: Any, sample: Sample, diagonal: bool) -> Kernel:
    """The kernel k(Tx, Ty), T learnt from the slopes of f; leaves T'T as `metric_`."""
    sample = sample.apart()
    own = np.flatnonzero(sample.labelled)
    if len(own) < FEWEST:
        raise ValueError(
            f"metric={machine.metric!r} holds out a fifth of the labels to see whether it helps, and there are only "
            f"{len(own)}: it needs {FEWEST}. Leave `metric` out."
        )
    held = np.random.default_rng(0).permutation(own)[: len(own) // HELD]
    labelled = sample.labelled.copy()
    labelled[held] = False
    part, judged = replace(sample, labelled=labelled), sample.take(np.sort(held))
    term = machine._label_term(judged, 1.0)
    weight, target = to_numpy(term.weights())[:, 0], to_numpy(term.target).reshape(len(held), -1)

    def in_metric(rows: Sample, T: Any) -> Kernel:
        return as_kernel(machine.kernel, machine.scale, rows.X @ like(T.T, rows.X)) @ T

    def learn(T: Any) -> Any:
        problem = _problem(machine, part, in_metric(part, T))
        return problem.solve(machine.solver, tol=machine.tol, verbose=machine.verbose or None).function

    def losses(f: Any) -> Any:
        values = to_numpy(f(judged.X)).reshape(target.shape)
        return weight * np.sum(to_numpy(term.loss.value(values, target)), axis=1)

    T = learnt_map(sample.X, learn, losses, diagonal)
    machine.metric_ = T.T @ T
    return in_metric(sample, T)


def _data(machine: Any, sample: Sample) -> list[Term]:
    """What was observed, its weights in the units of a kernel with values of variance one."""
    data = [machine._label_term(sample, machine.C)] if np.any(sample.labelled) else []
    return data if sample.slopes is None else [*data, machine._slope_term(sample, machine.C)]


def _known(machine: Any, sample: Sample, units: Units) -> list[Term]:
    """What is known besides."""
    nu = check_number(machine.nu, "nu", or_zero=True)
    known = machine.invariance
    if sample.slopes is not None and isinstance(known, str) and known == "gradient":
        known = None  # slopes that were measured are not also said to be small
    invariances = [one for one in as_invariances(known) if one.hard_constraint is None] if nu > 0 else []
    at_points = resolve_columns(invariances, getattr(machine, "feature_names_in_", None))
    return invariance_terms(at_points, sample, units, nu, machine.invariance_loss, machine.epsilon)


def _problem(machine: Any, sample: Sample, kernel: Kernel) -> Problem:
    """With a kernel."""
    units = Units.of(kernel, sample)
    machine._unit = units.variance
    terms = [*map(units.data, _data(machine, sample)), *_known(machine, sample, units)]
    basis = Constant() if machine.fit_intercept else None
    where: dict[str, Any] = {name: getattr(machine, name, None) for name in ("device", "precision", "approximation")}
    return Problem(kernel, terms, basis, **where)
