"""Newton's method with active sets ([W] section 6.1, after Chapelle's primal support vector machine).

At u = Ga + Qc, with s = w loss'(u), h = w loss''(u) and S the rows where h > 0, the quadratic model of J is minimal at

    a = -s outside S,     (G_SS + diag(1/h)) a_S + Q_S c = (u - s/h - G a_outside)_S,     Q'a = 0

so that a row whose loss is flat or linear costs nothing: the squared hinge's rows beyond the margin, Huber's far from
the target.  With g = a + s the gradient of J in H, J is then minimised exactly along d, the step to there, and
over the basis (`subspace`): it decreases in each iteration, Q's = 0, and 1/2 g'Gg is the gap.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from rkhs.backend.arrays import Array, indices, like, namespace, to_numpy
from rkhs.finite.certificate import FEASIBLE, bounds, lower_bound, relative_gap
from rkhs.finite.monitor import Monitor, OutOfIterations
from rkhs.finite.system import Iterate, System
from rkhs.linalg.projection import project
from rkhs.linalg.saddle import Saddle
from rkhs.solvers.base import NotApplicableError, Solver
from rkhs.solvers.dense import Matrix, fits, from_memory, in_memory, in_the_space, to_memory
from rkhs.solvers.subspace import Restricted

CURVED = 1e-200  # under which a second derivative counts as zero
WHOLE = 1e-7  # difference in length under which a step of Newton's counts as one to the minimum of the model
FORCING = 0.01  # of the gap, the most that conjugate gradients leave of that of the quadratic model


@dataclass(frozen=True)
class Newton(Solver):
    """Newton's method on the rows where the losses are curved, for smooth losses.

    Parameters
    ----------
    direct : number of curved rows up to which a step is computed by Cholesky's factorisation; beyond, or where
        their Gram matrix does not fit in memory, by conjugate gradients
    max_iterations : after which it gives up

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(-1, 1, 50)[:, None]
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.SquaredHinge(), target=np.sign(X[:, 0]) * (-1) ** (X[:, 0] > 0.7))
    >>> solution = rkhs.Problem(rkhs.ThinPlate(order=2), [term]).solve(rkhs.Newton())
    >>> solution.status, solution.iterations < 12
    ('converged', True)
    """

    direct: int = 4000
    max_iterations: int = 500

    def check(self, system: System) -> None:
        for t in system.terms:
            if not t.loss.smooth:
                raise NotApplicableError(
                    f"Newton needs losses with a derivative, and {t.loss!r} has none everywhere: "
                    "use rkhs.BoxDual(), which is exact, or rkhs.Descent() at any size."
                )

    def run(self, system: System, start: Iterate, monitor: Monitor) -> Iterate:
        dense = system.size <= self.direct and fits(system, system.size)
        inside = in_memory(system) if dense else system
        first = to_memory(inside, system, start)
        xp = namespace(first.a)
        images = xp.zeros_like(first.a)
        if bool(xp.any(first.a != 0)):
            images = inside.gram @ first.a
            monitor.product()
        columns = [
            _Column(inside.output(c), first.a[:, c], images[:, c], first.basis[:, c]) for c in range(system.columns)
        ]

        def together() -> Iterate:
            names = ("a", "basis", "alpha")
            a, basis, alpha = (xp.stack([getattr(column, name) for column in columns], axis=1) for name in names)
            return from_memory(inside, system, Iterate(in_the_space(inside, a), basis, alpha))

        for _ in range(self.max_iterations):
            open_ones = [column for column in columns if column.gap > monitor.tol and not column.stuck]
            if not open_ones:
                return together()
            gradients = xp.stack([column.gradient() for column in open_ones], axis=1)
            products = inside.gram @ gradients
            monitor.product()
            for k, column in enumerate(open_ones):
                column.certify(gradients[:, k], products[:, k], monitor)
            monitor.report(together(), sum(c.primal for c in columns), max(c.gap for c in columns))
            for k, column in enumerate(open_ones):
                if column.gap > monitor.tol:
                    column.step(gradients[:, k], products[:, k], self.direct, monitor)
                elif column.drifted:
                    column.renew(monitor)
        raise OutOfIterations


class _Column:
    """One output: its iterate, its image, and its bounds."""

    def __init__(self, system: System, a: Array, image: Array, basis: Array) -> None:
        self.system = system
        self.a, self.image, self.basis = a, image, basis
        self.primal = self.gap = float("inf")
        self.dual, self.alpha = -float("inf"), a  # the best so far
        self.stuck = False
        self.drifted = False  # the image is a sum of images of steps
        self._minimise(a[:, None][:, :0], image[:, None][:, :0])  # over the basis alone

    @property
    def u(self) -> Array:
        return self.image + self.system.Q @ self.basis

    @property
    def feasible(self) -> bool:
        """Whether Q'w loss'(u) = 0, but for rounding."""
        xp = namespace(self.a)
        slope = self.system.slope(self.u[:, None])
        allowed = FEASIBLE * float(xp.finfo(slope.dtype).eps) * float(xp.linalg.vector_norm(slope))
        return float(xp.linalg.vector_norm(self.system.Q.T @ slope)) <= allowed

    def gradient(self) -> Array:
        """The coefficients of the gradient of J in H."""
        return self.a + self.system.slope(self.u[:, None])[:, 0]

    def certify(self, g: Array, product: Array, monitor: Monitor) -> None:
        """The bounds by alpha = -w loss'(u), and by alpha = a: large weights make the first one inexact."""
        a, image, u, gradient, moved = (v[:, None] for v in (self.a, self.image, self.u, g, product))
        self.primal, dual = bounds(self.system, a, image, u, gradient, moved)
        low, high = self.system.box
        if bool(namespace(g).all((a >= low) & (a <= high))):
            self._judge(float(lower_bound(self.system, a, image)[0]), self.a)
        if self.feasible:
            self._judge(dual, self.a - g)
        else:  # the nearest that is, as in the certificate of the solution
            alpha = project(a - gradient, low, high, self.system.Q)
            self._judge(float(lower_bound(self.system, alpha, self.system.gram @ alpha)[0]), alpha[:, 0])
            monitor.product()
        self.gap = relative_gap(self.primal, self.dual, self.system.rounding[0])

    def _judge(self, dual: float, alpha: Array) -> None:
        """Keep the best alpha so far."""
        if dual > self.dual:
            self.dual, self.alpha = dual, alpha

    def renew(self, monitor: Monitor) -> None:
        """Compute the image again, which sums of steps lose by and by, and forget the bounds that stood on it."""
        self.a = in_the_space(self.system, self.a[:, None])[:, 0]
        self.image = self.system.gram @ self.a
        monitor.product()
        self._minimise(self.a[:, None][:, :0], self.image[:, None][:, :0])
        self.gap, self.dual, self.drifted = float("inf"), -float("inf"), False

    def step(self, g: Array, product: Array, direct: int, monitor: Monitor) -> None:
        """One step of Newton's: the whole of it where J falls there, or else to the exact minimum along it."""
        xp = namespace(g)
        u = self.u[:, None]
        slope, h = (column[:, 0] for column in (self.system.slope(u), self.system.bend(u)))
        curved = np.flatnonzero(to_numpy(h) > CURVED)
        if len(curved) <= direct and fits(self.system, len(curved)):
            goal = self._solve(slope, h, curved, monitor)
            d, image = goal[0] - self.a, goal[1] - self.image
        else:
            goal = None
            d, image = self._iterate(g, product, h, monitor)
        before, self.drifted = self.a, goal is None
        if goal is None or not self._value(*goal) < self._value(self.a, self.image, self.basis):
            size = max(float(xp.vecdot(d, image)), 0.0) ** 0.5 or 1.0
            length = self._minimise((d / size)[:, None], (image / size)[:, None])[0] / size
            goal = goal if abs(length - 1) <= WHOLE else None
        if goal is not None:
            self.a, self.image, self.basis = goal
            if not self.feasible:
                self._minimise(d[:, None][:, :0], image[:, None][:, :0])
        self.stuck = not bool(xp.any(self.a != before))

    def _solve(self, slope: Array, h: Array, rows: Matrix, monitor: Monitor) -> tuple[Array, Array, Array]:
        """The minimum of the model, its image and basis, by Cholesky's factorisation on the curved rows."""
        xp, gram = namespace(slope), self.system.gram
        curved = indices(rows, slope)
        goal = -slope
        goal[curved] = 0.0
        fixed = xp.zeros_like(goal)
        if bool(xp.any(goal != 0)):
            fixed = gram @ goal
            monitor.product()
        bend = to_numpy(h[curved]).astype(np.float64)
        right = to_numpy((self.u - fixed)[curved]) - to_numpy(slope[curved]) / bend
        block, Q = (to_numpy(part).astype(np.float64) for part in (gram.block(rows, rows), self.system.Q))
        total = -Q.T @ to_numpy(goal)
        a, c = Saddle(block, 1 / bend, Q[rows]).solve(right[:, None], total[:, None])
        goal[curved] = like(a[:, 0], goal)
        monitor.product()
        return goal, gram @ goal, like(c[:, 0], goal)

    def _iterate(self, g: Array, product: Array, h: Array, monitor: Monitor) -> tuple[Array, Array]:
        """d and its image by conjugate gradients in H, on (I + WG) d = -g with W = h - hQ (Q'hQ)^-1 Q'h."""
        xp = namespace(g)
        Q = self.system.Q
        weighted = h[:, None] * Q
        inverse = like(np.linalg.pinv(to_numpy(Q.T @ weighted), hermitian=True), g)
        d, image = xp.zeros_like(g), xp.zeros_like(g)
        r, Gr = -g, -product
        p, Gp = r, Gr
        size = first = float(xp.vecdot(r, Gr))
        forcing = max(min(FORCING, self.gap**0.5), monitor.tol / (2 * self.gap))
        for _ in range(self.system.size + 1):
            if size <= forcing * first:
                break
            Wp = h * Gp - weighted @ (inverse @ (weighted.T @ Gp))
            q, Gq = p + Wp, Gp + self.system.gram @ Wp
            monitor.product()
            length = size / float(xp.vecdot(p, Gq))
            d, image = d + length * p, image + length * Gp
            r, Gr = r - length * q, Gr - length * Gq
            size, last = float(xp.vecdot(r, Gr)), size
            p, Gp = r + (size / last) * p, Gr + (size / last) * Gp
        return d, image

    def _value(self, a: Array, image: Array, basis: Array) -> float:
        """J, infinite where rounding has led out of the space, so that |f|^2 is none."""
        xp, Q = namespace(a), self.system.Q
        inside = FEASIBLE * float(xp.finfo(a.dtype).eps) * float(xp.linalg.vector_norm(a))
        if self.system.kernel.order and float(xp.linalg.vector_norm(Q.T @ a)) > inside:
            return inf
        return float(xp.vecdot(a, image)) / 2 + float(self.system.risk((image + Q @ basis)[:, None])[0])

    def _minimise(self, D: Array, U: Array) -> Array:
        """Minimise over directions D with images U, and over the basis; how far along the directions."""
        k = D.shape[1]
        psi = Restricted.of(self.system, self.system.terms, self.a, self.image, self.u, D, U)
        theta = like(psi.minimise(), self.a)
        self.a, self.image = self.a + D @ theta[:k], self.image + U @ theta[:k]
        self.basis = self.basis + theta[k:]
        return theta[:k]
