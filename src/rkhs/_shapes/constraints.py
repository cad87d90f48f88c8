"""Claims as constraints at points: where they are asked for before they are proved, and where to ask next.

*Seeding.*  Which points need a constraint is found beforehand where all losses are squared.  With the equations of the
data factorized once (theory, section 4), f with constraints L f >= b at points is

    f = f_0 + sum_m x_m z~_m,     x >= 0 the minimizer of 1/2 x'G~x - x'(b - L f_0)

with G~ the Gram matrix of L that the data leave.  It costs so little that points can be added many times.  The result
is a choice of points, not a solution: that is found, and certified, by the solvers.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
import scipy  # which imports scipy.optimize when it is first used

from rkhs._backend.arrays import EPS, Array, Matrix, to_numpy
from rkhs._calculus.function_spaces import Constant
from rkhs._finite.basis import on_basis
from rkhs._finite.function import Function
from rkhs._finite.monitor import FACTOR, Monitor, Stopped
from rkhs._finite.problem import Iterate
from rkhs._finite.term import Term
from rkhs._gram import gram
from rkhs._linalg.saddle import Saddle
from rkhs._problem import Problem
from rkhs._shapes.bounds import in_double, lower_bounds
from rkhs._shapes.claims import Claim
from rkhs._shapes.proofs import PROVED, ClaimProof
from rkhs.functionals._base import Functional, stack
from rkhs.functionals._values import Evaluation
from rkhs.losses import OneSided
from rkhs.solvers._base import in_memory

FIRST = 32  # points of the box with constraints from the beginning; as many again on its faces
ROOM = 2e-3  # of the typical size of a derivative, by which constraints at points are tighter than what is claimed
APART = 0.03  # of the sides of the box, the distance between points that are added at a time
LOOKS = 8  # at f with the points chosen so far


@dataclass(frozen=True, eq=False)
class Constraint:
    """A claim at points: weight * max(0, bound + room - L_x f), with a weight that makes it hold.

    The term has L_x and the bound multiplied by `unit`, so that slopes are asked for in scales of the kernel: solvers
    see the same problem whatever the units of the features are.
    """

    claim: Claim
    active: tuple[int, ...]  # features that have a say in it; the others are in the middle of the box
    points: Matrix  # (t, n)
    directions: Matrix  # (t, n), along which a Hessian is looked at
    room: float  # in units of L_x f
    widest: float  # the most that the room may become
    unit: float
    weight: float
    box: Matrix  # (2, n)

    @classmethod
    def of(cls, claim: Claim, problem: Problem, box: Matrix, size: float) -> Constraint:
        """Return the constraint at the first points, which fill the box and its faces evenly.

        `size` is that of f (`size_of`).  Room and weight are in units of L_x f that it implies: a slope is about `size`
        divided by the side of the box, or by the scale of the kernel where the box has no extent.
        """
        random = np.random.default_rng(0)
        (lower,) = lower_bounds([claim], Function(problem.kernel, problem.terms[0].functional.take([0]), [1.0]))
        points = filling(FIRST, box, lower.active, random)
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
        room = ROOM * size / spread
        return cls(claim, lower.active, points, directions, room, 16 * room, unit, 2 * total * size / norm, box)

    @property
    def functional(self) -> Functional:
        return self.unit * self.claim.at(self.points, self.directions)

    @property
    def bound(self) -> float:
        """The lower bound that is asked of the functionals."""
        return self.unit * (self.claim.bound + self.room)

    def values(self, f: Function) -> Matrix:
        """Return L_x f at the points."""
        return to_numpy(self.functional(in_double(f))) / self.unit if len(self.points) else np.zeros(0)

    def active_at(self, f: Function) -> Constraint:
        """Return the constraint at those points alone where f has little room: at most 20 times that asked for."""
        kept = self.values(f) < self.claim.bound + 20 * self.room
        return replace(self, points=self.points[kept], directions=self.directions[kept])

    def also(self, points: Matrix, directions: Matrix, apart: float = APART) -> Constraint:
        """Return the constraint at more points, the first 40 that are `apart` from each other (in sides of the box)."""
        own = list(self.active)
        points = np.where(np.isin(np.arange(points.shape[1]), own), points, self.box.mean(axis=0))
        seen = points[:, own] / np.where(self.box[1] > self.box[0], self.box[1] - self.box[0], 1.0)[own]
        chosen: list[int] = []
        for k, point in enumerate(seen):
            away = np.abs(seen[chosen] - point).max(axis=1, initial=0.0)
            if len(chosen) < 40 and np.all(away > apart):
                chosen.append(k)
        both = zip((self.points, self.directions), (points, directions), strict=True)
        points, directions = (np.concatenate([before, more[chosen]]) for before, more in both)
        return replace(self, points=points, directions=directions)

    def after(self, f: Function, proof: ClaimProof) -> Constraint:
        """Return the constraint of the next round, after a proof about f; itself where there is nothing to gain.

        It has more points where the claim fails or is hardest to prove, and more room by as much as f lacks there, up
        to a limit: without one, f would follow the room to any size, since in small scales it falls between points
        whatever they ask for.  Where rounding hides the claim it has more room alone, unless that is never enough.
        """
        if proof.status == PROVED:
            return self
        (lower,) = lower_bounds([self.claim], f)
        hidden = proof.rounding * (float(lower.units.max()) ** 2 if self.claim.jointly else 1.0)  # in units of L_x f
        if proof.hidden and hidden > self.widest:
            return self
        found = self if proof.hidden else self.active_at(f).also(proof.candidates, proof.directions)
        lacking = hidden - float(lower.at(proof.worst[None])[0][0])
        room = min(self.room + lacking, 4 * self.room, self.widest)
        return replace(found, room=room) if room > self.room else found

    def violations(self, f: Function) -> tuple[Matrix, Matrix]:
        """Return points where the claim fails, the worst first, and the directions of Hessians there.

        They are some of those that fill the box; if it holds at all of them, points to which f falls from the lowest.
        """
        X = filling(200, self.box, self.active, np.random.default_rng(0))
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
    """Return the terms of constraints that have points; tensors on the device of the prototype where it is one."""
    used = [one for one in constraints if len(one.points)]
    families = [one.functional for one in used]
    if not isinstance(prototype, np.ndarray):
        families = [L.like(prototype) for L in families]
    return [Term(L, OneSided(), one.bound, one.weight) for L, one in zip(families, used, strict=True)]


def size_of(problem: Problem, claims: Sequence[Claim] = ()) -> float:
    """Return the size of f that the data and the bounds of claims ask for, in the unit of f.

    It is the range of those targets that are values or averages of f, L_i(1) = 1; of other targets b_i, such as slopes,
    twice the largest |b_i| |delta_x| / |L_i|, with norms of functionals; and the distance from values to a bound that
    they break.  It is at least as large as makes the room of constraints exceed the rounding of values and bounds.
    """
    bounds = [claim for claim in claims if claim.order == 0]
    smallest = float(np.cbrt(EPS))  # of the largest number
    sizes = [smallest * abs(claim.bound) for claim in bounds]
    for term in problem.terms:
        L, targets = term.functional, to_numpy(term.told).astype(np.float64).reshape(-1)
        known, mean = np.isfinite(targets), np.isclose(on_basis(L, Constant())[:, 0], 1.0)
        values, others = targets[known & mean], known & ~mean
        if len(values):
            sizes += [float(np.ptp(values)), smallest * float(np.abs(values).max())]
            sizes += [claim.bound - float(np.min(claim.sign * values)) for claim in bounds]
        if np.any(targets[others]):
            point = Evaluation(to_numpy(L.parts[0].atoms.points)[:1].astype(np.float64))
            norms = [np.sqrt(to_numpy(gram(problem.kernel, own).diagonal())) for own in (point, L)]
            sizes.append(2 * float(np.max(np.abs(targets[others]) * norms[0][0] / norms[1].reshape(-1)[others])))
    return max(sizes, default=0.0)


def filling(count: int, box: Matrix, active: Sequence[int], random: np.random.Generator) -> Matrix:
    """Return points that fill a box (2, n) evenly in some features, of two or more as many again on its faces.

    The other features are in the middle.
    """
    own, n = list(active), len(active)
    filled = np.linspace(0, 1, count)[:, None] if n == 1 else evenly(2 * count if n else 1, n)
    if n > 1:
        filled[np.arange(count), random.integers(n, size=count)] = random.integers(2, size=count)
    points = np.repeat(box.mean(axis=0, keepdims=True), len(filled), axis=0)
    points[:, own] = box[0, own] + filled * (box[1] - box[0])[own]
    return points


def evenly(count: int, n: int) -> Matrix:
    """Return points that fill the unit cube evenly: multiples of powers of the root of x^(n+1) = x + 1, modulo one.

    Examples
    --------
    >>> evenly(3, 1)[:, 0].round(2)  # the golden section
    array([0.12, 0.74, 0.35])
    """
    root = 2.0
    for _ in range(50):
        root = (1 + root) ** (1 / (n + 1))
    return (0.5 + np.outer(np.arange(1, count + 1), root ** -np.arange(1.0, n + 1))) % 1


def can_seed(problem: Problem) -> bool:
    """Return whether all losses are squared, of few functionals in NumPy."""
    quadratic = all(term.loss.quadratic for term in problem.terms)
    few = sum(term.functional.size for term in problem.terms) <= 3000
    exact = problem.approximation is None and problem.null_space == "kept"
    return quadratic and few and exact and isinstance(problem.represented.functionals.prototype, np.ndarray)


def seeded(problem: Problem, constraints: Sequence[Constraint], verbose: bool = False) -> list[Constraint]:
    """Return the constraints at points where they are needed, so that the claims hold at all points that are tried.

    It ends early, with the points found so far, when the time is over or the small problem cannot be solved: points
    only save rounds of the solver.
    """
    found = [replace(one, points=one.points[:0], directions=one.directions[:0]) for one in constraints]
    try:
        with closing(Monitor(0.0, verbose=verbose)) as monitor:
            with monitor.showing(FACTOR):
                solve = ConstrainedLeastSquares(problem)
            f = solve(found)
            for look in range(LOOKS):
                monitor.check()
                broken = [one.violations(f) for one in found]
                if not any(len(points) for points, _ in broken):
                    break
                apart = max(APART, 0.1 / 2**look)  # in sides of the box
                found = [one.active_at(f).also(*where, apart) for one, where in zip(found, broken, strict=True)]
                f = solve(found)
            return [one.active_at(f) for one in found]
    except (Stopped, RuntimeError, np.linalg.LinAlgError):
        return found


class ConstrainedLeastSquares:
    """The minimizer for squared losses and given constraints, with the equations of the data factorized."""

    def __init__(self, problem: Problem) -> None:
        self.represented, system = problem.represented, in_memory(problem.system)
        self.saddle = Saddle(system.gram.dense(), 1 / (2 * system.weight[:, 0]), system.Q)
        self.a, self.c = self.saddle.solve(system.target)

    def __call__(self, constraints: Sequence[Constraint]) -> Function:
        used = [one for one in constraints if len(one.points)]
        if not used:
            return self.represented.function(Iterate(self.a, self.c))
        L = stack([one.functional for one in used])
        bounds = np.concatenate([np.full(len(one.points), one.bound) for one in used])
        kernel, basis = self.represented.kernel, self.represented.basis
        cross = gram(kernel, self.represented.functionals, L).in_double()
        B = np.zeros((L.size, 0)) if basis.space is None else np.asarray(on_basis(L, basis.space)) @ basis.back
        A, C = self.saddle.solve(cross, B.T)
        parts = gram(kernel, L).in_double(), cross.T @ A, B @ C
        sizes = np.max([np.abs(np.diag(part)) for part in parts], axis=0)
        right = bounds - (cross.T @ self.a + B @ self.c)[:, 0]
        x = nonnegative(parts[0] - parts[1] - parts[2], right, sizes)[:, None]
        data = self.represented.function(Iterate(self.a - A @ x, self.c - C @ x))
        return data + Function(kernel, L, x[:, 0])


def nonnegative(G: Matrix, r: Matrix, sizes: Matrix) -> Matrix:
    """Return the minimizer of 1/2 x'Gx - x'r over x >= 0, for G positive semidefinite up to rounding.

    `sizes` are those of the numbers whose differences are the diagonal of G: eigenvalues that rounding of them may
    have made are raised to that level, so that G has a square root however much has cancelled.  The problem is solved
    in units in which `sizes` and the largest entry of r are one, since `scipy.optimize.nnls` compares with constants.

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
    R, aim = roots[:, None] * vectors.T, vectors.T @ (right / largest) / roots
    steps = 30 * len(G)  # of the active-set method: ten times the default
    return largest * scipy.optimize.nnls(R, aim, maxiter=steps)[0] / unit
