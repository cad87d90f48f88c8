"""Validate the scene that a browser sends (points, priors and weights), solve it, and write it as Python code."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from importlib.resources import files
from math import isfinite
from string import Template
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.neighbors import kneighbors_graph

import rkhs
from rkhs.extend import Vector, to_numpy
from rkhs.plotting import ActiveRepresenters

# The limits of settings, in units of the board, which is [-1, 1] x [-1, 1].
LIMITS = {"C": (1e-3, 1e5), "nu": (1e-6, 1e5), "scale": (0.02, 5.0), "shift": (0.05, 2.0)}
DIRECTIONS = {"": None, "right": (0, 1), "left": (0, -1), "up": (1, 1), "down": (1, -1)}  # axis and sign
NOTHING: dict[str, Any] = {"gradient": False, "graph": False, "monotone": "", "repeats": False}


RASTER = 48  # values along each side of the board, which the browser interpolates
TOL = 1e-2  # relative gap
EXACT = 1200  # functionals up to which no landmarks are needed
NEIGHBORS = 5  # of a point in the graph
RISING = 10.0  # weight of the monotone prior, as a multiple of nu
Drawn = tuple[Vector, Vector, int, dict[str, Any]]  # points, classes, labels of each class, settings


class SceneError(ValueError):
    """A scene that is not valid; the message is one sentence."""


FAILURES = (ValueError, ArithmeticError, RuntimeError)  # of solvers for odd points, and of scenes


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


def answer(request: str, given: Any) -> dict[str, Any]:
    """Return the answer to a request of the page: "solve" and "code" of a scene, "example" of a name.

    Parameters
    ----------
    request : str
        What is asked for.
    given : object
        The parsed JSON of the request.

    Returns
    -------
    dict
        What JSON can represent.  Anything unexpected is a `SceneError`.
    """
    if request == "solve":
        scene, quick = Scene.of(given), given.get("quick") is True
        found = solved(scene, quick)
        if given.get("compare") is True:
            found["plain"] = solved(replace(scene, **NOTHING), quick)
        return found
    if request == "code":
        return {"code": python_code(Scene.of(given))}
    name = given.get("name") if isinstance(given, dict) else None
    if not isinstance(name, str) or name not in EXAMPLES:
        raise SceneError(f"The examples are {', '.join(EXAMPLES)}.")
    return example(name)


def solved(scene: Scene, quick: bool) -> dict[str, Any]:
    """Return what the browser draws: values of f on a raster, representers, the certificate.

    While something is dragged, `quick` looks for f in the span of few landmarks.  When nothing moves, f is exact, or in
    the span of more landmarks where there are very many functionals.
    """
    start = perf_counter()
    problem = problem_of(scene, quick)
    solution = problem.solve(tol=TOL)
    f, labeled = solution.function, scene.y >= 0
    values = to_numpy(f(board())).reshape(RASTER, RASTER, -1)
    active = ActiveRepresenters.of(f, share=1e-2)
    longest = float(np.linalg.norm(active.vectors, axis=1).max(initial=0.0)) or 1.0
    scores = to_numpy(f(scene.X)).reshape(len(scene.X), -1)  # a single score is positive for the second class
    codes = scores.argmax(axis=1) if scores.shape[1] > 1 else (scores[:, 0] > 0).astype(int)
    return {
        "raster": RASTER,
        "classes": scene.classes,
        "values": base64.b64encode(values.astype("<f4").tobytes()).decode(),
        "representers": {
            "values": np.round(active.values, 4).tolist(),
            "slopes": np.round(np.hstack([active.slopes, 0.1 * active.vectors / longest]), 4).tolist(),
        },
        "certificate": {
            "status": solution.status,
            "certified": solution.status == "converged",
            "primal": solution.primal,
            "gap": solution.relative_gap,
            "solver": solution.solver,
            "span": solution.span,
            "functionals": sum(term.size for term in problem.terms),
            "representers": int(f.active),
        },
        "wrong": int(np.sum(np.asarray(scene.classes)[codes][labeled] != scene.y[labeled])),
        "milliseconds": round(1000 * (perf_counter() - start), 1),
    }


def problem_of(scene: Scene, quick: bool = False) -> rkhs.Problem:
    """Return the problem: labels by the squared hinge, and a term for each prior."""
    _check_classes(scene)
    X, known = scene.X, scene.y >= 0
    target = np.where(scene.y[known, None] == np.array(scene.classes), 1.0, -1.0)  # each class against the rest
    target = target[:, 1] if len(scene.classes) == 2 else target
    terms = [rkhs.Term(rkhs.Evaluation(X[known]), rkhs.SquaredHinge(), target=target, weight=scene.C)]
    if scene.gradient:
        terms.append(rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=scene.nu))
    if scene.graph:
        near = kneighbors_graph(X, min(NEIGHBORS, len(X) - 1))
        graph = rkhs.functionals.GraphDifference(X, near.maximum(near.T))
        first, second = graph.edges.T
        alike = rkhs.Difference(X[first], X[second]) if quick else graph  # the same; pairs are faster in a span
        terms.append(rkhs.Term(alike, rkhs.Squared(), weight=scene.nu))
    if scene.monotone:
        axis, sign = DIRECTIONS[scene.monotone] or (0, 1)
        slopes = float(sign) * rkhs.Derivative(X, axes=[axis])
        # sum_i min(0, sign df/dx_axis (x_i))^2
        terms.append(rkhs.Term(slopes, rkhs.losses.SquaredOneSided(), weight=RISING * scene.nu))
    if scene.repeats:
        moved = X + np.array([scene.shift, 0.0])
        terms.append(rkhs.Term(rkhs.Difference(X, moved), rkhs.Squared(), weight=scene.nu))
    landmarks, exact = (80, 120) if quick else (250, EXACT)  # few while something is dragged
    many = sum(term.size for term in terms) > exact
    approximation = rkhs.Landmarks(landmarks, "random", derivatives=0.0) if many else None
    return rkhs.Problem(rkhs.Gaussian(scale=scene.scale), terms, rkhs.Constant(), approximation=approximation)


def _check_classes(scene: Scene) -> None:
    if len(scene.classes) < 2:
        raise SceneError("Paint points of two classes.")


def board() -> Vector:
    """Return the points (RASTER^2, 2) of the board, row by row from the bottom."""
    ticks = np.linspace(-1, 1, RASTER)
    return np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)


def python_code(scene: Scene) -> str:
    """Return a script that fits f to the points and draws its boundary."""
    _check_classes(scene)
    classes, nu = scene.classes, scene.nu
    pairs = [f"[{x!r}, {y!r}]" for x, y in scene.X.tolist()]
    rows = [", ".join(pairs[k : k + 5]) for k in range(0, len(pairs), 5)]
    points = "[\n    " + ",\n    ".join(rows) + ",\n]"
    axis, sign = DIRECTIONS[scene.monotone] or (0, 1)
    rising = f"{float(sign)} * rkhs.Derivative(X, axes=[{axis}]), rkhs.losses.SquaredOneSided(), weight={RISING * nu!r}"
    graph = "rkhs.functionals.GraphDifference(X, near.maximum(near.T))"
    moved = f"rkhs.Difference(X, X + np.array([{scene.shift!r}, 0.0])), rkhs.Squared(), weight={nu!r}"
    stated = [
        (scene.gradient, f"rkhs.Gradient(X), rkhs.Squared(), weight={nu!r}", "f changes slowly where there are points"),
        (scene.graph, f"{graph}, rkhs.Squared(), weight={nu!r}", "neighbors are alike"),
        (scene.monotone, rising, "f increases in this direction"),
        (scene.repeats, moved, "f is the same a step further to the right"),
    ]
    target = "np.where(codes == 1, 1.0, -1.0)"
    contours = "contour(ticks, ticks, values[..., 0], levels=[-1, 0, 1], linestyles=[':', '-', ':'])"
    if len(classes) > 2:
        target = f"np.where(codes[:, None] == np.arange({len(classes)}), 1.0, -1.0)  # one class against the rest"
        contours = "contourf(ticks, ticks, values.argmax(axis=-1), alpha=0.3)"
    priors = [f"terms.append(rkhs.Term({term}))  # {about}\n" for wanted, term, about in stated if wanted]
    texts = {"points": points, "labels": scene.y.tolist(), "classes": classes, "target": target, "contours": contours}
    texts |= {"C": repr(scene.C), "scale": repr(scene.scale), "tol": repr(TOL), "priors": "".join(priors)}
    texts["graph_import"] = "from sklearn.neighbors import kneighbors_graph\n" if scene.graph else ""
    neighbors = f"near = kneighbors_graph(X, {min(NEIGHBORS, len(scene.X) - 1)})\n"
    texts["neighbors"] = neighbors if scene.graph else ""
    script = files("rkhs._command.play").joinpath("static", "script.txt").read_text(encoding="utf-8")
    return Template(script).substitute(texts)
