"""The one formula: derivatives of phi(q) when the third derivatives of q vanish.

For directions w_1 .. w_n on either argument of k(x, y) = phi(q(x, y)),

    D_{w1..wn} phi(q) = sum over partial matchings M of {1..n}:
        phi^(n-|M|)(q) * prod_{(i,j) in M} q_ij * prod_{i unmatched} q_i

with q_i the slope of q along w_i and q_ij its curvature along w_i and w_j (Faa di Bruno's formula
with blocks of one and two).  Two terms for n = 2, ten for n = 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

Matching = tuple[tuple[tuple[int, int], ...], tuple[int, ...]]


@cache
def matchings(n: int) -> tuple[Matching, ...]:
    """All partial matchings of {0..n-1}, each as (matched pairs, unmatched elements).

    Examples
    --------
    >>> matchings(2)
    (((), (0, 1)), (((0, 1),), ()))
    >>> [len(matchings(n)) for n in range(7)]
    [1, 1, 2, 4, 10, 26, 76]
    """
    if n == 0:
        return (((), ()),)
    found = [(pairs, (*rest, n - 1)) for pairs, rest in matchings(n - 1)]
    for partner in range(n - 1):
        others = [i for i in range(n - 1) if i != partner]
        for pairs, rest in matchings(n - 2):
            renamed = tuple((others[i], others[j]) for i, j in pairs)
            found.append(((*renamed, (partner, n - 1)), tuple(others[i] for i in rest)))
    return tuple(found)


def derivative(rungs: Mapping[int, Any], slopes: Sequence[Any], curvatures: Mapping[tuple[int, int], Any]) -> Any:
    """The formula above, over any ring: arrays that broadcast, or power series of them.

    `rungs[r]` is phi^(r)(q); a pair missing from `curvatures` has curvature zero.
    """
    n = len(slopes)
    by_rung: dict[int, Any] = {}
    for pairs, rest in matchings(n):
        if any(pair not in curvatures for pair in pairs):
            continue
        factors = [curvatures[pair] for pair in pairs] + [slopes[i] for i in rest]
        if not factors:
            return rungs[0]
        product = factors[0]
        for factor in factors[1:]:
            product = product * factor
        rung = n - len(pairs)
        by_rung[rung] = by_rung[rung] + product if rung in by_rung else product
    total = None
    for rung, coefficient in by_rung.items():
        term = rungs[rung] * coefficient
        total = term if total is None else total + term
    return total
