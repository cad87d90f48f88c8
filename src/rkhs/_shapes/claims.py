"""What can be claimed of a function everywhere on a box, and of which functions it can be proved.

What a `shape` says in words, as claims: {"age": "increasing", 3: "convex", (0, 1): "concave", "f": (0, 1)}.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from numbers import Real
from typing import Any

import numpy as np

from rkhs._backend.arrays import Matrix
from rkhs._calculus.atoms import Atoms
from rkhs._calculus.function_spaces import Polynomials, SumOfSpaces
from rkhs._finite.function import Function
from rkhs._shapes.derivatives import axis_factors
from rkhs.functionals.base import Combination, Functional, Part
from rkhs.kernels.algebra import Multiple, Pullback, Sum
from rkhs.kernels.base import Kernel


@dataclass(frozen=True)
class Claim:
    """What f is said to do everywhere on a box.

        sign * D_axes f >= bound            a slope for one axis, a second derivative for two, a value for none
        sign * Hessian of f in `jointly`    has no eigenvalue below zero: f is convex (concave) in all these features

    Eigenvalues are compared in units of the kernel's scales (`Lower.units`), which do not change their signs.
    """

    name: str
    axes: tuple[int, ...] = ()
    sign: float = 1.0
    bound: float = 0.0
    jointly: tuple[int, ...] = ()

    @property
    def order(self) -> int:
        """Of the derivatives."""
        return 2 if self.jointly else len(self.axes)

    @property
    def entries(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """The axes of each entry of the matrix whose eigenvalues are claimed to be at least the bound."""
        if not self.jointly:
            return ((self.axes,),)
        return tuple(tuple((j, k) for k in self.jointly) for j in self.jointly)

    def at(self, X: Matrix, directions: Matrix | None = None) -> Functional:
        """sign * D_axes at the rows of X, (t,); for Hessians sign * D_v D_v, v the rows of `directions` (t, n)."""
        n = X.shape[1]
        if self.jointly:
            assert directions is not None, "a Hessian is looked at along directions"
            atoms = Atoms(X, np.repeat(directions[:, None, None, :], 2, axis=2))
        else:
            atoms = Atoms(X, np.eye(n)[list(self.axes)].reshape(1, -1, n))
        return self.sign * Combination((len(X),), (Part(atoms),), self.name)


def acting(kernel: Kernel, claim: Claim, n: int) -> tuple[Kernel | None, tuple[int, ...]]:
    """The summands of a kernel that have a say in a claim, and the features that those depend on.

    A derivative sees the summands that depend on all its features, a Hessian those that depend on one of them.
    """
    parts, active = [], set()
    for weight, summand in kernel.summands():
        own = depends_on(summand, n)
        if own & set(claim.jointly) if claim.jointly else set(claim.axes) <= own:
            parts.append(Multiple(weight, summand))
            active |= own
    if not parts:
        return None, ()
    return (Sum(tuple(parts)) if len(parts) > 1 else parts[0]), tuple(sorted(active))


def depends_on(kernel: Kernel, n: int) -> set[int]:
    """The features that a kernel depends on."""
    if isinstance(kernel, Pullback):
        used = np.any(kernel.linear != 0, axis=0) if kernel.linear.ndim == 2 else kernel.linear != 0
        return set(np.flatnonzero(used).tolist())
    return set(range(n))


def degree_of(f: Any) -> int | None:
    """The degree of the polynomials in the basis of f, -1 without them; None for other functions."""
    spaces: Any = f.basis.spaces if isinstance(f.basis, SumOfSpaces) else [f.basis or Polynomials(-1)]
    return max(space.degree for space in spaces) if all(isinstance(space, Polynomials) for space in spaces) else None


def check_provable(claim: Claim, f: Any, n: int) -> None:
    """Refuse functions whose derivatives have no bound from their norm."""
    if not isinstance(f, Function) or f.outputs is not None:
        raise ValueError("Shapes are proved for functions of one output that are sums of representers.")
    degree = degree_of(f)
    radial = all(axis_factors(kernel, n) is not None for _, kernel in f.kernel.summands())
    if f.kernel.order or degree is None or degree > 2 or not radial:
        basis = "" if degree is not None and degree <= 2 else f" with {f.basis!r}"
        raise ValueError(
            f"A proof needs a kernel of x - y with a scale for each feature, or a sum of such ones, and no basis but "
            f"polynomials of degree two: {f.kernel!r}{basis} is none."
        )
    needed = max(claim.order + 2, degree + 1)  # Taylor's polynomial has all of the basis
    if not needed < f.kernel.smoothness(n):
        remedy = f.kernel.smoother(needed, n) or "rkhs.Gaussian()"
        raise ValueError(
            f"That {claim.name} everywhere is proved by derivatives of order {needed}, which {f.kernel!r} does not "
            f"bound: use {remedy}."
        )


KINDS = {"increasing": (1, 1.0), "decreasing": (1, -1.0), "convex": (2, 1.0), "concave": (2, -1.0)}


def claims_of(shape: Any, names: Sequence[str] | None, n: int) -> list[Claim]:
    """What a `shape` says, as claims.

    Examples
    --------
    >>> [claim.name for claim in claims_of({0: ["increasing", "concave"], "f": (0, None)}, None, 2)]
    ['f is increasing in feature 0', 'f is concave in feature 0', 'f is at least 0']
    >>> claims_of({(0, 1): "convex"}, None, 3)[0].name
    'f is convex in features 0 and 1 together'
    """
    if not isinstance(shape, Mapping) or not shape:
        raise ValueError(
            f'shape says what f does with a feature, such as {{"age": "increasing", 3: "convex", "f": (0, 1)}}, got '
            f"{shape!r}."
        )
    found: list[Claim] = []
    for key, said in shape.items():
        if isinstance(key, str) and key == "f" and "f" not in list(names if names is not None else ()):
            found += _bounds(said)
        elif isinstance(key, tuple):
            found += _together(key, said, names, n)
        else:
            found += _alone(key, said, names, n)
    _check_consistent(found)
    return found


def _alone(key: Any, said: Any, names: Sequence[str] | None, n: int) -> list[Claim]:
    """What f does with one feature."""
    feature, called = _feature(key, names, n), f"feature {key!r}"
    claims = []
    for word in [said] if isinstance(said, str) else list(said):
        if word not in KINDS:
            raise ValueError(f"shape of {called} is one of {', '.join(KINDS)}, or a list of them, got {word!r}.")
        order, sign = KINDS[word]
        claims.append(Claim(f"f is {word} in {called}", (feature,) * order, sign))
    return claims


def _together(key: tuple[Any, ...], said: Any, names: Sequence[str] | None, n: int) -> list[Claim]:
    """What f does along every direction of some features: no eigenvalue of the Hessian is below (above) zero."""
    features = tuple(_feature(one, names, n) for one in key)
    if len(set(features)) < 2 or len(set(features)) < len(features):
        raise ValueError(f"A shape of features together names two at least, each once, got {key!r}.")
    if said not in ("convex", "concave"):
        raise ValueError(
            f'f is "convex" or "concave" in features together, got {said!r} for {key!r}: what rises or falls is said '
            "of each feature."
        )
    called = " and ".join(map(repr, key))
    return [Claim(f"f is {said} in features {called} together", sign=KINDS[said][1], jointly=tuple(sorted(features)))]


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


def _check_consistent(claims: Sequence[Claim]) -> None:
    """Refuse claims of which two leave nothing but a line, or a constant."""
    for one, other in combinations(claims, 2):
        curved = [set(claim.jointly or claim.axes) if claim.order == 2 else set() for claim in (one, other)]
        same = one.axes == other.axes if one.order == other.order == 1 else bool(curved[0] & curved[1])
        if same and one.sign != other.sign:
            raise ValueError(
                f"The shape contradicts itself: {one.name}, and {other.name}. Only "
                f"{'a function that ignores it' if one.order == 1 else 'a straight line'} is both: leave one "
                "out, or the feature."
            )
