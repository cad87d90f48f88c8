"""The unpenalized basis functions p_j on functionals: P_ij = L_i(p_j) = Q back^-1 with orthonormal columns Q.

Two things must hold where P is all but singular.  What is nothing but rounding in P is zero in Q, exactly: a solver
would take 1e-17 for a direction in which f may move for free, by 1e17.  And Q = P back to rounding: f = sum_j c_j p_j
with c = back d has the values Qd that its certificate is about.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from rkhs._backend.arrays import Array, Matrix, like, namespace, to_numpy, zeros
from rkhs._calculus.function_spaces import FunctionSpace, Polynomials, SumOfSpaces, multi_indices
from rkhs.functionals._base import Functional, Part
from rkhs.functionals._points import centered

UNITS = 32  # of rounding, relative to magnitudes, in sums of up to a thousand terms
PRIME = 2**31 - 1  # products of two residues fit int64
LARGEST = 200_000  # entries of P up to which its exact rank is computed: about a second


@dataclass(frozen=True, eq=False)
class Basis:
    """Basis functions, seen from the middle of the points, and an orthonormal basis Q = P back of their values.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.array([[1.7e9], [1.7e9 + 1], [1.7e9 + 2]])
    >>> basis = Basis.of(rkhs.Evaluation(X), rkhs.Polynomials(2))
    >>> basis.rank, basis.size
    (3, 3)
    >>> np.allclose(basis.Q, rkhs.Evaluation(X)(basis.space) @ basis.back)
    True
    """

    space: FunctionSpace | None
    Q: Array  # (N, rank), orthonormal, of the namespace and dtype, and on the device, of the functionals
    back: Matrix  # (r, rank), from coefficients of Q to those of the basis functions
    sizes: Array  # (N, rank): entries of Q are right to units of rounding of these

    @classmethod
    def of(cls, functionals: Functional, space: FunctionSpace | None) -> Basis:
        """The basis of a space on functionals; of a space {0} if there is none."""
        place = functionals.prototype[:0]
        if space is None:
            nothing = zeros((functionals.size, 0), place)
            return cls(None, nothing, np.zeros((0, 0)), nothing)
        space = centered(space, [functionals])
        eps = float(np.finfo(to_numpy(place).dtype).eps)
        P, magnitude = _with_magnitude(functionals, space)
        values, back = orthonormal(P, eps)
        return cls(space, like(values, place), back, like(magnitude @ np.abs(back), place))

    @property
    def rank(self) -> int:
        """How many of the basis functions are independent on the functionals."""
        return int(self.back.shape[1])

    def hidden(self, functionals: Functional) -> int:
        """How many of the others are independent too, in exact arithmetic, but not to rounding; 0 if not known."""
        if self.space is None or self.rank == min(self.size, functionals.size):
            return 0
        return max((exact_rank(functionals, self.space) or 0) - self.rank, 0)

    @property
    def size(self) -> int:
        """r, the number of basis functions."""
        return int(self.back.shape[0])


def on_basis(functionals: Functional, space: FunctionSpace | None) -> Matrix:
    """Return P (N, r) in float64, exactly zero where it is nothing but rounding of the precision of the points."""
    if space is None:
        return np.zeros((functionals.size, 0))
    return _with_magnitude(functionals, space)[0]


def _with_magnitude(functionals: Functional, space: FunctionSpace) -> tuple[Matrix, Matrix]:
    """P, and the sizes (N, r) of the numbers that its entries are computed from."""
    xp, points = namespace(functionals.prototype), functionals.prototype[:0]
    double = functionals if points.dtype == xp.float64 else functionals.like(xp.astype(points, xp.float64))
    P = to_numpy(double.assemble(space.on))
    if not np.all(np.isfinite(P)):
        raise ValueError(
            f"The values of {space!r} on {functionals!r} are not all finite: take basis functions that are, or other "
            "units for the points."
        )
    magnitude = to_numpy(double.absolute().assemble(space.magnitude))
    eps = float(np.finfo(to_numpy(points).dtype).eps)
    return np.where(np.abs(P) <= UNITS * eps * magnitude, 0.0, P), magnitude


def orthonormal(P: Matrix, eps: float) -> tuple[Matrix, Matrix]:
    """Q (N, rank) with orthonormal columns that span those of P, right to eps, and the map back (r, rank): Q = P back.

    Rows of zeros stay zero, because Q is computed as a product.
    """
    sizes = np.abs(P).max(axis=0, initial=0.0)
    scale = np.where(sizes > 0, sizes, 1.0)
    R, pivots = scipy.linalg.qr(np.linalg.qr(P / scale, mode="r"), mode="r", pivoting=True)  # of N rows only once
    diagonal = np.abs(np.diag(R))
    # A column depends on the others where it leaves less than 8 units of rounding for each row.
    tolerance = max(8 * float(np.finfo(np.float64).eps) * max(P.shape, default=0), UNITS * eps)
    rank = int(np.sum(diagonal > tolerance * diagonal.max(initial=0.0)))
    back = np.zeros((P.shape[1], rank))
    back[pivots[:rank]] = scipy.linalg.solve_triangular(R[:rank, :rank], np.eye(rank))
    back /= scale[:, None]
    rough = P @ back
    R = np.linalg.cholesky(rough.T @ rough).T  # what rounding has left to do: R is near the identity
    back = scipy.linalg.solve_triangular(R, back.T, trans="T").T
    Q = P @ back
    # Q is made orthonormal again at the cost of Q = P back to more than rounding.
    if np.max(np.abs(Q.T @ Q - np.eye(rank)), initial=0.0) > 1e-12:
        Q = scipy.linalg.solve_triangular(R, rough.T, trans="T").T
    return Q, np.ascontiguousarray(back)


def joined(basis: FunctionSpace | None, null_space: FunctionSpace) -> FunctionSpace | None:
    """The span of both, without repetition where that is easy to see; None if there is nothing in it."""
    spaces = [s for s in (basis, null_space) if s is not None and not (isinstance(s, Polynomials) and s.degree < 0)]
    if len(spaces) < 2:
        return spaces[0] if spaces else None
    plain = [s for s in spaces if isinstance(s, Polynomials) and s.linear is None]
    if len(plain) == len(spaces):
        return max(plain, key=lambda s: s.degree)
    return SumOfSpaces(tuple(spaces))


def exact_rank(functionals: Functional, space: FunctionSpace | None) -> int | None:
    """Return the rank of P_ij = L_i(p_j) in exact arithmetic, or None where it is not known.

    Floating-point numbers are integers times powers of two, so values of polynomials at them, derivatives and averages
    included, are rational numbers with denominators of that kind.  Their residues modulo a prime are computed exactly,
    and the rank of the residues is at most the rank over the rationals: less only if the prime divides a certain
    determinant, which happens with a probability of about N / PRIME.  The rank is known for polynomials of the
    coordinates, and functionals whose averages have diagonal covariances.

    Examples
    --------
    >>> import rkhs
    >>> exact_rank(rkhs.Evaluation([[0.0], [1.0], [1.0 + 1e-15]]), rkhs.Polynomials(2))
    3
    """
    spaces = space.spaces if isinstance(space, SumOfSpaces) else (space,)
    degrees = [s.degree for s in spaces if isinstance(s, Polynomials) and s.linear is None]
    blurs = [part.atoms.blur for part in functionals.parts]
    if len(degrees) < len(spaces) or any(blur is not None and blur.ndim == 2 for blur in blurs):
        return None
    powers = multi_indices(max(degrees), range(functionals.dimension), functionals.dimension)
    if functionals.size * len(powers) > LARGEST:
        return None
    P = np.zeros((functionals.size, len(powers)), dtype=np.int64)
    for part in functionals.parts:
        P[part.rows] = (P[part.rows] + _part(part, powers)) % PRIME
    return _rank(P)


def _part(part: Part, powers: list[tuple[int, ...]]) -> Matrix:
    """The values (rows, r) of a part on monomials."""
    atoms = part.atoms
    t, k, m, n = int(atoms.points.shape[0]), atoms.per_point, atoms.order, atoms.dimension
    x = np.repeat(_residues(atoms.points), k, axis=0)  # (t k, n)
    directions = np.broadcast_to(_residues(atoms.directions), (t, k, m, n)).reshape(t * k, m, n)
    blur = np.zeros(n, dtype=np.int64) if atoms.blur is None else _residues(atoms.blur)
    known: dict[tuple[tuple[int, ...], int], Matrix] = {}

    def value(e: tuple[int, ...], order: int) -> Matrix:
        """D_{u_1} .. D_{u_order} of the average of x^e, (t k,); see `calculus.polynomials`."""
        if (e, order) not in known:
            found = np.zeros(len(x), dtype=np.int64)
            if order:
                for d in (d for d in range(n) if e[d]):
                    slope = directions[:, order - 1, d] * value(_less(e, d), order - 1) % PRIME
                    found = (found + e[d] * slope) % PRIME
            elif not any(e):
                found += 1
            else:
                d = next(d for d in range(n) if e[d])
                b = _less(e, d)
                found = x[:, d] * value(b, 0) % PRIME
                if b[d]:
                    found = (found + b[d] * (blur[d] * value(_less(b, d), 0) % PRIME)) % PRIME
            known[e, order] = found
        return known[e, order]

    values = np.stack([value(e, m) for e in powers], axis=1)
    matrix = scipy.sparse.coo_array(part.as_matrix() if _sparse(part) else to_numpy(part.as_matrix()))
    found = np.zeros((part.size, len(powers)), dtype=np.int64)
    np.add.at(found, matrix.row, _residues(matrix.data)[:, None] * values[matrix.col] % PRIME)
    return found % PRIME


def _sparse(part: Part) -> bool:
    return part.matrix is None or scipy.sparse.issparse(part.matrix)


def _less(e: tuple[int, ...], d: int) -> tuple[int, ...]:
    return (*e[:d], e[d] - 1, *e[d + 1 :])


def _residues(numbers: Any) -> Matrix:
    """Floating-point numbers modulo the prime, in int64."""
    mantissas, powers = np.frexp(to_numpy(numbers).astype(np.float64))
    different, which = np.unique(powers.astype(int) - 53, return_inverse=True)
    factors = np.array([pow(2, int(power), PRIME) for power in different], dtype=np.int64)
    return np.ldexp(mantissas, 53).astype(np.int64) % PRIME * factors[which].reshape(powers.shape) % PRIME


def _rank(A: Matrix) -> int:
    """The rank of a matrix over the integers modulo the prime, by elimination."""
    rank = 0
    for column in range(A.shape[1]):
        pivots = np.flatnonzero(A[rank:, column])
        if len(pivots) == 0:
            continue
        A[[rank, rank + pivots[0]]] = A[[rank + pivots[0], rank]]
        row = A[rank] * pow(int(A[rank, column]), -1, PRIME) % PRIME
        below = A[rank + 1 :, column].copy()
        A[rank + 1 :] = (A[rank + 1 :] - below[:, None] * row % PRIME) % PRIME
        rank += 1
    return rank
