"""Shapes that a learnt function has everywhere: constraints at points, a proof, and more points where it fails."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement
from numbers import Real
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from rkhs._backend.arrays import Array, Matrix, to_numpy
from rkhs._calculus.function_spaces import FunctionSpace, Polynomials, SumOfSpaces
from rkhs._finite.function import Function
from rkhs._finite.monitor import Monitor
from rkhs._finite.solution import TIME_LIMIT, Solution
from rkhs._shapes.bounds import Lower
from rkhs._shapes.claims import check_provable, claims_of
from rkhs._shapes.constraints import Constraint, Scout, size_of, terms_of
from rkhs._shapes.proofs import PROVED, ClaimProof, prove
from rkhs.invariances.base import as_invariances
from rkhs.problem import Problem

ROUNDS = 10  # of solving, proving and adding points
TILT = 0.02  # of the range of f, by which it may be changed to mend what is left
VOLUME = 20_000  # cells of a proof
SHARE = 0.3  # of the time limit, for the choice of points
GRACE = 0.5  # seconds that the first solution has in any case: without one there is no f


@dataclass(frozen=True, eq=False)
class ShapeCertificate:
    """What is proved about the shape of f, on which box.

    `proofs` has one `ClaimProof` for each claim: its status, the margin, the share of the box that is proved, and the
    place where it is least.  `tilted` are slopes that were added to f to mend what was left, by feature, and `bent`
    second derivatives.
    """

    proofs: tuple[ClaimProof, ...]
    box: Matrix
    points: int
    tilted: dict[int, float] = field(default_factory=dict)
    bent: dict[int, float] = field(default_factory=dict)

    @property
    def proved(self) -> bool:
        """Whether all claims are."""
        return bool(self.proofs) and all(one.status == PROVED for one in self.proofs)

    def __repr__(self) -> str:
        added = (("slopes", self.tilted), ("second derivatives", self.bent))
        mended = "".join(f", mended by {what} {numbers}" for what, numbers in added if numbers)
        return f"ShapeCertificate({'; '.join(map(repr, self.proofs))}; constraints at {self.points} points{mended})"


def shape_of(machine: Any) -> Any:
    """What a machine says of f everywhere: its `shape`, and invariances that hold everywhere; None for nothing."""
    given = getattr(machine, "shape", None)
    known = getattr(machine, "invariance", None)
    none = isinstance(known, str) or not getattr(machine, "nu", 1.0) > 0
    said = [one.promise for one in as_invariances(None if none else known) if one.promise is not None]
    if not said or not (given is None or isinstance(given, Mapping)):
        return given
    together: dict[Any, Any] = {}
    for one in [*said, {} if given is None else given]:
        for key, words in one.items():
            together[key] = words if key not in together else [*_listed(together[key]), *_listed(words)]
    return together


def _listed(words: Any) -> Any:
    return [words] if isinstance(words, str) else words


def shaped(machine: Any, problem: Problem, X: Array) -> tuple[Problem, Solution, Function, ShapeCertificate]:
    """Solve a problem whose f has the shape of a machine everywhere on the box of the points X; as far as it goes."""
    monitor = _monitor(machine)
    points = to_numpy(X).astype(np.float64)
    n = points.shape[1]
    claims = claims_of(shape_of(machine), getattr(machine, "feature_names_in_", None), n)
    box = _box(getattr(machine, "shape_box", None), points)
    probe = Function(problem.kernel, problem.terms[0].functional.take([0]), [1.0])
    for claim in claims:
        check_provable(claim, probe, n)
    solver, size = getattr(machine, "solver", "auto"), size_of(problem, claims)
    constraints = [Constraint.of(claim, problem, box, size, machine.random_state) for claim in claims]
    limited, stopped = monitor.time_limit is not None, False
    proofs: tuple[ClaimProof, ...] = ()

    def solved(asked: Problem, least: float = 0.0) -> Solution:
        seconds = max(monitor.left, least) if limited else None
        return asked.solve(solver, tol=machine.tol, time_limit=seconds, verbose=monitor.verbose)

    def proved(f: Function, hurried: bool = False) -> tuple[ClaimProof, ...]:
        seconds = max(monitor.left, 0.0) if limited else None
        return prove(claims, f, box, cells=VOLUME, seconds=seconds, hurried=hurried, verbose=monitor.verbose)

    if limited:  # the fit without a shape comes first: it takes least, and there has to be one
        whole, solution = problem, solved(problem, GRACE)
        f, stopped = solution.function, solution.status == TIME_LIMIT
    if Scout.fits(problem) and not stopped:
        share = replace(monitor, time_limit=monitor.seconds + SHARE * monitor.left if limited else None)
        constraints = Scout.choose(problem, constraints, share)
    for _ in range(ROUNDS):
        if stopped:
            break
        asked = replace(problem, terms=[*problem.terms, *terms_of(constraints, problem.terms[0].functional.prototype)])
        answer = solved(asked)
        stopped = monitor.left <= 0 or answer.status == TIME_LIMIT
        if answer.status == TIME_LIMIT:
            break  # the solution of the round before is kept: it is one
        whole, solution, f = asked, answer, answer.function
        proofs = ()  # of this f
        if stopped:
            break
        short = [one.short(f) for one in constraints]
        if any(short):
            constraints = [one.stronger() if weak else one for one, weak in zip(constraints, short, strict=True)]
            continue
        proofs = proved(f, hurried=True)
        stopped = any(proof.stopped for proof in proofs)
        if stopped or all(proof.status == PROVED for proof in proofs):
            break
        before, constraints = constraints, [one.after(f, proof) for one, proof in zip(constraints, proofs, strict=True)]
        if constraints == before:
            break
    f, *added = (f, {}, {}) if stopped else _mended(f, proofs, box, size)
    if any(added) or not proofs or not (stopped or all(proof.status == PROVED for proof in proofs)):
        proofs = proved(f)
    certificate = ShapeCertificate(proofs, box, sum(term.size for term in whole.terms[len(problem.terms) :]), *added)
    if not certificate.proved:
        warnings.warn(
            f"The shape is not proved on the whole box: {certificate}. {_remedy(certificate, stopped)}",
            ConvergenceWarning,
            stacklevel=5,
        )
    return whole, solution, f, certificate


def _remedy(certificate: ShapeCertificate, stopped: bool) -> str:
    """Return what to do about a shape that is not proved."""
    missing = [proof for proof in certificate.proofs if proof.status != PROVED]
    if stopped:
        return "It was stopped by a time limit: give it more time."
    if any(proof.hidden for proof in missing):
        return "f is a difference of numbers so large that rounding hides its shape: a smaller C makes them smaller."
    return (
        "A smaller C or a larger scale leaves less to be proved between points; more features that act together need "
        "more cells than there are, and a sum of kernels of few features each (rkhs.kernels.additive) is proved by "
        "feature."
    )


def _monitor(machine: Any) -> Monitor:
    """Return the clock of a whole fit with a shape: the choice of points, solutions and proofs share its seconds."""
    seconds = getattr(machine, "shape_time_limit", None)
    if seconds is not None and not (isinstance(seconds, Real) and 0 < float(seconds) < np.inf):
        raise ValueError(f"shape_time_limit is a positive number of seconds, or None, got {seconds!r}.")
    return Monitor(machine.tol, None if seconds is None else float(seconds), verbose=machine.verbose or None)


def _box(given: Any, points: Matrix) -> Matrix:
    if given is None:
        return np.stack([points.min(axis=0), points.max(axis=0)])
    box = np.array(given, dtype=np.float64)  # the model's own
    if box.shape != (2, points.shape[1]) or not np.all(box[1] >= box[0]) or not np.all(np.isfinite(box)):
        raise ValueError(
            f"shape_box has the lowest and the highest value of each feature, (2, {points.shape[1]}), got {given!r}."
        )
    return box


def _mended(
    f: Function, proofs: Sequence[ClaimProof], box: Matrix, size: float
) -> tuple[Function, dict[int, float], dict[int, float]]:
    """f plus small slopes and parabolas, where these are all that its own lack, and what was added, by feature."""
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
            units = Lower.of(claim, f, n).units if claim.jointly else np.ones(1)
            bent = lacking * (units.min() / units) ** 2  # as much for every feature in scales of the kernel
            if np.sum(bent * sides[list(own)] ** 2) / 8 <= TILT * size:
                bends |= dict(zip(own, (claim.sign * bent).tolist(), strict=True))
    if not tilts and not bends:
        return f, {}, {}
    pairs = list(combinations_with_replacement(range(n), 2))
    slopes, curvatures = np.zeros(n), np.zeros(len(pairs))
    slopes[list(tilts)] = list(tilts.values())
    curvatures[[pairs.index((j, j)) for j in bends]] = [bent / 2 for bent in bends.values()]
    space: FunctionSpace = Polynomials(2 if bends else 1, centre=(box[0] + box[1]) / 2)
    more = np.concatenate([[0.0], slopes, curvatures if bends else []])
    if f.basis is not None:
        space, more = SumOfSpaces((f.basis, space)), np.concatenate([to_numpy(f.basis_coefficients), more])
    return replace(f, basis=space, basis_coefficients=more), tilts, bends
