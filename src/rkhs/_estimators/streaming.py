"""Fits to rows in blocks, with an approximation by p functions.

1. Sample: one pass over the blocks collects a sample of the rows, the classes and their weights.
2. Plan: the length scale of the kernel and the p functions are chosen from the sample.
3. Sum: a second pass adds up the moments of all terms.
4. Solve the problem in p unknowns.

Rows in memory are a stream, too, and `partial_fit` adds the sums of one block to those of the earlier ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from math import inf
from typing import Any

import numpy as np
from array_api_compat import is_torch_array
from sklearn.base import clone, is_classifier
from sklearn.utils import column_or_1d

from rkhs._backend.arrays import Vector, as_column, immutable_copy
from rkhs._estimators import data
from rkhs._estimators.calibration import Calibration, HeldOutByFolds, HeldOutInSubspace
from rkhs._estimators.formulation import Formulation, ModelConfig, weight_of
from rkhs._estimators.invariant_estimator import check_same_classes, check_unchanged, parameters
from rkhs._estimators.length_scales import AGOP, as_kernel, formulate, is_learned
from rkhs._estimators.options import check_in_span, check_number
from rkhs._finite.features import FeatureTerms
from rkhs._finite.monitor import CHOICE, SUMMING, Monitor
from rkhs._finite.sums import FeatureSums
from rkhs._finite.term import Term
from rkhs._problem.spaces import SpaceSolution, solution_of, solve_weightings
from rkhs._shapes.fitting import shape_of
from rkhs._spaces.base import check_approximation, check_sums
from rkhs._warnings import warn
from rkhs.exceptions import BlockError
from rkhs.functionals import Evaluation
from rkhs.invariances._base import as_invariances
from rkhs.streams._blocks import Block, Blocks, blocks, in_blocks, replayed
from rkhs.streams._problem import SAMPLING, Plan, Reservoir, SampleSpec, planned, sample, solve_stream, with_progress


def is_streamed(model: Any, config: ModelConfig, X: Any, y: Any) -> bool:
    """Return whether `fit` sums rows block by block; otherwise all of them must be in memory."""
    if config.approximation is None or shape_of(model) is not None or (y is not None and data.columns_of(y) > 1):
        return False
    check_approximation(config.approximation)
    learns_metric = isinstance(config.scale, str) and config.scale in AGOP
    return in_blocks(X) or (config.approximation.stored and not learns_metric)


def fit_stream(model: Any, config: ModelConfig, X: Any, y: Any, sample_weight: Any) -> None:
    """Fit an estimator with an approximation to blocks, or to arrays, which are validated first."""
    check_in_span(config.approximation, config.solver)
    if not config.approximation.stored:
        name = type(config.approximation).__name__
        raise ValueError(
            f"{type(model).__name__} with a {name} takes arrays: for blocks use rkhs.streams.StreamedProblem, "
            "or approximation=rkhs.Landmarks(p)."
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
        weight = None if sample_weight is None else data.as_weights(sample_weight, points)
        stream = blocks(points, column_or_1d(as_column(data.as_numpy(y))), weight)
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
        terms: Any = plan.terms
        unfitted = clone(model).set_params(**({"cv": 5} if hasattr(model, "cv") else {}))
        kernel = terms.formulation.norms.kernel
        learned = replace(terms.config, kernel=kernel, scale="median", class_weight=config.class_weight)
        rows = deepcopy((X, y, sample_weight))  # the caller may change them before they are needed
        model._held_out = replace(model._held_out, unfitted=unfitted, config=learned, rows=rows)


def fit_block(model: Any, config: ModelConfig, X: Any, y: Any, sample_weight: Any, classes: Any) -> None:
    """Add a block of rows to the sums of the earlier blocks, and solve again."""
    check_in_span(config.approximation, config.solver)
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
                "lambda X: rkhs.LocalDeviation(X, width=0.1)."
            )
    check_number(config.nu, "nu", or_zero=True)
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
    model.n_features_in_, model._kind = facts.width, ("numpy", "cpu")
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
        kernel = as_kernel(config.kernel, config.scale, block.X)
    terms = replace(terms, formulation=Formulation.at(config, terms.rows(block), kernel, totals=seen.totals))
    plan = planned(kernel, terms, terms(block), config.basis, config.approximation, config.options.device)
    return plan, replace(seen, facts=None)


def _keep(model: Any, plan: Plan, solved: SpaceSolution, seen: Reservoir, monitor: Monitor) -> None:
    """Keep the solution, and a sample of the labels for intervals, prediction sets and probabilities."""
    terms: Any = plan.terms
    solution = solution_of(solved, terms.config.approximation, monitor)
    model._keep(None, solution, terms.formulation.norms.variance)
    model._held_out = HeldOutByFolds(type(model).__name__, terms.config.loss)
    drawn, block = seen.smallest(1000).of_kind(0), seen.block()
    if solved.terms.quadratic and len(drawn.X):
        model._held_out = HeldOutInSubspace(terms(drawn)[0], solution)
    if is_classifier(model):
        labels = terms.rows(block).take(terms.labeled(block))
        model._calibration = Calibration(solution.function, Evaluation(labels.X), labels.y, labels.weight)


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
    """The map from a block to its terms: the labels first, then one term for each invariance, which may be empty."""

    config: ModelConfig
    classifies: bool
    formulation: Formulation | None = None  # known after a sample has been drawn

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "estimator" in state:  # model files of rkhs 0.3.0
            config = state["estimator"]._config()
            sizes, totals = state["sizes"], state["totals"]
            planned = Formulation(config, state["units"], state["invariances"], sizes, None, totals=totals)
            state = {"config": config, "classifies": is_classifier(state["estimator"]), "formulation": planned}
        self.__dict__.update(state)

    def labeled(self, block: Block) -> Vector:
        """Return the mask of rows that have a label."""
        if block.y is None:
            return np.zeros(len(block.X), dtype=bool)
        with _naming_block(block):
            return ~data.checked_unlabeled(block.y, self.config.unlabeled)

    def weights(self, block: Block) -> Vector:
        """Return the total weights (2,) of the labeled and of the unlabeled rows of a block."""
        weight = np.ones(len(block.X)) if block.weight is None else block.weight
        return np.bincount(np.where(self.labeled(block), 0, 1), weights=weight, minlength=2)

    def describe(self, block: Block) -> Facts:
        """Return the properties of the rows of a block that have to be known before any are summed."""
        labeled = self.labeled(block)
        classes: Counter[Any] = Counter()
        if self.classifies and block.y is not None:
            weight = np.ones(len(labeled)) if block.weight is None else block.weight
            with _naming_block(block):
                values, index = np.unique(data.of_one_kind(block.y[labeled]), return_inverse=True)
            sums = np.bincount(index.reshape(-1), weights=weight[labeled], minlength=len(values))
            classes = Counter(dict(zip(values.tolist(), sums.tolist(), strict=True)))
        return Facts(classes, int(labeled.sum()), int(block.X.shape[1]), block.names)

    def rows(self, block: Block) -> data.Sample:
        """Return the rows of a block as a sample, without merging; y is 0 for rows without a label."""
        labeled, count = self.labeled(block), len(block.X)
        targets = np.zeros(count) if block.y is None else block.y
        if self.classifies:
            classes, y = np.asarray(self.config.classes), np.zeros(count, dtype=int)
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
        return data.Sample(X, weight, y, labeled, np.zeros((count, 0)), np.ones(count, dtype=np.int64))

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
    terms: Any = plan.terms
    return Sums(plan.features(block), terms.weights(block))


def _solved(sums: Sums, plan: Plan, tol: float) -> SpaceSolution:
    """Solve the problem from sums alone; the means of invariances are corrected to the rows that were summed."""
    terms: Any = plan.terms
    planned, totals = terms.formulation, terms.formulation.totals
    # Blocks have been divided by the weight of the sampled rows; a mean is over the rows that were summed.
    factors = [weight_of(one, totals) / weight_of(one, sums.weights) for one in planned.invariances]
    found = FeatureTerms(sums.features.times([1.0, *factors]))
    *_, (_, solved) = solve_weightings(lambda _: found, [None], Monitor(tol), inf)
    return solved
