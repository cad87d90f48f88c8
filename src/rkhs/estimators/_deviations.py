"""The factor on standard deviations of a model whose settings were chosen by the same rows: repeat the search on folds.

Left-out residuals of a model whose length scales were learned from all rows are too small, by a factor that neither
the number of rows nor of features tells.  So the whole search is repeated without a fifth of the targets, five times,
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
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Matrix, to_numpy
from rkhs._core.finite.monitor import Stopped
from rkhs._core.finite.solution import TIME_LIMIT, Posterior
from rkhs._core.progress import interrupts_raised, seconds_left, subtask, with_time_limit
from rkhs._core.warning import warn
from rkhs.estimators._data import Sample
from rkhs.estimators._folds import left_out_by_folds
from rkhs.functionals import Evaluation

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
