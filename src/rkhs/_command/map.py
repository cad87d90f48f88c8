"""`rkhs map`: from a table of points to a map with standard deviations, as netCDF or a table, and a picture."""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

import rkhs
from rkhs._command.options import NETCDF, MapRequest, check_picture, write_figure, write_table
from rkhs._command.tables import TEXT, Table, read
from rkhs._command.terminal import CommandError, Problems, listed, step
from rkhs.extend import Matrix, Vector, import_optional, paired_test, replacing, warn
from rkhs.maps import LONLAT, GridMap, are_degrees, axes_around, coordinate_names
from rkhs.plotting import MapDisplay

FEWEST = 5  # positions from which a map is made
FAR, MOST = 5.0, (0.05, 0.95)  # the extent of all points, in units of that of most, from which some may be wrong
LEARNING = 0.6  # share of a time limit for learning; the rest is for the cells
NEAREST, LEFT_OUT = rkhs.Neighbors(24, far=4), 1500  # neighborhoods and rows by which stated errors are judged
WIDEST = (360.0, 90.0)  # degrees of longitude and latitude


@dataclass(frozen=True, eq=False)
class Points:
    """Positions (t, 2), values (t,) and the weights of rows, if their errors are stated."""

    X: pd.DataFrame
    y: pd.Series
    weight: Vector | None
    degrees: bool


def run(request: MapRequest, problems: Problems) -> dict[str, Any]:
    """Read, learn, predict, write and draw; return all facts."""
    start, picture = perf_counter(), request.outputs["--picture"]
    with problems.gathered():
        check_picture(picture)
    if request.out.suffix.lower() == NETCDF:
        import_optional("xarray", "netCDF files need xarray: pip install 'rkhs[geo]', or write --out map.csv.")
    with step("reading"), problems.gathered():
        table = read(request.data, request.form)
        points = _points_of(request, table)
    problems.check()
    axes_around(points.X.to_numpy(), points.degrees, request.box, request.spacing)  # refuses too many cells
    with warnings.catch_warnings(record=True, action="always", category=UserWarning) as seen:
        with step("choosing settings and learning the map"):
            model = _learned(request, points)
        with step("predicting cells with standard deviations"):
            if request.time_limit is not None:
                left = request.time_limit - (perf_counter() - start)
                model.set_params(time_limit=max(left, 0.1 * request.time_limit))
            chart, notes = _chart(model, points, request)
    notes = [*dict.fromkeys(str(one.message) for one in seen), *notes]
    places = points.X.to_numpy() if model.coordinates_ is None else model.coordinates_(points.X)
    extent, of_most = np.ptp(places, axis=0), np.ptp(np.quantile(places, MOST, axis=0), axis=0)
    if request.region is None and np.any(extent > FAR * of_most):
        notes.append("A few points are far from all others: if their positions are wrong, give --region.")
    name = points.y.name
    with step("writing"):
        _write(chart, request)
        write_figure(MapDisplay(chart, name).plot().figure_, picture)
    values, std = chart.values[name], chart.std.get(name)
    steps = [float(np.diff(axis[:2])[0]) for axis in chart.axes if len(axis) > 1]
    return {
        "rows": table.rows,
        "points": len(points.y),
        "values": name,
        "x, y": list(points.X.columns),
        "coordinates": "degrees; distances are in km"
        if points.degrees
        else "a plane; distances are in units of the columns",
        "choice": getattr(model, "selection_report_", {}).get("sentence"),
        "cells": {"columns": values.shape[1], "rows": values.shape[0], "empty": int(np.isnan(values).sum())},
        "spacing": sorted(set(np.round(steps, 12).tolist())),
        "filled up to": f"{chart.reach:.4g}{' km' if points.degrees else ''} from the nearest point",
        "standard deviations (5 %, median, 95 %)": None if std is None else np.nanpercentile(std, [5, 50, 95]).tolist(),
        "notes": notes,
        "map": str(request.out),
        "picture": str(picture),
        "seconds": round(perf_counter() - start, 1),
    }


def _points_of(request: MapRequest, table: Table) -> Points:
    """Return the points in a table; refuse columns and rows that make no map."""
    problems, columns = Problems(), {}
    x, y, value = _names_of(request, table, problems)
    for name in filter(None, (x, y, value, request.error)):
        with problems.gathered():
            columns[name] = table.column(name).numbers()
    problems.check()
    if len({x, y, value, request.error}) < len(columns) or len(columns) < 3:
        raise CommandError(f"--x, --y and --value name the columns {x!r}, {y!r} and {value!r}: they must differ.")
    for name, cells in columns.items():
        if np.all(np.isnan(cells)):
            problems.add(f"Column {name!r} of {table.path} has no numbers: name another column.")
    problems.check()
    degrees = request.coordinates == LONLAT or (request.coordinates is None and are_degrees([x, y]))
    for name, widest in zip((x, y), WIDEST if degrees else (), strict=False):
        remedy = f"beyond {widest:g} degrees: correct or empty the cell, or state --coordinates plane"
        table.columns[name].refuse(np.abs(columns[name]) > widest, remedy)
    frame = pd.DataFrame(columns).dropna()
    positions, values = frame[[x, y]], frame[value]
    distinct = len(np.unique(positions.to_numpy(), axis=0))
    if distinct < FEWEST:
        raise CommandError(
            f"{table.path} has {len(frame)} rows with all of {listed(list(columns), 4)}, at {distinct} places: a map "
            f"needs at least {FEWEST} places."
        )
    if not np.ptp(values.to_numpy()):
        raise CommandError(
            f"Column {value!r} of {table.path} is {values.iloc[0]:g} in all rows: there is nothing to map."
        )
    weight = None
    if request.error is not None:
        errors = frame[request.error].to_numpy()
        if np.any(errors <= 0):
            raise CommandError(
                f"Column {request.error!r} of {table.path} must be positive: it has standard deviations."
            )
        weight = np.exp(2 * (np.log(errors).mean() - np.log(errors)))  # one over the variance, in units of their mean
    values.attrs = {value: {"units": request.units}} if request.units else {}
    return Points(positions, values, weight, degrees)


def _names_of(request: MapRequest, table: Table, problems: Problems) -> tuple[str, str, str]:
    """Return the columns of x, y and the value: those that are stated, or that are found by names and kinds."""
    names = list(table.columns)
    x, y, value = request.x or "", request.y or "", request.value or ""
    if not (x and y):
        try:
            found = coordinate_names(names)
            x, y = x or found[0], y or found[1]
        except ValueError:
            problems.add(
                f"{table.path} has no columns called longitude and latitude, or x and y; its columns are "
                f"{listed(names, 8)}: name them with --x and --y."
            )
    if not value:
        others = [column for name, column in table.columns.items() if name not in (x, y, request.error)]
        numbers = [column.name for column in others if column.cells.notna().any() and column.kind() != TEXT]
        if len(numbers) != 1:
            which = (
                f", one of {listed(numbers, 8)}." if numbers else ": it has none with numbers besides the coordinates."
            )
            problems.add(f"--value must name the column of {table.path} to map{which}")
        value = numbers[0] if len(numbers) == 1 else ""
    return x, y, value


def _learned(request: MapRequest, points: Points) -> Any:
    """Return the fitted regressor, without weights if left-out values are significantly more probable so."""
    limit, shares = request.time_limit, 1 if points.weight is None else 2
    model = rkhs.InvariantRegressorCV(
        coordinates=LONLAT if points.degrees else None,
        loss=request.loss,
        time_limit=None if limit is None else LEARNING * limit / shares,
        verbose=sys.stderr.isatty(),
    )
    X = points.X if points.degrees else points.X.to_numpy()
    model.fit(X, points.y, points.weight)
    if points.weight is None or request.loss != "squared":
        return model
    plain, data, values = clone(model).fit(X, points.y), points.X.to_numpy(), points.y.to_numpy()
    stated = left_out_surprise(model, data, values, points.weight)
    equal = left_out_surprise(plain, data, values, np.ones_like(points.weight))
    if not paired_test(stated, equal, least=0.0):
        return model
    warn(
        f"The errors in {request.error!r} are not used: the mean logarithm of the density of left-out values is "
        f"{-equal.mean():.3g} without them and {-stated.mean():.3g} with them."
    )
    return plain


def left_out_surprise(model: Any, X: Matrix, y: Vector, weight: Vector) -> Vector:
    """Return minus the logarithms of the densities of left-out values, by the neighborhoods of a fitted map.

    Some rows are left out, one by one.  The values have the given weights, the inverse variances of their noise up to a
    factor.
    """
    positions = X if model.coordinates_ is None else model.coordinates_(X)
    kernel, basis = model.problem_.kernel, model.problem_.basis
    weights = model.target_weight_ * weight / weight.mean()
    term = rkhs.Term(rkhs.Evaluation(positions), rkhs.Squared(), y, weights)
    function = rkhs.Problem(kernel, [term], basis, approximation=NEAREST).solve().function
    rows = np.sort(np.random.default_rng(0).permutation(len(y))[:LEFT_OUT])
    values, variance = function.left_out(rows)
    # -log N(y; f, tau^2 v) up to a constant, with the tau^2 of the largest likelihood, the mean of (f - y)^2 / v
    variance = variance + function.noise[rows]
    squares = (values - y[rows]) ** 2 / variance
    return (np.log(np.mean(squares) * variance) + squares / np.mean(squares)) / 2


def _chart(model: Any, points: Points, request: MapRequest) -> tuple[GridMap, list[str]]:
    """Return the map, without standard deviations if the loss has none or time is short, and notes about it."""
    options = {"region": request.box, "spacing": request.spacing, "reach": request.reach}
    note = f"There are no standard deviations with --loss {request.loss}."
    if request.loss == "squared":
        try:
            return GridMap.of(model, points.X, points.y, **options), []
        except TimeoutError:
            note = f"There was no time for standard deviations within --time-limit {request.time_limit:g}."
            model.set_params(time_limit=None)
    return GridMap.of(model, points.X, points.y, std=False, **options), [note]


def _write(chart: GridMap, request: MapRequest) -> None:
    """Write the map as netCDF or as a table, by the suffix of the file."""
    request.out.parent.mkdir(parents=True, exist_ok=True)
    if request.out.suffix.lower() == NETCDF:
        with replacing(request.out) as file:
            chart.to_xarray().to_netcdf(file)
    else:
        write_table(chart.to_frame(), request.out)
