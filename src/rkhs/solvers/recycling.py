"""Many problems with one Gram: what one of them learns about the space serves all.

The weights, targets and folds of a grid change the losses but not the representers: directions D and their images
U = GD, made for one problem, are as good for any other.  On their span every problem is a small one (`subspace`), and
solving it costs no product.  Its gradient at the small solution costs one, which either certifies the solution or
becomes a further direction, for this problem and all others.  The span of a problem's own gradients is contained in
what it sees, so none needs more iterations than it would alone by conjugate gradients.

The first directions are the representers of the rows whose losses are not quadratic, where these are few: whatever the
weights, targets and kinks there, they are settled by small problems, and products serve the quadratic terms alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rkhs.backend.arrays import Array, like, namespace, to_numpy, zeros
from rkhs.finite.certificate import bounds, relative_gap
from rkhs.finite.monitor import Monitor
from rkhs.finite.system import Iterate, Rows, System
from rkhs.gram import Gram
from rkhs.gram.matrix import GramMatrix
from rkhs.solvers.dense import in_the_space
from rkhs.solvers.observed import part, quadratic_rows
from rkhs.solvers.reduced import Matrix, Reduced
from rkhs.solvers.subspace import Restricted, upright

BATCH = 16  # problems that share a product
DEPENDENT = 1e-10  # squared norm left by orthogonalisation under which a direction is not new
GAIN = 0.9  # of a gap, at most, is a smaller one
LEAST = 32  # directions, below which restarts lose too much: a Gram in memory has a small budget
MOST = 300  # directions, beyond which they cost more than the products that they save
CHUNK = 2**16  # columns that are turned together
REPRESENTERS = 16  # of smooth losses, for each problem, that cost less than the iterations they save
FEW = 1500  # rows of losses that are not quadratic, up to which small problems cost less than products
LITTLE = 1e-2  # of a direction of length one
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


class Directions:
    """H-orthonormal directions D (m, N) with their images U (m, N), and what quadratic terms see of them."""

    def __init__(self, system: System, capacity: int) -> None:
        self.system = system
        self.capacity = capacity
        self.count = 0
        self.D = zeros((capacity, system.size), system.Q)
        self.U = zeros((capacity, system.size), system.Q)
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
        for _ in range(2):  # twice is enough, and once where little was inside
            inside = image @ self.D[: self.count].T
            V, image = V - inside @ self.D[: self.count], image - inside @ self.U[: self.count]
            if self.count == 0 or float(xp.max(xp.abs(inside))) < LITTLE:
                break
        values, vectors = np.linalg.eigh(to_numpy(V @ image.T).astype(np.float64))
        kept = np.flatnonzero(values > DEPENDENT)[::-1][: self.capacity - self.count]
        turn = like((vectors[:, kept] / np.sqrt(values[kept])).T, V)
        new = slice(self.count, self.count + len(kept))
        self.D[new], self.U[new] = turn @ V, turn @ image
        self.count = new.stop
        self._add_moments(slice(self.rank + new.start, self.rank + new.stop), self.U[new])

    def add_representers(self, rows: Matrix) -> None:
        """Append the span of the representers of some rows; their images are those columns of the Gram matrix."""
        block = to_numpy(self.system.gram.block(rows, rows)).astype(np.float64)
        scale = 1 / np.sqrt(np.clip(np.diag(block), 1e-300, None))
        values, vectors = np.linalg.eigh(scale[:, None] * block * scale)
        kept = values > DEPENDENT
        turn = like(scale[:, None] * (vectors[:, kept] / np.sqrt(values[kept])), self.D)
        new = slice(self.count, self.count + int(turn.shape[1]))
        self.D[new, rows] = turn.T
        columns = _columns(self.system, rows)
        for k in range(0, int(turn.shape[1]), BATCH):
            some = (columns @ turn[:, k : k + BATCH]).T
            self.U[new.start + k : new.start + k + int(some.shape[0])] = some
        self.count = new.stop
        self._add_moments(slice(self.rank + new.start, self.rank + new.stop), self.U[new])

    def restart(self, kept: Matrix) -> Matrix:
        """Make room: keep the span of the columns of `kept` (m, k) and the latest directions, half of the capacity.

        Returns the map (m, new m) from the coefficients of the new directions to those of the old.
        """
        latest = np.eye(self.count)[:, ::-1][:, : max(1, self.capacity // 2 - kept.shape[1])]
        R = np.linalg.qr(np.concatenate([kept, latest], axis=1))[0]
        turn, new = like(R.T, self.D), R.shape[1]
        for start in range(0, self.system.size, CHUNK):
            columns = slice(start, start + CHUNK)
            for directions in (self.D, self.U):
                directions[:new, columns] = turn @ directions[: self.count, columns]
        r, old = self.rank, self.rank + self.count
        whole = np.zeros((old, r + new))
        whole[:r, :r], whole[r:, r:] = np.eye(r), R
        for moment in self.moments.values():
            moment[: r + new, : r + new] = whole.T @ moment[:old, :old] @ whole
        self.count = new
        return R

    def _add_moments(self, new: slice, E: Array) -> None:
        for k, moment in self.moments.items():
            t = self.system.terms[k]
            weighted = E[:, t.rows] * t.weight[:, 0]
            known = weighted @ self.system.Q[t.rows], weighted @ self.U[: self.count, t.rows].T
            against = np.concatenate([to_numpy(part) for part in known], axis=1)
            moment[new, : new.stop] = against
            moment[: new.stop, new] = against.T


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
    if _representers_pay(shared, len(others), len(tasks), capacity):
        directions.add_representers(others)
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


def _representers_pay(system: System, others: int, tasks: int, capacity: int) -> bool:
    """Whether the first directions are to be the representers of the rows whose losses are not quadratic.

    They save a few iterations of each problem, and most of them where losses have kinks.  The representers of a
    conditionally positive definite kernel are not in its space.
    """
    worth = capacity // 2 if not system.smooth else min(capacity // 2, REPRESENTERS * tasks)
    return 0 < others <= worth and not system.kernel.order


def other_rows(system: System) -> Matrix:
    """The rows whose losses are not quadratic."""
    return np.setdiff1d(np.arange(system.size), quadratic_rows(system))


def capacity_of(system: System) -> int:
    """Directions to keep: within half the memory budget, and few enough that they cost less than the products."""
    entry = 4 if "32" in str(system.Q.dtype) else 8
    return min(MOST, max(LEAST, system.gram.budget // (4 * entry * max(system.size, 1))))


def _columns(system: System, rows: Matrix) -> Array | Gram:
    """Some columns of the Gram matrix, as an operator where the matrix is one."""
    if isinstance(system.exact, GramMatrix):
        return system.exact.block(slice(None), rows)
    return replace(system.exact, M=system.functionals.take(rows))


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

    def double(array: Array) -> Matrix:
        return to_numpy(array).astype(np.float64)

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
