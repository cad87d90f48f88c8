"""Tables in colors: the scores of a grid of hyper-parameters, and a learned metric."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._backend.arrays import Matrix, Vector, to_numpy
from rkhs.plotting._axes import axes_of, heat_map


@dataclass(eq=False)
class GridDisplay:
    """Scores of a search over C and nu, as a colored grid.

    The cross-validated score over two hyper-parameters, others at their best; the chosen cell has a frame.  That is the
    `best_index_` of a search, as with few labels many cells have the best score, otherwise the largest score.  Build it
    with `from_estimator` from one of our CV estimators or scikit-learn's `GridSearchCV`, or with `from_results` from a
    dict like their `cv_results_`.

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
        """Draw the heat map of a fitted search; options as in `from_results`."""
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
        """Draw the heat map of `results["param_<x>"]`, `results["param_<y>"]` and `results[score]`.

        `best` is the index of the candidate that was chosen.
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
        from matplotlib.patches import Rectangle

        ax = axes_of(ax)
        dark = self.scores <= (np.nanmin(self.scores) + np.nanmax(self.scores)) / 2
        form = ".3g" if numbers and self.scores.size <= 120 else None  # more would not be readable
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
    """What a learned metric says of features, as a colored table.

    With (x - y)'M(x - y) the squared distance that a model sees, it shows M in units of the deviations of features,
    divided by its trace: the diagonal has the share of each feature in the mean squared distance of points whose
    features are independent; a cell beside it says that two features count together (with the same sign, or against
    each other).  Build it with `from_estimator`, from a model with `metric="agop"` or "agop-diagonal", or with one
    scale per feature.

    Attributes
    ----------
    shares : (n, n)
    names : of the features
    ax_, figure_ : after `plot`

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
        estimator : fitted, with a learned metric or a scale for each feature
        X : (t, n), points whose standard deviations are the units of features, such as the training points
        names : of the features; those that the model was fitted with, or their numbers
        ax : matplotlib axes to draw on; new ones if None
        """
        M = getattr(estimator, "metric_", None)
        if M is None:
            scale = getattr(getattr(getattr(estimator, "function_", None), "kernel", None), "scale", None)
            if scale is None or np.ndim(scale) != 1:
                raise ValueError(
                    f"{type(estimator).__name__} has no learned metric and not a scale for each feature: fit it with "
                    'metric="agop", or scale="evidence".'
                )
            M = np.diag(1 / np.asarray(scale, dtype=np.float64) ** 2)
        names = getattr(estimator, "feature_names_in_", range(len(M))) if names is None else names
        spread = to_numpy(np.asarray(X)).astype(np.float64).std(axis=0)
        if spread.shape != (len(M),) or len(list(names)) != len(M):
            raise ValueError(
                f"The metric is of {len(M)} features; X has {spread.size}, and there are {len(list(names))} names."
            )
        own = M * np.outer(spread, spread)
        total = float(np.trace(own))
        if not total > 0:
            raise ValueError("No feature of X that the metric sees changes: give points that differ.")
        return cls(own / total, tuple(map(str, names))).plot(ax=ax)

    def plot(self, ax: Any = None, *, cmap: str = "RdBu_r") -> MetricDisplay:
        """Draw on the axes, or on new ones."""
        ax = axes_of(ax)
        largest = float(np.abs(self.shares).max())
        form = ".2f" if len(self.names) <= 12 else None  # more would not be readable
        dark = np.abs(self.shares) > largest / 2
        heat_map(ax, self.shares, "share", form, dark, cmap=cmap, vmin=-largest, vmax=largest)
        ax.set_xticks(range(len(self.names)), self.names, rotation=90)
        ax.set_yticks(range(len(self.names)), self.names)
        self.ax_, self.figure_ = ax, ax.figure
        return self
