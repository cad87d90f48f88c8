"""Displays of transformations: the change of f along an invariance, and the tangents of an image."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._backend.arrays import Vector, as_points, to_numpy
from rkhs._finite.function import Function
from rkhs.plotting._boundary import pyplot


@dataclass(eq=False)
class ChangeDisplay:
    """Values of f at points that are transformed along an invariance; create it with `from_estimator`.

    The display shows f(T(x, a)) as a function of the amount a for each transformation T.  If f is invariant, the lines
    are flat.

    Parameters
    ----------
    amounts : ndarray of shape (m,)
        The amounts a.
    values : dict of str to ndarray of shape (t, transformations, m)
        The values of f for each model, by name.
    names : tuple of str
        The names of the transformations.

    Attributes
    ----------
    axes_, figure_ : ndarray of Axes, Figure
        The matplotlib axes and figure, after `plot`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from rkhs.invariances import SignalTangents
    >>> X = np.exp(-((np.arange(20) - np.array([[5], [14]])) ** 2) / 8.0)
    >>> f = rkhs.Function(rkhs.Gaussian(scale=1.0), rkhs.Evaluation(X), [1.0, -1.0])
    >>> display = rkhs.plotting.ChangeDisplay.from_estimator(f, SignalTangents(kinds=["shift"]), X, amounts=[0, 2])
    >>> display.values["f"].shape
    (2, 1, 2)
    """

    amounts: Vector
    values: dict[str, Vector]
    names: tuple[str, ...]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        tangents: Any,
        X: Any,
        *,
        amounts: Sequence[float] | None = None,
        output: int | None = None,
        axes: Any = None,
    ) -> ChangeDisplay:
        """Transform the rows of X by several amounts, evaluate f, and draw the values.

        Parameters
        ----------
        estimator : estimator, Function or dict
            A fitted classifier or regressor, an `rkhs.Function`, or a dict of several of these by name.
        tangents : ImageTangents, SignalTangents or Tangents
            The transformations.
        X : array-like of shape (t, n)
            The points.
        amounts : sequence of float, optional
            The amounts of the transformations; by default 21 values from -2 to 2.
        output : int, optional
            The index of the class or output to show; needed if there are several.
        axes : sequence of Axes, optional
            The matplotlib axes to draw on, one for each transformation; new ones by default.

        Returns
        -------
        ChangeDisplay
            The display.
        """
        name = "f" if isinstance(estimator, Function) else type(estimator).__name__
        models = dict(estimator) if isinstance(estimator, Mapping) else {name: estimator}
        points = as_points(X)
        steps = np.linspace(-2, 2, 21) if amounts is None else np.asarray(amounts, dtype=float)
        moved = np.stack([to_numpy(tangents.moved(points, float(a))) for a in steps], axis=2)  # (t, k, m, n)
        flat = moved.reshape(-1, moved.shape[-1])
        values = {}
        for name, model in models.items():
            f = model if isinstance(model, Function) else getattr(model, "decision_function", None) or model.predict
            predictions = to_numpy(f(flat))
            if predictions.ndim == 2:
                if output is None:
                    raise ValueError(f"{name} has {predictions.shape[1]} outputs: pass the index of one as output=.")
                predictions = predictions[:, output]
            values[name] = predictions.reshape(moved.shape[:-1])
        return cls(steps, values, tuple(tangents.names)).plot(axes=axes)

    def plot(self, axes: Any = None) -> ChangeDisplay:
        """Draw the display, with a line for each model and point.

        Parameters
        ----------
        axes : sequence of Axes, optional
            The matplotlib axes to draw on, one for each transformation; new ones by default.

        Returns
        -------
        ChangeDisplay
            The display, with `axes_` and `figure_`.
        """
        if axes is None:
            width = min(3.0 * len(self.names), 15)
            _, axes = pyplot().subplots(
                1, len(self.names), figsize=(width, 2.8), sharey=True, squeeze=False, layout="constrained"
            )
        axes = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
        if len(axes) != len(self.names):
            raise ValueError(
                f"There are {len(self.names)} transformations and {len(axes)} axes: pass one for each transformation."
            )
        for k, (ax, name) in enumerate(zip(axes, self.names, strict=True)):
            for c, (model, values) in enumerate(self.values.items()):
                lines = ax.plot(self.amounts, values[:, k].T, color=f"C{c}", alpha=0.8, linewidth=1.2)
                lines[0].set_label(model)
            ax.axhline(0.0, color="0.7", linewidth=0.8, zorder=0)
            ax.set_title(name, fontsize=9)
        axes[0].set_ylabel("f")
        if len(self.values) > 1:
            axes[0].legend(fontsize="small")
        self.axes_, self.figure_ = axes, axes[0].figure
        return self


@dataclass(eq=False)
class TangentsDisplay:
    """The tangents of an image and the transformed images; create it with `from_image`.

    The display has a row for each tangent: the tangent as an image, and the image transformed by several amounts.

    Parameters
    ----------
    image : ndarray of shape (rows, columns)
        The image.
    vectors : ndarray of shape (k, rows, columns)
        The tangents.
    orbit : ndarray of shape (k, amounts, rows, columns)
        The transformed images.
    amounts : tuple of float
        The amounts of the transformations.
    names : tuple of str
        The names of the tangents.

    Attributes
    ----------
    axes_, figure_ : ndarray of Axes, Figure
        The matplotlib axes and figure, after `plot`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from rkhs.invariances import ImageTangents
    >>> tangents = ImageTangents(shape=(8, 8), kinds=["rotation", "thickness"])
    >>> display = rkhs.plotting.TangentsDisplay.from_image(tangents, np.eye(8), amounts=[-1, 0, 1])
    >>> display.orbit.shape
    (2, 3, 8, 8)
    """

    image: Vector
    vectors: Vector
    orbit: Vector
    amounts: tuple[float, ...]
    names: tuple[str, ...]

    @classmethod
    def from_image(
        cls, tangents: Any, image: Any, *, amounts: Sequence[float] = (-2.0, -1.0, 0.0, 1.0, 2.0), figure: Any = None
    ) -> TangentsDisplay:
        """Transform an image by the transformations of an `ImageTangents`, and draw the result.

        Parameters
        ----------
        tangents : ImageTangents
            The transformations.
        image : array-like of shape (rows, columns) or (rows * columns,)
            The image.
        amounts : sequence of float, default=(-2.0, -1.0, 0.0, 1.0, 2.0)
            The amounts of the transformations.
        figure : Figure, optional
            The matplotlib figure to draw on; a new one by default.

        Returns
        -------
        TangentsDisplay
            The display.
        """
        x = np.asarray(to_numpy(image), dtype=float).reshape(1, -1)
        shape = tangents.shape
        vectors = tangents.vectors(x)[0].reshape(-1, *shape)
        orbit = np.stack([tangents.moved(x, a)[0].reshape(-1, *shape) for a in amounts], axis=1)
        return cls(x.reshape(shape), vectors, orbit, tuple(float(a) for a in amounts), tuple(tangents.names)).plot(
            figure
        )

    def plot(self, figure: Any = None, *, cmap: str = "gray_r") -> TangentsDisplay:
        """Draw the display.

        Parameters
        ----------
        figure : Figure, optional
            The matplotlib figure to draw on; a new one by default.
        cmap : str, default="gray_r"
            The color map of the images.

        Returns
        -------
        TangentsDisplay
            The display, with `axes_` and `figure_`.
        """
        rows, columns = len(self.names), len(self.amounts) + 1
        if figure is None:
            figure = pyplot().figure(figsize=(1.3 * columns, 1.35 * rows), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False)
        low, high = float(self.image.min()), float(self.image.max())
        for k, name in enumerate(self.names):
            size = float(np.abs(self.vectors[k]).max()) or 1.0
            axes[k, 0].imshow(self.vectors[k], cmap="RdBu_r", vmin=-size, vmax=size)
            axes[k, 0].set_ylabel(name.replace(" along ", "\nalong "), fontsize=8)
            for j, image in enumerate(self.orbit[k]):
                axes[k, j + 1].imshow(image, cmap=cmap, vmin=low, vmax=high)
        axes[0, 0].set_title("tangent", fontsize=8)
        for j, amount in enumerate(self.amounts):
            axes[0, j + 1].set_title(f"{amount:+g}" if amount else "0", fontsize=8)
        for ax in axes.flat:
            ax.set_xticks([])
            ax.set_yticks([])
        self.axes_, self.figure_ = axes, figure
        return self
