"""What is on the screen: points, prior knowledge, weights.  It comes from a browser, so nothing in it is believed."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from rkhs._backend.arrays import Vector

MOST = 1000  # points
CLASSES = 3
REACH = 2.0  # coordinates are at most this far from the middle; the board itself is [-1, 1] x [-1, 1]
LIMITS = {"C": (1e-3, 1e5), "nu": (1e-6, 1e5), "scale": (0.02, 5.0), "shift": (0.05, 2.0)}
DIRECTIONS = {"": None, "right": (0, 1), "left": (0, -1), "up": (1, 1), "down": (1, -1)}  # axis and sign


class SceneError(ValueError):
    """What is wrong with a scene, in one sentence."""


@dataclass(frozen=True, eq=False)
class Scene:
    """Points (t, 2), their classes (t,), -1 for none, and the settings.

    `gradient`: f changes slowly; `graph`: neighbours are alike; `monotone`: f grows in a direction; `repeats`: f is the
    same a `shift` further to the right.
    """

    X: Vector
    y: Vector
    C: float
    nu: float
    scale: float
    shift: float
    gradient: bool
    graph: bool
    monotone: str
    repeats: bool

    @classmethod
    def of(cls, given: Any) -> Scene:
        """From parsed JSON; refuses anything that is not just so."""
        if not isinstance(given, dict):
            raise SceneError("A scene is an object with points and settings.")
        points = given.get("points")
        if not isinstance(points, list) or len(points) > MOST:
            raise SceneError(f"points must be a list of at most {MOST}: remove some.")
        for point in points:
            if not isinstance(point, list) or len(point) != 3 or not all(_is_number(value) for value in point):
                raise SceneError("Each point is a list of x, y and its class.")
            if max(abs(point[0]), abs(point[1])) > REACH or point[2] not in range(-1, CLASSES):
                raise SceneError(f"A point must be within {REACH:g} of the middle, its class -1 to {CLASSES - 1}.")
        table = np.array(points, dtype=np.float64).reshape(len(points), 3)
        flags = {name: _one_of(given, name, (False, True)) for name in ("gradient", "graph", "repeats")}
        settings: dict[str, Any] = {name: _number(given, name) for name in LIMITS}
        settings["monotone"] = _one_of(given, "monotone", tuple(DIRECTIONS))
        return cls(table[:, :2], table[:, 2].astype(int), **settings, **flags)

    @property
    def classes(self) -> list[int]:
        """The classes that have points."""
        return sorted(set(self.y[self.y >= 0].tolist()))

    def without_knowledge(self) -> Scene:
        """The same for a plain SVM."""
        own = vars(self) | {"gradient": False, "graph": False, "monotone": "", "repeats": False}
        return Scene(**own)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _number(given: dict[str, Any], name: str) -> float:
    low, high = LIMITS[name]
    value = given.get(name)
    if not _is_number(value) or not low <= value <= high:  # type: ignore[operator]
        raise SceneError(f"{name} must be a number from {low:g} to {high:g}.")
    return float(value)  # type: ignore[arg-type]


def _one_of(given: dict[str, Any], name: str, choices: tuple[Any, ...]) -> Any:
    value = given.get(name)
    if not isinstance(value, type(choices[0])) or value not in choices:
        raise SceneError(f"{name} must be one of {', '.join(map(repr, choices))}.")
    return value
