"""Charts as SVG texts: few marks, labels that a screen reader reads, colours from the style sheet of the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from math import ceil, floor, log10
from typing import Any

WIDTH, HEIGHT = 520, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 14, 46
COLOURS = 8  # classes of colour in the style sheet, which repeat


class Frame:
    """Axes of a chart: from values to places, with ticks at round numbers."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float], height: int = HEIGHT) -> None:
        self.x, self.y, self.height = _widened(*x), _widened(*y), height

    def at(self, x: float, y: float) -> tuple[float, float]:
        """The place of a value, in units of the picture."""
        across = (x - self.x[0]) / (self.x[1] - self.x[0])
        up = (y - self.y[0]) / (self.y[1] - self.y[0])
        return LEFT + across * (WIDTH - LEFT - RIGHT), self.height - BOTTOM - up * (self.height - TOP - BOTTOM)

    def points(self, x: Iterable[float], y: Iterable[float]) -> str:
        """Places as the points of a line."""
        return " ".join("{:.1f},{:.1f}".format(*self.at(a, b)) for a, b in zip(x, y, strict=True))

    def axes(self, x_label: str, y_label: str, x_ticks: Sequence[tuple[float, str]] | None = None) -> str:
        """Lines at round numbers with what they are, and the names of both axes."""
        parts = []
        for value in ticks(*self.y):
            _, v = self.at(self.x[0], value)
            parts.append(f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{v:.1f}" y2="{v:.1f}"/>')
            parts.append(f'<text class="tick" x="{LEFT - 6}" y="{v + 4:.1f}" text-anchor="end">{value:.4g}</text>')
        for value, name in x_ticks or [(value, f"{value:.4g}") for value in ticks(*self.x)]:
            u, _ = self.at(value, self.y[0])
            place = f'x="{u:.1f}" y="{self.height - BOTTOM + 17}"'
            parts.append(f'<text class="tick" {place} text-anchor="middle">{escape(short(name, 12))}</text>')
        middle = (self.height - BOTTOM + TOP) / 2
        parts.append(
            f'<text class="name" x="{(WIDTH + LEFT) / 2}" y="{self.height - 8}">{escape(short(x_label))}</text>'
        )
        turned = f'transform="rotate(-90 14 {middle})" x="14" y="{middle}"'
        parts.append(f'<text class="name" {turned}>{escape(short(y_label))}</text>')
        return "".join(parts)


def svg(inside: str, label: str, height: int = HEIGHT) -> str:
    """A picture with a description in words."""
    shown = escape(label, quote=True)
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{shown}">{inside}</svg>'


def bars(rows: Sequence[tuple[str, float, str]], label: str) -> str:
    """Horizontal bars: name, value >= 0, and the value in words."""
    height, most = 26 + 44 * len(rows), max((value for _, value, _ in rows), default=0.0) or 1.0
    parts = []
    for k, (name, value, told) in enumerate(rows):
        y, width = 8 + 44 * k, (WIDTH - 110) * max(value, 0.0) / most
        parts.append(f'<text class="tick" x="4" y="{y + 12}">{escape(short(name, 60))}</text>')
        parts.append(f'<rect class="fill{k % COLOURS}" x="4" y="{y + 17}" width="{width:.1f}" height="14" rx="3"/>')
        parts.append(f'<text class="tick" x="{width + 12:.1f}" y="{y + 29}">{escape(told)}</text>')
    return svg("".join(parts), label, height)


def lines(frame: Frame, x: Sequence[float], series: Sequence[Sequence[float]], axes: str, label: str) -> str:
    """A line for each series, in its colour."""
    drawn = [f'<polyline class="line{k % COLOURS}" points="{frame.points(x, y)}"/>' for k, y in enumerate(series)]
    return svg(axes + "".join(drawn), label, frame.height)


def dots(frame: Frame, x: Iterable[float], y: Iterable[float], kind: str = "dot", size: float = 2.6) -> str:
    """A dot for each pair."""
    places = (frame.at(a, b) for a, b in zip(x, y, strict=True))
    return "".join(f'<circle class="{kind}" cx="{u:.1f}" cy="{v:.1f}" r="{size}"/>' for u, v in places)


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers between two, about so many.

    Examples
    --------
    >>> ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    step = 10.0 ** floor(log10((high - low) / most))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= most)
    first = ceil(low / step - 1e-9)
    count = floor(high / step + 1e-9) - first + 1
    return [float(f"{(first + k) * step:.12g}") for k in range(count)]


def short(text: Any, most: int = 34) -> str:
    """A text that fits."""
    words = " ".join(str(text).split())
    return words if len(words) <= most else words[: most - 1] + "…"


def _widened(low: float, high: float) -> tuple[float, float]:
    """The ends of an axis, apart from each other."""
    if high > low:
        return low, high
    half = abs(low) / 2 or 0.5
    return low - half, high + half
