"""Claims about a function everywhere on a box: parsing of `shape` parameters, and conditions for a proof.

A shape is a dictionary such as {"age": "increasing", 3: ["convex", "decreasing"], (0, 1): "concave", "f": (0, 1)}.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from numbers import Real
from typing import Any

import numpy as np

from rkhs.extend import Atoms, Functional, Matrix, Part, column_index

KINDS = {"increasing": (1, 1.0), "decreasing": (1, -1.0), "convex": (2, 1.0), "concave": (2, -1.0)}  # order and sign


@dataclass(frozen=True, eq=False, repr=False)
class SignedAtoms(Functional):
    """The functionals sign * D_v1 .. D_vm f(x_i) of atoms, one for each point."""

    atoms: Atoms
    sign: float

    def __repr__(self) -> str:
        return f"SignedAtoms({self.atoms.size} points, order {self.atoms.order})"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.atoms.size,)

    @property
    def parts(self) -> tuple[Part, ...]:
        return (Part(self.atoms, weight=self.sign),)


@dataclass(frozen=True)
class Claim:
    """A claim about f everywhere on a box.

        sign * D_axes f >= bound            a slope for one axis, a second derivative for two, a value for none
        sign * Hessian of f in `jointly`    has no negative eigenvalue: f is convex (concave) in all these features

    Eigenvalues are computed in units of the kernel's length scales (`LowerBound.units`), which preserves their signs.
    If there is an `output` e, the claim is about the function f(x) = F(x, e) of a problem whose points are (x, e).
    """

    name: str
    axes: tuple[int, ...] = ()
    sign: float = 1.0
    bound: float = 0.0
    jointly: tuple[int, ...] = ()
    output: tuple[float, ...] = ()

    @property
    def order(self) -> int:
        return 2 if self.jointly else len(self.axes)

    @property
    def entries(self) -> list[list[tuple[int, ...]]]:
        """The axes of each entry of the matrix whose eigenvalues must be at least the bound."""
        return [[(j, k) for k in self.jointly] for j in self.jointly] if self.jointly else [[self.axes]]

    def at(self, X: Matrix, V: Matrix, output: tuple[float, ...] = ()) -> Functional:
        """Return sign * D_axes at the rows of X, or sign * D_v D_v for the rows v of V for Hessians.

        These are functionals of f, or with an `output` e of F, whose points are (x, e).
        """
        e = np.broadcast_to(output, (len(X), len(output)))
        X, V = np.hstack([X, e]), np.hstack([V, np.zeros_like(e)])
        along = np.stack([V, V], axis=1)[:, None] if self.jointly else np.eye(X.shape[1])[None, list(self.axes)]
        return SignedAtoms(Atoms(X, along), self.sign)


def parse_shape(shape: Any, names: Sequence[str] | None, n: int) -> list[Claim]:
    """Return the claims of a `shape` about a function of n features, which may have names.

    Examples
    --------
    >>> [claim.name for claim in parse_shape({0: ["increasing", "concave"], "f": (0, None)}, None, 2)]
    ['f is increasing in feature 0', 'f is concave in feature 0', 'f is at least 0']
    >>> parse_shape({(0, 1): "convex"}, None, 3)[0].name
    'f is convex in features 0 and 1 together'
    """
    if not isinstance(shape, Mapping) or not shape:
        raise ValueError(
            'shape must be a dict with the shape of f in some features, such as {"age": "increasing", 3: "convex", '
            f'"f": (0, 1)}}, got {shape!r}.'
        )
    known = [] if names is None else list(names)
    claims: list[Claim] = []
    for key, value in shape.items():
        if isinstance(key, str) and key == "f" and "f" not in known:
            claims += _bounds_on_values(value)
            continue
        joint = isinstance(key, tuple)
        features = tuple(_feature(feature, known, n) for feature in (key if joint else (key,)))
        if joint and len(set(features)) < max(2, len(features)):
            raise ValueError(f"The shape of several features together needs at least two distinct ones, got {key!r}.")
        called = f"features {' and '.join(map(repr, key))} together" if joint else f"feature {key!r}"
        words = [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
        for word in words:
            order, sign = KINDS.get(word, (0, 0.0)) if isinstance(word, str) else (0, 0.0)
            if order == 0 or (joint and order == 1):
                raise ValueError(
                    f'The shape of {called} must be "convex" or "concave", got {word!r}: slopes are stated for each '
                    "feature."
                    if joint
                    else f"The shape of {called} must be one of {', '.join(KINDS)}, or a list of them, got {word!r}."
                )
            axes: Any = {"jointly": tuple(sorted(features))} if joint else {"axes": features * order}
            claims.append(Claim(f"f is {word} in {called}", sign=sign, **axes))
    for first, second in combinations(claims, 2):  # opposite claims leave only a straight line, or a constant
        curved = [set(claim.jointly or claim.axes) if claim.order == 2 else set() for claim in (first, second)]
        same = first.axes == second.axes if first.order == second.order == 1 else bool(curved[0] & curved[1])
        if same and first.sign != second.sign:
            raise ValueError(
                f"The shape contradicts itself: {first.name}, and {second.name}. Only "
                f"{'a function that ignores it' if first.order == 1 else 'a straight line'} is both: omit one of "
                "them, or the feature."
            )
    return claims


def _bounds_on_values(bounds: Any) -> list[Claim]:
    if not (
        isinstance(bounds, Sequence) and len(bounds) == 2 and all(b is None or isinstance(b, Real) for b in bounds)
    ):
        raise ValueError(f'The shape of "f" must be a pair of bounds, such as (0, 1) or (0, None), got {bounds!r}.')
    low, high = (None if b is None else float(b) for b in bounds)
    if low is not None and high is not None and not low < high:
        raise ValueError(f"The shape contradicts itself: f between {low:g} and {high:g}.")
    claims = [] if low is None else [Claim(f"f is at least {low:g}", (), 1.0, low)]
    return claims if high is None else [*claims, Claim(f"f is at most {high:g}", (), -1.0, -high)]


def _feature(key: Any, names: list[str], n: int) -> int:
    if isinstance(key, str):
        return column_index(key, names or None, "shape")
    if not isinstance(key, int | np.integer) or not -n <= key < n:
        raise ValueError(f"shape names feature {key!r}; X has features 0 to {n - 1}.")
    return int(key) % n
