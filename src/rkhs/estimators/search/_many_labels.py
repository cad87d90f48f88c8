"""The choice of a kernel and of C for many labels: the evidence of a sample proposes, errors at held-out rows decide.

With more labels than leave-one-out errors can use, the best settings for a sample are not those for all rows: with more
rows f can be rougher, and needs other length scales.  So

1. the kernels that have the smallest leave-one-out errors on a sample, and kernels whose length scales, one for each
   feature, maximize the evidence of `SAMPLE` labels, are proposed.  L-BFGS starts with the evidence of `QUICK` of these
   labels, which costs a tenth and leads near the maximum;
2. each of them, with several C, learns from `FIRST` rows and predicts up to `HELD_OUT` others;
3. the `FINALISTS` with the smallest errors learn from up to `SECOND` rows, and the best of them is chosen.

The kernels of step 1 are smooth ones, and sums of these with a rough and a linear kernel: f = g + h + trend, where a
smooth g and a rough h depend on the features differently.  A sum starts from the length scales of its smooth part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from math import inf

import numpy as np

from rkhs._core.backend.arrays import Matrix, Vector, to_numpy
from rkhs._core.backend.memory import map_in_threads
from rkhs._core.finite.solution import CONVERGED
from rkhs._core.finite.term import Term
from rkhs._core.gram import gram
from rkhs._core.limits import limits
from rkhs._core.linalg.saddle import Saddle
from rkhs.estimators._formulation import WIDE_C_RANGE
from rkhs.estimators._length_scales import NormalizedKernels
from rkhs.estimators.search._search import Candidate, search
from rkhs.estimators.search._selection import SCALES, ScoringTargets, SelectionMonitor, Trial, linear_kernel
from rkhs.functionals import Evaluation
from rkhs.kernels import Gaussian, Kernel, Matern, Multiple, Sum, Tunable

# Numbers of rows, in units of `Limits.many_labels` (2,000).
SAMPLE = (0.2, 0.5)  # labels whose evidence is maximized: a fifth of all, within these limits
QUICK = 0.15  # labels whose evidence is maximized first
FIRST, SECOND, HELD_OUT = 1.0, 3.0, 5.0  # rows from which candidates learn, and rows that they predict
# Iterations of L-BFGS by `QUICK` labels, and by all of the sample.  Values with little noise, for which sums are best,
# need many; classes, which are no values with noise, do not.
PLAIN, SUMS = (60, 12), (0, 40)
LABELS_PER_SCALE = 3  # labels of the sample for each feature, so that the evidence determines its length scale
ENTRIES = 4e9  # differences of features between learned and held-out rows: seconds on one core for the Laplace kernel
FACTORS = ((1.0, 0.1), (0.01, 1e-3))  # on C: the evidence of a wrong kernel may underestimate the noise
SHARE = 0.05  # of a rough or linear kernel, with which the evidence of a sum starts
FINALISTS, NEAR = 3, 1.3  # candidates that learn again, with at most this multiple of the least squared error
SIMPLER = 1.02  # multiple of the least squared error up to which a single kernel is preferred, whose matrix costs less


def in_units(share: float) -> int:
    """Return a number of rows that is given in units of `Limits.many_labels`."""
    return round(share * limits().many_labels)


@dataclass(frozen=True, eq=False)
class HeldOutScorer:
    """Scores proposals by squared errors at held-out rows, after learning from some of the others."""

    X: Matrix  # (l, n) the labeled points
    targets: ScoringTargets  # of all labels
    kernels: NormalizedKernels
    order: Vector  # a random order of the labels: the first ones are learned, the last ones are held out
    device: str | None = None  # where large problems are solved

    def rows(self, share: float) -> tuple[Vector, Vector]:
        """Return the rows that are learned, at most a `share` of `Limits.many_labels`, and those that are held out."""
        most, first = in_units(share), in_units(FIRST)
        limit = int(np.clip(ENTRIES / (first * self.X.shape[1]), first, in_units(HELD_OUT)))
        held_out = min(limit, max(len(self.order) // 5, len(self.order) - most))
        return self.order[: min(most, len(self.order) - held_out)], self.order[-held_out:]

    def __call__(self, trial: Trial) -> list[Candidate]:
        """Return the best candidate of several C about that of a proposal, after learning from `FIRST` rows."""
        [C], (learned, held_out) = trial.Cs or [], self.rows(FIRST)
        kernel, subset, targets = self.kernels(trial.kernel, trial.scale), self.targets.take(learned), self.targets
        K, cross = kernel(self.X[learned]), gram(kernel, Evaluation(self.X[held_out]), Evaluation(self.X[learned]))
        found: list[Candidate] = []
        for factors in FACTORS:
            # (K + diag(1 / (2 C w))) a + c = y, 1'a = 0
            noises = [1 / (2 * C * factor * subset.weight) for factor in factors]
            solved = [Saddle(K, noise, np.ones((len(K), 1))).solve(subset.target) for noise in noises]
            values = to_numpy(cross @ np.hstack([a for a, _ in solved])).reshape(len(held_out), len(factors), -1)
            found += [
                targets.take(held_out).scored(trial, C * factor, values[:, k] + solved[k][1])
                for k, factor in enumerate(factors)
            ]
            if found[-1].loss > found[-2].loss:
                break
        return [min(found, key=lambda candidate: candidate.loss)]

    def again(self, candidate: Candidate) -> list[Candidate]:
        """Return a candidate after learning from `SECOND` rows."""
        learned, held_out = self.rows(SECOND)
        subset, trial, C = self.targets.take(learned), Trial.of(candidate), candidate.params["C"]
        problem = subset.problem(self.kernels(trial.kernel, trial.scale), self.X[learned], C, self.device)
        f = problem.solve(tol=1e-3, atol=settled(problem.terms[0], candidate.loss * subset.target.shape[1])).function
        values = to_numpy(f(self.X[held_out])).reshape(len(held_out), -1)
        return [self.targets.take(held_out).scored(trial, C, values)]


SETTLED = 2e-3  # duality gap of a large problem, relative to the losses of as many new rows


def settled(term: Term, loss: float) -> float:
    """Return the duality gap at which predictions no longer change, for an expected `loss` of each new row.

    By the squared loss, an f with the gap sum_i w_i r_i^2 minimizes J for targets that differ by r_i, which change its
    predictions by at most as much.  J itself is no measure, since f with little noise nearly interpolates the targets.
    """
    return SETTLED * loss * float(np.sum(to_numpy(term.weights())))


@dataclass(frozen=True, eq=False)
class EvidenceLearner:
    """Proposes kernels with length scales, one for each feature, that maximize the evidence of a sample of labels."""

    X: Matrix  # (l, n)
    targets: ScoringTargets
    kernels: NormalizedKernels

    def __call__(self, kernel: Kernel, C: float | None, iterations: tuple[int, int]) -> tuple[Trial, Kernel, float]:
        """Return the proposal for a kernel with open parameters; the kernel, whose search may go on; and its C.

        The search starts from C, if any, with iterations by `QUICK` and by all labels.
        """
        tuned = kernel
        for count, most in zip((in_units(QUICK), len(self.X)), iterations, strict=True):
            if most:
                problem = self.targets.take(np.arange(count)).tuned(kernel, self.X[:count], C, count, most)
                C, tuned = problem.tuning.parameters["terms[0].weight"], problem.kernel
                kernel = reopened(kernel, tuned)
        assert C is not None
        limit = 10.0 ** WIDE_C_RANGE[1]  # as in the search by leave-one-out errors: beyond it rounding would be fitted
        normalized = min(C * self.kernels.variance(tuned), limit)
        return Trial(self.kernels(tuned, 1.0), 1.0, SCALES, Cs=(normalized,)), kernel, C

    def proposals(self) -> Iterator[list[Trial]]:
        """Yield smooth kernels, then sums of these with a rough and a linear kernel."""
        scale = Tunable(each=True)
        plain = [Gaussian(scale=scale), *(Matern(nu, scale=scale) for nu in (0.5, 1.5, 2.5))]
        found = list(map_in_threads(lambda kernel: self(kernel, None, PLAIN), plain))
        yield [proposal for proposal, _, _ in found]

        def total(smooth: Kernel, C: float) -> tuple[Trial, Kernel, float]:
            others = Matern(0.5, scale=smooth.parameters()["scale"]), linear_kernel(self.X)
            iterations = PLAIN if self.targets.classes is not None else SUMS
            return self(Sum((smooth, *(Multiple(Tunable(start=SHARE), other) for other in others))), C, iterations)

        smoothest = (found[0], found[-1])
        yield [proposal for proposal, _, _ in map_in_threads(lambda one: total(*one[1:]), smoothest)]


def reopened(kernel: Kernel, tuned: Kernel) -> Kernel:
    """Return a kernel whose open parameters are open again, and start from those of the tuned kernel."""
    values = tuned.parameters()
    names = [name for name, value in kernel.parameters().items() if isinstance(value, Tunable)]
    return kernel.with_parameters(
        {name: Tunable(start=values[name], each=isinstance(values[name], tuple)) for name in names}
    )


def chosen(
    X: Matrix,
    targets: ScoringTargets,
    kernels: NormalizedKernels,
    found: Sequence[Candidate],
    device: str | None,
    monitor: SelectionMonitor,
) -> tuple[list[Candidate], ScoringTargets, str]:
    """Return the candidates that learned from the largest number of rows, their targets, and the status of the search.

    `found` are candidates by leave-one-out errors of a sample; the best one of each kind and kernel is proposed again.
    """
    order = np.random.default_rng(0).permutation(len(X))
    scorer = HeldOutScorer(X, targets, kernels, order, device)
    best: dict[tuple[str, str], Candidate] = {}
    for candidate in sorted(found, key=lambda candidate: candidate.loss):
        kernel = candidate.params["kernel"]
        best.setdefault((candidate.kind, kernel if isinstance(kernel, str) else ""), candidate)
    proposed = list(best.values())[:FINALISTS]
    sample = order[: int(np.clip(len(X) // 5, in_units(SAMPLE[0]), in_units(SAMPLE[1])))]
    learns = 1 < X.shape[1] <= len(sample) // LABELS_PER_SCALE
    monitor.kernels = len(monitor.history) + len(proposed) + (6 if learns else 0) + FINALISTS

    def batches(_: list[Candidate]) -> Iterator[Sequence[Trial]]:
        yield [Trial.of(candidate) for candidate in proposed]
        if learns:
            yield from EvidenceLearner(X[sample], targets.take(sample), kernels).proposals()

    first, status = search(batches, scorer, monitor)
    of_first = targets.take(scorer.rows(FIRST)[1])
    if status != CONVERGED or len(scorer.rows(SECOND)[0]) <= in_units(FIRST):
        return first, of_first, status
    best_of_all = nsmallest(FINALISTS, first, key=lambda c: c.loss)
    near = [candidate for candidate in best_of_all if candidate.loss <= NEAR * best_of_all[0].loss]
    if len(near) == 1:
        return near, of_first, status
    found, status = search(near, scorer.again, monitor)
    if not found:  # no time was left for any of them
        return first, of_first, status
    least = min((one.loss for one in found if not is_sum(one)), default=inf)
    if least <= SIMPLER * min(one.loss for one in found):
        found = [one for one in found if one.loss >= least]
    return found, targets.take(scorer.rows(SECOND)[1]), status


def is_sum(candidate: Candidate) -> bool:
    """Return whether entries of the matrix of a candidate take several kernels."""
    kernel = candidate.params["kernel"]
    return isinstance(kernel, Kernel) and len(kernel.summands()) > 1
