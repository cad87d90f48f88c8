"""The spread of f in a span, given terms of squared losses.

A Gaussian process with covariance k splits into its part in the span, with independent standard normal coefficients
tau on orthonormal functions, and a part that is independent of it.  Given the terms, (c, tau) has the covariance
(S + diag(0, I))^-1 (`summed`), flat in the basis functions at first; so a functional M has the variance

    k_MM - |e|^2  +  E (S + diag(0, I))^-1 E',        e = M(psi R),  E = [M(p), e]

The first difference is what M has outside of the span.  Where the functionals of all terms are among the landmarks the
terms say nothing about it, and the sum is the variance of `WarpedGram`.  Else they would, and the sum leaves that out:
it is the variance of the best Gaussian approximation whose part outside of the span is as it was before any data.
For features, which stand for k themselves, nothing is outside.

Conditionally positive definite kernels have k_MM - |e|^2 after an a with the polynomials of M was taken from it: the
variance of M - sum_b a_b L_b, for the landmarks L, instead of that of M, which is not defined.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
import scipy.linalg

from rkhs._backend.arrays import Array, Matrix, like, to_numpy
from rkhs._calculus.function_spaces import FunctionSpace
from rkhs._finite.basis import on_basis
from rkhs._gram.landmark_span import LandmarkSpan
from rkhs._gram.operator import gram
from rkhs._gram.span import Span
from rkhs.functionals.base import Functional
from rkhs.solvers.observed import SEEN
from rkhs.solvers.spans.curvature import Curvature
from rkhs.solvers.spans.orthonormal import OrthonormalSpan
from rkhs.solvers.spans.summed import Summed


@dataclass(frozen=True, eq=False)
class SpanSpread:
    """The variance of any functionals, given the quadratic terms of a problem on a span.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from rkhs._finite.summary import Summary
    >>> from rkhs._gram.landmark_span import LandmarkSpan
    >>> X = np.array([[0.0], [1.0]])
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), weight=1e6)
    >>> span = LandmarkSpan(rkhs.Gaussian(scale=1.0), rkhs.Evaluation(X))
    >>> spread = SpanSpread.of(Summed(Summary.of(span, None, [term], None)))
    >>> spread.variance(rkhs.Evaluation([[0.0], [0.5], [9.0]])).round(3)
    array([0.  , 0.03, 1.  ])
    """

    span: Span
    space: FunctionSpace | None
    map: Matrix  # (r + p, m), from theta to (c, tau) of the span
    curvature: Curvature

    @classmethod
    def of(cls, summed: Summed) -> SpanSpread:
        """From the sums of a problem, all of whose losses are squared."""
        assert summed.quadratic, "a loss is not squared"
        cell, span, columns = summed.cell(), summed.summary.span, summed.map
        if isinstance(span, OrthonormalSpan):
            columns, span = scipy.linalg.block_diag(np.eye(summed.rank), span.turn) @ columns, span.span
        return cls(span, summed.summary.space, columns[:, : cell.told], cell.curvature)

    def variance(self, M: Functional) -> Array:
        """(m,), infinite where M sees a basis function that no term does; some rows at a time, as M's arrays are."""
        tall = self.span.tall
        pieces = [self._variance(M.take(slice(start, start + tall))) for start in range(0, M.size, tall)]
        return like(np.concatenate([np.zeros(0), *pieces]), M.prototype)

    def within(self, M: Functional) -> Matrix:
        """(m,): the part of the variance that is in the span."""
        tall = self.span.tall
        pieces = [self._rows(M.take(slice(start, start + tall))).E for start in range(0, M.size, tall)]
        return np.concatenate([np.zeros(0), *map(self.curvature.variance, pieces)])

    def covariance(self, M: Functional) -> Array:
        """(m, m)."""
        rows = self._rows(M)
        if np.any(rows.lost):
            raise ValueError(
                f"{M!r} sees a basis function that no Squared term determines, so its variance is infinite: "
                "add such a term, or leave the basis out."
            )
        found = self.curvature.covariance(rows.E)
        if isinstance(self.span, LandmarkSpan):
            found += to_numpy(gram(self.span.kernel, M).dense()) - rows.outside.T @ rows.outside
            found += rows.moved.T @ rows.image - rows.psi @ rows.moved - (rows.psi @ rows.moved).T
        return like((found + found.T) / 2, M.prototype)

    def _variance(self, M: Functional) -> Matrix:
        rows = self._rows(M)
        outside = to_numpy(gram(self.span.kernel, M).diagonal()).astype(np.float64)
        outside += np.sum((rows.image - 2 * rows.psi.T) * rows.moved, axis=0) - np.sum(rows.outside**2, axis=0)
        return np.where(rows.lost, inf, np.clip(outside, 0, None) + self.curvature.variance(rows.E))

    def _rows(self, M: Functional) -> _Rows:
        """What M makes of the functions of the span."""
        r = self.curvature.T.shape[1]
        psi, R, C = to_numpy(self.span.rows(M)), self.map[r:, r:], self.span.constraints
        P = np.zeros((M.size, 0)) if self.space is None else on_basis(M, self.space) @ self.map[:r, :r]
        unseen = np.max(np.abs(P @ self.curvature.unseen), axis=1, initial=0.0)
        lost = unseen > SEEN * np.max(np.abs(P), axis=1, initial=0.0)
        moved = np.zeros((psi.shape[1], M.size))
        if len(C):
            assert isinstance(self.span, LandmarkSpan), "features know no constraints"
            wanted = on_basis(M, self.span.null_space).T
            moved = np.linalg.lstsq(C, wanted, rcond=None)[0]
            lost |= np.max(np.abs(C @ moved - wanted), axis=0) > SEEN * np.max(np.abs(wanted), axis=0)
        image = self.span.norm @ moved if len(C) else moved
        return _Rows(np.concatenate([P, psi @ R], axis=1), psi, moved, image, R.T @ (psi.T - image), lost)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Functionals on the functions of a span."""

    E: Matrix  # (m, r + k): on basis functions and on orthonormal ones
    psi: Matrix  # (m, p)
    moved: Matrix  # (p, m), the a of conditionally positive definite kernels, else zero
    image: Matrix  # (p, m), K a
    outside: Matrix  # (k, m), the orthonormal functions on M - sum_b a_b L_b
    lost: Matrix  # (m,), whether a basis function that they see is not determined
