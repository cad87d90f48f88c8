"""The command `rkhs`."""

from rkhs.cli.main import main

__all__ = ["main"]
