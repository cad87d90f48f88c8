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

from rkhs.estimators.constraints import APART, Constraint
from rkhs.finite.basis import on_basis
from rkhs.finite.function import Function
from rkhs.finite.system import Iterate
from rkhs.functionals.base import stack
from rkhs.gram import gram
from rkhs.linalg.saddle import Matrix, Saddle
from rkhs.problem import Problem
from rkhs.solvers.dense import in_memory

MOST = 3000  # functionals of the data
LOOKED = 200  # points at which f is looked at; as many again on faces
LOOKS = 8
FAR = 0.1  # of the sides, the distance of points that are added at the first look; half of it at the next


class Scout:
    """f with constraints at points, for data with squared losses."""

    def __init__(self, problem: Problem) -> None:
        self.represented = problem.represented
        system = in_memory(problem.system)
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
        G = gram(kernel, L).in_double() - cross.T @ A - B @ C
        x = nonnegative(G, bounds - (cross.T @ self.a + B @ self.c)[:, 0])[:, None]
        data = self.represented.function(Iterate(self.a - A @ x, self.c - C @ x))
        return data + Function(kernel, L, x[:, 0])

    def chosen(self, constraints: Sequence[Constraint]) -> list[Constraint]:
        """The constraints at points where they are needed, so that the claims hold as far as this can see."""
        found = [one.without() for one in constraints]
        f = self(found)
        for look in range(LOOKS):
            broken = [one.where_broken(f, LOOKED) for one in found]
            if not any(len(places) for places, _ in broken):
                break
            apart = max(APART, FAR / 2**look)
            found = [one.tight(f).also(*where, apart) for one, where in zip(found, broken, strict=True)]
            f = self(found)
        return [one.tight(f) for one in found]


def nonnegative(G: Matrix, r: Matrix) -> Matrix:
    """The least of 1/2 x'Gx - x'r over x >= 0, for G positive semidefinite.

    Examples
    --------
    >>> nonnegative(np.eye(2), np.array([1.0, -1.0]))
    array([1., 0.])
    """
    shift = len(G) * float(np.finfo(np.float64).eps) * max(float(np.trace(G)), 1e-300)
    R = np.linalg.cholesky((G + G.T) / 2 + shift * np.eye(len(G)))
    return scipy.optimize.nnls(R.T, scipy.linalg.solve_triangular(R, r, lower=True))[0]
