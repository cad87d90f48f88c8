"""Words that may stand for each other: f does not change when one of them replaces the other in a document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.sparse import csc_array, csr_array

from rkhs._backend.arrays import Array, Vector, as_array, as_points, take_rows, to_numpy, unique_rows
from rkhs._backend.sparse import SparseVectors
from rkhs.functionals import DirectionalDerivative


@dataclass(frozen=True)
class WordSubstitution:
    """Invariance of documents under the substitution of words.

        L(f) = <u, grad f(x)>,  u = x_a (w_b / w_a e_b - e_a)

    for each document x that contains a word a, and each pair in which a word b may stand for it: the exact derivative
    of f as b takes the place of a.  X has a column for each word, such as word counts (w = 1) or TF-IDF features
    (w = idf), and stays sparse if it is.  Both words of a pair may stand for the other.

    Parameters
    ----------
    pairs : sequence of pairs
        The pairs of words, as columns of X or as names.
    words : sequence of str, optional
        The words of the columns, such as ``vectorizer.get_feature_names_out()``, if pairs are named; by default the
        column names of the data frame that the estimator is fitted with.
    weights : array-like of shape (n,), optional
        The weight w of each word in X, such as the ``idf_`` of a TfidfVectorizer; all one by default.
    most : int, default=2000
        The maximal number of functionals; if there are more, they are drawn at random.
    random_state : int, default=0
        The seed of the draw.

    Examples
    --------
    >>> import rkhs
    >>> from rkhs.invariances import WordSubstitution
    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> texts = ["fast cars", "slow cars", "quick boats", "quick trains"]
    >>> vectorizer = TfidfVectorizer()
    >>> X = vectorizer.fit_transform(texts)
    >>> prior = WordSubstitution([("fast", "quick")], vectorizer.get_feature_names_out(), vectorizer.idf_)
    >>> prior(X)  # at three documents
    DirectionalDerivative(3 points in R^6)
    >>> model = rkhs.InvariantClassifier("linear", invariance=prior, nu=10.0).fit(X, [1, 0, -1, -1])
    >>> model.predict(X[2:])  # no word of these has a label
    array([1, 1])
    """

    pairs: Sequence[tuple[int | str, int | str]]
    words: Sequence[str] | None = None
    weights: Any = None
    most: int = 2000
    random_state: int = 0
    takes_sparse: ClassVar[bool] = True

    def __post_init__(self) -> None:
        pairs = tuple(tuple(pair) for pair in self.pairs)
        if not pairs or any(len(pair) != 2 or pair[0] == pair[1] for pair in pairs):
            raise ValueError(f"pairs must be pairs of different words, such as [(3, 7)], got {self.pairs!r}.")
        object.__setattr__(self, "pairs", pairs)
        if self.words is not None:
            object.__setattr__(self, "words", tuple(map(str, self.words)))
        if self.weights is not None:
            weights = to_numpy(as_array(self.weights, "weights"))
            if weights.ndim != 1 or not np.all(weights > 0):
                raise ValueError(f"weights must be positive, one for each word, got shape {weights.shape}.")
            object.__setattr__(self, "weights", tuple(weights.tolist()))
        if self.most < 1:
            raise ValueError(f"most must be a positive number of functionals, got {self.most!r}.")

    def resolve_columns(self, names: Sequence[str] | None) -> WordSubstitution:
        """Return the same prior with words replaced by columns; `names` are the columns of X or None.

        Parameters
        ----------
        names : sequence of str or None
            The column names of X, used if `words` is None.

        Returns
        -------
        WordSubstitution
            The prior with pairs of columns.
        """
        words = self.words if self.words is not None else names
        known = {str(word): k for k, word in enumerate([] if words is None else words)}
        unknown = sorted({word for pair in self.pairs for word in pair if isinstance(word, str) and word not in known})
        if unknown:
            remedy = "leave these pairs out" if known else "pass words=vectorizer.get_feature_names_out()"
            raise ValueError(f"WordSubstitution names words that X does not have ({', '.join(unknown[:5])}): {remedy}.")
        columns = tuple(tuple(known[w] if isinstance(w, str) else int(w) for w in pair) for pair in self.pairs)
        return replace(self, pairs=columns, words=None)  # type: ignore[arg-type]

    def __call__(self, X: Array) -> DirectionalDerivative:
        """Return the derivatives at the documents that contain a word of a pair.

        Parameters
        ----------
        X : array-like or SciPy sparse matrix of shape (t, n)
            The documents, with a column for each word.

        Returns
        -------
        DirectionalDerivative
            The functionals, a flat family.
        """
        points = as_points(X, sparse=True)
        n, sparse = int(points.shape[1]), isinstance(points, SparseVectors)
        columns = np.array(self.resolve_columns(None).pairs, dtype=np.intp).reshape(-1, 2)
        if columns.min() < 0 or columns.max() >= n:
            raise ValueError(f"WordSubstitution has pairs of columns that X does not have; they are 0 to {n - 1}.")
        weights = np.ones(n) if self.weights is None else np.asarray(self.weights)
        if len(weights) != n:
            raise ValueError(f"WordSubstitution has {len(weights)} weights, and X has {n} columns: give one for each.")
        documents, out, into, amounts = self._drawn(points.matrix if sparse else to_numpy(points), columns)
        rows = np.tile(np.arange(len(documents)), 2)
        data = np.concatenate([-amounts, amounts * weights[into] / weights[out]])
        V = csr_array((data, (rows, np.concatenate([out, into]))), shape=(len(documents), n))
        return DirectionalDerivative(take_rows(points, documents), V if sparse else V.toarray())

    def _drawn(self, X: Any, columns: Vector) -> tuple[Vector, Vector, Vector, Vector]:
        """Return documents, the word that leaves each, the word that takes its place, and the amounts, (r,) each."""
        both = unique_rows(np.concatenate([columns, columns[:, ::-1]]))[0]
        counts = csc_array(X)[:, both[:, 0]]
        documents, pair = counts.indices, np.repeat(np.arange(len(both)), np.diff(counts.indptr))
        amounts, present = counts.data, np.flatnonzero(counts.data)
        if len(present) > self.most:
            random = np.random.default_rng(self.random_state)
            present = np.sort(random.choice(present, self.most, replace=False))
        return documents[present], both[pair[present], 0], both[pair[present], 1], amounts[present]
