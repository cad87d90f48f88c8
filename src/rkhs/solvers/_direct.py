"""A direct solver for squared losses with the Gram matrix in memory: one factorization.

    (G + diag(1/(2w))) a + Q c = b,        Q'a = 0

are the optimality conditions of the primal and the dual problem at once (`rkhs._core.linalg.saddle`).  Their residual s
bounds the error of a and c without another product (as in `_conjugate_gradients`):

    dual(a) = 1/2 (b'a + s'a),        J(a, c) = dual(a) + 1/2 s'D^-1 s

Equations L_i(f) = b_i of infinite weight have D_ii = 0.  Their residuals s_i are violations, which change the minimum
by s_i a_i to first order.

*Schur complement.*  Elimination of the squared losses, and a solver for the small problem that remains.

Let q be the functionals with squared losses and l the others, S the equations of q (`_conditioned`) and B_l the values
on l of the basis functions that q determines.  For given coefficients a_l those of q, and of these basis functions, are

    S [a_q; c] = [b_q - G_ql a_l; -B_l'a_l]

Their elimination leaves u_l = G~ a_l + m + Q_l e with the conditioned Gram matrix (the Schur complement) and the image
m of the solution of q alone,

    G~ = G_ll - [G_lq, B_l] S^-1 [G_ql; B_l'],        m = [G_lq, B_l] S^-1 [b_q; 0]

and e the coefficients of the basis functions that q does not determine, which are the basis of the remaining problem.
J is its objective plus 1/2 b_q'a_q for a_l = 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import inf

import numpy as np

from rkhs._core.backend.arrays import namespace, take_rows, to_numpy, zeros
from rkhs._core.backend.memory import budget_bytes
from rkhs._core.finite.basis import UNDETERMINED
from rkhs._core.finite.certificate import certify, relative_gap
from rkhs._core.finite.monitor import FACTOR, Monitor, Step, Steps, mapped
from rkhs._core.finite.problem import FiniteProblem, Iterate, LossBlock
from rkhs._core.finite.representers import GramGeometry
from rkhs._core.linalg.saddle import Saddle
from rkhs.losses._interval import Indicator
from rkhs.solvers._base import (
    Estimate,
    Solver,
    cheapest,
    factorization,
    fits_once,
    from_memory,
    in_memory,
    in_numpy,
    lacking,
    lacking_memory,
    to_memory,
)
from rkhs.solvers._conditioned import ConditioningEquations, factorable
from rkhs.solvers._interior_point import FACTORIZATIONS, BoxDual
from rkhs.solvers._libsvm import LibSVM
from rkhs.solvers._newton import STEP, Newton, ProximalNewton, expected
from rkhs.solvers._nonlinear_cg import NonlinearCG
from rkhs.solvers._reduced import orthonormal_columns


@dataclass(frozen=True)
class Direct(Solver):
    """A Cholesky factorization of the linear equations of a problem with squared losses.

    All outputs share the factor.  The Gram matrix must fit in half of the free memory, or in three quarters of that of
    an accelerator: it is computed, scaled and factorized in place, where the points are.  A time limit or Ctrl-C takes
    effect between two blocks; the solver then has only the start to return.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> values = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(6 * X[:, 0]), weight=1e6)
    >>> solution = rkhs.Problem(rkhs.kernels.Polyharmonic(3), [values]).solve(rkhs.solvers.Direct())
    >>> solution.status, round(float(solution.function([[0.5]])[0]), 3)
    ('converged', 0.141)
    """

    def lacks(self, system: FiniteProblem) -> str | None:
        return lacking_squares(self, _without_equations(system)) or lacking_memory(self, system, fits_once(system))

    def cost(self, estimate: Estimate) -> float:
        return estimate.matrix + estimate.factorization(estimate.system.size)

    def steps(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Steps:
        monitor.afford(self.cost(Estimate(system)))
        stored = system.exact.stored
        inside = in_memory(system) if stored else in_numpy(system)
        w, b, Q = inside.weight, inside.target, inside.Q
        # D = diag(1 / (2w)), or 0; the solution of the equations, and their residual s = b - (G + D) a - Qc
        d = namespace(w).concat([(0.0 if t.loss.hard else 0.5) / t.weight[:, 0] for t in inside.terms])
        with monitor.showing(FACTOR):
            saddle = Saddle(inside.gram.matrix, d, Q) if stored else Saddle(inside.gram.in_double, d, Q, system.Q)
        a, c = saddle.solve(b)
        residual = saddle.residual(a, c, b)
        # J - dual = 1/2 s'D^-1 s + |s|'|a| of equations,    J = 1/2 (b + s)'a + 1/2 s'D^-1 s
        gaps = np.sum(np.where(d[:, None] > 0, w * residual**2, np.abs(residual * a)), axis=0)
        primal = np.sum((b + residual) * a, axis=0) / 2 + gaps
        solution = from_memory(inside, system, Iterate(a, c))
        relative_gaps = map(relative_gap, primal, primal - gaps, inside.rounding)
        yield Step(solution, float(primal.sum()), max(relative_gaps, default=0.0))
        return solution


def lacking_squares(solver: Solver, system: FiniteProblem) -> str | None:
    """Return a message about a loss that is not squared, if there is one."""
    remedy = "rkhs.solvers.SchurComplement() if few functionals have such a loss, or rkhs.solvers.NonlinearCG()"
    return lacking(solver, system, lambda loss: loss.quadratic, "all losses to be Squared", f"{remedy} at any size")


def _without_equations(system: FiniteProblem) -> FiniteProblem:
    """Return the problem without the constraints that are equations."""

    def is_equation(t: LossBlock) -> bool:
        low, high = t.loss.interval(t.target) if isinstance(t.loss, Indicator) else (0.0, 1.0)
        return bool(np.all(to_numpy(low) == to_numpy(high)))

    return system.with_rows(tuple(t for t in system.terms if not is_equation(t)))


# Norm on the quadratic terms of basis functions of norm one that are eliminated with them.  Weaker ones have squares of
# the size of rounding errors; their elimination would leave entries of 1e12 or more.
WEAK = 1e-6
DENSE: tuple[Solver, ...] = (Direct(), LibSVM(), Newton(), BoxDual(), ProximalNewton(), NonlinearCG())


@dataclass(frozen=True)
class SchurComplement(Solver):
    """Elimination of the squared losses; LIBSVM, Newton's method or another exact solver for the few others.

    At most 3,000 functionals may have other losses.  There may be many squared ones: up to about 5,000 their equations
    are factorized, above they are solved by conjugate gradients, once for each other functional.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.random.default_rng(0).standard_normal((100, 2))
    >>> terms = [
    ...     rkhs.Term(rkhs.Evaluation(X[:10]), rkhs.Hinge(), target=np.where(X[:10, 0] > 0, 1, -1), weight=10.0),
    ...     rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.1),
    ... ]
    >>> rkhs.Problem(rkhs.Gaussian(scale=1.0), terms, rkhs.Constant()).solve(rkhs.solvers.SchurComplement()).status
    'converged'
    """

    def lacks(self, system: FiniteProblem) -> str | None:
        eliminated = len(system.quadratic_rows)
        left = system.size - eliminated
        if eliminated == 0:
            losses = ", ".join(sorted({repr(t.loss) for t in system.terms}))
            return (
                f"SchurComplement eliminates squared losses, but there is none among {losses}: use "
                "rkhs.solvers.NonlinearCG()."
            )
        if left == 0:
            return (
                "SchurComplement does not apply if all losses are Squared: use rkhs.solvers.Direct(), or "
                "rkhs.solvers.ConjugateGradients() if the problem is large."
            )
        if not all(bool(namespace(t.weight).all(t.weight > 0)) for t in system.terms if t.loss.quadratic):
            return (
                "SchurComplement needs positive weights on squared losses, but some are zero, as in a fold of a grid: "
                "remove these functionals, or use rkhs.solvers.Galerkin()."
            )
        needed = 4 * 8 * eliminated * left  # bytes of four copies of G_ql
        if left > 3000 or needed > budget_bytes(None, system.Q):
            return (
                f"SchurComplement would leave a dense problem of {left} functionals after eliminating {eliminated}, "
                "which is too large: use rkhs.solvers.NonlinearCG()."
            )
        return None

    def cost(self, estimate: Estimate) -> float:
        system = estimate.system
        q, rest = len(system.quadratic_rows), len(system.other_rows)
        if not factorable(system):  # conjugate gradients for each remaining functional: never chosen automatically
            return inf
        left = FACTORIZATIONS * factorization(rest)
        if system.smooth:  # Newton's method takes as many steps as on the whole problem
            left = min(left, expected(system) * (STEP + factorization(rest)))
        eliminated = estimate.factorization(q) + 4 * estimate.flop * q**2 * rest
        return estimate.matrix + 5e-3 + eliminated + system.columns * left

    def steps(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Steps:
        inside = in_memory(system) if factorable(system) else system
        smallest = WEAK if system.definite else UNDETERMINED
        with monitor.showing(FACTOR):  # losses with a kink depend on the square root of the gap of conjugate gradients
            rest = _RemainingProblem(inside, ConditioningEquations.of(inside, (0.1 * tol) ** 2, smallest))
        left = Iterate.joined([problem.start() for problem in rest.outputs])

        def whole(k: int, output: Iterate) -> Iterate:
            return from_memory(inside, system, rest.lift(left.with_output(k, output)))

        for k, problem in enumerate(rest.outputs):
            steps = cheapest(DENSE, problem).steps(problem, problem.start(), tol, monitor)
            left = left.with_output(k, (yield from mapped(steps, partial(whole, k), above=rest.known[k])))
        iterate = from_memory(inside, system, rest.lift(left))
        if inside is system or certify(inside, to_memory(inside, system, iterate), tol).within(tol):
            return iterate
        # The elimination was not accurate enough: continue on the whole problem.
        return (yield from cheapest(DENSE, inside).steps(system, iterate, tol, monitor))


class _RemainingProblem:
    """The problem after elimination, one system per output, and the map to iterates of the whole problem."""

    def __init__(self, system: FiniteProblem, quadratic: ConditioningEquations) -> None:
        xp = namespace(system.Q)
        self.quadratic = quadratic
        self.q, self.l = system.quadratic_rows, system.other_rows
        rest = system.part(self.l, [t for t in system.terms if not t.loss.quadratic])
        U, self.seen, unseen = quadratic.split
        self.B = rest.Q @ self.seen
        self.cross = system.gram.block(self.q, self.l)
        a, c, residual = quadratic.solve(self.cross, self.B.T)
        # G~ = G_ll - [G_lq, B_l] S^-1 [G_ql; B_l'],    the residual of conjugate gradients enters to second order
        G = system.gram.block(self.l, self.l) - (self.cross + residual).T @ a - self.B @ c
        a, c, _ = quadratic.solve(quadratic.system.target, zeros((U.shape[1], system.columns), U))
        # m = [G_lq, B_l] S^-1 [b_q; 0]
        mean = self.cross.T @ a + self.B @ c
        self.known = [float(value) for value in xp.vecdot(quadratic.system.target, a, axis=0) / 2]
        Q, transform = orthonormal_columns(rest.Q @ unseen)
        self.unseen = unseen @ transform
        left = FiniteProblem(GramGeometry.stored((G + G.T) / 2, Q), rest.terms, rest.outputs)
        self.outputs = [left.output(k).shifted(mean[:, k]) for k in range(system.columns)]

    def lift(self, left: Iterate) -> Iterate:
        """Return the iterate of the whole problem for an iterate of the remaining one."""
        xp = namespace(left.a)
        # S [a_q; c] = [b_q - G_ql a_l; -B_l'a_l]
        a, c, _ = self.quadratic.solve(self.quadratic.system.target - self.cross @ left.a, -(self.B.T @ left.a))
        order = np.argsort(np.concatenate([self.q, self.l]))
        coefficients = take_rows(xp.concat([a, left.a]), order)
        return Iterate(coefficients, self.seen @ c + self.unseen @ left.basis)
