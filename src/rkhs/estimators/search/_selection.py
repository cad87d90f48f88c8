"""The automatic search: its candidates, their leave-one-out errors, and the choice: do unlabeled points help?

*Leave-one-out.*  A candidate is a kernel, its length scales, and C.  One eigendecomposition gives the leave-one-out
errors for all C and all classes (`LeaveOneOutScorer`).  Unlabeled points enter through the kernel: distances of
principal components and of decorrelated features, and the kernels of graphs of all points.  A point
whose label is left out stays in as an unlabeled point.  Errors of few labels cannot decide between candidates, and a
weighted sum of kernels is chosen (`combination`); the kernels of graphs are in `graph_candidates`.

*Evidence.*  Models with measured slopes compare kernels of different smoothness by the evidence of their targets.
Maps, which are regressions with many points in at most three dimensions, have a search of their own (`maps`).

*Landmarks.*  For more labels than an exact fit can afford, the squared errors of held-out rows are compared for 1,000
and 2,000 landmarks, learned from a part of the rows.  If the errors fall, f has more detail than these can show, and as
many landmarks are used as a minute affords.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import nsmallest
from itertools import product
from math import inf
from typing import Any

import numpy as np
import scipy
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from rkhs._core.backend.arrays import Matrix, Vector, to_numpy, unique_rows
from rkhs._core.backend.memory import map_in_threads, single_blas
from rkhs._core.calculus.function_spaces import Constant
from rkhs._core.finite.monitor import Monitor, Stopped, slowness
from rkhs._core.finite.problem import FiniteProblem
from rkhs._core.finite.solution import TIME_LIMIT, Record
from rkhs._core.finite.sums import KEPT_BYTES
from rkhs._core.finite.term import Term
from rkhs._core.gram import gram
from rkhs._core.limits import limits
from rkhs._core.problem import Problem
from rkhs._core.progress import now, seconds_left, with_progress_callback
from rkhs.estimators._combination import (
    BEYOND,
    TINY,
    USUAL_C,
    Combination,
    evidence,
    families,
    free_variance,
    index_of_C,
    weighted,
)
from rkhs.estimators._data import Sample, drawn_rows, predicted_codes
from rkhs.estimators._formulation import ModelConfig
from rkhs.estimators._length_scales import (
    WIDTHS,
    EvidenceScorer,
    FeatureTransform,
    deviations,
    feature_maps,
)
from rkhs.estimators._maps import DIMENSIONS, can_map
from rkhs.estimators.search._graph_candidates import CUTOFFS, SMALL, Graphs
from rkhs.estimators.search._search import Candidate, paired_test, row_losses, search
from rkhs.exceptions import warn
from rkhs.functionals import Evaluation
from rkhs.kernels import Kernel, Laplace, Linear, Standardized, Sum, Tunable, additive, median_scale
from rkhs.kernels._scaled import LEAST
from rkhs.losses import Loss, Squared
from rkhs.solvers._base import Estimate
from rkhs.spaces import Landmarks

_SHRUNK = {"solver": "lsqr", "shrinkage": "auto"}  # the shrinkage of Ledoit and Wolf (2004)
LEAST_NOISE = 5e-3  # deviation of noise that models with other losses than the squared one assume, relative to targets
KINDS = ("none", "additive", "features", "trend", "scales", "graph", "clusters", "sum")  # of priors
NONE, ADDITIVE, FEATURES, TREND, SCALES, GRAPH, CLUSTERS, SUM = KINDS
OF_ALL_POINTS = (FEATURES, GRAPH, CLUSTERS)  # kinds of kernels that are computed from the unlabeled points too
FEWEST_LABELS = 30  # labels needed to learn one scale for each feature
FEW = 300  # labels by whose evidence kernels with learned scales are compared
MOST_LEARNED = 400  # labels from which length scales are learned
FACTORIZED = 3  # values of C up to which Cholesky factorizations are faster than an eigendecomposition


@dataclass(frozen=True, eq=False)
class ScoringTargets:
    """The labels by which candidates are scored, and the distinct points that they belong to.

    The labels of one point are left out together.  To the squared loss they are one label, their weighted mean, with
    the sum of their weights (`target`, `weight`); errors are those of all labels.
    """

    rows: Vector  # (p,) the indices of the distinct points
    point: Vector  # (l,) the point of each label
    labels: Matrix  # (l, q)
    importance: Vector  # (l,) the weights of the labels
    codes: Vector | None  # (l,) class indices; None in regression

    @classmethod
    def of(cls, rows: Vector, labels: Matrix, importance: Vector, groups: Vector, codes: Any = None) -> ScoringTargets:
        """Return the labels (l, q) at rows (l,); those with equal `groups` (l,) are at one point."""
        _, first, point = np.unique(groups, return_index=True, return_inverse=True)
        return cls(rows[first], point, labels, importance, codes).normalized()

    def normalized(self) -> ScoringTargets:
        """Return the labels with weights whose sum is the number of points."""
        return replace(self, importance=self.importance * len(self.rows) / self.importance.sum())

    def take(self, index: Vector) -> ScoringTargets:
        """Return the labels of a subset of the points."""
        position = np.full(len(self.rows), -1)
        position[index] = np.arange(len(index))
        kept = np.flatnonzero(position[self.point] >= 0)
        codes = None if self.codes is None else self.codes[kept]
        return ScoringTargets(
            self.rows[index], position[self.point[kept]], self.labels[kept], self.importance[kept], codes
        )

    @cached_property
    def weight(self) -> Vector:
        """The weight (p,) of each point, with the mean one."""
        return np.bincount(self.point, self.importance, len(self.rows))

    @cached_property
    def target(self) -> Matrix:
        """The weighted mean (p, q) of the labels of each point."""
        return np.stack([self._mean(column) for column in self.labels.T], axis=1)

    @cached_property
    def classes(self) -> Vector | None:
        """The class (p,) with the largest weight at each point; None in regression."""
        if self.codes is None:
            return None
        shares = np.zeros((len(self.rows), int(self.codes.max()) + 1))
        np.add.at(shares, (self.point, self.codes), self.importance)
        return np.asarray(shares.argmax(axis=1))

    def _mean(self, values: Vector) -> Vector:
        """Return the weighted mean (p,) over the labels of each point of values (l,)."""
        return np.bincount(self.point, self.importance * values, len(self.rows)) / self.weight

    def squares(self, values: Matrix) -> Vector:
        """Return the squared errors (p,) of predictions (p, q), averaged over outputs and labels."""
        return self._mean(np.mean((values[self.point] - self.labels) ** 2, axis=1))

    def mistakes(self, predicted: Vector) -> Vector:
        """Return the share (p,) of labels of other classes than those that are predicted for the points (p,)."""
        return self._mean(1.0 * (predicted[self.point] != self.codes))

    def loss(self, values: Matrix) -> float:
        """Return the weighted mean squared error of predictions (p, q), or infinity if it overflows."""
        loss = float(np.average(self.squares(values), weights=self.weight))
        return loss if np.isfinite(loss) else np.inf

    def error(self, values: Matrix) -> float:
        """Return the share of wrong classes of predictions (p, q), or their root mean squared error."""
        if self.codes is None:
            return self.loss(values) ** 0.5
        return float(np.average(self.mistakes(predicted_codes(values)), weights=self.weight))

    def problem(self, kernel: Kernel, X: Matrix, C: Any, device: str | None = None) -> Problem:
        """Return the problem of squared losses of the labels, whose points X (p, n) have the weights C w."""
        term = Term(Evaluation(X), Squared(), self.target, C * self.weight)
        return Problem(kernel, [term], Constant(), device=device)

    def tuned(self, kernel: Kernel, X: Matrix, C: float | None, most: int, iterations: int) -> Any:
        """Return the problem with the open settings of the kernel and C that maximize the evidence of `most` labels."""
        problem = self.problem(kernel, X, Tunable(start=C))
        with single_blas():  # threads gain little at this size, and with 16 cores take ten times as long
            return problem.tune(starts=1, functionals=most, iterations=iterations)

    def scored(self, trial: Trial, C: float, values: Matrix) -> Candidate:
        """Return the candidate with held-out predictions (p, q)."""
        params = {"C": C, "nu": 0.0, "scale": trial.scale, "kernel": trial.kernel, "invariance": None}
        error, loss = self.error(values), self.loss(values)
        score = -loss if self.classes is None else 1 - error
        return Candidate(
            params, loss, np.array([score]), kind=trial.kind, family=trial.family, error=error, values=values
        )


def leave_one_out(
    K: Matrix, target: Matrix, weight: Vector, Cs: Sequence[float], groups: Sequence[Vector] | None = None
) -> Iterator[Matrix]:
    """Yield the leave-one-out predictions (l, q) of the squared loss for each C, from the kernel matrix K (l, l).

    With S = K + diag(1 / (2 C w)) and P its inverse on the subspace 1'a = 0, which is that of an intercept, the
    leave-one-out residual of label i is (P target)_i / P_ii.  For a single label the prediction is 0.  `groups` of
    labels are left out as a whole, with the residuals (P_gg)^-1 (P target)_g.
    """
    if len(target) == 1:
        yield from (np.zeros_like(target) for _ in Cs)
        return
    root, basis = np.sqrt(weight), None
    for V, inverse in inverse_factors(root[:, None] * K * root, Cs):
        if V is not basis:  # S^-1 = U diag(inverse) U'
            basis, U = V, root[:, None] * V
            squares, projected, ones = U**2, U.T @ target, U.sum(axis=0)
        # P = S^-1 - S^-1 1 1'S^-1 / (1'S^-1 1): the residuals are orthogonal to the intercept
        sums, total = U @ (inverse * ones), float(inverse @ ones**2)
        a = U @ (inverse[:, None] * projected) - np.outer(sums, sums @ target) / total
        if groups is None:
            diagonal = squares @ inverse - sums**2 / total
            yield target - a / diagonal[:, None]
            continue
        predictions = target.copy()
        for g in groups:
            P = (U[g] * inverse) @ U[g].T - np.outer(sums[g], sums[g]) / total
            predictions[g] -= np.linalg.solve(P, a[g])
        yield predictions


def inverse_factors(scaled: Matrix, Cs: Sequence[float]) -> Iterator[tuple[Matrix, Vector]]:
    """Yield V (l, l) and d (l,) with (scaled + I / (2 C))^-1 = V diag(d) V' for each C.

    An eigendecomposition serves all C.  For a few of them Cholesky factors L take less time, with V = L'^-1.
    """
    left = list(Cs)
    with single_blas():  # threads gain little at this size, and on a busy computer take ten times as long
        while left and len(Cs) <= FACTORIZED:
            factor, failed = scipy.linalg.lapack.dpotrf(scaled + np.eye(len(scaled)) / (2 * left[0]), lower=1)
            if failed:
                break
            yield scipy.linalg.lapack.dtrtri(factor, lower=1)[0].T, np.ones(len(scaled))
            left.pop(0)
        if left:
            eigenvalues, V = np.linalg.eigh(scaled)
    yield from ((V, 1 / (np.clip(eigenvalues, 0.0, None) + 1 / (2 * C))) for C in left)


def C_for_loss(loss: Loss, C: float, K: Matrix, targets: ScoringTargets) -> float:
    """Return the C of another loss that corresponds to a C of the squared loss, for the kernel matrix K (l, l).

    If noise r has a density proportional to exp(-loss(r) / b), then b is the mean of r loss'(r), and 1/2 |f|^2 + C sum
    loss is minus the logarithm of the posterior density, for a process f of variance C b.  This variance is the same
    for both losses, which determines C from the ratio of the b; it is 2 mean r^2 for the squared loss.  So C has the
    units of the targets that the loss requires.  The noise is that of leave-one-out residuals, shifted by the constant
    that minimizes the loss, since there is an intercept.
    """
    # C <= 1 / (2 LEAST_NOISE^2 v): the noise 1 / (2C) is not below that share of the variance v that f explains
    free = free_variance(K)  # small if the length scale is large: then f with a large norm is nearly a constant
    C, least = min(C, 0.5 / (LEAST_NOISE**2 * free)), LEAST_NOISE * float(targets.labels.std())
    if least == 0:
        return C
    [values] = leave_one_out(K, targets.target, targets.weight, [C])
    share, r = targets.importance[:, None] / targets.importance.sum(), values[targets.point] - targets.labels
    limits = float(r.min()), float(r.max())

    def b(r: Matrix, share: Any) -> float:
        return float(np.sum(share * r * loss.gradient(r, np.zeros_like(r))))

    options = {"bounds": limits, "method": "bounded", "options": {"xatol": 1e-6 * (limits[1] - limits[0])}}
    # c = argmin of sum_i w_i loss(r_i - c);  C * 2 mean r^2 / b
    shift = minimize_scalar(lambda c: np.sum(share * loss.value(r - c, np.zeros_like(r))), **options).x
    size = max(b(r - shift, share), b(np.array([-least, least]), 0.5))
    return C * 2 * max(float(np.sum(share * r**2)), least**2) / size if size > 0 else C


@dataclass(frozen=True, eq=False)
class Trial:
    """A kernel to try, as the parameters of an estimator, with its matrix (l, l) at the labels if that is known."""

    kernel: Any  # a name, or a Kernel
    scale: Any
    kind: str = NONE
    matrix: Matrix | None = None
    Cs: Sequence[float] | None = None  # the values of C to try, if not all
    family: Any = None  # of which the best one is part of a combination

    @classmethod
    def of(cls, candidate: Candidate, *Cs: float) -> Trial:
        """Return the kernel of a candidate with some values of C, by default its own."""
        kernel, scale, C = (candidate.params[name] for name in ("kernel", "scale", "C"))
        return cls(kernel, scale, candidate.kind, Cs=Cs or (C,), family=candidate.family)


@dataclass(frozen=True, eq=False)
class LeaveOneOutScorer:
    """Scores kernels, with each C, by exact leave-one-out errors of the squared loss."""

    X: Matrix  # (t, n)
    targets: ScoringTargets
    kernels: Any  # maps a kernel or its name, and a scale, to the kernel
    Cs: Sequence[float]

    def __call__(self, trial: Trial | Candidate) -> list[Candidate]:
        if isinstance(trial, Candidate):  # scored otherwise
            return [trial]
        K = self.matrix(self.kernels(trial.kernel, trial.scale)) if trial.matrix is None else trial.matrix
        Cs = self.Cs if trial.Cs is None else trial.Cs
        predictions = leave_one_out(K, self.targets.target, self.targets.weight, Cs)
        return [self.targets.scored(trial, C, values) for C, values in zip(Cs, predictions, strict=True)]

    def matrix(self, kernel: Kernel) -> Matrix:
        """Return the matrix (l, l) of a kernel at the labels."""
        return np.asarray(gram(kernel, Evaluation(self.X[self.targets.rows])).dense())

    def between(self, best: Candidate) -> Trial:
        """Return the trial of a candidate's kernel with the values of C halfway to the neighbors in the grid."""
        C, step = best.params["C"], (self.Cs[-1] / self.Cs[0]) ** (0.5 / (len(self.Cs) - 1))
        return Trial.of(best, C / step, C * step)


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

    def candidate(self, starts: Sequence[Candidate], base: Candidate) -> Candidate | None:
        """Return the best candidate with scales learned from one of the starts, if it beats `base`; else None."""
        every, regression = np.arange(len(self.X)), self.scorer.targets.classes is None
        learned = map_in_threads(lambda first: self.learned(first, every, FEW if regression else MOST_LEARNED), starts)
        found = list(zip(learned, starts, strict=True))
        if regression:
            _, first = best = max(found, key=lambda pair: pair[0][0])
            found = [best if len(every) <= FEW else (self.learned(first, every), first)]
        scored = [self._scored(first, scale, base) for (evidence, scale), first in found if evidence > -inf]
        return min((one for one in scored if one is not None), key=lambda one: one.loss, default=None)

    def _scored(self, first: Candidate, scale: tuple[float, ...], base: Candidate) -> Candidate | None:
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
        scored = targets.scored(Trial(name, scale, SCALES, family=SCALES), seen.params["C"], predictions)
        loss = base.loss * scored.loss / targets.loss(baseline)
        if targets.classes is not None:
            return replace(scored, loss=loss)
        return scored.with_errors(loss / scored.loss, True)

    def learned(self, first: Candidate, rows: Vector, most: int = MOST_LEARNED) -> tuple[float, tuple[float, ...]]:
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

    def _best(self, kernel: Any, scale: Any, rows: Vector) -> Candidate:
        """Return the candidate with the smallest leave-one-out error on these rows, over all C."""
        scorer = replace(self.scorer, targets=self.scorer.targets.take(rows))
        best = min(scorer(Trial(kernel, scale)), key=lambda one: one.loss)
        return min([best, *(scorer(scorer.between(best)) if self.refines else [])], key=lambda one: one.loss)


def folds(size: int, classes: Vector | None, count: int) -> Iterator[tuple[Vector, Vector]]:
    """Yield the test and training indices of stratified folds of points, which are in a random order."""
    order = np.arange(size) if classes is None else np.argsort(classes, kind="stable")
    fold = np.empty(size, int)
    fold[order] = np.arange(size) % count
    for k in range(count):
        yield np.flatnonzero(fold == k), np.flatnonzero(fold != k)


@dataclass(frozen=True, eq=False)
class Discriminant:
    """Linear discriminant analysis of one-against-rest scores: g = matrix f + offset.

    A class that lies between two others, such as the middle of low, middle and high, has the largest one-against-rest
    score nowhere.  But the scores of class k have a mean m_k and, in the model of linear discriminant analysis, a
    common covariance S, and the most probable class maximizes

        g_k(x) = m_k'S^-1 f(x) - 1/2 m_k'S^-1 m_k + log share_k

    (flexible discriminant analysis: Hastie, Tibshirani and Buja 1994).  The means and the covariance, with the
    shrinkage of Ledoit and Wolf (2004), are estimated from leave-one-out scores.
    """

    matrix: Matrix  # (classes, classes)
    offset: Vector  # (classes,)
    fitted: bool = True  # to the classes of labels

    @classmethod
    def of(cls, scores: Matrix, codes: Vector) -> Discriminant:
        """Fit the discriminant to leave-one-out scores (l, classes) and class indices (l,)."""
        fitted = LinearDiscriminantAnalysis(**_SHRUNK).fit(scores, codes)
        return cls(fitted.coef_, fitted.intercept_)

    def __call__(self, scores: Matrix) -> Matrix:
        return np.asarray(scores @ self.matrix.T + self.offset)

    @classmethod
    def with_shares(cls, scores: Matrix, shares: Vector) -> Discriminant:
        """Return scores in units of their deviation, plus offsets with which the classes have the given shares.

        The mean over all points of the probabilities, softmax(scores / s + b), is the share of each class (class mass
        normalization: Zhu, Ghahramani and Lafferty 2003).
        """
        unit = float(np.std(scores - scores.mean(axis=1, keepdims=True))) or 1.0
        offset = np.zeros(scores.shape[1])
        for _ in range(300):
            # b <- b + 1/2 log(share / mean_i softmax(g_i / s + b)): iterative scaling
            offset += 0.5 * np.log(shares / softmax(scores / unit + offset, axis=1).mean(axis=0))
        return cls(np.eye(scores.shape[1]) / unit, offset, fitted=False)

    @staticmethod
    def applies(scores: Matrix, codes: Vector) -> bool:
        """Return whether there are at least three classes and three labels of each of them."""
        classes = scores.shape[1]
        enough = classes > 2 and int(np.bincount(codes, minlength=classes).min()) >= 3
        return enough and bool(np.all(np.isfinite(scores)))

    @staticmethod
    def cross_validated(scores: Matrix, codes: Vector) -> Matrix:
        """Return the scores (l, classes) of each fold by a discriminant that is fitted to the other folds."""
        parts = StratifiedKFold(min(FOLDS, int(np.bincount(codes).min())), shuffle=True, random_state=0)
        rule = LinearDiscriminantAnalysis(**_SHRUNK)
        return np.asarray(cross_val_predict(rule, scores, codes, cv=parts, method="decision_function"))


FOLDS = 10  # at most, of labels that are predicted by a discriminant of the others
MAPS = 2  # feature maps with which graphs are tried, those with the smallest errors without a graph
TRENDS = (1.0, 10.0)  # factors on the linear kernel in a sum with another kernel
ADDITIVE_WIDTHS = (0.3, 1.0, 3.0, 10.0)  # length scales of additive kernels, in deviations of the features
MOST_ADDITIVE = 100  # features up to which additive kernels, which have a kernel for each, are tried

# Landmarks.
MAPS_INSTALLED = " Functions of up to three features are learned more accurately with pip install 'rkhs[maps]'."
# Landmarks, and rows that are learned and held out, in units of `Limits.landmarks`.
MOST_COUNT, ROWS, HELD_OUT = 3, 20, 2
PRODUCTS = 200  # Gram products for an output whose loss is not squared; 100 to 400 were measured
MOST_ON_DEVICE = 100_000  # labels up to which an accelerator learns without an approximation
LEAST_FALL = 0.01  # a smaller fall of the error is not worth the time


@dataclass
class SelectionMonitor(Monitor):
    """Progress of a selection: the number of scored kernels, out of about `kernels`, and the remaining time."""

    kernels: int = 0

    def line(self, record: Record) -> str:
        left = record.seconds * max(self.kernels / record.iteration - 1, 0.0)
        return (
            f"choosing: {record.iteration} of about {self.kernels} kernels, {record.seconds:.0f} s, about {left:.0f} s "
            f"to go, least squared error {record.primal:.4g}"
        )


@dataclass(eq=False)
class AutomaticCandidates:
    """The kernels that are compared by leave-one-out errors of labeled points, with the other points unlabeled.

    First come kernels without priors, of several length scales; then the `families`, each of which is a method of this
    class that maps the candidates found so far to batches of further ones.
    """

    scorer: LeaveOneOutScorer
    names: Sequence[Any]  # the kernels to compare
    scales: Sequence[Any] | None  # None for multiples of the median distance after each of the `feature_maps`
    unlabeled: bool = False  # whether there are points without labels
    one_unit: bool = False  # whether all features are measured in the same unit
    rotations: bool = True  # whether maps of the features that mix them are tried
    device: str | None = None  # where graphs are computed
    families: Sequence[Family] = ()  # methods of this class
    monitor: SelectionMonitor = field(default_factory=lambda: SelectionMonitor(0.0))
    combination: Combination | None = None  # the result of the last family

    def __call__(self, found: list[Candidate]) -> Iterator[Sequence[Any]]:
        """Yield the batches of a search."""
        check_size(self.scorer.X)
        tried = list(self._trials())
        kept = self._promising([trial for _, trial in tried], -(-len(tried) // 12))
        trials = list(kept.values())
        self.monitor.kernels = len(trials)
        if AutomaticCandidates.learned_scales in self.families:
            self.monitor.kernels += 20 * len(self.names)  # learning takes as long as 20 kernels
        if AutomaticCandidates.graphs in self.families:
            self.monitor.kernels += (MAPS if len(self.scorer.X) <= SMALL else 1) * len(CUTOFFS)
        yield trials
        losses = np.reshape([candidate.loss for candidate in found], (len(trials), -1)).min(axis=1)
        self.smallest: dict[FeatureTransform, float] = {}  # loss of each feature map, without a graph
        for k, loss in zip(kept, losses, strict=True):
            features = tried[k][0]
            self.smallest[features] = min(self.smallest.get(features, inf), loss)
        plain = [[one for one in found if one.params["kernel"] == name] for name in self.names]
        self.starts = [min(candidates, key=lambda one: one.loss) for candidates in plain if candidates]
        for family in self.families:
            yield from family(self, found)

    def trends(self, found: list[Candidate]) -> Iterator[Sequence[Trial]]:
        """Yield sums of the best kernels with a linear one."""
        kernels, labeled = self.scorer.kernels, self.scorer.X[self.scorer.targets.rows]
        if len(labeled) < FEWEST_LABELS:
            return
        best = [kernels(one.params["kernel"], one.params["scale"]) for one in self.starts]
        trend = linear_kernel(labeled)
        sums = [kernels(kernel + share * trend, 1.0) for kernel, share in product(best, TRENDS)]
        yield list(self._promising([Trial(total, 1.0, TREND, family=TREND) for total in sums], 2).values())

    def additive_sums(self, found: list[Candidate]) -> Iterator[Sequence[Trial]]:
        """Yield sums of functions of one feature each, which are steep enough for thresholds.

        Trees are good where a few columns act alone, and so is an additive model (Hastie and Tibshirani 1990).
        """
        if not 1 < self.scorer.X.shape[1] <= MOST_ADDITIVE:
            return
        spread, kernels = deviations(self._samples[0]), self.scorer.kernels
        sums = (
            additive([Laplace(scale) for scale in (width * spread).tolist()], len(spread)) for width in ADDITIVE_WIDTHS
        )
        trials = [Trial(kernels(total, 1.0), 1.0, ADDITIVE, family=ADDITIVE) for total in sums]
        yield list(self._promising(trials, 2).values())

    def refined(self, found: list[Candidate]) -> Iterator[Sequence[Trial]]:
        """Yield the best kernel with values of C between two of the grid."""
        yield [self.scorer.between(self._best(found))]

    def learned_scales(self, found: list[Candidate]) -> Iterator[Sequence[Candidate]]:
        """Yield the best kernel with a learned length scale for each feature, if it is significantly better."""
        labeled = self.scorer.X[self.scorer.targets.rows]
        if len(labeled) >= FEWEST_LABELS and labeled.shape[1] > 1:
            learner = ScaleLearner(self.scorer, labeled, AutomaticCandidates.refined in self.families)
            learned = learner.candidate(self.starts, self._best(found))
            yield [] if learned is None else [learned]

    def clusters(self, found: list[Candidate]) -> Iterator[Sequence[Candidate]]:
        """Yield the candidate that assumes that rows of one cluster share a class, whose C is fixed."""
        targets, kernels = self.scorer.targets, self.scorer.kernels
        few = targets.classes is not None and int(np.bincount(targets.classes).min()) <= BEYOND
        if targets.classes is None or not (few or len(self.scorer.X) <= SMALL):
            return
        with with_progress_callback(_check_time):
            classes = targets.target.shape[1] if targets.target.shape[1] > 1 else 2
            most = min(classes, len(targets.rows))
            kernel = kernels(self._graphs.cluster_sum(most, self._samples[1], self.names[0], kernels), 1.0)
            [values] = leave_one_out(self.scorer.matrix(kernel), targets.target, targets.weight, [USUAL_C])
            yield [targets.scored(Trial(kernel, 1.0, CLUSTERS, family=CLUSTERS), USUAL_C, values)]

    def graphs(self, found: list[Candidate]) -> Iterator[Sequence[Trial]]:
        """Yield graphs after the feature maps with the smallest errors.

        There is one graph if the points are many, since its neighbors take long to find.
        """
        few = len(self.scorer.X) <= SMALL
        maps = (f for f in self.smallest if f.linear is None or (f.components is not None and few))
        best = nsmallest(MAPS, maps, key=lambda features: self.smallest[features]) if self._evidence else []
        for k, features in enumerate(best if few else best[:1]):
            with with_progress_callback(_check_time):
                for kernel, K in self._graphs.candidates(self.scorer.targets.rows, features):
                    yield [Trial(kernel, 1.0, GRAPH, K, family=(GRAPH, k))]

    def combined(self, found: list[Candidate]) -> Iterator[Sequence[Candidate]]:
        """Yield the weighted sum of the best kernels of all families."""
        with with_progress_callback(_check_time):
            self.combination = self._combination(found)
        yield [self.combination.candidate]

    def _best(self, found: list[Candidate]) -> Candidate:
        return Choice(found, self.scorer.targets, self.unlabeled).best

    @property
    def _evidence(self) -> int:
        """The number of labels whose leave-one-out errors are evidence."""
        targets = self.scorer.targets
        return len(targets.rows) if targets.classes is None else evidence(targets.classes)

    def _trials(self) -> Iterator[tuple[FeatureTransform, Trial]]:
        """Yield the kernels and scales to try, with their feature maps."""
        if self.scales is not None:
            features = FeatureTransform(1.0)
            for kernel, scale in product(self.names, self.scales):
                yield features, Trial(kernel, scale, family=kernel)
            return
        rows, subset = self._samples
        maps = feature_maps(rows, self.one_unit)
        for k, features in enumerate(f for f in maps if self.rotations or f.linear is None):
            kind = NONE if features.linear is None else FEATURES
            for kernel in self.names:
                distance = self.scorer.kernels(kernel, 1.0).distance
                if features.linear is not None and (kernel is not self.names[0] or distance != "euclidean"):
                    continue  # one kernel suffices, and other distances depend on the axes, which the map would change
                median = median_scale(features.points(subset), distance=distance)
                family = (kind, kernel, k) if kind == NONE else (kind, features.components)
                for width in WIDTHS:
                    named = features.kernel(kernel, median * width, self.scorer.kernels)
                    yield features, Trial(*named, kind, family=family)

    def _promising(self, trials: list[Trial], most: int) -> dict[int, Trial]:
        """Return `most` trials by index: those with the smallest errors of a sample of the labels, if these are many.

        They keep the values of C around that of the smallest error.  The best trial of each kernel without priors is
        kept in any case.
        """
        targets, Cs = self.scorer.targets, self.scorer.Cs
        count = len(targets.rows)
        if count <= 2 * FEW or self.scales is not None:
            return dict(enumerate(trials))
        sample = targets.take(np.sort(np.random.default_rng(0).choice(count, FEW, replace=False)))
        scorer = replace(self.scorer, targets=sample)
        scored: list[Any] = []
        for candidates in map_in_threads(scorer, trials):
            scored.append([candidate.loss for candidate in candidates])
            if seconds_left() <= 0:
                break
        trials, losses = trials[: len(scored)], np.array(scored)
        errors = losses.min(axis=1)
        kept = set(nsmallest(most, range(len(trials)), key=errors.__getitem__))
        for name in self.names:
            of_kernel = [k for k, one in enumerate(trials) if one.kernel is name]
            kept |= {min(of_kernel, key=errors.__getitem__)} if of_kernel else set()
        first = np.clip(losses.argmin(axis=1) - FACTORIZED // 2, 0, max(len(Cs) - FACTORIZED, 0))
        return {k: replace(trials[k], Cs=Cs[first[k] : first[k] + FACTORIZED]) for k in sorted(kept)}

    @cached_property
    def _samples(self) -> tuple[Matrix, Matrix]:
        """Up to 4,000 rows for covariances, and up to 1,000 of these for medians."""
        rows = self.scorer.X[drawn_rows(len(self.scorer.X), 4000)]
        return rows, rows if len(rows) <= 1000 else np.random.default_rng(0).choice(rows, 1000, replace=False)

    @cached_property
    def _graphs(self) -> Graphs:
        return Graphs(self.scorer.X, self.one_unit, self.device)

    def _combination(self, found: list[Candidate]) -> Combination:
        """Return the weighted sum of the kernels of candidates, by the labels that are evidence."""
        targets, kernels, Cs = self.scorer.targets, self.scorer.kernels, np.asarray(self.scorer.Cs)
        count = self._evidence
        parts = weighted(families(found), CLUSTERS, SCALES, count)
        if len(parts) == 1:
            return Combination(parts[0][1], parts)
        summands: list[Kernel] = []
        K = np.zeros((len(targets.rows), len(targets.rows)))
        unseen = 0.0  # the ratio of errors at labels from which no scales were learned, to those at labels that were
        for weight, part in parts:
            kernel = kernels(part.params["kernel"], part.params["scale"])
            matrix = self.scorer.matrix(kernel)
            [own] = leave_one_out(matrix, targets.target, targets.weight, [part.params["C"]])
            unseen += weight * (part.loss / max(targets.loss(own), TINY) if part.kind == SCALES else 1.0)
            factor = weight / free_variance(matrix)
            summands.append(factor * kernel)
            K += factor * matrix
        total = Sum(tuple(summands))
        variance = kernels.variance(total)
        if AutomaticCandidates.refined in self.families:
            Cs = np.sort(np.concatenate([Cs, np.sqrt(Cs[1:] * Cs[:-1])]))
        predictions = list(leave_one_out(K / variance, targets.target, targets.weight, Cs.tolist()))
        losses = np.array([targets.loss(values) for values in predictions])
        k = int(losses.argmin()) if targets.classes is None else index_of_C(Cs, losses, count, 1 / variance)
        one = targets.scored(Trial(kernels(total, 1.0), 1.0, SUM), float(Cs[k]), predictions[k])
        return Combination(one.with_errors(max(unseen, 1.0), targets.classes is None), parts)


Family = Callable[[AutomaticCandidates, list[Candidate]], Iterator[Sequence[Any]]]


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
    unit = deviations(X) * X.shape[1] ** 0.5
    return Linear() @ Standardized(tuple(X.mean(axis=0).tolist()), tuple(unit.tolist()))


def _check_time(fraction: float) -> None:
    if seconds_left() <= 0:
        raise Stopped(TIME_LIMIT)


@dataclass(frozen=True, eq=False)
class Choice:
    """The choice among scored candidates, and the report about it."""

    found: Sequence[Candidate]
    targets: ScoringTargets
    unlabeled: bool  # whether there are points without labels
    combination: Combination | None = None  # what is chosen if there is one
    scorer: LeaveOneOutScorer | None = None  # None if rows that were not learned from scored the candidates

    @property
    def errors(self) -> str:
        """Of what the errors of candidates are."""
        return "Held-out rows" if self.scorer is None else "Leave-one-out"

    def each(self, kinds: Sequence[str] = KINDS) -> list[Candidate]:
        """Return the best candidate of each kind; of several C with nearly the smallest loss the smallest."""
        found = []
        for kind in kinds:
            candidates = [candidate for candidate in self.found if candidate.kind == kind]
            if candidates:
                best = min(candidates, key=lambda candidate: candidate.loss)
                same = {**best.params, "C": None}
                near = [c for c in candidates if {**c.params, "C": None} == same and c.loss <= 1.001 * best.loss]
                found.append(min(near, key=lambda candidate: candidate.params["C"]))
        return found

    def least(self, kinds: Sequence[str]) -> Candidate | None:
        """Return the candidate of some kinds with the smallest loss; of equal ones that of the first kind."""
        return min(self.each(kinds), key=lambda candidate: candidate.loss, default=None)

    @cached_property
    def best(self) -> Candidate:
        """The combination, or the candidate with the smallest loss; of equal kinds the first of `KINDS`."""
        best = self.least(KINDS) if self.combination is None else self.combination.candidate
        assert best is not None  # those of the kind NONE are scored first
        return best

    @property
    def assumes_clusters(self) -> bool:
        """Whether no label is evidence for or against the assumption that clusters are classes, which is made."""
        codes = self.targets.classes
        return self.best.kind == CLUSTERS and codes is not None and not evidence(codes)

    @property
    def parts(self) -> Sequence[tuple[float, Candidate]]:
        """The kernels whose sum is chosen, with their weights."""
        return [(1.0, self.best)] if self.combination is None else self.combination.parts

    def share(self, kinds: Sequence[str]) -> float:
        """Return the weight of kernels of some kinds."""
        return sum(weight for weight, part in self.parts if part.kind in kinds)

    @cached_property
    def discriminant(self) -> tuple[Discriminant | None, float]:
        """The discriminant of the scores, None unless it lowers the errors significantly, and the share of errors."""
        values, codes, weight = self.best.values, self.targets.classes, self.targets.weight
        if codes is None or np.any(weight != weight[0]) or not Discriminant.applies(values, codes):
            return None, self.best.error
        if self.scorer is None:
            predicted, discriminated = map(predicted_codes, (values, Discriminant.cross_validated(values, codes)))
        else:
            predicted, discriminated = self._with_discriminant(self.scorer)
        before, after = self.targets.mistakes(predicted), self.targets.mistakes(discriminated)
        if not paired_test(before, after, weight):
            return None, self.best.error
        return Discriminant.of(values, codes), float(np.mean(after))

    def _with_discriminant(self, scorer: LeaveOneOutScorer) -> tuple[Vector, Vector]:
        """Return the classes (p,) of points in folds without their labels, by the largest score and a discriminant.

        The leave-one-out score of a label depends on all others, those of its fold too.  Therefore a discriminant is
        fitted to scores that are computed without the fold.
        """
        targets, params = self.targets, self.best.params
        K, codes = scorer.matrix(scorer.kernels(params["kernel"], params["scale"])), np.asarray(targets.classes)
        count = min(FOLDS, int(np.bincount(codes).min()))
        parts = list(folds(len(codes), codes, count))
        [values] = leave_one_out(K, targets.target, targets.weight, [params["C"]], [held_out for held_out, _ in parts])
        discriminated = np.empty_like(codes)
        for held_out, rest in parts:
            part = targets.take(rest)
            [scores] = leave_one_out(K[np.ix_(rest, rest)], part.target, part.weight, [params["C"]])
            discriminated[held_out] = predicted_codes(Discriminant.of(scores, codes[rest])(values[held_out]))
        return predicted_codes(values), discriminated

    @property
    def sentence(self) -> str:
        """A sentence about the weights or the gain of unlabeled points, and about the discriminant if there is one."""
        best, using, parts = self.best, self.least(OF_ALL_POINTS), self.parts
        without = self.least([kind for kind in KINDS if kind not in (*OF_ALL_POINTS, SUM)])
        regression = self.targets.classes is None
        what = "root mean squared error" if regression else "errors"

        def shown(candidate: Candidate) -> str:
            return f"{candidate.error:.4g}" if regression else f"{100 * candidate.error:.1f} %"

        if self.assumes_clusters:
            shares = " and that classes are as frequent as among the labels" if best.values.shape[1] > 1 else ""
            return (
                f"No class has more than {BEYOND} labels, too few to compare errors: it is assumed that rows of one "
                f"cluster share a class{shares}."
            )
        if not self.unlabeled or using is None or without is None:
            why = "Unlabeled rows were not tried" if self.unlabeled else "There are no unlabeled rows"
            of = f" of a weighted sum of {len(parts)} kernels" if len(parts) > 1 else ""
            text = f"{self.errors}: {shown(best)} {what}{of}. {why}."
        elif len(parts) > 1:
            text = (
                f"{self.errors}: {shown(best)} {what} of a weighted sum of {len(parts)} kernels. Those that use "
                f"unlabeled rows have {100 * self.share(OF_ALL_POINTS):.0f} % of the weight; the best "
                f"kernel without them has {shown(without)} {what} alone."
            )
        elif best.kind not in OF_ALL_POINTS:
            verdict = "did not help" if using.error >= best.error else "did not lower the squared error"
            text = f"Unlabeled rows {verdict}: {shown(best)} {what} without them, {shown(using)} with them."
        elif best.error < without.error:
            text = f"Unlabeled rows helped: {shown(best)} {what} instead of {shown(without)}."
        else:
            text = (
                f"Unlabeled rows lowered the squared error only: {shown(best)} {what}, {shown(without)} without them."
            )
        rule, error = self.discriminant
        return text if rule is None else f"{text} A linear discriminant of the scores has {100 * error:.1f} % errors."

    def report(self) -> dict[str, Any]:
        """Return `selection_report_`: the best candidate of each kind, the chosen one, and a sentence about them."""
        return {
            "sentence": self.sentence,
            "candidates": [{"prior": c.kind, "error": c.error, "loss": c.loss, **c.params} for c in self.each()],
            "chosen": {"prior": self.best.kind, **self.best.params},
            "score": float(self.best.scores[0]),
            "weights": [
                {"weight": weight, "prior": part.kind, "error": part.error, **part.params}
                for weight, part in self.parts
            ],
        }


def by_evidence_of_slopes(
    config: ModelConfig, sample: Sample, kernels: Sequence[Kernel]
) -> tuple[list[Candidate], str]:
    """Compare kernels by the evidence of values and slopes; return the candidates, best first, and the status."""
    limit = None if seconds_left() == inf else max(seconds_left(), 0.0) / len(kernels)
    scorer = EvidenceScorer(config, sample, {"time_limit": limit, "verbose": config.verbose})
    found, status = search(lambda _: iter([kernels]), scorer)
    return sorted(found, key=lambda candidate: candidate.loss), status


def evidence_report(found: Sequence[Candidate], best: Candidate, sample: Sample) -> dict[str, Any]:
    """Return `selection_report_` of a search by evidence."""
    tunings = [candidate.problem.tuning for candidate in found]
    used, total = tunings[0].functionals
    what = "targets" if sample.slopes is None else "values and slopes"
    each = sample.X.shape[1] > 1 and any("scale" in name for name in best.problem.tuning.parameters)
    reason = (
        f"has the largest logarithm of the evidence minus the number of learned settings, by {used} of {total} {what}."
        if np.isfinite(found[0].loss)
        else "is the first, with the settings of its start: no time was left to compare them."
    )
    return {
        "sentence": f"Of {len(found)} kernels, {best.params['kernel']!r} {reason}",
        "candidates": [
            {"evidence": tuning.value, "score": -candidate.loss, **candidate.params}
            for tuning, candidate in zip(tunings, found, strict=True)
        ],
        "chosen": {"prior": SCALES if each else NONE, **best.params},
        "score": -found[0].loss,
    }


def affordable_problem(problem: Problem, name: str, values: bool, verbose: bool) -> Problem:
    """Return the problem, with landmarks and a warning if there are too many labels or too little time.

    This is where the automatic search decides between an exact fit and landmarks; Fourier grids of maps are chosen
    before it, by evidence.  The first term has the labels, which are `values` or classes.
    """
    labels = problem.terms[0].size
    few = labels <= limits().exact_labels
    if not few and iterates_exactly(problem.system):
        return problem
    if few and (seconds_left() == inf or labels**3 / (3 * _speed()) < seconds_left()):
        return problem
    count = landmark_count(problem, verbose)
    if count >= labels:
        return problem
    plane = values and problem.terms[0].functional.dimension <= DIMENSIONS
    many = f"more than {limits().exact_labels} labels, for which an exact fit takes too much memory or time"
    reason = "the time limit" if few else many
    warn(
        f"{name} approximates f by {count} landmarks for {labels} labels, because of {reason}. Pass "
        "approximation=rkhs.Landmarks(p) for another number, or a solver for no approximation."
        + (MAPS_INSTALLED if plane and not can_map(1) else "")
    )
    return replace(problem, approximation=Landmarks(count))


def iterates_exactly(system: FiniteProblem) -> bool:
    """Return whether an iterative solver solves a large problem in time, with the Gram matrix in memory or on a device.

    About 100 iterations are expected for squared losses, and `PRODUCTS` of each output for others.
    """
    if not isinstance(system.Q, np.ndarray):
        return system.size <= MOST_ON_DEVICE
    products = 100 if system.quadratic else PRODUCTS * system.columns
    estimate = Estimate(system, 1e-2, assumed_iterations=products)
    most = inf if system.quadratic else limits().exact_seconds
    return estimate.storing is not None and slowness() * estimate.iterating(estimate.step()) < min(seconds_left(), most)


def landmark_count(problem: Problem, verbose: bool = False) -> int:
    """Return the number of landmarks for a problem whose first term has the labels.

    It is what a minute affords, or memory if the rows have to be stored.  With a time limit it is the number that the
    remaining time affords, without a comparison.
    """
    term = problem.terms[0]
    most = int((limits().landmark_work / term.size) ** 0.5)
    if not term.loss.quadratic:
        most = min(most, KEPT_BYTES // (8 * term.size) - int(problem.system.Q.shape[1]))  # rows contain the basis
    first = limits().landmarks
    most = min(max(most, 50), MOST_COUNT * first)
    if seconds_left() < inf:
        return min(most, max(50, int((_speed() * max(seconds_left(), 0.0) / (2 * term.size)) ** 0.5)))
    if most <= 2 * first:
        return most
    rows = np.random.default_rng(0).permutation(term.size)[: (ROWS + HELD_OUT) * first]
    squared = term.changed(loss=Squared())
    held_out, learned = squared.take(rows[: HELD_OUT * first]), squared.take(rows[HELD_OUT * first :])

    def score(count: int) -> list[Candidate]:
        """Return the candidate with the squared errors (t,) of held-out rows."""
        small = Problem(problem.kernel, [learned], problem.basis, approximation=Landmarks(count))
        values = to_numpy(held_out.functional(small.solve(verbose=verbose).function))
        errors = row_losses(held_out.loss, values, to_numpy(held_out.target)) / (held_out.outputs or 1)
        return [Candidate({"landmarks": count}, float(errors.mean()), -errors.mean(keepdims=True), values=errors)]

    (before, after), _ = search((first, 2 * first), score)
    falls = paired_test(before.values, after.values, to_numpy(held_out.weights())[:, 0], least=LEAST_FALL)
    return most if falls else first


def _speed() -> float:
    """Return operations per second of a fit, a tenth of those of products.

    It is measured now, because other processes slow down the fit as well.
    """
    A = np.ones((768, 768))
    A @ A[:, :8]  # the first product of a process starts the BLAS threads
    start = now()
    A @ A
    return 0.2 * len(A) ** 3 / max(now() - start, 1e-6)
