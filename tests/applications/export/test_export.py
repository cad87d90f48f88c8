"""Exported models predict what the models do: in onnxruntime, and by the reader of the guide's page."""

import json
import sys
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from reading import READER, read
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import RobustScaler, StandardScaler
from sklearn.svm import SVC

import rkhs
from estimators.models import EXACT, ORDERED, QUANTILES, SPANNED
from rkhs import kernels
from rkhs.exceptions import ExportError
from rkhs.export import _models as models


def exported(model, X, tmp_path, **options):
    """Return the outputs of onnxruntime and those of the page's reader; both also predict zero rows."""
    proto = rkhs.to_onnx(model, **options)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    rkhs.to_json(model, tmp_path / "model.json", **options)
    predicting = (
        lambda X: dict(zip(names, session.run(None, {"X": X}), strict=True)),
        read(tmp_path / "model.json"),
    )
    for predict in predicting:
        some, none = predict(X), predict(X[:0])
        assert {name: none[name].shape for name in none} == {name: (0, *some[name].shape[1:]) for name in some}
        yield some


def assert_equal_outputs(model, expected, X, tmp_path, rtol=1e-6, **options):
    for outputs in exported(model, X, tmp_path, **options):
        assert list(outputs) == list(expected)
        for name, values in expected.items():
            assert outputs[name].shape == values.shape, name
            if values.dtype.kind == "f":
                assert_allclose(outputs[name], values, rtol=0, atol=rtol * np.abs(values).max(), err_msg=name)
            else:
                assert_array_equal(outputs[name], values)


def radial(rng, n):
    """Return a random kernel with a length scale."""
    scale = float(rng.uniform(0.5, 3)) if rng.random() < 0.5 else tuple(rng.uniform(0.5, 3, n).tolist())
    return [
        lambda: rkhs.Gaussian(scale),
        lambda: rkhs.Matern(float(rng.choice([0.5, 1.5, 2.5, 3.5])), scale),
        lambda: rkhs.kernels.RationalQuadratic(float(rng.uniform(0.3, 5)), scale),
        lambda: rkhs.kernels.Laplace(scale),
    ][rng.integers(4)]()


def positive_definite(rng, n, depth=2):
    """Return a random positive definite kernel of R^n."""
    kind = rng.integers(10 if depth else 5)
    if kind < 4:
        return radial(rng, n)
    if kind == 4:
        return rkhs.kernels.Polynomial(int(rng.integers(1, 4)), float(rng.uniform(0, 2)))
    if kind == 5:
        return positive_definite(rng, n, depth - 1) + positive_definite(rng, n, depth - 1)
    if kind == 6:
        return positive_definite(rng, n, depth - 1) * positive_definite(rng, n, depth - 1)
    if kind == 7:
        return float(rng.uniform(0.1, 5)) * positive_definite(rng, n, depth - 1)
    if kind == 8:
        m = int(rng.integers(1, 4))
        return positive_definite(rng, m, depth - 1) @ rng.standard_normal((m, n))
    return [
        lambda: rkhs.kernels.Periodic(float(rng.uniform(2, 5)), 1.0),
        lambda: kernels.ConstantKernel() + kernels.Linear(),
        lambda: kernels.additive(rkhs.Gaussian(1.5), n),
        lambda: kernels.Symmetrized(rkhs.Gaussian(1.5), [np.eye(n), -np.eye(n)]),
    ][rng.integers(4)]()


def functionals(rng, X, order, averages):
    """Return a random family of functionals with derivatives of at most the given order."""
    W = rng.standard_normal((4, len(X)))
    values = [
        rkhs.Evaluation(X),
        W @ rkhs.Evaluation(X),
        rkhs.Difference(X, X[::-1] + 0.1),
        rkhs.stack([rkhs.Evaluation(X), 0.5 * rkhs.functionals.Average(X[None])]),
    ]
    first = [
        rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X)]),
        rkhs.functionals.DirectionalDerivative(X, rng.standard_normal(X.shape)),
    ]
    second = [rkhs.functionals.Hessian(X), rkhs.stack([rkhs.functionals.Laplacian(X), rkhs.Evaluation(X)])]
    choices = values + first * (order > 0) + second * (order > 1) + [rkhs.functionals.LocalAverage(X, 0.3)] * averages
    return choices[rng.integers(len(choices))]


def random_function(rng):
    """Return a random function, as those of fitted models are, and points."""
    n, offset = int(rng.integers(1, 5)), float(rng.choice([0, 0, 1e6]))
    X = rng.standard_normal((int(rng.integers(2, 15)), n)) + offset
    kernel = kernels.Polyharmonic(int(rng.integers(1, 6))) if rng.random() < 0.15 else positive_definite(rng, n)
    if "Poly" in repr(kernel) or "Linear" in repr(kernel):
        X = X - offset  # dot products of points far from the origin cancel, here as in f
    smoothness = kernel.smoothness(n)
    order = min(2, int(np.ceil(smoothness)) - 1) if smoothness < 3 else 2
    mixture = "Matern" in repr(kernel) or "Rational" in repr(kernel)  # averages of these are hundreds of Gaussians
    L = functionals(rng, X, order, not mixture)
    outputs = () if rng.random() < 0.5 else (int(rng.integers(1, 4)),)
    basis = [None, rkhs.Constant(), rkhs.Polynomials(2).centered(X)][rng.integers(3)]
    coefficients = None if basis is None else rng.standard_normal((basis.size(n), *outputs))
    f = rkhs.results.Function(kernel, L, rng.standard_normal((L.size, *outputs)), basis, coefficients)
    return f, np.concatenate([X, X[:1] + rng.standard_normal((5, n))])


def random_estimator(rng):
    """Return a fitted estimator, the outputs that are expected, new points and the options of the export."""
    n, offset = int(rng.integers(1, 5)), float(rng.choice([0, 0, 1e6]))
    X = rng.standard_normal((20, n)) + offset
    y = np.sin(X[:, 0] - offset) + 0.3 * rng.standard_normal(20)
    Z = np.concatenate([X[:3], rng.standard_normal((5, n)) + offset])
    kernel = radial(rng, n) if offset else positive_definite(rng, n, depth=1)
    smooth = kernel.smoothness(n) > 1
    shared = {"kernel": kernel, "C": float(10 ** rng.uniform(-1, 2)), "tol": 1e-2}
    kind = rng.integers(4)
    if kind == 0:
        k = kind + rng.integers(2, 4)
        loss = str(rng.choice(["hinge", "squared_hinge", "logistic", "squared"]))
        classes = np.array([["a", "b", "c"], [3, 1, 2]][rng.integers(2)])[:k]
        target = classes[np.argsort(np.argsort(y)) * k // 20]
        model = rkhs.InvariantClassifier(invariance="gradient" if smooth else None, loss=loss, **shared).fit(X, target)
    elif kind in (1, 2):
        loss = str(rng.choice(["squared", "squared", "huber", "epsilon_insensitive"]))
        intercept = bool(rng.integers(2))
        model = rkhs.InvariantRegressor(loss=loss, invariance=None, fit_intercept=intercept, **shared)
        if smooth and kind == 2:
            model.fit(X, y, gradients=np.column_stack([np.cos(X[:, 0] - offset), np.zeros((20, n - 1))]))
        else:
            model.fit(X, y if rng.random() < 0.5 else np.column_stack([y, X[:, 0] - offset]))
    else:
        approximation = [rkhs.Landmarks(8), rkhs.FourierFeatures(30)][rng.integers(2)]
        shared["kernel"] = rkhs.Matern(2.5, 2.0)
        model = rkhs.InvariantRegressor(invariance=None, approximation=approximation, **shared).fit(X, y)
    return model, *predictions(model, Z)


def predictions(model, X):
    """Return what a model predicts by the names of the exported outputs, X, and the options of the export."""
    if hasattr(model, "classes_"):
        named = hasattr(model, "predict_proba")
        scores = {"probabilities": model.predict_proba(X)} if named else {"scores": model.decision_function(X)}
        return {"label": model.predict(X), **scores}, X, {}
    expected, options = {"variable": model.predict(X)}, {}
    if getattr(getattr(model, "solution_", None), "source", None) is None:  # not all losses are squared
        return expected, X, options
    expected["std"], options["return_std"] = model.predict(X, return_std=True)[1], True
    if hasattr(model, "predict_interval"):
        ends = model.predict_interval(X, coverage=0.8)
        expected, options["coverage"] = {**expected, "lower": ends[..., 0], "upper": ends[..., 1]}, 0.8
    return expected, X, options


def check_random_models(functions, estimators, seed, tmp_path):
    rng = np.random.default_rng(seed)
    for _ in range(functions):
        f, X = random_function(rng)
        assert_equal_outputs(f, {"variable": f(X)}, X, tmp_path)
    for _ in range(estimators):
        model, expected, X, options = random_estimator(rng)
        assert_equal_outputs(model, expected, X, tmp_path, **options)


@pytest.mark.filterwarnings("ignore")  # those of models that fit badly
def test_random_models(tmp_path):
    check_random_models(20, 15, 0, tmp_path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_thousand_random_models(tmp_path):
    check_random_models(600, 400, 1, tmp_path)


THIN_PLATES = {name: model for name, model in EXACT.items() if name.startswith("ThinPlate")}
REGISTERED = THIN_PLATES | SPANNED | QUANTILES | ORDERED


def others():
    """Yield fitted models whose export has special cases, by name."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((40, 2))
    y = np.sin(2 * X[:, 0]) + 0.1 * rng.standard_normal(40)
    thirds = np.digitize(X[:, 0], [-0.4, 0.4])
    measured = [
        rkhs.Measurement(rkhs.Evaluation(X), y, noise=0.1),
        rkhs.Measurement(rkhs.functionals.Average(X.reshape(4, 10, 2)), y.reshape(4, 10).mean(axis=1), noise=0.1),
        rkhs.Measurement(rkhs.functionals.Laplacian(X[:3]), np.zeros(3), noise=1.0),
    ]
    yield "functionals", lambda: (rkhs.FunctionalRegressor(scale=1.0).fit(measured), X)
    for name, model, target in (
        ("classes CV", rkhs.InvariantClassifierCV(kernel=rkhs.Gaussian(1.0)), np.digitize(y, [-0.5, 0.5])),
        ("numbers CV", rkhs.InvariantRegressorCV(kernel=rkhs.Gaussian(1.0)), y),
        ("order by the hinge", rkhs.counts.OrdinalClassifier(loss="hinge"), thirds),
        *((name, clone(model), thirds) for name, model in REGISTERED.items()),
        ("copies", rkhs.VirtualSampleSVC([lambda X: -X]), y > 0),
        ("shape", rkhs.InvariantRegressor(scale=1.0, shape={0: "increasing"}), X[:, 0]),
        ("averages", rkhs.InvariantRegressor(invariance="local_average", nu=1.0), y),
        # A linear f is largest for the middle class nowhere; the discriminant on top of it decides.
        (
            "discriminant",
            rkhs.InvariantClassifierCV(kernel="linear", Cs=[1.0], nus=[0.0]),
            np.digitize(X[:, 0], [-0.6, 0.6]),
        ),
    ):
        yield name, lambda model=model, target=target: (model.fit(X, target), X)
    some = np.where(np.arange(40) < 30, thirds, -1)
    for weight in (rkhs.ClassPrior({0: 0.1, 1: 0.2, 2: 0.7}), "balanced", {0: 10.0, 1: 1.0, 2: 0.1}):
        model = rkhs.InvariantClassifier(class_weight=weight, scale=1.0, loss="squared")
        yield f"class_weight={weight!r}", lambda model=model: (model.fit(X, some), X)
    # A scaler that does not center has a `mean_`, which was subtracted: 19 % of the labels were others.
    uneven = np.array([2.0, -1.0]) + X * [1.0, 3.0]
    for mean, std in product([True, False], repeat=2):
        classifier = rkhs.InvariantClassifier(kernel=rkhs.kernels.Polynomial(3), invariance=None, loss="squared")
        scaled = make_pipeline(StandardScaler(with_mean=mean, with_std=std), classifier)
        classes = np.digitize(uneven[:, 0] * uneven[:, 1], [-3.0, 0.0])
        yield f"scaler {mean} {std}", lambda scaled=scaled, classes=classes: (scaled.fit(uneven, classes), uneven)
    far = 1e6 + rng.standard_normal((30, 3))
    for kernel in ("gaussian", "matern", "laplace"):
        model = rkhs.InvariantRegressor(kernel=kernel, invariance=None, C=1e4)
        yield f"far, {kernel}", lambda model=model: (model.fit(far, np.sin(far[:, 0])), far)


OTHERS = dict(others())


@pytest.mark.every
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * ("CV, land" in n)) for n in OTHERS])
def test_other_models(name, tmp_path):
    model, points = OTHERS[name]()
    expected, _, options = predictions(model, points)
    assert_equal_outputs(model, expected, points, tmp_path, **options)
    if name == "discriminant":
        assert model.discriminant_ is not None
        assert set(expected["label"]) == {0, 1, 2}


@pytest.mark.every
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("C", [1e6, 1e10, 1e13, 1e17])
def test_deviations_without_noise_are_exact_or_refused(C, tmp_path, monkeypatch):
    """Variances are differences of nearly equal numbers there."""
    X = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    model = rkhs.InvariantRegressor(invariance=None, C=C).fit(X, np.sin(2 * X[:, 0]) + X[:, 1])
    between = np.concatenate([X[::6], X[:10] / 2 + X[10:20] / 2, 1.5 * X[:10]])
    expected = model.predict(between, return_std=True)[1]
    for found in exported(model, between, tmp_path, return_std=True):
        assert_allclose(found["std"], expected, rtol=2e-2)
    monkeypatch.setattr(models, "STD_TOL", -1.0)
    with pytest.raises(ExportError, match=r"would differ from that of predict by up to .*%.*leave return_std out"):
        rkhs.to_json(model, return_std=True)


def test_scalar_factors_are_not_rounded_to_float32(tmp_path):
    # onnxruntime makes a factor next to a matrix product an attribute in single precision
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20, 2))
    f = rkhs.results.Function(0.1 * rkhs.Gaussian(), rkhs.Evaluation(X) / 3, rng.standard_normal((20, 3)))
    assert_equal_outputs(f, {"variable": f(X)}, X, tmp_path, rtol=1e-13)


def test_float32_and_tensors(tmp_path):
    torch = pytest.importorskip("torch")
    X = np.random.default_rng(0).standard_normal((20, 2)).astype(np.float32)
    model = rkhs.InvariantRegressor(scale=1.0).fit(X, X[:, 0])
    f = rkhs.results.Function(rkhs.Gaussian(), rkhs.Gradient(torch.tensor(X)), np.ones(40))
    for outputs in exported(model, X.astype(float), tmp_path):
        assert_allclose(outputs["variable"], model.predict(X), rtol=1e-4, atol=1e-5)
    for outputs in exported(f, X.astype(float), tmp_path):
        assert_allclose(outputs["variable"], f(torch.tensor(X)), rtol=1e-4, atol=1e-4)


def test_functions_of_users(tmp_path):
    waves = kernels.Features(lambda X: np.exp(-np.sin(X) / 2), gradient=np.cos)  # of which the values are used only
    f = rkhs.results.Function(rkhs.Gaussian() @ waves, rkhs.Evaluation(X), Y, rkhs.Functions(np.cos), [1.0, 2.0])
    assert_equal_outputs(f, {"variable": f(X)}, X, tmp_path)


def test_files(tmp_path):
    X = np.linspace(0, 6, 20)[:, None]
    model = rkhs.InvariantRegressor(scale=1.0).fit(X, np.sin(X[:, 0]))
    assert rkhs.to_onnx(model, tmp_path / "model.onnx") is None  # a prompt would print all numbers of a ModelProto
    assert rkhs.to_json(model, tmp_path / "model.json") is None
    onnx.checker.check_model(onnx.load(tmp_path / "model.onnx"), full_check=True)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    assert_allclose(session.run(["variable"], {"X": X})[0], model.predict(X), rtol=1e-12)
    assert set(json.loads((tmp_path / "model.json").read_text())) == {"constants", "nodes", "outputs"}


def test_the_reader_is_that_of_the_page():
    source = Path(rkhs.export.__file__).with_name("_reader.py").read_text()
    assert source.endswith(READER), "copy src/rkhs/export/_reader.py to the page"


X = np.random.default_rng(0).standard_normal((20, 2))
Y = X[:, 0] > 0


class LogScaler(StandardScaler):
    def transform(self, X, copy=None):
        return np.log(np.abs(super().transform(X, copy)))


def behind(step):
    return lambda: make_pipeline(step, rkhs.InvariantClassifier(loss="squared")).fit(X, Y)


STEPS = (RobustScaler(), LogScaler())
ATOMS = np.random.default_rng(1).standard_normal((4, 3, 3))
OBJECTS = kernels.ObjectKernel(lambda a, b: float(a == b), list("ab"))
SORTED = kernels.Features(np.sort, np.cos)
GRAPH = kernels.GraphKernel(kernels.NeighborGraph.of(X))
REFUSED = {
    "SVC": lambda: SVC().fit(X, Y),
    "int": lambda: 3,
    **{type(step).__name__: behind(step) for step in STEPS},
    "ForceFieldRegressor": lambda: rkhs.geometry.ForceFieldRegressor(rkhs.Gaussian()).fit(ATOMS, ATOMS),
    "precomputed": lambda: rkhs.InvariantClassifier(kernel="precomputed", invariance=None).fit(X @ X.T, Y),
    "GraphKernel": lambda: rkhs.results.Function(GRAPH, rkhs.Evaluation(X), Y),
    "ObjectKernel": lambda: rkhs.results.Function(OBJECTS, rkhs.Evaluation([[0.0]]), [1.0]),
    "Features": lambda: rkhs.results.Function(rkhs.Gaussian() @ SORTED, rkhs.Evaluation(X), X[:, 0]),
    "Functions": lambda: rkhs.results.Function(rkhs.Gaussian(), rkhs.Evaluation(X), Y, rkhs.Functions(np.sort), [1, 1]),
    "VirtualSampleSVC": lambda: rkhs.VirtualSampleSVC([np.negative], features=PCA()).fit(X, Y),
    "return_std": lambda: rkhs.InvariantClassifier().fit(X, Y),
    "coverage": lambda: rkhs.counts.OrdinalClassifier().fit(X, Y),
    "infinite": lambda: rkhs.InvariantRegressor().fit(X, X[:, 0]),
}
OPTIONS = {"return_std": {"return_std": True}, "coverage": {"coverage": 0.9}, "infinite": {"coverage": 0.99}}


@pytest.mark.every
@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_exported_is_refused_by_name(name):
    model = REFUSED[name]()
    for export in (rkhs.to_onnx, rkhs.to_json):
        with pytest.raises(ExportError, match=name):
            export(model, **OPTIONS.get(name, {}))


def test_without_onnx_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"rkhs\[onnx\]"):
        rkhs.to_onnx(rkhs.results.Function(rkhs.Gaussian(), rkhs.Evaluation(X), X[:, 0]))
