"""Law: Gram matrices at coincident and nearly coincident points are what they are elsewhere.

At points that are 0, 1e-300, 1e-12, 1e-8 and 1e-4 apart, for every kernel with every bounded family: all
entries finite, the matrix exactly symmetric and, if the kernel is positive definite, no eigenvalue below
-1e-10 of the largest; and the structured product equals the dense one.
"""

import numpy as np
import pytest
import torch

import rkhs
from registry import DIMENSIONS, FAMILIES, KERNELS, bounded

DISTANCES = (0.0, 0.0, 1e-300, 1e-12, 1e-8, 1e-4)  # from the first of the points
OFFSET = 1e6
KINDS = ("Evaluation", "Gradient", "DirectionalDerivative, several", "Hessian")
# Automatic differentiation is slow, and the same in every dimension.
CASES = [(name, d) for name in KERNELS for d in DIMENSIONS if name != "Autodiff" or d == 2]


def crowd(d):
    """The origin and points at all distances from it, a second point with a near one, and a third."""
    rng = np.random.default_rng(d)
    u, v, x, y = rng.normal(size=(4, d)) / d**0.5
    u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
    return np.stack([*(h * u for h in DISTANCES), x, x + 1e-8 * v, y])


def families(kernel, X):
    """All bounded families, those of some kinds together, and averages in the plane, of NumPy; of PyTorch the kinds."""
    d = X.shape[1]
    names = bounded(kernel, d)
    kinds = [FAMILIES[f].make(X) for f in names if f in KINDS]
    if not isinstance(X, np.ndarray):
        return kinds
    averages = (
        [rkhs.functionals.LocalAverage(X, 0.4), rkhs.functionals.LocalDeviation(X, 0.4)]
        if d == 2 and X.max() < OFFSET / 2
        else []
    )
    return [*(FAMILIES[f].make(X) for f in names), rkhs.stack(kinds), *averages]


@pytest.mark.parametrize(
    ("name", "d"), [pytest.param(name, d, marks=pytest.mark.slow if d != 2 else ()) for name, d in CASES]
)
def test_near_points(name, d):
    kernel, X = KERNELS[name].make(d), crowd(d)
    clouds = [X, X + OFFSET] if KERNELS[name].stationary else [X]
    for Z in clouds if d != 2 else [*clouds, *map(torch.tensor, clouds)]:
        for L in families(kernel, Z):
            G, v = rkhs.gram(kernel, L), np.random.default_rng(0).normal(size=(L.size, 2))
            dense = np.asarray(G.dense())
            assert np.all(np.isfinite(dense))
            assert np.array_equal(dense, dense.T)
            scale = (np.abs(dense) @ np.abs(v)).max()  # what the product adds up
            assert np.abs(np.asarray(G @ v) - dense @ v).max() <= 1e-12 * scale
            if kernel.order == 0 and scale > 1e-12:  # a linear function does not deviate from its average
                eigenvalues = np.linalg.eigvalsh(dense)
                assert eigenvalues[0] >= -1e-10 * eigenvalues[-1]


@pytest.mark.parametrize("name", [name for name, case in KERNELS.items() if case.stationary])
def test_limits(name):
    """At distance 1e-300 the entries are those at 0, and at 1e-12 they have hardly left them (by r^(1/2) at most)."""
    kernel, u = KERNELS[name].make(2), np.array([[0.6, 0.8]])
    for f in ("Evaluation", "Gradient", "Hessian"):
        if f in bounded(kernel, 2):
            L = FAMILIES[f].make(0 * u)
            there, nearest, near = (rkhs.gram(kernel, L, FAMILIES[f].make(h * u)).dense() for h in (0.0, 1e-300, 1e-12))
            assert np.array_equal(nearest, there)
            assert np.abs(near - there).max() <= 1e-5 * max(1.0, np.abs(there).max())
