"""Kernels and scales of the default models: taken only where they predict labels that they have not seen."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1

import rkhs
from rkhs.estimators.search._families import ScaleLearner, left_out
from rkhs.estimators.search._scorers import C_for_loss, LeaveOneOutScorer, ScoringTargets, evidence, folds
from rkhs.extend import Outcome


def some(count=60, features=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (count, features))
    return X, rng.uniform(0.5, 2.0, count), np.sin(4 * X[:, :1]) + 0.1 * rng.standard_normal((count, 1))


def metrics(X, weight, target, classes=None):
    targets = ScoringTargets.of(np.arange(len(X)), target, weight / weight.mean(), np.arange(len(X)), classes)
    return ScaleLearner(LeaveOneOutScorer(X, targets, lambda kernel, scale: rkhs.Gaussian(scale), [1.0, 100.0]), X)


def start(scale, C=100.0, kernel="gaussian"):
    return Outcome({"kernel": kernel, "scale": scale, "C": C}, 1.0, np.ones(1))


def test_folds_are_stratified():
    classes = np.random.default_rng(5).integers(0, 3, 60)
    parts = list(folds(60, classes, 4))
    np.testing.assert_array_equal(np.sort(np.concatenate([group for group, _ in parts])), np.arange(60))
    for group, rest in parts:
        assert len(group) + len(rest) == 60
        assert np.abs(np.bincount(classes[group]) - np.bincount(classes) / 4).max() < 1


def test_scales_are_taken_where_one_feature_matters_and_not_where_all_do():
    X, weight, target = some(120, 6)
    one = metrics(X, weight, target)
    base = start(1.2)
    found = one.outcome([base], base)
    assert found is not None
    assert np.argmin(found.params["scale"]) == 0
    assert 4 * min(found.params["scale"]) < sorted(found.params["scale"])[1]
    Y = np.sin(X.sum(axis=1, keepdims=True))
    common = start(1.15)
    assert metrics(X, weight, Y).outcome([common], common) is None


def test_the_error_of_learned_scales_is_of_labels_they_have_not_seen():
    """By hand: the error of refits without a fold, relative to that of the kernel without learned scales."""
    X, weight, target = some(120, 6)
    one = metrics(X, weight, target)
    base = start(1.2)
    found = one.outcome([base], base)

    def loss(settings):
        errors, weights = [], []
        for group, rest in folds(len(X), None, 3):
            scale, C = settings(rest)
            term = rkhs.Term(
                rkhs.Evaluation(X[rest]), rkhs.Squared(), target[rest, 0], C * one.scorer.targets.weight[rest]
            )
            f = rkhs.Problem(rkhs.Gaussian(scale), [term], rkhs.Constant()).solve(tol=1e-12).function
            errors.append((f(X[group]) - target[group, 0]) ** 2)
            weights.append(one.scorer.targets.weight[group])
        return np.average(np.concatenate(errors), weights=np.concatenate(weights))

    def learned(rest):
        _, scale = one.learned(base, rest)
        return scale, one._best("gaussian", scale, rest).params["C"]

    ratio = loss(learned) / loss(lambda rest: (base.params["scale"], base.params["C"]))
    assert found.loss == pytest.approx(base.loss * ratio, rel=1e-6)


@pytest.mark.slow
def test_a_regressor_finds_the_features_that_matter():
    X, y = make_friedman1(150, noise=0.5, random_state=0)
    fitted, plain = rkhs.InvariantRegressorCV().fit(X, y), rkhs.InvariantRegressorCV(scales="median").fit(X, y)
    more, truth = make_friedman1(500, random_state=1)
    assert max(fitted.scale_[:4]) < min(fitted.scale_[5:])
    assert np.ndim(plain.scale_) == 0
    assert fitted.score(more, truth) > plain.score(more, truth) + 0.02
    assert fitted.best_params_["kernel"] in ("gaussian", "laplace", "matern")


def test_steps_along_axes_are_for_the_laplace_kernel():
    X = np.random.default_rng(0).uniform(-1, 1, (200, 3))
    y = ((X[:, 0] > 0.1) ^ (X[:, 1] > -0.2)).astype(int)
    model = rkhs.InvariantClassifierCV().fit(X[:150], y[:150])
    assert model.best_params_["kernel"] == "laplace"
    one = rkhs.InvariantClassifierCV("gaussian").fit(X[:150], y[:150])
    assert one.best_params_["kernel"] == "gaussian"
    assert model.score(X[150:], y[150:]) >= one.score(X[150:], y[150:])


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
def test_importances_are_shares_of_squared_slopes(kernel):
    X = np.random.default_rng(0).uniform(-1, 1, (100, 3)) * [1.0, 10.0, 1e-3]
    y = X[:, 0] + 0.2 * X[:, 1]  # whose deviations are in the proportion 1 : 2 : 0
    found = rkhs.InvariantRegressorCV(kernel, scales="median").fit(X, y).feature_importances_
    np.testing.assert_allclose(found, [0.2, 0.8, 0.0], atol=0.05)
    assert found.sum() == pytest.approx(1.0)
    np.testing.assert_array_equal(
        rkhs.InvariantRegressorCV(kernel).fit(X, np.full(100, 2.0)).feature_importances_, np.zeros(3)
    )


def test_importances_need_a_fit_and_features():
    assert not hasattr(rkhs.InvariantClassifierCV(), "feature_importances_")
    X = np.random.default_rng(0).standard_normal((40, 2))
    model = rkhs.InvariantRegressorCV("precomputed").fit(X @ X.T, X[:, 0])
    with pytest.raises(AttributeError, match="precomputed"):
        _ = model.feature_importances_


@pytest.mark.parametrize("criterion", ["evidence", "loo"])
def test_the_scale_of_a_plain_model_is_learned(criterion):
    X, _, target = some(80, 4)
    fitted = rkhs.InvariantRegressor(scale=criterion, invariance=None).fit(X, target[:, 0])
    scale = fitted.function_.kernel.scale
    assert len(scale) == 4
    assert 3 * scale[0] < min(scale[1:])


def test_a_linear_trend_is_found_and_extrapolates():
    """A steep linear function of some features plus a small nonlinear one of another."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 5)) * [1.0, 100.0, 1.0, 1.0, 1.0] + [0.0, 1e6, 0.0, 0.0, 0.0]
    y = 3 * X[:, 0] + 0.05 * (X[:, 1] - 1e6) + np.sin(3 * X[:, 2]) + 0.1 * rng.standard_normal(120)
    model = rkhs.InvariantRegressorCV().fit(X, y)
    assert model.selection_report_["chosen"]["prior"] in ("trend", "scales")
    [trend] = [c for c in model.selection_report_["candidates"] if c["prior"] == "trend"]
    [plain] = [c for c in model.selection_report_["candidates"] if c["prior"] == "none"]
    assert trend["loss"] < 0.7 * plain["loss"]
    fitted = rkhs.InvariantRegressor(trend["kernel"], C=trend["C"], invariance=None).fit(X, y)
    np.testing.assert_allclose(
        fitted.predict(X[:1] + np.array([10.0, 0, 0, 0, 0])) - fitted.predict(X[:1]), 30.0, rtol=0.1
    )
    assert "trend" not in [
        c["prior"] for c in rkhs.InvariantRegressorCV("gaussian").fit(X, y).selection_report_["candidates"]
    ]


def test_one_kernel_with_the_largest_evidence_is_scored():
    X, weight, target = some(120, 6)
    one = metrics(X, weight, target)
    starts = [start(s) for s in (1.2, 1.3)]
    evidence = [one.learned(start, np.arange(120))[0] for start in starts]
    best = starts[int(np.argmax(evidence))]
    assert one.outcome(starts, best).loss == one.outcome([best], best).loss


@pytest.mark.slow
@pytest.mark.parametrize("loss", [rkhs.Quantile(0.3), rkhs.losses.Absolute(), rkhs.Huber(0.2), rkhs.Squared()], ids=str)
def test_C_of_a_loss_is_that_of_the_scale_of_its_noise(loss):
    """For noise of density exp(-loss / b), drawn by the inverse of its distribution, and a process f that is zero."""
    grid = np.linspace(-40, 40, 400_001)
    density = np.exp(-loss.value(grid, np.zeros_like(grid)) / 0.5)
    order = (np.arange(1000)[:, None] + 0.5) / 1000
    noise = np.interp(order, np.cumsum(density) / density.sum(), grid)
    labeled = ScoringTargets.of(np.arange(1000), -noise, np.ones(1000), np.arange(1000))
    expected = 1e-6 * 2 * np.var(noise) / 0.5
    assert C_for_loss(loss, 1e-6, np.eye(1000), labeled) == pytest.approx(expected, rel=0.02)
    limit = 2.1e4  # the variance of a process without its mean is 0.999
    assert C_for_loss(loss, 1e20, np.eye(1000), labeled) == C_for_loss(loss, limit, np.eye(1000), labeled)


@pytest.mark.slow
def test_many_labels_leave_the_best_sixth_of_kernels():
    X, y = make_friedman1(1000, 5, noise=1.0, random_state=0)
    many, few = (rkhs.InvariantRegressorCV(scales="median", Cs=3).fit(X[:t], y[:t]) for t in (601, 600))
    assert len(many.cv_results_["params"]) < 0.35 * len(few.cv_results_["params"])
    kernels = {params["kernel"] for params in many.cv_results_["params"] if isinstance(params["kernel"], str)}
    assert kernels == {"gaussian", "laplace", "matern"}
    assert many.score(X[601:], y[601:]) >= few.score(X[601:], y[601:]) - 0.01


@pytest.mark.slow
def test_kernels_of_classes_are_compared_by_errors_and_those_of_values_by_evidence():
    """Letters in six places, of which four decide, as in genes: the evidence of classes prefers the worse kernel."""
    X = np.random.default_rng(3).integers(0, 4, (90, 6)).astype(float)
    target = np.where((X[:, :4] == [0, 3, 0, 1]).sum(axis=1) >= 2, 1.0, -1.0)[:, None]
    kernels = {"gaussian": rkhs.Gaussian, "laplace": rkhs.kernels.Laplace}
    smooth, rough = (start(2.0, 1.0, kernel) for kernel in kernels)

    def learner(classes):
        targets = ScoringTargets.of(np.arange(90), target, np.ones(90), np.arange(90), classes)
        scorer = LeaveOneOutScorer(X, targets, lambda kernel, scale: kernels[kernel](scale), [0.1, 1.0, 10.0])
        return ScaleLearner(scorer, X)

    of_classes, of_values = learner((target[:, 0] > 0).astype(int)), learner(None)
    assert of_classes.outcome([smooth], smooth) is None  # learned scales are no better with this kernel
    found = of_classes.outcome([rough], smooth)
    assert found.loss < smooth.loss
    assert of_classes.outcome([smooth, rough], smooth).loss == found.loss
    evidences = [of_values.learned(start, np.arange(90))[0] for start in (smooth, rough)]
    assert evidences[1] < evidences[0]
    poor = start(0.05, 1.0, "gaussian")
    assert of_values.outcome([smooth, rough], poor).params["kernel"] == "gaussian"


def torque(noise):
    """Whether one product of whole numbers exceeds another one, at 300 different points."""
    rng = np.random.default_rng(0)
    X = rng.permutation(np.stack(np.meshgrid(*[np.arange(1.0, 6.0)] * 4), axis=-1).reshape(-1, 4))
    difference = X[:, 0] * X[:, 1] - X[:, 2] * X[:, 3]
    X, y = X[difference != 0], difference[difference != 0] > 0
    return X, y ^ (rng.random(len(y)) < noise)


def test_a_rule_without_noise_is_learned_by_a_large_margin():
    X, y = torque(0.0)
    model, plain = (rkhs.InvariantClassifierCV(loss=loss).fit(X[:300], y[:300]) for loss in ("auto", "squared"))
    assert (model.loss_, model.best_params_["loss"], plain.loss_) == ("hinge", "hinge", "squared")
    assert model.selection_report_["sentence"].startswith("The hinge loss in folds has")
    assert model.score(X[300:], y[300:]) > plain.score(X[300:], y[300:])
    again = rkhs.InvariantClassifier(**model.best_params_).fit(X[:300], y[:300])
    np.testing.assert_allclose(again.decision_function(X), model.decision_function(X), atol=1e-2)
    assert not [one for one in plain.selection_report_["candidates"] if one["prior"] == "margin"]


def test_noisy_labels_keep_the_squared_loss():
    """It is tried, and listed with its errors."""
    X, y = torque(0.2)
    model = rkhs.InvariantClassifierCV(unlabeled=None).fit(X[:200], y[:200])
    assert model.loss_ == "squared"
    assert [one["chosen"] for one in model.selection_report_["candidates"] if one["prior"] == "margin"] == [False]


def test_errors_of_large_margins_are_of_labels_in_folds():
    X, y = torque(0.0)
    X, target = X[:60], np.where(y[:60], 1.0, -1.0)[:, None]
    targets = ScoringTargets.of(np.arange(60), target, np.ones(60), np.arange(60), y[:60].astype(int))
    kernel, parts = rkhs.Gaussian(3.0), list(folds(60, targets.classes, 5))
    found = left_out(targets, kernel, kernel(X), 10.0, parts)
    for group, rest in parts:
        term = rkhs.Term(rkhs.Evaluation(X[rest]), rkhs.Hinge(), target[rest, 0], 10.0)
        f = rkhs.Problem(kernel, [term], rkhs.Constant()).solve(tol=1e-8).function
        np.testing.assert_allclose(found.values[group, 0], f(X[group]), atol=2e-2)
    wrong = (found.values > 0) != (target > 0)
    assert found.error == pytest.approx(wrong.mean())
    assert targets.standard_error(found.values) == pytest.approx(wrong.std() / 60**0.5)


def test_a_family_of_a_user_takes_part():
    X = np.random.default_rng(0).uniform(0, 10, (80, 4))
    y = np.sin(4 * X[:, 0]) + 0.05 * X[:, 1]

    def periodic(scorer, found):
        assert found
        for length in (1.5, np.pi / 2, 1.7):
            wave = rkhs.kernels.Periodic(period=length) @ np.eye(4)[:1] + 0.1 * rkhs.Gaussian(10.0)
            yield [rkhs.extend.Trial(wave, kind="periodic")]

    model, plain = (rkhs.InvariantRegressorCV(some).fit(X, y) for some in (periodic, "auto"))
    assert "periodic" in [one["prior"] for one in model.selection_report_["weights"]]
    new = np.random.default_rng(1).uniform(0, 10, (200, 4))
    truth = np.sin(4 * new[:, 0]) + 0.05 * new[:, 1]
    assert model.score(new, truth) > max(0.95, plain.score(new, truth))


@pytest.mark.parametrize(("count", "counted"), [(19, 0), (20, 20)])
def test_two_labels_of_each_of_many_classes_are_evidence(count, counted):
    assert evidence(np.repeat(np.arange(count), 2)) == counted


def test_columns_with_heavy_tails_are_clipped_where_that_predicts_better():
    rng = np.random.default_rng(0)
    X = rng.standard_t(1.3, (260, 4)) * [1.0, 100.0, 1.0, 1.0]
    bounded, multiple = np.tanh(X[:, 0]) * np.tanh(X[:, 1] / 100) + 0.05 * rng.standard_normal(260), 168 * X[:, 0]
    model, exact = (rkhs.InvariantRegressorCV().fit(X[:150], y[:150]) for y in (bounded, multiple))
    assert model.selection_report_["chosen"]["prior"] == "clipped"
    assert model.selection_report_["sentence"].startswith("Clipping columns of heavy tails has")
    assert model.score(X[150:], bounded[150:]) > 0.9
    assert exact.selection_report_["chosen"]["prior"] != "clipped"
    step = 1e-5 * np.eye(4)[:1]
    slopes = np.asarray(rkhs.Gradient(X[:20])(model.function_)).reshape(20, 4)[:, 0]
    differences = (model.predict(X[:20] + step) - model.predict(X[:20] - step)) / 2e-5
    np.testing.assert_allclose(slopes, differences, rtol=1e-4, atol=1e-6)


def test_derivatives_of_clipped_features_are_those_of_their_values():
    clip, X, h = (
        rkhs.kernels.Standardized((1.0, -2.0), (0.5, 3.0), limit=3.0),
        np.array([[1.2, 40.0], [-9.0, 0.0]]),
        1e-5,
    )
    for j, step in enumerate(h * np.eye(2)):
        for values, derivative in ((clip.values, clip.jacobian), (clip.jacobian, clip.second)):
            differences = (values(X + step) - values(X - step)) / (2 * h)
            np.testing.assert_allclose(derivative(X)[..., j], differences, atol=1e-8)
    assert np.all(np.abs(clip.values(1e9 * X)) <= 3.0)
