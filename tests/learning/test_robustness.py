"""Inside of the certified radius no attack changes a prediction, and no larger radius follows from the norm."""

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_moons

import rkhs

KERNELS = [
    rkhs.Gaussian(scale=0.7),
    rkhs.Matern(nu=1.5, scale=1.0),
    rkhs.RationalQuadratic(alpha=0.5, scale=0.8),
    rkhs.Laplace(scale=2.0),
    2.0 * rkhs.Gaussian(scale=0.5) + rkhs.Matern(nu=2.5, scale=2.0),
    rkhs.Gaussian(scale=(0.5, 1.5)),
    rkhs.Gaussian(scale=1.0) @ np.array([[1.0, 0.5], [0.0, 2.0]]),
]


def attacks(predict, gradient, X, radius, random):
    """Return whether random steps, and steps along the gradient, of any length within the radius change predictions."""
    before, changed = predict(X), np.zeros(len(X), dtype=bool)
    finite = np.minimum(radius, 10.0)
    for k in range(60):
        step = gradient(X) if k == 0 and gradient is not None else random.standard_normal(X.shape)
        step /= np.maximum(np.linalg.norm(step, axis=1, keepdims=True), 1e-12)
        for sign in (1, -1):
            for share in (1.0, random.uniform(0, 1)):
                changed |= predict(X + sign * share * finite[:, None] * step) != before
    if gradient is not None:  # many small steps towards the other sign
        Z = X.copy()
        for _ in range(30):
            g = gradient(Z) * -before[:, None]
            Z = Z + finite[:, None] / 10 * g / np.maximum(np.linalg.norm(g, axis=1, keepdims=True), 1e-12)
            away = np.linalg.norm(Z - X, axis=1, keepdims=True)
            Z = X + (Z - X) * np.minimum(1.0, finite[:, None] / np.maximum(away, 1e-12))
            changed |= predict(Z) != before
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
    radius = rkhs.certified_radius(f, Z)
    assert np.all(radius > 0)
    smooth = not isinstance(kernel, rkhs.Laplace)
    gradient = (lambda P: rkhs.Gradient(P)(f)) if smooth else None
    assert not np.any(attacks(lambda P: np.sign(f(P)), gradient, Z, radius, random))


def test_the_bound_is_attained():
    """f = k_c - k_b decreases from b' to c' as fast as its norm allows, where f changes sign half way."""
    for scale, distance in ((1.0, 0.3), (0.5, 1.0)):
        f = rkhs.Function(rkhs.Gaussian(scale=scale), rkhs.Evaluation([[0.0], [distance]]), [1.0, -1.0])
        shifted = rkhs.Function(f.kernel, f.functionals, f.coefficients, rkhs.Constant(), [float(f([[0.0]])[0])])
        # at 0 the value is 2 f(0) and |f(0) - f(distance)| = |f|^2 = |f| |k_0 - k_distance|
        assert float(shifted([[distance]])[0]) == pytest.approx(0.0, abs=1e-12)
        assert rkhs.certified_radius(shifted, [[0.0]])[0] == pytest.approx(distance, rel=1e-9)


def test_classes_between_two_outputs():
    X, y = load_iris(return_X_y=True)
    model = rkhs.InvariantClassifier(scale=1.0, C=10.0, invariance=None).fit(X, y)
    radius = rkhs.certified_radius(model.function_, X)
    assert not np.any(attacks(model.predict, None, X, radius, np.random.default_rng(0)))
    assert np.median(radius) > 0.05


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
    f = rkhs.Function(rkhs.Gaussian(scale=1.0), rkhs.Evaluation([[0.0]]), [0.5], rkhs.Constant(), [2.0])
    assert rkhs.certified_radius(f, [[0.0], [3.0]]).tolist() == [np.inf, np.inf]
    zero = rkhs.Function(rkhs.Gaussian(scale=1.0), rkhs.Evaluation([[0.0]]), [0.0])
    assert rkhs.certified_radius(zero, [[0.0]]).tolist() == [0.0]


def test_what_is_refused():
    E = rkhs.Evaluation([[0.0]])
    with pytest.raises(ValueError, match="decreases with the distance"):
        rkhs.certified_radius(rkhs.Function(rkhs.kernels.Linear(), E, [1.0]), [[0.0]])
    with pytest.raises(ValueError, match="basis that is constant"):
        rkhs.certified_radius(rkhs.Function(rkhs.Gaussian(), E, [1.0], rkhs.Polynomials(1), [1.0, 1.0]), [[0.0]])
    with pytest.raises(TypeError, match=r"model\.function_"):
        rkhs.certified_radius(rkhs.InvariantClassifier(), [[0.0]])
