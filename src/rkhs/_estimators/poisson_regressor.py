"""Kernel Poisson regression: the logarithm of the rate of counts is a function in an RKHS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import d2_tweedie_score

from rkhs._backend.arrays import Array
from rkhs._calculus.function_spaces import Constant
from rkhs._estimators.base import as_input_type, transactional
from rkhs._estimators.data import Sample, as_weights
from rkhs._estimators.observation_estimator import ObservationEstimator, ObservationSet
from rkhs.functionals import Evaluation
from rkhs.losses import Poisson


@dataclass(eq=False, repr=False)
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
        As in `InvariantRegressor`.
    scale : float, array-like of shape (n,) or str, default="median"
        The length scale of a kernel given by name: a number, or one per feature; "median", the median distance of the
        training points; "cv", the best of some multiples of the median, of raw or standardized features, by the
        deviance of held-out points in five folds.
    C : float or "cv", default=1.0
        Weight of the loss of a point with exposure 1; "cv" chooses a power of ten between 0.001 and 1000 by the
        deviance of held-out points in five folds.
    approximation : Landmarks or None, default=None
        With `rkhs.Landmarks(p)` f is a combination of the kernel at p points.  Above 5,000 points 1,000 landmarks are
        used by default, with a warning.
    tol : float, default=1e-4
        The relative duality gap to reach.
    verbose : bool, default=False
        Whether to print progress to standard error.

    Attributes
    ----------
    function_ : Function
        The logarithm of the rate.
    C_ : float
        C as given, or as chosen.
    solution_, problem_ : Solution, Problem
        The solution with its certificate, and the problem.
    n_features_in_, feature_names_in_ : int, ndarray
        As in scikit-learn.

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
        tags.array_api_support = False
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
