"""Show progress, facts, and errors with one sentence for each problem on a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from time import perf_counter
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text


class CommandError(Exception):
    """An error for the user of the command: for each problem one sentence with what is wrong and what to do."""

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

    def add(self, sentence: str) -> None:
        """Note a problem."""
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
def step(text: str) -> Iterator[Callable[[str], None]]:
    """Show a text on standard error while a block runs, and its time at the end, if that is a terminal.

    The block may call the yielded function with another text to show its progress.
    """
    console, start = Console(stderr=True), perf_counter()
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(Text(text)) as status:
        yield lambda now: status.update(Text(now))
    console.print(Text(f"{text} ({perf_counter() - start:.1f} s)", style="dim"))


def finite(facts: dict[str, Any]) -> dict[str, Any]:
    """Return facts with None in place of numbers that JSON does not have."""
    return json.loads(json.dumps(facts), parse_constant=lambda _: None)


def show(facts: dict[str, Any]) -> None:
    """Print facts: a line each, lists of dicts as tables, dicts indented."""
    console = _console()
    for name, value in facts.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            show_section(name, [], list(value[0]), [list(row.values()) for row in value[:40]])
            if len(value) > 40:
                console.print(f"  and {len(value) - 40} more, which --json shows")
        elif isinstance(value, dict) and value:
            console.print(Text(name, style="bold"))
            for key, inner in value.items():
                console.print(f"  {key}: {as_text(inner)}")
        elif value is not None and value not in ([], {}):
            console.print(Text.assemble((name, "bold"), f": {as_text(value)}"), soft_wrap=True)


def show_section(title: str, sentences: Sequence[str], headings: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print a title, sentences and a table."""
    console = _console()
    console.print(Text(title, style="bold"))
    for sentence in sentences:
        console.print(Padding(sentence, (0, 0, 0, 2)))
    if rows:
        table = Table(box=SIMPLE_HEAD, pad_edge=False)
        for k, heading in enumerate(headings):
            table.add_column(Text(heading), justify="left" if isinstance(rows[0][k], str) else "right")
        for row in rows:
            table.add_row(*(Text(as_text(cell)) for cell in row))
        console.print(Padding(table, (0, 0, 0, 2)))


def listed(texts: Sequence[str], most: int) -> str:
    """Return texts with commas between them, and two points in place of those beyond `most`."""
    return ", ".join(texts[:most]) + (", .." if len(texts) > most else "")


def _console() -> Console:
    """Return a console that takes no text for markup: a column may be called "rate [/h]"."""
    return Console(highlight=False, emoji=False, markup=False)


def as_text(value: Any) -> str:
    """Return a fact as one line: four digits of a float, at most twelve parts of a list."""
    if isinstance(value, float):
        return str(value) if type(value) is not float else f"{value:.4g}"
    if isinstance(value, list | tuple):
        return listed(list(map(as_text, value)), 12)
    return "" if value is None else str(value)
