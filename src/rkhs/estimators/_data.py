"""Training data of the estimators: equal rows merged, rows of weight zero dropped, targets validated.

Sample weights are importances: factors on the loss of a row, whose common multiple is one of C.  A row that is given
twice has twice the weight, and is no second observation: a copy would reveal the label that is left out.  Labels of
points with equal features are therefore left out together (`Sample.groups`).

A table of few categories is different: rows with equal features are many, and if their labels differ, they are repeated
observations, each of which says how noisy the labels are.  Its points stay apart (`Sample.repeated`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_consistent_length, column_or_1d

from rkhs._core.backend import arrays
from rkhs._core.backend.arrays import Array, Matrix, Vector, double, to_numpy
from rkhs._core.backend.sparse import SparseVectors
from rkhs.exceptions import warn
from rkhs.streams._blocks import Columns, check_columns


@dataclass(frozen=True, eq=False)
class Sample:
    """Distinct training points with their labels and weights.

    A point has the sum of the weights of equal rows, or a part of it if these are repeated observations.  Points with
    different `marks`, such as the folds they belong to, are never merged.  ``Sample.of(X, sample_weight, y, labeled)``
    validates the weights and merges rows.

    Parameters
    ----------
    X : array of shape (t, n)
        The points.
    weight : ndarray of shape (t,)
        Their weights.
    y : ndarray of shape (t,) or (t, outputs)
        The indices of classes, or targets; 0 without a label.
    labeled : ndarray of shape (t,)
        Whether a point has a label.
    marks : ndarray of shape (t, k)
        Marks of points that are not merged with those of others.
    slopes : ndarray of shape (t, n) or (t, n, outputs), optional
        Measured slopes, NaN where there is none.

    Examples
    --------
    >>> from rkhs.extend import Sample
    >>> X = np.array([[0.0], [1.0], [0.0]])
    >>> Sample.of(X, None, np.array([2.0, 3.0, 2.0]), np.ones(3, dtype=bool)).weight
    array([2., 1.])
    """

    X: Array
    weight: Vector
    y: Vector
    labeled: Vector
    marks: Vector
    slopes: Vector | None = None

    @classmethod
    def of(cls, *rows: Any, **options: Any) -> Sample:
        """Validate the weights, drop rows of weight zero and merge equal rows, from the arguments of `of_rows`."""
        return cls.of_rows(*rows, **options).merged()

    @classmethod
    def of_rows(
        cls,
        X: Array,
        sample_weight: Any,
        y: Vector,
        labeled: Vector,
        marks: Vector | None = None,
        slopes: Vector | None = None,
    ) -> Sample:
        """Validate the weights, and return a point for each row, also for rows of weight zero."""
        X = np.ascontiguousarray(X) if isinstance(X, np.ndarray) else X  # data frames and arrays round alike
        marks = np.zeros((len(y), 0)) if marks is None else marks
        targets = np.where(labeled if y.ndim == 1 else labeled[:, None], y, 0)
        weight = as_weights(sample_weight, X)
        return cls(X, weight, targets, labeled, marks, slopes)

    def merged(self, merge: bool = True) -> Sample:
        """Drop rows of weight zero and, with `merge`, merge equal rows and add their weights; the order is kept."""
        sample = self.take(self.weight > 0)
        if not merge:
            return sample
        rows = np.column_stack(sample._columns)
        if len(np.unique(arrays.row_keys(rows))) < len(rows):
            _, first, inverse = arrays.unique_rows(rows)
            order, weight = np.argsort(first), np.bincount(inverse, weights=sample.weight)
            return replace(sample.take(first[order]), weight=weight[order])._apart(float(sample.weight.min()))
        return sample

    def _apart(self, unit: float) -> Sample:
        """Return the sample with repeated observations as points of their own, at most `MOST_APART` equal ones.

        The weight of an observation is the `unit`, or the largest multiple of it of which all weights are multiples.
        """
        observed = self.take(self.observed)
        if not observed.repeated:
            return self
        count = np.ones(self.size, dtype=np.int64)
        share = np.clip(np.round(observed.weight / unit), 1, arrays.LARGEST_EXACT).astype(np.int64)
        most = max(min(MOST_APART, MOST_IN_ALL // self.size), 1)
        count[self.observed] = np.minimum(share // np.gcd.reduce(share), most)
        return replace(self, weight=self.weight / count).take(np.repeat(np.arange(self.size), count))

    @property
    def observed(self) -> Vector:
        """The mask (t,) of points with a label or a measured slope."""
        if self.slopes is None:
            return self.labeled
        return np.asarray(self.labeled | np.isfinite(self.slopes).any(axis=tuple(range(1, self.slopes.ndim))))

    @property
    def repeated(self) -> bool:
        """Whether rows with equal features are repeated observations: a share of these points has different ones."""
        _, first, point = arrays.unique_rows(_row_numbers(self.X))
        if len(first) == self.size:
            return False
        total = np.bincount(point, self.weight)
        Y = self.y.reshape(self.size, -1)
        if self.slopes is not None:
            Y = np.column_stack([np.where(self.labeled[:, None], Y, np.nan), self.slopes.reshape(self.size, -1)])
        spread = np.fmax.reduce(Y) - np.fmin.reduce(Y)
        differs = np.abs(Y - Y[first[point]]) > EQUAL * spread  # false for what was not measured
        differing = len(np.unique(point[differs.any(axis=1)]))
        several = np.count_nonzero(total > (1 + EQUAL) * self.weight.min())
        return bool(differing > DIFFERING * several)

    def followed_by(self, other: Sample) -> Sample:
        """Return the rows of two samples, one after the other; slopes that the second lacks are missing."""
        pair = (self, other)
        names = ("weight", "y", "labeled", "marks")
        joined = {name: np.concatenate([getattr(one, name) for one in pair]) for name in names}
        if self.slopes is not None:
            missing = np.full((other.size, *self.slopes.shape[1:]), np.nan)
            joined["slopes"] = np.concatenate([self.slopes, missing if other.slopes is None else other.slopes])
        return Sample(arrays.frozen(arrays.stacked_rows(self.X, other.X)), **joined)

    @property
    def keys(self) -> Vector:
        """A 64-bit hash of each point with its label, its slopes and its weight."""
        return arrays.row_keys(np.column_stack([*self._columns, self.weight]))

    @property
    def _columns(self) -> list[Vector]:
        """Columns of numbers that are equal for equal points with equal labels, marks and slopes."""
        slopes = [] if self.slopes is None else [self.slopes.reshape(self.size, -1)]
        return [_row_numbers(self.X), self.y, self.labeled, self.marks, *slopes]

    @property
    def size(self) -> int:
        return len(self.weight)

    @cached_property
    def order(self) -> Vector:
        """A random order of the points that depends only on their set."""
        return canonical_order(self.X, np.column_stack([self.y, self.labeled]))

    @cached_property
    def groups(self) -> Vector:
        """The number (t,) of the group of points that are left out together with each point, in a random order.

        These are the points with equal features, or each point alone if there are repeated observations.
        """
        groups = np.empty_like(self.order)
        if self.take(self.observed).repeated:
            groups[self.order] = np.arange(self.size)
            return groups
        _, first, inverse = arrays.unique_rows(_row_numbers(self.X)[self.order])
        groups[self.order] = np.argsort(np.argsort(first))[inverse]
        return groups

    def take(self, rows: Any) -> Sample:
        """Return a subset of the points; if it is all of them, this sample itself, so that terms can share results."""
        index = np.arange(self.size)[rows]
        if np.array_equal(index, np.arange(self.size)):
            return self
        names = ("weight", "y", "labeled", "marks", *(() if self.slopes is None else ("slopes",)))
        return replace(self, X=arrays.take_rows(self.X, index), **{name: getattr(self, name)[index] for name in names})

    def with_features(self, columns: Vector) -> Sample:
        """Return the sample with some of the features; itself if these are all of them, or none."""
        if not 0 < len(columns) < self.X.shape[1]:
            return self
        slopes = None if self.slopes is None else self.slopes[:, columns]
        return replace(self, X=arrays.frozen(self.X[:, columns]), slopes=slopes)

    def drawn(self, most: int = 100_000) -> Sample:
        """Return this sample, or `most` of its points drawn at random if there are more."""
        return self if self.size <= most else self.take(np.sort(self.order[:most]))


def _row_numbers(X: Array) -> Vector:
    """Return columns of numbers that are equal for equal rows: the features, or the two halves of a hash if sparse."""
    if not isinstance(X, SparseVectors):
        return double(X)
    keys = arrays.row_keys(X)
    return np.stack([keys >> np.uint64(32), keys & np.uint64(2**32 - 1)], axis=1).astype(np.float64)


def drawn_rows(count: int, most: int) -> Vector:
    """Return the indices of all rows, or of `most` rows drawn at random, in order, if there are more."""
    every = np.arange(count)
    return every if count <= most else np.sort(np.random.default_rng(0).permutation(every)[:most])


EQUAL, DIFFERING = 1e-9, 0.1  # relative size of rounding, and share of points whose labels differ
MOST_APART, MOST_IN_ALL = 100, 5000  # equal observations that stay apart, and points up to which they do
MOST_SORTED = 10**7  # entries of X up to which columns are sorted, in a second; beyond the order of rows counts


def canonical_order(X: Array, y: Matrix) -> Vector:
    """Return an order of points that is random, but depends neither on the order of rows and columns nor on units.

    With the ranks r_ij of the features among those of all points, which units and shifts do not change, the ranks q_ik
    of the labels y (t, k), and a hash h of integers, points are sorted by

        z_i + sum_j h(r_ij + s_j),        z_i = sum_k h(q_ik + k),        s_j = h(sum_i h(r_ij + z_i))

    modulo 2^64.  The sums are exact in any order, and s_j is the same for equal columns only, which count once.
    Constant columns are left out.
    """
    if X.shape[0] * X.shape[1] > MOST_SORTED:
        return np.random.default_rng(0).permutation(int(X.shape[0]))

    def ranks(column: Vector) -> Vector:
        return np.unique(column, return_inverse=True)[1].reshape(-1).astype(np.uint64)

    z = np.zeros(len(y), dtype=np.uint64)
    for k, column in enumerate(y.T):
        z += _hashed(ranks(column) + _hashed(np.array([k])))
    key: Vector = z.copy()
    seen: set[int] = set()
    for column in (X.matrix.toarray() if isinstance(X, SparseVectors) else double(X)).T:
        r = ranks(column)
        s = _hashed(_hashed(r + z).sum(dtype=np.uint64, keepdims=True))
        if r.any() and int(s[0]) not in seen:
            key += _hashed(r + s)
            seen.add(int(s[0]))
    return np.argsort(key, kind="stable")


def _hashed(values: Vector) -> Vector:
    """Return pseudo-random 64-bit integers of integers, by the finalizer of SplitMix64 (Steele, Lea and Flood 2014)."""
    x = values.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.asarray(x ^ (x >> np.uint64(31)))


def as_weights(sample_weight: Any, X: Array) -> Vector:
    """Validate sample weights and return them in NumPy, one per point."""
    if sample_weight is None:
        return np.ones(int(X.shape[0]))
    arrays.check_unmasked(sample_weight, "sample_weight")
    weight = as_numpy(sample_weight)
    weight = check_array(weight, ensure_2d=False, dtype=np.float64, copy=True, input_name="sample_weight")
    if weight.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar, got shape {weight.shape}.")
    check_consistent_length(np.empty(int(X.shape[0])), weight)
    if np.any(weight < 0):
        raise ValueError(f"Negative values in data passed to `sample_weight`: {weight.min():g}.")
    if not np.any(weight > 0):
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weight


def as_numpy(values: Any) -> Any:
    """Convert an array of any library and device to NumPy; return anything else unchanged."""
    if isinstance(values, np.ndarray) or not hasattr(values, "__dlpack__"):
        return values
    return values.numpy(force=True) if hasattr(values, "numpy") else np.from_dlpack(values, device="cpu")


def check_classes(present: Vector, weights: Vector, others: float, marker: Any, name: str) -> None:
    """Raise an error for fewer than two classes; warn if the marker of unlabeled points may be meant as a class.

    `present` are the classes of the labeled points, `weights` their total weights, and `others` is the total weight of
    the unlabeled points.  The marker -1, as in scikit-learn, is ambiguous together with other negative classes, or with
    0 and 1 if it is not much more frequent than the larger of them.
    """
    minus = isinstance(marker, Real) and marker == -1 and present.dtype.kind in "iuf" and others > 0
    if len(present) >= 2:
        if minus and (present[0] < 0 or (np.array_equal(present, [0, 1]) and others <= 1.5 * weights.max())):
            classes = ", ".join(f"{c:g}" for c in present[:4]) + (", .." if len(present) > 4 else "")
            warn(
                f"y is -1, {classes}, and {name} takes -1 for points without a label. If -1 is a class, pass "
                "unlabeled=None. Otherwise, marking missing labels by NaN, with unlabeled=np.nan, avoids this warning."
            )
        return
    if len(present) == 0:
        raise ValueError(f"{name} needs labeled points of at least two classes; every y is {marker!r}, unlabeled.")
    if minus and present[0] in (0, 1):
        raise ValueError(
            f"y is -1 or {present[0]:g} and {name} takes -1 for unlabeled points, which leaves only one class. If -1 "
            "is a class, pass unlabeled=None, or encode the classes as 0 and 1."
        )
    raise ValueError(
        f"{name} needs two classes or more among the labeled points; there is only one class: {present[0]}."
    )


def fill_missing(y: Any, marker: Any, classes: bool = False) -> tuple[Vector, Vector]:
    """Fill missing labels with an observed one, so that y passes scikit-learn's checks; return y and the mask.

    With `classes`, integers that rounding to a common type would make equal are refused.
    """
    if issparse(y):
        raise TypeError("y is a sparse matrix; dense labels are needed: pass y.toarray().ravel().")
    arrays.check_unmasked(y, "y")
    column = column_or_1d(arrays.as_column(as_numpy(y)), warn=True)
    missing = checked_unlabeled(column, marker)
    known = of_one_kind(column[~missing], classes)
    filled = np.zeros(len(column), dtype=known.dtype)
    filled[~missing] = known
    filled[missing] = known[:1] if len(known) else 0
    return filled, missing


def checked_unlabeled(y: Vector, marker: Any) -> Vector:
    """Return the mask of rows of y that equal the marker; refuse missing values if NaN is not the marker.

    The marker NaN stands for all missing values: NaN, None, NaT, and pandas' NA.
    """
    missing = is_missing(y)
    if marker is not None and _is_missing_value(marker):
        return missing
    if missing.any():
        raise ValueError(
            f"y contains NaN, or no value, at row {np.argmax(missing)}: drop such points or, if they have no label and "
            "the estimator has this parameter, pass unlabeled=np.nan."
        )
    _check_marker_type(y, marker)
    if y.dtype.kind == "O":
        return np.array([type(v) is not bool and bool(v == marker) for v in y], dtype=bool)
    comparable = marker is not None and (y.dtype.kind in "US") == isinstance(marker, str | bytes)
    return np.asarray(y == marker) if comparable else np.zeros(len(y), dtype=bool)


def is_missing(y: Vector) -> Vector:
    """Return the mask of values of y that are NaN, None, NaT or pandas' NA."""
    return np.array([_is_missing_value(v) for v in y], dtype=bool) if y.dtype.kind == "O" else np.asarray(y != y)


def _is_missing_value(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # the truth value of pandas' NA is undefined
        return True


def _check_marker_type(y: Vector, marker: Any) -> None:
    """Refuse a numeric marker if y has the same number as text, and a text marker if y has it as a number."""
    text, number = isinstance(marker, str), _as_float(marker)
    if y.dtype.kind not in ("biufO" if text else "UO") or number is None:
        return
    matches = sorted({repr(v) for v in y.tolist() if isinstance(v, str) != text and _as_float(v) == number})
    if matches:
        kinds = ("number", "text") if text else ("text", "number")
        raise ValueError(
            f"y has the {kinds[0]} {matches[0]}, and unlabeled={marker!r} is a {kinds[1]}: pass unlabeled={matches[0]} "
            "if that marks a missing label, or unlabeled=None if it is a class."
        )


def _as_float(value: Any) -> float | None:
    """Return the value as a float, also from text; None if it is not a number."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def of_one_kind(values: Vector, classes: bool = True) -> Vector:
    """Convert labels to an array of text or of numbers; refuse `classes` that rounding could change."""
    if values.dtype.kind != "O":
        return values
    text = [v for v in values if isinstance(v, str)]
    if 0 < len(text) < len(values):
        other = next(v for v in values if not isinstance(v, str))
        raise ValueError(
            f"y mixes text ({text[0]!r}) and numbers ({other!r}): convert all classes to text, or to numbers. The "
            "parameter `unlabeled` is the marker of missing labels."
        )
    converted = np.array(values.tolist()) if len(values) else values
    large = [v for v in values if isinstance(v, int) and abs(v) > arrays.LARGEST_EXACT]
    if classes and large and converted.dtype.kind not in "iu":
        raise ValueError(
            f"y has the integer {large[0]} and other numbers with which it has no common 64-bit type, so that rounding "
            "could merge two classes: convert all classes to text."
        )
    return converted


def columns_of(y: Any) -> int:
    """Return the number of outputs of y: its columns, or 1 for a one-dimensional array."""
    shape = np.asarray(as_numpy(y)).shape
    return int(shape[1]) if len(shape) == 2 else 1


def fill_missing_targets(y: Any, marker: Any) -> tuple[Vector, Vector]:
    """Fill missing targets of y (t,) or (t, outputs); return y and the mask of rows that have no target."""
    if columns_of(y) == 1:
        return fill_missing(y, marker)
    arrays.check_unmasked(y, "y")
    columns = [fill_missing(column, marker) for column in np.asarray(as_numpy(y)).T]
    missing = np.stack([mask for _, mask in columns], axis=1)
    partial = np.flatnonzero(missing.any(axis=1) & ~missing.all(axis=1))
    if len(partial):
        raise ValueError(
            f"Row {partial[0]} of y is missing in some outputs and a number in others: fit a regressor for each "
            "output, as sklearn.multioutput.MultiOutputRegressor does."
        )
    return np.where(missing, 0.0, np.stack([filled for filled, _ in columns], axis=1)), missing[:, 0]


def checked_slopes(gradients: Any, X: Array, outputs: int | None) -> Vector:
    """Validate measured slopes (t, n) or (t, n, outputs) and return them in NumPy, NaN for missing ones."""
    arrays.check_unmasked(gradients, "gradients")
    is_array = hasattr(gradients, "__dlpack__") or issparse(gradients)  # `as_real` refuses the latter
    array = gradients if is_array else np.asarray(gradients)
    if isinstance(array, np.ndarray) and array.dtype.kind == "O":
        array = np.where(is_missing(array.reshape(-1)).reshape(array.shape), np.nan, array).astype(np.float64)
    slopes = double(arrays.as_real(array, "gradients"))
    t, n = (int(size) for size in X.shape)
    shape = (t, n) if outputs is None else (t, n, outputs)
    if slopes.shape != shape:
        raise ValueError(
            f"gradients has shape {slopes.shape}, but one slope for each feature of each row of X"
            f"{'' if outputs is None else ' and each output of y'} makes {shape}. NaN marks slopes that were not "
            "measured."
        )
    if np.any(np.isinf(slopes)):
        raise ValueError("gradients contains infinity: mark slopes that were not measured by NaN.")
    if np.all(np.isnan(slopes)):
        raise ValueError("All gradients are NaN, that is, none was measured: leave gradients out.")
    return slopes


def check_columns_of(frame: Any, estimator: BaseEstimator, name: str) -> None:
    """Refuse a data frame, such as one of slopes, whose columns are not those of X in the same order."""
    named = getattr(Columns.of(frame), "feature_names_in_", None) if hasattr(frame, "columns") else None
    if named is None or not hasattr(estimator, "feature_names_in_"):
        return
    try:
        check_columns(estimator, frame)
    except ValueError as error:
        raise ValueError(f"The columns of {name} must be those of X. {error}") from error


def class_codes(labels: Vector, classes: Vector, all_rows: str) -> Vector:
    """Return the index of each label among the classes; for others the error names a remedy with `all_rows`."""
    known = {label: code for code, label in enumerate(classes.tolist())}
    codes = np.array([known.get(label, -1) for label in labels.tolist()], dtype=int)
    if np.any(codes < 0):
        raise ValueError(
            f"y has the class {labels[codes < 0].tolist()[0]!r}, which is not among {classes.tolist()}: pass all "
            f"`classes` to the first partial_fit, or {all_rows}."
        )
    return codes


def one_vs_rest(codes: Vector, count: int) -> Vector:
    """Return the targets +1 and -1, (l,) for two classes, of which the second is +1, and (l, classes) for more."""
    if count == 2:
        return np.where(codes == 1, 1.0, -1.0)
    return np.where(codes[:, None] == np.arange(count), 1.0, -1.0)


def predicted_codes(scores: Vector) -> Vector:
    """Return the indices of the predicted classes: by the sign of one score (t,) or (t, 1), or by the largest score."""
    if scores.ndim == 1 or scores.shape[1] == 1:
        return (scores.reshape(-1) > 0).astype(int)
    return np.asarray(scores.argmax(axis=1))


@dataclass(frozen=True)
class ClassPrior:
    """The proportions of the classes where predictions are made; for the parameter `class_weight` of classifiers.

    Labels are few and may come in other proportions.  The losses of a class with l_c of the l labels are multiplied by
    p_c l / l_c, as if labels had come in the proportions p.  If there are unlabeled points too, the mean of the
    function of each class over all points should be 2 p_c - 1, that of 1 on the class and -1 elsewhere: a term with
    the weight of all labels together.

    Parameters
    ----------
    shares : dict or array-like
        The share of each class, by class or in the order of `classes_`; they are scaled to the sum one.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X, y = np.array([[0.0], [1.0], [1.5]]), [0, 1, 1]
    >>> model = rkhs.InvariantClassifier(class_weight=rkhs.ClassPrior({0: 0.9, 1: 0.1})).fit(X, y)
    """

    shares: Any

    @classmethod
    def estimate(cls, model: Any, X: Any, y: Any) -> ClassPrior:
        """Estimate the proportions of the classes among the rows of X.

        If rows of a class are distributed alike everywhere and only the proportions differ, the likelihood of the rows
        is largest for the p that is a fixed point of

            P(c | x)  in proportion to  (p_c / q_c) P_trained(c | x),        p_c = mean over the rows of P(c | x),

        q being the proportions of the labels (Saerens, Latinne and Decaestecker, Adjusting the outputs of a classifier
        to new a priori probabilities, 2002: expectation maximization).  Estimates are as good as the probabilities:
        with few labels expect errors of some hundredths.

        Parameters
        ----------
        model : estimator
            A fitted classifier with `predict_proba`, of this library or another.
        X : array-like of shape (t, n)
            The rows, labeled or not, in which the proportions are estimated.
        y : array-like of shape (t,)
            The labels that the model learned from; values that are not among its classes count as unlabeled.

        Returns
        -------
        ClassPrior
            The share of each class.

        Examples
        --------
        All classes have the same number of labels, but the rows are unbalanced:

        >>> import numpy as np, rkhs
        >>> rng = np.random.default_rng(0)
        >>> X = np.concatenate([rng.normal(-1.5, 1, (900, 1)), rng.normal(1.5, 1, (100, 1))])
        >>> y = np.full(1000, -1)
        >>> y[:40], y[900:940] = 0, 1
        >>> model = rkhs.InvariantClassifier(loss="logistic", invariance=None, scale=2.0).fit(X, y)
        >>> prior = rkhs.ClassPrior.estimate(model, X, y)
        >>> 0.85 < prior.shares[0] < 0.95
        True
        >>> model = model.set_params(class_weight=prior).fit(X, y)
        """
        if not hasattr(model, "predict_proba"):
            raise TypeError(
                f"Proportions are estimated from probabilities, but {model!r} has no predict_proba: pass a classifier "
                "that has it."
            )
        classes, labels = np.asarray(model.classes_), to_numpy(y).ravel()
        trained = np.array([np.count_nonzero(labels == c) for c in classes], dtype=float)
        if np.any(trained == 0):
            raise ValueError(
                f"y has no label of {classes[trained == 0].tolist()}, which {type(model).__name__} has learned: pass "
                "the labels that it was fitted to."
            )
        probabilities = np.asarray(to_numpy(model.predict_proba(X)), dtype=float)
        if len(probabilities) == 0:
            raise ValueError("X has no rows from which to estimate proportions.")
        trained /= trained.sum()
        shares = trained
        for _ in range(10_000):
            adjusted = probabilities * (shares / trained)
            totals = np.maximum(adjusted.sum(axis=1, keepdims=True), np.finfo(float).tiny)
            new = np.mean(adjusted / totals, axis=0)
            change, shares = float(np.abs(new - shares).max()), new
            if change <= 1e-9:
                break
        return cls(dict(zip(classes.tolist(), shares.tolist(), strict=True)))

    def of(self, classes: Vector) -> Vector:
        """Return the shares of the given classes, in their order, scaled to the sum one.

        Parameters
        ----------
        classes : ndarray of shape (k,)
            The classes.

        Returns
        -------
        ndarray of shape (k,)
            Their shares.
        """
        values: Any = self.shares
        if isinstance(values, str):
            raise ValueError(
                f"ClassPrior needs a dict or an array of shares, got {values!r}: ClassPrior.estimate estimates them, "
                'and class_weight="balanced" makes them equal.'
            )
        if isinstance(values, Mapping):
            if set(values) != set(classes.tolist()):
                raise ValueError(f"ClassPrior needs a share for each of {classes.tolist()}, got {list(values)}.")
            values = [values[c] for c in classes.tolist()]
        shares = np.asarray(values, dtype=float)
        if shares.shape != classes.shape or not np.all((shares > 0) & np.isfinite(shares)):
            raise ValueError(f"ClassPrior needs a positive share for each of {classes.tolist()}, got {values!r}.")
        return np.asarray(shares / shares.sum())


def class_weights(class_weight: Any, classes: Vector, codes: Vector, weight: Vector) -> Vector:
    """Return the class weight of each point, from class indices (l,) and sample weights (l,).

    "balanced" is a `ClassPrior` with equal shares: all classes have the same total weight.  It is the normalization of
    Zhang et al. 2013, section 6.3, times l / k for l labels of k classes.
    """
    if class_weight is None:
        return np.ones(len(codes))
    if not isinstance(class_weight, Mapping | ClassPrior) and not (
        isinstance(class_weight, str) and class_weight == "balanced"
    ):
        raise ValueError(f'class_weight must be None, "balanced", a dict or an rkhs.ClassPrior, got {class_weight!r}.')
    if isinstance(class_weight, str | ClassPrior):
        counts = np.bincount(codes, weights=weight, minlength=len(classes))
        shares = 1 / np.count_nonzero(counts) if isinstance(class_weight, str) else class_weight.of(classes)
        factors = shares * weight.sum() / np.where(counts > 0, counts, 1.0)
    else:
        unknown = set(class_weight) - set(classes.tolist())
        if unknown:
            raise ValueError(f"class_weight names classes that no labeled point has: {sorted(map(str, unknown))}.")
        factors = np.array([float(class_weight.get(c, 1.0)) for c in classes.tolist()])
    return np.asarray(factors[codes])
