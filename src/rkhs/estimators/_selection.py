"""Which settings, and do unlabelled points help?  Chosen by exact leave-one-out errors of the squared loss.

A candidate is a kernel, a length scale for each feature, a graph of neighbours or none, its weight nu, and C.  The
squared loss knows what it would predict for each label without that label (`left_out`), for all C and classes from one
decomposition, and what the graph does to the kernel does not depend on labels:

    f = R theta,  K = RR'               the kernel, in m functions
    K_nu = R (I + 2 nu R'MR)^-1 R'      with the graph, whose sum of squares is f'Mf

so only R'MR and one factorisation for each nu are large, of m <= `FUNCTIONS` landmarks.  A held-out point stays,
unlabelled, and so does its place in the graph.

Of each kind of knowledge the candidate of the least error is taken, and of the kinds, in the order of trust
(`judging.KINDS`), the next one where errors, label by label, fall by a standard error (`contest`).

Which candidate is taken, and what is said about it.
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
from scipy.stats import rankdata

from rkhs._backend.arrays import Vector
from rkhs._finite.monitor import Monitor, Stopped
from rkhs._finite.solution import CONVERGED, Record
from rkhs.estimators._data import drawn_rows
from rkhs.estimators._length_scales import FEWEST, KernelOf, Measure, Metrics, measures
from rkhs.estimators._scoring import (
    GRAPH,
    KINDS,
    MEASURE,
    NONE,
    SURE,
    SURER,
    Candidate,
    Discriminant,
    Labelled,
    falls,
    left_out,
    predicted_without,
    worth_trying,
)
from rkhs.invariances.graph import Graph, laplacian_of, nearest, neighbour_weights, normalised, root_of_laplacian
from rkhs.kernels import Kernel
from rkhs.kernels.scaled import LEAST

WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)  # of the median distance
MEASURES, GRAPH_WIDTHS = 2, (0.5, 1.0)  # with which graphs are tried; narrow ones follow curves
NEIGHBOURS, POWERS = (5, 10, 30), (1, 2, 4)
FIRST = (10, 2)  # neighbours and power with which units and scales are compared
MOST_ROWS = 4000  # of which distances are measured
FUNCTIONS = 2000  # landmarks, if there are more points: fewer of them know less of the graph
LEARNING = 20  # kernels that take as long as learning the scales of one, about
JITTER = 1e-10  # of the diagonal, so that a kernel matrix has a factor


@dataclass
class ChoiceMonitor(Monitor):
    """Tells about candidates, and how long the `kernels` that are still to come will take."""

    kernels: int = 0  # that there will be, about

    def line(self, record: Record) -> str:
        left = record.seconds * max(self.kernels / record.iteration - 1, 0.0)
        return (
            f"choosing: {record.iteration} of about {self.kernels} kernels, {record.seconds:.0f} s, about {left:.0f} s "
            f"to go, least squared error {record.primal:.4g}"
        )


@dataclass(frozen=True, eq=False)
class Place:
    """A measure of distances, the kernel and the scale, and whether graphs are tried there."""

    measure: Measure
    settings: tuple[Any, Any]
    graph: bool

    @property
    def kind(self) -> str:
        """What is known without a graph."""
        return NONE if self.measure.linear is None else MEASURE


@dataclass(eq=False)
class KnowledgeSearch:
    """Candidates for points X (t, n), each of which stands for `count` equal rows, and of which some are labelled.

    `kernel_of` is a function from one of the `kernels` and a scale, a number or one per feature, to the kernel.
    `scales` are those to try, None for multiples of the median distance by each of the `measures`; `metric` tells
    whether scales are also learnt, one per feature.
    """

    X: Vector
    count: Vector
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
    monitor: ChoiceMonitor = field(default_factory=lambda: ChoiceMonitor(0.0))
    found: list[Candidate] = field(default_factory=list)

    def run(self) -> str:
        """Judge all candidates, those without a graph first in `found`; return the status.

        A time limit ends it with what is judged by then: one kernel at least.
        """
        status = CONVERGED
        check_units(self.X)
        try:
            for one in self._candidates():
                self.found += one
                self.monitor.report(None, min(c.loss for c in self.found), inf)
        except Stopped as stop:
            status = str(stop)
        finally:
            self.monitor.close()
        self.found.sort(key=lambda one: one.graph is not None)
        return status

    def _candidates(self) -> Iterator[list[Candidate]]:
        """One kernel matrix of labels after the other: plain ones, with learnt scales, and with graphs."""
        labelled, places, least = self.X[self.labelled.rows], list(self._places()), dict[Measure, float]()
        learns = self.metric and len(labelled) >= FEWEST and self.X.shape[1] > 1
        graphs = self.unlabelled and any(self.nus)
        self.monitor.kernels = len(places) + LEARNING * learns * len(self.kernels)
        if graphs:
            weights = sum(nu > 0 for nu in self.nus)
            self.monitor.kernels += weights * (len(NEIGHBOURS) * len(self.powers) + MEASURES * len(GRAPH_WIDTHS) - 1)
        for place in places:
            judged = self._judged(place, None, 0.0, self.kernel_of(*place.settings)(labelled))
            least[place.measure] = min(least.get(place.measure, inf), *(one.loss for one in judged))
            yield judged
        if learns:
            learning = Metrics(labelled, self.labelled, self.kernel_of, self.Cs, self.intercept)
            base = self.contest.best
            for kernel in self.kernels:
                first = min((one for one in self.found if one.kernel == kernel), key=lambda one: one.loss)
                learnt = learning.candidate(first, base)
                yield [] if learnt is None else [learnt]
        if graphs:
            kept = nsmallest(MEASURES, (one for one in least if one.graphs), key=lambda one: least[one])
            yield from self._with_graphs([one for one in places if one.graph and one.measure in kept])

    def _with_graphs(self, places: list[Place]) -> Iterator[list[Candidate]]:
        """Candidates with graphs: one graph at each place first, then all graphs at the best of these."""
        centres, best = self.X[self._landmarks()], None
        near = {one: Graphs(self.X, one) for one in dict.fromkeys(place.measure for place in places)}
        for place in places:
            graphs = near[place.measure]
            R = _features(self.X, centres, self.kernel_of(*place.settings))
            tried = list(self._along(place, R, graphs, [FIRST]))
            yield from tried
            losses = [min(one.loss for one in several) for several in tried]
            error = float(np.median(losses)) if losses else inf  # over weights: the least of some is noisier
            if best is None or error < best[0]:
                best = error, place, R, graphs
        if best is not None:
            _, place, R, graphs = best
            first = (min(FIRST[0], graphs.most), FIRST[1])
            others = dict.fromkeys((min(k, graphs.most), p) for k in NEIGHBOURS for p in self.powers)
            others.pop(first, None)
            yield from self._along(place, R, graphs, others)

    def _along(self, place: Place, R: Vector, graphs: Graphs, which: Any) -> Iterator[list[Candidate]]:
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
                    yield self._judged(place, graph, nu, V.T @ V)

    def _judged(self, place: Place, graph: Graph | None, nu: float, K: Vector) -> list[Candidate]:
        """The candidates of one kernel matrix of labels, one for each C."""
        own, kind = self.labelled, GRAPH if graph is not None else place.kind
        values = left_out(K, own.target, own.weight, self.Cs, self.intercept)
        return [Candidate.of(own, u, kind, *place.settings, graph, nu, C) for C, u in zip(self.Cs, values, strict=True)]

    @property
    def contest(self) -> Contest:
        """Which of those that were found is taken."""
        return Contest(self.found, self.labelled, self.unlabelled)

    def _landmarks(self) -> Vector:
        """The labelled points, and as many others as there may be."""
        rows = np.unique(self.labelled.rows)
        others = np.setdiff1d(np.arange(len(self.X)), rows)
        if len(self.X) > FUNCTIONS:
            others = np.random.default_rng(0).choice(others, max(0, FUNCTIONS - len(rows)), replace=False)
        return np.concatenate([rows, others])

    def _places(self) -> Iterator[Place]:
        """The kernels and scales to try; graphs with the first kernel."""
        if self.scales is not None:
            features = Measure(1.0)
            for kernel in self.kernels:
                yield from (Place(features, (kernel, scale), True) for scale in self.scales)
            return
        rows = self.X[drawn_rows(self.count, MOST_ROWS, 0)]
        for measure in measures(rows):
            for kernel in self.kernels:
                distance = self.kernel_of(kernel, 1.0).distance
                if measure.linear is not None and distance != "euclidean":
                    continue  # a map would change what the kernel is along
                median = measure.median(rows, distance)
                for width in WIDTHS:
                    settings = measure.kernel(kernel, median * width, self.kernel_of)
                    yield Place(measure, settings, graph=width in GRAPH_WIDTHS and kernel == self.kernels[0])


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
    """Graphs of neighbours of points X by a measure of distances."""

    def __init__(self, X: Vector, measure: Measure) -> None:
        self.measure, self.most = measure, min(max(NEIGHBOURS), len(X) - 1)
        self.distances, self.neighbours = nearest(measure.points(X), self.most)

    def of(self, count: int, power: int) -> tuple[Graph, Any, float]:
        """The graph, its Laplacian L and the trace of L^p."""
        count = min(count, self.most)
        W = normalised(neighbour_weights(self.distances[:, :count], self.neighbours[:, :count]))
        trace = float(np.sum(root_of_laplacian(W, power).data ** 2))
        return self.measure.graph(count, power), laplacian_of(W), trace


def _features(X: Vector, centres: Vector, kernel: Kernel) -> Vector:
    """R (t, m) with RR' the kernel matrix, or its best approximation by the functions k(x, centre)."""
    K = kernel(centres)
    K[np.diag_indices_from(K)] += JITTER * float(np.mean(np.diag(K)))
    factor = scipy.linalg.cholesky(K, lower=True, check_finite=False)
    return np.asarray(scipy.linalg.solve_triangular(factor, kernel(X, centres).T, lower=True, check_finite=False).T)


EQUAL = 1e-3  # share of the error by which C may miss the least


@dataclass(frozen=True, eq=False)
class Contest:
    """Candidates, the labels that judge them, and whether there are unlabelled points."""

    found: Sequence[Candidate]
    labelled: Labelled
    unlabelled: bool

    def of(self, kind: str) -> Candidate | None:
        """The candidate of the least error of a kind; of several C with that error the least: the easiest to solve."""
        some = [one for one in self.found if one.kind == kind]
        best = min(some, key=lambda one: one.loss, default=None)
        if best is None:
            return None
        settings = {**best.params, "C": None}
        alike = [one for one in some if {**one.params, "C": None} == settings and one.loss <= (1 + EQUAL) * best.loss]
        return min(alike, key=lambda one: one.C)

    @cached_property
    def best(self) -> Candidate:
        """That of the first kind, or of a later one where errors, label by label, fall by a standard error.

        There are many graphs, and the best of many looks better than it is: there the fall has to be larger.
        """
        best = self.plain
        for kind in KINDS[1:]:
            one = self.of(kind)
            sure = SURER if kind == GRAPH else SURE
            if one is not None and falls(best.squares, one.squares, self.labelled.weight, sure):
                best = one
        return best

    @property
    def plain(self) -> Candidate:
        """The best one that knows of labelled points alone."""
        found = self.of(NONE)
        assert found is not None  # these are tried first
        return found

    @property
    def discriminant(self) -> Discriminant | None:
        """The rule that tells classes by where their scores lie, where it has fewer errors than the largest score."""
        return self._discriminant[0]

    @cached_property
    def _discriminant(self) -> tuple[Discriminant | None, float]:
        """And the share of errors without each label."""
        values, codes, weight = self.best.values, self.labelled.classes, self.labelled.weight
        if codes is None or np.any(weight != weight[0]) or not worth_trying(values, codes):
            return None, self.best.error
        after = predicted_without(values, codes) != codes
        if not falls(1.0 * self.labelled.wrong(values), 1.0 * after, weight):
            return None, self.best.error
        return Discriminant.of(values, codes), float(np.mean(after))

    @property
    def sentence(self) -> str:
        """What unlabelled points were worth, in plain words; and what the rule is worth that is taken after that."""
        rule, error = self._discriminant
        told = self._unlabelled_were_worth
        if rule is None:
            return told
        return f"{told} Classes lie between others: told by where the scores of each are, {100 * error:.1f} % errors."

    @property
    def _unlabelled_were_worth(self) -> str:
        best, plain = self.best, self.plain
        what = "errors" if self.labelled.classes is not None else "root mean squared error"
        if not self.unlabelled:
            told = "There are no unlabelled rows to learn from."
            return f"Without each label in turn: {self._said(best)} {what}. {told}"
        graph = self.of(GRAPH)
        if graph is None and best.kind != MEASURE:
            return f"Without each label in turn: {self._said(best)} {what}. Unlabelled rows were not tried."
        if best.kind not in (MEASURE, GRAPH):
            assert graph is not None  # as it was tried
            return (
                f"Unlabelled rows did not help: {self._said(best)} {what} without them, {self._said(graph)} with them."
            )
        if best.error < plain.error:
            return f"Unlabelled rows helped: {self._said(best)} {what} instead of {self._said(plain)}."
        return (
            f"Unlabelled rows helped a little: {self._said(best)} {what}, {self._said(plain)} before, and less doubt."
        )

    def report(self) -> dict[str, Any]:
        """What was tried, what it was worth, and one plain sentence about it."""
        tried = [one for one in map(self.of, KINDS) if one is not None]
        return {
            "sentence": self.sentence,
            "candidates": [
                {"knowledge": one.kind, "error": one.error, "loss": one.loss, **one.params} for one in tried
            ],
            "chosen": {"knowledge": self.best.kind, **self.best.params},
            "score": self._score(self.best),
        }

    def results(self, seconds: float) -> dict[str, Any]:
        """As `cv_results_` of scikit-learn's searches; the one split is that into each label and all others."""
        scores = np.array([self._score(one) for one in self.found])
        nothing = np.zeros(len(self.found))
        told: dict[str, Any] = {"mean_fit_time": nothing + seconds / len(self.found), "std_fit_time": nothing}
        told |= {"mean_score_time": nothing, "std_score_time": nothing}
        for name in self.found[0].params:
            values = np.empty(len(self.found), dtype=object)
            values[:] = [one.params[name] for one in self.found]
            told[f"param_{name}"] = np.ma.masked_array(values, mask=False)
        told["params"] = [one.params for one in self.found]
        losses = np.array([one.loss for one in self.found])
        return told | {
            "split0_test_score": scores,
            "mean_test_score": scores,
            "std_test_score": nothing,
            "mean_test_loss": losses,
            "rank_test_score": rankdata(losses, method="min").astype(np.int32),
        }

    def _said(self, one: Candidate) -> str:
        return f"{100 * one.error:.1f} %" if self.labelled.classes is not None else f"{one.error:.4g}"

    def _score(self, one: Candidate) -> float:
        """Accuracy, or minus the mean squared error."""
        return 1 - one.error if self.labelled.classes is not None else -(one.error**2)
