"""sklearn-onnx converts pipelines of estimators of this library and of others, once ours are registered."""

import subprocess
import sys

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler

import rkhs
from rkhs.preprocessing import TableEncoder

skl2onnx = pytest.importorskip("skl2onnx")
data_types = pytest.importorskip("skl2onnx.common.data_types")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = np.sin(X[:, 0])
CLASSES = np.digitize(X[:, 0], [-0.5, 0.5])
VERSIONS = {"": 18, "ai.onnx.ml": 3}
rkhs.export.register_converters()


def outputs_of(model, types, inputs):
    exported = skl2onnx.to_onnx(model, initial_types=types, target_opset=VERSIONS)
    return onnxruntime.InferenceSession(exported.SerializeToString()).run(None, inputs)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_numbers(dtype):
    model = make_pipeline(RobustScaler(), rkhs.InvariantRegressor(invariance=None)).fit(X, Y)
    kind = data_types.DoubleTensorType if dtype == np.float64 else data_types.FloatTensorType
    [found] = outputs_of(model, [("X", kind([None, 3]))], {"X": X.astype(dtype)})
    assert_allclose(found[:, 0], model.predict(X), atol=1e-6 if dtype == np.float32 else 1e-12)


@pytest.mark.parametrize("names", [[0, 1, 2], ["a", "b", "c"]])
def test_classes(names):
    model = rkhs.InvariantClassifier(invariance=None, loss="squared").fit(X, np.array(names)[CLASSES])
    label, probabilities = outputs_of(model, [("X", data_types.DoubleTensorType([None, 3]))], {"X": X})
    assert label.tolist() == model.predict(X).tolist()
    assert_allclose(probabilities, model.predict_proba(X), atol=1e-12)


def test_tables():
    table = pd.DataFrame({"city": RNG.choice(["a", "b"], 40), "n": X[:, 0]})
    model = make_pipeline(TableEncoder(), rkhs.InvariantRegressor(invariance=None)).fit(table, Y)
    text, number = (kind([None, 1]) for kind in (data_types.StringTensorType, data_types.DoubleTensorType))
    given = {"city": table[["city"]].to_numpy(object), "n": table[["n"]].to_numpy()}
    [found] = outputs_of(model, [("city", text), ("n", number)], given)
    assert_allclose(found[:, 0], model.predict(table), atol=1e-12)


def test_neither_imports_the_other():
    code = (
        "import sys, rkhs, rkhs.preprocessing; rkhs.InvariantRegressor; print([m for m in sys.modules if 'onnx' in m])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
