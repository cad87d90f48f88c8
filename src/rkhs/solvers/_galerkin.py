"""Galerkin methods: the problem on a growing subspace, of gradients (`Galerkin`) or representers (`GreedyCoordinate`).

*Gradients.*  There is one Gram product per iteration, and as few iterations as possible: J is minimized exactly over
the span of all gradients so far (`_recycling` with a single problem).

*Greedy coordinate selection* (Zhang et al. 2013, section 5).  On the span of the selected representers J is a reduced
problem, solved exactly.  The gradient g = a + w loss'(u) is then orthogonal to the span, so the derivative of J along
the component of z_i that is orthogonal to it, at unit length, is

    (Gg)_i / sqrt(d_i),        d_i the squared distance of z_i from the span

The steepest selection takes the largest of these.  (Division by sqrt(G_ii) instead would neglect representers that are
near the span but differ from it in the right direction.)  The one full product per selection, that of g, also gives the
gap.  The representers of a conditionally positive definite kernel are not in its space: z_i is replaced by
z_i - sum_T (..) z_j with r functionals T that determine the basis.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from rkhs._core.backend.arrays import Array, Matrix, check_choice, check_count, double, like, namespace, to_numpy, zeros
from rkhs._core.finite.certificate import Status
from rkhs._core.finite.monitor import Monitor, Step, Steps, Stopped
from rkhs._core.finite.problem import FiniteProblem, Iterate
from rkhs._core.finite.representers import joined_iterates
from rkhs._core.limits import limits
from rkhs.solvers._base import SHARED, Estimate, Solver, factorization
from rkhs.solvers._nonlinear_cg import NonlinearCG
from rkhs.solvers._recycling import (
    CellPoints,
    GridCell,
    SearchSubspace,
    capacity_of,
    has_few_nonquadratic,
    solve_together,
)

REDUCED = 5  # factorizations of a reduced problem with kinks
FORCING = 0.1  # relative accuracy of reduced problems, in units of the current gap (inexact steps)


@dataclass(frozen=True)
class Galerkin(Solver):
    """The problem on a growing span of gradients, solved exactly there.

    It takes one Gram product per iteration, as `NonlinearCG`, but keeps all gradients so far instead of the last few
    steps: half as many products for smooth losses, and far fewer for others.  All but 1,500 functionals must have a
    squared loss.

    Parameters
    ----------
    capacity : int, optional
        The maximal number of directions; by default as many as half the memory budget holds, and at most 300.  When it
        is reached, half of the directions are dropped.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(-1, 1, 30)[:, None]
    >>> labels = rkhs.Term(rkhs.Evaluation(X[::5]), rkhs.Hinge(), target=np.sign(X[::5, 0] + 0.1), weight=10.0)
    >>> flat = rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.1)
    >>> solution = rkhs.Problem(rkhs.Gaussian(scale=0.5), [labels, flat]).solve(rkhs.solvers.Galerkin())
    >>> solution.status
    'converged'
    """

    capacity: int | None = None

    def lacks(self, system: FiniteProblem) -> str | None:
        if has_few_nonquadratic(system):
            return None
        losses = ", ".join(sorted({repr(t.loss) for t in system.terms if not t.loss.quadratic}))
        return (
            f"Galerkin needs all but {limits().nonquadratic_rows} functionals to have a Squared loss, but more have "
            f"{losses}: use rkhs.solvers.NonlinearCG()."
        )

    def step(self, estimate: Estimate) -> float:
        system = estimate.system  # kinks in the span of few directions take fewer operations than those of all rows
        reduced = 0.0 if system.smooth else REDUCED * factorization(len(system.other_rows))
        return estimate.step() * (1 + SHARED * (system.columns - 1)) + system.columns * reduced

    def steps(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Steps:
        tasks = [GridCell.of(system, c) for c in range(system.columns)]

        def joint_iterate() -> Iterate:
            return joined_iterates([task.iterate or task.system.start() for task in tasks])

        capacity, first = self.capacity or capacity_of(system), system.inside(start.a)
        yield from solve_together(tasks, system, tol, monitor, capacity, first, joint_iterate)
        if all(task.gap <= tol for task in tasks):
            return joint_iterate()
        return (yield from NonlinearCG().steps(system, joint_iterate(), tol, monitor))


@dataclass(frozen=True)
class GreedyCoordinate(Solver):
    """Greedy coordinate selection of a sparse expansion, for any losses.

    It selects one coordinate after the other and minimizes J over those selected so far (Zhang et al. 2013, section 5).
    The other coefficients are exactly zero.  The images of the S selected representers, N x S, are stored.

    Parameters
    ----------
    representers : int, optional
        The maximal number of representers; by default as many as the tolerance needs.
    selection : {"steepest", "random"}, default="steepest"
        Select the representer along which J decreases fastest, or a random one.
    together : int, default=1
        The number of representers that are selected from one gradient, that is, per Gram product.
    random_state : int, default=0
        The seed of the random selection.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> labels = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(6 * X[:, 0]), weight=10.0)
    >>> problem = rkhs.Problem(rkhs.Gaussian(scale=0.2), [labels])
    >>> solution = problem.solve(rkhs.solvers.GreedyCoordinate(representers=10))
    >>> solution.status, solution.function.active
    ('limit of representers', 10)
    >>> solution.function.compress().functionals.size
    10
    """

    representers: int | None = None
    selection: str = "steepest"
    together: int = 1
    random_state: int | None = 0

    def __post_init__(self) -> None:
        check_choice(self.selection, "selection of GreedyCoordinate", "steepest", "random")
        if self.representers is not None:
            check_count(self.representers, "representers of GreedyCoordinate (unless it is None, no limit)")
        check_count(self.together, "together of GreedyCoordinate")

    def lacks(self, system: FiniteProblem) -> str | None:
        return None

    def steps(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Steps:
        selected, rng = _SelectedRepresenters(system), np.random.default_rng(self.random_state)
        limit = min(system.size, self.representers or system.size)
        for i in selected.support(start)[: max(0, limit - selected.active)]:
            selected.add(i)
        tasks = [GridCell.of(system, k) for k in range(system.columns)]
        last = selected.active >= limit  # whether no more representers will be added
        while True:
            for task in tasks:
                accuracy = tol if last else max(tol, min(FORCING * task.gap, FORCING))
                task.solve(selected.directions, accuracy, monitor, smoothing=True)
            points = CellPoints.of(tasks, selected.directions)
            products = system.gram @ points.gradients
            points.certify(tasks, products)
            iterate = Iterate.joined([task.iterate or task.system.start() for task in tasks])
            yield Step(iterate, sum(task.primal for task in tasks), max(task.gap for task in tasks))
            active = [k for k, task in enumerate(tasks) if task.gap > tol]
            if not active:
                return iterate
            if last:
                if selected.active >= limit < system.size:
                    raise Stopped(Status.SIZE_LIMIT)
                return iterate
            if selected.directions.count + self.together > selected.directions.capacity:
                raise Stopped(Status.MEMORY_LIMIT)
            slopes = double(selected.projected(products[:, active]))
            added = selected.select(slopes, min(self.together, limit - selected.active), self.selection, rng)
            last = not added or selected.active >= limit


class _SelectedRepresenters:
    """The selected representers as directions, and the squared distances of the others from their span."""

    def __init__(self, system: FiniteProblem) -> None:
        self.system, self.indices = system, list[int]()
        N, Q = system.size, double(system.Q)
        most = system.gram.budget // (16 * max(N, 1))
        self.directions = SearchSubspace(system, max(1, min(N, most)))
        fixed = 0 if system.definite else Q.shape[1]
        self.fixed = scipy.linalg.qr(Q.T, mode="r", pivoting=True)[1][:fixed]  # the functionals T
        self.shares = np.linalg.solve(Q[self.fixed].T, Q.T).T if fixed else np.zeros((N, 0))  # Q Q_T^-1
        self.columns = system.gram.block(slice(None), self.fixed) if fixed else zeros((N, 0), system.Q)  # G[:, T]
        diagonal = double(system.gram.diagonal())
        cross = np.sum(self.shares * to_numpy(self.columns), axis=1)
        square = np.sum((self.shares @ to_numpy(self.columns)[self.fixed]) * self.shares, axis=1)
        eps = float(namespace(system.Q).finfo(system.Q.dtype).eps)
        # Squared distances below a thousand units of rounding count as zero: the representer is in the span.
        self.threshold = 1e3 * eps * (abs(diagonal) + 2 * abs(cross) + abs(square))
        self.distances = diagonal - 2 * cross + square  # the squared distances d
        self.distances[self.fixed] = 0.0
        self.distances[self.distances <= self.threshold] = 0.0

    @property
    def active(self) -> int:
        """The number of representers with a coefficient."""
        return len(self.indices) + len(self.fixed)

    def support(self, start: Iterate) -> list[int]:
        """Return the representers with nonzero coefficients in an iterate, by decreasing contribution."""
        size = np.max(np.abs(to_numpy(start.a)), axis=1) * np.sqrt(self.distances)
        return [int(i) for i in np.argsort(-size, kind="stable") if size[i] > 0]

    def projected(self, images: Array) -> Array:
        """Return the inner products with the representers projected into the space: images minus their share on T."""
        return images - like(self.shares, images) @ images[self.fixed]

    def select(self, slopes: Matrix, count: int, selection: str, rng: np.random.Generator) -> bool:
        """Add up to `count` representers, given the slopes (N, c) of J along each; return whether any was added."""
        before = len(self.indices)
        for _ in range(count):
            outside = self.distances > 0
            # (Gg)_i^2 / d_i, summed over outputs
            score = np.sum(slopes**2, axis=1) / np.where(outside, self.distances, np.inf)
            if not np.any(score > 0):
                break
            i = int(np.argmax(score)) if selection == "steepest" else int(rng.choice(np.flatnonzero(outside)))
            direction = self.add(i)
            if direction is not None:  # continue with the part of the gradient that is orthogonal to it
                slopes = slopes - np.outer(direction, slopes[i] / direction[i])
        return len(self.indices) > before

    def add(self, i: int) -> Matrix | None:
        """Add a representer; return the new direction's inner products with the others; None if it is in the span."""
        if self.distances[i] <= 0:
            return None
        self.distances[i] = 0.0
        V, before = self.system.zeros(1), self.directions.count
        V[i] = 1.0
        share = like(self.shares[[i]].T, V)
        if len(self.fixed):
            V[self.fixed] = V[self.fixed] - share
        image = self.system.gram.block(slice(None), [i]) - self.columns @ share
        self.directions.add(V, image)
        if self.directions.count == before:
            return None
        self.indices.append(i)
        inner: Any = to_numpy(self.projected(self.directions.U[before : before + 1].T))[:, 0]
        direction: Matrix = inner.astype(np.float64)
        # d_i <- d_i - <z_i, direction>^2, as in a Cholesky factorization with pivoting
        self.distances -= direction**2
        self.distances[self.distances <= self.threshold] = 0.0
        return direction
