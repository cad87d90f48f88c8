"""Pieces of the HTML report: tables, numbers, and charts as SVG.

Everything that is no markup is escaped.  Charts have few marks, labels for screen readers, and colours from the style
sheet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from matplotlib.ticker import MaxNLocator

WIDTH = 520  # of charts, in units of the SVG
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 14, 46  # margins around the axes
COLOURS = 8  # classes of colour in the style sheet, which repeat


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def markup(value: Any) -> Markup:
    """Return a value as HTML: texts escaped, numbers with all their digits in an attribute, nothing for None."""
    if value is None or isinstance(value, Markup):
        return value or Markup()
    return Markup(escape(value)) if isinstance(value, str) else number(value, f"{value:.4g}")


def number(value: float, shown: str) -> Markup:
    """Return a number as it is to be shown, with all its digits in an attribute."""
    return Markup(f'<data value="{float(value)!r}">{escape(shown)}</data>')


def table(headings: Sequence[str], rows: Iterable[Iterable[Any]], kind: str = "") -> Markup:
    """Return a table, which scrolls on its own where the page is narrow."""
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{markup(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return Markup(
        f'<div class="scroll" tabindex="0"><table class="{kind}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def svg(inside: str, label: str, height: int = 300) -> str:
    """Return a picture with a description in words."""
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">{inside}</svg>'


def bars(rows: Sequence[tuple[str, float, str]], label: str) -> str:
    """Return horizontal bars: name, value >= 0, and the value in words."""
    most = max(value for _, value, _ in rows) or 1.0
    parts = []
    for k, (name, value, shown) in enumerate(rows):
        y, width = 8 + 44 * k, (WIDTH - 110) * value / most
        parts.append(f'<text class="tick" x="4" y="{y + 12}">{escape(short(name, 60))}</text>')
        parts.append(f'<rect class="fill{k % COLOURS}" x="4" y="{y + 17}" width="{width:.1f}" height="14" rx="3"/>')
        parts.append(f'<text class="tick" x="{width + 12:.1f}" y="{y + 29}">{escape(shown)}</text>')
    return svg("".join(parts), label, 26 + 44 * len(rows))


class Axes:
    """Axes of a chart: from values to places, with ticks at round numbers."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], height: int = 300) -> None:
        self.x, self.y = ((a, b) if b > a else (a - (abs(a) / 2 or 0.5), b + (abs(a) / 2 or 0.5)) for a, b in (x, y))
        self.height = height

    def ticks(self, low: float, high: float) -> list[float]:
        """Return about six round numbers between two."""
        room = 1e-9 * (high - low)
        values = MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(low, high)
        return [float(value) for value in values if low - room <= value <= high + room]

    def places(self, x: Iterable[float], y: Iterable[float]) -> list[tuple[str, str]]:
        """Return the places of some values, in units of the picture."""
        across, up = WIDTH - LEFT - RIGHT, self.height - TOP - BOTTOM
        found = []
        for a, b in zip(x, y, strict=True):
            u = LEFT + (a - self.x[0]) / (self.x[1] - self.x[0]) * across
            v = self.height - BOTTOM - (b - self.y[0]) / (self.y[1] - self.y[0]) * up
            found.append((f"{u:.1f}", f"{v:.1f}"))
        return found

    def line(self, x: Iterable[float], y: Iterable[float], kind: str) -> str:
        """Return a line through some points."""
        return f'<polyline class="{kind}" points="{" ".join(",".join(place) for place in self.places(x, y))}"/>'

    def dots(self, x: Iterable[float], y: Iterable[float], kind: str = "dot", size: float = 2.6) -> str:
        """Return a dot for each pair."""
        return "".join(f'<circle class="{kind}" cx="{u}" cy="{v}" r="{size}"/>' for u, v in self.places(x, y))

    def frame(self, x_label: str, y_label: str, x_ticks: Sequence[tuple[float, str]] | None = None) -> str:
        """Return lines at round numbers with their values, and the names of both axes."""
        parts = []
        for value in self.ticks(*self.y):
            ((_, v),) = self.places([self.x[0]], [value])
            parts.append(f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{v}" y2="{v}"/>')
            parts.append(
                f'<text class="tick" x="{LEFT - 6}" y="{float(v) + 4:.1f}" text-anchor="end">{value:.4g}</text>'
            )
        for value, name in x_ticks or [(value, f"{value:.4g}") for value in self.ticks(*self.x)]:
            ((u, _),) = self.places([value], [self.y[0]])
            place = f'x="{u}" y="{self.height - BOTTOM + 17}"'
            parts.append(f'<text class="tick" {place} text-anchor="middle">{escape(short(name, 12))}</text>')
        middle = (self.height - BOTTOM + TOP) / 2
        parts.append(
            f'<text class="name" x="{(WIDTH + LEFT) / 2}" y="{self.height - 8}">{escape(short(x_label))}</text>'
        )
        turned = f'transform="rotate(-90 14 {middle})" x="14" y="{middle}"'
        return "".join([*parts, f'<text class="name" {turned}>{escape(short(y_label))}</text>'])


def short(text: Any, most: int = 34) -> str:
    """Return a text on one line, cut off if it is longer than `most`."""
    words = " ".join(str(text).split())
    return words if len(words) <= most else words[: most - 1] + "…"
