"""The certificate: an upper bound on the distance of an iterate from the minimum (the duality gap).

Any alpha with Q'alpha = 0 inside the box of the losses bounds the minimum from below, any iterate from above.  Their
difference is a sum of nonnegative terms (Fenchel-Young inequality), so that there is no cancellation:

    gap = 1/2 |sum_i (a_i - alpha_i) z_i|^2 + sum_i w_i excess_i,    excess = loss(u) + loss*(s) - s u,  s = -alpha / w

Every iterate provides two alphas: the negative gradients of the losses at its image, for which the second part vanishes
if the losses are smooth, and its coefficients a, for which the first part vanishes.  A solver that has a better dual
point stores it in the iterate.

Rounding errors are bounded too.  u is accurate up to e_i = UNITS eps (sqrt(sum_j (g_ij a_j)^2) + sum_k |q_ik c_k|), if
the errors of different entries of G are independent, and the gap at the worst u within these errors is larger by
`rounding`.  Here g_ij and q_ik are the magnitudes of the terms from which G_ij and Q_ik are computed, not of the
entries (`Geometry.sizes`, `Basis.sizes`): the slope of a parabola is zero at its vertex, with the rounding error of the
terms that cancel there.  An error of G changes J and its lower bound together, by `shift`, to first order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from rkhs._backend.arrays import Array, Vector, double, inner, like, namespace, take_rows, to_numpy
from rkhs._finite.problem import FiniteProblem, Iterate, LossBlock
from rkhs._linalg.projection import project, project_convex

CONVERGED = "converged"
UNITS = 4  # rounding error of a product with G, in units of eps times the magnitudes of its terms
FEASIBLE = 1e3  # tolerance of Q'alpha = 0, in units of eps |alpha|
FEW = 0.6  # a product with a part of the columns of G is used below this fraction of columns, and of time
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

    def status(self, tol: float, stopped: str) -> str:
        """Return the status of a solution.

        Parameters
        ----------
        tol : float
            The tolerance of the relative gap.
        stopped : str
            The reason for which the solver stopped, "converged" if it was satisfied.

        Returns
        -------
        str
            "converged", the reason for which the solver stopped, or the relative rounding error that prevents a proof.
        """
        if self.within(tol):
            return CONVERGED
        if stopped != CONVERGED:
            return stopped
        return f"rounding leaves {self.uncertain:.0e}" if self.relative <= tol else "no further progress"

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
    """Compute the certificate of an iterate from scratch: one Gram product for f, and one for each dual point.

    Dual points are tried until the gap is within tol.  With `quick` only one is tried; for f = 0, where the gap is
    large anyway, it is the one that needs no product.
    """
    return certificate_of(system, iterate, _image(system, iterate.a), tol, quick=quick)


def _image(system: FiniteProblem, a: Array) -> Array:
    """Return Ga, by the columns with nonzero coefficients if they are few, as for support vector machines."""
    support = np.flatnonzero(to_numpy(namespace(a).any(a != 0, axis=1)))
    if len(support) == 0:
        return system.zeros(int(a.shape[1]))
    if len(support) <= FEW * system.size and not system.exact.stored:
        columns = system.exact.part(slice(None), support)
        if columns.core_seconds <= FEW * system.exact.core_seconds:
            return columns @ take_rows(a, support)
    return system.exact @ a


def certify_quickly(cells: Sequence[tuple[FiniteProblem, Iterate]]) -> list[Certificate]:
    """Compute quick certificates for problems that share a Gram matrix, with two products for all of them together."""
    if not cells:
        return []
    xp, exact = namespace(cells[0][1].a), cells[0][0].exact
    ends = np.cumsum([iterate.a.shape[1] for _, iterate in cells])

    def images(columns: list[Array]) -> list[Array]:
        joined = xp.concat(columns, axis=1)
        nonzero = xp.any(joined != 0, axis=0)
        result = 0 * joined
        if bool(xp.any(nonzero)):
            result[:, nonzero] = exact @ joined[:, nonzero]
        return [result[:, end - a.shape[1] : end] for a, end in zip(columns, ends.tolist(), strict=True)]

    bounds, alphas = [], []
    for (system, iterate), image in zip(cells, images([iterate.a for _, iterate in cells]), strict=True):
        u = image + system.Q @ iterate.basis
        bounds.append(_Bounds(system, iterate, image, u))
        alphas.append(feasible(system, next(_candidates(iterate, system, u, quick=True))))
    steps = [bound.a - alpha for bound, alpha in zip(bounds, alphas, strict=True)]
    for bound, alpha, step, image in zip(bounds, alphas, steps, images(steps), strict=True):
        bound.try_alpha(alpha, inner(step, image, axis=0))
    return [bound.certificate for bound in bounds]


def certificate_of(
    system: FiniteProblem,
    iterate: Iterate,
    image: Array,
    tol: float = 0.0,
    energy: Array | None = None,
    quick: bool = False,
) -> Certificate:
    """Compute the certificate of an iterate from its image Ga, and |a - alpha|^2 (c,) for its alpha if known."""
    u = image + system.Q @ iterate.basis
    bound = _Bounds(system, iterate, image, u)
    for candidate in _candidates(iterate, system, u, quick):
        alpha = feasible(system, candidate)
        bound.try_alpha(alpha, energy if alpha is iterate.alpha else None)
        certificate = bound.certificate
        if certificate.within(tol) or quick or energy is not None:
            break
    return certificate


def _candidates(iterate: Iterate, system: FiniteProblem, u: Array, quick: bool) -> Iterator[Array]:
    """Yield dual points, possibly slightly infeasible, the most promising one first."""
    if iterate.alpha is not None:
        yield iterate.alpha
    if quick and not bool(namespace(iterate.a).any(iterate.a != 0)):
        yield iterate.a
    yield -system.gradient(u)
    yield iterate.a


class _Bounds:
    """The objective of an iterate and its smallest gap over all dual points tried so far, for each output."""

    def __init__(self, system: FiniteProblem, iterate: Iterate, image: Array, u: Array) -> None:
        self.system, self.a, self.u = system, iterate.a, u
        xp = namespace(u)
        self.eps = float(xp.finfo(u.dtype).eps)
        self.basis = iterate.basis
        sizes = system.geometry.sizes
        penalized = sizes * xp.linalg.vector_norm(sizes * iterate.a, axis=0)  # (N, c)
        free = system.geometry.basis_sizes @ abs(iterate.basis)
        self.error = UNITS * self.eps * (penalized + free)
        self.primal = double(upper_bound(system, iterate.a, image, u))
        force = system.gradient(u) + iterate.a / 2
        shift = xp.linalg.vector_norm(sizes * iterate.a, axis=0) * xp.linalg.vector_norm(sizes * force, axis=0)
        shift = shift + xp.linalg.vector_norm(free * force, axis=0)
        below = xp.clip(-xp.vecdot(iterate.a, image, axis=0), 0, None) / 2  # a negative a'Ga is replaced by zero
        self.shift = UNITS * self.eps * double(shift) + double(below)
        if not system.definite:  # the component of a outside of {Q'a = 0} is an error
            outside = system.Q @ (system.Q.T @ iterate.a)
            lost = xp.linalg.vector_norm(sizes * outside, axis=0)
            self.error = self.error + sizes * lost
            self.shift += double(lost * xp.linalg.vector_norm(sizes * force, axis=0))
        self.gaps, self.rounding = np.full(len(self.primal), inf), np.zeros(len(self.primal))

    @property
    def certificate(self) -> Certificate:
        nothing = NOTHING * self.eps * self.system.at_zero
        lost = (self.primal <= ALL * self.rounding) & (self.primal <= nothing)  # all of J is a rounding error
        rounding = np.where(lost, np.maximum(self.rounding, self.primal + self.shift), self.rounding)
        return Certificate(self.primal, self.gaps, rounding, self.shift, nothing, self.eps)

    def try_alpha(self, alpha: Array, energy: Array | None) -> None:
        """Update the bounds with the gap of alpha; `energy` is |a - alpha|^2 if known."""
        xp, system = namespace(alpha), self.system
        g = self.a - alpha
        if energy is None:
            energy = inner(g, system.exact @ g, axis=0) if bool(xp.any(g != 0)) else xp.sum(g, axis=0)
        sizes = system.geometry.sizes
        rounding = UNITS * self.eps * double(xp.sum((sizes * g) ** 2, axis=0))
        unbalanced = xp.linalg.vector_norm(system.Q.T @ alpha, axis=0)
        rounding += double(unbalanced * xp.linalg.vector_norm(self.basis, axis=0))
        gaps = np.clip(double(energy), 0.0, None) / 2
        for t in system.terms:
            block_gaps, block_rounding = excess(t, self.u[t.rows], alpha[t.rows], self.error[t.rows])
            gaps += block_gaps
            rounding += block_rounding
        gaps = np.where(np.isfinite(self.primal) & double(_balanced(system.Q, alpha)).astype(bool), gaps, inf)
        better = gaps + rounding < self.gaps + self.rounding
        self.gaps, self.rounding = np.where(better, gaps, self.gaps), np.where(better, rounding, self.rounding)


def excess(t: LossBlock, u: Array, alpha: Array, error: Array) -> tuple[Vector, Vector]:
    """Return sum_i w_i excess_i (c,), and its increase if each u_i is the worst value within its error."""
    xp = namespace(u)
    s = t.dual_slope(alpha)
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
        return primal, primal - max(float(xp.vecdot(g, product, axis=0)[0]), 0.0) / 2
    return primal, float(dual_value(system, a - g, image - product)[0])


def dual_value(system: FiniteProblem, alpha: Array, image: Array) -> Array:
    """Return the dual objective (c,) of a feasible alpha, given its image G alpha."""
    return -namespace(alpha).vecdot(alpha, image, axis=0) / 2 - system.conjugate(alpha)


def upper_bound(system: FiniteProblem, a: Array, image: Array, u: Array) -> Array:
    """Return J (c,); infinity if the kernel is conditionally positive definite and Q'a = 0 is violated.

    An a whose norm is within the rounding error of J counts as 0, which is feasible.
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
    """Return the dual objective (c,) of an alpha in the box, or minus infinity if Q'alpha = 0 does not hold."""
    value = dual_value(system, alpha, image)
    return namespace(alpha).where(_balanced(system.Q, alpha), value, namespace(alpha).full_like(value, -inf))


def feasible(system: FiniteProblem, alpha: Array) -> Array:
    """Return alpha if it is dual feasible, else its projection onto the feasible set."""
    xp = namespace(alpha)
    inside = _inside(system.terms, alpha)
    if not bool(xp.all(_balanced(system.Q, inside))):
        return project_dual(system.terms, system.Q, alpha)
    return alpha if bool(xp.all(inside == alpha)) else inside


def project_dual(terms: Sequence[LossBlock], Q: Array, alpha: Array) -> Array:
    """Return the dual feasible point nearest to alpha.

    The feasible sets of losses of vectors are not boxes; if the projection onto them and the plane Q'alpha = 0 is not
    accurate, the result is zero, which is feasible.
    """
    xp = namespace(alpha)
    if all(t.loss.separable for t in terms):
        low, high = (xp.concat(ends, axis=0) for ends in zip(*(t.box for t in terms), strict=True))
        return project(alpha, low, high, Q)
    if not Q.shape[1]:
        return _inside(terms, alpha)
    nearest = project_convex(alpha, lambda x: _inside(terms, x), Q)
    return xp.where(_balanced(Q, nearest), nearest, xp.zeros_like(nearest))


def _inside(terms: Sequence[LossBlock], alpha: Array) -> Array:
    """Return alpha with each block projected onto its feasible set."""
    return namespace(alpha).concat(
        [alpha[t.rows] if _free(t) else t.project_dual(alpha[t.rows]) for t in terms], axis=0
    )


def _free(t: LossBlock) -> bool:
    """Return whether the alpha of a loss block is unbounded."""
    return t.loss.quadratic and bool(namespace(t.weight).all(t.weight > 0))


def _balanced(Q: Array, alpha: Array) -> Array:
    """Return for each output whether Q'alpha = 0 up to rounding."""
    xp = namespace(alpha)
    if not alpha.shape[0]:
        return xp.ones(alpha.shape[1:], dtype=xp.bool)
    size = xp.max(abs(alpha), axis=0)
    alpha = alpha / xp.where(size > 0, size, xp.ones_like(size))  # squares of weights near 1e-200 would underflow
    rounding = FEASIBLE * float(xp.finfo(alpha.dtype).eps) * xp.linalg.vector_norm(alpha, axis=0)
    return xp.linalg.vector_norm(Q.T @ alpha, axis=0) <= rounding
