"""The Python code of what is on the screen: it runs, and gives the same function."""

from __future__ import annotations

from rkhs.play.scene import DIRECTIONS, Scene, SceneError
from rkhs.play.solving import NEIGHBOURS, RISING, TOL

ABOUT = {
    "gradient": "f changes slowly where there are points",
    "graph": "neighbours are alike",
    "monotone": "f grows in this direction",
    "repeats": "f is the same a step further to the right",
}


def python_code(scene: Scene) -> str:
    """A script that learns f from the points and draws its boundary."""
    classes = scene.classes
    if len(classes) < 2:
        raise SceneError("Paint points of two classes.")
    lines = ["import matplotlib.pyplot as plt", "import numpy as np", "", "import rkhs"]
    if scene.graph:
        lines.append("from rkhs.invariances.graph import laplacian")
    lines += [
        "",
        f"X = np.array({_rows(scene)})",
        f"y = np.array({scene.y.tolist()})  # -1: no label",
        "",
        "known = y >= 0",
        f"codes = np.searchsorted({classes}, y[known])",
        "target = np.where(codes == 1, 1.0, -1.0)"
        if len(classes) == 2
        else f"target = np.where(codes[:, None] == np.arange({len(classes)}), 1.0, -1.0)  # one class against the rest",
        f"terms = [rkhs.Term(rkhs.Evaluation(X[known]), rkhs.SquaredHinge(), target=target, weight={scene.C!r})]",
    ]
    for name, term in _knowledge(scene).items():
        lines.append(f"terms.append({term})  # {ABOUT[name]}")
    lines += [
        f"problem = rkhs.Problem(rkhs.Gaussian(scale={scene.scale!r}), terms, rkhs.Constant())",
        f"solution = problem.solve(tol={TOL!r})",
        "f = solution.function",
        "print(solution)",
        "",
        "ticks = np.linspace(-1, 1, 200)",
        "board = np.stack(np.meshgrid(ticks, ticks), axis=-1)",
        "values = f(board.reshape(-1, 2)).reshape(200, 200, -1)",
    ]
    if len(classes) == 2:
        lines.append("plt.contour(ticks, ticks, values[..., 0], levels=[-1, 0, 1], linestyles=[':', '-', ':'])")
    else:
        lines.append("plt.contourf(ticks, ticks, values.argmax(axis=-1), alpha=0.3)")
    lines += ['plt.scatter(*X.T, c=y, edgecolor="k")', "plt.show()", ""]
    return "\n".join(lines)


def _knowledge(scene: Scene) -> dict[str, str]:
    """The terms of prior knowledge, as code."""
    found, nu = {}, repr(scene.nu)
    if scene.gradient:
        found["gradient"] = f"rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight={nu})"
    if scene.graph:
        found["graph"] = f"rkhs.Term(laplacian(X, {NEIGHBOURS}), rkhs.Squared(), weight={nu})"
    if scene.monotone:
        axis, sign = DIRECTIONS[scene.monotone] or (0, 1)
        slopes = f"{float(sign)} * rkhs.Derivative(X, axes=[{axis}])"
        found["monotone"] = f"rkhs.Term({slopes}, rkhs.SquaredOneSided(), weight={RISING * scene.nu!r})"
    if scene.repeats:
        moved = f"rkhs.Difference(X, X + np.array([{scene.shift!r}, 0.0]))"
        found["repeats"] = f"rkhs.Term({moved}, rkhs.Squared(), weight={nu})"
    return found


def _rows(scene: Scene) -> str:
    """The points, some in each line."""
    pairs = [f"[{x!r}, {y!r}]" for x, y in scene.X.tolist()]
    lines = [", ".join(pairs[k : k + 5]) for k in range(0, len(pairs), 5)]
    return "[\n    " + ",\n    ".join(lines) + ",\n]"
