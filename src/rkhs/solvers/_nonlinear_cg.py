"""Nonlinear conjugate gradients in the RKHS: one Gram product per iteration, and a certificate at no extra cost.

For smooth losses the gradient of J in H is the function with coefficients

    g = a + w loss'(u),        u = Ga + Qc

which needs no product beyond the one that gives u.  With its image Gg (the one product) J is known on the span of g, of
the last steps and of f itself, and is minimized there exactly (`_reduced`): for squared losses these are conjugate
gradients, and for others no rule for step lengths or conjugacy is needed.  The basis coefficients are minimized along
with them, so Q'w loss'(u) = 0 and alpha = -w loss'(u) is dual feasible, with gap 1/2 g'Gg.

A few landmarks approximate G (`_preconditioning`), and so the Newton step

    (I + HG)^-1 g,             H = diag(w loss''(u)),

which is one more direction, multiplied by G together with the gradient.  H is updated when it has changed.

Losses without a gradient are smoothed (`_reduced.Smoothing`).

*L-BFGS.*  L-BFGS on the coefficients, as in Zhang et al. 2013, section 6.1: the reference for comparisons.

As a function of the coefficients,

    J(a, c) = 1/2 a'Ga + sum_i w_i loss_i(u_i),   u = Ga + Qc,
    dJ/da = G(a + s),   dJ/dc = Q's,              s = w loss'(u)

so an evaluation costs two Gram products, Ga and Gs, and the Euclidean metric squares the condition number of G.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import inf

import numpy as np

from rkhs._core.backend.arrays import Array, Vector, double, inner, like, namespace
from rkhs._core.finite.certificate import bounds, certify, relative_gap
from rkhs._core.finite.monitor import Monitor, OutOfIterations, Step, Steps, mapped
from rkhs._core.finite.problem import FiniteProblem, Iterate
from rkhs._core.linalg.cg import Preconditioner
from rkhs.solvers._base import Estimate, Solver, lacking, lacking_bounds
from rkhs.solvers._preconditioning import Nystroem, check_landmarks, iterations_before, landmark_count
from rkhs.solvers._reduced import SHRINK, Smoothing, around, line_search, minimize

ROUNDING_SHARE = 0.25  # directions are used only if rounding contributes less than this share of d'Gd


@dataclass(frozen=True)
class NonlinearCG(Solver):
    """Nonlinear conjugate gradients in the RKHS, for any losses and any size.

    Parameters
    ----------
    memory : int, default=3
        The number of previous steps that are kept as directions.
    max_iterations : int, default=10_000
        The maximal number of iterations.
    landmarks : int, optional
        The number of functionals that approximate the Newton step; by default the cost-optimal number, after some
        iterations without landmarks if these are cheap.

    Examples
    --------
    >>> import rkhs
    >>> term = rkhs.Term(rkhs.Evaluation([[0.0], [1.0]]), rkhs.Logistic(), target=[-1.0, 1.0])
    >>> rkhs.Problem(rkhs.Gaussian(), [term]).solve(rkhs.solvers.NonlinearCG()).status
    'converged'
    """

    memory: int = 3
    max_iterations: int = 10_000
    landmarks: int | None = None

    def __post_init__(self) -> None:
        check_landmarks(self.name, self.landmarks)

    def lacks(self, system: FiniteProblem) -> str | None:
        return lacking_bounds(self, system)

    def cost(self, estimate: Estimate) -> float:
        factor = 1.5 if estimate.system.smooth else 6  # relative to the iterations of conjugate gradients
        return factor * estimate.iterating(self.step(estimate)) * estimate.system.columns

    def step(self, estimate: Estimate) -> float:
        return estimate.step(1 if estimate.system.smooth else 4)  # the smoothed losses take longer to evaluate

    def steps(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Steps:
        xp = namespace(start.a)
        images = system.exact @ start.a if bool(xp.any(start.a != 0)) else system.zeros()
        columns = [
            _OutputState(system.output(c), start.a[:, c], images[:, c], start.basis[:, c], self.memory)
            for c in range(system.columns)
        ]
        # For each output the landmarks are used in about 5 updates of the second derivatives.
        count = landmark_count(system.geometry, self.landmarks, 4 + 2 * 5 * system.columns)
        plain = 0 if self.landmarks else iterations_before(system.geometry, count)
        nystroem: Nystroem | None = None
        for iteration in range(self.max_iterations):
            active = [column for column in columns if column.gap > tol]
            stale = [column for column in columns if system.inexact and column.stale(tol)]
            if not active and not stale:
                return _joint_iterate(columns)
            if stale:
                images = system.exact @ xp.stack([a for column in stale for a in (column.a, column.best[0])], axis=1)
                for k, column in enumerate(stale):
                    column.correct(images[:, 2 * k], images[:, 2 * k + 1], tol)
                active = [column for column in columns if column.gap > tol]
            if count and iteration == plain:
                nystroem = Nystroem.of(
                    system.geometry, sum(column.hessian_diagonal for column in columns), count, monitor.left
                )
            directions = [column.gradient() for column in active]
            if nystroem is not None:
                slopes = zip(active, directions, strict=True)
                directions = [*directions, *(column.newton_direction(g, nystroem) for column, g in slopes)]
            products = system.gram @ xp.stack(directions, axis=1)
            pairs = [(d, products[:, k]) for k, d in enumerate(directions)]
            for k, column in enumerate(active):
                column.certify(*pairs[k])
                column.directions = pairs[k :: len(active)]
            worst = max(column.gap for column in columns)
            yield Step(_joint_iterate(columns), sum(column.lowest for column in columns), worst)
            active = [column for column in active if column.gap > tol]
            for column in active:
                column.step()
            if active and all(column.stuck for column in active):
                return _joint_iterate(columns)
        raise OutOfIterations


class _OutputState:
    """One output: its point, image and directions, and the best primal and dual points so far."""

    def __init__(self, system: FiniteProblem, a: Array, image: Array, basis: Array, memory: int) -> None:
        self.true = system
        self.a, self.image, self.basis = a, image, basis
        self.memory = memory
        self.directions: list[tuple[Array, Array]] = []  # the gradient and the Newton direction, with their images
        self.steps: list[tuple[Array, Array]] = []
        self.model: tuple[Array, Preconditioner] | None = None  # the second derivatives and their model
        self.gap, self.dual, self.alpha = float("inf"), -float("inf"), a
        self.lowest, self.best = float("inf"), (a, basis)
        self.stuck = self.sharpened = False
        self.moved = False  # whether the point has changed since its image was computed from it
        self.wider: tuple[Array, Array, Array] | None = None  # the minimizer for the previous smoothing width
        self.largest = 0.0  # the largest |Gd| / |d| so far
        self.smoothing = Smoothing.of(system.terms, self.u[:, None])
        self.system = system.with_rows(self.smoothing.terms(system.terms))
        self._minimize(a[:, None][:, :0], image[:, None][:, :0])  # over the basis only

    @property
    def u(self) -> Array:
        return self.image + self.true.Q @ self.basis

    def gradient(self) -> Array:
        """Return the coefficients of the gradient of J in H."""
        # g = a + w loss'(u)
        return self.a + self.system.gradient(self.u[:, None])[:, 0]

    @property
    def hessian_diagonal(self) -> Array:
        """The second derivatives of the losses, (N, 1)."""
        return self.system.hessian_diagonal(self.u[:, None])

    def newton_direction(self, g: Array, nystroem: Nystroem) -> Array:
        """Return the component of the approximate Newton step that is orthogonal to the gradient g.

        The Newton step uses the Nystroem approximation of G.  The orthogonal component is taken before the product with
        G: the two vectors may be nearly parallel, and the difference of their images would be inaccurate.
        """
        xp, h = namespace(g), self.hessian_diagonal
        if self.model is None or float(xp.sum(abs(h - self.model[0]))) > 0.5 * float(xp.sum(self.model[0])):
            self.model = h, nystroem.with_diagonal(h)
        h, model = self.model
        # (I + H (FF' + diag(left)))^-1 g = (I + H' F F')^-1 g / (1 + h left),    H' = H / (1 + h left)
        step = model.solve(g[:, None] / (1 + h * nystroem.left))[:, 0]
        return self.true.inside((step - xp.vecdot(g, step) / (float(xp.vecdot(g, g)) or 1.0) * g)[:, None])[:, 0]

    def certify(self, g: Array, product: Array) -> None:
        """Update the bounds of the minimum from the gradient and its image; shrink the smoothing width if due."""
        a, image, u = self.a[:, None], self.image[:, None], self.u[:, None]
        primal, dual = bounds(self.true, a, image, u, g[:, None], product[:, None])
        if dual > self.dual:
            self.dual, self.alpha = dual, self.a - g
        self._keep_best(primal, self.a, self.basis)
        # with Q's = 0 the gap of the smoothed problem is 1/2 g'Gg
        smoothed_gap = float(namespace(g).vecdot(g, product)) / 2
        self.sharpened = self.smoothing.sharpen(smoothed_gap, self.lowest - self.dual)
        if self.sharpened:
            self._extrapolate()
            self.system = self.true.with_rows(self.smoothing.terms(self.true.terms))

    def stale(self, tol: float) -> bool:
        """Return whether the image should be recomputed, because inexact products have accumulated errors.

        This happens before the point is accepted as the minimum, and before the smoothing width decreases.
        """
        return self.moved and (self.sharpened or self.gap <= tol)

    def correct(self, image: Array, best: Array, tol: float) -> None:
        """Continue with exact images of the point and the best one; at the end discard bounds from inexact ones."""
        self.image, self.moved = image, False
        if self.gap <= tol:
            self.dual, self.lowest = -float("inf"), float("inf")
            self._keep_best_at(self.best[0], best, self.best[1])
        self._minimize(self.a[:, None][:, :0], image[:, None][:, :0])

    def _keep_best_at(self, a: Array, image: Array, basis: Array) -> None:
        u = (image + self.true.Q @ basis)[:, None]
        self._keep_best(float(namespace(a).vecdot(a, image)) / 2 + float(self.true.loss(u)[0]), a, basis)

    def _keep_best(self, primal: float, a: Array, basis: Array) -> None:
        """Keep the best point so far."""
        if primal < self.lowest:
            self.lowest, self.best = primal, (a, basis)
        self.gap = relative_gap(self.lowest, self.dual)

    def _extrapolate(self) -> None:
        """Extrapolate two minimizers linearly to smoothing width 0; exact for piecewise quadratic losses."""
        current = (self.a, self.image, self.basis)
        if self.wider is not None:
            self._keep_best_at(
                *(x + (x - y) * (SHRINK / (1 - SHRINK)) for x, y in zip(current, self.wider, strict=True))
            )
        self.wider = current

    def step(self) -> None:
        """Minimize over the gradient, the Newton direction, the last steps and f itself."""
        xp = namespace(self.a)
        directions = [*self.directions, *self.steps]
        if bool(xp.any(self.a != 0)):
            directions.append((self.a, self.image))
        shares = [self._rounding_share(*pair) for pair in directions]
        usable = sorted((share, k) for k, share in enumerate(shares) if share < ROUNDING_SHARE)
        if not usable:
            self.stuck = not self.sharpened
            return
        directions = [directions[k] for _, k in usable]
        sizes = [float(xp.vecdot(d, Gd)) ** 0.5 for d, Gd in directions]
        # directions of norm one in H, d'Gd = 1, with their images U = GD
        D = xp.stack([d / s for (d, _), s in zip(directions, sizes, strict=True)], axis=1)
        U = xp.stack([Gd / s for (_, Gd), s in zip(directions, sizes, strict=True)], axis=1)
        before, self.moved = self.a, True
        move = self._minimize(*_orthonormal(D, U, [share for share, _ in usable]))
        self.steps = [move, *self.steps[: self.memory - 1]]
        self.stuck = not (self.sharpened or bool(xp.any(self.a != before)))

    def _rounding_share(self, d: Array, image: Array) -> float:
        """Return the share of d'Gd that is rounding error of the product; infinite if it is not positive."""
        xp = namespace(d)
        size = float(xp.linalg.vector_norm(d))
        self.largest = max(self.largest, float(xp.linalg.vector_norm(image)) / (size or 1.0))
        energy = float(xp.vecdot(d, image))
        # eps |G| |d|^2 / d'Gd,    |G| ~ the largest |Gd| / |d| so far
        return float(xp.finfo(d.dtype).eps) * self.largest * size**2 / energy if energy > 0 else inf

    def _minimize(self, D: Array, U: Array) -> tuple[Array, Array]:
        r = int(self.true.Q.shape[1])
        theta = like(minimize(around(self.system, self.a, self.image, self.u, D, U)), self.a)
        step, change = D @ theta[r:], U @ theta[r:]
        self.a, self.image, self.basis = self.a + step, self.image + change, self.basis + theta[:r]
        return step, change


def _orthonormal(D: Array, U: Array, lost: list[float]) -> tuple[Array, Array]:
    """Return H-orthonormal directions with the span of D, and their images; the columns of D have norm one in H.

    Directions that depend on previous ones up to the rounding errors in `lost` are dropped.
    """
    gram = double(D.T @ U)
    # Directions count as dependent if their squared distance is below 1e-2 sqrt(eps).
    threshold = 1e-2 * float(namespace(D).finfo(D.dtype).eps) ** 0.5
    kept: list[int] = []
    for k, share in enumerate(lost):
        cross = gram[np.ix_(kept, [k])]
        rest = 1 - float(cross[:, 0] @ np.linalg.lstsq(gram[np.ix_(kept, kept)], cross, rcond=None)[0][:, 0])
        if rest > max(threshold, share / ROUNDING_SHARE):
            kept.append(k)
    values, vectors = np.linalg.eigh(gram[np.ix_(kept, kept)])
    independent = values > max(threshold, max(lost[k] for k in kept) / ROUNDING_SHARE)
    transform = like(vectors[:, independent] / np.sqrt(values[independent]), D)
    return D[:, kept] @ transform, U[:, kept] @ transform


def _joint_iterate(columns: list[_OutputState]) -> Iterate:
    xp = namespace(columns[0].a)
    parts = zip(*((*column.best, column.alpha) for column in columns), strict=True)
    return Iterate(*(xp.stack(part, axis=1) for part in parts))


@dataclass(frozen=True)
class LBFGS(Solver):
    """L-BFGS on the coefficients, for smooth losses; one output after the other.

    Parameters
    ----------
    memory : int, default=10
        The number of corrections to keep.
    max_iterations : int, default=100_000
        The maximal number of iterations for each output.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Logistic(), target=np.sign(X[:, 0]))
    >>> problem = rkhs.Problem(rkhs.Gaussian(scale=0.5), [term])
    >>> by_coefficients, in_the_space = problem.solve(rkhs.solvers.LBFGS()), problem.solve(rkhs.solvers.NonlinearCG())
    >>> by_coefficients.status, by_coefficients.products > 5 * in_the_space.products
    ('converged', True)
    """

    memory: int = 10
    max_iterations: int = 100_000

    def lacks(self, system: FiniteProblem) -> str | None:
        remedy = "rkhs.solvers.NonlinearCG(), or smooth the loss with its .smoothed(width)"
        return lacking(self, system, lambda loss: loss.smooth, "differentiable losses, without a kink", remedy)

    def steps(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Steps:
        iterate = start
        for k in range(system.columns):
            whole = partial(iterate.with_output, k)
            iterate = whole((yield from mapped(self._output_steps(system.output(k), iterate.output(k), tol), whole)))
        return iterate

    def _output_steps(self, system: FiniteProblem, start: Iterate, tol: float) -> Steps:
        a, basis, next_check = start.a, start.basis, 0
        image, pairs = system.gram @ a, list[tuple[Vector, Vector]]()
        slope = step = np.zeros(system.size + system.Q.shape[1])
        for iteration in range(self.max_iterations):
            u = image + system.Q @ basis
            s = system.gradient(u)
            product = image + system.gram @ s
            primal, dual = bounds(system, a, image, u, a + s, product)
            gap = relative_gap(primal, dual, system.rounding[0])
            if system.Q.shape[1]:  # the cheap gap is a bound only if Q's = 0
                due = gap <= tol and iteration >= next_check
                gap = certify(system, Iterate(a, basis)).relative if due else inf
                next_check = int(1.1 * iteration) + 1 if due else next_check
            yield Step(Iterate(a, basis), primal, gap)
            if gap <= tol:
                return Iterate(a, basis)
            # the gradient (G(a + s), Q's), and its change along the last step
            before, slope = slope, double(namespace(a).concat([system.inside(product), system.Q.T @ s]))[:, 0]
            if iteration and float(step @ (slope - before)) > 0:
                pairs = [*pairs, (step, slope - before)][-self.memory :]
            direction = _two_loops(slope, pairs)
            columns = like(direction[:, None], system.Q)
            da, dc = system.inside(columns[: system.size]), columns[system.size :]
            change = system.gram @ da
            level, along, bend = (float(inner(x, y, axis=0)[0]) for x, y in ((a, image), (a, change), (da, change)))
            energy = level / 2, along, bend
            length, _ = line_search(system, u, change + system.Q @ dc, energy, primal, -float(slope @ direction))
            if not length > 0:
                return Iterate(a, basis)
            step = length * direction
            a, basis, image = a + length * da, basis + length * dc, image + length * change
        raise OutOfIterations


def _two_loops(slope: Vector, pairs: list[tuple[Vector, Vector]]) -> Vector:
    """Return -H slope, where H approximates the inverse Hessian (Nocedal and Wright 2006, algorithm 7.4).

    `pairs` are the last steps s and the changes y of the gradient along them, by which H y = s.
    """
    q, shares = slope.copy(), []
    for s, y in reversed(pairs):
        shares.append(float(s @ q) / float(s @ y))
        q -= shares[-1] * y
    if pairs:
        s, y = pairs[-1]
        q *= float(s @ y) / float(y @ y)
    for (s, y), share in zip(pairs, reversed(shares), strict=True):
        q += (share - float(y @ q) / float(s @ y)) * s
    return -q
