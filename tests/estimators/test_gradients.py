"""Regressors that learn from measured slopes, and from several outputs."""

import re

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rkhs
from refusals import refused

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, size=(25, 2)) * [1.0, 20.0]
NEW = rng.uniform(-1, 1, size=(7, 2)) * [1.0, 20.0]


def f(x):
    return np.sin(2 * x[:, 0]) + (x[:, 1] / 20) ** 2


def slopes(x):
    return np.stack([2 * np.cos(2 * x[:, 0]), x[:, 1] / 200], axis=1)


OPTIONS = {"C": 100.0, "kernel": rkhs.Gaussian((1.0, 20.0)), "gradient_weight": 3.0}


def test_it_is_the_problem_on_paper():
    y, G = f(X), slopes(X)
    y[3], G[5, 0], G[6] = np.nan, np.nan, np.nan
    weight = rng.uniform(0.5, 2.0, len(X))
    estimator = rkhs.InvariantRegressor(**OPTIONS).fit(X, y, weight, gradients=np.where(np.isnan(G), None, G))
    terms = [
        rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), y, 100.0 * weight),
        rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), G, np.repeat(3.0 * weight, 2)),
    ]
    solution = rkhs.Problem(OPTIONS["kernel"], terms, rkhs.Constant()).solve(tol=1e-10)
    np.testing.assert_allclose(estimator.predict(NEW), solution.function(NEW), atol=1e-4)
    expected = rkhs.Gradient(NEW)(solution.function)
    np.testing.assert_allclose(estimator.predict_gradient(NEW), expected, atol=1e-4)
    found, spread = estimator.predict_gradient(NEW, return_std=True)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    np.testing.assert_allclose(spread, solution.posterior.std(rkhs.Gradient(NEW)), rtol=1e-3)


def test_slopes_alone_leave_the_constant_open():
    estimator = rkhs.InvariantRegressor(**{**OPTIONS, "gradient_weight": None}).fit(X, gradients=slopes(X))
    difference = estimator.predict(NEW) - f(NEW)
    assert np.ptp(difference) < 0.1
    np.testing.assert_allclose(estimator.predict_gradient(NEW), slopes(NEW), atol=0.2)


def test_slopes_help():
    with_slopes = rkhs.InvariantRegressor(**{**OPTIONS, "gradient_weight": None}).fit(
        X[:8], f(X[:8]), gradients=slopes(X[:8])
    )
    without = rkhs.InvariantRegressor(**{**OPTIONS, "gradient_weight": None}, invariance=None).fit(X[:8], f(X[:8]))
    error = [np.abs(one.predict(NEW) - f(NEW)).mean() for one in (with_slopes, without)]
    assert error[0] < error[1] / 3


@pytest.mark.filterwarnings("ignore:With C=.* InvariantRegressor misses its training")
@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_units_do_not_matter(unit):
    """By default a slope counts as a target does, whatever the units of X and y are."""
    one = rkhs.InvariantRegressor(C=10.0).fit(X, f(X), gradients=slopes(X))
    other = rkhs.InvariantRegressor(C=10.0).fit(unit * X, f(X), gradients=slopes(X) / unit)
    np.testing.assert_allclose(other.predict(unit * NEW), one.predict(NEW), atol=1e-4)


def test_the_units_of_a_scaler_are_undone():
    scaler = StandardScaler().fit(X)
    estimator = rkhs.InvariantRegressor(C=1e4).fit(scaler.transform(X), f(X), gradients=slopes(X) * scaler.scale_)
    found = estimator.predict_gradient(scaler.transform(X)) / scaler.scale_
    np.testing.assert_allclose(found, slopes(X), atol=0.01)
    pipeline = make_pipeline(StandardScaler(), rkhs.InvariantRegressor(C=1e4))
    pipeline.fit(X, f(X), invariantregressor__gradients=slopes(X) * scaler.scale_)
    np.testing.assert_allclose(pipeline.predict(NEW), estimator.predict(scaler.transform(NEW)))


@pytest.mark.filterwarnings("ignore:With C=.* InvariantRegressor misses its training")
@pytest.mark.parametrize("approximation", [None, rkhs.Landmarks(rkhs.Evaluation(X))])
def test_several_outputs_are_as_one_by_one(approximation):
    Y = np.stack([f(X), X[:, 0] * X[:, 1]], axis=1)
    Y[4] = np.nan
    G = np.stack([slopes(X), X[:, ::-1]], axis=2)
    options = {**OPTIONS, "approximation": approximation, "unlabeled": np.nan, "invariance": None, "tol": 1e-8}
    values = {**options, "gradient_weight": None}
    both = rkhs.InvariantRegressor(**values).fit(X, Y)
    with_slopes = rkhs.InvariantRegressor(**options).fit(X, Y, gradients=G)
    assert both.predict_gradient(NEW).shape == (7, 2, 2)
    assert both.predict(NEW, return_std=True)[1].shape == (7, 2)
    for k in range(2):
        one = rkhs.InvariantRegressor(**values).fit(X, Y[:, k])
        np.testing.assert_allclose(both.predict(NEW)[:, k], one.predict(NEW), atol=1e-3)
        one = rkhs.InvariantRegressor(**options).fit(X, Y[:, k], gradients=G[..., k])
        np.testing.assert_allclose(with_slopes.predict(NEW)[:, k], one.predict(NEW), atol=1e-3)


@pytest.mark.filterwarnings("ignore:InvariantRegressor. errors at left-out values")
@pytest.mark.parametrize("outputs", [(), (2,)])
@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_slopes_in_other_units_are_warned_of(outputs, factor):
    """Of millimeters instead of meters, say; not of slopes that are right, noisy or few."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (40, 2))
    y, slopes = np.sin(3 * X[:, 0]), np.stack([3 * np.cos(3 * X[:, 0]), np.zeros(40)], axis=1)
    y, slopes = (np.stack([a] * 2, axis=-1) if outputs else a for a in (y, slopes))
    model = rkhs.InvariantRegressor(scale=1.0, C=10.0)
    with pytest.warns(UserWarning, match="are the slopes in units of y") as record:
        model.fit(X, y, gradients=factor * slopes)
    assert record[0].filename == __file__
    model.fit(X, y, gradients=slopes + rng.standard_normal(slopes.shape))  # warnings are errors here
    slopes[2:] = np.nan
    model.fit(X, y, gradients=factor * slopes)


def test_a_weight_that_is_far_from_the_noise_is_told():
    """Exact values and slopes that C = 1 takes for noise; not a word with a C that suits the data."""
    rng = np.random.default_rng(1)
    x = rng.uniform(size=(100, 3))
    y = np.sin(6 * x[:, 0]) * np.cos(4 * x[:, 1]) + 5 * x[:, 2] ** 2
    G = np.stack(
        [6 * np.cos(6 * x[:, 0]) * np.cos(4 * x[:, 1]), -4 * np.sin(6 * x[:, 0]) * np.sin(4 * x[:, 1]), 10 * x[:, 2]],
        axis=1,
    )
    message = r"With C=1 .*C=1e\+0\d is far likelier.*leave C out"
    with pytest.warns(UserWarning, match=message) as record:
        rkhs.InvariantRegressor(C=1.0).fit(x, 1e3 * y, gradients=1e3 * G)
    assert record[0].filename == __file__
    rkhs.InvariantRegressor(C=1e6).fit(x, y, gradients=G)
    noisy = y + 0.5 * rng.standard_normal(100), G + 1.7 * rng.standard_normal(G.shape)
    rkhs.InvariantRegressor(C=5.0).fit(x, noisy[0], gradients=noisy[1])


@pytest.mark.parametrize(
    ("estimator", "unit"),
    [(rkhs.InvariantRegressor, 1e6), pytest.param(rkhs.InvariantRegressorCV, 1e-6, marks=pytest.mark.slow)],
)
def test_scales_and_noise_are_learned_by_default(estimator, unit):
    """As accurate as `FunctionalRegressor`, in any units, also of noisy slopes and of values that are missing."""
    rng = np.random.default_rng(2)
    x, new = rng.uniform(size=(40, 2)), rng.uniform(size=(200, 2))
    x[:, 1] *= 1000  # the features have different units
    new[:, 1] *= 1000

    def truth(points):
        return unit * (np.sin(6 * points[:, 0]) + (points[:, 1] / 1000) ** 2)

    def gradients(points):
        return unit * np.stack([6 * np.cos(6 * points[:, 0]), 2 * points[:, 1] / 1e6], axis=1)

    y, G = truth(x), gradients(x)
    model = estimator().fit(x, y, gradients=G)
    measured = [
        rkhs.Measurement(rkhs.Evaluation(x / [1, 1000]), y),
        rkhs.Measurement(rkhs.Gradient(x / [1, 1000]), G * [1, 1000]),
    ]
    reference = rkhs.FunctionalRegressor().fit(measured)
    errors = [np.sqrt(np.mean((p - truth(new)) ** 2)) for p in (model.predict(new), reference.predict(new / [1, 1000]))]
    assert errors[0] < 1.5 * errors[1] + 1e-4 * unit
    y += 0.1 * unit * rng.standard_normal(40)
    y[::2] = np.nan
    noise = 0.3 * unit / x.std(axis=0) * rng.standard_normal(G.shape)
    noisy = estimator().fit(x, y, gradients=G + noise)
    assert np.sqrt(np.mean((noisy.predict(new) - truth(new)) ** 2)) < 0.2 * unit
    deviation = noisy.predict(new, return_std=True)[1]
    assert np.mean(np.abs(noisy.predict(new) - truth(new)) <= 1.96 * deviation) > 0.85


def test_numbers_that_are_given_are_kept():
    rng = np.random.default_rng(3)
    x = rng.uniform(size=(15, 2))
    model = rkhs.InvariantRegressor(scale=0.7, gradient_weight=3.0).fit(x, f(x), gradients=slopes(x))
    assert model.problem_.kernel == rkhs.Gaussian(0.7)
    assert np.all(model.problem_.terms[1].weight == 3.0)
    assert model.C_ > 1
    assert rkhs.InvariantRegressor().fit(x, f(x)).C_ == 10.0


def test_a_search_with_a_precomputed_kernel():
    K = rkhs.Gaussian((1.0, 20.0))(X)
    assert rkhs.InvariantRegressorCV(kernel="precomputed").fit(K, f(X)).score(K, f(X)) > 0.99


BOTH = (rkhs.InvariantRegressor, rkhs.InvariantRegressorCV)
APART = np.stack([np.where(np.arange(25) == 3, np.nan, f(X)), f(X)], axis=1)


Y, SLOPES = f(X), slopes(X)


def learn(kind=rkhs.InvariantRegressor, y=Y, gradients=SLOPES, **options):
    kind(**options).fit(X, y, gradients=gradients)


test_what_is_refused = refused(
    (lambda: learn(gradients=np.zeros((25, 3))), r"shape \(25, 3\).*\(25, 2\)"),
    (lambda: learn(gradients=np.zeros(25)), r"shape \(25,\)"),
    (lambda: learn(gradients=np.full((25, 2), np.nan)), "All gradients are NaN"),
    (lambda: learn(gradients=np.full((25, 2), np.inf)), "infinity"),
    (lambda: learn(y=APART, gradients=None, unlabeled=np.nan), r"Row 3 of y .*MultiOutputRegressor"),
    *((lambda kind=kind: learn(kind, kernel="gausian"), "kernel must be") for kind in BOTH),
    (lambda: learn(scale="medium"), "scale must be"),
    (lambda: learn(rkhs.InvariantRegressorCV, scales="medium"), "scale must be"),
    *(
        (lambda kind=kind: kind().fit(rkhs.streams.blocks(X, f(X)), gradients=X), "gradients with arrays", TypeError)
        for kind in BOTH
    ),
)


@pytest.mark.parametrize("factor", [1.0, -1.0, 0.5])
def test_slopes_that_disagree_with_the_values_are_left_out(factor):
    rng = np.random.default_rng(0)
    Z = rng.uniform(size=(40, 1))
    y, slopes = np.sin(6 * Z[:, 0]) + 0.01 * rng.standard_normal(40), 6 * factor * np.cos(6 * Z)
    model = rkhs.InvariantRegressorCV("gaussian")
    if factor == 1:
        sentence = model.fit(Z, y, gradients=slopes).selection_report_["sentence"]
        assert re.search(r"Errors at left-out values are .* % of .* with the gradients and .* % without\.$", sentence)
        return
    with pytest.warns(
        UserWarning, match=r"leaves the gradients out: errors at left-out values are .* Check their signs"
    ):
        model.fit(Z, y, gradients=slopes)
    np.testing.assert_allclose(model.predict(Z), rkhs.InvariantRegressorCV("gaussian").fit(Z, y).predict(Z))
    for C in (None, 1e3):
        with pytest.warns(UserWarning, match=r"InvariantRegressor: errors at left-out .* leave them out"):
            rkhs.InvariantRegressor(C=C, scale="auto" if C is None else 0.3).fit(Z, y, gradients=slopes)
