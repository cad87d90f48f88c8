"""What a solver returns: a function, a certificate, and how it went."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from rkhs._finite.certificate import CONVERGED, Certificate

if TYPE_CHECKING:
    from rkhs._learning.posterior import Posterior, PosteriorSource

__all__ = ["CONVERGED", "INTERRUPTED", "TIME_LIMIT", "Record", "Solution", "with_hidden"]
INTERRUPTED = "interrupted"
TIME_LIMIT = "time limit"


@dataclass(frozen=True)
class Record:
    """One line of a solver's history."""

    iteration: int
    products: int
    seconds: float
    primal: float
    gap: float  # relative, as the solver saw it


@dataclass(frozen=True, eq=False)
class Solution:
    """The minimizer that was found, and how far from the true one it can be.

    `status` is "converged" when the relative gap is within the tolerance, and otherwise says what stopped the
    solver: an iteration or time limit, an interruption, or no further progress.  "rounding leaves 3e-06" is by how much
    rounding may have hidden a larger gap, relative to J; "rounding hides 3 of 15 basis functions" (or of the functions
    of a span) that f does not use functions which rounding cannot tell from others: with these J may be less, so the
    lower bound is 0.

    `span` names the functions among which an approximation looked for f.  Primal, dual and gap are then those of the
    problem in their span, and say nothing about functions outside; None is for the whole space.

    `basis_rank` is how many of the basis functions, the kernel's polynomials among them, are independent on the
    functionals, and how many there are; None without a basis, and in a span.

    Examples
    --------
    >>> import rkhs
    >>> term = rkhs.Term(rkhs.Evaluation([[0.0], [1.0]]), rkhs.Squared(), target=[0.0, 1.0])
    >>> solution = rkhs.Problem(rkhs.Gaussian(), [term]).solve()
    >>> solution.status, bool(solution.relative_gap < 1e-4), solution.function([[1.0]]).round(2)
    ('converged', True, array([0.6]))
    """

    function: Any  # a Function; a FeatureFunction of an approximation by features
    certificate: Certificate
    status: str
    solver: str
    iterations: int
    products: int
    seconds: float
    history: tuple[Record, ...] = field(repr=False)
    span: str | None = None
    basis_rank: tuple[int, int] | None = None
    source: PosteriorSource | None = field(default=None, repr=False)

    @property
    def posterior(self) -> Posterior:
        """Error bars: what is known of f around this minimizer, where all losses are squared; an `rkhs.results.Posterior`.

        `mean(L)`, `std(L)`, `cov(L, M)` and `sample(L, n)` for any functionals L, in their shape.

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
                "was solved alone, not in a grid. For other losses look at what is left out: problem.leave_out(), or "
                "problem.grid(.., held_out=..)."
            )
        return self.source.posterior(self)

    @property
    def primal(self) -> float:
        """J(f)."""
        return float(self.certificate.primal.sum())

    @property
    def dual(self) -> float:
        """A lower bound on the minimum of J."""
        return float(self.certificate.dual.sum())

    @property
    def gap(self) -> float:
        """primal - dual: J(f) is at most this far above the minimum."""
        return self.certificate.gap

    @property
    def relative_gap(self) -> float:
        return self.certificate.relative

    def __repr__(self) -> str:
        rank, size = self.basis_rank or (0, 0)
        return (
            f"Solution({self.status}: J = {self.primal:.6g}, relative gap {self.relative_gap:.1e}"
            f"{f' in the span of {self.span}' if self.span else ''}, "
            f"{f'{rank} of {size} basis functions independent, ' if rank < size else ''}"
            f"{self.solver}, {self.iterations} iterations, {self.products} products, {self.seconds:.2f} s)"
        )


def with_hidden(
    certificate: Certificate, status: str, hidden: int, size: int, functions: str
) -> tuple[Certificate, str]:
    """Return certificate and status where rounding hides some of `size` functions, with which J might be less.

    Of the minimum nothing is known then but that no J is below zero.
    """
    if hidden:
        certificate = replace(certificate, gaps=certificate.primal)
        if status == CONVERGED and certificate.relative > 0:
            status = f"rounding hides {hidden} of {size} {functions}"
    return certificate, status
