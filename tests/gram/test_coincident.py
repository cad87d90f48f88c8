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
DEFINITE = [(name, d) for name, d in CASES if KERNELS[name].make(d).order == 0]


def crowd(d):
    """The origin and points at all distances from it, a second point with a near one, and a third."""
    rng = np.random.default_rng(d)
    u, v, x, y = rng.normal(size=(4, d)) / d**0.5
    u, v = u / np.linalg.norm(u), v / np.linalg.norm(v)
    return np.stack([*(h * u for h in DISTANCES), x, x + 1e-8 * v, y])


def check_definite(G):
    assert np.all(np.isfinite(G))
    assert np.array_equal(G, G.T)
    eigenvalues = np.linalg.eigvalsh(G)
    assert eigenvalues[0] >= -1e-10 * eigenvalues[-1]


def check_product(G, v):
    """G @ v, structured, and as the dense matrix; relative to what the product adds up."""
    dense = np.asarray(G.dense())
    assert np.all(np.isfinite(dense))
    assert np.array_equal(dense, dense.T)
    scale = (np.abs(dense) @ np.abs(v)).max()
    assert np.abs(np.asarray(G @ v) - dense @ v).max() <= 1e-12 * scale


@pytest.mark.parametrize(("name", "d"), DEFINITE)
def test_definite(name, d):
    kernel, X = KERNELS[name].make(d), crowd(d)
    families = bounded(kernel, d)
    for f in families:
        check_definite(rkhs.gram(kernel, FAMILIES[f].make(X)).dense())
    together = rkhs.stack([FAMILIES[f].make(X) for f in families if f in KINDS])
    check_definite(rkhs.gram(kernel, together).dense())


@pytest.mark.parametrize(("name", "d"), [(name, d) for name, d in DEFINITE if KERNELS[name].stationary])
def test_definite_far_from_the_origin(name, d):
    kernel, X = KERNELS[name].make(d), crowd(d) + OFFSET
    for f in bounded(kernel, d):
        check_definite(rkhs.gram(kernel, FAMILIES[f].make(X)).dense())


@pytest.mark.parametrize("name", [name for name, d in DEFINITE if d == 2])
def test_definite_in_torch(name):
    kernel, X = KERNELS[name].make(2), torch.tensor(crowd(2))
    for f in bounded(kernel, 2):
        if f in KINDS:
            check_definite(rkhs.gram(kernel, FAMILIES[f].make(X)).dense().numpy())


@pytest.mark.parametrize("name", [name for name, d in DEFINITE if d == 2])
def test_definite_averages(name):
    kernel, X = KERNELS[name].make(2), crowd(2)
    check_definite(rkhs.gram(kernel, rkhs.LocalAverage(X, 0.4)).dense())
    if name != "Linear":  # which does not deviate from its average
        check_definite(rkhs.gram(kernel, rkhs.LocalDeviation(X, 0.4)).dense())


@pytest.mark.parametrize(
    ("name", "d"), [pytest.param(name, d, marks=pytest.mark.slow if d != 2 else ()) for name, d in CASES]
)
def test_product(name, d):
    kernel, X = KERNELS[name].make(d), crowd(d)
    clouds = [X, X + OFFSET] if KERNELS[name].stationary else [X]
    for Z in clouds if d != 2 else [*clouds, *map(torch.tensor, clouds)]:
        L = rkhs.stack([FAMILIES[f].make(Z) for f in bounded(kernel, d) if f in KINDS])
        check_product(rkhs.gram(kernel, L), np.random.default_rng(0).normal(size=(L.size, 2)))


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
