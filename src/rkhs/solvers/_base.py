"""The solver interface, what solvers with a dense Gram matrix share, and costs.

Estimated costs of solvers, in seconds of one core of a reference computer.

Choices depend only on ratios of these numbers, and so are the same on every computer; comparisons with a time limit
multiply them by the slowness of the actual computer (`Monitor.afford`, measured at first use).  The constants were
measured by `python -m benchmarks.regret` (float64, NumPy, one core).  For dense solvers the estimates are correct
within a factor of about two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import inf
from typing import Any

import numpy as np
import scipy.linalg

from rkhs._core.backend.arrays import Array, Vector, double, indices, like, namespace, take_rows, to_numpy
from rkhs._core.backend.memory import budget_bytes, flop_seconds, free_memory, on_cpu
from rkhs._core.finite.monitor import Monitor, OutOfIterations, Steps, mapped, plain
from rkhs._core.finite.problem import FiniteProblem, Iterate, LossBlock, blocks_of
from rkhs._core.finite.representers import GramGeometry
from rkhs._core.gram.matrix import CALL, GramMatrix, GramOperator, SingleGram, diagonal_part
from rkhs._core.limits import limits
from rkhs.losses import Loss

FLOP = 1 / 25e9  # seconds per floating-point operation of a factorization or a matrix product
ENTRY = 450  # operations per entry to compute a dense Gram matrix
STEP = 1.5e-3  # seconds per iteration of an iterative solver, without its Gram product
SHARED = 0.2  # cost of each further column of a Gram product, relative to the first
ITERATIONS = 30  # the typical number of iterations of conjugate gradients to a relative gap of 1e-4


def factorization(size: int, flop: float = FLOP) -> float:
    """Return the seconds of equilibration, Cholesky factorization and iterative refinement."""
    return 3e-3 + flop * (size**3 / 3 + 1250 * size**2)


@dataclass(frozen=True, eq=False)
class Estimate:
    """The costs of the parts of a solver for a problem."""

    system: FiniteProblem
    iterations: float = ITERATIONS  # of an iterative solver

    @cached_property
    def flop(self) -> float:
        """The seconds of an operation of dense algebra where the problem is: those of the device, or the reference."""
        return FLOP if on_cpu(self.system.Q) else flop_seconds(self.system.Q)

    @property
    def matrix(self) -> float:
        """The seconds to compute the Gram matrix; zero if it is stored."""
        return 0.0 if self.system.gram.stored else CALL + ENTRY * self.flop * self.system.size**2

    @property
    def product(self) -> float:
        """The seconds of one Gram product, with a stored matrix or without."""
        return self.system.gram.core_seconds * self.flop / FLOP

    def factorization(self, size: int) -> float:
        """Return the seconds of a factorization where the problem is."""
        return factorization(size, self.flop)

    @cached_property
    def storing(self) -> type[GramMatrix] | type[SingleGram] | None:
        """How an iterative solver stores the Gram matrix: in float64, in float32 if it is large, or not at all."""
        size, system = self.system.size, self.system
        if fits(system):
            kind: Any = GramMatrix
        elif isinstance(system.Q, np.ndarray) and not system.gram.stored and fits_in_single(size):
            kind = SingleGram
        else:
            return None
        stored = self.matrix * kind.SHARE + self.iterations * kind.product_seconds(size)
        return kind if stored < self.iterations * self.product else None

    def iterating(self, step: float) -> float:
        """Return the seconds of all iterations of a solver that take `step` seconds each."""
        matrix = 0.0 if self.storing is None else self.matrix * self.storing.SHARE
        return matrix + self.iterations * step

    def step(self, factor: float = 1.0) -> float:
        """Return the seconds of a Gram product, which may be stored, and `factor` evaluations of the losses."""
        product = self.product if self.storing is None else self.storing.product_seconds(self.system.size)
        # A row with a loss that is not squared takes 1.2e-6 s.
        return factor * (STEP + 1.2e-6 * len(self.system.other_rows)) + product


# Arrays of the size of the Gram matrix that a dense solver may hold: the matrix, the equations, their factor, and one
# temporary.
COPIES = 4


@dataclass(frozen=True)
class Solver(ABC):
    """An algorithm for the finite problem: a frozen dataclass of its parameters with `lacks` and `steps`.

    `steps` is a generator that yields a `Step` after each iteration until the relative duality gap is at most `tol`,
    and returns its last iterate.  It raises `OutOfIterations` or `Stopped` if it has to give up.  The caller takes the
    steps as long as its limits permit, and computes the certificate of the iterate from scratch.

    Examples
    --------
    >>> import rkhs
    >>> isinstance(rkhs.solvers.Newton(), rkhs.solvers.Solver)
    True
    """

    @property
    def inexact(self) -> bool:
        """Whether its products are less accurate than those of the problem."""
        return False

    @property
    def name(self) -> str:
        """The name of the solver, as solutions and messages show it."""
        return type(self).__name__

    @abstractmethod
    def lacks(self, system: FiniteProblem) -> str | None:
        """Return what a problem lacks for this solver, with a remedy.

        Parameters
        ----------
        system : FiniteProblem
            The problem.

        Returns
        -------
        str or None
            A message that names a solver which can solve the problem; None if this one can.
        """

    def cost(self, estimate: Estimate) -> float:
        """Return the expected seconds of all steps on the reference computer.

        Parameters
        ----------
        estimate : Estimate
            The costs of the parts of the problem.

        Returns
        -------
        float
            The seconds; by default those of a typical number of iterations.
        """
        return estimate.iterating(self.step(estimate))

    def step(self, estimate: Estimate) -> float:
        """Return the expected seconds of the first iteration, with its Gram product; a race measures the others.

        Parameters
        ----------
        estimate : Estimate
            The costs of the parts of the problem.

        Returns
        -------
        float
            The seconds; infinite if they are not known, and for solvers of few iterations, which have a `cost` instead.
        """
        return inf

    @abstractmethod
    def steps(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Steps:
        """Solve the problem, one iteration at a time.

        Parameters
        ----------
        system : FiniteProblem
            The problem.
        start : Iterate
            The first iterate.
        tol : float
            The relative duality gap to reach.
        monitor : Monitor
            The time that is left, and the display of long work within an iteration.

        Yields
        ------
        Step
            The best iterate so far after each iteration, its objective and its gap.

        Returns
        -------
        Iterate
            The last iterate.
        """


@dataclass(frozen=True)
class DenseSolver(Solver):
    """A solver that holds the Gram matrix in memory."""

    def lacks(self, system: FiniteProblem) -> str | None:
        return lacking_memory(self, system, fits(system))

    def steps(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Steps:
        return (yield from in_memory_steps(self.dense_steps, system, start, tol, monitor))

    @abstractmethod
    def dense_steps(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Steps:
        """Solve a problem whose Gram matrix is a NumPy array."""


@dataclass(frozen=True)
class OutputSolver(DenseSolver):
    """A solver that holds the Gram matrix in memory and treats one output after the other."""

    def dense_steps(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Steps:
        iterate = start
        for k in range(system.columns):
            steps = self.output_steps(system.output(k), iterate.output(k), tol, monitor)
            whole = partial(iterate.with_output, k)
            iterate = whole((yield from mapped(steps, whole)))
        return iterate

    @abstractmethod
    def output_steps(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Steps:
        """Solve a problem of one output whose Gram matrix is a NumPy array."""


def in_memory_steps(
    solve: Callable[[FiniteProblem, Iterate, float, Monitor], Steps],
    system: FiniteProblem,
    start: Iterate,
    tol: float,
    monitor: Monitor,
) -> Steps:
    """Solve the same problem with its Gram matrix in memory, which is computed if there is enough time."""
    monitor.afford(Estimate(system).matrix)
    inside = in_memory(system)
    steps, whole = solve(inside, to_memory(inside, system, start), tol, monitor), partial(from_memory, inside, system)
    return whole((yield from mapped(steps, whole)))


def finished(steps: Steps, start: Iterate, monitor: Monitor) -> Iterate:
    """Take all steps of a solver without recording them; return its result, or its best iterate at its limit."""
    best: Any = start
    while True:
        try:
            best = next(steps).iterate or best
        except StopIteration as end:
            return end.value
        except OutOfIterations:
            return best() if callable(best) else best
        monitor.check()


def lacking_memory(solver: Solver, system: FiniteProblem, fits: bool) -> str | None:
    """Return a message about the memory for the Gram matrix, unless it is stored or fits."""
    if system.gram.stored or fits:
        return None
    first = "ConjugateGradients" if system.quadratic else "NonlinearCG"
    return (
        f"{solver.name} stores the Gram matrix of {system.size} functionals, which does not fit in memory: "
        f"use rkhs.solvers.{first}() or rkhs.solvers.Galerkin(), which do not store it."
    )


def lacking(
    solver: Solver, system: FiniteProblem, allowed: Callable[[Loss], bool], needed: str, remedy: str
) -> str | None:
    """Return a message about the first loss that is not allowed, if there is one."""
    wrong = [t.loss for t in system.terms if not allowed(t.loss)]
    remedy = "rkhs.solvers.BoxDual(), or rkhs.solvers.ProximalNewton() for any other losses" if system.hard else remedy
    return f"{solver.name} needs {needed}, but one loss is {wrong[0]!r}: use {remedy}." if wrong else None


def lacking_bounds(solver: Solver, system: FiniteProblem) -> str | None:
    """Return a message about a constraint, if there is one, for a solver whose iterates have to have a finite J."""
    return lacking(solver, system, lambda loss: not loss.hard, "finite weights", "a large weight")


def cheapest(among: Sequence[Solver], system: FiniteProblem) -> Solver:
    """Return the applicable solver of least cost, or the last one if none of the others applies."""
    estimate = Estimate(system)
    fit = [solver for solver in among[:-1] if solver.lacks(system) is None]
    return min(fit, key=lambda solver: solver.cost(estimate)) if fit else among[-1]


def fits(system: FiniteProblem) -> bool:
    """Return whether `COPIES` dense float64 Gram matrices fit in the memory budget where the problem is."""
    return system.size <= limits().stored_rows and COPIES * 8 * system.size**2 <= budget_bytes(None, system.Q)


def fits_once(system: FiniteProblem) -> bool:
    """Return whether a dense float64 Gram matrix fits in half of the free memory, or in three quarters of a device."""
    share = 0.5 if on_cpu(system.Q) else 0.75  # which has no other work
    return system.size <= limits().stored_rows and 8 * system.size**2 <= share * free_memory(system.Q)


def fits_in_single(rows: int) -> bool:
    """Return whether a symmetric float32 Gram matrix of this many rows fits in half of the free memory."""
    return rows <= limits().single_rows and SingleGram.bytes(rows) <= free_memory(np.zeros(0)) // 2


def blocks_in_double(blocks: Sequence[LossBlock]) -> tuple[LossBlock, ...]:
    """Convert targets and weights of loss blocks to NumPy and float64."""
    return tuple(replace(t, target=double(t.target), weight=double(t.weight)) for t in blocks)


def in_memory(system: FiniteProblem) -> FiniteProblem:
    """Return the same problem with its Gram matrix, and its basis, targets and weights as NumPy arrays in float64.

    The Gram matrix is computed in float64 even for points in float32, so that it is positive semidefinite to that
    precision.  It stays on an accelerator.
    """
    converted = isinstance(system.Q, np.ndarray) and system.Q.dtype == np.float64
    if converted and system.exact.stored:
        return system
    matrix = system.exact.in_double()
    return in_numpy(system, GramMatrix(to_numpy(matrix)) if on_cpu(matrix) else GramMatrix(matrix, np.zeros(0)))


def stored(system: FiniteProblem) -> GramMatrix:
    """Return the Gram matrix of a problem in memory."""
    gram = plain(system.gram)
    assert isinstance(gram, GramMatrix)
    return gram


def in_numpy(system: FiniteProblem, gram: GramOperator | None = None) -> FiniteProblem:
    """Return the same problem in NumPy and float64, by default with its exact Gram operator."""
    gram = system.exact if gram is None else gram
    Q = system.Q
    if not (isinstance(Q, np.ndarray) and Q.dtype == np.float64):
        Q = double(Q)
        if Q.shape[1]:  # orthonormal to float32 so far, now to float64; rows of zeros stay zero
            Q = np.asarray(scipy.linalg.solve_triangular(np.linalg.cholesky(Q.T @ Q), Q.T, lower=True).T)
    basis = double(system.geometry.basis_sizes)
    geometry = GramGeometry(gram, gram, Q, system.definite, lambda: double(system.geometry.sizes), basis)
    return FiniteProblem(geometry, blocks_in_double(system.terms), system.outputs)


def to_memory(inside: FiniteProblem, system: FiniteProblem, iterate: Iterate) -> Iterate:
    """Convert an iterate to one of the problem in memory, with Q'a = 0 if the kernel requires it."""
    if inside is system:
        a, basis = iterate.a, iterate.basis
    else:
        a = double(iterate.a)
        basis = inside.Q.T @ to_numpy(system.Q @ iterate.basis)
    return Iterate(inside.inside(a), basis)


def from_memory(inside: FiniteProblem, system: FiniteProblem, iterate: Iterate) -> Iterate:
    """Convert an iterate of the problem in memory to one of the original problem."""
    if inside is system:
        return iterate
    alpha = None if iterate.alpha is None else like(iterate.alpha, system.Q)
    return Iterate(like(iterate.a, system.Q), system.Q.T @ like(inside.Q @ iterate.basis, system.Q), alpha)


@dataclass(frozen=True, eq=False)
class RowSubset:
    """The restriction of a problem to some of its rows; the coefficients of the others are zero."""

    whole: FiniteProblem
    system: FiniteProblem  # the problem of these rows
    rows: Vector  # their indices in `whole`
    R: Array  # (r, r) of the decomposition Q[rows] = Q_rows R

    @classmethod
    def of(cls, system: FiniteProblem, rows: Vector) -> RowSubset:
        """Return the restriction to rows, given by increasing indices."""
        Q, R = namespace(system.Q).linalg.qr(take_rows(system.Q, rows))
        gram = diagonal_part(system.gram, rows)
        exact = diagonal_part(system.exact, rows) if system.inexact else gram
        geometry = GramGeometry(gram, exact, Q, system.definite, lambda: take_rows(system.geometry.sizes, rows))
        return cls(system, FiniteProblem(geometry, blocks_of(system.terms, rows), system.outputs), rows, R)

    def restrict(self, iterate: Iterate) -> Iterate:
        """Return an iterate of the whole problem restricted to these rows."""
        return Iterate(self.system.inside(take_rows(iterate.a, self.rows)), self.R @ iterate.basis)

    def extend(self, iterate: Iterate) -> Iterate:
        """Return an iterate of these rows extended by zeros."""
        basis = like(np.linalg.pinv(to_numpy(self.R)), self.R) @ iterate.basis
        extended = [None if a is None else self.whole.zeros(int(a.shape[1])) for a in (iterate.a, iterate.alpha)]
        for column, a in zip(extended, (iterate.a, iterate.alpha), strict=True):
            if column is not None:
                column[indices(self.rows, column)] = a
        return Iterate(extended[0], basis, extended[1])
