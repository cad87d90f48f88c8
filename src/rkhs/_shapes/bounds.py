"""Lower bounds of derivatives of a learnt function over cells of a box.

In a cell of centre c and half sides h, Taylor's formula with f's norm for a bound of what is left out gives

    L_x f  =  sum over |tau| <= p of D^tau L_c f t^tau / tau!  +  r,     |t_k| <= h_k,     |r| <= N(h) |f| / (p + 1)!

with N(h) = |D_h^(p+1) L_x|, the largest over the cell by symmetry, which does not depend on x for a kernel of x - y:

    N(h)^2 = sum over |s| = p + 1 of (2p + 2)! / (2s)! h^(2s) |D^s L|^2

The polynomial is bounded from below by its terms of order two, of which those of two features count as squares,
|t_j t_k| <= (t_j^2 h_k / h_j + t_k^2 h_j / h_k) / 2, so that each feature has a parabola of its own; terms of higher
order count by their size.  Where L_x f touches its bound it is a parabola: a small margin does not need small cells.

A Hessian is looked at in the axes of its centre: with a_ii bounded from below and |a_ij| from above, its least
eigenvalue is at least that of the matrix with these on and, negative, off the diagonal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, factorial, isfinite, prod

import numpy as np

from rkhs._backend.arrays import Matrix, to_numpy
from rkhs._calculus.forms import Form
from rkhs._finite.function import Function
from rkhs._finite.monitor import Monitor
from rkhs._gram import gram
from rkhs._shapes.claims import Claim, acting, check_provable, degree_of
from rkhs._shapes.derivatives import Derivatives, Index, along, axis_factors, indices, least, plus
from rkhs.kernels.base import Kernel

DEGREES = (1, 4, 2)  # of the polynomial, by the number of features that act: more terms, and fewer cells
UNITS = 64  # of rounding, for each entry of a sum
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True, eq=False)
class Bounds:
    """What is known of L_x f - bound on m cells; of a Hessian, of its least eigenvalue."""

    values: Matrix  # (m,), at the centres
    plain: Matrix  # (m,), the same in the units of the features
    lower: Matrix  # (m,), on the whole cells
    costs: Matrix  # (m, n): what each side of a cell takes from its bound
    places: Matrix  # (m, n): about where it is least in the cell
    directions: Matrix  # (m, n): in which a Hessian is least at the centre


@dataclass(frozen=True, eq=False)
class Part:
    """What several claims ask of one function: its derivatives, and how large it is.

    The monitor raises `Stopped` between tiles of derivatives, and before a norm that would take too long.
    """

    f: Function
    monitor: Monitor

    @cached_property
    def derivatives(self) -> Derivatives:
        return Derivatives.of(self.f, degree_of(self.f) or 0)

    @cached_property
    def _representers(self) -> tuple[float, float]:
        """a'Ga, and sum_i |a_i| |z_i|."""
        own, a = gram(self.f.kernel, self.f.functionals), self.f.coefficients
        self.monitor.check(own.seconds)
        sizes = np.sqrt(np.clip(to_numpy(own.diagonal()), 0, None))
        return float(a @ (own @ a)), float(np.abs(to_numpy(a)) @ sizes)

    @property
    def rounding(self) -> float:
        """Of a sum over representers, for a functional of norm one."""
        return (self.f.functionals.size + UNITS) * EPS * self._representers[1]

    @property
    def norm(self) -> float:
        """A bound of |f|, whatever rounding does."""
        squared, total = self._representers
        return float(np.sqrt(max(squared, 0.0) + self.rounding * total))


@dataclass(frozen=True, eq=False)
class Lower:
    """Lower bounds of L_x f over cells, for the part of f that has a say in it."""

    claim: Claim
    part: Part
    active: tuple[int, ...]  # features
    degree: int  # p

    @classmethod
    def of(cls, claim: Claim, f: Function, n: int) -> Lower:
        return cls.all([claim], f, n)[0]

    @classmethod
    def all(cls, claims: Sequence[Claim], f: Function, n: int, monitor: Monitor | None = None) -> list[Lower]:
        """Bounds for several claims about one function, which share what they can, computed in float64."""
        f = in_double(f)
        parts: dict[Kernel, Part] = {}
        found, monitor = [], monitor or Monitor(0.0)
        smoothness = f.kernel.smoothness(n)
        for claim in claims:
            check_provable(claim, f, n)
            kernel, active = acting(f.kernel, claim, n)
            if kernel is None:  # nothing of f depends on the feature but perhaps the basis
                kernel, active = f.kernel, ()
            if (degree_of(f) or 0) > claim.order:  # then the basis changes with features that the kernel may not see
                active = tuple(range(n))
            most = ceil(smoothness) - claim.order - 2 if isfinite(smoothness) else max(DEGREES)
            degree = min(most, DEGREES[min(len(active), len(DEGREES) - 1)])
            found.append(cls(claim, parts.setdefault(kernel, Part(replace(f, kernel=kernel), monitor)), active, degree))
        return found

    @property
    def n(self) -> int:
        return self.part.f.functionals.dimension

    def __call__(self, centres: Matrix, h: Matrix) -> Bounds:
        """Bounds on the cells with these centres and half sides (m, n)."""
        own = list(self.active)
        h = np.where(np.isin(np.arange(self.n), own), h, 0.0)
        given = self._coefficients(centres)
        C, V = self._in_own_axes(given)  # (m, s, s, k) and the axes (m, s, s)
        monomials = np.prod(h[:, None, :] ** self._taus, axis=2) / self._factorials  # (m, k)
        size = len(self.claim.entries)
        diagonal = C[:, range(size), range(size)]  # (m, s, k)
        parabola, t = self._parabolas(diagonal, h)
        high = np.abs(diagonal[..., self._orders > 2]) @ monomials[:, self._orders > 2, None]
        low = diagonal[..., 0] + parabola.sum(axis=2) - high[..., 0]
        M = -(np.abs(C[..., 1:]) @ monomials[:, None, 1:, None])[..., 0]
        M[:, range(size), range(size)] = low
        rest = self._remainders(h)
        values = diagonal[..., 0].min(axis=1) - self.claim.bound
        lower = _least_eigenvalue(M) - rest - self._slack(monomials, np.abs(M).sum(axis=(1, 2))) - self.claim.bound
        rows, which = np.arange(len(h)), np.argmin(low, axis=1)
        directions, plain = np.zeros_like(h), values
        if self.claim.jointly:
            directions[:, self.claim.jointly] = V[rows, :, which] * self.units
            plain = _least_eigenvalue(given[..., 0] / (self.units[:, None] * self.units)) - self.claim.bound
        places = centres.copy()
        places[:, own] += t[rows, which]
        costs = self._costs(h, parabola[rows, which], C, monomials, rest)
        return Bounds(values, plain, lower, costs, places, directions)

    def fallen(self, X: Matrix, h: Matrix) -> Matrix:
        """Where L_x f is least near the rows of X, within h, as far as its parabolas tell, (m, n)."""
        own = list(self.active)
        C = self._in_own_axes(replace(self, degree=min(self.degree, 2))._coefficients(X))[0]
        places = X.copy()
        places[:, own] += self._parabolas(C[:, 0, :1], np.broadcast_to(h, X.shape))[1][:, 0]
        return places

    def at(self, X: Matrix) -> tuple[Matrix, Matrix]:
        """L_x f - bound at the rows of X, (m,), and the directions in which Hessians are least, (m, n)."""
        C = replace(self, degree=0)._coefficients(X)[..., 0]
        directions = np.zeros_like(X)
        if not self.claim.jointly:
            return C[:, 0, 0] - self.claim.bound, directions
        sizes, V = np.linalg.eigh(C)
        directions[:, self.claim.jointly] = V[..., 0] * self.units
        return sizes[:, 0] - self.claim.bound, directions

    def in_units_of_features(self, bound: float) -> float:
        """Return what a lower bound of eigenvalues in the kernel's scales says of those of the Hessian itself.

        With U the scales and v = U w of length one, v'Hv = w'UHUw >= bound |w|^2, and |w| is between 1 / max(U) and
        1 / min(U).
        """
        if not self.claim.jointly:
            return bound
        return bound / float(self.units.max() if bound >= 0 else self.units.min()) ** 2

    @property
    def rounding(self) -> float:
        """What rounding may hide of L_x f at a point."""
        return self.part.rounding * float(self._sizes[0])

    def _coefficients(self, centres: Matrix) -> Matrix:
        """sign * D_entry D^tau f, (m, s, s, k), in units."""
        places = {index: k for k, index in enumerate(sorted({index for row in self._asked for index in row}))}
        found = self.claim.sign * self.part.derivatives(centres, list(places))
        size = len(self.claim.entries)
        C = found[:, [places[index] for row in self._asked for index in row]].reshape(
            len(centres), size, size, len(self._taus)
        )
        return C * (self.units[:, None] * self.units)[..., None] if self.claim.jointly else C

    def _parabolas(self, C: Matrix, h: Matrix) -> tuple[Matrix, Matrix]:
        """What linear and quadratic terms are at least, by feature (m, s, active), and the t where each is."""
        own = list(self.active)
        first, second = self._second
        h = h[:, None, own]
        slopes, H = C[..., first], C[..., second] if self.degree > 1 else np.zeros((*C.shape[:2], len(own), len(own)))
        known = np.arange(len(own))
        squares = H[..., known, known]
        ratio = h[..., None, :] / np.where(h > 0, h, 1.0)[..., None]  # (m, 1, j, k): h_k / h_j
        mixed = (np.abs(H) * ratio).sum(axis=3) - np.abs(squares)
        return least(slopes, squares - mixed, np.broadcast_to(h, slopes.shape))

    def _in_own_axes(self, C: Matrix) -> tuple[Matrix, Matrix]:
        """The matrices seen in the eigenvectors of those at the centres, and these."""
        if C.shape[1] == 1:
            return C, np.ones((len(C), 1, 1))
        V = np.linalg.eigh(C[..., 0])[1]
        return np.einsum("mai,mabk,mbj->mijk", V, C, V, optimize=True), V

    def _costs(self, h: Matrix, parabola: Matrix, C: Matrix, monomials: Matrix, rest: Matrix) -> Matrix:
        """By side: what parabolas, other terms by their share, and the remainder take."""
        costs = np.zeros_like(h)
        costs[:, list(self.active)] = -parabola
        sizes = np.abs(C).sum(axis=(1, 2)) * monomials
        many = self._orders > (0 if C.shape[1] > 1 else 2)
        costs += sizes[:, many] @ (self._taus[many] / np.maximum(self._orders[many], 1)[:, None])
        squares = (h * self.rates) ** 2
        return costs + rest[:, None] * squares / np.maximum(squares.sum(axis=1, keepdims=True), np.finfo(float).tiny)

    def _remainders(self, h: Matrix) -> Matrix:
        """N(h) |f| / (p + 1)!, (m,); of Hessians, of the norm of the matrix of entries."""
        exponents, coefficients = self._powers
        squared = np.prod(h[:, None, :] ** exponents, axis=2) @ coefficients
        return np.sqrt(squared) * self.part.norm / factorial(self.degree + 1)

    def _slack(self, monomials: Matrix, sizes: Matrix) -> Matrix:
        """What rounding may hide, (m,): of sums over representers, in each coefficient, and in what is made of them."""
        return self.part.rounding * (monomials @ self._sizes) + UNITS * EPS * sizes

    @cached_property
    def _taus(self) -> Matrix:
        """The exponents of the polynomial, (k, n)."""
        return np.array(indices(self.degree, self.active, self.n), dtype=int).reshape(-1, self.n)

    @cached_property
    def _orders(self) -> Matrix:
        return self._taus.sum(axis=1)

    @cached_property
    def _factorials(self) -> Matrix:
        return np.array([prod(map(factorial, tau)) for tau in self._taus.tolist()], dtype=np.float64)

    @cached_property
    def _asked(self) -> list[list[Index]]:
        """The derivatives of f that are asked for: entries of the claim x terms of the polynomial."""
        entries = [along(axes, self.n) for row in self.claim.entries for axes in row]
        return [[plus(entry, tuple(tau)) for tau in self._taus.tolist()] for entry in entries]

    @cached_property
    def _second(self) -> tuple[Matrix, Matrix]:
        """Where slopes (active,) and second derivatives (active, active) are among the terms."""
        places = {tuple(tau): k for k, tau in enumerate(self._taus.tolist())}
        first = np.array([places[along([j], self.n)] for j in self.active], dtype=int)
        if self.degree < 2:
            return first, np.zeros((0, 0), dtype=int)
        second = [[places[along([j, k], self.n)] for k in self.active] for j in self.active]
        return first, np.array(second, dtype=int).reshape(len(first), len(first))

    @cached_property
    def _radial(self) -> list[tuple[float, Form, Matrix]]:
        """Weights, forms and scales of the summands of the kernel."""
        found = [(weight, axis_factors(kernel, self.n)) for weight, kernel in self.part.f.kernel.summands()]
        return [(weight, *own) for weight, own in found if own is not None]

    def squared_norm(self, gamma: Index) -> float:
        """|D^gamma|^2 = sum of weights * prod_k (2 gamma_k - 1)!! a_k^(2 gamma_k) * phi^(|gamma|)(0)."""
        total, order = 0.0, sum(gamma)
        pairs = prod(2.0 * j - 1 for times in gamma for j in range(1, times + 1))
        for weight, form, factors in self._radial:
            scale = prod(float(a) ** (2 * times) for a, times in zip(factors, gamma, strict=True))
            rung = form.ladder(np.zeros((1, 1)), range(order, order + 1))[order]
            total += weight * pairs * scale * float(np.reshape(rung, -1)[0])
        return total

    @cached_property
    def _powers(self) -> tuple[Matrix, Matrix]:
        """Exponents 2s (k, n) and coefficients (k,) of N(h)^2, summed over the entries."""
        m = self.degree + 1
        halves = [index for index in indices(m, self.active, self.n) if sum(index) == m]
        coefficients = [
            sum(
                unit * factorial(2 * m) / prod(factorial(2 * j) for j in s) * self.squared_norm(plus(s, entry))
                for entry, unit in self._entries
            )
            for s in halves
        ]
        return 2 * np.array(halves, dtype=int).reshape(-1, self.n), np.array(coefficients, dtype=np.float64)

    @cached_property
    def _sizes(self) -> Matrix:
        """|D^tau L| of the terms, (k,), in the norm of the entries."""
        sizes = [
            sum(unit * self.squared_norm(plus(tuple(tau), entry)) for entry, unit in self._entries)
            for tau in self._taus.tolist()
        ]
        return np.sqrt(np.array(sizes))

    @property
    def _entries(self) -> list[tuple[Index, float]]:
        """The multi-indices of entries, and the squares of their units."""
        own = (self.units[:, None] * self.units) ** 2 if self.claim.jointly else np.ones((1, 1))
        rows = [along(axes, self.n) for row in self.claim.entries for axes in row]
        return list(zip(rows, own.reshape(-1).tolist(), strict=True))

    @cached_property
    def units(self) -> Matrix:
        """In which the features of a Hessian are measured, (s,): the kernel's reach."""
        rates = self.rates[list(self.claim.jointly)]
        return 1 / np.where(rates > 0, rates, 1.0)

    @cached_property
    def rates(self) -> Matrix:
        """How fast functions of the space change with each feature, (n,): |D_k| compared with values."""
        size = self.squared_norm((0,) * self.n)
        return np.sqrt([self.squared_norm(along([k], self.n)) / size for k in range(self.n)])


def in_double(f: Function) -> Function:
    """Return the same function in NumPy and float64: rounding of float32 would be beyond what bounds allow for."""
    a, c = f.coefficients, f.basis_coefficients
    if isinstance(a, np.ndarray) and a.dtype == np.float64:
        return f
    family = f.functionals.like(np.zeros((0, f.functionals.dimension)))
    basis = None if c is None else to_numpy(c).astype(np.float64)
    return Function(f.kernel, family, to_numpy(a).astype(np.float64), f.basis, basis)


def _least_eigenvalue(M: Matrix) -> Matrix:
    return M[:, 0, 0] if M.shape[1] == 1 else np.linalg.eigvalsh(M)[:, 0]
