"""How good is a model?  Its predictions for labelled rows, each without that row's label.

The folds are others than those by which settings were chosen.  Settings themselves have seen all labels, ours and the
plain SVM's alike, so both errors are a little too good.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from rkhs._backend.arrays import Vector
from rkhs.cli.learning import FOLDS, Learnt
from rkhs.cli.plain import Plain, plain_svm
from rkhs.cli.tables import UNLABELLED
from rkhs.estimators._options import WIDE_C_RANGE
from rkhs.estimators.regressor import likely_spread
from rkhs.invariances.base import Invariance

LEVEL = 0.9  # of intervals
WORSE = 0.01  # relative difference of errors that is called one


@dataclass(frozen=True, eq=False)
class HeldOut:
    """What a model predicts for each labelled row without its label.

    `probabilities` (l, classes) of classifiers, `deviation` (l,) of regressors whose losses are all squared.
    """

    truth: Vector
    predicted: Vector
    classes: Vector | None = None
    probabilities: Vector | None = None
    deviation: Vector | None = None

    @property
    def mistakes(self) -> Vector:
        """(l,) one for a wrong class and zero for the right one; squared errors of numbers."""
        if self.classes is None:
            return np.asarray((self.predicted - self.truth) ** 2)
        return (self.predicted != self.truth).astype(float)

    @property
    def error(self) -> float:
        """The share of wrong classes; for regression the root of the mean squared error."""
        mean = float(np.mean(self.mistakes))
        return mean if self.classes is not None else mean**0.5

    def interval(self) -> dict[str, Any]:
        """f(x) +- factor * deviation(x), or +- factor, in which LEVEL of the held-out targets are."""
        size = np.abs(self.predicted - self.truth) / (1.0 if self.deviation is None else self.deviation)
        rank = min(1.0, LEVEL * (len(size) + 1) / len(size))
        factor = float(np.quantile(size, rank, method="higher"))
        return {"level": LEVEL, "factor": factor, "of the deviation": self.deviation is not None}


@dataclass(frozen=True, eq=False)
class Judged:
    """Our model and the plain SVM on the same folds, and what each piece of prior knowledge gained."""

    ours: HeldOut
    plain: HeldOut
    svm: Plain
    gains: list[dict[str, Any]]

    def sentence(self, measure: str) -> str:
        """The comparison in words; a difference below two standard errors, row by row, is called chance."""
        ours, plain = self.ours.error, self.plain.error
        apart = self.ours.mistakes - self.plain.mistakes
        chance = abs(apart.mean()) < 2 * apart.std() / np.sqrt(len(apart))
        perhaps = ", by no more than chance may make," if chance else ","

        def shown(error: float) -> str:
            return f"{error:.4g}" if self.ours.classes is None else f"{100 * error:.1f} %"

        if ours > (1 + WORSE) * plain:
            return (
                f"The plain SVM is better on this table{perhaps} with {measure} {shown(plain)} compared with "
                f"{shown(ours)}: more labels, or prior knowledge of your own, may help."
            )
        better = ours < (1 - WORSE) * plain
        verdict, perhaps = ("better than", perhaps) if better else ("as good as", ",")
        return (
            f"The model is {verdict} the plain SVM{perhaps} with {measure} {shown(ours)} compared with {shown(plain)}."
        )


def judge(learnt: Learnt, X: Vector) -> Judged:
    """Both models on the rows X by which settings were chosen."""
    points, settings = learnt.chosen_on, learnt.settings
    ours = held_out(learnt, learnt.params, learnt.pieces, X)
    if not settings.regression:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            learnt.machine.predict_proba(X[:1])  # fits the probabilities, so that a model file holds them
    known = points.labelled
    svm = plain_svm(X[known], points.y[known], _scales(learnt), _Cs(learnt), settings.regression, points.folds(FOLDS))
    predicted = svm.predicted(X[known], points.y[known], points.folds(FOLDS, seed=1))
    plain = HeldOut(points.y[known], predicted, ours.classes)
    return Judged(ours, plain, svm, _gains(learnt, ours, X))


def held_out(learnt: Learnt, params: Mapping[str, Any], pieces: Mapping[str, list[Invariance]], X: Vector) -> HeldOut:
    """Fit once for each fold, whose rows stay without their labels."""
    points, regression = learnt.chosen_on, learnt.settings.regression
    known = np.flatnonzero(points.labelled)
    classes = np.array([] if regression else list(points.counts()), dtype=str)
    predicted = np.empty(len(known), dtype=points.y.dtype)
    second = np.full(len(known) if regression else (len(known), len(classes)), np.nan)
    squared = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for _, test in points.folds(FOLDS, seed=1).split(known, points.y[known]):
            y = points.y.copy()
            y[known[test]] = np.nan if regression else UNLABELLED
            machine = learnt.settings.machine(params, pieces).fit(X, y)
            asked = X[known[test]]
            squared = squared and machine.solution_.source is not None
            predicted[test] = machine.predict(asked)
            if not regression:
                second[test] = machine.predict_proba(asked)
            elif squared:
                second[test] = likely_spread(machine, asked)
    if not regression:
        return HeldOut(points.y[known], predicted, classes, second)
    return HeldOut(points.y[known], predicted, deviation=second if squared else None)


def _gains(learnt: Learnt, ours: HeldOut, X: Vector) -> list[dict[str, Any]]:
    """The error without each piece of prior knowledge; without any, settings are those that suit that best."""
    rows = []
    for name in learnt.pieces:
        left = {other: piece for other, piece in learnt.pieces.items() if other != name}
        params = learnt.params if left else {**learnt.params, **_best_without(learnt.search)}
        without = held_out(learnt, params, left, X)
        rows.append({"prior knowledge": name, "error with it": ours.error, "error without it": without.error})
    return rows


def _best_without(search: Any) -> dict[str, Any]:
    """The settings of the best candidate whose prior knowledge has no weight; nothing if there is none."""
    results = search.cv_results_
    judged = -np.asarray(results.get("mean_test_loss", -np.asarray(results["mean_test_score"])), dtype=float)
    plain = [k for k, params in enumerate(results["params"]) if params["nu"] == 0 and np.isfinite(judged[k])]
    if not plain:
        return {}
    params = dict(results["params"][max(plain, key=lambda k: judged[k])])
    if "knowledge_report_" in vars(search):  # weights of labels there have mean one
        params["C"] *= search.best_params_["C"] / results["params"][search.best_index_]["C"]
    return params


def _scales(learnt: Learnt) -> list[Any]:
    """The length scales that our search has tried, of the features themselves."""
    every = learnt.search.cv_results_["params"]
    own = [params for params in every if isinstance(params.get("kernel", ""), str)]  # not those of linear maps of them
    tried = [params.get("scale", learnt.params["scale"]) for params in own or every]
    return list(dict.fromkeys(tuple(s) if np.ndim(s) else float(s) for s in tried))


def _Cs(learnt: Learnt) -> list[float]:
    """C as it was given, or six values over a wide range, where ours was chosen."""
    tried = sorted({float(params["C"]) for params in learnt.search.cv_results_["params"]})
    return tried if len(tried) == 1 else [float(C) for C in np.logspace(*WIDE_C_RANGE, 6)]
