"""The targets by which trials are scored, and exact leave-one-out errors of the squared loss.

One eigendecomposition gives the leave-one-out errors for all C and all classes (`LeaveOneOutScorer`).  Unlabeled points
enter through the kernel: distances of principal components and of decorrelated features, and the kernels of graphs of
all points.  A point whose label is left out stays in as an unlabeled point.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy
from scipy.optimize import minimize_scalar

from rkhs._core.backend.arrays import Matrix, Vector
from rkhs._core.backend.memory import single_blas
from rkhs._core.calculus.function_spaces import Constant
from rkhs._core.finite.term import Term
from rkhs._core.gram import gram
from rkhs._core.problem import Problem
from rkhs.estimators._data import drawn_rows, predicted_codes
from rkhs.estimators.search._search import Outcome, Trial, mean_and_error
from rkhs.functionals import Evaluation
from rkhs.kernels import Kernel, Tunable
from rkhs.losses import Loss, Squared

LEAST_NOISE = 5e-3  # deviation of noise that models with other losses than the squared one assume, relative to targets
FACTORIZED = 3  # values of C up to which Cholesky factorizations are faster than an eigendecomposition
MANY_CLASSES = 20  # classes from which left-out labels are many, although those of each are few; 10 were not enough
BEYOND = 2  # labels of each class that are no evidence: their class would be unknown, or known by one label


def evidence(classes: Vector) -> int:
    """Return the number of labels, given as class indices, whose leave-one-out errors are evidence.

    Of many classes two labels of each are enough to compare errors.
    """
    counts = np.bincount(classes)
    return int(np.clip(counts - (1 if len(counts) >= MANY_CLASSES else BEYOND), 0, None).sum())


def free_variance(K: Matrix) -> float:
    """Return the mean variance of a kernel matrix (l, l) that constants do not explain, at least 1e-3 of all of it."""
    variance = float(np.mean(np.diag(K)))
    return max(variance - float(K.mean()), 1e-3 * variance)


@dataclass(frozen=True, eq=False)
class ScoringTargets:
    """The labels by which candidates are scored, and the distinct points that they belong to.

    The labels of one point are left out together.  To the squared loss they are one label, their weighted mean, with
    the sum of their weights (`target`, `weight`); errors are those of all labels.
    """

    rows: Vector  # (p,) the indices of the distinct points
    point: Vector  # (l,) the point of each label
    labels: Matrix  # (l, q)
    importance: Vector  # (l,) the weights of the labels
    codes: Vector | None  # (l,) class indices; None in regression

    @classmethod
    def of(cls, rows: Vector, labels: Matrix, importance: Vector, groups: Vector, codes: Any = None) -> ScoringTargets:
        """Return the labels (l, q) at rows (l,); those with equal `groups` (l,) are at one point."""
        _, first, point = np.unique(groups, return_index=True, return_inverse=True)
        return cls(rows[first], point, labels, importance, codes).normalized()

    def normalized(self) -> ScoringTargets:
        """Return the labels with weights whose sum is the number of points."""
        return replace(self, importance=self.importance * len(self.rows) / self.importance.sum())

    def take(self, index: Vector) -> ScoringTargets:
        """Return the labels of a subset of the points."""
        position = np.full(len(self.rows), -1)
        position[index] = np.arange(len(index))
        kept = np.flatnonzero(position[self.point] >= 0)
        codes = None if self.codes is None else self.codes[kept]
        return ScoringTargets(
            self.rows[index], position[self.point[kept]], self.labels[kept], self.importance[kept], codes
        )

    @cached_property
    def weight(self) -> Vector:
        """The weight (p,) of each point, with the mean one."""
        return np.bincount(self.point, self.importance, len(self.rows))

    @cached_property
    def target(self) -> Matrix:
        """The weighted mean (p, q) of the labels of each point."""
        return np.stack([self._mean(column) for column in self.labels.T], axis=1)

    @cached_property
    def classes(self) -> Vector | None:
        """The class (p,) with the largest weight at each point; None in regression."""
        if self.codes is None:
            return None
        shares = np.zeros((len(self.rows), int(self.codes.max()) + 1))
        np.add.at(shares, (self.point, self.codes), self.importance)
        return np.asarray(shares.argmax(axis=1))

    def _mean(self, values: Vector) -> Vector:
        """Return the weighted mean (p,) over the labels of each point of values (l,)."""
        return np.bincount(self.point, self.importance * values, len(self.rows)) / self.weight

    def squares(self, values: Matrix) -> Vector:
        """Return the squared errors (p,) of predictions (p, q), averaged over outputs and labels."""
        return self._mean(np.mean((values[self.point] - self.labels) ** 2, axis=1))

    def mistakes(self, predicted: Vector) -> Vector:
        """Return the share (p,) of labels of other classes than those that are predicted for the points (p,)."""
        return self._mean(1.0 * (predicted[self.point] != self.codes))

    def loss(self, values: Matrix) -> float:
        """Return the weighted mean squared error of predictions (p, q), or infinity if it overflows."""
        loss = float(np.average(self.squares(values), weights=self.weight))
        return loss if np.isfinite(loss) else np.inf

    def error(self, values: Matrix) -> float:
        """Return the share of wrong classes of predictions (p, q), or their root mean squared error."""
        if self.codes is None:
            return self.loss(values) ** 0.5
        return float(np.average(self.mistakes(predicted_codes(values)), weights=self.weight))

    def standard_error(self, values: Matrix) -> float:
        """Return the standard error of `error`, for the root of a mean by its derivative."""
        if self.codes is not None:
            return mean_and_error(self.mistakes(predicted_codes(values)), self.weight)[1]
        mean, deviation = mean_and_error(self.squares(values), self.weight)
        return deviation / max(2 * mean**0.5, 1e-300)

    def problem(self, kernel: Kernel, X: Matrix, C: Any, device: str | None = None) -> Problem:
        """Return the problem of squared losses of the labels, whose points X (p, n) have the weights C w."""
        term = Term(Evaluation(X), Squared(), self.target, C * self.weight)
        return Problem(kernel, [term], Constant(), device=device)

    def tuned(self, kernel: Kernel, X: Matrix, C: float | None, most: int) -> Any:
        """Return the problem with the open settings of the kernel and C that maximize the evidence of `most` labels."""
        problem = self.problem(kernel, X, Tunable(start=C))
        with single_blas():  # threads gain little at this size, and with 16 cores take ten times as long
            return problem.tune(starts=1, functionals=most)

    def scored(self, trial: Trial, C: float, values: Matrix) -> Outcome:
        """Return the outcome with held-out predictions (p, q)."""
        params = {"C": C, "nu": 0.0, "scale": trial.scale, "kernel": trial.kernel, "invariance": None}
        params |= {} if trial.loss is None else {"loss": trial.loss}
        error, loss = self.error(values), self.loss(values)
        score = -loss if self.classes is None else 1 - error
        about: dict[str, Any] = {"kind": trial.kind, "family": trial.family, "features": trial.features}
        return Outcome(params, loss, np.array([score]), error=error, values=values, **about)

    @property
    def evidence(self) -> int:
        """The number of labels whose leave-one-out errors are evidence."""
        return len(self.rows) if self.classes is None else evidence(self.classes)


def leave_one_out(
    K: Matrix, target: Matrix, weight: Vector, Cs: Sequence[float], groups: Sequence[Vector] | None = None
) -> Iterator[Matrix]:
    """Yield the leave-one-out predictions (l, q) of the squared loss for each C, from the kernel matrix K (l, l).

    With S = K + diag(1 / (2 C w)) and P its inverse on the subspace 1'a = 0, which is that of an intercept, the
    leave-one-out residual of label i is (P target)_i / P_ii.  For a single label the prediction is 0.  `groups` of
    labels are left out as a whole, with the residuals (P_gg)^-1 (P target)_g.
    """
    if len(target) == 1:
        yield from (np.zeros_like(target) for _ in Cs)
        return
    root, basis = np.sqrt(weight), None
    for V, inverse in inverse_factors(root[:, None] * K * root, Cs):
        if V is not basis:  # S^-1 = U diag(inverse) U'
            basis, U = V, root[:, None] * V
            squares, projected, ones = U**2, U.T @ target, U.sum(axis=0)
        # P = S^-1 - S^-1 1 1'S^-1 / (1'S^-1 1): the residuals are orthogonal to the intercept
        sums, total = U @ (inverse * ones), float(inverse @ ones**2)
        a = U @ (inverse[:, None] * projected) - np.outer(sums, sums @ target) / total
        if groups is None:
            diagonal = squares @ inverse - sums**2 / total
            yield target - a / diagonal[:, None]
            continue
        predictions = target.copy()
        for g in groups:
            P = (U[g] * inverse) @ U[g].T - np.outer(sums[g], sums[g]) / total
            predictions[g] -= np.linalg.solve(P, a[g])
        yield predictions


def inverse_factors(scaled: Matrix, Cs: Sequence[float]) -> Iterator[tuple[Matrix, Vector]]:
    """Yield V (l, l) and d (l,) with (scaled + I / (2 C))^-1 = V diag(d) V' for each C.

    An eigendecomposition serves all C.  For a few of them Cholesky factors L take less time, with V = L'^-1.
    """
    left = list(Cs)
    with single_blas():  # threads gain little at this size, and on a busy computer take ten times as long
        while left and len(Cs) <= FACTORIZED:
            factor, failed = scipy.linalg.lapack.dpotrf(scaled + np.eye(len(scaled)) / (2 * left[0]), lower=1)
            if failed:
                break
            yield scipy.linalg.lapack.dtrtri(factor, lower=1)[0].T, np.ones(len(scaled))
            left.pop(0)
        if left:
            eigenvalues, V = np.linalg.eigh(scaled)
    yield from ((V, 1 / (np.clip(eigenvalues, 0.0, None) + 1 / (2 * C))) for C in left)


def C_for_loss(loss: Loss, C: float, K: Matrix, targets: ScoringTargets) -> float:
    """Return the C of another loss that corresponds to a C of the squared loss, for the kernel matrix K (l, l).

    If noise r has a density proportional to exp(-loss(r) / b), then b is the mean of r loss'(r), and 1/2 |f|^2 + C sum
    loss is minus the logarithm of the posterior density, for a process f of variance C b.  This variance is the same
    for both losses, which determines C from the ratio of the b; it is 2 mean r^2 for the squared loss.  So C has the
    units of the targets that the loss requires.  The noise is that of leave-one-out residuals, shifted by the constant
    that minimizes the loss, since there is an intercept.
    """
    # C <= 1 / (2 LEAST_NOISE^2 v): the noise 1 / (2C) is not below that share of the variance v that f explains
    free = free_variance(K)  # small if the length scale is large: then f with a large norm is nearly a constant
    C, least = min(C, 0.5 / (LEAST_NOISE**2 * free)), LEAST_NOISE * float(targets.labels.std())
    if least == 0:
        return C
    [values] = leave_one_out(K, targets.target, targets.weight, [C])
    share, r = targets.importance[:, None] / targets.importance.sum(), values[targets.point] - targets.labels
    limits = float(r.min()), float(r.max())

    def b(r: Matrix, share: Any) -> float:
        return float(np.sum(share * r * loss.gradient(r, np.zeros_like(r))))

    options = {"bounds": limits, "method": "bounded", "options": {"xatol": 1e-6 * (limits[1] - limits[0])}}
    # c = argmin of sum_i w_i loss(r_i - c);  C * 2 mean r^2 / b
    shift = minimize_scalar(lambda c: np.sum(share * loss.value(r - c, np.zeros_like(r))), **options).x
    size = max(b(r - shift, share), b(np.array([-least, least]), 0.5))
    return C * 2 * max(float(np.sum(share * r**2)), least**2) / size if size > 0 else C


@dataclass(frozen=True, eq=False)
class LeaveOneOutScorer:
    """Scores kernels, with each C, by exact leave-one-out errors of the squared loss."""

    X: Matrix  # (t, n)
    targets: ScoringTargets
    kernels: Any  # maps a kernel or its name, and a scale, to the kernel
    Cs: Sequence[float]

    def __call__(self, trial: Trial | Outcome) -> list[Outcome]:
        if isinstance(trial, Outcome):  # scored otherwise
            return [trial]
        K = self.matrix(self.kernels(trial.kernel, trial.scale)) if trial.matrix is None else trial.matrix
        Cs = self.Cs if trial.Cs is None else trial.Cs
        predictions = leave_one_out(K, self.targets.target, self.targets.weight, Cs)
        return [self.targets.scored(trial, C, values) for C, values in zip(Cs, predictions, strict=True)]

    def matrix(self, kernel: Kernel) -> Matrix:
        """Return the matrix (l, l) of a kernel at the labels."""
        return np.asarray(gram(kernel, Evaluation(self.X[self.targets.rows])).dense())

    def between(self, best: Outcome) -> Trial:
        """Return the trial of an outcome's kernel with the values of C halfway to the neighbors in the grid."""
        C, step = best.params["C"], (self.Cs[-1] / self.Cs[0]) ** (0.5 / (len(self.Cs) - 1))
        return Trial.of(best, C / step, C * step)

    @cached_property
    def samples(self) -> tuple[Matrix, Matrix]:
        """Up to 4,000 rows for covariances, and up to 1,000 of these for medians."""
        rows = self.X[drawn_rows(len(self.X), 4000)]
        return rows, rows if len(rows) <= 1000 else np.random.default_rng(0).choice(rows, 1000, replace=False)


def folds(size: int, classes: Vector | None, count: int) -> Iterator[tuple[Vector, Vector]]:
    """Yield the test and training indices of stratified folds of points, which are in a random order."""
    order = np.arange(size) if classes is None else np.argsort(classes, kind="stable")
    fold = np.empty(size, int)
    fold[order] = np.arange(size) % count
    for k in range(count):
        yield np.flatnonzero(fold == k), np.flatnonzero(fold != k)
