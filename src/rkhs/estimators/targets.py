"""Targets of regressors: one column or several, slopes, and what was not observed."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy  # which imports scipy.spatial when it is first used
from scipy.sparse import issparse

from rkhs._backend.arrays import Array, Vector, as_real, check_unmasked, to_numpy
from rkhs._finite.term import Term
from rkhs.errors import warn
from rkhs.estimators._data import as_numpy, fill_missing, no_value
from rkhs.problem import Problem
from rkhs.streams.blocks import Columns, check_columns

FACTORS = 10.0 ** np.arange(-4, 9, 2)  # of C that are tried for the noise
LIKELIER = 20.0  # by which the log evidence of another C has to be larger
MISSED = 0.1  # share of the spread of targets that f may miss without a word
FEWEST = 10  # of them, of which something can be said
OBSERVED = 300  # values and slopes, about, by which they are compared
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
    columns = [fill_missing(column, marker) for column in np.asarray(as_numpy(y)).T]
    missing = np.stack([own for _, own in columns], axis=1)
    some = np.flatnonzero(missing.any(axis=1) & ~missing.all(axis=1))
    if len(some):
        raise ValueError(
            f"Row {some[0]} of y is not observed in some outputs and a number in others: fit a regressor for each "
            "output, as sklearn.multioutput.MultiOutputRegressor does."
        )
    return np.where(missing, 0.0, np.stack([own for own, _ in columns], axis=1)), missing[:, 0]


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
        warn(
            f"Between neighbours y changes by {seen:.2g}, where gradients say {told:.2g}: are the slopes in the units "
            "of y for one unit of each feature? Forces are minus slopes of an energy, and scalers change both.",
        )


def warn_of_noise(problem: Problem, function: Any, C: float, name: str) -> None:
    """Warn where f misses values and slopes that are far likelier under another C than under that of the model.

    Weights are one over twice the variance of the noise, relative to that of f (`rkhs.learning.evidence`): data that a
    small C takes for noise are not followed, however exact they are.
    """
    if not all(term.loss.quadratic for term in problem.terms):
        return
    whole = sum(term.size for term in problem.terms)
    terms = [_some(term, min(1.0, OBSERVED / whole)) for term in problem.terms]
    terms = [term for term in terms if np.any(np.asarray(term.weight) > 0)]
    missed = max((_missed(term, function) for term in terms), default=0.0)
    if missed < MISSED or sum(np.count_nonzero(term.weight) for term in terms) < FEWEST:
        return
    found = []
    for factor in FACTORS:
        scaled = [term.changed(weight=factor * np.asarray(term.weight)) for term in terms]
        found.append(Problem(problem.kernel, scaled, problem.basis).evidence().value)
    own, best = found[int(np.flatnonzero(FACTORS == 1.0)[0])], int(np.argmax(found))
    if found[best] > own + LIKELIER:
        warn(
            f"{name} misses values or slopes that it has learnt from by {missed:.0%} of their spread with C={C:g}, and "
            f"C={C * FACTORS[best]:.0e} suits their noise far better. Set C, or use rkhs.FunctionalRegressor, which "
            "learns the noise and the length scales.",
        )


def _missed(term: Term, function: Any) -> float:
    """Return the root mean square, by weight, of what f misses of the targets, as a share of their own deviation."""
    weight = to_numpy(term.weights())
    target = to_numpy(term.target).reshape(term.size, -1)
    spread = float(np.sum(weight * (target - np.average(target, axis=0, weights=weight[:, 0])) ** 2))
    values = to_numpy(term.functional(function)).reshape(term.size, -1)
    return float(np.sqrt(np.sum(weight * (values - target) ** 2) / spread)) if spread > 0 else 0.0


def _some(term: Term, share: float) -> Term:
    """Return a term of the observations of some of its points, evenly spaced."""
    rows = int(term.functional.shape[0])
    each = term.size // rows
    kept = np.unique(np.linspace(0, rows - 1, max(2, round(share * rows))).round().astype(int))
    index = (kept[:, None] * each + np.arange(each)).ravel()
    weight = to_numpy(term.weights())[index, 0]
    return Term(term.functional.take(index), term.loss, to_numpy(term.target)[index], weight)
