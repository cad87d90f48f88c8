"""From the parameters of a cross-validated machine to the best machine, trained on all labels."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from sklearn.exceptions import ConvergenceWarning

from rkhs.estimators.folds import folds_of
from rkhs.estimators.grids import C_RANGE, NU_RANGE, as_grid, as_list
from rkhs.estimators.invariant_problem import invariant_problem
from rkhs.estimators.labels import class_weights
from rkhs.estimators.options import check_in_span
from rkhs.estimators.sample import Sample, Vector
from rkhs.estimators.search import Search, search
from rkhs.problem import Problem
from rkhs.streams.sources import in_blocks


class CrossValidated:
    """A machine with grids Cs, nus, scales, epsilons in the place of single values."""

    plain: type[Any]  # the machine with single values

    def _choose(self, sample: Sample, splitter: Callable[..., Any], score: Callable[[Vector, Sample], float]) -> Any:
        """The machine with the best values, not trained yet; leaves `cv_results_` and all that belongs to it."""
        own: Any = self
        if own.approximation is not None:
            check_in_span(own)
        grids = {
            "C": as_grid(own.Cs, "Cs", C_RANGE),
            "nu": as_grid(own.nus, "nus", NU_RANGE, with_zero=True),
            "scale": as_list(own.scales),
            "epsilon": as_list(own.epsilons),
        }

        def problem_of(scale: Any, epsilon: float) -> Problem:
            return invariant_problem(self._plain(C=1.0, nu=1.0, scale=scale, epsilon=epsilon), sample)

        seed = 0 if own.random_state is None else own.random_state
        folds = folds_of(own.cv, sample, partial(splitter, shuffle=True, random_state=seed))
        if getattr(own, "class_weight", None) == "balanced":  # counts the labels that a fold keeps
            labelled = sample.take(sample.labelled)

            def of_classes(rows: Vector) -> Vector:
                return class_weights(own.class_weight, own.classes_, labelled.y[rows], labelled.weight[rows])

            folds = folds.weighted(of_classes)
        found = search(problem_of, grids, sample, folds, score, own.cv_tol, own.verbose)
        self._check_solved(found)
        shown = [name for name, values in grids.items() if name in ("C", "nu") or len(values) > 1]
        best = found.candidates[found.best]
        own.C_, own.nu_, own.scale_, own.epsilon_ = (best[name] for name in grids)
        own.best_index_, own.best_score_ = found.best, float(found.scores[found.best].mean())
        own.best_params_ = {name: best[name] for name in shown}
        own.cv_results_, own.search_status_ = found.results(shown), found.status
        return self._plain(**best)

    def _check_solved(self, found: Search) -> None:
        """Warn of candidates that were not solved, and are not chosen from; refuse to go on where none was."""
        own: Any = self
        count, solved = len(found.candidates), int(found.solved.sum())
        if solved == 0:
            raise RuntimeError(
                f"{type(self).__name__}: none of the {count} candidates was solved to cv_tol={own.cv_tol:g} "
                f"({found.status}). Give it a larger cv_tol, smaller Cs, or another scale."
            )
        if solved < count:
            warnings.warn(
                f"{type(self).__name__} chose among {solved} of {count} candidates: the others were not solved to "
                f"cv_tol={own.cv_tol:g} ({found.status}), and their scores are NaN.",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _check_rows(self, X: Any) -> None:
        """Refuse rows that are not in memory."""
        if in_blocks(X):
            raise TypeError(
                f"{type(self).__name__} splits rows into folds and needs them in memory, got {type(X).__name__}: "
                f"choose C and nu on a sample of the rows, and fit {self.plain.__name__} with them on all."
            )

    def _adopt(self, machine: Any) -> None:
        """Take over all that a machine has learnt."""
        taken = machine.get_params(deep=False)
        vars(self).update({name: value for name, value in vars(machine).items() if name not in taken})

    def _plain(self, **values: Any) -> Any:
        """The machine with single values and all else as it is here."""
        own: Any = self
        taken = own.get_params(deep=False)
        machine = self.plain(**{name: taken[name] for name in self.plain().get_params(deep=False) if name in taken})
        machine.set_params(**values)
        for name in ("classes_", "feature_names_in_"):
            if hasattr(own, name):
                setattr(machine, name, getattr(own, name))
        return machine
