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

from rkhs.backend.arrays import Array, like, to_numpy
from rkhs.calculus.spaces import Space
from rkhs.finite.basis import on_basis
from rkhs.functionals.base import Functional
from rkhs.gram.landmark_span import LandmarkSpan
from rkhs.gram.operator import gram
from rkhs.gram.span import Span
from rkhs.solvers.observed import SEEN
from rkhs.solvers.spans.orthonormal import Matrix, OrthonormalSpan
from rkhs.solvers.spans.summed import Curvature, Summed


@dataclass(frozen=True, eq=False)
class SpanSpread:
    """The variance of any functionals, given the quadratic terms of a problem on a span.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from rkhs.finite.summary import Summary
    >>> from rkhs.gram.landmark_span import LandmarkSpan
    >>> X = np.array([[0.0], [1.0]])
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), weight=1e6)
    >>> span = LandmarkSpan(rkhs.Gaussian(scale=1.0), rkhs.Evaluation(X))
    >>> spread = SpanSpread.of(Summed(Summary.of(span, None, [term], None)))
    >>> spread.variance(rkhs.Evaluation([[0.0], [0.5], [9.0]])).round(3)
    array([0.  , 0.03, 1.  ])
    """

    span: Span
    space: Space | None
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

    def _variance(self, M: Functional) -> Matrix:
        r = self.curvature.T.shape[1]
        psi, R = to_numpy(self.span.rows(M)), self.map[r:, r:]
        P = np.zeros((M.size, 0)) if self.space is None else on_basis(M, self.space) @ self.map[:r, :r]
        inside = self.curvature.variance(np.concatenate([P, psi @ R], axis=1))
        unseen = np.max(np.abs(P @ self.curvature.unseen), axis=1, initial=0.0)
        lost = unseen > SEEN * np.max(np.abs(P), axis=1, initial=0.0)
        return np.where(lost, inf, self._outside(M, psi, R) + inside)

    def _outside(self, M: Functional, psi: Matrix, R: Matrix) -> Matrix:
        """The variance of what M has outside of the span, no less than zero."""
        kernel, C = self.span.kernel, self.span.constraints
        variance = to_numpy(gram(kernel, M).diagonal()).astype(np.float64)
        if not len(C):
            return np.clip(variance - np.sum((psi @ R) ** 2, axis=1), 0, None)
        assert isinstance(self.span, LandmarkSpan), "features know no constraints"
        wanted = on_basis(M, self.span.null_space).T
        a = np.linalg.lstsq(C, wanted, rcond=None)[0]  # (p, m)
        image = self.span.norm @ a
        variance = variance + np.sum((image - 2 * psi.T) * a, axis=0) - np.sum((R.T @ (psi.T - image)) ** 2, axis=0)
        missed = np.max(np.abs(C @ a - wanted), axis=0) > SEEN * np.max(np.abs(wanted), axis=0)
        return np.where(missed, inf, np.clip(variance, 0, None))
