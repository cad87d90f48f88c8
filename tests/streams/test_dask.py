"""The same sums on a cluster: two worker processes, one that dies, and more data than a worker may hold."""

import os
import signal
from pathlib import Path

import dask.array
import dask.dataframe
import joblib
import numpy as np
import pandas as pd
import pytest
from dask.distributed import Client, LocalCluster
from sklearn.model_selection import GridSearchCV

import rkhs

RNG = np.random.default_rng(0)
X = RNG.normal(size=(4000, 5))
Y = np.sin(2 * X[:, 0]) + X[:, 1]
CLASSES = np.where(RNG.random(4000) < 0.1, (Y > 0).astype(int), -1)

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::UserWarning")


@pytest.fixture(scope="module")
def client():
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        yield client


def regressor():
    return rkhs.InvariantRegressor(scale=2.0, C=10.0, approximation=rkhs.Landmarks(120))


def classifier(loss):
    return rkhs.InvariantClassifier(scale=2.0, C=10.0, loss=loss, approximation=rkhs.Landmarks(120), tol=1e-8)


def same(one, other):
    """Coefficients, relative to the largest."""
    a, b = one.function_.coefficients, other.function_.coefficients
    np.testing.assert_allclose(a, b, atol=1e-8 * np.abs(b).max(), rtol=0)


def test_two_processes_are_one(client):
    assert len(client.scheduler_info()["workers"]) == 2
    alone = regressor().fit(rkhs.streams.blocks(X, Y, rows=500))
    same(regressor().fit(dask.array.from_array(X, chunks=(500, 3)), dask.array.from_array(Y, chunks=500)), alone)
    frame = dask.dataframe.from_pandas(pd.DataFrame(X).assign(y=Y), npartitions=8, sort=False)
    assert [len(part) for part in frame.partitions] == [500] * 8
    same(regressor().fit(frame.drop(columns="y"), frame["y"]), alone)


def test_columns_of_parquet_files(client, tmp_path):
    """dask reads several files at once where few of their columns are asked for, which are other files for X and y."""
    names = [f"x{j}" for j in range(5)]
    for k in range(8):
        rows = slice(500 * k, 500 * (k + 1))
        pd.DataFrame(X[rows], columns=names).assign(y=Y[rows], w=1.0).to_parquet(tmp_path / f"part{k}.parquet")
    frame = dask.dataframe.read_parquet(tmp_path)
    assert len(frame["y"].to_delayed()) < frame.npartitions == 8
    alone = regressor().fit(rkhs.streams.read_parquet(tmp_path, target="y", features=names, rows=500))
    same(regressor().fit(frame[names], frame["y"]), alone)
    same(regressor().fit(frame[names], frame["y"], frame["w"]), alone)
    one = regressor().fit(rkhs.streams.read_parquet(tmp_path, target="y", features=names[:1], rows=500))
    same(regressor().fit(frame[names[:1]], frame["y"]), one)


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_other_losses(client, loss):
    alone = classifier(loss).fit(rkhs.streams.blocks(X, CLASSES, rows=1000))
    spread = classifier(loss).fit(dask.array.from_array(X, chunks=(1000, 5)), CLASSES)
    np.testing.assert_allclose(spread.decision_function(X), alone.decision_function(X), atol=1e-6)
    assert spread.classes_.tolist() == [0, 1]


@pytest.mark.slow
def test_rows_that_are_read_again(client):
    """Newton's method with all its sums on the cluster; the limit is that of the process that adds up."""
    stream = dask.array.from_array(X, chunks=(1000, 5))
    kept = classifier("logistic").fit(stream, CLASSES)
    client.run(_limit, 1000)
    try:
        read = classifier("logistic").fit(stream, CLASSES)
    finally:
        client.run(_limit, 2**29)
    np.testing.assert_allclose(read.decision_function(X), kept.decision_function(X), atol=1e-6)


def _limit(value):
    import rkhs._core.finite.sums

    rkhs._core.finite.sums.KEPT_BYTES = value


@pytest.mark.slow
def test_a_worker_dies(client, tmp_path):
    """Its blocks are read again elsewhere."""
    mark = str(tmp_path / "died")
    doomed = dask.array.from_array(X, chunks=(500, 5)).map_blocks(_deadly, mark, dtype=X.dtype)
    found = regressor().fit(doomed, Y)
    assert os.path.exists(mark)
    same(found, regressor().fit(rkhs.streams.blocks(X, Y, rows=500)))


def _deadly(block, mark):
    """Kill the process, once."""
    if np.array_equal(block[:1], X[2000:2001]) and not os.path.exists(mark):
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return block


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_empty_partitions(client, loss):
    order = np.argsort(X[:, 0])
    frame = dask.dataframe.from_pandas(pd.DataFrame(X[order]).assign(y=CLASSES[order]), npartitions=8, sort=False)
    right = frame[frame[0] > 0]
    assert 0 in [len(part) for part in right.partitions]
    found = classifier(loss).fit(right.drop(columns="y"), right["y"])
    rows = order[X[order, 0] > 0]
    alone = classifier(loss).fit(X[rows], CLASSES[rows])
    assert np.abs(found.decision_function(X) - alone.decision_function(X)).mean() < 0.3  # other landmarks
    none = frame[frame[0] > 100]
    with pytest.raises(ValueError, match="no blocks of rows"):
        classifier(loss).fit(none.drop(columns="y"), none["y"])


def test_a_broken_block_is_named(client):
    bad = X.copy()
    bad[2600, 3] = np.nan
    with pytest.raises(rkhs.exceptions.BlockError, match="Block 5 has NaN or infinity in row 100, feature 3"):
        regressor().fit(dask.array.from_array(bad, chunks=(500, 5)), Y)


@pytest.mark.slow
def test_more_data_than_a_worker_may_hold():
    """340 MiB of rows through a worker that is killed at 95 % of 450 MiB, 200 of which are its libraries."""
    rows, chunk = 450_000, 30_000
    state = dask.array.random.RandomState(0)
    points = state.uniform(size=(rows, 100), chunks=(chunk, 100))
    assert points.nbytes > 340 * 2**20
    target = points[:, 0]
    cluster = LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, memory_limit="450MiB", dashboard_address=None
    )
    with cluster, Client(cluster):
        model = rkhs.InvariantRegressor(
            scale=10.0, C=1.0, invariance=None, approximation=rkhs.FourierFeatures(10), fit_intercept=False
        ).fit(points, target)
    assert model.n_features_in_ == 100


@pytest.mark.slow
def test_cross_validation_through_joblib(client):
    """scikit-learn's searches send their fits to the workers."""
    grid = {"C": [1.0, 10.0], "scale": [1.0, 2.0]}
    model = rkhs.InvariantRegressor(approximation=rkhs.Landmarks(40))
    alone = GridSearchCV(model, grid, cv=3).fit(X[:600], Y[:600])
    with joblib.parallel_backend("dask"):
        spread = GridSearchCV(model, grid, cv=3).fit(X[:600], Y[:600])
    np.testing.assert_allclose(spread.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"], rtol=1e-8)
