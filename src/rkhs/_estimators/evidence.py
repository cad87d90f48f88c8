"""Settings of maximum evidence: maps with many points, and models that learn from measured slopes.

The evidence of the targets determines the length scales, C, and the weight of slopes (`Problem.tune`).  Kernels of
different smoothness are compared by it as well.

Maps are regressions with many points in at most three dimensions, on a Fourier grid.  Leave-one-out errors of a sample
of the rows favor kernels that are too smooth for all of them, because points of the sample are far apart.  The evidence
is therefore that of a spatial sample, part of which lies in a few neighborhoods.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from math import inf
from typing import Any

import numpy as np

from rkhs._backend.arrays import to_numpy
from rkhs._backend.threads import map_in_threads
from rkhs._estimators.cross_validation import cv_results, masked_objects
from rkhs._estimators.data import Sample
from rkhs._estimators.length_scales import as_kernel, is_learned
from rkhs._estimators.normalization import WeightNormalization
from rkhs._estimators.options import ModelConfig
from rkhs._estimators.scoring import NONE, SCALES
from rkhs._finite.solution import CONVERGED
from rkhs._finite.term import Term
from rkhs._learning.tuning import Tuning
from rkhs._problem.problem import Problem
from rkhs._progress import seconds_left
from rkhs._spaces import FourierGrid
from rkhs.kernels import Gaussian, Kernel, Matern, Multiple, Sum, Tunable
from rkhs.losses import Squared

DIMENSIONS = 3
FIRST, SAMPLE = 600, 1500  # functionals of an evaluation of the evidence, to compare kernels and for the chosen one


def can_map(dimension: int) -> bool:
    """Return whether points of a dimension can be mapped with the installed packages."""
    return dimension <= DIMENSIONS and any(find_spec(name) is not None for name in ("ducc0", "finufft"))


def with_learned_noise(config: ModelConfig, sample: Sample) -> ModelConfig:
    """Return the configuration with C, the weights of slopes and the length scales of maximum evidence.

    Length scales given as numbers, and a given weight of slopes, are kept.
    """
    if is_learned(config) and config.scale != "evidence":  # another rule, which needs C
        return config
    is_open = isinstance(config.scale, str) and config.scale in ("median", "evidence")
    kernel = as_kernel(config.kernel, Tunable(each=True) if is_open else config.scale, sample.X)
    tuned = opened(config, sample, kernel).tune(verbose=config.verbose)
    return replace(config, learns_noise=False, **settings_of(config, sample, tuned))


def opened(config: ModelConfig, sample: Sample, kernel: Kernel, approximation: Any = None) -> Problem:
    """Return the problem of squared losses of all observations, in which C and the weight of slopes are open."""
    terms = []
    for term, _ in config.observed_terms(sample.apart()):
        weight: Any = to_numpy(term.weights())[:, 0]
        if not term.functional.order or config.gradient_weight is None:
            weight = Tunable() * weight
        terms.append(Term(term.functional, Squared(), term.observed_target, weight))
    return Problem(kernel, terms, config.basis, approximation=approximation)


def settings_of(config: ModelConfig, sample: Sample, tuned: Problem) -> dict[str, Any]:
    """Return the values of C, kernel, scale and the weights of slopes (n,) that correspond to a tuned problem.

    C and the weights of slopes are those for a kernel of variance one.
    """
    found, kernel = tuning_of(tuned).parameters, tuned.kernel
    variance = WeightNormalization.at(kernel, sample.X, sample.weight).variance
    settings = {"C": config.C, "kernel": kernel, "scale": getattr(kernel, "scale", 1.0)}
    for k, term in enumerate(tuned.terms):
        factor = found.get(f"terms[{k}].weight")
        if factor is not None and term.functional.order:
            settings["gradient_weight"] = factor * variance * config.slope_weights(sample)
        elif factor is not None:
            settings["C"] = factor * variance * config.C
    return settings


def tuning_of(problem: Problem) -> Tuning:
    """Return how the hyperparameters of a tuned problem were found."""
    assert problem.tuning is not None
    return problem.tuning


def score_of(problem: Problem) -> float:
    """Return the logarithm of the evidence minus the number of learned settings, by Akaike's criterion."""
    return tuning_of(problem).value - len(tuning_of(problem).parameters)


def is_representable(problem: Problem) -> bool:
    """Return whether the kernel fits on the Fourier grid of a problem, if it has one.

    The grid of a sum of kernels has the spacing of the longest length scale and the limits of the shortest one.
    """
    if isinstance(problem.approximation, FourierGrid):
        try:
            problem.approximation.choose(problem.kernel, [term.functional for term in problem.terms])
        except MemoryError:
            return False
    return True


@dataclass(frozen=True, eq=False)
class EvidenceChoice:
    """Problems with tuned kernels of different smoothness, the one with the largest score first.

    `best` has the same kernel as the first one; for a map it is tuned with a larger sample.
    """

    config: ModelConfig
    sample: Sample
    problems: list[Problem]
    best: Problem

    @classmethod
    def of_map(cls, config: ModelConfig, sample: Sample) -> EvidenceChoice | None:
        """Compare kernels by the evidence of the values, or of a sample on a Fourier grid.

        The last candidate is a sum of two kernels of the best order with different length scales, as in the nested
        variograms of geostatistics.  Kernels that need too many frequencies for a grid are no candidates; None is
        returned if all do.
        """
        scale = Tunable(each=True)
        kernels: list[Kernel] = [*(Matern(nu, scale=scale) for nu in (0.5, 1.5, 2.5)), Gaussian(scale=scale)]
        limit = None if seconds_left() == inf else 0.5 * max(seconds_left(), 0.0) / (2 + len(kernels))
        options: dict[str, Any] = {"starts": 1, "time_limit": limit, "verbose": config.verbose}

        def tuned(kernel: Kernel, count: int) -> Problem:
            return opened(config, sample, kernel, config.approximation).tune(functionals=count, **options)

        pairs = list(zip(kernels, map_in_threads(lambda kernel: tuned(kernel, FIRST), kernels), strict=True))
        single = max(pairs, key=lambda pair: score_of(pair[1]))[0]
        nested = Sum((Multiple(Tunable(), single), single))
        pairs.append((nested, tuned(nested, FIRST)))
        pairs = [pair for pair in pairs if is_representable(pair[1])]
        if not pairs:
            return None
        pairs.sort(key=lambda pair: score_of(pair[1]), reverse=True)
        best = tuned(pairs[0][0], SAMPLE)
        problems = [problem for _, problem in pairs]
        return cls(config, sample, problems, best if is_representable(best) else problems[0])

    @classmethod
    def of_slopes(cls, config: ModelConfig, sample: Sample, kernels: Sequence[Kernel]) -> EvidenceChoice:
        """Compare kernels by the evidence of values and slopes."""
        limit = None if seconds_left() == inf else max(seconds_left(), 0.0) / len(kernels)

        def tuned(kernel: Kernel) -> Problem:
            problem = opened(config, sample, kernel, config.approximation)
            return problem.tune(time_limit=limit, verbose=config.verbose)

        problems = sorted(map_in_threads(tuned, kernels), key=score_of, reverse=True)
        return cls(config, sample, problems, problems[0])

    @property
    def status(self) -> str:
        """The status of the first search that did not converge, or "converged"."""
        return next((tuning_of(p).status for p in self.problems if tuning_of(p).status != CONVERGED), CONVERGED)

    def params(self, problem: Problem) -> dict[str, Any]:
        """Return the parameters of an estimator that correspond to a tuned problem."""
        return {**settings_of(self.config, self.sample, problem), "nu": 0.0, "invariance": None}

    def report(self) -> dict[str, Any]:
        """Return `selection_report_`."""
        used, total = tuning_of(self.problems[0]).functionals
        what = "targets" if self.sample.slopes is None else "values and slopes"
        each = self.sample.X.shape[1] > 1 and any("scale" in name for name in tuning_of(self.best).parameters)
        return {
            "sentence": (
                f"Of {len(self.problems)} kernels, {self.best.kernel!r} has the largest logarithm of the evidence "
                f"minus the number of learned settings, by {used} of {total} {what}."
            ),
            "candidates": [
                {"evidence": tuning_of(p).value, "score": score_of(p), **self.params(p)} for p in self.problems
            ],
            "chosen": {"prior": SCALES if each else NONE, **self.params(self.best)},
            "score": score_of(self.problems[0]),
        }

    def results(self, seconds: float) -> dict[str, Any]:
        """Return `cv_results_`, whose scores are those of `score_of`."""
        params = [self.params(problem) for problem in self.problems]
        columns = {name: masked_objects([values[name] for values in params]) for name in params[0]}
        scores = np.array([[score_of(problem)] for problem in self.problems])
        return cv_results(params, columns, scores, -scores[:, 0], seconds)
