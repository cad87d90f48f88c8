"""Solve a problem on a Fourier grid, for single weights or for a grid of weights and folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rkhs._backend.arrays import EPS
from rkhs._calculus.function_spaces import FunctionSpace
from rkhs._finite.certificate import NOTHING, Certificate
from rkhs._finite.function import FeatureFunction
from rkhs._finite.monitor import SUMMING, Monitor
from rkhs._finite.problem import check_range
from rkhs._finite.representers import outputs_of
from rkhs._finite.solution import INTERRUPTED, TIME_LIMIT, Solution
from rkhs._finite.term import Term
from rkhs._gram.blocks import check_bounded
from rkhs._learning.posterior import PosteriorSource
from rkhs._problem.grid import WeightGrid
from rkhs._problem.solving import run_until_stopped
from rkhs._spaces.fourier_grid import FourierGrid, FourierGridSpace
from rkhs.functionals._points import centered
from rkhs.kernels._base import Kernel
from rkhs.solvers._spectral import NewtonSolver, QuadraticSolver, SpectralSolution
from rkhs.solvers._spectral_covariance import SpectralCovariance
from rkhs.solvers._spectral_equations import QuadraticSums, Rows, with_missing_variance


@dataclass(frozen=True, eq=False)
class SpectralProblem:
    """A problem in the space of a Fourier grid."""

    kernel: Kernel
    terms: Sequence[Term]
    basis: FunctionSpace | None
    approximation: FourierGrid
    whole = False  # no grid is exact

    @cached_property
    def full_basis(self) -> FunctionSpace | None:
        """The basis in coordinates whose origin is the mean of the points."""
        return centered(self.basis, [term.functional for term in self.terms])

    @cached_property
    def space(self) -> FourierGridSpace:
        """The space in which f is sought."""
        families = [term.functional for term in self.terms]
        for family in families:
            check_bounded(self.kernel, family)
        return self.approximation.choose(self.kernel, families)

    @cached_property
    def rows(self) -> list[Rows]:
        """The rows of all terms."""
        return [Rows.of(term, self.full_basis, outputs_of(self.terms)) for term in self.terms]

    def solve(self, monitor: Monitor) -> Solution:
        """Return the minimizer, or the best iterate so far if it is stopped."""
        return self._solution(self.rows, monitor, posterior=True)

    def from_sums(self, sums: QuadraticSums, monitor: Monitor) -> Solution:
        """Return the minimizer of squared losses whose rows were added up."""
        solver = QuadraticSolver(self.space, sums, monitor)

        def work() -> None:
            solver.solve()

        status = run_until_stopped(monitor, work)
        found = solver.certified()
        status = found.certificate.status(monitor.tol, status)
        return self._wrapped(found.tau, found.basis, found.certificate, status, monitor, None)

    def grid(self, cells: WeightGrid, monitor: Monitor) -> np.ndarray[Any, Any]:
        """Return the solutions of all cells of a grid in one space."""
        solutions, status = np.empty(len(cells.weightings()), dtype=object), None
        for k, factors in enumerate(cells.weightings()):
            rows = [
                replace(one, block=replace(one.block, weight=one.block.weight * np.reshape(factor, (-1, 1))))
                for one, factor in zip(self.rows, factors, strict=True)
            ]
            solutions[k] = self._solution(rows, monitor) if status is None else self._zero(rows, monitor, status)
            if solutions[k].status in (INTERRUPTED, TIME_LIMIT):  # the other cells are not begun
                status = solutions[k].status
        return solutions.reshape(cells.shape)

    def _solution(self, rows: Sequence[Rows], monitor: Monitor, posterior: bool = False) -> Solution:
        check_range([one.block for one in rows])
        solvers: list[QuadraticSolver | NewtonSolver] = []
        found: list[SpectralSolution] = []
        quadratic = all(one.block.loss.quadratic for one in rows)

        def work() -> None:
            if quadratic:
                noisy = [with_missing_variance(self.space, one) for one in rows]
                with monitor.showing(SUMMING):
                    sums = QuadraticSums.of(self.space, noisy)
                solvers.append(QuadraticSolver(self.space, sums, monitor, noisy))
            else:
                for k in range(rows[0].block.target.shape[1]):
                    columns = [replace(o, block=replace(o.block, target=o.block.target[:, k : k + 1])) for o in rows]
                    solvers.append(NewtonSolver(self.space, columns, monitor))
            found.extend(solver.solve() for solver in solvers)

        status = run_until_stopped(monitor, work)
        found += [solver.certified() for solver in solvers[len(found) :]]
        if not found:
            return self._zero(rows, monitor, status)
        basis, tau = (np.concatenate([getattr(f, name) for f in found], axis=1) for name in ("basis", "tau"))
        certificate = Certificate.joined([one.certificate for one in found])
        source = None
        if posterior and quadratic:
            given = SpectralCovariance.of(self.space, self.full_basis, found[0], rows, self._outputs)
            source = PosteriorSource(given)
        return self._wrapped(tau, basis, certificate, certificate.status(monitor.tol, status), monitor, source)

    @property
    def _outputs(self) -> int | None:
        return outputs_of(self.terms)

    def _wrapped(
        self, tau: Any, basis: Any, certificate: Certificate, status: str, monitor: Monitor, source: Any
    ) -> Solution:
        if self._outputs is None:
            tau, basis = tau[:, 0], basis[:, 0]
        function = FeatureFunction(self.space, tau, self.full_basis, None if self.full_basis is None else basis)
        shape = " x ".join(map(str, self.space.shape))
        span = f"FourierGrid: {shape} frequencies, kernel to {self.space.kernel_error:.0e}"
        history = tuple(monitor.history)
        return Solution(
            function, certificate, status, "FourierGrid", len(history), 0, monitor.seconds, history, span, source=source
        )

    def _zero(self, rows: Sequence[Rows], monitor: Monitor, status: str) -> Solution:
        """Return f = 0, whose lower bound is 0, for a problem that was stopped before it began."""
        columns = self._outputs or 1
        rank = 0 if self.full_basis is None else self.full_basis.size(self.space.dimension)
        value = sum(
            np.sum(o.block.weight * o.block.loss.value(0 * o.block.target, o.block.target), axis=0) for o in rows
        )
        zero = np.zeros(columns)
        certificate = Certificate(value, value, zero, zero, NOTHING * EPS * value, EPS)
        return self._wrapped(
            np.zeros((self.space.size, columns)), np.zeros((rank, columns)), certificate, status, monitor, None
        )
