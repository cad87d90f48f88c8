"""Small problems, whatever their losses, against cvxpy; and spans, whose certificates do not take any theta."""

import warnings

import cvxpy
import numpy as np
import pytest

import problems
import rkhs
from rkhs._core.finite.certificate import relative_gap
from rkhs._core.finite.problem import LossBlock
from rkhs._core.limits import with_limits
from rkhs.extend import Monitor
from rkhs.solvers._features import solve
from rkhs.solvers._reduced import reduced, value

LOSSES = [loss for loss in problems.LOSSES if not loss.quadratic]


def small(losses, seen=True, rank=2, tau=5):
    """A random small problem with some rows of each loss; S may see none of the basis."""
    rng = np.random.default_rng(len(losses))
    root = rng.standard_normal((rank + tau, rank + tau))
    S, linear = root.T @ root + np.eye(rank + tau), rng.standard_normal(rank + tau)
    if not seen:
        S[:rank], S[:, :rank], linear[:rank] = 0.0, 0.0, 0.0
    terms, rows, offsets = [], [], []
    for loss in losses:
        E = rng.standard_normal((12, rank + tau))
        b = np.where(rng.standard_normal(12) > 0, 1.0, -1.0)
        weight = 10 ** rng.uniform(-1, 1, (12, 1))
        terms.append(LossBlock(slice(0, 12), loss, b[:, None], weight))
        rows.append(E)
        offsets.append(0.3 * rng.standard_normal((12, 1)))
    return reduced(S, linear, 0.7, rank, terms, rows, np.concatenate(offsets))


def by_cvxpy(problem):
    features = problem.geometry
    theta = cvxpy.Variable(len(features.linear))
    cost = cvxpy.quad_form(theta, cvxpy.psd_wrap(features.square)) / 2 + features.linear[:, 0] @ theta
    cost += float(features.constant[0])
    for t, E in zip(problem.terms, features.E, strict=True):
        loss = problems.cvxpy_loss(t.loss, features.offset[t.rows, 0] + E @ theta, t.target[:, 0])
        cost += cvxpy.sum(cvxpy.multiply(t.weight[:, 0], loss))
    model = cvxpy.Problem(cvxpy.Minimize(cost))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.solve(cvxpy.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return float(model.value)


@pytest.mark.parametrize("seen", [True, False], ids=["the basis is seen", "the basis is not seen"])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_newton_or_elimination_against_cvxpy(loss, seen):
    problem = small([loss, rkhs.losses.Absolute()] if not loss.smooth else [loss, rkhs.Huber(0.4)], seen)
    least, (theta, alpha) = by_cvxpy(problem), solve(problem, 1e-9, Monitor(0.0))
    assert value(problem, theta) == pytest.approx(least, rel=1e-7)
    forces = problem.geometry.square @ theta + problem.geometry.linear[:, 0]
    E = np.concatenate(problem.geometry.E)
    np.testing.assert_allclose(forces, E.T @ alpha, atol=1e-4 * (1 + np.abs(forces).max()))
    low, high = problem.box
    assert np.all((alpha >= low[:, 0] - 1e-9) & (alpha <= high[:, 0] + 1e-9))


@pytest.mark.parametrize("loss", [loss for loss in LOSSES if not loss.smooth], ids=repr)
def test_smoothing_agrees_with_elimination(loss):
    problem = small([loss])
    least = by_cvxpy(problem)
    with with_limits(kinked_rows=0):
        theta, _ = solve(problem, 1e-7, Monitor(0.0))
        again, _ = solve(problem, 1e-7, Monitor(0.0), theta)
    assert relative_gap(value(problem, theta), least) <= 2e-7
    assert relative_gap(value(problem, again), least) <= 2e-7
