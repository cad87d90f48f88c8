"""What the command is doing, on the standard error of a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter


@contextmanager
def step(text: str) -> Iterator[None]:
    """Show a text while something is done, and how long it took; nothing where nobody looks."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
    start = perf_counter()
    if not console.is_terminal:
        yield
        return
    with console.status(Text(text)):
        yield
    console.print(Text(f"{text} ({perf_counter() - start:.1f} s)", style="dim"))
