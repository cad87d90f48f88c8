"""What distances are measured by, learnt from all points, labelled or not.

Features are taken as they are or divided by their deviations.  Of these

    all features             x
    principal components     the first few directions in which points differ most
    decorrelated features    S^-1/2 x  with the covariance S, so that points differ by the same in every direction

Distances in many noisy features say little: what two classes differ by is lost among all else.  Where classes are
clusters they differ along the first components, and this is what unlabelled points are worth most for (cluster kernels:
Chapelle, Weston and Scholkopf 2003).  Where features are many measurements of few things, with classes in what is left,
as in brain signals, decorrelated ones are what classical discriminants look at (Mahalanobis 1936).

A length scale for each feature, learnt by evidence, where that predicts labels it has not seen.

Evidence with a prior that draws the logarithms of scales to their mean finds which features matter (theory, section 9).
It has seen all labels, so that leave-one-out errors flatter it.  It is judged by labels that it has not seen: those of
each of three folds, by scales learnt from the two others, compared label by label with the best candidate that has no
learnt scales.  Scales are taken where the mean squared error falls by a standard error (`judging.falls`).

The search begins at the best common scale and its C.

Length scales that are learnt from labels, by the word that is given for them.

"evidence", "loo"   one for each feature, as by `Problem.tune`, the losses taken as squared ones
"cv"                the best of a few multiples of the median distance, of features as they are and divided by their
                    standard deviations, by the loss itself of labels that are left out, a fifth at a time

A metric learnt from the slopes of f itself: directions in which f changes much count more.

With G = mean over points of (grad f)(grad f)', the average gradient outer product (AGOP), the next kernel is k(Tx, Ty),
T = G^(1/2), and f is learnt again: the recursive feature machine of Radhakrishnan, Beaglehole, Pandit and Belkin
(Science, 2024).  Features are first divided by their standard deviations, and T has a fixed size, so that units do not
matter.

A round may also do harm: slopes of a poor f point anywhere.  So a fifth of the labels is held out, and a round is kept
only where their loss falls, compared label by label, by more than chance (`improves`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.model_selection import KFold

from rkhs._backend.arrays import Matrix, Vector, taken, to_numpy
from rkhs._calculus.function_spaces import Constant
from rkhs._finite.term import Term
from rkhs.estimators._cross_validation import dealt, fold_values
from rkhs.estimators._data import Sample
from rkhs.estimators._options import KERNELS, LEARNT, SCALED
from rkhs.estimators._scoring import SCALES, Candidate, Labelled, falls, left_out, mean_fall, without_group
from rkhs.functionals import Evaluation, Gradient
from rkhs.invariances.graph import Graph, principal_directions
from rkhs.kernels import Kernel, learn, median_scale
from rkhs.losses import Squared
from rkhs.problem import Problem

ALIKE = 1e-6  # share below which differences of standard deviations, and these themselves, are rounding
COMPONENTS = (3, 10, 30)  # principal ones, of more features
DECORRELATED = 500  # features that are decorrelated
SEEN = 1000  # points of which a median distance is found


@dataclass(frozen=True, eq=False)
class Measure:
    """What features are divided by, a number or one each, and a linear map (m, n) of them, None for themselves."""

    unit: Any
    linear: Vector | None = None
    components: int | None = None  # how many of them the map leaves, where it leaves these

    @property
    def graphs(self) -> bool:
        """Whether a `Graph` knows it."""
        return self.linear is None or self.components is not None

    def points(self, X: Vector) -> Vector:
        """The points (t, m) whose distances are meant."""
        scaled = X / self.unit
        return scaled if self.linear is None else scaled @ self.linear.T

    def kernel(self, kernel: Any, scale: float, kernel_of: KernelOf) -> tuple[Any, Any]:
        """The parameters `kernel` and `scale` of an estimator that say the same."""
        if self.linear is not None:
            return kernel_of(kernel, scale) @ (self.linear / self.unit), scale
        each = np.asarray(scale * self.unit)
        return kernel, float(each) if each.ndim == 0 else tuple(each.tolist())

    def graph(self, neighbours: int, power: int) -> Graph:
        """The graph of neighbours by these distances."""
        return Graph(neighbours, power, scale=self.unit, components=self.components)

    def median(self, X: Vector, distance: str) -> float:
        """The median distance of some of the points."""
        some = X if len(X) <= SEEN else np.random.default_rng(0).choice(X, SEEN, replace=False)
        return median_scale(self.points(some), distance=distance)


def measures(X: Vector) -> Iterator[Measure]:
    """Those to try for points X (t, n): features themselves first."""
    t, n = X.shape
    spread = X.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    alike = np.ptp(spread) <= ALIKE * spread.max()
    units: list[Any] = [1.0] if alike else [1.0, spread]
    yield from map(Measure, units)
    for unit in units if min(t, n) > min(COMPONENTS) else []:
        directions = principal_directions(X / unit, max(COMPONENTS) + 1)
        along = (X / unit @ directions.T).std(axis=0)
        several = int(np.sum(along > ALIKE * along[0]))  # features that are others in other words are no directions
        yield from (Measure(unit, directions[:count], count) for count in COMPONENTS if count < several)
    if 1 < n <= DECORRELATED and t > 1:
        yield Measure(spread, decorrelating(X / spread))


def decorrelating(X: Vector) -> Vector:
    """(S + s I)^-1/2 with the covariance S of points X (t, n).

    s = tr S / t is about how wrong each variance is that t points tell.  It does not change when a feature is split
    into equal ones that together say the same.

    Examples
    --------
    >>> X = np.random.default_rng(0).standard_normal((1000, 2)) @ [[1.0, 0.9], [0.0, 0.5]]
    >>> bool(np.allclose(np.cov((X @ decorrelating(X)).T), np.eye(2), atol=0.05))
    True
    """
    variances, U = scipy.linalg.eigh(np.cov(X.T, bias=True))
    variances = np.clip(variances, 0.0, None)
    least = max(float(variances.sum()) / len(X), np.finfo(float).tiny)
    return np.asarray((U / np.sqrt(variances + least)) @ U.T)


LEARNING_FOLDS = 3
FEWEST = 30  # labels from which scales are learnt
ITERATIONS = (30, 100)  # of the search for them: of classes, and of values, which may have no noise
LEARNT_LABELS = 600  # labels from which they are learnt, if there are more
ENTRIES = 5e7  # features times squared labels: derivatives of so many entries take about half a second of one core
PRIOR = 1.0  # standard deviation of the logarithms of scales

KernelOf = Callable[[Any, Any], Any]  # from a name and a scale to a kernel


@dataclass(frozen=True, eq=False)
class Metrics:
    """Learns scales from labels at points X (l, n), which are all labelled, for kernels without a fixed scale."""

    X: Vector
    labelled: Labelled
    kernel_of: KernelOf
    Cs: Sequence[float]
    intercept: bool

    def candidate(self, first: Candidate, base: Candidate) -> Candidate | None:
        """A kernel with learnt scales, with its error on labels that the scales have not seen.

        The search begins at `first`.  None where the errors of `base` do not fall.
        """
        kernel, everything = first.kernel, np.arange(len(self.X))
        scale = self.learnt(first, everything)
        if scale is None:
            return None
        C, values = self._best(kernel, scale, everything)
        without = self._without(base.kernel, base.scale, base.C)
        if not self.falls(without, values):  # not even where they have seen the labels
            return None
        found = without.copy()
        for group, rest in self.folds():
            own = self.learnt(first, rest)
            if own is None:
                return None
            found[group] = self._group(kernel, own, self._best(kernel, own, rest)[0], group)
            if self.labelled.loss(found) > self.labelled.loss(without):  # worse so far
                return None
        if not self.falls(without, found):
            return None
        return Candidate.of(self.labelled, found, SCALES, kernel, scale, None, 0.0, C)

    def learnt(self, first: Candidate, rows: Vector) -> tuple[float, ...] | None:
        """The scales that make the labels of some rows most likely; None where these say nothing."""
        some, X = self.labelled.take(rows), self.X[rows]
        if len(np.unique(X, axis=0)) < 2:
            return None
        spread = X.std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        start = float(np.exp(np.mean(np.log(np.asarray(first.scale) / spread))))
        kernel = self.kernel_of(first.kernel, learn(start=start, each=True))
        weight = learn(start=first.C) * some.weight
        term = Term(Evaluation(X / spread), Squared(), some.target, weight=weight)
        problem = Problem(kernel, [term], Constant() if self.intercept else None)
        iterations = ITERATIONS[self.labelled.classes is None]
        most = min(LEARNT_LABELS, max(FEWEST, int((ENTRIES / X.shape[1]) ** 0.5)))
        tuned: Any = problem.tune(starts=1, prior=PRIOR, functionals=most, iterations=iterations, verbose=False)
        return tuple((spread * tuned.kernel.scale).tolist()) if np.isfinite(tuned.tuning.value) else None

    def falls(self, before: Vector, after: Vector) -> bool:
        """Whether errors fall by more than chance."""
        own = self.labelled
        return falls(own.squares(before), own.squares(after), own.weight)

    def folds(self) -> Iterator[tuple[Vector, Vector]]:
        """The labels of each fold, and the others; the same whatever the order and the units of the points are."""
        order = np.lexsort(self.X.T)
        classes = np.zeros(len(order), int) if self.labelled.classes is None else self.labelled.classes[order]
        shuffled = np.random.default_rng(0).permutation(len(order))
        shuffled = shuffled[np.argsort(classes[shuffled], kind="stable")]  # so that each fold has its share of a class
        place = np.empty(len(order), int)
        place[order[shuffled]] = np.arange(len(order)) % LEARNING_FOLDS
        for k in range(LEARNING_FOLDS):
            yield np.flatnonzero(place == k), np.flatnonzero(place != k)

    def _best(self, kernel: Any, scale: Any, rows: Vector) -> tuple[float, Vector]:
        """The C of the least leave-one-out error of some rows, and what it predicts for each."""
        some = self.labelled.take(rows)
        K = self.kernel_of(kernel, scale)(self.X[rows])
        found = list(left_out(K, some.target, some.weight, self.Cs, self.intercept))
        best = int(np.argmin([some.loss(values) for values in found]))
        return self.Cs[best], found[best]

    def _group(self, kernel: Any, scale: Any, C: float, group: Vector) -> Vector:
        K = self.kernel_of(kernel, scale)(self.X)
        return without_group(K, self.labelled, C, self.intercept, group)

    def _without(self, kernel: Any, scale: Any, C: float) -> Vector:
        """What fixed settings predict for each fold."""
        found = np.zeros_like(self.labelled.target)
        for group, _ in self.folds():
            found[group] = self._group(kernel, scale, C, group)
        return found


BY_FOLDS = "cv"
WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the median distance
PARTS, CV_LABELS = 5, 1000  # folds, and labels that are in them


def learns_scale(machine: Any) -> bool:
    """Whether scales are learnt from labels."""
    return isinstance(machine.scale, str) and machine.scale in LEARNT


def check_named(machine: Any) -> None:
    """Refuse kernels whose scale is not ours to set."""
    if machine.kernel not in SCALED:
        raise ValueError(
            f"scale={machine.scale!r} is for kernels given by name that have one, {', '.join(SCALED)}, got "
            f"kernel={machine.kernel!r}: use Problem.tune, or a number."
        )


def tuned_kernel(machine: Any, data: Sequence[Term]) -> Kernel:
    """The kernel with a scale for each feature, by the criterion that `scale` names, from squared losses."""
    check_named(machine)
    terms = [Term(one.functional, Squared(), one.told, weight=learn() * to_numpy(one.weights())[:, 0]) for one in data]
    basis = Constant() if machine.fit_intercept else None
    problem = Problem(KERNELS[machine.kernel](learn(each=True)), terms, basis)
    tuned: Any = problem.tune(machine.scale, verbose=machine.verbose or None)
    return tuned.kernel


def kernel_by_folds(machine: Any, sample: Sample, problem_of: Callable[[Sample, Kernel], Problem]) -> Kernel:
    """The kernel whose scale has the least loss of labels that are left out."""
    check_named(machine)
    if sample.slopes is not None:
        raise ValueError(
            'scale="cv" leaves labels out, and slopes that were measured at their points would tell them: use '
            'scale="loo", which leaves whole points out.'
        )
    some = _some(sample)
    kernels = list(_candidates(machine, some))
    losses = [_loss(problem_of(some, kernel)) for kernel in kernels]
    return kernels[int(np.argmin(losses))]


def _some(sample: Sample) -> Sample:
    """Return at most `CV_LABELS` labelled rows, and as many others, none of them merged: each may be left out alone."""
    sample = sample.apart()
    random = np.random.default_rng(0)
    kinds = [np.flatnonzero(sample.labelled), np.flatnonzero(~sample.labelled)]
    some = [rows if len(rows) <= CV_LABELS else random.choice(rows, CV_LABELS, replace=False) for rows in kinds]
    return sample.take(np.sort(np.concatenate(some)))


def _candidates(machine: Any, sample: Sample) -> Iterator[Kernel]:
    """All features with one scale, and each in units of its deviation."""
    X = to_numpy(sample.X).astype(np.float64)
    make: Any = KERNELS[machine.kernel]
    distance = make(1.0).distance
    spread = X.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    for units in (None, spread) if X.shape[1] > 1 else (None,):
        median = median_scale(X if units is None else X / units, distance=distance)
        for width in WIDTHS:
            yield make(width * median if units is None else tuple((width * median * units).tolist()))


def _loss(problem: Problem) -> float:
    """The mean loss, by weight, of the labels that are left out."""
    term = problem.terms[0]
    count = np.ones(term.size, dtype=int)
    left_out = dealt(KFold(min(PARTS, term.size), shuffle=True, random_state=0), count)
    values, rows, _ = fold_values(problem, left_out, count, 'Scales by "cv"')
    target, weight = to_numpy(term.target)[rows], to_numpy(term.weights())[rows, 0]
    losses = to_numpy(term.loss.value(values, target)).reshape(len(rows), -1).sum(axis=1)
    found = float(np.average(losses, weights=weight))
    return found if np.isfinite(found) else np.inf


FULL, DIAGONAL = "agop", "agop-diagonal"
ROUNDS = 6
POINTS = 4000  # at which slopes are averaged, if there are more
SURE = 2.0  # standard errors by which more losses fall than rise
EVEN = 0.1  # of each feature's weight that a diagonal metric keeps, whatever its slopes are


def check_metric(metric: Any) -> None:
    """Refuse what is no metric."""
    if metric is not None and not (isinstance(metric, str) and metric in (FULL, DIAGONAL)):
        raise ValueError(f'metric must be None, "{FULL}" or "{DIAGONAL}", got {metric!r}.')


def learnt_map(
    X: Any,
    learn: Callable[[Matrix], Any],
    losses: Callable[[Any], Matrix],
    diagonal: bool,
) -> Matrix:
    """T (n, n), as far as it helps.

    `learn(T)` is the f that is learnt from some labels in the metric |Tx - Ty|; `losses(f)` are its losses (l,) at
    the labels that are held out.
    """
    rows = np.sort(np.random.default_rng(0).permutation(len(X))[:POINTS])
    points = taken(X, rows)
    spread = to_numpy(X).astype(np.float64).std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    best = np.diag(1 / spread)
    f = learn(best)
    before = losses(f)
    for _ in range(ROUNDS):
        slopes = to_numpy(Gradient(points)(f)).astype(np.float64)
        T = _root(_outer(slopes, spread), diagonal) / spread
        if not np.all(np.isfinite(T)):
            break
        f = learn(T)
        after = losses(f)
        if not improves(before, after):
            break
        best, before = T, after
    return best


def improves(before: Matrix, after: Matrix) -> bool:
    """Whether losses fall by more than chance: their mean by a standard error, or most of them.

    Most of them: so many more fall than rise that it is two standard errors of a fair coin, and the mean falls.  Where
    few labels have most of the loss, the mean says nothing about all others.

    Examples
    --------
    >>> improves(np.array([1.0, 1.0, 1.0]), np.array([0.5, 0.6, 0.4]))
    True
    >>> improves(np.array([1.0, 1.0, 1.0]), np.array([0.0, 2.0, 0.5]))
    False
    """
    mean, error = mean_fall(before, after, np.ones(len(before)))
    most = float(np.mean(np.sign(before - after))) * len(before) ** 0.5 > SURE
    return mean > error or (most and mean > 0)


def _outer(slopes: Matrix, spread: Matrix) -> Matrix:
    """G for features divided by their spread, from slopes (t, n) or (t, n, outputs)."""
    along = np.moveaxis(slopes.reshape(*slopes.shape[:2], -1), 2, 0).reshape(-1, len(spread)) * spread
    return np.asarray(along.T @ along / len(slopes))


def _root(G: Matrix, diagonal: bool) -> Matrix:
    """G^(1/2), or that of its diagonal, with a mean square of one on the diagonal of its square."""
    if diagonal:
        own = np.diag(G) / np.mean(np.diag(G))
        return np.diag(np.sqrt((1 - EVEN) * own + EVEN))
    values, axes = np.linalg.eigh(G)
    return np.asarray((axes * np.sqrt(np.clip(values, 0, None))) @ axes.T / np.sqrt(np.mean(np.diag(G))))
