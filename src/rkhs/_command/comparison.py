"""Compare the model with a plain SVM, and with itself without each prior, on rows that neither has seen.

The comparison is nested: for each fold the settings of all models are chosen again without the targets of the fold, and
the same rows are predicted by all of them.  So errors are unbiased by the choice, and differences are paired by rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC, SVR

import rkhs
from rkhs._command.learning import Examples, Fit, deviations
from rkhs._command.options import AUTO, NONE, Request
from rkhs.extend import Vector

LABELED, OTHERS = 200, 600  # rows that are compared at most, drawn at random: seconds for each fold
PLAIN_SCALES, PLAIN_CS = (0.25, 0.5, 1.0, 2.0, 4.0), np.logspace(-1, 3, 5)  # of the SVM; scales in median distances
MODEL, PLAIN, HALF = "the model", "a plain SVM", "one with half of the labels"
BETTER, WORSE, UNCLEAR = "better", "worse", "no clear difference"


@dataclass(frozen=True, eq=False)
class OutOfFold:
    """Predictions for labeled rows by models that have not seen the targets of these rows."""

    truth: Vector
    predicted: Vector
    classes: Vector | None = None
    probabilities: Vector | None = None  # (l, classes)
    deviation: Vector | None = None  # (l,) for regressors whose losses are all squared

    @property
    def losses(self) -> Vector:
        """(l,) one for a wrong class and zero for the right one; squared errors of numbers."""
        if self.classes is None:
            return np.asarray((self.predicted - self.truth) ** 2)
        return (self.predicted != self.truth).astype(float)

    @property
    def error(self) -> float:
        """The share of wrong classes; for regression the root mean squared error."""
        mean = float(np.mean(self.losses))
        return mean if self.classes is not None else mean**0.5

    def interval(self) -> dict[str, Any]:
        """Return the factor c for which 90 % of the held-out targets are in f(x) +- c deviation(x), or +- c."""
        # r_i = |y_i - f(x_i)| / s_i; of l rows the ceil(0.9 (l + 1))-th smallest covers a new one with 90 %
        size = np.abs(self.predicted - self.truth) / (1.0 if self.deviation is None else self.deviation)
        rank = min(1.0, 0.9 * (len(size) + 1) / len(size))
        factor = float(np.quantile(size, rank, method="higher"))
        return {"level": 0.9, "factor": factor, "of the deviation": self.deviation is not None}


@dataclass(frozen=True)
class PairedDifference:
    """The difference of the errors of two models on the same rows, with its standard error.

        gain = other - ours, of mean losses; for regression of their square roots, to first order

    All words about it follow from `verdict`: a difference within two standard errors is not called one.
    """

    other: str
    error: float
    other_error: float
    standard_error: float
    regression: bool

    @classmethod
    def between(cls, ours: OutOfFold, theirs: OutOfFold, other: str) -> PairedDifference:
        """Compare two models row by row."""
        # sqrt(b) - sqrt(a) = (b - a) / (sqrt(a) + sqrt(b)) for the mean squared errors a and b
        size = max(ours.error + theirs.error, 1e-300) if ours.classes is None else 1.0
        # sd(d_1, .., d_l) / sqrt(l) of the differences d_i of losses at row i
        spread = float(np.std((theirs.losses - ours.losses) / size, ddof=1)) / len(ours.losses) ** 0.5
        return cls(other, ours.error, theirs.error, spread, ours.classes is None)

    @property
    def gain(self) -> float:
        """The error of the other model minus ours."""
        return self.other_error - self.error

    @property
    def verdict(self) -> str:
        """BETTER, WORSE or UNCLEAR."""
        if abs(self.gain) <= 2 * self.standard_error:
            return UNCLEAR
        return BETTER if self.gain > 0 else WORSE

    def facts(self) -> dict[str, Any]:
        """Return the numbers, and the sentence that follows from them."""
        return {
            "compared with": self.other,
            "error": self.error,
            "its error": self.other_error,
            "difference": self.gain,
            "standard error": self.standard_error,
            "verdict": self.verdict,
            "sentence": self.sentence(),
        }

    def sentence(self) -> str:
        """Compare in words."""
        ours, theirs = (format_error(error, self.regression) for error in (self.error, self.other_error))
        if self.regression:
            amount = f"{abs(self.gain):.3g} ± {self.standard_error:.2g}"
            errors = f"a root mean squared error of {ours}, compared with {theirs}"
        else:
            amount = f"{100 * abs(self.gain):.1f} ± {100 * self.standard_error:.1f} points"
            errors = f"{ours} errors, compared with {theirs}"
        if self.verdict == UNCLEAR:
            return f"There is no clear difference between the model and {self.other} ({amount}): {errors}."
        return f"The model is {self.verdict} than {self.other} by {amount}: {errors}."


def format_error(error: float, regression: bool) -> str:
    """Return an error for readers: a root mean square as it is, a share of wrong classes in percent."""
    return f"{error:.4g}" if regression else f"{100 * error:.1f} %"


@dataclass(frozen=True, eq=False)
class Comparison:
    """The out-of-fold predictions of the model, and its differences to a plain SVM and to itself with less."""

    ours: OutOfFold
    plain: PairedDifference
    priors: list[PairedDifference]
    labels: PairedDifference


def compare(fit: Fit, examples: Examples, X: Vector, progress: Callable[[str], None]) -> Comparison:
    """Predict each labeled row by models that have not seen its target, with settings that have not either.

    `fit` is the model to keep, whose priors are left out one by one.
    """
    request, known = fit.request, np.flatnonzero(examples.labeled)
    without = _ablations(fit, not examples.labeled.all())
    y, regression = examples.y[known], request.regression
    classes = None if regression else np.array(list(examples.counts()), dtype=str)
    predicted = {name: np.empty_like(y) for name in (MODEL, HALF, *without)}
    second = np.full(len(y) if classes is None else (len(y), len(classes)), np.nan)
    folds = list(examples.folds(seed=1).split(known, y))
    for k, (train, test) in enumerate(folds):
        progress(f"comparing with a plain SVM, fold {k + 1} of {len(folds)}")
        held_out = X[known[test]]
        # Held-out rows stay without their targets, unless the table has no rows without a target.
        rows = known[train] if len(known) == len(X) else np.arange(len(X))
        part, points = examples.hidden(known[test]).take(rows), X[rows]
        again = Fit.of(request, points, part)
        order = np.random.default_rng(0).permutation(np.flatnonzero(part.labeled))
        every_other = order[np.argsort(part.y[order], kind="stable")][1::2]  # half of each class
        fewer = again.refit(points, part.hidden(every_other))
        predicted[MODEL][test], predicted[HALF][test] = again.model.predict(held_out), fewer.model.predict(held_out)
        if not regression:
            second[test] = again.model.predict_proba(held_out)
        elif again.model.solution_.source is not None:  # otherwise the deviations are unknown
            second[test] = deviations(again.model, held_out)
        for name, (other, labeled_only) in without.items():
            kept = part.labeled if labeled_only else np.ones(len(points), dtype=bool)
            predicted[name][test] = Fit.of(other, points[kept], part.take(kept)).model.predict(held_out)
    predicted[PLAIN] = plain_svm(X[known], y, regression, [test for _, test in folds])
    each = {name: OutOfFold(y, values, classes) for name, values in predicted.items()}
    known_deviation = classes is None and not np.isnan(second).any()
    ours = replace(
        each[MODEL], probabilities=None if classes is None else second, deviation=second if known_deviation else None
    )
    difference = {name: PairedDifference.between(ours, one, name) for name, one in each.items()}
    return Comparison(ours, difference[PLAIN], [difference[name] for name in without], difference[HALF])


def _ablations(fit: Fit, unlabeled: bool) -> dict[str, tuple[Request, bool]]:
    """Return the request without each prior, and whether only labeled rows are fitted, by what is left out."""
    found: dict[str, tuple[Request, bool]] = {}
    request = fit.request
    if request.invariance == AUTO:
        if unlabeled and fit.uses_unlabeled:
            found["one without the unlabeled rows"] = request, True
    elif fit.prior != NONE:
        found[f"one without the prior {fit.prior!r}"] = replace(request, invariance=NONE), False
    if request.signs:
        named = [f"--increasing {name!r}" for name in request.increasing]
        named += [f"--decreasing {name!r}" for name in request.decreasing]
        found[f"one without {' '.join(named)}"] = replace(request, signs={}), False
    return found


def plain_svm(X: Vector, y: Vector, regression: bool, folds: Sequence[Vector]) -> Vector:
    """Return the predictions of scikit-learn's SVM for each fold, tuned and trained without it.

    The C and gamma for fold k are those of the least mean error over the other folds j, each predicted without j and k.
    A model without j and k serves both folds.
    """
    size = (float(np.std(y)) or 1.0) if regression else 1.0
    svm = SVR(epsilon=0.1 * size) if regression else SVC()
    # LIBSVM would take millions of steps for large C and noisy targets
    svm.set_params(kernel="precomputed", max_iter=100_000)
    least, predicted = np.full(len(folds), np.inf), np.empty_like(y)
    median = rkhs.kernels.median_scale(X) or 1.0
    settings = [(0.5 / (scale * median) ** 2, size * C) for scale in PLAIN_SCALES for C in PLAIN_CS]
    chosen = [settings[0]] * len(folds)
    kernels = {gamma: rbf_kernel(X, gamma=gamma) for gamma, _ in settings}

    def predict(gamma: float, C: float, *out: int) -> list[Vector]:
        """Return the predictions for some folds by a model that has not seen them."""
        train = np.setdiff1d(np.arange(len(y)), np.concatenate([folds[k] for k in out]))
        svm.set_params(C=C).fit(kernels[gamma][np.ix_(train, train)], y[train])
        return [svm.predict(kernels[gamma][np.ix_(folds[k], train)]) for k in out]

    quiet = warnings.catch_warnings(action="ignore", category=ConvergenceWarning)
    with quiet, config_context(assume_finite=True, skip_parameter_validation=True):
        # for fold k the setting that minimizes the mean over j != k of the error on j of the model without j and k
        for setting in settings:
            errors = np.zeros(len(folds))
            for j, k in combinations(range(len(folds)), 2):
                for fold, other, found in zip((j, k), (k, j), predict(*setting, j, k), strict=True):
                    # the error of fold j by models without j and k, for the choice of k, and the other way around
                    wrong = (found - y[folds[fold]]) ** 2 if regression else found != y[folds[fold]]
                    errors[other] += np.mean(wrong)
            for one in np.flatnonzero(errors < least).tolist():
                least[one], chosen[one] = errors[one], setting
        for one, rows in enumerate(folds):
            (predicted[rows],) = predict(*chosen[one], one)
    return predicted
