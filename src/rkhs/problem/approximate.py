"""Solving a problem on a span of p functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rkhs.calculus.spaces import Space
from rkhs.finite.feature_function import function_of
from rkhs.finite.monitor import Monitor
from rkhs.finite.solution import CONVERGED, Solution
from rkhs.finite.summary import Summary
from rkhs.finite.system import joined
from rkhs.finite.term import Term
from rkhs.gram.approximation import Approximation
from rkhs.kernels.base import Kernel
from rkhs.problem.choice import choose
from rkhs.solvers.projected import Small


def solve_on_span(
    kernel: Kernel, terms: Sequence[Term], basis: Space | None, approximation: Approximation, monitor: Monitor
) -> Solution:
    """The minimiser in the span that the approximation chooses from the terms of a problem."""
    counts = {term.outputs for term in terms if term.outputs is not None}
    if len(counts) > 1:
        raise ValueError(f"The terms disagree on the number of outputs: {sorted(counts)}.")
    space = joined(basis, kernel.null_space)
    span = choose(kernel, terms, space, approximation)
    summary = Summary.of(span, space, terms, counts.pop() if counts else None)
    return solution_of(summary, approximation, monitor)


def solution_of(summary: Summary, approximation: Approximation, monitor: Monitor, images: Any = None) -> Solution:
    """The minimiser of what was summed up."""
    found = Small(summary, images).solve(monitor.tol)
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
