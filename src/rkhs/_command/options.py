"""Options of `rkhs fit`, `map` and `predict`, files that they name, and problems found without reading a table.

The annotated fields of a class are the options of its command.  Nothing here imports NumPy, pandas or scikit-learn,
which take seconds: a wrong name of a file is reported at once.
Files are never written over what the command reads, and over what is there only if asked.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rkhs._command.terminal import CommandError, Problems, suggest
from rkhs.extend import replacing

if TYPE_CHECKING:
    import pandas as pd

AUTO, NONE = "auto", "none"
Texts = list[str]
NOT_GIVEN: Any = ()  # the default of options that may be repeated
NU = {"gradient": 1.0, "local_average": 1.0, "graph": 100.0}  # mild default weights of named priors
PARQUET = (".parquet", ".pq")
NETCDF = ".nc"
LOSSES = ("squared", "absolute")  # of `rkhs map`; those with a width would need its unit
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")  # how cells begin that spreadsheets compute (OWASP, CSV injection)
NUMBER = re.compile(r"[+-]?(\d+[.,]?\d*|[.,]\d+)([eE][+-]?\d+)?", re.ASCII)  # with a decimal point or comma


def check_is_file(path: Path, kind: str) -> None:
    """Refuse a path that is not a file; `kind` is what it should be, such as "a table"."""
    if path.is_dir():
        raise CommandError(f"{path} is a folder, not {kind}: give the name of a file.")
    if not path.is_file():
        near = [other.name for other in path.parent.iterdir() if other.is_file()] if path.parent.is_dir() else []
        raise CommandError(f"There is no file {path}.{suggest(path.name, near)}")


@dataclass(frozen=True)
class Format:
    """Options for reading a file: texts that mark missing cells; for CSV also the separator and the decimal sign.

    A model file keeps them, because `rkhs predict` must read a table in the same way.
    """

    missing: tuple[str, ...] = ()
    separator: str | None = None
    decimal: str | None = None

    @classmethod
    def from_options(cls, missing: str, separator: str | None, decimal: str | None) -> Format:
        """Validate the options of a command; a tab may be written \\t."""
        marks = tuple(text.strip() for text in missing.split(",") if text.strip())
        separator, problems = "\t" if separator in ("\\t", "tab") else separator, Problems()
        if separator is not None and (len(separator) != 1 or separator in '"\n\r'):
            problems.add(
                f"--separator must be one character other than a quote, such as ; or \\t for a tab, got {separator!r}."
            )
        if decimal not in (None, ".", ","):
            problems.add(f"--decimal must be . or , and is {decimal!r}.")
        if separator is not None and separator == decimal:
            problems.add(f"--separator and --decimal are both {decimal!r}: they must differ.")
        problems.check()
        return cls(marks, separator, decimal)

    def with_options(self, stated: Format, model: Path) -> Format:
        """Return the format of a model file with what `rkhs predict` states besides; refuse contradictions."""
        problems = Problems()
        for option in ("separator", "decimal"):
            kept, other = getattr(self, option), getattr(stated, option)
            if None not in (kept, other) and kept != other:
                problems.add(
                    f"--{option} is {other!r} here and was {kept!r} when {model} was fitted: leave the option out, and "
                    f"write the table with {kept!r}."
                )
        problems.check()
        marks = dict.fromkeys((*self.missing, *stated.missing))
        return Format(tuple(marks), self.separator or stated.separator, self.decimal or stated.decimal)


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of all commands that read a table and write files."""

    help = ""
    data: Path
    out: Path
    missing: Annotated[
        str, typer.Option(help="Texts that stand for missing cells, as in NA,?; empty cells always do.")
    ] = ""
    separator: Annotated[
        str | None,
        typer.Option(help="The separator of cells, as in ; or \\t for a tab; found from the header if not given."),
    ] = None
    decimal: Annotated[
        str | None, typer.Option(help="The decimal sign, . or , (the other one separates thousands).")
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Replace files that are there already.")] = False

    @property
    def form(self) -> Format:
        """The format of the table."""
        return Format.from_options(self.missing, self.separator, self.decimal)

    @property
    def inputs(self) -> dict[Path, str]:
        """The files to read, and what they should be."""
        return {self.data: "a table"}

    @property
    def outputs(self) -> dict[str, Path]:
        """The files to write, by option."""
        return {"--out": self.out}

    def problems(self) -> Problems:
        """Return what is wrong with the options and the files, whatever the table contains."""
        problems = Problems()
        with problems.gathered():
            _ = self.form
        self.add_problems(problems)
        with problems.gathered():
            check_outputs(self.outputs, self.inputs, self.force)
        for path, kind in self.inputs.items():
            with problems.gathered():
                check_is_file(path, kind)
        return problems

    def add_problems(self, problems: Problems) -> None:
        """Add what is wrong with the other options of a command."""


@dataclass(frozen=True, kw_only=True)
class Request(Options):
    """The options of `rkhs fit`; `signs` maps monotone features, by number, to +1 (increasing) or -1 (decreasing)."""

    help = "Fit a model to a table; write it with a picture and a report that compares it with a plain SVM."
    data: Annotated[Path, typer.Argument(help="CSV or Parquet; rows with an empty target are unlabeled.")]
    target: Annotated[str, typer.Option(help="The column to predict.")]
    out: Annotated[Path, typer.Option(help="The model file to write.")] = Path("model.skops")
    invariance: Annotated[
        str, typer.Option(help="auto chooses all settings; or gradient, local_average, graph, none.")
    ] = AUTO
    cv: Annotated[bool, typer.Option("--cv", help="Choose C, nu and scale of a named invariance too.")] = False
    C: Annotated[float | None, typer.Option("--C", help="Weight of the labels, instead of a chosen one.")] = None
    nu: Annotated[float | None, typer.Option(help="Weight of a named invariance, instead of a chosen one.")] = None
    increasing: Annotated[Texts, typer.Option(help="A column with which the prediction can only rise.")] = NOT_GIVEN
    decreasing: Annotated[Texts, typer.Option(help="A column with which the prediction can only fall.")] = NOT_GIVEN
    regression: Annotated[bool, typer.Option("--regression", help="Predict a number, not a class.")] = False
    ignore: Annotated[Texts, typer.Option(help="A column to leave out (may be repeated).")] = NOT_GIVEN
    text: Annotated[Texts, typer.Option(help="A column to read as text (may be repeated).")] = NOT_GIVEN
    ids: Annotated[Texts, typer.Option("--id", help="A column that names rows, kept in predictions; repeatable.")] = (
        NOT_GIVEN
    )
    picture: Annotated[Path | None, typer.Option(help="The picture to draw, by default next to the model.")] = None
    report: Annotated[Path | None, typer.Option(help="The HTML report, by default next to the model.")] = None
    signs: Mapping[int, int] = field(default_factory=dict)

    @property
    def outputs(self) -> dict[str, Path]:
        """The files to write, by option; picture and report are next to the model unless they are named."""
        stem = os.path.splitext(self.out)[0]
        picture, report = self.picture or Path(stem + ".png"), self.report or Path(stem + ".html")
        return {"--out": self.out, "--picture": picture, "--report": report}

    def add_problems(self, problems: Problems) -> None:
        """Add what is wrong with the prior, its weight, and monotone columns."""
        names = (AUTO, *NU, NONE)
        if self.invariance not in names:
            problems.add(
                f"--invariance must be one of {', '.join(names)}, got {self.invariance!r}."
                + suggest(self.invariance, names)
            )
        if self.C is not None and not 0 < self.C < inf:
            problems.add(f"--C must be a finite number > 0, got {self.C}: 10 is a good start.")
        if self.nu is not None and not 0 <= self.nu < inf:
            problems.add(f"--nu must be a finite number >= 0, got {self.nu}: 1 is a good start.")
        if self.nu is not None and 0 < self.nu < inf and self.invariance in (AUTO, NONE):
            problems.add(
                f"--nu is the weight of a prior, and --invariance {self.invariance} names none: name one, such as "
                "gradient, or leave out --nu."
            )
        for name in set(self.increasing) & set(self.decreasing):
            problems.add(f"Column {name!r} is both --increasing and --decreasing: keep one of them.")


@dataclass(frozen=True, kw_only=True)
class MapRequest(Options):
    """The options of `rkhs map`."""

    help = "Make a map with standard deviations from points in a table: a netCDF file and a picture."
    data: Annotated[Path, typer.Argument(help="CSV or Parquet with a row for each point.")]
    x: Annotated[str | None, typer.Option(help="The column of the longitude, or of x; found by its name.")] = None
    y: Annotated[str | None, typer.Option(help="The column of the latitude, or of y; found by its name.")] = None
    value: Annotated[str | None, typer.Option(help="The column to map, if there are several.")] = None
    out: Annotated[Path, typer.Option(help="The map to write: .nc (netCDF), or .csv or .parquet.")] = Path("map.nc")
    picture: Annotated[Path | None, typer.Option(help="The picture to draw, by default next to the map.")] = None
    units: Annotated[str | None, typer.Option(help="The unit of the values, for labels.")] = None
    error: Annotated[
        str | None, typer.Option(help="A column with the standard deviation of each measurement's error.")
    ] = None
    coordinates: Annotated[
        str | None, typer.Option(help="lonlat (degrees) or plane, instead of what names and numbers say.")
    ] = None
    region: Annotated[str | None, typer.Option(help="WEST/EAST/SOUTH/NORTH, by default around the points.")] = None
    spacing: Annotated[float | None, typer.Option(help="The distance of cells, in units of the columns.")] = None
    reach: Annotated[
        float | None, typer.Option(help="Leave cells empty that are farther from all points (km with degrees).")
    ] = None
    loss: Annotated[str, typer.Option(help="squared, or absolute against spikes, without error bars.")] = LOSSES[0]
    time_limit: Annotated[float | None, typer.Option(help="Seconds for learning and predicting.")] = None

    @property
    def outputs(self) -> dict[str, Path]:
        """The files to write, by option; the picture is next to the map unless it is named."""
        return {"--out": self.out, "--picture": self.picture or self.out.with_suffix(".png")}

    @property
    def box(self) -> tuple[float, ...] | None:
        """West, east, south and north of the region, which is a text such as -117/-107/20/30."""
        if self.region is None:
            return None
        try:
            west, east, south, north = map(float, re.split(r"[/,;\s]+", self.region.strip()))
        except ValueError:
            raise CommandError(f"--region must be four numbers, as in -117/-107/20/30, got {self.region!r}.") from None
        return west, east, south, north

    def add_problems(self, problems: Problems) -> None:
        """Add what is wrong with choices, positive numbers and the region."""
        for option, value, names in (
            ("--coordinates", self.coordinates, (None, "lonlat", "plane")),
            ("--loss", self.loss, LOSSES),
            ("--out", self.out.suffix.lower(), (NETCDF, ".csv", *PARQUET)),
        ):
            if value not in names:
                problems.add(f"{option} must be one of {', '.join(filter(None, names))}, got {value!r}.")
        for option, number in (("--spacing", self.spacing), ("--reach", self.reach), ("--time-limit", self.time_limit)):
            if number is not None and not number > 0:
                problems.add(f"{option} must be a positive number, got {number}.")
        with problems.gathered():
            _ = self.box


@dataclass(frozen=True, kw_only=True)
class PredictRequest(Options):
    """The options of `rkhs predict`."""

    help = "Predict the target of each row of a table: classes with probabilities, or numbers with intervals."
    model: Annotated[Path, typer.Argument(help="A model file that `rkhs fit` wrote.")]
    data: Annotated[Path, typer.Argument(help="CSV or Parquet with the columns of the model.")]
    out: Annotated[Path, typer.Option(help="The table of predictions to write.")] = Path("predictions.csv")

    @property
    def inputs(self) -> dict[Path, str]:
        return {self.model: "a model file", self.data: "a table"}


def check_outputs(outputs: Mapping[str, Path], inputs: Iterable[Path], force: bool) -> None:
    """Refuse, before any work, files that cannot or must not be written; `outputs` maps options to files."""
    seen = [(f"the input {path}", path) for path in inputs]
    for option, path in outputs.items():
        for name, other in seen:
            both = path.exists() and other.exists()
            if path.samefile(other) if both else os.path.realpath(path) == os.path.realpath(other):
                raise CommandError(f"{path} is {name}: give another name with {option}.")
        if path.is_dir():
            raise CommandError(f"{path} is a folder: give the name of a file to write.")
        folder = next((parent for parent in path.absolute().parents if parent.exists()), Path("/"))
        writable = folder.is_dir() and os.access(folder, os.W_OK)
        if not writable or (path.exists() and not (path.is_file() and os.access(path, os.W_OK))):
            raise CommandError(f"{path} cannot be written: choose another place with {option}.")
        if path.exists() and not force:
            raise CommandError(f"{path} is there already: give another name with {option}, or replace it with --force.")
        seen.append((f"the file of {option} too", path))


def check_picture(path: Path) -> None:
    """Refuse a picture in a format that matplotlib does not write."""
    from matplotlib.backend_bases import FigureCanvasBase

    formats = sorted(FigureCanvasBase.get_supported_filetypes())
    if path.suffix[1:].lower() not in formats:
        raise CommandError(f"{path} names no kind of picture: it can end in .{', .'.join(formats)}.")


def write_figure(figure: Any, path: Path) -> None:
    """Write a figure of matplotlib to a file, and close it."""
    import matplotlib.pyplot as plt

    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        figure.savefig(file, dpi=110, format=path.suffix[1:].lower())
    plt.close(figure)


def write_table(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV or Parquet, by the suffix of the file.

    In CSV files an apostrophe, which spreadsheets hide, precedes texts that they would compute as formulas.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        if path.suffix.lower() in PARQUET:
            frame.to_parquet(file, index=False)
            return
        texts = frame.select_dtypes(exclude="number").columns
        frame = frame.assign(**{name: frame[name].map(escaped) for name in texts}).rename(columns=escaped)
        returns = any("\r" in str(cell) for name in texts for cell in frame[escaped(name)])  # pandas does not quote it
        frame.to_csv(file, index=False, quoting=csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL)


def escaped(cell: Any) -> Any:
    """Return a cell that no spreadsheet takes for a formula; numbers with a sign stay numbers."""
    formula = isinstance(cell, str) and cell.startswith(FORMULA) and not NUMBER.fullmatch(cell)
    return f"'{cell}" if formula else cell
