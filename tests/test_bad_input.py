"""Bad input: a clear error that names the remedy, or the right answer; and no input is ever changed."""

import re

import numpy as np
import pytest
import scipy.sparse
import torch

import rkhs
from refusals import refused
from rkhs.exceptions import NotBoundedError
from rkhs.functionals import Average, DirectionalDerivative, GraphDifference, LocalAverage, LocalDeviation
from rkhs.results import Function

rng = np.random.default_rng(0)
X = np.round(8 * rng.standard_normal((6, 2))) / 8  # exact in float16
Y = np.round(8 * rng.standard_normal((4, 2))) / 8
K = rkhs.Gaussian(1.5)
KERNELS = [
    K,
    rkhs.Matern(2.5),
    rkhs.kernels.Polynomial(2),
    rkhs.kernels.Polyharmonic(3),
    K + rkhs.kernels.Linear(),
    K * rkhs.kernels.Linear(),
]

FAMILIES = {
    "Evaluation": rkhs.Evaluation,
    "Gradient": rkhs.Gradient,
    "Hessian": rkhs.functionals.Hessian,
    "Laplacian": rkhs.functionals.Laplacian,
    "Derivative": lambda X: rkhs.Derivative(X, axes=[0]),
    "DirectionalDerivative": lambda X: DirectionalDerivative(X, X),
    "LocalAverage": lambda X: LocalAverage(X, 0.5),
    "LocalDeviation": lambda X: LocalDeviation(X, 0.5),
    "Difference": lambda X: rkhs.Difference(X, X),
    "GraphDifference": lambda X: GraphDifference(X, [[0, 1]]),
    "kernel": lambda X: K(X),
    "kernel, second argument": lambda X: K(np.zeros((3, 2)), X),
    "median_scale": rkhs.kernels.median_scale,
    "Function": lambda X: Function(K, rkhs.Evaluation(np.zeros((1, 2))), [1.0])(X),
}
everywhere = pytest.mark.parametrize("take", FAMILIES.values(), ids=FAMILIES)


# Points that are refused.


def with_entry(value):
    points = X.copy()
    points[3, 1] = value
    return points


OF_OBJECTS = np.array([["a", 1.0], [2.0, 3.0]], dtype=object)
REFUSED = [
    (ValueError, r"contains NaN or infinity \(first at index \(3, 1\)\): impute or drop",
     [with_entry(np.nan), with_entry(np.inf), with_entry(-np.inf)]),
    (ValueError, "contains NaN or infinity", [with_entry(np.nan).astype(object)]),
    (ValueError, r"must have shape \(points, features\).*reshape\(-1, 1\)", [X[0], X[None], np.float64(3.0)]),
    (ValueError, "6 points but no features", [np.zeros((6, 0))]),
    (TypeError, "does not consist of numbers: encode",
     [[["a", "b"]], np.full((3, 2), "1.0"), X.astype("datetime64[s]"), OF_OBJECTS]),
    (TypeError, "complex; pass real numbers", [X + 0j, torch.tensor(X + 0j)]),
    (ValueError, "masked entries: impute or drop", [np.ma.masked_array(X, X > 1)]),
]  # fmt: skip


@pytest.mark.every
@everywhere
@pytest.mark.parametrize(("error", "sentence", "bad"), REFUSED, ids=[sentence for _, sentence, _ in REFUSED])
def test_points_that_are_refused(take, error, sentence, bad):
    for points in bad:
        with pytest.raises(error, match=sentence):
            take(points)


SPARSE = ("Evaluation", "DirectionalDerivative", "Difference", "GraphDifference", "kernel", "median_scale")


@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in SPARSE])
def test_sparse_points(name):
    dense, mixed = (
        r"sparse matrix; dense points are needed: pass \w+\.toarray\(\)",
        r"sparse.*pass scipy\.sparse\.csr_array",
    )
    with pytest.raises(TypeError, match=f"{dense}|{mixed}"):
        FAMILIES[name](scipy.sparse.csr_array(X))


@pytest.mark.every
@pytest.mark.parametrize("name", SPARSE)
def test_sparse_points_that_are_not_numbers(name):
    thin = scipy.sparse.csr_array(X)
    FAMILIES[name](thin)  # tests/core/gram/test_sparse.py compares the values
    thin.data[-1] = np.nan
    with pytest.raises(ValueError, match=r"contains NaN or infinity \(first at row 5\): impute or drop"):
        FAMILIES[name](thin)
    with pytest.raises(TypeError, match="complex"):
        FAMILIES[name](scipy.sparse.csr_array(X + 1j))
    with pytest.raises(ValueError, match=r"must have shape \(points, features\)"):
        FAMILIES[name](scipy.sparse.csr_array((6, 0)))


def test_masked_numbers_of_all_other_kinds():
    """Also a list of rows that are masked, of which NumPy would make an array without a word."""
    L, ones = rkhs.Evaluation(X), np.ones(6)
    hidden = np.ma.masked_array(ones, np.arange(6) == 2)
    for use in (
        lambda: rkhs.Evaluation([np.ma.masked_array(row, row > 0) for row in X]),
        lambda: rkhs.Term(L, rkhs.Squared(), target=hidden),
        lambda: rkhs.Term(L, rkhs.Squared(), weight=hidden),
        lambda: Function(K, L, hidden),
        lambda: L.__rmatmul__(hidden[None]),
        lambda: L * hidden,
        lambda: DirectionalDerivative(X, np.ma.masked_array(X, X > 0)),
        lambda: GraphDifference(X, np.ma.masked_array([[0, 1], [2, 3]], [[0, 0], [0, 1]])),
        lambda: GraphDifference(X, [[0, 1]], hidden[2:3]),
        lambda: Average(X, hidden),
        lambda: rkhs.Measurement(L, hidden, 0.1),
        lambda: rkhs.Measurement(L, ones, hidden),
        lambda: rkhs.InvariantRegressor(scale=1.0).fit(X, ones).function_(np.ma.masked_array(X, X > 0)),
    ):
        with pytest.raises(ValueError, match="has masked entries: impute or drop"):
            use()


# Points that give the right answer.


class Frame:
    """Like a data frame: all it has is __array__."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype=dtype)


def read_only(points):
    copy = points.copy()
    copy.flags.writeable = False
    return copy


with pytest.warns(PendingDeprecationWarning):
    MATRIX = np.matrix(X)  # multiplies where arrays do not
SAME = {
    "matrix": MATRIX,
    "list": X.tolist(),
    "data frame": Frame(X),
    "objects": X.astype(object),
    "Fortran order": np.asfortranarray(X),
    "not contiguous": np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3],
    "negative strides": X[::-1, ::-1].copy()[::-1, ::-1],
    "read-only": read_only(X),
    "other byte order": X.astype(">f8"),
    "long double": X.astype(np.longdouble),
    "masked array without masked entries": np.ma.masked_array(X, np.zeros(X.shape, bool)),
    "unaligned": np.frombuffer(b"x" + X.tobytes(), dtype=np.uint8)[1:].view(np.float64).reshape(X.shape),
}


def everything(kernel, points):
    """All public numbers on the points: dense, product, diagonal, block, L(f), L(p)."""
    L = rkhs.stack([rkhs.Evaluation(points), rkhs.Gradient(points)])
    G = rkhs.gram(kernel, L, rkhs.Evaluation(points))
    f = Function(kernel, rkhs.Evaluation(points), np.ones(len(X)))
    square = rkhs.gram(kernel, L)
    return [
        G.dense(),
        G @ np.ones(len(X)),
        square.diagonal(),
        square.block([0, 3], slice(None)),
        L(f),
        L(rkhs.Polynomials(2)),
    ]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("points", SAME.values(), ids=SAME)
def test_other_arrays_of_the_same_numbers(kernel, points):
    for found, expected in zip(everything(kernel, points), everything(kernel, X), strict=True):
        assert type(found) is np.ndarray
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13 * np.abs(expected).max())


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16, bool])
def test_integers_and_booleans_become_float64(dtype):
    points = (np.abs(X) > 1).astype(dtype)
    np.testing.assert_array_equal(K(points), K(points.astype(np.float64)))
    assert rkhs.Gradient(points).X.dtype == np.float64


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_small_floats_are_computed_in_single_precision(dtype):
    for found, expected in zip(everything(K, X.astype(dtype)), everything(K, X), strict=True):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("dtype", "computed"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.int32, torch.float64),
        (torch.bool, torch.float64),
    ],
)
def test_tensors_of_other_types(dtype, computed):
    points = torch.tensor(np.abs(X) > 1).to(dtype)
    assert K(points).dtype == computed
    np.testing.assert_allclose(K(points).numpy(), K(points.double()).numpy(), rtol=1e-6)


def test_gradients_of_tensors_are_not_followed():
    points = torch.tensor(X, requires_grad=True)
    for found, expected in zip(everything(K, points), everything(K, X), strict=True):
        assert not found.requires_grad
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


# No points at all.


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize(
    "empty", [np.zeros((0, 2)), torch.zeros((0, 2), dtype=torch.float64)], ids=["NumPy", "PyTorch"]
)
def test_no_points(kernel, empty):
    full = X if isinstance(empty, np.ndarray) else torch.tensor(X)
    assert kernel(empty).shape == (0, 0)
    assert kernel(full, empty).shape == (6, 0)
    for family in (rkhs.Evaluation, rkhs.Gradient, lambda X: LocalAverage(X, 0.5)):
        none = family(empty)
        assert rkhs.gram(kernel, none).dense().shape == (0, 0)
        assert rkhs.gram(kernel, none).diagonal().shape == (0,)
        assert tuple(none(rkhs.Polynomials(1)).shape) == (*none.shape, 3)
        G = rkhs.gram(kernel, rkhs.Evaluation(full), none)
        assert G.dense().shape == (6, none.size)
        np.testing.assert_array_equal(np.asarray(G @ np.zeros(none.size)), np.zeros(6))
        assert (G.T @ np.ones(6)).shape == (none.size,)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_no_points_beside_some(kernel):
    """An empty family adds nothing to a stack, wherever it stands."""
    none, some = rkhs.Evaluation(X[:0]), rkhs.Gradient(X)
    expected = rkhs.gram(kernel, some).dense()
    for stacked in (rkhs.stack([none, some]), rkhs.stack([some, none])):
        G = rkhs.gram(kernel, stacked)
        np.testing.assert_array_equal(G.dense(), expected)
        np.testing.assert_allclose(G @ np.ones(12), expected @ np.ones(12), atol=1e-11)


def test_no_right_hand_sides():
    assert (rkhs.gram(K, rkhs.Gradient(X)) @ np.zeros((12, 0))).shape == (12, 0)


def test_a_graph_without_edges():
    assert rkhs.gram(K, GraphDifference(X, [])).dense().shape == (0, 0)


# Things that do not go together.

PLANE, SPACE, TENSORS = rkhs.Evaluation(X), rkhs.Evaluation(np.zeros((6, 3))), rkhs.Evaluation(torch.tensor(X))
OF_FAMILIES = [lambda L, M: rkhs.gram(K, L, M), lambda L, M: rkhs.stack([L, M]), lambda L, M: L + M, lambda L, M: L - M]
OF_TWO = [K, rkhs.Difference, DirectionalDerivative, lambda A, B: rkhs.gram(K, rkhs.Evaluation(A)) @ B]
LIBRARIES_DIFFER = r"different libraries cannot be combined: numpy and torch.*from_numpy"
test_what_does_not_go_together = refused(
    *((lambda of=of: of(PLANE, SPACE), r"R\^2\) and .*R\^3\) .* of different dimension") for of in OF_FAMILIES),
    *((lambda of=of: of(PLANE, TENSORS), LIBRARIES_DIFFER, TypeError) for of in OF_FAMILIES),
    *((lambda of=of: of(PLANE.X, TENSORS.X), LIBRARIES_DIFFER, TypeError) for of in OF_TWO),
    (lambda: torch.ones((2, 6)) @ PLANE, "W is a tensor, but .* holds NumPy arrays", TypeError),
    (lambda: K(X, np.zeros((6, 3))), "X has 2 features but Y has 3"),
    (lambda: rkhs.Difference(X, Y), r"X has shape \(6, 2\) and Y has \(4, 2\): a Difference needs pairs"),
)


@pytest.mark.every
@pytest.mark.parametrize(
    ("kernel", "sentence"),
    [
        (rkhs.Gaussian((1.0, 2.0, 3.0)), "one scale per feature for 3 features, but the points have 2"),
        (rkhs.Matern(2.5, (1.0,)), "one scale per feature for 1 features, but the points have 2"),
        (
            rkhs.kernels.RationalQuadratic(1.0, (1.0, 2.0, 3.0)),
            "one scale per feature for 3 features, but the points have 2",
        ),
        (K @ np.ones((2, 3)), r"a \(2, 3\) matrix for 3 features, but the points have 2"),
        (rkhs.kernels.Linear() + rkhs.Gaussian((1.0, 2.0, 3.0)), "one scale per feature for 3 features"),
        (rkhs.kernels.Linear() * rkhs.Gaussian((1.0, 2.0, 3.0)), "one scale per feature for 3 features"),
        (rkhs.kernels.Polyharmonic(3) @ np.ones((2, 3)), r"a \(2, 3\) matrix for 3 features"),
    ],
    ids=repr,
)
def test_kernels_and_points_of_different_dimension(kernel, sentence):
    with pytest.raises(ValueError, match=sentence):
        kernel(X)
    for family in (rkhs.Evaluation(X), LocalAverage(X, 0.5), rkhs.Gradient(X)):
        with pytest.raises(ValueError, match=sentence):
            rkhs.gram(kernel, family).dense()
        with pytest.raises(ValueError, match=sentence):
            rkhs.gram(kernel, family) @ np.ones(family.size)
    with pytest.raises(ValueError, match=sentence):
        rkhs.gram(kernel, rkhs.Evaluation(X)).diagonal()


def test_thin_plates_in_too_high_a_dimension():
    with pytest.raises(ValueError, match=r"ThinPlate\(order=1\) does not exist in R\^2: .* Use ThinPlate\(order=2\)"):
        rkhs.gram(rkhs.kernels.ThinPlate(1), rkhs.Evaluation(X))
    with pytest.raises(ValueError, match=r"does not exist in R\^2: .* Polyharmonic\(power=2\)"):
        rkhs.kernels.ThinPlate(1)(X)
    assert rkhs.kernels.ThinPlate(2)(X).shape == (6, 6)  # the remedies
    assert rkhs.kernels.Polyharmonic(power=2)(X).shape == (6, 6)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("library", [np.asarray, torch.tensor], ids=["NumPy", "PyTorch"])
def test_single_and_double_precision_meet_in_double(kernel, library):
    single, double = library(X.astype(np.float32)), library(Y)
    L, M = rkhs.stack([rkhs.Evaluation(single), rkhs.Gradient(single)]), rkhs.Gradient(double)
    expected = rkhs.gram(kernel, rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X)]), rkhs.Gradient(Y)).dense()
    allowed = {"rtol": 0, "atol": 1e-12 * np.abs(expected).max()}
    G = rkhs.gram(kernel, L, M)
    assert np.asarray(G.dense()).dtype == np.asarray(G @ np.ones(8)).dtype == np.float64
    np.testing.assert_allclose(np.asarray(G.dense()), expected, **allowed)
    np.testing.assert_allclose(np.asarray(G.T.dense()), expected.T, **allowed)
    np.testing.assert_allclose(np.asarray(G @ np.eye(8)), expected, **allowed)
    np.testing.assert_allclose(np.asarray(kernel(single, double)), kernel(X, Y), rtol=1e-12, atol=1e-12)
    stacked = rkhs.gram(kernel, rkhs.stack([L, M]))
    assert np.asarray(stacked.dense()).dtype == np.float64
    np.testing.assert_allclose(np.asarray(stacked.block(slice(18), slice(18, None))), expected, **allowed)
    summed = rkhs.Evaluation(single) + 2 * rkhs.Evaluation(library(X))
    np.testing.assert_allclose(np.asarray(rkhs.gram(kernel, summed).dense()), 9 * kernel(X), rtol=1e-11, atol=1e-11)
    difference = rkhs.Difference(single[:4], double)
    assert np.asarray(rkhs.gram(kernel, difference).dense()).dtype == np.float64


# Operands of G @ v.


OPERANDS = [
    [1, 2, 3, 4, 5, 6],
    np.arange(1, 7),
    np.arange(1.0, 7.0).astype(object),
    np.arange(6.0, 0.0, -1.0)[::-1],
    read_only(np.arange(1.0, 7.0)),
    np.arange(1.0, 7.0, dtype=np.float32),
]


@pytest.mark.parametrize("v", OPERANDS, ids=["list", "integers", "objects", "negative strides", "read-only", "single"])
@pytest.mark.parametrize("points", [X, torch.tensor(X)], ids=["NumPy", "PyTorch"])
def test_operands_that_are_other_arrays(points, v):
    found = rkhs.gram(K, rkhs.Evaluation(points)) @ v
    np.testing.assert_allclose(np.asarray(found), K(X) @ np.arange(1.0, 7.0), rtol=1e-14)


def test_nan_goes_through_a_product():
    """A product is linear algebra, not data: NaN in, NaN out."""
    v = np.ones(6)
    v[2] = np.nan
    assert np.isnan(rkhs.gram(K, rkhs.Evaluation(X)) @ v).all()


# Kernel parameters.


def each(rows):
    """One case for each bad value: (what is made from it, the value, the error, its sentence)."""
    return [
        pytest.param(make, value, error, sentence, id=f"{sentence}-{value!r}"[:90])
        for make, error, sentence, values in rows
        for value in values
    ]


PARAMETERS = [
    (rkhs.Gaussian, ValueError, "scale must be positive", [0, -1.0, np.nan, np.inf, (1.0, 0.0), [], [[1.0]], None]),
    (rkhs.Gaussian, ValueError, "between 1.5e-154 and 6.7e.153", [1e-310, 5e-324, 1e-155, 1e154, 1e308, (1.0, 1e-200)]),
    (lambda s: rkhs.Matern(1.5, s), ValueError, "rescale the features", [1e-200]),
    (rkhs.Gaussian, ValueError, 'or "median"', ["mean", "1.0"]),
    (rkhs.Gaussian, TypeError, "scale has dtype .* does not consist of numbers", [["a", "b"], {}]),
    (rkhs.Gaussian, TypeError, "scale is complex", [1j]),
    (lambda s: rkhs.Matern(1.5, s), ValueError, "scale must be positive", [0, -1.0, np.nan]),
    (lambda s: rkhs.kernels.RationalQuadratic(1.0, s), ValueError, "scale must be positive", [0, -1.0, np.nan]),
    (rkhs.Matern, ValueError, "nu = 0.5, 1.5", [1.0, 0, -0.5, 21.5, np.nan, "1.5", None]),
    (
        rkhs.kernels.RationalQuadratic,
        ValueError,
        "alpha of RationalQuadratic must be",
        [0, -1, np.nan, np.inf, "1", None],
    ),
    (rkhs.kernels.Polynomial, ValueError, "positive integer degree", [0, -1, 1.5, np.nan, np.inf, "2", None]),
    (
        lambda c: rkhs.kernels.Polynomial(2, c),
        ValueError,
        "offset of Polynomial must be",
        [-1, np.nan, np.inf, "1", None],
    ),
    (rkhs.kernels.ThinPlate, ValueError, "positive integer order", [0, -1, 1.5, np.nan, np.inf, "2", None]),
    (rkhs.kernels.Polyharmonic, ValueError, "power of Polyharmonic must be", [0, -1, np.nan, np.inf, "2", None]),
    (rkhs.Polynomials, ValueError, "at least -1", [-2]),
    (lambda c: c * K, ValueError, "factor of a kernel must be", [0, -1.0, np.nan, np.inf]),
    (lambda c: rkhs.kernels.Multiple(c, K), ValueError, "factor of a kernel must be", ["2", None]),
    (lambda c: K * c, TypeError, "multiply|support", ["2", None, 1j, np.ones(2)]),
    (lambda c: c * K, TypeError, "multiply|support", ["2", None, 1j, np.ones(2)]),
    (lambda c: K + c, TypeError, "support", [1.0, np.ones(2)]),
    (
        lambda k: K * k,
        ValueError,
        r"is only conditionally positive definite \(of order 2\)",
        [rkhs.kernels.ThinPlate(2)],
    ),
    (lambda k: k * K, ValueError, r"conditionally .* \(of order 1\).*use a sum", [K + rkhs.kernels.Polyharmonic(1)]),
    (lambda A: K @ A, ValueError, r"matrix \(m, n\) or a vector \(n,\)", [np.ones((2, 2, 2)), np.ones((0, 2)), 2.0]),
    (lambda A: K @ A, ValueError, "A contains NaN or infinity", [np.array([1.0, np.nan])]),
    (lambda A: K @ A, TypeError, "A has dtype .* does not consist of numbers", ["ab"]),
    (lambda A: K @ A, TypeError, "A is complex", [np.array([1.0 + 1j])]),
    (
        lambda k: rkhs.gram(k, rkhs.Evaluation(X)),
        TypeError,
        "must be an rkhs kernel such as",
        ["rbf", None, rkhs.Gaussian],
    ),
    (lambda L: rkhs.gram(K, L), TypeError, r"use rkhs.Evaluation\(X\)", [X, None]),
    (lambda M: rkhs.gram(K, rkhs.Evaluation(X), M), TypeError, r"use rkhs.Evaluation\(X\)", [X]),
    (lambda m: rkhs.gram(K, rkhs.Evaluation(X), memory=m), ValueError, "bytes", [0, -1, np.nan, np.inf, "1 GB"]),
]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (rkhs.kernels.Polynomial(2.0), rkhs.kernels.Polynomial(2)),
        (rkhs.kernels.Polynomial(np.int64(2)), rkhs.kernels.Polynomial(2)),
        (rkhs.kernels.ThinPlate(2.0), rkhs.kernels.ThinPlate(2)),
        (rkhs.Matern(np.float32(1.5)), rkhs.Matern(1.5)),
        (rkhs.kernels.Multiple(2, K), rkhs.kernels.Multiple(2.0, K)),
        *((c * K, 2.0 * K) for c in (2, np.float64(2), np.float32(2), np.int64(2))),
        *((K * c, 2.0 * K) for c in (2, np.float64(2), np.float32(2), np.int64(2))),
    ],
    ids=repr,
)
def test_numbers_of_other_types(given, expected):
    assert given == expected
    assert repr(given) == repr(expected)
    L = rkhs.Evaluation(X) if given.smoothness(2) <= 1 else rkhs.Gradient(X)
    np.testing.assert_array_equal(rkhs.gram(given, L).dense(), rkhs.gram(expected, L).dense())
    assert L(given.null_space).shape == L(expected.null_space).shape


# Arguments of functionals.

LOWER = scipy.sparse.csr_array(np.tril(np.ones((6, 6)), -1))
ARGUMENTS = [
    (rkhs.Evaluation, ValueError, "inhomogeneous", [[[1.0, 2.0], [3.0]]]),  # NumPy's own sentence
    (rkhs.Gradient, ValueError, r"first at index \(0, 1\)", [torch.tensor([[0.0, np.inf]])]),
    (rkhs.stack, ValueError, "at least one family", [[]]),
    (Average, ValueError, "k and n positive", [np.zeros((3, 0, 2))]),
    (lambda v: rkhs.gram(K, rkhs.Evaluation(X)) @ v, TypeError, "v is complex", [1j * np.ones(6)]),
    (lambda v: rkhs.gram(K, rkhs.Evaluation(X)) @ v, TypeError, "v has dtype <U1 and does not consist of numbers",
     [np.array(list("abcdef"))]),
    (lambda v: rkhs.gram(K, rkhs.Gradient(X)) @ v, ValueError,
     r"has shape \(12, 12\); it multiplies arrays of shape \(12,\) or \(12, r\), got \((5,|13,|11, 2|12, 2, 1|)\)",
     [np.zeros(shape) for shape in ((5,), (13,), (11, 2), (12, 2, 1), ())]),
    (lambda a: rkhs.Derivative(X, a), ValueError, "axes must be a list of", [0, [], [0.0], "01", [True], None]),
    (lambda a: rkhs.Derivative(X, a), ValueError, "stack families", [[[0], [0, 1]], [[[0]]], ["x"], [[]]]),
    (lambda a: rkhs.Derivative(X, a), ValueError, r"R\^2 do not have \(0 to 1\)", [[2], [-3], [0, 5], [[0], [7]]]),
    (lambda V: DirectionalDerivative(X, V), ValueError, r"shape \(6, 2\) or \(6, k, 2\) to match X, got",
     [Y, X[:, :1], np.ones(6), np.ones((6, 1, 1, 2)), 1.0]),
    (lambda V: DirectionalDerivative(X, V), ValueError, "V contains NaN", [np.full((6, 2), np.nan)]),
    (lambda w: LocalAverage(X, w), ValueError, "width must be positive, a number or one for each of 2 features",
     [0, -1.0, (1.0, -1.0), (1.0, 2.0, 3.0), (1.0,), [[1.0]]]),
    (lambda w: LocalAverage(X, w), ValueError, "width contains NaN or infinity", [np.nan, np.inf, None]),
    (lambda w: LocalAverage(X, w), TypeError, "width has dtype|width is complex", ["a", 1j]),
    (lambda w: LocalDeviation(X, w), ValueError, "width must be positive", [0]),
    (Average, ValueError, r"points must have shape \(t, k, n\) or \(k, n\)", [X[0], np.ones((1, 2, 3, 4))]),
    (lambda w: Average(X, w), ValueError, r"weights must have shape \(6,\) or \(1, 6\)", [[1.0, 2.0], 1.0]),
    (lambda w: Average(X, w), ValueError, r"sum to zero; use W @ Evaluation\(X\)", [[1.0, -1.0, 0, 0, 0, 0]]),
    (lambda w: Average(X, w), ValueError, "weights contains NaN", [[np.nan] * 6]),
    (lambda e: GraphDifference(X, e), ValueError, "edges must be integers of shape",
     [[[0.0, 1.0]], [0, 1], [[0, 1, 2]], [["a", "b"]]]),
    (lambda e: GraphDifference(X, e), ValueError, "out of range: indices must be 0 to 5", [[[0, 6]], [[-1, 0]]]),
    (lambda e: GraphDifference(X, e), ValueError, r"of shape \(6, 6\)", [scipy.sparse.eye_array(5), LOWER]),
    (lambda w: GraphDifference(X, [[0, 1]], w), ValueError, "1 nonnegative", [[-1.0], [1.0, 2.0], 1.0]),
    (lambda w: GraphDifference(X, [[0, 1]], w), ValueError, "weights contains NaN", [[np.nan]]),
    (lambda w: GraphDifference(X, LOWER + LOWER.T, w), ValueError, "already contains the weights", [np.ones(15)]),
    (lambda W: W @ rkhs.Evaluation(X), ValueError, r"W has .* needs shape \(any, 6\)", [np.ones((2, 5)), np.ones(6)]),
    (lambda W: W @ rkhs.Evaluation(X), ValueError, "W contains NaN",
     [np.full((2, 6), np.nan), scipy.sparse.csr_array(np.full((2, 6), np.nan))]),
    (lambda M: rkhs.Evaluation(X) + M, ValueError, r"shape \(6,\) and .*: they cannot be added", [rkhs.Gradient(X)]),
    (lambda M: rkhs.Evaluation(X) + M, TypeError, "combines with families of functionals, not with", [1, None, K]),
    (lambda M: rkhs.stack([rkhs.Evaluation(X), M]), TypeError, "combines with families of functionals", [X, K]),
    (lambda c: c * rkhs.Evaluation(X), ValueError, "needs a finite factor", [np.nan, np.inf]),
    (lambda c: c * rkhs.Evaluation(X), ValueError, "one for each functional", [np.ones(len(X) + 1), np.ones((1, 1))]),
    (lambda c: c * rkhs.Evaluation(X), ValueError, "NaN or infinity", [np.full(len(X), np.nan)]),
    (lambda c: rkhs.Evaluation(X) * c, TypeError, "multiply|support", ["a", 1j, None]),
    (lambda c: rkhs.Evaluation(X) / c, ZeroDivisionError, "division by zero", [0]),
    (lambda f: rkhs.Evaluation(X)(f), TypeError, "applies to an rkhs.results.Function or", [np.sin, X]),
    (lambda rows: rkhs.Evaluation(X).take(rows), IndexError, "out of bounds", [[6], [-7], 6]),
    (lambda rows: rkhs.Evaluation(X).take(rows), IndexError, "integer|boolean", [[0.5], [True]]),
    (lambda rows: rkhs.Evaluation(X).take(rows), IndexError, "flat indices", [[[0, 1], [2, 3]]]),
    (lambda rows: rkhs.gram(K, rkhs.Evaluation(X)).block(rows, [0]), IndexError, "out of bounds", [[9]]),
    (lambda a: Function(K, rkhs.Gradient(X), a), ValueError, "coefficients have shape", [np.ones((5, 2)), 1.0]),
    (lambda a: Function(K, rkhs.Evaluation(X), a), ValueError, "coefficients contains NaN", [[np.nan] * 6]),
]  # fmt: skip


@pytest.mark.every
@pytest.mark.parametrize(("make", "value", "error", "sentence"), each(PARAMETERS + ARGUMENTS))
def test_bad_parameters_and_arguments(make, value, error, sentence):
    with pytest.raises(error, match=sentence):
        make(value)


def test_axes_and_edges_of_other_types():
    Z = np.array([[1.0, 2.0, 3.0]])
    for axes in ([-1], (2,), np.array([2]), torch.tensor([2])):
        np.testing.assert_array_equal(rkhs.Derivative(Z, axes)(rkhs.Polynomials(1)), [[0.0, 0.0, 0.0, 1.0]])
    edges = torch.tensor([[0, 1], [4, 2]])
    np.testing.assert_array_equal(
        GraphDifference(X, edges, torch.tensor([1.0, 4.0]))(rkhs.Polynomials(1)),
        np.array([[1.0], [2.0]]) * rkhs.Difference(X[[0, 4]], X[[1, 2]])(rkhs.Polynomials(1)),
    )


def test_a_sparse_matrix_of_edges_and_a_loop():
    """A loop (i, i) is the zero functional; a symmetric matrix has each edge once."""
    W = scipy.sparse.coo_array(([4.0, 4.0, 9.0], ([0, 2, 5], [2, 0, 5])), shape=(6, 6))
    np.testing.assert_array_equal(
        GraphDifference(X, W)(rkhs.Polynomials(1)), 2 * rkhs.Difference(X[:1], X[2:3])(rkhs.Polynomials(1))
    )
    assert not GraphDifference(X, [[3, 3]])(rkhs.Polynomials(2)).any()


# Unbounded functionals.

UNBOUNDED = [
    (kernel, limit, order)
    for kernel, limit in [
        (rkhs.Matern(0.5), 1),
        (rkhs.Matern(1.5), 2),
        (rkhs.Matern(2.5, (1.0, 2.0)), 3),
        (rkhs.Matern(3.5), 4),
        (rkhs.kernels.Polyharmonic(1), 1),
        (rkhs.kernels.Polyharmonic(2), 1),
        (rkhs.kernels.Polyharmonic(2.5), 2),
        *((rkhs.kernels.Polyharmonic(power), limit) for power, limit in [(3, 2), (4, 2), (5, 3), (6, 3)]),
        (rkhs.kernels.ThinPlate(2), 1),
        (rkhs.kernels.ThinPlate(3), 2),
        (2.0 * rkhs.Matern(0.5), 1),
        (rkhs.kernels.ThinPlate(2) @ np.eye(2), 1),
        (rkhs.Matern(0.5) @ np.ones((3, 2)), 1),
    ]
    for order in (limit, limit + 1)
]


@pytest.mark.parametrize(("kernel", "limit", "order"), UNBOUNDED, ids=repr)
def test_an_unbounded_pair_names_both_and_a_remedy_that_works(kernel, limit, order):
    if order == limit:  # order m needs 2m derivatives of k at coincident points
        assert limit - 1 < kernel.smoothness(2) <= limit
    L = rkhs.Derivative(X, axes=[0] * order)
    with pytest.raises(NotBoundedError) as raised:
        rkhs.gram(kernel, L)
    sentence = str(raised.value)
    assert repr(L) in sentence
    assert repr(kernel) in sentence
    assert f"derivatives of order {order}" in sentence
    assert "Difference of values" in sentence
    (remedy,) = re.findall(r"Use (\w+\(.*?\)), or", sentence)
    better = eval(remedy, vars(rkhs.kernels))
    assert np.isfinite(rkhs.gram(better, L).dense()).all()
    with pytest.raises(NotBoundedError):
        rkhs.gram(kernel, rkhs.Evaluation(X), L)  # on either side
    assert np.isfinite(rkhs.gram(kernel, rkhs.Difference(X, X + 0.1)).dense()).all()  # the other remedy


def test_combinations_of_unbounded_functionals_and_kernels_are_refused():
    L = rkhs.stack([rkhs.Evaluation(X), rkhs.Derivative(X, [1])])
    for kernel in (rkhs.Matern(0.5), K + rkhs.Matern(0.5), K * rkhs.Matern(0.5)):
        for family in (L, 2 * L, np.ones((1, L.size)) @ L):
            with pytest.raises(NotBoundedError, match=r"order 1, which are not bounded on the RKHS of "):
                rkhs.gram(kernel, family)
        with pytest.raises(NotBoundedError):
            L(Function(kernel, rkhs.Evaluation(X), np.ones(6)))


def test_the_remedy_for_sums_names_the_rough_parts():
    kernel = rkhs.Matern(0.5) + K + rkhs.kernels.Polyharmonic(1)
    with pytest.raises(NotBoundedError) as raised:
        rkhs.gram(kernel, rkhs.Gradient(X))
    found = re.findall(r"(\w+\([^()]*\)) in place of (\w+\([^()]*\))", str(raised.value))
    replacements = {old: new for new, old in found}
    assert set(replacements) == {"Matern(nu=0.5, scale=1.0)", "Polyharmonic(power=1)"}
    better = rkhs.kernels.Sum(
        tuple(eval(replacements.get(repr(k), repr(k)), vars(rkhs.kernels)) for k in kernel.kernels)
    )
    assert np.isfinite(rkhs.gram(better, rkhs.Gradient(X)).dense()).all()


def test_a_kernel_without_a_remedy_still_names_differences():
    kernel = rkhs.kernels.AutodiffKernel(lambda x, y: -((x - y) ** 2).sum(), smooth=1.0, order=1)
    with pytest.raises(NotBoundedError, match=r"bounds orders below 1\. Use a Difference of values"):
        rkhs.gram(kernel, rkhs.Gradient(X))


def test_boundedness_is_checked_before_any_number():
    class Watched(rkhs.Matern):
        def pair(self, pairing):
            raise AssertionError("a number was computed")

    with pytest.raises(NotBoundedError):
        rkhs.gram(Watched(0.5), rkhs.Gradient(X))


# No input is ever changed.


def snapshot(array):
    return array.clone() if isinstance(array, torch.Tensor) else array.copy()


@pytest.mark.parametrize(
    ("kernel", "library"),
    [
        *(
            (kernel, read_only)
            for kernel in (*KERNELS, rkhs.Matern(0.5), rkhs.kernels.RationalQuadratic(1.0), K @ np.ones((3, 2)))
        ),
        *((kernel, torch.tensor) for kernel in KERNELS),
    ],
    ids=lambda value: getattr(value, "__name__", repr(value)),
)
def test_inputs_are_not_changed(kernel, library):
    points, others, v = library(X), library(Y), library(rng.standard_normal(10))
    W = library(rng.standard_normal((3, 10)))
    inputs = [points, others, v, W]
    before = [snapshot(a) for a in inputs]
    smooth = kernel.smoothness(2) > 1
    L = rkhs.stack([rkhs.Evaluation(points), rkhs.Evaluation(others)])
    families = [
        L,
        W @ L,
        rkhs.Difference(others, others),
        LocalAverage(points, 0.5),
        Average(points),
    ]
    families += [rkhs.Gradient(points), DirectionalDerivative(others, others)] if smooth else []
    for M in families:
        G = rkhs.gram(kernel, M, L)
        G.dense(), G @ v, G.T @ G.dense()[:, 0], G.block([0], slice(None)), rkhs.gram(kernel, M).diagonal()
        M(kernel.null_space), M(rkhs.Polynomials(2))
        Function(kernel, L, v).inner(Function(kernel, L, v))
    kernel(points, others), kernel.resolved(points)
    for array, copy in zip(inputs, before, strict=True):
        assert (array == copy).all()


def test_parameters_are_not_shared():
    """A kernel is a value: changing the array it was made from does not change it."""
    scale, A = np.array([1.0, 2.0]), np.eye(2)
    kernels = [rkhs.Gaussian(scale), K @ A]
    before = [kernel(X) for kernel in kernels]
    scale *= 2
    A *= 2
    for kernel, values in zip(kernels, before, strict=True):
        np.testing.assert_array_equal(kernel(X), values)
    with pytest.raises(ValueError, match="read-only"):
        kernels[1].linear[0, 0] = 5.0


class Handed:
    """Arrays as a caller would hand them over, all of which are then overwritten."""

    def __init__(self, library):
        self.library, self.arrays = library, []

    def __call__(self, values):
        self.arrays.append(self.library(values))
        return self.arrays[-1]

    def numpy(self, values):
        self.arrays.append(np.array(values))
        return self.arrays[-1]

    def spoil(self):
        for array in self.arrays:
            array[...] = 0


def problem_of(hand):
    points = hand(X)
    term = rkhs.Term(rkhs.Evaluation(points), rkhs.Squared(), hand(X[:, 0]), hand(np.arange(1.0, 7.0)))
    slopes = rkhs.Term(rkhs.Gradient(points), rkhs.losses.Absolute(), hand(X), 0.5)
    return rkhs.Problem(K, [term, slopes], rkhs.Constant())


OF_POINTS = {
    **{name: make for name, make in FAMILIES.items() if isinstance(make(X), rkhs.extend.Functional)},
    "Difference of two": lambda X: rkhs.Difference(X, X + 1),
    "Components": rkhs.functionals.Components,
    "Average": Average,
    "sum": lambda X: rkhs.Evaluation(X) - 2 * LocalAverage(X, 0.5),
}
OWNERS = {  # of arrays that are handed over; those of `numpy` are NumPy's whatever the points are
    **{name: lambda hand, make=make: make(hand(X)) for name, make in OF_POINTS.items()},
    "directions": lambda hand: DirectionalDerivative(hand(X), hand(np.arange(12.0).reshape(6, 2))),
    "matrix": lambda hand: hand(np.arange(18.0).reshape(3, 6)) @ rkhs.Evaluation(hand(X)),
    "sparse matrix": lambda hand: (
        scipy.sparse.csr_array(tuple(map(hand.numpy, ([1.0, 1.0], [1, 4], [0, 2]))), shape=(1, 6))
        @ rkhs.Evaluation(hand(X))
    ),
    "edges": lambda hand: GraphDifference(hand(X), hand.numpy([[0, 1], [2, 3]]), hand.numpy([1.0, 1.0])),
    "weights": lambda hand: Average(hand(X), hand.numpy(np.ones(6))),
    "factors": lambda hand: hand.numpy(np.ones(6)) * rkhs.Evaluation(hand(X)),
    "function": lambda hand: Function(K, rkhs.Evaluation(hand(Y)), hand(np.ones(4)), rkhs.Constant(), hand(np.ones(1))),
    "problem": problem_of,
    "solution": lambda hand: problem_of(hand).solve(tol=1e-8).function,
}


@pytest.mark.every("name")
@pytest.mark.parametrize("library", [np.array, torch.tensor], ids=["NumPy", "PyTorch"])
@pytest.mark.parametrize("name", OWNERS)
def test_objects_own_their_numbers(name, library):
    """Also functionals whose normal form is made when it is first asked for, and problems before they are solved."""

    def numbers(owner):
        if isinstance(owner, rkhs.extend.Functional):
            return rkhs.gram(K, owner).dense()
        return (owner.solve(tol=1e-8).function if isinstance(owner, rkhs.Problem) else owner)(library(Y + 0.1))

    handed = Handed(library)
    owner, expected = OWNERS[name](handed), OWNERS[name](Handed(library))
    handed.spoil()
    np.testing.assert_array_equal(np.asarray(numbers(owner)), np.asarray(numbers(expected)))


def test_what_is_owned_is_not_copied_again():
    L = rkhs.Evaluation(X)
    assert rkhs.Gradient(L.X).X is L.X
    with pytest.raises(ValueError, match="read-only"):
        L.X[0, 0] = 5.0
    view = X.view()
    view.flags.writeable = False  # whose memory can still be changed through X
    assert not np.shares_memory(rkhs.Evaluation(view).X, X)


def test_results_are_the_callers_own():
    """Writing to a result changes neither the next result nor the input."""
    G = rkhs.gram(rkhs.kernels.Linear(), rkhs.Evaluation(X))
    for compute in (G.dense, G.diagonal, lambda: G @ np.ones(6), lambda: rkhs.kernels.Linear()(X), lambda: K(X)):
        first = compute()
        expected = first.copy()
        first[...] = 7.0
        np.testing.assert_array_equal(compute(), expected)
