"""Folds and held-out predictions, and what follows from these: intervals and prediction sets.

The points of a held-out fold stay in the problem, unlabeled (Zhang et al. 2013, section 6.2).  Labels of points with
equal features are left out together.  Solves are shared over folds, C, nu and classes (`Problem.grid`).

**Held-out predictions** (`HeldOutLabels`) keep the settings of the model and use the first method that applies:

jackknife  the labels of each point are left out: exact for squared losses, one Newton step for other smooth losses;
           for up to 5,000 functionals
subspace   the same in a span of p functions, from the sums over all rows, for a sample of the labels: with f = E theta
           and h_i = 2 w_i E_i (S + diag(0, I))^-1 E_i', the residual without label i is (y_i - f_i) / (1 - h_i)
folds      models without a tenth of the labels each, all solved together, for any loss

**Intervals and sets** (`bound`) are conformal: they contain the truth with a given probability.  Let the score of a
label measure the error of its held-out prediction.  If points are drawn independently from one distribution, the score
of a new label is with probability

    coverage   at most the ceil((l + 1) coverage)-th smallest of l scores,

up to the change of f when labels are left out (Barber, Candes, Ramdas and Tibshirani 2021, Predictive inference with
the jackknife+).  Models without a tenth of the labels are slightly worse, which makes intervals slightly too long;
settings that were chosen by the same labels make them slightly too short.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, inf
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, StratifiedKFold, check_cv
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import type_of_target

from rkhs._core.backend.arrays import Matrix, Vector, double, to_numpy
from rkhs._core.finite.monitor import Stopped
from rkhs._core.finite.solution import SOLVED, TIME_LIMIT, Solution
from rkhs._core.finite.term import Term
from rkhs._core.learning.leave_one_out import left_out_in_subspace, left_out_of
from rkhs._core.limits import limits
from rkhs._core.problem import Problem
from rkhs._core.progress import interrupts_raised, seconds_left
from rkhs.estimators._data import ClassPrior, Sample, class_weights, fill_missing_targets
from rkhs.estimators._formulation import ModelConfig
from rkhs.exceptions import NotSolvedError, warn
from rkhs.functionals import Evaluation


@dataclass(frozen=True, eq=False)
class Folds:
    """Factors on the weights of the labels in each fold, and whether the fold is scored on a label.

    A factor is 0 for a label that the fold leaves out, and 1 or a change of its class weight (`weighted`) for others.
    """

    factors: Matrix  # (t, folds)
    scored: Matrix  # (t, folds)

    def weighted(self, config: ModelConfig, labeled: Sample) -> Folds:
        """Return the folds with class weights that are computed from the labels that each fold keeps."""
        if not isinstance(config.class_weight, str | ClassPrior):
            return self
        classes, factors = np.asarray(config.classes), np.zeros(self.factors.shape)
        of_all = class_weights(config.class_weight, classes, labeled.y, labeled.weight)
        for k, column in enumerate(self.factors.T):
            kept = np.flatnonzero(column)
            weight = column[kept] * labeled.weight[kept]
            of_fold = class_weights(config.class_weight, classes, labeled.y[kept], weight)
            factors[kept, k] = column[kept] * of_fold / of_all[kept]
        return replace(self, factors=factors)


def user_marks(cv: Any, y: Vector, labeled: Vector, classifier: bool) -> Matrix | None:
    """Return the folds of the parameter `cv` as marks (t, 2 folds) of rows; None if `cv` is a number of folds.

    Two columns mark the rows that a fold leaves out and those that it is scored on.  Points with different marks are
    not merged, and equal points may be in different folds if the splitter puts them there.  An iterable of
    (train, test) has indices of rows of X; a splitter is given the labeled rows only.
    """
    if cv is None or isinstance(cv, Integral):
        return None
    rows = np.flatnonzero(labeled)
    splitter = check_cv(cv, y[rows], classifier=classifier)
    index = rows if hasattr(cv, "split") else np.arange(len(y))
    columns = []
    for train, test in splitter.split(np.zeros((len(rows), 1)), y[rows]):
        left_out, scored = labeled.copy(), np.zeros(len(y), dtype=bool)
        left_out[index[train]] = False
        scored[index[test]] = labeled[index[test]]
        columns += [left_out, scored]
    return np.column_stack(columns).astype(np.float64)


def folds_of(cv: Any, sample: Sample, config: ModelConfig) -> Folds:
    """Return the folds of the labeled points of a sample, in the order of its label term.

    The number of folds is at most the number of distinct points of the smallest class, or of all in regression.
    """
    labeled = sample.take(sample.labeled)
    if sample.marks.shape[1]:
        marks = labeled.marks.astype(bool)
        return Folds(1.0 - marks[:, 0::2], marks[:, 1::2]).weighted(config, labeled)
    classes = None if config.classes is None else labeled.y
    scored = left_out_by_folds(5 if cv is None else int(cv), labeled.groups, classes, least=2)
    return Folds(1.0 - scored, scored).weighted(config, labeled)


def left_out_by_folds(most: int, groups: Vector, classes: Vector | None = None, least: int = 1) -> Matrix:
    """Return the mask (l, K) of the labels that each of at most `most` folds leaves out, whole groups at a time.

    With classes (l,) folds are stratified, and there are no more of them than points of the smallest class.  Of a group
    with several classes the rarest one counts.

    Parameters
    ----------
    most : int
        The number of folds, if there are enough groups.
    groups : ndarray of shape (l,)
        The group of each label, such as that of rows at the same point.
    classes : ndarray of shape (l,), optional
        The indices of the classes.
    least : int, default=1
        The smallest number of folds; an error says that it needs more labels.

    Returns
    -------
    ndarray of shape (l, K)
        The mask, all False for a single fold.

    Examples
    --------
    >>> from rkhs.extend import left_out_by_folds
    >>> left_out_by_folds(3, np.array([0, 1, 1, 2])).sum(axis=0)
    array([1, 2, 1])
    """
    order = np.arange(len(groups)) if classes is None else np.argsort(np.bincount(classes)[classes], kind="stable")
    _, first, group = np.unique(groups[order], return_index=True, return_inverse=True)
    kinds = None if classes is None else classes[order[first]]
    smallest = len(first) if kinds is None else int(np.unique(kinds, return_counts=True)[1].min())
    if kinds is not None and smallest < least <= len(first):
        raise ValueError(
            f"Folds need {least} distinct labeled points of each class, and a class has {smallest}: label more points, "
            'choose by evidence (invariance="auto"), or state C and the scale in InvariantClassifier.'
        )
    count = max(least, min(most, smallest))
    left_out = np.zeros((len(groups), count), dtype=bool)
    if count == 1 or len(first) < count:
        return left_out
    splitter = (KFold if kinds is None else StratifiedKFold)(count, shuffle=True, random_state=0)
    for k, (_, test) in enumerate(splitter.split(np.zeros((len(first), 1)), kinds)):
        left_out[order, k] = np.isin(group, test)
    return left_out


def fold_values(problem: Problem, left_out: Matrix, what: str) -> tuple[Vector, Vector]:
    """Return held-out values of f at labels, and the index of each label.

    Fold k leaves out the labels with a true `left_out[:, k]`.  Values are in the order of the labels.  Folds that could
    not be solved are missing, with a warning.
    """
    points = problem.terms[0].functional
    factors = list(1.0 - left_out.T)
    with interrupts_raised():
        solutions = problem.in_double().grid({}, held_out={0: factors}, tol=limits().fold_gap)
    solved = [k for k, s in enumerate(solutions) if s.status in SOLVED]
    reasons = ", ".join(sorted({s.status for s in solutions if s.status not in SOLVED}))
    in_time = all(s.status != TIME_LIMIT for s in solutions)
    if not in_time and seconds_left() < inf:  # results are kept for later calls, which may have more time
        raise Stopped(TIME_LIMIT)
    if not solved:
        raise NotSolvedError(
            f"{what} need models without some of the labels, and none of {len(solutions)} was solved ({reasons}): fit "
            "with a smaller C, or use decision_function."
        )
    if reasons:
        message = f"{what} are from {len(solved)} of {len(solutions)} folds: the others were not solved ({reasons})."
        warn(message, ConvergenceWarning)
    parts = [np.flatnonzero(left_out[:, k]) for k in solved]
    values = [to_numpy(points.take(part)(solutions[k].function)) for k, part in zip(solved, parts, strict=True)]
    rows = np.concatenate(parts)
    order = np.argsort(rows, kind="stable")
    return np.concatenate(values)[order], rows[order]


@dataclass(frozen=True)
class LabeledSplit:
    """Splits the labeled rows into folds, and puts all rows without a label into every training part.

    It is the parameter `cv` of scikit-learn's `cross_val_score`, `cross_validate` and `GridSearchCV` for data with
    unlabeled rows.  Without it these rows are spread over the folds: every model learns from fewer of them than the
    final one does, and scorers such as "accuracy" count them as errors.

    Parameters
    ----------
    cv : int or splitter, default=5
        The number of folds, or a splitter of scikit-learn for the labeled rows.  A number means stratified folds if y
        has classes of at least that many rows each, and consecutive rows otherwise.
    unlabeled : object, default=-1
        The y of rows without a label, as in `InvariantClassifier`; NaN stands for all missing values.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.model_selection import cross_val_score
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> few = np.where(np.arange(200) < 40, y, -1)
    >>> model = rkhs.InvariantClassifier(scale=0.5, C=10.0)
    >>> scores = cross_val_score(model, X, few, cv=rkhs.LabeledSplit(4), scoring="accuracy")
    >>> bool(scores.mean() > 0.9)
    True
    """

    cv: Any = 5
    unlabeled: Any = -1

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Vector, Vector]]:
        """Yield the indices of the rows of each training part, with those of all unlabeled rows, and of each test part.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points, of which a splitter may use the number.
        y : array-like of shape (t,) or (t, outputs)
            The labels or targets.
        groups : array-like of shape (t,), optional
            The groups of the rows, for a splitter that needs them.

        Yields
        ------
        tuple of two ndarrays of int
            The indices of the training rows and of the test rows.
        """
        labels, groups, rows, others = self._labeled(y, groups)
        classes = isinstance(self.cv, Integral) and type_of_target(labels) in ("binary", "multiclass")
        stratified = classes and int(np.unique(labels, return_counts=True)[1].min()) >= self.cv
        splitter = check_cv(self.cv, labels, classifier=stratified)
        for train, test in splitter.split(np.zeros((len(rows), 1)), labels, groups):
            yield np.sort(np.concatenate([rows[train], others])), rows[test]

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds.

        Parameters
        ----------
        X, y, groups : object, optional
            As in `split`; only some splitters need them, such as those that leave out one row at a time.

        Returns
        -------
        int
            The number of folds.
        """
        if y is None or isinstance(self.cv, Integral):
            return int(check_cv(self.cv).get_n_splits(X, y, groups))
        labels, groups, rows, _ = self._labeled(y, groups)
        return int(check_cv(self.cv).get_n_splits(np.zeros((len(rows), 1)), labels, groups))

    def _labeled(self, y: Any, groups: Any) -> tuple[Vector, Vector | None, Vector, Vector]:
        """Return the labels and groups of labeled rows, the indices of these rows, and those of all other rows."""
        if y is None:
            raise ValueError("LabeledSplit needs y, which marks the rows without a label.")
        filled, missing = fill_missing_targets(y, self.unlabeled)
        check_consistent_length(filled, groups)
        rows = np.flatnonzero(~missing)
        if not len(rows):
            raise ValueError(f"LabeledSplit needs rows with a label; every y is unlabeled={self.unlabeled!r}.")
        return filled[rows], None if groups is None else np.asarray(groups)[rows], rows, np.flatnonzero(missing)


SAMPLED = 1000  # labels that are left out of larger problems


@dataclass(frozen=True, eq=False)
class HeldOutPredictions:
    """Labels and their predictions by models that have not seen them."""

    predicted: Vector  # (l,) or (l, outputs)
    target: Vector  # of the same shape
    weight: Vector  # (l,) with mean one


@dataclass(eq=False)
class HeldOutLabels:
    """Held-out predictions for the labels in the first term of a problem, by the jackknife or by folds."""

    estimator: str  # the name of its class, for messages
    problem: Problem
    weight: Vector  # (l,) the sample weights of the labeled points
    groups: Vector  # (l,) labels of one group are left out together, `Sample.groups`
    copies: int = 1  # sets of points in the term, one after the other; copies of a point are held out together
    solution: Solution | None = None  # of the problem

    @cached_property
    def sample(self) -> tuple[Vector, Vector] | None:
        """The rows of a sample of the labels, and their left-out predictions; None if the problem is not a large one.

        It is large if it has more than `Limits.dense_labels`, with squared losses, and nothing else.
        """
        problem, source = self.problem, None if self.solution is None else self.solution.source
        exact = self.copies == 1 and problem.approximation is None and len(problem.terms) == 1
        if not exact or source is None or problem.terms[0].size <= limits().dense_labels:
            return None
        rows, residuals, _ = sampled_residuals(self.solution, problem.terms[0], self.groups)
        target = to_numpy(problem.terms[0].target)[rows]
        return rows, target - residuals.reshape(target.shape)

    @cached_property
    def labels(self) -> HeldOutPredictions:
        term, size = self.problem.terms[0], self.problem.terms[0].size // self.copies
        if not isinstance(term.functional, Evaluation):
            raise ValueError(
                f"{self.estimator} was fitted without targets at points, which intervals are calibrated by: pass y."
            )
        problem = self.problem
        exact = self.copies == 1 and problem.approximation is None and problem.null_space != "dropped"
        smooth = all(t.loss.smooth for t in problem.terms)
        if exact and smooth and sum(t.size for t in problem.terms) <= limits().dense_labels:
            groups = [self.groups]  # functionals of other terms are not predicted, and stay
            for other in problem.terms[1:]:
                groups.append(groups[-1].max() + 1 + np.arange(other.size))
            predicted = to_numpy(left_out_of(problem, groups).predictions[0])
            return self._weighted(predicted, np.arange(size))
        if self.sample is not None:
            rows, predicted = self.sample
            return self._weighted(predicted, rows)
        left_out = left_out_by_folds(10, self.groups[:size])
        if left_out.shape[1] < 2:
            raise ValueError(
                f"{self.estimator} was fitted to a single point, which cannot be left out: intervals and sets need two "
                "points with a label or more."
            )
        values, rows = fold_values(problem, np.tile(left_out, (self.copies, 1)), "Intervals and sets")
        original = rows < size  # copies are left out with their originals, and only the latter are scored
        return self._weighted(values[original], rows[original])

    def _weighted(self, predicted: Vector, rows: Vector) -> HeldOutPredictions:
        """Return predictions for some rows of the first term with their targets and weights."""
        target, weight = to_numpy(self.problem.terms[0].target)[rows], self.weight[rows]
        return HeldOutPredictions(predicted, target, weight / weight.mean())


def sampled_residuals(solution: Any, term: Term, groups: Vector) -> tuple[Vector, Matrix, Vector]:
    """Return a sample of the rows, their leave-one-out residuals (m, c), and the variances (m,) of their targets.

    The variances are in units of tau^2.  The only term of the problem has squared losses.  Rows at points that others
    have too are not drawn, if there are enough others, and rows of weight zero are no part of the solution.
    """
    used = np.flatnonzero(to_numpy(term.weights())[:, 0] > 0)
    single = np.flatnonzero(np.bincount(groups)[groups[used]] == 1)
    among = single if len(single) >= SAMPLED else np.arange(len(used))
    drawn = np.sort(np.random.default_rng(0).permutation(among)[:SAMPLED])
    # y_i - f_i without i = a_i / P_ii, with the variance 1 / P_ii of a left-out target
    variance = solution.source.spread.left_out_variance(drawn)
    coefficients = double(solution.function.coefficients).reshape(len(used), -1)
    return used[drawn], coefficients[drawn] * variance[:, None], variance


@dataclass(frozen=True, eq=False)
class HeldOutInSubspace:
    """Held-out predictions for a sample of the labels of a model in a subspace, from the sums over all rows."""

    term: Term
    solution: Solution

    @cached_property
    def labels(self) -> HeldOutPredictions:
        target = to_numpy(self.term.target)
        return HeldOutPredictions(left_out_in_subspace(self.solution, self.term), target, np.ones(len(target)))


def bound(scores: Vector, coverage: float, weight: Vector) -> float:
    """Return the score that a new label does not exceed with probability `coverage`; infinity for too few labels.

    The scores (l,) have weights (l,) with the mean one.
    """
    if not isinstance(coverage, Real) or not 0 < float(coverage) < 1:
        raise ValueError(f"coverage must be a number between 0 and 1, got {coverage!r}.")
    # the ceil((l + 1) coverage)-th smallest of l scores; with weights, where their sum reaches it
    rank = ceil((len(scores) + 1) * float(coverage))  # of l + 1 exchangeable scores
    order = np.argsort(scores)
    index = int(np.searchsorted(np.round(np.cumsum(weight[order]), 9), rank))
    return float(scores[order][index]) if index < len(scores) else inf


def class_scores(values: Vector) -> Matrix:
    """Return the conformity scores (t, classes): the largest f of the other classes minus that of the class."""
    # max over b != c of f_b(x) - f_c(x)
    decision = np.stack([-values, values], axis=1) if values.ndim == 1 else values
    order = np.argsort(decision, axis=1)
    first, second = (np.take_along_axis(decision, order[:, -k][:, None], axis=1) for k in (1, 2))
    others = np.where(np.arange(decision.shape[1]) == order[:, -1:], second, first)
    return np.asarray(others - decision)
