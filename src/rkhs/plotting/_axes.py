"""Helpers of the displays: the import of matplotlib, axes to draw on, and heat maps."""

from __future__ import annotations

from typing import Any

import numpy as np

from rkhs._backend.arrays import Matrix


def pyplot() -> Any:
    """Import matplotlib's pyplot, or raise an error that explains how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("Displays need matplotlib: pip install 'rkhs[plot]'.") from None
    return plt


def axes_of(ax: Any) -> Any:
    """Return the given axes, or new ones for None."""
    return pyplot().subplots()[1] if ax is None else ax


def heat_map(ax: Any, table: Matrix, label: str, numbers: str | None, dark: Matrix, **options: Any) -> None:
    """Draw a table as a heat map with a color bar and, in the format `numbers`, its values, in white if `dark`."""
    image = ax.imshow(table, **options)
    ax.figure.colorbar(image, ax=ax, label=label)
    if numbers is not None:
        for (row, column), value in np.ndenumerate(table):
            if np.isfinite(value):
                color = "w" if dark[row, column] else "k"
                ax.text(column, row, f"{value:{numbers}}", ha="center", va="center", fontsize=7, color=color)
