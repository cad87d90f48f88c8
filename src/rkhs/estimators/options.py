"""Kernels and losses by name, and checks of numbers."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, to_numpy
from rkhs._gram.approximation import check_approximation
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
