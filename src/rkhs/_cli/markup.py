"""Pieces of the HTML report: tables, numbers, and charts as SVG.

Everything that is no markup is escaped.  Charts have few marks, labels for screen readers, and colors from the style
sheet.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from matplotlib.ticker import MaxNLocator

WIDTH = 520  # of charts, in units of the SVG
COLORS = 8  # color classes in the style sheet, which repeat


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
        parts.append(f'<rect class="fill{k % COLORS}" x="4" y="{y + 17}" width="{width:.1f}" height="14" rx="3"/>')
        parts.append(f'<text class="tick" x="{width + 12:.1f}" y="{y + 29}">{escape(shown)}</text>')
    return svg("".join(parts), label, 26 + 44 * len(rows))


class Axes:
    """Axes of a chart: from values to positions in the SVG, with ticks at round numbers."""

    left, right, top = 62, WIDTH - 14, 14  # the edges of the plot, besides `bottom`

    def __init__(self, x: tuple[float, float], y: tuple[float, float], height: int = 300) -> None:
        self.x, self.y = ((a, b) if b > a else (a - (abs(a) / 2 or 0.5), b + (abs(a) / 2 or 0.5)) for a, b in (x, y))
        self.bottom = height - 46

    def positions(self, x: Iterable[float], y: Iterable[float]) -> list[tuple[str, str]]:
        """Return the positions of some values."""
        across = (self.right - self.left) / (self.x[1] - self.x[0])
        down = (self.top - self.bottom) / (self.y[1] - self.y[0])
        values = zip(x, y, strict=True)
        positions = [(self.left + (a - self.x[0]) * across, self.bottom + (b - self.y[0]) * down) for a, b in values]
        return [(f"{u:.1f}", f"{v:.1f}") for u, v in positions]

    def line(self, x: Iterable[float], y: Iterable[float], kind: str) -> str:
        """Return a line through some points."""
        return f'<polyline class="{kind}" points="{" ".join(",".join(place) for place in self.positions(x, y))}"/>'

    def dots(self, x: Iterable[float], y: Iterable[float], kind: str = "dot", size: float = 2.6) -> str:
        """Return a dot for each pair."""
        return "".join(f'<circle class="{kind}" cx="{u}" cy="{v}" r="{size}"/>' for u, v in self.positions(x, y))

    def frame(self, x_label: str, y_label: str, x_ticks: Sequence[tuple[float, str]] | None = None) -> str:
        """Return lines at round numbers with their values, and the names of both axes."""

        def ticks(low: float, high: float) -> list[float]:
            room = 1e-9 * (high - low)
            values = MaxNLocator(6, steps=[1, 2, 5, 10]).tick_values(low, high)
            return [float(value) for value in values if low - room <= value <= high + room]

        parts = []
        for value in ticks(*self.y):
            ((_, v),) = self.positions([self.x[0]], [value])
            place = f'x="{self.left - 6}" y="{float(v) + 4:.1f}"'
            parts.append(f'<line class="rule" x1="{self.left}" x2="{self.right}" y1="{v}" y2="{v}"/>')
            parts.append(f'<text class="tick" {place} text-anchor="end">{value:.4g}</text>')
        for value, name in x_ticks or [(value, f"{value:.4g}") for value in ticks(*self.x)]:
            ((u, _),) = self.positions([value], [self.y[0]])
            place = f'x="{u}" y="{self.bottom + 17}"'
            parts.append(f'<text class="tick" {place} text-anchor="middle">{escape(short(name, 12))}</text>')
        below = f'x="{(WIDTH + self.left) / 2}" y="{self.bottom + 38}"'
        middle = (self.bottom + self.top) / 2
        turned = f'transform="rotate(-90 14 {middle})" x="14" y="{middle}"'
        for place, label in ((below, x_label), (turned, y_label)):
            parts.append(f'<text class="name" {place}>{escape(short(label))}</text>')
        return "".join(parts)


def short(text: Any, most: int = 34) -> str:
    """Return a text on one line, cut off if it is longer than `most`."""
    words = " ".join(str(text).split())
    return words if len(words) <= most else words[: most - 1] + "…"
