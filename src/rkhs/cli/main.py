"""The command line: what `rkhs` does for people who do not write Python."""

from __future__ import annotations

import sys
from pathlib import Path

import rkhs


def main() -> None:
    """Run the command; say in one sentence what is missing when its parts are not installed."""
    try:
        import typer
    except ImportError:
        sys.exit("The command needs typer and rich: pip install 'rkhs[cli,plot]'.")

    app = typer.Typer(
        help="Kernel machines that learn from anything linear you know about the function.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )

    @app.callback(invoke_without_command=True)
    def root(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
        if version:
            typer.echo(f"rkhs {rkhs.__version__}")
            raise typer.Exit

    @app.command()
    def demo(out: Path = typer.Option(Path("."), help="Folder for the picture.")) -> None:  # noqa: B008
        """Learn one function from its values, slopes, averages and differences; a table and a picture."""
        from rkhs.cli.demo import run

        run(out)

    app()
