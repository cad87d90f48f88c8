"""Solving a problem on a span of p functions, for its own weights or for a grid of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rkhs.backend.arrays import to_numpy
from rkhs.backend.devices import placed
from rkhs.calculus.spaces import Space
from rkhs.finite.basis import joined
from rkhs.finite.certificate import NOTHING, Certificate
from rkhs.finite.feature_function import function_of
from rkhs.finite.moments import shared_out
from rkhs.finite.monitor import Monitor
from rkhs.finite.represented import outputs_of
from rkhs.finite.solution import CONVERGED, Solution
from rkhs.finite.summary import Summary
from rkhs.finite.term import Term
from rkhs.functionals.base import Functional, Part
from rkhs.functionals.centring import centred
from rkhs.gram.approximation import Approximation, Landmarks
from rkhs.gram.span import Span
from rkhs.kernels.base import Kernel
from rkhs.learning.posterior import OfSpan
from rkhs.problem.choice import choose
from rkhs.problem.grid import Cells
from rkhs.problem.solving import stopped
from rkhs.solvers.spans.orthonormal import EPS, OrthonormalSpan
from rkhs.solvers.spans.spread import SpanSpread
from rkhs.solvers.spans.summed import Found, Summed


@dataclass(frozen=True, eq=False)
class SpanProblem:
    """A problem in the span that an approximation chooses from its terms, summed up on a device."""

    kernel: Kernel
    terms: Sequence[Term]
    basis: Space | None
    approximation: Approximation
    device: str | None = None

    @cached_property
    def space(self) -> Space | None:
        """The basis, seen from the middle of the points."""
        return centred(joined(self.basis, self.kernel.null_space), [term.functional for term in self.terms])

    @cached_property
    def span(self) -> Span:
        """Where f is sought."""
        return on_device(choose(self.kernel, self.terms, self.space, self.approximation), self.device)

    @property
    def whole(self) -> bool:
        """Whether the functionals of all terms are the landmarks, so that nothing is approximated."""
        if not isinstance(self.approximation, Landmarks) or self.device is not None:
            return False
        given = self.approximation.functionals
        if not isinstance(given, Functional):
            return sum(term.size for term in self.terms) <= given
        return all(_among(term.functional, given) for term in self.terms)

    def solve(self, monitor: Monitor) -> Solution:
        """The minimiser."""
        rows = sum(term.size for term in self.terms)
        summed, found = solve_summed(self._summed, self.span, rows, monitor.tol)
        return own_solution(summed, found, self.approximation, monitor)

    def grid(self, cells: Cells, monitor: Monitor) -> tuple[np.ndarray[Any, Any], str]:
        """The solutions of all cells in one span, and what stopped it.

        They come from one pass over the rows, or two where that loses digits.  Each starts from the one before it in
        its fold, from small weights to large ones.  Where it is stopped, the cells that are left have f = 0.
        """
        shares, factors = {}, {}
        for term, parts in cells.folds.items():
            shares[term], factors[term] = shared_out(parts)
        summed, status = self._summed_in_time(self.span, shares, monitor)
        if summed is None:
            return self._nothing(cells, monitor, status), status
        multiples = cells.multiples(factors)
        order = sorted(range(len(multiples)), key=lambda k: sum(float(np.max(factor)) for factor in multiples[k]))
        found, status = self._cells(summed, multiples, order, cells.count or 1, monitor)
        lost = [k for k in order if k in found and not found[k].certificate.within(monitor.tol)]
        rows = sum(term.size for term in self.terms)
        turned = summed.turned(rows) if lost and status == CONVERGED else None
        sharper: Summed | None = None
        again: dict[int, Found] = {}
        if turned is not None:
            sharper, status = self._summed_in_time(turned, shares, monitor)
        if sharper is not None:
            again, status = self._cells(sharper, multiples, lost, cells.count or 1, monitor)
        solutions = np.empty(len(multiples), dtype=object)
        for k in range(len(multiples)):
            own = sharper if sharper and k in again else summed
            one = again.get(k) or found.get(k) or own.nothing(multiples[k])
            solutions[k] = solution_of(own, one, self.approximation, monitor, status)
        return solutions.reshape(cells.shape), status

    def _summed_in_time(self, span: Span, shares: Mapping[int, Any], monitor: Monitor) -> tuple[Summed | None, str]:
        """The sums, or None where they were stopped, and what stopped them."""
        found: list[Summed] = []
        status = stopped(monitor, lambda: found.append(self._summed(span, shares, monitor.check)))
        return (found[0] if found else None), status

    def _cells(
        self, summed: Summed, multiples: list[Any], order: list[int], folds: int, monitor: Monitor
    ) -> tuple[dict[int, Found], str]:
        """The solutions of some cells, until it is stopped, and the status."""
        found: dict[int, Found] = {}
        near: dict[int, Any] = {}

        def work() -> None:
            for k in order:
                found[k] = summed.solve(monitor.tol, multiples[k], near.get(k % folds))
                near[k % folds] = found[k].theta
                monitor.report(None, float(np.sum(found[k].certificate.primal)), found[k].certificate.relative)

        return found, stopped(monitor, work)

    def _nothing(self, cells: Cells, monitor: Monitor, status: str) -> np.ndarray[Any, Any]:
        """f = 0 in all cells, of which nothing is known but that no J is below zero."""
        outputs = outputs_of(self.terms)
        wide = () if outputs is None else (outputs,)
        space = self.space
        basis = None if space is None else np.zeros((space.size(self.span.dimension), *wide))
        function = function_of(self.span, np.zeros((self.span.size, *wide)), space, basis)
        solutions = np.empty(len(cells.multiples()), dtype=object)
        for k, factors in enumerate(cells.multiples()):
            value = sum(
                (_at_zero(t, factor) for t, factor in zip(self.terms, factors, strict=True)), np.zeros(wide or 1)
            )
            none = np.zeros_like(value)
            certificate = Certificate(value, value, none, none, NOTHING * EPS * value, EPS)
            name = type(self.approximation).__name__
            solutions[k] = Solution(function, certificate, status, name, 0, 0, monitor.seconds, (), span=name)
        return solutions.reshape(cells.shape)

    def _summed(
        self, span: Span, shares: Mapping[int, Any] | None = None, check: Callable[[], None] = lambda: None
    ) -> Summed:
        """What the terms say about the functions."""
        return Summed(Summary.of(span, self.space, self.terms, outputs_of(self.terms), shares=shares, check=check))


def _at_zero(term: Term, factor: Any) -> np.ndarray[Any, Any]:
    """What a term costs at f = 0 with a factor on its weights, or one for each row; for each output."""
    target = to_numpy(term.target).astype(np.float64).reshape(term.size, -1)
    weight = np.asarray(factor, dtype=np.float64).reshape(-1, 1) * to_numpy(term.weights())
    return np.asarray(np.sum(weight * term.loss.value(0 * target, target), axis=0))


def solve_summed(
    summed_on: Callable[[Span], Summed], span: Span, rows: int, tol: float, again: bool = True
) -> tuple[Summed, Found]:
    """The solution from sums on a span; where digits were lost, from sums of rows that were turned before."""
    summed = summed_on(span)
    found = summed.solve(tol)
    turned = summed.turned(rows) if again and not found.certificate.within(tol) else None
    if turned is None:
        return summed, found
    sharper = summed_on(turned)
    return sharper, sharper.solve(tol)


def _among(functional: Functional, landmarks: Functional) -> bool:
    """Whether functionals are among the landmarks: the same objects, or parts that are made of the same arrays."""
    if functional is landmarks:
        return True
    return all(any(_same(part, other) for other in landmarks.parts) for part in functional.parts)


def _same(part: Part, other: Part) -> bool:
    atoms, theirs = part.atoms, other.atoms
    if atoms.points is not theirs.points or atoms.blur is not theirs.blur or part.weight != other.weight:
        return False
    matrices = part.matrix is other.matrix or (
        part.matrix is not None
        and other.matrix is not None
        and part.matrix.shape == other.matrix.shape
        and abs(part.matrix - other.matrix).max() == 0
    )
    directions = atoms.directions.shape == theirs.directions.shape and bool(
        (atoms.directions == theirs.directions).all()
    )
    return matrices and directions


def on_device(span: Span, device: str | None) -> Span:
    """The span at its new home; where there is no such device it stays, and a warning says so."""
    place = None if device is None else placed(span.home, device, "float64")
    return span if place is None else span.moved(place)


def own_solution(summed: Summed, found: Found, approximation: Approximation, monitor: Monitor) -> Solution:
    """The solution of a problem with its own weights, which knows its posterior where all losses are squared."""
    solution = solution_of(summed, found, approximation, monitor)
    if not summed.quadratic:
        return solution
    return replace(solution, source=OfSpan(SpanSpread.of(summed), summed.free, summed.summary.outputs))


def solution_of(
    summed: Summed, found: Found, approximation: Approximation, monitor: Monitor, status: str = CONVERGED
) -> Solution:
    """The function that was found, with its certificate in the span."""
    summary, certificate = summed.summary, found.certificate

    def flat(columns: Any) -> Any:
        return columns if summary.outputs is not None else columns[:, 0]

    span, tau = summary.span, found.tau
    count, size = summed.independent
    if isinstance(span, OrthonormalSpan):
        tau, size, span = span.turn @ tau, span.span.size, span.span
    basis = None if summary.space is None else flat(found.basis)
    function = function_of(span, flat(tau), summary.space, basis)
    name = type(approximation).__name__
    told = f"{size} functions" if count == size else f"{size} functions, {count} of which rounding tells apart"
    said = certificate.status(monitor.tol, status)
    return Solution(function, certificate, said, name, 1, 0, monitor.seconds, (), span=f"{name}: {told}")
