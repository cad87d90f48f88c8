"""Solutions along a path of weights, or over a grid of weights and folds, for little more than one of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import inf
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, Vector, indices, like, namespace, taken, to_numpy
from rkhs._finite.certificate import certify
from rkhs._finite.monitor import InnerMonitor, Monitor, OutOfIterations
from rkhs._finite.problem import FiniteProblem, Geometry, Iterate, consecutive
from rkhs._finite.term import Term
from rkhs._finite.verified import joined
from rkhs._gram.matrix import diagonal_part
from rkhs.solvers._admm import ADMM
from rkhs.solvers._base import Solver, blocks_in_double, cheapest, double, fits, from_memory, in_memory, to_memory
from rkhs.solvers._choose import EXACT, ITERATIVE, TRIAL, Fallback, auto
from rkhs.solvers._costs import FLOP, Estimate
from rkhs.solvers._galerkin import Galerkin
from rkhs.solvers._interior_point import BoxDual
from rkhs.solvers._nonlinear_cg import NonlinearCG
from rkhs.solvers._recycling import capacity_of, few_others, solve_together
from rkhs.solvers._subspace import Task

SPLITTING = ADMM(2000)  # steps, beyond which it is slow
SHARED = 0.05  # of a problem alone, what another one costs that shares its directions


@dataclass(frozen=True, eq=False)
class Cells:
    """A grid of factors on the weights of terms, and of folds, its last axis.

    An axis is a factor for one or more terms together.  A fold has a factor for each row of a term, 0 for those that it
    leaves out.
    """

    terms: int
    axes: dict[tuple[int, ...], list[float]]
    folds: dict[int, list[Vector]]

    @classmethod
    def of(
        cls,
        terms: Sequence[Term],
        weights: Mapping[Any, Sequence[float]],
        held_out: Mapping[Term | int, Sequence[Any]],
    ) -> Cells:
        """From what `Problem.grid` is given, in which a term is itself or its number."""

        def index(term: Any) -> int:
            found = [k for k, own in enumerate(terms) if own is term or k == term]
            if not found:
                raise ValueError(f"{term!r} is not a term of this problem, which has {len(terms)} terms.")
            return found[0]

        for name, given in (("weights", weights), ("held_out", held_out)):
            if not isinstance(given, Mapping):
                raise TypeError(
                    f"{name} must map terms, or their numbers, to lists, as in {{0: [1, 10]}}, got {given!r}."
                )
        axes = {
            tuple(map(index, key if isinstance(key, tuple) else (key,))): [_factor(w) for w in values]
            for key, values in weights.items()
        }
        named = [term for members in axes for term in members]
        if len(set(named)) < len(named):
            raise ValueError(f"A term has one axis of weights at most, got the terms {named}.")
        folds = {index(term): parts for term, parts in held_out.items()}
        if len({len(parts) for parts in folds.values()}) > 1:
            raise ValueError(f"The terms have different numbers of folds: {[len(own) for own in folds.values()]}.")
        factors = {k: [_fold_factors(terms[k], part) for part in parts] for k, parts in folds.items()}
        return cls(len(terms), axes, factors)

    @property
    def count(self) -> int | None:
        """The number of folds; None if there is no such axis."""
        return len(next(iter(self.folds.values()))) if self.folds else None

    @property
    def shape(self) -> tuple[int, ...]:
        return (*map(len, self.axes.values()), *([] if self.count is None else [self.count]))

    def multiples(self, folds: Mapping[int, Sequence[Any]] | None = None) -> list[tuple[Any, ...]]:
        """For each cell the factor of each term; where a term has folds, times what `folds` has in their place."""
        cells = []
        for chosen, fold in product(product(*self.axes.values()), range(self.count or 1)):
            factors: list[Any] = [1.0] * self.terms
            for members, value in zip(self.axes, chosen, strict=True):
                for term in members:
                    factors[term] = value
            for term, parts in (self.folds if folds is None else folds).items():
                factors[term] = factors[term] * parts[fold]
            cells.append(tuple(factors))
        return cells

    def of_system(self, terms: Sequence[Term], system: FiniteProblem) -> list[tuple[Any, ...]]:
        """The same, the folds' factors as columns on those rows of the terms that are in a system."""
        columns = {
            k: [like(part[to_numpy(terms[k].weights())[:, 0] > 0, None], system.terms[k].weight) for part in parts]
            for k, parts in self.folds.items()
        }
        return self.multiples(columns)


def _factor(weight: Any) -> float:
    factor = float(weight)
    if not 0 <= factor < inf:
        raise ValueError(f"Factors on the weights of terms must be finite and not negative, got {weight!r}.")
    return factor


def _fold_factors(term: Term, held_out: Any) -> Vector:
    """The factors of a fold on the rows of a term, 0 for rows left out."""
    given = np.asarray(held_out)
    if given.dtype.kind == "f" and given.size:
        if given.shape != (term.size,) or not np.all((given >= 0) & (given < inf)):
            raise ValueError(
                f"A fold of {term!r} needs rows to leave out, or {term.size} factors that are not negative, got "
                f"{held_out!r}."
            )
        return given.astype(np.float64)
    factors = np.ones(term.size)
    try:
        factors[given if given.size else given.astype(int)] = 0.0
    except IndexError:
        raise ValueError(f"A fold of {term!r} leaves out rows that it has not: {held_out!r} of {term.size}.") from None
    return factors


class GridTasks:
    """The tasks of all cells and outputs of a grid, whose last axis are the folds.

    Cells that are cheap alone, on a Gram matrix in memory, are solved one after the other, each from the one before it
    in its fold; many cells of kinks beside curves go by alternating directions, all at once; the others share
    directions where that is expected to cost less than each by itself.  What these ways cannot reach is solved alone.
    """

    def __init__(self, system: FiniteProblem, cells: list[tuple[Any, ...]], folds: int = 1) -> None:
        self.folds, self.outputs = folds, system.outputs
        self.system = system
        self.iterations = 0  # that an iterative solver took for the last cell; 0 where it was not enough
        self.tasks = [[Task.of(system, c, cell) for c in range(system.columns)] for cell in cells]

    def solve(self, monitor: Monitor) -> None:
        """Solve all cells, the easiest first."""

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
            solve_together(flat, monitor.watching(self.system), monitor, capacity_of(self.system))
        for k in order:
            if any(task.gap > monitor.tol for task in self.tasks[k]):
                cell, start = self.cell(k)
                self._solve_cell(k, monitor.watching(cell), start, monitor, lambda iterate: iterate)

    def _stored(self, monitor: Monitor) -> FiniteProblem:
        """Return the problem with its Gram matrix in memory."""
        monitor.afford(Estimate(self.system, monitor.tol).matrix)
        inside = in_memory(self.system if self.system.exact.stored else monitor.watching(self.system))
        if inside.Q is self.system.Q:  # the same numbers, of which certificates need no products any more
            self.system = inside
        return inside

    def _in_memory(self, order: list[int], monitor: Monitor) -> None:
        """Solve cell by cell, each from the one before it in its fold."""
        inside = self._stored(monitor)
        before: dict[int, Iterate] = {}
        for k in order:
            fold, (cell, start) = k % self.folds, self.cell(k)
            own = inside.with_rows(blocks_in_double(cell.terms), cell.outputs)
            first = before.get(fold) or to_memory(inside, self.system, start)
            before[fold] = self._solve_cell(k, own, first, monitor, partial(from_memory, inside, self.system))

    def _split(self, monitor: Monitor) -> None:
        """Solve all cells as the outputs of one problem, by a few gradients or else by alternating directions."""
        inside = self._stored(monitor)
        tasks = [task for own in self.tasks for task in own]
        blocks = []
        for k, t in enumerate(inside.terms):
            own = [task.system.terms[k] for task in tasks]
            target, weight = (
                np.concatenate([double(getattr(b, name)) for b in own], axis=1) for name in ("target", "weight")
            )
            blocks.append(replace(t, target=target, weight=weight))
        joint = inside.with_rows(tuple(blocks), len(tasks))
        monitor.best = joint.start()
        seconds = SPLITTING.seconds(joint.size, joint.columns)
        solver = Fallback.of(NonlinearCG(), SPLITTING, seconds, Estimate(joint, monitor.tol, hoped=TRIAL), TRIAL)
        try:
            monitor.best = solver.run(joint, monitor.best, monitor)
        except OutOfIterations:
            pass
        finally:
            for k, task in enumerate(tasks):
                task.iterate = from_memory(inside, self.system, monitor.best.output(k))
        for task, certificate in zip(tasks, certify(joint, monitor.best, monitor.tol).split(), strict=True):
            task.gap = certificate.relative if certificate.within(monitor.tol) else inf

    def cell(self, k: int) -> tuple[FiniteProblem, Iterate]:
        """Return the problem of one cell and the iterate of all its outputs."""
        scaled = zip(self.system.terms, self.tasks[k][0].system.terms, strict=True)
        blocks = tuple(replace(t, weight=other.weight) for t, other in scaled)
        iterate = joined([task.iterate or task.system.start() for task in self.tasks[k]])
        return self.system.with_rows(blocks, self.outputs), iterate

    def _solve_cell(
        self,
        k: int,
        system: FiniteProblem,
        start: Iterate,
        monitor: Monitor,
        back: Callable[[Iterate], Iterate],
    ) -> Iterate:
        """Solve a cell as far as a solver gets; it keeps its best iterate also where the solver is stopped.

        Rows that a fold leaves out are dropped, as in a problem that never had them.
        """
        monitor.best, monitor.solver, before = start, None, len(monitor.history)
        present = DropZeroWeights.of(system)
        own = system if present is None else present.system
        solver = self._solver(own, start, monitor.tol)
        try:
            if present is None:
                monitor.best = _run(solver, system, start, monitor)
            else:
                inner = InnerMonitor(monitor.tol, outer=monitor, whole=present.back)
                inner.best = present.there(start)
                monitor.best = present.back(_run(solver, own, inner.best, inner))
            iterative = isinstance(solver, Fallback) and monitor.solver is None
            self.iterations = len(monitor.history) - before if iterative else 0
        finally:
            found = back(monitor.best)
            for c, task in enumerate(self.tasks[k]):
                task.iterate = found.output(c)
        return monitor.best

    def _solver(self, system: FiniteProblem, start: Iterate, tol: float) -> Solver:
        """Return the solver of a cell.

        A trial tells little from a start that is not zero.  There the last cell tells whether an iterative solver is
        enough, in at most twice as many iterations as it took.
        """
        solver = auto(system, tol)
        if isinstance(solver, Fallback) and solver.trial and bool(namespace(start.a).any(start.a != 0)):
            steps = min(solver.steps, 2 * self.iterations)
            return replace(solver, trial=None, steps=steps) if steps else solver.then
        return solver

    def _costs(self, hardest: FiniteProblem, tol: float) -> tuple[float, float, float, float]:
        """Return the cost of all cells in memory one after the other, of each by itself, sharing directions, or split.

        Rows that a fold leaves out have no moments: their part of each reduced problem is a product of its own.  Split
        are kinks beside curves, which no solver ends exactly, where most losses are not quadratic.
        """
        estimate, cells = Estimate(hardest, tol), len(self.tasks)
        apart = split = inf
        if self.system.gram.stored or fits(self.system.size):
            dense = cheapest((*EXACT, NonlinearCG()), hardest, tol).cost(estimate)
            apart = estimate.matrix + cells * (dense - estimate.matrix)
            mixed = not (self.system.smooth or BoxDual().applies(self.system))
            if mixed and 2 * len(self.system.other_rows) > self.system.size:
                split = estimate.matrix + SPLITTING.seconds(self.system.size, cells * self.system.columns)
        alone = cells * min(solver.cost(estimate) for solver in ITERATIVE if solver.applies(hardest))
        if not few_others(self.system):
            return apart, alone, inf, split
        multiples = [task.multiples for own in self.tasks for task in own]
        left_out = [k for k in range(len(self.system.terms)) if any(not isinstance(m[k], float) for m in multiples)]
        loose = sum(t.rows.stop - t.rows.start for k, t in enumerate(self.system.terms) if k in left_out)
        directions = min(capacity_of(self.system), estimate.iterations * cells)
        reduced = cells * self.system.columns * estimate.iterations * 2 * FLOP * loose * directions**2
        return apart, alone, Galerkin().cost(estimate) * (1 + SHARED * cells) + reduced, split


def _run(solver: Solver, system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
    """Return what a solver finds within its limit of iterations; other cells may need fewer."""
    try:
        return solver.run(system, start, monitor)
    except OutOfIterations:
        return monitor.best or start


@dataclass(frozen=True, eq=False)
class DropZeroWeights:
    """The problem without its rows of weight zero, whose coefficients are zero, and the map there and back."""

    whole: FiniteProblem
    system: FiniteProblem
    rows: Vector
    turn: Array  # R (r, r) of Q[rows] = Q_rows R

    @classmethod
    def of(cls, system: FiniteProblem) -> DropZeroWeights | None:
        """Return None where all rows have a weight."""
        counts = to_numpy(system.weight).max(axis=1, initial=0.0) > 0
        if counts.all():
            return None
        rows = np.flatnonzero(counts)
        Q, turn = namespace(system.Q).linalg.qr(taken(system.Q, rows))
        blocks = []
        for t in system.terms:
            own = np.flatnonzero(counts[t.rows])
            target, weight = taken(t.target, own), taken(t.weight, own)
            blocks.append(replace(t, rows=slice(0, len(own)), target=target, weight=weight))
        gram = diagonal_part(system.gram, rows)
        exact = diagonal_part(system.exact, rows) if system.inexact else gram
        geometry = Geometry(gram, exact, Q, system.definite, lambda: taken(system.geometry.sizes, rows))
        return cls(system, FiniteProblem(geometry, consecutive(blocks), system.outputs), rows, turn)

    def there(self, iterate: Iterate) -> Iterate:
        """Drop the rows of an iterate of the whole problem."""
        return Iterate(self.system.inside(taken(iterate.a, self.rows)), self.turn @ iterate.basis)

    def back(self, iterate: Iterate) -> Iterate:
        """Fill an iterate with zeros."""
        basis = like(np.linalg.pinv(to_numpy(self.turn)), self.turn) @ iterate.basis
        spread = [None if a is None else self.whole.zeros(int(a.shape[1])) for a in (iterate.a, iterate.alpha)]
        for filled, a in zip(spread, (iterate.a, iterate.alpha), strict=True):
            if filled is not None:
                filled[indices(self.rows, filled)] = a
        return Iterate(spread[0], basis, spread[1])
