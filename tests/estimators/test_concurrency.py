"""Threads that fit and predict together find what one finds alone."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone

import rkhs
from estimators.models import values
from estimators.test_equal_problems import MODELS, NEW, X, original
from rkhs._core.backend import precision

NAMES = [
    "two classes",
    "three classes",
    "values",
    "values, absolute loss",
    "landmarks",
    "thin plate",
    "graph",
    "counts",
]
NAMES += ["two classes, some unlabeled, search", "two classes, folds"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # filters are those of all threads
def test_threads_find_what_one_finds_alone():
    names = list(np.random.default_rng(0).permutation(3 * NAMES))
    with ThreadPoolExecutor(8) as pool:
        for name, found in zip(names, pool.map(original.__wrapped__, names), strict=True):
            for one, other in zip(found, original(name), strict=True):
                np.testing.assert_allclose(one, other, atol=1e-6, rtol=0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["three classes", "values", "landmarks"])
def test_a_model_that_is_fitted_again_says_what_it_learned_before_or_after(name):
    (shared, y), done = MODELS[name], threading.Event()
    both = [values(clone(shared).fit(X[rows], y[rows]), NEW) for rows in (slice(0, 40), slice(20, 60))]
    model = clone(shared).fit(X[:40], y[:40])

    def fit_again():
        for k in range(10):
            rows = slice(20, 60) if k % 2 else slice(0, 40)
            model.fit(X[rows], y[rows])
        done.set()

    with ThreadPoolExecutor(4) as pool:
        fitting = pool.submit(fit_again)
        while not done.is_set() and not fitting.done():
            for found in pool.map(lambda _: values(model, NEW), range(6)):
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
