"""Solving a problem on a span of p functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rkhs.finite.feature_function import function_of
from rkhs.finite.monitor import Monitor
from rkhs.finite.solution import CONVERGED, Solution
from rkhs.finite.summary import Summary
from rkhs.finite.system import joined
from rkhs.gram.approximation import Approximation
from rkhs.problem.choice import choose
from rkhs.solvers.projected import Small

if TYPE_CHECKING:
    from rkhs.problem.problem import Problem


def solve_on_span(problem: Problem, approximation: Approximation, monitor: Monitor) -> Solution:
    """The minimiser in the span that the approximation chooses from the problem's terms."""
    counts = {term.outputs for term in problem.terms if term.outputs is not None}
    if len(counts) > 1:
        raise ValueError(f"The terms disagree on the number of outputs: {sorted(counts)}.")
    space = joined(problem.basis, problem.kernel.null_space)
    span = choose(problem.kernel, problem.terms, space, approximation)
    summary = Summary.of(span, space, problem.terms, counts.pop() if counts else None)
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
