"""Folds of the labelled points; all other points are unlabelled in every fold (Zhang et al. 2013, 6.2).

Models of the same settings that have not seen some of the labels, all solved together.

The grid of C, nu, scale and epsilon over all folds: one `Problem.grid` for each scale and epsilon.

Solves are shared over folds, C, nu and classes.  The results have the form of scikit-learn's `GridSearchCV`.

`cv_results_` in short, for files: hundreds of candidates share a few values of each parameter, kept once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, product
from numbers import Integral
from time import perf_counter
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import check_cv

from rkhs._backend.arrays import Array, Vector, namespace, to_numpy
from rkhs._finite.function import FeatureFunction, Function
from rkhs._finite.solution import CONVERGED, TIME_LIMIT
from rkhs._finite.term import Term
from rkhs._progress import interrupts_raised, seconds_left
from rkhs.estimators._data import Sample
from rkhs.functionals import Functional
from rkhs.problem import Problem


@dataclass(frozen=True, eq=False)
class Folds:
    """For each fold factors on the weights of labels, and how many rows of each label it is scored on.

    A factor is the share of its rows that a fold keeps, 0 or 1 for a label of one row, times what class weights that
    count the labels of each fold make of it.
    """

    factors: Vector  # (t, folds)
    scored: Vector  # (t, folds)

    def __iter__(self) -> Iterator[tuple[Vector, Vector]]:
        return iter(zip(self.factors.T, self.scored.T, strict=True))

    def __len__(self) -> int:
        return self.factors.shape[1]

    def weighted(self, weights: Callable[[Vector, Vector], Vector]) -> Folds:
        """Return the folds with weights of the labels that each of them keeps in place of those of all labels.

        `weights` is a function from some points, and the shares of their rows that are kept, to the class weights that
        these have if there are no others.
        """
        factors = np.zeros(self.factors.shape)
        whole = weights(np.arange(len(factors)), np.ones(len(factors)))
        for k, column in enumerate(self.factors.T):
            kept = np.flatnonzero(column)
            factors[kept, k] = column[kept] * weights(kept, column[kept]) / whole[kept]
        return replace(self, factors=factors)


def user_marks(machine: Any, y: Vector, labelled: Vector) -> Vector | None:
    """The user's own folds as marks (t, 2 folds) of the rows of X, since points of different folds are not merged.

    None for a machine without folds, or with a number of them, which are made later.  An iterable of (train, test)
    has indices of rows of X; a splitter is given the labelled rows.
    """
    cv = getattr(machine, "cv", None)
    if cv is None or isinstance(cv, Integral):
        return None
    rows = np.flatnonzero(labelled)
    splitter = check_cv(cv, y[rows], classifier=is_classifier(machine))
    own = rows if hasattr(cv, "split") else np.arange(len(y))
    columns = []
    for train, test in splitter.split(np.zeros((len(rows), 1)), y[rows]):
        left_out, scored = labelled.copy(), np.zeros(len(y), dtype=bool)
        left_out[own[train]] = False
        scored[own[test]] = labelled[own[test]]
        columns += [left_out, scored]
    return np.column_stack(columns).astype(np.float64)


def folds_of(cv: Any, sample: Sample, splitter: Callable[[int], Any]) -> Folds:
    """The folds of the labelled points of a sample, in the order in which its label term has them.

    There are no more of them than the smallest class has points, or than there are points.
    """
    labelled = sample.take(sample.labelled)
    if sample.marks.shape[1]:
        marks = labelled.marks.astype(bool)
        return Folds(1.0 - marks[:, 0::2], labelled.count[:, None] * marks[:, 1::2])
    classes = labelled.y if sample.y.dtype.kind == "i" else None
    smallest = int(labelled.count.sum()) if classes is None else smallest_class(classes, labelled.count)
    scored = dealt(splitter(max(2, min(5 if cv is None else int(cv), smallest))), labelled.count, classes)
    return Folds(1 - scored / labelled.count[:, None], scored)


def smallest_class(codes: Vector, count: Vector) -> int:
    """Return the number of rows of the smallest class, from the classes of points and the rows of each."""
    rows = np.bincount(codes, weights=count)
    return int(rows[rows > 0].min())


def dealt(splitter: Any, count: Vector, classes: Vector | None = None) -> Vector:
    """Return how many of the `count` (t,) rows of each point a splitter of K folds puts into each: (t, K).

    Of a point with 2 K rows or more each fold has the same number, but for the last K to 2 K - 1 rows.

    Examples
    --------
    >>> from sklearn.model_selection import KFold
    >>> dealt(KFold(2), np.array([1, 1, 7]))
    array([[1, 0],
           [1, 0],
           [3, 4]])
    """
    folds = int(splitter.get_n_splits())
    each = np.maximum(count // folds - 1, 0)
    rows = np.repeat(np.arange(len(count)), count - folds * each)
    found = np.repeat(each[:, None], folds, axis=1)
    labels = None if classes is None else classes[rows]
    for k, (_, test) in enumerate(splitter.split(np.zeros((len(rows), 1)), labels)):
        found[:, k] += np.bincount(rows[test], minlength=len(count))
    return found


FOLD_TOL = 1e-2  # the relative gap to which they are solved


def fold_values(problem: Problem, left_out: Vector, count: Vector, what: str) -> tuple[Vector, Vector, Vector]:
    """Return f at labels, from models that have not seen some of their rows; which labels; and how many rows.

    Of the `count` (l,) rows of each label fold k has not seen `left_out[:, k]`.  A label stands once for each fold that
    leaves rows of it out, in the order of labels; folds that could not be solved are missing.
    """
    points = problem.terms[0].functional
    factors = list((1 - left_out / count[:, None]).T)
    with interrupts_raised():
        solutions = problem.in_double().grid({}, held_out={0: factors}, tol=FOLD_TOL)
    solved = [k for k, s in enumerate(solutions) if s.status == CONVERGED]
    if len(solved) < len(factors):
        _tell(solutions, len(solved), what)
    parts = [np.flatnonzero(left_out[:, k]) for k in solved]
    values = [to_numpy(points.take(part)(solutions[k].function)) for k, part in zip(solved, parts, strict=True)]
    times = np.concatenate([left_out[part, k] for k, part in zip(solved, parts, strict=True)])
    rows = np.concatenate(parts)
    order = np.argsort(rows, kind="stable")
    return np.concatenate(values)[order], rows[order], times[order]


def _tell(solutions: Vector, solved: int, what: str) -> None:
    """Warn of folds that are left out; where none is solved nothing is known."""
    reasons = ", ".join(sorted({s.status for s in solutions if s.status != CONVERGED}))
    if not solved:
        raise RuntimeError(
            f"{what} need models that did not see some labels, and none of {len(solutions)} was solved ({reasons}): "
            "fit with a smaller C, or use decision_function."
        )
    warnings.warn(
        f"{what} are from {solved} of {len(solutions)} folds: the others were not solved ({reasons}).",
        ConvergenceWarning,
        stacklevel=7,
    )


AnyFunction = Function | FeatureFunction
COLUMNS = 32  # functions that are evaluated together


@dataclass(frozen=True, eq=False)
class Search:
    """The candidates (scale, epsilon, C, nu), their scores and the losses of held-out labels (candidates, folds).

    Both are NaN where a solution did not converge; `status` is then what it says.
    """

    candidates: list[dict[str, Any]]
    scores: Vector
    losses: Vector
    seconds: float
    status: str = CONVERGED

    @property
    def solved(self) -> Vector:
        """(candidates,) a mask of those that were solved on all folds, among which one is chosen."""
        return ~np.any(np.isnan(self.scores), axis=1)

    @cached_property
    def best(self) -> int:
        """The candidate of the largest mean score; of several that of the least mean loss.

        Scores of few held-out labels are often equal; their losses, which know by how much a label is missed, are not.
        """
        mean, loss = self.scores.mean(axis=1), self.losses.mean(axis=1)
        largest = mean[self.solved].max()
        tied = np.flatnonzero(self.solved & (mean >= largest - 1e-12 * max(abs(largest), 1.0)))
        return int(tied[np.argmin(loss[tied])])

    def results(self, names: Sequence[str]) -> dict[str, Any]:
        """As `cv_results_` of scikit-learn's searches, for the parameters of these names."""
        mean = self.scores.mean(axis=1)
        found: dict[str, Any] = {
            "mean_fit_time": np.full(len(mean), self.seconds / self.scores.size),
            "std_fit_time": np.zeros(len(mean)),
            "mean_score_time": np.zeros(len(mean)),
            "std_score_time": np.zeros(len(mean)),
        }
        for name in names:
            values = [candidate[name] for candidate in self.candidates]
            found[f"param_{name}"] = np.ma.masked_array(values, mask=False)
        found["params"] = [{name: candidate[name] for name in names} for candidate in self.candidates]
        for k, column in enumerate(self.scores.T):
            found[f"split{k}_test_score"] = column
        ranks = rankdata(np.where(self.solved, -mean, np.inf), method="min").astype(np.int32)
        return found | {"mean_test_score": mean, "std_test_score": self.scores.std(axis=1), "rank_test_score": ranks}


def search(
    problem_of: Callable[[Any, float], Problem],
    grids: Mapping[str, Sequence[Any]],
    sample: Sample,
    folds: Folds,
    score: Callable[[Vector, Sample], float],
    tol: float,
    verbose: bool | None,
) -> Search:
    """All candidates; `problem_of(scale, epsilon)` is the problem with C = nu = 1, its first term the labels.

    A time limit ends it with what is solved by then; the scores of all else are NaN.
    """
    start = perf_counter()
    labelled = sample.take(sample.labelled)
    weights = list(product(grids["C"], grids["nu"]))
    candidates, found, status = [], [], CONVERGED
    for scale, epsilon in product(grids["scale"], grids["epsilon"]):
        candidates += [{"C": C, "nu": nu, "scale": scale, "epsilon": epsilon} for C, nu in weights]
        if seconds_left() <= 0:
            status = TIME_LIMIT
            found.append(np.full((2, len(weights), len(folds)), np.nan))
            continue
        problem = problem_of(scale, epsilon).in_double()
        solutions = _solutions(problem, grids["C"], grids["nu"], folds, tol, verbose)  # (C * nu, folds)
        status = min({s.status for s in solutions.flat} - {CONVERGED}, default=status)
        found.append(_judged(problem.terms[0], solutions, labelled, folds, score))
    scores, losses = np.concatenate(found, axis=1)
    return Search(candidates, scores, losses, perf_counter() - start, status if np.any(np.isnan(scores)) else CONVERGED)


def _judged(
    labels: Term, solutions: Vector, labelled: Sample, folds: Folds, score: Callable[[Vector, Sample], float]
) -> Vector:
    """The scores and the losses (2, candidates, folds) of solutions, NaN of those that did not converge."""
    found = np.full((2, *solutions.shape), np.nan)
    for k, (_, scored) in enumerate(folds):
        rows = np.flatnonzero(scored)
        share = scored[rows] / labelled.count[rows]
        part = labelled.take(rows)
        part = replace(part, weight=share * part.weight)
        solved = [i for i, s in enumerate(solutions[:, k]) if s.status == CONVERGED]
        values = evaluated([s.function for s in solutions[solved, k]], labels.functional.take(rows))
        for i, own in zip(solved, values, strict=True):
            found[:, i, k] = score(own, part), _mean_loss(labels, rows, share, own)
    return found


def _mean_loss(labels: Term, rows: Vector, share: Vector, values: Vector) -> float:
    """Return the mean, by weight, of the losses of shares of some labels (of the sums over classes)."""
    target, weight = to_numpy(labels.target)[rows], to_numpy(labels.weights())[rows, 0]
    loss = to_numpy(labels.loss.value(values, target)).reshape(len(rows), -1).sum(axis=1)
    return float(np.average(loss, weights=share * weight))


def _solutions(
    problem: Problem, Cs: Sequence[float], nus: Sequence[float], folds: Folds, tol: float, verbose: bool | None
) -> Vector:
    """Return the solutions of all folds for each (C, nu); nu is the factor of all but the labels."""
    held_out = {0: [factors for factors, _ in folds]}
    options: dict[str, Any] = {"held_out": held_out, "tol": tol, "verbose": verbose}
    if len(problem.terms) == 1:
        return np.repeat(problem.grid({0: Cs}, **options), len(nus), axis=0)
    others = tuple(range(1, len(problem.terms)))
    return problem.grid({0: Cs, others: nus}, **options).reshape(-1, len(folds))


def evaluated(functions: list[AnyFunction], points: Functional) -> list[Vector]:
    """The values of all functions; those with the same representers are evaluated together, some at a time."""
    found: list[Vector] = []
    for _, group in groupby(functions, key=_span):
        alike = list(group)
        count = max(1, COLUMNS // (alike[0].outputs or 1))
        for start in range(0, len(alike), count):
            found += _together(alike[start : start + count], points)
    return found


def _span(f: AnyFunction) -> int:
    """Which functions f is a combination of."""
    return id(f.features if isinstance(f, FeatureFunction) else f.functionals)


def _together(functions: list[AnyFunction], points: Functional) -> list[Vector]:
    """The values of functions with the same representers."""
    first = functions[0]
    wide = first.outputs or 1
    joined = replace(
        first,
        coefficients=_side_by_side([f.coefficients for f in functions]),
        basis_coefficients=None if first.basis is None else _side_by_side([f.basis_coefficients for f in functions]),
    )
    values = to_numpy(points(joined)).reshape(points.size, len(functions), wide)
    return [own[:, 0] if first.outputs is None else own for own in values.transpose(1, 0, 2)]


def _side_by_side(columns: list[Array]) -> Array:
    return namespace(columns[0]).concat([c if c.ndim == 2 else c[:, None] for c in columns], axis=1)


@dataclass(frozen=True, eq=False)
class Column:
    """Values of which many are the same: the different ones, and which of them each is.

    Examples
    --------
    >>> column = Column.of(["near", None, "near"])
    >>> column.different, column.which.tolist(), column.values()
    (['near', None], [0, 1, 0], ['near', None, 'near'])
    """

    different: list[Any]
    which: Vector

    @classmethod
    def of(cls, values: Iterable[Any]) -> Column:
        """Texts and numbers are the same if they look so, objects if they are."""
        places: dict[Any, int] = {}
        different, which = list[Any](), list[int]()
        for value in values:
            key = (type(value), repr(value)) if _plain(value) else id(value)
            if key not in places:
                places[key] = len(different)
                different.append(value)
            which.append(places[key])
        return cls(different, np.array(which, dtype=np.int32))

    def values(self) -> list[Any]:
        """All of them."""
        return [self.different[k] for k in self.which]


@dataclass(frozen=True, eq=False)
class Results:
    """What `cv_results_` holds, in its order; `params` by name, and arrays of objects as columns."""

    entries: dict[str, Any]

    @classmethod
    def of(cls, results: dict[str, Any]) -> Results:
        """In short."""
        return cls({name: _short(value) for name, value in results.items()})

    def whole(self) -> dict[str, Any]:
        """As it was."""
        return {name: _whole(value) for name, value in self.entries.items()}


def _plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_plain, value))
    return value is None or isinstance(value, str | float | int | np.number)


def _short(value: Any) -> Any:
    if isinstance(value, list):  # params: a dict for each candidate, all with the same names
        return {name: Column.of(one[name] for one in value) for name in value[0]}
    objects = isinstance(value, np.ma.MaskedArray) and value.dtype == object and value.ndim == 1
    return Column.of(value.data) if objects else value


def _whole(value: Any) -> Any:
    if isinstance(value, Column):
        data = np.empty(len(value.which), dtype=object)
        data[:] = value.values()
        return np.ma.masked_array(data, mask=False)
    if isinstance(value, dict):
        columns = [column.values() for column in value.values()]
        return [dict(zip(value, row, strict=True)) for row in zip(*columns, strict=True)]
    return value
