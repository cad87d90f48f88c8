"""How much a learnt function changes along each feature.

From the parameters of a cross-validated machine to the best machine, trained on all labels.

InvSVM with its weights chosen by cross-validation.

Regression with invariances, its weights chosen by cross-validation.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
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

from rkhs._backend.arrays import Array, Vector, like, taken, to_numpy
from rkhs._finite.solution import CONVERGED, Solution
from rkhs._progress import granted, limited, seconds_left
from rkhs.estimators._cross_validation import Results, Search, folds_of, search
from rkhs.estimators._data import Sample, class_weights, drawn_rows
from rkhs.estimators._options import (
    C_RANGE,
    GRAPH_RANGE,
    NU_RANGE,
    REGRESSION,
    SCALED,
    WIDE_C_RANGE,
    as_grid,
    as_kernel,
    as_list,
    as_loss,
    check_in_span,
)
from rkhs.estimators._problem import Units, invariant_problem
from rkhs.estimators._scoring import SCALES, Labelled
from rkhs.estimators._selection import FUNCTIONS, POWERS, ChoiceMonitor, KnowledgeSearch
from rkhs.estimators.base import all_or_nothing
from rkhs.estimators.classifier import Classifier, InvariantClassifier
from rkhs.estimators.regressor import InvariantRegressor, Regressor
from rkhs.functionals import Evaluation, Gradient
from rkhs.invariances.base import as_invariances
from rkhs.kernels import Kernel
from rkhs.learning.leave_one_out import left_out_amplitude
from rkhs.learning.posterior import Posterior
from rkhs.losses import Absolute, Loss, Quantile, Squared, SquaredEpsilonInsensitive
from rkhs.problem import Problem
from rkhs.spaces import FourierFeatures, Landmarks
from rkhs.streams.blocks import in_blocks

STEP = 0.1  # of a standard deviation, for kernels without slopes
ROUNDING = 1e-9  # of f, below which slopes are rounding
POINTS = 200  # at which slopes are looked at


def some_places(X: Array) -> Evaluation:
    """Some of the training points, as functionals, which are saved with a model and stay on their device."""
    if len(X) <= POINTS:
        return Evaluation(X)
    return Evaluation(taken(X, np.random.default_rng(0).choice(len(X), POINTS, replace=False)))


def importances(function: Any, places: Evaluation) -> Vector:
    """Shares (n,), which add up to one, of the features in the mean of |grad f|^2 at some places.

    Slopes are in units of the deviations of features.  Functions of a kernel without slopes are compared a tenth of a
    deviation to both sides.  All shares are zero where f is constant.
    """
    X = places.parts[0].atoms.points
    spread = to_numpy(X).astype(np.float64).std(axis=0)
    n, kernel = len(spread), getattr(function, "kernel", None)  # Fourier features have none
    if kernel is not None and kernel.smoothness(n) > 1:
        slopes = to_numpy(Gradient(X)(function)).reshape(len(X), n, -1) * spread[:, None]
    else:
        steps = like(np.diag(STEP * spread), X)
        slopes = np.stack([to_numpy(function(X + h)) - to_numpy(function(X - h)) for h in steps], axis=1)
    squares = np.mean(np.sum(slopes.reshape(len(X), n, -1) ** 2, axis=2), axis=0)
    total, size = float(squares.sum()), float(np.max(np.abs(to_numpy(places(function))), initial=0.0))
    return np.asarray(squares / total if total > (ROUNDING * size) ** 2 else np.zeros(n))


AUTO = "auto"
KINDS = ("gaussian", "laplace")  # of kernels that "auto" tries; graphs with the first
MOST_LABELS = 1000  # by which knowledge is chosen
FEWER_LABELS, WIDE = 300, 2e9  # of wide tables, at least; features times squared labels that are compared
MOST_ROWS = 2000  # at which it is chosen; weights of graphs mean the same for more
SPARSE_POWERS = (1, 2)  # of Laplacians of more points: the square of a sparse matrix has many entries
EXACT = 4000  # points of which a model with a graph has all representers, where nothing else is asked for
MOST_EXACT = 10_000  # points without a graph of which it has them: 0.8 GB, 13 s of a core
LAST = 0.1, 1.0  # share of the time limit, and seconds, that the model may take beyond it
SEARCHING = 0.6  # share of a time limit after which the search ends
PROBE = 768  # rows of the matrices whose product tells how fast the computer is
FACTORED = 10.0  # times that a factorisation, with all around it, takes longer than products of as many operations
FEWEST_FUNCTIONS = 50


class CrossValidated:
    """A machine with grids Cs, nus, scales, epsilons in the place of single values."""

    plain: type[Any]  # the machine with single values
    _settings: int  # how many numbers were chosen by the labels

    def __getstate__(self) -> dict[str, Any]:
        """For files and copies: the results of a search in short."""
        own: Any = super()
        state = own.__getstate__()
        if "cv_results_" in state:
            state = {**state, "cv_results_": Results.of(state["cv_results_"])}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        own: Any = super()
        results = state.get("cv_results_")
        own.__setstate__({**state, "cv_results_": results.whole()} if isinstance(results, Results) else state)

    @property
    def feature_importances_(self) -> Vector:
        """Shares (n,) of the features in the mean squared slope of f, in units of their standard deviations."""
        own: Any = self
        check_is_fitted(own)
        return importances(own.function_, own._places)

    def _remember(self, sample: Sample) -> None:
        """Keep where importances are looked at."""
        self._places = some_places(sample.X)

    @property
    def _automatic(self) -> bool:
        own: Any = self
        return isinstance(own.invariance, str) and own.invariance == AUTO

    def _choose_knowledge(self, sample: Sample) -> Problem:
        """The problem of the best settings by leave-one-out errors, with a graph of all points where that helps.

        Leaves `knowledge_report_` beside what `_choose` leaves.
        """
        own: Any = self
        Cs = as_grid(10 if own.Cs is None else own.Cs, "Cs", WIDE_C_RANGE)
        nus = as_grid(6 if own.nus is None else own.nus, "nus", GRAPH_RANGE, with_zero=True)
        labelled, mean = self._judged_by(sample)
        limit = None if own.time_limit is None else SEARCHING * own.time_limit
        looked = self._looked_at(sample, labelled.rows, MOST_ROWS)
        kept = self._learnt_from(sample)
        start = perf_counter()
        search = KnowledgeSearch(
            to_numpy(sample.X)[looked].astype(np.float64),
            sample.count[looked],
            replace(labelled, rows=np.searchsorted(looked, labelled.rows)),
            self._kernels(),
            self._kernel_of(sample),
            self._scales(),
            Cs,
            nus,
            own.fit_intercept,
            unlabelled=not np.all(sample.labelled),
            metric=self._learns_metric(),
            powers=POWERS if kept.size <= EXACT else SPARSE_POWERS,
            monitor=ChoiceMonitor(0.0, verbose=own.verbose or None),
        )
        with limited(limit):
            own.search_status_ = search.run()
        if own.search_status_ != CONVERGED:
            self._warn(f"{len(search.found)} candidates: {own.search_status_} before all of them were tried")
        contest = search.contest
        chosen = contest.best
        if not np.isfinite(chosen.loss):
            raise RuntimeError(
                f"{type(self).__name__}: none of the {len(search.found)} candidates has errors that a computer can "
                "count. Give the features another unit, or other scales."
            )
        own.knowledge_report_ = contest.report()
        if is_classifier(own):
            own.discriminant_ = contest.discriminant
        own.C_, own.nu_, own.scale_, own.epsilon_ = chosen.C / mean, chosen.nu, chosen.scale, as_list(own.epsilons)[0]
        own.best_index_ = search.found.index(chosen)
        own.best_score_ = own.knowledge_report_["score"]
        own.best_params_ = {**chosen.params, "C": own.C_}
        own.cv_results_ = contest.results(perf_counter() - start)
        own._settings = (len(Cs) > 1) + (int(sample.X.shape[1]) if chosen.kind == SCALES else 1)
        machine = self._plain(**own.best_params_, epsilon=own.epsilon_)
        most = MOST_EXACT if chosen.graph is None else EXACT
        return self._affordable(self._problem_of(machine, sample if chosen.graph is None else kept), most)

    @property
    def _last(self) -> float:
        """The seconds that learning f may take: what is left, and somewhat more, as half a model in a span is none."""
        own: Any = self
        return max(seconds_left(), 0.0) + LAST[0] * (own.time_limit or 0.0) + LAST[1]

    def _affordable(self, problem: Problem, most: int) -> Problem:
        """Return the problem, in the span of landmarks where all its representers would take too long.

        That is where there are more than `most` points, or where the time limit is too short by the speed of one matrix
        product; a warning tells.
        """
        size, left = max(term.size for term in problem.terms), max(seconds_left(), 0.0)
        if size <= most and left == inf:
            return problem
        count, reason = FUNCTIONS, f"more than {most} points"
        if left < inf:
            speed = _operations_per_second() / FACTORED
            count = min(count, max(FEWEST_FUNCTIONS, int((speed * left / (2 * size)) ** 0.5)))
            if size <= most and size**3 / (3 * speed) < left:
                return problem
            reason = reason if count == FUNCTIONS else "the time limit"
        if not self._free or count >= size:
            return problem
        warnings.warn(
            f"{type(self).__name__} learns from {size} points in the span of {count} landmarks, because of {reason}. "
            f"Give approximation=rkhs.Landmarks(..) for more or fewer, or a solver for all representers.",
            UserWarning,
            stacklevel=6,
        )
        return replace(problem, approximation=Landmarks(count))

    def _problem_of(self, machine: Any, sample: Sample) -> Problem:
        """The problem of a plain model, whose unit is then our own."""
        problem = invariant_problem(machine, sample)
        self._unit = machine._unit
        return problem

    @property
    def _free(self) -> bool:
        """Whether it is left to us how the problem is solved."""
        own: Any = self
        return own.approximation is None and isinstance(own.solver, str) and own.solver == "auto"

    def _learnt_from(self, sample: Sample) -> Sample:
        """The points that a model with a graph has: `EXACT` of them where labels are few.

        Landmarks are no help there: a function on the graph that labels leave open follows all of its points, and 4,000
        points with all their representers predict better than 60,000 with 1,000 landmarks (docs/unlabelled.md).
        """
        labelled = np.flatnonzero(sample.labelled)
        if not self._free or sample.size <= EXACT or len(labelled) > EXACT // 2:
            return sample
        return sample.take(self._looked_at(sample, labelled, EXACT))

    def _looked_at(self, sample: Sample, labelled: Vector, most: int) -> Vector:
        """Some points, in their order: the labelled ones, and `most` in all."""
        labelled = np.unique(labelled)
        others = np.setdiff1d(np.arange(sample.size), labelled)
        wanted = max(0, most - len(labelled))
        if len(others) > wanted:
            others = self._random().choice(others, wanted, replace=False)
        return np.sort(np.concatenate([labelled, others]))

    def _random(self) -> Any:
        own: Any = self
        return check_random_state(0 if own.random_state is None else own.random_state)

    def _judged_by(self, sample: Sample) -> tuple[Labelled, float]:
        """Return the labels of rows by which candidates are judged, `MOST_LABELS` at most, and the mean weight of all.

        Rows that were merged are labels of their own here: one is left out, and its twins stay.
        """
        own: Any = self
        labels = self._plain(C=1.0)._label_term(sample, 1.0)
        count = sample.count[sample.labelled]
        weight, target = to_numpy(labels.weights())[:, 0] / count, to_numpy(labels.target)
        most = min(MOST_LABELS, max(FEWER_LABELS, int((WIDE / sample.X.shape[1]) ** 0.5)))
        some = drawn_rows(count, most, self._random())
        rows = np.flatnonzero(sample.labelled)[some]
        labelled = Labelled(
            rows,
            target.reshape(len(target), -1)[some].astype(np.float64),
            weight[some] / float(weight[some].mean()),
            sample.y[rows] if is_classifier(own) else None,
        )
        return labelled, float(np.average(weight, weights=count))

    def _kernels(self) -> list[Any]:
        """The kernels to try; Fourier features are not known of the second."""
        own: Any = self
        if not (isinstance(own.kernel, str) and own.kernel == AUTO):
            return [own.kernel]
        return list(KINDS[:1] if isinstance(own.approximation, FourierFeatures) else KINDS)

    def _median(self) -> bool:
        """Whether scales are to be found from the data."""
        own: Any = self
        named = isinstance(own.kernel, str) and own.kernel in (AUTO, *SCALED)
        return named and isinstance(own.scales, str) and own.scales == "median"

    def _scales(self) -> list[Any] | None:
        """The scales to try; None for multiples of the median."""
        own: Any = self
        if self._median():
            return None
        return [1.0] if isinstance(own.scales, str) and own.scales == "median" else as_list(own.scales)

    def _learns_metric(self) -> bool:
        own: Any = self
        if own.metric is not None and own.metric != AUTO:
            raise ValueError(f'metric must be "auto" or None, got {own.metric!r}.')
        return own.metric is not None and self._median()

    def _kernel_of(self, sample: Sample) -> Callable[[Any, Any], Any]:
        """From a kernel and a scale to the kernel with that, which has to be positive definite.

        Its values have variance one, as C and nu are in units of that (`units`).
        """

        def kernel_of(given: Any, scale: Any) -> Kernel:
            kernel = as_kernel(given, scale, sample.X)
            if kernel.order:
                raise ValueError(
                    f'{type(self).__name__} with invariance="auto" needs a positive definite kernel, and {kernel!r} is '
                    f"conditionally so, of order {kernel.order}: use another kernel, such as Gaussian(), or an "
                    'invariance of your choice, such as invariance="gradient".'
                )
            named = isinstance(given, str) and given in SCALED  # their values have it, whatever their scale is
            return kernel if named else kernel * (1 / Units.of(kernel, sample).variance)

        return kernel_of

    def _choose(self, sample: Sample, splitter: Callable[..., Any], score: Callable[[Vector, Sample], float]) -> Any:
        """The machine with the best values, not trained yet; leaves `cv_results_` and all that belongs to it."""
        own: Any = self
        if own.approximation is not None:
            check_in_span(own)
        grids = {
            "C": as_grid(4 if own.Cs is None else own.Cs, "Cs", C_RANGE),
            "nu": as_grid(4 if own.nus is None else own.nus, "nus", self._nu_range(), with_zero=True),
            "scale": as_list(own.scales),
            "epsilon": as_list(own.epsilons),
        }

        def problem_of(scale: Any, epsilon: float) -> Problem:
            return invariant_problem(self._plain(C=1.0, nu=1.0, scale=scale, epsilon=epsilon), sample)

        seed = 0 if own.random_state is None else own.random_state
        folds = folds_of(own.cv, sample, partial(splitter, shuffle=True, random_state=seed))
        weighted, prior = (getattr(own, name, None) for name in ("class_weight", "class_prior"))
        if prior is not None or (isinstance(weighted, str) and weighted == "balanced"):  # of labels that a fold keeps
            labelled = sample.take(sample.labelled)

            def of_classes(rows: Vector, share: Vector) -> Vector:
                return class_weights(weighted, own.classes_, labelled.y[rows], share * labelled.weight[rows], prior)

            folds = folds.weighted(of_classes)
        with limited(None if own.time_limit is None else SEARCHING * own.time_limit):
            found = search(problem_of, grids, sample, folds, score, own.cv_tol, own.verbose or None)
        self._check_solved(found)
        shown = [name for name, values in grids.items() if name in ("C", "nu") or len(values) > 1]
        best = found.candidates[found.best]
        own.C_, own.nu_, own.scale_, own.epsilon_ = (best[name] for name in grids)
        own.best_index_, own.best_score_ = found.best, float(found.scores[found.best].mean())
        own.best_params_ = {name: best[name] for name in shown}
        own.cv_results_, own.search_status_ = found.results(shown), found.status
        own._settings = sum(len(values) > 1 for values in grids.values())
        return self._plain(**best)

    def _nu_range(self) -> tuple[int, int]:
        """Powers of ten; functions that graphs ask for are found with larger weights."""
        own: Any = self
        known = as_invariances(own.invariance)
        return GRAPH_RANGE if known and all(one.once for one in known) else NU_RANGE

    def _check_solved(self, found: Search) -> None:
        """Warn of candidates that were not solved, and are not chosen from; refuse to go on where none was."""
        own: Any = self
        count, solved = len(found.candidates), int(found.solved.sum())
        if solved == 0:
            raise RuntimeError(
                f"{type(self).__name__}: none of the {count} candidates was solved to cv_tol={own.cv_tol:g} "
                f"({found.status}). Give it a larger cv_tol, smaller Cs, or another scale."
            )
        if solved < count:
            self._warn(
                f"{solved} of {count} candidates: the others were not solved to cv_tol={own.cv_tol:g} "
                f"({found.status}), and their scores are NaN"
            )

    def _warn(self, what: str) -> None:
        """Warn that the choice is among fewer candidates than asked for."""
        warnings.warn(f"{type(self).__name__} chose among {what}.", ConvergenceWarning, stacklevel=7)

    def _check_rows(self, X: Any) -> None:
        """Refuse rows that are not in memory."""
        if in_blocks(X):
            raise TypeError(
                f"{type(self).__name__} splits rows into folds and needs them in memory, got {type(X).__name__}: "
                f"choose C and nu on a sample of the rows, and fit {self.plain.__name__} with them on all."
            )

    def _adopt(self, machine: Any) -> None:
        """Take over all that a machine has learnt."""
        taken = machine.get_params(deep=False)
        vars(self).update({name: value for name, value in vars(machine).items() if name not in taken})

    def _plain(self, **values: Any) -> Any:
        """The machine with single values and all else as it is here."""
        own: Any = self
        taken = own.get_params(deep=False)
        machine = self.plain(**{name: taken[name] for name in self.plain().get_params(deep=False) if name in taken})
        if isinstance(machine.kernel, str) and machine.kernel == AUTO:
            machine.set_params(kernel=KINDS[0])
        machine.set_params(metric=None)  # that of a search is another thing: whether scales are learnt
        machine.set_params(**values)
        for name in ("classes_", "feature_names_in_"):
            if hasattr(own, name):
                setattr(machine, name, getattr(own, name))
        return machine


def _operations_per_second() -> float:
    """Measure one product of matrices: what else the computer does now slows a fit down, too."""
    A = np.ones((PROBE, PROBE))
    A @ A[:, :8]  # the first product of a process starts the threads
    start = perf_counter()
    A @ A
    return 2 * PROBE**3 / max(perf_counter() - start, 1e-6)


class InvariantClassifierCV(CrossValidated, Classifier):
    """`InvariantClassifier` with settings, and the use of unlabelled points, chosen from the data.

    By default (``invariance="auto"``) the kernel, length scales, C, and whether and how the graph of nearest neighbours
    helps are chosen by exact leave-one-out errors of the squared loss: each label is predicted from all others, its
    point staying in, unlabelled.  Features are taken as they are or divided by their standard deviations, whichever
    predicts better.  What else may be known comes in where it lowers the errors, label by label, by a standard error
    and a twentieth: distances of the first principal components or of decorrelated features, both found from all
    points; a scale for each feature, learnt by evidence (``metric="auto"``); the graph.  `knowledge_report_` says what
    each gained.  Of three classes or more, some may lie between others, where the largest score is a poor guide: where
    it has fewer errors, a linear discriminant of left-out scores tells classes (`discriminant_`, otherwise None).

    With any other `invariance` C and nu are those of the best held-out accuracy: the labelled points are split into
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
    metric : for invariance="auto", whether scales are also learnt, one per feature: "auto" or None
    epsilons : the widths to try for losses that are given by name and have one
    loss : as in `InvariantClassifier`; "auto" chooses by the squared loss, and learns with this one
    invariance : "auto", or as in `InvariantClassifier`
    invariance_loss, fit_intercept, class_weight, class_prior, unlabeled, solver, tol, verbose :
        as in `InvariantClassifier`
    approximation : as in `InvariantClassifier`, of rows in memory: they are summed up once for each scale and epsilon,
        and the grid combines and solves p x p matrices
    cv : the number of folds (no more than the smallest class has points), a splitter of scikit-learn for the
        labelled points, or pairs of indices (train, test) of rows of X
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
    knowledge_report_ : for "auto": a "sentence" in plain words, what was "chosen", and the best of the "candidates" of
        each kind of knowledge: "none", "measure" (of distances), "scales" (learnt), "graph"
    best_score_, best_index_, cv_results_ : as in scikit-learn's `GridSearchCV`; candidates that were not solved to
        `cv_tol` have NaN as their scores and are not chosen
    search_status_ : "converged" if all candidates were solved; otherwise what kept them from it
    function_, solution_, problem_, classes_, labelled_ : of the model with the best values, trained on all labels

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from sklearn.datasets import make_moons
    >>> X, y = make_moons(200, noise=0.25, random_state=0)
    >>> few = np.where(np.arange(200) < 20, y, -1)
    >>> model = rkhs.InvariantClassifierCV().fit(X, few)
    >>> print(model.knowledge_report_["sentence"])
    Unlabelled rows helped: 5.0 % errors instead of 10.0 %.

    Prior knowledge of one's own, with C and nu by folds; with an approximation the rows are looked at once:

    >>> own = {"invariance": "gradient", "Cs": [1, 10], "nus": [0, 1], "cv": 3}
    >>> search = rkhs.InvariantClassifierCV(**own).fit(X, few)
    >>> len(search.cv_results_["params"]), sorted(search.best_params_)
    (4, ['C', 'nu'])
    >>> near = rkhs.InvariantClassifierCV(**own, approximation=rkhs.Landmarks(30)).fit(X, y)
    >>> near.solution_.span
    'Landmarks: 30 functions'
    """

    plain = InvariantClassifier

    def __init__(
        self,
        kernel: Any = "auto",
        *,
        Cs: Any = None,
        nus: Any = None,
        scales: Any = "median",
        metric: Any = "auto",
        epsilons: Any = 0.1,
        loss: Any = "squared",
        invariance: Any = "auto",
        invariance_loss: Any = "squared",
        fit_intercept: bool = True,
        class_weight: Any = None,
        class_prior: Any = None,
        unlabeled: Any = -1,
        approximation: Any = None,
        cv: Any = 5,
        solver: Any = "auto",
        tol: float = 1e-4,
        cv_tol: float = 1e-2,
        time_limit: float | None = None,
        random_state: Any = None,
        verbose: bool = False,
        device: str | None = None,
        precision: str | None = None,
    ) -> None:
        self.kernel = kernel
        self.Cs = Cs
        self.nus = nus
        self.scales = scales
        self.metric = metric
        self.epsilons = epsilons
        self.loss = loss
        self.invariance = invariance
        self.invariance_loss = invariance_loss
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.class_prior = class_prior
        self.unlabeled = unlabeled
        self.approximation = approximation
        self.cv = cv
        self.solver = solver
        self.tol = tol
        self.cv_tol = cv_tol
        self.time_limit = time_limit
        self.random_state = random_state
        self.verbose = verbose
        self.device = device
        self.precision = precision

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> InvariantClassifierCV:
        """Choose C and nu, and learn f with them from points X (t, n) and their classes y."""
        self._check_rows(X)
        sample = self._sample(X, y, sample_weight)
        self._remember(sample)
        if self._automatic:
            problem = self._choose_knowledge(sample)
            with granted(self._last):
                self._learn(problem, sample)
            return self
        self.discriminant_ = None
        machine = self._choose(sample, StratifiedKFold, accuracy)
        if self.approximation is None:
            self._learn(self._problem_of(machine, sample), sample)
        else:
            self._adopt(machine.fit(X, y, sample_weight))
        return self


def accuracy(values: Vector, sample: Sample) -> float:
    """The share of points, by weight, whose class is predicted."""
    predicted = (values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)
    return float(np.average(predicted == sample.y, weights=sample.weight))


MOST_LEFT_OUT = 4000  # functionals whose matrix is inverted for error bars


class InvariantRegressorCV(CrossValidated, Regressor):
    """`InvariantRegressor` with settings, and the use of unlabelled points, chosen from the data.

    By default (``invariance="auto"``) the kernel, length scales, one for each feature where that predicts better, C,
    and whether and how the graph of nearest neighbours helps are chosen as in `InvariantClassifierCV`.

    With any other `invariance` C and nu are those of the least held-out error: the points with a target are split into
    folds; the targets of one fold are left out at a time, and its points stay, unlabelled.  The grid shares its work
    over folds, C and nu.  The score is minus the mean error at the points left out: squared for the squared losses, the
    quantile's own for "quantile" and absolute for the others.  Among equals the one with the least loss of held-out
    targets is taken.

    Parameters
    ----------
    kernel : "auto", the Gaussian or the Laplace kernel, or as in `InvariantRegressor`
    Cs, nus, scales, metric : as in `InvariantClassifierCV`
    epsilons : the widths to try for losses that are given by name and have one
    invariance : "auto", or as in `InvariantRegressor`
    loss, quantile, invariance_loss, fit_intercept, unlabeled, solver, tol, verbose :
        as in `InvariantRegressor`
    approximation : as in `InvariantRegressor`, of rows in memory: they are summed up once for each scale and epsilon,
        and the grid combines and solves p x p matrices
    cv : the number of folds (no more than there are points), a splitter of scikit-learn for the
        labelled points, or pairs of indices (train, test) of rows of X
    random_state : the seed of the folds, 0 if None
    cv_tol : the relative duality gap to which the models of the grid are solved
    time_limit : seconds for the whole fit, or None.  The search ends after about six tenths of it with the best of
        what was tried, and the model has fewer functions where all would take too long; warnings tell of both
    device, precision : as in `InvariantRegressor`: where, and how exactly, folds, cells of the grid and the model are
        computed; what "auto" judges candidates by is computed on the processor

    Attributes
    ----------
    C_, nu_, scale_, epsilon_ : the best values, together in `best_params_`, with the kernel
    feature_importances_ : as in `InvariantClassifierCV`
    knowledge_report_ : for "auto", as in `InvariantClassifierCV`
    best_score_, best_index_, cv_results_ : as in scikit-learn's `GridSearchCV`; candidates that were not solved to
        `cv_tol` have NaN as their scores and are not chosen
    search_status_ : "converged" if all candidates were solved; otherwise what kept them from it
    function_, solution_, problem_, labelled_ : of the model with the best values, trained on all labels

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

    plain = InvariantRegressor

    def __init__(
        self,
        kernel: Any = "auto",
        *,
        Cs: Any = None,
        nus: Any = None,
        scales: Any = "median",
        metric: Any = "auto",
        epsilons: Any = 0.1,
        loss: Any = "squared",
        quantile: float = 0.5,
        invariance: Any = "auto",
        invariance_loss: Any = "squared",
        fit_intercept: bool = True,
        unlabeled: Any = None,
        approximation: Any = None,
        cv: Any = 5,
        solver: Any = "auto",
        tol: float = 1e-4,
        cv_tol: float = 1e-2,
        time_limit: float | None = None,
        random_state: Any = None,
        verbose: bool = False,
        device: str | None = None,
        precision: str | None = None,
    ) -> None:
        self.kernel = kernel
        self.Cs = Cs
        self.nus = nus
        self.scales = scales
        self.metric = metric
        self.epsilons = epsilons
        self.loss = loss
        self.quantile = quantile
        self.invariance = invariance
        self.invariance_loss = invariance_loss
        self.fit_intercept = fit_intercept
        self.unlabeled = unlabeled
        self.approximation = approximation
        self.cv = cv
        self.solver = solver
        self.tol = tol
        self.cv_tol = cv_tol
        self.time_limit = time_limit
        self.random_state = random_state
        self.verbose = verbose
        self.device = device
        self.precision = precision

    @all_or_nothing
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> InvariantRegressorCV:
        """Choose C and nu, and learn f with them from points X (t, n) and their targets y."""
        self._check_rows(X)
        sample = self._sample(X, y, sample_weight)
        self._remember(sample)
        if self._automatic:
            problem = self._choose_knowledge(sample)
            with granted(self._last):
                self._learn(problem, sample)
            return self
        machine = self._choose(sample, KFold, lambda values, points: -mean_error(values, points, self._error()))
        if self.approximation is None:
            self._learn(self._problem_of(machine, sample), sample)
        else:
            self._adopt(machine.fit(X, y, sample_weight))
        return self

    _tau: float | Vector | None  # the amplitude of the posterior; None until somebody asks for it

    @property
    def _posterior(self) -> Posterior:
        """With the amplitude that targets have when they are left out, as settings were chosen by leaving them out."""
        posterior, problem = super()._posterior, self.problem_
        if problem is None or problem.approximation is not None or problem.null_space == "dropped":
            return posterior
        if sum(term.size for term in problem.terms) > MOST_LEFT_OUT:
            return posterior
        tau = getattr(self, "_tau", None)
        if tau is None:
            count = self._rows_each(problem.terms[0].size)
            tau = self._tau = self._widened(int(count.sum())) * left_out_amplitude(problem, count)
        return replace(posterior, amplitude=tau)

    def _widened(self, count: int) -> float:
        """Of l targets by which q settings were chosen l - q are left, as of those that a basis is fitted to."""
        return float(count / max(count - self._settings, count / 2)) ** 0.5

    def _keep(self, problem: Problem | None, solution: Solution) -> None:
        super()._keep(problem, solution)
        self._tau = None

    def _error(self) -> Loss:
        """The loss by which held-out points are judged, which has no width to be chosen."""
        loss = as_loss(self.loss, REGRESSION, "loss", tau=self.quantile)
        if isinstance(loss, Quantile):
            return loss
        return Squared() if isinstance(loss, Squared | SquaredEpsilonInsensitive) else Absolute()


def mean_error(values: Vector, sample: Sample, error: Loss) -> float:
    """The mean error, by weight."""
    return float(np.average(error.value(values, sample.y), weights=sample.weight))
