"""Exported pipelines take tables and predict what the pipelines do: in onnxruntime, and by the reader of the page."""

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from reading import read
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder, StandardScaler

import rkhs
from refusals import refused
from rkhs.exceptions import ExportError
from rkhs.preprocessing import TableEncoder

T = 60
SIZES = ["low", "middle", "high"]
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(
    {
        "area [m²]": np.where(RNG.random(T) < 0.1, np.nan, RNG.uniform(1, 9, T)),
        "city": RNG.choice(["Paris", "Rome", "v1", None], T),
        "size": pd.Categorical(RNG.choice(SIZES, T), categories=SIZES, ordered=True),
        "member": RNG.random(T) < 0.5,
        "since": pd.Timestamp("2024-02-20") + pd.to_timedelta(RNG.integers(0, 300, T), unit="D"),
        "rooms": RNG.integers(1, 5, T),
    }
)
VALUES = TABLE["area [m²]"].fillna(5.0) + (TABLE["city"] == "Rome") + TABLE["size"].cat.codes
CLASSES = np.where(VALUES.median() < VALUES, "dear", "cheap")
NEW = TABLE[:20].assign(city=["Oslo", "Paris", None, "Rome"] * 5, rooms=[7, 1, 2, 3] * 5)
NUMBERS = np.abs(RNG.normal(size=(T, 3))) + 0.1


def inputs_of(table):
    """Return the columns as exported models take them: dates in days since 1970, texts with "" for missing ones."""
    texts = {name: table[name].astype(object).where(table[name].notna(), "").astype(str) for name in ("city", "size")}
    days = (table["since"] - pd.Timestamp(0)) / pd.Timedelta(days=1)
    columns = {name: texts.get(name, table[name]) for name in table} | {"since": days}
    return {
        name: np.asarray(column, dtype=object if name in texts else np.float64)[:, None]
        for name, column in columns.items()
    }


def check_export(model, table, path, **options):
    """Compare the outputs of onnxruntime and of the reader with the predictions of the model."""
    session = onnxruntime.InferenceSession(rkhs.to_onnx(model, **options).SerializeToString())
    names = [one.name for one in session.get_inputs()]
    rkhs.to_json(model, path, **options)
    if isinstance(table, pd.DataFrame):
        given = inputs_of(table)
    else:
        given = {"X": table} if names == ["X"] else {f"x{k}": table[:, [k]] for k in range(table.shape[1])}
    found = session.run(None, {name: given[name] for name in names})
    none = session.run(None, {name: given[name][:0] for name in names})
    by_reader = read(path)({name: column[:, 0] for name, column in given.items()} if "X" not in names else given["X"])
    expected = [model.predict(table)]
    if hasattr(model, "predict_proba"):
        expected.append(model.predict_proba(table))
    if options:
        expected += list(model.predict_interval(table, **options).T)
    for one, other, empty, values in zip(found, by_reader.values(), none, expected, strict=True):
        assert empty.shape == (0, *values.shape[1:])
        if values.dtype.kind == "f":
            atol = 1e-6 * np.abs(values).max()
            assert_allclose(one, values, rtol=0, atol=atol)
            assert_allclose(other, values, rtol=0, atol=atol)
        else:
            assert one.tolist() == other.tolist() == values.tolist()
    return names


def test_five_kinds_of_columns_from_fit_to_onnxruntime(tmp_path):
    model = make_pipeline(TableEncoder(), rkhs.InvariantRegressor(invariance=None))
    assert np.mean(cross_val_score(model, TABLE, VALUES)) > 0.6
    search = GridSearchCV(model, {"invariantregressor__C": [1.0, 100.0]}, cv=3).fit(TABLE, VALUES)
    assert check_export(search, NEW, tmp_path / "a.json") == ["area [m²]", "size", "member", "since", "rooms", "city"]


def test_classes_and_intervals(tmp_path):
    loss = {"loss": "squared", "invariance": None}
    model = make_pipeline(TableEncoder(), rkhs.InvariantClassifier(**loss)).fit(TABLE, CLASSES)
    check_export(model, NEW, tmp_path / "a.json")
    search = make_pipeline(TableEncoder(max_categories=2), rkhs.InvariantRegressorCV(kernel="gaussian"))
    check_export(search.fit(TABLE, VALUES), NEW, tmp_path / "b.json")


def log_of(function=np.log):
    return FunctionTransformer(function)


def shifted(x, by):
    return np.log(x + by)


TEXTS = make_pipeline(SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore"))
PIPELINES = {
    "numbers and texts": lambda: make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["area [m²]", "rooms"]),
        (TEXTS, ["city"]),
        (OneHotEncoder(drop="first", sparse_output=False), ["size"]),
        sparse_threshold=0,
    ),
    "rare ones": lambda: make_column_transformer(
        (OneHotEncoder(max_categories=3, handle_unknown="infrequent_if_exist"), ["city", "size"]),
        (OneHotEncoder(handle_unknown="ignore"), ["rooms"]),
        sparse_threshold=0,
    ),
    "weights, the rest and a mask": lambda: ColumnTransformer(
        [("a", OneHotEncoder(handle_unknown="ignore"), ["city"]), ("b", "drop", ["size", "since", "area [m²]"])],
        remainder="passthrough",
        transformer_weights={"a": 0.5},
        sparse_threshold=0,
    ),
}


@pytest.mark.every
@pytest.mark.filterwarnings("ignore:Found unknown categories in columns")  # of a dropped one
@pytest.mark.parametrize("name", PIPELINES)
def test_column_transformers(name, tmp_path):
    table = TABLE.fillna({"city": ""}) if "rare" in name else TABLE.assign(city=TABLE["city"].astype(object))
    model = make_pipeline(PIPELINES[name](), rkhs.InvariantRegressor(invariance=None)).fit(table, VALUES)
    new = NEW.assign(city=NEW["city"].astype(object).where(NEW["city"].notna(), "" if "rare" in name else np.nan))
    check_export(model, new, tmp_path / "a.json")


STEPS = {
    "log": lambda: (log_of(), StandardScaler()),
    "log1p": lambda: (log_of(np.log1p),),
    "function": lambda: (FunctionTransformer(shifted, kw_args={"by": 1.0}),),
    "identity": lambda: (FunctionTransformer(), "passthrough"),
    "imputer": lambda: (SimpleImputer(strategy="median"), StandardScaler()),
    "marker": lambda: (SimpleImputer(missing_values=-1.0, strategy="constant", fill_value=0.5),),
    "columns": lambda: (make_column_transformer((log_of(), [0]), (StandardScaler(), slice(1, 3))),),
    "table": lambda: (TableEncoder(),),
}


@pytest.mark.every
@pytest.mark.parametrize("name", STEPS)
def test_steps_of_numbers(name, tmp_path):
    X, new = NUMBERS.copy(), np.concatenate([NUMBERS[:9], 3 + NUMBERS[:9]])
    if name in ("imputer", "table", "marker"):
        X[::7, 1] = new[::4, 1] = -1.0 if name == "marker" else np.nan
    model = make_pipeline(*STEPS[name](), rkhs.InvariantRegressor(invariance=None)).fit(X, NUMBERS[:, 0])
    check_export(model, new, tmp_path / "a.json")


def test_sentences_are_exported_to_json_only(tmp_path):
    rng = np.random.default_rng(1)
    notes = [f"Order {k} for my {rng.choice(['house', 'Garden'])} was {rng.choice(['LATE', 'fine'])}" for k in range(T)]
    table = pd.DataFrame({"note": notes, "price": rng.normal(size=T)})
    model = make_pipeline(TableEncoder(), rkhs.InvariantRegressor(invariance=None)).fit(table, VALUES)
    rkhs.to_json(model, tmp_path / "a.json")
    table.loc[:2, "note"] = ["unseen words only", "", "my house, my Garden: fine."]
    found = read(tmp_path / "a.json")({"note": table["note"], "price": table["price"]})["variable"]
    assert_allclose(found, model.predict(table), rtol=1e-9)
    with pytest.raises(ExportError, match=r"A column of sentences .* use rkhs.to_json"):
        rkhs.to_onnx(model)


def behind(step, X=NUMBERS):
    return lambda: rkhs.to_json(make_pipeline(step, rkhs.InvariantRegressor(invariance=None)).fit(X, VALUES))


def centered(x):
    return x - x.mean(axis=0)


class Logarithm(FunctionTransformer):
    pass


test_what_is_refused = refused(
    (behind(SimpleImputer(add_indicator=True), np.where(NUMBERS > 1.5, np.nan, NUMBERS)), "add_indicator", ExportError),
    (behind(FunctionTransformer(centered)), r"FunctionTransformer\(centered\) cannot be exported", ExportError),
    (behind(MinMaxScaler()), r"MinMaxScaler\(\) of the pipeline .* skl2onnx.to_onnx", ExportError),
    (behind(Logarithm()), r"Logarithm\(\) of the pipeline cannot be exported", ExportError),
    (
        behind(TableEncoder(), TABLE[["area [m²]", "city"]].rename(columns={"city": "variable"})),
        "The column 'variable' cannot be exported",
        ExportError,
    ),
)
