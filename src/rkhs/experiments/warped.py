"""Machines whose knowledge is quadratic, as plain SVMs with a warped kernel (theory, section 4).

    min 1/2 |f|^2 + C sum_i hinge(f(x_i); y_i) + nu sum_j (L_j f)^2      L_j of constants = 0

is the SVM with the kernel  K~ = K - K_q (G + I/(2 nu))^-1 K_q'  of the points, K_q their Gram matrix with the L_j and
G that of the L_j.  For a graph, where L = D f(X), it is  K~ = (I + 2 nu K D'D)^-1 K; gradients are in `flat.py`.  It
does not depend on labels: one matrix serves all C, folds and draws, and LIBSVM does the rest.  Of its columns only
those of points that have a label in some draw are needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.csgraph
from sklearn.svm import SVC

from rkhs.experiments.flat import flat_kernels
from rkhs.experiments.protocol import CS, Array, Points, ever_labelled, folds_of, points_of
from rkhs.functionals import Evaluation, Functional, LocalDeviation
from rkhs.gram import gram
from rkhs.invariances.named import neighbour_graph
from rkhs.kernels import Gaussian
from rkhs.losses import Hinge

NUS = (0.001, 0.01, 0.1, 1.0, 10.0)  # of graphs and averages, beside 0
FLAT_NUS = (0.01, 0.1, 1.0, 10.0)  # of gradients, where columns are standardised
NEIGHBOURS = (5, 10, 20)
WIDTHS = (0.25, 0.5, 1.0)  # of local averages, in units of the kernel's scale divided by the root of the dimension


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
    at = ever_labelled(points.y)
    K = gram(Gaussian(points.scale), Evaluation(points.X)).dense()
    plain = Candidate(K[:, at], 0.0, {})
    if machine == "SVM":
        return (plain,)
    if machine == "InvSVM":
        shrunk = points.scale / points_of(name, "columns").scale  # where points are nearer, slopes are steeper
        nus = [nu * shrunk**2 for nu in FLAT_NUS]
        flat = flat_kernels(points.X, at, points.scale, nus)
        return (plain, *(Candidate(matrix, nu, {}) for matrix, nu in zip(flat, nus, strict=True)))
    make = {"LapSVM": _on_graphs, "local average": _by_averages}[machine]
    return (plain, *make(points, K, at))


def _on_graphs(points: Points, K: Array, at: Array) -> Iterator[Candidate]:
    for count in NEIGHBOURS:
        L = scipy.sparse.csgraph.laplacian(neighbour_graph(points.X, count)).toarray()
        for nu in NUS:
            yield Candidate(graph_warped(K, L, nu, at), nu, {"neighbours": count})


def graph_warped(K: Array, L: Array, nu: float, at: Array) -> Array:
    """The columns `at` of (I + 2 nu K L)^-1 K for the Laplacian L = D'D of a graph.

    Examples
    --------
    >>> import numpy as np
    >>> L = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> graph_warped(np.eye(2), L, nu=1e9, at=np.array([0, 1])).round(6)  # f is the same at both points
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    return np.asarray(scipy.linalg.solve(np.eye(len(K)) + 2 * nu * K @ L, K[:, at]))


def _by_averages(points: Points, K: Array, at: Array) -> Iterator[Candidate]:
    for width in WIDTHS:
        functionals = LocalDeviation(points.X, width=width * points.scale / np.sqrt(points.X.shape[1]))
        for nu, matrix in zip(NUS, average_warped(points, functionals, K, NUS, at), strict=True):
            yield Candidate(matrix, nu, {"width": width})


def average_warped(
    points: Points, functionals: Functional, K: Array, nus: Sequence[float], at: Array
) -> Iterator[Array]:
    """The columns `at` of K - K_q (G + I/(2 w))^-1 K_q' for one functional at each point and each nu.

    w = nu n / (s |L|)^2, so that nu means what it means for gradients: n slopes of squared norm 1 / s^2.
    """
    kernel = Gaussian(points.scale)
    G = gram(kernel, functionals).dense()
    across = gram(kernel, functionals, Evaluation(points.X)).dense()
    unit = points.X.shape[1] / (points.scale**2 * G[0, 0])
    for nu in nus:
        inside = scipy.linalg.solve(G + np.eye(len(G)) / (2 * nu * unit), across[:, at], assume_a="pos")
        yield K[:, at] - across.T @ inside


def chosen_machine(found: Sequence[Candidate], y: Array, labelled: Array) -> tuple[Array, dict[str, Any]]:
    """The predictions (t,) of the best machine on the folds, trained on all labels, and its options.

    Of several that of the least loss of held-out labels, as `InvariantClassifierCV` takes it.
    """
    known, folds, columns = y[labelled], folds_of(y[labelled]), np.searchsorted(ever_labelled(y), labelled)
    scores = []
    for k, candidate in enumerate(found):
        own = candidate.matrix[np.ix_(labelled, columns)]
        for C in CS:
            margins = [
                known[b] * _trained(own[np.ix_(a, a)], known[a], C).decision_function(own[np.ix_(b, a)])
                for a, b in folds
            ]
            accuracy = np.mean([np.mean(margin > 0) for margin in margins])
            loss = np.mean([np.mean(Hinge().value(margin, np.ones(1))) for margin in margins])
            scores.append((-round(float(accuracy), 12), float(loss), C, k))
    _, _, C, k = min(scores)
    best = found[k]
    machine = _trained(best.matrix[np.ix_(labelled, columns)], known, C)
    return machine.predict(best.matrix[:, columns]), {"C": C, "nu": best.nu, **best.options}


def _trained(K: Array, y: Array, C: float) -> Any:
    return SVC(C=C, kernel="precomputed", tol=1e-4).fit(K, y)
