"""Heat maps: the scores of a grid search, and a learned metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._backend.arrays import Matrix, Vector, double
from rkhs.plotting._boundary import axes_of, heat_map


@dataclass(eq=False)
class GridDisplay:
    """Heat map of the scores of a grid search over two parameters, by default C and nu.

    Each cell has the best cross-validated score over the other parameters.  The chosen cell has a frame and the score
    of the chosen candidate: that of `best_index_`, since with few labels many cells share the best score, or else that
    of the largest score.  A search with `invariance="auto"` chooses by squared errors, so the framed score need not be
    the largest.  Create it with `from_estimator` from a CV estimator of this library or a `GridSearchCV`, or with
    `from_results` from a dict like `cv_results_`.

    Parameters
    ----------
    first, second : ndarray
        The values of the two parameters.
    scores : ndarray of shape (len(second), len(first))
        The scores, NaN for cells that the search did not visit.
    names : tuple of str
        The names of the two parameters.
    title : str
        The name of the score.
    chosen : tuple of int, optional
        The row and column of the chosen cell.

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
        The matplotlib axes and figure, after `plot`.

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
    chosen: tuple[int, int] | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, **options: Any) -> GridDisplay:
        """Draw the heat map of a fitted grid search.

        Parameters
        ----------
        estimator : estimator
            A fitted search with `cv_results_`.
        ax : Axes, optional
            The matplotlib axes to draw on; new ones by default.
        **options
            As in `from_results`.

        Returns
        -------
        GridDisplay
            The display.
        """
        results = getattr(estimator, "cv_results_", None)
        if results is None:
            raise ValueError(f"{type(estimator).__name__} has no cv_results_: pass a fitted grid search.")
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
        """Draw the heat map of the results of a grid search.

        Parameters
        ----------
        results : dict
            The results, with the keys "param_<x>", "param_<y>" and the name of the score.
        x : str, default="C"
            The parameter along the horizontal axis.
        y : str, default="nu"
            The parameter along the vertical axis.
        score : str, default="mean_test_score"
            The key of the scores.
        best : int, optional
            The index of the chosen candidate.
        ax : Axes, optional
            The matplotlib axes to draw on; new ones by default.

        Returns
        -------
        GridDisplay
            The display.
        """
        columns = [_column(results, name) for name in (x, y)]
        (first, i), (second, j) = (np.unique(column, return_inverse=True) for column in columns)
        scores = np.full((len(second), len(first)), -np.inf)
        np.maximum.at(scores, (j, i), np.asarray(results[score], dtype=float))
        scores[np.isneginf(scores)] = np.nan  # cells that the search did not visit
        chosen = None if best is None else (int(j[best]), int(i[best]))
        if chosen is not None:
            scores[chosen] = results[score][best]
        return cls(first, second, scores, (x, y), score.replace("_", " "), chosen).plot(ax=ax)

    def plot(self, ax: Any = None, *, cmap: str = "viridis", numbers: bool = True) -> GridDisplay:
        """Draw the display.

        Parameters
        ----------
        ax : Axes, optional
            The matplotlib axes to draw on; new ones by default.
        cmap : str, default="viridis"
            The color map.
        numbers : bool, default=True
            Whether to write the scores into the cells, if there are at most 120.

        Returns
        -------
        GridDisplay
            The display, with `ax_` and `figure_`.
        """
        from matplotlib.patches import Rectangle

        ax = axes_of(ax)
        dark = self.scores <= (np.nanmin(self.scores) + np.nanmax(self.scores)) / 2
        form = ".3g" if numbers and self.scores.size <= 120 else None  # more numbers are not readable
        heat_map(ax, self.scores, self.title, form, dark, origin="lower", aspect="auto", cmap=cmap)
        ax.set_xticks(range(len(self.first)), [f"{value:.3g}" for value in self.first])
        ax.set_yticks(range(len(self.second)), [f"{value:.3g}" for value in self.second])
        ax.set(xlabel=self.names[0], ylabel=self.names[1])
        row, column = self.chosen or np.unravel_index(np.nanargmax(self.scores), self.scores.shape)
        ax.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor="r", linewidth=2))
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _column(results: Mapping[str, Any], name: str) -> Vector:
    key = f"param_{name}"
    if key not in results:
        known = ", ".join(k.removeprefix("param_") for k in results if k.startswith("param_"))
        raise ValueError(f"The search has no parameter {name!r}; it has {known}.")
    return np.asarray(np.ma.filled(results[key], np.nan), dtype=float)


@dataclass(eq=False)
class MetricDisplay:
    """Heat map of the metric M of a learned distance; create it with `from_estimator`.

    The squared distance of a model is (x - y)'M(x - y).  The display shows M for standardized features, divided by its
    trace.  The diagonal has the share of each feature in the mean squared distance of points with independent features;
    an off-diagonal cell is nonzero if the distance depends on a combination of two features, with the same sign or with
    opposite signs.

    Parameters
    ----------
    shares : ndarray of shape (n, n)
        The metric for standardized features, divided by its trace.
    names : tuple of str
        The names of the features.

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
        The matplotlib axes and figure, after `plot`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.random.default_rng(0).standard_normal((60, 2))
    >>> model = rkhs.InvariantRegressor(scale=[1.0, 2.0]).fit(X, X[:, 0])
    >>> np.diag(rkhs.plotting.MetricDisplay.from_estimator(model, X / X.std(axis=0)).shares).round(2)
    array([0.8, 0.2])
    """

    shares: Matrix
    names: tuple[str, ...]

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, *, names: Any = None, ax: Any = None) -> MetricDisplay:
        """Draw the metric of a fitted model.

        Parameters
        ----------
        estimator : estimator
            A fitted model with a learned metric (`scale="agop"` or "agop-diagonal") or a length scale for each feature.
        X : array-like of shape (t, n)
            Points whose standard deviations are the units of the features, such as the training points.
        names : sequence of str, optional
            The names of the features; by default those that the model was fitted with, or their indices.
        ax : Axes, optional
            The matplotlib axes to draw on; new ones by default.

        Returns
        -------
        MetricDisplay
            The display.
        """
        M = getattr(estimator, "metric_", None)
        if M is None:
            scale = getattr(getattr(getattr(estimator, "function_", None), "kernel", None), "scale", None)
            if scale is None or np.ndim(scale) != 1:
                raise ValueError(
                    f"{type(estimator).__name__} has neither a learned metric nor a scale for each feature: fit it "
                    'with scale="agop" or scale="evidence".'
                )
            M = np.diag(1 / np.asarray(scale, dtype=np.float64) ** 2)
        names = getattr(estimator, "feature_names_in_", range(len(M))) if names is None else names
        spread = double(np.asarray(X)).std(axis=0)
        if spread.shape != (len(M),) or len(list(names)) != len(M):
            raise ValueError(
                f"The metric has {len(M)} features, but X has {spread.size}, and there are {len(list(names))} names."
            )
        standardized = M * np.outer(spread, spread)
        total = float(np.trace(standardized))
        if not total > 0:
            raise ValueError("All features of X with a weight in the metric are constant: pass points that differ.")
        return cls(standardized / total, tuple(map(str, names))).plot(ax=ax)

    def plot(self, ax: Any = None, *, cmap: str = "RdBu_r") -> MetricDisplay:
        """Draw the display.

        Parameters
        ----------
        ax : Axes, optional
            The matplotlib axes to draw on; new ones by default.
        cmap : str, default="RdBu_r"
            The color map.

        Returns
        -------
        MetricDisplay
            The display, with `ax_` and `figure_`.
        """
        ax = axes_of(ax)
        largest = float(np.abs(self.shares).max())
        form = ".2f" if len(self.names) <= 12 else None  # more numbers are not readable
        dark = np.abs(self.shares) > largest / 2
        heat_map(ax, self.shares, "share", form, dark, cmap=cmap, vmin=-largest, vmax=largest)
        ax.set_xticks(range(len(self.names)), self.names, rotation=90)
        ax.set_yticks(range(len(self.names)), self.names)
        self.ax_, self.figure_ = ax, ax.figure
        return self
