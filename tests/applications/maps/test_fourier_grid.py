"""Fourier grids: inner products within the stated error for all functionals, products without matrices, bad input."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

import registry
import rkhs
from refusals import refused
from rkhs.testing import check_space

RNG = np.random.default_rng(0)
POINTS = {d: RNG.uniform(size=(6, d)) for d in (1, 2, 3)}
MATRIX = np.array([[1.2, 0.3, 0.1], [-0.2, 0.9, 0.2], [0.1, 0.2, 1.1]])


def directions(X, k, seed=1):
    return np.random.default_rng(seed).normal(size=(len(X), k, X.shape[1]))


FAMILIES = {
    **{name: case.make for name, case in registry.FAMILIES.items()},
    "LocalAverage": lambda X: rkhs.functionals.LocalAverage(X, 0.3),
    "LocalAverage, axes": lambda X: rkhs.functionals.LocalAverage(X, (0.1, 0.4, 0.2)[: X.shape[1]]),
    "LocalDeviation": lambda X: rkhs.functionals.LocalDeviation(X, 0.2),
    "boxes": lambda X: rkhs.Integral.boxes(X[:2] - 0.2, X[:2] + 0.1, nodes=4),
    "segments": lambda X: rkhs.Integral.segments(X[:3], X[3:], mean=True),
    "stack": lambda X: rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X[:2]), rkhs.Difference(X[:1], X[1:2])]),
}
TOEPLITZ = {
    *("Evaluation", "Gradient", "Hessian", "Laplacian", "Derivative", "Derivative, second"),
    *("DirectionalDerivative", "DirectionalDerivative, several", "values and slopes", "Laplacian and value"),
    *("LocalAverage", "LocalAverage, axes", "LocalDeviation"),
}
KERNELS = {  # with the accuracy of the kernel, such that the grids stay small
    1: [
        (rkhs.Gaussian(0.5), 1e-8),
        (rkhs.Matern(4.5, 1.0), 1e-5),
        (rkhs.Matern(2.5, 1.0), 1e-3),
        (rkhs.Matern(1.5, 1.0), 1e-3),
        (rkhs.Matern(0.5, 1.0), 1e-2),
        (rkhs.kernels.RationalQuadratic(3.0, 1.0), 1e-4),
        (0.5 * rkhs.Gaussian(0.5) + 2.0 * rkhs.Matern(4.5, 2.0) + rkhs.kernels.RationalQuadratic(8.0, 1.0), 1e-4),
    ],
    2: [
        (rkhs.Gaussian((0.6, 0.9)), 1e-8),
        (rkhs.Gaussian(1.0) @ MATRIX[:2, :2], 1e-8),
        (rkhs.Matern(4.5, 2.0), 1e-2),
        (rkhs.Matern(1.5, 2.0), 1e-2),
        (rkhs.kernels.RationalQuadratic(8.0, 1.0), 1e-4),
    ],
    3: [(rkhs.Gaussian(1.5), 1e-4), (rkhs.Gaussian((1.5, 2.0, 3.0)) @ MATRIX, 1e-3), (rkhs.Matern(1.5, 3.0), 0.2)],
}
QUICK = {"Evaluation", "DirectionalDerivative, several", "segments"}
CASES = [
    pytest.param(kernel, accuracy, d, name, id=f"{kernel!r}-{d}-{name}", marks=[] if quick else pytest.mark.slow)
    for d, kernels in KERNELS.items()
    for k, (kernel, accuracy) in enumerate(kernels)
    for name, make in FAMILIES.items()
    for quick in [name in QUICK or (k == 0 and d == 2)]
    if make(POINTS[d]).order < (kernel.smoothness(d) if d < 3 or kernel.smoothness(d) > 2 else 1)
]


def small(kernel, accuracy, families):
    """The space of a grid, with fewer frequencies than asked for if the kernel is rough."""
    space = rkhs.FourierGrid(accuracy, modes=3000).choose(kernel, families)
    assert space.size <= 3000
    return space


@pytest.mark.parametrize(("kernel", "accuracy", "d", "name"), CASES)
def test_inner_products(kernel, accuracy, d, name):
    """Relative to the norms of derivatives, or to those of values, of which a family combines up to two."""
    L = FAMILIES[name](POINTS[d])
    space = small(kernel, accuracy, [L])
    E, G = space.rows(L), rkhs.gram(kernel, L).dense()
    assert E.shape == (L.size, space.size)
    size = kernel(POINTS[d][:1])[0, 0]
    norms = np.sqrt(np.maximum(np.diag(G), size if L.order == 0 else 0.0))
    assert np.abs(E @ E.T - G).max() <= (2 if L.order else 4) * space.accuracy * np.max(norms) ** 2
    if name == "Evaluation":
        assert space.kernel_error <= space.accuracy
        assert np.abs(E @ E.T - G).max() <= space.kernel_error * size


@pytest.mark.parametrize(("alpha", "d"), [(0.55, 1), (0.8, 1), (1.1, 2), (100.0, 1), (2000.0, 1)])
def test_rational_quadratic_kernels(alpha, d):
    """Kernels that fall slowly, whose distant images add up, and kernels that are nearly Gaussian."""
    kernel, values = rkhs.kernels.RationalQuadratic(alpha), rkhs.Evaluation(POINTS[d])
    space = small(kernel, 1e-2 if alpha < 2 else 1e-8, [values])
    error = np.abs(space.rows(values) @ space.rows(values).T - kernel(POINTS[d])).max()
    assert error <= space.kernel_error <= space.accuracy


@pytest.mark.parametrize("width", [0.1, 2.0])
def test_wide_averages(width):
    """Averages over more than the range of the kernel."""
    for d in (1, 2):
        L, kernel = rkhs.functionals.LocalAverage(POINTS[d], width), rkhs.Gaussian(0.5)
        space = small(kernel, 1e-4, [L])
        G = rkhs.gram(kernel, L).dense()
        assert np.abs(space.rows(L) @ space.rows(L).T - G).max() <= 1e-4 * G.max()


@pytest.mark.parametrize("d", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", FAMILIES)
def test_the_laws_of_spaces(d, name):
    """Among them: products by transforms, and by FFTs of sums, are those with the matrix `rows`."""
    L, box = FAMILIES[name](POINTS[d]), (-4 * np.ones(d), 4 * np.ones(d))
    grid = rkhs.FourierGrid(1e-2 if d < 3 else 0.1, box=box)
    space = grid.choose(rkhs.Gaussian({1: 3.0, 2: 5.0, 3: 9.0}[d]), [L, rkhs.Gradient(POINTS[d])])
    check_space(replace(space, transform_error=1e-14), [L])


@pytest.mark.parametrize("name", FAMILIES)
def test_families_at_single_points_are_toeplitz(name):
    L = FAMILIES[name](POINTS[2])
    space = small(rkhs.Gaussian(1.0), 1e-3, [L])
    sums = space.summed(L, np.ones(L.size), [])
    assert (sums is not None) == (name in TOEPLITZ)
    if sums is not None:
        diagonal = np.einsum("ij,ij->j", space.rows(L), space.rows(L))
        approximate = space.normal_of([sums]).diagonal.reshape(-1)
        assert approximate.sum() == pytest.approx(diagonal.sum(), rel=1e-6)  # waves and their mirror images


def test_sums_of_blocks():
    L, w = rkhs.Gradient(POINTS[2]), RNG.random(12)
    space = small(rkhs.Gaussian(1.0), 1e-6, [L])
    whole = space.summed(L, w, [])
    parts = [space.summed(L.take(s), w[s], []) for s in (slice(0, 4), slice(4, 12))]
    for key, generator in (parts[0] + parts[1]).generators.items():
        np.testing.assert_allclose(generator, whole.generators[key], atol=1e-8)


# The choice of a grid.


def test_accuracy_and_memory():
    values, slopes = rkhs.Evaluation(POINTS[2]), rkhs.Gradient(POINTS[2])
    kernel = rkhs.Matern(2.5, 0.5)
    coarse, fine = (rkhs.FourierGrid(a).choose(kernel, [values]) for a in (1e-2, 1e-4))
    assert coarse.size < fine.size
    assert coarse.accuracy == 1e-2
    assert coarse.kernel_error < 1e-2
    assert fine.kernel_error < 1e-4
    assert rkhs.FourierGrid(1e-2).choose(kernel, [values, slopes]).size > coarse.size
    limited = rkhs.FourierGrid(1e-4, modes=coarse.size).choose(kernel, [values])
    assert limited.size <= coarse.size
    assert limited.kernel_error < limited.accuracy < 0.02
    boxed = rkhs.FourierGrid(1e-2, box=([0.0, -3.0], [1.0, 2.0])).choose(kernel, [values])
    np.testing.assert_allclose(boxed.center, [0.5, -0.5])
    np.testing.assert_allclose(boxed.extent, [1.0, 5.0])


def test_default_accuracy():
    values = rkhs.Evaluation(POINTS[1])
    assert rkhs.FourierGrid().choose(rkhs.Gaussian(0.3), [values]).accuracy == 1e-4
    rough = rkhs.FourierGrid().choose(rkhs.Matern(0.5, 0.01), [values])
    assert rough.kernel_error <= rough.accuracy <= 0.1
    assert rough.size <= 2**22


def test_copies_are_small():
    space = small(rkhs.Gaussian(1.0), 1e-6, [rkhs.Evaluation(POINTS[2])])
    space.amplitudes  # noqa: B018
    assert len(pickle.dumps(space)) < 10_000  # without cached arrays
    assert rkhs.FourierGrid(1e-3) == pickle.loads(pickle.dumps(rkhs.FourierGrid(1e-3)))


FIELDS = {  # with the accuracy and the dimension
    "curl-free": (rkhs.kernels.CurlFree(rkhs.Gaussian(0.5)), 1e-7, 2),
    "curl-free, Matern": (2.0 * rkhs.kernels.CurlFree(rkhs.Matern(4.5, 1.0)), 1e-3, 2),
    "curl-free, in space": (rkhs.kernels.CurlFree(rkhs.Gaussian(1.5)), 1e-3, 3),
    "divergence-free": (rkhs.kernels.DivergenceFree(rkhs.Gaussian((0.5, 0.7))), 1e-7, 2),
}


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("family", ["components", "derivatives", "differences"])
def test_fields_with_one_potential(name, family):
    kernel, accuracy, d = FIELDS[name]
    X = POINTS[d]
    E = np.hstack([X, directions(X, 1)[:, 0]])
    functional = {
        "components": rkhs.functionals.Components(X),
        "derivatives": rkhs.Gradient(E),
        "differences": rkhs.Difference(E[:3], E[3:]),
    }[family]
    space = rkhs.FourierGrid(accuracy).choose(kernel, [functional])
    rows, exact = space.rows(functional), rkhs.gram(kernel, functional).dense()
    assert (space.dimension, len(space.limits)) == (2 * d, d)
    assert np.allclose(rows @ rows.T, exact, atol=100 * accuracy * np.max(exact))
    check_space(replace(space, transform_error=1e-14), [functional])


@pytest.mark.parametrize("name", ["Evaluation", "Gradient", "DirectionalDerivative, several"])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_blocks_of_normal_matrices(name, d):
    """Blocks for preconditioners are those of products, for all frequencies and for a part of them."""
    functional = FAMILIES[name](POINTS[d])
    space = rkhs.FourierGrid(1e-2).choose(rkhs.Gaussian(1.5), [functional])
    normal = space.normal_of([space.summed(functional, np.linspace(1, 2, functional.size), [])])
    matrix = normal @ np.eye(space.size)
    scale = np.max(np.abs(matrix))
    assert np.allclose(normal.block(np.arange(space.size)), matrix, atol=1e-7 * scale)
    middle = np.arange(space.size // 2 - 1, space.size // 2 + 2)
    assert np.allclose(normal.block(middle), matrix[np.ix_(middle, middle)], atol=1e-7 * scale)


@pytest.mark.parametrize(
    "name", ["Evaluation", "Gradient", "DirectionalDerivative", "DirectionalDerivative, several", "Hessian", "field"]
)
def test_the_missing_norms_are_those_outside_of_the_space(name):
    X = POINTS[2]
    kernel = rkhs.kernels.CurlFree(rkhs.Matern(3.5, 0.5)) if name == "field" else rkhs.Matern(3.5, 0.5)
    functional = rkhs.functionals.Components(X) if name == "field" else FAMILIES[name](X)
    space = rkhs.FourierGrid(modes=300).choose(kernel, [functional])
    assert np.max(space.missing(functional)) > 1e-4
    assert np.allclose(space.missing(functional), space.outside(functional), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("name", ["Difference", "Average", "stack", "field"])
def test_far_from_the_box_all_of_the_norm_is_missing(name):
    X = POINTS[2]
    kernel = rkhs.kernels.CurlFree(rkhs.Gaussian(0.3)) if name == "field" else rkhs.Gaussian(0.3)
    family = rkhs.functionals.Components if name == "field" else FAMILIES[name]
    space = rkhs.FourierGrid(1e-3).choose(kernel, [family(X)])
    far = family(X + 100.0)
    assert np.allclose(space.missing(far), rkhs.gram(kernel, far).diagonal(), rtol=1e-6)


def chosen(kernel, X, family=rkhs.Evaluation, **options):
    return rkhs.FourierGrid(**options).choose(kernel, [family(X)])


PLANE = rkhs.kernels.DivergenceFree(rkhs.Gaussian()) + rkhs.kernels.CurlFree(rkhs.Gaussian())
BOXES = [([0.0], [1.0, 1.0]), ([0.0, 0.0], [-1.0, 1.0]), ([0.0, np.nan], [1.0, 1.0]), (1.0,), ([0.4] * 2, [0.5] * 2)]
STEEP = rkhs.Term(rkhs.Gradient(POINTS[1]), rkhs.Squared())
test_what_is_refused = refused(
    *(
        (lambda accuracy=accuracy: rkhs.FourierGrid(accuracy), "accuracy of a FourierGrid must be between 0 and 1")
        for accuracy in (0.0, -1e-3, 1.0, 2.0, np.nan, np.inf)
    ),
    *(
        (lambda modes=modes: rkhs.FourierGrid(modes=modes), "modes of a FourierGrid must be a positive integer")
        for modes in (0, -3, 2.5, "many")
    ),
    *((lambda box=box: chosen(rkhs.Gaussian(0.1), POINTS[2], box=box), "box") for box in BOXES),
    *(
        (lambda case=case: chosen(case[0], POINTS[3], **case[1]), rf"frequencies {case[2]}", MemoryError)
        for case in [
            (rkhs.Gaussian(1e-5), {}, r"for an accuracy of 0\.0001.*length scale"),
            (rkhs.Matern(0.5, 0.1), {"accuracy": 1e-6}, "for an accuracy of 1e-06"),
            (rkhs.Gaussian(0.01), {"modes": 5}, ".* and 5 fit"),
        ]
    ),
    (lambda: chosen(rkhs.Gaussian(), np.eye(4)), r"at most three features, got 4: use rkhs\.Landmarks"),
    (lambda: (s := chosen(rkhs.Matern(0.5), POINTS[1])).apply(STEEP.functional, np.zeros(s.size)), "Matern"),
    (lambda: rkhs.Problem(rkhs.Matern(0.5), [STEEP], approximation=rkhs.FourierGrid()).solve(), "Matern"),
    *(
        (lambda kernel=kernel, d=d: chosen(kernel, POINTS[d], rkhs.functionals.Components), "several potentials")
        for kernel, d in [(rkhs.kernels.DivergenceFree(rkhs.Gaussian()), 3), (PLANE, 2)]
    ),
)
