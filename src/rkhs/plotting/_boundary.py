"""The decision boundary of a classifier in the plane, with the labels and the active representers.

The helpers of all displays stand at the end: the import of matplotlib, axes to draw on, and heat maps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._backend.arrays import Matrix, Vector, as_points, to_numpy
from rkhs._finite.function import Function

COLORS = ("tab:blue", "tab:red", "tab:green", "tab:orange", "tab:purple", "tab:brown", "tab:pink", "tab:olive")


@dataclass(frozen=True, eq=False)
class Active:
    """The active representers in f = sum_i a_i z_i; of several outputs the largest coefficients are kept."""

    values: Vector  # (v, n) points of representers of values
    coefficients: Vector  # (v,)
    slopes: Vector  # (s, n) points of representers of slopes
    vectors: Vector  # (s, n) the sum over the directions u at a point of coefficient times u

    @classmethod
    def of(cls, f: Function, share: float = 1e-3) -> Active:
        """Return the representers whose size exceeds a share of the largest one of their kind."""
        dimension = f.functionals.dimension
        by_order: dict[int, list[tuple[Vector, Vector]]] = {0: [], 1: []}
        table = to_numpy(f.coefficients)
        table = table if table.ndim == 2 else table[:, None]
        for part in f.functionals.parts:
            atoms = part.atoms
            if atoms.order > 1:
                continue
            coefficients = to_numpy(part.adjoint(table)).reshape(len(atoms.points), atoms.per_point, -1)
            points = to_numpy(atoms.points)
            if atoms.order == 0:
                by_order[0].append((points, coefficients[:, 0]))
                continue
            directions = np.broadcast_to(to_numpy(atoms.u(0)), (len(points), atoms.per_point, dimension))
            by_order[1].append((points, np.einsum("tkc,tkn->tcn", coefficients, directions)))
        values, sizes = _largest(by_order[0], share, dimension)
        slopes, vectors = _largest(by_order[1], share, dimension)
        return cls(values, sizes[:, 0] if len(sizes) else np.zeros(0), slopes, vectors)


def _largest(parts: list[tuple[Vector, Vector]], share: float, dimension: int) -> tuple[Vector, Vector]:
    """Return points with their largest coefficient, or vector, over the outputs, if it exceeds a share of the maximum.

    The parts are pairs of points (t, n) and coefficients (t, outputs) or vectors (t, outputs, n).
    """
    if not parts:
        return np.zeros((0, dimension)), np.zeros((0, dimension))
    points = np.concatenate([p for p, _ in parts])
    coefficients = np.concatenate([c.reshape(len(p), c.shape[1], -1) for p, c in parts])  # (t, outputs, 1 or n)
    sizes = np.linalg.norm(coefficients, axis=2)
    largest = coefficients[np.arange(len(coefficients)), sizes.argmax(axis=1)]
    kept = sizes.max(axis=1) > share * sizes.max(initial=0.0)
    return points[kept], largest[kept]


@dataclass(eq=False)
class BoundaryDisplay:
    """Decision boundary of a classifier of two features; create it with `from_estimator`.

    The display shows f on a rectangle in the plane with the labeled points, the unlabeled points and the active
    representers.  Circles are representers of values.  Arrows are those of slopes: they point in the direction in which
    the slope of f was penalized, and their length is proportional to the coefficient.

    Parameters
    ----------
    xx0, xx1 : ndarray of shape (rows, columns)
        The coordinates of the grid.
    response : ndarray of shape (rows, columns)
        The values of f for two classes, the indices of the predicted classes for more.
    classes : ndarray
        The classes.
    X : ndarray of shape (t, 2)
        The points.
    codes : ndarray of shape (t,)
        The index of the class of each point, -1 for unlabeled points.
    active : object or None
        The active representers; None if the estimator has no `function_`, as a pipeline.
    names : tuple of str
        The names of the two features.

    Attributes
    ----------
    ax_, figure_ : Axes, Figure
        The matplotlib axes and figure, after `plot`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X, y = np.array([[0.0, 0.0], [1.0, 1.0], [0.9, 1.2]]), np.array([0, 1, 1])
    >>> model = rkhs.InvariantClassifier().fit(X, y)
    >>> display = rkhs.plotting.BoundaryDisplay.from_estimator(model, X, y, grid_resolution=20)
    >>> display.response.shape
    (20, 20)
    """

    xx0: Vector
    xx1: Vector
    response: Vector
    classes: Vector
    X: Vector
    codes: Vector
    active: Active | None
    names: tuple[str, str]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        grid_resolution: int = 150,
        eps: float = 0.1,
        ax: Any = None,
        **options: Any,
    ) -> BoundaryDisplay:
        """Evaluate a fitted classifier of two features on a grid around X, and draw it.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier of two features, or a pipeline that ends in one.
        X : array-like of shape (t, 2)
            The points.
        y : array-like of shape (t,), optional
            The labels; values that are not among the classes are drawn as unlabeled points.
        grid_resolution : int, default=150
            The number of grid points along each axis.
        eps : float, default=0.1
            The margin around X, as a share of its extent.
        ax : Axes, optional
            The matplotlib axes to draw on; new ones by default.
        **options
            As in `plot`.

        Returns
        -------
        BoundaryDisplay
            The display.
        """
        points = to_numpy(as_points(X))
        if points.shape[1] != 2:
            raise ValueError(f"A decision boundary can be drawn for 2 features, but X has {points.shape[1]} features.")
        low, high = points.min(axis=0), points.max(axis=0)
        margin = eps * np.where(high > low, high - low, 1.0)
        axes = [np.linspace(low[a] - margin[a], high[a] + margin[a], grid_resolution) for a in (0, 1)]
        xx0, xx1 = np.meshgrid(*axes)
        grid: Any = np.column_stack([xx0.ravel(), xx1.ravel()])
        names = getattr(estimator, "feature_names_in_", None)
        if names is not None and hasattr(X, "columns"):
            grid = type(X)(dict(zip(names, grid.T, strict=True)))
        values = to_numpy(estimator.decision_function(grid))
        response = values if values.ndim == 1 else values.argmax(axis=1).astype(float)
        classes = np.asarray(estimator.classes_)
        labels = np.full(len(points), None) if y is None else np.asarray(to_numpy(y), dtype=object)
        codes = np.array([next((k for k, c in enumerate(classes) if c == label), -1) for label in labels])
        f = getattr(estimator, "function_", None)
        active = None if f is None else Active.of(f)
        axis_names = ("", "") if names is None else tuple(names)
        display = cls(xx0, xx1, response.reshape(xx0.shape), classes, points, codes, active, axis_names)
        return display.plot(ax=ax, **options)

    def plot(self, ax: Any = None, *, representers: bool = True, legend: bool = True) -> BoundaryDisplay:
        """Draw the display.

        Parameters
        ----------
        ax : Axes, optional
            The matplotlib axes to draw on; new ones by default.
        representers : bool, default=True
            Whether to draw the active representers.
        legend : bool, default=True
            Whether to draw a legend.

        Returns
        -------
        BoundaryDisplay
            The display, with `ax_` and `figure_`.
        """
        ax = axes_of(ax)
        colors = [COLORS[k % len(COLORS)] for k in range(len(self.classes))]
        grid = self.xx0, self.xx1, self.response
        if len(self.classes) == 2:
            size = float(np.abs(self.response).max()) or 1.0
            ax.contourf(*grid, levels=np.linspace(-size, size, 15), cmap="RdBu_r", alpha=0.5)
            if self.response.min() < 0 < self.response.max():
                ax.contour(*grid, levels=[0.0], colors="k", linewidths=1.2)
        else:
            ax.contourf(*grid, levels=np.arange(len(self.classes) + 1) - 0.5, colors=colors, alpha=0.35)
        unlabeled = self.codes < 0
        if unlabeled.any():
            ax.scatter(*self.X[unlabeled].T, s=8, color="0.35", label="no label", zorder=2)
        if representers and self.active is not None:
            values, slopes, vectors = self.active.values, self.active.slopes, self.active.vectors
            if len(values):
                ax.scatter(*values.T, s=120, facecolor="none", edgecolor="k", label="active value", zorder=3)
            if len(slopes):
                extent = float(np.ptp(self.xx0) + np.ptp(self.xx1)) / 2
                arrows = vectors * (0.08 * extent / float(np.linalg.norm(vectors, axis=1).max()))
                style = {"angles": "xy", "scale_units": "xy", "scale": 1.0, "width": 0.003, "color": "0.2"}
                ax.quiver(*slopes.T, *arrows.T, label="active slope", zorder=3, **style)
        for k, name in enumerate(self.classes):
            members = self.codes == k
            if members.any():
                ax.scatter(*self.X[members].T, s=60, color=colors[k], edgecolor="k", label=f"{name}", zorder=4)
        ax.set(xlabel=self.names[0], ylabel=self.names[1])
        if legend and ax.get_legend_handles_labels()[0]:
            ax.legend(loc="best", fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self


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
