"""Scales that are learned by the words for them: against the searches and refits that they stand for."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1
from sklearn.model_selection import KFold

import rkhs
from rkhs._core.limits import with_limits
from rkhs.kernels import median_scale

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(300, 3)) * [1.0, 1.0, 50.0]
WAVES = np.sin(8 * X[:, 0]) + 0.1 * RNG.standard_normal(300)
OWN = {"C": 10.0, "invariance": None}


@pytest.mark.parametrize("loss", ["squared", pytest.param("absolute", marks=pytest.mark.slow)])
def test_cv_is_the_scale_of_the_least_loss_left_out(loss):
    """By fitting again without each fold, for each candidate."""
    Z, y = X[:25], WAVES[:25]
    with with_limits(fold_gap=1e-8):
        found = rkhs.InvariantRegressor(scale="cv", loss=loss, **OWN).fit(Z, y).function_.kernel.scale
    spread = Z.std(axis=0)
    scales = [w * median_scale(Z) for w in (0.25, 0.5, 1, 2, 4)]
    scales += [tuple(w * median_scale(Z / spread) * spread) for w in (0.25, 0.5, 1, 2, 4)]
    losses = []
    for scale in scales:
        total = 0.0
        for train, test in KFold(5, shuffle=True, random_state=0).split(Z):
            model = rkhs.InvariantRegressor(scale=scale, loss=loss, tol=1e-8, **OWN).fit(Z[train], y[train])
            away = np.abs(model.predict(Z[test]) - y[test])
            total += np.sum(away**2 if loss == "squared" else away)
        losses.append(total)
    np.testing.assert_allclose(found, scales[int(np.argmin(losses))])


def test_cv_is_better_than_the_median_where_units_differ():
    y = np.sin(6 * X[:, 0]) + X[:, 2] / 50
    median, searched = (rkhs.InvariantRegressor(scale=s, **OWN).fit(X[:150], y[:150]) for s in ("median", "cv"))
    assert searched.score(X[150:], y[150:]) > max(0.9, median.score(X[150:], y[150:]))


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_cv_of_classes_with_unlabeled_points(loss):
    few = np.where(np.arange(300) < 120, (WAVES > 0).astype(int), -1)
    model = rkhs.InvariantClassifier(scale="cv", loss=loss, C=10.0, nu=1e-3).fit(X, few)
    assert len(model.function_.kernel.scale) == 3
    assert model.score(X[120:], (WAVES > 0)[120:].astype(int)) > 0.85


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["evidence", "loo", "cv"])
def test_with_an_approximation_and_in_blocks(scale):
    """A sample of few rows is all of them: scales as in memory."""
    Z, y = make_friedman1(150, n_features=5, noise=0.5, random_state=0)
    exact = rkhs.InvariantRegressor(scale=scale, **OWN).fit(Z, y)
    near = rkhs.InvariantRegressor(scale=scale, approximation=rkhs.Landmarks(100), **OWN)
    blocks = rkhs.InvariantRegressor(scale=scale, approximation=rkhs.Landmarks(100), **OWN)
    for found in (near.fit(Z, y), blocks.fit(rkhs.streams.blocks(Z, y, rows=60))):
        if scale != "cv":  # folds are those of another order
            np.testing.assert_allclose(found.function_.kernel.scale, exact.function_.kernel.scale, rtol=0.2)
        assert found.score(Z, y) > exact.score(Z, y) - 0.02


def test_what_it_cannot_do_is_said():
    with pytest.raises(ValueError, match=r"would reveal.*scale=\"loo\""):
        rkhs.InvariantRegressor(scale="cv").fit(X, WAVES, gradients=np.zeros((300, 3)))
    with pytest.raises(ValueError, match='one of "auto", "median", "evidence", "loo", "cv", "agop", got'):
        rkhs.InvariantRegressor(scale="best").fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0])
    with pytest.raises(ValueError, match="is learned from labels"):
        rkhs.VirtualSampleSVC(scale="cv").fit(X, (WAVES > 0).astype(int))
