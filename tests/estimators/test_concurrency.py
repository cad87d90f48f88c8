"""Threads that fit and predict together find what one finds alone."""

import threading

import numpy as np
import pytest

import concurrency
import rkhs
from rkhs._core.backend import precision


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # filters are those of all threads
def test_for_a_few_seconds():
    failures, _ = concurrency.campaign(1.0, least=8)
    assert not failures


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
