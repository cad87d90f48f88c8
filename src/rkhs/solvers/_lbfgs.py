"""L-BFGS on the coefficients, as in Zhang et al. 2013, section 6.1: the reference for comparisons.

As a function of the coefficients,

    J(a, c) = 1/2 a'Ga + sum_i w_i loss_i(u_i),   u = Ga + Qc,
    dJ/da = G(a + s),   dJ/dc = Q's,              s = w loss'(u)

so an evaluation costs two Gram products, Ga and Gs, and the Euclidean metric squares the condition number of G.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy  # imports scipy.optimize lazily

from rkhs._backend.arrays import Array, double, like, namespace, to_numpy
from rkhs._finite.certificate import bounds, certify, relative_gap
from rkhs._finite.monitor import InnerMonitor, Monitor, OutOfIterations
from rkhs._finite.problem import FiniteProblem, Iterate
from rkhs.exceptions import NotApplicableError
from rkhs.solvers._base import Solver


@dataclass(frozen=True)
class LBFGS(Solver):
    """SciPy's L-BFGS on the coefficients, for smooth losses; one output after the other.

    Parameters
    ----------
    memory : int, default=10
        The number of corrections to keep.
    max_iterations : int, default=100_000
        The maximal number of iterations for each output.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Logistic(), target=np.sign(X[:, 0]))
    >>> problem = rkhs.Problem(rkhs.Gaussian(scale=0.5), [term])
    >>> by_coefficients, in_the_space = problem.solve(rkhs.solvers.LBFGS()), problem.solve(rkhs.solvers.NonlinearCG())
    >>> by_coefficients.status, by_coefficients.products > 5 * in_the_space.products
    ('converged', True)
    """

    memory: int = 10
    max_iterations: int = 100_000

    def check(self, system: FiniteProblem) -> None:
        for t in system.terms:
            if not t.loss.smooth:
                raise NotApplicableError(
                    f"LBFGS needs differentiable losses, but {t.loss!r} has a kink: "
                    "use rkhs.solvers.NonlinearCG(), or smooth the loss with its .smoothed(width)."
                )

    def run(self, system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
        state = start
        for which in range(system.columns):
            whole = partial(state.with_output, which)
            objective = _Objective(
                system.output(which), state.output(which), InnerMonitor(monitor.tol, outer=monitor, whole=whole)
            )
            options = {"maxcor": self.memory, "maxiter": self.max_iterations, "maxfun": 20 * self.max_iterations}
            result = scipy.optimize.minimize(
                objective,
                objective.start,
                method="L-BFGS-B",
                jac=True,
                callback=objective.iterated,
                options={**options, "ftol": 0.0, "gtol": 0.0},
            )
            state = whole(objective.last)
            if result.nit >= self.max_iterations and objective.gap > monitor.tol:
                raise OutOfIterations
        return state


class _Objective:
    """J of one output as a function of x = (a, c), and the certificate of its last point."""

    def __init__(self, system: FiniteProblem, start: Iterate, monitor: Monitor) -> None:
        self.system, self.monitor, self.last = system, monitor, start
        self.start = np.concatenate([to_numpy(start.a), to_numpy(start.basis)]).astype(np.float64)[:, 0]
        self.gap = float("inf")
        self.iterations = self.next_check = 0

    def __call__(self, x: np.ndarray[Any, Any]) -> tuple[float, np.ndarray[Any, Any]]:
        system = self.system
        a, basis = self._parts(x)
        image = system.gram @ a
        u = image + system.Q @ basis
        s = system.gradient(u)
        product = image + system.gram @ s
        self.last = Iterate(a, basis)
        self.primal, self.dual = bounds(system, a, image, u, a + s, product)
        gradient = double(namespace(a).concat([system.inside(product), system.Q.T @ s]))
        return self.primal, gradient[:, 0]

    def iterated(self, intermediate_result: scipy.optimize.OptimizeResult) -> None:
        """Update and report the certificate after an iteration; raise StopIteration if it is good enough."""
        self.iterations += 1
        gap = relative_gap(self.primal, self.dual, self.system.rounding[0])
        if self.system.Q.shape[1] == 0:
            self.gap = gap
        elif gap <= self.monitor.tol and self.iterations >= self.next_check:  # the cheap gap is a bound only if Q's = 0
            self.gap = certify(self.system, self.last).relative
            self.next_check = int(1.1 * self.iterations) + 1
        self.monitor.report(self.last, self.primal, self.gap)
        if self.gap <= self.monitor.tol:
            raise StopIteration

    def _parts(self, x: np.ndarray[Any, Any]) -> tuple[Array, Array]:
        columns = like(x[:, None], self.system.Q)
        return self.system.inside(columns[: self.system.size]), columns[self.system.size :]
