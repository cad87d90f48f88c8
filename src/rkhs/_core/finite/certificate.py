"""The certificate: an upper bound on the distance of an iterate from the minimum (the duality gap), in any space.

Any alpha with P'alpha = 0 inside the box of the losses bounds the minimum from below, any iterate from above.  Their
difference is a sum of nonnegative terms (Fenchel-Young inequality), so that there is no cancellation:

    gap = 1/2 |f - sum_i alpha_i z_i|^2 + sum_i w_i excess_i,    excess = loss(u) + loss*(s) - s u,  s = -alpha / w

Every iterate provides an alpha, the negative gradients of the losses at its values u, for which the second part
vanishes if the losses are smooth.  In the space of representers its coefficients are another one, for which the first
part vanishes.  A solver that has a better dual point stores it in the iterate.

Rounding errors are bounded too.  The geometry of the space bounds the errors of u, of the first part, and of J (the
`Point` of an iterate), and the gap at the worst u within these errors is larger by `rounding`.  An error of G or of
sums changes J and its lower bound together, by `shift`, to first order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf

import numpy as np

from rkhs._core.backend.arrays import Array, Vector, double, namespace
from rkhs._core.finite.problem import FiniteProblem, Iterate, LossBlock, Point
from rkhs._core.linalg.projection import project, project_convex


class Status(StrEnum):
    """The reason for which the work on a solution ended; every reason is equal to its text.

    Examples
    --------
    >>> import rkhs
    >>> term = rkhs.Term(rkhs.Evaluation([[0.0], [1.0]]), rkhs.Hinge(), target=[-1.0, 1.0], weight=10.0)
    >>> solution = rkhs.Problem(rkhs.Gaussian(), [term]).solve(rkhs.solvers.NonlinearCG(max_iterations=1))
    >>> solution.status, solution.status == "iteration limit", solution.status.remedy
    ('iteration limit', True, 'a larger max_iterations, or another solver')
    """

    remedy: str

    def __new__(cls, text: str, remedy: str = "") -> Status:
        """Return the reason of a text, with what helps against it."""
        status = str.__new__(cls, text)
        status._value_, status.remedy = text, remedy
        return status

    def __repr__(self) -> str:
        return repr(self.value)

    CONVERGED = "converged"
    LOCAL = "exact in each neighborhood"
    ABSOLUTE = "absolute tolerance"
    TIME_LIMIT = "time limit", "more time, or an approximation"
    ITERATION_LIMIT = "iteration limit", "a larger max_iterations, or another solver"
    MEMORY_LIMIT = "memory limit", "an approximation, or a solver that does not store the Gram matrix"
    SIZE_LIMIT = "limit of representers", "a larger number of representers"
    INTERRUPTED = "interrupted", "start=solution, to continue"
    CALLBACK = "stopped by the callback", "start=solution, to continue"
    SOLVER = "stopped by the solver", "another solver"
    ROUNDING = "limited by rounding", "a larger tol, smaller weights, or float64"
    HIDDEN = "functions hidden by rounding", "fewer basis functions or landmarks, in other units"
    STALLED = "no further progress", "a larger tol, smaller weights, or another solver"


CONVERGED = Status.CONVERGED
FEASIBLE = 1e3  # tolerance of Q'alpha = 0, in units of eps |alpha|
PARTS = ("primal", "gaps", "rounding", "shift", "nothing")
ALL = 8  # J is considered a rounding error if it is below this multiple of its rounding bound, and ..
NOTHING = 1e3  # .. below this many units of rounding of J(0)


@dataclass(frozen=True, eq=False)
class Certificate:
    """The duality gap of a solution with bounds on its rounding errors, for each of its c outputs.

    Parameters
    ----------
    primal : ndarray of shape (c,)
        The objective J of the solution.
    gaps : ndarray of shape (c,)
        The duality gaps: J exceeds its minimum by at most the gap.
    rounding : ndarray of shape (c,)
        Bounds on the amounts by which rounding errors may have made the gaps too small.
    shift : ndarray of shape (c,)
        Bounds on the amounts by which rounding errors may have changed J together with its lower bound.
    nothing : ndarray of shape (c,)
        The value below which J counts as zero compared with J(0), if it is within its rounding error.
    eps : float
        The machine epsilon of the computation.

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
        """Join the certificates of several outputs.

        Parameters
        ----------
        outputs : sequence of Certificate
            The certificates.

        Returns
        -------
        Certificate
            The certificate of all outputs.
        """
        columns = {name: np.concatenate([getattr(one, name) for one in outputs]) for name in PARTS}
        return cls(**columns, eps=outputs[0].eps)

    def split(self) -> list[Certificate]:
        """Return the certificate of each output.

        Returns
        -------
        list of Certificate
            One certificate per output.
        """
        parts = range(len(self.primal))
        return [Certificate(**{n: getattr(self, n)[k : k + 1] for n in PARTS}, eps=self.eps) for k in parts]

    @property
    def dual(self) -> Vector:
        """Lower bounds on the minima of J, of shape (c,)."""
        return np.where(np.isfinite(self.gaps), self.primal, 0.0) - self.gaps

    @property
    def gap(self) -> float:
        """The sum of the gaps of all outputs."""
        return float(np.sum(self.gaps))

    @property
    def relative(self) -> float:
        """The largest gap of any output relative to its J; 0 if J is within its rounding error."""
        return float(np.max(self._relative(self.gaps), initial=0.0))

    @property
    def uncertain(self) -> float:
        """The largest `rounding` of any output relative to its J."""
        return float(np.max(self._relative(self.rounding), initial=0.0))

    def within(self, tol: float) -> bool:
        """Return whether the relative gaps of all outputs are within a tolerance, including rounding errors.

        Parameters
        ----------
        tol : float
            The tolerance.

        Returns
        -------
        bool
            Whether all gaps are within the tolerance.
        """
        return bool(np.all(self.done(tol)))

    def done(self, tol: float) -> Vector:
        """Return for each output whether its relative gap is within a tolerance, including rounding errors.

        Parameters
        ----------
        tol : float
            The tolerance.

        Returns
        -------
        ndarray of bool of shape (c,)
            Whether the gaps are within the tolerance.
        """
        # J is a sum, which is accurate to 8 units of rounding.
        return np.asarray(self._relative(self.gaps + self.rounding) <= tol + 8 * self.eps)

    def status(self, tol: float, stopped: Status) -> Status:
        """Return the status of a solution.

        Parameters
        ----------
        tol : float
            The tolerance of the relative gap.
        stopped : Status
            The reason for which the solver stopped, "converged" if it was satisfied.

        Returns
        -------
        Status
            "converged", the reason for which the solver stopped, or what prevents a proof that it has converged.
        """
        if self.within(tol):
            return CONVERGED
        if stopped != CONVERGED:
            return stopped
        return Status.ROUNDING if self.relative <= tol else Status.STALLED

    def _relative(self, part: Vector) -> Vector:
        """Return a part relative to J, 0 if J is within its rounding error."""
        size = np.maximum(np.abs(self.primal), np.abs(self.dual))
        lost = (size <= self.rounding) & (self.rounding <= self.nothing) | (size <= self.eps * self.nothing)
        lost &= np.isfinite(size)  # an overflow is not a rounding error
        with np.errstate(invalid="ignore"):
            relative = np.where(np.isfinite(size), part / np.where(lost | ~np.isfinite(size), 1.0, size), inf)
        return np.where(lost, 0.0, relative)


def relative_gap(primal: float, dual: float, rounding: float = 0.0) -> float:
    """Return (primal - dual) / max(|primal|, |dual|), or 0 if both are at most `FiniteProblem.rounding`."""
    size = max(abs(primal), abs(dual))
    if size <= rounding:
        return 0.0
    return max(primal - dual, 0.0) / size if size < inf else inf


def certify(system: FiniteProblem, iterate: Iterate, tol: float = 0.0, quick: bool = False) -> Certificate:
    """Compute the certificate of an iterate from scratch: its values, and the distance of f from each dual point.

    Dual points are tried until the gap is within tol.  With `quick` only one is tried; for f = 0, where the gap is
    large anyway, it is the one that needs no product.
    """
    return certificate_of(system, iterate, None, tol, quick=quick)


def certificate_of(
    system: FiniteProblem,
    iterate: Iterate,
    image: Array | None,
    tol: float = 0.0,
    energy: Array | None = None,
    quick: bool = False,
) -> Certificate:
    """Compute the certificate of an iterate from its image Ga, and |a - alpha|^2 (c,) for its alpha if known."""
    return certificate_at(system, system.geometry.point(system, iterate, image), tol, energy, quick)


def certificate_at(
    system: FiniteProblem, point: Point, tol: float, energy: Array | None = None, quick: bool = False
) -> Certificate:
    """Compute the certificate of a point; `energy` is |f - sum_i alpha_i z_i|^2 (c,) for its own alpha if known."""
    bounds = Bounds(system, point)
    for candidate in point.candidates(quick):
        alpha = feasible(system, candidate)
        bounds.try_alpha(alpha, energy if alpha is point.iterate.alpha else None)
        certificate = bounds.certificate
        if certificate.within(tol) or quick or energy is not None:
            break
    return certificate


class Bounds:
    """The objective of an iterate and its smallest gap over all dual points tried so far, for each output."""

    def __init__(self, system: FiniteProblem, point: Point) -> None:
        self.system, self.point = system, point
        self.gaps, self.rounding = np.full(len(point.primal), inf), np.zeros(len(point.primal))

    @property
    def certificate(self) -> Certificate:
        point, rounding = self.point, self.rounding
        nothing = NOTHING * point.eps * self.system.at_zero
        lost = (point.primal <= ALL * rounding) & (point.primal <= nothing)  # all of J is a rounding error
        rounding = np.where(lost, np.maximum(rounding, point.primal + point.shift), rounding)
        return Certificate(point.primal, self.gaps, rounding, point.shift, nothing, point.eps)

    def try_alpha(self, alpha: Array, energy: Array | None = None) -> None:
        """Update the bounds with the gap of alpha; `energy` is |f - sum_i alpha_i z_i|^2 if known."""
        # gap = 1/2 |f - sum_i alpha_i z_i|^2 ..
        gaps, rounding = self.point.distance(alpha, energy)
        for t in self.system.terms:
            # .. + sum_i w_i (loss(u_i) + loss*(s_i) - s_i u_i),  s = -alpha / w
            block_gaps, block_rounding = excess(t, self.point.u[t.rows], alpha[t.rows], self.point.error[t.rows])
            gaps, rounding = gaps + block_gaps, rounding + block_rounding
        gaps = np.where(np.isfinite(self.point.primal), gaps, inf)
        # J may be smaller by the shift, so that the gap relative to it is larger.
        rest = np.where(np.isfinite(self.point.primal), self.point.primal - self.point.shift, 0.0)
        share = np.where(rest > 0, (gaps + rounding) / np.where(rest > 0, rest, 1.0), 1.0)
        rounding = rounding + np.minimum(share, 1.0) * self.point.shift
        better = gaps + rounding < self.gaps + self.rounding
        self.gaps, self.rounding = np.where(better, gaps, self.gaps), np.where(better, rounding, self.rounding)


def excess(t: LossBlock, u: Array, alpha: Array, error: Array) -> tuple[Vector, Vector]:
    """Return sum_i w_i excess_i (c,), and its increase if each u_i is the worst value within its error."""
    xp = namespace(u)
    s = t.dual_slope(alpha)
    # the largest excess at u_i +- error_i, as it is convex in u_i
    value, increase = t.loss.excess(u, t.target, s), t.loss.excess_increase(u, t.target, s, error)
    return double(xp.sum(t.weight * value, axis=0)), double(xp.sum(t.weight * increase, axis=0))


# Bounds that solvers compute for their stopping criteria.


def bounds(system: FiniteProblem, a: Array, image: Array, u: Array, g: Array, product: Array) -> tuple[float, float]:
    """Return the primal and dual values of one output, given the gradient g = a - alpha and its image.

    For smooth losses alpha = -w loss'(u), and the gap is 1/2 g'Gg.  For others alpha comes from a smoothed problem, and
    the dual value is computed.  All arrays are (N, 1); Q'alpha = 0 is assumed.
    """
    xp = namespace(a)
    primal = float((xp.vecdot(a, image, axis=0) / 2 + system.loss(u))[0])
    if system.smooth:
        # dual = J - 1/2 g'Gg, since the losses attain their conjugates at alpha = -w loss'(u)
        return primal, primal - max(float(xp.vecdot(g, product, axis=0)[0]), 0.0) / 2
    return primal, float(dual_value(system, a - g, image - product)[0])


def dual_value(system: FiniteProblem, alpha: Array, image: Array) -> Array:
    """Return the dual objective (c,) of a feasible alpha, given its image G alpha."""
    # -1/2 alpha'G alpha - sum_i w_i loss_i*(-alpha_i / w_i)
    return -namespace(alpha).vecdot(alpha, image, axis=0) / 2 - system.conjugate(alpha)


def lower_bound(system: FiniteProblem, alpha: Array, image: Array) -> Array:
    """Return the dual objective (c,) of an alpha in the box, or minus infinity if Q'alpha = 0 does not hold."""
    value = dual_value(system, alpha, image)
    return namespace(alpha).where(balanced(system.Q, alpha), value, namespace(alpha).full_like(value, -inf))


def feasible(system: FiniteProblem, alpha: Array) -> Array:
    """Return alpha if it is dual feasible, else its projection onto the feasible set."""
    if not system.terms:
        return alpha
    xp = namespace(alpha)
    inside = _inside(system.terms, alpha)
    if not bool(xp.all(balanced(system.Q, inside))):
        return project_dual(system.terms, system.Q, alpha)
    return alpha if bool(xp.all(inside == alpha)) else inside


def project_dual(terms: Sequence[LossBlock], Q: Array, alpha: Array) -> Array:
    """Return the dual feasible point nearest to alpha.

    The feasible sets of losses of vectors are not boxes; if the projection onto them and the plane Q'alpha = 0 is not
    accurate, the result is zero, which is feasible.
    """
    xp = namespace(alpha)
    if all(t.loss.separable for t in terms):
        # min |a - alpha|^2 / 2 over low <= a <= high, Q'a = 0
        low, high = (xp.concat(ends, axis=0) for ends in zip(*(t.box for t in terms), strict=True))
        return project(alpha, low, high, Q)
    if not Q.shape[1]:
        return _inside(terms, alpha)
    nearest = project_convex(alpha, lambda x: _inside(terms, x), Q)
    return xp.where(balanced(Q, nearest), nearest, xp.zeros_like(nearest))


def _inside(terms: Sequence[LossBlock], alpha: Array) -> Array:
    """Return alpha with each block projected onto its feasible set."""
    return namespace(alpha).concat(
        [alpha[t.rows] if _free(t) else t.project_dual(alpha[t.rows]) for t in terms], axis=0
    )


def _free(t: LossBlock) -> bool:
    """Return whether the alpha of a loss block is unbounded."""
    return t.loss.quadratic and bool(namespace(t.weight).all(t.weight > 0))


def balanced(Q: Array, alpha: Array) -> Array:
    """Return for each output whether Q'alpha = 0 up to rounding."""
    xp = namespace(alpha)
    if not alpha.shape[0]:
        return xp.ones(alpha.shape[1:], dtype=xp.bool)
    # |Q'alpha| <= FEASIBLE eps |alpha|
    size = xp.max(abs(alpha), axis=0)
    alpha = alpha / xp.where(size > 0, size, xp.ones_like(size))  # squares of weights near 1e-200 would underflow
    rounding = FEASIBLE * float(xp.finfo(alpha.dtype).eps) * xp.linalg.vector_norm(alpha, axis=0)
    return xp.linalg.vector_norm(Q.T @ alpha, axis=0) <= rounding
