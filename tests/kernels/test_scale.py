"""Length scales: the median of distances, per feature, and "median" until somebody has the data."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist

import rkhs
from rkhs.extend import ScaledKernel
from rkhs.kernels import _scaled as scale_module

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 3))
SCALED = [rkhs.Gaussian, lambda scale: rkhs.Matern(2.5, scale), lambda scale: rkhs.RationalQuadratic(1.5, scale)]


def test_the_median_of_all_distances():
    assert rkhs.kernels.median_scale(X) == pytest.approx(np.median(pdist(X)), rel=1e-15)
    assert isinstance(rkhs.kernels.median_scale(X), float)


def test_duplicates_do_not_count():
    """Distances of 0 say nothing about the length scale, however many points are the same."""
    repeated = np.concatenate([[[0.0], [1.0], [3.0]], np.zeros((50, 1))])
    distances = pdist(repeated)
    assert np.median(distances) == 0.0
    assert rkhs.kernels.median_scale(repeated) == np.median(distances[distances > 0])


@pytest.mark.parametrize("points", [np.ones((7, 2)), np.zeros((1, 2)), np.zeros((0, 2))], ids=["equal", "one", "none"])
def test_no_two_distinct_points_have_no_median(points):
    with pytest.raises(ValueError, match=f"median distance of {len(points)} points is undefined.*as a number"):
        rkhs.kernels.median_scale(points)


def test_above_5000_points_a_sample_is_drawn(monkeypatch):
    assert scale_module.MOST_POINTS == 5000
    seen = []
    monkeypatch.setattr(scale_module, "MOST_POINTS", 20)
    monkeypatch.setattr("scipy.spatial.distance.pdist", lambda points, *_: seen.append(points) or pdist(points))
    found = rkhs.kernels.median_scale(X)
    (sample,) = seen
    assert sample.shape == (20, 3)
    assert len(np.unique(sample, axis=0)) == 20  # without replacement
    assert all(any(np.array_equal(row, x) for x in X) for row in sample)
    assert found == rkhs.kernels.median_scale(X)  # the same in every run
    assert found != rkhs.kernels.median_scale(X, random_state=1)
    assert found == pytest.approx(np.median(pdist(X)), rel=0.3)


def test_sampling_starts_above_the_limit(monkeypatch):
    seen = []
    monkeypatch.setattr(scale_module, "MOST_POINTS", len(X))
    monkeypatch.setattr("scipy.spatial.distance.pdist", lambda points, *_: seen.append(points) or pdist(points))
    assert rkhs.kernels.median_scale(X) == np.median(pdist(X))
    np.testing.assert_array_equal(seen[0], X)  # as they are, none drawn


def test_tensors_and_lists():
    assert rkhs.kernels.median_scale(torch.tensor(X)) == rkhs.kernels.median_scale(X)
    assert rkhs.kernels.median_scale([[0], [1], [3]]) == 2.0


@pytest.mark.parametrize("make", SCALED)
def test_resolved_has_the_median(make):
    kernel = make("median")
    assert kernel.resolved(X) == make(rkhs.kernels.median_scale(X))
    assert kernel.scale == "median"  # the kernel itself stays as it was
    np.testing.assert_array_equal(kernel.resolved(X)(X), make(rkhs.kernels.median_scale(X))(X))


@pytest.mark.parametrize("make", SCALED)
def test_resolved_keeps_a_scale_that_is_there(make):
    assert make(0.7).resolved(X) == make(0.7)
    assert make((0.7, 1.0, 2.0)).resolved(X) == make((0.7, 1.0, 2.0))


@pytest.mark.parametrize(
    "kernel", [rkhs.kernels.Linear(), rkhs.Polynomial(3), rkhs.kernels.Polyharmonic(3), rkhs.ThinPlate(2)], ids=repr
)
def test_resolved_leaves_kernels_without_a_scale(kernel):
    assert kernel.resolved(X) is kernel


def test_resolved_reaches_into_nested_kernels():
    m = rkhs.kernels.median_scale(X)
    nested = 2.0 * (rkhs.Gaussian("median") + rkhs.kernels.Linear()) * rkhs.Matern(
        1.5, "median"
    ) + rkhs.RationalQuadratic(1.0, "median")
    expected = 2.0 * (rkhs.Gaussian(m) + rkhs.kernels.Linear()) * rkhs.Matern(1.5, m) + rkhs.RationalQuadratic(1.0, m)
    assert nested.resolved(X) == expected
    np.testing.assert_array_equal(nested.resolved(X)(X), expected(X))


@pytest.mark.parametrize(
    "A", [np.array([1.0, 2.0, 0.0]), np.array([[1.0, 2.0, 0.0], [0.0, 0.5, 3.0]])], ids=["diagonal", "matrix"]
)
def test_resolved_behind_a_change_of_input_measures_there(A):
    """The median is that of the points the kernel sees, A x."""
    seen = X * A if A.ndim == 1 else X @ A.T
    kernel = rkhs.Gaussian("median") @ A
    assert kernel.resolved(X) == rkhs.Gaussian(rkhs.kernels.median_scale(seen)) @ A
    with pytest.raises(ValueError, match="features"):
        kernel.resolved(X[:, :2])


@pytest.mark.parametrize("make", SCALED)
def test_no_scale_yet_is_an_error_with_the_remedy(make):
    with pytest.raises(ValueError, match=r"no scale yet.*resolved\(X\)"):
        make("median")(X)
    with pytest.raises(ValueError, match=r"no scale yet.*resolved\(X\)"):
        rkhs.gram(make("median"), rkhs.Gradient(X)) @ np.ones(X.size)
    with pytest.raises(ValueError, match=r"no scale yet.*resolved\(X\)"):
        rkhs.gram(make("median"), rkhs.LocalAverage(X, 0.1)).dense()


@pytest.mark.parametrize("make", SCALED)
def test_one_scale_per_feature_is_a_pullback(make):
    """k of scales s is k of scale 1 at x / s, with all derivatives and averages."""
    s = np.array([0.5, 1.0, 3.0])
    average = rkhs.LocalAverage(X[:1], (0.2, 0.4, 1.0))
    L = rkhs.stack([rkhs.Evaluation(X[:5]), rkhs.Gradient(X[:3]), rkhs.Laplacian(X[2:4]), average])
    own, pulled = rkhs.gram(make(tuple(s)), L), rkhs.gram(make(1.0) @ (1 / s), L)
    expected, v = pulled.dense(), rng.standard_normal(L.size)
    np.testing.assert_allclose(own.dense(), expected, rtol=0, atol=1e-12 * abs(expected).max())
    np.testing.assert_allclose(own @ v, expected @ v, rtol=0, atol=1e-12 * (abs(expected) @ abs(v)).max())


@pytest.mark.parametrize("make", SCALED)
def test_equal_scales_are_one_scale(make):
    np.testing.assert_allclose(make((0.7, 0.7, 0.7))(X), make(0.7)(X), rtol=1e-14)


@pytest.mark.parametrize("scale", [2, np.float32(2), np.array(2.0), torch.tensor(2.0)], ids=repr)
def test_a_scale_is_stored_as_a_float(scale):
    assert rkhs.Gaussian(scale) == rkhs.Gaussian(2.0)
    assert repr(rkhs.Gaussian(scale)) == "Gaussian(scale=2.0)"


@pytest.mark.parametrize("scale", [[1, 2], (1.0, 2.0), np.array([1, 2]), torch.tensor([1.0, 2.0])], ids=repr)
def test_scales_are_stored_as_a_tuple(scale):
    assert rkhs.Gaussian(scale) == rkhs.Gaussian((1.0, 2.0))
    assert hash(rkhs.Gaussian(scale)) == hash(rkhs.Gaussian((1.0, 2.0)))


def test_a_kernel_without_a_field_for_its_scale_is_named():
    kernel = dataclass(frozen=True)(
        type("Own", (ScaledKernel,), {"radial_derivatives": lambda self, q, orders: {0: q}})
    )
    with pytest.raises(TypeError, match="Own has no length scale: declare the field `scale"):
        kernel()
