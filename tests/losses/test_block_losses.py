"""Losses of vectors obey the laws, each law catches a loss that breaks it, and known values are met."""

from dataclasses import dataclass, replace
from math import inf

import numpy as np
import pytest

import rkhs
from rkhs._backend.arrays import namespace
from rkhs.losses._blocks import SmoothedBlock
from rkhs.testing import check_loss

LENGTHS = [
    rkhs.Absolute(),
    rkhs.Huber(0.5),
    rkhs.EpsilonInsensitive(0.3),
    rkhs.Squared(),
    rkhs.losses.SquaredEpsilonInsensitive(0.3),
]
RADII = [0.0, 0.3, 2.0]
CLASSES = [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]
RNG = np.random.default_rng(0)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("phi", LENGTHS, ids=repr)
def test_losses_of_lengths_obey(phi, size):
    check_loss(rkhs.GroupNorm(phi, size))
    if size == 2:
        check_loss(rkhs.GroupNorm(phi, size).smoothed(0.5))


@pytest.mark.parametrize("phi", [rkhs.Absolute(), rkhs.losses.SquaredEpsilonInsensitive(0.3)], ids=repr)
def test_envelopes_by_the_prox_alone_obey(phi):
    check_loss(SmoothedBlock(rkhs.GroupNorm(phi, 2), 0.5))


@pytest.mark.parametrize("radius", RADII)
def test_robust_hinges_obey(radius):
    check_loss(rkhs.RobustHinge(radius, 3), targets=CLASSES)
    check_loss(rkhs.RobustHinge(radius).smoothed(0.5), targets=CLASSES)
    with pytest.raises(ValueError, match="class y"):
        check_loss(rkhs.RobustHinge(radius))


def test_the_size_is_that_of_the_targets():
    check_loss(rkhs.GroupNorm())
    check_loss(rkhs.GroupNorm(), targets=[[0.0, 1.0, 2.0, 3.0]])


# Losses that break one law each.


def broken(base, **wrong):
    return dataclass(frozen=True)(type("Broken", (base,), wrong))


def of_group(name, change):
    """A method of GroupNorm, changed."""
    method = getattr(rkhs.GroupNorm, name)
    return {name: lambda self, *args: change(method(self, *args), *args)}


def bump(t):
    """Zero at 0 and 1, where squared lengths of gradients are."""
    return 0.1 * t * (1 - t)


HUBER = rkhs.Huber(0.5)
BROKEN = [
    ("value is finite", of_group("of_vectors", lambda r, v, b: np.where(r > 10, np.nan, r)), {}),
    (
        r"conjugate is finite, at s = \[",
        of_group("conjugates", lambda r, s, b: np.where(np.sum(s * s, axis=1) > 0.5, np.nan, r)),
        {},
    ),
    ("depends on one vector only", of_group("proxes", lambda r, v, b, step: r / len(r)), {}),
    ("loss\\(\\(1 - t\\) u", of_group("of_vectors", lambda r, v, b: r**0.5), {}),
    ("gradient.u. .v - u.", of_group("gradients", lambda r, v, b: 2 * r), {}),
    ("gradient.u. .v - u.", of_group("gradients", lambda r, v, b: r[:, ::-1]), {}),
    ("but has quadratic = True", {"quadratic": True}, {}),
    ("but has separable = True", {"separable": True}, {}),
    ("second derivative in any direction", of_group("curvatures", lambda r, v, b: r / 2), {"loss": HUBER}),
    ("not longer than largest_slope", {"largest_slope": property(lambda self: 0.5, lambda self, value: None)}, {}),
    ("lipschitz", {"lipschitz": property(lambda self: 0.5, lambda self, value: None)}, {"loss": HUBER}),
    ("gradients are in the domain", {"projections": lambda self, s, b: namespace(s).clip(s, -0.5, 0.5)}, {}),
    ("inside of `domain`", {"projections": lambda self, s, b: s}, {}),
    (
        "returns the nearest slope",  # inside of the ball, but not the nearest point
        {"projections": lambda self, s, b: rkhs.GroupNorm.projections(self, namespace(s).clip(s, -1, 1), b)},
        {},
    ),
    ("infinity outside", {"conjugate": lambda self, s, b: self._conjugate(self.project_dual(s, b), b)}, {}),
    ("conjugate\\(s\\) = s u", of_group("conjugates", lambda r, s, b: r + 1), {}),
    ("conjugate\\(s\\) >= s u", of_group("conjugates", lambda r, s, b: r - bump((s**2).sum(axis=1))), {}),
    ("excess = ", of_group("excesses", lambda r, v, b, s: r / 2), {}),
    ("prox.u. minimizes", of_group("proxes", lambda r, v, b, step: b + (r - b) / 2), {}),
    ("an array of steps", of_group("prox", lambda r, u, b, step: r + (np.size(step) > 1)), {}),
    ("envelope: value", {"smoothed": lambda self, width: SmoothedBlock(self, width / 2)}, {}),
    ("excess_increase bounds", {"excess_increase": lambda self, u, b, s, error: 0 * u}, {}),
    ("excess_increase bounds", {"excess_increase": rkhs.extend.Loss.excess_increase}, {}),
    ("its loss in_units", {"in_units": lambda self, unit: (self, unit**-2)}, {"loss": HUBER}),
    ("turns float32 into float64", of_group("gradients", lambda r, v, b: r * np.ones(1)), {}),
]


@pytest.mark.every
@pytest.mark.parametrize(("message", "wrong", "settings"), BROKEN, ids=[case[0] for case in BROKEN])
def test_broken_losses_are_caught(message, wrong, settings):
    loss = broken(rkhs.GroupNorm, **wrong)(**{"size": 2, **settings})
    with pytest.raises(AssertionError, match=message):
        check_block(loss)


def check_block(loss):
    """The laws of losses of vectors, also for a loss that claims to be none."""
    from rkhs.testing._block_losses import check_block_loss

    check_block_loss(loss)


@pytest.mark.parametrize(("phi", "smooth"), [(rkhs.Absolute(), True), (rkhs.Huber(0.5), False)], ids=repr)
def test_a_wrong_flag_is_caught(phi, smooth):
    loss = rkhs.GroupNorm(phi, 2)
    object.__setattr__(loss, "smooth", smooth)
    with pytest.raises(AssertionError, match=f"smooth = {smooth}, but its gradient"):
        check_block(loss)


# Known values.


@pytest.mark.parametrize("phi", LENGTHS, ids=repr)
def test_vectors_of_one_functional_have_the_scalar_loss(phi):
    u, b, group = 2 * RNG.standard_normal((30, 2)), RNG.standard_normal((30, 2)), rkhs.GroupNorm(phi, 1)
    for name in ("value", "gradient", "curvature"):
        expected = getattr(phi, name)(u, b)
        if name == "curvature":  # at least the second derivative
            assert np.all(group.curvature(u, b) >= expected - 1e-14)
        else:
            np.testing.assert_allclose(getattr(group, name)(u, b), expected, atol=1e-14)
    np.testing.assert_allclose(group.prox(u, b, 0.7), phi.prox(u, b, 0.7), atol=1e-14)
    s = phi.gradient(u, b)
    np.testing.assert_allclose(group.conjugate(s, b), phi.conjugate(s, b), atol=1e-13)
    np.testing.assert_allclose(group.excess(u[::-1], b, s), phi.excess(u[::-1], b, s), atol=1e-13)
    np.testing.assert_allclose(group.project_dual(3 * s, b), phi.project_dual(3 * s, b), rtol=1e-15)


def test_a_ball_of_radius_zero_leaves_the_hinge_of_the_value():
    u, y = 2 * RNG.standard_normal((20, 3)), RNG.choice([-1.0, 1.0], 20)
    b = np.stack([y, 0 * y, 0 * y], axis=1)
    robust, hinge = rkhs.RobustHinge(0.0, 3), rkhs.Hinge()
    np.testing.assert_allclose(robust.value(u.ravel(), b.ravel()).reshape(-1, 3).sum(axis=1), hinge.value(u[:, 0], y))
    prox = robust.prox(u.ravel(), b.ravel(), 0.7).reshape(-1, 3)
    np.testing.assert_allclose(prox[:, 0], hinge.prox(u[:, 0], y, 0.7))
    np.testing.assert_allclose(prox[:, 1:], u[:, 1:])
    gradient = robust.gradient(u.ravel(), b.ravel()).reshape(-1, 3)
    np.testing.assert_allclose(gradient, np.stack([hinge.gradient(u[:, 0], y), 0 * y, 0 * y], axis=1))


def test_values_on_paper():
    v, b = np.array([4.0, 4.0, 1.0, 0.0]), np.array([1.0, 0.0, 1.0, 0.0])  # two vectors of distances 5 and 0
    for phi, known in [
        (rkhs.Absolute(), 5.0),
        (rkhs.Huber(0.5), 4.75),
        (rkhs.EpsilonInsensitive(0.3), 4.7),
        (rkhs.Squared(), 25.0),
        (rkhs.losses.SquaredEpsilonInsensitive(1.0), 16.0),
    ]:
        np.testing.assert_allclose(rkhs.GroupNorm(phi, 2).value(v, b), [known / 2, known / 2, 0, 0], rtol=1e-15)
    shrunk = rkhs.GroupNorm(size=2).prox(v, b, 2.0)
    np.testing.assert_allclose(shrunk, [1 + 3 * 0.6, 4 * 0.6, 1, 0], rtol=1e-15)
    np.testing.assert_allclose(rkhs.GroupNorm(size=2).project_dual(v, b), [0.5**0.5, 0.5**0.5, 1, 0], rtol=1e-15)
    jet, y = np.array([-1.0, 3.0, 4.0]), np.array([1.0, 0.0, 0.0])
    robust = rkhs.RobustHinge(2.0, 3)
    np.testing.assert_allclose(robust.value(jet, y).sum(), 1 + 1 + 2 * 5, rtol=1e-15)
    np.testing.assert_allclose(robust.gradient(jet, y), [-1, 2 * 0.6, 2 * 0.8], rtol=1e-15)
    np.testing.assert_allclose(robust.prox(jet, y, 0.5), [-0.5, 3 - 0.6, 4 - 0.8], rtol=1e-14)
    np.testing.assert_allclose(robust.project_dual(np.array([5.0, 0.0, 1.0]), y), [0, 0, 0], atol=1e-15)  # the tip
    np.testing.assert_allclose(robust.project_dual(np.array([-9.0, 0.0, 9.0]), y), [-1, 0, 2], rtol=1e-15)
    np.testing.assert_allclose(robust.project_dual(np.array([0.0, 0.0, 2.5]), y), [-1, 0, 2], rtol=1e-15)


def test_steps_of_values_and_gradients():
    """In units of the gradient in which both steps are equal, the prox is that of another radius."""
    u, y = 2 * RNG.standard_normal((20, 3)), RNG.choice([-1.0, 1.0], 20)
    b, unit = np.stack([y, 0 * y, 0 * y], axis=1), np.array([1.0, 1e3, 1e3])
    given = rkhs.RobustHinge(0.5, 3).prox(u.ravel(), b.ravel(), 0.7).reshape(-1, 3)
    steps = np.tile(0.7 * unit**2, 20)
    other = rkhs.RobustHinge(0.5e-3, 3).prox((unit * u).ravel(), b.ravel(), steps).reshape(-1, 3)
    np.testing.assert_allclose(other / unit, given, atol=1e-12)


def test_steps_of_each_vector():
    u, b, steps = RNG.standard_normal(6), RNG.standard_normal(6), np.repeat([0.1, 0.5, 2.0], 2)
    together = rkhs.GroupNorm(size=2).prox(u, b, steps)
    for k in range(3):
        pair = slice(2 * k, 2 * k + 2)
        np.testing.assert_allclose(together[pair], rkhs.GroupNorm(size=2).prox(u[pair], b[pair], steps[2 * k]))


@pytest.mark.parametrize(
    "phi", [rkhs.Huber(0.5), rkhs.Squared(), rkhs.Absolute().smoothed(0.5), rkhs.Huber(0.5).smoothed(2.0)], ids=repr
)
def test_the_curvature_majorizes(phi):
    """For an interval that is a point, phi(r) is concave in r^2: the parabola touches the loss from above."""
    loss, b = rkhs.GroupNorm(phi, 3), np.zeros((300, 1))
    u, v = (10 ** RNG.uniform(-2, 1, (300, 1)) * RNG.standard_normal((300, 1)) for _ in range(2))
    parabola = loss.value(u, b) + loss.gradient(u, b) * (v - u) + loss.curvature(u, b) * (v - u) ** 2 / 2
    excess = (loss.value(v, b) - parabola).reshape(-1, 3).sum(axis=1)
    assert np.all(excess <= 1e-12 * (1 + np.abs(parabola).reshape(-1, 3).sum(axis=1)))


def test_the_envelope_of_a_length_is_that_of_its_loss():
    u, b = RNG.standard_normal((12, 2)), RNG.standard_normal((12, 2))
    for phi in LENGTHS:
        loss = rkhs.GroupNorm(phi, 3)
        closed, by_prox = loss.smoothed(0.3), SmoothedBlock(loss, 0.3)
        assert isinstance(closed, rkhs.GroupNorm)
        for name in ("value", "gradient"):
            np.testing.assert_allclose(getattr(closed, name)(u, b), getattr(by_prox, name)(u, b), atol=1e-14)


# Parameters.


def test_sizes_and_losses_that_are_refused():
    assert rkhs.GroupNorm().of_family((5, 3)) == rkhs.GroupNorm(size=3)
    assert rkhs.GroupNorm(size=2).of_family((5, 4)) == rkhs.GroupNorm(size=2)
    for size in (0, 4):
        with pytest.raises(ValueError, match="do not divide"):
            rkhs.GroupNorm(size=size).of_family((5, 3))
    with pytest.raises(ValueError, match="pass size="):
        rkhs.GroupNorm().value(np.zeros(4), np.zeros(4))
    for phi in (rkhs.Hinge(), rkhs.Quantile(0.2), rkhs.OneSided(), rkhs.Logistic(), 1.0):
        with pytest.raises(TypeError, match="symmetric loss"):
            rkhs.GroupNorm(phi)
    for radius in (-1.0, inf, np.nan):
        with pytest.raises(ValueError, match="radius"):
            rkhs.RobustHinge(radius)
    assert replace(rkhs.RobustHinge(1.0), radius=2.0).largest_slope == pytest.approx(5**0.5)
