"""Random Fourier features: psi_a(x) = amplitude_a cos(<w_a, x> + b_a), frequencies drawn from the kernel's spectrum.

For a translation-invariant k, E_w cos(<w, x - y>) = k(x, y) / k(x, x), so sum_a psi_a(x) psi_a(y) is near k(x, y), and
|f|^2 = |tau|^2.  Each frequency has a cosine and a sine (b = 0 and -pi/2), which is exact at x = y.  The gradients at
all points sum to

    <w_a, w_b> (S'S)_ab,        S_ia = amplitude_a sin(<w_a, x_i> + b_a)

(with the columns of S those of the values again: the sine of a pair for its cosine, minus the cosine for its sine),

and an atom with directions u_1 .. u_m and blur C is prod_j <w, u_j> cos(<w, x> + b + m pi/2) exp(-w'Cw / 2).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import pi
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, Matrix, like, namespace, to_numpy, zeros
from rkhs._calculus.atoms import Atoms, push_covariance
from rkhs._gram.blocks import check_bounded
from rkhs._gram.span import Span, Sums, Tile, square
from rkhs.functionals.base import Functional
from rkhs.kernels import Gaussian, Kernel, Matern, Pullback, RationalQuadratic

Random = np.random.Generator


@dataclass(frozen=True, eq=False)
class FourierSpan(Span):
    """The span of p features."""

    kernel: Kernel
    W: Matrix  # (p, n) frequencies
    b: Matrix  # (p,)
    amplitudes: Matrix  # (p,)
    place: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def home(self) -> Array:
        return self.place

    def moved(self, home: Array) -> FourierSpan:
        return replace(self, place=home)

    @property
    def size(self) -> int:
        return len(self.b)

    @property
    def dimension(self) -> int:
        return int(self.W.shape[1])

    @property
    def norm(self) -> Matrix:
        return np.eye(self.size)

    @property
    def constraints(self) -> Matrix:
        return np.zeros((0, self.size))

    def on(self, atoms: Atoms) -> Array:
        """The value of each atom on each feature: (atoms, p)."""
        atoms = atoms.like(self.home)
        points = atoms.points
        xp = namespace(points)
        W = like(self.W, points)
        phase = points @ W.T + like(self.b + atoms.order * pi / 2, points)
        amplitudes = self.amplitudes
        if atoms.blur is not None:
            spread = push_covariance(self.W, atoms.blur)
            amplitudes = amplitudes * np.exp(-np.diag(spread) / 2)
        found = (xp.cos(phase) * like(amplitudes, points))[:, None, :]
        for j in range(atoms.order):
            found = found * (atoms.u(j) @ W.T)
        found = xp.broadcast_to(found, (points.shape[0], atoms.per_point, self.size))
        return xp.reshape(found, (atoms.size, self.size))

    def rows(self, functional: Functional) -> Array:
        check_bounded(self.kernel, functional)
        return self.brought(functional).assemble(self.on)

    def tile(self, points: Array) -> FourierTile:
        return FourierTile(self, points)

    def sums(self) -> Sums:
        return FourierSums(self)


class FourierTile(Tile):
    """Cosines and sines at some points, each computed once for a pair of features."""

    def __init__(self, span: FourierSpan, points: Array) -> None:
        points = like(points, span.home)
        xp = namespace(points)
        angle = points @ like(span.W[::2], points).T
        self.cos, self.sin = xp.cos(angle), xp.sin(angle)
        self.amplitudes = like(span.amplitudes, points)
        self.alike = span.size % 2 == 0

    @property
    def values(self) -> Array:
        return self._paired(self.cos, self.sin)

    @property
    def sines(self) -> Array:
        """S."""
        return self._paired(self.sin, -self.cos)

    def _paired(self, even: Array, odd: Array) -> Array:
        xp = namespace(even)
        columns = xp.reshape(xp.stack([even, odd], axis=-1), (even.shape[0], 2 * even.shape[1]))
        return columns[:, : self.amplitudes.shape[0]] * self.amplitudes


class FourierSums(Sums):
    """S'S."""

    def __init__(self, span: FourierSpan) -> None:
        self.span = span
        self.SS = zeros((span.size, span.size), span.home)

    def add(self, tile: FourierTile, root: Array, known: Array | None = None) -> None:
        if known is not None:
            order = np.arange(self.span.size) ^ 1  # each feature's other half
            signs = like(np.where(order % 2, 1.0, -1.0), known)
            self.SS += known[order][:, order] * signs[:, None] * signs
            return
        self.SS += square(tile.sines, root)

    def total(self) -> Matrix:
        return to_numpy(self.SS) * (self.span.W @ self.span.W.T)


def draw(kernel: Kernel, dimension: int, count: int, random: Random) -> FourierSpan:
    """`count` features of a kernel; each summand of a sum has its share."""
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
    return FourierSpan(kernel, np.concatenate(W), np.concatenate(b), np.concatenate(amplitudes))


def spectrum(kernel: Kernel, dimension: int, count: int, random: Random) -> np.ndarray[Any, Any]:
    """Frequencies (count, n) from the spectral density: Gaussian, or Gaussian with a random precision."""
    if isinstance(kernel, Pullback):
        matrix = np.diag(kernel.linear) if kernel.linear.ndim == 1 else kernel.linear
        return spectrum(kernel.kernel, len(matrix), count, random) @ matrix
    if not isinstance(kernel, (Gaussian, Matern, RationalQuadratic)):
        raise ValueError(
            f"The spectrum of {kernel!r} is not known: Fourier features are for Gaussian, Matern and RationalQuadratic "
            "kernels, their sums, multiples and linear changes of input. Use rkhs.Landmarks, which any kernel has."
        )
    normal = random.standard_normal((count, dimension)) * kernel.linear(dimension)
    if isinstance(kernel, Gaussian):
        return normal
    if isinstance(kernel, Matern):  # Student's t with 2 nu degrees of freedom
        return normal * np.sqrt(2 * kernel.nu / random.chisquare(2 * kernel.nu, size=(count, 1)))
    return normal * np.sqrt(random.gamma(kernel.alpha, 1 / kernel.alpha, size=(count, 1)))
