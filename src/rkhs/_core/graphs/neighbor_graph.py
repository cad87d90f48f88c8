"""A graph whose nodes are the rows of X: neighbors, weights, Laplacian, and new points between the nodes.

With weights W on the edges and D the row sums of W, the Laplacian is  L = D - W,  and the normalized Laplacian is
I - D^-1/2 W D^-1/2,  whose eigenvalues lie between 0 and 2.

Neighbors are exact for up to 200,000 rows and on a GPU; otherwise an index of pynndescent finds them.  Exact distances
of t rows take t^2 n operations: half a minute for 60,000 rows of 50 features on two cores, and a second on a GPU.
Above `projected_rows` rows with more than `projected_features` features (`Limits`), distances are those of the first
principal components, which are also less noisy: neighbors of 60,000 images by all 784 pixels lead to more errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
import scipy.sparse.csgraph
from scipy.sparse import csr_array

from rkhs._core.backend.arrays import Array, Matrix, Vector, as_points, check_count, import_optional, row_keys, to_numpy
from rkhs._core.graphs.filters import ChebyshevFilters, SpectralFilters
from rkhs._core.limits import limits
from rkhs._core.progress import report_progress

INDEX = "pynndescent: pip install 'rkhs[graphs]', or compute on a GPU."


@dataclass(frozen=True, eq=False)
class Projection:
    """The affine map x -> directions (x / scale - center) to the coordinates in which distances are computed."""

    scale: Any  # a number, or one for each feature
    center: Vector  # (n,)
    directions: Matrix | None  # (m, n); None for the identity

    @classmethod
    def of(cls, X: Matrix, scale: Any = 1.0, components: int | None = None) -> Projection:
        """Return the map for points X (t, n), by default without a projection of at most `projected_rows` points."""
        scale = np.asarray(scale, dtype=np.float64)
        if scale.shape not in ((), (X.shape[1],)) or not np.all((scale > 0) & np.isfinite(scale)):
            raise ValueError(
                f"scale of a graph must be a positive number, or one for each of {X.shape[1]} features, got "
                f"{scale.tolist()!r}."
            )
        scaled = X / scale
        if components is None and len(X) > limits().projected_rows and X.shape[1] > limits().projected_features:
            components = limits().projected_features
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

    The search is exact up to `exact_neighbors` points (`Limits`), and on a `device` of PyTorch; above that the index of
    pynndescent is used.
    """
    if device is not None:
        return _nearest_on_device(points, count, device)
    if len(points) > limits().exact_neighbors:
        return _nearest_by_index(points, count)
    return _index(points, count).kneighbors()


def can_search(count: int, device: str | None = None) -> bool:
    """Return whether the neighbors of this many points can be searched with the installed packages."""
    return count <= limits().exact_neighbors or device is not None or find_spec("pynndescent") is not None


def nearest_of(queries: Matrix, points: Matrix, count: int) -> tuple[Matrix, Matrix]:
    """Return the distances (s, k) and the indices (s, k) of the k points that are nearest to each query, exactly."""
    return _index(points, min(count, len(points))).kneighbors(queries)


def _index(points: Matrix, count: int) -> Any:
    from sklearn.neighbors import NearestNeighbors  # imported here because it is slow

    return NearestNeighbors(n_neighbors=count).fit(points)


def _nearest_by_index(points: Matrix, count: int) -> tuple[Matrix, Matrix]:
    needs = f"Graphs of more than {limits().exact_neighbors} rows, here {len(points)}, need {INDEX}"
    index = import_optional("pynndescent", needs).NNDescent(
        points.astype(np.float32), n_neighbors=max(count + 1, 15), random_state=0
    )
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
    tile = max(1, limits().device_distances // len(points))
    distances, neighbors = np.empty((len(points), count)), np.empty((len(points), count), dtype=np.intp)
    for start in range(0, len(points), tile):
        rows = torch.arange(start, min(start + tile, len(points)), device=device)
        # |x_i - x_j|^2 = |x_i|^2 + |x_j|^2 - 2 <x_i, x_j>
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


DECAY = 4.0  # exponent of the weight of the last neighbor, exp(-4)


@dataclass(frozen=True, eq=False)
class NeighborGraph:
    """A weighted graph whose nodes are points, and the interpolation of its functions at new points.

        w_ij = exp(-4 |x_i - x_j|^2 / d_i^2),  d_i the distance of x_i to its farthest neighbor,

    for the nearest neighbors x_j of x_i, made symmetric.  A function u on the nodes has the value sum_j b_j(x) u_j at a
    new point x, with the weights b_j(x) of its neighbors among the nodes, normalized to the sum one.

    Use `NeighborGraph.of` to create one.

    Parameters
    ----------
    nodes : ndarray of shape (t, m)
        The nodes in the coordinates in which distances are computed.
    keys : ndarray of shape (t,)
        A number for each node by which equal points are recognized.
    weights : csr_array of shape (t, t)
        The symmetric weights of the edges.
    projection : callable
        The map from points to coordinates.
    n_neighbors : int
        The number of neighbors.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.kernels import NeighborGraph
    >>> graph = NeighborGraph.of(np.array([[0.0], [1.0], [3.0], [6.0]]), n_neighbors=1)
    >>> graph.weights.toarray().round(3)
    array([[0.   , 0.018, 0.   , 0.   ],
           [0.018, 0.   , 0.009, 0.   ],
           [0.   , 0.009, 0.   , 0.009],
           [0.   , 0.   , 0.009, 0.   ]])
    >>> graph.on_nodes(np.array([[3.0], [5.9]])).toarray()  # a node, and a new point next to another one
    array([[0., 0., 1., 0.],
           [0., 0., 0., 1.]])
    """

    nodes: Matrix
    keys: Vector
    weights: csr_array
    projection: Projection
    n_neighbors: int

    @classmethod
    def of(
        cls,
        X: Array,
        n_neighbors: int = 10,
        scale: Any = 1.0,
        components: int | None = None,
        graph: Any = None,
        device: str | None = None,
    ) -> NeighborGraph:
        """Join every point with its nearest neighbors, or take a graph of the user.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points; equal rows are one node.
        n_neighbors : int, default=10
            Two points are joined if one is among the `n_neighbors` nearest ones of the other.
        scale : float or array-like of shape (n,), default=1.0
            A divisor of the features, or one per feature, before distances are computed.
        components : int, optional
            The number of principal components in which distances are computed.  By default all features are used up
            to 20,000 points, and 50 components of more points.
        graph : sparse matrix of shape (t, t), optional
            A symmetric matrix of weights in place of nearest neighbors; these serve for new points only.
        device : str, optional
            A device of PyTorch such as "cuda", on which neighbors are searched.

        Returns
        -------
        NeighborGraph
            The graph.

        Examples
        --------
        >>> import numpy as np, scipy.sparse
        >>> from rkhs.kernels import NeighborGraph
        >>> path = scipy.sparse.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(3, 3))
        >>> NeighborGraph.of(np.eye(3), graph=path)
        NeighborGraph(3 nodes, 2 edges)
        """
        check_counts("NeighborGraph", components, n_neighbors=n_neighbors)
        rows = as_rows(as_points(X))
        if not len(rows):
            raise ValueError("A NeighborGraph needs at least one point.")
        keys = row_keys(rows)
        distinct = np.sort(np.unique(keys, return_index=True)[1])
        if len(distinct) < len(rows) and graph is not None:
            j = int(np.setdiff1d(np.arange(len(rows)), distinct)[0])
            i = int(np.flatnonzero(keys == keys[j])[0])
            raise ValueError(
                f"Rows {i} and {j} of X are equal, and f has one value there, but the graph has two nodes: merge the "
                "nodes of equal rows, by adding their rows and columns, or leave the graph out."
            )
        rows, keys = rows[distinct], keys[distinct]
        projection = Projection.of(rows, scale, components)
        nodes, count = projection(rows), min(int(n_neighbors), len(rows) - 1)
        if graph is not None:
            weights = checked_graph(graph, len(rows))
        elif count < 1:
            weights = csr_array((len(rows), len(rows)))
        else:
            distances, neighbors = nearest(nodes, count, device)
            weights = adjacency(heat_weights(distances), neighbors)
        return cls(nodes, keys, weights, projection, max(count, 1))

    def __getstate__(self) -> dict[str, Any]:
        kept = ("nodes", "keys", "weights", "projection", "n_neighbors")  # the rest is computed when it is needed
        return {name: value for name, value in vars(self).items() if name in kept}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NeighborGraph):
            return NotImplemented
        if self is other:
            return True
        same = self.n_neighbors == other.n_neighbors and np.array_equal(self.keys, other.keys)
        same = same and np.array_equal(self.nodes, other.nodes)
        return same and (self.weights != other.weights).nnz == 0

    def __hash__(self) -> int:
        return hash((self.n_neighbors, self.keys.tobytes()))

    def __repr__(self) -> str:
        return f"NeighborGraph({len(self.nodes)} nodes, {self.weights.nnz // 2} edges)"

    @cached_property
    def laplacian(self) -> csr_array:
        """The normalized Laplacian I - D^-1/2 W D^-1/2, D the row sums; rows of nodes without neighbors are zero."""
        return csr_array(scipy.sparse.csgraph.laplacian(self.weights, normed=True))

    @cached_property
    def filters(self) -> SpectralFilters | ChebyshevFilters:
        """Functions of the Laplacian: exact for small graphs, by polynomials for large ones."""
        return (SpectralFilters if len(self.nodes) <= limits().spectral_nodes else ChebyshevFilters)(self.laplacian)

    @cached_property
    def components(self) -> Vector:
        """The index (t,) of the connected component of each node."""
        return np.asarray(scipy.sparse.csgraph.connected_components(self.weights, directed=False)[1])

    def on_nodes(self, X: Array) -> csr_array:
        """Return the sparse matrix B (s, t) with which functions on the nodes are evaluated at points, f(X) = B u.

        Parameters
        ----------
        X : array-like of shape (s, n)
            The points: nodes, or new ones.

        Returns
        -------
        csr_array of shape (s, t)
            A unit vector for a node, and the weights of the neighbors for any other point.
        """
        node = self.index_of(X)
        known, new = np.flatnonzero(node >= 0), np.flatnonzero(node < 0)
        on = csr_array((np.ones(len(known)), (known, node[known])), shape=(len(node), len(self.nodes)))
        if len(new):
            queries = self.projection(as_rows(as_points(X))[new])
            distances, neighbors = nearest_of(queries, self.nodes, self.n_neighbors)
            on = on + self._interpolation(distances, neighbors, new, len(node))
        return csr_array(on)

    def index_of(self, X: Array) -> Vector:
        """Return the index of the node at each point, -1 for new points.

        Parameters
        ----------
        X : array-like of shape (s, n)
            The points.

        Returns
        -------
        ndarray of shape (s,)
            The indices.
        """
        rows = as_rows(as_points(X))
        if rows.shape[1] != len(self.projection.center):
            raise ValueError(f"{self!r} has points of {len(self.projection.center)} features, got {rows.shape[1]}.")
        # equal points have equal keys; a search in the sorted keys of the nodes takes log t steps for each
        keys, order = row_keys(rows), self._order
        node = order[np.clip(np.searchsorted(self.keys, keys, sorter=order), 0, len(order) - 1)]
        return np.where(self.keys[node] == keys, node, -1)

    def as_new_points(self, rows: Vector) -> csr_array:
        """Return the matrix (s, t) of `on_nodes` for some nodes as if they were new points.

        Parameters
        ----------
        rows : ndarray of shape (s,)
            The indices of the nodes.

        Returns
        -------
        csr_array of shape (s, t)
            The weights of their neighbors.
        """
        distances, neighbors = nearest_of(self.nodes[rows], self.nodes, self.n_neighbors + 1)
        others = neighbors != np.asarray(rows)[:, None]
        others[np.all(others, axis=1), -1] = False  # points at distance zero may hide the node itself
        kept = (len(rows), neighbors.shape[1] - 1)
        distances, neighbors = distances[others].reshape(kept), neighbors[others].reshape(kept)
        return self._interpolation(distances, neighbors, np.arange(len(rows)), len(rows))

    def _interpolation(self, distances: Matrix, neighbors: Matrix, rows: Vector, count: int) -> csr_array:
        """Return the matrix (count, t) whose given rows have the weights of neighbors, normalized to the sum one."""
        # b_j(x) = w_j(x) / sum_k w_k(x)
        weights = heat_weights(distances)
        weights /= weights.sum(axis=1, keepdims=True)
        index = np.repeat(rows, neighbors.shape[1])
        return csr_array((weights.ravel(), (index, neighbors.ravel())), shape=(count, len(self.nodes)))

    @cached_property
    def _order(self) -> Vector:
        return np.argsort(self.keys)


def check_counts(of: str, components: int | None, **counts: int) -> None:
    """Raise ValueError unless the counts of a graph are positive integers, as are the components if they are given."""
    for name, value in (counts if components is None else counts | {"components": components}).items():
        check_count(value, f"{name} of a {of}")


def heat_weights(distances: Matrix) -> Matrix:
    """Return the weights exp(-DECAY d^2 / d_k^2) of neighbors at distances (t, k), d_k being the largest of a row.

    The local width makes the weights independent of the density of points (Zelnik-Manor and Perona 2004).
    """
    farthest = distances[:, -1:]
    return np.exp(-DECAY * (distances / np.where(farthest > 0, farthest, 1.0)) ** 2)


def adjacency(weights: Matrix, neighbors: Matrix) -> csr_array:
    """Return the symmetric matrix (W + W') / 2 of the weights (t, k) of the edges from each point to its neighbors."""
    W = directed(weights, neighbors)
    # i -> j need not imply j -> i: (W + W') / 2
    return without_loops(csr_array((W + W.T) / 2))


def directed(weights: Matrix, neighbors: Matrix) -> csr_array:
    """Return the matrix (t, t) of the weights (t, k) of the edges from each point to its neighbors."""
    count, most = neighbors.shape
    return csr_array((weights.ravel(), (np.repeat(np.arange(count), most), neighbors.ravel())), shape=(count, count))


def normalized(W: csr_array) -> csr_array:
    """Return D^-1/2 W D^-1/2 with the degrees D."""
    degrees = np.asarray(W.sum(axis=1)).ravel()
    roots = scipy.sparse.diags_array(1 / np.sqrt(np.where(degrees > 0, degrees, 1.0)))
    return csr_array(roots @ W @ roots)


def laplacian_of(W: csr_array) -> csr_array:
    """Return L = D - W; rows of points without neighbors are zero."""
    return csr_array(scipy.sparse.csgraph.laplacian(W))


def without_loops(W: csr_array) -> csr_array:
    """Return the graph without edges from points to themselves."""
    W = csr_array(W - scipy.sparse.diags_array(W.diagonal()))
    W.eliminate_zeros()
    return W


def checked_graph(graph: object, count: int) -> csr_array:
    """Return a user's graph of `count` rows without loops; raise an error that says how to repair an invalid one."""
    W = csr_array(graph, dtype=np.float64)
    if W.shape != (count, count):
        raise ValueError(f"The graph has shape {W.shape}, but there are {count} points: it needs one row per point.")
    if W.nnz and not np.all((W.data >= 0) & np.isfinite(W.data)):
        raise ValueError("The weights of a graph must be finite and nonnegative.")
    if abs(W - W.T).max() > 0:
        raise ValueError(
            "The weights of a graph must be symmetric: pass (W + W.T) / 2, or W.maximum(W.T) to keep all edges."
        )
    return without_loops(W)
