"""Integrals over boxes, segments and polygons, against error functions and quadrature."""

import numpy as np
import pytest
from mpmath import mp
from scipy.integrate import dblquad, quad
from scipy.special import erf

import rkhs
from refusals import refused
from rkhs.geometry import bounded

S = 0.8


def gaussian_over(low, high, y):
    """The integral of exp(-(x - y)^2 / 2 S^2) from low to high."""
    return S * np.sqrt(np.pi / 2) * (erf((high - y) / (S * 2**0.5)) - erf((low - y) / (S * 2**0.5)))


def twice(a, b, c, d):
    """The integral over x in [a, b] and y in [c, d], in 30 digits."""
    with mp.workdps(30):
        return float(
            mp.quad(lambda y: mp.quad(lambda x: mp.exp(-((x - y) ** 2) / (2 * mp.mpf(S) ** 2)), [a, b]), [c, d])
        )


def test_boxes_against_points_are_error_functions():
    low, high = np.array([[0.0, -1.0], [0.5, 0.5]]), np.array([[1.5, 0.3], [2.0, 2.5]])
    Y = np.random.default_rng(0).standard_normal((4, 2))
    L = rkhs.Integral.boxes(low, high, nodes=16)
    expected = gaussian_over(low[:, None], high[:, None], Y).prod(axis=2)
    np.testing.assert_allclose(rkhs.gram(rkhs.Gaussian(S), L, rkhs.Evaluation(Y)).dense(), expected, rtol=1e-13)
    mean = rkhs.Integral.boxes(low, high, nodes=16, mean=True)
    volume = (high - low).prod(axis=1)[:, None]
    np.testing.assert_allclose(rkhs.gram(rkhs.Gaussian(S), mean, rkhs.Evaluation(Y)).dense(), expected / volume)


def test_segments():
    a, b, y = np.array([0.1, -0.5]), np.array([1.3, 1.0]), np.array([0.4, 0.9])
    length = np.linalg.norm(b - a)
    expected = length * quad(lambda s: np.exp(-np.sum((a + s * (b - a) - y) ** 2) / (2 * S**2)), 0, 1)[0]
    L = rkhs.Integral.segments([a], [b], nodes=16)
    found = rkhs.gram(rkhs.Gaussian(S), L, rkhs.Evaluation([y])).dense()[0, 0]
    assert found == pytest.approx(expected, rel=1e-12)
    along = np.array([[0.0, 0.0]]), np.array([[2.0, 0.0]])
    G = rkhs.gram(rkhs.Gaussian(S), rkhs.Integral.segments(*along, nodes=16)).dense()[0, 0]
    assert pytest.approx(twice(0, 2, 0, 2), rel=1e-13) == G


def test_polygons():
    """A square as a polygon, in either direction; a corner that points inward; a mean."""
    square = [[0.0, 0.0], [1.0, 0.0], [1.0, 2.0], [0.0, 2.0]]
    y = rkhs.Evaluation([[0.3, 0.4]])
    box = rkhs.gram(rkhs.Gaussian(S), rkhs.Integral.boxes([[0.0, 0.0]], [[1.0, 2.0]], nodes=16), y).dense()
    for corners in (square, square[::-1], square[2:] + square[:2]):
        L = rkhs.Integral.polygons([corners, [[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]], nodes=16)
        found = rkhs.gram(rkhs.Gaussian(S), L, y).dense()
        assert found[0, 0] == pytest.approx(box[0, 0], rel=1e-12)

        def f(v, u):
            return np.exp(-((u - 0.3) ** 2 + (v - 0.4) ** 2) / (2 * S**2))

        assert found[1, 0] == pytest.approx(dblquad(f, 0, 1, 0, lambda u: 1 - u)[0], rel=1e-8)
    arrow = [[0.0, 0.0], [2.0, 0.0], [1.0, 0.5], [0.0, 2.0]]
    areas = rkhs.Integral.polygons([arrow, arrow[1:] + arrow[:1]])(rkhs.Polynomials(1))
    np.testing.assert_allclose(areas[0], areas[1], rtol=1e-12)
    assert areas[0, 0] == pytest.approx(1.5)
    assert rkhs.Integral.polygons([arrow], mean=True)(rkhs.Polynomials(0))[0, 0] == pytest.approx(1.0)


@pytest.mark.parametrize("kernel", [rkhs.Gaussian(S), rkhs.Matern(2.5, S), rkhs.Matern(0.5, S)])
def test_the_stated_error_is_true(kernel):
    low, high = np.zeros((1, 1)), np.full((1, 1), 4.0)
    exact = rkhs.Integral.boxes(low, high, nodes=200)
    for nodes in (4, 8):
        L = rkhs.Integral.boxes(low, high, nodes=nodes)
        away = rkhs.gram(kernel, L - exact).diagonal() / rkhs.gram(kernel, exact).diagonal()
        np.testing.assert_allclose(rkhs.geometry.quadrature_error(kernel, L), np.sqrt(away), rtol=0.3)


def exact_box_to_box(low, high, other_low, other_high, scale):
    """The double integral over two boxes, side by side, in 30 digits: second antiderivatives of the Gaussian."""
    with mp.workdps(40):
        s = mp.mpf(scale)

        def F(u):
            return s**2 * mp.exp(-((u / s) ** 2) / 2) + s * mp.sqrt(mp.pi / 2) * u * mp.erf(u / (s * mp.sqrt(2)))

        found = mp.mpf(1)
        for a, b, c, d in zip(low, high, other_low, other_high, strict=True):
            a, b, c, d = map(mp.mpf, (a, b, c, d))
            found *= F(b - c) + F(a - d) - F(a - c) - F(b - d)
        return found


@pytest.mark.parametrize("length", [0.01, 1.0, 5.0])
def test_with_enough_nodes_integrals_of_gaussians_are_exact(length):
    """Against error functions in 40 digits: boxes with points, slopes and boxes, whatever their sides are in scales."""
    low, high = [[0.0, 0.2], [-0.3, 0.1]], [[length, 0.2 + length / 2], [length - 0.3, 0.4]]
    kernel = rkhs.Gaussian(S)
    L = rkhs.geometry.quadrature_nodes(kernel, rkhs.Integral.boxes(low, high))
    assert np.all(rkhs.geometry.quadrature_error(kernel, L) <= 1e-12)
    found = rkhs.gram(kernel, L).dense()
    sizes = np.sqrt(np.diagonal(found))
    expected = np.array(
        [[float(exact_box_to_box(low[i], high[i], low[j], high[j], S)) for j in (0, 1)] for i in (0, 1)]
    )
    assert np.all(np.abs(found - expected) <= 4e-13 * np.outer(sizes, sizes))
    y = np.array([[0.3, 0.35]])
    values = gaussian_over(np.array(low), np.array(high), y).prod(axis=1)
    ends = [np.exp(-((np.array(end)[:, 0] - y[0, 0]) ** 2) / (2 * S**2)) for end in (low, high)]
    slopes = (ends[0] - ends[1]) * gaussian_over(np.array(low), np.array(high), y)[:, 1]
    np.testing.assert_allclose(rkhs.gram(kernel, L, rkhs.Evaluation(y)).dense()[:, 0], values, rtol=1e-12)
    table = rkhs.gram(kernel, L, rkhs.Derivative(y, axes=[0])).dense()[:, 0]
    np.testing.assert_allclose(table, slopes, atol=1e-12 * np.abs(slopes).max())


def test_a_side_of_fifty_scales():
    L = rkhs.geometry.quadrature_nodes(rkhs.Gaussian(S), rkhs.Integral.boxes([[0.0], [1.0]], [[40.0], [39.0]]))
    found = rkhs.gram(rkhs.Gaussian(S), L).dense()
    expected = [float(exact_box_to_box([0], [40], [low], [high], S)) for low, high in ((0, 40), (1, 39))]
    np.testing.assert_allclose(found[0], expected, rtol=1e-12)


def in_many_digits(coarse, exact, k):
    """|L - L*| for rules with nodes and weights (p, n), (p,) in 50 digits."""
    with mp.workdps(50):
        places = [*coarse[0], *exact[0]]
        weights = [*map(mp.mpf, coarse[1]), *(-w for w in map(mp.mpf, exact[1]))]
        square = mp.fsum(
            u * v * k(x, y) for u, x in zip(weights, places, strict=True) for v, y in zip(weights, places, strict=True)
        )
        return float(mp.sqrt(abs(square)))


def legendre(nodes, length):
    """Gauss-Legendre on [0, length] in 50 digits."""
    with mp.workdps(60):
        start = np.polynomial.legendre.leggauss(nodes)[0]
        x = [mp.findroot(lambda t: mp.legendre(nodes, t), mp.mpf(t)) for t in start]
        slope = [nodes * mp.legendre(nodes - 1, t) / (1 - t**2) for t in x]
        w = [length / ((1 - t**2) * s**2) for t, s in zip(x, slope, strict=True)]
        return [(1 + t) * length / 2 for t in x], w


@pytest.mark.parametrize(("length", "nodes"), [(1.0, 1), (1.0, 3), (1.0, 6), (4.0, 6), (4.0, 10)])
def test_the_bound_of_gaussians_is_above_the_error_and_not_far(length, nodes):
    coarse, fine = legendre(nodes, length), legendre(2 * nodes + 4, length)

    def k(x, y):
        return mp.exp(-((x - y) ** 2) / 2)

    away = in_many_digits(coarse, fine, k)
    L = rkhs.Integral.segments([[0.0, 0.0]], [[0.6 * length, 0.8 * length]], nodes=nodes)
    bound = bounded(rkhs.Gaussian(1.0), L)[0]
    assert away <= bound <= 100 * away


def test_bounds_of_boxes_and_polygons_are_above_what_is_seen():
    """With few nodes, where twice as many show the error; sums, products and linear changes of Gaussians too."""
    turned = np.array([[1.0, 0.5], [-0.3, 0.8]])
    kernels = [
        rkhs.Gaussian((0.7, 1.5)),
        2.0 * rkhs.Gaussian(1.2) @ turned + rkhs.Gaussian(0.6),
        (3.0 * rkhs.Gaussian(1.0)) * (rkhs.Gaussian(0.9) @ np.array([[1.0, 0.0]])),
    ]
    square = [[0.0, 0.0], [1.0, 0.0], [1.2, 1.5], [0.4, 0.5]]
    for mean in (False, True):
        for nodes in (2, 3, 4):
            options = {"nodes": nodes, "mean": mean}
            regions = [
                rkhs.Integral.boxes([[0.0, 0.0], [0.0, 1.0]], [[1.5, 2.0], [0.4, 1.3]], **options),
                rkhs.Integral.segments([[0.0, 0.0]], [[1.5, 2.0]], **options),
                rkhs.Integral.polygons([square, square[::-1][:3]], **options),
            ]
            for L in regions:
                for kernel in kernels:
                    away = np.sqrt(np.clip(rkhs.gram(kernel, L - L.with_nodes(12)).diagonal(), 0, None))
                    assert np.all(away <= bounded(kernel, L) + 1e-7)


def test_rough_kernels_cannot_have_nodes_enough_for_every_digit():
    bins = rkhs.Integral.boxes([[0.0]], [[1.0]])
    assert rkhs.geometry.quadrature_nodes(rkhs.Matern(2.5), bins, tol=1e-4).nodes <= 16
    with pytest.raises(ValueError, match=r"more than tol=1e-12: split the regions"):
        rkhs.geometry.quadrature_nodes(rkhs.Matern(0.5), bins)
    with pytest.raises(ValueError, match="tol must be between"):
        rkhs.geometry.quadrature_nodes(rkhs.Gaussian(), bins, tol=0)


def test_a_function_from_its_means_over_bins():
    edges = np.linspace(0, 6, 13)
    bins = rkhs.Integral.boxes(edges[:-1, None], edges[1:, None], mean=True)
    means = -np.diff(np.cos(edges)) / np.diff(edges)
    model = rkhs.FunctionalRegressor().fit(rkhs.Measurement(bins, means))
    x = np.linspace(0.3, 5.7, 20)[:, None]
    np.testing.assert_allclose(model.predict(x), np.sin(x[:, 0]), atol=0.01)


test_regions_that_are_none = refused(
    (lambda: rkhs.Integral.boxes([[1.0]], [[1.0]]), "box 0 is empty"),
    (lambda: rkhs.Integral.boxes([[1.0]], [[2.0, 3.0]]), "got shapes"),
    (lambda: rkhs.Integral.boxes([1.0], [2.0]), "two-dimensional array"),
    (lambda: rkhs.Integral.segments([[1.0]], [[1.0]]), "two distinct end points"),
    (lambda: rkhs.Integral.polygons([]), "corners is empty"),
    (lambda: rkhs.Integral.polygons([[[0.0, 0.0], [1.0, 1.0]]]), "three corners"),
    (lambda: rkhs.Integral.polygons([[[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]]), "no area"),
    (lambda: rkhs.Integral.boxes([[0.0]], [[1.0]], nodes=0), "nodes must be"),
    *(
        (
            lambda ask=ask: ask(rkhs.Gaussian(1.0), rkhs.Evaluation([[0.0]])),
            r"rkhs\.Integral, got Evaluation",
            TypeError,
        )
        for ask in (rkhs.geometry.quadrature_nodes, rkhs.geometry.quadrature_error)
    ),
)
