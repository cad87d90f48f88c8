"""Formulate the `Problem` of an estimator from its configuration and training points, with weights that have no units.

A priori f is a Gaussian process with covariance k: a value f(x) has the variance k(x, x), and L(f) has the variance
|L|^2, the squared norm of L in the RKHS.  With the means over the training points and over the functionals of an
invariance,

    v = mean of k(x_i, x_i),        s^2 = mean of |L_ij|^2 / v

L_ij(f) / s is typically as large as a value of f, in any units of the features.  The problem of the estimators is

    1/2 |f|^2  +  C / v  sum_i loss(f(x_i); y_i)  +  nu / v  mean_i sum_j loss(L_ij(f) / s; target / s)

The mean is over the first axis of the family, which is that of the points, or of edges; the sum is over all functionals
at one point, such as all its slopes.  The Gaussian kernel has v = 1, and its gradients have s = 1 / scale, so their
squared loss is nu scale^2 mean_i |grad f(x_i)|^2.  Multiples of the kernel, other units, duplicated features, and
repeated or additional rows do not change the meaning of C and nu.  Only this module and `normalization` convert them
to weights.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rkhs._backend.arrays import Matrix, Vector, take_rows
from rkhs._estimators.data import ClassPrior, Sample
from rkhs._estimators.evidence import with_learned_noise
from rkhs._estimators.length_scales import resolve_kernel
from rkhs._estimators.normalization import MOST_NORMS, WeightNormalization, spaced
from rkhs._estimators.options import INVARIANCE, ModelConfig, as_loss, check_number
from rkhs._finite.term import Term
from rkhs._problem import Problem
from rkhs.functionals import Evaluation, Functional, GraphDifference
from rkhs.invariances import Invariance
from rkhs.invariances._base import as_invariances, resolve_columns
from rkhs.kernels import Kernel
from rkhs.losses import Squared


@dataclass(frozen=True, eq=False)
class FormulatedProblem:
    """The problem of an estimator, with the variance and the metric that went into it."""

    problem: Problem
    variance: float  # v, by which the weights of the problem are divided
    metric: Matrix | None = None  # of the kernel, if it was learned
    formulation: Any = None  # the `Formulation`, for problems of other points with the same settings


def formulate(config: ModelConfig, sample: Sample) -> FormulatedProblem:
    """Return the problem in the module's docstring, with an unpenalized constant if there is an intercept."""
    if config.learns_noise and sample.slopes is not None:
        config = with_learned_noise(config, sample)
    kernel, metric = resolve_kernel(config, sample, lambda rows, kernel: Formulation.at(config, rows, kernel)(rows)[0])
    formulation = Formulation.at(config, sample, kernel)
    return FormulatedProblem(formulation(sample)[0], formulation.norms.variance, metric, formulation)


@dataclass(frozen=True, eq=False)
class Formulation:
    """The map from points to their problem, with the settings that the points of the first fit determine."""

    config: ModelConfig
    norms: WeightNormalization
    invariances: tuple[Invariance, ...]
    sizes: tuple[float | None, ...]  # s of each invariance; None if it depends on all points
    slope_weights: Vector | None  # of the slopes in each feature, if slopes are measured

    @classmethod
    def at(cls, config: ModelConfig, sample: Sample, kernel: Kernel) -> Formulation:
        """Determine the settings for a kernel at training points."""
        norms = WeightNormalization.at(kernel, sample.X, sample.weight)
        nu, prior = check_number(config.nu, "nu", or_zero=True), config.invariance
        if sample.slopes is not None and isinstance(prior, str) and prior == "gradient":
            prior = None  # slopes that were measured are not assumed to be small
        given = [invariance for invariance in as_invariances(prior) if invariance.shape_constraint is None]
        invariances = resolve_columns(given if nu > 0 else [], config.feature_names)
        sizes: list[float | None] = []
        for invariance in invariances:
            points = points_of(invariance, sample)
            functionals = invariance(points.X) if points.size and not invariance.once else None
            times = None if functionals is None else multiplicity(functionals, points.weight)
            sizes.append(None if functionals is None else size_of(invariance, functionals, norms, times))
        slope_weights = None if sample.slopes is None else config.slope_weights(sample)
        return cls(replace(config, nu=nu), norms, invariances, tuple(sizes), slope_weights)

    def __call__(self, sample: Sample) -> tuple[Problem, list[Vector]]:
        """Return the problem of a sample, and for each term the indices of its points."""
        config, norms = self.config, self.norms
        pairs = [(norms.observed(term), which) for term, which in config.observed_terms(sample, self.slope_weights)]
        if isinstance(config.class_weight, ClassPrior) and not np.all(sample.labeled):
            pairs.append((norms.observed(proportion_term(config, sample)), np.arange(0)))
        for invariance, size in zip(self.invariances, self.sizes, strict=True):
            which = np.flatnonzero(holds_at(invariance, sample))
            if len(which):
                term = invariance_term(invariance, sample.take(which), norms, config, size)
                pairs += [(term, which)] if term.size and np.any(np.asarray(term.weight) > 0) else []
        options = config.options
        settings = {"device": options.device, "precision": options.precision, "approximation": config.approximation}
        problem = Problem(norms.kernel, [term for term, _ in pairs], config.basis, **settings)
        return problem, [which for _, which in pairs]


def proportion_term(config: ModelConfig, sample: Sample) -> Term:
    """Return the term that the mean of f over all rows, labeled or not, is that of the known class proportions.

    One-against-rest functions that are 1 on a class of share p and -1 elsewhere have the mean 2 p - 1.  The term weighs
    as much as all labels together.
    """
    assert config.classes is not None
    assert isinstance(config.class_weight, ClassPrior)
    means = 2 * config.class_weight.of(config.classes) - 1
    rows = spaced(sample.size, MOST_NORMS)
    mean = (sample.count[rows] / sample.count[rows].sum())[None, :] @ Evaluation(take_rows(sample.X, rows))
    target = means[1:] if len(means) == 2 else means[None, :]
    weight = check_number(config.C, "C") * float(sample.weight[sample.labeled].sum())
    return Term(mean, Squared(), target=target, weight=weight)


def depends_on_row_order(invariance: Any) -> bool:
    """Return whether an invariance refers to rows of X by index, as a graph given by the user does."""
    if isinstance(invariance, str):
        return False
    return any(getattr(item.maker, "graph", None) is not None for item in as_invariances(invariance))


def points_of(invariance: Invariance, sample: Sample) -> Sample:
    """Return the points at which an invariance holds."""
    return sample.take(holds_at(invariance, sample))


def holds_at(invariance: Invariance, sample: Sample) -> Vector:
    """Return the mask of the points at which an invariance holds: all, the labeled, or the unlabeled ones."""
    every = np.ones(sample.size, dtype=bool)
    return every if invariance.on == "all" else sample.labeled == (invariance.on == "labeled")


def invariance_term(
    invariance: Invariance,
    points: Sample,
    norms: WeightNormalization,
    config: ModelConfig,
    size: float | None = None,
    share: float = 1.0,
) -> Term:
    """Return the term nu * weight * mean_i sum_j loss(L_ij(f) / s; target / s) of an invariance at points.

    For one of many blocks of points, the caller gives the `size` s and the `share` of the block in the mean.
    """
    functionals = invariance(points.X)
    times = 1.0 if invariance.once else multiplicity(functionals, points.weight)
    size = size_of(invariance, functionals, norms, times) if size is None else size
    loss = as_loss(invariance.loss, INVARIANCE, "The loss of an Invariance")
    return norms.invariance(functionals, loss, invariance.target, config.nu * invariance.weight, times, size, share)


def size_of(invariance: Invariance, functionals: Functional, norms: WeightNormalization, times: Any) -> float:
    """Return s.

    The functionals of an invariance of all points together (`once`) are normalized already: on white noise the expected
    sum of their squares is one.
    """
    if invariance.once:
        return float(max(functionals.size, 1) ** -0.5)
    return norms.size(functionals, times) if functionals.size else 1.0


def multiplicity(functionals: Functional, weight: Vector) -> Any:
    """Return the factor on each functional: the weight of its point, w_i w_j for an edge (i, j), else 1."""
    if np.all(weight == 1):
        return 1.0
    if isinstance(functionals, GraphDifference):
        return weight[functionals.edges[:, 0]] * weight[functionals.edges[:, 1]]
    if functionals.shape[0] == len(weight):
        return np.repeat(weight, functionals.size // len(weight))
    return 1.0
