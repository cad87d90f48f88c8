"""Solutions along a path of weights, or over a grid of weights and folds, for little more than one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from rkhs.backend.arrays import like, namespace
from rkhs.finite.monitor import Monitor
from rkhs.finite.system import Iterate, System
from rkhs.solvers.descent import Descent
from rkhs.solvers.recycling import Task, solve_together

MOST_DIRECTIONS = 300


def multiples_of(
    system: System, weights: Mapping[int, Sequence[float]], held_out: Mapping[int, Sequence[Any]]
) -> list[tuple[Any, ...]]:
    """For each cell of the grid, the factor on the weights of each term: axes are the terms' weights, then folds."""
    folds = max((len(f) for f in held_out.values()), default=0)
    cells = []
    for chosen, fold in product(product(*weights.values()), range(folds) if folds else [None]):
        factors: list[Any] = [1.0] * len(system.terms)
        for term, value in zip(weights, chosen, strict=True):
            factors[term] = float(value)
        if fold is not None:
            for term, parts in held_out.items():
                rows = system.terms[term].weight
                kept = np.ones((int(rows.shape[0]), 1))
                kept[np.asarray(parts[fold])] = 0.0
                factors[term] = like(factors[term] * kept, rows)
        cells.append(tuple(factors))
    return cells


class GridTasks:
    """The tasks of all cells and outputs of a grid."""

    def __init__(self, system: System, cells: list[tuple[Any, ...]]) -> None:
        self.system = system
        self.tasks = [[Task.of(system, c, cell) for c in range(system.columns)] for cell in cells]

    def solve(self, monitor: Monitor) -> None:
        """Solve them together, the easiest first, and one by one what the shared directions cannot reach."""
        flat = sorted((task for row in self.tasks for task in row), key=_difficulty)
        solve_together(flat, self.system, monitor, _capacity(self.system))
        for task in flat:
            if task.gap > monitor.tol:
                task.iterate = Descent().run(task.system, task.iterate or task.system.start(), monitor)

    def cell(self, k: int) -> tuple[System, Iterate]:
        """The system of one cell and the iterate of all its outputs."""
        scaled = zip(self.system.terms, self.tasks[k][0].system.terms, strict=True)
        rows = tuple(replace(t, weight=other.weight) for t, other in scaled)
        iterate = Iterate.joined([task.iterate or task.system.start() for task in self.tasks[k]])
        return self.system.with_rows(rows, self.system.outputs), iterate


def _difficulty(task: Task) -> float:
    """Large weights make a problem hard."""
    return sum(float(namespace(t.weight).max(t.weight)) for t in task.system.terms)


def _capacity(system: System) -> int:
    """Directions to keep: within half the memory budget, and few enough that they cost less than the products."""
    entry = 4 if "32" in str(system.functionals.prototype.dtype) else 8
    return max(1, min(MOST_DIRECTIONS, system.size, system.gram.budget // (4 * entry * max(system.size, 1))))
