"""Surfaces from points with normals: the zeros of a function that is learned in overlapping pieces.

f(x_i) = 0 and grad f(x_i) = n_i at all points (Hermite interpolation by r^3, which bounds slopes and has no scale) is
one system of four rows a point.  Balls of some hundred points each have systems of their own, and their functions f_k
are joined by weights that fall smoothly to zero at the edge of a ball:

    f = sum_k w_k f_k / sum_k w_k,        w_k = (1 - |x - c_k|^2 / R_k^2)^2 (1 + 2 |x - c_k|^2 / R_k^2)

All f_k are nearly the signed distance to the same surface, so that f is too; time grows linearly with the points.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from rkhs._backend.arrays import Matrix, as_array, to_numpy
from rkhs._finite.function import Function
from rkhs._finite.term import Term
from rkhs._problem import Problem
from rkhs._progress import interrupts_raised
from rkhs.functionals import Evaluation, Gradient
from rkhs.kernels import Polyharmonic
from rkhs.losses import Squared
from rkhs.solvers import Direct


@dataclass(frozen=True, eq=False)
class Surface:
    """The zeros of f, negative inside and about the signed distance nearby; made by `reconstruct_surface`.

    `surface(X)` is f at the rows of X, NaN where no ball reaches; `mesh` its zeros as triangles.
    """

    points: Matrix
    normals: Matrix
    centers: Matrix
    radii: Matrix
    pieces: tuple[Function, ...]  # of (x - center) / spacing, in units of the spacing
    spacing: float  # the mean distance of a point to its nearest neighbor

    def __repr__(self) -> str:
        return f"Surface({len(self.points)} points, {len(self.centers)} pieces)"

    def __call__(self, X: Any) -> Matrix:
        """Return f at the rows of X, (t,)."""
        points = to_numpy(as_array(X, "X")).astype(np.float64)
        total, weights = np.zeros(len(points)), np.zeros(len(points))
        tree = cKDTree(points)
        for center, radius, f in zip(self.centers, self.radii, self.pieces, strict=True):
            near = np.array(tree.query_ball_point(center, radius), dtype=int)
            if len(near):
                q = np.sum((points[near] - center) ** 2, axis=1) / radius**2
                w = np.clip(1 - q, 0, None) ** 2 * (1 + 2 * q)
                total[near] += w * self.spacing * to_numpy(f((points[near] - center) / self.spacing))
                weights[near] += w
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(weights > 0, total / weights, np.nan)

    def mesh(self, resolution: int = 100) -> tuple[Matrix, Matrix]:
        """Return the corners (v, 3) and triangles (m, 3) of the surface, by marching cubes (scikit-image).

        `resolution` is how many cells the longest side of the box has.  f is computed only in cells near a point; the
        others have the sign of their neighbors, so that the mesh is closed where the points are.  Corners, which
        marching cubes places on the edges of cells by linear interpolation, are then moved onto the zeros of f.
        """
        try:
            from skimage.measure import marching_cubes
        except ImportError:
            raise ImportError("A mesh needs scikit-image: pip install scikit-image.") from None
        low, high = self.points.min(axis=0), self.points.max(axis=0)
        cell = float(np.max(high - low)) / resolution
        low, high = low - 3 * cell, high + 3 * cell
        counts = np.ceil((high - low) / cell).astype(int) + 1
        axes = [low[k] + cell * np.arange(counts[k]) for k in range(3)]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
        distance, nearest = cKDTree(self.points).query(grid)
        near = distance <= 2 * cell + 2 * self.spacing
        inside = np.sum((grid - self.points[nearest]) * self.normals[nearest], axis=1) < 0  # of the nearest point
        values = np.where(inside, -distance, distance)
        found = self(grid[near])
        values[near] = np.where(np.isnan(found), values[near], found)
        corners, triangles, across, _ = marching_cubes(values.reshape(counts), 0.0)
        return self._onto(low + cell * corners, across, cell), triangles

    def _onto(self, corners: Matrix, across: Matrix, most: float) -> Matrix:
        """Move corners onto the zeros of f by Newton's steps along their normals, f being about the distance."""
        nearest = cKDTree(self.points).query(corners)[1]
        outward = np.sign(np.sum(across * self.normals[nearest], axis=1, keepdims=True)) * across
        for _ in range(2):  # from within a cell
            corners = corners - np.clip(np.nan_to_num(self(corners)), -most, most)[:, None] * outward
        return corners


def reconstruct_surface(
    points: Any, normals: Any, *, smoothing: float = 0.0, piece: int = 120, verbose: bool = False
) -> Surface:
    """Return an implicit `Surface` through points of space (t, 3) with outward normals (t, 3).

    Parameters
    ----------
    points, normals : normals of any length but zero; they are scaled to one
    smoothing : 0 goes through all points; larger numbers bend less, for noisy points (1 / smoothing^2 is the weight of
        an observation, in units of the spacing of points)
    piece : points of a piece, of which neighbors share about half
    verbose : whether to print progress to standard error

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> directions = np.random.default_rng(0).standard_normal((200, 3))
    >>> ball = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    >>> f = rkhs.reconstruct_surface(ball, ball)
    >>> f([[0.0, 0.0, 0.9], [0.0, 1.1, 0.0]]).round(2)
    array([-0.1,  0.1])
    """
    X, N = (
        to_numpy(as_array(given, name)).astype(np.float64) for given, name in ((points, "points"), (normals, "normals"))
    )
    if X.ndim != 2 or X.shape[1] != 3 or N.shape != X.shape or len(X) < 4:
        raise ValueError(f"Points and normals need shape (t, 3), four of them or more, got {X.shape} and {N.shape}.")
    lengths = np.linalg.norm(N, axis=1)
    if not np.all(lengths > 0):
        raise ValueError(f"Normal {int(np.flatnonzero(lengths == 0)[0])} has the length zero: leave its point out.")
    if smoothing < 0 or piece < 10:
        raise ValueError(f"smoothing is not negative and piece is at least 10, got {smoothing!r} and {piece!r}.")
    N = N / lengths[:, None]
    tree = cKDTree(X)
    spacing = float(np.mean(tree.query(X, k=2)[0][:, 1]))
    if spacing == 0:
        raise ValueError("Every point is given twice: leave the copies out.")
    centers, radii, members = _balls(X, tree, piece)
    weight = 1e8 if smoothing == 0 else 1 / smoothing**2
    pieces: list[Any] = []
    started = perf_counter()
    for k, (rows, center) in enumerate(zip(members, centers, strict=True)):
        Z = (X[rows] - center) / spacing
        terms = [Term(Evaluation(Z), Squared(), 0.0, weight), Term(Gradient(Z), Squared(), N[rows], weight)]
        with interrupts_raised():  # a surface with a hole in its middle is none
            pieces.append(Problem(Polyharmonic(3), terms).solve(Direct(), tol=1e-3).function)
        if verbose and perf_counter() - started > 2 and k % 20 == 0:  # after two seconds
            print(f"\rsurface: piece {k + 1} of {len(members)}", end="", file=sys.stderr, flush=True)
    return Surface(X, N, centers, radii, tuple(pieces), spacing)


def _balls(X: Matrix, tree: cKDTree, piece: int) -> tuple[Matrix, Matrix, list[Matrix]]:
    """Return centers, radii and members of balls that cover all points; no center lies in the inner half of another."""
    k = min(piece, len(X))
    covered = np.zeros(len(X), dtype=bool)
    centers, radii, members = [], [], []
    for i in range(len(X)):
        if covered[i]:
            continue
        distance, rows = tree.query(X[i], k=k)
        radius = float(distance[-1]) * (1 + 1e-9)
        covered[rows[distance <= 0.5 * radius]] = True
        covered[i] = True
        centers.append(X[i])
        radii.append(radius)
        members.append(np.asarray(rows))
    return np.array(centers), np.array(radii), members
