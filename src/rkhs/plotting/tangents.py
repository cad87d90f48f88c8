"""An image, its tangent vectors, and where they lead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._backend.arrays import Vector, to_numpy
from rkhs.plotting.axes import pyplot


@dataclass(eq=False)
class TangentsDisplay:
    """An image, its tangents, and where they lead.

    One row for each tangent of an image: the tangent as an image, and the image really moved by several amounts.

    Build it with `from_image`.

    Attributes
    ----------
    image : (rows, columns)
    vectors : (k, rows, columns) the tangents
    orbit : (k, amounts, rows, columns) the moved images
    axes_, figure_ : after `plot`

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
        cls,
        tangents: Any,
        image: Any,
        *,
        amounts: Sequence[float] = (-2.0, -1.0, 0.0, 1.0, 2.0),
        figure: Any = None,
    ) -> TangentsDisplay:
        """The display of one image, flat or not, under the motions of an `ImageTangents`."""
        x = np.asarray(to_numpy(image), dtype=float).reshape(1, -1)
        shape = tangents.shape
        vectors = tangents.vectors(x)[0].reshape(-1, *shape)
        orbit = np.stack([tangents.moved(x, a)[0].reshape(-1, *shape) for a in amounts], axis=1)
        return cls(x.reshape(shape), vectors, orbit, tuple(float(a) for a in amounts), tuple(tangents.names)).plot(
            figure
        )

    def plot(self, figure: Any = None, *, cmap: str = "gray_r") -> TangentsDisplay:
        """Draw on a figure, or on a new one."""
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
