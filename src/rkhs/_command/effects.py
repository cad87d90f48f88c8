"""Describe what a fitted function makes of each column, and suggest what would make it better.

Effects are values L(f) of linear functionals L at the fitted function f, computed without differences:

    slope                  df/dx_a (x_i)                   in units of f for one unit of the column
    partial dependence     mean_i f(x_i with x_a = v)      along the values v of the column, or its texts

Suggestions are labels, priors that could be stated, and columns to look at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import rkhs
from rkhs._command.comparison import BETTER, PairedDifference
from rkhs._command.learning import Examples, Fit, deviations, lead
from rkhs._command.tables import CLOCK, Kinds
from rkhs._command.terminal import listed
from rkhs.extend import Vector, to_numpy
from rkhs.preprocessing import TableEncoder

MONOTONE = 0.95  # the share of rows with slopes of one sign from which a monotone column is suggested
MATTERS, HARDLY = 0.2, 0.02  # of the largest effect of a column
SPARSE = 0.2  # the share of missing cells from which a column is worth a look


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


def effects(f: rkhs.results.Function, columns: TableEncoder, features: pd.DataFrame, kinds: Kinds) -> list[Effect]:
    """Return the effects of columns at 100 rows, in the order of how much f changes along them; none of sentences."""
    some = features.iloc[np.sort(np.random.default_rng(0).permutation(len(features))[:100])]
    X = np.asarray(columns.transform(some), dtype=float)

    def dependence(points: Vector, count: int) -> Vector:
        return to_numpy(f(points)).reshape(count, len(X), -1).mean(axis=1)

    found = []
    for number, name in enumerate(kinds.amounts):
        scaler = columns.number_encoder_[-1]
        values = np.linspace(features[name].min(), features[name].max(), 21)
        # (v - mean) / deviation is the feature of the value v, and df/dv = df/dx / deviation
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


def slopes(f: rkhs.results.Function, X: Vector, feature: int) -> Vector:
    """Return df/dx_a at the rows of X, (rows, outputs).

    Functions of a kernel that is not smooth have no derivatives; then these are differences over 0.1, where features
    have standard deviation one.
    """
    try:
        return to_numpy(rkhs.Derivative(X, axes=[feature])(f)).reshape(len(X), -1)
    except rkhs.exceptions.NotBoundedError:
        half = 0.05 * np.eye(X.shape[1])[feature]
        return to_numpy(rkhs.Difference(X + half, X - half)(f)).reshape(len(X), -1) / 0.1


def advise(
    fit: Fit, examples: Examples, X: Vector, labels: PairedDifference, effects: Sequence[Effect], found: dict[str, Any]
) -> list[str]:
    """Return suggestions, one sentence or two each; `found` are facts about the whole table, of which X is a sample."""
    likely = labels.verdict == BETTER
    more = "More labels will probably help." if likely else "It is not clear that more labels would help."
    said = [f"{more} {labels.sentence()}"]
    if (lines := uncertain_rows(fit, examples, X)) is not None:
        unit, seen = examples.features.index.name, int((~examples.labeled).sum())
        of = f", of {seen} drawn at random" if seen < found["rows without a target"] else ""
        said.append(
            f"Label first the rows of which the model is least certain{of}: {unit}s {', '.join(map(str, lines))}."
        )
    largest = max((effect.size for effect in effects), default=0.0)
    stated = (*fit.request.increasing, *fit.request.decreasing)
    for effect in effects:
        if effect.slopes is None or effect.column in stated or effect.size < MATTERS * largest:
            continue
        rising, falling = float(np.mean(effect.slopes > 0)), float(np.mean(effect.slopes < 0))
        if effect.slopes.shape[1] == 1 and max(rising, falling) >= MONOTONE:
            verb, option = ("rises", "--increasing") if rising > falling else ("falls", "--decreasing")
            what = "prediction" if examples.regression else f"score of {list(examples.counts())[-1]!r}"
            said.append(
                f"The {what} {verb} with {effect.column!r} at {100 * max(rising, falling):.0f} % of the rows. If it "
                f"must do so everywhere, add {option} {effect.column!r}."
            )
    learned = {effect.column for effect in effects}
    missing = {row["column"]: row["missing"] / found["rows"] for row in found["table"] if row["column"] in learned}
    if sparse := [name for name, share in missing.items() if share >= SPARSE]:
        said.append(f"Cells are often missing in {listed(list(map(repr, sparse)), 5)}: fill them if you can.")
    idle = [effect.column for effect in effects if effect.size < HARDLY * largest]
    if idle:
        said.append(
            f"The prediction hardly depends on {listed(list(map(repr, idle)), 5)}: check that these columns are read "
            "as intended, or leave them out with --ignore."
        )
    return said


def uncertain_rows(fit: Fit, examples: Examples, X: Vector) -> list[int] | None:
    """Return the lines of the five unlabeled rows of which the model is least certain; None if that is unknown."""
    rows = np.flatnonzero(~examples.labeled)
    if not len(rows):
        return None
    if not examples.regression:
        certainty = lead(fit.model.decision_function(X[rows]))
    elif fit.model.solution_.source is not None:
        certainty = -deviations(fit.model, X[rows])
    else:
        return None
    return sorted(int(examples.features.index[row]) for row in rows[np.argsort(certainty)[:5]])
