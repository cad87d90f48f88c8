"""Estimators that choose their settings from the data, by leave-one-out errors or by folds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from math import inf
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils.validation import check_is_fitted

from rkhs._backend.arrays import Vector, double, like, namespace, take_rows, to_numpy
from rkhs._estimators.base import BaseKernelEstimator, transactional
from rkhs._estimators.classifier import Classifier, InvariantClassifier
from rkhs._estimators.cross_validation import FOLD_TOL, CompactResults, Folds, folds_of, search
from rkhs._estimators.data import ClassPrior, Sample, class_weights, drawn_rows, predicted_codes
from rkhs._estimators.evidence import DIMENSIONS, EvidenceChoice, can_map
from rkhs._estimators.graph_kernels import LARGEST, as_new_points, graphs_in, warn_of_unreached
from rkhs._estimators.landmark_count import landmark_count, solves_exactly
from rkhs._estimators.length_scales import SCALED, as_kernel
from rkhs._estimators.normalization import WeightNormalization
from rkhs._estimators.options import (
    C_RANGE,
    GRAPH_RANGE,
    NU_RANGE,
    REGRESSION,
    WIDE_C_RANGE,
    ModelConfig,
    SolverOptions,
    as_grid,
    as_list,
    as_loss,
    check_in_span,
)
from rkhs._estimators.problem import FormulatedProblem, formulate
from rkhs._estimators.regressor import InvariantRegressor, SeveralOutputs
from rkhs._estimators.scoring import SCALES, C_for_loss, Labeled
from rkhs._estimators.selection import Choice, ModelSelection, SelectionMonitor
from rkhs._finite.posterior import Posterior
from rkhs._finite.solution import CONVERGED, TIME_LIMIT
from rkhs._graphs.neighbors import EXACT, INDEX, can_search
from rkhs._learning.leave_one_out import left_out_amplitude
from rkhs._problem import Problem
from rkhs._progress import seconds_left, with_extended_deadline, with_time_limit
from rkhs._spaces import FourierFeatures, FourierGrid, Landmarks
from rkhs._warnings import warn
from rkhs.functionals import Evaluation, Gradient
from rkhs.invariances._base import as_invariances
from rkhs.kernels import Kernel, Tunable
from rkhs.losses import Absolute, Loss, Quantile, Squared, SquaredEpsilonInsensitive
from rkhs.streams._blocks import collected, in_blocks

CLASS_KERNELS, VALUE_KERNELS = ("gaussian", "laplace"), ("gaussian", "laplace", "matern")  # those that "auto" compares
KERNELS_OF_SLOPES = ("gaussian", "matern")  # those that it compares with measured slopes

MOST_LABELS = 1000  # labels on which "auto" compares candidates
MOST_EXACT = 10_000  # labels up to which "auto" learns without an approximation: 0.8 GB, 13 s on one core
FEWEST_OF_MAP = 30  # labels from which the kernel of a map is chosen by evidence
MAPS = " Functions of up to three features are learned more accurately with pip install 'rkhs[maps]'."
CHECKED = 1000  # unlabeled points at which values of nodes and of new points are compared


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
    approximation: Any = None
    cv: Any = 5
    solver: Any = "auto"
    tol: float = 1e-4
    time_limit: float | None = None
    verbose: bool = False

    def __getstate__(self) -> dict[str, Any]:
        state = super().__getstate__()
        return {**state, "cv_results_": CompactResults.of(state["cv_results_"])} if "cv_results_" in state else state

    def __setstate__(self, state: dict[str, Any]) -> None:
        results = state.get("cv_results_")
        whole = {"cv_results_": results.whole()} if isinstance(results, CompactResults) else {}
        super().__setstate__({**state, **whole})

    @property
    def feature_importances_(self) -> Vector:
        """The share of each feature in the mean squared slope of f, in units of its standard deviation.

        The shares (n,) add up to one, or are all zero if f is constant.  If the kernel is not differentiable, slopes
        are differences over a fifth of a standard deviation.
        """
        check_is_fitted(self)
        function, X = self.function_, self._points.parts[0].atoms.points
        spread = double(X).std(axis=0)
        n, kernel = len(spread), getattr(function, "kernel", None)  # Fourier features have none
        if kernel is not None and kernel.smoothness(n) > 1:
            slopes = to_numpy(Gradient(X)(function)).reshape(len(X), n, -1) * spread[:, None]
        else:
            steps = like(np.diag(0.1 * spread), X)
            shifted = namespace(X).concat([X + h for h in steps] + [X - h for h in steps])
            above, below = np.split(to_numpy(function(shifted)), 2)  # at once: a call takes long with a graph
            slopes = np.moveaxis((above - below).reshape(n, len(X), -1), 0, 1)
        squares = np.mean(np.sum(slopes.reshape(len(X), n, -1) ** 2, axis=2), axis=0)
        total, size = float(squares.sum()), float(np.max(np.abs(to_numpy(self._points(function))), initial=0.0))
        rounded = total <= (1e-9 * size) ** 2  # then slopes are rounding
        return np.zeros(n) if rounded else np.asarray(squares / total)

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any,
        plain: type[Any],
        splitter: Callable[..., Any],
        score: Callable[[Vector, Sample], float],
        *gradients: Any,
    ) -> None:
        """Choose the settings and learn f with them, by the estimator `plain` if there is an approximation."""
        if in_blocks(X):
            X, y, sample_weight = collected(X, y, sample_weight)
        sample = self._sample(X, y, sample_weight, *gradients)
        count = sample.size
        rows = np.arange(count) if count <= 200 else np.random.default_rng(0).choice(count, 200, replace=False)
        self._points = Evaluation(take_rows(sample.X, rows))  # for `feature_importances_`
        automatic = isinstance(self.invariance, str) and self.invariance == "auto"
        if sample.slopes is not None and not automatic:
            raise ValueError(
                f"{type(self).__name__} with gradients chooses its settings by evidence, which needs "
                f'invariance="auto", got {self.invariance!r}: use rkhs.InvariantRegressor for both.'
            )
        by_evidence = sample.slopes is not None or (automatic and self._is_map(sample))
        with with_time_limit(None if self.time_limit is None else 0.6 * self.time_limit):
            evident = self._choose_by_evidence(sample) if by_evidence else None
            by_evidence = evident is not None
            if evident is not None:
                formulated: FormulatedProblem | None = formulate(evident, sample)
            else:
                config = self._choose(sample) if automatic else self._choose_by_folds(sample, splitter, score)
                formulated = None if self.approximation is not None and not automatic else formulate(config, sample)
        if automatic and not by_evidence and formulated is not None:
            formulated = replace(formulated, problem=self._affordable(formulated.problem, sample))
        # Learning f may take the rest of the limit and somewhat more, since an unfinished approximation is useless.
        with with_extended_deadline(max(seconds_left(), 0.0) + 0.1 * (self.time_limit or 0.0) + 1.0):
            if formulated is not None:
                self._learn(formulated.problem, sample, formulated.variance)
                if automatic and not by_evidence:
                    self._report_graphs(sample)
                return
            model = plain()
            settings = set(model.get_params(deep=False))
            names = {"C", "nu", "scale", "loss", *self.get_params(deep=False)} & settings
            model.set_params(**{name: getattr(config, name, getattr(self, name, None)) for name in names})
            fitted = vars(model.fit(X, y, sample_weight))
            self.__dict__.update({name: fitted[name] for name in set(fitted) - settings})  # the fitted attributes

    def _config(self, **changes: Any) -> ModelConfig:
        kernel = CLASS_KERNELS[0] if isinstance(self.kernel, str) and self.kernel == "auto" else self.kernel
        return super()._config(**{"kernel": kernel, "loss": as_list(self.loss)[0], **changes})

    @property
    def _search_tol(self) -> float:
        """The relative duality gap of the models of a grid, which need less accuracy than the final model."""
        return min(FOLD_TOL, 100 * self.tol)

    def _choose(self, sample: Sample) -> ModelConfig:
        """Return the settings with the smallest leave-one-out errors."""
        if isinstance(self.loss, list | tuple):
            raise ValueError('invariance="auto" chooses by the squared loss: give one loss, not a list.')
        Cs = as_grid(10 if self.Cs is None else self.Cs, "Cs", WIDE_C_RANGE)
        nus = as_grid(2 if self.nus is None else self.nus, "nus", GRAPH_RANGE, with_zero=True)
        labeled, mean = self._scored_by(sample)
        named = isinstance(self.kernel, str)
        kernels: list[Any] = [self._config().kernel]
        if named and self.kernel == "auto":
            kernels = list(CLASS_KERNELS if is_classifier(self) else VALUE_KERNELS)
            if isinstance(self.approximation, FourierFeatures):  # there are none of the second
                kernels = kernels[:1]
        by_name = isinstance(self.scales, str) and self.scales in ("auto", "median")
        scaled = isinstance(kernels[0], str) and kernels[0] in SCALED
        scales = None if by_name and scaled else [1.0] if by_name else as_list(self.scales)
        device = SolverOptions.of(self.solver).device
        graphs = named and scaled and any(nus) and self.approximation is None and not np.all(sample.labeled)
        graphs = graphs and int(sample.labeled.sum()) * sample.size <= LARGEST
        if graphs and not can_search(sample.size, device):
            warn(f"{type(self).__name__} tries no graph: graphs of more than {EXACT} rows need {INDEX}")
            graphs = False
        start = perf_counter()
        selection = ModelSelection(
            to_numpy(sample.X).astype(np.float64, copy=False),
            sample.count,
            labeled,
            kernels,
            partial(self._kernel_of, sample),
            scales,
            Cs,
            unlabeled=not np.all(sample.labeled),
            graphs=graphs,
            learns_scales=scales is None and self.scales == "auto",
            trends=kernels == list(VALUE_KERNELS),
            device=device,
            monitor=SelectionMonitor(0.0, verbose=self.verbose),
        )
        self.search_status_ = selection.run()
        count = len(selection.found)
        if self.search_status_ != CONVERGED:
            warn(
                f"{type(self).__name__} stopped its search after {count} candidates ({self.search_status_}).",
                ConvergenceWarning,
            )
        choice = Choice(selection.found, selection.labeled, selection.unlabeled, selection.assumed)
        best = choice.best
        if not np.isfinite(best.loss):
            raise RuntimeError(
                f"{type(self).__name__}: the errors of all {count} candidates overflow float64. Rescale the features, "
                "or pass other scales."
            )
        self.selection_report_ = choice.report()
        if is_classifier(self):
            self.discriminant_ = choice.discriminant[0]
        self.C_, self.nu_, self.scale_, self.loss_ = best.C / mean, 0.0, best.scale, self.loss
        loss = self._config().label_loss
        if not is_classifier(self) and len(Cs) > 1 and not isinstance(loss, Squared):
            K = self._kernel_of(sample, best.kernel, best.scale)(selection.X[labeled.rows])
            self.C_ = C_for_loss(loss, best.C, K, labeled) / mean
        self.best_index_, self.best_score_ = selection.found.index(best), self.selection_report_["score"]
        self.best_params_ = {**best.params, "C": self.C_}
        self.cv_results_ = choice.results(perf_counter() - start)
        self._settings = (len(Cs) > 1) + (int(sample.X.shape[1]) if best.kind == SCALES else 1)
        return self._config(**self.best_params_)

    def _is_map(self, sample: Sample) -> bool:
        """Return whether f is a map: values at points of the line, the plane or space, with default settings."""
        regression = not is_classifier(self) and not isinstance(self.loss, list | tuple) and sample.slopes is None
        stated = {"kernel": "auto", "scales": "auto", "solver": "auto", "approximation": None, "Cs": None}
        defaults = all(isinstance(getattr(self, n), str | None) and getattr(self, n) == v for n, v in stated.items())
        if not (regression and defaults and np.all(sample.labeled) and int(sample.X.shape[1]) <= DIMENSIONS):
            return False
        if not all(np.any(np.ptp(values, axis=0)) for values in (to_numpy(sample.X), sample.y)):
            return False  # a constant has no length scale
        if sample.size > MOST_EXACT:
            return self.loss == "squared" and can_map(int(sample.X.shape[1]))
        return sample.size >= FEWEST_OF_MAP

    def _choose_by_evidence(self, sample: Sample) -> ModelConfig | None:
        """Return the settings of largest penalized evidence, of a map or of a model with measured slopes.

        None is returned if a Fourier grid cannot represent the map.
        """
        grid = sample.slopes is None and sample.size > MOST_EXACT
        approximation, start = FourierGrid() if grid else self.approximation, perf_counter()
        config = self._config(C=1.0, nu=0.0, invariance=None, approximation=approximation)
        if sample.slopes is None:
            choice = EvidenceChoice.of_map(config, sample)
        else:
            choice = EvidenceChoice.of_slopes(config, sample, self._kernels_of_slopes(sample))
        if choice is None:
            return None
        self.selection_report_, self.search_status_ = choice.report(), choice.status
        self.best_params_ = choice.params(choice.best)
        loss = config.label_loss
        if sample.slopes is None and not isinstance(loss, Squared):
            labeled, mean = self._scored_by(sample)
            K = self._kernel_of(sample, choice.best.kernel, 1.0)(to_numpy(sample.X)[labeled.rows])
            self.best_params_["C"] = C_for_loss(loss, mean * self.best_params_["C"], K, labeled) / mean
        self.C_, self.nu_, self.scale_, self.loss_ = self.best_params_["C"], 0.0, self.best_params_["scale"], self.loss
        self.best_index_, self.best_score_ = 0, self.selection_report_["score"]
        self.cv_results_ = choice.results(perf_counter() - start)
        self._settings = 1 + int(sample.X.shape[1])
        return replace(config, **self.best_params_)

    def _kernels_of_slopes(self, sample: Sample) -> list[Kernel]:
        """Return the kernels to compare for measured slopes, with length scales to learn unless they are given."""
        automatic = isinstance(self.kernel, str) and self.kernel == "auto"
        is_open = isinstance(self.scales, str) and self.scales in ("auto", "median")
        scales = [Tunable(each=True)] if is_open else as_list(self.scales)
        kernels = KERNELS_OF_SLOPES if automatic else (self._config().kernel,)
        return [as_kernel(kernel, scale, sample.X) for kernel in kernels for scale in scales]

    def _choose_by_folds(
        self, sample: Sample, splitter: Callable[..., Any], score: Callable[[Vector, Sample], float]
    ) -> ModelConfig:
        """Return the settings with the best held-out score."""
        if self.approximation is not None:
            check_in_span(self.approximation, self.solver)
        invariances = as_invariances(self.invariance)
        graphs_only = bool(invariances) and all(invariance.once for invariance in invariances)
        nu_range = GRAPH_RANGE if graphs_only else NU_RANGE
        grids = {
            "C": as_grid(4 if self.Cs is None else self.Cs, "Cs", C_RANGE),
            "nu": as_grid(4 if self.nus is None else self.nus, "nus", nu_range, with_zero=True),
            "scale": as_list("median" if isinstance(self.scales, str) and self.scales == "auto" else self.scales),
            "loss": as_list(self.loss),
        }

        def problem_of(scale: Any, loss: Any) -> Problem:
            return formulate(self._config(C=1.0, nu=1.0, scale=scale, loss=loss), sample).problem

        splitter = partial(splitter, shuffle=True, random_state=0)
        folds = self._weighted(folds_of(self.cv, sample, splitter), sample)
        result = search(problem_of, grids, sample, folds, score, self._search_tol, self.verbose)
        count, solved = len(result.candidates), int(result.solved.sum())
        if solved == 0:
            late = result.status == TIME_LIMIT
            remedy = "a longer time_limit" if late else "a larger tol, smaller Cs, or another scale"
            raise RuntimeError(
                f"{type(self).__name__}: none of the {count} candidates was solved to a relative gap of "
                f"{self._search_tol:g} ({result.status}). Give it {remedy}."
            )
        if solved < count:
            warn(
                f"{type(self).__name__} chose among {solved} of {count} candidates: the others were not solved to "
                f"a relative gap of {self._search_tol:g} ({result.status}), and their scores are NaN.",
                ConvergenceWarning,
            )
        best = result.candidates[result.best]
        shown = [name for name, values in grids.items() if name in ("C", "nu") or len(values) > 1]
        self.C_, self.nu_, self.scale_, self.loss_ = (best[name] for name in grids)
        self.best_index_, self.best_score_ = result.best, float(result.scores[result.best].mean())
        self.best_params_ = {name: best[name] for name in shown}
        self.cv_results_, self.search_status_ = result.results(shown), result.status
        self._settings = sum(len(values) > 1 for values in grids.values())
        return self._config(**best)

    def _weighted(self, folds: Folds, sample: Sample) -> Folds:
        """Return the folds with class weights that are computed from the labels of each fold."""
        config = self._config()
        balanced = isinstance(config.class_weight, str) and config.class_weight == "balanced"
        if not balanced and not isinstance(config.class_weight, ClassPrior):
            return folds
        labeled, classes = sample.take(sample.labeled), np.asarray(config.classes)

        def weights(rows: Vector, share: Vector) -> Vector:
            return class_weights(config.class_weight, classes, labeled.y[rows], share * labeled.weight[rows])

        return folds.weighted(weights)

    def _scored_by(self, sample: Sample) -> tuple[Labeled, float]:
        """Return the labels by which candidates are scored, and the mean weight of all labels.

        Merged rows are separate labels here: one is left out while equal ones stay.  At most `MOST_LABELS` are drawn,
        and fewer for many features, so that features times squared labels stay below 2e9: seconds on one core.
        """
        labels = self._config(C=1.0).label_term(sample)
        count = sample.count[sample.labeled]
        weight, target = to_numpy(labels.weights())[:, 0] / count, to_numpy(labels.target)
        most = min(MOST_LABELS, max(300, int((2e9 / sample.X.shape[1]) ** 0.5)))
        drawn = drawn_rows(count, most, 0)
        rows = np.flatnonzero(sample.labeled)[drawn]
        labeled = Labeled(
            rows,
            target.reshape(len(target), -1)[drawn].astype(np.float64),
            weight[drawn] / float(weight[drawn].mean()),
            sample.y[rows] if is_classifier(self) else None,
        )
        return labeled, float(np.average(weight, weights=count))

    def _report_graphs(self, sample: Sample) -> None:
        """Add to the report how well new points agree with nodes, and how many points no label can reach."""
        graphs = graphs_in(self.best_params_["kernel"])
        if not graphs or self.solution_.span is not None:
            return
        unlabeled = np.flatnonzero(~sample.labeled)
        rows = np.sort(np.random.default_rng(0).permutation(unlabeled)[:CHECKED])
        between, values = as_new_points(self.function_, sample.X, rows)
        if is_classifier(self):
            agreement = float(np.mean(predicted_codes(between) == predicted_codes(values)))
        else:
            agreement = float(np.sqrt(np.mean((between - values) ** 2)))
        count = warn_of_unreached(graphs[0], sample.X, sample.labeled)
        self.selection_report_ |= {"agreement": agreement, "unreached": count}

    @property
    def _free(self) -> bool:
        """Whether the user has chosen neither an approximation nor a solver."""
        return self.approximation is None and SolverOptions.of(self.solver).method == "auto"

    def _kernel_of(self, sample: Sample, name: Any, scale: Any) -> Kernel:
        """Return a positive definite kernel, given as a name or an object, normalized to the mean k(x, x) = 1."""
        kernel = as_kernel(name, scale, sample.X)
        if kernel.order:
            raise ValueError(
                f'{type(self).__name__} with invariance="auto" needs a positive definite kernel, and {kernel!r} is '
                f"conditionally positive definite of order {kernel.order}: use another kernel, such as Gaussian(), or "
                'state an invariance, such as invariance="gradient".'
            )
        if isinstance(name, str) and name in SCALED:  # k(x, x) = 1 for these
            return kernel
        return kernel * (1 / WeightNormalization.at(kernel, sample.X, sample.weight).variance)

    def _affordable(self, problem: Problem, sample: Sample) -> Problem:
        """Return the problem, with landmarks and a warning if there are too many labels or too little time."""
        labels, left = problem.terms[0].size, seconds_left()
        if not self._free or (labels <= MOST_EXACT and (left == inf or solves_exactly(labels))):
            return problem
        count = landmark_count(problem, self.verbose)
        if count >= labels:
            return problem
        reason = "the time limit" if labels <= MOST_EXACT else f"more than {MOST_EXACT} labels"
        warn(
            f"{type(self).__name__} approximates f by {count} landmarks for {labels} labels, because of {reason}. "
            "Pass approximation=rkhs.Landmarks(p) for another number, or a solver for no approximation."
            + (MAPS if not is_classifier(self) and int(sample.X.shape[1]) <= DIMENSIONS and not can_map(1) else "")
        )
        return replace(problem, approximation=Landmarks(count))


@dataclass(eq=False, repr=False, kw_only=True)
class InvariantClassifierCV(Classifier, CrossValidated):
    """`InvariantClassifier` that chooses its settings, and the use of unlabeled points, from the data.

    By default (`invariance="auto"`) the kernel, its length scales and C are chosen by exact leave-one-out errors of the
    squared loss: each label is predicted from all others, while its point stays in, unlabeled.  The candidates are the
    Gaussian and the Laplace kernel of raw and of standardized features; of their first principal components and of
    decorrelated features, both computed from all points; a length scale for each feature, learned by evidence; kernels
    of graphs that join every point, labeled or not, with its nearest neighbors (`rkhs.kernels.GraphKernel`); and sums
    of these with the best other kernel.  The smallest error wins, and `selection_report_` has the best of each kind.
    If a class has fewer than three labels, leaving one out says little; then it is assumed that rows of one cluster
    share a class, and a fixed sum of kernels of graphs and of Gaussian kernels is used.  With three classes or more, if
    it has fewer errors, a linear discriminant of left-out scores replaces the largest score (`discriminant_`, otherwise
    None).

    With any other `invariance`, C and nu maximize the held-out accuracy: the labeled points are split into stratified
    folds, and the labels of one fold are left out at a time.  The grid shares its work over folds, C, nu and classes.
    Ties, which are frequent with few labels, are broken by the loss of held-out labels.

    Parameters
    ----------
    kernel : str or Kernel, default="auto"
        "auto" compares the Gaussian and the Laplace kernel; others as in `InvariantClassifier`.
    Cs : int or list of float, optional
        The values of C, or their number: from 0.1 to 1e8 for invariance="auto" (10 by default), otherwise from 1 to
        1000 (4 by default).
    nus : int or list of float, optional
        The values of nu, or their number: 0 and values between 100 and 1e8 for a graph as the invariance, otherwise 0
        and values between 1 and 100 (4 in all by default).  They mean the same on every data set.  For "auto" the
        values do not matter, except that [0] leaves out graphs.
    scales : str, float or list, default="auto"
        The length scales to try for a kernel given by name.  For invariance="auto", "median" tries 1/4, 1/2, 1, 2 and 4
        times the median distance, and "auto" also learns a scale for each feature; otherwise both mean the median.
    loss : str, Loss, or list of these, default="squared"
        As in `InvariantClassifier`; a list is part of the grid.  invariance="auto" chooses by the squared loss and
        learns with this one.
    invariance : object, default="auto"
        "auto", or as in `InvariantClassifier`.
    approximation : Landmarks, FourierFeatures, FourierGrid or None, default=None
        As in `InvariantClassifier`, for rows in memory.
    cv : int, splitter or iterable, default=5
        The number of folds (at most the number of points of the smallest class), a splitter of scikit-learn for the
        labeled points, or pairs of indices (train, test) of rows of X.
    solver : "auto", Solver or SolverOptions, default="auto"
        As in `InvariantClassifier`; with a device, invariance="auto" computes graphs there too.
    tol : float, default=1e-4
        The relative duality gap of the final model.  Models of the grid are solved to 100 times it, at most 0.01.
    time_limit : float, optional
        Seconds for the whole fit.  The search stops after about six tenths of it with the best candidate so far, and
        the model is approximated if it would take too long; warnings report both.  It also holds for each prediction,
        which raises TimeoutError then.
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
        As in scikit-learn's `GridSearchCV`.  Candidates that were not solved have NaN as scores and are not chosen.
    feature_importances_ : ndarray of shape (n,)
        The share of each feature in the mean squared slope of f, in units of its standard deviation.
    selection_report_ : dict
        For invariance="auto": a "sentence", what was "chosen", and the best of the "candidates" of each kind of prior:
        "none", "features", "trend" (in regression), "scales", "graph", "sum".  If a graph was chosen, also the
        "agreement", the share of points that would be classified alike as new points, and the number of points
        "unreached", in components of the graph that have no label.
    search_status_ : str
        "converged" if all candidates were solved, otherwise the reason why not.
    function_, solution_, problem_, classes_, labeled_ : object
        Of the model with the chosen values, trained on all labels, as in `InvariantClassifier`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.25, random_state=0)
    >>> few = np.where(np.arange(200) < 20, y, -1)
    >>> model = rkhs.InvariantClassifierCV().fit(X, few)
    >>> print(model.selection_report_["sentence"])
    Unlabeled rows helped: 5.0 % errors instead of 10.0 %.

    A prior that the user states, with C and nu chosen by folds:

    >>> stated = {"invariance": "gradient", "Cs": [1, 10], "nus": [0, 1], "cv": 3}
    >>> search = rkhs.InvariantClassifierCV(**stated).fit(X, few)
    >>> len(search.cv_results_["params"]), sorted(search.best_params_)
    (4, ['C', 'nu'])
    >>> near = rkhs.InvariantClassifierCV(**stated, approximation=rkhs.Landmarks(30)).fit(X, y)
    >>> near.solution_.span
    'Landmarks: 30 functions'
    """

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
            Factors on the losses; integers are numbers of rows.

        Returns
        -------
        InvariantClassifierCV
            The fitted estimator.
        """

        def accuracy(values: Vector, sample: Sample) -> float:
            return float(np.average(predicted_codes(values) == sample.y, weights=sample.weight))

        self.discriminant_ = None
        self._fit(X, y, sample_weight, InvariantClassifier, StratifiedKFold, accuracy)
        return self


@dataclass(eq=False, repr=False, kw_only=True)
class InvariantRegressorCV(SeveralOutputs, CrossValidated):
    """`InvariantRegressor` that chooses its settings, and the use of unlabeled points, from the data.

    By default (`invariance="auto"`) the settings are chosen as in `InvariantClassifierCV`. With any other
    `invariance` C and nu minimize the held-out error: the points with a target are split into folds, and the
    targets of one fold are left out at a time while its points stay, unlabeled. The score is minus the mean error
    of held-out targets: the squared error for squared losses, the pinball loss for quantiles, the absolute error
    for other losses and for lists of different kinds.

    With 30 or more targets of at most three features, all of them given, as those of a curve or a map, kernels of
    different smoothness, and a sum of two with different length scales, are compared by the logarithm of the evidence
    minus the number of learned settings.  Above 10,000 targets the evidence is that of a sample, and f is learned on a
    `FourierGrid`, if `rkhs[maps]` is installed.

    With measured slopes (`gradients`) the length scales, C and the weight of slopes are those of maximum evidence, and
    so is the choice between the Gaussian kernel and the Matern kernel.

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
    approximation, solver, tol, verbose : object
        As in `InvariantClassifierCV`.
    unlabeled : float or None, default=None
        As in `InvariantRegressor`.

    Attributes
    ----------
    C_, nu_, scale_, loss_, best_params_, best_score_, best_index_, cv_results_ : object
        As in `InvariantClassifierCV`.
    search_status_, selection_report_, feature_importances_ : object
        As in `InvariantClassifierCV`.
    function_, solution_, problem_, labeled_ : object
        Of the model with the chosen values, trained on all targets, as in `InvariantRegressor`.

    Notes
    -----
    `predict(X, return_std=True)` is as in `InvariantRegressor`, except for the amplitude.  It is the one under which
    left-out targets have the predicted spread, since the settings were chosen by leaving them out, times l / (l - q) in
    squares for q settings that were chosen by l targets; intervals are wider by the same factor.  With an
    approximation, and above 4,000 functionals, it is the amplitude of maximum likelihood, which
    `solution_.posterior` has in all cases.

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
            Factors on the losses; integers are numbers of rows.
        gradients : array-like of shape (t, n) or (t, n, outputs), optional
            Measured slopes of f, as in `InvariantRegressor`.  With them the settings are those of maximum evidence.

        Returns
        -------
        InvariantRegressorCV
            The fitted estimator.
        """
        losses = [as_loss(loss, REGRESSION, "loss") for loss in as_list(self.loss)]
        error: Loss = Absolute()  # scores held-out targets; unlike the loss it has no width that the grid may change
        if all(isinstance(loss, Quantile) and loss == losses[0] for loss in losses):
            error = losses[0]
        elif all(isinstance(loss, Squared | SquaredEpsilonInsensitive) for loss in losses):
            error = Squared()

        def score(values: Vector, sample: Sample) -> float:
            losses = error.value(values, sample.y).reshape(len(sample.y), -1).mean(axis=1)
            return -float(np.average(losses, weights=sample.weight))

        y = self._marked(X, y, gradients)
        self._fit(X, y, sample_weight, InvariantRegressor, KFold, score, gradients)
        return self

    def _posterior(self) -> Posterior:
        """Return the posterior with the amplitude that fits left-out targets, since these chose the settings."""
        posterior, problem = super()._posterior(), self.problem_
        if problem is None or problem.approximation is not None or problem.null_space == "dropped":
            return posterior
        if len(problem.terms) > 1:  # the evidence of values and slopes has chosen the settings
            return posterior
        if sum(term.size for term in problem.terms) > 4000:  # the matrix of more functionals takes long to invert
            return posterior
        tau: float | Vector | None = getattr(self, "_tau", None)
        if tau is None:
            count = self._held_out.count
            tau = self._tau = self._widened(int(count.sum())) * left_out_amplitude(problem, count)
        return replace(posterior, amplitude=tau)

    def _widened(self, count: int) -> float:
        # l targets that have chosen q settings leave l - q degrees of freedom
        return float(count / max(count - self._settings, count / 2)) ** 0.5
