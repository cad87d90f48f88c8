"""Paths and grids: each solution is that of its own problem, and together they cost less."""

import numpy as np
import pytest
import torch

import rkhs
from refusals import refused
from rkhs._problem import grid
from rkhs._problem.grid import GridSolver
from rkhs.solvers._choose import Fallback
from rkhs.solvers._newton import Newton

RNG = np.random.default_rng(7)
X, Z = RNG.standard_normal((50, 4)), RNG.standard_normal((6, 4))
Y = np.where(X[:15, 0] + 0.5 * RNG.standard_normal(15) > 0, 1.0, -1.0)
LAMBDAS, NUS = [0.1, 1.0, 30.0], [0.01, 1.0]
FOLDS = [np.arange(k, 15, 3) for k in range(3)]


def problem(loss=None, lam=1.0, nu=1.0, target=Y, basis=None, kernel=None, points=X, flat=None):
    labels = rkhs.Term(rkhs.Evaluation(points[:15]), loss or rkhs.Hinge(), target, lam)
    quiet = rkhs.Term(rkhs.Gradient(points), flat or rkhs.Squared(), weight=nu)
    return rkhs.Problem(kernel or rkhs.Gaussian(2.0), [labels, quiet], basis or rkhs.Constant())


def without(fold, weight):
    kept = np.full(15, weight)
    kept[fold] = 0.0
    return kept


@pytest.mark.parametrize("loss", [rkhs.Hinge(), rkhs.SquaredHinge(), rkhs.Logistic(), rkhs.Squared()], ids=repr)
def test_every_cell_is_its_own_problem(loss):
    solutions = problem(loss).grid({0: LAMBDAS, 1: NUS}, held_out={0: FOLDS}, tol=1e-7)
    assert solutions.shape == (3, 2, 3)
    for i, lam in enumerate(LAMBDAS):
        for j, nu in enumerate(NUS):
            for k, fold in enumerate(FOLDS):
                alone = problem(loss, without(fold, lam), nu).solve(tol=1e-9)
                assert solutions[i, j, k].status == "converged"
                assert solutions[i, j, k].primal == pytest.approx(alone.primal, rel=2e-7)


def test_it_takes_fewer_products_than_separate_fits():
    whole = problem(rkhs.SquaredHinge())
    solutions = whole.grid({0: LAMBDAS, 1: NUS}, held_out={0: FOLDS}, tol=1e-4)
    separate = sum(
        problem(rkhs.SquaredHinge(), without(fold, lam), nu).solve(rkhs.solvers.Galerkin(), tol=1e-4).products
        for lam in LAMBDAS for nu in NUS for fold in FOLDS
    )  # fmt: skip
    assert solutions[0, 0, 0].products < separate / 4


@pytest.mark.parametrize("options", [{"loss": rkhs.Logistic()}, {"kernel": rkhs.kernels.Polyharmonic(3)}, {}], ids=repr)
def test_a_path_is_a_grid_of_one_axis(options):
    whole = problem(**options)
    tensors = problem(**options, points=torch.from_numpy(X), target=torch.from_numpy(Y)).path(1, NUS, tol=1e-6)
    for solution, theirs, nu in zip(whole.path(whole.terms[1], NUS, tol=1e-6), tensors, NUS, strict=True):
        alone = problem(**options, nu=nu).solve(tol=1e-8)
        assert solution.status == "converged"
        assert solution.primal == pytest.approx(alone.primal, rel=2e-6)
        assert theirs.primal == pytest.approx(solution.primal, rel=2e-6)


def test_several_outputs():
    target = np.stack([Y, -Y, np.roll(Y, 4)], axis=1)
    solution = problem(target=target).grid({1: NUS}, tol=1e-6)[1]
    for k in range(3):
        alone = problem(target=target[:, k]).solve(tol=1e-8)
        assert solution.certificate.primal[k] == pytest.approx(alone.primal, rel=2e-6)
        np.testing.assert_allclose(solution.function(Z)[:, k], alone.function(Z), atol=1e-2)


def test_folds_of_a_quadratic_term():
    held = [np.arange(0, 200, 2), np.arange(1, 200, 2)]
    solutions = problem().grid({0: [1.0]}, held_out={1: held}, tol=1e-6)
    for k, fold in enumerate(held):
        weight = np.ones(200)
        weight[fold] = 0.0
        alone = problem(nu=weight.reshape(50, 4)).solve(tol=1e-8)
        assert solutions[0, k].primal == pytest.approx(alone.primal, rel=2e-6)


def test_many_rows_without_a_gradient(monkeypatch):
    """Where small problems would not be small, each cell is solved from the one before it."""
    monkeypatch.setattr("rkhs.solvers._recycling.OTHERS", 10)
    whole = problem(rkhs.SquaredHinge(), flat=rkhs.EpsilonInsensitive(0.05))
    for solution, nu in zip(whole.path(1, [0.01, 0.1], tol=1e-3), [0.01, 0.1], strict=True):
        alone = problem(rkhs.SquaredHinge(), nu=nu, flat=rkhs.EpsilonInsensitive(0.05)).solve(tol=1e-6)
        assert solution.status == "converged"
        assert solution.primal == pytest.approx(alone.primal, rel=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("null_space", ["kept", "dropped"])
@pytest.mark.parametrize("loss", [rkhs.SquaredHinge(), rkhs.Logistic()], ids=repr)
def test_labels_alone(loss, null_space):
    """Newton's method along the weights of each fold, all outputs together."""
    points, target = X[:, :2], np.where(RNG.random((50, 2)) > 0.5, 1.0, -1.0)
    folds = [np.arange(k, 50, 3) for k in range(3)]

    def alone(weight):
        term = rkhs.Term(rkhs.Evaluation(points), loss, target, weight)
        return rkhs.Problem(rkhs.kernels.Polyharmonic(3), [term], null_space=null_space)

    weights = [10.0, 0.1, 1.0]  # not in order
    solutions = alone(1.0).grid({0: weights}, held_out={0: folds}, tol=1e-8)
    assert solutions.shape == (3, 3)
    for row, weight in zip(solutions, weights, strict=True):
        for solution, fold in zip(row, folds, strict=True):
            left = np.full(50, weight)
            left[fold] = 0.0
            expected = alone(left).solve(tol=1e-9).primal
            assert solution.status == "converged"
            if null_space == "kept":
                assert solution.primal == pytest.approx(expected, rel=2e-8)
            else:  # held-out points still give functions to choose from
                assert solution.primal < expected
    whole = alone(1.0).path(0, weights, tol=1e-8)
    for solution, weight in zip(whole, weights, strict=True):
        assert solution.primal == pytest.approx(alone(weight).solve(tol=1e-9).primal, rel=2e-8)


def test_rows_of_weight_zero_do_not_shift_the_folds():
    weight = np.where(np.arange(15) % 4 == 0, 0.0, 1.0)
    solutions = problem(rkhs.SquaredHinge(), weight).grid({1: [1.0]}, held_out={0: FOLDS}, tol=1e-8)
    for solution, fold in zip(solutions[0], FOLDS, strict=True):
        alone = problem(rkhs.SquaredHinge(), weight * without(fold, 1.0)).solve(tol=1e-9)
        assert solution.primal == pytest.approx(alone.primal, rel=1e-7)


def test_a_term_without_weight_takes_no_part():
    for solution, lam in zip(problem(nu=0.0).path(0, LAMBDAS, tol=1e-8), LAMBDAS, strict=True):
        assert solution.primal == pytest.approx(problem(nu=0.0, lam=lam).solve(tol=1e-9).primal, rel=1e-7)


def test_a_fold_may_have_factors():
    """Factors on the weights of rows: the cell is the problem with these weights."""
    X = np.random.default_rng(3).standard_normal((20, 2))
    y = np.where(X[:, 0] > 0, 1.0, -1.0)
    weight = np.linspace(0, 2, 20)  # the first row is not in the system
    factors = np.where(np.arange(20) % 4 == 0, 0.0, np.linspace(2, 0.5, 20))
    labels, flat = (
        rkhs.Term(rkhs.Evaluation(X), rkhs.SquaredHinge(), y, weight),
        rkhs.Term(rkhs.Gradient(X), rkhs.Squared()),
    )
    problem = rkhs.Problem(rkhs.Gaussian(1.0), [labels, flat], rkhs.Constant())
    folds = problem.grid({}, held_out={labels: [factors, [0, 3]]}, tol=1e-9)
    alone = rkhs.Problem(problem.kernel, [labels.changed(weight=weight * factors), flat], rkhs.Constant()).solve(
        tol=1e-9
    )
    assert folds[0].primal == pytest.approx(alone.primal, rel=1e-8)
    assert folds[1].primal != pytest.approx(alone.primal, rel=1e-3)
    for wrong in (factors[:-1], -factors, np.full(20, np.inf)):
        with pytest.raises(ValueError, match="nonnegative factors"):
            problem.grid({}, held_out={labels: [wrong]})


def test_a_cell_at_its_limit_of_iterations_does_not_end_the_grid(monkeypatch):
    """Newton's method on labels alone: the second cell gets no step, and stays where the first one, its start, is."""
    limits = iter([100, 0, 100])
    monkeypatch.setattr(grid, "auto", lambda *_: Newton(max_iterations=next(limits)))
    monkeypatch.setattr(GridSolver, "_costs", lambda *rest: (1.0, 2.0, 3.0, np.inf))  # alone in memory
    labels = rkhs.Term(rkhs.Evaluation(X), rkhs.Logistic(), np.sign(X[:, 0]))
    first, second, third = rkhs.Problem(rkhs.Gaussian(1.0), [labels]).path(0, [1.0, 10.0, 100.0], tol=1e-6)
    assert second.status == "no further progress"
    assert second.relative_gap > 1e-6
    np.testing.assert_array_equal(second.function.coefficients, first.function.coefficients)
    assert first.status == third.status == "converged"


test_what_is_refused = refused(
    (lambda: problem().path(problem().terms[0], NUS), "not a term of this problem"),
    (
        lambda: problem().grid({0: [1]}, {0: [[99]]}),
        r"A fold of Term\(.* leaves out rows that do not exist: \[99\] of \d+",
    ),
    *((lambda w=w: problem().path(0, [1.0, w]), "finite and nonnegative, got") for w in (-1.0, np.nan, np.inf)),
    (lambda: problem().grid({0: [1.0], (0, 1): [1.0]}), r"one axis of weights at most, got the terms \[0, 0, 1\]"),
)


def test_many_labels_and_classes_are_solved_cell_by_cell():
    """Each fold changes all rows: small problems over shared directions would each go over all of them."""
    rng = np.random.default_rng(0)
    points, classes = rng.standard_normal((400, 5)), rng.standard_normal((400, 10))
    labels = rkhs.Term(rkhs.Evaluation(points), rkhs.Squared(), classes)
    found = rkhs.Problem(rkhs.Gaussian(2.0), [labels]).grid(
        {0: [1.0, 100.0]}, {0: [np.arange(k, 400, 3) for k in range(3)]}, tol=1e-2
    )
    assert {one.status for one in found.flat} == {"converged"}
    assert sum(one.products for one in found.flat) == 0


@pytest.mark.parametrize("enough", [True, False])
def test_a_solver_that_was_enough_for_the_last_cell_is_used_again(enough, monkeypatch):
    """A trial tells little from a warm start, so there the last cell tells; each solution is right in any case."""
    runs = []

    class Counted(rkhs.solvers.NonlinearCG):
        def run(self, system, start, monitor):
            runs.append("iterative")
            return super().run(system, start, monitor) if enough else start  # which has a gap

    class Exact(Newton):
        def run(self, system, start, monitor):
            runs.append("exact")
            return super().run(system, start, monitor)

    monkeypatch.setattr(grid, "auto", lambda *_: Fallback(Counted(), Exact(), 100, True, trial=50))
    monkeypatch.setattr(GridSolver, "_costs", lambda *_: (1.0, 2.0, 3.0, np.inf))  # alone in memory
    labels = rkhs.Term(rkhs.Evaluation(X), rkhs.Logistic(), np.sign(X[:, 0]))
    whole, weights = rkhs.Problem(rkhs.Gaussian(1.0), [labels]), [1.0, 2.0, 4.0]
    for weight, own in zip(weights, whole.path(0, weights, tol=1e-6), strict=True):
        alone = rkhs.Problem(rkhs.Gaussian(1.0), [labels.changed(weight=weight)]).solve(Newton(), tol=1e-9)
        assert own.status == "converged"
        assert own.primal == pytest.approx(alone.primal, rel=2e-6)
    assert runs == (["iterative"] * 3 if enough else ["iterative", "exact", "exact", "exact"])
