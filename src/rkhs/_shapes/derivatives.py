"""Partial derivatives of a learned function at many points at once.

A function of a kernel phi(q), q = -|A (x - y)|^2 / 2 with A diagonal, is a sum of terms b D_y^beta k(x, y), and with
D_y = -D_x all its derivatives are sums of D^gamma k, gamma = alpha + beta.  The formula of `_calculus.matchings`, for
directions along the axes, is a product over the features of polynomials in d = A (x - y) and the symbol phi, of which
the power r stands for the derivative phi^(r)(q):

    D^gamma k = prod_k a_k^gamma_k sum_j N(gamma_k, j) d_k^(gamma_k - 2j) (-phi)^(gamma_k - j),
    N(g, j) = g! / (j! (g - 2j)! 2^j)

so that a table of one derivative costs a few products, and all share phi and the powers of d.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import reduce
from math import factorial, prod
from typing import Any

import numpy as np

from rkhs._backend.arrays import Matrix, to_numpy
from rkhs._calculus.atoms import Atoms
from rkhs._calculus.forms import Form
from rkhs._calculus.function_spaces import FunctionSpace, Polynomials, SumOfSpaces
from rkhs._finite.function import Function
from rkhs._gram.blocks import blocks
from rkhs._progress import tick
from rkhs.functionals._values import Evaluation
from rkhs.kernels._base import Kernel

Index = tuple[int, ...]  # how often each feature is differentiated


def along(axes: Sequence[int], n: int) -> Index:
    """Return the multi-index of a derivative along axes."""
    return tuple(list(axes).count(k) for k in range(n))


def plus(one: Index, other: Index) -> Index:
    """Return the multi-index of one derivative after another."""
    return tuple(a + b for a, b in zip(one, other, strict=True))


def axis_factors(kernel: Kernel, n: int) -> tuple[Form, Matrix] | None:
    """Return the form of a kernel of A (x - y) and the diagonal (n,) of A; None where A is not diagonal."""
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


class Derivatives:
    """The partial derivatives of a sum of representers of radial kernels, with polynomials for a basis."""

    def __init__(self, f: Function) -> None:
        self.f, n = f, f.functionals.dimension
        self.degree = polynomial_degree(f.basis)
        self.sources = []  # sums over i and beta of b_beta,i (-1)^|beta| D_x^beta k(x, y_i)
        for block in blocks(f.kernel, Evaluation(np.zeros((1, n))), f.functionals):
            radial = axis_factors(block.kernel, n)
            assert radial is not None, "refused before: see `check_provable`"
            for part in block.rights:
                own = to_numpy(part.adjoint(block.weight * f.coefficients))
                points = np.asarray(to_numpy(part.atoms.points), dtype=np.float64)
                self.sources.append((*radial, points, _along_axes(part.atoms, own)))

    def __call__(self, X: Matrix, wanted: Sequence[Index]) -> Matrix:
        """Return D^alpha f at the rows of X (m, n) for each alpha, (m, wanted)."""
        out = np.zeros((len(X), len(wanted)))
        for form, factors, points, weights in self.sources:
            users: dict[Index, dict[int, Matrix]] = {}  # by gamma: the weights of columns of `out`
            for column, alpha in enumerate(wanted):
                for beta, weight in weights.items():
                    gamma = plus(alpha, beta)
                    if all(factors[k] for k, times in enumerate(gamma) if times):
                        users.setdefault(gamma, {})[column] = weight
            columns = [(list(own), np.stack(list(own.values()), axis=1)) for own in users.values()]
            tall = max(1, 2**17 // max(len(points), 1))  # rows of a table of 1 MiB, which stays in the cache
            for start in range(0, len(X) if users else 0, tall):
                rows = slice(start, start + tall)
                tables = _tables(form, factors, X[rows], points, list(users))
                for table, (own, weight) in zip(tables, columns, strict=True):
                    out[rows, own] += table @ weight
                tick(min(start + tall, len(X)) / len(X))
        if self.f.basis is not None:
            for column, alpha in enumerate(wanted):
                if self.degree is None or sum(alpha) <= self.degree:
                    axes = np.repeat(np.arange(X.shape[1]), alpha)
                    atoms = Atoms(X, np.eye(X.shape[1])[axes][None])
                    out[:, column] += to_numpy(self.f.basis.on(atoms)) @ to_numpy(self.f.basis_coefficients)
        return out


def _tables(form: Form, factors: Matrix, X: Matrix, Y: Matrix, gammas: Sequence[Index]) -> Iterator[Matrix]:
    """Yield D^gamma k(x, y), (m, N), for all rows x of X and y of Y, for each gamma."""
    d = {int(k): factors[k] * (X[:, k, None] - Y[:, k]) for k in np.flatnonzero(factors)}
    q = -0.5 * sum((one * one for one in d.values()), start=np.zeros((len(X), len(Y))))
    lowest = min((sum(gamma) + 1) // 2 for gamma in gammas)
    phi = form.radial_derivatives(q, range(lowest, max(map(sum, gammas)) + 1))
    gaussian = all(one is phi[lowest] for one in phi.values())  # the exponential is its own derivative
    factor: dict[tuple[int, int], dict[int, Matrix]] = {}  # of feature k for gamma_k = g, by powers of phi
    for k, g in {(k, g) for gamma in gammas for k, g in enumerate(gamma) if g}:
        for j in range(g // 2 + 1):
            number = (-1) ** (g - j) * factors[k] ** g * factorial(g) / (factorial(j) * factorial(g - 2 * j) * 2**j)
            power = 0 if gaussian else g - j
            own = factor.setdefault((k, g), {})
            term = prod([d[k]] * (g - 2 * j), start=number)
            own[power] = own[power] + term if power in own else term
    for gamma in gammas:
        factors_of_gamma = [factor[k, g] for k, g in enumerate(gamma) if g]
        product: dict[int, Any] = reduce(_times, factors_of_gamma) if factors_of_gamma else {0: 1.0}
        yield sum(phi[lowest if gaussian else r] * polynomial for r, polynomial in product.items())


def _times(one: dict[int, Any], other: dict[int, Any]) -> dict[int, Any]:
    """Return the product of two polynomials in phi, given by their coefficients."""
    product: dict[int, Any] = {}
    for (r, a), (s, b) in itertools.product(one.items(), other.items()):
        product[r + s] = product[r + s] + a * b if r + s in product else a * b
    return product


def _along_axes(atoms: Atoms, coefficients: Matrix) -> dict[Index, Matrix]:
    """Return what atoms with coefficients (t * k,) are in derivatives of x along axes: weights (t,) by multi-index."""
    n = atoms.dimension
    found: dict[Index, Matrix] = {(0,) * n: coefficients.reshape(len(atoms.points), -1)}
    for which in range(atoms.order):
        u, before, found = to_numpy(atoms.u(which)), found, {}
        for beta, weight in before.items():
            for k in np.flatnonzero(np.any(u != 0, axis=(0, 1))):
                raised = plus(beta, along([int(k)], n))
                found[raised] = found.get(raised, 0.0) + weight * u[..., k]
    return {beta: (-1.0) ** sum(beta) * weight.sum(axis=1) for beta, weight in found.items()}
