"""L-BFGS on the coefficients: the right minimum, slowly, and an honest count."""

import numpy as np

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
