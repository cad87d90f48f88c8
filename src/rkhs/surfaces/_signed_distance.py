"""Implicit surfaces from points with normals, by Hermite interpolation on a partition of unity.

The conditions f(x_i) = 0 and grad f(x_i) = n_i at all points (Hermite interpolation with the kernel r^3, which has no
length scale) are a system of four equations per point.  The points are covered by overlapping balls of about a hundred
points each.  Each ball has its own system, and the functions f_k of the balls are blended by weights that fall smoothly
to zero at the boundary of the ball:

    f = sum_k w_k f_k / sum_k w_k,        w_k = (1 - |x - c_k|^2 / R_k^2)^2 (1 + 2 |x - c_k|^2 / R_k^2)

All f_k approximate the signed distance to the same surface, hence so does f.  Time is linear in the number of points.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from rkhs import Problem, Term
from rkhs.extend import Matrix, as_array, double, import_optional, interrupts_raised, to_numpy
from rkhs.functionals import Evaluation, Gradient
from rkhs.kernels import Polyharmonic
from rkhs.losses import Squared
from rkhs.results import Function
from rkhs.solvers import Direct


@dataclass(frozen=True, eq=False)
class Surface:
    """The zero level set of a function f, an approximate signed distance that is negative inside.

    It is returned by `reconstruct_surface`.  Call it to evaluate f.

    Parameters
    ----------
    points, normals : ndarray of shape (t, 3)
        The points and their unit normals.
    centers : ndarray of shape (k, 3)
        The centers of the balls that cover the points.
    radii : ndarray of shape (k,)
        The radii of the balls.
    pieces : tuple of Function
        The function of each ball, of (x - center) / spacing and in units of the spacing.
    spacing : float
        The mean distance of a point to its nearest neighbor.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> directions = np.random.default_rng(0).standard_normal((200, 3))
    >>> ball = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    >>> surface = rkhs.geometry.reconstruct_surface(ball, ball)
    >>> surface([[0.0, 0.0, 0.9]]).round(2)
    array([-0.1])
    """

    points: Matrix
    normals: Matrix
    centers: Matrix
    radii: Matrix
    pieces: tuple[Function, ...]
    spacing: float

    def __repr__(self) -> str:
        return f"Surface({len(self.points)} points, {len(self.centers)} pieces)"

    def __call__(self, X: Any) -> Matrix:
        """Evaluate f.

        Parameters
        ----------
        X : array-like of shape (t, 3)
            The points.

        Returns
        -------
        ndarray of shape (t,)
            The values of f, NaN at points in none of the balls.
        """
        points = double(as_array(X, "X"))
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
        """Return a triangle mesh of the surface by marching cubes, which needs scikit-image.

        f is evaluated only in cells near the points.  Elsewhere the signed distance to the nearest point is used, so
        that the mesh is closed if the points cover a closed surface.  The vertices, which marching cubes places by
        linear interpolation, are then moved onto the zeros of f.

        Parameters
        ----------
        resolution : int, default=100
            The number of cells along the longest side of the bounding box.

        Returns
        -------
        vertices : ndarray of shape (v, 3)
            The vertices.
        triangles : ndarray of shape (m, 3)
            The indices of the vertices of each triangle.
        """
        measure = import_optional("skimage.measure", "A mesh needs scikit-image: pip install 'rkhs[surface]'.")
        low, high = self.points.min(axis=0), self.points.max(axis=0)
        cell = float(np.max(high - low)) / resolution
        low, high = low - 3 * cell, high + 3 * cell
        counts = np.ceil((high - low) / cell).astype(int) + 1
        axes = [low[k] + cell * np.arange(counts[k]) for k in range(3)]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
        distance, nearest = cKDTree(self.points).query(grid)
        near = distance <= 2 * cell + 2 * self.spacing
        inside = np.sum((grid - self.points[nearest]) * self.normals[nearest], axis=1) < 0
        values = np.where(inside, -distance, distance)
        f = self(grid[near])
        values[near] = np.where(np.isnan(f), values[near], f)
        vertices, triangles, normals, _ = measure.marching_cubes(values.reshape(counts), 0.0)
        return self._project(low + cell * vertices, normals, cell), triangles

    def _project(self, vertices: Matrix, normals: Matrix, most: float) -> Matrix:
        """Move vertices onto the zeros of f by Newton steps of at most `most` along their normals.

        The gradient of f is about one, since f approximates the signed distance.
        """
        nearest = cKDTree(self.points).query(vertices)[1]
        outward = np.sign(np.sum(normals * self.normals[nearest], axis=1, keepdims=True)) * normals
        for _ in range(2):  # enough, since the vertices are within a cell of the zeros
            vertices = vertices - np.clip(np.nan_to_num(self(vertices)), -most, most)[:, None] * outward
        return vertices


def reconstruct_surface(
    points: Any, normals: Any, *, smoothing: float = 0.0, piece: int = 120, verbose: bool = False
) -> Surface:
    """Reconstruct an implicit surface from points in space with outward normals.

    Parameters
    ----------
    points : array-like of shape (t, 3)
        The points.
    normals : array-like of shape (t, 3)
        Their outward normals, of any positive length.
    smoothing : float, default=0.0
        With 0 the surface interpolates all points; larger values make it smoother, for noisy points.  The weight of an
        observation is 1 / smoothing^2, in units of the spacing of the points.
    piece : int, default=120
        The number of points in a piece; neighboring pieces share about half of their points.
    verbose : bool, default=False
        Whether to print progress to standard error.

    Returns
    -------
    Surface
        The surface.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> directions = np.random.default_rng(0).standard_normal((200, 3))
    >>> ball = directions / np.linalg.norm(directions, axis=1, keepdims=True)
    >>> f = rkhs.geometry.reconstruct_surface(ball, ball)
    >>> f([[0.0, 0.0, 0.9], [0.0, 1.1, 0.0]]).round(2)
    array([-0.1,  0.1])
    """
    X, N = (double(as_array(array, name)) for array, name in ((points, "points"), (normals, "normals")))
    if X.ndim != 2 or X.shape[1] != 3 or N.shape != X.shape or len(X) < 4:
        raise ValueError(f"points and normals need shape (t, 3) with t >= 4, got {X.shape} and {N.shape}.")
    lengths = np.linalg.norm(N, axis=1)
    if not np.all(lengths > 0):
        raise ValueError(f"Normal {int(np.flatnonzero(lengths == 0)[0])} has length zero: leave its point out.")
    if smoothing < 0 or piece < 10:
        raise ValueError(
            f"smoothing must be nonnegative and piece at least 10, got smoothing={smoothing!r} and piece={piece!r}."
        )
    N = N / lengths[:, None]
    tree = cKDTree(X)
    spacing = float(np.mean(tree.query(X, k=2)[0][:, 1]))
    if spacing == 0:
        raise ValueError("Every point is given at least twice: remove the duplicates.")
    centers, radii, members = _balls(X, tree, piece)
    weight = 1e8 if smoothing == 0 else 1 / smoothing**2
    pieces: list[Any] = []
    started = perf_counter()
    for k, (rows, center) in enumerate(zip(members, centers, strict=True)):
        Z = (X[rows] - center) / spacing
        terms = [Term(Evaluation(Z), Squared(), 0.0, weight), Term(Gradient(Z), Squared(), N[rows], weight)]
        with interrupts_raised():  # an incomplete surface is useless
            pieces.append(Problem(Polyharmonic(3), terms).solve(Direct(), tol=1e-3).function)
        if verbose and perf_counter() - started > 2 and k % 20 == 0:
            print(f"\rsurface: piece {k + 1} of {len(members)}", end="", file=sys.stderr, flush=True)
    return Surface(X, N, centers, radii, tuple(pieces), spacing)


def _balls(X: Matrix, tree: cKDTree, piece: int) -> tuple[Matrix, Matrix, list[Matrix]]:
    """Return the centers, radii and members of balls that cover all points.

    No center lies within half the radius of an earlier ball.
    """
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
