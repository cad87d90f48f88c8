"""Solvers and models with numbers on a device that NumPy cannot reach.

Where there is no GPU, as in CI, tensors of the CPU refuse what those of a GPU refuse: to become NumPy arrays unless
`to_numpy` asks for it, and to be made without saying where.
"""

import numpy as np
import pytest
import torch

import rkhs

RNG = np.random.default_rng(7)
X, Z = RNG.standard_normal((40, 3)), RNG.standard_normal((5, 3))
Y = np.where(X[:, 0] + X[:, 1] > 0, 1.0, -1.0)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
FAR = {"device": DEVICE}  # as tensors
THERE = {"solver": rkhs.SolverOptions(**FAR)}
PROBES = torch.from_numpy(Z).to(DEVICE)
MADE = ("zeros", "ones", "full", "eye", "arange", "linspace", "empty")
ROBUST = rkhs.Invariance("gradient", loss="huber")
MACHINES = {
    "classifier": rkhs.InvariantClassifier,
    "hinge": lambda **where: rkhs.InvariantClassifier(loss="hinge", **where),
    "logistic": lambda **where: rkhs.InvariantClassifier(loss="logistic", invariance=ROBUST, **where),
    "graph": lambda **where: rkhs.InvariantClassifier(loss="squared_hinge", invariance="graph", **where),
    "averages": lambda **where: rkhs.InvariantClassifier(loss="squared", invariance="local_average", **where),
}
SOLVERS = [
    (rkhs.Squared(), rkhs.solvers.Direct()),
    (rkhs.Squared(), rkhs.solvers.ConjugateGradients(5)),
    (rkhs.Squared(), rkhs.solvers.Galerkin()),
    (rkhs.Squared(), rkhs.solvers.Newton()),
    (rkhs.Squared(), rkhs.solvers.GreedyCoordinate()),
    (rkhs.Logistic(), rkhs.solvers.Newton()),
    (rkhs.Logistic(), rkhs.solvers.Galerkin()),
    (rkhs.Logistic(), rkhs.solvers.SchurComplement()),
    (rkhs.SquaredHinge(), rkhs.solvers.Galerkin()),
    (rkhs.SquaredHinge(), rkhs.solvers.NonlinearCG()),
    (rkhs.SquaredHinge(), rkhs.solvers.LBFGS()),
    (rkhs.SquaredHinge(), rkhs.solvers.SchurComplement()),
    (rkhs.Hinge(), rkhs.solvers.Galerkin()),
    (rkhs.Hinge(), rkhs.solvers.BoxDual()),
    (rkhs.Hinge(), rkhs.solvers.ProximalNewton()),
    (rkhs.Hinge(), rkhs.solvers.SchurComplement()),
    (rkhs.Hinge(), rkhs.solvers.NonlinearCG()),
    (rkhs.losses.Absolute(), "auto"),
    (rkhs.Logistic(), "auto"),
]


@pytest.fixture
def far(monkeypatch):
    """Tensors as those of a GPU, if they are not."""
    if torch.cuda.is_available():
        return

    def refuse(self, dtype=None, copy=None):
        raise TypeError("a tensor is not for NumPy without to_numpy")

    def placed(make):
        def call(*args, device=None, **options):
            assert device is not None or "like" in options, "on which device?"
            return make(*args, device=device, **options)

        return call

    asarray = torch.asarray

    def moved(values, *, device=None, **options):
        assert device is not None or isinstance(values, torch.Tensor), "on which device?"
        return asarray(values, device=device, **options)

    monkeypatch.setattr(torch.Tensor, "__array__", refuse)
    monkeypatch.setattr(torch, "asarray", moved)
    for name in MADE:
        monkeypatch.setattr(torch, name, placed(getattr(torch, name)))


def problem(loss, kernel=None, **where):
    labels = rkhs.Term(rkhs.Evaluation(X[:20]), loss, Y[:20], 5.0)
    flat = rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.1)
    return rkhs.Problem(kernel or rkhs.Gaussian(2.0), [labels, flat], rkhs.Constant(), **where)


def near(found, expected, tol=2e-3):
    np.testing.assert_allclose(found.numpy(force=True), expected, atol=tol * np.abs(expected).max())


@pytest.mark.parametrize(("loss", "solver"), SOLVERS, ids=repr)
def test_every_solver_leaves_numbers_where_they_are(far, loss, solver):
    tol = 1e-3 if isinstance(solver, rkhs.solvers.LBFGS) else 1e-6  # which is slow
    found = problem(loss, **FAR).solve(solver, tol=tol)
    assert found.status == "converged"
    near(found.function(PROBES), problem(loss).solve(solver, tol=tol).function(Z), 2 * tol**0.5)
    assert found.function.compress(1e-9).functionals.size <= X.size + 20


@pytest.mark.parametrize(
    "kernel",
    [rkhs.Matern(2.5, 2.0), rkhs.kernels.Polyharmonic(3), rkhs.Gaussian(1.0) * rkhs.kernels.Linear()],
    ids=repr,
)
def test_every_kernel_leaves_numbers_where_they_are(far, kernel):
    found = problem(rkhs.SquaredHinge(), kernel, **FAR).solve(tol=1e-6)
    near(found.function(PROBES), problem(rkhs.SquaredHinge(), kernel).solve(tol=1e-6).function(Z))


@pytest.mark.parametrize("loss", [rkhs.SquaredHinge(), rkhs.Hinge(), rkhs.Logistic()], ids=repr)
def test_a_grid_leaves_numbers_where_they_are(far, loss):
    cells = {"weights": {0: [1, 10], 1: [0.1, 1]}, "held_out": {0: [[0, 1, 2], [3, 4, 5]]}, "tol": 1e-6}
    found, expected = (problem(loss, **where).grid(**cells) for where in (FAR, {}))
    for one, other in zip(found.flat, expected.flat, strict=True):
        near(one.function(PROBES), other.function(Z))


@pytest.mark.parametrize("name", MACHINES)
def test_machines_leave_numbers_where_they_are(far, name):
    classes = np.argmax(X, axis=1)
    classes[20:] = -1
    found, expected = (MACHINES[name](tol=1e-6, **where).fit(X, classes) for where in (THERE, {}))
    for values in (found.decision_function(Z), found.predict_proba(Z)):
        assert isinstance(values, np.ndarray)
    np.testing.assert_allclose(found.decision_function(Z), expected.decision_function(Z), atol=5e-3)


SEARCHES = {
    "auto": {},
    "squared": {"invariance": "gradient", "loss": "squared"},
    "hinge": {"invariance": "gradient", "loss": "hinge", "scales": [1.0]},
    "logistic": {"invariance": "gradient", "loss": "logistic"},
    "landmarks": {"invariance": "gradient", "loss": "squared", "approximation": rkhs.Landmarks(20)},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHES)
def test_searches_choose_the_same_there(far, name):
    classes = np.argmax(X, axis=1)
    classes[30:] = -1
    options = SEARCHES[name] | {"Cs": [1.0, 10.0], "tol": 1e-8}
    options |= {"nus": [0.0]} if name == "auto" else {"nus": [0.0, 0.1], "cv": 3}
    found, expected = (rkhs.InvariantClassifierCV(**options, **where).fit(X, classes) for where in (THERE, {}))
    assert str(found.best_params_) == str(expected.best_params_)  # distances in graphs are rounded differently
    np.testing.assert_allclose(found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"])
    np.testing.assert_allclose(found.decision_function(Z), expected.decision_function(Z), atol=5e-3)


def test_a_search_of_numbers_chooses_the_same_there(far):
    options = {"invariance": "gradient", "Cs": [1.0, 10.0], "nus": [0.0, 0.1], "cv": 3, "tol": 1e-8}
    values = np.sin(X[:, 0])
    found, expected = (rkhs.InvariantRegressorCV(**options, **where).fit(X, values) for where in (THERE, {}))
    assert found.best_params_ == expected.best_params_
    np.testing.assert_allclose(found.predict(Z), expected.predict(Z), atol=5e-3)
