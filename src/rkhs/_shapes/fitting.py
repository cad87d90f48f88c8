"""Fits with shape constraints that hold everywhere: rounds of constraints at points, proofs, and more points."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from rkhs._backend.arrays import Matrix, double, to_numpy
from rkhs._calculus.function_spaces import FunctionSpace, Polynomials, SumOfSpaces, multi_indices
from rkhs._finite.function import Function
from rkhs._finite.solution import TIME_LIMIT, Solution
from rkhs._problem import Problem
from rkhs._progress import seconds_left, with_extended_deadline, with_time_limit
from rkhs._shapes.bounds import lower_bounds
from rkhs._shapes.claims import Claim, parse_shape
from rkhs._shapes.constraints import Constraint, can_seed, seeded, size_of, terms_of
from rkhs._shapes.derivatives import along
from rkhs._shapes.proofs import MOST_CELLS, PROVED, ClaimProof, prove
from rkhs._warnings import warn
from rkhs.invariances._base import as_invariances

ROUNDS = 10  # maximal number of rounds of solving, proving and adding points
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
        least_squares = None
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
            stopped = any(proof.stopped for proof in proofs)
            if stopped or all(proof.status == PROVED for proof in proofs):
                break
            before = constraints
            constraints = [c.refined(f, proof) for c, proof in zip(constraints, proofs, strict=True)]
            if constraints == before:
                break
        assert solution is not None
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
