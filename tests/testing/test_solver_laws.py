"""Every solver obeys the laws, and each law catches a solver that breaks it."""

from dataclasses import dataclass, replace

import pytest

import rkhs
from rkhs._core.finite.certificate import certify
from rkhs.extend import Iterate, Monitor, NotApplicableError, Solver, Stopped
from rkhs.testing import check_solver

PUBLIC = [getattr(rkhs.solvers, name) for name in rkhs.solvers.__all__]
SOLVERS = [kind() for kind in PUBLIC if isinstance(kind, type) and issubclass(kind, Solver) and kind is not Solver]


@pytest.mark.every
@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
def test_every_solver_obeys(solver):
    check_solver(solver)


@dataclass(frozen=True)
class Wrong(rkhs.solvers.Newton):
    """Newton's method on smooth losses, spoilt by each of the following."""


class Early(Wrong):
    def run(self, system, start, monitor):
        return start


class Never(Wrong):
    def check(self, system):
        raise NotApplicableError("Never: use rkhs.solvers.NonlinearCG().")


class Curt(Wrong):
    def check(self, system):
        raise NotApplicableError("No.")


class Silent(Wrong):
    def run(self, system, start, monitor):
        return super().run(system, start, Monitor(monitor.tol))


class Lying(Wrong):
    def run(self, system, start, monitor):
        found = super().run(system, start, monitor)
        monitor.report(found, 0.0, 0.0)
        return found


class Deaf(Wrong):
    def run(self, system, start, monitor):
        try:
            return super().run(system, start, monitor)
        except (Stopped, KeyboardInterrupt):
            return super().run(system, start, replace(monitor, callback=None, time_limit=None))


class Forgetful(Wrong):
    def run(self, system, start, monitor):
        found = super().run(system, start, Monitor(monitor.tol))
        monitor.report(start, 1.001 * float(certify(system, found).primal.sum()), 1.0)
        return found


class OneOutput(Wrong):
    def run(self, system, start, monitor):
        found = super().run(system, start, monitor)
        if system.columns == 1:
            return found
        return Iterate(found.a * [1.0, 0.0], found.basis * [1.0, 0.0])


class Cold(Wrong):
    def run(self, system, start, monitor):
        if (start.a != 0).any():
            return system.start()
        return super().run(system, start, monitor)


class Slower(Wrong):
    def run(self, system, start, monitor):
        if (start.a != 0).any():
            for _ in range(100):
                monitor.report(start, 1e3, 1.0)
        return super().run(system, start, monitor)


class Meddling(Wrong):
    def run(self, system, start, monitor):
        for t in system.terms:
            if not t.weight.flags.writeable:
                t.weight.flags.writeable = True
            t.weight[:] = 2 * t.weight
        return super().run(system, start, monitor)


@pytest.mark.every
@pytest.mark.parametrize(
    ("solver", "law"),
    [
        (Early(), "that it reaches the tolerance, on Squared"),
        (Never(), "that it applies to some problem"),
        (Curt(), "that a refusal names a solver that applies, on .*: No"),
        (Silent(), "that it reports at least once"),
        (Lying(), "that no J that it reports is below the minimum"),
        (Deaf(), "that a callback stops it at its first report"),
        (Forgetful(), "that a callback leaves the iterate of the J that was reported"),
        (OneOutput(), "that it solves several outputs"),
        (Cold(), "that it converges from a warm start"),
        (Slower(), "that a start at the solution costs no more iterations"),
        (Meddling(), "that (its J is that of an exact solver|it reaches the tolerance)"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_each_law_catches_a_solver_that_breaks_it(solver, law):
    with pytest.raises(AssertionError, match=f"{solver.name}.* breaks the law {law}"):
        check_solver(solver)
