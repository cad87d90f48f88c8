"""Kernels of objects: against their matrices, scikit-learn's SVC, and features; and what they refuse."""

import copy
import pickle
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.svm import SVC

import rkhs
from refusals import refused
from rkhs.exceptions import NotBoundedError
from rkhs.kernels import LinearTransform, ObjectKernel, Precomputed

X, Y = make_moons(60, noise=0.15, random_state=0)
GAUSSIAN = rkhs.Gaussian(scale=0.7)
K = GAUSSIAN(X)
WORDS = ["banana", "bandana", "ananas", "cherry", "sherry", "berry", "merry", "nab"]


def substrings(text, length=2):
    return Counter(text[i : i + length] for i in range(len(text) - length + 1))


def spectrum(a, b):
    p, q = substrings(a), substrings(b)
    return sum(p[part] * q[part] for part in p)


def counts(words):
    """The features whose inner products the spectrum kernel is."""
    parts = sorted({part for word in words for part in substrings(word)})
    return np.array([[substrings(word)[part] for part in parts] for word in words], dtype=float)


@pytest.mark.parametrize("kernel", [Precomputed(K), ObjectKernel(lambda a, b: float(GAUSSIAN([a], [b])[0, 0]), X)])
def test_values_differences_and_averages_are_those_of_the_kernel(kernel):
    i, j = kernel.points[[3, 1, 3, 40]], kernel.points[[7, 1, 0, 59]]
    a, b = X[[3, 1, 3, 40]], X[[7, 1, 0, 59]]
    W = np.random.default_rng(0).standard_normal((2, 4))
    for indexed, direct in [
        (rkhs.Evaluation(i), rkhs.Evaluation(a)),
        (rkhs.Difference(i, j), rkhs.Difference(a, b)),
        (rkhs.functionals.Average(i), rkhs.functionals.Average(a)),
        (W @ rkhs.Evaluation(i), W @ rkhs.Evaluation(a)),
    ]:
        G, expected = rkhs.gram(kernel, indexed), rkhs.gram(GAUSSIAN, direct)
        np.testing.assert_allclose(G.dense(), expected.dense(), rtol=0, atol=1e-14)
        np.testing.assert_allclose(G @ np.ones(G.shape[1]), expected.dense().sum(axis=1), rtol=0, atol=1e-13)
        np.testing.assert_allclose(G.diagonal(), np.diag(expected.dense()), rtol=0, atol=1e-14)
    np.testing.assert_allclose(kernel(i, j), GAUSSIAN(a, b), rtol=0, atol=1e-14)
    tensor = kernel(torch.tensor(i), torch.tensor(j))
    np.testing.assert_array_equal(tensor.numpy(), kernel(i, j))


def test_a_function_of_two_strings_against_its_features():
    kernel = ObjectKernel(spectrum, WORDS)
    features = counts(WORDS)
    np.testing.assert_array_equal(kernel(kernel.points), features @ features.T)
    y = [1.0, 1.0, 1.0, -1.0, -1.0]
    term = rkhs.Term(rkhs.Evaluation(kernel.points[:5]), rkhs.Logistic(), target=y, weight=3.0)
    known = rkhs.Term(rkhs.Evaluation(features[:5]), rkhs.Logistic(), target=y, weight=3.0)
    f = rkhs.Problem(kernel, [term], rkhs.Constant()).solve(tol=1e-10).function
    g = rkhs.Problem(rkhs.kernels.Linear(), [known], rkhs.Constant()).solve(tol=1e-10).function
    np.testing.assert_allclose(f(kernel.points), g(features), atol=1e-6)


def test_each_entry_is_computed_once_and_clones_share_them():
    calls = Counter()

    def product(a, b):
        calls[a, b] += 1
        return float(a * b)

    kernel = ObjectKernel(product, range(1, 30))
    first = kernel(kernel.points)
    made = sum(calls.values())
    assert made < 29 * 30 / 2 + 5 * 32  # half of the matrix, and the checks
    model = rkhs.InvariantRegressor(kernel, invariance=None)
    assert clone(model).kernel is kernel
    np.testing.assert_array_equal(kernel(kernel.points), first)
    clone(model).fit(kernel.points, np.arange(29.0))
    assert sum(calls.values()) == made


def test_new_objects():
    kernel = ObjectKernel(spectrum, WORDS[:5])
    longer = kernel.extended(WORDS[5:])
    features = counts(WORDS)
    np.testing.assert_array_equal(longer(longer.points), features @ features.T)
    assert kernel.size == 5
    assert longer.size == len(WORDS)
    f = rkhs.results.Function(kernel, rkhs.Evaluation(kernel.points), np.arange(5.0))
    np.testing.assert_allclose(replace(f, kernel=longer)(longer.points), features @ features[:5].T @ np.arange(5.0))
    matrix = Precomputed(K[:40, :40]).extended(K[40:, :40])
    assert repr(matrix) == "Precomputed(40 objects and 20 new ones)"
    np.testing.assert_array_equal(matrix(matrix.points[:40], matrix.points), K[:40])
    with pytest.raises(ValueError, match="no values of new objects among themselves"):
        matrix(matrix.points[40:])
    with pytest.raises(ValueError, match=r"one column for each of the 40 objects.*\(2, 3\)"):
        Precomputed(K[:40, :40]).extended(K[:2, :3])


def test_copies():
    kernel = Precomputed(K)
    assert copy.deepcopy(kernel) is kernel
    restored = pickle.loads(pickle.dumps(kernel))
    assert restored == kernel
    assert hash(restored) == hash(kernel)
    assert kernel != Precomputed(2 * K)
    words = pickle.loads(pickle.dumps(ObjectKernel(spectrum, WORDS)))
    assert repr(words) == "ObjectKernel(spectrum, 8 objects)"
    with pytest.raises(ValueError, match="read-only"):
        kernel.K[0, 0] = 2.0


def test_objects_beside_features():
    """A column of indices and columns of numbers, each with its kernel."""
    table = np.column_stack([np.arange(60.0), X])
    kernel = LinearTransform(Precomputed(K), np.eye(3)[:1]) + rkhs.Gaussian(2.0) @ np.eye(3)[1:]
    np.testing.assert_allclose(kernel(table), K + rkhs.Gaussian(2.0)(X), atol=1e-14)


@pytest.mark.parametrize("units", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_rounding_is_no_negative_eigenvalue(dtype, units):
    """Matrices of low rank, smooth kernels and the zero matrix, whose smallest eigenvalues are rounding errors."""
    smooth = rkhs.Gaussian(100.0)(X)
    for matrix in (X @ X.T, np.outer(X[:, 0], X[:, 0]), smooth, np.zeros((3, 3)), np.ones((1, 1))):
        Precomputed((units * matrix).astype(dtype))


def test_small_asymmetries_are_removed():
    noisy = K.copy()
    noisy[0, 1] += 1e-12
    assert Precomputed(noisy).K[0, 1] == Precomputed(noisy).K[1, 0]


def values_of(function):
    kernel = ObjectKernel(function, [1.0, 2.0])
    return kernel(kernel.points)


THREE = [[1.0, 0.9, 0.9], [0.9, 1.0, 0.0], [0.9, 0.0, 1.0]]  # no two rows violate it
OF_OBJECTS = r"RKHS of Precomputed\(60 objects\).*a Difference of values"
test_what_is_refused = refused(
    (lambda: rkhs.gram(Precomputed(K), rkhs.Gradient([[1.0]])), OF_OBJECTS, NotBoundedError),
    (lambda: rkhs.gram(Precomputed(K), rkhs.Derivative([[1.0]], axes=[0])), OF_OBJECTS, NotBoundedError),
    (lambda: Precomputed(K)(X), r"indices of its objects, of shape \(t, 1\).*kernel\.points"),
    *(
        (lambda wrong=wrong: Precomputed(K)([[wrong]]), f"{wrong:g} is not the index of one of the 60 objects")
        for wrong in (60, -1, 0.5)
    ),
    (lambda: Precomputed(np.ones((3, 4))), r"square kernel matrix.*\(3, 4\)"),
    (lambda: Precomputed([[1.0, 0.5], [0.0, 1.0]]), "not symmetric: objects 0 and 1 have the value 0.5, and 0 "),
    (lambda: Precomputed([[1.0, 2.0], [2.0, 1.0]]), "not positive semidefinite: the value 2 of objects"),
    (lambda: Precomputed(THREE), r"eigenvalues range from -0.27 to 2.3.*Add 0.27 to its diagonal"),
    (lambda: ObjectKernel(K, [1]), "function of two objects", TypeError),
    (lambda: ObjectKernel(spectrum, []), "empty list"),
    (lambda: values_of(lambda a, b: np.nan), "returned nan for objects 0 and 0"),
    (lambda: values_of(lambda a, b: "x"), "returned 'x'"),
    (lambda: values_of(lambda a, b: a - b), "not symmetric"),
    (lambda: values_of(lambda a, b: float(a != b)), "not positive semidefinite: the value 1 of objects"),
)


TRAIN, TEST = np.arange(0, 60, 2), np.arange(1, 60, 2)


def test_precomputed_in_estimators_is_the_kernel_itself():
    inner, cross = K[np.ix_(TRAIN, TRAIN)], K[np.ix_(TEST, TRAIN)]
    for estimator, target in [
        (rkhs.InvariantClassifier(invariance=None, C=3.0, tol=1e-8), Y),
        (rkhs.InvariantClassifier(invariance=None, C=3.0, tol=1e-8), np.where(X[:, 0] > 1, 2, Y)),
        (rkhs.InvariantRegressor(invariance=None, C=3.0, tol=1e-8), X[:, 0]),
        (rkhs.InvariantRegressor(invariance=None, C=3.0, tol=1e-8), X),
    ]:
        given = clone(estimator).set_params(kernel="precomputed").fit(inner, target[TRAIN])
        direct = clone(estimator).set_params(kernel=GAUSSIAN).fit(X[TRAIN], target[TRAIN])
        of = "decision_function" if hasattr(given, "decision_function") else "predict"
        np.testing.assert_allclose(getattr(given, of)(cross), getattr(direct, of)(X[TEST]), atol=1e-5)
        restored = pickle.loads(pickle.dumps(given))
        np.testing.assert_array_equal(restored.predict(cross), given.predict(cross))
    classifier = rkhs.InvariantClassifier("precomputed", invariance=None, loss="logistic").fit(inner, Y[TRAIN])
    assert classifier.predict_proba(cross).shape == (30, 2)
    svc = SVC(kernel="precomputed", C=1.0, tol=1e-8).fit(inner, Y[TRAIN])
    hinge = rkhs.InvariantClassifier("precomputed", invariance=None, C=1.0, tol=1e-9).fit(inner, Y[TRAIN])
    np.testing.assert_allclose(hinge.decision_function(cross), svc.decision_function(cross), atol=1e-4)


def test_scikit_learn_slices_both_axes():
    model = rkhs.InvariantClassifier("precomputed", invariance=None)
    direct = rkhs.InvariantClassifier(GAUSSIAN, invariance=None)
    np.testing.assert_allclose(cross_val_score(model, K, Y, cv=3), cross_val_score(direct, X, Y, cv=3))
    search = GridSearchCV(model, {"C": [0.1, 10.0]}, cv=3).fit(K, Y)
    assert search.predict(K[:3]).shape == (3,)


@pytest.mark.parametrize("invariance", ["auto", None])
def test_precomputed_in_the_search(invariance):
    model = rkhs.InvariantClassifierCV("precomputed", invariance=invariance).fit(K[np.ix_(TRAIN, TRAIN)], Y[TRAIN])
    assert model.score(K[np.ix_(TEST, TRAIN)], Y[TEST]) > 0.85


def by_matrix(**options):
    return rkhs.InvariantRegressor("precomputed", invariance=None, **options)


test_what_estimators_refuse = refused(
    (lambda: by_matrix().fit(X, Y), r"square kernel matrix.*\(60, 2\)"),
    (lambda: rkhs.InvariantClassifier("precomputed", invariance="gradient").fit(K, Y), "has no derivatives"),
    (lambda: by_matrix(approximation=rkhs.Landmarks(5)).fit(K, Y), r"Landmarks.*Leave it out"),
    (lambda: by_matrix().fit(K, Y).predict(K, return_std=True), r"standard deviation.*Precomputed\(K\)"),
    (lambda: by_matrix().fit(K, Y).predict(K[:, :30]), "features"),
)
