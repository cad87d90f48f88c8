"""Regression from measurements of arbitrary linear functionals, with learned hyperparameters."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from rkhs._core.backend.arrays import Array, as_array, as_real, double, immutable_copy, to_numpy, unique_rows
from rkhs._core.calculus.function_spaces import Constant
from rkhs._core.finite.solution import CONVERGED, Posterior
from rkhs._core.finite.term import Term
from rkhs._core.gram import gram
from rkhs._core.learning.tuning import initialized
from rkhs._core.problem import Problem
from rkhs.estimators._base import limited, transactional, warn_unless_converged
from rkhs.estimators._length_scales import as_kernel
from rkhs.functionals import Evaluation, Gradient
from rkhs.functionals._base import Functional
from rkhs.kernels import Gaussian, Kernel, Multiple, Tunable, median_scale
from rkhs.losses import Absolute, Huber, Loss, OneSided, Squared

# Losses of residuals in units of the noise, and the factor that makes them negative log-likelihoods.  Huber's loss is
# linear beyond 1.345 standard deviations, which is 95 % efficient for Gaussian noise (Huber 1981).
BY_NAME: dict[str, tuple[Loss, float]] = {
    "squared": (Squared(), 0.5),
    "huber": (Huber(delta=1.345), 0.5),
    "absolute": (Absolute(), 2**0.5),  # the Laplace distribution of variance one
    "one_sided": (OneSided(), 2**0.5),
}


@dataclass(frozen=True, eq=False)
class Measurement:
    """Measured values of linear functionals of f, with their noise; for `FunctionalRegressor`.

    The model is target_i = L_i(f) + noise.

    Parameters
    ----------
    functional : Functional
        The family of functionals L, such as `rkhs.Evaluation(X)`, `rkhs.Gradient(X)`, `rkhs.Integral(..)` or `W @ L`.
    target : float or array-like, default=0.0
        The measured values: a number, or an array of the shape of L, with one more axis for several outputs.  NaN marks
        values that were not measured.
    noise : float or array-like, optional
        The standard deviation of the noise: a number, or one for each functional.  By default one number is learned;
        functionals of shape (t, n), such as slopes, have it in the unit of each of the n kinds, as f under the prior.
    loss : str or Loss, default="squared"
        "squared"; "huber" or "absolute", which are robust to outliers; "one_sided", for which the target is a lower
        bound that L(f) may violate by about the noise; or a loss object, in the units of the target.

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
            raise TypeError(f"functional must be a family of functionals, such as rkhs.Evaluation(X), got {L!r}.")
        if not isinstance(self.loss, Loss) and self.loss not in BY_NAME:
            raise ValueError(f"loss must be an rkhs loss or one of {', '.join(map(repr, BY_NAME))}, got {self.loss!r}.")
        if self.bound and self.noise is None:
            raise ValueError(
                f"The target of {self!r} is a bound, from which no noise can be learned: pass as `noise` how far L(f) "
                "may be beyond the bound."
            )
        if self.noise is not None:
            noise = double(as_array(self.noise, "noise"))
            if noise.shape not in ((), L.shape) or not np.all(noise > 0):
                raise ValueError(
                    f"noise must be a positive standard deviation, or one for each functional of {L!r}, of shape "
                    f"{L.shape}; got {self.noise!r}."
                )
            object.__setattr__(self, "noise", float(noise) if noise.ndim == 0 else noise)
        object.__setattr__(self, "target", immutable_copy(as_real(self.target, "target")))
        Term(L, Squared(), self.target)  # validates the target

    def __repr__(self) -> str:
        noise = f"{np.size(self.noise)} numbers" if isinstance(self.noise, np.ndarray) else repr(self.noise)
        return f"Measurement({self.functional!r}, noise={noise}, loss={self.loss!r})"

    @property
    def bound(self) -> bool:
        """Whether the target is a lower bound."""
        return self.loss == "one_sided"

    @property
    def squared(self) -> bool:
        """Whether the loss is squared."""
        return self.loss == "squared" or isinstance(self.loss, Squared)

    @property
    def targets(self) -> np.ndarray[Any, Any]:
        """The targets in NumPy, of shape (size,) or (size, outputs), with NaN where nothing was measured."""
        target, L = double(self.target), self.functional
        return target.reshape(L.size, -1) if target.ndim > len(L.shape) else np.broadcast_to(target, L.shape).ravel()

    def squared_term(self, trust: Any = 1.0) -> Term:
        """Return the term of the squared loss, from which hyperparameters are learned.

        Parameters
        ----------
        trust : float or ndarray of shape (size,), default=1.0
            Factors on the weights of the targets; see `trust`.

        Returns
        -------
        Term
            The term with the weights trust / (2 noise^2); they are to be tuned if the noise is not given.
        """
        trust = np.broadcast_to(trust, (self.functional.size,))
        weight = Tunable() * trust if self.noise is None else trust / (2 * np.reshape(self.noise, -1) ** 2)
        return Term(self.functional, Squared(), self.target, weight)

    def term(self, noise: Any) -> Term:
        """Return the term of the loss; named losses are negative log-likelihoods of residuals in units of the noise.

        Parameters
        ----------
        noise : float or ndarray
            The standard deviation of the noise, a number or one for each functional.

        Returns
        -------
        Term
            The term.
        """
        sizes = np.broadcast_to(np.asarray(noise, dtype=np.float64), self.functional.shape)
        if self.squared:
            return Term(self.functional, Squared(), self.target, 1 / (2 * sizes.reshape(-1) ** 2))
        if isinstance(self.loss, Loss):
            linear = getattr(self.loss, "width", 0.0) == 0.0  # the loss grows like |r|, not like r^2
            weight = 2**0.5 / sizes if linear else 1 / (2 * sizes**2)
            return Term(self.functional, self.loss, self.target, weight.reshape(-1))
        loss, factor = BY_NAME[self.loss]
        targets, column = self.targets, sizes.reshape(-1)
        scaled = targets / (column if targets.ndim == 1 else column[:, None])
        L = (1 / sizes) * self.functional
        return Term(L, loss, scaled.reshape(*L.shape, *targets.shape[1:]), factor)

    def prior_sizes(self, kernel: Kernel) -> np.ndarray[Any, Any]:
        """Return the root mean squares of L(f) under a Gaussian process, of the shape of L.

        Functionals of one kind have one size: all of a shape (t,), and those at one place of further axes, such as the
        slopes in one feature.

        Parameters
        ----------
        kernel : Kernel
            The covariance of the process.

        Returns
        -------
        ndarray
            The sizes.
        """
        L = self.functional
        variances = to_numpy(gram(kernel, L).diagonal()).reshape(L.shape)
        return np.broadcast_to(np.sqrt(variances.mean(axis=0 if L.shape else None)), L.shape)

    def trust(self, f: Any, unit: Any) -> Any:
        """Return factors on the weights of the targets, in units of the noise, that are small for outliers.

        These are Cauchy's weights 1 / (1 + (r / 2.385 s)^2) of the residuals r, which are 95 % efficient for Gaussian
        noise (Holland and Welsch 1977); s is 1.4826 times the median of |r|.

        Parameters
        ----------
        f : Function or None
            A preliminary fit, if there is one.
        unit : float or ndarray of the shape of L
            The size of each functional, to which its noise is proportional.

        Returns
        -------
        float or ndarray of shape (size,)
            The factors, divided by the square of the unit.
        """
        unit = np.reshape(unit, -1) if np.ndim(unit) else unit
        if self.squared or self.bound or f is None:
            return 1.0 / unit**2
        values = to_numpy(self.functional(f)).reshape(self.targets.shape)
        residuals = np.abs(self.targets - values).reshape(self.functional.size, -1).max(axis=1) / unit
        deviation = max(1.4826 * float(np.nanmedian(residuals)), np.finfo(float).tiny)
        return np.where(np.isnan(residuals), 1.0, 1 / (1 + (residuals / (2.385 * deviation)) ** 2)) / unit**2


@dataclass(eq=False, repr=False)
class FunctionalRegressor(BaseEstimator):
    """Regressor that learns from measured values, slopes, averages and integrals, or other linear functionals of f.

    It minimizes

        1/2 |f|^2 + sum over measurements of loss(L_i(f); target_i)

    with weights that follow from the noise.  The hyperparameters are learned by maximum evidence (`Problem.tune`):
    length scales, amplitude, and the noise of each measurement without a given one.  A measurement whose targets are
    all zero is a prior, and the evidence is that of the other targets given it.  While hyperparameters are learned,
    losses that are not squared are replaced by squared ones with less weight on outliers, and bounds are left out.

    Parameters
    ----------
    kernel : str or Kernel, default="gaussian"
        "gaussian", "laplace", "matern", "rational_quadratic", "polynomial", "linear", or a kernel object, in which
        `rkhs.Tunable()` marks parameters to learn.
    scale : float, array-like of shape (n,), Tunable, "median" or None, default=None
        The length scale of a kernel given by name.  By default one for each feature is learned; `rkhs.Tunable()` learns
        one for all features.
    fit_intercept : bool, default=True
        Whether f has a constant that is not penalized.
    criterion : {"evidence", "loo"}, default="evidence"
        What chooses the hyperparameters: the evidence, or the leave-one-out errors.
    approximation : Landmarks, FourierGrid or None, default=None
        With `rkhs.Landmarks(p)` f is a combination of p functions, for many measurements.
    tol : float, default=1e-6
        The relative duality gap to reach.
    random_state : int or Generator, default=0
        The seed of the search for hyperparameters.
    verbose : bool, default=False
        Whether to print progress to standard error.

    Attributes
    ----------
    function_ : Function
        The learned function.
    solution_ : Solution
        The solution with its certificate.
    problem_ : Problem
        The problem that was solved, with the learned hyperparameters.
    tuning_ : Tuning
        The result of the search for hyperparameters.
    noise_ : list of float or ndarray
        The standard deviation of the noise of each measurement, learned or given, with the shape of the functionals if
        these have different units.
    n_features_in_ : int
        The dimension of the points.

    Examples
    --------
    Learn the sine from its averages over thirds of an interval, and its slope at the end:

    >>> import numpy as np, rkhs
    >>> thirds = rkhs.functionals.Average(np.linspace(0, 3, 300).reshape(3, 100, 1))
    >>> means = rkhs.Measurement(thirds, [0.46, 0.96, 0.51], noise=0.01)
    >>> end = rkhs.Measurement(rkhs.Gradient([[3.0]]), [[-0.99]], noise=0.01)
    >>> model = rkhs.FunctionalRegressor(scale=1.0).fit([means, end])
    >>> model.predict([[1.5]]).round(1), model.apply(thirds).round(2)
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
        """Learn f and the hyperparameters from measurements.

        Parameters
        ----------
        observations : Measurement or list of Measurement
            The measurements.
        y : None
            Ignored, for scikit-learn's conventions.

        Returns
        -------
        FunctionalRegressor
            The fitted estimator.
        """
        measurements = [observations] if isinstance(observations, Measurement) else list(observations)
        invalid = [item for item in measurements if not isinstance(item, Measurement)]
        if invalid or not measurements:
            raise TypeError(
                f"FunctionalRegressor learns from rkhs.Measurement(L, target), or a list of them, got "
                f"{invalid[0] if invalid else measurements!r}. For points X and targets y use rkhs.InvariantRegressor."
            )
        informative = [m for m in measurements if not m.bound]
        if not any(np.any(np.nan_to_num(m.targets) != 0) for m in informative):
            raise ValueError(
                "The hyperparameters cannot be learned from bounds and targets that are all zero: add measurements."
            )
        points = np.concatenate([to_numpy(part.atoms.points) for m in measurements for part in m.functional.parts])
        kernel = as_kernel(self.kernel, Tunable(each=True) if self.scale is None else self.scale, points)
        first = initialized(kernel, unique_rows(points)[0])[0] if not kernel.order else Gaussian(median_scale(points))
        # The prior variance of f explains the mean square of the targets, in units of their sizes under that kernel.
        tiny = np.finfo(float).tiny
        sizes = [np.maximum(m.prior_sizes(first), tiny**0.5) for m in informative]
        ratios = [np.nanmean((m.targets.T / size.reshape(-1)) ** 2) for m, size in zip(informative, sizes, strict=True)]
        variance = max(*map(float, ratios), tiny)
        pairs = zip(informative, sizes, strict=True)  # units of the noise that is learned
        units: dict[Any, Any] = {m: size if m.noise is None and np.ptp(size) > 0 else 1.0 for m, size in pairs}
        scaled = Multiple(Tunable(start=variance, low=1e-6 * variance, high=1e8 * variance), kernel)
        basis, trust = Constant() if self.fit_intercept else None, [m.trust(None, units[m]) for m in informative]
        learned = [m for m in informative if m.noise is None]
        for _ in range(1 if all(m.squared for m in informative) else 3):  # iterative reweighting of outliers
            terms = [m.squared_term(factors) for m, factors in zip(informative, trust, strict=True)]
            open_problem = Problem(scaled, terms, basis, approximation=self.approximation)
            options = {"random_state": self.random_state, "verbose": self.verbose}
            tuned = open_problem.tune(self.criterion, amplitude=1.0, **options)
            noise = {m: m.noise for m in measurements}
            for m, term, factors in zip(informative, tuned.terms, trust, strict=True):
                if m in learned:
                    noise[m] = units[m] * float(np.sqrt(np.max(factors) / (2 * np.max(term.weight))))
            for _ in range(5):  # the learned noise may be so small that rounding prevents convergence: raise it
                problem = replace(tuned, terms=[m.term(noise[m]) for m in measurements])
                solution = problem.solve(tol=self.tol, verbose=self.verbose)
                if solution.status == CONVERGED or not learned:
                    break
                noise |= {m: 10 * noise[m] for m in learned}
            trust = [m.trust(solution.function, units[m]) for m in informative]
        warn_unless_converged(self, solution)
        self.problem_, self.solution_, self.function_ = replace(problem), solution, solution.function
        self.tuning_, self.noise_ = tuned.tuning, [noise[m] for m in measurements]
        self.n_features_in_ = int(points.shape[1])
        return self

    def apply(self, L: Functional, return_std: bool = False) -> Any:
        """Return the values of functionals of f, and their standard deviations.

        Parameters
        ----------
        L : Functional
            The family of functionals.
        return_std : bool, default=False
            Whether to return the standard deviations of L(f) as well, without the noise of a new measurement; this
            needs squared losses.

        Returns
        -------
        ndarray
            L(f), of the shape of L, with a last axis for several outputs; with `return_std` a pair of these and of the
            standard deviations.
        """
        check_is_fitted(self, "function_")
        values = L(self.function_)
        return (values, self._posterior().std(L)) if return_std else values

    def _posterior(self) -> Posterior:
        """Return the posterior Gaussian process, of amplitude 1, as the kernel has the units of the targets."""
        check_is_fitted(self, "function_")
        if self.solution_.source is None:
            raise ValueError("A standard deviation needs the losses of all observations to be squared.")
        posterior = self.solution_.posterior
        amplitude = np.ones_like(posterior.amplitude)
        return replace(posterior, amplitude=float(amplitude) if amplitude.ndim == 0 else amplitude)

    @limited
    def predict(self, X: Array, return_std: bool = False) -> Any:
        """Predict f at the rows of X.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.
        return_std : bool, default=False
            Whether to return the standard deviations of f as well; this needs squared losses.

        Returns
        -------
        ndarray of shape (t,) or (t, outputs)
            The values; with `return_std` a pair of these and of their standard deviations.
        """
        return self.apply(Evaluation(X), return_std)

    @limited
    def predict_gradient(self, X: Array, return_std: bool = False) -> Any:
        """Predict the partial derivatives of f at the rows of X.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.
        return_std : bool, default=False
            Whether to return the standard deviations of the derivatives as well; this needs squared losses.

        Returns
        -------
        ndarray of shape (t, n) or (t, n, outputs)
            The derivatives; with `return_std` a pair of these and of their standard deviations.
        """
        return self.apply(Gradient(X), return_std)
