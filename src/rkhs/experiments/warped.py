"""Machines whose knowledge is quadratic, as plain SVMs with a warped kernel (theory, section 4).

    min 1/2 |f|^2 + C sum_i hinge(f(x_i); y_i) + nu sum_j w_j (L_j f)^2      L_j of constants = 0

is the SVM with the covariance of the points given the L_j (`solvers.warped_path`) as its kernel.  It does not depend on
labels: one matrix serves all C, folds and draws, and LIBSVM does the rest.  Of its columns only those of points that
have a label in some draw are needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse.csgraph
from sklearn.svm import SVC

from rkhs._finite.term import Term
from rkhs._gram import gram
from rkhs.estimators._cross_validation import Search
from rkhs.experiments.protocol import CS, Array, Points, ever_labelled, folds_of, points_of
from rkhs.functionals import Evaluation, Functional, Gradient, LocalDeviation
from rkhs.invariances.graph import neighbour_graph
from rkhs.kernels import Gaussian
from rkhs.losses import Hinge, Squared
from rkhs.problem import Problem
from rkhs.solvers.warped_path import warped_path

NUS: tuple[float, ...] = (0.001, 0.01, 0.1, 1.0, 10.0)  # of graphs and averages, beside 0
FLAT_NUS: tuple[float, ...] = (0.01, 0.1, 1.0, 10.0)  # of gradients, where columns are standardised
NEIGHBOURS = (5, 10, 20)
WIDTHS = (0.25, 0.5, 1.0)  # of local averages, in units of the kernel's scale divided by the root of the dimension
TOL = 1e-4  # bound on errors of kernels
FLAT_TOL = 1e-2  # of those with gradients, in float32; they were wrong by a hundredth of it where they were compared


@dataclass(frozen=True, eq=False)
class Candidate:
    """A kernel between all points and the p that have labels in some draw, and what makes it."""

    matrix: Array  # (t, p)
    nu: float
    options: dict[str, Any]


@lru_cache(maxsize=1)
def candidates(machine: str, name: str, normalised: str) -> tuple[Candidate, ...]:
    """The kernels among which a machine chooses; kept for the next draw of the set."""
    points = points_of(name, normalised)
    at, kernel, values = ever_labelled(points.y), Gaussian(points.scale), Evaluation(points.X)
    found = [Candidate(np.asarray(gram(kernel, values, values.take(at)).dense()), 0.0, {})]
    nus, tol = (FLAT_NUS, FLAT_TOL) if machine == "InvSVM" else (NUS, TOL)
    if machine == "InvSVM":  # where points are nearer, slopes are steeper
        nus = tuple(nu * (points.scale / points_of(name, "columns").scale) ** 2 for nu in nus)
    for term, options in knowledge(machine, points):
        matrices = warped_path(Problem(kernel, [term]).represented, nus, values, at, tol)
        found += [Candidate(matrix, nu, options) for matrix, nu in zip(matrices, nus, strict=True)]
    return tuple(found)


def knowledge(machine: str, points: Points) -> Iterator[tuple[Term, dict[str, Any]]]:
    """What a machine knows beside the labels, for nu = 1, and the options of it."""
    if machine == "InvSVM":
        yield Term(Gradient(points.X.astype(np.float32)), Squared()), {}
    if machine == "LapSVM":
        for count in NEIGHBOURS:
            yield Term(along_edges(points.X, count), Squared()), {"neighbours": count}
    if machine == "local average":  # nu means what it means for gradients: n slopes of squared norm 1 / s^2
        features = points.X.shape[1]
        for width in WIDTHS:
            functionals = LocalDeviation(points.X, width=width * points.scale / np.sqrt(features))
            norm = float(gram(Gaussian(points.scale), functionals.take([0])).diagonal()[0])
            yield Term(functionals, Squared(), weight=features / (points.scale**2 * norm)), {"width": width}


def along_edges(X: Array, neighbours: int) -> Functional:
    """One functional a point whose squares add up to those of `laplacian`'s edges, of which there are more."""
    squares, V = np.linalg.eigh(scipy.sparse.csgraph.laplacian(neighbour_graph(X, neighbours)).toarray())
    return (np.sqrt(squares.clip(min=0))[:, None] * V.T) @ Evaluation(X)


def chosen_machine(found: Sequence[Candidate], y: Array, labelled: Array) -> tuple[Array, dict[str, Any]]:
    """The predictions (t,) of the best machine on the folds, trained on all labels, and its options.

    Of several that of the least loss of held-out labels, as `InvariantClassifierCV` takes it.
    """
    known, folds, columns = y[labelled], folds_of(y[labelled]), np.searchsorted(ever_labelled(y), labelled)
    tried: list[dict[str, Any]] = [{"kernel": k, "C": C} for C in CS for k in range(len(found))]
    scores, losses = np.empty((2, len(tried), len(folds)))
    for i, one in enumerate(tried):
        own = found[one["kernel"]].matrix[np.ix_(labelled, columns)]
        for j, (a, b) in enumerate(folds):
            machine = _trained(own[np.ix_(a, a)], known[a], one["C"])
            margins = known[b] * machine.decision_function(own[np.ix_(b, a)])
            scores[i, j], losses[i, j] = np.mean(margins > 0), np.mean(Hinge().value(margins, np.ones(1)))
    chosen = tried[Search(tried, scores, losses, 0.0).best]
    best = found[chosen["kernel"]]
    machine = _trained(best.matrix[np.ix_(labelled, columns)], known, chosen["C"])
    return machine.predict(best.matrix[:, columns]), {"C": chosen["C"], "nu": best.nu, **best.options}


def _trained(K: Array, y: Array, C: float) -> Any:
    return SVC(C=C, kernel="precomputed", tol=1e-4).fit(K, y)
