"""The box-constrained dual (Lee et al. 2006, section 5), exactly: an interior-point method, then crossover.

For losses that are linear or quadratic in the distance from an interval [p_i, q_i], v_i the width of the loss
(`rkhs.losses._interval`), the dual is the quadratic program

    min over alpha   1/2 alpha'(G + D) alpha - sum_i (p_i alpha_i if alpha_i > 0 else q_i alpha_i),   D_ii = v_i / w_i
    subject to       low <= alpha <= high,  Q'alpha = 0

where low and high are w_i times the maximal slopes of the losses, infinite for losses that grow quadratically.

*Interior points* (Mehrotra's predictor-corrector method).  A row whose interval is more than a point is split, alpha =
x - x' with x, x' >= 0, because its objective has a kink at 0.  With y, z the multipliers of lower and upper bounds and
s, t their slacks, a Newton step solves

    [G + D + M, Q; Q', 0] [d alpha; dc] = ..,     M = y/s + z/t, its inverse added up over the two parts of a row

with one factorization for predictor and corrector.  c, the multiplier of Q'alpha = 0, holds the coefficients of the
basis in f.

*Crossover.*  At the solution each alpha_i is at a bound, at 0 if its objective has a kink there, or free.  With the
fixed ones put exactly there, the free ones solve linear equations; those that then leave their range are fixed at its
end, fixed ones whose multiplier has the wrong sign become free, and the equations are solved again.

*Conjugate gradients* (`InteriorPointCG`).  Without the Gram matrix in memory the equations of each step are solved
inexactly, with a Nystroem approximation of G as the preconditioner: the predictor to a rough tolerance, and the
corrector from there.  Multipliers that approach 0 or infinity change only the diagonal, which the preconditioner
contains exactly, so that the number of products of a step grows slowly.  There is no crossover.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import inf
from typing import Any

import numpy as np
import scipy  # imports scipy.optimize lazily

from rkhs._core.backend.arrays import Array, Matrix, double, inner, like, to_numpy
from rkhs._core.finite.certificate import Certificate, certificate_of, certify, feasible, lower_bound
from rkhs._core.finite.monitor import FACTOR, SOLVING, Monitor, OutOfIterations, Step, Steps, Stopped
from rkhs._core.finite.problem import FiniteProblem, Iterate
from rkhs._core.finite.representers import UNITS
from rkhs._core.finite.solution import ABSOLUTE
from rkhs._core.linalg.cg import BasisFit, BlockCG
from rkhs._core.linalg.projection import project
from rkhs._core.linalg.saddle import Saddle
from rkhs._core.progress import report_progress
from rkhs.losses._interval import IntervalLoss
from rkhs.solvers._base import (
    Estimate,
    OutputSolver,
    Solver,
    blocks_in_double,
    factorization,
    lacking,
    lacking_bounds,
    stored,
)
from rkhs.solvers._preconditioning import Nystroem, check_landmarks, landmark_count

FACTORIZATIONS = 15  # the typical number, including those of the crossover
PATIENCE = 50  # iterations without a smaller gap before it stops; duplicate rows take up to 30
PATIENCE_AT_ROUNDING = 3  # the same once the gap is within rounding, where improvements are random
FIXED = 0.5  # share of the rows at a bound or a kink from which a start is taken for the solution of a similar problem
ROUNDS = 30  # maximal number of rounds of the crossover
EXCHANGES, EXCHANGED = 20, 16  # maximal number of steps from an active set, and of rows that become free in one
# The result of the crossover is accepted if its relative gap is at most FINE, or its gap at most WORSE times that of
# the interior point.
FINE, WORSE = 1e-9, 10


@dataclass(frozen=True)
class BoxDual(OutputSolver):
    """An exact interior-point solver of the dual; coefficients are exactly zero or exactly at their bounds.

    The Gram matrix must fit in memory.  An iteration costs one Cholesky factorization, and there are 10 to 30.

    Parameters
    ----------
    max_iterations : int, default=100
        The maximal number of iterations for each output.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> loss = rkhs.losses.EpsilonInsensitive(0.1)
    >>> term = rkhs.Term(rkhs.Evaluation(X), loss, target=np.sin(3 * X[:, 0]), weight=10.0)
    >>> solution = rkhs.Problem(rkhs.Gaussian(scale=0.5), [term], rkhs.Constant()).solve(rkhs.solvers.BoxDual())
    >>> solution.status, solution.function.active < 10
    ('converged', True)
    """

    max_iterations: int = 100

    def lacks(self, system: FiniteProblem) -> str | None:
        return lacking_intervals(self, system) or super().lacks(system)

    def cost(self, estimate: Estimate) -> float:
        system = estimate.system
        return estimate.matrix + FACTORIZATIONS * system.columns * estimate.factorization(system.size)

    def output_steps(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Steps:
        return dual_steps(system, start, tol, monitor, FIXED, self.max_iterations)


def dual_steps(
    system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor, share: float = 0.0, max_iterations: int = 100
) -> Steps:
    """Solve the dual of one output from the active set of a start, if at least a share of its rows is fixed by it."""
    output = _Output(system)
    found = output.from_active_set(start, share)
    if found is not None:
        certificate = certify(system, found, quick=True)
        yield Step(found, float(certificate.primal[0]), certificate.relative)
        if certificate.relative <= tol:
            return found
    for iteration in range(max_iterations):
        iterate = output.iterate()
        certificate = certify(system, iterate, quick=True)
        yield Step(iterate, float(certificate.primal[0]), certificate.relative)
        if iteration >= 2 and output.done(certificate, tol):
            break
        monitor.afford(factorization(len(output.rows)))
        with monitor.showing(FACTOR):
            output.interior.step()
    with monitor.showing(FACTOR):
        return output.crossed_over()


PREDICTOR, CORRECTOR = 0.3, 0.1  # relative accuracies of the equations of a step, in the norm of their matrix
STEPS = 15  # the typical number of steps to a relative gap of 1e-3
FACTORS = 5.0  # in `landmark_count`: more landmarks than for squared losses, since the diagonal spans many magnitudes
PRODUCTS_EACH = 10  # the typical number of Gram products of a step
PATIENCE_OF_PRODUCTS = 15  # steps without half the gap, where float32 products permit no smaller one
MOST_PRODUCTS = 200  # of one of its two right-hand sides


@dataclass(frozen=True)
class InteriorPointCG(Solver):
    """The interior-point method for the dual, with conjugate gradients for its equations: for many functionals.

    It is for losses of the distance from an interval, squared ones included, of any size: an iteration takes from 4 to
    100 Gram products, and there are 10 to 20, whatever the kinks of the losses.

    Parameters
    ----------
    landmarks : int, optional
        The number of functionals in the preconditioner, by default the cost-optimal number.
    max_iterations : int, default=100
        The maximal number of iterations for each output.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.losses.Absolute(), target=np.sin(3 * X[:, 0]), weight=10.0)
    >>> problem = rkhs.Problem(rkhs.Gaussian(scale=0.5), [term], rkhs.Constant())
    >>> problem.solve(rkhs.solvers.InteriorPointCG(), tol=1e-4).status
    'converged'
    """

    landmarks: int | None = None
    max_iterations: int = 100

    def __post_init__(self) -> None:
        check_landmarks(self.name, self.landmarks)

    def lacks(self, system: FiniteProblem) -> str | None:
        return lacking_intervals(self, system) or lacking_bounds(self, system)

    def cost(self, estimate: Estimate) -> float:
        steps = replace(estimate, iterations=STEPS * estimate.system.columns)
        return 2 * steps.iterating(self.step(estimate))  # the landmarks may take as long as the products

    def step(self, estimate: Estimate) -> float:
        return PRODUCTS_EACH * estimate.step()

    def steps(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Steps:
        count = landmark_count(system.geometry, self.landmarks, FACTORS)
        strength = like(np.concatenate([double(t.weight).max(axis=1, keepdims=True) for t in system.terms]), system.Q)
        nystroem = Nystroem.of(system.geometry, strength, count, monitor.left)
        iterate, primal = system.start(), system.at_zero.copy()
        gaps, relative = np.full(system.columns, inf), np.full(system.columns, inf)
        for k in range(system.columns):
            output, smallest, since = _IterativeOutput(system.output(k), nystroem), inf, 0
            for _ in range(self.max_iterations):
                one, certificate = output.iterate()
                iterate = iterate.with_output(k, one)
                primal[k], gaps[k], relative[k] = certificate.primal[0], certificate.gap, certificate.relative
                yield Step(iterate, float(primal.sum()), float(relative.max()))
                smallest, since = (gaps[k], 0) if gaps[k] < smallest / 2 else (smallest, since + 1)
                within = relative[k] <= tol / 2 or gaps[k] <= monitor.atol / system.columns
                if within or since > PATIENCE_OF_PRODUCTS:
                    break
                with monitor.showing(SOLVING):
                    output.interior.step()
            else:
                raise OutOfIterations
        if relative.max() > tol and gaps.sum() <= monitor.atol:
            raise Stopped(ABSOLUTE)
        return iterate


def lacking_intervals(solver: Solver, system: FiniteProblem) -> str | None:
    """Return a message about a loss that is not one of the distance from an interval, if there is one."""
    needed = "losses that are linear or quadratic in the distance from an interval"
    remedy = "rkhs.solvers.Newton(), or rkhs.solvers.NonlinearCG() at any size"
    return lacking(solver, system, lambda loss: isinstance(loss, IntervalLoss), needed, remedy)


class _IterativeOutput:
    """The interior-point method of one output by products with G."""

    def __init__(self, system: FiniteProblem, nystroem: Nystroem) -> None:
        self.system = system
        squares = double(system.geometry.sizes)[:, 0] ** 2
        program = QuadraticProgram(_Products(system), double(system.Q), *program_vectors(system), squares)
        self.interior = Interior(program, partial(NystroemSaddle, nystroem))
        start = system.start()
        self.point = [start.a, 0 * start.a, start.basis]  # the smallest J so far: coefficients, their image, basis
        self.dual, self.alpha = -inf, (start.a, 0 * start.a)  # the largest dual value, and alpha with its image

    def iterate(self) -> tuple[Iterate, Certificate]:
        """Return the best iterate and its certificate by the products of solvers.

        The best point moves towards each alpha until J is least, and is not worse than f = 0 from the first step on.
        """
        system, interior = self.system, self.interior
        alpha = feasible(system, like(interior.alpha[:, None], system.Q))
        new = alpha, system.gram @ alpha, like(interior.c[:, None], alpha)
        dual = float(lower_bound(system, *new[:2])[0])
        if dual > self.dual:
            self.dual, self.alpha = dual, new[:2]

        def between(t: float) -> list[Array]:
            return [x + t * (y - x) for x, y in zip(self.point, new, strict=True)]

        def objective(t: float) -> float:
            a, image, basis = between(t)
            return float(inner(a, image, axis=0)[0]) / 2 + float(system.loss(image + system.Q @ basis)[0])

        # min over t in [0, 1] of J(point + t (alpha - point))
        best = scipy.optimize.minimize_scalar(objective, bounds=(0, 1), method="bounded").x
        self.point = between(min(0.0, 1.0, best, key=objective))
        (a, image, basis), (alpha, dual_image) = self.point, self.alpha
        iterate = Iterate(a, basis, alpha)
        certificate = certificate_of(system, iterate, image, energy=inner(a - alpha, image - dual_image, axis=0))
        return iterate, certificate


@dataclass(frozen=True, eq=False)
class _Products:
    """The products of a Gram operator with vectors in NumPy and float64."""

    system: FiniteProblem

    def __matmul__(self, v: Matrix) -> Matrix:
        return double(self.system.gram @ like(v, self.system.Q))


class NystroemSaddle:
    """Solve (G + diag(d)) a + Q c = b, Q'a = e roughly, for the right-hand sides of a step one after the other."""

    def __init__(self, nystroem: Nystroem, G: Any, d: Matrix, Q: Matrix) -> None:
        self.G, self.d, self.Q = G, like(d[:, None], nystroem.F), nystroem.Q
        self.preconditioner = nystroem.with_diagonal(1 / self.d)
        self.cg: BlockCG | None = None  # that of the first right-hand side, from which the next one continues
        self.right: Array = None

    def product(self, v: Array) -> Array:
        return like(self.G @ to_numpy(v), v) + self.d * v

    def solve(self, b: Matrix, e: Matrix) -> tuple[Matrix, Matrix]:
        """Return a (N, 1) and c (r, 1); e is the same for all right-hand sides."""
        right, before = like(b, self.d), self.cg
        self.cg = cg = BlockCG(self.product, self.preconditioner)
        if before is None:
            a = self.Q @ like(e, self.d)
            residual = right - self.product(a)
        else:
            a, residual = before.a, before.residual + self.Q @ before.basis + right - self.right
        cg.begin(a, residual)
        _, rest, z = self.preconditioner(right)
        # stop at |residual| <= eta |right|, in the norm of the inverse of the preconditioner
        goal = (PREDICTOR if before is None else CORRECTOR) ** 2 * float(inner(z, rest, axis=0)[0])
        for k in range(MOST_PRODUCTS):
            if not float(cg.size[0]) > goal:
                break
            report_progress(k / MOST_PRODUCTS)
            cg.step([0])
        self.right = right
        c, _ = BasisFit.of(self.d, self.Q)(cg.residual)
        return double(cg.a), double(cg.basis + c)


def program_vectors(system: FiniteProblem) -> tuple[Matrix, Matrix, Matrix, Matrix, Matrix]:
    """Return D, p, q, low and high (N,) of one output."""
    parts: list[tuple[Matrix, Matrix, Matrix]] = []
    for t in blocks_in_double(system.terms):
        assert isinstance(t.loss, IntervalLoss)
        p, q = (end[:, 0] for end in t.loss.interval(t.target))
        parts.append((p, q, np.broadcast_to((t.loss.width / np.where(t.weight > 0, t.weight, 1.0))[:, 0], p.shape)))
    p, q, diagonal = (np.concatenate(column) for column in zip(*parts, strict=True))
    # w_i times the slopes of the loss: low <= alpha <= high
    low, high = (double(end)[:, 0] for end in system.box)
    return diagonal, p, q, low, high


class _Output:
    """The interior-point method on the rows of one output whose bounds differ."""

    def __init__(self, system: FiniteProblem) -> None:
        self.system = system
        diagonal, p, q, low, high = program_vectors(system)
        self.rows = rows = np.flatnonzero(low < high)
        vectors = (v[rows] for v in (diagonal, p, q, low, high))
        G = stored(system)
        part = G if len(rows) == system.size else replace(G, matrix=G.matrix[rows][:, rows])
        self.interior = Interior(QuadraticProgram(part, system.Q[rows], *vectors))
        self.best, self.smallest, self.since, self.patience = self.interior, inf, 0, PATIENCE

    def done(self, certificate: Certificate, tol: float) -> bool:
        """Return whether the gap is well below tol or within rounding, or has not decreased for many iterations."""
        if certificate.relative < self.smallest:
            self.smallest, self.since, self.best = certificate.relative, 0, copy(self.interior)
            self.patience = PATIENCE_AT_ROUNDING if certificate.relative <= certificate.uncertain else PATIENCE
        else:
            self.since += 1
        # At a thousandth of the tolerance the free coefficients can be identified.
        within = max(1e-3 * tol, min(certificate.uncertain / UNITS, tol))
        return certificate.relative <= within or self.since > self.patience

    def iterate(self) -> Iterate:
        """Return the iterate at the interior point, projected onto Q'alpha = 0."""
        alpha = self._whole(self.interior.alpha)
        a = alpha - self.system.Q @ (self.system.Q.T @ alpha)
        return Iterate(a, self.interior.c[:, None], a)

    def crossed_over(self) -> Iterate:
        """Return the solution after the crossover, or the interior point if it is better."""
        best = self.best
        alpha, c, certificate = crossover(best.program, *_fixed_rows(best), best.c, self._certified)
        first = _feasible(best.program, best.alpha, best.program.low, best.program.high)
        at_interior = self._certified(first, best.c)
        good = certificate.relative <= max(WORSE * at_interior.relative, FINE)
        return Iterate(self._whole(alpha if good else first), (c if good else best.c)[:, None])

    def from_active_set(self, start: Iterate, share: float) -> Iterate | None:
        """Return the result of a crossover from a start whose active set was identified; None for other starts.

        Such a start, the solution of a similar problem, has at least a share of its rows exactly at a bound or a kink.
        """
        qp, alpha = self.interior.program, start.a[self.rows, 0].astype(np.float64)
        near = 1e-9 * np.minimum(qp.high - qp.low, np.abs(alpha).max(initial=0.0))
        fixed = (alpha <= qp.low + near) | (alpha >= qp.high - near) | ((qp.p < qp.q) & (np.abs(alpha) <= near))
        if share > 0 and (not np.any(alpha) or np.sum(fixed) < share * len(fixed)):
            return None
        alpha, c = exchanged_one_by_one(qp, fixed, np.clip(alpha, qp.low, qp.high), start.basis[:, 0])
        alpha = self._whole(alpha)
        return Iterate(alpha, c[:, None], alpha)

    def _certified(self, alpha: Matrix, c: Matrix) -> Certificate:
        whole = self._whole(alpha)
        return certify(self.system, Iterate(whole, c[:, None], whole), quick=True)

    def _whole(self, alpha: Matrix) -> Matrix:
        column = np.zeros((self.system.size, 1))
        column[self.rows, 0] = alpha
        return column


@dataclass(frozen=True, eq=False)
class QuadraticProgram:
    """The dual of one output: G (n, n), Q (n, r), and vectors (n,) of the diagonal D, the intervals and the bounds."""

    G: Any  # a `GramMatrix`, or an operator with products
    Q: Matrix
    diagonal: Matrix
    p: Matrix
    q: Matrix
    low: Matrix
    high: Matrix
    squares: Matrix | None = None  # (n,), the diagonal of G, or bounds of it where G is an operator

    def gradient_of_quadratic(self, alpha: Matrix, c: Matrix) -> Matrix:
        """Return (G + D) alpha + Qc, the gradient of the Lagrangian without linear terms and bounds."""
        return self.G @ alpha + self.diagonal * alpha + self.Q @ c

    @cached_property
    def level(self) -> float:
        """The magnitude of the target values."""
        ends = np.abs(np.concatenate([self.p, self.q]))
        return float(np.max(ends[np.isfinite(ends)], initial=0.0)) or 1.0

    @cached_property
    def largest(self) -> float:
        """The largest magnitude of an entry of G."""
        return float(abs(self.G.matrix).max()) if len(self.p) else 0.0

    @cached_property
    def sizes(self) -> Matrix:
        """For each row, the alpha_i that alone would produce a value of L_i(f) of magnitude `level`."""
        squares = self.G.diagonal() if self.squares is None else self.squares
        typical = (self.largest if self.squares is None else float(np.max(np.abs(squares), initial=0.0))) or 1.0
        diagonal = squares + self.diagonal
        return self.level / np.where(diagonal > 1e-12 * typical, diagonal, typical)


class Interior:
    """The state of the interior-point method; x holds all rows first, and then the negative parts of the split ones."""

    def __init__(
        self, program: QuadraticProgram, equations: Callable[[Any, Matrix, Matrix], Any] | None = None
    ) -> None:
        self.program, self.equations = program, equations
        qp = program
        self.n = len(qp.p)
        self.split = np.flatnonzero((qp.p < qp.q) & (qp.low < 0) & (qp.high > 0))
        self.rows = np.concatenate([np.arange(self.n), self.split])
        self.sign = np.concatenate([np.ones(self.n), -np.ones(len(self.split))])
        lower = qp.low.copy()
        lower[self.split] = 0.0
        self.lower = np.concatenate([lower, np.zeros(len(self.split))])
        self.upper = np.concatenate([qp.high, -qp.low[self.split]])
        self.cost = np.concatenate([-np.where(qp.high > 0, qp.p, qp.q), qp.q[self.split]])
        self.below, self.above = np.isfinite(self.lower), np.isfinite(self.upper)
        self.bounds = int(self.below.sum() + self.above.sum())
        self._start()

    def _start(self) -> None:
        """Initialize near 0, strictly inside the bounds relative to the problem and to the box."""
        qp, sizes = self.program, self.program.sizes[self.rows]
        inside = np.minimum((self.upper - self.lower) / 2, sizes)
        self.x = np.clip(0.0, self.lower + inside, self.upper - inside)
        self.s = np.where(self.below, self.x - self.lower, 1.0)
        self.t = np.where(self.above, self.upper - self.x, 1.0)
        self.c = np.zeros(qp.Q.shape[1])
        slope = self._slope()
        self.y = np.where(self.below, qp.level * np.minimum(1, sizes / self.s) + np.maximum(slope, 0), 0.0)
        self.z = np.where(self.above, qp.level * np.minimum(1, sizes / self.t) + np.maximum(-slope, 0), 0.0)

    @property
    def alpha(self) -> Matrix:
        alpha = self.x[: self.n].copy()
        alpha[self.split] -= self.x[self.n :]
        return alpha

    def _slope(self) -> Matrix:
        """Return the gradient of the objective plus c'Q'alpha in x."""
        return self.sign * self.program.gradient_of_quadratic(self.alpha, self.c)[self.rows] + self.cost

    def step(self) -> None:
        """Take one predictor-corrector iteration."""
        qp, n, split = self.program, self.n, self.split
        # theta = y/s + z/t; on split rows x - x' the two parts are eliminated: M = theta theta' / (theta + theta')
        theta = self.y / self.s + self.z / self.t
        M, second = theta[:n].copy(), theta[n:]
        M[split] *= second / (M[split] + second)
        terms = qp.diagonal + M, qp.Q
        saddle = Saddle(qp.G.matrix, *terms) if self.equations is None else self.equations(qp.G, *terms)
        residual, feasibility = self._slope() - self.y + self.z, qp.Q.T @ self.alpha

        def direction(low: Any, high: Any) -> tuple[Matrix, Matrix, Matrix, Matrix]:
            """Return the Newton direction to s y = low and t z = high."""
            # [G + D + M, Q; Q', 0] [d alpha; dc] = [right; -Q'alpha]
            right = -residual + (low / self.s - self.y) * self.below - (high / self.t - self.z) * self.above
            joint = right[:n].copy()
            joint[split] = M[split] * (right[split] / theta[split] - right[n:] / second)
            da, dc = (part[:, 0] for part in saddle.solve(joint[:, None], -feasibility[:, None]))
            coupling = joint[split] - M[split] * da[split]
            dx = np.concatenate([da, (right[n:] + coupling) / second])
            dx[split] = (right[split] - coupling) / theta[split]
            # s dy + y dx = low - s y,    t dz - z dx = high - t z
            dy = ((low - self.y * dx) / self.s - self.y) * self.below
            dz = ((high + self.z * dx) / self.t - self.z) * self.above
            return dx, dc, dy, dz

        # predictor (affine scaling): s y = t z = 0
        dx, _, dy, dz = direction(0.0, 0.0)
        length = min(1.0, self._longest(dx, dy, dz))
        mean, ahead = self._mean(), self._mean(length * dx, length * dy, length * dz)
        # corrector: s y = t z = sigma mu less the second-order terms, sigma = (mu_affine / mu)^3 (Mehrotra 1992)
        center = ahead * min(ahead / mean, 1.0) ** 2 if mean > 0 else 0.0
        dx, dc, dy, dz = direction(center - dx * dy, center + dx * dz)
        length = min(1.0, 0.995 * self._longest(dx, dy, dz))
        self.before = self.s, self.t, self.y, self.z
        self.x, self.c = self.x + length * dx, self.c + length * dc
        self.s, self.t = self.s + length * dx * self.below, self.t - length * dx * self.above
        self.y, self.z = self.y + length * dy, self.z + length * dz

    def vanishing(self) -> tuple[Matrix, Matrix]:
        """Return which slacks of lower and upper bounds decreased faster than their multipliers in the last step.

        These are zero at the solution (Tapia's indicators, which are invariant to the scale of both).
        """
        s, t, y, z = self.before
        # s / s_before < y / y_before
        return self.below & (self.s * y < self.y * s), self.above & (self.t * z < self.z * t)

    def _mean(self, dx: Any = 0.0, dy: Any = 0.0, dz: Any = 0.0) -> float:
        """Return the mean complementarity s y and t z after a step."""
        low, high = (self.s + dx) * (self.y + dy) * self.below, (self.t - dx) * (self.z + dz) * self.above
        return max(float(np.sum(low) + np.sum(high)), 0.0) / max(self.bounds, 1)

    def _longest(self, dx: Matrix, dy: Matrix, dz: Matrix) -> float:
        """Return the longest step that keeps slacks and multipliers nonnegative."""
        longest = np.inf
        for value, change, bounded in (
            (self.s, dx, self.below), (self.t, -dx, self.above), (self.y, dy, self.below), (self.z, dz, self.above)
        ):  # fmt: skip
            falling = bounded & (change < 0)
            longest = min(longest, float(np.min(-value[falling] / change[falling], initial=np.inf)))
        return longest


def crossover(
    qp: QuadraticProgram,
    fixed: Matrix,
    alpha: Matrix,
    c: Matrix,
    certify: Callable[[Matrix, Matrix], Certificate],
) -> tuple[Matrix, Matrix, Certificate]:
    """Return the alpha and c of the smallest gap among the rounds of the crossover, and their certificate.

    It starts with the rows that are `fixed` at a bound or a kink, and their alpha.
    """
    rising = (qp.low == 0) | (alpha > 0)  # whether a free row is on the side where its linear term is -p alpha
    best: tuple[Matrix, Matrix, Certificate] | None = None
    for _ in range(ROUNDS):
        low, high = _range(qp, fixed, rising, alpha)
        alpha, c = _solve_free(qp, ~fixed, np.where(rising, qp.p, qp.q), alpha, c)
        outside = ~fixed & ((alpha < low) | (alpha > high))
        feasible = _feasible(qp, alpha, low, high)
        certificate = certify(feasible, c)
        if best is None or certificate.relative < best[2].relative:
            best = feasible, c, certificate
        alpha = np.clip(alpha, low, high)
        excess = np.where(fixed, _excess(qp, alpha, c), 0.0)
        if not np.any(outside | (excess != 0)):
            break
        rising = np.where(excess > 0, alpha >= 0, np.where(excess < 0, alpha > 0, rising))
        fixed = (fixed | outside) & (excess == 0)
    assert best is not None
    return best


def exchanged_one_by_one(qp: QuadraticProgram, fixed: Matrix, alpha: Matrix, c: Matrix) -> tuple[Matrix, Matrix]:
    """Return alpha and c after an active-set method from a feasible alpha whose rows are mostly `fixed`.

    The free rows move to their minimum, or as far as the first of them reaches an end of its range and is fixed there;
    at the minimum the rows that decrease the objective most become free.  The objective never increases, whereas the
    crossover, which exchanges all rows at once, needs a start next to the solution.
    """
    rising, most = (qp.low == 0) | (alpha > 0), EXCHANGED
    before = alpha
    for k in range(EXCHANGES):
        report_progress(k / EXCHANGES)
        low, high = _range(qp, fixed, rising, alpha)
        aim, c = _solve_free(qp, ~fixed, np.where(rising, qp.p, qp.q), alpha, c)
        end = np.clip(aim, low, high)
        outside = end != aim
        if np.any(outside):
            # the largest step alpha + share (aim - alpha) within all ranges
            share = np.where(outside, (end - alpha) / np.where(outside, aim - alpha, 1.0), 1.0)
            reached = outside & (share <= share.min())
            alpha = np.where(reached, end, np.clip(alpha + share.min() * (aim - alpha), low, high))
            fixed = fixed | reached
            continue
        alpha = aim
        excess = np.where(fixed, _excess(qp, alpha, c), 0.0)
        # the rows of the steepest descent, in units of their sizes
        largest = np.argsort(-np.abs(excess) * np.sqrt(qp.sizes))[: most if np.any(alpha != before) else 1]
        free = largest[excess[largest] != 0]
        if not len(free):
            break
        rising[free], before = np.where(excess > 0, alpha >= 0, alpha > 0)[free], alpha
        fixed[free] = False
    return alpha, c


def _fixed_rows(interior: Interior) -> tuple[Matrix, Matrix]:
    """Return which rows are at a bound or a kink, and alpha with those put exactly there."""
    n, split = interior.n, interior.split
    at_low, at_high = interior.vanishing()
    x = np.where(at_low, interior.lower, np.where(at_high, interior.upper, interior.x))
    fixed, alpha = (at_low | at_high)[:n], x[:n].copy()
    first, second = interior.x[split], interior.x[n:]
    negative = second > first
    alpha[split] = np.where(negative, -x[n:], x[split])
    fixed[split] = np.where(negative, (at_low | at_high)[n:], fixed[split])
    return fixed, alpha


def _range(qp: QuadraticProgram, fixed: Matrix, rising: Matrix, alpha: Matrix) -> tuple[Matrix, Matrix]:
    """Return the range in which the objective of each free row is quadratic; fixed rows keep their alpha."""
    kink = qp.p < qp.q
    low = np.where(kink & rising, np.maximum(qp.low, 0.0), qp.low)
    high = np.where(kink & ~rising, np.minimum(qp.high, 0.0), qp.high)
    return np.where(fixed, alpha, low), np.where(fixed, alpha, high)


def _solve_free(qp: QuadraticProgram, free: Matrix, target: Matrix, alpha: Matrix, c: Matrix) -> tuple[Matrix, Matrix]:
    """Solve (G + D) alpha + Qc = target on the free rows, with Q'alpha = 0; return alpha and c."""
    rows = np.flatnonzero(free)
    if rows.size == 0:
        return alpha, c
    ridge = 1e-15 * qp.largest  # the block may be singular
    # (G + D)_FF d alpha_F + Q_F dc = (target - (G + D) alpha - Qc)_F,    Q_F'd alpha_F = -Q'alpha
    saddle = Saddle(qp.G.matrix[rows][:, rows], qp.diagonal[rows] + ridge, qp.Q[rows])
    for _ in range(2):
        residual = (target - qp.gradient_of_quadratic(alpha, c))[rows]
        change, shift = saddle.solve(residual[:, None], -(qp.Q.T @ alpha)[:, None])
        alpha, c = alpha.copy(), c + shift[:, 0]
        alpha[rows] += change[:, 0]
    return alpha, c


def _feasible(qp: QuadraticProgram, alpha: Matrix, low: Matrix, high: Matrix) -> Matrix:
    """Project alpha onto the ranges and Q'alpha = 0, or onto the box if the ranges contain no such point."""
    for ends in ((low, high), (qp.low, qp.high)):
        point = project(alpha[:, None], ends[0][:, None], ends[1][:, None], qp.Q)[:, 0]
        if np.all(np.abs(qp.Q.T @ point) <= 1e-13 * np.linalg.norm(point)):
            break
    return point


def _excess(qp: QuadraticProgram, alpha: Matrix, c: Matrix) -> Matrix:
    """Return by how much the objective decreases per unit of each row: positive if it moves up, negative if down."""
    gradient = qp.gradient_of_quadratic(alpha, c)
    up = np.where(alpha < qp.high, np.where(alpha >= 0, qp.p, qp.q) - gradient, 0.0)
    down = np.where(alpha > qp.low, gradient - np.where(alpha <= 0, qp.q, qp.p), 0.0)
    margin = 1e-10 * qp.level  # smaller differences are rounding errors
    return np.where(up > margin, up, 0.0) - np.where(down > margin, down, 0.0)
