"""Two machines on the same draws: who wins, by a paired t test at 5 percent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import ttest_rel

from rkhs.experiments.experiment import Record, chosen

LEVEL = 0.05


def errors(records: list[Record], **which: object) -> dict[int, float]:
    """The error of each draw."""
    return {r.cell["draw"]: r.result["error"] for r in chosen(records, **which)}


def p_value(first: Sequence[float], second: Sequence[float]) -> float:
    """Of the hypothesis that both have the same mean error.

    Examples
    --------
    >>> p_value([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    1.0
    >>> p_value([1.0, 2.1, 2.9], [2.0, 3.0, 4.0]) < 0.05
    True
    """
    difference = np.subtract(first, second)
    if len(difference) < 2 or np.ptp(difference) < 1e-12:
        return 1.0 if len(difference) < 2 or abs(difference[0]) < 1e-12 else 0.0
    return float(ttest_rel(first, second).pvalue)


def verdict(records: list[Record], machine: str, other: str, **which: object) -> tuple[str, float]:
    """("win", "tie" or "loss" of the first machine against the other, p), on the draws that both have."""
    own, theirs = errors(records, machine=machine, **which), errors(records, machine=other, **which)
    draws = sorted(own.keys() & theirs.keys())
    first, second = [own[d] for d in draws], [theirs[d] for d in draws]
    p = p_value(first, second)
    if p >= LEVEL:
        return "tie", p
    return ("win" if np.mean(first) < np.mean(second) else "loss"), p
