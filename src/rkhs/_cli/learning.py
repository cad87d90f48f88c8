"""The options of `rkhs fit`, and the estimators that they ask for."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold, StratifiedKFold

import rkhs
from rkhs._backend.arrays import Vector
from rkhs._cli.tables import Format, Kinds
from rkhs._cli.terminal import CommandError, Problems, suggest
from rkhs.invariances import Monotone, RandomSubset
from rkhs.invariances._base import Invariance, as_invariances

AUTO, NONE = "auto", "none"
NU = {"gradient": 1.0, "local_average": 1.0, "graph": 100.0}  # mild default weights of named priors
PRIORS = {  # what the automatic choice tries besides no prior, and whether it takes that from unlabeled rows too
    "features": ("distances from the covariance of all rows", True),
    "scales": ("a length scale for each column", False),
    "graph": ("neighboring rows have similar targets", True),
}
UNLABELED = ""  # the label of a row that has none
FOLDS = 5
# Settings are chosen from a sample of the rows if there are more: these take half a minute of a core.
LABELED, OTHERS = 400, 600
MOST, LANDMARKS = 20_000, 1000  # labeled rows of a larger table, and the dimension of the space in which it is fitted

Folds: TypeAlias = KFold | StratifiedKFold
Model = rkhs.InvariantClassifier | rkhs.InvariantRegressor
Search = rkhs.InvariantClassifierCV | rkhs.InvariantRegressorCV


@dataclass(frozen=True, eq=False)
class Examples:
    """Features and targets: texts, "" where missing, or numbers, NaN where missing."""

    features: pd.DataFrame
    y: Vector
    regression: bool

    @property
    def labeled(self) -> Vector:
        """The mask of the rows with a target."""
        return ~np.isnan(self.y) if self.regression else self.y != UNLABELED

    def counts(self) -> dict[str, int]:
        """Return the number of rows of each class, in the order of the classes."""
        return dict(sorted(Counter(self.y[self.labeled].tolist()).items()))

    def check_folds(self, target: str) -> None:
        """Refuse what cannot be cross-validated: no labels, one class, a class with one label, few numbers."""
        known, counts = int(self.labeled.sum()), {} if self.regression else self.counts()
        rare = [name for name, count in counts.items() if count < 3]  # to train on, to tune on, and to test on
        if known == 0:
            raise CommandError(f"Every row of column {target!r} is empty: some rows need a target to learn from.")
        if self.regression and known < 2 * FOLDS:
            raise CommandError(f"Column {target!r} has {known} numbers, and {2 * FOLDS} are needed: add rows with one.")
        if len(counts) == 1:
            raise CommandError(f"Column {target!r} has one class only, {min(counts)!r}: add rows of another class.")
        if rare:
            listed = ", ".join(map(repr, rare[:3])) + (", .." if len(rare) > 3 else "")
            which = f"Class {listed} of column {target!r} has" if len(rare) == 1 else f"Classes {listed} have"
            raise CommandError(f"{which} fewer than three rows: add rows, or leave the label of such rows empty.")

    def folds(self, seed: int = 0) -> Folds:
        """Return the splitter of the labeled rows, which shuffles them, because tables are often sorted."""
        if self.regression:
            return KFold(FOLDS, shuffle=True, random_state=seed)
        return StratifiedKFold(min(FOLDS, *self.counts().values()), shuffle=True, random_state=seed)

    def sample(self, labeled: int, others: int) -> Examples:
        """Draw at most these numbers of labeled and other rows at random, with at least five of every class."""
        rng = np.random.default_rng(0)
        known, other = np.flatnonzero(self.labeled), np.flatnonzero(~self.labeled)
        if len(known) > labeled:
            kept = [rng.choice(known, labeled, replace=False)]
            if not self.regression:
                kept += [known[self.y[known] == name][:5] for name in self.counts()]
            known = np.unique(np.concatenate(kept))
        if len(other) > others:
            other = rng.choice(other, others, replace=False)
        return self.take(np.sort(np.concatenate([known, other])))

    def take(self, rows: Vector) -> Examples:
        """Return some of the rows, given by number or as a mask."""
        return replace(self, features=self.features.iloc[rows], y=self.y[rows])

    def hidden(self, rows: Vector) -> Examples:
        """Return the examples without the targets of some rows."""
        y = self.y.copy()
        y[rows] = np.nan if self.regression else UNLABELED
        return replace(self, y=y)


@dataclass(frozen=True)
class Request:
    """The options of `rkhs fit`; `signs` maps monotone features, by number, to +1 (increasing) or -1 (decreasing)."""

    data: Path
    target: str
    out: Path = Path("model.skops")
    invariance: str = AUTO
    cv: bool = False
    C: float | None = None
    nu: float | None = None
    increasing: tuple[str, ...] = ()
    decreasing: tuple[str, ...] = ()
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
        for name in set(self.increasing) & set(self.decreasing):
            problems.refuse(True, f"Column {name!r} is both --increasing and --decreasing: keep one of them.")
        problems.check()

    def with_signs(self, kinds: Kinds, classes: int) -> Request:
        """Resolve the names of monotone columns; refuse those that cannot be monotone, all at once."""
        problems, signs = Problems(), {}
        for option, names, sign in (("--increasing", self.increasing, 1), ("--decreasing", self.decreasing, -1)):
            for name in names:
                why = "has neither numbers nor dates" if name in kinds.features else "is not a column to learn from"
                problems.refuse(
                    name not in kinds.amounts,
                    f"{option} {name}: {name!r} {why}; columns that do are {', '.join(kinds.amounts) or 'none'}."
                    + suggest(name, kinds.amounts),
                )
                signs[name] = sign
            problems.refuse(
                bool(names) and not self.regression and classes > 2,
                f"{option} needs two classes or numbers to predict, and column {self.target!r} has {classes} classes: "
                "leave it out, or predict numbers with --regression.",
            )
        problems.check()
        return replace(self, signs={kinds.amounts.index(name): sign for name, sign in signs.items()})

    def fit(self, X: Vector, examples: Examples) -> Fit:
        """Choose the settings and fit the model to points X, the encoded features of the examples."""
        search = self._search(examples.folds(), X).fit(X, examples.y)
        chosen = Fit(self, search, search)
        return chosen.refit(X, examples) if self.signs else chosen

    def _search(self, folds: Folds, X: Vector) -> Search:
        """Return the estimator that chooses settings, without monotone features."""
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
            options["kernel"] = "gaussian"  # functions of other kernels have no derivatives
        options["verbose"] = sys.stderr.isatty()
        if self.regression:
            return rkhs.InvariantRegressorCV(unlabeled=float("nan"), **options)
        if self.invariance != AUTO:
            options["loss"] = "squared_hinge"
        return rkhs.InvariantClassifierCV(unlabeled=UNLABELED, **options)


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted search and the model to keep, which is the search itself unless something is added to it."""

    request: Request
    search: Search
    model: Model | Search

    @property
    def params(self) -> dict[str, Any]:
        """The settings that were chosen, as parameters of the plain estimator."""
        invariance = self.request.invariance
        params: dict[str, Any] = {"invariance": None if invariance in (AUTO, NONE) else invariance}
        if "scale" not in self.search.best_params_:
            kernel: Any = self.search.function_.kernel  # of a search, which always has one or more length scales
            params["scale"] = kernel.scale
        return params | {"loss": self.search.loss} | self.search.best_params_

    @property
    def prior(self) -> str:
        """The name of the prior that was chosen or asked for: one of PRIORS, of NU, or NONE."""
        if hasattr(self.search, "selection_report_"):
            return str(self.search.selection_report_["chosen"]["prior"])
        return self.request.invariance if self.params["nu"] > 0 else NONE

    def refit(self, X: Vector, examples: Examples, **options: Any) -> Fit:
        """Return the same settings, with monotone features, fitted to other examples."""
        request, params = self.request, self.params
        plain = rkhs.InvariantRegressor if request.regression else rkhs.InvariantClassifier
        accepted = {name: value for name, value in params.items() if name in plain().get_params()}
        priors: list[Invariance] = []
        if params["nu"] > 0 and params["invariance"] is not None:
            each = as_invariances(params["invariance"])
            priors = [replace(one, weight=one.weight * params["nu"]) for one in each]
        if request.signs:  # the weight is that of a mean over rows: ten times the weight of a label at each row
            priors.append(Monotone(request.signs, weight=10 * params["C"] * len(X)))
        if "approximation" in options:  # priors at a sample of the rows, which stands for all of them
            priors = [replace(one, functional=RandomSubset(one.functional, LABELED + OTHERS)) for one in priors]
        accepted |= {"invariance": priors or None, "nu": 1.0 if priors else 0.0}
        unlabeled = float("nan") if request.regression else UNLABELED
        return replace(self, model=plain(**accepted, unlabeled=unlabeled, **options).fit(X, examples.y))


def fit_large(fit: Fit, X: Vector, examples: Examples) -> Fit:
    """Fit the settings that a sample has chosen to a large table, in the span of landmarks."""
    return fit.refit(X, examples, approximation=rkhs.Landmarks(LANDMARKS), tol=1e-2)
