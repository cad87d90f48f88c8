"""The problem as it is written on paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from rkhs.backend.arrays import Array
from rkhs.calculus.spaces import Space
from rkhs.finite.certificate import certify
from rkhs.finite.function import Function
from rkhs.finite.monitor import Monitor, Stopped
from rkhs.finite.solution import CONVERGED, Record, Solution
from rkhs.finite.system import Iterate, System
from rkhs.finite.term import Term
from rkhs.kernels.base import Kernel
from rkhs.solvers.auto import auto
from rkhs.solvers.base import Solver


@dataclass(frozen=True, eq=False)
class Problem:
    """min over f in H + span(basis):  1/2 |f|^2 + sum over terms of weight * sum_i loss(L_i(f); target_i).

    The basis is not penalised.  A conditionally positive definite kernel brings its polynomials by itself.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> problem = rkhs.Problem(
    ...     kernel=rkhs.Gaussian(scale=1.0),
    ...     terms=[
    ...         rkhs.Term(rkhs.Evaluation(X[:2]), rkhs.Squared(), target=[0.0, 1.0], weight=100.0),
    ...         rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.1),
    ...     ],
    ...     basis=rkhs.Constant(),
    ... )
    >>> solution = problem.solve()
    >>> solution.status
    'converged'
    >>> solution.function(X).round(2)
    array([0.01, 0.99, 1.1 , 0.73])
    """

    kernel: Kernel
    terms: Sequence[Term]
    basis: Space | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"kernel must be an rkhs kernel such as rkhs.Gaussian(scale=1.0), got {self.kernel!r}.")
        terms = tuple(self.terms)
        if not terms:
            raise ValueError("A problem needs at least one term.")
        for term in terms:
            if not isinstance(term, Term):
                raise TypeError(f"terms must be rkhs.Term objects, got {term!r}.")
        if self.basis is not None and not isinstance(self.basis, Space):
            raise TypeError(
                f"basis must be None, rkhs.Constant(), rkhs.Polynomials(degree) or rkhs.Functions, got {self.basis!r}."
            )
        object.__setattr__(self, "terms", terms)

    @cached_property
    def system(self) -> System:
        """The finite problem that the representer theorem leaves."""
        return System.of(self.kernel, self.terms, self.basis)

    def solve(
        self,
        solver: Solver | str = "auto",
        *,
        tol: float = 1e-6,
        time_limit: float | None = None,
        callback: Callable[[Record], Any] | None = None,
        start: Solution | None = None,
        verbose: bool | None = None,
    ) -> Solution:
        """The minimiser, to a certified relative duality gap of at most `tol`.

        Parameters
        ----------
        solver : "auto", or a solver object such as rkhs.Descent()
        tol : the relative gap, (primal - dual) / value, to reach
        time_limit : seconds after which the best iterate is returned, with its true gap
        callback : called with a `Record` after each iteration; a true answer stops the solver
        start : a solution of a problem with the same functionals, to start from
        verbose : progress; by default on a terminal, when a solve takes more than two seconds

        Ctrl-C returns the best iterate so far, with its true gap.
        """
        system = self.system
        chosen = auto(system) if solver == "auto" else solver
        if not isinstance(chosen, Solver):
            raise TypeError(f'solver must be "auto" or a solver object such as rkhs.Descent(), got {solver!r}.')
        chosen.check(system)
        monitor = Monitor(tol, time_limit, callback, verbose)
        first = system.start() if start is None else self._warm(start)
        monitor.best = first
        try:
            last, status = chosen.run(system, first, monitor), CONVERGED
        except Stopped as stop:
            last, status = monitor.best, str(stop)
        except KeyboardInterrupt:
            last, status = monitor.best, "interrupted"
        finally:
            monitor.close()
        return self._solution(chosen, monitor, last, status)

    def _solution(self, solver: Solver, monitor: Monitor, iterate: Iterate, status: str) -> Solution:
        """The solution of an iterate, its certificate computed from scratch."""
        certificate = certify(self.system, iterate)
        if status == CONVERGED and not certificate.relative <= 2 * monitor.tol:
            status = "no further progress"
        elif certificate.relative <= monitor.tol:
            status = CONVERGED

        def flat(columns: Array) -> Array:
            return columns if self.system.outputs is not None else columns[:, 0]

        coefficients = self.system.basis_coefficients(iterate)
        function = Function(
            self.kernel,
            self.system.functionals,
            flat(iterate.a),
            self.system.space,
            None if coefficients is None else flat(coefficients),
        )
        return Solution(
            function, certificate, status, solver.name, len(monitor.history), monitor.products, monitor.seconds,
            tuple(monitor.history),
        )  # fmt: skip

    def _warm(self, start: Solution) -> Iterate:
        f, system = start.function, self.system
        if f.functionals.shape != system.functionals.shape:
            raise ValueError(
                f"start has {f.functionals.size} representers and this problem {system.size}: "
                "a warm start needs a solution of a problem with the same functionals."
            )
        a = f.coefficients if f.coefficients.ndim == 2 else f.coefficients[:, None]
        basis = system.start().basis
        if f.basis_coefficients is not None:
            theirs = f.basis_coefficients if f.basis_coefficients.ndim == 2 else f.basis_coefficients[:, None]
            basis = system.Q.T @ (system.functionals.assemble(f.basis.on) @ theirs)  # type: ignore[union-attr]
        return Iterate(a, basis)
