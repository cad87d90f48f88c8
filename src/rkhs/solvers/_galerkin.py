"""Galerkin methods: the problem on a growing subspace, of gradients (Galerkin) or of chosen representers (GreedyCoordinate).

*Gradients.*  One Gram product per iteration and the fewest of them: J is minimized exactly over the span of all
gradients so far (`_recycling` with a single problem).

*Representers, one by one* (coordinate-wise growth, Zhang et al. 2013, section 6.1).  On the span of the chosen
representers J is a reduced problem, solved exactly.  The gradient g = a + w loss'(u) is then orthogonal to the span,
so the slope of J along what z_i would add to it, at unit length, is

    (Gg)_i / sqrt(d_i),        d_i the squared distance of z_i from the span

The steepest choice is the largest of these.  (Dividing by sqrt(G_ii) instead would neglect representers that are near
the span but differ from it in the right direction.)  The one full product per choice, that of g, also gives the gap.
The representers of a conditionally positive definite kernel are not in its space: in the place of z_i stands
z_i - sum_T (..) z_j with r functionals T that determine the basis, which is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from rkhs._backend.arrays import Array, Matrix, like, namespace, to_numpy, zeros
from rkhs._finite.monitor import Monitor, Stopped
from rkhs._finite.problem import FiniteProblem, Iterate
from rkhs._finite.verified import joined
from rkhs.exceptions import NotApplicableError
from rkhs.solvers._base import Solver
from rkhs.solvers._costs import FLOP, SHARED, Estimate, factorization
from rkhs.solvers._interior_point import FACTORIZATIONS
from rkhs.solvers._nonlinear_cg import NonlinearCG
from rkhs.solvers._recycling import OTHERS, capacity_of, few_others, solve_together
from rkhs.solvers._subspace import Directions, Task, TaskPoints

FORCING = 0.1  # of the gap, that of the problems on the way there (inexact steps)


@dataclass(frozen=True)
class Galerkin(Solver):
    """The problem on a growing span of gradients, solved exactly there: `_recycling` with a single problem.

    One Gram product per iteration, as `NonlinearCG`, but with all gradients so far in the place of the last few: half as
    many products for smooth losses, and far fewer for others.  Most functionals must have a squared loss; all losses
    are allowed for up to 1,500.

    Parameters
    ----------
    capacity : directions kept, by default as many as half the memory budget holds, and at most 300; when they are used
        up, half of them are forgotten

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

    def check(self, system: FiniteProblem) -> None:
        if not few_others(system):
            losses = ", ".join(sorted({repr(t.loss) for t in system.terms if not t.loss.quadratic}))
            raise NotApplicableError(
                f"Galerkin needs all but {OTHERS} functionals to have a Squared loss, and more have {losses}: "
                "use rkhs.solvers.NonlinearCG()."
            )

    def cost(self, estimate: Estimate) -> float:
        system, steps = estimate.system, estimate.iterations
        others = len(system.other_rows)
        small = 3 * FLOP * others * steps**2 + (0.0 if system.smooth else FACTORIZATIONS * factorization(others))
        return (
            estimate.iterating(self.step(estimate)) * (1 + SHARED * (system.columns - 1))
            + steps * system.columns * small
        )

    def run(self, system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
        tasks = [Task.of(system, c) for c in range(system.columns)]

        def together() -> Iterate:
            return joined([task.iterate or task.system.start() for task in tasks])

        try:
            capacity = self.capacity or capacity_of(system)
            solve_together(tasks, system, monitor, capacity, system.inside(start.a), together)
        except (Stopped, KeyboardInterrupt):
            monitor.keep(together())
            raise
        found = together()
        if all(task.gap <= monitor.tol for task in tasks):
            return found
        return NonlinearCG().run(system, found, monitor)


@dataclass(frozen=True)
class GreedyCoordinate(Solver):
    """Coordinate-wise growth of a sparse expansion, for any losses.

    All coefficients but those of the chosen representers are exactly zero.  The N x S images of these are stored.

    Parameters
    ----------
    representers : how many there may be; as many as the gap needs when None
    selection : "steepest", along which J falls fastest, or "random"
    together : how many are chosen from one gradient, that is, per Gram product
    random_state : seed of the random selection

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> labels = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(6 * X[:, 0]), weight=10.0)
    >>> solution = rkhs.Problem(rkhs.Gaussian(scale=0.2), [labels]).solve(rkhs.solvers.GreedyCoordinate(representers=10))
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
        if self.selection not in ("steepest", "random"):
            raise ValueError(f'GreedyCoordinate has selection "steepest" or "random", got {self.selection!r}.')
        if self.representers is not None and self.representers < 1:
            raise ValueError(
                f"GreedyCoordinate needs representers >= 1, or None for no limit, got {self.representers!r}."
            )
        if self.together < 1:
            raise ValueError(f"GreedyCoordinate needs together >= 1, got {self.together!r}.")

    def check(self, system: FiniteProblem) -> None:
        """Every problem will do."""

    def run(self, system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
        pool, rng = _Pool(system), np.random.default_rng(self.random_state)
        limit = min(system.size, self.representers or system.size)
        for i in pool.support(start)[: max(0, limit - pool.active)]:
            pool.add(i)
        tasks = [Task.of(system, k) for k in range(system.columns)]
        last = pool.active >= limit  # whether the span will not grow any more
        while True:
            for task in tasks:
                tol = monitor.tol if last else max(monitor.tol, min(FORCING * task.gap, FORCING))
                task.solve(pool.directions, tol, monitor.left, smoothing=True)
            points = TaskPoints.of(tasks, pool.directions)
            products = system.gram @ points.gradients
            points.certify(tasks, products)
            found = Iterate.joined([task.iterate or task.system.start() for task in tasks])
            monitor.report(found, sum(task.primal for task in tasks), max(task.gap for task in tasks))
            open_ones = [k for k, task in enumerate(tasks) if task.gap > monitor.tol]
            if not open_ones:
                return found
            if last:
                if pool.active >= limit < system.size:
                    raise Stopped("limit of representers")
                return found
            if pool.directions.count + self.together > pool.directions.capacity:
                raise Stopped("memory limit")
            slopes = to_numpy(pool.reduced(products[:, open_ones])).astype(np.float64)
            grown = pool.grow(slopes, min(self.together, limit - pool.active), self.selection, rng)
            last = not grown or pool.active >= limit


class _Pool:
    """The representers that were chosen, as directions, and what the others would add to these."""

    def __init__(self, system: FiniteProblem) -> None:
        self.system, self.chosen = system, list[int]()
        N, Q = system.size, to_numpy(system.Q).astype(np.float64)
        most = system.gram.budget // (16 * max(N, 1))
        self.directions = Directions(system, max(1, min(N, most)))
        fixed = 0 if system.definite else Q.shape[1]
        self.fixed = scipy.linalg.qr(Q.T, mode="r", pivoting=True)[1][:fixed]  # T
        self.shares = np.linalg.solve(Q[self.fixed].T, Q.T).T if fixed else np.zeros((N, 0))  # Q Q_T^-1
        self.columns = system.gram.block(slice(None), self.fixed) if fixed else zeros((N, 0), system.Q)  # G[:, T]
        diagonal = to_numpy(system.gram.diagonal()).astype(np.float64)
        cross = np.sum(self.shares * to_numpy(self.columns), axis=1)
        square = np.sum((self.shares @ to_numpy(self.columns)[self.fixed]) * self.shares, axis=1)
        eps = float(namespace(system.Q).finfo(system.Q.dtype).eps)
        # Squared distances from the span below a thousand units of rounding count as zero.
        self.least = 1e3 * eps * (abs(diagonal) + 2 * abs(cross) + abs(square))
        self.rest = diagonal - 2 * cross + square  # d, zero where a representer has nothing to add
        self.rest[self.fixed] = 0.0
        self.rest[self.rest <= self.least] = 0.0

    @property
    def active(self) -> int:
        """The number of representers with a coefficient."""
        return len(self.chosen) + len(self.fixed)

    def support(self, start: Iterate) -> list[int]:
        """The representers that an iterate uses, the ones that carry most of it first."""
        size = np.max(np.abs(to_numpy(start.a)), axis=1) * np.sqrt(self.rest)
        return [int(i) for i in np.argsort(-size, kind="stable") if size[i] > 0]

    def reduced(self, images: Array) -> Array:
        """What representers that are in the space see: images less their share on T."""
        return images - like(self.shares, images) @ images[self.fixed]

    def grow(self, slopes: Matrix, count: int, selection: str, rng: np.random.Generator) -> bool:
        """Add representers, with slopes (N, c) of J along each; False if none is left that would add anything."""
        before = len(self.chosen)
        for _ in range(count):
            outside = self.rest > 0
            score = np.sum(slopes**2, axis=1) / np.where(outside, self.rest, np.inf)
            if not np.any(score > 0):
                break
            i = int(np.argmax(score)) if selection == "steepest" else int(rng.choice(np.flatnonzero(outside)))
            direction = self.add(i)
            if direction is not None:  # go on with the part of the gradient that is orthogonal to it
                slopes = slopes - np.outer(direction, slopes[i] / direction[i])
        return len(self.chosen) > before

    def add(self, i: int) -> Matrix | None:
        """Add a representer; what the others see of the new direction, or None if it is in the span already."""
        if self.rest[i] <= 0:
            return None
        self.rest[i] = 0.0
        V, before = self.system.zeros(1), self.directions.count
        V[i] = 1.0
        share = like(self.shares[[i]].T, V)
        if len(self.fixed):
            V[self.fixed] = V[self.fixed] - share
        image = self.system.gram.block(slice(None), [i]) - self.columns @ share
        self.directions.add(V, image)
        if self.directions.count == before:
            return None
        self.chosen.append(i)
        seen: Any = to_numpy(self.reduced(self.directions.U[before : before + 1].T))[:, 0]
        direction: Matrix = seen.astype(np.float64)
        self.rest -= direction**2
        self.rest[self.rest <= self.least] = 0.0
        return direction
