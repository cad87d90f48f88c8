"""Problems on a device and in a precision: the same solution, with a true gap."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

import rkhs

RNG = np.random.default_rng(5)
X, Z = RNG.standard_normal((60, 4)), RNG.standard_normal((9, 4))
Y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
SOLVERS = {
    rkhs.Squared(): (rkhs.solvers.ConjugateGradients(), rkhs.solvers.Galerkin(), rkhs.solvers.NonlinearCG()),
    rkhs.SquaredHinge(): (rkhs.solvers.Galerkin(), rkhs.solvers.NonlinearCG()),
    rkhs.Hinge(): (rkhs.solvers.Galerkin(),),
}
CASES = [(loss, solver) for loss, solvers in SOLVERS.items() for solver in solvers]


def problem(loss, **where):
    labels = rkhs.Term(rkhs.Evaluation(X), loss, Y, 10.0)
    flat = rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.1)
    return rkhs.Problem(rkhs.Gaussian(2.0), [labels, flat], rkhs.Constant(), **where)


@pytest.mark.parametrize("precision", ["float64", "float32", "tf32x3", "tf32"])
@pytest.mark.parametrize(("loss", "solver"), CASES, ids=repr)
def test_the_gap_is_true_whatever_the_products(loss, solver, precision):
    """A gap of 1e-8 is far beyond products of 1e-3: residuals are corrected."""
    tol = 1e-8 if precision != "tf32" else 1e-6
    found, exact = (problem(loss, precision=p).solve(solver, tol=tol) for p in (precision, None))
    assert found.status == "converged"
    assert exact.dual * (1 - 1e-12) <= found.primal <= exact.primal * (1 + tol)
    assert found.function.coefficients.dtype == np.float64
    again = rkhs.Problem(rkhs.Gaussian(2.0), problem(loss).terms, rkhs.Constant()).solve(solver, tol=tol, start=found)
    assert again.primal == pytest.approx(found.primal, rel=tol)  # by exact products


def test_on_a_device_numbers_are_tensors():
    solution = problem(rkhs.SquaredHinge(), device="cpu", precision="tf32x3").solve(tol=1e-6)
    assert isinstance(solution.function.coefficients, torch.Tensor)
    assert solution.function.coefficients.dtype == torch.float64
    plain = problem(rkhs.SquaredHinge()).solve(tol=1e-6)
    np.testing.assert_allclose(np.asarray(solution.function(torch.asarray(Z))), plain.function(Z), atol=1e-2)
    assert problem(rkhs.Squared(), device="cpu").solve().function.coefficients.dtype == torch.float64


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_cpu_and_a_warning():
    with pytest.warns(UserWarning, match=r"device=.cuda.: PyTorch sees no GPU here, so .* on the CPU"):
        solution = problem(rkhs.SquaredHinge(), device="cuda").solve()
    assert isinstance(solution.function.coefficients, np.ndarray)
    assert solution.status == "converged"


def test_estimators_take_a_device_and_a_precision():
    labels = np.where(RNG.random(60) < 0.5, Y, 0).astype(int)
    plain = rkhs.InvariantClassifier(unlabeled=0, tol=1e-6).fit(X, labels)
    moved = rkhs.InvariantClassifier(
        unlabeled=0, tol=1e-6, solver=rkhs.SolverOptions(device="cpu", precision="float32")
    ).fit(X, labels)
    assert isinstance(moved.function_.coefficients, torch.Tensor)
    values = moved.decision_function(Z)
    assert isinstance(values, np.ndarray)
    np.testing.assert_allclose(values, plain.decision_function(Z), atol=1e-2)
    regressor = rkhs.InvariantRegressor(solver=rkhs.SolverOptions(precision="tf32x3"), tol=1e-6).fit(X, Y)
    np.testing.assert_allclose(regressor.predict(Z), rkhs.InvariantRegressor(tol=1e-6).fit(X, Y).predict(Z), atol=1e-2)


@pytest.mark.parametrize("approximation", [None, rkhs.Landmarks(5), rkhs.FourierFeatures(20)], ids=repr)
def test_what_comes_out_is_of_the_kind_of_what_goes_in(approximation):
    f = replace(problem(rkhs.Squared(), device="cpu"), approximation=approximation).solve().function
    for family in (rkhs.Evaluation, rkhs.Gradient):
        values, tensors = family(Z)(f), family(torch.from_numpy(Z))(f)
        assert isinstance(values, np.ndarray)
        assert isinstance(tensors, torch.Tensor)
        np.testing.assert_allclose(values, tensors.numpy(), rtol=1e-12)
    assert isinstance(f(Z.tolist()), np.ndarray)


def test_probabilities_and_pickles_of_a_machine_on_a_device():
    labels = (Y > 0).astype(int)
    plain, moved = (
        rkhs.InvariantClassifier(unlabeled=None, tol=1e-6, solver=where).fit(X, labels)
        for where in ("auto", rkhs.SolverOptions(device="cpu"))
    )
    assert isinstance(moved.predict_proba(Z), np.ndarray)
    np.testing.assert_allclose(moved.predict_proba(Z), plain.predict_proba(Z), atol=1e-2)
    again = pickle.loads(pickle.dumps(moved))
    np.testing.assert_array_equal(again.decision_function(Z), moved.decision_function(Z))


def test_standard_deviations_on_a_device():
    plain, moved = (
        rkhs.InvariantRegressor(solver=where).fit(X, Y)
        for where in ("auto", rkhs.SolverOptions(device="cpu", precision="tf32"))
    )
    (_, exact), (_, found) = (model.predict(Z, return_std=True) for model in (plain, moved))
    assert isinstance(found, np.ndarray)
    np.testing.assert_allclose(found, exact, rtol=1e-6)


@pytest.mark.parametrize("device", ["tpu", 1.5])
def test_a_device_that_pytorch_does_not_know_is_refused(device):
    with pytest.raises(ValueError, match='device must be one that PyTorch knows, such as "cuda"'):
        problem(rkhs.Squared(), device=device).solve()
