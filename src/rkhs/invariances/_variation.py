"""Total variation: the integral of the length of the gradient, for functions with jumps.

The integral over a box is a sum over cells, volume times the length of the mean slopes across the cell: the differences
of f between the centers of opposite faces, divided by the sides.  Derivatives at the centers would be a poor choice,
because f can jump between two centers without changing them; differences add up, and no jump along an axis is missed.
The sum is refined where it matters: cells whose 2^n halves have the most additional variation are divided.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, Matrix, Vector, as_points, like, to_numpy
from rkhs._finite.term import Term
from rkhs.functionals import Difference
from rkhs.functionals._base import Combination, Functional
from rkhs.losses import GroupNorm
from rkhs.losses._base import Loss

MOST_DIMENSIONS = 3


@dataclass(frozen=True)
class Cells:
    """Boxes that cover a box: their centers and sides (k, n)."""

    centers: Matrix
    sides: Matrix

    @classmethod
    def of_box(cls, low: Vector, high: Vector, count: int) -> Cells:
        """Return a grid of about `count` cells that are nearly cubes; axes without extent are not divided."""
        extent = high - low
        wide = extent > 0
        cell = float(np.prod(extent[wide]) / count) ** (1 / max(int(wide.sum()), 1))
        numbers = np.where(wide, np.maximum(np.round(extent / cell), 1), 1).astype(int)
        axes = [a + (np.arange(k) + 0.5) * e / k for a, e, k in zip(low, extent, numbers, strict=True)]
        centers = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(low))
        return cls(centers, np.broadcast_to(extent / numbers, centers.shape))

    @property
    def volumes(self) -> Vector:
        """The volumes (k,), over axes with an extent."""
        return np.prod(np.where(self.sides > 0, self.sides, 1.0), axis=1)

    def slopes(self, prototype: Array) -> Functional:
        """Return the mean slopes along all axes with an extent, of shape (k, axes)."""
        axes = np.flatnonzero(np.any(self.sides > 0, axis=0))
        steps = np.eye(self.sides.shape[1])[axes] * self.sides[:, None] / 2
        ahead, behind = (
            (self.centers[:, None] + sign * steps).reshape(-1, self.centers.shape[1]) for sign in (1.0, -1.0)
        )
        scaled = 1 / self.sides[:, axes].reshape(-1) * Difference(like(ahead, prototype), like(behind, prototype))
        shape = len(self.centers), len(axes)
        return Combination(shape, scaled.parts, f"mean slopes across {len(self.centers)} cells")

    def lengths(self, function: Any) -> Vector:
        """Return the lengths (k,) of the mean slopes of a function."""
        return np.linalg.norm(to_numpy(self.slopes(self.centers)(function)), axis=1)

    def halves(self) -> Cells:
        """Return the 2^n cells of half the sides in each cell, (k 2^n, n)."""
        signs = np.array(list(product((-0.25, 0.25), repeat=self.sides.shape[1])))
        centers = self.centers[:, None] + signs * self.sides[:, None]
        sides = np.broadcast_to(self.sides[:, None] / 2, centers.shape)
        return Cells(centers.reshape(-1, centers.shape[2]), sides.reshape(-1, centers.shape[2]))

    def divided(self, which: Vector) -> Cells:
        """Return the cells, some of them replaced by their halves."""
        new = Cells(self.centers[which], self.sides[which]).halves()
        kept = np.delete(np.arange(len(self.centers)), which)
        return Cells(np.concatenate([self.centers[kept], new.centers]), np.concatenate([self.sides[kept], new.sides]))


@dataclass(frozen=True)
class TotalVariation:
    """The prior that f has little total variation, which permits jumps and removes noise between them.

        integral of |grad f| over a box,        as a sum over cells of volume * |mean slopes across the cell|

    The squared gradient makes large slopes expensive and rounds off jumps; the length of the gradient does not (Rudin,
    Osher and Fatemi 1992).  Use `term` with a `Problem`, and `refined` to divide the cells at jumps; or pass it as the
    `invariance` of an estimator, which uses the cells of the box of its training points, all with the same weight.

    Parameters
    ----------
    cells : int, default=400
        The number of cells, about.
    box : tuple of array-like, optional
        The lower and upper corners of the box; in an estimator by default that of the points.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> x = np.linspace(0, 1, 60)[:, None]
    >>> y = (x[:, 0] > 0.5) + 0.1 * np.random.default_rng(0).standard_normal(60)
    >>> values = rkhs.Term(rkhs.Evaluation(x), rkhs.Squared(), target=y, weight=50.0)
    >>> variation = rkhs.TotalVariation(cells=60, box=([0.0], [1.0]))
    >>> f = rkhs.Problem(rkhs.Matern(1.5, scale=0.1), [values, variation.term(weight=3.0)]).solve(tol=1e-3).function
    >>> f([[0.2], [0.8]]).round(1) + 0.0
    array([0., 1.])
    >>> len(variation.refined(f, 10))
    70
    """

    cells: int = 400
    box: Any = None
    _cells: Cells | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not (isinstance(self.cells, int) and self.cells > 0):
            raise ValueError(f"cells of a TotalVariation must be a positive integer, got {self.cells!r}.")
        if self.box is not None and self._cells is None:
            try:
                low, high = (np.atleast_1d(np.asarray(corner, dtype=np.float64)) for corner in self.box)
            except (TypeError, ValueError):
                low = high = np.zeros(0)
            if low.shape != high.shape or low.ndim != 1 or not len(low) or not np.all(low <= high):
                raise ValueError(f"box of a TotalVariation must be its lower and upper corner, got {self.box!r}.")
            object.__setattr__(self, "_cells", _cells_of(low, high, self.cells))

    def __len__(self) -> int:
        return len(self._known.centers)

    @property
    def default_loss(self) -> Loss:
        """The loss in estimators: the length of the gradient."""
        return GroupNorm()

    @property
    def _known(self) -> Cells:
        if self._cells is None:
            raise ValueError("A TotalVariation without a box has no cells: pass box=(lower corner, upper corner).")
        return self._cells

    def __call__(self, X: Array) -> Functional:
        """Return the mean slopes across all cells.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points, whose box is used if none was given.

        Returns
        -------
        Functional
            The slopes.
        """
        points = as_points(X)
        cells = self._cells
        if cells is None:
            rows = to_numpy(points).astype(np.float64)
            cells = _cells_of(rows.min(axis=0), rows.max(axis=0), self.cells)
        return cells.slopes(points)

    def term(self, weight: float) -> Term:
        """Return the total variation as a term of a problem.

        Parameters
        ----------
        weight : float
            The weight of the integral.

        Returns
        -------
        Term
            The mean slopes across the cells, with their lengths as loss and the volumes as weights.
        """
        slopes = self._known.slopes(self._known.centers)
        return Term(slopes, GroupNorm(), weight=np.repeat(weight * self._known.volumes, slopes.shape[1]))

    def refined(self, function: Any, count: int) -> TotalVariation:
        """Divide the cells in which the total variation of a function is least accurate.

        Parameters
        ----------
        function : Function
            The solution with the present cells.
        count : int
            The number of additional cells, about.

        Returns
        -------
        TotalVariation
            The prior with more cells.
        """
        cells = self._known
        each = 2 ** cells.centers.shape[1]
        most = min(max(int(count) // (each - 1), 1), len(cells.centers))
        inside = cells.halves().lengths(function).reshape(-1, each).mean(axis=1)
        errors = cells.volumes * np.abs(inside - cells.lengths(function))
        worst = np.sort(np.argsort(-errors, kind="stable")[:most])
        return replace(self, _cells=cells.divided(worst))

    def value(self, function: Any) -> float:
        """Return the sum that approximates the total variation of a function.

        Parameters
        ----------
        function : Function
            A function.

        Returns
        -------
        float
            The sum over the cells.
        """
        return float(self._known.volumes @ self._known.lengths(function))


def _cells_of(low: Vector, high: Vector, count: int) -> Cells:
    if len(low) > MOST_DIMENSIONS:
        raise ValueError(
            f"TotalVariation covers a box with cells, in at most {MOST_DIMENSIONS} dimensions, got {len(low)}: use "
            "rkhs.Invariance(rkhs.Gradient, loss=rkhs.GroupNorm()), which uses the training points."
        )
    return Cells.of_box(low, high, count)
