"""Machines whose knowledge is quadratic, as plain SVMs with a warped kernel (theory, section 4).

    min 1/2 |f|^2 + C sum_i hinge(f(x_i); y_i) + nu sum_j (L_j f)^2      L_j of constants = 0

is the SVM with the kernel  K~ = K - K_q (G + I/(2 nu))^-1 K_q'  of the points, K_q their Gram matrix with the L_j and
G that of the L_j.  For a graph, where L = D f(X), it is  K~ = (I + 2 nu K D'D)^-1 K.  K~ does not depend on labels: one
matrix serves all C, folds and draws, and LIBSVM does the rest.
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

from rkhs.experiments.protocol import CS, Array, Points, folds_of, points_of
from rkhs.functionals import Evaluation, Functional, LocalDeviation
from rkhs.gram import gram
from rkhs.invariances.named import neighbour_graph
from rkhs.kernels import Gaussian

NUS = (0.0, 0.001, 0.01, 0.1, 1.0, 10.0)
NEIGHBOURS = (5, 10, 20)
WIDTHS = (0.25, 0.5, 1.0)  # of local averages, in units of the kernel's scale divided by the root of the dimension


@dataclass(frozen=True, eq=False)
class Candidate:
    """A kernel matrix of all points, what makes it, and its nu."""

    matrix: Array  # (t, t)
    nu: float
    options: dict[str, Any]


@lru_cache(maxsize=1)
def candidates(machine: str, name: str, normalised: str) -> tuple[Candidate, ...]:
    """The kernels among which a machine chooses; kept for the next draw of the set."""
    points = points_of(name, normalised)
    K = gram(Gaussian(points.scale), Evaluation(points.X)).dense()
    plain = Candidate(K, 0.0, {})
    if machine == "SVM":
        return (plain,)
    make = {"LapSVM": _on_graphs, "local average": _by_averages}[machine]
    return (plain, *make(points, K))


def _on_graphs(points: Points, K: Array) -> Iterator[Candidate]:
    for count in NEIGHBOURS:
        L = scipy.sparse.csgraph.laplacian(neighbour_graph(points.X, count)).toarray()
        for nu in NUS[1:]:
            yield Candidate(graph_warped(K, L, nu), nu, {"neighbours": count})


def graph_warped(K: Array, L: Array, nu: float) -> Array:
    """(I + 2 nu K L)^-1 K for the Laplacian L = D'D of a graph.

    Examples
    --------
    >>> import numpy as np
    >>> graph_warped(np.eye(2), np.array([[1.0, -1.0], [-1.0, 1.0]]), nu=1e9).round(6)  # f is the same at both points
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    warped = scipy.linalg.solve(np.eye(len(K)) + 2 * nu * K @ L, K)
    return np.asarray((warped + warped.T) / 2)


def _by_averages(points: Points, K: Array) -> Iterator[Candidate]:
    for width in WIDTHS:
        functionals = LocalDeviation(points.X, width=width * points.scale / np.sqrt(points.X.shape[1]))
        for nu, matrix in zip(NUS[1:], average_warped(points, functionals, K, NUS[1:]), strict=True):
            yield Candidate(matrix, nu, {"width": width})


def average_warped(points: Points, functionals: Functional, K: Array, nus: Sequence[float]) -> Iterator[Array]:
    """K - K_q (G + I/(2 w))^-1 K_q' for one functional at each point and each nu.

    w = nu n / (s |L|)^2, so that nu means what it means for gradients: n slopes of squared norm 1 / s^2.
    """
    kernel = Gaussian(points.scale)
    G = gram(kernel, functionals).dense()
    across = gram(kernel, functionals, Evaluation(points.X)).dense()
    unit = points.X.shape[1] / (points.scale**2 * G[0, 0])
    for nu in nus:
        inside = scipy.linalg.solve(G + np.eye(len(G)) / (2 * nu * unit), across, assume_a="pos")
        matrix = K - across.T @ inside
        yield (matrix + matrix.T) / 2


def chosen_machine(found: tuple[Candidate, ...], y: Array, labelled: Array) -> tuple[Array, dict[str, Any]]:
    """The predictions (t,) of the best machine on the folds, trained on all labels, and its options.

    Of several the flattest is taken, as `InvariantClassifierCV` does: the largest nu, then the smallest C.
    """
    known, folds = y[labelled], folds_of(y[labelled])
    scores = []
    for k, candidate in enumerate(found):
        own = candidate.matrix[np.ix_(labelled, labelled)]
        for C in CS:
            right = [
                np.mean(_trained(own[np.ix_(a, a)], known[a], C).predict(own[np.ix_(b, a)]) == known[b])
                for a, b in folds
            ]
            scores.append((-round(float(np.mean(right)), 12), -candidate.nu, C, k))
    _, _, C, k = min(scores)
    best = found[k]
    machine = _trained(best.matrix[np.ix_(labelled, labelled)], known, C)
    return machine.predict(best.matrix[:, labelled]), {"C": C, "nu": best.nu, **best.options}


def _trained(K: Array, y: Array, C: float) -> Any:
    return SVC(C=C, kernel="precomputed", tol=1e-4).fit(K, y)
