"""The structured product is the dense matrix times v, for every kernel and family that takes the fast way.

The dense matrix comes from `Kernel.pair`, which is itself tested against high-precision arithmetic; the
product from jets, or from tiles where a family has parts that are no functions of 1-jets.
"""

import numpy as np
import pytest
import scipy.sparse

import rkhs
from rkhs._core.gram.sensitivity import gradient_moments
from rkhs._core.limits import Limits, with_limits

torch = pytest.importorskip("torch")

T, S, N = 13, 9, 4  # points of X and of Y, features
SCALES = (1.5, 2.0, 2.5, 3.0)
WHOLE = np.random.default_rng(0).standard_normal((30, 4))
MATRIX = np.random.default_rng(5).normal(size=(3, N)) / 2

KERNELS = {
    "Gaussian": rkhs.Gaussian(2.0),
    "Gaussian, scales": rkhs.Gaussian(SCALES),
    "Matern 3/2": rkhs.Matern(1.5, 2.0),
    "Matern 5/2": rkhs.Matern(2.5, 2.0),
    "Matern 7/2": rkhs.Matern(3.5, SCALES),
    "RationalQuadratic": rkhs.kernels.RationalQuadratic(1.5, 2.0),
    "Polynomial": rkhs.kernels.Polynomial(3),
    "Linear": rkhs.kernels.Linear(),
    "Polyharmonic 2.5": rkhs.kernels.Polyharmonic(2.5),
    "Polyharmonic 3": rkhs.kernels.Polyharmonic(3),
    "Polyharmonic 5": rkhs.kernels.Polyharmonic(5),
    "ThinPlate": rkhs.kernels.ThinPlate(4),  # r^4 log r
    "Sum": rkhs.Gaussian(2.0) + 0.5 * rkhs.kernels.Linear() + rkhs.Matern(1.5, 3.0),
    "Multiple": 2.5 * rkhs.Matern(2.5, 2.0),
    "LinearTransform": rkhs.Matern(1.5) @ MATRIX,
    "Pullback of a sum": (rkhs.Gaussian() + 0.25 * rkhs.kernels.Polynomial(2)) @ MATRIX,
}
TWICE = [name for name, kernel in KERNELS.items() if kernel.smoothness(N) > 2]  # bound second derivatives


def _as(values, X):
    """The values as an array of the kind of X."""
    return np.asarray(values, X.dtype) if isinstance(X, np.ndarray) else X.new_tensor(values)


def _normal(X, *shape):
    return _as(np.random.default_rng(len(shape)).normal(size=shape), X)


def _sparse(rows, columns):
    return scipy.sparse.random_array((rows, columns), density=0.2, rng=np.random.default_rng(1), format="csr")


def _edges(X):
    return np.stack([np.arange(len(X) - 1), np.arange(1, len(X))], axis=1)


JETS = {
    "Evaluation": lambda X, Y: rkhs.Evaluation(X),
    "Gradient": lambda X, Y: rkhs.Gradient(X),
    "jet": lambda X, Y: rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X)]),
    "jet of equal copies": lambda X, Y: rkhs.stack([rkhs.Gradient(X), rkhs.Evaluation(X + 0.0)]),
    "values and slopes elsewhere": lambda X, Y: rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(Y)]),
    "jet and slopes elsewhere": lambda X, Y: rkhs.stack([rkhs.Gradient(Y), rkhs.Evaluation(X), rkhs.Gradient(X)]),
    "DirectionalDerivative": lambda X, Y: rkhs.functionals.DirectionalDerivative(X, _normal(X, *X.shape)),
    "DirectionalDerivative, several": lambda X, Y: rkhs.functionals.DirectionalDerivative(X, _normal(X, len(X), 2, N)),
    "Derivative": lambda X, Y: rkhs.Derivative(X, axes=[1]),
    "Derivative, several": lambda X, Y: rkhs.Derivative(X, axes=[[2], [0]]),
    "W @ Gradient": lambda X, Y: _normal(X, 5, X.shape[0] * N) @ rkhs.Gradient(X),
    "sparse W @ jets": lambda X, Y: (
        _sparse(6, len(X) + N * len(Y)) @ rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(Y)])
    ),
    "Difference": lambda X, Y: rkhs.Difference(X[: len(Y)], Y[: len(X)]),
    "difference of families": lambda X, Y: rkhs.Evaluation(X) - 0.5 * rkhs.Derivative(X, axes=[3]),
    "GraphDifference": lambda X, Y: rkhs.functionals.GraphDifference(X, _edges(X)),
}
MIXED = {  # with parts that are no functions of 1-jets
    "Laplacian": lambda X, Y: rkhs.functionals.Laplacian(X),
    "jet and Hessian": lambda X, Y: rkhs.stack([rkhs.Gradient(X), rkhs.functionals.Hessian(Y), rkhs.Evaluation(X)]),
    "Laplacian and slope": lambda X, Y: rkhs.functionals.Laplacian(X) + 2.0 * rkhs.Derivative(X, axes=[0]),
}
BLURRED = {
    "LocalDeviation": lambda X, Y: rkhs.functionals.LocalDeviation(X, width=0.4),
    "jet and LocalAverage": lambda X, Y: rkhs.stack(
        [rkhs.functionals.LocalAverage(Y, 0.3), rkhs.Gradient(X), rkhs.Evaluation(Y)]
    ),
}


@pytest.fixture
def several_tiles():
    """Tiles of at most 60 entries, for products of jets."""
    with with_limits(tile_entries=60):
        yield


@pytest.fixture
def several_larger_tiles():
    """Tiles of at most 1000 entries, for all others."""
    with with_limits(tile_entries=1000):
        yield


def _points():
    """X and Y, which have a point in common."""
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(T, N)), rng.normal(size=(S, N))
    Y[3] = X[5]
    return X, Y


def _assert_product(kernel, L, M=None, tolerance=1e-12, **options):
    """G @ v is the dense G times v, for one and for several right-hand sides; returns the former."""
    G = rkhs.gram(kernel, L, M, **options)
    with with_limits(tile_entries=Limits().tile_entries):  # tiles of a few entries are for products only
        dense = G.dense()
    v = _normal(dense, G.shape[1], 3)
    found, expected = G @ v, dense @ v
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    assert type(found) is type(expected)
    assert float(abs(found - expected).max()) <= tolerance * float(abs(expected).max())
    assert float(abs(G @ v[:, 0] - expected[:, 0]).max()) <= tolerance * float(abs(expected[:, 0]).max())
    return found


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("family", JETS.values(), ids=JETS)
def test_product_is_dense_times_v(kernel, family, several_tiles):
    X, Y = _points()
    _assert_product(kernel, family(X, Y))


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("right", ["Evaluation", "Gradient", "jet and slopes elsewhere", "W @ Gradient"])
@pytest.mark.parametrize("left", ["Evaluation", "Gradient", "jet", "DirectionalDerivative, several"])
def test_product_of_two_families(kernel, left, right, several_tiles):
    X, Y = _points()
    L, M = JETS[left](X, Y), JETS[right](Y, X)
    _assert_product(kernel, L, M)
    v = _normal(X, L.size)
    np.testing.assert_allclose(rkhs.gram(kernel, L, M).T @ v, rkhs.gram(kernel, M, L) @ v, rtol=1e-14)


@pytest.mark.parametrize("name", TWICE)
@pytest.mark.parametrize("family", MIXED.values(), ids=MIXED)
def test_second_order_parts_go_by_tiles(name, family, several_larger_tiles):
    X, Y = _points()
    _assert_product(KERNELS[name], family(X, Y))
    _assert_product(KERNELS[name], family(X, Y), rkhs.Gradient(Y))


@pytest.mark.parametrize("name", ["Gaussian", "Gaussian, scales", "Matern 5/2", "Polynomial", "Polyharmonic 3", "Sum"])
@pytest.mark.parametrize("family", BLURRED.values(), ids=BLURRED)
def test_local_averages_go_by_tiles(name, family, several_larger_tiles):
    X, Y = _points()
    _assert_product(KERNELS[name], family(X, Y))


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
@pytest.mark.parametrize("name", ["jet and slopes elsewhere", "DirectionalDerivative, several", "sparse W @ jets"])
def test_torch_and_float32_agree_with_float64(kernel, name, several_tiles):
    X, Y = _points()
    family = JETS[name]
    expected = _assert_product(kernel, family(X, Y))
    tensors = family(torch.from_numpy(X), torch.from_numpy(Y))
    np.testing.assert_allclose(_assert_product(kernel, tensors), expected, rtol=0, atol=1e-12 * abs(expected).max())
    for narrow in (np.float32, torch.float32):
        x, y = (torch.from_numpy(Z).float() if narrow is torch.float32 else Z.astype(narrow) for Z in (X, Y))
        found = _assert_product(kernel, family(x, y), tolerance=1e-5)
        assert found.dtype == narrow
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * abs(expected).max())


def test_a_point_stays_one_point():
    L = rkhs.stack([rkhs.Evaluation(WHOLE), rkhs.Gradient(WHOLE)])
    some = L.take(np.concatenate([np.arange(3), 30 + np.arange(8), 30 + np.arange(40, 44)]))
    assert [part.atoms.points.shape[0] for part in some.parts] == [3, 3]
    apart = L.take(30 + np.arange(1, 6))
    assert apart.parts[0].atoms.points.shape[0] == 5


# Moments of gradients.


@pytest.mark.parametrize("name", TWICE)
def test_moments_of_gradients_are_those_of_the_dense_matrix(name):
    """M'WM with a weight for each point, where there is a formula; near points have none."""
    G = rkhs.gram(KERNELS[name], 3.0 * rkhs.Gradient(WHOLE), 0.5 * rkhs.Evaluation(WHOLE[:7]), memory=2e4)
    weight = np.repeat(np.random.default_rng(0).uniform(1, 2, 30), 4)
    found, M = gradient_moments(G, weight), G.dense()
    if found is None:
        assert not name.startswith(("Gaussian", "Polynomial", "Linear"))
        return
    right = M.T @ (weight[:, None] * M)
    np.testing.assert_allclose(found, right, atol=1e-12 * np.abs(right).max())


def test_other_families_have_no_formula_for_moments():
    weight = np.ones(30 * 4)
    for L, M in (
        (rkhs.functionals.Hessian(WHOLE[:2]), rkhs.Evaluation(WHOLE[:7])),
        (rkhs.Gradient(WHOLE), rkhs.Gradient(WHOLE[:3])),
        (rkhs.functionals.DirectionalDerivative(WHOLE, WHOLE), rkhs.Evaluation(WHOLE[:7])),
        (rkhs.stack([rkhs.Gradient(WHOLE), rkhs.Evaluation(WHOLE)]), rkhs.Evaluation(WHOLE[:7])),
    ):
        assert gradient_moments(rkhs.gram(rkhs.Gaussian(2.0), L, M), np.ones(L.size)) is None
    uneven = rkhs.gram(rkhs.Gaussian(2.0), rkhs.Gradient(WHOLE), rkhs.Evaluation(WHOLE[:7]))
    assert gradient_moments(uneven, weight) is not None
    assert gradient_moments(uneven, np.arange(120.0)) is None
