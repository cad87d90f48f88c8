"""Leave-one-out scoring: what the squared loss predicts for labels that it has not seen, exactly, and rules on that."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import KFold, cross_val_predict

from rkhs._backend.arrays import Matrix, Vector
from rkhs._backend.threads import single_blas
from rkhs._estimators.data import predicted_codes
from rkhs.invariances._graph import Graph

_SHRUNK = {"solver": "lsqr", "shrinkage": "auto"}  # as by Ledoit and Wolf
NONE, FEATURES, SCALES, GRAPH = KINDS = ("none", "features", "scales", "graph")  # what is known, in the order of trust


@dataclass(frozen=True, eq=False)
class Labeled:
    """The labeled points: their rows, targets (l, q), weights (l,) of mean one, and classes, if they have any."""

    rows: Vector
    target: Matrix
    weight: Vector
    classes: Vector | None

    def take(self, some: Vector) -> Labeled:
        """Return some of the labels."""
        classes = None if self.classes is None else self.classes[some]
        return Labeled(self.rows[some], self.target[some], self.weight[some], classes)

    def squares(self, values: Matrix) -> Vector:
        """Return the squared errors (l,) of predictions (l, q), averaged over outputs."""
        return np.mean((values - self.target) ** 2, axis=1)

    def loss(self, values: Matrix) -> float:
        """Return the mean squared error, infinite where it overflows."""
        loss = float(np.average(self.squares(values), weights=self.weight))
        return loss if np.isfinite(loss) else np.inf

    def scored(self, values: Matrix) -> tuple[Matrix, Vector, float, float]:
        """Return predictions (l, q) of left-out labels and their scores, as `Candidate` has them."""
        loss = self.loss(values)
        if self.classes is None:
            error = loss**0.5
        else:
            error = float(np.average(predicted_codes(values) != self.classes, weights=self.weight))
        return values, self.squares(values), loss, error


@dataclass(frozen=True, eq=False)
class Candidate:
    """Settings, the kind of prior knowledge in them (`KINDS`), and their leave-one-out errors."""

    kind: str
    kernel: Any  # a name, or a kernel
    scale: float | tuple[float, ...]
    graph: Graph | None
    nu: float
    C: float
    values: Matrix  # (l, q) predictions of left-out labels
    squares: Vector  # (l,) their squared errors
    loss: float  # the mean of these
    error: float  # the share of wrong classes, or the root mean squared error

    @cached_property
    def params(self) -> dict[str, Any]:
        return {"C": self.C, "nu": self.nu, "scale": self.scale, "kernel": self.kernel, "invariance": self.graph}


def leave_one_out(K: Matrix, target: Matrix, weight: Vector, Cs: Sequence[float], intercept: bool) -> Iterator[Matrix]:
    """Yield, for each C, the predictions (l, q) of the squared loss for each label without it, from the kernel matrix.

    With S = K + diag(1 / (2 C w)) and P its inverse, or that on {1'a = 0} with an intercept, the error of label i
    without itself is (P target)_i / P_ii.  A single label leaves nothing to predict it from: the prediction is 0.
    """
    if len(target) == 1:
        yield from (np.zeros_like(target) for _ in Cs)
        return
    root = np.sqrt(weight)
    with single_blas():  # threads gain little here, and on a busy computer wait for each other: ten times as long
        spectrum, U = np.linalg.eigh(root[:, None] * K * root)
    spectrum = np.clip(spectrum, 0.0, None)
    U = root[:, None] * U
    squares, along, ones = U**2, U.T @ target, U.sum(axis=0)
    for C in Cs:
        inverse = 1 / (spectrum + 1 / (2 * C))
        diagonal, a = squares @ inverse, U @ (inverse[:, None] * along)
        if intercept:
            sums = U @ (inverse * ones)
            total = float(inverse @ ones**2)
            diagonal = diagonal - sums**2 / total
            a = a - np.outer(sums, sums @ target) / total
        yield target - a / diagonal[:, None]


def leave_group_out(K: Matrix, labeled: Labeled, C: float, intercept: bool, group: Vector) -> Matrix:
    """Return the predictions (g, q) of the squared loss for some labels without all of them.

    In the notation of `leave_one_out` their errors are (P_gg)^-1 (P target)_g.
    """
    S = K + np.diag(1 / (2 * C * labeled.weight))
    factor = scipy.linalg.cho_factor(S, lower=True, check_finite=False)
    columns = np.zeros((len(K), len(group)))
    columns[group, np.arange(len(group))] = 1.0
    P = scipy.linalg.cho_solve(factor, columns, check_finite=False)
    if intercept:
        sums = scipy.linalg.cho_solve(factor, np.ones(len(K)), check_finite=False)
        P = P - np.outer(sums, sums[group]) / sums.sum()
    return np.asarray(labeled.target[group] - np.linalg.solve(P[group], P.T @ labeled.target))


def mean_fall(before: Vector, after: Vector, weight: Vector) -> tuple[float, float]:
    """Return the mean fall of losses (l,), compared label by label, and its standard error."""
    share, fall = weight / weight.sum(), before - after
    mean = float(share @ fall)
    return mean, float(np.sqrt(share**2 @ (fall - mean) ** 2))


def falls(before: Vector, after: Vector, weight: Vector, sure: float = 1.0) -> bool:
    """Return whether losses (l,) fall significantly, by `sure` standard errors of the mean, and by a twentieth.

    Two models that are nearly the same differ by little, but surely; then there is no reason to take the second.
    """
    mean, noise = mean_fall(before, after, weight)
    return bool(np.isfinite(mean)) and mean > max(sure * noise, 0.05 * float(np.average(before, weights=weight)))


@dataclass(frozen=True, eq=False)
class Discriminant:
    """Linear discriminant analysis of scores, g = matrix f + offset, (classes, classes) and (classes,).

    Each class is learned against all others.  A class between two others then has the largest score nowhere: low, middle
    and high of one quantity are three such classes.  But its scores lie around a mean m_k, with a covariance S that the
    classes share, and Gauss's rule predicts the likeliest class,

        g_k(x) = m_k'S^-1 f(x) - 1/2 m_k'S^-1 m_k + log share_k

    (flexible discriminant analysis: Hastie, Tibshirani and Buja 1994).  Means and covariance, shrunk as by Ledoit and
    Wolf (2004), are those of the scores of left-out labels.
    """

    matrix: Matrix
    offset: Vector

    @classmethod
    def of(cls, scores: Matrix, codes: Vector) -> Discriminant:
        """Fit the rule to the scores (l, classes) of left-out labels and their classes."""
        fitted = LinearDiscriminantAnalysis(**_SHRUNK).fit(scores, codes)
        return cls(fitted.coef_, fitted.intercept_)

    def __call__(self, scores: Matrix) -> Matrix:
        return np.asarray(scores @ self.matrix.T + self.offset)

    @staticmethod
    def applies(scores: Matrix, codes: Vector) -> bool:
        """Return whether there are three classes or more, and three labels for each, whose mean is not mere chance."""
        classes = scores.shape[1]
        return classes > 2 and len(codes) >= 3 * classes and bool(np.all(np.isfinite(scores)))

    @staticmethod
    def cross_validated(scores: Matrix, codes: Vector) -> Vector:
        """Return the classes (l,) predicted for labels that the rule has not seen, by 50 folds at most."""
        folds = KFold(min(50, len(codes)), shuffle=True, random_state=0)
        return np.asarray(cross_val_predict(LinearDiscriminantAnalysis(**_SHRUNK), scores, codes, cv=folds))
