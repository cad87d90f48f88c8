"""Alternating directions: the laws, against exact solvers and cvxpy, and many problems on one inverse."""

import numpy as np
import pytest

import problems
import rkhs
from rkhs.solvers import _admm

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 2))
Y = np.where(X[:, 0] * X[:, 1] + 0.2 * RNG.standard_normal(40) > 0, 1.0, -1.0)
SOLVER = rkhs.solvers.ADMM()


def mixed(labels=10.0, slopes=50.0, target=Y, kernel=None):
    """Kinks with large weights beside curves."""
    terms = [
        rkhs.Term(rkhs.Evaluation(X), rkhs.Logistic(), target, labels),
        rkhs.Term(rkhs.Gradient(X), rkhs.losses.EpsilonInsensitive(0.1), weight=slopes),
    ]
    return rkhs.Problem(kernel or rkhs.Gaussian(0.7), terms, rkhs.Constant())


@pytest.mark.parametrize(("labels", "slopes"), [(0.01, 0.01), (0.01, 1000.0), (1.0, 1.0), (1e5, 0.01), (1e5, 1000.0)])
def test_weights_of_any_size(labels, slopes):
    problem = mixed(labels, slopes)
    solution = problem.solve(SOLVER, tol=1e-5)
    assert solution.status == "converged"
    assert solution.primal == pytest.approx(problem.solve(rkhs.solvers.ProximalNewton(), tol=1e-8).primal, rel=2e-5)


def test_outputs_share_one_inverse(monkeypatch):
    made = []
    monkeypatch.setattr(_admm, "REBALANCE", np.inf)
    inverse = _admm._ADMMState._inverse
    monkeypatch.setattr(_admm._ADMMState, "_inverse", lambda self: made.append(1) or inverse(self))
    targets = np.stack([Y, -Y, np.where(X[:, 0] > 0, 1.0, -1.0)], axis=1)
    solution = mixed(target=targets).solve(SOLVER, tol=1e-4)
    assert solution.status == "converged"
    assert made == [1]


@pytest.mark.slow
def test_a_grid_of_kinks_beside_curves_is_split_together():
    """Weights and folds: each cell is what it is alone, and its certificate is of that cell."""
    targets, folds = np.stack([Y, np.where(X[:, 0] > 0, 1.0, -1.0)], axis=1), [[0, 1, 2], [7, 8]]
    options = {"weights": {0: [1.0, 100.0], 1: [0.1, 50.0]}, "held_out": {0: folds}, "tol": 1e-5}
    whole = mixed(1.0, 1.0)
    found = whole.grid(**options)
    for index, own in np.ndenumerate(found):
        alone = problems.cell_problem(whole, options["weights"], options["held_out"], index).solve(tol=1e-7)
        assert own.primal == pytest.approx(alone.primal, rel=2e-5)
        np.testing.assert_allclose(own.function(X), alone.function(X), atol=2 * (2 * own.gap) ** 0.5 + 1e-3)
    problems.check_cells(mixed(1.0, 1.0, targets), options["weights"], options["held_out"], 2e-5, 1e-5, exact=1e-7)


def test_what_is_not_solved_in_time_is_left_to_others(monkeypatch):
    monkeypatch.setattr("rkhs._core.problem.grid.ADMM", lambda steps: rkhs.solvers.ADMM(10))
    found = mixed(1.0, 1.0).path(1, [0.1, 1000.0], tol=1e-8)
    assert [own.status for own in found] == ["converged"] * 2


def test_a_grid_that_is_stopped_keeps_what_it_has():
    found = mixed(1.0, 1.0).path(1, [0.1, 1000.0], tol=1e-10, callback=lambda record: record.iteration == 3)
    assert [own.status for own in found] == ["stopped by the callback"] * 2
    assert all(np.isfinite(own.gap) and own.dual <= own.primal for own in found)
