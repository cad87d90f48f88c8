"""The estimators behind `rkhs fit`: settings chosen from a sample of the rows if there are many, then all rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from sklearn.exceptions import ConvergenceWarning

import rkhs
from rkhs._backend.arrays import Vector
from rkhs.cli.sample import Points, drawn
from rkhs.invariances import Monotone, Sampled
from rkhs.invariances.base import Invariance, as_invariances

AUTO, NONE, MONOTONE = "auto", "none", "monotone"
FOLDS = 5
LABELLED, OTHERS = 400, 200  # rows for the choice of settings, and where prior knowledge holds in a large table
MOST_LABELLED = 20_000  # rows with a target that the model itself learns from
LANDMARKS = 1000  # functions in whose span it learns from more rows: 20,000 in R^52 take seconds, not an hour
FIRMLY = 10.0  # weight of a monotone feature at each row, as a multiple of a label's
WIDTHS = (0.5, 1.0, 2.0)  # length scales to try with --cv, as multiples of the median distance


@dataclass(frozen=True)
class Settings:
    """What is asked for: kind of model, prior knowledge, and values to try, None for the estimator's own.

    `signs` has +1 or -1 for features, by number, with which f rises or falls.
    """

    regression: bool
    invariance: str
    Cs: Any = None
    nus: Any = None
    widths: tuple[float, ...] | None = None
    signs: Mapping[int, int] | None = None

    def search(self, folds: Any, X: Vector) -> Any:
        """The estimator that chooses settings; monotone features come to it later, so that one fit has them."""
        own: dict[str, Any] = {"Cs": self.Cs, "nus": self.nus, "cv": folds}
        own["invariance"] = None if self.invariance == NONE else self.invariance
        if self.widths is not None:
            own["scales"] = [width * rkhs.median_scale(X) for width in self.widths]
        if self.signs:
            own["kernel"] = "gaussian"  # monotone functions need slopes
        if self.invariance != AUTO and not self.regression:
            own["loss"] = "squared_hinge"
        if self.regression:
            return rkhs.InvariantRegressorCV(unlabeled=float("nan"), **own)
        return rkhs.InvariantClassifierCV(unlabeled="", **own)

    def chosen(self, search: Any) -> dict[str, Any]:
        """What a fitted search has chosen, as parameters of the plain estimator."""
        own: dict[str, Any] = {"invariance": None if self.invariance in (AUTO, NONE) else self.invariance}
        if "scale" not in search.best_params_:
            own["scale"] = search.function_.kernel.scale
        return own | {"loss": search.loss} | search.best_params_

    def pieces(self, params: Mapping[str, Any], rows: int) -> dict[str, list[Invariance]]:
        """The prior knowledge of a model of so many rows by name, each piece with its weight."""
        found: dict[str, list[Invariance]] = {}
        if params["nu"] > 0 and params["invariance"] is not None:
            name = params["invariance"] if isinstance(params["invariance"], str) else "near rows are alike"
            each = as_invariances(params["invariance"])
            found[name] = [replace(one, weight=one.weight * params["nu"]) for one in each]
        if self.signs:
            found[MONOTONE] = [Monotone(self.signs, weight=FIRMLY * params["C"] * rows)]  # of a mean
        return found

    def machine(self, params: Mapping[str, Any], pieces: Mapping[str, list[Invariance]], **options: Any) -> Any:
        """The plain estimator with settings that were chosen, and some of the pieces."""
        plain = rkhs.InvariantRegressor if self.regression else rkhs.InvariantClassifier
        own = {name: value for name, value in params.items() if name in plain().get_params()}
        knowledge = [one for piece in pieces.values() for one in piece]
        own |= {"invariance": knowledge or None, "nu": 1.0 if knowledge else 0.0}
        return plain(**own, unlabeled=float("nan") if self.regression else "", **options)


@dataclass(frozen=True, eq=False)
class Learnt:
    """The search, the model to keep (the same if nothing is added to it), and the rows that each learnt from."""

    settings: Settings
    search: Any
    machine: Any
    params: Mapping[str, Any]
    chosen_on: Points
    learnt_from: Points

    @property
    def pieces(self) -> dict[str, list[Invariance]]:
        """The prior knowledge of the model, by name."""
        return self.settings.pieces(self.params, self.learnt_from.size)

    @property
    def in_span(self) -> bool:
        """Whether the model is in the span of landmarks."""
        return self.learnt_from is not self.chosen_on


def learn(settings: Settings, points: Points, encode: Any) -> Learnt:
    """Choose settings on at most LABELLED + OTHERS rows; learn from all labelled ones, up to MOST_LABELLED.

    In a large table prior knowledge holds at LABELLED + OTHERS of its rows, drawn at random, which stand for all, and
    the function is in the span of landmarks.
    """
    few = drawn(points, LABELLED, OTHERS)
    X = encode(few.features)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the status is among the facts
        search = settings.search(few.folds(FOLDS), X).fit(X, few.y)
        params = settings.chosen(search)
        if few.size == points.size:
            pieces = settings.pieces(params, few.size)
            machine = search if not settings.signs else settings.machine(params, pieces).fit(X, few.y)
            return Learnt(settings, search, machine, params, few, few)
        many = drawn(points, MOST_LABELLED, OTHERS)
        pieces = settings.pieces(params, many.size)
        thinned = {name: [spread(one) for one in piece] for name, piece in pieces.items()}
        machine = settings.machine(params, thinned, approximation=rkhs.Landmarks(LANDMARKS), tol=1e-2)
        machine.fit(encode(many.features), many.y)
    return Learnt(settings, search, machine, params, few, many)


def spread(one: Invariance) -> Invariance:
    """Prior knowledge at some rows of a large table, in the place of all."""
    return replace(one, functional=Sampled(one.functional, LABELLED + OTHERS))
