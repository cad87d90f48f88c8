"""The certificate: how far an iterate is from the minimum, at most.

Any alpha with Q'alpha = 0 inside the losses' box bounds the minimum from below, any iterate from above.  Their distance
is a sum of terms that are never negative (Fenchel and Young), so that nothing cancels in it:

    gap = 1/2 |sum_i (a_i - alpha_i) z_i|^2 + sum_i w_i excess_i,    excess = loss(u) + loss*(s) - s u,  s = -alpha / w

Two alphas come for nothing with an iterate: minus the slopes of the losses at its image, which leaves the first part
alone for smooth losses, and its own coefficients a, which leave the second.  A solver that knows a better one leaves it
in the iterate.

Rounding is stated, not hidden: u is known up to e_i = UNITS eps (sqrt(sum_j (g_ij a_j)^2) + sum_k |q_ik c_k|), errors
of different entries of G being independent, and the gap at the worst u within that is larger by `rounding`.  Here g_ij
and q_ik are the sizes of the numbers that G_ij and Q_ik were computed from, not what is left of them (`Geometry.sizes`,
`Basis.sizes`): the slope of a parabola is zero at its top, and as wrong as the slopes that cancel there.  An error of G
moves J and its lower bound together, by `shift`, to the first order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from rkhs._backend.arrays import Array, Vector, inner, like, namespace, taken, to_numpy
from rkhs._finite.problem import FiniteProblem, Iterate, LossBlock
from rkhs._linalg.projection import project
from rkhs.losses._base import between

CONVERGED = "converged"
UNITS = 4  # of rounding, for an entry of G and its share of a sum
FEASIBLE = 1e3  # units of rounding by which Q'alpha = 0 may be violated
FEW = 0.6  # of the columns of G, or of the time of a product, under which a part of it is worth the trouble
PARTS = ("primal", "gaps", "rounding", "shift", "nothing")
ALL = 8  # times its stated rounding, up to which a J may be nothing else
NOTHING = 1e3  # units of rounding of J(0), under which a J that is all rounding counts as zero


@dataclass(frozen=True, eq=False)
class Certificate:
    """J and the duality gap of each output (c,), by how much rounding may have made that gap too small, and moved J.

    `nothing` (c,) is the J that is zero compared with J(0) if it is all rounding; a unit of rounding of that is zero
    anyway.

    Examples
    --------
    >>> import rkhs
    >>> term = rkhs.Term(rkhs.Evaluation([[0.0], [1.0]]), rkhs.Hinge(), target=[-1.0, 1.0])
    >>> certificate = rkhs.Problem(rkhs.Gaussian(), [term]).solve().certificate
    >>> bool(certificate.gap < 1e-4)
    True
    """

    primal: Vector
    gaps: Vector
    rounding: Vector
    shift: Vector
    nothing: Vector
    eps: float

    @classmethod
    def joined(cls, outputs: Sequence[Certificate]) -> Certificate:
        """Join the certificates of several outputs."""
        columns = {name: np.concatenate([getattr(one, name) for one in outputs]) for name in PARTS}
        return cls(**columns, eps=outputs[0].eps)

    def split(self) -> list[Certificate]:
        """Return the certificate of each output."""
        parts = range(len(self.primal))
        return [Certificate(**{n: getattr(self, n)[k : k + 1] for n in PARTS}, eps=self.eps) for k in parts]

    @property
    def dual(self) -> Vector:
        """Return lower bounds on the minima, (c,)."""
        return np.where(np.isfinite(self.gaps), self.primal, 0.0) - self.gaps

    @property
    def gap(self) -> float:
        """Return the sum of the gaps of all outputs."""
        return float(np.sum(self.gaps))

    @property
    def relative(self) -> float:
        """Return the largest gap of any output, relative to its value; 0 where that is nothing but rounding."""
        return float(np.max(self._share(self.gaps), initial=0.0))

    @property
    def uncertain(self) -> float:
        """Return the largest `rounding` of any output, relative to its value."""
        return float(np.max(self._share(self.rounding), initial=0.0))

    def within(self, tol: float) -> bool:
        """Return whether the relative gap is at most tol, whatever rounding has done."""
        return bool(np.all(self.done(tol)))

    def done(self, tol: float) -> Vector:
        """Return for each output (c,) whether its relative gap is at most tol, whatever rounding has done."""
        # The value of a solution is a sum, right to 8 units of rounding.
        return np.asarray(self._share(self.gaps + self.rounding) <= tol + 8 * self.eps)

    def status(self, tol: float, stopped: str) -> str:
        """Say of a solution that it converged, what stopped the solver, or what rounding leaves."""
        if self.within(tol):
            return CONVERGED
        if stopped != CONVERGED:
            return stopped
        return f"rounding leaves {self.uncertain:.0e}" if self.relative <= tol else "no further progress"

    def _share(self, part: Vector) -> Vector:
        """Return a part relative to each value, 0 where the value is lost in rounding."""
        size = np.maximum(np.abs(self.primal), np.abs(self.dual))
        lost = (size <= self.rounding) & (self.rounding <= self.nothing) | (size <= self.eps * self.nothing)
        lost &= np.isfinite(size)  # an overflow is not rounding
        with np.errstate(invalid="ignore"):
            share = np.where(np.isfinite(size), part / np.where(lost | ~np.isfinite(size), 1.0, size), inf)
        return np.where(lost, 0.0, share)


def relative_gap(primal: float, dual: float, rounding: float = 0.0) -> float:
    """(primal - dual) / max(|primal|, |dual|) as solvers see it; 0 where both are lost (`FiniteProblem.rounding`)."""
    size = max(abs(primal), abs(dual))
    if size <= rounding:
        return 0.0
    return max(primal - dual, 0.0) / size if size < inf else inf


def certify(system: FiniteProblem, iterate: Iterate, tol: float = 0.0, quick: bool = False) -> Certificate:
    """The certificate of an iterate from scratch: a Gram product for f, and one for each alpha that is tried.

    All are tried until the gap is within tol, one of them if it has to be `quick`: for f = 0, of which little can be
    said, the one that takes no product.
    """
    return certificate_of(system, iterate, _image(system, iterate.a), tol, quick=quick)


def _image(system: FiniteProblem, a: Array) -> Array:
    """Ga, by the columns of G that count where these are few: many coefficients of a support vector machine are 0."""
    counts = np.flatnonzero(to_numpy(namespace(a).any(a != 0, axis=1)))
    if len(counts) == 0:
        return system.zeros(int(a.shape[1]))
    if len(counts) <= FEW * system.size and not system.exact.stored:
        columns = system.exact.part(slice(None), counts)
        if columns.core_seconds <= FEW * system.exact.core_seconds:
            return columns @ taken(a, counts)
    return system.exact @ a


def certify_in_haste(cells: Sequence[tuple[FiniteProblem, Iterate]]) -> list[Certificate]:
    """The quick certificates of iterates of systems with one Gram matrix: two products for all of them together."""
    if not cells:
        return []
    xp, exact = namespace(cells[0][1].a), cells[0][0].exact
    ends = np.cumsum([iterate.a.shape[1] for _, iterate in cells])

    def images(columns: list[Array]) -> list[Array]:
        joined = xp.concat(columns, axis=1)
        seen = xp.any(joined != 0, axis=0)
        found = 0 * joined
        if bool(xp.any(seen)):
            found[:, seen] = exact @ joined[:, seen]
        return [found[:, end - own.shape[1] : end] for own, end in zip(columns, ends.tolist(), strict=True)]

    bounds, alphas = [], []
    for (system, iterate), image in zip(cells, images([iterate.a for _, iterate in cells]), strict=True):
        u = image + system.Q @ iterate.basis
        bounds.append(_Bounds(system, iterate, image, u))
        alphas.append(feasible(system, next(_candidates(iterate, system, u, quick=True))))
    steps = [own.a - alpha for own, alpha in zip(bounds, alphas, strict=True)]
    for own, alpha, step, image in zip(bounds, alphas, steps, images(steps), strict=True):
        own.try_alpha(alpha, inner(step, image, axis=0))
    return [own.certificate for own in bounds]


def certificate_of(
    system: FiniteProblem,
    iterate: Iterate,
    image: Array,
    tol: float = 0.0,
    energy: Array | None = None,
    quick: bool = False,
) -> Certificate:
    """The same from an image Ga that is right, with |a - alpha|^2 (c,) of its own alpha if that is known as well."""
    u = image + system.Q @ iterate.basis
    found = _Bounds(system, iterate, image, u)
    for candidate in _candidates(iterate, system, u, quick):
        alpha = feasible(system, candidate)
        found.try_alpha(alpha, energy if alpha is iterate.alpha else None)
        certificate = found.certificate
        if certificate.within(tol) or quick or energy is not None:
            break
    return certificate


def _candidates(iterate: Iterate, system: FiniteProblem, u: Array, quick: bool) -> Iterator[Array]:
    """Points of the dual, or near it, the most promising first."""
    if iterate.alpha is not None:
        yield iterate.alpha
    if quick and not bool(namespace(iterate.a).any(iterate.a != 0)):
        yield iterate.a
    yield -system.gradient(u)
    yield iterate.a


class _Bounds:
    """J of an iterate and the smallest gap of any alpha so far, output by output."""

    def __init__(self, system: FiniteProblem, iterate: Iterate, image: Array, u: Array) -> None:
        self.system, self.a, self.u = system, iterate.a, u
        xp = namespace(u)
        self.eps = float(xp.finfo(u.dtype).eps)
        self.basis = iterate.basis
        sizes = system.geometry.sizes
        own = sizes * xp.linalg.vector_norm(sizes * iterate.a, axis=0)  # (N, c)
        free = system.geometry.basis_sizes @ abs(iterate.basis)
        self.error = UNITS * self.eps * (own + free)
        self.primal = _double(upper_bound(system, iterate.a, image, u))
        force = system.gradient(u) + iterate.a / 2
        shift = xp.linalg.vector_norm(sizes * iterate.a, axis=0) * xp.linalg.vector_norm(sizes * force, axis=0)
        shift = shift + xp.linalg.vector_norm(free * force, axis=0)
        below = xp.clip(-xp.vecdot(iterate.a, image, axis=0), 0, None) / 2  # a norm below zero, which counts as zero
        self.shift = UNITS * self.eps * _double(shift) + _double(below)
        if not system.definite:  # what of a is not in the space is not in f
            outside = system.Q @ (system.Q.T @ iterate.a)
            lost = xp.linalg.vector_norm(sizes * outside, axis=0)
            self.error = self.error + sizes * lost
            self.shift += _double(lost * xp.linalg.vector_norm(sizes * force, axis=0))
        self.gaps, self.rounding = np.full(len(self.primal), inf), np.zeros(len(self.primal))

    @property
    def certificate(self) -> Certificate:
        nothing = NOTHING * self.eps * self.system.at_zero
        lost = (self.primal <= ALL * self.rounding) & (self.primal <= nothing)  # then all of it is called rounding
        rounding = np.where(lost, np.maximum(self.rounding, self.primal + self.shift), self.rounding)
        return Certificate(self.primal, self.gaps, rounding, self.shift, nothing, self.eps)

    def try_alpha(self, alpha: Array, energy: Array | None) -> None:
        """The gap between the iterate and alpha, from |a - alpha|^2 where that is known."""
        xp, system = namespace(alpha), self.system
        g = self.a - alpha
        if energy is None:
            energy = inner(g, system.exact @ g, axis=0) if bool(xp.any(g != 0)) else xp.sum(g, axis=0)
        sizes = system.geometry.sizes
        rounding = UNITS * self.eps * _double(xp.sum((sizes * g) ** 2, axis=0))
        unbalanced = xp.linalg.vector_norm(system.Q.T @ alpha, axis=0)
        rounding += _double(unbalanced * xp.linalg.vector_norm(self.basis, axis=0))
        gaps = np.clip(_double(energy), 0.0, None) / 2
        for t in system.terms:
            own, more = excess(t, self.u[t.rows], alpha[t.rows], self.error[t.rows])
            gaps += own
            rounding += more
        gaps = np.where(np.isfinite(self.primal) & _double(_balanced(system, alpha)).astype(bool), gaps, inf)
        better = gaps + rounding < self.gaps + self.rounding
        self.gaps, self.rounding = np.where(better, gaps, self.gaps), np.where(better, rounding, self.rounding)


def excess(t: LossBlock, u: Array, alpha: Array, error: Array) -> tuple[Vector, Vector]:
    """sum_i w_i excess_i (c,), and by how much it grows where each u_i is the worst within its error."""
    xp = namespace(u)
    s = t.dual_slope(alpha)
    here = t.loss.excess(u, t.target, s)
    worst = xp.maximum(t.loss.excess(u + error, t.target, s), t.loss.excess(u - error, t.target, s))
    more = xp.clip(worst - here, 0, None)
    return _double(xp.sum(t.weight * here, axis=0)), _double(xp.sum(t.weight * more, axis=0))


def _double(values: Array) -> Vector:
    return to_numpy(values).astype(np.float64)


# What solvers know of their own bounds.


def bounds(system: FiniteProblem, a: Array, image: Array, u: Array, g: Array, product: Array) -> tuple[float, float]:
    """Primal and dual value of one output at a point whose gradient g = a - alpha and its image are known.

    For smooth losses alpha = -w loss'(u), and the gap is 1/2 g'Gg.  For others alpha comes from a smoothed problem,
    and the dual value is computed.  All arrays are (N, 1); Q'alpha = 0 is the caller's promise.
    """
    xp = namespace(a)
    primal = float((xp.vecdot(a, image, axis=0) / 2 + system.loss(u))[0])
    if system.smooth:
        return primal, primal - max(float(xp.vecdot(g, product, axis=0)[0]), 0.0) / 2
    return primal, float(dual_value(system, a - g, image - product)[0])


def dual_value(system: FiniteProblem, alpha: Array, image: Array) -> Array:
    """The dual objective (c,) of a feasible alpha with its image G alpha."""
    return -namespace(alpha).vecdot(alpha, image, axis=0) / 2 - system.conjugate(alpha)


def upper_bound(system: FiniteProblem, a: Array, image: Array, u: Array) -> Array:
    """J (c,), infinity where f is not in the space of a conditionally positive definite kernel: Q'a = 0 fails.

    An a so small that its norm is lost in the rounding of J counts as 0, which is in the space.
    """
    xp = namespace(a)
    value = xp.clip(xp.vecdot(a, image, axis=0), 0, None) / 2 + system.loss(u)
    if system.definite:
        return value
    size = xp.linalg.vector_norm(a, axis=0)
    outside = xp.linalg.vector_norm(system.Q.T @ a, axis=0) > 1e-6 * size
    matters = size * xp.linalg.vector_norm(image, axis=0) > like(np.asarray(system.rounding), value)
    return xp.where(outside & matters, xp.full_like(value, inf), value)


def lower_bound(system: FiniteProblem, alpha: Array, image: Array) -> Array:
    """The dual objective (c,) of an alpha in the box, minus infinity where Q'alpha = 0 does not hold."""
    value = dual_value(system, alpha, image)
    return namespace(alpha).where(_balanced(system, alpha), value, namespace(alpha).full_like(value, -inf))


def feasible(system: FiniteProblem, alpha: Array) -> Array:
    """A point of the dual near alpha: alpha itself where it is one, or the nearest."""
    xp = namespace(alpha)
    parts = [alpha[t.rows] if _free(t) else between(alpha[t.rows], *t.box) for t in system.terms]
    inside = xp.concat(parts, axis=0)
    if not bool(xp.all(_balanced(system, inside))):
        return project(alpha, *system.box, system.Q)
    return alpha if bool(xp.all(inside == alpha)) else inside


def _free(t: LossBlock) -> bool:
    """Whether there are no bounds on the alpha of a term."""
    return t.loss.quadratic and bool(namespace(t.weight).all(t.weight > 0))


def _balanced(system: FiniteProblem, alpha: Array) -> Array:
    """For each output whether Q'alpha = 0, up to rounding."""
    xp = namespace(alpha)
    if not alpha.shape[0]:
        return xp.ones(alpha.shape[1:], dtype=xp.bool)
    size = xp.max(abs(alpha), axis=0)
    alpha = alpha / xp.where(size > 0, size, xp.ones_like(size))  # squares of weights near 1e-200 would underflow
    rounding = FEASIBLE * float(xp.finfo(alpha.dtype).eps) * xp.linalg.vector_norm(alpha, axis=0)
    return xp.linalg.vector_norm(system.Q.T @ alpha, axis=0) <= rounding
