"""Every solver on random problems, against cvxpy with Clarabel; see `problems`.

`make test` takes each pair of losses once, the bases in turn, and `make test-all` each pair with each basis.  `auto`
solves all of them.  Solvers that take each problem in milliseconds get all to which they apply, the others the
share in `SHARES`: methods of first order the well conditioned ones, because elsewhere they are right but slow.
"""

import numpy as np
import pytest

import problems
import rkhs
import rkhs.solvers

PAIRS = len(problems.PAIRS)
ALONE = [(loss, loss) for loss in (rkhs.Squared(), rkhs.Hinge())]  # all that Direct, ConjugateGradients, LibSVM take
TURNS = [pair + PAIRS * ((pair + pair // 4) % 4) for pair in range(PAIRS)]
SEEDS = [seed for seed in range(problems.COUNT) if seed in TURNS or problems.losses(seed) in ALONE]
OTHERS = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(problems.COUNT) if seed not in SEEDS]
TOL = 1e-12  # of the relative gap, or as far as rounding allows: |f - f*|^2 is as large as twice the gap


def _all(seed):
    return True


def _every(step):
    return lambda seed: seed % step == 0


def _conditioned(bound, smooth=np.inf):
    """The problems whose losses bend J by at most so much; another bound where all of them are smooth."""
    return lambda seed: problems.case(seed).bend <= (smooth if problems.case(seed).problem.system.smooth else bound)


def _partly_quadratic(seed):
    """A third of those with a quadratic term, or all smooth: of the others an elimination leaves everything."""
    if seed % 3:
        return False
    case = problems.case(seed)
    quadratic = any(t.loss.quadratic for t in case.problem.system.terms)
    return case.problem.system.smooth or quadratic


SHARES = {
    "auto": _all,
    "Direct": _all,
    "ConjugateGradients": _all,
    "SchurComplement": _all,
    "LibSVM": _all,
    "Newton": _all,
    "ProximalNewton": _every(3),
    "BoxDual": _every(2),
    "GreedyCoordinate": _every(12),
    "InteriorPointCG": _conditioned(3, smooth=3),
    "Galerkin": _partly_quadratic,
    "NonlinearCG": _conditioned(3, smooth=300),
    "LBFGS": _conditioned(0, smooth=3),
}
SOLVERS = {"auto": "auto", **{name: getattr(rkhs.solvers, name)() for name in SHARES if name in rkhs.solvers.__all__}}


def test_every_solver_is_on_trial():
    classes = {n for n in rkhs.solvers.__all__ if issubclass(getattr(rkhs.solvers, n), rkhs.solvers.Solver)}
    assert classes - {"Solver", "ADMM", "Race"} <= set(SOLVERS)  # trials of ADMM are in solvers/test_admm.py


@pytest.mark.slow
def test_the_share_of_each_solver_is_a_trial():
    for name, solver in SOLVERS.items():
        system = [problems.case(seed).problem.system for seed in SEEDS if SHARES[name](seed)]
        applicable = [s for s in system if name == "auto" or solver.lacks(s) is None]
        assert len(applicable) >= {"auto": PAIRS, "LibSVM": 2, "LBFGS": 1, "InteriorPointCG": 1}.get(name, 4), name


@pytest.mark.parametrize("seed", [*SEEDS, *OTHERS])
def test_solvers_agree_with_cvxpy(seed):
    case, expected = problems.case(seed), problems.reference(seed)
    tried = {name: solver for name, solver in SOLVERS.items() if SHARES[name](seed)}
    wrong = {}
    for name, solver in tried.items():
        if name == "auto" or solver.lacks(case.problem.system) is None:
            complaints = list(_complaints(case, expected, case.problem.solve(solver, tol=TOL)))
            if complaints:
                wrong[name] = complaints
    assert not wrong


def _complaints(case, expected, solution):
    """What is wrong with a solution."""
    size = abs(expected.value)
    if not abs(solution.primal - expected.value) <= 1e-6 * size:
        yield f"objective {solution.primal!r}, expected {expected.value!r}"
    if not solution.dual <= expected.value + 1e-8 * size:
        yield f"the dual value {solution.dual!r} is no lower bound of {expected.value!r}"
    if not solution.primal >= expected.value - 1e-7 * size:  # the minimum of cvxpy is no more accurate
        yield f"the primal value {solution.primal!r} is below the minimum {expected.value!r}"
    if not abs(solution.gap - (solution.primal - solution.dual)) <= 1e-12 * size:
        yield f"the gap {solution.gap!r} is not {solution.primal!r} - {solution.dual!r}"
    f = solution.function
    penalized = rkhs.gram(f.kernel, case.probes, f.functionals) @ f.coefficients
    scale = max(1.0, *abs(expected.penalized), *abs(expected.penalized + expected.free))
    if not np.max(abs(penalized - expected.penalized)) <= 1e-4 * scale:
        yield f"L(f) without the basis is off by {np.max(abs(penalized - expected.penalized)):.1e}"
    if case.identified:
        off = np.max(abs(case.probes(f) - expected.penalized - expected.free))
        if not off <= 1e-4 * scale:
            yield f"L(f) is off by {off:.1e}"
