"""Names of columns are kept and checked wherever rows come in: every estimator, every way, every change."""

from copy import deepcopy
from functools import cache

import dask
import dask.dataframe
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone, is_classifier

import rkhs
from estimators.models import MODELS, QUANTILES, SPANNED, values
from rkhs.invariances import Monotone

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 3))
FRAME = pd.DataFrame(X, columns=["age", "income", "height"], index=RNG.permutation(24) / 2)
TARGET = X[:, 0] - 2 * X[:, 1]
CLASSES = (TARGET > 0).astype(int)
SPAN = rkhs.Landmarks(rkhs.Evaluation(X[:8]))
ESTIMATORS = {
    name: clone(model).set_params(approximation=SPAN) if name in SPANNED else model
    for name, model in (MODELS | QUANTILES).items()
}
IN_BLOCKS = ("InvariantClassifier, landmarks", "InvariantRegressor, landmarks")
COLLECTED = tuple(name for name in ESTIMATORS if "CV" in name)  # blocks are put together in memory
CHANGES = {
    "same": (lambda frame: frame, None),
    "permuted": (lambda frame: frame[["height", "age", "income"]], "must be in the same order"),
    "missing": (lambda frame: frame[["age", "income"]], "seen at fit time, yet now missing:\n- height"),
    "extra": (lambda frame: frame.assign(weight=1.0), "unseen at fit time:\n- weight"),
    "renamed": (lambda frame: frame.rename(columns={"age": "Age"}), "unseen at fit time:\n- Age"),
}


def y_of(estimator):
    return CLASSES if is_classifier(estimator) else TARGET


def lazy(frame):
    return dask.dataframe.from_pandas(frame.reset_index(drop=True), npartitions=3, sort=False)


@pytest.fixture(autouse=True)
def _here():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    FRAME.assign(target=TARGET, label=CLASSES).to_parquet(path, row_group_size=10)
    return path


@cache
def fitted(name, way, path=None):
    """A model that has learned from the frame in some way; the same one for all changes."""
    estimator = clone(ESTIMATORS[name])
    y = y_of(estimator)
    if way == "partial_fit":
        return estimator.partial_fit(FRAME[:12], y[:12]).partial_fit(FRAME[12:], y[12:])
    if way == "blocks":
        return estimator.fit(rkhs.streams.blocks(FRAME, pd.Series(y, index=FRAME.index), rows=10))
    if way == "parquet":
        target, other = ("label", "target") if is_classifier(estimator) else ("target", "label")
        features = [column for column in FRAME if column != other]
        return estimator.fit(rkhs.streams.read_parquet(path, target=target, features=features, rows=10))
    if way == "dask":
        rows = lazy(FRAME.assign(y=y))
        return estimator.fit(rows[list(FRAME)], rows["y"])
    return estimator.fit(FRAME, y)


def blocks(frame, y, kind=pd.DataFrame):
    return rkhs.streams.blocks(iter([(kind(FRAME), y), (kind(frame), y)]))


def partitions(frame, y):
    """Return a frame and targets of dask, whose parts are what they are, whatever the frame says of them."""
    parts, targets = [dask.delayed(FRAME), dask.delayed(frame)], [dask.delayed(pd.Series(y))] * 2
    rows = dask.dataframe.from_delayed(parts, meta=FRAME[:0], verify_meta=False)
    return rows, dask.dataframe.from_delayed(targets, meta=pd.Series(y[:0]))


USES = {  # of a frame with changed columns, by a model that has learned from `FRAME`, and the models that can do so
    "predict": (lambda model, frame, y: values(model, frame), tuple(ESTIMATORS)),
    "predict of dask": (lambda model, frame, y: values(model, lazy(frame)), tuple(ESTIMATORS)),
    "score": (lambda model, frame, y: model.score(frame, y), tuple(MODELS)),  # quantiles have none
    "partial_fit": (lambda model, frame, y: model.partial_fit(frame, y), IN_BLOCKS),
    "blocks": (lambda model, frame, y: model.fit(blocks(frame, y)), (*IN_BLOCKS, *COLLECTED)),
    "blocks of polars": (lambda model, frame, y: model.fit(blocks(frame, y, pl.from_pandas)), (*IN_BLOCKS, *COLLECTED)),
    "partitions": (lambda model, frame, y: model.fit(*partitions(frame, y)), IN_BLOCKS),
}
WAYS = {name: ["fit", "dask"] for name in ESTIMATORS}
WAYS |= {name: ["fit", "dask", "blocks", "parquet"] for name in COLLECTED}
WAYS |= {name: ["fit", "dask", "blocks", "parquet", "partial_fit"] for name in IN_BLOCKS}


@pytest.mark.every("use")
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize(
    ("use", "name", "way"),
    [
        (use, name, way)
        for use, (_, names) in USES.items()
        for name in names
        for way in (WAYS[name] if use != "partial_fit" else [use])  # after another way it starts anew
    ],
)
def test_columns_are_those_of_the_fit(use, name, way, change, file):
    """As scikit-learn would have it; where they are not, the model stays what it was."""
    model, y = deepcopy(fitted(name, way, file)), y_of(ESTIMATORS[name])
    assert model.feature_names_in_.tolist() == list(FRAME)
    changed, message = CHANGES[change]
    if message is None:
        USES[use][0](model, changed(FRAME), y)
        return
    before = values(model, FRAME)
    with pytest.raises(ValueError, match=message):
        USES[use][0](model, changed(FRAME), y)
    np.testing.assert_array_equal(values(model, FRAME), before)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_fit_again(name, change):
    """Another fit has other names, and none of the old ones."""
    changed = CHANGES[change][0](FRAME)
    if "landmarks" in name and changed.shape[1] != 3:
        pytest.skip("the landmarks are points of three features")
    estimator = deepcopy(fitted(name, "fit")).fit(changed, y_of(ESTIMATORS[name]))
    assert estimator.feature_names_in_.tolist() == list(changed)
    if change == "same":
        estimator.fit(X, y_of(estimator))
        assert not hasattr(estimator, "feature_names_in_")


@pytest.mark.parametrize("name", [name for name in ESTIMATORS if name not in (*IN_BLOCKS, *COLLECTED)])
def test_blocks_of_rows_that_are_needed_at_once(name):
    with pytest.raises(TypeError, match="memory"):
        clone(ESTIMATORS[name]).fit(rkhs.streams.blocks(FRAME, TARGET), TARGET)


@pytest.mark.parametrize(("name", "way"), [(name, way) for name, ways in WAYS.items() for way in ways])
def test_all_ways_are_one(name, way, file):
    np.testing.assert_allclose(values(fitted(name, way, file), FRAME), values(fitted(name, "fit"), FRAME), atol=1e-5)


@pytest.mark.parametrize("way", ["fit", "partial_fit", "blocks", "parquet", "dask"])
def test_knowledge_by_name(way, file, monkeypatch):
    """f falls with age where that is said by name, in all ways, as where it is said by number."""
    options = {"scale": 1.0, "approximation": rkhs.Landmarks(rkhs.Evaluation(X)), "nu": 10.0, "tol": 1e-6}
    expected = rkhs.InvariantRegressor(invariance=Monotone({0: -1}), **options).fit(X, TARGET)
    named = rkhs.InvariantRegressor(invariance=Monotone({"age": -1}), **options)
    monkeypatch.setitem(ESTIMATORS, "named", named)
    estimator = fitted("named", way, file)
    np.testing.assert_allclose(estimator.predict(FRAME), expected.predict(X), atol=1e-4)
    assert np.abs(estimator.predict(FRAME) - fitted("InvariantRegressor", "fit").predict(FRAME)).max() > 0.1


PERMUTED = ["height", "age", "income"]
SHAPED = {"kernel": rkhs.Gaussian(3.0), "tol": 1e-6}
PRIORS = {  # what is said about the column "age", in words, of models that take it
    "shape, regressor": lambda key: rkhs.InvariantRegressor(shape={key: "decreasing"}, **SHAPED),
    "shape, classifier": lambda key: rkhs.InvariantClassifier(loss="squared", shape={key: "decreasing"}, **SHAPED),
    "monotone, regressor": lambda key: rkhs.InvariantRegressor(invariance=Monotone({key: -1}), nu=10.0, **SHAPED),
    "monotone, classifier": lambda key: rkhs.InvariantClassifier(
        loss="squared", invariance=Monotone({key: -1}), nu=10.0, **SHAPED
    ),
    "monotone, regressor CV": lambda key: rkhs.InvariantRegressorCV(
        invariance=Monotone({key: -1}), Cs=[1.0], nus=[10.0], scales=3.0, tol=1e-6
    ),
    "monotone, classifier CV": lambda key: rkhs.InvariantClassifierCV(
        loss="squared", invariance=Monotone({key: -1}), Cs=[1.0], nus=[10.0], scales=3.0, tol=1e-6, cv=2
    ),
}


@pytest.mark.parametrize("prior", PRIORS)
def test_prior_knowledge_follows_its_column(prior):
    """By name it is about the same column wherever that stands; where there is no such column it is refused."""
    y = y_of(PRIORS[prior](0))
    expected = values(PRIORS[prior](0).fit(X, y), X)
    drawn = 0.02 if "shape" in prior else 1e-3  # points at which a shape is asked for are drawn column by column
    for columns, atol in ((list(FRAME), 1e-9), (PERMUTED, drawn)):
        model = PRIORS[prior]("age").fit(FRAME[columns], y)
        np.testing.assert_allclose(values(model, FRAME[columns]), expected, atol=atol)
    plain = {"loss": "squared", "invariance": None, **SHAPED}
    free = (rkhs.InvariantClassifier if is_classifier(model) else rkhs.InvariantRegressor)(**plain).fit(X, y)
    assert np.abs(values(free, X) - expected).max() > 0.05  # it says something
    for frame in (FRAME[["income", "height"]], FRAME.rename(columns={"age": "Age"})):
        with pytest.raises(ValueError, match=r"'age'.*Its columns are '(income|Age)'"):
            PRIORS[prior]("age").fit(frame, y)
    with pytest.raises(ValueError, match="no column names"):
        PRIORS[prior]("age").fit(X, y)


SLOPES = pd.DataFrame(np.tile([1.0, -2.0, 0.0], (24, 1)), columns=list(FRAME))
BOX = pd.DataFrame(np.stack([X.min(axis=0), X.max(axis=0)]), columns=list(FRAME))
BESIDE = {  # frames beside X, about its columns
    "gradients": lambda X, frame: rkhs.InvariantRegressor(scale=2.0).fit(X, TARGET, gradients=frame),
    "the box of a Shape": lambda X, frame: rkhs.InvariantRegressor(shape=rkhs.Shape({"f": (-9, 9)}, box=frame)).fit(
        X, TARGET
    ),
}


@pytest.mark.filterwarnings("ignore:With C=.* InvariantRegressor misses its training")
@pytest.mark.parametrize(
    ("what", "kind"),
    [("gradients", pd.DataFrame), ("gradients", pl.from_pandas), ("the box of a Shape", pd.DataFrame)],
    ids=["gradients", "gradients of polars", "the box of a Shape"],
)
@pytest.mark.parametrize("change", CHANGES)
def test_frames_beside_X_have_its_columns(what, kind, change):
    fit, given = BESIDE[what], SLOPES if what == "gradients" else BOX
    changed, message = CHANGES[change]
    frame = kind(changed(given))
    if message is None:
        expected = fit(X, given.to_numpy()).predict(X)
        np.testing.assert_allclose(fit(FRAME, frame).predict(FRAME), expected, atol=1e-9)
        return
    with pytest.raises(ValueError, match=f"^The columns of {what} must be those of X(?s:.*){message}"):
        fit(FRAME, frame)


def test_scales_go_by_the_order_of_features():
    scale = pd.Series([1.0, 2.0, 3.0], index=PERMUTED)
    for model in (rkhs.InvariantRegressor(scale=scale), rkhs.QuantileRegressor(scale=scale)):
        with pytest.raises(ValueError, match=r"scale is a series with names.*scale\[X\.columns\]\.to_numpy\(\)"):
            model.fit(FRAME, TARGET)
    for given in (scale[list(FRAME)].to_numpy(), [2.0, 3.0, 1.0], pd.Series([2.0, 3.0, 1.0])):
        assert rkhs.InvariantRegressor(scale=given).fit(FRAME, TARGET).function_.kernel.scale == (2.0, 3.0, 1.0)


@pytest.mark.parametrize("name", MODELS)
def test_weights_and_targets_go_by_rows(name):
    """A series has an index, which scikit-learn does not look at: rows are those of X by their place."""
    estimator, weight = ESTIMATORS[name], RNG.uniform(0.5, 2.0, 24)
    shuffled = RNG.permutation(24)
    found = clone(estimator).fit(FRAME, pd.Series(y_of(estimator), index=shuffled), pd.Series(weight, index=shuffled))
    expected = clone(estimator).fit(X, y_of(estimator), weight)
    np.testing.assert_allclose(values(found, FRAME), values(expected, X), atol=1e-9)
    with pytest.raises(ValueError, match="must be 1D"):
        clone(estimator).fit(FRAME, y_of(estimator), FRAME.abs())


def test_knowledge_about_columns_that_are_not_there():
    estimator = rkhs.InvariantRegressor(invariance=Monotone({"wealth": 1}), approximation=SPAN)
    for X_ in (FRAME, rkhs.streams.blocks(FRAME, TARGET)):
        with pytest.raises(ValueError, match=r"'wealth'.*Its columns are 'age'"):
            estimator.fit(X_, TARGET if X_ is FRAME else None)
    with pytest.raises(ValueError, match="no column names"):
        estimator.partial_fit(X, TARGET)


def test_without_names_there_is_scikit_learns_warning():
    estimator = clone(ESTIMATORS["InvariantRegressor, landmarks"]).partial_fit(FRAME, TARGET)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        estimator.partial_fit(X, TARGET)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        clone(estimator).fit(rkhs.streams.blocks(lambda: iter([(FRAME, TARGET), (X, TARGET)])))


def test_a_problem_of_blocks_checks_names_too():
    def terms(block):
        return [rkhs.Term(rkhs.Evaluation(block.X), rkhs.Squared(), target=block.y)]

    parts = [(FRAME, TARGET), (FRAME[["height", "age", "income"]], TARGET)]
    problem = rkhs.streams.StreamedProblem(rkhs.Gaussian(1.0), terms, rkhs.streams.blocks(lambda: iter(parts)), SPAN)
    with pytest.raises(rkhs.exceptions.BlockError, match=r"Block 1 cannot be used: (?s:.*) same order"):
        problem.solve()
