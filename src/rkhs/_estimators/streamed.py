"""The base of `InvariantClassifier` and `InvariantRegressor`: fits to points in memory, or to blocks of rows.

A fit to blocks, with an approximation by p functions, has four steps:

1. Sample: one pass over the blocks collects a sample of the rows, the classes and their weights.
2. Plan: the length scale of the kernel and the p functions are chosen from the sample.
3. Sum: a second pass adds up the moments of all terms.
4. Solve the problem in p unknowns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, field, replace
from math import inf
from typing import Any

import numpy as np
from array_api_compat import is_torch_array
from sklearn.base import clone, is_classifier
from sklearn.utils import column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from rkhs._backend.arrays import Vector, as_column, immutable_copy
from rkhs._estimators.base import BaseKernelEstimator, as_input_type, transactional
from rkhs._estimators.calibration import Calibration, HeldOutByFolds, HeldOutInSubspace
from rkhs._estimators.data import (
    ClassPrior,
    Sample,
    as_numpy,
    as_weights,
    check_classes,
    checked_unlabeled,
    class_weights,
    of_one_kind,
)
from rkhs._estimators.graph_kernels import graphs_in, warn_of_unreached
from rkhs._estimators.length_scales import AGOP, OF_INNER_PRODUCTS, as_kernel, is_learned
from rkhs._estimators.normalization import WeightNormalization
from rkhs._estimators.options import SolverOptions, check_in_span, check_number, check_unchanged, parameters, quoted
from rkhs._estimators.problem import formulate, invariance_term, multiplicity, points_of, size_of
from rkhs._estimators.updates import Training, in_memory
from rkhs._finite.features import FeatureTerms
from rkhs._finite.monitor import CHOICE, SUMMING, Monitor
from rkhs._finite.sums import FeatureSums
from rkhs._finite.term import Term
from rkhs._problem import Problem
from rkhs._problem.spaces import Solved, solution_of, solve_weightings
from rkhs._shapes.fitting import shape_of
from rkhs._spaces import FourierGrid
from rkhs._spaces.base import check_sums
from rkhs._warnings import warn
from rkhs.exceptions import BlockError
from rkhs.functionals import Evaluation
from rkhs.invariances._base import Invariance, as_invariances, resolve_columns
from rkhs.kernels import Kernel
from rkhs.kernels._base import FormKernel
from rkhs.streams._blocks import Block, Blocks, blocks, in_blocks, replayed
from rkhs.streams._plan import Plan, Reservoir, SampleSpec, sample
from rkhs.streams._problem import SAMPLING, planned, solve_stream, with_progress


@dataclass(eq=False, repr=False)
class InvariantEstimator(BaseKernelEstimator):
    """The base of `InvariantClassifier` and `InvariantRegressor`, which document its parameters."""

    kernel: Any = "gaussian"
    _: KW_ONLY
    scale: Any = "median"
    loss: Any = "squared"
    C: float | None = 1.0
    invariance: Any = "gradient"
    nu: float = 0.03
    shape: Any = None
    fit_intercept: bool = True
    unlabeled: Any = None
    approximation: Any = None
    solver: Any = "auto"
    tol: float = 1e-4
    verbose: bool = False

    def _is_streamed(self, X: Any) -> bool:
        """Return whether `fit` sums rows block by block."""
        if self.approximation is None or shape_of(self) is not None:
            return False
        in_memory = self._learns_metric or isinstance(self.approximation, FourierGrid)
        return in_blocks(X) or not in_memory

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

    @property
    def _learns_metric(self) -> bool:
        return isinstance(self.scale, str) and self.scale in AGOP

    def _fit_rows(self, rows: Sample) -> Problem:
        """Fit the estimator to rows in memory, and return the problem."""
        sample = self._distinct(rows)
        formulated = formulate(self._config(), sample)
        if formulated.formulation is not None:
            self.C_ = formulated.formulation.config.C
        self._learn(formulated.problem, sample, formulated.variance)
        for graph in graphs_in(self.kernel):
            warn_of_unreached(graph, sample.X, sample.labeled)
        if formulated.metric is not None:
            self.metric_ = formulated.metric
        if self.approximation is None:
            self._training = Training(rows, formulated.formulation, parameters(self))
        return formulated.problem

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
        sample = self._distinct(rows)
        problem, solved = training.solved(sample, self)
        self._learn(problem, sample, training.formulation.norms.variance, solution=solved.solution)
        self.labeled_ = as_input_type(rows.labeled, self.labeled_)
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

    def _fit_blocks(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Fit the estimator with its approximation to blocks, or to arrays, which are validated first."""
        check_in_span(self.approximation, self.solver)
        if isinstance(self.approximation, FourierGrid):
            raise ValueError(
                f"{type(self).__name__} with a FourierGrid takes arrays: for blocks use rkhs.streams.StreamedProblem, "
                "or approximation=rkhs.Landmarks(p)."
            )
        if in_blocks(X):
            if isinstance(X, Blocks) and (y is not None or sample_weight is not None):
                raise ValueError("Blocks bring y and sample weights: call fit(blocks) without these.")
            self.__dict__.pop("feature_names_in_", None)  # left by an earlier fit
            stream = blocks(X, y, sample_weight)
        else:
            points, _, _, _ = self._validated(X, y, own=False)
            if is_torch_array(points):
                raise TypeError("An approximation takes NumPy arrays, data frames or blocks: pass X.numpy(force=True).")
            weight = None if sample_weight is None else as_weights(sample_weight, points)
            stream = blocks(points, column_or_1d(as_column(as_numpy(y))), weight)
        look, learn = replayed(stream)
        with closing(Monitor(self.tol, verbose=self.verbose)) as monitor:
            with monitor.showing(CHOICE):
                plan, seen = self._plan(with_progress(look, monitor, SAMPLING), None)
            if learn.replays:
                solved = solve_stream(learn, plan, monitor)
            else:  # the number of rows, by which invariances are averaged, is known only at the end
                solved = _solved(with_progress(learn, monitor, SUMMING).reduce(_sums, plan), plan, self.tol)
            self._keep_in_subspace(plan, solved, seen, monitor)
        self._sums = None
        if self.solution_.source is None and not in_blocks(X):
            function: Any = self.function_
            kernel = function.features.kernel if hasattr(function, "features") else function.kernel
            unfitted = clone(self).set_params(kernel=kernel, scale="median")  # a kernel object ignores the scale
            rows = deepcopy((X, y, sample_weight))  # the caller may change them before they are needed
            self._held_out = replace(self._held_out, unfitted=unfitted, rows=rows)

    def _fit_more(self, X: Any, y: Any, sample_weight: Any, classes: Any) -> None:
        """Add a block of rows to the sums of the earlier blocks, and solve again."""
        check_in_span(self.approximation, self.solver)
        before = getattr(self, "_sums", None)
        class_weight = self.get_params(deep=False).get("class_weight")
        if isinstance(class_weight, str | ClassPrior):
            raise ValueError(
                f"class_weight={class_weight!r} depends on the labels of all rows, which partial_fit does not know: "
                "pass a dict."
            )
        if before is None and hasattr(self, "solution_"):
            warn(
                f"{type(self).__name__}.partial_fit starts anew and forgets the rows of fit, which keeps no sums to "
                "add to. Pass all rows to partial_fit, from the first on."
            )
        index = 0 if before is None else before[2]
        block = Block.of(index, X, y, sample_weight, columns=self, first=before is None)
        if not len(block.X):
            return
        if before is None:
            plan, seen = self._plan(blocks(block.X, block.y, block.weight, rows=len(block.X)), classes)
            sums = _sums(plan, block)
        else:
            plan, sums, _, seen, settings = before
            check_unchanged(self, settings)
            check_same_classes(self, classes)
            sums = sums + _sums(plan, block)
        self._keep_in_subspace(plan, _solved(sums, plan, self.tol), seen, Monitor(self.tol))
        self._sums = (plan, sums, index + 1, seen, parameters(self))

    def _plan(self, look: Blocks, classes: Any) -> tuple[Plan, Reservoir]:
        """Choose the kernel, the functions and the weights from a pass over blocks; return the plan and the sample.

        The classes and the features of the estimator are set.
        """
        options = SolverOptions.of(self.solver)
        check_sums(options.precision)
        if shape_of(self) is not None:
            raise ValueError("A shape can be proved only with all rows in memory: use `fit` with arrays.")
        invariances = as_invariances(self.invariance)
        for invariance in invariances:
            if invariance.functional == "local_average" or invariance.once:
                raise ValueError(
                    f"The invariance {invariance.functional!r} needs all points at once, but an approximation sees "
                    'them in blocks: use "gradient", or a callable X -> functionals of single points, such as '
                    "lambda X: rkhs.LocalDeviation(X, width=0.1)."
                )
        unfitted, name = clone(self), type(self).__name__
        terms = BlockTerms(unfitted, invariances if check_number(self.nu, "nu", or_zero=True) > 0 else ())
        seen = look.reduce(sample, SampleSpec(self.approximation.sample_size, 0, terms.labeled, terms.describe))
        facts: Facts = seen.facts
        if is_classifier(self):
            all_classes = np.unique(of_one_kind(as_column(list(facts.classes) if classes is None else classes)))
            weights = np.array([facts.classes[c] for c in all_classes.tolist()])
            check_classes(all_classes, weights, seen.totals[1], self.unlabeled, name)
            self.classes_ = unfitted.classes_ = all_classes
            config = self._config()
            if isinstance(config.class_weight, str | ClassPrior):  # these depend on all rows
                factors = class_weights(config.class_weight, all_classes, np.arange(len(all_classes)), weights)
                unfitted.set_params(class_weight=dict(zip(all_classes.tolist(), factors.tolist(), strict=True)))
        elif facts.labels == 0:
            raise ValueError(f"{name} needs points with a target; every y is unlabeled.")
        self.n_features_in_, self._kind = facts.width, ("numpy", "cpu")
        if facts.names is not None:
            self.feature_names_in_ = facts.names
        columns = getattr(self, "feature_names_in_", None)
        terms = replace(terms, invariances=resolve_columns(terms.invariances, columns))
        block = seen.block()
        config = unfitted._config(approximation=None, nu=0)
        if is_learned(config):  # from at most 4000 labels of the sample, without an approximation
            learned = formulate(config, terms.rows(seen.smallest(4000).of_kind(0)))
            kernel = learned.problem.kernel
            if learned.metric is not None:
                self.metric_ = learned.metric
        else:
            kernel = as_kernel(unfitted.kernel, unfitted.scale, block.X)
        terms = terms.scaled(kernel, block, seen.totals)
        plan = planned(kernel, terms, terms(block), config.basis, self.approximation, options.device)
        return plan, replace(seen, facts=None)

    def _keep_in_subspace(self, plan: Plan, solved: Solved, seen: Reservoir, monitor: Monitor) -> None:
        """Keep the solution, and a sample of the labels for intervals, prediction sets and probabilities."""
        solution = solution_of(solved, self.approximation, monitor)
        terms: Any = plan.terms
        self._keep(None, solution, terms.units.variance)
        self._held_out = HeldOutByFolds(type(self).__name__, self.loss)
        drawn, block = seen.smallest(1000).of_kind(0), seen.block()
        if solved.terms.quadratic and len(drawn.X):
            self._held_out = HeldOutInSubspace(terms(drawn)[0], solution)
        if is_classifier(self):
            labels = terms.rows(block).take(terms.labeled(block))
            self._calibration = Calibration(solution.function, Evaluation(labels.X), labels.y, labels.weight)


def check_same_classes(estimator: InvariantEstimator, classes: Any = None) -> None:
    """Raise ValueError if other classes are given to `partial_fit` than to the first call."""
    if classes is not None and not np.array_equal(np.unique(classes), estimator.classes_):
        raise ValueError(
            f"classes={classes!r} differ from those of the first partial_fit, {estimator.classes_.tolist()}: start "
            "anew with sklearn.base.clone(estimator) and all classes that any block will have."
        )


@contextmanager
def _naming_block(block: Block) -> Iterator[None]:
    """Convert a ValueError to a BlockError that names the block."""
    try:
        yield
    except ValueError as error:
        raise BlockError(block.index, f"cannot be used: {error}") from error


@dataclass(frozen=True, eq=False)
class Facts:
    """Properties of the rows that have to be known before any are summed."""

    classes: Counter[Any]  # the total weight of each class
    labels: int  # the number of labeled rows
    width: int  # the number of features
    names: Vector | None  # of the features

    def __add__(self, other: Facts) -> Facts:
        return replace(self, classes=self.classes + other.classes, labels=self.labels + other.labels)


@dataclass(frozen=True, eq=False)
class BlockTerms:
    """The map from a block to its terms: the labels first, then one term for each invariance, which may be empty.

    The normalization of the weights is known after a sample has been drawn (`scaled`).
    """

    estimator: InvariantEstimator  # an unfitted clone, with `classes_` if it is a classifier
    invariances: tuple[Invariance, ...]
    units: WeightNormalization | None = None
    sizes: tuple[float, ...] = ()  # s of each invariance
    totals: Vector = field(default_factory=lambda: np.zeros(2))  # weights of all labeled and of all unlabeled rows

    def labeled(self, block: Block) -> Vector:
        """Return the mask of rows that have a label."""
        if block.y is None:
            return np.zeros(len(block.X), dtype=bool)
        with _naming_block(block):
            return ~checked_unlabeled(block.y, self.estimator.unlabeled)

    def weights(self, block: Block) -> Vector:
        """Return the total weights (2,) of the labeled and of the unlabeled rows of a block."""
        weight = np.ones(len(block.X)) if block.weight is None else block.weight
        return np.bincount(np.where(self.labeled(block), 0, 1), weights=weight, minlength=2)

    def describe(self, block: Block) -> Facts:
        """Return the properties of the rows of a block that have to be known before any are summed."""
        labeled = self.labeled(block)
        classes: Counter[Any] = Counter()
        if is_classifier(self.estimator) and block.y is not None:
            weight = np.ones(len(labeled)) if block.weight is None else block.weight
            with _naming_block(block):
                values, index = np.unique(of_one_kind(block.y[labeled]), return_inverse=True)
            sums = np.bincount(index.reshape(-1), weights=weight[labeled], minlength=len(values))
            classes = Counter(dict(zip(values.tolist(), sums.tolist(), strict=True)))
        return Facts(classes, int(labeled.sum()), int(block.X.shape[1]), block.names)

    def rows(self, block: Block) -> Sample:
        """Return the rows of a block as a sample, without merging; y is 0 for rows without a label."""
        labeled, count = self.labeled(block), len(block.X)
        targets = np.zeros(count) if block.y is None else block.y
        if is_classifier(self.estimator):
            classes, y = self.estimator.classes_, np.zeros(count, dtype=int)
            labels = targets[labeled]
            codes = np.searchsorted(classes, labels) if len(labels) else y[labeled]
            unknown = labels[classes[np.clip(codes, 0, len(classes) - 1)] != labels]
            if len(unknown):
                raise BlockError(
                    block.index,
                    f"has the class {unknown.tolist()[0]!r}, which is not among {classes.tolist()}: pass all `classes` "
                    "to the first partial_fit, or a stream that can be read twice.",
                )
            y[labeled] = codes
        else:
            y = np.where(labeled, targets, 0).astype(float)
        weight = np.ones(count) if block.weight is None else block.weight
        X = immutable_copy(block.X)  # one copy, shared by the functionals of all terms
        return Sample(X, weight, y, labeled, np.zeros((count, 0)), np.ones(count, dtype=np.int64))

    def __call__(self, block: Block) -> list[Term]:
        assert self.units is not None, "call `scaled` first"
        rows, config = self.rows(block), self.estimator._config()
        terms = [self.units.observed(config.label_term(rows))]
        for invariance, size in zip(self.invariances, self.sizes, strict=True):
            points = points_of(invariance, rows)
            nonempty = points if points.size else rows.take(np.arange(1))  # an empty term needs a functional as well
            share = float(points.weight.sum()) / _weight_of(invariance, self.totals)
            term = invariance_term(invariance, nonempty, self.units, config, size, share)
            terms.append(term if points.size else Term(term.functional.take([]), term.loss, target=invariance.target))
        return terms

    def scaled(self, kernel: Kernel, sampled: Block, totals: Vector) -> BlockTerms:
        """Return a copy with the normalization by a kernel and a sample, and the total weights (2,) of all rows."""
        rows = self.rows(sampled)
        units, sizes = WeightNormalization.at(kernel, rows.X, rows.weight), []
        for invariance in self.invariances:
            points = points_of(invariance, rows)
            points = points if points.size else rows.take(np.arange(1))
            functionals = invariance(points.X)
            sizes.append(size_of(invariance, functionals, units, multiplicity(functionals, points.weight)))
        return replace(self, units=units, sizes=tuple(sizes), totals=totals)


def _weight_of(invariance: Invariance, totals: Vector) -> float:
    """Return the total weight of the rows at which an invariance holds, or 1 if there are none yet."""
    kinds = {"labeled": totals[0], "unlabeled": totals[1], "all": totals.sum()}
    return float(kinds[invariance.on]) or 1.0


@dataclass(frozen=True, eq=False)
class Sums:
    """The sums over blocks, and the total weights of their rows."""

    features: FeatureSums
    weights: Vector  # (2,) of labeled and of unlabeled rows

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.features + other.features, self.weights + other.weights)


def _sums(plan: Plan, block: Block, _: Any = None) -> Sums:
    terms: Any = plan.terms
    return Sums(plan.features(block), terms.weights(block))


def _solved(sums: Sums, plan: Plan, tol: float) -> Solved:
    """Solve the problem from sums alone; the means of invariances are corrected to the rows that were summed."""
    terms: Any = plan.terms
    factors = [
        _weight_of(invariance, terms.totals) / _weight_of(invariance, sums.weights) for invariance in terms.invariances
    ]
    found = FeatureTerms(sums.features.times([1.0, *factors]))
    *_, (_, solved) = solve_weightings(lambda _: found, [None], Monitor(tol), inf)
    return solved
