"""What each label would be predicted to be without itself: exact errors of the squared loss."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs.invariances.graph import Graph

Vector = np.ndarray[Any, Any]


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


def left_out(K: Vector, target: Vector, weight: Vector, Cs: Sequence[float], intercept: bool) -> Iterator[Vector]:
    """For each C what the squared loss predicts (l, q) for each label without it, from the kernel matrix of labels.

    With S = K + diag(1 / (2 C w)) and P its inverse, or that on {1'a = 0} with an intercept, the error of label i
    without itself is (P target)_i / P_ii.  Without any other label there is the constant at most, and nothing is known
    of that: the prediction is 0.

    Examples
    --------
    >>> import numpy as np
    >>> [values] = left_out(np.eye(3), np.array([[0.0], [3.0], [6.0]]), np.ones(3), [1.0], intercept=True)
    >>> values.ravel()  # with no correlation the mean of the others
    array([4.5, 3. , 1.5])
    """
    if len(target) == 1:
        yield from (np.zeros_like(target) for _ in Cs)
        return
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


def judged(
    scale: Any, graph: Graph | None, nu: float, K: Vector, labelled: Labelled, Cs: Sequence[float], intercept: bool
) -> list[Candidate]:
    """The candidates of one kernel matrix of labels, one for each C."""
    found = []
    for C, values in zip(Cs, left_out(K, labelled.target, labelled.weight, Cs, intercept), strict=True):
        loss = float(np.average(np.mean((values - labelled.target) ** 2, axis=1), weights=labelled.weight))
        found.append(Candidate(scale, graph, nu, C, loss if np.isfinite(loss) else np.inf, labelled.error(values)))
    return found
