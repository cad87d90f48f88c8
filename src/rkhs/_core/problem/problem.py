"""The convex problem of a kernel and terms, and the methods that solve, tune and assess it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, partial
from math import inf
from pathlib import Path
from typing import Any, cast

import numpy as np

from rkhs._core.backend.arrays import check_choice, placed, to_numpy
from rkhs._core.backend.memory import on_cpu, out_of_memory, release_memory
from rkhs._core.backend.precision import check_precision
from rkhs._core.calculus.function_spaces import FunctionSpace
from rkhs._core.finite.certificate import Certificate, Status, certify
from rkhs._core.finite.function import Function
from rkhs._core.finite.monitor import CHOICE, SUMMING, Monitor, Stopped
from rkhs._core.finite.problem import FiniteProblem, Iterate, check_range, is_unbounded_below
from rkhs._core.finite.representers import (
    RepresenterTerms,
    VerifiedIterate,
    block_in_double,
    certify_quickly,
    outputs_of,
)
from rkhs._core.finite.solution import ABSOLUTE, CONVERGED, INTERRUPTED, LOCAL, Record, Solution, with_hidden_functions
from rkhs._core.finite.sums import grouped
from rkhs._core.finite.term import Term
from rkhs._core.gram.blocks import check_bounded
from rkhs._core.learning.evidence import Evidence, evidence_of
from rkhs._core.learning.leave_one_out import LeaveOneOut, left_out_of
from rkhs._core.learning.tuning import Tuning, tuned
from rkhs._core.problem import spaces
from rkhs._core.problem.grid import GridSolver, WeightGrid
from rkhs._core.progress import interrupted
from rkhs.exceptions import NotApplicableError, UnattainedError, warn
from rkhs.kernels._base import Kernel, check_known
from rkhs.losses import OneSided, SquaredOneSided
from rkhs.solvers._base import FLOP, Solver
from rkhs.solvers._choose import auto
from rkhs.solvers._conditioned import PosteriorSource
from rkhs.spaces._base import Approximation, FiniteSpace, Orthonormal, check_approximation, check_sums

ROUNDED = 1e-6  # violations of inequalities, relative to the largest value, that are not reported
NEAR = 5  # multiple of the tolerance up to which a solver whose gap misses it by rounding is run again


def solve_to_tolerance(
    solver: Solver, system: FiniteProblem, start: Iterate, monitor: Monitor
) -> tuple[Iterate, Status, Certificate]:
    """Run a solver, several times if that improves the certificate; return the iterate, its status and certificate."""
    watched, tol = monitor.monitored(system), monitor.tol
    iterate, previous_gap, aim = start, inf, tol
    while True:
        monitor.best = iterate
        steps = solver.steps(watched, iterate, aim, monitor)
        status, result = run_until_stopped(monitor, partial(monitor.follow, steps))
        iterate = result if status == CONVERGED else monitor.best or iterate
        certificate = certificate_of(system, iterate, tol, status)
        gap, margin = certificate.relative, tol - certificate.uncertain
        done = status not in (CONVERGED, ABSOLUTE) or certificate.within(tol) or certificate.gap <= 2 * monitor.atol
        if not done and (system.inexact or solver.inexact) and tol < gap <= previous_gap / 2:
            aim = tol  # products are inexact, and the last run has halved the true gap: from the true image
        elif not done and aim == tol and margin > 0 and gap <= NEAR * tol:
            aim = margin / 2  # rounding leaves the gap just above the tolerance
        else:
            return iterate, status, certificate
        previous_gap = gap


def certificate_of(system: FiniteProblem, iterate: Iterate, tol: float, status: Status) -> Certificate:
    """Return the certificate of an iterate: the verified one if there is one, else from scratch.

    If the solver was stopped early, a quick certificate has to do.
    """
    if isinstance(iterate, VerifiedIterate):
        return iterate.certificate
    return certify(system, iterate, tol, quick=status != CONVERGED)


def certificates_of(cells: Sequence[tuple[FiniteProblem, Iterate]], tol: float, status: Status) -> list[Certificate]:
    """Return the certificates of the cells of a grid, which share a Gram matrix.

    If the grid was stopped early, the quick certificates of all cells together take two products.
    """
    quick = {k for k, (_, it) in enumerate(cells) if status != CONVERGED and not isinstance(it, VerifiedIterate)}
    certificates = iter(certify_quickly([cells[k] for k in sorted(quick)]))
    return [next(certificates) if k in quick else certificate_of(*cells[k], tol, status) for k in range(len(cells))]


def run_until_stopped(monitor: Monitor, work: Callable[[], Any]) -> tuple[Status, Any]:
    """Run `work`; return its status, "converged" or what stopped it, such as a time limit or Ctrl-C, and its result."""
    try:
        return CONVERGED, work()
    except Stopped as stop:
        return stop.status, None
    except KeyboardInterrupt:
        interrupted()
        return INTERRUPTED, None
    finally:
        monitor.close()


@dataclass(frozen=True, eq=False)
class Problem:
    """A convex problem in a reproducing kernel Hilbert space: a kernel, and terms of functionals with losses.

    The problem is to minimize

        1/2 |f|^2 + sum over terms of weight * sum_i loss(L_i(f); target_i)

    over f in H + span(basis), where H is the Hilbert space of the kernel and |f| its norm.

    Parameters
    ----------
    kernel : Kernel
        The kernel, such as `rkhs.Gaussian(scale=1.0)`.
    terms : sequence of Term
        The terms, each a family of functionals with a loss, targets and weights.
    basis : FunctionSpace, optional
        Functions that are not penalized: `rkhs.Constant`, `rkhs.Polynomials` or `rkhs.Functions`.
    null_space : {"kept", "dropped"}, default="kept"
        Whether f includes the polynomials in the null space of a conditionally positive definite kernel, which are not
        penalized.  Drop them if polynomials alone separate the data (Walder and Chapelle 2007, section 6.2); f then is
        a combination of representers, of all functionals or of those of an approximation, plus the `basis`.  Without
        `basis=rkhs.Constant()` the function of r^2 log r depends on the units of the points.
    device : str, optional
        A device of PyTorch such as "cuda", on which the problem is solved.  If it is not available, a warning is given
        and the problem is solved where the data are.
    precision : {"float64", "float32", "tf32x3", "tf32"}, optional
        The arithmetic of Gram products, by default that of the data; "tf32x3" is float32 on tensor cores.  Iterates,
        residuals and the certificate are always in float64, and a solution whose true gap is too large is refined.
    approximation : Landmarks, FourierFeatures, FourierGrid or Neighbors, optional
        Seek f in the span of finitely many functions.  Time is then linear in the number of points, and the certificate
        is that of the problem in the span.  On a device the rows are summed there in float64, a tile at a time.
        `Neighbors` learns f at each point from the functionals near it, without a certificate of the whole.
    tuning : Tuning, optional
        The result of the search for hyperparameters, set by `tune`.

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
    tuning: Tuning | None = field(default=None, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        return {item.name: getattr(self, item.name) for item in fields(self)}  # without cached properties

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
        check_choice(self.null_space, "null_space", "kept", "dropped")
        check_precision(self.precision)
        if self.approximation is not None:
            check_approximation(self.approximation)
            check_sums(self.precision)
        object.__setattr__(self, "terms", terms)

    @cached_property
    def represented(self) -> RepresenterTerms:
        """The problem in coefficients of representers and basis functions, by the representer theorem."""
        check_known(self.kernel)
        prototype = placed(self.terms[0].functional.prototype, self.device, self.precision)
        represented = RepresenterTerms.of(
            self.kernel, self.terms, self.basis, prototype, self.precision, dropped=self.null_space == "dropped"
        )
        check_range(represented.rows)
        for output in range(represented.system.columns):
            if is_unbounded_below(represented.system, output):
                losses = sorted({repr(term.loss) for term in self.terms if not term.loss.attained})
                raise UnattainedError(
                    f"The basis {represented.basis.space!r} separates the data by itself and is not penalized: the "
                    f'minimum of {", ".join(losses)} is at infinity. Leave the basis out (null_space="dropped" for '
                    f"that of {self.kernel!r}), or use a loss whose minimum is attained."
                )
        return represented

    def save(self, path: str | Path, *, trusted: Iterable[Any] = ()) -> None:
        """Save the unsolved problem with its data, for a bug report; `rkhs.load_problem` reads it.

        Parameters
        ----------
        path : str or Path
            The file to write, in the format of `rkhs.save`.
        trusted : list of class, function or str, optional
            Your own kernels, functionals and losses, as in `rkhs.save`.

        Examples
        --------
        >>> import rkhs, tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "problem.skops"
        >>> term = rkhs.Term(rkhs.Evaluation([[0.0], [1.0]]), rkhs.Hinge(), target=[-1.0, 1.0])
        >>> rkhs.Problem(rkhs.Gaussian(), [term]).save(path)
        >>> rkhs.load_problem(path).solve().status
        'converged'
        """
        import rkhs  # model files are an application

        rkhs.save(self, path, trusted=trusted)

    def in_double(self) -> Problem:
        """Return a copy of the problem that computes in float64, unless `precision` is given.

        It is for models that choose others, in which rounding to float32 may exceed the tolerance.

        Returns
        -------
        Problem
            The copy, without cached results.
        """
        narrow = self.precision is None and "64" not in str(self.terms[0].functional.prototype.dtype)
        return replace(self, precision="float64" if narrow else self.precision)

    @property
    def system(self) -> FiniteProblem:
        """The finite-dimensional problem of the representer theorem."""
        return self.represented.system

    def solve(
        self,
        solver: Solver | str = "auto",
        *,
        tol: float = 1e-6,
        time_limit: float | None = None,
        callback: Callable[[Record], Any] | None = None,
        start: Solution | Function | None = None,
        verbose: bool = False,
        atol: float = 0.0,
    ) -> Solution:
        """Solve the problem to a certified relative duality gap.

        Ctrl-C stops the solver and returns the best iterate so far, with its true gap.

        Parameters
        ----------
        solver : "auto" or Solver, default="auto"
            "auto", which chooses by estimated cost, or a solver such as `rkhs.solvers.NonlinearCG()`.
        tol : float, default=1e-6
            The relative duality gap, (primal - dual) / max(|primal|, |dual|), to reach.
        time_limit : float, optional
            Seconds after which the best iterate so far is returned, with its true gap.
        callback : callable, optional
            It is called with a `Record` after each iteration; a true return value stops the solver.
        start : Solution or Function, optional
            A solution of a problem with the same functionals, from which to start.  If it is within the tolerance
            already, no solver is run.
        verbose : bool, default=False
            Whether to print progress to standard error.
        atol : float, default=0.0
            A duality gap, not relative to J, at which an iterative solver stops as well, with the status "absolute
            tolerance".  An f whose gap is w_1 r_1^2 + .. + w_n r_n^2, for squared losses of weights w_i, is the
            minimizer for targets that differ by at most these r_i (in the mean).

        Returns
        -------
        Solution
            The minimizer with its certificate.

        Examples
        --------
        >>> import numpy as np, rkhs
        >>> X = np.linspace(0, 1, 8)[:, None]
        >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.losses.Absolute(), target=np.sin(6 * X[:, 0]), weight=10.0)
        >>> solution = rkhs.Problem(rkhs.Gaussian(scale=0.3), [term]).solve(tol=1e-4)
        >>> solution.status, solution.relative_gap <= 1e-4
        ('converged', True)
        """
        monitor = Monitor(tol, time_limit, callback, verbose, atol)
        full: tuple[type[BaseException], ...] = (MemoryError, *out_of_memory())
        try:
            return self._with_violations(self._solved(solver, monitor, start))
        except full:
            elsewhere = self._on_cpu
            if elsewhere is None:
                raise
            best = None if monitor.best is None else self.represented.function(monitor.best)
        monitor.close()
        release_memory()
        warn("The device has too little memory for the problem: it is solved on the CPU, from the best iterate so far.")
        monitor.best = None
        return elsewhere._with_violations(elsewhere._solved(solver, monitor, start if best is None else best))

    def _with_violations(self, solution: Solution) -> Solution:
        """Return the solution with the inequalities that it violates, and the weights that suffice for them.

        Let J_0 be J without the term, V its loss with the weight one, and f_w the minimizer of J_0 + w V.  J_0(f_w)
        increases with w, and if V(0) = 0, w V(f_w) <= J_0(0) - J_0(f_w).  Larger weights thus bound V(f_w).
        """
        found: dict[int, tuple[float, float]] = {}
        for k, term in enumerate(self.terms):
            if not isinstance(term.loss, OneSided | SquaredOneSided) or solution.status == LOCAL or not term.size:
                continue
            block = block_in_double(term, term.outputs)
            values = to_numpy(term.functional(solution.function)).reshape(term.size, -1)  # and outputs
            largest = float(np.max(np.where(block.weight > 0, block.target - values, 0.0), initial=0.0))
            if not largest > ROUNDED * float(np.abs(values).max()):
                continue
            rest = solution.primal - float(np.sum(block.weight * term.loss.value(values, block.target)))
            aim = float(block.weight[block.weight > 0].min()) * float(
                term.loss.value(np.full(1, -largest / 100), np.zeros(1))[0]
            )
            found[k] = (
                largest,
                inf if np.any(block.target > 0) else max((float(self.system.at_zero.sum()) - rest) / aim, 1.0),
            )
        return replace(solution, violations=found) if found else solution

    @property
    def _on_cpu(self) -> Problem | None:
        """The problem in main memory; None if it is there."""
        place = None if on_cpu(self.terms[0].functional.prototype) else "cpu"
        return None if self.device == place else replace(self, device=place)

    def _solved(self, solver: Solver | str, monitor: Monitor, start: Solution | Function | None) -> Solution:
        if self.approximation is not None:
            self._check_no_iterations(None if solver == "auto" else solver, start, monitor.callback)
            if self._is_exact:
                return self._unapproximated(replace(self, approximation=None)._solved(solver, monitor, start))
            return cast(Solution, self._approximated(WeightGrid(len(self.terms), {}, {}), monitor).item())
        system, tol = self.system, monitor.tol
        chosen = auto(system) if solver == "auto" else solver
        if not isinstance(chosen, Solver):
            raise TypeError(f'solver must be "auto" or an object such as rkhs.solvers.NonlinearCG(), got {solver!r}.')
        lacking = chosen.lacks(system)
        if lacking is not None:
            raise NotApplicableError(lacking)
        trivial = not np.any(system.at_zero)  # J(0) = 0 is the minimum
        first = system.start()
        if start is not None and not trivial:
            first = self.represented.iterate(start if isinstance(start, Function) else start.function)
        if start is not None or trivial:
            certificate = certify(system, replace(first, alpha=first.a), tol)  # a needs no product as a dual point
            if certificate.within(tol) or trivial:
                return self._solution(system, chosen.name, monitor, first, CONVERGED, certificate)
        result = solve_to_tolerance(chosen, system, first, monitor)
        return self._solution(system, monitor.solver or chosen.name, monitor, *result)

    def path(self, term: Term | int, weights: Sequence[float], **options: Any) -> list[Solution]:
        """Solve the problem for several weights of one term.

        Parameters
        ----------
        term : Term or int
            The term, or its index.
        weights : sequence of float
            The factors by which its weight is multiplied.
        **options
            As in `grid`.

        Returns
        -------
        list of Solution
            The solution for each factor.

        Examples
        --------
        >>> import numpy as np, rkhs
        >>> X = np.linspace(0, 1, 8)[:, None]
        >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(6 * X[:, 0]))
        >>> solutions = rkhs.Problem(rkhs.Gaussian(scale=0.3), [term]).path(term, [0.1, 1.0, 10.0])
        >>> norms = [solution.function.norm() for solution in solutions]
        >>> norms == sorted(norms)
        True
        """
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
        """Solve the problem over a grid of weights and folds, sharing work between the cells.

        Each solution has its own status.  Ctrl-C stops the grid: cells that are solved have the status "converged", all
        others "interrupted".  With an approximation, the functions are chosen once, for the terms with their original
        weights, and the rows are summed once, in groups that folds leave out together.

        Parameters
        ----------
        weights : dict
            For each term, its index, or a tuple of several terms, the factors by which the weight is multiplied.  Each
            entry is an axis of the grid.
        held_out : dict, optional
            For a term or its index, a sequence with the rows that each fold leaves out (indices or a mask), or a float
            factor on the weight of each row, 0 for rows left out.  The folds are the last axis of the grid.
        tol : float, default=1e-4
            The relative duality gap to reach.
        time_limit : float, optional
            Seconds for the whole grid.
        callback : callable, optional
            As in `solve`.
        verbose : bool, default=False
            Whether to print progress to standard error.

        Returns
        -------
        ndarray of Solution
            The solutions, of shape (factors of the first axis, .., folds).

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
        cells = WeightGrid.of(self.terms, weights, held_out or {})
        monitor = Monitor(tol, time_limit, callback, verbose)
        if self.approximation is not None:
            self._check_no_iterations(monitor.callback)
            if self._is_exact:
                exact = replace(self, approximation=None)
                exact_solutions = exact.grid(weights, held_out, tol=tol, time_limit=time_limit, verbose=verbose)
                return np.vectorize(self._unapproximated, otypes=[object])(exact_solutions)
            return self._approximated(cells, monitor)
        system = self.system
        weightings = cells.system_weightings(self.terms, system)
        tasks = GridSolver(system, weightings, cells.count or 1)
        status, _ = run_until_stopped(monitor, lambda: tasks.solve(monitor))
        solutions = np.empty(len(weightings), dtype=object)
        solved = [tasks.cell(k) for k in range(len(weightings))]
        for k, certificate in enumerate(certificates_of(solved, monitor.tol, status)):
            cell, iterate = solved[k]
            solutions[k] = self._solution(cell, "grid", monitor, iterate, status, certificate)
        return solutions.reshape(cells.shape)

    def evidence(self, gradient: bool = False) -> Evidence:
        """Return the evidence (log marginal likelihood) of the targets; all losses have to be squared.

        The targets are observations of a Gaussian process with covariance tau^2 k, with noise of variance
        tau^2 / (2 weight); the amplitude tau is the one that maximizes the likelihood.  With a basis it is the
        restricted likelihood, which does not depend on the scaling of basis functions.  Terms whose targets are all
        zero are priors, and the evidence is that of the other targets given them.  The log likelihoods of several
        outputs are added, each with its own tau.  With an approximation the process is that of the span.

        Parameters
        ----------
        gradient : bool, default=False
            Whether to compute the derivatives in the logarithms of all hyperparameters, which have names such as
            "kernel.scale[0]" and "terms[1].weight".

        Returns
        -------
        Evidence
            The evidence, the amplitude, and perhaps the gradient.

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
        """Return the leave-one-out predictions and residuals of all functionals, without solving again.

        They are exact for squared losses, and one Newton step from the solution for other smooth losses.

        Parameters
        ----------
        groups : "points", sequence of array-like, or None, default=None
            What is left out together: each functional by itself; with "points" all functionals at the same point; or
            functionals with equal labels, given as an array for each term, of the shape of its functionals.

        Returns
        -------
        LeaveOneOut
            The predictions and residuals.

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
        """Tune the hyperparameters that are marked by `rkhs.Tunable()`; all losses have to be squared.

        Ctrl-C returns the best hyperparameters so far, and is raised if there are none yet.

        Parameters
        ----------
        criterion : {"evidence", "loo"}, default="evidence"
            The criterion to optimize: the evidence, or the leave-one-out residuals of points, which are left out with
            all their functionals; measurements that a term repeats at a point are left out one by one.
        starts : int, default=2
            The number of searches (L-BFGS in the logarithms): the first from the best of several common scales and
            noise levels, the others from random points near the best so far.
        prior : float or None, default=1.0
            The standard deviation of the logarithms of the scales of features around their mean; None for no prior.
        amplitude : float, optional
            The amplitude tau of the evidence if it is known: 1.0 for a kernel in the units of the targets, such as
            `rkhs.Tunable() * kernel`, and weights 1 / (2 noise^2).  By default it is profiled out.
        functionals : int, default=3000
            The maximal number of functionals in an evaluation.  If there are more, all functionals at randomly drawn
            points are used; with landmarks the search ends with all functionals, in the span.
        time_limit : float, optional
            Seconds after which the search stops with the best hyperparameters so far.
        iterations : int, default=200
            The maximal number of iterations of L-BFGS from each start.
        random_state : int or Generator, default=0
            The seed.
        verbose : bool, default=False
            Whether to print progress to standard error.

        Returns
        -------
        Problem
            The problem with numbers in place of the marked hyperparameters; its `tuning` describes the search.

        Examples
        --------
        >>> import numpy as np, rkhs
        >>> X = np.random.default_rng(0).uniform(size=(40, 3))
        >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(6 * X[:, 1]), weight=rkhs.Tunable())
        >>> problem = rkhs.Problem(rkhs.Gaussian(scale=rkhs.Tunable(each=True)), [term], basis=rkhs.Constant()).tune()
        >>> problem.tuning.status, int(np.argmin(problem.kernel.scale))
        ('converged', 1)
        """

        def choose(kernel: Kernel, terms: tuple[Term, ...]) -> FiniteSpace:
            return replace(self, kernel=kernel, terms=terms)._chosen_space

        limits = (functionals, time_limit, iterations, random_state, verbose)
        kernel, terms, tuning = tuned(self, criterion, starts, prior, amplitude, *limits, choose)
        return replace(self, kernel=kernel, terms=terms, tuning=tuning)

    @cached_property
    def full_basis(self) -> FunctionSpace | None:
        """The basis, and the kernel's null space if it is kept, in coordinates centered on the points."""
        return spaces.full_basis(self.kernel, self.terms, self.basis, self.null_space == "dropped")

    @property
    def space(self) -> FiniteSpace | None:
        """The space that the approximation chooses; None if f is sought in the whole RKHS."""
        return None if self.approximation is None or self._is_exact else self._chosen_space

    @cached_property
    def _chosen_space(self) -> FiniteSpace:
        check_known(self.kernel)
        for term in self.terms:
            term.weights()
        assert self.approximation is not None
        return spaces.chosen_space(self.kernel, self.terms, self.full_basis, self.approximation, self.device)

    @property
    def _is_exact(self) -> bool:
        """Whether the landmarks include the functionals of all terms, so that nothing is approximated."""
        assert self.approximation is not None
        return self.device is None and self.approximation.contains([term.functional for term in self.terms])

    def _approximated(self, cells: WeightGrid, monitor: Monitor) -> np.ndarray[Any, Any]:
        """Return the solutions of all cells of a grid by the approximation, in a common space or without one."""
        assert self.approximation is not None
        check_known(self.kernel)
        for term in self.terms:
            check_bounded(self.kernel, term.functional)
        outputs_of(self.terms)
        found = self.approximation.solutions(self, cells.weightings())
        if found is None:
            return self._grid_in_space(cells, monitor)
        timed = [replace(one, seconds=monitor.seconds) for one in found]
        return np.array([*timed, None], dtype=object)[:-1].reshape(cells.shape)

    def _grid_in_space(self, cells: WeightGrid, monitor: Monitor) -> np.ndarray[Any, Any]:
        """Return the solutions of all cells of a grid in the space of the approximation.

        If the grid is stopped, the remaining cells have f = 0.  In stored features the cells take one pass over the
        rows, or two if the sums of the first are not accurate enough.
        """
        assert self.approximation is not None
        solved: dict[int, spaces.SpaceSolution] = {}

        def work() -> None:
            check_range(spaces.loss_blocks(self.terms))
            with monitor.showing(CHOICE):
                space = self._chosen_space
            outputs, rows = outputs_of(self.terms), sum(term.size for term in self.terms)
            groups = {term: grouped(parts) for term, parts in cells.folds.items()}
            shares = {term: rows for term, (rows, _) in groups.items()}
            factors = {term: folds for term, (_, folds) in groups.items()}

            def terms_of(functions: Orthonormal | None) -> spaces.SpaceTerms:
                with monitor.showing(SUMMING):
                    found = spaces.terms_in(space, self.full_basis, self.terms, outputs, functions, shares)
                monitor.check(FLOP * found.operations)
                return found

            # item by item: an interruption keeps the cells before it
            solved.update(spaces.solve_weightings(terms_of, cells.weightings(factors), monitor, rows, cells.count or 1))

        status, _ = run_until_stopped(monitor, work)
        # With the weights of the problem, and with its null space, there is a posterior.
        single = not (cells.axes or cells.folds or self.null_space == "dropped")
        weightings = cells.weightings()
        solutions = np.empty(len(weightings), dtype=object)
        for k, factors in enumerate(weightings):
            if k in solved:
                solutions[k] = spaces.solution_of(solved[k], self.approximation, monitor, status, posterior=single)
            else:
                space, seconds = vars(self).get("_chosen_space"), monitor.seconds
                solutions[k] = spaces.zero_solution(
                    self.kernel, self.terms, self.full_basis, space, factors, self.approximation, seconds, status
                )
        return solutions.reshape(cells.shape)

    def _check_no_iterations(self, *options: Any) -> None:
        """Raise an error if options of iterative solvers are given together with an approximation."""
        if any(option is not None for option in options):
            raise ValueError(
                f"With {self.approximation!r} the problem is small and solved directly: leave `solver`, `start` and "
                "`callback` out, or the approximation."
            )

    def _unapproximated(self, solution: Solution) -> Solution:
        """Return the solution of the exact problem, with `span` stating that the landmarks are all functionals."""
        name = type(self.approximation).__name__
        return replace(solution, solver=name, span=f"{name}: all {solution.function.functionals.size} functionals")

    def _solution(
        self,
        system: FiniteProblem,
        solver: str,
        monitor: Monitor,
        iterate: Iterate,
        status: Status,
        certificate: Certificate,
    ) -> Solution:
        """Return the solution for an iterate with its certificate; outputs that are worse than f = 0 are set to 0."""
        worse = np.flatnonzero(~(certificate.primal <= system.at_zero))
        if len(worse):
            for k in worse:
                iterate = iterate.with_output(int(k), system.output(int(k)).start())
            certificate = certify(system, iterate, monitor.tol, quick=status != CONVERGED)
        basis, hidden = self.represented.basis, self.represented.hidden(system)
        status = certificate.status(monitor.tol, status)
        certificate, status = with_hidden_functions(certificate, status, hidden)
        return Solution(
            self.represented.function(iterate),
            certificate,
            status,
            solver,
            len(monitor.history),
            monitor.products,
            monitor.seconds,
            tuple(monitor.history),
            basis_rank=None if basis.space is None else (basis.rank, basis.size),
            source=PosteriorSource.of(self.represented, system.terms),
        )
