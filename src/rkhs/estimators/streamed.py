"""The terms of one block of rows, and what the means of all blocks need to know.

Invariant machines with an approximation: rows in blocks, from memory, files, iterators or a cluster.

look     one pass: a sample of the rows, the classes and their weights
choose   the kernel's scale and the functions of the span, from the sample
sum up   one pass: the moments of all terms
solve    p unknowns
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from copy import deepcopy
from dataclasses import dataclass, replace
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


@dataclass(frozen=True)
class Weight:
    """The weight of rows with a label and of those without one."""

    labelled: float = 0.0
    others: float = 0.0

    def __add__(self, more: Weight) -> Weight:
        return Weight(self.labelled + more.labelled, self.others + more.others)

    def about(self, one: Invariance) -> float:
        """That of the rows that an invariance is about; 1 where there are none yet."""
        kinds = {"labelled": self.labelled, "unlabelled": self.others, "all": self.labelled + self.others}
        return kinds[one.on] or 1.0


@dataclass(frozen=True, eq=False)
class BlockTerms:
    """block -> terms: the labels first, then one for each invariance, whether or not the block has rows for it.

    What their weights are in the units of is known once a sample is: `units`, the `sizes` of invariances, and the
    weight of all rows.
    """

    machine: Any  # an unfitted clone, with `classes_` if it is a classifier
    invariances: tuple[Invariance, ...]
    units: Any = None  # WeightNormalisation
    sizes: tuple[float, ...] = ()
    total: Weight = Weight()

    def labelled(self, block: Block) -> Vector:
        """Which rows have a label."""
        if block.y is None:
            return np.zeros(len(block.X), dtype=bool)
        try:
            return ~checked_unlabelled(block.y, self.machine.unlabeled)
        except ValueError as error:
            raise BlockError(block.index, f"cannot be used: {error}") from error

    def rows(self, block: Block) -> Sample:
        """The rows as estimators see them; y is the index of the class, or the target."""
        labelled = self.labelled(block)
        y = np.zeros(len(labelled)) if block.y is None else block.y
        if is_classifier(self.machine):
            y = self._codes(block, y, labelled)
        else:
            y = np.where(labelled, y, 0).astype(np.float64)
        weight = np.ones(len(y)) if block.weight is None else block.weight
        X = owned(block.X)  # one copy, which the functionals of all terms share
        return Sample(X, weight, y, labelled, np.zeros((len(y), 0)), np.ones(len(y), dtype=np.int64))

    def __call__(self, block: Block) -> list[Term]:
        rows = self.rows(block)
        others = [self._term(one, rows, size) for one, size in zip(self._known, self.sizes, strict=True)]
        return [self.units.observed(self.machine._config().label_term(rows)), *others]

    @property
    def _known(self) -> tuple[Invariance, ...]:
        """The invariances that count."""
        return self.invariances if self.nu > 0 else ()

    @property
    def nu(self) -> float:
        return check_number(self.machine.nu, "nu", or_zero=True)

    def _term(self, one: Invariance, rows: Sample, size: float) -> Term:
        """At the rows that an invariance is about; the same kind of functionals, none of them, where there are none."""
        points = points_of(one, rows)
        some = points if points.size else rows.take(np.arange(1))  # of another kind, to see the functionals
        share = float(points.weight.sum()) / self.total.about(one)
        term = invariance_term(one, some, self.units, self.machine._config(), size, share)
        return term if points.size else Term(term.functional.take([]), term.loss, target=one.target)

    def told(self, kernel: Kernel, sampled: Block, total: Weight) -> BlockTerms:
        """The same with the units of a kernel and a sample."""
        rows = self.rows(sampled)
        units = WeightNormalisation.of(kernel, rows)
        return replace(self, units=units, sizes=tuple(self._sizes(rows, units)), total=total)

    def _sizes(self, rows: Sample, units: WeightNormalisation) -> Iterator[float]:
        for one in self._known:
            points = points_of(one, rows)
            points = points if points.size else rows.take(np.arange(1))
            functionals = one(points.X)
            yield size_of(one, functionals, units, multiplicity(functionals, points.weight))

    def weight(self, block: Block) -> Weight:
        """That of the rows of a block."""
        weight = np.ones(len(block.X)) if block.weight is None else block.weight
        labelled = self.labelled(block)
        return Weight(float(weight[labelled].sum()), float(weight[~labelled].sum()))

    def factors(self, total: Weight) -> list[float]:
        """On the weights of all terms, once there are more rows: those of invariances are about means."""
        return [1.0, *(self.total.about(one) / total.about(one) for one in self._known)]

    def _codes(self, block: Block, y: Vector, labelled: Vector) -> Vector:
        """The index of each row's class, 0 for no label."""
        classes = self.machine.classes_
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


@dataclass(frozen=True, eq=False)
class Weighed:
    """The sums of some blocks, and the weight of their rows."""

    features: FeatureBlocks
    weight: Weight

    def __add__(self, other: Weighed) -> Weighed:
        return Weighed(self.features + other.features, self.weight + other.weight)

    def means(self, terms: BlockTerms) -> FeatureBlocks:
        """The sums, those of invariances divided by what they were not known to be the sums of."""
        return self.features.times(terms.factors(self.weight))


def weighed(plan: Plan, block: Block, _: Any = None) -> Weighed:
    """The sums of a block."""
    terms: Any = plan.terms
    return Weighed(plan.features(block), terms.weight(block))


MOST_LEARNT = 4000  # labels from which scales and metrics are learnt
MOST_DRAWN = 1000  # labels that are left out, one by one, of the sums of all rows
WHOLE = ("laplacian", "local_average")  # invariances that look at all points at once


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
class _Describe:
    terms: BlockTerms

    def __call__(self, block: Block) -> Facts:
        labelled = self.terms.labelled(block)
        classes: Counter[Any] = Counter()
        if is_classifier(self.terms.machine) and block.y is not None:
            weight = np.ones(len(labelled)) if block.weight is None else block.weight
            values, places = np.unique(_of_one_kind(block, block.y[labelled]), return_inverse=True)
            sums = np.bincount(places.reshape(-1), weights=weight[labelled], minlength=len(values))
            classes = Counter({value: float(total) for value, total in zip(values.tolist(), sums, strict=True)})
        return Facts(classes, int(labelled.sum()), int(block.X.shape[1]), block.names)


def _of_one_kind(block: Block, classes: Vector) -> Vector:
    """Classes of a block, all of them text or numbers."""
    try:
        return of_one_kind(classes)
    except ValueError as error:
        raise BlockError(block.index, f"cannot be used: {error}") from error


@dataclass(eq=False)
class InSample:
    """Probabilities by a sigmoid fitted to the values at a sample of the labelled rows, which f has seen."""

    function: Any
    X: Vector
    codes: Vector
    weight: Vector

    def probabilities(self, values: Vector) -> Vector:
        """(t, classes) from decision values (t,) or (t, classes)."""
        return probabilities(self.slope, values)

    @cached_property
    def slope(self) -> float:
        """s."""
        return fitted_slope(per_class(to_numpy(self.function(self.X))), self.codes, self.weight)


def fit_blocks(machine: Any, X: Any, y: Any, sample_weight: Any) -> None:
    """Fit a machine that has an approximation."""
    look, learn = replayed(_stream(machine, X, y, sample_weight))
    with closing(Monitor(machine.tol, verbose=machine.verbose or None)) as monitor:
        with monitor.showing(CHOICE):
            plan, seen = _plan(machine, telling(look, monitor, LOOKING), None)
        if learn.replays:
            found = solve_stream(learn, plan, monitor)
        else:  # then how many rows there are is known when it ends
            found = _solved(telling(learn, monitor, SUMMING).reduce(weighed, plan), plan, machine.tol)
        _keep(machine, plan, *found, seen, monitor)
    machine._sums = None
    if machine.solution_.source is None and not in_blocks(X):
        function = machine.function_
        kernel = function.features.kernel if hasattr(function, "features") else function.kernel
        unfitted = clone(machine).set_params(kernel=kernel, scale="median")  # of no meaning beside such a kernel
        rows = deepcopy((X, y, sample_weight))  # which the caller may change before they are asked for
        machine._held_out = replace(machine._held_out, unfitted=unfitted, rows=rows)


def approximated(machine: Any) -> bool:
    """Whether a machine has `partial_fit`."""
    if machine.approximation is None:
        raise AttributeError(
            f"{type(machine).__name__}.partial_fit needs an approximation, such as rkhs.Landmarks(500), whose sums "
            "grow with each block: without one all points are needed at once."
        )
    return True


def fit_more(machine: Any, X: Any, y: Any, sample_weight: Any, classes: Any) -> None:
    """Add a block to what the machine has seen."""
    check_in_span(machine.approximation, machine.solver)
    before = getattr(machine, "_sums", None)
    if before is None and hasattr(machine, "solution_"):
        warn(
            f"{type(machine).__name__}.partial_fit starts anew: fit has kept no sums to add to, and its rows are "
            "forgotten. Give all rows to partial_fit, from the first on."
        )
    index = 0 if before is None else before[2]
    block = Block.of(index, X, y, sample_weight, columns=machine, first=before is None)
    if not len(block.X):
        return
    if before is None:
        look = blocks(block.X, block.y, block.weight, rows=len(block.X))
        plan, seen = _plan(machine, look, classes)
        sums = weighed(plan, block)
    else:
        plan, sums, _, seen, given = before
        check_unchanged(machine, given)
        _check_same_classes(machine, classes)
        sums = sums + weighed(plan, block)
    _keep(machine, plan, *_solved(sums, plan, machine.tol), seen, Monitor(machine.tol, verbose=False))
    machine._sums = (plan, sums, index + 1, seen, parameters(machine))


def _solved(sums: Weighed, plan: Plan, tol: float) -> tuple[ProjectedProblem, ProjectedSolution]:
    """From the sums of rows that are not read again."""
    terms: Any = plan.terms
    problem = ProjectedProblem(sums.means(terms))
    return problem, problem.solve(tol)


def _check_same_classes(machine: Any, classes: Any) -> None:
    if classes is not None and not np.array_equal(np.unique(classes), machine.classes_):
        raise ValueError(
            f"classes={classes!r} are not those of the first partial_fit, {machine.classes_.tolist()}: start with "
            "sklearn.base.clone(machine) and all classes there will be."
        )


def _stream(machine: Any, X: Any, y: Any, sample_weight: Any) -> Blocks:
    """The rows as blocks; arrays are checked as scikit-learn does it, and their columns are kept."""
    check_in_span(machine.approximation, machine.solver)
    if in_blocks(X):
        if isinstance(X, Blocks) and (y is not None or sample_weight is not None):
            raise ValueError("Blocks bring y and weights themselves: call fit(blocks).")
        vars(machine).pop("feature_names_in_", None)  # of an earlier fit
        return blocks(X, y, sample_weight)
    points, _, _, _ = machine._validated(X, y, own=False)
    if is_torch_array(points):
        raise TypeError(
            "An approximation takes NumPy arrays, data frames, or blocks of them: pass X.numpy(force=True)."
        )
    y = column_or_1d(as_column(as_numpy(y)))
    return blocks(points, y, None if sample_weight is None else as_weights(sample_weight, points))


@dataclass(frozen=True, eq=False)
class Seen:
    """The sample that a plan was made from, and labelled rows of it, `MOST_DRAWN` at most, with their own weights."""

    block: Block
    drawn: Block


def _plan(machine: Any, look: Blocks, classes: Any) -> tuple[Plan, Seen]:
    """The plan for all blocks, and the sample it was made from; the machine learns its classes and columns."""
    check_sums(machine.precision)
    invariances = as_invariances(machine.invariance)
    if shape_of(machine) is not None:
        raise ValueError("A shape that holds everywhere is proved with all rows in memory: use `fit` with arrays.")
    for one in invariances:
        if one.functional in WHOLE or one.once:
            raise ValueError(
                f"The invariance {one.functional!r} looks at all points at once, and an approximation sees them in "
                'blocks: use "gradient", or a callable X -> functionals of single points, such as '
                "lambda X: rkhs.LocalDeviation(X, width=0.1)."
            )
    own = clone(machine)
    terms = BlockTerms(own, invariances)
    wanted = Wanted(machine.approximation.sample_size, 0, terms.labelled, _Describe(terms))
    seen = look.reduce(sample, wanted)
    facts: Facts = seen.facts
    name = type(machine).__name__
    if is_classifier(machine):
        found = np.unique(of_one_kind(as_column(list(facts.classes) if classes is None else classes)))
        weights = np.array([facts.classes[c] for c in found.tolist()])
        check_classes(found, weights, seen.kinds[1].total, machine.unlabeled, name)
        machine.classes_ = own.classes_ = found
        own.class_weight, own.class_prior = _class_weight(machine, found, facts, classes), None
    elif facts.labels == 0:
        raise ValueError(f"{name} needs points with a target; every y is unlabelled.")
    machine.n_features_in_, machine._kind = facts.width, ("numpy", "cpu")
    if facts.names is not None:
        machine.feature_names_in_ = facts.names
    terms = replace(terms, invariances=resolve_columns(invariances, getattr(machine, "feature_names_in_", None)))
    block, (labels, others) = seen.block(), seen.kinds
    kernel = _kernel(machine, terms, block, labels.smallest(MOST_LEARNT).block())
    terms = terms.told(kernel, block, Weight(labels.total, others.total))
    basis = Constant() if machine.fit_intercept else None
    plan = planned(kernel, terms, terms(block), basis, machine.approximation, machine.device)
    return plan, Seen(block, labels.smallest(MOST_DRAWN).block())


def _kernel(machine: Any, terms: BlockTerms, sampled: Block, labels: Block) -> Kernel:
    """The kernel; where it is asked for, scale and metric are learnt from labels of a sample, with all representers."""
    own = terms.machine
    config = own._config(approximation=None, nu=0)
    if not is_learnt(config):
        return as_kernel(own.kernel, own.scale, sampled.X)
    found = formulate(config, terms.rows(labels))
    if found.metric is not None:
        machine.metric_ = found.metric
    return found.problem.kernel


def _class_weight(machine: Any, classes: Vector, facts: Facts, given: Any) -> Any:
    """ "balanced" and proportions are about all rows, not about those of a block."""
    if machine.class_prior is None and machine.class_weight != "balanced":
        return machine.class_weight
    if given is not None:
        raise ValueError(
            'class_weight="balanced" and class_prior are not known before all rows are: give partial_fit a dict as '
            "class_weight."
        )
    totals = np.array([facts.classes[c] for c in classes.tolist()])
    factors = class_weights(machine.class_weight, classes, np.arange(len(classes)), totals, machine.class_prior)
    return dict(zip(classes.tolist(), factors.tolist(), strict=True))


def _keep(
    machine: Any, plan: Plan, problem: ProjectedProblem, found: ProjectedSolution, seen: Seen, monitor: Monitor
) -> None:
    """Leave what `fit` leaves."""
    solution = solution_of(problem, found, machine.approximation, monitor)
    terms: Any = plan.terms
    machine._keep(None, solution, terms.units.variance)
    machine._held_out = HeldOutOfRows(type(machine).__name__, machine.loss)
    if problem.quadratic and len(seen.drawn.X):
        machine._held_out = HeldOutOfSums(terms(seen.drawn)[0], solution)
    if is_classifier(machine):
        labels = terms.rows(seen.block).take(terms.labelled(seen.block))
        machine._calibration = InSample(solution.function, labels.X, labels.y, labels.weight)
