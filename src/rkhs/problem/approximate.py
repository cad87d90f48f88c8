"""Solving a problem on a span of p functions, for its own weights or for a grid of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs.backend.devices import placed
from rkhs.calculus.spaces import Space
from rkhs.finite.feature_function import function_of
from rkhs.finite.moments import shared_out
from rkhs.finite.monitor import Monitor
from rkhs.finite.solution import CONVERGED, Solution
from rkhs.finite.summary import Summary
from rkhs.finite.system import joined
from rkhs.finite.term import Term
from rkhs.gram.approximation import Approximation
from rkhs.gram.span import Span
from rkhs.kernels.base import Kernel
from rkhs.problem.choice import choose
from rkhs.problem.grid import Cells
from rkhs.solvers.spans.projected import Projected
from rkhs.solvers.spans.rotated import Rotated


@dataclass(frozen=True, eq=False)
class SpanProblem:
    """A problem in the span that an approximation chooses from its terms, summed up on a device."""

    kernel: Kernel
    terms: Sequence[Term]
    basis: Space | None
    approximation: Approximation
    device: str | None = None

    def solve(self, monitor: Monitor) -> Solution:
        """The minimiser."""
        return solution_of(Rotated(self._summary()), self.approximation, monitor)

    def grid(self, cells: Cells, monitor: Monitor) -> np.ndarray[Any, Any]:
        """The solutions of all cells in one span, from one pass over the rows.

        Each starts from the one before it in its fold, from small weights to large ones.
        """
        shares, factors = {}, {}
        for term, parts in cells.folds.items():
            shares[term], factors[term] = shared_out(parts)
        rotated = Rotated(self._summary(shares))
        multiples = cells.multiples(factors)
        solutions = np.empty(len(multiples), dtype=object)
        near: dict[int, Any] = {}
        try:
            for k in sorted(range(len(multiples)), key=lambda k: sum(float(np.max(factor)) for factor in multiples[k])):
                fold = k % (cells.count or 1)
                found, near[fold] = rotated.solve(monitor.tol, multiples[k], near.get(fold))
                monitor.report(None, float(np.sum(found.certificate.primal)), found.certificate.relative)
                solutions[k] = _solution(rotated.summary, found, self.approximation, monitor)
        finally:
            monitor.close()
        return solutions.reshape(cells.shape)

    def _summary(self, shares: Mapping[int, Any] | None = None) -> Summary:
        """What the terms say about the functions."""
        counts = {term.outputs for term in self.terms if term.outputs is not None}
        if len(counts) > 1:
            raise ValueError(f"The terms disagree on the number of outputs: {sorted(counts)}.")
        space = joined(self.basis, self.kernel.null_space)
        span = on_device(choose(self.kernel, self.terms, space, self.approximation), self.device)
        return Summary.of(span, space, self.terms, counts.pop() if counts else None, shares=shares)


def on_device(span: Span, device: str | None) -> Span:
    """The span at its new home; where there is no such device it stays, and a warning says so."""
    place = None if device is None else placed(span.home, device, "float64")
    return span if place is None else span.moved(place)


def solution_of(rotated: Rotated, approximation: Approximation, monitor: Monitor) -> Solution:
    """The minimiser of what was summed up."""
    found, _ = rotated.solve(monitor.tol)
    return _solution(rotated.summary, found, approximation, monitor)


def _solution(summary: Summary, found: Projected, approximation: Approximation, monitor: Monitor) -> Solution:
    reached = found.certificate.relative <= monitor.tol + found.certificate.resolution

    def flat(columns: Any) -> Any:
        return columns if summary.outputs is not None else columns[:, 0]

    basis = None if summary.space is None else flat(found.basis)
    function = function_of(summary.span, flat(found.tau), summary.space, basis)
    name = type(approximation).__name__
    return Solution(
        function,
        found.certificate,
        CONVERGED if reached else "no further progress",
        name,
        1,
        0,
        monitor.seconds,
        (),
        span=f"{name}: {summary.span.size} functions",
    )
