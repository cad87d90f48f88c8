"""The data sets of the papers by name, from files or from OpenML."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.datasets import make_moons
from sklearn.preprocessing import normalize, scale

from rkhs._core.backend.arrays import Vector

__all__ = ["Dataset", "MissingDataError", "TwoMoons", "load", "two_moons"]


@dataclass(frozen=True)
class _Source:
    """The expected shape of a data set, and where OpenML has it."""

    points: int
    features: int
    openml: int | None = None  # the identifier at OpenML, if that has the same version
    positive: tuple[str, ...] | None = None  # labels of OpenML that become +1, all others -1; None keeps the labels
    offset: int = 0  # added to labels that are kept
    train: int | None = None  # the number of training rows, which come first; then files have X_train, .., y_test


_CATALOG: dict[str, _Source] = {
    # Table 1 of Zhang et al. 2013: the data sets of the book Semi-Supervised Learning, and of UCI
    "bci": _Source(400, 117),
    "g241c": _Source(1500, 241),
    "g241n": _Source(1500, 241),
    "usps_ssl": _Source(1500, 241),
    "heart": _Source(270, 13, 53, ("present",)),
    "bupa": _Source(345, 6),
    "australian": _Source(690, 14, 40981, ("1",)),
    "ionosphere": _Source(351, 34, 59, ("g",)),
    "sonar": _Source(208, 60, 40, ("Mine",)),
    # Table 1 of Walder and Chapelle 2007: the benchmark of Raetsch
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
    # Handwritten digits
    "mnist": _Source(70000, 784, 554, train=60000),
    "usps_digits": _Source(9298, 256, 41082, offset=-1, train=7291),
}
NAMES = tuple(_CATALOG)
_SHARED_DATA = Path(__file__).resolve().parents[3] / "shared" / "data"  # next to the repository


class MissingDataError(OSError):
    """Raised if a data set is neither in the data folder nor available from OpenML.

    Examples
    --------
    >>> import rkhs
    >>> raise rkhs.datasets.MissingDataError("Put sonar.npz into the folder that RKHS_DATA names.")
    Traceback (most recent call last):
    rkhs.datasets.MissingDataError: Put sonar.npz into the folder that RKHS_DATA names.
    """


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set: points with their labels.

    Parameters
    ----------
    name : str
        The name.
    X : ndarray of shape (t, n)
        The points, in float64.
    y : ndarray of shape (t,)
        The labels: -1 and +1, or digits.
    train : int, optional
        The number of training rows, which come first, if a split is part of the data.
    label_sets : ndarray of shape (sets, 100), optional
        The official sets of 100 labeled points, if there are any.

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
        """X with columns of mean zero and variance one; constant columns become zero."""
        return np.asarray(scale(self.X))

    @property
    def unit_rows(self) -> Vector:
        """X with columns of mean zero, and then rows scaled to length one."""
        return np.asarray(normalize(scale(self.X, with_std=False)))


def load(name: str) -> Dataset:
    """Load a data set by name, from the file NAME.npz or from OpenML.

    The file is searched for in the folder given by the environment variable RKHS_DATA, or in `../shared/data` next to
    the repository.  A `MissingDataError` is raised if there is neither a file nor a network connection.

    Parameters
    ----------
    name : str
        The name, one of `NAMES`.

    Returns
    -------
    Dataset
        The data set.

    Examples
    --------
    >>> import rkhs
    >>> data = rkhs.datasets.load("sonar")  # doctest: +SKIP
    >>> data.X.shape  # doctest: +SKIP
    (208, 60)
    """
    if name not in _CATALOG:
        raise ValueError(f"There is no data set {name!r}; there are {', '.join(NAMES)}.")
    source, path = _CATALOG[name], path_of(name)
    if path is None:
        dataset = _fetch(name, source)
    else:
        with np.load(path) as data:
            parts = ("_train", "_test") if source.train is not None else ("",)
            X, y = (np.concatenate([data[array + part] for part in parts]) for array in ("X", "y"))
            sets = data.get("idx_lab100")
        dataset = Dataset(name, X.reshape(len(X), -1).astype(np.float64), y.astype(np.int64), source.train, sets)
    if dataset.X.shape != (source.points, source.features):
        raise ValueError(
            f"The data set {name} has shape {dataset.X.shape} where {(source.points, source.features)} was expected: "
            "it is another version; use the one of the paper."
        )
    return dataset


def path_of(name: str) -> Path | None:
    """Return the path of the file of a data set; None if it does not exist."""
    folder = _folder()
    path = None if folder is None else folder / f"{name}.npz"
    return path if path is not None and path.is_file() else None


def _folder() -> Path | None:
    folder = os.environ.get("RKHS_DATA")
    return Path(folder) if folder else _SHARED_DATA if _SHARED_DATA.is_dir() else None


def _fetch(name: str, source: _Source) -> Dataset:
    """Download a data set from OpenML."""
    folder = _folder()
    reason = "RKHS_DATA is not set" if folder is None else f"{folder} has no {name}.npz"
    remedy = f"set RKHS_DATA to the folder that contains {name}.npz"
    if source.openml is None:
        raise MissingDataError(f"The data set {name} was not found ({reason}), and OpenML does not have it: {remedy}.")
    from sklearn.datasets import fetch_openml

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of further attempts to download, if the first one failed
            bunch = fetch_openml(data_id=source.openml, as_frame=False, parser="liac-arff")
    except OSError as error:
        raise MissingDataError(
            f"The data set {name} was not found ({reason}), and OpenML cannot be reached ({error}): {remedy}."
        ) from error
    labels = np.asarray([str(label) for label in bunch.target])
    if source.positive is None:
        y = labels.astype(np.float64).astype(np.int64) + source.offset
    else:
        y = np.where(np.isin(labels, source.positive), 1, -1)
    return Dataset(name, np.asarray(bunch.data, dtype=np.float64), y, source.train)


@dataclass(frozen=True, eq=False)
class TwoMoons:
    """Points on two moons, two of which are labeled; returned by `two_moons`.

    Parameters
    ----------
    X : ndarray of shape (t, 2)
        The points.
    y : ndarray of shape (t,)
        The moon of each point, -1 or +1.
    labeled : ndarray of shape (2,)
        The indices of the labeled points, one on each moon.

    Examples
    --------
    >>> import rkhs
    >>> moons = rkhs.datasets.two_moons(100)
    >>> moons.X.shape, len(moons.labeled)
    ((100, 2), 2)
    """

    X: Vector
    y: Vector
    labeled: Vector


def two_moons(points: int = 200, noise: float = 0.08, seed: int = 0, labeled: str = "middle") -> TwoMoons:
    """Draw points on two half circles with noise, and choose a labeled point on each.

    Parameters
    ----------
    points : int, default=200
        The number of points.
    noise : float, default=0.08
        The standard deviation of the noise.
    seed : int, default=0
        The seed.
    labeled : {"middle", "end"}, default="middle"
        Whether the labeled point is near the middle or near the outer end of each half circle.

    Returns
    -------
    TwoMoons
        The points.

    Examples
    --------
    >>> moons = two_moons(100)
    >>> moons.X.shape, moons.y[moons.labeled]
    ((100, 2), array([-1,  1]))
    """
    X, moon = make_moons(points, noise=noise, random_state=seed)
    targets = {"middle": ((0.0, 1.0), (1.0, -0.5)), "end": ((-1.0, 0.0), (2.0, 0.5))}[labeled]
    distances = [np.where(moon == k, np.linalg.norm(X - target, axis=1), np.inf) for k, target in enumerate(targets)]
    return TwoMoons(X, np.where(moon == 1, 1, -1), np.argmin(distances, axis=1))
