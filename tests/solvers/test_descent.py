"""Descent: one product per iteration, conjugate gradients on quadratics, and a certificate that is the truth."""

import numpy as np
import pytest

import problems
import rkhs
from rkhs.solvers import Descent

RNG = np.random.default_rng(2)
X = RNG.normal(size=(40, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1]
LABELS = np.where(Y + RNG.normal(size=40) > 0, 1.0, -1.0)
SMOOTH = [loss for loss in problems.LOSSES if loss.smooth]
ROUGH = [loss for loss in problems.LOSSES if not loss.smooth]


def problem(loss, kernel=None, basis=None, weight=1.0):
    terms = [
        rkhs.Term(rkhs.Evaluation(X), loss, LABELS if loss.classification else Y, weight),
        rkhs.Term(rkhs.Gradient(X[:10]), rkhs.Squared(), weight=0.1),
    ]
    return rkhs.Problem(kernel or rkhs.Gaussian(1.0), terms, basis)


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
def test_one_product_per_iteration(loss):
    solution = problem(loss, basis=rkhs.Constant()).solve(Descent(), tol=1e-8)
    assert solution.status == "converged"
    assert solution.products == solution.iterations


@pytest.mark.parametrize("loss", problems.LOSSES, ids=repr)
def test_the_gap_it_sees_is_the_true_one(loss):
    solution = problem(loss, basis=rkhs.Constant()).solve(Descent(), tol=1e-5)
    assert solution.status == "converged"
    assert solution.history[-1].gap == pytest.approx(solution.relative_gap, abs=1e-6)


def test_memory_of_one_is_conjugate_gradients():
    """On a quadratic J, one step of memory is as good as twenty: as many iterations."""
    one, twenty = (problem(rkhs.Squared()).solve(Descent(memory=m), tol=1e-8).iterations for m in (1, 20))
    assert one <= twenty + 2


def test_finite_termination():
    """As many iterations as the Hessian has different eigenvalues, and one for the certificate."""
    far = 100.0 * np.arange(12.0)[:, None]  # G = I
    weight = np.repeat([1.0, 10.0, 100.0], 4)
    target = RNG.normal(size=12)
    terms = [rkhs.Term(rkhs.Evaluation(far), rkhs.Squared(), target, weight)]
    solution = rkhs.Problem(rkhs.Gaussian(1.0), terms).solve(Descent(), tol=1e-12)
    assert solution.iterations <= 4
    np.testing.assert_allclose(solution.function(far), target * 2 * weight / (1 + 2 * weight), rtol=1e-9)


@pytest.mark.parametrize("kernel", [rkhs.Polyharmonic(2), rkhs.Polyharmonic(3)], ids=repr)
@pytest.mark.parametrize("loss", [rkhs.Squared(), rkhs.SquaredHinge(), rkhs.Absolute()], ids=repr)
def test_coefficients_stay_in_the_space(kernel, loss):
    target = LABELS if loss.classification else Y
    p = rkhs.Problem(kernel, [rkhs.Term(rkhs.Evaluation(X), loss, target, 1.0)])
    a = p.solve(Descent(), tol=1e-5).function.coefficients
    P = rkhs.Evaluation(X).assemble(rkhs.Polynomials(1).on)
    np.testing.assert_allclose(P.T @ a, 0, atol=1e-9 * np.abs(a).max() * np.abs(P).max())


@pytest.mark.parametrize("loss", ROUGH, ids=repr)
def test_losses_without_a_gradient(loss):
    p = problem(loss, basis=rkhs.Constant(), weight=0.3)
    solution = p.solve(Descent(), tol=1e-6)
    assert solution.status == "converged"
    expected = problems.cvxpy_solution(p, rkhs.Evaluation(X))
    assert solution.primal == pytest.approx(expected.value, rel=1e-6)
    assert solution.dual <= expected.value * (1 + 1e-8)


@pytest.mark.parametrize("seed", [60, 132, 157, 308])
def test_dependent_directions_do_no_harm(seed):
    """Kernels of low rank and parallel steps, on which directions that rounding made up led to infinity."""
    solution = problems.case(seed).problem.solve(Descent(), tol=1e-6)
    assert solution.status == "converged"
    assert solution.primal == pytest.approx(problems.reference(seed).value, rel=2e-6)
