"""Tuning of hyperparameters by Newton's method on their logarithms, from several starting points.

The data determine the starting point and the bounds, so that units do not matter.  A length scale starts at the median
distance of the points, and one for each feature at the median distance of standardized points times the standard
deviation of the feature.  The factor of a kernel starts where its values have size one, and the weight of a term where
the variance of the noise is a hundredth of that of the functionals under the kernel.  Bounds are multiples of these.

All starts use a small sample of the functionals.  The search continues from their best result with ever larger ones, up
to a maximal number, or with all functionals in the subspace of landmarks, since the optimum of a small sample may be
poor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, nan
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Matrix, check_choice, check_count, check_number, unique_rows
from rkhs._core.calculus.function_spaces import FunctionSpace
from rkhs._core.finite.monitor import Monitor, OutOfIterations, Stopped
from rkhs._core.finite.representers import RepresenterTerms
from rkhs._core.finite.solution import CONVERGED, INTERRUPTED, Record
from rkhs._core.finite.term import Term
from rkhs._core.gram.operator import gram
from rkhs._core.learning.evidence import (
    ConvexProblem,
    Hyperparameter,
    Observations,
    check_squared,
    log_evidence,
    space_log_evidence,
)
from rkhs._core.learning.leave_one_out import informative_rows, log_left_out
from rkhs._core.limits import limits
from rkhs._core.progress import interrupted
from rkhs.kernels._base import Kernel, Tunable
from rkhs.kernels._scaled import median_scale
from rkhs.spaces._base import FiniteSpace

CRITERIA = ("evidence", "loo")
OUT_OF_ITERATIONS = str(OutOfIterations())

SAMPLE = 500  # functionals, or points, from which the size of a kernel is estimated
NOISE = 1e-2  # variance of the noise at the start, in units of that of the functionals under the kernel
BOUNDS = {  # multiples of the start; (1e-2, 1e3) for all others
    "factor": (1e-5, 1e5),
    "weight": (1e-5, 1e10),  # noise between 1e3 and 1e-12 of the variance: below, rounding would be fitted
}
LEAST, EACH, GROWTH = 150, 15, 2.5  # points of the first sample, for each setting, and from a sample to the next
DAMPING, FLAT, STEP = 0.3, 0.01, 1.0  # of Newton's method: at the start, at least, and the largest change of theta
FAR = 1.0  # gain of a step up to which estimates from slopes are better than the average information

# Maps theta to the criterion, its gradient and, where it is known, its curvature.
Criterion = Callable[[Matrix], tuple[float, Matrix, Matrix | None]]


@dataclass(frozen=True, eq=False)
class Tuning:
    """The result of a search for hyperparameters; the attribute `tuning` of the problem that `Problem.tune` returns.

    Parameters
    ----------
    criterion : str
        "evidence" or "loo".
    value : float
        The log evidence, or the sum over terms of -n/2 log of the mean squared leave-one-out residual.
    parameters : dict of str to float
        The hyperparameters by name, such as "kernel.scale".
    at_bounds : tuple of str
        The names of hyperparameters that are at the bounds of their range.
    functionals : tuple of (int, int)
        The number of functionals that were used, and their total number.
    evaluations : int
        The number of evaluations of the criterion.
    seconds : float
        The duration of the search.
    status : str
        "converged", or the reason why the search stopped early with the best hyperparameters so far.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(9 * X[:, 0]), weight=100.0)
    >>> problem = rkhs.Problem(rkhs.Gaussian(scale=rkhs.Tunable()), [term]).tune()
    >>> problem.tuning.status
    'converged'
    """

    criterion: str
    value: float
    parameters: dict[str, float]
    at_bounds: tuple[str, ...]
    functionals: tuple[int, int]
    evaluations: int
    seconds: float
    status: str

    def __repr__(self) -> str:
        used, total = self.functionals
        sample = "" if used == total else f", on {used} of {total} functionals"
        bounds = f", at their bounds: {', '.join(self.at_bounds)}" if self.at_bounds else ""
        return (
            f"Tuning({self.status}: {self.criterion} {self.value:.6g}{sample}, {len(self.parameters)} settings"
            f"{bounds}, {self.evaluations} evaluations, {self.seconds:.2f} s)"
        )


def tuned(
    problem: ConvexProblem,
    criterion: str,
    starts: int,
    prior: float | None,
    amplitude: float | None,
    functionals: int,
    time_limit: float | None,
    iterations: int,
    random_state: Any,
    verbose: bool,
    choose: Callable[[Kernel, tuple[Term, ...]], FiniteSpace],
) -> tuple[Kernel, tuple[Term, ...], Tuning]:
    """Return the tuned kernel and terms; `Problem.tune` documents the parameters.

    `choose` returns the space of the approximation for a kernel and terms.
    """
    check_choice(criterion, "criterion", *CRITERIA)
    for name, count, least in (("starts", starts, 1), ("functionals", functionals, 2), ("iterations", iterations, 1)):
        check_count(count, name, least)
    for name, number in (("prior", prior), ("amplitude", amplitude)):
        if number is not None:
            check_number(number, f"{name} (unless it is None)")
    check_squared(problem, "Tuning")
    check_open(problem)
    random, monitor = np.random.default_rng(random_state), TuningMonitor(0.0, time_limit, verbose=verbose)
    complete = _complete(problem, functionals, random)
    observations = complete.sample(functionals, random)
    space = SearchSpace.of(problem.kernel, problem.terms, observations, prior, random_state)
    # 1. All starts, by a sample that suffices for this number of settings; then by ever larger ones.
    samples, each = [observations], observations.size / len(np.unique(observations.point_labels))
    first = min(limits().tuned_functionals, int(max(LEAST, EACH * len(space.hyperparameters)) * each))
    while samples[0].size > GROWTH * first:
        samples.insert(0, samples[0].sample(max(first, int(samples[0].size / GROWTH)), random))
    stages = [(one.size, criterion_of(space, one, criterion, amplitude)) for one in samples]
    # 2. From the best of their ends, by all functionals in the span of landmarks.
    in_space = problem.approximation if criterion == "evidence" else None
    if in_space is not None and in_space.has_gradients and not in_space.contains([t.functional for t in problem.terms]):
        evaluate = criterion_of(space, complete, criterion, amplitude, choose, problem.full_basis)
        stages = [*(stages[:-1] or stages), (complete.size, evaluate)]
    search = HyperparameterSearch(stages, space, monitor, iterations)
    status = "nothing to learn from: the basis explains the targets"
    if len(samples[0].informative) and (criterion != "loo" or informative_rows(samples[0])):
        status = search.run(starts, random)
    theta, (low, high) = search.best, space.bounds.T
    at_bounds = np.flatnonzero((theta <= low + 1e-6) | (theta >= high - 1e-6)).tolist()
    tuning = Tuning(
        criterion,
        search.value,
        {h.name: float(np.exp(log)) for h, log in zip(space.hyperparameters, theta, strict=True)},
        tuple(space.hyperparameters[i].name for i in at_bounds),
        (search.used, sum(term.size for term in problem.terms)),
        len(monitor.history),
        monitor.seconds,
        status,
    )
    kernel, tuned_terms, _ = space.at(theta)
    return kernel, tuned_terms, tuning


def check_open(problem: ConvexProblem) -> None:
    """Raise an error if no hyperparameter is open."""
    numbers = [*problem.kernel.parameters().values(), *(term.weight for term in problem.terms)]
    if not any(isinstance(number, Tunable) for number in numbers):
        raise ValueError(
            f"Nothing is left open to tune in {problem.kernel!r} and the weights of the terms: mark hyperparameters by "
            "rkhs.Tunable(), as in rkhs.Gaussian(scale=rkhs.Tunable())."
        )


def _complete(problem: ConvexProblem, functionals: int, random: np.random.Generator) -> Observations:
    """Return all observations, or those that an approximation samples; open weights are one."""
    terms = [t.changed(weight=_weight(1.0, t.weight)) if isinstance(t.weight, Tunable) else t for t in problem.terms]
    approximation = problem.approximation
    sampled = terms if approximation is None else approximation.tuning_sample(terms, functionals, random)
    return Observations.of(RepresenterTerms.of(problem.kernel, sampled, problem.basis))


def _weight(value: float, marked: Tunable) -> Any:
    return value if marked.shares is None else value * marked.shares


@dataclass(frozen=True, eq=False)
class SearchSpace:
    """The hyperparameters of a kernel and terms, whose logarithms are theta (p,), with bounds and a prior.

    The prior shrinks the scales of the features of one kernel towards each other: theta minus its start is normal
    around the mean over the features, with the standard deviation `prior`.
    """

    kernel: Kernel
    terms: Sequence[Term]
    hyperparameters: Sequence[Hyperparameter]
    prior: float | None

    @classmethod
    def of(
        cls, kernel: Kernel, terms: Sequence[Term], observations: Observations, prior: float | None, seed: Any
    ) -> SearchSpace:
        """Return the search space with starts and bounds that suit the observations."""
        random = np.random.default_rng(seed)
        parts = observations.functionals.parts
        points = unique_rows(np.concatenate([np.asarray(part.atoms.points) for part in parts]))[0]
        points = points if len(points) <= 1000 else random.choice(points, 1000, False)
        kernel, hyperparameters = initialized(kernel, points)
        order = list(kernel.parameters())
        hyperparameters.sort(key=lambda h: order.index(str(h.parameter)))
        tunable = {k: term.weight for k, term in enumerate(terms) if isinstance(term.weight, Tunable)}
        variances = _variances(kernel, observations, random) if tunable else {}
        for k, marker in tunable.items():
            # noise 1 / (2w) = NOISE * variance of the functionals
            unit = 1 / (2 * variances.get(k, 1.0))
            hyperparameters.append(_hyperparameter(marker, unit / NOISE, "weight", term=k))
        return cls(kernel, terms, hyperparameters, prior)

    @cached_property
    def start(self) -> Matrix:
        return np.log([h.start for h in self.hyperparameters])

    @cached_property
    def bounds(self) -> Matrix:
        """The lower and upper bounds of theta, (p, 2)."""
        return np.log([(h.low, h.high) for h in self.hyperparameters])

    def clipped(self, theta: Matrix) -> Matrix:
        return np.clip(theta, *self.bounds.T)

    def penalty(self, theta: Matrix) -> tuple[float, Matrix, Matrix]:
        """Return the negative log prior density of theta, its gradient, and a bound of its curvature."""
        total, gradient, curvature = 0.0, np.zeros_like(theta), np.zeros((len(theta), len(theta)))
        families = [h.parameter if h.feature is not None else "" for h in self.hyperparameters]
        for name in dict.fromkeys(families) if self.prior is not None else ():
            if name:
                members = np.array([other == name for other in families])
                # |d - mean d|^2 / (2 prior^2), d = theta - start
                deviation = (theta - self.start)[members]
                deviation = (deviation - deviation.mean()) / self.prior
                total += float(deviation @ deviation) / 2
                gradient[members] = deviation / self.prior
                curvature += np.diag(members / (self.prior or inf) ** 2)  # without that of the mean
        return total, gradient, curvature

    def at(self, theta: Matrix) -> tuple[Kernel, tuple[Term, ...], Matrix]:
        """Return the kernel and the terms at theta, and the value of the weight of each term, 1 if it is fixed."""
        parameters: dict[str, Any] = {}
        terms, weights = list(self.terms), np.ones(len(self.terms))
        for h, value in zip(self.hyperparameters, np.exp(theta).tolist(), strict=True):
            if h.term is not None:
                weights[h.term] = value
                terms[h.term] = terms[h.term].changed(weight=_weight(value, terms[h.term].weight))
            elif h.parameter is not None:
                parameters[h.parameter] = value if h.feature is None else (*parameters.get(h.parameter, ()), value)
        return self.kernel.with_parameters(parameters), tuple(terms), weights


def _hyperparameter(marker: Tunable, start: float, kind: str, **which: Any) -> Hyperparameter:
    """Return a hyperparameter with the start and range of the user, or else those suggested by the data."""
    start = marker.start if isinstance(marker.start, float) else start
    low, high = (
        factor * start if limit is None else limit
        for factor, limit in zip(BOUNDS.get(kind, (1e-2, 1e3)), (marker.low, marker.high), strict=True)
    )
    return Hyperparameter(**which, start=float(np.clip(start, low, high)), low=low, high=high)


def initialized(kernel: Kernel, X: Matrix) -> tuple[Kernel, list[Hyperparameter]]:
    """Return the kernel with starting values for its tunable parameters, and these hyperparameters; X are points."""
    hyperparameters: list[Hyperparameter] = []
    for path, child in kernel.children().items():
        filled, inner = initialized(child, kernel.seen(X))
        kernel = kernel.with_parameters({f"{path}.{name}": value for name, value in filled.parameters().items()})
        hyperparameters += [replace(h, parameter=f"{path}.{h.parameter}") for h in inner]
    for name in kernel.positive:
        marker = getattr(kernel, name)
        if isinstance(marker, Tunable):
            new = [
                _hyperparameter(marker, start, name, parameter=name, feature=j if marker.each else None)
                for j, start in enumerate(_starts(kernel, name, marker, X))
            ]
            kernel = kernel.with_parameters({name: tuple(h.start for h in new) if marker.each else new[0].start})
            hyperparameters += new
    return kernel, hyperparameters


def _starts(kernel: Any, name: str, marker: Tunable, X: Matrix) -> list[float]:
    """Return the starting values that the data suggest for a parameter: one number, or one for each feature."""
    if marker.each and name != "scale":
        raise ValueError(f"{kernel!r} has a single {name}: drop each=True, which is for length scales.")
    if name == "factor":
        # factor = 1 / mean |k(x_i, x_j)|
        size = float(np.mean(np.abs(kernel.kernel(X[:SAMPLE]))))
        return [1 / size if size > 0 else 1.0]
    if name != "scale":
        return [1.0]
    if marker.start is None and len(unique_rows(X)[0]) < 2:
        raise ValueError(
            f"The scale of {kernel!r} cannot be tuned, because all functionals are at one point: pass the scale as a "
            "number, or a start, as in rkhs.Tunable(start=1.0)."
        )
    distance = getattr(kernel, "distance", "euclidean")
    if not marker.each:
        return [marker.start if isinstance(marker.start, float) else median_scale(X, distance=distance)]
    if isinstance(marker.start, tuple):
        if len(marker.start) != X.shape[1]:
            raise ValueError(f"{marker!r} has {len(marker.start)} starts, and the points have {X.shape[1]} features.")
        return list(marker.start)
    spread = np.std(X, axis=0)
    spread = np.where(spread > 0, spread, np.mean(spread) if np.any(spread) else 1.0)
    return (spread if marker.start is not None else spread * median_scale(X / spread, distance=distance)).tolist()


def _variances(kernel: Kernel, observations: Observations, random: np.random.Generator) -> dict[int, float]:
    """Return the mean prior variance of the functionals of each term times their relative weights.

    The null space is projected out.  Slopes in features of different units have variances and weights of different
    sizes, so that the mean of the products differs from the product of the means.
    """
    variances = {}
    for k in np.unique(observations.term).tolist():
        rows = np.flatnonzero(observations.term == k)
        rows = rows if len(rows) <= SAMPLE else np.sort(random.choice(rows, SAMPLE, replace=False))
        G, U = gram(kernel, observations.functionals.take(rows)).in_double(), np.zeros((len(rows), 0))
        if kernel.order:
            U = np.linalg.qr(observations.Q[rows])[0]
        # mean of w_i [(1 - UU') G (1 - UU')]_ii
        G -= U @ (U.T @ G)
        G -= (G @ U) @ U.T
        variance = float(np.mean(observations.weight[rows] * np.diag(G)))
        variances[k] = variance if variance > 0 else 1.0
    return variances


def criterion_of(
    space: SearchSpace,
    observations: Observations,
    criterion: str,
    amplitude: float | None = None,
    choose: Callable[[Kernel, tuple[Term, ...]], FiniteSpace] | None = None,
    basis: FunctionSpace | None = None,
) -> Criterion:
    """Return the criterion as a function of theta.

    With `choose` it is the evidence in a subspace of landmarks, which are chosen once, at the first theta.
    """
    chosen: FiniteSpace | None = None

    def evaluate(theta: Matrix) -> tuple[float, Matrix, Matrix | None]:
        nonlocal chosen
        kernel, terms, weights = space.at(theta)
        weight = observations.weight * weights[observations.term]
        requested = space.hyperparameters
        if criterion == "loo":
            return *log_left_out(observations, kernel, weight, requested), None
        if choose is None:
            value, _, gradient, curvature = log_evidence(observations, kernel, weight, requested, amplitude)
            return value, gradient, curvature
        chosen = chosen or choose(kernel, terms)
        with_kernel = replace(chosen, kernel=kernel)
        value, _, gradient = space_log_evidence(with_kernel, basis, terms, observations, weight, requested, amplitude)
        return value, gradient, None

    return evaluate


@dataclass
class TuningMonitor(Monitor):
    """Progress of a search for hyperparameters."""

    def line(self, record: Record) -> str:
        return f"tuning: evaluation {record.iteration}, {record.seconds:.0f} s, best {-record.primal:.6g}"


@dataclass
class HyperparameterSearch:
    """Newton's method by one criterion after the other, which keeps the best theta of the last one."""

    stages: Sequence[tuple[int, Criterion]]  # numbers of functionals, and criteria
    space: SearchSpace
    monitor: Monitor
    iterations: int = 200  # limit for each start
    value: float = nan  # the criterion at `best`
    objective: float = inf  # the negative criterion plus the penalty at `best`
    slowest: float = 0.0  # seconds of the slowest evaluation

    def __post_init__(self) -> None:
        self.best = self.space.start
        self.used, self.criterion = self.count, _ = self.stages[0]  # those of `best`, and of the current stage

    def run(self, starts: int, random: np.random.Generator) -> str:
        """Search from the start and from random points near the best one, then from the best one; return the status."""
        try:
            for stage, criterion in enumerate(self.stages):
                (self.count, self.criterion), self.objective = criterion, inf
                converged = self._descend(self.best)
                for _ in range(0 if stage else starts - 1):
                    step, moved = np.empty_like(self.best), self.best - self.space.start
                    step[np.argsort(moved)] = random.normal(size=len(step))  # the order of features does not matter
                    converged &= self._descend(self.space.clipped(self.best + step))
        except Stopped as stop:
            return str(stop)
        except KeyboardInterrupt:
            if np.isnan(self.value):  # there is nothing to return
                raise
            interrupted()
            return INTERRUPTED
        finally:
            self.monitor.close()
        return CONVERGED if converged else OUT_OF_ITERATIONS

    def _descend(self, theta: Matrix) -> bool:
        """Run a damped Newton's method from theta; return whether it ended within the limit of iterations.

        It ends where no step is expected to gain what matters.  Where the curvature is not known, it is estimated from
        slopes (BFGS).
        """
        value, slope, curvature = self._objective(theta)
        H = np.eye(len(theta)) * np.abs(slope).max(initial=1.0) if curvature is None else curvature
        (low, high), damping = self.space.bounds.T, DAMPING
        for _ in range(self.iterations):
            free = ~(((theta <= low) & (slope > 0)) | ((theta >= high) & (slope < 0)))
            fall = 0.0
            while not fall > 0:
                # (H + damping (diag(H) + I)) step = -slope  (Levenberg and Marquardt)
                damped, step = H + np.diag(damping * (np.diag(H) + 1) + FLAT), np.zeros_like(theta)
                step[free] = np.linalg.solve(damped[np.ix_(free, free)], -slope[free])
                step = self.space.clipped(theta + np.clip(step, -STEP, STEP)) - theta
                change = H @ step
                gain = -float(slope @ step + step @ change / 2)
                if abs(gain) <= limits().tuning_gain * self.count:
                    return True
                moved = self._objective(theta + step)
                fall, y = value - moved[0], moved[1] - slope
                damping *= 4.0 if not fall >= 0.25 * gain > 0 else 0.2 if fall > 0.75 * gain else 1.0
                if (bend := float(y @ step)) > 0:
                    H = H + np.outer(y, y) / bend - np.outer(change, change) / (step @ change)
            theta, value, slope = theta + step, moved[0], moved[1]
            H = moved[2] if moved[2] is not None and fall > FAR else H
        return False

    def _objective(self, theta: Matrix) -> tuple[float, Matrix, Matrix | None]:
        """Return the negative criterion plus the penalty, its gradient and, where it is known, its curvature."""
        before = self.monitor.seconds
        self.monitor.check(self.slowest)
        with self.monitor.showing("tuning: an evaluation"):
            value, gradient, curvature = self.criterion(theta)
        penalty, penalty_gradient, penalty_curvature = self.space.penalty(theta)
        objective = penalty - value
        if objective < self.objective:
            self.best, self.objective, self.value, self.used = theta, objective, value, self.count
        self.slowest = max(self.slowest, self.monitor.seconds - before)
        self.monitor.report(None, -self.value, inf)
        total = None if curvature is None else curvature + penalty_curvature
        return objective, penalty_gradient - gradient, total
