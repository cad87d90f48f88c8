"""Where constraints will be needed: a quick look at problems with squared losses, before the exact solution.

With the equations S of the data factorised once (theory, section 4), f with constraints L f >= b at points is

    f = f_0 + sum_m x_m z~_m,     x >= 0 the least of 1/2 x'G~x - x'(b - L f_0)

G~ the Gram matrix of L that the data leave.  It costs so little that points can be added many times.  What comes of it
is a choice of points, not a solution: that is found, and certified, by the solvers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy  # which imports scipy.optimize when it is first used

from rkhs._backend.arrays import Matrix
from rkhs._finite.basis import on_basis
from rkhs._finite.function import Function
from rkhs._finite.monitor import FACTOR, Monitor, Stopped
from rkhs._finite.problem import Iterate
from rkhs._gram import gram
from rkhs._linalg.saddle import Saddle
from rkhs.estimators.constraints import APART, Constraint
from rkhs.functionals.base import stack
from rkhs.problem import Problem
from rkhs.solvers.dense import in_memory

MOST = 3000  # functionals of the data
LOOKED = 200  # points at which f is looked at; as many again on faces
LOOKS = 8
STEPS = 30  # of the active-set method, for each constraint: ten times the default of `scipy.optimize.nnls`
FAR = 0.1  # of the sides, the distance of points that are added at the first look; half of it at the next


class Scout:
    """f with constraints at points, for data with squared losses; the monitor ends it when its time is over."""

    def __init__(self, problem: Problem, monitor: Monitor | None = None) -> None:
        self.represented = problem.represented
        self.monitor = Monitor(0.0) if monitor is None else monitor
        system = in_memory(problem.system)
        with self.monitor.showing(FACTOR):
            self.saddle = Saddle(system.gram.dense(), 1 / (2 * system.weight[:, 0]), system.Q)
        self.a, self.c = self.saddle.solve(system.target)

    @staticmethod
    def fits(problem: Problem) -> bool:
        """Whether all losses are squared, of few functionals in NumPy."""
        quadratic = all(term.loss.quadratic for term in problem.terms)
        few = sum(term.functional.size for term in problem.terms) <= MOST
        exact = problem.approximation is None and problem.null_space == "kept"
        return quadratic and few and exact and isinstance(problem.represented.functionals.prototype, np.ndarray)

    def __call__(self, constraints: Sequence[Constraint]) -> Function:
        """f with these constraints."""
        used = [one for one in constraints if len(one.places)]
        if not used:
            return self.represented.function(Iterate(self.a, self.c))
        L = stack([one.functional for one in used])
        bounds = np.concatenate([np.full(len(one.places), one.bound) for one in used])
        kernel, basis = self.represented.kernel, self.represented.basis
        cross = gram(kernel, self.represented.functionals, L).in_double()
        B = np.zeros((L.size, 0)) if basis.space is None else np.asarray(on_basis(L, basis.space)) @ basis.back
        A, C = self.saddle.solve(cross, B.T)
        parts = gram(kernel, L).in_double(), cross.T @ A, B @ C
        sizes = np.max([np.abs(np.diag(part)) for part in parts], axis=0)
        G = parts[0] - parts[1] - parts[2]
        x = nonnegative(G, bounds - (cross.T @ self.a + B @ self.c)[:, 0], sizes)[:, None]
        data = self.represented.function(Iterate(self.a - A @ x, self.c - C @ x))
        return data + Function(kernel, L, x[:, 0])

    @classmethod
    def choose(cls, problem: Problem, constraints: Sequence[Constraint], monitor: Monitor) -> list[Constraint]:
        """Return the constraints at points where they are needed, so that the claims hold as far as this can see.

        It ends early, with the points found so far, when the monitor's time is over or the small problem cannot be
        solved: points only save rounds of the solver.
        """
        found = [one.without() for one in constraints]
        try:
            scout = cls(problem, monitor)
            f = scout(found)
            for look in range(LOOKS):
                monitor.check()
                broken = [one.where_broken(f, LOOKED) for one in found]
                if not any(len(places) for places, _ in broken):
                    break
                apart = max(APART, FAR / 2**look)
                found = [one.tight(f).also(*where, apart) for one, where in zip(found, broken, strict=True)]
                f = scout(found)
            return [one.tight(f) for one in found]
        except (Stopped, RuntimeError, np.linalg.LinAlgError):
            return found


def nonnegative(G: Matrix, r: Matrix, sizes: Matrix) -> Matrix:
    """Return the minimiser of 1/2 x'Gx - x'r over x >= 0, for G positive semidefinite up to rounding.

    `sizes` are those of the numbers whose differences are the diagonal of G: eigenvalues that rounding of them may
    have made are raised to that level, so that G has a square root however much has cancelled.  The problem is solved
    in units in which `sizes` and the largest entry of r are one, since `scipy.optimize.nnls` compares with constants.

    Examples
    --------
    >>> nonnegative(np.eye(2), np.array([1.0, -1.0]), np.ones(2))
    array([1., 0.])
    """
    unit = np.sqrt(np.where(sizes > 0, sizes, 1.0))
    right = r / unit
    largest = float(np.abs(right).max(initial=0.0)) or 1.0
    values, vectors = np.linalg.eigh((G + G.T) / 2 / (unit[:, None] * unit))
    roots = np.sqrt(np.maximum(values, len(G) * np.finfo(np.float64).eps))
    R, aim = roots[:, None] * vectors.T, vectors.T @ (right / largest) / roots
    return largest * scipy.optimize.nnls(R, aim, maxiter=STEPS * len(G))[0] / unit
