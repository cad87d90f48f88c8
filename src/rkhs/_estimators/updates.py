"""Rows that are added to fitted estimators and removed from them, and the estimators that support it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sklearn.base import BaseEstimator

from rkhs._estimators.data import Sample
from rkhs._estimators.options import SolverOptions
from rkhs._estimators.problem import Formulation, depends_on_row_order
from rkhs._problem import Problem
from rkhs._problem.updates import Solved, functional_keys, represented_keys
from rkhs._shapes.fitting import shape_of


@dataclass(frozen=True, eq=False)
class Training:
    """The rows of a model, the settings that its first fit determined, and its last update."""

    rows: Sample  # a point for each row
    formulation: Formulation
    settings: dict[str, Any]  # the parameters of the estimator
    last: Solved | None = None

    def solved(self, sample: Sample, estimator: Any) -> tuple[Problem, Solved]:
        """Formulate and solve the problem of another sample, most of which is that of the last solution."""
        problem, keys = self._keyed(sample)
        last = self.last
        if last is None:
            earlier, earlier_keys = self._keyed(estimator._distinct(self.rows))
            last = Solved(estimator.solution_, represented_keys(earlier, earlier_keys))
        method = SolverOptions.of(estimator.solver).method
        return problem, last.following(problem, keys, method, estimator.tol, estimator.verbose)

    def _keyed(self, sample: Sample) -> tuple[Problem, list[Any]]:
        """Return the problem of a sample, and the keys of the functionals of each term."""
        problem, points = self.formulation(sample)
        keys = sample.keys
        terms = zip(problem.terms, points, strict=True)
        return problem, [functional_keys(k, term.size, keys[which]) for k, (term, which) in enumerate(terms)]


def updatable(estimator: BaseEstimator) -> bool:
    """Return True if an estimator has `partial_fit`; otherwise raise an AttributeError that explains why not."""
    return estimator.approximation is not None or in_memory(estimator)


def in_memory(estimator: Any) -> bool:
    """Return True if an estimator keeps rows, which can be added and removed; otherwise raise an AttributeError."""
    reasons = (
        (estimator.approximation is not None, f"approximation={estimator.approximation!r}", "keeps sums, not rows"),
        (estimator._is_precomputed, 'kernel="precomputed"', "has no kernel values of other rows"),
        (shape_of(estimator) is not None, f"shape={estimator.shape!r}", "has to be proved anew"),
        (
            depends_on_row_order(estimator.invariance),
            f"invariance={estimator.invariance!r}",
            "refers to rows by index",
        ),
    )
    for applies, setting, reason in reasons:
        if applies:
            raise AttributeError(
                f"{type(estimator).__name__} with {setting}, which {reason}, cannot add or remove rows: call fit with "
                "all rows."
            )
    return True
