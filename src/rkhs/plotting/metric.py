"""The picture of a learnt metric: which features, and which of them together, tell points apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._backend.arrays import Matrix, to_numpy
from rkhs.plotting.axes import axes_of

NUMBERED = 12  # features, up to which cells have numbers


@dataclass(eq=False)
class MetricDisplay:
    """What a learnt metric says of features, as a coloured table.

    With (x - y)'M(x - y) the squared distance that a model sees, it shows M in units of the deviations of features,
    divided by its trace: the diagonal has the share of each feature in the mean squared distance of points whose
    features are independent; a cell beside it says that two features count together (with the same sign, or against
    each other).

    Build it with `from_estimator`, from a model with `metric="agop"` or "agop-diagonal", or with one scale per feature.

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
        """The picture for a fitted model.

        Parameters
        ----------
        estimator : fitted, with a learnt metric or a scale for each feature
        X : (t, n), points whose standard deviations are the units of features, such as the training points
        names : of the features; those that the model was fitted with, or their numbers
        ax : matplotlib axes to draw on; new ones if None
        """
        M = metric_of(estimator)
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
        image = ax.imshow(self.shares, cmap=cmap, vmin=-largest, vmax=largest)
        ax.figure.colorbar(image, ax=ax, label="share")
        ax.set_xticks(range(len(self.names)), self.names, rotation=90)
        ax.set_yticks(range(len(self.names)), self.names)
        if len(self.names) <= NUMBERED:
            for (row, column), value in np.ndenumerate(self.shares):
                colour = "w" if abs(value) > largest / 2 else "k"
                ax.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def metric_of(estimator: Any) -> Matrix:
    """M (n, n) of a fitted model."""
    if hasattr(estimator, "metric_"):
        return np.asarray(estimator.metric_)
    function = getattr(estimator, "function_", None)
    scale = getattr(getattr(function, "kernel", None), "scale", None)
    if scale is None or np.ndim(scale) != 1:
        raise ValueError(
            f"{type(estimator).__name__} has no learnt metric and not a scale for each feature: fit it with "
            'metric="agop", or scale="evidence".'
        )
    return np.diag(1 / np.asarray(scale, dtype=np.float64) ** 2)
