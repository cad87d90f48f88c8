"""Numerical checks of statements of the papers, one function for each, which `papers.theorems` runs and reports.

A function returns JSON values, among them "holds": whether the statement is true of what was computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.linalg
from scipy.optimize import minimize
from scipy.special import expit

import rkhs
from papers.experiment import Array, Result
from rkhs import Derivative, Evaluation, Gaussian, Gradient, Polynomials, gram
from rkhs.extend import Functional, Kernel
from rkhs.functionals import DirectionalDerivative, LocalDeviation
from rkhs.invariances import ImageTangents
from rkhs.kernels import Polyharmonic

ROUNDING = 1e-9  # relative errors up to which two numbers that are computed in different ways count as equal


# Zhang et al. 2013, Theorems 2 and 7 (Lee et al. 2006, Theorems 2 and 3), Walder and Chapelle 2007, Theorem 4.6


@dataclass(frozen=True)
class Minimum:
    """The minimum of J over f = sum_i a_i z_i + basis, computed by BFGS in the coefficients, without `rkhs.Problem`.

    J(f) = 1/2 |f|^2 + 3 sum_i log(1 + exp(-y_i f(x_i))) + 0.5 sum_j L_j(f)^2
    """

    kernel: Kernel
    labeled: Functional
    y: Array
    others: Functional
    basis: Polynomials | None
    further: Functional  # functionals whose representers may be added to the span

    def over(self, span: Sequence[int]) -> float:
        """Return the minimum over the span of the representers with these indices among all functionals."""
        every = rkhs.stack([self.labeled, self.others, self.further])
        G = gram(self.kernel, every).dense()
        null = self.kernel.null_space if self.kernel.order else None
        space = null if self.basis is None else self.basis
        P = np.zeros((every.size, 0)) if space is None else every(space).reshape(every.size, -1)
        Z = np.eye(len(span)) if null is None else scipy.linalg.null_space(every(null).reshape(every.size, -1)[span].T)
        sizes, V = np.linalg.eigh(Z.T @ G[np.ix_(span, span)] @ Z)
        kept = sizes > 1e-10 * sizes[-1]
        columns = np.column_stack([G[:, span] @ Z @ (V[:, kept] / np.sqrt(sizes[kept])), P])
        E, D = columns[: self.labeled.size], columns[self.labeled.size : self.labeled.size + self.others.size]
        r = int(kept.sum())

        def value_and_gradient(c: Array) -> tuple[float, Array]:
            margins, slopes = self.y * (E @ c), D @ c
            value = 0.5 * c[:r] @ c[:r] + 3 * np.sum(np.logaddexp(0, -margins)) + 0.5 * slopes @ slopes
            gradient = E.T @ (-3 * self.y * expit(-margins)) + D.T @ slopes
            gradient[:r] += c[:r]
            return float(value), gradient

        options = {"gtol": 1e-9, "maxiter": 5000}
        return float(minimize(value_and_gradient, np.zeros(columns.shape[1]), jac=True, options=options).fun)

    def by_rkhs(self) -> float:
        """Return the minimum that `rkhs.Problem` finds."""
        labels = rkhs.Term(self.labeled, rkhs.Logistic(), target=self.y, weight=3.0)
        flat = rkhs.Term(self.others, rkhs.Squared(), weight=0.5)
        return float(rkhs.Problem(self.kernel, [labels, flat], self.basis).solve(tol=1e-10).certificate.primal.item())


def representer_theorem(theorem: str) -> Result:
    """Return the minimum of J over the span of a theorem, over a larger one, and over those with one function less."""
    rng = np.random.default_rng(1)
    X, more = rng.standard_normal((12, 2)), rng.standard_normal((20, 2))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)  # no linear function separates these
    kernel, basis, others = {
        "2": (Gaussian(0.4), None, Gradient(X[:6])),
        "7": (Gaussian(0.4), Polynomials(1), Gradient(X[:6])),
        "4.6": (rkhs.kernels.ThinPlate(order=2), None, Evaluation(X[:6]) - Evaluation(X[6:])),
    }[theorem]
    task = Minimum(kernel, Evaluation(X), y, others, basis, Evaluation(more))
    size = task.labeled.size + others.size
    span = task.over(range(size))
    # The difference functionals of "4.6" are combinations of values, so that only the labels' representers matter.
    least = range(12) if theorem == "4.6" else range(size)
    fewer = min(task.over([i for i in least if i != left]) for left in least)
    larger = task.over(range(size + 20))
    holds = abs(larger - span) <= ROUNDING * span < fewer - span and abs(task.by_rkhs() - span) <= ROUNDING * span
    return {"span": span, "larger": larger, "fewer": fewer, "rkhs": task.by_rkhs(), "holds": holds}


# Zhang et al. 2013, Theorem 5, with motions of real digits


@dataclass(frozen=True)
class Picture:
    """A digit as a function g of the plane: its pixels, each spread by a Gaussian of `width` pixels."""

    pixels: Array  # (rows, columns)
    width: float = 0.8

    def moved(self, A: Array, b: Array) -> Array:
        """Return g at A p + b for all pixels p, which are measured from the center: (rows * columns,)."""
        return self._at(self._places @ A.T + b)[0]

    def tangent(self, B: Array, b: Array) -> Array:
        """Return the derivative of g(exp(-a v) p) in a at 0, for the velocity v(p) = B p + b."""
        return -np.sum(self._at(self._places)[1] * (self._places @ B.T + b), axis=1)

    @property
    def _places(self) -> Array:
        shape = np.array(self.pixels.shape)
        return np.indices(self.pixels.shape).reshape(2, -1).T - (shape - 1) / 2

    def _at(self, places: Array) -> tuple[Array, Array]:
        away = places[:, None] - self._places
        weights = np.exp(-np.sum(away**2, axis=2) / (2 * self.width**2)) / (2 * np.pi * self.width**2)
        weights = weights * self.pixels.reshape(-1)
        return weights.sum(axis=1), -np.einsum("pq,pqd->pd", weights, away) / self.width**2


MOTIONS: dict[str, tuple[list[list[float]], list[float]]] = {  # B and b of the velocity B p + b
    "down": ([[0, 0], [0, 0]], [1, 0]),
    "right": ([[0, 0], [0, 0]], [0, 1]),
    "rotation": ([[0, -1], [1, 0]], [0, 0]),
    "scaling": ([[1, 0], [0, 1]], [0, 0]),
    "shear along columns": ([[0, 1], [0, 0]], [0, 0]),
    "shear along rows": ([[0, 0], [1, 0]], [0, 0]),
}
MOVED_KERNELS: dict[str, Kernel] = {
    "Gaussian(scale=20)": Gaussian(20.0),
    "Polynomial(degree=3)": rkhs.kernels.Polynomial(3),
}


def motion(name: str, kernel_name: str, count: int) -> Result:
    """Return the derivative of f along a motion of a digit: from its difference quotient, its norm, and bounds."""
    from sklearn.datasets import load_digits  # ships with scikit-learn; imported here because it takes a second

    images = load_digits().images[:20]
    kernel, (B, b) = MOVED_KERNELS[kernel_name], (np.array(part, dtype=float) for part in MOTIONS[name])
    if kernel_name.startswith("Polynomial"):
        images = images / 16.0
    picture = Picture(images[4])
    start, v = picture.moved(np.eye(2), np.zeros(2)), picture.tangent(B, b)
    L = DirectionalDerivative(start[None], v[None])
    rng = np.random.default_rng(0)
    points = Evaluation(np.stack([Picture(image).moved(np.eye(2), np.zeros(2)) for image in images]))
    coefficients = rng.standard_normal((20, count))
    f = rkhs.results.Function(kernel, points, coefficients)

    def along(amount: float) -> Array:
        flow = scipy.linalg.expm(-amount * np.block([[B, b[:, None]], [np.zeros((1, 3))]]))
        return f(picture.moved(flow[:2, :2], flow[:2, 2])[None])[0]

    h = 1e-3
    quotient = (8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))) / (12 * h)  # an error of order h^4
    values = np.reshape(L(f), -1)
    norm = float(np.sqrt(gram(kernel, L).diagonal()[0]))
    partial = np.sqrt(gram(kernel, Gradient(start[None])).diagonal())  # C_j, the norms of the partial derivatives
    sizes = np.sqrt(np.sum(coefficients * (gram(kernel, points).dense() @ coefficients), axis=0))
    shown = ImageTangents((8, 8), kinds=("translation", "rotation", "scaling", "shear"), smoothing=picture.width)
    tangents = dict(zip(shown.names, shown.vectors(picture.pixels.reshape(1, -1))[0], strict=True))
    cosine = float(tangents[name] @ v / np.linalg.norm(tangents[name]) / np.linalg.norm(v))
    difference = float(np.max(np.abs(quotient - values)) / np.max(np.abs(values)))
    bound, largest = float(partial @ np.abs(v)), float(np.max(np.abs(values) / (norm * sizes)))
    holds = difference < 1e-7 and norm <= bound and largest <= 1 + ROUNDING
    return {
        "difference": difference,
        "norm": norm,
        "bound": bound,
        "largest": largest,
        "cosine": cosine,
        "holds": holds,
    }


# Zhang et al. 2013, formulas (7), (8) and (11), and Theorem 6


def derivative_products() -> Result:
    """Return the errors of the printed inner products of derivatives, relative to the largest: (7), (8) and (11)."""
    rng = np.random.default_rng(0)
    X, degree, scale = rng.standard_normal((6, 3)), 4, 0.9
    dots, same = X @ X.T + 1, np.eye(3)
    cross = np.einsum("ie,jd->idje", X, X)  # x_i^{d'} x_j^d
    seven = degree * dots[:, None, :, None] ** (degree - 2) * (degree - 1) * cross
    seven = seven + degree * dots[:, None, :, None] ** (degree - 1) * same[None, :, None, :]
    away = X[:, None] - X
    k = np.exp(-np.sum(away**2, axis=2) / (2 * scale**2))
    outer = away[:, None, :, :, None] * away[:, None, :, None, :]
    eight = scale**2 * same[None, :, None, :] - np.einsum("iajde->idje", outer)
    eight = eight * k[:, None, :, None] / scale**4
    A = rng.standard_normal((3, 6))
    inner = X @ A  # Lambda = X'A of the paper, whose X has the points as columns
    Q = k * (inner.T - np.diag(inner)[:, None])
    eleven = scale**-4 * (scale**2 * A @ k + X.T @ Q - X.T * Q.sum(axis=0))
    found = {}
    for name, kernel, printed in (("(7)", rkhs.kernels.Polynomial(degree), seven), ("(8)", Gaussian(scale), eight)):
        exact = gram(kernel, Gradient(X)).dense().reshape(6, 3, 6, 3)
        found[name] = float(np.max(np.abs(exact - printed)) / np.max(np.abs(exact)))
    product = (gram(Gaussian(scale), Gradient(X)) @ A.T.reshape(-1)).reshape(6, 3).T
    found["(11)"] = float(np.max(np.abs(product - eleven)) / np.max(np.abs(product)))
    return {**found, "holds": max(found.values()) < ROUNDING}


def inner_product(formula: str) -> Result:
    """Return the largest error of a printed inner product of representers, relative to the largest inner product."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((5, 3))
    if formula == "(5)":  # T_i = d/dx and T_j = d^2/dx^2 on the polynomials of degree 3, as matrices
        x, kernel = X[:, :1], rkhs.kernels.Polynomial(3)
        norms = np.sqrt([1.0, 3.0, 3.0, 1.0])  # norms[m] x^m is an orthonormal basis
        at_x, T = norms * x ** np.arange(4), np.diag([1.0, 2.0, 3.0], 1) * norms / norms[:, None]
        printed = at_x @ T @ (T @ T).T @ at_x.T
        exact = gram(kernel, Derivative(x, axes=[0]), Derivative(x, axes=[0, 0])).dense()
    elif formula == "(9)":  # the derivatives in x and y by quotients
        V, h = rng.standard_normal((5, 3)), 1e-3
        ends = [Gaussian(0.9)(X + a * h * V, X + b * h * V) * a * b for a in (1, -1) for b in (1, -1)]
        printed = sum(ends) / (4 * h**2)
        exact = gram(Gaussian(0.9), DirectionalDerivative(X, V)).dense()
    else:
        first, second = np.triu_indices(5, 1)
        k = Gaussian(0.9)(X)
        i, j, p, q = first[:, None], second[:, None], first, second
        printed = k[i, p] + k[j, q] - k[j, p] - k[i, q]
        exact = gram(Gaussian(0.9), rkhs.Difference(X[first], X[second])).dense()
    error = float(np.max(np.abs(printed - exact)) / np.max(np.abs(exact)))
    return {"error": error, "holds": error < (1e-5 if formula == "(9)" else ROUNDING)}


def local_average_norm(kernel: Kernel, width: float) -> Result:
    """Return |z_L| of a local average minus the value, and the bound 2 C of Theorem 6; here k(x, x) = 1 = C."""
    norm = float(np.sqrt(gram(kernel, LocalDeviation(np.zeros((1, 2)), width)).diagonal()[0]))
    return {"norm": norm, "bound": 2.0, "holds": norm <= 2.0}


# Walder and Chapelle 2007, sections 2, 3 and 6.2


@dataclass(frozen=True)
class Scaled:
    """A space, a transformation T of R^n, and the factor g of  |f|^2 = g |f o T|^2."""

    kernel: Kernel
    dimension: int
    transformation: Callable[[Array], Array]
    factor: float
    basis: Polynomials | None = None
    null_space: str = "kept"
    expected: bool = True


def _turned(X: Array) -> Array:
    Q = np.linalg.qr(np.random.default_rng(5).standard_normal((X.shape[1], X.shape[1])))[0]
    return X @ Q.T


TENTH = 0.1
SCALED: dict[str, Scaled] = {
    "Gaussian, translation": Scaled(Gaussian(1.0), 2, lambda X: X + 3.0, 1.0),
    "Gaussian, rotation": Scaled(Gaussian(1.0), 3, _turned, 1.0),
    "(x'y)^2, dilation": Scaled(rkhs.kernels.Polynomial(2, offset=0.0), 3, lambda X: TENTH * X, TENTH**-4),
    "(x'y)^3, dilation": Scaled(rkhs.kernels.Polynomial(3, offset=0.0), 3, lambda X: TENTH * X, TENTH**-6),
    "thin plate in R^1, dilation": Scaled(rkhs.kernels.ThinPlate(2), 1, lambda X: TENTH * X, TENTH**-3),
    "thin plate in R^2, dilation": Scaled(rkhs.kernels.ThinPlate(2), 2, lambda X: TENTH * X, TENTH**-2),
    "thin plate in R^3, dilation": Scaled(rkhs.kernels.ThinPlate(2), 3, lambda X: TENTH * X, TENTH**-1),
    "thin plate in R^2, rotation": Scaled(rkhs.kernels.ThinPlate(2), 2, _turned, 1.0),
    "r^2 log r in R^6, dilation": Scaled(Polyharmonic(2), 6, lambda X: TENTH * X, TENTH**-2),
    "the same without linear functions (6.2)": Scaled(
        Polyharmonic(2), 6, lambda X: TENTH * X, TENTH**-2, null_space="dropped", expected=False
    ),
    "the same without linear functions, with a constant": Scaled(
        Polyharmonic(2), 6, lambda X: TENTH * X, TENTH**-2, Polynomials(0), "dropped"
    ),
    "r^3 in R^6 without linear functions, dilation": Scaled(
        Polyharmonic(3), 6, lambda X: TENTH * X, TENTH**-3, null_space="dropped"
    ),
}


def corollary(name: str) -> Result:
    """Compare the minimizers of Corollary 2.3 at 2,000 points, and count those where their signs differ."""
    case, rng = SCALED[name], np.random.default_rng(2)
    X, there = rng.standard_normal((80, case.dimension)), rng.standard_normal((2000, case.dimension))
    y = np.sign(X[:, 0] + 0.3 * rng.standard_normal(80) + 0.3)

    def fitted(points: Array, weight: float) -> rkhs.results.Function:
        labels = rkhs.Term(Evaluation(points), rkhs.SquaredHinge(), target=y, weight=weight)
        problem = rkhs.Problem(case.kernel, [labels], case.basis, case.null_space)
        return problem.solve(tol=1e-11).function

    one = fitted(X, 1.0)(there)
    other = fitted(case.transformation(X), case.factor)(case.transformation(there))
    difference = float(np.max(np.abs(one - other)) / np.max(np.abs(one)))
    signs = float(100 * np.mean(np.sign(one) != np.sign(other)))
    return {"factor": case.factor, "difference": difference, "signs": signs, "holds": difference < 1e-4}


def homogeneous_scaling(power: int, s: float) -> Result:
    """Return k(x, y) / k(sx, sy) and |f|^2 / |f o W_s|^2 for k = (x'y)^p in R^2, beside the printed s^(-2p)."""
    rng = np.random.default_rng(0)
    kernel = rkhs.kernels.Polynomial(power, offset=0.0)
    X, there = rng.standard_normal((5, 2)), rng.standard_normal((12, 2))
    values = kernel(X) / kernel(s * X)
    a = rng.standard_normal(5)
    f = rkhs.results.Function(kernel, Evaluation(X), a)
    inverse = np.linalg.pinv(kernel(there), rcond=1e-11, hermitian=True)  # f is determined by its values at 12 points
    plain, scaled = f(there), f(s * there)
    norms = float((plain @ inverse @ plain) / (scaled @ inverse @ scaled))
    printed = s ** (-2.0 * power)
    worst = max(abs(norms - printed), float(np.max(np.abs(values - printed)))) / printed
    return {"printed": printed, "kernels": float(np.mean(values)), "norms": norms, "holds": worst < 1e-6}


RADIAL: dict[str, tuple[Callable[[Array], Array], float | None, bool]] = {
    # phi, p of g(s) = s^-p, and whether it is of the printed form, a delta(r) + b r^p with p other than 0
    "r^0.5": (lambda r: r**0.5, 0.5, True),
    "r^3": (lambda r: r**3, 3.0, True),
    "delta(r)": (lambda r: np.where(r == 0, 1.0, 0.0), 0.0, True),
    "1": (np.ones_like, 0.0, False),
    "2 delta(r) + r": (lambda r: np.where(r == 0, 2.0, r), 1.0, True),
    "exp(-r^2 / 2)": (lambda r: np.exp(-(r**2) / 2), None, False),
    "r^2 log r": (lambda r: np.where(r > 0, r**2 * np.log(np.where(r > 0, r, 1.0)), 0.0), 2.0, False),
}


def homogeneous_function(name: str) -> Result:
    """Return the largest |phi(r) - g(s) phi(rs)| (Lemma 3.2), and the least eigenvalue for two points."""
    phi, power, printed = RADIAL[name]
    r, s = np.array([0.0, 0.01, 0.3, 1.0, 2.5, 40.0]), np.array([0.1, 0.7, 3.0, 20.0])
    ratio = s**-power if power is not None else phi(np.ones(1)) / phi(s)
    error = float(np.max(np.abs(phi(r)[:, None] - ratio * phi(r[:, None] * s))))
    least = float(np.min(phi(np.zeros(1)) - np.abs(phi(np.array([0.01, 0.3, 1.5, 2.5, 40.0])))))
    homogeneous = error < ROUNDING
    return {"error": error, "least": least, "homogeneous": homogeneous, "holds": printed or not homogeneous}


# Walder and Chapelle 2007, sections 4 and 5


AGAIN = "thin plate in R^2, 30 points, one of them twice"
INTERPOLATED: dict[str, tuple[Kernel, int, int, bool]] = {  # kernel, points, dimension, all on a line?
    "thin plate in R^2, 30 points": (rkhs.kernels.ThinPlate(2), 30, 2, False),
    "thin plate in R^2, 30 points on a line": (rkhs.kernels.ThinPlate(2), 30, 2, True),
    "r^2 log r in R^20, 10 points": (Polyharmonic(2), 10, 20, False),
    "thin plate of order 3 in R^3, 40 points": (rkhs.kernels.ThinPlate(3), 40, 3, False),
    AGAIN: (rkhs.kernels.ThinPlate(2), 30, 2, False),
}


def _saddle(kernel: Kernel, X: Array, y: Array) -> tuple[Array, Array, Array]:
    """Return alpha, s_P(X) and K of the interpolant: the least-squares solution of (17) with lambda = 0."""
    K, P = kernel(X), Evaluation(X)(kernel.null_space)
    m, r = P.shape
    system = np.block([[K, P], [P.T, np.zeros((r, r))]])
    solution = np.linalg.lstsq(system, np.concatenate([y, np.zeros(r)]), rcond=1e-13)[0]
    return solution[:m], P @ solution[m:], K


def interpolation(name: str) -> Result:
    """Return the largest |s(x_i) - y_i| and |P'alpha| of Lemma 4.3."""
    kernel, count, n, straight = INTERPOLATED[name]
    rng = np.random.default_rng(0)
    X = rng.standard_normal((count, 1)) * rng.standard_normal((1, n)) if straight else rng.standard_normal((count, n))
    if name == AGAIN:
        X[-1] = X[0]
    y = rng.standard_normal(count)
    alpha, polynomial, K = _saddle(kernel, X, y)
    error = float(np.max(np.abs(K @ alpha + polynomial - y)))
    moments = float(np.max(np.abs(Evaluation(X)(kernel.null_space).T @ alpha)))
    return {"error": error, "moments": moments, "holds": max(error, moments) < 1e-7}


LEAST_NORM: dict[str, tuple[Kernel, int]] = {
    "thin plate in R^1": (rkhs.kernels.ThinPlate(2), 1),
    "thin plate in R^2": (rkhs.kernels.ThinPlate(2), 2),
    "thin plate of order 3 in R^3": (rkhs.kernels.ThinPlate(3), 3),
    "r^2 log r in R^6": (Polyharmonic(2), 6),
}


def least_norm(name: str, count: int) -> Result:
    """Return the least |P f| / |P s| over random f that agree with s at its points (Lemma 4.5).

    The proof of Theorem 4.6 quotes the lemma with the inequality reversed: count the f for which that is true.
    """
    kernel, n = LEAST_NORM[name]
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, n))
    y = rng.standard_normal(30)
    alpha, _, K = _saddle(kernel, X, y)
    least = float(np.sqrt(alpha @ K @ alpha))
    ratios = []
    for _ in range(count):
        more = rng.standard_normal((5, n))  # f is the interpolant of y at X and of random values at five more points
        beta, _, wide = _saddle(kernel, np.concatenate([X, more]), np.concatenate([y, rng.standard_normal(5)]))
        ratios.append(float(np.sqrt(beta @ wide @ beta)) / least)
    reversed_ = int(np.sum(np.array(ratios) < 1 - 1e-8))
    return {"ratio": min(ratios), "reversed": reversed_, "functions": count, "holds": min(ratios) >= 1 - 1e-8}


PLATES: dict[str, tuple[int, int, float]] = {  # d, m, the constant by Green's formula: Delta^m phi = +-constant delta
    "-r in R^1": (1, 1, 2.0),
    "r^3 in R^1": (1, 2, 12.0),
    "r^2 log r in R^2": (2, 2, 8 * np.pi),
    "-r in R^3": (3, 2, 8 * np.pi),
}


def integral_norm(name: str) -> Result:
    """Return the integral of all squared m-th derivatives of f = sum_i alpha_i phi(. - x_i), divided by alpha'K alpha.

    Section 5 says that this is 1 for the kernels (11); "holds" says whether it is.
    """
    d, m, constant = PLATES[name]
    rng = np.random.default_rng(3)
    X = rng.standard_normal((d + 4, d))
    kernel = rkhs.kernels.ThinPlate(m)
    Z = scipy.linalg.null_space(Evaluation(X)(kernel.null_space).T)
    alpha = Z @ rng.standard_normal(Z.shape[1])
    total = _on_line(X[:, 0], alpha, m) if d == 1 else _in_space(X, alpha)
    ratio = float(total / (alpha @ kernel(X) @ alpha))
    return {"ratio": ratio, "constant": constant, "holds": abs(ratio - 1) < 1e-3}


def _on_line(X: Array, alpha: Array, m: int) -> float:
    """Integrate the square of f' (m = 1) or f'' (m = 2), which is a polynomial between the points and 0 outside."""
    nodes, weights = np.polynomial.legendre.leggauss(8)
    ends = np.sort(X)
    total = 0.0
    for left, right in pairwise(ends):
        x = (left + right) / 2 + (right - left) / 2 * nodes
        away = x[:, None] - X
        slopes = (-np.sign(away) if m == 1 else 6 * np.abs(away)) @ alpha
        total += (right - left) / 2 * float(weights @ slopes**2)
    return total


def _in_space(X: Array, alpha: Array) -> float:
    """Integrate the squared second derivatives of f over R^2 or R^3, in polar coordinates around each point.

    A partition of unity gives each point its share; the others' shares vanish where their derivatives are singular.
    """
    d = X.shape[1]
    t, weights = np.polynomial.legendre.leggauss(60)
    t, weights = (t + 1) / 2, weights / 2
    radius, measure = (t / (1 - t)) ** 2, weights * 2 * t / (1 - t) ** 3  # dense near the point
    angle = 2 * np.pi * np.arange(40) / 40
    if d == 2:
        directions, area = np.column_stack([np.cos(angle), np.sin(angle)]), np.full(40, 2 * np.pi / 40)
    else:
        height, w = np.polynomial.legendre.leggauss(20)
        flat = np.sqrt(1 - height**2)
        directions = np.stack(
            [np.outer(flat, np.cos(angle)), np.outer(flat, np.sin(angle)), np.outer(height, np.ones(40))], axis=-1
        ).reshape(-1, 3)
        area = np.repeat(w * 2 * np.pi / 40, 40)
    total = 0.0
    for i, x in enumerate(X):
        for rho, dr in zip(radius, measure, strict=True):
            away = x + rho * directions - X[:, None]  # (points, directions, d)
            r = np.linalg.norm(away, axis=2)
            shares = r[i] ** -4.0 / np.sum(r**-4.0, axis=0)
            outer = away[..., :, None] * away[..., None, :] / r[..., None, None] ** 2
            if d == 2:
                second = 2 * outer + (2 * np.log(r) + 1)[..., None, None] * np.eye(2)
            else:
                second = (outer - np.eye(3)) / r[..., None, None]
            density = np.sum(np.einsum("i,ijab->jab", alpha, second) ** 2, axis=(1, 2))
            total += dr * rho ** (d - 1) * float(area @ (shares * density))
    return total


def plate_scaling(name: str, s: float) -> Result:
    """Return |f|^2 / |f o W_s|^2 in the space of a thin plate, beside the printed s^-(2m - d) of section 5."""
    d, m, _ = PLATES[name]
    rng = np.random.default_rng(4)
    X = rng.standard_normal((d + 5, d))
    kernel = rkhs.kernels.ThinPlate(m)
    Z = scipy.linalg.null_space(Evaluation(X)(kernel.null_space).T)
    alpha = Z @ rng.standard_normal(Z.shape[1])
    # f o W_s is in the span of phi(. - x_i / s) and polynomials, which interpolate its values at further points.
    f = rkhs.results.Function(kernel, Evaluation(X), alpha)
    beta, _, K = _saddle(kernel, X / s, f(X))
    ratio = float((alpha @ kernel(X) @ alpha) / (beta @ K @ beta))
    printed = s ** -(2.0 * m - d)
    return {"printed": printed, "ratio": ratio, "holds": abs(ratio / printed - 1) < 1e-6}


# The lecture notes


def limits(regularization: float) -> Result:
    """Return the error of f = k(x)'(K + lambda I)^-1 y relative to its limits for large and for small lambda."""
    rng = np.random.default_rng(0)
    X, there, y = rng.standard_normal((20, 2)), rng.standard_normal((100, 2)), rng.standard_normal(20)
    kernel = Gaussian(0.5)
    labels = rkhs.Term(Evaluation(X), rkhs.Squared(), target=y, weight=1 / (2 * regularization))
    f = rkhs.Problem(kernel, [labels]).solve(tol=1e-12).function
    closed = kernel(there, X) @ np.linalg.solve(kernel(X) + regularization * np.eye(20), y)
    large, small = kernel(there, X) @ y / regularization, kernel(there, X) @ np.linalg.solve(kernel(X), y)
    size = np.max(np.abs(closed))
    found = {
        "formula": float(np.max(np.abs(f(there) - closed)) / size),
        "large": float(np.max(np.abs(large - closed)) / size),
        "small": float(np.max(np.abs(small - closed)) / np.max(np.abs(small))),
    }
    first_order = float(np.linalg.eigvalsh(kernel(X))[-1]) / regularization  # |K| / lambda bounds the relative error
    least = float(np.linalg.eigvalsh(kernel(X))[0])
    holds = found["formula"] < 1e-6
    if regularization > 10:
        holds = holds and found["large"] < 3 * first_order
    if regularization < 0.1:
        holds = holds and found["small"] < 10 * regularization / least
    return {**found, "holds": bool(holds)}


def coefficients(loss: str) -> Result:
    """Return the largest difference between the coefficients of a minimizer and the formula of the notes."""
    rng = np.random.default_rng(0)
    X, regularization = rng.standard_normal((30, 2)), 0.2
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(30) > 0, 1.0, -1.0)
    w = 1 / (2 * regularization)
    named: dict[str, Any] = {"squared": rkhs.Squared(), "logistic": rkhs.Logistic(), "hinge": rkhs.Hinge()}
    term = rkhs.Term(Evaluation(X), named[loss], target=y, weight=w)
    f = rkhs.Problem(Gaussian(1.0), [term]).solve(tol=1e-12).function
    a, values = np.asarray(f.coefficients), f(X)
    if loss == "squared":
        error = float(np.max(np.abs(a - (y - values) / regularization)))
    elif loss == "logistic":
        error = float(np.max(np.abs(a - w * expit(-y * values) * y)))
    else:  # 0 <= alpha_i <= 1, which is 0 beyond the margin and 1 within it
        alpha, margins = a * y / w, y * values
        outside = np.maximum(-alpha, alpha - 1).max()
        error = float(
            max(
                outside,
                np.max(np.abs(alpha[margins > 1 + 1e-4]), initial=0.0),
                np.max(np.abs(alpha[margins < 1 - 1e-4] - 1), initial=0.0),
            )
        )
    return {"error": error, "holds": error < 1e-4}


def last_line() -> Result:
    """Return f(x) by the kernel, by the corrected last line of the notes, and as printed, for five points in R^5."""
    rng = np.random.default_rng(0)
    Phi, y, x, regularization = rng.standard_normal((5, 5)), rng.standard_normal(5), rng.standard_normal(5), 0.3
    kernel = float(x @ Phi.T @ np.linalg.solve(Phi @ Phi.T + regularization * np.eye(5), y))
    corrected = float(x @ np.linalg.solve(Phi.T @ Phi + regularization * np.eye(5), Phi.T @ y))
    printed = float(x @ np.linalg.solve(Phi @ Phi.T + regularization * np.eye(5), Phi.T @ y))
    return {"kernel": kernel, "corrected": corrected, "printed": printed, "holds": abs(kernel - printed) < 1e-9}


def no_minimizer() -> Result:
    """Return whether `rkhs` refuses a problem of Theorem 4.6 that has no minimizer: logistic loss, separable data."""
    X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    labels = rkhs.Term(Evaluation(X), rkhs.Logistic(), target=np.sign(X[:, 0]))
    try:
        rkhs.Problem(rkhs.kernels.ThinPlate(2), [labels]).solve()
    except rkhs.exceptions.UnattainedError:
        return {"refused": True, "holds": False}
    return {"refused": False, "holds": True}


def derivative_norm(scale: float, dimension: int) -> Result:
    """Return the norm of a partial derivative on the Gaussian RKHS, and 1 / scale."""
    x = np.random.default_rng(0).standard_normal((1, dimension))
    norm = float(np.sqrt(gram(Gaussian(scale), Derivative(x, axes=[0])).diagonal()[0]))
    return {"norm": norm, "1 / scale": 1 / scale, "holds": abs(norm * scale - 1) < ROUNDING}
