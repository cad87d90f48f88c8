"""Scenes to start from."""

from __future__ import annotations

from typing import Any

import numpy as np

from rkhs._backend.arrays import Vector


def example(name: str) -> dict[str, Any]:
    """Points and settings by the name of an example.

    Examples
    --------
    >>> len(example("moons")["points"])
    160
    """
    return EXAMPLES[name](np.random.default_rng(0))


def _moons(rng: np.random.Generator) -> dict[str, Any]:
    """Two moons, three labels each: the graph of neighbours finds the rest."""
    angle = np.pi * rng.random(160)
    lower = np.arange(160) % 2
    X = np.column_stack([np.cos(angle) + lower, np.where(lower, 0.5 - np.sin(angle), np.sin(angle))])
    X = (X - [0.5, 0.25]) / 1.75 + 0.035 * rng.standard_normal(X.shape)
    return _scene(X, lower, labels=3, graph=True, nu=3.0, C=30.0, scale=0.3)


def _rings(rng: np.random.Generator) -> dict[str, Any]:
    """Three rings."""
    which = np.arange(210) % 3
    radius = np.array([0.18, 0.5, 0.85])[which]
    angle = 2 * np.pi * (np.arange(210) // 3 + rng.random(210)) / 70
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]) + 0.02 * rng.standard_normal((210, 2))
    order = rng.permutation(210)
    return _scene(X[order], which[order], labels=4, graph=True, nu=30.0, C=100.0, scale=0.2)


def _line(rng: np.random.Generator) -> dict[str, Any]:
    """A line with wrong labels: f is known to grow to the right."""
    X = rng.uniform(-0.9, 0.9, (80, 2))
    y = (X[:, 0] + 0.35 * rng.standard_normal(80) > 0).astype(int)
    return _scene(X, y, labels=40, monotone="right", nu=10.0, C=3.0, scale=0.3)


def _scene(X: Vector, y: Vector, labels: int, **settings: Any) -> dict[str, Any]:
    """The first labels of each class are kept."""
    seen = np.array([int(np.sum(y[:k] == y[k])) for k in range(len(y))])
    shown = np.where(seen < labels, y, -1)
    points = [[round(float(a), 4), round(float(b), 4), int(c)] for (a, b), c in zip(X, shown, strict=True)]
    own = {"gradient": False, "graph": False, "monotone": "", "repeats": False, "shift": 0.5}
    return {"points": points, **own, **settings}


EXAMPLES = {"moons": _moons, "rings": _rings, "line": _line}
