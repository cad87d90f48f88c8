"""A metric from the slopes of f: it finds the directions that matter, and is kept only where it helps."""

from functools import partial

import numpy as np
import pytest

import rkhs
from rkhs.extend import paired_test

RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 8))
ALONG = np.array([3.0, -4.0, 0, 0, 0, 0, 0, 0]) / 5  # all that matters
RIDGE = np.sin(2 * X @ ALONG)
SETTINGS = {"C": 1e3, "nu": 0, "tol": 1e-6}


def model(scale, **options):
    return rkhs.InvariantRegressor(scale=scale, **SETTINGS | options)


@pytest.fixture(scope="module")
def learned():
    return model("agop").fit(X[:200], RIDGE[:200])


def test_the_direction_is_found_and_predictions_are_better(learned):
    plain = model("median").fit(X[:200], RIDGE[:200])
    errors = [np.sqrt(np.mean((m.predict(X[200:]) - RIDGE[200:]) ** 2)) for m in (plain, learned)]
    assert errors[1] < 0.2 * errors[0]
    values, axes = np.linalg.eigh(learned.metric_)
    assert abs(axes[:, -1] @ ALONG) > 0.99
    assert values[-1] > 20 * values[-2]


def test_noise_has_no_direction():
    noise = RNG.standard_normal(200)
    found = model("agop", C=1.0).fit(X[:200], noise)
    np.testing.assert_allclose(found.metric_, np.diag(1 / X[:200].var(axis=0)), rtol=1e-10)


@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge"])
def test_classes(loss):
    classes = np.digitize(X @ ALONG, [-0.5, 0.5])
    options = {"loss": loss, "C": 100.0, "nu": 0, "unlabeled": None}
    plain, found = (
        rkhs.InvariantClassifier(scale=scale, **options).fit(X[:200], classes[:200]) for scale in ("median", "agop")
    )
    assert found.score(X[200:], classes[200:]) > plain.score(X[200:], classes[200:])
    assert abs(np.linalg.eigh(found.metric_)[1][:, -1] @ ALONG) > 0.95


def test_with_landmarks_slopes_and_several_outputs():
    near = model("agop", approximation=rkhs.Landmarks(100)).fit(X[:200], RIDGE[:200])
    assert near.score(X[200:], RIDGE[200:]) > 0.9
    slopes = 2 * np.cos(2 * X @ ALONG)[:, None] * ALONG
    sloped = model("agop").fit(X[:60], RIDGE[:60], gradients=slopes[:60])
    assert sloped.score(X[200:], RIDGE[200:]) > 0.99
    both = model("agop").fit(X[:200], np.stack([RIDGE, -RIDGE], axis=1)[:200])
    assert both.predict(X[200:]).shape == (200, 2)
    assert abs(np.linalg.eigh(both.metric_)[1][:, -1] @ ALONG) > 0.99


def test_what_it_cannot_do_is_said():
    with pytest.raises(ValueError, match="at least 20 labels, got 10"):
        model("agop").fit(X[:10], RIDGE[:10])
    with pytest.raises(rkhs.exceptions.NotBoundedError):
        model("agop", kernel=rkhs.kernels.Laplace(2.0)).fit(X[:100], RIDGE[:100])


def test_in_blocks_it_is_learned_from_a_sample():
    """Which is all of few rows: the same metric as in memory; the first block is the sample of `partial_fit`."""
    near = {"approximation": rkhs.Landmarks(rkhs.Evaluation(X[:100])), "tol": 1e-4}
    whole = model("agop", **near).fit(X[:200], RIDGE[:200])
    found = model("agop", **near).fit(rkhs.streams.blocks(X[:200], RIDGE[:200], rows=70))
    assert found.score(X[200:], RIDGE[200:]) > 0.9
    assert abs(np.linalg.eigh(found.metric_)[1][:, -1] @ ALONG) > 0.99
    np.testing.assert_allclose(found.metric_, whole.metric_, atol=0.5)  # other labels are held out
    more = model("agop", **near | {"C": 1.0, "tol": 1e-3})
    for start in (0, 150):
        more.partial_fit(X[start : start + 150], RIDGE[start : start + 150])
    assert abs(np.linalg.eigh(more.metric_)[1][:, -1] @ ALONG) > 0.95
    assert more.score(X[300:], RIDGE[300:]) > 0.8
    classes = rkhs.InvariantClassifier(scale="agop", loss="squared", C=10.0, nu=0, **near)
    classes.fit(rkhs.streams.blocks(X[:200], (X[:200, 3] > 0).astype(int), rows=70))
    assert np.argmax(np.diag(classes.metric_)) == 3


def test_a_fall_beyond_chance():
    before = RNG.random(100) + 1
    improves = partial(paired_test, least=0.0, signs=True)
    assert improves(before, before - 0.1)
    assert not improves(before, before + RNG.standard_normal(100) * 0.5)
    assert not improves(before, np.full(100, np.nan))
    outlier = np.where(np.arange(100) == 0, 100.0, before)
    assert improves(outlier, np.where(np.arange(100) == 0, 105.0, 0.5 * before))  # all but one fall by half
    assert not improves(before, before + np.where(np.arange(100) == 0, 100.0, -0.01))  # not worth one that is lost


def test_losses_that_fall_by_more_than_chance():
    assert paired_test(np.ones(3), np.array([0.5, 0.6, 0.4]))
    assert not paired_test(np.ones(3), np.array([0.0, 2.0, 0.5]))
    before, after = np.array([3.0, 5.0]), np.array([2.0, 2.0])  # the mean falls by 2, with the standard error 0.707
    assert paired_test(before, after, sure=2 / 0.708)
    assert not paired_test(before, after, sure=2 / 0.707)
