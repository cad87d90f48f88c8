"""Maps of many points in the plane: by evidence and errors, on a Fourier grid and by neighborhoods."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy.interpolate import RBFInterpolator
from scipy.spatial import KDTree
from sklearn.exceptions import ConvergenceWarning

import rkhs
from rkhs._core.limits import with_limits
from rkhs.estimators import _maps as maps
from rkhs.estimators._formulation import ModelConfig
from rkhs.estimators._length_scales import formulate, settings_of, tuned_problem
from rkhs.estimators._maps import spikes, without_spikes
from rkhs.extend import Outcome, Sample

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(size=(1500, 2)) * [3.0, 1.0]
Z = RANDOM.uniform(size=(300, 2)) * [3.0, 1.0]


def truth(points):
    return 100 + 7 * np.sin(4 * points[:, 0]) * np.cos(3 * points[:, 1])


Y = truth(X) + 0.7 * RANDOM.standard_normal(len(X))


@pytest.fixture(scope="module")
def mapped():
    with with_limits(map_compared=100, map_tuned=200, exact_labels=1000):
        return rkhs.InvariantRegressorCV().fit(X, Y)


def test_many_points_in_the_plane_are_mapped_on_a_fourier_grid(mapped):
    assert mapped.solution_.status == "converged"
    assert mapped.solution_.span.startswith("FourierGrid")
    assert np.sqrt(np.mean((mapped.predict(Z) - truth(Z)) ** 2)) < 0.3
    assert mapped.score(Z, truth(Z)) > 0.99


def test_errors_at_left_out_rows_decide(mapped):
    report = mapped.selection_report_
    assert report["sentence"].startswith("Errors at left-out rows decided: ")
    assert {"error", "points", "stretches", "blocks", "kernel", "approximation"} <= set(report["candidates"][0])
    assert report["chosen"]["approximation"] == rkhs.FourierGrid()
    assert mapped.best_params_["kernel"] == mapped.solution_.function.features.kernel
    assert mapped.best_params_["C"] == mapped.C_
    assert mapped.cv_results_["param_approximation"][mapped.best_index_] == rkhs.FourierGrid()


@pytest.fixture(scope="module")
def tracked():
    """A rough field along twenty tracks, on which points are fifty times nearer to each other than tracks are."""
    random = np.random.default_rng(0)
    starts, angles = random.uniform(size=(20, 2)), random.uniform(0, np.pi, 20)
    along = np.linspace(-0.7, 0.7, 70)[None, :, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)[:, None]
    points = (starts[:, None] + along).reshape(-1, 2)
    heights = np.abs(np.sin(9 * points[:, 0]) + np.cos(7 * points[:, 1])) + 0.3 * np.abs(
        np.sin(40 * points).sum(axis=1)
    )
    held = random.uniform(size=len(points)) < 0.15
    with pytest.MonkeyPatch.context() as patch, with_limits(map_compared=60, map_tuned=90, exact_labels=1000):
        patch.setattr(maps, "can_map", lambda dimension: False)  # the grid of a rough field takes long
        model = rkhs.InvariantRegressorCV().fit(points[~held], heights[~held])
    return model, points[~held], heights[~held], points[held], heights[held]


def test_tracks_are_mapped_by_neighborhoods_as_well_as_by_scipy(tracked):
    model, points, heights, new, truth = tracked
    assert isinstance(model.best_params_["approximation"], rkhs.Neighbors)
    assert model.solution_.status == "exact in each neighborhood"
    predicted, std = model.predict(new, return_std=True)
    errors = [
        np.sqrt(np.mean((RBFInterpolator(points, heights, neighbors=50, kernel=name)(new) - truth) ** 2))
        for name in ("linear", "thin_plate_spline")
    ]
    assert np.sqrt(np.mean((predicted - truth) ** 2)) < 1.03 * min(errors)
    assert 0.9 < np.mean(np.abs(predicted - truth) <= 1.96 * std) < 0.99


def test_deviations_of_the_function_leave_out_the_noise(tracked):
    model, _, _, new, _ = tracked
    of_targets, of_function = (model.predict(new, return_std=what)[1] for what in (True, "function"))
    assert np.all(of_function < of_targets)
    with pytest.raises(ValueError, match='must be True, False or "function"'):
        model.predict(new, return_std="noise")


def test_deviations_of_the_exact_function_leave_out_the_noise():
    model = rkhs.InvariantRegressor().fit(X[:50], Y[:50])
    of_function = model.predict(Z, return_std="function")[1]
    np.testing.assert_allclose(of_function, model.solution_.posterior.std(rkhs.Evaluation(Z)))


def test_intervals_of_neighborhoods_cover(tracked):
    model, _, _, new, truth = tracked
    low, high = model.predict_interval(new, coverage=0.9).T
    assert 0.83 < np.mean((low <= truth) & (truth <= high)) < 0.97


def test_rows_are_left_out_at_three_distances():
    held_out = maps.HeldOutRows.of(X)
    parts = [held_out.rest, *held_out.ways.values()]
    assert np.array_equal(np.sort(np.concatenate(parts)), np.arange(len(X)))
    tree = KDTree(X[held_out.rest])
    distance = {name: np.median(tree.query(X[rows])[0]) for name, rows in held_out.ways.items()}
    assert distance["points"] < distance["blocks"]


def test_rows_stand_for_the_regions_that_are_left_out():
    held_out = maps.HeldOutRows.of(X)
    _, way = held_out.drawn(60)
    regions = np.bincount(way, held_out.regions(way))
    np.testing.assert_allclose(regions, [8, 50, 60])  # of blocks, stretches and points
    assert not np.array_equal(maps.HeldOutRows.of(X, 1).ways["points"], held_out.ways["points"])


def test_deviations_are_calibrated_by_the_errors_of_the_chosen_function():
    """Neighborhoods with residuals of their own cover; those of f that are twice as large double the deviations."""
    noise = np.random.default_rng(1).standard_normal((2, len(X)))
    sample = Sample.of(X, None, np.sin(9 * X[:, 0]) + 0.1 * noise[0], np.ones(len(X), dtype=bool))
    params = {"kernel": rkhs.kernels.Polyharmonic(1.0), "C": 10.0, "nu": 0.0, "invariance": None, "scale": 1.0}
    params["approximation"] = maps.NEAREST
    errors = maps.MapErrors(ModelConfig(C=1.0, loss="squared"), sample, maps.HeldOutRows.of(X), 150)
    [candidate] = errors(params)
    problem = formulate(replace(errors.config, **params), sample).problem(sample)[0]
    with with_limits(map_repeats=3):
        once, twice = (maps.MapSpread.of(problem, errors, params, k * candidate.values) for k in (1, 2))
    points, weight = rkhs.Evaluation(Z), problem.terms[0].weights()[0]
    np.testing.assert_allclose(twice.std(points, weight, True), 2 * once.std(points, weight, True))
    error = once.function(Z) - np.sin(9 * Z[:, 0]) - 0.1 * noise[1, : len(Z)]
    assert 0.92 < np.mean(np.abs(error) <= 1.96 * once.std(points, weight, True)) < 0.99


def test_a_regressor_takes_neighborhoods():
    model = rkhs.InvariantRegressor(kernel=rkhs.kernels.ThinPlate(), C=1e4, approximation=rkhs.Neighbors(30)).fit(
        X, truth(X)
    )
    assert np.abs(model.predict(Z) - truth(Z)).max() < 0.5
    assert model.predict(Z, return_std=True)[1].shape == (300,)
    with pytest.raises(rkhs.exceptions.ExportError, match="it is learned anew at each point"):
        rkhs.to_json(model, "model.json")


def test_intervals_cover_new_targets(mapped):
    predicted, std = mapped.predict(Z, return_std=True)
    targets = truth(Z) + 0.7 * np.random.default_rng(1).standard_normal(len(Z))
    assert 0.9 < np.mean(np.abs(predicted - targets) <= 1.96 * std) < 0.99


def test_slopes_are_those_of_the_function(mapped):
    step = 1e-4 * np.array([[1.0, 0.0]])
    quotient = (mapped.predict(Z[:5] + step) - mapped.predict(Z[:5] - step)) / 2e-4
    np.testing.assert_allclose(mapped.predict_gradient(Z[:5])[:, 0], quotient, atol=1e-4 * np.ptp(Y))


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"kernel": "gaussian"}, {"approximation": rkhs.Landmarks(20)}, {"Cs": [1.0]}])
def test_stated_settings_are_kept(options):
    with with_limits(exact_labels=250):
        model = rkhs.InvariantRegressorCV(**options).fit(X[:200], Y[:200])
    with with_limits(exact_labels=150):
        again = rkhs.InvariantRegressorCV(**options).fit(X[:200], Y[:200])
    assert "FourierGrid" not in str(again.solution_.span)
    assert again.best_params_ == model.best_params_


def test_more_than_three_features_are_not_mapped():
    assert maps.can_map(3)
    assert not maps.can_map(4)


@pytest.mark.parametrize("loss", ["squared", rkhs.Huber(0.5)])
def test_regression_on_a_grid_is_that_of_the_exact_problem(loss):
    settings = {"C": 10.0, "scale": 0.7, "loss": loss, "tol": 1e-6}
    exact = rkhs.InvariantRegressor(**settings).fit(X[:200], Y[:200])
    model = rkhs.InvariantRegressor(**settings, approximation=rkhs.FourierGrid(1e-8)).fit(X[:200], Y[:200])
    np.testing.assert_allclose(model.predict(Z), exact.predict(Z), atol=1e-2)


def test_classification_on_a_grid():
    labels = Y > 100
    settings = {"C": 10.0, "scale": 0.7, "loss": "logistic"}
    exact = rkhs.InvariantClassifier(**settings).fit(X[:300], labels[:300])
    model = rkhs.InvariantClassifier(**settings, approximation=rkhs.FourierGrid()).fit(X[:300], labels[:300])
    assert np.mean(model.predict(Z) == exact.predict(Z)) > 0.98


def test_blocks_are_refused_with_the_remedy():
    model = rkhs.InvariantRegressor(approximation=rkhs.FourierGrid())
    with pytest.raises(ValueError, match=r"StreamedProblem"):
        model.fit(rkhs.streams.blocks(X, Y, rows=500))


@pytest.mark.slow
def test_two_length_scales_are_found():
    """The sum of two kernels is chosen where a field has two length scales, and not where it has one."""
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(250, 2))
    K = rkhs.Matern(1.5, 2.0)(points) + 0.01 * rkhs.Matern(1.5, 0.1)(points)
    rough = np.linalg.cholesky(K + 1e-9 * np.eye(250)) @ rng.standard_normal(250)
    smooth = np.linalg.cholesky(rkhs.Matern(1.5, 0.5)(points) + 1e-4 * np.eye(250)) @ rng.standard_normal(250)
    fitted = [rkhs.InvariantRegressorCV().fit(points, y) for y in (rough, smooth)]
    kinds = [isinstance(model.best_params_["kernel"], rkhs.kernels.Sum) for model in fitted]
    assert kinds == [True, False]
    assert all(model.solution_.span is None for model in fitted)
    assert fitted[0].search_status_ == "converged"


@pytest.mark.parametrize("count", [29, 30])
def test_maps_have_at_least_thirty_points(count):
    model = rkhs.InvariantRegressorCV().fit(X[:count], Y[:count])
    assert ("evidence" in model.selection_report_["sentence"]) == (count == 30)
    assert "map" not in model.selection_report_["sentence"]  # two columns may be anything


def test_weights_of_a_sum_of_kernels_are_those_of_the_evidence():
    """C is for a kernel of variance one, which a sum of two is not."""
    rng = np.random.default_rng(0)
    points = rng.uniform(0, 4, (60, 2))
    config = ModelConfig(C=1.0, loss="squared")
    sample = Sample.of(points, None, np.sin(points[:, 0]) + 0.1 * rng.standard_normal(60), np.ones(60, dtype=bool))
    tuned = tuned_problem(config, sample, 3.0 * rkhs.Matern(1.5, rkhs.Tunable()), True)
    problem = formulate(replace(config, **settings_of(config, sample, tuned)), sample).problem(sample)[0]
    np.testing.assert_allclose(problem.terms[0].weights(), tuned.terms[0].weights())


@pytest.fixture
def small_maps():
    """Maps from 200 points on, whose kernels are compared by 60 of them."""
    with with_limits(map_compared=60, map_tuned=90, map_fewest=200, exact_labels=200):
        yield


def test_a_kernel_that_no_grid_represents_is_no_candidate(small_maps, monkeypatch):
    """The grid of a sum has the spacing of the longest length scale and the limits of the shortest one."""
    choose = rkhs.FourierGrid.choose

    def refusing(self, kernel, families, pilot=None):
        if isinstance(kernel, rkhs.kernels.Sum):
            raise MemoryError("2e11 frequencies")
        return choose(self, kernel, families, pilot)

    monkeypatch.setattr(rkhs.FourierGrid, "choose", refusing)
    model = rkhs.InvariantRegressorCV().fit(X[:300], Y[:300])
    assert not isinstance(model.best_params_["kernel"], rkhs.kernels.Sum)


def test_a_map_that_no_grid_represents_is_learned_by_neighborhoods(small_maps, monkeypatch):
    for name in ("FEWEST_MODES", "MODES"):
        monkeypatch.setattr(f"rkhs.maps._fourier_grid.{name}", 4)
    model = rkhs.InvariantRegressorCV().fit(X[:300], Y[:300])
    assert isinstance(model.best_params_["approximation"], rkhs.Neighbors)
    assert model.score(Z, truth(Z)) > 0.9


def test_constants_are_no_maps(small_maps):
    model = rkhs.InvariantRegressorCV().fit(X[:250], np.full(250, 3.0))
    np.testing.assert_allclose(model.predict(Z), 3.0)
    with pytest.raises(ValueError, match="fewer than two of them are distinct"):
        rkhs.InvariantRegressorCV().fit(np.ones((250, 2)), Y[:250])


def spiked(size, share=0.03):
    X = RANDOM.uniform(0, 6, (size, 1))
    wrong = np.arange(size) < max(1, round(share * size))
    return X, np.where(wrong, 999.0, np.sin(X[:, 0]) + 0.02 * RANDOM.standard_normal(size)), wrong


@pytest.mark.parametrize("share", [0.01, 0.05, 0.15])
def test_spikes_are_far_from_their_neighbors(share):
    X, y, wrong = spiked(300, share)
    np.testing.assert_array_equal(spikes(X, y), wrong)
    np.testing.assert_array_equal(spikes(X, np.column_stack([X[:, 0], y])), wrong)
    assert not spikes(X, np.where(wrong, 999.0, 7.0)).any()  # values of which nothing is typical but one
    assert not spikes(X, np.exp(3 * X[:, 0])).any()


@pytest.mark.parametrize("loss", ["absolute", "huber"])
def test_robust_maps_are_chosen_without_spikes(loss):
    X, y, _ = spiked(90)
    Z = np.linspace(0.2, 5.8, 50)[:, None]
    model = rkhs.InvariantRegressorCV(loss=loss).fit(X, y)
    assert np.sqrt(np.mean((model.predict(Z) - np.sin(Z[:, 0])) ** 2)) < 0.05


@pytest.mark.parametrize(("share", "loss", "warns"), [(0.03, "squared", True), (0.2, "squared", False)])
def test_spikes_that_are_nearly_all_of_the_variance_are_said(share, loss, warns):
    X, y, wrong = spiked(100, share)
    config = rkhs.InvariantRegressorCV(loss=loss)._config()
    sample = Sample.of(X, None, y, np.ones(100, dtype=bool))
    with warnings.catch_warnings(record=True, action="always") as seen:
        assert without_spikes(config, sample, "Model") is sample
    found = [str(one.message) for one in seen]
    assert [text.startswith(f"Model: {wrong.sum()} of 100 targets are far") for text in found] == [True] * warns


@pytest.mark.parametrize("scored", [0, 22, 23])  # before errors are compared, and in the middle of the best candidates
def test_maps_without_time_to_compare_errors(scored, small_maps, monkeypatch):
    calls, score = [], maps.MapErrors.__call__

    def limited(self, params):
        calls.append(params)
        late = len(calls) > scored
        return [Outcome(params, np.inf, np.array([-np.inf]), "time limit")] if late else score(self, params)

    monkeypatch.setattr(maps.MapErrors, "__call__", limited)
    with pytest.warns(ConvergenceWarning, match=r"stopped its search after \d+ candidates \(time limit\)"):
        model = rkhs.InvariantRegressorCV().fit(X[:250], Y[:250])
    assert model.search_status_ == "time limit"
    assert model.score(Z, truth(Z)) > 0.8
    assert isinstance(model.best_params_["approximation"], rkhs.Neighbors)


@pytest.mark.parametrize("change", [lambda y: 1e12 * y, lambda y: y + 1e9, lambda y: 1e-12 * y])
def test_maps_of_large_and_of_small_targets(change):
    model = rkhs.InvariantRegressorCV().fit(X[:60], change(Y[:60]))
    assert model.score(X[:60], change(Y[:60])) > 0.9
