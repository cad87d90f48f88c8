"""Ctrl-C, and solutions that do not converge: nothing half-done is kept, and nothing unsolved is scored."""

import pickle
import warnings
from contextlib import contextmanager
from unittest.mock import Mock

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning

import rkhs
from estimators.test_equal_problems import MODELS as EQUAL, X as ROWS
from rkhs import Problem
from rkhs._core.limits import with_limits
from rkhs.estimators.search import _many_labels as many_labels
from rkhs.extend import Monitor

X, Y = make_moons(60, noise=0.3, random_state=0)
SIGNS, SLOPES, THREE = np.where(Y == 1, 1.0, -1.0), np.sin(X[:, 0]) + X[:, 1], (Y + (X[:, 0] > 1)).astype(int)
PLACES = np.random.default_rng(0).uniform(-1, 2, size=(20, 2))


@contextmanager
def ctrl_c(at):
    """Ctrl-C at the n-th report of progress, or at none; yields the reports."""
    seen, report = [], Monitor.report

    def counted(self, *given):
        seen.append(None)
        if len(seen) == at:
            raise KeyboardInterrupt
        report(self, *given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Monitor, "report", counted)
        yield seen


def moments(seen):
    """The first report, a later one and the last; none of what has no reports, such as sums in a span."""
    return sorted({1, len(seen) // 2 + 1, len(seen)} if seen else ())


def problem(loss, target=SIGNS, **options):
    terms = [rkhs.Term(rkhs.Evaluation(X), loss, target, 10.0), rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.1)]
    return rkhs.Problem(rkhs.Gaussian(0.5), terms, rkhs.Constant(), **options)


def open_problem():
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), SLOPES, rkhs.Tunable())
    return rkhs.Problem(rkhs.Gaussian(rkhs.Tunable()), [term], rkhs.Constant())


def fitted(model, y):
    """Copies of a fitted model, to which nothing was asked."""
    saved = pickle.dumps(model.fit(X, y))
    return lambda: pickle.loads(saved)


def chances(model):
    return model.predict_proba(PLACES)


def bars(model):
    return np.stack([*model.predict(PLACES, return_std=True), *model.predict_interval(PLACES).T])


SPAN, FOLDS, SET = rkhs.Landmarks(20), {0: [np.arange(k, 60, 3) for k in range(3)]}, {"scale": 0.5, "C": 10.0}
ASKED = {  # makes what is asked, and asks: for numbers, a problem, or solutions
    "probabilities": (fitted(rkhs.InvariantClassifier(loss="squared_hinge", **SET), Y), chances),
    "probabilities of three": (fitted(rkhs.InvariantClassifier(loss="logistic", **SET), THREE), chances),
    "probabilities, plate": (fitted(rkhs.geometry.ThinPlateClassifier(), Y), chances),
    "deviations": (fitted(rkhs.InvariantRegressor(**SET), SLOPES), bars),
    "more rows": (
        fitted(rkhs.InvariantRegressor(**SET), SLOPES),
        lambda model: model.partial_fit(PLACES, PLACES[:, 0]).predict(PLACES),
    ),
    "leaving out": (lambda: problem(rkhs.Logistic()), lambda given: given.leave_out().predictions[0]),
    "tuning": (open_problem, lambda given: given.tune()),
    "solve": (lambda: problem(rkhs.Hinge()), lambda given: [given.solve(tol=1e-6)]),
    "solve in a span": (lambda: problem(rkhs.Hinge(), approximation=SPAN), lambda given: [given.solve(tol=1e-6)]),
    "path": (lambda: problem(rkhs.Logistic()), lambda given: given.path(0, [0.1, 1, 10], tol=1e-6)),
    "grid": (lambda: problem(rkhs.Hinge()), lambda given: given.grid({0: [0.1, 1]}, FOLDS, tol=1e-6).flat),
    "grid of all": (
        lambda: problem(rkhs.SquaredHinge()),
        lambda given: given.grid({0: [0.1, 1, 10], 1: [0.1, 1]}, FOLDS, tol=1e-6).flat,
    ),
    "grid in a span": (
        lambda: problem(rkhs.Hinge(), approximation=SPAN),
        lambda given: given.grid({0: [0.1, 1, 10]}, tol=1e-6).flat,
    ),
}


def told(found):
    """The numbers of an answer."""
    if isinstance(found, rkhs.Problem):
        return np.array(list(found.tuning.parameters.values()))
    return found if isinstance(found, np.ndarray) else np.stack([one.function(PLACES) for one in found])


@pytest.mark.every
@pytest.mark.parametrize("name", ASKED)
def test_ctrl_c_leaves_nothing_wrong(name):
    """It is raised, or an answer says that it is a part: its bounds are true.  Asked again, the answer is right."""
    make, ask = ASKED[name]
    with ctrl_c(0) as seen:
        right = ask(make())
    right = right if isinstance(right, np.ndarray | rkhs.Problem) else list(right)
    for at in moments(seen):
        given = make()
        kept = dict(vars(given))
        try:
            with ctrl_c(at):
                found = ask(given)
        except KeyboardInterrupt:
            if name == "more rows":
                assert all(vars(given)[key] is value for key, value in kept.items())
        else:
            assert not isinstance(found, np.ndarray), "half of the numbers"
            if isinstance(found, rkhs.Problem):
                assert found.tuning.status == "interrupted"
                assert found.tuning.evaluations == at - 1
                assert found.evidence().value == pytest.approx(found.tuning.value, rel=1e-6)
            else:
                statuses = set()
                for one, best in zip(found, right, strict=True):
                    slack = 1e-5 * abs(best.primal)
                    assert one.dual - slack <= best.primal <= one.primal + slack
                    statuses.add(one.status)
                assert statuses <= {"interrupted", "converged"}
                assert "interrupted" in statuses or at == len(seen)  # at the last report all may be solved
        np.testing.assert_allclose(told(ask(given)), told(right), atol=1e-6)


def unsolved(monkeypatch, *statuses):
    """Let the first solutions of a grid have these statuses, whatever they are."""
    grid = Problem.grid

    def changed(self, *args, **options):
        found = grid(self, *args, **options)
        for k, status in enumerate(statuses):
            object.__setattr__(found.flat[k], "status", status)
        return found

    monkeypatch.setattr(Problem, "grid", changed)


def test_probabilities_without_folds_that_are_not_solved(monkeypatch):
    estimator = rkhs.InvariantClassifier(loss="squared_hinge", scale=0.5).fit(X, Y)
    unsolved(monkeypatch, "no further progress")
    with pytest.warns(ConvergenceWarning, match=r"4 of 5 folds.*no further progress"):
        p = estimator.predict_proba(X)
    values, rows = estimator._calibration.__class__._held_out_values, len(Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(values(estimator._calibration)[1]) == rows - rows // 5
    assert p.shape == (60, 2)


def test_no_probabilities_where_no_fold_is_solved(monkeypatch):
    estimator = rkhs.InvariantClassifier(loss="squared_hinge", scale=0.5).fit(X, Y)
    unsolved(monkeypatch, *["time limit"] * 5)
    with pytest.raises(RuntimeError, match=r"none of 5 was solved \(time limit\).*decision_function"):
        estimator.predict_proba(X)


@pytest.mark.parametrize("make", [rkhs.InvariantClassifierCV, rkhs.InvariantRegressorCV])
@pytest.mark.parametrize("approximation", [None, rkhs.Landmarks(20)], ids=["whole", "landmarks"])
def test_a_search_never_chooses_what_is_not_solved(make, approximation, monkeypatch):
    """The best candidate and one fold of another are not solved: the best of the others is chosen, and all is said."""
    options = {"Cs": [0.01, 1, 100], "nus": [0.1], "scales": 0.5, "cv": 3, "approximation": approximation}
    options["invariance"] = "gradient"
    whole = make(**options).fit(X, Y)
    assert whole.search_status_ == "converged"
    first = make(**options)
    unsolved(monkeypatch, *["converged"] * 3 * whole.best_index_, "no further progress")
    message = r"2 of 3 candidates.*relative gap of 0.01 \(no further progress\).*NaN"
    with pytest.warns(ConvergenceWarning, match=message) as record:
        first.fit(X, Y)
    assert record[0].filename == __file__
    assert first.search_status_ == "no further progress"
    scores = whole.cv_results_["mean_test_score"].copy()
    scores[whole.best_index_] = np.nan
    np.testing.assert_array_equal(first.cv_results_["mean_test_score"], scores)
    assert scores[first.best_index_] == np.nanmax(scores)
    assert first.cv_results_["rank_test_score"][whole.best_index_] == 3


def test_a_search_without_any_solution_is_an_error(monkeypatch):
    unsolved(monkeypatch, *["no further progress"] * 4)
    with pytest.raises(RuntimeError, match=r"none of the 2 candidates.*larger tol"):
        rkhs.InvariantClassifierCV(
            invariance="gradient", loss="squared_hinge", Cs=[1, 10], nus=[0], scales=0.5, cv=2
        ).fit(X, Y)


OBSERVED = rkhs.Measurement(rkhs.Evaluation(X), X[:, 0] ** 2)
FITS = {name: (model, (ROWS, y)) for name, (model, y) in EQUAL.items()} | {
    "shape": (rkhs.InvariantRegressor(scale=1.0, shape={0: "increasing"}), (X, X[:, 0])),
    "observed": (rkhs.FunctionalRegressor(), (OBSERVED,)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FITS)
def test_ctrl_c_is_raised_at_any_report(name):
    """Wherever something reports its progress in a fit, first, later and last, Ctrl-C ends it: no half of a model.

    Of a model that has learned before nothing is changed.
    """
    model, data = FITS[name]
    own, new = clone(model), clone(model)
    with ctrl_c(0) as seen:
        own.fit(*data)
    before, nothing = dict(vars(own)), set(vars(new))
    for at, fitted in [*((at, own) for at in moments(seen)), *((at, new) for at in moments(seen)[-1:])]:
        with ctrl_c(at) as reports, pytest.raises(KeyboardInterrupt):
            fitted.fit(*data)
        assert len(reports) == at
    assert vars(new).keys() == nothing
    assert vars(own).keys() == before.keys()
    assert all(vars(own)[key] is value for key, value in before.items())


def test_more_labels_than_can_be_factorized_are_learned_in_a_span(monkeypatch):
    monkeypatch.setattr(many_labels, "iterates_exactly", lambda system: False)
    message = "50 landmarks for 60 labels, because of more than 50 labels"
    with with_limits(exact_labels=50, landmark_work=60 * 50**2):
        with pytest.warns(UserWarning, match=message) as record:
            model = rkhs.InvariantClassifierCV(Cs=[1, 10]).fit(X, Y)
        exact = rkhs.InvariantClassifierCV(Cs=[1, 10], solver=rkhs.solvers.Direct()).fit(X, Y)
    assert record[0].filename == __file__
    assert model.solution_.span == "Landmarks: 50 functions"
    assert exact.solution_.span is None


def test_a_fit_that_fails_keeps_probabilities_and_classes(monkeypatch):
    estimator = rkhs.InvariantClassifier(loss="squared_hinge", scale=0.5).fit(X, Y)
    before, chances = dict(vars(estimator)), estimator.predict_proba(X)
    monkeypatch.setattr(rkhs.extend.BaseKernelEstimator, "_keep", Mock(side_effect=MemoryError))
    with pytest.raises(MemoryError):
        estimator.fit(np.column_stack([X, X]), np.where(Y == 1, "yes", "no"))
    assert all(vars(estimator)[name] is value for name, value in before.items())
    np.testing.assert_array_equal(estimator.predict_proba(X), chances)
