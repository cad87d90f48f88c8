"""SchurComplement: against the conditioned kernel in closed form, and the other solvers."""

import numpy as np
import pytest
from sklearn.svm import SVC

import rkhs
from rkhs._core.limits import with_limits

RNG = np.random.default_rng(3)
X, Z = RNG.standard_normal((40, 2)), RNG.standard_normal((9, 2))
LABELS = np.where(X[:15, 0] + 0.5 * RNG.standard_normal(15) > 0, 1.0, -1.0)
WAVES = rkhs.Functions(np.cos, gradient=lambda X: -np.sin(X)[:, :, None] * np.eye(2))
SPACES = (
    (rkhs.Gaussian(1.0), None),
    (rkhs.Gaussian(1.0), rkhs.Constant()),
    (rkhs.Gaussian(1.0), rkhs.Polynomials(1)),
    (rkhs.Gaussian(1.0), WAVES),
    (rkhs.kernels.Polyharmonic(3), None),
    (rkhs.kernels.Polyharmonic(3), rkhs.Polynomials(2)),
)


def labels(loss=None, weight=3.0, target=LABELS):
    return rkhs.Term(rkhs.Evaluation(X[:15]), loss or rkhs.Hinge(), target, weight)


def slopes(weight=0.3):
    return rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=weight)


def values(weight=2.0):
    """Quadratic terms with a target: what they say by themselves shifts the losses of the others."""
    return rkhs.Term(rkhs.Evaluation(X[20:]), rkhs.Squared(), np.sin(2 * X[20:, 0]), weight)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_svm_on_the_conditioned_kernel(order):
    """scikit-learn's SVC on G_ll - G_lq (G_qq + 1/(2w))^-1 G_ql predicts the same."""
    kernel, w = rkhs.Gaussian(1.0), 0.3
    terms = [labels(), slopes(w)]
    problem = rkhs.Problem(kernel, [terms[k] for k in order], rkhs.Constant())
    solution = problem.solve(rkhs.solvers.SchurComplement(), tol=1e-8)
    assert solution.status == "converged"

    def conditioned(L, M):
        q = rkhs.Gradient(X)
        noisy = rkhs.gram(kernel, q).dense() + np.eye(q.size) / (2 * w)
        cross = rkhs.gram(kernel, L, q).dense() @ np.linalg.solve(noisy, rkhs.gram(kernel, q, M).dense())
        return rkhs.gram(kernel, L, M).dense() - cross

    train, test = rkhs.Evaluation(X[:15]), rkhs.Evaluation(Z)
    model = SVC(C=3.0, kernel="precomputed", tol=1e-10).fit(conditioned(train, train), LABELS)
    np.testing.assert_allclose(solution.function(Z), model.decision_function(conditioned(test, train)), atol=1e-5)


@pytest.mark.parametrize("loss", [rkhs.Hinge(), rkhs.Logistic()], ids=repr)
@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_by_conjugate_gradients(space, loss):
    """Where there are too many quadratic functionals to be factorized."""
    problem = rkhs.Problem(space[0], [labels(loss), slopes(), values()], space[1])
    expected = problem.solve(rkhs.solvers.SchurComplement(), tol=1e-8)
    assert expected.products == 0
    with with_limits(stored_rows=0):
        solution = problem.solve(rkhs.solvers.SchurComplement(), tol=1e-8)
    assert solution.status == "converged"
    assert solution.products > 10
    np.testing.assert_allclose(solution.function(Z), expected.function(Z), atol=1e-3)


@pytest.mark.parametrize("weight", [1e-12, 1e12])
@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_weights_of_what_is_absorbed(space, weight):
    problem = rkhs.Problem(space[0], [labels(rkhs.SquaredHinge()), slopes(weight)], space[1])
    solution = problem.solve(rkhs.solvers.SchurComplement(), tol=1e-6)
    assert solution.status == "converged"
    assert solution.primal == pytest.approx(problem.solve(rkhs.solvers.Newton(), tol=1e-6).primal, rel=3e-6)


def test_without_the_null_space():
    problem = rkhs.Problem(rkhs.kernels.Polyharmonic(3), [labels(), slopes()], null_space="dropped")
    solution = problem.solve(rkhs.solvers.SchurComplement(), tol=1e-8)
    assert solution.status == "converged"
    assert solution.primal == pytest.approx(problem.solve(rkhs.solvers.BoxDual(), tol=1e-8).primal, rel=1e-7)


@pytest.mark.parametrize("size", [0.0, 1e-8, 1e-3])
def test_a_constant_that_squared_terms_hardly_see_is_not_eliminated(size):
    """Differences along a graph by an eigendecomposition: those of a constant are the root of a rounding error."""
    differences = np.diff(np.eye(40), axis=0)
    differences[:, 0] += size
    flat = rkhs.Term(differences @ rkhs.Evaluation(X), rkhs.Squared())
    problem = rkhs.Problem(rkhs.Gaussian(1.0), [labels(), flat], rkhs.Constant())
    found, exact = (
        problem.solve(solver, tol=1e-8) for solver in (rkhs.solvers.SchurComplement(), rkhs.solvers.BoxDual())
    )
    assert found.status == "converged"
    assert found.iterations < 8
    assert found.primal == pytest.approx(exact.primal, rel=1e-7)
