"""Many problems with one Gram: what one of them learns about the space serves all.

The weights, targets and folds of a grid change the losses but not the representers: directions D and their images
U = GD, made for one problem, are as good for any other.  On their span every problem is a small one (`subspace`), and
solving it costs no product.  Its gradient at the small solution costs one, which either certifies the solution or
becomes a further direction, for this problem and all others.  The span of a problem's own gradients is contained in
what it sees, so none needs more iterations than it would alone by conjugate gradients.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rkhs.backend.arrays import Array, like, namespace, to_numpy
from rkhs.finite.certificate import bounds, relative_gap
from rkhs.finite.monitor import Monitor
from rkhs.finite.system import Iterate, Rows, System
from rkhs.solvers.subspace import Restricted

BATCH = 16  # problems that share a product
DEPENDENT = 1e-10  # squared norm left by orthogonalisation under which a direction is not new
SMOOTHING = 0.2  # share of the tolerance that the envelopes of losses without a gradient may cost


@dataclass(eq=False)
class Task:
    """One problem with one output; its weights are multiples of those of the system that all problems share.

    `multiples` holds a number for each term, or an array (n, 1) where rows differ (a fold leaves some out).
    """

    system: System
    smoothed: System
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
        return cls(system, system, multiples)


class Directions:
    """H-orthonormal directions D (m, N) with their images U (m, N), and what quadratic terms see of them."""

    def __init__(self, system: System, capacity: int) -> None:
        self.system = system
        self.capacity = capacity
        self.count = 0
        prototype = system.functionals.prototype
        self.D = like(np.zeros((capacity, system.size)), prototype)
        self.U = like(np.zeros((capacity, system.size)), prototype)
        r = self.rank = int(system.Q.shape[1])
        # E'WE of each quadratic term, over the basis first and the directions after it
        self.moments = {k: np.zeros((r + capacity,) * 2) for k, t in enumerate(system.terms) if t.loss.quadratic}
        self._add_moments(slice(0, r), system.Q.T)

    def images(self, rows: slice) -> Array:
        """E = [Q, U'] on some rows: the change of u for each of the small problem's variables."""
        return namespace(self.U).concat([self.system.Q[rows], self.U[: self.count, rows].T], axis=1)

    def add(self, V: Array, image: Array) -> None:
        """Append what is new in the columns of V (N, b), with images GV."""
        xp = namespace(V)
        sizes = xp.sqrt(xp.clip(xp.vecdot(V, image, axis=0), 1e-300, None))
        V, image = (V / sizes).T, (image / sizes).T
        for _ in range(2):  # twice is enough
            inside = image @ self.D[: self.count].T
            V, image = V - inside @ self.D[: self.count], image - inside @ self.U[: self.count]
        values, vectors = np.linalg.eigh(to_numpy(V @ image.T).astype(np.float64))
        kept = np.flatnonzero(values > DEPENDENT)[::-1][: self.capacity - self.count]
        turn = like((vectors[:, kept] / np.sqrt(values[kept])).T, V)
        new = slice(self.count, self.count + len(kept))
        self.D[new], self.U[new] = turn @ V, turn @ image
        self.count = new.stop
        self._add_moments(slice(self.rank + new.start, self.rank + new.stop), self.U[new])

    def _add_moments(self, new: slice, E: Array) -> None:
        for k, moment in self.moments.items():
            t = self.system.terms[k]
            weighted = E[:, t.rows] * t.weight[:, 0]
            against = to_numpy(weighted @ self.images(t.rows))
            moment[new, : new.stop] = against
            moment[: new.stop, new] = against.T


def solve_together(tasks: list[Task], shared: System, monitor: Monitor, capacity: int) -> None:
    """Solve the tasks to the monitor's tolerance, as far as `capacity` directions reach, in the order given."""
    xp = namespace(shared.functionals.prototype)
    directions = Directions(shared, capacity)
    open_ones = list(tasks)
    while open_ones:
        batch = open_ones[:BATCH]
        E = {
            k: directions.images(t.rows)
            for k, t in enumerate(shared.terms)
            if k not in directions.moments or _split(tasks, k)
        }
        for task in batch:
            _solve_small(task, directions, E, monitor.tol)
        T = like(np.stack([task.theta for task in batch], axis=1), shared.functionals.prototype)  # (r + m, b)
        tau = T[directions.rank :]
        a, image = directions.D[: directions.count].T @ tau, directions.U[: directions.count].T @ tau
        u = image + shared.Q @ T[: directions.rank]
        gradients = [a[:, k : k + 1] + task.smoothed.slope(u[:, k : k + 1]) for k, task in enumerate(batch)]
        G = xp.concat(gradients, axis=1)
        product = shared.gram @ G
        monitor.product()
        for k, task in enumerate(batch):
            one = slice(k, k + 1)
            point = (a[:, one], image[:, one], u[:, one], G[:, one], product[:, one])
            task.primal, dual = bounds(task.system, *point)
            if dual > task.dual:
                task.dual, task.alpha = dual, a[:, one] - G[:, one]
            task.iterate = Iterate(a[:, one], T[: directions.rank, one], task.alpha)
            task.gap = relative_gap(task.primal, task.dual)
        worst = max(batch, key=lambda task: task.gap)
        monitor.report(worst.iterate or shared.start(), worst.primal, worst.gap)
        unsolved = [k for k, task in enumerate(batch) if task.gap > monitor.tol]
        open_ones = [task for task in open_ones if task.gap > monitor.tol]
        if unsolved:
            before = directions.count
            directions.add(G[:, unsolved], product[:, unsolved])
            if directions.count == before:
                return


def _split(tasks: list[Task], term: int) -> bool:
    """Whether some task weights the rows of a term differently, so that its moments do not serve."""
    return any(not isinstance(task.multiples[term], float) for task in tasks)


def _solve_small(task: Task, directions: Directions, E: dict[int, Array], tol: float) -> None:
    """Minimise over the basis and the directions; envelopes stand in for losses without a gradient."""
    r, size = directions.rank, directions.rank + directions.count
    linear, square, constant = np.zeros(size), np.zeros((size, size)), 0.0
    square[r:, r:] = np.eye(size - r)
    rowwise: list[tuple[Rows, Array, Array]] = []
    for k, t in enumerate(task.system.terms):
        xp = namespace(t.target)
        multiple = task.multiples[k]
        if k in directions.moments and isinstance(multiple, float):
            square += 2 * multiple * directions.moments[k][:size, :size]
            if bool(xp.any(t.target != 0)):
                weighted = t.weight * t.target
                linear -= 2 * to_numpy(directions.images(t.rows).T @ weighted)[:, 0]
                constant += float(xp.sum(weighted * t.target))
        else:
            rowwise.append((t, xp.zeros_like(t.target[:, 0]), E[k]))
    theta = np.concatenate([task.theta, np.zeros(size - len(task.theta))])
    if task.system.smooth:
        task.theta = Restricted(0.0, linear, square, constant, rowwise).minimise(theta)
        return
    weights = sum(float(namespace(t.weight).sum(t.weight)) for t, _, _ in rowwise)
    level = Restricted(0.0, linear, square, constant, rowwise).value(theta)
    width = 16 * level / weights
    while width > SMOOTHING * tol * level / weights:
        width /= 8
        soft = [(_softened(t, width), u, e) for t, u, e in rowwise]
        theta = Restricted(0.0, linear, square, constant, soft).minimise(theta)
        level = Restricted(0.0, linear, square, constant, rowwise).value(theta)
    task.theta = theta
    task.smoothed = task.system.with_rows(tuple(_softened(t, width) for t in task.system.terms))


def _softened(rows: Rows, width: float) -> Rows:
    """The rows with the envelope of a loss that has no gradient."""
    return rows if rows.loss.smooth else replace(rows, loss=rows.loss.smoothed(width))
