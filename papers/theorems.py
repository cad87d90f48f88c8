"""Check the theorems and formulas of the papers numerically (`papers.theorem_checks` has the computations)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.polynomial.hermite_e import hermegauss

import rkhs
from papers import theorem_checks as checks
from papers.experiment import Array, Cell, Experiment, Record, Result, select, table
from papers.slips import SLIPS, slip
from papers.theorem_checks import ROUNDING
from rkhs import Derivative, Evaluation, Gaussian, Gradient, gram
from rkhs.extend import Functional, Kernel
from rkhs.functionals import LocalDeviation

KERNELS: dict[str, Kernel] = {
    "Gaussian(scale=0.7)": Gaussian(0.7),
    "Polynomial(degree=3)": rkhs.kernels.Polynomial(degree=3, offset=1.0),
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
DILATIONS = (0.1, 3.0)
REGULARIZATIONS = (1e6, 1e4, 1e2, 1e-4, 1e-6, 1e-8)
LOSSES = ("squared", "logistic", "hinge")
FORMULAS = ("(5)", "(9)", "graph Laplacian, section 3")


def plan(quick: bool, _: list[Record]) -> list[Cell]:
    """Plan all checks, with a tenth of the random functions if quick."""
    count = RANDOM // 10 if quick else RANDOM

    def cells(check: str, **options: Any) -> list[Cell]:
        """Return the cells of a check for all combinations of the options."""
        found: list[Cell] = [{"check": check}]
        for name, values in options.items():
            found = [{**cell, name: value} for cell in found for value in values]
        return found

    return [
        *cells("representer theorem", theorem=("2", "7", "4.6")),
        *cells("norm of a derivative", scale=SCALES, dimension=(1, 2, 30)),
        *cells("bound", kernel=KERNELS, functional=FAMILIES, functions=(count,)),
        *cells("motion", motion=checks.MOTIONS, kernel=checks.MOVED_KERNELS, functions=(count,)),
        *cells("derivative products"),
        *cells("norm of a local average", kernel=("Gaussian(scale=0.7)", "Matern(nu=2.5)"), width=(0.1, 0.5, 2.0)),
        *cells("local average", place=[list(place) for place in PLACES]),
        *cells("corollary 2.3", space=checks.SCALED),
        *cells("homogeneous kernel", power=(1, 2, 3), s=DILATIONS),
        *cells("lemma 3.2", phi=checks.RADIAL),
        *cells("lemma 4.3", points=checks.INTERPOLATED),
        *cells("lemma 4.5", kernel=checks.LEAST_NORM, functions=(count,)),
        *cells("existence"),
        *cells("integral", kernel=checks.PLATES),
        *cells("scaling of plates", kernel=checks.PLATES, s=(*DILATIONS, -3.0)),
        *cells("limits", regularization=REGULARIZATIONS),
        *cells("coefficients", loss=LOSSES),
        *cells("last line"),
        *cells("inner product", formula=FORMULAS),
        *cells("slip", statement=SLIPS),
    ]


def compute(cell: Cell) -> Result:
    """Return the numbers of one check."""
    runs: dict[str, Callable[..., Result]] = {
        "representer theorem": checks.representer_theorem,
        "norm of a derivative": checks.derivative_norm,
        "bound": lambda kernel, functional, functions: bound(KERNELS[kernel], functional, functions),
        "motion": checks.motion,
        "derivative products": checks.derivative_products,
        "norm of a local average": lambda kernel, width: checks.local_average_norm(KERNELS[kernel], width),
        "local average": lambda place: local_average(*place),
        "corollary 2.3": checks.corollary,
        "homogeneous kernel": checks.homogeneous_scaling,
        "lemma 3.2": checks.homogeneous_function,
        "lemma 4.3": checks.interpolation,
        "lemma 4.5": checks.least_norm,
        "existence": checks.no_minimizer,
        "integral": checks.integral_norm,
        "scaling of plates": checks.plate_scaling,
        "limits": checks.limits,
        "coefficients": checks.coefficients,
        "last line": checks.last_line,
        "inner product": checks.inner_product,
        "slip": slip,
    }
    name, *options = cell.values()
    result = runs[name](*options)
    return {**result, "holds": bool(result["holds"])}


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
    representer = rkhs.results.Function(kernel, L, np.eye(L.size)[0])
    ratio = float(np.ravel(L(representer))[0] / (norms[0] * representer.norm()))
    holds = largest <= 1 + ROUNDING and abs(ratio - 1) <= ROUNDING
    return {"largest": largest, "of the representer": ratio, "holds": holds}


def local_average(scale: float, width: float, first: float, second: float) -> Result:
    """Return <z_i, k(x, .)> and <z_i, z_j> in R^1: ours, by quadrature, and as printed, with widths that add.

    "holds" says whether the printed ones do.
    """

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
    found = {
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
    return {**found, "holds": all(abs(own["printed"] - own["quadrature"]) < 1e-9 for own in found.values())}


Columns = dict[str, Callable[[Record], str]]


def of_cell(name: str) -> Callable[[Record], str]:
    """Return a column of a value of the cells."""
    return lambda record: str(record.cell[name])


def of_result(name: str, digits: str = ".10g") -> Callable[[Record], str]:
    """Return a column of a number of the results."""
    return lambda record: format(record.result[name], digits)


def holds(record: Record) -> str:
    """Return whether the statement is true of this record."""
    return "yes" if record.result["holds"] else "no"


# what is checked, where it is printed, the check, and the columns of its table
STATEMENTS: tuple[tuple[str, str, str, Columns], ...] = (
    (
        "Representer theorems",
        "Zhang et al. 2013, Theorems 2 and 7; Lee et al. 2006, Theorems 2 and 3; Walder and Chapelle 2007, "
        "Theorem 4.6. The minimum of J over the span that the theorem names is that over a span with 20 further "
        "functions, and less than that over a span with one function less. All are computed by BFGS in the "
        "coefficients; the last but one column is `rkhs.Problem`.",
        "representer theorem",
        {
            "theorem": of_cell("theorem"),
            "span of the theorem": of_result("span", ".11g"),
            "20 further functions": of_result("larger", ".11g"),
            "one function less, at best": of_result("fewer", ".11g"),
            "rkhs": of_result("rkhs", ".11g"),
        },
    ),
    (
        "Norm of a derivative",
        "Lee et al. 2006, Theorem 5; Zhang et al. 2013, 4.1: on the Gaussian RKHS it is 1 / scale.",
        "norm of a derivative",
        {
            "scale": of_cell("scale"),
            "dimension": of_cell("dimension"),
            "1 / scale": of_result("1 / scale", ".15g"),
            "computed": of_result("norm", ".15g"),
        },
    ),
    (
        "Bounded functionals",
        "Zhang et al. 2013, Theorems 1, 3, 4 and 6: the largest |L(f)| / (|z| |f|) over random functions must not "
        "exceed 1, and is 1 for the representer z.",
        "bound",
        {
            "kernel": of_cell("kernel"),
            "functional": of_cell("functional"),
            "random functions": of_result("largest", ".6f"),
            "representer": of_result("of the representer", ".12g"),
        },
    ),
    (
        "Motions",
        "Zhang et al. 2013, Theorem 5; Lee et al. 2006, Theorem 6, with a handwritten digit (scikit-learn's, 8 x 8, "
        "spread by a Gaussian of 0.8 pixels) as g. The derivative of f(I(g, a; S)) in a at 0 is the functional "
        "<v, grad f>: largest difference from a difference quotient, relative to the largest value. Its norm |z| is at "
        "most the bound of the theorem, and no random f exceeds it. The last but one column is the cosine between v "
        "and the tangent of `ImageTangents`, which extends the image beyond its border by the border and not by 0.",
        "motion",
        {
            "motion": of_cell("motion"),
            "kernel": of_cell("kernel"),
            "from the quotient": of_result("difference", ".1g"),
            "norm": of_result("norm", ".4f"),
            "bound of the theorem": of_result("bound", ".4f"),
            "random functions": of_result("largest", ".4f"),
            "cosine": of_result("cosine", ".3f"),
        },
    ),
    (
        "Inner products of derivatives",
        "Zhang et al. 2013: relative errors of the printed formulas.",
        "derivative products",
        {name: of_result(name, ".1g") for name in ("(7)", "(8)", "(11)")},
    ),
    (
        "Norm of a local average",
        "Zhang et al. 2013, Theorem 6: at most 2 C if k(x, x) <= C^2.",
        "norm of a local average",
        {
            "kernel": of_cell("kernel"),
            "width": of_cell("width"),
            "norm": of_result("norm", ".6f"),
            "2 C": of_result("bound", "g"),
        },
    ),
    (
        "Scaled spaces",
        "Walder and Chapelle 2007, Lemma 2.2, Corollary 2.3 and sections 3, 5 and 6.2: after a transformation T of the "
        "points, and with the weight of the losses times g, the minimizer is the same function, composed with T. "
        "Largest difference at 2,000 points relative to the largest value, and percentage of points whose sign "
        "differs; dilations are by 0.1. Without linear functions, as section 6.2 has it, that fails for r^2 log r, "
        "because in other units the kernel differs by a multiple of r^2 and f by a constant.",
        "corollary 2.3",
        {
            "space and transformation": of_cell("space"),
            "g": of_result("factor", "g"),
            "difference": of_result("difference", ".1g"),
            "signs, percent": of_result("signs", ".3g"),
        },
    ),
    (
        "Homogeneous kernels",
        "Walder and Chapelle 2007, Lemma 3.1 and below it: for k = (x'y)^p and the dilation W_s the factor is "
        "s^(-2p), as the ratio of kernels and as that of squared norms, |f|^2 / |f o W_s|^2.",
        "homogeneous kernel",
        {
            "p": of_cell("power"),
            "s": of_cell("s"),
            "s^(-2p)": of_result("printed"),
            "kernels": of_result("kernels"),
            "norms": of_result("norms"),
        },
    ),
    (
        "Homogeneous radial functions",
        "Walder and Chapelle 2007, Lemma 3.2: phi(r) = g(s) phi(rs) only for a delta(r) + b r^p with p other than 0. "
        "It should say for powers with any p, which includes constants, and for a delta(r) + b: at r = 0 the "
        "equation is a = s^(-p) a. Section 3: none of them but constants and delta is positive definite (least "
        "eigenvalue of Gram matrices of two points).",
        "lemma 3.2",
        {
            "phi": of_cell("phi"),
            "largest difference": of_result("error", ".2g"),
            "homogeneous": lambda r: "yes" if r.result["homogeneous"] else "no",
            "least eigenvalue": of_result("least", ".2g"),
        },
    ),
    (
        "Interpolation",
        "Walder and Chapelle 2007, Lemma 4.3, formula (17) with lambda = 0. A function has one value at a point, so "
        "that the points have to differ, which the lemma does not say.",
        "lemma 4.3",
        {
            "kernel and points": of_cell("points"),
            "largest error": of_result("error", ".1g"),
            "largest moment of alpha": of_result("moments", ".1g"),
        },
    ),
    (
        "Least norm",
        "Walder and Chapelle 2007, Lemma 4.5: of all f with the values of s at its points, s has the least |P f|. The "
        "proof of Theorem 4.6 quotes it with >=, which none of the random f satisfies; the theorem needs <=.",
        "lemma 4.5",
        {
            "kernel": of_cell("kernel"),
            "least norm of f / norm of s": of_result("ratio", ".6f"),
            "functions": of_cell("functions"),
            "as in the proof of 4.6": of_result("reversed", "d"),
        },
    ),
    (
        "Existence",
        "Walder and Chapelle 2007, Theorem 4.6 also says that a minimizer exists. With the logistic loss and data that "
        "linear functions separate there is none.",
        "existence",
        {"rkhs refuses the problem": lambda r: "yes" if r.result["refused"] else "no"},
    ),
    (
        "Integral of squared derivatives",
        "Walder and Chapelle 2007, section 5: it is said to be alpha'K alpha for the kernels (11). It is that times "
        "the constant c with which Delta^m phi = +-c delta, and only changes the unit of lambda.",
        "integral",
        {
            "kernel": of_cell("kernel"),
            "integral / alpha'K alpha": of_result("ratio", ".6f"),
            "c": of_result("constant", ".6f"),
        },
    ),
    (
        "Scaling of thin plates",
        "Walder and Chapelle 2007, formula (13): |f|^2 / |f o W_s|^2 = s^-(2m - d). Dilations may be negative in "
        "Definition 2.4; the factor is |s|^-(2m - d).",
        "scaling of plates",
        {
            "kernel": of_cell("kernel"),
            "s": of_cell("s"),
            "s^-(2m - d)": of_result("printed"),
            "computed": of_result("ratio"),
        },
    ),
    (
        "Limits of ridge regression",
        "Lecture notes: f = k(x)'(K + lambda I)^-1 y, which tends to k(x)'y / lambda for large lambda; for small "
        "lambda, which the notes leave out, to the interpolant k(x)'K^-1 y. Largest relative differences of "
        "`rkhs.Problem` from the formula, and of the limits from it.",
        "limits",
        {
            "lambda": lambda r: f"{r.cell['regularization']:g}",
            "rkhs": of_result("formula", ".1g"),
            "large lambda": of_result("large", ".2g"),
            "small lambda": of_result("small", ".2g"),
        },
    ),
    (
        "Coefficients",
        "Lecture notes: coefficients of the minimizers as functions of their values; for the SVM, 0 <= alpha_i <= 1.",
        "coefficients",
        {"loss": of_cell("loss"), "largest error": lambda r: format(abs(r.result["error"]), ".1g")},
    ),
    (
        "Last line of the notes",
        "Five points with five features: k(x)'(K + lambda I)^-1 y, the last line with Phi'Phi, and as printed with "
        "Phi Phi', which has the wrong size otherwise.",
        "last line",
        {name: of_result(name) for name in ("kernel", "corrected", "printed")},
    ),
    (
        "Inner products of representers",
        "Zhang et al. 2013: largest error of (5), with d/dx and its square on polynomials, of (9), with quotients in "
        "place of derivatives, and of the formula for differences along the edges of a graph.",
        "inner product",
        {"formula": of_cell("formula"), "largest error": of_result("error", ".1g")},
    ),
    (
        "Counterexamples",
        "Statements that are not true as they are printed: a number that the paper gives or implies, and the same "
        "number computed. The [slips](slips.md) have the corrections.",
        "slip",
        {
            "statement": of_cell("statement"),
            "number": lambda r: SLIPS[r.cell["statement"]][0],
            "as printed": lambda r: numbers(r.result["printed"]),
            "computed": lambda r: numbers(r.result["found"]),
        },
    ),
)


def numbers(value: Any) -> str:
    """Return a number, or several, with four digits; words as they are."""
    if isinstance(value, str):
        return value
    return ", ".join(f"{one:.1g}" if abs(one) < ROUNDING else f"{one:.4g}" for one in np.ravel(value))


def page(records: list[Record], _: Path) -> str:
    """Write which statements hold, and a table for each kind of check."""
    sections, summary = [], []
    for title, text, check, columns in STATEMENTS:
        own = select(records, check=check)
        rows = [[*(column(record) for column in columns.values()), holds(record)] for record in own]
        sections.append(f"## {title}\n\n{text}\n\n" + table([*columns, "holds"], rows))
        summary.append([title, f"{sum(r.result['holds'] for r in own)} of {len(own)}"])
    averages = select(records, check="local average")
    rows = [
        [", ".join(f"{v:g}" for v in r.cell["place"]), name, *(f"{r.result[name][way]:.10f}" for way in WAYS)]
        for r in averages
        for name in ("with a value", "with each other")
    ]
    sections.append(
        "## Inner products of local averages\n\nZhang et al. 2013, 4.3 and appendix B: the printed widths s + th are "
        "wrong; the variances add.\n\n" + table(["s, th, x_i, x", "inner product", *WAYS], rows)
    )
    summary.append(
        ["Inner products of local averages", f"{sum(r.result['holds'] for r in averages)} of {len(averages)}"]
    )
    failed = [name for name, share in summary if not share.startswith(share.split(" of ")[1] + " ")]
    return (
        f"{len(records)} checks of {len(summary)} groups of statements, as they are printed. All hold except some in: "
        f"{', '.join(failed)}. The [slips of the papers](slips.md) are listed with their corrections.\n\n"
        + table(["statements", "checks that hold"], summary)
        + "".join(sections)
    )


THEOREMS = Experiment("theorems", "The theorems, as checks", plan, compute, page)
