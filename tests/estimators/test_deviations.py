"""Deviations that repeat the search: against refits, without noise, when they are computed, and without time."""

import numpy as np
import pytest
from sklearn.base import clone

import rkhs
from rkhs.acquisition import log_expected_improvement
from rkhs.estimators import _calibration as calibration
from rkhs.extend import left_out_by_folds

RNG = np.random.default_rng(1)
X, NEW = RNG.standard_normal((40, 4)), RNG.standard_normal((5, 4))
Y = np.sin(X[:, 0]) + 0.1 * RNG.standard_t(2, 40)
QUICK = rkhs.InvariantRegressorCV("gaussian", scales=[0.7, 2.0])


def fitted(X=X, y=Y, **options):
    return clone(QUICK).set_params(**options).fit(X, y)


def factor(model):
    return model.predict(NEW, return_std=True)[1] / model._posterior().std(rkhs.Evaluation(NEW), weight=model._weight)


@pytest.mark.parametrize("outputs", [None, 2])
def test_the_factor_is_that_of_refits(outputs, monkeypatch):
    monkeypatch.setattr(calibration, "NORMAL", 0.5)  # with which no factor is one
    y = Y if outputs is None else np.stack([Y, np.cos(X[:, 1])], axis=1)
    model, ratios = fitted(X, y), []
    for out in left_out_by_folds(5, model._searched.groups).T:
        other, L = fitted(X[~out], y[~out]), rkhs.Evaluation(X[out])
        ratios.append(np.abs(other.predict(X[out]) - y[out]) / other._posterior().std(L, weight=other._weight))
    expected = np.sort(np.concatenate(ratios), axis=0)[37] / calibration.NORMAL  # 95 % of 40
    assert np.all(expected > 1)
    np.testing.assert_allclose(factor(model), np.broadcast_to(expected, factor(model).shape), rtol=1e-6)


def test_on_the_earth_the_factor_is_that_of_positions():
    places = np.random.default_rng(0).uniform((-20, 30), (20, 60), (40, 2))
    model = fitted(places, np.cos(np.radians(3 * places[:, 1])), coordinates="lonlat")
    plain = fitted(model._searched.X, np.cos(np.radians(3 * places[:, 1])))
    model.predict(places, return_std=True), plain.predict(model._searched.X, return_std=True)
    assert model._stretch == pytest.approx(plain._stretch)


@pytest.mark.filterwarnings("ignore")  # rounding ends the iterations
def test_a_sum_without_noise_is_covered():
    """Its errors and deviations are those of rounding."""
    covered = []
    for seed in range(4):
        points = np.random.default_rng(seed).random((560, 2))
        model = fitted(points[:60], points[:60].sum(axis=1), scales=[8.0], Cs=[1e16])
        found, std = model.predict(points[60:], return_std=True)
        covered.append(np.mean(np.abs(found - points[60:].sum(axis=1)) <= 1.96 * std))
        assert std.max() < 1e-5
    assert 0.92 < np.mean(covered) < 0.98


def test_all_deviations_have_it_and_nothing_else_asks_for_it(tmp_path):
    model = fitted()
    model.predict(NEW), model.predict_interval(NEW), log_expected_improvement(model, NEW, 0.0)
    assert not hasattr(model, "_stretch")
    rkhs.save(model, tmp_path / "before.skops")
    std = model.predict(NEW, return_std=True)[1]
    np.testing.assert_allclose(np.sqrt(np.diag(model.predict(NEW, return_cov=True)[1])), std)
    slopes = model._posterior().std(rkhs.Gradient(NEW))
    np.testing.assert_allclose(model.predict_gradient(NEW, return_std=True)[1], model._stretch * slopes)
    for name in ("before", "after"):  # it is computed after loading, or stored
        rkhs.save(model, tmp_path / "after.skops")
        np.testing.assert_array_equal(rkhs.load(tmp_path / f"{name}.skops").predict(NEW, return_std=True)[1], std)
    assert not hasattr(model.fit(X[:10], Y[:10]), "_stretch")
    assert np.all(factor(model) == 1)  # too few rows


def test_without_time_deviations_are_those_of_the_settings(monkeypatch):
    model = fitted()
    monkeypatch.setattr(calibration, "seconds_left", lambda: 0.0)
    with pytest.warns(UserWarning, match="too little time to repeat its search"):
        assert np.all(factor(model) == 1)
    monkeypatch.undo()
    assert np.all(factor(model) > 1)
