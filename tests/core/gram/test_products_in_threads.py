"""Tiles that threads share out add up to the same product, in the same way every time."""

import threading
from contextlib import contextmanager

import numpy as np
import pytest

import rkhs
from rkhs._core.backend import memory as threads
from rkhs._core.gram import blocks, jets
from rkhs._core.limits import with_limits
from rkhs.extend import with_progress_callback

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((90, 4)), RNG.standard_normal((40, 4))
X[7] = X[8] + 1e-9  # near points, which have a way of their own
KERNELS = [
    rkhs.Gaussian(2.0),
    rkhs.Matern(2.5, 2.0),
    rkhs.kernels.Polynomial(3),
    rkhs.kernels.RationalQuadratic(1.5, 2.0),
]
FAMILIES = {
    "values": rkhs.Evaluation,
    "gradients": rkhs.Gradient,
    "both": lambda X: rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X)]),
    "several points": lambda X: rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X[:30] + 0.1)]),
    "directions": lambda X: rkhs.functionals.DirectionalDerivative(X, np.stack([np.roll(X, 1, axis=0), X], axis=1)),
}


@pytest.fixture
def three_hands():
    with with_limits(threads=3, shared_pairs=8):
        yield


@pytest.fixture
def small_tiles():
    """Three hands and many tiles."""
    with with_limits(threads=3, tile_entries=256):
        yield


@contextmanager
def one_hand():
    """A block in which no thread is started."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threads, "ThreadPoolExecutor", lambda *_: pytest.fail("threads"))
        yield


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_product_is_the_same(three_hands, kernel, family, dtype):
    L, M = FAMILIES[family](X.astype(dtype)), FAMILIES[family](Y.astype(dtype))
    tolerance = 100 * np.finfo(dtype).eps
    for G in (rkhs.gram(kernel, L), rkhs.gram(kernel, L, M), rkhs.gram(kernel, L, rkhs.Evaluation(Y.astype(dtype)))):
        v = RNG.standard_normal((G.shape[1], 2)).astype(dtype)
        expected = G.dense().astype(float) @ v
        found = G @ v
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, atol=tolerance * np.abs(G.dense()).max() * np.abs(v).sum())
        np.testing.assert_array_equal(G @ v, found)  # to the last bit
        np.testing.assert_allclose(G @ v[:, 0], found[:, 0], rtol=10 * tolerance, atol=tolerance * np.abs(found).max())


def test_work_is_really_shared_out(three_hands, monkeypatch):
    names, together = set(), threading.Barrier(3, timeout=600)
    own = jets.JetProduct._add_tile

    def watched(self, *arguments):
        if threading.current_thread().name not in names:
            names.add(threading.current_thread().name)
            together.wait()
        return own(self, *arguments)

    monkeypatch.setattr(jets.JetProduct, "_add_tile", watched)
    rkhs.gram(rkhs.Gaussian(), rkhs.Gradient(X)) @ np.ones(360)
    assert len(names) == 3
    assert threading.current_thread().name in names  # it reports progress


@pytest.mark.parametrize("hands", [1, 3])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_matrix_is_the_same_and_tells_how_far_it_is(family, hands, monkeypatch):
    G = rkhs.gram(rkhs.Matern(2.5, 2.0), FAMILIES[family](X))
    expected, seen, own = G.dense(), [], blocks.in_threads
    monkeypatch.setattr(blocks, "in_threads", lambda work, shares: (seen.append(len(shares)), own(work, shares)))
    shares = []
    with with_limits(threads=hands, tile_entries=256), with_progress_callback(shares.append):
        found = G.dense()
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(found, found.T)
    assert seen == [hands]
    assert shares == sorted(shares)
    assert len(shares) >= 21 / hands  # the calling thread alone reports, and computes its share of the tiles
    assert 0 <= shares[0] < shares[-1] <= 1


def test_tiles_that_share_entries_are_added_by_one_hand():
    """A sum of functionals has several parts in the same rows, and an average contributes to a row many times."""
    L = rkhs.Evaluation(X) + 0.5 * rkhs.Evaluation(X[::-1])
    averages = np.full((5, 90), 1 / 90) @ rkhs.Evaluation(X)
    expected = [rkhs.gram(rkhs.Gaussian(), family).dense() for family in (L, averages)]
    for family, dense in zip((L, averages), expected, strict=True):
        with with_limits(threads=3, tile_entries=256), one_hand():
            found = rkhs.gram(rkhs.Gaussian(), family).dense()
        np.testing.assert_allclose(found, dense, rtol=1e-13, atol=1e-13)


def test_functions_of_the_user_are_called_by_one_hand(small_tiles):
    names = set()

    def common(a, b):
        names.add(threading.current_thread().name)
        return float(len(a & b))

    kernel = rkhs.kernels.ObjectKernel(common, [{k % 7, k % 5} for k in range(40)])
    rkhs.gram(kernel, rkhs.Evaluation(kernel.points)).dense()
    assert names == {threading.current_thread().name}


def test_a_matrix_that_was_canceled_ends_all_threads(small_tiles):
    def cancel(fraction):
        if fraction > 0.1:
            raise TimeoutError

    with pytest.raises(TimeoutError), with_progress_callback(cancel):
        rkhs.gram(rkhs.Gaussian(), rkhs.Evaluation(X)).dense()
    assert threads._BEFORE == []


def test_one_hand_where_memory_is_short_or_there_is_little_work():
    with with_limits(threads=16), one_hand():
        rkhs.gram(rkhs.Gaussian(), rkhs.Gradient(X)) @ np.ones(360)  # few pairs
    with with_limits(threads=16, shared_pairs=8), one_hand():  # jets alone are 2880 bytes
        rkhs.gram(rkhs.Gaussian(), rkhs.Gradient(X), memory=2000.0) @ np.ones(360)


def test_an_error_in_a_thread_is_raised_and_ends_the_others():
    seen = []

    def work(item):
        if item == 3:
            raise KeyboardInterrupt
        seen.append(item)

    with pytest.raises(KeyboardInterrupt):
        threads.in_threads(work, [[3, 4, 5], []])
    assert seen == []
    assert threads._BEFORE == []


def test_blas_gets_its_threads_back():
    from threadpoolctl import threadpool_info

    def counts():
        return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

    before, inside = counts(), []
    array = np.zeros(1)
    known = threads.cores(array)

    def work(item):
        inside.append(counts())
        if item == 0:  # as where a product is asked for within another thread's
            threads.in_threads(lambda _: inside.append(threads.cores(array)), [[1]])

    threads.in_threads(work, [[0], [1]])
    assert counts() == before
    assert all(set(found) == {1} for found in inside if isinstance(found, list))
    assert [found for found in inside if isinstance(found, int)] == [known]
    assert threads.cores(object()) == 1
