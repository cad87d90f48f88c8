"""The posterior of f given squared losses: a Gaussian process around the minimizer.

Its covariance is tau^2 times the Gram matrix that the observations leave (`solvers.warped`), with the amplitude that
makes the targets most likely, tau^2 = 2 J* / (N - r) (`evidence`): so that error bars have the units of the targets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, Matrix, indices, like, namespace, to_numpy
from rkhs._backend.memory import check_tables
from rkhs._finite.basis import Basis
from rkhs._finite.function import FeatureFunction, Function
from rkhs._finite.problem import LossBlock, consecutive
from rkhs._finite.representers import RepresenterProblem
from rkhs._finite.solution import Solution
from rkhs._learning.observations import Observations
from rkhs.functionals._base import Functional, stack
from rkhs.solvers._conditioned import ConditionedGram, SubspaceCovariance

COV_TABLES, SAMPLE_TABLES = 4, 8  # matrices of the size of the result in memory at once, measured


@dataclass(frozen=True, eq=False)
class Posterior:
    """The Gaussian process that squared losses leave: made by `Solution.posterior`.

    `amplitude` is tau, a number, or one for each output; the covariance of f before the data was tau^2 k.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=1000 * np.sin(6 * X[:, 0]), weight=50.0)
    >>> posterior = rkhs.Problem(rkhs.Gaussian(scale=0.3), [term]).solve().posterior
    >>> posterior.std(rkhs.Evaluation([[0.5], [2.0]])).round()
    array([ 25., 533.])
    >>> posterior.sample(rkhs.Gradient([[0.5]]), 100).shape
    (100, 1, 1)
    """

    function: Function | FeatureFunction
    spread: ConditionedGram | SubspaceCovariance
    amplitude: float | Matrix

    def mean(self, L: Functional) -> Array:
        """Return L(f), in the shape of L, with a last axis for several outputs."""
        return L(self.function)

    def std(self, L: Functional, weight: float | None = None) -> Array:
        """Return the standard deviation of L(f), in the same shape; infinite where a basis function is not determined.

        With a `weight`, that of a new observation of L, whose noise has the variance tau^2 / (2 weight).
        """
        variance = self.spread.variance(L)
        xp = namespace(variance)
        return self._scaled(xp.reshape(xp.sqrt(variance + _noise(weight)), L.shape), 1)

    def cov(self, L: Functional, M: Functional | None = None, weight: float | None = None) -> Array:
        """Return the covariances of L(f) with M(f), or with itself if M is None: the shape of L, then that of M.

        With a `weight`, those of new observations of L.
        """
        if M is not None and weight is not None:
            raise ValueError("Noise is that of observations of one family: leave M out, or the weight.")
        self.check_memory(L.size if M is None else L.size + M.size, L.prototype)
        table = self.spread.covariance(L if M is None else stack([L, M]))[: L.size]
        if M is None:
            every = indices(np.arange(L.size), table)
            table[every, every] += _noise(weight)
        own = table if M is None else table[:, L.size :]
        return self._scaled(namespace(own).reshape(own, (*L.shape, *(L if M is None else M).shape)), 2)

    def sample(self, L: Functional, n: int = 1, random_state: Any = None) -> Array:
        """Draw L(f) n times: (n, shape of L), with a last axis for several outputs, which are independent."""
        if not isinstance(n, int) or isinstance(n, bool) or n < 1:
            raise ValueError(f"n must be a positive whole number of draws, got {n!r}.")
        self.check_memory(L.size, L.prototype, SAMPLE_TABLES)
        table = to_numpy(self.spread.covariance(L)).astype(np.float64)
        values, vectors = np.linalg.eigh((table + table.T) / 2)
        root = vectors * np.sqrt(np.clip(values, 0, None))
        tau = np.atleast_1d(self.amplitude)
        drawn = np.random.default_rng(random_state).standard_normal((n, len(tau), L.size)) @ root.T
        drawn = np.moveaxis(drawn * tau[:, None], 1, 2)  # (n, size, outputs)
        if np.ndim(self.amplitude) == 0:
            drawn = drawn[:, :, 0]
        mean = self.mean(L)
        return mean[None] + like(drawn.reshape(n, *mean.shape), mean)

    @staticmethod
    def check_memory(size: int, array: Array, tables: int = COV_TABLES) -> None:
        """Refuse covariances of more functionals than there is memory for, before any is computed."""
        remedy = "ask for standard deviations, which are one number each, or for fewer points at a time"
        check_tables(size, tables, array, "Covariances", remedy)

    def _scaled(self, values: Array, power: int) -> Array:
        """Multiply by tau^power, with a last axis for several outputs."""
        if np.ndim(self.amplitude) == 0:
            return values * float(self.amplitude) ** power
        return values[..., None] * like(self.amplitude**power, values)


def _noise(weight: float | None) -> float:
    if weight is None:
        return 0.0
    if not weight > 0:
        raise ValueError(f"An observation has a positive weight, got {weight!r}.")
    return 1 / (2 * float(weight))


@dataclass(frozen=True, eq=False)
class PosteriorSource:
    """What the posterior of a solution is made from; it is computed when somebody asks for it.

    `given` has the squared terms in the whole space, or the covariance that they leave in a subspace; `repeats` is the
    number of observations that were merged into equal ones.
    """

    given: RepresenterProblem | SubspaceCovariance
    repeats: int = 0

    @classmethod
    def of(cls, represented: RepresenterProblem, rows: tuple[LossBlock, ...]) -> PosteriorSource | None:
        """Return the source for a problem with the weights of some rows; None where there is no posterior.

        Rows of weight zero, which folds leave out, are dropped when the posterior is computed.
        """
        if represented.dropped or not all(t.loss.quadratic for t in rows):
            return None
        return cls(replace(represented, rows=rows, precision=None))

    def __getstate__(self) -> dict[str, Any]:
        return {"given": replace(self.given), "repeats": self.repeats}  # what is cached is computed again

    @cached_property
    def spread(self) -> ConditionedGram | SubspaceCovariance:
        """The covariance of f, in units of tau^2."""
        if isinstance(self.given, SubspaceCovariance):
            return self.given
        rows = self.given.rows
        kept = [np.flatnonzero(to_numpy(t.weight)[:, 0] > 0) for t in rows]
        if all(len(own) == t.rows.stop - t.rows.start for own, t in zip(kept, rows, strict=True)):
            return ConditionedGram.of(self.given)
        every = np.concatenate([own + t.rows.start for own, t in zip(kept, rows, strict=True)])
        functionals = self.given.functionals.take(every)
        some = [
            replace(t, rows=slice(0, len(own)), target=t.target[own], weight=t.weight[own])
            for own, t in zip(kept, rows, strict=True)
        ]
        basis = Basis.of(functionals, self.given.basis.space)
        return ConditionedGram.of(replace(self.given, functionals=functionals, rows=consecutive(some), basis=basis))

    def posterior(self, solution: Solution) -> Posterior:
        """Return the posterior around a solution, with tau from the minimum of each output."""
        spread = self.spread
        if isinstance(spread, ConditionedGram):
            free, outputs = Observations.of(spread.represented).degrees_of_freedom, spread.represented.outputs
        else:
            free, outputs = spread.degrees_of_freedom, spread.outputs
        free += self.repeats
        if free < 1:
            raise ValueError(
                "There are no more functionals than basis functions: add functionals, or take a smaller basis."
            )
        tau: Matrix = np.sqrt(2 * np.clip(solution.certificate.primal, 0, None) / free)
        return Posterior(solution.function, spread, float(tau[0]) if outputs is None else tau)
