"""Regression: agreement with Gaussian processes and SVR, quantiles, knowledge, points without a target."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.svm import SVR

import rkhs


@pytest.fixture(scope="module")
def sine():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, size=(40, 1))
    return X, np.sin(X[:, 0]) + 0.1 * rng.standard_normal(40)


def test_it_is_a_gaussian_process_when_all_is_squared(sine):
    X, y = sine
    Z = np.linspace(-1, 8, 20)[:, None]
    ours = rkhs.InvariantRegressor(C=5.0, scale=1.0, nu=0.0, fit_intercept=False).fit(X, y)
    square = ours.solution_.posterior.amplitude**2
    assert square == pytest.approx(2 * ours.solution_.primal / 40)
    kernel = ConstantKernel(square) * RBF(1.0) + WhiteKernel(square / (2 * 5.0))
    theirs = GaussianProcessRegressor(kernel, alpha=0.0, optimizer=None).fit(X, y)
    mean, spread = ours.predict(Z, return_std=True)
    expected, deviation = theirs.predict(Z, return_std=True)
    np.testing.assert_allclose(mean, expected, atol=1e-6)
    np.testing.assert_allclose(spread, deviation, rtol=1e-5)
    np.testing.assert_allclose(ours.predict(Z, return_cov=True)[1], theirs.predict(Z, return_cov=True)[1], atol=1e-6)
    with pytest.raises(ValueError, match="mutually exclusive"):
        ours.predict(Z, return_std=True, return_cov=True)


def test_knowledge_narrows_the_spread(sine):
    """In units of its amplitude; that is larger where the knowledge is wrong."""
    X, y = sine
    L = rkhs.Evaluation(np.linspace(0, 6, 20)[:, None])
    models = [rkhs.InvariantRegressor(scale=1.0, C=1.0, invariance="gradient", nu=nu).fit(X, y) for nu in (0.0, 10.0)]
    free, told = (model.solution_.posterior for model in models)
    assert np.all(told.std(L) / told.amplitude < free.std(L) / free.amplitude)
    assert told.amplitude > free.amplitude


def test_a_parameter_that_changes_after_the_fit_changes_nothing(sine):
    model = rkhs.InvariantRegressor(C=10.0, scale=1.0).fit(*sine)
    before = model.predict(sine[0], return_std=True)
    after = model.set_params(C=1e-3).predict(sine[0], return_std=True)
    np.testing.assert_array_equal(after, before)


def test_without_invariances_it_is_svr(sine):
    X, y = sine
    ours = rkhs.InvariantRegressor(loss=rkhs.losses.EpsilonInsensitive(0.2), C=3.0, nu=0.0, scale=1.0, tol=1e-8).fit(
        X, y
    )
    theirs = SVR(C=3.0, epsilon=0.2, gamma=0.5, tol=1e-8).fit(X, y)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), atol=1e-4)


def test_points_without_a_target_take_part_in_the_invariances(sine):
    X, y = sine
    more = np.linspace(0, 6, 15)[:, None]
    both = np.concatenate([X, more])
    known = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=y)
    flat = rkhs.Term(rkhs.Gradient(both), rkhs.Squared(), weight=0.5)  # 55 points
    by_hand = rkhs.Problem(rkhs.Gaussian(scale=1.0), [known, flat], rkhs.Constant()).solve().function
    for marker in (np.nan, -99.0):
        partly = np.concatenate([y, np.full(15, marker)])
        model = rkhs.InvariantRegressor(scale=1.0, C=1.0, nu=0.5 * 55, unlabeled=marker).fit(both, partly)
        np.testing.assert_allclose(model.predict(both), by_hand(both), atol=1e-6)
        assert model.labeled_.sum() == 40
    with pytest.raises(ValueError, match="NaN"):
        rkhs.InvariantRegressor().fit(both, np.concatenate([y, np.full(15, np.nan)]))
    with pytest.raises(ValueError, match=r"InvariantRegressor must contain numbers: .*'2,5'.* decimal points"):
        rkhs.InvariantRegressor().fit([[0.0], [1.0]], ["1.5", "2,5"])
    with pytest.raises(ValueError, match="every y is unlabeled"):
        rkhs.InvariantRegressor(unlabeled=np.nan).fit(X, np.full(40, np.nan))


class TestThinPlate:
    @pytest.mark.parametrize("dimension", [1, 2, 3, 6])
    def test_linear_functions_cost_nothing(self, dimension):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((30, dimension))
        y = X @ np.arange(1, dimension + 1) + 2.0
        model = rkhs.geometry.ThinPlateRegressor(C=1.0).fit(X, y)
        far = 100 * X
        np.testing.assert_allclose(model.predict(far), far @ np.arange(1, dimension + 1) + 2.0, rtol=1e-5)

    def test_separable_classes_drop_the_null_space(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((40, 2))
        straight, crossed = (X[:, 0] > 0).astype(int), (X[:, 0] * X[:, 1] > 0).astype(int)
        assert rkhs.geometry.ThinPlateClassifier().fit(X, straight).problem_.null_space == "dropped"
        assert rkhs.geometry.ThinPlateClassifier().fit(X, crossed).problem_.null_space == "kept"
        assert rkhs.geometry.ThinPlateClassifier(null_space="kept").fit(X, straight).problem_.null_space == "kept"
        with pytest.raises(ValueError, match="null_space must be"):
            rkhs.geometry.ThinPlateClassifier(null_space="none").fit(X, straight)

    def test_too_few_points_drop_it_in_regression(self):
        X = np.eye(3)
        model = rkhs.geometry.ThinPlateRegressor().fit(X, [1.0, 2.0, 3.0])
        assert model.problem_.null_space == "dropped"
        np.testing.assert_allclose(model.predict(X), 2.0)  # the constant is kept

    def test_the_power_of_the_kernel(self):
        X = np.random.default_rng(0).standard_normal((30, 5))
        y = np.sin(X[:, 0])
        assert rkhs.geometry.ThinPlateRegressor(power=3).fit(X, y).problem_.kernel == rkhs.kernels.Polyharmonic(3)
        assert rkhs.geometry.ThinPlateRegressor().fit(X, y).problem_.kernel == rkhs.kernels.Polyharmonic(2)
        assert rkhs.geometry.ThinPlateRegressor().fit(X[:, :3], y).problem_.kernel == rkhs.kernels.ThinPlate(2)
        for wrong in (1, 4, "2"):
            with pytest.raises(ValueError, match="power must be None or a number from 2"):
                rkhs.geometry.ThinPlateRegressor(power=wrong).fit(X, y)

    def test_few_landmarks(self):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((400, 2))
        y = np.sin(2 * X[:, 0]) + X[:, 1]
        model = rkhs.geometry.ThinPlateRegressor(C=100.0, approximation=rkhs.Landmarks(60)).fit(X, y)
        assert model.function_.functionals.size == 60
        assert model.score(X, y) > 0.99
        assert np.all(model.predict(X, return_std=True)[1] > 0)
        with pytest.raises(TypeError, match="approximation must be None"):
            rkhs.geometry.ThinPlateRegressor(approximation=9).fit(X, y)
