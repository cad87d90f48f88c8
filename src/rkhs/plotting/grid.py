"""The heat map of a grid of hyper-parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._backend.arrays import Vector
from rkhs.plotting.axes import axes_of


@dataclass(eq=False)
class GridDisplay:
    """Scores of a search over C and nu, as a coloured grid.

    The cross-validated score over two hyper-parameters; the chosen cell has a frame.  A search that tells its choice
    (`best_index_`) is believed: with few labels many cells have the best score.  Otherwise the frame is around the
    largest score.

    Build it with `from_estimator` from one of our CV estimators or scikit-learn's `GridSearchCV`, or with
    `from_results` from a dict like their `cv_results_`.  Further hyper-parameters are at their best in each cell.

    Attributes
    ----------
    scores : (values of the second parameter, values of the first)
    ax_, figure_ : after `plot`

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> results = {"param_C": [1, 1, 10, 10], "param_nu": [0, 1, 0, 1], "mean_test_score": [0.8, 0.9, 0.85, 0.8]}
    >>> rkhs.plotting.GridDisplay.from_results(results).scores
    array([[0.8 , 0.85],
           [0.9 , 0.8 ]])
    """

    first: Vector
    second: Vector
    scores: Vector
    names: tuple[str, str]
    title: str
    chosen: tuple[int, int] | None = None  # row and column of `scores`

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **options: Any) -> GridDisplay:
        """The heat map of a fitted search; options as in `from_results`."""
        results = getattr(estimator, "cv_results_", None)
        if results is None:
            raise ValueError(f"{type(estimator).__name__} has no cv_results_: fit it first, or give a search.")
        return cls.from_results(results, best=getattr(estimator, "best_index_", None), ax=ax, **options)

    @classmethod
    def from_results(
        cls,
        results: Mapping[str, Any],
        *,
        x: str = "C",
        y: str = "nu",
        score: str = "mean_test_score",
        best: int | None = None,
        ax: Any = None,
    ) -> GridDisplay:
        """The heat map of `results["param_<x>"]`, `results["param_<y>"]` and `results[score]`.

        `best` is the number of the candidate that was chosen.
        """
        columns = [_column(results, name) for name in (x, y)]
        (first, i), (second, j) = (np.unique(column, return_inverse=True) for column in columns)
        scores = np.full((len(second), len(first)), -np.inf)
        np.maximum.at(scores, (j, i), np.asarray(results[score], dtype=float))
        scores[np.isneginf(scores)] = np.nan  # cells that the search did not visit
        chosen = None if best is None else (int(j[best]), int(i[best]))
        return cls(first, second, scores, (x, y), score.replace("_", " "), chosen).plot(ax=ax)

    def plot(self, ax: Any = None, *, cmap: str = "viridis", numbers: bool = True) -> GridDisplay:
        """Draw on the axes, or on new ones; with or without the numbers in the cells."""
        ax = axes_of(ax)
        image = ax.imshow(self.scores, origin="lower", aspect="auto", cmap=cmap)
        ax.figure.colorbar(image, ax=ax, label=self.title)
        for values, ticks, labels in (
            (self.first, ax.set_xticks, ax.set_xticklabels),
            (self.second, ax.set_yticks, ax.set_yticklabels),
        ):
            ticks(range(len(values)))
            labels([f"{value:.3g}" for value in values])
        ax.set_xlabel(self.names[0])
        ax.set_ylabel(self.names[1])
        row, column = self.chosen or np.unravel_index(np.nanargmax(self.scores), self.scores.shape)
        ax.add_patch(_frame(int(column), int(row)))
        if numbers and self.scores.size <= 120:
            middle = (np.nanmin(self.scores) + np.nanmax(self.scores)) / 2
            for (r, c), value in np.ndenumerate(self.scores):
                if np.isfinite(value):
                    colour = "k" if value > middle else "w"
                    ax.text(c, r, f"{value:.3g}", ha="center", va="center", fontsize=7, color=colour)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _column(results: Mapping[str, Any], name: str) -> Vector:
    key = f"param_{name}"
    if key not in results:
        known = ", ".join(k.removeprefix("param_") for k in results if k.startswith("param_"))
        raise ValueError(f"The search has no parameter {name!r}; it has {known}.")
    return np.asarray(np.ma.filled(results[key], np.nan), dtype=float)


def _frame(column: int, row: int) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor="r", linewidth=2)
