"""Newton's method with active sets (Walder and Chapelle 2007, section 6.1, after Chapelle's primal SVM).

At u = Ga + Qc, with s = w loss'(u), h = w loss''(u) and S the rows where h > 0, the quadratic model of J is minimal at

    a = -s outside S,     (G_SS + diag(1/h)) a_S + Q_S c = (u - s/h - G a_outside)_S,     Q'a = 0

so that rows where the loss is flat or linear cost nothing: those of the squared hinge beyond the margin, those of the
Huber loss far from the target.  The full step is taken if J decreases: for piecewise quadratic losses the minimizer of
the model has nearly the right active set, and a shorter step does not.  Otherwise J is minimized exactly along the step
and over the basis (`_reduced`).  So J decreases in each iteration, Q's = 0, and with the gradient g = a + s of J in H
the duality gap is 1/2 g'Gg.

*Proximal Newton*: smooth losses by quadratic models, the others exactly, with the Gram matrix in memory.

At u, a smooth loss with slope s and curvature h is replaced by its quadratic model h/2 (u' - (u - s/h))^2, a squared
loss.  The result is a box-constrained dual (`_interior_point`), solved exactly; a line search then decreases J.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

import numpy as np

from rkhs._core.backend.arrays import EPS, Matrix, to_numpy
from rkhs._core.finite.certificate import FEASIBLE, certificate_of, certify
from rkhs._core.finite.monitor import FACTOR, Monitor, OutOfIterations, Step, Steps
from rkhs._core.finite.problem import FiniteProblem, Iterate, LossBlock
from rkhs._core.linalg.saddle import Saddle
from rkhs.losses import Loss
from rkhs.losses._interval import IntervalLoss, Squared
from rkhs.solvers._base import Estimate, OutputSolver, factorization, finished, lacking, stored
from rkhs.solvers._interior_point import BoxDual
from rkhs.solvers._reduced import around, minimize

CURVED = 1e-200  # second derivatives below this count as zero: their reciprocals would overflow
STEP = 3e-3  # seconds per step, without its factorization
STEPS = 12  # the typical number of steps


@dataclass(frozen=True)
class Newton(OutputSolver):
    """Newton's method on the rows where the losses are curved, for smooth losses.

    The Gram matrix must fit in memory.

    Parameters
    ----------
    max_iterations : int, default=500
        The maximal number of iterations for each output.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(-1, 1, 50)[:, None]
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.SquaredHinge(), target=np.sign(X[:, 0]) * (-1) ** (X[:, 0] > 0.7))
    >>> solution = rkhs.Problem(rkhs.kernels.ThinPlate(order=2), [term]).solve(rkhs.solvers.Newton())
    >>> solution.status, solution.iterations < 12
    ('converged', True)
    """

    max_iterations: int = 500

    def lacks(self, system: FiniteProblem) -> str | None:
        needed = "differentiable losses, without a kink"
        remedy = "rkhs.solvers.BoxDual(), which is exact, or rkhs.solvers.NonlinearCG() at any size"
        return lacking(self, system, lambda loss: loss.smooth, needed, remedy) or super().lacks(system)

    def cost(self, estimate: Estimate) -> float:
        system, one_sided = estimate.system, 0
        for t in system.terms:
            if isinstance(t.loss, IntervalLoss):
                one_sided += sum(int(np.isinf(to_numpy(end)[:, 0]).sum()) for end in t.loss.interval(t.target))
        curved = system.size - int(0.6 * one_sided)  # about 40 percent of the rows of one-sided losses are active
        return estimate.matrix + system.columns * expected(system) * (STEP + estimate.factorization(curved))

    def output_steps(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Steps:
        point = _NewtonState(system, start)
        best, least = point.iterate, inf
        lowest, since = inf, 0
        for _ in range(self.max_iterations):
            iterate = point.iterate
            certificate = certificate_of(system, iterate, point.image[:, None], tol)
            if certificate.relative <= least:
                best, least = iterate, certificate.relative
            value = float(certificate.primal[0])
            yield Step(best, value, certificate.relative)
            lowest, since = (value, 0) if value < (1 - 1e-10) * lowest else (lowest, since + 1)
            if certificate.within(tol) or point.stuck or since > 8:
                return best
            monitor.afford(factorization(point.curved))
            with monitor.showing(FACTOR):
                point.step()
        raise OutOfIterations


def expected(system: FiniteProblem) -> float:
    """Return the typical number of Newton steps for an output.

    There are fewer where few rows have losses that are piecewise quadratic and all others are squared.
    """
    piecewise = all(isinstance(t.loss, IntervalLoss) for t in system.terms)
    return min(STEPS, 2 + 0.8 * len(system.other_rows) ** 0.5) if piecewise else STEPS


class _NewtonState:
    """The iterate of one output and its image Ga."""

    def __init__(self, system: FiniteProblem, start: Iterate) -> None:
        self.system, self.G = system, stored(system)
        self.a, self.basis = start.a[:, 0], start.basis[:, 0]
        self.image = self.G @ self.a
        self.stuck = False
        self._minimize(start.a[:, :0], start.a[:, :0])  # over the basis only

    @property
    def u(self) -> Matrix:
        return np.asarray(self.image + self.system.Q @ self.basis)

    @property
    def curved(self) -> int:
        """The number of rows with positive curvature."""
        return int(np.count_nonzero(self.system.hessian_diagonal(self.u[:, None]) > CURVED))

    @property
    def iterate(self) -> Iterate:
        return Iterate(self.system.inside(self.a[:, None]), self.basis[:, None])

    def step(self) -> None:
        """Take a full Newton step if J decreases, else a step to the exact minimum along it."""
        u = self.u[:, None]
        slope, h = self.system.gradient(u)[:, 0], self.system.hessian_diagonal(u)[:, 0]
        goal = self._model(slope, h)
        before = self.a
        if not self._value(*goal) < self._value(self.a, self.image, self.basis):
            # J decreases along d = goal - a, whose norm in H is (d'Gd)^1/2: an exact line search on d / |d|
            d, image = goal[0] - self.a, goal[1] - self.image
            size = max(float(d @ image), 0.0) ** 0.5 or 1.0
            length = self._minimize((d / size)[:, None], (image / size)[:, None]) / size
            if abs(length - 1) > 1e-7:  # the step did not end at the minimum of the model
                self.stuck = not np.any(self.a != before)
                return
        self.a, self.image, self.basis = goal
        if not self._balanced():
            self._minimize(self.a[:, None][:, :0], self.a[:, None][:, :0])
        self.stuck = not np.any(self.a != before)

    def _model(self, slope: Matrix, h: Matrix) -> tuple[Matrix, Matrix, Matrix]:
        """Return the minimizer of the quadratic model, its image and basis, by a factorization on the curved rows."""
        # S = {h > 0},    a = -s outside S
        curved = np.flatnonzero(h > CURVED)
        a = -slope
        a[curved] = 0.0
        fixed = (self.G @ a)[curved]
        # (G_SS + diag(1/h)) a_S + Q_S c = (u - s/h - G a_outside)_S,    Q_S'a_S = -Q'a_outside
        right = self.u[curved] - fixed - slope[curved] / h[curved]
        Q = self.system.Q
        saddle = Saddle(self.G.matrix[curved][:, curved], 1 / h[curved], Q[curved])
        a_curved, c = saddle.solve(right[:, None], -(Q.T @ a)[:, None])
        a[curved] = a_curved[:, 0]
        return a, self.G @ a, c[:, 0]

    def _value(self, a: Matrix, image: Matrix, basis: Matrix) -> float:
        """Return J, or infinity if rounding violates Q'a = 0, so that a'Ga is not a squared norm."""
        Q = self.system.Q
        if not self.system.definite and np.linalg.norm(Q.T @ a) > FEASIBLE * EPS * np.linalg.norm(a):
            return inf
        return float(a @ image) / 2 + float(self.system.loss((image + Q @ basis)[:, None])[0])

    def _balanced(self) -> bool:
        """Return whether Q'w loss'(u) = 0 up to rounding."""
        slope = self.system.gradient(self.u[:, None])
        return bool(np.linalg.norm(self.system.Q.T @ slope) <= FEASIBLE * EPS * np.linalg.norm(slope))

    def _minimize(self, D: Matrix, U: Matrix) -> float:
        """Minimize over the basis and a direction D with image U, if any; return the step length along D."""
        r = self.system.Q.shape[1]
        theta = minimize(around(self.system, self.a, self.image, self.u, D, U))
        self.a, self.image = self.a + D @ theta[r:], self.image + U @ theta[r:]
        self.basis = self.basis + theta[:r]
        return float(theta[-1]) if D.shape[1] else 0.0


FORCING = 0.1  # relative accuracy of the models, in units of the gap of J (inexact steps: Lee, Sun and Saunders 2014)


@dataclass(frozen=True)
class ProximalNewton(OutputSolver):
    """Newton's method on the smooth losses with the box-constrained dual for the others: any mix of them, exactly.

    The Gram matrix must fit in memory.

    Parameters
    ----------
    max_iterations : int, default=100
        The maximal number of iterations for each output.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> labels = rkhs.Term(rkhs.Evaluation(X[::4]), rkhs.Logistic(), target=np.sign(X[::4, 0] + 0.1), weight=10.0)
    >>> rising = rkhs.Term(rkhs.Gradient(X), rkhs.losses.OneSided())
    >>> rkhs.Problem(rkhs.Gaussian(scale=0.5), [labels, rising]).solve(rkhs.solvers.ProximalNewton()).status
    'converged'
    """

    max_iterations: int = 100

    def lacks(self, system: FiniteProblem) -> str | None:
        def allowed(loss: Loss) -> bool:
            return loss.smooth or isinstance(loss, IntervalLoss)

        needed = "losses that are smooth or of the distance from an interval"
        return lacking(self, system, allowed, needed, "rkhs.solvers.NonlinearCG()") or super().lacks(system)

    def cost(self, estimate: Estimate) -> float:
        return 5 * BoxDual().cost(estimate)  # five models are typical

    def output_steps(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Steps:
        point = _ProximalState(system, start.a, start.basis)
        for _ in range(self.max_iterations):
            certificate = certify(system, point.iterate, tol)
            yield Step(point.iterate, point.value, certificate.relative)
            if certificate.within(tol) or point.stuck:
                return point.iterate
            # At a relative gap of 1e-8 the crossover solves a model exactly.
            point.step(max(1e-8, min(FORCING * certificate.relative, FORCING)), monitor)
        raise OutOfIterations


class _ProximalState:
    """The iterate with its image and objective."""

    def __init__(self, system: FiniteProblem, a: Matrix, basis: Matrix) -> None:
        self.system = system
        self.a, self.basis = a, basis
        self.image = system.gram @ a
        self.value = self._objective(a, self.image, basis)
        self.alpha = a
        self.stuck, self.inside = False, not system.hard  # whether constraints hold, as they do after a whole step

    @property
    def iterate(self) -> Iterate:
        return Iterate(self.a, self.basis, self.alpha)

    @property
    def u(self) -> Matrix:
        return self.image + self.system.Q @ self.basis

    def step(self, tol: float, monitor: Monitor) -> None:
        """Move towards the minimizer of the model, whose alpha is dual feasible; set `stuck` if J does not decrease."""
        model = self.system.with_rows(tuple(self._quadratic(t) for t in self.system.terms))
        first = model.start()
        goal = finished(BoxDual().output_steps(model, first, tol, monitor), first, monitor)
        self.alpha = goal.a
        a, basis = goal.a - self.a, goal.basis - self.basis
        image = self.system.gram @ a
        # Armijo's rule: J(a + t d) <= J(a) - 1e-4 t (decrease of the model), t = 1, 1/2, 1/4, ..
        predicted_decrease = _value(model, self.a, self.image, self.u) - _value(
            model, goal.a, self.image + image, self.u + image + self.system.Q @ basis
        )
        fraction = 1.0
        while fraction > 1e-10:
            point = self.a + fraction * a, self.image + fraction * image, self.basis + fraction * basis
            value = self._objective(*point)
            enough = value <= self.value - 1e-4 * fraction * predicted_decrease and value < self.value
            if enough or not self.inside:
                self.a, self.image, self.basis = point
                self.value, self.inside = value, True
                return
            fraction /= 2
        self.stuck = True

    def _objective(self, a: Matrix, image: Matrix, basis: Matrix) -> float:
        return _value(self.system, a, image, image + self.system.Q @ basis)

    def _quadratic(self, t: LossBlock) -> LossBlock:
        """Return the quadratic model of a smooth loss block; interval losses stay as they are."""
        if isinstance(t.loss, IntervalLoss):
            return t
        u = self.u[t.rows]
        # w loss(v) ~ w h/2 (v - (u - s/h))^2 + ..,    a squared loss of weight w h/2 with the target u - s/h
        slope, curvature = t.loss.gradient(u, t.target), np.maximum(t.loss.curvature(u, t.target), 1e-6)
        return replace(t, loss=Squared(), target=u - slope / curvature, weight=t.weight * curvature / 2)


def _value(system: FiniteProblem, a: Matrix, image: Matrix, u: Matrix) -> float:
    """Return J of one output."""
    return float(np.sum(a * image)) / 2 + float(system.loss(u)[0])
