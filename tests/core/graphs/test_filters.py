"""Functions of Laplacians: polynomials against eigenvectors, and eigenvectors against inverse matrices."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import torch
from hypothesis import given, settings, strategies as st
from scipy.sparse import csr_array

from rkhs._core.graphs import filters
from rkhs._core.graphs.filters import ChebyshevFilters, Filter, SpectralFilters
from rkhs._core.limits import with_limits
from rkhs.extend import with_progress_callback
from rkhs.kernels import NeighborGraph

T = 40
LAPLACIAN = NeighborGraph.of(np.random.default_rng(0).standard_normal((T, 2)), n_neighbors=4).laplacian
POLYNOMIALS, EXACT = ChebyshevFilters(LAPLACIAN), SpectralFilters(LAPLACIAN)
V = np.random.default_rng(1).standard_normal((T, 5))
B = csr_array(V.T)
ACCURACY = Filter(1, 1.0).accuracy
SEVERAL = [Filter(1, 0.5), Filter(2, 0.003), Filter(3, 0.1), Filter(1, 1e6), Filter(2, 2.0)]


@dataclass(frozen=True)
class Series:
    """A filter that is a Chebyshev polynomial."""

    coefficients: np.ndarray

    def __call__(self, s):
        return np.polynomial.chebyshev.chebval(s - 1, self.coefficients)


def series(degree):
    return Series(np.random.default_rng(degree).standard_normal(degree + 1))


def tolerance(*arrays):
    """The error of the polynomial and the rounding errors of the dtype, for results of the size of V'V."""
    eps = max(np.finfo(np.asarray(array).dtype).eps for array in arrays)
    return (ACCURACY + 100 * eps) * np.linalg.norm(V) ** 2


def error_of(filter):
    """The largest difference of phi and its polynomial, at s = 1 - cos(angle), where T_k(s - 1) = (-1)^k cos(k angle).

    Clenshaw's recurrence would lose digits near s = 0.
    """
    angles = np.concatenate([np.linspace(0, np.pi, 200), np.geomspace(1e-4, np.pi, 200)])
    k = np.arange(len(filter.coefficients))
    polynomial = np.cos(np.outer(angles, k)) @ (filter.coefficients * (-1.0) ** k)
    return np.max(np.abs(polynomial - filter(2 * np.sin(angles / 2) ** 2)))


@given(st.integers(1, 3), st.floats(-4.0, 0.0))
@settings(max_examples=25, deadline=None)
def test_coefficients_add_up_to_the_filter(power, exponent):
    filter = Filter(power, 10.0**exponent)
    assert error_of(filter) <= 1.1 * ACCURACY  # a tenth for the rounding errors of the test


@pytest.mark.parametrize("cutoff", [1e3, 1e12])
def test_large_cutoffs_need_few_coefficients(cutoff):
    assert error_of(Filter(2, cutoff)) <= ACCURACY
    assert len(Filter(2, cutoff).coefficients) <= 4


@pytest.mark.parametrize("power", [1, 2, 3])
def test_the_degree_grows_with_the_root_of_the_cutoff_and_with_the_digits(power):
    fine, coarse, rough = Filter(power, 0.01), Filter(power, 0.04), Filter(power, 0.01, accuracy=1e-6)
    assert 1.7 < len(fine.coefficients) / len(coarse.coefficients) < 2.3
    assert 1.6 < len(fine.coefficients) / len(rough.coefficients) < 2.4
    assert 1e-8 < error_of(rough) <= 1e-6


@pytest.mark.parametrize("highest", [64, 128])
def test_degrees_above_the_highest_are_refused(highest):
    refused = pytest.raises(
        ValueError, match=rf"cutoff=0\.001.* degree above {highest}: use a larger cutoff or accuracy"
    )
    with with_limits(filter_degree=highest):
        assert len(Filter(2, 2.0).coefficients) < highest / 2
        with refused:
            Filter(2, 0.001).coefficients  # noqa: B018


@pytest.mark.parametrize("power", [1, 2, 3])
@pytest.mark.parametrize("cutoff", [0.01, 0.3, 5.0])
def test_eigenvectors_give_the_inverse_matrix(power, cutoff):
    filter = Filter(power, cutoff)
    expected = scipy.linalg.inv(np.eye(T) + np.linalg.matrix_power(LAPLACIAN.toarray() / cutoff, power))
    accuracy = 10 * T * np.finfo(float).eps * (1 + (2 / cutoff) ** power)  # of the inverse, by its condition number
    np.testing.assert_allclose(EXACT.apply(filter, np.eye(T)), expected, atol=accuracy)
    np.testing.assert_allclose(EXACT.inner_products([filter], B, V)[0], V.T @ expected @ V, atol=100 * accuracy)
    assert EXACT.mean_diagonals([filter], np.empty(0)) == [pytest.approx(np.trace(expected) / T, rel=accuracy)]


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 4, 7, 8, 33])
def test_degrees(degree):
    np.testing.assert_allclose(
        POLYNOMIALS.apply(series(degree), V), EXACT.apply(series(degree), V), atol=1e-13 * (degree + 1) ** 2
    )
    (found,), (expected,) = (kind.inner_products([series(degree)], B, V) for kind in (POLYNOMIALS, EXACT))
    np.testing.assert_allclose(found, expected, atol=1e-12 * (degree + 1) ** 2)


def test_filters_of_very_different_degrees_in_one_call():
    several = [*SEVERAL, *map(series, (0, 1, 6, 9))]
    degrees = [len(filter.coefficients) - 1 for filter in several]
    assert min(degrees) == 0
    assert max(degrees) > 400
    found, expected = POLYNOMIALS.inner_products(several, B, V), EXACT.inner_products(several, B, V)
    for own, other, filter in zip(found, expected, several, strict=True):
        np.testing.assert_allclose(own, other, atol=tolerance(V), err_msg=repr(filter))
        np.testing.assert_allclose(POLYNOMIALS.inner_products([filter], B, V)[0], own, atol=tolerance(V))


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("library", [np.asarray, torch.tensor], ids=["NumPy", "PyTorch"])
@pytest.mark.parametrize("filters", [POLYNOMIALS, EXACT], ids=["polynomials", "eigenvectors"])
def test_libraries_and_dtypes(filters, library, dtype, columns):
    block = library(V[:, :columns].astype(dtype))
    before = V[:, :columns].astype(dtype)
    filter, rows = Filter(2, 0.1), csr_array(before.T.astype(np.float64))
    applied, (product,) = filters.apply(filter, block), filters.inner_products([filter], rows, block)
    for found in (applied, product):
        assert type(found) is type(block)
        assert found.dtype == block.dtype
    assert applied.shape == (T, columns)
    assert product.shape == (columns, columns)
    exact = before.astype(np.float64)
    np.testing.assert_allclose(applied, EXACT.apply(filter, exact), atol=tolerance(before))
    np.testing.assert_allclose(product, exact.T @ EXACT.apply(filter, exact), atol=tolerance(before))
    np.testing.assert_array_equal(block, before)  # the caller's block is not overwritten
    np.testing.assert_array_equal(rows.toarray(), before.T)


@pytest.mark.parametrize("kind", [POLYNOMIALS, EXACT], ids=["polynomials", "eigenvectors"])
def test_sparse_rows(kind):
    """Unit vectors, a mean of all nodes, an empty row, and one of both signs."""
    rows = np.zeros((6, T))
    rows[[0, 1], [3, 17]] = 1.0
    rows[2] = 1 / T
    rows[[4, 4, 5], [0, 39, 8]] = 2.0, -2.0, 1.0
    several = [Filter(2, 0.1), Filter(1, 1.0)]
    for found, filter in zip(kind.inner_products(several, csr_array(rows), V), several, strict=True):
        np.testing.assert_allclose(found, rows @ EXACT.apply(filter, rows.T), atol=1e-11)


@pytest.mark.parametrize("most", [0, T * 5 - 1, T * 5, T * 5 + 1])
@pytest.mark.parametrize("cores", [2, 3, T + 3])
def test_threads_share_the_rows(monkeypatch, most, cores):
    filter = Filter(2, 0.1)
    alone = POLYNOMIALS.apply(filter, V), POLYNOMIALS.inner_products([filter], B, V)[0]
    pools = []

    def pool(threads):
        pools.append(threads)
        return ThreadPoolExecutor(threads)

    monkeypatch.setattr(filters, "ThreadPoolExecutor", pool)
    with with_limits(shared_entries=most, threads=cores):
        np.testing.assert_array_equal(POLYNOMIALS.apply(filter, V), alone[0])
        np.testing.assert_array_equal(POLYNOMIALS.inner_products([filter], B, V)[0], alone[1])
    assert pools == 2 * [cores if most < T * 5 else 1]


def test_the_order_of_nodes_does_not_matter():
    """Neighbors are put near each other, and back."""
    shuffled = np.random.default_rng(5).permutation(T)
    other = ChebyshevFilters(csr_array(LAPLACIAN[shuffled][:, shuffled]))
    filter = Filter(2, 0.1)
    np.testing.assert_allclose(other.apply(filter, V[shuffled]), POLYNOMIALS.apply(filter, V)[shuffled], atol=1e-10)
    found, expected = (
        kind.inner_products([filter], b, V)[0] for kind, b in ((other, B[:, shuffled]), (POLYNOMIALS, B))
    )
    np.testing.assert_allclose(found, expected, atol=1e-10)
    rows, columns = POLYNOMIALS.matrix.nonzero()
    assert np.max(np.abs(rows - columns)) < T - 1
    assert sorted(POLYNOMIALS.order) == list(range(T))


@pytest.mark.parametrize("degree", [0, 1, 2, 3, 4, 7, 8])
def test_moments_of_random_signs(degree):
    """Twice the degree from each product: the estimate is that of the signs themselves."""
    signs = np.sign(np.random.default_rng(0).standard_normal((T, 64)))
    own = SpectralFilters(csr_array(POLYNOMIALS.matrix + scipy.sparse.eye_array(T)))  # in the order of its nodes
    several = [series(degree), series(0), series(max(degree - 1, 0))]
    expected = [np.sum(signs * own.apply(filter, signs)) / (64 * T) for filter in several]
    np.testing.assert_allclose(POLYNOMIALS.mean_diagonals(several, np.empty(0)), expected, atol=1e-12)


def test_mean_diagonals_by_random_signs():
    laplacian = NeighborGraph.of(np.random.default_rng(2).standard_normal((400, 2)), n_neighbors=6).laplacian
    several = [Filter(1, 0.3), Filter(2, 0.02), Filter(3, 1.0)]
    expected = SpectralFilters(laplacian).mean_diagonals(several, np.empty(0))
    found = ChebyshevFilters(laplacian).mean_diagonals(several, np.empty(0))
    assert found != expected
    for own, mean in zip(found, expected, strict=True):
        assert own == pytest.approx(mean, rel=4 * np.sqrt(2 / (64 * 400 * mean)))
    assert ChebyshevFilters(laplacian).mean_diagonals(several, np.empty(0)) == found  # the signs are always the same
    assert ChebyshevFilters(laplacian).mean_diagonals(several[1:2], np.empty(0)) == [pytest.approx(found[1], rel=1e-9)]


WORK = {
    "apply": lambda: POLYNOMIALS.apply(Filter(2, 0.1), V),
    "inner_products": lambda: POLYNOMIALS.inner_products([Filter(2, 0.1), Filter(1, 3.0)], B, V),
    "mean_diagonals": lambda: POLYNOMIALS.mean_diagonals([Filter(2, 0.1)], np.empty(0)),
}


@pytest.mark.parametrize("work", WORK.values(), ids=WORK)
@pytest.mark.parametrize("most", [0, 10**5])
def test_progress_is_reported_and_callbacks_cancel(most, work):
    fractions, calls = [], []
    with with_limits(shared_entries=most), with_progress_callback(fractions.append):
        work()
    assert len(fractions) > 10
    assert np.all(np.diff(fractions) > 0)
    assert 0 <= fractions[0] < 0.1
    assert 0.9 < fractions[-1] <= 1

    def cancel(fraction):
        calls.append(fraction)
        if fraction > 0.5:
            raise TimeoutError("cancelled")

    with (
        with_limits(shared_entries=most),
        with_progress_callback(cancel),
        pytest.raises(TimeoutError, match="cancelled"),
    ):
        work()
    assert calls[-2] <= 0.5 < calls[-1]
