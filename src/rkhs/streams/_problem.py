"""Problems whose rows come in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any

from rkhs._calculus.function_spaces import FunctionSpace
from rkhs._finite.features import FeatureTerms
from rkhs._finite.monitor import CHOICE, SUMMING, Monitor
from rkhs._finite.operators import OperatorTerms
from rkhs._finite.representers import outputs_of
from rkhs._finite.solution import Solution
from rkhs._finite.term import Term
from rkhs._learning.tuning import Tuning
from rkhs._problem.problem import Problem
from rkhs._problem.spaces import Solved, chosen_space, full_basis, solution_of, solve_weightings
from rkhs._spaces import FourierGrid
from rkhs._spaces.base import Approximation, Orthonormal
from rkhs.kernels._base import Kernel
from rkhs.kernels._tunable import Tunable
from rkhs.streams._blocks import Block, Blocks, LocalBlocks, replayed
from rkhs.streams._plan import Extent, Plan, SampleSpec, TermsOf, lazy_images, sample

SAMPLING = "looking at rows"  # the progress message of the first pass


@dataclass(frozen=True, eq=False)
class StreamedProblem:
    """A problem whose rows come in blocks and are never all in memory.

    It is the problem of `rkhs.Problem` in which ``terms(block)`` are the terms of the rows of one block.  Every block
    must give the same list of terms; a term may have no functionals.  Landmarks are chosen from a sample of all rows,
    so the stream is read twice (once if it cannot be read again, with landmarks from its first block), and more often
    only if very many rows have a loss that is not squared.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    terms : callable
        A function that maps a `Block` to a list of `rkhs.Term`.
    blocks : Blocks
        The stream of rows.
    approximation : Approximation
        The finite-dimensional space, such as `rkhs.Landmarks(200)`; on a `rkhs.FourierGrid` squared losses are summed.
    basis : FunctionSpace, optional
        The unpenalized functions.
    device : str, optional
        The device on which sums are computed, as in `rkhs.Problem`.
    tuning : Tuning, optional
        The result of `tune`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.random.default_rng(0).standard_normal((3000, 3))
    >>> def terms(block):
    ...     return [
    ...         rkhs.Term(rkhs.Evaluation(block.X), rkhs.Squared(), target=block.y, weight=10.0),
    ...         rkhs.Term(rkhs.Gradient(block.X), rkhs.Squared(), weight=0.01),
    ...     ]
    >>> stream = rkhs.streams.blocks(X, np.sin(X[:, 0]), rows=500)
    >>> problem = rkhs.streams.StreamedProblem(rkhs.Gaussian(scale=2.0), terms, stream, rkhs.Landmarks(200))
    >>> problem.solve().status
    'converged'
    """

    kernel: Kernel
    terms: TermsOf
    blocks: Blocks
    approximation: Approximation
    basis: FunctionSpace | None = None
    device: str | None = None
    tuning: Tuning | None = None

    def solve(self, *, tol: float = 1e-6, verbose: bool = False) -> Solution:
        """Return the minimizer in the space of the approximation, with its gap certified there.

        Ctrl-C raises KeyboardInterrupt: the sums of some of the rows do not define the problem.

        Parameters
        ----------
        tol : float, default=1e-6
            The relative duality gap to reach.
        verbose : bool, default=False
            Whether to print progress to standard error.

        Returns
        -------
        Solution
            The minimizer.
        """
        look, learn = replayed(self.blocks)
        with closing(Monitor(tol, verbose=verbose)) as monitor:
            if isinstance(self.approximation, FourierGrid):
                return self._solve_on_grid(self.approximation, look, learn, monitor)
            reservoir = with_progress(look, monitor, SAMPLING).reduce(
                sample, SampleSpec(self.approximation.sample_size, seed=0)
            )
            sampled = list(self.terms(reservoir.block()))
            with monitor.showing(CHOICE):
                plan = planned(self.kernel, self.terms, sampled, self.basis, self.approximation, self.device)
            return solution_of(solve_stream(learn, plan, monitor), self.approximation, monitor)

    def _solve_on_grid(self, grid: FourierGrid, look: Blocks, learn: Blocks, monitor: Monitor) -> Solution:
        """Return the minimizer on a Fourier grid, from one pass over the rows if the box of the points is given."""
        if grid.box is not None and isinstance(look, LocalBlocks):
            block = next(iter(look))
        elif not learn.replays:
            raise ValueError(
                "A FourierGrid must know the extent of rows that can be read only once: pass "
                "rkhs.FourierGrid(box=(lower, upper)), the corners of a box that contains all points."
            )
        else:
            spec = SampleSpec(self.approximation.sample_size, seed=0, describe=Extent.of)
            reservoir = with_progress(look, monitor, SAMPLING).reduce(sample, spec)
            block = reservoir.block()
            if grid.box is None:
                grid = replace(grid, box=(reservoir.facts.low, reservoir.facts.high))
        plan = planned(self.kernel, self.terms, list(self.terms(block)), self.basis, grid, self.device)
        sums = with_progress(learn, monitor, SUMMING).reduce(Plan.quadratic_sums, plan)
        found = OperatorTerms(plan.space, plan.basis, plan.outputs, (), (), sums)
        *_, (_, solved) = solve_weightings(lambda _: found, [None], monitor, inf)
        return solution_of(solved, grid, monitor, posterior=False)

    def tune(self, criterion: str = "evidence", **options: Any) -> StreamedProblem:
        """Return the problem with values for everything that is `rkhs.Tunable()`, learned from a sample of its rows.

        It is the sample from which landmarks are chosen: 5,000 rows, or ten per landmark.  The search ends with the
        evidence of all sampled rows in the span of the landmarks.  Weights are per row, so that the values for the
        sample hold for all rows.

        Parameters
        ----------
        criterion : str, default="evidence"
            The criterion of `Problem.tune`.
        **options
            Further options of `Problem.tune`.

        Returns
        -------
        StreamedProblem
            The tuned problem.

        Examples
        --------
        >>> import numpy as np, rkhs
        >>> X = np.random.default_rng(0).uniform(size=(200, 2))
        >>> y = np.sin(6 * X[:, 1]) + 0.1 * np.random.default_rng(1).standard_normal(200)
        >>> def terms(block):
        ...     return [rkhs.Term(rkhs.Evaluation(block.X), rkhs.Squared(), target=block.y, weight=rkhs.Tunable())]
        >>> kernel, stream = rkhs.Gaussian(scale=rkhs.Tunable(each=True)), rkhs.streams.blocks(X, y, rows=100)
        >>> tuned = rkhs.streams.StreamedProblem(kernel, terms, stream, rkhs.Landmarks(30)).tune()
        >>> int(np.argmin(tuned.kernel.scale)), tuned.solve().status
        (1, 'converged')
        """
        look, learn = replayed(self.blocks)
        reservoir = look.reduce(sample, SampleSpec(self.approximation.sample_size, seed=0))
        problem = Problem(
            self.kernel,
            list(self.terms(reservoir.of_kind(1))),  # without a mask all rows are of kind 1
            self.basis,
            approximation=self.approximation,
            device=self.device,
        )
        tuned = problem.tune(criterion, **options)
        assert tuned.tuning is not None
        return replace(
            self,
            kernel=tuned.kernel,
            terms=partial(_with_weights, self.terms, tuned.tuning.parameters),
            blocks=learn,
            tuning=tuned.tuning,
        )


def _with_weights(terms: TermsOf, tuned: Mapping[str, float], block: Block) -> list[Term]:
    """Return the terms of a block with tuned weights, given by names such as "terms[1].weight"."""
    filled = []
    for k, term in enumerate(terms(block)):
        if isinstance(term.weight, Tunable):
            weight, shares = tuned[f"terms[{k}].weight"], term.weight.shares
            term = term.changed(weight=weight if shares is None else weight * shares)
        filled.append(term)
    return filled


def with_progress(blocks: Blocks, monitor: Monitor, what: str) -> Blocks:
    """Return the blocks such that a monitor shows the number of rows read, if they are read in this process."""
    if not isinstance(blocks, LocalBlocks):
        return blocks
    read_blocks = blocks.read

    def read() -> Iterator[tuple[Any, ...]]:
        rows = 0
        for part in read_blocks():
            rows += next(iter(getattr(part[0], "shape", ())), 0)  # Block.of raises an error if it is not an array
            monitor.tell(f"{what}: {rows:,} rows")
            yield part

    return replace(blocks, read=read)


def solve_stream(blocks: Blocks, plan: Plan, monitor: Monitor) -> Solved:
    """Solve the problem of all blocks; they are read again, if possible, where sums lose accuracy."""
    blocks = with_progress(blocks, monitor, SUMMING)

    def terms_of(functions: Orthonormal | None) -> FeatureTerms:
        changed = replace(plan, functions=functions)
        return FeatureTerms(blocks.reduce(Plan.features, changed), lazy_images(blocks, changed))

    *_, (_, solved) = solve_weightings(terms_of, [None], monitor, 0 if blocks.replays else inf)
    return solved


def planned(
    kernel: Kernel,
    terms: TermsOf,
    sampled: Sequence[Term],
    basis: FunctionSpace | None,
    approximation: Approximation,
    device: str | None,
) -> Plan:
    """Return the plan for all blocks, with functions chosen by the terms of a sample."""
    present = [term for term in sampled if term.size]
    full = full_basis(kernel, present, basis)
    return Plan(chosen_space(kernel, present, full, approximation, device), full, terms, outputs_of(sampled))
