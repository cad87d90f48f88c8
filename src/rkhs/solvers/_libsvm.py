"""The support vector machine by LIBSVM, through scikit-learn.

With hinge losses and a constant basis the problem is LIBSVM's, with w_i as C for example i.  Without a basis, every
example (z_i, b_i) is duplicated as (-z_i, -b_i), each at half the weight: J is then even in LIBSVM's intercept, whose
optimum is zero, and the coefficients of both copies add up.

LIBSVM computes with kernels in single precision.  It identifies the examples at a bound reliably; `BoxDual` continues
from them, which takes one solution of the linear equations of the others if none of them is wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Matrix, to_numpy
from rkhs._core.finite.monitor import Monitor, Steps
from rkhs._core.finite.problem import FiniteProblem, Iterate
from rkhs.losses import Hinge
from rkhs.solvers._base import Estimate, OutputSolver, lacking
from rkhs.solvers._interior_point import BoxDual, dual_steps

ITERATIONS = 50_000  # maximal number of LIBSVM's iterations, each of which updates a pair of examples


@dataclass(frozen=True)
class LibSVM(OutputSolver):
    """LIBSVM's sequential minimal optimization, for the hinge loss with a constant basis or none.

    The Gram matrix must fit in memory.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.random.default_rng(0).standard_normal((50, 2))
    >>> labels = rkhs.Term(rkhs.Evaluation(X), rkhs.Hinge(), target=np.where(X[:, 0] > 0, 1, -1), weight=10.0)
    >>> rkhs.Problem(rkhs.Gaussian(scale=1.0), [labels], rkhs.Constant()).solve(rkhs.solvers.LibSVM()).status
    'converged'
    """

    def lacks(self, system: FiniteProblem) -> str | None:
        remedy = (
            "rkhs.solvers.SchurComplement() if the others are Squared, or rkhs.solvers.NonlinearCG() for any losses"
        )
        message = lacking(self, system, lambda loss: isinstance(loss, Hinge), "all losses to be Hinge", remedy)
        if message is None and system.Q.shape[1] and not _constant(to_numpy(system.Q)):
            message = (
                "LibSVM needs a constant basis or none, but this problem has another: use rkhs.solvers.NonlinearCG()."
            )
        return message or super().lacks(system)

    def cost(self, estimate: Estimate) -> float:
        system = estimate.system
        largest = max(float(np.max(to_numpy(t.weight), initial=0.0)) for t in system.terms)
        seconds = estimate.matrix + 10e-9 * system.columns * system.size**2 * float(1 + np.log1p(largest))
        # At weights of 1e6 LIBSVM misses the tolerance in half of the cases.
        return seconds + largest / (1e6 + largest) * BoxDual().cost(estimate)

    def output_steps(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Steps:
        labels, weights = system.target[:, 0], system.weight[:, 0]
        a, c = svm(system.gram.dense(), labels, weights, system.Q)
        return dual_steps(system, Iterate(a[:, None], c[:, None], a[:, None]), tol, monitor)


def _constant(Q: Matrix) -> bool:
    """Return whether Q is one column of equal entries."""
    return Q.shape[1] == 1 and bool(np.all(np.abs(Q - Q[:1]) <= 1e-9 * np.abs(Q[:1])))


def svm(G: Matrix, labels: Matrix, weights: Matrix, Q: Matrix) -> tuple[Matrix, Matrix]:
    """Return the coefficients (N,) of labels with a Gram matrix G (N, N), and those of the basis Q (N, r)."""
    positive = np.flatnonzero(weights > 0)
    if len(positive) < len(weights):
        a = np.zeros(len(weights))
        block = G[np.ix_(positive, positive)]
        a[positive], c = svm(block, labels[positive], weights[positive], Q[positive])
        return a, c
    if len(labels) == 0:
        return np.zeros(0), np.zeros(Q.shape[1])
    if Q.shape[1]:
        if np.all(labels == labels[0]):  # the constant alone has no loss
            return np.zeros(len(labels)), labels[:1] / Q[0]
        a, intercept = _svc(G, labels, weights)
        return a, intercept / Q[0]
    mirrored = np.block([[G, -G], [-G, G]])
    a, _ = _svc(mirrored, np.concatenate([labels, -labels]), np.tile(weights / 2, 2))
    return a[: len(labels)] - a[len(labels) :], np.zeros(0)


def _svc(G: Matrix, labels: Matrix, weights: Matrix) -> tuple[Matrix, float]:
    """Return LIBSVM's coefficients (N,) and intercept."""
    svc = _silent_svc()(C=1.0, kernel="precomputed", max_iter=ITERATIONS)
    svc.fit(G, labels, sample_weight=weights)
    a = np.zeros(len(labels))
    a[svc.support_] = svc.dual_coef_[0]
    return a, float(svc.intercept_[0])


@cache
def _silent_svc() -> Any:
    """Return an SVC class without a convergence warning.

    The certificate decides about convergence, and a warning filter would affect all threads.
    """
    from sklearn.svm import SVC  # imported here because it takes longer than importing rkhs

    class SilentSVC(SVC):  # type: ignore[misc]
        def _warn_from_fit_status(self) -> None:
            pass

    return SilentSVC
