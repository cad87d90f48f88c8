"""Shapes that a learnt function has everywhere: constraints at points, a proof, and more points where it fails."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement
from numbers import Real
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from rkhs.backend.arrays import Array, to_numpy
from rkhs.calculus.polynomials import Polynomials
from rkhs.calculus.spaces import Space, SumOfSpaces
from rkhs.estimators.constraints import Constraint, terms_of
from rkhs.estimators.scout import Scout
from rkhs.estimators.shape_words import claims_of
from rkhs.estimators.targets import spread_of
from rkhs.finite.function import Function
from rkhs.finite.solution import INTERRUPTED, Solution
from rkhs.invariances.base import as_invariances
from rkhs.problem import Problem
from rkhs.problem.claims import Claim, check_provable
from rkhs.problem.lower import Lower
from rkhs.problem.shapes import PROVED, ClaimProof, prove

ROUNDS = 10  # of solving, proving and adding points
TILT = 0.02  # of the range of f, by which it may be changed to mend what is left
VOLUME = 20_000  # cells of a proof

Matrix = np.ndarray[Any, Any]


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
        return all(one.status == PROVED for one in self.proofs)

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
    points = to_numpy(X).astype(np.float64)
    n = points.shape[1]
    claims = claims_of(shape_of(machine), getattr(machine, "feature_names_in_", None), n)
    box = _box(getattr(machine, "shape_box", None), points)
    probe = Function(problem.kernel, problem.terms[0].functional.take([0]), [1.0])
    for claim in claims:
        check_provable(claim, probe, n)
    targets = to_numpy(problem.terms[0].told)
    size = spread_of(targets)
    constraints = [Constraint.of(claim, problem, box, size, machine.random_state) for claim in claims]
    if Scout.fits(problem):
        constraints = Scout(problem).chosen(constraints)
    options = {"tol": machine.tol, "verbose": machine.verbose or None}
    proving = _Proving(claims, box, machine.verbose, getattr(machine, "shape_time_limit", None))
    proofs: tuple[ClaimProof, ...] = ()
    stopped = False
    for _ in range(ROUNDS):
        whole = replace(problem, terms=[*problem.terms, *terms_of(constraints)])
        solution = whole.solve(getattr(machine, "solver", "auto"), **options)
        if solution.status == INTERRUPTED:
            raise KeyboardInterrupt  # a shape that is half asked for is none
        f = solution.function
        short = [one.short(f) for one in constraints]
        if any(short):
            constraints = [one.stronger() if weak else one for one, weak in zip(constraints, short, strict=True)]
            continue
        proofs = proving(f, hurried=True)
        stopped = any(proof.stopped for proof in proofs)
        if stopped or all(proof.status == PROVED for proof in proofs):
            break
        constraints = [
            one
            if proof.status == PROVED
            else one.tight(f).also(proof.candidates, proof.directions).roomier(-proof.least)
            for one, proof in zip(constraints, proofs, strict=True)
        ]
    f, *added = (f, {}, {}) if stopped else _mended(f, proofs, box, size)
    if any(added) or not (stopped or (proofs and all(proof.status == PROVED for proof in proofs))):
        proofs = proving(f)
    certificate = ShapeCertificate(proofs, box, sum(len(one.places) for one in constraints), *added)
    if not certificate.proved:
        warnings.warn(
            f"The shape is not proved on the whole box: {certificate}. More features that act together need more cells "
            "than there are; a sum of kernels of few features each (rkhs.kernels.additive) is proved by feature.",
            ConvergenceWarning,
            stacklevel=5,
        )
    return whole, solution, f, certificate


class _Proving:
    """Proofs of the same claims for one function after the other, which share the seconds that there are."""

    def __init__(self, claims: Sequence[Claim], box: Matrix, verbose: Any, seconds: float | None) -> None:
        if seconds is not None and not (isinstance(seconds, Real) and seconds > 0):
            raise ValueError(f"shape_time_limit is a positive number of seconds, or None, got {seconds!r}.")
        self.claims, self.box, self.verbose, self.left = claims, box, verbose or None, seconds

    def __call__(self, f: Function, hurried: bool = False) -> tuple[ClaimProof, ...]:
        start = perf_counter()
        limits: Any = {"cells": VOLUME, "seconds": self.left}
        proofs = prove(self.claims, f, self.box, hurried=hurried, verbose=self.verbose, **limits)
        if self.left is not None:
            self.left = max(self.left - (perf_counter() - start), 1e-3)
        return proofs


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
        claim, lacking = proof.claim, -proof.margin * (1 + 1e-9)
        if proof.status == PROVED or not 0 < lacking < np.inf:
            continue
        if claim.order == 1 and lacking * sides[claim.axes[0]] <= TILT * size:
            tilts[claim.axes[0]] = claim.sign * lacking
        if claim.order == 2:
            lower = Lower.of(claim, f, n)
            own = claim.jointly or claim.axes[:1]
            bent = lacking / (lower.units**2 if claim.jointly else np.ones(1))
            if np.sum(bent * sides[list(own)] ** 2) / 8 <= TILT * size:
                bends |= dict(zip(own, (claim.sign * bent).tolist(), strict=True))
    if not tilts and not bends:
        return f, {}, {}
    pairs = list(combinations_with_replacement(range(n), 2))
    slopes, curvatures = np.zeros(n), np.zeros(len(pairs))
    slopes[list(tilts)] = list(tilts.values())
    curvatures[[pairs.index((j, j)) for j in bends]] = [bent / 2 for bent in bends.values()]
    space: Space = Polynomials(2 if bends else 1, centre=(box[0] + box[1]) / 2)
    more = np.concatenate([[0.0], slopes, curvatures if bends else []])
    if f.basis is not None:
        space, more = SumOfSpaces((f.basis, space)), np.concatenate([to_numpy(f.basis_coefficients), more])
    return replace(f, basis=space, basis_coefficients=more), tilts, bends
