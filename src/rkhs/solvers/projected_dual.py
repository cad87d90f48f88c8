"""The box-constrained dual ([L] section 5) when the Gram matrix cannot be stored: accelerated projected gradients.

With x = alpha / S, S = (G_ii + D_ii)^-1/2, a step on the dual (`dual`) goes from a point y to

    argmin over the box and Q'alpha = 0 of   l/2 |x - y + slope(y) / l|^2 + what is linear in pieces

for an l that bounds the curvature along it, which the one product of the iteration, G alpha, shows.  The y are
extrapolated from the last two x (Nesterov), starting again whenever that leads uphill.  The multiplier of Q'alpha = 0
is the coefficient of the basis, so each iteration ends with an f, an alpha, and the true gap between them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rkhs.backend.arrays import Array, like, namespace, to_numpy
from rkhs.finite.certificate import dual_value, relative_gap
from rkhs.finite.monitor import Monitor, OutOfIterations
from rkhs.finite.system import Iterate, System
from rkhs.linalg.projection import project
from rkhs.linalg.saddle import Matrix
from rkhs.solvers.base import Solver
from rkhs.solvers.dual import Dual, check_dual

STEPS = 50  # of Newton's method for the multiplier, which takes a few
ROUNDING = 10  # units of rounding to which U'x = 0
LOWER = 0.98  # factor by which the curvature is taken to be less than before


@dataclass(frozen=True)
class ProjectedDual(Solver):
    """Accelerated projected gradients on the dual: exact zeros and bounds at any size, one product per iteration.

    Parameters
    ----------
    max_iterations : after which it gives up

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.EpsilonInsensitive(0.1), target=np.sin(3 * X[:, 0]), weight=10.0)
    >>> solution = rkhs.Problem(rkhs.Gaussian(scale=0.5), [term]).solve(rkhs.ProjectedDual(), tol=1e-3)
    >>> solution.status, solution.function.active < 20
    ('converged', True)
    """

    max_iterations: int = 100_000

    def check(self, system: System) -> None:
        check_dual(system, self.name)

    def run(self, system: System, start: Iterate, monitor: Monitor) -> Iterate:
        xp = namespace(start.a)
        if system.size == 0:
            return start
        dual, diagonal = Dual.of(system), _own(system, monitor)
        if system.Q.shape[1] == system.size:  # the basis takes any values, and nothing is left for alpha
            nearest = xp.minimum(xp.maximum(system.zeros(), dual.p), dual.q)
            return Iterate(system.zeros(), system.Q.T @ nearest)
        first = project(start.a, dual.low, dual.high, system.Q)
        images = xp.zeros_like(first)
        if bool(xp.any(first != 0)):
            images = system.gram @ first
            monitor.product()
        columns = [
            _Column(system.output(c), dual, c, diagonal, first[:, c], images[:, c]) for c in range(system.columns)
        ]

        def together() -> Iterate:
            a, basis = (xp.stack([column.best[k] for column in columns], axis=1) for k in (0, 1))
            return Iterate(project(a, dual.low, dual.high, system.Q) if system.kernel.order else a, basis)

        for _ in range(self.max_iterations):
            open_ones = [column for column in columns if column.gap > monitor.tol and not column.stuck]
            if not open_ones:
                return together()
            images = system.gram @ xp.stack([column.trial() for column in open_ones], axis=1)
            monitor.product()
            for k, column in enumerate(open_ones):
                column.judge(images[:, k])
            monitor.report(together(), sum(column.primal for column in columns), max(column.gap for column in columns))
        raise OutOfIterations


class _Column:
    """One output: the last two points with their images, and the best so far."""

    def __init__(self, system: System, dual: Dual, which: int, diagonal: Array, alpha: Array, image: Array) -> None:
        xp = namespace(diagonal)
        self.system = system
        self.D = dual.diagonal[:, which]
        own = diagonal + self.D
        typical = float(xp.max(own)) or 1.0
        self.S = 1 / xp.sqrt(xp.where(own > 1e-12 * typical, own, typical + xp.zeros_like(own)))
        self.p, self.q = self.S * dual.p[:, which], self.S * dual.q[:, which]
        self.low, self.high = dual.low[:, which] / self.S, dual.high[:, which] / self.S
        U, R = np.linalg.qr(to_numpy(self.S[:, None] * system.Q).astype(np.float64))
        self.U, self.back = like(U, diagonal), np.linalg.inv(R)  # from multipliers of U'x = 0 to those of Q'alpha = 0
        self.m = np.zeros(self.U.shape[1])
        self.x = self.last = alpha / self.S
        self.slope = self.last_slope = self.S * (image + self.D * alpha)  # of 1/2 alpha'(G + D) alpha in x
        self.t = self.l = 1.0
        self.stuck = False
        self.best, self.distance = (alpha, like(self.m, alpha)), float("inf")
        self.primal = self.gap = float("inf")

    def trial(self) -> Array:
        """The next alpha, to be judged by its image."""
        self.ahead = (1 + (1 + 4 * self.t**2) ** 0.5) / 2
        share = (self.t - 1) / self.ahead
        self.y = self.x + share * (self.x - self.last)
        self.y_slope = self.slope + share * (self.slope - self.last_slope)
        self.tried = self._nearest(self.y - self.y_slope / self.l)
        return self.S * self.tried

    def judge(self, image: Array) -> None:
        """Accept the point that was tried, or take the curvature to be what it is along the step to it."""
        xp = namespace(image)
        slope = self.S * (image + self.D * self.S * self.tried)
        step = self.tried - self.y
        size, curvature = float(xp.vecdot(step, step)), float(xp.vecdot(step, slope - self.y_slope))
        noise = ROUNDING * float(xp.finfo(step.dtype).eps) * float(xp.vecdot(abs(step), abs(slope)))
        if curvature > self.l * size + noise:
            self.l = max(1.05 * curvature / size, 1.2 * self.l)
            return
        move = self.tried - self.x
        self.stuck = not bool(xp.any(move != 0)) and self.t == 1.0
        self.last, self.last_slope = self.x, self.slope
        self.x, self.slope, self.t = self.tried, slope, self.ahead
        if float(xp.vecdot(step, move)) < 0:  # uphill
            self.last, self.last_slope, self.t = self.x, self.slope, 1.0
        self._certify(image)
        self.l *= LOWER

    def _certify(self, image: Array) -> None:
        """The gap between f and alpha of this point."""
        xp = namespace(image)
        alpha, c = self.S * self.x, like(-self.l * (self.back @ self.m), image)
        u = image + self.system.Q @ c
        primal = float(xp.vecdot(alpha, image)) / 2 + float(self.system.risk(u[:, None])[0])
        dual = float(dual_value(self.system, alpha[:, None], image[:, None])[0])
        if primal - dual < self.distance:
            self.best, self.distance, self.primal = (alpha, c), primal - dual, primal
            self.gap = relative_gap(primal, dual, self.system.rounding[0])

    def _nearest(self, point: Array) -> Array:
        """argmin |x - point|^2 / 2 + cost / l over the box and U'x = 0.

        x = the same for point + Um without the constraint, m the minimum of a convex function whose gradient is U'x:
        Newton's method from the last m.
        """
        xp = namespace(point)
        p, q = self.p / self.l, self.q / self.l

        def at(m: Matrix) -> tuple[Array, float, Matrix]:
            v = point + self.U @ like(m, point)
            x = xp.clip(v + p, 0, None) + xp.clip(v + q, None, 0)
            x = xp.minimum(xp.maximum(x, self.low), self.high)
            end = xp.where(x > 0, p, xp.where(x < 0, q, xp.zeros_like(x)))
            return x, float(xp.sum(x * (v + end - x / 2))), to_numpy(self.U.T @ x).astype(np.float64)

        x, value, residual = at(self.m)
        for _ in range(STEPS if self.m.size else 0):
            size = float(np.linalg.norm(residual))
            if size <= ROUNDING * float(xp.finfo(x.dtype).eps) * float(xp.linalg.vector_norm(x)):
                break
            moving = xp.astype((x > self.low) & (x < self.high) & ((x != 0) | (p == q)), x.dtype)
            H = to_numpy(self.U.T @ (moving[:, None] * self.U)).astype(np.float64)
            step = -np.linalg.solve(H + 1e-10 * np.eye(len(H)), residual)
            fraction = 1.0
            while fraction > 1e-12:
                tried = at(self.m + fraction * step)
                if tried[1] <= value + 1e-4 * fraction * float(residual @ step) or np.linalg.norm(tried[2]) < size / 2:
                    break
                fraction /= 2
            else:
                break
            self.m = self.m + fraction * step
            x, value, residual = tried
        return x


def _own(system: System, monitor: Monitor) -> Array:
    """G_ii; for kernels that are positive definite on {Q'alpha = 0} only, of (I - QQ') G (I - QQ')."""
    xp = namespace(system.Q)
    diagonal = system.gram.diagonal()
    if system.kernel.order > 0 and system.Q.shape[1]:
        Q, T = system.Q, system.gram @ system.Q
        monitor.product()
        diagonal = diagonal - 2 * xp.vecdot(Q, T) + xp.vecdot(Q @ (Q.T @ T), Q)
    return xp.clip(diagonal, 0, None)
