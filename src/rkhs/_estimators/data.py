"""The training data as the estimators see them: equal rows merged, rows of weight zero left out, targets checked.

Merging makes the problem smaller and does not change f.  Observations are left out, and counted, row by row: the twins
of a row stay, as rows do that differ by next to nothing.  So a point knows how many rows it stands for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.random import sample_without_replacement

from rkhs._backend.arrays import LARGEST_EXACT, Array, Vector, as_column, as_real, check_unmasked, taken, to_numpy
from rkhs._warnings import warn
from rkhs.streams._blocks import Columns, check_columns


@dataclass(frozen=True, eq=False)
class Sample:
    """Points X (t, n) with weights (t,), what y says of each of them (a class index or a target), and where it does.

    A point stands for `count` (t,) equal rows and has the sum of their weights.  If all sample weights are integers, a
    weight is a number of rows, as scikit-learn's glossary defines it; other weights say how much one row counts.
    Points with different `marks` (t, k), such as the folds they belong to, are never merged.  `slopes` (t, n), or
    (t, n, outputs), were measured there, NaN where they were not; None where there are none.
    """

    X: Array
    weight: Vector
    y: Vector  # 0 where there is no label; (t, outputs) for several targets
    labeled: Vector
    marks: Vector
    count: Vector
    slopes: Vector | None = None

    @classmethod
    def of(
        cls,
        X: Array,
        sample_weight: Any,
        y: Vector,
        labeled: Vector,
        marks: Vector | None = None,
        slopes: Vector | None = None,
        merge: bool = True,
    ) -> Sample:
        """Check weights and merge points; these are laid out by rows, so that a data frame rounds as an array does."""
        X = np.ascontiguousarray(X) if isinstance(X, np.ndarray) else X
        marks = np.zeros((len(y), 0)) if marks is None else marks
        known = np.where(labeled if y.ndim == 1 else labeled[:, None], y, 0)
        weight = as_weights(sample_weight, X)
        countable = float(weight.sum()) <= LARGEST_EXACT  # by float64
        whole = countable and bool(np.all(weight == np.round(weight)))
        count = weight.astype(np.int64) if whole else np.ones(len(weight), dtype=np.int64)
        sample = cls(X, weight, known, labeled, marks, count, slopes)
        sample = sample.take(weight > 0)
        return sample._merged(whole) if merge else sample

    @property
    def size(self) -> int:
        return len(self.weight)

    @property
    def repeats(self) -> int:
        """The number of observations, of values and of slopes, that were merged into others."""
        observed = self.labeled.astype(int)
        if self.slopes is not None:
            observed = observed + np.sum(~np.isnan(self.slopes.reshape(*self.slopes.shape[:2], -1)[..., 0]), axis=1)
        return int((self.count - 1) @ observed)

    def take(self, rows: Any) -> Sample:
        """Return some of the points; all of them are this sample itself, so that terms share what is computed."""
        index = np.arange(self.size)[rows]
        if np.array_equal(index, np.arange(self.size)):
            return self
        arrays = ("weight", "y", "labeled", "marks", "count", *(() if self.slopes is None else ("slopes",)))
        return replace(self, X=taken(self.X, index), **{name: getattr(self, name)[index] for name in arrays})

    def apart(self, most: int = 100_000) -> Sample:
        """Return every row as a point of its own, with its share of the weight; `most` rows drawn from more."""
        rows = drawn_rows(self.count, most, 0)
        if np.array_equal(rows, np.arange(self.size)):
            return self
        share = replace(self, weight=self.weight / self.count, count=np.ones_like(self.count))
        return share.take(rows)

    def _merged(self, whole: bool) -> Sample:
        """Return each point once, its weight the sum of its rows' weights; `whole` if these are numbers of rows.

        The points keep their order if none repeats and all weights are one; otherwise they come in an order that
        depends on nothing but which points there are.
        """
        columns = [to_numpy(self.X).astype(np.float64), self.y, self.labeled, self.marks]
        if self.slopes is not None:
            columns.append(self.slopes.reshape(self.size, -1))
        if not whole:
            columns.append(self.weight)
        rows = np.column_stack(columns)
        _, first, inverse = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        if len(first) == len(rows) and np.all(self.weight == 1):
            return self
        weight = np.bincount(inverse.reshape(-1), weights=self.weight)
        count = np.bincount(inverse.reshape(-1), weights=self.count).astype(np.int64)
        order = np.random.default_rng(0).permutation(len(first))  # blocks of a sorted set would be poor folds
        return replace(self.take(first[order]), weight=weight[order], count=count[order])


def drawn_rows(count: Vector, most: int, random_state: Any) -> Vector:
    """Return the points of all rows, each as often as it has rows; of more than `most` rows, those of a random draw."""
    ends = np.cumsum(count)
    total = int(ends[-1]) if len(ends) else 0
    if total <= most:
        return np.repeat(np.arange(len(count)), count)
    drawn = np.sort(sample_without_replacement(total, most, random_state=random_state))
    return np.searchsorted(ends, drawn, side="right")


def as_weights(sample_weight: Any, X: Array) -> Vector:
    """Return one checked weight for each point, in NumPy."""
    if sample_weight is None:
        return np.ones(int(X.shape[0]))
    check_unmasked(sample_weight, "sample_weight")
    weight = as_numpy(sample_weight)
    weight = check_array(weight, ensure_2d=False, dtype=np.float64, copy=True, input_name="sample_weight")
    if weight.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar, got shape {weight.shape}.")
    check_consistent_length(to_numpy(X[:, :1]), weight)
    if np.any(weight < 0):
        raise ValueError(f"Negative values in data passed to `sample_weight`: {weight.min():g}.")
    if not np.any(weight > 0):
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weight


def as_numpy(values: Any) -> Any:
    """Return an array of any namespace and device in NumPy; anything else as it is."""
    if isinstance(values, np.ndarray) or not hasattr(values, "__dlpack__"):
        return values
    return values.numpy(force=True) if hasattr(values, "numpy") else np.from_dlpack(values, device="cpu")


def check_classes(left: Vector, weights: Vector, others: float, marker: Any, name: str) -> None:
    """Refuse fewer than two classes, with the remedy; warn where the marker may have been meant as a class.

    The classes `left` of labeled points have weights, and `others` is that of the points without a label.  The number
    -1 stands for no label, as in scikit-learn, and is ambiguous on a scale: beside other negative classes, or beside 0
    and 1 where it is about as frequent as the larger of them, or less.
    """
    minus = isinstance(marker, Real) and marker == -1 and left.dtype.kind in "iuf" and others > 0
    if len(left) >= 2:
        if minus and (left[0] < 0 or (np.array_equal(left, [0, 1]) and others <= 1.5 * weights.max())):
            warn(
                f"y is -1, {', '.join(f'{c:g}' for c in left[:4])}{', ..' if len(left) > 4 else ''}, and {name} takes "
                "-1 for points without a label. If -1 is a class, pass unlabeled=None. Otherwise, marking missing "
                "labels by NaN, with unlabeled=np.nan, avoids this warning."
            )
        return
    if len(left) == 0:
        raise ValueError(f"{name} needs labeled points of at least two classes; every y is {marker!r}, unlabeled.")
    if minus and left[0] in (0, 1):
        raise ValueError(
            f"y is -1 or {left[0]:g} and {name} takes -1 for unlabeled points, which leaves only one class. If -1 is "
            "a class, say so with unlabeled=None, or encode the classes as 0 and 1."
        )
    raise ValueError(f"{name} needs two classes or more among the labeled points; there is only one class: {left[0]}.")


def fill_missing(y: Any, marker: Any, classes: bool = False) -> tuple[Vector, Vector]:
    """Fill missing labels by another one, so that scikit-learn's checks let y pass; return y and their mask.

    With `classes`, different labels stay different: whole numbers that rounding would make equal are refused.
    """
    if issparse(y):
        raise TypeError("y is a sparse matrix; dense labels are needed: pass y.toarray().ravel().")
    check_unmasked(y, "y")
    column = column_or_1d(as_column(as_numpy(y)), warn=True)
    missing = checked_unlabeled(column, marker)
    known = of_one_kind(column[~missing], classes)
    filled = np.zeros(len(column), dtype=known.dtype)
    filled[~missing] = known
    filled[missing] = known[:1] if len(known) else 0
    return filled, missing


def checked_unlabeled(y: Vector, marker: Any) -> Vector:
    """Return a mask of y where it is the marker; refuse missing values that are not the marker.

    As a marker, NaN stands for all missing values: NaN, None, NaT, and pandas' NA.
    """
    lost = no_value(y)
    if marker is not None and _is_no_value(marker):
        return lost
    if lost.any():
        raise ValueError(
            f"y contains NaN, or no value, at row {np.argmax(lost)}: drop such points, or say unlabeled=np.nan, where "
            "the estimator has that, if they have no label."
        )
    _check_twins(y, marker)
    if y.dtype.kind == "O":
        return np.array([type(v) is not bool and bool(v == marker) for v in y], dtype=bool)
    alike = marker is not None and (y.dtype.kind in "US") == isinstance(marker, str | bytes)
    return np.asarray(y == marker) if alike else np.zeros(len(y), dtype=bool)


def no_value(y: Vector) -> Vector:
    """Return a mask of y where it is NaN, None, NaT or pandas' NA."""
    return np.array([_is_no_value(v) for v in y], dtype=bool) if y.dtype.kind == "O" else np.asarray(y != y)


def _is_no_value(value: Any) -> bool:
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas' NA is neither true nor false
        return True


def _check_twins(y: Vector, marker: Any) -> None:
    """Refuse a marker that is a number where y has it as text, or the other way round."""
    text, number = isinstance(marker, str), _number(marker)
    if y.dtype.kind not in ("biufO" if text else "UO") or number is None:
        return
    twins = sorted({repr(v) for v in y.tolist() if isinstance(v, str) != text and _number(v) == number})
    if twins:
        kinds = ("number", "text") if text else ("text", "number")
        raise ValueError(
            f"y has the {kinds[0]} {twins[0]}, and unlabeled={marker!r} is a {kinds[1]}: say unlabeled={twins[0]} if "
            "that stands for no label, or unlabeled=None if it is a class."
        )


def _number(value: Any) -> float | None:
    """Return the number that a value is or reads as."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def of_one_kind(values: Vector, classes: bool = True) -> Vector:
    """Return an array of text or of numbers, also from objects; as `classes` they must not be changed by rounding."""
    if values.dtype.kind != "O":
        return values
    text = [v for v in values if isinstance(v, str)]
    if 0 < len(text) < len(values):
        other = next(v for v in values if not isinstance(v, str))
        raise ValueError(
            f"y mixes text ({text[0]!r}) and numbers ({other!r}): make text of all classes, or numbers. What stands "
            "for no label is said with `unlabeled`."
        )
    found = np.array(values.tolist()) if len(values) else values
    large = [v for v in values if isinstance(v, int) and abs(v) > LARGEST_EXACT]
    if classes and large and found.dtype.kind not in "iu":
        raise ValueError(
            f"y has the whole number {large[0]} beside others with which it has no common type of 64 bits, so that "
            "rounding could make one class of two: make text of all classes."
        )
    return found


def columns_of(y: Any) -> int:
    """Return the number of outputs of y: its columns, 1 for an array of one axis."""
    shape = np.asarray(as_numpy(y)).shape
    return int(shape[1]) if len(shape) == 2 else 1


def fill_missing_rows(y: Any, marker: Any) -> tuple[Vector, Vector]:
    """Return y (t, outputs) with zeros where it was not observed, and the mask of those rows."""
    check_unmasked(y, "y")
    columns = [fill_missing(column, marker) for column in np.asarray(as_numpy(y)).T]
    missing = np.stack([own for _, own in columns], axis=1)
    some = np.flatnonzero(missing.any(axis=1) & ~missing.all(axis=1))
    if len(some):
        raise ValueError(
            f"Row {some[0]} of y is not observed in some outputs and a number in others: fit a regressor for each "
            "output, as sklearn.multioutput.MultiOutputRegressor does."
        )
    return np.where(missing, 0.0, np.stack([own for own, _ in columns], axis=1)), missing[:, 0]


def checked_slopes(gradients: Any, X: Array, outputs: int | None) -> Vector:
    """Return measured slopes (t, n), or (t, n, outputs), in NumPy; NaN where there is none."""
    check_unmasked(gradients, "gradients")
    tensor = hasattr(gradients, "__dlpack__") or issparse(gradients)  # of which the latter is refused below
    given = gradients if tensor else np.asarray(gradients)
    if isinstance(given, np.ndarray) and given.dtype.kind == "O":
        given = np.where(no_value(given.reshape(-1)).reshape(given.shape), np.nan, given).astype(np.float64)
    slopes = to_numpy(as_real(given, "gradients")).astype(np.float64)
    t, n = (int(size) for size in X.shape)
    shape = (t, n) if outputs is None else (t, n, outputs)
    if slopes.shape != shape:
        raise ValueError(
            f"gradients has shape {slopes.shape}; a slope for each feature of each row of X"
            f"{'' if outputs is None else ' and each output of y'} makes {shape}. NaN is for what was not observed."
        )
    if np.any(np.isinf(slopes)):
        raise ValueError("gradients contains infinity: NaN is for what was not observed.")
    if np.all(np.isnan(slopes)):
        raise ValueError("Every one of gradients is NaN, not observed: leave gradients out.")
    return slopes


def check_columns_of(frame: Any, estimator: BaseEstimator, name: str) -> None:
    """Refuse a data frame beside X, such as one of slopes, whose columns are not those of X in the same order."""
    named = getattr(Columns.of(frame), "feature_names_in_", None) if hasattr(frame, "columns") else None
    if named is None or not hasattr(estimator, "feature_names_in_"):
        return
    try:
        check_columns(estimator, frame)
    except ValueError as error:
        raise ValueError(f"The columns of {name} must be those of X. {error}") from error


def one_vs_rest(codes: Vector, count: int) -> Vector:
    """Return targets +1 and -1: (l,) for two classes, the second being +1, and (l, classes) for more."""
    if count == 2:
        return np.where(codes == 1, 1.0, -1.0)
    return np.where(codes[:, None] == np.arange(count), 1.0, -1.0)


def predicted_codes(scores: Vector) -> Vector:
    """Return the index of the predicted class: by the sign of one score, (t,) or (t, 1), or the largest of several."""
    if scores.ndim == 1 or scores.shape[1] == 1:
        return (scores.reshape(-1) > 0).astype(int)
    return np.asarray(scores.argmax(axis=1))


@dataclass(frozen=True)
class ClassPrior:
    """The proportions of the classes where predictions are made; for the parameter `class_weight` of classifiers.

    Labels are few and may come in other proportions.  The losses of a class with l_c of the l labels are multiplied by
    p_c l / l_c, as if labels had come in the proportions p.

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
        X : (t, n)
            Rows whose proportions are wanted, labeled or not.
        y : (t,)
            The labels that the model learned from; a value that is none of its classes counts as no label.

        Returns
        -------
        ClassPrior
            The share of each class.

        Examples
        --------
        Each class has as many labels, and the rows are unbalanced:

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
            raise TypeError(f"Proportions are estimated from probabilities, and {model!r} has no predict_proba.")
        classes, labels = np.asarray(model.classes_), to_numpy(y).ravel()
        trained = np.array([np.count_nonzero(labels == c) for c in classes], dtype=float)
        if np.any(trained == 0):
            raise ValueError(
                f"y has no label of {classes[trained == 0].tolist()}, which {type(model).__name__} learned from."
            )
        chances = np.asarray(to_numpy(model.predict_proba(X)), dtype=float)
        if len(chances) == 0:
            raise ValueError("X has no rows from which to estimate proportions.")
        trained /= trained.sum()
        shares = trained
        for _ in range(10_000):
            own = chances * (shares / trained)
            new = np.mean(own / np.maximum(own.sum(axis=1, keepdims=True), np.finfo(float).tiny), axis=0)
            moved, shares = float(np.abs(new - shares).max()), new
            if moved <= 1e-9:
                break
        return cls(dict(zip(classes.tolist(), shares.tolist(), strict=True)))

    def of(self, classes: Vector) -> Vector:
        """Return the shares of the given classes, in their order, scaled to the sum one."""
        given: Any = self.shares
        if isinstance(given, Mapping):
            if set(given) != set(classes.tolist()):
                raise ValueError(f"ClassPrior needs a share for each of {classes.tolist()}, got {list(given)}.")
            given = [given[c] for c in classes.tolist()]
        shares = np.asarray(given, dtype=float)
        if shares.shape != classes.shape or not np.all((shares > 0) & np.isfinite(shares)):
            raise ValueError(f"ClassPrior needs a positive share for each of {classes.tolist()}, got {given!r}.")
        return np.asarray(shares / shares.sum())


def class_weights(class_weight: Any, classes: Vector, codes: Vector, weight: Vector) -> Vector:
    """Return the factor on the weight of each point by its class.

    "balanced" is a `ClassPrior` of equal shares: every class counts the same, which is the normalization of Zhang et
    al. 2013, section 6.3, times l / k for l labels of k classes.
    """
    if class_weight is None:
        return np.ones(len(codes))
    if isinstance(class_weight, str) and class_weight != "balanced":
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
