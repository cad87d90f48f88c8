"""Constraints at points that enforce claims, and the choice of these points.

*Seeding.*  If all losses are squared, the points that need a constraint are found in advance.  With the saddle point
system of the data factorized once, the minimizer with constraints L f >= b at points is

    f = f_0 + sum_m x_m z~_m,     x >= 0 the minimizer of 1/2 x'G~x - x'(b - L f_0)

with the Gram matrix G~ of L conditioned on the data.  This is so cheap that points can be added many times.  The result
is where the solver starts, which usually has nothing left to do: only its certificate is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import scipy  # imports scipy.optimize lazily

from rkhs._backend.arrays import EPS, Array, Matrix, double, to_numpy
from rkhs._calculus.function_spaces import Constant
from rkhs._finite.basis import on_basis
from rkhs._finite.function import Function
from rkhs._finite.monitor import FACTOR, Monitor, Stopped
from rkhs._finite.problem import Iterate
from rkhs._finite.term import Term
from rkhs._gram import gram
from rkhs._linalg.saddle import Saddle
from rkhs._problem import Problem
from rkhs._shapes.bounds import lower_bounds
from rkhs._shapes.claims import Claim
from rkhs._shapes.proofs import PROVED, ClaimProof
from rkhs.functionals._base import Functional, stack
from rkhs.functionals._values import Evaluation
from rkhs.losses import OneSided
from rkhs.solvers._base import in_numpy
from rkhs.solvers._conditioned import factorable

FIRST = 32  # number of initial points in the box; as many again are on its faces
MARGIN = 2e-3  # margin by which constraints at points exceed the claim, relative to the typical size of the derivative
APART = 0.03  # minimal distance between points that are added together, relative to the sides of the box
LOOKS = 8  # maximal number of rounds of seeding


@dataclass(frozen=True, eq=False)
class Constraint:
    """A claim at points, as an exact penalty weight * max(0, bound + room - L_x f) with a sufficiently large weight.

    In the term, L_x and the bound are multiplied by `unit`, so that slopes are in units of the kernel's length scales,
    and the problem does not depend on the units of the features.
    """

    claim: Claim
    active: tuple[int, ...]  # features on which L_x f depends; the others are fixed at the center of the box
    points: Matrix  # (t, n)
    directions: Matrix  # (t, n), in which the Hessian is constrained
    room: float  # the margin, in units of L_x f
    max_room: float  # the upper limit of the margin
    unit: float
    weight: float
    box: Matrix  # (2, n)

    @classmethod
    def of(cls, claim: Claim, problem: Problem, box: Matrix, size: float) -> Constraint:
        """Return the constraint at initial points, which fill the box and its faces evenly.

        `size` is that of f (`size_of`).  Margin and weight are relative to the size of L_x f that it implies: a slope
        is about `size` divided by the side of the box, or by the length scale of the kernel if the side is zero.
        """
        random = np.random.default_rng(0)
        (lower,) = lower_bounds([claim], Function(problem.kernel, problem.terms[0].functional.take([0]), [1.0]))
        points = space_filling_points(FIRST, box, lower.active, random)
        directions = np.zeros_like(points)
        joint, axes = list(claim.jointly), list(claim.axes)
        if joint:
            angles = random.standard_normal((len(points), len(joint)))
            directions[:, joint] = lower.units * angles / np.linalg.norm(angles, axis=1, keepdims=True)
        scales = 1 / np.where(lower.part.rates > 0, lower.part.rates, 1.0)
        sides = np.where(box[1] > box[0], box[1] - box[0], scales)
        spread = float(np.max(sides[joint] / lower.units) ** 2 if joint else np.prod(sides[axes]))
        unit = float(np.prod(scales[axes]))
        norm = float(np.sqrt(gram(problem.kernel, unit * claim.at(points[:1], directions[:1])).diagonal()[0]))
        total = sum(float(np.sum(to_numpy(term.weights()))) for term in problem.terms)
        room = MARGIN * size / spread
        return cls(claim, lower.active, points, directions, room, 16 * room, unit, 2 * total * size / norm, box)

    @property
    def functional(self) -> Functional:
        return self.unit * self.claim.at(self.points, self.directions)

    @property
    def bound(self) -> float:
        """The lower bound of the functionals."""
        return self.unit * (self.claim.bound + self.room)

    def values(self, f: Function) -> Matrix:
        """Return L_x f at the points, from the summands of the kernel on which it depends."""
        (lower,) = lower_bounds([self.claim], f)
        return to_numpy(self.functional(lower.part.f)) / self.unit if len(self.points) else np.zeros(0)

    def active_at(self, f: Function) -> Constraint:
        """Return the constraint at the points where it is nearly active: L_x f is within 20 margins of the bound."""
        kept = self.values(f) < self.claim.bound + 20 * self.room
        return replace(self, points=self.points[kept], directions=self.directions[kept])

    def with_points(self, points: Matrix, directions: Matrix, apart: float = APART) -> Constraint:
        """Add up to 40 of the points, at a distance of at least `apart` (relative to the box) from each other."""
        active = list(self.active)
        points = np.where(np.isin(np.arange(points.shape[1]), active), points, self.box.mean(axis=0))
        scaled = points[:, active] / np.where(self.box[1] > self.box[0], self.box[1] - self.box[0], 1.0)[active]
        chosen: list[int] = []
        for k, point in enumerate(scaled):
            distances = np.abs(scaled[chosen] - point).max(axis=1, initial=0.0)
            if len(chosen) < 40 and np.all(distances > apart):
                chosen.append(k)
        pairs = zip((self.points, self.directions), (points, directions), strict=True)
        points, directions = (np.concatenate([old, new[chosen]]) for old, new in pairs)
        return replace(self, points=points, directions=directions)

    def refined(self, f: Function, proof: ClaimProof) -> Constraint:
        """Return the constraint of the next round, given a proof about f; itself if no refinement can help.

        Points are added where the claim fails or is hardest to prove, and the margin grows by the deficit of f there,
        up to a limit: with a short length scale f decreases between the points for any margin, which would grow without
        end.  If rounding hides the claim, only the margin grows, unless the limit is below the rounding error.
        """
        if proof.status == PROVED:
            return self
        (lower,) = lower_bounds([self.claim], f)
        hidden = proof.rounding * (float(lower.units.max()) ** 2 if self.claim.jointly else 1.0)  # in units of L_x f
        if proof.hidden and hidden > self.max_room:
            return self
        result = self if proof.hidden else self.active_at(f).with_points(proof.candidates, proof.directions)
        deficit = hidden - float(lower.at(proof.worst[None])[0][0])
        room = min(self.room + deficit, 4 * self.room, self.max_room)
        return replace(result, room=room) if room > self.room else result

    def violations(self, f: Function) -> tuple[Matrix, Matrix]:
        """Return points where the claim fails, in the order of the violation, and the directions of Hessians there.

        The candidates fill the box evenly; if the claim holds at all of them, the lowest ones are moved downhill.
        """
        X = space_filling_points(200, self.box, self.active, np.random.default_rng(0))
        (lower,) = lower_bounds([self.claim], f)
        values, directions = lower.at(X)
        if np.all(values >= 0):
            low = X[np.argsort(values, kind="stable")[:64]]
            step = 0.5 * (self.box[1] - self.box[0]) * len(X) ** (-1 / max(len(self.active), 1))
            X = np.clip(lower.descend(low, step), *self.box)
            values, directions = lower.at(X)
        worst = np.argsort(values, kind="stable")[: int(np.sum(values < 0))]
        return X[worst], directions[worst]


def terms_of(constraints: Sequence[Constraint], prototype: Array) -> list[Term]:
    """Return the terms of constraints that have points, in the namespace and on the device of the prototype."""
    used = [constraint for constraint in constraints if len(constraint.points)]
    families = [constraint.functional for constraint in used]
    if not isinstance(prototype, np.ndarray):
        families = [L.like(prototype) for L in families]
    return [Term(L, OneSided(), c.bound, c.weight) for L, c in zip(families, used, strict=True)]


def size_of(problem: Problem, claims: Sequence[Claim] = ()) -> float:
    """Return the typical size of f that the data and the bounds of claims imply, in the unit of f.

    It is the largest of the range of targets that are values or averages of f (L_i(1) = 1), of twice |b_i| |delta_x| /
    |L_i| for other targets b_i, such as slopes, and of the distances of values from a bound that they violate.  It is
    at least so large that the margin of constraints exceeds the rounding errors of values and bounds.
    """
    bounds = [claim for claim in claims if claim.order == 0]
    smallest = float(np.cbrt(EPS))  # relative to the largest number
    sizes = [smallest * abs(claim.bound) for claim in bounds]
    for term in problem.terms:
        L, targets = term.functional, double(term.observed_target).reshape(-1)
        known, mean = np.isfinite(targets), np.isclose(on_basis(L, Constant())[:, 0], 1.0)
        values, others = targets[known & mean], known & ~mean
        if len(values):
            sizes += [float(np.ptp(values)), smallest * float(np.abs(values).max())]
            sizes += [claim.bound - float(np.min(claim.sign * values)) for claim in bounds]
        if np.any(targets[others]):
            point = Evaluation(to_numpy(L.parts[0].atoms.points)[:1].astype(np.float64))
            norms = [np.sqrt(to_numpy(gram(problem.kernel, family).diagonal())) for family in (point, L)]
            sizes.append(2 * float(np.max(np.abs(targets[others]) * norms[0][0] / norms[1].reshape(-1)[others])))
    return max(sizes, default=0.0)


def space_filling_points(count: int, box: Matrix, active: Sequence[int], random: np.random.Generator) -> Matrix:
    """Return points that fill a box (2, n) evenly in the active features; the others are at the center.

    With two or more active features, as many points again are on the faces of the box.
    """
    features, n = list(active), len(active)
    filled = np.linspace(0, 1, count)[:, None] if n == 1 else evenly(2 * count if n else 1, n)
    if n > 1:
        filled[np.arange(count), random.integers(n, size=count)] = random.integers(2, size=count)
    points = np.repeat(box.mean(axis=0, keepdims=True), len(filled), axis=0)
    points[:, features] = box[0, features] + filled * (box[1] - box[0])[features]
    return points


def evenly(count: int, n: int) -> Matrix:
    """Return a low-discrepancy sequence in the unit cube, the R-sequence (Roberts 2018).

    The points are multiples of powers of the inverse root of x^(n+1) = x + 1, modulo one.

    Examples
    --------
    >>> evenly(3, 1)[:, 0].round(2)  # multiples of the golden ratio
    array([0.12, 0.74, 0.35])
    """
    root = 2.0
    for _ in range(50):
        root = (1 + root) ** (1 / (n + 1))
    return (0.5 + np.outer(np.arange(1, count + 1), root ** -np.arange(1.0, n + 1))) % 1


def can_seed(problem: Problem) -> bool:
    """Return whether seeding applies: quadratic losses of functionals in NumPy that fit in memory, not approximated."""
    quadratic = all(term.loss.quadratic for term in problem.terms)
    exact = problem.approximation is None and problem.null_space == "kept"
    in_numpy = quadratic and exact and isinstance(problem.represented.functionals.prototype, np.ndarray)
    return in_numpy and factorable(problem.system)


def seeded(
    problem: Problem, constraints: Sequence[Constraint], verbose: bool = False
) -> tuple[list[Constraint], ConstrainedLeastSquares | None]:
    """Return the constraints at points where they are needed, such that the claims hold at all candidate points.

    It ends early, with the points so far, if the time limit is reached or the subproblem cannot be solved: seeding only
    saves rounds of the solver.  Also returns the factorized problem, None if there was no time for it.
    """
    seeds = [replace(c, points=c.points[:0], directions=c.directions[:0]) for c in constraints]
    solve = None
    try:
        with closing(Monitor(0.0, verbose=verbose)) as monitor:
            with monitor.showing(FACTOR):
                solve = ConstrainedLeastSquares(problem)
            f = solve(seeds)
            for k in range(LOOKS):
                monitor.check()
                violations = [c.violations(f) for c in seeds]
                if not any(len(points) for points, _ in violations):
                    break
                apart = max(APART, 0.1 / 2**k)  # relative to the sides of the box
                seeds = [c.active_at(f).with_points(*new, apart) for c, new in zip(seeds, violations, strict=True)]
                f = solve(seeds)
            return [c.active_at(f) for c in seeds], solve
    except (Stopped, RuntimeError, np.linalg.LinAlgError):
        return seeds, solve


class ConstrainedLeastSquares:
    """The solution of a problem with squared losses and constraints, with the saddle point system factorized once."""

    def __init__(self, problem: Problem) -> None:
        self.represented, system = problem.represented, in_numpy(problem.system)
        self.saddle = Saddle(system.gram.in_double, 1 / (2 * system.weight[:, 0]), system.Q)
        self.a, self.c = self.saddle.solve(system.target)
        self._solved: dict[tuple[str, bytes, bytes], Matrix] = {}  # by claim, point and direction

    def __call__(self, constraints: Sequence[Constraint]) -> Function:
        used = [constraint for constraint in constraints if len(constraint.points)]
        if not used:
            return self.represented.function(Iterate(self.a, self.c))
        L = stack([constraint.functional for constraint in used])
        bounds = np.concatenate([np.full(len(constraint.points), constraint.bound) for constraint in used])
        cross, A, B, C = self._columns(used, L)
        kernel = self.represented.kernel
        parts = gram(kernel, L).in_double(), cross.T @ A, B.T @ C
        sizes = np.max([np.abs(np.diag(part)) for part in parts], axis=0)
        right = bounds - (cross.T @ self.a + B.T @ self.c)[:, 0]
        x = nonnegative(parts[0] - parts[1] - parts[2], right, sizes)[:, None]
        data = self.represented.function(Iterate(self.a - A @ x, self.c - C @ x))
        return data + Function(kernel, L, x[:, 0])

    def start(self, constraints: Sequence[Constraint]) -> Function | None:
        """Return the solution as a start for a solver; None if it cannot be computed, or not in this precision."""
        try:
            return self(constraints) if self.represented.functionals.prototype.dtype == np.float64 else None
        except (RuntimeError, np.linalg.LinAlgError):
            return None

    def _columns(self, used: Sequence[Constraint], L: Functional) -> list[Matrix]:
        """Return the inner products (N, t) of L with the data, its values B (r, t) on the basis, and S^-1 of both.

        S is the matrix of the saddle point system.  Only functionals that are new need its factors.
        """
        rows = [(c, k) for c in used for k in range(len(c.points))]
        keys = [(c.claim.name, c.points[k].tobytes(), c.directions[k].tobytes()) for c, k in rows]
        new = [k for k, key in enumerate(keys) if key not in self._solved]
        if new:
            M, basis = L.take(new), self.represented.basis
            cross = gram(self.represented.kernel, self.represented.functionals, M).in_double()
            B = np.zeros((M.size, 0)) if basis.space is None else np.asarray(on_basis(M, basis.space)) @ basis.back
            A, C = self.saddle.solve(cross, B.T)
            columns = np.concatenate([cross, A, B.T, C]).T
            self._solved |= {keys[k]: column for k, column in zip(new, columns, strict=True)}
        columns, N = np.stack([self._solved[key] for key in keys], axis=1), len(self.a)
        return np.split(columns, [N, 2 * N, (len(columns) + 2 * N) // 2])


def nonnegative(G: Matrix, r: Matrix, sizes: Matrix) -> Matrix:
    """Return the minimizer of 1/2 x'Gx - x'r over x >= 0, for G positive semidefinite up to rounding.

    `sizes` are the magnitudes of the terms whose differences are the diagonal of G: eigenvalues below their rounding
    errors are raised to that level, so that G has a square root in spite of cancellation.  The problem is scaled such
    that `sizes` and the largest entry of r are one, because `scipy.optimize.nnls` has absolute tolerances.

    Examples
    --------
    >>> nonnegative(np.eye(2), np.array([1.0, -1.0]), np.ones(2))
    array([1., 0.])
    """
    unit = np.sqrt(np.where(sizes > 0, sizes, 1.0))
    right = r / unit
    largest = float(np.abs(right).max(initial=0.0)) or 1.0
    values, vectors = np.linalg.eigh((G + G.T) / 2 / (unit[:, None] * unit))
    roots = np.sqrt(np.maximum(values, len(G) * EPS))
    R, target = roots[:, None] * vectors.T, vectors.T @ (right / largest) / roots
    steps = 30 * len(G)  # ten times the default of the active-set method
    return largest * scipy.optimize.nnls(R, target, maxiter=steps)[0] / unit
