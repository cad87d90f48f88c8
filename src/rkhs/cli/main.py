"""The command line: what `rkhs` does for people who do not write Python."""

from __future__ import annotations

import signal
import sys
from typing import Any


def main() -> None:
    """Run the command; say in one sentence what is missing when its parts are not installed."""
    try:
        import matplotlib  # noqa: F401
        import pandas  # noqa: F401
        import rich  # noqa: F401

        from rkhs.cli.commands import app
    except ImportError:
        sys.exit("The command needs typer, rich, pandas and matplotlib: pip install 'rkhs[cli]'.")
    signal.signal(signal.SIGINT, _stop)
    app()


def _stop(*_: Any) -> None:
    """End the command: solvers would take Ctrl-C for the wish to go on with the best function so far."""
    print("Stopped.", file=sys.stderr)
    sys.exit(130)
