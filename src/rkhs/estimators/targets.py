"""Targets of regressors: one column or several, slopes, and what was not observed."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy  # which imports scipy.spatial when it is first used
from scipy.sparse import issparse

from rkhs.backend.arrays import Array, as_real, check_unmasked, to_numpy
from rkhs.estimators.labels import no_value, told
from rkhs.estimators.sample import Vector, as_numpy
from rkhs.streams.columns import Columns, check_columns

UNITS = 100.0  # times that slopes and differences of values may disagree between near points
SEEN = 1000  # rows that are looked at for that


def columns_of(y: Any) -> int:
    """How many outputs y has: its columns, 1 for an array of one axis."""
    shape = np.asarray(as_numpy(y)).shape
    return int(shape[1]) if len(shape) == 2 else 1


def told_outputs(y: Any, marker: Any) -> tuple[Vector, Vector]:
    """y (t, outputs) with zeros where it says nothing, and the rows where it does not.

    Examples
    --------
    >>> told_outputs([[1.0, 2.0], [np.nan, np.nan]], np.nan)
    (array([[1., 2.],
           [0., 0.]]), array([False,  True]))
    """
    check_unmasked(y, "y")
    columns = [told(column, marker) for column in np.asarray(as_numpy(y)).T]
    missing = np.stack([own for _, own in columns], axis=1)
    some = np.flatnonzero(missing.any(axis=1) & ~missing.all(axis=1))
    if len(some):
        raise ValueError(
            f"Row {some[0]} of y is not observed in some outputs and a number in others: fit a regressor for each "
            "output, as sklearn.multioutput.MultiOutputRegressor does."
        )
    return np.where(missing, 0.0, np.stack([own for own, _ in columns], axis=1)), missing[:, 0]


def spread_of(y: Vector) -> float:
    """Return the spread of the targets, the unit of margins that f is to keep; NaN is for what was not observed.

    It is at least the square root of the rounding unit times the largest target, so that a margin is above rounding
    also where all targets are equal, and changes them by nothing that matters.

    Examples
    --------
    >>> spread_of(np.array([1.0, 3.0])), f"{spread_of(np.array([5.0, 5.0])):.0e}", spread_of(np.zeros(2))
    (2.0, '7e-08', 0.0)
    """
    rounding = np.finfo(np.float64).eps ** 0.5 * float(np.nanmax(np.abs(y)))
    return max(float(np.nanmax(y) - np.nanmin(y)), rounding)


def checked_slopes(gradients: Any, X: Array, outputs: int | None) -> Vector:
    """Measured slopes (t, n), or (t, n, outputs), in NumPy; NaN where there is none.

    Examples
    --------
    >>> checked_slopes([[1.0, None]], np.zeros((1, 2)), None)
    array([[ 1., nan]])
    """
    check_unmasked(gradients, "gradients")
    tensor = hasattr(gradients, "__dlpack__") or issparse(gradients)  # of which the latter is refused below
    given = gradients if tensor else np.asarray(gradients)
    if isinstance(given, np.ndarray) and given.dtype.kind == "O":
        given = np.where(no_value(given.reshape(-1)).reshape(given.shape), np.nan, given).astype(np.float64)
    slopes = to_numpy(as_real(given, "gradients")).astype(np.float64)
    t, n = (int(size) for size in X.shape)
    shape = (t, n) if outputs is None else (t, n, outputs)
    if slopes.shape != shape:
        raise ValueError(
            f"gradients has shape {slopes.shape}; a slope for each feature of each row of X"
            f"{'' if outputs is None else ' and each output of y'} makes {shape}. NaN is for what was not observed."
        )
    if np.any(np.isinf(slopes)):
        raise ValueError("gradients contains infinity: NaN is for what was not observed.")
    if np.all(np.isnan(slopes)):
        raise ValueError("Every one of gradients is NaN, not observed: leave gradients out.")
    return slopes


def check_columns_of(frame: Any, machine: Any, name: str) -> None:
    """Refuse a data frame beside X, such as one of slopes, whose columns are not those of X in the same order.

    Arrays have no names, and are about the features of X in their order.
    """
    named = getattr(Columns.of(frame), "feature_names_in_", None) if hasattr(frame, "columns") else None
    if named is None or not hasattr(machine, "feature_names_in_"):
        return
    try:
        check_columns(machine, frame)
    except ValueError as error:
        raise ValueError(f"The columns of {name} must be those of X. {error}") from error


def warn_of_units(X: Vector, y: Vector, slopes: Vector) -> None:
    """Warn where slopes disagree with the differences of values between near points, as those of other units do.

    X (t, n), y (t,) or (t, outputs) and slopes (t, n) or (t, n, outputs), NaN for what was not observed.
    """
    values = y.reshape(len(X), -1)
    along = slopes.reshape(*slopes.shape[:2], -1)
    whole = np.flatnonzero(~np.isnan(values).any(axis=1) & ~np.isnan(along).any(axis=(1, 2)))[:SEEN]
    if len(whole) < 3:
        return
    near = whole[scipy.spatial.cKDTree(X[whole]).query(X[whole], k=2)[1][:, 1]]
    steps = X[near] - X[whole]
    seen = float(np.median(np.abs(values[near] - values[whole])))
    told = float(np.median(np.abs(np.einsum("tn,tno->to", steps, (along[whole] + along[near]) / 2))))
    if min(seen, told) > 0 and not 1 / UNITS < told / seen < UNITS:
        warnings.warn(
            f"Between neighbours y changes by {seen:.2g}, where gradients say {told:.2g}: are the slopes in the units "
            "of y for one unit of each feature? Forces are minus slopes of an energy, and scalers change both.",
            stacklevel=4,
        )
