"""Solve a problem in a finite-dimensional space, for single weights or for a grid of weights and folds."""

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
from rkhs._finite.representers import block_in_double, outputs_of
from rkhs._finite.solution import CONVERGED, Solution, with_hidden_functions
from rkhs._finite.term import Term
from rkhs._gram.blocks import check_bounded
from rkhs._learning.posterior import PosteriorSource
from rkhs._problem.grid import WeightGrid
from rkhs._problem.solving import run_until_stopped
from rkhs._spaces import Approximation, DenseSpace, FiniteSpace, FourierGridSpace, LandmarkSpace
from rkhs._spaces.base import Orthonormal
from rkhs.functionals._points import centered
from rkhs.kernels._base import Kernel
from rkhs.losses._blocks import BlockLoss
from rkhs.solvers._costs import FLOP
from rkhs.solvers._projected import ProjectedProblem, ProjectedSolution
from rkhs.solvers._spectral import SpectralProblem, SpectralSolution

Solved = tuple[ProjectedProblem | SpectralProblem, ProjectedSolution | SpectralSolution]


@dataclass(frozen=True, eq=False)
class SubspaceProblem:
    """A problem in the finite-dimensional space that an approximation chooses, with sums computed on a device.

    The functions of the space satisfy its constraints whether or not the null space of the kernel is `dropped`.
    """

    kernel: Kernel
    terms: Sequence[Term]
    basis: FunctionSpace | None
    approximation: Approximation
    device: str | None = None
    dropped: bool = False

    @cached_property
    def full_basis(self) -> FunctionSpace | None:
        """The basis and the kernel's null space if it is kept, in coordinates centered on the points."""
        space = self.basis if self.dropped else joined(self.basis, self.kernel.null_space)
        return centered(space, [term.functional for term in self.terms])

    @cached_property
    def space(self) -> FiniteSpace:
        """The space in which f is sought."""
        families = [term.functional for term in self.terms]
        for family in families:
            check_bounded(self.kernel, family)
        space = self.approximation.choose(self.kernel, families, self._preliminary_fit)
        if self.device not in (None, "cpu") and not isinstance(space, DenseSpace):
            raise ValueError(
                f"A {type(self.approximation).__name__} is computed on the CPU, and device is {self.device!r}: leave "
                "`device` out, or use rkhs.Landmarks."
            )
        prototype = None if self.device is None else placed(space.prototype, self.device, "float64")
        return space if prototype is None else space.like(prototype)

    def _preliminary_fit(self, space: DenseSpace, most: int, random: np.random.Generator) -> Function | FeatureFunction:
        """Return an f in a space from at most `most` functionals of each term, with smoothed losses."""
        terms = []
        for term in self.terms:
            loss = term.loss if term.loss.smooth else term.loss.smoothed(1.0)
            if term.size > most:
                m = (loss.size if isinstance(loss, BlockLoss) else None) or 1  # whole vectors of losses of vectors
                vectors = np.sort(random.choice(term.size // m, max(most // m, 1), replace=False))
                rows = (m * vectors[:, None] + np.arange(m)).reshape(-1)
                weight = term.weight if isinstance(term.weight, float) else term.weight[rows]
                target = to_numpy(term.target)[rows]
                terms.append(Term(term.functional.take(rows), loss, target, weight * (term.size / len(rows))))
            else:
                terms.append(term.changed(loss=loss))
        features = FeatureBlocks.of(space, self.full_basis, terms, self.outputs)
        result = ProjectedProblem(features).solve(1.0)
        return function_in(space, result.tau, self.full_basis, None if self.full_basis is None else result.basis)

    @property
    def whole(self) -> bool:
        """Whether the landmarks include the functionals of all terms, so that nothing is approximated."""
        return self.device is None and self.approximation.contains([term.functional for term in self.terms])

    def solve(self, monitor: Monitor) -> Solution:
        """Return the minimizer, or the best function that is known if the solver is stopped, f = 0 at worst."""
        solution: Solution = self.grid(WeightGrid(len(self.terms), {}, {}), monitor).item()
        return solution

    def grid(self, cells: WeightGrid, monitor: Monitor) -> np.ndarray[Any, Any]:
        """Return the solutions of all cells of a grid in one space.

        If the grid is stopped, the remaining cells have f = 0.
        """
        solved: dict[int, Solved] = {}

        def work() -> None:
            solved.update(self._solved(cells, monitor))  # item by item: an interruption keeps the cells before it

        status = run_until_stopped(monitor, work)
        # With the weights of the problem, and with its null space, there is a posterior.
        single = not (cells.axes or cells.folds or self.dropped)
        solutions = np.empty(len(cells.weightings()), dtype=object)
        for k, factors in enumerate(cells.weightings()):
            if k in solved:
                solutions[k] = solution_of(*solved[k], self.approximation, monitor, status, posterior=single)
            else:
                solutions[k] = self._zero(factors, monitor, status)
        return solutions.reshape(cells.shape)

    def _solved(self, cells: WeightGrid, monitor: Monitor) -> Iterator[tuple[int, Solved]]:
        """Return an iterator over the index, the problem and the solution of each cell.

        With stored matrices they take one pass over the rows, or two if the sums of the first are not accurate enough.
        """
        check_range(self._loss_blocks)
        with monitor.showing(CHOICE):
            space = self.space
        if isinstance(space, FourierGridSpace):
            problem = SpectralProblem.of(space, self.full_basis, self.terms, self.outputs)
            return problem.solve_weightings(cells.weightings(), monitor)
        if not isinstance(space, DenseSpace):
            raise TypeError(f"{self.approximation!r} must choose an rkhs.extend.DenseSpace, got {space!r}.")
        dense, rows = space, sum(term.size for term in self.terms)
        kept = sum(term.size for term in self.terms if not term.loss.quadratic)
        shares, factors = {}, {}
        for term, parts in cells.folds.items():
            shares[term], factors[term] = grouped(parts)

        def projected(functions: Orthonormal | None) -> ProjectedProblem:
            with monitor.showing(SUMMING):
                features = FeatureBlocks.of(dense, self.full_basis, self.terms, self.outputs, functions, shares=shares)
            monitor.check(FLOP * (15 * dense.size + 2 * kept) * dense.size**2)  # an eigendecomposition, two products
            return ProjectedProblem(features)

        return solve_weightings(projected, cells.weightings(factors), monitor, rows, cells.count or 1)

    def _zero(self, factors: Sequence[Any], monitor: Monitor, status: str) -> Solution:
        """Return the solution f = 0 with its certificate, for factors on the weights of terms or of their rows.

        The lower bound of J is 0.
        """
        columns = () if self.outputs is None else (self.outputs,)
        chosen = "space" in vars(self)
        space = self.space if chosen else LandmarkSpace(self.kernel, self.terms[0].functional.take([0]))
        basis = None if self.full_basis is None else np.zeros((self.full_basis.size(space.dimension), *columns))
        function = function_in(space, np.zeros((space.size, *columns)), self.full_basis, basis)
        value = np.zeros(columns or 1)
        for t, factor in zip(self._loss_blocks, factors, strict=True):
            losses = t.weight * np.reshape(factor, (-1, 1)) * t.loss.value(0 * t.target, t.target)
            value = value + np.sum(losses, axis=0)
        zero = np.zeros_like(value)
        certificate = Certificate(value, value, zero, zero, NOTHING * EPS * value, EPS)
        name = type(self.approximation).__name__
        return Solution(function, certificate, status, name, 0, 0, monitor.seconds, (), span=name)

    @property
    def outputs(self) -> int | None:
        """The number of outputs; None if no target has an axis of outputs."""
        return outputs_of(self.terms)

    @property
    def _loss_blocks(self) -> Iterator[LossBlock]:
        return (block_in_double(term, self.outputs) for term in self.terms)


def solve_weightings(
    projected: Callable[[Orthonormal | None], ProjectedProblem],
    weightings: Sequence[Sequence[Any] | None],
    monitor: Monitor,
    rows: float,
    folds: int = 1,
) -> Iterator[tuple[int, tuple[ProjectedProblem, ProjectedSolution]]]:
    """Solve a problem for several weightings, from small to large weights, with warm starts within each fold.

    Weightings whose certificate shows that the sums are not accurate enough are solved again with sums in orthonormal
    functions.

    Parameters
    ----------
    projected : callable
        Sums the rows, in the orthonormal functions if these are given.
    weightings : sequence
        For each weighting a factor on the weights of each term, or one for each group of rows; None for all ones.
    monitor : Monitor
        The tolerance, the limits and the progress.
    rows : float
        The number of rows; infinity if they cannot be read again.
    folds : int, default=1
        The number of consecutive weightings that differ only in their folds.

    Yields
    ------
    tuple
        The index of a weighting, and a pair of its problem and its solution.
    """
    todo = sorted(range(len(weightings)), key=lambda k: sum(float(np.max(factor)) for factor in weightings[k] or ()))
    problem = projected(None)
    while True:
        starts: dict[int, Matrix] = {}
        inaccurate, slowest = [], 0.0
        for k in todo:
            monitor.check(slowest)
            before, fold = monitor.seconds, k % folds
            solution = problem.solve(monitor.tol, weightings[k], starts.get(fold), monitor.left)
            yield k, (problem, solution)
            starts[fold], slowest = solution.theta, max(slowest, monitor.seconds - before)
            if not solution.certificate.within(monitor.tol):
                inaccurate.append(k)
            if len(weightings) > 1:
                monitor.report(None, float(np.sum(solution.certificate.primal)), solution.certificate.relative)
        if not inaccurate or not problem.may_gain_digits(rows):
            return
        problem, todo = projected(problem.functions), inaccurate


def solution_of(
    problem: ProjectedProblem | SpectralProblem,
    solved: ProjectedSolution | SpectralSolution,
    approximation: Approximation,
    monitor: Monitor,
    status: str = CONVERGED,
    posterior: bool = True,
) -> Solution:
    """Return the solution of a problem in a space as a function with its certificate within the space.

    With `posterior` it has a posterior if all losses are squared.
    """
    outputs: Any = slice(None) if problem.outputs is not None else 0
    basis = None if problem.basis is None else solved.basis[:, outputs]
    function = function_in(problem.space, solved.tau[:, outputs], problem.basis, basis)
    certificate, history = solved.certificate, solved.history
    certificate, status = with_hidden_functions(
        certificate, certificate.status(monitor.tol, status), problem.hidden, problem.space.size, "functions"
    )
    source = PosteriorSource(problem.covariance(solved)) if posterior and problem.quadratic else None
    name, seconds = type(approximation).__name__, monitor.seconds
    span = f"{name}: {problem.summary}"
    return Solution(function, certificate, status, name, len(history) or 1, 0, seconds, history, span, source=source)
