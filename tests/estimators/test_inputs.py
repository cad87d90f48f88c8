"""What goes in and where the estimators work: frames, sparse matrices, tensors, pipelines, searches, processes."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import torch
from joblib import Parallel, delayed
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import make_moons
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import rkhs
from estimators.models import EXACT, QUANTILES
from estimators.test_equal_problems import spoil

SPAN = rkhs.InvariantRegressor(scale=1.0, approximation=rkhs.Landmarks(5))
ALL = EXACT | QUANTILES | {"landmarks": SPAN}


@pytest.fixture(scope="module")
def moons():
    return make_moons(40, noise=0.2, random_state=0)


@pytest.mark.filterwarnings("ignore:With C=.* InvariantRegressor misses its training")
def test_sparse_points_in_blocks(moons):
    X, y = moons
    expected = clone(SPAN).fit(rkhs.streams.blocks(X, y)).predict(X)
    for thin in (scipy.sparse.csr_array(X), scipy.sparse.coo_array(X)):
        for model in (clone(SPAN).fit(rkhs.streams.blocks(thin, y)), clone(SPAN).partial_fit(thin, y)):
            np.testing.assert_allclose(model.predict(thin), expected, atol=1e-9)
    slopes = rkhs.InvariantRegressor().fit(scipy.sparse.csr_array(X), gradients=X)
    np.testing.assert_array_equal(slopes.predict(X), rkhs.InvariantRegressor().fit(X, gradients=X).predict(X))


def test_what_must_be_dense_is_named(moons):
    X, y = moons
    thin, model = scipy.sparse.csr_array(X), rkhs.InvariantRegressor()
    with pytest.raises(TypeError, match=r"^gradients is a sparse matrix.*gradients\.toarray"):
        model.fit(X, y, gradients=thin)
    with pytest.raises(TypeError, match=r"^y is a sparse matrix.*y\.toarray"):
        model.fit(X, thin[:, [0]])
    with pytest.raises(TypeError, match=r"sample_weight.*toarray"):
        model.fit(X, y, thin[:, [0]])


@pytest.mark.parametrize("estimator", ALL.values(), ids=ALL)
def test_frames_without_columns(estimator, moons):
    X, y = moons
    fitted = clone(estimator).fit(X, y)
    for frame in (pd.DataFrame(), pd.DataFrame(index=range(40)), pl.DataFrame()):
        for use in (
            lambda frame=frame: clone(estimator).fit(frame, y[: len(frame)]),
            lambda f=frame: fitted.predict(f),
        ):
            with pytest.raises(ValueError, match=r"^X has 0 feature\(s\).*add at least one column"):
                use()


def masked(values):
    values = np.asarray(values, dtype=float)
    return np.ma.masked_array(values, np.arange(values.size).reshape(values.shape) == 3)


@pytest.mark.parametrize("estimator", ALL.values(), ids=ALL)
def test_masked_entries_are_refused(estimator, moons):
    X, y = moons
    fitted = clone(estimator).fit(np.ma.masked_array(X), np.ma.masked_array(y))  # nothing is masked
    uses = {
        "X": [lambda: clone(estimator).fit(masked(X), y), lambda: fitted.predict(masked(X))],
        "y": [lambda: clone(estimator).fit(X, masked(y))],
        "sample_weight": [lambda: clone(estimator).fit(X, y, masked(np.ones(40)))],
        "gradients": [lambda: clone(estimator).fit(X, y, gradients=masked(X))],
    }
    if isinstance(estimator, rkhs.QuantileRegressor):
        del uses["sample_weight"]
    if not isinstance(estimator, rkhs.InvariantRegressor) or estimator is SPAN:
        del uses["gradients"]
    else:
        uses["y"].append(lambda: clone(estimator).fit(X, masked(np.stack([y, y], axis=1))))
    for name, ways in uses.items():
        for use in ways:
            with pytest.raises(ValueError, match=f"^{name} has masked entries: impute or drop"):
                use()
    if estimator is SPAN:
        for rows in [(masked(X), y), (X, masked(y)), (X, y, masked(np.ones(40)))]:
            for use in (
                lambda r=rows: clone(SPAN).partial_fit(*r),
                lambda r=rows: clone(SPAN).fit(rkhs.streams.blocks(iter([r]))),
            ):
                with pytest.raises(rkhs.exceptions.BlockError, match=r"cannot be used: \w+ has masked entries"):
                    use()


@pytest.mark.parametrize("estimator", EXACT.values(), ids=EXACT)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors(estimator, dtype, moons):
    X, y = torch.asarray(moons[0], dtype=dtype), torch.asarray(moons[1])
    expected = clone(estimator).fit(*moons).predict(moons[0])
    with config_context(array_api_dispatch=True):
        given = X.clone(), y.clone()
        model = clone(estimator).fit(*given)
        spoil(*given)
        predicted = model.predict(X)
        assert isinstance(model.function_.coefficients, torch.Tensor)
        assert model.function_.coefficients.dtype == dtype
        if hasattr(model, "predict_proba"):
            chances = model.predict_proba(X)
            assert isinstance(chances, torch.Tensor)
            assert chances.dtype == dtype
        with pytest.raises(ValueError, match="must use the same namespace"):
            model.predict(moons[0])
    assert isinstance(predicted, torch.Tensor)
    np.testing.assert_allclose(predicted.numpy(), expected, atol=1e-3)


def test_spread_of_tensors(moons):
    X, y = moons
    expected = rkhs.InvariantRegressor().fit(X, y).predict(X, return_std=True)[1]
    with config_context(array_api_dispatch=True):
        spread = rkhs.InvariantRegressor().fit(torch.asarray(X), torch.asarray(y)).predict(torch.asarray(X), True)[1]
    assert isinstance(spread, torch.Tensor)
    np.testing.assert_allclose(spread.numpy(), expected, atol=1e-6)


def test_inside_everything_of_scikit_learn(moons):
    X, y = moons
    table = pd.DataFrame({"east": X[:, 0], "north": X[:, 1], "kind": np.where(X[:, 0] > 0, "a", "b")})
    columns = ColumnTransformer(
        [("numbers", StandardScaler(), ["east", "north"]), ("names", OneHotEncoder(sparse_output=False), ["kind"])]
    )
    model = rkhs.InvariantClassifier(loss="squared_hinge", invariance="gradient")
    pipeline = make_pipeline(columns, model).set_output(transform="pandas")
    search = GridSearchCV(
        pipeline, {"invariantclassifier__C": [1.0, 10.0], "invariantclassifier__nu": [0.0, 0.1]}, cv=3
    )
    search.fit(table, y)
    assert search.score(table, y) > 0.8
    assert list(search.best_estimator_[-1].feature_names_in_)[-1] == "names__kind_b"


def test_in_other_processes(moons):
    X, y = moons
    several = [EXACT["InvariantClassifier"], EXACT["InvariantClassifierCV"]]
    models = Parallel(n_jobs=2)(delayed(clone(one).fit)(X, y) for one in several)
    for model, one in zip(models, several, strict=True):
        np.testing.assert_allclose(model.decision_function(X), clone(one).fit(X, y).decision_function(X), atol=1e-9)


def test_fitting_again_forgets(moons):
    X, y = moons
    model = rkhs.InvariantClassifier(loss="squared_hinge")
    first = model.fit(X, y).predict_proba(X)
    model.fit(X[:, ::-1], 1 - y).predict_proba(X)
    np.testing.assert_array_equal(model.fit(X, y).predict_proba(X), first)


UNBOUNDED = [
    rkhs.geometry.ThinPlateClassifier(),
    rkhs.geometry.ThinPlateRegressor(),
    rkhs.InvariantClassifier("polynomial", nu=0.0),
]


@pytest.mark.parametrize("estimator", UNBOUNDED, ids=lambda model: type(model).__name__)
def test_what_no_computer_can_count_is_no_prediction(estimator, moons):
    """Squares of such points overflow: NaN is neither of two classes."""
    X, y = moons
    model = clone(estimator).fit(X, y)
    far = np.vstack([X[:2], [[1e200, -1e200]]])
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=r"not finite at row 2 of X.*Rescale the features"):
        model.predict(far)


@pytest.mark.parametrize("kind", [np.asarray, torch.asarray], ids=["NumPy", "PyTorch"])
def test_searches_and_probabilities_of_single_precision_are_those_of_double(kind, moons):
    """Rounding of float32 keeps models with large weights from their tolerance: they are solved in float64."""
    X, y = moons
    double = rkhs.InvariantClassifierCV(Cs=[1, 1000], tol=1e-2).fit(X, y)
    with config_context(array_api_dispatch=True):
        single = clone(double).fit(kind(X.astype(np.float32)), kind(y))
        chances = np.asarray(single.predict_proba(kind(X.astype(np.float32))))
    assert single.search_status_ == "converged"
    scores = [found.cv_results_["mean_test_score"] for found in (single, double)]
    np.testing.assert_allclose(*scores)
    np.testing.assert_allclose(chances, double.predict_proba(X), atol=0.02)
