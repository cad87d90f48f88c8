"""Shapes that a learnt function has everywhere: constraints at points, a proof, and more points where it fails."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from rkhs.backend.arrays import Array, to_numpy
from rkhs.calculus.polynomials import Polynomials
from rkhs.calculus.spaces import SumOfSpaces
from rkhs.finite.function import Function
from rkhs.finite.solution import INTERRUPTED, Solution
from rkhs.finite.term import Term
from rkhs.gram import gram
from rkhs.losses import OneSided
from rkhs.problem import Problem
from rkhs.problem.shapes import PROVED, Claim, ClaimProof, check_provable, prove

KINDS = {"increasing": (1, 1.0), "decreasing": (1, -1.0), "convex": (2, 1.0), "concave": (2, -1.0)}
FIRST = 32  # points of the box with constraints from the beginning; as many again on its faces
MORE = 12  # points that are added where a proof fails, apart from each other by
APART = 0.03  # of the sides of the box
ROUNDS = 10  # of proving and adding points
ROOM = 1e-3  # of the typical size of a derivative, by which constraints at points are tighter than what is claimed
SLACK = 20.0  # times that room: constraints with more than this are left out of the next round
TILT = 0.02  # of the range of f, by which it may be changed to mend what is left
VOLUME = 20_000  # cells of a proof

Matrix = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class ShapeCertificate:
    """What is proved about the shape of f, on which box.

    `proofs` has one `ClaimProof` for each claim: its status, the margin, the share of the box that is proved, and the
    place where it is least.  `tilted` are slopes that were added to f to mend what was left, by feature.
    """

    proofs: tuple[ClaimProof, ...]
    box: Matrix
    points: int
    tilted: dict[int, float]

    @property
    def proved(self) -> bool:
        """Whether all claims are."""
        return all(one.status == PROVED for one in self.proofs)

    def __repr__(self) -> str:
        tilts = f", mended by slopes {self.tilted}" if self.tilted else ""
        return f"ShapeCertificate({'; '.join(map(repr, self.proofs))}; constraints at {self.points} points{tilts})"


def claims_of(shape: Any, names: Sequence[str] | None, n: int) -> list[Claim]:
    """What a `shape` says, as claims.

    Examples
    --------
    >>> [claim.name for claim in claims_of({0: ["increasing", "concave"], "f": (0, None)}, None, 2)]
    ['f is increasing in feature 0', 'f is concave in feature 0', 'f is at least 0']
    """
    if not isinstance(shape, Mapping) or not shape:
        raise ValueError(
            f'shape says what f does with a feature, such as {{"age": "increasing", 3: "convex", "f": (0, 1)}}, got '
            f"{shape!r}."
        )
    found = []
    for key, said in shape.items():
        if isinstance(key, str) and key == "f" and "f" not in list(names if names is not None else ()):
            found += _bounds(said)
            continue
        feature = _feature(key, names, n)
        called = f"feature {key!r}"
        words = [said] if isinstance(said, str) else list(said)
        for word in words:
            if word not in KINDS:
                raise ValueError(f"shape of {called} is one of {', '.join(KINDS)}, or a list of them, got {word!r}.")
            order, sign = KINDS[word]
            found.append(Claim(f"f is {word} in {called}", (feature,) * order, sign))
    _check_consistent(found)
    return found


def _check_consistent(claims: Sequence[Claim]) -> None:
    for i, one in enumerate(claims):
        for other in claims[:i]:
            if one.axes and one.axes == other.axes and one.sign != other.sign:
                raise ValueError(
                    f"The shape contradicts itself: {other.name}, and {one.name}. Only "
                    f"{'a function that ignores it' if len(one.axes) == 1 else 'a straight line'} is both: leave one "
                    "out, or the feature."
                )


def _bounds(said: Any) -> list[Claim]:
    if not (isinstance(said, Sequence) and len(said) == 2 and all(b is None or isinstance(b, Real) for b in said)):
        raise ValueError(f'shape of "f" is a pair of bounds, such as (0, 1) or (0, None), got {said!r}.')
    low, high = (None if b is None else float(b) for b in said)
    if low is not None and high is not None and not low < high:
        raise ValueError(f"The shape contradicts itself: f between {low:g} and {high:g}.")
    found = [] if low is None else [Claim(f"f is at least {low:g}", (), 1.0, low)]
    return found if high is None else [*found, Claim(f"f is at most {high:g}", (), -1.0, -high)]


def _feature(key: Any, names: Sequence[str] | None, n: int) -> int:
    if isinstance(key, str):
        places = {} if names is None else {name: k for k, name in enumerate(names)}
        if key not in places:
            has = f"Its columns are {', '.join(map(repr, places))}." if places else "It has no column names."
            raise ValueError(f"shape names a column that X does not have: {key!r}. {has}")
        return places[key]
    if not isinstance(key, int | np.integer) or not -n <= key < n:
        raise ValueError(f"shape names feature {key!r}; X has features 0 to {n - 1}.")
    return int(key) % n


def shaped(machine: Any, problem: Problem, X: Array) -> tuple[Problem, Solution, Function, ShapeCertificate]:
    """Solve a problem whose f has the shape of a machine everywhere on the box of the points X; as far as it goes."""
    points = to_numpy(X).astype(np.float64)
    n = points.shape[1]
    claims = claims_of(machine.shape, getattr(machine, "feature_names_in_", None), n)
    box = _box(getattr(machine, "shape_box", None), points)
    probe = Function(problem.kernel, problem.terms[0].functional.take([0]), [1.0])
    for claim in claims:
        check_provable(claim, probe, n)
    targets = to_numpy(problem.terms[0].told)
    size = float(np.nanmax(targets) - np.nanmin(targets)) or 1.0
    constraints = [Constraint.of(claim, problem, box, size, machine.random_state) for claim in claims]
    options = {name: getattr(machine, name) for name in ("tol", "verbose")}
    proofs: list[ClaimProof] = []
    for _ in range(ROUNDS):
        whole = replace(problem, terms=[*problem.terms, *(one.term for one in constraints)])
        solution = whole.solve(getattr(machine, "solver", "auto"), **options)
        if solution.status == INTERRUPTED:
            raise KeyboardInterrupt  # a shape that is half proved is none
        short = [one.short(solution.function) for one in constraints]
        if any(short):
            constraints = [one.stronger() if weak else one for one, weak in zip(constraints, short, strict=True)]
            continue
        proofs = [prove(one.claim, solution.function, box, cells=VOLUME, hurried=True) for one in constraints]
        if all(proof.status == PROVED for proof in proofs):
            break
        constraints = [one.more(proof, solution.function) for one, proof in zip(constraints, proofs, strict=True)]
    f, tilted = _mended(solution.function, proofs, box, size)
    if tilted or not (proofs and all(proof.status == PROVED for proof in proofs)):
        proofs = [prove(one.claim, f, box, cells=VOLUME) for one in constraints]
    certificate = ShapeCertificate(tuple(proofs), box, sum(len(one.places) for one in constraints), tilted)
    if not certificate.proved:
        warnings.warn(
            f"The shape is not proved on the whole box: {certificate}. More features that act together need more cells "
            "than there are; a sum of kernels of few features each (rkhs.kernels.additive) is proved by feature.",
            ConvergenceWarning,
            stacklevel=5,
        )
    return whole, solution, f, certificate


@dataclass(frozen=True, eq=False)
class Constraint:
    """A claim at points: weight * max(0, bound + room - L_x f), with a weight that makes it hold."""

    claim: Claim
    places: Matrix
    room: float
    weight: float

    @classmethod
    def of(cls, claim: Claim, problem: Problem, box: Matrix, size: float, seed: Any) -> Constraint:
        """With the first points, which fill the box and its faces evenly."""
        low, high = box
        n = len(low)
        random = np.random.default_rng(seed if isinstance(seed, int) else 0)
        filled = np.linspace(0, 1, FIRST)[:, None]
        if n > 1:
            filled = evenly(2 * FIRST, n)
            filled[np.arange(FIRST), random.integers(n, size=FIRST)] = random.integers(2, size=FIRST)
        places = low + filled * (high - low)
        spread = np.prod([(high - low)[axis] or 1.0 for axis in claim.axes]) if claim.axes else 1.0
        norm = float(np.sqrt(to_numpy(gram(problem.kernel, claim.at(places[:1])).diagonal())[0]))
        total = sum(float(np.sum(to_numpy(term.weights()))) for term in problem.terms)
        return cls(claim, places, ROOM * size / float(spread), 2 * total * size / norm)

    @property
    def term(self) -> Term:
        return Term(self.claim.at(self.places), OneSided(), self.claim.bound + self.room, self.weight)

    def short(self, f: Any) -> bool:
        """Whether f pays for breaking it at a point, rather than holding it."""
        return bool(np.min(to_numpy(self.claim.at(self.places)(f))) < self.claim.bound)

    def stronger(self) -> Constraint:
        return replace(self, weight=100 * self.weight)

    def more(self, proof: ClaimProof, f: Any) -> Constraint:
        """The same at some points where the proof failed, the worst first, and without those where there is room."""
        if proof.status == PROVED:
            return self
        tight = to_numpy(self.claim.at(self.places)(f)) < self.claim.bound + SLACK * self.room
        sides = np.where(proof.box[1] > proof.box[0], proof.box[1] - proof.box[0], 1.0)
        chosen = np.zeros((0, len(sides)))
        for place in proof.candidates:
            if np.all(np.abs((chosen - place) / sides).max(axis=1, initial=0.0) > APART) and len(chosen) < MORE:
                chosen = np.concatenate([chosen, place[None]])
        return replace(self, places=np.concatenate([self.places[tight], chosen]))


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


def _box(given: Any, points: Matrix) -> Matrix:
    if given is None:
        return np.stack([points.min(axis=0), points.max(axis=0)])
    box = np.asarray(given, dtype=np.float64)
    if box.shape != (2, points.shape[1]) or not np.all(box[1] >= box[0]) or not np.all(np.isfinite(box)):
        raise ValueError(
            f"shape_box has the lowest and the highest value of each feature, (2, {points.shape[1]}), got {given!r}."
        )
    return box


def _mended(f: Function, proofs: Sequence[ClaimProof], box: Matrix, size: float) -> tuple[Function, dict[int, float]]:
    """f plus small slopes, where these are all that its own lack."""
    tilts: dict[int, float] = {}
    for proof in proofs:
        lacking = -proof.margin
        if proof.status != PROVED and len(proof.claim.axes) == 1 and np.isfinite(lacking) and lacking > 0:
            axis = proof.claim.axes[0]
            if lacking * (box[1] - box[0])[axis] <= TILT * size:
                tilts[axis] = proof.claim.sign * lacking * (1 + 1e-9)
    if not tilts:
        return f, {}
    n = box.shape[1]
    slopes = np.zeros(n + 1)
    slopes[[1 + axis for axis in tilts]] = list(tilts.values())
    spaces = [Polynomials(1)] if f.basis is None else [f.basis, Polynomials(1)]
    own = [] if f.basis_coefficients is None else [to_numpy(f.basis_coefficients)]
    basis = SumOfSpaces(tuple(spaces)) if len(spaces) > 1 else spaces[0]
    return replace(f, basis=basis, basis_coefficients=np.concatenate([*own, slopes])), tilts
