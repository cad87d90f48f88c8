"""`rkhs map`: from a table of points to a map with standard deviations, as netCDF or a table, and a picture."""

from __future__ import annotations

import sys
import warnings
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

import rkhs
from rkhs._command.options import NETCDF, MapRequest, check_picture, write_figure, write_table
from rkhs._command.tables import TEXT, Table, read
from rkhs._command.terminal import CommandError, Problems, listed, step
from rkhs._core.files import replacing
from rkhs.estimators._maps import left_out_surprise
from rkhs.estimators.search._search import paired_test
from rkhs.extend import Vector, import_optional, warn
from rkhs.maps import LONLAT, GridMap, are_degrees, axes_around, check_degrees, coordinate_names
from rkhs.plotting import MapDisplay

FEWEST = 5  # positions from which a map is made
FAR, MOST = 5.0, (0.05, 0.95)  # the extent of all points, in units of that of most, from which some may be wrong
LEARNING = 0.6  # share of a time limit for learning; the rest is for the cells


def run(request: MapRequest, problems: Problems) -> dict[str, Any]:
    """Read, learn, predict, write and draw; return all facts."""
    start = perf_counter()
    with problems.gathered():
        check_picture(request.outputs["--picture"])
    if request.out.suffix.lower() == NETCDF:
        import_optional("xarray", "netCDF files need xarray: pip install 'rkhs[geo]', or write --out map.csv.")
    with step("reading"), problems.gathered():
        X, y, weight, facts = _points_of(request, read(request.data, request.form))
    problems.check()
    degrees = request.coordinates == LONLAT or (request.coordinates is None and are_degrees(X.columns))
    facts["coordinates"] = (
        "degrees; distances are in km" if degrees else "a plane; distances are in units of the columns"
    )
    if degrees:
        try:
            check_degrees(X.to_numpy())
        except ValueError as error:
            raise CommandError(f"{error} With --coordinates plane no column has degrees.") from None
    axes_around(X.to_numpy(), degrees, request.box, request.spacing)  # refuses too many cells
    limit = request.time_limit
    model = rkhs.InvariantRegressorCV(
        coordinates=LONLAT if degrees else None,
        loss=request.loss,
        time_limit=None if limit is None else LEARNING * limit / (1 if weight is None else 2),
        verbose=sys.stderr.isatty(),
    )
    with warnings.catch_warnings(record=True, action="always", category=UserWarning) as seen:
        with step("choosing settings and learning the map"):
            points = X if degrees else X.to_numpy()
            model.fit(points, y, weight)
            if weight is not None and request.loss == "squared":
                model = _with_better_weights(model, points, y, weight, request.error)
        with step("predicting cells with standard deviations"):
            if limit is not None:
                model.set_params(time_limit=max(limit - (perf_counter() - start), 0.1 * limit))
            chart, late = _chart(model, X, y, request)
    notes = list(dict.fromkeys(str(one.message) for one in seen)) + late
    places = X.to_numpy() if model.coordinates_ is None else model.coordinates_(X)
    if request.region is None and np.any(
        np.ptp(places, axis=0) > FAR * np.ptp(np.quantile(places, MOST, axis=0), axis=0)
    ):
        notes.append("A few points are far from all others: if their positions are wrong, give --region.")
    with step("writing"):
        picture = request.outputs["--picture"]
        request.out.parent.mkdir(parents=True, exist_ok=True)
        if request.out.suffix.lower() == NETCDF:
            with replacing(request.out) as file:
                chart.to_xarray().to_netcdf(file)
        else:
            write_table(chart.to_frame(), request.out)
        write_figure(MapDisplay(chart, y.name).plot().figure_, picture)
    values, std = chart.values[y.name], chart.std.get(y.name)
    cells = {"columns": values.shape[1], "rows": values.shape[0], "empty": int(np.isnan(values).sum())}
    steps = [float(np.diff(axis[:2])[0]) for axis in chart.axes if len(axis) > 1]
    report = getattr(model, "selection_report_", {})
    return facts | {
        "choice": report.get("sentence"),
        "cells": cells,
        "spacing": sorted(set(np.round(steps, 12).tolist())),
        "filled up to": f"{chart.reach:.4g}{' km' if degrees else ''} from the nearest point",
        "standard deviations (5 %, median, 95 %)": None if std is None else np.nanpercentile(std, [5, 50, 95]).tolist(),
        "notes": notes,
        "map": str(request.out),
        "picture": str(picture),
        "seconds": round(perf_counter() - start, 1),
    }


def _with_better_weights(model: Any, X: Any, y: Any, weight: Vector, error: str | None) -> Any:
    """Return the model, or one without weights if left-out values are significantly more probable; warn then."""
    plain = clone(model).fit(X, y)
    data, values = np.asarray(X), y.to_numpy()
    stated = left_out_surprise(model, data, values, weight)
    equal = left_out_surprise(plain, data, values, np.ones_like(weight))
    if not paired_test(stated, equal, least=0.0):
        return model
    warn(
        f"The errors in {error!r} are not used: the mean logarithm of the density of left-out values is "
        f"{-equal.mean():.3g} without them and {-stated.mean():.3g} with them."
    )
    return plain


def _chart(model: Any, X: Any, y: Any, request: MapRequest) -> tuple[GridMap, list[str]]:
    """Return the map, without standard deviations if the loss has none or time is short, and notes about it."""
    options = {"region": request.box, "spacing": request.spacing, "reach": request.reach}
    if request.loss != "squared":
        note = f"There are no standard deviations with --loss {request.loss}."
        return GridMap.of(model, X, y, std=False, **options), [note]
    try:
        return GridMap.of(model, X, y, **options), []
    except TimeoutError:
        note = f"There was no time for standard deviations within --time-limit {request.time_limit:g}."
        model.set_params(time_limit=None)
        return GridMap.of(model, X, y, std=False, **options), [note]


def _points_of(request: MapRequest, table: Table) -> tuple[pd.DataFrame, pd.Series, Vector | None, dict[str, Any]]:
    """Return the positions, the values, the weights of rows and facts about the rows; refuse what makes no map."""
    names, problems = list(table.columns), Problems()
    x, y, value = request.x, request.y, request.value
    if x is None or y is None:
        try:
            found = coordinate_names(names)
            x, y = x or found[0], y or found[1]
        except ValueError:
            problems.add(
                f"{table.path} has no columns called longitude and latitude, or x and y; its columns are "
                f"{listed(names, 8)}: name them with --x and --y."
            )
    if value is None:
        others = [
            name for name in names if name not in (x, y, request.error) and table.columns[name].cells.notna().any()
        ]
        others = [name for name in others if table.columns[name].kind() != TEXT]
        if len(others) == 1:
            value = others[0]
        else:
            problems.add(
                f"--value must name the column of {table.path} to map"
                + (
                    f", one of {listed(others, 8)}."
                    if others
                    else ": it has none with numbers besides the coordinates."
                )
            )
    columns: dict[str, Vector] = {}
    for name in (x, y, value, request.error):
        if name is not None:
            with problems.gathered():
                columns[name] = table.column(name).numbers()
    problems.check()
    if len({x, y, value, request.error}) < len(columns) or len(columns) < 3:
        raise CommandError(f"--x, --y and --value name the columns {x!r}, {y!r} and {value!r}: they must differ.")
    for name, cells in columns.items():
        if np.all(np.isnan(cells)):
            problems.add(f"Column {name!r} of {table.path} has no numbers: name another column.")
    problems.check()
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
    facts = {"rows": table.rows, "points": len(frame), "values": value, "x, y": [x, y]}
    weight = None
    if request.error is not None:
        errors = frame[request.error].to_numpy()
        if np.any(errors <= 0):
            raise CommandError(
                f"Column {request.error!r} of {table.path} must be positive: it has standard deviations."
            )
        weight = np.exp(2 * (np.log(errors).mean() - np.log(errors)))  # one over the variance, in units of their mean
    values.attrs = {value: {"units": request.units}} if request.units else {}
    return positions, values, weight, facts
