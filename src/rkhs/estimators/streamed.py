"""Invariant estimators with an approximation: rows in blocks, from memory, files, iterators or a cluster.

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
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from array_api_compat import is_torch_array
from sklearn.base import clone, is_classifier
from sklearn.utils import column_or_1d

from rkhs._backend.arrays import Vector, as_column, owned, to_numpy
from rkhs._calculus.function_spaces import Constant
from rkhs._finite.features import FeatureBlocks
from rkhs._finite.monitor import CHOICE, SUMMING, Monitor
from rkhs._finite.term import Term
from rkhs._shapes.fitting import shape_of
from rkhs.errors import BlockError, warn
from rkhs.estimators._calibration import HeldOutOfRows, HeldOutOfSums, fitted_slope, per_class, probabilities
from rkhs.estimators._data import (
    Sample,
    as_numpy,
    as_weights,
    check_classes,
    checked_unlabelled,
    class_weights,
    of_one_kind,
)
from rkhs.estimators._length_scales import as_kernel, is_learnt
from rkhs.estimators._options import check_in_span, check_number, check_unchanged, parameters
from rkhs.estimators._problem import (
    WeightNormalisation,
    formulate,
    invariance_term,
    multiplicity,
    points_of,
    size_of,
)
from rkhs.invariances.base import Invariance, as_invariances, resolve_columns
from rkhs.kernels import Kernel
from rkhs.problem.subspace import solution_of
from rkhs.solvers._projected import ProjectedProblem, ProjectedSolution
from rkhs.spaces.base import check_sums
from rkhs.streams.blocks import Block, Blocks, blocks, in_blocks, replayed
from rkhs.streams.plan import Plan, Wanted, sample
from rkhs.streams.problem import LOOKING, planned, solve_stream, telling

MOST_LEARNT = 4000  # labels from which scales and metrics are learnt
MOST_DRAWN = 1000  # labels that are left out, one by one, of the sums of all rows


@contextmanager
def _blaming(block: Block) -> Iterator[None]:
    """Raise a ValueError within as one that names the block."""
    try:
        yield
    except ValueError as error:
        raise BlockError(block.index, f"cannot be used: {error}") from error


@dataclass(frozen=True, eq=False)
class Facts:
    """Weights of the classes, the number of labelled rows and of features, and the names of these, if they have any."""

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

    estimator: Any  # an unfitted clone, with `classes_` if it is a classifier
    invariances: tuple[Invariance, ...]
    units: WeightNormalisation | None = None
    sizes: tuple[float, ...] = ()
    totals: Vector = field(default_factory=lambda: np.zeros(2))

    def labelled(self, block: Block) -> Vector:
        """Return which rows have a label."""
        if block.y is None:
            return np.zeros(len(block.X), dtype=bool)
        with _blaming(block):
            return ~checked_unlabelled(block.y, self.estimator.unlabeled)

    def weights(self, block: Block) -> Vector:
        """Return the weights of the rows of a block with a label and of those without one, (2,)."""
        weight = np.ones(len(block.X)) if block.weight is None else block.weight
        return np.bincount(np.where(self.labelled(block), 0, 1), weights=weight, minlength=2)

    def describe(self, block: Block) -> Facts:
        """Return what has to be known of all rows before any are summed up."""
        labelled = self.labelled(block)
        classes: Counter[Any] = Counter()
        if is_classifier(self.estimator) and block.y is not None:
            weight = np.ones(len(labelled)) if block.weight is None else block.weight
            with _blaming(block):
                values, places = np.unique(of_one_kind(block.y[labelled]), return_inverse=True)
            sums = np.bincount(places.reshape(-1), weights=weight[labelled], minlength=len(values))
            classes = Counter(dict(zip(values.tolist(), sums.tolist(), strict=True)))
        return Facts(classes, int(labelled.sum()), int(block.X.shape[1]), block.names)

    def rows(self, block: Block) -> Sample:
        """Return the rows as estimators see them; y is the index of the class, or the target."""
        labelled = self.labelled(block)
        y = np.zeros(len(labelled)) if block.y is None else block.y
        y = self._codes(block, y, labelled) if is_classifier(self.estimator) else np.where(labelled, y, 0).astype(float)
        weight = np.ones(len(y)) if block.weight is None else block.weight
        X = owned(block.X)  # one copy, which the functionals of all terms share
        return Sample(X, weight, y, labelled, np.zeros((len(y), 0)), np.ones(len(y), dtype=np.int64))

    def _codes(self, block: Block, y: Vector, labelled: Vector) -> Vector:
        """Return the index of each row's class, 0 for no label."""
        classes = self.estimator.classes_
        places = np.searchsorted(classes, y[labelled]) if labelled.any() else np.zeros(0, dtype=int)
        known = classes[np.clip(places, 0, len(classes) - 1)] == y[labelled]
        if not np.all(known):
            strange = y[labelled][~known].tolist()[0]
            raise BlockError(
                block.index,
                f"has the class {strange!r}, which is not among {classes.tolist()}: give all `classes` to the first "
                "partial_fit, or a stream that can be read twice.",
            )
        codes = np.zeros(len(y), dtype=int)
        codes[labelled] = places
        return codes

    @property
    def nu(self) -> float:
        return check_number(self.estimator.nu, "nu", or_zero=True)

    @property
    def _known(self) -> tuple[Invariance, ...]:
        return self.invariances if self.nu > 0 else ()

    def __call__(self, block: Block) -> list[Term]:
        assert self.units is not None, "known once a sample is: see `scaled`"
        rows, config = self.rows(block), self.estimator._config()
        terms = [self.units.observed(config.label_term(rows))]
        for one, size in zip(self._known, self.sizes, strict=True):
            points = points_of(one, rows)
            some = points if points.size else rows.take(np.arange(1))  # of another kind, to see the functionals
            share = float(points.weight.sum()) / _weight_of(one, self.totals)
            term = invariance_term(one, some, self.units, config, size, share)
            terms.append(term if points.size else Term(term.functional.take([]), term.loss, target=one.target))
        return terms

    def scaled(self, kernel: Kernel, sampled: Block, totals: Vector) -> BlockTerms:
        """Return the same with the units of a kernel and a sample, and the weights (2,) of all rows."""
        rows = self.rows(sampled)
        units, sizes = WeightNormalisation.of(kernel, rows), []
        for one in self._known:
            points = points_of(one, rows)
            points = points if points.size else rows.take(np.arange(1))
            functionals = one(points.X)
            sizes.append(size_of(one, functionals, units, multiplicity(functionals, points.weight)))
        return replace(self, units=units, sizes=tuple(sizes), totals=totals)

    def factors(self, totals: Vector) -> list[float]:
        """Return the factors on the weights of all terms once there are more rows: invariances are about means."""
        return [1.0, *(_weight_of(one, self.totals) / _weight_of(one, totals) for one in self._known)]


def _weight_of(one: Invariance, totals: Vector) -> float:
    """Return the weight of the rows that an invariance is about; 1 where there are none yet."""
    kinds = {"labelled": totals[0], "unlabelled": totals[1], "all": totals.sum()}
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
    problem = ProjectedProblem(sums.features.times(terms.factors(sums.weights)))
    return problem, problem.solve(tol)


@dataclass(eq=False)
class InSample:
    """Probabilities by a sigmoid fitted to the values at a sample of the labelled rows, which f has seen."""

    function: Any
    X: Vector
    codes: Vector
    weight: Vector

    def probabilities(self, values: Vector) -> Vector:
        """Return probabilities (t, classes) from decision values (t,) or (t, classes)."""
        return probabilities(self.slope, values)

    @cached_property
    def slope(self) -> float:
        """The slope of the sigmoid."""
        return fitted_slope(per_class(to_numpy(self.function(self.X))), self.codes, self.weight)


def fit_blocks(estimator: Any, X: Any, y: Any, sample_weight: Any) -> None:
    """Fit an estimator that has an approximation to arrays, whose rows are checked as scikit-learn does, or blocks."""
    check_in_span(estimator.approximation, estimator.solver)
    if in_blocks(X):
        if isinstance(X, Blocks) and (y is not None or sample_weight is not None):
            raise ValueError("Blocks bring y and weights themselves: call fit(blocks).")
        vars(estimator).pop("feature_names_in_", None)  # of an earlier fit
        stream = blocks(X, y, sample_weight)
    else:
        points, _, _, _ = estimator._validated(X, y, own=False)
        if is_torch_array(points):
            raise TypeError(
                "An approximation takes NumPy arrays, data frames, or blocks of them: pass X.numpy(force=True)."
            )
        weight = None if sample_weight is None else as_weights(sample_weight, points)
        stream = blocks(points, column_or_1d(as_column(as_numpy(y))), weight)
    look, learn = replayed(stream)
    with closing(Monitor(estimator.tol, verbose=estimator.verbose or None)) as monitor:
        with monitor.showing(CHOICE):
            plan, seen = _plan(estimator, telling(look, monitor, LOOKING), None)
        if learn.replays:
            found = solve_stream(learn, plan, monitor)
        else:  # then how many rows there are is known when it ends
            found = _solved(telling(learn, monitor, SUMMING).reduce(_sums, plan), plan, estimator.tol)
        _keep(estimator, plan, *found, seen, monitor)
    estimator._sums = None
    if estimator.solution_.source is None and not in_blocks(X):
        function = estimator.function_
        kernel = function.features.kernel if hasattr(function, "features") else function.kernel
        unfitted = clone(estimator).set_params(kernel=kernel, scale="median")  # of no meaning beside such a kernel
        rows = deepcopy((X, y, sample_weight))  # which the caller may change before they are asked for
        estimator._held_out = replace(estimator._held_out, unfitted=unfitted, rows=rows)


def approximated(estimator: Any) -> bool:
    """Return whether an estimator has `partial_fit`."""
    if estimator.approximation is None:
        raise AttributeError(
            f"{type(estimator).__name__}.partial_fit needs an approximation, such as rkhs.Landmarks(500), whose sums "
            "grow with each block: without one all points are needed at once."
        )
    return True


def fit_more(estimator: Any, X: Any, y: Any, sample_weight: Any, classes: Any) -> None:
    """Add a block to what an estimator has seen."""
    check_in_span(estimator.approximation, estimator.solver)
    before = getattr(estimator, "_sums", None)
    if before is None and hasattr(estimator, "solution_"):
        warn(
            f"{type(estimator).__name__}.partial_fit starts anew: fit has kept no sums to add to, and its rows are "
            "forgotten. Give all rows to partial_fit, from the first on."
        )
    index = 0 if before is None else before[2]
    block = Block.of(index, X, y, sample_weight, columns=estimator, first=before is None)
    if not len(block.X):
        return
    if before is None:
        plan, seen = _plan(estimator, blocks(block.X, block.y, block.weight, rows=len(block.X)), classes)
        sums = _sums(plan, block)
    else:
        plan, sums, _, seen, given = before
        check_unchanged(estimator, given)
        if classes is not None and not np.array_equal(np.unique(classes), estimator.classes_):
            raise ValueError(
                f"classes={classes!r} are not those of the first partial_fit, {estimator.classes_.tolist()}: start "
                "with sklearn.base.clone(estimator) and all classes there will be."
            )
        sums = sums + _sums(plan, block)
    found = _solved(sums, plan, estimator.tol)
    _keep(estimator, plan, *found, seen, Monitor(estimator.tol, verbose=False))
    estimator._sums = (plan, sums, index + 1, seen, parameters(estimator))


@dataclass(frozen=True, eq=False)
class Seen:
    """The sample that a plan was made from, and labelled rows of it, `MOST_DRAWN` at most, with their own weights."""

    block: Block
    drawn: Block


def _plan(estimator: Any, look: Blocks, classes: Any) -> tuple[Plan, Seen]:
    """Return the plan for all blocks and the sample it was made from; the estimator learns its classes and columns."""
    check_sums(estimator.precision)
    invariances = as_invariances(estimator.invariance)
    if shape_of(estimator) is not None:
        raise ValueError("A shape that holds everywhere is proved with all rows in memory: use `fit` with arrays.")
    for one in invariances:
        if one.functional in ("laplacian", "local_average") or one.once:
            raise ValueError(
                f"The invariance {one.functional!r} looks at all points at once, and an approximation sees them in "
                'blocks: use "gradient", or a callable X -> functionals of single points, such as '
                "lambda X: rkhs.LocalDeviation(X, width=0.1)."
            )
    own, name = clone(estimator), type(estimator).__name__
    terms = BlockTerms(own, invariances)
    seen = look.reduce(sample, Wanted(estimator.approximation.sample_size, 0, terms.labelled, terms.describe))
    facts: Facts = seen.facts
    if is_classifier(estimator):
        found = np.unique(of_one_kind(as_column(list(facts.classes) if classes is None else classes)))
        weights = np.array([facts.classes[c] for c in found.tolist()])
        check_classes(found, weights, seen.totals[1], estimator.unlabeled, name)
        estimator.classes_ = own.classes_ = found
        if estimator.class_prior is not None or estimator.class_weight == "balanced":  # which are about all rows
            if classes is not None:
                raise ValueError(
                    'class_weight="balanced" and class_prior are not known before all rows are: give partial_fit a '
                    "dict as class_weight."
                )
            prior = estimator.class_weight, found, np.arange(len(found)), weights, estimator.class_prior
            own.class_weight = dict(zip(found.tolist(), class_weights(*prior).tolist(), strict=True))
        own.class_prior = None
    elif facts.labels == 0:
        raise ValueError(f"{name} needs points with a target; every y is unlabelled.")
    estimator.n_features_in_, estimator._kind = facts.width, ("numpy", "cpu")
    if facts.names is not None:
        estimator.feature_names_in_ = facts.names
    columns = getattr(estimator, "feature_names_in_", None)
    terms = replace(terms, invariances=resolve_columns(invariances, columns))
    block = seen.block()
    config = own._config(approximation=None, nu=0)
    if is_learnt(config):  # from labels of the sample, with all representers
        learnt = formulate(config, terms.rows(seen.smallest(MOST_LEARNT).of_kind(0)))
        kernel = learnt.problem.kernel
        if learnt.metric is not None:
            estimator.metric_ = learnt.metric
    else:
        kernel = as_kernel(own.kernel, own.scale, block.X)
    terms = terms.scaled(kernel, block, seen.totals)
    basis = Constant() if estimator.fit_intercept else None
    plan = planned(kernel, terms, terms(block), basis, estimator.approximation, estimator.device)
    return plan, Seen(block, seen.smallest(MOST_DRAWN).of_kind(0))


def _keep(
    estimator: Any, plan: Plan, problem: ProjectedProblem, found: ProjectedSolution, seen: Seen, monitor: Monitor
) -> None:
    """Leave what `fit` leaves."""
    solution = solution_of(problem, found, estimator.approximation, monitor)
    terms: Any = plan.terms
    estimator._keep(None, solution, terms.units.variance)
    estimator._held_out = HeldOutOfRows(type(estimator).__name__, estimator.loss)
    if problem.quadratic and len(seen.drawn.X):
        estimator._held_out = HeldOutOfSums(terms(seen.drawn)[0], solution)
    if is_classifier(estimator):
        labels = terms.rows(seen.block).take(terms.labelled(seen.block))
        estimator._calibration = InSample(solution.function, labels.X, labels.y, labels.weight)
