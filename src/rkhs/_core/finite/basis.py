"""Unpenalized basis functions p_j on functionals: an orthonormal basis Q = P back of the columns of P_ij = L_i(p_j).

Two properties must hold even if P is nearly singular.  Entries of P that are rounding errors must be exactly zero in Q:
otherwise a solver would treat 1e-17 as a direction in which f can move freely, by 1e17.  And Q = P back must hold to
rounding: then f = sum_j c_j p_j with c = back d has the values Q d for which the certificate is computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse

from rkhs._core.backend.arrays import Array, Matrix, double, like, namespace, to_numpy, zeros
from rkhs._core.calculus.atoms import Atoms
from rkhs._core.calculus.function_spaces import FunctionSpace, Polynomials, SumOfSpaces, moment, multi_indices
from rkhs.functionals._base import Functional, Part, centered

UNITS = 32  # rounding error of entries of P in units of eps * magnitude, for sums of up to a thousand terms
PRIME = 2**31 - 1  # the modulus of `exact_rank`; products of two residues fit int64
UNDETERMINED = 1e-9  # basis functions of norm one on all rows count as zero on a subset below this norm
LARGEST = 200_000  # largest number of entries of P for which the exact rank is computed, which takes about a second


@dataclass(frozen=True, eq=False)
class Basis:
    """Basis functions in coordinates centered on the points, and an orthonormal basis Q = P back of their values.

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
    Q: Array  # (N, rank), orthonormal, with the namespace, dtype and device of the functionals
    back: Matrix  # (r, rank), from coefficients in Q to coefficients in the basis functions
    sizes: Array  # (N, rank), magnitudes: the rounding errors of Q are of the order of eps times these

    @classmethod
    def of(cls, functionals: Functional, space: FunctionSpace | None) -> Basis:
        """Return the basis of a space on functionals; without a space, that of {0}."""
        prototype = functionals.prototype[:0]
        if space is None:
            empty = zeros((functionals.size, 0), prototype)
            return cls(None, empty, np.zeros((0, 0)), empty)
        space = centered(space, [functionals])
        eps = float(np.finfo(to_numpy(prototype).dtype).eps)
        P, magnitude = _with_magnitude(functionals, space)
        values, back = orthonormal(P, eps)
        return cls(space, like(values, prototype), back, like(magnitude @ np.abs(back), prototype))

    @property
    def rank(self) -> int:
        """The number of basis functions that are linearly independent on the functionals."""
        return int(self.back.shape[1])

    def hidden(self, functionals: Functional) -> int:
        """Return the exact rank minus the numerical rank, or 0 if the exact rank is not known."""
        if self.space is None or self.rank == min(self.size, functionals.size):
            return 0
        return max((exact_rank(functionals, self.space) or 0) - self.rank, 0)

    @property
    def size(self) -> int:
        """The number r of basis functions."""
        return int(self.back.shape[0])


def on_basis(functionals: Functional, space: FunctionSpace | None) -> Matrix:
    """Apply functionals to basis functions.

    Entries at the level of the rounding errors of the points are exactly zero.

    Parameters
    ----------
    functionals : Functional
        The functionals L_i.
    space : FunctionSpace or None
        The basis functions p_j.

    Returns
    -------
    ndarray of shape (size, r)
        The values L_i(p_j) in float64.

    Examples
    --------
    >>> import rkhs
    >>> rkhs.extend.on_basis(rkhs.Evaluation([[2.0], [3.0]]), rkhs.Polynomials(1))
    array([[1., 2.],
           [1., 3.]])
    """
    if space is None:
        return np.zeros((functionals.size, 0))
    return _with_magnitude(functionals, space)[0]


def _with_magnitude(functionals: Functional, space: FunctionSpace) -> tuple[Matrix, Matrix]:
    """Return P and the magnitudes (N, r) of the terms whose sums its entries are."""
    xp, points = namespace(functionals.prototype), functionals.prototype[:0]
    double = functionals if points.dtype == xp.float64 else functionals.like(xp.astype(points, xp.float64))
    P = to_numpy(double.assemble(space.on))
    if not np.all(np.isfinite(P)):
        raise ValueError(
            f"The values of {space!r} on {functionals!r} are not all finite: use basis functions with finite values, "
            "or rescale the points."
        )
    magnitude = to_numpy(double.absolute().assemble(space.magnitude))
    eps = float(np.finfo(to_numpy(points).dtype).eps)
    return np.where(np.abs(P) <= UNITS * eps * magnitude, 0.0, P), magnitude


def orthonormal(P: Matrix, eps: float) -> tuple[Matrix, Matrix]:
    """Return Q (N, rank) with orthonormal columns that span those of P, whose precision is eps, and Q = P back.

    Zero rows of P stay exactly zero, because Q is computed as a product.
    """
    sizes = np.abs(P).max(axis=0, initial=0.0)
    scale = np.where(sizes > 0, sizes, 1.0)
    # Pivoting is slow, so that it is applied to the small factor R of an unpivoted factorization of the N rows.
    R, pivots = scipy.linalg.qr(np.linalg.qr(P / scale, mode="r"), mode="r", pivoting=True)
    # |R_kk| is the distance of column k from the span of those before it
    diagonal = np.abs(np.diag(R))
    # A column is dependent on the others if its residual is below 8 units of rounding per row.
    tolerance = max(8 * float(np.finfo(np.float64).eps) * max(P.shape, default=0), UNITS * eps)
    rank = int(np.sum(diagonal > tolerance * diagonal.max(initial=0.0)))
    back = np.zeros((P.shape[1], rank))
    # back = R^-1 on the chosen columns, so that P back is orthonormal up to cond(P) eps
    back[pivots[:rank]] = scipy.linalg.solve_triangular(R[:rank, :rank], np.eye(rank))
    back /= scale[:, None]
    # Q'Q = R'R for Q = P back: Q R^-1 is orthonormal (Cholesky QR twice)
    rough = P @ back
    R = np.linalg.cholesky(rough.T @ rough).T  # one step of reorthogonalization: R is close to the identity
    back = scipy.linalg.solve_triangular(R, back.T, trans="T").T
    Q = P @ back
    # If Q is not orthonormal yet, orthogonality has priority, and Q = P back holds less accurately.
    if np.max(np.abs(Q.T @ Q - np.eye(rank)), initial=0.0) > 1e-12:
        Q = scipy.linalg.solve_triangular(R, rough.T, trans="T").T
    return Q, np.ascontiguousarray(back)


def joined(basis: FunctionSpace | None, null_space: FunctionSpace) -> FunctionSpace | None:
    """Return the sum of a basis and a null space, without duplicate polynomials if possible; None for {0}."""
    spaces = [s for s in (basis, null_space) if s is not None and not (isinstance(s, Polynomials) and s.degree < 0)]
    if len(spaces) < 2:
        return spaces[0] if spaces else None
    plain = [s for s in spaces if isinstance(s, Polynomials) and s.linear is None]
    if len(plain) == len(spaces):
        return max(plain, key=lambda s: s.degree)
    return SumOfSpaces(tuple(spaces))


def exact_rank(functionals: Functional, space: FunctionSpace | None) -> int | None:
    """Return the rank of P_ij = L_i(p_j) in exact arithmetic, or None if it cannot be computed.

    Floating-point numbers are integers times powers of two, so that polynomials at them, with derivatives and averages,
    are rational numbers whose denominators are powers of two.  Their residues modulo a prime are computed exactly.  The
    rank of the residues is at most the rank over the rationals, and smaller only if the prime divides a certain
    determinant, which has a probability of about N / PRIME.  The method applies to polynomials in the coordinates and
    functionals whose averages have diagonal covariances.

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
        # P_ij = L_i(x^e_j) mod PRIME: sums and products of residues are residues of sums and products
        P[part.rows] = (P[part.rows] + _part(part, powers)) % PRIME
    return _rank(P)


class Residues(np.ndarray[Any, Any]):
    """Integers (int64) modulo the prime, whose sums and products are residues again."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = (np.asarray(one) if isinstance(one, Residues) else one for one in inputs)
        return (getattr(ufunc, method)(*plain, **options) % PRIME).view(Residues)


def _part(part: Part, powers: list[tuple[int, ...]]) -> Matrix:
    """Return the residues (rows, r) of the values of a part on monomials."""
    blur = None if part.atoms.blur is None else _residues(part.atoms.blur)
    atoms = Atoms(_residues(part.atoms.points), _residues(part.atoms.directions), blur)
    shape = (len(atoms.points), atoms.per_point)
    known: dict[tuple[tuple[int, ...], int], Array] = {}
    # E[D x^e] at all atoms, by the recursions for floating-point numbers
    values = np.stack([np.broadcast_to(moment(e, atoms.order, atoms, known), shape).ravel() for e in powers], axis=1)
    sparse = part.matrix is None or scipy.sparse.issparse(part.matrix)
    matrix = scipy.sparse.coo_array(part.as_matrix() if sparse else to_numpy(part.as_matrix()))
    result = np.zeros((part.size, len(powers)), dtype=np.int64)
    np.add.at(result, matrix.row, np.asarray(_residues(matrix.data)[:, None] * values[matrix.col]))
    return result % PRIME


def _residues(numbers: Any) -> Matrix:
    """Return floating-point numbers as `Residues`."""
    mantissas, powers = np.frexp(double(numbers))
    different, which = np.unique(powers.astype(int) - 53, return_inverse=True)
    factors = np.array([pow(2, int(power), PRIME) for power in different], dtype=np.int64)
    integers = np.ldexp(mantissas, 53).astype(np.int64) % PRIME
    return integers.view(Residues) * factors[which].reshape(powers.shape)


def _rank(A: Matrix) -> int:
    """Return the rank of a matrix over the integers modulo the prime, by Gaussian elimination."""
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


def check_determined(undetermined: Matrix, M: Functional) -> None:
    """Raise ValueError if some functionals depend on basis functions that nothing determines."""
    if np.any(undetermined):
        raise ValueError(
            f"{M!r} depends on a basis function that no Squared term determines, so its variance is infinite: "
            "add such a term, or omit the basis."
        )


def largest_entries(rows: Matrix) -> Matrix:
    """Return the largest absolute entry of each row."""
    return np.max(np.abs(rows), axis=1, initial=0.0)
