"""The terms of a problem: labels, and invariances at the points they are about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rkhs.estimators.options import INVARIANCE, as_loss
from rkhs.estimators.sample import Sample, Vector
from rkhs.finite.term import Term
from rkhs.functionals import Functional, GraphDifference
from rkhs.invariances import Invariance
from rkhs.losses import Loss


def invariance_terms(
    invariances: Sequence[Invariance], sample: Sample, nu: float, loss: Any, epsilon: float
) -> list[Term]:
    """nu * weight * sum_i loss(L_i(f); target) for each invariance; those that are about no point are left out."""
    default = as_loss(loss, INVARIANCE, "invariance_loss", epsilon)
    terms = []
    for one in invariances:
        points = sample if one.on == "all" else sample.take(sample.labelled == (one.on == "labelled"))
        if points.size == 0:
            continue
        functionals = one(points.X)
        own: Loss = default if one.loss is None else as_loss(one.loss, INVARIANCE, "The loss of an Invariance", epsilon)
        weight = nu * one.weight * copies(functionals, points.weight)
        if functionals.size and np.any(weight > 0):
            terms.append(Term(functionals, own, target=one.target, weight=weight))
    return terms


def copies(functionals: Functional, weight: Vector) -> Any:
    """How often each functional is meant: the weight of its point, or w_i w_j for an edge between two points.

    A family whose first axis is not that of the points cannot be attributed to them and counts once.
    """
    if np.all(weight == 1):
        return 1.0
    if isinstance(functionals, GraphDifference):
        return weight[functionals.edges[:, 0]] * weight[functionals.edges[:, 1]]
    if functionals.shape[0] == len(weight):
        return np.repeat(weight, functionals.size // len(weight))
    return 1.0
