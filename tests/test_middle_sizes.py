"""Problems too large for a factorization: float32 tiles, absolute tolerances, error bars, choices by errors."""

from contextlib import nullcontext
from copy import deepcopy
from functools import cache
from itertools import pairwise

import numpy as np
import pytest

import rkhs
from rkhs._core.gram import matrix
from rkhs._core.limits import with_limits
from rkhs.estimators._length_scales import NormalizedKernels
from rkhs.estimators.search import _many_labels as many_labels
from rkhs.estimators.search._scorers import ScoringTargets
from rkhs.extend import Choice, Outcome
from rkhs.solvers import ConjugateGradients, Direct, InteriorPointCG, NonlinearCG
from rkhs.solvers._choose import StoredInSingle, auto
from rkhs.solvers._conditioned import ConditionedGram, variance_given_nearest
from rkhs.solvers._preconditioning import spanned

RNG = np.random.default_rng(0)
X = RNG.standard_normal((240, 5))
Y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(240)


def problem(weight=50.0, loss=None, basis=None, y=Y, gradients=False):
    terms = [rkhs.Term(rkhs.Evaluation(X), loss or rkhs.Squared(), y, weight)]
    if gradients:
        terms.append(rkhs.Term(rkhs.Gradient(X[:30]), rkhs.Squared(), weight=1e-3))
    return rkhs.Problem(rkhs.Matern(2.5, scale=2.0), terms, rkhs.Constant() if basis is None else basis)


@pytest.fixture
def small_tiles():
    with with_limits(single_side=64):
        yield


@pytest.mark.parametrize("columns", [(), (1,), (3,)])
@pytest.mark.parametrize("size", [1.0, 1e-60, 1e60])
def test_products_of_stored_tiles(small_tiles, columns, size):
    exact = problem(gradients=True).system.exact
    stored, v = matrix.SingleGram(exact), size * RNG.standard_normal((exact.shape[0], *columns))
    G = exact.dense()
    error = np.abs(stored @ v - G @ v)
    assert np.all(error <= 4 * np.finfo(np.float32).eps * (np.abs(G) @ np.abs(v)))
    np.testing.assert_array_equal(stored.diagonal(), exact.diagonal())
    np.testing.assert_allclose(stored.block([3, 70], [0, 130]), G[np.ix_([3, 70], [0, 130])], rtol=1e-14)


def test_tiles_of_what_few_functionals_miss_are_far_more_accurate(small_tiles):
    """The entries of a smooth kernel with long length scales are nearly equal, so that float32 loses what matters."""
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), Y)
    system = rkhs.Problem(rkhs.Matern(2.5, scale=300.0), [term], rkhs.Constant()).system
    exact, v = system.exact, RNG.standard_normal((system.size, 2))
    plain, split = matrix.SingleGram(exact), matrix.SingleGram(exact, spanned(system.geometry))
    errors = [np.abs(stored @ v - exact.dense() @ v).max() for stored in (plain, split)]
    assert errors[1] <= 1e-5 * errors[0]


@pytest.mark.parametrize(
    ("loss", "tol"),  # with a flat part inexact equations make no progress below 2e-3, with exact products neither
    [
        *((loss, 1e-3) for loss in (rkhs.losses.Absolute(), rkhs.Huber(0.05), rkhs.Quantile(0.9))),
        (rkhs.losses.EpsilonInsensitive(0.1), 5e-3),
    ],
)
def test_losses_with_kinks_reach_the_exact_minimum_by_stored_tiles(small_tiles, loss, tol):
    values = rkhs.Term(rkhs.Evaluation(X), loss, Y, weight=1e3)
    slopes = rkhs.Term(rkhs.Gradient(X[:30]), rkhs.Squared(), weight=1e-3)
    given = rkhs.Problem(rkhs.Matern(2.5, scale=2.0), [values, slopes], rkhs.Constant())
    found = given.solve(StoredInSingle(InteriorPointCG()), tol=tol)
    assert found.status == "converged"
    assert found.relative_gap <= tol
    assert found.primal == pytest.approx(given.solve(rkhs.solvers.BoxDual(), tol=1e-9).primal, rel=tol)


def test_interior_points_stop_at_an_absolute_gap_of_all_outputs(small_tiles):
    targets = np.where(np.stack([Y, np.ones(len(Y)), X[:, 0]], axis=1) > 0, 1.0, -1.0)  # J of the second is small
    given = rkhs.Problem(rkhs.Gaussian(2.0), [rkhs.Term(rkhs.Evaluation(X), rkhs.Hinge(), targets)])
    found = given.solve(InteriorPointCG(), tol=1e-12, atol=1.0)
    assert found.status == "absolute tolerance"
    assert 0.0 < found.gap <= 2.0
    exact = given.solve(rkhs.solvers.BoxDual(), tol=1e-8)
    assert np.all(found.certificate.primal - exact.certificate.primal <= found.certificate.gaps + 1e-6)


@pytest.mark.parametrize("solver", [ConjugateGradients(), ConjugateGradients(landmarks=40), NonlinearCG()])
@pytest.mark.parametrize("weight", [1e-3, 50.0, 1e6])
def test_stored_tiles_reach_any_tolerance(small_tiles, solver, weight):
    """Iterative refinement: restarts from exact images correct the rounding of float32."""
    given = problem(weight)
    found, exact = given.solve(StoredInSingle(solver), tol=1e-9), given.solve(Direct(), tol=1e-9)
    assert found.status == "converged"
    assert found.relative_gap <= 1e-9
    np.testing.assert_allclose(found.function(X), exact.function(X), atol=1e-4)


def test_large_problems_are_stored_in_single_precision(small_tiles):
    system = problem().system
    with with_limits(stored_rows=0):
        [chosen] = auto(system).entrants
        assert isinstance(chosen, StoredInSingle)
        assert chosen.name == "ConjugateGradients"
        with with_limits(nonquadratic_rows=100):
            assert auto(problem(1e6, loss=rkhs.losses.Absolute()).system).name == "InteriorPointCG"
            assert auto(problem(loss=rkhs.Logistic(), y=np.sign(Y)).system).name == "NonlinearCG"
        with with_limits(single_rows=0):
            assert auto(system).entrants == (ConjugateGradients(),)


def test_an_absolute_gap_is_that_of_other_targets():
    """An f that CG returns early minimizes J for targets b - s, with the residuals s of its equations."""
    given = problem()
    atol = 50.0 * len(X) * 0.02**2
    early = given.solve(ConjugateGradients(), tol=1e-12, atol=atol)
    assert early.status == "absolute tolerance"
    assert 0 < early.gap <= 2 * atol
    a = early.function.coefficients[:, None]
    f = early.function(X)[:, None]
    s = Y[:, None] - f - a / (2 * 50.0)  # b - (G + D) a - Qc
    assert np.sqrt(np.mean(s**2)) <= 2 * 0.02
    moved = problem(y=Y - s[:, 0]).solve(Direct(), tol=1e-12)
    np.testing.assert_allclose(moved.function(X), f[:, 0], atol=1e-7)
    with pytest.raises(ValueError, match="atol must be a finite number >= 0"):
        given.solve(atol=-1.0)


@pytest.mark.parametrize("basis", [rkhs.Constant(), rkhs.Polynomials(1)])
def test_variances_given_the_nearest(basis):
    given, points = problem(basis=basis, gradients=True), rkhs.Evaluation(RNG.standard_normal((9, 5)))
    exact = ConditionedGram.of(given).variance(points)
    bounds = []
    for count in (20, 60, 150, given.system.size):
        with with_limits(nearest=count):
            bounds.append(variance_given_nearest(given.represented, points))
    assert all(np.all(more <= less * (1 + 1e-9)) for less, more in pairwise(bounds))
    assert np.all(bounds[-1] >= exact * (1 - 1e-9))
    np.testing.assert_allclose(bounds[-1], exact, rtol=0.02)  # all functionals but the farthest


@pytest.mark.parametrize("large", [False, True])
def test_left_out_variances(large):
    given, rows = problem(), np.array([0, 17, 239])
    with with_limits(stored_rows=150, sampled_rows=150, nearest=120) if large else nullcontext():
        variance = ConditionedGram.of(given).left_out_variance(rows)
    residuals = given.solve(tol=1e-12).function.coefficients[rows] * variance
    np.testing.assert_allclose(residuals, given.leave_out().residuals[0][rows], rtol=0.1 if large else 1e-6)


def test_a_start_for_each_feature():
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), Y, rkhs.Tunable(start=50.0))
    scales = (1.0, 3.0, 30.0, 30.0, 30.0)
    kernel = rkhs.Gaussian(scale=rkhs.Tunable(start=scales, each=True))
    tuned = rkhs.Problem(kernel, [term], rkhs.Constant()).tune(starts=1, iterations=1)
    np.testing.assert_allclose(np.log(tuned.kernel.scale), np.log(scales), atol=1.5)
    with pytest.raises(ValueError, match="needs each=True"):
        rkhs.Tunable(start=scales)
    with pytest.raises(ValueError, match="has 2 starts, and the points have 5 features"):
        rkhs.Problem(rkhs.Gaussian(scale=rkhs.Tunable(start=(1.0, 2.0), each=True)), [term]).tune()


@pytest.fixture
def few_are_many():
    with with_limits(many_labels=150):
        yield


def truth(points):
    return np.sin(2 * points[:, 0]) + points[:, 1] + np.abs(points[:, 2])


@cache
def searched(classes):
    """Return a search at many labels, its candidates with their scorers, and new points."""
    seen, call, rng = [], many_labels.HeldOutScorer.__call__, np.random.default_rng(0)
    points, new = rng.standard_normal((420, 4)), rng.standard_normal((400, 4))  # of more than 400 no search is repeated

    def watched(scorer, proposal):
        [found] = call(scorer, proposal)
        seen.append((scorer, proposal, found))
        return [found]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(many_labels.HeldOutScorer, "__call__", watched)
        if classes:
            model = rkhs.InvariantClassifierCV().fit(points, (truth(points) > 0.8).astype(int))
        else:
            model = rkhs.InvariantRegressorCV().fit(points, truth(points) + 0.2 * rng.standard_normal(420))
    return model, seen, new


@pytest.mark.parametrize("classes", [False, True])
def test_candidates_are_compared_at_held_out_rows(few_are_many, classes):
    """Errors are those of models that have not seen the rows; the evidence of all rows would not choose otherwise."""
    model, seen, new = searched(classes)
    scorer, proposal, found = seen[0]
    C = found.params["C"]
    learned, held_out = scorer.rows(many_labels.FIRST)
    assert not set(learned) & set(held_out)
    kernel = NormalizedKernels("", scorer.kernels.sample)(proposal.kernel, proposal.scale)
    targets = scorer.targets.take(learned)
    term = rkhs.Term(rkhs.Evaluation(scorer.X[learned]), rkhs.Squared(), targets.target, C * targets.weight)
    refit = rkhs.Problem(kernel, [term], rkhs.Constant()).solve(tol=1e-12).function
    np.testing.assert_allclose(found.values, refit(scorer.X[held_out]), rtol=1e-6, atol=1e-6)
    assert {one[1].kind for one in seen} >= {"none", "scales"}
    assert model.score(new, (truth(new) > 0.8).astype(int) if classes else truth(new)) > (0.85 if classes else 0.9)


def test_large_models_have_error_bars(few_are_many):
    """Standard deviations and intervals beyond what is factorized cover as they should."""
    model, new = deepcopy(searched(False)[0]), searched(False)[2][:200]
    targets = truth(new) + 0.2 * RNG.standard_normal(len(new))
    with with_limits(dense_labels=100, sized_labels=100, stored_rows=200, sampled_rows=200, nearest=60):
        values, deviations = model.predict(new, return_std=True)
        low, high = model.predict_interval(new, coverage=0.9).T
    assert 0.9 <= np.mean(np.abs(values - targets) <= 1.96 * deviations) <= 0.99
    assert 0.84 <= np.mean((low <= targets) & (targets <= high)) <= 0.96


@pytest.mark.parametrize("given", [{"Cs": [1.0, 2.0]}, {"scales": "median"}, {"scales": [0.7]}, {"kernel": "laplace"}])
def test_what_is_given_is_not_replaced(few_are_many, given):
    points = RNG.standard_normal((320, 4))
    model = rkhs.InvariantRegressorCV(**given).fit(points, points[:, 0])
    assert model.selection_report_["sentence"].startswith("Leave-one-out")
    assert "Cs" not in given or min(abs(model.C_ - C) for C in given["Cs"]) < 1e-12


def test_other_losses_are_exact_as_long_as_memory_and_time_allow():
    given, message = (
        problem(loss=rkhs.Huber(0.1)),
        "landmarks for 240 labels, because of more than 100 labels, for which",
    )
    with with_limits(exact_labels=100, landmarks=20):
        assert many_labels.affordable_problem(given, "Model", True, False) is given
        with with_limits(exact_seconds=0.0), pytest.warns(UserWarning, match=message):
            assert many_labels.affordable_problem(given, "Model", True, False).approximation is not None
        assert many_labels.affordable_problem(problem(), "Model", True, False).approximation is None


def test_only_a_search_by_errors_stops_early(few_are_many, monkeypatch):
    """A later fit with a stated invariance does not inherit the absolute tolerance, which other losses have too."""
    points, tolerances = RNG.standard_normal((170, 4)), []
    solve = rkhs.Problem.solve

    def watched(problem, *args, **options):
        tolerances.append(options.get("atol", 0.0))
        return solve(problem, *args, **options)

    monkeypatch.setattr(rkhs.Problem, "solve", watched)
    model = rkhs.InvariantRegressorCV().fit(points, points[:, 0] + np.sin(points[:, 1]))
    assert tolerances[-1] > 0
    model.set_params(invariance="gradient", Cs=[1.0], nus=[0.1]).fit(points, points[:, 0])
    assert tolerances[-1] == 0
    noisy = points[:, 0] + 0.1 * RNG.standard_normal(len(points))
    model = rkhs.InvariantRegressorCV(loss=rkhs.Huber(0.1)).fit(points, noisy)
    assert tolerances[-1] > 0
    assert model.solution_.status in ("converged", "absolute tolerance")


@pytest.fixture
def few_are_inverted():
    with with_limits(dense_labels=100, sized_labels=100):
        yield


def test_rows_of_weight_zero_and_probabilities_of_large_models(few_are_inverted):
    """A sample of the labels is left out; rows of weight zero are no part of it."""
    points = RNG.standard_normal((300, 4))
    classes, weight = (points[:, 0] + 0.3 * RNG.standard_normal(300) > 0).astype(int), np.ones(300)
    weight[::3] = 0.0
    model, fewer = rkhs.InvariantClassifierCV("gaussian"), rkhs.InvariantClassifierCV("gaussian")
    model.fit(points, classes, sample_weight=weight)
    fewer.fit(points[weight > 0], classes[weight > 0])
    new = RNG.standard_normal((50, 4))
    np.testing.assert_allclose(model.predict_proba(new), fewer.predict_proba(new), atol=0.02)
    assert np.mean(model.predict_set(points, 0.9)[np.arange(300), classes]) > 0.8
    rows, predicted = model._held_out.sample
    assert np.all(model.problem_.terms[0].weights()[rows, 0] > 0)
    left = model.problem_.leave_out().predictions[0]
    np.testing.assert_allclose(predicted, left[rows], rtol=1e-5, atol=1e-7)


@pytest.fixture
def chosen_of(monkeypatch):
    """The choice of a search whose rounds are known."""

    def chosen(*rounds):
        answers = iter(rounds)

        monkeypatch.setattr(
            many_labels, "choose", lambda _, __, decide=None, monitor=None: Choice(*next(answers), decide)
        )
        targets = ScoringTargets.of(np.arange(240), Y[:, None], np.ones(240), np.arange(240))
        with with_limits(many_labels=50):
            scorer = many_labels.HeldOutScorer(X, targets, None, np.random.default_rng(0).permutation(240))
            return many_labels.chosen(scorer, rounds[0][0], many_labels.SelectionMonitor(0.0))

    return chosen


def candidate(kernel, loss, scale=1.0):
    return Outcome({"kernel": kernel, "scale": scale, "C": 1.0}, loss, np.array([-loss]), kind="scales")


@pytest.mark.parametrize(("loss", "kept"), [(1.01, rkhs.Matern(2.5)), (1.05, rkhs.Matern(2.5) + rkhs.Matern(0.5))])
def test_a_sum_has_to_be_clearly_better_than_one_kernel(chosen_of, loss, kept):
    found = [candidate(rkhs.Matern(2.5) + rkhs.Matern(0.5), 1.0), candidate(rkhs.Matern(2.5), loss)]
    choice, _ = chosen_of((found, "converged"), (found, "converged"))
    assert choice.best.params["kernel"] == kept


def test_a_search_without_time_for_its_finals_keeps_the_first_errors(chosen_of):
    found = [candidate("gaussian", 1.0, scale) for scale in (1.0, 2.0)]
    choice, held_out = chosen_of((found, "converged"), ([], "time limit"))
    assert choice.found == found
    assert choice.status == "time limit"
    assert len(held_out.rows) >= 48
