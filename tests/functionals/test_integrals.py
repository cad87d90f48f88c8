"""Integrals over boxes, segments and polygons, against error functions and quadrature."""

import numpy as np
import pytest
from mpmath import mp
from scipy.integrate import dblquad, quad
from scipy.special import erf

import rkhs

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


def test_boxes_against_boxes():
    L = rkhs.Integral.boxes([[0.0, -1.0], [0.5, 0.5]], [[1.5, 0.3], [2.0, 2.5]], nodes=16)
    G = rkhs.gram(rkhs.Gaussian(S), L).dense()
    assert G[0, 1] == pytest.approx(twice(0.0, 1.5, 0.5, 2.0) * twice(-1.0, 0.3, 0.5, 2.5), rel=1e-13)
    assert G[0, 0] == pytest.approx(twice(0.0, 1.5, 0.0, 1.5) * twice(-1.0, 0.3, -1.0, 0.3), rel=1e-13)


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
        np.testing.assert_allclose(rkhs.integration_error(kernel, L), np.sqrt(away), rtol=0.3)


def test_a_function_from_its_means_over_bins():
    edges = np.linspace(0, 6, 13)
    bins = rkhs.Integral.boxes(edges[:-1, None], edges[1:, None], mean=True)
    means = -np.diff(np.cos(edges)) / np.diff(edges)
    model = rkhs.FunctionalRegressor().fit(rkhs.Observed(bins, means))
    x = np.linspace(0.3, 5.7, 20)[:, None]
    np.testing.assert_allclose(model.predict(x), np.sin(x[:, 0]), atol=0.01)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: rkhs.Integral.boxes([[1.0]], [[1.0]]), "box 0 has none"),
        (lambda: rkhs.Integral.boxes([[1.0]], [[2.0, 3.0]]), "got shapes"),
        (lambda: rkhs.Integral.boxes([1.0], [2.0]), "array of rows"),
        (lambda: rkhs.Integral.segments([[1.0]], [[1.0]]), "two ends that differ"),
        (lambda: rkhs.Integral.polygons([]), "no polygons"),
        (lambda: rkhs.Integral.polygons([[[0.0, 0.0], [1.0, 1.0]]]), "three corners"),
        (lambda: rkhs.Integral.polygons([[[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]]), "no area"),
        (lambda: rkhs.Integral.boxes([[0.0]], [[1.0]], nodes=0), "nodes is"),
    ],
)
def test_regions_that_are_none(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()
