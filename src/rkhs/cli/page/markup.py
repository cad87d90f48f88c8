"""Pieces of HTML: tables, numbers and sections, with everything escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any


def number(value: Any, shown: str | None = None) -> str:
    """A number as it is read, with all its digits in an attribute."""
    if value is None:
        return ""
    return f'<data value="{float(value)!r}">{escape(shown if shown is not None else f"{value:.4g}")}</data>'


def percent(value: float) -> str:
    """A share of one as a percentage."""
    return number(value, f"{100 * value:.1f} %")


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], kind: str = "") -> str:
    """A table of cells that are HTML already; it scrolls on its own where the page is narrow."""
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return (
        f'<div class="scroll" tabindex="0"><table class="{kind}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def section(name: str, title: str, *parts: str) -> str:
    """A part of the page with a heading; nothing if it has no content."""
    inside = "".join(part for part in parts if part)
    return f'<section id="{name}"><h2>{escape(title)}</h2>{inside}</section>' if inside else ""


def text(words: str) -> str:
    """A paragraph."""
    return f"<p>{escape(words)}</p>"


def figure(picture: str, caption: str) -> str:
    """A picture with a line below it."""
    return f"<figure>{picture}<figcaption>{escape(caption)}</figcaption></figure>"
