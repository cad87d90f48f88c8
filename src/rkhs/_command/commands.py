"""The subcommands and their options.

Modules that need NumPy, pandas or scikit-learn are imported when the files and options are known to be right.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_origin, get_type_hints

import typer

import rkhs
from rkhs._command.options import MapRequest, Options, PredictRequest, Request, check_is_file
from rkhs._command.terminal import CommandError, finite, show

app = typer.Typer(
    help="Fit kernel models to tables: they learn from labels, from rows without one, and from what you know.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
Facts = dict[str, Any]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that are there already.")]


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False) -> None:
    """Fit kernel models to tables: they learn from labels, from rows without one, and from what you know."""
    if version:
        typer.echo(f"rkhs {rkhs.__version__}")
        raise typer.Exit


def _add_table_command(name: str, kind: type[Options]) -> None:
    """Add the command that `run` in the module of its name performs; the annotated fields of `kind` are its options."""

    def work(**options: Any) -> Facts:
        request = kind(**options)
        problems = request.problems()
        if not all(path.is_file() for path in request.inputs):
            problems.check()
        facts: Facts = import_module(f"rkhs._command.{name}").run(request, problems)
        return facts

    names = dict.fromkeys((*kind.__annotations__, *Options.__annotations__))  # those of the command first
    hints, stated = get_type_hints(kind, include_extras=True), signature(kind).parameters
    options = [stated[one].replace(annotation=hints[one]) for one in names if get_origin(hints[one]) is Annotated]
    _add_command(name, kind.help, work, options)


def _prints_facts(work: Callable[..., Facts]) -> Callable[..., Facts]:
    """Add a function that returns facts as a command of its name, parameters and documentation."""
    _add_command(work.__name__, work.__doc__ or "", work, signature(work, eval_str=True).parameters.values())
    return work


def _add_command(name: str, text: str, work: Callable[..., Facts], options: Iterable[Parameter]) -> None:
    """Add a command that prints the facts that the work returns, as JSON if that is asked for."""

    def command(as_json: bool, **given: Any) -> None:
        _answer(lambda: work(**given), as_json, is_report=name == "fit")

    as_json = Parameter("as_json", Parameter.KEYWORD_ONLY, default=False, annotation=Json)
    command.__signature__ = Signature([*options, as_json])  # type: ignore[attr-defined]
    app.command(name, help=text)(command)


_add_table_command("fit", Request)
_add_table_command("predict", PredictRequest)
_add_table_command("map", MapRequest)


@_prints_facts
def sample(
    out: Annotated[Path, typer.Argument(help="The table to write, CSV or Parquet.")] = Path("churn.csv"),
    new: Annotated[Path | None, typer.Option(help="The table to predict; by default new.csv next to it.")] = None,
    force: Force = False,
) -> Facts:
    """Write sample tables for the other commands: customers of a telephone company, and who left."""
    from rkhs._command.demo import write_sample

    return write_sample(out, new, force)


@_prints_facts
def inspect(model: Annotated[Path, typer.Argument(help="A model file that `rkhs fit` or rkhs.save wrote.")]) -> Facts:
    """Print the facts in a model file, without loading the model."""
    check_is_file(model, "a model file")
    from rkhs.export import notes_of

    found = notes_of(model)  # nothing of the model is built, so that files of any version can be inspected
    notes = found.pop("notes", {})
    return {"file": str(model), "size in bytes": model.stat().st_size, **found, **notes}


@_prints_facts
def demo(out: Annotated[Path, typer.Option(help="Folder for the picture.")] = Path(), force: Force = False) -> Facts:
    """Compare a plain SVM with models that have priors on handwritten digits, three labels each; table and picture."""
    from rkhs._command.demo import run

    return run(out, force)


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


@_prints_facts
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
) -> Facts:
    """Reproduce a table or figure of the papers, next to the printed numbers; needs a clone of the repository."""
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
