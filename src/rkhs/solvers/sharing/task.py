"""One of many problems that share a Gram."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, Matrix, like, namespace, to_numpy, zeros
from rkhs._finite.ledger import Entry
from rkhs._finite.problem import FiniteProblem, Iterate
from rkhs.solvers.sharing.directions import Directions
from rkhs.solvers.small.problem import Part, SmallProblem, upright


@dataclass(eq=False)
class Task:
    """One problem with one output; its weights are multiples of those of the system that all problems share.

    `multiples` holds a number for each term, or an array (n, 1) where rows differ (a fold leaves some out).
    """

    system: FiniteProblem
    multiples: tuple[Any, ...]
    theta: Matrix = field(default_factory=lambda: np.zeros(0))  # of the solution on the directions so far
    others: Matrix = field(default_factory=lambda: np.zeros(0))  # its alpha on rows of losses that are not quadratic
    gamma: Matrix | None = None  # of the best dual point in the span
    iterate: Iterate | None = None
    alpha: Array | None = None  # of the best dual value so far
    alpha_image: Array | None = None
    primal: float = float("inf")
    fall: float = float("inf")  # of the primal value, by the directions that came last
    dual: float = -float("inf")
    gap: float = float("inf")
    entry: Entry | None = None  # in the ledger, once it is solved

    @classmethod
    def of(cls, shared: FiniteProblem, output: int, multiples: tuple[Any, ...]) -> Task:
        one = shared.output(output)
        rows = tuple(replace(t, weight=t.weight * m) for t, m in zip(one.terms, multiples, strict=True))
        return cls(one.with_rows(rows), multiples)

    def slope(self, u: Array) -> Array:
        """w loss'(u) (N, 1); where losses are not smooth, what the small problem has in its place."""
        if self.system.smooth:
            return self.system.slope(u)
        parts, start = [], 0
        for t in self.system.terms:
            if t.loss.quadratic:
                parts.append(t.weight * t.loss.gradient(u[t.rows], t.target))
            else:
                stop = start + int(t.target.shape[0])
                parts.append(like(-self.others[start:stop, None], u))
                start = stop
        return namespace(u).concat(parts, axis=0)


def small_problem(task: Task, directions: Directions, E: dict[int, Array]) -> SmallProblem:
    """The problem over the basis and the directions."""
    r, size = directions.rank, directions.rank + directions.count
    linear, square, constant = np.zeros(size), np.zeros((size, size)), 0.0
    square[r:, r:] = np.eye(size - r)
    for k, t in enumerate(task.system.terms):
        if not t.loss.quadratic:
            continue
        xp, multiple = namespace(t.target), task.multiples[k]
        if isinstance(multiple, float):
            square += 2 * multiple * directions.moments[k][:size, :size]
        else:
            square += 2 * to_numpy((t.weight * E[k]).T @ E[k])
        if bool(xp.any(t.target != 0)):
            weighted = t.weight * t.target
            linear -= 2 * to_numpy(directions.images(t.rows).T @ weighted)[:, 0]
            constant += float(xp.sum(weighted * t.target))
    parts = [
        Part(t, zeros((int(t.target.shape[0]),), t.target), E[k])
        for k, t in enumerate(task.system.terms)
        if not t.loss.quadratic
    ]
    return SmallProblem(upright(square, directions.U), linear, constant, parts, r)
