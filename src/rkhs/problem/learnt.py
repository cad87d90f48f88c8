"""What a problem says about its own settings: evidence, leaving out, tuning."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np

from rkhs._backend.arrays import Matrix, like, to_numpy
from rkhs._finite.monitor import FACTOR, Monitor
from rkhs._finite.problem import FiniteProblem
from rkhs._finite.representers import RepresenterProblem
from rkhs._gram.approximation import Landmarks
from rkhs._progress import interrupts_raised
from rkhs.functionals.base import stack
from rkhs.functionals.points import places
from rkhs.kernels.base import Kernel, Open
from rkhs.learning.evidence import Evidence, Likelihood, log_evidence
from rkhs.learning.leave_out import Groups, LeftOut, left_out_amplitudes, newton_step, residuals
from rkhs.learning.observations import Observations
from rkhs.learning.search import Criterion, TuningMonitor
from rkhs.learning.settings import Setting, kernel_settings
from rkhs.learning.spanned import Spanned
from rkhs.learning.tuning import CRITERIA, Model, closed, tuned
from rkhs.problem.approximate import SpanProblem
from rkhs.solvers.dense import double

TIGHT = 1e-9  # the gap of a solution from which a step is taken
LOOSE = 1e-4  # the gap from which it is told


def check_squared(problem: Any, what: str) -> None:
    """Refuse losses that are not squared, and a null space that is dropped."""
    others = [term.loss for term in problem.terms if not term.loss.quadratic]
    if others:
        raise ValueError(
            f"{what} needs all losses to be Squared, and one is {others[0]!r}: choose its settings by "
            "problem.grid(.., held_out=..), which compares solutions on what they have not seen."
        )
    _check_kept(problem, what)


def _check_kept(problem: Any, what: str) -> None:
    if problem.null_space == "dropped":
        raise ValueError(f'{what} is known with the null space of {problem.kernel!r}: use null_space="kept".')


def evidence_of(problem: Any, gradient: bool) -> Evidence:
    """`Problem.evidence`."""
    check_squared(problem, "Evidence")
    represented = problem.represented
    observations = Observations.of(represented)
    settings = [*kernel_settings(problem.kernel), *(Setting(term=k) for k in range(len(problem.terms)))]
    if problem.approximation is None or problem._on_span(problem.approximation).whole:
        asked = settings if gradient else None
        with closing(Monitor(0.0)) as monitor, monitor.showing(FACTOR):
            found, slopes = log_evidence(observations, problem.kernel, observations.weight, asked)
    else:
        span = problem._on_span(problem.approximation)
        spanned = Spanned(span.span, span.space, problem.terms, observations)
        if gradient and not isinstance(problem.approximation, Landmarks):
            raise ValueError(
                f"Derivatives in settings are not known for {problem.approximation!r}: use rkhs.Landmarks."
            )
        found, slopes = spanned.likelihood, spanned.gradient(settings) if gradient else np.zeros(0)
    names = [setting.name for setting in settings]
    return Evidence(
        found.value,
        _amplitude(found, represented.outputs),
        dict(zip(names, slopes.tolist(), strict=True)) if gradient else None,
    )


def _amplitude(found: Likelihood, outputs: int | None) -> Any:
    tau = np.sqrt(found.squares)
    return float(tau[0]) if outputs is None else tau


def left_out_of(problem: Any, groups: Any, count: Matrix | None = None) -> LeftOut:
    """`Problem.leave_out`; functionals of the first term may stand for `count` equal ones, of which one is left out."""
    _check_kept(problem, "Leaving out")
    if problem.approximation is not None:
        raise ValueError(
            f"Leaving out is about the whole space, and the problem has approximation={problem.approximation!r}: leave "
            "that out, or use problem.grid(.., held_out=..)."
        )
    for term in problem.terms:
        if not term.loss.smooth:
            raise ValueError(
                f"Leaving out needs smooth losses, and one is {term.loss!r}: use problem.grid(.., held_out=..), or a "
                "smooth loss such as Squared, SquaredHinge or Logistic."
            )
    represented: RepresenterProblem = problem.represented
    system, exact = represented.system, all(term.loss.quadratic for term in problem.terms)
    kept = [np.flatnonzero(to_numpy(term.weights())[:, 0] > 0) for term in problem.terms]
    labels = _labels(problem.terms, groups)
    seen = Groups(np.concatenate([own[rows] for own, rows in zip(labels, kept, strict=True)]))
    times = _times(kept, count)
    with interrupts_raised():
        solution = problem.solve(tol=TIGHT)
    if solution.relative_gap > LOOSE:
        warnings.warn(f"What is left out is left out of a solution that is not exact: {solution}.", stacklevel=3)
    if exact:
        observations = Observations.of(represented)
        with closing(Monitor(0.0)) as monitor, monitor.showing(FACTOR):
            equations = observations.equations(problem.kernel, observations.weight)
        away = double(system.target) - residuals(equations, seen, times)
    else:
        away = _stepped(system, represented, solution.function, seen, times)
    predictions, left, start = [], [], 0
    for term, rows in zip(problem.terms, kept, strict=True):
        found = to_numpy(term.functional(solution.function)).astype(np.float64)  # of rows of weight zero: as it is
        flat = found.reshape(term.size, -1)
        flat[rows] = away[start : start + len(rows)]
        start += len(rows)
        predictions.append(like(found, term.functional.prototype))
        target = to_numpy(term.told)
        if represented.outputs is not None and term.target.ndim == 1:
            target = target[..., None]
        left.append(like(target - found, term.functional.prototype))
    return LeftOut(tuple(predictions), tuple(left), exact)


def _times(kept: Sequence[Matrix], count: Matrix | None) -> Matrix:
    """Return how many equal observations each functional of the finite problem stands for, (N,)."""
    ones = [np.ones(len(rows)) for rows in kept]
    return np.concatenate(ones if count is None else [count[kept[0]], *ones[1:]])


def left_out_amplitude(problem: Any, count: Matrix) -> Any:
    """Return tau of the posterior by which left-out targets of the first term have the spread that is promised.

    Each of these targets stands for `count` equal ones.
    """
    check_squared(problem, "An amplitude")
    represented: RepresenterProblem = problem.represented
    kept = [np.flatnonzero(to_numpy(term.weights())[:, 0] > 0) for term in problem.terms]
    tau = left_out_amplitudes(Observations.of(represented), problem.kernel, _times(kept, count))
    return float(tau[0]) if represented.outputs is None else tau


def _stepped(
    system: FiniteProblem, represented: RepresenterProblem, function: Any, groups: Groups, count: Matrix
) -> Matrix:
    """u after one step for each group, (N, c)."""
    iterate = represented.iterate(function)
    u = system.exact @ iterate.a + system.Q @ iterate.basis
    G, Q = system.exact.in_double(), double(system.Q)
    slope, bend, u = double(system.slope(u)), double(system.bend(u)), double(u)
    moved = [newton_step(G, Q, slope[:, c], bend[:, c], groups, count) for c in range(u.shape[1])]
    return u + np.stack(moved, axis=1)


def _labels(terms: Sequence[Any], groups: Any) -> list[Matrix]:
    """A number (size,) for the functionals of each term."""
    sizes = [term.size for term in terms]
    ends = np.cumsum(sizes)[:-1]
    if groups is None:
        return np.split(np.arange(sum(sizes)), ends)
    if isinstance(groups, str):
        if groups != "points":
            raise ValueError(f'groups must be None, "points", or labels for each term, got {groups!r}.')
        return np.split(places(stack([term.functional for term in terms])), ends)
    given = [groups] if len(terms) == 1 and len(groups) != 1 else list(groups)
    if len(given) != len(terms):
        raise ValueError(f"groups needs an array of labels for each of {len(terms)} terms, got {len(given)}.")
    for term, own in zip(terms, given, strict=True):
        if np.size(own) != term.size:
            raise ValueError(f"groups has {np.size(own)} labels for {term!r}, which has {term.size} functionals.")
    flat = np.concatenate([np.asarray(own).reshape(-1) for own in given])
    return np.split(np.unique(flat, return_inverse=True)[1].reshape(-1), ends)


def tuned_problem(
    problem: Any,
    criterion: str,
    starts: int,
    prior: float | None,
    functionals: int,
    time_limit: float | None,
    iterations: int,
    seed: Any,
    verbose: bool | None,
    amplitude: float | None = None,
) -> Any:
    """`Problem.tune`."""
    if criterion not in CRITERIA:
        raise ValueError(f'criterion must be "evidence" or "loo", got {criterion!r}.')
    for name, value, least in (("starts", starts, 1), ("functionals", functionals, 2), ("iterations", iterations, 1)):
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}.")
    if prior is not None and not (isinstance(prior, Real) and 0 < float(prior) < np.inf):
        raise ValueError(f"prior is a positive standard deviation, or None, got {prior!r}.")
    if amplitude is not None and not (isinstance(amplitude, Real) and 0 < float(amplitude) < np.inf):
        raise ValueError(f"amplitude is a positive number, or None for the best one, got {amplitude!r}.")
    check_squared(problem, "Tuning")
    _check_open(problem.kernel, problem.terms)
    terms = closed(problem.terms)
    represented = RepresenterProblem.of(problem.kernel, terms, problem.basis)
    monitor = TuningMonitor(0.0, time_limit, verbose=verbose)
    refined: Callable[[Model], Criterion] | None = None
    if isinstance(problem.approximation, Landmarks) and criterion == "evidence":
        whole = SpanProblem(problem.kernel, terms, problem.basis, problem.approximation).whole
        refined = None if whole else partial(_in_span, problem, represented, amplitude)
    kernel, terms, tuning = tuned(
        problem.kernel,
        problem.terms,
        represented,
        criterion,
        starts,
        functionals,
        prior,
        seed,
        monitor,
        refined,
        iterations,
        None if amplitude is None else float(amplitude),
    )
    return replace(problem, kernel=kernel, terms=terms, tuning=tuning)


def _check_open(kernel: Kernel, terms: Sequence[Any]) -> None:
    marked = [*kernel.parameters().values(), *(term.weight for term in terms)]
    if not any(isinstance(value, Open) for value in marked):
        raise ValueError(
            f"Nothing is left open in {kernel!r} and the weights of its terms: mark what is to be found with "
            "rkhs.learn(), as in rkhs.Gaussian(scale=rkhs.learn())."
        )


def _in_span(problem: Any, represented: RepresenterProblem, amplitude: float | None, model: Model) -> Criterion:
    """The evidence in the span of landmarks that are chosen once, at the settings with which this begins."""
    observations = replace(Observations.of(represented), amplitude=amplitude)
    chosen: list[Any] = []

    def value(theta: Matrix, slope: bool) -> tuple[float, Matrix]:
        kernel, terms = model.kernel_at(theta), model.terms_at(theta)
        if not chosen:
            chosen.append(replace(problem, kernel=kernel, terms=terms)._on_span(problem.approximation))
        span, space = chosen[0].span, chosen[0].space
        spanned = Spanned(replace(span, kernel=kernel), space, terms, observations)
        return spanned.likelihood.value, spanned.gradient(model.settings) if slope else np.zeros(0)

    return value
