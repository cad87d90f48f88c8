"""The parameters of the estimators: solver options, named losses, checks and grids."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from rkhs import losses
from rkhs._spaces.base import check_approximation
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
