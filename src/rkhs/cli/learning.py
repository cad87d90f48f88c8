"""The estimators behind `rkhs fit`: settings chosen from a sample of the rows if there are many, then all rows."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, StratifiedKFold

import rkhs
from rkhs._backend.arrays import Vector
from rkhs.cli.terminal import CommandError
from rkhs.invariances import Monotone, Sampled
from rkhs.invariances.base import Invariance, as_invariances

AUTO, NONE = "auto", "none"
UNLABELLED = ""  # the label of a row that has none
FOLDS = 5
LABELLED, OTHERS = 400, 200  # rows for the choice of settings, and where prior knowledge holds in a large table
MOST_LABELLED = 20_000  # rows with a target that the model itself learns from
LANDMARKS = 1000  # functions in whose span it learns from more rows: 20,000 in R^52 take seconds, not an hour

Model = rkhs.InvariantClassifier | rkhs.InvariantRegressor
Search = rkhs.InvariantClassifierCV | rkhs.InvariantRegressorCV
Knowledge = Mapping[str, list[Invariance]]  # pieces of prior knowledge by name


@dataclass(frozen=True, eq=False)
class Points:
    """Features, and targets: texts, "" where there is none, or numbers, NaN where there is none."""

    features: pd.DataFrame
    y: Vector
    regression: bool

    @property
    def labelled(self) -> Vector:
        return ~np.isnan(self.y) if self.regression else self.y != UNLABELLED

    def counts(self) -> dict[str, int]:
        """Return the number of rows of each class, in the order of the classes."""
        return dict(sorted(Counter(self.y[self.labelled].tolist()).items()))

    def check_folds(self, target: str) -> None:
        """Refuse what cannot be cross-validated: no labels, one class, a class with one label, few numbers."""
        known, counts = int(self.labelled.sum()), {} if self.regression else self.counts()
        rare = [name for name, count in counts.items() if count < 2]
        if known == 0:
            raise CommandError(f"Every row of column {target!r} is empty: some rows need a target to learn from.")
        if self.regression and known < 2 * FOLDS:
            raise CommandError(
                f"Column {target!r} has {known} numbers: at least {2 * FOLDS} are needed; add rows with one."
            )
        if len(counts) == 1:
            raise CommandError(
                f"Column {target!r} has one class only, {next(iter(counts))!r}: add rows of another class."
            )
        if rare:
            listed = ", ".join(map(repr, rare[:3])) + (", .." if len(rare) > 3 else "")
            which = f"Class {listed} of column {target!r} has" if len(rare) == 1 else f"Classes {listed} have"
            raise CommandError(
                f"{which} a single row: two of each class are needed; add rows, or leave the label of such rows empty."
            )

    def folds(self, seed: int = 0) -> KFold | StratifiedKFold:
        """Return how to split the rows with a target; they are shuffled, because tables are often sorted."""
        if self.regression:
            return KFold(FOLDS, shuffle=True, random_state=seed)
        return StratifiedKFold(min(FOLDS, *self.counts().values()), shuffle=True, random_state=seed)

    def sample(self, labelled: int, others: int) -> Points:
        """Draw at most so many labelled and other rows at random, and at least five of every class."""
        rng = np.random.default_rng(0)
        known, other = np.flatnonzero(self.labelled), np.flatnonzero(~self.labelled)
        if len(known) > labelled:
            kept = [rng.choice(known, labelled, replace=False)]
            if not self.regression:
                kept += [known[self.y[known] == name][:5] for name in self.counts()]
            known = np.unique(np.concatenate(kept))
        if len(other) > others:
            other = rng.choice(other, others, replace=False)
        rows = np.sort(np.concatenate([known, other]))
        return Points(self.features.iloc[rows], self.y[rows], self.regression)


@dataclass(frozen=True)
class Settings:
    """The kind of model, its prior knowledge, and values to try, None for the estimator's own.

    `widths` are length scales as multiples of the median distance; `signs` maps features, by number, to +1 or -1 if f
    rises or falls with them.
    """

    regression: bool
    invariance: str
    Cs: Any = None
    nus: Any = None
    widths: tuple[float, ...] | None = None
    signs: Mapping[int, int] | None = None

    def search(self, folds: KFold | StratifiedKFold, X: Vector) -> Search:
        """Return the estimator that chooses settings; monotone features are added later, in one fit."""
        options: dict[str, Any] = {"Cs": self.Cs, "nus": self.nus, "cv": folds}
        options["invariance"] = None if self.invariance == NONE else self.invariance
        if self.widths is not None:
            options["scales"] = [width * rkhs.median_scale(X) for width in self.widths]
        if self.signs:
            options["kernel"] = "gaussian"  # monotone functions need slopes
        if self.regression:
            return rkhs.InvariantRegressorCV(unlabeled=float("nan"), **options)
        if self.invariance != AUTO:
            options["loss"] = "squared_hinge"
        return rkhs.InvariantClassifierCV(unlabeled=UNLABELLED, **options)

    def chosen(self, search: Search) -> dict[str, Any]:
        """Return the settings that a fitted search has chosen, as parameters of the plain estimator."""
        params: dict[str, Any] = {"invariance": None if self.invariance in (AUTO, NONE) else self.invariance}
        if "scale" not in search.best_params_:
            params["scale"] = vars(search.function_.kernel)["scale"]
        return params | {"loss": search.loss} | search.best_params_

    def knowledge(self, params: Mapping[str, Any], rows: int) -> dict[str, list[Invariance]]:
        """Return the prior knowledge of a model of so many rows by name, each piece with its weight."""
        pieces: dict[str, list[Invariance]] = {}
        if params["nu"] > 0 and params["invariance"] is not None:
            name = params["invariance"] if isinstance(params["invariance"], str) else "near rows are alike"
            each = as_invariances(params["invariance"])
            pieces[name] = [replace(one, weight=one.weight * params["nu"]) for one in each]
        if self.signs:  # the weight is of a mean over the rows: at each row ten times that of a label
            pieces["monotone"] = [Monotone(self.signs, weight=10 * params["C"] * rows)]
        return pieces

    def model(self, params: Mapping[str, Any], knowledge: Knowledge, **options: Any) -> Model:
        """Return the plain estimator with settings that were chosen and some of the prior knowledge."""
        plain = rkhs.InvariantRegressor if self.regression else rkhs.InvariantClassifier
        accepted = {name: value for name, value in params.items() if name in plain().get_params()}
        pieces = [one for piece in knowledge.values() for one in piece]
        accepted |= {"invariance": pieces or None, "nu": 1.0 if pieces else 0.0}
        return plain(**accepted, unlabeled=float("nan") if self.regression else UNLABELLED, **options)


@dataclass(frozen=True, eq=False)
class Learnt:
    """The search, the model to keep (the search itself if nothing is added), and the rows that each has seen."""

    settings: Settings
    search: Search
    model: Model | Search
    params: Mapping[str, Any]
    chosen_on: Points
    learnt_from: Points

    @property
    def knowledge(self) -> dict[str, list[Invariance]]:
        """The prior knowledge of the model, by name."""
        return self.settings.knowledge(self.params, len(self.learnt_from.y))


def learn(settings: Settings, points: Points, columns: ColumnTransformer) -> Learnt:
    """Choose settings on at most LABELLED + OTHERS rows; learn from all labelled ones, up to MOST_LABELLED.

    In a large table prior knowledge holds at LABELLED + OTHERS of its rows, drawn at random, which stand for all, and
    the function is in the span of landmarks.  `columns` maps features to points.
    """
    few = points.sample(LABELLED, OTHERS)
    X = columns.transform(few.features)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the status is among the facts
        search = settings.search(few.folds(), X).fit(X, few.y)
        params = settings.chosen(search)
        if len(few.y) == len(points.y):
            knowledge = settings.knowledge(params, len(few.y))
            model = settings.model(params, knowledge).fit(X, few.y) if settings.signs else search
            return Learnt(settings, search, model, params, few, few)
        many = points.sample(MOST_LABELLED, OTHERS)
        knowledge = settings.knowledge(params, len(many.y))
        thinned = {name: [thin(one) for one in piece] for name, piece in knowledge.items()}
        model = settings.model(params, thinned, approximation=rkhs.Landmarks(LANDMARKS), tol=1e-2)
        model.fit(columns.transform(many.features), many.y)
    return Learnt(settings, search, model, params, few, many)


def thin(one: Invariance) -> Invariance:
    """Return prior knowledge that holds at some rows of a large table, which stand for all."""
    return replace(one, functional=Sampled(one.functional, LABELLED + OTHERS))
