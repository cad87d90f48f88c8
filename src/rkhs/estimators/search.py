"""The grid of C, nu, scale and epsilon over all folds: one `Problem.grid` for each scale and epsilon.

Solves are shared over folds, C, nu and classes.  The results have the form of scikit-learn's `GridSearchCV`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, product
from time import perf_counter
from typing import Any

import numpy as np
from scipy.stats import rankdata

from rkhs._backend.arrays import Array, Vector, namespace, to_numpy
from rkhs._finite.feature_function import FeatureFunction
from rkhs._finite.function import Function
from rkhs._finite.solution import CONVERGED, TIME_LIMIT
from rkhs._finite.term import Term
from rkhs.estimators.folds import Folds
from rkhs.estimators.sample import Sample
from rkhs.functionals import Functional
from rkhs.problem import Problem
from rkhs.stopping import seconds_left

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
