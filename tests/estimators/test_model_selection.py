"""The choice of settings and of unlabeled points by exact leave-one-out errors."""

import pickle
from functools import partial
from time import perf_counter

import numpy as np
import pytest
from sklearn.datasets import make_moons

import rkhs
from rkhs._estimators.scoring import Candidate, Labeled, leave_one_out
from rkhs._estimators.selection import Choice, ModelSelection, SelectionMonitor
from rkhs.invariances._graph import nearest


def kernel_of(_, scale):
    return rkhs.Gaussian(scale=scale)


def test_left_out_values_are_those_of_refits():
    rng = np.random.default_rng(0)
    X, weight = rng.standard_normal((12, 3)), rng.uniform(0.5, 2.0, 12)
    target = rng.standard_normal((12, 2))
    kernel = rkhs.Gaussian(1.5)
    for C, values in zip((0.5, 30.0), leave_one_out(kernel(X), target, weight, (0.5, 30.0)), strict=True):
        for i in range(12):
            kept = np.arange(12) != i
            term = rkhs.Term(rkhs.Evaluation(X[kept]), rkhs.Squared(), target[kept], C * weight[kept])
            f = rkhs.Problem(kernel, [term], rkhs.Constant()).solve(tol=1e-12).function
            np.testing.assert_allclose(values[i], f(X[i : i + 1])[0], rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_left_out_values_are_those_of_the_problem(size):
    """Against `Problem.leave_out`, which is of any functionals; targets in several units."""
    rng = np.random.default_rng(1)
    X, weight, target = rng.standard_normal((15, 2)), rng.uniform(0.5, 2.0, 15), size * rng.standard_normal((15, 3))
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target, 7.0 * weight)
    left = rkhs.Problem(rkhs.Gaussian(0.8), [term], rkhs.Constant()).leave_out()
    [values] = leave_one_out(rkhs.Gaussian(0.8)(X), target, weight, [7.0])
    np.testing.assert_allclose(values, left.predictions[0], rtol=1e-9, atol=1e-9 * size)


def test_candidates_with_a_graph_are_the_machines_that_are_fitted():
    """The error of a candidate is that of InvariantClassifier without each label, its point left in."""
    X = np.random.default_rng(1).standard_normal((40, 2))
    rows, y = np.arange(10), np.where(X[:, 0] > 0, 1, -1)
    labeled = Labeled(rows, y[rows, None].astype(float), np.ones(10), (y[rows] > 0).astype(int))
    search = ModelSelection(
        X, np.ones(40, int), labeled, ["gaussian"], kernel_of, [1.3], [5.0], [0, 1e3], unlabeled=True
    )
    assert search.run() == "converged"
    one = next(c for c in search.found if c.graph is not None and c.graph.power == 2 and c.graph.n_neighbors == 5)
    errors = []
    for i in rows:
        few = np.full(40, "none", dtype=object)
        few[rows] = y[rows]
        few[i] = "none"
        model = rkhs.InvariantClassifier(
            loss="squared", scale=1.3, C=5.0, nu=1e3, invariance=one.graph, unlabeled="none", tol=1e-10
        ).fit(X, few)
        errors.append(model.decision_function(X[i : i + 1])[0] - y[i])
    assert one.loss == pytest.approx(np.mean(np.square(errors)), rel=1e-5)
    assert one.error == np.mean(np.abs(errors) > 1)


def test_unlabeled_points_help_where_classes_are_clusters():
    X, y = make_moons(200, noise=0.25, random_state=0)
    few = np.where(np.arange(200) < 20, y, -1)
    model = rkhs.InvariantClassifierCV().fit(X, few)
    plain = rkhs.InvariantClassifierCV(nus=[0]).fit(X, few)
    assert isinstance(model.best_params_["invariance"], rkhs.invariances.Graph)
    assert plain.best_params_["invariance"] is None
    assert model.score(X[20:], y[20:]) > plain.score(X[20:], y[20:])
    assert model.selection_report_["sentence"].startswith("Unlabeled rows helped")
    assert model.selection_report_["candidates"][-1]["error"] == pytest.approx(1 - model.best_score_)


def test_unlabeled_points_are_left_out_where_they_do_not_help():
    X = np.random.default_rng(1).standard_normal((200, 5))
    y = (np.sin(4 * X[:, 0]) > 0).astype(int)  # which is not what neighbors share
    model = rkhs.InvariantClassifierCV().fit(X, np.where(np.arange(200) < 40, y, -1))
    assert model.best_params_["invariance"] is None
    assert model.selection_report_["sentence"].startswith("Unlabeled rows did not help: ")


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


@pytest.mark.parametrize("what", ["units", "features twice"])
@pytest.mark.parametrize("data", [partial(make_moons, 120, noise=0.1, random_state=3), clusters, signals])
def test_what_must_not_change_the_choice(what, data):
    X, y = data()
    few = np.where(np.arange(len(y)) < len(y) // 5, y, -1)
    one = rkhs.InvariantClassifierCV(scales="median").fit(X, few)
    changed = {
        "units": lambda A: 1000 * A,
        "features twice": lambda A: np.hstack([A, A]) / 2**0.5,
    }[what]
    other = rkhs.InvariantClassifierCV(scales="median").fit(changed(X), few)
    graphs = [m.best_params_["invariance"] for m in (one, other)]
    kinds = [m.selection_report_["chosen"]["kernel"] for m in (one, other)]
    assert type(kinds[0]) is type(kinds[1])
    assert (graphs[0] is None) == (graphs[1] is None)
    assert graphs[0] is None or graphs[0].power == graphs[1].power
    assert one.nu_ == other.nu_
    np.testing.assert_allclose(other.decision_function(changed(X)), one.decision_function(X), atol=2e-3)


def test_features_of_other_units_are_brought_to_one():
    X = np.random.default_rng(2).standard_normal((150, 3)) * [1.0, 1e4, 1e-3]
    y = (X[:, 0] + 1e3 * X[:, 2] > 0).astype(int)
    model = rkhs.InvariantClassifierCV().fit(X[:80], y[:80])
    assert np.ndim(model.scale_) == 1
    assert model.score(X[80:], y[80:]) > 0.85


def test_several_classes_and_regression():
    X = np.random.default_rng(3).standard_normal((90, 2))
    y = np.argmax(X @ np.array([[1.0, -1.0, 0.0], [0.5, 0.5, -1.0]]), axis=1)
    model = rkhs.InvariantClassifierCV().fit(X, np.where(np.arange(90) < 40, y, -1))
    assert model.decision_function(X).shape == (90, 3)
    assert model.score(X[40:], y[40:]) > 0.85
    f = np.sin(2 * X[:, 0])
    regressor = rkhs.InvariantRegressorCV(unlabeled=np.nan).fit(X, np.where(np.arange(90) < 50, f, np.nan))
    assert regressor.score(X[50:], f[50:]) > 0.9
    assert regressor.best_score_ < 0


def judged(squares, kind="none", C=1.0):
    """A candidate with some squared errors."""
    graph = rkhs.invariances.Graph() if kind == "graph" else None
    squares = np.asarray(squares, dtype=float)
    return Candidate(kind, "gaussian", 1.0, graph, 1.0, C, squares[:, None], squares, squares.mean(), 0.1)


def choice_of(*found):
    count = len(found[0].squares)
    return Choice(found, Labeled(np.arange(count), np.ones((count, 1)), np.ones(count), np.ones(count, int)), True)


def test_other_knowledge_has_to_lower_errors_by_a_standard_error():
    """As a paired test does: the same mean fall is enough where all errors fall, not where some rise."""
    plain, falling = judged([1.0, 1.0, 1.0, 1.0]), judged([0.9, 0.9, 0.9, 0.9], "graph")
    mixed = judged([0.0, 1.6, 0.6, 1.4], "graph")
    assert mixed.loss == pytest.approx(falling.loss)
    assert choice_of(plain, falling).best is falling
    assert choice_of(plain, mixed).best is plain


def test_kinds_are_tried_in_the_order_of_trust():
    plain, near, graph = judged([1.0] * 4), judged([0.5] * 4, "features"), judged([0.6] * 4, "graph")
    assert choice_of(plain, graph, near).best is near
    assert choice_of(plain, near, judged([0.4] * 4, "graph")).best.kind == "graph"
    assert choice_of(plain, graph, judged([2.0] * 4, "features")).best is graph
    assert [row["prior"] for row in choice_of(plain, graph, near).report()["candidates"]] == [
        "none",
        "features",
        "graph",
    ]


@pytest.mark.filterwarnings("ignore:InvariantClassifierCV approximates f by 60 landmarks for 400 points")
@pytest.mark.parametrize(("labels", "seed"), [(20, 1), (60, 2)])
def test_more_points_than_a_graph_has(labels, seed, monkeypatch):
    """With few labels some of the points, with more of them landmarks."""
    monkeypatch.setattr("rkhs._estimators.selection.FUNCTIONS", 60)
    monkeypatch.setattr("rkhs._estimators.cv.EXACT", 100)
    monkeypatch.setattr("rkhs._estimators.cv.FUNCTIONS", 60)
    X, y = make_moons(400, noise=0.15, random_state=seed)
    model = rkhs.InvariantClassifierCV(scales="median").fit(X, np.where(np.arange(400) < labels, y, -1))
    assert model.best_params_["invariance"].power == 2  # one functional for each point
    assert model.problem_.terms[1].size == (100 if labels == 20 else 400)
    assert (model.solution_.span is None) == (labels == 20)
    assert model.score(X, y) > 0.9
    assert model.predict_proba(X).shape == (400, 2)


def test_more_edges_than_points_need_no_approximation(monkeypatch):
    """Thresholds count points: a function at each of them is exact, however many edges there are."""
    X, y = make_moons(250, noise=0.1, random_state=0)
    graph = rkhs.InvariantClassifier(loss="squared", invariance=rkhs.invariances.Graph(30, power=1), nu=1e4, tol=1e-8)
    exact = graph.fit(X, np.where(np.arange(250) < 20, y, -1))
    assert exact.problem_.terms[1].size > 300
    monkeypatch.setattr("rkhs._estimators.cv.EXACT", 300)
    sample = exact._sample(X, exact.labeled_ * (y + 1) - 1, None)
    near = rkhs.InvariantClassifierCV()._affordable(exact.problem_, sample, graph=True).solve(tol=1e-8)
    assert near.span.startswith("Landmarks: 250 functions")
    np.testing.assert_allclose(near.function(X), exact.decision_function(X), atol=1e-4)


def test_two_labels_will_do():
    X, y = make_moons(60, noise=0.05, random_state=0)
    few = np.full(60, -1)
    few[[np.argmax(y == 0), np.argmax(y == 1)]] = 0, 1
    assert rkhs.InvariantClassifierCV().fit(X, few).score(X, y) > 0.5


def test_scales_may_be_an_array():
    X, y = make_moons(60, noise=0.2, random_state=0)
    assert rkhs.InvariantClassifierCV(scales=np.array([0.3, 1.0])).fit(X, y).scale_ in (0.3, 1.0)
    each = [(0.3, 1.0), (1.0, 0.3)]  # one for each feature
    search = rkhs.InvariantClassifierCV(scales=each, Cs=[1, 10]).fit(X, y)
    assert search.scale_ in each
    assert (
        pickle.loads(pickle.dumps(search)).cv_results_["param_scale"].tolist() == [*[each[0]] * 2, *[each[1]] * 2] * 2
    )


def test_a_conditional_kernel_is_refused_with_the_remedy():
    X = np.random.default_rng(0).standard_normal((30, 2))
    with pytest.raises(ValueError, match=r'ThinPlate.*order 2.*invariance="gradient"'):
        rkhs.InvariantRegressorCV(rkhs.ThinPlate(2)).fit(X, X[:, 0])


@pytest.mark.parametrize("unit", [1e200, 1e-200, 1e160, 1e-160])
def test_units_that_no_computer_has_are_refused(unit):
    X, y = make_moons(40, noise=0.2, random_state=0)
    with pytest.raises(ValueError, match="rescale the features"):
        rkhs.InvariantClassifierCV().fit(unit * X, y)


@pytest.mark.parametrize("unit", [1e100, 1e-100])
def test_units_that_a_computer_has_change_nothing(unit):
    X, y = make_moons(40, noise=0.2, random_state=0)
    one, other = (rkhs.InvariantClassifierCV().fit(u * X, y) for u in (1.0, unit))
    np.testing.assert_allclose(other.decision_function(unit * X), one.decision_function(X), atol=2e-3)


def test_one_target_only():
    X = np.arange(5.0)[:, None]
    model = rkhs.InvariantRegressorCV(unlabeled=np.nan).fit(X, np.array([2.0, *[np.nan] * 4]))
    np.testing.assert_allclose(model.predict(X), 2.0, rtol=1e-6)


def test_copies_of_one_point_are_refused():
    with pytest.raises(ValueError, match="fewer than two of them are distinct"):
        rkhs.InvariantRegressorCV().fit(np.zeros((5, 1)), np.full(5, 2.0))


def test_a_draw_of_the_labels_is_the_same_every_time(monkeypatch):
    """There is no seed to set: global ones change nothing either."""
    monkeypatch.setattr("rkhs._estimators.cv.MOST_LABELS", 30)
    X, y = make_moons(60, noise=0.2, random_state=0)
    one, other = (rkhs.InvariantClassifierCV().fit(X, y) for _ in range(2))
    assert one.score(X, y) > 0.8
    np.testing.assert_array_equal(other.decision_function(X), one.decision_function(X))


@pytest.mark.filterwarnings("ignore:y is -1, 0, 1, and")
@pytest.mark.parametrize("labels", [40, 60])
def test_graphs_are_tried_where_there_are_unlabeled_points(labels, monkeypatch):
    """Also where all landmarks are labeled points; and not where all points are labeled, but some of them used."""
    monkeypatch.setattr("rkhs._estimators.selection.FUNCTIONS", 30)
    monkeypatch.setattr("rkhs._estimators.cv.MOST_LABELS", 30)
    X, y = make_moons(60, noise=0.2, random_state=0)
    model = rkhs.InvariantClassifierCV().fit(X, np.where(np.arange(60) < labels, y, -1))
    tried = any(graph is not None for graph in model.cv_results_["param_invariance"])
    assert tried == (labels < 60)
    assert ("no unlabeled rows" in model.selection_report_["sentence"]) == (not tried)


def test_a_supervised_machine_of_many_rows_is_exact(monkeypatch):
    monkeypatch.setattr("rkhs._estimators.cv.EXACT", 50)
    X, y = make_moons(80, noise=0.2, random_state=0)
    assert rkhs.InvariantClassifierCV().fit(X, y).solution_.span is None
    few = np.where(np.arange(80) < 20, y, -1)
    kept = rkhs.InvariantClassifierCV(solver=rkhs.solvers.Direct()).fit(X, few)
    assert kept.solution_.span is None


def test_ctrl_c_leaves_nothing(monkeypatch):
    X, y = make_moons(60, noise=0.2, random_state=0)
    monkeypatch.setattr("rkhs._estimators.selection.leave_one_out", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    fresh = rkhs.InvariantClassifierCV()
    with pytest.raises(KeyboardInterrupt):
        fresh.fit(X, y)
    assert not hasattr(fresh, "C_")


def test_progress_is_told(capfd):
    monitor = SelectionMonitor(0.0, verbose=True, started=perf_counter() - 100.0, kernels=5)
    monitor.report(None, 0.5, np.inf)
    monitor.close()
    assert "choosing: 1 of about 5 kernels, 100 s, about 400 s to go" in monitor.line(monitor.history[0])


def test_a_class_with_one_label_and_one_with_two():
    X = np.concatenate([np.random.default_rng(k).normal(4 * k, 0.3, (20, 2)) for k in range(3)])
    y = np.repeat([0, 1, 2], 20)
    few = np.full(60, -1)
    few[[0, 20, 21, 40, 41, 42]] = 0, 1, 1, 2, 2, 2
    assert rkhs.InvariantClassifierCV().fit(X, few).score(X, y) > 0.9


@pytest.mark.parametrize("count", [4, 8])
def test_more_neighbors_than_points(count):
    X = np.arange(float(count))[:, None]
    few = np.full(count, -1)
    few[[0, -1]] = 0, 1
    model = rkhs.InvariantClassifierCV().fit(X, few)
    graphs = [g for g in model.cv_results_["param_invariance"] if g is not None]
    assert max(g.n_neighbors for g in graphs) == count - 1
    assert model.predict(X)[0] == 0
    assert model.predict(X)[-1] == 1


def test_graphs_in_several_pieces_and_copies_of_points():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(1000 * k, 1.0, (40, 2)) for k in range(3)])
    X = np.concatenate([X, X[:10]])  # unlabeled copies of points, some of them labeled
    y = np.concatenate([np.repeat([0, 1, 0], 40), np.zeros(10, int)])
    few = np.full(130, -1)
    few[[0, 1, 40, 41, 80, 81]] = y[[0, 1, 40, 41, 80, 81]]
    assert rkhs.InvariantClassifierCV().fit(X, few).score(X, y) > 0.95


def test_neighbors_by_principal_components(monkeypatch):
    """Those of points in a plane are the same; far from the origin too."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 8)) + 100
    exact = nearest(X, 5)
    monkeypatch.setattr("rkhs.invariances._graph.MANY", 50)
    monkeypatch.setattr("rkhs.invariances._graph.COMPONENTS", 2)
    found = nearest(X, 5)
    np.testing.assert_array_equal(found[1], exact[1])
    np.testing.assert_allclose(found[0], exact[0], rtol=1e-9)
    assert nearest(X[:50], 5)[0].shape == (50, 5)


def test_the_choice_looks_at_some_rows(monkeypatch):
    monkeypatch.setattr("rkhs._estimators.cv.MOST_ROWS", 80)
    X, y = make_moons(300, noise=0.08, random_state=0)
    few = np.where(np.arange(300) % 15 == 0, y, -1)
    model = rkhs.InvariantClassifierCV(scales="median").fit(X, few)
    assert model.problem_.terms[0].size == 20
    assert model.score(X, y) > 0.95


def test_the_least_C_of_equals_is_taken():
    one, other, third = (judged([loss] * 3, C=C) for C, loss in ((1.0, 2.0), (10.0, 1.0005), (100.0, 1.0)))
    assert choice_of(third, other, one).best is other


def test_directions_in_which_points_differ_help_where_classes_are_clusters():
    X, y = clusters(500, 100)
    few = np.where(np.arange(len(y)) < 40, y, -1)
    model = rkhs.InvariantClassifierCV(scales="median").fit(X, few)
    assert isinstance(model.best_params_["kernel"], rkhs.kernels.LinearTransform)
    assert model.selection_report_["sentence"].startswith("Unlabeled rows helped")
    plain = model.selection_report_["candidates"][0]
    features = rkhs.InvariantClassifier(loss="squared", scale=plain["scale"], C=plain["C"], nu=0).fit(X, few)
    assert model.score(X, y) > features.score(X, y) + 0.02


def test_decorrelated_features_help_where_classes_are_in_what_is_left():
    X, y = signals(400, 60)
    model = rkhs.InvariantClassifierCV(scales="median").fit(X, np.where(np.arange(400) < 100, y, -1))
    assert model.best_params_["kernel"].linear.shape == (60, 60)
    assert model.score(X, y) > 0.65
