"""Problems in stored features (`_finite.features`), solved to rounding: Newton's method, and elimination for kinks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rkhs._finite.certificate import certify
from rkhs._finite.features import Features
from rkhs._finite.monitor import Monitor
from rkhs._finite.problem import FiniteProblem, Iterate
from rkhs.exceptions import NotApplicableError
from rkhs.solvers._base import Solver
from rkhs.solvers._subspace import solve


@dataclass(frozen=True)
class FeatureNewton(Solver):
    """Newton's method, or elimination where losses have kinks, for problems in stored features."""

    def check(self, system: FiniteProblem) -> None:
        if not isinstance(system.geometry, Features):
            raise NotApplicableError("FeatureNewton needs a space whose matrices are stored, such as Landmarks.")

    def run(self, system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
        features, count = system.geometry, system.geometry.resolved
        rest = np.zeros((len(features.square) - count, system.columns))
        if not system.terms:
            theta = features.curvature.minimum(features.linear[:count])
            return features.iterate(np.concatenate([theta, rest]), np.zeros((0, system.columns)))
        outputs = [self._run_output(system.output(c), start.output(c), monitor) for c in range(system.columns)]
        return Iterate.joined(outputs)

    def _run_output(self, system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
        """Solve a problem of one output to the tolerance, if rounding allows."""
        features, count = system.geometry, system.geometry.resolved
        leading = FiniteProblem(features.leading(count), system.terms)
        theta = np.concatenate([start.basis, start.a])[:count, 0]
        for enough in (monitor.tol / 100, 0.0) if system.smooth else (0.0,):
            theta, alpha = solve(leading, monitor.tol / 4, theta, enough, monitor.left)
            padded = np.concatenate([theta, np.zeros(len(features.square) - count)])
            iterate = features.iterate(padded[:, None], alpha[:, None])
            if certify(system, iterate, monitor.tol).within(monitor.tol):
                break
        return iterate
