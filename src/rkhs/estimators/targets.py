"""Targets of regressors: one column or several, slopes, and what was not observed."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy  # which imports scipy.spatial when it is first used
from scipy.sparse import issparse
from sklearn.base import BaseEstimator

from rkhs._backend.arrays import Array, Vector, as_real, check_unmasked, to_numpy
from rkhs._finite.term import Term
from rkhs.errors import warn
from rkhs.estimators._data import as_numpy, fill_missing, no_value
from rkhs.problem import Problem
from rkhs.streams.blocks import Columns, check_columns


def columns_of(y: Any) -> int:
    """Return the number of outputs of y: its columns, 1 for an array of one axis."""
    shape = np.asarray(as_numpy(y)).shape
    return int(shape[1]) if len(shape) == 2 else 1


def told_outputs(y: Any, marker: Any) -> tuple[Vector, Vector]:
    """Return y (t, outputs) with zeros where it was not observed, and the mask of those rows.

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
    """Return measured slopes (t, n), or (t, n, outputs), in NumPy; NaN where there is none.

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


def check_columns_of(frame: Any, estimator: BaseEstimator, name: str) -> None:
    """Refuse a data frame beside X, such as one of slopes, whose columns are not those of X in the same order.

    Arrays have no names, and are about the features of X in their order.
    """
    named = getattr(Columns.of(frame), "feature_names_in_", None) if hasattr(frame, "columns") else None
    if named is None or not hasattr(estimator, "feature_names_in_"):
        return
    try:
        check_columns(estimator, frame)
    except ValueError as error:
        raise ValueError(f"The columns of {name} must be those of X. {error}") from error


def warn_of_units(X: Vector, y: Vector, slopes: Vector) -> None:
    """Warn where slopes disagree with the differences of values between near points, as those of other units do.

    That is by a factor of 100 in the median over the first 1000 rows, more than noise and curvature make.  X (t, n),
    y (t,) or (t, outputs) and slopes (t, n) or (t, n, outputs), NaN for what was not observed.
    """
    values = y.reshape(len(X), -1)
    along = slopes.reshape(*slopes.shape[:2], -1)
    whole = np.flatnonzero(~np.isnan(values).any(axis=1) & ~np.isnan(along).any(axis=(1, 2)))[:1000]
    if len(whole) < 3:
        return
    near = whole[scipy.spatial.cKDTree(X[whole]).query(X[whole], k=2)[1][:, 1]]
    steps = X[near] - X[whole]
    seen = float(np.median(np.abs(values[near] - values[whole])))
    told = float(np.median(np.abs(np.einsum("tn,tno->to", steps, (along[whole] + along[near]) / 2))))
    if min(seen, told) > 0 and not 0.01 < told / seen < 100:
        warn(
            f"Between neighbours y changes by {seen:.2g}, where gradients say {told:.2g}: are the slopes in the units "
            "of y for one unit of each feature? Forces are minus slopes of an energy, and scalers change both.",
        )


def warn_of_noise(problem: Problem, function: Any, C: float, name: str) -> None:
    """Warn where f misses values and slopes that are far likelier under another C than under that of the model.

    Weights are one over twice the variance of the noise, relative to that of f (`rkhs.learning.evidence`): data that a
    small C takes for noise are not followed, however exact they are.  About 300 observations are compared; nothing is
    said of fewer than 10, or where f misses less than a tenth of their spread, and a log evidence that is larger by 20
    is beyond doubt.
    """
    if not all(term.loss.quadratic for term in problem.terms):
        return
    share = min(1.0, 300 / sum(term.size for term in problem.terms))
    terms = [_some(term, share) for term in problem.terms]
    terms = [term for term in terms if np.any(np.asarray(term.weight) > 0)]
    missed = max((_missed(term, function) for term in terms), default=0.0)
    if missed < 0.1 or sum(np.count_nonzero(term.weight) for term in terms) < 10:
        return
    evidence = {}
    for factor in (1.0, 1e-4, 1e-2, 1e2, 1e4, 1e6, 1e8):  # on C
        scaled = [term.changed(weight=factor * np.asarray(term.weight)) for term in terms]
        evidence[factor] = Problem(problem.kernel, scaled, problem.basis).evidence().value
    best = max(evidence, key=lambda factor: evidence[factor])
    if evidence[best] > evidence[1.0] + 20:
        warn(
            f"{name} misses values or slopes that it has learnt from by {missed:.0%} of their spread with C={C:g}, and "
            f"C={C * best:.0e} suits their noise far better. Set C, or use rkhs.FunctionalRegressor, which "
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
