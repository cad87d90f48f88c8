"""L-BFGS on the coefficients: the right minimum, slowly, and an honest count."""

import numpy as np
import pytest

import rkhs
from rkhs._gram.operator import Gram


def problem(loss, kernel=None, basis=None, outputs=False):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((15, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
    return rkhs.Problem(
        kernel or rkhs.Gaussian(0.7),
        [
            rkhs.Term(rkhs.Evaluation(X), loss, np.stack([y, -y], axis=1) if outputs else y),
            rkhs.Term(rkhs.Gradient(X[:5]), rkhs.Squared(), weight=0.1),
        ],
        basis,
    )


@pytest.mark.parametrize(
    ("loss", "kernel", "basis"),
    [
        (rkhs.SquaredHinge(), rkhs.Gaussian(0.7), None),
        (rkhs.Huber(0.3), rkhs.Gaussian(0.7), rkhs.Constant()),
        (rkhs.Logistic(), rkhs.kernels.Polyharmonic(3), None),
    ],
    ids=repr,
)
def test_agrees_with_newton(loss, kernel, basis):
    one = problem(loss, kernel, basis)
    ours, exact = one.solve(rkhs.solvers.LBFGS(), tol=1e-4), one.solve(rkhs.solvers.Newton(), tol=1e-10)
    assert ours.status == "converged"
    assert 0 <= ours.primal - exact.primal + 1e-10 <= 1e-4 * exact.primal
    assert ours.relative_gap <= 1e-4


def test_outputs():
    solution = problem(rkhs.Logistic(), outputs=True).solve(rkhs.solvers.LBFGS(), tol=1e-4)
    alone = problem(rkhs.Logistic()).solve(rkhs.solvers.Newton(), tol=1e-10)
    assert solution.status == "converged"
    assert solution.primal == pytest.approx(2 * alone.primal, rel=1e-4)


def test_products_are_counted(monkeypatch):
    """Two for each evaluation, and those of the certificates: all that the Gram operator saw."""
    seen = []
    product = Gram.__matmul__
    monkeypatch.setattr(Gram, "__matmul__", lambda self, v: seen.append(1) or product(self, v))
    solution = problem(rkhs.Logistic(), basis=rkhs.Constant()).solve(rkhs.solvers.LBFGS(), tol=1e-4)
    assert 0 <= len(seen) - solution.products <= 4  # and the last certificate, which is not the solver's


def test_needs_many_times_the_products_of_descent():
    one = problem(rkhs.SquaredHinge())
    assert (
        one.solve(rkhs.solvers.LBFGS(), tol=1e-4).products
        > 10 * one.solve(rkhs.solvers.NonlinearCG(), tol=1e-4).products
    )


def test_the_limit_is_said():
    solution = problem(rkhs.SquaredHinge()).solve(rkhs.solvers.LBFGS(max_iterations=3), tol=1e-6)
    assert solution.status == "iteration limit"
    assert solution.iterations == 3
    assert np.any(solution.function.coefficients != 0)


def test_a_callback_stops_it_with_the_best_so_far():
    solution = problem(rkhs.SquaredHinge()).solve(rkhs.solvers.LBFGS(), callback=lambda record: record.iteration == 5)
    assert solution.status == "stopped by the callback"
    assert solution.iterations == 5
    assert solution.primal == pytest.approx(solution.history[-1].primal)


def test_losses_without_a_derivative_are_refused():
    with pytest.raises(rkhs.exceptions.NotApplicableError, match=r"Absolute\(\).*NonlinearCG"):
        problem(rkhs.Absolute()).solve(rkhs.solvers.LBFGS())
