"""The rank of polynomials on functionals without rounding.

Floating-point numbers are integers times powers of two, so values of polynomials at them, derivatives and averages
included, are rational numbers with denominators of that kind.  Their residues modulo a prime are computed exactly, and
the rank of the residues is at most the rank over the rationals: less only if the prime divides a certain determinant,
which happens with a probability of about N / PRIME.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from rkhs._backend.arrays import to_numpy
from rkhs._calculus.function_spaces import FunctionSpace, Polynomials, SumOfSpaces, exponents
from rkhs.functionals.base import Functional, Part

PRIME = 2**31 - 1  # products of two residues fit int64
LARGEST = 200_000  # entries of P up to which its rank is computed: about a second
Residues = np.ndarray[Any, Any]


def exact_rank(functionals: Functional, space: FunctionSpace | None) -> int | None:
    """Return the rank of P_ij = L_i(p_j) in exact arithmetic, or None where it is not known.

    It is known for polynomials of the coordinates, and functionals whose averages have diagonal covariances.

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
    powers = exponents(functionals.dimension, max(degrees))
    if functionals.size * len(powers) > LARGEST:
        return None
    P = np.zeros((functionals.size, len(powers)), dtype=np.int64)
    for part in functionals.parts:
        P[part.rows] = (P[part.rows] + _part(part, powers)) % PRIME
    return _rank(P)


def _part(part: Part, powers: list[tuple[int, ...]]) -> Residues:
    """The values (rows, r) of a part on monomials."""
    atoms = part.atoms
    t, k, m, n = int(atoms.points.shape[0]), atoms.per_point, atoms.order, atoms.dimension
    x = np.repeat(_residues(atoms.points), k, axis=0)  # (t k, n)
    directions = np.broadcast_to(_residues(atoms.directions), (t, k, m, n)).reshape(t * k, m, n)
    blur = np.zeros(n, dtype=np.int64) if atoms.blur is None else _residues(atoms.blur)
    known: dict[tuple[tuple[int, ...], int], Residues] = {}

    def value(e: tuple[int, ...], order: int) -> Residues:
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


def _residues(numbers: Any) -> Residues:
    """Floating-point numbers modulo the prime, in int64."""
    mantissas, powers = np.frexp(to_numpy(numbers).astype(np.float64))
    different, which = np.unique(powers.astype(int) - 53, return_inverse=True)
    factors = np.array([pow(2, int(power), PRIME) for power in different], dtype=np.int64)
    return np.ldexp(mantissas, 53).astype(np.int64) % PRIME * factors[which].reshape(powers.shape) % PRIME


def _rank(A: Residues) -> int:
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
