"""Repeated observations: in a table of few categories rows with equal features are many, and their labels differ.

A model that is fitted to such rows is compared with two models that are fitted to the same rows after a jitter of 1e-6:
all that it says is the limit of rows next to each other, to what jitter itself changes.  Copies of rows, whose labels
are equal too, are no observations (`test_equal_problems`).

Graphs are left out: their nodes are the distinct points, each once (`Graph.once`), and a graph of neighbors whose
neighbors are copies of one point would say nothing.
"""

import numpy as np
import pytest
import scipy.sparse
from sklearn.svm import SVC

import rkhs
from rkhs._core.limits import with_limits
from rkhs.extend import Sample

ROWS = 48
NEW = np.array([[0.0, 0.0], [1.0, 2.0], [2.0, 1.0], [0.5, 0.5], [2.5, 2.0]])


def table():
    """Rows at the nine points of a 3 x 3 grid, with noisy classes, whole numbers as values, and slopes of these."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (ROWS, 2)).astype(float)
    classes = ((X[:, 0] + X[:, 1] > 2) ^ (rng.random(ROWS) < 0.2)).astype(int)
    values = X[:, 0] - X[:, 1] + rng.integers(-1, 2, ROWS)
    slopes = np.column_stack([np.ones(ROWS), -np.ones(ROWS)]) + rng.integers(-1, 2, (ROWS, 2))
    return X, classes, values, slopes


X, CLASSES, VALUES, SLOPES = table()
SET = {"scale": 1.5, "C": 2.0, "tol": 1e-8}
PLAIN = {**SET, "invariance": None}
FLAT = {**SET, "invariance": "gradient", "nu": 0.3}
STATED = [(np.flatnonzero(np.arange(ROWS) % 4 != k), np.arange(k, ROWS, 4)) for k in range(4)]  # folds
GRID = {"Cs": [0.1, 1.0, 10.0], "nus": [0, 1.0], "scales": 1.5, "cv": STATED, "invariance": "gradient"}
AUTO = {"Cs": [0.1, 1.0, 10.0], "scales": [0.4, 1.5], "kernel": "gaussian"}
CLASSIFIERS = {
    "hinge": rkhs.InvariantClassifier(**PLAIN),
    "squared": rkhs.InvariantClassifier(loss="squared", **PLAIN),
    "logistic": rkhs.InvariantClassifier(loss="logistic", **FLAT),
    "loo": rkhs.InvariantClassifier(loss="squared", **{**PLAIN, "scale": "loo"}),
    "cv": rkhs.InvariantClassifier(loss="squared", **{**PLAIN, "scale": "cv"}),
    "auto": rkhs.InvariantClassifierCV(**AUTO),
    "grid": rkhs.InvariantClassifierCV(**GRID, class_weight="balanced"),
    "thin plate": rkhs.geometry.ThinPlateClassifier(C=1.0, tol=1e-8),
    "virtual": rkhs.VirtualSampleSVC([lambda points: points + 0.3], loss="logistic", **SET),
    "landmarks": rkhs.InvariantClassifier(loss="squared", **PLAIN, approximation=rkhs.Landmarks(rkhs.Evaluation(NEW))),
}
REGRESSORS = {
    "squared": rkhs.InvariantRegressor(**PLAIN),
    "flat": rkhs.InvariantRegressor(**FLAT),
    "absolute": rkhs.InvariantRegressor(loss="absolute", **PLAIN),
    "auto": rkhs.InvariantRegressorCV(**AUTO),
    "grid": rkhs.InvariantRegressorCV(**GRID),
    "thin plate": rkhs.geometry.ThinPlateRegressor(C=1.0, tol=1e-8),
    "landmarks": rkhs.InvariantRegressor(**PLAIN, approximation=rkhs.Landmarks(rkhs.Evaluation(NEW))),
}


def said_by_classifier(model):
    sets = model.predict_set(NEW, 0.8).astype(float)  # all or nothing: differs where scores are about the bound
    return {"f": model.decision_function(NEW), "proba": model.predict_proba(NEW)[:, 1], "set": sets}


def said_by_regressor(model):
    found = {"f": model.predict(NEW), "interval": np.ptp(model.predict_interval(NEW, 0.8), axis=1)}
    if getattr(model, "loss", "squared") == "squared":
        found["std"] = model.predict(NEW, return_std=True)[1]
    return found


def compare(fitted, said, y, slopes=None, draws=1):
    """Compare what is said of repeated rows with what is said of jittered ones.

    Folds are drawn by the ranks of rows, which jitter changes.  A rule that chooses settings by folds may choose others
    then, and some of several `draws` chooses those of the repeated rows.
    """
    given = (y,) if slopes is None else (y, slopes)
    whole = said(fitted(X, *given))
    jitters = [1e-6 * np.random.default_rng(seed).standard_normal(X.shape) for seed in range(draws + 1)]
    near = [said(fitted(X + jitter, *given)) for jitter in jitters]
    first, second = sorted(near, key=lambda other: np.abs(other["f"] - whole["f"]).max())[:2]
    for name, found in whole.items():
        room = 3e-3 * max(np.abs(first[name]).max(), 1.0) + 3 * np.abs(first[name] - second[name]).max()
        room += 0.05 * (name == "proba")  # targets are about one; slopes of probabilities are fitted to folds, too
        np.testing.assert_allclose(found, first[name], atol=room, rtol=0, err_msg=name)


@pytest.fixture
def tight():
    """Solve models of folds well enough to be compared."""
    with with_limits(fold_gap=1e-6):
        yield


@pytest.mark.usefixtures("tight")
@pytest.mark.filterwarnings("ignore:Length scales learned by scale='loo' have")
@pytest.mark.parametrize("name", CLASSIFIERS)
def test_classes(name):
    compare(CLASSIFIERS[name].fit, said_by_classifier, CLASSES, draws=3 if name in ("loo", "cv") else 1)


@pytest.mark.usefixtures("tight")
@pytest.mark.filterwarnings("ignore:Length scales that")
@pytest.mark.parametrize("name", REGRESSORS)
def test_values(name):
    compare(REGRESSORS[name].fit, said_by_regressor, VALUES)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:With C=.* InvariantRegressor misses its training")
@pytest.mark.filterwarnings("ignore:Between neighbors")  # values differ by noise there, not by their slopes
@pytest.mark.parametrize("scale", [1.5, "loo"])
def test_slopes(scale):
    model = rkhs.InvariantRegressor(**{**PLAIN, "scale": scale})
    compare(lambda points, y, slopes: model.fit(points, y, gradients=slopes), said_by_regressor, VALUES, SLOPES)


def test_quantiles():
    model = rkhs.QuantileRegressor([0.2, 0.8], scale=1.5, C=2.0, tol=1e-6)
    compare(model.fit, lambda fitted: {"f": fitted.predict(NEW)}, VALUES)


def test_observed_values_and_slopes():
    def fitted(points, y, slopes):
        kinds = [rkhs.Measurement(rkhs.Evaluation(points), y), rkhs.Measurement(rkhs.Gradient(points), slopes)]
        return rkhs.FunctionalRegressor(scale=1.5).fit(kinds)

    compare(
        fitted, lambda model: dict(zip(("f", "std"), model.predict(NEW, return_std=True), strict=True)), VALUES, SLOPES
    )


@pytest.mark.parametrize("loss", [rkhs.Squared(), rkhs.Logistic()])
def test_groups_of_rows(loss):
    """What `Problem.leave_out` predicts without groups of rows, some of whose twins are in other groups."""
    groups = np.arange(ROWS) % 7

    def fitted(points, y):
        term = rkhs.Term(rkhs.Evaluation(points), loss, np.where(y > 0, 1.0, -1.0), weight=2.0)
        return rkhs.Problem(rkhs.Gaussian(1.5), [term], rkhs.Constant())

    compare(fitted, lambda problem: {"f": problem.leave_out([groups]).predictions[0]}, CLASSES)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_an_observation_is_left_out_and_its_twins_stay(loss):
    """Against refits without one row of each point; one step of Newton's method for the logistic loss."""
    model = rkhs.InvariantClassifier(loss=loss, **PLAIN).fit(X, CLASSES)
    found, points = model._held_out.labels, np.column_stack([X, CLASSES])
    assert len(found.target) == ROWS
    for k in range(0, ROWS, 5):
        where = [*np.asarray(model.problem_.terms[0].functional.parts[0].atoms.points)[k], (found.target[k] + 1) / 2]
        first = np.flatnonzero(np.all(points == where, axis=1))[0]
        kept = np.delete(np.arange(ROWS), first)
        other = rkhs.InvariantClassifier(loss=loss, **PLAIN).fit(X[kept], CLASSES[kept])
        expected = other.decision_function(X[[first]])[0]
        assert found.predicted[k] == pytest.approx(expected, abs=1e-6 if loss == "squared" else 0.05)


def test_what_an_observation_is():
    points, every = np.array([[0.0], [1.0], [1.0], [1.0], [2.0]]), np.ones(5, dtype=bool)
    differing, equal = np.array([0.0, 1.0, 2.0, 2.0, 0.0]), np.array([0.0, 1.0, 1.0, 1.0, 0.0])
    for times in (1, 2):
        for weight in (None, 0.3 * np.ones(5 * times)):
            apart = Sample.of(np.tile(points, (times, 1)), weight, np.tile(differing, times), np.tile(every, times))
            assert apart.size == len(np.unique(apart.groups)) == 5
            np.testing.assert_allclose(apart.weight, times * (1.0 if weight is None else 0.3))
            merged = Sample.of(np.tile(points, (times, 1)), weight, np.tile(equal, times), np.tile(every, times))
            assert merged.size == len(np.unique(merged.groups)) == 3
    few = Sample.of(np.arange(40.0)[:, None].repeat(2, axis=0), None, np.r_[1.0, np.zeros(79)], np.ones(80, dtype=bool))
    assert few.size == 41
    assert len(np.unique(few.groups)) == 40  # copies but for one point, whose labels are left out together
    assert Sample.of(points, [0, 1e9, 2e9, 1e9, 1], differing, every).size <= 5000


@pytest.mark.slow
@pytest.mark.parametrize(
    "rows", [200, *(pytest.param(more, marks=pytest.mark.slow) for more in (300, 500, 1000, 2000))]
)
def test_a_table_of_categories(rows):
    """No worse than an SVC or the Bayes rule, by a point; sets and intervals hold what they promise."""
    errors, sets, intervals = [], [], []
    for seed in range(3):
        rng = np.random.default_rng(seed)

        def drawn(count, rng=rng):
            category = rng.integers(0, 10, count)
            return np.eye(10)[category], np.where(rng.random(count) < 0.85, category % 2, 1 - category % 2)

        (points, y), (new, truth) = drawn(rows), drawn(2000)
        own = {"scales": [0.4, 1.5], "kernel": "gaussian"}
        model = rkhs.InvariantClassifierCV(**own).fit(points, y)
        rival = min(np.mean(SVC(C=10).fit(points, y).predict(new) != truth), np.mean(new.argmax(axis=1) % 2 != truth))
        errors.append(np.mean(model.predict(new) != truth) - rival)
        sets.append(model.predict_set(new, 0.9)[np.arange(2000), truth].mean())
        low, high = rkhs.InvariantRegressorCV(**own).fit(points, 1.0 * y).predict_interval(new, 0.9).T
        intervals.append(np.mean((low <= truth) & (truth <= high)))
    assert np.mean(errors) <= 0.01
    for coverage in (sets, intervals):
        assert 0.87 <= np.mean(coverage) <= 0.95


def test_a_graph_of_the_users_own_has_a_node_for_each_row():
    chain = scipy.sparse.diags_array([np.ones(ROWS - 1)] * 2, offsets=[-1, 1])
    own = {"loss": "squared", "scale": 1.5, "tol": 1e-10, "nu": 10.0}
    graph = rkhs.invariances.Graph(graph=chain)
    same = rkhs.InvariantClassifier(invariance=graph, **own).fit(X, CLASSES).decision_function(NEW)
    near = X + 1e-7 * np.random.default_rng(0).standard_normal(X.shape)
    moved = rkhs.InvariantClassifier(invariance=graph, **own).fit(near, CLASSES).decision_function(NEW)
    np.testing.assert_allclose(same, moved, rtol=1e-4)
