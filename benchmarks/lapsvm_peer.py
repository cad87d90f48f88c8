"""The Laplacian SVM: ours, and LAMDA-SSL's LapSVM, an optional peer, on the same problem.

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
from rkhs._core.graphs.neighbor_graph import nearest as nearest_points, normalized
from rkhs.invariances._graph import neighbor_weights

WIDTH = 0.05  # of the weights of its graph of all pairs
MISSING = "LAMDA-SSL is not installed, its columns are left out: pip install --no-deps LAMDA-SSL"


def installed() -> bool:
    """Whether LAMDA-SSL, and PyTorch of which its LapSVM imports a class, are there."""
    return find_spec("LAMDA_SSL") is not None and find_spec("torch") is not None


def laplacian_svm(n_neighbors: int = 10, power: int = 2, **options: Any) -> rkhs.InvariantClassifier:
    """Return our normalized Laplacian SVM, which is not the LapSVM of Table 1 in `papers/few_labels.py`."""
    graph = rkhs.invariances.Graph(n_neighbors, power)
    given = {"loss": "hinge", "invariance": graph, "C": 100.0, "nu": 1000.0, "tol": 1e-3, **options}
    return rkhs.InvariantClassifier(**given)


def nearest(neighbors: int) -> Callable[[Any, Any], Any]:
    """The graph of `laplacian_svm`: an edge where one point is among the nearest neighbors of the other."""

    def weights(X: Any, _: Any) -> Any:
        W = graph_weights(X, neighbors)
        return (W / W.sum()).toarray()  # the trace of L is that sum

    return weights


def graph_weights(X: Any, neighbors: int) -> Any:
    """The weights (t, t), sparse."""
    return normalized(neighbor_weights(*nearest_points(X, neighbors)))


def lapsvm(model: rkhs.InvariantClassifier, labels: int, points: int) -> Any:
    """LAMDA-SSL's model with our kernel, graph (of power one) and weights.

    C = 1 / (2 gamma_A l) and nu = gamma_I tr(L) / (2 gamma_A t^2), for l labels of t points.
    """
    ClassifierMixin._estimator_type = "classifier"  # as before scikit-learn 1.6
    from LAMDA_SSL.Algorithm.Classification.LapSVM import LapSVM

    gamma_A = 1 / (2 * model.C * labels)
    return LapSVM(
        distance_function=nearest(model.invariance.n_neighbors),
        kernel_function="rbf",
        gamma_k=1 / (2 * model.scale**2),
        gamma_A=gamma_A,
        gamma_I=2 * gamma_A * model.nu * points**2,
    )


def on_all_pairs(model: Any, X: Any) -> Any:
    """The same model with its own graph, Gaussian weights between all pairs, as heavy as the other in total."""
    share = model.distance_function(X, X).sum() / rbf_kernel(X, gamma=1 / (2 * WIDTH**2)).sum()
    model.distance_function, model.gamma_d = "rbf", 1 / (2 * WIDTH**2)
    model.gamma_I *= share
    return model
