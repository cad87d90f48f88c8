"""The posterior of f given squared losses: a Gaussian process whose mean is the minimizer.

Its covariance is tau^2 times the conditioned kernel (`solvers._conditioned`), with the amplitude of maximum likelihood,
tau^2 = 2 J* / (N - r) (`evidence`), so that error bars have the units of the targets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, Matrix, double, indices, like, namespace, to_numpy
from rkhs._backend.memory import check_tables
from rkhs._finite.basis import Basis
from rkhs._finite.function import FeatureFunction, Function
from rkhs._finite.problem import LossBlock, consecutive
from rkhs._finite.representers import RepresenterProblem
from rkhs._finite.solution import Solution
from rkhs._learning.observations import Observations
from rkhs.functionals._base import Functional, stack
from rkhs.solvers._conditioned import ConditionedGram, SubspaceCovariance
from rkhs.solvers._spectral_covariance import SpectralCovariance

# Peak memory of `cov` and `sample` in matrices of the size of the covariance, measured.
COV_TABLES, SAMPLE_TABLES = 4, 8


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior Gaussian process of a problem with squared losses; returned by `Solution.posterior`.

    Parameters
    ----------
    function : Function
        The posterior mean.
    spread : object
        The posterior covariance, in units of tau^2.
    amplitude : float or ndarray of shape (outputs,)
        The amplitude tau: the prior covariance of f is tau^2 k.

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
    spread: ConditionedGram | SubspaceCovariance | SpectralCovariance
    amplitude: float | Matrix

    def mean(self, L: Functional) -> Array:
        """Return the posterior mean of functionals of f.

        Parameters
        ----------
        L : Functional
            The family of functionals.

        Returns
        -------
        ndarray
            L(f), of the shape of L, with a last axis for several outputs.
        """
        return L(self.function)

    def std(self, L: Functional, weight: float | None = None) -> Array:
        """Return the posterior standard deviations of functionals of f.

        Parameters
        ----------
        L : Functional
            The family of functionals.
        weight : float, optional
            The weight of a new observation, whose noise of variance tau^2 / (2 weight) is included.

        Returns
        -------
        ndarray
            The standard deviations, of the shape of L, with a last axis for several outputs; infinite where the data do
            not determine a basis function.
        """
        variance = self.spread.variance(L)
        xp = namespace(variance)
        return self._scaled(xp.reshape(xp.sqrt(variance + _noise(weight)), L.shape), 1)

    def cov(self, L: Functional, M: Functional | None = None, weight: float | None = None) -> Array:
        """Return the posterior covariances of functionals of f.

        Parameters
        ----------
        L : Functional
            A family of functionals.
        M : Functional, optional
            Another family; L if it is not given.
        weight : float, optional
            The weight of new observations of L, whose noise of variance tau^2 / (2 weight) is included; not with M.

        Returns
        -------
        ndarray
            The covariances, of the shape of L followed by that of M, with a last axis for several outputs.
        """
        if M is not None and weight is not None:
            raise ValueError("M and weight are mutually exclusive: the noise is that of observations of L alone.")
        self.check_memory(L.size if M is None else L.size + M.size, L.prototype)
        table = self.spread.covariance(L if M is None else stack([L, M]))[: L.size]
        if M is None:
            every = indices(np.arange(L.size), table)
            table[every, every] += _noise(weight)
        covariance = table if M is None else table[:, L.size :]
        shape = (*L.shape, *(L if M is None else M).shape)
        return self._scaled(namespace(covariance).reshape(covariance, shape), 2)

    def sample(self, L: Functional, n: int = 1, random_state: Any = None) -> Array:
        """Draw joint samples of functionals of f from the posterior.

        Parameters
        ----------
        L : Functional
            The family of functionals.
        n : int, default=1
            The number of samples.
        random_state : int or Generator, optional
            The seed.

        Returns
        -------
        ndarray
            The samples, of shape (n,) + L.shape, with a last axis for several outputs, which are independent.
        """
        if not isinstance(n, int) or isinstance(n, bool) or n < 1:
            raise ValueError(f"n must be a positive integer, got {n!r}.")
        self.check_memory(L.size, L.prototype, SAMPLE_TABLES)
        table = double(self.spread.covariance(L))
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
        """Raise an error if the covariances of `size` functionals would not fit into memory.

        Parameters
        ----------
        size : int
            The number of functionals.
        array : ndarray
            An array of the type and on the device of the result.
        tables : int, default=4
            The number of matrices of this size that are in memory at once.
        """
        remedy = "ask for standard deviations, which are one number each, or for fewer points at a time"
        check_tables(size, tables, array, "Covariances", remedy)

    def _scaled(self, values: Array, power: int) -> Array:
        """Return the values times tau^power, with a last axis for several outputs."""
        if np.ndim(self.amplitude) == 0:
            return values * float(self.amplitude) ** power
        return values[..., None] * like(self.amplitude**power, values)


def _noise(weight: float | None) -> float:
    if weight is None:
        return 0.0
    if not weight > 0:
        raise ValueError(f"weight must be positive, got {weight!r}.")
    return 1 / (2 * float(weight))


@dataclass(frozen=True, eq=False)
class PosteriorSource:
    """The data from which the posterior of a solution is computed on demand."""

    given: RepresenterProblem | SubspaceCovariance | SpectralCovariance  # the problem, or its covariance in a subspace
    repeats: int = 0  # the number of observations that were merged with equal ones

    @classmethod
    def of(cls, represented: RepresenterProblem, rows: tuple[LossBlock, ...]) -> PosteriorSource | None:
        """Return the source for a problem with the given loss blocks; None if it has no Gaussian posterior.

        Rows of weight zero, which folds leave out, are dropped when the posterior is computed.
        """
        if represented.dropped or not all(t.loss.quadratic for t in rows):
            return None
        return cls(replace(represented, rows=rows, precision=None))

    def __getstate__(self) -> dict[str, Any]:
        return {"given": replace(self.given), "repeats": self.repeats}  # without cached properties

    @cached_property
    def spread(self) -> ConditionedGram | SubspaceCovariance | SpectralCovariance:
        """The posterior covariance of f, in units of tau^2."""
        if not isinstance(self.given, RepresenterProblem):
            return self.given
        rows = self.given.rows
        kept = [np.flatnonzero(to_numpy(t.weight)[:, 0] > 0) for t in rows]
        if all(len(index) == t.rows.stop - t.rows.start for index, t in zip(kept, rows, strict=True)):
            return ConditionedGram.of(self.given)
        every = np.concatenate([index + t.rows.start for index, t in zip(kept, rows, strict=True)])
        functionals = self.given.functionals.take(every)
        blocks = [
            replace(t, rows=slice(0, len(index)), target=t.target[index], weight=t.weight[index])
            for index, t in zip(kept, rows, strict=True)
        ]
        basis = Basis.of(functionals, self.given.basis.space)
        return ConditionedGram.of(replace(self.given, functionals=functionals, rows=consecutive(blocks), basis=basis))

    def posterior(self, solution: Solution) -> Posterior:
        """Return the posterior with the solution as its mean, and tau from the minimum of J for each output."""
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
