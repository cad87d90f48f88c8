"""The command `rkhs`, for people who do not write Python."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from rkhs.extend import exit_on_signals


def main() -> None:
    """Run the command; name what is missing if its parts are not installed."""
    with exit_on_signals():
        # none of them is imported; `map` is a module of this package
        if not all(find_spec(name) for name in ("typer", "rich", "pandas", "pyarrow", "matplotlib")):
            sys.exit("The command needs typer, rich, pandas, pyarrow and matplotlib: pip install 'rkhs[cli]'.")
        from rkhs._command.commands import app

        app()
