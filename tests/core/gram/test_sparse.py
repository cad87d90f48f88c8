"""Sparse points and directions: the same numbers as dense ones, in little memory."""

import copy
import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone

import rkhs
from rkhs._core.backend.arrays import immutable_copy, row_keys, same_kind, take_rows
from rkhs._core.backend.sparse import SparseVectors, inner_products
from rkhs.estimators import _base as base
from rkhs.functionals import GraphDifference
from rkhs.functionals._base import point_groups, repeats

RNG = np.random.default_rng(0)
N = 60
X = scipy.sparse.random_array((25, N), density=0.08, rng=RNG, format="csr")
V = scipy.sparse.random_array((25, N), density=0.05, rng=RNG, format="csr")
D, U = X.toarray(), V.toarray()
Y = np.where(D[:, :30].sum(axis=1) > D[:, 30:].sum(axis=1), 1, 0)
W = RNG.standard_normal((4, 25))
KERNELS = [
    rkhs.Gaussian(0.9),
    rkhs.Gaussian(0.003),  # points many length scales from the origin: q of near pairs is computed from differences
    rkhs.Gaussian(tuple(RNG.uniform(0.5, 2.0, N))),
    rkhs.Matern(2.5, 0.7),
    rkhs.kernels.RationalQuadratic(1.0, 0.5),
    rkhs.kernels.Polynomial(3),
    rkhs.kernels.Linear(),
    rkhs.Gaussian(2.0) + 3.0 * rkhs.kernels.Linear() + rkhs.kernels.ConstantKernel(),
]


def families(points, directions):
    twice = take_rows(points, np.arange(25) % 20) if isinstance(points, SparseVectors) else points[np.arange(25) % 20]
    return rkhs.stack(
        [
            rkhs.Evaluation(twice),
            rkhs.functionals.DirectionalDerivative(points, directions),
            rkhs.Difference(points[:5], points[5:10]),
            GraphDifference(points, [[0, 1], [4, 2]], weights=[2.0, 1.0]),
            W @ (2.0 * rkhs.Evaluation(points) - rkhs.functionals.DirectionalDerivative(points, directions)),
        ]
    )


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: repr(kernel)[:30])
def test_inner_products_are_those_of_dense_points(kernel):
    sparse, dense = families(X, V), families(D, U)
    G, H = rkhs.gram(kernel, sparse), rkhs.gram(kernel, dense).dense()
    scale = 1e-14 * np.abs(H).max()
    np.testing.assert_allclose(G.dense(), H, rtol=0, atol=scale)
    np.testing.assert_array_equal(G.dense(), G.dense().T)
    v = RNG.standard_normal((sparse.size, 2))
    np.testing.assert_allclose(G @ v, H @ v, rtol=0, atol=100 * scale)
    np.testing.assert_allclose(G.diagonal(), np.diag(H), rtol=0, atol=scale)
    np.testing.assert_allclose(G.block([3, 30, 52], slice(4)), H[[3, 30, 52], :4], rtol=0, atol=scale)
    small = rkhs.gram(kernel, sparse, memory=3e4)
    np.testing.assert_allclose(small @ v, H @ v, rtol=0, atol=100 * scale)
    np.testing.assert_allclose(kernel(X, X[:3]), kernel(D, D[:3]), rtol=0, atol=scale)
    single = rkhs.gram(kernel, rkhs.Evaluation(X.astype(np.float32)))
    assert single.dense().dtype == np.float32
    np.testing.assert_allclose(single.dense(), kernel(D), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("loss", [rkhs.Squared(), rkhs.Logistic(), rkhs.Hinge()], ids=repr)
@pytest.mark.parametrize("kernel", [rkhs.Gaussian(1.0), rkhs.kernels.Linear()], ids=repr)
def test_problems_have_the_same_solutions(kernel, loss):
    def solved(points, directions):
        labels = rkhs.Term(rkhs.Evaluation(points), loss, target=2.0 * Y - 1, weight=3.0)
        flat = rkhs.Term(rkhs.functionals.DirectionalDerivative(points, directions), rkhs.Squared(), weight=0.5)
        return rkhs.Problem(kernel, [labels, flat], rkhs.Constant()).solve(tol=1e-9)

    sparse, dense = solved(X, V), solved(D, U)
    assert sparse.status == "converged"
    np.testing.assert_allclose(sparse.function(X), dense.function(D), atol=1e-4)
    assert sparse.primal == pytest.approx(dense.primal, rel=1e-8)


def test_groups_and_repeats_are_those_of_dense_points():
    rows = [0, 1, 1, 2, 0]
    sparse = rkhs.stack([rkhs.Evaluation(X[rows]), rkhs.functionals.DirectionalDerivative(X[rows], V[rows])])
    dense = rkhs.stack([rkhs.Evaluation(D[rows]), rkhs.functionals.DirectionalDerivative(D[rows], U[rows])])
    groups = point_groups(dense)
    np.testing.assert_array_equal(point_groups(sparse), groups)
    np.testing.assert_array_equal(repeats(sparse, groups), repeats(dense, groups))


def test_sparse_vectors():
    A = SparseVectors.of(scipy.sparse.coo_array(([1.0, 1.0, 0.0], ([0, 0, 1], [2, 2, 1])), shape=(2, 3)))
    assert (A.matrix.nnz, A.shape, A.ndim, len(A)) == (1, (2, 3), 2, 2)
    assert A[:, None, :].shape == (2, 1, 3)
    assert A.reshape((2, 1, -1, 3)).shape == (2, 1, 1, 3)
    assert np.reshape(A, (1, 2, 3)).shape == (1, 2, 3)
    assert np.sum(A, axis=-1).tolist() == [2.0, 0.0]
    assert A[:0].shape == np.asarray(A[:0]).shape == (0, 3)
    assert (A - A[:1]).matrix.toarray().tolist() == [[0, 0, 0], [0, 0, -2]]
    assert inner_products(A[:, None, :], A).tolist() == [[[4.0, 0.0]], [[0.0, 0.0]]]
    assert row_keys(A)[0] != row_keys(A)[1]
    single, double = same_kind(A.astype(np.float32), A)
    assert single.dtype == double.dtype == np.float64
    frozen = immutable_copy(A)
    assert immutable_copy(frozen) is frozen
    with pytest.raises(ValueError, match="read-only"):
        frozen.matrix.data[0] = 3.0
    with pytest.raises(TypeError, match=r"points are sparse, of shape \(2, 3\).*toarray"):
        np.asarray(A)
    for key in ((slice(None), slice(2)), (..., 0), (0, 1), (None, slice(None), slice(1))):
        with pytest.raises(IndexError, match="as a whole"):
            A[key]
    with pytest.raises(TypeError, match="along the last axis only"):
        A.sum(axis=0)
    with pytest.raises(TypeError):
        A * np.ones(3)


def test_the_matrix_of_the_caller_stays():
    given = scipy.sparse.csr_array(([1.0, 2.0, 0.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 3))
    before = copy.deepcopy(given)
    L = rkhs.Evaluation(given)
    given.data[:] = 7.0
    assert rkhs.gram(rkhs.kernels.Linear(), L).dense().tolist() == [[9.0, 0.0], [0.0, 0.0]]
    assert before.nnz == given.nnz


def test_what_sparse_points_refuse():
    for kernel in (rkhs.kernels.Laplace(), rkhs.Gaussian() @ np.eye(N)[:2], rkhs.Gaussian() * rkhs.kernels.Linear()):
        for compute in (lambda k: rkhs.gram(k, rkhs.Evaluation(X)), lambda k: k(X)):
            with pytest.raises(TypeError, match=r"points are sparse.*needs dense ones: use a kernel of the distance"):
                compute(kernel)
    mixed = r"pass scipy\.sparse\.csr_array\(.\)"
    for make in (
        lambda: rkhs.gram(rkhs.Gaussian(), rkhs.Evaluation(X), rkhs.Evaluation(D)),
        lambda: rkhs.stack([rkhs.Evaluation(X), rkhs.Evaluation(D)]),
        lambda: rkhs.Difference(X, D),
        lambda: rkhs.functionals.DirectionalDerivative(X, U),
        lambda: rkhs.Gaussian()(X, D),
    ):
        with pytest.raises(TypeError, match=mixed):
            make()
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=1.0 * Y)
    for problem in (
        rkhs.Problem(rkhs.Gaussian(), [term], rkhs.Polynomials(1)),
        rkhs.Problem(rkhs.Gaussian(), [term], approximation=rkhs.Landmarks(5)),
        rkhs.Problem(rkhs.Gaussian(), [term], device="cpu"),
    ):
        with pytest.raises(TypeError, match=r"[Ss]parse.*X\.toarray\(\)"):
            problem.solve()


LABELS = np.where(np.arange(25) % 3 == 0, np.nan, Y)
MODELS = [
    (rkhs.InvariantClassifier(scale="median", invariance=None), Y),  # "auto" has units of dense features
    (rkhs.InvariantClassifier("linear", invariance=None, loss="squared_hinge", unlabeled=np.nan), LABELS),
    (rkhs.InvariantClassifier("polynomial", nu=0.0, loss="logistic"), np.arange(25) % 3),
    (rkhs.InvariantClassifier(rkhs.Gaussian("median") + rkhs.kernels.Linear(), invariance=None), Y),
    (rkhs.InvariantRegressor(scale="median", invariance=None), D.sum(axis=1)),
    (rkhs.InvariantRegressor("matern", scale="median", invariance=None), D[:, :2]),
]


@pytest.mark.parametrize(("model", "target"), MODELS, ids=lambda value: repr(value)[:60])
def test_estimators_keep_sparse_points(model, target):
    sparse, dense = (clone(model).set_params(tol=1e-9).fit(points, target) for points in (X, D))
    assert sparse.function_.functionals.sparse
    assert not dense.function_.functionals.sparse
    new = scipy.sparse.random_array((7, N), density=0.1, rng=np.random.default_rng(1), format="csc")
    of = "decision_function" if hasattr(model, "decision_function") else "predict"
    expected = getattr(dense, of)(new.toarray())
    for points in (new, scipy.sparse.coo_array(new), new.toarray()):
        np.testing.assert_allclose(getattr(sparse, of)(points), expected, atol=1e-5)
    restored = pickle.loads(pickle.dumps(sparse))
    np.testing.assert_array_equal(restored.predict(new), sparse.predict(new))
    if of == "decision_function":
        np.testing.assert_allclose(sparse.predict_proba(new), dense.predict_proba(new.toarray()), atol=1e-2)
        np.testing.assert_array_equal(sparse.predict_set(new), dense.predict_set(new.toarray()))
    else:
        means, deviations = sparse.predict(new, return_std=True)
        np.testing.assert_allclose(deviations, dense.predict(new.toarray(), return_std=True)[1], atol=1e-8)
        np.testing.assert_allclose(sparse.predict_interval(new), dense.predict_interval(new.toarray()), atol=1e-6)
        assert means.shape[0] == 7


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["linear", "polynomial", "gaussian"])
def test_a_million_features_take_little_memory(kernel):
    """A dense array would take 16 GB."""
    big = scipy.sparse.random_array((2000, 1_000_000), density=5e-5, rng=np.random.default_rng(0), format="csr")
    y = np.asarray(big.sum(axis=1)).ravel() > 25
    tracemalloc.start()
    model = rkhs.InvariantClassifier(kernel, invariance=None).fit(big, y)
    assert model.predict(big[:50]).shape == (50,)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e8


REFUSED = [
    (
        rkhs.InvariantClassifier(invariance="gradient"),
        "invariance='gradient' needs dense points.*invariance=None, or .*WordSubstitution",
    ),
    (rkhs.InvariantClassifier(invariance=rkhs.functionals.Laplacian), "invariance='Laplacian' needs dense points"),
    (rkhs.InvariantRegressor("laplace", invariance=None), "kernel='laplace' needs dense points.*\"gaussian\""),
    (rkhs.InvariantRegressor(rkhs.kernels.Laplace(), invariance=None), r"Laplace\(scale=1.0\) needs dense points"),
    (rkhs.InvariantRegressor(invariance=None, approximation=rkhs.Landmarks(5)), ".*Landmarks.*leave the approximation"),
    (rkhs.InvariantRegressor(invariance=None, shape={0: "increasing"}), "shape=.*leave the shape out"),
    (rkhs.InvariantRegressor(invariance=None, scale="agop"), "scale='agop' needs dense points.*\"median\""),
    (rkhs.InvariantClassifierCV(), "InvariantClassifierCV needs dense points.*InvariantClassifier and"),
]


@pytest.mark.parametrize(("model", "message"), REFUSED, ids=lambda value: str(value)[:50])
def test_parts_that_need_dense_points_are_named(model, message, monkeypatch):
    """Dense arrays are made where they fit, as of the features of a table, and refused where they do not."""
    if isinstance(model, rkhs.InvariantClassifier):
        assert not clone(model).fit(X, Y).function_.functionals.sparse
    monkeypatch.setattr(base, "free_memory", lambda array: 1e4)
    with pytest.raises(MemoryError, match=f"X is sparse, and {message}"):
        clone(model).fit(X, Y)


def test_many_nonzeros_are_stored_densely():
    model = rkhs.InvariantRegressor(invariance=None).fit(scipy.sparse.csr_array(W), np.arange(4.0))
    assert not model.function_.functionals.sparse
