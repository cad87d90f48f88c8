"""Regression from observations of any linear kind, with settings that are learned."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from rkhs._backend.arrays import Array, as_array, as_real, owned, to_numpy
from rkhs._calculus.function_spaces import Constant
from rkhs._estimators.base import transactional
from rkhs._estimators.length_scales import as_kernel
from rkhs._finite.solution import CONVERGED
from rkhs._finite.term import Term
from rkhs._gram import gram
from rkhs._problem import Problem
from rkhs._warnings import warn
from rkhs.functionals import Evaluation, Gradient
from rkhs.functionals._base import Functional
from rkhs.kernels import Gaussian, Multiple, Tunable, median_scale
from rkhs.losses import Absolute, Huber, Loss, OneSided, Squared

# Losses of the residual in standard deviations, and the factor that makes them minus a log-likelihood.  Huber's loss is
# linear beyond 1.345 of them, which is 95 % efficient where noise is Gaussian.
BY_NAME: dict[str, tuple[Loss, float]] = {
    "squared": (Squared(), 0.5),
    "huber": (Huber(delta=1.345), 0.5),
    "absolute": (Absolute(), 2**0.5),  # of the double exponential density of variance one
    "one_sided": (OneSided(), 2**0.5),
}


@dataclass(frozen=True, eq=False)
class Measurement:
    """What was measured: functionals of f, their values, and how exact these are; for `FunctionalRegressor`.

    L_i(f) is about target_i, with noise of a standard deviation.

    Parameters
    ----------
    functional : a family of functionals L: `rkhs.Evaluation(X)`, `rkhs.Gradient(X)`, `rkhs.Integral(..)`, `W @ L`, ..
    target : a number, or an array of the shape of L, NaN for what was not observed; with one more axis several outputs
    noise : the standard deviation of the target, a number or one for each functional; None: one number, learned
    loss : "squared"; "huber" and "absolute", which outliers cannot pull away; "one_sided", for which the target is a
        lower bound, held as tightly as its noise is small; or an rkhs loss, in the units of the target

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.Measurement(rkhs.Gradient(np.zeros((2, 3))), np.ones((2, 3)), noise=0.1)
    Measurement(Gradient(2 points in R^3), noise=0.1, loss='squared')
    """

    functional: Functional
    target: Any = 0.0
    noise: Any = None
    loss: Any = "squared"

    def __post_init__(self) -> None:
        L = self.functional
        if not isinstance(L, Functional):
            raise TypeError(f"Measurement needs a family of functionals, such as rkhs.Evaluation(X), got {L!r}.")
        if not isinstance(self.loss, Loss) and self.loss not in BY_NAME:
            raise ValueError(f"loss must be an rkhs loss or one of {', '.join(map(repr, BY_NAME))}, got {self.loss!r}.")
        if self.bound and self.noise is None:
            raise ValueError(
                f"The target of {self!r} is a bound, from which no noise can be learned: say by its `noise` how far "
                "beyond the bound L(f) may be."
            )
        if self.noise is not None:
            noise = to_numpy(as_array(self.noise, "noise")).astype(np.float64)
            if noise.shape not in ((), L.shape) or not np.all(noise > 0):
                raise ValueError(
                    f"The noise of {L!r} is a positive standard deviation, or one for each of its functionals, of "
                    f"shape {L.shape}; got {self.noise!r}."
                )
            object.__setattr__(self, "noise", float(noise) if noise.ndim == 0 else noise)
        object.__setattr__(self, "target", owned(as_real(self.target, "target")))
        Term(L, Squared(), self.target)  # which checks the target

    def __repr__(self) -> str:
        noise = f"{np.size(self.noise)} numbers" if isinstance(self.noise, np.ndarray) else repr(self.noise)
        return f"Measurement({self.functional!r}, noise={noise}, loss={self.loss!r})"

    @property
    def bound(self) -> bool:
        """Whether the target is only a bound."""
        return self.loss == "one_sided"

    @property
    def squared(self) -> bool:
        """Whether the loss is squared."""
        return self.loss == "squared" or isinstance(self.loss, Squared)

    @property
    def told(self) -> np.ndarray[Any, Any]:
        """The targets in NumPy, (size,) or (size, outputs), NaN where there was no observation."""
        target, L = to_numpy(self.target).astype(np.float64), self.functional
        return target.reshape(L.size, -1) if target.ndim > len(L.shape) else np.broadcast_to(target, L.shape).ravel()

    def squared_term(self, trust: Any = 1.0) -> Term:
        """Return the squared loss from which settings are learned: weight trust / (2 noise^2), open without noise."""
        trust = np.broadcast_to(trust, (self.functional.size,))
        weight = Tunable() * trust if self.noise is None else trust / (2 * np.reshape(self.noise, -1) ** 2)
        return Term(self.functional, Squared(), self.target, weight)

    def term(self, noise: Any) -> Term:
        """Return the term of the loss, of a named one minus a log-likelihood of residuals over the noise."""
        sizes = np.broadcast_to(np.asarray(noise, dtype=np.float64), self.functional.shape)
        if self.squared:
            return Term(self.functional, Squared(), self.target, 1 / (2 * sizes.reshape(-1) ** 2))
        if isinstance(self.loss, Loss):
            steep = getattr(self.loss, "width", 0.0) == 0.0  # it grows like |r|, not like r^2
            weight = 2**0.5 / sizes if steep else 1 / (2 * sizes**2)
            return Term(self.functional, self.loss, self.target, weight.reshape(-1))
        loss, factor = BY_NAME[self.loss]
        told, wide = self.told, sizes.reshape(-1)
        scaled = told / (wide if told.ndim == 1 else wide[:, None])
        L = (1 / sizes) * self.functional
        return Term(L, loss, scaled.reshape(*L.shape, *told.shape[1:]), factor)

    def trust(self, f: Any) -> Any:
        """Return how much each target may weigh when settings are learned, at most 1: less where it is an outlier to f.

        Cauchy's weights 1 / (1 + (r / 2.385 s)^2) are 95 % efficient where noise is Gaussian; its standard deviation s
        is 1.4826 times the median of |r|.  They are one for all where the loss is squared.
        """
        if self.squared or self.bound:
            return 1.0
        found = to_numpy(self.functional(f)).reshape(self.told.shape)
        away = np.abs(self.told - found).reshape(self.functional.size, -1).max(axis=1)
        typical = max(1.4826 * float(np.nanmedian(away)), np.finfo(float).tiny)
        return np.where(np.isnan(away), 1.0, 1 / (1 + (away / (2.385 * typical)) ** 2))


@dataclass(eq=False, repr=False)
class FunctionalRegressor(BaseEstimator):
    """Regressor that learns from measurements of any kind: values, slopes, averages, integrals, all linear in f.

        min 1/2 |f|^2 + sum over observations of loss(L_i(f); target_i), with weights from the noise of each kind.

    Settings are learned: the kernel's scales and amplitude, and the noise of each kind that does not say its own, by
    what makes the targets most likely (`Problem.tune`).  Targets that are all zero are taken for knowledge, which is
    given.  Losses that are not squared are taken for squared ones while settings are learned, with less weight on
    outliers, and bounds are left out.

    Parameters
    ----------
    kernel : "gaussian", "matern", "rational_quadratic", "polynomial", "linear", or an rkhs kernel, in which
        `rkhs.Tunable()` stands for what is to be learned
    scale : the length scale of a kernel given by name: None, learned, one for each feature; `rkhs.Tunable()`, one for all;
        a number, one for each feature, or "median"
    fit_intercept : whether f has a constant that is not penalized
    criterion : "evidence", or "loo", the error on points that are left out
    approximation : None, or rkhs.Landmarks(p), for many observations
    tol : the relative duality gap to reach
    random_state : a seed of the search
    verbose : whether to print progress to standard error

    Attributes
    ----------
    function_, solution_, problem_ : the learned rkhs.Function, the rkhs.Solution with its certificate, and the problem
    tuning_ : how the settings were found, an rkhs.results.Tuning
    noise_ : the standard deviation of each observation, learned or given, in the order of the observations
    n_features_in_ : the dimension of the points

    Examples
    --------
    Averages over thirds of an interval, and the slope at its end:

    >>> import numpy as np, rkhs
    >>> thirds = rkhs.Average(np.linspace(0, 3, 300).reshape(3, 100, 1))
    >>> means = rkhs.Measurement(thirds, [0.46, 0.96, 0.51], noise=0.01)
    >>> end = rkhs.Measurement(rkhs.Gradient([[3.0]]), [[-0.99]], noise=0.01)
    >>> model = rkhs.FunctionalRegressor(scale=1.0).fit([means, end])
    >>> model.predict([[1.5]]).round(1), model.apply(thirds).round(2)  # of sin
    (array([1.]), array([0.46, 0.96, 0.51]))
    """

    kernel: Any = "gaussian"
    _: KW_ONLY
    scale: Any = None
    fit_intercept: bool = True
    criterion: str = "evidence"
    approximation: Any = None
    tol: float = 1e-6
    random_state: Any = 0
    verbose: bool = False

    @transactional
    def fit(self, observations: Measurement | Iterable[Measurement], y: None = None) -> FunctionalRegressor:
        """Learn f from one `rkhs.Measurement`, or from several."""
        kinds = [observations] if isinstance(observations, Measurement) else list(observations)
        strange = [one for one in kinds if not isinstance(one, Measurement)]
        if strange or not kinds:
            raise TypeError(
                f"FunctionalRegressor learns from rkhs.Measurement(L, target), or a list of them, got "
                f"{strange[0] if strange else kinds!r}. For points X and targets y use rkhs.InvariantRegressor."
            )
        measured = [one for one in kinds if not one.bound]
        if not any(np.any(np.nan_to_num(one.told) != 0) for one in measured):
            raise ValueError("Bounds, and targets that are all zero, say nothing about scales: add measurements.")
        points = np.concatenate([to_numpy(part.atoms.points) for one in kinds for part in one.functional.parts])
        kernel = as_kernel(self.kernel, Tunable(each=True) if self.scale is None else self.scale, points)
        level = _level(measured, points)
        units = Multiple(Tunable(start=level, low=1e-6 * level, high=1e8 * level), kernel)
        trust: list[Any] = [1.0] * len(measured)
        for _ in range(1 if all(one.squared for one in measured) else 3):  # each with less weight on outliers
            tuned = Problem(
                units,
                [one.squared_term(own) for one, own in zip(measured, trust, strict=True)],
                Constant() if self.fit_intercept else None,
                approximation=self.approximation,
            ).tune(self.criterion, amplitude=1.0, random_state=self.random_state, verbose=self.verbose)
            noise, learned = {one: one.noise for one in kinds}, [one for one in measured if one.noise is None]
            for one, term, own in zip(measured, tuned.terms, trust, strict=True):
                if one in learned:
                    noise[one] = float(np.sqrt(np.max(own) / (2 * np.max(term.weight))))
            for _ in range(5):  # the noise is raised where so little was learned that rounding spoils f
                problem = replace(tuned, terms=[one.term(noise[one]) for one in kinds])
                solution = problem.solve(tol=self.tol, verbose=self.verbose)
                if solution.status == CONVERGED or not learned:
                    break
                noise |= {one: 10 * noise[one] for one in learned}
            trust = [one.trust(solution.function) for one in measured]
        if solution.status != CONVERGED:
            warn(
                f"FunctionalRegressor stopped before tol={self.tol:g}: {solution}. Give it a larger tol.",
                ConvergenceWarning,
            )
        self.problem_, self.solution_, self.function_ = replace(problem), solution, solution.function
        self.tuning_, self.noise_ = tuned.tuning, [noise[one] for one in kinds]
        self.n_features_in_ = int(points.shape[1])
        return self

    def apply(self, L: Functional, return_std: bool = False) -> Any:
        """Return L(f) for any functionals L, in their shape; with `return_std` also the standard deviations of L(f).

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
        """Return f at the rows of X; with `return_std` also its standard deviation there."""
        return self.apply(Evaluation(X), return_std)

    def predict_gradient(self, X: Array, return_std: bool = False) -> Any:
        """Return the slopes of f at the rows of X, (t, n); with `return_std` also their standard deviations."""
        return self.apply(Gradient(X), return_std)


def _level(kinds: Sequence[Measurement], points: np.ndarray[Any, Any]) -> float:
    """Return about the mean square of f: of targets, over what a kernel with values of size one expects of them."""
    kernel = Gaussian(median_scale(points) if len(np.unique(points, axis=0)) > 1 else 1.0)
    ratios = []
    for one in kinds:
        expected = float(np.mean(to_numpy(gram(kernel, one.functional).diagonal())))
        ratios.append(float(np.nanmean(one.told**2)) / max(expected, np.finfo(float).tiny))
    return max(*ratios, np.finfo(float).tiny)
