"""Maps: points from tables with coordinates, and surfaces on regular grids for xarray, netCDF and pictures.

`points` reads pandas, GeoPandas and xarray by the names of columns, and `grid` evaluates a fitted regressor.  Both need
the optional packages only for the objects of these: ``pip install 'rkhs[geo]'``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from math import ceil, floor, log10
from typing import Any

import numpy as np
import scipy  # imports scipy.spatial on first use

from rkhs.extend import Matrix, Vector, double, import_optional, to_numpy
from rkhs.maps._coordinates import LONLAT, LonLat

CELLS = 40_000  # the largest number of cells of a default grid
GAPS = 6.0  # typical gaps between data beyond which a cell is empty
LATTICE = 100  # positions along each axis over which gaps are measured
STD = "standard deviation"
MANY = 4_000_000  # cells above which a grid is taken for a mistake in its units
NAMES = {  # of columns that are found without being named, in the order in which they are looked for
    LONLAT: (("longitude", "lon", "long", "lng"), ("latitude", "lat")),
    "plane": (("x", "easting", "east"), ("y", "northing", "north")),
}
DEGREES = tuple(  # the CF conventions' attributes of longitude and latitude
    {"standard_name": name, "long_name": name, "units": f"degrees_{axis}"}
    for name, axis in (("longitude", "east"), ("latitude", "north"))
)


def points(table: Any, value: Any = None, *, x: str | None = None, y: str | None = None) -> tuple[Any, Any]:
    """Return the positions and the values in a table, without its rows that lack one of them.

    Parameters
    ----------
    table : DataFrame, GeoDataFrame, xarray.DataArray or xarray.Dataset
        A table with one row for each point, points with attributes, or an array with coordinates.
    value : str or list of str, optional
        The columns of the values; by default that of a DataArray, or the only one besides the coordinates.
    x, y : str, optional
        The columns of the coordinates.  By default the geometry of a GeoDataFrame, or columns that are called longitude
        and latitude, or x and y, or the like.

    Returns
    -------
    X : DataFrame of shape (t, 2)
        The coordinates.
    values : Series of shape (t,), or DataFrame of shape (t, outputs) for a list
        The values.  Attributes of xarray, such as units, are kept by name in the `attrs` of both.

    Examples
    --------
    >>> import pandas, rkhs
    >>> soundings = pandas.DataFrame({"lon": [8.0, 8.1, 8.2], "lat": [54.0, 54.1, 54.2], "depth": [20.0, None, 24.0]})
    >>> X, depth = rkhs.maps.points(soundings, "depth")
    >>> X.columns.tolist(), depth.tolist()
    (['lon', 'lat'], [20.0, 24.0])
    """
    frame, attributes = _frame_of(table)
    if hasattr(table, "crs") and x is None and y is None:  # a GeoDataFrame
        kinds = set(table.geometry.geom_type.dropna())
        if kinds - {"Point"}:
            raise ValueError(f"A map needs points, and the geometry has {', '.join(sorted(kinds))}: pass centroids.")
        x, y = ("longitude", "latitude") if table.crs is not None and table.crs.is_geographic else ("x", "y")
        frame = frame.assign(**{x: table.geometry.x, y: table.geometry.y})
    if x is None or y is None:
        found = coordinate_names(frame.columns)
        x, y = x or found[0], y or found[1]
    others = [name for name in frame.columns if name not in (x, y)]
    if value is None:
        named = getattr(table, "name", None)
        value = named if named in others else others[0] if len(others) == 1 else None
        if value is None:
            raise ValueError(f"value must name the column of the values, one of {', '.join(map(repr, others))}.")
    columns = [x, y, *([value] if isinstance(value, str) else value)]
    for name in columns:
        if name not in frame.columns:
            near = get_close_matches(str(name), list(map(str, frame.columns)), n=1)
            raise ValueError(
                f"There is no column {name!r}; the columns are {', '.join(map(repr, frame.columns))}."
                + (f" Did you mean {near[0]!r}?" if near else "")
            )
    try:
        chosen = frame[columns].astype(float)
    except (TypeError, ValueError) as error:
        raise ValueError(f"The columns of a map must be numbers: {error}") from None
    chosen = chosen[np.isfinite(chosen).all(axis=1)]
    if not len(chosen):
        raise ValueError(f"No row has numbers in all of the columns {', '.join(map(repr, columns))}.")
    X, values = chosen[[x, y]], chosen[value]
    X.attrs = {name: attributes[name] for name in (x, y) if name in attributes}
    values.attrs = {name: attributes[name] for name in columns[2:] if name in attributes}
    return X, values


def _frame_of(table: Any) -> tuple[Any, dict[str, Any]]:
    """Return a data frame with all columns of a table, and the attributes of its columns by name."""
    pandas = import_optional("pandas", "Tables need pandas: pip install 'rkhs[geo]'.")
    if isinstance(table, pandas.DataFrame):
        return pandas.DataFrame(table.drop(columns="geometry", errors="ignore")), dict(table.attrs)
    if not hasattr(table, "to_dataframe"):
        raise TypeError(f"A map is made from a data frame, or from an xarray object, got {type(table).__name__}.")
    array = table if hasattr(table, "data_vars") else table.to_dataset(name=table.name or "value")
    frame = array.to_dataframe().reset_index()
    return frame, {str(name): dict(array[name].attrs) for name in frame.columns if name in array.variables}


def coordinate_names(columns: Sequence[Any]) -> tuple[str, str]:
    """Return the columns that are longitude and latitude, or x and y, by their names; raise ValueError without them."""
    known = {str(name).strip().casefold(): name for name in columns}
    for pair in NAMES.values():
        x, y = (next((known[name] for name in names if name in known), None) for names in pair)
        if x is not None and y is not None:
            return x, y
    listed = ", ".join(map(repr, columns))
    raise ValueError(
        f"Of the columns {listed} none are called longitude and latitude, or x and y: name them by x and y."
    )


def grid(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    region: Sequence[float] | None = None,
    spacing: float | Sequence[float] | None = None,
    reach: float | None = None,
    std: Any = True,
) -> Any:
    """Predict a fitted regressor of two columns on a regular grid around its data.

    Cells far from all data are empty (NaN).  A cell is far if the nearest datum is farther than `reach`.  By default
    this is six times the typical gap: the median distance to the nearest datum, over positions within the convex hull
    of the data.  Between tracks that is a quarter of their distance, however dense points on a track are.

    Parameters
    ----------
    model : estimator
        A fitted regressor.
    X : array-like of shape (t, 2)
        The positions of the data; the names of the columns of a data frame become those of the dimensions.
    y : Series or DataFrame, optional
        The values, from which names are taken, and attributes such as ``y.attrs["depth"] = {"units": "m"}``; by default
        the name is "value".
    region : (west, east, south, north), optional
        The first and last cells; by default those around the data.  In degrees (175, -175, ..) crosses the 180th
        meridian.
    spacing : float or (float, float), optional
        The distance of cells, in units of X; by default a round number, for which there are at most 40,000 cells.
    reach : float, optional
        The distance to the nearest datum beyond which cells are empty, in km with coordinates="lonlat" and otherwise in
        units of positions; infinite to fill all cells.
    std : bool or str, default=True
        The `return_std` of `model.predict`; without, there are no standard deviations.

    Returns
    -------
    xarray.Dataset
        The values with the dimensions (y, x), and their standard deviations under the name with "_std", with the
        attributes of the CF conventions.

    Examples
    --------
    >>> import numpy as np, pandas, rkhs
    >>> rng = np.random.default_rng(0)
    >>> table = pandas.DataFrame({"lon": rng.uniform(7, 8, 50), "lat": rng.uniform(54, 55, 50)})
    >>> X, depth = rkhs.maps.points(table.assign(depth=20 + table["lon"]), "depth")
    >>> model = rkhs.InvariantRegressor(coordinates="lonlat").fit(X, depth)
    >>> chart = rkhs.maps.grid(model, X, depth, spacing=0.1)
    >>> dict(chart.sizes), list(chart.data_vars)
    ({'lat': 11, 'lon': 11}, ['depth', 'depth_std'])
    """
    return GridMap.of(model, X, y, region=region, spacing=spacing, reach=reach, std=std).to_xarray()


@dataclass(frozen=True, eq=False)
class GridMap:
    """Values on a regular grid, with their standard deviations."""

    names: tuple[str, str]  # of the columns
    axes: tuple[Vector, Vector]  # (columns,) and (rows,) coordinates of the cells
    values: dict[str, Matrix]  # (rows, columns) by name, NaN where empty
    std: dict[str, Matrix]
    attributes: Mapping[str, Any]  # of columns and values, by name
    degrees: bool
    reach: float  # the distance beyond which cells are empty
    data: Matrix  # (t, 2) the positions of the data

    @classmethod
    def of(
        cls, model: Any, X: Any, y: Any, *, region: Any = None, spacing: Any = None, reach: Any = None, std: Any = True
    ) -> GridMap:
        """Predict a fitted regressor on a grid; see `grid`."""
        data = double(X.to_numpy() if hasattr(X, "columns") else np.asarray(X))
        if data.ndim != 2 or data.shape[1] != 2:
            raise ValueError(
                f"A map has two columns, and X has the shape {data.shape}: predict other points by `predict`."
            )
        project = getattr(model, "coordinates_", None)
        degrees = isinstance(project, LonLat)
        axes = axes_around(data, degrees, region, spacing)
        cells = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)

        def position_of(rows: Matrix) -> Matrix:
            return rows if project is None else project.values(rows)

        if reach is None:
            reach = GAPS * typical_gap(data, *extent_of(data, degrees), position_of)
        near = scipy.spatial.cKDTree(position_of(data)).query(position_of(cells))[0] <= float(reach)
        if not near.any():
            raise ValueError(f"No cell is within reach={reach:g} of a datum: give another region, or a larger reach.")
        names = tuple(X.columns) if hasattr(X, "columns") else ("longitude", "latitude") if degrees else ("x", "y")
        named = hasattr(X, "columns") and getattr(model, "feature_names_in_", None) is not None
        asked = type(X)(cells[near], columns=list(names)) if named else cells[near]
        found = model.predict(asked, return_std=std) if std else (model.predict(asked),)
        shape, outputs = (len(axes[1]), len(axes[0])), _names_of(y, found[0])
        tables = []
        for part in found:
            table = np.full((len(outputs), len(cells)), np.nan)
            table[:, near] = to_numpy(part).reshape(int(near.sum()), -1).T
            tables.append(dict(zip(outputs, table.reshape(-1, *shape), strict=True)))
        attributes = dict(getattr(X, "attrs", {})) | dict(getattr(y, "attrs", {}))
        of_what = f"{STD} of " + ("" if std == "function" else "a new measurement of ")
        for name in outputs if std else []:
            long_name = attributes.get(name, {}).get("long_name", name)
            attributes[f"{name}_std"] = {"long_name": of_what + long_name}
        return cls(names, axes, tables[0], dict(*tables[1:]), attributes, degrees, float(reach), data)

    @classmethod
    def of_dataset(cls, dataset: Any, X: Any = None) -> GridMap:
        """Return the map in a dataset of `grid`, or any with two dimensions, with the positions of its data."""
        names = {name: array for name, array in dataset.data_vars.items() if array.ndim == 2}
        values = {
            n: array.to_numpy() for n, array in names.items() if str(n).removesuffix("_std") not in {*names} - {n}
        }
        if not values:
            raise ValueError("The dataset has no variable of two dimensions.")
        first = names[next(iter(values))]
        rows, columns = first.dims
        std = {name: names[f"{name}_std"].to_numpy() for name in values if f"{name}_std" in names}
        attributes = {name: dict(dataset[name].attrs) for name in dataset.variables}
        degrees = attributes.get(columns, {}).get("units") == DEGREES[0]["units"]
        axes = first[columns].to_numpy(), first[rows].to_numpy()
        data = np.zeros((0, 2)) if X is None else double(np.asarray(X))
        return cls((columns, rows), axes, values, std, attributes, degrees, np.inf, data)

    def unit(self, name: str) -> str:
        """Return the unit of a column or of values in parentheses after a space, "" if it is not known."""
        unit = self.attributes.get(name, {}).get("units")
        return f" ({unit})" if unit else ""

    def label(self, name: str) -> str:
        """Return the name of a column or of values, with its unit."""
        return self.attributes.get(name, {}).get("long_name", name) + self.unit(name)

    def to_frame(self) -> Any:
        """Return the map as a data frame with a row for each cell that is not empty."""
        pandas = import_optional("pandas", "Tables need pandas: pip install 'rkhs[geo]'.")
        columns = dict(zip(self.names, (axis.ravel() for axis in np.meshgrid(*self.axes)), strict=True))
        for name, values in self.values.items():
            columns |= {name: values.ravel()} | ({f"{name}_std": self.std[name].ravel()} if self.std else {})
        return pandas.DataFrame(columns).dropna()

    def to_xarray(self) -> Any:
        """Return the map as a dataset."""
        xarray = import_optional("xarray", "Datasets need xarray: pip install 'rkhs[geo]'.")
        dims, unit = self.names[::-1], " km" if self.degrees else ""
        axes, variables = {}, {}
        for name, axis, of_degrees in zip(self.names, self.axes, DEGREES, strict=True):
            axes[name] = (name, axis, (of_degrees if self.degrees else {}) | self.attributes.get(name, {}))
        for name, values in self.values.items():
            given = {"long_name": name} | self.attributes.get(name, {})
            variables[name] = (dims, values, given)
            if name in self.std:
                of_std = (
                    given | {"long_name": f"{STD} of {given['long_name']}"} | self.attributes.get(f"{name}_std", {})
                )
                of_std.pop("standard_name", None)
                variables[f"{name}_std"] = (dims, self.std[name], of_std)
                given["ancillary_variables"] = f"{name}_std"
        comment = f"Cells farther than {self.reach:.4g}{unit} from all {len(self.data)} points are empty."
        notes = {"Conventions": "CF-1.8"} | ({"comment": comment} if np.isfinite(self.reach) else {})
        return xarray.Dataset(variables, axes, notes)


def _names_of(y: Any, values: Any) -> list[str]:
    """Return the names of the outputs of a model with these values."""
    if values.ndim == 1:
        return [str(getattr(y, "name", None) or "value")]
    columns = getattr(y, "columns", range(values.shape[1]))
    return [name if isinstance(name, str) else f"value_{name}" for name in columns]


def axes_around(data: Matrix, degrees: bool, region: Any, spacing: Any) -> tuple[Vector, Vector]:
    """Return the coordinates of the columns and rows of a grid around the data, at multiples of the spacing."""
    low, high = extent_of(data, degrees)
    if region is not None:
        ends = np.array(region, dtype=np.float64)
        if degrees and ends.shape == (4,) and 180 <= ends[0] - ends[1] <= 360:  # across the 180th meridian, or zero
            ends[:2] += [0, 360] if ends[1] <= 0 else [-360, 0]
        most = [360, 360, 90, 90] if degrees else np.finfo(float).max
        if ends.shape != (4,) or not np.all(np.abs(ends) <= most) or ends[0] > ends[1] or ends[2] > ends[3]:
            raise ValueError(
                f"region must be (west, east, south, north){' in degrees' * degrees} with west <= east and south <= "
                f"north, got {region!r}."
            )
        low, high = ends[::2], ends[1::2]
    extent = high - low
    if not np.any(extent > 0):
        raise ValueError(f"All points are at {low.tolist()}: a map needs different positions, or a region.")
    if spacing is None:
        area = np.prod(np.where(extent > 0, extent, extent.max() / 100))
        spacing = rounded_up(float(np.sqrt(area / (0.95 * CELLS))))
    steps = np.broadcast_to(np.asarray(spacing, dtype=np.float64), (2,))
    if not np.all((steps > 0) & np.isfinite(steps)):
        raise ValueError(f"spacing must be positive, got {spacing!r}.")
    if np.all(steps > extent):
        raise ValueError(
            f"A spacing of {steps.tolist()} is larger than the map, which extends over {extent.tolist()}: give a "
            "smaller spacing in units of the columns."
        )
    count = np.floor(extent / steps + 2)
    if count.prod() > MANY:
        raise ValueError(
            f"A spacing of {steps.tolist()} makes {count.prod():,.0f} cells, above {MANY:,}: give a larger spacing in "
            "units of the columns, or a smaller region."
        )
    if region is not None:  # exactly where it begins
        axes = [a + h * np.arange(floor((b - a) / h + 1e-9) + 1) for a, b, h in zip(low, high, steps, strict=True)]
    else:
        ends_of = [(floor(a / h + 1e-9), ceil(b / h - 1e-9)) for a, b, h in zip(low, high, steps, strict=True)]
        axes = [h * np.arange(a, b + 1) for (a, b), h in zip(ends_of, steps, strict=True)]
    x, y = (axis.round(12) for axis in axes)
    if degrees:
        x, y = x[x < x[0] + 360 - 1e-9], y[np.abs(y) <= 90]
    return x, y


def extent_of(data: Matrix, degrees: bool) -> tuple[Vector, Vector]:
    """Return the smallest and largest coordinates of the data; longitudes along the shortest arc."""
    low, high = data.min(axis=0), data.max(axis=0)
    if degrees:
        low[0], high[0] = arc(data[:, 0])
    return low, high


def arc(longitudes: Vector) -> tuple[float, float]:
    """Return the ends of the shortest arc that has all longitudes; the second may be above 180.

    The longitudes of the data are kept if they are on such an arc; otherwise it is within a turn of zero.
    """
    around = np.unique(np.remainder(longitudes, 360.0))
    gaps = np.diff(around, append=around[0] + 360.0)
    start = around[(int(gaps.argmax()) + 1) % len(around)]
    length = 360.0 - float(gaps.max())
    if np.ptp(longitudes) <= length + 1e-9:
        return float(longitudes.min()), float(longitudes.max())
    start = float(start) - (360.0 if start >= 180.0 or start + length > 360.0 else 0.0)
    return start, start + length


def rounded_up(step: float) -> float:
    """Return the smallest round number, one digit and a power of ten, that is not below a positive number."""
    power = 10.0 ** floor(log10(step))
    return float(next(factor * power for factor in range(1, 11) if factor * power >= step * (1 - 1e-9)))


def typical_gap(data: Matrix, low: Vector, high: Vector, position_of: Callable[[Matrix], Matrix]) -> float:
    """Return the median distance to the nearest datum, over a lattice within the convex hull of the data.

    The lattice fills the box from `low` to `high` in the columns; on the sphere, all of it counts.
    """
    places = position_of(data)
    tree = scipy.spatial.cKDTree(places)
    sides = (np.linspace(a, b, LATTICE) for a, b in zip(low, high, strict=True))
    lattice = position_of(np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2))
    if places.shape[1] == 2:
        try:
            hull = places[scipy.spatial.ConvexHull(places).vertices]
            lattice = lattice[scipy.spatial.Delaunay(hull).find_simplex(lattice) >= 0]
        except scipy.spatial.QhullError:  # the data are on a line
            lattice = lattice[:0]
    gap = float(np.median(tree.query(lattice)[0])) if len(lattice) else 0.0
    if gap > 0:
        return gap
    nearest = tree.query(np.unique(places, axis=0), k=2)[0][:, 1]
    return float(np.median(nearest))  # infinite for a single place
