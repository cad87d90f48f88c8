"""Cross-validation: folds of the labeled points, the models of the folds, and grids of settings over them.

The points of a held-out fold stay in the problem, unlabeled (Zhang et al. 2013, section 6.2).  If a point stands for
several equal rows, folds leave out some of its rows.  Solves are shared over folds, C, nu and classes (`Problem.grid`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, product
from math import inf
from numbers import Integral
from time import perf_counter
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv

from rkhs._backend.arrays import Array, Matrix, Vector, namespace, to_numpy
from rkhs._estimators.data import Sample
from rkhs._finite.function import FeatureFunction, Function
from rkhs._finite.monitor import Stopped
from rkhs._finite.solution import CONVERGED, TIME_LIMIT
from rkhs._finite.term import Term
from rkhs._problem import Problem
from rkhs._progress import interrupts_raised, seconds_left
from rkhs._warnings import warn
from rkhs.functionals import Functional

AnyFunction = Function | FeatureFunction
FOLD_TOL = 1e-2  # relative duality gap of the models of folds; scores hardly change below it


@dataclass(frozen=True, eq=False)
class Folds:
    """Factors on the weights of the labels in each fold, and the number of rows of each label that it is scored on.

    A factor is the share of the label's rows that the fold keeps, 0 or 1 for a label of one row.  Class weights that
    depend on the labels of the fold multiply it (`weighted`).
    """

    factors: Matrix  # (t, folds)
    scored: Matrix  # (t, folds)

    def weighted(self, weights: Callable[[Vector, Vector], Vector]) -> Folds:
        """Return the folds with class weights computed from the labels that each fold keeps.

        `weights` maps the indices of points, and the shares of their rows that are kept, to class weights.
        """
        factors = np.zeros(self.factors.shape)
        of_all = weights(np.arange(len(factors)), np.ones(len(factors)))
        for k, column in enumerate(self.factors.T):
            kept = np.flatnonzero(column)
            factors[kept, k] = column[kept] * weights(kept, column[kept]) / of_all[kept]
        return replace(self, factors=factors)


def user_marks(cv: Any, y: Vector, labeled: Vector, classifier: bool) -> Matrix | None:
    """Return the folds of the parameter `cv` as marks (t, 2 folds) of rows; None if `cv` is a number of folds.

    Two columns mark the rows that a fold leaves out and those that it is scored on.  Points with different marks are
    not merged.  An iterable of (train, test) has indices of rows of X; a splitter is given the labeled rows only.
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


def folds_of(cv: Any, sample: Sample, splitter: Callable[[int], Any]) -> Folds:
    """Return the folds of the labeled points of a sample, in the order of its label term.

    The number of folds is at most the number of rows of the smallest class, or of all rows in regression.
    """
    labeled = sample.take(sample.labeled)
    if sample.marks.shape[1]:
        marks = labeled.marks.astype(bool)
        return Folds(1.0 - marks[:, 0::2], labeled.count[:, None] * marks[:, 1::2])
    classes = labeled.y if sample.y.dtype.kind == "i" else None
    smallest = int(labeled.count.sum()) if classes is None else smallest_class(classes, labeled.count)
    scored = rows_per_fold(splitter(max(2, min(5 if cv is None else int(cv), smallest))), labeled.count, classes)
    return Folds(1 - scored / labeled.count[:, None], scored)


def smallest_class(codes: Vector, count: Vector) -> int:
    """Return the number of rows of the smallest class, from class indices (t,) and numbers of rows (t,) of points."""
    rows = np.bincount(codes, weights=count)
    return int(rows[rows > 0].min())


def rows_per_fold(splitter: Any, count: Vector, classes: Vector | None = None) -> Matrix:
    """Return the numbers (t, K) of rows of each point that a splitter puts into each of K folds.

    A point stands for `count` (t,) equal rows.  If it has 2 K rows or more, all folds get the same number of them, and
    the splitter distributes only the last K to 2 K - 1.
    """
    folds = int(splitter.get_n_splits())
    even = np.maximum(count // folds - 1, 0)
    rows = np.repeat(np.arange(len(count)), count - folds * even)
    counts = np.repeat(even[:, None], folds, axis=1)
    labels = None if classes is None else classes[rows]
    for k, (_, test) in enumerate(splitter.split(np.zeros((len(rows), 1)), labels)):
        counts[:, k] += np.bincount(rows[test], minlength=len(count))
    return counts


def fold_values(problem: Problem, left_out: Matrix, count: Vector, what: str) -> tuple[Vector, Vector, Vector]:
    """Return held-out values of f at labels, the index of each label, and the number of rows that each value is for.

    Fold k leaves out `left_out[:, k]` of the `count` (l,) rows of each label.  A label appears once for each fold that
    leaves out some of its rows, in the order of labels.  Folds that could not be solved are missing, with a warning.
    """
    points = problem.terms[0].functional
    factors = list((1 - left_out / count[:, None]).T)
    with interrupts_raised():
        solutions = problem.in_double().grid({}, held_out={0: factors}, tol=FOLD_TOL)
    solved = [k for k, s in enumerate(solutions) if s.status == CONVERGED]
    reasons = ", ".join(sorted({s.status for s in solutions if s.status != CONVERGED}))
    in_time = all(s.status != TIME_LIMIT for s in solutions)
    if not in_time and seconds_left() < inf:  # results are kept for later calls, which may have more time
        raise Stopped(TIME_LIMIT)
    if not solved:
        raise RuntimeError(
            f"{what} need models without some of the labels, and none of {len(solutions)} was solved ({reasons}): fit "
            "with a smaller C, or use decision_function."
        )
    if reasons:
        message = f"{what} are from {len(solved)} of {len(solutions)} folds: the others were not solved ({reasons})."
        warn(message, ConvergenceWarning)
    parts = [np.flatnonzero(left_out[:, k]) for k in solved]
    values = [to_numpy(points.take(part)(solutions[k].function)) for k, part in zip(solved, parts, strict=True)]
    times = np.concatenate([left_out[part, k] for k, part in zip(solved, parts, strict=True)])
    rows = np.concatenate(parts)
    order = np.argsort(rows, kind="stable")
    return np.concatenate(values)[order], rows[order], times[order]


@dataclass(frozen=True, eq=False)
class Search:
    """Candidates (scale, loss, C, nu) with their scores and held-out losses, both of shape (candidates, folds).

    Scores and losses are NaN where a solution did not converge; `status` is then the reason.
    """

    candidates: list[dict[str, Any]]
    scores: Matrix
    losses: Matrix
    seconds: float
    status: str = CONVERGED

    @property
    def solved(self) -> Vector:
        """The mask (candidates,) of those that were solved on all folds; only these can be chosen."""
        return ~np.any(np.isnan(self.scores), axis=1)

    @cached_property
    def best(self) -> int:
        """The index of the candidate with the largest mean score; ties are broken by the mean held-out loss."""
        mean, loss = self.scores.mean(axis=1), self.losses.mean(axis=1)
        largest = mean[self.solved].max()
        tied = np.flatnonzero(self.solved & (mean >= largest - 1e-12 * max(abs(largest), 1.0)))
        return int(tied[np.argmin(loss[tied])])

    def results(self, names: Sequence[str]) -> dict[str, Any]:
        """Return `cv_results_` in the form of scikit-learn's searches, with the named parameters."""
        params = [{name: candidate[name] for name in names} for candidate in self.candidates]
        columns = {name: np.ma.masked_array([values[name] for values in params], mask=False) for name in names}
        ranked = np.where(self.solved, -self.scores.mean(axis=1), np.inf)
        return cv_results(params, columns, self.scores, ranked, self.seconds)


def cv_results(
    params: list[dict[str, Any]], columns: Mapping[str, Any], scores: Matrix, ranked: Vector, seconds: float
) -> dict[str, Any]:
    """Return results in the form of scikit-learn's `GridSearchCV`, from scores (candidates, folds)."""
    zeros = np.zeros(len(params))
    results: dict[str, Any] = {"mean_fit_time": zeros + seconds / scores.size, "std_fit_time": zeros}
    results |= {"mean_score_time": zeros, "std_score_time": zeros}
    results |= {f"param_{name}": column for name, column in columns.items()}
    results["params"] = params
    results |= {f"split{k}_test_score": column for k, column in enumerate(scores.T)}
    results |= {"mean_test_score": scores.mean(axis=1), "std_test_score": scores.std(axis=1)}
    return results | {"rank_test_score": rankdata(ranked, method="min").astype(np.int32)}


def search(
    problem_of: Callable[[Any, Any], Problem],
    grids: Mapping[str, Sequence[Any]],
    sample: Sample,
    folds: Folds,
    score: Callable[[Vector, Sample], float],
    tol: float,
    verbose: bool,
) -> Search:
    """Score all candidates of the grids.

    `problem_of(scale, loss)` is the problem with C = nu = 1, whose first term holds the labels.  When the time limit is
    reached, the scores of unsolved candidates are NaN.
    """
    start = perf_counter()
    labeled = sample.take(sample.labeled)
    weights = list(product(grids["C"], grids["nu"]))
    candidates, results, status, count = [], [], CONVERGED, folds.factors.shape[1]
    options: dict[str, Any] = {"held_out": {0: list(folds.factors.T)}, "tol": tol, "verbose": verbose}
    for scale, loss in product(grids["scale"], grids["loss"]):
        candidates += [{"C": C, "nu": nu, "scale": scale, "loss": loss} for C, nu in weights]
        if seconds_left() <= 0:
            status = TIME_LIMIT
            results.append(np.full((2, len(weights), count), np.nan))
            continue
        problem = problem_of(scale, loss).in_double()
        others = tuple(range(1, len(problem.terms)))  # nu is the factor of all terms but the labels
        if others:
            solutions = problem.grid({0: grids["C"], others: grids["nu"]}, **options).reshape(-1, count)
        else:
            solutions = np.repeat(problem.grid({0: grids["C"]}, **options), len(grids["nu"]), axis=0)
        status = min({s.status for s in solutions.flat} - {CONVERGED}, default=status)
        results.append(_scores_and_losses(problem.terms[0], solutions, labeled, folds.scored, score))
    scores, losses = np.concatenate(results, axis=1)
    return Search(candidates, scores, losses, perf_counter() - start, status if np.any(np.isnan(scores)) else CONVERGED)


def _scores_and_losses(
    labels: Term, solutions: Matrix, labeled: Sample, folds: Matrix, score: Callable[[Vector, Sample], float]
) -> Array:
    """Return the scores and the losses (2, candidates, folds) of solutions; NaN for those that did not converge."""
    results = np.full((2, *solutions.shape), np.nan)
    for k, scored in enumerate(folds.T):
        rows = np.flatnonzero(scored)
        share = scored[rows] / labeled.count[rows]
        part = labeled.take(rows)
        part = replace(part, weight=share * part.weight)
        target, weight = to_numpy(labels.target)[rows], to_numpy(labels.weights())[rows, 0]
        solved = [i for i, s in enumerate(solutions[:, k]) if s.status == CONVERGED]
        values = evaluated([s.function for s in solutions[solved, k]], labels.functional.take(rows))
        for i, predictions in zip(solved, values, strict=True):
            loss = to_numpy(labels.loss.value(predictions, target)).reshape(len(rows), -1).sum(axis=1)  # over classes
            results[:, i, k] = score(predictions, part), np.average(loss, weights=share * weight)
    return results


def evaluated(functions: Iterable[AnyFunction], points: Functional) -> list[Vector]:
    """Return the values of functions at points; functions with the same representers are evaluated together.

    They are evaluated 32 columns at a time.
    """

    def representers(f: AnyFunction) -> int:
        return id(f.features if isinstance(f, FeatureFunction) else f.functionals)

    results: list[Vector] = []
    for _, members in groupby(functions, key=representers):
        group = list(members)
        first = group[0]
        names = ["coefficients"] if first.basis is None else ["coefficients", "basis_coefficients"]
        count = max(1, 32 // (first.outputs or 1))
        for start in range(0, len(group), count):
            batch, joined = group[start : start + count], {}
            for name in names:
                columns = [getattr(f, name) for f in batch]
                columns = [c if c.ndim == 2 else c[:, None] for c in columns]
                joined[name] = namespace(columns[0]).concat(columns, axis=1)
            values = to_numpy(points(replace(first, **joined))).reshape(points.size, len(batch), first.outputs or 1)
            results += [columns[:, 0] if first.outputs is None else columns for columns in values.transpose(1, 0, 2)]
    return results


@dataclass(frozen=True, eq=False)
class CompactResults:
    """`cv_results_` in the form in which it is saved: parameter values shared by many candidates are stored once."""

    entries: dict[str, Any]  # numeric arrays; None for entries that are rebuilt from `params`
    params: dict[str, tuple[list[Any], Vector]]  # by name: the distinct values, and the index of each candidate's value

    @classmethod
    def of(cls, results: dict[str, Any]) -> CompactResults:
        params = results["params"]
        entries = {
            name: None if value is params or (name.startswith("param_") and value.dtype.kind == "O") else value
            for name, value in results.items()
        }
        factorized = {}
        for name in params[0]:
            values = [candidate[name] for candidate in params]
            keys = [(type(v), repr(v)) if isinstance(v, str | float | int | tuple) else id(v) for v in values]
            distinct = dict(zip(keys, values, strict=True))
            index = {key: k for k, key in enumerate(distinct)}
            factorized[name] = list(distinct.values()), np.array([index[key] for key in keys], dtype=np.int32)
        return cls(entries, factorized)

    def whole(self) -> dict[str, Any]:
        """Return the results in their original form."""
        values = {name: [distinct[k] for k in codes] for name, (distinct, codes) in self.params.items()}
        params = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
        objects = {f"param_{name}": masked_objects(column) for name, column in values.items()}
        return {name: objects.get(name, params) if value is None else value for name, value in self.entries.items()}


def masked_objects(values: Sequence[Any]) -> Any:
    """Return a masked array (t,) of objects, without making axes of tuples."""
    data = np.empty(len(values), dtype=object)
    for k, value in enumerate(values):
        data[k] = value
    return np.ma.masked_array(data, mask=False)
