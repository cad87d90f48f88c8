"""FunctionalRegressor: observations of every kind, noise given or learned, robust losses and bounds."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel

import rkhs
from refusals import refused
from rkhs import Measurement

rng = np.random.default_rng(0)
X = np.sort(rng.uniform(0, 6, (40, 1)), axis=0)
NEW = np.linspace(0.5, 5.5, 9)[:, None]


def test_values_alone_are_the_tuned_problem():
    y = np.sin(X[:, 0]) + 0.1 * rng.standard_normal(40)
    model = rkhs.FunctionalRegressor().fit(Measurement(rkhs.Evaluation(X), y))
    terms = [rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), y, rkhs.Tunable())]
    problem = rkhs.Problem(rkhs.Gaussian(rkhs.Tunable(each=True)), terms, rkhs.Constant()).tune()
    solution = problem.solve()
    np.testing.assert_allclose(model.predict(NEW), solution.function(NEW), atol=0.01)  # the same up to the search
    found, spread = model.predict(NEW, return_std=True)
    np.testing.assert_allclose(spread, solution.posterior.std(rkhs.Evaluation(NEW)), rtol=0.2)
    np.testing.assert_allclose(found, np.sin(NEW[:, 0]), atol=5 * spread.max())
    assert model.noise_[0] == pytest.approx(0.1, rel=0.3)
    assert model.tuning_.status == "converged"
    assert model.n_features_in_ == 1


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_kinds_of_different_noise_and_units(unit):
    """Values, slopes and differences, each with its own noise: all is found again, in any unit."""
    own = np.random.default_rng(1)
    values = Measurement(rkhs.Evaluation(X / unit), np.sin(X[:, 0]) + 0.1 * own.standard_normal(40))
    slopes = Measurement(rkhs.Gradient(X / unit), unit * (np.cos(X) + 0.02 * own.standard_normal((40, 1))))
    model = rkhs.FunctionalRegressor().fit([values, slopes])
    assert model.noise_[0] == pytest.approx(0.1, rel=0.5)
    assert model.noise_[1] == pytest.approx(0.02 * unit, rel=0.5)
    np.testing.assert_allclose(model.predict_gradient(NEW / unit) / unit, np.cos(NEW), atol=0.05)


@pytest.mark.parametrize(
    ("kind", "loss"),
    [
        (rkhs.Gradient, "squared"),
        pytest.param(rkhs.Gradient, "huber", marks=pytest.mark.slow),
        pytest.param(rkhs.functionals.Hessian, "squared", marks=pytest.mark.slow),
    ],
)
def test_each_feature_has_its_unit(kind, loss):
    """One noise of slopes in all features would be that of the feature with the smallest unit."""
    own, units = np.random.default_rng(0), np.array([1e-3, 1e4])
    Z, NEW = own.uniform(-1, 1, (12, 2)), own.uniform(-1, 1, (20, 2))
    truth = rkhs.results.Function(rkhs.Gaussian(1.0), rkhs.Evaluation(Z[:5]), own.standard_normal(5))
    shares = own.standard_normal(kind(Z).shape)

    def fitted(units):
        size = np.ones(2) / units if kind is rkhs.Gradient else 1 / np.multiply.outer(units, units)
        values = Measurement(rkhs.Evaluation(Z * units), truth(Z), noise=0.01)
        slopes = Measurement(kind(Z * units), size * (kind(Z)(truth) + 0.02 * shares), loss=loss)
        return rkhs.FunctionalRegressor().fit([values, slopes]), size

    (model, size), (plain, _) = fitted(units), fitted(np.ones(2))
    np.testing.assert_allclose(model.predict(NEW * units), plain.predict(NEW), atol=2e-3)
    np.testing.assert_allclose(model.noise_[1], size * plain.noise_[1], rtol=0.05)
    assert np.sqrt(np.mean((model.predict(NEW * units) - truth(NEW)) ** 2)) < 0.05


def test_given_noise():
    sizes = np.where(np.arange(40) % 2, 0.01, 0.5)
    y = np.sin(X[:, 0]) + sizes * rng.standard_normal(40)
    told = rkhs.FunctionalRegressor().fit(Measurement(rkhs.Evaluation(X), y, noise=sizes))
    blind = rkhs.FunctionalRegressor().fit(Measurement(rkhs.Evaluation(X), y))
    np.testing.assert_array_equal(told.noise_[0], sizes)
    error = [np.abs(one.predict(NEW) - np.sin(NEW[:, 0])).max() for one in (told, blind)]
    assert error[0] < error[1] / 5


def test_error_bars_are_those_of_a_gaussian_process_in_the_units_of_the_noise():
    y = 5 * np.sin(X[:, 0]) + 0.1 * rng.standard_normal(40)
    model = rkhs.FunctionalRegressor(fit_intercept=False).fit(Measurement(rkhs.Evaluation(X), y, noise=0.1))
    factor, scale = model.problem_.kernel.factor, model.problem_.kernel.kernel.scale
    theirs = GaussianProcessRegressor(ConstantKernel(factor) * RBF(scale), alpha=0.01, optimizer=None).fit(X, y)
    found, spread = model.predict(NEW, return_std=True)
    expected, deviation = theirs.predict(NEW, return_std=True)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    np.testing.assert_allclose(spread, deviation, rtol=1e-4)
    best = theirs.log_marginal_likelihood()
    for kernel in (ConstantKernel(1.3 * factor) * RBF(scale), ConstantKernel(factor) * RBF(np.multiply(scale, 1.2))):
        other = GaussianProcessRegressor(kernel, alpha=0.01, optimizer=None).fit(X, y)
        assert other.log_marginal_likelihood() < best + 1e-3


def test_averages_and_a_differential_equation():
    """f'' = -f at points, which is knowledge, and three averages."""
    inside = np.linspace(0, 6, 30)[:, None]
    second = rkhs.Derivative(inside, axes=[0, 0]) + rkhs.Evaluation(inside)
    cells = rkhs.functionals.Average(np.linspace(0, 6, 300).reshape(3, 100, 1))
    means = np.sin(np.linspace(0, 6, 300)).reshape(3, 100).mean(axis=1)
    model = rkhs.FunctionalRegressor(scale=1.5, fit_intercept=False).fit(
        [Measurement(cells, means, noise=1e-4), Measurement(second, 0.0, noise=1e-3)]
    )
    np.testing.assert_allclose(model.predict(NEW), np.sin(NEW[:, 0]), atol=0.01)
    np.testing.assert_allclose(model.apply(cells), means, atol=1e-3)


@pytest.mark.parametrize("loss", ["huber", "absolute", rkhs.Huber(0.05), rkhs.losses.Absolute()])
def test_outliers(loss):
    y = np.sin(X[:, 0]) + 0.02 * rng.standard_normal(40)
    y[::7] += 3.0
    robust, plain = (
        rkhs.FunctionalRegressor(scale=1.5).fit(Measurement(rkhs.Evaluation(X), y, loss=own))
        for own in (loss, "squared")
    )
    error = [np.abs(one.predict(NEW) - np.sin(NEW[:, 0])).mean() for one in (robust, plain)]
    assert error[0] < error[1] / 2
    with pytest.raises(ValueError, match="all observations to be squared"):
        robust.predict(NEW, return_std=True)


def test_bounds():
    y = np.sin(X[:, 0]) - 0.7
    above = Measurement(rkhs.Evaluation(np.linspace(0, 6, 50)[:, None]), 0.0, noise=1e-4, loss="one_sided")
    model = rkhs.FunctionalRegressor(scale=1.0).fit([Measurement(rkhs.Evaluation(X), y, noise=0.05), above])
    assert model.predict(NEW).min() > -1e-3
    assert model.noise_[1] == 1e-4


@pytest.mark.slow
def test_several_outputs_and_missing_rows():
    Y = np.stack([np.sin(X[:, 0]), np.cos(X[:, 0])], axis=1)
    Y[5] = np.nan
    for loss, noise, scale in (("squared", None, None), ("squared", 0.01, 1.0), ("huber", None, 1.0)):
        model = rkhs.FunctionalRegressor(scale=scale).fit(Measurement(rkhs.Evaluation(X), Y, noise, loss))
        np.testing.assert_allclose(model.predict(NEW), np.concatenate([np.sin(NEW), np.cos(NEW)], axis=1), atol=0.01)


test_bad_input = refused(
    *(
        (make, sentence, error)
        for make, error, sentence in [
            (lambda: Measurement(X), TypeError, "must be a family of functionals"),
            (lambda: Measurement(rkhs.Evaluation(X), np.ones(3)), ValueError, "target has shape"),
            (lambda: Measurement(rkhs.Evaluation(X), 0.0, noise=-1.0), ValueError, "positive standard deviation"),
            (lambda: Measurement(rkhs.Evaluation(X), 0.0, noise=np.ones(3)), ValueError, "one for each"),
            (lambda: Measurement(rkhs.Evaluation(X), 0.0, loss="hinge"), ValueError, "loss must be"),
            (lambda: Measurement(rkhs.Evaluation(X), 0.0, loss="one_sided"), ValueError, "is a bound"),
            (lambda: rkhs.FunctionalRegressor().fit(X), TypeError, "InvariantRegressor"),
            (lambda: rkhs.FunctionalRegressor().fit([]), TypeError, "learns from"),
        ]
    )
)
