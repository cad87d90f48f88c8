"""Labels of all kinds, and what stands for none: each works, or is refused with the remedy."""

from contextlib import nullcontext
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

import rkhs

pytestmark = pytest.mark.filterwarnings("ignore:y is -1, 0, 1, and")  # a third of the rows has no label

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
TRUE = (X[:, 0] > 0).astype(int)
KNOWN = np.arange(30) % 3 > 0
NAMES = np.array(["no", "yes"], dtype=object)[TRUE]
SPAN = rkhs.Landmarks(rkhs.Evaluation(X[:10]))
ESTIMATORS = [
    rkhs.InvariantClassifier(loss="squared_hinge", scale=1.0),
    rkhs.InvariantClassifierCV(Cs=[1, 10], scales=1.0),
    rkhs.InvariantClassifier(loss="squared_hinge", scale=1.0, invariance="graph", C=100.0, nu=1000.0),
    rkhs.InvariantClassifier(loss="squared", scale=1.0, approximation=SPAN),
]


def gaps(values, gap, dtype=object):
    found = np.array(values, dtype=dtype)
    found[~KNOWN] = gap
    return found


# y, what stands for no label, the classes that are left
KINDS = {
    "floats and NaN": (gaps(TRUE, np.nan, float), np.nan, [0, 1]),
    "integers and None": (gaps(TRUE, None), np.nan, [0, 1]),
    "nullable integers": (pd.Series(gaps(TRUE, np.nan, float)).astype("Int64"), np.nan, [0, 1]),
    "text and NaN": (gaps(NAMES, np.nan), np.nan, ["no", "yes"]),
    "text and None": (gaps(NAMES, None), np.nan, ["no", "yes"]),
    "text of pandas": (pd.Series(gaps(NAMES, None)), np.nan, ["no", "yes"]),
    "text of pandas, nullable": (pd.Series(gaps(NAMES, None)).astype("string"), np.nan, ["no", "yes"]),
    "text of polars": (pl.Series(gaps(NAMES, None).tolist()), np.nan, ["no", "yes"]),
    "categories": (pd.Series(gaps(NAMES, np.nan)).astype("category"), np.nan, ["no", "yes"]),
    "text and -1": (gaps(NAMES, -1), -1, ["no", "yes"]),
    "text and -1 in a list": (gaps(NAMES, -1).tolist(), -1, ["no", "yes"]),
    "text and '-1'": (gaps(NAMES, "-1").astype(str), "-1", ["no", "yes"]),
    "text and '?'": (gaps(NAMES, "?").tolist(), "?", ["no", "yes"]),
    "truths and -1": (gaps(TRUE.astype(bool), -1), -1, [False, True]),
    "integers and -1": (gaps(TRUE, -1, int), -1, [0, 1]),
    "'-1' is a class": (np.where(TRUE, "1", "-1"), None, ["-1", "1"]),
}


@cache
def of_codes(estimator, all_known):
    """The decision values of a model of the classes 0 and 1, where -1 is no label."""
    return clone(estimator).fit(X, TRUE if all_known else np.where(KNOWN, TRUE, -1)).decision_function(X)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("kind", KINDS)
def test_what_works(kind, estimator):
    y, marker, classes = KINDS[kind]
    found = clone(estimator).set_params(unlabeled=marker).fit(X, y)
    assert found.classes_.tolist() == classes
    if estimator.approximation is None:
        np.testing.assert_array_equal(found.labeled_, KNOWN | ("is a class" in kind))
    np.testing.assert_allclose(found.decision_function(X), of_codes(estimator, "is a class" in kind), atol=1e-9)
    assert set(found.predict(X).tolist()) <= set(classes)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if "is a class" not in kind])
def test_the_same_in_blocks(kind):
    y, marker, classes = KINDS[kind]
    estimator = clone(ESTIMATORS[-1]).set_params(unlabeled=marker)
    whole = clone(estimator).fit(X, y)
    values = y if isinstance(y, list) else np.asarray(y)
    parts = [(X[:17], values[:17]), (X[17:], values[17:])]
    for found in (
        clone(estimator).fit(rkhs.streams.blocks(lambda: iter(parts))),
        clone(estimator).partial_fit(*parts[0], classes=classes).partial_fit(*parts[1]),
    ):
        assert found.classes_.tolist() == classes
        np.testing.assert_allclose(found.decision_function(X), whole.decision_function(X), atol=1e-6)


REFUSED = {
    "'-1' beside -1": (gaps(NAMES, "-1").astype(str), -1, r"text '-1'.*unlabeled=-1.*unlabeled='-1'.*unlabeled=None"),
    "'-1.0' beside -1": (gaps(NAMES, "-1.0").tolist(), -1, r"text '-1.0'.*unlabeled='-1.0'"),
    "-1 beside '-1'": (gaps(TRUE, -1, int), "-1", r"number -1.*unlabeled='-1' is a text.*unlabeled=-1"),
    "text and numbers": (gaps(NAMES, 7), -1, r"mixes text \('(no|yes)'\) and numbers \(7\)"),
    "text and numbers in a list": (["a", 7, "b", *NAMES[3:]], -1, "mixes text"),
}


@pytest.mark.every
@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda m: type(m).__name__)
def test_what_is_refused_and_why(kind, estimator):
    y, marker, message = REFUSED[kind]
    estimator = clone(estimator).set_params(unlabeled=marker)
    with pytest.raises(ValueError, match=message):
        estimator.fit(X, y)
    if estimator.get_params().get("approximation") is not None and hasattr(estimator, "partial_fit"):
        for learn in (lambda: estimator.fit(rkhs.streams.blocks(iter([(X, y)]))), lambda: estimator.partial_fit(X, y)):
            with pytest.raises(rkhs.exceptions.BlockError, match=f"Block 0 cannot be used: .*{message}"):
                learn()


ALL = [*ESTIMATORS, rkhs.geometry.ThinPlateClassifier(), rkhs.VirtualSampleSVC(), rkhs.InvariantRegressor()]


@pytest.mark.parametrize("estimator", ALL, ids=lambda m: type(m).__name__)
def test_a_gap_that_nobody_spoke_of(estimator):
    with pytest.raises(ValueError, match=r"y contains NaN.* at row 0: drop .* unlabeled=np.nan"):
        clone(estimator).fit(X, gaps(TRUE, np.nan, float))


@pytest.mark.parametrize("y", [gaps(TRUE, np.nan, float), gaps(TRUE, None), gaps(X[:, 0], np.nan, float)])
def test_one_rule_for_arrays_blocks_and_partial_fit(y):
    """A gap that nobody spoke of is refused wherever rows come from; with unlabeled=np.nan it has no label."""
    estimator = rkhs.InvariantRegressor if y[1] % 1 else rkhs.InvariantClassifier
    options = {"loss": "squared", "scale": 1.0, "approximation": SPAN}
    ways = {
        "fit": lambda model: model.fit(X, y),
        "blocks of an array": lambda model: model.fit(rkhs.streams.blocks(X, y, rows=7)),
        "blocks of an iterator": lambda model: model.fit(rkhs.streams.blocks(iter([(X, y)]))),
        "partial_fit": lambda model: model.partial_fit(X, y),
    }
    expected = estimator(**options, unlabeled=np.nan).fit(X, y).function_(X)
    for learn in ways.values():
        with pytest.raises(ValueError, match=r"y contains NaN.* at row \d: drop .* unlabeled=np.nan"):
            learn(estimator(**options))
        np.testing.assert_allclose(learn(estimator(**options, unlabeled=np.nan)).function_(X), expected, atol=1e-6)


SEARCH = {"loss": "squared", "Cs": [1], "nus": [0], "cv": 2, "scales": 1.0}
SPAN_OF_SQUARES = {"loss": "squared", "scale": 1.0, "approximation": SPAN}
LEARN = {
    "fit": lambda y, **more: rkhs.InvariantClassifier(loss="squared", scale=1.0, **more).fit(X, y),
    "landmarks": lambda y, **more: rkhs.InvariantClassifier(**SPAN_OF_SQUARES, **more).fit(X, y),
    "blocks": lambda y, **more: rkhs.InvariantClassifier(**SPAN_OF_SQUARES, **more).fit(rkhs.streams.blocks(X, y)),
    "partial_fit": lambda y, **more: rkhs.InvariantClassifier(**SPAN_OF_SQUARES, **more).partial_fit(X, y),
    "search": lambda y, **more: rkhs.InvariantClassifierCV(**SEARCH, **more).fit(X, y),
    "graph": lambda y, **more: rkhs.InvariantClassifier(invariance="graph", scale=1.0, **more).fit(X, y),
}
THIRDS = np.arange(30) % 3
MINUS = {  # labels, whether -1 may have been meant as a class
    "a scale of three": (THIRDS - 1, True),
    "a scale of three, as floats": (THIRDS - 1.0, True),
    "a scale of five": (np.arange(30) % 5 - 2, True),
    "most have no label": (np.where(np.arange(30) < 20, -1, THIRDS % 2), False),
    "three classes": (np.where(np.arange(30) % 4 == 0, -1, THIRDS), False),
    "all have one": (THIRDS, False),
}


@pytest.mark.filterwarnings("default:y is -1")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("way", LEARN)
@pytest.mark.parametrize("kind", MINUS)
def test_minus_one_on_a_scale_is_not_taken_as_no_label_without_a_word(way, kind):
    y, ambiguous = MINUS[kind]
    expected = pytest.warns(
        UserWarning, match=r"y is -1, .*takes -1 for points without.*unlabeled=None.*unlabeled=np.nan"
    )
    with expected if ambiguous else nullcontext():
        LEARN[way](y)
    if ambiguous:  # both remedies
        assert -1 in LEARN[way](y, unlabeled=None).classes_
        assert -1 not in LEARN[way](np.where(y == -1, np.nan, y), unlabeled=np.nan).classes_


@pytest.mark.parametrize("other", [0, 1])
@pytest.mark.parametrize("way", LEARN)
def test_minus_one_as_one_of_two_classes(way, other):
    y = np.where(TRUE, other, -1)
    with pytest.raises(ValueError, match=f"y is -1 or {other} and .* If -1 is a class, pass unlabeled=None, or encode"):
        LEARN[way](y)
    assert LEARN[way](y, unlabeled=None).classes_.tolist() == [-1, other]


LARGE = [2**63 + 1 if one else 2**63 + 2 for one in TRUE]
WIDE = {
    "unsigned": (np.array(LARGE, dtype=np.uint64), {}),
    "list": (LARGE, {}),
    "objects": (np.array(LARGE, dtype=object), {}),
    "list with -1": ([-1, *LARGE[1:]], {}),
    "list with -1 as a class": ([-1, *LARGE[1:]], {"unlabeled": None}),
    "list with a float": ([2**53 + 1 if one else 2.0**53 for one in TRUE], {}),
    "more than 64 bits": ([2**70 + 1 if one else 2**70 for one in TRUE], {}),
}


@pytest.mark.every
@pytest.mark.parametrize("way", ["fit", "landmarks", "blocks", "partial_fit"])
@pytest.mark.parametrize("kind", WIDE)
def test_whole_numbers_that_rounding_makes_equal_are_two_classes_or_refused(kind, way):
    y, options = WIDE[kind]
    if kind in ("unsigned", "list", "objects", "list with -1"):
        found = LEARN[way](y, **options)
        assert found.classes_.tolist() == [2**63 + 1, 2**63 + 2]
        assert set(found.predict(X).tolist()) == {2**63 + 1, 2**63 + 2}
    else:
        with pytest.raises(ValueError, match=r"rounding could merge two classes: convert all classes to text"):
            LEARN[way](y, **options)


@pytest.mark.parametrize(
    "y", [gaps(X[:, 0], np.nan, float), gaps(X[:, 0], None), pl.Series(gaps(X[:, 0], None).tolist())]
)
@pytest.mark.parametrize("approximation", [None, SPAN], ids=["whole", "landmarks"])
def test_targets_that_are_missing(y, approximation):
    estimator = rkhs.InvariantRegressor(scale=1.0, unlabeled=np.nan, approximation=approximation)
    expected = clone(estimator).set_params(unlabeled=99.0).fit(X, np.where(KNOWN, X[:, 0], 99.0)).predict(X)
    np.testing.assert_allclose(estimator.fit(X, y).predict(X), expected, atol=1e-9)
