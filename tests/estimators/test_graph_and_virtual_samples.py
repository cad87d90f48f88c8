"""The Laplacian SVM and the SVM of virtual samples, as instances of the same problem."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_moons

import rkhs


def laplacian_svm(n_neighbors=10, power=2, **options):
    graph = rkhs.invariances.Graph(n_neighbors, power)
    return rkhs.InvariantClassifier(
        **{"loss": "hinge", "invariance": graph, "C": 100.0, "nu": 1000.0, "tol": 1e-3, **options}
    )


def test_labels_spread_along_the_moons():
    X, y = make_moons(300, noise=0.05, random_state=0)
    few = np.full(300, -1)
    few[[np.argmax(y == 0), np.argmax(y == 1)]] = [0, 1]
    assert laplacian_svm(scale=0.2, nu=1e6).fit(X, few).score(X, y) >= 0.98
    assert laplacian_svm(scale=0.2, nu=0.0).fit(X, few).score(X, y) <= 0.9


@pytest.mark.parametrize("power", [1, 2])
def test_it_is_the_problem_of_its_graph(power):
    """With nu f'L^p f / tr(L^p), written by hand."""
    X, y = make_moons(60, noise=0.1, random_state=0)
    few = np.where(np.arange(60) < 8, y, -1)
    own = laplacian_svm(4, power=power, C=3.0, nu=50.0, scale=0.5, tol=1e-8).fit(X, few)
    labels = rkhs.Term(rkhs.Evaluation(X[:8]), rkhs.Hinge(), target=2.0 * y[:8] - 1, weight=3.0)
    alike = rkhs.Term(rkhs.invariances.Graph(4, power)(X), rkhs.Squared(), weight=50.0)
    by_hand = rkhs.Problem(rkhs.Gaussian(0.5), [labels, alike], rkhs.Constant()).solve(tol=1e-8).function
    np.testing.assert_allclose(own.decision_function(X), by_hand(X), atol=1e-5)


@pytest.mark.slow
def test_images_hang_together():
    """Errors fall with the weight of the graph, by a third for images; the default harms little elsewhere."""
    X, y = load_digits(return_X_y=True)
    X, y, few = X[:500], y[:500], np.full(500, -1)
    few[:50] = y[:50]
    models = [laplacian_svm(nu=0.0), laplacian_svm(), laplacian_svm(nu=1e4)]
    without, default, heavy = [1 - model.fit(X, few).score(X[50:], y[50:]) for model in models]
    assert heavy < 0.7 * without
    assert heavy < default < without


def test_copies_teach_the_invariance():
    X, y = make_moons(40, noise=0.1, random_state=0)
    model = rkhs.VirtualSampleSVC([np.negative], scale=0.5, C=10.0).fit(X, y)
    assert model.score(-X, y) == model.score(X, y)
    np.testing.assert_allclose(model.decision_function(-X), model.decision_function(X), atol=0.05)


def test_without_copies_it_is_the_plain_machine():
    X, y = make_moons(40, noise=0.1, random_state=0)
    virtual = rkhs.VirtualSampleSVC(C=3.0, tol=1e-8).fit(X, y)
    plain = rkhs.InvariantClassifier(C=3.0, tol=1e-8, invariance=None).fit(X, y)
    np.testing.assert_allclose(virtual.decision_function(X), plain.decision_function(X), atol=1e-5)


def test_copies_are_held_out_with_their_points():
    """Each point is given with four copies and labels are pure noise: held-out values must not know them."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 2)), rng.integers(0, 2, 40)
    model = rkhs.VirtualSampleSVC([lambda X: X + 1e-3] * 4, scale=0.1, C=100.0, loss="squared").fit(X, y)
    assert np.abs(model.predict_proba(X) - 0.5).max() < 0.35


def test_a_copy_has_the_shape_of_the_points():
    with pytest.raises(ValueError, match="transforms must keep the shape of X"):
        rkhs.VirtualSampleSVC([lambda X: X[:, :1]]).fit(np.eye(2), [0, 1])
