"""The invariant estimators with their settings chosen from the data: by leave-one-out errors, or by folds."""

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
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from rkhs._backend.arrays import Vector, like, taken, to_numpy
from rkhs._estimators.base import BaseKernelEstimator, transactional
from rkhs._estimators.classifier import Classifier, InvariantClassifier
from rkhs._estimators.cross_validation import FOLD_TOL, CompactResults, Folds, folds_of, search
from rkhs._estimators.data import ClassPrior, Sample, class_weights, drawn_rows, predicted_codes
from rkhs._estimators.length_scales import SCALED, as_kernel
from rkhs._estimators.options import (
    C_RANGE,
    GRAPH_RANGE,
    NU_RANGE,
    WIDE_C_RANGE,
    ModelConfig,
    SolverOptions,
    as_grid,
    as_list,
    check_in_span,
)
from rkhs._estimators.problem import WeightNormalization, formulate
from rkhs._estimators.regressor import InvariantRegressor, Regressor
from rkhs._estimators.scoring import SCALES, Labeled
from rkhs._estimators.selection import FUNCTIONS, POWERS, Choice, ModelSelection, SelectionMonitor
from rkhs._finite.solution import CONVERGED, TIME_LIMIT
from rkhs._learning.leave_one_out import left_out_amplitude
from rkhs._learning.posterior import Posterior
from rkhs._problem import Problem
from rkhs._progress import granted, limited, seconds_left
from rkhs._spaces import FourierFeatures, Landmarks
from rkhs._warnings import warn
from rkhs.functionals import Evaluation, Gradient
from rkhs.invariances._base import as_invariances
from rkhs.kernels import Kernel
from rkhs.losses import Absolute, Loss, Quantile, Squared, SquaredEpsilonInsensitive
from rkhs.streams._blocks import in_blocks

KERNEL_NAMES = ("gaussian", "laplace")  # that "auto" tries; graphs with the first

# Sizes of the automatic choice: labels, and points at which it looks; weights of graphs mean the same for more.
MOST_LABELS, MOST_ROWS = 1000, 2000
# Points of which a model has all representers, where nothing else is asked for: with a graph, and without one (0.8 GB,
# 13 s of a core).
EXACT, MOST_EXACT = 4000, 10_000


@dataclass(eq=False, repr=False)
class CrossValidated(BaseKernelEstimator):
    """An estimator with grids Cs, nus, scales, losses in place of single values, which both classes document."""

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
        """Shares (n,) of the features in the mean squared slope of f, in units of their standard deviations.

        They add up to one, or are all zero where f is constant.  Functions of a kernel without slopes are compared a
        tenth of a deviation to both sides.
        """
        check_is_fitted(self)
        function, X = self.function_, self._places.parts[0].atoms.points
        spread = to_numpy(X).astype(np.float64).std(axis=0)
        n, kernel = len(spread), getattr(function, "kernel", None)  # Fourier features have none
        if kernel is not None and kernel.smoothness(n) > 1:
            slopes = to_numpy(Gradient(X)(function)).reshape(len(X), n, -1) * spread[:, None]
        else:
            steps = like(np.diag(0.1 * spread), X)
            slopes = np.stack([to_numpy(function(X + h)) - to_numpy(function(X - h)) for h in steps], axis=1)
        squares = np.mean(np.sum(slopes.reshape(len(X), n, -1) ** 2, axis=2), axis=0)
        total, size = float(squares.sum()), float(np.max(np.abs(to_numpy(self._places(function))), initial=0.0))
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
    ) -> None:
        """Choose the settings, by folds with a `splitter` and a `score`, and fit; the `plain` estimator in a span."""
        if in_blocks(X):
            raise TypeError(
                f"{type(self).__name__} splits rows into folds and needs them in memory, got {type(X).__name__}: "
                f"choose C and nu on a sample of the rows, and fit {plain.__name__} with them on all."
            )
        sample = self._sample(X, y, sample_weight)
        count = sample.size
        some = np.arange(count) if count <= 200 else np.random.default_rng(0).choice(count, 200, replace=False)
        self._places = Evaluation(taken(sample.X, some))  # functionals, which are saved and stay on their device
        automatic = isinstance(self.invariance, str) and self.invariance == "auto"
        with limited(None if self.time_limit is None else 0.6 * self.time_limit):
            config, points = self._choose(sample) if automatic else self._choose_by_folds(sample, splitter, score)
        found = None if self.approximation is not None and not automatic else formulate(config, points)
        if automatic and found is not None:
            problem = self._affordable(found.problem, MOST_EXACT if config.invariance is None else EXACT)
            found = replace(found, problem=problem)
        # Learning f may take what is left of the limit, and somewhat more, as half a model in a span is none.
        with granted(max(seconds_left(), 0.0) + 0.1 * (self.time_limit or 0.0) + 1.0):
            if found is not None:
                self._learn(found.problem, sample, found.variance)
                return
            model = plain()
            settings = set(model.get_params(deep=False))
            names = {"C", "nu", "scale", "loss", *self.get_params(deep=False)} & settings
            model.set_params(**{name: getattr(config, name, getattr(self, name, None)) for name in names})
            fitted = vars(model.fit(X, y, sample_weight))
            self.__dict__.update({name: fitted[name] for name in set(fitted) - settings})  # all that it has learned

    def _config(self, **changes: Any) -> ModelConfig:
        kernel = KERNEL_NAMES[0] if isinstance(self.kernel, str) and self.kernel == "auto" else self.kernel
        return super()._config(**{"kernel": kernel, "loss": as_list(self.loss)[0], **changes})

    @property
    def _search_tol(self) -> float:
        """The relative gap to which the models of a grid are solved: scores do not need all digits of a model."""
        return min(FOLD_TOL, 100 * self.tol)

    def _choose(self, sample: Sample) -> tuple[ModelConfig, Sample]:
        """Return the best settings by leave-one-out errors, and the points to learn from."""
        if isinstance(self.loss, list | tuple):
            raise ValueError('invariance="auto" chooses by the squared loss: give one loss, not a list.')
        Cs = as_grid(10 if self.Cs is None else self.Cs, "Cs", WIDE_C_RANGE)
        nus = as_grid(6 if self.nus is None else self.nus, "nus", GRAPH_RANGE, with_zero=True)
        labeled, mean = self._scored_by(sample)
        rows = self._subset(sample, labeled.rows, MOST_ROWS)
        kernels: list[Any] = [self.kernel]
        if isinstance(self.kernel, str) and self.kernel == "auto":  # Fourier features are not known of the second
            kernels = list(KERNEL_NAMES[:1] if isinstance(self.approximation, FourierFeatures) else KERNEL_NAMES)
        by_name = isinstance(self.scales, str) and self.scales in ("auto", "median")
        scaled = isinstance(kernels[0], str) and kernels[0] in SCALED
        scales = None if by_name and scaled else [1.0] if by_name else as_list(self.scales)
        # A function on a graph that few labels leave open follows all of its points: 4,000 of them with all their
        # representers predict better than 60,000 with 1,000 landmarks (docs/unlabeled.md).
        kept, known = sample, np.flatnonzero(sample.labeled)
        if self._free and sample.size > EXACT and len(known) <= EXACT // 2:
            kept = sample.take(self._subset(sample, known, EXACT))
        start = perf_counter()
        selection = ModelSelection(
            to_numpy(sample.X)[rows].astype(np.float64),
            sample.count[rows],
            replace(labeled, rows=np.searchsorted(rows, labeled.rows)),
            kernels,
            partial(self._kernel_of, sample),
            scales,
            Cs,
            nus,
            unlabeled=not np.all(sample.labeled),
            learns_scales=scales is None and self.scales == "auto",
            # the square of a sparse Laplacian of more points has many entries
            powers=POWERS if kept.size <= EXACT else POWERS[:2],
            monitor=SelectionMonitor(0.0, verbose=self.verbose),
        )
        self.search_status_ = selection.run()
        count = len(selection.found)
        if self.search_status_ != CONVERGED:
            tried = f"{count} candidates: {self.search_status_} before all of them were tried"
            warn(f"{type(self).__name__} chose among {tried}.", ConvergenceWarning)
        choice = Choice(selection.found, selection.labeled, selection.unlabeled)
        best = choice.best
        if not np.isfinite(best.loss):
            raise RuntimeError(
                f"{type(self).__name__}: the errors of all {count} candidates overflow. Give the features another "
                "unit, or other scales."
            )
        self.selection_report_ = choice.report()
        if is_classifier(self):
            self.discriminant_ = choice.discriminant[0]
        self.C_, self.nu_, self.scale_, self.loss_ = best.C / mean, best.nu, best.scale, self.loss
        self.best_index_, self.best_score_ = selection.found.index(best), self.selection_report_["score"]
        self.best_params_ = {**best.params, "C": self.C_}
        self.cv_results_ = choice.results(perf_counter() - start)
        self._settings = (len(Cs) > 1) + (int(sample.X.shape[1]) if best.kind == SCALES else 1)
        points = sample if best.graph is None else kept
        return self._config(**self.best_params_), points

    def _choose_by_folds(
        self, sample: Sample, splitter: Callable[..., Any], score: Callable[[Vector, Sample], float]
    ) -> tuple[ModelConfig, Sample]:
        """Return the settings of the best held-out score, and the points to learn from."""
        if self.approximation is not None:
            check_in_span(self.approximation, self.solver)
        known = as_invariances(self.invariance)
        powers = GRAPH_RANGE if known and all(one.once for one in known) else NU_RANGE
        grids = {
            "C": as_grid(4 if self.Cs is None else self.Cs, "Cs", C_RANGE),
            "nu": as_grid(4 if self.nus is None else self.nus, "nus", powers, with_zero=True),
            "scale": as_list("median" if isinstance(self.scales, str) and self.scales == "auto" else self.scales),
            "loss": as_list(self.loss),
        }

        def problem_of(scale: Any, loss: Any) -> Problem:
            return formulate(self._config(C=1.0, nu=1.0, scale=scale, loss=loss), sample).problem

        splitter = partial(splitter, shuffle=True, random_state=0)
        folds = self._weighted(folds_of(self.cv, sample, splitter), sample)
        found = search(problem_of, grids, sample, folds, score, self._search_tol, self.verbose)
        count, solved = len(found.candidates), int(found.solved.sum())
        if solved == 0:
            late = found.status == TIME_LIMIT
            remedy = "a longer time_limit" if late else "a larger tol, smaller Cs, or another scale"
            raise RuntimeError(
                f"{type(self).__name__}: none of the {count} candidates was solved to a relative gap of "
                f"{self._search_tol:g} ({found.status}). Give it {remedy}."
            )
        if solved < count:
            warn(
                f"{type(self).__name__} chose among {solved} of {count} candidates: the others were not solved to "
                f"a relative gap of {self._search_tol:g} ({found.status}), and their scores are NaN.",
                ConvergenceWarning,
            )
        best = found.candidates[found.best]
        shown = [name for name, values in grids.items() if name in ("C", "nu") or len(values) > 1]
        self.C_, self.nu_, self.scale_, self.loss_ = (best[name] for name in grids)
        self.best_index_, self.best_score_ = found.best, float(found.scores[found.best].mean())
        self.best_params_ = {name: best[name] for name in shown}
        self.cv_results_, self.search_status_ = found.results(shown), found.status
        self._settings = sum(len(values) > 1 for values in grids.values())
        return self._config(**best), sample

    def _weighted(self, folds: Folds, sample: Sample) -> Folds:
        """Return the folds with class weights that count the labels of each of them."""
        config = self._config()
        balanced = isinstance(config.class_weight, str) and config.class_weight == "balanced"
        if not balanced and not isinstance(config.class_weight, ClassPrior):
            return folds
        labeled, classes = sample.take(sample.labeled), np.asarray(config.classes)

        def weights(rows: Vector, share: Vector) -> Vector:
            own = labeled.y[rows], share * labeled.weight[rows]
            return class_weights(config.class_weight, classes, *own)

        return folds.weighted(weights)

    def _scored_by(self, sample: Sample) -> tuple[Labeled, float]:
        """Return the labels of rows by which candidates are scored, and the mean weight of all.

        Rows that were merged are labels of their own here: one is left out, and its twins stay.  There are at most
        `MOST_LABELS`, of wide tables fewer, so that features times squared labels stay below 2e9: seconds of a core.
        """
        labels = self._config(C=1.0).label_term(sample)
        count = sample.count[sample.labeled]
        weight, target = to_numpy(labels.weights())[:, 0] / count, to_numpy(labels.target)
        most = min(MOST_LABELS, max(300, int((2e9 / sample.X.shape[1]) ** 0.5)))
        some = drawn_rows(count, most, 0)
        rows = np.flatnonzero(sample.labeled)[some]
        labeled = Labeled(
            rows,
            target.reshape(len(target), -1)[some].astype(np.float64),
            weight[some] / float(weight[some].mean()),
            sample.y[rows] if is_classifier(self) else None,
        )
        return labeled, float(np.average(weight, weights=count))

    def _subset(self, sample: Sample, labeled: Vector, most: int) -> Vector:
        """Return `most` points, in their order, all the labeled ones among them."""
        labeled = np.unique(labeled)
        others = np.setdiff1d(np.arange(sample.size), labeled)
        wanted = max(0, most - len(labeled))
        if len(others) > wanted:
            others = check_random_state(0).choice(others, wanted, replace=False)
        return np.sort(np.concatenate([labeled, others]))

    @property
    def _free(self) -> bool:
        """Whether it is left to us how the problem is solved."""
        return self.approximation is None and SolverOptions.of(self.solver).method == "auto"

    def _kernel_of(self, sample: Sample, given: Any, scale: Any) -> Kernel:
        """Return a positive definite kernel, of its name and scale, whose values have variance one at the points."""
        kernel = as_kernel(given, scale, sample.X)
        if kernel.order:
            raise ValueError(
                f'{type(self).__name__} with invariance="auto" needs a positive definite kernel, and {kernel!r} is '
                f"conditionally so, of order {kernel.order}: use another kernel, such as Gaussian(), or an invariance "
                'of your choice, such as invariance="gradient".'
            )
        if isinstance(given, str) and given in SCALED:  # whatever their scale is
            return kernel
        return kernel * (1 / WeightNormalization.at(kernel, sample.X, sample.weight).variance)

    def _affordable(self, problem: Problem, most: int) -> Problem:
        """Return the problem, in the span of landmarks with a warning, where all its representers take too long.

        That is where there are more than `most` points, or where the time limit is too short by the speed of a product.
        """
        size, left = max(term.size for term in problem.terms), max(seconds_left(), 0.0)
        if size <= most and left == inf:
            return problem
        count, reason = FUNCTIONS, f"more than {most} points"
        if left < inf:
            A = np.ones((768, 768))
            A @ A[:, :8]  # the first product of a process starts the threads
            start = perf_counter()
            A @ A  # what else the computer does now slows a fit down, too
            speed = 2 * len(A) ** 3 / max(perf_counter() - start, 1e-6)  # operations a second
            speed /= 10  # a factorization, with all around it, is slower than products
            count = min(count, max(50, int((speed * left / (2 * size)) ** 0.5)))
            if size <= most and size**3 / (3 * speed) < left:
                return problem
            reason = reason if count == FUNCTIONS else "the time limit"
        if not self._free or count >= size:
            return problem
        warn(
            f"{type(self).__name__} learns from {size} points in the span of {count} landmarks, because of {reason}. "
            f"Give approximation=rkhs.Landmarks(..) for more or fewer, or a solver for all representers."
        )
        return replace(problem, approximation=Landmarks(count))


@dataclass(eq=False, repr=False, kw_only=True)
class InvariantClassifierCV(Classifier, CrossValidated):
    """`InvariantClassifier` with settings, and the use of unlabeled points, chosen from the data.

    By default (``invariance="auto"``) the kernel, length scales, C, and whether and how the graph of nearest neighbors
    helps are chosen by exact leave-one-out errors of the squared loss: each label is predicted from all others, its
    point staying in, unlabeled.  Features are taken as they are or divided by their standard deviations, whichever
    predicts better.  What else may be known comes in where it lowers the errors, label by label, by a standard error
    and a twentieth: distances of the first principal components or of decorrelated features, both found from all
    points; a scale for each feature, learned by evidence (``metric="auto"``); the graph.  `selection_report_` says what
    each gained.  Of three classes or more, some may lie between others, where the largest score is a poor guide: where
    it has fewer errors, a linear discriminant of left-out scores tells classes (`discriminant_`, otherwise None).

    With any other `invariance` C and nu are those of the best held-out accuracy: the labeled points are split into
    stratified folds, and the labels of one fold are left out at a time.  The grid shares its work over folds, C, nu and
    classes.  Among candidates of equal accuracy, of which there are many with few labels, the one with the least loss
    of held-out labels is taken.

    Parameters
    ----------
    kernel : "auto", the Gaussian or the Laplace kernel, or as in `InvariantClassifier`
    Cs : the values of C, or how many: from 0.1 to 1e8 for invariance="auto" (10 by default), otherwise from 1 to 1000
        (4)
    nus : the values of nu, or how many: 0 and numbers between 100 and 1e8 for "auto" (6 in all by default) and for
        graphs; otherwise 0 and numbers between 1 and 100 (4 in all).  They mean the same on every data set
    scales : the length scales to try for a kernel given by name; numbers, one per feature, or "median": for
        invariance="auto" 1/4, 1/2, 1, 2 and 4 times the median distance
    metric : for invariance="auto", whether scales are also learned, one per feature: "auto" or None
    epsilons : the widths to try for losses that are given by name and have one
    loss : as in `InvariantClassifier`; "auto" chooses by the squared loss, and learns with this one
    invariance : "auto", or as in `InvariantClassifier`
    invariance_loss, fit_intercept, class_weight, class_prior, unlabeled, solver, tol, verbose :
        as in `InvariantClassifier`
    approximation : as in `InvariantClassifier`, of rows in memory: they are summed up once for each scale and epsilon,
        and the grid combines and solves p x p matrices
    cv : the number of folds (no more than the smallest class has points), a splitter of scikit-learn for the
        labeled points, or pairs of indices (train, test) of rows of X
    random_state : the seed of the folds, 0 if None
    cv_tol : the relative duality gap to which the models of the grid are solved
    time_limit : seconds for the whole fit, or None.  The search ends after about six tenths of it with the best of
        what was tried, and the model has fewer functions where all would take too long; warnings tell of both
    device, precision : as in `InvariantClassifier`: where, and how exactly, folds, cells of the grid and the model are
        computed; what "auto" judges candidates by is computed on the processor

    Attributes
    ----------
    C_, nu_, scale_, epsilon_ : the best values, together in `best_params_`, with the kernel
    feature_importances_ : shares of the features in the mean squared slope of f, in units of their deviations
    selection_report_ : for "auto": a "sentence" in plain words, what was "chosen", and the best of the "candidates" of
        each kind of knowledge: "none", "measure" (of distances), "scales" (learned), "graph"
    best_score_, best_index_, cv_results_ : as in scikit-learn's `GridSearchCV`; candidates that were not solved to
        `cv_tol` have NaN as their scores and are not chosen
    search_status_ : "converged" if all candidates were solved; otherwise what kept them from it
    function_, solution_, problem_, classes_, labeled_ : of the model with the best values, trained on all labels

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.25, random_state=0)
    >>> few = np.where(np.arange(200) < 20, y, -1)
    >>> model = rkhs.InvariantClassifierCV().fit(X, few)
    >>> print(model.selection_report_["sentence"])
    Unlabeled rows helped: 5.0 % errors instead of 10.0 %.

    Prior knowledge of one's own, with C and nu by folds; with an approximation the rows are looked at once:

    >>> own = {"invariance": "gradient", "Cs": [1, 10], "nus": [0, 1], "cv": 3}
    >>> search = rkhs.InvariantClassifierCV(**own).fit(X, few)
    >>> len(search.cv_results_["params"]), sorted(search.best_params_)
    (4, ['C', 'nu'])
    >>> near = rkhs.InvariantClassifierCV(**own, approximation=rkhs.Landmarks(30)).fit(X, y)
    >>> near.solution_.span
    'Landmarks: 30 functions'
    """

    class_weight: Any = None
    unlabeled: Any = -1

    @transactional
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> InvariantClassifierCV:
        """Choose C and nu, and learn f with them from points X (t, n) and their classes y."""

        def accuracy(values: Vector, sample: Sample) -> float:
            return float(np.average(predicted_codes(values) == sample.y, weights=sample.weight))

        self.discriminant_ = None
        self._fit(X, y, sample_weight, InvariantClassifier, StratifiedKFold, accuracy)
        return self


@dataclass(eq=False, repr=False, kw_only=True)
class InvariantRegressorCV(Regressor, CrossValidated):
    """`InvariantRegressor` with settings, and the use of unlabeled points, chosen from the data.

    By default (``invariance="auto"``) the kernel, length scales, one for each feature where that predicts better, C,
    and whether and how the graph of nearest neighbors helps are chosen as in `InvariantClassifierCV`.

    With any other `invariance` C and nu are those of the least held-out error: the points with a target are split into
    folds; the targets of one fold are left out at a time, and its points stay, unlabeled.  The grid shares its work
    over folds, C and nu.  The score is minus the mean error at the points left out: squared for the squared losses, the
    quantile's own for "quantile" and absolute for the others.  Among equals the one with the least loss of held-out
    targets is taken.

    Parameters
    ----------
    kernel : "auto", the Gaussian or the Laplace kernel, or as in `InvariantRegressor`
    invariance : "auto", or as in `InvariantRegressor`
    loss, quantile, invariance_loss, fit_intercept, unlabeled, solver, tol, verbose, approximation, device, precision :
        as in `InvariantRegressor`; approximation of rows in memory
    Cs, nus, scales, metric, epsilons, cv, random_state, cv_tol, time_limit : as in `InvariantClassifierCV`

    Attributes
    ----------
    C_, nu_, scale_, epsilon_, best_params_, best_score_, best_index_, cv_results_, search_status_, selection_report_,
        feature_importances_ : as in `InvariantClassifierCV`
    function_, solution_, problem_, labeled_ : of the model with the best values, trained on all labels

    Notes
    -----
    `predict(X, return_std=True)` is as in `InvariantRegressor`, but for the amplitude: it is the one by which targets
    that are left out have the spread that is promised, as settings were chosen by leaving them out
    (`solution_.posterior` has the most likely one), times l / (l - q) in squares for q settings that were chosen by l
    targets.  With an approximation, and above 4,000 functionals, it is the most likely one.  Intervals are wider by the
    same factor.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> rkhs.InvariantRegressorCV().fit(X, np.sin(X[:, 0])).score(X, np.sin(X[:, 0])) > 0.9999
    True
    >>> own = {"invariance": "gradient", "Cs": [1, 100], "nus": [0, 1], "cv": 4}
    >>> search = rkhs.InvariantRegressorCV(**own).fit(X, np.sin(X[:, 0]))
    >>> search.best_params_
    {'C': 100.0, 'nu': 0.0}
    """

    unlabeled: Any = None

    @transactional
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> InvariantRegressorCV:
        """Choose C and nu, and learn f with them from points X (t, n) and their targets y."""
        loss = self._config().label_loss
        error: Loss = Absolute()  # by which held-out points are scored, with no width to be chosen
        if isinstance(loss, Quantile):
            error = loss
        elif isinstance(loss, Squared | SquaredEpsilonInsensitive):
            error = Squared()

        def score(values: Vector, sample: Sample) -> float:
            return -float(np.average(error.value(values, sample.y), weights=sample.weight))

        self._fit(X, y, sample_weight, InvariantRegressor, KFold, score)
        return self

    def _posterior(self) -> Posterior:
        """Return the process with the amplitude of left-out targets, by which settings were chosen too."""
        posterior, problem = super()._posterior(), self.problem_
        if problem is None or problem.approximation is not None or problem.null_space == "dropped":
            return posterior
        if sum(term.size for term in problem.terms) > 4000:  # functionals whose matrix is inverted
            return posterior
        tau: float | Vector | None = getattr(self, "_tau", None)
        if tau is None:
            count = self._held_out.count
            tau = self._tau = self._widened(int(count.sum())) * left_out_amplitude(problem, count)
        return replace(posterior, amplitude=tau)

    def _widened(self, count: int) -> float:
        # of l targets by which q settings were chosen l - q are left, as of those that a basis is fitted to
        return float(count / max(count - self._settings, count / 2)) ** 0.5
