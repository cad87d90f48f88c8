"""Signals, own transformations, monotone features and noise."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import ndimage

import rkhs
from refusals import refused
from rkhs.invariances import InputNoise, Invariance, Monotone, RandomSubset, SignalTangents, Tangents


def signals():
    time = np.linspace(-1, 1, 80)
    return time, np.stack([np.exp(-((time - c) ** 2) / 0.02) for c in (-0.2, 0.0, 0.3)])


@pytest.mark.parametrize("kind", ["shift", "stretch", "amplitude", "offset", "drift"])
def test_signal_tangents_are_derivatives_of_their_motions(kind):
    _, X = signals()
    tangents = SignalTangents(kinds=[kind], smoothing=0)
    h = 1e-2
    truth = (tangents.moved(X, h) - tangents.moved(X, -h)) / (2 * h)
    assert np.linalg.norm(tangents.vectors(X) - truth) < 0.1 * np.linalg.norm(truth)
    assert_allclose(tangents.moved(X, 0.0)[:, 0], X, atol=1e-12)


@pytest.mark.parametrize("kind", ["shift", "stretch"])
def test_signal_tangents_are_derivatives_of_signals_really_moved(kind):
    _, X = signals()
    v = SignalTangents(kinds=[kind], smoothing=1.0).vectors(X)[:, 0]
    sample, h = np.arange(80), 0.01
    middle = 79 / 2
    for g, tangent in zip(ndimage.gaussian_filter1d(X, 1.0, axis=1), v, strict=True):

        def moved(a, g=g):
            places = sample - a if kind == "shift" else middle + (sample - middle) * (1 - a / middle)
            return ndimage.map_coordinates(g, [places], mode="nearest")

        truth = (moved(h) - moved(-h)) / (2 * h)
        assert np.linalg.norm(tangent - truth) < 0.01 * np.linalg.norm(truth)


def test_other_signal_tangents():
    time, X = signals()
    amplitude, offset, drift = np.moveaxis(
        SignalTangents(kinds=["amplitude", "offset", "drift"], smoothing=0).vectors(X), 1, 0
    )
    assert_allclose(amplitude, X)
    assert_allclose(offset, np.ones_like(X))
    assert_allclose(drift, np.tile(time, (3, 1)))


def double(X, a):
    return X * (1 + a)


def test_tangents_of_an_own_function():
    X = np.random.default_rng(0).standard_normal((6, 3))
    L = Tangents(double, step=1e-3)(X)
    f = rkhs.results.Function(rkhs.Gaussian(scale=1.0), rkhs.Evaluation(X[:2]), [1.0, -2.0])
    h = 1e-5
    assert_allclose(L(f), (f(double(X, h)) - f(double(X, -h))) / (2 * h), atol=1e-6)


def test_monotone_is_a_one_sided_loss_on_signed_slopes():
    X = np.array([[1.0, 2.0], [3.0, 4.0]])
    knowledge = Monotone({0: +1, 1: -1})
    assert isinstance(knowledge, Invariance)
    assert knowledge.loss == rkhs.losses.OneSided()
    plane = knowledge(X)(rkhs.Polynomials(degree=1))  # of 1, x, y
    assert_allclose(plane, [[0, 1, 0], [0, 1, 0], [0, 0, -1], [0, 0, -1]])


def test_jitter_is_the_expected_change_of_f():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5, 3))
    f = rkhs.results.Function(rkhs.Gaussian(scale=1.5), rkhs.Evaluation(X), rng.standard_normal(5))
    widths = np.array([0.02, 0.0, 0.01])
    changes = InputNoise(widths)(X)(f).reshape(5, 2)
    z = widths * rng.standard_normal((20_000, 1, 3))
    sampled = np.mean((f((X + z).reshape(-1, 3)).reshape(-1, 5) - f(X)) ** 2, axis=0)
    assert_allclose(np.sum(changes**2, axis=1), sampled, rtol=0.05)


def test_jitter_of_one_width_is_a_gradient():
    X = np.random.default_rng(0).standard_normal((4, 2))
    f = rkhs.results.Function(rkhs.Gaussian(scale=1.0), rkhs.Evaluation(X), np.ones(4))
    assert_allclose(InputNoise(0.3)(X)(f), 0.3 * rkhs.Gradient(X)(f))


@pytest.mark.parametrize(
    "knowledge",
    [SignalTangents(kinds=["shift"]), Tangents(double), Monotone({1: -1}), InputNoise([1.0, 2.0]), InputNoise(0.5)],
    ids=["signal", "transform", "monotone", "widths", "width"],
)
def test_knowledge_is_a_value(knowledge):
    """It compares by what it says, and survives pickling."""
    again = pickle.loads(pickle.dumps(knowledge))
    assert again == knowledge


def test_sampled_knowledge_is_that_of_some_rows():
    X = np.random.default_rng(0).standard_normal((50, 2))
    L = RandomSubset(rkhs.Gradient, most=10)(X)
    assert L.shape == (10, 2)
    assert all(np.any(np.all(row == X, axis=1)) for row in L.X)
    assert len(np.unique(L.X, axis=0)) == 10
    assert RandomSubset("gradient", most=50)(X).shape == (50, 2)
    assert not np.array_equal(RandomSubset("gradient", most=10, random_state=1)(X).X, L.X)


test_what_is_refused = refused(
    *((lambda features=features: Monotone(features), "a sign") for features in ({}, {0: 2}, {0: 0.5})),
    (lambda: Monotone({"age": +1})(np.zeros((3, 1))), "X has no column names: fit with a data frame"),
    (lambda: Tangents(lambda X, a: X[:, :1])(np.zeros((2, 2))), "must keep the shape"),
    *((lambda w=w: InputNoise(w), "width must be positive") for w in (0.0, -1.0, [0.0, 0.0], [[1.0]])),
    (lambda: InputNoise([1.0, 2.0])(np.zeros((4, 3))), "2 widths but X has 3 features"),
    (lambda: SignalTangents(kinds=["wobble"]), "kinds must be among shift"),
    (lambda: SignalTangents()(np.zeros((3, 1))), "at least two samples"),
    (lambda: RandomSubset("gradient", most=0), "most must be a positive integer"),
    (lambda: RandomSubset("steepness", most=10), "An invariance must be a callable"),
)
