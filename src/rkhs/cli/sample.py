"""The rows of a table as points, and how many of them are used."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, StratifiedKFold

from rkhs._backend.arrays import Vector
from rkhs.cli.errors import CommandError
from rkhs.cli.tables import UNLABELLED


@dataclass(frozen=True, eq=False)
class Points:
    """Features (a frame) and targets: text, "" for none, or numbers, NaN for none."""

    features: Any
    y: Vector
    regression: bool

    @property
    def size(self) -> int:
        return len(self.y)

    @property
    def labelled(self) -> Vector:
        return ~np.isnan(self.y) if self.regression else self.y != UNLABELLED

    def counts(self) -> dict[str, int]:
        """How many rows each class has, in the order of the classes."""
        return dict(sorted(Counter(self.y[self.labelled].tolist()).items()))

    def check_folds(self, target: str, folds: int) -> None:
        """Refuse what cannot be cross-validated: no labels, one class, a class with one label."""
        known = int(self.labelled.sum())
        if known == 0:
            raise CommandError(f"Every row of column {target!r} is empty: some rows need a target to learn from.")
        if self.regression:
            if known < 2 * folds:
                raise CommandError(
                    f"Column {target!r} has {known} numbers: at least {2 * folds} are needed; add rows with one."
                )
            return
        counts = self.counts()
        if len(counts) == 1:
            raise CommandError(
                f"Column {target!r} has one class only, {next(iter(counts))!r}: add rows of another class."
            )
        rare = [name for name, count in counts.items() if count < 2]
        if rare:
            listed = ", ".join(map(repr, rare[:3])) + (", .." if len(rare) > 3 else "")
            which = f"Class {listed} of column {target!r} has" if len(rare) == 1 else f"Classes {listed} have"
            raise CommandError(
                f"{which} a single row: two of each class are needed; add rows, or leave the label of such rows empty."
            )

    def folds(self, most: int, seed: int = 0) -> Any:
        """How the rows with a target are split, for our model and the plain SVM alike; tables are often sorted."""
        if self.regression:
            return KFold(most, shuffle=True, random_state=seed)
        return StratifiedKFold(min(most, *self.counts().values()), shuffle=True, random_state=seed)

    def take(self, rows: Vector) -> Points:
        """Some of the rows."""
        return Points(self.features.iloc[rows], self.y[rows], self.regression)


def drawn(points: Points, labelled: int, others: int) -> Points:
    """At most so many labelled and other rows, drawn at random, of every class at least five."""
    rng = np.random.default_rng(0)
    known, other = np.flatnonzero(points.labelled), np.flatnonzero(~points.labelled)
    if len(known) > labelled:
        kept = set(rng.choice(known, labelled, replace=False).tolist())
        if not points.regression:
            for name in points.counts():
                kept.update(known[points.y[known] == name][:5].tolist())
        known = np.array(sorted(kept))
    if len(other) > others:
        other = rng.choice(other, others, replace=False)
    return points.take(np.sort(np.concatenate([known, other])))
