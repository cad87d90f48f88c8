"""Solutions of problems: the function, its certificate, the history of the solver, and the posterior.

The posterior of f given squared losses is a Gaussian process whose mean is the minimizer.  Its covariance is tau^2
times that of f given the terms for tau = 1 (`Covariance`), with the amplitude of maximum likelihood,
tau^2 = 2 J* / (N - r), so that error bars have the units of the targets.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil, sqrt
from typing import Any, Protocol

import numpy as np

from rkhs._core.backend.arrays import EPS, Array, Matrix, check_count, double, indices, like, namespace
from rkhs._core.backend.memory import check_tables
from rkhs._core.finite.certificate import CONVERGED, Certificate, Status
from rkhs._core.finite.function import Pullback, pushed_forward
from rkhs.functionals._base import Functional

# Peak memory of `cov` and `sample` in matrices of the size of the covariance, measured.
COV_TABLES, SAMPLE_TABLES = 4, 8


class Covariance(Protocol):
    """The covariance of functionals of f given the terms of a problem, for the amplitude 1."""

    @property
    def outputs(self) -> int | None:
        """The number of outputs; None for a scalar function."""

    @property
    def degrees_of_freedom(self) -> int:
        """The degrees of freedom N - r, without terms whose targets are all zero."""

    def variance(self, M: Functional) -> Array:
        """Return the variances (m,), infinite where M depends on a basis function that no term determines."""

    def covariance(self, L: Functional, M: Functional | None = None) -> Array:
        """Return the covariances (l, m); those of L (l, l) without M."""


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior Gaussian process of a problem with squared losses; returned by `Solution.posterior`.

    Parameters
    ----------
    function : Function
        The posterior mean.
    spread : object
        The posterior covariance, in units of tau^2.
    amplitude : float or ndarray of shape (outputs,)
        The amplitude tau: the prior covariance of f is tau^2 k.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=1000 * np.sin(6 * X[:, 0]), weight=50.0)
    >>> posterior = rkhs.Problem(rkhs.Gaussian(scale=0.3), [term]).solve().posterior
    >>> posterior.std(rkhs.Evaluation([[0.5], [2.0]])).round()
    array([ 25., 533.])
    >>> posterior.sample(rkhs.Gradient([[0.5]]), 100).shape
    (100, 1, 1)
    """

    function: Any  # a Function, FeatureFunction or LocalFunction
    spread: Covariance
    amplitude: float | Matrix

    def mean(self, L: Functional) -> Array:
        """Return the posterior mean of functionals of f.

        Parameters
        ----------
        L : Functional
            The family of functionals.

        Returns
        -------
        ndarray
            L(f), of the shape of L, with a last axis for several outputs.
        """
        return L(self.function)

    def at_points(self, L: Functional) -> Functional:
        """Return functionals of the mean as those at the points of the problem, to which `spread` refers.

        Parameters
        ----------
        L : Functional
            The family of functionals.

        Returns
        -------
        Functional
            The same family, or for a function of coordinates that of the function of positions.
        """
        return pushed_forward(L, self.function.map) if isinstance(self.function, Pullback) else L

    def std(self, L: Functional, weight: float | None = None) -> Array:
        """Return the posterior standard deviations of functionals of f.

        Parameters
        ----------
        L : Functional
            The family of functionals.
        weight : float, optional
            The weight of a new observation, whose noise of variance tau^2 / (2 weight) is included.

        Returns
        -------
        ndarray
            The standard deviations, of the shape of L, with a last axis for several outputs; infinite where the data do
            not determine a basis function.
        """
        variance = self.spread.variance(self.at_points(L))
        xp = namespace(variance)
        return self._scaled(xp.reshape(xp.sqrt(variance + _noise(weight)), L.shape), 1)

    def cov(self, L: Functional, M: Functional | None = None, weight: float | None = None) -> Array:
        """Return the posterior covariances of functionals of f.

        Parameters
        ----------
        L : Functional
            A family of functionals.
        M : Functional, optional
            Another family; L if it is not given.
        weight : float, optional
            The weight of new observations of L, whose noise of variance tau^2 / (2 weight) is included; not with M.

        Returns
        -------
        ndarray
            The covariances, of the shape of L followed by that of M, with a last axis for several outputs.
        """
        if M is not None and weight is not None:
            raise ValueError("M and weight are mutually exclusive: the noise is that of observations of L alone.")
        self.check_memory(ceil(sqrt(L.size * (L if M is None else M).size)), L.prototype)
        covariance = self.spread.covariance(self.at_points(L), None if M is None else self.at_points(M))
        if M is None:
            every = indices(np.arange(L.size), covariance)
            covariance[every, every] += _noise(weight)
        shape = (*L.shape, *(L if M is None else M).shape)
        return self._scaled(namespace(covariance).reshape(covariance, shape), 2)

    def sample(self, L: Functional, n: int = 1, random_state: Any = None) -> Array:
        """Draw joint samples of functionals of f from the posterior.

        Parameters
        ----------
        L : Functional
            The family of functionals.
        n : int, default=1
            The number of samples.
        random_state : int or Generator, optional
            The seed.

        Returns
        -------
        ndarray
            The samples, of shape (n,) + L.shape, with a last axis for several outputs, which are independent.
        """
        check_count(n, "n")
        self.check_memory(L.size, L.prototype, SAMPLE_TABLES)
        table = double(self.spread.covariance(self.at_points(L)))
        values, vectors = np.linalg.eigh((table + table.T) / 2)
        root = vectors * np.sqrt(np.clip(values, 0, None))
        tau = np.atleast_1d(self.amplitude)
        drawn = np.random.default_rng(random_state).standard_normal((n, len(tau), L.size)) @ root.T
        drawn = np.moveaxis(drawn * tau[:, None], 1, 2)  # (n, size, outputs)
        if np.ndim(self.amplitude) == 0:
            drawn = drawn[:, :, 0]
        mean = self.mean(L)
        return mean[None] + like(drawn.reshape(n, *mean.shape), mean)

    @staticmethod
    def check_memory(size: int, array: Array, tables: int = COV_TABLES) -> None:
        """Raise an error if the covariances of `size` functionals would not fit into memory.

        Parameters
        ----------
        size : int
            The number of functionals.
        array : ndarray
            An array of the type and on the device of the result.
        tables : int, default=4
            The number of matrices of this size that are in memory at once.
        """
        remedy = "ask for standard deviations, which are one number each, or for fewer points at a time"
        check_tables(size, tables, array, "Covariances", remedy)

    def _scaled(self, values: Array, power: int) -> Array:
        """Return the values times tau^power, with a last axis for several outputs."""
        if np.ndim(self.amplitude) == 0:
            return values * float(self.amplitude) ** power
        return values[..., None] * like(self.amplitude**power, values)


def _noise(weight: float | None) -> float:
    if weight is None:
        return 0.0
    if not weight > 0:
        raise ValueError(f"weight must be positive, got {weight!r}.")
    return 1 / (2 * float(weight))


__all__ = ["ABSOLUTE", "CONVERGED", "INTERRUPTED", "LOCAL", "TIME_LIMIT", "Record", "Solution", "with_hidden_functions"]
ABSOLUTE, INTERRUPTED, LOCAL, TIME_LIMIT = Status.ABSOLUTE, Status.INTERRUPTED, Status.LOCAL, Status.TIME_LIMIT
SOLVED = (CONVERGED, LOCAL)  # the statuses of solutions with which models are compared


@dataclass(frozen=True)
class Record:
    """The state of a solver after an iteration.

    Attributes
    ----------
    iteration : int
        The number of the iteration, starting at 1.
    products : int
        The number of Gram products so far.
    seconds : float
        The time in seconds so far.
    primal : float
        The objective J.
    gap : float
        The relative duality gap, as estimated by the solver.
    solver : str or None
        The name of the solver that took the step, if there are several of them in a race.
    """

    iteration: int
    products: int
    seconds: float
    primal: float
    gap: float
    solver: str | None = None


@dataclass(frozen=True, eq=False)
class Solution:
    """The solution of a problem, with a certificate of its distance from the minimum.

    Attributes
    ----------
    function : Function
        The minimizer; a `FeatureFunction` for approximations by features.
    certificate : Certificate
        The duality gap with bounds on its rounding errors.
    status : Status
        "converged" if the relative duality gap is within the tolerance.  Otherwise the reason for which the solver
        stopped: the absolute tolerance, an iteration or time limit, an interruption, or no further progress;
        `status.remedy` says what helps.  "limited by rounding" means that rounding errors may hide a
        larger gap, that of `certificate.uncertain`.  "functions hidden by rounding" means that f does not use functions
        of the basis (`basis_rank`) or of the span which are linearly dependent on the others up to rounding.  J might
        be smaller with them, so that the lower bound is 0.  "exact in each neighborhood" is that of `rkhs.Neighbors`:
        every value is computed exactly from the functionals near it.  The values belong to different functions, so that
        J is NaN and the gap infinite.
    solver : str
        The name of the solver.
    iterations, products : int
        The numbers of iterations and of Gram products.
    seconds : float
        The time in seconds.
    history : tuple of Record
        The state of the solver after each iteration.
    span : str or None
        The functions of an approximation.  Primal, dual and gap are then those of the problem restricted to their span.
        None for the whole RKHS.
    basis_rank : tuple of int or None
        The number of basis functions, including the null space of the kernel, that are independent on the functionals,
        and their total number.  None without a basis, and for approximations.
    source : object or None
        The data from which `posterior` is computed.
    violations : dict
        The violated inequalities L_i(f) >= b_i of terms with the losses `OneSided` and `SquaredOneSided`, by the index
        of the term: the largest b_i - L_i(f), and a factor of the term's weight with which it is at most a hundredth of
        that.  The factor is infinite if f = 0 violates them as well.  It is computed by `Problem.solve`, and empty for
        solutions of grids, paths and streams: solve the chosen weights alone.

    Examples
    --------
    >>> import rkhs
    >>> term = rkhs.Term(rkhs.Evaluation([[0.0], [1.0]]), rkhs.Squared(), target=[0.0, 1.0])
    >>> solution = rkhs.Problem(rkhs.Gaussian(), [term]).solve()
    >>> solution.status, bool(solution.relative_gap < 1e-4), solution.function([[1.0]]).round(2)
    ('converged', True, array([0.6]))
    """

    function: Any
    certificate: Certificate
    status: Status
    solver: str
    iterations: int
    products: int
    seconds: float
    history: tuple[Record, ...] = field(repr=False)
    span: str | None = None
    basis_rank: tuple[int, int] | None = None
    source: Any = field(default=None, repr=False)
    violations: dict[int, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def local(cls, function: Any, solver: str, outputs: int, span: str, source: Any = None) -> Solution:
        """Return a solution each of whose values is that of a problem of its own, so that J and the gap are not known.

        Parameters
        ----------
        function : Function
            The function.
        solver : str
            The name of the method.
        outputs : int
            The number of outputs.
        span : str
            What determines each value.
        source : object, optional
            The data from which `posterior` is computed.

        Returns
        -------
        Solution
            The solution, with the status "exact in each neighborhood".
        """
        unknown, nothing = np.full(outputs, np.nan), np.zeros(outputs)
        certificate = Certificate(unknown, np.full(outputs, np.inf), nothing, nothing, nothing, EPS)
        return cls(function, certificate, LOCAL, solver, 0, 0, 0.0, (), span, source=source)

    def plot(self, axes: Any = None) -> Any:
        """Plot the gap and the objective over time, for each solver of a race.

        Parameters
        ----------
        axes : sequence of two Axes, optional
            The axes to draw on; new ones by default.

        Returns
        -------
        HistoryDisplay
            The display (`rkhs.plotting`).
        """
        import rkhs  # plots are an application

        return rkhs.plotting.HistoryDisplay.from_solution(self, axes=axes)

    @property
    def posterior(self) -> Posterior:
        """The posterior distribution of f given the data, if all losses are squared.

        An `rkhs.results.Posterior` with the methods `mean(L)`, `std(L)`, `cov(L, M)` and `sample(L, n)` for any
        functionals L and M.

        Examples
        --------
        >>> import rkhs
        >>> term = rkhs.Term(rkhs.Evaluation([[0.0], [1.0]]), rkhs.Squared(), target=[0.0, 1.0], weight=1e4)
        >>> posterior = rkhs.Problem(rkhs.Gaussian(), [term]).solve().posterior
        >>> near, far = posterior.std(rkhs.Evaluation([[1.0], [5.0]]))
        >>> bool(near < far)
        True
        """
        if self.source is None:
            raise ValueError(
                "A posterior needs all losses to be Squared, and a null space that is kept; in a span, a problem that "
                "was solved alone, not in a grid. For other losses use errors on held-out rows: problem.leave_out(), "
                "or problem.grid(.., held_out=..)."
            )
        return self.source.posterior(self)

    @property
    def primal(self) -> float:
        """The objective J(f)."""
        return float(self.certificate.primal.sum())

    @property
    def dual(self) -> float:
        """A lower bound on the minimum of J."""
        return float(self.certificate.dual.sum())

    @property
    def gap(self) -> float:
        """The duality gap primal - dual: J(f) exceeds its minimum by at most this."""
        return self.certificate.gap

    @property
    def relative_gap(self) -> float:
        """The largest duality gap of any output relative to its J."""
        return self.certificate.relative

    def __repr__(self) -> str:
        if self.status == LOCAL:
            return f"Solution({self.status}, {self.span}; the gap of the whole is not bounded)"
        rank, size = self.basis_rank or (0, 0)
        rounding = f" (rounding leaves {self.certificate.uncertain:.0e})" if self.status == Status.ROUNDING else ""
        violated = "".join(
            f"term {k} violated by up to {largest:.2g} (a hundredth with {factor:.1g} times its weight), "
            for k, (largest, factor) in self.violations.items()
        )
        return (
            f"Solution({self.status}: J = {self.primal:.6g}, relative gap {self.relative_gap:.1e}{rounding}"
            f"{f' in the span of {self.span}' if self.span else ''}, "
            f"{f'{rank} of {size} basis functions independent, ' if rank < size else ''}"
            f"{violated}{self.solver}, {self.iterations} iterations, {self.products} products, {self.seconds:.2f} s)"
        )


def with_hidden_functions(certificate: Certificate, status: Status, hidden: int) -> tuple[Certificate, Status]:
    """Return the certificate and status if rounding hides some functions, with which J might be smaller.

    The only lower bound of the minimum is then zero.
    """
    if hidden:
        certificate = replace(certificate, gaps=certificate.primal)
        if status == CONVERGED and certificate.relative > 0:
            status = Status.HIDDEN
    return certificate, status
