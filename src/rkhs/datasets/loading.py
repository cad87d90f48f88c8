"""A data set by name: from its file, or from OpenML where there is a network."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.preprocessing import normalize, scale

from rkhs._backend.arrays import Matrix, Vector
from rkhs.datasets.catalogue import CATALOGUE, NAMES, Source
from rkhs.datasets.files import MissingDataError, folder, path_of


@dataclass(frozen=True, eq=False)
class Dataset:
    """Points X (t, n) in float64 and labels y (t,), -1 and +1 or digits.

    `train` counts the first rows, which are the training set, where a split is part of the data.  `label_sets` are
    the official sets of 100 labelled points (sets, 100) where there are some.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.datasets import Dataset
    >>> data = Dataset("mine", np.zeros((3, 2)), np.array([-1, 1, 1]), None, "nowhere")
    >>> data.X.shape
    (3, 2)
    """

    name: str
    X: Matrix
    y: Vector
    train: int | None = None
    label_sets: Matrix | None = None

    @property
    def standardised(self) -> Matrix:
        """X with columns of mean zero and variance one; columns of a single value become zero.

        Examples
        --------
        >>> import numpy as np
        >>> Dataset("two points", np.array([[1.0, 7.0], [3.0, 7.0]]), np.array([-1, 1])).standardised
        array([[-1.,  0.],
               [ 1.,  0.]])
        """
        return np.asarray(scale(self.X))

    @property
    def unit_rows(self) -> Matrix:
        """X with columns of mean zero, then rows of length one."""
        return np.asarray(normalize(scale(self.X, with_std=False)))


def load(name: str) -> Dataset:
    """The data set of that name (`NAMES` lists them): its file NAME.npz, else OpenML's copy.

    The file is looked for in the folder that the environment variable RKHS_DATA names, or in `../shared/data` beside
    the repository.  `MissingDataError` says what is missing if there is neither file nor network.

    Examples
    --------
    >>> import rkhs
    >>> data = rkhs.datasets.load("sonar")  # doctest: +SKIP
    >>> data.X.shape  # doctest: +SKIP
    (208, 60)
    """
    if name not in CATALOGUE:
        raise ValueError(f"There is no data set {name!r}; there are {', '.join(NAMES)}.")
    source, path = CATALOGUE[name], path_of(name)
    if path is None:
        return _checked(_fetched(name, source), source)
    with np.load(path) as data:
        if source.train is not None:
            X = np.concatenate([data["X_train"], data["X_test"]])
            y = np.concatenate([data["y_train"], data["y_test"]])
        else:
            X, y = data["X"], data["y"]
        sets = data.get("idx_lab100")
    points = X.reshape(len(X), -1).astype(np.float64)
    return _checked(Dataset(name, points, y.astype(np.int64), source.train, sets), source)


def _fetched(name: str, source: Source) -> Dataset:
    """From OpenML; refuses what it does not have in this form."""
    place = folder()
    where = "RKHS_DATA is not set" if place is None else f"{place} has no {name}.npz"
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


def _checked(found: Dataset, source: Source) -> Dataset:
    """The data set, if it has the shape that the catalogue says."""
    if found.X.shape != (source.points, source.features):
        raise ValueError(
            f"The data set {found.name} has shape {found.X.shape} where {(source.points, source.features)} was "
            "expected: it is another version of it."
        )
    return found
