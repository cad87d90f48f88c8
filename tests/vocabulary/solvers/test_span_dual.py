"""The best dual point in a span is feasible, as good as cvxpy's, and below the minimum."""

import warnings

import cvxpy
import numpy as np
import pytest
import torch

import rkhs
from rkhs._core.finite.certificate import certify, dual_value, feasible
from rkhs._core.problem.problem import solve_to_tolerance
from rkhs.extend import Iterate, Monitor
from rkhs.solvers._recycling import GridCell, SearchSubspace, SpanDual, _combined

RNG = np.random.default_rng(5)
X, Y = RNG.standard_normal((25, 2)), RNG.standard_normal((6, 2))
LABELS = np.where(X[:9, 0] + 0.4 * RNG.standard_normal(9) > 0, 1.0, -1.0)
KERNEL = rkhs.Gaussian(1.2)
MULTIPLES = (0.7, 1.3, 0.4)


def system(loss, basis=None, kernel=KERNEL):
    terms = [
        rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), RNG.standard_normal((25, 2)), weight=10 ** RNG.uniform(-1, 0, 50)),
        rkhs.Term(rkhs.Evaluation(X[:9]), loss, LABELS, 5.0),
        rkhs.Term(rkhs.Evaluation(Y), rkhs.Squared(), weight=0.3),
    ]
    return rkhs.Problem(kernel, terms, basis).system


def bounded(whole, multiples=MULTIPLES, more=6):
    """The task, its directions (representers and some random ones), its bound and gamma."""
    directions = SearchSubspace(whole, whole.size)
    directions.add_representers(whole.other_rows, 9)
    span = SpanDual(directions)
    for _ in range(2):  # what is added later is taken in
        V = RNG.standard_normal((whole.size, more // 2))
        directions.add(V, whole.gram @ V)
        span._update()
    task = GridCell.of(whole, 0, multiples)
    reduced = task.solve(directions, 5e-10, Monitor(0.0))
    assert span.serves(task)
    return task, directions, *span.bound(task, reduced, 5e-10, Monitor(0.0))


def best_in_span(task, D):
    """cvxpy's maximum of the dual over alpha = D'gamma."""
    G, Q = task.system.gram.dense(), task.system.Q
    root = np.linalg.cholesky(D @ G @ D.T)
    gamma = cvxpy.Variable(len(D))
    alpha = D.T @ gamma
    value = -cvxpy.sum_squares(root.T @ gamma) / 2
    constraints = [Q.T @ alpha == 0] if Q.shape[1] else []
    for t in task.system.terms:
        own, w, b = alpha[t.rows], t.weight[:, 0], t.target[:, 0]
        if t.loss == rkhs.Squared():
            value += -cvxpy.sum(cvxpy.multiply(own**2, 1 / (4 * w))) + own @ b
        else:  # hinge: w b loss* = -alpha b on 0 <= alpha b <= w; its square adds (alpha b)^2 / 4w
            share = cvxpy.multiply(own, b)
            value += cvxpy.sum(share)
            constraints.append(share >= 0)
            if t.loss == rkhs.Hinge():
                constraints.append(share <= w)
            else:
                value -= cvxpy.sum(cvxpy.multiply(share**2, 1 / (4 * w)))
    model = cvxpy.Problem(cvxpy.Maximize(value), constraints)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.solve(cvxpy.CLARABEL)
    return float(model.value)


@pytest.mark.parametrize("basis", [None, rkhs.Constant(), rkhs.Polynomials(1)], ids=repr)
@pytest.mark.parametrize("loss", [rkhs.Hinge(), rkhs.SquaredHinge()], ids=repr)
def test_no_point_of_the_span_is_better(loss, basis):
    task, directions, value, _ = bounded(system(loss, basis))
    assert value == pytest.approx(best_in_span(task, directions.D[: directions.count]), rel=1e-6)


@pytest.mark.parametrize("basis", [None, rkhs.Constant()], ids=repr)
@pytest.mark.parametrize("loss", [rkhs.Hinge(), rkhs.SquaredHinge(), rkhs.Logistic(), rkhs.Quantile(0.3)], ids=repr)
def test_the_point_is_feasible_and_has_that_value(loss, basis):
    whole = system(loss, basis)
    task, directions, value, gamma = bounded(whole)
    alpha, image = directions.at(gamma[:, None])
    np.testing.assert_allclose(image, whole.gram @ alpha, atol=1e-10)
    low, high = task.system.box
    assert np.all((low - 1e-9 <= alpha) & (alpha <= high + 1e-9))
    np.testing.assert_allclose(whole.Q.T @ alpha, 0, atol=1e-8)
    assert value == pytest.approx(float(dual_value(task.system, alpha, image)[0]), rel=1e-8)
    theta = task.theta[:, None]
    least = certify(task.system, Iterate(directions.at(theta[directions.rank :])[0], theta[: directions.rank]))
    assert value <= float(least.primal[0])


@pytest.mark.parametrize("scale", [1.2, 3.0])
@pytest.mark.parametrize("loss", [rkhs.Hinge(), rkhs.SquaredHinge()], ids=repr)
def test_rounding_does_not_lead_out_of_the_dual(loss, scale):
    """Grids refuse a point that is off by 1e-12.  Wider kernels, of dependent representers, cost a product instead."""
    task, directions, _, gamma = bounded(system(loss, rkhs.Constant(), rkhs.Gaussian(scale)))
    alpha, _ = directions.at(gamma[:, None])
    nearest = feasible(task.system, alpha)
    assert np.linalg.norm(nearest - alpha) <= 1e-12 * np.linalg.norm(alpha)


def test_the_bound_is_the_minimum_where_all_is_in_the_span():
    whole = system(rkhs.SquaredHinge(), rkhs.Constant(), rkhs.Matern(1.5, 0.5))
    task, directions, value, _ = bounded(whole, more=whole.size - 9)
    assert directions.count == whole.size
    found, _, _ = solve_to_tolerance(rkhs.solvers.Newton(), task.system, task.system.start(), Monitor(1e-10))
    minimum = float(certify(task.system, found).primal[0])
    assert value == pytest.approx(minimum, rel=1e-8)
    assert bounded(whole, more=4)[2] < minimum * (1 - 1e-6)


def test_weights_that_differ_by_row_are_not_served():
    whole = system(rkhs.Hinge())
    directions = SearchSubspace(whole, 40)
    assert not SpanDual(directions).serves(GridCell.of(whole, 0, MULTIPLES))  # no representers
    directions.add_representers(whole.other_rows, 5)
    assert not SpanDual(directions).serves(GridCell.of(whole, 0, MULTIPLES))  # not all of them
    directions = SearchSubspace(whole, 40)
    directions.add_representers(whole.other_rows, 9)
    span = SpanDual(directions)
    assert span.serves(GridCell.of(whole, 0, MULTIPLES))
    assert not span.serves(GridCell.of(whole, 0, (np.linspace(0, 1, 50)[:, None], 1.0, 1.0)))
    assert not span.serves(GridCell.of(whole, 0, (0.0, 1.0, 1.0)))


def test_gradients_that_are_alike_are_combined():
    """Ten gradients in a plane, and a little beside it: two combinations, unless the little matters."""
    G = RNG.standard_normal((200, 2)) @ RNG.standard_normal((2, 10)) + 1e-4 * RNG.standard_normal((200, 10))
    gaps = np.full(10, 1e-2)
    assert _combined(G, gaps, 1e-4).shape == (200, 2)
    assert _combined(G, gaps, 1e-12) is None
    assert _combined(RNG.standard_normal((200, 10)), gaps, 1e-4) is None
    assert _combined(G, np.full(10, np.inf), 1e-4) is None
    assert _combined(G[:, :1], gaps[:1], 1e-4) is None
    np.testing.assert_allclose(_combined(torch.from_numpy(G), gaps, 1e-4), _combined(G, gaps, 1e-4))


@pytest.mark.slow
@pytest.mark.parametrize("loss", [rkhs.Hinge(), rkhs.SquaredHinge()], ids=repr)
def test_a_grid_takes_fewer_columns_and_its_gaps_are_true(loss, monkeypatch):
    points = RNG.standard_normal((60, 4))
    y = np.where(points[:16, 0] > 0, 1.0, -1.0)
    labels = rkhs.Term(rkhs.Evaluation(points[:16]), loss, y)
    flat = rkhs.Term(rkhs.Gradient(points), rkhs.Squared())
    whole = rkhs.Problem(rkhs.Gaussian(1.5), [labels, flat], rkhs.Constant())

    # such a small one would be solved cell by cell, and its products cost next to nothing
    monkeypatch.setattr("rkhs._core.problem.grid.GridSolver._costs", lambda *_: (np.inf, np.inf, 1.0, np.inf))
    monkeypatch.setattr("rkhs.solvers._recycling.DEAR", -1.0)

    def run():
        counted = []
        gram = type(whole.system.gram)
        product = gram.__matmul__
        with monkeypatch.context() as patch:
            share = lambda g: g.shape[0] * g.shape[1] / whole.system.size**2  # noqa: E731
            patch.setattr(gram, "__matmul__", lambda g, v: counted.append(share(g) * v.shape[1]) or product(g, v))
            found = whole.grid({labels: [1, 10, 100], flat: [0.1, 1]}, {labels: [[0, 1], [2, 3]]}, tol=1e-3)
        return sum(counted), found

    columns, found = run()
    for solution in found.flat:
        assert solution.relative_gap <= 1e-3
    monkeypatch.setattr(SpanDual, "serves", lambda *_: False)
    more, expected = run()
    assert columns < 0.8 * more
    for one, other in zip(found.flat, expected.flat, strict=True):
        assert one.dual <= other.primal * (1 + 1e-12)
        assert other.dual <= one.primal * (1 + 1e-12)


def test_a_restart_keeps_the_representers():
    """Directions are still orthonormal, with their images, and the point to be kept is in their span."""
    whole = system(rkhs.Hinge(), rkhs.Constant())
    directions = SearchSubspace(whole, 24)
    directions.add_representers(whole.other_rows, 9)
    V = RNG.standard_normal((whole.size, 13))
    directions.add(V, whole.gram @ V)
    theta = RNG.standard_normal((22, 1))
    a, image = directions.at(theta)
    R = directions.restart(theta)
    assert R.shape == (22, directions.count) == (22, 9 + 7)
    for found, expected in zip(directions.at(R.T @ theta), (a, image), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-10)
    D, U = directions.D[: directions.count], directions.U[: directions.count]
    np.testing.assert_allclose(D @ U.T, np.eye(directions.count), atol=1e-9)
    np.testing.assert_allclose(U, D @ whole.gram.dense(), atol=1e-9)
    E = directions.images(whole.terms[0].rows)
    size = E.shape[1]
    np.testing.assert_allclose(directions.moments[0][:size, :size], E.T @ (whole.terms[0].weight * E), atol=1e-9)
    span = SpanDual(directions)
    assert span.serves(GridCell.of(whole, 0, MULTIPLES))
