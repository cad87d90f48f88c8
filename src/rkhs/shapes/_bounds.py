"""Lower bounds of derivatives of a learned function over cells of a box.

In a cell with center c and half sides h, Taylor's theorem with the norm of f as a bound of the remainder gives

    L_x f  =  sum over |tau| <= p of D^tau L_c f t^tau / tau!  +  r,     |t_k| <= h_k,     |r| <= N(h) |f| / (p + 1)!

with N(h) = |D_h^(p+1) L_x|, the maximum over the cell by symmetry, which does not depend on x for a kernel of x - y:

    N(h)^2 = sum over |s| = p + 1 of (2p + 2)! / (2s)! h^(2s) |D^s L|^2

The polynomial is bounded from below by one parabola for each feature: mixed terms of order two are bounded by squares,
|t_j t_k| <= (t_j^2 h_k / h_j + t_k^2 h_j / h_k) / 2, and terms of higher order by their absolute values.  Near a point
where L_x f attains its bound it is nearly a parabola, so that a small margin does not need small cells.

A Hessian is transformed to the eigenvectors at the center of the cell.  With lower bounds of a_ii and upper bounds of
|a_ij|, its least eigenvalue is at least that of the matrix with the former on the diagonal and minus the latter off it.

*Derivatives.*  In the RKHS of a kernel phi(q), q = -|A (x - y)|^2 / 2 with A diagonal, a function is a sum of terms
b D_y^beta k(x, y).  With D_y = -D_x all its derivatives are sums of D^gamma k, gamma = alpha + beta.  For directions
along the axes, the derivative formula of radial kernels (`rkhs.extend.Form`) is a product over the features of
polynomials in d = A (x - y) and the symbol phi, whose power r stands for the derivative phi^(r)(q):

    D^gamma k = prod_k a_k^gamma_k sum_j N(gamma_k, j) d_k^(gamma_k - 2j) (-phi)^(gamma_k - j),
    N(g, j) = g! / (j! (g - 2j)! 2^j)

So each derivative takes a few entrywise products, and all share phi and the powers of d.
"""

from __future__ import annotations

import itertools
import operator
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from math import ceil, comb, factorial, isfinite, prod
from typing import Any

import numpy as np
from scipy.special import factorial as factorials

from rkhs import Derivative, Evaluation, gram
from rkhs.extend import (
    Atoms,
    Form,
    Functional,
    Matrix,
    Stopped,
    double,
    multi_indices,
    report_progress,
    seconds_left,
    to_numpy,
    unique_rows,
)
from rkhs.kernels import Kernel, Multiple, Sum
from rkhs.results import Function
from rkhs.shapes._claims import Claim

DEGREES = (1, 4, 4, 2)  # degrees of Taylor polynomials for 0, 1, 2 and more active features; more terms, fewer cells
MOST_DERIVATIVES = 5000  # of a Taylor polynomial; of a Hessian, 17 features that interact have more
EASY = 0.1  # remainders, relative to the largest values, with which most cells are proved
EPS = float(np.finfo(np.float64).eps)
UNITS = 64  # rounding error of a sum in units of eps per entry
Index = tuple[int, ...]  # a multi-index: the order of the derivative in each feature


def check_provable(claim: Claim, f: Any) -> None:
    """Raise ValueError for functions whose derivatives are not bounded by their norm."""
    if not isinstance(f, Function) or f.outputs is not None:
        raise ValueError(
            f"Shapes can be proved only for functions with one output that are sums of representers, got "
            f"a {type(f).__name__}: leave out the approximation, or use rkhs.Landmarks."
        )
    n, degree = f.functionals.dimension, polynomial_degree(f)
    radial = all(axis_factors(kernel, n) is not None for _, kernel in f.kernel.summands())
    if f.kernel.order or degree is None or degree > 2 or not radial:
        basis = "" if degree is not None and degree <= 2 else f" with {f.basis!r}"
        raise ValueError(
            "A proof needs a kernel of x - y with a length scale for each feature, or a sum of such kernels, and no "
            f"basis other than polynomials of degree two, got {f.kernel!r}{basis}: use rkhs.Gaussian()."
        )
    needed = max(claim.order + 2, degree + 1)  # the Taylor polynomial must contain the basis
    if not needed < f.kernel.smoothness(n):
        remedy = f.kernel.smoother(needed, n) or "rkhs.Gaussian()"
        raise ValueError(
            f"A proof that {claim.name} everywhere needs derivatives of order {needed}, which are not bounded on the "
            f"RKHS of {f.kernel!r}: use {remedy}."
        )


def lower_bounds(claims: Sequence[Claim], f: Function | list[Function]) -> list[LowerBound]:
    """Return lower bounds for claims about one function, or about one function each, in float64.

    A derivative depends on the summands of the kernel that have all its features, a Hessian on those with any of them.
    Claims about the same function share the parts of it that they have in common.
    """
    functions = f if isinstance(f, list) else [f] * len(claims)
    parts: dict[tuple[int, Kernel], ActivePart] = {}
    result = []
    for claim, one in zip(claims, functions, strict=True):
        check_provable(claim, one)
        n, summands, active = one.functionals.dimension, [], set()
        for weight, kernel in one.kernel.summands():
            radial = axis_factors(kernel, n)
            features = set(() if radial is None else np.flatnonzero(radial[1]).tolist())
            if features & set(claim.jointly) if claim.jointly else features >= set(claim.axes):
                summands.append(Multiple(weight, kernel))
                active |= features
        if (polynomial_degree(one) or 0) > claim.order:  # the basis may depend on features that the kernel ignores
            active = set(range(n))
        kernel = Sum(tuple(summands)) if len(summands) > 1 else summands[0] if summands else one.kernel
        key = id(one), kernel
        if key not in parts:
            parts[key] = ActivePart(replace(in_double(one), kernel=kernel))
        smoothness = one.kernel.smoothness(n)
        most = ceil(smoothness) - claim.order - 2 if isfinite(smoothness) else max(DEGREES)
        degree = min(most, DEGREES[min(len(active), len(DEGREES) - 1)])
        if comb(len(active) + degree + claim.order, len(active)) > MOST_DERIVATIVES:
            degree -= 1
        result.append(LowerBound(claim, parts[key], tuple(sorted(active)), degree))
    return result


@dataclass(frozen=True, eq=False)
class CellBounds:
    """Bounds of L_x f - bound on m cells; for a Hessian, of its least eigenvalue."""

    values: Matrix  # (m,), at the centers
    lower: Matrix  # (m,), lower bounds on the cells
    costs: Matrix  # (m, n), the contribution of each side of a cell to values - lower
    points: Matrix  # (m, n), approximate minimizers in the cells


class LowerBound:
    """Lower bounds of L_x f over cells, for the part of f that L_x f depends on."""

    def __init__(self, claim: Claim, part: ActivePart, active: tuple[int, ...], degree: int) -> None:
        self.claim, self.part, self.active, self.degree, self.n = claim, part, active, degree, part.n
        # The exponents of the Taylor polynomial, by order.
        self._taus = np.array(multi_indices(degree, active, self.n), dtype=int).reshape(-1, self.n)
        self._orders = self._taus.sum(axis=1)
        self._entries = [along(axes, self.n) for row in claim.entries for axes in row]
        # U (s,), the length scales of the features of a Hessian H, whose least eigenvalue is that of U H U here.
        rates = part.rates[list(claim.jointly)] if claim.jointly else np.ones(1)
        self.units = 1 / np.where(rates > 0, rates, 1.0)

    def __call__(self, centers: Matrix, h: Matrix) -> CellBounds:
        """Return the bounds on the cells with these centers and half sides (m, n)."""
        active, orders = list(self.active), self._orders
        h = np.where(np.isin(np.arange(self.n), active), h, 0.0)
        # V'C V (m, s, s, k): the Taylor coefficients in the eigenvectors V of the matrices at the centers.
        C, _ = self._in_eigenvectors(centers, self.degree)
        rows, size = np.arange(len(h)), C.shape[1]
        monomials = _powers(h, self._taus) / factorials(self._taus).prod(axis=1)  # h^tau / tau! (m, k)
        # Diagonal: value + minima of parabolas - sum over |tau| > 2 of |D^tau L f| h^tau / tau!
        diagonal = C[:, range(size), range(size)]  # (m, s, k)
        parabola, t = self._parabolas(diagonal, h)
        high = np.abs(diagonal[..., orders > 2]) @ monomials[:, orders > 2, None]
        low = diagonal[..., 0] + parabola.sum(axis=2) - high[..., 0]
        # Off the diagonal: minus the sum over |tau| > 0 of |D^tau L f| h^tau / tau!
        M = -(np.abs(C[..., 1:]) @ monomials[:, None, 1:, None])[..., 0]
        M[:, range(size), range(size)] = low
        # |r| <= N(h) |f| / (p + 1)!, for a Hessian by the Frobenius norm
        exponents, factors = self._remainder
        remainder = np.sqrt(_powers(h, exponents) ** 2 @ factors) * self.part.norm / factorial(self.degree + 1)
        rounding = self.part.rounding * (monomials @ self._norms) + UNITS * EPS * np.abs(M).sum(axis=(1, 2))
        lower = np.linalg.eigvalsh(M)[:, 0] - remainder - rounding - self.claim.bound
        # Costs of a side: its parabola, its share tau_j / |tau| of the other terms, and its share of the remainder.
        which = np.argmin(low, axis=1)
        costs, points = np.zeros_like(h), centers.copy()
        costs[:, active] = -parabola[rows, which]
        points[:, active] += t[rows, which]
        others = orders > (0 if size > 1 else 2)
        sizes = (np.abs(C).sum(axis=(1, 2)) * monomials)[:, others]
        costs += sizes @ (self._taus[others] / orders[others, None])
        squares = (h * self.part.rates) ** 2
        costs += remainder[:, None] * squares / np.maximum(squares.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        return CellBounds(diagonal[..., 0].min(axis=1) - self.claim.bound, lower, costs, points)

    def at(self, X: Matrix) -> tuple[Matrix, Matrix]:
        """Return L_x f - bound (m,) at the rows of X, and eigenvectors (m, n) of the least eigenvalues of Hessians."""
        C, V = self._in_eigenvectors(X, 0)
        directions = np.zeros_like(X)
        if self.claim.jointly:
            directions[:, self.claim.jointly] = V[..., 0] * self.units
        return C[:, 0, 0, 0] - self.claim.bound, directions

    def least_in_features(self, x: Matrix) -> float:
        """Return L_x f - bound at a point (n,), of a Hessian the least eigenvalue in the units of its features."""
        M = self._taylor(x[None], 0)[0, ..., 0] / (self.units[:, None] * self.units)
        return float(np.linalg.eigvalsh(M)[0] - self.claim.bound)

    def descend(self, X: Matrix, h: Matrix) -> Matrix:
        """Return approximate minimizers (m, n) of L_x f within h of the rows of X, by its parabolas."""
        C, _ = self._in_eigenvectors(X, min(self.degree, 2))
        points = X.copy()
        points[:, list(self.active)] += self._parabolas(C[:, 0, :1], np.broadcast_to(h, X.shape))[1][:, 0]
        return points

    @cached_property
    def work(self) -> int:
        """The number of terms that are added up for the bound of one cell."""
        wanted = unique_rows((np.array(self._entries)[:, None] + self._taus).reshape(-1, self.n))[0]
        return len(wanted) * self.part.derivatives.terms + self._remainder[0].size

    @property
    def work_at(self) -> int:
        """The number of terms that are added up for the value, or the Hessian, at one point."""
        return len(self._entries) * self.part.derivatives.terms

    def expected_cells(self, box: Matrix) -> float:
        """Return about how many cells a proof on the box (2, n) takes, from the kernel alone.

        The remainder on a cell is at most `EASY` times |L| |f|, the largest value of L_x f for its norm.
        """
        active = list(self.active)
        rates = self.part.rates[active]
        lengths = (box[1] - box[0])[active] / 2 * rates  # half sides of the box in length scales
        exponents, factors = self._remainder

        def is_hard(side: float) -> bool:
            h = np.zeros(self.n)
            h[active] = np.minimum(lengths, side) / np.where(rates > 0, rates, 1.0)
            remainder = np.sqrt(_powers(h[None], exponents)[0] ** 2 @ factors) / factorial(self.degree + 1)
            return bool(remainder > EASY * self._norms[0])

        sides = np.geomspace(1e-6, max(lengths.max(initial=0.0), 1e-6), 200)
        side = sides[max(bisect_left(sides, True, key=is_hard) - 1, 0)]
        return float(np.prod(np.maximum(lengths / side, 1.0)))

    def in_units_of_features(self, bound: float) -> float:
        """Convert a lower bound of eigenvalues in units of the length scales U to one for the Hessian H itself.

        For v = U w of norm one, v'Hv = w'UHUw >= bound |w|^2, and |w| is between 1 / max(U) and 1 / min(U).
        """
        return bound / float(self.units.max() if bound >= 0 else self.units.min()) ** 2

    @property
    def rounding(self) -> float:
        """The rounding error of L_x f at a point."""
        return self.part.rounding * float(self._norms[0])

    def _in_eigenvectors(self, centers: Matrix, degree: int) -> tuple[Matrix, Matrix]:
        """Return V'C V (m, s, s, k) of the coefficients C and the eigenvectors V (m, s, s) of C at the centers."""
        C = self._taylor(centers, degree)
        V = np.linalg.eigh(C[..., 0])[1]
        return np.einsum("mai,mabk,mbj->mijk", V, C, V, optimize=True) if C.shape[1] > 1 else C, V

    def _taylor(self, centers: Matrix, degree: int) -> Matrix:
        """Return C = sign * U D_entry D^tau f U (m, s, s, k) for |tau| up to a degree."""
        taus, size = self._taus[self._orders <= degree], len(self.claim.entries)
        indices, _, which = unique_rows((np.array(self._entries)[:, None] + taus).reshape(-1, self.n))
        derivatives = self.claim.sign * self.part.derivatives(centers, [tuple(index) for index in indices.tolist()])
        C = derivatives[:, which].reshape(len(centers), size, size, len(taus))
        return C * (self.units[:, None] * self.units)[..., None]

    def _parabolas(self, C: Matrix, h: Matrix) -> tuple[Matrix, Matrix]:
        """Return the minima (m, s, active) of linear plus quadratic terms of each feature, and the minimizers t."""
        active = list(self.active)
        columns = {tuple(tau): k for k, tau in enumerate(self._taus.tolist())}
        slopes = C[..., [columns[along([j], self.n)] for j in active]]
        H = np.zeros((*C.shape[:2], len(active), len(active)))
        if self.degree > 1 and active:
            H = C[..., np.array([[columns[along([j, k], self.n)] for k in active] for j in active])]
        h = h[:, None, active]
        squares = np.diagonal(H, axis1=2, axis2=3)
        # |H_jk t_j t_k| <= |H_jk| (t_j^2 h_k / h_j + t_k^2 h_j / h_k) / 2
        ratio = h[..., None, :] / np.where(h > 0, h, 1.0)[..., None]  # (m, 1, j, k): h_k / h_j
        mixed = (np.abs(H) * ratio).sum(axis=3) - np.abs(squares)
        return least(slopes, squares - mixed, np.broadcast_to(h, slopes.shape))

    def _squared_norms(self, taus: Matrix) -> Matrix:
        """Return |D^tau L|^2 (k,), for a Hessian the sum over its entries, in units of the length scales."""
        units = (self.units[:, None] * self.units).ravel()
        return np.array([units**2 @ self.part.squared_norms(np.add(self._entries, tau)) for tau in taus])

    @cached_property
    def _norms(self) -> Matrix:
        """The norms |D^tau L| (k,) of the terms."""
        return np.sqrt(self._squared_norms(self._taus))

    @cached_property
    def _remainder(self) -> tuple[Matrix, Matrix]:
        """The exponents s (k, n) and coefficients (2p + 2)! / (2s)! |D^s L|^2 (k,) of N(h)^2 in h^(2s)."""
        m = self.degree + 1
        halves = [index for index in multi_indices(m, self.active, self.n) if sum(index) == m]
        exponents = np.array(halves, dtype=int).reshape(-1, self.n)
        return exponents, factorial(2 * m) / factorials(2 * exponents).prod(axis=1) * self._squared_norms(exponents)


def _powers(h: Matrix, exponents: Matrix) -> Matrix:
    """Return prod_j h_j^e_j (m, k) for the rows of h (m, n) and of `exponents` (k, n), whose sums are small."""
    result, rest = np.ones((len(h), len(exponents))), exponents.copy()
    for _ in range(int(exponents.sum(axis=1).max(initial=0))):  # one factor of each monomial after the other
        rows = np.flatnonzero(rest.any(axis=1))
        axes = np.argmax(rest[rows] > 0, axis=1)
        result[:, rows] *= h[:, axes]
        rest[rows, axes] -= 1
    return result


def least(slopes: Matrix, curvatures: Matrix, h: Matrix) -> tuple[Matrix, Matrix]:
    """Return the minimum of g t + d t^2 / 2 over |t| <= h, elementwise, and the minimizer t.

    Examples
    --------
    >>> least(np.array([1.0, 1.0]), np.array([2.0, -1.0]), np.array([1.0, 1.0]))
    (array([-0.25, -1.5 ]), array([-0.5, -1. ]))
    """
    inside = curvatures * h > np.abs(slopes)
    t = np.where(inside, -slopes / np.where(inside, curvatures, 1.0), -np.where(slopes < 0, -1.0, 1.0) * h)
    return slopes * t + 0.5 * curvatures * t * t, t


def in_double(f: Function) -> Function:
    """Convert a function to NumPy and float64, since the bounds do not allow for rounding errors of float32.

    Representers with a coefficient of zero are left out.
    """
    f = f.compress()
    a, c = f.coefficients, f.basis_coefficients
    if isinstance(a, np.ndarray) and a.dtype == np.float64:
        return f
    family = f.functionals.like(np.zeros((0, f.functionals.dimension)))
    basis = None if c is None else double(c)
    return Function(f.kernel, family, double(a), f.basis, basis)


def along(axes: Sequence[int], n: int) -> Index:
    """Return the multi-index of a derivative along axes."""
    return tuple(list(axes).count(k) for k in range(n))


def derivative(X: Matrix, index: Index) -> Functional:
    """Return D^index f at the rows of X."""
    return Derivative(X, axes=np.repeat(np.arange(len(index)), index).tolist()) if any(index) else Evaluation(X)


def plus(alpha: Index, beta: Index) -> Index:
    """Return the sum of two multi-indices."""
    return tuple(map(operator.add, alpha, beta))


def axis_factors(kernel: Kernel, n: int) -> tuple[Form, Matrix] | None:
    """Return the form of a kernel of A (x - y) and the diagonal (n,) of A; None if A is not diagonal."""
    form = kernel.form(n)
    if form is None or not form.rho:
        return None
    linear = np.ones(n) if form.linear is None else np.asarray(form.linear, dtype=np.float64)
    if linear.ndim == 1:
        return form, linear
    used = linear != 0
    return None if max(used.sum(axis=0).max(), used.sum(axis=1).max()) > 1 else (form, linear.sum(axis=0))


def polynomial_degree(f: Function) -> int | None:
    """Return the degree of the polynomials in the basis of f, -1 without one; None for other functions."""
    return -1 if f.basis is None else f.basis.polynomial_degree


class ActivePart:
    """The part of a function on which claims depend: its derivatives, its norm, and norms of functionals."""

    def __init__(self, f: Function) -> None:
        self.n, self.f = f.functionals.dimension, f
        radial = [(weight, axis_factors(kernel, self.n)) for weight, kernel in f.kernel.summands()]
        self._radial = [(weight, *form_and_factors) for weight, form_and_factors in radial if form_and_factors]

    @cached_property
    def derivatives(self) -> PartialDerivatives:
        return PartialDerivatives(self.f)

    @cached_property
    def _energy_and_total(self) -> tuple[float, float]:
        """a'Ga and sum_i |a_i| |z_i|; raises `Stopped` if the product would exceed the time limit."""
        G, a = gram(self.f.kernel, self.f.functionals), self.f.coefficients
        if seconds_left() < G.core_seconds:
            raise Stopped("time limit")
        sizes = np.sqrt(np.clip(to_numpy(G.diagonal()), 0, None))
        return float(a @ (G @ a)), float(np.abs(a) @ sizes)

    @property
    def rounding(self) -> float:
        """The rounding error of a sum over representers, for a functional of norm one."""
        return (self.f.functionals.size + UNITS) * EPS * self._energy_and_total[1]

    @property
    def norm(self) -> float:
        """An upper bound of |f| that includes rounding errors."""
        squared, total = self._energy_and_total
        return float(np.sqrt(max(squared, 0.0) + self.rounding * total))

    def squared_norms(self, gammas: Matrix) -> Matrix:
        """Return |D^gamma|^2 = sum of weights * prod_k (2 gamma_k - 1)!! a_k^(2 gamma_k) * phi^(|gamma|)(0) (m,)."""
        orders, total = gammas.sum(axis=1), np.zeros(len(gammas))
        pairs = np.prod(np.cumprod([1.0, *range(1, 2 * gammas.max(initial=0), 2)])[gammas], axis=1)
        for weight, form, factors in self._radial:
            phi = form.radial_derivatives(np.zeros((1, 1)), range(orders.min(), orders.max() + 1))
            at_zero = np.array([np.reshape(phi[order], -1)[0] for order in sorted(phi)])
            total += weight * pairs * np.prod(factors ** (2 * gammas), axis=1) * at_zero[orders - orders.min()]
        return total

    @cached_property
    def rates(self) -> Matrix:
        """The norms |D_k| (n,) of derivatives along each feature relative to those of values: inverse length scales."""
        squares = self.squared_norms(np.eye(self.n + 1, self.n, -1, dtype=int))  # of values, and of each derivative
        return np.sqrt(squares[1:] / squares[0])


class PartialDerivatives:
    """The partial derivatives of a sum of representers of radial kernels and a polynomial basis.

    Representers that differ only in features which their kernel ignores are merged: counts and codes leave few distinct
    points.  Representers of derivatives along such features are zero.
    """

    def __init__(self, f: Function) -> None:
        self.f, n = f, f.functionals.dimension
        # f = sum over sources, beta and rows y_i of b_beta,i (-1)^|beta| D_x^beta k(x, y_i)
        self.sources: list[tuple[Form, Matrix, Matrix, dict[Index, Matrix]]] = []
        for block in gram(f.kernel, Evaluation(np.zeros((1, n))), f.functionals).blocks:
            radial = axis_factors(block.kernel, n)
            assert radial is not None, "`check_provable` raises an error for other kernels"
            used = radial[1] != 0
            for part in block.rights:
                points = np.asarray(to_numpy(part.atoms.points), dtype=np.float64)
                _, first, which = unique_rows(points[:, used])
                weights = _along_axes(part.atoms, to_numpy(part.adjoint(block.weight * f.coefficients)))
                merged = {
                    beta: np.bincount(which.reshape(-1), b) for beta, b in weights if not np.any(beta, where=~used)
                }
                self.sources.append((*radial, points[first], merged))

    @property
    def terms(self) -> int:
        """The number of derivatives of representers along the axes of which f is a sum."""
        return sum(len(points) * len(weights) for _, _, points, weights in self.sources)

    def __call__(self, X: Matrix, wanted: Sequence[Index]) -> Matrix:
        """Return D^alpha f at the rows of X (m, n) for each alpha, (m, wanted)."""
        out = np.zeros((len(X), len(wanted)))
        for form, factors, points, weights in self.sources:
            by_gamma: dict[Index, dict[int, Matrix]] = {}  # for each gamma the weights of the columns of `out`
            for (column, alpha), (beta, weight) in itertools.product(enumerate(wanted), weights.items()):
                gamma = plus(alpha, beta)
                if np.all(factors[np.flatnonzero(gamma)]):
                    by_gamma.setdefault(gamma, {})[column] = weight
            height = max(1, 2**14 // max(len(points), 1))  # rows of a tile of 128 KiB, which stays in the cache
            for start in range(0, len(X) if by_gamma else 0, height):
                rows = slice(start, start + height)
                tables = _tables(form, factors, X[rows], points, list(by_gamma))
                for table, columns in zip(tables, by_gamma.values(), strict=True):
                    for column, weight in columns.items():
                        out[rows, column] += table @ weight
                report_progress(min(start + height, len(X)) / len(X))
        for column, alpha in enumerate(wanted):
            if self.f.basis is not None and sum(alpha) <= (polynomial_degree(self.f) or 0):
                out[:, column] += derivative(X, alpha)(self.f.basis) @ to_numpy(self.f.basis_coefficients)
        return out


def _tables(form: Form, factors: Matrix, X: Matrix, Y: Matrix, gammas: Sequence[Index]) -> Iterator[Matrix]:
    """Yield the matrices D^gamma k(x, y) (m, N) for all rows x of X and y of Y, for each gamma."""
    d = {int(k): factors[k] * (X[:, k, None] - Y[:, k]) for k in np.flatnonzero(factors)}
    q = -0.5 * sum((difference * difference for difference in d.values()), start=np.zeros((len(X), len(Y))))
    lowest = min((sum(gamma) + 1) // 2 for gamma in gammas)
    phi = form.radial_derivatives(q, range(lowest, max(map(sum, gammas)) + 1))
    gaussian = all(derivative is phi[lowest] for derivative in phi.values())  # exp is its own derivative
    factor: dict[tuple[int, int], dict[int, Matrix]] = {}  # polynomials in phi for feature k and gamma_k = g
    for k, g in {(k, g) for gamma in gammas for k, g in enumerate(gamma) if g}:
        for j in range(g // 2 + 1):
            number = (-1) ** (g - j) * factors[k] ** g * factorial(g) / (factorial(j) * factorial(g - 2 * j) * 2**j)
            power = 0 if gaussian else g - j
            polynomial = factor.setdefault((k, g), {})
            term = prod([d[k]] * (g - 2 * j), start=number)
            polynomial[power] = polynomial[power] + term if power in polynomial else term
    for gamma in gammas:
        factors_of_gamma = [factor[k, g] for k, g in enumerate(gamma) if g]
        product: dict[int, Any] = reduce(_times, factors_of_gamma) if factors_of_gamma else {0: 1.0}
        yield sum(phi[lowest if gaussian else r] * coefficient for r, coefficient in product.items())


def _times(first: dict[int, Any], second: dict[int, Any]) -> dict[int, Any]:
    """Return the product of two polynomials in phi, given by their coefficients."""
    product: dict[int, Any] = {}
    for (r, a), (s, b) in itertools.product(first.items(), second.items()):
        product[r + s] = product[r + s] + a * b if r + s in product else a * b
    return product


def _along_axes(atoms: Atoms, coefficients: Matrix) -> Iterator[tuple[Index, Matrix]]:
    """Expand atoms with coefficients (t * k,) in derivatives in x along axes: yield multi-indices and weights (t,)."""
    n = atoms.dimension
    weights: dict[Index, Matrix] = {(0,) * n: coefficients.reshape(len(atoms.points), -1)}
    for which in range(atoms.order):
        u, before, weights = to_numpy(atoms.u(which)), weights, {}
        for beta, weight in before.items():
            for k in np.flatnonzero(np.any(u != 0, axis=(0, 1))):
                raised = plus(beta, along([int(k)], n))
                weights[raised] = weights.get(raised, 0.0) + weight * u[..., k]
    for beta, weight in weights.items():
        yield beta, (-1.0) ** sum(beta) * weight.sum(axis=1)
