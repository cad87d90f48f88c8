"""Describe what a fitted function makes of each column.

Effects are values L(f) of linear functionals L at the fitted function f, computed without differences:

    slope                  df/dx_a (x_i)                   in units of f for one unit of the column
    partial dependence     mean_i f(x_i with x_a = v)      along the values v of the column, or its texts
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer

import rkhs
from rkhs._backend.arrays import Vector, to_numpy
from rkhs._cli.columns import CLOCK
from rkhs._cli.tables import Kinds


@dataclass(frozen=True, eq=False)
class Effect:
    """The effect of one column: slopes at some rows, and partial dependence."""

    column: str
    values: list[Any]  # days since 1970 if `dates` is true
    dependence: Vector  # (values, outputs)
    slopes: Vector | None = None  # (rows, outputs); None for texts
    dates: bool = False

    @property
    def size(self) -> float:
        """The range of f along the column, the largest of all outputs."""
        return float(np.ptp(self.dependence, axis=0).max())


def effects(f: rkhs.Function, columns: ColumnTransformer, features: pd.DataFrame, kinds: Kinds) -> list[Effect]:
    """Return the effects of all columns at 100 rows; columns along which f changes most come first."""
    some = features.iloc[np.sort(np.random.default_rng(0).permutation(len(features))[:100])]
    X = np.asarray(columns.transform(some), dtype=float)

    def dependence(points: Vector, count: int) -> Vector:
        return to_numpy(f(points)).reshape(count, len(X), -1).mean(axis=1)

    found = []
    for number, name in enumerate(kinds.amounts):
        scaler = columns.named_transformers_["numbers"][-1]
        values = np.linspace(features[name].min(), features[name].max(), 21)
        moved = np.tile(X, (len(values), 1))
        moved[:, number] = np.repeat((values - scaler.mean_[number]) / scaler.scale_[number], len(X))
        along = slopes(f, X, number) / scaler.scale_[number]
        dates = kinds.dates.get(name, CLOCK) != CLOCK
        found.append(Effect(name, values.tolist(), dependence(moved, len(values)), along, dates))
    for name in kinds.categorical:
        texts = features[name].value_counts().index[:12].tolist()
        rows = pd.concat([some.assign(**{name: text}) for text in texts])
        moved = np.asarray(columns.transform(rows), dtype=float)
        found.append(Effect(name, texts, dependence(moved, len(texts))))
    return sorted(found, key=lambda effect: -effect.size)


def slopes(f: rkhs.Function, X: Vector, feature: int) -> Vector:
    """Return df/dx_a at the rows of X, (rows, outputs).

    Functions of a kernel that is not smooth have no derivatives; then these are differences over 0.1, where features
    have standard deviation one.
    """
    try:
        return to_numpy(rkhs.Derivative(X, axes=[feature])(f)).reshape(len(X), -1)
    except rkhs.exceptions.NotBoundedError:
        half = 0.05 * np.eye(X.shape[1])[feature]
        return to_numpy(rkhs.Difference(X + half, X - half)(f)).reshape(len(X), -1) / 0.1
