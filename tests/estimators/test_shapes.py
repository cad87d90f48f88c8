"""Shapes that hold everywhere: proofs, what they say where there is none, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

import rkhs
from rkhs.estimators.shape import claims_of, evenly
from rkhs.problem.shapes import Claim, Lower, prove

rng = np.random.default_rng(3)
X = np.sort(rng.uniform(0, 10, (40, 1)), axis=0)
y = 1 / (1 + np.exp(-(X[:, 0] - 5))) + 0.15 * rng.standard_normal(40)
OPTIONS = {"scale": 1.0, "C": 10.0, "invariance": None}


@pytest.mark.parametrize(
    ("shape", "order", "sign"),
    [("increasing", 1, 1), ("convex", 2, 1), ("concave", 2, -1), ("decreasing", 1, -1)],
)
def test_one_feature_is_proved_and_true(shape, order, sign):
    machine = rkhs.InvariantRegressor(**OPTIONS, shape={0: shape}).fit(X, y)
    certificate = machine.shape_certificate_
    assert certificate.proved
    (proof,) = certificate.proofs
    x = np.linspace(X.min(), X.max(), 100_000)[:, None]
    found = sign * rkhs.Derivative(x, axes=[0] * order)(machine.function_)
    assert found.min() >= proof.margin >= 0
    assert "proved on the box" in repr(certificate)


def test_bounds_on_f_and_slopes_together():
    machine = rkhs.InvariantRegressor(**OPTIONS, shape={0: "increasing", "f": (0, 1)}).fit(X, y)
    assert machine.shape_certificate_.proved
    values = machine.predict(np.linspace(X.min(), X.max(), 100_000)[:, None])
    assert values.min() >= 0
    assert values.max() <= 1
    assert np.all(np.diff(values) >= 0)


def test_two_features_by_name_no_pair_out_of_order():
    own = np.random.default_rng(0)
    table = pd.DataFrame(own.uniform(-1.7, 1.7, (150, 2)), columns=["age", "dose"])
    target = table["age"] - table["dose"] + 0.8 * np.sin(2 * table["age"]) + 0.2 * own.standard_normal(150)
    machine = rkhs.InvariantRegressor(invariance=None, shape={"age": "increasing", "dose": "decreasing"})
    machine.fit(table, target)
    assert machine.shape_certificate_.proved
    low, high = machine.shape_certificate_.box
    a = own.uniform(low, high, (20_000, 2))
    b = own.uniform(low, high, (20_000, 2))
    lower = np.stack([np.minimum(a[:, 0], b[:, 0]), np.maximum(a[:, 1], b[:, 1])], axis=1)
    upper = np.stack([np.maximum(a[:, 0], b[:, 0]), np.minimum(a[:, 1], b[:, 1])], axis=1)
    one, other = (machine.predict(pd.DataFrame(Z, columns=table.columns)) for Z in (lower, upper))
    assert np.all(one <= other)


def test_classifiers():
    own = np.random.default_rng(0)
    Z = own.uniform(-1.7, 1.7, (80, 2))
    labels = (Z[:, 0] + 0.8 * own.standard_normal(80) > 0).astype(int)
    machine = rkhs.InvariantClassifier(invariance=None, shape={0: "increasing"}).fit(Z, labels)
    assert machine.shape_certificate_.proved
    low, high = machine.shape_certificate_.box
    new = own.uniform(low, high, (10_000, 2))
    assert rkhs.Derivative(new, axes=[0])(machine.function_).min() >= 0
    with pytest.raises(ValueError, match="more than two classes"):
        rkhs.InvariantClassifier(shape={0: "increasing"}).fit(Z, np.arange(80) % 3)


def test_sums_of_kernels_are_proved_feature_by_feature():
    """Six features, of which each acts by itself: six proofs in one dimension."""
    own = np.random.default_rng(0)
    Z = own.uniform(0, 1, (100, 6))
    target = Z.sum(axis=1) + np.sin(6 * Z[:, 0]) + 0.1 * own.standard_normal(100)
    kernel = rkhs.kernels.additive(rkhs.Gaussian(0.4), 6)
    machine = rkhs.InvariantRegressor(kernel, invariance=None, shape=dict.fromkeys(range(6), "increasing"))
    machine.fit(Z, target)
    certificate = machine.shape_certificate_
    assert certificate.proved
    assert max(proof.cells for proof in certificate.proofs) < 1000
    assert rkhs.Gradient(own.uniform(*certificate.box, (5000, 6)))(machine.function_).min() >= 0


def test_what_is_not_proved_is_told():
    """Six features that all act together, and few cells."""
    own = np.random.default_rng(0)
    Z = own.uniform(0, 1, (60, 6))
    f = rkhs.InvariantRegressor(invariance=None, C=1.0).fit(Z, Z.sum(axis=1)).function_
    proof = prove(Claim("rising", (0,)), f, np.array([np.zeros(6), np.ones(6)]), cells=200)
    assert proof.status == "open"
    assert 0 <= proof.share < 1
    assert proof.margin < 0 < proof.least
    assert "open" in repr(proof)


def test_a_failure_is_a_place():
    f = rkhs.InvariantRegressor(**OPTIONS).fit(X, y).function_
    proof = prove(Claim("rising", (0,)), f, np.array([[0.0], [10.0]]))
    assert proof.status == "fails"
    slope = rkhs.Derivative(proof.worst[None], axes=[0])(f)[0]
    assert slope == pytest.approx(proof.least)
    assert slope < 0


def test_a_contradiction_with_the_data_warns_and_tells(monkeypatch):
    monkeypatch.setattr("rkhs.estimators.shape.ROUNDS", 1)
    monkeypatch.setattr("rkhs.estimators.shape.TILT", 0.0)
    with pytest.warns(ConvergenceWarning, match="not proved on the whole box"):
        machine = rkhs.InvariantRegressor(**OPTIONS, shape={0: "increasing"}).fit(X, y)
    assert not machine.shape_certificate_.proved


def test_what_is_left_is_mended_by_a_tilt(monkeypatch):
    monkeypatch.setattr("rkhs.estimators.shape.ROUNDS", 1)
    monkeypatch.setattr("rkhs.estimators.shape.TILT", 0.2)
    machine = rkhs.InvariantRegressor(**OPTIONS, shape={0: "increasing"}).fit(X, y)
    certificate = machine.shape_certificate_
    assert certificate.proved
    assert certificate.tilted[0] > 0
    x = np.linspace(X.min(), X.max(), 10_000)[:, None]
    assert machine.predict_gradient(x).min() >= 0


@pytest.mark.parametrize("kernel", [rkhs.Gaussian((0.7, 1.1)), rkhs.Matern(4.5, 0.8), rkhs.RationalQuadratic(1.0, 0.8)])
@pytest.mark.parametrize("axes", [(), (0,), (0, 0), (1, 1)])
def test_lower_bounds_are_below_all_values(kernel, axes):
    own = np.random.default_rng(1)
    Z = own.uniform(-1, 1, (20, 2))
    f = rkhs.Function(kernel, rkhs.Evaluation(Z), own.standard_normal(20))
    claim = Claim("something", axes, -1.0, 0.3)
    lower = Lower.of(claim, f, 2)
    centres, halves = own.uniform(-1, 1, (30, 2)), own.uniform(0.01, 0.3, (30, 2))
    _, bounds, _ = lower(centres, halves)
    for c, h, bound in zip(centres, halves, bounds, strict=True):
        inside = own.uniform(c - h, c + h, (200, 2))
        assert np.min(claim.at(inside)(f)) - claim.bound >= bound


def test_even_points():
    points = evenly(200, 3)
    assert points.min() >= 0
    assert points.max() < 1
    np.testing.assert_allclose(points.mean(axis=0), 0.5, atol=0.02)


@pytest.mark.parametrize(
    ("shape", "sentence"),
    [
        ({0: ["increasing", "decreasing"]}, "contradicts itself"),
        ({0: "convex", -1: "concave"}, "contradicts itself"),
        ({"f": (1, 0)}, "contradicts itself"),
        ({"f": 3}, "pair of bounds"),
        ({0: "rising"}, "is one of increasing"),
        ({5: "increasing"}, "features 0 to 0"),
        ({"age": "increasing"}, "no column names"),
        ("increasing", "shape says"),
        ({}, "shape says"),
    ],
)
def test_shapes_that_are_none(shape, sentence):
    with pytest.raises(ValueError, match=sentence):
        claims_of(shape, None, 1)


def test_kernels_without_a_proof_are_refused():
    for kernel, sentence in ((rkhs.Matern(2.5), "use Matern"), (rkhs.Polynomial(2), "kernel of x - y")):
        with pytest.raises(ValueError, match=sentence):
            rkhs.InvariantRegressor(kernel, shape={0: "increasing"}).fit(X, y)
    with pytest.raises(ValueError, match="shape_box"):
        rkhs.InvariantRegressor(shape={0: "increasing"}, shape_box=[0, 1]).fit(X, y)
    with pytest.raises(ValueError, match="one function"):
        rkhs.InvariantRegressor(shape={0: "increasing"}).fit(X, np.stack([y, y], axis=1))


def test_saved_and_opened(tmp_path):
    machine = rkhs.InvariantRegressor(**OPTIONS, shape={0: "increasing"}).fit(X, y)
    rkhs.save(machine, tmp_path / "model")
    assert rkhs.load(tmp_path / "model").shape_certificate_.proved
