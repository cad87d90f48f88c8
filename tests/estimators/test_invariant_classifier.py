"""InvSVM: the papers' figure, agreement with SVC and with the problem written by hand, labels, knowledge, weights."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_blobs, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import log_loss
from sklearn.svm import SVC

import rkhs
from estimators.test_equal_problems import edges
from refusals import refused


def moons_with_two_labels(seed, points=200):
    X, y = make_moons(points, noise=0.08, random_state=seed)
    few = np.full(points, -1)
    rng = np.random.default_rng(seed)
    for c in (0, 1):
        few[rng.choice(np.flatnonzero(y == c))] = c
    return X, y, few


@pytest.fixture(scope="module")
def blobs():
    X, y = make_blobs(40, centers=3, cluster_std=2.0, random_state=0)
    return X, y


@pytest.mark.parametrize(("nu", "least", "most"), [(3200.0, 0.98, 1.0), (0.0, 0.0, 0.80)])
def test_two_moons(nu, least, most):
    scores = []
    for seed in range(10):
        X, y, few = moons_with_two_labels(seed)
        model = rkhs.InvariantClassifier(scale=0.25, loss="logistic", C=1.0, nu=nu, fit_intercept=False)
        scores.append(model.fit(X, few).score(X, y))
    assert least <= np.mean(scores) <= most


def test_without_invariances_it_is_svc():
    X, y = make_moons(80, noise=0.3, random_state=0)
    ours = rkhs.InvariantClassifier(nu=0.0, C=3.0, scale=0.5, tol=1e-8).fit(X, y)
    theirs = SVC(C=3.0, gamma=1 / (2 * 0.5**2), tol=1e-8).fit(X, y)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)


@pytest.mark.filterwarnings("ignore:y is -1, 0, 1, and")
@pytest.mark.parametrize("classes", [2, 3])
def test_it_is_the_problem_written_by_hand(blobs, classes):
    X, y = blobs[0], blobs[1] % classes
    known = np.arange(len(y)) < 25
    target = np.where(y[known] == 1, 1.0, -1.0)
    if classes == 3:
        target = np.where(y[known][:, None] == np.arange(3), 1.0, -1.0)
    labels = rkhs.Term(rkhs.Evaluation(X[known]), rkhs.SquaredHinge(), target=target, weight=2.0)
    kernel = rkhs.Gaussian(scale=rkhs.kernels.median_scale(X))
    flat = rkhs.Term(kernel.scale * rkhs.Gradient(X), rkhs.Huber(0.2), weight=3.0 / len(X))
    by_hand = rkhs.Problem(kernel, [labels, flat], rkhs.Constant()).solve(tol=1e-10).function
    model = rkhs.InvariantClassifier(
        scale="median",
        loss="squared_hinge",
        C=2.0,
        nu=3.0,
        invariance=rkhs.Invariance("gradient", loss=rkhs.Huber(0.2)),
        tol=1e-10,
    ).fit(X, np.where(known, y, -1))
    np.testing.assert_allclose(model.decision_function(X), by_hand(X), atol=1e-6)
    expected = by_hand(X).argmax(axis=1) if classes == 3 else (by_hand(X) > 0).astype(int)
    np.testing.assert_array_equal(model.predict(X), expected)
    np.testing.assert_array_equal(model.labeled_, known)


def test_digits_with_a_hundred_labels_are_no_worse_than_with_svc():
    X, y = load_digits(return_X_y=True)
    X, y = X[:400] / 16, y[:400]
    few = np.where(np.arange(400) < 100, y, -1)
    scale = rkhs.kernels.median_scale(X)
    ours = rkhs.InvariantClassifier(loss="squared_hinge", C=10.0, nu=0.01, tol=1e-2).fit(X, few)
    theirs = SVC(C=10.0, gamma=1 / (2 * scale**2)).fit(X[:100], y[:100])
    assert ours.score(X[100:], y[100:]) >= theirs.score(X[100:], y[100:])


def test_minus_one_is_no_label(blobs):
    X, y = blobs
    half = np.where(np.arange(len(y)) % 2, y, -1)
    model = rkhs.InvariantClassifier(scale="median", nu=0.0).fit(X, half)
    alone = rkhs.InvariantClassifier(nu=0.0, scale=rkhs.kernels.median_scale(X)).fit(X[1::2], y[1::2])
    np.testing.assert_allclose(model.decision_function(X), alone.decision_function(X), atol=1e-3)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])


class TestInvariances:
    def fitted(self, invariance, **options):
        X, _, few = moons_with_two_labels(0, points=40)
        model = rkhs.InvariantClassifier(scale=0.5, loss="squared", invariance=invariance, nu=0.5, **options)
        return model.fit(X, few).decision_function(X)

    def test_names_callables_and_lists_say_the_same(self):
        named = self.fitted("gradient")
        for same in (rkhs.Gradient, rkhs.Invariance(rkhs.Gradient), ["gradient"], rkhs.Invariance("gradient")):
            np.testing.assert_allclose(self.fitted(same), named, atol=1e-9)

    def test_two_halves_are_one_whole(self):
        halves = [rkhs.Invariance("gradient", weight=0.5), rkhs.Invariance(lambda X: rkhs.Gradient(X), weight=0.5)]
        np.testing.assert_allclose(self.fitted(halves), self.fitted("gradient"), atol=1e-7)

    def test_labeled_and_unlabeled_points_are_all_points(self):
        """Means over 2 and 38 points, and over 40."""
        shares = {"labeled": 2 / 40, "unlabeled": 38 / 40}
        parts = [rkhs.Invariance("gradient", on=on, weight=share) for on, share in shares.items()]
        np.testing.assert_allclose(self.fitted(parts), self.fitted("gradient"), atol=1e-7)
        assert np.abs(self.fitted(parts[:1]) - self.fitted("gradient")).max() > 1e-3

    def test_own_loss_and_target(self):
        own = rkhs.Invariance("gradient", loss=rkhs.Huber(0.1), target=0.2)
        named = rkhs.Invariance("gradient", loss="huber", target=0.2)
        np.testing.assert_allclose(self.fitted(own), self.fitted(named), atol=1e-7)
        squared = rkhs.Invariance("gradient", target=0.2)
        assert np.abs(self.fitted(squared) - self.fitted(named)).max() > 1e-3

    @pytest.mark.parametrize("name", ["local_average", "graph"])
    def test_other_names(self, name):
        X, _, few = moons_with_two_labels(0, points=40)
        strong = rkhs.InvariantClassifier(scale=0.5, C=1.0, invariance=name, nu=1e4).fit(X, few)
        weak = rkhs.InvariantClassifier(scale=0.5, C=1.0, invariance=name, nu=1e-4).fit(X, few)
        knowledge = rkhs.Invariance(name)(X)
        size = {model: np.linalg.norm(knowledge(model.function_)) for model in (strong, weak)}
        assert size[strong] < 0.1 * size[weak]

    def test_own_graph_by_rows(self):
        X, _, few = moons_with_two_labels(0, points=40)
        edges = np.array([[0, 39], [1, 38]])
        model = rkhs.InvariantClassifier(
            scale=0.5, invariance=lambda points: rkhs.functionals.GraphDifference(points, edges), nu=1e6
        ).fit(X, few)
        f = model.decision_function(X)
        np.testing.assert_allclose(f[edges[:, 0]], f[edges[:, 1]], atol=1e-3)


@pytest.mark.parametrize("invariance", ["gradient", edges])
def test_a_weight_is_a_repeat_also_without_a_label(invariance):
    X, _, few = moons_with_two_labels(0, points=30)
    times = np.random.default_rng(0).integers(0, 3, size=30)
    times[few >= 0] = [1, 2]
    model = rkhs.InvariantClassifier(loss="squared", scale=0.5, invariance=invariance, nu=1.0)
    weighted = model.fit(X, few, sample_weight=times).decision_function(X)
    repeated = model.fit(X.repeat(times, axis=0), few.repeat(times)).decision_function(X)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-9)
    assert np.abs(weighted - model.fit(X, few).decision_function(X)).max() > 1e-3


def test_they_are_calibrated():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(300, 1))
    truth = 1 / (1 + np.exp(-2 * X[:, 0]))
    y = (rng.random(300) < truth).astype(int)
    model = rkhs.InvariantClassifier(loss="squared_hinge", C=0.1, nu=0.0, scale=2.0).fit(X, y)
    p = model.predict_proba(X)[:, 1]
    assert np.abs(p - truth).mean() < 0.1
    assert log_loss(y, p) < log_loss(y, np.full(300, y.mean())) - 0.05


def test_not_converged_is_a_warning():
    X, y = make_moons(60, noise=0.2, random_state=0)
    model = rkhs.InvariantClassifier(
        loss="logistic", C=1000.0, solver=rkhs.solvers.NonlinearCG(max_iterations=1), tol=1e-10
    )
    with pytest.warns(ConvergenceWarning, match="larger tol"):
        model.fit(X, y)
    x = np.linspace(0, 3, 40)[:, None]
    shaped = rkhs.InvariantRegressor(scale=1.0, shape={0: "increasing"}, C=1e10)
    with pytest.warns(ConvergenceWarning, match=r"rounding.* or a smaller C.* The proof of its shape holds"):
        shaped.fit(x, np.tanh(x[:, 0] - 1.5) + 0.1 * np.random.default_rng(0).standard_normal(40))


def test_an_invariance_about_no_point_is_not_asked():
    """Nothing is unlabeled here, and neighbors of a single point would be an error."""

    def never(X):
        raise AssertionError("asked")

    X = np.random.default_rng(0).standard_normal((20, 2))
    model = rkhs.InvariantClassifier(invariance=rkhs.Invariance(never, on="unlabeled"), unlabeled=None)
    assert len(model.fit(X, X[:, 0] > 0).problem_.terms) == 1


def fit(y=(0, 1) * 5, weight=None, **options):
    rkhs.InvariantClassifier(**options).fit(make_moons(10, random_state=0)[0], y, weight)


EITHER = (TypeError, ValueError)
test_what_is_refused = refused(
    *(
        (lambda options=options: fit(**options), *told)
        for options, *told in [
            ({"C": 0.0}, "C must be"),
            ({"nu": -1.0}, "nu must be"),
            ({"loss": "huber"}, "loss must be"),
            ({"invariance": rkhs.Invariance("gradient", loss="hinge")}, "loss of an Invariance must be"),
            ({"invariance": "slope"}, "one of", EITHER),
            ({"invariance": 3}, "one of", EITHER),
            ({"invariance": lambda X: X}, "must return functionals", EITHER),
            ({"kernel": "rbf"}, "kernel must be"),
            ({"scale": "mean"}, "scale must be"),
            ({"class_weight": "equal"}, "class_weight must be"),
            ({"class_weight": {"c": 2.0}}, "no labeled point has"),
            ({"weight": -np.ones(10)}, "Negative values"),
            ({"y": [-1] * 10}, "every y is -1, unlabeled"),
            ({"y": [-1, "no"] * 5}, "class"),
        ]
    )
)
