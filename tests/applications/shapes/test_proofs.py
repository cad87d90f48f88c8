"""Laws of proofs for all kernels: what is proved is true, what fails is a point, and rounding counts.

The referee is a dense search by functionals of the library, which shares nothing with the proofs but f.
"""

from dataclasses import replace

import numpy as np
import pytest

import rkhs
from referee import least_found, values_of
from rkhs._core.limits import with_limits

KERNELS = {
    "gaussian": rkhs.Gaussian((0.7, 1.1)),
    "matern": rkhs.Matern(4.5, 0.8),
    "rational": rkhs.kernels.RationalQuadratic(1.0, 0.8),
    "sum": 2.0 * rkhs.Gaussian(1.0) + rkhs.kernels.additive(rkhs.Gaussian(0.5), 2),
}
SHAPES = [{0: "increasing"}, {1: "concave"}, {"f": (0.3, None)}, {"f": (None, 0.3)}, {(0, 1): "convex"}]
Z = np.random.default_rng(1).uniform(-1, 1, (20, 2))
slopes = rkhs.functionals.DirectionalDerivative(Z, np.random.default_rng(2).standard_normal((20, 2)))
FAMILIES = {
    "values and slopes": rkhs.stack([rkhs.Evaluation(Z), slopes]),
    "averages": rkhs.stack([rkhs.functionals.LocalAverage(Z, width=0.3), np.ones((2, 20)) @ rkhs.Evaluation(Z)]),
}


def function(kernel, functionals=FAMILIES["values and slopes"], degree=2, seed=1):
    own = np.random.default_rng(seed)
    basis = None if degree is None else rkhs.Polynomials(degree)
    coefficients = None if basis is None else own.standard_normal(basis.size(2))
    return rkhs.results.Function(kernel, functionals, own.standard_normal(functionals.size), basis, coefficients)


def proof_of(f, shape, low, high):
    (proof,) = rkhs.Shape(shape, box=[low, high]).prove(f).proofs
    return proof


@pytest.mark.parametrize(
    ("name", "family"), [*((name, "values and slopes") for name in KERNELS), ("gaussian", "averages")]
)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("degree", [None, 2])
def test_bounds_are_below_all_values_and_failures_are_points(name, family, shape, degree):
    """In cells of all sizes: one of them is a proof with a single cell."""
    f, own = function(KERNELS[name], FAMILIES[family], degree), np.random.default_rng(2)
    for center, half in zip(own.uniform(-1, 1, (8, 2)), 10 ** own.uniform(-4, 0, (8, 2)), strict=True):
        box = np.stack([center - half, center + half])
        with with_limits(proof_cells=1 if half.max() < 0.2 else 200):
            proof = proof_of(f, shape, *box)
        assert (proof.status == "proved") == (proof.margin >= 0)
        assert proof.margin <= least_found(proof.claim, f, box, own, count=300, rounds=2)
        assert values_of(proof.claim, f, proof.worst[None])[0] == pytest.approx(proof.least, rel=1e-9, abs=1e-9)
        if proof.status == "fails":
            assert values_of(proof.claim, f, proof.candidates).max() < 0
            if proof.claim.jointly:  # negative along the direction that is stated for each point
                along = np.einsum(
                    "ij,ijk,ik->i", proof.directions, rkhs.functionals.Hessian(proof.candidates)(f), proof.directions
                )
                assert along.max() < 0


@pytest.mark.parametrize("name", KERNELS)
def test_bounds_are_sharp_in_small_cells(name):
    """Of the second order at least: a tenth of the sides, a hundredth of what is lost."""
    f = function(KERNELS[name], degree=None)

    def lost(h, center):
        with with_limits(proof_cells=1):
            proof = proof_of(f, {0: "increasing"}, center - h, center + h)
        return least_found(proof.claim, f, proof.box, np.random.default_rng(0), count=100, rounds=3) - proof.margin

    centers = np.random.default_rng(3).uniform(-1, 1, (10, 2))
    assert 0 <= np.mean([lost(1e-3, c) for c in centers]) < 2e-2 * np.mean([lost(1e-2, c) for c in centers])


def test_rows_that_differ_in_ignored_features_are_summed_up_once():
    """As much work as for their distinct rows; derivatives along the ignored features are zero."""
    codes = np.column_stack([np.arange(40) % 3, np.arange(40) % 4, np.linspace(-1, 1, 40)]).astype(float)
    slopes = rkhs.functionals.DirectionalDerivative(codes, np.random.default_rng(0).standard_normal((40, 3)))
    families = [rkhs.Evaluation(codes), slopes, rkhs.Derivative(codes, axes=[2])]
    kernel = rkhs.kernels.additive(rkhs.Gaussian(0.8), 3)
    f = rkhs.results.Function(kernel, rkhs.stack(families), np.random.default_rng(1).standard_normal(120))
    with with_limits(proof_cells=1):
        proof = proof_of(f, {0: "increasing"}, [-0.1] * 3, [0.1] * 3)
        one = proof_of(
            replace(f, functionals=rkhs.Evaluation([[0.0, 0.0, 0.0]]), coefficients=[1.0]),
            *[{0: "increasing"}, [-0.1] * 3, [0.1] * 3],
        )
    assert proof.work < 7 * one.work
    assert values_of(proof.claim, f, proof.worst[None])[0] == pytest.approx(proof.least)


@pytest.mark.parametrize(("degree", "shape"), [(1, {"f": (-0.5, None)}), (2, {0: "increasing"})])
def test_a_basis_of_features_that_the_kernel_does_not_see(degree, shape):
    """f = x_1, or x_0 x_1, beside a kernel of x_0 alone: values and slopes change with x_1 too."""
    kernel = rkhs.Gaussian(1.0) @ np.array([[1.0, 0.0]])
    coefficients = [0.0, 0.0, 1.0] if degree == 1 else [0.0, 0.0, 0.0, 0.0, 1.0, 0.0]
    f = rkhs.results.Function(kernel, rkhs.Evaluation(Z[:1]), [1e-9], rkhs.Polynomials(degree), coefficients)
    assert proof_of(f, shape, [-1.0, -1.0], [1.0, 1.0]).status == "fails"
    assert proof_of(f, shape, [-1.0, 0.01], [1.0, 1.0]).status == "proved"


@pytest.mark.parametrize("curvatures", [(2.0, 0.5), (2.0, -0.5)])
def test_margins_of_hessians_are_those_of_hessians(curvatures):
    """f = sum a_k x_k^2 / 2: the least eigenvalue is the least of a, in whatever scales the proof measures features."""
    coefficients = [0.0, 0.0, 0.0, curvatures[0] / 2, 0.0, curvatures[1] / 2]
    f = rkhs.results.Function(
        rkhs.Gaussian((3.0, 20.0)), rkhs.Evaluation([[0.1, 0.2]]), [1e-9], rkhs.Polynomials(2), coefficients
    )
    proof = proof_of(f, {(0, 1): "convex"}, [-1.0, -1.0], [1.0, 1.0])
    assert proof.status == ("proved" if min(curvatures) > 0 else "fails")
    assert proof.margin <= min(curvatures)
    assert np.sign(proof.margin) == np.sign(min(curvatures))
    assert proof.least == pytest.approx(min(curvatures), rel=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rounding_counts(dtype):
    """Large coefficients that cancel: a value of 1e-9 may be nothing but rounding, and float32 is not enough."""
    size = 1e9 if dtype is np.float64 else 1e5
    points = np.array([[0.0], [10 / size]], dtype=dtype)
    f = rkhs.results.Function(rkhs.Gaussian(1.0), rkhs.Evaluation(points), np.array([size, -size], dtype=dtype))
    box = np.array([[0.5], [0.6]])
    least = least_found(proof_of(f, {"f": (0, None)}, *box).claim, f, box, np.random.default_rng(0))
    proof = proof_of(f, {"f": (least - 1e-9, None)}, *box)
    assert proof.status != "proved"
    assert proof.hidden or dtype is np.float32
    assert proof.least - proof.margin < 1e-3 * size


def six_features():
    """A function of six features that act together, and a box on which a proof takes long."""
    Z = np.random.default_rng(0).uniform(0, 1, (60, 6))
    return rkhs.InvariantRegressor(invariance=None, C=1.0).fit(Z, Z.sum(axis=1)).function_, [[0.0] * 6, [1.0] * 6]


def test_what_is_not_proved_is_told():
    f, box = six_features()
    with with_limits(proof_cells=200):
        (proof,) = rkhs.Shape({0: "increasing"}, box).prove(f).proofs
    assert proof.status == "open"
    assert 0 <= proof.share < 1
    assert proof.margin < 0 < proof.least
    assert "open" in repr(proof)


def test_a_proof_ends_at_its_time_limit():
    """What is proved so far is returned, and the next claim is not begun."""
    f, box = six_features()
    limited = rkhs.Shape({0: "increasing", 1: "convex"}, box, time_limit=1e-9).prove(f).proofs
    assert [(proof.status, proof.stopped, proof.margin) for proof in limited] == [("open", True, -np.inf)] * 2
    assert [proof.cells for proof in limited] == [0, 0]
    assert "stopped" in repr(limited[0])
    assert "no value computed" in repr(limited[1])


FUNCTION = rkhs.results.Function(rkhs.Matern(2.5), rkhs.Evaluation(Z[:1]), [1.0])
PARABOLA = replace(FUNCTION, basis=rkhs.Polynomials(2), basis_coefficients=np.ones(6))


@pytest.mark.parametrize(
    ("f", "shape", "sentence"),
    [
        (FUNCTION, {0: ["increasing", "decreasing"]}, "contradicts itself"),
        (FUNCTION, {0: "convex", -2: "concave"}, "contradicts itself"),
        (FUNCTION, {(0, 1): "convex", 0: "concave"}, "contradicts itself"),
        (FUNCTION, {(0, 1): "increasing"}, "each feature"),
        (FUNCTION, {"f": (1, 0)}, "contradicts itself"),
        (FUNCTION, {"f": 3}, "pair of bounds"),
        (FUNCTION, {0: "rising"}, "must be one of increasing"),
        (FUNCTION, {5: "increasing"}, "features 0 to 1"),
        (FUNCTION, {(0, 0): "convex"}, "at least two"),
        (FUNCTION, {(0, 7): "convex"}, "features 0 to 1"),
        (FUNCTION, {"age": "increasing"}, r"'age', but X has no column names: fit .* set_output"),
        (FUNCTION, "increasing", "shape must be"),
        (FUNCTION, {}, "shape must be"),
        (FUNCTION, {0: "convex"}, "use Matern"),
        (PARABOLA, {"f": (0, None)}, "order 3"),  # a norm that bounds two derivatives does not bound x^2 by its first
        (replace(FUNCTION, kernel=rkhs.kernels.Polynomial(2)), {0: "increasing"}, "kernel of x - y"),
        (replace(FUNCTION, coefficients=[[1.0, 2.0]]), {0: "increasing"}, "one output"),
    ],
)  # fmt: skip
def test_what_cannot_be_proved_is_refused(f, shape, sentence):
    with pytest.raises(ValueError, match=sentence):
        rkhs.Shape(shape).prove(f)
