"""Solving a problem in a finite-dimensional space, for its own weights or for a grid of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rkhs._backend.arrays import EPS, Matrix, placed, to_numpy
from rkhs._calculus.function_spaces import FunctionSpace
from rkhs._finite.basis import joined
from rkhs._finite.certificate import NOTHING, Certificate
from rkhs._finite.features import FeatureBlocks, grouped
from rkhs._finite.function import FeatureFunction, Function, function_in
from rkhs._finite.monitor import CHOICE, SUMMING, Monitor
from rkhs._finite.problem import LossBlock, check_range
from rkhs._finite.representers import outputs_of
from rkhs._finite.solution import CONVERGED, Solution, with_hidden
from rkhs._finite.term import Term
from rkhs._gram.blocks import check_bounded
from rkhs._learning.posterior import PosteriorSource
from rkhs._problem.grid import Cells
from rkhs._problem.solving import stopped
from rkhs._spaces import Approximation, DenseSpace, LandmarkSpace
from rkhs._spaces.base import Orthonormal
from rkhs.functionals._points import centered
from rkhs.kernels._base import Kernel
from rkhs.solvers._conditioned import SubspaceCovariance
from rkhs.solvers._costs import FLOP
from rkhs.solvers._projected import ProjectedProblem, ProjectedSolution


@dataclass(frozen=True, eq=False)
class SubspaceProblem:
    """A problem in the space that an approximation chooses from its terms, summed up on a device."""

    kernel: Kernel
    terms: Sequence[Term]
    basis: FunctionSpace | None
    approximation: Approximation
    device: str | None = None

    @cached_property
    def full_basis(self) -> FunctionSpace | None:
        """The basis and the kernel's null space, in coordinates whose origin is the mean of the points."""
        return centered(joined(self.basis, self.kernel.null_space), [term.functional for term in self.terms])

    @cached_property
    def space(self) -> DenseSpace:
        """Where f is sought."""
        families = [term.functional for term in self.terms]
        for family in families:
            check_bounded(self.kernel, family)
        space = self.approximation.choose(self.kernel, families, self._first)
        place = None if self.device is None else placed(space.prototype, self.device, "float64")
        return space if place is None else space.like(place)

    def _first(self, space: DenseSpace, most: int, random: np.random.Generator) -> Function | FeatureFunction:
        """Return a first f in a space, from at most so many functionals of each term, with smooth losses."""
        terms = []
        for term in self.terms:
            loss = term.loss if term.loss.smooth else term.loss.smoothed(1.0)
            if term.size > most:
                rows = np.sort(random.choice(term.size, most, replace=False))
                weight = term.weight if isinstance(term.weight, float) else term.weight[rows]
                target = to_numpy(term.target)[rows]
                terms.append(Term(term.functional.take(rows), loss, target, weight * (term.size / most)))
            else:
                terms.append(term.changed(loss=loss))
        features = FeatureBlocks.of(space, self.full_basis, terms, outputs_of(terms))
        found = ProjectedProblem(features).solve(1.0)
        return function_in(space, found.tau, self.full_basis, None if self.full_basis is None else found.basis)

    @property
    def whole(self) -> bool:
        """Whether the functionals of all terms are the landmarks, so that nothing is approximated."""
        return self.device is None and self.approximation.contains([term.functional for term in self.terms])

    def solve(self, monitor: Monitor) -> Solution:
        """Return the minimizer; f = 0 where it is stopped before there is anything better."""
        found: Solution = self.grid(Cells(len(self.terms), {}, {}), monitor).item()
        return found

    def grid(self, cells: Cells, monitor: Monitor) -> np.ndarray[Any, Any]:
        """Return the solutions of all cells in one space.

        They come from one pass over the rows, or two where that loses digits.  Where it is stopped, the cells that are
        left have f = 0.
        """
        outputs, kept = outputs_of(self.terms), sum(term.size for term in self.terms if not term.loss.quadratic)
        shares, factors = {}, {}
        for term, parts in cells.folds.items():
            shares[term], factors[term] = grouped(parts)
        found: dict[int, tuple[ProjectedProblem, ProjectedSolution]] = {}

        def projected(functions: Orthonormal | None) -> ProjectedProblem:
            check_range(self._loss_blocks)
            with monitor.showing(CHOICE):
                space = self.space
            with monitor.showing(SUMMING):
                features = FeatureBlocks.of(space, self.full_basis, self.terms, outputs, functions, shares=shares)
            monitor.check(FLOP * (15 * space.size + 2 * kept) * space.size**2)  # eigenvectors and two products
            return ProjectedProblem(features)

        def work() -> None:
            rows = sum(term.size for term in self.terms)
            # one by one: what was solved before it is stopped stays
            found.update(solve_weightings(projected, cells.multiples(factors), monitor, rows, cells.count or 1))

        status = stopped(monitor, work)
        own = not (cells.axes or cells.folds)  # the weights of the problem
        solutions = np.empty(len(cells.multiples()), dtype=object)
        for k, weights in enumerate(cells.multiples()):
            if k in found:
                solutions[k] = solution_of(*found[k], self.approximation, monitor, status, posterior=own)
            else:
                solutions[k] = self._zero(weights, monitor, status)
        return solutions.reshape(cells.shape)

    def _zero(self, factors: Sequence[Any], monitor: Monitor, status: str) -> Solution:
        """Return f = 0, with factors on the weights of terms, or on rows: its J is known, and that no J is negative."""
        outputs = outputs_of(self.terms)
        wide = () if outputs is None else (outputs,)
        chosen = "space" in vars(self)
        space = self.space if chosen else LandmarkSpace(self.kernel, self.terms[0].functional.take([0]))
        basis = None if self.full_basis is None else np.zeros((self.full_basis.size(space.dimension), *wide))
        function = function_in(space, np.zeros((space.size, *wide)), self.full_basis, basis)
        value = np.zeros(wide or 1)
        for t, factor in zip(self._loss_blocks, factors, strict=True):
            costs = t.weight * np.reshape(factor, (-1, 1)) * t.loss.value(0 * t.target, t.target)
            value = value + np.sum(costs, axis=0)
        none = np.zeros_like(value)
        certificate = Certificate(value, value, none, none, NOTHING * EPS * value, EPS)
        name = type(self.approximation).__name__
        return Solution(function, certificate, status, name, 0, 0, monitor.seconds, (), span=name)

    @property
    def _loss_blocks(self) -> Iterator[LossBlock]:
        """The losses, targets and weights of each term, in float64."""
        for term in self.terms:
            target = to_numpy(term.target).astype(np.float64).reshape(term.size, -1)
            yield LossBlock(slice(0, term.size), term.loss, target, to_numpy(term.weights()).astype(np.float64))


def solve_weightings(
    projected: Callable[[Orthonormal | None], ProjectedProblem],
    weightings: Sequence[Sequence[Any] | None],
    monitor: Monitor,
    rows: float,
    folds: int = 1,
) -> Iterator[tuple[int, tuple[ProjectedProblem, ProjectedSolution]]]:
    """Solve a problem for several weightings, from small weights to large ones, each from the one before in its fold.

    Those whose certificate shows that sums have lost digits are solved again with sums in orthonormal functions.

    Parameters
    ----------
    projected : sums up the rows, in the orthonormal functions if there are any
    weightings : a factor, or one for each group of rows, on the weights of each term; None for one everywhere
    rows : how many there are; infinite if they cannot be read again
    folds : the number of neighbors in `weightings` that differ in their folds

    Yields
    ------
    The number of the weighting, its problem and solution
    """
    todo = sorted(range(len(weightings)), key=lambda k: sum(float(np.max(factor)) for factor in weightings[k] or ()))
    problem = projected(None)
    while True:
        near: dict[int, Matrix] = {}
        lost, slowest = [], 0.0
        for k in todo:
            monitor.check(slowest)
            before, fold = monitor.seconds, k % folds
            found = problem.solve(monitor.tol, weightings[k], near.get(fold), monitor.left)
            yield k, (problem, found)
            near[fold], slowest = found.theta, max(slowest, monitor.seconds - before)
            if not found.certificate.within(monitor.tol):
                lost.append(k)
            if len(weightings) > 1:
                monitor.report(None, float(np.sum(found.certificate.primal)), found.certificate.relative)
        if not lost or not problem.may_gain_digits(rows):
            return
        problem, todo = projected(problem.functions), lost


def solution_of(
    problem: ProjectedProblem,
    found: ProjectedSolution,
    approximation: Approximation,
    monitor: Monitor,
    status: str = CONVERGED,
    posterior: bool = True,
) -> Solution:
    """Return the function that was found, with its certificate in the space.

    It has a posterior where all losses are squared, with the weights of the problem (`posterior`).
    """
    features, space = problem.features, problem.features.space

    def flat(columns: Matrix) -> Matrix:
        return columns if features.outputs is not None else columns[:, 0]

    basis = None if features.basis is None else flat(found.basis)
    function = function_in(space, flat(found.tau), features.basis, basis)
    name, count, size = type(approximation).__name__, len(problem.functions.values), space.size
    told = f"{size} functions" if count == size else f"{size} functions, {count} of which rounding tells apart"
    hidden = space.hidden(problem.functions) if count < size else 0
    certificate = found.certificate
    certificate, status = with_hidden(certificate, certificate.status(monitor.tol, status), hidden, size, "functions")
    source = None
    if posterior and problem.quadratic:
        source = PosteriorSource(SubspaceCovariance.of(problem))
    seconds, span = monitor.seconds, f"{name}: {told}"
    return Solution(function, certificate, status, name, 1, 0, seconds, (), span=span, source=source)
