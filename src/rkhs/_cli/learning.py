"""The options of `rkhs fit` and the estimators behind it.

Settings are chosen from a sample of the rows if there are many; then the model learns from all rows.
"""

from __future__ import annotations

import re
import warnings
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, StratifiedKFold

import rkhs
from rkhs._backend.arrays import Vector
from rkhs._cli.tables import Format, Kinds
from rkhs._cli.terminal import CommandError, Problems, suggest
from rkhs.invariances import Monotone, Sampled
from rkhs.invariances._base import Invariance, as_invariances

AUTO, NONE = "auto", "none"
NU = {"gradient": 1.0, "local_average": 1.0, "laplacian": 30.0, "graph": 100.0}  # mild weights of named knowledge
SIGN = re.compile(r"\s*(?P<name>.+?)\s*=\s*(?P<sign>[+-]?1|[+-])\s*(,|$)")
UNLABELED = ""  # the label of a row that has none
FOLDS = 5
LABELED, OTHERS = 400, 200  # rows for the choice of settings, and where prior knowledge holds in a large table
LANDMARKS = 1000  # functions in whose span it learns from more rows: 20,000 in R^52 take seconds, not an hour

Folds: TypeAlias = KFold | StratifiedKFold
Model = rkhs.InvariantClassifier | rkhs.InvariantRegressor
Search = rkhs.InvariantClassifierCV | rkhs.InvariantRegressorCV
Knowledge = Mapping[str, list[Invariance]]  # pieces of prior knowledge by name


@dataclass(frozen=True, eq=False)
class Examples:
    """Features, and targets: texts, "" where there is none, or numbers, NaN where there is none."""

    features: pd.DataFrame
    y: Vector
    regression: bool

    @property
    def labeled(self) -> Vector:
        return ~np.isnan(self.y) if self.regression else self.y != UNLABELED

    def counts(self) -> dict[str, int]:
        """Return the number of rows of each class, in the order of the classes."""
        return dict(sorted(Counter(self.y[self.labeled].tolist()).items()))

    def check_folds(self, target: str) -> None:
        """Refuse what cannot be cross-validated: no labels, one class, a class with one label, few numbers."""
        known, counts = int(self.labeled.sum()), {} if self.regression else self.counts()
        rare = [name for name, count in counts.items() if count < 2]
        if known == 0:
            raise CommandError(f"Every row of column {target!r} is empty: some rows need a target to learn from.")
        if self.regression and known < 2 * FOLDS:
            raise CommandError(f"Column {target!r} has {known} numbers, and {2 * FOLDS} are needed: add rows with one.")
        if len(counts) == 1:
            raise CommandError(f"Column {target!r} has one class only, {min(counts)!r}: add rows of another class.")
        if rare:
            listed = ", ".join(map(repr, rare[:3])) + (", .." if len(rare) > 3 else "")
            which = f"Class {listed} of column {target!r} has" if len(rare) == 1 else f"Classes {listed} have"
            raise CommandError(
                f"{which} a single row: two of each class are needed; add rows, or leave the label of such rows empty."
            )

    def folds(self, seed: int = 0) -> Folds:
        """Return how to split the rows with a target; they are shuffled, because tables are often sorted."""
        if self.regression:
            return KFold(FOLDS, shuffle=True, random_state=seed)
        return StratifiedKFold(min(FOLDS, *self.counts().values()), shuffle=True, random_state=seed)

    def sample(self, labeled: int, others: int) -> Examples:
        """Draw at most so many labeled and other rows at random, and at least five of every class."""
        rng = np.random.default_rng(0)
        known, other = np.flatnonzero(self.labeled), np.flatnonzero(~self.labeled)
        if len(known) > labeled:
            kept = [rng.choice(known, labeled, replace=False)]
            if not self.regression:
                kept += [known[self.y[known] == name][:5] for name in self.counts()]
            known = np.unique(np.concatenate(kept))
        if len(other) > others:
            other = rng.choice(other, others, replace=False)
        rows = np.sort(np.concatenate([known, other]))
        return Examples(self.features.iloc[rows], self.y[rows], self.regression)


@dataclass(frozen=True)
class Request:
    """The options of `rkhs fit`; `signs` maps features, by number, to +1 or -1 if f rises or falls with them."""

    data: Path
    target: str
    out: Path = Path("model.skops")
    invariance: str = AUTO
    cv: bool = False
    C: float | None = None
    nu: float | None = None
    monotone: str = ""
    regression: bool = False
    ignore: tuple[str, ...] = ()
    as_text: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    form: Format = field(default_factory=Format)
    picture: Path | None = None
    report: Path | None = None
    force: bool = False
    signs: Mapping[int, int] = field(default_factory=dict)

    def check(self) -> None:
        """Refuse options that make no sense for any table, all at once."""
        problems, names = Problems(), (AUTO, *NU, NONE)
        problems.refuse(
            self.invariance not in names,
            f"--invariance must be one of {', '.join(names)}, got {self.invariance!r}."
            + suggest(self.invariance, names),
        )
        problems.refuse(
            self.C is not None and not 0 < self.C < inf,
            f"--C must be a finite number > 0, got {self.C}: 10 is a good start.",
        )
        problems.refuse(
            self.nu is not None and not 0 <= self.nu < inf,
            f"--nu must be a finite number >= 0, got {self.nu}: 1 is a good start.",
        )
        with problems.gathered():
            parse_signs(self.monotone)
        problems.check()

    def with_signs(self, kinds: Kinds, classes: int) -> Request:
        """Resolve the names of monotone columns; refuse those that cannot be monotone, all at once."""
        problems, signs = Problems(), parse_signs(self.monotone)
        for name in signs:
            why = "is no column of numbers or dates" if name in kinds.features else "is no column to learn from"
            problems.refuse(
                name not in kinds.amounts,
                f"--monotone {name}: {name!r} {why}; those are {', '.join(kinds.amounts) or 'none'}."
                + suggest(name, kinds.amounts),
            )
        problems.refuse(
            bool(signs) and not self.regression and classes > 2,
            f"--monotone needs two classes or numbers to predict, and column {self.target!r} has {classes} classes: "
            "leave it out, or predict numbers with --regression.",
        )
        problems.check()
        return replace(self, signs={kinds.amounts.index(name): sign for name, sign in signs.items()})

    def search(self, folds: Folds, X: Vector) -> Search:
        """Return the estimator that chooses settings; monotone features are added later, in one fit."""
        options: dict[str, Any] = {"cv": folds, "invariance": None if self.invariance == NONE else self.invariance}
        if self.invariance == AUTO:
            options["Cs"], options["nus"] = (None if value is None else [value] for value in (self.C, self.nu))
        elif self.cv:
            options |= {"Cs": 5, "nus": [0.0] if self.invariance == NONE else 5}
            options["scales"] = [share * rkhs.kernels.median_scale(X) for share in (0.5, 1.0, 2.0)]
        else:
            nu = NU.get(self.invariance, 0.0) if self.nu is None or self.invariance == NONE else self.nu
            options |= {"Cs": [10.0 if self.C is None else self.C], "nus": [nu]}
        if self.signs:
            options["kernel"] = "gaussian"  # monotone functions need slopes
        if self.regression:
            return rkhs.InvariantRegressorCV(unlabeled=float("nan"), **options)
        if self.invariance != AUTO:
            options["loss"] = "squared_hinge"
        return rkhs.InvariantClassifierCV(unlabeled=UNLABELED, **options)

    def chosen(self, search: Search) -> dict[str, Any]:
        """Return the settings that a fitted search has chosen, as parameters of the plain estimator."""
        params: dict[str, Any] = {"invariance": None if self.invariance in (AUTO, NONE) else self.invariance}
        if "scale" not in search.best_params_:
            kernel: Any = search.function_.kernel  # of a search, which always has one or more length scales
            params["scale"] = kernel.scale
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
        return plain(**accepted, unlabeled=float("nan") if self.regression else UNLABELED, **options)


@dataclass(frozen=True, eq=False)
class Learned:
    """The search, the model to keep (the search itself if nothing is added), and the rows that each has seen."""

    request: Request
    search: Search
    model: Model | Search
    params: Mapping[str, Any]
    chosen_on: Examples
    learned_from: Examples

    @property
    def knowledge(self) -> dict[str, list[Invariance]]:
        """The prior knowledge of the model, by name."""
        return self.request.knowledge(self.params, len(self.learned_from.y))


def learn(request: Request, points: Examples, columns: ColumnTransformer) -> Learned:
    """Choose settings on at most LABELED + OTHERS rows; learn from all labeled ones, up to 20,000.

    In a large table prior knowledge holds at LABELED + OTHERS of its rows, drawn at random, which stand for all, and
    the function is in the span of landmarks.  `columns` maps features to points.
    """
    few = points.sample(LABELED, OTHERS)
    X = columns.transform(few.features)
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):  # the status is among the facts
        search = request.search(few.folds(), X).fit(X, few.y)
        params = request.chosen(search)
        if len(few.y) == len(points.y):
            knowledge = request.knowledge(params, len(few.y))
            model = request.model(params, knowledge).fit(X, few.y) if request.signs else search
            return Learned(request, search, model, params, few, few)
        many = points.sample(20_000, OTHERS)
        knowledge = request.knowledge(params, len(many.y))
        thinned = {
            name: [replace(one, functional=Sampled(one.functional, LABELED + OTHERS)) for one in piece]
            for name, piece in knowledge.items()
        }
        model = request.model(params, thinned, approximation=rkhs.Landmarks(LANDMARKS), tol=1e-2)
        model.fit(columns.transform(many.features), many.y)
    return Learned(request, search, model, params, few, many)


def parse_signs(text: str) -> dict[str, int]:
    """Return the names of columns and their signs."""
    found: dict[str, int] = {}
    start = 0
    while start < len(text.rstrip()):
        match = SIGN.match(text, start)
        if match is None:
            raise CommandError(
                f"--monotone takes columns with +1 or -1 (f falls), as in age=+1,income=-1, got {text!r}."
            )
        if match["name"] in found:
            raise CommandError(f"--monotone names column {match['name']!r} twice: give it one sign.")
        found[match["name"]] = -1 if match["sign"].startswith("-") else 1
        start = match.end()
    return found
