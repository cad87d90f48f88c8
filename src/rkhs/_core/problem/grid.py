"""Solve a problem over a grid of weights and folds, sharing work between the cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import inf, log
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Vector, double, like, namespace, take_rows, to_numpy
from rkhs._core.finite.certificate import certify
from rkhs._core.finite.monitor import Monitor, OutOfIterations, mapped
from rkhs._core.finite.problem import FiniteProblem, Iterate
from rkhs._core.finite.representers import joined_iterates
from rkhs._core.finite.term import Term
from rkhs.solvers import _base as solving
from rkhs.solvers._admm import ADMM
from rkhs.solvers._base import FLOP, Estimate, RowSubset, fits, in_memory
from rkhs.solvers._choose import EXACT, ITERATIVE, Race, auto
from rkhs.solvers._galerkin import Galerkin
from rkhs.solvers._interior_point import BoxDual
from rkhs.solvers._nonlinear_cg import NonlinearCG
from rkhs.solvers._recycling import GridCell, capacity_of, has_few_nonquadratic, solve_together

SPLITTING = ADMM(2000)  # its limit of iterations; cells that need more are solved faster one by one
SHARED = 0.05  # cost of another problem that shares the directions of a first one, relative to that one


@dataclass(frozen=True, eq=False)
class WeightGrid:
    """A grid of factors on the weights of terms, whose last axis are the folds.

    An axis has the factors of one or more terms together.  A fold has a factor for each row of a term, 0 for the rows
    that it leaves out.
    """

    terms: int  # their number
    axes: dict[tuple[int, ...], list[float]]  # by the indices of terms
    folds: dict[int, list[Vector]]  # by the index of the term

    @classmethod
    def of(
        cls, terms: Sequence[Term], weights: Mapping[Any, Sequence[float]], held_out: Mapping[Term | int, Sequence[Any]]
    ) -> WeightGrid:
        """Validate the arguments of `Problem.grid`, in which terms are given as objects or by index."""

        def index(term: Any) -> int:
            matches = [k for k, member in enumerate(terms) if member is term or k == term]
            if not matches:
                raise ValueError(f"{term!r} is not a term of this problem, which has {len(terms)} terms.")
            return matches[0]

        for name, value in (("weights", weights), ("held_out", held_out)):
            if not isinstance(value, Mapping):
                raise TypeError(
                    f"{name} must map terms, or their indices, to lists, as in {{0: [1, 10]}}, got {value!r}."
                )
        axes = {
            tuple(map(index, key if isinstance(key, tuple) else (key,))): [float(w) for w in values]
            for key, values in weights.items()
        }
        wrong = [factor for values in axes.values() for factor in values if not 0 <= factor < inf]
        if wrong:
            raise ValueError(f"Factors on the weights of terms must be finite and nonnegative, got {wrong[0]!r}.")
        named = [term for members in axes for term in members]
        if len(set(named)) < len(named):
            raise ValueError(f"A term can have one axis of weights at most, got the terms {named}.")
        folds = {index(term): parts for term, parts in held_out.items()}
        if len({len(parts) for parts in folds.values()}) > 1:
            raise ValueError(
                f"All terms must have the same number of folds, got {[len(parts) for parts in folds.values()]}."
            )
        factors = {k: [_fold_factors(terms[k], part) for part in parts] for k, parts in folds.items()}
        return cls(len(terms), axes, factors)

    @property
    def count(self) -> int | None:
        """The number of folds; None if there is no such axis."""
        return len(next(iter(self.folds.values()))) if self.folds else None

    @property
    def shape(self) -> tuple[int, ...]:
        return (*map(len, self.axes.values()), *([] if self.count is None else [self.count]))

    def weightings(self, folds: Mapping[int, Sequence[Any]] | None = None) -> list[tuple[Any, ...]]:
        """Return the factors on the weights of all terms for each cell; `folds` replaces the factors of the folds."""
        cells = []
        for values, fold in product(product(*self.axes.values()), range(self.count or 1)):
            factors: list[Any] = [1.0] * self.terms
            for members, value in zip(self.axes, values, strict=True):
                for term in members:
                    factors[term] = value
            for term, parts in (self.folds if folds is None else folds).items():
                factors[term] = factors[term] * parts[fold]
            cells.append(tuple(factors))
        return cells

    def system_weightings(self, terms: Sequence[Term], system: FiniteProblem) -> list[tuple[Any, ...]]:
        """Return the weightings with the factors of folds as columns, restricted to the rows of a system."""
        columns = {
            k: [like(part[to_numpy(terms[k].weights())[:, 0] > 0, None], system.terms[k].weight) for part in parts]
            for k, parts in self.folds.items()
        }
        return self.weightings(columns)


def _fold_factors(term: Term, held_out: Any) -> Vector:
    """Return the factors of a fold on the rows of a term, from rows to leave out (indices or a mask) or factors."""
    array, factors = np.asarray(held_out), np.ones(term.size)
    if array.dtype.kind == "f" and array.size:
        if array.shape != (term.size,) or not np.all((array >= 0) & (array < inf)):
            raise ValueError(
                f"A fold of {term!r} must be rows to leave out, or {term.size} nonnegative factors, got {held_out!r}."
            )
        factors = array.astype(np.float64)
    else:
        try:
            factors[array if array.size else array.astype(int)] = 0.0
        except IndexError:
            raise ValueError(
                f"A fold of {term!r} leaves out rows that do not exist: {held_out!r} of {term.size} rows."
            ) from None
    if not term.loss.separable:
        term.changed(weight=factors)  # raises an error if they differ within a vector of functionals
    return factors


class GridSolver:
    """The problems of all cells and outputs of a grid, and the choice of a method for them by estimated cost.

    - In memory: cells that are cheap with a stored Gram matrix are solved one by one, with warm starts in each fold.
    - Split: cells with both smooth and nonsmooth losses are solved all at once by ADMM.
    - Together: cells share a subspace of search directions (`solve_together`).
    - Alone: each cell is solved by itself, also if one of the other methods does not reach the tolerance.
    """

    def __init__(self, system: FiniteProblem, cells: list[tuple[Any, ...]], folds: int = 1) -> None:
        self.folds, self.outputs = folds, system.outputs
        self.system = system
        self.tasks = [[GridCell.of(system, c, cell) for c in range(system.columns)] for cell in cells]

    def solve(self, monitor: Monitor) -> None:
        """Solve all cells, those with the smallest weights first."""

        def largest_weights(k: int) -> float:
            blocks = self.tasks[k][0].system.terms
            return sum(float(namespace(t.weight).max(t.weight)) for t in blocks if t.weight.shape[0])

        order = sorted(range(len(self.tasks)), key=largest_weights)
        apart, alone, together, split = self._costs(self.cell(order[-1])[0], monitor.tol)
        if split <= apart < inf:
            self._split(monitor)
            order = [k for k in order if any(task.gap > monitor.tol for task in self.tasks[k])]
        if split < inf or apart <= together:
            self._in_memory(order, monitor)
            return
        if together <= alone:
            flat = [task for k in order for task in self.tasks[k]]
            shared, capacity = monitor.monitored(self.system), capacity_of(self.system)
            for step in solve_together(flat, shared, monitor.tol, monitor, capacity):
                monitor.report(step.iterate, step.primal, step.gap)
        for k in order:
            if any(task.gap > monitor.tol for task in self.tasks[k]):
                cell, start = self.cell(k)
                self._solve_cell(k, monitor.monitored(cell), start, monitor, lambda iterate: iterate)

    def _stored(self, monitor: Monitor) -> FiniteProblem:
        """Return the problem with its Gram matrix in memory."""
        monitor.afford(Estimate(self.system).matrix)
        stored = in_memory(self.system if self.system.exact.stored else monitor.monitored(self.system))
        if stored.Q is self.system.Q:  # the same numbers: certificates can use the stored matrix as well
            self.system = stored
        return stored

    def _in_memory(self, order: list[int], monitor: Monitor) -> None:
        """Solve the cells one by one with a stored Gram matrix, with warm starts within each fold."""
        stored = self._stored(monitor)
        starts: dict[int, Iterate] = {}
        for k in order:
            fold, (cell, start) = k % self.folds, self.cell(k)
            system = stored.with_rows(solving.blocks_in_double(cell.terms), cell.outputs)
            first = starts.get(fold) or solving.to_memory(stored, self.system, start)
            starts[fold] = self._solve_cell(
                k, system, first, monitor, partial(solving.from_memory, stored, self.system)
            )

    def _split(self, monitor: Monitor) -> None:
        """Solve all cells as the outputs of one problem, by a trial of nonlinear CG and then by ADMM."""
        stored = self._stored(monitor)
        tasks = [task for cell in self.tasks for task in cell]
        blocks = []
        for k, t in enumerate(stored.terms):
            terms = [task.system.terms[k] for task in tasks]
            target = np.concatenate([double(b.target) for b in terms], axis=1)
            weight = np.concatenate([double(b.weight) for b in terms], axis=1)
            blocks.append(replace(t, target=target, weight=weight))
        joint = stored.with_rows(tuple(blocks), len(tasks))
        monitor.best = joint.start()
        solver = Race((SPLITTING, NonlinearCG()))
        try:
            monitor.best = monitor.follow(solver.steps(joint, joint.start(), monitor.tol, monitor))
        except OutOfIterations:
            pass
        finally:
            found = monitor.best or joint.start()
            for k, task in enumerate(tasks):
                task.iterate = solving.from_memory(stored, self.system, found.output(k))
        for task, certificate in zip(tasks, certify(joint, found, monitor.tol).split(), strict=True):
            task.gap = certificate.relative if certificate.within(monitor.tol) else inf

    def cell(self, k: int) -> tuple[FiniteProblem, Iterate]:
        """Return the problem of cell k and the iterate of all its outputs."""
        pairs = zip(self.system.terms, self.tasks[k][0].system.terms, strict=True)
        blocks = tuple(replace(t, weight=weighted.weight) for t, weighted in pairs)
        iterate = joined_iterates([task.iterate or task.system.start() for task in self.tasks[k]])
        return self.system.with_rows(blocks, self.outputs), iterate

    def _solve_cell(
        self, k: int, system: FiniteProblem, start: Iterate, monitor: Monitor, back: Callable[[Iterate], Iterate]
    ) -> Iterate:
        """Solve cell k and store its iterate, the best one so far if the solver is stopped.

        Rows that a fold leaves out are dropped.  `back` maps an iterate of `system` to one of `self.system`.
        """
        monitor.best, monitor.solver = start, None
        positive = to_numpy(system.weight).max(axis=1, initial=0.0) > 0
        subset = None if positive.all() else RowSubset.of(system, np.flatnonzero(positive))
        try:
            if subset is None:
                steps = auto(system).steps(system, start, monitor.tol, monitor)
                monitor.best = monitor.follow(steps)
            else:
                solver, first = auto(subset.system), subset.restrict(start)
                steps = mapped(solver.steps(subset.system, first, monitor.tol, monitor), subset.extend)
                monitor.best = subset.extend(monitor.follow(steps))
        except OutOfIterations:  # other cells may need fewer
            pass
        finally:
            found = monitor.best or start
            iterate = back(found)
            for c, task in enumerate(self.tasks[k]):
                task.iterate = iterate.output(c)
        return found

    def _costs(self, hardest: FiniteProblem, tol: float) -> tuple[float, float, float, float]:
        """Return the estimated costs of all cells in memory, alone, together, and split; see the class.

        Rows of terms with folds have no shared moments and take a separate product in each reduced problem.  ADMM
        is for mixed smooth and nonsmooth losses, to which no exact solver applies, if most losses are not quadratic.
        """
        estimate, cells = Estimate(hardest, expected_iterations(hardest, tol)), len(self.tasks)
        apart = split = inf
        if self.system.gram.stored or fits(self.system):
            dense = solving.cheapest((*EXACT, NonlinearCG()), hardest).cost(estimate)
            apart = estimate.matrix + cells * (dense - estimate.matrix)
            mixed = not (self.system.smooth or self.system.hard or BoxDual().lacks(self.system) is None)
            if mixed and 2 * len(self.system.other_rows) > self.system.size:
                outputs = hardest.with_rows(hardest.terms, cells * self.system.columns)
                split = SPLITTING.cost(Estimate(outputs))
        alone = cells * min((one.cost(estimate) for one in ITERATIVE if one.lacks(hardest) is None), default=0.0)
        if self.system.hard or not has_few_nonquadratic(self.system):
            return apart, alone, inf, split
        multiples = [task.multiples for cell in self.tasks for task in cell]
        with_folds = [k for k in range(len(self.system.terms)) if any(not isinstance(m[k], float) for m in multiples)]
        rows = sum(t.rows.stop - t.rows.start for k, t in enumerate(self.system.terms) if k in with_folds)
        directions = min(capacity_of(self.system), estimate.iterations * cells)
        reduced = cells * self.system.columns * estimate.iterations * 2 * FLOP * rows * directions**2
        return apart, alone, Galerkin().cost(estimate) * (1 + SHARED * cells) + reduced, split


def expected_iterations(system: FiniteProblem, tol: float) -> float:
    """Return the number of iterations of conjugate gradients for the hardest cell, from its conditioning.

    Eigenvalues decay fast, so that it grows with the fourth root of the conditioning, not with its square root.
    """
    return (8 + 3.5 * conditioning(system) ** 0.25) * max(log(1 / max(tol, 1e-16)), 1.0) / log(1e4)


def conditioning(system: FiniteProblem) -> float:
    """Return an estimate of 1 + the largest eigenvalue of H^1/2 G H^1/2, H the largest curvatures of the losses.

    It comes from five power iterations on a sample of 100 rows of each block.  The curvature of a loss with a kink is
    taken as if it were smoothed over a unit.
    """
    rng, rows, root = np.random.default_rng(0), [], []
    for t in system.terms:
        size = t.rows.stop - t.rows.start
        sample = rng.choice(size, min(size, 100), replace=False)
        width = max(getattr(t.loss, "width", 0.0) or 0.25, 1e-6)
        curvature = to_numpy(t.weight[sample]).max(axis=1, initial=0.0) / width
        rows.append(t.rows.start + sample)
        root.append(np.sqrt(curvature * size / max(len(sample), 1)))
    chosen, scale = np.concatenate(rows), np.concatenate(root)[:, None]
    if not len(chosen):
        return 1.0
    G = double(system.exact.block(chosen, chosen))
    if not system.definite:
        basis = np.linalg.qr(double(take_rows(system.Q, chosen)))[0]
        G = G - basis @ (basis.T @ G)
        G = G - (G @ basis) @ basis.T
    v, largest = rng.standard_normal((len(chosen), 1)), 0.0
    for _ in range(5):
        v = scale * (G @ (scale * (v / np.linalg.norm(v))))
        largest = float(np.linalg.norm(v))
        if not largest > 0:
            break
    return 1.0 + largest
