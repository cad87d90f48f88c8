"""The parameters of estimators: losses by name, checks, grids, and the configuration that passes on to a problem."""

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
from rkhs._backend.arrays import Vector, owned, to_numpy
from rkhs._calculus.function_spaces import Constant, FunctionSpace
from rkhs._estimators.data import ClassPrior, Sample, class_weights, one_vs_rest
from rkhs._finite.term import Term
from rkhs._spaces.base import check_approximation
from rkhs.functionals import Evaluation, Functional, Gradient
from rkhs.losses import Loss

WIDTH = 0.1  # of losses by name that have one, in units of f, as epsilon of scikit-learn's SVR
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

# The default grids: powers of ten of C and nu by folds, of C by leave-one-out errors, and of nu of graphs.
C_RANGE, NU_RANGE, WIDE_C_RANGE, GRAPH_RANGE = (0, 3), (0, 2), (-1, 8), (2, 8)


@dataclass(frozen=True)
class SolverOptions:
    """How and where the problem of an estimator is solved; for its parameter `solver`.

    Parameters
    ----------
    method : str or Solver
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
        """Return the options themselves, or those of a bare method."""
        return solver if isinstance(solver, SolverOptions) else cls(solver)


@dataclass(frozen=True, eq=False)
class ModelConfig:
    """The parameters of an estimator that determine its problem, and what `fit` knows of y and X."""

    kernel: Any = "gaussian"  # a name, or a Kernel
    scale: Any = "median"
    loss: Loss | str = "squared"
    C: float = 1.0
    invariance: Any = None
    nu: float = 0.0
    gradient_weight: float | None = None
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
        """Copy what an estimator's parameters and its data determine; `changes` take the place of some of it."""
        names = {field.name for field in fields(cls)}
        given = {name: value for name, value in estimator.get_params(deep=False).items() if name in names}
        given["classes"] = getattr(estimator, "classes_", None)
        given["feature_names"] = getattr(estimator, "feature_names_in_", None)
        return cls(**{**given, **changes})

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
            own = class_weights(self.class_weight, self.classes, labeled.y, labeled.weight)
            factors, target = factors * own, one_vs_rest(labeled.y, len(self.classes))
        return Term(Evaluation(labeled.X), self.label_loss, target=target, weight=factors * labeled.weight)

    @property
    def label_loss(self) -> Loss:
        names = REGRESSION if self.classes is None else CLASSIFICATION
        return as_loss(self.loss, names, "loss")

    def slope_term(self, sample: Sample) -> Term:
        """Return the term of measured slopes; times the deviations of features they have the units of the target."""
        slopes: Any = sample.slopes
        known = sample.take(~np.all(np.isnan(slopes.reshape(sample.size, -1)), axis=1))
        n = int(known.X.shape[1])
        if self.gradient_weight is None:
            X = to_numpy(sample.X).astype(np.float64)
            factors = check_number(self.C, "C") * np.cov(X.T, ddof=0, fweights=sample.count).reshape(n, n).diagonal()
        else:
            factors = np.full(n, check_number(self.gradient_weight, "gradient_weight"))
        return Term(
            Gradient(known.X),
            losses.Squared(),
            target=known.slopes,
            weight=np.outer(known.weight, factors).reshape(known.X.shape),
        )

    def observed_terms(self, sample: Sample) -> list[Term]:
        """Return the terms of labels and of measured slopes, weights in units of a kernel with k(x, x) = 1."""
        terms = [self.label_term(sample)] if np.any(sample.labeled) else []
        return terms if sample.slopes is None else [*terms, self.slope_term(sample)]


def as_loss(loss: Any, names: tuple[str, ...], parameter: str) -> Loss:
    """Return a loss object as it is, or the named one."""
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str) or loss not in names:
        raise ValueError(f"{parameter} must be an rkhs loss or one of {quoted(names)}, got {loss!r}.")
    return LOSSES[loss]


def check_number(value: Any, parameter: str, *, or_zero: bool = False) -> float:
    """Return a number if it is finite and positive, or zero where that makes sense."""
    good = isinstance(value, Real) and not isinstance(value, bool) and 0 <= float(value) < float("inf")
    if not good or (float(value) == 0 and not or_zero):
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
            f"solver={solver!r} is for all representers, and approximation={approximation!r} is solved in one go: "
            "leave one of them out."
        )


def as_grid(values: Any, parameter: str, powers: tuple[int, int], *, with_zero: bool = False) -> list[float]:
    """Return numbers as they are given, or for an integer as many, in equal ratios, with zero first if wanted."""
    if isinstance(values, Integral) and not isinstance(values, bool):
        if values < 1:
            raise ValueError(f"{parameter} must be a positive number of values, or the values, got {values!r}.")
        count = int(values) - with_zero
        return [0.0] * with_zero + [float(v) for v in np.logspace(*powers, count)]
    return [check_number(v, parameter, or_zero=with_zero) for v in as_list(values)]


def as_list(values: Any) -> list[Any]:
    """Return a list, also of a single value."""
    several = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
    found = list(values) if several else [values]
    if not found:
        raise ValueError("A grid needs at least one value.")
    return found


def parameters(estimator: BaseEstimator) -> dict[str, Any]:
    """Return the parameters as they are now, whatever becomes of lists, dictionaries and arrays among them."""

    def kept(value: Any) -> Any:
        if is_array_api_obj(value):
            return owned(value)
        return copy(value) if isinstance(value, list | dict) else value

    return {name: kept(value) for name, value in estimator.get_params(deep=False).items()}


def check_unchanged(estimator: BaseEstimator, before: dict[str, Any]) -> None:
    """Refuse to go on learning with other parameters than before, and name them."""
    now = parameters(estimator)
    free = ("tol", "verbose")  # on which the sums of the rows do not depend
    changed = [name for name in now if name not in free and not same(now[name], before[name])]
    if changed:
        list_of_changes = "; ".join(f"{name} was {before[name]!r} and is {now[name]!r}" for name in changed)
        raise ValueError(
            f"The rows that {type(estimator).__name__}.partial_fit has seen were added up with other parameters: "
            f"{list_of_changes}. Set these back, or start anew with sklearn.base.clone(estimator)."
        )


def same(one: Any, other: Any) -> bool:
    """Return whether two parameters are the same, or copies of the same."""
    if one is other:
        return True
    if is_array_api_obj(one) or is_array_api_obj(other):
        return is_array_api_obj(one) == is_array_api_obj(other) and np.array_equal(to_numpy(one), to_numpy(other))
    if isinstance(one, float) and one != one:
        return isinstance(other, float) and other != other
    if type(one) is not type(other):
        return bool(one == other)  # numbers of several types
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Functional):
        return same((one.shape, one.parts), (other.shape, other.parts))
    if issparse(one):
        return one.shape == other.shape and (one != other).nnz == 0
    if is_dataclass(one):
        return all(same(getattr(one, field.name), getattr(other, field.name)) for field in fields(one))
    return bool(one == other)
