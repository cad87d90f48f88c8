"""What the command shows on a terminal: progress, facts, and errors with a sentence for each problem."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from time import perf_counter
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text


class CommandError(Exception):
    """What is wrong and what to do, for somebody at a terminal; one sentence for each problem."""

    def __init__(self, *problems: str) -> None:
        super().__init__(" ".join(problems))
        self.problems = problems


class Problems:
    """Collect the problems of a table and of options, to report all of them at once."""

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


def suggest(name: str, names: Iterable[str]) -> str:
    """Return a question about the nearest of some names, with a space before it; "" if none is near."""
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


def finite(facts: dict[str, Any]) -> dict[str, Any]:
    """Return facts with None in place of numbers that JSON does not have."""
    return json.loads(json.dumps(facts), parse_constant=lambda _: None)


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
            for row in value[:40]:
                table.add_row(*(Text(as_text(cell)) for cell in row.values()))
            console.print(table)
            if len(value) > 40:
                console.print(f"  and {len(value) - 40} more, which --json shows")
        elif isinstance(value, dict) and value:
            console.print(Text(name, style="bold"))
            for key, inner in value.items():
                console.print(f"  {key}: {as_text(inner)}")
        elif value is not None and value not in ([], {}):
            console.print(Text.assemble((name, "bold"), f": {as_text(value)}"), soft_wrap=True)


def as_text(value: Any) -> str:
    """Return a fact as one line: four digits of a float, at most twelve parts of a list."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(as_text, value[:12])) + (", .." if len(value) > 12 else "")
    return "" if value is None else str(value)
