"""Model files: what goes in comes out, and nothing foreign is run."""

import io
import json
import pickle
import sys
from dataclasses import dataclass
from zipfile import ZipFile

import numpy as np
import pandas
import pytest
import scipy.sparse
import sklearn
import skops.io
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import make_moons
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import rkhs
from estimators.models import ORDERED, QUANTILES, SPANNED
from rkhs.export import notes_of
from rkhs.export._model_files import trusted_types
from rkhs.invariances import (
    ImageTangents,
    InputNoise,
    Invariance,
    Monotone,
    SignalTangents,
    Tangents,
    transformed_copies,
)

RNG = np.random.default_rng(0)
X = RNG.standard_normal((24, 4))
Y = np.where(np.arange(24) < 12, np.arange(24) % 3, -1)

KNOWLEDGE = {
    "name": "gradient",
    "graph": "graph",
    "average": "local_average",
    "class": rkhs.Gradient,
    "images": ImageTangents((2, 2)),
    "signals": SignalTangents(),
    "noise": InputNoise([0.1, 0.2, 0.0, 0.3]),
    "monotone": Monotone({0: +1}),
    "several": [Invariance(rkhs.Gradient, loss=rkhs.Huber(0.1), on="unlabeled"), rkhs.invariances.Graph(3, power=1)],
    "none": None,
}


def machine(**settings):
    return rkhs.InvariantClassifier(**{"loss": "squared_hinge", "tol": 1e-2, **settings})


FRAME = pandas.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "yes", "no")})
COLUMNS = make_column_transformer((StandardScaler(), ["a"]), (OneHotEncoder(sparse_output=False), ["b"]))
CLASSES = np.arange(24) % 3
KERNELS = (
    rkhs.Gaussian(scale=(1.0, 2.0, 1.0, 2.0)),
    rkhs.Matern(nu=2.5, scale=1.0) + 0.5 * rkhs.kernels.Linear(),
    rkhs.kernels.RationalQuadratic(alpha=1.0) * rkhs.kernels.Polynomial(degree=2),
    rkhs.Gaussian() @ RNG.standard_normal((2, 4)),
    rkhs.kernels.Polyharmonic(3),
)
SEARCH = {"loss": "squared_hinge", "invariance": "gradient", "Cs": [1.0, 10.0], "nus": [0.0, 0.1], "cv": 2}
LOSSES = [rkhs.Huber(0.1), rkhs.losses.Absolute()]

PLANE, GRID = X[:, :2], rkhs.FourierGrid(1e-2)
MOONS, SIDES = make_moons(150, noise=0.1, random_state=0)
TRIED = rkhs.InvariantClassifierCV(scales="median")
# name -> (model, points, targets)
MODELS = {
    **{
        f"prior: {name}": (rkhs.InvariantRegressor(invariance=prior, scale=1.0, unlabeled=-1), X, Y)
        for name, prior in KNOWLEDGE.items()
    },
    **{
        repr(kernel): (rkhs.InvariantRegressor(kernel, invariance=None, fit_intercept=kernel.order > 0), X, Y)
        for kernel in KERNELS
    },
    "sparse": (machine(invariance=None), scipy.sparse.csr_array(X), CLASSES),
    "frame": (make_pipeline(COLUMNS, machine()), FRAME, Y),
    "classifier CV": (rkhs.InvariantClassifierCV(**SEARCH), X, CLASSES),
    "regressor": (rkhs.InvariantRegressor(unlabeled=-1), X, Y),
    "deviation": (rkhs.InvariantRegressor(scale=1.0), X, X[:, 0]),
    "regressor CV": (
        rkhs.InvariantRegressorCV(invariance="gradient", unlabeled=-1, Cs=[1.0], nus=[0.0, 0.1], cv=2),
        X,
        Y,
    ),
    "thin plate classifier": (rkhs.geometry.ThinPlateClassifier(), X, CLASSES),
    "thin plate regressor": (rkhs.geometry.ThinPlateRegressor(), X, CLASSES),
    "copies": (rkhs.VirtualSampleSVC(transformed_copies(ImageTangents((2, 2), kinds=["translation"]))), X, CLASSES),
    "solver": (machine(loss="hinge", solver=rkhs.SolverOptions(rkhs.solvers.BoxDual(), precision="float64")), X, Y),
    "class prior": (rkhs.InvariantClassifier(class_weight=rkhs.ClassPrior({0: 0.5, 1: 0.3, 2: 0.2})), X, Y),
    "shape": (rkhs.InvariantRegressor(C=10.0, shape=rkhs.Shape({0: "increasing"}, time_limit=60.0)), X, X[:, 1]),
    "losses": (rkhs.InvariantRegressorCV(invariance=None, loss=LOSSES, Cs=[1.0], nus=[0.0], cv=2), X, X[:, 1]),
    **{name: (clone(model), X, CLASSES) for name, model in (SPANNED | QUANTILES | ORDERED).items()},
    "coordinates": (rkhs.InvariantRegressor(coordinates="lonlat"), X + 180.0 * (np.arange(4) == 0), CLASSES),
    "metric": (rkhs.InvariantRegressor(scale="agop"), X, CLASSES),
    "functionals": (rkhs.FunctionalRegressor(scale=1.0), rkhs.Measurement(rkhs.Evaluation(X), 1.0 * CLASSES), None),
    **{f"graphs, {k} labels": (TRIED, MOONS, np.append(SIDES[:k], np.full(150 - k, -1))) for k in (4, 15)},
    **{
        f"deviation, {span!r}": (rkhs.InvariantRegressor(scale=1.2, approximation=span), PLANE, X[:, 0])
        for span in (rkhs.Landmarks(rkhs.Evaluation(PLANE[:8])), rkhs.FourierFeatures(20), GRID)
    },
    "deviation, search": (rkhs.InvariantRegressorCV(kernel="gaussian", approximation=GRID), PLANE, X[:, 0]),
}


def saved_and_pickled(model, tmp_path):
    rkhs.save(model, tmp_path / "model.skops")
    return rkhs.load(tmp_path / "model.skops"), pickle.loads(pickle.dumps(model))


ATTRIBUTES = ("metric_", "C_", "thresholds_", "best_params_", "selection_report_")


def kind_of(name):
    """Return what the quick run takes one of: kernels, priors, numbers of labels, spaces of deviations, or the name."""
    return "kernel" if "(" in name.split(",")[0] else name.split(":")[0].split(",")[0]


@pytest.mark.every("kind")
@pytest.mark.parametrize(("kind", "name"), [(kind_of(name), name) for name in MODELS])
def test_round_trip_of_models(kind, name, tmp_path):
    model, points, targets = MODELS[name]
    fitted = model.fit(points) if targets is None else model.fit(points, targets)
    points = X if targets is None else points
    methods = [way for way in ("predict", "decision_function", "predict_proba") if hasattr(fitted, way)]
    for again in saved_and_pickled(fitted, tmp_path):
        for method in methods:
            atol = 1e-6 if method == "predict_proba" and name.startswith("graphs") else 0
            found, right = (getattr(one, method)(points) for one in (again, fitted))
            np.testing.assert_allclose(found, right, rtol=0, atol=atol)
        assert repr(again.get_params()) == repr(fitted.get_params())
        for attribute in ATTRIBUTES:
            np.testing.assert_equal(getattr(again, attribute, None), getattr(fitted, attribute, None))
        if name.startswith("deviation"):
            found, right = (one.predict(points, return_std=True)[1] for one in (again, fitted))
            np.testing.assert_allclose(found, right, rtol=0 if name == "deviation" else 1e-9)
        if hasattr(fitted, "solution_"):
            assert again.solution_.gap == fitted.solution_.gap
    later = pickle.loads(pickle.dumps(fitted))  # with what was computed when it was first asked for
    for method in methods:
        assert_array_equal(getattr(later, method)(points), getattr(fitted, method)(points))


@pytest.mark.parametrize(
    ("kernel", "basis"),
    [
        (rkhs.Gaussian(1.0), rkhs.Polynomials(2)),
        (rkhs.kernels.ThinPlate(2) @ RNG.standard_normal((2, 4)), rkhs.Polynomials(1)),
    ],
    ids=["polynomials", "two spaces"],
)
def test_round_trip_of_polynomials_around_the_points(kernel, basis, tmp_path):
    term = rkhs.Term(rkhs.Evaluation(X + 1e3), rkhs.Squared(), X[:, 0])
    f = rkhs.Problem(kernel, [term], basis).solve().function
    for again in saved_and_pickled(f, tmp_path):
        assert_array_equal(again(X + 1e3), f(X + 1e3))


def test_notes_are_read_without_the_model(tmp_path):
    rkhs.save(machine(), tmp_path / "model.skops", notes={"target": "y"})
    assert notes_of(tmp_path / "model.skops")["notes"] == {"target": "y"}


@pytest.mark.parametrize("settings", [{}, {"invariance": "gradient", "Cs": [1.0, 10.0], "nus": [0.0, 0.1], "cv": 2}])
def test_results_of_a_search_are_short_in_a_file_and_whole_again(settings, tmp_path):
    """Hundreds of candidates share a few values: in full they were 15 MB of text for 40 rows."""
    fitted = rkhs.InvariantClassifierCV(**settings).fit(X, Y)
    both = saved_and_pickled(fitted, tmp_path)
    assert (tmp_path / "model.skops").stat().st_size < 5e5
    for again in both:
        assert list(again.cv_results_) == list(fitted.cv_results_)
        for name, theirs in fitted.cv_results_.items():
            ours = again.cv_results_[name]
            assert [*map(repr, ours)] == [*map(repr, theirs)]
            assert type(ours) is type(theirs)
            assert getattr(ours, "dtype", None) == getattr(theirs, "dtype", None)


def own_function(X, a):
    return X * (1 + a)


def test_a_model_with_a_function_of_the_user_is_not_written(tmp_path):
    fitted = machine(invariance=Tangents(own_function)).fit(X, Y)
    with pytest.raises(rkhs.exceptions.ModelFileError, match="own_function, which a model file must not contain"):
        rkhs.save(fitted, tmp_path / "model.skops")
    assert not (tmp_path / "model.skops").exists()
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(again.predict(X), fitted.predict(X))


@dataclass(frozen=True)
class Opposite:
    """A prior of the user: f(-x) - f(x) is small."""

    factor: float = -1.0

    def __call__(self, X):
        return rkhs.Difference(self.factor * X, X)

    def mirrored(self, X):
        return self(X)


@dataclass(frozen=True)
class OwnKernel(rkhs.Gaussian):
    """A kernel of the user."""


@dataclass(frozen=True)
class OwnLoss(rkhs.Huber):
    """A loss of the user."""


@pytest.mark.parametrize(
    ("settings", "trusted"),
    [
        ({"invariance": Opposite()}, [Opposite]),
        ({"invariance": Opposite().mirrored}, [Opposite, f"{__name__}.Opposite.mirrored"]),
        ({"invariance": Tangents(own_function)}, [own_function]),
        ({"kernel": OwnKernel(), "loss": OwnLoss(0.5), "invariance": None}, [OwnKernel, OwnLoss]),
    ],
    ids=["prior", "method", "function", "kernel and loss"],
)
def test_types_of_the_user_are_saved_and_loaded_if_they_are_trusted(settings, trusted, tmp_path):
    path, fitted = tmp_path / "model.skops", rkhs.InvariantRegressor(**settings).fit(X, X[:, 0])
    names = [name if isinstance(name, str) else f"{__name__}.{name.__name__}" for name in trusted]
    with pytest.raises(rkhs.exceptions.ModelFileError, match=names[0] + r".*pass trusted=\['" + names[0]):
        rkhs.save(fitted, path)
    rkhs.save(fitted, path, trusted=trusted)
    with pytest.raises(rkhs.exceptions.ModelFileError, match=names[-1] + r".*pass trusted=\['" + names[0]):
        rkhs.load(path)
    for given in (trusted, names):
        assert_array_equal(rkhs.load(path, trusted=given).predict(X), fitted.predict(X))


def test_no_module_is_imported_for_a_type_that_is_not_trusted(tmp_path, monkeypatch):
    source, path = tmp_path / "foreign_module.py", tmp_path / "model.skops"
    source.write_text("import rkhs\nclass Kernel(rkhs.Gaussian):\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    import foreign_module

    f = rkhs.results.Function(foreign_module.Kernel(), rkhs.Evaluation(X), X[:, 0])
    rkhs.save(f, path, trusted=["foreign_module.Kernel"])
    del sys.modules["foreign_module"]
    with pytest.raises(rkhs.exceptions.ModelFileError, match=r"pass trusted=\['foreign_module.Kernel'\] to rkhs.load"):
        rkhs.load(path)
    assert "foreign_module" not in sys.modules
    assert_array_equal(rkhs.load(path, trusted=["foreign_module.Kernel"])(X), f(X))


@pytest.mark.parametrize(
    ("trusted", "error", "complaint"),
    [
        ("a.b", TypeError, r"pass \['a.b'\]"),
        ([3], TypeError, "must contain classes, functions or their names, got 3"),
        (["no_such_module.Kernel"], ValueError, "no_such_module.Kernel is trusted, but cannot be imported"),
        ([lambda X: X], ValueError, "<lambda> is trusted, but cannot be imported"),
        ([type("Opposite", (), {"__module__": __name__})], ValueError, "belongs to another object"),
    ],
)
def test_trusted_types_are_found_by_their_names(trusted, error, complaint, tmp_path):
    with pytest.raises(error, match=complaint):
        rkhs.save(machine(), tmp_path / "model.skops", trusted=trusted)


@pytest.mark.parametrize("given", ["tensors", "device"])
@pytest.mark.parametrize("wrapped", [False, True], ids=["model", "pipeline"])
def test_a_model_of_tensors_is_stored_in_numpy(given, wrapped, tmp_path):
    """Fitted with tensors, or on a device: the file has arrays, and the loaded model takes them."""
    torch = pytest.importorskip("torch")
    fitted = machine(solver=rkhs.SolverOptions(device="cpu" if given == "device" else None))
    if given == "tensors":
        with sklearn.config_context(array_api_dispatch=True):
            fitted.fit(torch.from_numpy(X), torch.from_numpy(Y))
            expected = fitted.decision_function(torch.from_numpy(X)).numpy()
    else:
        expected = fitted.fit(X, Y).decision_function(X)
    model = Pipeline([("model", fitted)]) if wrapped else fitted
    assert torch.is_tensor(fitted.function_.coefficients)
    rkhs.save(model, tmp_path / "model.skops")
    assert torch.is_tensor(fitted.function_.coefficients)  # what was saved is not changed
    again = rkhs.load(tmp_path / "model.skops")
    inner = again["model"] if wrapped else again
    assert isinstance(inner.function_.coefficients, np.ndarray)
    np.testing.assert_allclose(again.decision_function(X), expected, atol=1e-12)
    assert_array_equal(again.predict(X), fitted.classes_[expected.argmax(axis=1)])
    assert again.predict_proba(X).shape == (24, 3)
    assert repr(inner) == repr(fitted)
    with ZipFile(tmp_path / "model.skops") as archive:
        assert b"torch" not in archive.read("schema.json")


def test_a_function_of_tensors_is_stored_in_numpy(tmp_path):
    torch = pytest.importorskip("torch")
    f = rkhs.results.Function(
        rkhs.Gaussian(1.0), rkhs.Evaluation(torch.from_numpy(X)), torch.ones(24, dtype=torch.float64)
    )
    rkhs.save(f, tmp_path / "f.skops")
    np.testing.assert_allclose(rkhs.load(tmp_path / "f.skops")(X), f(torch.from_numpy(X)).numpy(), atol=1e-12)


def holds_itself():
    found = []
    found.append(found)
    return found


@pytest.mark.every
@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (lambda: lambda X: X, r"<lambda>, which a model file must not contain"),
        (lambda: (k for k in "ab"), "cannot be saved .*generator"),
        (lambda: io.TextIOWrapper(io.BytesIO()), "cannot be saved .*TextIOWrapper"),
        (lambda: {(1, 2): 3}, "cannot be saved .*keys must be str"),
        (lambda: pytest.importorskip("torch").zeros(2), "cannot be saved .*Tensor.*NumPy arrays"),
        (holds_itself, "cannot be saved .*recursion"),
    ],
    ids=["lambda", "generator", "file", "keys", "tensor", "cycle"],
)
def test_a_model_with_what_no_file_can_hold_is_refused(value, complaint, tmp_path):
    held = value()
    with pytest.raises(rkhs.exceptions.ModelFileError, match=complaint):
        rkhs.save(machine(invariance=held), tmp_path / "model.skops")
    assert not (tmp_path / "model.skops").exists()
    if hasattr(held, "close"):
        held.close()


class Evil:
    built = False

    def __setstate__(self, state):
        Evil.built = True


def with_note(path, version):
    with ZipFile(path, "a") as archive:
        archive.writestr("rkhs.json", json.dumps({"rkhs": version}))


def test_a_file_with_foreign_types_is_refused_and_none_of_it_is_built(tmp_path):
    path = tmp_path / "evil.skops"
    evil = Evil()
    evil.payload = 1
    skops.io.dump({"model": evil}, path)
    with_note(path, rkhs.__version__)
    with pytest.raises(rkhs.exceptions.ModelFileError, match=r"Evil, which is not a type of rkhs"):
        rkhs.load(path)
    assert not Evil.built


def of_version(path, version):
    skops.io.dump(machine(), path)
    with_note(path, version)


# name -> (how such a file is written, what is said of it)
FOREIGN = {
    "a pickle": (lambda path: path.write_bytes(pickle.dumps(machine())), "is not a model file of rkhs"),
    "skops of somebody else": (lambda path: skops.io.dump(StandardScaler(), path), "is not a model file of rkhs"),
    "later": (lambda path: of_version(path, "9.9.0"), f"saved by rkhs 9.9.0 and this is rkhs {rkhs.__version__}"),
    "earlier": (lambda path: of_version(path, "0.0.1"), f"saved by rkhs 0.0.1 and this is rkhs {rkhs.__version__}"),
}


@pytest.mark.every
@pytest.mark.parametrize(("write", "complaint"), FOREIGN.values(), ids=FOREIGN)
def test_files_of_others_and_of_other_versions_are_refused(write, complaint, tmp_path):
    write(tmp_path / "model.skops")
    with pytest.raises(rkhs.exceptions.ModelFileError, match=complaint):
        rkhs.load(tmp_path / "model.skops")


def test_only_our_own_and_named_types_are_trusted():
    foreign = {name for name in trusted_types() if not name.startswith("rkhs.")}
    assert all(name.startswith(("sklearn.", "numpy.", "scipy.sparse.")) for name in foreign)
    assert len(foreign) < 15
    assert not any(name.startswith(("rkhs._command", "rkhs.export._model_files")) for name in trusted_types())
