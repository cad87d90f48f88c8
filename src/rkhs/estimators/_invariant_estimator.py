"""The base of `InvariantClassifier` and `InvariantRegressor`: rows in memory, which come and go, and rows in blocks.

With an approximation by p functions, rows are read in blocks:

1. Sample: one pass over the blocks collects a sample of the rows, the classes and their weights.
2. Plan: the length scale of the kernel and the p functions are chosen from the sample.
3. Sum: a second pass adds up the moments of all terms.
4. Solve the problem in p unknowns.

Rows in memory are a stream, too, and `partial_fit` adds the sums of one block to those of the earlier ones.
"""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj, is_torch_array
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils import column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from rkhs._core.backend.arrays import Vector, as_column, check_number, immutable_copy, to_numpy
from rkhs._core.finite.features import FeatureTerms
from rkhs._core.finite.monitor import CHOICE, SUMMING, Monitor
from rkhs._core.finite.sums import FeatureSums
from rkhs._core.finite.term import Term
from rkhs._core.problem import Problem
from rkhs._core.problem.spaces import SpaceSolution, solution_of, solve_weightings
from rkhs._core.problem.updates import Solved, functional_keys, represented_keys
from rkhs.estimators import _data as data
from rkhs.estimators._base import BaseKernelEstimator, Idle, as_input_type, refuse_idle, same, shape_of, transactional
from rkhs.estimators._calibration import Calibration
from rkhs.estimators._data import Sample, as_numpy
from rkhs.estimators._folds import HeldOutInSubspace, HeldOutLabels, HeldOutPredictions
from rkhs.estimators._formulation import (
    Formulation,
    ModelConfig,
    SolverOptions,
    depends_on_row_order,
    quoted,
    weight_of,
)
from rkhs.estimators._length_scales import OF_INNER_PRODUCTS, as_kernel, formulate, is_learned
from rkhs.estimators.search._families import graphs_in, warn_of_unreached
from rkhs.exceptions import warn
from rkhs.functionals import Evaluation
from rkhs.invariances._base import as_invariances
from rkhs.kernels import Kernel
from rkhs.kernels._base import FormKernel
from rkhs.spaces._base import check_approximation, check_sums
from rkhs.streams._blocks import Block, Blocks, blocks, in_blocks, naming_block, replayed, row_weights, total_weights
from rkhs.streams._problem import SAMPLING, Plan, Reservoir, SampleSpec, planned, sample, solve_stream, with_progress


@dataclass(frozen=True, eq=False)
class Training:
    """The rows of a model, the settings that its first fit determined, and its last update."""

    rows: Sample  # a point for each row
    formulation: Formulation
    settings: dict[str, Any]  # the parameters of the estimator
    last: Solved | None = None

    def solved(self, sample: Sample, estimator: Any) -> tuple[Problem, Solved]:
        """Formulate and solve the problem of another sample, most of which is that of the last solution."""
        problem, keys = self._keyed(sample)
        last = self.last
        if last is None:
            earlier, earlier_keys = self._keyed(estimator._merged(self.rows))
            last = Solved(estimator._held_out.solution, represented_keys(earlier, earlier_keys))
        method = SolverOptions.of(estimator.solver).method
        return problem, last.following(problem, keys, method, estimator.tol, estimator.verbose)

    def _keyed(self, sample: Sample) -> tuple[Problem, list[Any]]:
        """Return the problem of a sample, and the keys of the functionals of each term."""
        problem, points = self.formulation.problem(sample)
        keys = sample.keys
        terms = zip(problem.terms, points, strict=True)
        return problem, [functional_keys(k, term.size, keys[which]) for k, (term, which) in enumerate(terms)]


def updatable(estimator: BaseEstimator) -> bool:
    """Return True if an estimator has `partial_fit`; otherwise raise an AttributeError that explains why not."""
    return estimator.approximation is not None or in_memory(estimator)


def in_memory(estimator: Any) -> bool:
    """Return True if an estimator keeps rows, which can be added and removed; otherwise raise an AttributeError."""
    reasons = (
        (estimator.approximation is not None, f"approximation={estimator.approximation!r}", "keeps sums, not rows"),
        (estimator._is_precomputed, 'kernel="precomputed"', "has no kernel values of other rows"),
        (shape_of(estimator) is not None, f"shape={estimator.shape!r}", "has to be proved anew"),
        (depends_on_row_order(estimator.invariance), f"invariance={estimator.invariance!r}", "refers to rows by index"),
    )
    for applies, setting, reason in reasons:
        if applies:
            raise AttributeError(
                f"{type(estimator).__name__} with {setting}, which {reason}, cannot add or remove rows: call fit with "
                "all rows."
            )
    return True


@dataclass(eq=False, repr=False)
class InvariantEstimator(BaseKernelEstimator):
    """The base of `InvariantClassifier` and `InvariantRegressor`, which document its parameters."""

    kernel: Any = "gaussian"
    _: KW_ONLY
    scale: Any = "auto"
    loss: Any = "squared"
    C: float | None = 10.0
    invariance: Any = "auto"
    nu: float = 0.03
    shape: Any = None
    fit_intercept: bool = True
    unlabeled: Any = None
    approximation: Any = None
    solver: Any = "auto"

    def _idle(self, slopes: bool) -> list[Idle]:
        metric = same(self.scale, "agop")  # which changes any kernel
        return [
            *(row for row in super()._idle(slopes) if row[0] != "scale" or not metric),
            ("nu", self.invariance is None, "invariance=None has no weight"),
            ("invariance", slopes and same(self.invariance, "gradient"), "slopes are measured, and may be large"),
            ("scale", slopes and self.C is None and same(self.scale, "median"), "without C, slopes determine scales"),
            ("gradient_weight", not slopes, "fit was given no gradients"),
        ]

    def _needs_dense(self) -> tuple[str, str] | None:
        kernel, device = self.kernel, SolverOptions.of(self.solver).device
        if isinstance(kernel, str) and kernel not in OF_INNER_PRODUCTS:
            return f"kernel={kernel!r}", f"use one of {quoted(OF_INNER_PRODUCTS)}"
        if isinstance(kernel, Kernel) and not all(isinstance(k, FormKernel) for _, k in kernel.summands()):
            return repr(kernel), "use a kernel of the distance or of the dot product, such as Gaussian or Polynomial"
        for item in as_invariances(self.invariance) if self.nu else ():
            if not getattr(item.maker, "takes_sparse", False):
                prior = item.functional if isinstance(item.functional, str) else getattr(item.maker, "__name__", item)
                return f"invariance={prior!r}", "pass invariance=None, or rkhs.invariances.WordSubstitution"
        for name, used in (("approximation", self.approximation), ("shape", self.shape), ("device", device)):
            if used is not None:
                return f"{name}={used!r}", f"leave the {name} out"
        return (f"scale={self.scale!r}", 'pass a number, or "median"') if is_learned(self._config()) else None

    def _fit(self, X: Any, y: Any, sample_weight: Any, *gradients: Any) -> Problem | None:
        """Fit the estimator to rows in memory, and return the problem; or to blocks, if there is an approximation."""
        config = self._config()
        if not any(slopes is not None for slopes in gradients) and is_streamed(self, config, X, y):
            fit_stream(self, config, X, y, sample_weight)
            return None
        return self._fit_rows(self._rows(X, y, sample_weight, *gradients))

    def _fit_rows(self, rows: Sample) -> Problem:
        """Fit the estimator to rows in memory, and return the problem."""
        sample = self._merged(rows)
        formulated = formulate(self._config(), sample)
        refuse_idle(self, [idle_nu(formulated)])
        problem, _ = formulated.problem(sample)
        self.C_ = formulated.config.C
        self._learn(problem, sample, formulated.norms.variance)
        for graph in graphs_in(self.kernel):
            warn_of_unreached(graph, sample.X, sample.labeled)
        if formulated.metric is not None:
            self.metric_ = formulated.metric
        if self.approximation is None:
            self._training = Training(rows, formulated, parameters(self))
        return problem

    def _add_rows(self, data: tuple[Any, ...], *classes: Any) -> None:
        """Learn from the rows of the last fit and the given ones: X, y, sample weights, and perhaps slopes."""
        training: Training | None = getattr(self, "_training", None)
        if training is None:
            self._fit_rows(self._rows(*data, *classes, least=1))
            return
        check_unchanged(self, training.settings)
        check_same_classes(self, *classes)
        rows = self._rows(*data, earlier=training.rows, least=0)
        if not rows.size:
            return
        if rows.slopes is not None and training.rows.slopes is None:
            raise ValueError(
                "gradients were not given to the first call, which determines their weights: pass all rows to fit."
            )
        self._update(training, training.rows.followed_by(rows))

    def _update(self, training: Training, rows: Sample) -> None:
        """Learn from other rows with the settings of the first fit, and most of the rows of the last one."""
        observed = rows.labeled if rows.slopes is None else np.ones(rows.size, dtype=bool)
        if not np.any(observed & (rows.weight > 0)):
            raise ValueError(f"{type(self).__name__} would have no labels left: keep some, or fit other rows.")
        sample = self._merged(rows)
        problem, solved = training.solved(sample, self)
        self._learn(problem, sample, training.formulation.norms.variance, solution=solved.solution)
        self.labeled_: Any = as_input_type(rows.labeled, self.labeled_)
        self._training = replace(training, rows=rows, last=solved)

    @available_if(in_memory)
    @transactional
    def forget(self, indices: Any) -> Any:
        """Remove rows, without another fit: the result is that of the other rows, with the settings of the first fit.

        It takes as long as `partial_fit` without an approximation.

        Parameters
        ----------
        indices : array-like of int or bool
            The rows, in the order in which `fit` and `partial_fit` were given them, without those that were removed
            before: the rows that are left are those of `numpy.delete(X, indices, axis=0)`.

        Returns
        -------
        estimator
            The estimator, which has learned from the other rows.

        Examples
        --------
        >>> import rkhs
        >>> model = rkhs.InvariantRegressor(scale=1.0).fit([[0.0], [1.0], [2.0]], [0.0, 50.0, 0.0])
        >>> model.forget([1]).predict([[1.0]]).round(3)
        array([0.])
        """
        check_is_fitted(self)
        training: Training | None = getattr(self, "_training", None)
        if training is None:
            raise ValueError(f"{type(self).__name__} was fitted with an approximation and kept no rows: call fit.")
        check_unchanged(self, training.settings)
        removed = np.asarray(as_numpy(indices))
        if not removed.size and removed.dtype != bool:
            removed = removed.astype(np.intp)  # an empty list has no type of its own
        if removed.dtype.kind not in "iub":
            raise TypeError(
                f"forget takes the integer indices of rows, or a mask of all {training.rows.size} rows, got values of "
                f"type {removed.dtype}: pass numpy.flatnonzero(mask), or indices as integers."
            )
        kept = np.delete(np.arange(training.rows.size), removed)
        if len(kept) < training.rows.size:
            self._update(training, training.rows.take(kept))


def idle_nu(formulation: Any) -> Idle:
    """Return whether the weight of automatic invariances has no effect, because there are none."""
    idle = same(formulation.config.invariance, "auto") and not formulation.invariances
    return "nu", idle, 'invariance="auto" applies to unlabeled rows of a smooth kernel, and found none'


def check_same_classes(estimator: InvariantEstimator, classes: Any = None) -> None:
    """Raise ValueError if other classes are given to `partial_fit` than to the first call."""
    if classes is not None and not np.array_equal(np.unique(classes), estimator.classes_):
        raise ValueError(
            f"classes={classes!r} differ from those of the first partial_fit, {estimator.classes_.tolist()}: start "
            "anew with sklearn.base.clone(estimator) and all classes that any block will have."
        )


def parameters(estimator: BaseEstimator) -> dict[str, Any]:
    """Return the parameters of an estimator, with copies of lists, dictionaries and arrays."""
    given = estimator.get_params(deep=False)
    mutable = {name: v for name, v in given.items() if isinstance(v, list | dict) or is_array_api_obj(v)}
    return given | deepcopy(mutable)


def check_unchanged(estimator: BaseEstimator, before: dict[str, Any]) -> None:
    """Raise an error that names the parameters which have changed since the first `partial_fit`."""
    now = parameters(estimator)
    free = ("tol", "verbose")  # the sums over rows do not depend on these
    changed = [name for name in now if name not in free and not same(now[name], before[name])]
    if changed:
        changes = "; ".join(f"{name} was {before[name]!r} and is {now[name]!r}" for name in changed)
        raise ValueError(
            f"Parameters have changed since {type(estimator).__name__} learned from earlier rows: {changes}. "
            "Set them back, or start anew with sklearn.base.clone(estimator)."
        )


def is_streamed(model: Any, config: ModelConfig, X: Any, y: Any) -> bool:
    """Return whether `fit` sums rows block by block; otherwise all of them must be in memory."""
    if config.approximation is None or shape_of(model) is not None or (y is not None and data.columns_of(y) > 1):
        return False
    check_approximation(config.approximation)
    learns_metric = isinstance(config.scale, str) and config.scale == "agop"
    return in_blocks(X) or (config.approximation.stored and not learns_metric)


def _merged_rows(X: Any, y: Vector, sample_weight: Any) -> tuple[Any, Vector, Vector | None]:
    """Return X, y and weights with equal rows merged, if they are few enough to be sorted."""
    weight = data.as_weights(sample_weight, X)
    if y.dtype.kind == "O" or not isinstance(X, np.ndarray) or X.size > data.MOST_SORTED:
        return X, y, None if sample_weight is None else weight
    values, codes = np.unique(y, return_inverse=True)
    sample = data.Sample.of(X, weight, codes, np.ones(len(y), dtype=bool))
    sample = sample.take(sample.order)
    return sample.X, values[sample.y], sample.weight


def fit_stream(model: Any, config: ModelConfig, X: Any, y: Any, sample_weight: Any) -> None:
    """Fit an estimator with an approximation to blocks, or to arrays, which are validated first."""
    config.approximation.require_stored(
        f"{type(model).__name__} with a {type(config.approximation).__name__} takes arrays: for blocks use "
        "rkhs.streams.StreamedProblem, or approximation=rkhs.Landmarks(p)."
    )
    if in_blocks(X):
        if isinstance(X, Blocks) and (y is not None or sample_weight is not None):
            raise ValueError("Blocks bring y and sample weights: call fit(blocks) without these.")
        model.__dict__.pop("feature_names_in_", None)  # left by an earlier fit
        stream = blocks(X, y, sample_weight)
    else:
        points, _, _, _ = model._validated(X, y, own=False)
        if is_torch_array(points):
            raise TypeError("An approximation takes NumPy arrays, data frames or blocks: pass X.numpy(force=True).")
        stream = blocks(*_merged_rows(points, column_or_1d(as_column(data.as_numpy(y))), sample_weight))
    look, learn = replayed(stream)
    with closing(Monitor(model.tol, verbose=model.verbose)) as monitor:
        with monitor.showing(CHOICE):
            plan, seen = _plan(model, config, with_progress(look, monitor, SAMPLING), None)
        if learn.replays:
            solved = solve_stream(learn, plan, monitor)
        else:  # the number of rows, by which invariances are averaged, is known only at the end
            solved = _solved(with_progress(learn, monitor, SUMMING).reduce(_sums, plan), plan, model.tol)
        _keep(model, plan, solved, seen, monitor)
    model._sums = None
    if model.solution_.source is None and not in_blocks(X):
        unfitted = clone(model).set_params(**({"cv": 5} if hasattr(model, "cv") else {}))
        kernel = plan.terms.formulation.norms.kernel
        learned = replace(plan.terms.config, kernel=kernel, scale="median", class_weight=config.class_weight)
        rows = deepcopy((X, y, sample_weight))  # the caller may change them before they are needed
        model._held_out = replace(model._held_out, unfitted=unfitted, config=learned, rows=rows)


def fit_block(model: Any, config: ModelConfig, X: Any, y: Any, sample_weight: Any, classes: Any) -> None:
    """Add a block of rows to the sums of the earlier blocks, and solve again."""
    check_approximation(config.approximation)
    before = getattr(model, "_sums", None)
    if isinstance(config.class_weight, str | data.ClassPrior):
        raise ValueError(
            f"class_weight={config.class_weight!r} depends on the labels of all rows, which partial_fit does not know: "
            "pass a dict."
        )
    if before is None and hasattr(model, "solution_"):
        warn(
            f"{type(model).__name__}.partial_fit starts anew and forgets the rows of fit, which keeps no sums to "
            "add to. Pass all rows to partial_fit, from the first on."
        )
    index = 0 if before is None else before[2]
    block = Block.of(index, X, y, sample_weight, columns=model, first=before is None)
    if not len(block.X):
        return
    if before is None:
        plan, seen = _plan(model, config, blocks(block.X, block.y, block.weight, rows=len(block.X)), classes)
        sums = _sums(plan, block)
    else:
        plan, sums, _, seen, settings = before
        check_unchanged(model, settings)
        check_same_classes(model, classes)
        sums = sums + _sums(plan, block)
    _keep(model, plan, _solved(sums, plan, model.tol), seen, Monitor(model.tol))
    model._sums = (plan, sums, index + 1, seen, parameters(model))


def _plan(model: Any, config: ModelConfig, look: Blocks, classes: Any) -> tuple[Plan, Reservoir]:
    """Choose the kernel, the functions and the weights from a pass over blocks; return the plan and the sample.

    The classes and the features of the estimator are set.
    """
    check_sums(config.options.precision)
    if shape_of(model) is not None:
        raise ValueError("A shape can be proved only with all rows in memory: use `fit` with arrays.")
    for invariance in as_invariances(config.invariance):
        if invariance.functional == "local_average" or invariance.once:
            raise ValueError(
                f"The invariance {invariance.functional!r} needs all points at once, but an approximation sees "
                'them in blocks: use "gradient", or a callable X -> functionals of single points, such as '
                "lambda X: rkhs.functionals.LocalDeviation(X, width=0.1)."
            )
    check_number(config.nu, "nu", or_zero=True, or_infinite=True)
    terms, name = BlockTerms(config, is_classifier(model)), type(model).__name__
    seen = look.reduce(sample, SampleSpec(config.approximation.sample_size, 0, terms.labeled, terms.describe))
    facts: Facts = seen.facts
    if is_classifier(model):
        all_classes = np.unique(data.of_one_kind(as_column(list(facts.classes) if classes is None else classes)))
        weights = np.array([facts.classes[c] for c in all_classes.tolist()])
        data.check_classes(all_classes, weights, seen.totals[1], config.unlabeled, name)
        model.classes_ = all_classes
        if isinstance(config.class_weight, str | data.ClassPrior):  # these depend on all rows
            factors = data.class_weights(config.class_weight, all_classes, np.arange(len(all_classes)), weights)
            config = replace(config, class_weight=dict(zip(all_classes.tolist(), factors.tolist(), strict=True)))
    elif facts.labels == 0:
        raise ValueError(f"{name} needs points with a target; every y is unlabeled.")
    model.n_features_in_, model._kind = int(seen.rows["X"].shape[1]), ("numpy", "cpu")
    if facts.names is not None:
        model.feature_names_in_ = facts.names
    names = getattr(model, "feature_names_in_", None)
    config = replace(config, classes=getattr(model, "classes_", None), feature_names=names)
    block, terms = seen.block(), replace(terms, config=config)
    if is_learned(config):  # from at most 4000 labels of the sample, without an approximation
        exact = replace(config, approximation=None, nu=0.0)
        learned = formulate(exact, terms.rows(seen.smallest(4000).of_kind(0)))
        kernel = learned.norms.kernel
        if learned.metric is not None:
            model.metric_ = learned.metric
    else:
        kernel = as_kernel(config.kernel, config.length_scale, block.X)
    terms = replace(terms, formulation=Formulation.at(config, terms.rows(block), kernel, totals=seen.totals))
    refuse_idle(model, [idle_nu(terms.formulation)])
    plan = planned(kernel, terms, terms(block), config.basis, config.approximation, config.options.device)
    return plan, replace(seen, facts=None)


def _keep(model: Any, plan: Plan, solved: SpaceSolution, seen: Reservoir, monitor: Monitor) -> None:
    """Keep the solution, and a sample of the labels for intervals, prediction sets and probabilities."""
    terms = plan.terms
    solution = solution_of(solved, terms.config.approximation, monitor)
    model._keep(None, solution, terms.formulation.norms.variance)
    model._held_out = HeldOutByFolds(type(model).__name__, terms.config.loss)
    drawn, block = seen.smallest(1000).of_kind(0), seen.block()
    if solved.terms.quadratic and len(drawn.X):
        labels = terms(drawn)[0]
        model._held_out = HeldOutInSubspace(labels, solution)
        model._weight = float(np.mean(to_numpy(labels.weights())))  # of a new target, as in `Regressor._learn`
    if is_classifier(model):
        labels = terms.rows(block).take(terms.labeled(block))
        model._calibration = Calibration(solution.function, Evaluation(labels.X), labels.y, labels.weight)
    model._refer_to_columns()


@dataclass(eq=False)
class HeldOutByFolds:
    """Held-out predictions of a model in a subspace with losses that are not squared, by folds of the rows."""

    estimator: str
    loss: Any
    unfitted: Any = None  # an estimator that validates the rows
    config: ModelConfig | None = None  # with the kernel of the model
    rows: tuple[Any, Any, Any] | None = None  # X, y and sample weights of the user, which are not saved

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "unfitted": None, "config": None, "rows": None}

    @cached_property
    def labels(self) -> HeldOutPredictions:
        if self.rows is None:
            raise ValueError(
                f"{self.estimator} was fitted to blocks with loss={self.loss!r}, or loaded from a file, and has no "
                "rows in memory to leave out: use squared losses, which need only sums, or fit arrays and call "
                "predict_interval or predict_set once before saving."
            )
        assert self.config is not None
        sample = self.unfitted._sample(*self.rows)
        problem, _ = formulate(self.config, sample).problem(sample)
        labeled = sample.take(sample.labeled)
        return HeldOutLabels(self.estimator, problem, labeled.weight, labeled.groups).labels


@dataclass(frozen=True, eq=False)
class Facts:
    """Properties of the rows that have to be known before any are summed."""

    classes: Counter[Any]  # the total weight of each class
    labels: int  # the number of labeled rows
    names: Vector | None  # of the features

    def __add__(self, other: Facts) -> Facts:
        return replace(self, classes=self.classes + other.classes, labels=self.labels + other.labels)


@dataclass(frozen=True, eq=False)
class BlockTerms:
    """The map from a block to its terms: the labels first, then one term for each invariance, which may be empty."""

    config: ModelConfig
    classifies: bool
    formulation: Formulation | None = None  # known after a sample has been drawn

    def labeled(self, block: Block) -> Vector:
        """Return the mask of rows that have a label."""
        if block.y is None:
            return np.zeros(len(block.X), dtype=bool)
        with naming_block(block.index):
            return ~data.checked_unlabeled(block.y, self.config.unlabeled)

    def describe(self, block: Block) -> Facts:
        """Return the properties of the rows of a block that have to be known before any are summed."""
        labeled = self.labeled(block)
        classes: Counter[Any] = Counter()
        if self.classifies and block.y is not None:
            with naming_block(block.index):
                values, index = np.unique(data.of_one_kind(block.y[labeled]), return_inverse=True)
            sums = np.bincount(index.reshape(-1), weights=row_weights(block)[labeled], minlength=len(values))
            classes = Counter(dict(zip(values.tolist(), sums.tolist(), strict=True)))
        return Facts(classes, int(labeled.sum()), block.names)

    def rows(self, block: Block) -> data.Sample:
        """Return the rows of a block as a sample, without merging; y is 0 for rows without a label."""
        labeled, count = self.labeled(block), len(block.X)
        targets = np.zeros(count) if block.y is None else block.y
        if self.classifies:
            classes, y = np.asarray(self.config.classes), np.zeros(count, dtype=int)
            with naming_block(block.index):
                y[labeled] = data.class_codes(targets[labeled], classes, "a stream that can be read twice")
        else:
            y = np.where(labeled, targets, 0).astype(float)
        X = immutable_copy(block.X)  # one copy, shared by the functionals of all terms
        return data.Sample(X, row_weights(block), y, labeled, np.zeros((count, 0)))

    def __call__(self, block: Block) -> list[Term]:
        assert self.formulation is not None, "draw a sample first"
        return self.formulation.block_terms(self.rows(block))


@dataclass(frozen=True, eq=False)
class Sums:
    """The sums over blocks, and the total weights of their rows."""

    features: FeatureSums
    weights: Vector  # (2,) of labeled and of unlabeled rows

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.features + other.features, self.weights + other.weights)


def _sums(plan: Plan, block: Block, _: Any = None) -> Sums:
    return Sums(plan.features(block), total_weights(block, plan.terms.labeled(block)))


def _solved(sums: Sums, plan: Plan, tol: float) -> SpaceSolution:
    """Solve the problem from sums alone; the means of invariances are corrected to the rows that were summed."""
    planned, totals = plan.terms.formulation, plan.terms.formulation.totals
    # Blocks have been divided by the weight of the sampled rows; a mean is over the rows that were summed.
    factors = [weight_of(one, totals) / weight_of(one, sums.weights) for one in planned.invariances]
    found = FeatureTerms(sums.features.times([1.0, *factors]))
    *_, (_, solved) = solve_weightings(lambda _: found, [None], Monitor(tol), inf)
    return solved
