"""The base of estimators that learn one function from one term of observations, such as counts or comparisons.

An observation is a functional of f with a loss, a target and a weight; it refers to one training point (a count, the
position of a class relative to a threshold) or to two of them (a comparison).  C and the length scale can be chosen by
folds of the training points: a fold leaves out every observation that refers to one of its points, and is scored on
the observations that refer to its points only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from math import inf
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_tweedie_score
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils.validation import validate_data

from rkhs._backend.arrays import Array, Matrix, Vector, double, to_numpy
from rkhs._calculus.function_spaces import Constant, FunctionSpace
from rkhs._estimators.base import (
    BaseKernelEstimator,
    accepted_formats,
    array_kind,
    as_input_type,
    check_finite,
    dense,
    documented_by,
    transactional,
)
from rkhs._estimators.data import Sample, as_weights
from rkhs._estimators.formulation import WeightNormalization
from rkhs._estimators.length_scales import SCALED, as_kernel, deviations, scaled_kernels
from rkhs._estimators.options import check_number
from rkhs._estimators.regressor import InvariantRegressor
from rkhs._estimators.search import Candidate, best_of, row_losses, search
from rkhs._finite.solution import CONVERGED
from rkhs._finite.term import Term
from rkhs._problem import Problem
from rkhs._spaces import Landmarks
from rkhs._warnings import warn
from rkhs.functionals import Evaluation, Functional
from rkhs.kernels import Kernel
from rkhs.losses import Loss, Poisson

MOST_EXACT_OBSERVATIONS = 5_000  # of single points, up to which f is learned without landmarks: 0.2 GB
FUNCTIONS = 1_000  # landmarks for more of them, and if several observations refer to each point
SEARCH_ROWS = 1_000  # observations refer to at most this many points while C and the scale are chosen
SEARCH_FUNCTIONS = 150  # landmarks of the search
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

            shifted = (self.X - self.X.mean(axis=0)) / deviations(self.X)
            chosen = self.points[kmeans_plusplus(shifted, count, random_state=0)[1]]
        return Landmarks(Evaluation(chosen))

    def folds(self) -> Vector:
        """Return the fold of each point: five folds, or fewer if a class or the sample is smaller."""
        size = len(self.X) if self.classes is None else int(np.bincount(self.classes).min())
        count = max(2, min(5, size, len(self.X)))
        splitter: Any = KFold if self.classes is None or size < 2 else StratifiedKFold
        fold = np.zeros(len(self.X), dtype=int)
        split = splitter(count, shuffle=True, random_state=0).split(self.X, self.classes)
        for k, (_, test) in enumerate(split):
            fold[test] = k
        return fold

    def scored(self, kernel: Kernel, Cs: Sequence[float], approximation: Landmarks | None) -> list[Candidate]:
        """Return a candidate for each C, with the mean loss of observations in folds that were left out."""
        fold = self.folds()[self.rows]  # (N, 1) or (N, 2)
        count = int(fold.max()) + 1
        problem, _ = self.problem(kernel, 1.0, approximation)
        left_out = [np.any(fold == k, axis=1) for k in range(count)]
        solutions = problem.grid({0: Cs}, held_out={0: left_out}, tol=GRID_TOL)
        losses, weights = np.zeros(len(Cs)), np.zeros(len(Cs))
        for k in range(count):
            scored = np.flatnonzero(np.all(fold == k, axis=1))
            L, target, weight = self.functional.take(scored), self.target[scored], self.weight[scored]
            for c in range(len(Cs) if len(scored) else 0):
                if solutions[c, k].status == CONVERGED:
                    losses[c] += weight @ row_losses(self.loss, to_numpy(L(solutions[c, k].function)), target)
                    weights[c] += weight.sum()
        complete = weights >= (1 - 1e-9) * weights.max()  # candidates are compared on the same observations
        with np.errstate(invalid="ignore", divide="ignore"):
            means = np.nan_to_num(np.where(complete, losses / weights, inf), nan=inf)
        return [
            Candidate({"kernel": kernel, "C": C}, float(loss), np.array([-loss]))
            for C, loss in zip(Cs, means, strict=True)
        ]


@dataclass(eq=False, repr=False)
class ObservationEstimator(BaseKernelEstimator):
    """The base of estimators of `ObservationSet`, which document its parameters."""

    kernel: Any = "gaussian"
    _: KW_ONLY
    scale: Any = "median"
    C: Any = 1.0
    approximation: Any = None
    tol: float = 1e-4
    verbose: bool = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.array_api_support = False
        return tags

    def _landmark_count(self) -> int | None:
        """Return the number of landmarks that the user asks for; None for the default."""
        if self.approximation is None:
            return None
        if not isinstance(self.approximation, Landmarks) or isinstance(self.approximation.functionals, Functional):
            raise ValueError(
                f"approximation of {type(self).__name__} must be None or rkhs.Landmarks(p) with a number p, got "
                f"{self.approximation!r}."
            )
        return int(self.approximation.functionals)

    def _fit_observations(self, observe: Callable[[Vector], ObservationSet], count: int) -> None:
        """Choose C and the length scale if the parameters ask for it, and solve the problem.

        `observe` returns the observations of some of the `count` points, given by their indices.
        """
        most, data = self._landmark_count(), observe(np.arange(count))
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
        Cs = list(GRID) if _is_cv(self.C) else [check_number(self.C, 'C (unless it is "cv")')]
        if _is_cv(self.scale) and not isinstance(self.kernel, Kernel):
            if self.kernel not in SCALED:
                named = ", ".join(SCALED)
                raise ValueError(f'scale="cv" needs one of the kernels {named}, got kernel={self.kernel!r}.')
            kernels = [kernel for _, kernel in sorted(scaled_kernels(self.kernel, X), key=lambda pair: pair[0])]
        else:
            kernels = [as_kernel(self.kernel, self.scale, X)]
        if len(Cs) * len(kernels) == 1:
            return kernels[0], Cs[0]
        if len(X) < 4:
            raise ValueError(f'{type(self).__name__} needs at least 4 points for C="cv" or scale="cv".')
        if len(X) > SEARCH_ROWS:
            data = observe(np.sort(np.random.default_rng(0).choice(len(X), SEARCH_ROWS, replace=False)))
        landmarks = data.landmarks(SEARCH_FUNCTIONS if len(data.points) > SEARCH_FUNCTIONS else None)

        def candidates(found: list[Candidate]) -> Iterator[list[tuple[Kernel, list[float]]]]:
            first = kernels[len(kernels) // 2]
            yield [(first, Cs)]
            for kernel in kernels:  # other scales are tried with the best C and its neighbors
                near = Cs.index(best_of(found).params["C"])
                if kernel is not first:
                    yield [(kernel, Cs[max(near - 1, 0) : near + 2])]

        found, _ = search(candidates, lambda pair: data.scored(pair[0], pair[1], landmarks))
        best = best_of(found)
        if not np.isfinite(best.loss):
            raise ValueError(
                f'{type(self).__name__} cannot choose by "cv": no model of a fold was solved and had observations to '
                "be scored on. Pass numbers for C and scale."
            )
        return best.params["kernel"], best.params["C"]

    def _checked_points(self, X: Any, y: Any) -> tuple[Matrix, Any]:
        """Validate X and y; return the points as a float64 copy, and y."""
        points, _, y, _ = self._validated(X, y, own=False, sparse=False)
        return np.array(to_numpy(points), dtype=np.float64), y

    def _points_without_targets(self, X: Any) -> Matrix:
        """Validate X, and return the points as a float64 copy."""
        X, accepted = accepted_formats(X)
        X = validate_data(self, X, ensure_min_samples=2, **accepted)
        self._kind = array_kind(X)
        return np.array(to_numpy(dense(X)), dtype=np.float64)

    def _utilities(self, X: Any, method: str) -> tuple[Vector, Array]:
        """Return the values of f at the rows of X in NumPy, and the validated X."""
        validated = self._validated_input(X, method)
        points = double(dense(validated))
        return to_numpy(check_finite(Evaluation(points)(self.function_))), validated


def _is_cv(value: Any) -> bool:
    return isinstance(value, str) and value == "cv"


@documented_by(InvariantRegressor)
class KernelPoissonRegressor(RegressorMixin, ObservationEstimator):
    """Poisson regressor for counts and rates: the logarithm of the rate is a kernel model.

    It minimizes

        1/2 |f|^2 + C sum_i t_i loss(f(x_i); y_i),    loss(u; y) = exp(u) - y u

    over f with an unpenalized constant; exp(f(x)) is the expected count per unit of exposure at x.  As in
    scikit-learn's PoissonRegressor, counts with the exposures t_i (times, areas, numbers of people) are passed as
    y = counts / t and sample_weight = t.  The kernel is divided by its mean k(x, x), so C has no units.

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        "gaussian", "laplace", "matern", "rational_quadratic", "polynomial", "linear", or a kernel object.
    scale : float, array-like of shape (n,) or str, default="median"
        The length scale of a kernel given by name: a number, or one per feature; "median", the median distance of the
        training points; "cv", the best of some multiples of the median, of raw or standardized features, by the
        loss of held-out points in five folds.
    C : float or "cv", default=1.0
        Weight of the loss of a point with exposure 1; "cv" chooses a power of ten between 0.001 and 1000 by the
        deviance of held-out points in five folds.
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
    >>> model = rkhs.KernelPoissonRegressor(scale=1.5).fit(X, counts / hours, sample_weight=hours)
    >>> model.predict([[1.5], [4.5]]).round(1)  # exp(1 + 1) and exp(1 - 1) are 7.4 and 1.0
    array([7.3, 1.1])
    """

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
            return ObservationSet(
                X=some.X,
                points=some.X,
                functional=Evaluation(some.X),
                loss=Poisson(),
                target=some.y,
                weight=some.weight,
                rows=np.arange(some.size)[:, None],
                basis=Constant(),
            )

        self._fit_observations(observe, sample.size)
        return self

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
        weight = None if sample_weight is None else as_weights(sample_weight, rates)
        return float(d2_tweedie_score(y, rates, sample_weight=weight, power=1))
