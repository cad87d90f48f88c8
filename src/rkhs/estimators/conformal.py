"""Intervals and sets that hold the truth with a given probability, from labels left out (conformal prediction).

How badly is each label predicted without itself?  A new one is as badly predicted or less with probability

    coverage,   for scores up to the ceil((l + 1) coverage)-th smallest of l,

if points come independently from one source, up to what leaving one label out changes in f: this is the jackknife,
whose residuals are exact for squared losses, and one Newton step for other smooth ones (Barber, Candes, Ramdas and
Tibshirani 2021 on when it holds).  Settings that were chosen by the same labels make intervals somewhat too short.
"""

from __future__ import annotations

from math import ceil, inf
from numbers import Real
from typing import Any

import numpy as np

from rkhs.backend.arrays import to_numpy
from rkhs.functionals import Evaluation

Vector = np.ndarray[Any, Any]


def left_out_labels(machine: Any) -> tuple[Vector, Vector]:
    """What each label is predicted to be without itself, and the targets, (l,) or (l, classes)."""
    if machine.problem_ is None or machine.problem_.approximation is not None:
        raise ValueError(
            f"{type(machine).__name__} was learnt with an approximation, where labels cannot be left out: fit it "
            "without one, on some of the rows."
        )
    term = machine.problem_.terms[0]
    if not isinstance(term.functional, Evaluation):
        raise ValueError(
            f"{type(machine).__name__} was learnt from slopes alone: without targets no interval is known."
        )
    if not term.loss.smooth:
        raise ValueError(
            f'Leaving labels out needs a smooth loss, and this one is {term.loss!r}: use loss="squared", or another '
            "smooth one."
        )
    return to_numpy(machine.problem_.leave_out().predictions[0]), to_numpy(term.target)


def bound(scores: Vector, coverage: float) -> float:
    """The score that a new label does not exceed with the given probability; infinite where there are too few labels.

    Examples
    --------
    >>> bound(np.arange(1.0, 20.0), 0.9)
    18.0
    >>> bound(np.arange(1.0, 5.0), 0.9)
    inf
    """
    if not isinstance(coverage, Real) or not 0 < float(coverage) < 1:
        raise ValueError(f"coverage must be a number between 0 and 1, got {coverage!r}.")
    rank = ceil((len(scores) + 1) * float(coverage))
    return float(np.sort(scores)[rank - 1]) if rank <= len(scores) else inf


def class_scores(values: Vector) -> Vector:
    """(t, classes): by how much f of the best other class is above that of each class; from (t,) for two classes."""
    own = np.stack([-values, values], axis=1) if values.ndim == 1 else values
    best = np.argsort(own, axis=1)
    first, second = (np.take_along_axis(own, best[:, -k][:, None], axis=1) for k in (1, 2))
    others = np.where(np.arange(own.shape[1]) == best[:, -1:], second, first)
    return np.asarray(others - own)
