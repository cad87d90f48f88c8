"""Substitutions of words: exact derivatives, sparse and dense alike, and what is refused."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone

import rkhs
from refusals import refused
from rkhs.invariances import WordSubstitution

RNG = np.random.default_rng(0)
X = scipy.sparse.csr_array(RNG.poisson(0.15, (30, 12)).astype(float))
D = X.toarray()
PAIRS = [(0, 1), (1, 2), (5, 9)]
F = rkhs.results.Function(rkhs.Gaussian(2.0), rkhs.Evaluation(X), RNG.standard_normal(30))


@pytest.mark.parametrize("weights", [None, RNG.uniform(0.5, 2.0, 12)], ids=["counts", "weights"])
def test_derivatives_are_limits_of_substitutions(weights):
    family = WordSubstitution(PAIRS, weights=weights)(X)
    w, h, expected = np.ones(12) if weights is None else weights, 1e-6, []
    for a, b in sorted({*PAIRS, *((b, a) for a, b in PAIRS)}):
        for x in D[D[:, a] > 0]:
            moved = {}
            for sign in (1, -1):  # a share of the word a becomes the word b
                y = x.copy()
                y[b] += sign * h * x[a] * w[b] / w[a]
                y[a] -= sign * h * x[a]
                moved[sign] = F(scipy.sparse.csr_array(y[None]))[0]
            expected.append((moved[1] - moved[-1]) / (2 * h))
    np.testing.assert_allclose(family(F), expected, atol=1e-8)


def test_dense_documents_have_the_same_functionals():
    prior = WordSubstitution(PAIRS)
    sparse, dense = (rkhs.gram(rkhs.Gaussian(2.0), prior(points)).dense() for points in (X, D))
    np.testing.assert_allclose(sparse, dense, atol=1e-14)


def test_names():
    words = [f"word{k}" for k in range(12)]
    named = [(f"word{a}", f"word{b}") for a, b in PAIRS]
    expected = WordSubstitution(PAIRS)(X)
    given = WordSubstitution(named, words)(X)
    np.testing.assert_array_equal(given.V.matrix.toarray(), expected.V.matrix.toarray())
    y = D[:, 0] > 0
    frame = pd.DataFrame(D, columns=words)
    model = rkhs.InvariantClassifier("linear", invariance=WordSubstitution(named), nu=5.0, tol=1e-8)
    by_columns = clone(model).set_params(invariance=WordSubstitution(PAIRS))
    np.testing.assert_allclose(model.fit(frame, y).decision_function(frame), by_columns.fit(D, y).decision_function(D))
    with pytest.raises(ValueError, match=r"does not have \(word0, .*get_feature_names_out"):
        WordSubstitution(named)(X)
    with pytest.raises(ValueError, match=r"does not have \(absent\): leave these pairs out"):
        WordSubstitution([("absent", "word1")], words)(X)


def test_a_random_subset_and_none():
    assert WordSubstitution(PAIRS, most=4)(X).shape == (4,)
    empty = scipy.sparse.csr_array((5, 12))
    assert WordSubstitution(PAIRS)(empty).shape == (0,)
    model = rkhs.InvariantClassifier("linear", invariance=WordSubstitution([(0, 1)]), nu=5.0)
    without = scipy.sparse.csr_array(np.where(np.arange(12) < 2, 0.0, D))
    assert len(model.fit(without, np.arange(30) % 2).problem_.terms) == 1


@pytest.mark.parametrize("kernel", ["linear", "polynomial", "gaussian"])
def test_words_that_may_stand_for_each_other_get_the_same_weight(kernel):
    """f hardly depends on which of the two words a document has."""
    wide = scipy.sparse.csr_array(scipy.sparse.hstack([X, scipy.sparse.csr_array((30, 200))]))
    y = (D[:, 0] > D[:, 3]).astype(int)
    before = wide.toarray()[D[:, 0] > 0]
    after = before.copy()
    after[:, 1], after[:, 0] = before[:, 1] + before[:, 0], 0.0
    changes, slopes = {}, {}
    for nu in (0.0, 1e4):
        model = rkhs.InvariantClassifier(kernel, invariance=WordSubstitution([(0, 1)]), nu=nu, C=10.0, loss="squared")
        model.fit(wide, y)
        changes[nu] = np.mean(np.abs(model.decision_function(after) - model.decision_function(before)))
        assert model.function_.functionals.sparse
        slopes[nu] = np.mean(WordSubstitution([(0, 1)])(wide)(model.function_) ** 2)
    assert slopes[1e4] < 0.05 * slopes[0.0]
    assert changes[1e4] < (0.05 if kernel == "linear" else 0.7) * changes[0.0]  # a whole word is not infinitesimal


test_what_is_refused = refused(
    *((lambda p=p: WordSubstitution(p), "pairs of different words") for p in ([], [(1, 1)], [(1, 2, 3)])),
    (lambda: WordSubstitution(PAIRS, weights=[1.0, 0.0]), "weights must be positive"),
    (lambda: WordSubstitution(PAIRS, weights=[1.0, 2.0])(X), "2 weights, and X has 12 columns"),
    (lambda: WordSubstitution([(0, 12)])(X), "0 to 11"),
    (lambda: WordSubstitution(PAIRS, most=0), "most"),
)
