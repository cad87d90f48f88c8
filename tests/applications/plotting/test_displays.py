"""Displays: what they compute, and that it is drawn."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, make_moons
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import rkhs
from refusals import refused
from rkhs.invariances import ImageTangents, Tangents
from rkhs.plotting import (
    ActiveRepresenters,
    BoundaryDisplay,
    ChangeDisplay,
    GridDisplay,
    MetricDisplay,
    TangentsDisplay,
)

pytestmark = pytest.mark.usefixtures("figures")


@pytest.fixture(scope="module")
def moons():
    X, truth = make_moons(60, noise=0.08, random_state=0)
    y = np.full(60, -1)
    y[:6] = truth[:6]
    return X, y, rkhs.InvariantClassifier(scale=0.3, loss="squared_hinge", nu=70.0).fit(X, y)


def labels_of(ax):
    return ax.get_legend_handles_labels()[1]


def test_boundary_shows_the_decision_function(moons):
    X, y, estimator = moons
    display = BoundaryDisplay.from_estimator(estimator, X, y, grid_resolution=12)
    middle = np.array([[display.xx0[3, 5], display.xx1[3, 5]]])
    assert_allclose(display.response[3, 5], estimator.decision_function(middle)[0])
    assert display.xx0.min() < X[:, 0].min()
    assert display.xx0.max() > X[:, 0].max()
    assert set(labels_of(display.ax_)) == {"no label", "active value", "active slope", "0", "1"}


def test_boundary_counts_labeled_and_unlabeled_points(moons):
    X, y, estimator = moons
    display = BoundaryDisplay.from_estimator(estimator, X, y, grid_resolution=5)
    assert_array_equal(display.codes >= 0, y >= 0)
    sizes = {c.get_label(): len(c.get_offsets()) for c in display.ax_.collections if c.get_label()[0] != "_"}
    assert sizes["no label"] == 54
    assert sizes["0"] + sizes["1"] == 6
    assert sizes["active slope"] > 6


def test_boundary_on_given_axes_without_extras(moons):
    X, y, estimator = moons
    _, ax = plt.subplots()
    display = BoundaryDisplay.from_estimator(
        estimator, X, y, grid_resolution=5, ax=ax, representers=False, legend=False
    )
    assert display.ax_ is ax
    assert display.figure_ is ax.figure
    assert ax.get_legend() is None
    assert "active value" not in labels_of(ax)


def test_boundary_of_three_classes_and_of_a_pipeline():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((30, 2)), np.repeat([2, 5, 7], 10)
    X[y == 5] += 4
    X[y == 7, 0] += 8
    pipeline = make_pipeline(StandardScaler(), rkhs.InvariantClassifier(loss="squared_hinge")).fit(X, y)
    display = BoundaryDisplay.from_estimator(pipeline, X, y, grid_resolution=10)
    assert display.active is None
    predicted = pipeline.predict(np.column_stack([display.xx0.ravel(), display.xx1.ravel()]))
    assert_array_equal(display.classes[display.response.ravel().astype(int)], predicted)


def test_boundary_with_a_frame_names_the_axes():
    pandas = pytest.importorskip("pandas")
    X, y = make_moons(20, random_state=0)
    frame = pandas.DataFrame(X, columns=["width", "height"])
    display = BoundaryDisplay.from_estimator(rkhs.InvariantClassifier().fit(frame, y), frame, y, grid_resolution=5)
    assert display.ax_.get_xlabel() == "width"


def test_active_representers_are_those_of_the_function():
    X, Z = np.array([[0.0, 0.0], [1.0, 0.0], [5.0, 5.0]]), np.array([[2.0, 2.0], [3.0, 3.0]])
    L = rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(Z), rkhs.functionals.Laplacian(Z)])
    f = rkhs.results.Function(rkhs.Gaussian(), L, [2.0, 0.0, -1.0, 0.5, 0.25, 0.0, 0.0, 7.0, 7.0])
    active = ActiveRepresenters.of(f)
    assert_allclose(active.values, X[[0, 2]])
    assert_allclose(active.coefficients, [2.0, -1.0])
    assert_allclose(active.slopes, Z[:1])
    assert_allclose(active.vectors, [[0.5, 0.25]])


def test_grid_of_a_search():
    X, y = make_moons(60, noise=0.2, random_state=0)
    search = GridSearchCV(SVC(), {"C": [0.1, 1.0, 10.0], "gamma": [0.1, 1.0]}).fit(X, y)
    display = GridDisplay.from_estimator(search, y="gamma")
    assert display.scores.shape == (2, 3)
    assert_allclose(np.nanmax(display.scores), search.best_score_)
    for k in range(6):
        C, gamma = search.cv_results_["param_C"][k], search.cv_results_["param_gamma"][k]
        row, column = list(display.second).index(gamma), list(display.first).index(C)
        assert_allclose(display.scores[row, column], search.cv_results_["mean_test_score"][k])
    frame = display.ax_.patches[0]
    best = np.array([frame.get_x() + 0.5, frame.get_y() + 0.5])
    assert_allclose(display.scores[int(best[1]), int(best[0])], search.best_score_)


def test_grid_takes_the_best_over_further_parameters_and_leaves_gaps():
    results = {
        "param_C": [1, 1, 10],
        "param_nu": [0, 0, 1],
        "param_scale": [1, 2, 1],
        "mean_test_score": [0.5, 0.7, 0.6],
    }
    scores = GridDisplay.from_results(results).scores
    assert_allclose(scores, [[0.7, np.nan], [np.nan, 0.6]])


@pytest.mark.parametrize(
    ("scores", "best", "place"),
    [
        ([0.9, 0.9, 0.8, 0.9], 3, (0.5, 0.5)),
        ([0.9, 0.9, 0.8, 0.9], None, (-0.5, -0.5)),
        ([0.9, 0.7, 0.5, 0.8], 3, (0.5, 0.5)),
    ],
    ids=["chosen by its loss", "the first of the largest", "not the largest"],
)
def test_the_grid_frames_the_cell_that_was_chosen(scores, best, place):
    """A candidate of the same cell with a better score does not hide that of the chosen one."""
    results = {"param_C": [1, 10, 1, 10, 10], "param_nu": [0, 0, 1, 1, 1], "mean_test_score": [*scores, 0.85]}
    display = GridDisplay.from_results(results, best=best)
    (frame,) = [patch for patch in display.ax_.patches if not patch.get_fill()]
    assert frame.get_xy() == place
    assert best is None or display.scores[display.chosen] == scores[best]


def test_tangents_display_shows_the_image_in_the_middle_of_its_orbit():
    image = load_digits().images[5]
    display = TangentsDisplay.from_image(ImageTangents((8, 8)), image)
    assert display.orbit.shape == (7, 5, 8, 8)
    assert_allclose(display.orbit[:, 2], np.repeat(image[None], 7, axis=0), atol=1e-6)
    assert display.axes_.shape == (7, 6)
    assert [t.get_title() for t in display.axes_[0]] == ["tangent", "-2", "-1", "0", "+1", "+2"]


def test_change_of_f_has_the_tangent_as_its_slope():
    digits = load_digits().data[:20] / 16
    f = rkhs.results.Function(rkhs.Gaussian(scale=2.0), rkhs.Evaluation(digits), np.linspace(-1, 1, 20))
    tangents = ImageTangents((8, 8), method="difference", smoothing=0, step=1e-3)
    display = ChangeDisplay.from_estimator(f, tangents, digits[:2], amounts=[-1e-3, 0.0, 1e-3])
    values = display.values["f"]
    quotient, slope = (values[..., 2] - values[..., 0]) / 2e-3, tangents(digits[:2])(f)
    assert_allclose(quotient[:, :6], slope[:, :6], atol=1e-5)
    assert_allclose(quotient[:, 6], slope[:, 6], rtol=1e-2)  # a dilation has kinks: f sees them to first order
    assert [ax.get_title() for ax in display.axes_] == tangents.names


def rotated(X, a):
    return X @ np.array([[np.cos(a), np.sin(a)], [-np.sin(a), np.cos(a)]])


def test_change_of_several_machines(moons):
    X, y, estimator = moons
    other = SVC().fit(X[:6], y[:6])
    display = ChangeDisplay.from_estimator(
        {"ours": estimator, "SVC": other}, Tangents(rotated), X[:3], amounts=[0, 0.1]
    )
    assert_allclose(display.values["SVC"][:, 0, 1], other.decision_function(rotated(X[:3], 0.1)))
    assert labels_of(display.axes_[0]) == ["ours", "SVC"]


def test_change_of_a_machine_with_several_classes_needs_one_of_them():
    X = np.random.default_rng(0).standard_normal((9, 2))
    estimator = rkhs.InvariantClassifier(loss="squared_hinge").fit(X, np.arange(9) % 3)
    with pytest.raises(ValueError, match="pass the index of one"):
        ChangeDisplay.from_estimator(estimator, Tangents(rotated), X)
    display = ChangeDisplay.from_estimator(estimator, Tangents(rotated), X, output=1, amounts=[0.0])
    assert_allclose(display.values["InvariantClassifier"][:, 0, 0], estimator.decision_function(X)[:, 1])


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_the_metric_in_units_of_the_features(unit):
    """f changes along x_0 + x_1: two features count, and together; units do not matter."""
    X = np.random.default_rng(0).standard_normal((200, 3))
    units = np.array([1.0, unit, 1.0])
    model = rkhs.InvariantRegressor(scale="agop", C=1e3, nu=0).fit(X * units, np.sin(2 * X[:, 0] + 2 * X[:, 1]))
    shown = MetricDisplay.from_estimator(model, X * units, names="abc")
    assert_allclose(np.trace(shown.shares), 1)
    assert_allclose(shown.shares[:2, :2], 0.5, atol=0.08)
    assert abs(shown.shares[2]).max() < 0.05
    assert [label.get_text() for label in shown.ax_.get_xticklabels()] == ["a", "b", "c"]
    assert len(shown.ax_.texts) == 9
    assert shown.ax_.images[0].get_clim()[0] == -shown.ax_.images[0].get_clim()[1]


def test_the_metric_of_scales_and_what_has_none():
    X = np.random.default_rng(0).standard_normal((40, 2))
    scaled = rkhs.InvariantRegressor(scale=[1.0, 3.0]).fit(X, X[:, 0])
    shown = MetricDisplay.from_estimator(scaled, X)
    weights = X.var(axis=0) / [1.0, 9.0]
    assert_allclose(shown.shares, np.diag(weights / weights.sum()))
    plain = rkhs.InvariantRegressor(scale="median").fit(X, X[:, 0])
    with pytest.raises(ValueError, match=r"neither a learned metric.*agop"):
        MetricDisplay.from_estimator(plain, X)
    with pytest.raises(ValueError, match="has 2 features, but X has 1"):
        MetricDisplay.from_estimator(scaled, X[:, :1])
    with pytest.raises(ValueError, match="points that differ"):
        MetricDisplay.from_estimator(scaled, np.ones((5, 2)))


ONE = rkhs.results.Function(rkhs.Gaussian(), rkhs.Evaluation([[0.0, 0.0]]), [1.0])
test_what_is_refused = refused(
    (lambda: BoundaryDisplay.from_estimator(None, np.zeros((4, 3))), "3 features"),
    (lambda: GridDisplay.from_results({"param_C": [1], "mean_test_score": [1]}), "no parameter 'nu'; it has C"),
    (lambda: GridDisplay.from_estimator(SVC()), "has no cv_results_"),
    (
        lambda: ChangeDisplay.from_estimator(ONE, Tangents(rotated), np.ones((1, 2)), axes=plt.subplots(1, 2)[1]),
        "1 transformations and 2 axes",
    ),
)
