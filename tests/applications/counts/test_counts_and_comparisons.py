"""Estimators of counts, preferences, survival times and ordered classes."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.stats import kendalltau
from sklearn.base import clone
from sklearn.linear_model import PoissonRegressor
from sklearn.metrics import mean_poisson_deviance
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rkhs
from estimators.models import ORDERED
from refusals import refused
from rkhs import counts as observations
from rkhs.counts import Order
from rkhs.estimators import _length_scales as length_scales


def counts(size=150, seed=0):
    rng = np.random.default_rng(seed)
    X, exposure = rng.uniform(-2, 2, (size, 2)), rng.uniform(0.5, 4.0, size)
    rate = np.exp(1 + np.sin(2 * X[:, 0]))
    return X, rng.poisson(exposure * rate), exposure, rate


def test_a_linear_kernel_is_the_regressor_of_scikit_learn():
    X, y, exposure, _ = counts()
    ours = rkhs.counts.KernelPoissonRegressor("linear", C=1.0, tol=1e-10).fit(X, y / exposure, sample_weight=exposure)
    variance = np.mean(np.sum(X**2, axis=1))  # C has no units: the kernel is divided by its mean
    theirs = PoissonRegressor(alpha=variance / exposure.sum(), tol=1e-10, max_iter=1000)
    theirs.fit(X, y / exposure, sample_weight=exposure)
    assert ours.predict(X) == pytest.approx(theirs.predict(X), rel=1e-5)
    assert ours.score(X, y / exposure, exposure) == pytest.approx(theirs.score(X, y / exposure, exposure), rel=1e-6)


def daily(size, seed, unit=1.0):
    """Return days, weekdays and temperatures, counts, and the true rates."""
    rng = np.random.default_rng(seed)
    day = rng.integers(0, 730, size)
    warm = 12 + 10 * np.sin(2 * np.pi * day / 365) + 3 * rng.standard_normal(size)
    rate = np.exp(2 + 0.001 * day + 0.5 * np.tanh((warm - 10) / 6) + 0.6 * (day % 7 >= 5))
    return unit * np.column_stack([day, day % 7, warm]), rng.poisson(rate), rate


@pytest.mark.parametrize(
    "unit", [1e6, pytest.param(1e-6, marks=pytest.mark.slow), pytest.param(1.0, marks=pytest.mark.slow)]
)
def test_the_default_finds_trend_weekdays_and_weather(unit, monkeypatch):
    """The deviance of the true rates is a twentieth of that of a linear model; it was a half with C = 1, one scale.

    Few kernels are tuned: each of two searches compared all of them and tuned the best one twice, on the same rows.
    """
    tuned, own = [], length_scales.tuned_problem
    monkeypatch.setattr(length_scales, "tuned_problem", lambda *a, **more: (tuned.append(a[2]), own(*a, **more))[1])
    X, y, _ = daily(120, 0, unit)
    new, _, rate = daily(2000, 1, unit)
    model = rkhs.counts.KernelPoissonRegressor().fit(X, y)
    linear = make_pipeline(StandardScaler(), PoissonRegressor(alpha=1e-3)).fit(X, y)
    errors = [mean_poisson_deviance(rate, one.predict(new)) for one in (model, linear)]
    assert errors[0] < 0.25 * errors[1]
    assert 1 <= len(tuned) <= 9


def test_the_search_keeps_what_is_stated():
    X, y, _ = daily(60, 2)
    model = rkhs.counts.KernelPoissonRegressor("gaussian", scale=[300.0, 3.0, 10.0]).fit(X, y)
    assert model.function_.kernel == rkhs.Gaussian((300.0, 3.0, 10.0))
    stated = rkhs.counts.KernelPoissonRegressor("matern", C=0.5).fit(X, y)
    assert pytest.approx(0.5) == stated.C_
    assert "Matern" in repr(stated.function_.kernel)
    with pytest.raises(ValueError, match=r'C .unless it is "cv". must be'):
        rkhs.counts.KernelPoissonRegressor(C=-1.0).fit(X, y)


@pytest.mark.parametrize("y", [[3, 3, 3, 3, 3], [0, 1], [0, 0, 1], [0] * 10 + [50]])
def test_defaults_with_few_and_with_equal_counts(y):
    X = np.arange(len(y), dtype=float)[:, None]
    predicted = rkhs.counts.KernelPoissonRegressor().fit(X, y).predict(X)
    assert np.all(predicted > 0)
    assert predicted.sum() == pytest.approx(np.sum(y), rel=0.05)  # the constant is free


def test_the_search_looks_at_a_part_of_many_rows(monkeypatch):
    X, y, _ = daily(150, 3)
    seen, fit = [], rkhs.InvariantRegressorCV.fit
    monkeypatch.setattr(observations, "SEARCHED", (40, 60))
    monkeypatch.setattr(rkhs.InvariantRegressorCV, "fit", lambda *a, **more: seen.append(len(a[1])) or fit(*a, **more))
    model = rkhs.counts.KernelPoissonRegressor("gaussian").fit(X, y)
    assert seen == [40, 60]
    assert model.function_.functionals.size == 150


@pytest.mark.slow
def test_cross_validation_chooses_c_and_scale():
    X, y, exposure, rate = counts(200)
    model = rkhs.counts.KernelPoissonRegressor(C="cv", scale="cv").fit(X, y / exposure, sample_weight=exposure)
    linear = PoissonRegressor(alpha=0.01).fit(X, y / exposure, sample_weight=exposure)
    assert model.C_ in observations.GRID
    assert mean_poisson_deviance(rate, model.predict(X)) < 0.3 * mean_poisson_deviance(rate, linear.predict(X))


def test_landmarks_above_a_size():
    X, y, exposure, rate = counts(5_010)
    model = rkhs.counts.KernelPoissonRegressor(kernel="gaussian", scale=1.0, C=1.0)
    with pytest.warns(UserWarning, match="1000 landmarks, because there are 5010 points"):
        model.fit(X, y / exposure, sample_weight=exposure)
    assert "Landmarks: 1000" in model.solution_.span
    assert model.score(X, rate) > 0.95
    few = model.set_params(approximation=rkhs.Landmarks(30)).fit(X[:400], y[:400] / exposure[:400])
    assert few.function_.functionals.size == 30


def test_pairs_and_concordance_by_definition():
    rng = np.random.default_rng(0)
    for size in (7, 400):
        y, values = rng.integers(0, 5, size), rng.integers(0, 50, size).astype(float)
        order = Order.of_targets(y)
        larger = y[:, None] > y[None, :]
        share = np.sum((np.sign(values[:, None] - values) + 1) / 2, where=larger) / larger.sum()
        assert order.count == larger.sum()
        assert order.concordance(values) == pytest.approx(share, rel=1e-12)
        pairs = order.pairs(size)
        assert len(pairs) == larger.sum() == len(np.unique(pairs, axis=0))
        drawn = order.pairs(1)
        assert len(drawn) <= size
        assert np.all(y[drawn[:, 0]] > y[drawn[:, 1]])


def test_survival_order_by_definition():
    rng = np.random.default_rng(1)
    for size in (6, 1200):
        event, time = rng.integers(0, 2, size).astype(bool), rng.integers(1, 30, size).astype(float)
        survives = (time[None, :] > time[:, None]) | ((time[None, :] == time[:, None]) & ~event[None, :])
        above = event[:, None] & survives & ~np.eye(size, dtype=bool)
        order, values = Order.of_survival(event, time), rng.standard_normal(size)
        assert order.count == above.sum()
        share = np.sum((np.sign(values[:, None] - values) + 1) / 2, where=above) / above.sum()
        assert order.concordance(values) == pytest.approx(share, rel=1e-12)
        pairs = order.pairs(size)
        assert len(pairs) == above.sum()
        assert np.all(above[pairs[:, 0], pairs[:, 1]])
        some = np.sort(rng.choice(size, size // 2, replace=False))
        assert order.take(some).count == above[np.ix_(some, some)].sum()


def ranked(size=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (size, 2))
    return X, -np.sum(X**2, axis=1), rng


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge"])
def test_preferences_from_pairs(loss):
    X, utility, rng = ranked()
    pairs = rng.integers(0, 120, (300, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    pairs = np.where((utility[pairs[:, 0]] > utility[pairs[:, 1]])[:, None], pairs, pairs[:, ::-1])
    model = rkhs.counts.PreferenceRegressor(loss=loss, C=10.0).fit(X, pairs=pairs)
    assert model.n_pairs_ == len(pairs)
    assert model.score(X, pairs=pairs) > 0.98
    assert model.score(X, utility) > 0.93
    assert kendalltau(model.predict(X), utility).statistic == pytest.approx(2 * model.score(X, utility) - 1, abs=1e-9)


def test_it_is_the_problem_of_differences():
    """Landmarks at all rows are exact: the same function as that of the problem of all pairs."""
    X, utility, _ = ranked(40)
    model = rkhs.counts.PreferenceRegressor(scale=1.0, pairs_per_row=40, tol=1e-9).fit(X, utility)
    pairs = Order.of_targets(utility).pairs(40)
    term = rkhs.Term(rkhs.Difference(X[pairs[:, 0]], X[pairs[:, 1]]), rkhs.Logistic(), 1.0, 40 / len(pairs))
    f = rkhs.Problem(rkhs.Gaussian(scale=1.0), [term]).solve(tol=1e-9).function
    assert model.predict(X) == pytest.approx(f(X), abs=1e-4)


def test_ranking_by_targets_with_cross_validation():
    X, utility, rng = ranked(150)
    model = rkhs.counts.PreferenceRegressor(C="cv").fit(X, utility + 0.3 * rng.standard_normal(150))
    Z = rng.uniform(-2, 2, (100, 2))
    assert model.n_pairs_ <= 10 * 150
    assert model.score(Z, -np.sum(Z**2, axis=1)) > 0.93


def test_survival_with_structured_and_two_column_targets():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 2))
    death, end = rng.exponential(np.exp(-2 * X[:, 0])), rng.exponential(2.0, 150)
    event, time = death <= end, np.minimum(death, end)
    structured = np.array(list(zip(event, time, strict=True)), dtype=[("death", bool), ("days", float)])
    first = rkhs.counts.SurvivalRanker().fit(X, structured)
    second = rkhs.counts.SurvivalRanker().fit(X, np.column_stack([event, time]))
    assert np.array_equal(first.predict(X), second.predict(X))
    assert first.score(X, structured) == second.score(X, np.column_stack([event, time])) > 0.75
    assert np.corrcoef(first.predict(X), X[:, 0])[0, 1] > 0.9  # earlier deaths have the larger risk
    with pytest.raises(ValueError, match="no pair can be compared"):
        rkhs.counts.SurvivalRanker().fit(X, np.column_stack([np.zeros(150), time]))
    with pytest.raises(ValueError, match="two columns"):
        rkhs.counts.SurvivalRanker().fit(X, np.column_stack([time, time]))


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge"])
def test_ordered_classes(loss):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (200, 2))
    y = np.digitize(np.sum(X**2, axis=1), [1.0, 2.0, 4.0])
    model = rkhs.counts.OrdinalClassifier(loss=loss, C=100.0).fit(X, y)
    assert model.score(X, y) > 0.95
    assert np.all(np.diff(model.thresholds_) > 0)
    assert model.solution_.status == "converged"
    assert hasattr(model, "predict_proba") == (loss == "logistic")


@pytest.mark.parametrize(
    "as_ordered",
    [
        lambda names, order: pd.Categorical(names, order, ordered=True),
        lambda names, order: pd.Series(pd.Categorical(names, [*order, "never"], ordered=True)),
        lambda names, order: pl.Series(names, dtype=pl.Enum(order)),
    ],
    ids=["Categorical", "Series", "Enum"],
)
def test_the_order_of_categories_is_that_of_the_classes(as_ordered):
    X = np.random.default_rng(0).standard_normal((60, 1))
    order = ["low", "mid", "high"]  # alphabetically, high would be the lowest
    names = [order[code] for code in np.digitize(X[:, 0], [-0.5, 0.5])]
    model = rkhs.counts.OrdinalClassifier(C=10.0).fit(X, as_ordered(names, order))
    assert model.classes_.tolist() == order
    assert model.score(X, names) > 0.9
    assert model.predict([[-1.2], [0.0], [1.2]]).tolist() == order
    given = rkhs.counts.OrdinalClassifier(C=10.0, classes=order).fit(X, names)
    assert given.classes_.tolist() == order
    np.testing.assert_array_equal(given.decision_function(X), model.decision_function(X))


def test_texts_without_an_order_are_refused():
    X, y = np.arange(6.0)[:, None], ["low", "low", "mid", "mid", "high", "high"]
    for texts in (y, np.array(y), pd.Series(y), pd.Categorical(y), pl.Series(y)):
        with pytest.raises(
            ValueError, match=r'"high", "low", "mid", and texts state no order: .* classes=\[\.\.\], or y as an ordered'
        ):
            rkhs.counts.OrdinalClassifier().fit(X, texts)
    for classes in (["low", "mid"], ["mid", "low", "High"], [0, 1, 2]):
        with pytest.raises(ValueError, match=r"y has the class '\w+', which is not among"):
            rkhs.counts.OrdinalClassifier(classes=classes).fit(X, y)
    assert rkhs.counts.OrdinalClassifier().fit(X, ["no", "no", "no", "yes", "yes", "yes"]).predict([[5.0]]) == ["yes"]
    assert rkhs.counts.OrdinalClassifier(classes=[2, 0, 1]).fit(X, [2, 2, 0, 0, 1, 1]).classes_.tolist() == [2, 0, 1]


def test_thresholds_are_the_basis_of_a_problem():
    """The same J as that of binary problems with one constant for each threshold, written by hand."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 1))
    y = np.digitize(X[:, 0] + 0.5 * rng.standard_normal(40), [-0.5, 0.5])
    model = rkhs.counts.OrdinalClassifier(scale=1.0, C=2.0, tol=1e-9).fit(X, y)
    loss, f = rkhs.Logistic(), model.function_
    signs = np.where(y[:, None] > np.arange(2), 1.0, -1.0)
    J = f.norm() ** 2 / 2 + 2.0 * np.sum(loss.value(f(X)[:, None] - model.thresholds_, signs))
    assert model.solution_.primal == pytest.approx(J, rel=1e-6)
    slopes = loss.gradient(f(X)[:, None] - model.thresholds_, signs)
    assert slopes.sum(axis=0) == pytest.approx(0.0, abs=1e-4)  # the thresholds are optimal
    assert f(X) == pytest.approx(-2.0 * f.kernel(X, X) @ slopes.sum(axis=1), abs=1e-3)  # and so is f


def test_probabilities_of_ordered_classes():
    rng = np.random.default_rng(2)
    X = rng.standard_normal((100, 2))
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = rkhs.counts.OrdinalClassifier(C="cv", classes=["a", "b", "c"]).fit(X, y)
    P = model.predict_proba(np.concatenate([X, 100 * X]))
    assert P.sum(axis=1) == pytest.approx(1.0)
    assert np.all(P >= 0)
    assert np.array_equal(model.classes_[P[:100].argmax(axis=1)], model.predict(X))
    assert model.score(X, y) > 0.8


FOUR, EIGHT, STEPS = np.arange(4.0)[:, None], np.arange(8.0)[:, None], [1, 2, 1, 3, 2, 1, 3, 2]


def ranks(*args, **options):
    return rkhs.counts.PreferenceRegressor().fit(FOUR, *args, **options)


test_what_is_refused = refused(
    *(
        (lambda y=y: rkhs.counts.KernelPoissonRegressor().fit(FOUR, y), message)
        for y, message in [([1, -1, 2, 0], "counts .* but y is -1 in row 1"), ([0] * 4, "needs a positive count")]
    ),
    *(
        (
            lambda model=model, given=given: clone(model).set_params(**given).fit(EIGHT, STEPS),
            message,
        )
        for model in ORDERED.values()
        for given, message in [
            ({"C": -1.0}, "C .* must be a finite number > 0"),
            ({"approximation": rkhs.FourierFeatures(10)}, r"must be None or rkhs\.Landmarks"),
            ({"kernel": "gauss"}, "kernel must be"),
            ({"loss": "squared"}, "loss must be"),
        ]
        if given.keys() <= model.get_params().keys()
    ),
    *(
        (lambda pairs=pairs: ranks(pairs=pairs), message)
        for pairs, message in [
            ([[0, 4]], "rows of X from 0 to 3"),
            ([[1, 1]], "compares a row with itself"),
            ([[0.0, 1.0]], "must be integers of shape"),
            ([0, 1], "must be integers of shape"),
        ]
    ),
    (lambda: ranks([1, 2, 3, 4], pairs=[[0, 1]]), "mutually exclusive"),
    (lambda: ranks([1, 1, 1, 1]), "all y are equal"),
    (lambda: ranks([1, 2, 3, 4]).score(FOUR, [1.0, np.nan, 3.0, 4.0]), "y contains NaN"),
)
