"""The laws of finite-dimensional spaces, checked on a few functionals."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np

from rkhs._core.backend.arrays import Array, Matrix, like, to_numpy
from rkhs._core.finite.function import function_in
from rkhs._core.finite.normal_equations import NormalEquations, QuadraticSums
from rkhs._core.gram import gram
from rkhs.functionals import DirectionalDerivative, Evaluation, Functional, Gradient
from rkhs.spaces._base import FiniteSpace
from rkhs.testing._laws import (
    HAS_TORCH,
    ROUNDING,
    central,
    combinations,
    demand,
    demand_equal,
    demand_limit,
    largest,
    restricted,
)


def check_space(space: FiniteSpace, functionals: Sequence[Functional] | None = None, *, random_state: int = 0) -> None:
    """Check that a finite-dimensional space has the properties that the package relies on.

    The laws are: rows have the size of the space and are linear in the functionals; rows of derivatives are limits of
    difference quotients; K is symmetric and tau'K tau >= 0 for tau that satisfy the constraints; rows and K agree with
    the functionals and the norm of the function with coefficients tau; products with E, with its transpose and with the
    normal matrix E'WE agree with the matrix, also by closed forms;
    the squared norm of a functional outside of the space is between 0 and its squared norm; and a copy of the space,
    PyTorch, and functionals in float32 give the same results.

    Parameters
    ----------
    space : FiniteSpace
        The space.
    functionals : sequence of Functional, optional
        The families on which to check it; by default values and, if they are bounded, gradients at points of size one.
    random_state : int, default=0
        The seed of the points.

    Raises
    ------
    AssertionError
        If a law is violated; the message names the law.

    Examples
    --------
    >>> import rkhs
    >>> from rkhs.spaces import LandmarkSpace
    >>> from rkhs.testing import check_space
    >>> landmarks = rkhs.Evaluation([[0.0, 0.0], [1.0, 0.5], [0.3, -1.0]])
    >>> check_space(LandmarkSpace(rkhs.Gaussian(scale=1.0), landmarks))
    """
    rng = np.random.default_rng(random_state)
    X = rng.standard_normal((7, space.dimension)).astype(np.float32).astype(np.float64)  # exact in float32
    smooth = space.kernel.smoothness(space.dimension) > 1
    families = [Evaluation(X), *([Gradient(X)] if smooth else [])] if functionals is None else list(functionals)
    for family in families:
        _rows_are_linear(space, family, rng)
        _products(space, family, rng)
        _outside(space, family)
        _same_elsewhere(space, family)
    if smooth:
        _derivatives(space, X, rng)
    _norm(space, families, rng)
    _closed_forms(space, X, smooth, rng)


def _rows(space: FiniteSpace, functional: Functional) -> Matrix:
    return to_numpy(space.rows(functional))


def _sizes(space: FiniteSpace, functional: Functional) -> float:
    """Return the magnitude of the numbers from which rows are computed."""
    return max(largest(_rows(space, functional)), largest(to_numpy(space.gram @ np.ones(space.size)) / space.size))


def _rows_are_linear(space: FiniteSpace, L: Functional, rng: np.random.Generator) -> None:
    E, W = _rows(space, L), rng.standard_normal((3, L.size))
    if E.shape != (L.size, space.size) or E.dtype != np.float64:
        raise AssertionError(f"{space!r} has rows {E.shape} of {E.dtype}, expected {(L.size, space.size)} of float64.")
    scale = max(3.0, 2 * float(np.max(np.sum(abs(W), axis=1)))) * _sizes(space, L)
    for name, family, expected in combinations(L, E, W):
        demand_equal(space, f"rows({name}) follow from rows(L)", _rows(space, family), expected, scale)


def _derivatives(space: FiniteSpace, X: Array, rng: np.random.Generator) -> None:
    """Check that rows of derivatives are limits of difference quotients of rows of values."""
    U = rng.standard_normal(X.shape)
    quotients = central(lambda h: _rows(space, Evaluation(X + h * U)))
    demand_limit(space, "rows of derivatives", _rows(space, DirectionalDerivative(X, U)), quotients)


def _norm(space: FiniteSpace, families: Sequence[Functional], rng: np.random.Generator) -> None:
    """Check that K is symmetric, positive semidefinite subject to the constraints, and the Gram matrix of the space."""
    K, C = to_numpy(space.gram @ np.eye(space.size)), space.constraints
    demand_equal(space, "K is symmetric", K, K.T)
    if C.shape != (len(C), space.size):
        raise AssertionError(f"{space!r} has constraints {C.shape}, expected (r, {space.size}).")
    inner = restricted(K, C.T)
    least = -float(np.min(np.linalg.eigvalsh((inner + inner.T) / 2), initial=0.0))
    eps = ROUNDING * float(np.finfo(np.float64).eps)
    demand(space, "tau'K tau >= 0", least, eps * largest(K) * space.size)
    tau = rng.standard_normal(space.size)
    if len(C):
        tau -= np.linalg.lstsq(C, C @ tau, rcond=None)[0]
    f = function_in(space, like(tau, space.prototype), None, None)
    size = float(abs(tau) @ abs(K) @ abs(tau))
    demand(space, "tau'K tau = |f|^2", abs(float(tau @ K @ tau) - f.norm() ** 2), eps * size)
    for L in families:
        E = _rows(space, L)
        demand_equal(space, "rows(L) tau = L(f)", np.ravel(to_numpy(L(f))), E @ tau, float(np.max(abs(E) @ abs(tau))))


def _products(space: FiniteSpace, L: Functional, rng: np.random.Generator) -> None:
    """Check products with E, E' and E'WE against the matrix E, for several columns and for one."""
    E, tau, alpha = _rows(space, L), rng.standard_normal((space.size, 3)), rng.standard_normal((L.size, 3))
    size, summed = (float(np.max(abs(A) @ abs(B))) for A, B in ((E, tau), (E.T, alpha)))
    demand_equal(space, "apply(L, tau) = E tau", to_numpy(space.apply(L, tau)), E @ tau, size)
    demand_equal(space, "apply(L, tau) of one column", to_numpy(space.apply(L, tau[:, 0])), E @ tau[:, 0], size)
    demand_equal(space, "adjoint(L, alpha) = E'alpha", to_numpy(space.adjoint(L, alpha)), E.T @ alpha, summed)
    weights = (np.full(L.size, 2.0), rng.random(L.size), np.arange(L.size) % 2.0)  # equal ones may share sums
    for w in weights:
        sums = QuadraticSums.of(space, [(L, np.zeros((L.size, 0)))], [w[:, None]])
        normal, expected = NormalEquations(space, sums, 1.0), E.T @ (w[:, None] * (E @ tau))
        scale = max(float(np.max(abs(E).T @ (w[:, None] * (abs(E) @ abs(tau))))), 1e-300)
        demand_equal(space, "E'(W(E tau)) = E'WE tau", normal.image(tau), expected, scale)


def _outside(space: FiniteSpace, L: Functional) -> None:
    outside = space.outside(L)
    if outside.shape != (L.size,):
        raise AssertionError(f"{space!r}.outside has shape {outside.shape}, expected {(L.size,)}.")
    demand(space, "outside(L) >= 0", -float(np.min(outside, initial=0.0)), 0.0)
    if not space.kernel.order:
        norms = to_numpy(gram(space.kernel, L).diagonal())
        demand(space, "outside(L) <= |L|^2", float(np.max(outside - norms, initial=0.0)), 1e-12 * largest(norms))


def _same_elsewhere(space: FiniteSpace, L: Functional) -> None:
    """Check that a copy, PyTorch, and functionals in float32 give the same rows."""
    E, size = _rows(space, L), _sizes(space, L)
    demand_equal(space, "a copy has the same rows", _rows(pickle.loads(pickle.dumps(space)), L), E, size)
    single = L.like(np.zeros(0, dtype=np.float32))
    points, rounded = ([to_numpy(part.atoms.points) for part in family.parts] for family in (L, single))
    if all(map(np.array_equal, points, rounded)):
        rows = _rows(space, single).astype(np.float32)
        demand_equal(space, "functionals in float32 have the same rows", rows, E, size)
    if HAS_TORCH:
        import torch

        in_torch = space.like(torch.zeros(0, dtype=torch.float64))
        demand_equal(space, "rows in PyTorch = rows in NumPy", _rows(in_torch, L), E, size)
        ones = np.ones(space.size)
        demand_equal(space, "K in PyTorch = K in NumPy", to_numpy(in_torch.gram @ ones), to_numpy(space.gram @ ones))


def _closed_forms(space: FiniteSpace, X: Array, smooth: bool, rng: np.random.Generator) -> None:
    """Check that tiles agree with rows, and with normal matrices of weighted gradients."""
    tile, w = space.tile(X), rng.random(len(X))
    if tile is None:
        return
    E = _rows(space, Evaluation(X))
    demand_equal(space, "values of a tile = rows", tile.values, E, _sizes(space, Evaluation(X)))
    if not smooth:
        return
    slopes = _rows(space, Gradient(X))
    normal = slopes.T @ (np.repeat(w, X.shape[1])[:, None] * slopes)
    for known in [None, E.T @ (w[:, None] * E)] if tile.alike else [None]:
        products = tile.gradient_products(np.sqrt(w)[:, None], known)
        demand_equal(space, "closed form of the normal matrix of gradients", space.gradient_normal(products), normal)
