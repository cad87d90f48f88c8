"""Which settings, and do unlabelled points help?  Chosen by exact leave-one-out errors of the squared loss.

A candidate is a length scale for each feature, a graph of neighbours or none, its weight nu, and C.  The squared loss
knows what it would predict for each label without that label (`left_out`), for all C and classes from one
decomposition, and what the graph does to the kernel does not depend on labels:

    f = R theta,  K = RR'               the kernel, in m functions
    K_nu = R (I + 2 nu R'MR)^-1 R'      with the graph, whose sum of squares is f'Mf

so only R'MR and one factorisation for each nu are large, of m <= `FUNCTIONS` landmarks.  A held-out point stays,
unlabelled, and so does its place in the graph.

The least error wins; a graph only where the error falls by a tenth (`GAIN`): leave-one-out errors of 50 to 100 labels
are off by about that much, and where unlabelled points do not help a graph costs more than it gains where they help
a little (15 sets, 10 draws each: docs/decisions/unlabelled-rows.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from scipy.stats import rankdata
from sklearn.neighbors import NearestNeighbors

from rkhs.invariances.graph import Graph, laplacian_of, neighbour_weights, normalised, root_of_laplacian
from rkhs.kernels import Kernel, median_scale

Vector = np.ndarray[Any, Any]
WIDTHS = (0.5, 1.0, 2.0, 4.0)  # of the median distance
GRAPH_WIDTHS = (0.5, 1.0)
NEIGHBOURS, POWERS = (5, 10, 30), (1, 2, 4)
GAIN = 0.1  # of the error, by which it has to fall for a graph
FUNCTIONS = 1000  # landmarks, if there are more points
ALIKE = 1e-6  # share by which standard deviations of features may differ
JITTER = 1e-10  # of the diagonal, so that a kernel matrix has a factor


@dataclass(frozen=True)
class Candidate:
    """Settings, their mean squared leave-one-out error, and the share of wrong classes."""

    scale: float | tuple[float, ...]
    graph: Graph | None
    nu: float
    C: float
    loss: float
    error: float

    @property
    def params(self) -> dict[str, Any]:
        return {"C": self.C, "nu": self.nu, "scale": self.scale, "invariance": self.graph}


@dataclass(frozen=True, eq=False)
class Labelled:
    """Which points have labels, what these say (l, q), and their weights (l,), of mean one."""

    rows: Vector
    target: Vector
    weight: Vector
    classes: Vector | None  # of classification

    def error(self, values: Vector) -> float:
        """The share of wrong classes; for regression the root of the mean squared error."""
        if self.classes is None:
            return float(np.average((values - self.target)[:, 0] ** 2, weights=self.weight) ** 0.5)
        chosen = (values[:, 0] > 0).astype(int) if values.shape[1] == 1 else values.argmax(axis=1)
        return float(np.average(chosen != self.classes, weights=self.weight))


def candidates(
    X: Vector,
    labelled: Labelled,
    kernel_of: Callable[[Any], Kernel],
    scales: Sequence[Any] | None,
    Cs: Sequence[float],
    nus: Sequence[float],
    intercept: bool,
) -> list[Candidate]:
    """All candidates, judged; those without a graph first.

    `kernel_of` is a function from a scale, a number or one per feature, to the kernel; `scales` are those to try, None
    for multiples of the median distance, of features as they are and divided by their standard deviations.
    """
    rows = labelled.rows
    others = np.setdiff1d(np.arange(len(X)), rows)
    if len(X) > FUNCTIONS:
        others = np.random.default_rng(0).choice(others, max(0, FUNCTIONS - len(rows)), replace=False)
    centres = X[np.concatenate([rows, others])]
    found: list[Candidate] = []
    for unit, chosen in _metrics(X, scales):
        graphs = list(_graphs(X, unit)) if len(others) and any(nus) else []
        for scale, with_graph in chosen:
            R = _features(X, centres, kernel_of(scale))
            own = R[rows]
            found += _judged(scale, None, 0.0, own @ own.T, labelled, Cs, intercept)
            for graph, L, trace in graphs if with_graph else ():
                B = _energies(L, graph.power, R) / trace
                for nu in nus:
                    if nu > 0:
                        factor = scipy.linalg.cholesky(np.eye(len(B)) + 2 * nu * B, lower=True, check_finite=False)
                        V = scipy.linalg.solve_triangular(factor, own.T, lower=True, check_finite=False)
                        found += _judged(scale, graph, nu, V.T @ V, labelled, Cs, intercept)
    return sorted(found, key=lambda one: one.graph is not None)


def best(found: Sequence[Candidate]) -> Candidate:
    """The candidate of the least error; one with a graph only where that gains enough."""
    plain = min((one for one in found if one.graph is None), key=lambda one: one.loss)
    graph = min((one for one in found if one.graph is not None), key=lambda one: one.loss, default=plain)
    return graph if graph.loss < (1 - GAIN) * plain.loss else plain


def report(found: Sequence[Candidate], chosen: Candidate, classes: bool) -> dict[str, Any]:
    """What was tried, what it was worth, and one plain sentence about it."""
    plain = min((one for one in found if one.graph is None), key=lambda one: one.loss)
    graph = min((one for one in found if one.graph is not None), key=lambda one: one.loss, default=None)
    what = "errors" if classes else "root mean squared error"

    def said(error: float) -> str:
        return f"{100 * error:.1f} %" if classes else f"{error:.4g}"

    if graph is None:
        words = f"Without each label in turn: {said(chosen.error)} {what}. There are no unlabelled rows to learn from."
    elif chosen.graph is None:
        words = f"Unlabelled rows did not help: {said(plain.error)} {what} without them, {said(graph.error)} with them."
    elif graph.error < plain.error:
        words = f"Unlabelled rows helped: {said(graph.error)} {what} instead of {said(plain.error)}."
    else:
        words = (
            f"Unlabelled rows helped a little: {said(graph.error)} {what}, {said(plain.error)} before, and less doubt."
        )
    rows = [{"knowledge": "none", "error": plain.error, "loss": plain.loss, **plain.params}]
    if graph is not None:
        rows.append({"knowledge": "graph", "error": graph.error, "loss": graph.loss, **graph.params})
    return {"sentence": words, "candidates": rows, "chosen": chosen.params, "score": _score(chosen, classes)}


def results(found: Sequence[Candidate], seconds: float, classes: bool) -> dict[str, Any]:
    """As `cv_results_` of scikit-learn's searches; the one split is that into each label and all others."""
    scores = np.array([_score(one, classes) for one in found])
    nothing = np.zeros(len(found))
    told: dict[str, Any] = {"mean_fit_time": nothing + seconds / len(found), "std_fit_time": nothing}
    told |= {"mean_score_time": nothing, "std_score_time": nothing}
    for name in ("C", "nu", "scale", "invariance"):
        values = np.empty(len(found), dtype=object)
        values[:] = [one.params[name] for one in found]
        told[f"param_{name}"] = np.ma.masked_array(values, mask=False)
    told["params"] = [one.params for one in found]
    losses = np.array([one.loss for one in found])
    ranks = rankdata(losses, method="min").astype(np.int32)
    return told | {
        "split0_test_score": scores,
        "mean_test_score": scores,
        "std_test_score": nothing,
        "mean_test_loss": losses,
        "rank_test_score": ranks,
    }


def _score(one: Candidate, classes: bool) -> float:
    """Accuracy, or minus the mean squared error."""
    return 1 - one.error if classes else -(one.error**2)


def left_out(K: Vector, target: Vector, weight: Vector, Cs: Sequence[float], intercept: bool) -> Iterator[Vector]:
    """For each C what the squared loss predicts (l, q) for each label without it, from the kernel matrix of labels.

    With S = K + diag(1 / (2 C w)) and P its inverse, or that on {1'a = 0} with an intercept, the error of label i
    without itself is (P target)_i / P_ii.

    Examples
    --------
    >>> import numpy as np
    >>> [values] = left_out(np.eye(3), np.array([[0.0], [3.0], [6.0]]), np.ones(3), [1.0], intercept=True)
    >>> values.ravel()  # with no correlation the mean of the others
    array([4.5, 3. , 1.5])
    """
    root = np.sqrt(weight)
    spectrum, U = np.linalg.eigh(root[:, None] * K * root)
    spectrum = np.clip(spectrum, 0.0, None)
    U = root[:, None] * U
    for C in Cs:
        P = (U / (spectrum + 1 / (2 * C))) @ U.T
        if intercept:
            sums = P.sum(axis=1)
            P = P - np.outer(sums, sums) / sums.sum()
        yield target - (P @ target) / np.diag(P)[:, None]


def _judged(
    scale: Any, graph: Graph | None, nu: float, K: Vector, labelled: Labelled, Cs: Sequence[float], intercept: bool
) -> list[Candidate]:
    found = []
    for C, values in zip(Cs, left_out(K, labelled.target, labelled.weight, Cs, intercept), strict=True):
        loss = float(np.average(np.mean((values - labelled.target) ** 2, axis=1), weights=labelled.weight))
        found.append(Candidate(scale, graph, nu, C, loss if np.isfinite(loss) else np.inf, labelled.error(values)))
    return found


def _metrics(X: Vector, scales: Sequence[Any] | None) -> Iterator[tuple[Any, list[tuple[Any, bool]]]]:
    """What features are divided by for distances, with the scales to try there and whether with a graph."""
    if scales is not None:
        yield 1.0, [(scale, True) for scale in scales]
        return
    spread = X.std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    units: list[Any] = [1.0] if np.ptp(spread) <= ALIKE * spread.max() else [1.0, spread]
    for unit in units:
        median = median_scale(X / unit)
        scaled = [np.asarray(median * width * unit) for width in WIDTHS]
        chosen = [float(s) if s.ndim == 0 else tuple(s.tolist()) for s in scaled]
        yield unit, [(s, width in GRAPH_WIDTHS) for s, width in zip(chosen, WIDTHS, strict=True)]


def _energies(L: Any, power: int, R: Vector) -> Vector:
    """R'L^p R."""
    for _ in range(power // 2):
        R = L @ R
    return R.T @ (L @ R if power % 2 else R)


def _graphs(X: Vector, unit: Any) -> Iterator[tuple[Graph, Any, float]]:
    """Graphs of neighbours, their Laplacians L and the traces of L^p."""
    most = min(max(NEIGHBOURS), len(X) - 1)
    distances, neighbours = NearestNeighbors(n_neighbors=most).fit(X / unit).kneighbors()
    for count in sorted({min(k, most) for k in NEIGHBOURS}):
        W = normalised(neighbour_weights(distances[:, :count], neighbours[:, :count]))
        L = laplacian_of(W)
        for power in POWERS:
            trace = float(np.sum(root_of_laplacian(W, power).data ** 2))
            if trace > 0:
                yield Graph(count, power, scale=unit), L, trace


def _features(X: Vector, centres: Vector, kernel: Kernel) -> Vector:
    """R (t, m) with RR' the kernel matrix, or its best approximation by the functions k(x, centre)."""
    K = kernel(centres)
    K[np.diag_indices_from(K)] += JITTER * float(np.mean(np.diag(K)))
    factor = scipy.linalg.cholesky(K, lower=True, check_finite=False)
    return np.asarray(scipy.linalg.solve_triangular(factor, kernel(X, centres).T, lower=True, check_finite=False).T)
