"""Read a model that `rkhs.to_json` wrote.  This file needs NumPy only: copy it to wherever predictions are made."""

import json
from typing import Any

import numpy as np

OPERATIONS: dict[str, Any] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power, "Max": np.maximum,
    "Neg": np.negative, "Abs": np.abs, "Sqrt": np.sqrt, "Exp": np.exp, "Log": np.log, "Sin": np.sin, "Cos": np.cos,
    "Mod": np.fmod, "Round": np.round, "MatMul": np.matmul, "ReduceSum": np.sum, "ReduceMax": np.max,
    "ArgMax": np.argmax, "Gather": np.take, "Reshape": lambda array, shape: array.reshape(shape),
    "Concat": lambda *arrays, axis: np.concatenate(arrays, axis),
}  # fmt: skip


def read(path: str) -> Any:
    """Return the function from rows X to a dict of outputs."""
    with open(path, encoding="utf-8") as file:
        model = json.load(file)
    constants = {name: np.array(values) for name, values in model["constants"].items()}

    def predict(X: Any) -> dict[str, Any]:
        known = {**constants, "X": np.asarray(X, dtype=float)}
        for name, operation, inputs, options in model["nodes"]:
            known[name] = OPERATIONS[operation](*(known[i] for i in inputs), **options)
        return {output: known[name] for output, name in model["outputs"].items()}

    return predict
