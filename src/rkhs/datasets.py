"""The data sets of the papers, by name: from files, or from OpenML where there is a network."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import make_moons
from sklearn.preprocessing import normalize, scale

from rkhs._backend.arrays import Vector

__all__ = ["Dataset", "MissingDataError", "TwoMoons", "load", "two_moons"]


@dataclass(frozen=True)
class _Source:
    """The shape of a data set, by which other versions of it are refused, and its number at OpenML."""

    points: int
    features: int
    openml: int | None = None  # if it is there in this form
    positive: tuple[str, ...] | None = None  # labels there that mean +1, all others -1; None keeps them
    offset: int = 0  # to be added to labels that are kept
    train: int | None = None  # the first rows that are the training set; then files hold X_train, .., y_test


_CATALOGUE: dict[str, _Source] = {
    # Table 1 of Zhang et al. 2013: the SSL book's sets, and UCI's
    "bci": _Source(400, 117),
    "g241c": _Source(1500, 241),
    "g241n": _Source(1500, 241),
    "usps_ssl": _Source(1500, 241),
    "heart": _Source(270, 13, 53, ("present",)),
    "bupa": _Source(345, 6),
    "australian": _Source(690, 14, 40981, ("1",)),
    "ionosphere": _Source(351, 34, 59, ("g",)),
    "sonar": _Source(208, 60, 40, ("Mine",)),
    # Table 1 of Walder and Chapelle 2007: Raetsch's
    "raetsch_banana": _Source(5300, 2, 1460, ("2",)),
    "raetsch_breast_cancer": _Source(263, 9),
    "raetsch_diabetes": _Source(768, 8, 37, ("tested_positive",)),
    "raetsch_flare_solar": _Source(144, 9),
    "raetsch_german": _Source(1000, 20),
    "raetsch_heart": _Source(270, 13, 53, ("present",)),
    "raetsch_image": _Source(2086, 18),
    "raetsch_ringnorm": _Source(7400, 20, 1496, ("2",)),
    "raetsch_splice": _Source(2991, 60),
    "raetsch_thyroid": _Source(215, 5, 40682, ("2", "3")),
    "raetsch_twonorm": _Source(7400, 20, 1507, ("2",)),
    "raetsch_waveform": _Source(5000, 21),
    # digits
    "mnist": _Source(70000, 784, 554, train=60000),
    "usps_digits": _Source(9298, 256, 41082, offset=-1, train=7291),
}
NAMES = tuple(_CATALOGUE)
_BESIDE = Path(__file__).resolve().parents[3] / "shared" / "data"  # next to the repository


class MissingDataError(OSError):
    """A data set is neither in a folder nor at OpenML; the text says what to do.

    Examples
    --------
    >>> import rkhs
    >>> raise rkhs.datasets.MissingDataError("Put sonar.npz into the folder that RKHS_DATA names.")
    Traceback (most recent call last):
    rkhs.datasets.MissingDataError: Put sonar.npz into the folder that RKHS_DATA names.
    """


@dataclass(frozen=True, eq=False)
class Dataset:
    """Points X (t, n) in float64 and labels y (t,), -1 and +1 or digits.

    `train` counts the first rows, which are the training set, where a split is part of the data.  `label_sets` are
    the official sets of 100 labeled points (sets, 100) where there are some.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.datasets import Dataset
    >>> Dataset("two points", np.array([[1.0, 7.0], [3.0, 7.0]]), np.array([-1, 1])).standardized
    array([[-1.,  0.],
           [ 1.,  0.]])
    """

    name: str
    X: Vector
    y: Vector
    train: int | None = None
    label_sets: Vector | None = None

    @property
    def standardized(self) -> Vector:
        """X with columns of mean zero and variance one; columns of a single value become zero."""
        return np.asarray(scale(self.X))

    @property
    def unit_rows(self) -> Vector:
        """X with columns of mean zero, then rows of length one."""
        return np.asarray(normalize(scale(self.X, with_std=False)))


def load(name: str) -> Dataset:
    """Load the data set of that name (`NAMES` lists them): its file NAME.npz, else OpenML's copy.

    The file is looked for in the folder that the environment variable RKHS_DATA names, or in `../shared/data` next to
    the repository.  `MissingDataError` says what is missing if there is neither file nor network.

    Examples
    --------
    >>> import rkhs
    >>> data = rkhs.datasets.load("sonar")  # doctest: +SKIP
    >>> data.X.shape  # doctest: +SKIP
    (208, 60)
    """
    if name not in _CATALOGUE:
        raise ValueError(f"There is no data set {name!r}; there are {', '.join(NAMES)}.")
    source, path = _CATALOGUE[name], path_of(name)
    if path is None:
        found = _fetch(name, source)
    else:
        with np.load(path) as data:
            parts = ("_train", "_test") if source.train is not None else ("",)
            X, y = (np.concatenate([data[one + part] for part in parts]) for one in ("X", "y"))
            sets = data.get("idx_lab100")
        found = Dataset(name, X.reshape(len(X), -1).astype(np.float64), y.astype(np.int64), source.train, sets)
    if found.X.shape != (source.points, source.features):
        raise ValueError(
            f"The data set {name} has shape {found.X.shape} where {(source.points, source.features)} was expected: it "
            "is another version of it."
        )
    return found


def path_of(name: str) -> Path | None:
    """Return the file of a data set, if it is there."""
    folder = _folder()
    path = None if folder is None else folder / f"{name}.npz"
    return path if path is not None and path.is_file() else None


def _folder() -> Path | None:
    named = os.environ.get("RKHS_DATA")
    return Path(named) if named else _BESIDE if _BESIDE.is_dir() else None


def _fetch(name: str, source: _Source) -> Dataset:
    """Download from OpenML what it has in this form."""
    folder = _folder()
    where = "RKHS_DATA is not set" if folder is None else f"{folder} has no {name}.npz"
    remedy = f"set RKHS_DATA to the folder that holds {name}.npz"
    if source.openml is None:
        raise MissingDataError(f"The data set {name} is not there ({where}), and OpenML does not have it: {remedy}.")
    from sklearn.datasets import fetch_openml

    try:
        bunch = fetch_openml(data_id=source.openml, as_frame=False, parser="liac-arff")
    except OSError as error:
        raise MissingDataError(
            f"The data set {name} is not there ({where}), and OpenML cannot be reached ({error}): {remedy}."
        ) from error
    labels = np.asarray([str(label) for label in bunch.target])
    if source.positive is None:
        y = labels.astype(np.float64).astype(np.int64) + source.offset
    else:
        y = np.where(np.isin(labels, source.positive), 1, -1)
    return Dataset(name, np.asarray(bunch.data, dtype=np.float64), y, source.train)


@dataclass(frozen=True, eq=False)
class TwoMoons:
    """Points X (t, 2), their moons y (t,) in {-1, +1}, and the rows of the two labeled points.

    Examples
    --------
    >>> import rkhs
    >>> moons = rkhs.datasets.two_moons(100)
    >>> moons.X.shape, len(moons.labeled)
    ((100, 2), 2)
    """

    X: Vector
    y: Vector
    labeled: Vector  # (2,)


def two_moons(points: int = 200, noise: float = 0.08, seed: int = 0, labeled: str = "middle") -> TwoMoons:
    """Draw two half circles with noise, and a labeled point near the "middle" or the outer "end" of each.

    Examples
    --------
    >>> moons = two_moons(100)
    >>> moons.X.shape, moons.y[moons.labeled]
    ((100, 2), array([-1,  1]))
    """
    X, moon = make_moons(points, noise=noise, random_state=seed)
    places = {"middle": ((0.0, 1.0), (1.0, -0.5)), "end": ((-1.0, 0.0), (2.0, 0.5))}[labeled]
    distances = [np.where(moon == k, np.linalg.norm(X - place, axis=1), np.inf) for k, place in enumerate(places)]
    return TwoMoons(X, np.where(moon == 1, 1, -1), np.argmin(distances, axis=1))
