"""A length scale for each feature, learnt by evidence, where that predicts labels it has not seen.

Evidence with a prior that draws the logarithms of scales to their mean finds which features matter (theory, section 9).
It has seen all labels, so that leave-one-out errors flatter it.  It is judged by labels that it has not seen: those of
each of three folds, by scales learnt from the two others, compared label by label with the best candidate that has no
learnt scales.  Scales are taken where the mean squared error falls by a standard error (`judging.falls`).

The search begins at the best common scale and its C.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._backend.arrays import Vector
from rkhs._calculus.polynomials import Constant
from rkhs._finite.term import Term
from rkhs.estimators.choosing.judging import SCALES, Candidate, Labelled, falls, left_out, without_group
from rkhs.functionals import Evaluation
from rkhs.kernels import learn
from rkhs.losses import Squared
from rkhs.problem import Problem

FOLDS = 3
FEWEST = 30  # labels from which scales are learnt
ITERATIONS = (30, 100)  # of the search for them: of classes, and of values, which may have no noise
MOST = 600  # labels from which they are learnt, if there are more
ENTRIES = 5e7  # features times squared labels: derivatives of so many entries take about half a second of one core
PRIOR = 1.0  # standard deviation of the logarithms of scales

KernelOf = Callable[[Any, Any], Any]  # from a name and a scale to a kernel


@dataclass(frozen=True, eq=False)
class Metrics:
    """Learns scales from labels at points X (l, n), which are all labelled, for kernels without a fixed scale."""

    X: Vector
    labelled: Labelled
    kernel_of: KernelOf
    Cs: Sequence[float]
    intercept: bool

    def candidate(self, first: Candidate, base: Candidate) -> Candidate | None:
        """A kernel with learnt scales, with its error on labels that the scales have not seen.

        The search begins at `first`.  None where the errors of `base` do not fall.
        """
        kernel, everything = first.kernel, np.arange(len(self.X))
        scale = self.learnt(first, everything)
        if scale is None:
            return None
        C, values = self._best(kernel, scale, everything)
        without = self._without(base.kernel, base.scale, base.C)
        if not self.falls(without, values):  # not even where they have seen the labels
            return None
        found = without.copy()
        for group, rest in self.folds():
            own = self.learnt(first, rest)
            if own is None:
                return None
            found[group] = self._group(kernel, own, self._best(kernel, own, rest)[0], group)
            if self.labelled.loss(found) > self.labelled.loss(without):  # worse so far
                return None
        if not self.falls(without, found):
            return None
        return Candidate.of(self.labelled, found, SCALES, kernel, scale, None, 0.0, C)

    def learnt(self, first: Candidate, rows: Vector) -> tuple[float, ...] | None:
        """The scales that make the labels of some rows most likely; None where these say nothing."""
        some, X = self.labelled.take(rows), self.X[rows]
        if len(np.unique(X, axis=0)) < 2:
            return None
        spread = X.std(axis=0)
        spread = np.where(spread > 0, spread, 1.0)
        start = float(np.exp(np.mean(np.log(np.asarray(first.scale) / spread))))
        kernel = self.kernel_of(first.kernel, learn(start=start, each=True))
        weight = learn(start=first.C) * some.weight
        term = Term(Evaluation(X / spread), Squared(), some.target, weight=weight)
        problem = Problem(kernel, [term], Constant() if self.intercept else None)
        iterations = ITERATIONS[self.labelled.classes is None]
        most = min(MOST, max(FEWEST, int((ENTRIES / X.shape[1]) ** 0.5)))
        tuned: Any = problem.tune(starts=1, prior=PRIOR, functionals=most, iterations=iterations, verbose=False)
        return tuple((spread * tuned.kernel.scale).tolist()) if np.isfinite(tuned.tuning.value) else None

    def falls(self, before: Vector, after: Vector) -> bool:
        """Whether errors fall by more than chance."""
        own = self.labelled
        return falls(own.squares(before), own.squares(after), own.weight)

    def folds(self) -> Iterator[tuple[Vector, Vector]]:
        """The labels of each fold, and the others; the same whatever the order and the units of the points are."""
        order = np.lexsort(self.X.T)
        classes = np.zeros(len(order), int) if self.labelled.classes is None else self.labelled.classes[order]
        shuffled = np.random.default_rng(0).permutation(len(order))
        shuffled = shuffled[np.argsort(classes[shuffled], kind="stable")]  # so that each fold has its share of a class
        place = np.empty(len(order), int)
        place[order[shuffled]] = np.arange(len(order)) % FOLDS
        for k in range(FOLDS):
            yield np.flatnonzero(place == k), np.flatnonzero(place != k)

    def _best(self, kernel: Any, scale: Any, rows: Vector) -> tuple[float, Vector]:
        """The C of the least leave-one-out error of some rows, and what it predicts for each."""
        some = self.labelled.take(rows)
        K = self.kernel_of(kernel, scale)(self.X[rows])
        found = list(left_out(K, some.target, some.weight, self.Cs, self.intercept))
        best = int(np.argmin([some.loss(values) for values in found]))
        return self.Cs[best], found[best]

    def _group(self, kernel: Any, scale: Any, C: float, group: Vector) -> Vector:
        K = self.kernel_of(kernel, scale)(self.X)
        return without_group(K, self.labelled, C, self.intercept, group)

    def _without(self, kernel: Any, scale: Any, C: float) -> Vector:
        """What fixed settings predict for each fold."""
        found = np.zeros_like(self.labelled.target)
        for group, _ in self.folds():
            found[group] = self._group(kernel, scale, C, group)
        return found
