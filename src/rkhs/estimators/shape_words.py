"""What a `shape` says in words, as claims: {"age": "increasing", 3: "convex", (0, 1): "concave", "f": (0, 1)}."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from numbers import Real
from typing import Any

import numpy as np

from rkhs.problem.claims import Claim

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
