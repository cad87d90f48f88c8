"""The families of kernels that the automatic search compares by leave-one-out errors of tables.

Each is a function of the scorer and of the outcomes so far that yields batches of trials.  Kernels without priors come
first (`Smooth`), the weighted sum of the best ones of all families last (`Sums`): errors of few labels cannot decide
between them.

*Graphs.*  `Graphs.neighbors` yields the kernels of graphs of nearest neighbors of labeled and unlabeled points, with
several cutoffs.  `Graphs.clusters` depends on the points alone: it assumes that points of one cluster share a class.
It is the sum of

    a Gaussian kernel of standardized features, and one of their first three principal components,
    a kernel of the graph of features divided by their ranges, and one of standardized features,

each with the mean variance one.  The cutoff of a graph kernel is the largest one with at most as many degrees of
freedom as there are classes: then its functions are nearly constant on that many clusters.  Where points form no
clusters this leaves the constants, which are free anyway, and the Gaussian kernels decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from itertools import product
from math import inf
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Array, Matrix, Vector, placed, take_rows, to_numpy, unique_rows
from rkhs._core.backend.memory import map_in_threads
from rkhs._core.calculus.atoms import mapped
from rkhs._core.finite.function import Function
from rkhs._core.finite.monitor import Stopped
from rkhs._core.finite.solution import TIME_LIMIT
from rkhs._core.graphs.neighbor_graph import NeighborGraph
from rkhs._core.limits import limits
from rkhs._core.progress import seconds_left, with_progress_callback
from rkhs.estimators._data import Sample
from rkhs.estimators._length_scales import (
    WIDTHS,
    FeatureTransform,
    NormalizedKernels,
    deviations,
    feature_maps,
    units_of,
)
from rkhs.estimators.search._decide import TINY, USUAL_C, chosen, index_of_C, least, members, weighted
from rkhs.estimators.search._scorers import (
    BEYOND,
    FACTORIZED,
    MANY_CLASSES,
    LeaveOneOutScorer,
    ScoringTargets,
    folds,
    free_variance,
    leave_one_out,
)
from rkhs.estimators.search._search import Family, Outcome, Trial, choose, paired_test
from rkhs.exceptions import warn
from rkhs.functionals import Evaluation
from rkhs.kernels import (
    GraphKernel,
    Kernel,
    Laplace,
    Linear,
    Polynomial,
    Standardized,
    Sum,
    Tunable,
    additive,
    median_scale,
)
from rkhs.kernels._algebra import LinearTransform
from rkhs.kernels._graph import graph_kernels, kernel_matrices
from rkhs.kernels._scaled import LEAST
from rkhs.solvers._libsvm import svm

Batches = Iterator[Sequence[Any]]
GIVEN = FeatureTransform(1.0)  # of length scales that are given
FEWEST_LABELS = 30  # labels needed to learn one scale for each feature
FEW = 300  # labels by whose evidence kernels with learned scales are compared
MOST_LEARNED = 400  # labels from which length scales are learned
KEPT = 12  # one of so many trials is kept by the errors of a sample, if labels are many
MARGIN_FOLDS, MARGIN_CS, DEGREES = (
    10,
    (100.0, 1.0, 10.0, 1e3, 1e4),
    (2, 3),
)  # folds, C and polynomials for the hinge loss
MOST_MARGINS, FEWEST_MISTAKES = (
    3000,
    3,
)  # labels times outputs for which folds take a second; errors that can fall clearly
# Heavy tails: distance from the median, in deviations, from which features are clipped; the bound of clipped ones, in
# interquartile ranges; and the share of the squared error to which it must fall.
TAILS, CLIPPED, FALL = 10.0, 3.0, 0.9
MAPS = 2  # feature maps with which graphs are tried, those with the smallest errors without a graph
TRENDS = (1.0, 10.0)  # factors on the linear kernel in a sum with another kernel
ADDITIVE_WIDTHS = (0.3, 1.0, 3.0, 10.0)  # length scales of additive kernels, in deviations of the features
POWER, CUTOFFS = 2, (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
NEIGHBORS, FEWER = 10, (5, 10)  # of a graph; tried for many classes, of which few points are near each other
MORE_COMPONENTS = 100  # tried besides the usual number for many points of many features
SMALL = 4000  # points up to which several graphs are tried
CLUSTER_POWER = 3
LOWER_CUTOFFS = (0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 5e-4, 2e-4)
LOWEST_CUTOFFS = (1e-4, 5e-5, 2e-5, 1e-5)  # for small graphs; polynomials of high degree take long
MOST_ADDITIVE = 100  # features up to which additive kernels, which have a kernel for each, are tried


def check_size(X: Matrix) -> None:
    """Raise an error if squared distances of points overflow or underflow."""
    largest = float(np.max(np.abs(X), initial=0.0))
    if largest > 0 and not LEAST <= largest <= 1 / LEAST:
        raise ValueError(
            f"Squared distances of features of size {largest:.1e} overflow or underflow float64: rescale the "
            f"features to values between {LEAST:.1e} and {1 / LEAST:.1e}."
        )


def linear_kernel(X: Matrix) -> Kernel:
    """Return the linear kernel of standardized features, with the mean k(x, x) = 1 at points X (t, n)."""
    return Linear() @ standardization(X)


def standardization(X: Matrix) -> Standardized:
    """Return the map to standardized features with the mean squared norm 1 at points X (t, n)."""
    unit = deviations(X) * X.shape[1] ** 0.5
    return Standardized(tuple(X.mean(axis=0).tolist()), tuple(unit.tolist()))


def promising(scorer: LeaveOneOutScorer, trials: Sequence[Trial], most: int) -> list[Trial]:
    """Return the `most` trials with the smallest errors of a sample of the labels, if these are many.

    They keep the values of C around that of the smallest error.  The best trial of each kernel that is given by name is
    kept in any case.
    """
    targets, Cs = scorer.targets, scorer.Cs
    count = len(targets.rows)
    if count <= 2 * FEW:
        return list(trials)
    sample = targets.take(np.sort(np.random.default_rng(0).choice(count, FEW, replace=False)))
    scored: list[Any] = []
    for outcomes in map_in_threads(replace(scorer, targets=sample), trials):
        scored.append([one.loss for one in outcomes])
        if seconds_left() <= 0:
            break
    trials, losses = trials[: len(scored)], np.array(scored)
    errors = losses.min(axis=1)
    kept = set(nsmallest(most, range(len(trials)), key=errors.__getitem__))
    for name in {one.kernel for one in trials if isinstance(one.kernel, str)}:
        kept.add(min((k for k, one in enumerate(trials) if one.kernel == name), key=errors.__getitem__))
    first = np.clip(losses.argmin(axis=1) - FACTORIZED // 2, 0, max(len(Cs) - FACTORIZED, 0))
    return [replace(trials[k], Cs=Cs[first[k] : first[k] + FACTORIZED]) for k in sorted(kept)]


def starts(scorer: LeaveOneOutScorer, found: Sequence[Outcome]) -> list[Outcome]:
    """Return the best outcome of each kernel without priors that is given by name, with a C of the grid."""
    best: dict[str, Outcome] = {}
    for one in found:
        name = one.params["kernel"]
        if one.kind == "none" and isinstance(name, str) and one.params["C"] in scorer.Cs:
            best[name] = min(best.get(name, one), one, key=lambda outcome: outcome.loss)
    return list(best.values())


@dataclass(frozen=True)
class Smooth:
    """Kernels without priors, of several length scales after each of the `feature_maps`."""

    names: Sequence[Any]  # the kernels to compare
    scales: Sequence[Any] | None = None  # None for multiples of the median distance after each map
    one_unit: bool = False  # whether all features are measured in the same unit
    rotations: bool = True  # whether maps of the features that mix them are tried

    def __call__(self, scorer: LeaveOneOutScorer, found: list[Outcome]) -> Batches:
        check_size(scorer.X)
        trials = list(self._trials(scorer))
        yield trials if self.scales else promising(scorer, trials, -(-len(trials) // KEPT))

    def _trials(self, scorer: LeaveOneOutScorer) -> Iterator[Trial]:
        if self.scales:
            yield from (Trial(*one, family=one[0], features=GIVEN) for one in product(self.names, self.scales))
            return
        rows, subset = scorer.samples
        maps = feature_maps(rows, self.one_unit)
        for k, features in enumerate(f for f in maps if self.rotations or f.linear is None):
            kind = "none" if features.linear is None else "features"
            for kernel in self.names:
                distance = scorer.kernels(kernel, 1.0).distance
                if features.linear is not None and (kernel is not self.names[0] or distance != "euclidean"):
                    continue  # one kernel suffices, and other distances depend on the axes, which the map would change
                median = median_scale(features.points(subset), distance=distance)
                family = (kind, kernel, k) if kind == "none" else (kind, features.components)
                for width in WIDTHS:
                    named = features.kernel(kernel, median * width, scorer.kernels)
                    yield Trial(*named, kind, family=family, features=features)


def trends(scorer: LeaveOneOutScorer, found: list[Outcome]) -> Batches:
    """Yield sums of the best kernels with a linear one."""
    kernels, labeled = scorer.kernels, scorer.X[scorer.targets.rows]
    if len(labeled) < FEWEST_LABELS:
        return
    best = [kernels(one.params["kernel"], one.params["scale"]) for one in starts(scorer, found)]
    trend = linear_kernel(labeled)
    sums = [kernels(kernel + share * trend, 1.0) for kernel, share in product(best, TRENDS)]
    yield promising(scorer, [Trial(total, kind="trend", family="trend") for total in sums], 2)


def additive_sums(scorer: LeaveOneOutScorer, found: list[Outcome]) -> Batches:
    """Yield sums of functions of one feature each, which are steep enough for thresholds.

    Trees are good where a few columns act alone, and so is an additive model (Hastie and Tibshirani 1990).
    """
    if not 1 < scorer.X.shape[1] <= MOST_ADDITIVE:
        return
    spread = deviations(scorer.samples[0])
    sums = (additive([Laplace(scale) for scale in (width * spread).tolist()], len(spread)) for width in ADDITIVE_WIDTHS)
    yield promising(scorer, [Trial(scorer.kernels(one, 1.0), kind="additive", family="additive") for one in sums], 2)


def refined(scorer: LeaveOneOutScorer, found: list[Outcome]) -> Batches:
    """Yield the best kernel with values of C between two of the grid."""
    yield [scorer.between(least(found))]


@dataclass(frozen=True)
class LearnedScales:
    """The best kernels with a learned length scale for each feature, if one is significantly better."""

    refines: bool = False  # whether C may lie between two values of the grid

    def __call__(self, scorer: LeaveOneOutScorer, found: list[Outcome]) -> Batches:
        labeled = scorer.X[scorer.targets.rows]
        if len(labeled) >= FEWEST_LABELS and labeled.shape[1] > 1:
            learned = ScaleLearner(scorer, labeled, self.refines).outcome(starts(scorer, found), least(found))
            yield [] if learned is None else [learned]


@dataclass(frozen=True)
class Sums:
    """The weighted sum of the best kernels of all families (`_decide`)."""

    refines: bool = False  # whether C may lie between two values of the grid

    def __call__(self, scorer: LeaveOneOutScorer, found: list[Outcome]) -> Batches:
        with with_progress_callback(_check_time):
            yield [self._combined(scorer, found)]

    def _combined(self, scorer: LeaveOneOutScorer, found: list[Outcome]) -> Outcome:
        """Return the weighted sum of the kernels of outcomes, by the labels that are evidence."""
        targets, kernels, Cs = scorer.targets, scorer.kernels, np.asarray(scorer.Cs)
        parts = weighted(members(found), targets.evidence)
        if len(parts) == 1:
            return replace(parts[0][1], parts=parts)
        summands: list[Kernel] = []
        K = np.zeros((len(targets.rows), len(targets.rows)))
        unseen = 0.0  # the ratio of errors at labels from which no scales were learned, to those at labels that were
        for weight, part in parts:
            kernel = kernels(part.params["kernel"], part.params["scale"])
            matrix = scorer.matrix(kernel)
            [own] = leave_one_out(matrix, targets.target, targets.weight, [part.params["C"]])
            unseen += weight * (part.loss / max(targets.loss(own), TINY) if part.kind == "scales" else 1.0)
            # k = sum_j w_j k_j / v_j
            factor = weight / free_variance(matrix)
            summands.append(factor * kernel)
            K += factor * matrix
        total = Sum(tuple(summands))
        variance = kernels.variance(total)
        if self.refines:
            Cs = np.sort(np.concatenate([Cs, np.sqrt(Cs[1:] * Cs[:-1])]))
        predictions = list(leave_one_out(K / variance, targets.target, targets.weight, Cs.tolist()))
        losses = np.array([targets.loss(values) for values in predictions])
        classes, count = targets.classes, targets.evidence
        k = int(losses.argmin()) if classes is None else index_of_C(Cs, losses, count, 1 / variance)
        one = targets.scored(Trial(kernels(total, 1.0), kind="sum"), float(Cs[k]), predictions[k])
        return replace(one.with_errors(max(unseen, 1.0), classes is None), parts=parts)


@dataclass(frozen=True, eq=False)
class Clipped:
    """The same families with features of heavy tails clipped smoothly, accepted if errors are clearly smaller.

    z = (x - median) / (interquartile range) becomes z / sqrt(1 + (z / 3)^2), as in RealMLP (Holzmueller et al. 2024).
    """

    families: Sequence[Family]
    sample: Sample

    def __call__(self, scorer: LeaveOneOutScorer, found: list[Outcome]) -> Batches:
        X, spread = scorer.X, deviations(scorer.X)
        middle, base = np.median(X, axis=0), chosen(found)
        if np.max(np.abs(X - middle) / spread) < TAILS or base.loss <= TINY:
            return
        between = np.subtract(*np.quantile(X, [0.75, 0.25], axis=0))
        clip = Standardized(tuple(middle.tolist()), tuple(np.where(between > 0, between, spread).tolist()), CLIPPED)
        sample = replace(self.sample, X=clip.values(X))
        kernels = replace(scorer.kernels, sample=sample)
        inner, (first, *others) = replace(scorer, X=sample.X, kernels=kernels), self.families
        plain = choose([first], inner).found  # if these are no better, all others are not tried
        better = least(plain).loss < least([one for one in found if one.kind in ("none", "features")]).loss
        best = chosen(choose([lambda *_: [plain], *others], inner).found if better else plain)
        kernel = kernels(best.params["kernel"], best.params["scale"]) @ clip
        params = {**best.params, "kernel": kernel, "scale": 1.0}
        accepted = best.loss < FALL * base.loss
        yield [replace(best, params=params, kind="clipped", family="clipped", parts=(), accepted=accepted)]


@dataclass(frozen=True, eq=False)
class LargeMargin:
    """The hinge loss with one of the best kernels so far or a polynomial, accepted if it has clearly fewer errors.

    Where classes follow a rule without noise, the squared loss pays for points that are far on the right side, and the
    hinge does not.  Both are compared by the labels of folds.  The best of several settings seems better than it is, so
    that the numbers of errors e have to differ by more than a standard error, sqrt(e_1 + e_2), of independent counts.
    """

    def __call__(self, scorer: LeaveOneOutScorer, found: list[Outcome]) -> Batches:
        targets, base = scorer.targets, chosen(found)
        count, outputs = targets.target.shape
        if count < FEWEST_LABELS or count * outputs > MOST_MARGINS or base.error * count < FEWEST_MISTAKES:
            return
        parts = list(folds(count, targets.classes, MARGIN_FOLDS))
        inner, groups = standardization(scorer.X[scorer.targets.rows]), [group for group, _ in parts]
        known = [(one.params["kernel"], one.params["scale"]) for one in (base, *starts(scorer, found))]
        pairs = [*known, *((Polynomial(degree) @ inner, 1.0) for degree in DEGREES)]
        matrices = [(kernel, scorer.matrix(kernel)) for kernel in (scorer.kernels(*pair) for pair in pairs)]
        [values] = leave_one_out(matrices[0][1], targets.target, targets.weight, [base.params["C"]], groups)
        before = targets.error(values)
        tried = list(map_in_threads(lambda pair: left_out(targets, pair[0], pair[1], MARGIN_CS[0], parts), matrices))
        best = min(tried, key=lambda one: (one.error, one.loss))
        if best.error <= before:
            kernel, K = matrices[tried.index(best)]
            more = map_in_threads(lambda C: left_out(targets, kernel, K, C, parts), MARGIN_CS[1:])
            best = min([best, *more], key=lambda one: (one.error, one.loss))
        # e_1 - e_2 > sqrt((e_1 + e_2) / l) for shares of l labels
        yield [replace(best, accepted=before - best.error > ((before + best.error) / count) ** 0.5)]


def left_out(
    targets: ScoringTargets, kernel: Kernel, K: Matrix, C: float, parts: Sequence[tuple[Vector, Vector]]
) -> Outcome:
    """Return the outcome of the hinge loss for the labels of folds, from the kernel matrix K (l, l)."""
    values, labels = np.empty_like(targets.target), np.where(targets.target < 0, -1.0, 1.0)
    for (group, rest), k in product(parts, range(labels.shape[1])):
        a, c = svm(K[np.ix_(rest, rest)], labels[rest, k], C * targets.weight[rest], np.ones((len(rest), 1)))
        values[group, k] = K[np.ix_(group, rest)] @ a + c
    return targets.scored(Trial(kernel, kind="margin", loss="hinge"), C, values)


def _check_time(fraction: float) -> None:
    if seconds_left() <= 0:
        raise Stopped(TIME_LIMIT)


@dataclass(frozen=True, eq=False)
class ScaleLearner:
    """Learns a length scale for each feature by evidence, and accepts it if it predicts unseen labels better.

    The prior shrinks the logarithms of the scales towards their mean.  Since the scales depend on
    all labels, leave-one-out errors would be optimistic.  Scales are therefore scored in three folds: the labels of
    each fold are predicted with scales learned from the other two, and the errors are compared label by label with
    those of the best candidate without learned scales, whose leave-one-out error times their ratio is the score.  Of
    several kernels for values only the one with the largest evidence is scored; classes are no values with noise, and
    the evidence of their labels would not compare kernels.
    The points X (l, n) are those of the labels.
    """

    scorer: LeaveOneOutScorer
    X: Matrix
    refines: bool = False  # whether C may lie between two values of the grid

    def outcome(self, starts: Sequence[Outcome], base: Outcome) -> Outcome | None:
        """Return the best candidate with scales learned from one of the starts, if it beats `base`; else None."""
        every, regression = np.arange(len(self.X)), self.scorer.targets.classes is None
        learned = map_in_threads(lambda first: self.learned(first, every, FEW if regression else MOST_LEARNED), starts)
        found = list(zip(learned, starts, strict=True))
        if regression:
            _, first = best = max(found, key=lambda pair: pair[0][0])
            found = [best if len(every) <= FEW else (self.learned(first, every), first)]
        scored = [self._scored(first, scale, base) for (evidence, scale), first in found if evidence > -inf]
        return min((one for one in scored if one is not None), key=lambda one: one.loss, default=None)

    def _scored(self, first: Outcome, scale: tuple[float, ...], base: Outcome) -> Outcome | None:
        """Return the candidate with these scales, learned from a start, if it beats `base`; else None."""
        targets, kernels, name = self.scorer.targets, self.scorer.kernels, first.params["kernel"]
        seen, parts = self._best(name, scale, np.arange(len(self.X))), list(folds(len(self.X), targets.classes, 3))

        def left_out(kernel: Kernel, C: float, groups: list[Vector]) -> Matrix:
            [values] = leave_one_out(kernel(self.X), targets.target, targets.weight, [C], groups)
            return values

        usual = kernels(base.params["kernel"], base.params["scale"])
        baseline = left_out(usual, base.params["C"], [group for group, _ in parts])
        before = targets.squares(baseline)
        if not paired_test(before, targets.squares(seen.values), targets.weight):
            return None  # not even with scales that have seen the labels

        def predicted(fold: tuple[Vector, Vector]) -> Matrix | None:
            """Return the predictions for the labels of a fold, None if the other labels determine no scales."""
            evidence, scale = self.learned(first, fold[1])
            if evidence == -inf:
                return None
            C = self._best(name, scale, fold[1]).params["C"]
            return left_out(kernels(name, scale), C, [fold[0]])[fold[0]]

        predictions = baseline.copy()
        for (group, _), values_of_fold in zip(parts, map_in_threads(predicted, parts), strict=True):
            if values_of_fold is None:
                return None
            predictions[group] = values_of_fold
            if targets.loss(predictions) > targets.loss(baseline):  # already worse after these folds
                return None
        if not paired_test(before, targets.squares(predictions), targets.weight):
            return None
        # Errors in folds, which learn from fewer labels, are larger than those of single labels that are left out.
        scored = targets.scored(Trial(name, scale, "scales", family="scales"), seen.params["C"], predictions)
        loss = base.loss * scored.loss / targets.loss(baseline)
        if targets.classes is not None:
            return replace(scored, loss=loss)
        return scored.with_errors(loss / scored.loss, True)

    def learned(self, first: Outcome, rows: Vector, most: int = MOST_LEARNED) -> tuple[float, tuple[float, ...]]:
        """Return the logarithm of the maximum evidence for the labels of these rows, and its scales.

        It is minus infinity if the labels determine no scales.  At most `most` labels are used.
        """
        subset, X = self.scorer.targets.take(rows), self.X[rows]
        if len(unique_rows(X)[0]) < 2:
            return -inf, ()
        spread = deviations(X)
        start = float(np.exp(np.mean(np.log(np.asarray(first.params["scale"]) / spread))))
        kernel = self.scorer.kernels(first.params["kernel"], Tunable(start=start, each=True))
        iterations = 100 if subset.classes is None else 30  # targets without noise need more than classes do
        most = min(most, max(FEWEST_LABELS, int((5e7 / X.shape[1]) ** 0.5)))  # labels; half a second per step on a core
        tuned = subset.tuned(kernel, X / spread, first.params["C"], most, iterations)
        evidence = float(tuned.tuning.value)
        return evidence if np.isfinite(evidence) else -inf, tuple((spread * tuned.kernel.scale).tolist())

    def _best(self, kernel: Any, scale: Any, rows: Vector) -> Outcome:
        """Return the candidate with the smallest leave-one-out error on these rows, over all C."""
        scorer = replace(self.scorer, targets=self.scorer.targets.take(rows))
        best = min(scorer(Trial(kernel, scale)), key=lambda one: one.loss)
        return min([best, *(scorer(scorer.between(best)) if self.refines else [])], key=lambda one: one.loss)


@dataclass(frozen=True, eq=False)
class Graphs:
    """The graphs of nearest neighbors of points, each of which is built once."""

    X: Matrix  # (t, n)
    one_unit: bool = False  # whether all features are measured in the same unit
    device: str | None = None  # where they are computed
    built: dict[Any, NeighborGraph] = field(default_factory=dict)

    @property
    def place(self) -> Any:
        """An empty array where the products are computed."""
        empty = placed(np.empty(0), self.device, None)
        return np.empty(0) if empty is None else empty

    @property
    def components(self) -> list[int | None]:
        """The numbers of principal components to try in searches of neighbors, None for the default.

        Which of 50 and 100 is better depends on the features: on 60,000 images 50 of pixels, and 100 of edge
        directions.
        """
        (t, n), at = self.X.shape, limits()
        if t <= at.projected_rows or n <= at.projected_features or (self.device is None and t > at.exact_neighbors):
            return [None]
        return [at.projected_features, min(MORE_COMPONENTS, n)]

    def graph(self, unit: Any, components: int | None, neighbors: int = NEIGHBORS) -> NeighborGraph:
        """Return the graph of the points divided by `unit`."""
        count, key = min(neighbors, len(self.X) - 1), (np.asarray(unit).tobytes(), components, neighbors)
        if key not in self.built:
            self.built[key] = NeighborGraph.of(self.X, count, unit, components, device=self.device)
        return self.built[key]

    def candidates(
        self, labels: Vector, features: FeatureTransform, neighbors: int
    ) -> Iterator[tuple[GraphKernel, Matrix]]:
        """Yield graph kernels after a feature map, with their matrices (l, l) of the labeled points."""
        place = self.place
        for number in self.components if features.components is None else [features.components]:
            kernels = graph_kernels(self.graph(features.unit, number, neighbors), POWER, CUTOFFS, place)
            yield from zip(kernels, kernel_matrices(kernels, self.X[labels], place), strict=True)

    def neighbors(self, scorer: LeaveOneOutScorer, found: list[Outcome]) -> Batches:
        """Yield kernels of graphs after the feature maps with the smallest errors.

        There is one graph if the points are many, since its neighbors take long to find.
        """
        least: dict[FeatureTransform, float] = {}  # loss of each feature map, without a graph
        for one in found:
            if one.features is not None:
                least[one.features] = min(least.get(one.features, inf), one.loss)
        few, several = len(self.X) <= SMALL, scorer.targets.target.shape[1] >= MANY_CLASSES
        maps = [f for f in least if f.linear is None or (f.components is not None and few)]
        best = nsmallest(MAPS if few and not several else 1, maps, key=least.__getitem__)
        each = product(best if scorer.targets.evidence else [], FEWER if several else [NEIGHBORS])
        for k, (features, count) in enumerate(each):
            with with_progress_callback(_check_time):
                for kernel, K in self.candidates(scorer.targets.rows, features, count):
                    yield [Trial(kernel, kind="graph", matrix=K, family=("graph", k))]

    def clusters(self, scorer: LeaveOneOutScorer, found: list[Outcome]) -> Batches:
        """Yield the assumption that rows of one cluster share a class, whose C is fixed."""
        targets, kernels = scorer.targets, scorer.kernels
        few = targets.classes is not None and int(np.bincount(targets.classes).min()) <= BEYOND
        if targets.classes is None or not (few or len(self.X) <= SMALL):
            return
        with with_progress_callback(_check_time):
            most = min(max(targets.target.shape[1], 2), len(targets.rows))
            kernel = kernels(self.cluster_sum(most, scorer.samples[1], found[0].params["kernel"], kernels), 1.0)
            yield [Trial(kernel, kind="clusters", Cs=[USUAL_C], family="clusters")]

    def cluster_sum(self, most: int, rows: Matrix, kernel: Any, kernels: NormalizedKernels) -> Kernel:
        """Return the sum of kernels that assumes clusters, of which there are at most as many as given.

        `rows` is a sample of the points, for covariances and medians.
        """
        units = units_of(rows, self.one_unit)
        maps = [FeatureTransform(units[-1])]
        named: Any = kernels(kernel, 1.0)
        if named.distance == "euclidean":
            maps += [f for f in feature_maps(rows) if f.components == 3 and np.array_equal(f.unit, units[-1])]
        summands: list[Kernel] = []
        for features in maps:
            median = median_scale(features.points(rows), distance=named.distance)
            summands.append(kernels(*features.kernel(kernel, median, kernels)))
        graphs = [self.graph(unit, self.components[-1]) for unit in units]
        return Sum((*summands, *(cluster_kernel(graph, most, self.place) for graph in graphs)))


def cluster_kernel(graph: NeighborGraph, most: int, place: Array) -> GraphKernel:
    """Return the kernel with the largest cutoff that has at most `most` degrees of freedom.

    Connected components count: there are no fewer degrees of freedom than components.
    """
    most = max(most, int(graph.components.max(initial=0)) + 1)
    cutoffs = LOWER_CUTOFFS + (LOWEST_CUTOFFS if len(graph.nodes) <= limits().spectral_nodes else ())
    for cutoff in cutoffs:
        [kernel] = graph_kernels(graph, CLUSTER_POWER, [cutoff], place)
        if kernel.degrees_of_freedom <= 1.05 * most:  # the trace is an estimate
            break
    return kernel


def unreached(graph: NeighborGraph, labels: Vector) -> int:
    """Return the number of nodes in connected components without a label, given the nodes that have one."""
    return int(np.sum(~np.isin(graph.components, np.unique(graph.components[labels]))))


def warn_of_unreached(graph: NeighborGraph, X: Array, labeled: Vector) -> int:
    """Warn if no label of the points X (t, n) of a graph can reach some nodes; return the number of these nodes.

    A label of a point that is no node reaches the neighbors of the point.
    """
    count = unreached(graph, graph.on_nodes(take_rows(X, np.flatnonzero(labeled))).indices)
    if count:
        warn(
            f"{count} distinct rows are in components of the graph of nearest neighbors that have no label: their "
            "predictions rest on the other rows alone. Label a row of each component, or join them with a larger "
            "n_neighbors, as in kernel=GraphKernel(NeighborGraph.of(X, n_neighbors=30))."
        )
    return count


def graphs_in(kernel: Any) -> list[NeighborGraph]:
    """Return the graphs of the graph kernels in a sum, also of those of some of the features."""
    summands: Sequence[tuple[float, Kernel]] = kernel.summands() if isinstance(kernel, Kernel) else ()
    return [inner.graph for inner, _ in (untransformed(k) for _, k in summands) if isinstance(inner, GraphKernel)]


def untransformed(kernel: Kernel) -> tuple[Kernel, Matrix | None]:
    """Return the kernel k_1 and the matrix A of a kernel k_1 @ A; None if it has none."""
    return (kernel.kernel, kernel.linear) if isinstance(kernel, LinearTransform) else (kernel, None)


def as_new_points(function: Function, X: Array, rows: Vector) -> tuple[Matrix, Matrix]:
    """Return the values (r, q) that f would have at some of the points X if these were not nodes, and those it has."""
    points = take_rows(X, rows)
    values = np.zeros((len(rows), function.outputs or 1))
    if function.basis is not None:
        coefficients = to_numpy(function.basis_coefficients).reshape(-1, values.shape[1])
        values += to_numpy(Evaluation(points).assemble(function.basis.on)) @ coefficients
    between = values.copy()
    for weight, kernel in function.kernel.summands():
        part = Function(weight * kernel, function.functionals, function.coefficients)
        inner, linear = untransformed(kernel)
        if not isinstance(inner, GraphKernel):
            own = to_numpy(part(points)).reshape(values.shape)
            values, between = values + own, between + own
            continue
        index = inner.graph.index_of(mapped(X, linear))
        nodes = np.zeros((len(inner.graph.nodes), values.shape[1]))
        nodes[index] = to_numpy(part(X)).reshape(len(index), -1)
        values = values + nodes[index[rows]]
        between = between + inner.graph.as_new_points(index[rows]) @ nodes
    return between, values
