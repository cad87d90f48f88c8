"""Texts and strings with few labels: sparse TF-IDF features, substitutions of words, and string kernels.

    python -m benchmarks.texts [--parts docstrings dialects strings] [--draws 5] [--out build/bench]

docstrings   the first paragraphs of docstrings, whose package is to be found; LinearSVC, logistic regression and SVC of
             scikit-learn on the same sparse TF-IDF features, all with C = 10
dialects     the same texts in two languages with a dictionary: labels in one, tests in the other, and the dictionary as
             `WordSubstitution`; "translated" is the bound, with the tests translated back
strings      60 bases of DNA around splice sites (raetsch_splice); kernels of two strings, written as short functions,
             beside SVC on one-hot features
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from scipy.sparse import csr_array, hstack, vstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC, LinearSVC

import rkhs
from benchmarks.data import arrays
from benchmarks.timing import markdown, show, write
from rkhs.invariances import WordSubstitution
from rkhs.kernels import ObjectKernel

PACKAGES = ("matplotlib", "networkx", "numpy", "pandas", "scipy", "sklearn")
NAMES = re.compile(rf"\b({'|'.join(PACKAGES)}|scikit|np|nx|pd|plt)\b")  # these would give the package away
MOST = 400  # docstrings of each package
C = 10.0
Vector = np.ndarray[Any, Any]


def docstrings(package: str) -> list[str]:
    """Return the first paragraphs, of six words or more, of docstrings of a package, without importing it."""
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    root, found = Path(spec.origin).parent, set()
    for path in sorted(root.rglob("*.py")):
        if "test" in str(path.relative_to(root)):
            continue
        try:
            tree = ast.parse(path.read_text(errors="ignore"))
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                first = (ast.get_docstring(node) or "").split("\n\n")[0]
                if len(first.split()) >= 6:
                    found.add(NAMES.sub(" ", first.lower()))
    texts = sorted(found)
    rows = np.random.default_rng(0).choice(len(texts), min(MOST, len(texts)), replace=False)
    return [texts[row] for row in np.sort(rows)]


def features() -> tuple[csr_array, Vector, Vector]:
    """Return the TF-IDF features of all texts, their classes, and the weights of the words."""
    texts = [docstrings(package) for package in PACKAGES]
    vectorizer = TfidfVectorizer(sublinear_tf=True, min_df=2, token_pattern=r"[a-z]{2,}")
    X = csr_array(vectorizer.fit_transform([text for part in texts for text in part]))
    return X, np.repeat(np.arange(len(texts)), [len(part) for part in texts]), vectorizer.idf_


def draws(y: Vector, labels: int, count: int) -> Iterator[tuple[Vector, Vector]]:
    """Yield the labeled rows, as many of each class, and all others."""
    for seed in range(count):
        random = np.random.default_rng(seed)
        rows = [random.choice(np.flatnonzero(y == c), labels, replace=False) for c in np.unique(y)]
        labeled = np.concatenate(rows)
        yield labeled, np.setdiff1d(np.arange(len(y)), labeled)


class Results:
    """Errors and seconds of several models, as a table."""

    def __init__(self) -> None:
        self.errors: dict[tuple[int, str], list[float]] = defaultdict(list)
        self.seconds: dict[tuple[int, str], float] = defaultdict(float)

    def run(self, labels: int, name: str, model: Any, train: tuple[Any, Any], test: tuple[Any, Any]) -> None:
        """Fit a model and keep its error and its seconds."""
        start = perf_counter()
        wrong = float(np.mean(model.fit(*train).predict(test[0]) != test[1]))
        self.seconds[labels, name] += perf_counter() - start
        self.errors[labels, name].append(100 * wrong)

    def rows(self) -> list[list[str]]:
        """Return the rows of the table: labels, model, error with its standard error, seconds of a fit."""
        table = []
        for key, errors in self.errors.items():
            spread = np.std(errors, ddof=1) / len(errors) ** 0.5 if len(errors) > 1 else 0.0
            seconds = self.seconds[key] / len(errors)
            table.append([str(key[0]), key[1], f"{np.mean(errors):.1f} ± {spread:.1f}", f"{seconds:.2f}"])
        return table


def ours(kernel: Any, **parameters: Any) -> rkhs.InvariantClassifier:
    """Return a classifier without a prior, unless there is one among the parameters."""
    return rkhs.InvariantClassifier(kernel, **{"invariance": None, "C": C, **parameters})


def run_docstrings(count: int) -> Results:
    """Compare classifiers of docstrings."""
    results, (X, y, _) = Results(), features()
    print(f"{X.shape[0]} texts, {X.shape[1]} words, {X.nnz / X.shape[0]:.0f} in a text")
    for labels in (5, 10, 20):
        for labeled, others in draws(y, labels, count):
            train, test = (X[labeled], y[labeled]), (X[others], y[others])
            results.run(labels, "LinearSVC", LinearSVC(C=C), train, test)
            results.run(labels, "LogisticRegression", LogisticRegression(C=C), train, test)
            results.run(labels, "SVC", SVC(C=C), train, test)
            results.run(labels, "ours, linear", ours("linear"), train, test)
            results.run(labels, "ours, gaussian", ours("gaussian"), train, test)
            smooth = ours("gaussian", loss="squared_hinge")
            results.run(labels, "ours, gaussian, squared hinge", smooth, train, test)
    return results


def run_dialects(count: int) -> Results:
    """Learn in one language, and predict in another with a dictionary."""
    results, (X, y, idf) = Results(), features()
    n, empty = X.shape[1], csr_array(X.shape)
    here, there = (csr_array(hstack(parts)) for parts in ([X, empty], [empty, X]))
    dictionary = [(word, n + word) for word in range(n)]
    prior = WordSubstitution(dictionary, weights=np.tile(idf, 2), most=3000)
    for labels in (20, 50):
        for labeled, others in draws(y, labels, count):
            half = len(others) // 2
            unlabeled, tested = np.split(np.random.default_rng(0).permutation(others), [half])
            X_both = csr_array(vstack([here[labeled], there[unlabeled]]))
            y_both = np.r_[y[labeled], np.full(half, -1)]
            train, test = (here[labeled], y[labeled]), (there[tested], y[tested])
            results.run(labels, "ours, linear", ours("linear", loss="squared"), train, test)
            for nu in (100.0, 1e4):
                model = ours("linear", loss="squared", invariance=prior, nu=nu)
                results.run(labels, f"ours, linear, dictionary, nu={nu:g}", model, (X_both, y_both), test)
            translated = ours("linear", loss="squared")
            results.run(labels, "translated", translated, train, (here[tested], y[tested]))
    return results


def spectrum(a: str, b: str, length: int = 3) -> float:
    """Count common substrings anywhere (Leslie, Eskin and Noble 2002)."""
    p, q = (Counter(s[i : i + length] for i in range(len(s) - length + 1)) for s in (a, b))
    return float(sum(p[part] * q[part] for part in p)) / len(a)


def weighted_degree(a: str, b: str, length: int = 5) -> float:
    """Count common substrings of up to `length` letters at equal positions (Ratsch and Sonnenburg 2004)."""
    total = run = 0
    for x, y in zip(a, b, strict=True):
        run = run + 1 if x == y else 0
        total += min(run, length)
    return total / (length * len(a))


def run_strings(count: int) -> Results:
    """Compare kernels of strings with one-hot features."""
    data, results = arrays("raetsch_splice"), Results()
    bases, y = data["X"].astype(int), (data["y"] > 0).astype(int)
    strings = ["".join("AGCT"[base - 1] for base in row) for row in bases]
    one_hot = (bases[:, :, None] == np.arange(1, 5)).reshape(len(y), -1).astype(float)
    for labels in (20, 50, 100):
        for labeled, others in draws(y, labels, count):
            tested = np.random.default_rng(0).choice(others, 1000, replace=False)
            rows, codes = np.r_[labeled, tested], np.r_[y[labeled], y[tested]]
            few = len(labeled)
            for name, model in (("SVC, linear", SVC(kernel="linear", C=C)), ("SVC", SVC(C=C))):
                X = one_hot[rows]
                results.run(labels, f"{name}, one-hot", model, (X[:few], codes[:few]), (X[few:], codes[few:]))
            for function in (spectrum, weighted_degree):
                kernel = ObjectKernel(function, [strings[row] for row in rows])
                X, model = kernel.points, ours(kernel)
                train, test = (X[:few], codes[:few]), (X[few:], codes[few:])
                results.run(labels, f"ours, {function.__name__}", model, train, test)
    return results


PARTS = {"docstrings": run_docstrings, "dialects": run_dialects, "strings": run_strings}


def main() -> None:
    """Run the parts and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    for part in options.parts:
        rows = PARTS[part](options.draws).rows()
        headings = ("labels of each class", "model", "error %", "s")
        show(Console(), part, headings, rows)
        if options.out is not None:
            write(options.out, f"texts_{part}.md", markdown(part, headings, rows))


if __name__ == "__main__":
    main()
