"""Facts as text."""

from __future__ import annotations

from math import isfinite
from typing import Any

MOST = 40  # rows of a table that are shown


def finite(value: Any) -> Any:
    """The same with None in the place of numbers that JSON does not have.

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
    """Print a table of facts: one line each, tables as tables, nested ones indented.

    No text is taken for markup: a column may be called "rate [/h]".
    """
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, emoji=False, markup=False)
    for name, value in facts.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            console.print(_table(name, value[:MOST]))
            if len(value) > MOST:
                console.print(f"  and {len(value) - MOST} more, which --json shows")
        elif isinstance(value, dict) and value:
            console.print(Text(name, style="bold"))
            for key, inner in value.items():
                console.print(f"  {key}: {_text(inner)}")
        elif value is not None and value not in ([], {}):
            console.print(Text.assemble((name, "bold"), f": {_text(value)}"), soft_wrap=True)


def _table(title: str, rows: list[dict[str, Any]]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(title), title_justify="left")
    for heading, value in rows[0].items():
        table.add_column(Text(heading), justify="left" if isinstance(value, str) else "right")
    for row in rows:
        table.add_row(*(Text(_text(value)) for value in row.values()))
    return table


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(_text(one) for one in value[:12]) + (", .." if len(value) > 12 else "")
    return "" if value is None else str(value)
