"""Classes told by where their scores lie: against the formula, and where some lie between others."""

import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf

import rkhs
from rkhs.estimators.search._decide import Decision, Discriminant
from rkhs.estimators.search._scorers import LeaveOneOutScorer, ScoringTargets, folds

RNG = np.random.default_rng(0)


def test_the_formula_of_the_first_lines():
    codes = np.repeat([0, 1, 2], [10, 20, 30])
    scores = RNG.standard_normal((60, 3)) + 2 * np.eye(3)[codes]
    means = np.stack([scores[codes == k].mean(axis=0) for k in range(3)])
    shares = np.bincount(codes) / 60

    def shrunk(X):  # scikit-learn shrinks correlations, and brings the spread of features back
        spread = X.std(axis=0)
        return spread[:, None] * ledoit_wolf(X / spread)[0] * spread

    S = sum(share * shrunk(scores[codes == k] - means[k]) for k, share in enumerate(shares))
    new = RNG.standard_normal((5, 3))
    weights = np.linalg.solve(S, means.T).T
    expected = new @ weights.T - np.sum(weights * means, axis=1) / 2 + np.log(shares)
    found = Discriminant.of(scores, codes)(new)
    np.testing.assert_allclose(found - found[:, :1], expected - expected[:, :1], rtol=1e-8)


def test_labels_are_predicted_without_themselves():
    """Scores that are nothing but noise: a rule that had seen its labels would be right too often."""
    scores, codes = RNG.standard_normal((90, 8)), np.arange(90) % 8
    seen = np.mean(Discriminant.of(scores, codes)(scores).argmax(axis=1) == codes)
    assert np.mean(Discriminant.cross_validated(scores, codes).argmax(axis=1) == codes) < 0.2 < seen


def test_classes_of_a_fold_are_predicted_without_its_labels():
    """By refits: neither f, nor the scores that the discriminant is fitted to, have seen the labels of the fold."""
    X, codes = RNG.standard_normal((27, 4)), np.arange(27) % 3
    X[:, 0] += codes
    target, kernel = 2.0 * np.eye(3)[codes] - 1, rkhs.Gaussian(1.5)
    labels = ScoringTargets.of(np.arange(27), target, np.ones(27), np.arange(27), codes)
    scorer = LeaveOneOutScorer(X, labels, lambda k, _: k, [5.0])

    def scores(rows, at):
        term = rkhs.Term(rkhs.Evaluation(X[rows]), rkhs.Squared(), target[rows], 5.0)
        return rkhs.Problem(kernel, [term], rkhs.Constant()).solve(tol=1e-12).function(X[at])

    largest, discriminated = np.empty_like(codes), np.empty_like(codes)
    for fold, rest in folds(len(X), codes, 9):
        largest[fold] = scores(rest, fold).argmax(axis=1)
        left_out = np.concatenate([scores(np.setdiff1d(rest, row), [row]) for row in rest])
        discriminated[fold] = Discriminant.of(left_out, codes[rest])(scores(rest, fold)).argmax(axis=1)
    [best] = scorer(rkhs.extend.Trial(kernel))
    found = Decision([best], best, scorer.targets, False, scorer)._with_discriminant(scorer)
    np.testing.assert_array_equal(found, [largest, discriminated])


@pytest.mark.parametrize(
    ("scores", "codes"),
    [
        (np.ones((9, 2)), np.arange(9) % 2),
        (np.ones((8, 3)), np.arange(8) % 3),
        (np.full((9, 3), np.nan), np.arange(9) % 3),
    ],
    ids=["two classes", "few labels", "no numbers"],
)
def test_where_it_is_not_tried(scores, codes):
    assert not Discriminant.applies(scores, codes)


def ordered(seed, classes, rows=400):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, 15))
    along = X[:, :5] @ rng.standard_normal(5) + 0.2 * rng.standard_normal(rows)
    return X, np.digitize(along, np.quantile(along, np.arange(1, classes) / classes))


@pytest.mark.slow
def test_classes_in_an_order(tmp_path):
    X, y = ordered(1, 5)
    names = np.array(["a", "b", "c", "d", "e"])[y]
    model = rkhs.InvariantClassifierCV().fit(X[:100], names[:100])
    assert model.discriminant_ is not None
    assert "linear discriminant" in model.selection_report_["sentence"]
    largest = model.classes_[np.asarray(model.function_(X[100:])).argmax(axis=1)]
    found = model.predict(X[100:])
    assert np.mean(found != names[100:]) < np.mean(largest != names[100:]) - 0.03
    chances = model.predict_proba(X[100:])
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[chances.argmax(axis=1)], found)
    np.testing.assert_array_equal(model.classes_[model.decision_function(X[100:]).argmax(axis=1)], found)
    sets = model.predict_set(X[100:], coverage=0.8)
    assert 0.7 < np.mean(sets[np.arange(300), y[100:]]) < 0.9
    rkhs.save(model, tmp_path / "model.skops")
    np.testing.assert_array_equal(rkhs.load(tmp_path / "model.skops").predict(X[100:]), found)
    again = model.set_params(invariance=None, Cs=[10.0], cv=3).fit(X[:100], names[:100])  # by folds, without the rule
    assert again.discriminant_ is None
    largest = again.classes_[np.asarray(again.function_(X[100:])).argmax(axis=1)]
    np.testing.assert_array_equal(again.predict(X[100:]), largest)


@pytest.mark.slow
def test_none_where_the_largest_score_does_as_well_or_weights_differ():
    X, y = ordered(1, 5)
    apart = X + 8 * np.eye(15)[y]
    model = rkhs.InvariantClassifierCV().fit(apart[:100], y[:100])
    assert model.discriminant_ is None
    weighted = rkhs.InvariantClassifierCV().fit(X[:100], y[:100], sample_weight=1 + np.arange(100) % 2 / 2)
    assert weighted.discriminant_ is None
