"""Which settings, and do unlabelled points help?  Chosen by exact leave-one-out errors of the squared loss.

A candidate is a kernel, a length scale for each feature, a graph of neighbours or none, its weight nu, and C.  The
squared loss knows what it would predict for each label without that label (`left_out`), for all C and classes from one
decomposition, and what the graph does to the kernel does not depend on labels:

    f = R theta,  K = RR'               the kernel, in m functions
    K_nu = R (I + 2 nu R'MR)^-1 R'      with the graph, whose sum of squares is f'Mf

so only R'MR and one factorisation for each nu are large, of m <= `FUNCTIONS` landmarks.  A held-out point stays,
unlabelled, and so does its place in the graph.

The least error wins; a graph only where the error falls by a tenth (`contest.GAIN`): leave-one-out errors of 50 to 100
labels are off by about that much, and where unlabelled points do not help a graph costs more than it gains where they
help a little (15 sets, 10 draws each: docs/decisions/unlabelled-rows.md).  Scales that are learnt have to pass a
test of their own (`metrics`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import numpy as np
import scipy.linalg

from rkhs.estimators.choosing.judging import Candidate, Labelled, Vector, left_out
from rkhs.estimators.choosing.metrics import FEWEST, KernelOf, Metrics
from rkhs.finite.monitor import Monitor
from rkhs.finite.solution import CONVERGED, INTERRUPTED, Record
from rkhs.invariances.graph import Graph, laplacian_of, nearest, neighbour_weights, normalised, root_of_laplacian
from rkhs.kernels import Kernel, median_scale
from rkhs.kernels.scale import LEAST

WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the median distance
GRAPH_WIDTHS = (0.5, 1.0)
NEIGHBOURS, POWERS = (5, 10, 30), (1, 2, 4)
FIRST = (10, 2)  # neighbours and power with which units and scales are compared
FUNCTIONS = 1000  # landmarks, if there are more points
ALIKE = 1e-6  # share by which standard deviations of features may differ
JITTER = 1e-10  # of the diagonal, so that a kernel matrix has a factor


@dataclass
class ChoiceMonitor(Monitor):
    """Tells about candidates."""

    def line(self, record: Record) -> str:
        return (
            f"choosing: {record.iteration} kernels, {record.seconds:.0f} s, least squared error {record.primal:.4g}; "
            "Ctrl-C takes the best so far"
        )


@dataclass(eq=False)
class KnowledgeSearch:
    """Candidates for points X (t, n) of which some are labelled.

    `kernel_of` is a function from one of the `kernels` and a scale, a number or one per feature, to the kernel.
    `scales` are those to try, None for multiples of the median distance, of features as they are and divided by their
    standard deviations; `metric` tells whether scales are also learnt, one per feature.
    """

    X: Vector
    labelled: Labelled
    kernels: Sequence[Any]
    kernel_of: KernelOf
    scales: Sequence[Any] | None
    Cs: Sequence[float]
    nus: Sequence[float]
    intercept: bool
    unlabelled: bool  # whether there are points without labels
    metric: bool = False
    powers: Sequence[int] = POWERS
    monitor: Monitor = field(default_factory=lambda: ChoiceMonitor(0.0))
    found: list[Candidate] = field(default_factory=list)

    def run(self) -> str:
        """Judge all candidates, those without a graph first in `found`; the status.

        Ctrl-C ends it with what is judged by then, and is raised where that is nothing.
        """
        status = CONVERGED
        check_units(self.X)
        try:
            for one in self._candidates():
                self.found += one
                self.monitor.report(None, min(c.loss for c in self.found), inf)
        except KeyboardInterrupt:
            if not self.found:
                raise
            status = INTERRUPTED
        finally:
            self.monitor.close()
        self.found.sort(key=lambda one: one.graph is not None)
        return status

    def _candidates(self) -> Iterator[list[Candidate]]:
        """One kernel matrix of labels after the other: plain ones, with learnt scales, and with graphs."""
        labelled = self.X[self.labelled.rows]
        metrics = list(self._metrics())
        for _, scales in metrics:
            for kernel, scale, _ in scales:
                yield self._judged(kernel, scale, None, 0.0, self.kernel_of(kernel, scale)(labelled))
        if self.metric and len(labelled) >= FEWEST and self.X.shape[1] > 1:
            learning = Metrics(labelled, self.labelled, self.kernel_of, self.Cs, self.intercept)
            base = min(self.found, key=lambda one: one.loss)
            for kernel in self.kernels:
                first = min((one for one in self.found if one.kernel == kernel), key=lambda one: one.loss)
                one = learning.candidate(first, base)
                yield [] if one is None else [one]
        if self.unlabelled and any(self.nus):
            yield from self._with_graphs(metrics)

    def _with_graphs(self, metrics: list[Any]) -> Iterator[list[Candidate]]:
        """Candidates with graphs: one graph with each unit and scale first, then all graphs with the best of these."""
        centres, judged = self.X[self._landmarks()], list[Any]()
        for unit, scales in metrics:
            graphs = Graphs(self.X, unit)
            for kernel, scale, also in scales:
                if also:
                    R = _features(self.X, centres, self.kernel_of(kernel, scale))
                    tried = list(self._along(kernel, scale, R, graphs, [FIRST]))
                    yield from tried
                    least = min((c.loss for one in tried for c in one), default=inf)
                    judged.append((least, len(judged), kernel, scale, R, graphs))
        if judged:
            _, _, kernel, scale, R, graphs = min(judged, key=lambda one: one[:2])
            first = (min(FIRST[0], graphs.most), FIRST[1])
            others = dict.fromkeys((min(k, graphs.most), p) for k in NEIGHBOURS for p in self.powers)
            others.pop(first, None)
            yield from self._along(kernel, scale, R, graphs, others)

    def _along(self, kernel: Any, scale: Any, R: Vector, graphs: Graphs, which: Any) -> Iterator[list[Candidate]]:
        """The candidates of some graphs (k, p) with all weights nu."""
        own = R[self.labelled.rows]
        for neighbours, power in which:
            graph, L, trace = graphs.of(neighbours, power)
            if not trace > 0:
                continue
            B = _energies(L, power, R) / trace
            for nu in self.nus:
                if nu > 0:
                    factor = scipy.linalg.cholesky(np.eye(len(B)) + 2 * nu * B, lower=True, check_finite=False)
                    V = scipy.linalg.solve_triangular(factor, own.T, lower=True, check_finite=False)
                    yield self._judged(kernel, scale, graph, nu, V.T @ V)

    def _judged(self, kernel: Any, scale: Any, graph: Graph | None, nu: float, K: Vector) -> list[Candidate]:
        """The candidates of one kernel matrix of labels, one for each C."""
        own = self.labelled
        values = left_out(K, own.target, own.weight, self.Cs, self.intercept)
        return [
            Candidate(kernel, scale, graph, nu, C, own.loss(u), own.error(u))
            for C, u in zip(self.Cs, values, strict=True)
        ]

    def _landmarks(self) -> Vector:
        """The labelled points, and as many others as there may be."""
        rows = self.labelled.rows
        others = np.setdiff1d(np.arange(len(self.X)), rows)
        if len(self.X) > FUNCTIONS:
            others = np.random.default_rng(0).choice(others, max(0, FUNCTIONS - len(rows)), replace=False)
        return np.concatenate([rows, others])

    def _metrics(self) -> Iterator[tuple[Any, list[tuple[Any, Any, bool]]]]:
        """What features are divided by for distances, with kernels and scales to try there and whether with a graph."""
        if self.scales is not None:
            yield 1.0, [(kernel, scale, True) for kernel in self.kernels for scale in self.scales]
            return
        spread, seen = self.X.std(axis=0), self.X
        if len(seen) > FUNCTIONS:
            seen = np.random.default_rng(0).choice(seen, FUNCTIONS, replace=False)
        spread = np.where(spread > 0, spread, 1.0)
        units: list[Any] = [1.0] if np.ptp(spread) <= ALIKE * spread.max() else [1.0, spread]
        for unit in units:
            chosen = []
            for kernel in self.kernels:
                median = median_scale(seen / unit, distance=self.kernel_of(kernel, 1.0).distance)
                for width in WIDTHS:
                    scale = np.asarray(median * width * unit)
                    plain = float(scale) if scale.ndim == 0 else tuple(scale.tolist())
                    chosen.append((kernel, plain, width in GRAPH_WIDTHS and kernel == self.kernels[0]))
            yield unit, chosen


def check_units(X: Vector) -> None:
    """Refuse features whose squares are no numbers a computer has."""
    largest = float(np.max(np.abs(X), initial=0.0))
    if largest > 0 and not LEAST <= largest <= 1 / LEAST:
        raise ValueError(
            f"Features of size {largest:.1e} have distances whose squares are no numbers a computer has: give them "
            f"another unit, so that they are between {LEAST:.1e} and {1 / LEAST:.1e}."
        )


def _energies(L: Any, power: int, R: Vector) -> Vector:
    """R'L^p R."""
    for _ in range(power // 2):
        R = L @ R
    return R.T @ (L @ R if power % 2 else R)


class Graphs:
    """Graphs of neighbours of points X whose features are divided by a unit."""

    def __init__(self, X: Vector, unit: Any) -> None:
        self.unit, self.most = unit, min(max(NEIGHBOURS), len(X) - 1)
        self.distances, self.neighbours = nearest(X / unit, self.most)

    def of(self, count: int, power: int) -> tuple[Graph, Any, float]:
        """The graph, its Laplacian L and the trace of L^p."""
        count = min(count, self.most)
        W = normalised(neighbour_weights(self.distances[:, :count], self.neighbours[:, :count]))
        trace = float(np.sum(root_of_laplacian(W, power).data ** 2))
        return Graph(count, power, scale=self.unit), laplacian_of(W), trace


def _features(X: Vector, centres: Vector, kernel: Kernel) -> Vector:
    """R (t, m) with RR' the kernel matrix, or its best approximation by the functions k(x, centre)."""
    K = kernel(centres)
    K[np.diag_indices_from(K)] += JITTER * float(np.mean(np.diag(K)))
    factor = scipy.linalg.cholesky(K, lower=True, check_finite=False)
    return np.asarray(scipy.linalg.solve_triangular(factor, kernel(X, centres).T, lower=True, check_finite=False).T)
