"""How long `rkhs play` takes for what is on the screen, by the server's own clock: solved, evaluated, encoded.

python -m benchmarks.play [--points 300] [--times 50]
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from statistics import median
from time import process_time
from typing import Any

import numpy as np
from rich.console import Console

from benchmarks.timing import show
from rkhs._command.play.scene import Scene, solved

NOTHING: dict[str, Any] = {"gradient": False, "graph": False, "monotone": "", "repeats": False}
KNOWLEDGE: dict[str, dict[str, Any]] = {
    "none": {},
    "gradient": {"gradient": True},
    "graph": {"graph": True},
    "monotone": {"monotone": "right"},
    "shift symmetry": {"repeats": True},
    "gradient and graph": {"gradient": True, "graph": True},
    "all": {"gradient": True, "graph": True, "monotone": "right", "repeats": True},
}


def scene(points: int, classes: int, knowledge: dict[str, Any]) -> Scene:
    """Points at random, a third of them without a label."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.9, 0.9, (points, 2))
    y = (X[:, 0] + X[:, 1] ** 2 > 0.2).astype(int) + (X[:, 1] > 0.3) * (classes > 2)
    y[rng.random(points) < 1 / 3] = -1
    return Scene(X, y, C=10.0, nu=1.0, scale=0.3, shift=0.5, **{**NOTHING, **knowledge})


def line(name: str, classes: int, points: int, times: int) -> list[str]:
    """A line of the table: while a point is dragged, so that nothing can be kept."""
    now = scene(points, classes, KNOWLEDGE[name])
    wall, own = [], []
    for k in range(times):
        now.X[0] = 0.9 * np.cos(k), 0.9 * np.sin(k)
        start = process_time()
        wall.append(solved(replace(now), quick=True)["milliseconds"])
        own.append(1000 * (process_time() - start))
    exact = solved(now, quick=False)["milliseconds"]
    return [name, str(classes), f"{median(wall):.0f}", f"{median(own):.0f}", f"{exact:.0f}"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=300)
    parser.add_argument("--times", type=int, default=50)
    given = parser.parse_args()
    lines = [line(name, classes, given.points, given.times) for classes in (2, 3) for name in KNOWLEDGE]
    headings = ["priors", "classes", "ms", "ms of the processor", "exact, at rest: ms"]
    show(Console(width=120), f"{given.points} points, median of {given.times}", headings, lines)


if __name__ == "__main__":
    main()
