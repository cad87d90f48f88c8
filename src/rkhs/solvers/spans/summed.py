"""A problem on a span of p functions, from the sums of its terms: small, solved to rounding, certified with what it is.

In orthonormal functions of the span the problem is, for each output,

    min over theta = (c, tau)   1/2 |tau|^2 + 1/2 theta'S theta + linear'theta + constant + sum_i w_i loss_i(E_i theta)

with S = 2M from the moments of all quadratic terms.  They are turned into these functions once; each cell of a grid of
weights and folds is then a combination of p x p matrices, some of its rows and columns, and a Cholesky factorisation
(`cell`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from time import perf_counter
from typing import Any

import numpy as np
import scipy.linalg

from rkhs._backend.arrays import Matrix
from rkhs._finite.certificate import Certificate
from rkhs._finite.moments import Kept, KeptBlock, Moments
from rkhs._finite.summary import Summary
from rkhs.losses.base import Loss
from rkhs.solvers.spans.cell import Cell, Output
from rkhs.solvers.spans.orthonormal import Orthonormal, OrthonormalSpan
from rkhs.solvers.spans.rounding import Sizes

DEAR = 1e12  # operations, up to which rows are turned before they are summed up


@dataclass(frozen=True, eq=False)
class Found:
    """Coefficients tau (p, c) of the psi and c (r, c) of the basis functions, and the certificate."""

    tau: Matrix
    basis: Matrix
    certificate: Certificate
    theta: Matrix  # (m, c), from which a solution for other weights can start


class Summed:
    """A summary in orthonormal functions; `images` gives rows that were too many to keep: (term, map) -> E."""

    def __init__(self, summary: Summary, images: Any = None) -> None:
        self.images, self.rank = images, summary.rank
        self.functions = Orthonormal.of(summary.span)
        self.map = scipy.linalg.block_diag(np.eye(self.rank), self.functions.map)  # (r + p, m)
        self.losses = [term.loss for term in summary.terms]
        self.sizes = [self._size(term) for term in summary.terms]
        self.strongest = [term.strongest if isinstance(term, Moments) else 0.0 for term in summary.terms]
        self.count = sum(term.count for term in summary.terms if isinstance(term, Moments))
        self.terms = [self._turned(term) for term in summary.terms]
        self.summary = replace(summary, terms=())  # the sums as they were are not needed any more

    def _size(self, term: Moments | Kept) -> Matrix:
        """(2, 3), the norms of the moments of basis functions and psi D with each other and with targets."""
        if isinstance(term, Kept):
            return np.zeros((2, 3))
        D, r = np.concatenate([np.ones(self.rank), self.functions.D]), self.rank
        square, linear = D[:, None] * term.square * D, D[:, None] * term.linear
        across = np.linalg.norm(square[:, :r, r:])
        own, other = (
            [np.linalg.norm(square[:, some, some]), np.linalg.norm(linear[:, some])]
            for some in (slice(r), slice(r, None))
        )
        return term.cancelled * np.array([[own[0], across, own[1]], [across, other[0], other[1]]])

    def _turned(self, term: Moments | Kept) -> Moments | KeptBlock | Kept:
        if isinstance(term, Moments):
            return term.turned(self.map)
        if not term.count:
            return term
        if term.blocks is None and self.images is None:
            raise MemoryError(
                f"{term.count} rows have the loss {term.loss!r}, too many to keep their {len(self.map)} features "
                "each. Use a squared loss, which is summed up, or an estimator or rkhs.StreamedProblem with rows "
                "that can be read again: arrays, files, or a function that returns an iterator."
            )
        return term if term.blocks is None else term.joined().turned(self.map)

    @property
    def quadratic(self) -> bool:
        """Whether all losses are squared."""
        return all(loss.quadratic for loss in self.losses)

    @property
    def free(self) -> int:
        """N - r of squared losses: targets that neither the basis nor terms whose targets are all zero explain."""
        terms = [term for term in self.terms if isinstance(term, Moments)]
        given = [term for term in terms if not np.any(term.constant > 0)]

        def rank(some: list[Moments]) -> int:
            total = sum((term.weighted(1.0)[0][: self.rank, : self.rank] for term in some), np.zeros((self.rank,) * 2))
            return int(np.linalg.matrix_rank(total, hermitian=True)) if self.rank else 0

        data = sum(term.count for term in terms) - sum(term.count for term in given)
        return data - rank(terms) + rank(given)

    def turned(self, rows: int) -> OrthonormalSpan | None:
        """The span whose sums keep the digits that these lost; None if so many rows take too long, or it is one."""
        span = self.summary.span
        dear = rows * span.size**2 > DEAR or isinstance(span, OrthonormalSpan)
        if dear or not any(loss.quadratic for loss in self.losses):
            return None
        return OrthonormalSpan.of(span, self.functions)

    @property
    def independent(self) -> tuple[int, int]:
        """How many of the functions rounding tells apart, and how many there are."""
        return len(self.functions.values), self.summary.span.size

    def solve(
        self,
        tol: float,
        factors: Sequence[Any] | None = None,
        near: Matrix | None = None,
        seconds: float = inf,
    ) -> Found:
        """The solution with a factor, or one for each group of rows, on the weights of each term; from one nearby.

        It raises `Stopped` after so many seconds.
        """
        ends = perf_counter() + seconds
        cell = self.cell(factors)
        found = []
        for c in range(cell.linear.shape[1]):
            start = None if near is None else near[:, c]
            found.append(Output(cell, c).solved(tol, start, ends - perf_counter()))
        theta = np.stack([one[0] for one in found], axis=1)
        whole = self.map @ theta
        return Found(whole[self.rank :], whole[: self.rank], Certificate.joined([one[1] for one in found]), theta)

    def cell(self, factors: Sequence[Any] | None = None) -> Cell:
        """The sums for some weights."""
        own = [1.0] * len(self.terms) if factors is None else factors
        size, outputs = self.map.shape[1], self.summary.outputs or 1
        S, linear, constant = np.zeros((size, size)), np.zeros((size, outputs)), np.zeros(outputs)
        rows: list[tuple[Loss, Any, Matrix, Matrix, Matrix]] = []
        norms = np.zeros((2, 3))
        for k, (term, factor) in enumerate(zip(self.terms, own, strict=True)):
            if isinstance(term, Moments):
                square, cross, own_constant = term.weighted(factor)
                S, linear, constant = S + 2 * square, linear - 2 * cross, constant + own_constant
                norms += 2 * np.max(factor) * self.sizes[k]
            elif isinstance(term, KeptBlock):
                block = term.weighted(factor)
                if len(block.weight):
                    rows.append((self.losses[k], block.E, block.target, block.weight, block.sizes))
            elif term.count:
                rows.append((term.loss, *self.images(k, self.map), np.ones((1, 1 + self.rank))))
        told = self.rank + self.functions.told_by(float(norms[1, 1]))
        numbers = Sizes(*self._lengths, norms, self._strong(own), self.count, self.resolved.largest)
        return Cell((S + S.T) / 2, linear, constant, rows, self.rank, told, numbers)

    @property
    def resolved(self) -> Orthonormal:
        """The functions whose coefficients are those of the span, whether rows were turned or not."""
        span = self.summary.span
        return span.functions if isinstance(span, OrthonormalSpan) else self.functions

    @property
    def _lengths(self) -> tuple[Matrix, Matrix]:
        """(m,) each: of the coefficients of psi D for one of each function, in the span, and in what was summed up."""
        summed = 1 / np.sqrt(self.functions.values)
        if self.resolved is self.functions:
            return summed, summed
        turned = self.functions.map / np.sqrt(self.resolved.values)[:, None]  # they may come in another order here
        return np.linalg.norm(turned, axis=0), summed

    def _strong(self, factors: Sequence[Any]) -> float:
        """The largest weight times the square of the numbers behind a row that was turned and then summed up."""
        if self.resolved is self.functions:
            return 0.0
        return sum(float(np.max(factor)) * k for k, factor in zip(self.strongest, factors, strict=True))
