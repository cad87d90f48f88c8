"""Threads that fit and predict together find what one finds alone."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_moons

import rkhs
from estimators.models import values
from rkhs._core.backend import precision

X, Y = make_moons(60, noise=0.25, random_state=0)
PLACES = np.random.default_rng(0).uniform(-1, 2, size=(30, 2))
TARGET, FEW = np.sin(X[:, 0]) + X[:, 1], np.where(np.arange(60) % 3, Y, -1)
SPAN, TIGHT = rkhs.Landmarks(20), {"scale": 0.5, "tol": 1e-12}
FITS = {
    "hinge": (rkhs.InvariantClassifier(nu=0.0, invariance="gradient", solver=rkhs.solvers.LibSVM(), **TIGHT), Y),
    "logistic": (rkhs.InvariantClassifier(loss="logistic", **TIGHT), Y),
    "three": (rkhs.InvariantClassifier(loss="squared_hinge", **TIGHT), Y + (X[:, 0] > 1)),
    "squared": (rkhs.InvariantRegressor(**TIGHT), TARGET),
    "iterating": (rkhs.InvariantRegressor(solver=rkhs.solvers.NonlinearCG(), **TIGHT), TARGET),
    "graph": (rkhs.InvariantClassifier(loss="squared_hinge", invariance="graph", C=100.0, nu=1e3, **TIGHT), FEW),
    "plate": (rkhs.geometry.ThinPlateRegressor(tol=1e-12), TARGET),
    "landmarks": (rkhs.InvariantRegressor(approximation=SPAN, **TIGHT), TARGET),
    "waves": (rkhs.InvariantClassifier(loss="squared", approximation=rkhs.FourierFeatures(20), **TIGHT), Y),
    "knowledge": (rkhs.InvariantClassifierCV(tol=1e-12), FEW),
    "search": (
        rkhs.InvariantClassifierCV(invariance="gradient", Cs=[1, 10], nus=[0.1], scales=0.5, cv=2, tol=1e-12),
        Y,
    ),
}


def said(name):
    """What a new model of a name predicts, and its probabilities or deviations, which are computed when asked for."""
    model = clone(FITS[name][0]).fit(X, FITS[name][1])
    found = [values(model, PLACES)]
    if hasattr(model, "predict_proba"):
        found.append(model.predict_proba(PLACES))
    if isinstance(model, rkhs.InvariantRegressor):
        found.append(model.predict(PLACES, return_std=True)[1])
    return found


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # filters are those of all threads
def test_threads_find_what_one_finds_alone():
    alone, names = {name: said(name) for name in FITS}, list(np.random.default_rng(0).permutation(3 * list(FITS)))
    with ThreadPoolExecutor(8) as pool:
        for name, found in zip(names, pool.map(said, names), strict=True):
            for one, other in zip(found, alone[name], strict=True):
                np.testing.assert_allclose(one, other, atol=1e-6, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["logistic", "squared", "landmarks"])
def test_a_model_that_is_fitted_again_says_what_it_learned_before_or_after(name):
    (shared, y), done = FITS[name], threading.Event()
    both = [values(clone(shared).fit(X[rows], y[rows]), PLACES) for rows in (slice(0, 40), slice(20, 60))]
    model = clone(shared).fit(X[:40], y[:40])

    def fit_again():
        for k in range(10):
            rows = slice(20, 60) if k % 2 else slice(0, 40)
            model.fit(X[rows], y[rows])
        done.set()

    with ThreadPoolExecutor(4) as pool:
        fitting = pool.submit(fit_again)
        while not done.is_set() and not fitting.done():
            for found in pool.map(lambda _: values(model, PLACES), range(6)):
                assert any(np.allclose(found, known, rtol=0, atol=1e-6) for known in both)
        fitting.result()


def test_the_setting_of_tensor_cores_is_found_as_it_was(monkeypatch):
    """PyTorch has one for all threads: two that change it must not leave it changed."""
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(precision, "_on_gpu", lambda A: True)
    settings = torch.backends.cuda.matmul
    name = "fp32_precision" if hasattr(settings, "fp32_precision") else "allow_tf32"
    before, inside, first_done = getattr(settings, name), threading.Event(), threading.Event()

    def first():
        with precision._tensor_cores(None):
            inside.set()
            first_done.wait(0.2)  # the other one comes in the meantime
        first_done.set()

    def second():
        inside.wait()
        with precision._tensor_cores(None):
            first_done.wait(0.5)

    threads = [threading.Thread(target=work) for work in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert getattr(settings, name) == before


def test_libsvm_at_its_limit_leaves_the_filters_of_warnings_alone(monkeypatch):
    """Its warning is not let out, and no filter is set for that: filters are those of all threads."""
    import warnings

    from rkhs.solvers import _libsvm

    monkeypatch.setattr(_libsvm, "ITERATIONS", 1)
    seen, simplefilter = [], warnings.simplefilter
    monkeypatch.setattr(
        warnings, "simplefilter", lambda *args, **more: seen.append(args) or simplefilter(*args, **more)
    )
    X = np.random.default_rng(0).normal(size=(40, 2))
    labels = rkhs.Term(rkhs.Evaluation(X), rkhs.Hinge(), np.sign(X[:, 0] * X[:, 1]), 100.0)
    solution = rkhs.Problem(rkhs.Gaussian(0.5), [labels], rkhs.Constant()).solve(rkhs.solvers.LibSVM(), tol=1e-6)
    assert solution.status == "converged"
    assert not [args for args in seen if args[0] == "ignore"]
