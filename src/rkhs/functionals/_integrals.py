"""Integrals over boxes, segments and polygons, by Gauss-Legendre nodes.

With q nodes a side the rule is exact for polynomials of degree 2q - 1; for a function that is smooth on the scale s
and sides of length h, its error falls like (h / 4 s sqrt(q))^2q: 16 nodes are exact to rounding for sides of up to
three scales of a Gaussian.  `rkhs.quadrature_error` says what is left for a kernel, and `rkhs.quadrature_nodes` takes as
many as leave nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse

from rkhs._backend.arrays import Matrix, as_array, to_numpy
from rkhs._calculus.atoms import Atoms
from rkhs.functionals._base import Functional, Part

MOST = 200  # nodes a side; twice as many to tell how good these are


@dataclass(frozen=True, eq=False)
class Lines:
    """Straight lines along which a rule goes: of which regions (m,), their sides (m, n), and the weight of each (m,).

    On a `growing` line the density is u, from 0 to 1, instead of 1.
    """

    region: Matrix
    sides: Matrix
    size: Matrix
    growing: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Integral(Functional):
    """Integrals of f over boxes, segments or polygons: shape (t,).

    L_i(f) is the integral over region i.  Made by `Integral.boxes`, `.segments` and `.polygons`.

    Every region has all its nodes in `places` (t, k, n), with weights (t, k).

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> squares = rkhs.Integral.boxes([[0.0, 0.0]], [[1.0, 2.0]])
    >>> squares(rkhs.Polynomials(degree=2)).round(6)  # of 1, x, y, x^2, x y, y^2
    array([[2.      , 1.      , 2.      , 0.666667, 1.      , 2.666667]])
    """

    places: Matrix
    weights: Matrix
    kind: str
    nodes: int
    regions: tuple[Any, ...]  # what `kind` was given, to make the same with more nodes
    mean: bool = False

    def __repr__(self) -> str:
        t, _, n = self.places.shape
        return f"Integral({'mean over ' if self.mean else ''}{t} {self.kind} in R^{n}, {self.nodes} nodes a side)"

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self.places),)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        t, k, n = self.places.shape
        rows = np.repeat(np.arange(t), k)
        W = scipy.sparse.csr_array((self.weights.reshape(-1), (rows, np.arange(t * k))), shape=(t, t * k))
        return (Part(Atoms.values(self.places.reshape(t * k, n)), matrix=W),)

    def with_nodes(self, nodes: int) -> Integral:
        """Return the same integrals with another number of nodes a side."""
        return getattr(Integral, self.kind)(*self.regions, nodes=nodes, mean=self.mean)

    @property
    def lines(self) -> list[Lines]:
        """The lines whose rules, one after the other, make this one: its error is the sum of theirs, at most."""
        if self.kind == "polygons":  # of each triangle: across, at a distance u from the first corner, and both sides
            (polygons,) = self.regions
            which = np.repeat(np.arange(len(polygons)), [len(corners) - 2 for corners in polygons])
            one = np.concatenate([corners[1:-1] - corners[0] for corners in polygons])
            other = np.concatenate([corners[2:] - corners[0] for corners in polygons])
            doubled = one[:, 0] * other[:, 1] - one[:, 1] * other[:, 0]
            if self.mean:
                doubled = doubled / np.abs(np.bincount(which, doubled / 2))[which]
            size = np.abs(doubled)
            return [Lines(which, other - one, size / 2), Lines(which, one, size, True), Lines(which, other, size, True)]
        sizes, along = self.weights.sum(axis=1), self.regions[1] - self.regions[0]
        which = np.arange(len(along))
        if self.kind == "segments":
            return [Lines(which, along, sizes)]
        return [Lines(which, along * unit, sizes) for unit in np.eye(along.shape[1])]

    @classmethod
    def boxes(cls, lower: Any, upper: Any, *, nodes: int = 8, mean: bool = False) -> Integral:
        """Over boxes from the corners `lower` (t, n) to `upper` (t, n); with `mean` divided by their volume.

        Bins of a table, cells of a grid, pixels: nodes^n points for each, so few dimensions.
        """
        low, high = (_rows(value, name) for value, name in ((lower, "lower"), (upper, "upper")))
        if low.shape != high.shape or not np.all(high > low):
            which = "" if low.shape != high.shape else f", and box {np.argmax(np.any(high <= low, axis=1))} has none"
            raise ValueError(
                f"Boxes need a lower corner below the upper one in each feature, got shapes {low.shape} and "
                f"{high.shape}{which}."
            )
        n = low.shape[1]
        x, w = _rule(nodes)
        grid = np.stack(np.meshgrid(*[x] * n, indexing="ij"), axis=-1).reshape(-1, n)
        each = np.stack(np.meshgrid(*[w] * n, indexing="ij"), axis=-1).reshape(-1, n).prod(axis=1)
        places = low[:, None, :] + (high - low)[:, None, :] * grid
        return cls(places, _weights(each, (high - low).prod(axis=1), mean), "boxes", nodes, (low, high), mean)

    @classmethod
    def segments(cls, start: Any, end: Any, *, nodes: int = 8, mean: bool = False) -> Integral:
        """Along straight lines from `start` (t, n) to `end` (t, n), by length; with `mean` divided by it.

        Rays of tomography, tracks of an aircraft.
        """
        a, b = (_rows(value, name) for value, name in ((start, "start"), (end, "end")))
        lengths = np.linalg.norm(b - a, axis=1) if a.shape == b.shape else np.zeros(1)
        if a.shape != b.shape or not np.all(lengths > 0):
            raise ValueError(f"Segments have two ends that differ, got shapes {a.shape} and {b.shape}.")
        x, w = _rule(nodes)
        places = a[:, None, :] + x[:, None] * (b - a)[:, None, :]
        return cls(places, _weights(w, lengths, mean), "segments", nodes, (a, b), mean)

    @classmethod
    def polygons(cls, corners: Sequence[Any], *, nodes: int = 8, mean: bool = False) -> Integral:
        """Over polygons of the plane, each a list of corners (k, 2) in order; with `mean` divided by the area.

        By triangles from the first corner, those that turn back being subtracted: right for every polygon whose sides
        do not cross, but f has to be defined in the triangles.
        """
        if not corners:
            raise ValueError("There are no polygons: give a list of corners (k, 2) for each.")
        shapes = [_rows(one, "corners") for one in corners]
        most = max(len(one) for one in shapes) - 2
        if any(one.shape[1] != 2 or len(one) < 3 for one in shapes):
            raise ValueError("A polygon of the plane has three corners (k, 2) at least.")
        x, w = _rule(nodes)
        u, v = (part.reshape(-1) for part in np.meshgrid(x, x, indexing="ij"))
        each = np.outer(w * x, w).reshape(-1)  # Duffy: (u, u v) covers the triangle, with the density u
        places, weights = [], []
        for one in shapes:
            first, a, b = one[0], one[1:-1] - one[0], one[2:] - one[0]
            doubled = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
            area = float(doubled.sum()) / 2
            if abs(area) <= 1e-12 * float(np.abs(doubled).sum()):
                raise ValueError(f"A polygon has no area: {one.tolist()}.")
            own = first + u[None, :, None] * (a[:, None, :] + v[None, :, None] * (b - a)[:, None, :])
            share = np.sign(area) * doubled[:, None] * each / (abs(area) if mean else 1.0)
            lacking = most - len(a)
            places.append(np.concatenate([own, np.repeat(own[:1], lacking, axis=0)]).reshape(-1, 2))
            weights.append(np.concatenate([share, np.zeros((lacking, len(each)))]).reshape(-1))
        return cls(np.stack(places), np.stack(weights), "polygons", nodes, (shapes,), mean)


def _rule(nodes: int) -> tuple[Matrix, Matrix]:
    """Gauss-Legendre nodes and weights on [0, 1]."""
    if not (isinstance(nodes, int) and 1 <= nodes <= 2 * MOST):
        raise ValueError(f"nodes is a whole number from 1 to {2 * MOST}, got {nodes!r}.")
    x, w = np.polynomial.legendre.leggauss(nodes)
    return (x + 1) / 2, w / 2


def _weights(each: Matrix, sizes: Matrix, mean: bool) -> Matrix:
    return np.broadcast_to(each, (len(sizes), len(each))) * (1.0 if mean else sizes[:, None])


def _rows(values: Any, name: str) -> Matrix:
    found = to_numpy(as_array(values, name)).astype(np.float64)
    if found.ndim != 2 or found.size == 0:
        raise ValueError(f"{name} is an array of rows, one for each region, got shape {found.shape}.")
    return found
