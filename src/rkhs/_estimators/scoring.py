"""Exact leave-one-out predictions of the squared loss, their scores, and a linear discriminant of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from scipy.optimize import minimize_scalar
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import KFold, cross_val_predict

from rkhs._backend.arrays import Matrix, Vector
from rkhs._backend.threads import single_blas
from rkhs._estimators.data import predicted_codes
from rkhs.losses import Loss

_SHRUNK = {"solver": "lsqr", "shrinkage": "auto"}  # the shrinkage of Ledoit and Wolf (2004)
LEAST_NOISE = 5e-3  # deviation of noise that models with other losses than the squared one assume, relative to targets
NONE, FEATURES, TREND, SCALES, GRAPH, SUM = KINDS = ("none", "features", "trend", "scales", "graph", "sum")
OF_ALL_POINTS = (FEATURES, GRAPH, SUM)  # kinds of kernels that are computed from the unlabeled points too


@dataclass(frozen=True, eq=False)
class ScoringTargets:
    """The labels by which candidates are scored."""

    rows: Vector  # (l,) the indices of the labeled points
    target: Matrix  # (l, q)
    weight: Vector  # (l,) with mean one
    classes: Vector | None  # (l,) class indices; None in regression

    def take(self, index: Vector) -> ScoringTargets:
        """Return a subset of the labels."""
        classes = None if self.classes is None else self.classes[index]
        return ScoringTargets(self.rows[index], self.target[index], self.weight[index], classes)

    def squares(self, values: Matrix) -> Vector:
        """Return the squared errors (l,) of predictions (l, q), averaged over outputs."""
        return np.mean((values - self.target) ** 2, axis=1)

    def loss(self, values: Matrix) -> float:
        """Return the weighted mean squared error of predictions (l, q), or infinity if it overflows."""
        loss = float(np.average(self.squares(values), weights=self.weight))
        return loss if np.isfinite(loss) else np.inf

    def error(self, values: Matrix) -> float:
        """Return the share of wrong classes of predictions (l, q), or their root mean squared error."""
        if self.classes is None:
            return self.loss(values) ** 0.5
        return float(np.average(predicted_codes(values) != self.classes, weights=self.weight))


def leave_one_out(K: Matrix, target: Matrix, weight: Vector, Cs: Sequence[float]) -> Iterator[Matrix]:
    """Yield the leave-one-out predictions (l, q) of the squared loss for each C, from the kernel matrix K (l, l).

    With S = K + diag(1 / (2 C w)) and P its inverse on the subspace 1'a = 0, which is that of an intercept, the
    leave-one-out residual of label i is (P target)_i / P_ii.  For a single label the prediction is 0.
    """
    if len(target) == 1:
        yield from (np.zeros_like(target) for _ in Cs)
        return
    root = np.sqrt(weight)
    with single_blas():  # threads gain little at this size, and on a busy computer take ten times as long
        eigenvalues, U = np.linalg.eigh(root[:, None] * K * root)
    eigenvalues = np.clip(eigenvalues, 0.0, None)
    U = root[:, None] * U
    squares, projected, ones = U**2, U.T @ target, U.sum(axis=0)
    for C in Cs:
        inverse = 1 / (eigenvalues + 1 / (2 * C))
        diagonal, a = squares @ inverse, U @ (inverse[:, None] * projected)
        sums, total = U @ (inverse * ones), float(inverse @ ones**2)
        diagonal = diagonal - sums**2 / total
        a = a - np.outer(sums, sums @ target) / total
        yield target - a / diagonal[:, None]


def leave_group_out(K: Matrix, targets: ScoringTargets, C: float, group: Vector) -> Matrix:
    """Return the predictions (g, q) of the squared loss for a group of labels that is left out as a whole.

    In the notation of `leave_one_out` the residuals are (P_gg)^-1 (P target)_g.
    """
    S = K + np.diag(1 / (2 * C * targets.weight))
    columns = np.zeros((len(K), len(group)))
    columns[group, np.arange(len(group))] = 1.0
    with single_blas():
        factor = scipy.linalg.cho_factor(S, lower=True, check_finite=False)
        P = scipy.linalg.cho_solve(factor, columns, check_finite=False)
        sums = scipy.linalg.cho_solve(factor, np.ones(len(K)), check_finite=False)
        P = P - np.outer(sums, sums[group]) / sums.sum()
        return np.asarray(targets.target[group] - np.linalg.solve(P[group], P.T @ targets.target))


def C_for_loss(loss: Loss, C: float, K: Matrix, targets: ScoringTargets) -> float:
    """Return the C of another loss that corresponds to a C of the squared loss, for the kernel matrix K (l, l).

    If noise r has a density proportional to exp(-loss(r) / b), then b is the mean of r loss'(r), and 1/2 |f|^2 + C sum
    loss is minus the logarithm of the posterior density, for a process f of variance C b.  This variance is the same
    for both losses, which determines C from the ratio of the b; it is 2 mean r^2 for the squared loss.  So C has the
    units of the targets that the loss requires.  The noise is that of leave-one-out residuals, shifted by the constant
    that minimizes the loss, since there is an intercept.
    """
    C, least = min(C, 0.5 / LEAST_NOISE**2), LEAST_NOISE * float(targets.target.std())
    if least == 0:
        return C
    [values] = leave_one_out(K, targets.target, targets.weight, [C])
    share, r = targets.weight[:, None] / targets.weight.sum(), values - targets.target
    limits = float(r.min()), float(r.max())

    def b(r: Matrix, share: Any) -> float:
        return float(np.sum(share * r * loss.gradient(r, np.zeros_like(r))))

    options = {"bounds": limits, "method": "bounded", "options": {"xatol": 1e-6 * (limits[1] - limits[0])}}
    shift = minimize_scalar(lambda c: np.sum(share * loss.value(r - c, np.zeros_like(r))), **options).x
    size = max(b(r - shift, share), b(np.array([-least, least]), 0.5))
    return C * 2 * max(float(np.sum(share * r**2)), least**2) / size if size > 0 else C


def paired_test(
    before: Vector, after: Vector, weight: Any = 1.0, *, sure: float = 1.0, least: float = 0.05, signs: bool = False
) -> bool:
    """Return whether the mean of losses (l,) falls by more than `sure` standard errors and by the share `least`.

    The second condition is for models that are nearly equal, whose small difference may be significant.  With `signs`
    it suffices that the mean falls and the number of losses that fall exceeds the number that rise by two standard
    deviations of a fair coin, which matters if few losses dominate the mean.
    """
    share, fall = np.broadcast_to(weight, before.shape) / np.sum(np.broadcast_to(weight, before.shape)), before - after
    mean = float(share @ fall)
    error = float(np.sqrt(share**2 @ (fall - mean) ** 2))
    if signs and mean > 0 and float(np.mean(np.sign(fall))) * len(fall) ** 0.5 > 2.0:
        return True
    return bool(np.isfinite(mean)) and mean > max(sure * error, least * float(share @ before))


@dataclass(frozen=True, eq=False)
class Discriminant:
    """Linear discriminant analysis of one-against-rest scores: g = matrix f + offset.

    A class that lies between two others, such as the middle of low, middle and high, has the largest one-against-rest
    score nowhere.  But the scores of class k have a mean m_k and, in the model of linear discriminant analysis, a
    common covariance S, and the most probable class maximizes

        g_k(x) = m_k'S^-1 f(x) - 1/2 m_k'S^-1 m_k + log share_k

    (flexible discriminant analysis: Hastie, Tibshirani and Buja 1994).  The means and the covariance, with the
    shrinkage of Ledoit and Wolf (2004), are estimated from leave-one-out scores.
    """

    matrix: Matrix  # (classes, classes)
    offset: Vector  # (classes,)

    @classmethod
    def of(cls, scores: Matrix, codes: Vector) -> Discriminant:
        """Fit the discriminant to leave-one-out scores (l, classes) and class indices (l,)."""
        fitted = LinearDiscriminantAnalysis(**_SHRUNK).fit(scores, codes)
        return cls(fitted.coef_, fitted.intercept_)

    def __call__(self, scores: Matrix) -> Matrix:
        return np.asarray(scores @ self.matrix.T + self.offset)

    @staticmethod
    def applies(scores: Matrix, codes: Vector) -> bool:
        """Return whether there are at least three classes and three labels of each of them."""
        classes = scores.shape[1]
        enough = classes > 2 and int(np.bincount(codes, minlength=classes).min()) >= 3
        return enough and bool(np.all(np.isfinite(scores)))

    @staticmethod
    def cross_validated(scores: Matrix, codes: Vector) -> Vector:
        """Return the cross-validated class predictions (l,) of the discriminant, with at most 50 folds."""
        folds = KFold(min(50, len(codes)), shuffle=True, random_state=0)
        return np.asarray(cross_val_predict(LinearDiscriminantAnalysis(**_SHRUNK), scores, codes, cv=folds))
