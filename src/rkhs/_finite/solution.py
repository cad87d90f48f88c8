"""Solutions of problems: the function, its certificate, and the history of the solver."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from rkhs._finite.certificate import CONVERGED, Certificate
from rkhs._finite.posterior import Posterior

__all__ = ["CONVERGED", "INTERRUPTED", "TIME_LIMIT", "Record", "Solution", "with_hidden_functions"]
INTERRUPTED = "interrupted"
TIME_LIMIT = "time limit"


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
    """

    iteration: int
    products: int
    seconds: float
    primal: float
    gap: float


@dataclass(frozen=True, eq=False)
class Solution:
    """The solution of a problem, with a certificate of its distance from the minimum.

    Attributes
    ----------
    function : Function
        The minimizer; a `FeatureFunction` for approximations by features.
    certificate : Certificate
        The duality gap with bounds on its rounding errors.
    status : str
        "converged" if the relative duality gap is within the tolerance.  Otherwise the reason for which the solver
        stopped: an iteration or time limit, an interruption, or no further progress.  "rounding leaves 3e-06" means
        that rounding errors may hide a gap of this size, relative to J.  "rounding hides 3 of 15 basis functions" (or
        functions of a span) means that f does not use functions which are linearly dependent on the others up to
        rounding.  J might be smaller with them, so that the lower bound is 0.
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
    status: str
    solver: str
    iterations: int
    products: int
    seconds: float
    history: tuple[Record, ...] = field(repr=False)
    span: str | None = None
    basis_rank: tuple[int, int] | None = None
    source: Any = field(default=None, repr=False)

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
        rank, size = self.basis_rank or (0, 0)
        return (
            f"Solution({self.status}: J = {self.primal:.6g}, relative gap {self.relative_gap:.1e}"
            f"{f' in the span of {self.span}' if self.span else ''}, "
            f"{f'{rank} of {size} basis functions independent, ' if rank < size else ''}"
            f"{self.solver}, {self.iterations} iterations, {self.products} products, {self.seconds:.2f} s)"
        )


def with_hidden_functions(
    certificate: Certificate, status: str, hidden: int, size: int, functions: str
) -> tuple[Certificate, str]:
    """Return the certificate and status if rounding hides some of `size` functions, with which J might be smaller.

    The only lower bound of the minimum is then zero.
    """
    if hidden:
        certificate = replace(certificate, gaps=certificate.primal)
        if status == CONVERGED and certificate.relative > 0:
            status = f"rounding hides {hidden} of {size} {functions}"
    return certificate, status
