"""GreedyCoordinate: what it chooses, that it corrects fully, and that the rest is exactly zero."""

from dataclasses import replace

import cvxpy
import numpy as np
import pytest

import problems
import rkhs
from problems import cvxpy_risk
from rkhs.solvers import GreedyCoordinate

RNG = np.random.default_rng(3)
X = RNG.uniform(-2, 2, size=(60, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
LABELS = np.where(Y > 1, 1.0, -1.0)


def regression(kernel=None, basis=None, loss=None):
    terms = [
        rkhs.Term(rkhs.Evaluation(X), loss or rkhs.Squared(), Y, 5.0),
        rkhs.Term(rkhs.Gradient(X[:5]), rkhs.Squared(), weight=0.1),
    ]
    return rkhs.Problem(kernel or rkhs.Gaussian(0.8), terms, basis)


def chosen(solution):
    return np.flatnonzero(np.atleast_2d(solution.function.coefficients.T).any(axis=0))


def dense(problem):
    system = problem.system
    w = np.concatenate([np.asarray(t.weight)[:, 0] for t in system.terms])
    b = np.concatenate([np.asarray(t.target)[:, 0] for t in system.terms])
    return np.asarray(system.gram.dense()), np.asarray(system.Q), w, b


@pytest.mark.parametrize("selection", ["steepest", "random"])
@pytest.mark.parametrize("count", [1, 7, 20])
def test_limit_of_representers(selection, count):
    problem = regression()
    solution = problem.solve(GreedyCoordinate(representers=count, selection=selection))
    assert solution.status == "limit of representers"
    assert solution.function.active == len(chosen(solution)) == count
    minimum = problem.solve(GreedyCoordinate(), tol=1e-10).primal
    assert solution.dual <= minimum * (1 + 1e-9)
    assert solution.gap >= solution.primal - minimum > 1e-3 * minimum


@pytest.mark.every
@pytest.mark.parametrize("basis", [None, rkhs.Constant()], ids=repr)
@pytest.mark.parametrize("loss", [rkhs.Squared(), rkhs.losses.Absolute()], ids=repr)
def test_coefficients_are_the_best_on_the_span(loss, basis):
    """Against cvxpy on the chosen columns: smoothing leaves nothing behind."""
    problem = regression(basis=basis, loss=loss)
    solution = problem.solve(GreedyCoordinate(representers=9), tol=1e-8)
    G, Q, w, b = dense(problem)
    S = chosen(solution)
    v, c = cvxpy.Variable(len(S)), cvxpy.Variable((Q.shape[1], 1))
    u = np.linalg.solve(np.linalg.cholesky(G[np.ix_(S, S)]), G[S]).T @ v + cvxpy.sum(Q @ c, axis=1)
    risk = cvxpy_risk(loss, u[:60], b[:60], w[:60]) + w[60:] @ cvxpy.square(u[60:])
    best = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(v) / 2 + risk)).solve(cvxpy.CLARABEL)
    assert solution.primal == pytest.approx(best, rel=1e-6)


def test_steepest_choice():
    """The largest slope of J along the part of a representer that is orthogonal to the span, one after the other."""
    problem = regression()
    G, _, w, b = dense(problem)
    S = []
    for _ in range(6):
        E = G[:, S]
        a = np.linalg.solve(G[np.ix_(S, S)] + 2 * E.T @ (w[:, None] * E), 2 * E.T @ (w * b))
        u = E @ a
        g = 2 * w * (u - b)
        g[S] += a
        distance = np.diag(G) - np.sum(E.T * np.linalg.solve(G[np.ix_(S, S)], E.T), axis=0)
        score = abs(G @ g) / np.sqrt(np.maximum(distance, 1e-300))
        score[S] = 0
        S.append(int(np.argmax(score)))
        got = problem.solve(GreedyCoordinate(representers=len(S)))
        assert set(chosen(got)) == set(S)


def test_steepest_needs_fewer_representers_than_random():
    problem = regression()
    random = [
        problem.solve(GreedyCoordinate(representers=15, selection="random", random_state=s)).primal for s in range(5)
    ]
    assert problem.solve(GreedyCoordinate(representers=15)).primal < min(random)


def test_compress_drops_what_is_zero():
    f = regression().solve(GreedyCoordinate(representers=8)).function
    small = f.compress()
    assert small.functionals.size == 8
    points = RNG.normal(size=(10, 2))
    np.testing.assert_allclose(small(points), f(points), rtol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [rkhs.Squared(), rkhs.losses.Absolute()], ids=repr)
def test_conditionally_positive_definite(loss):
    """f is in the space of the kernel: its coefficients vanish on the polynomials, and count among the allowed."""
    problem = regression(rkhs.kernels.Polyharmonic(3), loss=loss)
    solution = problem.solve(GreedyCoordinate(representers=12), tol=1e-8)
    a = solution.function.coefficients
    P = rkhs.stack([t.functional for t in problem.terms]).assemble(rkhs.Polynomials(1).on)
    assert solution.function.active == 12
    np.testing.assert_allclose(P.T @ a, 0, atol=1e-10 * np.abs(a).max())
    exact = problem.solve(GreedyCoordinate(), tol=1e-9)
    assert exact.status == "converged"
    assert exact.primal < solution.primal


def test_together_saves_products():
    one, four = (regression().solve(GreedyCoordinate(together=k), tol=1e-6) for k in (1, 4))
    assert one.status == four.status == "converged"
    assert four.products < one.products / 2
    assert four.primal == pytest.approx(one.primal, rel=1e-6)
    assert one.products == one.function.active + 1


def test_outputs_share_representers():
    targets = np.stack([Y, -Y, np.cos(Y)], axis=1)
    problem = rkhs.Problem(rkhs.Gaussian(0.8), [rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), targets, 5.0)])
    solution = problem.solve(GreedyCoordinate(representers=10))
    assert solution.function.active == 10
    assert np.all(solution.function.coefficients[chosen(solution)] != 0)


def test_warm_start_keeps_the_representers():
    problem = regression()
    first = problem.solve(GreedyCoordinate(representers=10))
    again = problem.solve(GreedyCoordinate(representers=10), start=first)
    assert np.array_equal(chosen(first), chosen(again))
    assert again.iterations == 1
    assert again.primal == pytest.approx(first.primal, rel=1e-10)


def test_dependent_representers_are_never_chosen():
    """Each point five times: as many representers as different points."""
    twice = rkhs.Evaluation(np.tile(X[:8], (5, 1)))
    problem = rkhs.Problem(rkhs.Gaussian(0.8), [rkhs.Term(twice, rkhs.Squared(), np.tile(Y[:8], 5), 1.0)])
    solution = problem.solve(GreedyCoordinate(), tol=1e-12)
    assert solution.function.active == 8
    assert solution.relative_gap < 1e-10


def test_memory_limit():
    problem = regression()
    problems.with_gram(problem, replace(problem.system.gram, budget=16 * problem.system.size * 6))
    solution = problem.solve(GreedyCoordinate())
    assert solution.status == "memory limit"
    assert solution.function.active == 6


@pytest.mark.parametrize("basis", [None, rkhs.Constant()], ids=repr)
@pytest.mark.parametrize("loss", [rkhs.losses.EpsilonInsensitive(0.05), rkhs.losses.Absolute()], ids=repr)
def test_logistic_labels_with_kinked_invariances(loss, basis):
    """The pairing of Zhang et al. 2013, section 6.3: few representers come near, all that it takes come to J.

    Where no representer was chosen yet and there is no basis the dual point was 0, hence no slope, and f = 0 the end.
    """
    labels = rkhs.Term(rkhs.Evaluation(X[:30]), rkhs.Logistic(), LABELS[:30], 2.0)
    flat = rkhs.Term(rkhs.Gradient(X[:30]), loss, weight=0.1)
    problem = rkhs.Problem(rkhs.Gaussian(1.0), [labels, flat], basis)
    best = problem.solve(rkhs.solvers.ProximalNewton(), tol=1e-8)
    few = problem.solve(GreedyCoordinate(representers=8))
    assert few.function.active == 8
    assert best.primal <= few.primal * (1 + 1e-9) < 1.1 * best.primal
    enough = problem.solve(GreedyCoordinate(), tol=1e-5)
    assert enough.status == "converged"
    assert enough.primal == pytest.approx(best.primal, rel=2e-5)
    assert enough.function.active < best.function.active
