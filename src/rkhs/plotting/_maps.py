"""The display of a map: its values, their standard deviations, and the positions of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs.extend import Vector
from rkhs.maps import STD, GridMap
from rkhs.plotting._displays import pyplot

EMPTY = "0.93"  # the gray of cells far from data
SHOWN = (0.5, 99.5)  # percentiles of the values between which colors differ, so that single spikes do not dim the rest
ROWS_PER_INCH = 4.0  # inches of height of a panel


@dataclass(eq=False)
class MapDisplay:
    """Picture of a map, of its standard deviations, and of the data; create it with `from_estimator` or `from_dataset`.

    Cells far from the data are gray.  Degrees are drawn so that distances in the middle of the map are right.  The
    positions of the data are shown with the standard deviations, which they explain, and leave the map clear.

    Parameters
    ----------
    map : object
        The values on the grid, and what is known about them.
    name : str
        The name of the values that are shown.

    Attributes
    ----------
    axes_ : ndarray of Axes
        The matplotlib axes of the values and of the standard deviations, after `plot`.
    ax_, figure_ : Axes, Figure
        The axes of the values, and the figure.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.random.default_rng(0).uniform(0, 10, (40, 2))
    >>> model = rkhs.InvariantRegressor().fit(X, np.sin(X[:, 0]))
    >>> display = rkhs.plotting.MapDisplay.from_estimator(model, X, spacing=0.5)
    >>> [ax.get_xlabel() for ax in display.axes_]
    ['x', 'x']
    """

    map: Any
    name: str

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        region: Any = None,
        spacing: Any = None,
        reach: float | None = None,
        std: Any = True,
        name: str | None = None,
        axes: Any = None,
        **options: Any,
    ) -> MapDisplay:
        """Predict a fitted regressor of two columns on a grid around X, and draw the map.

        Parameters
        ----------
        estimator : estimator
            A fitted regressor, or a pipeline that ends in one.
        X : array-like of shape (t, 2)
            The positions of the data.
        y : Series or DataFrame, optional
            The values, from which names and units are taken.
        region, spacing, reach, std : object
            As in `rkhs.maps.grid`.
        name : str, optional
            The values to show, if the model has several outputs; by default the first.
        axes : Axes or pair of Axes, optional
            The matplotlib axes to draw the values, and the standard deviations, on; new ones by default.
        **options
            As in `plot`.

        Returns
        -------
        MapDisplay
            The display.
        """
        found = GridMap.of(estimator, X, y, region=region, spacing=spacing, reach=reach, std=std)
        return cls._of(found, name).plot(axes, **options)

    @classmethod
    def from_dataset(
        cls, dataset: Any, X: Any = None, *, name: str | None = None, axes: Any = None, **options: Any
    ) -> MapDisplay:
        """Draw the map in a dataset of `rkhs.maps.grid`.

        Parameters
        ----------
        dataset : xarray.Dataset
            The values, and perhaps their standard deviations under a name that ends in "_std".
        X : array-like of shape (t, 2), optional
            The positions of the data.
        name, axes : object
            As in `from_estimator`.
        **options
            As in `plot`.

        Returns
        -------
        MapDisplay
            The display.
        """
        return cls._of(GridMap.of_dataset(dataset, X), name).plot(axes, **options)

    @classmethod
    def _of(cls, found: GridMap, name: str | None) -> MapDisplay:
        if name is not None and name not in found.values:
            raise ValueError(f"The map has no values {name!r}; it has {', '.join(map(repr, found.values))}.")
        return cls(found, next(iter(found.values)) if name is None else name)

    def plot(
        self, axes: Any = None, *, cmap: str = "viridis", std_cmap: str = "magma", data: bool = True
    ) -> MapDisplay:
        """Draw the display.

        Parameters
        ----------
        axes : Axes or pair of Axes, optional
            The matplotlib axes to draw on: of one, only the values are drawn on it; new ones by default.
        cmap, std_cmap : str, default="viridis", "magma"
            The color maps of the values and of the standard deviations.
        data : bool, default=True
            Whether to draw the positions of the data, with the standard deviations if there are some.

        Returns
        -------
        MapDisplay
            The display, with `axes_`, `ax_` and `figure_`.
        """
        panels = [(self.map.values[self.name], cmap, self.map.label(self.name), SHOWN)]
        if self.name in self.map.std:
            panels.append((self.map.std[self.name], std_cmap, STD + self.map.unit(self.name), (0.0, SHOWN[1])))
        aspect, new = self._aspect(), axes is None
        if axes is None:
            x, y = self.map.axes
            width = float(np.clip(ROWS_PER_INCH * np.ptp(x) / max(aspect * np.ptp(y), 1e-12), 2.5, 9.0))
            axes = pyplot().subplots(
                1,
                len(panels),
                figsize=((width + 1.4) * len(panels), ROWS_PER_INCH + 0.6),
                layout="compressed",
                sharex=True,
                sharey=True,
                squeeze=False,
            )[1]
        self.axes_ = np.ravel(np.asarray(axes, dtype=object))
        for ax, panel in zip(self.axes_, panels, strict=False):
            self._draw(ax, *panel)
            ax.set_aspect(aspect)
        if data and len(self.map.data):
            self._draw_data(self.axes_[min(len(self.axes_), len(panels)) - 1], on_std=len(panels) > 1)
        for ax in self.axes_[1:]:
            ax.set_ylabel("")
        self.ax_, self.figure_ = self.axes_[0], self.axes_[0].figure
        if new:
            self.figure_.draw_without_rendering()  # axes of a fixed aspect need a second pass of the layout
        return self

    def _aspect(self) -> float:
        """Return the length of a unit of y in units of x."""
        if not self.map.degrees:
            return 1.0
        # a degree of longitude at the latitude phi is cos(phi) degrees of latitude long
        middle = float(np.mean(self.map.axes[1][[0, -1]]))
        return 1 / max(float(np.cos(np.radians(middle))), 0.2)

    def _draw(self, ax: Any, values: Vector, cmap: str, label: str, shown: tuple[float, float]) -> None:
        x, y = self.map.axes
        present = values[np.isfinite(values)]
        low, high = np.percentile(present, shown) if len(present) else (0.0, 1.0)
        ax.set_facecolor(EMPTY)
        style = {"cmap": cmap, "vmin": low, "vmax": high, "shading": "nearest", "rasterized": True}
        image = ax.pcolormesh(x, y, np.ma.masked_invalid(values), **style)
        outside = (bool(np.any(present < low)), bool(np.any(present > high)))
        extend = {(True, True): "both", (True, False): "min", (False, True): "max"}.get(outside, "neither")
        bar = ax.figure.colorbar(image, ax=ax, label=label, extend=extend, fraction=0.05, aspect=30, pad=0.02)
        bar.ax.tick_params(length=3, labelsize="small")
        bar.outline.set_visible(False)
        ax.set(xlabel=self.map.label(self.map.names[0]), ylabel=self.map.label(self.map.names[1]))
        if self.map.degrees:
            ax.set(xlabel="", ylabel="")
            ax.xaxis.set_major_formatter(lambda value, _: degrees_text((value + 180) % 360 - 180, "EW"))
            ax.yaxis.set_major_formatter(lambda value, _: degrees_text(value, "NS"))
        ax.tick_params(length=3, labelsize="small")

    def _draw_data(self, ax: Any, on_std: bool) -> None:
        x, y = self.map.data.T
        columns = self.map.axes[0]
        if self.map.degrees:  # longitudes in the turn of the grid
            x = columns[0] + np.remainder(x - columns[0] + 1e-9, 360.0) - 1e-9
        size = float(np.clip(2000 / len(x), 0.1, 12))
        limits = ax.get_xlim(), ax.get_ylim()
        ax.scatter(x, y, s=size, c="w" if on_std else "k", alpha=0.6 if on_std else 0.3, linewidths=0, rasterized=True)
        ax.set(xlim=limits[0], ylim=limits[1])


def degrees_text(value: float, sides: str) -> str:
    """Return a longitude or latitude as text, such as 116°W; `sides` are the letters of positive and negative ones."""
    side = "" if value == 0 or abs(value) == 180 else sides[0] if value > 0 else sides[1]
    return f"{abs(value):.6g}°{side}"
