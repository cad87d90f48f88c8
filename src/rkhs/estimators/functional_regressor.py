"""Regression from observations of any linear kind, with settings that are learnt."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from rkhs._backend.arrays import Array, to_numpy
from rkhs._calculus.polynomials import Constant
from rkhs._finite.function import Function
from rkhs._finite.solution import CONVERGED, Solution
from rkhs._gram import gram
from rkhs.estimators._options import as_kernel
from rkhs.estimators.base import all_or_nothing
from rkhs.estimators.observed import Observed
from rkhs.functionals import Evaluation, Functional, Gradient, stack
from rkhs.kernels import Gaussian, Multiple, learn, median_scale
from rkhs.problem import Problem

ROUNDS = 3  # of learning settings with robust losses, each with less weight on outliers
RAISES = 4  # of learnt noise, by ten each, where rounding has the last word


class FunctionalRegressor(BaseEstimator):
    """Regressor that learns from measurements of any kind: values, slopes, averages, integrals, all linear in f.

        min 1/2 |f|^2 + sum over observations of loss(L_i(f); target_i), with weights from the noise of each kind.

    Settings are learnt: the kernel's scales and amplitude, and the noise of each kind that does not say its own, by
    what makes the targets most likely (`Problem.tune`).  Targets that are all zero are taken for knowledge, which is
    given.  Losses that are not squared are taken for squared ones while settings are learnt, with less weight on
    outliers, and bounds are left out.

    Parameters
    ----------
    kernel : "gaussian", "matern", "rational_quadratic", "polynomial", "linear", or an rkhs kernel, in which
        `rkhs.learn()` stands for what is to be learnt
    scale : the length scale of a kernel given by name: None, learnt, one for each feature; `rkhs.learn()`, one for all;
        a number, one for each feature, or "median"
    fit_intercept : whether f has a constant that is not penalised
    criterion : "evidence", or "loo", the error on points that are left out
    approximation : None, or rkhs.Landmarks(p), for many observations
    tol : the relative duality gap to reach
    random_state : a seed of the search
    verbose : whether to show progress; None: where it takes more than two seconds

    Attributes
    ----------
    function_, solution_, problem_ : the learnt rkhs.Function, the rkhs.Solution with its certificate, and the problem
    tuning_ : how the settings were found, an rkhs.Tuning
    noise_ : the standard deviation of each observation, learnt or given, in the order of the observations
    n_features_in_ : the dimension of the points

    Examples
    --------
    Averages over thirds of an interval, and the slope at its end:

    >>> import numpy as np, rkhs
    >>> thirds = rkhs.Average(np.linspace(0, 3, 300).reshape(3, 100, 1))
    >>> means = rkhs.Observed(thirds, [0.46, 0.96, 0.51], noise=0.01)
    >>> end = rkhs.Observed(rkhs.Gradient([[3.0]]), [[-0.99]], noise=0.01)
    >>> model = rkhs.FunctionalRegressor(scale=1.0).fit([means, end])
    >>> model.predict([[1.5]]).round(1), model.apply(thirds).round(2)  # of sin
    (array([1.]), array([0.46, 0.96, 0.51]))
    """

    function_: Function
    solution_: Solution
    problem_: Problem

    def __init__(
        self,
        kernel: Any = "gaussian",
        *,
        scale: Any = None,
        fit_intercept: bool = True,
        criterion: str = "evidence",
        approximation: Any = None,
        tol: float = 1e-6,
        random_state: Any = 0,
        verbose: bool | None = None,
    ) -> None:
        self.kernel = kernel
        self.scale = scale
        self.fit_intercept = fit_intercept
        self.criterion = criterion
        self.approximation = approximation
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    @all_or_nothing
    def fit(self, observations: Observed | Iterable[Observed], y: None = None) -> FunctionalRegressor:
        """Learn f from one `rkhs.Observed`, or from several."""
        kinds = [observations] if isinstance(observations, Observed) else list(observations)
        strange = [one for one in kinds if not isinstance(one, Observed)]
        if strange or not kinds:
            raise TypeError(
                f"FunctionalRegressor learns from rkhs.Observed(L, target), or a list of them, got "
                f"{strange[0] if strange else kinds!r}. For points X and targets y use rkhs.InvariantRegressor."
            )
        measured = [one for one in kinds if not one.bound]
        if not any(np.any(np.nan_to_num(one.told) != 0) for one in measured):
            raise ValueError("Bounds, and targets that are all zero, say nothing about scales: add measurements.")
        points = _points_of(stack([one.functional for one in kinds]))
        kernel = as_kernel(self.kernel, learn(each=True) if self.scale is None else self.scale, points)
        level = _level(measured, points)
        units = Multiple(learn(start=level, low=1e-6 * level, high=1e8 * level), kernel)
        trust: list[Any] = [1.0] * len(measured)
        for _ in range(1 if all(one.squared for one in measured) else ROUNDS):
            tuned = Problem(
                units,
                [one.squared_term(own) for one, own in zip(measured, trust, strict=True)],
                Constant() if self.fit_intercept else None,
                approximation=self.approximation,
            ).tune(self.criterion, amplitude=1.0, random_state=self.random_state, verbose=self.verbose)
            learnt = zip(measured, tuned.terms, trust, strict=True)
            noise = {one: one.noise_in(term, own) for one, term, own in learnt}
            problem, solution, noise = self._solved(tuned, kinds, noise)
            trust = [one.trust(solution.function) for one in measured]
        if solution.status != CONVERGED:
            warnings.warn(
                f"FunctionalRegressor stopped before tol={self.tol:g}: {solution}. Give it a larger tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.problem_, self.solution_, self.function_ = replace(problem), solution, solution.function
        self.tuning_, self.noise_ = tuned.tuning, [noise.get(one, one.noise) for one in kinds]
        self.n_features_in_ = int(points.shape[1])
        return self

    def _solved(self, tuned: Problem, kinds: list[Observed], noise: dict[Observed, Any]) -> Any:
        """The problem with its solution and noise, raised where so little was learnt that rounding spoils f.

        Data without noise would be followed to the last digit, and beyond.
        """
        for _ in range(RAISES + 1):
            problem = replace(tuned, terms=[one.term(noise.get(one, one.noise)) for one in kinds])
            solution = problem.solve(tol=self.tol, verbose=self.verbose)
            learnt = [one for one in noise if one.noise is None]
            if solution.status == CONVERGED or not learnt:
                break
            noise = noise | {one: 10 * noise[one] for one in learnt}
        return problem, solution, noise

    def apply(self, L: Functional, return_std: bool = False) -> Any:
        """L(f) for any functionals L, in their shape; with `return_std` also the standard deviations of L(f).

        The latter are for squared losses only, and without the noise of a new measurement.
        """
        check_is_fitted(self, "function_")
        values = L(self.function_)
        if not return_std:
            return values
        if self.solution_.source is None:
            raise ValueError("A standard deviation needs the losses of all observations to be squared.")
        posterior = self.solution_.posterior
        return values, replace(posterior, amplitude=np.ones_like(posterior.amplitude)[()]).std(L)

    def predict(self, X: Array, return_std: bool = False) -> Any:
        """f at the rows of X; with `return_std` also its standard deviation there."""
        return self.apply(Evaluation(X), return_std)

    def predict_gradient(self, X: Array, return_std: bool = False) -> Any:
        """The slopes of f at the rows of X, (t, n); with `return_std` also their standard deviations."""
        return self.apply(Gradient(X), return_std)


def _level(kinds: Sequence[Observed], points: np.ndarray[Any, Any]) -> float:
    """The mean square of f, about: of targets, over what a kernel with values of size one expects of them."""
    kernel = Gaussian(median_scale(points) if len(np.unique(points, axis=0)) > 1 else 1.0)
    ratios = []
    for one in kinds:
        expected = float(np.mean(to_numpy(gram(kernel, one.functional).diagonal())))
        ratios.append(float(np.nanmean(one.told**2)) / max(expected, np.finfo(float).tiny))
    return max(*ratios, np.finfo(float).tiny)


def _points_of(L: Functional) -> Array:
    """All points of a family."""
    return np.concatenate([to_numpy(part.atoms.points) for part in L.parts])
