"""Products of another precision: as accurate as they say, and corrected where they are not enough."""

import numpy as np
import pytest
import torch

import rkhs
from rkhs._core.backend import precision as precisions
from rkhs._core.gram import operator

RNG = np.random.default_rng(3)
X, Y = RNG.standard_normal((40, 6)), RNG.standard_normal((25, 6))
ACCURACY = {"float64": 1e-15, "float32": 2.0**-23, "tf32x3": 2.0**-21, "tf32": 2.0**-11}
KERNELS = (rkhs.Gaussian(1.5), rkhs.Matern(2.5, 1.5), rkhs.kernels.Polynomial(3), rkhs.kernels.Polyharmonic(3))


def families(points):
    return rkhs.stack([rkhs.Evaluation(points), rkhs.Gradient(points)])


@pytest.mark.parametrize("make", [np.asarray, torch.asarray], ids=["numpy", "torch"])
def test_numbers_are_cut_to_ten_bits(make):
    A = RNG.standard_normal((50, 3)).astype(np.float32)
    short = np.asarray(precisions.cut(make(A), precisions.TF32_CUT))
    assert short.dtype == np.float32
    assert np.all(short.view(np.int32) % 2**13 == 0)
    assert np.all(np.abs(short - A) <= 2.0**-11 * np.abs(A))


@pytest.mark.parametrize("make", [np.asarray, torch.asarray], ids=["numpy", "torch"])
def test_three_products_of_split_operands_are_one_of_float32(make):
    A, B = (RNG.standard_normal(shape).astype(np.float32) for shape in ((30, 200), (200, 20)))
    exact = A.astype(np.float64) @ B.astype(np.float64)
    errors = {}
    for name in ("float32", "tf32x3", "tf32"):
        products = precisions.products_in(name)
        found = products(products.operand(make(A)), products.operand(make(B)))
        errors[name] = np.max(np.abs(np.asarray(found) - exact)) / np.max(np.abs(exact))
    assert errors["tf32x3"] < 4 * errors["float32"] < errors["tf32"] / 100


@pytest.mark.parametrize("make", [np.asarray, torch.asarray], ids=["numpy", "torch"])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("precision", precisions.PRECISIONS)
def test_products_are_as_accurate_as_their_precision(precision, kernel, make):
    L, M = families(make(X)), families(make(Y))
    for G in (rkhs.gram(kernel, L, M, precision=precision), rkhs.gram(kernel, L, precision=precision)):
        v = make(RNG.standard_normal((G.shape[1], 2)))
        found, exact = np.asarray(G @ v), np.asarray(G.dense() @ v)
        assert found.dtype == np.float64
        size = np.asarray(abs(G.dense()) @ abs(v))  # what cancels is lost
        assert np.max(np.abs(found - exact) / size) < 30 * ACCURACY[precision]


def test_a_low_precision_really_is_one():
    G, v = (rkhs.gram(KERNELS[0], families(X), precision=p) for p in ("tf32", None)), RNG.standard_normal(280)
    low, high = (one @ v for one in G)
    assert np.max(np.abs(low - high)) > 1e-5 * np.max(np.abs(high))


def test_an_unknown_precision_is_refused():
    with pytest.raises(ValueError, match=r'precision must be None .* "tf32x3"'):
        rkhs.gram(KERNELS[0], families(X), precision="half")
    with pytest.raises(ValueError, match="precision must be"):
        rkhs.Problem(KERNELS[0], [rkhs.Term(families(X), rkhs.Squared())], precision="half")


class Full(Exception):
    """Stands in for torch.cuda.OutOfMemoryError, which no CPU raises."""


def test_a_full_device_gets_smaller_tiles(monkeypatch):
    """A device that takes tiles of a certain size only."""
    most, budgets = 2**22, []
    added = operator.JetProduct.add_to

    def on_small_device(self, out, v):
        budgets.append(self.budget)
        if self.budget > most:
            raise Full
        added(self, out, v)

    monkeypatch.setattr(operator, "out_of_memory", lambda: (Full,))
    monkeypatch.setattr(operator, "release_memory", lambda: None)
    monkeypatch.setattr(operator.JetProduct, "add_to", on_small_device)
    v = RNG.standard_normal(280)
    G = rkhs.gram(KERNELS[0], families(X), memory=2**25)
    np.testing.assert_allclose(G @ v, G.dense() @ v, rtol=0, atol=1e-12)
    assert budgets == [2**25, 2**23, 2**21]
    most = 0
    with pytest.raises(MemoryError, match="too little memory for 1 right-hand sides"):
        G @ v


def test_tiles_are_fused_only_where_they_are_laid_out_alike():
    one, other = torch.zeros(4, 6), torch.zeros(6, 4)
    assert precisions._alike(one, one)
    assert precisions._alike(other.T, other.T)
    assert not precisions._alike(one, other.T)
    assert not precisions._alike(one, one.double())
    assert not precisions._alike(one, torch.zeros(1, 1).expand(4, 6))
