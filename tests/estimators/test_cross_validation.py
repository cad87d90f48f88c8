"""Cross-validation, exact and in a span: each cell is the plain model, and the search that of GridSearchCV."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_moons
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.svm import SVC

import rkhs
from rkhs.estimators.search._search import cv_results
from rkhs.extend import Outcome, best_of

pytestmark = pytest.mark.filterwarnings("ignore:y is -1, 0, 1, and")  # a third of the rows has no label


def shuffled(folds):
    """Stratified folds of the rows in a random order."""
    return StratifiedKFold(folds, shuffle=True, random_state=0)


X, Y = make_moons(60, noise=0.3, random_state=0)
FEW = np.where(np.arange(60) < 40, Y, -1)
FIXED = rkhs.Landmarks(rkhs.stack([rkhs.Evaluation(X[::4]), rkhs.Gradient(X[:5])]))
WAVES = rkhs.FourierFeatures(40)


def assert_same_scores(ours, theirs, folds):
    """Two searches have the same scores in each fold."""
    for name in (f"split{k}_test_score" for k in range(folds)):
        np.testing.assert_allclose(ours.cv_results_[name], theirs.cv_results_[name])


def check_cells(search, model, X, y, labels, folds):
    """Each cell is the plain model with its values, which has not seen the labels of a fold: of each fold in turn."""
    for cell, values in enumerate(search.cv_results_["params"]):
        k = cell % len(folds)
        seen = np.where(np.isin(np.arange(len(X)), folds[k][1]), -1, labels)
        score = clone(model).set_params(**values).fit(X, seen).score(X[folds[k][1]], y[folds[k][1]])
        assert search.cv_results_[f"split{k}_test_score"][cell] == pytest.approx(score)


@pytest.mark.every("approximation")
@pytest.mark.parametrize(
    ("loss", "approximation"),
    [("squared_hinge", None), ("squared_hinge", WAVES), ("squared", FIXED), ("squared", WAVES), ("hinge", FIXED)],
)
def test_every_cell_is_the_machine_with_these_values(loss, approximation):
    own = {"loss": loss, "approximation": approximation}
    grid = {"Cs": [1, 100], "nus": [0, 0.1], "scales": ["median", 0.3]}
    search = rkhs.InvariantClassifierCV(invariance="gradient", cv=shuffled(3), tol=1e-10, **grid, **own).fit(X, FEW)
    assert len(search.cv_results_["params"]) == 8
    check_cells(search, rkhs.InvariantClassifier(tol=1e-8, **own), X, Y, FEW, [*shuffled(3).split(X[:40], Y[:40])])
    assert search.best_score_ == search.cv_results_["mean_test_score"].max()
    best = rkhs.InvariantClassifier(tol=1e-10, **own, **search.best_params_).fit(X, FEW)
    tolerance = 1e-6 if approximation is None else 0
    np.testing.assert_allclose(search.decision_function(X), best.decision_function(X), rtol=0, atol=tolerance)
    assert search.predict_proba(X).shape == (60, 2)


@pytest.mark.parametrize("approximation", [FIXED, WAVES], ids=["landmarks", "waves"])
def test_in_a_span_it_is_the_grid_search_of_scikit_learn(approximation):
    """With knowledge about labeled points only, so that held-out rows say nothing in either."""
    flat = rkhs.Invariance("gradient", on="labeled")
    own = {"loss": "squared", "approximation": approximation, "invariance": flat, "unlabeled": None}
    ours = rkhs.InvariantClassifierCV(Cs=[1, 100], nus=[0.0], scales=0.5, cv=KFold(4), **own).fit(X, Y)
    theirs = GridSearchCV(rkhs.InvariantClassifier(scale=0.5, nu=0.0, **own), {"C": [1, 100]}, cv=KFold(4)).fit(X, Y)
    assert_same_scores(ours, theirs, 4)
    assert ours.best_params_["C"] == theirs.best_params_["C"]


@pytest.mark.parametrize(
    ("centers", "loss", "landmarks"),
    [(2, "squared_hinge", 0), (3, "squared_hinge", 0), (3, "squared_hinge", 20), (3, "squared", 20)],
)
def test_balanced_classes_are_those_of_each_fold(centers, loss, landmarks):
    """As GridSearchCV over the plain model, which sees the labels of a fold alone; folds differ in their classes."""
    X, y = make_blobs(60, centers=centers, cluster_std=4.0, random_state=1)
    y = np.where(np.arange(60) < 25, 0, y)  # most of the first class are in the first fold, and left out there
    Cs, folds = [0.01, 0.1, 1.0], KFold(3)
    settings = {"loss": loss, "class_weight": "balanced", "unlabeled": None}
    settings["approximation"] = rkhs.Landmarks(rkhs.Evaluation(X[:landmarks])) if landmarks else None
    search = rkhs.InvariantClassifierCV(
        invariance="gradient", Cs=Cs, nus=[0.0], scales=2.0, cv=folds, tol=1e-10, **settings
    )
    ours = clone(search).fit(X, y)
    plain = rkhs.InvariantClassifier(nu=0.0, scale=2.0, tol=1e-8, **settings)
    theirs = GridSearchCV(plain, {"C": Cs}, cv=folds).fit(X, y)
    assert_same_scores(ours, theirs, 3)
    if landmarks == 0:  # the counts of all labels are not those of the fold
        counts = np.bincount(y)
        search.set_params(class_weight={c: len(y) / (centers * counts[c]) for c in range(centers)})
        counted = search.fit(X, y).cv_results_["split0_test_score"]
        assert not np.allclose(counted, ours.cv_results_["split0_test_score"])


BLOBS, OF_BLOBS = make_blobs(60, centers=3, cluster_std=3.0, random_state=0)
EVEN, TEST = np.where(np.arange(60) % 2 == 0, Y, -1), np.arange(0, 14, 2)  # the labeled rows are the even ones
STATED = [(np.setdiff1d(np.arange(60), TEST), TEST)]
LOSSES = [rkhs.Invariance("gradient"), rkhs.Invariance("gradient", loss="huber", weight=0.5)]
SMALL, SEVERAL = {"Cs": [1, 100], "nus": [0, 0.1]}, {"Cs": [1, 10], "nus": [0, 0.1], "scales": 0.5}
CELLS = {  # the grid, settings of both models, rows, labels, and the folds
    "three classes": (SMALL, {"invariance": "gradient"}, BLOBS, OF_BLOBS, None),
    "stated folds name rows of X": ({"Cs": [10], "nus": [0.1]}, {"invariance": "gradient"}, X, EVEN, STATED),
    "several losses have one nu": (SEVERAL, {"invariance": [*LOSSES, "graph"]}, X, Y, None),
    "several losses, landmarks": (SEVERAL, {"invariance": LOSSES, "approximation": FIXED}, X, Y, None),
}


@pytest.mark.parametrize("name", CELLS)
def test_cells_are_plain_models(name):
    grid, own, points, labels, folds = CELLS[name]
    own = {"loss": "squared_hinge", **own}
    search = rkhs.InvariantClassifierCV(cv=folds or shuffled(3), tol=1e-10, **grid, **own).fit(points, labels)
    scale = {"scale": grid["scales"]} if "scales" in grid else {}
    truth = Y if labels is EVEN else labels
    folds = folds or [*shuffled(3).split(points, labels)]
    check_cells(search, rkhs.InvariantClassifier(tol=1e-8, **scale, **own), points, truth, labels, folds)


POINTS = np.linspace(0, 6, 30)[:, None]


@pytest.mark.parametrize(("approximation", "rel"), [(None, 1e-2), (rkhs.Landmarks(rkhs.Evaluation(POINTS[::3])), 1e-6)])
def test_regression(approximation, rel):
    y, cv = np.sin(POINTS[:, 0]), KFold(3, shuffle=True, random_state=0)
    own = {"approximation": approximation, "unlabeled": np.nan}
    grid = {"Cs": [1, 100], "nus": [0, 0.1], "scales": 1.0}
    search = rkhs.InvariantRegressorCV(invariance="gradient", cv=cv, tol=1e-10, **grid, **own).fit(POINTS, y)
    for k, (train, test) in enumerate(cv.split(POINTS)):
        some = np.where(np.isin(np.arange(30), train), y, np.nan)
        for cell, values in enumerate(search.cv_results_["params"]):
            model = rkhs.InvariantRegressor(scale=1.0, tol=1e-8, **own, **values).fit(POINTS, some)
            error = np.mean((model.predict(POINTS[test]) - y[test]) ** 2)
            assert search.cv_results_[f"split{k}_test_score"][cell] == pytest.approx(-error, rel=rel)
    assert search.best_params_ == {"C": 100.0, "nu": 0.0}
    assert search.predict(POINTS).shape == (30,)


@pytest.mark.slow
@pytest.mark.parametrize("search", [rkhs.InvariantClassifierCV, rkhs.InvariantRegressorCV])
def test_rows_in_blocks_are_collected(search):
    weight = np.arange(len(Y)) % 3 + 1.0
    whole = search("gaussian", approximation=FIXED).fit(X, Y, weight)
    parts = search("gaussian", approximation=FIXED).fit(rkhs.streams.blocks(X, Y, weight, rows=7))
    np.testing.assert_array_equal(parts.predict(X), whole.predict(X))
    with pytest.raises(ValueError, match=r"Blocks contain y and weights: pass them to rkhs.streams.blocks"):
        search().fit(rkhs.streams.blocks(X, Y), Y)


def test_without_invariances_it_is_the_grid_search_of_svc():
    Cs = [0.1, 1.0, 10.0]
    options = {"Cs": Cs, "nus": [0.0], "scales": 0.5, "loss": "hinge", "tol": 1e-8, "cv": shuffled(5)}
    ours = rkhs.InvariantClassifierCV(invariance="gradient", **options).fit(X, Y)
    theirs = GridSearchCV(SVC(gamma=1 / (2 * 0.5**2)), {"C": Cs}, cv=shuffled(5)).fit(X, Y)
    assert_same_scores(ours, theirs, 5)
    assert ours.best_params_["C"] == theirs.best_params_["C"]
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-2)


@pytest.mark.slow
def test_several_losses_are_a_grid():
    """As GridSearchCV over the plain model; and what is chosen is told, saved and opened."""
    X = np.linspace(0, 6, 40)[:, None]
    y = np.sin(X[:, 0]) + np.where(np.arange(40) % 7 == 0, 3.0, 0.0)
    losses, cv = [rkhs.Huber(0.1), rkhs.Huber(10.0), rkhs.losses.Absolute()], KFold(4, shuffle=True, random_state=0)
    search = rkhs.InvariantRegressorCV(
        invariance=None, loss=losses, Cs=[1, 10], nus=[0], scales=1.0, cv=cv, tol=1e-10
    ).fit(X, y)
    plain = rkhs.InvariantRegressor(invariance=None, nu=0, scale=1.0, tol=1e-8)
    theirs = GridSearchCV(plain, {"loss": losses, "C": [1, 10]}, cv=cv, scoring="neg_mean_absolute_error").fit(X, y)
    for ours, params in zip(search.cv_results_["params"], search.cv_results_["param_loss"], strict=True):
        assert ours["loss"] == params
    found = {(one["C"], one["loss"]): k for k, one in enumerate(search.cv_results_["params"])}
    for k, params in enumerate(theirs.cv_results_["params"]):
        own = search.cv_results_["mean_test_score"][found[params["C"], params["loss"]]]
        assert own == pytest.approx(theirs.cv_results_["mean_test_score"][k], rel=1e-3)
    assert search.loss_ == search.best_params_["loss"] == theirs.best_params_["loss"] != losses[1]
    best = rkhs.InvariantRegressor(invariance=None, nu=0, scale=1.0, C=search.C_, loss=search.loss_, tol=1e-10)
    np.testing.assert_allclose(search.predict(X), best.fit(X, y).predict(X), atol=1e-6)


def test_of_equals_the_one_with_the_least_loss():
    candidates = [{"C": C, "nu": nu} for C in (1, 10) for nu in (0, 1)]
    scores = np.array([[0.5, 1.0], [1.0, 0.5], [0.75, 0.75], [0.9, 0.5]])
    losses = np.array([[0.4, 0.4], [0.1, 0.5], [0.2, 0.5], [0.0, 0.0]])

    def scored():
        rows = zip(candidates, scores, losses, strict=True)
        return [Outcome(params, -score.mean(), score, tie=loss.mean()) for params, score, loss in rows]

    assert best_of(scored()).params == candidates[1]
    scores[2] += 0.01
    assert best_of(scored()).params == candidates[2]
    assert cv_results(scored(), 0.0)["rank_test_score"].tolist() == [2, 2, 1, 4]


def test_the_loss_among_equals_is_that_of_held_out_labels():
    """One C makes f so small that nobody is sure; accuracies on the folds are the same."""
    X = np.repeat([[0.0], [10.0]], 6, axis=0) + np.linspace(0, 1, 12)[:, None]
    search = rkhs.InvariantClassifierCV(invariance="gradient", loss="squared_hinge", Cs=[1e-3, 10], nus=[0], cv=3).fit(
        X, np.repeat([0, 1], 6)
    )
    assert np.ptp(search.cv_results_["mean_test_score"]) == 0
    assert search.C_ == 10


def test_the_form_of_the_results():
    ours = (
        rkhs.InvariantClassifierCV(invariance="gradient", loss="squared_hinge", Cs=[1, 10], nus=[0, 0.1], cv=3)
        .fit(X, Y)
        .cv_results_
    )
    theirs = GridSearchCV(SVC(), {"C": [1, 10], "gamma": [1, 2]}, cv=3).fit(X, Y).cv_results_
    assert set(ours) == {name.replace("gamma", "nu") for name in theirs}
    assert all(len(ours[name]) == 4 for name in ours)


def test_grids_of_a_length_are_powers_of_ten():
    search = rkhs.InvariantClassifierCV(invariance="gradient", loss="squared", scales=0.5, cv=2)
    found = clone(search).set_params(Cs=4, nus=4).fit(X[:20], Y[:20]).cv_results_
    np.testing.assert_allclose(np.unique(found["param_C"]), [1, 10, 100, 1000])
    np.testing.assert_allclose(np.unique(found["param_nu"]), [0, 1, 10, 100])
    for Cs, sentence in (([0.0], "Cs must be"), ([], "at least one value")):
        with pytest.raises(ValueError, match=sentence):
            clone(search).set_params(Cs=Cs).fit(X, Y)


def test_the_score_of_a_list_of_losses_does_not_depend_on_its_order():
    X = np.random.default_rng(0).standard_normal((30, 1))
    y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(1).standard_t(2, 30)
    options = {"invariance": "gradient", "Cs": [1, 10], "nus": [0], "scales": 1.0}
    losses = [rkhs.Squared(), rkhs.Huber(0.1)]
    one, other = (rkhs.InvariantRegressorCV(loss=each, **options).fit(X, y) for each in (losses, losses[::-1]))
    assert one.best_score_ == pytest.approx(other.best_score_)
    assert one.loss_ == other.loss_


@pytest.mark.parametrize("invariance", ["auto", "gradient"])
def test_a_search_takes_a_shape(invariance):
    """The settings are those without it, and the model is that of the plain estimator with them."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, (40, 1))
    y = np.tanh(X[:, 0] - 3) + 0.3 * rng.standard_normal(40)
    options = {"kernel": "gaussian", "invariance": invariance, "Cs": [1, 10], "nus": [0], "tol": 1e-8}
    shape = {0: "increasing"}
    search = rkhs.InvariantRegressorCV(**options, shape=shape).fit(X, y)
    assert search.best_params_ == rkhs.InvariantRegressorCV(**options).fit(X, y).best_params_
    params = {"kernel": "gaussian", "invariance": invariance, **search.best_params_}
    plain = rkhs.InvariantRegressor(**params, shape=shape, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(search.predict(X), plain.predict(X), atol=1e-5)
    assert search.shape_certificate_.proved


def test_a_shape_of_classes_is_proved_for_what_is_chosen():
    model = rkhs.InvariantClassifierCV(shape={1: "decreasing"}).fit(X, Y)  # graphs and rotations cannot be proved
    assert model.shape_certificate_.proved
    assert {row["prior"] for row in model.selection_report_["candidates"]} <= {"none", "scales"}


def test_settings_of_a_projection_are_parameters_of_the_plain_estimator():
    """The kernel of principal components has its length scale inside, so that `scale` must be the neutral one."""
    rng = np.random.default_rng(2)
    Z = rng.normal(size=(120, 2))
    X = Z @ rng.normal(size=(2, 12)) * 3 + 0.7 * rng.normal(size=(120, 12))
    y = np.where(np.hypot(*Z.T) > 1.2, "far", "near")
    search = rkhs.InvariantClassifierCV(nus=[0]).fit(X, y)
    assert "matrix" in repr(search.best_params_["kernel"])
    plain = rkhs.InvariantClassifier(loss="squared", **search.best_params_).fit(X, y)
    np.testing.assert_allclose(plain.decision_function(X), search.decision_function(X), atol=1e-9)
