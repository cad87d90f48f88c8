"""The parameters of the estimators: named losses, validation, grids, and the configuration of a problem."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj
from scipy.sparse import issparse
from sklearn.base import BaseEstimator

from rkhs import losses
from rkhs._backend.arrays import Vector, double, immutable_copy, to_numpy
from rkhs._calculus.function_spaces import Constant, FunctionSpace
from rkhs._estimators.data import ClassPrior, Sample, class_weights, one_vs_rest
from rkhs._finite.term import Term
from rkhs._spaces.base import check_approximation
from rkhs.functionals import Evaluation, Functional, Gradient
from rkhs.losses import Loss

WIDTH = 0.1  # width of named losses that have one, in units of f, as the default epsilon of scikit-learn's SVR
LOSSES: dict[str, Loss] = {
    "hinge": losses.Hinge(),
    "squared_hinge": losses.SquaredHinge(),
    "logistic": losses.Logistic(),
    "squared": losses.Squared(),
    "absolute": losses.Absolute(),
    "huber": losses.Huber(delta=WIDTH),
    "epsilon_insensitive": losses.EpsilonInsensitive(epsilon=WIDTH),
    "squared_epsilon_insensitive": losses.SquaredEpsilonInsensitive(epsilon=WIDTH),
    "quantile": losses.Quantile(tau=0.5),
    "one_sided": losses.OneSided(),
    "squared_one_sided": losses.SquaredOneSided(),
}
CLASSIFICATION = ("hinge", "squared_hinge", "logistic", "squared")
REGRESSION = ("squared", "huber", "epsilon_insensitive", "squared_epsilon_insensitive", "absolute", "quantile")
INVARIANCE = tuple(name for name in LOSSES if name not in ("hinge", "squared_hinge", "logistic", "quantile"))

# Ranges of the default grids, as powers of ten: C and nu chosen by folds, C by leave-one-out errors, and nu of graphs.
C_RANGE, NU_RANGE, WIDE_C_RANGE, GRAPH_RANGE = (0, 3), (0, 2), (-1, 8), (2, 8)


@dataclass(frozen=True)
class SolverOptions:
    """How and where the problem of an estimator is solved; for its parameter `solver`.

    Parameters
    ----------
    method : "auto" or Solver, default="auto"
        "auto", which chooses by estimated cost, or one of `rkhs.solvers`.
    device : str, optional
        A device of PyTorch such as "cuda", to learn there; predictions come back as the kind of array that X is.
    precision : str, optional
        The arithmetic of Gram products: "float64", "float32", "tf32x3" or "tf32"; see `rkhs.Problem`.  An approximation
        sums in float64 instead.

    Examples
    --------
    >>> import rkhs
    >>> model = rkhs.InvariantClassifier(solver=rkhs.SolverOptions(precision="float32"))
    """

    method: Any = "auto"
    device: str | None = None
    precision: str | None = None

    @classmethod
    def of(cls, solver: Any) -> SolverOptions:
        """Return `solver` if it is a SolverOptions, otherwise the options with it as the method.

        Parameters
        ----------
        solver : "auto", Solver or SolverOptions
            The parameter `solver` of an estimator.

        Returns
        -------
        SolverOptions
            The options.
        """
        return solver if isinstance(solver, SolverOptions) else cls(solver)


@dataclass(frozen=True, eq=False)
class ModelConfig:
    """The parameters of an estimator that determine its problem, with the classes and the feature names."""

    kernel: Any = "gaussian"  # a name, or a Kernel
    scale: Any = "median"
    loss: Loss | str = "squared"
    C: float = 1.0
    learns_noise: bool = False  # whether C, and what else is open, is learned if there are slopes
    invariance: Any = None
    nu: float = 0.0
    gradient_weight: float | Vector | None = None
    class_weight: Mapping[Any, float] | str | ClassPrior | None = None
    fit_intercept: bool = True
    approximation: Any = None
    solver: Any = "auto"  # "auto", a Solver, or SolverOptions
    tol: float = 1e-4
    verbose: bool = False
    classes: Vector | None = None  # None for regression
    feature_names: Any = None  # of the columns of X

    @classmethod
    def of(cls, estimator: BaseEstimator, **changes: Any) -> ModelConfig:
        """Return the configuration of an estimator, with `changes` in place of some of its values."""
        names = {field.name for field in fields(cls)}
        values = {name: value for name, value in estimator.get_params(deep=False).items() if name in names}
        if values.get("C", 1.0) is None:
            values |= {"C": 1.0, "learns_noise": True}
        values["classes"] = getattr(estimator, "classes_", None)
        values["feature_names"] = getattr(estimator, "feature_names_in_", None)
        return cls(**{**values, **changes})

    @property
    def options(self) -> SolverOptions:
        return SolverOptions.of(self.solver)

    @property
    def basis(self) -> FunctionSpace | None:
        return Constant() if self.fit_intercept else None

    def label_term(self, sample: Sample) -> Term:
        """Return C * sum over the labeled points of class and sample weight * loss(f(x_i); y_i)."""
        labeled = sample.take(sample.labeled)
        target: Vector = labeled.y
        factors: Any = check_number(self.C, "C")
        if self.classes is not None:
            factors = factors * class_weights(self.class_weight, self.classes, labeled.y, labeled.weight)
            target = one_vs_rest(labeled.y, len(self.classes))
        return Term(Evaluation(labeled.X), self.label_loss, target=target, weight=factors * labeled.weight)

    @property
    def label_loss(self) -> Loss:
        names = REGRESSION if self.classes is None else CLASSIFICATION
        return as_loss(self.loss, names, "loss")

    def slope_weights(self, sample: Sample) -> Vector:
        """Return the weights (n,) of measured slopes in each feature.

        By default they are C times the variance of the feature: a slope times the standard deviation of its feature has
        the units of the target.
        """
        n = int(sample.X.shape[1])
        if isinstance(self.gradient_weight, np.ndarray):
            return self.gradient_weight
        if self.gradient_weight is not None:
            return np.full(n, check_number(self.gradient_weight, "gradient_weight"))
        X = double(sample.X)
        return check_number(self.C, "C") * np.cov(X.T, ddof=0, fweights=sample.count).reshape(n, n).diagonal()

    def observed_terms(self, sample: Sample, slope_weights: Vector | None = None) -> list[tuple[Term, Vector]]:
        """Return the terms of labels and of measured slopes with the indices of their points.

        The weights are those for a kernel with k(x, x) = 1.
        """
        pairs = [(self.label_term(sample), np.flatnonzero(sample.labeled))] if np.any(sample.labeled) else []
        if sample.slopes is None:
            return pairs
        which = np.flatnonzero(~np.all(np.isnan(sample.slopes.reshape(sample.size, -1)), axis=1))
        factors = self.slope_weights(sample) if slope_weights is None else slope_weights
        measured = sample.take(which)
        weight = np.outer(measured.weight, factors).reshape(measured.X.shape)
        slopes = Term(Gradient(measured.X), losses.Squared(), target=measured.slopes, weight=weight)
        return [*pairs, (slopes, which)]


def as_loss(loss: Any, names: tuple[str, ...], parameter: str) -> Loss:
    """Return the named loss; a loss object is returned unchanged."""
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str) or loss not in names:
        raise ValueError(f"{parameter} must be an rkhs loss or one of {quoted(names)}, got {loss!r}.")
    return LOSSES[loss]


def check_number(value: Any, parameter: str, *, or_zero: bool = False) -> float:
    """Return the value as a float; raise an error unless it is finite and positive, or zero with `or_zero`."""
    valid = isinstance(value, Real) and not isinstance(value, bool) and 0 <= float(value) < float("inf")
    if not valid or (float(value) == 0 and not or_zero):
        raise ValueError(f"{parameter} must be a finite number {'>=' if or_zero else '>'} 0, got {value!r}.")
    return float(value)


def quoted(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def check_in_span(approximation: Any, solver: Any) -> None:
    """Validate `approximation`; it excludes `solver`."""
    check_approximation(approximation)
    method = SolverOptions.of(solver).method
    if not (isinstance(method, str) and method == "auto"):
        raise ValueError(
            f"solver={solver!r} and approximation={approximation!r} are mutually exclusive, since the problem of an "
            "approximation is solved directly: leave one of them out."
        )


def as_grid(values: Any, parameter: str, powers: tuple[int, int], *, with_zero: bool = False) -> list[float]:
    """Return the values of a grid: those given, or for an integer that many between two powers of ten.

    With `with_zero` the first of these is 0, and zero is a valid value.
    """
    if isinstance(values, Integral) and not isinstance(values, bool):
        if values < 1:
            raise ValueError(f"{parameter} must be a positive number of values, or the values, got {values!r}.")
        count = int(values) - with_zero
        return [0.0] * with_zero + [float(v) for v in np.logspace(*powers, count)]
    return [check_number(v, parameter, or_zero=with_zero) for v in as_list(values)]


def as_list(values: Any) -> list[Any]:
    """Return the values of a grid as a list; a single value makes a list of one."""
    several = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
    result = list(values) if several else [values]
    if not result:
        raise ValueError("A grid needs at least one value.")
    return result


def parameters(estimator: BaseEstimator) -> dict[str, Any]:
    """Return the parameters of an estimator, with copies of lists, dictionaries and arrays."""

    def copied(value: Any) -> Any:
        if is_array_api_obj(value):
            return immutable_copy(value)
        return copy(value) if isinstance(value, list | dict) else value

    return {name: copied(value) for name, value in estimator.get_params(deep=False).items()}


def check_unchanged(estimator: BaseEstimator, before: dict[str, Any]) -> None:
    """Raise an error that names the parameters which have changed since the first `partial_fit`."""
    now = parameters(estimator)
    free = ("tol", "verbose")  # the sums over rows do not depend on these
    changed = [name for name in now if name not in free and not same(now[name], before[name])]
    if changed:
        changes = "; ".join(f"{name} was {before[name]!r} and is {now[name]!r}" for name in changed)
        raise ValueError(
            f"Parameters have changed since {type(estimator).__name__} learned from earlier rows: {changes}. "
            "Set them back, or start anew with sklearn.base.clone(estimator)."
        )


def same(first: Any, second: Any) -> bool:
    """Return whether two parameters are equal, comparing arrays and dataclasses by value."""
    if first is second:
        return True
    if is_array_api_obj(first) or is_array_api_obj(second):
        return is_array_api_obj(first) == is_array_api_obj(second) and np.array_equal(to_numpy(first), to_numpy(second))
    if isinstance(first, float) and first != first:
        return isinstance(second, float) and second != second
    if type(first) is not type(second):
        return bool(first == second)  # numbers of different types may be equal
    if isinstance(first, Mapping):
        return first.keys() == second.keys() and all(same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, Functional):
        return same((first.shape, first.parts), (second.shape, second.parts))
    if issparse(first):
        return first.shape == second.shape and (first != second).nnz == 0
    if is_dataclass(first):
        return all(same(getattr(first, field.name), getattr(second, field.name)) for field in fields(first))
    return bool(first == second)
