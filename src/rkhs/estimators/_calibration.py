"""Calibration by left-out rows: probabilities of classes, and standard deviations.

*Probabilities* are a softmax of scores, whose slope is fitted to left-out labels.

The scores g_c are the decision values f_c, one for each class, or those of a linear discriminant of them.  With labels
at l points, of c classes, and a slope s > 0 (Platt scaling, or temperature scaling with 1 / s),

    P(c | x) = e + (1 - c e) exp(s g_c(x)) / sum_b exp(s g_b(x)),        e = 1 / (10 l)

For two classes the softmax is 1 / (1 + exp(-s f(x))).  There is no offset, so that f = 0 has equal probabilities and
the most probable class is the predicted one.  The targets of the likelihood are Platt's, slightly less than certain,
which matters if the classes are separated.  No probability is below e: l labels cannot show that something that
happens once in 10 l cases never does.  It bounds what a label may cost in the likelihood, so that a few labels at
which the model is wrong and sure do not make all others unsure.

A discriminant is fitted to left-out scores, and would be too sure of these.  The slope is that of the scores of each
fold by a discriminant that is fitted to the other folds.

*Deviations* have a factor if the settings of the model were chosen by the same rows.

Left-out residuals of a model whose length scales were learned from all rows are too small, by a factor that neither
the number of rows nor of features determines.  The whole search is repeated without a fifth of the targets, five times,
and deviations are multiplied by

    max(1, z / 1.96),        z the 95 % quantile of |y_i - f(x_i)| / s(x_i) at the targets that were left out

with f and s of the model that has not seen target i.  Copies are left out together (`Sample.groups`).  The factor is
not below one, since models of four fifths of the rows say little about deviations that are too large.  It is the
quantile of the residuals, and not the one of a new residual, as in conformal prediction: with few rows that one covers
too much.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import softmax

from rkhs._core.backend.arrays import Matrix, Vector, to_numpy
from rkhs._core.finite.function import Function
from rkhs._core.finite.monitor import Stopped
from rkhs._core.finite.solution import TIME_LIMIT, Posterior
from rkhs._core.progress import interrupts_raised, seconds_left, subtask, with_time_limit
from rkhs.estimators._data import Sample
from rkhs.estimators._folds import HeldOutLabels, fold_values, left_out_by_folds
from rkhs.estimators.search._decide import Discriminant
from rkhs.exceptions import warn
from rkhs.functionals import Evaluation, Functional

TINY = 1e-300  # a positive number in place of probabilities of zero


@dataclass(eq=False)
class Calibration:
    """The probabilities of a classifier; the slope is fitted to held-out values of f, or else to those at `points`."""

    function: Function
    points: Functional
    codes: Vector  # (l,) the class index of each point
    weight: Vector  # (l,)
    held_out: HeldOutLabels | None = None
    discriminant: Discriminant | None = None

    def __call__(self, scores: Matrix) -> Matrix:
        """Return the probabilities (t, classes) of scores (t,) or (t, classes)."""
        return smoothed_softmax(self.slope * per_class(scores), self.least)

    @property
    def least(self) -> float:
        """The smallest probability of a class."""
        held_out = self.held_out
        return 0.1 / len(self.codes if held_out is None else np.unique(held_out.groups))

    @cached_property
    def slope(self) -> float:
        if self.discriminant is not None and not self.discriminant.fitted:
            return 1.0
        values, rows = self._held_out_values()
        scores, codes = per_class(values), self.codes[rows]
        if self.discriminant is not None:
            enough = Discriminant.applies(scores, codes)
            scores = Discriminant.cross_validated(scores, codes) if enough else self.discriminant(scores)
        return fitted_slope(scores, codes, self.weight[rows] / self.weight[rows].mean(), self.least)

    def _held_out_values(self) -> tuple[Vector, Vector]:
        """Return values of f at labels, and the index of each label.

        The values come from stratified folds, unless a class has a single row or nothing can be held out.
        """
        held_out = self.held_out
        if held_out is not None and held_out.sample is not None:
            rows, values = held_out.sample
            return values, rows
        if held_out is not None:
            size = len(self.codes) // held_out.copies
            left_out = left_out_by_folds(5, held_out.groups[:size], self.codes[:size])
            if left_out.shape[1] > 1:
                return fold_values(held_out.problem, np.tile(left_out, (held_out.copies, 1)), "Probabilities")
        return to_numpy(self.points(self.function)), np.arange(len(self.codes))


def smoothed_softmax(logits: Matrix, least: float) -> Matrix:
    """Return the probabilities (t, classes) of logits, each at least `least`."""
    return np.asarray(least + (1 - logits.shape[1] * least) * softmax(logits, axis=1))


def fitted_slope(values: Matrix, codes: Vector, weight: Vector, least: float) -> float:
    """Return the slope s of maximum likelihood, with Platt's target (l_c + 1) / (l_c + 2) for a class of l_c points."""
    count = values.shape[1]
    # P(c | x_i) should be (l_c + 1) / (l_c + 2), and the rest the same for the other classes (Platt 1999)
    totals = np.bincount(codes, weights=weight, minlength=count)
    certainty = ((totals + 1) / (totals + 2))[codes]
    others = (1 - certainty) / (count - 1)
    targets = np.where(codes[:, None] == np.arange(count), certainty[:, None], others[:, None])
    size = float(np.abs(values).max(initial=0.0)) or 1.0

    def cost(log_slope: float) -> float:
        # -sum_i w_i sum_c target_ic log P(c | x_i)
        probabilities = smoothed_softmax(np.exp(log_slope) / size * values, max(least, TINY))
        return -float(weight @ np.sum(targets * np.log(probabilities), axis=1))

    slopes = np.log(1e4) * np.linspace(-1, 1, 81)  # the cost may have several minima
    k = int(np.argmin([cost(slope) for slope in slopes[1:-1]]))
    result = minimize_scalar(cost, bounds=slopes[[k, k + 2]], method="bounded", options={"xatol": 1e-9})
    return float(np.exp(result.x)) / size


def per_class(values: Vector) -> Matrix:
    """Return one score per class (t, classes); for two classes, f (t,) is the difference of -f/2 and f/2."""
    return values if values.ndim == 2 else np.column_stack([-values / 2, values / 2])


FOLDS = 5
FEWEST, MOST = 20, 400  # targets; of fewer there is no quantile, and of more left-out residuals are large enough
MOST_POINTS = 2000  # with those without a target, which the searches use as well
COVERED, NORMAL = 0.95, 1.959964  # deviations that a normal variable exceeds with probability 1 - COVERED


def is_repeated(sample: Sample) -> bool:
    """Return whether a sample is large enough for a factor, and small enough for a search to be repeated."""
    return FEWEST <= len(np.unique(sample.groups[sample.labeled])) <= MOST and sample.size <= MOST_POINTS


def stretch(sample: Sample, learned: Callable[[Sample], tuple[Posterior, float]], name: str) -> float | Matrix | None:
    """Return the factor on the deviations, or one for each output; None, with a warning, if no time is left.

    `learned` repeats the search for other rows; it returns the posterior and the weight of a target.  It may take half
    of the remaining time.
    """
    try:
        with interrupts_raised(), with_time_limit(seconds_left() / 2), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of the model itself were given
            ratios, weights = _standardized(sample, learned)
    except Stopped:
        warn(
            f"{name} had too little time to repeat its search without some of the targets: standard deviations are "
            "those of the chosen settings, which may be too small. Set a larger time_limit by set_params."
        )
        return None
    # max(1, z / 1.96), z the 95 % quantile of |y_i - f(x_i)| / s(x_i)
    options: dict[str, Any] = {"weights": weights, "method": "inverted_cdf"}
    factors = [max(1.0, float(np.quantile(column, COVERED, **options)) / NORMAL) for column in ratios.T]
    return factors[0] if sample.y.ndim == 1 else np.array(factors)


def _standardized(sample: Sample, learned: Callable[[Sample], tuple[Posterior, float]]) -> tuple[Matrix, Matrix]:
    """Return the ratios (l, outputs) of left-out residuals to their deviations, and the weights (l,) of targets."""
    rows = np.flatnonzero(sample.labeled)
    ratios, weights = [], []
    for k, out in enumerate(left_out_by_folds(FOLDS, sample.groups[rows]).T):
        kept = sample.take(np.setdiff1d(np.arange(sample.size), rows[out]))
        part = sample.take(rows[out])
        L = Evaluation(part.X)
        try:
            with subtask(k, FOLDS):
                posterior, weight = learned(kept)
            residuals, s = np.abs(to_numpy(posterior.mean(L)) - part.y), to_numpy(posterior.std(L, weight))
        except Exception:  # a search that ends early may have no result
            if seconds_left() > 0:
                raise
        if seconds_left() <= 0:
            raise Stopped(TIME_LIMIT)
        ratios.append(np.where(residuals > 0, residuals / np.maximum(s, np.finfo(float).tiny), 0.0))
        weights.append(part.weight)
    return np.concatenate(ratios).reshape(len(rows), -1), np.concatenate(weights)
