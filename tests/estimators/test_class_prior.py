"""Proportions of classes that labels do not have: as weights, and what they are worth."""

import numpy as np
import pytest

import rkhs

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
    np.testing.assert_allclose(np.sign(blocks.decision_function(X)), np.sign(whole.decision_function(X)))
    with pytest.raises(ValueError, match=r"ClassPrior.*depends on the labels of all rows"):
        rkhs.InvariantClassifier(**common).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="depends on the labels of all rows"):  # the first block is not all rows
        rkhs.InvariantClassifier(**common).partial_fit(X, y)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (rkhs.ClassPrior([1.0]), "a positive share for each"),
        (rkhs.ClassPrior([1.0, 0.0]), "a positive share for each"),
        (rkhs.ClassPrior({0: 1.0, 5: 1.0}), "a share for each of"),
        ([1.0, 2.0], "class_weight must be .* or an rkhs.ClassPrior"),
        (rkhs.ClassPrior("estimated"), "ClassPrior.estimate"),
        ("prior", "class_weight must be .* or an rkhs.ClassPrior"),
    ],
)
def test_bad_proportions_are_refused(given, words):
    X, y = groups(5, 5)
    with pytest.raises(ValueError, match=words):
        rkhs.InvariantClassifier(unlabeled=None, class_weight=given).fit(X, y)
