"""The choice of a kernel and of C for many labels: the evidence of a sample proposes, errors at held-out rows decide.

With more labels than leave-one-out errors can use, the best settings for a sample are not those for all rows: with more
rows f can be rougher, and needs other length scales.  So

1. the kernels that have the smallest leave-one-out errors on a sample, and kernels whose length scales, one for each
   feature, maximize the evidence of `SAMPLE` labels, are proposed;
2. each of them, with several C, learns from `FIRST` rows and predicts up to `HELD_OUT` others;
3. the `FINALISTS` with the smallest errors learn from up to `SECOND` rows, and the best of them is chosen.

The kernels of step 1 are smooth ones, and sums of these with a rough and a linear kernel: f = g + h + trend, where a
smooth g and a rough h depend on the features differently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from math import inf

import numpy as np
import scipy.linalg

from rkhs._core.backend.arrays import Matrix, Vector, to_numpy
from rkhs._core.backend.memory import map_in_threads
from rkhs._core.finite.monitor import Monitor, slowness
from rkhs._core.finite.problem import FiniteProblem
from rkhs._core.finite.solution import CONVERGED, Record
from rkhs._core.finite.sums import KEPT_BYTES
from rkhs._core.finite.term import Term
from rkhs._core.gram import gram
from rkhs._core.limits import limits
from rkhs._core.problem import Problem
from rkhs._core.progress import now, seconds_left
from rkhs.estimators._formulation import WIDE_C_RANGE
from rkhs.estimators._length_scales import NormalizedKernels
from rkhs.estimators._maps import DIMENSIONS, can_map
from rkhs.estimators.search._families import linear_kernel
from rkhs.estimators.search._scorers import ScoringTargets
from rkhs.estimators.search._search import Choice, Outcome, Trial, choose, paired_test, row_losses
from rkhs.exceptions import warn
from rkhs.functionals import Evaluation
from rkhs.kernels import Gaussian, Kernel, Matern, Multiple, Sum, Tunable
from rkhs.losses import Squared
from rkhs.solvers._base import Estimate
from rkhs.spaces import Landmarks

# Numbers of rows, in units of `Limits.many_labels` (2,000).
SAMPLE = (0.2, 0.5)  # labels whose evidence is maximized: a fifth of all, within these limits
FIRST, SECOND, HELD_OUT = 1.0, 2.0, 2.0  # rows from which candidates learn, and rows that they predict
LABELS_PER_SCALE = 3  # labels of the sample for each feature, so that the evidence determines its length scale
FACTORS = (1.0, 0.1, 0.01, 1e-3)  # on C: the evidence of a wrong kernel may underestimate the noise
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
        most, count = in_units(share), len(self.order)
        held_out = min(in_units(HELD_OUT), max(count // 5, count - most))
        return self.order[: min(most, count - held_out)], self.order[-held_out:]

    def __call__(self, trial: Trial) -> list[Outcome]:
        """Return the best outcome of several C about that of a proposal, after learning from `FIRST` rows."""
        [C], (learned, held_out) = trial.Cs or [], self.rows(FIRST)
        kernel, subset, targets = self.kernels(trial.kernel, trial.scale), self.targets.take(learned), self.targets
        K, right = kernel(self.X[learned]), np.column_stack([subset.target, np.ones(len(learned))])
        cross = gram(kernel, Evaluation(self.X[held_out]), Evaluation(self.X[learned])).dense()
        found: list[Outcome] = []
        for factor in FACTORS:
            # (K + diag(1 / (2 C w))) a + c = y, 1'a = 0
            solved = scipy.linalg.solve(K + np.diag(1 / (2 * C * factor * subset.weight)), right, assume_a="pos")
            c = solved[:, :-1].sum(axis=0) / solved[:, -1].sum()
            values = cross @ (solved[:, :-1] - solved[:, -1:] * c) + c
            found.append(targets.take(held_out).scored(trial, C * factor, values))
            if found[-1].loss > found[max(len(found) - 2, 0)].loss:
                break
        return [min(found, key=lambda one: one.loss)]

    def again(self, outcome: Outcome) -> list[Outcome]:
        """Return an outcome after learning from `SECOND` rows."""
        learned, held_out = self.rows(SECOND)
        subset, trial, C = self.targets.take(learned), Trial.of(outcome), outcome.params["C"]
        problem = subset.problem(self.kernels(trial.kernel, trial.scale), self.X[learned], C, self.device)
        f = problem.solve(tol=1e-3, atol=settled(problem.terms[0], outcome.loss * subset.target.shape[1])).function
        values = to_numpy(f(self.X[held_out])).reshape(len(held_out), -1)
        return [self.targets.take(held_out).scored(trial, C, values)]


# Landmarks, and rows that are learned and held out for their number, in units of `Limits.landmarks`.
MOST_COUNT, LANDMARK_ROWS, LANDMARK_HELD_OUT = 3, 20, 2
PRODUCTS = 200  # Gram products for an output whose loss is not squared; 100 to 400 were measured
MOST_ON_DEVICE = 100_000  # labels up to which an accelerator learns without an approximation
LEAST_FALL = 0.01  # a smaller fall of the error is not worth the time
MAPS_INSTALLED = " Functions of up to three features are learned more accurately with pip install 'rkhs[maps]'."
SETTLED = 2e-3  # duality gap of a large problem, relative to the losses of as many new rows


def settled(term: Term, loss: float) -> float:
    """Return the duality gap at which predictions no longer change, for an expected `loss` of each new row.

    By the squared loss, an f with the gap sum_i w_i r_i^2 minimizes J for targets that differ by r_i, which change its
    predictions by at most as much.  J itself is no measure, since f with little noise nearly interpolates the targets.
    """
    return SETTLED * loss * float(np.sum(to_numpy(term.weights())))


def learned_kernels(X: Matrix, targets: ScoringTargets, kernels: NormalizedKernels) -> list[Trial]:
    """Return kernels with a length scale for each feature that maximize the evidence of a sample of labels at X (l, n).

    They are smooth ones, and sums of these with a rough and a linear kernel.
    """
    scale = Tunable(each=True)
    plain = [Gaussian(scale=scale), *(Matern(nu, scale=scale) for nu in (0.5, 1.5, 2.5))]
    others = [Multiple(Tunable(start=SHARE), other) for other in (Matern(0.5, scale=scale), linear_kernel(X))]

    def learned(kernel: Kernel) -> Trial:
        problem = targets.tuned(kernel, X, None, len(X))
        C = problem.tuning.parameters["terms[0].weight"] * kernels.variance(problem.kernel)
        # as in the search by leave-one-out errors: beyond the limit rounding would be fitted
        return Trial(kernels(problem.kernel, 1.0), kind="scales", Cs=(min(C, 10.0 ** WIDE_C_RANGE[1]),))

    return list(map_in_threads(learned, [*plain, *(Sum((smooth, *others)) for smooth in (plain[0], plain[-1]))]))


def chosen(scorer: HeldOutScorer, found: Sequence[Outcome], monitor: SelectionMonitor) -> tuple[Choice, ScoringTargets]:
    """Return the choice among outcomes of learning from the largest number of rows, and their targets.

    `found` are outcomes by leaving out labels of a sample; the best one of each kind and kernel is proposed again.
    """
    X, targets = scorer.X, scorer.targets
    best: dict[tuple[str, str], Outcome] = {}
    for one in sorted(found, key=lambda one: one.loss):
        kernel = one.params["kernel"]
        best.setdefault((one.kind, kernel if isinstance(kernel, str) else ""), one)
    proposed = [Trial.of(one) for one in list(best.values())[:FINALISTS]]
    sample = scorer.order[: int(np.clip(len(X) // 5, in_units(SAMPLE[0]), in_units(SAMPLE[1])))]
    learns = 1 < X.shape[1] <= len(sample) // LABELS_PER_SCALE
    families = [
        lambda scorer, found: [proposed],
        *([lambda *_: [learned_kernels(X[sample], targets.take(sample), scorer.kernels)]] if learns else []),
    ]
    first = choose(families, scorer, monitor=monitor)
    of_first = targets.take(scorer.rows(FIRST)[1])
    if first.status != CONVERGED or len(scorer.rows(SECOND)[0]) <= in_units(FIRST):
        return first, of_first
    finalists = nsmallest(FINALISTS, first.found, key=lambda one: one.loss)
    near = [one for one in finalists if one.loss <= NEAR * finalists[0].loss]
    if len(near) == 1:
        return Choice(near), of_first
    second = choose([lambda scorer, found: ([one] for one in near)], scorer.again, simpler, monitor)
    if not second.found:  # no time was left for any of them
        return replace(first, status=second.status), of_first
    return second, targets.take(scorer.rows(SECOND)[1])


def simpler(found: Sequence[Outcome]) -> Outcome:
    """Return the outcome with the smallest error, or a single kernel whose error is nearly as small."""

    def cost(one: Outcome) -> float:
        kernel = one.params["kernel"]
        return one.loss * (SIMPLER if isinstance(kernel, Kernel) and len(kernel.summands()) > 1 else 1.0)

    return min(found, key=cost)


class SelectionMonitor(Monitor):
    """Progress of a selection: the number of scored kernels and the smallest error."""

    def line(self, record: Record) -> str:
        return f"choosing: {record.iteration} kernels, {record.seconds:.0f} s, least squared error {record.primal:.4g}"


def affordable_problem(problem: Problem, name: str, values: bool, verbose: bool) -> Problem:
    """Return the problem, with landmarks and a warning if there are too many labels or too little time.

    This is where the automatic search decides between an exact fit and landmarks; Fourier grids of maps are chosen
    before it, by evidence.  The first term has the labels, which are `values` or classes.
    """
    labels = problem.terms[0].size
    few = labels <= limits().exact_labels
    if not few and iterates_exactly(problem.system):
        return problem
    if few and (seconds_left() == inf or labels**3 / (3 * _speed()) < seconds_left()):
        return problem
    count = landmark_count(problem, verbose)
    if count >= labels:
        return problem
    plane = values and problem.terms[0].functional.dimension <= DIMENSIONS
    many = f"more than {limits().exact_labels} labels, for which an exact fit takes too much memory or time"
    reason = "the time limit" if few else many
    warn(
        f"{name} approximates f by {count} landmarks for {labels} labels, because of {reason}. Pass "
        "approximation=rkhs.Landmarks(p) for another number, or a solver for no approximation."
        + (MAPS_INSTALLED if plane and not can_map(1) else "")
    )
    return replace(problem, approximation=Landmarks(count))


def iterates_exactly(system: FiniteProblem) -> bool:
    """Return whether an iterative solver solves a large problem in time, with the Gram matrix in memory or on a device.

    About 100 iterations are expected for squared losses, and `PRODUCTS` of each output for others.
    """
    if not isinstance(system.Q, np.ndarray):
        return system.size <= MOST_ON_DEVICE
    products = 100 if system.quadratic else PRODUCTS * system.columns
    estimate = Estimate(system, products)
    most = inf if system.quadratic else limits().exact_seconds
    return estimate.storing is not None and slowness() * estimate.iterating(estimate.step()) < min(seconds_left(), most)


def landmark_count(problem: Problem, verbose: bool = False) -> int:
    """Return the number of landmarks for a problem whose first term has the labels.

    It is what a minute affords, or memory if the rows have to be stored.  With a time limit it is the number that the
    remaining time affords, without a comparison.
    """
    term = problem.terms[0]
    most = int((limits().landmark_work / term.size) ** 0.5)
    if not term.loss.quadratic:
        most = min(most, KEPT_BYTES // (8 * term.size) - int(problem.system.Q.shape[1]))  # rows contain the basis
    first = limits().landmarks
    most = min(max(most, 50), MOST_COUNT * first)
    if seconds_left() < inf:
        return min(most, max(50, int((_speed() * max(seconds_left(), 0.0) / (2 * term.size)) ** 0.5)))
    if most <= 2 * first:
        return most
    rows = np.random.default_rng(0).permutation(term.size)[: (LANDMARK_ROWS + LANDMARK_HELD_OUT) * first]
    squared = term.changed(loss=Squared())
    held_out, learned = squared.take(rows[: LANDMARK_HELD_OUT * first]), squared.take(rows[LANDMARK_HELD_OUT * first :])

    def score(count: int) -> list[Outcome]:
        """Return the outcome with the squared errors (t,) of held-out rows."""
        small = Problem(problem.kernel, [learned], problem.basis, approximation=Landmarks(count))
        values = to_numpy(held_out.functional(small.solve(verbose=verbose).function))
        errors = row_losses(held_out.loss, values, to_numpy(held_out.target)) / (held_out.outputs or 1)
        return [Outcome({"landmarks": count}, float(errors.mean()), -errors.mean(keepdims=True), values=errors)]

    before, after = (score(count)[0] for count in (first, 2 * first))
    falls = paired_test(before.values, after.values, to_numpy(held_out.weights())[:, 0], least=LEAST_FALL)
    return most if falls else first


def _speed() -> float:
    """Return operations per second of a fit, a tenth of those of products.

    It is measured now, because other processes slow down the fit as well.
    """
    A = np.ones((768, 768))
    A @ A[:, :8]  # the first product of a process starts the BLAS threads
    start = now()
    A @ A
    return 0.2 * len(A) ** 3 / max(now() - start, 1e-6)
