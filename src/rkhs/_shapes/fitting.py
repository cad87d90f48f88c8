"""Shapes that a learned function has everywhere: constraints at points, a proof, and more points where it fails."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

from rkhs._backend.arrays import Matrix, to_numpy
from rkhs._calculus.function_spaces import FunctionSpace, Polynomials, SumOfSpaces, multi_indices
from rkhs._finite.function import Function
from rkhs._finite.solution import TIME_LIMIT, Solution
from rkhs._problem import Problem
from rkhs._progress import granted, limited, seconds_left
from rkhs._shapes.bounds import lower_bounds
from rkhs._shapes.claims import parse_shape
from rkhs._shapes.constraints import Constraint, can_seed, seeded, size_of, terms_of
from rkhs._shapes.derivatives import along
from rkhs._shapes.proofs import PROVED, ClaimProof, prove
from rkhs._warnings import warn
from rkhs.invariances._base import as_invariances

ROUNDS = 10  # of solving, proving and adding points
TILT = 0.02  # of the range of f, by which it may be changed to mend what is left


@dataclass(frozen=True, eq=False)
class ShapeCertificate:
    """What is proved about the shape of f, on which box.

    `proofs` has one `ClaimProof` for each claim: its status, the margin, the share of the box that is proved, and the
    point where it is least.  `tilted` are slopes that were added to f to mend what was left, by feature, and `bent`
    second derivatives.
    """

    proofs: tuple[ClaimProof, ...]
    box: Matrix
    points: int
    tilted: dict[int, float] = field(default_factory=dict)
    bent: dict[int, float] = field(default_factory=dict)

    @property
    def proved(self) -> bool:
        """Whether all claims are proved."""
        return bool(self.proofs) and all(one.status == PROVED for one in self.proofs)

    def __repr__(self) -> str:
        added = (("slopes", self.tilted), ("second derivatives", self.bent))
        mended = "".join(f", mended by {what} {numbers}" for what, numbers in added if numbers)
        return f"ShapeCertificate({'; '.join(map(repr, self.proofs))}; constraints at {self.points} points{mended})"


@dataclass(frozen=True, eq=False)
class Shape:
    """The shape that a learned function has everywhere on a box; for the parameter `shape` of estimators.

    Parameters
    ----------
    constraints : dict
        For a feature, by its number or the name of its column, "increasing", "decreasing", "convex", "concave" or a
        list of these; for several features together, such as (0, 1), "convex" or "concave"; for "f" itself a pair of
        bounds, either of which may be None.
    box : array-like of shape (2, n), optional
        The lowest and the highest value of each feature; by default those of the training points.
    time_limit : float, optional
        Seconds for a fit, to about one second: the fit without the shape first, then constraints and proofs.  What is
        not proved by then is open in `shape_certificate_`, with a warning.

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
        """Return a shape as it is, or that of bare constraints."""
        return shape if isinstance(shape, Shape) else cls(shape)


def shape_of(estimator: BaseEstimator) -> Shape | None:
    """Return the shape of f everywhere: that of an estimator's `shape` and of invariances that hold everywhere."""
    given, known = getattr(estimator, "shape", None), getattr(estimator, "invariance", None)
    counts = getattr(estimator, "nu", 1.0) > 0 and not isinstance(known, str)
    said = [one.hard_constraint for one in as_invariances(known if counts else None) if one.hard_constraint is not None]
    if given is None and not said:
        return None
    shape = Shape.of({} if given is None else given)
    if not said or not isinstance(shape.constraints, Mapping):
        return shape
    together: dict[Any, list[Any]] = {}
    for one in [*said, shape.constraints]:
        for key, words in one.items():
            together.setdefault(key, []).append(words)
    for key, words in together.items():
        several = [word for some in words for word in ([some] if isinstance(some, str) else some)]
        together[key] = words[0] if len(words) == 1 else several
    return replace(shape, constraints=together)


def solve_with_shape(
    problem: Problem,
    shape: Shape,
    solve: Callable[[Problem], Solution],
    *,
    names: Sequence[str] | None = None,
    verbose: bool = False,
) -> tuple[Problem, Solution, Function, ShapeCertificate]:
    """Solve a problem whose f has a shape everywhere on a box, by default that of the problem's points.

    Each round solves the problem with constraints at points, tries a proof, and adds points where it fails.  The choice
    of points, solutions and proofs share the time limit.  Returns the problem with its constraints, its solution, f,
    which may be mended, and what is proved.
    """
    seconds = shape.time_limit
    if seconds is not None and not (isinstance(seconds, Real) and 0 < float(seconds) < np.inf):
        raise ValueError(f"time_limit of a Shape must be a positive number of seconds, or None, got {seconds!r}.")
    parts = [part for term in problem.terms for part in term.functional.parts]
    points = np.concatenate([to_numpy(part.atoms.points).astype(np.float64) for part in parts])
    claims, given = parse_shape(shape.constraints, names, points.shape[1]), shape.box
    box = np.array([points.min(axis=0), points.max(axis=0)] if given is None else given, dtype=np.float64)
    if box.shape != (2, points.shape[1]) or not np.all(box[1] >= box[0]) or not np.all(np.isfinite(box)):
        raise ValueError(
            f"box of a Shape must have the lowest and the highest value of each feature, (2, {points.shape[1]}), got "
            f"{given!r}."
        )
    size, solution = size_of(problem, claims), None
    proofs: tuple[ClaimProof, ...] = ()
    constraints = [Constraint.of(claim, problem, box, size) for claim in claims]
    with limited(None if seconds is None else float(seconds)):
        whole, stopped = problem, False
        if seconds_left() < np.inf:  # the fit without a shape comes first: it takes least, and there has to be one
            with granted(0.5):
                solution = solve(problem)
            stopped = solution.status == TIME_LIMIT
        if can_seed(problem) and not stopped:
            with limited(0.3 * seconds_left()):
                constraints = seeded(problem, constraints, verbose)
        for _ in range(0 if stopped else ROUNDS):
            terms = terms_of(constraints, problem.terms[0].functional.prototype)
            asked = replace(problem, terms=[*problem.terms, *terms])
            answer = solve(asked)
            stopped = seconds_left() <= 0 or answer.status == TIME_LIMIT
            if solution is None or answer.status != TIME_LIMIT:  # else the solution of the round before is kept
                whole, solution, proofs = asked, answer, ()
            if stopped:
                break
            f = solution.function
            weak = [bool(np.any(one.values(f) < one.claim.bound)) for one in constraints]  # f pays for breaking it
            if any(weak):
                both = zip(constraints, weak, strict=True)
                constraints = [replace(one, weight=100 * one.weight) if low else one for one, low in both]
                continue
            proofs = prove(claims, f, box, hurried=True, verbose=verbose)
            stopped = any(proof.stopped for proof in proofs)
            if stopped or all(proof.status == PROVED for proof in proofs):
                break
            before = constraints
            constraints = [one.after(f, proof) for one, proof in zip(constraints, proofs, strict=True)]
            if constraints == before:
                break
        assert solution is not None
        f, tilted, bent = _mended(solution.function, () if stopped else proofs, box, size)
        if tilted or bent or not proofs or not (stopped or all(proof.status == PROVED for proof in proofs)):
            proofs = prove(claims, f, box, verbose=verbose)
    count = sum(term.size for term in whole.terms[len(problem.terms) :])
    certificate = ShapeCertificate(proofs, box, count, tilted, bent)
    if not certificate.proved:
        warn(
            f"The shape is not proved on the whole box: {certificate}. {remedy(certificate, stopped)}",
            ConvergenceWarning,
        )
    return whole, solution, f, certificate


def remedy(certificate: ShapeCertificate, stopped: bool) -> str:
    """Return what to do about a shape that is not proved."""
    if stopped:
        return "It was stopped by a time limit: give it more time."
    if any(proof.hidden for proof in certificate.proofs):
        return "f is a difference of numbers so large that rounding hides its shape: a smaller C makes them smaller."
    return (
        "A smaller C or a larger scale leaves less to be proved between points; more features that act together need "
        "more cells than there are, and a sum of kernels of few features each (rkhs.kernels.additive) is proved by "
        "feature."
    )


def _mended(
    f: Function, proofs: Sequence[ClaimProof], box: Matrix, size: float
) -> tuple[Function, dict[int, float], dict[int, float]]:
    """Return f plus small slopes and parabolas, where these are all that it lacks, and what was added, by feature."""
    tilts: dict[int, float] = {}
    bends: dict[int, float] = {}
    n, sides = box.shape[1], box[1] - box[0]
    for proof in proofs:
        claim, lacking = proof.claim, -proof.margin * (1 + 1e-9)  # in units of the features
        if proof.status == PROVED or not 0 < lacking < np.inf:
            continue
        if claim.order == 1 and lacking * sides[claim.axes[0]] <= TILT * size:
            tilts[claim.axes[0]] = claim.sign * lacking
        if claim.order == 2:
            own = claim.jointly or claim.axes[:1]
            units = lower_bounds([claim], f)[0].units if claim.jointly else np.ones(1)
            bent = lacking * (units.min() / units) ** 2  # as much for every feature in scales of the kernel
            if np.sum(bent * sides[list(own)] ** 2) / 8 <= TILT * size:
                bends |= dict(zip(own, (claim.sign * bent).tolist(), strict=True))
    if not tilts and not bends:
        return f, {}, {}
    degree = 2 if bends else 1
    space: FunctionSpace = Polynomials(degree, center=(box[0] + box[1]) / 2)
    added = {along([j], n): tilt for j, tilt in tilts.items()} | {along([j, j], n): b / 2 for j, b in bends.items()}
    coefficients = np.array([added.get(index, 0.0) for index in multi_indices(degree, range(n), n)])
    if f.basis is not None:
        space = SumOfSpaces((f.basis, space))
        coefficients = np.concatenate([to_numpy(f.basis_coefficients), coefficients])
    return replace(f, basis=space, basis_coefficients=coefficients), tilts, bends
