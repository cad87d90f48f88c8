"""Data sets: from a folder, from OpenML (which is played here), and what is said when there is neither."""

from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import sklearn.datasets

from rkhs import datasets


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """A folder without any data set."""
    monkeypatch.setenv("RKHS_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def openml(monkeypatch):
    """Let a function answer for OpenML."""
    return partial(monkeypatch.setattr, sklearn.datasets, "fetch_openml")


def no_network(**_):
    raise OSError("no route")


def heart(rng, rows=270):
    return rng.standard_normal((rows, 13)), np.where(rng.random(rows) < 0.5, 1, -1)


def test_a_file_is_loaded_as_it_is(nowhere):
    X, y = heart(np.random.default_rng(0))
    np.savez(nowhere / "heart.npz", X=X, y=y)
    found = datasets.load("heart")
    assert np.array_equal(found.X, X)
    assert np.array_equal(found.y, y)
    assert found.train is None
    assert found.label_sets is None


def test_official_sets_of_labels_come_along(nowhere):
    rng = np.random.default_rng(0)
    sets = np.arange(1200).reshape(12, 100) % 400
    np.savez(nowhere / "bci.npz", X=rng.standard_normal((400, 117)), y=np.ones(400, dtype=int), idx_lab100=sets)
    assert np.array_equal(datasets.load("bci").label_sets, sets)


def test_a_split_set_has_its_training_rows_first(nowhere):
    rng = np.random.default_rng(0)
    parts = {"X_train": rng.random((7291, 256)), "X_test": rng.random((2007, 256))}
    parts |= {"y_train": np.zeros(7291, dtype=int), "y_test": np.ones(2007, dtype=int)}
    np.savez(nowhere / "usps_digits.npz", **parts)
    found = datasets.load("usps_digits")
    assert found.train == 7291
    assert np.array_equal(found.X[7291:], parts["X_test"])
    assert np.all(found.y[:7291] == 0)
    assert np.all(found.y[7291:] == 1)


def test_another_version_of_a_set_is_refused(nowhere):
    X, y = heart(np.random.default_rng(0), rows=271)
    np.savez(nowhere / "heart.npz", X=X, y=y)
    with pytest.raises(ValueError, match=r"heart has shape \(271, 13\) where \(270, 13\) was expected"):
        datasets.load("heart")


def test_openml_stands_in_for_a_missing_file(nowhere, openml):
    X, y = heart(np.random.default_rng(0))
    asked = []

    def fetch(**options):
        asked.append(options["data_id"])
        return SimpleNamespace(data=X, target=np.where(y > 0, "present", "absent"))

    openml(fetch)
    found = datasets.load("heart")
    assert asked == [datasets._CATALOG["heart"].openml]
    assert np.array_equal(found.y, y)
    assert np.array_equal(found.X, X)


def test_digits_of_openml_keep_their_labels(nowhere, openml):
    labels = np.tile(np.arange(1, 11), 930)[:9298].astype(str)  # it numbers the digits from 1
    openml(lambda **_: SimpleNamespace(data=np.zeros((9298, 256)), target=labels))
    found = datasets.load("usps_digits")
    assert np.array_equal(found.y, labels.astype(int) - 1)
    assert found.train == 7291


def test_without_file_and_network_it_says_what_is_missing(nowhere, openml, monkeypatch, tmp_path):
    openml(no_network)
    for name, sentence in (
        ("heart", r"heart was not found .* cannot be reached .* set RKHS_DATA"),
        ("g241c", r"g241c was not found .* OpenML does not have it: set RKHS_DATA"),
    ):
        with pytest.raises(datasets.MissingDataError, match=sentence):
            datasets.load(name)
    monkeypatch.delenv("RKHS_DATA")
    monkeypatch.setattr(datasets, "_SHARED_DATA", tmp_path / "none")
    with pytest.raises(datasets.MissingDataError, match="RKHS_DATA is not set"):
        datasets.load("g241c")
    with pytest.raises(ValueError, match=r"no data set 'hart'; there are bci, .*heart"):
        datasets.load("hart")


def test_normalized_points():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.standard_normal((50, 3)) * 7 + 2, np.full(50, 3.0)])
    data = datasets.Dataset("some", X, np.ones(50))
    columns, rows = data.standardized, data.unit_rows
    assert np.allclose(columns.mean(axis=0), 0)
    assert np.allclose(columns.std(axis=0), [1, 1, 1, 0])
    assert np.allclose(np.linalg.norm(rows, axis=1), 1)
    assert np.allclose(rows[:, 3], 0)


def test_two_moons_are_what_the_seed_says():
    one, same, other = datasets.two_moons(seed=1), datasets.two_moons(seed=1), datasets.two_moons(seed=2)
    assert np.array_equal(one.X, same.X)
    assert not np.array_equal(one.X, other.X)
    assert one.X.shape == (200, 2)
    assert one.y.sum() == 0
    assert list(one.y[one.labeled]) == [-1, 1]


@pytest.mark.every
@pytest.mark.parametrize("name", datasets.NAMES)
def test_every_set_in_the_folder_is_as_the_catalog_says(name):
    if datasets.path_of(name) is None:
        pytest.skip(f"{name}.npz is not there: set RKHS_DATA to the folder that holds it.")
    found = datasets.load(name)
    assert np.isfinite(found.X).all()
    assert set(np.unique(found.y)) == (set(range(10)) if found.train else {-1, 1})
