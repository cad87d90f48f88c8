"""How many directions problems that share a Gram are to have, and how many of these are representers."""

from __future__ import annotations

from rkhs._finite.problem import FiniteProblem

LEAST = 32  # directions, below which restarts lose too much: a Gram in memory has a small budget
MOST = 300  # directions, beyond which they cost more than the products that they save
REPRESENTERS = 16  # leading ones of smooth losses, for each problem, that cost less than the products they save
FEW = 1500  # rows of losses that are not quadratic, up to which small problems cost less than products


def few_others(system: FiniteProblem) -> bool:
    """Whether small problems are small: most rows have quadratic losses, which enter by their moments."""
    return len(system.other_rows) <= FEW


def leading_representers(system: FiniteProblem, others: int, tasks: int, capacity: int) -> int:
    """How many of the first directions are to be representers of the rows whose losses are not quadratic.

    The representers of a conditionally positive definite kernel are not in its space.
    """
    if not system.definite or others > MOST:
        return 0
    if system.smooth:
        return min(others, capacity // 2, REPRESENTERS * tasks)
    return others if others <= capacity // 2 else 0


def capacity_of(system: FiniteProblem) -> int:
    """Directions to keep: within half the memory budget, and few enough that they cost less than the products."""
    entry = 4 if "32" in str(system.Q.dtype) else 8
    return min(MOST, max(LEAST, system.gram.budget // (4 * entry * max(system.size, 1))))
