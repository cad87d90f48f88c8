"""Problems in finite-dimensional spaces: the choice of a space, its terms, and solutions for one or many weightings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import EPS, Matrix, placed
from rkhs._core.calculus.function_spaces import FunctionSpace
from rkhs._core.finite.basis import joined
from rkhs._core.finite.certificate import NOTHING, Certificate, Status, certify
from rkhs._core.finite.features import FeatureTerms
from rkhs._core.finite.function import function_in
from rkhs._core.finite.monitor import Monitor, Stopped
from rkhs._core.finite.operators import OperatorTerms
from rkhs._core.finite.problem import FiniteProblem, Iterate, LossBlock
from rkhs._core.finite.representers import block_in_double, outputs_of
from rkhs._core.finite.solution import CONVERGED, Record, Solution, with_hidden_functions
from rkhs._core.finite.sums import FeatureSums
from rkhs._core.finite.term import Term
from rkhs._core.gram.blocks import check_bounded
from rkhs.functionals._base import centered
from rkhs.kernels._base import Kernel
from rkhs.losses._blocks import BlockLoss
from rkhs.solvers._choose import auto
from rkhs.solvers._conditioned import PosteriorSource
from rkhs.spaces import Approximation, FiniteSpace, LandmarkSpace
from rkhs.spaces._base import Orthonormal

SpaceTerms = FeatureTerms | OperatorTerms


def full_basis(
    kernel: Kernel, terms: Sequence[Term], basis: FunctionSpace | None, dropped: bool = False
) -> FunctionSpace | None:
    """Return the basis and, unless it is `dropped`, the kernel's null space, in coordinates centered on the points."""
    return centered(basis if dropped else joined(basis, kernel.null_space), [term.functional for term in terms])


def chosen_space(
    kernel: Kernel, terms: Sequence[Term], basis: FunctionSpace | None, approximation: Approximation, device: str | None
) -> FiniteSpace:
    """Return the space that an approximation chooses for terms and a full basis, on a device."""
    families, outputs = [term.functional for term in terms], outputs_of(terms)
    for family in families:
        check_bounded(kernel, family)

    def preliminary_fit(space: FiniteSpace, most: int, random: np.random.Generator) -> Any:
        """Return an f in a space from at most `most` functionals of each term, with smoothed losses."""
        found = terms_in(space, basis, [_sampled(term, most, random) for term in terms], outputs)
        system, monitor = found.weighted(), Monitor(1.0)
        return _function(found, _solved(system, system.start(), monitor), several=True)

    space = approximation.choose(kernel, families, preliminary_fit)
    if not isinstance(space, FiniteSpace):
        raise TypeError(f"{approximation!r} must choose an rkhs.extend.FiniteSpace, got {space!r}.")
    if device not in (None, "cpu"):
        space.require_stored(
            f"A {type(approximation).__name__} is computed on the CPU, and device is {device!r}: leave `device` out, "
            "or use rkhs.Landmarks."
        )
    prototype = None if device is None else placed(space.prototype, device, "float64")
    return space if prototype is None else space.like(prototype)


def _sampled(term: Term, most: int, random: np.random.Generator) -> Term:
    """Return a term of at most `most` functionals with the same total weight, and with a smooth loss."""
    loss = term.loss if term.loss.smooth else term.loss.smoothed(1.0)
    if term.size <= most:
        return term.changed(loss=loss)
    m = (loss.size if isinstance(loss, BlockLoss) else None) or 1  # whole vectors of losses of vectors
    vectors = np.sort(random.choice(term.size // m, max(most // m, 1), replace=False))
    rows = (m * vectors[:, None] + np.arange(m)).reshape(-1)
    taken = term.take(rows)
    return replace(taken, loss=loss, weight=taken.weight * (term.size / len(rows)))


def terms_in(
    space: FiniteSpace,
    basis: FunctionSpace | None,
    terms: Sequence[Term],
    outputs: int | None,
    functions: Orthonormal | None = None,
    shares: Mapping[int, Matrix] | None = None,
) -> SpaceTerms:
    """Return terms in a space; `functions` are for sums, and `shares` have the groups of rows that folds leave out."""
    if space.stored:
        return FeatureTerms(FeatureSums.of(space, basis, terms, outputs, functions, shares=shares))
    return OperatorTerms.of(space, basis, terms, outputs, shares)


@dataclass(frozen=True, eq=False)
class SpaceSolution:
    """A problem in a space for one weighting, with its solution and certificate."""

    terms: SpaceTerms
    system: FiniteProblem
    iterate: Iterate
    certificate: Certificate
    history: tuple[Record, ...]


def solve_weightings(
    terms_of: Callable[[Orthonormal | None], SpaceTerms],
    weightings: Sequence[Sequence[Any] | None],
    monitor: Monitor,
    rows: float,
    folds: int = 1,
) -> Iterator[tuple[int, SpaceSolution]]:
    """Solve a problem for several weightings, from small to large weights, with warm starts within each fold.

    Weightings whose certificate shows that sums are not accurate enough are solved again with sums in orthonormal
    functions.

    Parameters
    ----------
    terms_of : callable
        Returns the terms in the space, with sums in orthonormal functions if these are given.
    weightings : sequence
        For each weighting a factor on the weights of each term, or one for each group of rows; None for all ones.
    monitor : Monitor
        The tolerance, the limits and the progress.
    rows : float
        The number of rows; infinity if they cannot be read again.
    folds : int, default=1
        The number of consecutive weightings that differ only in their folds.

    Yields
    ------
    tuple
        The index of a weighting, and its solution; one that is stopped has its current iterate if there is one.
    """
    todo = sorted(range(len(weightings)), key=lambda k: sum(float(np.max(factor)) for factor in weightings[k] or ()))
    terms = terms_of(None)
    while True:
        starts: dict[int, Iterate] = {}
        inaccurate, slowest = [], 0.0
        for k in todo:
            monitor.check(slowest)
            before, fold, monitor.best = monitor.seconds, k % folds, None
            system, first = terms.weighted(weightings[k]), len(monitor.history)
            try:
                iterate = _solved(system, starts.get(fold) or system.start(), monitor)
            except (Stopped, KeyboardInterrupt):
                if monitor.best is not None:
                    yield k, _solution(terms, system, monitor.best, monitor, first)
                raise
            found = _solution(terms, system, iterate, monitor, first)
            certificate = found.certificate
            yield k, found
            starts[fold], slowest = iterate, max(slowest, monitor.seconds - before)
            if not certificate.within(monitor.tol):
                inaccurate.append(k)
            if len(weightings) > 1:
                monitor.report(None, float(np.sum(certificate.primal)), certificate.relative)
        if not inaccurate or not terms.may_gain_digits(rows):
            return
        terms, todo = terms_of(terms.functions), inaccurate


def _solved(system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
    """Solve a finite problem in a space to the tolerance of a monitor."""
    return monitor.follow(auto(system).steps(system, start, monitor.tol, monitor))


def _solution(
    terms: SpaceTerms, system: FiniteProblem, iterate: Iterate, monitor: Monitor, first: int
) -> SpaceSolution:
    """Return an iterate with its certificate, and with the history of the monitor from the record `first` on.

    More accurate products are used if they decide whether it is within the tolerance.
    """
    certificate = certify(system, iterate, monitor.tol)
    finer = system.geometry.finer
    if finer is not None and not certificate.within(monitor.tol):
        certificate = certify(FiniteProblem(finer, system.terms, system.outputs), iterate, monitor.tol)
    return SpaceSolution(terms, system, iterate, certificate, tuple(monitor.history[first:]))


def _function(terms: SpaceTerms, iterate: Iterate, several: bool) -> Any:
    """Return the function of an iterate, with an axis of outputs if there are `several`."""
    outputs: Any = slice(None) if several else 0
    tau, c = terms.coefficients(iterate)
    return function_in(terms.space, tau[:, outputs], terms.basis, None if terms.basis is None else c[:, outputs])


def solution_of(
    solved: SpaceSolution,
    approximation: Approximation,
    monitor: Monitor,
    status: Status = CONVERGED,
    posterior: bool = True,
) -> Solution:
    """Return a solution in a space as a function with its certificate within the space.

    With `posterior` it has a posterior if all losses are squared.
    """
    terms = solved.terms
    certificate = solved.certificate
    # inf J >= 0, which is more than the bound of a dual point that is far from feasible
    certificate = replace(certificate, gaps=np.minimum(certificate.gaps, np.maximum(certificate.primal, 0)))
    status = certificate.status(monitor.tol, status)
    certificate, status = with_hidden_functions(certificate, status, terms.hidden)
    source = PosteriorSource(terms.covariance(solved.system)) if posterior and terms.quadratic else None
    name, history = type(approximation).__name__, solved.history
    return Solution(
        _function(terms, solved.iterate, terms.outputs is not None),
        certificate,
        status,
        name,
        len(history) or 1,
        0,
        monitor.seconds,
        history,
        f"{name}: {terms.summary}",
        source=source,
    )


def zero_solution(
    kernel: Kernel,
    terms: Sequence[Term],
    basis: FunctionSpace | None,
    space: FiniteSpace | None,
    factors: Sequence[Any],
    approximation: Approximation,
    seconds: float,
    status: Status,
) -> Solution:
    """Return the solution f = 0 with its certificate, for factors on the weights of terms or of their rows.

    The lower bound of J is 0.
    """
    outputs = outputs_of(terms)
    columns = () if outputs is None else (outputs,)
    space = LandmarkSpace(kernel, terms[0].functional.take([0])) if space is None else space
    coefficients = None if basis is None else np.zeros((basis.size(space.dimension), *columns))
    function = function_in(space, np.zeros((space.size, *columns)), basis, coefficients)
    value = np.zeros(columns or 1)
    for t, factor in zip(loss_blocks(terms), factors, strict=True):
        losses = t.weight * np.reshape(factor, (-1, 1)) * t.loss.value(0 * t.target, t.target)
        value = value + np.sum(losses, axis=0)
    zero = np.zeros_like(value)
    certificate = Certificate(value, value, zero, zero, NOTHING * EPS * value, EPS)
    name = type(approximation).__name__
    return Solution(function, certificate, status, name, 0, 0, seconds, (), span=name)


def loss_blocks(terms: Sequence[Term]) -> Iterator[LossBlock]:
    """Return the losses of terms with targets and weights in float64."""
    return (block_in_double(term, outputs_of(terms)) for term in terms)
