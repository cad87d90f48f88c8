"""The search for settings: L-BFGS in logarithms, from several starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np
import scipy  # which imports scipy.optimize when it is first used

from rkhs._backend.arrays import Matrix
from rkhs._finite.monitor import Monitor, OutOfIterations, Stopped
from rkhs._finite.solution import CONVERGED, INTERRUPTED, Record
from rkhs._progress import interrupted

ENOUGH = 1e-5  # for each functional, by which the criterion has to rise in an iteration
LOOK = "tuning: an evaluation"  # what is shown meanwhile
ITERATIONS = 200  # of one start
OUT_OF_ITERATIONS = str(OutOfIterations())
FACTORS = (0.5, 1.0, 2.0, 4.0)  # on all scales together, for the first look
CLEANER = (1.0, 1e-2, 1e-4)  # and on the noise
AT_BOUND = 1e-6

# theta -> the criterion, and its gradient if the second argument says so
Criterion = Callable[[Matrix, bool], tuple[float, Matrix]]


@dataclass
class TuningMonitor(Monitor):
    """Tells about evaluations of a criterion."""

    def line(self, record: Record) -> str:
        return f"tuning: evaluation {record.iteration}, {record.seconds:.0f} s, best {-record.primal:.6g}"


@dataclass
class Space:
    """theta (p,), the logarithms of settings: where it begins, its bounds, and what scales have to do with each other.

    `together` are the scales, `noise` the weights; `families` those of the features of one kernel, which a prior draws
    to their common mean: theta minus its start is normal around the mean of the family, with the given deviation.
    """

    start: Matrix
    low: Matrix
    high: Matrix
    together: list[int]
    noise: list[int]
    families: list[list[int]]
    prior: float | None

    def penalty(self, theta: Matrix) -> tuple[float, Matrix]:
        """Minus the logarithm of the prior, and its gradient."""
        total, gradient = 0.0, np.zeros_like(theta)
        for family in self.families if self.prior is not None else []:
            away = theta[family] - self.start[family]
            away = (away - away.mean()) / self.prior
            total += float(away @ away) / 2
            gradient[family] += away / self.prior
        return total, gradient

    def looks(self) -> list[Matrix]:
        """Common factors on all scales, and on all noise."""
        found = []
        for wider in FACTORS if self.together else (1.0,):
            for cleaner in CLEANER if self.noise else (1.0,):
                theta = self.start.copy()
                theta[self.together] += np.log(wider)
                theta[self.noise] -= np.log(cleaner)
                found.append(np.clip(theta, self.low, self.high))
        return found

    def jump(self, theta: Matrix, random: np.random.Generator) -> Matrix:
        """Another start not far from a good one."""
        return np.clip(theta + random.normal(size=len(theta)), self.low, self.high)

    def at_bounds(self, theta: Matrix) -> list[int]:
        """What has run away."""
        return np.flatnonzero((theta <= self.low + AT_BOUND) | (theta >= self.high - AT_BOUND)).tolist()


@dataclass
class Search:
    """What was found so far."""

    criterion: Criterion
    count: int  # of functionals
    space: Space
    monitor: Monitor
    best: Matrix | None = None
    objective: float = inf
    value: float = -inf
    seconds: list[float] = field(default_factory=list)
    iterations: int = ITERATIONS  # of one start
    ends: list[Matrix] = field(default_factory=list)  # where starts have led to

    def run(self, starts: int, random: np.random.Generator, begin: Sequence[Matrix] | None = None) -> str:
        """Search from the best of some first looks, or of given points, then from others near the best; the status."""
        try:
            done = self._descend(self._best_of(self.space.looks() if begin is None else begin))
            for _ in range(starts - 1):
                done &= self._descend(self.space.jump(self.found, random))
        except Stopped as stop:
            return str(stop)
        except KeyboardInterrupt:
            if self.best is None and begin is None:  # there is nothing to return
                raise
            interrupted()
            return INTERRUPTED
        finally:
            self.monitor.close()
        return CONVERGED if done else OUT_OF_ITERATIONS

    @property
    def found(self) -> Matrix:
        """The best so far."""
        assert self.best is not None
        return self.best

    def _best_of(self, some: Sequence[Matrix]) -> Matrix:
        """The best of some points."""
        return some[0] if len(some) == 1 else min(some, key=lambda theta: self._objective(theta, slope=False)[0])

    def _descend(self, theta: Matrix) -> bool:
        """Go down from a point; whether that came to an end within the limit."""
        origin: list[
            float
        ] = []  # the units of targets add a number to the criterion, which must not decide when to stop

        def objective(theta: Matrix) -> tuple[float, Matrix]:
            value, gradient = self._objective(theta)
            origin.append(value)
            return (value - origin[0]) / self.count, gradient / self.count

        found = scipy.optimize.minimize(
            objective,
            theta,
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(self.space.low, self.space.high, strict=True)),
            options={"maxiter": self.iterations, "ftol": ENOUGH, "gtol": ENOUGH},
        )
        self.ends.append(np.asarray(found.x))
        return int(found.nit) < self.iterations

    def _objective(self, theta: Matrix, slope: bool = True) -> Any:
        """Minus the criterion plus the penalty, and its gradient."""
        before = self.monitor.seconds
        self.monitor.check(max(self.seconds, default=0.0))
        with self.monitor.showing(LOOK):
            value, gradient = self.criterion(theta, slope)
        penalty, more = self.space.penalty(theta)
        objective = penalty - value
        if objective < self.objective:
            self.best, self.objective, self.value = theta.copy(), objective, value
        self.seconds.append(self.monitor.seconds - before)
        self.monitor.report(None, -self.value, inf)
        return objective, (more - gradient if slope else more)
