"""Kernels of graphs of labeled and unlabeled points, as candidates of the automatic search, and what they say.

*Candidates.*  `Graphs.candidates` yields the kernels of graphs of nearest neighbors, with several cutoffs, whose
leave-one-out errors are compared.

*The assumption of clusters.*  `Graphs.cluster_sum` depends on the points alone: it assumes that points of one cluster
share a class.  It is the sum of

    a Gaussian kernel of standardized features, and one of their first three principal components,
    a kernel of the graph of features divided by their ranges, and one of standardized features,

each with the mean variance one.  The cutoff of a graph kernel is the largest one with at most as many degrees of
freedom as there are classes: then its functions are nearly constant on that many clusters.  Where points form no
clusters this leaves the constants, which are free anyway, and the Gaussian kernels decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Array, Matrix, Vector, placed, take_rows, to_numpy
from rkhs._core.calculus.atoms import mapped
from rkhs._core.finite.function import Function
from rkhs._core.graphs.neighbor_graph import NeighborGraph
from rkhs._core.limits import limits
from rkhs.estimators._length_scales import FeatureTransform, NormalizedKernels, feature_maps, units_of
from rkhs.exceptions import warn
from rkhs.functionals import Evaluation
from rkhs.kernels import GraphKernel, Kernel, Sum, median_scale
from rkhs.kernels._algebra import LinearTransform
from rkhs.kernels._graph import graph_kernels, kernel_matrices

POWER, CUTOFFS = 2, (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
NEIGHBORS = 10
MORE_COMPONENTS = 100  # tried besides the usual number for many points of many features
SMALL = 4000
CLUSTER_POWER = 3
LOWER_CUTOFFS = (0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 5e-4, 2e-4)
LOWEST_CUTOFFS = (1e-4, 5e-5, 2e-5, 1e-5)  # for small graphs; polynomials of high degree take long


@dataclass(frozen=True, eq=False)
class Graphs:
    """The graphs of nearest neighbors of points, each of which is built once."""

    X: Matrix  # (t, n)
    one_unit: bool = False  # whether all features are measured in the same unit
    device: str | None = None  # where they are computed
    built: dict[Any, NeighborGraph] = field(default_factory=dict)

    @property
    def place(self) -> Any:
        """An empty array where the products are computed."""
        empty = placed(np.empty(0), self.device, None)
        return np.empty(0) if empty is None else empty

    @property
    def components(self) -> list[int | None]:
        """The numbers of principal components to try in searches of neighbors, None for the default.

        Which of 50 and 100 is better depends on the features: on 60,000 images 50 of pixels, and 100 of edge
        directions.
        """
        (t, n), at = self.X.shape, limits()
        if t <= at.projected_rows or n <= at.projected_features or (self.device is None and t > at.exact_neighbors):
            return [None]
        return [at.projected_features, min(MORE_COMPONENTS, n)]

    def graph(self, unit: Any, components: int | None) -> NeighborGraph:
        """Return the graph of the points divided by `unit`."""
        count, key = min(NEIGHBORS, len(self.X) - 1), (np.asarray(unit).tobytes(), components)
        if key not in self.built:
            self.built[key] = NeighborGraph.of(self.X, count, unit, components, device=self.device)
        return self.built[key]

    def candidates(self, labels: Vector, features: FeatureTransform) -> Iterator[tuple[GraphKernel, Matrix]]:
        """Yield graph kernels after a feature map, with their matrices (l, l) of the labeled points."""
        place = self.place
        for number in self.components if features.components is None else [features.components]:
            kernels = graph_kernels(self.graph(features.unit, number), POWER, CUTOFFS, place)
            yield from zip(kernels, kernel_matrices(kernels, self.X[labels], place), strict=True)

    def cluster_sum(self, most: int, rows: Matrix, kernel: Any, kernels: NormalizedKernels) -> Kernel:
        """Return the sum of kernels that assumes clusters, of which there are at most as many as given.

        `rows` is a sample of the points, for covariances and medians.
        """
        units = units_of(rows, self.one_unit)
        maps = [FeatureTransform(units[-1])]
        named: Any = kernels(kernel, 1.0)
        if named.distance == "euclidean":
            maps += [f for f in feature_maps(rows) if f.components == 3 and np.array_equal(f.unit, units[-1])]
        summands: list[Kernel] = []
        for features in maps:
            median = median_scale(features.points(rows), distance=named.distance)
            summands.append(kernels(*features.kernel(kernel, median, kernels)))
        graphs = [self.graph(unit, self.components[-1]) for unit in units]
        return Sum((*summands, *(cluster_kernel(graph, most, self.place) for graph in graphs)))


def cluster_kernel(graph: NeighborGraph, most: int, place: Array) -> GraphKernel:
    """Return the kernel with the largest cutoff that has at most `most` degrees of freedom.

    Connected components count: there are no fewer degrees of freedom than components.
    """
    most = max(most, int(graph.components.max(initial=0)) + 1)
    cutoffs = LOWER_CUTOFFS + (LOWEST_CUTOFFS if len(graph.nodes) <= limits().spectral_nodes else ())
    for cutoff in cutoffs:
        [kernel] = graph_kernels(graph, CLUSTER_POWER, [cutoff], place)
        if kernel.degrees_of_freedom <= 1.05 * most:  # the trace is an estimate
            break
    return kernel


def unreached(graph: NeighborGraph, labels: Vector) -> int:
    """Return the number of nodes in connected components without a label, given the nodes that have one."""
    return int(np.sum(~np.isin(graph.components, np.unique(graph.components[labels]))))


def warn_of_unreached(graph: NeighborGraph, X: Array, labeled: Vector) -> int:
    """Warn if no label of the points X (t, n) of a graph can reach some nodes; return the number of these nodes.

    A label of a point that is no node reaches the neighbors of the point.
    """
    count = unreached(graph, graph.on_nodes(take_rows(X, np.flatnonzero(labeled))).indices)
    if count:
        warn(
            f"{count} distinct rows are in components of the graph of nearest neighbors that have no label: their "
            "predictions rest on the other rows alone. Label a row of each component, or join them with a larger "
            "n_neighbors, as in kernel=GraphKernel(NeighborGraph.of(X, n_neighbors=30))."
        )
    return count


def graphs_in(kernel: Any) -> list[NeighborGraph]:
    """Return the graphs of the graph kernels in a sum, also of those of some of the features."""
    summands: Sequence[tuple[float, Kernel]] = kernel.summands() if isinstance(kernel, Kernel) else ()
    return [inner.graph for inner, _ in (untransformed(k) for _, k in summands) if isinstance(inner, GraphKernel)]


def untransformed(kernel: Kernel) -> tuple[Kernel, Matrix | None]:
    """Return the kernel k_1 and the matrix A of a kernel k_1 @ A; None if it has none."""
    return (kernel.kernel, kernel.linear) if isinstance(kernel, LinearTransform) else (kernel, None)


def as_new_points(function: Function, X: Array, rows: Vector) -> tuple[Matrix, Matrix]:
    """Return the values (r, q) that f would have at some of the points X if these were not nodes, and those it has."""
    points = take_rows(X, rows)
    values = np.zeros((len(rows), function.outputs or 1))
    if function.basis is not None:
        coefficients = to_numpy(function.basis_coefficients).reshape(-1, values.shape[1])
        values += to_numpy(Evaluation(points).assemble(function.basis.on)) @ coefficients
    between = values.copy()
    for weight, kernel in function.kernel.summands():
        part = Function(weight * kernel, function.functionals, function.coefficients)
        inner, linear = untransformed(kernel)
        if not isinstance(inner, GraphKernel):
            own = to_numpy(part(points)).reshape(values.shape)
            values, between = values + own, between + own
            continue
        index = inner.graph.index_of(mapped(X, linear))
        nodes = np.zeros((len(inner.graph.nodes), values.shape[1]))
        nodes[index] = to_numpy(part(X)).reshape(len(index), -1)
        values = values + nodes[index[rows]]
        between = between + inner.graph.as_new_points(index[rows]) @ nodes
    return between, values
