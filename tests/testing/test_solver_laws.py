"""Every solver obeys the laws, and each law catches a solver that breaks it."""

from dataclasses import dataclass

import pytest

import rkhs
from rkhs._core.finite.certificate import certify
from rkhs.extend import Iterate, Solver, Step
from rkhs.solvers import Race
from rkhs.solvers._base import finished
from rkhs.testing import check_solver

PUBLIC = [getattr(rkhs.solvers, name) for name in rkhs.solvers.__all__]
ALONE = [kind() for kind in PUBLIC if isinstance(kind, type) and kind not in (Solver, Race)]
SOLVERS = [*ALONE, Race((rkhs.solvers.Newton(), rkhs.solvers.NonlinearCG()))]


@pytest.mark.every
@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: solver.name)
def test_every_solver_obeys(solver):
    check_solver(solver)


@dataclass(frozen=True)
class Wrong(rkhs.solvers.Newton):
    """Newton's method on smooth losses, spoilt by each of the following."""


class Early(Wrong):
    def steps(self, system, start, tol, monitor):
        yield from ()
        return start


class Never(Wrong):
    def lacks(self, system):
        return "Never: use rkhs.solvers.NonlinearCG()."


class Curt(Wrong):
    def lacks(self, system):
        return "No."


class Silent(Wrong):
    def steps(self, system, start, tol, monitor):
        yield from ()
        return finished(super().steps(system, start, tol, monitor), start, monitor)


class Lying(Wrong):
    def steps(self, system, start, tol, monitor):
        found = yield from super().steps(system, start, tol, monitor)
        yield Step(found, 0.0, 0.0)
        return found


class Forgetful(Wrong):
    def steps(self, system, start, tol, monitor):
        found = finished(super().steps(system, start, tol, monitor), start, monitor)
        yield Step(start, 1.001 * float(certify(system, found).primal.sum()), 1.0)
        return found


class OneOutput(Wrong):
    def steps(self, system, start, tol, monitor):
        found = yield from super().steps(system, start, tol, monitor)
        if system.columns == 1:
            return found
        return Iterate(found.a * [1.0, 0.0], found.basis * [1.0, 0.0])


class Cold(Wrong):
    def steps(self, system, start, tol, monitor):
        if (start.a != 0).any():
            return system.start()
        return (yield from super().steps(system, start, tol, monitor))


class Slower(Wrong):
    def steps(self, system, start, tol, monitor):
        if (start.a != 0).any():
            for _ in range(100):
                yield Step(start, 1e3, 1.0)
        return (yield from super().steps(system, start, tol, monitor))


class Meddling(Wrong):
    def steps(self, system, start, tol, monitor):
        for t in system.terms:
            if not t.weight.flags.writeable:
                t.weight.flags.writeable = True
            t.weight[:] = 2 * t.weight
        return super().steps(system, start, tol, monitor)


@pytest.mark.every
@pytest.mark.parametrize(
    ("solver", "law"),
    [
        (Early(), "that it reaches the tolerance, on Squared"),
        (Never(), "that it applies to some problem"),
        (Curt(), "that a refusal names a solver that applies, on .*: No"),
        (Silent(), "that it reports at least once"),
        (Lying(), "that no J that it reports is below the minimum"),
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
