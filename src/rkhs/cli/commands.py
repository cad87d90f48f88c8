"""The subcommands and their options."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

import rkhs
from rkhs.cli.errors import CommandError

app = typer.Typer(
    help="Kernel machines that learn from anything linear you know about the function.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    """Kernel machines that learn from anything linear you know about the function."""
    if version:
        typer.echo(f"rkhs {rkhs.__version__}")
        raise typer.Exit


@app.command()
def fit(
    data: Annotated[Path, typer.Argument(help="CSV or Parquet; rows with an empty target are unlabelled.")],
    target: Annotated[str, typer.Option(help="The column to predict.")],
    out: Annotated[Path, typer.Option(help="The model file to write.")] = Path("model.skops"),
    invariance: Annotated[
        str, typer.Option(help="gradient, local_average, laplacian or none: what f is at all points.")
    ] = "gradient",
    cv: Annotated[bool, typer.Option("--cv", help="Choose C and nu by cross-validation.")] = False,
    C: Annotated[float, typer.Option("--C", help="Weight of the labels, without --cv.")] = 10.0,
    nu: Annotated[float, typer.Option(help="Weight of the invariance, without --cv.")] = 0.1,
    regression: Annotated[bool, typer.Option("--regression", help="Predict a number, not a class.")] = False,
    ignore: Annotated[list[str] | None, typer.Option(help="A column to leave out (may be repeated).")] = None,
    picture: Annotated[Path | None, typer.Option(help="The PNG to draw; beside the model if not given.")] = None,
    as_json: Json = False,
) -> None:
    """Learn a model from a table and write it to a file, with its error beside a plain SVM's and a picture."""
    from rkhs.cli.fit import Request, run

    request = Request(data, target, out, invariance, cv, C, nu, regression, tuple(ignore or ()), picture)
    _answer(lambda: run(request), as_json)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A model file that `rkhs fit` wrote.")],
    data: Annotated[Path, typer.Argument(help="CSV or Parquet with the columns of the model.")],
    out: Annotated[Path, typer.Option(help="The table of predictions to write.")] = Path("predictions.csv"),
    as_json: Json = False,
) -> None:
    """Predict the target of each row of a table."""
    from rkhs.cli.predict import run

    _answer(lambda: run(model, data, out), as_json)


@app.command()
def inspect(
    model: Annotated[Path, typer.Argument(help="A model file that `rkhs fit` or rkhs.save wrote.")],
    as_json: Json = False,
) -> None:
    """Say what is in a model file, without opening the model."""
    from rkhs.cli.inspect import run

    _answer(lambda: run(model), as_json)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path(),
    as_json: Json = False,
) -> None:
    """Handwritten digits with three labels each: a plain SVM beside machines that know more; table and picture."""
    from rkhs.cli.demo import run

    _answer(lambda: run(out), as_json)


@app.command()
def reproduce(
    name: Annotated[
        str, typer.Argument(help="two-moons, two-moons-2006, table1, digits, ..: a wrong name lists them.")
    ],
    quick: Annotated[bool, typer.Option("--quick", help="A small part of it, in seconds.")] = False,
    jobs: Annotated[int, typer.Option(help="Processes.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder for results, page and picture.")] = Path("results"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an earlier run was killed.")] = False,
    as_json: Json = False,
) -> None:
    """Compute a table or figure of the papers again, with the printed numbers beside."""
    from rkhs.experiments import experiment_of, run

    _answer(lambda: run(experiment_of(name), out, quick=quick, jobs=jobs, resume=resume), as_json)


def _answer(work: Callable[[], dict[str, Any]], as_json: bool) -> None:
    """Do the work and print its facts; exit with 1 and one sentence if it cannot be done."""
    try:
        facts = work()
    except (CommandError, ValueError, ImportError, OSError) as error:
        text = " ".join(str(error).split()).rstrip(".") + "."
        if as_json:
            print(json.dumps({"error": text}))
        print(f"Error: {text}", file=sys.stderr)
        sys.exit(1)
    if as_json:
        print(json.dumps(facts, indent=2))
    else:
        from rkhs.cli.report import show

        show(facts)
