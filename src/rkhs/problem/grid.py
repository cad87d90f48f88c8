"""Solutions along a path of weights, or over a grid of weights and folds, for little more than one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import inf
from typing import Any

import numpy as np

from rkhs.backend.arrays import like, namespace, to_numpy
from rkhs.finite.monitor import Monitor, OutOfIterations
from rkhs.finite.system import Iterate, System
from rkhs.finite.term import Term
from rkhs.solvers.base import Solver
from rkhs.solvers.dense import fits, in_memory
from rkhs.solvers.descent import Descent
from rkhs.solvers.newton import Newton
from rkhs.solvers.sharing.capacity import capacity_of, few_others
from rkhs.solvers.sharing.recycling import solve_together
from rkhs.solvers.sharing.task import Task

Vector = np.ndarray[Any, Any]
DIRECT, SHARE = 1000, 0.4  # curved rows, at least and of all, up to which a factorisation costs less than products


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

    def of_system(self, terms: Sequence[Term], system: System) -> list[tuple[Any, ...]]:
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
    """The tasks of all cells and outputs of a grid, whose last axis are so many folds."""

    def __init__(self, system: System, cells: list[tuple[Any, ...]], folds: int = 1) -> None:
        self.folds = folds
        self.newton = _newton_pays(system)
        self.system = in_memory(system) if self.newton else system
        self.tasks = [[Task.of(self.system, c, cell) for c in range(system.columns)] for cell in cells]

    def solve(self, monitor: Monitor) -> None:
        """Solve them together, the easiest first; what shared directions cannot reach each from the one before it."""
        if self.newton:
            self._solve_by_newton(monitor)
            return
        flat = sorted((task for row in self.tasks for task in row), key=_difficulty)
        if few_others(self.system):
            solve_together(flat, self.system, monitor, capacity_of(self.system))
        before = None
        for task in flat:
            if task.gap > monitor.tol:
                start = task.iterate or before or task.system.start()
                task.iterate = _as_far_as(Descent(), task.system, start, monitor)
            before = task.iterate

    def _solve_by_newton(self, monitor: Monitor) -> None:
        """Each cell with all its outputs from the one before it in its fold, whose curved rows are nearly its own."""
        before: dict[int, Iterate] = {}
        solver = Newton(direct=max(DIRECT, int(SHARE * self.system.size)))
        for k in sorted(range(len(self.tasks)), key=lambda k: _difficulty(self.tasks[k][0])):
            system, start = self.cell(k)
            found = before[k % self.folds] = _as_far_as(solver, system, before.get(k % self.folds, start), monitor)
            for c, task in enumerate(self.tasks[k]):
                task.iterate = found.output(c)

    def cell(self, k: int) -> tuple[System, Iterate]:
        """The system of one cell and the iterate of all its outputs."""
        scaled = zip(self.system.terms, self.tasks[k][0].system.terms, strict=True)
        rows = tuple(replace(t, weight=other.weight) for t, other in scaled)
        iterate = Iterate.joined([task.iterate or task.system.start() for task in self.tasks[k]])
        return self.system.with_rows(rows, self.system.outputs), iterate


def _as_far_as(solver: Solver, system: System, start: Iterate, monitor: Monitor) -> Iterate:
    """What a solver finds within its limit of iterations; other cells may need fewer."""
    monitor.best = start
    try:
        return solver.run(system, start, monitor)
    except OutOfIterations:
        return monitor.best


def _difficulty(task: Task) -> float:
    """Large weights make a problem hard."""
    return sum(float(namespace(t.weight).max(t.weight)) for t in task.system.terms if t.weight.shape[0])


def _newton_pays(system: System) -> bool:
    """Whether to take Newton's steps: smooth losses, none quadratic, and a Gram matrix in memory, in NumPy."""
    losses = [t.loss for t in system.terms]
    here = isinstance(system.Q, np.ndarray) and system.Q.dtype == np.float64 and system.precision is None
    return here and all(o.smooth and not o.quadratic for o in losses) and fits(system, system.size)
