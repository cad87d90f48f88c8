"""The estimators that the options of `rkhs fit` ask for."""

from __future__ import annotations

import re
import sys
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold, StratifiedKFold

import rkhs
from rkhs._command.options import AUTO, NONE, NU, Request
from rkhs._command.terminal import CommandError, listed
from rkhs.extend import Vector, to_numpy
from rkhs.invariances import Invariance, Monotone, RandomSubset

OF_ALL_ROWS = ("features", "graph", "clusters")  # computed from the unlabeled rows too
FRACTION = re.compile(r"[0-9]+\.[0-9]+(e[+-]?[0-9]+)?")  # in the name of a kernel
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
            names = listed(list(map(repr, rare)), 3)
            which = f"Class {names} of column {target!r} has" if len(rare) == 1 else f"Classes {names} have"
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


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted search and the model to keep, which is the search itself unless something is added to it."""

    request: Request
    search: Search
    model: Model | Search

    @classmethod
    def of(cls, request: Request, X: Vector, examples: Examples) -> Fit:
        """Choose the settings and fit the model to points X, the encoded features of the examples."""
        search = _search(request, examples.folds(), X).fit(X, examples.y)
        chosen = cls(request, search, search)
        return chosen.refit(X, examples) if request.signs else chosen

    @property
    def params(self) -> dict[str, Any]:
        """The settings that were chosen, as parameters of the plain estimator."""
        invariance = self.request.invariance
        params: dict[str, Any] = {"invariance": None if invariance in (AUTO, NONE) else invariance}
        if "scale" not in self.search.best_params_:
            kernel: Any = self.search.function_.kernel  # of a search, which always has one or more length scales
            params["scale"] = kernel.scale
        return params | {"loss": self.search.loss_} | self.search.best_params_

    @property
    def prior(self) -> str:
        """The name of the prior of the model: one of PRIORS, of NU, or NONE."""
        if hasattr(self.search, "selection_report_"):
            return str(self.search.selection_report_["chosen"]["prior"])
        return self.request.invariance if self.params["nu"] > 0 else NONE

    @property
    def uses_unlabeled(self) -> bool:
        """Whether the kernel is computed from the unlabeled rows too."""
        parts = getattr(self.search, "selection_report_", {}).get("weights", ())
        return any(part["prior"] in OF_ALL_ROWS for part in parts)

    def refit(self, X: Vector, examples: Examples, **options: Any) -> Fit:
        """Return the same settings, with monotone features, fitted to other examples."""
        request, params = self.request, self.params
        plain = rkhs.InvariantRegressor if request.regression else rkhs.InvariantClassifier
        accepted = {name: value for name, value in params.items() if name in plain().get_params()}
        priors: list[Invariance] = []
        if params["nu"] > 0 and params["invariance"] is not None:
            priors = [Invariance(params["invariance"], weight=params["nu"])]
        if request.signs:  # the weight is that of a mean over rows: ten times the weight of a label at each row
            priors.append(Monotone(request.signs, weight=10 * params["C"] * len(X)))
        if "approximation" in options:  # priors at a sample of the rows, which stands for all of them
            priors = [replace(one, functional=RandomSubset(one.functional, LABELED + OTHERS)) for one in priors]
        accepted |= {"invariance": priors or None, "nu": 1.0 if priors else 0.0}
        unlabeled = float("nan") if request.regression else UNLABELED
        model = plain(**accepted, unlabeled=unlabeled, **options).fit(X, examples.y)
        if not request.regression:
            model._decide_by(self.search.discriminant_)  # it was chosen with the settings
        return replace(self, model=model)


def _search(request: Request, folds: Folds, X: Vector) -> Search:
    """Return the estimator that chooses settings, without monotone features."""
    options: dict[str, Any] = {"invariance": None if request.invariance == NONE else request.invariance}
    Cs, nus = (None if value is None else [value] for value in (request.C, request.nu))
    if request.invariance == AUTO:  # leaves out one by one, not by folds
        options |= {"Cs": Cs, "nus": nus}
    elif request.cv:
        options |= {"cv": folds, "Cs": Cs or 5, "nus": nus or 5}
        options["scales"] = [share * rkhs.kernels.median_scale(X) for share in (0.5, 1.0, 2.0)]
    else:
        options |= {"cv": folds, "Cs": Cs or [10.0], "nus": nus or [NU.get(request.invariance, 0.0)]}
    if request.invariance == NONE:
        options["nus"] = [0.0]
    if request.signs:
        # functions of other kernels, and of graphs, which nus=[0] leaves out, have no derivatives
        options |= {"kernel": "gaussian"} | ({"nus": [0.0]} if request.invariance == AUTO else {})
    options["verbose"] = sys.stderr.isatty()
    if request.regression:
        return rkhs.InvariantRegressorCV(unlabeled=float("nan"), **options)
    if request.invariance != AUTO:
        options["loss"] = "squared_hinge"
    return rkhs.InvariantClassifierCV(unlabeled=UNLABELED, **options)


def short_name(text: str) -> str:
    """Return the name of a kernel or a prior with four digits of its numbers."""
    return FRACTION.sub(lambda found: f"{float(found[0]):.4g}", text)


def deviations(model: Any, X: Vector) -> Vector:
    """Return the standard deviations of new targets at X, with the amplitude tau of maximum likelihood."""
    return to_numpy(model.solution_.posterior.std(rkhs.Evaluation(X), weight=model.target_weight_))


def lead(decided: Vector) -> Vector:
    """Return by how much decisions lead: |f| of two classes, the best over the second of several."""
    if decided.ndim == 1:
        return np.abs(decided)
    best = np.sort(decided, axis=1)
    return np.asarray(best[:, -1] - best[:, -2])
