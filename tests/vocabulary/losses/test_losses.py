"""Every loss obeys the laws, each law catches a loss that breaks it, and known values are met."""

from dataclasses import dataclass, replace
from math import inf

import mpmath
import numpy as np
import pytest
import scipy.special
import sklearn.metrics
import torch
from hypothesis import given, strategies as st

import rkhs
from refusals import refused
from rkhs.extend import namespace, to_numpy
from rkhs.losses import Smoothed, _interval
from rkhs.losses._interval import shifted
from rkhs.testing import _losses as laws, check_loss

LOSSES = [
    rkhs.Squared(),
    rkhs.losses.Absolute(),
    rkhs.losses.EpsilonInsensitive(0.1),
    rkhs.losses.EpsilonInsensitive(0.0),
    rkhs.losses.SquaredEpsilonInsensitive(0.3),
    rkhs.Huber(0.5),
    rkhs.Huber(1e6),
    rkhs.Quantile(0.2),
    rkhs.Quantile(0.9),
    rkhs.losses.OneSided(),
    rkhs.losses.SquaredOneSided(),
    rkhs.Logistic(),
    rkhs.Hinge(),
    rkhs.SquaredHinge(),
    rkhs.losses.SmoothedHinge(0.5),
    rkhs.losses.SmoothedHinge(1e-6),
]
LENGTHS = [
    rkhs.losses.Absolute(),
    rkhs.Huber(0.5),
    rkhs.losses.EpsilonInsensitive(0.3),
    rkhs.Squared(),
    rkhs.losses.SquaredEpsilonInsensitive(0.3),
]
VECTORS = [
    *(rkhs.losses.GroupNorm(phi, size) for phi in LENGTHS for size in (1, 2, 3)),
    *(rkhs.losses.GroupNorm(phi, 2).smoothed(0.5) for phi in LENGTHS),
    *(rkhs.extend.BlockLoss.smoothed(rkhs.losses.GroupNorm(phi, 2), 0.5) for phi in LENGTHS),
    rkhs.losses.GroupNorm(),
]
MARGINS = [rkhs.losses.RobustHinge(radius, 3) for radius in (0.0, 0.3, 2.0)]
EXTREME = np.array([0.0, 1e-300, 1e-12, 0.5, 1.0, 30.0, 800.0, 1e8, 1e30, 1e150])
RNG = np.random.default_rng(0)
STEPS = 10.0 ** np.arange(-12, 13, 4)

anything = st.floats(-1e6, 1e6)
losses = st.sampled_from(LOSSES)


def target(loss, size=1.0):
    return np.sign(size) if loss.classification else size


@dataclass(frozen=True)
class ThreeHalves(rkhs.extend.Loss):
    """loss = |u - b|^(3/2): its gradient is continuous, but not Lipschitz."""

    def value(self, u, b):
        return abs(u - b) ** 1.5

    def gradient(self, u, b):
        return 1.5 * namespace(u).sign(u - b) * abs(u - b) ** 0.5

    def curvature(self, u, b):
        xp = namespace(u)
        r = abs(u - b)
        return 0.75 / xp.where(r > 0, r, xp.ones_like(r)) ** 0.5

    def prox(self, u, b, step):
        r = abs(u - b)
        root = 2 * r / (1.5 * step + (2.25 * step**2 + 4 * r) ** 0.5)
        return b + namespace(u).sign(u - b) * root**2

    def _conjugate(self, s, b):
        return s * b + 4 / 27 * abs(s) ** 3

    def domain(self, b):
        return b * 0 - np.inf, b * 0 + np.inf


@pytest.mark.every
@pytest.mark.parametrize("loss", [*LOSSES, rkhs.losses.Poisson(), ThreeHalves()], ids=repr)
def test_every_loss_obeys(loss):
    check_loss(loss)


@pytest.mark.parametrize("width", [0.02, 0.5])
@pytest.mark.parametrize("loss", [*LOSSES, ThreeHalves()], ids=repr)
def test_every_envelope_obeys(loss, width):
    for envelope in {loss.smoothed(width), Smoothed(loss, width)}:  # the second by the prox alone
        check_loss(envelope)


@pytest.mark.parametrize("loss", VECTORS, ids=repr)
def test_losses_of_vectors_obey(loss):
    check_loss(loss)


@pytest.mark.parametrize("loss", [*MARGINS, *(loss.smoothed(0.5) for loss in MARGINS)], ids=repr)
def test_robust_hinges_obey(loss):
    check_loss(loss, targets=[[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match="class y"):
        check_loss(loss)


# Losses that break one law each.


def broken(base, **wrong):
    """A loss with one thing wrong."""
    return dataclass(frozen=True)(type("Broken", (base,), wrong))


def _doubled_for_one_class(name):
    def doubled(self, u, b):
        return getattr(rkhs.Hinge, name)(self, u, b) * (1.5 + 0.5 * b)

    return doubled


def _truncated(u, b):
    return namespace(u).minimum((u - b) ** 2, 1.0 + 0 * u)


def of_group(name, change):
    """A method of GroupNorm, changed."""
    method = getattr(rkhs.losses.GroupNorm, name)
    return {name: lambda self, *args: change(method(self, *args), *args)}


HUBER = {"delta": 0.5}
BROKEN = [
    ("gives value of shape", rkhs.Squared, {"value": lambda self, u, b: ((u - b) ** 2).sum()}, {}),
    ("value is finite", rkhs.Squared, {"value": lambda self, u, b: np.where(u == b, np.nan, (u - b) ** 2)}, {}),
    (
        r"^Broken\(delta=0.5\) breaks .* conjugate is not NaN, also at the ends of its domain, at s = -1.0, b = -1.5",
        rkhs.Huber,
        {"_conjugate": lambda self, s, b: np.where(s == -1, np.nan, rkhs.Huber._conjugate(self, s, b))},
        HUBER,
    ),
    ("prox depends on one vector only", rkhs.Squared, {"prox": lambda self, u, b, step: u / len(u)}, {}),
    (r"loss\(\(1 - t\) u", rkhs.Squared, {"value": lambda self, u, b: _truncated(u, b)}, {}),
    ("gradient.u. .v - u.", rkhs.Squared, {"gradient": lambda self, u, b: u - b}, {}),
    ("gradient.u. .v - u.", rkhs.Logistic, {"gradient": lambda self, u, b: -b / 2 + 0 * u}, {}),
    ("curvature = ", rkhs.Squared, {"curvature": lambda self, u, b: 0 * u + 1 + 0 * b}, {}),
    ("smooth = True, but its gradient jumps near u = ", rkhs.losses.Absolute, {"smooth": True}, {}),
    ("smooth = True, but its gradient jumps near u = ", ThreeHalves, {"smooth": True}, {}),
    ("smooth = False, but its gradient is Lipschitz", rkhs.Huber, {"smooth": False}, HUBER),
    (
        "grows faster than linearly",
        rkhs.Squared,
        {
            "quadratic": False,
            "value": lambda self, u, b: abs(u - b) ** 3,
            "gradient": lambda self, u, b: 3 * abs(u - b) * (u - b),
            "curvature": lambda self, u, b: 6 * abs(u - b),
        },
        {},
    ),
    (r"quadratic = False, but it is \(u", rkhs.Squared, {"quadratic": False}, {}),
    ("quadratic = True, but it is not", rkhs.Huber, {"quadratic": True}, HUBER),
    ("attained = True, but 0 does not", rkhs.Logistic, {"attained": True}, {}),
    ("attained = False, but 0 does", rkhs.Hinge, {"attained": False}, {}),
    (
        r"loss\(-u; -b\) = loss\(u; b\)",
        rkhs.Hinge,
        {"value": _doubled_for_one_class("value"), "gradient": _doubled_for_one_class("gradient")},
        {},
    ),
    ("gradients are in the domain", rkhs.Huber, {"domain": lambda self, b: (b * 0 - 0.5, b * 0 + 1.0)}, HUBER),
    ("the lower end", rkhs.Huber, {"domain": lambda self, b: (b * 0 - 1.1, b * 0 + 1.0)}, HUBER),
    ("the upper end", rkhs.Huber, {"domain": lambda self, b: (b * 0 - 1.0, b * 0 + np.inf)}, HUBER),
    ("infinity outside", rkhs.losses.Absolute, {"conjugate": lambda self, s, b: s * b}, {}),
    (r"conjugate\(s\) = s u", rkhs.Squared, {"_conjugate": lambda self, s, b: s * b + s**2 / 2}, {}),
    (r"conjugate\(s\) >= s u", rkhs.losses.Absolute, {"_conjugate": lambda self, s, b: s * b - (s**2 - s**4)}, {}),
    ("excess = ", rkhs.losses.Absolute, {"_conjugate": lambda self, s, b: s * b + (s**2 - s**4)}, {}),
    ("prox.u. minimizes", rkhs.Squared, {"prox": lambda self, u, b, step: (u + step * b) / (1 + step)}, {}),
    ("prox.u. minimizes", rkhs.losses.Absolute, {"prox": lambda self, u, b, step: b + 0 * u}, {}),
    (
        "an array of steps",
        rkhs.Squared,
        {"prox": lambda self, u, b, step: (u + 2 * np.min(step) * b * (1 + (np.size(step) > 1))) / (1 + 2 * step)},
        {},
    ),
    ("envelope: value", rkhs.Hinge, {"smoothed": lambda self, width: rkhs.SquaredHinge()}, {}),
    ("envelope: value", rkhs.losses.Absolute, {"smoothed": lambda self, width: Smoothed(self, width / 2)}, {}),
    ("its loss in_units", rkhs.Huber, {"in_units": lambda self, unit: (self, unit**-2)}, HUBER),
    ("turns float32 into float64", rkhs.losses.Absolute, {"slopes": (np.float64(1.0), np.float64(1.0))}, {}),
    (
        "PyTorch = NumPy",
        rkhs.Squared,
        {"_conjugate": lambda self, s, b: s * (b + s / (4 if isinstance(s, np.ndarray) else 5))},
        {},
    ),
]


BROKEN_VECTORS = [  # what the laws demand of vectors beyond the above
    (
        r"conjugate is finite, at s = \[",
        of_group("conjugates", lambda r, s, b: np.where(np.sum(s * s, axis=1) > 0.5, np.nan, r)),
        {},
    ),
    ("gradient.u. .v - u.", of_group("gradients", lambda r, v, b: r[:, ::-1]), {}),
    ("but has quadratic = True", {"quadratic": True}, {}),
    ("but has separable = True", {"separable": True}, {}),
    ("second derivative in any direction", of_group("curvatures", lambda r, v, b: r / 2), {"loss": rkhs.Huber(0.5)}),
    ("not longer than largest_slope", {"largest_slope": property(lambda self: 0.5, lambda self, value: None)}, {}),
    ("lipschitz", {"lipschitz": property(lambda self: 0.5, lambda self, value: None)}, {"loss": rkhs.Huber(0.5)}),
    ("inside of `domain`", {"projections": lambda self, s, b: s}, {}),
    (
        "returns the nearest slope",  # inside of the ball, but not the nearest point
        {"projections": lambda self, s, b: rkhs.losses.GroupNorm.projections(self, namespace(s).clip(s, -1, 1), b)},
        {},
    ),
    ("infinity outside", {"conjugate": lambda self, s, b: self._conjugate(self.project_dual(s, b), b)}, {}),
    ("excess = ", of_group("excesses", lambda r, v, b, s: r / 2), {}),
    ("excess_increase bounds", {"excess_increase": lambda self, u, b, s, error: 0 * u}, {}),
    ("excess_increase bounds", {"excess_increase": rkhs.extend.Loss.excess_increase}, {}),
]
BROKEN += [
    (message, rkhs.losses.GroupNorm, wrong, {"size": 2, **settings}) for message, wrong, settings in BROKEN_VECTORS
]


@pytest.mark.every
@pytest.mark.parametrize(("message", "base", "wrong", "settings"), BROKEN, ids=[case[0] for case in BROKEN])
def test_broken_losses_are_caught(message, base, wrong, settings):
    with pytest.raises(AssertionError, match=message):
        check_loss(broken(base, **wrong)(**settings))


FAR = {"prox": lambda self, u, b, step: 1.5 * u - 0.5 * b}
BETWEEN = {"_conjugate": lambda self, s, b: s * b + (s**2 - s**4)}


@pytest.mark.parametrize(("law", "wrong"), [(laws._non_expansive, FAR), (laws._moreau, FAR), (laws._moreau, BETWEEN)])
def test_laws_that_others_imply_can_fail_too(law, wrong):
    law(laws.LossSample.of(rkhs.losses.Absolute()))
    with pytest.raises(AssertionError, match="prox"):
        law(laws.LossSample.of(broken(rkhs.losses.Absolute, **wrong)()))


# Known values.


def test_values_of_scikit_learn():
    rng = np.random.default_rng(0)
    u, y = 3 * rng.standard_normal(50), rng.choice([-1.0, 1.0], 50)
    b = rng.standard_normal(50)
    log_loss = sklearn.metrics.log_loss(y, scipy.special.expit(u), labels=[-1, 1])
    for loss, target, mean in (
        (rkhs.Logistic(), y, log_loss),
        (rkhs.Hinge(), y, sklearn.metrics.hinge_loss(y, u)),
        (rkhs.Squared(), b, sklearn.metrics.mean_squared_error(b, u)),
        (rkhs.losses.Absolute(), b, sklearn.metrics.mean_absolute_error(b, u)),
        *((rkhs.Quantile(t), b, sklearn.metrics.mean_pinball_loss(b, u, alpha=t)) for t in (0.1, 0.5, 0.8)),
    ):
        np.testing.assert_allclose(loss.value(u, target).mean(), mean, rtol=1e-12)


def test_values_of_scipy():
    """SciPy's Huber function has r^2 / 2 near the target, ours r^2."""
    u, b = np.linspace(-3, 4, 29), np.linspace(0, 1, 29)
    for delta in (0.3, 1.0, 20.0):
        np.testing.assert_allclose(rkhs.Huber(delta).value(u, b), 2 * scipy.special.huber(delta, u - b), rtol=1e-14)


def test_values_on_paper():
    u, b = np.array([-2.0, 0.75, 1.5, 3.0]), np.array([1.0, 1.0, 1.0, 1.0])
    known = {
        rkhs.losses.EpsilonInsensitive(0.5): [2.5, 0, 0, 1.5],
        rkhs.losses.SquaredEpsilonInsensitive(0.5): [6.25, 0, 0, 2.25],
        rkhs.losses.OneSided(): [3, 0.25, 0, 0],
        rkhs.losses.SquaredOneSided(): [9, 0.0625, 0, 0],
        rkhs.SquaredHinge(): [9, 0.0625, 0, 0],
        rkhs.losses.SmoothedHinge(0.5): [2.75, 0.0625, 0, 0],
        rkhs.Hinge().smoothed(0.5): [2.75, 0.0625, 0, 0],
    }
    for loss, values in known.items():
        np.testing.assert_allclose(loss.value(u, b), values, rtol=1e-15)


def test_curvature_at_the_target():
    """Where the loss is a parabola on both sides, and where it is flat."""
    b = np.array([-1.0, 1.0])
    for loss, known in [
        (rkhs.Squared(), 2),
        (rkhs.Huber(0.5), 2),
        (rkhs.losses.SmoothedHinge(0.5), 0),
        (rkhs.losses.Absolute().smoothed(0.25), 4),
        (rkhs.losses.SquaredEpsilonInsensitive(0.1), 0),
        (rkhs.Logistic(), 1 / (2 + 2 * np.cosh(1.0))),
    ]:
        np.testing.assert_allclose(loss.curvature(b, b), known, rtol=1e-15)


def test_huber_tends_to_squared():
    u, b = np.linspace(-3, 4, 29), np.linspace(0, 1, 29)
    huber, squared = rkhs.Huber(1e300), rkhs.Squared()
    for name in ("value", "gradient", "curvature", "conjugate"):
        np.testing.assert_allclose(getattr(huber, name)(u, b), getattr(squared, name)(u, b), rtol=1e-15)
    np.testing.assert_array_equal(huber.prox(u, b, 3.0), squared.prox(u, b, 3.0))


def _logistic_prox(m, step):
    """The root of v - m = step / (1 + exp(v)), by bisection in many digits."""
    with mpmath.workdps(50):
        low, high = mpmath.mpf(m), mpmath.mpf(m) + mpmath.mpf(step)
        for _ in range(300):
            v = (low + high) / 2
            low, high = (v, high) if v - m < step / (1 + mpmath.exp(v)) else (low, v)
        return float(v)


@pytest.mark.parametrize("step", STEPS)
def test_prox_of_the_logistic_loss(step):
    margins = np.array([1e-3, 0.3, 1.0, 5.0, 40.0, 800.0])
    m = np.concatenate([[0.0], margins, -margins, -step * np.array([0.1, 0.3, 0.5, 0.7, 1.0, 1.1])])
    one, expected = np.ones(len(m)), np.array([_logistic_prox(v, step) for v in m])
    for sign in (1, -1):
        v = rkhs.Logistic().prox(sign * m, sign * one, step)
        np.testing.assert_allclose(sign * v, expected, rtol=2e-15, atol=1e-15 * min(1.0, step))


def test_prox_of_the_logistic_loss_takes_few_steps(monkeypatch):

    rng = np.random.default_rng(0)
    step = 10 ** rng.uniform(-12, 12, 2000)
    calls = []
    softplus = _interval._softplus
    monkeypatch.setattr(_interval, "_softplus", lambda t: calls.append(None) or softplus(t))
    for m in (rng.standard_normal(2000) * 10 ** rng.uniform(-12, 14, 2000), -step * rng.uniform(size=2000)):
        calls.clear()
        rkhs.Logistic().prox(m, np.ones(2000), step)
        assert len(calls) <= 1 + 5  # one for the start, and one a step


# Extremes, for which warnings are errors.


@pytest.mark.every("loss")
@pytest.mark.parametrize("width", [None, 1e-12, 1e12])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_nothing_overflows(loss, width):
    loss = loss if width is None else loss.smoothed(width)
    u = np.concatenate([EXTREME, -EXTREME])[:, None]
    b = np.array([-1.0, 1.0]) if loss.classification else np.concatenate([EXTREME, -EXTREME])
    tables = [loss.value(u, b), loss.gradient(u, b), loss.curvature(u, b)]
    for step in STEPS.tolist():
        tables += [loss.prox(u, b, step), loss.prox(u, b, np.full(u.shape, step))]
        np.testing.assert_array_equal(tables[-1], tables[-2])
    low, high = loss.domain(b)
    tables += [loss.conjugate(tables[1], b), loss.conjugate(np.clip(np.zeros(b.shape), low, high), b)]
    assert all(np.all(np.isfinite(table)) for table in tables)
    for end, sign in ((low, -1), (high, 1)):
        finite = np.isfinite(end)
        assert np.all(loss.conjugate(end[finite] + sign, b[finite]) == np.inf)


@pytest.mark.every("loss")
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_single_precision_stays(loss):
    """With settings, steps and weights that are NumPy scalars, too."""
    if hasattr(loss, "delta"):
        loss = replace(loss, delta=np.float64(loss.delta))
    u = np.array([-1e18, -3.0, 0.0, 0.3, 1.0, 1e18], dtype=np.float32)
    b = np.ones(6, dtype=np.float32)
    for step in (1e-12, np.float64(0.5), 1e12, np.full(6, 0.5)):
        for xp, at, to in ((np, u, b), (torch, torch.asarray(u), torch.asarray(b))):
            results = [loss.value(at, to), loss.gradient(at, to), loss.curvature(at, to), loss.prox(at, to, step)]
            results += [loss.conjugate(at, to), *loss.domain(to)]
            assert all(r.dtype == xp.float32 for r in results)
            assert all(np.all(np.isfinite(to_numpy(r))) for r in results[:4])


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_empty_arrays_and_scalars(loss):
    none = np.zeros((0, 2))
    tables = [loss.value(none, none), loss.gradient(none, none), loss.curvature(none, none)]
    tables += [loss.prox(none, none, 1.0), loss.conjugate(none, none), *loss.domain(none)]
    assert all(table.shape == (0, 2) for table in tables)
    u, b = np.asarray(0.3), np.asarray(1.0)
    assert loss.value(u, b) == loss.value(u[None], b[None])[0]
    assert loss.prox(u, b, 2.0) == loss.prox(u[None], b[None], 2.0)[0]
    assert loss.conjugate(u, b) == loss.conjugate(u[None], b[None])[0]


def test_the_prox_lands_on_kinks_exactly():
    """So that a solver can count the representers that are not active."""
    rng = np.random.default_rng(0)
    u, b = rng.standard_normal(100), 10 * rng.standard_normal(100)
    np.testing.assert_array_equal(rkhs.losses.Absolute().prox(u, b, 1e3), b)
    np.testing.assert_array_equal(rkhs.Quantile(0.3).prox(u, b, 1e3), b)
    np.testing.assert_array_equal(rkhs.Hinge().prox(u / 10, np.sign(b), 1e3), np.sign(b))
    np.testing.assert_array_equal(rkhs.losses.SquaredOneSided().prox(b + abs(u), b, 3.0), b + abs(u))


def test_not_a_number_stays():
    nan = np.array([np.nan])
    for loss in LOSSES:
        assert np.isnan(loss.conjugate(nan, np.ones(1)))
        assert np.isnan(loss.prox(nan, np.ones(1), 1.0))


NEEDS = r"needs (0 < )?(epsilon|delta|width|tau)"
test_settings_are_checked = refused(
    *((lambda e=e: rkhs.losses.EpsilonInsensitive(e), NEEDS) for e in (-0.1, np.nan)),
    (lambda: rkhs.losses.SquaredEpsilonInsensitive(np.inf), NEEDS),
    *((lambda d=d: rkhs.Huber(d), NEEDS) for d in (0, np.nan)),
    (lambda: rkhs.losses.SmoothedHinge(-1), NEEDS),
    *((lambda q=q: rkhs.Quantile(q), NEEDS) for q in (1.0, 0)),
    (lambda: Smoothed(rkhs.Hinge(), 0.0), NEEDS),
    (lambda: rkhs.Hinge().smoothed(np.inf), NEEDS),
    *((lambda s=s: rkhs.losses.GroupNorm(size=s).of_family((5, 3)), "do not divide") for s in (0, 4)),
    (lambda: rkhs.losses.GroupNorm().value(np.zeros(4), np.zeros(4)), "pass size="),
    *(
        (lambda phi=phi: rkhs.losses.GroupNorm(phi), "symmetric loss", TypeError)
        for phi in (rkhs.Hinge(), rkhs.Quantile(0.2), rkhs.losses.OneSided(), rkhs.Logistic(), 1.0)
    ),
    *((lambda r=r: rkhs.losses.RobustHinge(r), "radius") for r in (-1.0, inf, np.nan)),
    (lambda: rkhs.losses.Absolute(epsilon=1.0), "epsilon", TypeError),
)


# Laws at any point.


@given(losses, anything, anything, st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_envelopes_of_envelopes(loss, u, b, one, two):
    """Smoothing by h and then by k is smoothing by h + k."""
    u, b = np.array([u]), np.array([target(loss, b or 1.0)])
    twice, once = loss.smoothed(one).smoothed(two), loss.smoothed(one + two)
    rounding = 8 * np.finfo(np.float64).eps * abs(u[0]) / min(one, two)  # of (u - prox) / width
    np.testing.assert_allclose(twice.value(u, b), once.value(u, b), rtol=1e-9 + rounding, atol=1e-9)
    np.testing.assert_allclose(twice.gradient(u, b), once.gradient(u, b), rtol=1e-9, atol=1e-9 + rounding)


# Losses of vectors.


@pytest.mark.parametrize("phi", LENGTHS, ids=repr)
def test_vectors_of_one_functional_have_the_scalar_loss(phi):
    u, b, group = 2 * RNG.standard_normal((30, 2)), RNG.standard_normal((30, 2)), rkhs.losses.GroupNorm(phi, 1)
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
    robust, hinge = rkhs.losses.RobustHinge(0.0, 3), rkhs.Hinge()
    np.testing.assert_allclose(robust.value(u.ravel(), b.ravel()).reshape(-1, 3).sum(axis=1), hinge.value(u[:, 0], y))
    prox = robust.prox(u.ravel(), b.ravel(), 0.7).reshape(-1, 3)
    np.testing.assert_allclose(prox[:, 0], hinge.prox(u[:, 0], y, 0.7))
    np.testing.assert_allclose(prox[:, 1:], u[:, 1:])
    gradient = robust.gradient(u.ravel(), b.ravel()).reshape(-1, 3)
    np.testing.assert_allclose(gradient, np.stack([hinge.gradient(u[:, 0], y), 0 * y, 0 * y], axis=1))


def test_lengths_on_paper():
    v, b = np.array([4.0, 4.0, 1.0, 0.0]), np.array([1.0, 0.0, 1.0, 0.0])  # two vectors of distances 5 and 0
    for phi, known in [
        (rkhs.losses.Absolute(), 5.0),
        (rkhs.Huber(0.5), 4.75),
        (rkhs.losses.EpsilonInsensitive(0.3), 4.7),
        (rkhs.Squared(), 25.0),
        (rkhs.losses.SquaredEpsilonInsensitive(1.0), 16.0),
    ]:
        np.testing.assert_allclose(rkhs.losses.GroupNorm(phi, 2).value(v, b), [known / 2, known / 2, 0, 0], rtol=1e-15)
    shrunk = rkhs.losses.GroupNorm(size=2).prox(v, b, 2.0)
    np.testing.assert_allclose(shrunk, [1 + 3 * 0.6, 4 * 0.6, 1, 0], rtol=1e-15)
    np.testing.assert_allclose(rkhs.losses.GroupNorm(size=2).project_dual(v, b), [0.5**0.5, 0.5**0.5, 1, 0], rtol=1e-15)
    jet, y = np.array([-1.0, 3.0, 4.0]), np.array([1.0, 0.0, 0.0])
    robust = rkhs.losses.RobustHinge(2.0, 3)
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
    given = rkhs.losses.RobustHinge(0.5, 3).prox(u.ravel(), b.ravel(), 0.7).reshape(-1, 3)
    steps = np.tile(0.7 * unit**2, 20)
    other = rkhs.losses.RobustHinge(0.5e-3, 3).prox((unit * u).ravel(), b.ravel(), steps).reshape(-1, 3)
    np.testing.assert_allclose(other / unit, given, atol=1e-12)


def test_steps_of_each_vector():
    u, b, steps = RNG.standard_normal(6), RNG.standard_normal(6), np.repeat([0.1, 0.5, 2.0], 2)
    together = rkhs.losses.GroupNorm(size=2).prox(u, b, steps)
    for k in range(3):
        pair = slice(2 * k, 2 * k + 2)
        np.testing.assert_allclose(together[pair], rkhs.losses.GroupNorm(size=2).prox(u[pair], b[pair], steps[2 * k]))


@pytest.mark.parametrize(
    "phi",
    [rkhs.Huber(0.5), rkhs.Squared(), rkhs.losses.Absolute().smoothed(0.5), rkhs.Huber(0.5).smoothed(2.0)],
    ids=repr,
)
def test_the_curvature_majorizes(phi):
    """For an interval that is a point, phi(r) is concave in r^2: the parabola touches the loss from above."""
    loss, b = rkhs.losses.GroupNorm(phi, 3), np.zeros((300, 1))
    u, v = (10 ** RNG.uniform(-2, 1, (300, 1)) * RNG.standard_normal((300, 1)) for _ in range(2))
    parabola = loss.value(u, b) + loss.gradient(u, b) * (v - u) + loss.curvature(u, b) * (v - u) ** 2 / 2
    excess = (loss.value(v, b) - parabola).reshape(-1, 3).sum(axis=1)
    assert np.all(excess <= 1e-12 * (1 + np.abs(parabola).reshape(-1, 3).sum(axis=1)))


def test_sizes_of_vectors():
    assert rkhs.losses.GroupNorm().of_family((5, 3)) == rkhs.losses.GroupNorm(size=3)
    assert rkhs.losses.GroupNorm(size=2).of_family((5, 4)) == rkhs.losses.GroupNorm(size=2)
    assert replace(rkhs.losses.RobustHinge(1.0), radius=2.0).largest_slope == pytest.approx(5**0.5)
    assert repr(rkhs.losses.Absolute()) == "Absolute()"


@pytest.mark.every("loss")
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("shape", [(7,), (7, 2)])
def test_shifted_losses(loss, shape):
    """loss(u + shift; b): each method from the loss itself."""
    u, b = RNG.normal(size=shape), np.where(RNG.normal(size=shape) > 0, 1.0, -1.0)
    shift = RNG.normal(size=7)
    at = shift if len(shape) == 1 else shift[:, None]
    moved = shifted(loss, shift)
    for name in ("value", "gradient", "curvature"):
        np.testing.assert_allclose(getattr(moved, name)(u, b), getattr(loss, name)(u + at, b), atol=1e-14)
    np.testing.assert_allclose(moved.prox(u, b, 0.7), loss.prox(u + at, b, 0.7) - at, atol=1e-13)
    np.testing.assert_array_equal(moved.domain(b), loss.domain(b))
    s = loss.gradient(u, b)
    np.testing.assert_allclose(moved.conjugate(s, b), loss.conjugate(s, b) - s * at, atol=1e-13)
    np.testing.assert_allclose(moved.excess(u, b, s), loss.excess(u + at, b, s), atol=1e-12)
    assert (moved.smooth, moved.attained, moved.quadratic) == (loss.smooth, loss.attained, False)
    smooth, plain = moved.smoothed(0.3), loss.smoothed(0.3)
    np.testing.assert_allclose(smooth.value(u, b), plain.value(u + at, b), atol=1e-13)
