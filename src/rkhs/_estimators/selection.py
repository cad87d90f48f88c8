"""Model selection by exact leave-one-out errors of the squared loss: which settings, and do unlabeled points help?

A candidate is a kernel, its length scales, a graph of nearest neighbors or none, the weight nu of the graph, and C.
One eigendecomposition gives the leave-one-out errors for all C and all classes (`leave_one_out`).  The kernel that a
graph makes of another kernel does not depend on the labels:

    f = R theta,  K = RR'               the kernel, approximated by m functions
    K_nu = R (I + 2 nu R'MR)^-1 R'      the kernel with a graph whose sum of squares is f'Mf

The expensive steps are R'MR and one factorization for each nu, of m <= `FUNCTIONS` landmarks.  A point whose label is
left out stays in the graph as an unlabeled point.

The candidate with the smallest error is taken from each kind of prior (`KINDS`).  Going through the kinds in order, a
later one replaces the choice so far if the errors, compared label by label, fall significantly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import nsmallest
from math import inf
from typing import Any

import numpy as np
import scipy.linalg

from rkhs._backend.arrays import Matrix, Vector
from rkhs._estimators.cross_validation import cv_results, masked_objects
from rkhs._estimators.data import drawn_rows, predicted_codes
from rkhs._estimators.length_scales import FEWEST_LABELS, WIDTHS, FeatureTransform, KernelOf, ScaleLearner, feature_maps
from rkhs._estimators.scoring import (
    FEATURES,
    GRAPH,
    KINDS,
    NONE,
    Candidate,
    Discriminant,
    Labeled,
    falls_significantly,
    leave_one_out,
)
from rkhs._finite.monitor import Monitor, Stopped
from rkhs._finite.solution import CONVERGED, Record
from rkhs.invariances._graph import Graph, laplacian_of, nearest, neighbor_weights, normalized, root_of_laplacian
from rkhs.kernels import median_scale
from rkhs.kernels._scaled import LEAST

# The grid of graphs.
MEASURES = 2  # feature maps with which graphs are tried, those with the smallest errors without a graph
GRAPH_WIDTHS = (0.5, 1.0)  # length scales with graphs, in units of the median distance; f has to follow curved clusters
NEIGHBORS, POWERS = (5, 10, 30), (1, 2, 4)  # numbers of neighbors, and powers of the Laplacian
FIRST = (10, 2)  # neighbors and power with which feature maps and scales are compared
FUNCTIONS = 2000  # landmarks, if there are more points; fewer landmarks resolve less of the graph
GRAPH_STANDARD_ERRORS = (
    1.5  # standard errors by which errors must fall with a graph, since the best of many graphs is optimistic
)


@dataclass
class SelectionMonitor(Monitor):
    """Progress of a selection: the number of scored kernels, out of about `kernels`, and the remaining time."""

    kernels: int = 0

    def line(self, record: Record) -> str:
        left = record.seconds * max(self.kernels / record.iteration - 1, 0.0)
        return (
            f"choosing: {record.iteration} of about {self.kernels} kernels, {record.seconds:.0f} s, about {left:.0f} s "
            f"to go, least squared error {record.primal:.4g}"
        )


@dataclass(frozen=True, eq=False)
class KernelCandidate:
    """A kernel to try: a feature map and the equivalent parameters (kernel, scale) of an estimator."""

    features: FeatureTransform
    settings: tuple[Any, Any]  # kernel, scale
    graph: bool  # whether graphs are tried with it


@dataclass(eq=False)
class ModelSelection:
    """Scores candidates by the leave-one-out errors of labeled points, with the other points unlabeled."""

    X: Matrix  # (t, n)
    count: Vector  # (t,) the number of equal rows that each point stands for
    labeled: Labeled
    kernels: Sequence[Any]
    kernel_of: KernelOf
    scales: Sequence[Any] | None  # None for multiples of the median distance after each of the `feature_maps`
    Cs: Sequence[float]
    nus: Sequence[float]
    unlabeled: bool  # whether there are points without labels
    learns_scales: bool = False  # whether scales are also learned, one per feature
    powers: Sequence[int] = POWERS
    monitor: SelectionMonitor = field(default_factory=lambda: SelectionMonitor(0.0))
    found: list[Candidate] = field(default_factory=list)

    def run(self) -> str:
        """Score all candidates until the time limit, and return the status; `found` has those without a graph first."""
        largest = float(np.max(np.abs(self.X), initial=0.0))
        if largest > 0 and not LEAST <= largest <= 1 / LEAST:
            raise ValueError(
                f"Squared distances of features of size {largest:.1e} overflow or underflow float64: rescale the "
                f"features to values between {LEAST:.1e} and {1 / LEAST:.1e}."
            )
        status = CONVERGED
        try:
            for candidates in self._candidates():
                self.found += candidates
                self.monitor.report(None, min(candidate.loss for candidate in self.found), inf)
        except Stopped as stop:
            status = str(stop)
        finally:
            self.monitor.close()
        self.found.sort(key=lambda candidate: candidate.graph is not None)
        return status

    def _candidates(self) -> Iterator[list[Candidate]]:
        """Yield the candidates of one kernel matrix at a time: without priors, with learned scales, with graphs."""
        labeled, kernels = self.X[self.labeled.rows], list(self._kernel_candidates())
        smallest = dict[FeatureTransform, float]()  # loss without a graph
        learns = self.learns_scales and len(labeled) >= FEWEST_LABELS and self.X.shape[1] > 1
        graphs = self.unlabeled and any(self.nus)
        self.monitor.kernels = len(kernels) + 20 * learns * len(self.kernels)  # learning takes as long as 20 kernels
        if graphs:
            weights = sum(nu > 0 for nu in self.nus)
            self.monitor.kernels += weights * (len(NEIGHBORS) * len(self.powers) + MEASURES * len(GRAPH_WIDTHS) - 1)
        for trial in kernels:
            scored = self._scored(trial, None, 0.0, self.kernel_of(*trial.settings)(labeled))
            smallest[trial.features] = min(smallest.get(trial.features, inf), *(c.loss for c in scored))
            yield scored
        if learns:
            learner = ScaleLearner(labeled, self.labeled, self.kernel_of, self.Cs)
            base = Choice(self.found, self.labeled, self.unlabeled).best
            for kernel in self.kernels:
                first = min((c for c in self.found if c.kernel == kernel), key=lambda c: c.loss)
                learned = learner.candidate(first, base)
                yield [] if learned is None else [learned]
        if graphs:
            maps = (features for features in smallest if features.linear is None or features.components is not None)
            kept = nsmallest(MEASURES, maps, key=lambda features: smallest[features])
            yield from self._with_graphs([trial for trial in kernels if trial.graph and trial.features in kept])

    def _kernel_candidates(self) -> Iterator[KernelCandidate]:
        """Yield the kernels and scales to try; graphs are tried with the first kernel."""
        if self.scales is not None:
            features = FeatureTransform(1.0)
            for kernel in self.kernels:
                yield from (KernelCandidate(features, (kernel, scale), True) for scale in self.scales)
            return
        rows = self.X[drawn_rows(self.count, 4000, 0)]  # for covariances
        subset = (
            rows if len(rows) <= 1000 else np.random.default_rng(0).choice(rows, 1000, replace=False)
        )  # for medians
        for features in feature_maps(rows):
            for kernel in self.kernels:
                distance = self.kernel_of(kernel, 1.0).distance
                if features.linear is not None and distance != "euclidean":
                    continue  # such a kernel depends on the axes, which a linear map would change
                median = median_scale(features.points(subset), distance=distance)
                for width in WIDTHS:
                    settings = features.kernel(kernel, median * width, self.kernel_of)
                    with_graphs = width in GRAPH_WIDTHS and kernel == self.kernels[0]
                    yield KernelCandidate(features, settings, with_graphs)

    def _with_graphs(self, kernels: list[KernelCandidate]) -> Iterator[list[Candidate]]:
        """Yield candidates with graphs: the graph `FIRST` with each kernel, then all graphs with the best kernel."""
        rows, best = np.unique(self.labeled.rows), None  # landmarks: the labeled points, and a sample of the others
        others = np.setdiff1d(np.arange(len(self.X)), rows)
        if len(self.X) > FUNCTIONS:
            others = np.random.default_rng(0).choice(others, max(0, FUNCTIONS - len(rows)), replace=False)
        centers = self.X[np.concatenate([rows, others])]
        graphs_of = {features: Graphs(self.X, features) for features in dict.fromkeys(k.features for k in kernels)}
        for trial in kernels:
            graphs, kernel = graphs_of[trial.features], self.kernel_of(*trial.settings)
            K = kernel(centers)
            K[np.diag_indices_from(K)] += 1e-10 * float(np.mean(np.diag(K)))  # so that it has a Cholesky factor
            factor = scipy.linalg.cholesky(K, lower=True, check_finite=False)
            R = scipy.linalg.solve_triangular(factor, kernel(self.X, centers).T, lower=True, check_finite=False).T
            scored = list(self._along(trial, R, graphs, [FIRST]))
            yield from scored
            losses = [min(candidate.loss for candidate in candidates) for candidates in scored]
            error = float(np.median(losses)) if losses else inf  # over nu; the minimum would be noisier
            if best is None or error < best[0]:
                best = error, trial, R, graphs
        if best is not None:
            _, trial, R, graphs = best
            rest = dict.fromkeys((min(k, graphs.most), p) for k in NEIGHBORS for p in self.powers)
            rest.pop((min(FIRST[0], graphs.most), FIRST[1]), None)
            yield from self._along(trial, R, graphs, rest)

    def _along(self, trial: KernelCandidate, R: Matrix, graphs: Graphs, which: Any) -> Iterator[list[Candidate]]:
        """Yield the candidates of the graphs `which`, pairs (neighbors, power), one list for each weight nu."""
        labeled = R[self.labeled.rows]
        for neighbors, power in which:
            graph, L, trace = graphs.of(neighbors, power)
            if not trace > 0:
                continue
            along = R
            for _ in range(power // 2):
                along = L @ along
            B = along.T @ (L @ along if power % 2 else along) / trace  # R'L^p R / tr(L^p)
            for nu in self.nus:
                if nu > 0:
                    factor = scipy.linalg.cholesky(np.eye(len(B)) + 2 * nu * B, lower=True, check_finite=False)
                    V = scipy.linalg.solve_triangular(factor, labeled.T, lower=True, check_finite=False)
                    yield self._scored(trial, graph, nu, V.T @ V)

    def _scored(self, trial: KernelCandidate, graph: Graph | None, nu: float, K: Matrix) -> list[Candidate]:
        """Return the candidates with the kernel matrix K (l, l) of the labeled points, one for each C."""
        labeled, kind, (kernel, scale) = self.labeled, GRAPH, trial.settings
        if graph is None:
            kind = NONE if trial.features.linear is None else FEATURES
        predictions = leave_one_out(K, labeled.target, labeled.weight, self.Cs)
        return [
            Candidate(kind, kernel, scale, graph, nu, C, *labeled.scored(values))
            for C, values in zip(self.Cs, predictions, strict=True)
        ]


class Graphs:
    """Graphs of nearest neighbors of points X after a feature map."""

    def __init__(self, X: Matrix, features: FeatureTransform) -> None:
        self.features, self.most = features, min(max(NEIGHBORS), len(X) - 1)
        self.distances, self.neighbors = nearest(features.points(X), self.most)

    def of(self, count: int, power: int) -> tuple[Graph, Any, float]:
        """Return the graph of `count` neighbors, its normalized Laplacian L, and the trace of L^power."""
        count = min(count, self.most)
        W = normalized(neighbor_weights(self.distances[:, :count], self.neighbors[:, :count]))
        trace = float(np.sum(root_of_laplacian(W, power).data ** 2))
        graph = Graph(count, power, scale=self.features.unit, components=self.features.components)
        return graph, laplacian_of(W), trace


@dataclass(frozen=True, eq=False)
class Choice:
    """The choice among scored candidates, and the report about it."""

    found: Sequence[Candidate]
    labeled: Labeled
    unlabeled: bool  # whether there are points without labels

    def of(self, kind: str) -> Candidate | None:
        """Return the best candidate of a kind: of several C with nearly the smallest loss, that with the smallest C."""
        candidates = [candidate for candidate in self.found if candidate.kind == kind]
        best = min(candidates, key=lambda candidate: candidate.loss, default=None)
        if best is None:
            return None
        settings = {**best.params, "C": None}
        near = [c for c in candidates if {**c.params, "C": None} == settings and c.loss <= 1.001 * best.loss]
        return min(near, key=lambda candidate: candidate.C)

    @cached_property
    def best(self) -> Candidate:
        """The best candidate without priors, or with a prior that lowers the errors significantly, label by label."""
        best = self.plain
        for kind in KINDS[1:]:
            candidate = self.of(kind)
            sure = GRAPH_STANDARD_ERRORS if kind == GRAPH else 1.0
            if candidate is not None and falls_significantly(
                best.squares, candidate.squares, self.labeled.weight, sure
            ):
                best = candidate
        return best

    @property
    def plain(self) -> Candidate:
        """The best candidate without priors."""
        candidate = self.of(NONE)
        assert candidate is not None  # these are scored first
        return candidate

    @cached_property
    def discriminant(self) -> tuple[Discriminant | None, float]:
        """The discriminant of the scores, None unless it lowers the errors significantly, and the share of errors."""
        values, codes, weight = self.best.values, self.labeled.classes, self.labeled.weight
        if codes is None or np.any(weight != weight[0]) or not Discriminant.applies(values, codes):
            return None, self.best.error
        before, after = predicted_codes(values) != codes, Discriminant.cross_validated(values, codes) != codes
        if not falls_significantly(1.0 * before, 1.0 * after, weight):
            return None, self.best.error
        return Discriminant.of(values, codes), float(np.mean(after))

    @property
    def sentence(self) -> str:
        """A sentence about the gain by unlabeled points, and about the discriminant if there is one."""
        best, plain, graph = self.best, self.plain, self.of(GRAPH)
        regression = self.labeled.classes is None
        what = "root mean squared error" if regression else "errors"

        def shown(candidate: Candidate) -> str:
            return f"{candidate.error:.4g}" if regression else f"{100 * candidate.error:.1f} %"

        count = len(self.labeled.rows)
        if not self.unlabeled or (graph is None and best.kind != FEATURES):
            why = "Unlabeled rows were not tried" if self.unlabeled else "There are no unlabeled rows"
            text = f"Leave-one-out: {shown(best)} {what}. {why}."
        elif best.kind not in (FEATURES, GRAPH):
            assert graph is not None
            if graph.error < best.error:
                text = (
                    f"Unlabeled rows were not used: {shown(graph)} {what} with them and {shown(best)} without them is "
                    f"no significant difference for {count} labels."
                )
            else:
                text = f"Unlabeled rows did not help: {shown(best)} {what} without them, {shown(graph)} with them."
        elif best.error < plain.error:
            text = f"Unlabeled rows helped: {shown(best)} {what} instead of {shown(plain)}."
        else:
            text = f"Unlabeled rows lowered the squared error only: {shown(best)} {what}, {shown(plain)} without them."
        rule, error = self.discriminant
        return text if rule is None else f"{text} A linear discriminant of the scores has {100 * error:.1f} % errors."

    def report(self) -> dict[str, Any]:
        """Return `selection_report_`: the best candidate of each kind, the chosen one, and a sentence about them."""
        best = [candidate for candidate in map(self.of, KINDS) if candidate is not None]
        return {
            "sentence": self.sentence,
            "candidates": [{"prior": c.kind, "error": c.error, "loss": c.loss, **c.params} for c in best],
            "chosen": {"prior": self.best.kind, **self.best.params},
            "score": float(self.scores[self.found.index(self.best)]),
        }

    def results(self, seconds: float) -> dict[str, Any]:
        """Return `cv_results_` in the form of scikit-learn's searches; its single split is leave-one-out."""
        params = [candidate.params for candidate in self.found]
        columns = {name: masked_objects([values[name] for values in params]) for name in params[0]}
        losses = np.array([candidate.loss for candidate in self.found])
        return cv_results(params, columns, self.scores[:, None], losses, seconds) | {"mean_test_loss": losses}

    @cached_property
    def scores(self) -> Vector:
        """The accuracies of all candidates, or minus their mean squared errors."""
        errors = np.array([candidate.error for candidate in self.found])
        return -(errors**2) if self.labeled.classes is None else 1 - errors
