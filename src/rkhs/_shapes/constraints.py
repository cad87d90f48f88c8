"""A claim at points: where it is asked for before it is proved, and where to ask next.

Where constraints will be needed: a quick look at problems with squared losses, before the exact solution.

With the equations S of the data factorised once (theory, section 4), f with constraints L f >= b at points is

    f = f_0 + sum_m x_m z~_m,     x >= 0 the least of 1/2 x'G~x - x'(b - L f_0)

G~ the Gram matrix of L that the data leave.  It costs so little that points can be added many times.  What comes of it
is a choice of points, not a solution: that is found, and certified, by the solvers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy

from rkhs._backend.arrays import Array, Matrix, to_numpy
from rkhs._calculus.function_spaces import Constant
from rkhs._finite.basis import on_basis
from rkhs._finite.function import Function
from rkhs._finite.monitor import FACTOR, Monitor, Stopped
from rkhs._finite.problem import Iterate
from rkhs._finite.term import Term
from rkhs._gram import gram
from rkhs._linalg.saddle import Saddle
from rkhs._shapes.bounds import Lower
from rkhs._shapes.claims import Claim
from rkhs._shapes.proofs import PROVED, ClaimProof
from rkhs.functionals.base import Functional, stack
from rkhs.functionals.values import Evaluation
from rkhs.losses import OneSided
from rkhs.problem import Problem
from rkhs.solvers.base import in_memory

FIRST = 32  # points of the box with constraints from the beginning; as many again on its faces
MORE = 40  # points that are added at a time, apart from each other by
APART = 0.03  # of the sides of the box
ROOM = 2e-3  # of the typical size of a derivative, by which constraints at points are tighter than what is claimed
LOWEST = 64  # points from which the places are sought where f falls below
WIDER, WIDEST = 4.0, 16.0  # times the room, at most: from one round to the next, and in all
SMALLEST = float(np.cbrt(np.finfo(np.float64).eps))  # range of values, by their size: its room is above their rounding
SLACK = 20.0  # times that room: constraints with more than this are left out of the next round


@dataclass(frozen=True, eq=False)
class Constraint:
    """A claim at points: weight * max(0, bound + room - L_x f), with a weight that makes it hold.

    The term has L_x and the bound multiplied by `unit`, so that slopes are asked for in scales of the kernel: solvers
    see the same problem whatever the units of the features are.
    """

    claim: Claim
    active: tuple[int, ...]  # features that have a say in it; the others are in the middle of the box
    places: Matrix  # (t, n)
    directions: Matrix  # (t, n), along which a Hessian is looked at
    room: float  # in units of L_x f
    widest: float  # the most that the room may become
    unit: float
    weight: float
    box: Matrix  # (2, n)

    @classmethod
    def of(cls, claim: Claim, problem: Problem, box: Matrix, size: float, seed: Any) -> Constraint:
        """With the first points, which fill the box and its faces evenly.

        `size` is that of f (`size_of`).  Room and weight are in units of L_x f that it implies: a slope is about `size`
        divided by the side of the box, or by the scale of the kernel where the box has no extent.
        """
        n = box.shape[1]
        random = np.random.default_rng(seed if isinstance(seed, int) else 0)
        lower = Lower.of(claim, Function(problem.kernel, problem.terms[0].functional.take([0]), [1.0]), n)
        units = lower.units
        places = filling(FIRST, box, lower.active, random)
        directions = np.zeros((len(places), n))
        if claim.jointly:
            angles = random.standard_normal((len(places), len(units)))
            directions[:, claim.jointly] = units * angles / np.linalg.norm(angles, axis=1, keepdims=True)
        scales = 1 / np.where(lower.rates > 0, lower.rates, 1.0)
        sides = np.where(box[1] > box[0], box[1] - box[0], scales)
        own = list(claim.jointly)
        spread = float(np.max(sides[own] / units) ** 2 if own else np.prod(sides[list(claim.axes)]))
        unit = float(np.prod(scales[list(claim.axes)]))
        family = unit * claim.at(places[:1], directions[:1])
        norm = float(np.sqrt(to_numpy(gram(problem.kernel, family).diagonal())[0]))
        total = sum(float(np.sum(to_numpy(term.weights()))) for term in problem.terms)
        room, weight = ROOM * size / spread, 2 * total * size / norm
        return cls(claim, lower.active, places, directions, room, WIDEST * room, unit, weight, box)

    @property
    def functional(self) -> Functional:
        return self.unit * self.claim.at(self.places, self.directions)

    @property
    def bound(self) -> float:
        """What is asked of the functionals at the points."""
        return self.unit * (self.claim.bound + self.room)

    @property
    def term(self) -> Term:
        return Term(self.functional, OneSided(), self.bound, self.weight)

    def values(self, f: Function) -> Matrix:
        """L_x f at the points."""
        if self.claim.jointly and len(self.places):
            return np.asarray(to_numpy(self.functional(f)))
        return Lower.of(self.claim, f, self.places.shape[1]).at(self.places)[0] + self.claim.bound

    def short(self, f: Function) -> bool:
        """Whether f pays for breaking it at a point, rather than holding it."""
        return bool(np.min(self.values(f), initial=np.inf) < self.claim.bound)

    def after(self, f: Function, proof: ClaimProof) -> Constraint:
        """Return the constraint of the next round, after a proof about f; itself where there is nothing to gain.

        It has more points where the claim fails or is hardest to prove, and more room by as much as f lacks there.
        Where rounding hides the claim it has more room alone, unless that could never be enough.
        """
        lower = Lower.of(self.claim, f, len(proof.worst))
        hidden = proof.rounding * (float(lower.units.max()) ** 2 if self.claim.jointly else 1.0)  # in units of L_x f
        if proof.status == PROVED or (proof.hidden and hidden > self.widest):
            return self
        lacking = hidden - float(lower.at(proof.worst[None])[0][0])
        if proof.hidden:
            return self.roomier(lacking)
        return self.tight(f).also(proof.candidates, proof.directions).roomier(lacking)

    def stronger(self) -> Constraint:
        return replace(self, weight=100 * self.weight)

    def without(self) -> Constraint:
        """Without points."""
        return replace(self, places=self.places[:0], directions=self.directions[:0])

    def tight(self, f: Function) -> Constraint:
        """At those points alone where f has little room."""
        kept = self.values(f) < self.claim.bound + SLACK * self.room
        return replace(self, places=self.places[kept], directions=self.directions[kept])

    def also(self, places: Matrix, directions: Matrix, apart: float = APART) -> Constraint:
        """At some more points, the first of them, which are `apart` from each other (in sides of the box)."""
        own = list(self.active)
        places = np.where(np.isin(np.arange(places.shape[1]), own), places, self.box.mean(axis=0))
        seen = places[:, own] / np.where(self.box[1] > self.box[0], self.box[1] - self.box[0], 1.0)[own]
        chosen: list[int] = []
        for k, place in enumerate(seen):
            away = np.abs(seen[chosen] - place).max(axis=1, initial=0.0)
            if len(chosen) < MORE and np.all(away > apart):
                chosen.append(k)
        places, directions = places[chosen], directions[chosen]
        return replace(
            self,
            places=np.concatenate([self.places, places]),
            directions=np.concatenate([self.directions, directions]),
        )

    def roomier(self, by: float) -> Constraint:
        """With so much more room at the points, where f falls so far between them; up to a limit.

        Without one, f would follow the room to any size: in small scales it falls between points whatever they ask for.
        """
        room = min(self.room + by, WIDER * self.room, self.widest)
        return replace(self, room=room) if room > self.room else self

    def where_broken(self, f: Function, count: int) -> tuple[Matrix, Matrix]:
        """Points where the claim fails, the worst first, and the directions of Hessians there.

        They are some of those that fill the box; if it holds at all of them, places to which f falls from the lowest.
        """
        X = filling(count, self.box, self.active, np.random.default_rng(0))
        lower = Lower.of(self.claim, f, X.shape[1])
        values, directions = lower.at(X)
        if np.all(values >= 0):
            low = X[np.argsort(values, kind="stable")[:LOWEST]]
            step = 0.5 * (self.box[1] - self.box[0]) * len(X) ** (-1 / max(len(self.active), 1))
            X = np.clip(lower.fallen(low, step), *self.box)
            values, directions = lower.at(X)
        worst = np.argsort(values, kind="stable")[: int(np.sum(values < 0))]
        return X[worst], directions[worst]


def range_of(values: Matrix, *bounds: float) -> float:
    """Return the range of values of f, at least `SMALLEST` of the largest of them and of bounds.

    Examples
    --------
    >>> range_of(np.array([1.0, 3.0])), range_of(np.zeros(2)), 0 < range_of(np.array([1e-6, 1e-6])) < 1e-11
    (2.0, 0.0, True)
    """
    largest = float(np.abs(np.concatenate([values, bounds])).max(initial=0.0))
    return max(float(np.ptp(values)) if len(values) else 0.0, SMALLEST * largest)


def size_of(problem: Problem, claims: Sequence[Claim] = ()) -> float:
    """Return the size of f that the data and the bounds of claims ask for, in the unit of f.

    It is the range of those targets that are values or averages of f, L_i(1) = 1; of other targets b_i, such as slopes,
    twice the largest |b_i| |delta_x| / |L_i|, with norms of functionals; and the distance from values to a bound that
    they break.
    """
    bounds = [claim for claim in claims if claim.order == 0]
    sizes = [range_of(np.zeros(0), *(claim.bound for claim in bounds))]
    for term in problem.terms:
        L, targets = term.functional, to_numpy(term.told).astype(np.float64).reshape(-1)
        known, mean = np.isfinite(targets), np.isclose(on_basis(L, Constant())[:, 0], 1.0)
        values, others = targets[known & mean], known & ~mean
        if len(values):
            sizes += [range_of(values), *(claim.bound - float(np.min(claim.sign * values)) for claim in bounds)]
        if np.any(targets[others]):
            point = Evaluation(to_numpy(L.parts[0].atoms.points)[:1].astype(np.float64))
            norms = [np.sqrt(to_numpy(gram(problem.kernel, own).diagonal())) for own in (point, L)]
            sizes.append(2 * float(np.max(np.abs(targets[others]) * norms[0][0] / norms[1].reshape(-1)[others])))
    return max(sizes)


def filling(count: int, box: Matrix, active: Sequence[int], random: np.random.Generator) -> Matrix:
    """Points that fill a box (2, n) evenly in some features, and in two of them or more as many again on its faces.

    The other features are in the middle.
    """
    n = len(active)
    filled = np.linspace(0, 1, count)[:, None] if n == 1 else evenly(2 * count if n else 1, n)
    if n > 1:
        filled[np.arange(count), random.integers(n, size=count)] = random.integers(2, size=count)
    points = np.repeat(box.mean(axis=0, keepdims=True), len(filled), axis=0)
    points[:, list(active)] = box[0, list(active)] + filled * (box[1] - box[0])[list(active)]
    return points


def evenly(count: int, n: int) -> Matrix:
    """Points that fill the unit cube evenly: multiples of the powers of the root of x^(n+1) = x + 1, without integers.

    Examples
    --------
    >>> evenly(3, 1)[:, 0].round(2)  # the golden section
    array([0.12, 0.74, 0.35])
    """
    root = 2.0
    for _ in range(50):
        root = (1 + root) ** (1 / (n + 1))
    return (0.5 + np.outer(np.arange(1, count + 1), root ** -np.arange(1.0, n + 1))) % 1


def terms_of(constraints: Sequence[Constraint], prototype: Array) -> list[Term]:
    """Those of constraints that have points; tensors on the device of the prototype where it is one."""
    terms = [one.term for one in constraints if len(one.places)]
    if isinstance(prototype, np.ndarray):
        return terms
    return [replace(term, functional=term.functional.like(prototype)) for term in terms]


MOST = 3000  # functionals of the data
LOOKED = 200  # points at which f is looked at; as many again on faces
LOOKS = 8
STEPS = 30  # of the active-set method, for each constraint: ten times the default of `scipy.optimize.nnls`
FAR = 0.1  # of the sides, the distance of points that are added at the first look; half of it at the next


class Scout:
    """f with constraints at points, for data with squared losses; the monitor ends it when its time is over."""

    def __init__(self, problem: Problem, monitor: Monitor | None = None) -> None:
        self.represented = problem.represented
        self.monitor = Monitor(0.0) if monitor is None else monitor
        system = in_memory(problem.system)
        with self.monitor.showing(FACTOR):
            self.saddle = Saddle(system.gram.dense(), 1 / (2 * system.weight[:, 0]), system.Q)
        self.a, self.c = self.saddle.solve(system.target)

    @staticmethod
    def fits(problem: Problem) -> bool:
        """Whether all losses are squared, of few functionals in NumPy."""
        quadratic = all(term.loss.quadratic for term in problem.terms)
        few = sum(term.functional.size for term in problem.terms) <= MOST
        exact = problem.approximation is None and problem.null_space == "kept"
        return quadratic and few and exact and isinstance(problem.represented.functionals.prototype, np.ndarray)

    def __call__(self, constraints: Sequence[Constraint]) -> Function:
        """f with these constraints."""
        used = [one for one in constraints if len(one.places)]
        if not used:
            return self.represented.function(Iterate(self.a, self.c))
        L = stack([one.functional for one in used])
        bounds = np.concatenate([np.full(len(one.places), one.bound) for one in used])
        kernel, basis = self.represented.kernel, self.represented.basis
        cross = gram(kernel, self.represented.functionals, L).in_double()
        B = np.zeros((L.size, 0)) if basis.space is None else np.asarray(on_basis(L, basis.space)) @ basis.back
        A, C = self.saddle.solve(cross, B.T)
        parts = gram(kernel, L).in_double(), cross.T @ A, B @ C
        sizes = np.max([np.abs(np.diag(part)) for part in parts], axis=0)
        G = parts[0] - parts[1] - parts[2]
        x = nonnegative(G, bounds - (cross.T @ self.a + B @ self.c)[:, 0], sizes)[:, None]
        data = self.represented.function(Iterate(self.a - A @ x, self.c - C @ x))
        return data + Function(kernel, L, x[:, 0])

    @classmethod
    def choose(cls, problem: Problem, constraints: Sequence[Constraint], monitor: Monitor) -> list[Constraint]:
        """Return the constraints at points where they are needed, so that the claims hold as far as this can see.

        It ends early, with the points found so far, when the monitor's time is over or the small problem cannot be
        solved: points only save rounds of the solver.
        """
        found = [one.without() for one in constraints]
        try:
            scout = cls(problem, monitor)
            f = scout(found)
            for look in range(LOOKS):
                monitor.check()
                broken = [one.where_broken(f, LOOKED) for one in found]
                if not any(len(places) for places, _ in broken):
                    break
                apart = max(APART, FAR / 2**look)
                found = [one.tight(f).also(*where, apart) for one, where in zip(found, broken, strict=True)]
                f = scout(found)
            return [one.tight(f) for one in found]
        except (Stopped, RuntimeError, np.linalg.LinAlgError):
            return found


def nonnegative(G: Matrix, r: Matrix, sizes: Matrix) -> Matrix:
    """Return the minimiser of 1/2 x'Gx - x'r over x >= 0, for G positive semidefinite up to rounding.

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
    roots = np.sqrt(np.maximum(values, len(G) * np.finfo(np.float64).eps))
    R, aim = roots[:, None] * vectors.T, vectors.T @ (right / largest) / roots
    return largest * scipy.optimize.nnls(R, aim, maxiter=STEPS * len(G))[0] / unit
