"""Ctrl-C, and solutions that do not converge: nothing half-done is kept, and nothing unsolved is scored."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning

import interrupts
import rkhs
from estimators.models import MODELS
from estimators.test_equal_problems import MODELS as EQUAL, X as ROWS
from rkhs._core.finite.monitor import Monitor
from rkhs._core.limits import with_limits
from rkhs._core.problem import Problem
from rkhs.estimators.search import _selection as selection

X, Y = make_moons(60, noise=0.3, random_state=0)
SOME = ("fit hinge", "search", "search landmarks", "probabilities", "partial_fit", "grid, kinks")


@pytest.mark.slow
def test_at_random_moments():
    outcomes, complaints = interrupts.campaign(12, seed=3, names=SOME)
    assert not complaints
    assert len(outcomes) == 12
    assert any("raised" in one.word or "interrupted" in one.word for one in outcomes)


def interrupting(monkeypatch):
    """Ctrl-C when a solver first reports to its monitor."""

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Monitor, "report", interrupt)


def unsolved(monkeypatch, *statuses):
    """Let the first solutions of a grid have these statuses, whatever they are."""
    grid = Problem.grid

    def changed(self, *args, **options):
        found = grid(self, *args, **options)
        for k, status in enumerate(statuses):
            object.__setattr__(found.flat[k], "status", status)
        return found

    monkeypatch.setattr(Problem, "grid", changed)


def test_probabilities_are_right_after_an_interrupt(monkeypatch):
    estimator = rkhs.InvariantClassifier(loss="squared_hinge", scale=0.5).fit(X, Y)
    expected = rkhs.InvariantClassifier(loss="squared_hinge", scale=0.5).fit(X, Y).predict_proba(X)
    with monkeypatch.context() as patch:
        interrupting(patch)
        with pytest.raises(KeyboardInterrupt):
            estimator.predict_proba(X)
    np.testing.assert_array_equal(estimator.predict_proba(X), expected)


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
def test_ctrl_c_is_raised_at_any_report(name, monkeypatch):
    """Wherever something reports its progress in a fit, first, later and last, Ctrl-C ends it: no half of a model."""
    (model, data), report, seen = FITS[name], Monitor.report, []

    def counted(self, *given):
        seen.append(None)
        if len(seen) == at:
            raise KeyboardInterrupt
        report(self, *given)

    monkeypatch.setattr(Monitor, "report", counted)
    at = 0
    clone(model).fit(*data)
    for at in sorted({1, len(seen) // 2 + 1, len(seen)} if seen else ()):  # sums in a span have no reports
        own = clone(model)
        before = set(vars(own))
        seen.clear()
        with pytest.raises(KeyboardInterrupt):
            own.fit(*data)
        assert len(seen) == at
        assert vars(own).keys() == before


def test_more_labels_than_can_be_factorized_are_learned_in_a_span(monkeypatch):
    monkeypatch.setattr(selection, "iterates_exactly", lambda system: False)
    message = "50 landmarks for 60 labels, because of more than 50 labels"
    with with_limits(exact_labels=50, landmark_work=60 * 50**2):
        with pytest.warns(UserWarning, match=message) as record:
            model = rkhs.InvariantClassifierCV(Cs=[1, 10]).fit(X, Y)
        exact = rkhs.InvariantClassifierCV(Cs=[1, 10], solver=rkhs.solvers.Direct()).fit(X, Y)
    assert record[0].filename == __file__
    assert model.solution_.span == "Landmarks: 50 functions"
    assert exact.solution_.span is None


CLASSIFIERS = {name: model for name, model in MODELS.items() if is_classifier(model)}


@pytest.mark.parametrize("estimator", CLASSIFIERS.values(), ids=CLASSIFIERS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_fit_that_fails_changes_nothing(estimator, error, monkeypatch):
    """Neither classes nor features nor anything else of the fit that failed is left."""
    estimator = clone(estimator).fit(X, Y)
    before, chances = dict(vars(estimator)), estimator.predict_proba(X)

    def fail(*_):
        raise error

    monkeypatch.setattr("rkhs.estimators._base.BaseKernelEstimator._keep", fail)
    with pytest.raises(error):
        estimator.fit(np.column_stack([X, X]), np.where(Y == 1, "yes", "no"))
    assert vars(estimator).keys() == before.keys()
    assert all(vars(estimator)[name] is value for name, value in before.items())
    np.testing.assert_array_equal(estimator.predict_proba(X), chances)
