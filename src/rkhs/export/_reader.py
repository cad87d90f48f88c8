"""Read a model that `rkhs.to_json` wrote.  This file needs NumPy only: copy it to wherever predictions are made."""

import json
import re
from collections import Counter
from typing import Any

import numpy as np

OPERATIONS: dict[str, Any] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Pow": np.power, "Max": np.maximum,
    "Neg": np.negative, "Abs": np.abs, "Sqrt": np.sqrt, "Exp": np.exp, "Log": np.log, "Sin": np.sin, "Cos": np.cos,
    "Mod": np.fmod, "Round": np.round, "MatMul": np.matmul, "ReduceSum": np.sum, "ReduceMax": np.max,
    "ArgMax": np.argmax, "Gather": np.take, "Reshape": lambda array, shape: array.reshape(shape),
    "Concat": lambda *arrays, axis: np.concatenate(arrays, axis), "Equal": np.equal, "IsNaN": np.isnan,
    "Where": np.where, "Cast": lambda array: array.astype(float),
    "LabelEncoder": lambda texts, keys, values, default: np.array(
        [values[keys.index(text)] if text in keys else default for text in texts.ravel()],
        dtype=int).reshape(texts.shape),
    "WordCounts": lambda texts, words: np.array(
        [[counts[word] for word in words] for counts in map(word_counts, texts.ravel())]).reshape(-1, len(words)),
}  # fmt: skip


def word_counts(text: str) -> Any:
    return Counter(re.findall(r"(?u)\b\w\w+\b", text.lower()))


def column(values: Any, kind: str) -> Any:
    """Return a column of a table, dates in days since 1970; texts are "" where missing."""
    if kind == "number":
        return np.asarray(values, dtype=float).reshape(-1, 1)
    integers = (int(v) if isinstance(v, float) and v.is_integer() else v for v in values)
    return np.array(["" if v is None or v != v else str(v) for v in integers], dtype=object).reshape(-1, 1)


def read(path: str) -> Any:
    """Return the function from rows X, or from the columns of a table, to a dict of outputs."""
    with open(path, encoding="utf-8") as file:
        model = json.load(file)
    constants = {name: np.array(values) for name, values in model["constants"].items()}

    def predict(X: Any) -> dict[str, Any]:
        columns = model.get("columns", {})
        known = constants | {name: column(X[name], kind) for name, kind in columns.items()}
        known |= {} if columns else {"X": np.asarray(X, dtype=float)}
        for name, operation, inputs, options in model["nodes"]:
            known[name] = OPERATIONS[operation](*(known[i] for i in inputs), **options)
        return {output: known[name] for output, name in model["outputs"].items()}

    return predict
