"""The decision boundary in the plane, with the labels and the representers that the model uses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._backend.arrays import Vector, as_points, to_numpy
from rkhs._finite.function import Function
from rkhs.plotting._axes import axes_of

COLOURS = ("tab:blue", "tab:red", "tab:green", "tab:orange", "tab:purple", "tab:brown", "tab:pink", "tab:olive")


@dataclass(frozen=True, eq=False)
class Active:
    """The representers in f = sum_i a_i z_i, coefficients being the largest over outputs, and slopes as vectors."""

    values: Vector  # (v, n)
    coefficients: Vector  # (v,)
    slopes: Vector  # (s, n)
    vectors: Vector  # (s, n): sum over the directions u at a point of coefficient times u

    @classmethod
    def of(cls, f: Function, share: float = 1e-3) -> Active:
        """Return the representers whose size is more than a share of the largest of their kind."""
        dimension = f.functionals.dimension
        found: dict[int, list[tuple[Vector, Vector]]] = {0: [], 1: []}
        table = to_numpy(f.coefficients)
        table = table if table.ndim == 2 else table[:, None]
        for part in f.functionals.parts:
            atoms = part.atoms
            if atoms.order > 1:
                continue
            own = to_numpy(part.adjoint(table)).reshape(len(atoms.points), atoms.per_point, -1)
            points = to_numpy(atoms.points)
            if atoms.order == 0:
                found[0].append((points, own[:, 0]))
                continue
            directions = np.broadcast_to(to_numpy(atoms.u(0)), (len(points), atoms.per_point, dimension))
            found[1].append((points, np.einsum("tkc,tkn->tcn", own, directions)))
        values, sizes = _largest(found[0], share, dimension)
        slopes, vectors = _largest(found[1], share, dimension)
        return cls(values, sizes[:, 0] if len(sizes) else np.zeros(0), slopes, vectors)


def _largest(found: list[tuple[Vector, Vector]], share: float, dimension: int) -> tuple[Vector, Vector]:
    """Return the points and their largest coefficient (or vector) over the outputs, where that is more than a share."""
    if not found:
        return np.zeros((0, dimension)), np.zeros((0, dimension))
    points = np.concatenate([p for p, _ in found])
    own = np.concatenate([c.reshape(len(p), c.shape[1], -1) for p, c in found])  # (t, outputs, 1 or n)
    sizes = np.linalg.norm(own, axis=2)
    best = own[np.arange(len(own)), sizes.argmax(axis=1)]
    kept = sizes.max(axis=1) > share * sizes.max(initial=0.0)
    return points[kept], best[kept]


@dataclass(eq=False)
class BoundaryDisplay:
    """Decision boundary of a classifier of two features.

    f over a rectangle of the plane; labeled points, unlabeled points and active representers on it.  Circles are
    representers of values and arrows those of slopes: the direction in which f was held flat, as long as its
    coefficient.  Build it with `from_estimator`.

    Attributes
    ----------
    response : (rows, columns) values of f for two classes, the index of the predicted class for more
    active : where the representers are, or None if the estimator does not tell (a pipeline)
    ax_, figure_ : after `plot`

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
    codes: Vector  # the index of the class of each point, -1 where it has none
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
        """Evaluate a fitted classifier of two features around X, and draw it.

        Parameters
        ----------
        estimator : a fitted classifier with two features, or a pipeline that ends in one
        X, y : the points; those whose y is none of the estimator's classes are drawn as unlabeled
        grid_resolution : points along each axis
        eps : the margin around X, as a share of its extent
        ax, options : as in `plot`
        """
        points = to_numpy(as_points(X))
        if points.shape[1] != 2:
            raise ValueError(f"X has {points.shape[1]} features: a decision boundary is drawn in the plane of two.")
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
        given = np.full(len(points), None) if y is None else np.asarray(to_numpy(y), dtype=object)
        codes = np.array([next((k for k, c in enumerate(classes) if c == label), -1) for label in given])
        f = getattr(estimator, "function_", None)
        active = None if f is None else Active.of(f)
        labels = ("", "") if names is None else tuple(names)
        display = cls(xx0, xx1, response.reshape(xx0.shape), classes, points, codes, active, labels)
        return display.plot(ax=ax, **options)

    def plot(self, ax: Any = None, *, representers: bool = True, legend: bool = True) -> BoundaryDisplay:
        """Draw on the axes, or on new ones; with or without representers and legend."""
        ax = axes_of(ax)
        colors = [COLOURS[k % len(COLOURS)] for k in range(len(self.classes))]
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
            own = self.codes == k
            if own.any():
                ax.scatter(*self.X[own].T, s=60, color=colors[k], edgecolor="k", label=f"{name}", zorder=4)
        ax.set(xlabel=self.names[0], ylabel=self.names[1])
        if legend and ax.get_legend_handles_labels()[0]:
            ax.legend(loc="best", fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self
