"""The terms of one block of rows, and what the means of all blocks need to know."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from rkhs._backend.arrays import Vector, owned
from rkhs._finite.summary import Summary
from rkhs._finite.term import Term
from rkhs.errors import BlockError
from rkhs.estimators._data import Sample, checked_unlabelled
from rkhs.estimators._options import check_number
from rkhs.estimators._problem import Units, about, copies, invariance_term, size_of
from rkhs.invariances.base import Invariance
from rkhs.kernels import Kernel
from rkhs.streams.blocks import Block
from rkhs.streams.plan import Plan


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
    units: Any = None  # Units
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
        return [self.units.data(self.machine._label_term(rows, self.machine.C)), *others]

    @property
    def _known(self) -> tuple[Invariance, ...]:
        """The invariances that count."""
        return self.invariances if self.nu > 0 else ()

    @property
    def nu(self) -> float:
        return check_number(self.machine.nu, "nu", or_zero=True)

    def _term(self, one: Invariance, rows: Sample, size: float) -> Term:
        """At the rows that an invariance is about; the same kind of functionals, none of them, where there are none."""
        points = about(one, rows)
        some = points if points.size else rows.take(np.arange(1))  # of another kind, to see the functionals
        share = float(points.weight.sum()) / self.total.about(one)
        own = self.machine.invariance_loss, self.machine.epsilon
        term = invariance_term(one, some, self.units, self.nu, *own, size, share)
        return term if points.size else Term(term.functional.take([]), term.loss, target=one.target)

    def told(self, kernel: Kernel, sampled: Block, total: Weight) -> BlockTerms:
        """The same with the units of a kernel and a sample."""
        rows = self.rows(sampled)
        units = Units.of(kernel, rows)
        return replace(self, units=units, sizes=tuple(self._sizes(rows, units)), total=total)

    def _sizes(self, rows: Sample, units: Units) -> Iterator[float]:
        for one in self._known:
            points = about(one, rows)
            points = points if points.size else rows.take(np.arange(1))
            functionals = one(points.X)
            yield size_of(one, functionals, units, copies(functionals, points.weight))

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

    summary: Summary
    weight: Weight

    def __add__(self, other: Weighed) -> Weighed:
        return Weighed(self.summary + other.summary, self.weight + other.weight)

    def means(self, terms: BlockTerms) -> Summary:
        """The sums, those of invariances divided by what they were not known to be the sums of."""
        return self.summary.times(terms.factors(self.weight))


def weighed(plan: Plan, block: Block, _: Any = None) -> Weighed:
    """The sums of a block."""
    terms: Any = plan.terms
    return Weighed(plan.summary(block), terms.weight(block))
