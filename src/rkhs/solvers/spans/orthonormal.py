"""Orthonormal functions in a span, as far as rounding tells them apart.

With D K D = V diag(values) V', D the inverse norms of the psi, the functions psi D V / sqrt(values) are orthonormal
in H.  Values below the rounding of the left-hand side belong to combinations that floating-point numbers cannot tell
from zero: the span is that of the others, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.linalg

from rkhs._backend.arrays import Array, Matrix, like, to_numpy
from rkhs._gram.landmark_span import LandmarkSpan
from rkhs._gram.operator import gram
from rkhs._gram.span import Span
from rkhs.functionals.base import Functional
from rkhs.functionals.derivatives import DirectionalDerivative
from rkhs.kernels.base import Kernel

EPS = float(np.finfo(np.float64).eps)
UNITS = 8.0  # of rounding
NEAR = 32  # times the rounding of K, up to which two landmarks may be one
MADE_UP = 1e-6  # the share of a derivative's squared norm outside of the functions, up to which it is among them


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
        seen = values > lost(len(values)) * max(values[-1], 0.0) if len(values) else values > 0
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


def lost(size: int) -> float:
    """The share of the largest eigenvalue of a matrix of this size under which others are rounding."""
    return UNITS * EPS * float(size) ** 0.5


def coincident(span: Span, functions: Orthonormal) -> int:
    """Return how many landmarks are values at a point that only rounding identifies with that of another landmark.

    What tells two of them apart is a derivative nearly, times their distance, and is left out where the square of that
    is lost in K.  It is lost to the span where the functions that are left do not make up for it.  Landmarks at one
    point have nothing to lose.  Second differences of three landmarks that near are not looked for.
    """
    if not isinstance(span, LandmarkSpan) or len(span.constraints):
        return 0
    parts = [part for part in span.functionals.parts if part.atoms.order == 0 and part.matrix is None]
    single = sum(part.size for part in span.functionals.parts) == span.size  # each landmark is one atom
    if not parts or not single or any(part.atoms.blur is not None for part in parts):
        return 0
    points = np.concatenate([to_numpy(part.atoms.points) for part in parts])
    rows = np.concatenate([np.arange(part.rows.start, part.rows.stop) for part in parts])
    points, first = np.unique(points, axis=0, return_index=True)
    D = 1 / np.sqrt(np.diag(span.norm)[rows[first]])
    K = D[:, None] * span.norm[np.ix_(rows[first], rows[first])] * D
    largest = float(np.max(np.sum(np.abs(K), axis=1), initial=0.0))  # no eigenvalue is larger
    near = np.triu(NEAR * lost(span.size) * largest >= 1 - K, 1)
    later = np.flatnonzero(near.any(axis=0))
    if len(later) == 0 or span.kernel.smoothness(span.dimension) <= 1:
        return len(later)
    apart = points[later] - points[np.argmax(near[:, later], axis=0)]
    apart /= np.max(np.abs(apart), axis=1, keepdims=True)  # squares of distances may underflow
    slopes = DirectionalDerivative(like(points[later], span.home), like(apart, span.home))
    within = np.sum((to_numpy(span.rows(slopes)) @ functions.map) ** 2, axis=1)
    return int(np.count_nonzero(within < (1 - MADE_UP) * to_numpy(gram(span.kernel, slopes).diagonal())))


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
