"""C and nu mean the same on every data set: laws, and the formula written out by hand."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.testing import assert_allclose
from sklearn.base import clone

import rkhs
from estimators.test_equal_problems import KNOWN
from rkhs import gram
from rkhs.estimators._formulation import Formulation
from rkhs.estimators._invariant_estimator import BlockTerms
from rkhs.extend import WeightNormalization
from rkhs.invariances import Graph, InputNoise, Invariance, Monotone, RandomSubset
from rkhs.losses import Loss, Smoothed
from rkhs.streams import Block

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 3)) @ np.array([[1.0, 0.3, 0.0], [0.0, 0.7, 0.2], [0.0, 0.0, 1.5]])
Y = np.where(np.arange(40) < 12, (X[:, 0] * X[:, 1] > 0).astype(int), -1)
TARGET = np.where(np.arange(40) < 12, np.sin(X[:, 0]) + X[:, 1], np.nan)
TIGHT = {"tol": 1e-10}
LOSSES = [rkhs.Squared(), rkhs.losses.EpsilonInsensitive(0.05)]


def values(points, y=Y, kernel="gaussian", sample_weight=None, at=X, **options):
    """Decision values of a model, at points that are in the same units."""
    given = {"loss": "squared", "C": 3.0, "nu": 5.0, **TIGHT, **options}
    model = rkhs.InvariantClassifier(kernel, **given).fit(points, y, sample_weight=sample_weight)
    return model.decision_function(at)


@pytest.mark.parametrize("name", KNOWN)
def test_units_of_the_kernel(name):
    kernel, own = rkhs.Gaussian("median"), {"invariance": KNOWN[name]}
    assert_allclose(values(X, kernel=7.0 * kernel, **own), values(X, kernel=kernel, **own), atol=1e-5)


def test_unlabeled_points_from_the_same_place():
    """Not exactly the same, as a mean of other points is not; a sum would be four times as large."""
    rng = np.random.default_rng(1)
    labeled, said = rng.standard_normal((10, 2)), np.arange(10) % 2
    at = rng.standard_normal((50, 2))

    def learned(count):
        points = np.concatenate([labeled, rng.standard_normal((count, 2))])
        y = np.concatenate([said, np.full(count, -1)])
        return values(points, y, scale=1.5, at=at, nu=10.0)

    few, many = learned(250), learned(1000)
    weaker = values(np.concatenate([labeled, at]), np.concatenate([said, np.full(50, -1)]), scale=1.5, at=at, nu=2.5)
    assert np.abs(many - few).mean() < 0.2 * np.abs(weaker - few).mean()


@pytest.mark.parametrize("name", ["gradient", "edges", "graph", "unlabeled", "several"])
def test_features_twice(name):
    """Squares of slopes are those of any directions; other losses are of slopes one by one, and know the axes."""
    wide = np.concatenate([X, X], axis=1) / np.sqrt(2)
    own = {"invariance": KNOWN[name]}
    assert_allclose(values(wide, at=wide, **own), values(X, **own), atol=1e-6)


@settings(max_examples=15, deadline=None)
@given(st.floats(-8, 8), st.floats(-4, 4), st.sampled_from(["gradient", "edges", "graph"]))
def test_units_of_everything(power, amplitude, name):
    """Of features, by a scale that is a number, and of the kernel."""
    unit = 10.0**power
    one = values(X, kernel=rkhs.Matern(2.5, 1.7), invariance=KNOWN[name])
    kernel = 10.0**amplitude * rkhs.Matern(2.5, 1.7 * unit)
    assert_allclose(values(unit * X, at=unit * X, kernel=kernel, invariance=KNOWN[name]), one, atol=1e-6)


@pytest.mark.parametrize(
    "kernel", [rkhs.kernels.Linear(), rkhs.kernels.Polynomial(2, offset=0.0), rkhs.kernels.Polyharmonic(3)]
)
def test_kernels_without_a_scale(kernel):
    """Their values have another variance in other units, by which weights are divided."""
    one, other = (values(unit * X, kernel=kernel, at=unit * X, tol=1e-12) for unit in (1.0, 100.0))
    assert_allclose(other, one, atol=1e-5)


class TestFormula:
    @pytest.mark.parametrize(
        "loss",
        [*LOSSES, rkhs.Huber(0.05), rkhs.losses.SquaredEpsilonInsensitive(0.05)],
        ids=lambda loss: type(loss).__name__,
    )
    def test_gaussian_gradients(self, loss):
        """nu mean_i sum_j loss(scale * slope), of slopes as they are."""
        kernel, scale = rkhs.Gaussian(1.7), 1.7
        labels = rkhs.Term(rkhs.Evaluation(X[:12]), rkhs.Squared(), target=2.0 * Y[:12] - 1, weight=3.0)
        flat = rkhs.Term(scale * rkhs.Gradient(X), loss, weight=5.0 / len(X))
        by_hand = rkhs.Problem(kernel, [labels, flat], rkhs.Constant()).solve(tol=1e-12).function(X)
        found = values(X, scale=scale, invariance=Invariance("gradient", loss=loss))
        assert_allclose(found, by_hand, atol=1e-8 if loss.quadratic else 1e-5)

    def test_any_functionals(self):
        """By the norms of their representers, on the diagonal of the whole Gram matrix."""
        kernel = 4.0 * rkhs.kernels.RationalQuadratic(1.0, 2.0) + rkhs.kernels.Linear()
        L, weight = rkhs.functionals.LocalDeviation(X, width=0.3), RNG.uniform(0.5, 2.0, 40)
        norms = np.diag(np.asarray(gram(kernel, L).dense()))
        variance = np.average(np.diag(kernel(X)), weights=weight)
        units = WeightNormalization.at(kernel, X, weight)
        assert units.variance == pytest.approx(variance, rel=1e-12)
        size = units.size(L, weight)
        assert size**2 == pytest.approx(np.average(norms, weights=weight) / variance, rel=1e-9)
        term = units.invariance(L, rkhs.Squared(), 0.0, 2.0, weight, size)
        f = rkhs.results.Function(kernel, rkhs.Evaluation(X[:5]), RNG.standard_normal(5))
        expected = 2.0 / variance * np.average((np.asarray(L(f)) / size) ** 2, weights=weight)
        assert np.sum(term.weight * np.asarray(L(f)) ** 2) == pytest.approx(expected, rel=1e-9)

    def test_many_functionals_are_sampled(self):
        many = np.random.default_rng(3).standard_normal((9000, 2))
        kernel = rkhs.Gaussian(1.0) + rkhs.kernels.Linear()
        units = WeightNormalization.at(kernel, many, np.ones(9000))
        assert units.variance == pytest.approx(np.mean(1 + np.sum(many**2, axis=1)), rel=0.05)
        assert units.size(rkhs.Gradient(many), 1.0) == pytest.approx(np.sqrt(2 / units.variance), rel=1e-9)

    def test_a_loss_that_has_no_units_of_its_own(self):
        """Then the functionals are divided."""
        loss: Loss = Smoothed(rkhs.losses.Absolute(), 0.2)
        assert loss.in_units(2.0) is None
        own = {"invariance": Invariance("gradient", loss=loss)}
        assert_allclose(values(1e3 * X, at=1e3 * X, **own), values(X, **own), atol=1e-5)
        assert_allclose(
            values(X, **own), values(X, invariance=Invariance("gradient", loss=rkhs.Huber(0.2)), nu=12.5), atol=1e-5
        )

    def test_slopes_of_columns_are_said_of_points(self):
        """With a width for each feature or one for all."""
        own = values(X, invariance=InputNoise([0.3, 0.3, 0.3]))
        assert_allclose(own, values(X, invariance=InputNoise(7.0)), atol=1e-8)
        assert_allclose(own, values(X, invariance="gradient"), atol=1e-8)

    def test_what_has_no_size(self):
        """Differences of a point with itself: nothing is known, and nothing divided by zero."""
        assert_allclose(values(X, invariance=lambda p: rkhs.Difference(p, p)), values(X, nu=0.0), atol=1e-8)


class TestRegression:
    @pytest.mark.parametrize("kernel", [rkhs.Gaussian(1.5), rkhs.Gaussian(1.5) + rkhs.kernels.Linear()])
    def test_error_bars_and_intervals(self, kernel):
        """7 k says of targets what k says."""
        kept = TARGET[:12]

        def told(own):
            model = rkhs.InvariantRegressor(own, C=10.0, nu=2.0, unlabeled=np.nan, **TIGHT).fit(X, TARGET)
            return [*model.predict(X, return_std=True), model.predict_interval(X, 0.8)]

        assert np.all(np.isfinite(kept))
        for one, other in zip(told(kernel), told(7.0 * kernel), strict=True):
            assert_allclose(other, one, rtol=1e-5, atol=1e-7)

    @pytest.mark.filterwarnings("ignore:InvariantRegressor. errors at left-out values")
    def test_measured_slopes(self):
        slopes = np.random.default_rng(1).standard_normal(X.shape)
        for weight in (None, 0.3):
            one, other = (
                rkhs.InvariantRegressor(k, C=10.0, gradient_weight=weight, **TIGHT).fit(X, X[:, 0], gradients=slopes)
                for k in (rkhs.Gaussian(2.0), 7.0 * rkhs.Gaussian(2.0))
            )
            assert_allclose(other.predict(X), one.predict(X), atol=1e-6)

    @pytest.mark.parametrize(
        "make",
        [
            lambda k: (
                rkhs.InvariantClassifier(k, invariance=Graph(5), C=100.0, nu=1e3, tol=1e-10)
                .fit(X, Y)
                .decision_function(X)
            ),
            lambda k: rkhs.VirtualSampleSVC([np.negative], kernel=k).fit(X[:12], Y[:12]).decision_function(X),
            lambda k: rkhs.QuantileRegressor([0.3, 0.7], k, C=1.0, tol=1e-8).fit(X, X[:, 0]).predict(X),
            lambda k: rkhs.InvariantClassifierCV(k).fit(X, Y).decision_function(X),
        ],
        ids=["graph", "copies", "quantiles", "automatic"],
    )
    def test_other_models(self, make):
        assert_allclose(make(7.0 * rkhs.Gaussian(1.5)), make(rkhs.Gaussian(1.5)), atol=1e-3)


def test_graphs_have_weights_of_their_own():
    search = rkhs.InvariantClassifierCV(invariance="graph", loss="squared", cv=3).fit(X, Y)
    assert_allclose(np.unique(search.cv_results_["param_nu"]), [0.0, 1e2, 1e5, 1e8])


class TestStreams:
    """Blocks of rows have sums, and the mean is over all of them."""

    WHOLE = rkhs.Landmarks(rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X)]))  # nothing is approximated
    WEIGHT = RNG.uniform(0.5, 2.0, 40)

    def model(self, loss, on="all"):
        return rkhs.InvariantClassifier(
            2.0 * rkhs.Gaussian(1.5) + rkhs.kernels.Linear(),
            loss="squared",
            C=3.0,
            nu=5.0,
            invariance=Invariance("gradient", on=on, loss=loss),
            tol=1e-10,
        )

    @pytest.mark.parametrize("on", ["all", "labeled", "unlabeled"])
    @pytest.mark.parametrize(
        "loss", [rkhs.Squared(), rkhs.losses.EpsilonInsensitive(0.05)], ids=["squared", "insensitive"]
    )
    def test_they_are_what_memory_says(self, loss, on):
        expected = self.model(loss, on).fit(X, Y, sample_weight=self.WEIGHT).decision_function(X)
        near = self.model(loss, on).set_params(approximation=self.WHOLE)
        order = np.random.default_rng(0).permutation(40)  # both kinds in each block

        def parts():
            return ((X[rows], Y[rows], self.WEIGHT[rows]) for rows in np.split(order, [15]))

        for stream in (rkhs.streams.blocks(X, Y, self.WEIGHT, rows=15), rkhs.streams.blocks(parts)):
            assert_allclose(near.fit(stream).decision_function(X), expected, atol=1e-5)

    @pytest.mark.parametrize(
        "loss", [rkhs.Squared(), rkhs.losses.EpsilonInsensitive(0.05)], ids=["squared", "insensitive"]
    )
    @pytest.mark.parametrize("read", ["in parts", "once"])
    def test_rows_that_are_not_read_again(self, loss, read):
        """The first block fixes the units; of this kernel those are the same for all points."""
        kernel = 2.0 * rkhs.Gaussian(1.5)
        expected = self.model(loss).set_params(kernel=kernel).fit(X, Y, sample_weight=self.WEIGHT).decision_function(X)
        near = self.model(loss).set_params(kernel=kernel, approximation=self.WHOLE)
        splits = np.split(np.random.default_rng(0).permutation(40), [15, 22])
        if read == "once":
            near.fit(rkhs.streams.blocks((X[r], Y[r], self.WEIGHT[r]) for r in splits))
        else:
            for rows in splits:
                near.partial_fit(X[rows], Y[rows], classes=[0, 1], sample_weight=self.WEIGHT[rows])
        assert_allclose(near.decision_function(X), expected, atol=1e-5)


@pytest.mark.parametrize("known", ["gradient", RandomSubset("gradient", 5), Monotone({0: +1, 2: -1})])
def test_what_blocks_say_weighs_the_same_however_many_there_are(known):
    """Also where functionals are not one for each row."""
    terms = BlockTerms(rkhs.InvariantRegressor(nu=2.0, invariance=known)._config(), False)
    sample = terms.rows(Block(0, X, X[:, 0], None))
    formulation = Formulation.at(terms.config, sample, rkhs.Gaussian(1.5), totals=np.array([40.0, 0.0]))
    terms = replace(terms, formulation=formulation)

    def weight(sizes):
        cuts = np.split(np.arange(40), sizes)
        each = [terms(Block(k, X[rows], X[rows, 0], None))[1] for k, rows in enumerate(cuts)]
        return sum(float(np.sum(np.broadcast_to(term.weight, term.size))) for term in each)

    assert weight([7, 20]) == pytest.approx(weight([]), rel=1e-12)


CONSTANT = {
    "default": rkhs.InvariantRegressor(),
    "absolute": rkhs.InvariantRegressor(loss="absolute"),
    "landmarks": rkhs.InvariantRegressor(approximation=rkhs.Landmarks(8)),
    "increasing": rkhs.InvariantRegressor(shape={0: "increasing"}),
    "convex": rkhs.InvariantRegressor(shape={0: "convex"}),
    "search": rkhs.InvariantRegressorCV(),
    "thin plate": rkhs.geometry.ThinPlateRegressor(),
    "quantiles": rkhs.QuantileRegressor(),
}


@pytest.mark.parametrize("constant", [1e-6, -3.0, 1e6, 0.0])
@pytest.mark.parametrize("name", CONSTANT)
def test_equal_targets_have_the_size_of_the_targets(name, constant):
    """Where they do not spread, margins are small beside the targets themselves; a unit of 1 would be none."""
    X = np.random.default_rng(0).normal(size=(20, 1))
    model = clone(CONSTANT[name]).fit(X, np.full(20, constant))
    np.testing.assert_allclose(model.predict(X), constant, rtol=np.finfo(float).eps ** 0.5, atol=0)
    for certificate in ("shape_certificate_", "crossing_certificate_"):
        assert getattr(model, certificate, None) is None or getattr(model, certificate).proved


@pytest.mark.parametrize("model", [rkhs.InvariantClassifier, rkhs.InvariantRegressor])
def test_pixels_have_one_unit(model):
    image = rkhs.Invariance(rkhs.invariances.SignalTangents())
    assert model(invariance=image)._config().length_scale == "median"
