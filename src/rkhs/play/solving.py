"""From a scene to what is drawn: values of f on a raster, representers, the certificate."""

from __future__ import annotations

import base64
from time import perf_counter
from typing import Any

import numpy as np

import rkhs
from rkhs._backend.arrays import Vector, to_numpy
from rkhs._finite.certificate import CONVERGED
from rkhs.invariances.graph import laplacian
from rkhs.play.scene import DIRECTIONS, Scene, SceneError
from rkhs.plotting.boundary import Active

RASTER = 48  # values along each side of the board, which the browser interpolates
NEIGHBOURS = 5
QUICK, EXACT_THEN = 80, 120  # landmarks while something is dragged; functionals up to which there is no need for them
LANDMARKS, EXACT = 250, 1200  # the same when nothing moves
TOL = 1e-2
RISING = 10.0  # weight of a direction to grow in, as a multiple of nu


def solved(scene: Scene, quick: bool) -> dict[str, Any]:
    """What the browser draws.

    While something is dragged, `quick` looks for f in the span of few landmarks; f is exact, or in the span of more of
    them where there are very many functionals, when nothing moves.
    """
    start = perf_counter()
    if len(scene.classes) < 2:
        raise SceneError("Paint points of two classes.")
    problem = problem_of(scene, quick)
    solution = problem.solve(tol=TOL)
    values = to_numpy(solution.function(board())).reshape(RASTER, RASTER, -1)
    active = Active.of(solution.function, share=1e-2)
    told = to_numpy(solution.function(scene.X)).reshape(len(scene.X), -1)
    return {
        "raster": RASTER,
        "classes": scene.classes,
        "values": base64.b64encode(values.astype("<f4").tobytes()).decode(),
        "representers": {
            "values": np.round(active.values, 4).tolist(),
            "slopes": np.round(np.hstack([active.slopes, _shortened(active.vectors)]), 4).tolist(),
        },
        "certificate": {
            "status": solution.status,
            "certified": solution.status == CONVERGED,
            "primal": solution.primal,
            "gap": solution.relative_gap,
            "solver": solution.solver,
            "span": solution.span,
            "functionals": sum(term.size for term in problem.terms),
            "representers": int(solution.function.active),
        },
        "wrong": int(np.sum(predicted(told, scene.classes)[scene.y >= 0] != scene.y[scene.y >= 0])),
        "milliseconds": round(1000 * (perf_counter() - start), 1),
    }


def problem_of(scene: Scene, quick: bool = False) -> rkhs.Problem:
    """Labels by the squared hinge, and a term for each piece of prior knowledge."""
    X, known = scene.X, scene.y >= 0
    codes = np.searchsorted(scene.classes, scene.y[known])
    count = len(scene.classes)
    target = np.where(codes == 1, 1.0, -1.0) if count == 2 else np.where(codes[:, None] == np.arange(count), 1.0, -1.0)
    terms = [rkhs.Term(rkhs.Evaluation(X[known]), rkhs.SquaredHinge(), target=target, weight=scene.C)]
    if scene.gradient:
        terms.append(rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=scene.nu))
    if scene.graph:
        graph = laplacian(X, NEIGHBOURS)
        first, second = graph.edges.T
        alike = rkhs.Difference(X[first], X[second]) if quick else graph  # the same; pairs are faster in a span
        terms.append(rkhs.Term(alike, rkhs.Squared(), weight=scene.nu))
    if scene.monotone:
        axis, sign = DIRECTIONS[scene.monotone] or (0, 1)
        slopes = float(sign) * rkhs.Derivative(X, axes=[axis])
        terms.append(rkhs.Term(slopes, rkhs.SquaredOneSided(), weight=RISING * scene.nu))
    if scene.repeats:
        moved = X + np.array([scene.shift, 0.0])
        terms.append(rkhs.Term(rkhs.Difference(X, moved), rkhs.Squared(), weight=scene.nu))
    landmarks, exact = (QUICK, EXACT_THEN) if quick else (LANDMARKS, EXACT)
    many = sum(term.size for term in terms) > exact
    approximation = rkhs.Landmarks(landmarks, "random", derivatives=0.0) if many else None
    return rkhs.Problem(rkhs.Gaussian(scale=scene.scale), terms, rkhs.Constant(), approximation=approximation)


def board() -> Vector:
    """The points (RASTER^2, 2) of the board, row by row from the bottom."""
    ticks = np.linspace(-1, 1, RASTER)
    return np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)


def predicted(values: Vector, classes: list[int]) -> Vector:
    """The classes by values of f (t, outputs)."""
    chosen = (values[:, 0] > 0).astype(int) if values.shape[1] == 1 else values.argmax(axis=1)
    return np.asarray(classes)[chosen]


def _shortened(vectors: Vector) -> Vector:
    """Arrows, the longest of length 0.1."""
    longest = float(np.linalg.norm(vectors, axis=1).max(initial=0.0)) or 1.0
    return 0.1 * vectors / longest
