"""The laws of kernels, checked at random, coincident and near points of R^n.

A function of the distance may be positive definite in R^n and not in R^(n+1), as the Wendland kernels are, whose
negative eigenvalues need more points than a check can afford.  For these the Fourier transform is computed instead: by
Bochner's theorem it is not negative if and only if the kernel is positive definite.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from functools import cache, cached_property, partial
from math import ceil, gamma, isfinite

import numpy as np
from scipy.special import jv

from rkhs._core.backend.arrays import Array, Matrix, Vector
from rkhs._core.calculus.atoms import AllPairs, Atoms, Matched, Pairing
from rkhs._core.gram import Gram, gram
from rkhs.exceptions import NotBoundedError
from rkhs.functionals import Derivative, Evaluation, Functional, Gradient, Hessian, Laplacian, LocalAverage, stack
from rkhs.kernels._base import Kernel
from rkhs.testing._laws import (
    HAS_TORCH,
    ROUNDING,
    SLACK,
    STEPS,
    central,
    demand,
    demand_equal,
    demand_limit,
    largest,
    restricted,
    rounding,
)

DISTANCES = (0.0, 1e-300, 1e-12, 1e-8, 1e-4)  # distances of near points from the origin
FAMILIES = (Evaluation, Gradient, Hessian)  # functionals of orders 0, 1, 2
MANY = 128  # random points that make negative eigenvalues likely
# The quadrature of Fourier transforms.  Radii and 1 / frequencies are in units of the width of a Gaussian window, up to
# REACH, where the window is below the rounding error.  Panels are 1/8 of a unit, so that a kernel with the support
# |x - y| <= 1 is smooth on each of them; a wave has at most PHASE radians there, which the nodes integrate exactly.
WIDTHS = 2.0 ** np.arange(-4, 11)
REACH, PANELS, PHASE, FREQUENCIES = 9.0, 72, 12.0, 96
NODES = (12, 16)  # Gauss-Legendre nodes per panel, of two rules whose difference estimates the error


def check_kernel(kernel: Kernel, dimension: int = 2, random_state: int = 0) -> None:
    """Check that a kernel has the properties that the package relies on.

    The laws are: k(x, y) = k(y, x); c'Gc >= 0 (for c that annihilate the null space), and if k is a function of the
    distance, its Fourier transform in R^n is not negative; derivatives of k are limits of difference quotients;
    unbounded derivatives raise an error; local averages converge to values, at the rate of the heat equation; a kernel
    is immutable, and equal to its copy; and all ways to compute an entry agree: structured and dense, NumPy and
    PyTorch, float32 and float64, `form`, `summands` and `pair`.  The points have norms of about one: pass a kernel with
    a length scale between 0.05 and 1000.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    dimension : int, default=2
        The dimension n of the points.  A kernel may be positive definite in R^2 and not in R^3: check the dimensions in
        which it is used.
    random_state : int, default=0
        The seed of the points.

    Raises
    ------
    AssertionError
        If a law is violated; the message names the law.

    Examples
    --------
    >>> import rkhs
    >>> from rkhs.testing import check_kernel
    >>> check_kernel(rkhs.Matern(nu=1.5), dimension=3)
    >>> check_kernel(rkhs.kernels.AutodiffKernel(lambda x, y: x[0] * y[1]))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    AssertionError: AutodiffKernel(...) breaks the law k(x, y) = k(y, x), for Evaluation x Evaluation in R^2: \
measured ..., allowed ....
    """
    sample = KernelSample(kernel, dimension, random_state)
    for law in LAWS:
        law(sample)


@dataclass(frozen=True)
class KernelSample:
    """A kernel and the points at which it is checked."""

    kernel: Kernel
    dimension: int
    random_state: int

    def drawn(self, count: int, *stream: int) -> Array:
        """Return random points, exactly representable in float32."""
        points = np.random.default_rng((self.random_state, *stream)).standard_normal((count, self.dimension))
        return points.astype(np.float32).astype(np.float64)

    @cached_property
    def X(self) -> Array:
        """Six random points."""
        return self.drawn(6)

    @cached_property
    def Y(self) -> Array:
        """Five other random points."""
        return self.drawn(5, 1)

    @cached_property
    def near(self) -> Array:
        """Three of the points X, and points at all `DISTANCES` from the origin and from the first of X."""
        offsets = np.asarray(DISTANCES)[:, None] * np.ones(self.dimension) / self.dimension**0.5
        return np.concatenate([self.X[:3], offsets, self.X[0] + offsets])

    @cached_property
    def orders(self) -> range:
        """The orders of bounded derivatives, up to two."""
        return range(min(3, ceil(min(self.kernel.smoothness(self.dimension), 3))))

    def bounded(self, points: Array) -> list[Functional]:
        """Return the values, gradients and Hessians at points, as far as they are bounded."""
        return [FAMILIES[order](points) for order in self.orders]

    @cached_property
    def nearby(self) -> Gram:
        """The Gram operator of all bounded functionals at the near points."""
        return gram(self.kernel, stack(self.bounded(self.near)))

    @cached_property
    def dense(self) -> Array:
        return self.nearby.dense()

    def tables(self, X: Array, Y: Array) -> dict[tuple[int, int], Array]:
        """Return the Gram matrices of all bounded families at X and Y, by their orders."""
        lefts, rights = self.bounded(X), self.bounded(Y)
        return {(m, r): gram(self.kernel, lefts[m], rights[r]).dense() for m in self.orders for r in self.orders}

    def named(self, law: str, m: int, r: int) -> str:
        """Return the name of a law for derivatives of orders m and r."""
        return f"{law}, for {FAMILIES[m].__name__} x {FAMILIES[r].__name__} in R^{self.dimension}"


def _symmetric(sample: KernelSample) -> None:
    """Check k(x, y) = k(y, x) and its derivatives, also at coincident points."""
    X, Y = sample.X, np.concatenate([sample.Y, sample.X[:2]])
    swapped = sample.tables(Y, X)
    for (m, r), table in sample.tables(X, Y).items():
        demand_equal(sample.kernel, sample.named("k(x, y) = k(y, x)", m, r), table, swapped[r, m].T)


def _finite(sample: KernelSample) -> None:
    """Check that all G_ij are finite, also at coincident and near points."""
    infinite = float(np.sum(~np.isfinite(sample.dense)))
    law = f"G_ij is finite in R^{sample.dimension} (number of entries that are not)"
    demand(sample.kernel, law, infinite, 0.0)


def _semi_definite(sample: KernelSample) -> None:
    """Check c'Gc >= 0 for all c with P'c = 0, where P_ij = L_i(p_j) for a basis p of the null space."""
    P = sample.nearby.L(sample.kernel.null_space)
    where = " for all c with P'c = 0, P the null space" if P.size else ""
    stops = np.cumsum([0, *(L.size for L in sample.bounded(sample.near))])
    parts = (*map(slice, stops[:-1], stops[1:]), slice(None))  # each family separately, and all together
    matrices = [(sample.dense[rows, rows], P[rows]) for rows in parts]
    many = Evaluation(sample.drawn(MANY, 4))
    matrices.append((gram(sample.kernel, many).dense(), many(sample.kernel.null_space)))
    for G, null_space in matrices:
        least = float(np.min(np.linalg.eigvalsh(restricted(G, null_space)), initial=0.0))
        demand(sample.kernel, f"c'Gc >= 0{where} in R^{sample.dimension} (minus the smallest)", -least, rounding(G))


def _spectrum(sample: KernelSample) -> None:
    """Check that the Fourier transform of a radial kernel is not negative: int k(x) exp(i w'x) dx >= 0 for all w.

    The kernel is multiplied by Gaussian windows, so that the integral exists.  Their Fourier transforms are positive,
    and so that of the product is not negative either.
    """
    form = sample.kernel.form(sample.dimension)
    if form is None or not form.rho or sample.kernel.order:
        return
    linear, rank = form.linear, sample.dimension
    if linear is not None and linear.ndim == 2:
        rank = int(np.linalg.matrix_rank(linear))  # the dimension of the points A x

    def transform(nodes: int) -> Matrix:
        """Return the Fourier transforms (frequencies, windows) in units of the integral of |k|."""
        radii, weights, waves = _waves(rank, nodes)
        values = form.radial_derivatives(-((radii[:, None] * WIDTHS) ** 2) / 2, range(1))[0] * weights[:, None]
        total = np.sum(abs(values), axis=0)
        return waves @ (values / np.where(total > 0, total, 1.0))  # narrow kernels vanish at all nodes of wide windows

    coarse, fine = map(transform, NODES)
    allowed = SLACK * np.max(abs(fine - coarse), axis=0) + ROUNDING * np.finfo(np.float64).eps
    worst, width = np.unravel_index(np.argmax(-fine - allowed), fine.shape)
    law = f"k is positive definite: its Fourier transform is >= 0 in R^{sample.dimension} (minus the smallest)"
    demand(sample.kernel, law, float(-fine[worst, width]), float(allowed[width]))


@cache
def _waves(dimension: int, nodes: int) -> tuple[Vector, Vector, Matrix]:
    """Return radii, the weights of a Gaussian window, and the means (frequencies, radii) of waves over spheres."""
    x, g = np.polynomial.legendre.leggauss(nodes)
    panel = REACH / PANELS
    radii = (panel * (np.arange(PANELS)[:, None] + (x + 1) / 2)).reshape(-1)
    weights = np.tile(g * panel / 2, PANELS) * radii ** (dimension - 1) * np.exp(-(radii**2) / 2)
    frequencies = PHASE / panel * np.arange(1, FREQUENCIES + 1) / FREQUENCIES
    t = frequencies[:, None] * radii
    return radii, weights, gamma(dimension / 2) * (2 / t) ** (dimension / 2 - 1) * jv(dimension / 2 - 1, t)


def _differentiable(sample: KernelSample) -> None:
    """Check D_u (L k)(x, y) = lim ((L k)(x + h u, y) - (L k)(x - h u, y)) / 2h for each L of lower order."""
    rng = np.random.default_rng((sample.random_state, 2))
    layouts: tuple[tuple[str, type[Pairing], Array], ...] = (
        ("at points apart", AllPairs, sample.Y),
        ("at coincident points", Matched, sample.X),
    )
    for where, layout, points in layouts:
        for m in sample.orders[1:]:
            for r in sample.orders[: m + 1]:
                left = Atoms(sample.X, rng.standard_normal((len(sample.X), 1, m, sample.dimension)))
                right = Atoms(points, rng.standard_normal((len(points), 1, r, sample.dimension)))
                law = sample.named(f"D k = lim of difference quotients {where}", m, r)
                quotients = central(partial(_shifted, sample.kernel, layout, left, right))
                demand_limit(sample.kernel, law, sample.kernel.pair(layout(left, right)), quotients)


def _shifted(kernel: Kernel, layout: type[Pairing], left: Atoms, right: Atoms, h: float) -> Array:
    """Return (L k)(x + h u, y), where u is the last direction of the left atoms and L has the others."""
    u = left.directions[:, 0, -1]
    lower = left.restricted(range(left.order - 1))
    return kernel.pair(layout(lower.shifted(-h * u), right))


def _refuses(sample: KernelSample) -> None:
    """Check that derivatives of order m >= smoothness raise NotBoundedError."""
    limit = sample.kernel.smoothness(sample.dimension)
    demand(sample.kernel, "values are bounded: smoothness > 0 (minus the smoothness)", -limit, -np.finfo(float).tiny)
    if not isfinite(limit):
        return
    for order in (ceil(limit), ceil(limit) + 1):
        try:
            gram(sample.kernel, Derivative(sample.X, axes=[0] * order))
        except NotBoundedError:
            continue
        raise AssertionError(f"{sample.kernel!r} bounds orders below {limit:g}, but order {order} was not refused.")


def _structured(sample: KernelSample) -> None:
    """Check that the structured product G v agrees with the dense one, also at near points."""
    G = sample.dense
    v = np.random.default_rng((sample.random_state, 3)).standard_normal((len(G), 3))
    law = f"(structured G) v = (dense G) v in R^{sample.dimension}"
    demand_equal(sample.kernel, law, sample.nearby @ v, G @ v, scale=largest(abs(G) @ abs(v)))


def _same_elsewhere(sample: KernelSample) -> None:
    """Check that NumPy and PyTorch, float32 and float64 give the same results up to rounding."""
    expected = sample.tables(sample.X, sample.Y)
    for orders, table in sample.tables(sample.X.astype(np.float32), sample.Y.astype(np.float32)).items():
        demand_equal(sample.kernel, sample.named("float32 = float64", *orders), table, expected[orders])
    if HAS_TORCH:
        import torch

        for orders, table in sample.tables(torch.asarray(sample.X), torch.asarray(sample.Y)).items():
            demand_equal(sample.kernel, sample.named("PyTorch = NumPy", *orders), table, expected[orders])


def _averages(sample: KernelSample) -> None:
    """Check E k(x + w z, y) -> k(x, y) as w -> 0, and that its derivative in w^2/2 is the Laplacian of k in x."""
    kernel, M, widths = sample.kernel, Evaluation(sample.Y), STEPS[1:6].tolist()
    values = gram(kernel, Evaluation(sample.X), M).dense()
    averages = [gram(kernel, LocalAverage(sample.X, width), M).dense() for width in widths]
    noise = rounding(values)
    law = f"E k(x + w z, y) -> k(x, y) as w -> 0 in R^{sample.dimension}"
    demand_limit(kernel, law, values, ((average, noise) for average in averages))
    if 2 in sample.orders:
        rates = [2 / width**2 for width in widths]
        quotients = ((rate * (average - values), rate * noise) for rate, average in zip(rates, averages, strict=True))
        law = f"d/d(w^2/2) E k(x + w z, y) = Laplacian of k in R^{sample.dimension}"
        demand_limit(kernel, law, gram(kernel, Laplacian(sample.X), M).dense(), quotients)


def _consistent(sample: KernelSample) -> None:
    """Check that `summands` and `form` agree with `pair`, for all derivatives."""
    for order in sample.orders:
        left, right = (FAMILIES[order](points).parts[0].atoms for points in (sample.near, sample.Y))
        pairing = AllPairs(left, right)
        expected = sample.kernel.pair(pairing)
        total = sum(weight * part.pair(pairing) for weight, part in sample.kernel.summands())
        scale = sum(weight * largest(part.pair(pairing)) for weight, part in sample.kernel.summands())
        demand_equal(sample.kernel, f"`summands` add up to `pair`, for order {order}", total, expected, scale)
        form = sample.kernel.form(sample.dimension)
        if form is not None:
            demand_equal(sample.kernel, f"`form` equals `pair`, for order {order}", form(pairing), expected)


def _frozen_value(sample: KernelSample) -> None:
    """Check that a kernel is an immutable value: equal to its copy, with the same hash and a readable repr."""
    kernel, duplicate = sample.kernel, deepcopy(sample.kernel)
    name = type(kernel).__name__
    if not (kernel == duplicate and hash(kernel) == hash(duplicate)):
        raise AssertionError(f"{kernel!r} is not equal to its copy, or has another hash: make {name} a dataclass.")
    if type(kernel).__repr__ is object.__repr__:
        raise AssertionError(f"{kernel!r} cannot be read: give {name} a __repr__.")
    try:
        duplicate.__setattr__("note", "changed")
    except AttributeError:
        return
    raise AssertionError(f"{kernel!r} can be changed: make {name} a frozen dataclass.")


DECLARED = (_frozen_value, _refuses, _finite, _symmetric, _consistent)
LAWS = (*DECLARED, _differentiable, _semi_definite, _spectrum, _structured, _same_elsewhere, _averages)
