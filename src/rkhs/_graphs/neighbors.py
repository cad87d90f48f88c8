"""Nearest neighbors of every row: exact for up to 200,000 rows and on a GPU, by an index of pynndescent otherwise.

Exact distances of t rows take t^2 n operations: half a minute for 60,000 rows of 50 features on two cores, and a second
on a GPU.  Above `MANY` rows with more than `COMPONENTS` features, distances are those of the first principal
components, which are also less noisy: neighbors of 60,000 images by all 784 pixels lead to more errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.linalg

from rkhs._backend.arrays import Array, Matrix, Vector, to_numpy
from rkhs._progress import report_progress

MANY, COMPONENTS = 20_000, 50  # rows, and the number of principal components for more rows
INDEX = "pynndescent: pip install 'rkhs[graphs]', or compute on a GPU."
EXACT = 200_000  # rows up to which neighbors on a CPU are exact: five minutes on two cores


@dataclass(frozen=True, eq=False)
class Projection:
    """The affine map x -> directions (x / scale - center) to the coordinates in which distances are computed."""

    scale: Any  # a number, or one for each feature
    center: Vector  # (n,)
    directions: Matrix | None  # (m, n); None for the identity

    @classmethod
    def of(cls, X: Matrix, scale: Any = 1.0, components: int | None = None) -> Projection:
        """Return the map for points X (t, n), by default without a projection of at most `MANY` points."""
        scale = np.asarray(scale, dtype=np.float64)
        if scale.shape not in ((), (X.shape[1],)) or not np.all((scale > 0) & np.isfinite(scale)):
            raise ValueError(
                f"scale of a graph must be a positive number, or one for each of {X.shape[1]} features, got "
                f"{scale.tolist()!r}."
            )
        scaled = X / scale
        if components is None and len(X) > MANY and X.shape[1] > COMPONENTS:
            components = COMPONENTS
        directions = None if components is None else principal_directions(scaled, components)
        return cls(scale, scaled.mean(axis=0), directions)

    def __call__(self, X: Matrix) -> Matrix:
        centered = X / self.scale - self.center
        return centered if self.directions is None else np.asarray(centered @ self.directions.T)


def principal_directions(points: Matrix, count: int) -> Matrix:
    """Return the first principal directions of the points as orthonormal rows (r, n), by decreasing variance.

    Their number r is `count`, or the number of features or points if that is smaller.

    Examples
    --------
    >>> np.abs(principal_directions(np.array([[0.0, 1.0], [0.0, -1.0], [0.1, 0.0]]), 1)).round(6)
    array([[0., 1.]])
    """
    centered = points - points.mean(axis=0)
    centered = centered / (float(np.max(np.abs(centered), initial=0.0)) or 1.0)  # avoids overflow of the squares
    t, n = centered.shape
    if n > t:
        return np.linalg.svd(centered, full_matrices=False)[2][:count]
    return np.asarray(scipy.linalg.eigh(centered.T @ centered, subset_by_index=[max(0, n - count), n - 1])[1].T[::-1])


def nearest(points: Matrix, count: int, device: str | None = None) -> tuple[Matrix, Matrix]:
    """Return the distances (t, k) and the indices (t, k) of the k nearest other points of each point.

    The search is exact up to `EXACT` points, and on a `device` of PyTorch; above that pynndescent's index is used.
    """
    if device is not None:
        return _nearest_on_device(points, count, device)
    if len(points) > EXACT:
        return _nearest_by_index(points, count)
    return _index(points, count).kneighbors()


def can_search(count: int, device: str | None = None) -> bool:
    """Return whether the neighbors of this many points can be searched with the installed packages."""
    return count <= EXACT or device is not None or find_spec("pynndescent") is not None


def nearest_of(queries: Matrix, points: Matrix, count: int) -> tuple[Matrix, Matrix]:
    """Return the distances (s, k) and the indices (s, k) of the k points that are nearest to each query, exactly."""
    return _index(points, min(count, len(points))).kneighbors(queries)


def _index(points: Matrix, count: int) -> Any:
    from sklearn.neighbors import NearestNeighbors  # imported here because it is slow

    return NearestNeighbors(n_neighbors=count).fit(points)


def _nearest_by_index(points: Matrix, count: int) -> tuple[Matrix, Matrix]:
    try:
        from pynndescent import NNDescent
    except ImportError:
        raise ImportError(f"Graphs of more than {EXACT} rows, here {len(points)}, need {INDEX}") from None
    index = NNDescent(points.astype(np.float32), n_neighbors=max(count + 1, 15), random_state=0)
    neighbors, distances = index.neighbor_graph
    itself = neighbors == np.arange(len(points))[:, None]
    order = np.argsort(np.where(itself, np.inf, distances), axis=1, kind="stable")[:, :count]  # without itself
    rows = np.arange(len(points))[:, None]
    return distances[rows, order].astype(np.float64), neighbors[rows, order].astype(np.intp)


def _nearest_on_device(points: Matrix, count: int, device: str) -> tuple[Matrix, Matrix]:
    """Compute distances in tiles on a device, in float64 since float32 would confuse neighbors far from the center."""
    import torch

    data = torch.tensor(points, dtype=torch.float64, device=device)
    squares = torch.sum(data**2, dim=1)
    tile = max(1, int(1e8 // len(points)))
    distances, neighbors = np.empty((len(points), count)), np.empty((len(points), count), dtype=np.intp)
    for start in range(0, len(points), tile):
        rows = torch.arange(start, min(start + tile, len(points)), device=device)
        table = torch.addmm(squares[None, :] + squares[rows, None], data[rows], data.T, alpha=-2.0)
        table[rows - start, rows] = torch.inf  # without itself
        nearest = torch.topk(table, count, dim=1, largest=False)
        distances[start : start + tile] = to_numpy(torch.sqrt(torch.clip(nearest.values, 0.0)))
        neighbors[start : start + tile] = to_numpy(nearest.indices)
        report_progress((start + len(rows)) / len(points))
    return distances, neighbors


def as_rows(X: Array) -> Matrix:
    """Return points of any library as a float64 NumPy array."""
    return np.asarray(to_numpy(X), dtype=np.float64)
