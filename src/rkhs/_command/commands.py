"""The subcommands and their options.

Modules that need NumPy, pandas or scikit-learn are imported when the files and options are known to be right.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

import rkhs
from rkhs._command.options import Format, MapRequest, Request, check_is_file, gather_files
from rkhs._command.terminal import CommandError, Problems, finite, show

app = typer.Typer(
    help="Fit kernel models to tables: they learn from labels, from rows without one, and from what you know.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
Facts = dict[str, Any]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there already.")]
Missing = Annotated[str, typer.Option(help="Texts that stand for missing cells, as in NA,?; empty cells always do.")]
Separator = Annotated[
    str | None,
    typer.Option(help="The separator of cells, as in ; or \\t for a tab; found from the header if not given."),
]
Decimal = Annotated[str | None, typer.Option(help="The decimal sign, . or , (the other one separates thousands).")]
Several = list[str] | None


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    """Fit kernel models to tables: they learn from labels, from rows without one, and from what you know."""
    if version:
        typer.echo(f"rkhs {rkhs.__version__}")
        raise typer.Exit


@app.command()
def fit(
    data: Annotated[Path, typer.Argument(help="CSV or Parquet; rows with an empty target are unlabeled.")],
    target: Annotated[str, typer.Option(help="The column to predict.")],
    out: Annotated[Path, typer.Option(help="The model file to write.")] = Path("model.skops"),
    invariance: Annotated[
        str, typer.Option(help="auto chooses all settings; or gradient, local_average, graph, none.")
    ] = "auto",
    cv: Annotated[bool, typer.Option("--cv", help="Choose C, nu and scale of a named invariance too.")] = False,
    C: Annotated[float | None, typer.Option("--C", help="Weight of the labels, instead of a chosen one.")] = None,
    nu: Annotated[float | None, typer.Option(help="Weight of a named invariance, instead of a chosen one.")] = None,
    increasing: Annotated[Several, typer.Option(help="A column with which the prediction can only rise.")] = None,
    decreasing: Annotated[Several, typer.Option(help="A column with which the prediction can only fall.")] = None,
    regression: Annotated[bool, typer.Option("--regression", help="Predict a number, not a class.")] = False,
    ignore: Annotated[Several, typer.Option(help="A column to leave out (may be repeated).")] = None,
    text: Annotated[Several, typer.Option(help="A column to read as text (may be repeated).")] = None,
    ids: Annotated[
        Several, typer.Option("--id", help="A column that names rows, kept in predictions; repeatable.")
    ] = None,
    missing: Missing = "",
    separator: Separator = None,
    decimal: Decimal = None,
    picture: Annotated[Path | None, typer.Option(help="The picture to draw, by default next to the model.")] = None,
    report: Annotated[Path | None, typer.Option(help="The HTML report, by default next to the model.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Fit a model to a table; write it with a picture and a report that compares it with a plain SVM."""
    options = {name: value for name, value in locals().items() if name in Request.__dataclass_fields__}
    columns = {name: tuple(options[name] or ()) for name in ("increasing", "decreasing", "ignore", "text", "ids")}

    def work() -> Facts:
        request = Request(**options | columns, form=Format.from_options(missing, separator, decimal))
        problems = request.problems()
        if not data.is_file():
            problems.check()
        from rkhs._command.fit import run

        return run(request, problems)

    _answer(work, as_json, is_report=True)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A model file that `rkhs fit` wrote.")],
    data: Annotated[Path, typer.Argument(help="CSV or Parquet with the columns of the model.")],
    out: Annotated[Path, typer.Option(help="The table of predictions to write.")] = Path("predictions.csv"),
    missing: Missing = "",
    separator: Separator = None,
    decimal: Decimal = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Predict the target of each row of a table: classes with probabilities, or numbers with intervals."""

    def work() -> Facts:
        problems = Problems()
        with problems.gathered():
            stated = Format.from_options(missing, separator, decimal)
        gather_files(problems, {model: "a model file", data: "a table"}, {"--out": out}, force)
        problems.check()
        from rkhs._command.predict import run

        return run(model, data, out, stated)

    _answer(work, as_json)


@app.command("map")
def chart(
    data: Annotated[Path, typer.Argument(help="CSV or Parquet with a row for each point.")],
    x: Annotated[str | None, typer.Option(help="The column of the longitude, or of x; found by its name.")] = None,
    y: Annotated[str | None, typer.Option(help="The column of the latitude, or of y; found by its name.")] = None,
    value: Annotated[str | None, typer.Option(help="The column to map, if there are several.")] = None,
    out: Annotated[Path, typer.Option(help="The map to write: .nc (netCDF), or .csv or .parquet.")] = Path("map.nc"),
    picture: Annotated[Path | None, typer.Option(help="The picture to draw, by default next to the map.")] = None,
    units: Annotated[str | None, typer.Option(help="The unit of the values, for labels.")] = None,
    error: Annotated[
        str | None, typer.Option(help="A column with the standard deviation of each measurement's error.")
    ] = None,
    coordinates: Annotated[
        str | None, typer.Option(help="lonlat (degrees) or plane, instead of what names and numbers say.")
    ] = None,
    region: Annotated[str | None, typer.Option(help="WEST/EAST/SOUTH/NORTH, by default around the points.")] = None,
    spacing: Annotated[float | None, typer.Option(help="The distance of cells, in units of the columns.")] = None,
    reach: Annotated[
        float | None, typer.Option(help="Leave cells empty that are farther from all points (km with degrees).")
    ] = None,
    loss: Annotated[str, typer.Option(help="squared, or absolute against spikes, without error bars.")] = "squared",
    time_limit: Annotated[float | None, typer.Option(help="Seconds for learning and predicting.")] = None,
    missing: Missing = "",
    separator: Separator = None,
    decimal: Decimal = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Make a map with standard deviations from points in a table: a netCDF file and a picture."""
    options = {name: value for name, value in locals().items() if name in MapRequest.__dataclass_fields__}

    def work() -> Facts:
        request = MapRequest(**options, form=Format.from_options(missing, separator, decimal))
        problems = request.problems()
        if not data.is_file():
            problems.check()
        from rkhs._command.map import run

        return run(request, problems)

    _answer(work, as_json)


@app.command()
def sample(
    out: Annotated[Path, typer.Argument(help="The table to write, CSV or Parquet.")] = Path("churn.csv"),
    new: Annotated[Path | None, typer.Option(help="The table to predict; by default new.csv next to it.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Write sample tables for the other commands: customers of a telephone company, and who left."""
    from rkhs._command.demo import write_sample

    _answer(lambda: write_sample(out, new, force), as_json)


@app.command()
def inspect(
    model: Annotated[Path, typer.Argument(help="A model file that `rkhs fit` or rkhs.save wrote.")],
    as_json: Json = False,
) -> None:
    """Print the facts in a model file, without loading the model."""

    def work() -> Facts:  # nothing of the model is built, so that files of any version can be inspected
        check_is_file(model, "a model file")
        from rkhs.export import notes_of

        found = notes_of(model)
        notes = found.pop("notes", {})
        return {"file": str(model), "size in bytes": model.stat().st_size, **found, **notes}

    _answer(work, as_json)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path(),
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compare a plain SVM with models that have priors on handwritten digits, three labels each; table and picture."""
    from rkhs._command.demo import run

    _answer(lambda: run(out, force), as_json)


@app.command()
def play(
    port: Annotated[int, typer.Option(help="The port on this computer; 0 takes a free one.")] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
) -> None:
    """Serve a page on this computer: paint points, turn priors on and off, and see what is learned."""
    import webbrowser
    from threading import Timer

    from rkhs._command.play.server import Server

    def work() -> Facts:
        if not 0 <= port <= 65535:
            raise CommandError(f"--port must be from 0 to 65535, got {port}: 0 takes any that is free.")
        try:
            server = Server(port)
        except OSError as error:
            raise CommandError(f"Port {port} cannot be used ({error.strerror}): take another with --port.") from error
        with server:
            show({"page": server.address, "stop": "Ctrl-C"})
            if browser:
                Timer(0.2, webbrowser.open, [server.address]).start()
            server.serve_forever()
        return {}

    _answer(work, as_json=False)


@app.command()
def reproduce(
    name: Annotated[
        str, typer.Argument(help="two-moons, two-moons-2006, table1, digits, ..: without a name they are listed.")
    ] = "",
    quick: Annotated[bool, typer.Option("--quick", help="Compute a small part of it, in seconds.")] = False,
    jobs: Annotated[int, typer.Option(help="Processes.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder for results, page and picture.")] = Path("results"),
    resume: Annotated[bool, typer.Option("--resume", help="Continue an earlier run that was killed.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Compare a few cells of it, or of all, with the committed results.")
    ] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Reproduce a table or figure of the papers, next to the printed numbers; needs a clone of the repository."""

    def work() -> Facts:
        clone = Path(rkhs.__file__).resolve().parents[2]
        if not (clone / "papers" / "run.py").is_file():
            raise CommandError(
                "The papers' experiments are in the repository, not in the installed package: run `git clone "
                "https://github.com/rkhs-developers/rkhs`, and in its folder `pip install -e '.[cli]'` and "
                f"`python -m papers {name}`."
            )
        sys.path.insert(0, str(clone))
        from papers.__main__ import reproduce as answer

        return answer(name, out, check=check, jobs=jobs, quick=quick, resume=resume, force=force)

    _answer(work, as_json)


def _answer(work: Callable[[], Facts], as_json: bool, is_report: bool = False) -> None:
    """Do the work and print its facts; exit with 1 if it fails."""
    try:
        facts = work()
    except (CommandError, ValueError, RuntimeError, ImportError, OSError, MemoryError) as error:
        problems = error.problems if isinstance(error, CommandError) else (str(error),)
        if isinstance(error, OSError) and error.filename is None and error.strerror:
            problems = (error.strerror,)  # without the number of the system error
        if isinstance(error, MemoryError):
            problems = (f"There is not enough memory ({error}): use fewer rows or columns",)
        texts = [" ".join(text.split()) for text in problems]
        texts = [text if text.endswith("?") else text.rstrip(".") + "." for text in texts]
        if as_json:
            print(json.dumps({"error": " ".join(texts)} | ({"problems": texts} if len(texts) > 1 else {})))
        if len(texts) > 1:
            listed = [f"\n  {number}. {text}" for number, text in enumerate(texts, 1)]
            texts = [f"there are {len(texts)} problems.{''.join(listed)}"]
        print(f"Error: {texts[0]}", file=sys.stderr)
        sys.exit(1)
    if as_json:
        print(json.dumps(finite(facts), indent=2))
    elif is_report:
        from rkhs._command.report import print_report

        print_report(facts)
    else:
        show(facts)
