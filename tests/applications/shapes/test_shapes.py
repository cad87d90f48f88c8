"""Shapes that hold everywhere: proofs, what they say where there is none, and what is refused."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

import rkhs
from rkhs.invariances import Monotone
from rkhs.shapes._claims import Claim, parse_shape
from rkhs.shapes._fitting import ConstrainedLeastSquares, Constraint, warn_of_cost
from rkhs.shapes._proofs import BranchAndBound, prove

rng = np.random.default_rng(3)
X = np.sort(rng.uniform(0, 10, (40, 1)), axis=0)
y = 1 / (1 + np.exp(-(X[:, 0] - 5))) + 0.15 * rng.standard_normal(40)
OPTIONS = {"scale": 1.0, "C": 10.0, "invariance": None}


@pytest.mark.parametrize(
    ("shape", "order", "sign"), [("increasing", 1, 1), ("convex", 2, 1), ("concave", 2, -1), ("decreasing", 1, -1)]
)
def test_one_feature_is_proved_and_true(shape, order, sign):
    estimator = rkhs.InvariantRegressor(**OPTIONS, shape={0: shape}).fit(X, y)
    certificate = estimator.shape_certificate_
    assert certificate.proved
    (proof,) = certificate.proofs
    x = np.linspace(X.min(), X.max(), 100_000)[:, None]
    found = sign * rkhs.Derivative(x, axes=[0] * order)(estimator.function_)
    assert found.min() >= proof.margin >= 0
    assert "proved on the box" in repr(certificate)


def test_bounds_on_f_and_slopes_together():
    estimator = rkhs.InvariantRegressor(**OPTIONS, shape={0: "increasing", "f": (0, 1)}).fit(X, y)
    assert estimator.shape_certificate_.proved
    values = estimator.predict(np.linspace(X.min(), X.max(), 100_000)[:, None])
    assert values.min() >= 0
    assert values.max() <= 1
    assert np.all(np.diff(values) >= 0)


def test_two_features_by_name_no_pair_out_of_order():
    own = np.random.default_rng(0)
    table = pd.DataFrame(own.uniform(-1.7, 1.7, (150, 2)), columns=["age", "dose"])
    target = table["age"] - table["dose"] + 0.8 * np.sin(2 * table["age"]) + 0.2 * own.standard_normal(150)
    estimator = rkhs.InvariantRegressor(invariance=None, shape={"age": "increasing", "dose": "decreasing"})
    estimator.fit(table, target)
    assert estimator.shape_certificate_.proved
    low, high = estimator.shape_certificate_.box
    a = own.uniform(low, high, (20_000, 2))
    b = own.uniform(low, high, (20_000, 2))
    lower = np.stack([np.minimum(a[:, 0], b[:, 0]), np.maximum(a[:, 1], b[:, 1])], axis=1)
    upper = np.stack([np.maximum(a[:, 0], b[:, 0]), np.minimum(a[:, 1], b[:, 1])], axis=1)
    one, other = (estimator.predict(pd.DataFrame(Z, columns=table.columns)) for Z in (lower, upper))
    assert np.all(one <= other)


def test_classifiers():
    own = np.random.default_rng(0)
    Z = own.uniform(-1.7, 1.7, (80, 2))
    labels = (Z[:, 0] + 0.8 * own.standard_normal(80) > 0).astype(int)
    estimator = rkhs.InvariantClassifier(invariance=None, shape={0: "increasing"}).fit(Z, labels)
    assert estimator.shape_certificate_.proved
    low, high = estimator.shape_certificate_.box
    new = own.uniform(low, high, (10_000, 2))
    assert rkhs.Derivative(new, axes=[0])(estimator.function_).min() >= 0
    with pytest.raises(ValueError, match="more than two classes"):
        rkhs.InvariantClassifier(shape={0: "increasing"}).fit(Z, np.arange(80) % 3)


def test_sums_of_kernels_are_proved_feature_by_feature():
    """Six features, of which each acts by itself: six proofs in one dimension."""
    own = np.random.default_rng(0)
    Z = own.uniform(0, 1, (100, 6))
    target = Z.sum(axis=1) + np.sin(6 * Z[:, 0]) + 0.1 * own.standard_normal(100)
    kernel = rkhs.kernels.additive(rkhs.Gaussian(0.4), 6)
    estimator = rkhs.InvariantRegressor(kernel, invariance=None, shape=dict.fromkeys(range(6), "increasing"))
    estimator.fit(Z, target)
    certificate = estimator.shape_certificate_
    assert certificate.proved
    assert max(proof.cells for proof in certificate.proofs) < 100
    assert certificate.points < 60  # constraints along a feature do not repeat themselves in the others
    assert rkhs.Gradient(own.uniform(*certificate.box, (5000, 6)))(estimator.function_).min() >= 0


def six_features():
    """A function of six features that act together, and a box on which a proof takes long."""
    own = np.random.default_rng(0)
    Z = own.uniform(0, 1, (60, 6))
    f = rkhs.InvariantRegressor(invariance=None, C=1.0).fit(Z, Z.sum(axis=1)).function_
    return f, np.array([np.zeros(6), np.ones(6)])


def test_what_is_not_proved_is_told():
    (proof,) = prove([Claim("rising", (0,))], *six_features(), cells=200)
    assert proof.status == "open"
    assert 0 <= proof.share < 1
    assert proof.margin < 0 < proof.least
    assert "open" in repr(proof)


def test_a_failure_is_a_place():
    f = rkhs.InvariantRegressor(**OPTIONS).fit(X, y).function_
    (proof,) = prove([Claim("rising", (0,))], f, np.array([[0.0], [10.0]]))
    assert proof.status == "fails"
    slope = rkhs.Derivative(proof.worst[None], axes=[0])(f)[0]
    assert slope == pytest.approx(proof.least)
    assert slope < 0


@pytest.fixture
def tilt(monkeypatch):
    """Leave the first round, which has no points with constraints, and corrections up to a size."""
    monkeypatch.setattr("rkhs.shapes._fitting.LOOKS", 0)
    monkeypatch.setattr("rkhs.shapes._fitting.ROUNDS", 1)
    return lambda most: monkeypatch.setattr("rkhs.shapes._fitting.TILT", most)


def test_a_contradiction_with_the_data_warns_and_tells(tilt):
    tilt(0.0)
    with pytest.warns(ConvergenceWarning, match="not proved on the whole box"):
        estimator = rkhs.InvariantRegressor(**OPTIONS, shape={0: "increasing"}).fit(X, y)
    assert not estimator.shape_certificate_.proved


def test_what_is_left_is_mended_by_a_tilt(tilt):
    tilt(2.0)
    estimator = rkhs.InvariantRegressor(**OPTIONS, shape={0: "increasing"}).fit(X, y)
    certificate = estimator.shape_certificate_
    assert certificate.proved
    assert certificate.tilted[0] > 0
    x = np.linspace(X.min(), X.max(), 10_000)[:, None]
    assert estimator.predict_gradient(x).min() >= 0


@pytest.mark.every
@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        ({0: ["increasing", "decreasing"]}, "contradicts itself"),
        ({0: "convex", -1: "concave"}, "contradicts itself"),
        ({"f": (1, 0)}, "contradicts itself"),
        ({"f": 3}, "pair of bounds"),
        ({0: "rising"}, "must be one of increasing"),
        ({5: "increasing"}, "features 0 to 0"),
        ({(0, 0): "convex"}, "at least two"),
        ({(0, 7): "convex"}, "features 0 to 0"),
        ({"age": "increasing"}, r"'age', but X has no column names: fit .* set_output"),
        ("increasing", "shape must be"),
        ({}, "shape must be"),
    ],
)
def test_shapes_that_are_none(shape, sentence):
    with pytest.raises(ValueError, match=sentence):
        parse_shape(shape, None, 1)


def test_kernels_without_a_proof_are_refused():
    for kernel, sentence in ((rkhs.Matern(2.5), "use Matern"), (rkhs.kernels.Polynomial(2), "kernel of x - y")):
        with pytest.raises(ValueError, match=sentence):
            rkhs.InvariantRegressor(kernel, shape={0: "increasing"}).fit(X, y)
    with pytest.raises(ValueError, match="box of a Shape"):
        rkhs.InvariantRegressor(shape=rkhs.Shape({0: "increasing"}, box=[0, 1])).fit(X, y)
    with pytest.raises(ValueError, match="single function"):
        rkhs.InvariantRegressor(shape={0: "increasing"}).fit(X, np.stack([y, y], axis=1))


def bowl(seed=0, t=120):
    """Points of a square, and noisy values of a function that is convex along both axes' diagonals but not between."""
    own = np.random.default_rng(seed)
    Z = own.uniform(-1, 1, (t, 2))
    return Z, (Z[:, 0] + Z[:, 1]) ** 2 + 0.3 * np.cos(4 * (Z[:, 0] - Z[:, 1])) + 0.05 * own.standard_normal(t)


def test_convex_in_two_features_together():
    """Hessians at random points have no negative eigenvalue, and values on chords are above f."""
    Z, target = bowl()
    estimator = rkhs.InvariantRegressor(scale=1.0, C=10.0, invariance=None, shape={(0, 1): "convex"}).fit(Z, target)
    certificate = estimator.shape_certificate_
    assert certificate.proved, certificate
    own = np.random.default_rng(1)
    at = own.uniform(*certificate.box, (5000, 2))
    second = [rkhs.Derivative(at, axes=axes)(estimator.function_) for axes in ([0, 0], [0, 1], [1, 1])]
    H = np.stack([second[0], second[1], second[1], second[2]], axis=1).reshape(-1, 2, 2)
    assert np.linalg.eigvalsh(H).min() >= 0
    a, b = own.uniform(*certificate.box, (2, 5000, 2))
    one, other, middle = (estimator.predict(P) for P in (a, b, (a + b) / 2))
    assert np.all(middle <= (one + other) / 2)
    apart = rkhs.InvariantRegressor(scale=1.0, C=10.0, invariance=None, shape={0: "convex", 1: "convex"})
    apart.fit(Z, target)
    assert np.abs(apart.predict(at) - estimator.predict(at)).max() > 0.05  # each feature by itself says less


def test_features_together_by_name_and_concave():
    Z, target = bowl(1)
    table = pd.DataFrame(Z, columns=["heat", "load"])
    estimator = rkhs.InvariantRegressor(scale=1.0, C=10.0, invariance=None, shape={("heat", "load"): "concave"})
    assert estimator.fit(table, -target).shape_certificate_.proved
    for shape in ({("heat", "load"): "convex", "load": "concave"}, {("heat", "load"): "increasing"}):
        with pytest.raises(ValueError, match=r"contradicts itself|each feature"):
            estimator.set_params(shape=shape).fit(table, target)


def test_monotone_everywhere_is_a_shape():
    options = {"scale": 1.0, "C": 10.0}
    known = rkhs.InvariantRegressor(**options, invariance=Monotone({0: +1}, everywhere=True)).fit(X, y)
    said = rkhs.InvariantRegressor(**options, invariance=None, shape={0: "increasing"}).fit(X, y)
    assert known.shape_certificate_.proved
    np.testing.assert_array_equal(known.predict(X), said.predict(X))
    both = rkhs.InvariantRegressor(**options, invariance=Monotone({0: +1}, everywhere=True), shape={"f": (0, 1)})
    assert len(both.fit(X, y).shape_certificate_.proofs) == 3
    assert not hasattr(both.set_params(nu=0.0, shape=None).fit(X, y), "shape_certificate_")
    with pytest.raises(ValueError, match="contradicts itself"):
        both.set_params(nu=1.0, shape={0: "decreasing"}).fit(X, y)
    Z, target = bowl()
    both.set_params(invariance=Monotone({0: +1}, everywhere=True), shape={(0, 1): "convex", 0: ["convex"]})
    assert len(both.fit(Z, target).shape_certificate_.proofs) == 3
    with pytest.raises(ValueError, match="all rows in memory"):
        rkhs.InvariantRegressor(shape={0: "increasing"}, approximation=rkhs.Landmarks(5)).partial_fit(X, y)


def test_a_chosen_machine_keeps_what_holds_everywhere():
    estimator = rkhs.InvariantRegressorCV(invariance=Monotone({0: +1}, everywhere=True), Cs=[1, 10], nus=[1.0], cv=3)
    assert estimator.fit(X, y).shape_certificate_.proved


def test_what_is_left_is_mended_by_a_parabola(tilt):
    tilt(100.0)
    for shape, Z, target in (({0: "convex"}, X + 1e6, y), ({(0, 1): "convex"}, *bowl())):
        estimator = rkhs.InvariantRegressor(scale=1.0, invariance=None, shape=shape).fit(Z, target)
        certificate = estimator.shape_certificate_
        assert certificate.proved
        assert set(certificate.bent) == set(range(Z.shape[1]))
        at = np.random.default_rng(0).uniform(*certificate.box, (1000, Z.shape[1]))
        assert rkhs.Derivative(at, axes=[0, 0])(estimator.function_).min() >= 0
        assert "second derivatives" in repr(certificate)


def test_a_proof_ends_at_its_time_limit():
    """What is proved so far is returned, and the next claim is not begun."""
    f, box = six_features()
    limited = prove([Claim("rising", (0,)), Claim("falling", (0,), -1.0)], f, box, seconds=0.0)
    assert [(proof.status, proof.stopped, proof.margin) for proof in limited] == [("open", True, -np.inf)] * 2
    assert limited[1].cells == 0
    assert "stopped" in repr(limited[0])
    assert "no value computed" in repr(limited[1])


def test_ctrl_c_returns_what_is_proved(monkeypatch):
    f, box = six_features()
    steps = []

    def step(search, most, whole=BranchAndBound.step):
        steps.append(search)
        if len(steps) > 2:
            raise KeyboardInterrupt
        whole(search, most)

    monkeypatch.setattr(BranchAndBound, "step", step)
    (proof,) = prove([Claim("not falling much", (0,), 1.0, -0.5)], f, box)
    assert proof.stopped
    assert 0 < proof.share < 1


def test_ctrl_c_in_a_proof_ends_the_fit(monkeypatch):
    """Not with another round."""
    monkeypatch.setattr("rkhs.shapes._fitting.LOOKS", 0)
    proofs = []

    def step(search, most, whole=BranchAndBound.step):
        whole(search, most)
        proofs.append(search)
        raise KeyboardInterrupt

    monkeypatch.setattr(BranchAndBound, "step", step)
    with pytest.raises(KeyboardInterrupt):
        rkhs.InvariantRegressor(**OPTIONS, shape={0: "increasing"}).fit(X, y)
    assert len(proofs) == 1


def test_seeding_finds_the_constrained_minimum():
    """f with constraints at points, compared with the certified solution of the same problem."""
    estimator = rkhs.InvariantRegressor(**OPTIONS, tol=1e-10, shape={0: "increasing"}).fit(X, y)
    data, asked = estimator.problem_.terms
    problem = rkhs.Problem(estimator.problem_.kernel, [data], estimator.problem_.basis)
    box = estimator.shape_certificate_.box
    constraint = Constraint.of(Claim("rising", (0,)), problem, box, float(np.ptp(y)))
    places = asked.functional.parts[0].atoms.points
    constraint = replace(constraint, points=places, directions=np.zeros_like(places))
    found = ConstrainedLeastSquares(problem)([constraint])(X)
    np.testing.assert_allclose(found, estimator.solution_.function(X), atol=1e-6)


def test_solvers_start_at_the_constrained_minimum(monkeypatch):
    """Seeding solves squared losses with constraints exactly: a certificate is all that is left to do."""
    random = np.random.default_rng(0)
    Z = random.uniform(-1, 1, (60, 2))
    target = np.tanh(3 * Z[:, 0]) + Z[:, 1] + 0.5 * random.standard_normal(60)
    model = rkhs.InvariantRegressor(scale=0.7, C=3.0, invariance=None, shape={0: "increasing", 1: "increasing"})
    shaped = model.fit(Z, target).predict(Z)
    assert model.shape_certificate_.points > 0
    reference = model.problem_.solve(tol=1e-8)  # by a solver that starts at zero
    np.testing.assert_allclose(shaped, reference.function(Z), atol=1e-6)
    assert model.solution_.relative_gap < 1e-8
    monkeypatch.setattr("rkhs._core.problem.problem.solve_to_tolerance", None)  # nobody calls it
    np.testing.assert_array_equal(model.fit(Z, target).predict(Z), shaped)


@pytest.mark.parametrize(("seed", "scale"), [(3, 0.5), (4, 0.4)])
def test_constraints_are_added_where_a_hessian_fails(seed, scale):
    """At the approximate minimizer of a cell, along another eigenvector, they changed nothing, round after round."""
    random = np.random.default_rng(seed)
    Z = random.uniform(-1, 1, (80, 2))
    bowl = (Z[:, 0] + Z[:, 1]) ** 2 + 0.5 * (Z[:, 0] - Z[:, 1]) ** 2 + 0.5 * random.standard_normal(80)
    model = rkhs.InvariantRegressor(scale=scale, C=3.0, invariance=None, shape={(0, 1): "convex"}).fit(Z, bowl)
    assert model.shape_certificate_.proved


def test_counterexamples_violate_the_claim():
    random = np.random.default_rng(1)
    f = rkhs.results.Function(
        rkhs.Gaussian(0.5), rkhs.Evaluation(random.uniform(-1, 1, (20, 2))), random.standard_normal(20)
    )
    (proof,) = prove(parse_shape({(0, 1): "convex"}, None, 2), f, np.array([[-1.0, -1.0], [1.0, 1.0]]))
    assert proof.status == "fails"
    second = proof.claim.at(proof.candidates, proof.directions)(f)
    assert np.all(second < 0)


def test_a_shape_that_holds_by_itself_needs_no_points():
    shape = rkhs.Shape({0: "increasing"}, box=[[2.0], [8.0]])
    estimator = rkhs.InvariantRegressor(**OPTIONS, shape=shape).fit(X, X[:, 0])
    assert estimator.shape_certificate_.proved
    assert estimator.shape_certificate_.points == 0


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_a_proof_of_too_many_cells_is_announced(unit, recwarn):
    """Before anything is solved, and with the kernel that is proved feature by feature."""
    points = unit * np.random.default_rng(0).standard_normal((60, 10))
    box = np.array([points.min(axis=0), points.max(axis=0)])

    def announce(kernel, constraints):
        problem = rkhs.Problem(kernel, [rkhs.Term(rkhs.Evaluation(points), rkhs.Squared(), points[:, 0])])
        warn_of_cost(problem, parse_shape(constraints, None, 10), box)

    with pytest.warns(UserWarning, match=r"10 interacting features.*20,000 are tried.*additive\(rkhs.Gaussian"):
        announce(rkhs.Gaussian(4.4 * unit), {0: "increasing"})
    additive = rkhs.kernels.additive(rkhs.Gaussian(unit), 10)
    with pytest.warns(UserWarning, match=r"f is at least 0.*Bounds of f itself involve all features of any kernel"):
        announce(additive, {"f": (0.0, None)})
    recwarn.clear()
    announce(additive, dict.fromkeys(range(10), "increasing"))
    announce(rkhs.Gaussian((2.2 * unit, 2.2 * unit, *[1e3 * unit] * 8)), {0: "convex"})
    assert not len(recwarn)
