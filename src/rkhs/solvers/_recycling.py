"""Many problems with one Gram matrix: what one of them learns about the space serves all.

The weights, targets and folds of a grid change the losses but not the representers: directions D and their images
U = GD, made for one problem, are as good for any other.  On their span every problem is a reduced one, and solving it
costs no product.  Its gradient at the reduced solution costs one, which either certifies the solution or becomes a
further direction, for this problem and all others.  The span of a problem's own gradients is contained in what it
sees, so none needs more iterations than it would alone by conjugate gradients.

The first directions are in the span of the representers of the rows whose losses are not quadratic.  Where these have
kinks and are few, all of it: whatever the weights, targets and kinks there, they are settled by reduced problems, and
products serve the quadratic blocks alone.  Where they are smooth, what leads in it: that saves a third of the products
or more, and costs as much as one.

Beside all representers, the first gradients restricted to a twelfth of the points are directions too.  They lead nearly
as far as whole gradients, where many rows say much the same about f, and cost a twelfth: for ten classes that saves
half of the time.  There, too, the best dual point in the span is known (`_span_dual`): a problem whose gap it closes
needs no product, and of the gradients of the others only as many combinations are multiplied as their gaps need, which
saves a quarter of the columns on large grids.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np

from rkhs._backend.arrays import Array, Vector, like, namespace, to_numpy
from rkhs._finite.certificate import feasible, relative_gap
from rkhs._finite.monitor import Monitor, Stopped
from rkhs._finite.problem import FiniteProblem, Iterate
from rkhs._finite.verified import VerifiedProducts
from rkhs.solvers._span_dual import SpanDual
from rkhs.solvers._subspace import Directions, Task, TaskPoints

BATCH = 16  # problems that share a product
FEWEST, MOST = 32, 300  # directions: fewer lose too much by restarts, more cost more than the products that they save
OTHERS = 1500  # rows of losses that are not quadratic, up to which reduced problems cost less than products
DEAR = 0.02  # s of a product, from which a second reduced problem is the cheaper way to a bound


def few_others(system: FiniteProblem) -> bool:
    """Return whether reduced problems are small: most rows have quadratic losses, which enter by their moments."""
    return len(system.other_rows) <= OTHERS


def capacity_of(system: FiniteProblem) -> int:
    """Return how many directions to keep within half the memory budget."""
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
    """Solve the tasks to the monitor's tolerance, or as far as rounding allows, in the order given.

    The columns of `first` (N, k) are the first directions.  Iterates of solved tasks are verified, all by one product
    in the end.  Where the tasks are the outputs of one problem, `whole` joins their iterates for the monitor.
    """
    directions = Directions(shared, max(capacity, 4 * min(BATCH, len(tasks))))
    others = shared.other_rows
    if shared.definite and len(others) <= MOST:  # else representers are not in the space, or too many
        if shared.smooth:
            # For each problem 16 of them cost less than the products that they save.
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
    """Solve all tasks, or as many as directions lead to."""
    system, tol = directions.system, monitor.tol
    open_ones, lowest, since, led = list(tasks), [inf], 0, False
    span, sample = SpanDual(directions), _sample(system) if directions.count == len(system.other_rows) > 0 else None
    while open_ones:
        batch = open_ones[:BATCH]
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
            gaps = np.array([task.gap for task in unsolved])  # at the point before, and so no smaller than here
            combined = _combined(points.gradients, gaps, tol) if system.gram.seconds > DEAR else None
            V = points.gradients if combined is None else combined
            product, led = system.gram @ V, True
            if combined is None:
                points.certify(unsolved, product)
            for k, task in enumerate(unsolved):
                task.iterate = points.iterate(k, task.alpha)  # for whoever stops it
                if task.gap <= tol and not system.inexact:
                    _enter(task, points.image[:, [k]], verified, tol)
        worst = max(batch, key=lambda task: task.gap)
        monitor.report(None if whole is None else whole(), worst.primal, worst.gap)
        left = [k for k, task in enumerate(unsolved) if task.gap > tol]
        if left:
            now = [unsolved[k].gap for k in left]
            same = len(now) == len(lowest)
            # A gap counts as smaller where it has fallen by a tenth.
            if not same or any(gap < 0.9 * earlier for gap, earlier in zip(now, lowest, strict=True)):
                lowest, since = now, 0
            since += 1
            if since > directions.capacity:  # kinks may hold a problem where it is, with too few directions
                return
            if combined is None:
                V, product = V[:, left], product[:, left]
            if directions.count + int(V.shape[1]) > directions.capacity:
                _make_room(directions, [unsolved[k] for k in left])
                span, before = SpanDual(directions), directions.count
            directions.add(V, product)
            if directions.count == before:
                return
        open_ones = [task for task in open_ones if task.gap > tol]


def _solve_in_span(batch: list[Task], span: SpanDual, led: bool, verified: VerifiedProducts, monitor: Monitor) -> None:
    """Solve on the span of the directions; tasks whose gap the dual point in the span closes are solved.

    As long as no gradients have `led` further than representers, one task that is far off stands for all.
    """
    directions, tol = span.directions, monitor.tol
    system, closed = directions.system, []
    bounding = not system.inexact and system.gram.seconds > DEAR
    for task in batch:
        reduced = task.solve(directions, tol, monitor.left)
        if bounding and span.serves(task):
            task.primal = reduced.value(task.theta)
            dual, gamma = span.bound(task, reduced, tol, monitor.left)
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
        if task.entry is None:  # rounding hides it: gradients are to find another
            task.alpha, task.dual, task.gap = None, -inf, inf


def _sample(system: FiniteProblem) -> Vector | None:
    """Return the rows of quadratic blocks of a twelfth of the points; None where these are too few to stand for all."""
    firsts = system.gram.firsts
    groups = np.flatnonzero(np.isin(firsts, system.quadratic_rows))
    if len(groups) < 12 * 16:
        return None
    ends = np.append(firsts[1:], system.size)
    chosen = np.sort(np.random.default_rng(0).choice(groups, len(groups) // 12, replace=False))
    return np.concatenate([np.arange(firsts[k], ends[k]) for k in chosen])


def _combined(G: Array, gaps: Vector, tol: float) -> Array | None:
    """Return the fewest combinations of gradients (N, b) that close all gaps; None if these are most of them.

    A gap falls about as far as the share of its gradient that is not among the combinations.
    """
    if len(gaps) < 2 or not np.all(np.isfinite(gaps)):
        return None
    xp = namespace(G)
    weighted = G * (like(np.sqrt(gaps), G) / xp.clip(xp.linalg.vector_norm(G, axis=0), 1e-300, None))
    values, vectors = np.linalg.eigh(to_numpy(weighted.T @ weighted).astype(np.float64))
    caught = np.cumsum((vectors**2 * values)[:, ::-1], axis=1)  # of each gap, by the largest 1, 2, .. combinations
    enough = np.all(gaps[:, None] - caught <= tol / 2, axis=0)
    count = 1 + int(np.argmax(enough))
    if not enough.any() or count > 0.7 * len(gaps):  # then each is to have a certificate of its own
        return None
    return weighted @ like(vectors[:, ::-1][:, :count], G)


def _enter(task: Task, image: Array, verified: VerifiedProducts, tol: float) -> None:
    """Enter a task as solved, if its gap is small with the images at hand."""
    assert task.iterate is not None
    alpha = feasible(task.system, task.alpha)
    norm = namespace(alpha).linalg.vector_norm
    if float(norm(alpha - task.alpha)) <= 1e-12 * float(norm(alpha)):  # rounding alone: its image is still the same
        iterate = Iterate(task.iterate.a, task.iterate.basis, alpha)
        task.entry = verified.enter(task.system, iterate, image, task.alpha_image, tol)


def _give_up(tasks: list[Task], directions: Directions, verified: VerifiedProducts) -> None:
    """Enter many tasks where they are, with the dual point 0, which costs no product."""
    left = [task for task in tasks if task.entry is None and len(task.theta)]
    if len(left) <= BATCH or directions.system.inexact:
        return
    points, none = TaskPoints.of(left, directions), directions.system.zeros(1)
    for k, task in enumerate(left):
        task.entry = verified.enter(task.system, points.iterate(k, none), points.image[:, [k]], none, inf)


def _make_room(directions: Directions, tasks: list[Task]) -> None:
    """Forget directions, but not the points where the tasks are."""
    r = directions.rank
    R = directions.restart(np.stack([task.theta[r:] for task in tasks], axis=1))
    for task in tasks:
        task.theta = np.concatenate([task.theta[:r], R.T @ task.theta[r:]])
