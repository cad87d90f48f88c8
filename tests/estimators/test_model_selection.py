"""The choice of settings and of unlabeled points by exact leave-one-out errors."""

import pickle
import warnings
from dataclasses import replace
from functools import partial
from time import perf_counter

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning

import rkhs
from clocks import ticking
from refusals import refused
from rkhs._core.graphs.filters import ChebyshevFilters
from rkhs._core.limits import with_limits
from rkhs.estimators._length_scales import deviations, units_of
from rkhs.estimators.search import _families as families
from rkhs.estimators.search._decide import Decision, chosen
from rkhs.estimators.search._many_labels import SelectionMonitor
from rkhs.estimators.search._scorers import LeaveOneOutScorer, ScoringTargets, leave_one_out
from rkhs.estimators.search._search import KINDS, OF_ALL_POINTS
from rkhs.kernels import GraphKernel, NeighborGraph


def labels_of(y, rows):
    """y at some rows, and -1 at all others."""
    few = np.full(len(y), -1)
    few[rows] = y[rows]
    return few


def one_of_each(y, seed=0):
    """The labels of one random row of each class."""
    rng = np.random.default_rng(seed)
    return labels_of(y, [rng.choice(np.flatnonzero(y == c)) for c in np.unique(y)])


def candidates_of(model):
    """The parameters and the squared error of each candidate with a graph."""
    pairs = zip(model.cv_results_["params"], model.cv_results_["mean_test_loss"], strict=True)
    return [(params, loss) for params, loss in pairs if families.graphs_in(params["kernel"])]


def sums(candidates):
    return [pair for pair in candidates if not isinstance(pair[0]["kernel"], GraphKernel)]


def refitted_loss(params, X, few, weight=None):
    """The squared error of models without each label, whose point stays in, unlabeled."""
    rows, classes = np.flatnonzero(few >= 0), np.unique(few[few >= 0])
    weight = np.ones(len(X)) if weight is None else weight
    errors = []
    for i in rows:
        model = rkhs.InvariantClassifier(
            params["kernel"], C=params["C"] / weight[rows].mean(), invariance=None, nu=0, loss="squared", tol=1e-10
        ).fit(X, np.where(np.arange(len(X)) == i, -1, few), weight)
        target = np.where(classes == few[i], 1.0, -1.0)
        errors.append(
            np.mean((model.decision_function(X[[i]])[0] - (target[1:] if len(classes) == 2 else target)) ** 2)
        )
    return np.average(errors, weights=weight[rows])


@pytest.mark.parametrize("Cs", [(0.5, 30.0), (0.5, 7.0, 30.0, 1e4)])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("labels", [None, np.arange(15) % 4, np.maximum(np.arange(15), 3)], ids=["each", "four", "one"])
def test_left_out_values_are_those_of_the_problem(size, Cs, labels):
    """Against `Problem.leave_out`, of any functionals; targets in several units, few and many C, and groups."""
    groups = None if labels is None else [np.flatnonzero(labels == label) for label in np.unique(labels)]
    rng = np.random.default_rng(1)
    X, weight, target = rng.standard_normal((15, 2)), rng.uniform(0.5, 2.0, 15), size * rng.standard_normal((15, 3))
    for C, values in zip(Cs, leave_one_out(rkhs.Gaussian(0.8)(X), target, weight, Cs, groups), strict=True):
        term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target, C * weight)
        left = rkhs.Problem(rkhs.Gaussian(0.8), [term], rkhs.Constant()).leave_out(labels)
        np.testing.assert_allclose(values, left.predictions[0], rtol=1e-9, atol=1e-9 * size)


@pytest.mark.slow
@pytest.mark.parametrize(("classes", "weighted"), [(2, True), (3, False)])
def test_candidates_with_a_graph_are_the_models_that_are_fitted(classes, weighted):
    """Graph kernels, which are normalized in both places."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 2))
    y = np.arange(40) % classes
    X[:, 0] += y
    few, weight = labels_of(y, np.arange(14)), rng.uniform(0.5, 2.0, 40) if weighted else None
    model = rkhs.InvariantClassifierCV("gaussian", scales=[1.3], Cs=[5.0]).fit(X, few, weight)
    found = candidates_of(model)
    assert len(found) == len(families.CUTOFFS) + 1
    for params, loss in (*found[:: len(families.CUTOFFS)], *sums(found)):
        assert loss == pytest.approx(refitted_loss(params, X, few, weight), rel=1e-5)


@pytest.mark.parametrize("features", [2, 5])
def test_the_weighted_sum_is_the_model_that_is_fitted(features):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((40, features)) * np.linspace(1.0, 3.0, features)
    few = labels_of((X[:, 0] > 0).astype(int), [*np.flatnonzero(X[:, 0] > 0)[:2], *np.flatnonzero(X[:, 0] < 0)[:6]])
    model = rkhs.InvariantClassifierCV().fit(X, few)
    params, loss = candidates_of(model)[-1]
    assert params == model.best_params_
    assert loss == pytest.approx(refitted_loss(params, X, few), rel=1e-5)
    again = rkhs.InvariantClassifier(params["kernel"], C=params["C"], invariance=None, nu=0, loss="squared").fit(X, few)
    np.testing.assert_allclose(model.decision_function(X), again.decision_function(X), atol=1e-6)


def test_unlabeled_points_help_where_classes_are_clusters():
    X, y = make_moons(200, noise=0.25, random_state=0)
    few = labels_of(y, np.arange(20))
    model = rkhs.InvariantClassifierCV().fit(X, few)
    plain = rkhs.InvariantClassifierCV(nus=[0]).fit(X, few)
    assert families.graphs_in(model.best_params_["kernel"])
    assert not families.graphs_in(plain.best_params_["kernel"])
    assert model.score(X[20:], y[20:]) > plain.score(X[20:], y[20:]) + 0.01
    report = model.selection_report_
    assert "of a weighted sum of" in report["sentence"]
    assert report["chosen"]["prior"] == "sum"
    assert sum(part["weight"] for part in report["weights"] if part["prior"] in OF_ALL_POINTS) > 0.5
    assert report["score"] == model.best_score_ == model.cv_results_["mean_test_score"][model.best_index_]
    assert [row["error"] for row in report["candidates"] if row["prior"] == report["chosen"]["prior"]] == [
        pytest.approx(1 - model.best_score_)
    ]
    assert report["unreached"] == 0
    assert report["agreement"] > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_unlabeled_points_do_no_harm_where_classes_are_no_clusters(seed):
    X = np.random.default_rng(seed).uniform(-1, 1, (300, 2))
    y = (X[:, 0] * X[:, 1] > 0).astype(int)  # boundaries do not avoid the points
    few = labels_of(y, np.arange(60))
    model, plain = (rkhs.InvariantClassifierCV(scales="median", nus=nus).fit(X, few) for nus in (None, [0]))
    assert model.score(X[60:], y[60:]) > plain.score(X[60:], y[60:]) - 0.03


def test_unlabeled_points_are_left_out_where_they_do_not_help():
    """Learned scales are compared by labels that they have not seen, and sums with a graph as well."""
    X = np.random.default_rng(1).standard_normal((400, 5))
    y = (np.sin(4 * X[:, 0]) > 0).astype(int)  # which is not what neighbors share
    model = rkhs.InvariantClassifierCV().fit(X, labels_of(y, np.arange(40)))
    parts = model.selection_report_["weights"]
    assert (parts[0]["prior"], parts[0]["weight"] > 0.5) == ("scales", True)
    assert sum(part["weight"] for part in parts if part["prior"] in OF_ALL_POINTS) < 0.2
    assert model.best_score_ < np.mean(model.predict(X[:40]) == y[:40])  # scales have seen the labels


def clusters(rows=250, features=40):
    """Two classes that are clusters, in more dimensions than neighbors can tell."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, rows)
    return rng.standard_normal((rows, features)) + 0.4 * np.outer(y, rng.choice([-1, 1], features)), y


def signals(rows=250, features=40):
    """Classes in what features have beside their common sources."""
    rng = np.random.default_rng(0)
    own = rng.standard_normal((rows, features))
    return own + 3 * rng.standard_normal((rows, 8)) @ rng.standard_normal((8, features)), own[:, :6].sum(axis=1) > 0


def test_features_of_one_unit_are_also_taken_as_they_are():
    """Channels without signal have as much noise as others; divided by their deviations they hide the classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 150)
    X = 0.3 * rng.standard_normal((150, 40))
    X[:, :6] += 1.5 * rng.standard_normal((150, 2)) @ rng.standard_normal((2, 6)) + np.outer(y, np.tile([1.0, -1.0], 3))
    few = labels_of(y, np.arange(20))
    one, own = (rkhs.InvariantClassifierCV("gaussian", scales=scales).fit(X, few) for scales in ("median", "auto"))
    assert one.score(X, y) > own.score(X, y) + 0.05
    units = np.geomspace(1e-3, 1e3, 40)
    np.testing.assert_allclose(units_of(units * X, one_unit=True), [np.ones(40), deviations(units * X)])
    np.testing.assert_allclose(units_of(units * X) / units, units_of(X))


@pytest.mark.parametrize(
    ("change", "few"),
    [(lambda A: 1000 * A, "a fifth"), (lambda A: np.hstack([A, A]) / 2**0.5, "four")],
    ids=["units", "twice"],
)
@pytest.mark.parametrize("data", [partial(make_moons, 120, noise=0.2, random_state=3), clusters, signals])
def test_what_must_not_change_the_choice(data, change, few):
    X, y = data()
    few = labels_of(y, np.arange(4 if few == "four" else len(y) // 5))
    one, other = (rkhs.InvariantClassifierCV("gaussian", scales="median").fit(Z, few) for Z in (X, change(X)))
    kernels = [model.best_params_["kernel"] for model in (one, other)]
    assert type(kernels[0]) is type(kernels[1])
    for graph, changed in zip(*map(families.graphs_in, kernels), strict=True):
        assert abs(graph.weights - changed.weights).max() < 1e-9
    assert one.C_ == other.C_
    np.testing.assert_allclose(other.decision_function(change(X)), one.decision_function(X), atol=1e-8)
    new = X[::7] + 0.01
    np.testing.assert_allclose(other.decision_function(change(new)), one.decision_function(new), atol=1e-8)


@pytest.mark.parametrize("features", [2, 5])
def test_standardized_features_have_one_graph(features):
    """Deviations differ by rounding, and standardized features are the features themselves."""
    X = np.random.default_rng(0).standard_normal((60, features))
    y, X = (X[:, 0] > 0).astype(int), (X - X.mean(axis=0)) / X.std(axis=0)
    X[:2] = [[-4.0], [4.0]]  # all features have one range
    for A, count in (((X - X.mean(axis=0)) / X.std(axis=0), 2), (X[:, [0] * features], 1)):
        params = rkhs.InvariantClassifierCV().fit(A, one_of_each(y)).best_params_
        assert len(families.graphs_in(params["kernel"])) == count


def scored(squares, kind="none", C=1.0):
    """A candidate with some squared errors."""
    squares = np.asarray(squares, dtype=float)
    params = {"C": C, "nu": 0.0, "scale": 1.0, "kernel": "gaussian", "invariance": None}
    return rkhs.extend.Outcome(params, squares.mean(), np.array([0.9]), kind=kind, error=0.1, values=squares[:, None])


def choice_of(*found, classes=None):
    count = len(found[0].values)
    classes = np.ones(count, int) if classes is None else classes
    labeled = ScoringTargets.of(np.arange(count), np.ones((count, 1)), np.ones(count), np.arange(count), classes)
    return Decision(found, chosen(found), labeled, True, LeaveOneOutScorer(None, labeled, None, [1.0]))


KINDS_BY_LOSS = {  # kinds with their losses, and the one that is chosen: the simplest of equals
    "least": ({"none": 1.0, "features": 0.9, "graph": 0.875, "sum": 0.86}, "sum"),
    "of three": ({"none": 1.0, "graph": 0.875, "features": 0.9}, "graph"),
    "little less": ({"none": 1.0, "graph": 1.01}, "none"),
    **{f"equal, up to {k}": (dict.fromkeys(KINDS[k:-1][::-1], 1.0), KINDS[k]) for k in range(len(KINDS) - 1)},
}


@pytest.mark.parametrize("name", KINDS_BY_LOSS)
def test_the_least_error_is_chosen(name):
    losses, expected = KINDS_BY_LOSS[name]
    choice = choice_of(*(scored([loss] * 4, kind) for kind, loss in losses.items()))
    assert choice.best.kind == expected == choice.report()["chosen"]["prior"]
    assert [row["prior"] for row in choice.report()["candidates"]] == [kind for kind in KINDS if kind in losses]


@pytest.mark.parametrize(
    ("kind", "loss", "error", "sentence"),
    [
        ("graph", 0.7, 0.25, "helped: 30.0 % errors without them, 25.0 % with them."),
        ("features", 0.9, 0.4, "did not help: 30.0 % errors without them, 40.0 % with them."),
    ],
)
def test_sentences_compare_what_uses_unlabeled_points_with_what_does_not(kind, loss, error, sentence):
    found = [("none", 1.0, 0.5), ("scales", 0.8, 0.3), (kind, loss, error)]
    choice = choice_of(*(replace(scored([loss] * 4, name), error=error) for name, loss, error in found))
    assert choice.sentence == f"Unlabeled rows {sentence}"


def test_the_least_C_of_equals_is_taken():
    one, other, third = (scored([loss] * 3, C=C) for C, loss in ((1.0, 2.0), (10.0, 1.0005), (100.0, 1.0)))
    assert choice_of(third, other, one).best is other


def test_a_combination_is_chosen():
    plain, total = scored([0.1] * 4), scored([1.0] * 4, "sum")
    weighted = replace(total, parts=[(0.75, plain), (0.25, replace(plain, kind="graph"))])
    choice = choice_of(plain, replace(plain, kind="graph"), weighted)
    assert choice.best is weighted
    assert choice.sentence == (
        "Leave-one-out: 10.0 % errors of a weighted sum of 2 kernels. Those that use unlabeled rows have 25 % of the "
        "weight; the best kernel without them has 10.0 % errors alone."
    )
    assert [part["weight"] for part in choice.report()["weights"]] == [0.75, 0.25]
    assert choice_of(plain, total).best is plain


def test_one_or_two_labels_of_each_class_leave_the_assumption():
    clusters = scored([1.0] * 4, "clusters")
    alone = replace(clusters, parts=[(1.0, clusters)])
    few = choice_of(scored([0.1] * 4), alone, classes=np.array([0, 0, 1, 1]))
    assert few.sentence.startswith("No class has more than 2 labels, too few to compare errors: it is assumed")
    more = choice_of(scored([0.1] * 4), alone, classes=np.array([0, 0, 0, 1]))
    assert "it is assumed" not in more.sentence


@pytest.mark.parametrize("seed", range(5))
def test_one_label_of_each_class(seed):
    X, y = make_moons(500, noise=0.05, random_state=seed)
    X = np.column_stack([X, np.ones(500)])  # a constant column, without which the graph is made
    model = rkhs.InvariantClassifierCV().fit(X, one_of_each(y, seed))
    assert model.score(X, y) >= 0.98
    report = model.selection_report_
    assert report["sentence"].startswith("No class has more than 2 labels, too few to compare errors: it is assumed")
    assert report["chosen"]["prior"] == "clusters"
    assert report["agreement"] > 0.98
    assert report["unreached"] == 0
    new, truth = make_moons(300, noise=0.05, random_state=100 + seed)
    assert model.score(np.column_stack([new, np.ones(300)]), truth) >= 0.97


@pytest.mark.parametrize(("most", "assumed"), [(2, True), (3, False)])
def test_labels_beyond_two_of_a_class_are_compared(most, assumed):
    X, y = make_moons(100, noise=0.1, random_state=0)
    few = labels_of(y, [*np.flatnonzero(y == 0)[:most], *np.flatnonzero(y == 1)[:2]])
    model = rkhs.InvariantClassifierCV().fit(X, few)
    assert ("it is assumed" in model.selection_report_["sentence"]) == assumed
    priors = {part["prior"] for part in model.selection_report_["weights"]}
    assert (priors == {"clusters"}) == assumed
    assert "clusters" in priors


def test_few_labels_without_unlabeled_points_assume_nothing():
    X, y = make_moons(10, noise=0.1, random_state=0)
    few = [*np.flatnonzero(y == 0)[:2], *np.flatnonzero(y == 1)[:2]]
    model = rkhs.InvariantClassifierCV().fit(X[few], y[few])
    assert "There are no unlabeled rows" in model.selection_report_["sentence"]
    assert not candidates_of(model)


def test_cutoffs_leave_as_many_functions_as_there_are_clusters():
    X = np.concatenate([np.random.default_rng(k).normal(6.0 * k, 1.0, (50, 2)) for k in range(3)])
    graph = NeighborGraph.of(X, 10)
    freedom = {most: families.cluster_kernel(graph, most, np.empty(0)).degrees_of_freedom for most in (1, 3, 6, 20)}
    components = graph.components.max() + 1
    assert all(found <= 1.05 * max(most, components) for most, found in freedom.items())
    assert freedom[3] < freedom[6] < freedom[20]
    cutoffs = [families.cluster_kernel(graph, most, np.empty(0)).cutoff for most in (3, 6, 20, 150)]
    assert cutoffs == sorted(cutoffs)
    assert cutoffs[-1] == 0.1


def test_scales_may_be_an_array():
    X, y = make_moons(60, noise=0.2, random_state=0)
    assert rkhs.InvariantClassifierCV(scales=np.array([0.3, 1.0])).fit(X, y).scale_ in (0.3, 1.0)
    each = [(0.3, 1.0), (1.0, 0.3)]  # one for each feature
    search = rkhs.InvariantClassifierCV(scales=each, Cs=[1, 10]).fit(X, y)
    assert search.scale_ in each
    assert (
        pickle.loads(pickle.dumps(search)).cv_results_["param_scale"].tolist() == [*[each[0]] * 2, *[each[1]] * 2] * 2
    )


@pytest.mark.parametrize("unit", [1e100, 1e-100])
def test_units_that_a_computer_has_change_nothing(unit):
    X, y = make_moons(40, noise=0.2, random_state=0)
    one, other = (rkhs.InvariantClassifierCV("gaussian").fit(u * X, y) for u in (1.0, unit))
    np.testing.assert_allclose(other.decision_function(unit * X), one.decision_function(X), atol=2e-3)


def test_one_target_only():
    X = np.arange(5.0)[:, None]
    model = rkhs.InvariantRegressorCV(unlabeled=np.nan).fit(X, np.array([2.0, *[np.nan] * 4]))
    np.testing.assert_allclose(model.predict(X), 2.0, rtol=1e-6)


def test_a_draw_of_the_labels_is_the_same_every_time():
    """There is no seed to set: global ones change nothing either."""
    X, y = make_moons(60, noise=0.2, random_state=0)
    with with_limits(compared_labels=30):
        one, other = (rkhs.InvariantClassifierCV().fit(X, y) for _ in range(2))
    assert one.score(X, y) > 0.8
    np.testing.assert_array_equal(other.decision_function(X), one.decision_function(X))


MOONS = make_moons(60, noise=0.2, random_state=0)


PLANE = np.random.default_rng(0).standard_normal((30, 2))
test_what_is_refused = refused(
    (
        lambda: rkhs.InvariantRegressorCV(rkhs.kernels.ThinPlate(2)).fit(PLANE, PLANE[:, 0]),
        r'ThinPlate.*order 2.*invariance="gradient"',
    ),
    (lambda: rkhs.InvariantRegressorCV(scales="full").fit(PLANE, PLANE[:, 0]), "scale must be positive"),
    (lambda: rkhs.InvariantRegressorCV().fit(np.zeros((5, 1)), np.full(5, 2.0)), "fewer than two of them are distinct"),
    *(
        (lambda unit=unit: rkhs.InvariantClassifierCV().fit(unit * MOONS[0], MOONS[1]), "rescale the features")
        for unit in (1e200, 1e-200, 1e160, 1e-160)
    ),
)
GRAPHS = {  # settings, limits, numbers of labels of 60 rows, and whether graphs are tried
    **{
        kernel: ({"kernel": kernel, "scales": "median"}, {}, (15,), True)
        for kernel in ("gaussian", "laplace", "matern")
    },
    "default": ({}, {}, (15, 4), True),
    "few labels compared": ({}, {"compared_labels": 30}, (40,), True),
    "small enough": ({"kernel": "laplace", "scales": "median"}, {"graph_entries": 15 * 60}, (15,), True),
    "too large": ({"kernel": "laplace", "scales": "median"}, {"graph_entries": 15 * 60 - 1}, (15,), False),
    "all labeled": ({}, {"compared_labels": 30}, (60,), False),
    "nu": ({"nus": [0]}, {}, (15, 4), False),
    "kernel": ({"kernel": rkhs.Gaussian(0.5)}, {}, (15, 4), False),
    "landmarks": ({"approximation": rkhs.Landmarks(20)}, {}, (15, 4), False),
    "Fourier features": ({"approximation": rkhs.FourierFeatures(50)}, {}, (15, 4), False),
    "polynomials": ({"kernel": "polynomial"}, {}, (15, 4), False),
}


@pytest.mark.filterwarnings("ignore:y is -1, 0, 1, and")
@pytest.mark.parametrize("name", GRAPHS)
def test_where_graphs_are_tried(name):
    settings, changed, counts, tried = GRAPHS[name]
    for count in counts:
        with with_limits(**changed):
            model = rkhs.InvariantClassifierCV(**settings).fit(MOONS[0], labels_of(MOONS[1], np.arange(count)))
        report = model.selection_report_
        assert bool(candidates_of(model)) == tried
        assert ({"graph", "clusters"} & {one["prior"] for one in report["candidates"]} != set()) == tried
        assert ("no unlabeled rows" in report["sentence"]) == (count == 60)
        assert "agreement" not in report or families.graphs_in(model.best_params_["kernel"])
        if not tried:
            assert report.keys().isdisjoint({"agreement", "unreached"})
            assert "it is assumed" not in report["sentence"]
            assert ("Unlabeled rows were not tried" in report["sentence"]) == (count < 60)


def test_a_graph_that_cannot_be_searched_is_warned_of(monkeypatch):
    monkeypatch.setattr("rkhs.estimators.search._cv.can_search", lambda *_: False)
    X, y = MOONS
    with pytest.warns(UserWarning, match=r"tries no graph: .*pip install 'rkhs\[graphs\]'"):
        model = rkhs.InvariantClassifierCV(scales="median").fit(X, labels_of(y, np.arange(15)))
    assert not candidates_of(model)


@pytest.mark.parametrize("labels", [15, 4])
def test_a_time_limit_during_graphs(labels, monkeypatch):
    """What was found is used, also where a sum with graphs would have been assumed."""
    sequence = ChebyshevFilters._sequence

    def slow(self, V):
        for T in sequence(self, V):
            clock.now += 0.1
            yield T

    monkeypatch.setattr(ChebyshevFilters, "_sequence", slow)
    X, y = MOONS
    with (
        with_limits(spectral_nodes=0),
        ticking() as clock,
        pytest.warns(ConvergenceWarning, match=r"stopped its search after \d+ candidates \(time limit"),
    ):
        model = rkhs.InvariantClassifierCV("gaussian", scales="median", time_limit=2.0).fit(
            X, labels_of(y, np.arange(labels))
        )
    assert clock.now < 6
    assert model.search_status_.startswith("time limit")
    assert not candidates_of(model)
    assert not families.graphs_in(model.best_params_["kernel"])
    assert len(model.cv_results_["params"]) > 50
    assert model.decision_function(X).shape == (60,)


def test_new_points_have_the_values_of_nodes_nearby():
    X, y = make_moons(300, noise=0.1, random_state=0)
    model = rkhs.InvariantClassifierCV(scales="median").fit(X, labels_of(y, np.arange(20)))
    assert families.graphs_in(model.best_params_["kernel"])
    values = model.decision_function(X)
    near = model.decision_function(X + 1e-7 * np.random.default_rng(0).standard_normal(X.shape))
    assert np.mean(np.abs(near - values)) < 0.2 * np.std(values)
    assert np.mean((near > 0) == (values > 0)) > 0.97
    new, truth = make_moons(300, noise=0.1, random_state=1)
    assert model.score(new, truth) > model.score(X, y) - 0.03


def test_progress_is_told(capfd):
    monitor = SelectionMonitor(0.0, verbose=True, started=perf_counter() - 100.0)
    monitor.report(None, 0.5, np.inf)
    monitor.close()
    assert "choosing: 1 kernels, 100 s, least squared error 0.5" in monitor.line(monitor.history[0])


def test_a_class_with_one_label_and_one_with_two():
    X = np.concatenate([np.random.default_rng(k).normal(4 * k, 0.3, (20, 2)) for k in range(3)])
    y = np.repeat([0, 1, 2], 20)
    assert rkhs.InvariantClassifierCV().fit(X, labels_of(y, [0, 20, 21, 40, 41, 42])).score(X, y) > 0.9


@pytest.mark.parametrize("unlabeled", [True, False])
def test_a_class_with_two_labels_and_others_with_more(unlabeled):
    """No discriminant is learned from two scores, and scikit-learn does not warn of one."""
    X = np.concatenate([np.random.default_rng(k).normal(2 * k, 1.0, (20, 2)) for k in range(3)])
    y, rows = np.repeat([0, 1, 2], 20), [0, 1, *range(20, 26), *range(40, 46)]
    few = labels_of(y, rows) if unlabeled else y[rows]
    model = rkhs.InvariantClassifierCV(scales="median").fit(X if unlabeled else X[rows], few)
    assert model.discriminant_ is None
    assert model.score(X, y) > 0.7


@pytest.mark.parametrize(("count", "labels"), [(4, 1), (10, 1), (10, 3), (14, 3)])
def test_more_neighbors_than_points(count, labels):
    few = np.full(count, np.nan)
    few[:labels], few[-labels:] = 0.0, 1.0
    X = np.arange(float(count))[:, None]
    model = rkhs.InvariantClassifierCV(unlabeled=np.nan).fit(X, few)
    graphs = [graph for params, _ in candidates_of(model) for graph in families.graphs_in(params["kernel"])]
    assert max(graph.n_neighbors for graph in graphs) == min(count - 1, families.NEIGHBORS)
    assert model.predict(X)[0] == 0
    assert model.predict(X)[-1] == 1


def groups():
    """Three groups of points far apart."""
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(1000 * k, 1.0, (40, 2)) for k in range(3)]), np.repeat([0, 1, 0], 40)


def test_graphs_in_several_pieces_and_copies_of_points():
    X, y = groups()
    X, y = np.concatenate([X, X[:10]]), np.concatenate([y, y[:10]])  # unlabeled copies of points, some of them labeled
    model = rkhs.InvariantClassifierCV().fit(X, labels_of(y, [0, 1, 40, 41, 80, 81]))
    assert model.score(X, y) > 0.95
    assert model.selection_report_.get("unreached", 0) == 0


def test_components_without_labels_are_warned_of():
    X, y = groups()
    X, y = np.concatenate([X, X[80:90]]), np.concatenate([y, y[80:90]])  # copies count once
    with pytest.warns(UserWarning, match=r"^40 distinct rows are in components .* that have no label"):
        model = rkhs.InvariantClassifierCV().fit(X, labels_of(y, [0, 1, 40, 41]))
    assert model.selection_report_["unreached"] == 40
    assert model.score(X[:80], y[:80]) == 1.0
    graph = NeighborGraph.of(X, 10)
    plain = rkhs.InvariantClassifier(kernel=rkhs.kernels.GraphKernel(graph), invariance=None)
    with pytest.warns(UserWarning, match=r"^40 distinct rows are in components .* that have no label"):
        plain.fit(X, labels_of(y, [0, 1, 40, 41]))
    with warnings.catch_warnings(action="error"):  # labels of points that are no nodes reach their neighbors
        plain.fit(X + 1e-6, labels_of(y, [0, 1, 40, 41, 80, 81]))
    assert [families.unreached(graph, rows) for rows in ([0], [0, 50], [0, 50, 100])] == [80, 40, 0]


@pytest.mark.parametrize("labels", [20, 4])
def test_equal_rows_with_different_labels(labels):
    """They are one node, and each label is left out alone."""
    X, y = make_moons(100, noise=0.05, random_state=1)
    X, noisy = np.concatenate([X, X[:2], X[50:55]]), np.concatenate([y, 1 - y[:2], y[50:55]])
    few = labels_of(noisy, [*range(labels), 100, 101])
    model = rkhs.InvariantClassifierCV("gaussian", scales="median").fit(X, few)
    kernel = model.best_params_["kernel"]
    assert all(len(graph.nodes) == 100 for graph in families.graphs_in(kernel))
    assert families.graphs_in(kernel)
    assert refitted_loss({**model.best_params_, "kernel": kernel}, X, few) == pytest.approx(
        model.cv_results_["mean_test_loss"][model.best_index_], rel=1e-5
    )
    assert np.all(np.isfinite(model.decision_function(X)))
    assert model.score(X[:100], y) > 0.8


def moons_with_targets():
    """Two functions that neighbors share, and that jump between the moons."""
    X, y = make_moons(300, noise=0.05, random_state=0)
    return X, np.stack([2 * y - 1 + 0.3 * np.sin(2 * X[:, 0]), y * X[:, 0]], axis=1)


def test_graphs_in_regression():
    X, Y = moons_with_targets()
    y, few = Y[:, 0], np.where(np.arange(300) < 10, Y[:, 0], np.nan)
    model, plain = (rkhs.InvariantRegressorCV(unlabeled=np.nan, nus=nus).fit(X, few) for nus in (None, [0]))
    assert families.graphs_in(model.best_params_["kernel"])
    assert "of a weighted sum of" in model.selection_report_["sentence"]
    assert model.score(X[10:], y[10:]) > max(0.85, plain.score(X[10:], y[10:]) + 0.1)
    assert 0 < model.selection_report_["agreement"] < 0.1 * y.std()  # in units of the targets
    mean, deviation = model.predict(X[10:], return_std=True)
    assert np.mean(np.abs(mean - y[10:]) < 2 * deviation) > 0.9
    errors = []
    for i in range(10):
        again = rkhs.InvariantRegressor(
            model.best_params_["kernel"], C=model.C_, invariance=None, nu=0, loss="squared", unlabeled=np.nan, tol=1e-10
        ).fit(X, np.where(np.arange(300) == i, np.nan, few))
        errors.append(again.predict(X[[i]])[0] - y[i])
    assert -model.best_score_ == pytest.approx(np.mean(np.square(errors)), rel=1e-5)


@pytest.mark.slow
def test_directions_in_which_points_differ_help_where_classes_are_clusters():
    X, y = clusters(500, 100)
    few = labels_of(y, np.arange(40))
    model = rkhs.InvariantClassifierCV(scales="median", nus=[0]).fit(X, few)
    parts = model.selection_report_["weights"]
    assert sum(part["weight"] for part in parts if part["prior"] == "features") > 0.5
    plain = model.selection_report_["candidates"][0]
    features = rkhs.InvariantClassifier(loss="squared", scale=plain["scale"], C=plain["C"], nu=0).fit(X, few)
    assert model.score(X, y) > features.score(X, y) + 0.02
    assert rkhs.InvariantClassifierCV(scales="median").fit(X, few).score(X, y) > features.score(X, y) + 0.02


def test_decorrelated_features_help_where_classes_are_in_what_is_left():
    X, y = signals(400, 60)
    model = rkhs.InvariantClassifierCV("gaussian", scales="median").fit(X, np.where(np.arange(400) < 100, y, -1))
    parts = [part for part in model.selection_report_["weights"] if part["prior"] == "features"]
    assert any(part["kernel"].linear.shape == (60, 60) for part in parts)
    assert model.score(X, y) > 0.65


@pytest.mark.parametrize("invariance", ["auto", "gradient"])
def test_several_outputs_share_the_settings(invariance):
    X = np.random.default_rng(0).standard_normal((120, 2))
    Y = np.stack([np.sin(X[:, 0]), X[:, 1] ** 2], axis=1)
    few = np.where((np.arange(120) < 50)[:, None], Y, np.nan)
    model = rkhs.InvariantRegressorCV("gaussian", scales="median", invariance=invariance, unlabeled=np.nan).fit(X, few)
    assert model.predict(X).shape == (120, 2)
    for errors, target in zip(Y[50:].T - model.predict(X[50:]).T, Y.T, strict=True):
        assert np.mean(errors**2) < 0.1 * np.var(target)
