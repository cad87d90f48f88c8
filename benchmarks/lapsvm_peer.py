"""LAMDA-SSL's LapSVM, an optional peer, on the problem of `rkhs.LaplacianSVC`.

Its own requirements (torchvision, torchtext, torch-geometric) are not those of its LapSVM, so install it without them:

    pip install --no-deps LAMDA-SSL

It was written for an older scikit-learn, and its graph of nearest neighbors is not one (the degrees of all vertices
but the first are lost): an attribute that scikit-learn has dropped is put back, and it gets our graph.  The graph that
works as it comes is that of all pairs of points, which costs it most of its time.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from sklearn.base import ClassifierMixin
from sklearn.metrics.pairwise import rbf_kernel

import rkhs
from rkhs.invariances._graph import nearest as nearest_points, neighbor_weights, normalized

WIDTH = 0.05  # of the weights of its graph of all pairs
MISSING = "LAMDA-SSL is not installed, its columns are left out: pip install --no-deps LAMDA-SSL"


def installed() -> bool:
    """Whether LAMDA-SSL, and PyTorch of which its LapSVM imports a class, are there."""
    return find_spec("LAMDA_SSL") is not None and find_spec("torch") is not None


def nearest(neighbors: int) -> Callable[[Any, Any], Any]:
    """The graph of `LaplacianSVC`: an edge where one point is among the nearest neighbors of the other."""

    def weights(X: Any, _: Any) -> Any:
        W = graph_weights(X, neighbors)
        return (W / W.sum()).toarray()  # the trace of L is that sum

    return weights


def graph_weights(X: Any, neighbors: int) -> Any:
    """The weights (t, t), sparse."""
    return normalized(neighbor_weights(*nearest_points(X, neighbors)))


def lapsvm(machine: rkhs.LaplacianSVC, labels: int, points: int) -> Any:
    """LAMDA-SSL's machine with our kernel, graph (of power one) and weights, see `LaplacianSVC`."""
    ClassifierMixin._estimator_type = "classifier"  # as before scikit-learn 1.6
    from LAMDA_SSL.Algorithm.Classification.LapSVM import LapSVM

    gamma_A = 1 / (2 * machine.C * labels)
    return LapSVM(
        distance_function=nearest(machine.n_neighbors),
        kernel_function="rbf",
        gamma_k=1 / (2 * machine.scale**2),
        gamma_A=gamma_A,
        gamma_I=2 * gamma_A * machine.nu * points**2,
    )


def on_all_pairs(machine: Any, X: Any) -> Any:
    """The same machine with its own graph, Gaussian weights between all pairs, as heavy as the other in total."""
    share = machine.distance_function(X, X).sum() / rbf_kernel(X, gamma=1 / (2 * WIDTH**2)).sum()
    machine.distance_function, machine.gamma_d = "rbf", 1 / (2 * WIDTH**2)
    machine.gamma_I *= share
    return machine
