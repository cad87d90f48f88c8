"""Many problems with one Gram: what one of them learns about the space serves all.

The weights, targets and folds of a grid change the losses but not the representers: directions D and their images
U = GD, made for one problem, are as good for any other.  On their span every problem is a small one (`subspace`), and
solving it costs no product.  Its gradient at the small solution costs one, which either certifies the solution or
becomes a further direction, for this problem and all others.  The span of a problem's own gradients is contained in
what it sees, so none needs more iterations than it would alone by conjugate gradients.

The first directions are in the span of the representers of the rows whose losses are not quadratic.  Where these have
kinks and are few, all of it: whatever the weights, targets and kinks there, they are settled by small problems, and
products serve the quadratic terms alone.  Where they are smooth, what leads in it: that saves a third of the products
or more, and costs as much as one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rkhs.backend.arrays import Array, like, namespace, to_numpy
from rkhs.finite.certificate import bounds, relative_gap
from rkhs.finite.monitor import Monitor
from rkhs.finite.parts import other_rows, part
from rkhs.finite.system import Iterate, Rows, System
from rkhs.solvers.dense import double, in_the_space
from rkhs.solvers.directions import Directions
from rkhs.solvers.reduced import Matrix, Reduced
from rkhs.solvers.subspace import Restricted, upright

BATCH = 16  # problems that share a product
GAIN = 0.9  # of a gap, at most, is a smaller one
LEAST = 32  # directions, below which restarts lose too much: a Gram in memory has a small budget
MOST = 300  # directions, beyond which they cost more than the products that they save
REPRESENTERS = 16  # leading ones of smooth losses, for each problem, that cost less than the products they save
FEW = 1500  # rows of losses that are not quadratic, up to which small problems cost less than products
SMALLER = 0.2  # share of the tolerance that is left to small problems


@dataclass(eq=False)
class Task:
    """One problem with one output; its weights are multiples of those of the system that all problems share.

    `multiples` holds a number for each term, or an array (n, 1) where rows differ (a fold leaves some out).
    """

    system: System
    slope: Callable[[Array], Array]  # of the losses at u, or of what stands in for those that have none
    multiples: tuple[Any, ...]
    theta: np.ndarray[Any, Any] = field(default_factory=lambda: np.zeros(0))
    iterate: Iterate | None = None
    alpha: Array | None = None  # of the best dual value so far
    primal: float = float("inf")
    dual: float = -float("inf")
    gap: float = float("inf")

    @classmethod
    def of(cls, shared: System, output: int, multiples: tuple[Any, ...]) -> Task:
        one = shared.output(output)
        rows = tuple(replace(t, weight=t.weight * m) for t, m in zip(one.terms, multiples, strict=True))
        system = one.with_rows(rows)
        return cls(system, system.slope, multiples)


def solve_together(
    tasks: list[Task], shared: System, monitor: Monitor, capacity: int, first: Array | None = None
) -> None:
    """Solve the tasks to the monitor's tolerance, or as far as rounding allows, in the order given.

    The columns of `first` (N, k) are the first directions.
    """
    xp = namespace(shared.Q)
    capacity = max(capacity, 4 * min(BATCH, len(tasks)))
    directions = Directions(shared, capacity)
    others = other_rows(shared)
    rest = part(replace(shared, outputs=None), others, [t for t in shared.terms if not t.loss.quadratic])
    rest = rest.with_matrices(rest.gram, np.zeros((rest.size, 0)))  # of one output, and in NumPy
    leading = _representers(shared, len(others), len(tasks), capacity)
    if leading:
        directions.add_representers(others, leading)
        monitor.product()
    if first is not None and bool(xp.any(first != 0)):
        directions.add(first, shared.exact @ first)
        monitor.product()
    open_ones = list(tasks)
    progress = _Progress(capacity)
    while open_ones:
        batch = open_ones[:BATCH]
        E = {
            k: directions.images(t.rows)
            for k, t in enumerate(shared.terms)
            if k not in directions.moments or _split(tasks, k)
        }
        for task in batch:
            _solve_small(task, directions, E, rest, monitor.tol)
        T = like(np.stack([task.theta for task in batch], axis=1), shared.Q)  # (r + m, b)
        tau = T[directions.rank :]
        a, image = directions.D[: directions.count].T @ tau, directions.U[: directions.count].T @ tau
        u = image + shared.Q @ T[: directions.rank]
        gradients = [a[:, k : k + 1] + task.slope(u[:, k : k + 1]) for k, task in enumerate(batch)]
        G = in_the_space(shared, xp.concat(gradients, axis=1))
        product = shared.gram @ G
        monitor.product()
        for k, task in enumerate(batch):
            one = slice(k, k + 1)
            point = (a[:, one], image[:, one], u[:, one], G[:, one], product[:, one])
            task.primal, dual = bounds(task.system, *point)
            if dual > task.dual:
                task.dual, task.alpha = dual, a[:, one] - G[:, one]
            task.iterate = Iterate(a[:, one], T[: directions.rank, one], task.alpha)
            task.gap = relative_gap(task.primal, task.dual, task.system.rounding[0])
        worst = max(batch, key=lambda task: task.gap)
        monitor.report(worst.iterate or shared.start(), worst.primal, worst.gap)
        unsolved = [k for k, task in enumerate(batch) if task.gap > monitor.tol]
        open_ones = [task for task in open_ones if task.gap > monitor.tol]
        if unsolved:
            if progress.ended([batch[k].gap for k in unsolved]):
                return
            if directions.count + len(unsolved) > capacity:
                _make_room(directions, [batch[k] for k in unsolved])
            before = directions.count
            directions.add(G[:, unsolved], product[:, unsolved])
            if directions.count == before:
                return


class _Progress:
    """Whether restarts still lead anywhere: kinks may hold a problem where it is, with too few directions."""

    def __init__(self, patience: int) -> None:
        self.patience, self.since = patience, 0
        self.lowest: list[float] = []

    def ended(self, gaps: list[float]) -> bool:
        """Whether as many iterations as there are directions went by without a smaller gap."""
        same = len(gaps) == len(self.lowest)
        if not same or any(gap < GAIN * before for gap, before in zip(gaps, self.lowest, strict=True)):
            self.lowest, self.since = gaps, 0
        self.since += 1
        return self.since > self.patience


def _make_room(directions: Directions, tasks: list[Task]) -> None:
    """Forget directions, but not the points where the tasks are."""
    r = directions.rank
    R = directions.restart(np.stack([task.theta[r:] for task in tasks], axis=1))
    for task in tasks:
        task.theta = np.concatenate([task.theta[:r], R.T @ task.theta[r:]])


def few_others(system: System) -> bool:
    """Whether small problems are small: most rows have quadratic losses, which enter by their moments."""
    return len(other_rows(system)) <= FEW


def _representers(system: System, others: int, tasks: int, capacity: int) -> int:
    """How many of the first directions are to be representers of the rows whose losses are not quadratic.

    The representers of a conditionally positive definite kernel are not in its space.
    """
    if system.kernel.order or others > MOST:
        return 0
    if system.smooth:
        return min(others, capacity // 2, REPRESENTERS * tasks)
    return others if others <= capacity // 2 else 0


def capacity_of(system: System) -> int:
    """Directions to keep: within half the memory budget, and few enough that they cost less than the products."""
    entry = 4 if "32" in str(system.Q.dtype) else 8
    return min(MOST, max(LEAST, system.gram.budget // (4 * entry * max(system.size, 1))))


def _split(tasks: list[Task], term: int) -> bool:
    """Whether some task weights the rows of a term differently, so that its moments do not serve."""
    return any(not isinstance(task.multiples[term], float) for task in tasks)


def _solve_small(task: Task, directions: Directions, E: dict[int, Array], rest: System, tol: float) -> None:
    """Minimise over the basis and the directions."""
    r, size = directions.rank, directions.rank + directions.count
    linear, square, constant = np.zeros(size), np.zeros((size, size)), 0.0
    square[r:, r:] = np.eye(size - r)
    others: list[tuple[Rows, Array]] = []
    for k, t in enumerate(task.system.terms):
        xp = namespace(t.target)
        multiple = task.multiples[k]
        if not t.loss.quadratic:
            others.append((t, E[k]))
            continue
        if isinstance(multiple, float):
            square += 2 * multiple * directions.moments[k][:size, :size]
        else:
            square += 2 * to_numpy((t.weight * E[k]).T @ E[k])
        if bool(xp.any(t.target != 0)):
            weighted = t.weight * t.target
            linear -= 2 * to_numpy(directions.images(t.rows).T @ weighted)[:, 0]
            constant += float(xp.sum(weighted * t.target))
    square = upright(square, directions.U)
    if task.system.smooth:
        theta = np.concatenate([task.theta, np.zeros(size - len(task.theta))])
        rowwise = [(t, namespace(e).zeros_like(t.target[:, 0]), e) for t, e in others]
        task.theta = Restricted(0.0, linear, square, constant, rowwise).minimise(theta)
    else:
        _eliminate(task, rest, others, square, linear, r, tol)


def _eliminate(
    task: Task, rest: System, others: list[tuple[Rows, Array]], square: Matrix, linear: Matrix, rank: int, tol: float
) -> None:
    """The small problem by elimination of its variables; the alpha of the others stands in for their slopes."""
    rows = tuple(
        replace(own, loss=t.loss, target=double(t.target), weight=double(t.weight))
        for own, (t, _) in zip(rest.terms, others, strict=True)
    )
    E = np.concatenate([double(e) for _, e in others])
    task.theta, alpha = Reduced(rest, rows, E, square, linear, rank).solve(SMALLER * tol)
    fixed = {t.rows.start: -alpha[own.rows, None] for own, (t, _) in zip(rows, others, strict=True)}

    def slope(u: Array) -> Array:
        parts = [
            t.weight * t.loss.gradient(u[t.rows], t.target) if t.loss.quadratic else like(fixed[t.rows.start], u)
            for t in task.system.terms
        ]
        return namespace(u).concat(parts, axis=0)

    task.slope = slope
