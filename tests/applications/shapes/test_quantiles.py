"""Quantiles that never cross."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import rkhs
from refusals import refused
from rkhs._core.limits import with_limits

rng = np.random.default_rng(0)
X = rng.uniform(0, 3, (80, 1))
y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 0] * rng.standard_normal(80)
LEVELS = [0.1, 0.5, 0.9]


def pinball(y, found, level):
    r = y - found
    return np.mean(np.maximum(level * r, (level - 1) * r))


def test_they_never_cross_and_lose_nothing():
    model = rkhs.QuantileRegressor(LEVELS, scale=0.5, C=5.0).fit(X, y)
    assert model.crossing_certificate_.proved
    new = np.linspace(X.min(), X.max(), 20_000)[:, None]
    found = model.predict(new)
    assert np.all(np.diff(found, axis=1) >= 0)
    at_points = model.predict(X)
    for k, level in enumerate(LEVELS):
        alone = rkhs.InvariantRegressor(loss=rkhs.Quantile(level), scale=0.5, C=5.0, invariance=None).fit(X, y)
        assert pinball(y, at_points[:, k], level) <= 1.05 * pinball(y, alone.predict(X), level) + 1e-3
        assert np.mean(y <= at_points[:, k] + 1e-6) == pytest.approx(level, abs=0.1)


def test_where_they_would_not_cross_they_are_as_alone():
    model = rkhs.QuantileRegressor([0.2, 0.8], scale=1.0, C=1.0, tol=1e-7).fit(X, y)
    for k, level in enumerate([0.2, 0.8]):
        options = {"scale": 1.0, "C": 1.0, "invariance": None, "tol": 1e-7}
        alone = rkhs.InvariantRegressor(loss=rkhs.Quantile(level), **options).fit(X, y)
        np.testing.assert_allclose(model.predict(X)[:, k], alone.predict(X), atol=0.02)


def test_separate_ones_do_cross_here():
    """Those of `test_rounds_start_from_the_active_set_of_the_one_before` do not."""
    found = [
        rkhs.InvariantRegressor(loss=rkhs.Quantile(level), scale=0.2, C=20.0, invariance=None).fit(X, y).predict(X)
        for level in (0.4, 0.6)
    ]
    assert np.any(found[0] > found[1] + 1e-3)


test_levels_that_are_none = refused(
    *(
        (lambda levels=levels: rkhs.QuantileRegressor(levels).fit(X, y), "quantiles must be")
        for levels in [[0.5], [0.9, 0.1], [0.0, 0.5], [0.5, 0.5]]
    )
)


@pytest.mark.slow
def test_defaults_are_learned():
    """They are nearly as good as the best of many settings; units are in `test_equal_problems`."""
    rng = np.random.default_rng(1)
    new = rng.uniform(0, 3, (2000, 1))
    truth = np.sin(2 * new[:, 0]) + 0.3 * new[:, 0] * rng.standard_normal(2000)
    model = rkhs.QuantileRegressor(LEVELS).fit(X, y)
    found = model.predict(new)
    error = np.mean([pinball(truth, found[:, k], level) for k, level in enumerate(LEVELS)])
    assert model.crossing_certificate_.proved
    assert error < 0.116  # of 30 settings of scale and C, the best has 0.1141; the median and C = 1 have 0.1183


@pytest.mark.parametrize("scale", [1.0, "median"])
def test_quantiles_of_targets_without_noise(scale):
    model = rkhs.QuantileRegressor(LEVELS, scale=scale).fit(X, X[:, 0])
    np.testing.assert_allclose(model.predict(X), np.repeat(X, 3, axis=1), atol=0.05)


def test_rules_for_scales_that_it_does_not_have():
    with pytest.raises(ValueError, match="scale='loo' is learned from labels"):
        rkhs.QuantileRegressor(LEVELS, scale="loo").fit(X, y)


def test_proofs_in_many_dimensions_end_after_a_certain_amount_of_work():
    """They took minutes with 20 features, of which no cell was proved."""
    rng = np.random.default_rng(0)
    many = rng.standard_normal((12, 20))
    with with_limits(proof_work=2e7), pytest.warns(ConvergenceWarning, match="not proved"):
        model = rkhs.QuantileRegressor(LEVELS, scale=3.0, C=10.0).fit(many, many[:, 0] + rng.standard_normal(12))
    assert sum(proof.work for proof in model.crossing_certificate_.proofs) <= 4e7 + 4 * 256 * 231 * 400


def test_rounds_end_at_a_certified_minimum_with_points_where_quantiles_would_cross():
    model = rkhs.QuantileRegressor([0.4, 0.6], scale=0.2, C=20.0).fit(X, y)
    assert model.crossing_certificate_.proved
    assert model.crossing_certificate_.points > 0
    assert model.solution_.relative_gap <= 1e-9
    assert np.all(np.diff(model.predict(np.linspace(X.min(), X.max(), 5000)[:, None]), axis=1) >= 0)
