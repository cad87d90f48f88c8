"""Signals, own transformations, monotone features and noise."""

import pickle

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from scipy import ndimage
from sklearn.datasets import load_digits

import rkhs
from refusals import refused
from rkhs.invariances import (
    ImageTangents,
    InputNoise,
    Invariance,
    Monotone,
    RandomSubset,
    SignalTangents,
    Tangents,
    transformed_copies,
)
from rkhs.invariances._tangents import TANGENTS


def signals():
    time = np.linspace(-1, 1, 80)
    return time, np.stack([np.exp(-((time - c) ** 2) / 0.02) for c in (-0.2, 0.0, 0.3)])


def double(X, a):
    return X * (1 + a)


def images():
    """Smooth digits, with pixels near 1."""
    return ndimage.gaussian_filter(load_digits().images[:12] / 16, 1.0, axes=(1, 2)).reshape(12, 64)


FLOWS = {"kinds": ["translation", "rotation", "scaling", "shear"], "smoothing": 0}
FAMILIES = {  # and the relative error of the tangents
    **{SignalTangents([kind], smoothing=0): (signals()[1], 0.1) for kind in TANGENTS},
    ImageTangents((8, 8), method="difference", step=1e-3, **FLOWS): (images(), 1e-6),
    ImageTangents((8, 8), **FLOWS): (images(), 0.35),  # of digits, which have few pixels
    Tangents(double): (np.random.default_rng(0).standard_normal((6, 3)), 1e-6),
}


@pytest.mark.parametrize("tangents", FAMILIES, ids=lambda tangents: f"{type(tangents).__name__} {tangents.names}")
def test_laws_of_tangents(tangents):
    """The tangents and their functionals are derivatives of the motions, of which there is one for each name."""
    (X, error), h = FAMILIES[tangents], 1e-3
    t, k, n = len(X), len(tangents.names), X.shape[1]
    assert_allclose(tangents.moved(X, 0.0), np.repeat(X[:, None], k, axis=1), atol=1e-6)
    ahead, behind = tangents.moved(X, h), tangents.moved(X, -h)
    V, truth = tangents.vectors(X).reshape(t, k, n), (ahead - behind) / (2 * h)
    assert np.linalg.norm(V - truth) < error * np.linalg.norm(truth)
    f = rkhs.results.Function(rkhs.Gaussian(scale=2.0), rkhs.Evaluation(X[:10]), np.linspace(-1, 1, min(t, 10)))
    slopes = np.stack([(f(ahead[:, j]) - f(behind[:, j])) / (2 * h) for j in range(k)], axis=1)
    values = tangents(X)(f).reshape(t, k)
    assert np.linalg.norm(values - slopes) < (error + 1e-4) * np.linalg.norm(slopes)
    copies = transformed_copies(tangents, amounts=(-h, h))
    assert_allclose([copy(X) for copy in copies[::2]], np.moveaxis(behind, 1, 0))
    assert_allclose([copy(X) for copy in copies[1::2]], np.moveaxis(ahead, 1, 0))
    tensor = tangents.vectors(torch.tensor(X, dtype=torch.float32))
    assert tensor.dtype == torch.float32
    assert_allclose(tensor.reshape(t, k, n), V, atol=1e-2)
    assert tangents(X[:0]).size == 0


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
