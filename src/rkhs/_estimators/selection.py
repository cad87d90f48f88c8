"""Model selection by exact leave-one-out errors of the squared loss: which settings, and do unlabeled points help?

A candidate is a kernel, its length scales, and C.  One eigendecomposition gives the leave-one-out errors for all C and
all classes (`leave_one_out`).  Unlabeled points enter through the kernel: distances of principal components and of
decorrelated features, and the kernels of graphs of all points (`graph_kernels`).  A point whose label is left out stays
in as an unlabeled point.  The candidate with the smallest error is chosen.

If a class has fewer than `FEWEST` labels, leaving one out says little, and with unlabeled points a fixed sum of kernels
is chosen instead (`assumed_kernel`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import nsmallest
from itertools import product
from math import inf
from typing import Any

import numpy as np

from rkhs._backend.arrays import Matrix, Vector
from rkhs._backend.threads import map_in_threads
from rkhs._estimators.cross_validation import cv_results, masked_objects
from rkhs._estimators.data import drawn_rows, predicted_codes
from rkhs._estimators.graph_kernels import (
    ASSUMED_C,
    CUTOFFS,
    FEWEST,
    SMALL,
    assumed_kernel,
    graph_candidates,
)
from rkhs._estimators.length_scales import (
    FEW,
    FEWEST_LABELS,
    WIDTHS,
    FeatureTransform,
    KernelOf,
    ScaleLearner,
    deviations,
    feature_maps,
)
from rkhs._estimators.scoring import (
    FEATURES,
    GRAPH,
    KINDS,
    NONE,
    OF_ALL_POINTS,
    SCALES,
    SUM,
    TREND,
    Candidate,
    Discriminant,
    Labeled,
    falls_significantly,
    leave_one_out,
)
from rkhs._finite.monitor import Monitor, Stopped
from rkhs._finite.solution import CONVERGED, TIME_LIMIT, Record
from rkhs._gram import gram
from rkhs._progress import seconds_left, with_progress_callback
from rkhs.functionals import Evaluation
from rkhs.kernels import Linear, Standardized, median_scale
from rkhs.kernels._scaled import LEAST

MAPS = 2  # feature maps with which graphs are tried, those with the smallest errors without a graph
TRENDS = (1.0, 10.0)  # factors on the linear kernel in a sum with another kernel
SHARES = (0.1, 1.0, 10.0)  # factors on the best other kernel in a sum with the best graph kernel


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
    unlabeled: bool  # whether there are points without labels
    graphs: bool = True  # whether graphs of all points are tried
    learns_scales: bool = False  # whether scales are also learned, one per feature
    trends: bool = False  # whether sums with a linear kernel are tried
    device: str | None = None  # where graphs are computed
    monitor: SelectionMonitor = field(default_factory=lambda: SelectionMonitor(0.0))
    found: list[Candidate] = field(default_factory=list)
    assumed: Candidate | None = None  # what is chosen because a class has too few labels to compare errors

    def run(self) -> str:
        """Score all candidates until the time limit, and return the status."""
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
        return status

    @property
    def too_few(self) -> bool:
        """Whether a class has too few labels for leave-one-out errors to compare candidates."""
        classes = self.labeled.classes
        return classes is not None and int(np.bincount(classes).min(initial=FEWEST)) < FEWEST

    def _candidates(self) -> Iterator[list[Candidate]]:
        """Yield the candidates of one kernel matrix at a time: without priors, with trends, learned scales, graphs."""
        labeled, kernels = self.X[self.labeled.rows], self._promising(list(self._kernel_candidates()))
        smallest = dict[FeatureTransform, float]()  # loss without a graph
        learns = self.learns_scales and len(labeled) >= FEWEST_LABELS and self.X.shape[1] > 1
        graphs = self.unlabeled and self.graphs and len(self.X) > 1
        self.monitor.kernels = len(kernels) + 20 * learns * len(self.kernels)  # learning takes as long as 20 kernels
        if graphs:
            self.monitor.kernels += (2 * MAPS if len(self.X) <= SMALL else 1) * len(CUTOFFS) + len(SHARES)

        def score(trial: KernelCandidate) -> list[Candidate]:
            return self._scored(trial, self.kernel_of(*trial.settings)(labeled))

        for trial, scored in zip(kernels, map_in_threads(score, kernels), strict=True):
            smallest[trial.features] = min(smallest.get(trial.features, inf), *(c.loss for c in scored))
            yield scored
        if self.trends and self.scales is None and len(labeled) >= FEWEST_LABELS:
            yield from self._with_trends(labeled)
        if learns:
            learner = ScaleLearner(labeled, self.labeled, self.kernel_of, self.Cs)
            base = Choice(self.found, self.labeled, self.unlabeled).best
            learned = learner.candidate(self._best_of_kernels(), base)
            yield [] if learned is None else [learned]
        if graphs and self.too_few:
            with with_progress_callback(self._check_time):
                yield [self._assumed()]
        elif graphs:
            maps = (f for f in smallest if f.linear is None or (f.components is not None and len(self.X) <= SMALL))
            yield from self._with_graphs(nsmallest(MAPS, maps, key=lambda features: smallest[features]))

    def _promising(self, trials: list[KernelCandidate]) -> list[KernelCandidate]:
        """Return the sixth of the trials with the smallest errors of a sample of the labels, if these are many.

        The best one of each kernel without priors is kept in any case.
        """
        count = len(self.labeled.rows)
        if count <= 2 * FEW or self.scales is not None:
            return trials
        sample = self.labeled.take(np.sort(np.random.default_rng(0).choice(count, FEW, replace=False)))
        X = self.X[sample.rows]

        def error(trial: KernelCandidate) -> float:
            predictions = leave_one_out(self.kernel_of(*trial.settings)(X), sample.target, sample.weight, self.Cs)
            return min(map(sample.loss, predictions))

        errors = dict(zip(trials, map_in_threads(error, trials), strict=True))
        kept = set(nsmallest(-(-len(trials) // 6), trials, key=errors.__getitem__))
        for kernel in self.kernels:
            kept.add(min((trial for trial in trials if trial.settings[0] is kernel), key=errors.__getitem__))
        return [trial for trial in trials if trial in kept]

    def _best_of_kernels(self) -> list[Candidate]:
        """Return the best candidate of each kernel, without priors."""
        found = [[c for c in self.found if c.kernel == kernel] for kernel in self.kernels]
        return [min(candidates, key=lambda candidate: candidate.loss) for candidates in found]

    def _with_trends(self, X: Matrix) -> Iterator[list[Candidate]]:
        """Yield sums of the best candidate of each kernel and a linear function of the standardized features."""
        unit = deviations(X) * X.shape[1] ** 0.5  # so that the mean of k(x, x) is one, as for other kernels
        trend = Linear() @ Standardized(tuple(X.mean(axis=0).tolist()), tuple(unit.tolist()))

        def score(pair: tuple[Candidate, float]) -> list[Candidate]:
            best, share = pair
            total = self.kernel_of(self.kernel_of(best.kernel, best.scale) + share * trend, 1.0)
            return self._scored(KernelCandidate(FeatureTransform(1.0), (total, 1.0)), total(X), TREND)

        yield from map_in_threads(score, product(self._best_of_kernels(), TRENDS))

    def _check_time(self, fraction: float) -> None:
        if seconds_left() <= 0:
            raise Stopped(TIME_LIMIT)

    def _kernel_candidates(self) -> Iterator[KernelCandidate]:
        """Yield the kernels and scales to try."""
        if self.scales is not None:
            features = FeatureTransform(1.0)
            for kernel in self.kernels:
                yield from (KernelCandidate(features, (kernel, scale)) for scale in self.scales)
            return
        rows, subset = self._samples
        for features in feature_maps(rows):
            for kernel in self.kernels:
                distance = self.kernel_of(kernel, 1.0).distance
                if features.linear is not None and (kernel is not self.kernels[0] or distance != "euclidean"):
                    continue  # one kernel suffices, and other distances depend on the axes, which the map would change
                median = median_scale(features.points(subset), distance=distance)
                for width in WIDTHS:
                    yield KernelCandidate(features, features.kernel(kernel, median * width, self.kernel_of))

    @cached_property
    def _samples(self) -> tuple[Matrix, Matrix]:
        """Up to 4,000 rows for covariances, and up to 1,000 of these for medians."""
        rows = self.X[drawn_rows(self.count, 4000, 0)]
        return rows, rows if len(rows) <= 1000 else np.random.default_rng(0).choice(rows, 1000, replace=False)

    def _with_graphs(self, maps: list[FeatureTransform]) -> Iterator[list[Candidate]]:
        """Yield candidates with graphs after some feature maps, and sums of the best graph kernel with the best other.

        There is one graph if the points are many, since its neighbors take long to find.
        """
        best: tuple[float, Any, Matrix] | None = None
        unseen = (c for c in self.found if c.kind != SCALES)  # learned scales have seen the labels that are left out
        plain = min(unseen, key=lambda candidate: candidate.loss)
        for features in maps if len(self.X) <= SMALL else maps[:1]:
            with with_progress_callback(self._check_time):
                for kernel, K in graph_candidates(self.X, self.labeled.rows, features, self.device):
                    scored = self._scored(KernelCandidate(features, (kernel, 1.0)), K, GRAPH)
                    loss = min(candidate.loss for candidate in scored)
                    if best is None or loss < best[0]:
                        best = loss, kernel, K
                    yield scored
        if best is None or not np.isfinite(plain.loss):
            return
        _, graph_kernel, K = best
        other = self.kernel_of(plain.kernel, plain.scale)
        K_other = other(self.X[self.labeled.rows])
        for share in SHARES:
            total = self.kernel_of(graph_kernel + share * other, 1.0)
            trial = KernelCandidate(FeatureTransform(1.0), (total, 1.0))
            yield self._scored(trial, (K + share * K_other) / (1 + share), SUM)

    def _assumed(self) -> Candidate:
        """Return the candidate for too few labels, whose C is fixed."""
        assert self.labeled.classes is not None
        rows, labels = self._samples[1], len(self.labeled.rows)
        classes = self.labeled.target.shape[1] if self.labeled.target.shape[1] > 1 else 2
        total = assumed_kernel(self.X, classes, labels, rows, self.kernels[0], self.kernel_of, self.device)
        kernel = self.kernel_of(total, 1.0)
        K = np.asarray(gram(kernel, Evaluation(self.X[self.labeled.rows])).dense())
        [values] = leave_one_out(K, self.labeled.target, self.labeled.weight, [ASSUMED_C])
        self.assumed = Candidate(SUM, kernel, 1.0, ASSUMED_C, *self.labeled.scored(values))
        return self.assumed

    def _scored(self, trial: KernelCandidate, K: Matrix, kind: str | None = None) -> list[Candidate]:
        """Return the candidates with the kernel matrix K (l, l) of the labeled points, one for each C."""
        labeled, (kernel, scale) = self.labeled, trial.settings
        if kind is None:
            kind = NONE if trial.features.linear is None else FEATURES
        predictions = leave_one_out(K, labeled.target, labeled.weight, self.Cs)
        return [
            Candidate(kind, kernel, scale, C, *labeled.scored(values))
            for C, values in zip(self.Cs, predictions, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class Choice:
    """The choice among scored candidates, and the report about it."""

    found: Sequence[Candidate]
    labeled: Labeled
    unlabeled: bool  # whether there are points without labels
    assumed: Candidate | None = None  # what is chosen in any case

    def of(self, kind: str) -> Candidate | None:
        """Return the best candidate of a kind: of several C with nearly the smallest loss, that with the smallest C."""
        candidates = [candidate for candidate in self.found if candidate.kind == kind]
        best = min(candidates, key=lambda candidate: candidate.loss, default=None)
        if best is None:
            return None
        settings = {**best.params, "C": None}
        near = [c for c in candidates if {**c.params, "C": None} == settings and c.loss <= 1.001 * best.loss]
        return min(near, key=lambda candidate: candidate.C)

    def least(self, kinds: Sequence[str]) -> Candidate | None:
        """Return the candidate of some kinds with the smallest loss; of equal ones that of the first kind."""
        return min(
            (c for c in map(self.of, kinds) if c is not None), key=lambda candidate: candidate.loss, default=None
        )

    @cached_property
    def best(self) -> Candidate:
        """The candidate with the smallest loss, or the one that is assumed; of equal kinds the first of `KINDS`."""
        best = self.least(KINDS) if self.assumed is None else self.assumed
        assert best is not None  # those of the kind NONE are scored first
        return best

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
        best, using = self.best, self.least(OF_ALL_POINTS)
        without = self.least([kind for kind in KINDS if kind not in OF_ALL_POINTS])
        regression = self.labeled.classes is None
        what = "root mean squared error" if regression else "errors"

        def shown(candidate: Candidate) -> str:
            return f"{candidate.error:.4g}" if regression else f"{100 * candidate.error:.1f} %"

        if self.assumed is not None:
            return (
                f"Some class has fewer than {FEWEST} labels, too few to compare errors: it is assumed that rows of one "
                "cluster share a class."
            )
        if not self.unlabeled or using is None or without is None:
            why = "Unlabeled rows were not tried" if self.unlabeled else "There are no unlabeled rows"
            text = f"Leave-one-out: {shown(best)} {what}. {why}."
        elif best.kind not in OF_ALL_POINTS:
            verdict = "did not help" if using.error >= best.error else "did not lower the squared error"
            text = f"Unlabeled rows {verdict}: {shown(best)} {what} without them, {shown(using)} with them."
        elif best.error < without.error:
            text = f"Unlabeled rows helped: {shown(best)} {what} instead of {shown(without)}."
        else:
            text = (
                f"Unlabeled rows lowered the squared error only: {shown(best)} {what}, {shown(without)} without them."
            )
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
