"""Derivatives of kernels in their settings, which are paired with atoms as kernels are.

With z = x / s a radial kernel is phi(q), q = sum_j q_j, q_j = -(z_j - z'_j)^2 / 2, and dq_j / dlog s_j = -2 q_j.  So

    dk / dlog s_j  =  phi'(q) * (-2 q_j)

is a product of two forms, whose derivatives are Leibniz's.  In one scale for all features it is -2 q phi'(q), of q
alone.  Rough kernels have a phi' that is not finite at q = 0, where its product with q_j is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, namespace
from rkhs._calculus.forms import Form, Ladder
from rkhs._calculus.pairing import Pairing
from rkhs.kernels.algebra import Product
from rkhs.kernels.base import FormKernel, Kernel


@dataclass(frozen=True, eq=False)
class Formed(FormKernel):
    """phi(q) of a form that is at hand."""

    given: Form

    def smoothness(self, dimension: int) -> float:
        return inf

    def form(self, dimension: int) -> Form:
        return self.given


@dataclass(frozen=True, eq=False)
class Weighted(Kernel):
    """sum_i c_i k_i with numbers c_i of any sign."""

    parts: tuple[tuple[float, Kernel], ...]

    def smoothness(self, dimension: int) -> float:
        return min(k.smoothness(dimension) for _, k in self.parts)

    def summands(self) -> tuple[tuple[float, Kernel], ...]:
        return tuple((c * weight, part) for c, k in self.parts for weight, part in k.summands())

    def pair(self, pairing: Pairing) -> Array:
        return sum(c * k.pair(pairing) for c, k in self.parts)


@dataclass(frozen=True)
class ScaleTangent(Kernel):
    """The derivative of a radial kernel in the logarithm of its scale, or of that of one feature."""

    kernel: Any  # a ScaledKernel
    feature: int | None = None

    def smoothness(self, dimension: int) -> float:
        return float(self.kernel.smoothness(dimension))

    def form(self, dimension: int) -> Form | None:
        form: Form = self.kernel.form(dimension)
        return replace(form, ladder=dilated(form.ladder)) if self.feature is None else None

    def pair(self, pairing: Pairing) -> Array:
        form = self.form(pairing.dimension)
        if form is not None:
            return form(pairing)
        given: Form = self.kernel.form(pairing.dimension)
        row = np.zeros((1, pairing.dimension))
        row[0, self.feature] = np.asarray(given.linear)[self.feature]
        return Product((Formed(replace(given, ladder=shifted(given.ladder))), square(row))).pair(pairing)

    def blurred(self, covariance: np.ndarray[Any, Any]) -> Kernel:
        """Of each Gaussian that the kernel is a mixture of."""
        mixture = self.kernel.gaussians(len(covariance))
        return Weighted(tuple((w, k.blurred_tangent(covariance, self.feature)) for w, k in mixture))


def square(A: np.ndarray[Any, Any]) -> Kernel:
    """|A (x - y)|^2."""

    def ladder(q: Array, rungs: range) -> dict[int, Array]:
        xp = namespace(q)
        values = {0: -2 * q, 1: xp.full_like(q, -2.0)}
        return {k: values[k] if k < 2 else xp.zeros_like(q) for k in rungs}

    return Formed(Form(1, ladder, smooth=False, linear=A))


def shifted(ladder: Ladder) -> Ladder:
    """The ladder of phi'."""

    def phi(q: Array, rungs: range) -> dict[int, Array]:
        above = ladder(q, range(rungs[0] + 1, rungs[-1] + 2))
        return {k: above[k + 1] for k in rungs}

    return phi


def dilated(ladder: Ladder) -> Ladder:
    """The ladder of -2 q phi'(q):  -2 (q phi^(k+1) + k phi^(k))."""

    def phi(q: Array, rungs: range) -> dict[int, Array]:
        own = namespace(q).asarray(q, copy=True)
        given = ladder(q, range(rungs[0], rungs[-1] + 2))
        return {k: -2 * (own * given[k + 1] + k * given[k]) for k in rungs}

    return phi
