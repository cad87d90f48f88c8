"""Ctrl-C, and solutions that do not converge: nothing half-done is kept, and nothing unsolved is scored."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import interrupts
import rkhs
from rkhs.finite.monitor import Monitor
from rkhs.problem import Problem

X, Y = make_moons(60, noise=0.3, random_state=0)
SOME = ("fit hinge", "search", "search landmarks", "probabilities", "partial_fit", "grid, kinks")


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
    grid = Problem.grid_and_status

    def changed(self, *args, **options):
        found, stopped = grid(self, *args, **options)
        for k, status in enumerate(statuses):
            object.__setattr__(found.flat[k], "status", status)
        return found, stopped

    monkeypatch.setattr(Problem, "grid_and_status", changed)


def test_probabilities_are_right_after_an_interrupt(monkeypatch):
    machine = rkhs.InvariantClassifier(loss="squared_hinge", scale=0.5).fit(X, Y)
    expected = rkhs.InvariantClassifier(loss="squared_hinge", scale=0.5).fit(X, Y).predict_proba(X)
    with monkeypatch.context() as patch:
        interrupting(patch)
        with pytest.raises(KeyboardInterrupt):
            machine.predict_proba(X)
    np.testing.assert_array_equal(machine.predict_proba(X), expected)


def test_probabilities_without_folds_that_are_not_solved(monkeypatch):
    machine = rkhs.InvariantClassifier(loss="squared_hinge", scale=0.5).fit(X, Y)
    unsolved(monkeypatch, "no further progress")
    with pytest.warns(ConvergenceWarning, match=r"4 of 5 folds.*no further progress"):
        p = machine.predict_proba(X)
    values, rows = machine._calibration.__class__._held_out_values, len(Y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert len(values(machine._calibration)[1]) == rows - rows // 5
    assert p.shape == (60, 2)


def test_no_probabilities_where_no_fold_is_solved(monkeypatch):
    machine = rkhs.InvariantClassifier(loss="squared_hinge", scale=0.5).fit(X, Y)
    unsolved(monkeypatch, *["time limit"] * 5)
    with pytest.raises(RuntimeError, match=r"none of 5 was solved \(time limit\).*decision_function"):
        machine.predict_proba(X)


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
    with pytest.warns(ConvergenceWarning, match=r"2 of 3 candidates.*cv_tol=0.01 \(no further progress\).*NaN"):
        first.fit(X, Y)
    assert first.search_status_ == "no further progress"
    scores = whole.cv_results_["mean_test_score"].copy()
    scores[whole.best_index_] = np.nan
    np.testing.assert_array_equal(first.cv_results_["mean_test_score"], scores)
    assert scores[first.best_index_] == np.nanmax(scores)
    assert first.cv_results_["rank_test_score"][whole.best_index_] == 3


def test_a_search_without_any_solution_is_an_error(monkeypatch):
    unsolved(monkeypatch, *["no further progress"] * 4)
    with pytest.raises(RuntimeError, match=r"none of the 2 candidates.*larger cv_tol"):
        rkhs.InvariantClassifierCV(
            invariance="gradient", loss="squared_hinge", Cs=[1, 10], nus=[0], scales=0.5, cv=2
        ).fit(X, Y)


def test_ctrl_c_ends_a_search_with_what_is_solved(monkeypatch):
    """The first scale is solved; within the second one Ctrl-C comes, and the third is not begun."""
    options = {"Cs": [1, 10], "nus": [0.1], "scales": [0.5, 0.3, 1.0], "cv": 3}
    whole = rkhs.InvariantClassifierCV(invariance="gradient", **options).fit(X, Y)
    begun = []
    grid = Problem.grid_and_status

    def at_the_second(self, *args, **given):
        begun.append(self)
        if len(begun) == 2:
            given["callback"] = lambda record: (_ for _ in ()).throw(KeyboardInterrupt)
        return grid(self, *args, **given)

    monkeypatch.setattr(Problem, "grid_and_status", at_the_second)
    search = rkhs.InvariantClassifierCV(invariance="gradient", **options)
    with pytest.warns(ConvergenceWarning, match=r"of 6 candidates.*interrupted"):
        search.fit(X, Y)
    assert len(begun) == 2
    assert search.search_status_ == "interrupted"
    ours, theirs = (found.cv_results_["mean_test_score"] for found in (search, whole))
    np.testing.assert_array_equal(ours[:2], theirs[:2])
    assert np.all(np.isnan(ours[4:]))
    assert search.solution_.status == "converged"
    assert search.scale_ == 0.5


def test_ctrl_c_before_anything_is_solved_is_raised(monkeypatch):
    grid = Problem.grid_and_status

    def stopped(self, *args, **given):
        return grid(self, *args, **given, callback=lambda record: (_ for _ in ()).throw(KeyboardInterrupt))

    monkeypatch.setattr(Problem, "grid_and_status", stopped)
    search = rkhs.InvariantClassifierCV(
        invariance="gradient", loss="squared_hinge", Cs=[10, 100], nus=[0.1], scales=0.5, cv=3, cv_tol=1e-8
    )
    with pytest.raises(KeyboardInterrupt):
        search.fit(X, Y)
    with pytest.raises(NotFittedError):
        search.predict(X)


CLASSIFIERS = [
    rkhs.InvariantClassifier(),
    rkhs.InvariantClassifier(approximation=rkhs.Landmarks(10)),
    rkhs.InvariantClassifierCV(invariance="gradient", loss="squared_hinge", Cs=[1], nus=[0], cv=2),
    rkhs.LaplacianSVC(),
    rkhs.ThinPlateClassifier(),
    rkhs.VirtualSampleSVC(),
]


@pytest.mark.parametrize("machine", CLASSIFIERS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_a_fit_that_fails_changes_nothing(machine, error, monkeypatch):
    """Neither classes nor features nor anything else of the fit that failed is left."""
    machine.fit(X, Y)
    before, chances = dict(vars(machine)), machine.predict_proba(X)

    def fail(*_):
        raise error

    monkeypatch.setattr("rkhs.estimators.machine.Machine._keep", fail)
    with pytest.raises(error):
        machine.fit(np.column_stack([X, X]), np.where(Y == 1, "yes", "no"))
    assert vars(machine).keys() == before.keys()
    assert all(vars(machine)[name] is value for name, value in before.items())
    np.testing.assert_array_equal(machine.predict_proba(X), chances)
