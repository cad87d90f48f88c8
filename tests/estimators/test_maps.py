"""Maps of many points in the plane: estimators on a Fourier grid."""

from dataclasses import replace

import numpy as np
import pytest

import rkhs
from rkhs._estimators import selection
from rkhs._estimators.data import Sample
from rkhs._estimators.formulation import ModelConfig
from rkhs._estimators.length_scales import formulate, settings_of, tuned_problem

RANDOM = np.random.default_rng(0)
X = RANDOM.uniform(size=(1500, 2)) * [3.0, 1.0]
Z = RANDOM.uniform(size=(300, 2)) * [3.0, 1.0]


def truth(points):
    return 100 + 7 * np.sin(4 * points[:, 0]) * np.cos(3 * points[:, 1])


Y = truth(X) + 0.7 * RANDOM.standard_normal(len(X))


@pytest.fixture(scope="module")
def mapped():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "MOST_EXACT_LABELS", 1000)
        patch.setattr(selection, "COMPARED", 200)
        patch.setattr(selection, "TUNED", 300)
        return rkhs.InvariantRegressorCV().fit(X, Y)


def test_many_points_in_the_plane_are_mapped_on_a_fourier_grid(mapped):
    assert mapped.solution_.status == "converged"
    assert mapped.solution_.span.startswith("FourierGrid")
    assert mapped.selection_report_["sentence"].endswith(" of 1500 targets.")
    assert np.sqrt(np.mean((mapped.predict(Z) - truth(Z)) ** 2)) < 0.3
    assert mapped.score(Z, truth(Z)) > 0.99


def test_the_kernel_with_the_largest_penalized_evidence_is_chosen(mapped):
    scores = mapped.cv_results_["mean_test_score"]
    assert len(scores) == 5
    assert mapped.best_index_ == np.argmax(scores) == 0
    assert mapped.best_score_ == scores[0]
    report = mapped.selection_report_
    assert [row["score"] for row in report["candidates"]] == list(scores)
    assert "has the largest logarithm of the evidence minus the number of learned settings" in report["sentence"]
    assert report["chosen"]["prior"] == "scales"
    assert mapped.best_params_["kernel"] == mapped.solution_.function.features.kernel
    assert mapped.best_params_["C"] == mapped.C_


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
def test_stated_settings_are_kept(monkeypatch, options):
    monkeypatch.setattr(selection, "MOST_EXACT_LABELS", 250)
    model = rkhs.InvariantRegressorCV(**options).fit(X[:200], Y[:200])
    monkeypatch.setattr(selection, "MOST_EXACT_LABELS", 150)
    again = rkhs.InvariantRegressorCV(**options).fit(X[:200], Y[:200])
    assert "FourierGrid" not in str(again.solution_.span)
    assert again.best_params_ == model.best_params_


def test_more_than_three_features_are_not_mapped():
    assert selection.can_map(3)
    assert not selection.can_map(4)


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
    tuned = tuned_problem(config, sample, 3.0 * rkhs.Matern(1.5, rkhs.Tunable()))
    problem = formulate(replace(config, **settings_of(config, sample, tuned)), sample).problem(sample)[0]
    np.testing.assert_allclose(problem.terms[0].weights(), tuned.terms[0].weights())


@pytest.fixture
def small_maps(monkeypatch):
    """Maps from 200 points on, whose kernels are compared by 60 of them."""
    for place, name, value in (
        (selection, "MOST_EXACT_LABELS", 200),
        (selection, "COMPARED", 60),
        (selection, "TUNED", 90),
    ):
        monkeypatch.setattr(place, name, value)


def test_a_kernel_that_no_grid_represents_is_no_candidate(small_maps, monkeypatch):
    """The grid of a sum has the spacing of the longest length scale and the limits of the shortest one."""
    choose = rkhs.FourierGrid.choose

    def refusing(self, kernel, families, pilot=None):
        if isinstance(kernel, rkhs.kernels.Sum):
            raise MemoryError("2e11 frequencies")
        return choose(self, kernel, families, pilot)

    monkeypatch.setattr(rkhs.FourierGrid, "choose", refusing)
    model = rkhs.InvariantRegressorCV().fit(X[:300], Y[:300])
    assert model.solution_.span.startswith("FourierGrid")
    assert len(model.cv_results_["params"]) == 4
    assert not isinstance(model.best_params_["kernel"], rkhs.kernels.Sum)


def test_a_map_that_no_grid_represents_is_a_table(small_maps, monkeypatch):
    for name in ("FEWEST_MODES", "MODES"):
        monkeypatch.setattr(f"rkhs._spaces.fourier_grid.{name}", 4)
    model = rkhs.InvariantRegressorCV().fit(X[:300], Y[:300])
    assert model.selection_report_["sentence"].startswith("Leave-one-out")
    assert model.score(Z, truth(Z)) > 0.9


def test_constants_are_no_maps(small_maps):
    model = rkhs.InvariantRegressorCV().fit(X[:250], np.full(250, 3.0))
    np.testing.assert_allclose(model.predict(Z), 3.0)
    with pytest.raises(ValueError, match="fewer than two of them are distinct"):
        rkhs.InvariantRegressorCV().fit(np.ones((250, 2)), Y[:250])
