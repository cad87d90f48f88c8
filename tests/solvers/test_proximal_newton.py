"""Losses with a curvature beside losses without: against cvxpy, and against the solvers of either kind alone."""

import itertools

import numpy as np

import rkhs

RNG = np.random.default_rng(6)
X, Z = RNG.standard_normal((25, 2)), RNG.standard_normal((6, 2))
Y = np.where(X[:, 0] > 0, 1.0, -1.0)


def problem(weight=2.0, target=Y, points=X):
    labels = rkhs.Term(rkhs.Evaluation(points), rkhs.Logistic(), target, weight)
    rising = rkhs.Term(rkhs.Derivative(points, axes=[1]), rkhs.OneSided(), 0.1, 1.0)
    return rkhs.Problem(rkhs.Gaussian(1.0), [labels, rising], rkhs.Constant())


def test_without_kinks_it_is_newton():
    labels = problem().terms[:1]
    ours = rkhs.Problem(rkhs.Gaussian(1.0), labels, rkhs.Constant()).solve(rkhs.solvers.ProximalNewton(), tol=1e-10)
    theirs = rkhs.Problem(rkhs.Gaussian(1.0), labels, rkhs.Constant()).solve(rkhs.solvers.Newton(), tol=1e-10)
    np.testing.assert_allclose(ours.function(Z), theirs.function(Z), atol=1e-4)
    assert ours.iterations <= 8


def test_the_objective_never_rises_and_the_end_is_quick():
    history = problem(weight=1e3).solve(rkhs.solvers.ProximalNewton(), tol=1e-12).history
    primals = [record.primal for record in history]
    assert all(after <= before for before, after in itertools.pairwise(primals))
    assert history[-1].gap <= history[-2].gap ** 1.5 or history[-1].gap <= 1e-13


def test_auto_takes_it_for_small_mixed_problems():
    assert problem().solve().solver == "ProximalNewton"
