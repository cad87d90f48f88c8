"""Partial derivatives of a learned function at many points.

In the RKHS of a kernel phi(q), q = -|A (x - y)|^2 / 2 with A diagonal, a function is a sum of terms b D_y^beta k(x, y).
With D_y = -D_x all its derivatives are sums of D^gamma k, gamma = alpha + beta.  For directions along the axes, the
formula of `_calculus.forms` is a product over the features of polynomials in d = A (x - y) and the symbol phi, whose
power r stands for the derivative phi^(r)(q):

    D^gamma k = prod_k a_k^gamma_k sum_j N(gamma_k, j) d_k^(gamma_k - 2j) (-phi)^(gamma_k - j),
    N(g, j) = g! / (j! (g - 2j)! 2^j)

So each derivative takes a few entrywise products, and all share phi and the powers of d.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce
from math import factorial, prod
from typing import Any

import numpy as np

from rkhs._backend.arrays import Matrix, to_numpy, unique_rows
from rkhs._calculus.atoms import Atoms
from rkhs._calculus.forms import Form
from rkhs._calculus.function_spaces import FunctionSpace, Polynomials, SumOfSpaces
from rkhs._finite.function import Function
from rkhs._gram.blocks import blocks
from rkhs._progress import report_progress
from rkhs.functionals._base import Combination, Part, stack
from rkhs.functionals._values import Evaluation
from rkhs.kernels._base import Kernel

Index = tuple[int, ...]  # a multi-index: the order of the derivative in each feature


def along(axes: Sequence[int], n: int) -> Index:
    """Return the multi-index of a derivative along axes."""
    return tuple(list(axes).count(k) for k in range(n))


def plus(alpha: Index, beta: Index) -> Index:
    """Return the sum of two multi-indices."""
    return tuple(a + b for a, b in zip(alpha, beta, strict=True))


def axis_factors(kernel: Kernel, n: int) -> tuple[Form, Matrix] | None:
    """Return the form of a kernel of A (x - y) and the diagonal (n,) of A; None if A is not diagonal."""
    form = kernel.form(n)
    if form is None or not form.rho:
        return None
    linear = np.ones(n) if form.linear is None else np.asarray(form.linear, dtype=np.float64)
    if linear.ndim == 1:
        return form, linear
    used = linear != 0
    return None if max(used.sum(axis=0).max(), used.sum(axis=1).max()) > 1 else (form, linear.sum(axis=0))


def polynomial_degree(basis: FunctionSpace | None) -> int | None:
    """Return the degree of the polynomials in a basis, -1 without one; None for other functions."""
    spaces = basis.spaces if isinstance(basis, SumOfSpaces) else (basis or Polynomials(-1),)
    degrees = [space.degree for space in spaces if isinstance(space, Polynomials)]
    return max(degrees) if len(degrees) == len(spaces) else None


def merged(f: Function, used: Matrix) -> tuple[Function, Matrix]:
    """Return f with one representer for all that differ only in features that its kernel ignores, those not `used`.

    Representers of derivatives along such features are zero.  Counts and codes leave few distinct points.  Also returns
    the sums of the absolute values of the coefficients that were merged, for bounds of rounding errors.
    """
    by_beta: dict[Index, list[tuple[Matrix, Matrix]]] = {}
    for part in f.functionals.parts:
        for beta, weight in _along_axes(part.atoms, to_numpy(part.adjoint(f.coefficients))).items():
            if not np.any(beta, where=~used):
                by_beta.setdefault(beta, []).append((to_numpy(part.atoms.points), weight))
    families, sums = [], []
    for beta, pairs in by_beta.items():
        points, weight = map(np.concatenate, zip(*pairs, strict=True))
        _, first, where = unique_rows(points[:, used])
        atoms = Atoms(points[first], np.eye(len(used))[np.repeat(np.arange(len(used)), beta)][None])
        families.append((-1.0) ** sum(beta) * Combination((len(first),), (Part(atoms),), f"D^{beta}"))
        sums.append([np.bincount(where.reshape(-1), terms) for terms in (weight, np.abs(weight))])
    if not families:
        return f, np.abs(f.coefficients)
    coefficients, absolute = np.concatenate(sums, axis=1)
    return replace(f, functionals=stack(families), coefficients=coefficients), absolute


class Derivatives:
    """The partial derivatives of a sum of representers of radial kernels and a polynomial basis."""

    def __init__(self, f: Function) -> None:
        self.f, n = f, f.functionals.dimension
        self.degree = polynomial_degree(f.basis)
        self.sources = []  # sums over i and beta of b_beta,i (-1)^|beta| D_x^beta k(x, y_i)
        for block in blocks(f.kernel, Evaluation(np.zeros((1, n))), f.functionals):
            radial = axis_factors(block.kernel, n)
            assert radial is not None, "`check_provable` raises an error for other kernels"
            for part in block.rights:
                coefficients = to_numpy(part.adjoint(block.weight * f.coefficients))
                points = np.asarray(to_numpy(part.atoms.points), dtype=np.float64)
                self.sources.append((*radial, points, _along_axes(part.atoms, coefficients)))

    def __call__(self, X: Matrix, wanted: Sequence[Index]) -> Matrix:
        """Return D^alpha f at the rows of X (m, n) for each alpha, (m, wanted)."""
        out = np.zeros((len(X), len(wanted)))
        for form, factors, points, weights in self.sources:
            by_gamma: dict[Index, dict[int, Matrix]] = {}  # for each gamma the weights of the columns of `out`
            for column, alpha in enumerate(wanted):
                for beta, weight in weights.items():
                    gamma = plus(alpha, beta)
                    if all(factors[k] for k, times in enumerate(gamma) if times):
                        by_gamma.setdefault(gamma, {})[column] = weight
            height = max(1, 2**17 // max(len(points), 1))  # rows of a tile of 1 MiB, which stays in the cache
            for start in range(0, len(X) if by_gamma else 0, height):
                rows = slice(start, start + height)
                tables = _tables(form, factors, X[rows], points, list(by_gamma))
                for table, columns in zip(tables, by_gamma.values(), strict=True):
                    for column, weight in columns.items():
                        out[rows, column] += table @ weight
                report_progress(min(start + height, len(X)) / len(X))
        if self.f.basis is not None:
            for column, alpha in enumerate(wanted):
                if self.degree is None or sum(alpha) <= self.degree:
                    axes = np.repeat(np.arange(X.shape[1]), alpha)
                    atoms = Atoms(X, np.eye(X.shape[1])[axes][None])
                    out[:, column] += to_numpy(self.f.basis.on(atoms)) @ to_numpy(self.f.basis_coefficients)
        return out


def _tables(form: Form, factors: Matrix, X: Matrix, Y: Matrix, gammas: Sequence[Index]) -> Iterator[Matrix]:
    """Yield the matrices D^gamma k(x, y) (m, N) for all rows x of X and y of Y, for each gamma."""
    d = {int(k): factors[k] * (X[:, k, None] - Y[:, k]) for k in np.flatnonzero(factors)}
    q = -0.5 * sum((difference * difference for difference in d.values()), start=np.zeros((len(X), len(Y))))
    lowest = min((sum(gamma) + 1) // 2 for gamma in gammas)
    phi = form.radial_derivatives(q, range(lowest, max(map(sum, gammas)) + 1))
    gaussian = all(derivative is phi[lowest] for derivative in phi.values())  # exp is its own derivative
    factor: dict[tuple[int, int], dict[int, Matrix]] = {}  # polynomials in phi for feature k and gamma_k = g
    for k, g in {(k, g) for gamma in gammas for k, g in enumerate(gamma) if g}:
        for j in range(g // 2 + 1):
            number = (-1) ** (g - j) * factors[k] ** g * factorial(g) / (factorial(j) * factorial(g - 2 * j) * 2**j)
            power = 0 if gaussian else g - j
            polynomial = factor.setdefault((k, g), {})
            term = prod([d[k]] * (g - 2 * j), start=number)
            polynomial[power] = polynomial[power] + term if power in polynomial else term
    for gamma in gammas:
        factors_of_gamma = [factor[k, g] for k, g in enumerate(gamma) if g]
        product: dict[int, Any] = reduce(_times, factors_of_gamma) if factors_of_gamma else {0: 1.0}
        yield sum(phi[lowest if gaussian else r] * coefficient for r, coefficient in product.items())


def _times(first: dict[int, Any], second: dict[int, Any]) -> dict[int, Any]:
    """Return the product of two polynomials in phi, given by their coefficients."""
    product: dict[int, Any] = {}
    for (r, a), (s, b) in itertools.product(first.items(), second.items()):
        product[r + s] = product[r + s] + a * b if r + s in product else a * b
    return product


def _along_axes(atoms: Atoms, coefficients: Matrix) -> dict[Index, Matrix]:
    """Expand atoms with coefficients (t * k,) in derivatives in x along axes: return weights (t,) by multi-index."""
    n = atoms.dimension
    weights: dict[Index, Matrix] = {(0,) * n: coefficients.reshape(len(atoms.points), -1)}
    for which in range(atoms.order):
        u, before, weights = to_numpy(atoms.u(which)), weights, {}
        for beta, weight in before.items():
            for k in np.flatnonzero(np.any(u != 0, axis=(0, 1))):
                raised = plus(beta, along([int(k)], n))
                weights[raised] = weights.get(raised, 0.0) + weight * u[..., k]
    return {beta: (-1.0) ** sum(beta) * weight.sum(axis=1) for beta, weight in weights.items()}
