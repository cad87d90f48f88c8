"""v'Gv and the moments of gradients, both without the matrix, are those of the dense matrix."""

import numpy as np
import pytest
from test_products import JETS, KERNELS, TWICE

import rkhs
from rkhs._gram import operator
from rkhs._gram.gradient_moments import gradient_moments
from rkhs._gram.matrix import GramMatrix

torch = pytest.importorskip("torch")

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 4))
FAMILIES = {
    "gradients": lambda X: rkhs.Gradient(X),
    "values and gradients elsewhere": lambda X: rkhs.stack([rkhs.Evaluation(X[:7]), 2.0 * rkhs.Gradient(X)]),
    "values and gradients at the same points": lambda X: rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X)]),
    "differences": lambda X: rkhs.stack([rkhs.Difference(X[:9], X[9:18]), rkhs.Gradient(X)]),
    "second derivatives": lambda X: rkhs.stack([rkhs.Laplacian(X[:5]), rkhs.Gradient(X)]),
}


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
@pytest.mark.parametrize("name", TWICE)
def test_energies_are_those_of_the_dense_matrix(name, family):
    """In many small tiles, too."""
    L = family(X)
    try:
        G = rkhs.gram(KERNELS[name], L, memory=2e4)
    except rkhs.NotBoundedError:
        return
    v = RNG.standard_normal((L.size, 3))
    dense = G.dense()
    right = np.sum(v * (dense @ v), axis=0)
    size = np.sum(np.abs(v) * (np.abs(dense) @ np.abs(v)), axis=0)
    np.testing.assert_allclose(G.energies(v), right, atol=1e-13 * size.max())
    np.testing.assert_allclose(GramMatrix(dense).energies(v), right, atol=1e-13 * size.max())
    tensors = rkhs.gram(KERNELS[name], family(torch.from_numpy(X))).energies(torch.from_numpy(v))
    np.testing.assert_allclose(np.asarray(tensors), right, atol=1e-13 * size.max())


@pytest.mark.parametrize("name", TWICE)
def test_moments_of_gradients_are_those_of_the_dense_matrix(name):
    """M'WM with a weight for each point, where there is a formula; near points have none."""
    G = rkhs.gram(KERNELS[name], 3.0 * rkhs.Gradient(X), 0.5 * rkhs.Evaluation(X[:7]), memory=2e4)
    weight = np.repeat(RNG.uniform(1, 2, 30), 4)
    found, M = gradient_moments(G, weight), G.dense()
    if found is None:
        assert not name.startswith(("Gaussian", "Polynomial", "Linear"))
        return
    right = M.T @ (weight[:, None] * M)
    np.testing.assert_allclose(found, right, atol=1e-12 * np.abs(right).max())


def test_other_families_have_no_such_formula():
    weight = np.ones(30 * 4)
    for L, M in (
        (rkhs.Hessian(X[:2]), rkhs.Evaluation(X[:7])),
        (rkhs.Gradient(X), rkhs.Gradient(X[:3])),
        (rkhs.DirectionalDerivative(X, X), rkhs.Evaluation(X[:7])),
        (rkhs.stack([rkhs.Gradient(X), rkhs.Evaluation(X)]), rkhs.Evaluation(X[:7])),
    ):
        assert gradient_moments(rkhs.gram(rkhs.Gaussian(2.0), L, M), np.ones(L.size)) is None
    uneven = rkhs.gram(rkhs.Gaussian(2.0), rkhs.Gradient(X), rkhs.Evaluation(X[:7]))
    assert gradient_moments(uneven, weight) is not None
    assert gradient_moments(uneven, np.arange(120.0)) is None


@pytest.mark.parametrize("family", JETS.values(), ids=JETS)
def test_whole_points_are_taken_as_such(family):
    """What `take` keeps of a family is the same functionals, and no more points than it has."""
    L = family(X[:13], X[13:22])
    firsts = L.firsts()
    assert firsts[0] == 0
    assert np.all(np.diff(firsts) > 0)
    ends = [*firsts[1:], L.size]
    rows = np.concatenate([np.arange(firsts[k], ends[k]) for k in range(0, len(firsts), 2)])
    G = rkhs.gram(rkhs.Gaussian(2.0), L)
    np.testing.assert_allclose(rkhs.gram(rkhs.Gaussian(2.0), L.take(rows)).dense(), G.block(rows, rows))
    np.testing.assert_allclose(G.block(rows, rows), G.dense()[np.ix_(rows, rows)], atol=1e-13)


def test_a_point_stays_one_point():
    L = rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X)])
    some = L.take(np.concatenate([np.arange(3), 30 + np.arange(8), 30 + np.arange(40, 44)]))
    assert [part.atoms.points.shape[0] for part in some.parts] == [3, 3]
    apart = L.take(30 + np.arange(1, 6))
    assert apart.parts[0].atoms.points.shape[0] == 5


def test_energies_of_a_vector_and_of_two_families():
    X = np.random.default_rng(0).standard_normal((6, 2))
    G = rkhs.gram(rkhs.Gaussian(1.0), rkhs.Gradient(X))
    v = np.linspace(-1, 1, 12)
    assert G.energies(v) == pytest.approx(v @ (G @ v), rel=1e-12)
    with pytest.raises(ValueError, match="one family on both sides"):
        rkhs.gram(rkhs.Gaussian(1.0), rkhs.Gradient(X), rkhs.Evaluation(X)).energies(v)


def test_a_full_device_leaves_energies_to_the_product(monkeypatch):
    class Full(Exception):
        """Stands in for torch.cuda.OutOfMemoryError."""

    def full(step, v):
        raise Full

    monkeypatch.setattr(operator, "out_of_memory", lambda: (Full,))
    monkeypatch.setattr(operator, "energies", full)
    X = np.random.default_rng(0).standard_normal((6, 2))
    G, v = rkhs.gram(rkhs.Gaussian(1.0), rkhs.Gradient(X)), np.ones((12, 2))
    np.testing.assert_allclose(G.energies(v), np.sum(v * (G.dense() @ v), axis=0), rtol=1e-12)
