"""Problems with losses of vectors: against cvxpy, in other coordinates, units and spaces, and what is refused."""

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest

import problems
import rkhs
from refusals import refused
from rkhs.extend import Step
from rkhs.solvers import Race

RNG = np.random.default_rng(3)
X, Z = RNG.uniform(-1, 1, (14, 2)), RNG.uniform(-1, 1, (7, 2))
Y = np.sign(X[:, 0] + 0.2 * RNG.standard_normal(14))
FIELD = RNG.standard_normal((7, 2))
KERNEL = rkhs.Gaussian(0.7)
TOL = 1e-5
SMOOTH = [rkhs.Huber(0.5), rkhs.Squared(), rkhs.losses.SquaredEpsilonInsensitive(0.3)]
KINKED = [rkhs.losses.Absolute(), rkhs.losses.EpsilonInsensitive(0.5)]
RADII = [0.0, 0.3, 2.0]
BASES = [None, rkhs.Constant()]
FOR_ALL = ["auto", rkhs.solvers.ADMM()]
FOR_SMOOTH = [rkhs.solvers.NonlinearCG(), rkhs.solvers.Newton(), rkhs.solvers.ProximalNewton()]
FOR_SMOOTH += [rkhs.solvers.SchurComplement()]


def field_terms(phi, target=FIELD, weight=2.0, points=Z, y=Y, fit=20.0):
    """Values with a squared loss, and gradients near those of a field."""
    values = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), y, fit)
    return [values, rkhs.Term(rkhs.Gradient(points), rkhs.losses.GroupNorm(phi), target, weight)]


def classes(y=Y):
    return np.concatenate([y[:, None], np.zeros((len(y), 2))], axis=1)


def margins(radius, y=Y, weight=5.0, points=X):
    return [rkhs.Term(rkhs.functionals.Jet(points), rkhs.losses.RobustHinge(radius), classes(y), weight)]


def oracle(terms, basis):
    """The minimum by an interior-point method for second-order cones, and L(f) of all functionals there."""
    family = rkhs.stack([t.functional for t in terms])
    found = problems.cvxpy_solution(rkhs.Problem(KERNEL, terms, basis), family)
    return SimpleNamespace(value=found.value, u=found.penalized + found.free)


def assert_solved(solution, reference, tol=TOL):
    assert solution.status == "converged", solution
    assert solution.gap <= 1.01 * tol * abs(solution.primal)
    assert solution.dual <= reference * (1 + 1e-6)
    assert solution.primal >= reference * (1 - 1e-6)


# Against cvxpy.


@pytest.mark.parametrize("basis", BASES, ids=repr)
@pytest.mark.parametrize("phi", SMOOTH + KINKED, ids=repr)
def test_losses_of_lengths(phi, basis):
    terms = field_terms(phi)
    reference = oracle(terms, basis)
    for solver in FOR_ALL + (FOR_SMOOTH if phi in SMOOTH else []):
        solution = rkhs.Problem(KERNEL, terms, basis).solve(solver, tol=TOL)
        assert_solved(solution, reference.value)
        values = np.concatenate([np.ravel(t.functional(solution.function)) for t in terms])
        np.testing.assert_allclose(values, reference.u, atol=0.02)


@pytest.mark.parametrize("basis", BASES, ids=repr)
@pytest.mark.parametrize("radius", RADII)
def test_robust_margins(radius, basis):
    terms = margins(radius)
    reference = oracle(terms, basis)
    for solver in FOR_ALL:
        assert_solved(rkhs.Problem(KERNEL, terms, basis).solve(solver, tol=TOL), reference.value)


@pytest.mark.parametrize("basis", BASES, ids=repr)
@pytest.mark.parametrize("unit", [1e-3, 1.0, 1e3])
def test_robust_margins_do_not_depend_on_units(unit, basis):
    """The steps of values and of gradients differ; with one step for both, ADMM stagnated in other units."""
    terms = margins(0.02 * unit, points=unit * X, weight=50.0)
    found = rkhs.Problem(rkhs.Gaussian(4.0 * unit), terms, basis).solve(rkhs.solvers.ADMM(500), tol=1e-4)
    assert found.status == "converged", found


def test_a_smaller_tolerance_never_ends_at_a_larger_objective():
    """ADMM oscillates here: the smallest gap counts as progress, not the last one."""
    rng = np.random.default_rng(27)
    points = 1e3 * rng.standard_normal((66, 1))
    y = np.where(points[:, 0] > 0, 1.0, -1.0)
    target = np.stack([y, 0 * y], axis=1)
    term = rkhs.Term(rkhs.functionals.Jet(points), rkhs.losses.RobustHinge(47.0), target, 2.66e4)
    problem = rkhs.Problem(rkhs.Gaussian(1.99e3), [term], rkhs.Constant())
    coarse, fine = (problem.solve(tol=tol) for tol in (1e-3, 1e-4))
    assert fine.status == "converged"
    assert fine.primal <= coarse.primal


def test_a_race_does_not_return_less_than_the_best_of_its_solvers():
    """A solver starts at the best iterate of the others, which is returned if it ends above."""

    @dataclass(frozen=True)
    class Worse(rkhs.extend.Solver):
        def lacks(self, system):
            return None

        def steps(self, system, start, tol, monitor):
            nothing = replace(start, a=0 * start.a, basis=0 * start.basis, alpha=None)
            yield Step(nothing, 1e9, 1.0)
            return nothing

    problem = rkhs.Problem(KERNEL, margins(0.3))
    alone = problem.solve(rkhs.solvers.ADMM(40), tol=1e-9)
    assert alone.status == "iteration limit"
    assert problem.solve(Race((rkhs.solvers.ADMM(40), Worse())), tol=1e-9).primal == alone.primal


@pytest.mark.parametrize("terms", [field_terms(rkhs.losses.Absolute()), margins(0.3), margins(2.0)], ids=str)
@pytest.mark.parametrize("solver", [rkhs.solvers.NonlinearCG(), rkhs.solvers.Galerkin()], ids=repr)
def test_bounds_hold_before_convergence(solver, terms):
    """Smoothed problems are slow with kinks, but their bounds are correct wherever they stop."""
    for basis in BASES:
        reference = oracle(terms, basis).value
        solution = rkhs.Problem(KERNEL, terms, basis).solve(solver, tol=1e-4, time_limit=0.15)
        assert solution.dual <= reference * (1 + 1e-6)
        assert solution.primal >= reference * (1 - 1e-6)


@pytest.mark.parametrize("linear", [rkhs.Polynomials(1), rkhs.Polynomials(2)], ids=repr)
def test_dual_points_are_feasible_with_larger_bases(linear):
    """The slopes of a robust hinge are in a cone, which multiples of a point outside never reach."""
    y = RNG.permutation(Y)
    reference = oracle(margins(1.0, y), linear).value
    for steps in (2, 5, 10):
        stop = {"callback": lambda record, steps=steps: record.iteration >= steps}
        early = rkhs.Problem(KERNEL, margins(1.0, y), linear).solve(rkhs.solvers.ADMM(), tol=1e-9, **stop)
        assert early.dual <= reference * (1 + 1e-6)
    assert_solved(rkhs.Problem(KERNEL, margins(1.0, y), linear).solve(tol=TOL), reference)


# Other coordinates, outputs, weights and units.


@pytest.mark.parametrize("phi", [rkhs.losses.Absolute(), rkhs.Huber(0.5)], ids=repr)
def test_lengths_do_not_depend_on_coordinates(phi):
    angle = 0.7
    R = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])

    def solved(R, loss):
        values = rkhs.Term(rkhs.Evaluation(X @ R), rkhs.Squared(), Y, 20.0)
        near = rkhs.Term(rkhs.Gradient(Z @ R), loss, FIELD @ R, 2.0)
        return rkhs.Problem(KERNEL, [values, near], rkhs.Constant()).solve(tol=1e-9)

    before, after = solved(np.eye(2), rkhs.losses.GroupNorm(phi)), solved(R, rkhs.losses.GroupNorm(phi))
    assert after.primal == pytest.approx(before.primal, rel=1e-8)
    T = RNG.uniform(-1, 1, (20, 2))
    np.testing.assert_allclose(after.function(T @ R), before.function(T), atol=1e-3)
    by_component = [solved(R, phi).primal for R in (np.eye(2), R)]  # a sum over components does
    assert abs(by_component[1] / by_component[0] - 1) > 1e-3


@pytest.mark.parametrize("basis", BASES, ids=repr)
@pytest.mark.parametrize("phi", [rkhs.losses.Absolute(), rkhs.Huber(0.5)], ids=repr)
def test_several_outputs(phi, basis):
    fields, y = np.stack([FIELD, -2 * FIELD[::-1]], axis=-1), np.stack([Y, 2 * Y[::-1]], axis=-1)
    joint = rkhs.Problem(KERNEL, field_terms(phi, fields, y=y), basis).solve(tol=TOL)
    assert joint.status == "converged"
    alone = [oracle(field_terms(phi, fields[..., k], y=y[:, k]), basis).value for k in range(2)]
    assert joint.primal == pytest.approx(sum(alone), rel=1e-5)
    assert joint.dual <= sum(alone) * (1 + 1e-6)


def test_vectors_of_weight_zero_and_missing_ones():
    weight = np.repeat([0.0, 2.0, 2.0, 0.5, 0.0, 2.0, 2.0], 2).reshape(7, 2)
    kept = weight[:, 0] > 0
    missing = np.where(kept[:, None], FIELD, np.nan)
    for phi in (rkhs.losses.Absolute(), rkhs.Huber(0.5)):
        for basis in BASES:
            fewer = oracle(field_terms(phi, FIELD[kept], weight[kept], Z[kept]), basis).value
            for target in (FIELD, missing):
                solution = rkhs.Problem(KERNEL, field_terms(phi, target, weight), basis).solve(tol=TOL)
                assert_solved(solution, fewer)
    y = np.where(np.arange(14) % 5 == 0, np.nan, Y)
    target = np.where(np.isnan(y)[:, None], np.nan, classes(Y))
    some = rkhs.Term(rkhs.functionals.Jet(X), rkhs.losses.RobustHinge(0.3), target, 5.0)
    fewer = oracle(margins(0.3, Y[~np.isnan(y)], points=X[~np.isnan(y)]), rkhs.Constant()).value
    assert_solved(rkhs.Problem(KERNEL, [some], rkhs.Constant()).solve(tol=TOL), fewer)


@pytest.mark.parametrize("unit", [1e-6, 1e6])
@pytest.mark.parametrize("basis", BASES, ids=repr)
def test_units_of_targets(unit, basis):
    """J in units of the targets is J times the square of the unit."""
    for phi, scaled, factor in (
        (rkhs.losses.Absolute(), rkhs.losses.Absolute(), unit),
        (rkhs.Huber(0.5), rkhs.Huber(0.5 * unit), 1.0),
        (rkhs.losses.EpsilonInsensitive(0.5), rkhs.losses.EpsilonInsensitive(0.5 * unit), unit),
    ):
        reference = oracle(field_terms(phi), basis).value
        terms = field_terms(scaled, unit * FIELD, 2.0 * factor, y=unit * Y)
        assert_solved(rkhs.Problem(KERNEL, terms, basis).solve(tol=TOL), unit**2 * reference)


@pytest.mark.parametrize("basis", BASES, ids=repr)
@pytest.mark.parametrize("weight", [1e-6, 1e6])
def test_extreme_weights(weight, basis):
    """Hardly any effect, or nearly a constraint; the other loss keeps J away from zero."""
    for phi in (rkhs.losses.Absolute(), rkhs.Huber(0.5)):
        terms = field_terms(phi, weight=weight)
        reference = oracle(terms, basis).value
        solution = rkhs.Problem(KERNEL, terms, basis).solve(tol=1e-3)
        assert solution.status == "converged"
        assert solution.primal == pytest.approx(reference, rel=2e-3)
        assert solution.dual <= reference * (1 + 1e-5)


# Subspaces and grids.


@pytest.mark.parametrize("basis", BASES, ids=repr)
@pytest.mark.parametrize("phi", [rkhs.losses.Absolute(), rkhs.Huber(0.5)], ids=repr)
def test_landmarks_at_all_functionals_are_exact(phi, basis):
    terms = field_terms(phi)
    reference = oracle(terms, basis).value
    family = rkhs.stack([t.functional for t in terms])
    solution = rkhs.Problem(KERNEL, terms, basis, approximation=rkhs.Landmarks(family)).solve(tol=1e-4)
    assert_solved(solution, reference, 1e-4)


def test_landmarks_of_a_sample_take_whole_vectors():
    """The preliminary fit uses a sample of the functionals, whose number need not be a multiple of three."""
    points = RNG.uniform(-1, 1, (60, 2))
    y = np.sign(points[:, 0])
    problem = rkhs.Problem(KERNEL, margins(0.3, y, 1.0, points), rkhs.Constant(), approximation=rkhs.Landmarks(20))
    solution = problem.solve(tol=1e-2)
    assert solution.status == "converged"
    exact = rkhs.Problem(KERNEL, margins(0.3, y, 1.0, points), rkhs.Constant()).solve(tol=1e-3)
    assert exact.dual <= solution.primal <= 1.2 * exact.primal


@pytest.mark.parametrize("phi", [rkhs.losses.Absolute(), rkhs.Huber(0.5)], ids=repr)
def test_fourier_grids(phi):
    pytest.importorskip("ducc0")
    terms = field_terms(phi)
    exact = oracle(terms, rkhs.Constant()).value
    problem = rkhs.Problem(KERNEL, terms, rkhs.Constant(), approximation=rkhs.FourierGrid())
    solution = problem.solve(tol=1e-2, time_limit=300)
    assert solution.status == "converged"
    assert solution.primal == pytest.approx(exact, rel=0.02)
    assert solution.dual <= exact * (1 + 1e-4)


@pytest.mark.parametrize("approximation", [rkhs.Landmarks(15), rkhs.FourierGrid()], ids=repr)
def test_subspaces_without_other_losses(approximation):
    """All dual points must be corrected for the constant, and primal ones are not near them."""
    pytest.importorskip("ducc0")
    near = rkhs.Term(rkhs.functionals.Jet(X), rkhs.losses.GroupNorm(), 3 * classes(), 5.0)
    exact = oracle([near], rkhs.Constant()).value
    problem = rkhs.Problem(KERNEL, [near], rkhs.Constant(), approximation=approximation)
    solution = problem.solve(tol=1e-2, time_limit=300)
    assert solution.status == "converged"
    assert exact * (1 - 1e-3) <= solution.primal <= 1.1 * exact


@pytest.mark.parametrize("phi", [rkhs.losses.Absolute(), rkhs.Huber(0.5)], ids=repr)
def test_grids_and_folds(phi):
    weights, folds = [0.1, 2.0], [np.arange(6), np.arange(6, 14)]
    cells = rkhs.Problem(KERNEL, field_terms(phi, weight=1.0), rkhs.Constant()).grid(
        {1: weights}, held_out={1: folds}, tol=TOL
    )
    assert cells.shape == (2, 2)
    for i, weight in enumerate(weights):
        for j, fold in enumerate(folds):
            kept = np.setdiff1d(np.arange(7), fold[::2] // 2)
            reference = oracle(field_terms(phi, FIELD[kept], weight, Z[kept]), rkhs.Constant()).value
            assert cells[i, j].status == "converged"
            assert cells[i, j].primal == pytest.approx(reference, rel=2 * TOL)
            assert cells[i, j].dual <= reference * (1 + 1e-6)


# What is refused.


def test_sizes_of_vectors():
    assert rkhs.Term(rkhs.Evaluation(X), rkhs.losses.GroupNorm(size=7), Y).loss.size == 7
    assert rkhs.Term(rkhs.Gradient(Z), rkhs.losses.GroupNorm()).loss.size == 2


UNEVEN, PARTLY = np.ones((7, 2)), FIELD.copy()
UNEVEN[3, 1], PARTLY[2, 0] = 2.0, np.nan


def vectors(phi, basis=None):
    return rkhs.Problem(KERNEL, field_terms(phi), basis)


test_what_is_refused = refused(
    (lambda: field_terms(rkhs.losses.Absolute(), weight=UNEVEN), "vector 3 has the weights"),
    (lambda: field_terms(rkhs.losses.Absolute(), PARTLY), "vector 2 has the weights"),
    *(
        (
            lambda fold=fold: vectors(rkhs.losses.Absolute()).grid({1: [1.0]}, held_out={1: [fold]}),
            "one weight and are missing together; vector",
        )
        for fold in (np.arange(5), np.linspace(0, 1, 14))
    ),
    (lambda: rkhs.Term(rkhs.Evaluation(X), rkhs.losses.GroupNorm(size=3), Y), "which do not divide"),
    *(
        (lambda y=y: rkhs.Term(rkhs.functionals.Jet(X), rkhs.losses.RobustHinge(0.3), y), "with the class y")
        for y in (0.0, 1.0, 2 * classes(), classes()[:, ::-1])
    ),
    *(
        (lambda phi=phi, ask=ask: getattr(vectors(phi, rkhs.Constant()), ask)(), f"{told}, and one is GroupNorm")
        for phi in (rkhs.losses.Absolute(), rkhs.Huber(0.5), rkhs.Squared())
        for ask, told in [
            ("leave_out", "smooth losses of single functionals"),
            ("tune", "Tuning needs all losses to be Squared"),
            ("evidence", "needs all losses to be Squared"),
        ]
    ),
    *(
        (lambda given=given, name=name: rkhs.Problem(KERNEL, given).solve(getattr(rkhs.solvers, name)()), name, kind)
        for kind in [rkhs.exceptions.NotApplicableError]
        for name in ("BoxDual", "Direct", "LibSVM")
        for given in (field_terms(rkhs.losses.Absolute()), field_terms(rkhs.Squared()), margins(0.0))
    ),
)
