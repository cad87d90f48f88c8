"""Length scales: the median of distances, per feature, and "median" until somebody has the data."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist

import rkhs
from rkhs._core.limits import Limits, with_limits
from rkhs.extend import ScaledKernel

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 3))
SCALED = [
    rkhs.Gaussian,
    lambda scale: rkhs.Matern(2.5, scale),
    lambda scale: rkhs.kernels.RationalQuadratic(1.5, scale),
]


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


@pytest.mark.parametrize("most", [20, len(X)])
def test_above_5000_points_a_sample_is_drawn(most, monkeypatch):
    assert Limits().median_points == 5000
    seen = []
    monkeypatch.setattr("scipy.spatial.distance.pdist", lambda points, *_: seen.append(points) or pdist(points))
    with with_limits(median_points=most):
        found, again, other = (rkhs.kernels.median_scale(X, random_state=state) for state in (0, 0, 1))
    sample = seen[0]
    assert len(np.unique(sample, axis=0)) == len(sample) == most  # without replacement
    assert all(any(np.array_equal(row, x) for x in X) for row in sample)
    assert found == again  # the same in every run
    assert found == pytest.approx(np.median(pdist(X)), rel=0.3 if most < len(X) else 1e-15)
    assert (found != other) == (most < len(X))


def test_tensors_and_lists():
    assert rkhs.kernels.median_scale(torch.tensor(X)) == rkhs.kernels.median_scale(X)
    assert rkhs.kernels.median_scale([[0], [1], [3]]) == 2.0


@pytest.mark.parametrize("make", SCALED)
def test_resolved_has_the_median_and_keeps_a_scale_that_is_there(make):
    kernel = make("median")
    assert kernel.resolved(X) == make(rkhs.kernels.median_scale(X))
    assert kernel.scale == "median"  # the kernel itself stays as it was
    for scale in (0.7, (0.7, 1.0, 2.0)):
        assert make(scale).resolved(X) == make(scale)
    for plain in (
        rkhs.kernels.Linear(),
        rkhs.kernels.Polynomial(3),
        rkhs.kernels.Polyharmonic(3),
        rkhs.kernels.ThinPlate(2),
    ):
        assert plain.resolved(X) is plain


def test_resolved_reaches_into_nested_kernels():

    def nested(scale):
        product = 2.0 * (rkhs.Gaussian(scale) + rkhs.kernels.Linear()) * rkhs.Matern(1.5, scale)
        return product + rkhs.kernels.RationalQuadratic(1.0, scale)

    assert nested("median").resolved(X) == nested(rkhs.kernels.median_scale(X))


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
    for use in (
        lambda kernel: kernel(X),
        lambda kernel: rkhs.gram(kernel, rkhs.Gradient(X)) @ np.ones(X.size),
        lambda kernel: rkhs.gram(kernel, rkhs.functionals.LocalAverage(X, 0.1)).dense(),
    ):
        with pytest.raises(ValueError, match=r"no scale yet.*resolved\(X\)"):
            use(make("median"))


@pytest.mark.parametrize(
    ("scale", "stored"),
    [(s, 2.0) for s in (2, np.float32(2), np.array(2.0), torch.tensor(2.0))]
    + [(s, (1.0, 2.0)) for s in ([1, 2], (1.0, 2.0), np.array([1, 2]), torch.tensor([1.0, 2.0]))],
    ids=repr,
)
def test_scales_are_stored_as_floats(scale, stored):
    assert rkhs.Gaussian(scale) == rkhs.Gaussian(stored)
    assert hash(rkhs.Gaussian(scale)) == hash(rkhs.Gaussian(stored))
    assert repr(rkhs.Gaussian(scale)) == f"Gaussian(scale={stored})"


def test_a_kernel_without_a_field_for_its_scale_is_named():
    kernel = dataclass(frozen=True)(
        type("Own", (ScaledKernel,), {"radial_derivatives": lambda self, q, orders: {0: q}})
    )
    with pytest.raises(TypeError, match="Own has no length scale: declare the field `scale"):
        kernel()


# The Laplace kernel, of the L1 distance.


def test_the_median_of_the_laplace_kernel_is_that_of_its_distance():
    assert rkhs.kernels.Laplace("median").resolved(X).scale == np.median(pdist(X, "cityblock"))
