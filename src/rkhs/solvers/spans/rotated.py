"""From the sums of a span to its small problem, for any weights.

In eigenfunctions of K (`whitening`) the functions differ by factors only from orthonormal ones, whichever of them the
weights leave.  So the sums of all terms, and the rows that were kept, are turned once; then each cell of a grid of
weights and folds is a combination of p x p matrices, some of its rows and columns, and a Cholesky factorisation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.linalg

from rkhs.finite.moments import Kept, KeptBlock, Moments
from rkhs.finite.summary import Summary
from rkhs.losses.base import Loss
from rkhs.solvers.spans.projected import EPS, Part, Projected, Small
from rkhs.solvers.spans.whitening import Eigenfunctions, Matrix


class Rotated:
    """A summary in the eigenfunctions of its span; `images` gives rows that were too many to keep: (term, map) -> E."""

    def __init__(self, summary: Summary, images: Any = None) -> None:
        self.images, self.rank = images, summary.rank
        self.functions = Eigenfunctions.of(summary.span.norm, summary.span.constraints)
        self.turn = scipy.linalg.block_diag(np.eye(self.rank), self.functions.V)
        self.terms = [self._turned(term) for term in summary.terms]
        self.losses = [term.loss for term in summary.terms]
        self.summary = replace(summary, terms=())  # the sums as they were are not needed any more

    def _turned(self, term: Moments | Kept) -> Moments | KeptBlock | Kept:
        if isinstance(term, Moments):
            return term.turned(self.turn)
        if not term.count:
            return term
        if term.blocks is None and self.images is None:
            raise MemoryError(
                f"{term.count} rows have the loss {term.loss!r}, too many to keep their {len(self.turn)} features "
                "each. Use a squared loss, which is summed up, or an estimator or rkhs.StreamedProblem with rows "
                "that can be read again: arrays, files, or a function that returns an iterator."
            )
        return term if term.blocks is None else term.joined().turned(self.turn)

    def solve(
        self, tol: float, factors: Sequence[Any] | None = None, near: Matrix | None = None
    ) -> tuple[Projected, Matrix]:
        """The solution with a factor, or one for each group of rows, on the weights of each term.

        With it its coefficients in the eigenfunctions, from which a solution for other weights can start (`near`).
        """
        small, scale = self.small(factors)
        found = small.solve(tol, None if near is None else near[: len(scale)] / scale[:, None])
        turned = np.zeros((self.turn.shape[1], found.theta.shape[1]))
        turned[: len(scale)] = scale[:, None] * found.theta
        return found, turned

    def small(self, factors: Sequence[Any] | None = None) -> tuple[Small, Matrix]:
        """The problem in the first functions, and the factors that make them orthonormal."""
        own = [1.0] * len(self.terms) if factors is None else factors
        r, size, outputs = self.rank, self.turn.shape[1], self.summary.outputs or 1
        S, linear, constant = np.zeros((size, size)), np.zeros((size, outputs)), np.zeros(outputs)
        rows: list[tuple[int, Loss, KeptBlock | None]] = []
        for k, (term, factor) in enumerate(zip(self.terms, own, strict=True)):
            if isinstance(term, Moments):
                square, cross, own_constant = term.weighted(factor)
                S, linear, constant = S + 2 * square, linear - 2 * cross, constant + own_constant
            elif isinstance(term, KeptBlock):
                rows.append((k, self.losses[k], term.weighted(factor)))
            elif term.count:
                rows.append((k, term.loss, None))
        basis = _sizes(np.diag(S)[:r], [block for _, _, block in rows if block is not None])
        kept = self.functions.values[: self.functions.kept(S[r:, r:], EPS)]
        scale = 1 / np.concatenate([basis, np.sqrt(kept)])
        m = len(scale)
        S = S[:m, :m] * np.outer(scale, scale)
        matrix = self.turn[:, :m] * scale
        parts = [
            Part(loss, *self.images(k, matrix))
            if block is None
            else Part(loss, block.E[:, :m] * scale, block.target, block.weight)
            for k, loss, block in rows
            if block is None or len(block.weight)
        ]
        return Small(matrix, r, (S + S.T) / 2, scale[:, None] * linear[:m], constant, parts), scale


def _sizes(diagonal: Matrix, rows: list[KeptBlock]) -> Matrix:
    """The sizes of basis functions on the rows, one where they are not seen."""
    total = diagonal.copy()
    for block in rows:
        total += np.sum(block.weight * block.E[:, : len(total)] ** 2, axis=0)
    return np.sqrt(np.where(total > 0, total, 1.0))
