"""What all displays share: matplotlib when it is there, and axes to draw on."""

from __future__ import annotations

from typing import Any


def pyplot() -> Any:
    """matplotlib's pyplot, or an error that says how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("Pictures need matplotlib: pip install 'rkhs[plot]'.") from None
    return plt


def axes_of(ax: Any) -> Any:
    """The axes given, or new ones."""
    return pyplot().subplots()[1] if ax is None else ax
