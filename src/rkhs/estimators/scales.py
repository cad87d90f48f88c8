"""Length scales that are learnt from labels, by the word that is given for them.

"evidence", "loo"   one for each feature, as by `Problem.tune`, the losses taken as squared ones
"cv"                the best of a few multiples of the median distance, of features as they are and divided by their
                    standard deviations, by the loss itself of labels that are left out, a fifth at a time
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from rkhs._backend.arrays import to_numpy
from rkhs._calculus.polynomials import Constant
from rkhs._finite.term import Term
from rkhs.estimators.folds import dealt
from rkhs.estimators.options import KERNELS, LEARNT, SCALED
from rkhs.estimators.refits import fold_values
from rkhs.estimators.sample import Sample
from rkhs.kernels import Kernel, learn
from rkhs.kernels.scale import median_scale
from rkhs.losses import Squared
from rkhs.problem import Problem

FOLDS = "cv"
WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the median distance
PARTS, MOST = 5, 1000  # folds, and labels that are in them


def learns_scale(machine: Any) -> bool:
    """Whether scales are learnt from labels."""
    return isinstance(machine.scale, str) and machine.scale in LEARNT


def check_named(machine: Any) -> None:
    """Refuse kernels whose scale is not ours to set."""
    if machine.kernel not in SCALED:
        raise ValueError(
            f"scale={machine.scale!r} is for kernels given by name that have one, {', '.join(SCALED)}, got "
            f"kernel={machine.kernel!r}: use Problem.tune, or a number."
        )


def tuned_kernel(machine: Any, data: Sequence[Term]) -> Kernel:
    """The kernel with a scale for each feature, by the criterion that `scale` names, from squared losses."""
    check_named(machine)
    terms = [Term(one.functional, Squared(), one.told, weight=learn() * to_numpy(one.weights())[:, 0]) for one in data]
    basis = Constant() if machine.fit_intercept else None
    problem = Problem(KERNELS[machine.kernel](learn(each=True)), terms, basis)
    tuned: Any = problem.tune(machine.scale, verbose=machine.verbose or None)
    return tuned.kernel


def kernel_by_folds(machine: Any, sample: Sample, problem_of: Callable[[Sample, Kernel], Problem]) -> Kernel:
    """The kernel whose scale has the least loss of labels that are left out."""
    check_named(machine)
    if sample.slopes is not None:
        raise ValueError(
            'scale="cv" leaves labels out, and slopes that were measured at their points would tell them: use '
            'scale="loo", which leaves whole points out.'
        )
    some = _some(sample)
    kernels = list(_candidates(machine, some))
    losses = [_loss(problem_of(some, kernel)) for kernel in kernels]
    return kernels[int(np.argmin(losses))]


def _some(sample: Sample) -> Sample:
    """Return at most `MOST` labelled rows, and as many others, none of them merged: each may be left out alone."""
    sample = sample.apart()
    random = np.random.default_rng(0)
    kinds = [np.flatnonzero(sample.labelled), np.flatnonzero(~sample.labelled)]
    some = [rows if len(rows) <= MOST else random.choice(rows, MOST, replace=False) for rows in kinds]
    return sample.take(np.sort(np.concatenate(some)))


def _candidates(machine: Any, sample: Sample) -> Iterator[Kernel]:
    """All features with one scale, and each in units of its deviation."""
    X = to_numpy(sample.X).astype(np.float64)
    make: Any = KERNELS[machine.kernel]
    distance = make(1.0).distance
    spread = X.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    for units in (None, spread) if X.shape[1] > 1 else (None,):
        median = median_scale(X if units is None else X / units, distance=distance)
        for width in WIDTHS:
            yield make(width * median if units is None else tuple((width * median * units).tolist()))


def _loss(problem: Problem) -> float:
    """The mean loss, by weight, of the labels that are left out."""
    term = problem.terms[0]
    count = np.ones(term.size, dtype=int)
    left_out = dealt(KFold(min(PARTS, term.size), shuffle=True, random_state=0), count)
    values, rows, _ = fold_values(problem, left_out, count, 'Scales by "cv"')
    target, weight = to_numpy(term.target)[rows], to_numpy(term.weights())[rows, 0]
    losses = to_numpy(term.loss.value(values, target)).reshape(len(rows), -1).sum(axis=1)
    found = float(np.average(losses, weights=weight))
    return found if np.isfinite(found) else np.inf
