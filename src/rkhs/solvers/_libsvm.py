"""The support vector machine, by LIBSVM through scikit-learn.

All losses hinge, with a constant basis: LIBSVM's own problem, with w_i as its C for example i.  Without a basis, every
example (z_i, b_i) is given together with (-z_i, -b_i), each at half the weight: J is then even in LIBSVM's intercept,
which is best at zero, and the coefficients of both add up.

LIBSVM computes with kernels in single precision.  What it finds out well is which examples are at an end of their box,
and the others then solve linear equations: u_i = b_i for all of them.  Where that is not enough, `BoxDual` takes over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from rkhs._backend.arrays import EPS, Matrix, to_numpy
from rkhs._finite.certificate import Certificate, certify
from rkhs._finite.monitor import Monitor
from rkhs._finite.problem import FiniteProblem, Iterate
from rkhs._linalg.saddle import Saddle
from rkhs.exceptions import NotApplicableError
from rkhs.losses import Hinge
from rkhs.solvers._base import OutputSolver
from rkhs.solvers._costs import Estimate
from rkhs.solvers._interior_point import BoxDual

ITERATIONS = 50_000  # of LIBSVM, each a pair of examples


@dataclass(frozen=True)
class LibSVM(OutputSolver):
    """LIBSVM's sequential minimal optimization, for the hinge loss with a constant basis or none.

    The Gram matrix has to fit in memory.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.random.default_rng(0).standard_normal((50, 2))
    >>> labels = rkhs.Term(rkhs.Evaluation(X), rkhs.Hinge(), target=np.where(X[:, 0] > 0, 1, -1), weight=10.0)
    >>> rkhs.Problem(rkhs.Gaussian(scale=1.0), [labels], rkhs.Constant()).solve(rkhs.solvers.LibSVM()).status
    'converged'
    """

    def check(self, system: FiniteProblem) -> None:
        for t in system.terms:
            if not isinstance(t.loss, Hinge):
                raise NotApplicableError(
                    f"LibSVM needs all losses to be Hinge, and one is {t.loss!r}: use rkhs.solvers.SchurComplement() where "
                    "the others are Squared, or rkhs.solvers.NonlinearCG() for any losses."
                )
        if not (system.Q.shape[1] == 0 or _constant(to_numpy(system.Q))):
            raise NotApplicableError(
                "LibSVM has a constant as its basis, or none, and this problem another: use rkhs.solvers.NonlinearCG()."
            )
        super().check(system)

    def cost(self, estimate: Estimate) -> float:
        system = estimate.system
        hardest = max(float(np.max(to_numpy(t.weight), initial=0.0)) for t in system.terms)
        own = estimate.matrix + 10e-9 * system.columns * system.size**2 * float(1 + np.log1p(hardest))
        # At weights of 1e6 LIBSVM misses the tolerance every other time.
        return own + hardest / (1e6 + hardest) * BoxDual().cost(estimate)

    def run_output(self, system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
        labels, weights = system.target[:, 0], system.weight[:, 0]
        for tol in (1e-3, 1e-6):  # of LIBSVM, until the gap is small enough
            *rough, ended = _machine(system.gram.dense(), labels, weights, system.Q, tol)
            found, certificate = _best(system, (_sharpened(system, *rough), _iterate(*rough)), monitor.tol)
            monitor.report(found, float(certificate.primal[0]), certificate.relative)
            if certificate.within(monitor.tol):
                return found
            if not ended:  # nor would it with a smaller tolerance
                break
        return BoxDual().run_output(system, found, monitor)


def _constant(Q: Matrix) -> bool:
    """Whether Q is one column of equal entries."""
    return Q.shape[1] == 1 and bool(np.all(np.abs(Q - Q[:1]) <= 1e-9 * np.abs(Q[:1])))


def _machine(G: Matrix, labels: Matrix, weights: Matrix, Q: Matrix, tol: float) -> tuple[Matrix, Matrix, bool]:
    """The coefficients (N,) of the machine and (r,) of the basis, and whether LIBSVM says that it is done."""
    present = np.flatnonzero(weights > 0)
    if len(present) < len(weights):
        a = np.zeros(len(weights))
        part = G[np.ix_(present, present)]
        a[present], c, ended = _machine(part, labels[present], weights[present], Q[present], tol)
        return a, c, ended
    if len(labels) == 0:
        return np.zeros(0), np.zeros(Q.shape[1]), True
    if Q.shape[1]:
        if np.all(labels == labels[0]):  # the constant alone costs nothing
            return np.zeros(len(labels)), labels[:1] / Q[0], True
        a, intercept, ended = _svc(G, labels, weights, tol)
        return a, intercept / Q[0], ended
    mirrored = np.block([[G, -G], [-G, G]])
    a, _, ended = _svc(mirrored, np.concatenate([labels, -labels]), np.tile(weights / 2, 2), tol)
    return a[: len(labels)] - a[len(labels) :], np.zeros(0), ended


def _iterate(a: Matrix, c: Matrix) -> Iterate:
    """The coefficients of a machine are a point of the dual as well."""
    return Iterate(a[:, None], c[:, None], a[:, None])


def _sharpened(system: FiniteProblem, a: Matrix, c: Matrix) -> Iterate:
    """The iterate with u_i = b_i wherever a_i is inside its box."""
    low, high = (end[:, 0] for end in system.box)
    margin = 1e-7 * (high - low)
    free = np.flatnonzero((a > low + margin) & (a < high - margin))
    if len(free) == 0:
        return _iterate(a, c)
    G, Q = system.gram.dense(), system.Q
    aim = np.concatenate([t.target[:, 0] for t in system.terms])[free]
    block = G[np.ix_(free, free)]
    saddle = Saddle(block, np.full(len(free), EPS * np.abs(block).max()), Q[free])
    step, shift = saddle.solve((aim - G[free] @ a - Q[free] @ c)[:, None], -(Q.T @ a)[:, None])
    b = a.copy()
    b[free] += step[:, 0]
    return _iterate(np.clip(b, low, high), c + shift[:, 0])


def _best(system: FiniteProblem, iterates: Iterable[Iterate], tol: float) -> tuple[Iterate, Certificate]:
    """The first whose gap is within the tolerance, or that of the smallest gap, with its certificate."""
    judged = []
    for iterate in iterates:
        judged.append((iterate, certify(system, iterate, tol)))
        if judged[-1][1].within(tol):
            return judged[-1]
    return min(judged, key=lambda pair: pair[1].relative)


def _svc(G: Matrix, labels: Matrix, weights: Matrix, tol: float) -> tuple[Matrix, float, bool]:
    """LIBSVM's coefficients (N,) and intercept, and whether it says that it is done."""
    machine = _quiet()(C=1.0, kernel="precomputed", tol=tol, max_iter=ITERATIONS)
    machine.fit(G, labels, sample_weight=weights)
    a = np.zeros(len(labels))
    a[machine.support_] = machine.dual_coef_[0]
    return a, float(machine.intercept_[0]), machine.fit_status_ == 0 and int(machine.n_iter_[0]) < ITERATIONS


@cache
def _quiet() -> Any:
    """SVC without a warning at its limit: the certificate tells, and a filter would be one of all threads."""
    from sklearn.svm import SVC  # here, because it takes longer to import than rkhs

    class Quiet(SVC):  # type: ignore[misc]
        def _warn_from_fit_status(self) -> None:
            pass

    return Quiet
