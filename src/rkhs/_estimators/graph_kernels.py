"""Kernels of graphs of all labeled and unlabeled points, as candidates of the automatic search.

With at least three labels of every class, graph kernels are compared with the other candidates by leave-one-out errors
(`graph_candidates`).  With fewer, too few labels can be left out, and the choice rests on an assumption about the
points (`assumed_kernel`): the sum of

    a Gaussian kernel of standardized features, and one of their first three principal components,
    a kernel of the graph of raw features, and one of the graph of standardized features,

each with the mean variance one.  The cutoff of a graph kernel is the largest one with at most as many degrees of
freedom as there are classes: then its functions are nearly constant on that many clusters.  Where points form no
clusters this leaves the constants, which are free anyway, and the Gaussian kernels decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, Matrix, Vector, placed, take_rows, to_numpy
from rkhs._estimators.length_scales import FeatureTransform, NormalizedKernels, deviations, feature_maps
from rkhs._finite.function import Function
from rkhs._graphs.filters import COUNTED
from rkhs._graphs.neighbor_graph import COMPONENTS, EXACT, MANY, NeighborGraph
from rkhs._warnings import warn
from rkhs.functionals import Evaluation
from rkhs.kernels import GraphKernel, Kernel, median_scale
from rkhs.kernels._graph import graph_kernels, kernel_matrices

POWER, CUTOFFS = 2, (0.002, 0.005, 0.01, 0.02, 0.05, 0.1)
NEIGHBORS, MORE_NEIGHBORS = 10, 30  # the second number is tried for at most SMALL points
MORE_COMPONENTS = 100  # tried besides the usual number for many points of many features
SMALL = 4000
LARGEST = 10**8  # entries of the block of columns, labels times points, up to which graphs are tried

# Very few labels.
FEWEST = 3  # labels of every class with which candidates are compared by leaving labels out
ASSUMED_C, ASSUMED_POWER = 10.0, 3
LOWER_CUTOFFS = (0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 5e-4, 2e-4)
LOWEST_CUTOFFS = (1e-4, 5e-5, 2e-5, 1e-5)  # for small graphs; polynomials of high degree take long


def graph_candidates(
    X: Matrix, labels: Vector, features: FeatureTransform, device: str | None
) -> Iterator[tuple[GraphKernel, Matrix]]:
    """Yield graph kernels of points X (t, n) after a feature map, with their matrices (l, l) of the labeled points."""
    most, place = len(X) - 1, _place(device)
    counts = [NEIGHBORS, MORE_NEIGHBORS] if len(X) <= SMALL else [NEIGHBORS]
    components = [features.components] if features.components is not None else numbers_of_components(X, device)
    for count, number in product(dict.fromkeys(min(count, most) for count in counts), components):
        graph = NeighborGraph.of(X, count, features.unit, number, device=device)
        kernels = graph_kernels(graph, POWER, CUTOFFS, place)
        yield from zip(kernels, kernel_matrices(kernels, X[labels], place), strict=True)


def numbers_of_components(X: Matrix, device: str | None) -> list[int | None]:
    """Return the numbers of principal components to try in searches of neighbors, None for the default.

    Which of 50 and 100 is better depends on the features: on 60,000 images 50 of pixels, and 100 of edge directions.
    """
    if len(X) <= MANY or X.shape[1] <= COMPONENTS or (device is None and len(X) > EXACT):
        return [None]
    return [COMPONENTS, min(MORE_COMPONENTS, X.shape[1])]


def assumed_kernel(
    X: Matrix, classes: int, labels: int, rows: Matrix, kernel: Any, kernels: NormalizedKernels, device: str | None
) -> Kernel:
    """Return the sum of kernels for very few labels; `rows` is a sample of X, for covariances and medians."""
    spread = deviations(rows)
    equal = np.ptp(spread) <= 1e-6 * spread.max()
    maps = [FeatureTransform(spread)]
    named: Any = kernels(kernel, 1.0)
    if named.distance == "euclidean":
        maps += [f for f in feature_maps(rows) if f.components == 3 and (np.ndim(f.unit) or equal)]
    summands: list[Kernel] = []
    for features in maps:
        median = median_scale(features.points(rows), distance=named.distance)
        summands.append(kernels(*features.kernel(kernel, median, kernels)))
    for unit in (1.0,) if equal else (1.0, spread):
        most = numbers_of_components(X, device)[-1]
        graph = NeighborGraph.of(X, min(NEIGHBORS, len(X) - 1), unit, most, device=device)
        summands.append(cluster_kernel(graph, min(classes, labels), _place(device)))
    total = summands[0]
    for summand in summands[1:]:
        total = total + summand
    return total


def cluster_kernel(graph: NeighborGraph, most: int, place: Array) -> GraphKernel:
    """Return the kernel with the largest cutoff that has at most `most` degrees of freedom.

    Connected components count: there are no fewer degrees of freedom than components.
    """
    most = max(most, int(graph.components.max(initial=0)) + 1)
    cutoffs = LOWER_CUTOFFS + (LOWEST_CUTOFFS if len(graph.nodes) <= COUNTED else ())
    for cutoff in cutoffs:
        [kernel] = graph_kernels(graph, ASSUMED_POWER, [cutoff], place)
        if kernel.degrees_of_freedom <= 1.05 * most:  # the trace is an estimate
            break
    return kernel


def unreached(graph: NeighborGraph, labels: Vector) -> int:
    """Return the number of nodes in connected components without a label, given the nodes that have one."""
    return int(np.sum(~np.isin(graph.components, np.unique(graph.components[labels]))))


def warn_of_unreached(graph: NeighborGraph, X: Array, labeled: Vector) -> int:
    """Warn if no label of the points X (t, n) can reach some nodes, and return the number of these nodes.

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
    """Return the graphs of the graph kernels in a sum."""
    summands: Sequence[tuple[float, Kernel]] = kernel.summands() if isinstance(kernel, Kernel) else ()
    return [k.graph for _, k in summands if isinstance(k, GraphKernel)]


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
        if not isinstance(kernel, GraphKernel):
            own = to_numpy(part(points)).reshape(values.shape)
            values, between = values + own, between + own
            continue
        index = kernel.graph.index_of(X)
        nodes = np.zeros((len(kernel.graph.nodes), values.shape[1]))
        nodes[index] = to_numpy(part(X)).reshape(len(index), -1)
        values = values + nodes[index[rows]]
        between = between + kernel.graph.as_new_points(index[rows]) @ nodes
    return between, values


def _place(device: str | None) -> Any:
    """Return an empty array where the products are computed."""
    empty = placed(np.empty(0), device, None)
    return np.empty(0) if empty is None else empty
