"""From scores to classes: where the scores of each class lie, not which of them is largest.

Each class is learnt against all others.  A class between two others then has the largest score nowhere: low, middle and
high of one quantity are three such classes.  But its points have scores of their own, around a mean m_k with a
covariance S that classes share, and Gauss's rule says which class is the likeliest,

    g_k(x) = m_k'S^-1 f(x) - 1/2 m_k'S^-1 m_k + log share_k

(flexible discriminant analysis: Hastie, Tibshirani and Buja 1994).  Means and covariance, shrunk as Ledoit and Wolf
(2004) do it, are those of scores of labels that were left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import KFold, cross_val_predict

from rkhs._backend.arrays import Vector

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
