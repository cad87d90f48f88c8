"""Closed forms for landmarks that are single atoms: normal matrices of gradients without storing the gradients.

For k = phi(q) with q = <x, y> - rho/2 (|x|^2 + |y|^2), a landmark is a value at c_a or a derivative along v_a there:

    psi_a(x)      = phi                    or   phi' s_a                   s_a = <v_a, x - rho c_a>
    grad psi_a(x) = A_a (c_a - rho x) + B_a v_a,     A = phi', B = 0   or   A = phi'' s, B = phi'

For rho = 1 and d = c - x, <d_a, d_b> = -q_a - q_b - |c_a - c_b|^2/2, so that the normal matrix of all gradients is

    A'W + W'A - (A'A) * |c_a - c_b|^2/2 + (A'B) * <c_a - c_b, v_b> + its transpose + (B'B) * <v_a, v_b>

(* is the entrywise product) with W = -A q - B s: a few products of size t x p x p.  For rho = 0, W = 0, and <c_a, c_b>,
<c_a, v_b> replace the terms with differences.  After a linear change of input x -> Mx, inner products of gradients are
taken in the metric N = MM'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, Matrix, double, indices, like, namespace, to_numpy
from rkhs._calculus.atoms import mapped, pulled_back
from rkhs._calculus.forms import Form, near_pairs
from rkhs._spaces.base import Tile
from rkhs.functionals._base import Functional
from rkhs.kernels._base import Kernel


@dataclass(frozen=True, eq=False)
class AtomicLandmarks:
    """Landmarks that are values at points c_a or derivatives along v_a there, centered and then mapped by A."""

    form: Form
    original: Array  # (p, n), the points before the map
    origin: Array  # (n,), the center
    C: Array  # (p, m), the mapped points
    V: Array  # (d, m), the mapped directions
    slopes: np.ndarray[Any, Any]  # (d,), the indices of derivatives among the landmarks
    factors: Array  # (p,), the weights of the landmarks

    @classmethod
    def of(cls, kernel: Kernel, family: Functional) -> AtomicLandmarks | None:
        """Return landmarks in this form; None for sums of kernels, kernels without a form, and other functionals."""
        (weight, summand), *others = kernel.summands()
        form = summand.form(family.dimension)
        parts = sorted(family.parts, key=lambda part: part.start)
        if others or form is None or sum(part.size for part in parts) != family.size:
            return None
        if any(part.matrix is not None or part.atoms.blur is not None or part.atoms.order > 1 for part in parts):
            return None
        xp = namespace(family.prototype)
        flat = [part.atoms.take(np.arange(part.atoms.size)) for part in parts]
        original = xp.concat([atoms.points for atoms in flat])
        origin = xp.mean(original, axis=0) if form.rho else xp.zeros_like(original[0])
        slopes = np.concatenate([np.full(a.size, bool(a.order)) for a in flat])
        directions = xp.concat(
            [original[:0], *(xp.broadcast_to(a.u(0), (a.size, 1, a.dimension))[:, 0] for a in flat if a.order)]
        )
        factors = np.concatenate([np.full(part.size, weight * part.weight) for part in parts])
        C = mapped(original - origin, form.linear)
        V = mapped(directions, form.linear)
        return cls(form, original, origin, C, V, np.flatnonzero(slopes), like(factors, original))

    @cached_property
    def columns(self) -> Any:
        """The indices of the derivatives, as a slice if they are consecutive."""
        first, count = (int(self.slopes[0]), len(self.slopes)) if len(self.slopes) else (0, 0)
        if count == 0 or int(self.slopes[-1]) == first + count - 1:
            return slice(first, first + count)
        return indices(self.slopes, self.C)

    def gradient_normal(self, products: Sequence[Array]) -> Matrix:
        """Return the normal matrix of all gradients from A'A, A'W, A'B and B'B."""
        AA, AW, AB, BB = map(to_numpy, products)
        C, V = (double(pulled_back(side, self.form.linear)) for side in (self.C, self.V))
        across, towards, slopes = C @ C.T, C @ V.T, self.slopes
        if self.form.rho:
            halves = np.diag(across) / 2
            across = across - halves[:, None] - halves
            towards = towards - np.sum(C[slopes] * V, axis=1)
        mixed = AB * towards
        normal = AW + AW.T + AA * across
        normal[:, slopes] += mixed
        normal[slopes] += mixed.T
        normal[np.ix_(slopes, slopes)] += BB * (V @ V.T)
        factors = to_numpy(self.factors)
        return factors[:, None] * (normal + normal.T) / 2 * factors


class LandmarkTile(Tile):
    """The functions of landmarks at some points, by q, s and the radial derivatives phi, phi', ..."""

    def __init__(self, landmarks: AtomicLandmarks, points: Array) -> None:
        self.landmarks = landmarks
        form, C, V, index = landmarks.form, landmarks.C, landmarks.V, landmarks.columns
        points = like(points, landmarks.original)
        self.Y = Y = mapped(points - landmarks.origin, form.linear)
        xp = namespace(Y)
        q, s = Y @ C.T, Y @ V.T
        if form.rho:
            x_halves, c_halves = (xp.vecdot(side, side, axis=-1) / 2 for side in (Y, C))
            q -= x_halves[:, None]
            q -= c_halves
            s -= xp.vecdot(C[index], V, axis=-1)
            if 0 not in q.shape:
                self._correct_near_pairs(points, q, s, x_halves, c_halves)
        self.q, self.s = q, s
        last = 2 if len(landmarks.slopes) else 1
        self.phi = phi = form.radial_derivatives(xp.asarray(q, copy=True), range(last + 1))
        plain = bool(np.all(to_numpy(landmarks.factors) == 1))
        self.alike = plain and all(derivative is phi[0] for derivative in phi.values())

    def _correct_near_pairs(self, points: Array, q: Array, s: Array, x_halves: Array, c_halves: Array) -> None:
        """Recompute q and s at points near a landmark from differences, because |x|^2 - 2<x, c> + |c|^2 cancels."""
        form, original, slopes = self.landmarks.form, self.landmarks.original, self.landmarks.slopes
        slope_index = np.full(len(original), -1)
        slope_index[slopes] = np.arange(len(slopes))
        for i, j in near_pairs(form, q, x_halves, c_halves, original.shape[1]):
            difference = form.difference(points[i], original[j])
            xp = namespace(difference)
            q[i, j] = -xp.sum(difference * difference, axis=-1) / 2
            column = slope_index[to_numpy(j)]
            subset, k = indices(np.flatnonzero(column >= 0), q), indices(column[column >= 0], q)
            s[i[subset], k] = xp.sum(difference[subset] * self.landmarks.V[k], axis=-1)

    @property
    def values(self) -> Array:
        E, index = namespace(self.q).asarray(self.phi[0], copy=True), self.landmarks.columns
        if len(self.landmarks.slopes):
            E[:, index] = self.phi[1][:, index] * self.s
        E *= self.landmarks.factors
        return E

    def gradient_products(self, root: Array, known: Array | None) -> list[Array]:
        """Return A'A, A'W, A'B and B'B for landmarks of weight one."""
        landmarks, index = self.landmarks, self.landmarks.columns
        A = self.phi[1] * root
        B = namespace(A).asarray(A[:, index], copy=True)
        if len(landmarks.slopes):
            A[:, index] = self.phi[2][:, index] * (self.s * root)
        AA = A.T @ A if known is None else known
        AW = A.T @ self._W(A, B) if landmarks.form.rho else 0 * AA
        return [AA, AW, A.T @ B, B.T @ B]

    def _W(self, A: Array, B: Array) -> Array:
        """Return W = -A q - B s, with q and s in the metric N."""
        landmarks, index, xp = self.landmarks, self.landmarks.columns, namespace(A)
        q, s, linear = self.q, self.s, landmarks.form.linear
        scale = 1.0
        if linear is not None and linear.ndim == 1 and bool(np.all(linear == linear[0])):  # N = scale I
            scale = float(linear[0]) ** 2
        elif linear is not None:
            C, V, Y = (pulled_back(side, linear) for side in (landmarks.C, landmarks.V, self.Y))
            q = Y @ C.T - xp.vecdot(Y, Y, axis=-1)[:, None] / 2 - xp.vecdot(C, C, axis=-1) / 2
            s = Y @ V.T - xp.vecdot(C[index], V, axis=-1)
        W = A * q
        W[:, index] += B * s
        W *= -scale
        return W
