"""Proportions of classes among unlabeled rows: exact probabilities against the truth, and what they are good for."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import rkhs
from refusals import refused


def rows(shares, count, seed=0, apart=2.0):
    rng = np.random.default_rng(seed)
    y = rng.choice(len(shares), count, p=shares)
    return rng.normal(size=(count, 2)) + apart * np.stack([y, y % 2], axis=1), y


class Exact:
    """The probabilities of two normal distributions, as often as each other where it learned."""

    classes_ = np.array([0, 1])

    def predict_proba(self, X):
        odds = np.exp(np.clip(2.0 * (X[:, 0] - 1) + 2.0 * (X[:, 1] - 1), -700, 700))
        return np.stack([1 / (1 + odds), odds / (1 + odds)], axis=1)


@pytest.mark.parametrize("share", [0.03, 0.3, 0.5, 0.9])
def test_the_largest_likelihood(share):
    X, _ = rows([1 - share, share], 3000)
    found = rkhs.ClassPrior.estimate(Exact(), X, np.array([0, 1] * 10)).shares
    chances = Exact().predict_proba(X)

    def unlikely(p):
        return -np.sum(np.log(chances @ [2 * (1 - p), 2 * p]))

    best = minimize_scalar(unlikely, bounds=(1e-6, 1 - 1e-6), method="bounded", options={"xatol": 1e-9}).x
    assert found[1] == pytest.approx(best, abs=1e-5)
    assert found[1] == pytest.approx(share, abs=0.02)
    assert sum(found.values()) == pytest.approx(1)


def test_three_classes_of_another_library_with_unlabeled_rows_in_y():
    X, y = rows([1 / 3] * 3, 600, apart=3.0)
    model = LinearDiscriminantAnalysis().fit(X, y)
    Z, truth = rows([0.7, 0.2, 0.1], 2000, seed=1, apart=3.0)
    found = rkhs.ClassPrior.estimate(model, Z, np.concatenate([y, [-1, -1]])).shares
    np.testing.assert_allclose(list(found.values()), np.bincount(truth) / len(truth), atol=0.03)


def test_predictions_get_better_where_labels_were_balanced_and_rows_are_not():
    X, y = rows([0.9, 0.1], 600, apart=1.0)
    few = np.full(600, -1)
    for c in (0, 1):
        few[np.flatnonzero(y == c)[:40]] = c
    model = rkhs.InvariantClassifier(loss="logistic", invariance=None, C=1.0)
    before = np.mean(model.fit(X, few).predict(X) != y)
    model.set_params(class_weight=rkhs.ClassPrior.estimate(model, X, few)).fit(X, few)
    assert np.mean(model.predict(X) != y) < before


test_bad_input = refused(
    (lambda: rkhs.ClassPrior.estimate(Exact(), np.zeros((3, 2)), [0, 0]), r"no label of \[1\]"),
    (lambda: rkhs.ClassPrior.estimate(object(), np.zeros((3, 2)), [0, 1]), "no predict_proba", TypeError),
    (lambda: rkhs.ClassPrior.estimate(Exact(), np.zeros((0, 2)), [0, 1]), "no rows"),
)
