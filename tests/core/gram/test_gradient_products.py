"""Gram matrices of gradients of sums over several points, and expansions, against the general formula."""

import numpy as np
import pytest

import rkhs
from rkhs._core.gram import operator
from rkhs.extend import Expansion
from rkhs.molecules._environments import AtomicEnvironments, AtomicSum

REST = np.array([[0.0, 0.0, 0.0], [1.4, 0.1, 0.0], [-0.5, 0.9, 0.1], [-0.5, -0.5, 0.9]])
X = np.random.default_rng(0).normal(REST, 0.1, (6, 4, 3)).reshape(6, 12)
DISTANCES = rkhs.kernels.InverseDistances()
GROUP = DISTANCES.moved([[0, 1, 2, 3], [0, 1, 3, 2]])
LOCAL = AtomicSum(rkhs.Gaussian(30.0), AtomicEnvironments(np.array([0, 1, 1, 1])))
KERNELS = {
    "neighborhoods": LOCAL,
    "symmetrized": rkhs.kernels.Symmetrized(rkhs.Matern(2.5, 1.5), GROUP) @ DISTANCES,
    "rough": rkhs.kernels.Symmetrized(rkhs.Matern(1.5, 1.5), GROUP) @ DISTANCES,
    "scaled": 1e-6 * rkhs.kernels.Symmetrized(rkhs.Gaussian(0.5), GROUP) @ DISTANCES,
}
SLOPES = rkhs.Gradient(X)
FAMILIES = {
    "all": SLOPES,
    "with values": rkhs.stack([SLOPES, rkhs.Evaluation(X)]),
    "some": SLOPES.take([1, 3, 4, 12, 30, 31, 47, 60, 71]),
    "a point twice": rkhs.Gradient(X[[0, 1, 1, 2]]),
}


def without_the_fast_path(monkeypatch):
    monkeypatch.setattr(operator, "sums_of_gradients", lambda block: None)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", KERNELS)
def test_one_product_for_each_point_gives_the_same_matrix(name, family, monkeypatch):
    kernel, L = KERNELS[name], FAMILIES[family]
    square, cross = rkhs.gram(kernel, L).dense(), rkhs.gram(kernel, SLOPES, L).dense()
    np.testing.assert_array_equal(square, square.T)
    np.testing.assert_allclose(rkhs.gram(kernel, L).diagonal(), np.diag(square), rtol=1e-10)
    without_the_fast_path(monkeypatch)
    for found, M in ((square, L), (cross, SLOPES)):
        expected = rkhs.gram(kernel, M, L).dense()
        np.testing.assert_allclose(found, expected, atol=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", KERNELS)
def test_parts_of_a_matrix_whose_functionals_were_pushed_forward(name, family):
    L = FAMILIES[family]
    whole, table = rkhs.gram(KERNELS[name], L), rkhs.gram(KERNELS[name], L).dense()
    _ = whole.blocks
    few = np.array([5, 3, 4])
    for rows, columns in (
        (slice(None), few),
        (slice(None), slice(None)),
        (slice(2, 9), few),
        (few, few),
        (few, few[:0]),
    ):
        part, expected = whole.part(rows, columns), table[rows][:, columns]
        np.testing.assert_allclose(part.dense(), expected, atol=1e-11 * np.abs(table).max())
        np.testing.assert_allclose(part @ np.ones(part.shape[1]), expected.sum(axis=1), atol=1e-10 * table.max())
    np.testing.assert_allclose(whole.part(few, few).diagonal(), np.diag(table)[few], rtol=1e-9)


@pytest.mark.parametrize("name", KERNELS)
def test_the_diagonal_of_inner_products_with_other_functionals(name, monkeypatch):
    others = rkhs.Gradient(X[::-1] + 0.01)
    found = rkhs.gram(KERNELS[name], SLOPES, others).diagonal()
    without_the_fast_path(monkeypatch)
    expected = np.diag(rkhs.gram(KERNELS[name], SLOPES, others).dense())
    np.testing.assert_allclose(found, expected, atol=1e-11 * np.abs(expected).max())


@pytest.mark.parametrize("name", KERNELS)
def test_expansions_are_products(name):
    L, asked = FAMILIES["with values"], rkhs.stack([rkhs.Evaluation(X + 0.01), rkhs.Gradient(X + 0.01)])
    c = np.random.default_rng(0).standard_normal((L.size, 1))
    expansion = Expansion.of(KERNELS[name], L, c)
    expected = rkhs.gram(KERNELS[name], asked, L) @ c[:, 0]
    np.testing.assert_allclose(expansion(asked), expected, atol=1e-10 * np.abs(expected).max())


def test_other_kernels_have_no_expansion():
    product = rkhs.kernels.Product((rkhs.Gaussian(1.0), rkhs.Matern(2.5)))
    assert Expansion.of(product, SLOPES, np.ones((SLOPES.size, 1))) is None


def test_pytorch_gives_the_same_matrix():
    torch = pytest.importorskip("torch")
    for kernel in (LOCAL, KERNELS["symmetrized"]):
        found = rkhs.gram(kernel, rkhs.Gradient(torch.tensor(X))).dense().numpy()
        expected = rkhs.gram(kernel, SLOPES).dense()
        np.testing.assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max())
