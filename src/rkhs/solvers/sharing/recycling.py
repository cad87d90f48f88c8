"""Many problems with one Gram: what one of them learns about the space serves all.

The weights, targets and folds of a grid change the losses but not the representers: directions D and their images
U = GD, made for one problem, are as good for any other.  On their span every problem is a small one (`small`), and
solving it costs no product.  Its gradient at the small solution costs one, which either certifies the solution or
becomes a further direction, for this problem and all others.  The span of a problem's own gradients is contained in
what it sees, so none needs more iterations than it would alone by conjugate gradients.

The first directions are in the span of the representers of the rows whose losses are not quadratic.  Where these have
kinks and are few, all of it: whatever the weights, targets and kinks there, they are settled by small problems, and
products serve the quadratic terms alone.  Where they are smooth, what leads in it: that saves a third of the products
or more, and costs as much as one.

Beside all representers a sample of the rows of the first gradients leads as far as these do (`sampling`), and the norms
of the next ones, which are cheaper than their images, may show that all is done.

Where all representers are there, the best dual point in the span is known as well (`span_dual`): a problem whose gap it
closes needs no product, and of the gradients of the others so many combinations are multiplied as their gaps ask for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np

from rkhs._backend.arrays import Array, like, namespace
from rkhs._finite.certificate import bounds, feasible, relative_gap
from rkhs._finite.ledger import Candidate, Ledger
from rkhs._finite.monitor import Monitor, Stopped
from rkhs._finite.problem import FiniteProblem, Iterate
from rkhs.solvers.sharing.capacity import leading_representers
from rkhs.solvers.sharing.combining import combinations
from rkhs.solvers.sharing.directions import Directions
from rkhs.solvers.sharing.sampling import sample
from rkhs.solvers.sharing.span_dual import SpanDual
from rkhs.solvers.sharing.task import Task, small_problem
from rkhs.solvers.small.solution import solve

BATCH = 16  # problems that share a product
GAIN = 0.9  # of a gap, at most, is a smaller one
ROUNDED = 1e-12  # share of alpha by which rounding moves it: its image is still the same
DEAR = 0.02  # seconds of a product, from which a second small problem is the cheaper way to a bound
SMALLER = 0.2  # share of the tolerance that is left to small problems
NEXT = 0.15  # of what a gradient lowers J by, that is left as a gap after it
FEW_LEFT = 0.25  # of the tasks, up to which another sample of rows is to close their gaps


def solve_together(
    tasks: list[Task],
    shared: FiniteProblem,
    monitor: Monitor,
    capacity: int,
    first: Array | None = None,
    whole: Callable[[], Iterate] | None = None,
) -> None:
    """Solve the tasks to the monitor's tolerance, or as far as rounding allows, in the order given.

    The columns of `first` (N, k) are the first directions.  Iterates of solved tasks are `Checked`, all by one product
    in the end.  Where the tasks are the outputs of one problem, `whole` joins their iterates for the monitor.
    """
    together = _Together(tasks, shared, monitor, max(capacity, 4 * min(BATCH, len(tasks))), whole)
    if first is not None and bool(namespace(first).any(first != 0)):
        together.directions.add(first, shared.exact @ first)
    try:
        together.run()
    except (Stopped, KeyboardInterrupt):
        together.give_up()
        raise
    finally:
        together.close()


@dataclass(frozen=True, eq=False)
class _Points:
    """Points of the span for some tasks: coefficients a (N, b), images, and u with those of the basis (r, b)."""

    a: Array
    image: Array
    u: Array
    basis: Array

    def iterate(self, k: int, alpha: Array | None) -> Iterate:
        return Iterate(self.a[:, k : k + 1], self.basis[:, k : k + 1], alpha)

    def take(self, columns: list[int]) -> _Points:
        """Of some of the tasks."""
        return _Points(*(part[:, columns] for part in (self.a, self.image, self.u, self.basis)))


class _Together:
    """The tasks, their directions, and what is solved."""

    def __init__(
        self,
        tasks: list[Task],
        shared: FiniteProblem,
        monitor: Monitor,
        capacity: int,
        whole: Callable[[], Iterate] | None,
    ) -> None:
        self.tasks, self.shared, self.monitor, self.whole = tasks, shared, monitor, whole
        self.directions = Directions(shared, capacity)
        self.ledger = Ledger(shared.geometry)
        others = shared.other_rows
        leading = leading_representers(shared, len(others), len(tasks), capacity)
        if leading:
            self.directions.add_representers(others, leading)
        self.span = SpanDual(self.directions)
        self.led = False  # whether there are whole gradients among the directions
        self.samples, self.few_left = 0, False  # of rows, and whether the last one did for nearly all tasks

    def run(self) -> None:
        """Solve all tasks, or as many as directions lead to."""
        open_ones, progress = list(self.tasks), _Progress(self.directions.capacity)
        while open_ones:
            batch = open_ones[:BATCH]
            self._solve_small(batch)
            unsolved = [task for task in batch if task.gap > self.monitor.tol]
            if unsolved:
                if not (self._sample(unsolved) or self._judge(unsolved) or self._multiply(unsolved, progress)):
                    return
            else:
                self._report(batch)
            open_ones = [task for task in open_ones if task.gap > self.monitor.tol]

    def _solve_small(self, batch: list[Task]) -> None:
        """Solve on the span; tasks whose gap closes there are solved."""
        shared, tol, directions = self.shared, self.monitor.tol, self.directions
        E = {
            k: directions.images(t.rows)
            for k, t in enumerate(shared.terms)
            if k not in directions.moments or _split(self.tasks, k)
        }
        self.span.update()
        bounding = not shared.inexact and shared.gram.seconds > DEAR
        for task in batch:
            small = small_problem(task, directions, E)
            found = solve(small, SMALLER * tol, task.theta, seconds=self.monitor.left)
            task.theta, task.others = found.theta, found.alpha
            task.gap, task.gamma = float("inf"), None
            before, task.primal = task.primal, small.value(task.theta)
            task.fall = before - task.primal
            if bounding and self.span.serves(task):
                dual, task.gamma = self.span.bound(task, small, SMALLER * tol, self.monitor.left)
                task.gap = relative_gap(task.primal, dual, task.system.rounding[0])
                bounding = self.led or task.gap <= tol  # without gradients one that is far off stands for all
        closed = [task for task in batch if task.gap <= tol]
        if not closed:
            return
        points = self._at(closed)
        alpha, image = directions.at(like(np.stack([np.asarray(task.gamma) for task in closed], axis=1), shared.Q))
        for k, task in enumerate(closed):
            task.alpha, task.alpha_image = alpha[:, k : k + 1], image[:, k : k + 1]
        for task, done in zip(closed, self._enter(closed, points), strict=True):
            task.gap = task.gap if done else float("inf")

    def _enter(self, tasks: list[Task], points: _Points) -> list[bool]:
        """Enter tasks that have an alpha as solved, if their gaps are small with the images at hand."""
        for k, task in enumerate(tasks):
            task.iterate = points.iterate(k, task.alpha)
        if self.shared.inexact:
            return [False] * len(tasks)
        candidates = []
        for k, task in enumerate(tasks):
            alpha = feasible(task.system, task.alpha)
            moved = float(namespace(alpha).linalg.vector_norm(alpha - task.alpha))
            near = moved <= ROUNDED * float(namespace(alpha).linalg.vector_norm(alpha))
            known = task.alpha_image if near else None
            candidates.append(Candidate(task.system, points.iterate(k, alpha), points.image[:, k : k + 1], known))
        for task, entry in zip(tasks, self.ledger.enter(candidates, self.monitor.tol), strict=True):
            task.entry = entry
        return [task.entry is not None for task in tasks]

    def give_up(self) -> None:
        """Enter many tasks where they are, with the dual point 0, which costs no product."""
        left = [task for task in self.tasks if task.entry is None and len(task.theta)]
        if len(left) <= BATCH or self.shared.inexact:
            return
        points, none = self._at(left), self.shared.zeros(1)
        candidates = [
            Candidate(task.system, points.iterate(k, none), points.image[:, k : k + 1], none)
            for k, task in enumerate(left)
        ]
        for task, entry in zip(left, self.ledger.enter(candidates, inf), strict=True):
            task.entry = entry

    def close(self) -> None:
        """The iterates of solved tasks, checked, if one product says that all images are right."""
        done = [task for task in self.tasks if task.entry is not None]
        if done and self.ledger.right(self.monitor.tol):
            for task in done:
                assert task.entry is not None
                task.iterate = self.ledger.checked(task.entry)

    def _at(self, tasks: list[Task]) -> _Points:
        """Where the tasks are."""
        r = self.directions.rank
        wide = r + self.directions.count
        padded = [np.concatenate([task.theta, np.zeros(wide - len(task.theta))]) for task in tasks]
        T = like(np.stack(padded, axis=1), self.shared.Q)  # (r + m, b)
        a, image = self.directions.at(T[r:])
        return _Points(a, image, image + self.shared.Q @ T[:r], T[:r])

    def _gradients(self, tasks: list[Task], points: _Points) -> Array:
        """The coefficients (N, b) of the gradients, one after the other in memory."""
        slopes = [points.a[:, k] + t.slope(points.u[:, k : k + 1])[:, 0] for k, t in enumerate(tasks)]
        return self.shared.inside(namespace(points.u).stack(slopes).T)

    def _sample(self, tasks: list[Task]) -> bool:
        """Gradients as far as a sample of the rows shows them, for all tasks first, and once more for a few."""
        directions, before = self.directions, self.directions.count
        wanted = self.span.whole and (before == directions.first or self.few_left)
        rows = sample(self.shared, self.samples) if wanted else None
        if rows is None:
            return False
        self.samples, self.few_left = self.samples + 1, False
        V = self._gradients(tasks, self._at(tasks))[rows]
        product = self.shared.exact.part(slice(None), rows) @ V
        directions.add(V, product, rows)
        return directions.count > before

    def _judge(self, tasks: list[Task]) -> bool:
        """Close gaps by the norms of gradients alone, where a sample has led near enough; whether nearly all."""
        tol = self.monitor.tol
        near = NEXT * sum(task.fall for task in tasks) <= tol * sum(abs(task.primal) for task in tasks)
        if self.led or not near or not self.shared.smooth or self.shared.inexact:
            return False
        points = self._at(tasks)
        G = self._gradients(tasks, points)
        for k, task in enumerate(tasks):
            task.alpha, task.alpha_image = points.a[:, k : k + 1] - G[:, k : k + 1], None
        self._enter(tasks, points)
        for task in tasks:
            if task.entry is None:
                task.alpha = None
            else:
                task.gap = task.entry.certificate.relative
        self._report(tasks)
        left = sum(task.gap > tol for task in tasks)
        self.few_left = 0 < left <= FEW_LEFT * len(tasks)
        return left == 0 or self.few_left

    def _multiply(self, tasks: list[Task], progress: _Progress) -> bool:
        """One product, with the gradients of the tasks or combinations of them; whether it leads on."""
        tol, directions = self.monitor.tol, self.directions
        tasks = [task for task in tasks if task.gap > tol]
        points = self._at(tasks)
        G = self._gradients(tasks, points)
        some = combinations(G, np.array([task.gap for task in tasks]), tol)
        V = G if some is None else some
        product = self.shared.gram @ V
        for k, task in enumerate(tasks):
            task.iterate = points.iterate(k, task.alpha)
        if some is None:
            self._certify(tasks, points, G, product)
        self._report(tasks)
        unsolved = [k for k, task in enumerate(tasks) if task.gap > tol]
        if not unsolved:
            return True
        if some is None:
            V, product = V[:, unsolved], product[:, unsolved]
        if progress.ended([tasks[k].gap for k in unsolved]):
            return False
        if directions.count + int(V.shape[1]) > directions.capacity:
            _make_room(directions, [tasks[k] for k in unsolved])
            self.span = SpanDual(directions)
        before, self.led = directions.count, True
        directions.add(V, product)
        return directions.count > before

    def _certify(self, tasks: list[Task], points: _Points, G: Array, product: Array) -> None:
        """The bounds that gradients and their images give."""
        for k, task in enumerate(tasks):
            one = slice(k, k + 1)
            a, image, u = points.a[:, one], points.image[:, one], points.u[:, one]
            task.primal, dual = bounds(task.system, a, image, u, G[:, one], product[:, one])
            if dual > task.dual:
                task.dual, task.alpha, task.alpha_image = dual, a - G[:, one], image - product[:, one]
            task.iterate = points.iterate(k, task.alpha)
            task.gap = min(task.gap, relative_gap(task.primal, task.dual, task.system.rounding[0]))
        near = [k for k, task in enumerate(tasks) if task.gap <= self.monitor.tol]
        if near:
            self._enter([tasks[k] for k in near], points.take(near))

    def _report(self, tasks: list[Task]) -> None:
        worst = max(tasks, key=lambda task: task.gap)
        self.monitor.report(None if self.whole is None else self.whole(), worst.primal, worst.gap)


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


def _split(tasks: list[Task], term: int) -> bool:
    """Whether some task weights the rows of a term differently, so that its moments do not serve."""
    return any(not isinstance(task.multiples[term], float) for task in tasks)
