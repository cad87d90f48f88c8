"""What a solver is: an object with its settings, and `run`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf

from rkhs._finite.monitor import InnerMonitor, Monitor
from rkhs._finite.problem import FiniteProblem, Iterate
from rkhs.solvers.costs import Estimate
from rkhs.solvers.dense import fits, from_memory, in_memory, to_memory


class NotApplicableError(ValueError):
    """A solver cannot solve this problem; the message says why and which can.

    Examples
    --------
    >>> import rkhs
    >>> term = rkhs.Term(rkhs.Evaluation([[0.0], [1.0]]), rkhs.Hinge(), target=[-1.0, 1.0])
    >>> try:
    ...     rkhs.Problem(rkhs.Gaussian(), [term]).solve(rkhs.solvers.Newton())
    ... except rkhs.NotApplicableError:
    ...     print("Newton's method needs smooth losses")
    Newton's method needs smooth losses
    """


@dataclass(frozen=True)
class Solver(ABC):
    """An algorithm for the finite problem.

    `run` iterates until the relative gap is at most `monitor.tol`, telling the monitor after each iteration, and
    returns its last iterate.  It raises `Stopped` with a status when it must give up before.  What it believes of its
    gap is not asked for: the certificate of what it returns is computed from scratch by whoever called it.

    Examples
    --------
    >>> import rkhs
    >>> isinstance(rkhs.solvers.Newton(), rkhs.solvers.Solver)
    True
    """

    @property
    def name(self) -> str:
        return type(self).__name__

    @abstractmethod
    def check(self, system: FiniteProblem) -> None:
        """Raise `NotApplicableError` if this solver cannot solve the system."""

    def cost(self, estimate: Estimate) -> float:
        """The seconds that it would take, estimated (`costs`); infinite for solvers that are never chosen."""
        return inf

    def step(self, estimate: Estimate) -> float:
        """The seconds of one of its iterations, beside a Gram product."""
        return estimate.step

    @abstractmethod
    def run(self, system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
        """Solve the system from the given iterate."""


@dataclass(frozen=True)
class DenseSolver(Solver):
    """A solver with the Gram matrix in memory."""

    def fits(self, rows: int) -> bool:
        """Whether what it does with a Gram matrix of so many rows fits in memory."""
        return fits(rows)

    def check(self, system: FiniteProblem) -> None:
        """Refuse what does not fit in memory."""
        if not (system.gram.stored or self.fits(system.size)):
            others = ("ConjugateGradients", "Galerkin") if system.quadratic else ("Galerkin", "Descent")
            raise NotApplicableError(
                f"{self.name} stores the Gram matrix of {system.size} functionals, which does not fit in memory: "
                f"use {' or '.join(f'rkhs.solvers.{name}()' for name in others)}, which do not store it."
            )


@dataclass(frozen=True)
class OutputSolver(DenseSolver):
    """A solver with the Gram matrix in memory, for one output after the other."""

    def run(self, system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
        monitor.check(Estimate(system, monitor.tol).matrix)
        inside = in_memory(system)
        found = to_memory(inside, system, start)
        for k in range(system.columns):

            def whole(one: Iterate, k: int = k, found: Iterate = found) -> Iterate:
                return from_memory(inside, system, found.with_output(k, one))

            inner = InnerMonitor(monitor.tol, outer=monitor, whole=whole)
            found = found.with_output(k, self.run_output(inside.output(k), found.output(k), inner))
        return from_memory(inside, system, found)

    @abstractmethod
    def run_output(self, system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
        """Solve a system of one output whose Gram matrix is a NumPy array."""
