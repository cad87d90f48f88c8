"""Files of exported models: ONNX, and JSON that `rkhs._export.reader` reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from rkhs._export.models import recorded
from rkhs._files import replacing

OPSET, IR = 18, 8  # versions of operations and of the file format, of ONNX 1.13 (2022), which all later runtimes read
ATTRIBUTES = {"ReduceSum": {"keepdims": 0}, "ReduceMax": {"keepdims": 0}, "ArgMax": {"keepdims": 0}, "Mod": {"fmod": 1}}


def to_json(
    model: Any, path: str | Path | None = None, *, return_std: bool = False, coverage: float | None = None
) -> str | None:
    """Export a fitted model to JSON: arrays, and a list of operations that NumPy has.

    The guide has a reader of 20 lines, which needs NumPy only.  Predictions agree with those of the model up to
    rounding.

    Parameters
    ----------
    model : estimator, Pipeline or Function
        The fitted model, as in `to_onnx`.
    path : str or Path, optional
        The file to write.
    return_std, coverage : object
        As in `to_onnx`.

    Returns
    -------
    str or None
        The JSON text if there is no path.

    Examples
    --------
    >>> import json, rkhs
    >>> f = rkhs.Function(rkhs.Gaussian(), rkhs.Evaluation([[2.0]]), [1.0])
    >>> exported = json.loads(rkhs.to_json(f))
    >>> "Exp" in [operation for _, operation, *_ in exported["nodes"]], list(exported["outputs"])
    (True, ['variable'])
    """
    graph, symbols = recorded(model, return_std, coverage)
    outputs = {output: symbol.name for output, symbol in symbols.items()}
    constants = {name: value.tolist() for name, value in graph.constants.items()}
    text = json.dumps({"constants": constants, "nodes": graph.nodes, "outputs": outputs}, allow_nan=False)
    if path is None:
        return text
    with replacing(path) as file:
        file.write_text(text, encoding="utf-8")
    return None


def to_onnx(
    model: Any, path: str | Path | None = None, *, return_std: bool = False, coverage: float | None = None
) -> Any:
    """Export a fitted model to ONNX in float64, for onnxruntime and other runtimes without Python.

    The input is X, of shape (t, n).  Outputs have the names of sklearn-onnx and the shapes that the model returns:
    `label` and `probabilities` of classifiers (`scores` if there are no probabilities), and `variable` of all others.
    This needs onnx: ``pip install 'rkhs[onnx]'``.

    Parameters
    ----------
    model : estimator, Pipeline or Function
        The fitted model: an estimator of rkhs, a pipeline of `StandardScaler` and one, or an `rkhs.Function`.
    path : str or Path, optional
        The file to write.
    return_std : bool, default=False
        Whether to add the output `std`, the standard deviations that `predict` returns with `return_std=True`.
    coverage : float, optional
        The coverage of prediction intervals, which are added as the outputs `lower` and `upper`.

    Returns
    -------
    onnx.ModelProto or None
        The ONNX model if there is no path.

    Raises
    ------
    ExportError
        If a part of the model has no formula for new points that can be exported; the message names it.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> model = rkhs.InvariantRegressor(C=10.0).fit(X, np.sin(X[:, 0]))
    >>> [output.name for output in rkhs.to_onnx(model, coverage=0.9).graph.output]
    ['variable', 'lower', 'upper']
    """
    try:
        import onnx
    except ImportError:
        raise ImportError("ONNX files need onnx: pip install 'rkhs[onnx]'.") from None
    graph, symbols = recorded(model, return_std, coverage)
    make, as_tensor = onnx.helper, onnx.numpy_helper.from_array
    nodes, constants, results = [], dict(graph.constants), []
    for name, operation, inputs, options in graph.nodes:
        if operation in ("Reshape", "ReduceSum", "ReduceMax"):  # their options are inputs in ONNX
            constants[f"{name}_option"] = np.array([*options.values()], dtype=np.int64).reshape(-1)
            inputs, options = [*inputs, f"{name}_option"], {}
        nodes.append(make.make_node(operation, inputs, [name], **options, **ATTRIBUTES.get(operation, {})))
    for output, symbol in symbols.items():
        nodes.append(make.make_node("Identity", [symbol.name], [output]))
        kind = make.np_dtype_to_tensor_dtype(_onnx_dtype(symbol.dtype))
        results.append(make.make_tensor_value_info(output, kind, [None, *symbol.shape]))
    X = make.make_tensor_value_info("X", onnx.TensorProto.DOUBLE, [None, graph.dimension])
    tensors = [as_tensor(value.astype(_onnx_dtype(value.dtype)), name) for name, value in constants.items()]
    exported = make.make_model(
        make.make_graph(nodes, "rkhs", [X], results, tensors),
        opset_imports=[make.make_opsetid("", OPSET)],
        ir_version=IR,
        producer_name="rkhs",
    )
    if path is None:
        return exported
    with replacing(path) as file:
        file.write_bytes(exported.SerializeToString())
    return None


def _onnx_dtype(dtype: Any) -> Any:
    return np.dtype(object) if dtype.kind in "US" else dtype  # strings are objects for onnx
