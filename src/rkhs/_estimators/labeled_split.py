"""Cross-validation of semi-supervised estimators by the tools of scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.utils import check_consistent_length
from sklearn.utils.multiclass import type_of_target

from rkhs._backend.arrays import Vector
from rkhs._estimators.data import fill_missing_targets


@dataclass(frozen=True)
class LabeledSplit:
    """Splits the labeled rows into folds, and puts all rows without a label into every training part.

    It is the parameter `cv` of scikit-learn's `cross_val_score`, `cross_validate` and `GridSearchCV` for data with
    unlabeled rows.  Without it these rows are spread over the folds: every model learns from fewer of them than the
    final one does, and scorers such as "accuracy" count them as errors.

    Parameters
    ----------
    cv : int or splitter, default=5
        The number of folds, or a splitter of scikit-learn for the labeled rows.  A number means stratified folds if y
        has classes of at least that many rows each, and consecutive rows otherwise.
    unlabeled : object, default=-1
        The y of rows without a label, as in `InvariantClassifier`; NaN stands for all missing values.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.model_selection import cross_val_score
    >>> X, y = make_moons(200, noise=0.1, random_state=0)
    >>> few = np.where(np.arange(200) < 40, y, -1)
    >>> model = rkhs.InvariantClassifier(scale=0.5, C=10.0)
    >>> scores = cross_val_score(model, X, few, cv=rkhs.LabeledSplit(4), scoring="accuracy")
    >>> bool(scores.mean() > 0.9)
    True
    """

    cv: Any = 5
    unlabeled: Any = -1

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[Vector, Vector]]:
        """Yield the indices of the rows of each training part, with those of all unlabeled rows, and of each test part.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points, of which a splitter may use the number.
        y : array-like of shape (t,) or (t, outputs)
            The labels or targets.
        groups : array-like of shape (t,), optional
            The groups of the rows, for a splitter that needs them.

        Yields
        ------
        tuple of two ndarrays of int
            The indices of the training rows and of the test rows.
        """
        labels, groups, rows, others = self._labeled(y, groups)
        splitter = check_cv(self.cv, labels, classifier=self._stratified(labels))
        for train, test in splitter.split(np.zeros((len(rows), 1)), labels, groups):
            yield np.sort(np.concatenate([rows[train], others])), rows[test]

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds.

        Parameters
        ----------
        X, y, groups : object, optional
            As in `split`; only some splitters need them, such as those that leave out one row at a time.

        Returns
        -------
        int
            The number of folds.
        """
        if y is None or isinstance(self.cv, Integral):
            return int(check_cv(self.cv).get_n_splits(X, y, groups))
        labels, groups, rows, _ = self._labeled(y, groups)
        return int(check_cv(self.cv).get_n_splits(np.zeros((len(rows), 1)), labels, groups))

    def _labeled(self, y: Any, groups: Any) -> tuple[Vector, Vector | None, Vector, Vector]:
        """Return the labels and groups of labeled rows, the indices of these rows, and those of all other rows."""
        if y is None:
            raise ValueError("LabeledSplit needs y, which marks the rows without a label.")
        filled, missing = fill_missing_targets(y, self.unlabeled)
        check_consistent_length(filled, groups)
        rows = np.flatnonzero(~missing)
        if not len(rows):
            raise ValueError(f"LabeledSplit needs rows with a label; every y is unlabeled={self.unlabeled!r}.")
        return filled[rows], None if groups is None else np.asarray(groups)[rows], rows, np.flatnonzero(missing)

    def _stratified(self, labels: Vector) -> bool:
        if not isinstance(self.cv, Integral) or type_of_target(labels) not in ("binary", "multiclass"):
            return False
        return int(np.unique(labels, return_counts=True)[1].min()) >= self.cv
