"""Tangents: f does not change under small transformations of the data.

The transformations are given by a function, typical of signals, or replace words of a document by others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy import ndimage
from scipy.sparse import csc_array, csr_array

from rkhs._core.backend.arrays import (
    Array,
    Matrix,
    Vector,
    as_array,
    as_points,
    check_count,
    check_number,
    double,
    like,
    take_rows,
    to_numpy,
    unique_rows,
)
from rkhs._core.backend.sparse import SparseVectors
from rkhs.functionals import DirectionalDerivative


class TangentFamily(ABC):
    """Transformations T_k of the rows of X with tangents v_k = d/da T_k(x, a) at a = 0.

    A subclass has the `names` of the transformations, and implements `_tangents` and `_moved` for rows in NumPy and
    float64.
    """

    @abstractmethod
    def _tangents(self, rows: Matrix) -> Matrix:
        """Return the tangents (t, k, n) of rows (t, n), or (t, n) for a single transformation."""

    @abstractmethod
    def _moved(self, rows: Matrix, amount: float) -> Matrix:
        """Return T_k(x, amount) for all rows and transformations, (t, k, n)."""

    def vectors(self, X: Array) -> Array:
        """Return the tangents of the rows of X.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.

        Returns
        -------
        array of shape (t, k, n)
            The tangents of each row; (t, n) for a single transformation.
        """
        points = as_points(X)
        return like(self._tangents(double(points)), points)

    def moved(self, X: Array, amount: float) -> Array:
        """Return the rows of X under each of the transformations, without smoothing.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.
        amount : float
            The amount of the transformations.

        Returns
        -------
        array of shape (t, k, n)
            The transformed rows.
        """
        points = as_points(X)
        return like(self._moved(double(points), amount), points)

    def __call__(self, X: Array) -> DirectionalDerivative:
        """Return the derivatives along the tangents at each row.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.

        Returns
        -------
        DirectionalDerivative
            The functionals, of shape (t, k), or (t,) for a single transformation.
        """
        points = as_points(X)
        return DirectionalDerivative(points, self.vectors(points))


def central_difference(moved: Callable[[float], Matrix], step: float) -> Matrix:
    """Return (T(step) - T(-step)) / (2 step) for T = `moved`."""
    return (moved(step) - moved(-step)) / (2 * step)


def checked_kinds(kinds: str | Sequence[str], known: Iterable[str]) -> tuple[str, ...]:
    """Validate the names of transformations and return them as a tuple."""
    given = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    if not given or not set(given) <= set(known):
        raise ValueError(f"kinds must be among {', '.join(known)}, got {list(given)}.")
    return given


def smoothed_slope(values: Matrix, width: float, axis: int) -> Matrix:
    """Return the derivative along an axis of samples that are smoothed along it by a Gaussian.

    The weights are those of the Gaussian's derivative, divided by a factor that makes the slope of a line exact.  For
    widths below half a sample, which the samples of that derivative miss, they are those of the central difference.
    """
    if not width:
        return np.gradient(values, axis=axis)
    k = np.arange(1, max(2, int(4 * width + 0.5) + 1))
    weights = k * np.exp((1 - k**2) / 2 / width / width)
    weights = weights / (2 * np.sum(k * weights))
    return ndimage.correlate1d(values, np.concatenate([-weights[::-1], [0.0], weights]), axis, mode="nearest")


@dataclass(frozen=True)
class Tangents(TangentFamily):
    """Invariance under small transformations by a user's function.

        L_i(f) = <v_i, grad f(x_i)> with v_i = (T(x_i, step) - T(x_i, -step)) / (2 step)

    Parameters
    ----------
    transform : callable
        A function (X, a) -> the rows of X transformed by the amount a, with T(X, 0) = X.  To pickle the model, use a
        function of a module, not a lambda.
    step : float, default=1e-3
        The amount in the difference quotient.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from rkhs.invariances import Tangents
    >>> def rotate(X, angle):
    ...     c, s = np.cos(angle), np.sin(angle)
    ...     return X @ np.array([[c, s], [-s, c]])
    >>> Tangents(rotate, step=1e-4).vectors(np.array([[1.0, 0.0]])).round(6)
    array([[0., 1.]])
    """

    transform: Callable[[Array, float], Array]
    step: float = 1e-3

    def __post_init__(self) -> None:
        if not callable(self.transform):
            raise TypeError(f"transform must be a function of (X, amount), got {self.transform!r}.")
        check_number(self.step, "step")

    @property
    def names(self) -> list[str]:
        """The name of the transformation, in a list."""
        return [getattr(self.transform, "__name__", "transform")]

    def _tangents(self, rows: Matrix) -> Matrix:
        return central_difference(lambda amount: self._transformed(rows, amount), self.step)

    def _moved(self, rows: Matrix, amount: float) -> Matrix:
        return self._transformed(rows, amount)[:, None]

    def _transformed(self, rows: Matrix, amount: float) -> Matrix:
        result = np.asarray(self.transform(rows, amount))
        if result.shape != rows.shape:
            raise ValueError(
                f"{self.names[0]} maps points of shape {rows.shape} to shape {result.shape}: a transformation must "
                "keep the shape."
            )
        return result


# kind -> tangent as a function of the smoothed signals g, their derivatives g' and the time, which runs from -1 to 1
TANGENTS: dict[str, Callable[[Matrix, Matrix, Matrix], Matrix]] = {
    "shift": lambda g, slope, time: -slope,  # g(time - a), a in samples
    "stretch": lambda g, slope, time: -time * slope,  # the ends move by a samples
    "amplitude": lambda g, slope, time: g,  # (1 + a) g
    "offset": lambda g, slope, time: np.ones_like(g),  # g + a
    "drift": lambda g, slope, time: np.broadcast_to(time, g.shape),  # g + a time, a linear drift of the baseline
}


@dataclass(frozen=True)
class SignalTangents(TangentFamily):
    """Invariance of signals under small shifts, stretches, changes of amplitude and drifts.

        L_ik(f) = <v_ik, grad f(x_i)>: the change of f under transformation k of the signal x_i

    The rows of X are signals sampled at equal intervals.  With g the smoothed signal and time from -1 to 1, the
    tangents are -g' (shift), -time g' (stretch), g (amplitude), 1 (offset) and time (drift).

    Parameters
    ----------
    kinds : sequence of {"shift", "stretch", "amplitude", "offset", "drift"}
        The transformations; by default the first three.
    smoothing : float, default=1.0
        The width in samples of the Gaussian that smooths the signal first.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.invariances import SignalTangents
    >>> SignalTangents(kinds=["shift", "drift"], smoothing=0).vectors(np.array([[0.0, 2.0, 4.0, 6.0, 8.0]]))
    array([[[-2. , -2. , -2. , -2. , -2. ],
            [-1. , -0.5,  0. ,  0.5,  1. ]]])
    """

    common_unit = True  # of all features
    kinds: Sequence[str] = ("shift", "stretch", "amplitude")
    smoothing: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "kinds", checked_kinds(self.kinds, TANGENTS))
        check_number(self.smoothing, "smoothing", or_zero=True)

    @property
    def names(self) -> list[str]:
        """The names of the transformations."""
        return list(self.kinds)

    def _tangents(self, rows: Matrix) -> Matrix:
        time, slope = _times(rows), smoothed_slope(rows, self.smoothing, 1)
        g = ndimage.gaussian_filter1d(rows, self.smoothing, 1, mode="nearest") if self.smoothing else rows
        return np.stack([TANGENTS[kind](g, slope, time) for kind in self.kinds], axis=1)

    def _moved(self, rows: Matrix, amount: float) -> Matrix:
        time, changed = _times(rows), []
        for kind in self.kinds:
            if kind in ("shift", "stretch"):
                samples = np.arange(rows.shape[1]) - amount * (time if kind == "stretch" else 1.0)
                signals = [ndimage.map_coordinates(signal, [samples], order=3, mode="nearest") for signal in rows]
                changed.append(np.array(signals).reshape(rows.shape))
            else:  # linear in the amount, and without a derivative
                changed.append(rows + amount * TANGENTS[kind](rows, rows, time))
        return np.stack(changed, axis=1)


def _times(signals: Matrix) -> Vector:
    """Return the times of the samples of signals (t, n)."""
    if signals.shape[1] < 2:
        raise ValueError("X has one feature: a signal needs at least two samples.")
    return np.linspace(-1, 1, signals.shape[1])


@dataclass(frozen=True)
class TangentStep:
    """The transformation X -> T_k(X, amount) by one of the kinds of a family of tangents.

    Parameters
    ----------
    tangents : ImageTangents, SignalTangents or Tangents
        The transformations T.
    which : int
        The index k in ``tangents.names``.
    amount : float
        The amount of the transformation.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.invariances import TangentStep, SignalTangents
    >>> TangentStep(SignalTangents(kinds=["offset"]), 0, 2.0)(np.array([[1.0, 3.0]]))
    array([[3., 5.]])
    """

    tangents: Any
    which: int
    amount: float

    def __call__(self, X: Array) -> Array:
        """Return the transformed rows.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.

        Returns
        -------
        array of shape (t, n)
            The transformed rows.
        """
        return self.tangents.moved(X, self.amount)[:, self.which]


def transformed_copies(tangents: Any, amounts: Sequence[float] = (-1.0, 1.0)) -> list[TangentStep]:
    """Return the transformations by all kinds and all amounts, for `rkhs.VirtualSampleSVC`.

    Parameters
    ----------
    tangents : ImageTangents, SignalTangents or Tangents
        The transformations.
    amounts : sequence of float, default=(-1.0, 1.0)
        The amounts, in the units of the tangents.

    Returns
    -------
    list of Moved
        The callables X -> transformed X.

    Examples
    --------
    >>> import rkhs
    >>> from rkhs.invariances import ImageTangents, transformed_copies
    >>> transforms = transformed_copies(ImageTangents(shape=(8, 8), kinds=["translation", "rotation"]), amounts=(-1, 1))
    >>> len(transforms)  # down, right and rotation, in both directions
    6
    >>> model = rkhs.VirtualSampleSVC(transforms)
    """
    kinds = getattr(tangents, "kinds", None)
    singles = [tangents] if kinds is None else [replace(tangents, kinds=(kind,)) for kind in kinds]
    return [TangentStep(single, k, float(a)) for single in singles for k in range(len(single.names)) for a in amounts]


@dataclass(frozen=True)
class WordSubstitution:
    """Invariance of documents under the substitution of words.

        L(f) = <u, grad f(x)>,  u = x_a (w_b / w_a e_b - e_a)

    for each document x that contains a word a, and each pair in which a word b may stand for it: the exact derivative
    of f as b takes the place of a.  X has a column for each word, such as word counts (w = 1) or TF-IDF features
    (w = idf), and stays sparse if it is.  Both words of a pair may stand for the other.

    Parameters
    ----------
    pairs : sequence of pairs
        The pairs of words, as columns of X or as names.
    words : sequence of str, optional
        The words of the columns, such as ``vectorizer.get_feature_names_out()``, if pairs are named; by default the
        column names of the data frame that the estimator is fitted with.
    weights : array-like of shape (n,), optional
        The weight w of each word in X, such as the ``idf_`` of a TfidfVectorizer; all one by default.
    most : int, default=2000
        The maximal number of functionals; if there are more, they are drawn at random.
    random_state : int, default=0
        The seed of the draw.

    Examples
    --------
    >>> import rkhs
    >>> from rkhs.invariances import WordSubstitution
    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> texts = ["fast cars", "slow cars", "quick boats", "quick trains"]
    >>> vectorizer = TfidfVectorizer()
    >>> X = vectorizer.fit_transform(texts)
    >>> prior = WordSubstitution([("fast", "quick")], vectorizer.get_feature_names_out(), vectorizer.idf_)
    >>> prior(X)  # at three documents
    DirectionalDerivative(3 points in R^6)
    >>> model = rkhs.InvariantClassifier("linear", invariance=prior, nu=10.0).fit(X, [1, 0, -1, -1])
    >>> model.predict(X[2:])  # no word of these has a label
    array([1, 1])
    """

    pairs: Sequence[tuple[int | str, int | str]]
    words: Sequence[str] | None = None
    weights: Any = None
    most: int = 2000
    random_state: int = 0
    takes_sparse: ClassVar[bool] = True

    def __post_init__(self) -> None:
        pairs = tuple(tuple(pair) for pair in self.pairs)
        if not pairs or any(len(pair) != 2 or pair[0] == pair[1] for pair in pairs):
            raise ValueError(f"pairs must be pairs of different words, such as [(3, 7)], got {self.pairs!r}.")
        object.__setattr__(self, "pairs", pairs)
        if self.words is not None:
            object.__setattr__(self, "words", tuple(map(str, self.words)))
        if self.weights is not None:
            weights = to_numpy(as_array(self.weights, "weights"))
            if weights.ndim != 1 or not np.all(weights > 0):
                raise ValueError(f"weights must be positive, one for each word, got shape {weights.shape}.")
            object.__setattr__(self, "weights", tuple(weights.tolist()))
        check_count(self.most, "most")

    def resolve_columns(self, names: Sequence[str] | None) -> WordSubstitution:
        """Return the same prior with words replaced by columns; `names` are the columns of X or None.

        Parameters
        ----------
        names : sequence of str or None
            The column names of X, used if `words` is None.

        Returns
        -------
        WordSubstitution
            The prior with pairs of columns.
        """
        words = self.words if self.words is not None else names
        known = {str(word): k for k, word in enumerate([] if words is None else words)}
        unknown = sorted({word for pair in self.pairs for word in pair if isinstance(word, str) and word not in known})
        if unknown:
            remedy = "leave these pairs out" if known else "pass words=vectorizer.get_feature_names_out()"
            raise ValueError(f"WordSubstitution names words that X does not have ({', '.join(unknown[:5])}): {remedy}.")
        columns = tuple(tuple(known[w] if isinstance(w, str) else int(w) for w in pair) for pair in self.pairs)
        return replace(self, pairs=columns, words=None)  # type: ignore[arg-type]

    def __call__(self, X: Array) -> DirectionalDerivative:
        """Return the derivatives at the documents that contain a word of a pair.

        Parameters
        ----------
        X : array-like or SciPy sparse matrix of shape (t, n)
            The documents, with a column for each word.

        Returns
        -------
        DirectionalDerivative
            The functionals, a flat family.
        """
        points = as_points(X, sparse=True)
        n, sparse = int(points.shape[1]), isinstance(points, SparseVectors)
        columns = np.array(self.resolve_columns(None).pairs, dtype=np.intp).reshape(-1, 2)
        if columns.min() < 0 or columns.max() >= n:
            raise ValueError(f"WordSubstitution has pairs of columns that X does not have; they are 0 to {n - 1}.")
        weights = np.ones(n) if self.weights is None else np.asarray(self.weights)
        if len(weights) != n:
            raise ValueError(f"WordSubstitution has {len(weights)} weights, and X has {n} columns: give one for each.")
        # the documents, the word that leaves each, the word that takes its place, and the amounts, (r,) each
        both = unique_rows(np.concatenate([columns, columns[:, ::-1]]))[0]
        counts = csc_array(points.matrix if sparse else to_numpy(points))[:, both[:, 0]]
        present, pair = np.flatnonzero(counts.data), np.repeat(np.arange(len(both)), np.diff(counts.indptr))
        if len(present) > self.most:
            random = np.random.default_rng(self.random_state)
            present = np.sort(random.choice(present, self.most, replace=False))
        documents, (out, into), amounts = counts.indices[present], both[pair[present]].T, counts.data[present]
        rows = np.tile(np.arange(len(documents)), 2)
        data = np.concatenate([-amounts, amounts * weights[into] / weights[out]])
        V = csr_array((data, (rows, np.concatenate([out, into]))), shape=(len(documents), n))
        return DirectionalDerivative(take_rows(points, documents), V if sparse else V.toarray())
