"""Probabilities of classes: calibrated by left-out labels also where a discriminant decides, and never zero."""

import numpy as np
import pytest
from scipy.special import log_softmax

import rkhs
from rkhs.estimators._calibration import Calibration, fitted_slope, per_class
from rkhs.estimators.search._decide import Discriminant

RNG = np.random.default_rng(3)
X = RNG.standard_normal((60, 2)) + 6 * np.eye(3)[np.arange(60) % 3][:, :2]
Y = np.arange(60) % 3


class Known(Calibration):
    """A calibration whose left-out values are given."""

    def _held_out_values(self):
        return self.points, np.arange(len(self.codes))


def test_a_discriminant_is_as_sure_as_left_out_labels_allow():
    """Of eight classes with few labels each, of which linear discriminant analysis is too sure."""
    codes = np.arange(1000) % 8
    scores = np.eye(8)[codes] + RNG.standard_normal((1000, 8))
    learned, seen = scores[:40], codes[:40]
    rule = Discriminant.of(learned, seen)
    known = Known(None, learned, seen, np.ones(40), discriminant=rule)
    assert known.slope == fitted_slope(Discriminant.cross_validated(learned, seen), seen, np.ones(40), 1 / 400) < 0.9
    new, truth = rule(scores[40:]), codes[40:]
    before = -log_softmax(new, axis=1)[np.arange(960), truth]
    after = -np.log(known(new))[np.arange(960), truth]
    assert after.mean() < before.mean() - 0.05


def test_the_slope_of_a_sigmoid():
    """Against a number computed by hand."""
    f = np.array([[1.0, -1.0], [0.5, -0.5], [-1.0, 1.0], [0.5, -0.5]])
    assert round(fitted_slope(f, np.array([0, 0, 1, 1]), np.ones(4), 0.0), 2) == 0.42


def test_a_few_labels_at_which_scores_are_wrong_do_not_make_all_others_unsure():
    codes = np.arange(200) % 2
    values = np.where(codes, 2.0, -2.0) + 0.5 * RNG.standard_normal(200)
    wrong = np.r_[values[:197], -1e4 * np.where(codes, 1, -1)[197:]]
    usual, found = (fitted_slope(per_class(v), codes, np.ones(200), 1 / 2000) for v in (values, wrong))
    assert usual / 3 < found <= usual
    assert fitted_slope(per_class(wrong), codes, np.ones(200), 0.0) < usual / 100


def test_shares_of_classes_are_no_fit_to_labels():
    rule = Discriminant.with_shares(RNG.standard_normal((30, 3)), np.array([0.2, 0.3, 0.5]))
    assert Known(None, None, np.arange(3), np.ones(3), discriminant=rule).slope == 1.0


@pytest.mark.parametrize(
    "model",
    [
        rkhs.InvariantClassifier(loss="logistic", invariance=None, C=1e6),
        rkhs.InvariantClassifier(invariance=None, approximation=rkhs.Landmarks(20)),
        rkhs.VirtualSampleSVC([lambda X: X + 0.1]),
        rkhs.InvariantClassifierCV(Cs=[1e4], scales="median", kernel="gaussian"),
    ],
    ids=["logistic", "landmarks", "virtual samples", "search"],
)
@pytest.mark.parametrize("classes", [2, 3])
def test_none_is_below_a_tenth_of_a_label(model, classes):
    rows = np.isin(Y, range(classes))
    found = model.fit(X[rows], Y[rows]).predict_proba(np.concatenate([X, 3 * X]))
    assert found.min() >= 0.1 / np.sum(rows) * (1 - 1e-12)
    np.testing.assert_allclose(found.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[found[:60].argmax(axis=1)], model.predict(X))
