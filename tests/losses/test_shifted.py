"""loss(u + shift; b): each method from the loss itself."""

import numpy as np
import pytest

import rkhs
from rkhs.losses._interval import shifted

RNG = np.random.default_rng(0)
LOSSES = (rkhs.Hinge(), rkhs.Logistic(), rkhs.SquaredHinge(), rkhs.Absolute(), rkhs.EpsilonInsensitive(0.2),
          rkhs.Quantile(0.3), rkhs.OneSided(), rkhs.Huber(0.5))  # fmt: skip


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("shape", [(7,), (7, 2)])
def test_methods(loss, shape):
    u, b = RNG.normal(size=shape), np.where(RNG.normal(size=shape) > 0, 1.0, -1.0)
    shift = RNG.normal(size=7)
    at = shift if len(shape) == 1 else shift[:, None]
    moved = shifted(loss, shift)
    for name in ("value", "gradient", "curvature"):
        np.testing.assert_allclose(getattr(moved, name)(u, b), getattr(loss, name)(u + at, b), atol=1e-14)
    np.testing.assert_allclose(moved.prox(u, b, 0.7), loss.prox(u + at, b, 0.7) - at, atol=1e-13)
    low, high = moved.domain(b)
    np.testing.assert_array_equal(low, loss.domain(b)[0])
    np.testing.assert_array_equal(high, loss.domain(b)[1])
    s = loss.gradient(u, b)
    np.testing.assert_allclose(moved.conjugate(s, b), loss.conjugate(s, b) - s * at, atol=1e-13)
    assert (moved.smooth, moved.attained, moved.quadratic) == (loss.smooth, loss.attained, False)
    smooth, plain = moved.smoothed(0.3), loss.smoothed(0.3)
    np.testing.assert_allclose(smooth.value(u, b), plain.value(u + at, b), atol=1e-13)
