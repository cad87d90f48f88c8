"""The converter of this library for sklearn-onnx, in which a user registers it.

`skl2onnx.to_onnx` converts pipelines in which other steps stand next to ours.  Ours compute in float64, and cast inputs
in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier

import rkhs
from rkhs.export._models import TEXTS, TEXTS_OPSET, onnx_operations, recorded
from rkhs.export._tracing import Symbol
from rkhs.extend import import_optional

DOUBLE = 11  # onnx.TensorProto.DOUBLE, whose import takes long


def register_converters() -> None:
    """Register the estimators of rkhs in sklearn-onnx, so that `skl2onnx.to_onnx` converts pipelines with them.

    One call is enough for a process.  This needs sklearn-onnx: ``pip install skl2onnx``.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import RobustScaler
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> model = make_pipeline(RobustScaler(), rkhs.InvariantRegressor(C=10.0)).fit(X, np.sin(X[:, 0]))
    >>> try:
    ...     import skl2onnx
    ... except ImportError:
    ...     pass
    ... else:
    ...     rkhs.export.register_converters()
    ...     exported = skl2onnx.to_onnx(model, X)
    """
    skl2onnx = import_optional("skl2onnx", "sklearn-onnx is not installed: pip install skl2onnx.")
    for home in (rkhs, rkhs.counts, rkhs.geometry, rkhs.preprocessing):
        for name in home.__all__:
            kind = getattr(home, name)
            if isinstance(kind, type) and issubclass(kind, BaseEstimator):
                skl2onnx.update_registered_converter(kind, f"Rkhs{name}", set_output_types, convert)


def set_output_types(operator: Any) -> None:
    """Set the types and shapes of the outputs of an operator of sklearn-onnx."""
    from skl2onnx.common.data_types import DoubleTensorType, Int64TensorType, StringTensorType

    model = operator.raw_operator
    _, symbols = recorded(model, False, None)
    for variable, (name, symbol) in zip(operator.outputs, symbols.items(), strict=True):
        if name == "label":
            texts = np.asarray(model.classes_.tolist()).dtype.kind == "U"
            variable.type = (StringTensorType if texts else Int64TensorType)([None])
        else:
            variable.type = DoubleTensorType([None, *(symbol.shape or (1,))])


def convert(scope: Any, operator: Any, container: Any) -> None:
    """Add the operations of a fitted model to a graph of sklearn-onnx."""
    graph, symbols = recorded(operator.raw_operator, False, None)
    nodes, constants = onnx_operations(graph)
    names: dict[str, str] = {}  # in the graph of sklearn-onnx

    def named(name: str) -> str:
        return names.setdefault(name, scope.get_unique_variable_name(f"rkhs_{name.strip('#')}"))

    def add(operation: str, inputs: list[str], output: str, **options: Any) -> None:
        domain = {"op_domain": TEXTS, "op_version": TEXTS_OPSET} if operation == "LabelEncoder" else {}
        container.add_node(
            operation, inputs, output, name=scope.get_unique_operator_name(operation), **domain, **options
        )

    names.update(_sources(operator, graph.inputs, scope, add))
    for name, value in constants.items():
        kind = {"f": DOUBLE, "i": 7, "U": 8}[value.dtype.kind]  # 7 and 8 are 64-bit integers and strings
        texts = [text.encode() for text in value.ravel().tolist()] if kind == 8 else value.ravel()
        container.add_initializer(named(name), kind, list(value.shape), texts)
    for name, operation, inputs, options in nodes:
        add(operation, [named(one) for one in inputs], named(name), **options)
    for variable, symbol in zip(operator.outputs, symbols.values(), strict=True):
        _add_output(named(symbol.name), symbol, variable, is_classifier(operator.raw_operator), container, scope, add)


def _sources(operator: Any, inputs: Any, scope: Any, add: Any) -> dict[str, str]:
    """Return the names of the inputs of our graph in that of sklearn-onnx; numbers in float64."""
    found = {}
    for variable in operator.inputs:
        name = variable.onnx_name
        if "String" not in type(variable.type).__name__:
            name = scope.get_unique_variable_name(f"{name}_double")
            add("Cast", [variable.onnx_name], name, to=DOUBLE)
        found[variable.raw_name] = name
    if "X" not in inputs:
        return {name: found[name] for name in inputs}
    if len(found) == 1:
        return {"X": next(iter(found.values()))}
    joined = scope.get_unique_variable_name("rkhs_X")
    add("Concat", list(found.values()), joined, axis=1)
    return {"X": joined}


def _add_output(name: str, symbol: Symbol, variable: Any, classes: bool, container: Any, scope: Any, add: Any) -> None:
    """Rename an output; numbers have two axes in sklearn-onnx."""
    if classes or symbol.shape:
        add("Identity", [name], variable.full_name)
        return
    shape = scope.get_unique_variable_name("rkhs_shape")
    container.add_initializer(shape, 7, [2], [-1, 1])
    add("Reshape", [name, shape], variable.full_name)
