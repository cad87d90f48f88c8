"""Model selection: which settings, and do unlabeled points help?  By exact leave-one-out errors of the squared loss.

A candidate is a kernel, a length scale for each feature, a graph of neighbors or none, its weight nu, and C.  The
squared loss knows what it would predict for each label without that label (`leave_one_out`), for all C and classes from
one decomposition, and what the graph does to the kernel does not depend on labels:

    f = R theta,  K = RR'               the kernel, in m functions
    K_nu = R (I + 2 nu R'MR)^-1 R'      with the graph, whose sum of squares is f'Mf

so only R'MR and one factorization for each nu are large, of m <= `FUNCTIONS` landmarks.  A held-out point stays,
unlabeled, and keeps its place in the graph.

Of each kind of prior knowledge the candidate of the least error is taken, and of the kinds, in the order of trust
(`KINDS`), the next one where errors, label by label, fall significantly.
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
from rkhs._estimators.length_scales import FEWEST_LABELS, WIDTHS, FeatureMap, KernelOf, ScaleLearner, feature_maps
from rkhs._estimators.scoring import (
    FEATURES,
    GRAPH,
    KINDS,
    NONE,
    Candidate,
    Discriminant,
    Labeled,
    falls,
    leave_one_out,
)
from rkhs._finite.monitor import Monitor, Stopped
from rkhs._finite.solution import CONVERGED, Record
from rkhs.invariances._graph import Graph, laplacian_of, nearest, neighbor_weights, normalized, root_of_laplacian
from rkhs.kernels import median_scale
from rkhs.kernels._scaled import LEAST

MEASURES, GRAPH_WIDTHS = 2, (0.5, 1.0)  # with which graphs are tried; narrow ones follow curves
NEIGHBORS, POWERS = (5, 10, 30), (1, 2, 4)
FIRST = (10, 2)  # neighbors and power with which units and scales are compared
FUNCTIONS = 2000  # landmarks, if there are more points: fewer of them know less of the graph
SURER = 1.5  # standard errors by which the errors of the best of many graphs must fall


@dataclass
class SelectionMonitor(Monitor):
    """Shows how many of about `kernels` kernels are scored, and how long the rest will take."""

    kernels: int = 0

    def line(self, record: Record) -> str:
        left = record.seconds * max(self.kernels / record.iteration - 1, 0.0)
        return (
            f"choosing: {record.iteration} of about {self.kernels} kernels, {record.seconds:.0f} s, about {left:.0f} s "
            f"to go, least squared error {record.primal:.4g}"
        )


@dataclass(frozen=True, eq=False)
class Place:
    """A map of features, the kernel and the scale, and whether graphs are tried there."""

    features: FeatureMap
    settings: tuple[Any, Any]
    graph: bool


@dataclass(eq=False)
class ModelSelection:
    """Scores candidates for points X (t, n), each of which stands for `count` equal rows; some of them are labeled."""

    X: Matrix
    count: Vector
    labeled: Labeled
    kernels: Sequence[Any]
    kernel_of: KernelOf
    scales: Sequence[Any] | None  # None for multiples of the median distance by each of the `measures`
    Cs: Sequence[float]
    nus: Sequence[float]
    unlabeled: bool  # whether there are points without labels
    learns_scales: bool = False  # whether scales are also learned, one per feature
    powers: Sequence[int] = POWERS
    monitor: SelectionMonitor = field(default_factory=lambda: SelectionMonitor(0.0))
    found: list[Candidate] = field(default_factory=list)

    def run(self) -> str:
        """Score all candidates until a time limit, those without a graph first in `found`; return the status."""
        largest = float(np.max(np.abs(self.X), initial=0.0))
        if largest > 0 and not LEAST <= largest <= 1 / LEAST:
            raise ValueError(
                f"Squared distances of features of size {largest:.1e} overflow or underflow float64: give them another "
                f"unit, so that they are between {LEAST:.1e} and {1 / LEAST:.1e}."
            )
        status = CONVERGED
        try:
            for candidates in self._candidates():
                self.found += candidates
                self.monitor.report(None, min(one.loss for one in self.found), inf)
        except Stopped as stop:
            status = str(stop)
        finally:
            self.monitor.close()
        self.found.sort(key=lambda one: one.graph is not None)
        return status

    def _candidates(self) -> Iterator[list[Candidate]]:
        """Yield the candidates of one kernel matrix of labels at a time: plain, with learned scales, with graphs."""
        labeled, places, least = self.X[self.labeled.rows], list(self._places()), dict[FeatureMap, float]()
        learns = self.learns_scales and len(labeled) >= FEWEST_LABELS and self.X.shape[1] > 1
        graphs = self.unlabeled and any(self.nus)
        self.monitor.kernels = len(places) + 20 * learns * len(self.kernels)  # learning takes as long as 20 kernels
        if graphs:
            weights = sum(nu > 0 for nu in self.nus)
            self.monitor.kernels += weights * (len(NEIGHBORS) * len(self.powers) + MEASURES * len(GRAPH_WIDTHS) - 1)
        for place in places:
            scored = self._scored(place, None, 0.0, self.kernel_of(*place.settings)(labeled))
            least[place.features] = min(least.get(place.features, inf), *(one.loss for one in scored))
            yield scored
        if learns:
            learner = ScaleLearner(labeled, self.labeled, self.kernel_of, self.Cs, True)
            base = Choice(self.found, self.labeled, self.unlabeled).best
            for kernel in self.kernels:
                first = min((one for one in self.found if one.kernel == kernel), key=lambda one: one.loss)
                learned = learner.candidate(first, base)
                yield [] if learned is None else [learned]
        if graphs:
            with_graph = (one for one in least if one.linear is None or one.components is not None)
            kept = nsmallest(MEASURES, with_graph, key=lambda one: least[one])
            yield from self._with_graphs([one for one in places if one.graph and one.features in kept])

    def _places(self) -> Iterator[Place]:
        """Yield the kernels and scales to try; graphs with the first kernel."""
        if self.scales is not None:
            features = FeatureMap(1.0)
            for kernel in self.kernels:
                yield from (Place(features, (kernel, scale), True) for scale in self.scales)
            return
        rows = self.X[drawn_rows(self.count, 4000, 0)]  # from which covariances are found
        some = rows if len(rows) <= 1000 else np.random.default_rng(0).choice(rows, 1000, replace=False)  # and medians
        for features in feature_maps(rows):
            for kernel in self.kernels:
                distance = self.kernel_of(kernel, 1.0).distance
                if features.linear is not None and distance != "euclidean":
                    continue  # a map would change what the kernel is along
                median = median_scale(features.points(some), distance=distance)
                for width in WIDTHS:
                    settings = features.kernel(kernel, median * width, self.kernel_of)
                    yield Place(features, settings, graph=width in GRAPH_WIDTHS and kernel == self.kernels[0])

    def _with_graphs(self, places: list[Place]) -> Iterator[list[Candidate]]:
        """Yield candidates with graphs: one graph at each place first, then all graphs at the best of these."""
        rows, best = np.unique(self.labeled.rows), None  # landmarks: the labeled points, and as many others as may be
        others = np.setdiff1d(np.arange(len(self.X)), rows)
        if len(self.X) > FUNCTIONS:
            others = np.random.default_rng(0).choice(others, max(0, FUNCTIONS - len(rows)), replace=False)
        centers = self.X[np.concatenate([rows, others])]
        near = {one: Graphs(self.X, one) for one in dict.fromkeys(place.features for place in places)}
        for place in places:
            graphs, kernel = near[place.features], self.kernel_of(*place.settings)
            K = kernel(centers)
            K[np.diag_indices_from(K)] += 1e-10 * float(np.mean(np.diag(K)))  # so that it has a Cholesky factor
            factor = scipy.linalg.cholesky(K, lower=True, check_finite=False)
            R = scipy.linalg.solve_triangular(factor, kernel(self.X, centers).T, lower=True, check_finite=False).T
            tried = list(self._along(place, R, graphs, [FIRST]))
            yield from tried
            losses = [min(one.loss for one in several) for several in tried]
            error = float(np.median(losses)) if losses else inf  # over weights: the least of some is noisier
            if best is None or error < best[0]:
                best = error, place, R, graphs
        if best is not None:
            _, place, R, graphs = best
            rest = dict.fromkeys((min(k, graphs.most), p) for k in NEIGHBORS for p in self.powers)
            rest.pop((min(FIRST[0], graphs.most), FIRST[1]), None)
            yield from self._along(place, R, graphs, rest)

    def _along(self, place: Place, R: Matrix, graphs: Graphs, which: Any) -> Iterator[list[Candidate]]:
        """Yield the candidates of some graphs (k, p), one list for each weight nu."""
        own = R[self.labeled.rows]
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
                    V = scipy.linalg.solve_triangular(factor, own.T, lower=True, check_finite=False)
                    yield self._scored(place, graph, nu, V.T @ V)

    def _scored(self, place: Place, graph: Graph | None, nu: float, K: Matrix) -> list[Candidate]:
        """Return the candidates of one kernel matrix of labels, one for each C."""
        own, kind, (kernel, scale) = self.labeled, GRAPH, place.settings
        if graph is None:
            kind = NONE if place.features.linear is None else FEATURES
        values = leave_one_out(K, own.target, own.weight, self.Cs, True)
        each = zip(self.Cs, values, strict=True)
        return [Candidate(kind, kernel, scale, graph, nu, C, *own.scored(found)) for C, found in each]


class Graphs:
    """Graphs of neighbors of points X after a map of features."""

    def __init__(self, X: Matrix, features: FeatureMap) -> None:
        self.features, self.most = features, min(max(NEIGHBORS), len(X) - 1)
        self.distances, self.neighbors = nearest(features.points(X), self.most)

    def of(self, count: int, power: int) -> tuple[Graph, Any, float]:
        """Return the graph, its Laplacian L and the trace of L^p."""
        count = min(count, self.most)
        W = normalized(neighbor_weights(self.distances[:, :count], self.neighbors[:, :count]))
        trace = float(np.sum(root_of_laplacian(W, power).data ** 2))
        graph = Graph(count, power, scale=self.features.unit, components=self.features.components)
        return graph, laplacian_of(W), trace


@dataclass(frozen=True, eq=False)
class Choice:
    """Candidates, the labels that score them, and whether there are unlabeled points: which one is taken, and why."""

    found: Sequence[Candidate]
    labeled: Labeled
    unlabeled: bool

    def of(self, kind: str) -> Candidate | None:
        """Return the candidate of the least error of a kind; of several C within a thousandth of it the least one."""
        some = [one for one in self.found if one.kind == kind]
        best = min(some, key=lambda one: one.loss, default=None)
        if best is None:
            return None
        settings = {**best.params, "C": None}
        alike = [one for one in some if {**one.params, "C": None} == settings and one.loss <= 1.001 * best.loss]
        return min(alike, key=lambda one: one.C)

    @cached_property
    def best(self) -> Candidate:
        """The candidate of the first kind, or of a later one where errors, label by label, fall significantly.

        There are many graphs, and the best of many looks better than it is: there the fall has to be larger.
        """
        best = self.plain
        for kind in KINDS[1:]:
            one = self.of(kind)
            sure = SURER if kind == GRAPH else 1.0
            if one is not None and falls(best.squares, one.squares, self.labeled.weight, sure):
                best = one
        return best

    @property
    def plain(self) -> Candidate:
        """The best candidate that knows of labeled points alone."""
        found = self.of(NONE)
        assert found is not None  # these are tried first
        return found

    @cached_property
    def discriminant(self) -> tuple[Discriminant | None, float]:
        """The discriminant of scores, where it has fewer errors than the largest score, and the share of errors."""
        values, codes, weight = self.best.values, self.labeled.classes, self.labeled.weight
        if codes is None or np.any(weight != weight[0]) or not Discriminant.applies(values, codes):
            return None, self.best.error
        before, after = predicted_codes(values) != codes, Discriminant.cross_validated(values, codes) != codes
        if not falls(1.0 * before, 1.0 * after, weight):
            return None, self.best.error
        return Discriminant.of(values, codes), float(np.mean(after))

    @property
    def sentence(self) -> str:
        """A sentence on the gain by unlabeled points, and on the discriminant if there is one."""
        best, plain, graph = self.best, self.plain, self.of(GRAPH)
        regression = self.labeled.classes is None
        what = "root mean squared error" if regression else "errors"

        def shown(one: Candidate) -> str:
            return f"{one.error:.4g}" if regression else f"{100 * one.error:.1f} %"

        count = len(self.labeled.rows)
        if not self.unlabeled or (graph is None and best.kind != FEATURES):
            why = "Unlabeled rows were not tried" if self.unlabeled else "There are no unlabeled rows"
            text = f"Leave-one-out: {shown(best)} {what}. {why}."
        elif best.kind not in (FEATURES, GRAPH):
            assert graph is not None  # since it was tried
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
        tried = [one for one in map(self.of, KINDS) if one is not None]
        return {
            "sentence": self.sentence,
            "candidates": [{"prior": one.kind, "error": one.error, "loss": one.loss, **one.params} for one in tried],
            "chosen": {"prior": self.best.kind, **self.best.params},
            "score": float(self.scores[self.found.index(self.best)]),
        }

    def results(self, seconds: float) -> dict[str, Any]:
        """Return `cv_results_` as scikit-learn has it; the one split is that into each label and all others."""
        params = [one.params for one in self.found]
        columns = {name: masked_objects([own[name] for own in params]) for name in params[0]}
        losses = np.array([one.loss for one in self.found])
        return cv_results(params, columns, self.scores[:, None], losses, seconds) | {"mean_test_loss": losses}

    @cached_property
    def scores(self) -> Vector:
        """The accuracies of all candidates, or minus their mean squared errors."""
        errors = np.array([one.error for one in self.found])
        return -(errors**2) if self.labeled.classes is None else 1 - errors
