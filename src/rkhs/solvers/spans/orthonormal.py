"""Orthonormal functions in a span, as far as rounding tells them apart.

With D K D = V diag(values) V', D the inverse norms of the psi, the functions psi D V / sqrt(values) are orthonormal
in H.  Values below the rounding of the left-hand side belong to combinations that floating-point numbers cannot tell
from zero: the span is that of the others, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from rkhs.backend.arrays import Array, like
from rkhs.functionals.base import Functional
from rkhs.gram.span import Span
from rkhs.kernels.base import Kernel

Matrix = np.ndarray[Any, Any]
EPS = float(np.finfo(np.float64).eps)
UNITS = 8.0  # of rounding


@dataclass(frozen=True, eq=False)
class Orthonormal:
    """psi D V / sqrt(values), orthonormal in H; V (p, m) has orthonormal columns, D (p,) are inverse norms."""

    D: Matrix
    V: Matrix
    values: Matrix  # the largest first

    @classmethod
    def of(cls, span: Span) -> Orthonormal:
        """All that rounding tells apart, within the span's constraints."""
        K, C = span.norm, span.constraints
        size = np.sqrt(np.abs(np.diag(K)) if not len(C) else np.abs(K).max(axis=1, initial=0.0))
        D = 1 / np.where(size > 0, size, 1.0)
        Z = scipy.linalg.null_space(C * D) if len(C) else None
        inner = D[:, None] * K * D
        inner = inner if Z is None else Z.T @ inner @ Z
        values, vectors = np.linalg.eigh((inner + inner.T) / 2)
        seen = values > UNITS * EPS * len(values) ** 0.5 * max(values[-1], 0.0) if len(values) else values > 0
        vectors = np.ascontiguousarray(vectors[:, seen][:, ::-1])
        return cls(D, vectors if Z is None else Z @ vectors, values[seen][::-1])

    @property
    def map(self) -> Matrix:
        """(p, m), from coefficients of the orthonormal functions to those of the psi."""
        return self.D[:, None] * (self.V / np.sqrt(self.values))

    @property
    def largest(self) -> float:
        """The largest of the values: DKD is right to a unit of rounding of it."""
        return float(self.values[:1].sum())

    def told_by(self, moments: float) -> int:
        """How many of them are told from zero by moments of psi D of such a norm, right to a unit of rounding.

        In orthonormal functions the errors of moments grow by 1 / values.
        """
        return int(np.count_nonzero(self.values > min(UNITS * EPS * moments, self.largest / 2)))


@dataclass(frozen=True, eq=False)
class OrthonormalSpan(Span):
    """The same span, of its orthonormal functions: rows are turned before they are summed up, which keeps digits.

    It costs three times as much as sums of rows as they are, and knows no closed forms.
    """

    kernel: Kernel
    span: Span
    functions: Orthonormal

    @classmethod
    def of(cls, span: Span, functions: Orthonormal) -> OrthonormalSpan:
        """The span of these functions of another one."""
        return cls(span.kernel, span, functions)

    @property
    def turn(self) -> Matrix:
        """(p, m), from coefficients of these functions to those of the psi."""
        return self.functions.map

    @property
    def size(self) -> int:
        return len(self.functions.values)

    @property
    def dimension(self) -> int:
        return self.span.dimension

    @property
    def home(self) -> Array:
        return self.span.home

    def moved(self, home: Array) -> OrthonormalSpan:
        return replace(self, span=self.span.moved(home))

    @property
    def norm(self) -> Matrix:
        return np.eye(self.size)

    @property
    def constraints(self) -> Matrix:
        return np.zeros((0, self.size))

    @cached_property
    def _turn(self) -> Array:
        return like(self.turn, self.home)

    def rows(self, functional: Functional) -> Array:
        return self.span.rows(functional) @ self._turn
