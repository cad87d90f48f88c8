"""Maps: regression with many points in at most three dimensions, on a Fourier grid.

Leave-one-out errors of a sample of the rows favor kernels that are too smooth for all of them, because points of the
sample are far apart.  Kernels of different smoothness are therefore compared by the evidence of a spatial sample, part
of which lies in a few neighborhoods; the one with the largest evidence is used with all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from math import inf
from typing import Any

import numpy as np

from rkhs._backend.arrays import to_numpy
from rkhs._estimators.cross_validation import cv_results, masked_objects
from rkhs._finite.solution import CONVERGED
from rkhs._learning.tuning import Tuning
from rkhs._problem.problem import Problem
from rkhs._progress import seconds_left
from rkhs._spaces import FourierGrid
from rkhs.kernels import Gaussian, Kernel, Matern, Tunable

DIMENSIONS = 3
FIRST, SAMPLE = 600, 1500  # functionals of an evaluation of the evidence, to compare kernels and for the chosen one


def can_map(dimension: int) -> bool:
    """Return whether points of a dimension can be mapped with the installed packages."""
    return dimension <= DIMENSIONS and any(find_spec(name) is not None for name in ("ducc0", "finufft"))


@dataclass(frozen=True, eq=False)
class MapChoice:
    """Problems with tuned kernels of different smoothness, the one with the largest evidence first.

    `best` has the same kernel as the first one, tuned with a larger sample.
    """

    problems: list[Problem]
    best: Problem

    @classmethod
    def of(cls, problem: Problem, verbose: bool) -> MapChoice:
        """Tune all kernels for a problem whose only term has squared losses of values."""
        [term] = problem.terms
        weight = term.weight if isinstance(term.weight, float) else to_numpy(term.weight)
        open_term = term.changed(weight=Tunable() * (weight / float(np.mean(weight))))
        scale = Tunable(each=True)
        kernels: list[Kernel] = [*(Matern(nu, scale=scale) for nu in (0.5, 1.5, 2.5)), Gaussian(scale=scale)]
        limit = None if seconds_left() == inf else 0.5 * max(seconds_left(), 0.0) / (1 + len(kernels))
        options: dict[str, Any] = {"starts": 1, "time_limit": limit, "verbose": verbose}
        opened = [Problem(kernel, [open_term], problem.basis, approximation=FourierGrid()) for kernel in kernels]
        tuned = [one.tune(functionals=FIRST, **options) for one in opened]
        order = sorted(range(len(tuned)), key=lambda k: -_tuning(tuned[k]).value)
        return cls([tuned[k] for k in order], opened[order[0]].tune(functionals=SAMPLE, **options))

    @property
    def status(self) -> str:
        """The status of the first search that did not converge, or "converged"."""
        return next((_tuning(p).status for p in self.problems if _tuning(p).status != CONVERGED), CONVERGED)

    @staticmethod
    def params(problem: Problem) -> dict[str, Any]:
        """Return the parameters of an estimator that correspond to a tuned problem."""
        kernel: Any = problem.kernel
        C = _tuning(problem).parameters["terms[0].weight"]
        return {"C": C, "nu": 0.0, "scale": kernel.scale, "kernel": kernel, "invariance": None}

    def report(self) -> dict[str, Any]:
        """Return `selection_report_`."""
        used, total = _tuning(self.best).functionals
        return {
            "sentence": (
                f"A map of {total} values: {self.best.kernel!r} has the largest evidence of four kernels, by a sample "
                f"of {used} values."
            ),
            "candidates": [{"evidence": _tuning(p).value, **self.params(p)} for p in self.problems],
            "chosen": {"prior": "none", **self.params(self.best)},
            "score": _tuning(self.problems[0]).value,
        }

    def results(self, seconds: float) -> dict[str, Any]:
        """Return `cv_results_`, whose scores are evidences."""
        params = [self.params(problem) for problem in self.problems]
        columns = {name: masked_objects([values[name] for values in params]) for name in params[0]}
        scores = np.array([[_tuning(problem).value] for problem in self.problems])
        return cv_results(params, columns, scores, -scores[:, 0], seconds)


def _tuning(problem: Problem) -> Tuning:
    assert problem.tuning is not None
    return problem.tuning
