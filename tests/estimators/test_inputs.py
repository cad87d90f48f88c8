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

CLASSIFIERS = [
    rkhs.InvariantClassifier(loss="squared_hinge"),
    rkhs.InvariantClassifierCV(Cs=[1, 10], nus=[0, 0.1], cv=3),
    rkhs.LaplacianSVC(loss="squared_hinge"),
    rkhs.ThinPlateClassifier(),
    rkhs.VirtualSampleSVC([lambda X: X + 0.1], loss="squared_hinge"),
]
REGRESSORS = [rkhs.InvariantRegressor(), rkhs.InvariantRegressorCV(Cs=[1, 10], nus=[0, 0.1]), rkhs.ThinPlateRegressor()]


def named(estimator):
    return type(estimator).__name__


@pytest.fixture(scope="module")
def moons():
    return make_moons(40, noise=0.2, random_state=0)


@pytest.mark.parametrize("estimator", CLASSIFIERS + REGRESSORS, ids=named)
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames(estimator, frame, moons):
    X, y = moons
    table = frame({"east": X[:, 0], "north": X[:, 1]})
    labels = pd.Series(y) if frame is pd.DataFrame else pl.Series(y)
    machine = clone(estimator).fit(table, labels)
    assert machine.feature_names_in_.tolist() == ["east", "north"]
    np.testing.assert_array_equal(machine.predict(table), clone(estimator).fit(X, y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        machine.predict(frame({"north": X[:, 1], "east": X[:, 0]}))


@pytest.mark.parametrize("estimator", CLASSIFIERS + REGRESSORS, ids=named)
def test_sparse_points(estimator, moons):
    X, y = moons
    dense, thin = clone(estimator).fit(X, y), clone(estimator).fit(scipy.sparse.csr_array(X), y)
    np.testing.assert_array_equal(thin.predict(scipy.sparse.coo_array(X)), dense.predict(X))


@pytest.mark.parametrize("estimator", CLASSIFIERS + REGRESSORS, ids=named)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_tensors(estimator, dtype, moons):
    X, y = torch.asarray(moons[0], dtype=dtype), torch.asarray(moons[1])
    expected = clone(estimator).fit(*moons).predict(moons[0])
    with config_context(array_api_dispatch=True):
        machine = clone(estimator).fit(X, y)
        predicted = machine.predict(X)
        assert isinstance(machine.function_.coefficients, torch.Tensor)
        assert machine.function_.coefficients.dtype == dtype
        if hasattr(machine, "predict_proba"):
            chances = machine.predict_proba(X)
            assert isinstance(chances, torch.Tensor)
            assert chances.dtype == dtype
        with pytest.raises(ValueError, match="must use the same namespace"):
            machine.predict(moons[0])
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
    pipeline = make_pipeline(columns, rkhs.InvariantClassifier(loss="squared_hinge")).set_output(transform="pandas")
    search = GridSearchCV(
        pipeline, {"invariantclassifier__C": [1.0, 10.0], "invariantclassifier__nu": [0.0, 0.1]}, cv=3
    )
    search.fit(table, y)
    assert search.score(table, y) > 0.8
    assert list(search.best_estimator_[-1].feature_names_in_)[-1] == "names__kind_b"


def test_in_other_processes(moons):
    X, y = moons
    machines = Parallel(n_jobs=2)(delayed(clone(one).fit)(X, y) for one in CLASSIFIERS[:2])
    for machine, one in zip(machines, CLASSIFIERS, strict=False):
        np.testing.assert_allclose(machine.decision_function(X), clone(one).fit(X, y).decision_function(X), atol=1e-9)


def test_fitting_again_forgets(moons):
    X, y = moons
    machine = rkhs.InvariantClassifier(loss="squared_hinge")
    first = machine.fit(X, y).predict_proba(X)
    machine.fit(X[:, ::-1], 1 - y).predict_proba(X)
    np.testing.assert_array_equal(machine.fit(X, y).predict_proba(X), first)


UNBOUNDED = [rkhs.ThinPlateClassifier(), rkhs.ThinPlateRegressor(), rkhs.InvariantClassifier("polynomial", nu=0.0)]


@pytest.mark.parametrize("estimator", UNBOUNDED, ids=named)
def test_what_no_computer_can_count_is_no_prediction(estimator, moons):
    """Squares of such points overflow: NaN is neither of two classes."""
    X, y = moons
    machine = clone(estimator).fit(X, y)
    far = np.vstack([X[:2], [[1e200, -1e200]]])
    with np.errstate(all="ignore"), pytest.raises(ValueError, match=r"not finite at row 2 of X.*another unit"):
        machine.predict(far)


@pytest.mark.parametrize("kind", [np.asarray, torch.asarray], ids=["NumPy", "PyTorch"])
def test_searches_and_probabilities_of_single_precision_are_those_of_double(kind, moons):
    """Rounding of float32 keeps machines with large weights from their tolerance: they are solved in float64."""
    X, y = moons
    double = rkhs.InvariantClassifierCV(Cs=[1, 1000], nus=[0, 10.0], cv=3, tol=1e-2).fit(X, y)
    with config_context(array_api_dispatch=True):
        single = clone(double).fit(kind(X.astype(np.float32)), kind(y))
        chances = np.asarray(single.predict_proba(kind(X.astype(np.float32))))
    assert single.search_status_ == "converged"
    scores = [found.cv_results_["mean_test_score"] for found in (single, double)]
    np.testing.assert_allclose(*scores)
    np.testing.assert_allclose(chances, double.predict_proba(X), atol=0.02)
