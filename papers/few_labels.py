"""Zhang et al. 2013, Table 1: few labels, nine sets, SVM, LapSVM and InvSVM (hinge, squared gradients everywhere).

"LapSVM" is the LapSVM of the paper, with a graph of weights 0 and 1, power 1 and a hinge loss.  The Laplacian SVM of
the estimators, `InvariantClassifier(invariance=rkhs.invariances.Graph())`, has a normalized graph and power 2.

And what `InvariantClassifierCV()` makes of the same draws, nothing set.

The protocol (6.2): l labels are drawn at random; the rest has no labels and is the test set.  The Gaussian kernel has
the median distance as its scale.  5 stratified folds of the labels choose the weights; the points of a fold stay,
unlabeled, while its labels are held out.  Draws are stratified, as the folds are, and nested: the first 30 of a random
order in which classes come in proportion, then 60, then 90.

Models with squared invariances are plain SVMs with another kernel:

    min 1/2 |f|^2 + C sum_i hinge(f(x_i); y_i) + nu sum_j w_j (L_j f)^2      L_j of constants = 0

is the SVM whose kernel is the covariance of the points given the L_j (`conditional_kernels`).  It does not depend
on labels: one matrix serves all C, folds and draws, and LIBSVM does the rest.  Only the columns of points that have a
label in some draw are needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse.csgraph
from sklearn.model_selection import StratifiedKFold
from sklearn.neighbors import kneighbors_graph
from sklearn.svm import SVC

import rkhs
from papers.conditional_kernels import conditional_kernels
from papers.experiment import Array, Cell, Experiment, Record, Result
from papers.few_labels_page import DEFAULT, draw, page
from papers.printed_deviations import LABELS, MODELS, PRINTED

SETS = tuple(PRINTED)
DRAWS = 10
FOLDS = 5
CS = (0.1, 1.0, 10.0, 100.0, 1000.0)
NUS: tuple[float, ...] = (0.001, 0.01, 0.1, 1.0, 10.0)  # of graphs and averages, besides 0
GRADIENT_NUS: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0)  # of gradients, where columns are standardized
NEIGHBORS = (5, 10, 20)
WIDTHS = (0.25, 0.5, 1.0)  # of local averages, in units of the kernel's scale divided by the root of the dimension
# Bounds on errors of kernels.  Those of gradients are in float32; where they were compared, they were right to 1e-4.
TOL, GRADIENT_TOL = 1e-4, 1e-2
SQUARED = ", squared hinge"  # after the name of a model
RACED = ("heart", "australian", "bci", "usps_ssl")  # where the papers' solver is timed
RACE_TOL = 1e-3


@dataclass(frozen=True, eq=False)
class Points:
    """The normalized points of a set, with labels -1 and +1, and their median distance."""

    X: Array
    y: Array
    scale: float


@lru_cache(maxsize=2)
def load_points(name: str, normalized: str) -> Points:
    """Load a set with standardized "columns", or with centered columns and "rows" of length one."""
    data = rkhs.datasets.load(name)
    X = data.standardized if normalized == "columns" else data.unit_rows
    return Points(X, data.y, rkhs.kernels.median_scale(X))


def labeled_rows(y: Array, labels: int, draw: int) -> Array:
    """Return the rows whose labels are known, of each class in proportion.

    Examples
    --------
    >>> y = np.repeat([-1, 1], 50)
    >>> few, more = labeled_rows(y, 30, draw=0), labeled_rows(y, 60, draw=0)
    >>> int(sum(y[few])), len(few), set(few) <= set(more)
    (0, 30, True)
    """
    rng = np.random.default_rng(draw)
    rank = np.empty(len(y))
    for label in np.unique(y):
        rows = rng.permutation(np.flatnonzero(y == label))
        rank[rows] = (np.arange(len(rows)) + 0.5) / len(rows)
    return np.sort(np.argsort(rank, kind="stable")[:labels])


def ever_labeled_rows(y: Array) -> Array:
    """Return the rows that have a label in some draw, in order."""
    return np.unique(np.concatenate([labeled_rows(y, LABELS[-1], draw) for draw in range(DRAWS)]))


def test_error(predicted: Array, y: Array, labeled: Array) -> float:
    """Return the percentage of the other points that is predicted wrongly."""
    rest = np.setdiff1d(np.arange(len(y)), labeled)
    return 100 * float(np.mean(predicted[rest] != y[rest]))


@dataclass(frozen=True, eq=False)
class Candidate:
    """A kernel matrix between all t points and the p that have labels in some draw, and the options that define it."""

    matrix: Array  # (t, p)
    nu: float
    options: dict[str, Any]


@lru_cache(maxsize=1)
def candidates(model: str, name: str, normalized: str) -> tuple[Candidate, ...]:
    """Compute the kernels among which a model chooses; they are kept for the next draw of the set."""
    points = load_points(name, normalized)
    at, kernel, values = ever_labeled_rows(points.y), rkhs.Gaussian(points.scale), rkhs.Evaluation(points.X)
    found = [Candidate(np.asarray(rkhs.gram(kernel, values, rkhs.Evaluation(points.X[at])).dense()), 0.0, {})]
    nus, tol = NUS, TOL
    if model == "InvSVM":  # where points are nearer, slopes are steeper
        nus = tuple(nu * (points.scale / load_points(name, "columns").scale) ** 2 for nu in GRADIENT_NUS)
        tol = GRADIENT_TOL
    for term, options in invariances(model, points):
        matrices = conditional_kernels(kernel, term, nus, values, at, tol)
        found += [Candidate(matrix, nu, options) for matrix, nu in zip(matrices, nus, strict=True)]
    return tuple(found)


def invariances(model: str, points: Points) -> Iterator[tuple[rkhs.Term, dict[str, Any]]]:
    """Yield the invariances that a model tries, with nu = 1, and their options."""
    if model == "InvSVM":
        yield rkhs.Term(rkhs.Gradient(points.X.astype(np.float32)), rkhs.Squared()), {}
    if model == "LapSVM":
        for count in NEIGHBORS:
            yield rkhs.Term(graph_functionals(points.X, count), rkhs.Squared()), {"neighbors": count}
    if model == "local average":  # nu means what it means for gradients: n slopes of squared norm 1 / s^2
        features = points.X.shape[1]
        for width in WIDTHS:
            functionals = rkhs.functionals.LocalDeviation(points.X, width=width * points.scale / np.sqrt(features))
            norm = float(rkhs.gram(rkhs.Gaussian(points.scale), functionals.take([0])).diagonal()[0])
            weight = features / (points.scale**2 * norm)
            yield rkhs.Term(functionals, rkhs.Squared(), weight=weight), {"width": width}


def graph_functionals(X: Array, neighbors: int) -> rkhs.extend.Functional:
    """Return one functional for each point; the sum of their squares is that of the differences along all edges."""
    graph = kneighbors_graph(X, neighbors)
    squares, V = np.linalg.eigh(scipy.sparse.csgraph.laplacian(graph.maximum(graph.T)).toarray())
    return (np.sqrt(squares.clip(min=0))[:, None] * V.T) @ rkhs.Evaluation(X)


def predict_with_best(
    found: Sequence[Candidate], y: Array, labeled: Array, squared: bool = False
) -> tuple[Array, dict[str, Any]]:
    """Choose kernel and C on the folds, train on all labels; return the predictions (t,) and the options.

    The best mean accuracy wins; among equal ones the least hinge loss, as in `InvariantClassifierCV`.
    """
    known, columns = y[labeled], np.searchsorted(ever_labeled_rows(y), labeled)
    tried = [(C, candidate) for C in CS for candidate in found]
    accuracies, losses = np.empty((2, len(tried), FOLDS))
    for i, (C, candidate) in enumerate(tried):
        accuracies[i], losses[i] = fold_scores(candidate.matrix[np.ix_(labeled, columns)], known, C, squared)
    C, best = tried[best_index(accuracies.mean(axis=1), losses.mean(axis=1))]
    model = fit_svm(best.matrix[np.ix_(labeled, columns)], known, C, squared)
    return model.predict(best.matrix[:, columns]), {"C": C, "nu": best.nu, **best.options}


def fold_scores(K: Array, y: Array, C: float, squared: bool = False) -> tuple[Array, Array]:
    """Return the accuracy and the mean hinge loss of the held-out labels of each fold; K has all labels."""
    accuracies, losses = np.empty((2, FOLDS))
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(y[:, None], y)
    for j, (a, b) in enumerate(folds):
        margins = y[b] * fit_svm(K[np.ix_(a, a)], y[a], C, squared).decision_function(K[np.ix_(b, a)])
        accuracies[j], losses[j] = np.mean(margins > 0), np.mean(np.maximum(0, 1 - margins))
    return accuracies, losses


def best_index(accuracies: Array, losses: Array) -> int:
    """Return the index of the largest accuracy, among equal ones that of the smallest loss.

    Examples
    --------
    >>> best_index(np.array([0.8, 0.9, 0.9]), np.array([0.1, 0.5, 0.4]))
    2
    """
    tied = np.flatnonzero(accuracies >= accuracies.max() - 1e-12)
    return int(tied[np.argmin(losses[tied])])


def fit_svm(K: Array, y: Array, C: float, squared: bool = False) -> Any:
    """Fit an SVM with a constant to labels y, given the kernel matrix of their points.

    The squared hinge is the hinge without an upper bound on the coefficients, and 1 / (2 C) on the diagonal.
    """
    if squared:
        return SVC(C=1e8, kernel="precomputed", tol=1e-4).fit(K + np.eye(len(y)) / (2 * C), y)
    return SVC(C=C, kernel="precomputed", tol=1e-4).fit(K, y)


def cells(sets: Sequence[str], labels: Sequence[int], draws: int, models: Sequence[str], normalized: str) -> list[Cell]:
    """Return one cell for each set, model, number of labels and draw; those that share kernels are neighbors."""
    return [
        {"set": name, "labels": count, "draw": draw, "model": model, "normalized": normalized}
        for name in sets
        for model in models
        for count in labels
        for draw in range(draws)
    ]


def plan(normalized: str, quick: bool, _: list[Record]) -> list[Cell]:
    """Plan all models on all draws, and the papers' solver on a sample."""
    if quick:
        return cells(("heart",), LABELS[:1], 1, (*MODELS, DEFAULT), normalized)
    race = cells(RACED, LABELS[-1:], 1, ("L-BFGS",), normalized)
    return [*cells(SETS, LABELS, DRAWS, (*MODELS, DEFAULT), normalized), *race]


def compute(cell: Cell) -> Result:
    """Return the test error in percent and the chosen options; of L-BFGS the seconds and gaps."""
    model, points = cell["model"], load_points(cell["set"], cell["normalized"])
    labeled = labeled_rows(points.y, cell["labels"], cell["draw"])
    if model == "L-BFGS":
        return race(points, labeled)
    if model == DEFAULT:
        few = np.full(len(points.y), -1)
        few[labeled] = points.y[labeled] > 0
        fitted = rkhs.InvariantClassifierCV().fit(points.X, few)
        predicted = np.where(fitted.predict(points.X) > 0, 1, -1)
        options = {"prior": fitted.selection_report_["chosen"]["prior"]}
    else:
        found = candidates(model.removesuffix(SQUARED), cell["set"], cell["normalized"])
        predicted, options = predict_with_best(found, points.y, labeled, model.endswith(SQUARED))
    return {"error": test_error(predicted, points.y, labeled), "chosen": options}


def race(points: Points, labeled: Array) -> Result:
    """Time the papers' L-BFGS and our solver to the same gap; squared hinge, since L-BFGS needs a gradient."""
    target = points.y[labeled]
    terms = [
        rkhs.Term(rkhs.Evaluation(points.X[labeled]), rkhs.SquaredHinge(), target=target, weight=10.0),
        rkhs.Term(rkhs.Gradient(points.X), rkhs.Squared(), weight=0.1),
    ]
    problem = rkhs.Problem(rkhs.Gaussian(points.scale), terms, rkhs.Constant())
    start = perf_counter()
    ours = problem.solve(tol=RACE_TOL).relative_gap
    between = perf_counter()
    theirs = problem.solve(rkhs.solvers.LBFGS(max_iterations=100_000), tol=RACE_TOL, time_limit=60.0).relative_gap
    seconds = {"ours": round(between - start, 3), "L-BFGS": round(perf_counter() - between, 3)}
    return {**seconds, "our gap": ours, "its gap": theirs, "reached": bool(theirs <= RACE_TOL)}


TABLE1 = Experiment("table1", "Few labels (Zhang et al. 2013, Table 1)", partial(plan, "columns"), compute, page, draw)
ROWS_TITLE = "Few labels, rows of unit length (Zhang et al. 2013, Table 1)"
TABLE1_ROWS = Experiment("table1-rows", ROWS_TITLE, partial(plan, "rows"), compute, page, draw)
