"""Random Fourier features psi_a(x) = amplitude_a cos(<w_a, x> + b_a) with frequencies from the spectral density.

For a translation-invariant k, E_w cos(<w, x - y>) = k(x, y) / k(x, x), so that sum_a psi_a(x) psi_a(y) approximates
k(x, y), and |f|^2 = |tau|^2.  Each frequency has a cosine and a sine (b = 0 and -pi/2), which is exact at x = y.  The
normal matrix of the gradients at all points is

    <w_a, w_b> (S'S)_ab,        S_ia = amplitude_a sin(<w_a, x_i> + b_a)

The columns of S are those of the values again: the sine of a pair for its cosine, and minus the cosine for its sine.
An atom with directions u_1 .. u_m and blur C has the value prod_j <w, u_j> cos(<w, x> + b + m pi/2) exp(-w'Cw / 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import pi
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Array, Matrix, Vector, check_count, like, namespace, to_numpy
from rkhs._core.calculus.atoms import Atoms, push_covariance
from rkhs._core.gram.blocks import check_bounded
from rkhs.functionals._base import Functional
from rkhs.kernels import Kernel, LinearTransform
from rkhs.kernels._scaled import ScaledKernel
from rkhs.spaces._base import (
    Approximation,
    FiniteSpace,
    Pilot,
    Tile,
    corners,
    generator,
    in_double,
    square,
)


@dataclass(frozen=True)
class FourierFeatures(Approximation):
    """Approximation by random Fourier features, for large numbers of rows.

    f is a combination of p random waves cos(<w, x> + b), with frequencies w drawn from the spectral density of the
    kernel (Rahimi and Recht 2007).  Gaussian, Matern and rational quadratic kernels are supported, with their sums,
    multiples and linear changes of input.  Fourier features cost the least per row, but `Landmarks` are more accurate
    for the same p.

    Parameters
    ----------
    count : int
        The number p of waves.
    random_state : int, numpy.random.RandomState or numpy.random.Generator, default=0
        The seed of the frequencies.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.random.default_rng(0).standard_normal((500, 2))
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=X[:, 0] * X[:, 1])
    >>> features = rkhs.FourierFeatures(200, random_state=0)
    >>> solution = rkhs.Problem(rkhs.Gaussian(scale=2.0), [term], approximation=features).solve()
    >>> bool(np.abs(solution.function(X) - X[:, 0] * X[:, 1]).mean() < 0.1)
    True
    """

    needs_spectrum = True
    count: int
    random_state: Any = 0

    def __post_init__(self) -> None:
        check_count(self.count, "The number of FourierFeatures")

    def choose(self, kernel: Kernel, families: Sequence[Functional], pilot: Pilot) -> FourierSpace:
        """Draw the waves for a problem.

        Parameters
        ----------
        kernel : Kernel
            The kernel of the problem.
        families : sequence of Functional
            The functionals of all terms, which define the dimension and the device.
        pilot : callable
            Not used.

        Returns
        -------
        FourierSpace
            The span of the waves.
        """
        prototype = families[0].prototype
        space = FourierSpace.draw(kernel, int(prototype.shape[1]), self.count, generator(self.random_state))
        # Phases far from zero are inaccurate: they are those of the differences from the middle of the points.
        low, high = corners([part.atoms for family in families for part in family.parts])
        return replace(space, center=(low + high) / 2).like(in_double(prototype[:0]))


@dataclass(frozen=True, eq=False)
class FourierSpace(FiniteSpace):
    """The span of cosine waves with given frequencies, phases and amplitudes.

    Its functions are amplitude_a cos(<w_a, x - center> + b_a), and they are orthonormal in the approximated norm.

    Parameters
    ----------
    kernel : Kernel
        The kernel that the waves approximate.
    W : ndarray of shape (p, n)
        The frequencies.
    b : ndarray of shape (p,)
        The phases.
    amplitudes : ndarray of shape (p,)
        The amplitudes.
    place : array, optional
        An empty float64 array of the library and on the device of all computations.
    center : ndarray of shape (n,), optional
        The origin of the phases; zero by default.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> space = rkhs.extend.FourierSpace(rkhs.Gaussian(), np.ones((1, 1)), np.zeros(1), np.ones(1))
    >>> space.rows(rkhs.Gradient([[np.pi / 2]]))
    array([[-1.]])
    """

    defines_kernel = True
    W: Matrix  # (p, n), the frequencies
    b: Vector  # (p,), the phases
    amplitudes: Vector  # (p,)
    place: Array = field(default_factory=lambda: np.zeros(0))
    center: Vector | None = None

    @classmethod
    def draw(cls, kernel: Kernel, dimension: int, count: int, random: np.random.Generator) -> FourierSpace:
        """Draw `count` waves, divided equally among the summands of the kernel."""
        parts = kernel.summands()
        pairs = -(-count // 2)
        shares = [2 * (pairs * (k + 1) // len(parts) - pairs * k // len(parts)) for k in range(len(parts))]
        shares[-1] -= 2 * pairs - count
        W, b, amplitudes = [], [], []
        for (weight, summand), share in zip(parts, shares, strict=True):
            frequencies = spectrum(summand, dimension, -(-share // 2), random)
            W.append(np.repeat(frequencies, 2, axis=0)[:share])
            b.append(np.tile([0.0, -pi / 2], len(frequencies))[:share])
            amplitudes.append(np.full(share, (2 * weight / max(share, 1)) ** 0.5))
        return cls(kernel, np.concatenate(W), np.concatenate(b), np.concatenate(amplitudes))

    @property
    def prototype(self) -> Array:
        return self.place

    def like(self, prototype: Array) -> FourierSpace:
        return replace(self, place=prototype)

    @property
    def size(self) -> int:
        return len(self.b)

    @property
    def dimension(self) -> int:
        return int(self.W.shape[1])

    @property
    def gram(self) -> Matrix:
        return np.eye(self.size)

    def rows(self, functional: Functional) -> Array:
        check_bounded(self.kernel, functional)
        return self.on_device(functional).assemble(self._on_atoms)

    def _on_atoms(self, atoms: Atoms) -> Array:
        """Apply the atoms to all waves, (atoms, p)."""
        atoms = atoms.like(self.prototype)
        points = atoms.points
        xp = namespace(points)
        W = like(self.W, points)
        phase = self.centered(points) @ W.T + like(self.b + atoms.order * pi / 2, points)
        amplitudes = self.amplitudes
        if atoms.blur is not None:
            amplitudes = amplitudes * np.exp(-np.diag(push_covariance(self.W, atoms.blur)) / 2)
        values = (xp.cos(phase) * like(amplitudes, points))[:, None, :]
        for j in range(atoms.order):
            values = values * (atoms.u(j) @ W.T)
        values = xp.broadcast_to(values, (points.shape[0], atoms.per_point, self.size))
        return xp.reshape(values, (atoms.size, self.size))

    def centered(self, points: Array) -> Array:
        """Return the differences of points from the origin of the phases."""
        return points if self.center is None else points - like(self.center, points)

    def tile(self, points: Array) -> FourierTile:
        return FourierTile(self, points)

    def gradient_normal(self, products: Sequence[Array]) -> Matrix:
        return to_numpy(products[0]) * (self.W @ self.W.T)


class FourierTile(Tile):
    """The waves at some points; cosines and sines are computed once for each pair of waves."""

    def __init__(self, space: FourierSpace, points: Array) -> None:
        points = like(points, space.prototype)
        xp = namespace(points)
        angle = space.centered(points) @ like(space.W[::2], points).T
        self.cos, self.sin = xp.cos(angle), xp.sin(angle)
        self.amplitudes = like(space.amplitudes, points)
        self.alike = space.size % 2 == 0

    @property
    def values(self) -> Array:
        return self._paired(self.cos, self.sin)

    def gradient_products(self, root: Array, known: Array | None) -> list[Array]:
        """Return S'WS."""
        if known is None:
            return [square(self._paired(self.sin, -self.cos), root)]
        partner = np.arange(known.shape[0]) ^ 1  # the other wave of each pair
        signs = like(np.where(partner % 2, 1.0, -1.0), known)
        return [known[partner][:, partner] * signs[:, None] * signs]

    def _paired(self, even: Array, odd: Array) -> Array:
        xp = namespace(even)
        columns = xp.reshape(xp.stack([even, odd], axis=-1), (even.shape[0], 2 * even.shape[1]))
        return columns[:, : self.amplitudes.shape[0]] * self.amplitudes


def spectrum(kernel: Kernel, dimension: int, count: int, random: np.random.Generator) -> Matrix:
    """Draw frequencies (count, n) from the spectral density."""
    if isinstance(kernel, LinearTransform):
        matrix = np.diag(kernel.linear) if kernel.linear.ndim == 1 else kernel.linear
        return spectrum(kernel.kernel, len(matrix), count, random) @ matrix
    unit = kernel.spectral_density(dimension) if isinstance(kernel, ScaledKernel) else None
    if unit is None:
        raise ValueError(
            f"The spectrum of {kernel!r} is not known: FourierFeatures supports Gaussian, Matern and RationalQuadratic "
            "kernels, others with a spectral_density, their sums, multiples and linear changes of input. Use "
            "rkhs.Landmarks, which supports any kernel."
        )
    return unit.sample(count, random) * unit.kernel.linear(dimension)
