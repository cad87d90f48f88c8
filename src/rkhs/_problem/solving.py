"""A solver is asked until what it finds, certified from scratch, is good enough, or asking again gains nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from rkhs._finite.certificate import Certificate, certify, certify_in_haste
from rkhs._finite.monitor import InnerMonitor, Monitor, Stopped
from rkhs._finite.problem import FiniteProblem, Iterate
from rkhs._finite.solution import CONVERGED, INTERRUPTED
from rkhs._finite.verified import VerifiedIterate
from rkhs._progress import interrupted
from rkhs.solvers._base import Solver

NEAR = 5  # times the tolerance, up to which a solver that misses it by rounding is asked again


def asked_until_done(
    solver: Solver, system: FiniteProblem, start: Iterate, monitor: Monitor
) -> tuple[Iterate, str, Certificate]:
    """What a solver finds, what stopped it, and the certificate of what it found."""
    watched = monitor.watching(system)
    last, asked, before = start, monitor, inf
    while True:
        last, status = _watched(solver, watched, last, asked, monitor)
        certificate = certificate_of(system, last, monitor.tol, status)
        again = _again(certificate, system, asked, before, monitor)
        if status != CONVERGED or again is None:
            return last, status, certificate
        asked, before = again, certificate.relative


def certificate_of(system: FiniteProblem, iterate: Iterate, tol: float, status: str) -> Certificate:
    """From images that were checked, or from scratch; in haste where a solver was stopped."""
    if isinstance(iterate, VerifiedIterate):
        return iterate.certificate
    return certify(system, iterate, tol, quick=status != CONVERGED)


def certificates_of(cells: Sequence[tuple[FiniteProblem, Iterate]], tol: float, status: str) -> list[Certificate]:
    """The same for the cells of a grid, which have one Gram matrix; in haste all of them take two products."""
    hasty = {k for k, (_, own) in enumerate(cells) if status != CONVERGED and not isinstance(own, VerifiedIterate)}
    found = iter(certify_in_haste([cells[k] for k in sorted(hasty)]))
    return [next(found) if k in hasty else certificate_of(*cells[k], tol, status) for k in range(len(cells))]


def _again(
    certificate: Certificate, system: FiniteProblem, asked: Monitor, before: float, monitor: Monitor
) -> Monitor | None:
    """What to ask a solver for that believes to be done, and is not; None where there is nothing to gain.

    The same, from the true image, where products are inexact and that halves the true gap; and less, once, where
    rounding leaves it just short of the tolerance.
    """
    gap, tol, left = certificate.relative, monitor.tol, monitor.tol - certificate.uncertain
    if certificate.within(tol):
        return None
    if system.inexact and tol < gap <= before / 2:
        return monitor
    if asked is monitor and left > 0 and gap <= NEAR * tol:
        return InnerMonitor(left / 2, outer=monitor)
    return None


def _watched(
    solver: Solver, system: FiniteProblem, start: Iterate, asked: Monitor, monitor: Monitor
) -> tuple[Iterate, str]:
    """What a solver finds and its status; the best iterate so far if it was stopped."""
    found = monitor.best = start

    def work() -> None:
        nonlocal found
        found = solver.run(system, start, asked)

    status = stopped(monitor, work)
    return (found if status == CONVERGED else monitor.best or start), status


def stopped(monitor: Monitor, work: Callable[[], None]) -> str:
    """What stopped the work; that it "converged" if nothing did."""
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
