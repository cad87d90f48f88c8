"""Problems whose rows come in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any

from rkhs._calculus.function_spaces import FunctionSpace
from rkhs._finite.monitor import CHOICE, SUMMING, Monitor
from rkhs._finite.representers import outputs_of
from rkhs._finite.solution import Solution
from rkhs._finite.term import Term
from rkhs._learning.tuning import Tuning
from rkhs._problem.problem import Problem
from rkhs._problem.subspace import SubspaceProblem, solution_of, solve_weightings
from rkhs._spaces.base import Approximation, Orthonormal
from rkhs.kernels._base import Kernel, Tunable
from rkhs.solvers._projected import ProjectedProblem, ProjectedSolution
from rkhs.streams._blocks import Block, Blocks, LocalBlocks, replayed
from rkhs.streams._plan import Plan, TermsOf, Wanted, lazy_images, sample

LOOKING = "looking at rows"  # what is told


@dataclass(frozen=True, eq=False)
class StreamedProblem:
    """A problem whose rows come in blocks and are never all in memory.

    The problem of `rkhs.Problem` with its rows in blocks: terms(block) are the terms of the rows of one block.

    Every block must give the same list of terms, if some with no functionals.  Landmarks are chosen from a sample of
    all rows, so the stream is read twice (once, and landmarks from the first block, if it cannot be read again); more
    often only if very many rows have a loss that is not squared.

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
    device: str | None = None  # where sums are computed, as in `rkhs.Problem`
    tuning: Tuning | None = None  # what `tune` found

    def solve(self, *, tol: float = 1e-6, verbose: bool = False) -> Solution:
        """Return the minimizer in the space of the approximation, its gap certified there.

        Ctrl-C is raised: sums of some
        rows are not those of the problem.
        """
        look, learn = replayed(self.blocks)
        with closing(Monitor(tol, verbose=verbose)) as monitor:
            seen = telling(look, monitor, LOOKING).reduce(sample, Wanted(self.approximation.sample_size, seed=0))
            sampled = list(self.terms(seen.block()))
            with monitor.showing(CHOICE):
                plan = planned(self.kernel, self.terms, sampled, self.basis, self.approximation, self.device)
            return solution_of(*solve_stream(learn, plan, monitor), self.approximation, monitor)

    def tune(self, criterion: str = "evidence", **options: Any) -> StreamedProblem:
        """Return the problem with numbers for all that was left open by `rkhs.Tunable()`, found on a sample of its rows.

        The sample is that from which landmarks are chosen, 5,000 rows or ten for each landmark.  Its problem is tuned
        as `Problem.tune` does it, with the same options; the search ends with the evidence of all sampled rows in the
        span of the landmarks.  A weight is that of each row, so what is found for some holds for all.

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
        seen = look.reduce(sample, Wanted(self.approximation.sample_size, seed=0))
        problem = Problem(
            self.kernel,
            list(self.terms(seen.of_kind(1))),  # none is marked
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


def _with_weights(terms: TermsOf, found: Mapping[str, float], block: Block) -> list[Term]:
    """Return the terms of a block with numbers for weights that were left open, by names such as "terms[1].weight"."""
    filled = []
    for k, term in enumerate(terms(block)):
        if isinstance(term.weight, Tunable):
            weight, shares = found[f"terms[{k}].weight"], term.weight.shares
            term = term.changed(weight=weight if shares is None else weight * shares)
        filled.append(term)
    return filled


def telling(blocks: Blocks, monitor: Monitor, what: str) -> Blocks:
    """Return the blocks so that a monitor shows how many rows were read, if they are read here."""
    if not isinstance(blocks, LocalBlocks):
        return blocks
    given = blocks.read

    def read() -> Iterator[tuple[Any, ...]]:
        rows = 0
        for part in given():
            rows += next(iter(getattr(part[0], "shape", ())), 0)  # what is no array is refused where it is read
            monitor.tell(f"{what}: {rows:,} rows")
            yield part

    return replace(blocks, read=read)


def solve_stream(blocks: Blocks, plan: Plan, monitor: Monitor) -> tuple[ProjectedProblem, ProjectedSolution]:
    """Solve the problem of all blocks, which are read again where sums lose digits and that is possible."""
    blocks = telling(blocks, monitor, SUMMING)

    def projected(functions: Orthonormal | None) -> ProjectedProblem:
        own = replace(plan, functions=functions)
        return ProjectedProblem(blocks.reduce(Plan.features, own), lazy_images(blocks, own))

    *_, (_, solved) = solve_weightings(projected, [None], monitor, 0 if blocks.replays else inf)
    return solved


def planned(
    kernel: Kernel,
    terms: TermsOf,
    sampled: Sequence[Term],
    basis: FunctionSpace | None,
    approximation: Approximation,
    device: str | None,
) -> Plan:
    """Return the plan for all blocks, its functions chosen by the terms of a sample."""
    problem = SubspaceProblem(kernel, [term for term in sampled if term.size], basis, approximation, device)
    return Plan(problem.space, problem.full_basis, terms, outputs_of(sampled))
