"""Shapes in all units and for all weights: no fit fails, no proof is refuted, and units change nothing but units.

The referee is a dense search by functionals of the library, which shares nothing with the proofs but f.
"""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
import sklearn
from sklearn.exceptions import ConvergenceWarning

import rkhs
from clocks import ticking
from rkhs.shapes._claims import Claim
from rkhs.shapes._fitting import Constraint, ShapeCertificate, nonnegative, remedy, size_of
from rkhs.shapes._proofs import BranchAndBound, prove

KINDS = ["increasing", "decreasing", "convex", "concave"]
EPS = np.finfo(np.float64).eps


def values_of(claim, f, P):
    """L_x f - bound at the rows of P, of a Hessian its least eigenvalue."""
    if not claim.jointly:
        found = rkhs.Derivative(P, axes=list(claim.axes))(f) if claim.axes else f(P)
        return claim.sign * found - claim.bound
    entries = [[rkhs.Derivative(P, axes=[j, k])(f) for k in claim.jointly] for j in claim.jointly]
    return np.linalg.eigvalsh(claim.sign * np.moveaxis(np.array(entries), 2, 0))[:, 0]


def least_found(claim, f, box, random, count=3000, rounds=10):
    """The least value at random points, many on the faces of the box, and then near the lowest ones."""
    n = box.shape[1]
    P = random.uniform(*box, (count, n))
    where = random.integers(3, size=(count // 2, n))
    P[: count // 2] = np.choose(where, [np.broadcast_to(box[0], where.shape), box[1], P[: count // 2]])
    values, reach = values_of(claim, f, P), 0.1 * (box[1] - box[0])
    for _ in range(rounds):
        lowest = P[np.argsort(values)[:20]]
        near = np.clip(np.repeat(lowest, 10, axis=0) + reach * random.uniform(-1, 1, (200, n)), *box)
        P, reach = np.concatenate([lowest, near]), 0.6 * reach
        values = values_of(claim, f, P)
    return float(values.min())


def rounding_of(claim, f, box):
    """What rounding may add to a value of L_x f that is a sum over representers, term by term."""
    sizes = np.sqrt(rkhs.gram(f.kernel, f.functionals).diagonal())
    middle = box.mean(axis=0, keepdims=True)
    entries = [(j, k) for j in claim.jointly for k in claim.jointly] or [claim.axes]
    norms = [rkhs.Derivative(middle, axes=list(axes)) if axes else rkhs.Evaluation(middle) for axes in entries]
    norm = np.sqrt(sum(rkhs.gram(f.kernel, one).diagonal()[0] for one in norms))
    return (f.functionals.size + 64) * EPS * norm * float(np.abs(f.coefficients) @ sizes)


def setting(seed, points, features):
    """Random data, weights, units and shapes."""
    random = np.random.default_rng(seed)
    n, t = int(random.integers(1, features + 1)), int(5 * (points / 5) ** random.uniform())
    C, unit, scale = 10 ** random.uniform(-6, 12), 10 ** random.uniform(-9, 9), 10 ** random.uniform(-0.5, 1)
    X = random.uniform(-1, 1, (t, n))
    bent = random.standard_normal() * np.sin(3 * X[:, 0]) + random.standard_normal() * (X**2).sum(axis=1)
    y = unit * (X.sum(axis=1) + bent + 0.3 * random.uniform() * random.standard_normal(t))
    words = [str(word) for word in random.choice(KINDS, n)]
    shapes = [
        {0: words[0]},
        dict(enumerate(words)),
        {"f": tuple(np.quantile(y, [0.1, 0.9]).tolist())},
        {tuple(range(n)) if n > 1 else 0: str(random.choice(KINDS[2:]))},
    ]
    kind = rkhs.InvariantRegressor
    if random.uniform() < 0.2:
        y, kind, shapes = (y > np.median(y)).astype(int), rkhs.InvariantClassifier, shapes[:2]
    shape = shapes[random.integers(len(shapes))]
    return kind(scale=scale, C=C, invariance=None, shape=shape), X, y


def check_setting(seed, points, features, seconds):
    """Fit within the time, and let the referee look at all that is proved; return the numbers of claims and proofs.

    The clock goes a millisecond further at each look, which is about what it does on a computer.
    """
    model, X, y = setting(seed, points, features)
    told = f"seed {seed}: {model}, {X.shape}"
    with ticking(1e-3) as clock:
        fit_quietly(model.set_params(shape=rkhs.Shape(model.shape, time_limit=seconds)), X, y)
    assert clock.now <= 1.1 * seconds + 0.1, told
    certificate = model.shape_certificate_
    assert np.all(np.isfinite(model.function_(X))), told
    for proof in certificate.proofs:
        assert (proof.status == "proved") == (proof.margin >= 0), told
        found = least_found(proof.claim, model.function_, proof.box, np.random.default_rng(0))
        assert found >= proof.margin - rounding_of(proof.claim, model.function_, proof.box), f"{told}: {proof}"
    return len(certificate.proofs), sum(proof.status == "proved" for proof in certificate.proofs)


@pytest.mark.parametrize("seed", range(6))
def test_no_fit_fails_and_no_proof_is_refuted(seed):
    check_setting(seed, points=40, features=2, seconds=1.0)


@pytest.mark.slow
def test_no_fit_fails_and_no_proof_is_refuted_in_many_settings():
    counts = [check_setting(seed, points=200, features=3, seconds=5.0) for seed in range(1000, 1250)]
    claims, proved = np.sum(counts, axis=0)
    print(f"{len(counts)} fits, {claims} claims, {proved} proved, none refuted")
    assert proved > 0.6 * claims


def line(unit=1.0, t=30, features=1, seed=0):
    """Noisy values, in some unit, of a function that rises, falls and rises again along the first feature."""
    random = np.random.default_rng(seed)
    X = random.uniform(-1, 1, (t, features))
    return X, unit * (X.sum(axis=1) + np.sin(4 * X[:, 0]) + 0.3 * random.standard_normal(t))


def fit_quietly(model, X, y):
    """Fit; what a solver or a proof could not do is in what they state."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [{0: "increasing"}, {0: "convex"}])
def test_weights_from_nothing_to_everything(shape):
    """At C = 1e4 the factorization of what the data leave used to fail, in the choice of points."""
    X, y = line(t=10)
    for C in (1e-6, 1e-3, 1.0, 1e4, 1e8, 1e12):
        model = rkhs.InvariantRegressor(scale=0.5, C=C, invariance=None, shape=rkhs.Shape(shape, time_limit=1.0))
        with ticking(1e-3):
            (proof,) = fit_quietly(model, X, y).shape_certificate_.proofs
        assert proof.status == "proved" or C > 1e4
        found = least_found(proof.claim, model.function_, proof.box, np.random.default_rng(0))
        assert found >= proof.margin - rounding_of(proof.claim, model.function_, proof.box)
        assert np.abs(model.predict(X) - y).max() <= np.ptp(y)


@pytest.mark.parametrize(
    ("features", "shape"), [(1, {0: "increasing"}), (2, {(0, 1): "convex"}), (1, {0: "concave", "f": (-0.5, 0.8)})]
)
def test_units_of_targets(features, shape):
    """Targets c y have the function c f and c times the margins: the weights of squared losses have no unit of y."""
    X, y = line(features=features)
    one = rkhs.InvariantRegressor(scale=1.5, C=10.0, invariance=None, shape=shape).fit(X, y)
    assert one.shape_certificate_.proved
    for unit in (1e-9, 1e9):
        scaled = {key: tuple(unit * bound for bound in said) if key == "f" else said for key, said in shape.items()}
        other = rkhs.InvariantRegressor(scale=1.5, C=10.0, invariance=None, shape=scaled).fit(X, unit * y)
        np.testing.assert_allclose(other.predict(X) / unit, one.predict(X), rtol=1e-9)
        margins = [[proof.margin for proof in model.shape_certificate_.proofs] for model in (one, other)]
        np.testing.assert_allclose(np.array(margins[1]) / unit, margins[0], rtol=1e-4)


@pytest.mark.parametrize("unit", [1e-6, 2.0**20])
def test_units_of_features(unit):
    """Points s x with scales s times as long: the same f, slopes by 1 / s and second derivatives by 1 / s^2."""
    X, y = line(features=2)
    shape = {0: "increasing", 1: "concave", (0, 1): "concave"}
    one, other = (
        rkhs.InvariantRegressor(scale=1.5 * s, C=10.0, invariance=None, shape=shape).fit(s * X, y) for s in (1.0, unit)
    )
    np.testing.assert_allclose(other.predict(unit * X), one.predict(X), rtol=1e-9)
    for before, after in zip(one.shape_certificate_.proofs, other.shape_certificate_.proofs, strict=True):
        assert before.status == after.status == "proved"
        assert after.margin * unit**after.claim.order == pytest.approx(before.margin, rel=1e-4)


def test_room_at_points_has_a_limit():
    """Where points are too few for a proof, f stays near its targets; the room used to grow fourfold every round."""
    X, y = line(unit=1e-4, t=60, features=3)
    shape = rkhs.Shape({0: "increasing"}, time_limit=2.0)
    model = rkhs.InvariantRegressor(scale=0.3, C=1e3, invariance=None, shape=shape)
    with ticking(1e-3), pytest.warns(ConvergenceWarning, match="not proved"):
        model.fit(X, y)
    assert np.abs(model.predict(X) - y).max() <= np.ptp(y)


def test_slopes_without_values_have_a_size():
    """The size of f follows from measured slopes, in the unit of f."""
    X, _ = line()
    sizes = []
    for unit in (1.0, 1e-6):
        slopes = rkhs.Term(rkhs.Gradient(unit * X), rkhs.Squared(), target=np.cos(X) / unit)
        sizes.append(size_of(rkhs.Problem(rkhs.Gaussian(0.5 * unit), [slopes])))
    assert sizes[0] == pytest.approx(2 * 0.5 * np.cos(X).max())
    assert sizes[1] == pytest.approx(sizes[0])


def test_a_feature_without_extent_has_the_unit_of_the_kernel():
    """A box without a side in a feature says nothing of its unit; the scale of the kernel does."""
    X, y = line(features=2)
    X[:, 1] = 0.3
    rooms = []
    for unit in (1.0, 1e-6):
        box = unit * np.stack([X.min(axis=0), X.max(axis=0)])
        problem = rkhs.Problem(rkhs.Gaussian(0.5 * unit), [rkhs.Term(rkhs.Evaluation(unit * X), rkhs.Squared(), y)])
        rooms.append(Constraint.of(Claim("rising", (1,)), problem, box, 1.0).room)
    assert rooms[1] == pytest.approx(1e6 * rooms[0])


@pytest.mark.parametrize("curvatures", [(2.0, 0.5), (2.0, -0.5)])
def test_margins_of_hessians_are_those_of_hessians(curvatures):
    """f = sum a_k x_k^2 / 2: the least eigenvalue is the least of a, in whatever scales the proof measures features."""
    at = np.array([[0.1, 0.2]])
    coefficients = [0.0, 0.0, 0.0, curvatures[0] / 2, 0.0, curvatures[1] / 2]
    f = rkhs.results.Function(
        rkhs.Gaussian((3.0, 20.0)), rkhs.Evaluation(at), [1e-9], rkhs.Polynomials(2), coefficients
    )
    (proof,) = prove([Claim("convex", jointly=(0, 1))], f, np.array([[-1.0, -1.0], [1.0, 1.0]]))
    assert proof.status == ("proved" if min(curvatures) > 0 else "fails")
    assert proof.margin <= min(curvatures)
    assert np.sign(proof.margin) == np.sign(min(curvatures))
    assert proof.least == pytest.approx(min(curvatures), rel=1e-6)


def test_a_square_root_of_what_canceled():
    """Numbers of size one whose differences are rounding, some of it negative; and targets in a small unit."""
    random = np.random.default_rng(0)
    G = 1e-16 * random.standard_normal((30, 30))
    assert np.all(np.isfinite(nonnegative(G, random.standard_normal(30), np.ones(30))))
    definite = random.standard_normal((30, 40))
    definite = definite @ definite.T
    right = random.standard_normal(30)
    x = nonnegative(definite, right, np.diag(definite))
    slope = definite @ x - right
    assert x.min() >= 0
    assert slope.min() >= -1e-9
    np.testing.assert_allclose(x * slope, 0, atol=1e-9)
    np.testing.assert_allclose(nonnegative(definite, 1e-12 * right, np.diag(definite)), 1e-12 * x, rtol=1e-9)


def test_points_are_chosen_without_the_quick_look_where_it_fails(monkeypatch):
    def fails(*_, **__):
        raise RuntimeError("Maximum number of iterations reached")

    monkeypatch.setattr("scipy.optimize.nnls", fails)
    X, y = line()
    model = rkhs.InvariantRegressor(scale=0.5, C=10.0, invariance=None, shape={0: "increasing"}).fit(X, y)
    assert model.shape_certificate_.proved


def test_rounding_that_hides_a_claim_is_told():
    """Coefficients of 1e9 that cancel: a value of 1e-9 may be nothing but rounding, and a smaller C is the remedy."""
    points = np.array([[0.0], [1e-9]])
    f = rkhs.results.Function(rkhs.Gaussian(1.0), rkhs.Evaluation(points), [1e9, -1e9])
    box = np.array([[0.5], [0.6]])
    bound = float(f(np.array([[0.6]]))[0])
    proofs = prove([Claim("at least", (), 1.0, min(bound, float(f(box).min())) - 1e-9)], f, box)
    assert proofs[0].status != "proved"
    assert proofs[0].hidden
    assert "smaller C" in remedy(ShapeCertificate(proofs, box, 0), stopped=False)


@dataclass(frozen=True)
class Interrupted(rkhs.solvers.BoxDual):
    """A solver to which Ctrl-C comes."""

    def run_output(self, system, start, monitor):
        raise KeyboardInterrupt


def test_ctrl_c_in_a_solution_ends_the_fit_without_a_certificate(monkeypatch):
    """With many rows the certificate of an iterate that nobody gets would take seconds."""
    X, y = line()
    certified = []
    monkeypatch.setattr("rkhs._core.problem.problem.certificate_of", lambda *given: certified.append(given))
    model = rkhs.InvariantRegressor(loss="absolute", invariance=None, shape={0: "increasing"}, solver=Interrupted())
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert not certified


def test_ctrl_c_in_a_proof_ends_the_fit_of_quantiles(monkeypatch):
    """Not with another round, although nothing is proved."""
    steps = []

    def step(search, most):
        steps.append(search)
        raise KeyboardInterrupt

    monkeypatch.setattr(BranchAndBound, "step", step)
    X, y = line()
    with pytest.raises(KeyboardInterrupt):
        rkhs.QuantileRegressor((0.1, 0.9), scale=0.5).fit(X, y)
    assert len(steps) == 1


def test_tensors_have_shapes_too():
    """Points of constraints go where those of the data are; they were refused as arrays of another library."""
    torch = pytest.importorskip("torch")
    X, y = line()
    shape = {0: "increasing", "f": (-0.5, None)}
    model = rkhs.InvariantRegressor(scale=0.5, C=10.0, invariance=None, shape=shape)
    expected = model.fit(X, y).predict(X)
    with sklearn.config_context(array_api_dispatch=True):
        found = model.fit(torch.asarray(X), torch.asarray(y)).predict(torch.asarray(X))
    assert model.shape_certificate_.proved
    np.testing.assert_allclose(found.numpy(), expected, atol=0.01 * np.ptp(y))  # constraints are at other points
