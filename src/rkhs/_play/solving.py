"""Solve the problem of a scene, and write the Python code that gives the same function."""

from __future__ import annotations

import base64
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.neighbors import kneighbors_graph

import rkhs
from rkhs._backend.arrays import Vector, to_numpy
from rkhs._estimators.data import one_vs_rest, predicted_codes
from rkhs._finite.certificate import CONVERGED
from rkhs._play.scene import DIRECTIONS, Scene, SceneError
from rkhs.plotting._boundary import Active

RASTER = 48  # values along each side of the board, which the browser interpolates
TOL = 1e-2  # relative gap
EXACT = 1200  # functionals up to which no landmarks are needed
NEIGHBORS = 5  # of a point in the graph
RISING = 10.0  # weight of the monotone prior, as a multiple of nu


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
    active = Active.of(f, share=1e-2)
    longest = float(np.linalg.norm(active.vectors, axis=1).max(initial=0.0)) or 1.0
    codes = predicted_codes(to_numpy(f(scene.X)))
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
            "certified": solution.status == CONVERGED,
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
    target = one_vs_rest(np.searchsorted(scene.classes, scene.y[known]), len(scene.classes))
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
        terms.append(rkhs.Term(slopes, rkhs.SquaredOneSided(), weight=RISING * scene.nu))
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
    rising = f"{float(sign)} * rkhs.Derivative(X, axes=[{axis}]), rkhs.SquaredOneSided(), weight={RISING * nu!r}"
    graph = "rkhs.functionals.GraphDifference(X, near.maximum(near.T))"
    moved = f"rkhs.Difference(X, X + np.array([{scene.shift!r}, 0.0])), rkhs.Squared(), weight={nu!r}"
    priors = [
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
    lines = [
        "import matplotlib.pyplot as plt",
        "import numpy as np",
        "",
        "import rkhs",
        *(["from sklearn.neighbors import kneighbors_graph"] if scene.graph else []),
        "",
        f"X = np.array({points})",
        f"y = np.array({scene.y.tolist()})  # -1: no label",
        "",
        *([f"near = kneighbors_graph(X, {min(NEIGHBORS, len(scene.X) - 1)})"] if scene.graph else []),
        "known = y >= 0",
        f"codes = np.searchsorted({classes}, y[known])",
        f"target = {target}",
        f"terms = [rkhs.Term(rkhs.Evaluation(X[known]), rkhs.SquaredHinge(), target=target, weight={scene.C!r})]",
        *(f"terms.append(rkhs.Term({term}))  # {about}" for wanted, term, about in priors if wanted),
        f"problem = rkhs.Problem(rkhs.Gaussian(scale={scene.scale!r}), terms, rkhs.Constant())",
        f"solution = problem.solve(tol={TOL!r})",
        "f = solution.function",
        "print(solution)",
        "",
        "ticks = np.linspace(-1, 1, 200)",
        "board = np.stack(np.meshgrid(ticks, ticks), axis=-1)",
        "values = f(board.reshape(-1, 2)).reshape(200, 200, -1)",
        f"plt.{contours}",
        'plt.scatter(*X.T, c=y, edgecolor="k")',
        "plt.show()",
        "",
    ]
    return "\n".join(lines)
