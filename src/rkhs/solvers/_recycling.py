"""Many problems with one Gram matrix: directions that are computed for one of them serve all.

The weights, targets and folds of a grid change the losses but not the representers: directions D and their images
U = GD, computed for one problem, can be used for any other.  On their span every problem is a reduced one, solved
without a product.  The gradient at the reduced solution costs one product, which either certifies the solution or adds
a direction, for this problem and all others.  The subspace contains the gradients of each problem, so none needs more
iterations than conjugate gradients would need for it alone.

The first directions are in the span of the representers of the rows whose losses are not quadratic.  If these have
kinks and are few, it is the whole span: then, for any weights and targets, reduced problems resolve the kinks, and
products serve the quadratic blocks only.  If they are smooth, it is the leading part: that saves a third of the
products or more, at the cost of one.

The best dual point in the span of all directions, combinations of gradients that close several gaps at once, and first
gradients at a twelfth of the points save a tenth of the time or less on grids of ten classes: less than their code
would cost a reader.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np
import scipy.linalg

from rkhs._core.backend.arrays import Array, Matrix, double, like, namespace, to_numpy, zeros
from rkhs._core.finite.certificate import bounds, feasible, relative_gap
from rkhs._core.finite.monitor import Monitor, Step, Stopped, plain
from rkhs._core.finite.problem import FiniteProblem, Iterate
from rkhs._core.finite.representers import Entry, VerifiedProducts
from rkhs._core.gram.operator import Gram
from rkhs._core.gram.sensitivity import gradient_moments
from rkhs._core.limits import limits
from rkhs._core.linalg.saddle import inverse_root, with_ridge
from rkhs.solvers._features import solve
from rkhs.solvers._reduced import reduced

DEPENDENT = 1e-10  # a direction is dropped if less than this squared norm remains after orthogonalization
SMALLER = 0.2  # tolerance of reduced problems, relative to that of the whole problem


class SearchSubspace:
    """H-orthonormal directions D (m, N) with their images U (m, N), and their moments in the quadratic blocks.

    The first ones may span a few representers, and are then zero except on the `rows` of these.  Their images are
    computed as products with a few columns of G until storing all of them is cheaper.
    """

    def __init__(self, system: FiniteProblem, capacity: int) -> None:
        self.system, self.capacity, self.count = system, capacity, 0
        self.D = zeros((capacity, system.size), system.Q)  # memory is allocated when entries are first written
        self.U = zeros((capacity, system.size), system.Q)
        self.first, self.rows = 0, np.zeros(0, dtype=int)
        self.transform = zeros((0, 0), system.Q)  # D of the first ones on their rows, transposed
        self.filled, self.asked = True, 0  # whether U of the first ones is stored; columns computed without it
        self._images: dict[tuple[int, int], Array] = {}  # by the ends of their rows
        r = self.rank = int(system.Q.shape[1])
        # E'WE of each quadratic block, for the basis first and then the directions
        self.moments = {k: np.zeros((r + capacity,) * 2) for k, t in enumerate(system.terms) if t.loss.quadratic}
        self._add_moments(slice(0, r), system.Q.T)

    def images(self, rows: slice) -> Array:
        """Return E = [Q, U'] on some rows: the change of u for each variable of the reduced problem."""
        ends = rows.start, rows.stop  # blocks without rows start where the next block does
        if ends not in self._images:
            if rows.start not in self.rows:
                self._fill()
            blocks = [self.system.Q[rows], self.U[: self.count, rows].T]
            self._images[ends] = namespace(self.U).concat(blocks, axis=1)
        return self._images[ends]

    def at(self, tau: Array) -> tuple[Array, Array]:
        """Return the points a = D'tau (N, b) and their images, for coefficients (m, b)."""
        return self._combined(tau.T).T, self._image(tau.T).T

    def _image(self, tau: Array) -> Array:
        """Return tau U (b, N), for coefficients (b, m)."""
        if 2 * self.asked > self.first:
            self._fill()
        if self.filled:
            return tau @ self.U[: self.count]
        self.asked += int(tau.shape[0])
        image = _by_rows(self.system.exact.part(slice(None), self.rows) @ (self.transform @ tau[:, : self.first].T))
        return image + tau[:, self.first :] @ self.U[self.first : self.count]

    def _fill(self) -> None:
        """Store the images of the first directions on all rows, if they are not stored yet."""
        if not self.filled:
            self.U[: self.first] = _by_rows(self.system.exact.part(slice(None), self.rows) @ self.transform)
            self.filled = True

    def _combined(self, tau: Array) -> Array:
        """Return tau D (b, N), for coefficients (b, m)."""
        a = tau[:, self.first :] @ self.D[self.first : self.count]
        if self.first:
            a[:, self.rows] += tau[:, : self.first] @ self.D[: self.first, self.rows]
        return a

    def _inside(self, image: Array) -> Array:
        """Return the coefficients (b, m) of the projections onto the directions, given images (b, N).

        Those on representers are accurate to rounding, because their refinement needs only the rows of the
        representers.
        """
        on_others = image @ self.D[self.first : self.count].T
        if not self.first:
            return on_others
        D, U, on_rows = self.D[: self.first, self.rows], self.U[: self.first, self.rows], image[:, self.rows]
        on_first = on_rows @ D.T
        on_first += (on_rows - on_first @ U) @ D.T
        return namespace(on_others).concat([on_first, on_others], axis=1)

    def add(self, V: Array, image: Array) -> None:
        """Orthogonalize the columns of V (N, b), with images GV (N, b), and append those that are new."""
        xp = namespace(image)
        V, image = _by_rows(V), _by_rows(image)
        sizes = xp.sqrt(xp.clip(xp.vecdot(V, image), 1e-300, None))[:, None]
        V /= sizes
        image /= sizes
        for _ in range(2):  # twice is enough (Kahan, Parlett), once if the projection was small
            inside = self._inside(image)
            V -= self._combined(inside)
            image -= self._image(inside)
            if self.count == self.first or float(xp.max(xp.abs(inside[:, self.first :]))) < 1e-2:
                break
        # V'GV = X diag(values) X': the directions X'V / values^1/2 are orthonormal in H
        values, vectors = np.linalg.eigh(double(V @ image.T))
        kept = np.flatnonzero(values > DEPENDENT)[::-1][: self.capacity - self.count]
        transform = like((vectors[:, kept] / np.sqrt(values[kept])).T, V)
        self._append(transform @ V, transform @ image)

    def add_representers(self, rows: Matrix, count: int) -> None:
        """Start with the `count` leading directions in the span of the representers of some rows."""
        block = double(self.system.exact.block(rows, rows))
        R = inverse_root(block, DEPENDENT)[:, -count:]
        self.transform = like(R, self.D)
        self.first = self.count = int(self.transform.shape[1])
        self.rows, self.filled = rows, False
        self.D[: self.first, rows], self.U[: self.first, rows] = self.transform.T, like((block @ R).T, self.D)
        rounding = float(namespace(self.D).finfo(self.D.dtype).eps) * np.max(np.abs(R), initial=0.0) ** 2
        # Errors of the moments below 1e-9 do not affect reduced problems.
        if rounding > 1e-9 or not self._add_closed_moments():
            self._fill()
            self._add_moments(slice(self.rank, self.rank + self.first), self.U[: self.first])

    def _add_closed_moments(self) -> bool:
        """Compute the moments of the representers in closed form; return False if a quadratic block has no formula."""
        system, closed = self.system, {}
        exact = plain(system.exact)
        for k in self.moments:
            t = system.terms[k]
            raw = gradient_moments(exact.part(t.rows, self.rows), t.weight[:, 0]) if isinstance(exact, Gram) else None
            if raw is None:
                return False
            with_basis = exact.part(self.rows, t.rows) @ (t.weight * system.Q[t.rows])
            closed[k] = self.transform.T @ namespace(raw).concat([with_basis, raw @ self.transform], axis=1)
        r, new = self.rank, slice(self.rank, self.rank + self.first)
        for k, moments in closed.items():
            self.moments[k][new, : new.stop] = to_numpy(moments)
            self.moments[k][:r, new] = self.moments[k][new, :r].T
        return True

    def _append(self, D: Array, U: Array) -> None:
        new = slice(self.count, self.count + int(D.shape[0]))
        self.D[new], self.U[new], self.count = D, U, new.stop
        self._images.clear()
        self._add_moments(slice(self.rank + new.start, self.rank + new.stop), self.U[new])

    def _add_moments(self, new: slice, E: Array) -> None:
        for k, moment in self.moments.items():
            t = self.system.terms[k]
            weighted = E[:, t.rows] * t.weight[:, 0]
            first = 0 if self.filled else self.first
            known = [weighted @ self.system.Q[t.rows], weighted @ self.U[first : self.count, t.rows].T]
            if first:
                known.insert(1, (self.system.exact.part(self.rows, t.rows) @ weighted.T).T @ self.transform)
            moment[new, : new.stop] = np.concatenate([to_numpy(part) for part in known], axis=1)
            moment[: new.stop, new] = moment[new, : new.stop].T

    def restart(self, kept: Matrix) -> Matrix:
        """Drop directions: keep the representers, the span of the columns of `kept` (m, k), and the latest directions.

        All but the representers then fill half of the capacity.  Return the map (m, new m) from the coefficients of the
        new directions to those of the old ones.
        """
        first, others = self.first, self.count - self.first
        latest = np.eye(others)[:, ::-1][:, : max(1, (self.capacity - first) // 2 - kept.shape[1])]
        basis = np.linalg.qr(np.concatenate([kept[first:], latest], axis=1))[0]
        transform, new = like(basis.T, self.D), first + basis.shape[1]
        for start in range(0, self.system.size, 2**16):  # in place, some columns at a time
            columns = slice(start, start + 2**16)
            for directions in (self.D, self.U):
                directions[first:new, columns] = transform @ directions[first : self.count, columns]
        old, R = self.rank + self.count, scipy.linalg.block_diag(np.eye(first), basis)
        whole = scipy.linalg.block_diag(np.eye(self.rank), R)
        for moment in self.moments.values():
            moment[: self.rank + new, : self.rank + new] = whole.T @ moment[:old, :old] @ whole
        self.count = new
        self._images.clear()
        return np.asarray(R)


def _by_rows(V: Array) -> Array:
    """Return the columns (N, b) as contiguous rows (b, N) of a new array."""
    rows = zeros((int(V.shape[1]), int(V.shape[0])), V)
    for start in range(0, int(V.shape[0]), 2**12):  # blocks that stay in the cache while they are transposed
        rows[:, start : start + 2**12] = V[start : start + 2**12].T
    return rows


@dataclass(eq=False)
class GridCell:
    """One output of one weighting, on shared directions; its weights are multiples of those of the shared problem.

    `multiples` holds a number for each block, or an array (n, 1) if it differs among rows (a fold omits some).
    """

    system: FiniteProblem
    multiples: tuple[Any, ...]
    theta: Matrix = field(default_factory=lambda: np.zeros(0))  # the solution on the directions so far
    others: Matrix = field(default_factory=lambda: np.zeros(0))  # its alpha on rows of losses that are not quadratic
    iterate: Iterate | None = None
    alpha: Array | None = None  # the dual point of the best dual value so far
    alpha_image: Array | None = None
    primal: float = inf
    dual: float = -inf
    gap: float = inf
    entry: Entry | None = None  # set once it is solved, with images that are to be verified

    @classmethod
    def of(cls, shared: FiniteProblem, output: int, multiples: tuple[Any, ...] | None = None) -> GridCell:
        system = shared.output(output)
        multiples = (1.0,) * len(system.terms) if multiples is None else multiples
        blocks = tuple(replace(t, weight=t.weight * m) for t, m in zip(system.terms, multiples, strict=True))
        return cls(system.with_rows(blocks), multiples)

    def solve(self, directions: SearchSubspace, tol: float, monitor: Monitor, smoothing: bool = False) -> FiniteProblem:
        """Solve on the span of the directions and return the problem there."""
        problem = self._in_span(directions)
        self.theta, self.others = solve(problem, SMALLER * tol, monitor, self.theta, smoothing=smoothing)
        return problem

    def _in_span(self, directions: SearchSubspace) -> FiniteProblem:
        r, size = directions.rank, directions.rank + directions.count
        linear, square, constant = np.zeros(size), np.zeros((size, size)), 0.0
        square[r:, r:] = np.eye(size - r)
        terms = [t for t in self.system.terms if not t.loss.quadratic]
        for k, t in enumerate(self.system.terms):
            xp, multiple = namespace(t.target), self.multiples[k]
            if not t.loss.quadratic:
                continue
            if isinstance(multiple, float):
                square += 2 * multiple * directions.moments[k][:size, :size]
            else:
                E = directions.images(t.rows)
                square += 2 * to_numpy((t.weight * E).T @ E)
            if bool(xp.any(t.target != 0)):
                weighted = t.weight * t.target
                linear -= 2 * to_numpy(directions.images(t.rows).T @ weighted)[:, 0]
                constant += float(xp.sum(weighted * t.target))
        rows = [directions.images(t.rows) for t in terms]
        return reduced(with_ridge(square, directions.U), linear, constant, r, terms, rows)

    def gradient(self, a: Array, u: Array) -> Array:
        """Return a + w loss'(u) (N, 1); for nonsmooth losses, a - alpha with the alpha of the reduced problem.

        The reduced problem may be solved less accurately than to rounding, so alpha is projected to be dual feasible.
        """
        parts, start = [], 0
        for t in self.system.terms:
            if self.system.smooth or t.loss.quadratic:
                parts.append(t.weight * t.loss.gradient(u[t.rows], t.target))
            else:
                stop = start + int(t.target.shape[0])
                parts.append(like(-self.others[start:stop, None], u))
                start = stop
        slopes = namespace(u).concat(parts, axis=0)
        return a + slopes if self.system.smooth else a - feasible(self.system, -slopes)


@dataclass(frozen=True, eq=False)
class CellPoints:
    """The points of some tasks: coefficients a (N, b), images, u with the basis (r, b), and gradients."""

    a: Array
    image: Array
    u: Array
    basis: Array
    gradients: Array

    @classmethod
    def of(cls, tasks: list[GridCell], directions: SearchSubspace) -> CellPoints:
        system, r = directions.system, directions.rank
        wide = r + directions.count
        T = np.stack([np.concatenate([task.theta, np.zeros(wide - len(task.theta))]) for task in tasks], axis=1)
        theta = like(T, system.Q)
        a, image = directions.at(theta[r:])
        u = image + system.Q @ theta[:r]
        gradients = [task.gradient(a[:, [k]], u[:, [k]])[:, 0] for k, task in enumerate(tasks)]
        return cls(a, image, u, theta[:r], system.inside(namespace(u).stack(gradients).T))

    def iterate(self, k: int, alpha: Array | None) -> Iterate:
        """Return the iterate of one task with a given dual point."""
        return Iterate(self.a[:, [k]], self.basis[:, [k]], alpha)

    def certify(self, tasks: list[GridCell], products: Array) -> None:
        """Bound the minimum of each task by its gradient and the image of it; keep the best point and dual point."""
        for k, task in enumerate(tasks):
            a, image, u, g, product = (part[:, [k]] for part in (self.a, self.image, self.u, self.gradients, products))
            primal, dual = bounds(task.system, a, image, u, g, product)
            if dual > task.dual:
                task.dual, task.alpha, task.alpha_image = dual, a - g, image - product
            task.primal, task.iterate = primal, self.iterate(k, task.alpha)
            task.gap = min(task.gap, relative_gap(task.primal, task.dual, task.system.rounding[0]))


BATCH = 16  # problems that share a product
FEWEST, MOST = 32, 300  # directions: fewer lose too much in restarts, more cost more than the products they save


def has_few_nonquadratic(system: FiniteProblem) -> bool:
    """Return whether reduced problems are small: few rows have losses that do not enter by moments."""
    return len(system.other_rows) <= limits().nonquadratic_rows


def capacity_of(system: FiniteProblem) -> int:
    """Return the number of directions that fit in half the memory budget, between FEWEST and MOST."""
    entry = 4 if "32" in str(system.Q.dtype) else 8
    return min(MOST, max(FEWEST, system.gram.budget // (4 * entry * max(system.size, 1))))


def solve_together(
    tasks: list[GridCell],
    shared: FiniteProblem,
    tol: float,
    monitor: Monitor,
    capacity: int,
    first: Array | None = None,
    whole: Callable[[], Iterate] | None = None,
) -> Generator[Step, None, None]:
    """Solve the tasks in the given order to the tolerance, or as far as rounding allows.

    The columns of `first` (N, k) are the first directions.  Iterates of solved tasks are verified together by one
    product at the end.  If the tasks are the outputs of one problem, `whole` joins their iterates for the monitor.
    """
    directions = SearchSubspace(shared, max(capacity, 4 * min(BATCH, len(tasks))))
    others = shared.other_rows
    if shared.definite and len(others) <= MOST:  # otherwise representers are not in the space, or too many
        if shared.smooth:
            # 16 directions per problem cost less than the products that they save.
            leading = min(len(others), directions.capacity // 2, 16 * len(tasks))
        else:
            leading = len(others) if len(others) <= directions.capacity // 2 else 0
        if leading:
            directions.add_representers(others, leading)
    if first is not None and bool(namespace(first).any(first != 0)):
        directions.add(first, shared.exact @ first)
    verified = VerifiedProducts(shared.geometry)
    try:
        yield from _steps(tasks, directions, verified, tol, monitor, whole)
    except (Stopped, KeyboardInterrupt, GeneratorExit):
        _give_up(tasks, directions, verified)
        raise
    finally:
        done = [task for task in tasks if task.entry is not None]
        if done and verified.right(tol):
            for task in done:
                assert task.entry is not None
                task.iterate = verified.verified(task.entry)


def _steps(
    tasks: list[GridCell],
    directions: SearchSubspace,
    verified: VerifiedProducts,
    tol: float,
    monitor: Monitor,
    whole: Callable[[], Iterate] | None,
) -> Generator[Step, None, None]:
    """Solve all tasks, or as many as the directions allow."""
    system = directions.system
    active, lowest, since = list(tasks), [inf], 0
    while active:
        batch = active[:BATCH]
        for task in batch:
            task.solve(directions, tol, monitor)
        points, before = CellPoints.of(batch, directions), directions.count
        V = points.gradients
        product = system.gram @ V
        points.certify(batch, product)
        for k, task in enumerate(batch):
            task.iterate = points.iterate(k, task.alpha)  # in case the run is stopped
            if task.gap <= tol and not system.inexact:
                _enter(task, points.image[:, [k]], verified, tol)
        worst = max(batch, key=lambda task: task.gap)
        yield Step(whole, worst.primal, worst.gap)
        left = [k for k, task in enumerate(batch) if task.gap > tol]
        if left:
            now = [batch[k].gap for k in left]
            same = len(now) == len(lowest)
            # A gap counts as smaller if it has decreased by a tenth.
            if not same or any(gap < 0.9 * earlier for gap, earlier in zip(now, lowest, strict=True)):
                lowest, since = now, 0
            since += 1
            if since > directions.capacity:  # with too few directions kinks may prevent progress
                return
            V, product = V[:, left], product[:, left]
            if directions.count + int(V.shape[1]) > directions.capacity:
                _restart(directions, [batch[k] for k in left])
                before = directions.count
            directions.add(V, product)
            if directions.count == before:
                return
        active = [task for task in active if task.gap > tol]


def _enter(task: GridCell, image: Array, verified: VerifiedProducts, tol: float) -> None:
    """Register a task as solved, if its gap is small with the available images."""
    assert task.iterate is not None
    alpha = feasible(task.system, task.alpha)
    norm = namespace(alpha).linalg.vector_norm
    if float(norm(alpha - task.alpha)) <= 1e-12 * float(norm(alpha)):  # equal up to rounding: the image is valid
        iterate = Iterate(task.iterate.a, task.iterate.basis, alpha)
        task.entry = verified.enter(task.system, iterate, image, task.alpha_image, tol)


def _give_up(tasks: list[GridCell], directions: SearchSubspace, verified: VerifiedProducts) -> None:
    """Register many unsolved tasks at their current points with the dual point 0, which needs no product."""
    left = [task for task in tasks if task.entry is None and len(task.theta)]
    if len(left) <= BATCH or directions.system.inexact:
        return
    points, none = CellPoints.of(left, directions), directions.system.zeros(1)
    for k, task in enumerate(left):
        task.entry = verified.enter(task.system, points.iterate(k, none), points.image[:, [k]], none, inf)


def _restart(directions: SearchSubspace, tasks: list[GridCell]) -> None:
    """Drop directions, but keep the current points of the tasks in their span."""
    r = directions.rank
    R = directions.restart(np.stack([task.theta[r:] for task in tasks], axis=1))
    for task in tasks:
        task.theta = np.concatenate([task.theta[:r], R.T @ task.theta[r:]])
