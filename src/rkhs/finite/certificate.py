"""The certificate: how far an iterate is from the minimum, at most.

Any alpha with Q'alpha = 0 inside the losses' box bounds the minimum from below, any iterate from above.  Two
alphas come for nothing with an iterate: minus the slopes of the losses at its image (Fenchel and Young's choice,
which makes the gap 1/2 |grad J|^2 for smooth losses), and its own coefficients a (right for solvers of the dual).
A solver that knows a better one leaves it in the iterate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf

import numpy as np

from rkhs.backend.arrays import Array, like, namespace
from rkhs.finite.system import Iterate, Rows, System
from rkhs.linalg.projection import project
from rkhs.losses.base import between

FEASIBLE = 1e3  # units of rounding by which Q'alpha = 0 may be violated
RESOLVED = 8  # units of rounding, of the sum of a solution's value
OUTSIDE = 1e-6  # share of a by which Q'a = 0 may be violated


@dataclass(frozen=True, eq=False)
class Certificate:
    """Primal and dual values, one per output, and the `System.rounding` of each."""

    primal: Array
    dual: Array
    rounding: tuple[float, ...]

    @property
    def gap(self) -> float:
        """primal - dual, summed over the outputs."""
        return max(0.0, float(namespace(self.primal).sum(self.primal - self.dual)))

    @property
    def relative(self) -> float:
        """The largest gap of any output, relative to its value."""
        triples = zip(self.primal, self.dual, self.rounding, strict=True)
        return max(relative_gap(float(p), float(d), rounding) for p, d, rounding in triples)

    @property
    def resolution(self) -> float:
        """The share of a value to which it rounds: relative gaps are known no better."""
        return RESOLVED * float(namespace(self.primal).finfo(self.primal.dtype).eps)


def relative_gap(primal: float, dual: float, rounding: float = 0.0) -> float:
    """(primal - dual) / max(|primal|, |dual|), and 0 where both are lost in rounding (`System.rounding`)."""
    size = max(abs(primal), abs(dual))
    if size <= rounding:
        return 0.0
    return max(primal - dual, 0.0) / size if size < inf else inf


def certify(system: System, iterate: Iterate, tol: float = 0.0) -> Certificate:
    """The certificate of an iterate: its bounds where they have been checked, as good as tol asks; otherwise from
    scratch, a Gram product for f, and one for each alpha that is tried.
    """
    if iterate.bounds is not None:
        known = Certificate(*iterate.bounds, system.rounding)
        resolved = bool(namespace(known.dual).all(known.dual <= known.primal))  # not lost in rounding
        if known.relative <= tol and resolved:
            return known
    image = system.exact @ iterate.a
    u = image + system.Q @ iterate.basis
    primal = upper_bound(system, iterate.a, image, u)
    certificate = Certificate(primal, namespace(primal).full_like(primal, -inf), system.rounding)
    low, high = system.box
    for candidate in _candidates(system, iterate, u):
        alpha = project(candidate, low, high, system.Q)
        dual = namespace(primal).maximum(certificate.dual, lower_bound(system, alpha, system.exact @ alpha))
        certificate = replace(certificate, dual=dual)
        if certificate.relative <= tol:
            break
    return certificate


def _candidates(system: System, iterate: Iterate, u: Array) -> Iterator[Array]:
    """Points of the dual, or near it, the most promising first."""
    if iterate.alpha is not None:
        yield iterate.alpha
    yield -system.slope(u)
    yield iterate.a


def bounds(system: System, a: Array, image: Array, u: Array, g: Array, product: Array) -> tuple[float, float]:
    """Primal and dual value of one output at a point whose gradient g = a - alpha and its image are known.

    For smooth losses alpha = -w loss'(u), and the gap is 1/2 g'Gg.  For others alpha comes from a smoothed problem,
    and the dual value is computed.  All arrays are (N, 1); Q'alpha = 0 is the caller's promise.
    """
    xp = namespace(a)
    primal = float((xp.vecdot(a, image, axis=0) / 2 + system.risk(u))[0])
    if system.smooth:
        return primal, primal - max(float(xp.vecdot(g, product, axis=0)[0]), 0.0) / 2
    return primal, float(dual_value(system, a - g, image - product)[0])


def dual_value(system: System, alpha: Array, image: Array) -> Array:
    """The dual objective (c,) of a feasible alpha with its image G alpha."""
    return _dual_value(system, alpha, namespace(alpha).vecdot(alpha, image, axis=0))


def _dual_value(system: System, alpha: Array, energy: Array) -> Array:
    """The same, from alpha'G alpha (c,)."""
    return -energy / 2 - system.conjugate(alpha)


def upper_bound(system: System, a: Array, image: Array, u: Array) -> Array:
    """J (c,), infinity where f is not in the space of a conditionally positive definite kernel: Q'a = 0 fails.

    An a so small that its norm is lost in the rounding of J counts as 0, which is in the space.
    """
    xp = namespace(a)
    value = xp.clip(xp.vecdot(a, image, axis=0), 0, None) / 2 + system.risk(u)
    if not system.kernel.order:
        return value
    size = xp.linalg.vector_norm(a, axis=0)
    outside = xp.linalg.vector_norm(system.Q.T @ a, axis=0) > OUTSIDE * size
    matters = size * xp.linalg.vector_norm(image, axis=0) > like(np.asarray(system.rounding), value)
    return xp.where(outside & matters, xp.full_like(value, inf), value)


def lower_bound(system: System, alpha: Array, image: Array) -> Array:
    """The dual objective (c,) of an alpha in the box, minus infinity where Q'alpha = 0 does not hold."""
    return lower_bound_of(system, alpha, namespace(alpha).vecdot(alpha, image, axis=0))


def lower_bound_of(system: System, alpha: Array, energy: Array) -> Array:
    """The same, from alpha'G alpha (c,)."""
    value = _dual_value(system, alpha, energy)
    return namespace(alpha).where(_balanced(system, alpha), value, namespace(alpha).full_like(value, -inf))


def feasible(system: System, alpha: Array) -> Array:
    """A point of the dual near alpha: alpha within its bounds where Q'alpha = 0 holds there, or the nearest."""
    xp = namespace(alpha)
    parts = [alpha[t.rows] if _free(t) else between(alpha[t.rows], *t.box) for t in system.terms]
    inside = xp.concat(parts, axis=0)
    return inside if bool(xp.all(_balanced(system, inside))) else project(alpha, *system.box, system.Q)


def _free(t: Rows) -> bool:
    """Whether there are no bounds on the alpha of a term."""
    return t.loss.quadratic and bool(namespace(t.weight).all(t.weight > 0))


def _balanced(system: System, alpha: Array) -> Array:
    """For each output whether Q'alpha = 0, up to rounding."""
    xp = namespace(alpha)
    rounding = FEASIBLE * float(xp.finfo(alpha.dtype).eps) * xp.linalg.vector_norm(alpha, axis=0)
    return xp.linalg.vector_norm(system.Q.T @ alpha, axis=0) <= rounding
