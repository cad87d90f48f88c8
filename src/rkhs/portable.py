"""A fitted model with NumPy arrays in the place of tensors, so that a file of it opens where there is no PyTorch."""

from __future__ import annotations

import copy
import io
import pickle
import sys
from typing import Any

from array_api_compat import is_torch_array
from sklearn.base import BaseEstimator

from rkhs._finite.function import Function
from rkhs.estimators.base import Machine

HERE = ("numpy", "cpu")


def in_numpy(model: Any) -> Any:
    """The model itself, or a copy of which all that `fit` has left is in NumPy; parameters stay as they are.

    Machines inside of scikit-learn's estimators, such as the steps of a pipeline, are treated in the same way.
    """
    if "torch" not in sys.modules:
        return model
    if isinstance(model, Function):
        return _untensored(model)
    if isinstance(model, Machine):
        return _machine(model)
    if isinstance(model, BaseEstimator):
        return _with(model, {name: in_numpy(value) for name, value in vars(model).items()})
    if isinstance(model, dict):
        return {name: in_numpy(value) for name, value in model.items()}
    return type(model)(map(in_numpy, model)) if type(model) in (list, tuple) else model


def _machine(machine: Machine) -> Any:
    taken = machine.get_params(deep=False)
    learnt = {name: value for name, value in vars(machine).items() if name not in taken}
    if "_kind" not in learnt:  # not fitted
        return machine
    return _with(machine, {**taken, **_untensored(learnt), "_kind": HERE})


def _with(model: Any, attributes: dict[str, Any]) -> Any:
    other = copy.copy(model)
    vars(other).update(attributes)
    return other


def _untensored(value: Any) -> Any:
    """A deep copy by pickle, tensors as arrays."""
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    return pickle.loads(buffer.getvalue())


class _Pickler(pickle.Pickler):
    """Which takes tensors for arrays."""

    def reducer_override(self, value: Any) -> Any:
        return value.numpy(force=True).__reduce__() if is_torch_array(value) else NotImplemented
