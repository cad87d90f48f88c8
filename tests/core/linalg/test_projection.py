"""The nearest point of a box on which linear forms vanish: against cvxpy."""

import cvxpy
import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from rkhs._core.linalg.projection import project
from rkhs.extend import to_numpy


def drawn(rng, size, forms, spread=1.0):
    """A point, a box that holds 0 (with infinite sides, and sides that are points) and forms Q."""
    P = rng.standard_normal((size, forms))
    match rng.integers(4):
        case 0:
            P = np.vander(rng.uniform(-1, 1, size), forms)  # polynomials
        case 1:
            P[rng.uniform(size=size) < 0.5] = 0.0  # derivatives of a constant
        case 2:
            P = np.round(P)
    U, values, _ = np.linalg.svd(P, full_matrices=False)
    Q = U[:, values > 1e-9]
    Q = np.where(abs(Q) > 1e-12, Q, 0.0)
    weight = 10 ** rng.uniform(-spread, spread, size)
    low = np.where(rng.uniform(size=size) < 0.2, -np.inf, -weight * rng.choice([0, 1], size))
    high = np.where(rng.uniform(size=size) < 0.2, np.inf, weight * rng.choice([0, 1], size))
    return rng.standard_normal(size) * weight * rng.choice([0.1, 1, 10]), low, high, Q


def by_cvxpy(point, low, high, Q):
    a = cvxpy.Variable(len(point))
    ends = [a[low > -np.inf] >= low[low > -np.inf], a[high < np.inf] <= high[high < np.inf]]
    problem = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(a - point)), [Q.T @ a == 0, *ends])
    problem.solve(solver=cvxpy.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    return a.value


def projected(point, low, high, Q):
    return project(point[:, None], low[:, None], high[:, None], Q)[:, 0]


def feasible(a, low, high, Q):
    return (
        np.all(a >= low)
        and np.all(a <= high)
        and np.max(abs(Q.T @ a), initial=0.0) <= 50 * np.finfo(float).eps * np.linalg.norm(a)
    )


@pytest.mark.parametrize("seed", range(60))
def test_against_cvxpy(seed):
    rng = np.random.default_rng(1000 + seed)
    size = int(rng.integers(1, 60))
    point, low, high, Q = drawn(rng, size, int(rng.integers(1, min(8, size + 1))))
    a = projected(point, low, high, Q)
    assert feasible(a, low, high, Q)
    np.testing.assert_allclose(a, by_cvxpy(point, low, high, Q), atol=1e-5 * abs(point).max())


@given(st.integers(0, 10**9), st.integers(1, 40), st.integers(1, 6), st.floats(0, 4))
def test_feasible_and_a_projection(seed, size, forms, spread):
    """Feasible to rounding, idempotent, and no feasible point is nearer."""
    rng = np.random.default_rng(seed)
    point, low, high, Q = drawn(rng, size, min(forms, size), spread)
    a = projected(point, low, high, Q)
    assert feasible(a, low, high, Q)
    scale = 1e-9 * max(abs(point).max(), 1e-9) * np.linalg.norm(point)
    np.testing.assert_allclose(projected(a, low, high, Q), a, atol=1e-12 * abs(point).max())
    other = projected(10 ** rng.uniform(-2, 2) * rng.standard_normal(size), low, high, Q)
    assert (point - a) @ (other - a) <= scale * (1 + np.linalg.norm(other))


def test_only_zero_is_feasible():
    """Coefficients of one sign that add up to zero: exactly zero, not almost."""
    rng = np.random.default_rng(2)
    Q = np.full((12, 1), 12**-0.5)
    for scale in (1e-12, 1.0, 1e12):
        a = projected(scale * rng.standard_normal(12), np.zeros(12), np.full(12, np.inf), Q)
        np.testing.assert_array_equal(a, np.zeros(12))


def test_boxes_that_are_points():
    """What cannot move takes its share of Q'a, and the others make up for it."""
    Q = np.full((4, 1), 0.5)
    low, high = np.array([1.0, 1.0, -5.0, -5.0]), np.array([1.0, 1.0, 5.0, 5.0])
    np.testing.assert_allclose(projected(np.zeros(4), low, high, Q), [1, 1, -1, -1], rtol=1e-15)
    fixed = np.array([2.0, -1.0, 0.5, -1.5])
    np.testing.assert_array_equal(projected(np.zeros(4), fixed, fixed, Q), fixed)


def test_where_nothing_is_feasible():
    """The result is in the box, and its Q'a is not 0: `certify` counts it as no bound at all."""
    Q = np.full((4, 1), 0.5)
    low, high = np.ones(4), np.array([2.0, 3.0, np.inf, np.inf])
    a = projected(np.array([0.0, 5.0, 1.5, 1.0]), low, high, Q)
    assert np.all(a >= low)
    assert np.all(a <= high)
    assert Q.T @ a > 1


@pytest.mark.parametrize("spread", [6, 12])
def test_weights_of_all_sizes(spread):
    rng = np.random.default_rng(3)
    for _ in range(20):
        point, low, high, Q = drawn(rng, 30, 1, spread)
        assert feasible(projected(point, low, high, Q), low, high, Q)


def test_columns_libraries_and_precisions():
    rng = np.random.default_rng(4)
    columns = [drawn(rng, 15, 3)[:3] for _ in range(4)]
    point, low, high = (np.stack([column[k] for column in columns], axis=1) for k in range(3))
    Q = np.linalg.qr(rng.standard_normal((15, 3)))[0]
    a = project(point, low, high, Q)
    for c in range(4):
        np.testing.assert_array_equal(a[:, c], projected(point[:, c], low[:, c], high[:, c], Q))
    tensor = project(*(torch.asarray(array) for array in (point, low, high, Q)))
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_allclose(to_numpy(tensor), a, rtol=1e-13, atol=1e-13)
    single = project(*(array.astype(np.float32) for array in (point, low, high, Q)))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, a, atol=1e-5 * abs(point).max())
