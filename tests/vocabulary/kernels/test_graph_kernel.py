"""The kernel of a graph against its formula with dense matrices, and problems against those in its features."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import torch

import rkhs
from problems import LOSSES
from rkhs._core.limits import with_limits
from rkhs.kernels import GraphKernel, NeighborGraph
from rkhs.kernels._graph import graph_kernels, kernel_matrices
from rkhs.results import Gram
from rkhs.testing import _kernels as laws

RNG = np.random.default_rng(0)
X = RNG.standard_normal((50, 2))
X[25:, 0] += 6.0  # two clusters
NEW = RNG.standard_normal((6, 2)) + np.array([3.0, 0.0])
LABELED = np.array([0, 3, 9, 14, 20, 21, 26, 30, 33, 41, 45, 49])
Y = np.where(X[:, 0] > 3, 1.0, -1.0)
MEAN = np.full((1, 50), 1 / 50)


@pytest.fixture(params=["eigenvectors", "polynomials"])
def way(request):
    """How filters are computed."""
    with with_limits(spectral_nodes=0 if request.param == "polynomials" else 2000):
        yield request.param


def kernel_of(points=X, power=2, cutoff=0.1):
    return GraphKernel(NeighborGraph.of(points, n_neighbors=5), power, cutoff)


def inverse(kernel):
    L = kernel.graph.laplacian.toarray() / kernel.cutoff
    return scipy.linalg.inv(np.eye(len(L)) + np.linalg.matrix_power(L, kernel.power))


def features(kernel, points):
    """Rows whose dot products are the kernel, from eigenvectors."""
    values, vectors = np.linalg.eigh(inverse(kernel) / kernel.variance)
    return kernel.graph.on_nodes(points).toarray() @ (vectors * np.sqrt(values))


@pytest.mark.parametrize("power", [1, 2, 3])
@pytest.mark.parametrize("cutoff", [0.02, 0.5, 10.0])
def test_the_matrix_is_as_defined(way, power, cutoff):
    kernel, points = kernel_of(power=power, cutoff=cutoff), np.concatenate([X[::3], NEW])
    B, inner = kernel.graph.on_nodes(points).toarray(), inverse(kernel)
    mean = np.trace(inner) / 50
    if way == "eigenvectors":
        assert kernel.variance == pytest.approx(mean, rel=1e-12)
        assert np.mean(np.diag(kernel(X))) == pytest.approx(1.0, rel=1e-12)
    else:  # estimated by random vectors
        assert kernel.variance == pytest.approx(mean, rel=4 * np.sqrt(2 / (64 * 50 * mean)))
    assert kernel.degrees_of_freedom == pytest.approx(50 * kernel.variance)
    expected = B @ inner @ B.T / kernel.variance
    atol = 1e-11 / kernel.variance
    np.testing.assert_allclose(kernel(points), expected, atol=atol)
    np.testing.assert_allclose(kernel(X[:4], points), (inner[:4] @ B.T) / kernel.variance, atol=atol)
    np.testing.assert_allclose(kernel(points, X[:4]), (inner[:4] @ B.T).T / kernel.variance, atol=atol)
    np.testing.assert_allclose(kernel.filter(B.T), inner @ B.T, atol=1e-11)
    np.testing.assert_allclose(kernel.on_nodes(points).toarray(), B / np.sqrt(kernel.variance), rtol=1e-14)


def test_numbers_of_tiles_do_not_matter(way):
    kernel = kernel_of()
    B, L = kernel.on_nodes(np.concatenate([X, NEW])), rkhs.Evaluation(np.concatenate([X, NEW]))
    whole, some = kernel.between(B, B, X), kernel.between(B[:7], B, X)
    diagonal = rkhs.gram(kernel, L).diagonal()
    for entries in (1, 3 * 50, 49 * 50, 56 * 50):
        with with_limits(filtered_entries=entries):
            np.testing.assert_allclose(kernel.between(B, B, X), whole, atol=1e-10)
            np.testing.assert_allclose(kernel.between(B[:7], B, X), some, atol=1e-10)
            np.testing.assert_allclose(kernel.between(B, B[:7], X), some.T, atol=1e-10)
            np.testing.assert_allclose(rkhs.gram(kernel, L).diagonal(), diagonal, atol=1e-10)
    np.testing.assert_allclose(np.diag(whole), diagonal, atol=1e-10)


@pytest.mark.parametrize("clusters", [1, 3])
def test_a_cluster_without_edges_to_others(clusters):
    """The kernel is zero between components, and functions may be constant on each of them."""
    points = np.concatenate([X[:25] + 100.0 * k for k in range(clusters)])
    kernel = kernel_of(points, cutoff=1e-5)
    K = kernel(points)
    assert kernel.degrees_of_freedom == pytest.approx(clusters, rel=1e-3)
    for k in range(clusters):
        own = slice(25 * k, 25 * k + 25)
        assert np.all(K[own, own] > 0)
        np.testing.assert_allclose(np.delete(K[own], own, axis=1), 0.0, atol=1e-12)


@pytest.mark.parametrize("count", [1, 2])
def test_very_few_nodes(way, count):
    kernel = kernel_of(X[:count], cutoff=0.5)
    expected = inverse(kernel)
    np.testing.assert_allclose(kernel(X[:count]), expected / kernel.variance, atol=1e-11)


def test_a_graph_without_edges(way):
    """Values at the nodes are independent of each other."""
    kernel = GraphKernel(NeighborGraph.of(X, graph=scipy.sparse.csr_array((50, 50))))
    assert kernel.variance == pytest.approx(1.0)
    np.testing.assert_allclose(kernel(X), np.eye(50), atol=1e-11)


def test_several_cutoffs_in_one_sequence(way):
    graph, points = NeighborGraph.of(X, n_neighbors=5), np.concatenate([X[LABELED], NEW])
    cutoffs = [2.0, 0.005, 0.1]
    kernels = graph_kernels(graph, 2, cutoffs, np.empty(0))
    assert [(kernel.power, kernel.cutoff) for kernel in kernels] == [(2, cutoff) for cutoff in cutoffs]
    for place in (X, torch.tensor(X)):
        for kernel, K in zip(kernels, kernel_matrices(kernels, points, place), strict=True):
            alone = GraphKernel(graph, 2, kernel.cutoff)
            assert kernel.variance == pytest.approx(alone.variance, rel=1e-9)
            assert isinstance(K, np.ndarray)
            B = graph.on_nodes(points).toarray()
            np.testing.assert_allclose(K, B @ inverse(kernel) @ B.T / kernel.variance, atol=1e-11 / kernel.variance)


LAWS = [law for law in laws.LAWS if law is not laws._averages]  # f may jump at nodes


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_laws_of_kernels(law):
    law(laws.KernelSample(kernel_of(), 2, 0))


def test_it_says_what_it_is():
    assert repr(kernel_of(X[:2])) == "GraphKernel(NeighborGraph(2 nodes, 1 edges), power=2, cutoff=0.1)"


WRONG = {"power": (0, 1.5, True), "cutoff": (0.0, -1.0, np.nan, "small"), "accuracy": (0.0, np.inf)}


@pytest.mark.every
@pytest.mark.parametrize(("name", "value"), [(name, value) for name in WRONG for value in WRONG[name]])
def test_parameters_are_checked(name, value):
    kind = "positive integer" if name == "power" else "finite number > 0"
    with pytest.raises(ValueError, match=f"{name} of a GraphKernel must be a {kind}, got {value!r}"):
        GraphKernel(NeighborGraph.of(X), **{name: value})


def test_what_is_refused():
    with pytest.raises(TypeError, match=r"needs a graph, such as NeighborGraph\.of\(X\)"):
        GraphKernel(X)
    with pytest.raises(ValueError, match="has points of 2 features, got 3"):
        kernel_of()(np.zeros((1, 3)))
    for kernel in (kernel_of(), kernel_of() + rkhs.Gaussian(1.0)):
        for family in (rkhs.Gradient, rkhs.functionals.Hessian, rkhs.functionals.Laplacian):
            with pytest.raises(
                rkhs.exceptions.NotBoundedError, match=r"not bounded on the RKHS .* below 1.*a Difference"
            ):
                rkhs.gram(kernel, family(X))


def problem(kernel, loss, basis=None, points=X, new=NEW):
    """Labels of some nodes, a mean over all of them, and values at new points."""
    rows = LABELED.tolist()
    target = Y[LABELED] if loss.classification else np.sin(np.arange(12.0))
    return rkhs.Problem(
        kernel,
        [
            rkhs.Term(rkhs.Evaluation(points[rows]), loss, target, np.linspace(1.0, 5.0, 12)),
            rkhs.Term(MEAN @ rkhs.Evaluation(points), rkhs.Squared(), [0.3], 20.0),
            rkhs.Term(rkhs.Evaluation(new), rkhs.Squared(), np.linspace(-1.0, 1.0, 6), 0.5),
        ],
        basis,
    )


@pytest.mark.parametrize(
    ("loss", "basis"), [(loss, rkhs.Constant() if i % 2 else None) for i, loss in enumerate(LOSSES)], ids=repr
)
def test_problems_are_those_in_its_features(way, loss, basis):
    kernel = kernel_of()
    found = problem(kernel, loss, basis).solve(tol=1e-10)
    own = features(kernel, X), features(kernel, NEW)
    expected = problem(rkhs.kernels.Linear(), loss, basis, *own).solve(tol=1e-10)
    assert found.primal == pytest.approx(expected.primal, rel=1e-8)
    assert found.status == "converged"
    assert 0 <= found.relative_gap <= 1e-10
    assert found.dual <= expected.primal * (1 + 1e-9)
    np.testing.assert_allclose(found.function(X), expected.function(own[0]), atol=1e-4)
    np.testing.assert_allclose(found.function(NEW), expected.function(own[1]), atol=1e-4)


def least_squares(K, b, weight):
    """The minimum of |f|^2 / 2 + sum_i w_i (f(x_i) - b_i)^2."""
    return float(b @ np.linalg.solve(K + np.diag(1 / (2 * weight)), b)) / 2


@pytest.mark.parametrize("loss", [rkhs.Squared(), rkhs.Huber(0.5), rkhs.SquaredHinge()], ids=repr)
def test_problems_whose_matrix_is_not_stored(way, monkeypatch, loss):
    """The solvers then use products, blocks and the diagonal."""
    expected = problem(kernel_of(), loss).solve(tol=1e-10)
    assert problem(kernel_of(), loss).system.gram.stored
    monkeypatch.setattr(Gram, "stored_if_small", lambda self: self)
    open_problem = problem(kernel_of(), loss)
    assert not open_problem.system.gram.stored
    solvers = [None, rkhs.solvers.NonlinearCG()] + [rkhs.solvers.ConjugateGradients()] * loss.quadratic
    for solver in solvers:
        found = open_problem.solve(solver, tol=1e-9) if solver else open_problem.solve(tol=1e-9)
        assert found.primal == pytest.approx(expected.primal, rel=1e-8)
        assert found.status == "converged"


@pytest.mark.slow
def test_a_graph_of_three_thousand_nodes():
    """By polynomials, against a solution with the dense inverse matrix."""
    rng = np.random.default_rng(0)
    points = rng.uniform(size=(3000, 2))
    kernel = GraphKernel(NeighborGraph.of(points, n_neighbors=8), power=2, cutoff=0.05)
    rows, b = np.arange(0, 3000, 60), rng.standard_normal(50)
    L = kernel.graph.laplacian / kernel.cutoff
    precision = (scipy.sparse.eye_array(3000) + L @ L).toarray()
    K = np.linalg.solve(precision, np.eye(3000)[:, rows])[rows] / kernel.variance
    own = rkhs.Problem(kernel, [rkhs.Term(rkhs.Evaluation(points[rows]), rkhs.Squared(), b, 2.0)])
    found = own.solve(tol=1e-10)
    assert found.primal == pytest.approx(least_squares(K, b, np.full(50, 2.0)), rel=1e-8)
    assert found.relative_gap <= 1e-10
    a = np.linalg.solve(K + np.eye(50) / 4, b)
    np.testing.assert_allclose(found.function(points[rows]), K @ a, atol=1e-8)


def test_factors_are_tuned():
    """The derivative in the logarithm of a factor is the multiple itself."""
    kernel = kernel_of()
    b = features(kernel, X) @ np.random.default_rng(3).standard_normal(50) * 3
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), b, rkhs.Tunable())
    tuned = rkhs.Problem(rkhs.Tunable() * kernel, [term]).tune(prior=None).kernel
    assert isinstance(tuned.kernel, GraphKernel)
    assert 0 < tuned.factor < np.inf
