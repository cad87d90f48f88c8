"""Rows that are added and removed: the models are those of a fit to the same rows; `updates` draws a thousand."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import rkhs
import updates
from estimators.models import values
from rkhs.invariances import Graph

RNG = np.random.default_rng(0)
X = RNG.uniform(-2, 2, (60, 2))
TARGET = np.sin(2 * X[:, 0]) + X[:, 1] ** 2
CLASSES = (TARGET > 1).astype(int)
EXACT = {"scale": 1.0, "tol": 1e-10}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(16))
def test_random_models(seed):
    assert max(found for _, found in updates.updates(seed, steps=2)) <= 1


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "prior", "pairs"), [(1e-6, None, 20), (1.0, "gradient", 20), (1e6, None, 100)])
def test_long_sequences(unit, prior, pairs):
    """Up to 200 additions and removals, by updates of the factor alone."""
    rng = np.random.default_rng(1)
    model = rkhs.InvariantRegressor(scale=unit, C=1e3, tol=1e-10, invariance=prior)
    rows = np.arange(20)
    model.fit(unit * X[rows], TARGET[rows])
    for _ in range(pairs):
        new = rng.integers(len(X))
        out = rng.integers(len(rows))
        rows = np.append(np.delete(rows, out), new)
        model.forget([out]).partial_fit(unit * X[[new]], TARGET[[new]])
        assert model.solution_.solver == "UpdatedFactor"
    again = clone(model).fit(unit * X[rows], TARGET[rows])
    np.testing.assert_allclose(model.predict(unit * X), again.predict(unit * X), rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(
        model.predict(unit * X, return_std=True)[1], again.predict(unit * X, return_std=True)[1], rtol=1e-6
    )
    np.testing.assert_allclose(model.predict_interval(unit * X), again.predict_interval(unit * X), rtol=1e-6)


def test_settings_are_those_of_the_first_fit():
    model = rkhs.InvariantRegressor(tol=1e-10).fit(X[:20], TARGET[:20])
    kernel = model.function_.kernel
    model.partial_fit(10 * X[20:], TARGET[20:])
    assert model.function_.kernel == kernel
    with pytest.raises(ValueError, match=r"C was None and is 2\.0"):
        model.set_params(C=2.0).partial_fit(X, TARGET)
    with pytest.raises(ValueError, match=r"C was None and is 2\.0"):
        model.forget([0])


def test_slopes():
    slopes = np.stack([2 * np.cos(2 * X[:, 0]), 2 * X[:, 1]], axis=1)
    slopes[::7] = np.nan
    model = rkhs.InvariantRegressor(C=1e3, gradient_weight=100.0, **EXACT)
    model.fit(X[:40], TARGET[:40], gradients=slopes[:40])
    model.partial_fit(X[40:50], TARGET[40:50], gradients=slopes[40:50])
    model.partial_fit(X[50:], TARGET[50:]).forget([3, 45])
    assert model.solution_.solver == "UpdatedFactor"
    slopes[50:] = np.nan
    data = [np.delete(part, [3, 45], axis=0) for part in (X, TARGET, slopes)]
    again = clone(model).fit(data[0], data[1], gradients=data[2])
    np.testing.assert_allclose(model.predict(X), again.predict(X), atol=1e-9)
    with pytest.raises(ValueError, match="gradients were not given to the first call"):
        rkhs.InvariantRegressor(C=1e3, **EXACT).fit(X, TARGET).partial_fit(X, TARGET, gradients=slopes)


def test_equal_rows_are_merged_and_parted():
    model = rkhs.InvariantRegressor(C=10.0, invariance=None, **EXACT).fit(X[:20], TARGET[:20])
    model.partial_fit(X[[3, 3]], TARGET[[3, 3]])
    assert model.problem_.terms[0].size == 20
    merged = clone(model).fit(X[:20], TARGET[:20], np.where(np.arange(20) == 3, 3, 1))
    np.testing.assert_allclose(model.predict(X), merged.predict(X), atol=1e-10)
    alone = clone(model).fit(X[:20], TARGET[:20])
    np.testing.assert_allclose(model.forget([3, 20]).predict(X), alone.predict(X), atol=1e-10)
    assert model.problem_.terms[0].size == 20
    assert model.forget([19]).problem_.terms[0].size == 19


def test_classes():
    model = rkhs.InvariantClassifier(loss="hinge", fit_intercept=False, **EXACT)
    model.partial_fit(X[:5], np.full(5, "b"), classes=["a", "b", "c"])
    model.partial_fit(X[5:], np.array(["a", "c"])[CLASSES[5:]])
    again = clone(model).fit(X, np.append(np.full(5, "b"), np.array(["a", "c"])[CLASSES[5:]]))
    np.testing.assert_allclose(model.decision_function(X), again.decision_function(X), atol=1e-4)
    np.testing.assert_allclose(model.predict_proba(X), again.predict_proba(X), atol=1e-3)
    with pytest.raises(ValueError, match="class 'd', which is not among"):
        model.partial_fit(X[:1], ["d"])
    with pytest.raises(ValueError, match="differ from those of the first"):
        model.partial_fit(X[:1], ["a"], classes=["a", "b"])
    assert model.forget(range(5)).classes_.tolist() == ["a", "b", "c"]


FEW = np.where(RNG.random(60) < 0.3, CLASSES, -1)
SQUARED = {"loss": "squared", **EXACT}
ADDED = {  # model, rows, targets, accuracy: weights of classes and graphs are those of all rows
    "balanced": (rkhs.InvariantClassifier(class_weight="balanced", **SQUARED), X, CLASSES, 1e-8),
    "class prior": (rkhs.InvariantClassifier(class_weight=rkhs.ClassPrior([0.3, 0.7]), **SQUARED), X, CLASSES, 1e-8),
    "graph": (rkhs.InvariantClassifier(invariance="graph", nu=1e3, **SQUARED), X, FEW, 1e-7),
    "float32": (rkhs.InvariantRegressor(C=10.0, scale=1.0), X.astype(np.float32), TARGET, 1e-2),
}


@pytest.mark.parametrize("name", ADDED)
def test_added_rows_are_as_if_they_were_there_before(name):
    model, Z, y, accuracy = ADDED[name]
    found = clone(model).fit(Z[:30], y[:30]).partial_fit(Z[30:], y[30:])
    assert found.solution_.status == "converged"
    assert values(found, Z).dtype == Z.dtype
    np.testing.assert_allclose(values(found, Z), values(clone(model).fit(Z, y), Z), atol=accuracy)


def test_sparse_rows():
    Z = scipy.sparse.random(40, 200, density=0.03, random_state=0, format="csr")
    model = rkhs.InvariantRegressor("linear", invariance=None, tol=1e-10).fit(Z[:30], TARGET[:30])
    model.partial_fit(Z[30:], TARGET[30:40]).forget([0])
    problem = model._training.formulation.problem(model._merged(model._training.rows))[0]
    np.testing.assert_allclose(model.predict(Z), problem.solve(tol=1e-12).function(Z), atol=1e-9)


@pytest.mark.parametrize("loss", ["squared", "huber"])
def test_tensors(loss):
    torch = pytest.importorskip("torch")
    import sklearn

    with sklearn.config_context(array_api_dispatch=True):
        Z, y = torch.asarray(X), torch.asarray(TARGET)
        model = rkhs.InvariantRegressor(loss=loss, invariance=None, **EXACT).fit(Z[:50], y[:50])
        model.partial_fit(Z[50:], y[50:]).forget([0])
        assert isinstance(model.predict(Z), torch.Tensor)
        found = model.predict(Z).numpy()
    again = rkhs.InvariantRegressor(loss=loss, invariance=None, **EXACT).fit(X[1:], TARGET[1:])
    np.testing.assert_allclose(found, again.predict(X), atol=1e-4)


def test_a_failed_call_changes_nothing():
    model = rkhs.InvariantRegressor(**EXACT).fit(X[:30], TARGET[:30]).partial_fit(X[30:32], TARGET[30:32])
    before = vars(model).copy()
    for bad in (
        lambda: model.partial_fit(X[:2, :1], TARGET[:2]),
        lambda: model.partial_fit(X[:2], [np.nan, 1.0]),
        lambda: model.partial_fit([[np.inf, 0.0]], TARGET[:1]),
        lambda: model.partial_fit(X[:2], np.ones((2, 2))),
        lambda: model.partial_fit(X[:2], TARGET[:2], sample_weight=[-1.0, 1.0]),
        lambda: model.forget(range(32)),
        lambda: model.forget([32]),
        lambda: model.forget([0.5]),
    ):
        with pytest.raises((ValueError, IndexError, TypeError)):
            bad()
        assert vars(model) == before


def test_what_cannot_be_updated_is_refused_by_name():
    for estimator, name in (
        (rkhs.InvariantRegressor("precomputed", invariance=None), 'kernel="precomputed"'),
        (rkhs.InvariantRegressor(shape={0: "increasing"}), "shape="),
        (rkhs.InvariantClassifier(invariance=Graph(graph=np.eye(3))), "invariance="),
    ):
        for method in ("partial_fit", "forget"):
            with pytest.raises(AttributeError) as refused:
                getattr(estimator, method)
            assert name in str(refused.value.__cause__)
            assert "call fit with all rows" in str(refused.value.__cause__)
    with pytest.raises(AttributeError) as refused:
        rkhs.InvariantRegressor(approximation=rkhs.Landmarks(5)).forget([0])
    assert "keeps sums, not rows" in str(refused.value.__cause__)
    with pytest.raises(NotFittedError):
        rkhs.InvariantRegressor().forget([0])


def test_pickled_models_go_on():
    model = rkhs.InvariantRegressor(**EXACT).fit(X[:30], TARGET[:30]).partial_fit(X[30:32], TARGET[30:32])
    loaded = pickle.loads(pickle.dumps(model))
    assert len(pickle.dumps(model)) < 3 * len(pickle.dumps(clone(model).fit(X[:32], TARGET[:32])))
    np.testing.assert_allclose(
        loaded.partial_fit(X[32:], TARGET[32:]).predict(X),
        model.partial_fit(X[32:], TARGET[32:]).predict(X),
        atol=1e-10,
    )


def test_a_certificate_does_not_depend_on_what_is_reused():
    """With a wrong Gram matrix in the factor, the problem is solved anew."""
    model = rkhs.InvariantRegressor(invariance=None, **EXACT).fit(X[:30], TARGET[:30])
    model.partial_fit(X[30:32], TARGET[30:32])
    last = model._training.last
    wrong = replace(last.factor.saddle, G=last.factor.saddle.G + 1e-3 * np.eye(32))
    model._training = replace(model._training, last=replace(last, factor=replace(last.factor, saddle=wrong)))
    model.partial_fit(X[32:34], TARGET[32:34])
    assert model.solution_.solver == "Direct"
    np.testing.assert_allclose(model.predict(X), clone(model).fit(X[:34], TARGET[:34]).predict(X), atol=1e-10)


@pytest.mark.parametrize("nothing", [[], (), np.zeros(0), np.zeros(0, dtype=int), np.zeros(12, dtype=bool)])
def test_no_rows_change_nothing(nothing):
    X = np.linspace(0, 1, 12)[:, None]
    for model, y in (
        (rkhs.InvariantRegressor(scale=1.0), np.sin(5 * X[:, 0])),
        (rkhs.InvariantClassifier(scale=1.0), X[:, 0] > 0.4),
    ):
        before = model.fit(X, y).solution_
        assert model.forget(nothing).solution_ is before
        assert model.partial_fit(X[:0], y[:0]).solution_ is before
        assert model.forget([0]).solution_ is not before


def test_indices_that_are_no_integers_are_refused():
    model = rkhs.InvariantRegressor(scale=1.0).fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 0.0])
    with pytest.raises(
        TypeError, match=r"integer indices of rows, or a mask of all 3 rows, got values of type float64"
    ):
        model.forget([1.0])
