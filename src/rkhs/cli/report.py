"""Facts as text."""

from __future__ import annotations

from typing import Any


def show(facts: dict[str, Any]) -> None:
    """Print a table of facts: one line each, tables as tables, nested ones indented."""
    from rich.console import Console

    console = Console(highlight=False)
    for name, value in facts.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            console.print(_table(name, value))
        elif isinstance(value, dict):
            console.print(f"[bold]{name}[/bold]")
            for key, inner in value.items():
                console.print(f"  {key}: {_text(inner)}")
        elif value is not None:
            console.print(f"[bold]{name}[/bold]: {_text(value)}", soft_wrap=True)


def _table(title: str, rows: list[dict[str, Any]]) -> Any:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for heading, value in rows[0].items():
        table.add_column(heading, justify="left" if isinstance(value, str) else "right")
    for row in rows:
        table.add_row(*(_text(value) for value in row.values()))
    return table


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(_text(one) for one in value[:12]) + (", .." if len(value) > 12 else "")
    return "" if value is None else str(value)
