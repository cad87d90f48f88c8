"""Problems whose rows come in blocks: a sample of the rows, the sums of their terms, products with them.

*Sampling.*  The sample is uniform, and does not depend on where blocks are read: each row draws a random key, seeded by
the seed and the index of its block, and the rows with the smallest keys are kept.  Rows of two kinds (with and without
a label) are sampled separately, so that a few labels among many rows are not lost.

*Lazy rows.*  The rows E of losses that are not quadratic are read again whenever they are needed: one number per row is
stored instead of p.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Matrix, Vector
from rkhs._core.calculus.function_spaces import FunctionSpace
from rkhs._core.finite.features import FeatureTerms
from rkhs._core.finite.monitor import CHOICE, SUMMING, Monitor
from rkhs._core.finite.normal_equations import QuadraticSums
from rkhs._core.finite.operators import OperatorTerms, with_missing_variance
from rkhs._core.finite.representers import outputs_of
from rkhs._core.finite.solution import Solution
from rkhs._core.finite.sums import FeatureSums, KeptRows, Rows
from rkhs._core.finite.term import Term
from rkhs._core.learning.tuning import Tuning
from rkhs._core.problem.problem import Problem
from rkhs._core.problem.spaces import SpaceSolution, chosen_space, full_basis, solution_of, solve_weightings
from rkhs.exceptions import BlockError
from rkhs.kernels._base import Kernel, Tunable
from rkhs.spaces._base import Approximation, FiniteSpace, Orthonormal
from rkhs.streams._blocks import Block, Blocks, LocalBlocks, naming_block, replayed, row_weights, total_weights

TermsOf = Callable[[Block], Sequence[Term]]
RowTask = Callable[[Rows, Any], Any]
SAMPLING = "looking at rows"  # the progress message of the first pass


@dataclass(frozen=True, eq=False)
class Plan:
    """The functions in which f is sought, and the terms of a block."""

    space: FiniteSpace
    basis: FunctionSpace | None
    terms: Any  # a function of a block, `TermsOf`; that of an estimator has its settings, too
    outputs: int | None
    functions: Orthonormal | None = None  # the functions for the sums; None for those of the space

    def features(self, block: Block, only: int | None = None) -> FeatureSums:
        """Return the sums of a block, of all terms or of the term `only`, whose rows are then all kept."""
        terms = list(self.terms(block))
        selected = terms if only is None else terms[only : only + 1]
        with naming_block(block.index, "cannot be summed up"):
            limit = None if only is None else inf
            return FeatureSums.of(self.space, self.basis, selected, self.outputs, self.functions, limit=limit)

    def quadratic_sums(self, block: Block, _: Any = None) -> QuadraticSums:
        """Return the sums of a block on a Fourier grid."""
        found = OperatorTerms.of(self.space, self.basis, list(self.terms(block)), self.outputs)
        for one in found.blocks:
            if not one.loss.quadratic:
                raise ValueError(
                    f"A FourierGrid adds up squared losses over blocks, and one is {one.loss!r}: use arrays, or "
                    "rkhs.Landmarks."
                )
        problem = self.space.outside_of_box([functional for functional, _ in found.rows])
        if problem is not None:
            raise BlockError(block.index, problem)
        pairs = zip(found.rows, found.blocks, strict=True)
        weights = [with_missing_variance(self.space, rows, t.weight) for rows, t in pairs]
        return QuadraticSums.of(self.space, found.rows, weights, [t.target for t in found.blocks])


@dataclass(frozen=True, eq=False)
class Extent:
    """The corners of the box of all points; `+` joins two boxes."""

    low: Vector
    high: Vector

    @classmethod
    def of(cls, block: Block) -> Extent:
        """Return the box of the points of a block."""
        return cls(np.min(block.X, axis=0), np.max(block.X, axis=0))

    def __add__(self, other: Extent) -> Extent:
        return Extent(np.minimum(self.low, other.low), np.maximum(self.high, other.high))


@dataclass(frozen=True, eq=False)
class SampleSpec:
    """The parameters of a sample: `size` rows of each kind, and facts to add up over blocks (`describe`)."""

    size: int
    seed: int
    kind: Callable[[Block], Vector] | None = None  # returns a mask of the rows of the first kind
    describe: Callable[[Block], Any] | None = None


@dataclass(frozen=True, eq=False)
class Reservoir:
    """A sample of rows of two kinds, those of a mask and the others, and the total weight of all rows of each kind."""

    size: int  # maximal number of rows of each kind
    rows: dict[str, Vector]  # their keys, X, weight and kind, 0 for rows of the mask and 1 for others, and y if given
    totals: Vector  # (2,), the weights of all rows of each kind
    facts: Any

    def smallest(self, size: int) -> Reservoir:
        """Return the rows of each kind with the smallest keys."""
        order = np.argsort(self.rows["keys"], kind="stable")
        return self._take(np.concatenate([order[self.rows["kind"][order] == kind][:size] for kind in (0, 1)]))

    def _take(self, chosen: Vector) -> Reservoir:
        return replace(self, rows={name: column[chosen] for name, column in self.rows.items()})

    def __add__(self, other: Reservoir) -> Reservoir:
        joined = {name: np.concatenate([self.rows[name], other.rows[name]]) for name in self.rows if name in other.rows}
        facts = None if self.facts is None else self.facts + other.facts
        return replace(self, rows=joined, totals=self.totals + other.totals, facts=facts).smallest(self.size)

    def block(self) -> Block:
        """Return the sample as a block whose weights are scaled to those of all rows."""
        kind, weight = self.rows["kind"], self.rows["weight"]
        sums = np.bincount(kind, weights=weight, minlength=2)
        factors = self.totals / np.where(sums > 0, sums, 1.0)
        return Block(-1, self.rows["X"], self.rows.get("y"), weight * factors[kind])

    def of_kind(self, kind: int) -> Block:
        """Return the rows of one kind as a block with their original weights."""
        rows = self._take(self.rows["kind"] == kind).rows
        return Block(-1, rows["X"], rows.get("y"), rows["weight"])


def sample(wanted: SampleSpec, block: Block, _: Any = None) -> Reservoir:
    """Return the sample of one block."""
    mask = np.zeros(len(block.X), dtype=bool) if wanted.kind is None else wanted.kind(block)
    rows = {"X": block.X, "weight": row_weights(block), "kind": np.where(mask, 0, 1)}
    rows["keys"] = np.random.default_rng([wanted.seed, block.index]).random(len(block.X))
    if block.y is not None:
        rows["y"] = block.y
    facts = None if wanted.describe is None else wanted.describe(block)
    return Reservoir(wanted.size, rows, total_weights(block, mask), facts).smallest(wanted.size)


@dataclass(frozen=True, eq=False)
class LazyRows:
    """The matrix E (t, m) of one term with the operations that Newton's method needs.

    These are E @ theta, E.T @ v, E.T @ (h * E) and E[:, columns].
    """

    blocks: Blocks
    plan: Plan
    term: int
    matrix: Vector  # (p, m), the map from the functions of the plan to the columns
    counts: list[int]  # rows of each block
    h: Vector | None = None  # the weights h of the rows in h * E
    transposed: bool = False
    __array_ufunc__ = None  # NumPy must leave `h * E` to __rmul__

    def __len__(self) -> int:
        return sum(self.counts)

    def __getitem__(self, key: tuple[slice, slice]) -> LazyRows:
        return replace(self, matrix=self.matrix[:, key[1]])

    @property
    def T(self) -> LazyRows:
        return replace(self, transposed=True)

    def __rmul__(self, column: Vector) -> LazyRows:
        return replace(self, h=column[:, 0])

    def __matmul__(self, other: Vector | LazyRows) -> Vector:
        if not self.transposed:
            v = self.matrix @ other
            parts = self.blocks.map(_with_rows, (self.plan, self.term, lambda rows, _: rows.E @ v))
            return np.concatenate([part for part in parts if part is not None])
        if isinstance(other, LazyRows):
            square = self._sum(lambda rows, h: rows.E.T @ (h[:, None] * rows.E), other.h)
            return np.asarray(self.matrix.T @ square @ self.matrix)
        return np.asarray(self.matrix.T @ self._sum(lambda rows, v: rows.E.T @ v, other))

    def _sum(self, task: RowTask, column: Any) -> Matrix:
        """Return the sum of task(rows, part) over all blocks, with the parts of a column (t,) for each of them."""
        parts = np.split(column, np.cumsum(self.counts)[:-1])
        return self.blocks.reduce(_with_rows, (self.plan, self.term, task), parts)


def lazy_images(blocks: Blocks, plan: Plan) -> Any:
    """Return a function (term, matrix) -> (E, targets, weights) that reads rows again; None for a single use."""
    if not blocks.replays:
        return None

    def images(term: int, matrix: Vector) -> tuple[LazyRows, Vector, Vector]:
        parts = blocks.map(_with_rows, (plan, term, lambda rows, _: (rows.target, rows.weight)))
        rows = LazyRows(blocks, plan, term, matrix, [0 if part is None else len(part[0]) for part in parts])
        target, weight = zip(*(part for part in parts if part is not None), strict=True)
        return rows, np.concatenate(target), np.concatenate(weight)

    return images


def _with_rows(shared: tuple[Plan, int, RowTask], block: Block, argument: Any) -> Any:
    """Return function(rows, argument) for the rows of one term in one block; None if there are none."""
    plan, term, function = shared
    kept = plan.features(block, only=term).blocks[0]
    assert isinstance(kept, KeptRows)
    return function(kept.joined(), argument) if kept.tiles else None


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
            approximation, block = self._sampled(look, learn, monitor)
            with monitor.showing(CHOICE):
                terms = list(self.terms(block))
                plan = planned(self.kernel, self.terms, terms, self.basis, approximation, self.device)
            if plan.space.stored:
                return solution_of(solve_stream(learn, plan, monitor), approximation, monitor)
            sums = with_progress(learn, monitor, SUMMING).reduce(Plan.quadratic_sums, plan)
            found = OperatorTerms(plan.space, plan.basis, plan.outputs, (), (), sums)
            *_, (_, solved) = solve_weightings(lambda _: found, [None], monitor, inf)
            return solution_of(solved, approximation, monitor, posterior=False)

    def _sampled(self, look: Blocks, learn: Blocks, monitor: Monitor) -> tuple[Approximation, Block]:
        """Return the approximation, which knows the extent of the points if it has to, and rows to choose a space by.

        That takes a pass over the rows, unless a space that is used by products needs no extent.
        """
        approximation = self.approximation
        if not approximation.sample_size and isinstance(look, LocalBlocks):
            return approximation, next(iter(look))
        if approximation.needs_extent and not learn.replays:
            raise ValueError(
                "A FourierGrid must know the extent of rows that can be read only once: pass "
                "rkhs.FourierGrid(box=(lower, upper)), the corners of a box that contains all points."
            )
        spec = SampleSpec(approximation.sample_size or 1, 0, describe=Extent.of if approximation.needs_extent else None)
        reservoir = with_progress(look, monitor, SAMPLING).reduce(sample, spec)
        if approximation.needs_extent:
            approximation = approximation.in_box(reservoir.facts.low, reservoir.facts.high)
        return approximation, reservoir.block()

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
        reservoir = look.reduce(sample, SampleSpec(self.approximation.sample_size or 5000, seed=0))
        terms = list(self.terms(reservoir.of_kind(1)))  # without a mask all rows are of kind 1
        problem = Problem(self.kernel, terms, self.basis, approximation=self.approximation, device=self.device)
        tuned = problem.tune(criterion, **options)
        assert tuned.tuning is not None
        weighted = partial(_with_weights, self.terms, tuned.tuning.parameters)
        return replace(self, kernel=tuned.kernel, terms=weighted, blocks=learn, tuning=tuned.tuning)


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


def solve_stream(blocks: Blocks, plan: Plan, monitor: Monitor) -> SpaceSolution:
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
