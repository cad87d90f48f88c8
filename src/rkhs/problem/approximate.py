"""Solving a problem on a span of p functions, for its own weights or for a grid of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from rkhs._backend.arrays import placed, to_numpy
from rkhs._calculus.function_spaces import FunctionSpace
from rkhs._finite.basis import joined
from rkhs._finite.certificate import NOTHING, Certificate
from rkhs._finite.feature_function import function_of
from rkhs._finite.moments import shared_out
from rkhs._finite.monitor import CHOICE, SUMMING, Monitor
from rkhs._finite.problem import LossBlock, check_range
from rkhs._finite.representers import outputs_of
from rkhs._finite.solution import CONVERGED, Solution
from rkhs._finite.summary import Summary
from rkhs._finite.term import Term
from rkhs._gram.approximation import Approximation, Landmarks
from rkhs._gram.landmark_span import LandmarkSpan
from rkhs._gram.span import Span
from rkhs.functionals.base import Functional, Part
from rkhs.functionals.points import centred
from rkhs.kernels.base import Kernel
from rkhs.learning.posterior import PosteriorSource
from rkhs.problem.choice import choose
from rkhs.problem.grid import Cells
from rkhs.problem.solving import stopped
from rkhs.solvers.spans.orthonormal import EPS, OrthonormalSpan, coincident
from rkhs.solvers.spans.summed import Found, Summed
from rkhs.solvers.warped import SubspaceCovariance

TURNING, TURNED = 6e-10, 1e-10  # seconds for each p^3, and for p^2 and a kept row, to make p functions orthonormal


@dataclass(frozen=True, eq=False)
class SpanProblem:
    """A problem in the span that an approximation chooses from its terms, summed up on a device."""

    kernel: Kernel
    terms: Sequence[Term]
    basis: FunctionSpace | None
    approximation: Approximation
    device: str | None = None

    @cached_property
    def space(self) -> FunctionSpace | None:
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
        """The minimiser; f = 0 where it is stopped before there is anything better."""
        rows = sum(term.size for term in self.terms)
        found: list[tuple[Summed, Found]] = []

        def work() -> None:
            with monitor.showing(CHOICE):
                span = self.span
            found.extend(attempts(partial(self._summed, monitor=monitor), span, rows, monitor))

        status = stopped(monitor, work)
        if not found:
            return self._nothing([1.0] * len(self.terms), monitor, status)
        return own_solution(*found[-1], self.approximation, monitor, status)

    def grid(self, cells: Cells, monitor: Monitor) -> tuple[np.ndarray[Any, Any], str]:
        """The solutions of all cells in one span, and what stopped it.

        They come from one pass over the rows, or two where that loses digits.  Each starts from the one before it in
        its fold, from small weights to large ones.  Where it is stopped, the cells that are left have f = 0.
        """
        shares, factors = {}, {}
        for term, parts in cells.folds.items():
            shares[term], factors[term] = shared_out(parts)
        multiples = cells.multiples(factors)
        order = sorted(range(len(multiples)), key=lambda k: sum(float(np.max(factor)) for factor in multiples[k]))
        found: dict[int, tuple[Summed, Found]] = {}

        def solve(some: list[int], span: Span) -> Summed:
            summed = self._summed(span, monitor, shares)
            near: dict[int, Any] = {}  # the last solution of each fold
            slowest = 0.0
            for k in some:
                monitor.check(slowest)
                before, fold = monitor.seconds, k % (cells.count or 1)
                one = summed.solve(monitor.tol, multiples[k], near.get(fold), monitor.left)
                found[k], near[fold] = (summed, one), one.theta
                slowest = max(slowest, monitor.seconds - before)
                monitor.report(None, float(np.sum(one.certificate.primal)), one.certificate.relative)
            return summed

        def work() -> None:
            with monitor.showing(CHOICE):
                span = self.span
            summed = solve(order, span)
            lost = [k for k in order if not found[k][1].certificate.within(monitor.tol)]
            turned = summed.turned(sum(term.size for term in self.terms)) if lost else None
            if turned is not None:
                solve(lost, turned)

        status = stopped(monitor, work)
        solutions = np.empty(len(multiples), dtype=object)
        for k, plain in enumerate(cells.multiples()):
            if k in found:
                solutions[k] = solution_of(*found[k], self.approximation, monitor, status)
            else:
                solutions[k] = self._nothing(plain, monitor, status)
        return solutions.reshape(cells.shape), status

    def _nothing(self, factors: Sequence[Any], monitor: Monitor, status: str) -> Solution:
        """f = 0 with factors on the weights of terms, or on rows: nothing is known but that no J is below zero."""
        outputs = outputs_of(self.terms)
        wide = () if outputs is None else (outputs,)
        chosen = "span" in vars(self)
        span: Span = self.span if chosen else LandmarkSpan(self.kernel, self.terms[0].functional.take([0]))
        basis = None if self.space is None else np.zeros((self.space.size(span.dimension), *wide))
        function = function_of(span, np.zeros((span.size, *wide)), self.space, basis)
        value = np.zeros(wide or 1)
        for costs, factor in zip(self._at_zero, factors, strict=True):
            value = value + np.broadcast_to(np.asarray(factor, dtype=np.float64), len(costs)) @ costs
        none = np.zeros_like(value)
        certificate = Certificate(value, value, none, none, NOTHING * EPS * value, EPS)
        name = type(self.approximation).__name__
        return Solution(function, certificate, status, name, 0, 0, monitor.seconds, (), span=name)

    @cached_property
    def _at_zero(self) -> list[np.ndarray[Any, Any]]:
        """What the rows of each term cost at f = 0, (size, outputs)."""
        return [np.asarray(t.weight * t.loss.value(0 * t.target, t.target)) for t in self._rows]

    @property
    def _rows(self) -> Iterator[LossBlock]:
        """The losses, targets and weights of each term, in float64."""
        for term in self.terms:
            target = to_numpy(term.target).astype(np.float64).reshape(term.size, -1)
            yield LossBlock(slice(0, term.size), term.loss, target, to_numpy(term.weights()).astype(np.float64))

    def _summed(self, span: Span, monitor: Monitor, shares: Mapping[int, Any] | None = None) -> Summed:
        """What the terms say about the functions."""
        check_range(self._rows)
        with monitor.showing(SUMMING):
            summary = Summary.of(span, self.space, self.terms, outputs_of(self.terms), shares=shares)
        kept = sum(term.size for term in self.terms if not term.loss.quadratic)
        monitor.check((TURNING * span.size + TURNED * kept) * span.size**2)
        return Summed(summary)


def attempts(
    summed_on: Callable[[Span], Summed], span: Span, rows: int, monitor: Monitor, again: bool = True
) -> Iterator[tuple[Summed, Found]]:
    """The solution from sums on a span; where digits were lost, then that from rows that were turned before."""
    summed = summed_on(span)
    found = summed.solve(monitor.tol, seconds=monitor.left)
    yield summed, found
    turned = summed.turned(rows) if again and not found.certificate.within(monitor.tol) else None
    if turned is not None:
        sharper = summed_on(turned)
        yield sharper, sharper.solve(monitor.tol, seconds=monitor.left)


def _among(functional: Functional, landmarks: Functional) -> bool:
    """Whether some consecutive rows of the landmarks are the functionals: the same parts, and no others, make them."""
    first, *_ = functional.parts
    for part in landmarks.parts:
        start = part.start - first.start
        rows = range(start, start + functional.size)
        theirs = [other for other in landmarks.parts if other.start < rows.stop and other.rows.stop > rows.start]
        if len(theirs) == len(functional.parts) and all(
            any(_same(own, other, start) for other in theirs) for own in functional.parts
        ):
            return True
    return False


def _same(part: Part, other: Part, start: int) -> bool:
    """Whether two parts are equal but for their rows, which begin `start` later in the other one."""
    atoms, theirs = part.atoms, other.atoms
    if part.start + start != other.start or part.weight != other.weight:
        return False
    if (part.matrix is None) != (other.matrix is None) or (atoms.blur is None) != (theirs.blur is None):
        return False
    matrices = part.matrix is other.matrix or (
        part.matrix.shape == other.matrix.shape and abs(part.matrix - other.matrix).sum() == 0
    )
    pairs = ((getattr(atoms, name), getattr(theirs, name)) for name in ("points", "directions", "blur"))
    return matrices and all(a is b or np.array_equal(to_numpy(a), to_numpy(b)) for a, b in pairs)


def on_device(span: Span, device: str | None) -> Span:
    """The span at its new home; where there is no such device it stays, and a warning says so."""
    place = None if device is None else placed(span.home, device, "float64")
    return span if place is None else span.moved(place)


def own_solution(
    summed: Summed, found: Found, approximation: Approximation, monitor: Monitor, status: str = CONVERGED
) -> Solution:
    """The solution of a problem with its own weights, which knows its posterior where all losses are squared."""
    solution = solution_of(summed, found, approximation, monitor, status)
    if not summed.quadratic:
        return solution
    return replace(solution, source=PosteriorSource(SubspaceCovariance.of(summed)))


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
    hidden = coincident(span, summed.resolved) if count < size else 0
    if hidden:  # they may lower J, and of the minimum nothing is known but that no J is below zero
        certificate = replace(certificate, gaps=certificate.primal)
        said = f"rounding hides {hidden} of {size} functions" if said == CONVERGED else said
    return Solution(function, certificate, said, name, 1, 0, monitor.seconds, (), span=f"{name}: {told}")
