"""Estimators that choose their settings from the data, by leave-one-out errors, by folds or by evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import product
from math import inf
from numbers import Integral
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from rkhs._core.backend.arrays import Array, Matrix, Vector, double, like, namespace, take_rows, to_numpy
from rkhs._core.finite.function import Function, Pullback, pushed_forward
from rkhs._core.finite.solution import CONVERGED, SOLVED, TIME_LIMIT, Posterior
from rkhs._core.finite.term import Term
from rkhs._core.graphs.neighbor_graph import INDEX, can_search
from rkhs._core.learning.leave_one_out import left_out_amplitude
from rkhs._core.limits import limits
from rkhs._core.problem import Problem
from rkhs._core.progress import seconds_left, with_extended_deadline, with_time_limit
from rkhs.estimators import _calibration as calibration, _formulation as formulation, _maps as maps
from rkhs.estimators._base import BaseKernelEstimator, Idle, documented_by, same, shape_of, transactional
from rkhs.estimators._classifier import Classifier, InvariantClassifier
from rkhs.estimators._data import Sample, as_weights, drawn_rows, predicted_codes
from rkhs.estimators._folds import Folds, folds_of, sampled_residuals
from rkhs.estimators._formulation import ModelConfig, SolverOptions
from rkhs.estimators._invariant_estimator import fit_stream, is_streamed
from rkhs.estimators._length_scales import (
    SCALED,
    EvidenceScorer,
    NormalizedKernels,
    as_kernel,
    errors_by_slopes,
    formulate,
)
from rkhs.estimators._regressor import InvariantRegressor, MultiOutputMixin
from rkhs.estimators.search import _families as kinds, _many_labels as many_labels
from rkhs.estimators.search._decide import Decision, Discriminant, chosen, evidence_report
from rkhs.estimators.search._scorers import C_for_loss, LeaveOneOutScorer, ScoringTargets, evidence
from rkhs.estimators.search._search import Choice, Family, Outcome, choose, cv_results, row_losses
from rkhs.exceptions import NotBoundedError, NotSolvedError, warn
from rkhs.functionals import Evaluation, Functional, Gradient
from rkhs.invariances._base import as_invariances
from rkhs.kernels import Kernel, Tunable
from rkhs.losses import Absolute, Loss, Quantile, Squared, SquaredEpsilonInsensitive
from rkhs.spaces import Landmarks
from rkhs.streams._blocks import collected, in_blocks

CLASS_KERNELS, VALUE_KERNELS = ("gaussian", "laplace"), ("gaussian", "laplace", "matern")  # those that "auto" compares
KERNELS_OF_SLOPES = ("gaussian", "matern")  # those that it compares with measured slopes

FEWEST_OF_MAP = 30  # labels from which the kernel of a map is chosen by evidence
FAR, LATE = 0.5, 2.0  # relative gap of a fit that has hardly begun, and seconds for another one of few landmarks
CHECKED = 1000  # unlabeled points at which values of nodes and of new points are compared


@dataclass(frozen=True, eq=False)
class FoldScorer:
    """Scores all C and nu, for settings of the scale and the loss, by held-out labels.

    The score is the accuracy, or minus the mean `error` of targets; the mean loss decides between equal ones.
    """

    config: ModelConfig  # with C = nu = 1
    sample: Sample
    folds: Folds
    Cs: Sequence[float]
    nus: Sequence[float]
    error: Loss | None
    tol: float

    def __call__(self, params: dict[str, Any]) -> list[Outcome]:
        """Return the candidates; those for which no time is left have NaN as scores."""
        pairs = list(product(self.Cs, self.nus))
        missing = np.full(self.folds.factors.shape[1], np.nan)
        if seconds_left() <= 0:
            return [Outcome({"C": C, "nu": nu, **params}, inf, missing, TIME_LIMIT) for C, nu in pairs]
        problem = formulate(replace(self.config, **params), self.sample).problem(self.sample)[0].in_double()
        others = tuple(range(1, len(problem.terms)))  # nu is the factor of all terms but the labels
        factors = {0: self.Cs, others: self.nus} if others else {0: self.Cs}
        held_out: dict[Any, Any] = {0: list(self.folds.factors.T)}
        solutions = problem.grid(factors, held_out=held_out, tol=self.tol, verbose=self.config.verbose)
        solutions = solutions.reshape(-1, len(missing))
        solutions = solutions if others else np.repeat(solutions, len(self.nus), axis=0)
        scores, losses = self._scored(problem.terms[0], solutions)
        found = []
        for (C, nu), row, score, loss in zip(pairs, solutions, scores, losses, strict=True):
            status = min({solution.status for solution in row} - {*SOLVED}, default=CONVERGED)
            ranked = -float(score.mean()) if status == CONVERGED else inf
            found.append(Outcome({"C": C, "nu": nu, **params}, ranked, score, status, float(loss.mean())))
        return found

    def _scored(self, labels: Term, solutions: Matrix) -> Any:
        """Return the scores and the losses (2, candidates, folds) of solutions; NaN for those that did not converge."""
        results = np.full((2, *solutions.shape), np.nan)
        labeled = self.sample.take(self.sample.labeled)
        for k, scored in enumerate(self.folds.scored.T):
            rows = np.flatnonzero(scored)
            weight, y = labeled.weight[rows], labeled.y[rows]
            target, label_weight = to_numpy(labels.target)[rows], to_numpy(labels.weights())[rows, 0]
            solved = [i for i, s in enumerate(solutions[:, k]) if s.status in SOLVED]
            values = evaluated([s.function for s in solutions[solved, k]], labels.functional.take(rows))
            for i, predictions in zip(solved, values, strict=True):
                if self.error is None:
                    correct = predicted_codes(predictions) == y
                else:
                    correct = -self.error.value(predictions, y).reshape(len(y), -1).mean(axis=1)
                results[0, i, k] = np.average(correct, weights=weight)
                results[1, i, k] = np.average(row_losses(labels.loss, predictions, target), weights=label_weight)
        return results


def evaluated(functions: Sequence[Function], points: Functional) -> Iterator[Vector]:
    """Yield the values at points of solutions of one grid, which have the same representers, 32 columns at a time."""
    if functions and not hasattr(functions[0], "coefficients"):  # each value is that of another function
        yield from (to_numpy(points(f)) for f in functions)
        return
    count = max(1, 32 // (functions[0].outputs or 1)) if functions else 1
    for start in range(0, len(functions), count):
        first, batch, joined = functions[0], functions[start : start + count], {}
        for name in ["coefficients"] if first.basis is None else ["coefficients", "basis_coefficients"]:
            columns = [getattr(f, name) for f in batch]
            columns = [c if c.ndim == 2 else c[:, None] for c in columns]
            joined[name] = namespace(columns[0]).concat(columns, axis=1)
        values = to_numpy(points(replace(first, **joined))).reshape(points.size, len(batch), -1)
        yield from (values[:, k, 0] if first.outputs is None else values[:, k] for k in range(len(batch)))


@dataclass(eq=False, repr=False)
class CrossValidated(BaseKernelEstimator):
    """The base of both CV estimators, which document its parameters."""

    kernel: Any = "auto"
    _: KW_ONLY
    Cs: Any = None
    nus: Any = None
    scales: Any = "auto"
    loss: Any = "squared"
    invariance: Any = "auto"
    shape: Any = None
    approximation: Any = None
    cv: Any = 5
    solver: Any = "auto"
    time_limit: float | None = None

    def _idle(self, slopes: bool) -> list[Idle]:
        automatic = self._is_automatic
        evidence = "settings of values and slopes are those of largest evidence"
        return [
            *super()._idle(slopes),
            ("cv", automatic, "settings are chosen without folds; invariance=None chooses by folds"),
            ("nus", automatic, 'invariance="auto" has no weight nu; nus=[0] leaves out graphs'),
            ("nus", self.invariance is None, "invariance=None has no weight"),
            (
                "kernel",
                bool(self._families) and (slopes or not automatic),
                "only a search by leave-one-out has families",
            ),
            ("Cs", slopes, evidence),
            ("scales", slopes and self._scales_by_rule, evidence),
            ("invariance", slopes, f"{evidence}; InvariantRegressor takes slopes and a prior"),
        ]

    @property
    def _is_automatic(self) -> bool:
        return same(self.invariance, "auto")

    @property
    def _families(self) -> list[Family]:
        return [one for one in formulation.as_list(self.kernel) if callable(one) and not isinstance(one, Kernel)]

    @property
    def _compares_kernels(self) -> bool:
        return same(self.kernel, "auto") or bool(self._families)

    @property
    def _losses(self) -> list[Any]:
        return ["squared"] if same(self.loss, "auto") else formulation.as_list(self.loss)

    @property
    def _scales_by_rule(self) -> bool:
        return same(self.scales, "auto") or same(self.scales, "median")

    @property
    def feature_importances_(self) -> Vector:
        """The share of each feature in the mean squared slope of f, in units of its standard deviation.

        The shares (n,) add up to one, or are all zero if f is constant.  If the kernel is not differentiable, slopes
        are differences over a fifth of a standard deviation, within the range of the feature.
        """
        check_is_fitted(self)
        if self._is_precomputed:
            raise AttributeError('feature_importances_ needs features, and kernel="precomputed" has none.')
        function, X = self.function_, self._points.parts[0].atoms.points
        spread = double(X).std(axis=0)
        n = len(spread)
        try:
            slopes = to_numpy(Gradient(X)(function)).reshape(len(X), n, -1) * spread[:, None]
        except NotBoundedError:
            xp, h = namespace(X), 0.1 * spread
            steps, ends = like(np.diag(h), X), (double(X).min(axis=0) + h, double(X).max(axis=0) - h)
            inner = xp.clip(X, *(like(end, X) for end in ends))  # latitudes end at 90 degrees, for example
            shifted = xp.concat([inner + h for h in steps] + [inner - h for h in steps])
            above, below = np.split(to_numpy(function(shifted)), 2)  # at once: a call takes long with a graph
            slopes = np.moveaxis((above - below).reshape(n, len(X), -1), 0, 1)
        squares = np.mean(np.sum(slopes.reshape(len(X), n, -1) ** 2, axis=2), axis=0)
        total, size = float(squares.sum()), float(np.max(np.abs(to_numpy(self._points(function))), initial=0.0))
        rounded = total <= (1e-9 * size) ** 2  # then slopes are rounding
        return np.zeros(n) if rounded else np.asarray(squares / total)

    def _fit(self, X: Any, y: Any, sample_weight: Any, *gradients: Any) -> None:
        """Choose the settings, and learn f with them."""
        if in_blocks(X):
            X, y, sample_weight = collected(X, y, sample_weight)
        given = self._rows(X, y, sample_weight, *gradients)
        sample = self._merged(given)
        points = sample.X
        if self._input_map() is not None:  # those of the sample are positions
            points = self._validated_input(X, "fit")
            points = points[as_weights(sample_weight, points) > 0]
        self._points = Evaluation(take_rows(points, drawn_rows(len(points), 200)))  # for `feature_importances_`
        repeated = self._is_automatic and sample.slopes is None and calibration.is_repeated(sample)
        self._searched = sample if repeated and not is_classifier(self) else None
        self._choose_and_learn(sample, X, y, sample_weight)
        labels, labeled = int(np.sum(given.labeled & (given.weight > 0))), sample.take(sample.labeled)
        repeats = labels - len(np.unique(labeled.groups))
        if hasattr(self, "selection_report_") and repeats:
            said = f" {repeats} of {labels} rows repeat the features of others, and are left out together with these."
            self.selection_report_["sentence"] += said

    def _choose_and_learn(self, sample: Sample, *rows: Any) -> None:
        """Choose the settings by a sample, and learn f with them; from the rows themselves if they are a stream."""
        automatic = self._is_automatic
        if automatic and isinstance(self.loss, list | tuple):
            raise ValueError('invariance="auto" chooses by the squared loss: give one loss, not a list.')
        self._spread: maps.MapSpread | None = None
        self._calibrated_by: Any = None
        with with_time_limit(None if self.time_limit is None else 0.6 * self.time_limit):
            config, varying = None, np.flatnonzero(np.ptp(to_numpy(sample.X), axis=0))
            seen = sample.with_features(varying) if automatic and sample.slopes is None else sample
            if sample.slopes is not None:
                config = self._choose_by_evidence(seen)
                if config is None:
                    sample = replace(sample, slopes=None)
                    seen = sample.with_features(varying)
            if config is None and automatic and self._is_map(seen):
                config = self._choose_map(seen)
            by_errors = automatic and config is None
            if config is None:
                config = self._choose_by_leave_one_out(seen) if automatic else self._choose_by_folds(sample)
            if int(seen.X.shape[1]) < int(sample.X.shape[1]):
                config = replace(config, **self._for_features(varying, int(sample.X.shape[1])))
        streamed = not automatic and is_streamed(self, config, *rows[:2])
        if not streamed:
            formulated = formulate(config, sample)
            problem, _ = formulated.problem(sample)
            if by_errors and self.approximation is None and SolverOptions.of(self.solver).method == "auto":
                values = not is_classifier(self)
                problem = many_labels.affordable_problem(problem, type(self).__name__, values, self.verbose)
        # Learning f may take the rest of the limit and somewhat more, since an unfinished approximation is useless.
        with with_extended_deadline(max(seconds_left(), 0.0) + 0.1 * (self.time_limit or 0.0) + 1.0):
            if streamed:
                fit_stream(self, config, *rows)
                for count in self._fewer(None):
                    with with_extended_deadline(LATE):
                        fit_stream(self, replace(config, approximation=Landmarks(count)), *rows)
                return
            labels = problem.terms[0]
            large = by_errors and labels.size >= limits().many_labels
            settled = many_labels.settled(labels, self._held_out_loss) if large else 0.0
            self._learn(problem, sample, formulated.norms.variance, atol=settled)
            for count in self._fewer(problem):
                with with_extended_deadline(LATE):
                    self._learn(replace(problem, approximation=Landmarks(count)), sample, formulated.norms.variance)
            if formulated.metric is not None:
                self.metric_ = formulated.metric
            if by_errors:
                self._match_shares(sample)
                self._report_graphs(sample, seen)
            calibrated = self.__dict__.pop("_calibrated_by")
            if calibrated is not None:
                self._spread = maps.MapSpread.of(problem, *calibrated)

    def _for_features(self, varying: Vector, n: int) -> dict[str, Any]:
        """Return the chosen kernel and scale as those of all n features, if only some of these vary."""
        chosen: dict[str, Any] = self.best_params_
        kernel, scale = chosen.get("kernel", self.kernel), chosen.get("scale")
        if isinstance(kernel, Kernel):
            kernel = kernel @ np.eye(n)[varying]
        elif isinstance(scale, tuple):
            scales = np.full(n, float(np.mean(np.array(scale) ** -2.0) ** -0.5))  # as in `feature_units`
            scales[varying] = scale
            scale = tuple(scales.tolist())
        changed = {"kernel": kernel, "scale": scale}
        self.scale_: Any = scale
        self.best_params_ |= {name: value for name, value in changed.items() if name in self.best_params_}
        return changed

    def _fewer(self, problem: Problem | None) -> Iterator[int]:
        """Yield numbers of landmarks for another fit, as long as a time limit has left f far from the minimum.

        What the user has stated about the method is kept if that is possible; a single landmark, and thus about the
        best constant, is always affordable.
        """
        free = self.approximation is None and self.shape is None and SolverOptions.of(self.solver).method == "auto"
        for few in (True, False) if free and problem is not None else (False,):
            if self.solution_.status != TIME_LIMIT or self.solution_.relative_gap <= FAR:
                return
            count = 1
            if few and problem is not None:
                with with_extended_deadline(0.1 * (self.time_limit or 0.0) + 1.0):
                    count = 50 if problem.approximation is not None else many_labels.landmark_count(problem)
                count = min(count, max(problem.terms[0].size // 2, 1))
            what = f"{count} landmarks" if count > 1 else "one landmark, nearly a constant"
            warn(f"{type(self).__name__} had too little time to learn f (time limit), and approximates it by {what}.")
            yield count

    def _config(self, **changes: Any) -> ModelConfig:
        kernel = CLASS_KERNELS[0] if self._compares_kernels else self.kernel
        return super()._config(**{"kernel": kernel, "loss": self._losses[0], **changes})

    def _keep_choice(
        self, choice: Choice, params: dict[str, Any], start: float, report: dict[str, Any] | None = None
    ) -> None:
        """Store the results of a search that began at the time `start`; `params` are the chosen settings.

        A search that ends after the time limit was limited by it, wherever that was.
        """
        found, best, status = choice.found, choice.best, choice.status
        if report is not None and (status != CONVERGED or seconds_left() <= 0):
            status = TIME_LIMIT if status == CONVERGED else status
            ended = f"{type(self).__name__} stopped its search after {len(found)} candidates ({status})."
            warn(ended, ConvergenceWarning)
        self.C_, self.nu_, self.scale_ = params["C"], params["nu"], params.get("scale", best.params["scale"])
        self.loss_ = best.params.get("loss", "squared" if same(self.loss, "auto") else self.loss)
        self.best_params_, self.best_score_ = params, float(best.scores.mean())
        self.best_index_, self.search_status_ = found.index(best), status
        self.cv_results_ = cv_results(found, perf_counter() - start, best.params if report is not None else params)
        self.__dict__.pop("selection_report_", None)  # of an earlier fit
        if report is not None:
            self.selection_report_ = report

    def _choose_by_leave_one_out(self, sample: Sample) -> ModelConfig:
        """Return the settings with the smallest leave-one-out errors, or errors at held-out rows of many."""
        start, (targets, mean) = perf_counter(), self._scored_by(sample)
        scorer, tried, many = self._tried(sample, targets, mean)
        monitor = many_labels.SelectionMonitor(0.0, verbose=self.verbose)
        choice, left_out = choose(tried, scorer, chosen, monitor), targets
        if many and choice.status == CONVERGED:
            every = self._scored_by(sample, inf)[0]
            device, order = SolverOptions.of(self.solver).device, np.random.default_rng(0).permutation(len(every.rows))
            held_out = many_labels.HeldOutScorer(scorer.X[every.rows], every, scorer.kernels, order, device)
            compared, scored = many_labels.chosen(held_out, choice.found, monitor)
            if compared.found:  # none are if no time was left
                choice, left_out = compared, scored
            choice = replace(choice, status=compared.status)
        found, best = choice.found, choice.best
        decision = Decision(found, best, left_out, not np.all(sample.labeled), scorer if left_out is targets else None)
        loss, C = self._config().label_loss, best.params["C"]
        if not np.isfinite(best.loss):
            raise NotSolvedError(
                f"{type(self).__name__}: the errors of all {len(found)} candidates overflow float64. Rescale the "
                "features, or pass other scales."
            )
        losses = row_losses(loss, best.values[left_out.point], left_out.labels)  # of predictions by the squared loss
        self._held_out_loss = float(np.average(losses, weights=left_out.importance))
        if is_classifier(self):
            self.discriminant_ = decision.discriminant[0]
        elif len(scorer.Cs) > 1 and not isinstance(loss, Squared):
            K = scorer.matrix(scorer.kernels(best.params["kernel"], best.params["scale"]))
            C = C_for_loss(loss, C, K, targets)
        self._keep_choice(choice, {**best.params, "C": C / mean}, start, decision.report())
        self.cv_results_["mean_test_loss"] = np.array([one.loss for one in found])
        learned = sum(
            weight for weight, one in best.summands if one.kind == "scales"
        )  # of kernels with a length scale for each feature
        self._settings = (len(scorer.Cs) > 1) + 1 + learned * (int(sample.X.shape[1]) - 1)
        return self._config(**self.best_params_)

    def _compared_kernels(self) -> list[Any]:
        """Return the kernels to compare, or the one that is given."""
        names: list[Any] = [self._config().kernel]
        if self._compares_kernels and shape_of(self) is None:  # f of others is too rough for proofs of a shape
            names = list(CLASS_KERNELS if is_classifier(self) else VALUE_KERNELS)
            if getattr(self.approximation, "needs_spectrum", False):  # there is none of the second
                names = names[:1]
        return names

    def _tried(self, sample: Sample, targets: ScoringTargets, mean: float) -> tuple[Any, list[Family], bool]:
        """Return the scorer, the families of kernels to try, and whether labels are too many for the scorer alone.

        Values of C, scales and kernels that are given are those to choose among.  `mean` is the mean weight of a label.
        """
        Cs = formulation.as_grid(10 if self.Cs is None else self.Cs, "Cs", formulation.WIDE_C_RANGE)
        if self.Cs is not None and not isinstance(self.Cs, Integral):
            Cs = [C * mean for C in Cs]  # values of C that are given refer to rows of weight one
        names, shaped, by_rule = self._compared_kernels(), shape_of(self) is not None, self._scales_by_rule
        named = isinstance(names[0], str)
        scaled = named and names[0] in SCALED
        scales = None if by_rule and scaled else [1.0] if by_rule else formulation.as_list(self.scales)
        nus = formulation.as_grid(2 if self.nus is None else self.nus, "nus", formulation.GRAPH_RANGE, with_zero=True)
        graphs = any(nus) and scaled and not shaped and self._tries_graphs(sample)
        each = scales is None and same(self.scales, "auto")
        varied = self.approximation is None and not shaped and bool(np.any(np.ptp(targets.target, axis=0) > 0))
        free = self._compares_kernels and each and self.Cs is None
        many = free and varied and not graphs and int(sample.labeled.sum()) >= limits().many_labels
        few = not many and len(targets.rows) <= limits().compared_labels
        refines = free and not many and not is_classifier(self)
        kernels = NormalizedKernels(type(self).__name__, sample)
        scorer = LeaveOneOutScorer(double(sample.X), targets, kernels, Cs)
        one_unit = scales is None and not each
        neighbors = kinds.Graphs(scorer.X, one_unit, SolverOptions.of(self.solver).device)
        plain = scales is None and varied and few
        tried: list[tuple[Family, bool]] = [
            (kinds.Smooth(names, scales, one_unit, not shaped), True),
            (kinds.trends, scales is None and names == list(VALUE_KERNELS)),
            (kinds.additive_sums, scales is None and len(names) > 1),
            *((family, True) for family in self._families),
            (kinds.refined, refines),
            (kinds.LearnedScales(refines), each and not many),
            (neighbors.clusters, graphs),
            (neighbors.neighbors, graphs),
            (kinds.Sums(refines), named and plain),
            (kinds.LargeMargin(), free and plain and is_classifier(self) and same(self.loss, "auto")),
        ]
        used = [family for family, is_tried in tried if is_tried]
        before = len(used) - isinstance(used[-1], kinds.LargeMargin)  # of which features may be clipped
        clipped = [kinds.Clipped(used[:before], sample)] if free and plain and not graphs else []
        return scorer, [*used[:before], *clipped, *used[before:]], many

    def _tries_graphs(self, sample: Sample) -> bool:
        """Return whether graphs of all points are tried: there are unlabeled ones, and not too many."""
        unlabeled = self.approximation is None and not np.all(sample.labeled) and sample.size > 1
        if not unlabeled or int(sample.labeled.sum()) * sample.size > limits().graph_entries:
            return False
        if not can_search(sample.size, SolverOptions.of(self.solver).device):
            most = limits().exact_neighbors
            warn(f"{type(self).__name__} tries no graph: graphs of more than {most} rows need {INDEX}")
            return False
        return True

    def _is_map(self, sample: Sample) -> bool:
        """Return whether f is a map: values at points of the line, the plane or space, with default settings."""
        regression = not is_classifier(self) and sample.slopes is None
        stated = ("kernel", "scales", "solver", "approximation", "Cs", "shape")
        defaults = all(same(getattr(self, name), getattr(type(self), name)) for name in stated)
        if not (regression and defaults and np.all(sample.labeled) and int(sample.X.shape[1]) <= maps.DIMENSIONS):
            return False
        if not all(np.any(np.ptp(values, axis=0)) for values in (to_numpy(sample.X), sample.y)):
            return False  # a constant has no length scale
        if sample.size > limits().exact_labels:
            return bool(self.loss == "squared")
        return sample.size >= FEWEST_OF_MAP

    def _choose_map(self, sample: Sample) -> ModelConfig:
        """Return the settings of a map, by evidence and by errors at left-out rows."""
        start = perf_counter()
        config = self._config(C=1.0, nu=0.0, invariance=None)
        sample = maps.without_spikes(config, sample, type(self).__name__)
        choice = maps.chosen_map(config, sample, limits().exact_labels)
        best, params = choice.settings, dict(choice.settings.params)
        if not isinstance(config.label_loss, Squared):
            targets, mean = self._scored_by(sample)
            K = NormalizedKernels(type(self).__name__, sample)(params["kernel"], 1.0)(to_numpy(sample.X)[targets.rows])
            params["C"] = C_for_loss(config.label_loss, mean * params["C"], K, targets) / mean
        by_evidence = choice.errors is None
        report = evidence_report(choice, best, sample) if by_evidence else choice.report()
        self._keep_choice(choice, params, start, report)
        if not by_evidence and params["approximation"] is not None:
            self._calibrated_by = choice.errors, params, best.values
        self._settings = 1 + int(sample.X.shape[1])
        return replace(config, **params)

    def _choose_by_evidence(self, sample: Sample) -> ModelConfig | None:
        """Return the settings of largest penalized evidence of a model with measured slopes.

        If left-out values are predicted significantly better without the slopes, return None, and warn.
        """
        start, config = perf_counter(), self._config(C=1.0, nu=0.0, invariance=None)
        scales = [Tunable(each=True)] if self._scales_by_rule else formulation.as_list(self.scales)
        names = KERNELS_OF_SLOPES if same(self.kernel, "auto") else (config.kernel,)
        kernels: list[Kernel] = [as_kernel(kernel, scale, sample.X) for kernel, scale in product(names, scales)]

        def by_evidence(rows: Sample) -> Choice:
            limit = None if seconds_left() == inf else max(seconds_left(), 0.0) / len(kernels)
            return choose(
                [lambda scorer, found: [kernels]],
                EvidenceScorer(config, rows, {"time_limit": limit, "verbose": config.verbose}),
            )

        choice = by_evidence(sample)
        best = choice.best
        report = evidence_report(choice, best, sample)

        def without(alone: Sample) -> ModelConfig | None:
            other = by_evidence(alone).best
            return replace(config, **other.params) if np.isfinite(best.loss) and np.isfinite(other.loss) else None

        compared = errors_by_slopes(replace(config, **best.params), sample, without)
        if compared is not None:
            sentence, worse = compared
            if worse:
                warn(f"{type(self).__name__} leaves the gradients out: {sentence}. Check their signs and units.")
                return None
            report["sentence"] += f" {sentence[0].upper()}{sentence[1:]}."
        self._keep_choice(choice, dict(best.params), start, report)
        self._settings = 1 + int(sample.X.shape[1])
        return replace(config, **best.params)

    def _choose_by_folds(self, sample: Sample) -> ModelConfig:
        """Return the settings with the best held-out score."""
        start = perf_counter()
        invariances = as_invariances(self.invariance)
        graphs_only = bool(invariances) and all(invariance.once for invariance in invariances)
        nu_range = formulation.GRAPH_RANGE if graphs_only else formulation.NU_RANGE
        grids = {
            "C": formulation.as_grid(4 if self.Cs is None else self.Cs, "Cs", formulation.C_RANGE),
            "nu": formulation.as_grid(4 if self.nus is None else self.nus, "nus", nu_range, with_zero=True),
            "scale": formulation.as_list(self.scales),
            "loss": self._losses,
        }
        if self.Cs is None or isinstance(self.Cs, Integral):
            weight = sample.weight[sample.labeled]
            grids["C"] = [C / float(weight.mean()) for C in grids["C"]]  # a common factor on weights changes nothing
        folds = folds_of(self.cv, sample, self._config())
        tol = min(limits().fold_gap, 100 * self.tol)  # models of a grid need less accuracy than the final model
        config, error = self._config(C=1.0, nu=1.0), self._fold_error()
        scorer = FoldScorer(config, sample, folds, grids["C"], grids["nu"], error, tol)
        trials = [{"scale": scale, "loss": loss} for scale, loss in product(grids["scale"], grids["loss"])]
        choice = choose([lambda scorer, found: ([trial] for trial in trials)], scorer)
        status, count, solved = choice.status, len(choice.found), sum(np.isfinite(one.loss) for one in choice.found)
        if solved == 0 and status != TIME_LIMIT:
            raise NotSolvedError(
                f"{type(self).__name__}: none of the {count} candidates was solved to a relative gap of "
                f"{tol:g} ({status}). Give it a larger tol, smaller Cs, or another scale."
            )
        if solved < count:
            warn(
                f"{type(self).__name__} chose among {solved} of {count} candidates: the others were not solved to "
                f"a relative gap of {tol:g} ({status}), and their scores are NaN.",
                ConvergenceWarning,
            )
        shown = [name for name, values in grids.items() if name in ("C", "nu") or len(values) > 1]
        self._keep_choice(choice, {name: choice.best.params[name] for name in shown}, start)
        self._settings = sum(len(values) > 1 for values in grids.values())
        return self._config(**choice.best.params)

    def _fold_error(self) -> Loss | None:
        """Return the loss by which held-out targets are scored; None for classes."""
        return None

    def _scored_by(self, sample: Sample, most: float | None = None) -> tuple[ScoringTargets, float]:
        """Return the labels by which candidates are scored, and the mean weight of all points with a label.

        Those of at most `most` points are drawn, by default of `Limits.compared_labels`, and of fewer for many
        features, so that features times squared points stay below 2e9: seconds on one core.
        """
        labels, rows = self._config(C=1.0).label_term(sample), np.flatnonzero(sample.labeled)
        weight, target = to_numpy(labels.weights())[:, 0], to_numpy(labels.target).astype(np.float64)
        codes = sample.y[rows] if is_classifier(self) else None
        groups = sample.groups[rows]
        targets = ScoringTargets.of(rows, target.reshape(len(target), -1), weight, groups, codes)
        mean, points = float(weight.sum()) / len(targets.rows), len(targets.rows)
        if most is None:
            most = min(limits().compared_labels, max(300, int((2e9 / sample.X.shape[1]) ** 0.5)))
        return targets if points <= most else targets.take(drawn_rows(points, int(most))).normalized(), mean

    def _match_shares(self, sample: Sample) -> None:
        """Let three or more classes be as frequent as among the labels, where clusters are assumed to be classes."""
        codes = sample.y[sample.labeled]
        assumed = is_classifier(self) and self.selection_report_["chosen"]["prior"] == "clusters"
        if assumed and self.function_.outputs is not None and not evidence(codes):
            weight = sample.weight[sample.labeled]
            counts = np.bincount(codes, weight / weight.mean()) + 1.0
            values = to_numpy(self.function_(sample.X))
            self._decide_by(Discriminant.with_shares(values, counts / counts.sum()))

    def _report_graphs(self, sample: Sample, seen: Sample) -> None:
        """Add to the report how well new points agree with nodes, and how many points no label can reach.

        The graphs are those of the features of `seen`, which vary.
        """
        graphs = kinds.graphs_in(self.best_params_["kernel"])
        if not graphs or self.solution_.span is not None:
            return
        unlabeled = np.flatnonzero(~sample.labeled)
        rows = np.sort(np.random.default_rng(0).permutation(unlabeled)[:CHECKED])
        f = self.function_.function if isinstance(self.function_, Pullback) else self.function_  # points are positions
        between, values = kinds.as_new_points(f, sample.X, rows)
        if is_classifier(self):
            agreement = float(np.mean(predicted_codes(between) == predicted_codes(values)))
        else:
            agreement = float(np.sqrt(np.mean((between - values) ** 2)))
        count = kinds.warn_of_unreached(graphs[0], seen.X, sample.labeled)
        self.selection_report_ |= {"agreement": agreement, "unreached": count}


@documented_by(InvariantClassifier)
@dataclass(eq=False, repr=False, kw_only=True)
class InvariantClassifierCV(Classifier, CrossValidated):
    """`InvariantClassifier` that chooses its settings, and the use of unlabeled points, from the data.

    By default (`invariance="auto"`) the kernel, its length scales and C are chosen by exact leave-one-out errors of the
    squared loss: each label is predicted from all others, while its point stays in, unlabeled; copies of a row are left
    out with it, as sample weights are importances, not numbers of rows.  The candidates are the
    Gaussian and the Laplace kernel of features divided by their ranges and by their deviations, so that units do not
    matter; of their first principal components and of decorrelated features, both computed from all points; sums of
    functions of one feature each; a length scale for each feature, learned by evidence; and kernels of graphs that join
    every point, labeled or not, with its nearest neighbors (`rkhs.kernels.GraphKernel`).  Errors of few labels cannot
    decide between these.  Therefore the kernel is a sum of the best of each family, with weights that decrease with the
    errors: the more labels there are, the fewer kernels remain.  Half of the prior weight has the assumption that rows
    of one cluster share a class.  Only labels beyond two of each class are evidence for or against it: with one or two,
    it is used alone, and three or more classes are assumed to be as frequent as among the labels; of twenty classes or
    more, two labels of each are evidence.  Where classes follow a rule without noise, the hinge loss is clearly better
    in folds than the squared loss, and f is learned with it.  `selection_report_` has the weights, and the best
    candidate of each kind.  With three classes or more, if it has significantly fewer
    errors, a linear discriminant of left-out scores replaces the largest score (`discriminant_`, otherwise None).

    With any other `invariance`, C and nu maximize the held-out accuracy: the labeled points are split into stratified
    folds, and the labels of one fold are left out at a time.  The grid shares its work over folds, C, nu and classes.
    Ties, which are frequent with few labels, are broken by the loss of held-out labels.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="auto"
        "auto" compares the Gaussian and the Laplace kernel; others as in `InvariantClassifier`.  A function, or a list
        of functions, is a family of further candidates for invariance="auto" (page "A family of candidates").
    Cs : int or list of float, optional
        The values of C, or their number: from 0.1 to 1e8 for invariance="auto" (10 by default), otherwise from 1 to
        1000 (4 by default).
    nus : int or list of float, optional
        The values of nu, or their number: 0 and values between 100 and 1e8 for a graph as the invariance, otherwise 0
        and values between 1 and 100 (4 in all by default).  They mean the same on every data set.  "auto" has
        no nu, and takes [0] only, which leaves out graphs.
    scales : str, float or list, default="auto"
        The length scales to try for a kernel given by name.  For invariance="auto", both words try 1/4, 1/2, 1, 2 and 4
        times the median distance.  "auto" supposes that each feature has a unit of its own, and also learns a scale for
        each; "median" is for features that all have one unit, such as the channels of a spectrum.  For other
        invariances they are those of `InvariantClassifier`.
    loss : str, Loss, or list of these, default="auto"
        As in `InvariantClassifier`; a list is part of the grid.  invariance="auto" chooses by the squared loss and
        learns with this one.  "auto" is "squared", or "hinge" with any of C if that has clearly fewer errors in folds.
    invariance : object, default="auto"
        "auto", or as in `InvariantClassifier`.
    shape : Shape or dict, optional
        As in `InvariantClassifier`.  The settings are chosen without it; for "auto" the candidates are then Gaussian
        kernels of the features themselves, whose f can be proved to have it.
    approximation : Landmarks, FourierFeatures, FourierGrid or None, default=None
        As in `InvariantClassifier`, for rows in memory.
    cv : int, splitter or iterable, default=5
        The number of folds (at most the number of points of the smallest class), a splitter of scikit-learn for the
        labeled points, or pairs of indices (train, test) of rows of X.  Not with invariance="auto", which leaves points
        out one by one.
    solver : "auto", Solver or SolverOptions, default="auto"
        As in `InvariantClassifier`; with a device, invariance="auto" computes graphs there too.
    tol : float, default=1e-4
        The relative duality gap of the final model.  Models of the grid are solved to 100 times it, at most 0.01.
    time_limit : float, optional
        Seconds for the whole fit.  The search stops after about six tenths of it with the best candidate so far, and
        the model is approximated if it would take too long, or if an exact fit has hardly begun at the limit; warnings
        report both.  It also holds for each prediction, which raises TimeoutError then.
    verbose : bool, default=False
        Whether to print progress to standard error.
    class_weight, unlabeled : object
        As in `InvariantClassifier`.

    Attributes
    ----------
    C_, nu_, scale_, loss_ : object
        The chosen values.
    best_params_ : dict
        The chosen values, with the kernel and the invariance for "auto".
    best_score_, best_index_, cv_results_ : object
        As in scikit-learn's `GridSearchCV`.  Outcomes that were not solved have NaN as scores and are not chosen.
    feature_importances_ : ndarray of shape (n,)
        The share of each feature in the mean squared slope of f, in units of its standard deviation.
    selection_report_ : dict
        For invariance="auto": a "sentence", what was "chosen", and the best of the "candidates" of each kind of prior:
        "none", "additive", "features", "trend" (in regression), "scales", "graph", "clusters", "sum", the weighted
        sum, whose parts have "weights", and "margin", each with its left-out error and the standard error.  If a graph
        was chosen, also the "agreement", the share of points that would be classified alike as new points, and the
        number of points "unreached", in components of the graph that have no label.
    search_status_ : str
        "converged" if all candidates were solved, otherwise the reason why not.
    function_, solution_, problem_, classes_, labeled_, shape_certificate_ : object
        Of the model with the chosen values, trained on all labels, as in `InvariantClassifier`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.25, random_state=0)
    >>> few = np.where(np.arange(200) < 20, y, -1)
    >>> model = rkhs.InvariantClassifierCV().fit(X, few)
    >>> print(model.selection_report_["sentence"])  # doctest: +ELLIPSIS
    Leave-one-out: 5.0 % errors of a weighted sum of 3 kernels...

    A prior that the user states, with C and nu chosen by folds:

    >>> stated = {"invariance": "gradient", "Cs": [1, 10], "nus": [0, 1], "cv": 3}
    >>> search = rkhs.InvariantClassifierCV(**stated).fit(X, few)
    >>> len(search.cv_results_["params"]), sorted(search.best_params_)
    (4, ['C', 'nu'])
    >>> near = rkhs.InvariantClassifierCV(**stated, approximation=rkhs.Landmarks(30)).fit(X, y)
    >>> near.solution_.span
    'Landmarks: 30 functions'
    """

    loss: Any = "auto"
    class_weight: Any = None
    unlabeled: Any = -1

    @transactional
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> InvariantClassifierCV:
        """Choose the settings, and learn f with them from all points.

        Parameters
        ----------
        X : array-like of shape (t, n), rkhs.streams.Blocks or dask collection
            The points; blocks are collected in memory.
        y : array-like of shape (t,), optional
            The classes, `unlabeled` where there is none; blocks contain them.
        sample_weight : array-like of shape (t,), optional
            Factors on the losses of rows.

        Returns
        -------
        InvariantClassifierCV
            The fitted estimator.
        """
        self.discriminant_ = None
        self._fit(X, y, sample_weight)
        return self


@documented_by(InvariantClassifierCV, InvariantRegressor)
@dataclass(eq=False, repr=False, kw_only=True)
class InvariantRegressorCV(MultiOutputMixin, CrossValidated):
    """`InvariantRegressor` that chooses its settings, and the use of unlabeled points, from the data.

    By default (`invariance="auto"`) the settings are chosen as in `InvariantClassifierCV`. With any other
    `invariance` C and nu minimize the held-out error: the points with a target are split into folds, and the
    targets of one fold are left out at a time while its points stay, unlabeled. The score is minus the mean error
    of held-out targets: the squared error for squared losses, the pinball loss for quantiles, the absolute error
    for other losses and for lists of different kinds.

    With 30 or more targets of at most three features, all of them given, as those of a curve or a map, kernels of
    different smoothness, and a sum of two with different length scales, are compared by the logarithm of the evidence
    minus the number of learned settings.  With a robust loss targets that are far from all around them do not take part
    in this.  From 1,000 targets on, the best one is compared with powers of the distance,
    such as the thin plate, and with levels of noise, by errors at rows that are left out at three distances: single
    points, stretches and blocks.  f is then learned by neighborhoods (`Neighbors`), or, if errors are smaller, from all
    rows together: up to 10,000 exactly, above on a `FourierGrid` if `rkhs[maps]` is installed.

    With measured slopes (`gradients`) the length scales, C and the weight of slopes are those of maximum evidence, and
    so is the choice between the Gaussian kernel and the Matern kernel.  If left-out values are predicted significantly
    better without the slopes, these are left out, with a warning.

    Parameters
    ----------
    kernel : str or Kernel, default="auto"
        "auto" compares the Gaussian, the Laplace and the Matern kernel, and sums of these with a linear kernel; others
        as in `InvariantRegressor`.
    Cs, nus, scales, cv, time_limit : object
        As in `InvariantClassifierCV`.
    loss : str, Loss, or list of these, default="squared"
        As in `InvariantRegressor`; a list is part of the grid.  invariance="auto" chooses by the squared loss, and
        determines C of another loss from the size of left-out residuals.
    invariance : object, default="auto"
        "auto", or as in `InvariantRegressor`.
    shape : Shape or dict, optional
        As in `InvariantClassifierCV`.
    approximation, solver, tol, verbose : object
        As in `InvariantClassifierCV`.
    unlabeled, coordinates : object
        As in `InvariantRegressor`.

    Attributes
    ----------
    C_, nu_, scale_, loss_, best_params_, best_score_, best_index_, cv_results_ : object
        As in `InvariantClassifierCV`.
    search_status_, selection_report_, feature_importances_ : object
        As in `InvariantClassifierCV`.
    function_, solution_, problem_, labeled_, coordinates_, shape_certificate_ : object
        Of the model with the chosen values, trained on all targets, as in `InvariantRegressor`.

    Notes
    -----
    `predict(X, return_std=True)` is as in `InvariantRegressor`, except for the amplitude.  It is the one under which
    left-out targets have the predicted spread, since the settings were chosen by leaving them out, times l / (l - q) in
    squares for q settings that were chosen by l targets; intervals are wider by the same factor.  With an
    approximation, and above 4,000 functionals, it is the amplitude of maximum likelihood, which
    `solution_.posterior` has in all cases.  Up to 400 targets, the first deviations that are asked for repeat the whole
    search without a fifth of the targets, five times, and are multiplied by the factor that 95 % of these show to be
    missing, at least one (`rkhs.estimators._calibration`).  For maps by neighborhoods or on a grid, standard deviations
    are those of neighborhoods, with a factor that depends on the deviation, so that 95 % of the left-out targets are
    within 1.96 of them near other points and in gaps.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> rkhs.InvariantRegressorCV().fit(X, np.sin(X[:, 0])).score(X, np.sin(X[:, 0])) > 0.9999
    True
    >>> stated = {"invariance": "gradient", "Cs": [1, 100], "nus": [0, 1], "cv": 4}
    >>> search = rkhs.InvariantRegressorCV(**stated).fit(X, np.sin(X[:, 0]))
    >>> search.best_params_
    {'C': 100.0, 'nu': 0.0}
    """

    unlabeled: Any = None
    coordinates: Any = None

    @transactional
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, gradients: Any = None) -> InvariantRegressorCV:
        """Choose the settings, and learn f with them from all points.

        Parameters
        ----------
        X : array-like of shape (t, n), rkhs.streams.Blocks or dask collection
            The points; blocks are collected in memory.
        y : array-like of shape (t,) or (t, outputs), optional
            The targets, `unlabeled` where there is none; blocks contain them.  Several outputs share all settings.
        sample_weight : array-like of shape (t,), optional
            Factors on the losses of rows.
        gradients : array-like of shape (t, n) or (t, n, outputs), optional
            Measured slopes of f, as in `InvariantRegressor`.  With them the settings are those of maximum evidence.

        Returns
        -------
        InvariantRegressorCV
            The fitted estimator.
        """
        self._fit(X, self._marked(X, y, gradients), sample_weight, gradients)
        return self

    def _fold_error(self) -> Loss:
        losses = [formulation.as_loss(loss, formulation.REGRESSION, "loss") for loss in self._losses]
        if all(isinstance(loss, Quantile) and loss == losses[0] for loss in losses):
            return losses[0]
        if all(isinstance(loss, Squared | SquaredEpsilonInsensitive) for loss in losses):
            return Squared()
        return Absolute()  # unlike the loss it has no width that the grid may change

    def _deviations(self, points: Functional, noise: bool) -> Array:
        if self._spread is not None:
            phi = self._input_map()
            return self._spread.std(points if phi is None else pushed_forward(points, phi), self._weight, noise)
        return super()._deviations(points, noise)

    def _posterior(self) -> Posterior:
        """Return the posterior with the amplitude that fits left-out targets, since these chose the settings."""
        posterior, problem = super()._posterior(), self.problem_
        plain = problem is not None and problem.approximation is None and problem.null_space == "kept"
        if not plain or len(problem.terms) > 1:  # settings of values and slopes were chosen by evidence
            return posterior
        tau: Any = getattr(self, "_tau", None)
        if tau is None:
            groups = self._held_out.groups
            if problem.terms[0].size <= limits().sized_labels:
                tau = left_out_amplitude(problem, groups)
            else:
                _, residuals, variance = sampled_residuals(self._held_out.solution, problem.terms[0], groups)
                tau = np.sqrt(np.mean(residuals**2 / variance[:, None], axis=0))
                tau = float(tau[0]) if posterior.spread.outputs is None else tau
            tau = self._tau = self._widened(len(np.unique(groups))) * tau
        return replace(posterior, amplitude=tau)

    def _calibrated_posterior(self) -> Posterior:
        posterior = self._posterior()
        if self._searched is None:
            return posterior
        factor: Any = getattr(self, "_stretch", None)
        if factor is None:
            factor = self._stretch = calibration.stretch(self._searched, self._searched_again, type(self).__name__)
        return posterior if factor is None else replace(posterior, amplitude=factor * posterior.amplitude)

    def _searched_again(self, sample: Sample) -> tuple[Posterior, float]:
        """Repeat the search for other rows; return the posterior at points of a sample, and the weight of a target."""
        again: Any = object.__new__(type(self))
        vars(again).update(vars(self), verbose=False, coordinates_=None)  # the points of the sample are positions
        again._choose_and_learn(sample)
        posterior = again._held_out.solution.posterior  # of the points, where that of the model is of the columns of X
        return replace(posterior, amplitude=again._posterior().amplitude), again._weight

    def _widened(self, count: int) -> float:
        # l targets that have chosen q settings leave l - q degrees of freedom
        return float(count / max(count - self._settings, count / 2)) ** 0.5
