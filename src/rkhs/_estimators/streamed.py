"""The base of the invariant estimators: their parameters, and fits to points in memory, or in a span to rows in blocks.

look     one pass: a sample of the rows, the classes and their weights
choose   the kernel's scale and the functions of the space, from the sample
sum up   one pass: the moments of all terms
solve    p unknowns
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

import numpy as np
from array_api_compat import is_torch_array
from sklearn.base import clone, is_classifier
from sklearn.utils import column_or_1d

from rkhs._backend.arrays import Vector, as_column, owned
from rkhs._estimators.base import BaseKernelEstimator
from rkhs._estimators.calibration import Calibration, HeldOutOfRows, HeldOutOfSums
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
from rkhs._estimators.length_scales import AGOP, as_kernel, is_learned
from rkhs._estimators.options import SolverOptions, check_in_span, check_number, check_unchanged, parameters
from rkhs._estimators.problem import WeightNormalization, formulate, invariance_term, multiplicity, points_of, size_of
from rkhs._finite.features import FeatureBlocks
from rkhs._finite.monitor import CHOICE, SUMMING, Monitor
from rkhs._finite.term import Term
from rkhs._problem import Problem
from rkhs._problem.subspace import solution_of
from rkhs._shapes.fitting import shape_of
from rkhs._spaces.base import check_sums
from rkhs._warnings import warn
from rkhs.exceptions import BlockError
from rkhs.functionals import Evaluation
from rkhs.invariances._base import Invariance, as_invariances, resolve_columns
from rkhs.kernels import Kernel
from rkhs.solvers._projected import ProjectedProblem, ProjectedSolution
from rkhs.streams._blocks import Block, Blocks, blocks, in_blocks, replayed
from rkhs.streams._plan import Plan, Reservoir, Wanted, sample
from rkhs.streams._problem import LOOKING, planned, solve_stream, telling


@dataclass(eq=False, repr=False)
class InvariantEstimator(BaseKernelEstimator):
    """The parameters that `InvariantClassifier` and `InvariantRegressor` share, documented there, and how both fit."""

    kernel: Any = "gaussian"
    _: KW_ONLY
    scale: Any = "median"
    loss: Any = "squared"
    C: float = 1.0
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
        """Return whether rows are summed up block by block."""
        return self.approximation is not None and shape_of(self) is None and (in_blocks(X) or not self._learns_metric)

    @property
    def _learns_metric(self) -> bool:
        return isinstance(self.scale, str) and self.scale in AGOP

    def _fit_sample(self, sample: Sample) -> Problem:
        """Fit the estimator to points in memory, and return the problem."""
        found = formulate(self._config(), sample)
        self._learn(found.problem, sample, found.variance)
        if found.metric is not None:
            self.metric_ = found.metric
        return found.problem

    def _fit_blocks(self, X: Any, y: Any, sample_weight: Any) -> None:
        """Fit the estimator in the span of its approximation to blocks, or to arrays, which scikit-learn checks."""
        check_in_span(self.approximation, self.solver)
        if in_blocks(X):
            if isinstance(X, Blocks) and (y is not None or sample_weight is not None):
                raise ValueError("Blocks bring y and weights themselves: call fit(blocks).")
            self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
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
                plan, seen = self._plan(telling(look, monitor, LOOKING), None)
            if learn.replays:
                found = solve_stream(learn, plan, monitor)
            else:  # then how many rows there are is known when it ends
                found = _solved(telling(learn, monitor, SUMMING).reduce(_sums, plan), plan, self.tol)
            self._keep_in_span(plan, *found, seen, monitor)
        self._sums = None
        if self.solution_.source is None and not in_blocks(X):
            function: Any = self.function_
            kernel = function.features.kernel if hasattr(function, "features") else function.kernel
            unfitted = clone(self).set_params(kernel=kernel, scale="median")  # of no meaning beside such a kernel
            rows = deepcopy((X, y, sample_weight))  # which the caller may change before they are asked for
            self._held_out = replace(self._held_out, unfitted=unfitted, rows=rows)

    def _fit_more(self, X: Any, y: Any, sample_weight: Any, classes: Any) -> None:
        """Add a block to what the estimator has seen."""
        check_in_span(self.approximation, self.solver)
        before = getattr(self, "_sums", None)
        if before is None and hasattr(self, "solution_"):
            warn(
                f"{type(self).__name__}.partial_fit starts anew: fit has kept no sums to add to, and its rows are "
                "forgotten. Give all rows to partial_fit, from the first on."
            )
        index = 0 if before is None else before[2]
        block = Block.of(index, X, y, sample_weight, columns=self, first=before is None)
        if not len(block.X):
            return
        if before is None:
            plan, seen = self._plan(blocks(block.X, block.y, block.weight, rows=len(block.X)), classes)
            sums = _sums(plan, block)
        else:
            plan, sums, _, seen, given = before
            check_unchanged(self, given)
            if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
                raise ValueError(
                    f"classes={classes!r} are not those of the first partial_fit, {self.classes_.tolist()}: start "
                    "with sklearn.base.clone(estimator) and all classes there will be."
                )
            sums = sums + _sums(plan, block)
        found = _solved(sums, plan, self.tol)
        self._keep_in_span(plan, *found, seen, Monitor(self.tol))
        self._sums = (plan, sums, index + 1, seen, parameters(self))

    def _plan(self, look: Blocks, classes: Any) -> tuple[Plan, Reservoir]:
        """Learn classes and columns from the blocks; return the plan for all of them and the sample it is made from."""
        options = SolverOptions.of(self.solver)
        check_sums(options.precision)
        if shape_of(self) is not None:
            raise ValueError("A shape that holds everywhere is proved with all rows in memory: use `fit` with arrays.")
        invariances = as_invariances(self.invariance)
        for one in invariances:
            if one.functional == "local_average" or one.once:
                raise ValueError(
                    f"The invariance {one.functional!r} looks at all points at once, and an approximation sees them in "
                    'blocks: use "gradient", or a callable X -> functionals of single points, such as '
                    "lambda X: rkhs.LocalDeviation(X, width=0.1)."
                )
        own, name = clone(self), type(self).__name__
        terms = BlockTerms(own, invariances if check_number(self.nu, "nu", or_zero=True) > 0 else ())
        seen = look.reduce(sample, Wanted(self.approximation.sample_size, 0, terms.labeled, terms.describe))
        facts: Facts = seen.facts
        if is_classifier(self):
            found = np.unique(of_one_kind(as_column(list(facts.classes) if classes is None else classes)))
            weights = np.array([facts.classes[c] for c in found.tolist()])
            check_classes(found, weights, seen.totals[1], self.unlabeled, name)
            self.classes_ = own.classes_ = found
            config = self._config()
            if isinstance(config.class_weight, str | ClassPrior):  # which are about all rows
                if classes is not None:
                    raise ValueError(
                        f"class_weight={config.class_weight!r} depends on the labels of all rows, which partial_fit "
                        "does not know: give a dict."
                    )
                each = class_weights(config.class_weight, found, np.arange(len(found)), weights)
                own.set_params(class_weight=dict(zip(found.tolist(), each.tolist(), strict=True)))
        elif facts.labels == 0:
            raise ValueError(f"{name} needs points with a target; every y is unlabeled.")
        self.n_features_in_, self._kind = facts.width, ("numpy", "cpu")
        if facts.names is not None:
            self.feature_names_in_ = facts.names
        columns = getattr(self, "feature_names_in_", None)
        terms = replace(terms, invariances=resolve_columns(terms.invariances, columns))
        block = seen.block()
        config = own._config(approximation=None, nu=0)
        if is_learned(config):  # from 4000 labels of the sample, with all representers
            learned = formulate(config, terms.rows(seen.smallest(4000).of_kind(0)))
            kernel = learned.problem.kernel
            if learned.metric is not None:
                self.metric_ = learned.metric
        else:
            kernel = as_kernel(own.kernel, own.scale, block.X)
        terms = terms.scaled(kernel, block, seen.totals)
        plan = planned(kernel, terms, terms(block), config.basis, self.approximation, options.device)
        return plan, replace(seen, facts=None)

    def _keep_in_span(
        self, plan: Plan, problem: ProjectedProblem, found: ProjectedSolution, seen: Reservoir, monitor: Monitor
    ) -> None:
        """Keep the solution, 1000 labels to be left out of the sums of all rows, and a sample for probabilities."""
        solution = solution_of(problem, found, self.approximation, monitor)
        terms: Any = plan.terms
        self._keep(None, solution, terms.units.variance)
        self._held_out = HeldOutOfRows(type(self).__name__, self.loss)
        drawn, block = seen.smallest(1000).of_kind(0), seen.block()
        if problem.quadratic and len(drawn.X):
            self._held_out = HeldOutOfSums(terms(drawn)[0], solution)
        if is_classifier(self):
            labels = terms.rows(block).take(terms.labeled(block))
            self._calibration = Calibration(solution.function, Evaluation(labels.X), labels.y, labels.weight)


def approximated(estimator: InvariantEstimator) -> bool:
    """Return whether an estimator has `partial_fit`."""
    if estimator.approximation is None:
        raise AttributeError(
            f"{type(estimator).__name__}.partial_fit needs an approximation, such as rkhs.Landmarks(500), whose sums "
            "grow with each block: without one all points are needed at once."
        )
    return True


@contextmanager
def _blaming(block: Block) -> Iterator[None]:
    """Raise a ValueError within as one that names the block."""
    try:
        yield
    except ValueError as error:
        raise BlockError(block.index, f"cannot be used: {error}") from error


@dataclass(frozen=True, eq=False)
class Facts:
    """Weights of the classes, the number of labeled rows and of features, and the names of these, if they have any."""

    classes: Counter[Any]
    labels: int
    width: int
    names: Vector | None

    def __add__(self, other: Facts) -> Facts:
        return replace(self, classes=self.classes + other.classes, labels=self.labels + other.labels)


@dataclass(frozen=True, eq=False)
class BlockTerms:
    """block -> terms: the labels first, then one for each invariance, whether or not the block has rows for it.

    The units of their weights are known once a sample is: `units`, the `sizes` of invariances, and the weights of all
    rows with a label and without one, `totals`.
    """

    estimator: InvariantEstimator  # an unfitted clone, with `classes_` if it is a classifier
    invariances: tuple[Invariance, ...]
    units: WeightNormalization | None = None
    sizes: tuple[float, ...] = ()
    totals: Vector = field(default_factory=lambda: np.zeros(2))

    def labeled(self, block: Block) -> Vector:
        """Return which rows have a label."""
        if block.y is None:
            return np.zeros(len(block.X), dtype=bool)
        with _blaming(block):
            return ~checked_unlabeled(block.y, self.estimator.unlabeled)

    def weights(self, block: Block) -> Vector:
        """Return the weights of the rows of a block with a label and of those without one, (2,)."""
        weight = np.ones(len(block.X)) if block.weight is None else block.weight
        return np.bincount(np.where(self.labeled(block), 0, 1), weights=weight, minlength=2)

    def describe(self, block: Block) -> Facts:
        """Return what has to be known of all rows before any are summed up."""
        labeled = self.labeled(block)
        classes: Counter[Any] = Counter()
        if is_classifier(self.estimator) and block.y is not None:
            weight = np.ones(len(labeled)) if block.weight is None else block.weight
            with _blaming(block):
                values, places = np.unique(of_one_kind(block.y[labeled]), return_inverse=True)
            sums = np.bincount(places.reshape(-1), weights=weight[labeled], minlength=len(values))
            classes = Counter(dict(zip(values.tolist(), sums.tolist(), strict=True)))
        return Facts(classes, int(labeled.sum()), int(block.X.shape[1]), block.names)

    def rows(self, block: Block) -> Sample:
        """Return the rows as estimators see them; y is the index of the class, 0 for no label, or the target."""
        labeled, count = self.labeled(block), len(block.X)
        given = np.zeros(count) if block.y is None else block.y
        if is_classifier(self.estimator):
            classes, y = self.estimator.classes_, np.zeros(count, dtype=int)
            known = given[labeled]
            codes = np.searchsorted(classes, known) if len(known) else y[labeled]
            strange = known[classes[np.clip(codes, 0, len(classes) - 1)] != known]
            if len(strange):
                raise BlockError(
                    block.index,
                    f"has the class {strange.tolist()[0]!r}, which is not among {classes.tolist()}: give all `classes` "
                    "to the first partial_fit, or a stream that can be read twice.",
                )
            y[labeled] = codes
        else:
            y = np.where(labeled, given, 0).astype(float)
        weight = np.ones(count) if block.weight is None else block.weight
        X = owned(block.X)  # one copy, which the functionals of all terms share
        return Sample(X, weight, y, labeled, np.zeros((count, 0)), np.ones(count, dtype=np.int64))

    def __call__(self, block: Block) -> list[Term]:
        assert self.units is not None, "known once a sample is: see `scaled`"
        rows, config = self.rows(block), self.estimator._config()
        terms = [self.units.observed(config.label_term(rows))]
        for one, size in zip(self.invariances, self.sizes, strict=True):
            points = points_of(one, rows)
            some = points if points.size else rows.take(np.arange(1))  # of another kind, to see the functionals
            share = float(points.weight.sum()) / _weight_of(one, self.totals)
            term = invariance_term(one, some, self.units, config, size, share)
            terms.append(term if points.size else Term(term.functional.take([]), term.loss, target=one.target))
        return terms

    def scaled(self, kernel: Kernel, sampled: Block, totals: Vector) -> BlockTerms:
        """Return the same with the units of a kernel and a sample, and the weights (2,) of all rows."""
        rows = self.rows(sampled)
        units, sizes = WeightNormalization.at(kernel, rows.X, rows.weight), []
        for one in self.invariances:
            points = points_of(one, rows)
            points = points if points.size else rows.take(np.arange(1))
            functionals = one(points.X)
            sizes.append(size_of(one, functionals, units, multiplicity(functionals, points.weight)))
        return replace(self, units=units, sizes=tuple(sizes), totals=totals)


def _weight_of(one: Invariance, totals: Vector) -> float:
    """Return the weight of the rows that an invariance is about; 1 where there are none yet."""
    kinds = {"labeled": totals[0], "unlabeled": totals[1], "all": totals.sum()}
    return float(kinds[one.on]) or 1.0


@dataclass(frozen=True, eq=False)
class Sums:
    """The sums of some blocks, and the weights (2,) of their rows."""

    features: FeatureBlocks
    weights: Vector

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.features + other.features, self.weights + other.weights)


def _sums(plan: Plan, block: Block, _: Any = None) -> Sums:
    terms: Any = plan.terms
    return Sums(plan.features(block), terms.weights(block))


def _solved(sums: Sums, plan: Plan, tol: float) -> tuple[ProjectedProblem, ProjectedSolution]:
    """Solve from the sums of rows that are not read again: the means of invariances are known at their end."""
    terms: Any = plan.terms
    factors = [_weight_of(one, terms.totals) / _weight_of(one, sums.weights) for one in terms.invariances]
    problem = ProjectedProblem(sums.features.times([1.0, *factors]))
    return problem, problem.solve(tol)
