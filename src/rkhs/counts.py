"""Estimators that learn one function from one term of observations: counts, comparisons and ordered classes.

An observation is a functional of f with a loss, a target and a weight; it refers to one training point (a count, the
position of a class relative to a threshold) or to two of them (a comparison).  C and the length scale can be chosen by
folds of the training points: a fold leaves out every observation that refers to one of its points, and is scored on
the observations that refer to its points only.

*Order.*  A comparison of two points is a functional f(x_i) - f(x_j).  Targets that can be ordered, and survival times
that may be censored, are comparisons of all pairs of rows whose order is known.  Their number grows with the square of
the number of rows; sorting counts them, and a random subset of them is drawn without listing them (`Order`).

Ordered classes have one function and a threshold between neighboring classes.  A point has one more coordinate for each
threshold, which the kernel ignores and which multiplies the threshold: the functional f(x) - b_k is the value of
F(x, e) = f(x) + sum_k e_k b_k at e = -e_k, and the thresholds are an unpenalized basis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from math import inf
from numbers import Integral
from typing import Any

import numpy as np
from scipy.special import log_expit
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import d2_tweedie_score
from sklearn.preprocessing import StandardScaler
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d

from rkhs import Constant, InvariantRegressor, InvariantRegressorCV, Landmarks, Problem, Term
from rkhs.extend import (
    Array,
    BaseKernelEstimator,
    FunctionSpace,
    Matrix,
    Offsets,
    Outcome,
    Sample,
    Vector,
    WeightNormalization,
    as_input_type,
    as_kernel,
    as_loss,
    best_of,
    check_number,
    choose,
    documented_by,
    double,
    left_out_by_folds,
    paired_test,
    row_losses,
    scaled_kernels,
    to_numpy,
    transactional,
    unique_rows,
    warn,
)
from rkhs.functionals import Difference, Evaluation, Functional
from rkhs.kernels import Kernel, LinearTransform
from rkhs.losses import Logistic, Loss, Poisson
from rkhs.results import Function

__all__ = ["KernelPoissonRegressor", "OrdinalClassifier", "PreferenceRegressor", "SurvivalRanker"]

MOST_EXACT_OBSERVATIONS = 5_000  # of single points, up to which f is learned without landmarks: 0.2 GB
FUNCTIONS = 1_000  # landmarks for more of them, and if several observations refer to each point
SEARCH_ROWS = 1_000  # observations refer to at most this many points while C and the scale are chosen
SEARCH_FUNCTIONS = 150  # landmarks of the search
# Points of each search, which linearizes the Poisson loss at the rates of the one before; the first, from a constant
# rate, compares Gaussian kernels only.  A third search did not change the deviance on any set.  From 1,000 points on
# the search would compare approximations of maps.
SEARCHED = (220, 900)
FACTORS = (1.0, 0.1, 0.01, 1e-3)  # on C, which responses of rates near 0 leave too large; compared by left-out counts
GRID = tuple(10.0**k for k in range(-3, 4))  # the values of C for C="cv"
GRID_TOL = 1e-3  # relative duality gap of the models of the folds


@dataclass(frozen=True, eq=False)
class ObservationSet:
    """Functionals of f with targets, and the points that each of them refers to."""

    X: Matrix  # (t, n) the training points
    points: Matrix  # (t, n + m) the points as arguments of f, with m more coordinates that the kernel ignores
    functional: Functional  # (N,)
    loss: Loss
    target: Vector  # (N,)
    weight: Vector  # (N,) factors on C
    rows: Matrix  # (N, 1) or (N, 2) the indices of the points of each functional
    basis: FunctionSpace | None
    classes: Vector | None = None  # (t,) for stratified folds

    def problem(self, kernel: Kernel, C: float, approximation: Landmarks | None) -> tuple[Problem, float]:
        """Return the problem, and the mean of k(x, x), by which its weights are divided."""
        norms = WeightNormalization.at(kernel, self.X, np.ones(len(self.X)))
        term = norms.observed(Term(self.functional, self.loss, target=self.target, weight=C * self.weight))
        n, more = self.X.shape[1], self.points.shape[1] - self.X.shape[1]
        lifted = kernel if more == 0 else kernel @ np.eye(n, n + more)
        return Problem(lifted, [term], self.basis, approximation=approximation), norms.variance

    def landmarks(self, most: int | None) -> Landmarks | None:
        """Return landmarks at `most` points, by default at FUNCTIONS of them; None if no landmarks are needed.

        Representers of all functionals are in the span of the kernel at all points: with a landmark at each the result
        is exact, and the problem has one variable for each point instead of each functional.
        """
        count = min(FUNCTIONS if most is None else most, len(self.points))
        single = self.rows.shape[1] == 1 and self.functional.size == len(self.X) and self.points is self.X
        if most is None and single and self.functional.size <= MOST_EXACT_OBSERVATIONS:
            return None
        chosen = self.points
        if count < len(self.points):
            from sklearn.cluster import kmeans_plusplus  # imported here because it takes a second

            standardized = StandardScaler().fit_transform(self.X)
            chosen = self.points[kmeans_plusplus(standardized, count, random_state=0)[1]]
        return Landmarks(Evaluation(chosen))

    def folds(self) -> Vector:
        """Return the fold of each point: five folds, or fewer if a class or the sample is smaller."""
        groups = unique_rows(self.X)[2]
        left_out = left_out_by_folds(5, groups, self.classes)
        if left_out.shape[1] == 1:  # a class has a single point
            left_out = left_out_by_folds(5, groups, least=2)
        return left_out.argmax(axis=1)

    def scored(self, kernel: Kernel, Cs: Sequence[float], approximation: Landmarks | None) -> list[Outcome]:
        """Return a candidate for each C, with the mean loss of observations in folds that were left out."""
        fold = self.folds()[self.rows]  # (N, 1) or (N, 2)
        count = int(fold.max()) + 1
        left_out = [np.any(fold == k, axis=1) for k in range(count)]
        solutions = self.problem(kernel, 1.0, approximation)[0].grid({0: Cs}, held_out={0: left_out}, tol=GRID_TOL)
        losses = np.full((len(Cs), len(fold)), inf)  # of each observation, by the model without its fold
        for (c, k), solution in np.ndenumerate(solutions):
            scored = np.flatnonzero(np.all(fold == k, axis=1))
            if len(scored) and solution.status == "converged":
                values = to_numpy(self.functional.take(scored)(solution.function))
                losses[c, scored] = row_losses(self.loss, values, self.target[scored])
        compared = np.any(losses < inf, axis=0)  # observations of points of different folds are not predicted
        share = self.weight[compared] / (self.weight[compared].sum() or 1.0)
        means = losses[:, compared] @ share if np.any(compared) else np.full(len(Cs), inf)
        triples = zip(Cs, means, losses, strict=True)
        return [Outcome({"kernel": kernel, "C": C}, float(m), np.array([-m]), values=each) for C, m, each in triples]


@dataclass(eq=False, repr=False)
class ObservationEstimator(BaseKernelEstimator):
    """The base of estimators of `ObservationSet`, which document its parameters."""

    kernel: Any = "gaussian"
    _: KW_ONLY
    scale: Any = "auto"
    C: Any = 1.0
    approximation: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = False
        return tags

    def _fit_observations(self, observe: Callable[[Vector], ObservationSet], count: int) -> None:
        """Choose C and the length scale if the parameters ask for it, and solve the problem.

        `observe` returns the observations of some of the `count` points, given by their indices.
        """
        stated, data = self.approximation, observe(np.arange(count))
        if stated is not None and not isinstance(getattr(stated, "functionals", None), int | np.integer):
            raise ValueError(
                f"approximation of {type(self).__name__} must be None or rkhs.Landmarks(p) with a number p, got "
                f"{stated!r}."
            )
        most = None if stated is None else int(stated.functionals)
        kernel, C = self._chosen(observe, data)
        landmarks = data.landmarks(most)
        if most is None and landmarks is not None and len(data.points) > FUNCTIONS:
            warn(
                f"{type(self).__name__} approximates f by {FUNCTIONS} landmarks, because there are "
                f"{len(data.points)} points. Pass approximation=rkhs.Landmarks(p) for another number."
            )
        problem, variance = data.problem(kernel, C, landmarks)
        self.C_ = C
        self._solve(problem, variance)

    def _chosen(self, observe: Callable[[Vector], ObservationSet], data: ObservationSet) -> tuple[Kernel, float]:
        """Return the kernel and C; those of the smallest held-out loss for the names "cv"."""
        X = data.X
        name, scale, C = (usual if _is_open(value) else value for value, usual in self._settings())
        Cs = list(GRID) if _is(C, "cv") else [check_number(C, 'C (unless it is "cv")')]
        if _is(scale, "cv") and not isinstance(name, Kernel):
            kernels = [kernel for _, kernel in sorted(scaled_kernels(name, X), key=lambda pair: pair[0])]
        else:
            kernels = [as_kernel(name, scale, X)]
        if len(Cs) * len(kernels) == 1:
            return kernels[0], Cs[0]
        if len(X) < 4:
            raise ValueError(f'{type(self).__name__} needs at least 4 points for C="cv" or scale="cv".')
        if len(X) > SEARCH_ROWS:
            data = observe(np.sort(np.random.default_rng(0).choice(len(X), SEARCH_ROWS, replace=False)))
        landmarks = data.landmarks(SEARCH_FUNCTIONS if len(data.points) > SEARCH_FUNCTIONS else None)

        def settings(scorer: Any, found: list[Outcome]) -> Iterator[list[tuple[Kernel, list[float]]]]:
            first = kernels[len(kernels) // 2]
            yield [(first, Cs)]
            for kernel in kernels:  # other scales are tried with the best C and its neighbors
                near = Cs.index(best_of(found).params["C"])
                if kernel is not first:
                    yield [(kernel, Cs[max(near - 1, 0) : near + 2])]

        best = choose([settings], lambda pair: data.scored(pair[0], pair[1], landmarks)).best
        if not np.isfinite(best.loss):
            raise ValueError(
                f'{type(self).__name__} cannot choose by "cv": no model of a fold was solved and had observations to '
                "be scored on. Pass numbers for C and scale."
            )
        return best.params["kernel"], best.params["C"]

    def _settings(self) -> tuple[tuple[Any, Any], ...]:
        """Return the parameters that a search may choose, with the values that they have without one."""
        return (self.kernel, "gaussian"), (self.scale, "auto"), (self.C, 1.0)

    def _checked_points(self, X: Any, y: Any) -> tuple[Matrix, Any]:
        """Validate X and y; return the points as a float64 copy, and y."""
        points, _, y, _ = self._validated(X, y, own=False, sparse=False)
        return np.array(to_numpy(points), dtype=np.float64), y

    def _points_without_targets(self, X: Any) -> Matrix:
        """Validate X, and return the points as a float64 copy."""
        X = X.compute() if hasattr(X, "__dask_graph__") else X
        return self._checked_points(X, np.zeros(np.shape(X)[:1]))[0]

    def _utilities(self, X: Any, method: str) -> tuple[Vector, Array]:
        """Return the values of f at the rows of X in NumPy, and the validated X."""
        values, validated = self._values(X, method, lambda points: Evaluation(double(points)))
        return to_numpy(values), validated


def _is(value: Any, name: str) -> bool:
    """Return whether a parameter, which may be an array or a kernel, is this name."""
    return isinstance(value, str) and value == name


def _is_open(value: Any) -> bool:
    """Return whether a parameter is to be chosen by the search."""
    return value is None or _is(value, "auto")


@documented_by(InvariantRegressor)
@dataclass(eq=False, repr=False)
class KernelPoissonRegressor(RegressorMixin, ObservationEstimator):
    """Poisson regressor for counts and rates: the logarithm of the rate is a kernel model.

    It minimizes

        1/2 |f|^2 + C sum_i t_i loss(f(x_i); y_i),    loss(u; y) = exp(u) - y u

    over f with an unpenalized constant; exp(f(x)) is the expected count per unit of exposure at x.  As in
    scikit-learn's PoissonRegressor, counts with the exposures t_i (times, areas, numbers of people) are passed as
    y = counts / t and sample_weight = t.  The kernel is divided by its mean k(x, x), so C has no units.

    By default the kernel, its length scales, a linear trend and C are those that `InvariantRegressorCV` chooses for the
    working responses of a generalized linear model, log r + (y - r) / r with the weights t r / 2, which have the same
    minimizer f to second order.  The rate r is first a constant, then that of the model with the first choice.

    Parameters
    ----------
    kernel : str or Kernel, default="auto"
        "auto", the choice of the search; "gaussian", "laplace", "matern", "rational_quadratic", "polynomial", "linear",
        or a kernel object.
    scale : float, array-like of shape (n,) or str, default="auto"
        The length scale of a kernel given by name: "auto", the choice of the search, and of the other estimators the
        median distance in units of each feature, as in `InvariantRegressor`; a number, or one per feature; "median",
        the median distance of the training points; "cv", the best of some multiples of the median, of raw or
        standardized features, by the loss of held-out points in five folds.
    C : float or "cv", optional
        Weight of the loss of a point with exposure 1, by default the choice of the search; "cv" chooses a power of ten
        between 0.001 and 1000 by the deviance of held-out points in five folds.  With "cv", here or as the scale, the
        kernel "auto" is the Gaussian, and parameters that are not given are those of the other estimators.
    approximation : Landmarks or None, default=None
        With `rkhs.Landmarks(p)` f is a combination of the kernel at p points.  Above 5,000 points 1,000 landmarks are
        used by default, with a warning.
    tol, verbose : object
        As in `InvariantRegressor`.

    Attributes
    ----------
    function_ : Function
        The logarithm of the rate.
    C_ : float
        C as given, or as chosen.
    solution_, problem_ : Solution, Problem
        The solution with its certificate, and the problem.
    n_features_in_, feature_names_in_ : object
        As in `InvariantRegressor`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rng = np.random.default_rng(0)
    >>> X, hours = rng.uniform(0, 6, (200, 1)), rng.uniform(1, 5, 200)
    >>> counts = rng.poisson(hours * np.exp(1 + np.sin(X[:, 0])))
    >>> model = rkhs.counts.KernelPoissonRegressor().fit(X, counts / hours, sample_weight=hours)
    >>> model.predict([[1.5], [4.5]]).round(1)  # exp(1 + 1) and exp(1 - 1) are 7.4 and 1.0
    array([7.3, 1.1])
    """

    kernel: Any = "auto"
    _: KW_ONLY
    scale: Any = "auto"
    C: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    @transactional
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelPoissonRegressor:
        """Learn the rate from points and counts per unit of exposure.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.
        y : array-like of shape (t,)
            The counts divided by the exposures, at least 0 and not all 0.
        sample_weight : array-like of shape (t,), optional
            The exposures; all 1 by default.

        Returns
        -------
        KernelPoissonRegressor
            The fitted estimator.
        """
        points, y = self._checked_points(X, y)
        y = y.astype(np.float64)
        if np.any(y < 0):
            raise ValueError(
                f"KernelPoissonRegressor needs counts of at least 0, but y is {y.min():g} in row {np.argmin(y)}."
            )
        sample = Sample.of(points, sample_weight, y, np.ones(len(y), dtype=bool))
        if not np.any(sample.y > 0):
            raise ValueError("KernelPoissonRegressor needs a positive count: the rate of counts that are all 0 is 0.")

        def observe(rows: Any) -> ObservationSet:
            some = sample.take(rows)
            L, index = Evaluation(some.X), np.arange(some.size)[:, None]
            return ObservationSet(some.X, some.X, L, Poisson(), some.y, some.weight, index, Constant())

        self._fit_observations(observe, sample.size)
        return self

    def _chosen(self, observe: Callable[[Vector], ObservationSet], data: ObservationSet) -> tuple[Kernel, float]:
        given = (self.kernel, self.scale, self.C)
        if any(_is(value, "cv") for value in given) or not any(map(_is_open, given)):
            return super()._chosen(observe, data)
        stated = None if self.C is None else check_number(self.C, 'C (unless it is "cv")')
        if len(data.X) > SEARCHED[-1]:
            data = observe(np.sort(np.random.default_rng(0).choice(len(data.X), SEARCHED[-1], replace=False)))
        y, exposure = data.target, data.weight
        log_rate, tried = np.full(len(y), np.log(np.average(y, weights=exposure))), []
        for first, most in zip((True, False), SEARCHED, strict=True):
            rate, rows = np.exp(log_rate), np.random.default_rng(0).permutation(len(y))[:most]
            responses, weight = log_rate + (y - rate) / rate, exposure * rate / 2
            targets = data.X[rows], responses[rows], weight[rows]
            kernel, C = self._searched(*targets, "gaussian" if first else self.kernel, stated)
            problem, _ = data.problem(kernel, C, data.landmarks(None))
            log_rate = to_numpy(data.functional(problem.solve(tol=GRID_TOL, verbose=self.verbose).function))
            if first and not _is_open(self.kernel):
                continue  # the kernel is that of the user
            tried.append((kernel, [C * factor for factor in (FACTORS if stated is None else (1.0,))]))
        some = observe(np.sort(np.random.default_rng(0).permutation(len(y))[: SEARCHED[0]]))
        found = [one for kernel, Cs in reversed(tried) for one in some.scored(kernel, Cs, some.landmarks(None))]
        best, last = best_of(found), found[0]
        if last.loss < inf and not paired_test(last.values, best.values, some.weight):
            best = last
        return best.params["kernel"], best.params["C"]

    def _searched(self, X: Matrix, y: Vector, weight: Vector, kernel: Any, C: float | None) -> tuple[Kernel, float]:
        """Return the kernel and C that the search chooses for weighted targets and the squared loss.

        Weights are divided by their mean, since integers would be numbers of rows.
        """
        scales, mean = self.scale if isinstance(self.scale, str) else [self.scale], float(weight.mean())
        model = InvariantRegressorCV(kernel, scales=scales, Cs=None if C is None else [C * mean], verbose=self.verbose)
        model.fit(X, y, sample_weight=weight / mean)
        return model.function_.kernel, model.C_ / mean

    def predict(self, X: Any) -> Array:
        """Predict the rates at the rows of X: expected counts per unit of exposure.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.

        Returns
        -------
        ndarray of shape (t,)
            The rates.
        """
        values, validated = self._utilities(X, "predict")
        return as_input_type(np.exp(values), validated)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the fraction of the Poisson deviance that the model explains, as scikit-learn's PoissonRegressor.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.
        y : array-like of shape (t,)
            The counts divided by the exposures.
        sample_weight : array-like of shape (t,), optional
            The exposures.

        Returns
        -------
        float
            At most 1; 0 for the constant rate that fits best.
        """
        rates = self.predict(X)
        rows = Sample.of_rows(rates, sample_weight, np.zeros(len(rates)), np.ones(len(rates), dtype=bool))
        return float(d2_tweedie_score(y, rates, sample_weight=rows.weight, power=1))


BLOCK = 1000  # rows that are compared with each other at a time
LOSSES = ("logistic", "hinge", "squared_hinge")
HALVINGS = 100  # of an interval that contains all boundaries, so that neighboring floats are left


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
        values, full = values[self.rows], self.below // BLOCK
        prefix, found = np.zeros(0), 0.0
        for block in range(int(full.max(initial=0)) + 1):
            start = block * BLOCK
            members = np.flatnonzero((full == block) & (self.below > 0))
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

    def _fit_pairs(self, X: Matrix, given: Order | Matrix, weight: Vector | None = None) -> None:
        """Fit to given pairs, each of the weight C, or to those of an order, which have it together for each row.

        In an order rows have the weights (t,), and a pair the product of those of its rows.
        """
        most = self.pairs_per_row
        if isinstance(given, Order) and (not isinstance(most, Integral) or most < 1):
            raise ValueError(f"pairs_per_row must be a positive integer, got {most!r}.")

        def observe(rows: Vector) -> ObservationSet:
            if isinstance(given, Order):
                pairs = given.take(rows).pairs(int(most))
                of_rows = weight[rows]
                of_pairs = np.prod(of_rows[pairs], axis=1)
                of_pairs *= of_rows.sum() / max(of_pairs.sum(), np.finfo(float).tiny)
            else:
                index = np.full(len(X), -1)
                index[rows] = np.arange(len(rows))
                pairs = index[given]
                pairs = pairs[np.all(pairs >= 0, axis=1)]
                of_pairs = np.ones(len(pairs))
            some, ones, loss = X[rows], np.ones(len(pairs)), as_loss(self.loss, LOSSES, "loss")
            functional = Difference(some[pairs[:, 0]], some[pairs[:, 1]])
            return ObservationSet(some, some, functional, loss, ones, of_pairs, pairs, None)

        self._fit_observations(observe, len(X))
        self.n_pairs_ = self.problem_.terms[0].size


@documented_by(KernelPoissonRegressor)
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
    kernel, scale : object
        As in `KernelPoissonRegressor`.
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
    tol, verbose : object
        As in `KernelPoissonRegressor`.

    Attributes
    ----------
    function_ : Function
        The utility.
    C_ : object
        As in `KernelPoissonRegressor`.
    n_pairs_ : int
        The number of pairs that f was learned from.
    solution_, problem_, n_features_in_, feature_names_in_ : object
        As in `KernelPoissonRegressor`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (60, 2))
    >>> utility = -np.sum(X**2, axis=1)  # the origin is best
    >>> pairs = rng.integers(0, 60, (200, 2))
    >>> wrong = utility[pairs[:, 0]] < utility[pairs[:, 1]]
    >>> pairs[wrong] = pairs[wrong, ::-1]
    >>> model = rkhs.counts.PreferenceRegressor(C=10.0).fit(X, pairs=pairs[pairs[:, 0] != pairs[:, 1]])
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
            sample = Sample.of(points, None, y.astype(np.float64), np.ones(len(y), dtype=bool))
            order = Order.of_targets(sample.y)
            if not order.count:
                raise ValueError("PreferenceRegressor needs rows with different targets; all y are equal.")
            self._fit_pairs(sample.X, order, sample.weight)
        else:
            points = self._points_without_targets(X)
            self._fit_pairs(points, checked_pairs(pairs, len(points)))
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
            target = column_or_1d(to_numpy(y), warn=True)
            target = check_array(target, dtype=np.float64, ensure_2d=False, input_name="y")
            check_consistent_length(values, target)
            return Order.of_targets(target).concordance(values)
        rows = checked_pairs(pairs, len(values))
        return float(np.mean((np.sign(values[rows[:, 0]] - values[rows[:, 1]]) + 1) / 2))


@documented_by(PreferenceRegressor)
class SurvivalRanker(ComparisonEstimator):
    """Learns risks from survival times with right censoring, by comparisons as in the survival SVM.

    It minimizes

        1/2 |f|^2 + C t mean_(i, j) loss(f(x_i) - f(x_j); 1)

    over the pairs in which row i had its event before row j did, or was last observed without it; t is the number of
    rows.  f(x) is a risk: rows with larger values are expected to have the event earlier.

    Parameters
    ----------
    kernel, scale, loss, C, pairs_per_row, approximation, tol, verbose : object
        As in `PreferenceRegressor`.

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
    >>> model = rkhs.counts.SurvivalRanker().fit(X, y)
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
        rows = np.column_stack([event, time]).astype(np.float64)
        sample = Sample.of(points, None, rows, np.ones(len(time), dtype=bool))
        order = Order.of_survival(sample.y[:, 0] > 0, sample.y[:, 1])
        if not order.count:
            raise ValueError("SurvivalRanker needs an event before the time of another row; no pair can be compared.")
        self._fit_pairs(sample.X, order, sample.weight)
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
    index = to_numpy(pairs)
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
    table = to_numpy(y)
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


def category_order(y: Any) -> Vector | None:
    """Return the categories of an ordered pandas Categorical or a polars Enum, in their order; None for other y."""
    dtype = getattr(y, "dtype", None)
    categories = getattr(dtype, "categories", None)
    ordered = getattr(dtype, "ordered", False) or type(dtype).__name__ == "Enum"
    return None if categories is None or not ordered else np.array(list(categories))


def _has_probabilities(model: OrdinalClassifier) -> bool:
    if model.loss != "logistic" and not isinstance(model.loss, Logistic):
        raise AttributeError(f'predict_proba needs loss="logistic", got {model.loss!r}.')
    return True


@documented_by(PreferenceRegressor)
@dataclass(eq=False, repr=False, kw_only=True)
class OrdinalClassifier(ClassifierMixin, ObservationEstimator):
    """Classifier for ordered classes, such as grades: one function and a threshold between neighboring classes.

    It minimizes

        1/2 |f|^2 + C sum_i sum_k loss(f(x_i) - b_k; +1 if y_i is above the k-th class, else -1)

    over f and unpenalized thresholds b_1 <= b_2 <= .. (all-threshold loss, Rennie and Srebro 2005).  The predicted
    class is the most probable one with the logistic loss, otherwise the one whose thresholds enclose f(x).  A class
    that is two thresholds away costs two losses, so the classifier aims at a small absolute difference of classes.

    Parameters
    ----------
    kernel, scale, loss : object
        As in `PreferenceRegressor`.
    C : float or "cv", default=1.0
        Weight of the losses of each point; "cv" chooses a power of ten between 0.001 and 1000 by the loss of held-out
        points in five folds.
    approximation : Landmarks or None, default=None
        With `rkhs.Landmarks(p)` f is a combination of the kernel at p points.  Up to 1,000 points all are used by
        default, which is exact, and 1,000 of more, with a warning.
    classes : array-like or None, default=None
        The classes, from the lowest to the highest.  By default the order is that of numbers, or of the categories of
        an ordered pandas Categorical or a polars Enum; three or more classes that are texts need `classes`.
    tol, verbose : object
        As in `PreferenceRegressor`.

    Attributes
    ----------
    function_ : Function
        The learned function, without the thresholds.
    thresholds_ : ndarray of shape (classes - 1,)
        The thresholds, in increasing order.
    classes_ : ndarray
        The classes that y has, from the lowest to the highest.
    C_ : object
        As in `PreferenceRegressor`.
    solution_, problem_ : Solution, Problem
        The solution with its certificate, and the problem, in which a point has one more coordinate for each threshold.
    n_features_in_, feature_names_in_ : object
        As in `PreferenceRegressor`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (200, 2))
    >>> y = np.digitize(np.sum(X**2, axis=1), [1.0, 2.0, 4.0])  # classes 0 to 3
    >>> model = rkhs.counts.OrdinalClassifier(C=100.0).fit(X, y)
    >>> model.predict([[0.0, 0.0], [1.0, 0.7], [2.0, 2.0]])
    array([0, 1, 3])
    >>> bool(np.all(np.diff(model.thresholds_) > 0))
    True
    """

    loss: Any = "logistic"
    classes: Any = None

    @transactional
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> OrdinalClassifier:
        """Learn the function and the thresholds from points and their classes.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.
        y : array-like of shape (t,)
            The classes: numbers, an ordered pandas Categorical or a polars Enum, which state their order, or names
            whose order is that of the parameter `classes`.
        sample_weight : array-like of shape (t,), optional
            Factors on the losses.

        Returns
        -------
        OrdinalClassifier
            The fitted estimator.
        """
        order = category_order(y) if self.classes is None else np.array(to_numpy(self.classes).tolist())
        points, y = self._checked_points(X, y)
        classes = np.unique(y) if order is None else order
        if order is None and len(classes) > 2 and classes.dtype.kind in "OUS":
            first = ", ".join(f'"{one}"' for one in classes[:3]) + " .." * (len(classes) > 3)
            raise ValueError(
                f"y has the classes {first}, and texts state no order: pass all, from the lowest to the highest, as "
                "classes=[..], or y as an ordered pandas Categorical."
            )
        if len(unknown := np.setdiff1d(y, classes)):
            raise ValueError(f"y has the class {unknown.tolist()[0]!r}, which is not among {classes.tolist()}.")
        position = {label: k for k, label in enumerate(classes.tolist())}
        ranks = np.array([position[label] for label in y.tolist()])
        sample = Sample.of(points, sample_weight, ranks, np.ones(len(y), dtype=bool))
        present, index = np.unique(sample.y, return_inverse=True)
        if len(present) < 2:
            raise ValueError(
                f"{type(self).__name__} needs two classes or more among the labeled points; there is only one class: "
                f"{classes[present[0]]}."
            )
        classes, codes, count = classes[present], index.reshape(-1), len(present) - 1
        loss = as_loss(self.loss, LOSSES, "loss")
        if isinstance(self.kernel, Kernel) and self.kernel.order:
            raise ValueError(f"The null space of {self.kernel!r} has a constant, which thresholds are: use Gaussian().")
        n = points.shape[1]

        def observe(rows: Vector) -> ObservationSet:
            some, of_rows = sample.take(rows), codes[rows]
            row, threshold = np.repeat(np.arange(some.size), count), np.tile(np.arange(count), some.size)
            lifted = np.hstack([some.X, np.zeros((some.size, count))])
            L = Evaluation(np.hstack([some.X[row], -np.eye(count)[threshold]]))
            target = np.where(of_rows[row] > threshold, 1.0, -1.0)
            weight, index = some.weight[row], row[:, None]
            return ObservationSet(some.X, lifted, L, loss, target, weight, index, Offsets(n, count), of_rows)

        self._fit_observations(observe, sample.size)
        lifted = self.solution_.function
        assert isinstance(lifted, Function)
        assert isinstance(lifted.kernel, LinearTransform)
        landmarks = np.concatenate([to_numpy(part.atoms.points) for part in lifted.functionals.parts])[:, :n]
        self.function_ = Function(lifted.kernel.kernel, Evaluation(landmarks), to_numpy(lifted.coefficients))
        self.thresholds_ = np.maximum.accumulate(to_numpy(lifted.basis_coefficients))  # ordered up to `tol`
        self.classes_ = classes
        return self

    def decision_function(self, X: Any) -> Array:
        """Return f minus the threshold for two classes, and scores of the classes for more.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.

        Returns
        -------
        ndarray of shape (t,) or (t, classes)
            For two classes f minus the threshold.  For more the logarithms of the probabilities with the logistic loss,
            and otherwise how far f is inside of the thresholds of each class, negative outside.
        """
        values, validated = self._utilities(X, "decision_function")
        scores = values - self.thresholds_[0] if len(self.classes_) == 2 else self._scores(values)
        return as_input_type(scores, validated)

    def _scores(self, values: Vector) -> Matrix:
        """Return scores (t, classes), the largest of which is that of the predicted class."""
        ends = np.concatenate([[-np.inf], self.thresholds_, [np.inf]])
        above, below = values[:, None] - ends[:-1], ends[1:] - values[:, None]
        if not isinstance(as_loss(self.loss, LOSSES, "loss"), Logistic):
            return np.minimum(above, below)
        with np.errstate(divide="ignore"):  # a class between equal thresholds has the probability 0
            gaps = np.log(-np.expm1(-np.diff(ends)))
        return np.asarray(log_expit(above) + log_expit(below) + gaps)  # log of the difference of two sigmoids

    def _boundaries(self) -> Vector:
        """Return the values of f (classes - 1,), in increasing order, between which each class is predicted.

        They are the thresholds, except with the logistic loss.  There the ratio of the probabilities of a class and of
        a lower one increases with f, so the most probable class never decreases, and bisection finds where it changes.
        """
        if not isinstance(as_loss(self.loss, LOSSES, "loss"), Logistic):
            return self.thresholds_
        count = len(self.thresholds_)
        # beyond the first and the last threshold, the class at that end has a probability above one half
        below, above = np.full(count, self.thresholds_[0] - 1), np.full(count, self.thresholds_[-1] + 1)
        for _ in range(HALVINGS):
            middle = (below + above) / 2
            higher = np.argmax(self._scores(middle), axis=1) > np.arange(count)
            below, above = np.where(higher, below, middle), np.where(higher, middle, above)
        return np.maximum.accumulate(below)

    def _compared_scores(self, X: Any, method: str) -> tuple[Any, Array, Matrix, Vector]:
        """Return f, the validated points, and A and a of the scores A f + a, whose largest one is predicted.

        The scores c f - sum of the first c boundaries are those of predictions by intervals: two neighbors differ by f
        minus the boundary between them.
        """
        points = double(self._as_points(self._validated_input(X, method)))
        offset = -np.cumsum(np.concatenate([[0.0], self._boundaries()]))
        return self.function_, points, np.arange(len(offset), dtype=np.float64)[:, None], offset

    def predict(self, X: Any) -> Array:
        """Predict the classes of the rows of X.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.

        Returns
        -------
        ndarray of shape (t,)
            The predicted classes.
        """
        values, validated = self._utilities(X, "predict")
        predicted = self.classes_[np.searchsorted(self._boundaries(), values)]
        return predicted if predicted.dtype.kind in "OUS" else as_input_type(predicted, validated)

    @available_if(_has_probabilities)
    def predict_proba(self, X: Any) -> Array:
        """Predict the probabilities of the classes: differences of the logistic function of f minus the thresholds.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.

        Returns
        -------
        ndarray of shape (t, classes)
            The probabilities, in the order of `classes_`.
        """
        values, validated = self._utilities(X, "predict_proba")
        return as_input_type(np.exp(self._scores(values)), validated)
