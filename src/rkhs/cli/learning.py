"""The estimators behind `rkhs fit`: C and nu by cross-validation, on a sample of the rows if there are many."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

import rkhs
from rkhs.cli.sample import Points, drawn
from rkhs.invariances import Sampled

Vector = np.ndarray[Any, Any]
FOLDS = 5
LABELLED, OTHERS = 600, 400  # rows for the choice of C and nu, and where the invariances hold in a large table
MOST_LABELLED = 20_000  # rows with a target that the machine itself learns from
LANDMARKS = 1000  # functions in whose span it learns from more rows: 20,000 in R^52 take seconds, not an hour


@dataclass(frozen=True)
class Settings:
    """What is asked for: the kind of machine, its invariance, and the grid (of one cell without --cv)."""

    regression: bool
    invariance: str
    Cs: Any
    nus: Any

    def search(self, folds: Any) -> Any:
        """The cross-validated estimator."""
        own: dict[str, Any] = {"Cs": self.Cs, "nus": self.nus, "invariance": self._knowledge(), "cv": folds}
        if self.regression:
            return rkhs.InvariantRegressorCV(unlabeled=float("nan"), **own)
        return rkhs.InvariantClassifierCV(unlabeled="", loss="squared_hinge", **own)

    def machine(self, C: float, nu: float, scale: float) -> Any:
        """The estimator for a large table, with values that were chosen."""
        own: dict[str, Any] = {
            "C": C,
            "nu": nu,
            "scale": scale,
            "tol": 1e-2,
            "approximation": rkhs.Landmarks(LANDMARKS),
        }
        own["invariance"] = None if self.invariance == "none" else Sampled(self.invariance, LABELLED + OTHERS)
        if self.regression:
            return rkhs.InvariantRegressor(unlabeled=float("nan"), **own)
        return rkhs.InvariantClassifier(unlabeled="", loss="squared_hinge", **own)

    def _knowledge(self) -> str | None:
        return None if self.invariance == "none" else self.invariance


@dataclass(frozen=True, eq=False)
class Learnt:
    """The search, the machine to keep (the same if the table is small), and the rows that each learnt from."""

    search: Any
    machine: Any
    chosen_on: Points
    learnt_from: Points


def learn(settings: Settings, points: Points, encode: Any) -> Learnt:
    """Choose C and nu on at most LABELLED + OTHERS rows; learn from all labelled ones, up to MOST_LABELLED.

    In a large table the invariances hold at LABELLED + OTHERS of its rows, drawn at random, with a nu that grows with
    the number of rows they stand for, and the function is in the span of landmarks.
    """
    few = drawn(points, LABELLED, OTHERS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the status is among the facts
        search = settings.search(few.folds(FOLDS)).fit(encode(few.features), few.y)
        if few.size == points.size:
            return Learnt(search, search, few, few)
        many = drawn(points, MOST_LABELLED, OTHERS)
        nu = search.nu_ * max(1.0, many.size / (LABELLED + OTHERS))
        machine = settings.machine(search.C_, nu, search.function_.kernel.scale)
        machine.fit(encode(many.features), many.y)
    return Learnt(search, machine, few, many)
