"""Polynomials around the middle of points: the same functions, on a basis that keeps its digits."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

import rkhs
from rkhs.extend import Atoms, to_numpy

RNG = np.random.default_rng(0)
LINEAR = (None, np.array([2.0, -0.5]), np.array([[1.0, 2.0], [0.5, -1.0], [0.0, 3.0]]))
BLURS = (None, np.array([0.5, 2.0]), np.array([[1.0, 0.3], [0.3, 0.5]]))


def atoms(points, order=0, blur=None):
    return Atoms(points, np.random.default_rng(order).standard_normal((3, order, 2)), blur)


@pytest.mark.parametrize("blur", BLURS, ids=["sharp", "diagonal", "full"])
@pytest.mark.parametrize("linear", LINEAR, ids=["plain", "scales", "matrix"])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_the_span_is_the_same(linear, blur, order):
    """Values at 60 points give each centered monomial as a sum of plain ones, and the same sum holds for any atoms."""
    points = 3.0 + RNG.standard_normal((60, 2))
    plain = rkhs.Polynomials(2, linear)
    centered = plain.centered(points)
    values = Atoms.values(points)
    change = np.linalg.lstsq(plain.on(values), centered.on(values), rcond=None)[0]
    back = np.linalg.lstsq(centered.on(values), plain.on(values), rcond=None)[0]
    some = atoms(points, order, blur)
    np.testing.assert_allclose(plain.on(some) @ change, centered.on(some), atol=1e-10)
    np.testing.assert_allclose(centered.on(some) @ back, plain.on(some), atol=1e-9)


def test_the_monomials_of_the_coordinates():
    points = RNG.uniform(4.0, 10.0, (40, 2)).round(2)
    space = rkhs.Polynomials(2).centered(points)
    z = (points - space.center) / space.scale
    assert np.max(np.abs(z)) <= 1
    assert np.all(np.max(np.abs(z), axis=0) > 0.5 - 1e-12)
    direct = np.stack([np.ones(40), z[:, 0], z[:, 1], z[:, 0] ** 2, z[:, 0] * z[:, 1], z[:, 1] ** 2], axis=1)
    np.testing.assert_allclose(rkhs.Evaluation(points)(space), direct, rtol=1e-14, atol=1e-15)


@settings(max_examples=40, deadline=None)
@given(
    degree=st.integers(0, 3),
    offset=st.sampled_from([0.0, 1e3, -1.7e9, 1e15]),
    unit=st.sampled_from([1e-6, 1.0, 2.0**20]),
    seed=st.integers(0, 100),
)
def test_nothing_is_lost_far_from_the_origin(degree, offset, unit, seed):
    """With points that the shift does not round, values after it are those before it, to the last digit."""
    points = np.random.default_rng(seed).integers(-8, 8, (12, 2)) * 1.0
    here, there = ((points + shift) * scale for shift, scale in ((0.0, 1.0), (offset if unit != 1e-6 else 0.0, unit)))
    one, other = (rkhs.Evaluation(p)(rkhs.Polynomials(degree).centered(p)) for p in (here, there))
    if unit == 1e-6:  # another power of two
        one, other = (m / np.where(np.abs(m).max(axis=0) > 0, np.abs(m).max(axis=0), 1) for m in (one, other))
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
    else:
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("linear", LINEAR, ids=["plain", "scales", "matrix"])
@pytest.mark.parametrize("order", [0, 1, 2])
def test_magnitudes(linear, order):
    points = RNG.standard_normal((20, 2))
    some = atoms(points, order, BLURS[2])
    for space in (rkhs.Polynomials(3, linear), rkhs.Polynomials(3, linear).centered(points)):
        assert np.all(np.abs(space.on(some)) <= space.magnitude(some) * (1 + 1e-14))
    sharp = Atoms.values(points)
    plain = rkhs.Polynomials(3)
    np.testing.assert_allclose(plain.magnitude(sharp), np.abs(plain.on(sharp)), rtol=1e-14)


def test_magnitudes_of_ones_own_functions():
    """A function that crosses zero has a magnitude there, where its average is made of both sides."""
    plane = rkhs.Functions(lambda Z: Z, gradient=lambda Z: np.broadcast_to(np.eye(2), (len(Z), 2, 2)))
    blurred = Atoms.values(np.zeros((1, 2)), blur=np.ones(2))
    np.testing.assert_allclose(plane.on(blurred), 0, atol=1e-14)
    assert np.all(plane.magnitude(blurred) > 0.5)
    slope = Atoms(np.zeros((1, 2)), np.array([[[1.0, -1.0]]]))
    np.testing.assert_array_equal(plane.magnitude(slope), [[1.0, 1.0]])
    both = rkhs.Problem(
        rkhs.kernels.Polyharmonic(3), [rkhs.Term(rkhs.Evaluation(np.eye(2)), rkhs.Squared())], plane
    ).represented
    assert both.basis.space.magnitude(blurred).shape == (1, 5)


def test_what_stays_as_it_is():
    points = np.ones((3, 2))
    for space in (rkhs.Constant(), rkhs.Polynomials(-1), rkhs.Functions(np.sin)):
        assert space.centered(points) is space
    centered = rkhs.Polynomials(1).centered(points)
    assert centered.centered(points + 7.0) is centered
    assert rkhs.Polynomials(1).centered(points[:0]) == rkhs.Polynomials(1)
    np.testing.assert_array_equal(centered.scale, [1.0, 1.0])
    assert repr(centered) == "Polynomials(degree=1, centered)"


def test_equal_spaces():
    points = RNG.standard_normal((5, 2))
    one, other = (rkhs.Polynomials(2, LINEAR[1]).centered(points) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert one != rkhs.Polynomials(2, LINEAR[1])
    assert one != rkhs.Polynomials(2).centered(points)
    assert rkhs.Polynomials(2) == rkhs.Polynomials(2) != rkhs.Polynomials(1)
    assert rkhs.Polynomials(0) != "a text"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors(dtype):
    points = torch.asarray(2.0**20 + RNG.integers(-8, 8, (12, 2)), dtype=dtype)
    space = rkhs.Polynomials(2).centered(to_numpy(points))
    found = rkhs.Gradient(points)(space)
    assert found.dtype == dtype
    np.testing.assert_array_equal(to_numpy(found), rkhs.Gradient(to_numpy(points).astype(np.float64))(space))
