"""Sums of derivatives of Gram entries: the formulas for jets against the tables of tangents."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import rkhs
from rkhs._core.gram.sensitivity import sensitivity
from rkhs._core.limits import with_limits

RNG = np.random.default_rng(3)
KERNELS = {
    "Gaussian": lambda s: rkhs.Gaussian(s),
    "Matern 3/2": lambda s: rkhs.Matern(1.5, s),
    "Matern 5/2": lambda s: rkhs.Matern(2.5, s),
    "RationalQuadratic": lambda s: rkhs.kernels.RationalQuadratic(0.8, s),
    "pulled back": lambda s: rkhs.Matern(1.5, (0.5, 2.0)) @ np.ones((2, len(s))),
    "one scale, pulled back": lambda s: rkhs.Gaussian(0.8) @ (1 / np.array(s)),
    "sum": lambda s: 2.0 * rkhs.Gaussian(s) + 0.5 * (rkhs.Matern(2.5, 0.9) + rkhs.kernels.Linear()),
    "product": lambda s: rkhs.Gaussian(s) * rkhs.Matern(1.5, s),
    "dot product": lambda s: rkhs.kernels.Polynomial(3) + 0.3 * rkhs.kernels.Linear(),
}


def families(X):
    """Values and first derivatives: shared directions, own ones, matrices, several parts on the same rows."""
    t, n = X.shape
    rng = np.random.default_rng(t)
    return [
        rkhs.Evaluation(X),
        2.0 * rkhs.Gradient(X),
        rkhs.functionals.DirectionalDerivative(X, rng.standard_normal((t, 2, n))),
        rkhs.Derivative(X, axes=[0]) + 0.3 * rkhs.Evaluation(X),
        rng.standard_normal((3, t)) @ rkhs.Evaluation(X),
        rng.standard_normal((3, t * n)) @ rkhs.Gradient(X),
        rkhs.Derivative(X, axes=[[0], [n - 1]]),
    ]


def named(kernel):
    for name, value in kernel.parameters().items():
        yield from [(name, j) for j in range(len(value))] if isinstance(value, tuple) else [(name, None)]


def check(kernel, L, M):
    B, every = RNG.standard_normal((L.size, M.size)), list(named(kernel))
    found = sensitivity(kernel, L, M, B, every)
    assert list(found) == every
    for setting in every:
        table = rkhs.gram(kernel.tangent(*setting), L, None if M is L else M).dense()
        assert abs(found[setting] - np.vdot(B, table)) <= 1e-12 * np.linalg.norm(B * table), setting


@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("name", KERNELS)
def test_all_pairs_of_families(name, n):
    """In tiles, with points that coincide and points that are near."""
    X = RNG.standard_normal((4, n))
    X[2], X[3] = X[1], X[1] + 1e-7
    kernel = KERNELS[name](tuple(RNG.uniform(0.5, 2.0, n)))
    every = rkhs.stack(families(X))
    with with_limits(sensitivity_entries=50):
        check(kernel, every, every)
        check(kernel, every, rkhs.stack([rkhs.Gradient(X[1:4]), rkhs.Evaluation(X)]))


@given(
    st.sampled_from(sorted(KERNELS)), st.integers(0, 6), st.integers(0, 6), st.integers(1, 4), st.integers(0, 2**32 - 1)
)
@settings(max_examples=40, deadline=None)
def test_any_two_families(name, left, right, t, seed):
    rng = np.random.default_rng(seed)
    kernel = KERNELS[name](tuple(rng.uniform(0.3, 3.0, 2)))
    check(kernel, families(rng.standard_normal((t, 2)))[left], families(rng.standard_normal((3, 2)))[right])


def test_other_functionals_take_the_tables():
    X = RNG.standard_normal((4, 2))
    L = rkhs.stack([rkhs.functionals.Laplacian(X), rkhs.Evaluation(X)])
    check(rkhs.Gaussian((0.7, 1.2)), L, L)
    check(rkhs.Gaussian((0.7, 1.2)), rkhs.functionals.LocalAverage(X, 0.3), L)


@pytest.mark.parametrize(
    "kernel",
    [
        rkhs.kernels.Laplace(0.8),
        rkhs.kernels.Laplace((0.5, 1.0, 2.0)),
        rkhs.kernels.Periodic(7.0, 0.8),
        rkhs.kernels.Symmetrized(rkhs.Gaussian(0.8), np.stack([np.eye(3), -np.eye(3)])),
        rkhs.kernels.CurlFree(rkhs.Gaussian(0.8)) @ np.ones((6, 3)),
        rkhs.Matern(2.5, 0.8) @ rkhs.kernels.Standardized((0.1, 0.2, 0.3), (1.0, 2.0, 0.5)),
    ],
    ids=repr,
)
def test_values_under_other_kernels(kernel):
    X, Y = RNG.standard_normal((7, 3)), RNG.standard_normal((5, 3))
    L = rkhs.stack([RNG.standard_normal((4, 7)) @ rkhs.Evaluation(X), 2.0 * rkhs.Difference(X, X[::-1].copy())])
    check(kernel, L, rkhs.Evaluation(Y))


def test_formulas_are_used(monkeypatch):
    """A table for each of many features would take far longer."""
    monkeypatch.setattr(rkhs.extend.Kernel, "tangent", lambda *_: pytest.fail("a table was computed"))
    X = RNG.standard_normal((4, 3))
    L = rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X)])
    kernel = 2.0 * rkhs.Gaussian((1.0, 2.0, 3.0))
    sensitivity(kernel, L, L, np.ones((L.size, L.size)), [("kernel.scale", j) for j in range(3)])
