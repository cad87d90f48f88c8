"""Settings that were left open, found from the data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import Any

import numpy as np

from rkhs._backend.arrays import Matrix
from rkhs._finite.representers import RepresenterProblem
from rkhs._finite.solution import CONVERGED
from rkhs._finite.term import Term
from rkhs.kernels.base import Kernel, Open
from rkhs.learning.evidence import log_evidence
from rkhs.learning.leave_out import asked, log_left_out
from rkhs.learning.observations import Observations
from rkhs.learning.search import ITERATIONS, OUT_OF_ITERATIONS, Criterion, Search, Space, TuningMonitor
from rkhs.learning.settings import Setting, kernel_settings
from rkhs.learning.starts import Range, points_of, sizes, started, weight_range

CRITERIA = ("evidence", "loo")
FIRST = 1000  # functionals that are looked at first
NOTHING = "nothing to learn from: the targets are those of the basis alone"


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
    >>> problem = rkhs.Problem(rkhs.Gaussian(scale=rkhs.learn()), [term]).tune()
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


@dataclass(frozen=True, eq=False)
class Model:
    """A kernel and terms, some of whose settings are open, with numbers in their places."""

    kernel: Kernel
    terms: tuple[Term, ...]
    settings: tuple[Setting, ...]
    ranges: tuple[Range, ...]

    @classmethod
    def of(cls, kernel: Kernel, terms: Sequence[Term], observations: Observations, seed: Any) -> Model:
        """At the start of a search."""
        random = np.random.default_rng(seed)
        kernel, found = started(kernel, points_of(observations.functionals, random))
        settings = kernel_settings(kernel, found)
        ranges = [own for name in kernel.parameters() for own in found.get(name, [])]
        marked = {k: term.weight for k, term in enumerate(terms) if isinstance(term.weight, Open)}
        size = sizes(kernel, observations, random) if marked else {}
        for k, weight in marked.items():
            ranges.append(weight_range(weight, observations.weight[observations.term == k], size.get(k, 1.0)))
            settings.append(Setting(term=k))
        return cls(kernel, tuple(terms), tuple(settings), tuple(ranges))

    def space(self, prior: float | None) -> Space:
        """Where to search."""
        start, low, high = (np.log([getattr(own, name) for own in self.ranges]) for name in ("start", "low", "high"))
        scales = [i for i, s in enumerate(self.settings) if s.parameter is not None and s.parameter.endswith("scale")]
        noise = [i for i, s in enumerate(self.settings) if s.parameter is None and not self.ranges[i].given]
        families: dict[str, list[int]] = {}
        for i in scales:
            if self.settings[i].feature is not None:
                families.setdefault(str(self.settings[i].parameter), []).append(i)
        free = [i for i in scales if not self.ranges[i].given]  # a start that is given is where a search begins
        return Space(start, low, high, free, noise, list(families.values()), prior)

    def kernel_at(self, theta: Matrix) -> Kernel:
        """The kernel with other numbers."""
        values: dict[str, Any] = {}
        for setting, log in zip(self.settings, theta, strict=True):
            if setting.parameter is not None:
                value = float(np.exp(log))
                each = setting.feature is not None
                values[setting.parameter] = (*values.get(setting.parameter, ()), value) if each else value
        return self.kernel.with_parameters(values)

    def weight_at(self, theta: Matrix, observations: Observations) -> Matrix:
        """The weights (N,): open ones are multiples of those of the observations."""
        weight = observations.weight.copy()
        for setting, log in zip(self.settings, theta, strict=True):
            if setting.parameter is None:
                weight[observations.term == setting.term] *= np.exp(log)
        return weight

    def terms_at(self, theta: Matrix) -> tuple[Term, ...]:
        """The terms with numbers for weights."""
        terms = list(self.terms)
        for setting, log in zip(self.settings, theta, strict=True):
            if setting.term is not None:
                weight: Any = float(np.exp(log))
                shares = terms[setting.term].weight.shares
                terms[setting.term] = terms[setting.term].changed(weight=weight if shares is None else weight * shares)
        return tuple(terms)

    def named(self, theta: Matrix) -> dict[str, float]:
        """The numbers by name."""
        return {s.name: float(np.exp(log)) for s, log in zip(self.settings, theta, strict=True)}


def closed(terms: Sequence[Term]) -> tuple[Term, ...]:
    """The terms with a weight of one, or that of their shares, in the place of open ones."""
    return tuple(
        term.changed(weight=1.0 if term.weight.shares is None else term.weight.shares)
        if isinstance(term.weight, Open)
        else term
        for term in terms
    )


def in_memory(model: Model, observations: Observations, criterion: str) -> Criterion:
    """The criterion from a factorisation of all that was observed."""

    def value(theta: Matrix, slope: bool) -> tuple[float, Matrix]:
        kernel, weight = model.kernel_at(theta), model.weight_at(theta, observations)
        settings = model.settings if slope else None
        if criterion == "loo":
            return log_left_out(observations, kernel, weight, settings)
        found, gradient = log_evidence(observations, kernel, weight, settings)
        return found.value, gradient

    return value


def sampled(observations: Observations, most: int, random: np.random.Generator) -> Observations:
    """All that was observed at some points, drawn at random, as many as fit."""
    if observations.size <= most:
        return observations
    places, counts = np.unique(observations.places, return_counts=True)
    order = random.permutation(len(places))
    kept = order[np.cumsum(counts[order]) <= most]
    chosen = places[kept if len(kept) else order[:1]]
    return observations.take(np.flatnonzero(np.isin(observations.places, chosen)))


def tuned(
    kernel: Kernel,
    terms: Sequence[Term],
    represented: RepresenterProblem,
    criterion: str,
    starts: int,
    most: int,
    prior: float | None,
    seed: Any,
    monitor: TuningMonitor,
    refined: Callable[[Model], Criterion] | None,
    iterations: int = ITERATIONS,
    amplitude: float | None = None,
) -> tuple[Kernel, tuple[Term, ...], Tuning]:
    """The kernel and the terms with numbers in the place of what is open.

    Looks, and all starts, are at a small sample.  From the best of what they find there, judged by `most` functionals
    or by the criterion of an approximation, `refined`, the search goes on with these: the best for few may be poor for
    all.
    """
    random = np.random.default_rng(seed)
    every = replace(Observations.of(represented), amplitude=amplitude)
    observations = sampled(every, most, random)
    model = Model.of(kernel, terms, observations, seed)
    space = model.space(prior)
    few = sampled(observations, FIRST, random)
    stages = [(few.size, in_memory(model, few, criterion))]
    if refined is not None:
        stages.append((every.size, refined(model)))
    elif few.size < observations.size:
        stages.append((observations.size, in_memory(model, observations, criterion)))
    known = len(few.informative) and (criterion == "evidence" or asked(few))
    theta, status, value, seen = space.start, CONVERGED if known else NOTHING, nan, few.size
    ends: list[Matrix] | None = None
    for stage, (count, own) in enumerate(stages):
        if status in (CONVERGED, OUT_OF_ITERATIONS):
            search = Search(own, count, space, monitor, iterations=iterations)
            status = search.run(starts if stage == 0 else 1, random, ends)
            if search.best is not None:
                theta, value, seen = search.best, search.value, count
            ends = search.ends or [theta]
    tuning = Tuning(
        criterion,
        value,
        model.named(theta),
        tuple(model.settings[i].name for i in space.at_bounds(theta)),
        (seen, every.size),
        len(monitor.history),
        monitor.seconds,
        status,
    )
    return model.kernel_at(theta), model.terms_at(theta), tuning
