"""Paths and grids: each solution is that of its own problem, and together they cost less."""

import numpy as np
import pytest
import torch

import rkhs
from problems import cell_problem, check_cells
from refusals import refused
from rkhs._core.limits import with_limits
from rkhs._core.problem import grid
from rkhs._core.problem.grid import GridSolver
from rkhs.solvers import Newton

RNG = np.random.default_rng(7)
X, Z = RNG.standard_normal((50, 4)), RNG.standard_normal((6, 4))
Y = np.where(X[:15, 0] + 0.5 * RNG.standard_normal(15) > 0, 1.0, -1.0)
LAMBDAS, NUS = [0.1, 1.0, 30.0], [0.01, 1.0]
FOLDS = [np.arange(k, 15, 3) for k in range(3)]
SMOOTH = rkhs.SquaredHinge()


def problem(loss=None, lam=1.0, nu=1.0, target=Y, basis=None, kernel=None, points=X, flat=None):
    labels = rkhs.Term(rkhs.Evaluation(points[:15]), loss or rkhs.Hinge(), target, lam)
    quiet = rkhs.Term(rkhs.Gradient(points), flat or rkhs.Squared(), weight=nu)
    return rkhs.Problem(kernel or rkhs.Gaussian(2.0), [labels, quiet], basis or rkhs.Constant())


@pytest.mark.parametrize("loss", [rkhs.Hinge(), rkhs.SquaredHinge(), rkhs.Logistic(), rkhs.Squared()], ids=repr)
def test_every_cell_is_its_own_problem(loss):
    assert check_cells(problem(loss), {0: LAMBDAS, 1: NUS}, {0: FOLDS}, 2e-7, 1e-7).shape == (3, 2, 3)


FACTORS = np.where(np.arange(15) % 4 == 0, 0.0, np.linspace(2, 0.5, 15))
CELLS = {  # problem, weights, folds
    "outputs": (problem(target=np.stack([Y, -Y, np.roll(Y, 4)], axis=1)), {1: NUS}, None),
    "folds of a quadratic term": (problem(), {0: [1.0]}, {1: [np.arange(0, 200, 2), np.arange(1, 200, 2)]}),
    "rows of weight zero": (problem(SMOOTH, np.where(np.arange(15) % 4 == 0, 0.0, 1.0)), {1: [1.0]}, {0: FOLDS}),
    "a term of weight zero": (problem(nu=0.0), {0: LAMBDAS}, None),
    "factors in place of folds": (problem(SMOOTH, np.linspace(0, 2, 15)), {}, {0: [FACTORS, [0, 3]]}),
}


@pytest.mark.every
@pytest.mark.parametrize("name", CELLS)
def test_cells_of_other_weights_and_folds(name):
    check_cells(*CELLS[name], 1e-8, 1e-9, at=Z, atol=1e-2)


def test_it_takes_fewer_products_than_separate_fits():
    whole, axes = problem(SMOOTH), {0: LAMBDAS, 1: NUS}
    solutions = whole.grid(axes, held_out={0: FOLDS}, tol=1e-4)
    cells = [cell_problem(whole, axes, {0: FOLDS}, index) for index in np.ndindex(solutions.shape)]
    separate = sum(cell.solve(rkhs.solvers.Galerkin(), tol=1e-4).products for cell in cells)
    assert solutions[0, 0, 0].products < separate / 4


@pytest.mark.parametrize("options", [{"loss": rkhs.Logistic()}, {"kernel": rkhs.kernels.Polyharmonic(3)}, {}], ids=repr)
def test_a_path_is_a_grid_of_one_axis(options):
    whole = problem(**options)
    found = check_cells(whole, {1: NUS}, None, 2e-6, 1e-6, found=whole.path(whole.terms[1], NUS, tol=1e-6))
    tensors = problem(**options, points=torch.from_numpy(X), target=torch.from_numpy(Y)).path(1, NUS, tol=1e-6)
    assert [own.primal for own in tensors] == pytest.approx([own.primal for own in found], rel=2e-6)


def test_many_rows_without_a_gradient():
    """Where small problems would not be small, each cell is solved from the one before it."""
    with with_limits(nonquadratic_rows=10):
        check_cells(problem(SMOOTH, flat=rkhs.losses.EpsilonInsensitive(0.05)), {1: [0.01, 0.1]}, None, 2e-3, 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("null_space", ["kept", "dropped"])
@pytest.mark.parametrize("loss", [SMOOTH, rkhs.Logistic()], ids=repr)
def test_labels_alone(loss, null_space):
    """Newton's method along the weights of each fold, all outputs together; weights are not in order."""
    target, axes = np.where(RNG.random((50, 2)) > 0.5, 1.0, -1.0), {0: [10.0, 0.1, 1.0]}
    term, folds = rkhs.Term(rkhs.Evaluation(X[:, :2]), loss, target), {0: [np.arange(k, 50, 3) for k in range(3)]}
    whole = rkhs.Problem(rkhs.kernels.Polyharmonic(3), [term], null_space=null_space)
    check_cells(whole, axes, None, 2e-8)
    if null_space == "kept":
        assert check_cells(whole, axes, folds, 2e-8).shape == (3, 3)
    else:  # held-out points still give functions to choose from
        for index, own in np.ndenumerate(whole.grid(axes, folds, tol=1e-8)):
            assert own.status == "converged"
            assert own.primal < cell_problem(whole, axes, folds, index).solve(tol=1e-9).primal


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
    *(
        (lambda fold=fold: problem().grid({}, held_out={0: [fold]}), "nonnegative factors")
        for fold in (FACTORS[:-1], -FACTORS, np.full(15, np.inf))
    ),
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
