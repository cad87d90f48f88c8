"""The command `rkhs`, for people who do not write Python."""

from __future__ import annotations

import sys

from rkhs._files import exit_on_signals


def main() -> None:
    """Run the command; name what is missing if its parts are not installed."""
    with exit_on_signals():
        try:
            import matplotlib  # noqa: F401
            import pandas  # noqa: F401
            import pyarrow  # noqa: F401

            from rkhs._cli.commands import app
        except ImportError:
            sys.exit("The command needs typer, rich, pandas, pyarrow and matplotlib: pip install 'rkhs[cli]'.")
        app()
