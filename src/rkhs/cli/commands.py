"""The subcommands and their options."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

import rkhs
from rkhs.cli.errors import CommandError, reason

app = typer.Typer(
    help="Kernel machines that learn from anything linear you know about the function.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
Facts = dict[str, Any]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there already.")]
Missing = Annotated[str, typer.Option(help="Texts that stand for missing cells, as in NA,?; empty cells always do.")]


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
    text: Annotated[
        list[str] | None, typer.Option(help="A column of numbers or dates to take for text (may be repeated).")
    ] = None,
    missing: Missing = "",
    picture: Annotated[Path | None, typer.Option(help="The picture to draw; beside the model if not given.")] = None,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Learn a model from a table and write it to a file, with its error beside a plain SVM's and a picture."""
    from rkhs.cli.fit import Request, run

    names = tuple(ignore or ()), tuple(text or ()), _marks(missing)
    request = Request(data, target, out, invariance, cv, C, nu, regression, *names, picture, force)
    _answer(lambda tell: run(request, tell), as_json)


@app.command()
def predict(
    model: Annotated[Path, typer.Argument(help="A model file that `rkhs fit` wrote.")],
    data: Annotated[Path, typer.Argument(help="CSV or Parquet with the columns of the model.")],
    out: Annotated[Path, typer.Option(help="The table of predictions to write.")] = Path("predictions.csv"),
    missing: Missing = "",
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Predict the target of each row of a table."""
    from rkhs.cli.predict import run

    _answer(lambda _: run(model, data, out, _marks(missing), force), as_json)


@app.command()
def inspect(
    model: Annotated[Path, typer.Argument(help="A model file that `rkhs fit` or rkhs.save wrote.")],
    as_json: Json = False,
) -> None:
    """Say what is in a model file, without opening the model."""
    from rkhs.cli.inspect import run

    _answer(lambda _: run(model), as_json)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path(),
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Handwritten digits with three labels each: a plain SVM beside machines that know more; table and picture."""
    from rkhs.cli.demo import run

    _answer(lambda _: run(out, force), as_json)


@app.command()
def reproduce(
    name: Annotated[
        str, typer.Argument(help="two-moons, two-moons-2006, table1, digits, ..: a wrong name lists them.")
    ],
    quick: Annotated[bool, typer.Option("--quick", help="A small part of it, in seconds.")] = False,
    jobs: Annotated[int, typer.Option(help="Processes.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder for results, page and picture.")] = Path("results"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on where an earlier run was killed.")] = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Compute a table or figure of the papers again, with the printed numbers beside."""
    from rkhs.experiments import experiment_of, run

    _answer(lambda _: run(experiment_of(name), out, quick=quick, jobs=jobs, resume=resume, force=force), as_json)


def _marks(missing: str) -> tuple[str, ...]:
    return tuple(text.strip() for text in missing.split(",") if text.strip())


def _answer(work: Callable[[Callable[[Facts], None]], Facts], as_json: bool) -> None:
    """Do the work and print its facts, some of them when it tells them; exit with 1 and one sentence if it fails."""
    from rkhs.cli.report import finite, show

    told: Facts = {}

    def tell(facts: Facts) -> None:
        told.update(facts)
        if not as_json:
            show(facts)

    try:
        facts = work(tell)
    except (CommandError, ValueError, ImportError, OSError, MemoryError) as error:
        text = " ".join(reason(error).split()).rstrip(".") + "."
        if as_json:
            print(json.dumps({"error": text}))
        print(f"Error: {text}", file=sys.stderr)
        sys.exit(1)
    if as_json:
        print(json.dumps(finite(facts), indent=2))
    else:
        show({name: value for name, value in facts.items() if name not in told})
