"""The problem as it is written on paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from rkhs._backend.arrays import placed
from rkhs._backend.precision import check_precision
from rkhs._calculus.function_spaces import FunctionSpace
from rkhs._finite.certificate import Certificate, certify
from rkhs._finite.monitor import Monitor
from rkhs._finite.problem import FiniteProblem, Iterate, check_range, recedes
from rkhs._finite.representers import RepresenterProblem
from rkhs._finite.solution import CONVERGED, Record, Solution, with_hidden
from rkhs._finite.term import Term
from rkhs._learning.evidence import Evidence, evidence_of
from rkhs._learning.leave_one_out import LeaveOneOut, left_out_of
from rkhs._learning.posterior import PosteriorSource
from rkhs._learning.tuning import Tuning, tuned_problem
from rkhs._problem.grid import Cells, GridTasks
from rkhs._problem.solving import asked_until_done, certificates_of, stopped
from rkhs._problem.subspace import SubspaceProblem
from rkhs._spaces.base import Approximation, check_approximation, check_sums
from rkhs.exceptions import UnattainedError
from rkhs.kernels._base import Kernel, check_known
from rkhs.solvers._base import Solver
from rkhs.solvers._choose import auto


@dataclass(frozen=True, eq=False)
class Problem:
    """A convex problem, written as on paper: a kernel and terms, each a family of functionals with a loss.

        min over f in H + span(basis):  1/2 |f|^2 + sum over terms of weight * sum_i loss(L_i(f); target_i)

    Parameters
    ----------
    kernel : the `rkhs.extend.Kernel` whose norm |f| is
    terms : a list of `rkhs.Term`
    basis : functions that are not penalized: `rkhs.Constant`, `rkhs.Polynomials`, `rkhs.Functions`, or None
    null_space : "kept": a conditionally positive definite kernel brings its polynomials by itself; "dropped": f has no
        polynomial part, which is what to do where polynomials alone separate the data (Walder and Chapelle 2007, 6.2;
        the Gram matrix becomes dense)
    device : such as "cuda": all numbers are brought there and the problem is solved there by PyTorch; where there is no
        such device a warning says so, and the problem is solved where the data are
    precision : of Gram products: "float64", "float32", "tf32x3" (float32 from tensor cores), "tf32", or None for that
        of the data.  Iterates and residuals are in float64 all the same, a solution whose true gap is too large is
        corrected from its true residual, and the certificate is computed in float64
    approximation : `rkhs.Landmarks` or `rkhs.FourierFeatures`: f is sought in the span of finitely many functions;
        time grows linearly with the number of points, and the certificate is that of the problem in the span.  On a
        device rows are summed up there a tile at a time, in float64; the small problem is solved here
    tuning : what `tune` found, set by it

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
    basis: FunctionSpace | None = None
    null_space: str = "kept"
    device: str | None = None
    precision: str | None = None
    approximation: Approximation | None = None
    tuning: Tuning | None = field(default=None, repr=False)  # how `tune` found its settings

    def __getstate__(self) -> dict[str, Any]:
        return {own.name: getattr(self, own.name) for own in fields(self)}  # what is cached is computed again

    def __post_init__(self) -> None:
        if not isinstance(self.kernel, Kernel):
            raise TypeError(f"kernel must be an rkhs kernel such as rkhs.Gaussian(scale=1.0), got {self.kernel!r}.")
        terms = tuple(self.terms)
        if not terms:
            raise ValueError("A problem needs at least one term.")
        for term in terms:
            if not isinstance(term, Term):
                raise TypeError(f"terms must be rkhs.Term objects, got {term!r}.")
        if self.basis is not None and not isinstance(self.basis, FunctionSpace):
            raise TypeError(
                f"basis must be None, rkhs.Constant(), rkhs.Polynomials(degree) or rkhs.Functions, got {self.basis!r}."
            )
        if self.null_space not in ("kept", "dropped"):
            raise ValueError(f'null_space must be "kept" or "dropped", got {self.null_space!r}.')
        if self.null_space == "dropped" and self.basis is not None:
            raise ValueError("A null space that is dropped leaves no room for a basis: leave `basis` out.")
        check_precision(self.precision)
        if self.approximation is not None:
            check_approximation(self.approximation)
            if self.null_space == "dropped":
                raise ValueError('null_space="dropped" needs all representers: leave the approximation out.')
            check_sums(self.precision)
        object.__setattr__(self, "terms", terms)

    @cached_property
    def represented(self) -> RepresenterProblem:
        """The representers and basis functions that f is made of, and the way back from coefficients to functions."""
        check_known(self.kernel)
        place = placed(self.terms[0].functional.prototype, self.device, self.precision)
        found = RepresenterProblem.of(
            self.kernel, self.terms, self.basis, place, self.precision, dropped=self.null_space == "dropped"
        )
        check_range(found.rows)
        for output in range(0 if found.dropped else found.system.columns):
            if recedes(found.system, output):
                raise UnattainedError(
                    f"The basis {found.basis.space!r} separates the data by itself and is not penalized: the minimum "
                    'of the logistic loss is at infinity. Leave the basis out (null_space="dropped" for that of '
                    f"{self.kernel!r}), or use a loss that is attained, such as SquaredHinge."
                )
        return found

    def in_double(self) -> Problem:
        """The same problem without what was computed for it, in float64 where its data are in less.

        For models on which others depend: rounding of float32 may be beyond the tolerance.
        """
        narrow = self.precision is None and "64" not in str(self.terms[0].functional.prototype.dtype)
        return replace(self, precision="float64" if narrow else self.precision)

    @property
    def system(self) -> FiniteProblem:
        """The finite problem that the representer theorem leaves."""
        return self.represented.system

    def solve(
        self,
        solver: Solver | str = "auto",
        *,
        tol: float = 1e-6,
        time_limit: float | None = None,
        callback: Callable[[Record], Any] | None = None,
        start: Solution | None = None,
        verbose: bool = False,
    ) -> Solution:
        """The minimizer, to a certified relative duality gap of at most `tol`.

        Parameters
        ----------
        solver : "auto", or a solver object such as rkhs.solvers.NonlinearCG()
        tol : the relative gap, (primal - dual) / value, to reach
        time_limit : seconds after which the best iterate is returned, with its true gap
        callback : called with a `Record` after each iteration; a true answer stops the solver
        start : a solution of a problem with the same functionals, to start from
        verbose : whether to print progress to standard error

        Ctrl-C returns the best iterate so far, with its true gap.
        """
        if self.approximation is not None:
            self._in_one_go(None if solver == "auto" else solver, start, callback)
            monitor = Monitor(tol, time_limit, verbose=verbose)
            span = self._on_span(self.approximation)
            if span.whole:
                exact = replace(self, approximation=None)
                return self._unapproximated(exact.solve(tol=tol, time_limit=time_limit, verbose=verbose))
            return span.solve(monitor)
        system = self.system
        monitor = Monitor(tol, time_limit, callback, verbose)
        chosen = auto(system, tol, time_limit) if solver == "auto" else solver
        if not isinstance(chosen, Solver):
            raise TypeError(f'solver must be "auto" or an object such as rkhs.solvers.NonlinearCG(), got {solver!r}.')
        chosen.check(system)
        first = system.start() if start is None else self.represented.iterate(start.function)
        if not np.any(system.at_zero):  # f = 0 costs nothing
            certificate = certify(system, system.start(), tol)
            return self._solution(system, chosen.name, monitor, system.start(), CONVERGED, certificate)
        found = asked_until_done(chosen, system, first, monitor)
        return self._solution(system, monitor.solver or chosen.name, monitor, *found)

    def path(self, term: Term | int, weights: Sequence[float], **options: Any) -> list[Solution]:
        """The solutions for several weights of one term; `grid` with one axis."""
        return list(self.grid({term: weights}, **options))

    def grid(
        self,
        weights: Mapping[Any, Sequence[float]],
        held_out: Mapping[Term | int, Sequence[Any]] | None = None,
        *,
        tol: float = 1e-4,
        time_limit: float | None = None,
        callback: Callable[[Record], Any] | None = None,
        verbose: bool = False,
    ) -> np.ndarray[Any, Any]:
        """The solutions over a grid of weights, and over folds, sharing all that can be shared.

        Parameters
        ----------
        weights : for each term (or its index, or a tuple of terms) the factors by which its weight is multiplied, one
            axis each
        held_out : for a term what each fold, the last axis, leaves out: rows (integers or a mask), or a factor for the
            weight of each row (floats), 0 where it is left out
        tol, time_limit, callback, verbose : as in `solve`; the limit is for the whole grid

        Each solution has a status of its own.  Ctrl-C ends the grid: cells that are solved then say "converged", and
        all others "interrupted".

        With an approximation the functions are chosen once, by the terms as they are, and the rows are summed up once,
        in groups that folds leave out together.

        Returns
        -------
        An object array of `Solution`, of shape (weights of the first term, .., folds).

        Examples
        --------
        >>> import numpy as np, rkhs
        >>> X = np.linspace(0, 1, 8)[:, None]
        >>> labels = rkhs.Term(rkhs.Evaluation(X), rkhs.Logistic(), target=np.sign(X[:, 0] - 0.4))
        >>> flat = rkhs.Term(rkhs.Gradient(X), rkhs.Squared())
        >>> problem = rkhs.Problem(rkhs.Gaussian(scale=0.3), [labels, flat])
        >>> solutions = problem.grid({labels: [1, 10], flat: [0.01, 0.1, 1]}, held_out={labels: [[0, 1], [2, 3]]})
        >>> solutions.shape, max(s.relative_gap for s in solutions.flat) <= 1e-4
        ((2, 3, 2), True)
        """
        cells = Cells.of(self.terms, weights, held_out or {})
        monitor = Monitor(tol, time_limit, callback, verbose)
        if self.approximation is not None:
            self._in_one_go(monitor.callback)
            span = self._on_span(self.approximation)
            if span.whole:
                exact = replace(self, approximation=None)
                found = exact.grid(weights, held_out, tol=tol, time_limit=time_limit, verbose=verbose)
                return np.vectorize(self._unapproximated, otypes=[object])(found)
            return span.grid(cells, monitor)
        system = self.system
        multiples = cells.of_system(self.terms, system)
        tasks = GridTasks(system, multiples, cells.count or 1)
        status = stopped(monitor, lambda: tasks.solve(monitor))
        solutions = np.empty(len(multiples), dtype=object)
        solved = [tasks.cell(k) for k in range(len(multiples))]
        for k, certificate in enumerate(certificates_of(solved, monitor.tol, status)):
            cell, iterate = solved[k]
            solutions[k] = self._solution(cell, "grid", monitor, iterate, status, certificate)
        return solutions.reshape(cells.shape)

    def evidence(self, gradient: bool = False) -> Evidence:
        """How likely the targets are under the kernel and the weights, where all losses are squared.

        The logarithm of the marginal likelihood of a Gaussian process with covariance tau^2 k whose functionals were
        observed with noise of variance tau^2 / (2 weight), for the best amplitude tau.  With a basis it is the
        restricted likelihood, of all that the basis cannot explain; it does not depend on how basis functions are
        scaled.  Terms whose targets are all zero are prior knowledge: it is the likelihood of the others given them.
        Outputs add up, each with its own tau.  With an approximation the process is that of its span.

        Parameters
        ----------
        gradient : whether to compute derivatives in the logarithms of all settings, by names such as "kernel.scale[0]"
            and "terms[1].weight"

        Examples
        --------
        >>> import numpy as np, rkhs
        >>> X = np.linspace(0, 1, 20)[:, None]
        >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(6 * X[:, 0]), weight=50.0)
        >>> [round(rkhs.Problem(rkhs.Gaussian(s), [term]).evidence().value) for s in (0.03, 0.3, 3.0)]
        [-18, 17, -18]
        """
        return evidence_of(self, gradient)

    def leave_out(self, groups: Any = None) -> LeaveOneOut:
        """Predictions for each functional by an f that has not seen it, and targets minus these, without solving again.

        Exact for squared losses.  For other smooth losses it is one step of Newton's method from the solution.

        Parameters
        ----------
        groups : None to leave out each functional alone; "points" for all that was observed at one point; or labels,
            equal for functionals that are left out together: an array for each term, of the shape of its functionals

        Examples
        --------
        >>> import numpy as np, rkhs
        >>> X = np.linspace(0, 1, 20)[:, None]
        >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(6 * X[:, 0]), weight=50.0)
        >>> left = rkhs.Problem(rkhs.Gaussian(0.3), [term]).leave_out()
        >>> left.exact, bool(np.abs(left.residuals[0]).max() < 0.2)
        (True, True)
        """
        return left_out_of(self, groups)

    def tune(
        self,
        criterion: str = "evidence",
        *,
        starts: int = 2,
        prior: float | None = 1.0,
        amplitude: float | None = None,
        functionals: int = 3000,
        time_limit: float | None = None,
        iterations: int = 200,
        random_state: Any = 0,
        verbose: bool = False,
    ) -> Problem:
        """The problem with numbers in the place of all that was left open by `rkhs.Tunable()`.

        What was found, and how, is in `problem.tuning`.  All losses have to be squared.

        Parameters
        ----------
        criterion : "evidence", or "loo": the squared residuals of points that are left out with all that was observed
            there; measurements that a term repeats at a point are left out one by one
        starts : searches (L-BFGS in logarithms), the first from the best of some common scales and noises, others near
            the best so far
        prior : how much the logarithms of scales of features may differ: their standard deviation around their mean;
            None leaves them free
        amplitude : the tau of the evidence, where it is known: 1.0 for a kernel in the units of the targets (as
            `rkhs.Tunable() * kernel` may be) and weights 1 / (2 noise^2); None for the best one
        functionals : how many are looked at together, at most.  Of more than that, all that was observed at some
            points, drawn at random; with landmarks the search ends with all of them, in the span
        time_limit : seconds after which the best so far is taken
        iterations : of L-BFGS from each start, at most
        random_state : a seed
        verbose : whether to print progress to standard error

        Ctrl-C returns the best so far, and is raised where there is nothing yet.

        Examples
        --------
        >>> import numpy as np, rkhs
        >>> X = np.random.default_rng(0).uniform(size=(40, 3))
        >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(6 * X[:, 1]), weight=rkhs.Tunable())
        >>> problem = rkhs.Problem(rkhs.Gaussian(scale=rkhs.Tunable(each=True)), [term], basis=rkhs.Constant()).tune()
        >>> problem.tuning.status, int(np.argmin(problem.kernel.scale))
        ('converged', 1)
        """
        limits = (functionals, time_limit, iterations, random_state, verbose)
        return tuned_problem(self, criterion, starts, prior, amplitude, *limits)

    def _on_span(self, approximation: Approximation) -> SubspaceProblem:
        check_known(self.kernel)
        for term in self.terms:
            term.weights()
        return SubspaceProblem(self.kernel, self.terms, self.basis, approximation, self.device)

    def _in_one_go(self, *options: Any) -> None:
        """Refuse what is for solvers that iterate."""
        if any(option is not None for option in options):
            raise ValueError(
                f"With {self.approximation!r} the problem is small and solved in one go: leave `solver`, `start` "
                "and `callback` out, or the approximation."
            )

    def _unapproximated(self, solution: Solution) -> Solution:
        """The solution of the whole problem, whose functionals are the landmarks."""
        name = type(self.approximation).__name__
        return replace(solution, solver=name, span=f"{name}: all {solution.function.functionals.size} functionals")

    def _solution(
        self,
        system: FiniteProblem,
        solver: str,
        monitor: Monitor,
        iterate: Iterate,
        status: str,
        certificate: Certificate,
    ) -> Solution:
        """The solution of an iterate with its certificate, or f = 0 in the place of anything worse."""
        worse = np.flatnonzero(~(certificate.primal <= system.at_zero))
        if len(worse):
            for k in worse:
                iterate = iterate.with_output(int(k), system.output(int(k)).start())
            certificate = certify(system, iterate, monitor.tol, quick=status != CONVERGED)
        basis, hidden = self.represented.basis, self.represented.hidden(system)
        said = certificate.status(monitor.tol, status)
        certificate, said = with_hidden(certificate, said, hidden, basis.size, "basis functions")
        return Solution(
            self.represented.function(iterate),
            certificate,
            said,
            solver,
            len(monitor.history),
            monitor.products,
            monitor.seconds,
            tuple(monitor.history),
            basis_rank=None if basis.space is None else (basis.rank, basis.size),
            source=PosteriorSource.of(self.represented, system.terms),
        )
