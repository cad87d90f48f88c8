"""Run a solver until its iterate, certified from scratch, is within the tolerance or cannot be improved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from rkhs._finite.certificate import Certificate, certify
from rkhs._finite.monitor import InnerMonitor, Monitor, Stopped
from rkhs._finite.problem import FiniteProblem, Iterate
from rkhs._finite.representers import VerifiedIterate, certify_quickly
from rkhs._finite.solution import ABSOLUTE, CONVERGED, INTERRUPTED
from rkhs._progress import interrupted
from rkhs.solvers._base import Solver

NEAR = 5  # multiple of the tolerance up to which a solver whose gap misses it by rounding is run again


def solve_to_tolerance(
    solver: Solver, system: FiniteProblem, start: Iterate, monitor: Monitor
) -> tuple[Iterate, str, Certificate]:
    """Run a solver, several times if that improves the certificate; return the iterate, its status and certificate."""
    watched = monitor.monitored(system)
    iterate, current, previous_gap = start, monitor, inf
    while True:
        iterate, status = _run_solver(solver, watched, iterate, current, monitor)
        certificate = certificate_of(system, iterate, monitor.tol, status)
        inexact = system.inexact or solver.inexact
        following = _next_monitor(certificate, status, inexact, current, previous_gap, monitor)
        if following is None:
            return iterate, status, certificate
        current, previous_gap = following, certificate.relative


def certificate_of(system: FiniteProblem, iterate: Iterate, tol: float, status: str) -> Certificate:
    """Return the certificate of an iterate: the verified one if there is one, else from scratch.

    If the solver was stopped early, a quick certificate has to do.
    """
    if isinstance(iterate, VerifiedIterate):
        return iterate.certificate
    return certify(system, iterate, tol, quick=status != CONVERGED)


def certificates_of(cells: Sequence[tuple[FiniteProblem, Iterate]], tol: float, status: str) -> list[Certificate]:
    """Return the certificates of the cells of a grid, which share a Gram matrix.

    If the grid was stopped early, the quick certificates of all cells together take two products.
    """
    quick = {k for k, (_, it) in enumerate(cells) if status != CONVERGED and not isinstance(it, VerifiedIterate)}
    certificates = iter(certify_quickly([cells[k] for k in sorted(quick)]))
    return [next(certificates) if k in quick else certificate_of(*cells[k], tol, status) for k in range(len(cells))]


def _next_monitor(
    certificate: Certificate, status: str, inexact: bool, current: Monitor, previous_gap: float, monitor: Monitor
) -> Monitor | None:
    """Return the monitor with which to run a solver again whose certified gap is too large; None if that is useless.

    The solver is run again from the true image if products are inexact and the last run has halved the true gap.  It is
    run once with a smaller tolerance if rounding leaves the gap just above the tolerance.
    """
    gap, tol, margin = certificate.relative, monitor.tol, monitor.tol - certificate.uncertain
    if status not in (CONVERGED, ABSOLUTE) or certificate.within(tol) or certificate.gap <= 2 * monitor.atol:
        return None
    if inexact and tol < gap <= previous_gap / 2:
        return monitor
    if current is monitor and margin > 0 and gap <= NEAR * tol:
        return InnerMonitor(margin / 2, outer=monitor)
    return None


def _run_solver(
    solver: Solver, system: FiniteProblem, start: Iterate, current: Monitor, monitor: Monitor
) -> tuple[Iterate, str]:
    """Return the iterate of a solver and its status; the best iterate so far if the solver was stopped."""
    result = monitor.best = start

    def work() -> None:
        nonlocal result
        result = solver.run(system, start, current)

    status = run_until_stopped(monitor, work)
    return (result if status == CONVERGED else monitor.best or start), status


def run_until_stopped(monitor: Monitor, work: Callable[[], None]) -> str:
    """Run `work` and return its status: "converged", or what stopped it, such as a time limit or Ctrl-C."""
    try:
        work()
    except Stopped as stop:
        return str(stop)
    except KeyboardInterrupt:
        interrupted()
        return INTERRUPTED
    finally:
        monitor.close()
    return CONVERGED
