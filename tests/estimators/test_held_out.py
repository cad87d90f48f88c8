"""Labels that are left out: each way against models that are fitted again without them."""

import numpy as np
import pytest
from sklearn.datasets import make_friedman1

import rkhs
from rkhs._core.limits import with_limits
from rkhs.estimators import _folds as folds
from rkhs.extend import Sample

X, Y = make_friedman1(60, n_features=5, noise=1.0, random_state=0)
Y = Y - Y.mean()
CODES = (Y > 0).astype(int)
SETTINGS = {"scale": 1.0, "C": 5.0, "invariance": None, "tol": 1e-9}
SPAN = rkhs.Landmarks(rkhs.Evaluation(X[:15]))


@pytest.fixture
def tight():
    """Folds that are solved well enough to be compared."""
    with with_limits(fold_gap=1e-8):
        yield


GROUPS = Sample.of(X, None, Y, np.ones(60, dtype=bool)).groups  # each row is one


def held_out(groups=GROUPS):
    """The rows of each fold."""
    return [np.flatnonzero(fold) for fold in folds.left_out_by_folds(10, groups).T]


def without(model, left, target=Y, **weights):
    """f at some rows, learned from the others."""
    kept = np.setdiff1d(np.arange(len(X)), left)
    return model.fit(X[kept], target[kept], **weights)


@pytest.mark.parametrize("approximation", [SPAN, rkhs.FourierFeatures(20)], ids=["landmarks", "features"])
@pytest.mark.parametrize("more", [{}, {"invariance": "gradient", "nu": 0.3}], ids=["labels", "gradient"])
def test_in_a_span_each_label_is_left_out_exactly(approximation, more):
    """Gradients of the point that is left out stay, so that one is compared with a weight near zero."""
    weight = np.linspace(0.5, 2.0, len(X))
    make = {**SETTINGS, **more, "approximation": approximation}
    found = rkhs.InvariantRegressor(**make).fit(X, Y, weight)._held_out.labels
    assert found.predicted.shape == (60,)
    for i in (0, 7, 31):
        at = int(np.flatnonzero(found.target == Y[i])[0])
        if more:
            hidden = np.where(np.arange(60) == i, np.nan, Y)
            other = rkhs.InvariantRegressor(**make, unlabeled=np.nan).fit(X, hidden, weight)
        else:
            kept = np.arange(60) != i
            other = rkhs.InvariantRegressor(**make).fit(X[kept], Y[kept], weight[kept])
        assert found.predicted[at] == pytest.approx(other.predict(X[i : i + 1])[0], rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("loss", ["absolute", "quantile", "epsilon_insensitive"])
@pytest.mark.parametrize("approximation", [None, SPAN], ids=["all", "landmarks"])
def test_losses_with_kinks_are_learned_without_a_tenth_of_the_labels(loss, approximation, tight):
    make = {**SETTINGS, "loss": loss, "approximation": approximation}
    model = rkhs.InvariantRegressor(**make).fit(X, Y)
    found = model._held_out.labels
    np.testing.assert_array_equal(found.target, Y)
    for left in held_out()[:2]:
        other = without(rkhs.InvariantRegressor(**make), left)
        np.testing.assert_allclose(found.predicted[left], other.predict(X[left]), atol=2e-3)
    low, high = model.predict_interval(X[:3], 0.8).T
    residuals = np.sort(np.abs(found.predicted - Y))
    np.testing.assert_allclose((high - low) / 2, residuals[48])  # ceil(61 * 0.8) = 49
    np.testing.assert_allclose((high + low) / 2, model.predict(X[:3]))


@pytest.mark.parametrize("loss", ["hinge", "squared"])
@pytest.mark.parametrize("approximation", [None, SPAN], ids=["all", "landmarks"])
def test_sets_of_any_loss(loss, approximation):
    """Three classes: sets grow with the coverage, and hold the right class as often as they say, give or take."""
    codes = np.digitize(Y, [-2.0, 2.0])
    own = {name: SETTINGS[name] for name in ("scale", "C", "invariance")}
    model = rkhs.InvariantClassifier(**own, loss=loss, approximation=approximation).fit(X, codes)
    few, many = (model.predict_set(X, coverage) for coverage in (0.6, 0.95))
    assert few.shape == (60, 3)
    assert np.all(many | ~few)
    assert many[np.arange(60), codes].mean() >= 0.9


def test_copies_are_left_out_with_their_originals(tight):
    """A copy is the point itself: as if its label had twice the weight."""
    own = {"scale": 1.0, "tol": 1e-9, "loss": "squared_hinge"}
    twice = rkhs.VirtualSampleSVC([lambda points: points], C=1.0, **own).fit(X, CODES)
    once = rkhs.InvariantClassifier(invariance=None, C=2.0, **own).fit(X, CODES)
    found = twice._held_out.labels
    assert found.predicted.shape == (60,)
    assert np.abs(found.predicted - once.decision_function(X)).max() > 0.05  # as they have not seen the labels
    for left in held_out(twice._held_out.groups[:60])[:2]:
        other = without(rkhs.InvariantClassifier(invariance=None, C=2.0, **own), left, CODES)
        np.testing.assert_allclose(found.predicted[left], other.decision_function(X[left]), atol=1e-3)


def test_blocks_and_files(tmp_path):
    """Sums of squares are enough; of other losses rows are needed, which files do not hold."""
    blocks = rkhs.streams.blocks(X, Y, rows=20)
    squared = rkhs.InvariantRegressor(**SETTINGS, approximation=SPAN)
    expected = squared.fit(X, Y).predict_interval(X[:3])
    np.testing.assert_allclose(squared.fit(blocks).predict_interval(X[:3]), expected, rtol=1e-6)
    rkhs.save(squared, tmp_path / "squared.skops")
    np.testing.assert_allclose(rkhs.load(tmp_path / "squared.skops").predict_interval(X[:3]), expected, rtol=1e-6)
    more = rkhs.InvariantRegressor(**SETTINGS, approximation=SPAN)
    for start in range(0, 60, 20):
        more.partial_fit(X[start : start + 20], Y[start : start + 20])
    assert np.ptp(more.predict_interval(X[:3]), axis=1) == pytest.approx(np.ptp(expected, axis=1), rel=0.5)
    absolute = rkhs.InvariantRegressor(**SETTINGS, loss="absolute", approximation=SPAN)
    with pytest.raises(ValueError, match=r"fitted to blocks with loss='absolute'.*squared losses"):
        absolute.fit(blocks).predict_interval(X)
    rkhs.save(absolute.fit(X, Y), tmp_path / "early.skops")
    with pytest.raises(ValueError, match="once before saving"):
        rkhs.load(tmp_path / "early.skops").predict_interval(X)
    expected = absolute.predict_interval(X[:3])
    rkhs.save(absolute, tmp_path / "late.skops")
    np.testing.assert_allclose(rkhs.load(tmp_path / "late.skops").predict_interval(X[:3]), expected)


def test_many_labels_are_left_out_in_folds(tight):
    """As the matrix of all would be too large."""
    make = {**SETTINGS, "nu": 0, "loss": "huber"}  # squared losses leave out a sample of the labels
    model = rkhs.InvariantRegressor(**make).fit(X, Y)
    left = held_out()[0]
    with with_limits(dense_labels=59):
        found = model._held_out.labels.predicted[left]
    np.testing.assert_allclose(found, without(rkhs.InvariantRegressor(**make), left).predict(X[left]), atol=1e-4)


def test_the_settings_of_a_stream_are_those_that_it_has_learned():
    """The scale is not learned again where labels are left out."""
    waves = rkhs.FourierFeatures(30)
    model = rkhs.InvariantRegressor(scale="evidence", C=5.0, invariance=None, loss="absolute", approximation=waves)
    model.fit(X, Y)
    assert model._held_out.config.kernel == model.function_.features.kernel
    assert np.all(np.isfinite(model.predict_interval(X[:2])))


def test_another_fit_forgets_what_was_left_out():
    model = rkhs.InvariantRegressor(**{**SETTINGS, "loss": "absolute"})
    widths = [np.ptp(model.fit(X, unit * Y).predict_interval(X[:1])) for unit in (1.0, 0.01)]
    assert widths[1] < widths[0]


def test_a_label_that_nothing_else_predicts_is_refused():
    far = 1e3 * np.eye(5)
    span = rkhs.Landmarks(rkhs.Evaluation(far))
    own = {**SETTINGS, "C": 1e8, "tol": 1e-3}
    model = rkhs.InvariantRegressor(**own, fit_intercept=False, approximation=span)
    with pytest.raises(ValueError, match="have leverage one"):
        model.fit(far, Y[:5]).predict_interval(far)


@pytest.mark.slow
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_bars_of_a_search_have_the_amplitude_of_left_out_targets(unit):
    """tau^2 is the mean of squared residuals over variances, both without the target, by solving again."""
    search = rkhs.InvariantRegressorCV(kernel="gaussian", scales=1.0, Cs=[5.0], invariance=None, nus=[0.0])
    search.fit(X, unit * Y)
    found = search.predict(X[:2] + 0.1, return_std=True)[1]
    kernel, squares = rkhs.Gaussian(1.0), []
    for i in range(60):
        kept = np.arange(60) != i
        term = rkhs.Term(rkhs.Evaluation(X[kept]), rkhs.Squared(), unit * Y[kept], 5.0)
        posterior = rkhs.Problem(kernel, [term], rkhs.Constant()).solve(tol=1e-12).posterior
        here = rkhs.Evaluation(X[i : i + 1])
        deviation = posterior.std(here, weight=5.0) / posterior.amplitude
        squares.append(((unit * Y[i] - posterior.mean(here)) / deviation) ** 2)
    ratio = np.sqrt(np.mean(squares)) / search.solution_.posterior.amplitude
    expected = search.solution_.posterior.std(rkhs.Evaluation(X[:2] + 0.1), weight=5.0) * ratio
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_settings_that_were_chosen_widen_bars_and_intervals():
    """By l / (l - q) in squares: q is one for each grid, or for each feature whose scale is learned, and C."""
    one = {"kernel": "gaussian", "scales": 1.0, "invariance": None, "nus": [0.0]}
    fixed, chosen = (rkhs.InvariantRegressorCV(Cs=Cs, **one).fit(X, Y) for Cs in ([5.0], [5.0, 5.0000001]))
    ratio = np.sqrt(60 / 59)
    widths = [np.ptp(model.predict_interval(X[:1])) for model in (fixed, chosen)]
    bars = [model.predict(X[:1], return_std=True)[1][0] for model in (fixed, chosen)]
    assert widths[1] / widths[0] == pytest.approx(ratio, rel=1e-5)
    assert bars[1] / bars[0] == pytest.approx(ratio, rel=1e-5)
    waves = np.sin(3 * X[:, 0])
    learned = rkhs.InvariantRegressorCV().fit(X, waves)
    assert len(set(learned.best_params_["scale"])) == 5  # one for each feature
    assert learned._widened(60) == pytest.approx(np.sqrt(60 / 54))
