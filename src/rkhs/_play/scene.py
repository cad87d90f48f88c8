"""Validate the scene that a browser sends: points, priors and weights.  Make the examples."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np

from rkhs._backend.arrays import Vector

# The limits of settings, in units of the board, which is [-1, 1] x [-1, 1].
LIMITS = {"C": (1e-3, 1e5), "nu": (1e-6, 1e5), "scale": (0.02, 5.0), "shift": (0.05, 2.0)}
DIRECTIONS = {"": None, "right": (0, 1), "left": (0, -1), "up": (1, 1), "down": (1, -1)}  # axis and sign
NOTHING: dict[str, Any] = {"gradient": False, "graph": False, "monotone": "", "repeats": False}


class SceneError(ValueError):
    """A scene that is not valid; the message is one sentence."""


@dataclass(frozen=True, eq=False)
class Scene:
    """Points (t, 2), their classes (t,), -1 for none, and the settings."""

    X: Vector
    y: Vector
    C: float
    nu: float
    scale: float
    shift: float
    gradient: bool  # f changes slowly
    graph: bool  # neighbors are alike
    monotone: str  # the direction in which f increases
    repeats: bool  # f is the same a `shift` further to the right

    @classmethod
    def of(cls, given: Any) -> Scene:
        """Make a scene of parsed JSON; anything unexpected is a `SceneError`."""
        if not isinstance(given, dict):
            raise SceneError("A scene is an object with points and settings.")
        points = given.get("points")
        if not isinstance(points, list) or len(points) > 1000:
            raise SceneError("points must be a list of at most 1000: remove some.")
        for point in points:
            if not isinstance(point, list) or len(point) != 3 or not all(_is_number(value) for value in point):
                raise SceneError("Each point is a list of x, y and its class.")
            if max(abs(point[0]), abs(point[1])) > 2 or point[2] not in (-1, 0, 1, 2):
                raise SceneError("A point must be within 2 of the middle, its class -1 to 2.")
        settings: dict[str, Any] = {}
        for name, (low, high) in LIMITS.items():
            value: Any = given.get(name)
            if not _is_number(value) or not low <= value <= high:
                raise SceneError(f"{name} must be a number from {low:g} to {high:g}.")
            settings[name] = float(value)
        for name, none in NOTHING.items():
            choices: tuple[Any, ...] = tuple(DIRECTIONS) if name == "monotone" else (False, True)
            settings[name] = given.get(name)
            if not isinstance(settings[name], type(none)) or settings[name] not in choices:
                raise SceneError(f"{name} must be one of {', '.join(map(repr, choices))}.")
        table = np.array(points, dtype=np.float64).reshape(len(points), 3)
        return cls(table[:, :2], table[:, 2].astype(int), **settings)

    @property
    def classes(self) -> list[int]:
        """The classes that have points."""
        return sorted(set(self.y[self.y >= 0].tolist()))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def example(name: str) -> dict[str, Any]:
    """Return the points and settings of an example."""
    X, y, labels, settings = EXAMPLES[name](np.random.default_rng(0))
    earlier = np.array([int(np.sum(y[:k] == y[k])) for k in range(len(y))])
    shown = np.where(earlier < labels, y, -1)  # the first points of each class keep their labels
    points = [[round(float(a), 4), round(float(b), 4), int(c)] for (a, b), c in zip(X, shown, strict=True)]
    return {"points": points, **NOTHING, "shift": 0.5, **settings}


Drawn = tuple[Vector, Vector, int, dict[str, Any]]  # points, classes, labels of each class, settings


def _moons(rng: np.random.Generator) -> Drawn:
    """Draw two moons, three labels each: the graph of neighbors finds the rest."""
    angle = np.pi * rng.random(160)
    lower = np.arange(160) % 2
    X = np.column_stack([np.cos(angle) + lower, np.where(lower, 0.5 - np.sin(angle), np.sin(angle))])
    X = (X - [0.5, 0.25]) / 1.75 + 0.035 * rng.standard_normal(X.shape)
    return X, lower, 3, {"graph": True, "nu": 3.0, "C": 30.0, "scale": 0.3}


def _rings(rng: np.random.Generator) -> Drawn:
    """Draw three rings."""
    which = np.arange(210) % 3
    radius = np.array([0.18, 0.5, 0.85])[which]
    angle = 2 * np.pi * (np.arange(210) // 3 + rng.random(210)) / 70
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]) + 0.02 * rng.standard_normal((210, 2))
    order = rng.permutation(210)
    return X[order], which[order], 4, {"graph": True, "nu": 30.0, "C": 100.0, "scale": 0.2}


def _line(rng: np.random.Generator) -> Drawn:
    """Draw a line with wrong labels: the prior is that f increases to the right."""
    X = rng.uniform(-0.9, 0.9, (80, 2))
    y = (X[:, 0] + 0.35 * rng.standard_normal(80) > 0).astype(int)
    return X, y, 40, {"monotone": "right", "nu": 10.0, "C": 3.0, "scale": 0.3}


EXAMPLES = {"moons": _moons, "rings": _rings, "line": _line}
