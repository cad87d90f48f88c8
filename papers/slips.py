"""Executed counterexamples to statements that are not true as they are printed, which `papers.theorems` runs.

Each function returns what the paper says of a number, "printed", and what the number is, "found".  The longer checks
are in `papers.theorem_checks`; docs/measurements/papers/slips.md has all slips with their corrections.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.linalg

import rkhs
from papers.experiment import Array, Result
from papers.printed_deviations import attainable_cells
from papers.theorem_checks import ROUNDING
from rkhs import Derivative, Evaluation, Gaussian, Gradient, gram
from rkhs.kernels import Polyharmonic, ThinPlate


def rotation() -> Result:
    """Turn the point (1, 1) by the angle 0: by the printed second component, x sin a - y cos a, and by a rotation."""
    x, y, angle = 1.0, 1.0, 0.0
    return {"printed": x * np.sin(angle) - y * np.cos(angle), "found": x * np.sin(angle) + y * np.cos(angle)}


def differentiation() -> Result:
    """Return |T z_n| / |z_n| for T = d/dx and the representers z_n of the n-th derivative at a point, scale 1.

    T z_n is -z_(n+1), so that the ratio is the square root of 2n + 1.  Matchings make the computation of many
    derivatives expensive, so that there are few.
    """
    x = np.zeros((1, 1))
    families = [Evaluation(x), *(Derivative(x, axes=[0] * n) for n in (1, 2, 3, 4))]
    squares = [gram(Gaussian(1.0), family).diagonal()[0] for family in families]
    ratios = [float(np.sqrt(after / before)) for before, after in pairwise(squares)]
    return {"printed": "a bound for all f", "found": ratios}


def derivative_of_a_rough_kernel() -> Result:
    """Return the norms of f -> (f(h) - f(0)) / h for k = exp(-|x - y|^1.5), which is continuously differentiable."""
    return {
        "printed": "a bound for all h",
        "found": [float(np.sqrt(2 * -np.expm1(-(h**1.5))) / h) for h in (1e-2, 1e-6, 1e-10)],
    }


def partial_derivatives() -> Result:
    """Return the quotients of f(t, t) for t = 1e-6 and -1e-6, f = u v / |(u, v)|, beside the chain rule at t = 0."""

    def f(t: float) -> float:
        return t * t / float(np.hypot(t, t))

    return {"printed": 0.0, "found": [f(t) / t for t in (1e-6, -1e-6)]}


def average_of_a_polynomial() -> Result:
    """Return averages of x^2 over [-a, a] with the Cauchy density: the integral is 2 (a - arctan a) / pi."""
    return {"printed": "a finite average", "found": [2 * (a - np.arctan(a)) / np.pi for a in (1e2, 1e4, 1e6)]}


def swapped_losses() -> Result:
    """Return the minimum of J for l_1 = absolute and l_2 = squared: l_2 on labels as in Theorem 7, l_1 as in (2)."""
    X = np.linspace(-1, 1, 6)[:, None]
    y = np.array([-1.0, -1, 1, -1, 1, 1])

    def minimum(of_labels: Any, of_slopes: Any) -> float:
        terms = [rkhs.Term(Evaluation(X), of_labels, target=y), rkhs.Term(Gradient(X), of_slopes)]
        return float(rkhs.Problem(Gaussian(0.5), terms).solve(tol=1e-10).certificate.primal.item())

    absolute, squared = rkhs.losses.Absolute(), rkhs.Squared()
    return {"printed": minimum(squared, absolute), "found": minimum(absolute, squared)}


def rows_of_bupa() -> Result:
    """Count the printed cells of bupa that are shares of 245 and of 345 points, of nine."""
    return {"printed": attainable_cells("bupa", 245), "found": attainable_cells("bupa", 345)}


def norm_of_one_component() -> Result:
    """Return |f|^2 with only the components j in the exponent, as printed, and |f|^2, for two points in the plane."""
    T, a = np.array([[0.3, 1.2], [-0.5, 0.4]]), np.array([1.0, -2.0])
    center = np.exp(-np.sum(T**2, axis=1) / 2)
    outer = np.outer(a * center, a * center)
    printed = float(np.sum(outer * np.exp(np.outer(T[:, 0], T[:, 0]))))
    return {"printed": printed, "found": float(a @ Gaussian(1.0)(T) @ a)}


def constant_of_the_square() -> Result:
    """Return c = 1 / scale^2, "an upper bound on the norm" of a derivative, and the norm, for the scale 2."""
    norm = np.sqrt(gram(Gaussian(2.0), Derivative(np.zeros((1, 1)), axes=[0])).diagonal()[0])
    return {"printed": 1 / 2.0**2, "found": float(norm)}


def _saddle_blocks() -> tuple[Array, Array, Array, float]:
    """Return Phi, P, y and lambda of a thin plate at seven points of the plane."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((7, 2)), rng.standard_normal(7)
    kernel = ThinPlate(2)
    return kernel(X), Evaluation(X)(kernel.null_space), y, 0.3


def _objective(alpha: Array, beta: Array) -> float:
    Phi, P, y, regularization = _saddle_blocks()
    return float(regularization * alpha @ Phi @ alpha + np.sum((Phi @ alpha + P @ beta - y) ** 2))


def size_of_the_saddle() -> Result:
    """Return the rows of the upper right block of (17), P' as printed and P, beside the 7 of lambda I + Phi."""
    _, P, _, _ = _saddle_blocks()
    return {"printed": P.T.shape[0], "found": P.shape[0]}


def sign_of_18() -> Result:
    """Return the objective of (16) over alpha with P'alpha = 0 and beta = 0, at (18) with and without its minus."""
    Phi, P, y, regularization = _saddle_blocks()
    Z = scipy.linalg.null_space(P.T)
    alpha = Z @ np.linalg.solve(Z.T @ (regularization * Phi + Phi.T @ Phi) @ Z, Z.T @ Phi.T @ y)
    none = np.zeros(P.shape[1])
    return {"printed": _objective(-alpha, none), "found": _objective(alpha, none)}


def plate_in_six_dimensions() -> Result:
    """Return the least alpha'Phi alpha / |alpha|^2 with P'alpha = 0 for (11) with m = 2 in R^6, and r^2 log r."""
    X = np.random.default_rng(0).standard_normal((30, 6))
    Z = scipy.linalg.null_space(Evaluation(X)(Polyharmonic(2).null_space).T)
    r = np.linalg.norm(X[:, None] - X, axis=2)
    printed = np.where(r > 0, np.log(np.where(r > 0, r, 1.0)) / np.where(r > 0, r, 1.0) ** 2, 0.0)
    least, other = (float(np.linalg.eigvalsh(Z.T @ K @ Z)[0]) for K in (printed, Polyharmonic(2)(X)))
    return {"printed": "> 0", "found": least, "r^2 log r": other}


def moments_of_the_proof() -> Result:
    """Return the largest entry of P_x'a + P_z'beta, as printed, and of P_x'a + P_z'b, which the proof needs to be 0.

    s interpolates y at twelve points, f also at three more; a is the difference of their coefficients at the first.
    """
    rng = np.random.default_rng(0)
    X, there = rng.standard_normal((12, 2)), rng.standard_normal((3, 2))
    y, more = rng.standard_normal(12), rng.standard_normal(3)
    kernel = ThinPlate(2)

    def interpolant(points: Array, values: Array) -> tuple[Array, Array]:
        P = Evaluation(points)(kernel.null_space)
        system = np.block([[kernel(points), P], [P.T, np.zeros((3, 3))]])
        solution = np.linalg.solve(system, np.concatenate([values, np.zeros(3)]))
        return solution[:-3], solution[-3:]

    alpha, beta = interpolant(X, y)
    coefficients, _ = interpolant(np.concatenate([X, there]), np.concatenate([y, more]))
    P_x, P_z = (Evaluation(points)(kernel.null_space) for points in (X, there))
    first, b = P_x.T @ (coefficients[:12] - alpha), coefficients[12:]
    return {"printed": float(np.abs(first + P_z.T @ beta).max()), "found": float(np.abs(first + P_z.T @ b).max())}


SLIPS: dict[str, tuple[str, Callable[[], Result]]] = {  # statement: what is computed, and by what
    "Zhang 4.1, differentiation is bounded": ("norm of T z / norm of z, n = 0, 1, 2, 3", differentiation),
    "Zhang Theorem 4": ("norm of a difference quotient, h = 1e-2, 1e-6, 1e-10", derivative_of_a_rough_kernel),
    "Zhang 4.2, rotation": ("second component of (1, 1), turned by 0", rotation),
    "Zhang Theorem 5, Lee Theorem 6": ("derivative of f(t, t) at 0, from the right and the left", partial_derivatives),
    "Zhang below Theorem 6, polynomial kernels": (
        "average of x^2 within 1e2, 1e4, 1e6 (Cauchy density)",
        average_of_a_polynomial,
    ),
    "Zhang Theorem 7, the losses": ("minimum of J", swapped_losses),
    "Zhang Table 1, bupa": ("printed cells that are shares of its points, of 9", rows_of_bupa),
    "Lee proof of Theorem 5, norm of f": ("squared norm of f", norm_of_one_component),
    "Lee proof of Theorem 5, c": ("norm of a derivative, scale 2", constant_of_the_square),
    "Walder proof of Lemma 4.5": ("largest moment", moments_of_the_proof),
    "Walder (11) in R^6": ("least eigenvalue on the null space of P'", plate_in_six_dimensions),
    "Walder (17)": ("rows of the upper right block; there are 7 points", size_of_the_saddle),
    "Walder (18)": ("objective", sign_of_18),
}


def slip(statement: str) -> Result:
    """Return the numbers of a counterexample; "holds" says whether the printed number is the one that was found."""
    result = SLIPS[statement][1]()
    printed, found = result["printed"], result["found"]
    same = not isinstance(printed, str) and np.allclose(found, printed, rtol=ROUNDING, atol=ROUNDING)
    return {**result, "holds": bool(same)}
