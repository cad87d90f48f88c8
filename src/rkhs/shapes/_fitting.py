"""Fits with shape constraints that hold everywhere: rounds of constraints at points, proofs, and more points.

*Seeding.*  If all losses are squared, the points that need a constraint are found in advance.  With the saddle point
system of the data factorized once, the minimizer with constraints L f >= b at points is

    f = f_0 + sum_m x_m z~_m,     x >= 0 the minimizer of 1/2 x'G~x - x'(b - L f_0)

with the Gram matrix G~ of L conditioned on the data.  This is so cheap that points can be added many times.  The result
is where the solver starts, which usually has nothing left to do: only its certificate is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np
import scipy  # imports scipy.optimize lazily
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from rkhs import Constant, Polynomials, Problem, Term, gram
from rkhs._core.backend.arrays import EPS
from rkhs._core.calculus.function_spaces import SumOfSpaces, multi_indices
from rkhs._core.finite.basis import on_basis
from rkhs._core.finite.function import Function
from rkhs._core.finite.monitor import FACTOR
from rkhs._core.finite.solution import TIME_LIMIT, Solution
from rkhs._core.linalg.saddle import Saddle
from rkhs._core.progress import seconds_left, with_extended_deadline, with_time_limit
from rkhs.extend import Array, FunctionSpace, Iterate, Matrix, Monitor, Stopped, double, to_numpy, warn
from rkhs.functionals import Evaluation, Functional, stack
from rkhs.invariances._base import as_invariances
from rkhs.losses import OneSided
from rkhs.shapes._bounds import along, check_provable, lower_bounds
from rkhs.shapes._claims import Claim, parse_shape
from rkhs.shapes._proofs import MOST_CELLS, PROVED, WORK, ClaimProof, prove
from rkhs.solvers._base import in_numpy
from rkhs.solvers._conditioned import factorable

ROUNDS = 10  # maximal number of rounds of solving, proving and adding points
FIRST = 32  # number of initial points in the box; as many again are on its faces
MARGIN = 2e-3  # margin by which constraints at points exceed the claim, relative to the typical size of the derivative
APART = 0.03  # minimal distance between points that are added together, relative to the sides of the box
LOOKS = 8  # maximal number of rounds of seeding
LOOKED = 200  # candidate points of a round of seeding; as many again are on the faces of the box
TILT = 0.02  # maximal correction of f by linear and quadratic functions, relative to the size of f


@dataclass(frozen=True, eq=False)
class ShapeCertificate:
    """The proof that a learned function has a shape everywhere on a box.

    Attributes
    ----------
    proofs : tuple of ClaimProof
        One proof for each claim of the shape: its status ("proved", "fails" or "open"), its margin, the share of the
        box on which it is proved, and the point with the least value.
    box : ndarray of shape (2, n)
        The lowest and the highest value of each feature.
    points : int
        The number of points with constraints.
    tilted : dict
        The slopes that were added to f to correct small violations, by feature.
    bent : dict
        The second derivatives that were added to f to correct small violations, by feature.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> model = rkhs.InvariantRegressor(scale=1.0, shape={0: "increasing"}).fit(X, np.tanh(X[:, 0] - 3))
    >>> certificate = model.shape_certificate_
    >>> certificate.proved, certificate.proofs[0].status
    (True, 'proved')
    """

    proofs: tuple[ClaimProof, ...]
    box: Matrix
    points: int
    tilted: dict[int, float] = field(default_factory=dict)
    bent: dict[int, float] = field(default_factory=dict)

    @property
    def proved(self) -> bool:
        """Whether all claims are proved."""
        return bool(self.proofs) and all(proof.status == PROVED for proof in self.proofs)

    def __repr__(self) -> str:
        added = (("slopes", self.tilted), ("second derivatives", self.bent))
        corrected = "".join(f", corrected by {what} {numbers}" for what, numbers in added if numbers)
        return f"ShapeCertificate({'; '.join(map(repr, self.proofs))}; constraints at {self.points} points{corrected})"


@dataclass(frozen=True, eq=False)
class Shape:
    """The shape that a learned function must have everywhere on a box, for the parameter `shape` of estimators.

    Parameters
    ----------
    constraints : dict
        For a feature, by its index or the name of its column, "increasing", "decreasing", "convex", "concave" or a
        list of these; for several features together, such as (0, 1), "convex" or "concave"; for "f" itself a pair of
        bounds, either of which may be None.
    box : array-like of shape (2, n), optional
        The lowest and the highest value of each feature; by default those of the training points.
    time_limit : float, optional
        The time limit of a fit in seconds, accurate to about one second: first for the fit without the shape, then for
        constraints and proofs.  Claims that are not proved by then are "open" in `shape_certificate_`, and a warning is
        issued.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> shape = rkhs.Shape({0: "increasing", "f": (-1, 1.2)}, box=[[0.0], [7.0]])
    >>> rkhs.InvariantRegressor(scale=1.0, shape=shape).fit(X, np.tanh(X[:, 0] - 3)).shape_certificate_.proved
    True
    """

    constraints: Mapping[Any, Any]
    box: Any = None
    time_limit: float | None = None

    @classmethod
    def of(cls, shape: Any) -> Shape:
        """Convert a dictionary of constraints to a shape.

        Parameters
        ----------
        shape : Shape or dict
            A shape, or its constraints.

        Returns
        -------
        Shape
            The shape.
        """
        return shape if isinstance(shape, Shape) else cls(shape)


def shape_of(estimator: BaseEstimator) -> Shape | None:
    """Combine the `shape` of an estimator and the hard constraints of its invariances; return None without any."""
    parameter, invariance = getattr(estimator, "shape", None), getattr(estimator, "invariance", None)
    used = invariance if getattr(estimator, "nu", 1.0) > 0 and not isinstance(invariance, str) else None
    hard = [one.shape_constraint for one in as_invariances(used) if one.shape_constraint is not None]
    if parameter is None and not hard:
        return None
    shape = Shape.of({} if parameter is None else parameter)
    if not hard or not isinstance(shape.constraints, Mapping):
        return shape
    merged: dict[Any, list[Any]] = {}
    for constraints in [*hard, shape.constraints]:
        for key, value in constraints.items():
            merged.setdefault(key, []).append(value)
    for key, values in merged.items():
        words = [word for value in values for word in ([value] if isinstance(value, str) else value)]
        merged[key] = values[0] if len(values) == 1 else words
    return replace(shape, constraints=merged)


def solve_with_shape(
    problem: Problem,
    shape: Shape,
    solve: Callable[..., Solution],
    *,
    names: Sequence[str] | None = None,
    verbose: bool = False,
) -> tuple[Problem, Solution, Function, ShapeCertificate]:
    """Solve a problem with a shape that holds everywhere on a box, by default the bounding box of the problem's points.

    Each round solves the problem with constraints at points, attempts a proof, and adds points where it fails.  `solve`
    takes a problem and optionally a function from which to start.
    Seeding, solutions and proofs share the time limit.  Returns the problem with its constraints, its solution, f,
    which may have a small correction, and the certificate of the shape.
    """
    seconds = shape.time_limit
    if seconds is not None and not (isinstance(seconds, Real) and 0 < float(seconds) < np.inf):
        raise ValueError(f"time_limit of a Shape must be a positive number of seconds, or None, got {seconds!r}.")
    parts = [part for term in problem.terms for part in term.functional.parts]
    points = np.concatenate([double(part.atoms.points) for part in parts])
    claims, given = parse_shape(shape.constraints, names, points.shape[1]), shape.box
    box = np.array([points.min(axis=0), points.max(axis=0)] if given is None else given, dtype=np.float64)
    if box.shape != (2, points.shape[1]) or not np.all(box[1] >= box[0]) or not np.all(np.isfinite(box)):
        raise ValueError(
            f"box of a Shape must have the lowest and the highest value of each feature, (2, {points.shape[1]}), got "
            f"{given!r}."
        )
    warn_of_cost(problem, claims, box)
    size, solution = size_of(problem, claims), None
    proofs: tuple[ClaimProof, ...] = ()
    constraints = [Constraint.of(claim, problem, box, size) for claim in claims]
    with with_time_limit(None if seconds is None else float(seconds)):
        constrained, stopped = problem, False
        if seconds_left() < np.inf:  # the fit without a shape is the fastest, and guarantees a solution
            with with_extended_deadline(0.5):
                solution = solve(problem)
            stopped = solution.status == TIME_LIMIT
        least_squares, work = None, 0.0
        if can_seed(problem) and not stopped:
            with with_time_limit(0.3 * seconds_left()):
                constraints, least_squares = seeded(problem, constraints, verbose)
        for _ in range(0 if stopped else ROUNDS):
            terms = terms_of(constraints, problem.terms[0].functional.prototype)
            candidate = replace(problem, terms=[*problem.terms, *terms])
            result = solve(candidate, None if least_squares is None else least_squares.start(constraints))
            stopped = seconds_left() <= 0 or result.status == TIME_LIMIT
            if solution is None or result.status != TIME_LIMIT:  # otherwise keep the solution of the previous round
                constrained, solution, proofs = candidate, result, ()
            if stopped:
                break
            f = solution.function
            violated = [bool(np.any(c.values(f) < c.claim.bound)) for c in constraints]  # their weights are too small
            if any(violated):
                pairs = zip(constraints, violated, strict=True)
                constraints = [replace(c, weight=100 * c.weight) if increase else c for c, increase in pairs]
                continue
            proofs = prove(claims, f, box, skip_failing=True, verbose=verbose)
            stopped, work = any(proof.stopped for proof in proofs), work + sum(proof.work for proof in proofs)
            if stopped or work > WORK or all(proof.status == PROVED for proof in proofs):
                break
            before = constraints
            constraints = [c.refined(f, proof) for c, proof in zip(constraints, proofs, strict=True)]
            if constraints == before:
                break
        assert solution is not None
        check_provable(claims[0], solution.function)
        f, tilted, bent = _corrected(solution.function, () if stopped else proofs, box, size)
        if tilted or bent or not proofs or not (stopped or all(proof.status == PROVED for proof in proofs)):
            proofs = prove(claims, f, box, verbose=verbose)
    count = sum(term.size for term in constrained.terms[len(problem.terms) :])
    certificate = ShapeCertificate(proofs, box, count, tilted, bent)
    if not certificate.proved:
        warn(
            f"The shape is not proved on the whole box: {certificate}. {remedy(certificate, stopped)}",
            ConvergenceWarning,
        )
    return constrained, solution, f, certificate


def warn_of_cost(problem: Problem, claims: Sequence[Claim], box: Matrix) -> None:
    """Warn, before anything is computed, if the proof of a claim is expected to take more cells than are tried."""
    zero = Function(problem.kernel, problem.terms[0].functional.take(np.arange(1)), np.zeros(1))
    hardest = max(lower_bounds(claims, zero), key=lambda lower: lower.expected_cells(box))
    cells = hardest.expected_cells(box)
    if cells > MOST_CELLS:
        one_each = (
            "Bounds of f itself involve all features of any kernel: leave them out."
            if hardest.claim.order == 0
            else "A sum of kernels of one feature each, such as kernel=rkhs.kernels.additive(rkhs.Gaussian(scale=1.0), "
            f"{box.shape[1]}) for standardized features, is proved feature by feature in seconds."
        )
        warn(
            f"The shape will probably not be proved, after minutes: that {hardest.claim.name} is a claim about "
            f"{len(hardest.active)} interacting features, whose box needs about {cells:.0e} cells, and {MOST_CELLS:,} "
            f"are tried. {one_each} rkhs.Shape(.., time_limit=60) limits the time, and verbose=True shows the progress."
        )


def remedy(certificate: ShapeCertificate, stopped: bool) -> str:
    """Return advice for a shape that is not proved."""
    if stopped:
        return "A time limit stopped the proof: increase the time limit."
    if any(proof.hidden for proof in certificate.proofs):
        return "f is a difference of numbers so large that rounding hides its shape: a smaller C makes them smaller."
    return (
        "A smaller C or a larger scale makes the claims between points easier to prove. Many interacting features need "
        "too many cells; a sum of kernels of few features each (rkhs.kernels.additive) is proved feature by feature."
    )


def _corrected(
    f: Function, proofs: Sequence[ClaimProof], box: Matrix, size: float
) -> tuple[Function, dict[int, float], dict[int, float]]:
    """Return f plus small linear and quadratic functions that make it satisfy the claims, and these, by feature."""
    slopes: dict[int, float] = {}
    curvatures: dict[int, float] = {}
    n, sides = box.shape[1], box[1] - box[0]
    for proof in proofs:
        claim, deficit = proof.claim, -proof.margin * (1 + 1e-9)  # in units of the features
        if proof.status == PROVED or not 0 < deficit < np.inf:
            continue
        if claim.order == 1 and deficit * sides[claim.axes[0]] <= TILT * size:
            slopes[claim.axes[0]] = claim.sign * deficit
        if claim.order == 2:
            features = claim.jointly or claim.axes[:1]
            units = lower_bounds([claim], f)[0].units if claim.jointly else np.ones(1)
            curvature = deficit * (units.min() / units) ** 2  # the same for every feature in length scales
            if np.sum(curvature * sides[list(features)] ** 2) / 8 <= TILT * size:
                curvatures |= dict(zip(features, (claim.sign * curvature).tolist(), strict=True))
    if not slopes and not curvatures:
        return f, {}, {}
    degree = 2 if curvatures else 1
    space: FunctionSpace = Polynomials(degree, center=(box[0] + box[1]) / 2)
    added = {along([j], n): slope for j, slope in slopes.items()}
    added |= {along([j, j], n): curvature / 2 for j, curvature in curvatures.items()}
    coefficients = np.array([added.get(index, 0.0) for index in multi_indices(degree, range(n), n)])
    if f.basis is not None:
        space = SumOfSpaces((f.basis, space))
        coefficients = np.concatenate([to_numpy(f.basis_coefficients), coefficients])
    return replace(f, basis=space, basis_coefficients=coefficients), slopes, curvatures


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
        touching = proof.hidden and hidden <= self.room  # f is at its bound, and not by rounding
        result = (
            self if proof.hidden and not touching else self.active_at(f).with_points(proof.candidates, proof.directions)
        )
        deficit = hidden - float(lower.at(proof.worst[None])[0][0])
        room = min(self.room + deficit, 4 * self.room, self.max_room)
        return replace(result, room=room) if room > self.room else result

    def violations(self, f: Function) -> tuple[Matrix, Matrix]:
        """Return points where the claim fails, in the order of the violation, and the directions of Hessians there.

        The candidates fill the box evenly; if the claim holds at all of them, the lowest ones are moved downhill.
        """
        X = space_filling_points(LOOKED, self.box, self.active, np.random.default_rng(0))
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
            f, work = solve(seeds), 0
            for k in range(LOOKS):
                monitor.check()
                work += sum(LOOKED * lower.work_at for lower in lower_bounds([c.claim for c in seeds], f))
                if work > WORK:
                    break
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
