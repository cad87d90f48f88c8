"""Tables of pandas and polars as points: kinds of columns, their encoding, and errors that name columns."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

import rkhs
from refusals import refused
from rkhs.extend import frame_columns
from rkhs.preprocessing import TableEncoder, column_kinds

T = 60
SIZES = ["low", "middle", "high"]


def frame(seed=0):
    """Return a table with columns of all kinds, some cells missing."""
    rng = np.random.default_rng(seed)
    start = pd.Timestamp("2024-02-20")
    return pd.DataFrame(
        {
            "area": np.where(rng.random(T) < 0.1, np.nan, 1e6 * rng.normal(size=T)),
            "city": rng.choice(["Paris", "Rome", None], T),
            "size": pd.Categorical(rng.choice(SIZES, T), categories=SIZES, ordered=True),
            "member": rng.random(T) < 0.5,
            "since": start + pd.to_timedelta(rng.integers(0, 300, T), unit="D"),
            "rooms": pd.array([None if k % 9 == 0 else k % 4 for k in range(T)], dtype="Int64"),
            "garden": [None if k % 7 == 0 else bool(k % 2) for k in range(T)],
            "visited": [datetime.date(2024, 3, 1 + k % 28) for k in range(T)],
            "waited": pd.to_timedelta(rng.integers(0, 90, T), unit="h"),
            "customer_id": np.arange(T)[::-1],
            "nothing": np.full(T, np.nan),
        }
    )


def in_polars(table):
    return pl.from_pandas(table.drop(columns="size")).with_columns(
        pl.Series("size", table["size"].astype(str).tolist(), dtype=pl.Enum(SIZES)), nothing=pl.lit(None)
    )[table.columns.tolist()]


@parametrize_with_checks([TableEncoder()])
def test_conventions_of_scikit_learn(estimator, check):
    check(estimator)


def test_each_kind_by_its_definition():
    table = frame()
    encoder = TableEncoder().fit(table)
    kinds = [
        "numeric",
        "categorical",
        "ordered",
        "boolean",
        "date",
        "numeric",
        "boolean",
        "date",
        "date",
        "id",
        "empty",
    ]
    assert list(encoder.kinds_.values()) == kinds
    found = dict(zip(encoder.get_feature_names_out(), encoder.transform(table).T, strict=True))
    days = (table["since"] - pd.Timestamp(0)) / pd.Timedelta(days=1)
    numbers = {
        "area": table["area"].fillna(table["area"].median()),
        "size": table["size"].cat.codes.astype(float),
        "member": table["member"].astype(float),
        "since": days,
        "visited": pd.to_datetime(table["visited"]).astype("int64"),
        "waited": table["waited"] / pd.Timedelta(days=1),
    }
    for name, values in numbers.items():
        values = np.asarray(values, dtype=float)
        assert_allclose(found.pop(name), (values - values.mean()) / values.std(), atol=1e-9, err_msg=name)
    for name, mask in {"city_": table["city"].isna(), "city_Rome": table["city"] == "Rome"}.items():
        assert_array_equal(found.pop(name), mask.astype(float))
    assert set(found) == {"rooms", "garden", "city_Paris"}
    assert len(np.unique(found["rooms"])) == 4


def test_polars_and_pandas_agree():
    table = frame()
    encoder, other = TableEncoder().fit(table), TableEncoder().fit(in_polars(table))
    assert encoder.kinds_ == other.kinds_
    assert_allclose(other.transform(in_polars(table)), encoder.transform(table), atol=1e-9)
    assert_allclose(other.transform(table), encoder.transform(table), atol=1e-9)


def test_set_output_and_clone():
    table = frame()
    encoder = clone(TableEncoder(max_categories=2)).set_output(transform="pandas")
    encoded = encoder.fit_transform(table)
    assert encoded.columns.tolist() == encoder.get_feature_names_out().tolist()
    assert encoded.index.equals(table.index)
    assert "city_infrequent_sklearn" in encoded.columns
    assert encoder.set_output(transform="polars").transform(table).shape == encoded.shape


def test_stated_kinds_and_integers_that_become_floats():
    """A missing cell makes the integers of pandas floats, which are the same categories."""
    table = pd.DataFrame({"zip": [1, 2, 1, 3] * 5, "text": [f"{k} is a number" for k in range(20)]})
    encoder = TableEncoder({"zip": "categorical", "text": "id"}).fit(table)
    assert encoder.get_feature_names_out().tolist() == ["zip_1", "zip_2", "zip_3"]
    later = pd.DataFrame({"zip": [2.0, np.nan], "text": ["", ""]})
    assert_array_equal(encoder.transform(later), [[0, 1, 0], [0, 0, 0]])


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_further_columns_are_ignored(kind):
    table = {"a": [1.0, 2.0, 4.0], "b": ["u", "v", "u"]}
    fitted = TableEncoder().fit(kind(table))
    np.testing.assert_array_equal(
        fitted.transform(kind({"y": [0.0, 1.0, 2.0], **table})), fitted.transform(kind(table))
    )


def test_unseen_categories_and_orders():
    table = pd.DataFrame({"city": ["a", "b"] * 5, "size": pd.Categorical(SIZES * 3 + ["low"], SIZES, ordered=True)})
    encoder = TableEncoder().fit(table)
    new = pd.DataFrame({"city": ["c", "a"], "size": ["huge", "low"]})
    median = encoder.transform(table[1:2])[0, 0]  # "middle" is the median
    assert_allclose(encoder.transform(new), [[median, 0, 0], [encoder.transform(table[:1])[0, 0], 1, 0]])


def test_texts_are_categories_sentences_or_names_of_rows():
    few = np.array(["a long name of a category", "another long name of it"] * 30)
    names = np.array([f"name {k}" for k in range(60)])
    notes = np.array([f"the delivery number {k} was late again" for k in range(60)])
    table = pd.DataFrame({"few": few, "names": names, "notes": notes})
    assert column_kinds(frame_columns(table)) == {"few": "categorical", "names": "id", "notes": "words"}
    with pytest.warns(UserWarning, match="leaves out column 'name', whose texts differ"):
        assert TableEncoder().fit(pd.DataFrame({"name": names, "x": few})).kinds_ == {"name": "id", "x": "categorical"}


def sentences(size=80):
    rng = np.random.default_rng(1)
    words = {0: ["late", "broken", "refund", "angry"], 1: ["quick", "happy", "great", "thanks"]}
    label = rng.integers(0, 2, size)
    texts = [
        f"Order {k} for my {rng.choice(['house', 'garden', 'car'])}: {rng.choice(words[c])} and {rng.choice(words[c])}"
        for k, c in enumerate(label)
    ]
    return pd.DataFrame({"note": texts, "price": rng.normal(size=size)}), label


def test_sentences_become_latent_semantic_features():
    table, label = sentences()
    encoder = TableEncoder().fit(table)
    assert encoder.kinds_ == {"note": "words", "price": "numeric"}
    X = encoder.transform(table)[:, 1:]
    frequencies = TfidfVectorizer(min_df=2).fit_transform(table["note"]).toarray()
    assert X.shape[1] <= 100
    assert_allclose(X @ X.T, frequencies @ frequencies.T, atol=1e-6)  # few words: nothing is lost
    model = make_pipeline(TableEncoder(), rkhs.InvariantClassifier(invariance=None, loss="squared"))
    assert model.fit(table[:50], label[:50]).score(table[50:], label[50:]) > 0.9
    assert np.all(encoder.transform(pd.DataFrame({"note": [None], "price": [0.0]}))[0, 1:] == 0)


def test_cross_validation_and_grids_take_frames():
    table = frame()
    y = np.nan_to_num(table["area"] / 1e6) + (table["city"] == "Rome") + table["size"].cat.codes
    model = make_pipeline(TableEncoder(), rkhs.InvariantRegressor(invariance=None))
    for rows in (table, in_polars(table)):
        assert np.all(cross_val_score(model, rows, y) > 0.3)
        search = GridSearchCV(model, {"invariantregressor__C": [1.0, 100.0]}).fit(rows, y)
        assert search.best_score_ > 0.5
        assert_allclose(search.predict(rows), search.best_estimator_.predict(table), atol=1e-9)


def test_categories_are_those_of_one_hot_encoding():
    cells = [f"often {k}" for k in range(49) for _ in range(3)] + [f"rare {k}" for k in range(40)]
    table = pd.DataFrame({"a": pd.Categorical(cells)})
    options = {"handle_unknown": "infrequent_if_exist", "max_categories": 50, "sparse_output": False}
    expected = OneHotEncoder(**options).fit_transform(np.array(cells, dtype=object)[:, None])
    assert_array_equal(TableEncoder().fit_transform(table), expected)


ESTIMATORS = (
    *(rkhs.InvariantClassifier(), rkhs.InvariantClassifierCV(), rkhs.InvariantRegressor(), rkhs.InvariantRegressorCV()),
    *(
        rkhs.geometry.ThinPlateRegressor(),
        rkhs.QuantileRegressor(),
        rkhs.counts.KernelPoissonRegressor(),
        rkhs.counts.OrdinalClassifier(),
    ),
)
Y = np.arange(T) % 2


@pytest.mark.every
@pytest.mark.parametrize("model", ESTIMATORS, ids=lambda model: type(model).__name__)
def test_an_estimator_names_the_column_and_the_encoder(model):
    for table in (frame()[["area", "city"]].fillna({"area": 0.0}), in_polars(frame())[["rooms", "city"]]):
        with pytest.raises(ValueError, match=r"Column 'city' of X holds texts such as '(Paris|Rome)'.*TableEncoder"):
            model.fit(table, Y)


@pytest.mark.parametrize(
    ("name", "holds"),
    {"size": "ordered categories such as", "since": "dates such as '2024", "visited": "dates such as '2024"}.items(),
)
def test_dates_and_categories_are_no_numbers(name, holds):
    with pytest.raises(ValueError, match=f"Column '{name}' of X holds {holds}"):
        rkhs.InvariantRegressor().fit(frame()[[name]], Y)


def test_booleans_and_nullable_numbers_are_numbers():
    table = frame()[["member", "rooms"]].fillna({"rooms": 0})
    assert rkhs.InvariantRegressor(C=1.0).fit(table, Y).predict(table).shape == (T,)


def fit(table, **options):
    return TableEncoder(**options).fit(table)


A = pd.DataFrame({"a": [1.0, 2.0]})
test_what_is_refused = refused(
    (lambda: fit(A, kinds={"b": "numeric"}), "kinds has the column 'b', and X has only 'a'"),
    (lambda: fit(A, kinds={"a": "number"}), "kind of column 'a' must be one of numeric, "),
    (lambda: fit(A, kinds={"a": "id"}), "No column of X can be learned from: 'a' is id"),
    (lambda: fit(pd.DataFrame({"a": [np.inf, 1.0]})), "Column 'a' of X contains infinity"),
    (lambda: fit(pd.DataFrame({"a": [[1], [2]]})), "Column 'a' of X holds mixed objects"),
    (lambda: fit(pl.DataFrame({"a": [[1], [2]]})), "Column 'a' of X holds List"),
    (lambda: fit(pd.DataFrame([[1, 2]], columns=["a", "a"])), "Two columns of X have the same name"),
    (lambda: fit(A).transform(A.rename(columns={"a": "b"})), "feature names"),
    (lambda: fit(A).transform(pd.DataFrame({"a": ["x", "y"]})), "Column 'a' of X was numeric in fit"),
    (lambda: fit(pd.DataFrame({"a": ["p q", "r s"]}), kinds={"a": "words"}), "No word of column 'a' is in two rows"),
)
