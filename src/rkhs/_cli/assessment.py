"""How good a model is, compared with a plain SVM, and what it makes of each column.

Rows are predicted by models that have not seen their labels.  The folds differ from those by which settings were
chosen.  The settings themselves have seen all labels, ours and the plain SVM's alike, so both errors are a little
optimiztic.

The effects of a column are values L(f) of linear functionals L at the learned function f, computed without differences:

    average slope          mean_i df/dx_a (x_i)            in units of f for one unit of the column
    partial dependence     mean_i f(x_i with x_a = v)      along the values v of the column, or its texts
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import cross_val_predict
from sklearn.svm import SVC, SVR

import rkhs
from rkhs._backend.arrays import Vector, to_numpy
from rkhs._cli.learning import UNLABELED, Folds, Knowledge, Learned
from rkhs._cli.tables import Kinds
from rkhs._estimators.options import WIDE_C_RANGE
from rkhs._estimators.regressor import likely_spread


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Out-of-fold predictions: what a model predicts for each labeled row without its label."""

    truth: Vector
    predicted: Vector
    classes: Vector | None = None
    probabilities: Vector | None = None  # (l, classes)
    deviation: Vector | None = None  # (l,) of regressors whose losses are all squared

    @property
    def losses(self) -> Vector:
        """(l,) one for a wrong class and zero for the right one; squared errors of numbers."""
        if self.classes is None:
            return np.asarray((self.predicted - self.truth) ** 2)
        return (self.predicted != self.truth).astype(float)

    @property
    def error(self) -> float:
        """The share of wrong classes; for regression the root of the mean squared error."""
        mean = float(np.mean(self.losses))
        return mean if self.classes is not None else mean**0.5

    def interval(self) -> dict[str, Any]:
        """Return the factor c for which 90 % of the held-out targets are in f(x) +- c deviation(x), or +- c."""
        size = np.abs(self.predicted - self.truth) / (1.0 if self.deviation is None else self.deviation)
        rank = min(1.0, 0.9 * (len(size) + 1) / len(size))
        factor = float(np.quantile(size, rank, method="higher"))
        return {"level": 0.9, "factor": factor, "of the deviation": self.deviation is not None}


@dataclass(frozen=True, eq=False)
class Comparison:
    """Our model and the plain SVM on the same folds, and what each piece of prior knowledge gained."""

    ours: OutOfFold
    plain: OutOfFold
    gains: list[dict[str, Any]]

    def sentence(self, measure: str) -> str:
        """Compare in words; below two standard errors, row by row, a difference may be chance, below 1 % it is none."""
        ours, plain = self.ours.error, self.plain.error
        difference = self.ours.losses - self.plain.losses
        chance = abs(difference.mean()) < 2 * difference.std() / np.sqrt(len(difference))
        perhaps = ", by no more than chance may make," if chance else ","
        our, their = (format_error(error, self.ours.classes is None) for error in (ours, plain))
        if ours > 1.01 * plain:
            return (
                f"The plain SVM is better on this table{perhaps} with {measure} {their} compared with {our}: more "
                "labels, or prior knowledge of your own, may help."
            )
        better = ours < 0.99 * plain
        verdict = f"better than the plain SVM{perhaps}" if better else "as good as the plain SVM,"
        return f"The model is {verdict} with {measure} {our} compared with {their}."


def format_error(error: float, regression: bool) -> str:
    """Return an error for readers: a root mean square as it is, a share of wrong classes in percent."""
    return f"{error:.4g}" if regression else f"{100 * error:.1f} %"


def compare(learned: Learned, X: Vector) -> Comparison:
    """Predict each of the rows X by which settings were chosen with models that have not seen its label."""
    points, params, results = learned.chosen_on, learned.params, learned.search.cv_results_
    ours = hold_out(learned, params, learned.knowledge, X)
    if not points.regression:
        with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
            learned.model.predict_proba(X[:1])  # fits the probabilities, so that the model file holds them
    # The plain SVM tries the length scales that our search has tried for the features themselves, not for linear maps
    # of them, and C as it was given, or over the range of our search.
    plain = [one for one in results["params"] if isinstance(one.get("kernel", ""), str)] or results["params"]
    scales = dict.fromkeys(
        tuple(s) if np.ndim(s) else float(s) for s in (one.get("scale", params["scale"]) for one in plain)
    )
    Cs = sorted({float(one["C"]) for one in results["params"]})
    known, y = points.labeled, points.y[points.labeled]
    Cs = Cs if len(Cs) == 1 else np.logspace(*WIDE_C_RANGE, 6).tolist()
    svm, K = plain_svm(X[known], y, list(scales), Cs, points.regression, points.folds())
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        predicted = np.asarray(cross_val_predict(svm, K, y, cv=points.folds(seed=1)))
    gains = []
    for name in learned.knowledge:
        others = {other: piece for other, piece in learned.knowledge.items() if other != name}
        without = hold_out(learned, params if others else {**params, **_best_without(learned)}, others, X)
        gains.append({"prior knowledge": name, "error with it": ours.error, "error without it": without.error})
    return Comparison(ours, OutOfFold(y, predicted, ours.classes), gains)


def hold_out(learned: Learned, params: Mapping[str, Any], knowledge: Knowledge, X: Vector) -> OutOfFold:
    """Fit a model for each fold, whose rows lose their labels, and predict these rows."""
    points, regression = learned.chosen_on, learned.request.regression
    known = np.flatnonzero(points.labeled)
    classes = None if regression else np.array(list(points.counts()), dtype=str)
    predicted = np.empty(len(known), dtype=points.y.dtype)
    second = np.full(len(known) if classes is None else (len(known), len(classes)), np.nan)
    squared = True
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        for _, test in points.folds(seed=1).split(known, points.y[known]):
            y, held_out = points.y.copy(), X[known[test]]
            y[known[test]] = np.nan if regression else UNLABELED
            model = learned.request.model(params, knowledge).fit(X, y)
            squared = squared and model.solution_.source is not None
            predicted[test] = model.predict(held_out)
            if not regression:
                second[test] = model.predict_proba(held_out)
            elif squared:
                second[test] = likely_spread(model, held_out)
    if not regression:
        return OutOfFold(points.y[known], predicted, classes, second)
    return OutOfFold(points.y[known], predicted, deviation=second if squared else None)


def _best_without(learned: Learned) -> dict[str, Any]:
    """Return the settings of the best candidate without prior knowledge; nothing if there is none."""
    search = learned.search
    results, tried = search.cv_results_, search.cv_results_["params"]
    scores = -results["mean_test_loss"] if "mean_test_loss" in results else results["mean_test_score"]
    plain = [k for k, params in enumerate(tried) if params["nu"] == 0 and np.isfinite(scores[k])]
    if not plain:
        return {}
    params = dict(tried[max(plain, key=lambda k: scores[k])])
    if "selection_report_" in vars(search):  # weights of labels there have mean one
        params["C"] *= search.best_params_["C"] / tried[search.best_index_]["C"]
    return params


def plain_svm(
    X: Vector, y: Vector, scales: Sequence[Any], Cs: Sequence[float], regression: bool, folds: Folds
) -> tuple[SVC | SVR, Vector]:
    """Return scikit-learn's SVM of the least cross-validated error over Cs and length scales, and its kernel matrix."""
    size = (float(np.std(y)) or 1.0) if regression else 1.0
    svm = SVR(epsilon=0.1 * size) if regression else SVC()
    # LIBSVM would take millions of steps for large C and noisy targets
    svm.set_params(kernel="precomputed", max_iter=100_000)
    parts, least, best = list(folds.split(X, y)), np.inf, None
    quiet = warnings.catch_warnings(action="ignore", category=ConvergenceWarning)
    with quiet, config_context(assume_finite=True, skip_parameter_validation=True):
        for scale in scales:
            K = rbf_kernel(X / np.asarray(scale), gamma=0.5)  # the Gaussian of scale one
            for C in Cs:
                svm.set_params(C=size * C)
                errors = []
                for train, test in parts:
                    predicted = svm.fit(K[np.ix_(train, train)], y[train]).predict(K[np.ix_(test, train)])
                    errors.append(np.mean((predicted - y[test]) ** 2 if regression else predicted != y[test]))
                if (error := float(np.mean(errors))) < least:
                    least, best = error, (clone(svm), K)
    assert best is not None
    return best


@dataclass(frozen=True, eq=False)
class Effect:
    """The effect of one column: the slope for one unit, and partial dependence."""

    column: str
    values: list[Any]  # days since 1970 if `dates` is true
    dependence: Vector  # (values, outputs)
    slope: Vector | None = None  # (outputs,); None for texts
    dates: bool = False

    @property
    def size(self) -> float:
        """The range of f along the column, the largest of all outputs."""
        return float(np.ptp(self.dependence, axis=0).max())


def effects(f: rkhs.Function, columns: ColumnTransformer, features: pd.DataFrame, kinds: Kinds) -> list[Effect]:
    """Return the effects of all columns, averaged over 100 rows; those along which f changes most come first."""
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
        slope = average_slope(f, X, number) / scaler.scale_[number]
        dates = kinds.dates.get(name, "hour:minute") != "hour:minute"
        found.append(Effect(name, values.tolist(), dependence(moved, len(values)), slope, dates))
    for name in kinds.categorical:
        texts = features[name].value_counts().index[:12].tolist()
        rows = pd.concat([some.assign(**{name: text}) for text in texts])
        moved = np.asarray(columns.transform(rows), dtype=float)
        found.append(Effect(name, texts, dependence(moved, len(texts))))
    return sorted(found, key=lambda effect: -effect.size)


def average_slope(f: rkhs.Function, X: Vector, feature: int) -> Vector:
    """Return L(f) (outputs,) for the functional L = mean_i d/dx_a at the rows of X.

    Functions of a kernel that is not smooth have no derivatives; then L is the mean of differences over 0.1, where
    features have standard deviation one.
    """
    mean = np.full((1, len(X)), 1 / len(X))
    try:
        return np.atleast_1d(to_numpy((mean @ rkhs.Derivative(X, axes=[feature]))(f))[0])
    except rkhs.exceptions.NotBoundedError:
        half = 0.05 * np.eye(X.shape[1])[feature]
        return np.atleast_1d(to_numpy((mean @ rkhs.Difference(X + half, X - half))(f))[0]) / 0.1
