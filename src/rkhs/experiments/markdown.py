"""Tables of a page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, with an empty line after it.

    Examples
    --------
    >>> print(table(["set", "error"], [["heart", "20.2"]]).strip())
    | set | error |
    | --- | --- |
    | heart | 20.2 |
    """
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n\n"


def spread(numbers: Sequence[float], digits: int = 2) -> str:
    """mean ± standard deviation.

    Examples
    --------
    >>> spread([1.0, 2.0, 3.0])
    '2.00 ± 1.00'
    """
    if not len(numbers):
        return "none"
    deviation = float(np.std(numbers, ddof=1)) if len(numbers) > 1 else 0.0
    return f"{np.mean(numbers):.{digits}f} ± {deviation:.{digits}f}"
