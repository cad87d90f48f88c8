"""What the command shows on a terminal: progress, facts, and errors with a sentence for each problem."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from math import isfinite
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

SHOWN = 40  # rows of a table that fit on a page


class CommandError(Exception):
    """What is wrong and what to do, for somebody at a terminal; one sentence for each problem."""

    def __init__(self, *problems: str) -> None:
        super().__init__(" ".join(problems))
        self.problems = problems


class Problems:
    """Collect the problems of a table and of options, to report all of them at once.

    Examples
    --------
    >>> problems = Problems()
    >>> with problems.gathered():
    ...     raise CommandError("The first.")
    >>> problems.refuse(2 > 1, "The second.")
    >>> problems.check()
    Traceback (most recent call last):
    rkhs.cli.terminal.CommandError: The first. The second.
    """

    def __init__(self) -> None:
        self._found: list[str] = []

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Keep the problems that end a block."""
        try:
            yield
        except CommandError as error:
            self._found += [one for one in error.problems if one not in self._found]

    def refuse(self, wrong: bool, sentence: str) -> None:
        """Keep a problem if there is one."""
        if wrong:
            self._found.append(sentence)

    def check(self) -> None:
        """Raise an error with all problems that were found, if any."""
        if self._found:
            raise CommandError(*self._found)


def explain(error: Exception) -> str:
    """Return the message of an error, without the number of a system error."""
    if isinstance(error, MemoryError):
        return f"There is not enough memory ({error}): use fewer rows or columns"
    return error.strerror if isinstance(error, OSError) and error.filename is None and error.strerror else str(error)


def suggest(name: str, names: Iterable[str]) -> str:
    """Return a question about the nearest of some names, with a space before it; "" if none is near.

    Examples
    --------
    >>> suggest("lable", ["label", "width"])
    " Did you mean 'label'?"
    """
    known = {one.casefold(): one for one in names}
    near = get_close_matches(name.casefold(), known, n=1, cutoff=0.75)
    return f" Did you mean {known[near[0]]!r}?" if near else ""


@contextmanager
def step(text: str) -> Iterator[None]:
    """Show a text on standard error while a block runs, and its time at the end, if that is a terminal."""
    console, start = Console(stderr=True), perf_counter()
    if not console.is_terminal:
        yield
        return
    with console.status(Text(text)):
        yield
    console.print(Text(f"{text} ({perf_counter() - start:.1f} s)", style="dim"))


def finite(value: Any) -> Any:
    """Return facts with None in place of numbers that JSON does not have.

    Examples
    --------
    >>> finite({"error": [float("nan"), 0.5]})
    {'error': [None, 0.5]}
    """
    if isinstance(value, dict):
        return {name: finite(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [finite(inner) for inner in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def show(facts: dict[str, Any]) -> None:
    """Print facts: a line each, lists of dicts as tables, dicts indented.

    No text is taken for markup: a column may be called "rate [/h]".
    """
    console = Console(highlight=False, emoji=False, markup=False)
    for name, value in facts.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            table = Table(title=Text(name), title_justify="left")
            for heading, cell in value[0].items():
                table.add_column(Text(heading), justify="left" if isinstance(cell, str) else "right")
            for row in value[:SHOWN]:
                table.add_row(*(Text(_text(cell)) for cell in row.values()))
            console.print(table)
            if len(value) > SHOWN:
                console.print(f"  and {len(value) - SHOWN} more, which --json shows")
        elif isinstance(value, dict) and value:
            console.print(Text(name, style="bold"))
            for key, inner in value.items():
                console.print(f"  {key}: {_text(inner)}")
        elif value is not None and value not in ([], {}):
            console.print(Text.assemble((name, "bold"), f": {_text(value)}"), soft_wrap=True)


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(_text(one) for one in value[:12]) + (", .." if len(value) > 12 else "")
    return "" if value is None else str(value)
