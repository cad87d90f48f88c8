"""Solutions along a path of weights, or over a grid of weights and folds, for little more than one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from math import inf
from typing import Any

import numpy as np

from rkhs._backend.arrays import Vector, like, namespace, to_numpy
from rkhs._finite.ledger import joined
from rkhs._finite.monitor import InnerMonitor, Monitor, OutOfIterations
from rkhs._finite.problem import FiniteProblem, Iterate
from rkhs._finite.term import Term
from rkhs.solvers.auto import EXACT, ITERATIVE, auto
from rkhs.solvers.choose import applies, cheapest
from rkhs.solvers.costs import FLOP, Estimate
from rkhs.solvers.dense import fits, from_memory, in_memory, rows_in_double, to_memory
from rkhs.solvers.galerkin import Galerkin
from rkhs.solvers.present import Present
from rkhs.solvers.sharing.capacity import capacity_of, few_others
from rkhs.solvers.sharing.recycling import solve_together
from rkhs.solvers.sharing.split import split_together, worth_splitting
from rkhs.solvers.sharing.task import Task

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
    """The tasks of all cells and outputs of a grid, whose last axis are so many folds.

    Cells that are cheap alone, on a Gram matrix in memory, are solved one after the other, each from the one before it
    in its fold; those of kinks beside curves go by alternating directions, all at once; the others share directions
    where that is expected to cost less than each by itself.  What these ways cannot reach is solved alone.
    """

    def __init__(self, system: FiniteProblem, cells: list[tuple[Any, ...]], folds: int = 1) -> None:
        self.folds, self.outputs = folds, system.outputs
        self.system = system
        self.tasks = [[Task.of(system, c, cell) for c in range(system.columns)] for cell in cells]

    def solve(self, monitor: Monitor) -> None:
        """Solve all cells, the easiest first."""
        order = sorted(range(len(self.tasks)), key=lambda k: _difficulty(self.tasks[k][0]))
        split = worth_splitting(self.system)
        if split:
            split_together([task for own in self.tasks for task in own], self.system, monitor)
            order = [k for k in order if any(task.gap > monitor.tol for task in self.tasks[k])]
            if not order:
                return
        if split or self._apart(monitor.tol, order):
            self._in_memory(order, monitor)
            return
        flat = [task for k in order for task in self.tasks[k]]
        if self._sharing(monitor.tol, order):
            solve_together(flat, monitor.watching(self.system), monitor, capacity_of(self.system))
        for k in order:
            if any(task.gap > monitor.tol for task in self.tasks[k]):
                cell, start = self.cell(k)
                with self._keeping(k, monitor):
                    monitor.best = _as_far_as(monitor.watching(cell), start, monitor)

    def _in_memory(self, order: list[int], monitor: Monitor) -> None:
        """Cell by cell, each from the one before it in its fold."""
        monitor.check(Estimate(self.system, monitor.tol).matrix)
        inside = in_memory(self.system if self.system.exact.stored else monitor.watching(self.system))
        if inside.Q is self.system.Q:  # the same numbers, of which certificates need no products any more
            self.system = inside
        before: dict[int, Iterate] = {}
        for k in order:
            fold, (cell, start) = k % self.folds, self.cell(k)
            own = inside.with_rows(rows_in_double(cell.terms), cell.outputs)
            first = before.get(fold) or to_memory(inside, self.system, start)
            with self._keeping(k, monitor, partial(from_memory, inside, self.system)):
                monitor.best = before[fold] = _as_far_as(own, first, monitor)

    def cell(self, k: int) -> tuple[FiniteProblem, Iterate]:
        """The system of one cell and the iterate of all its outputs."""
        scaled = zip(self.system.terms, self.tasks[k][0].system.terms, strict=True)
        rows = tuple(replace(t, weight=other.weight) for t, other in scaled)
        iterate = joined([task.iterate or task.system.start() for task in self.tasks[k]])
        return self.system.with_rows(rows, self.outputs), iterate

    @contextmanager
    def _keeping(
        self, k: int, monitor: Monitor, back: Callable[[Iterate], Iterate] = lambda iterate: iterate
    ) -> Iterator[None]:
        """Give a cell the best iterate of the monitor, also where its solver is stopped."""
        monitor.best = None
        try:
            yield
        finally:
            if monitor.best is not None:
                found = back(monitor.best)
                for c, task in enumerate(self.tasks[k]):
                    task.iterate = found.output(c)

    def _apart(self, tol: float, order: list[int]) -> bool:
        """Whether all cells one after the other, on a Gram matrix in memory, cost less than in other ways."""
        hardest = self.cell(order[-1])[0]
        if not (self.system.gram.stored or fits(self.system.size)):
            return False
        if not few_others(self.system):
            return True
        estimate = Estimate(hardest, tol)
        alone = estimate.matrix + len(order) * (cheapest(hardest, tol, EXACT).cost(estimate) - estimate.matrix)
        return alone <= self._together(estimate, len(order))

    def _sharing(self, tol: float, order: list[int]) -> bool:
        """Whether cells that share directions cost less than each by itself."""
        if not few_others(self.system):
            return False
        hardest = self.cell(order[-1])[0]
        estimate = Estimate(hardest, tol)
        alone = min(solver.cost(estimate) for solver in ITERATIVE if applies(solver, hardest))
        return self._together(estimate, len(order)) <= len(order) * alone

    def _together(self, estimate: Estimate, cells: int) -> float:
        """The seconds of all cells that share directions.

        Rows that a fold leaves out have no moments: their part of each small problem is a product of its own.
        """
        multiples = [task.multiples for own in self.tasks for task in own]
        left_out = [k for k in range(len(self.system.terms)) if any(not isinstance(m[k], float) for m in multiples)]
        loose = sum(t.rows.stop - t.rows.start for k, t in enumerate(self.system.terms) if k in left_out)
        directions = min(capacity_of(self.system), estimate.iterations * cells)
        small = 2 * FLOP * loose * directions**2
        tasks = cells * self.system.columns
        return Galerkin().cost(estimate) * (1 + SHARED * cells) + tasks * estimate.iterations * small


def _as_far_as(system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
    """What a solver finds within its limit of iterations; other cells may need fewer.

    Rows that a fold leaves out are not there for it: as for a problem that never had them.
    """
    monitor.best = start
    present = Present.of(system)
    if present is None:
        return _run(system, start, monitor)
    inner = InnerMonitor(monitor.tol, outer=monitor, whole=present.back)
    inner.best = present.there(start)
    return present.back(_run(present.system, inner.best, inner))


def _run(system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
    try:
        return auto(system, monitor.tol).run(system, start, monitor)
    except OutOfIterations:
        assert monitor.best is not None
        return monitor.best


def _difficulty(task: Task) -> float:
    """Large weights make a problem hard."""
    return sum(float(namespace(t.weight).max(t.weight)) for t in task.system.terms if t.weight.shape[0])
