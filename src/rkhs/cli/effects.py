"""What a model makes of each column: numbers L(f) of the learnt function f.

    average slope          mean_i df/dx_a (x_i)            in units of f for one unit of the column
    partial dependence     mean_i f(x_i with x_a = v)      along the values v of the column, or its texts

Both are linear in f, so that they are computed exactly, without differences.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import rkhs
from rkhs._backend.arrays import Vector, to_numpy
from rkhs.cli.columns import Kinds
from rkhs.cli.tables import Frame

ROWS = 100  # drawn, over which is averaged
STEPS = 21  # values of a column of numbers
STEP = 0.1  # standard deviations of a column
TEXTS = 12  # of a column that are shown, the most frequent


@dataclass(frozen=True, eq=False)
class Effect:
    """Of one column: slope (outputs,) per unit, None for texts; values and partial dependence (values, outputs)."""

    column: str
    values: list[Any]
    dependence: Vector
    slope: Vector | None = None
    dates: bool = False  # whether values are days since 1970

    @property
    def size(self) -> float:
        """By how much f changes along the column, at most over the outputs."""
        return float(np.ptp(self.dependence, axis=0).max())


def effects(f: Any, columns: Any, features: Frame, kinds: Kinds) -> list[Effect]:
    """Of all columns, those along which f changes most first.

    `columns` is the fitted encoder; `features` are rows of the table.
    """
    import pandas as pd

    some = features.iloc[np.sort(np.random.default_rng(0).permutation(len(features))[:ROWS])]
    X = np.asarray(columns.transform(some), dtype=float)
    found = []
    for number, name in enumerate(kinds.amounts):
        scaler = columns.named_transformers_["numbers"][-1]
        middle, spread = float(scaler.mean_[number]), float(scaler.scale_[number])
        known = features[name].dropna()
        values = np.linspace(known.min(), known.max(), STEPS)
        moved = np.tile(X, (STEPS, 1))
        moved[:, number] = np.repeat((values - middle) / spread, len(X))
        days = kinds.dates.get(name, "hour:minute") != "hour:minute"
        slope = average_slope(f, X, number) / spread
        found.append(Effect(name, values.tolist(), _dependence(f, moved, STEPS), slope, days))
    for name in kinds.categorical:
        texts = features[name].value_counts().index[:TEXTS].tolist()
        rows = pd.concat([some.assign(**{name: value}) for value in texts])
        moved = np.asarray(columns.transform(rows), dtype=float)
        found.append(Effect(name, texts, _dependence(f, moved, len(texts))))
    return sorted(found, key=lambda effect: -effect.size)


def average_slope(f: Any, X: Vector, feature: int) -> Vector:
    """L(f) (outputs,) for the functional L = mean_i d/dx_a at the rows of X.

    Functions of a kernel that is not smooth have no derivatives; then L is the mean of differences over `STEP`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> f = rkhs.Function(rkhs.Linear(), rkhs.Evaluation([[2.0, -1.0]]), [1.0])  # f(x) = 2 x_0 - x_1
    >>> average_slope(f, np.eye(2), 0)
    array([2.])
    >>> rough = rkhs.Function(rkhs.Matern(nu=0.5, scale=1.0), rkhs.Evaluation([[0.0]]), [1.0])  # exp(-|x|)
    >>> average_slope(rough, np.array([[1.0]]), 0).round(2)
    array([-0.37])
    """
    mean = np.full((1, len(X)), 1 / len(X))
    try:
        return np.atleast_1d(to_numpy((mean @ rkhs.Derivative(X, axes=[feature]))(f))[0])
    except rkhs.NotBoundedError:
        step = STEP * np.eye(X.shape[1])[feature]
        return np.atleast_1d(to_numpy((mean @ rkhs.Difference(X + step / 2, X - step / 2))(f))[0]) / STEP


def _dependence(f: Any, moved: Vector, count: int) -> Vector:
    """(count, outputs): the mean of f over each of `count` parts of the rows."""
    values = to_numpy(f(moved))
    return values.reshape(count, len(moved) // count, -1).mean(axis=1)
