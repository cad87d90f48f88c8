"""Kernels and losses by name, and checks of numbers.

The grids of the cross-validated machines.

Whether the parameters of a machine are those that it began to learn with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import fields, is_dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj
from scipy.sparse import issparse

from rkhs._backend.arrays import Array, owned, to_numpy
from rkhs.functionals import Functional
from rkhs.kernels import Gaussian, Kernel, Laplace, Linear, Matern, Polynomial, RationalQuadratic
from rkhs.learning.tuning import CRITERIA
from rkhs.losses import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    Loss,
    OneSided,
    Quantile,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
    SquaredOneSided,
)
from rkhs.spaces.base import check_approximation

KERNELS: dict[str, Callable[[Any], Kernel]] = {
    "gaussian": lambda scale: Gaussian(scale=scale),
    "laplace": lambda scale: Laplace(scale=scale),
    "matern": lambda scale: Matern(nu=2.5, scale=scale),
    "rational_quadratic": lambda scale: RationalQuadratic(alpha=1.0, scale=scale),
    "polynomial": lambda scale: Polynomial(degree=3, offset=1.0),
    "linear": lambda scale: Linear(),
}
LEARNT = (*CRITERIA, "cv")  # words for scales that are learnt from labels (`scales`)
SCALED = ("gaussian", "laplace", "matern", "rational_quadratic")
# each takes the width epsilon and the level tau, which most have no use for
LOSSES: dict[str, Callable[[float, float], Loss]] = {
    "hinge": lambda epsilon, tau: Hinge(),
    "squared_hinge": lambda epsilon, tau: SquaredHinge(),
    "logistic": lambda epsilon, tau: Logistic(),
    "squared": lambda epsilon, tau: Squared(),
    "absolute": lambda epsilon, tau: Absolute(),
    "huber": lambda epsilon, tau: Huber(delta=epsilon),
    "epsilon_insensitive": lambda epsilon, tau: EpsilonInsensitive(epsilon=epsilon),
    "squared_epsilon_insensitive": lambda epsilon, tau: SquaredEpsilonInsensitive(epsilon=epsilon),
    "quantile": lambda epsilon, tau: Quantile(tau=tau),
    "one_sided": lambda epsilon, tau: OneSided(),
    "squared_one_sided": lambda epsilon, tau: SquaredOneSided(),
}
CLASSIFICATION = ("hinge", "squared_hinge", "logistic", "squared")
REGRESSION = ("squared", "huber", "epsilon_insensitive", "squared_epsilon_insensitive", "absolute", "quantile")
INVARIANCE = tuple(name for name in LOSSES if name not in ("hinge", "squared_hinge", "logistic", "quantile"))


def as_kernel(kernel: Any, scale: Any, X: Array) -> Kernel:
    """A kernel object as it is, or the named one with the given scale; "median" is that of the distinct points X."""
    if not isinstance(kernel, Kernel):
        if kernel not in KERNELS:
            raise ValueError(f"kernel must be an rkhs kernel or one of {_listed(KERNELS)}, got {kernel!r}.")
        if isinstance(scale, str) and scale in LEARNT:
            raise ValueError(
                f"scale={scale!r} is learnt from labels, which is for InvariantRegressor and InvariantClassifier "
                'without a `metric`: give a number, or "median".'
            )
        if isinstance(scale, str) and scale != "median":
            raise ValueError(
                f"scale must be positive, one per feature, or one of {_listed(('median', *LEARNT))}, got {scale!r}."
            )
        index = getattr(scale, "index", ())  # of a series; a method of texts, lists and tuples
        if not callable(index) and any(isinstance(name, str) for name in index):
            raise ValueError(
                "scale is a series with names, and scales are those of the features in their order: pass "
                "scale[X.columns].to_numpy()."
            )
        kernel = KERNELS[kernel](scale)
    left = any(isinstance(value, str) for value in kernel.parameters().values())
    return kernel.resolved(np.unique(to_numpy(X), axis=0)) if left else kernel


def as_loss(loss: Any, names: tuple[str, ...], parameter: str, epsilon: float = 0.1, tau: float = 0.5) -> Loss:
    """A loss object as it is, or the named one."""
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str) or loss not in names:
        raise ValueError(f"{parameter} must be an rkhs loss or one of {_listed(names)}, got {loss!r}.")
    return LOSSES[loss](epsilon, tau)


def check_number(value: Any, parameter: str, *, or_zero: bool = False) -> float:
    """A positive finite number, or zero where that makes sense."""
    good = isinstance(value, Real) and not isinstance(value, bool) and 0 <= float(value) < float("inf")
    if not good or (float(value) == 0 and not or_zero):
        raise ValueError(f"{parameter} must be a finite number {'>=' if or_zero else '>'} 0, got {value!r}.")
    return float(value)


def _listed(names: Any) -> str:
    return ", ".join(f'"{name}"' for name in names)


def check_in_span(machine: Any) -> None:
    """Refuse an approximation that is none, and a solver beside one."""
    check_approximation(machine.approximation)
    if not (isinstance(machine.solver, str) and machine.solver == "auto"):
        raise ValueError(
            f"solver={machine.solver!r} is for all representers, and approximation={machine.approximation!r} is solved "
            "in one go: leave one of them out."
        )


C_RANGE = (0, 3)  # powers of ten
NU_RANGE = (0, 2)
WIDE_C_RANGE = (-1, 8)  # where leave-one-out errors choose
GRAPH_RANGE = (2, 8)  # of graphs


def as_grid(values: Any, parameter: str, powers: tuple[int, int], *, with_zero: bool = False) -> list[float]:
    """Numbers as they are given; for an integer so many over the range, in equal ratios, zero among them if wanted."""
    if isinstance(values, Integral) and not isinstance(values, bool):
        if values < 1:
            raise ValueError(f"{parameter} must be a positive number of values, or the values, got {values!r}.")
        count = int(values) - with_zero
        return [0.0] * with_zero + [float(v) for v in np.logspace(*powers, count)]
    return [check_number(v, parameter, or_zero=with_zero) for v in as_list(values)]


def as_list(values: Any) -> list[Any]:
    """A list, also from a single value."""
    several = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
    found = list(values) if several else [values]
    if not found:
        raise ValueError("A grid needs at least one value.")
    return found


FREE = ("tol", "verbose", "random_state")  # which say nothing about the sums of the rows


def parameters(machine: Any) -> dict[str, Any]:
    """The parameters of a machine as they are now, whatever becomes of lists, dictionaries and arrays among them."""
    given = machine.get_params(deep=False)
    return {name: _kept(value) for name, value in given.items()}


def _kept(value: Any) -> Any:
    if is_array_api_obj(value):
        return owned(value)
    return copy(value) if isinstance(value, list | dict) else value


def check_unchanged(machine: Any, before: dict[str, Any]) -> None:
    """Refuse to go on learning with other parameters than before, and name them."""
    now = parameters(machine)
    changed = [name for name in now if name not in FREE and not same(now[name], before[name])]
    if changed:
        told = "; ".join(f"{name} was {before[name]!r} and is {now[name]!r}" for name in changed)
        raise ValueError(
            f"The rows that {type(machine).__name__}.partial_fit has seen were added up with other parameters: {told}. "
            "Set these back, or start anew with sklearn.base.clone(machine)."
        )


def same(one: Any, other: Any) -> bool:
    """Whether two parameters are the same, or copies of the same.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.zeros((2, 1))
    >>> same(rkhs.Landmarks(rkhs.Evaluation(X)), rkhs.Landmarks(rkhs.Evaluation(X.copy())))
    True
    >>> same(rkhs.Landmarks(rkhs.Evaluation(X)), rkhs.Landmarks(rkhs.Evaluation(X + 1)))
    False
    """
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
