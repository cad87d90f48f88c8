"""The terms of a problem: labels, and invariances at the points they are about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rkhs._backend.arrays import Vector
from rkhs._finite.term import Term
from rkhs.estimators.options import INVARIANCE, as_loss
from rkhs.estimators.sample import Sample
from rkhs.estimators.units import Units
from rkhs.functionals import Functional, GraphDifference
from rkhs.invariances import Invariance
from rkhs.invariances.base import as_invariances


def invariance_terms(
    invariances: Sequence[Invariance], sample: Sample, units: Units, nu: float, loss: Any, epsilon: float
) -> list[Term]:
    """The terms of all invariances; those that are about no point are left out."""
    places = ((one, about(one, sample)) for one in invariances)
    terms = [invariance_term(one, points, units, nu, loss, epsilon) for one, points in places if points.size]
    return [term for term in terms if term.size and np.any(np.asarray(term.weight) > 0)]


def keeps_rows(machine: Any) -> bool:
    """Return whether an invariance is about the rows of X in their order, as a graph is that the user has made."""
    known = getattr(machine, "invariance", None)
    if isinstance(known, str):
        return False
    return any(getattr(one.maker, "graph", None) is not None for one in as_invariances(known))


def about(one: Invariance, sample: Sample) -> Sample:
    """The points that an invariance is about."""
    return sample if one.on == "all" else sample.take(sample.labelled == (one.on == "labelled"))


def invariance_term(
    one: Invariance,
    points: Sample,
    units: Units,
    nu: float,
    loss: Any,
    epsilon: float,
    size: float | None = None,
    share: float = 1.0,
) -> Term:
    """nu * weight * mean_i sum_j loss(L_ij(f); target) at points, without units; with `loss` if it has none of its own.

    Of one block of many the `size` of functionals is known, and the `share` of the block in the mean.
    """
    given, name = (loss, "invariance_loss") if one.loss is None else (one.loss, "The loss of an Invariance")
    functionals = one(points.X)
    times = 1.0 if one.once else copies(functionals, points.weight)
    size = size_of(one, functionals, units, times) if size is None else size
    own = as_loss(given, INVARIANCE, name, epsilon)
    return units.known(functionals, own, one.target, nu * one.weight, times, size, share)


def size_of(one: Invariance, functionals: Functional, units: Units, times: Any) -> float:
    """s; an invariance that looks at all points together has said it: squares on white noise have the sum 1."""
    if one.once:
        return float(max(functionals.size, 1) ** -0.5)
    return units.size(functionals, times) if functionals.size else 1.0


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
