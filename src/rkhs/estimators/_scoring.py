"""What labels would be predicted to be without themselves: exact errors of the squared loss.

From scores to classes: where the scores of each class lie, not which of them is largest.

Each class is learnt against all others.  A class between two others then has the largest score nowhere: low, middle and
high of one quantity are three such classes.  But its points have scores of their own, around a mean m_k with a
covariance S that classes share, and Gauss's rule says which class is the likeliest,

    g_k(x) = m_k'S^-1 f(x) - 1/2 m_k'S^-1 m_k + log share_k

(flexible discriminant analysis: Hastie, Tibshirani and Buja 1994).  Means and covariance, shrunk as Ledoit and Wolf
(2004) do it, are those of scores of labels that were left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import KFold, cross_val_predict

from rkhs._backend.arrays import Vector
from rkhs._backend.threads import single_blas
from rkhs.invariances.graph import Graph

NONE, MEASURE, SCALES, GRAPH = KINDS = ("none", "measure", "scales", "graph")  # what is known, in the order of trust


@dataclass(frozen=True, eq=False)
class Labelled:
    """Which points have labels, what these say (l, q), and their weights (l,), of mean one."""

    rows: Vector
    target: Vector
    weight: Vector
    classes: Vector | None  # of classification

    def take(self, some: Vector) -> Labelled:
        """Some of the labels."""
        classes = None if self.classes is None else self.classes[some]
        return Labelled(self.rows[some], self.target[some], self.weight[some], classes)

    def squares(self, values: Vector) -> Vector:
        """The squared errors (l,) of predictions (l, q), means over outputs."""
        return np.mean((values - self.target) ** 2, axis=1)

    def loss(self, values: Vector) -> float:
        """The mean squared error; infinite where it is no number."""
        loss = float(np.average(self.squares(values), weights=self.weight))
        return loss if np.isfinite(loss) else np.inf

    def error(self, values: Vector) -> float:
        """The share of wrong classes; for regression the root of the mean squared error."""
        if self.classes is None:
            return float(np.average(self.squares(values), weights=self.weight) ** 0.5)
        return float(np.average(self.wrong(values), weights=self.weight))

    def wrong(self, values: Vector) -> Vector:
        """Where (l,) the class of the largest value is not that of the label."""
        chosen = (values[:, 0] > 0).astype(int) if values.shape[1] == 1 else values.argmax(axis=1)
        return np.asarray(chosen != self.classes)


def mean_fall(before: Vector, after: Vector, weight: Vector) -> tuple[float, float]:
    """By how much losses (l,) fall on average, compared label by label, and the standard error of that.

    Examples
    --------
    >>> mean, error = mean_fall(np.array([3.0, 5.0]), np.array([2.0, 2.0]), np.ones(2))
    >>> mean, round(error, 3)
    (2.0, 0.707)
    """
    share, fall = weight / weight.sum(), before - after
    mean = float(share @ fall)
    return mean, float(np.sqrt(share**2 @ (fall - mean) ** 2))


SURE, WORTH = 1.0, 0.05  # standard errors, and share of the error, by which it has to fall
SURER = 1.5  # standard errors where the second is the best of very many


def falls(before: Vector, after: Vector, weight: Vector, sure: float = SURE) -> bool:
    """Whether losses (l,) fall by more than chance, some standard errors of the mean fall, and by enough to matter.

    Two models that are nearly the same differ by little, but surely; then there is no reason to take the second.
    """
    mean, noise = mean_fall(before, after, weight)
    return bool(np.isfinite(mean)) and mean > max(sure * noise, WORTH * float(np.average(before, weights=weight)))


@dataclass(frozen=True, eq=False)
class Candidate:
    """Settings, what is known with them (`KINDS`), and how well they predict labels that are left out.

    `values` (l, q) are predictions of these labels, `squares` (l,) their squared errors, `loss` the mean of these,
    `error` the share of wrong classes.
    """

    kind: str
    kernel: Any  # a name, or a kernel
    scale: float | tuple[float, ...]
    graph: Graph | None
    nu: float
    C: float
    values: Vector
    squares: Vector
    loss: float
    error: float

    @classmethod
    def of(
        cls,
        labelled: Labelled,
        values: Vector,
        kind: str,
        kernel: Any,
        scale: Any,
        graph: Graph | None,
        nu: float,
        C: float,
    ) -> Candidate:
        """From what is predicted (l, q) for each label without itself."""
        told = labelled.squares(values), labelled.loss(values), labelled.error(values)
        return cls(kind, kernel, scale, graph, nu, C, values, *told)

    @property
    def params(self) -> dict[str, Any]:
        return {
            "C": self.C,
            "nu": self.nu,
            "scale": self.scale,
            "kernel": self.kernel,
            "invariance": self.graph,
        }


def left_out(K: Vector, target: Vector, weight: Vector, Cs: Sequence[float], intercept: bool) -> Iterator[Vector]:
    """For each C what the squared loss predicts (l, q) for each label without it, from the kernel matrix of labels.

    With S = K + diag(1 / (2 C w)) and P its inverse, or that on {1'a = 0} with an intercept, the error of label i
    without itself is (P target)_i / P_ii.  Without any other label there is the constant at most, and nothing is known
    of that: the prediction is 0.

    Examples
    --------
    >>> import numpy as np
    >>> [values] = left_out(np.eye(3), np.array([[0.0], [3.0], [6.0]]), np.ones(3), [1.0], intercept=True)
    >>> values.ravel()  # with no correlation the mean of the others
    array([4.5, 3. , 1.5])
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


def without_group(K: Vector, labelled: Labelled, C: float, intercept: bool, group: Vector) -> Vector:
    """What the squared loss predicts for some labels without all of them, (g, q).

    In the notation of `left_out` their errors are (P_gg)^-1 (P target)_g.
    """
    S = K + np.diag(1 / (2 * C * labelled.weight))
    factor = scipy.linalg.cho_factor(S, lower=True, check_finite=False)
    columns = np.zeros((len(K), len(group)))
    columns[group, np.arange(len(group))] = 1.0
    P = scipy.linalg.cho_solve(factor, columns, check_finite=False)
    if intercept:
        sums = scipy.linalg.cho_solve(factor, np.ones(len(K)), check_finite=False)
        P = P - np.outer(sums, sums[group]) / sums.sum()
    return np.asarray(labelled.target[group] - np.linalg.solve(P[group], P.T @ labelled.target))


FOLDS = 50  # or one for each label, if there are fewer
LABELS = 3  # for each class, at least: means of fewer are chance


@dataclass(frozen=True, eq=False)
class Discriminant:
    """g = matrix f + offset, (classes, classes) and (classes,).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> codes = np.arange(60) % 3
    >>> along = codes - 1 + 0.1 * rng.standard_normal(60)  # one quantity tells three classes apart
    >>> scores = np.stack([-along, np.zeros(60), along], axis=1)
    >>> rule = Discriminant.of(scores, codes)
    >>> [round(float(np.mean(own.argmax(axis=1) == codes)), 2) for own in (scores, rule(scores))]
    [0.67, 1.0]
    """

    matrix: Vector
    offset: Vector

    @classmethod
    def of(cls, scores: Vector, codes: Vector) -> Discriminant:
        """From the scores (l, classes) of labels that were left out, and their classes."""
        fitted = _rule().fit(scores, codes)
        return cls(fitted.coef_, fitted.intercept_)

    def __call__(self, scores: Vector) -> Vector:
        return np.asarray(scores @ self.matrix.T + self.offset)


def worth_trying(scores: Vector, codes: Vector) -> bool:
    """Whether there are three classes or more, and labels enough."""
    classes = scores.shape[1]
    return classes > 2 and len(codes) >= LABELS * classes and bool(np.all(np.isfinite(scores)))


def predicted_without(scores: Vector, codes: Vector) -> Vector:
    """The classes (l,) that the rule predicts for labels that it has not seen either."""
    folds = KFold(min(FOLDS, len(codes)), shuffle=True, random_state=0)
    return np.asarray(cross_val_predict(_rule(), scores, codes, cv=folds))


def _rule() -> LinearDiscriminantAnalysis:
    return LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
