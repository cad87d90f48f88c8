"""Shapes that hold everywhere, in all units and for all weights: no fit fails, and no proof is refuted."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.exceptions import ConvergenceWarning

import rkhs
from clocks import ticking
from referee import least_found, rounding_of
from rkhs._core.limits import with_limits
from rkhs.invariances import Monotone

KINDS = ["increasing", "decreasing", "convex", "concave"]
rng = np.random.default_rng(3)
X = np.sort(rng.uniform(0, 10, (40, 1)), axis=0)
y = 1 / (1 + np.exp(-(X[:, 0] - 5))) + 0.15 * rng.standard_normal(40)
OPTIONS = {"scale": 1.0, "C": 10.0, "invariance": None}


def line(unit=1.0, t=30, features=1, seed=0):
    """Noisy values, in some unit, of a function that rises, falls and rises again along the first feature."""
    random = np.random.default_rng(seed)
    Z = random.uniform(-1, 1, (t, features))
    return Z, unit * (Z.sum(axis=1) + np.sin(4 * Z[:, 0]) + 0.3 * random.standard_normal(t))


def bowl(seed=0, t=120):
    """Points of a square, and noisy values of a function that is convex along both axes' diagonals but not between."""
    own = np.random.default_rng(seed)
    Z = own.uniform(-1, 1, (t, 2))
    return Z, (Z[:, 0] + Z[:, 1]) ** 2 + 0.3 * np.cos(4 * (Z[:, 0] - Z[:, 1])) + 0.05 * own.standard_normal(t)


def fitted(data, shape, **options):
    return rkhs.InvariantRegressor(**{**OPTIONS, **options}, shape=shape).fit(*data)


def fit_quietly(model, X, y):
    """Fit; what a solver or a proof could not do is in what they state."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


def check_not_refuted(model, told=""):
    """Let the referee look at all claims of a fit."""
    assert np.all(np.isfinite(model.function_(model.shape_certificate_.box))), told
    for proof in model.shape_certificate_.proofs:
        assert (proof.status == "proved") == (proof.margin >= 0), told
        found = least_found(proof.claim, model.function_, proof.box, np.random.default_rng(0))
        assert found >= proof.margin - rounding_of(proof.claim, model.function_, proof.box), f"{told}: {proof}"


EXAMPLES = {
    **{word: ((X, y), {0: word}, {}) for word in KINDS},
    "bounds and slopes": ((X, y), {0: "increasing", "f": (0, 1)}, {}),
    "two features": (bowl(), {(0, 1): "convex"}, {}),
    "a hard Hessian": (bowl(3, 80), {(0, 1): "convex"}, {"scale": 0.5, "C": 3.0}),
    "another hard Hessian": (bowl(4, 80), {(0, 1): "convex"}, {"scale": 0.4, "C": 3.0}),
    "both": (line(t=60, features=2), {0: "increasing", 1: "concave", (0, 1): "concave"}, {"scale": 1.5}),
    "an absolute loss": (line(t=60), {0: "increasing"}, {"loss": "absolute", "scale": 0.5}),
    "holds by itself": ((X, X[:, 0]), rkhs.Shape({0: "increasing"}, box=[[2.0], [8.0]]), {}),
}


@pytest.mark.every
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n == "a hard Hessian")) for n in EXAMPLES]
)
def test_a_shape_is_proved_and_true(name):
    data, shape, options = EXAMPLES[name]
    model = fitted(data, shape, **options)
    certificate = model.shape_certificate_
    assert certificate.proved, certificate
    assert "proved on the box" in repr(certificate)
    assert certificate.points == 0 if name == "holds by itself" else certificate.points > 0
    assert not certificate.tilted
    assert not certificate.bent
    check_not_refuted(model)
    assert rkhs.Shape.of(shape).prove(model.function_).proofs[0].status in ("proved", "open")  # the points' box


def test_two_features_by_name_no_pair_out_of_order():
    own = np.random.default_rng(0)
    table = pd.DataFrame(own.uniform(-1.7, 1.7, (150, 2)), columns=["age", "dose"])
    target = table["age"] - table["dose"] + 0.8 * np.sin(2 * table["age"]) + 0.2 * own.standard_normal(150)
    model = rkhs.InvariantRegressor(invariance=None, shape={"age": "increasing", "dose": "decreasing"})
    assert model.fit(table, target).shape_certificate_.proved
    a, b = own.uniform(*model.shape_certificate_.box, (2, 20_000, 2))
    lower = np.stack([np.minimum(a[:, 0], b[:, 0]), np.maximum(a[:, 1], b[:, 1])], axis=1)
    upper = np.stack([np.maximum(a[:, 0], b[:, 0]), np.minimum(a[:, 1], b[:, 1])], axis=1)
    one, other = (model.predict(pd.DataFrame(Z, columns=table.columns)) for Z in (lower, upper))
    assert np.all(one <= other)
    together = {("age", "dose"): "concave"}
    assert fitted((table, -bowl(1, 150)[1]), together, C=0.1).shape_certificate_.proofs[0].claim.jointly == (0, 1)


def test_classifiers():
    Z, values = line(t=80, features=2)
    model = rkhs.InvariantClassifier(invariance=None, shape={0: "increasing"}).fit(Z, values > 0)
    assert model.shape_certificate_.proved
    check_not_refuted(model)
    with pytest.raises(ValueError, match="more than two classes"):
        rkhs.InvariantClassifier(shape={0: "increasing"}).fit(Z, np.arange(80) % 3)


def test_sums_of_kernels_are_proved_feature_by_feature():
    """Six features, of which each acts by itself: six proofs in one dimension."""
    own = np.random.default_rng(0)
    Z = own.uniform(0, 1, (100, 6))
    target = Z.sum(axis=1) + np.sin(6 * Z[:, 0]) + 0.1 * own.standard_normal(100)
    kernel = rkhs.kernels.additive(rkhs.Gaussian(0.4), 6)
    model = rkhs.InvariantRegressor(kernel, invariance=None, shape=dict.fromkeys(range(6), "increasing"))
    certificate = model.fit(Z, target).shape_certificate_
    assert certificate.proved
    assert max(proof.cells for proof in certificate.proofs) < 100
    assert certificate.points < 60  # constraints along a feature do not repeat themselves in the others
    assert rkhs.Gradient(own.uniform(*certificate.box, (5000, 6)))(model.function_).min() >= 0


def setting(seed, points, features):
    """Random data, weights, units and shapes."""
    random = np.random.default_rng(seed)
    n, t = int(random.integers(1, features + 1)), int(5 * (points / 5) ** random.uniform())
    C, unit, scale = 10 ** random.uniform(-6, 12), 10 ** random.uniform(-9, 9), 10 ** random.uniform(-0.5, 1)
    Z = random.uniform(-1, 1, (t, n))
    bent = random.standard_normal() * np.sin(3 * Z[:, 0]) + random.standard_normal() * (Z**2).sum(axis=1)
    target = unit * (Z.sum(axis=1) + bent + 0.3 * random.uniform() * random.standard_normal(t))
    words = [str(word) for word in random.choice(KINDS, n)]
    shapes = [
        {0: words[0]},
        dict(enumerate(words)),
        {"f": tuple(np.quantile(target, [0.1, 0.9]).tolist())},
        {tuple(range(n)) if n > 1 else 0: str(random.choice(KINDS[2:]))},
    ]
    kind = rkhs.InvariantRegressor
    if random.uniform() < 0.2:
        target, kind, shapes = (target > np.median(target)).astype(int), rkhs.InvariantClassifier, shapes[:2]
    return kind(scale=scale, C=C, invariance=None, shape=shapes[random.integers(len(shapes))]), Z, target


def check_setting(seed, points, features, seconds):
    """Fit within the time, and let the referee look at all that is proved; return the numbers of claims and proofs.

    The clock goes a millisecond further at each look, which is about what it does on a computer.
    """
    model, Z, target = setting(seed, points, features)
    told = f"seed {seed}: {model}, {Z.shape}"
    with ticking(1e-3) as clock:
        fit_quietly(model.set_params(shape=rkhs.Shape(model.shape, time_limit=seconds)), Z, target)
    assert clock.now <= 1.1 * seconds + 0.1, told
    check_not_refuted(model, told)
    return len(model.shape_certificate_.proofs), sum(p.status == "proved" for p in model.shape_certificate_.proofs)


@pytest.mark.parametrize("seed", range(6))
def test_no_fit_fails_and_no_proof_is_refuted(seed):
    check_setting(seed, points=40, features=2, seconds=0.5)


@pytest.mark.slow
def test_no_fit_fails_and_no_proof_is_refuted_in_many_settings():
    counts = [check_setting(seed, points=200, features=3, seconds=5.0) for seed in range(1000, 1250)]
    claims, proved = np.sum(counts, axis=0)
    print(f"{len(counts)} fits, {claims} claims, {proved} proved, none refuted")
    assert proved > 0.6 * claims


@pytest.mark.slow
@pytest.mark.parametrize("shape", [{0: "increasing"}, {0: "convex"}])
def test_weights_from_nothing_to_everything(shape):
    """At C = 1e4 the factorization of what the data leave used to fail, in the choice of points."""
    Z, target = line(t=10)
    for C in (1e-6, 1e-3, 1.0, 1e4, 1e8, 1e12):
        model = rkhs.InvariantRegressor(scale=0.5, C=C, invariance=None, shape=rkhs.Shape(shape, time_limit=1.0))
        with ticking(1e-3):
            (proof,) = fit_quietly(model, Z, target).shape_certificate_.proofs
        assert proof.status == "proved" or C > 1e4
        check_not_refuted(model)
        assert np.abs(model.predict(Z) - target).max() <= np.ptp(target)


@pytest.mark.parametrize(
    ("features", "shape"), [(1, {0: "increasing"}), (2, {(0, 1): "convex"}), (1, {0: "concave", "f": (-0.5, 0.8)})]
)
def test_units_of_targets(features, shape):
    """Targets c y have the function c f and c times the margins: the weights of squared losses have no unit of y."""
    Z, target = line(features=features)
    one = fitted((Z, target), shape, scale=1.5)
    assert one.shape_certificate_.proved
    for unit in (1e-9, 1e9):
        scaled = {key: tuple(unit * bound for bound in said) if key == "f" else said for key, said in shape.items()}
        other = fitted((Z, unit * target), scaled, scale=1.5)
        np.testing.assert_allclose(other.predict(Z) / unit, one.predict(Z), rtol=1e-9)
        margins = [[proof.margin for proof in model.shape_certificate_.proofs] for model in (one, other)]
        np.testing.assert_allclose(np.array(margins[1]) / unit, margins[0], rtol=1e-4)


@pytest.mark.parametrize("unit", [1e-6, 2.0**20])
def test_units_of_features(unit):
    """Points s x with scales s times as long: the same f, slopes by 1 / s and second derivatives by 1 / s^2."""
    Z, target = line(features=2)
    shape = {0: "increasing", 1: "concave", (0, 1): "concave"}
    one, other = (fitted((s * Z, target), shape, scale=1.5 * s) for s in (1.0, unit))
    np.testing.assert_allclose(other.predict(unit * Z), one.predict(Z), rtol=1e-9)
    for before, after in zip(one.shape_certificate_.proofs, other.shape_certificate_.proofs, strict=True):
        assert before.status == after.status == "proved"
        assert after.margin * unit**after.claim.order == pytest.approx(before.margin, rel=1e-4)


def test_units_of_slopes_without_values():
    """The size of f follows from measured slopes; a box without a side in a feature has the unit of the kernel."""
    Z, _ = line(features=2)
    Z[:, 1] = 0.3
    margins = []
    for unit in (1.0, 1e-6):
        slopes = rkhs.Term(rkhs.Gradient(unit * Z), rkhs.Squared(), np.cos(4 * Z) / unit, weight=100 * unit**2)
        shaped = rkhs.Shape({0: "increasing", 1: "convex"}).solve(rkhs.Problem(rkhs.Gaussian(0.5 * unit), [slopes]))
        assert shaped.certificate.proved
        margins.append([proof.margin * unit**proof.claim.order for proof in shaped.certificate.proofs])
    np.testing.assert_allclose(margins[0], margins[1], rtol=1e-3)


def test_room_at_points_has_a_limit():
    """Where points are too few for a proof, f stays near its targets; the room used to grow fourfold every round."""
    Z, target = line(unit=1e-4, t=60, features=3)
    shape = rkhs.Shape({0: "increasing"}, time_limit=0.5)
    with ticking(1e-3), pytest.warns(ConvergenceWarning, match="not proved"):
        model = fitted((Z, target), shape, scale=0.3, C=1e3)
    assert np.abs(model.predict(Z) - target).max() <= np.ptp(target)


@pytest.mark.parametrize(("shape", "small", "large"), [({0: "increasing"}, 0.335, 0.6), ({0: "convex"}, 0.118, 0.3)])
def test_small_violations_are_corrected_and_large_ones_reported(shape, small, large):
    """With one round, there are no constraints: a tilt or a parabola is added if it is small, and else a warning."""
    t = np.linspace(0, 6, 60)
    trend = t if shape[0] == "increasing" else t**2 / 2
    for size in (small, large):
        inner = rkhs.Shape(shape, box=[[1e6 + 1], [1e6 + 5]])
        model = rkhs.InvariantRegressor(scale=1.0, C=1e4, invariance=None, shape=inner)
        with with_limits(shape_rounds=1, shape_dense=0):
            fit_quietly(model, t[:, None] + 1e6, trend + size * np.cos(3 * t))
        certificate = model.shape_certificate_
        added = certificate.tilted if shape[0] == "increasing" else certificate.bent
        assert certificate.points == 0
        assert certificate.proved == (size == small), certificate
        assert set(added) == ({0} if size == small else set())
        assert ("corrected by" in repr(certificate)) == bool(added)
        check_not_refuted(model)
    with with_limits(shape_rounds=1, shape_dense=0), pytest.warns(ConvergenceWarning, match="not proved on the whole"):
        model.fit(t[:, None] + 1e6, trend + size * np.cos(3 * t))


def test_what_is_refused():
    for options, sentence in (
        ({"kernel": rkhs.Matern(2.5), "shape": {0: "increasing"}}, "use Matern"),
        ({"kernel": rkhs.kernels.Polynomial(2), "shape": {0: "increasing"}}, "kernel of x - y"),
        ({"shape": rkhs.Shape({0: "increasing"}, box=[0, 1])}, "box of a Shape"),
    ):
        with pytest.raises(ValueError, match=sentence):
            rkhs.InvariantRegressor(**options).fit(X, y)
    with pytest.raises(ValueError, match="single function"):
        rkhs.InvariantRegressor(shape={0: "increasing"}).fit(X, np.stack([y, y], axis=1))
    with pytest.raises(ValueError, match="all rows in memory"):
        rkhs.InvariantRegressor(shape={0: "increasing"}, approximation=rkhs.Landmarks(5)).partial_fit(X, y)


def test_monotone_everywhere_is_a_shape():
    options = {"scale": 1.0, "C": 10.0}
    known = rkhs.InvariantRegressor(**options, invariance=Monotone({0: +1}, everywhere=True)).fit(X, y)
    assert known.shape_certificate_.proved
    np.testing.assert_array_equal(known.predict(X), fitted((X, y), {0: "increasing"}).predict(X))
    both = rkhs.InvariantRegressor(**options, invariance=Monotone({0: +1}, everywhere=True), shape={"f": (0, 1)})
    assert len(both.fit(X, y).shape_certificate_.proofs) == 3
    assert not hasattr(both.set_params(nu=0.0, shape=None).fit(X, y), "shape_certificate_")
    with pytest.raises(ValueError, match="contradicts itself"):
        both.set_params(nu=1.0, shape={0: "decreasing"}).fit(X, y)
    both.set_params(invariance=Monotone({0: +1}, everywhere=True), shape={(0, 1): "convex", 0: ["convex"]})
    assert len(both.fit(*bowl()).shape_certificate_.proofs) == 3
    search = rkhs.InvariantRegressorCV(invariance=Monotone({0: +1}, everywhere=True), Cs=[1, 10], nus=[1.0], cv=3)
    assert search.fit(X, y).shape_certificate_.proved


@pytest.mark.parametrize("dense", [10_000, 0])
def test_rounds_find_the_constrained_minimum(dense):
    """The certified solution of the same problem, whether points were found by one factorization or by solutions."""
    Z, target = line(t=60, features=2)
    with with_limits(shape_dense=dense):
        model = fitted((Z, target), {0: "increasing", 1: "increasing"}, scale=0.7, C=3.0)
    assert model.shape_certificate_.proved
    reference = model.problem_.solve(tol=1e-8)  # by a solver that starts at zero
    np.testing.assert_allclose(model.predict(Z), reference.function(Z), atol=1e-5)
    assert model.solution_.relative_gap < 1e-6
    assert dense or model.solution_.iterations > 0
    assert not dense or model.solution_.iterations == 0  # the start is the minimum: a certificate is all that is left


def test_tensors_have_shapes_too():
    """Points of constraints go where those of the data are; they were refused as arrays of another library."""
    torch = pytest.importorskip("torch")
    Z, target = line()
    model = rkhs.InvariantRegressor(scale=0.5, C=10.0, invariance=None, shape={0: "increasing", "f": (-0.5, None)})
    expected = model.fit(Z, target).predict(Z)
    with sklearn.config_context(array_api_dispatch=True):
        found = model.fit(torch.asarray(Z), torch.asarray(target)).predict(torch.asarray(Z))
    assert model.shape_certificate_.proved
    np.testing.assert_allclose(found.numpy(), expected, atol=0.01 * np.ptp(target))  # constraints are at other points


def test_rounding_that_hides_a_claim_is_told():
    """Coefficients of 1e10 that cancel: a smaller C is the remedy."""
    with pytest.warns(ConvergenceWarning, match=r"smaller C"):
        fitted((X[:12], np.sign(np.sin(40 * X[:12, 0]))), {0: "convex", "f": (-1e-9, None)}, scale=30.0, C=1e12)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_a_proof_of_too_many_cells_is_announced(unit, recwarn):
    """Before anything is solved, and with the kernel that is proved feature by feature."""
    points = unit * np.random.default_rng(0).standard_normal((60, 10))

    def announce(kernel, constraints):
        problem = rkhs.Problem(kernel, [rkhs.Term(rkhs.Evaluation(points), rkhs.Squared(), points[:, 0])])
        with with_limits(shape_rounds=1, shape_dense=0, proof_work=1.0):
            rkhs.Shape(constraints, time_limit=1e-9).solve(problem)
        return " ".join(str(note.message) for note in recwarn.list if "20,000 are tried" in str(note.message))

    assert not announce(rkhs.kernels.additive(rkhs.Gaussian(unit), 10), dict.fromkeys(range(10), "increasing"))
    assert not announce(rkhs.Gaussian((2.2 * unit, 2.2 * unit, *[1e3 * unit] * 8)), {0: "convex"})
    assert "10 interacting features" in announce(rkhs.Gaussian(4.4 * unit), {0: "increasing"})
    assert "Bounds of f itself involve" in announce(rkhs.kernels.additive(rkhs.Gaussian(unit), 10), {"f": (0.0, None)})
