"""LIBSVM against scikit-learn's SVC, the exact dual and cvxpy."""

import difficult
import numpy as np
import pytest
from sklearn.svm import SVC

import rkhs

RNG = np.random.default_rng(4)
X, Z = RNG.standard_normal((60, 2)), RNG.standard_normal((9, 2))
Y = np.where(X[:, 0] + 0.5 * RNG.standard_normal(60) > 0, 1.0, -1.0)


def problem(basis, weight=2.0, target=Y, kernel=None):
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Hinge(), target, weight)
    return rkhs.Problem(kernel or rkhs.Gaussian(1.0), [term], basis)


@pytest.mark.parametrize("weight", [0.01, 2.0, 300.0])
def test_the_support_vector_machine(weight):
    solution = problem(rkhs.Constant(), weight).solve(rkhs.solvers.LibSVM(), tol=1e-8)
    assert solution.status == "converged"
    model = SVC(C=weight, gamma=0.5, tol=1e-10).fit(X, Y)
    np.testing.assert_allclose(solution.function(Z), model.decision_function(Z), atol=max(1e-4, 1e-6 * weight))
    assert solution.function.active == len(model.support_)


def test_one_class_is_a_constant():
    solution = problem(rkhs.Constant(), target=-np.ones(60)).solve(rkhs.solvers.LibSVM())
    assert solution.primal < 1e-12
    assert solution.relative_gap == 0
    np.testing.assert_allclose(solution.function(Z), -1.0)


@pytest.mark.parametrize("name", difficult.NAMES)
def test_difficult_problems(name):
    for kernel, basis in difficult.SPACES[:2]:
        terms = [t for t in difficult.terms(rkhs.Hinge())[name] if not t.loss.quadratic]
        if not terms or name == "nothing at all":
            continue
        problem = rkhs.Problem(kernel, terms, basis)
        if basis is not None and name == "zero functionals":  # which do not see the constant: it is no intercept
            with pytest.raises(rkhs.exceptions.NotApplicableError, match="constant"):
                problem.solve(rkhs.solvers.LibSVM())
            continue
        assert problem.solve(rkhs.solvers.LibSVM(), tol=1e-6).status == "converged"
