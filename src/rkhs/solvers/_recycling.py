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

In the first case the first gradients, restricted to a twelfth of the points, are directions as well.  If many rows
carry similar information about f, they are nearly as good as full gradients at a twelfth of the cost: for ten classes
that saves half of the time.  Also in this case the best dual point in the span is known (`_span_dual`): a problem whose
gap it closes needs no product, and from the gradients of the others only as many combinations are multiplied as their
gaps need, which saves a quarter of the columns on large grids.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np

from rkhs._backend.arrays import Array, Vector, double, like, namespace
from rkhs._finite.certificate import feasible, relative_gap
from rkhs._finite.monitor import Monitor, Stopped
from rkhs._finite.problem import FiniteProblem, Iterate
from rkhs._finite.verified import VerifiedProducts
from rkhs.solvers._reduced import value
from rkhs.solvers._span_dual import SpanDual
from rkhs.solvers._subspace import Directions, Task, TaskPoints

BATCH = 16  # problems that share a product
FEWEST, MOST = 32, 300  # directions: fewer lose too much in restarts, more cost more than the products they save
OTHERS = 1500  # rows with losses that are not quadratic, up to which reduced problems are cheaper than products
DEAR = 0.02  # seconds per product, above which a second reduced problem is the cheaper way to a lower bound


def has_few_nonquadratic(system: FiniteProblem) -> bool:
    """Return whether reduced problems are small: all but OTHERS rows have quadratic losses, which enter by moments."""
    return len(system.other_rows) <= OTHERS


def capacity_of(system: FiniteProblem) -> int:
    """Return the number of directions that fit in half the memory budget, between FEWEST and MOST."""
    entry = 4 if "32" in str(system.Q.dtype) else 8
    return min(MOST, max(FEWEST, system.gram.budget // (4 * entry * max(system.size, 1))))


def solve_together(
    tasks: list[Task],
    shared: FiniteProblem,
    monitor: Monitor,
    capacity: int,
    first: Array | None = None,
    whole: Callable[[], Iterate] | None = None,
) -> None:
    """Solve the tasks in the given order to the tolerance of the monitor, or as far as rounding allows.

    The columns of `first` (N, k) are the first directions.  Iterates of solved tasks are verified together by one
    product at the end.  If the tasks are the outputs of one problem, `whole` joins their iterates for the monitor.
    """
    directions = Directions(shared, max(capacity, 4 * min(BATCH, len(tasks))))
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
        _run(tasks, directions, verified, monitor, whole)
    except (Stopped, KeyboardInterrupt):
        _give_up(tasks, directions, verified)
        raise
    finally:
        done = [task for task in tasks if task.entry is not None]
        if done and verified.right(monitor.tol):
            for task in done:
                assert task.entry is not None
                task.iterate = verified.verified(task.entry)


def _run(
    tasks: list[Task],
    directions: Directions,
    verified: VerifiedProducts,
    monitor: Monitor,
    whole: Callable[[], Iterate] | None,
) -> None:
    """Solve all tasks, or as many as the directions allow."""
    system, tol = directions.system, monitor.tol
    active, lowest, since, led = list(tasks), [inf], 0, False
    span, sample = SpanDual(directions), _sample(system) if directions.count == len(system.other_rows) > 0 else None
    while active:
        batch = active[:BATCH]
        _solve_in_span(batch, span, led, verified, monitor)
        unsolved = [task for task in batch if task.gap > tol]
        if unsolved:
            points, before = TaskPoints.of(unsolved, directions), directions.count
            if sample is not None:
                V = system.zeros(len(unsolved))
                V[sample] = points.gradients[sample]
                directions.add(V, system.exact.part(slice(None), sample) @ V[sample])
                sample = None
                continue
            gaps = np.array([task.gap for task in unsolved])  # at the previous point, hence upper bounds
            combined = _combined(points.gradients, gaps, tol) if system.gram.seconds > DEAR else None
            V = points.gradients if combined is None else combined
            product, led = system.gram @ V, True
            if combined is None:
                points.certify(unsolved, product)
            for k, task in enumerate(unsolved):
                task.iterate = points.iterate(k, task.alpha)  # in case the run is stopped
                if task.gap <= tol and not system.inexact:
                    _enter(task, points.image[:, [k]], verified, tol)
        worst = max(batch, key=lambda task: task.gap)
        monitor.report(None if whole is None else whole(), worst.primal, worst.gap)
        left = [k for k, task in enumerate(unsolved) if task.gap > tol]
        if left:
            now = [unsolved[k].gap for k in left]
            same = len(now) == len(lowest)
            # A gap counts as smaller if it has decreased by a tenth.
            if not same or any(gap < 0.9 * earlier for gap, earlier in zip(now, lowest, strict=True)):
                lowest, since = now, 0
            since += 1
            if since > directions.capacity:  # with too few directions kinks may prevent progress
                return
            if combined is None:
                V, product = V[:, left], product[:, left]
            if directions.count + int(V.shape[1]) > directions.capacity:
                _restart(directions, [unsolved[k] for k in left])
                span, before = SpanDual(directions), directions.count
            directions.add(V, product)
            if directions.count == before:
                return
        active = [task for task in active if task.gap > tol]


def _solve_in_span(batch: list[Task], span: SpanDual, led: bool, verified: VerifiedProducts, monitor: Monitor) -> None:
    """Solve on the span of the directions, and mark tasks whose gap the dual point in the span closes as solved.

    As long as the directions are only representers (not `led`), one task that is far from solved stands for all.
    """
    directions, tol = span.directions, monitor.tol
    system, closed = directions.system, []
    bounding = not system.inexact and system.gram.seconds > DEAR
    for task in batch:
        problem = task.solve(directions, tol, monitor.left)
        if bounding and span.serves(task):
            task.primal = value(problem, task.theta)
            dual, gamma = span.bound(task, problem, tol, monitor.left)
            task.gap = min(task.gap, relative_gap(task.primal, dual, task.system.rounding[0]))
            if task.gap <= tol:
                closed.append((task, gamma))
            bounding = led or task.gap <= tol
    if not closed:
        return
    points = TaskPoints.of([task for task, _ in closed], directions)
    alpha, image = directions.at(like(np.stack([gamma for _, gamma in closed], axis=1), system.Q))
    for k, (task, _) in enumerate(closed):
        task.alpha, task.alpha_image = alpha[:, [k]], image[:, [k]]
        task.iterate = points.iterate(k, task.alpha)
        _enter(task, points.image[:, [k]], verified, tol)
        if task.entry is None:  # the gap is within rounding: continue with gradients
            task.alpha, task.dual, task.gap = None, -inf, inf


def _sample(system: FiniteProblem) -> Vector | None:
    """Return the rows of quadratic blocks at a random twelfth of the points, or None if there are too few points."""
    firsts = system.gram.group_starts
    groups = np.flatnonzero(np.isin(firsts, system.quadratic_rows))
    if len(groups) < 12 * 16:
        return None
    ends = np.append(firsts[1:], system.size)
    chosen = np.sort(np.random.default_rng(0).choice(groups, len(groups) // 12, replace=False))
    return np.concatenate([np.arange(firsts[k], ends[k]) for k in chosen])


def _combined(G: Array, gaps: Vector, tol: float) -> Array | None:
    """Return the fewest combinations of gradients (N, b) that close all gaps, or None if they are most of them.

    A gap decreases about by the share of its gradient that is in the span of the combinations.
    """
    if len(gaps) < 2 or not np.all(np.isfinite(gaps)):
        return None
    xp = namespace(G)
    weighted = G * (like(np.sqrt(gaps), G) / xp.clip(xp.linalg.vector_norm(G, axis=0), 1e-300, None))
    values, vectors = np.linalg.eigh(double(weighted.T @ weighted))
    caught = np.cumsum((vectors**2 * values)[:, ::-1], axis=1)  # decrease by the first 1, 2, .. combinations
    enough = np.all(gaps[:, None] - caught <= tol / 2, axis=0)
    count = 1 + int(np.argmax(enough))
    if not enough.any() or count > 0.7 * len(gaps):  # then the full product, which also certifies each task
        return None
    return weighted @ like(vectors[:, ::-1][:, :count], G)


def _enter(task: Task, image: Array, verified: VerifiedProducts, tol: float) -> None:
    """Register a task as solved, if its gap is small with the available images."""
    assert task.iterate is not None
    alpha = feasible(task.system, task.alpha)
    norm = namespace(alpha).linalg.vector_norm
    if float(norm(alpha - task.alpha)) <= 1e-12 * float(norm(alpha)):  # equal up to rounding: the image is valid
        iterate = Iterate(task.iterate.a, task.iterate.basis, alpha)
        task.entry = verified.enter(task.system, iterate, image, task.alpha_image, tol)


def _give_up(tasks: list[Task], directions: Directions, verified: VerifiedProducts) -> None:
    """Register many unsolved tasks at their current points with the dual point 0, which needs no product."""
    left = [task for task in tasks if task.entry is None and len(task.theta)]
    if len(left) <= BATCH or directions.system.inexact:
        return
    points, none = TaskPoints.of(left, directions), directions.system.zeros(1)
    for k, task in enumerate(left):
        task.entry = verified.enter(task.system, points.iterate(k, none), points.image[:, [k]], none, inf)


def _restart(directions: Directions, tasks: list[Task]) -> None:
    """Drop directions, but keep the current points of the tasks in their span."""
    r = directions.rank
    R = directions.restart(np.stack([task.theta[r:] for task in tasks], axis=1))
    for task in tasks:
        task.theta = np.concatenate([task.theta[:r], R.T @ task.theta[r:]])
