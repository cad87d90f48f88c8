"""What a solver is: an object with its settings, and `run`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from rkhs.finite.monitor import Monitor
from rkhs.finite.system import Iterate, System


class NotApplicableError(ValueError):
    """A solver cannot solve this problem; the message says why and which can."""


@dataclass(frozen=True)
class Solver(ABC):
    """An algorithm for the finite problem.

    `run` iterates until the relative gap is at most `monitor.tol`, telling the monitor after each iteration, and
    returns its last iterate.  It raises `Stopped` with a status when it must give up before.  The certificate of
    what it returns is computed again, from scratch, by whoever called it.
    """

    @property
    def name(self) -> str:
        return type(self).__name__

    @abstractmethod
    def check(self, system: System) -> None:
        """Raise `NotApplicableError` if this solver cannot solve the system."""

    @abstractmethod
    def run(self, system: System, start: Iterate, monitor: Monitor) -> Iterate:
        """Solve the system from the given iterate."""
