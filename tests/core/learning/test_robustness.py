"""Inside of the certified radius no attack changes a prediction, and no larger radius follows from the norm."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rkhs
from refusals import refused

KERNELS = [
    rkhs.Gaussian(scale=0.7),
    rkhs.Matern(nu=1.5, scale=1.0),
    rkhs.kernels.RationalQuadratic(alpha=0.5, scale=0.8),
    rkhs.kernels.Laplace(scale=2.0),
    2.0 * rkhs.Gaussian(scale=0.5) + rkhs.Matern(nu=2.5, scale=2.0),
    rkhs.Gaussian(scale=(0.5, 1.5)),
    rkhs.Gaussian(scale=1.0) @ np.array([[1.0, 0.5], [0.0, 2.0]]),
]


def found_at_random(model, X, radius, random):
    """Return whether random steps of any length within the radius change predictions."""
    before, changed = model.predict(X), np.zeros(len(X), dtype=bool)
    for _ in range(20):
        step = random.standard_normal(X.shape)
        step *= np.minimum(radius, 10.0)[:, None] / np.maximum(np.linalg.norm(step, axis=1, keepdims=True), 1e-12)
        for share in (1.0, -1.0, *random.uniform(-1, 1, 2)):
            changed |= model.predict(X + share * step) != before
    return changed


@pytest.mark.parametrize(
    ("kernel", "basis"), [(k, rkhs.Constant() if i % 2 else None) for i, k in enumerate(KERNELS)], ids=repr
)
def test_no_attack_succeeds(kernel, basis):
    X, y = make_moons(60, noise=0.2, random_state=0)
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Logistic(), target=2.0 * y - 1, weight=10.0)
    f = rkhs.Problem(kernel, [term], basis).solve().function
    random = np.random.default_rng(0)
    Z = np.concatenate([X, random.uniform(-2, 3, (60, 2))])
    model = SimpleNamespace(predict=lambda P: np.sign(f(P)), decision_function=f, classes_=(-1, 1))
    assert np.all(check_radius(model, Z, rkhs.certified_radius(f, Z), random) > 0)


def test_the_bound_is_attained():
    """f = k_c - k_b decreases from b' to c' as fast as its norm allows, where f changes sign half way."""
    for scale, distance in ((1.0, 0.3), (0.5, 1.0)):
        f = rkhs.results.Function(rkhs.Gaussian(scale=scale), rkhs.Evaluation([[0.0], [distance]]), [1.0, -1.0])
        shifted = rkhs.results.Function(
            f.kernel, f.functionals, f.coefficients, rkhs.Constant(), [float(f([[0.0]])[0])]
        )
        # at 0 the value is 2 f(0) and |f(0) - f(distance)| = |f|^2 = |f| |k_0 - k_distance|
        assert float(shifted([[distance]])[0]) == pytest.approx(0.0, abs=1e-12)
        assert rkhs.certified_radius(shifted, [[0.0]])[0] == pytest.approx(distance, rel=1e-9)


def test_classes_between_two_outputs():
    X, y = load_iris(return_X_y=True)
    model = rkhs.InvariantClassifier(scale=1.0, C=10.0, invariance=None).fit(X, y)
    radius = rkhs.certified_radius(model, X)
    assert radius == pytest.approx(rkhs.certified_radius(model.function_, X), rel=1e-12)  # `predict` is its argmax
    assert np.median(check_radius(model, X, radius, np.random.default_rng(0))) > 0.05


def ordered(seed, n=12, classes=3, rows=60):
    """Return points and ordered classes, of which one between two others is hard for one against the rest."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((rows, n))
    y = X[:, 0] + 0.3 * X[:, 1] ** 2 + 0.2 * random.standard_normal(rows)
    return X, np.digitize(y, np.quantile(y, np.linspace(0, 1, classes + 1)[1:-1]))


def invariant(seed):
    X, y = ordered(seed, n=2 + seed % 5, classes=2 + seed % 3)
    losses, prior = ["hinge", "logistic", "squared", "squared_hinge"], rkhs.ClassPrior(1.0 + np.arange(2 + seed % 3))
    kernel = ["gaussian", "matern", "laplace", "rational_quadratic"][seed % 4]
    weight = [None, "balanced", prior][seed // 2 % 3]
    return rkhs.InvariantClassifier(
        kernel, loss=losses[seed // 3 % 4], C=10.0 ** (seed % 4), invariance=None, class_weight=weight
    ).fit(X, y), X


def chosen(seed):
    X, y = ordered(seed, n=4 + seed % 9, rows=100)
    y[::7] = -1
    return rkhs.InvariantClassifierCV(kernel="gaussian", scales=[3.0], Cs=[1.0, 100.0], nus=[0]).fit(X, y), X


def ordinal(seed):
    X, y = ordered(seed, n=2 + seed % 8, classes=2 + seed % 4)
    loss = ["logistic", "hinge", "squared_hinge"][seed % 3]
    return rkhs.counts.OrdinalClassifier(["gaussian", "matern"][seed % 2], loss=loss, C=10.0 ** (seed % 4 - 1)).fit(
        X, y
    ), X


def virtual(seed):
    X, y = ordered(seed, n=3, classes=2 + seed % 2, rows=40)
    return rkhs.VirtualSampleSVC([np.negative], C=10.0 ** (seed % 3)).fit(X, y), X


def found_by_gradients(model, X, radius, steps=12):
    """Return whether a search along differences of decision values finds other predictions within the radius.

    For each point and each other class the difference of the two scores is decreased by normalized gradient steps, each
    followed by a projection to the ball.  The search uses nothing but the public methods of the model.
    """
    before, changed = model.predict(X), np.zeros(len(X), dtype=bool)
    n, radius, classes = X.shape[1], np.minimum(radius, 10.0)[:, None] * (1 - 1e-9), len(model.classes_)

    def scores(Z):
        found = model.decision_function(Z)
        return np.stack([-found, found], axis=1) if classes == 2 else found

    best = np.argmax(scores(X), axis=1)
    for other in range(classes):
        Z, h = X.copy(), 1e-4 * np.maximum(radius, 1e-3)
        for step in range(steps):
            shifted = np.concatenate([Z + sign * h * np.eye(n)[j] for j in range(n) for sign in (1, -1)])
            S = scores(shifted).reshape(n, 2, len(X), -1)
            rows = np.arange(len(X))
            margin = S[:, :, rows, best] - S[..., other]
            gradient = ((margin[:, 0] - margin[:, 1]) / (2 * h[:, 0])).T
            length = np.maximum(np.linalg.norm(gradient, axis=1, keepdims=True), 1e-300)
            Z = Z - radius * (1.0 if step < 2 else 0.5) * gradient / length
            away = np.linalg.norm(Z - X, axis=1, keepdims=True)
            Z = X + (Z - X) * np.minimum(1.0, radius / np.maximum(away, 1e-300))
            changed |= model.predict(Z) != before
    return changed


def check_radius(model, X, radius, random):
    """No search finds another prediction within the radius; return the radius."""
    assert not np.any(found_by_gradients(model, X, radius))
    assert not np.any(found_at_random(model, X, radius, random))
    return radius


def attack(family, seed):
    model, X = family(seed)
    random = np.random.default_rng(seed)
    Z = np.concatenate([X[:20], X[:20] + random.standard_normal((20, X.shape[1]))])
    return model, Z, check_radius(model, Z, rkhs.certified_radius(model, Z), random)


@pytest.mark.parametrize("family", [invariant, chosen, ordinal, virtual])
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(s, marks=pytest.mark.slow) for s in range(2, 20))])
def test_no_gradient_search_changes_what_a_model_predicts(family, seed):
    attack(family, seed)


def test_the_search_finds_what_the_scores_of_the_function_do_not_certify():
    """The radius of `function_` alone is no certificate of a model with a discriminant or with thresholds."""
    model, Z, radius = attack(chosen, 0)
    assert model.discriminant_ is not None
    assert np.any(found_by_gradients(model, Z, rkhs.certified_radius(model.function_, Z)))
    model, Z, radius = attack(ordinal, 1)
    assert np.any(found_by_gradients(model, Z, rkhs.certified_radius(model.function_, Z)))
    assert np.median(radius) > 0.02


def test_a_class_that_is_never_most_probable_has_no_points():
    model, _ = ordinal(3)
    model.thresholds_ = np.array([-1.0, -1.0 + 1e-6, 1.0, 1.0 + 1e-9][: len(model.thresholds_)])
    boundaries = model._boundaries()
    f = np.linspace(-3, 3, 1001)
    expected = np.argmax(model._scores(f), axis=1)
    assert np.all(np.diff(boundaries) >= 0)
    assert np.array_equal(np.searchsorted(boundaries, f), expected)


def test_units_and_multiples_do_not_matter():
    X, y = make_moons(40, noise=0.1, random_state=1)
    found = []
    for unit, factor in ((1.0, 1.0), (1000.0, 1.0), (1.0, 5.0)):
        term = rkhs.Term(rkhs.Evaluation(unit * X), rkhs.Squared(), target=2.0 * y - 1, weight=10.0 / factor)
        f = rkhs.Problem(factor * rkhs.Gaussian(scale=unit), [term]).solve(tol=1e-10).function
        found.append(rkhs.certified_radius(f, unit * X) / unit)
    assert found[1] == pytest.approx(found[0], rel=1e-6)
    assert found[2] == pytest.approx(found[0], rel=1e-6)


def test_a_constant_cannot_change():
    f = rkhs.results.Function(rkhs.Gaussian(scale=1.0), rkhs.Evaluation([[0.0]]), [0.5], rkhs.Constant(), [2.0])
    assert rkhs.certified_radius(f, [[0.0], [3.0]]).tolist() == [np.inf, np.inf]
    zero = rkhs.results.Function(rkhs.Gaussian(scale=1.0), rkhs.Evaluation([[0.0]]), [0.0])
    assert rkhs.certified_radius(zero, [[0.0]]).tolist() == [0.0]


HERE, (MOONS, SIDES) = rkhs.Evaluation([[0.0]]), make_moons(20, random_state=0)


def radius(model, X=MOONS):
    return rkhs.certified_radius(model, X)


test_what_is_refused = refused(
    (lambda: radius(rkhs.results.Function(rkhs.kernels.Linear(), HERE, [1.0]), [[0.0]]), "decreases with the distance"),
    (
        lambda: radius(rkhs.results.Function(rkhs.Gaussian(), HERE, [1.0], rkhs.Polynomials(1), [1.0, 1.0]), [[0.0]]),
        "basis that is constant",
    ),
    (lambda: radius(rkhs.geometry.ThinPlateClassifier().fit(MOONS, SIDES)), "basis that is constant"),
    (
        lambda: radius(make_pipeline(rkhs.InvariantClassifier()).fit(MOONS, SIDES)),
        "fitted classifier of rkhs",
        TypeError,
    ),
    (lambda: radius(rkhs.InvariantRegressor()), "fitted classifier of rkhs", TypeError),
    (lambda: radius(rkhs.InvariantClassifier()), "not fitted", NotFittedError),
    (lambda: radius(rkhs.InvariantClassifier().fit(MOONS, SIDES), MOONS[:, :1]), "2 features"),
    (
        lambda: radius(
            rkhs.InvariantClassifier(approximation=rkhs.FourierFeatures(20), invariance=None).fit(MOONS, SIDES)
        ),
        "sum of kernel functions",
        TypeError,
    ),
    (
        lambda: radius(rkhs.VirtualSampleSVC([np.negative], features=StandardScaler()).fit(MOONS, SIDES)),
        "function of StandardScaler",
    ),
)
