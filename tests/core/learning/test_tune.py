"""Tuning: settings that make the criterion largest, whatever the units, and words where there is nothing to find."""

from dataclasses import replace

import numpy as np
import pytest

import rkhs
from refusals import refused
from rkhs._core.learning import tuning as module
from rkhs._core.learning.evidence import Hyperparameter
from rkhs._core.learning.tuning import HyperparameterSearch, SearchSpace, TuningMonitor
from rkhs._core.limits import with_limits

RNG = np.random.default_rng(4)
X = RNG.uniform(size=(60, 3))
Y = np.sin(6 * X[:, 0]) + X[:, 1] ** 2 + 0.05 * RNG.standard_normal(60)
ARD = rkhs.Gaussian(rkhs.Tunable(each=True))


CONSTANT = rkhs.Constant()


def problem(kernel=ARD, X=X, y=Y, basis=CONSTANT, weight=None, **options):
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), y, rkhs.Tunable() if weight is None else weight)
    return rkhs.Problem(kernel, [term], basis, **options)


def flat(problem):
    """All numbers that tuning found."""
    return np.array(list(problem.tuning.parameters.values()))


@pytest.mark.parametrize("criterion", ["evidence", "loo"])
@pytest.mark.parametrize(
    "kernel",
    [
        ARD,
        rkhs.kernels.RationalQuadratic(rkhs.Tunable(), rkhs.Tunable()),
        rkhs.Tunable() * rkhs.Matern(2.5, rkhs.Tunable(each=True)) + rkhs.Tunable() * rkhs.kernels.Linear(),
        rkhs.kernels.Polyharmonic(3) + rkhs.Tunable() * rkhs.Gaussian(0.5),
        rkhs.Matern(1.5, rkhs.Tunable(each=True)) @ np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.5]]),
    ],
    ids=repr,
)
def test_nothing_near_is_better(kernel, criterion):
    """A step in any setting does not raise the criterion by more than the search overlooks."""
    tuned = problem(kernel).tune(criterion, prior=None)
    assert tuned.tuning.status == "converged"
    assert "learn" not in repr(tuned.kernel)
    space = SearchSpace.of(kernel, problem(kernel).terms, module.Observations.of(tuned.represented), None, 0)
    theta = np.log([tuned.tuning.parameters[own.name] for own in space.hyperparameters])
    observations = replace(module.Observations.of(tuned.represented), weight=np.ones(60))
    value = module.criterion_of(space, observations, criterion)
    best = value(theta)[0]
    assert best == pytest.approx(tuned.tuning.value, rel=1e-9)
    for i in range(len(theta)):
        for step in (-0.1, 0.1):
            moved = theta.copy()
            moved[i] += step
            assert value(space.clipped(moved))[0] <= best + 0.01
    if criterion == "evidence":
        assert tuned.evidence().value == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("criterion", ["evidence", "loo"])
def test_units_do_not_matter(criterion):
    """x -> 1e6 x and y -> 1e6 y choose the same settings, in other units, where the search goes on to the end."""
    scaled = problem(X=1e6 * X, y=1e6 * Y), problem(X=X * [1.0, 1e3, 1e-3], y=Y + 1e4)
    with with_limits(tuning_gain=1e-9):
        one, other, uneven = (given.tune(criterion) for given in (problem(), *scaled))
    assert np.array(other.kernel.scale) == pytest.approx(1e6 * np.array(one.kernel.scale), rel=1e-4)
    assert other.terms[0].weight == pytest.approx(one.terms[0].weight, rel=1e-4)
    assert np.array(uneven.kernel.scale) == pytest.approx(one.kernel.scale * np.array([1.0, 1e3, 1e-3]), rel=1e-3)


def test_features_that_matter_are_found():
    tuned = problem().tune()
    assert np.argsort(tuned.kernel.scale).tolist() == [0, 1, 2]
    noise = tuned.evidence().amplitude / (2 * tuned.terms[0].weight) ** 0.5
    assert noise == pytest.approx(0.05, rel=0.3)
    fresh = np.random.default_rng(5).uniform(size=(200, 3))
    truth = np.sin(6 * fresh[:, 0]) + fresh[:, 1] ** 2
    assert np.std(tuned.solve().function(fresh) - truth) < 0.04
    assert np.std(problem().tune("loo").solve().function(fresh) - truth) < 0.04


def test_gradients_are_used():
    """Values and slopes of a smooth function, with weights of their own, without noise."""
    slopes = np.stack([6 * np.cos(6 * X[:, 0]), 2 * X[:, 1], 0 * X[:, 2]], axis=1)
    y = np.sin(6 * X[:, 0]) + X[:, 1] ** 2
    terms = [
        rkhs.Term(rkhs.Evaluation(X[:15]), rkhs.Squared(), y[:15], rkhs.Tunable()),
        rkhs.Term(rkhs.Gradient(X[:15]), rkhs.Squared(), slopes[:15], rkhs.Tunable()),
    ]
    tuned = rkhs.Problem(ARD, terms, rkhs.Constant()).tune()
    assert list(tuned.tuning.parameters)[-2:] == ["terms[0].weight", "terms[1].weight"]
    assert np.std(tuned.solve().function(X[15:]) - y[15:]) < 1e-3
    assert "kernel.scale[2]" in tuned.tuning.at_bounds  # it says nothing about the third feature


def test_a_prior_draws_scales_together():
    free, drawn = problem().tune(prior=None), problem().tune(prior=0.1)
    assert np.ptp(np.log(drawn.kernel.scale)) < 0.5 * np.ptp(np.log(free.kernel.scale))
    assert drawn.tuning.value < free.tuning.value


def test_ranges_that_were_given_are_kept():
    kernel = rkhs.Gaussian(rkhs.Tunable(start=0.5, low=0.4, high=0.6, each=True))
    tuned = problem(kernel, weight=rkhs.Tunable(high=10.0)).tune()
    assert all(0.4 <= s <= 0.6 for s in tuned.kernel.scale)
    assert tuned.terms[0].weight == pytest.approx(10.0)
    assert "terms[0].weight" in tuned.tuning.at_bounds
    assert problem(rkhs.Gaussian(0.5)).tune().kernel == rkhs.Gaussian(0.5)  # what was not open is left alone


def test_weights_keep_their_shares():
    shares = np.concatenate([np.zeros(5), np.full(30, 2.0), np.ones(25)])
    tuned = problem(weight=rkhs.Tunable() * shares).tune()
    factor = tuned.tuning.parameters["terms[0].weight"]
    np.testing.assert_allclose(tuned.terms[0].weight, factor * shares)


@pytest.mark.parametrize("criterion", ["evidence", "loo"])
def test_repeated_points_are_those_next_to_each_other(criterion):
    """A measurement is left out alone, whether it was made at the point of another one or next to it."""
    again = np.concatenate([X, X]), np.concatenate([Y, Y + 0.3 * np.random.default_rng(1).standard_normal(len(Y))])
    moved = again[0] + 1e-8 * np.random.default_rng(2).standard_normal(again[0].shape)
    same, near = (problem(rkhs.Gaussian(0.3), points, again[1]).tune(criterion) for points in (again[0], moved))
    assert same.tuning.status == "converged"
    assert same.tuning.value == pytest.approx(near.tuning.value, rel=1e-5)
    assert same.terms[0].weight == pytest.approx(near.terms[0].weight, rel=1e-2)


def test_a_sample_of_points_is_told():
    slopes = np.stack([6 * np.cos(6 * X[:, 0]), 2 * X[:, 1], 0 * X[:, 2]], axis=1)
    terms = [
        rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), Y, rkhs.Tunable()),
        rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), slopes, rkhs.Tunable()),
    ]
    given = rkhs.Problem(rkhs.Gaussian(rkhs.Tunable()), terms, rkhs.Constant())
    with with_limits(tuned_functionals=60):
        tuned = given.tune(functionals=120)
    assert tuned.tuning.functionals == (120, 240)  # thirty points with all that was observed there
    assert "on 120 of 240 functionals" in repr(tuned.tuning)
    assert tuned.system.size == 240
    whole = rkhs.Problem(rkhs.Gaussian(rkhs.Tunable()), terms, rkhs.Constant()).tune()
    assert whole.tuning.functionals == (240, 240)
    assert tuned.kernel.scale == pytest.approx(whole.kernel.scale, rel=0.3)


def test_in_the_span_of_landmarks():
    """All rows take part, and the settings are near those of the whole space."""
    tuned = problem(approximation=rkhs.Landmarks(25)).tune()
    assert tuned.tuning.status == "converged"
    assert tuned.tuning.functionals == (60, 60)
    assert np.argsort(tuned.kernel.scale).tolist() == [0, 1, 2]
    assert tuned.kernel.scale[0] == pytest.approx(problem().tune().kernel.scale[0], rel=0.5)
    exact, whole = problem().tune(), problem(approximation=rkhs.Landmarks(60)).tune()
    assert whole.tuning.value == pytest.approx(exact.tuning.value, rel=1e-9)
    waves = problem(approximation=rkhs.FourierFeatures(100)).tune()
    assert waves.tuning.value == pytest.approx(exact.tuning.value, rel=1e-9)  # found without the approximation


@pytest.mark.parametrize("criterion", ["evidence", "loo"])
@pytest.mark.parametrize(
    ("y", "basis"),
    [(np.full(60, 3.0), rkhs.Constant()), (np.zeros(60), None), (2 * X[:, 0] + 1, rkhs.Polynomials(1))],
    ids=["constant", "zero", "linear"],
)
def test_nothing_to_learn_from(y, basis, criterion):
    tuned = problem(y=y, basis=basis).tune(criterion)
    assert tuned.tuning.status.startswith("nothing to learn from")
    assert np.isnan(tuned.tuning.value)
    np.testing.assert_allclose(tuned.solve().function(X), y, atol=1e-6)


@pytest.mark.parametrize("points", [X[:1], np.repeat(X[:1], 60, axis=0)], ids=["one", "all the same"])
def test_one_point(points):
    y = Y[: len(points)]
    with pytest.raises(ValueError, match=r"all functionals are at one point.*rkhs\.Tunable\(start=1\.0\)"):
        problem(X=points, y=y).tune()
    kernel = rkhs.Gaussian(rkhs.Tunable(start=1.0))
    assert problem(kernel, points, y, basis=None).tune().tuning.status == "converged"


@pytest.mark.parametrize("count", [2, 3])
def test_few_points(count):
    for criterion in ("evidence", "loo"):
        tuned = problem(X=X[:count], y=Y[:count]).tune(criterion)
        assert np.all(np.isfinite(flat(tuned)))
        assert tuned.tuning.status == "converged"


def test_scales_that_run_away_are_named():
    tuned = problem(y=2 * X[:, 0] + 1).tune(prior=None)  # two features that say nothing
    assert {"kernel.scale[1]", "kernel.scale[2]"} <= set(tuned.tuning.at_bounds)
    assert np.all(np.isfinite(flat(tuned)))


def test_a_feature_that_never_changes():
    tuned = problem(X=np.concatenate([X, np.ones((60, 1))], axis=1)).tune()
    assert tuned.kernel.scale[:2] == pytest.approx(problem().tune().kernel.scale[:2], rel=0.05)


def test_limits():
    tuned = problem().tune(time_limit=0)
    assert tuned.tuning.status == "time limit"
    assert np.all(np.isfinite(flat(tuned)))
    assert tuned.solve().status == "converged"


def test_the_same_seed_gives_the_same():
    np.testing.assert_array_equal(flat(problem().tune()), flat(problem().tune()))


def test_several_outputs():
    tuned = problem(y=np.stack([Y, np.cos(6 * X[:, 0])], axis=1)).tune()
    assert tuned.tuning.status == "converged"
    assert tuned.evidence().amplitude.shape == (2,)


def test_tensors():
    torch = pytest.importorskip("torch")
    points, y = X[:30], Y[:30]
    tuned = problem(X=torch.tensor(points), y=torch.tensor(y)).tune(starts=1)
    np.testing.assert_allclose(flat(tuned), flat(problem(X=points, y=y).tune(starts=1)), rtol=1e-6)


@pytest.mark.parametrize("curvature", [None, np.array([[8.0]])], ids=["estimated", "known"])
@pytest.mark.parametrize(("begin", "end"), [(0.9, 0.960), (-0.9, -1.035)])
def test_a_stage_goes_on_from_the_best_of_the_one_before(begin, end, curvature):
    """Of two valleys it takes that in which the first criterion has its minimum."""

    def bowl(theta):
        return -float((theta[0] - begin) ** 2), 2 * (begin - theta), curvature

    def two_valleys(theta):
        t = theta[0]
        return -float((t**2 - 1) ** 2 + 0.3 * t), np.array([-4 * t * (t**2 - 1) - 0.3]), curvature

    space = SearchSpace(rkhs.Gaussian(), [], [Hyperparameter("scale", low=np.exp(-3.0), high=np.exp(3.0))], None)
    search = HyperparameterSearch([(1, bowl), (2, two_valleys)], space, TuningMonitor(0.0))
    assert (search.run(1, np.random.default_rng(0)), search.used) == ("converged", 2)
    assert search.best[0] == pytest.approx(end, abs=1e-2)


HINGE = rkhs.Term(rkhs.Evaluation(X), rkhs.Hinge(), np.sign(Y))
test_what_is_refused = refused(
    (problem(rkhs.Gaussian(1.0), weight=1.0).tune, r"Nothing is left open.*rkhs\.Tunable\(\)"),
    (lambda: problem().tune("cv"), 'must be "evidence" or "loo"'),
    (lambda: problem().tune(starts=0), "starts must be a positive integer"),
    (lambda: problem().tune(prior=0.0), "prior .* must be a finite number > 0"),
    (rkhs.Problem(ARD, [HINGE]).tune, "Tuning needs all losses to be Squared.*Hinge"),
    (problem(rkhs.kernels.RationalQuadratic(rkhs.Tunable(each=True), 1.0)).tune, "a single alpha: drop each=True"),
)
