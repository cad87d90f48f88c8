"""Check the theorems of the papers numerically.

- Lee et al. 2006, Theorem 5, Zhang et al. 2013, 4.1: on the Gaussian RKHS the norm of a derivative is 1 / scale.
- Zhang et al. 2013, Theorems 3 to 6: |L(f)| <= |z_L| |f|, on random f, with equality for f = z_L.
- Zhang et al. 2013, Theorem 6: for local averages |z_L| <= 2 C, C^2 a bound of k(x, x).
- Zhang et al. 2013, 4.3 and appendix B: inner products of local averages, as printed, corrected, and by quadrature.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

import rkhs
from papers.experiment import Array, Cell, Experiment, Record, Result, select, table
from rkhs import Derivative, Evaluation, Gaussian, Gradient, LocalDeviation, gram
from rkhs.extend import Functional, Kernel

KERNELS: dict[str, Kernel] = {
    "Gaussian(scale=0.7)": Gaussian(0.7),
    "Polynomial(degree=3)": rkhs.Polynomial(degree=3, offset=1.0),
    "Matern(nu=2.5)": rkhs.Matern(nu=2.5),
}
FAMILIES: dict[str, Callable[[Array], Functional]] = {
    "value": Evaluation,
    "derivative": lambda x: Derivative(x, axes=[1]),
    "gradient": Gradient,
    "local deviation": lambda x: LocalDeviation(x, width=0.5),
}
SCALES = (0.1, 0.25, 1.0, 4.0)
PLACES = ((0.7, 0.4, 0.3, 1.1), (1.0, 0.5, 0.0, 0.0), (0.3, 0.6, -0.2, 0.5))  # scale, width, x_i, x
RANDOM = 1000  # functions
TOGETHER = 10  # of them, with the same points
WAYS = ("ours", "quadrature", "printed")


def plan(quick: bool, _: list[Record]) -> list[Cell]:
    """Plan all checks, with a tenth of the random functions if quick."""
    count = RANDOM // 10 if quick else RANDOM
    norms = [{"check": "norm of a derivative", "scale": scale, "dimension": n} for scale in SCALES for n in (1, 2, 30)]
    bounds = [
        {"check": "bound", "kernel": kernel, "functional": family, "functions": count}
        for kernel in KERNELS
        for family in FAMILIES
    ]
    averages = [{"check": "local average", "place": list(place)} for place in PLACES]
    return [*norms, *bounds, *averages]


def compute(cell: Cell) -> Result:
    """Return the numbers of one check."""
    if cell["check"] == "norm of a derivative":
        x = np.random.default_rng(0).standard_normal((1, cell["dimension"]))
        norm = np.sqrt(gram(Gaussian(cell["scale"]), Derivative(x, axes=[0])).diagonal()[0])
        return {"norm": float(norm), "1 / scale": 1 / cell["scale"]}
    if cell["check"] == "bound":
        return bound(KERNELS[cell["kernel"]], cell["functional"], cell["functions"])
    return local_average(*cell["place"])


def bound(kernel: Kernel, family: str, count: int) -> Result:
    """Return the largest |L(f)| / (|z_L| |f|) over random f in R^2, and that of f = z_L."""
    rng = np.random.default_rng(0)
    L = FAMILIES[family](rng.standard_normal((1, 2)))
    norms = np.sqrt(gram(kernel, L).diagonal())
    largest = 0.0
    for _ in range(count // TOGETHER):
        points = Evaluation(rng.standard_normal((6, 2)))
        a = rng.standard_normal((6, TOGETHER))  # f = sum_i a_i k(x_i, .), one for each column
        sizes = np.sqrt(np.sum(a * (gram(kernel, points).dense() @ a), axis=0))
        images = gram(kernel, L, points).dense() @ a
        largest = max(largest, float(np.max(np.abs(images) / (norms[:, None] * sizes))))
    representer = rkhs.Function(kernel, L, np.eye(L.size)[0])
    ratio = float(np.ravel(L(representer))[0] / (norms[0] * representer.norm()))
    return {"largest": largest, "of the representer": ratio}


def local_average(scale: float, width: float, first: float, second: float) -> Result:
    """Return <z_i, k(x, .)> and <z_i, z_j> in R^1: ours, by quadrature, and as printed, with widths that add."""

    def k(d: float, s: float = scale) -> float:
        return float(np.exp(-(d**2) / (2 * s**2)))

    x, y = np.array([[first]]), np.array([[second]])
    L, M = LocalDeviation(x, width), LocalDeviation(y, width)
    kernel, d = Gaussian(scale), first - second
    nodes, weights = hermegauss(120)
    weights = weights / weights.sum()
    once = float(weights @ np.exp(-((d + width * nodes) ** 2) / (2 * scale**2))) - k(d)
    away = d + width * (nodes[:, None] - nodes)
    both = float(weights @ np.exp(-(away**2) / (2 * scale**2)) @ weights)
    wide, wider = scale + width, scale + 2 * width
    return {
        "with a value": {
            "ours": float(gram(kernel, L, Evaluation(y)).dense()[0, 0]),
            "quadrature": once,
            "printed": scale / wide * k(d, wide) - k(d),
        },
        "with each other": {
            "ours": float(gram(kernel, L, M).dense()[0, 0]),
            "quadrature": both - 2 * once - k(d),
            "printed": k(d) + scale / wider * k(d, wider) - 2 * scale / wide * k(d, wide),
        },
    }


def page(records: list[Record], _: Path) -> str:
    """Write a table for each kind of check."""
    norms = [
        [f"{r.cell['scale']:g}", str(r.cell["dimension"]), f"{r.result['1 / scale']:.15g}", f"{r.result['norm']:.15g}"]
        for r in select(records, check="norm of a derivative")
    ]
    bounds = [
        [
            r.cell["kernel"],
            r.cell["functional"],
            f"{r.result['largest']:.6f}",
            f"{r.result['of the representer']:.15g}",
        ]
        for r in select(records, check="bound")
    ]
    averages = [
        [", ".join(f"{v:g}" for v in r.cell["place"]), name, *(f"{r.result[name][way]:.10f}" for way in WAYS)]
        for r in select(records, check="local average")
        for name in ("with a value", "with each other")
    ]
    functions = select(records, check="bound")[0].cell["functions"]
    return (
        "The norm of the partial derivative on the Gaussian RKHS (Lee et al. 2006, Theorem 5; Zhang et al. 2013, "
        "4.1):\n\n"
        + table(["scale", "dimension", "1 / scale", "computed"], norms)
        + f"The largest |L(f)| / (|z| |f|) over {functions} random functions must not exceed 1, and is 1 for the "
        "representer z (Zhang et al. 2013, Theorems 1 and 3 to 6):\n\n"
        + table(["kernel", "functional", "random functions", "representer"], bounds)
        + "Inner products of local averages (Zhang et al. 2013, 4.3, appendix B): the printed widths s + th are wrong, "
        "the variances "
        "add:\n\n" + table(["s, th, x_i, x", "inner product", *WAYS], averages)
    )


THEOREMS = Experiment("theorems", "The theorems, as checks", plan, compute, page)
