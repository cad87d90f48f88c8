"""Hyperparameters that were left open, found from the data by L-BFGS on their logarithms, from several starts.

The data say where a search begins and how far it may go, so that units do not matter.  A scale begins at the median
distance of the points; one for each feature at the median distance of points in units of their standard deviations,
times these; the factor of a kernel where its values are of size one; the weight of a term where the noise is a
hundredth of the variance that the kernel gives its functionals.  Bounds are multiples of these.

All starts are on a small sample.  The search goes on from the best that they find there, with all functionals that may
be used at once, or with all in the subspace of landmarks: the best for few may be poor for all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, nan
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # which imports scipy.optimize when it is first used

from rkhs._backend.arrays import Matrix
from rkhs._finite.monitor import Monitor, OutOfIterations, Stopped
from rkhs._finite.representers import RepresenterProblem
from rkhs._finite.solution import CONVERGED, INTERRUPTED, Record
from rkhs._finite.term import Term
from rkhs._gram.operator import gram
from rkhs._learning.evidence import log_evidence, subspace_log_evidence
from rkhs._learning.leave_one_out import informative_rows, log_left_out
from rkhs._learning.observations import Hyperparameter, Observations, check_squared
from rkhs._progress import interrupted
from rkhs._spaces import Landmarks, LandmarkSpace
from rkhs.kernels._base import Kernel, Tunable
from rkhs.kernels._scaled import median_scale

if TYPE_CHECKING:
    from rkhs._problem.problem import Problem
    from rkhs._problem.subspace import SubspaceProblem

CRITERIA = ("evidence", "loo")
OUT_OF_ITERATIONS = str(OutOfIterations())

TOLERANCE = 1e-5  # per functional, the least increase of the criterion in an iteration
FIRST = 1000  # functionals of the sample on which all starts are
SAMPLE = 500  # functionals, or points, from which the size of a kernel is estimated
NOISE = 1e-2  # variance of the noise at the start, in units of that of the functionals under the kernel
BOUNDS = {  # multiples of the start; (1e-2, 1e3) for all others
    "factor": (1e-5, 1e5),
    "weight": (1e-5, 1e10),  # noise between 1e3 and 1e-12 of the variance: below, rounding would be taken for signal
}
FACTORS = (0.5, 1.0, 2.0, 4.0)  # on all scales together, tried first
NOISE_FACTORS = (1.0, 1e-2, 1e-4)  # and on all noise

# The criterion at theta, and its gradient if the second argument asks for it.
Criterion = Callable[[Matrix, bool], tuple[float, Matrix]]


@dataclass(frozen=True, eq=False)
class Tuning:
    """What `Problem.tune` found.

    `value` is the criterion: the log evidence, or minus n/2 log of the mean squared leave-one-out residual, summed over
    terms.  `at_bounds` names settings that ran away as far as they may.  `functionals` is how many were looked at, and
    how many there are.  `status` is "converged", or says what stopped the search: the settings are the best so far.

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
        seen, all_of_them = self.functionals
        some = "" if seen == all_of_them else f", on {seen} of {all_of_them} functionals"
        bounds = f", at their bounds: {', '.join(self.at_bounds)}" if self.at_bounds else ""
        return (
            f"Tuning({self.status}: {self.criterion} {self.value:.6g}{some}, {len(self.parameters)} settings{bounds}, "
            f"{self.evaluations} evaluations, {self.seconds:.2f} s)"
        )


def tuned_problem(
    problem: Problem,
    criterion: str,
    starts: int,
    prior: float | None,
    amplitude: float | None,
    functionals: int,
    time_limit: float | None,
    iterations: int,
    random_state: Any,
    verbose: bool,
) -> Problem:
    """Tune a problem as `Problem.tune` does."""
    if criterion not in CRITERIA:
        raise ValueError(f'criterion must be "evidence" or "loo", got {criterion!r}.')
    for name, count, least in (("starts", starts, 1), ("functionals", functionals, 2), ("iterations", iterations, 1)):
        if not isinstance(count, int) or isinstance(count, bool) or count < least:
            raise ValueError(f"{name} must be a whole number of at least {least}, got {count!r}.")
    if prior is not None and not (isinstance(prior, Real) and 0 < float(prior) < np.inf):
        raise ValueError(f"prior is a positive standard deviation, or None, got {prior!r}.")
    if amplitude is not None and not (isinstance(amplitude, Real) and 0 < float(amplitude) < np.inf):
        raise ValueError(f"amplitude is a positive number, or None for the best one, got {amplitude!r}.")
    check_squared(problem, "Tuning")
    numbers = [*problem.kernel.parameters().values(), *(term.weight for term in problem.terms)]
    if not any(isinstance(number, Tunable) for number in numbers):
        raise ValueError(
            f"Nothing is left open in {problem.kernel!r} and the weights of its terms: mark what is to be found with "
            "rkhs.Tunable(), as in rkhs.Gaussian(scale=rkhs.Tunable())."
        )
    random, monitor = np.random.default_rng(random_state), TuningMonitor(0.0, time_limit, verbose=verbose)
    shares = [t.changed(weight=_weight(1.0, t.weight)) if isinstance(t.weight, Tunable) else t for t in problem.terms]
    every = Observations.of(RepresenterProblem.of(problem.kernel, shares, problem.basis))
    observations = every.sample(functionals, random)
    space = SearchSpace.of(problem.kernel, problem.terms, observations, prior, random_state)
    few = observations.sample(FIRST, random)
    stages = [(few.size, criterion_of(space, few, criterion, amplitude))]
    landmarks = problem.approximation if criterion == "evidence" else None

    def choose(kernel: Kernel, terms: tuple[Term, ...]) -> SubspaceProblem:
        assert landmarks is not None
        return replace(problem, kernel=kernel, terms=terms)._on_span(landmarks)

    if isinstance(landmarks, Landmarks) and not replace(choose(*space.at(space.start)[:2]), device=None).whole:
        stages.append((every.size, criterion_of(space, every, criterion, amplitude, choose)))
    elif few.size < observations.size:
        stages.append((observations.size, criterion_of(space, observations, criterion, amplitude)))
    theta, value, seen, status = space.start, nan, few.size, CONVERGED
    if not len(few.informative) or (criterion == "loo" and not informative_rows(few)):
        status = "nothing to learn from: the targets are those of the basis alone"
    ends: list[Matrix] = []
    for stage, (count, own) in enumerate(stages):
        if status in (CONVERGED, OUT_OF_ITERATIONS):
            search = HyperparameterSearch(own, count, space, monitor, iterations)
            status = search.run(1 if stage else starts, random, ends)
            if search.best is not None:
                theta, value, seen = search.best, search.value, count
            ends = search.ends or [theta]
    low, high = space.bounds.T
    at_bounds = np.flatnonzero((theta <= low + 1e-6) | (theta >= high - 1e-6)).tolist()
    tuning = Tuning(
        criterion,
        value,
        {h.name: float(np.exp(log)) for h, log in zip(space.hyperparameters, theta, strict=True)},
        tuple(space.hyperparameters[i].name for i in at_bounds),
        (seen, every.size),
        len(monitor.history),
        monitor.seconds,
        status,
    )
    kernel, terms, _ = space.at(theta)
    return replace(problem, kernel=kernel, terms=terms, tuning=tuning)


def _weight(value: float, marked: Tunable) -> Any:
    return value if marked.shares is None else value * marked.shares


@dataclass(frozen=True, eq=False)
class SearchSpace:
    """A kernel and terms with numbers for their open hyperparameters, whose logarithms are theta (p,).

    A prior draws the scales of the features of one kernel together: theta minus its start is normal around their mean,
    with the standard deviation `prior`.
    """

    kernel: Kernel
    terms: Sequence[Term]
    hyperparameters: Sequence[Hyperparameter]
    prior: float | None

    @classmethod
    def of(
        cls, kernel: Kernel, terms: Sequence[Term], observations: Observations, prior: float | None, seed: Any
    ) -> SearchSpace:
        """Return the space around starts that suit the observations."""
        random = np.random.default_rng(seed)
        parts = observations.functionals.parts
        points = np.unique(np.concatenate([np.asarray(part.atoms.points) for part in parts]), axis=0)
        kernel, found = _initialized(kernel, points if len(points) <= 1000 else random.choice(points, 1000, False))
        order = list(kernel.parameters())
        found.sort(key=lambda h: order.index(str(h.parameter)))
        open_terms = {k: term.weight for k, term in enumerate(terms) if isinstance(term.weight, Tunable)}
        sizes = _variances(kernel, observations, random) if open_terms else {}
        for k, marked in open_terms.items():
            mean = float(np.mean(observations.weight[observations.term == k]))
            unit = 1 / (2 * sizes.get(k, 1.0) * mean)
            found.append(_hyperparameter(marked, unit / NOISE, "weight", term=k))
        return cls(kernel, terms, found, prior)

    @cached_property
    def start(self) -> Matrix:
        return np.log([h.start for h in self.hyperparameters])

    @cached_property
    def bounds(self) -> Matrix:
        """(p, 2)."""
        return np.log([(h.low, h.high) for h in self.hyperparameters])

    def clipped(self, theta: Matrix) -> Matrix:
        """Return theta within its bounds."""
        return np.clip(theta, *self.bounds.T)

    def penalty(self, theta: Matrix) -> tuple[float, Matrix]:
        """Return minus the logarithm of the prior, and its gradient."""
        total, gradient = 0.0, np.zeros_like(theta)
        families = [h.parameter if h.feature is not None else "" for h in self.hyperparameters]
        for name in dict.fromkeys(families) if self.prior is not None else ():
            if name:
                own = np.array([other == name for other in families])
                away = (theta - self.start)[own]
                away = (away - away.mean()) / self.prior
                total += float(away @ away) / 2
                gradient[own] = away / self.prior
        return total, gradient

    def candidates(self) -> list[Matrix]:
        """Return points that are tried first: the start, times common factors where the user has not given it."""
        free = [(i, h.parameter) for i, h in enumerate(self.hyperparameters) if not h.given]
        scales = [i for i, parameter in free if parameter is not None and parameter.endswith("scale")]
        noise = [i for i, parameter in free if parameter is None]
        found = []
        for wider in FACTORS if scales else (1.0,):
            for cleaner in NOISE_FACTORS if noise else (1.0,):
                theta = self.start.copy()
                theta[scales] += np.log(wider)
                theta[noise] -= np.log(cleaner)
                found.append(self.clipped(theta))
        return found

    def at(self, theta: Matrix) -> tuple[Kernel, tuple[Term, ...], Matrix]:
        """Return the kernel and the terms at theta, and for each term the value of its weight, 1 if it is not open."""
        parameters: dict[str, Any] = {}
        terms, weights = list(self.terms), np.ones(len(self.terms))
        for h, value in zip(self.hyperparameters, np.exp(theta).tolist(), strict=True):
            if h.term is not None:
                weights[h.term] = value
                terms[h.term] = terms[h.term].changed(weight=_weight(value, terms[h.term].weight))
            elif h.parameter is not None:
                parameters[h.parameter] = value if h.feature is None else (*parameters.get(h.parameter, ()), value)
        return self.kernel.with_parameters(parameters), tuple(terms), weights


def _hyperparameter(marked: Tunable, start: float, kind: str, **what: Any) -> Hyperparameter:
    """Return a hyperparameter with the range that the user has given, else with that which the data suggest."""
    given, start = marked.start is not None, marked.start or start
    low, high = (
        factor * start if own is None else own
        for factor, own in zip(BOUNDS.get(kind, (1e-2, 1e3)), (marked.low, marked.high), strict=True)
    )
    return Hyperparameter(**what, start=float(np.clip(start, low, high)), low=low, high=high, given=given)


def _initialized(kernel: Kernel, X: Matrix) -> tuple[Kernel, list[Hyperparameter]]:
    """Return the kernel with numbers where it was open, and these hyperparameters; X are its points."""
    found: list[Hyperparameter] = []
    for place, child in kernel.children().items():
        filled, inside = _initialized(child, kernel.seen(X))
        kernel = kernel.with_parameters({f"{place}.{name}": value for name, value in filled.parameters().items()})
        found += [replace(h, parameter=f"{place}.{h.parameter}") for h in inside]
    for name in kernel.positive:
        marked = getattr(kernel, name)
        if isinstance(marked, Tunable):
            starts = _starts(kernel, name, marked, X)
            own = [
                _hyperparameter(marked, start, name, parameter=name, feature=j if marked.each else None)
                for j, start in enumerate(starts)
            ]
            kernel = kernel.with_parameters({name: tuple(h.start for h in own) if marked.each else own[0].start})
            found += own
    return kernel, found


def _starts(kernel: Any, name: str, marked: Tunable, X: Matrix) -> list[float]:
    """Return where the data suggest to begin: one number, or one for each feature."""
    if marked.each and name != "scale":
        raise ValueError(f"{kernel!r} has one {name}: leave each=True out, which is for scales.")
    if name == "factor":
        size = float(np.mean(np.abs(kernel.kernel(X[:SAMPLE]))))
        return [1 / size if size > 0 else 1.0]
    if name != "scale":
        return [1.0]
    if marked.start is None and len(np.unique(X, axis=0)) < 2:
        raise ValueError(
            f"{kernel!r} is to find its scale, and all functionals are at one point, which says nothing about it: give "
            "the scale as a number, or a start, as in rkhs.Tunable(start=1.0)."
        )
    if not marked.each:
        return [marked.start or median_scale(X, distance=kernel.distance)]
    spread = np.std(X, axis=0)
    spread = np.where(spread > 0, spread, np.mean(spread) if np.any(spread) else 1.0)
    return (
        spread if marked.start is not None else spread * median_scale(X / spread, distance=kernel.distance)
    ).tolist()


def _variances(kernel: Kernel, observations: Observations, random: np.random.Generator) -> dict[int, float]:
    """Return the mean variance of the functionals of each term under the kernel, the basis taken out."""
    found = {}
    for k in np.unique(observations.term).tolist():
        rows = np.flatnonzero(observations.term == k)
        rows = rows if len(rows) <= SAMPLE else np.sort(random.choice(rows, SAMPLE, replace=False))
        G, U = gram(kernel, observations.functionals.take(rows)).in_double(), np.zeros((len(rows), 0))
        if kernel.order:
            U = np.linalg.qr(observations.Q[rows])[0]
        G -= U @ (U.T @ G)
        G -= (G @ U) @ U.T
        size = float(np.mean(np.diag(G)))
        found[k] = size if size > 0 else 1.0
    return found


def criterion_of(
    space: SearchSpace,
    observations: Observations,
    criterion: str,
    amplitude: float | None = None,
    choose: Callable[[Kernel, tuple[Term, ...]], SubspaceProblem] | None = None,
) -> Criterion:
    """Return the criterion of observations.

    With `choose` it is the evidence in a subspace of landmarks, which are chosen at the first theta.
    """
    subspace: SubspaceProblem | None = None

    def value(theta: Matrix, slope: bool) -> tuple[float, Matrix]:
        nonlocal subspace
        kernel, terms, weights = space.at(theta)
        weight, asked = observations.weight * weights[observations.term], space.hyperparameters if slope else None
        if criterion == "loo":
            return log_left_out(observations, kernel, weight, asked)
        if choose is None:
            found, _, gradient = log_evidence(observations, kernel, weight, asked, amplitude)
            return found, gradient
        subspace = subspace or choose(kernel, terms)
        assert isinstance(subspace.space, LandmarkSpace)
        where = replace(subspace.space, kernel=kernel), subspace.full_basis
        found, _, gradient = subspace_log_evidence(*where, terms, observations, weight, asked, amplitude)
        return found, gradient

    return value


@dataclass
class TuningMonitor(Monitor):
    """Shows evaluations of a criterion."""

    def line(self, record: Record) -> str:
        return f"tuning: evaluation {record.iteration}, {record.seconds:.0f} s, best {-record.primal:.6g}"


@dataclass
class HyperparameterSearch:
    """L-BFGS from several points, which keeps the best theta that was ever evaluated."""

    criterion: Criterion
    count: int  # of functionals
    space: SearchSpace
    monitor: Monitor
    iterations: int = 200  # of one start
    best: Matrix | None = None
    value: float = -inf  # of the criterion, at the best
    objective: float = inf  # minus that, plus the penalty
    slowest: float = 0.0  # seconds of an evaluation
    ends: list[Matrix] = field(default_factory=list)  # where starts have led to

    def run(self, starts: int, random: np.random.Generator, begin: Sequence[Matrix] = ()) -> str:
        """Search from the best of some points, then from others near the best so far; return the status."""
        points = list(begin) or self.space.candidates()
        try:
            first = points[0]
            if len(points) > 1:
                first = min(points, key=lambda theta: self._objective(theta, slope=False)[0])
            done = self._descend(first)
            for _ in range(starts - 1):
                assert self.best is not None
                done &= self._descend(self.space.clipped(self.best + random.normal(size=len(self.best))))
        except Stopped as stop:
            return str(stop)
        except KeyboardInterrupt:
            if self.best is None and not begin:  # there is nothing to return
                raise
            interrupted()
            return INTERRUPTED
        finally:
            self.monitor.close()
        return CONVERGED if done else OUT_OF_ITERATIONS

    def _descend(self, theta: Matrix) -> bool:
        """Run L-BFGS from a point; return whether it ended within the limit of iterations."""
        origin: float | None = None  # the units of targets add a constant, which must not decide when to stop

        def objective(theta: Matrix) -> tuple[float, Matrix]:
            nonlocal origin
            value, gradient = self._objective(theta)
            origin = value if origin is None else origin
            return (value - origin) / self.count, gradient / self.count

        found = scipy.optimize.minimize(
            objective,
            theta,
            jac=True,
            method="L-BFGS-B",
            bounds=self.space.bounds,
            # Where landmarks are nearly dependent, rounding ends line searches: longer ones find nothing.
            options={"maxiter": self.iterations, "ftol": TOLERANCE, "gtol": TOLERANCE, "maxls": 8},
        )
        self.ends.append(np.asarray(found.x))
        return int(found.nit) < self.iterations

    def _objective(self, theta: Matrix, slope: bool = True) -> tuple[float, Matrix]:
        """Return minus the criterion plus the penalty, and its gradient."""
        before = self.monitor.seconds
        self.monitor.check(self.slowest)
        with self.monitor.showing("tuning: an evaluation"):
            value, gradient = self.criterion(theta, slope)
        penalty, more = self.space.penalty(theta)
        objective = penalty - value
        if objective < self.objective:
            self.best, self.objective, self.value = theta.copy(), objective, value
        self.slowest = max(self.slowest, self.monitor.seconds - before)
        self.monitor.report(None, -self.value, inf)
        return objective, (more - gradient if slope else more)
