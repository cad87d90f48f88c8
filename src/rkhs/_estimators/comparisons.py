"""Learning from comparisons: preferences, rankings and survival times.

A comparison of two points is a functional f(x_i) - f(x_j).  Targets that can be ordered, and survival times that may be
censored, are comparisons of all pairs of rows whose order is known.  Their number grows with the square of the number
of rows; sorting counts them, and a random subset of them is drawn without listing them (`Order`).
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from rkhs._backend.arrays import Array, Matrix, Vector, unique_rows
from rkhs._estimators.base import as_input_type, transactional
from rkhs._estimators.data import as_numpy
from rkhs._estimators.observations import ObservationEstimator, ObservationSet
from rkhs._estimators.options import as_loss
from rkhs.functionals import Difference

BLOCK = 1000  # rows that are compared with each other at a time
LOSSES = ("logistic", "hinge", "squared_hinge")


@dataclass(frozen=True, eq=False)
class Order:
    """A partial order of rows: the row at position k comes before those at the positions 0 .. below[k] - 1.

    Attributes
    ----------
    rows : ndarray of int of shape (t,)
        The index of the row at each position.
    below : ndarray of int of shape (t,)
        The number of positions that are below each position.
    """

    rows: Vector
    below: Vector

    @classmethod
    def of_targets(cls, y: Vector) -> Order:
        """Return the order in which a row is above all rows with a smaller target."""
        rows = np.argsort(y, kind="stable")
        return cls(rows, np.searchsorted(y[rows], y[rows], side="left"))

    @classmethod
    def of_survival(cls, event: Vector, time: Vector) -> Order:
        """Return the order in which a row with an event is above all rows that are known to survive it."""
        rows = np.lexsort((event, -time))  # later times first, and at equal times the censored ones
        longer = np.searchsorted(-time[rows], -time[rows], side="left")
        censored = np.concatenate([[0], np.cumsum(~event[rows])])
        until = np.searchsorted(-time[rows], -time[rows], side="right")
        return cls(rows, np.where(event[rows], longer + censored[until] - censored[longer], 0))

    @property
    def count(self) -> int:
        """The number of pairs whose order is known."""
        return int(self.below.sum())

    def take(self, rows: Vector) -> Order:
        """Return the order of some of the rows, with their positions among these as indices."""
        index = np.full(len(self.rows), -1)
        index[rows] = np.arange(len(rows))
        kept = index[self.rows] >= 0
        before = np.concatenate([[0], np.cumsum(kept)])
        return Order(index[self.rows[kept]], before[self.below[kept]])

    def pairs(self, most: int) -> Matrix:
        """Return pairs (upper, lower) of rows: all of them, or for each upper row at most `most` that are drawn."""
        if self.count <= most * len(self.rows):
            upper = np.repeat(np.arange(len(self.rows)), self.below)
            lower = np.arange(self.count) - np.repeat(np.cumsum(self.below) - self.below, self.below)
        else:
            random = np.random.default_rng(0)
            upper = np.repeat(np.flatnonzero(self.below), most)
            lower = random.integers(0, self.below[upper])
            upper, lower = unique_rows(np.column_stack([upper, lower]))[0].T
        return np.column_stack([self.rows[upper], self.rows[lower]])

    def concordance(self, values: Vector) -> float:
        """Return the share of pairs whose values have the same order; equal values count one half.

        Positions are split into blocks.  The values of all whole blocks below a row are sorted, so that bisection
        counts the smaller ones; those of the last block are compared one by one.
        """
        values, whole = values[self.rows], self.below // BLOCK
        prefix, found = np.zeros(0), 0.0
        for block in range(int(whole.max(initial=0)) + 1):
            start = block * BLOCK
            members = np.flatnonzero((whole == block) & (self.below > 0))
            for part in np.split(members, range(BLOCK, len(members), BLOCK)):
                row, last = values[part], values[start : start + BLOCK]
                found += float(sum(np.searchsorted(prefix, row, side).sum() for side in ("left", "right"))) / 2
                inside = np.arange(len(last)) < (self.below[part] - start)[:, None]
                found += float(np.sum(np.sign(row[:, None] - last) + 1, where=inside)) / 2
            prefix = np.sort(np.concatenate([prefix, values[start : start + BLOCK]]))
        return found / self.count if self.count else float("nan")


@dataclass(eq=False, repr=False, kw_only=True)
class ComparisonEstimator(ObservationEstimator):
    """The base of estimators that learn from pairs of rows, the first of which has the larger value of f."""

    loss: Any = "logistic"
    pairs_per_row: int = 10

    def predict(self, X: Any) -> Array:
        """Predict f at the rows of X: utilities, or risks, which are larger for earlier events.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.

        Returns
        -------
        ndarray of shape (t,)
            The values of f, which are known up to a constant.
        """
        values, validated = self._utilities(X, "predict")
        return as_input_type(values, validated)

    def _fit_order(self, X: Matrix, order: Order) -> None:
        """Fit to the pairs of an order; together they have the weight C for each row."""
        most = self.pairs_per_row
        if not isinstance(most, Integral) or most < 1:
            raise ValueError(f"pairs_per_row must be a positive integer, got {most!r}.")

        def observe(rows: Vector) -> ObservationSet:
            pairs = order.take(rows).pairs(int(most))
            return self._observations(X[rows], pairs, len(rows) / max(len(pairs), 1))

        self._fit_observations(observe, len(X))

    def _fit_pairs(self, X: Matrix, pairs: Matrix) -> None:
        """Fit to given pairs, each of which has the weight C."""

        def observe(rows: Vector) -> ObservationSet:
            index = np.full(len(X), -1)
            index[rows] = np.arange(len(rows))
            kept = index[pairs]
            return self._observations(X[rows], kept[np.all(kept >= 0, axis=1)], 1.0)

        self._fit_observations(observe, len(X))

    def _observations(self, X: Matrix, pairs: Matrix, weight: float) -> ObservationSet:
        ones = np.ones(len(pairs))
        functional = Difference(X[pairs[:, 0]], X[pairs[:, 1]])
        return ObservationSet(X, X, functional, as_loss(self.loss, LOSSES, "loss"), ones, weight * ones, pairs, None)


class PreferenceRegressor(RegressorMixin, ComparisonEstimator):
    """Learns utilities from comparisons: pairs of rows of which the first is preferred, or targets to rank by.

    It minimizes

        1/2 |f|^2 + C sum_(i, j) loss(f(x_i) - f(x_j); 1)

    over pairs in which row i is preferred to row j; f(x) is the utility of x, which is known up to a constant.  With
    the logistic loss row i is preferred with probability 1 / (1 + exp(f(x_j) - f(x_i))) (Bradley and Terry).  With
    targets y instead of pairs all rows with different targets are compared, as in the ranking SVM; these pairs together
    have the weight C for each row.

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        As in `InvariantRegressor`.
    scale : float, array-like of shape (n,) or str, default="median"
        The length scale of a kernel given by name: a number, or one per feature; "median", the median distance of the
        training points; "cv", the best of some multiples of the median, of raw or standardized features, by the loss
        of held-out points in five folds.
    loss : str or Loss, default="logistic"
        "logistic", "hinge", "squared_hinge", or a loss object of classification.
    C : float or "cv", default=1.0
        Weight of the loss of each pair, or with targets of all pairs of a row; "cv" chooses a power of ten between
        0.001 and 1000 by the loss of pairs of held-out points in five folds.
    pairs_per_row : int, default=10
        With targets, the number of lower rows that each row is compared with, which are drawn at random with a fixed
        seed.  All pairs are used if there are at most that many per row on average.
    approximation : Landmarks or None, default=None
        With `rkhs.Landmarks(p)` f is a combination of the kernel at p rows.  Up to 1,000 rows all are used by default,
        which is exact, and 1,000 of more, with a warning.
    tol : float, default=1e-4
        The relative duality gap to reach.
    verbose : bool, default=False
        Whether to print progress to standard error.

    Attributes
    ----------
    function_ : Function
        The utility.
    C_ : float
        C as given, or as chosen.
    n_pairs_ : int
        The number of pairs that f was learned from.
    solution_, problem_ : Solution, Problem
        The solution with its certificate, and the problem.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (60, 2))
    >>> utility = -np.sum(X**2, axis=1)  # the origin is best
    >>> pairs = rng.integers(0, 60, (200, 2))
    >>> wrong = utility[pairs[:, 0]] < utility[pairs[:, 1]]
    >>> pairs[wrong] = pairs[wrong, ::-1]
    >>> model = rkhs.PreferenceRegressor(C=10.0).fit(X, pairs=pairs[pairs[:, 0] != pairs[:, 1]])
    >>> bool(model.score(X, utility) > 0.95)
    True
    """

    @transactional
    def fit(self, X: Any, y: Any = None, pairs: Any = None) -> PreferenceRegressor:
        """Learn utilities from pairs of rows, or from targets of the rows.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.
        y : array-like of shape (t,), optional
            Targets; rows with larger ones are preferred.
        pairs : array-like of int of shape (m, 2), optional
            Pairs of indices of rows, the first of which is preferred; instead of y.

        Returns
        -------
        PreferenceRegressor
            The fitted estimator.
        """
        if (y is None) == (pairs is None):
            raise ValueError(
                "PreferenceRegressor requires y to be passed, but the target y is None: pass y, or pairs."
                if y is None
                else "y and pairs are mutually exclusive: pass one of them."
            )
        if pairs is None:
            points, y = self._checked_points(X, y)
            order = Order.of_targets(y.astype(np.float64))
            if not order.count:
                raise ValueError("PreferenceRegressor needs rows with different targets; all y are equal.")
            self._fit_order(points, order)
        else:
            points = self._points_without_targets(X)
            self._fit_pairs(points, checked_pairs(pairs, len(points)))
        self.n_pairs_ = self.problem_.terms[0].size
        return self

    def score(self, X: Any, y: Any = None, pairs: Any = None) -> float:
        """Return the share of pairs that the utilities put in the right order.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.
        y : array-like of shape (t,), optional
            Their targets; all rows with different targets are compared.
        pairs : array-like of int of shape (m, 2), optional
            Pairs of indices of rows, the first of which is preferred; instead of y.

        Returns
        -------
        float
            Between 0 and 1; equal utilities count one half.
        """
        if (y is None) == (pairs is None):
            raise ValueError("Pass either y or pairs to PreferenceRegressor.score.")
        values, _ = self._utilities(X, "score")
        if pairs is None:
            target = column_or_1d(as_numpy(y), warn=True)
            target = check_array(target, dtype=np.float64, ensure_2d=False, input_name="y")
            check_consistent_length(values, target)
            return Order.of_targets(target).concordance(values)
        rows = checked_pairs(pairs, len(values))
        return float(np.mean((np.sign(values[rows[:, 0]] - values[rows[:, 1]]) + 1) / 2))


class SurvivalRanker(ComparisonEstimator):
    """Learns risks from survival times with right censoring, by comparisons as in the survival SVM.

    It minimizes

        1/2 |f|^2 + C t mean_(i, j) loss(f(x_i) - f(x_j); 1)

    over the pairs in which row i had its event before row j did, or was last observed without it; t is the number of
    rows.  f(x) is a risk: rows with larger values are expected to have the event earlier.

    Parameters
    ----------
    kernel, scale, loss, C, pairs_per_row, approximation, tol, verbose : object
        As in `PreferenceRegressor` with targets.

    Attributes
    ----------
    function_ : Function
        The risk.
    C_, n_pairs_, solution_, problem_, n_features_in_, feature_names_in_ : object
        As in `PreferenceRegressor`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 2))
    >>> death, end = rng.exponential(np.exp(-2 * X[:, 0])), rng.exponential(2.0, 200)
    >>> y = np.column_stack([death <= end, np.minimum(death, end)])  # event, time
    >>> model = rkhs.SurvivalRanker().fit(X, y)
    >>> bool(model.score(X, y) > 0.75)
    True
    """

    @transactional
    def fit(self, X: Any, y: Any) -> SurvivalRanker:
        """Learn risks from points and survival times.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.
        y : structured array of shape (t,), or array-like of shape (t, 2) or (t,)
            Whether the event was observed (a field or column of booleans), and the time of the event or of the last
            observation; or only times, if all events were observed.

        Returns
        -------
        SurvivalRanker
            The fitted estimator.
        """
        points = self._points_without_targets(X)
        event, time = checked_survival(y)
        check_consistent_length(points, time)
        order = Order.of_survival(event, time)
        if not order.count:
            raise ValueError("SurvivalRanker needs an event before the time of another row; no pair can be compared.")
        self._fit_order(points, order)
        self.n_pairs_ = self.problem_.terms[0].size
        return self

    def score(self, X: Any, y: Any) -> float:
        """Return the concordance index: the share of comparable pairs that the risks put in the right order.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.
        y : structured array of shape (t,), or array-like of shape (t, 2) or (t,)
            As in `fit`.

        Returns
        -------
        float
            Between 0 and 1; equal risks count one half.
        """
        values, _ = self._utilities(X, "score")
        event, time = checked_survival(y)
        check_consistent_length(values, time)
        return Order.of_survival(event, time).concordance(values)


def checked_pairs(pairs: Any, rows: int) -> Matrix:
    """Return pairs of indices (m, 2) after validation."""
    index = np.asarray(as_numpy(pairs))
    if index.ndim != 2 or index.shape[1] != 2 or len(index) == 0 or index.dtype.kind not in "iu":
        raise ValueError(
            f"pairs must be integers of shape (m, 2) with m > 0, got shape {index.shape} and type {index.dtype}."
        )
    if index.min() < 0 or index.max() >= rows:
        raise ValueError(f"pairs refer to rows of X from 0 to {rows - 1}, got {index.min()} to {index.max()}.")
    if np.any(index[:, 0] == index[:, 1]):
        raise ValueError(f"Pair {int(np.argmax(index[:, 0] == index[:, 1]))} compares a row with itself: drop it.")
    return index.astype(np.intp)


def checked_survival(y: Any) -> tuple[Vector, Vector]:
    """Return the events (t,) as booleans and the times (t,) from a structured array or two columns."""
    if y is None:
        raise ValueError("SurvivalRanker requires y to be passed, but the target y is None.")
    table = np.asarray(as_numpy(y))
    if table.dtype.names is not None:
        kinds = [table.dtype[name].kind for name in table.dtype.names]
        if len(kinds) != 2 or kinds.count("b") != 1:
            raise ValueError(
                f"A structured y needs a field of booleans, the events, and a field of times, got {table.dtype}."
            )
        flag = kinds.index("b")
        event, time = table[table.dtype.names[flag]], table[table.dtype.names[1 - flag]].astype(np.float64)
    else:
        table = check_array(table, dtype=np.float64, ensure_2d=False, input_name="y")
        if table.ndim == 1 or table.shape[1] == 1:
            time = column_or_1d(table, warn=True)
            return np.ones(len(time), dtype=bool), time
        if table.shape[1] != 2 or not np.all(np.isin(table[:, 0], (0, 1))):
            raise ValueError(
                "y must have two columns, whether the event was observed (1 or 0) and the time, or be a structured "
                f"array; got shape {table.shape}."
            )
        event, time = table[:, 0] == 1, table[:, 1]
    if not np.all(np.isfinite(time)):
        raise ValueError("The times in y must be finite.")
    return np.asarray(event, dtype=bool), time
