"""Proportions of classes that labels do not have: as weights, and what they are worth."""

import numpy as np
import pytest

import rkhs
from refusals import refused

RNG = np.random.default_rng(0)


def groups(first, second, rng=RNG):
    """Two classes that overlap."""
    y = np.repeat([0, 1], [first, second])
    return rng.standard_normal((len(y), 2)) + 1.2 * y[:, None], y


@pytest.mark.parametrize("estimator", [rkhs.InvariantClassifier, rkhs.VirtualSampleSVC])
def test_it_is_a_weight_for_each_class(estimator):
    X, y = groups(10, 30)
    names = np.array(["no", "yes"])[y]
    common = {"scale": 1.0, "tol": 1e-8, "loss": "squared"}
    expected = estimator(class_weight={"no": 0.9 * 40 / 10, "yes": 0.1 * 40 / 30}, **common).fit(X, names)
    for prior in ({"yes": 0.1, "no": 0.9}, [0.9, 0.1], [9, 1]):
        found = estimator(class_weight=rkhs.ClassPrior(prior), **common).fit(X, names)
        np.testing.assert_allclose(found.decision_function(X), expected.decision_function(X), atol=1e-6)
    even = estimator(class_weight=rkhs.ClassPrior([1, 1]), **common).fit(X, names)
    balanced = estimator(class_weight="balanced", **common).fit(X, names)
    np.testing.assert_allclose(even.decision_function(X), balanced.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("options", [{}, {"invariance": "gradient", "nus": [0.0], "cv": 3}], ids=["auto", "folds"])
def test_fewer_errors_where_classes_have_these_proportions(options):
    """As many labels of the rare class as of the other."""
    X, y = groups(25, 25, np.random.default_rng(1))
    Z, truth = groups(1800, 200, np.random.default_rng(2))
    errors = [
        np.mean(rkhs.InvariantClassifierCV(class_weight=prior, unlabeled=None, **options).fit(X, y).predict(Z) != truth)
        for prior in (None, rkhs.ClassPrior([0.9, 0.1]))
    ]
    assert errors[1] < 0.7 * errors[0]


def test_of_rows_in_blocks():
    X, y = groups(60, 60)
    common = {"class_weight": rkhs.ClassPrior([0.8, 0.2]), "approximation": rkhs.Landmarks(20), "invariance": None}
    common |= {"scale": 1.0, "loss": "squared", "unlabeled": None}
    whole = rkhs.InvariantClassifier(**common).fit(X, y)
    blocks = rkhs.InvariantClassifier(**common).fit(rkhs.streams.blocks(X, y, rows=50))
    assert np.mean(blocks.predict(X) == whole.predict(X)) > 0.95  # their landmarks are drawn in different orders
    with pytest.raises(ValueError, match=r"ClassPrior.*depends on the labels of all rows"):
        rkhs.InvariantClassifier(**common).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="depends on the labels of all rows"):  # the first block is not all rows
        rkhs.InvariantClassifier(**common).partial_fit(X, y)


test_bad_proportions_are_refused = refused(
    *(
        (lambda given=given: rkhs.InvariantClassifier(unlabeled=None, class_weight=given).fit(*groups(5, 5)), words)
        for given, words in [
            (rkhs.ClassPrior([1.0]), "a positive share for each"),
            (rkhs.ClassPrior([1.0, 0.0]), "a positive share for each"),
            (rkhs.ClassPrior({0: 1.0, 5: 1.0}), "a share for each of"),
            ([1.0, 2.0], "class_weight must be .* or an rkhs.ClassPrior"),
            (rkhs.ClassPrior("estimated"), "ClassPrior.estimate"),
            ("prior", "class_weight must be .* or an rkhs.ClassPrior"),
        ]
    )
)


def drawn(seed, each=(6, 6)):
    """A fifth of 400 rows of the second class, and labels that are not drawn in this proportion."""
    rng = np.random.default_rng(seed)
    y = (rng.uniform(size=400) < 0.2).astype(int)
    rows = [rng.choice(np.flatnonzero(y == c), each[c], replace=False) for c in (0, 1)]
    few = np.full(400, -1)
    few[np.concatenate(rows)] = np.repeat([0, 1], each)
    return rng.standard_normal((400, 2)) + 2.0 * y[:, None], y, few


LEAST_SQUARES = {"loss": "squared", "invariance": None, "nu": 0, "C": 10.0, "scale": 1.5, "tol": 1e-8}


def test_of_unlabeled_rows_the_mean_is_known():
    """The term in addition to the weights of the classes, as a problem of its own."""
    X, _, few = drawn(0, (4, 8))
    model = rkhs.InvariantClassifier(class_weight=rkhs.ClassPrior([0.8, 0.2]), **LEAST_SQUARES).fit(X, few)
    labeled = few >= 0
    weight = 10.0 * np.where(few[labeled] == 1, 0.2 * 12 / 8, 0.8 * 12 / 4)
    labels = rkhs.Term(rkhs.Evaluation(X[labeled]), rkhs.Squared(), 2.0 * few[labeled] - 1, weight)
    mean = rkhs.Term(np.full((1, 400), 1 / 400) @ rkhs.Evaluation(X), rkhs.Squared(), [2 * 0.2 - 1], 10.0 * 12)
    f = rkhs.Problem(rkhs.Gaussian(1.5), [labels, mean], rkhs.Constant()).solve(tol=1e-10).function
    np.testing.assert_allclose(model.decision_function(X), f(X), atol=1e-5)
    assert len(model.problem_.terms) == 2
    for prior, rows in ((None, slice(None)), (rkhs.ClassPrior([0.8, 0.2]), labeled)):
        other = rkhs.InvariantClassifier(class_weight=prior, **LEAST_SQUARES).fit(X[rows], few[rows])
        assert len(other.problem_.terms) == 1


def test_repeated_rows_count_in_the_mean():
    X, _, few = drawn(1)
    times = np.random.default_rng(0).integers(1, 4, 400) * (few < 0) + (few >= 0)
    settings = {"class_weight": rkhs.ClassPrior([0.8, 0.2]), **LEAST_SQUARES}
    repeated = rkhs.InvariantClassifier(**settings).fit(np.repeat(X, times, axis=0), np.repeat(few, times))
    weighted = rkhs.InvariantClassifier(**settings).fit(X, few, sample_weight=times)
    np.testing.assert_allclose(repeated.decision_function(X), weighted.decision_function(X), atol=1e-5)
    once = rkhs.InvariantClassifier(**settings).fit(X, few)
    assert np.abs(once.decision_function(X) - weighted.decision_function(X)).max() > 1e-3


@pytest.mark.parametrize("estimator", [rkhs.InvariantClassifier(**LEAST_SQUARES), rkhs.InvariantClassifierCV()])
@pytest.mark.parametrize("share", [0.1, 0.2, 0.4])
def test_the_mean_is_that_of_the_proportions(estimator, share):
    X, _, few = drawn(3)
    model = estimator.set_params(class_weight=rkhs.ClassPrior([1 - share, share])).fit(X, few)
    assert np.mean(model.decision_function(X)) == pytest.approx(2 * share - 1, abs=0.15)


def test_the_means_of_several_classes():
    rng = np.random.default_rng(0)
    shares = np.array([0.6, 0.3, 0.1])
    y = rng.choice(3, 500, p=shares)
    X = rng.standard_normal((500, 2)) + np.array([[0.0, 0.0], [2.5, 0.0], [0.0, 2.5]])[y]
    few = np.full(500, -1)
    for c in range(3):
        few[np.flatnonzero(y == c)[:8]] = c
    settings = {**LEAST_SQUARES, "C": 1e3}
    model = rkhs.InvariantClassifier(class_weight=rkhs.ClassPrior(shares), **settings).fit(X, few)
    np.testing.assert_allclose(model.decision_function(X).mean(axis=0), 2 * shares - 1, atol=0.05)


@pytest.mark.parametrize("each", [(4, 10), (6, 6)])
def test_known_proportions_are_worth_more_than_weights(each):
    """Labels that are drawn in other proportions, with the same weights of the classes in both models."""
    count = sum(each)
    weights = {0: 0.8 * count / each[0], 1: 0.2 * count / each[1]}
    accuracies = []
    for seed in range(8):
        X, y, few = drawn(seed, each)
        models = [
            rkhs.InvariantClassifier(class_weight=prior, **LEAST_SQUARES).fit(X, few)
            for prior in (None, weights, rkhs.ClassPrior([0.8, 0.2]))
        ]
        accuracies.append([model.score(X, y) for model in models])
    none, weighted, known = np.mean(accuracies, axis=0)
    assert known > weighted + 0.01
    assert known > none + 0.03


@pytest.mark.slow
def test_the_automatic_choice_knows_the_proportions():
    accuracies = []
    for seed in range(4):
        X, y, few = drawn(seed, (4, 10))
        models = [
            rkhs.InvariantClassifierCV(scales="median", class_weight=prior).fit(X, few)
            for prior in (None, rkhs.ClassPrior([0.8, 0.2]))
        ]
        accuracies.append([model.score(X, y) for model in models])
    without, known = np.mean(accuracies, axis=0)
    assert known > without + 0.02
