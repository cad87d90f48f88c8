"""The structured product is the dense matrix times v, for every kernel and family, in tiles of a few entries.

The dense matrix comes from `Kernel.pair`, which is itself tested against high-precision arithmetic; the
product from jets, or from tiles where a family has parts that are no functions of 1-jets.
"""

from itertools import product

import numpy as np
import pytest
import scipy.sparse

import rkhs
from registry import FAMILIES, KERNELS, like
from rkhs._core.gram.sensitivity import gradient_moments
from rkhs._core.limits import Limits, with_limits

torch = pytest.importorskip("torch")

SIZES = 13, 9  # points of X and of Y
WHOLE = np.random.default_rng(0).standard_normal((30, 4))
SEVERAL = {  # of points that are the same, equal, or others
    "jet of equal copies": (1, lambda X, Y: rkhs.stack([rkhs.Gradient(X), rkhs.Evaluation(X + 0.0)])),
    "jet and slopes elsewhere": (
        1,
        lambda X, Y: rkhs.stack([rkhs.Gradient(Y), rkhs.Evaluation(X), rkhs.Gradient(X)]),
    ),
    "sparse W @ jets": (
        1,
        lambda X, Y: _sparse(6, len(X) + 2 * len(Y)) @ rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(Y)]),
    ),
    "jet and Hessian": (
        2,
        lambda X, Y: rkhs.stack([rkhs.Gradient(X), rkhs.functionals.Hessian(Y), rkhs.Evaluation(X)]),
    ),
    "jet and LocalAverage": (
        1,
        lambda X, Y: rkhs.stack([rkhs.functionals.LocalAverage(Y, 0.3), rkhs.Gradient(X), rkhs.Evaluation(Y)]),
    ),
}
SEVERAL |= {name: (case.order, lambda X, Y, make=case.make: make(X)) for name, case in FAMILIES.items()}
BLURRED = ("Gaussian, scales", "Polynomial 3", "Polyharmonic 3")  # mixtures are sums of 200 kernels
CASES = [
    (name, family)
    for (name, case), (family, (order, _)) in product(KERNELS.items(), SEVERAL.items())
    if name not in ("Autodiff", "DivergenceFree, space") and order < case.make(2).smoothness(2)
    if "LocalAverage" not in family or name in BLURRED
]


def _sparse(rows, columns):
    return scipy.sparse.random_array((rows, columns), density=0.2, rng=np.random.default_rng(1), format="csr")


def _points():
    """X and Y, which have a point in common."""
    X, Y = (np.random.default_rng(size).normal(size=(size, 2)) for size in SIZES)
    Y[3] = X[5]
    return X, Y


def _assert_product(kernel, L, M=None, tolerance=1e-12):
    """G @ v is the dense G times v, for one and for several right-hand sides; returns the former."""
    G = rkhs.gram(kernel, L, M)
    with with_limits(tile_entries=Limits().tile_entries):  # a table of a few entries at a time takes long
        dense = G.dense()
    v = like(np.random.default_rng(2).normal(size=(G.shape[1], 3)), dense)
    found, expected, size = G @ v, dense @ v, float(abs(dense).max()) * G.shape[1]
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    assert type(found) is type(expected)
    assert float(abs(found - expected).max()) <= tolerance * size
    assert float(abs(G @ v[:, 0] - expected[:, 0]).max()) <= tolerance * size
    return found


@pytest.mark.every("family")
@pytest.mark.parametrize(("name", "family"), CASES)
def test_product_is_dense_times_v(name, family):
    """Also of two families, transposed, by PyTorch and in single precision."""
    kernel, (order, make), (X, Y) = KERNELS[name].make(2), SEVERAL[family], _points()
    others = [rkhs.Evaluation, rkhs.Gradient][: 1 + (kernel.smoothness(2) > 1)]
    with with_limits(tile_entries=60 if order < 2 and "Average" not in family else 1000):
        L = make(X, Y)
        found = _assert_product(kernel, L)
        for other in others:
            _assert_product(kernel, L, other(Y))
            v = np.cos(np.arange(L.size))
            there, back = rkhs.gram(kernel, L, other(Y)).T @ v, rkhs.gram(kernel, other(Y), L) @ v
            np.testing.assert_allclose(there, back, rtol=0, atol=1e-12 * np.abs(back).max())
        for dtype, tolerance in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
            tensors = make(*(torch.tensor(Z, dtype=dtype) for Z in (X, Y)))
            by_torch = _assert_product(kernel, tensors, tolerance=tolerance)
            scale = np.abs(rkhs.gram(kernel, L).dense()).max() * L.size
            np.testing.assert_allclose(by_torch, found, rtol=0, atol=10 * tolerance * scale)
        narrow = make(*(Z.astype(np.float32) for Z in (X, Y)))
        assert _assert_product(kernel, narrow, tolerance=1e-5).dtype == np.float32


def test_a_point_stays_one_point():
    L = rkhs.stack([rkhs.Evaluation(WHOLE), rkhs.Gradient(WHOLE)])
    some = L.take(np.concatenate([np.arange(3), 30 + np.arange(8), 30 + np.arange(40, 44)]))
    assert [part.atoms.points.shape[0] for part in some.parts] == [3, 3]
    apart = L.take(30 + np.arange(1, 6))
    assert apart.parts[0].atoms.points.shape[0] == 5


# Moments of gradients.


@pytest.mark.every
@pytest.mark.parametrize("name", [name for name in KERNELS if KERNELS[name].make(4).smoothness(4) > 2])
def test_moments_of_gradients_are_those_of_the_dense_matrix(name):
    """M'WM with a weight for each point, where there is a formula; near points have none."""
    G = rkhs.gram(KERNELS[name].make(4), 3.0 * rkhs.Gradient(WHOLE), 0.5 * rkhs.Evaluation(WHOLE[:7]), memory=2e4)
    weight = np.repeat(np.random.default_rng(0).uniform(1, 2, 30), 4)
    found, M = gradient_moments(G, weight), G.dense()
    if found is None:
        assert name not in ("Gaussian", "Polynomial 3", "Linear")
        return
    right = M.T @ (weight[:, None] * M)
    np.testing.assert_allclose(found, right, atol=1e-12 * np.abs(right).max())


@pytest.mark.parametrize(
    ("L", "M"),
    [
        (rkhs.functionals.Hessian(WHOLE[:2]), rkhs.Evaluation(WHOLE[:7])),
        (rkhs.Gradient(WHOLE), rkhs.Gradient(WHOLE[:3])),
        (rkhs.functionals.DirectionalDerivative(WHOLE, WHOLE), rkhs.Evaluation(WHOLE[:7])),
        (rkhs.stack([rkhs.Gradient(WHOLE), rkhs.Evaluation(WHOLE)]), rkhs.Evaluation(WHOLE[:7])),
    ],
)
def test_other_families_have_no_formula_for_moments(L, M):
    assert gradient_moments(rkhs.gram(rkhs.Gaussian(2.0), L, M), np.ones(L.size)) is None
    plain = rkhs.gram(rkhs.Gaussian(2.0), rkhs.Gradient(WHOLE), rkhs.Evaluation(WHOLE[:7]))
    assert gradient_moments(plain, np.arange(120.0)) is None  # weights that differ between the rows of a point
