"""Evidence: how likely the targets of squared losses are under a kernel and weights (theory, section 9).

J is minus the log posterior of a Gaussian process with covariance tau^2 k whose functionals were observed with noise of
variance tau^2 / (2 w).  With S = G + diag(1/(2w)) and Z an orthonormal basis of the complement of the values Q of the
basis functions,

    -2 log p(Z'b)  =  b'Pb / tau^2  +  log det Z'SZ  +  (N - r) log(2 pi tau^2),        P = Z (Z'SZ)^-1 Z'

is the restricted likelihood: that of the part of the targets which the basis cannot explain.  Q is orthonormal, so the
scaling of basis functions does not matter; without a basis it is the likelihood itself.  The best amplitude is
tau^2 = b'Pb / (N - r), which is put in, unless it is known: where noise is given in the units of the targets, tau is 1
and k has their units too.  Outputs are independent, each with its own amplitude; one that the basis explains altogether
has none and is left out.

Terms whose targets are all zero are prior knowledge, not data: the evidence is that of the other terms given them,
log p(b) - log p(0 on them).  Else a thousand slopes that are known to be small would count as a thousand observations,
which any kernel of small amplitude explains.

*In a subspace* of p functions the algebra is p x p, from the sums that an approximation keeps anyway.  In orthonormal
functions psi R, with rows F = E R, S = FF' + D, D the noise 1/(2w).  With A = I + F'D^-1 F and P the values of the
basis functions,

    log det S = log det D + log det A,     S^-1 F = D^-1 F A^-1,     b'S^-1 b = 2 min J

and the basis adds log det(P'S^-1 P) - log det(P'P).  Since S = E K^-1 E' + D, a change of the kernel changes E and K:
with B the derivative in S the first is multiplied by 2 B E K^-1, some rows at a time, and the second by
-K^-1 E'BE K^-1.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from math import log, pi
from typing import TYPE_CHECKING

import numpy as np

from rkhs._backend.arrays import Matrix, to_numpy
from rkhs._calculus.function_spaces import FunctionSpace
from rkhs._finite.basis import on_basis
from rkhs._finite.features import FeatureBlocks
from rkhs._finite.monitor import FACTOR, Monitor
from rkhs._finite.representers import outputs_of
from rkhs._finite.term import Term
from rkhs._gram.sensitivity import sensitivity
from rkhs._learning.observations import Hyperparameter, Observations, check_squared, gathered
from rkhs._linalg.saddle import Saddle
from rkhs._progress import tick
from rkhs._spaces import DenseSpace, LandmarkSpace
from rkhs.kernels._base import Kernel
from rkhs.solvers._projected import ProjectedProblem

if TYPE_CHECKING:
    from rkhs._problem.problem import Problem


@dataclass(frozen=True, eq=False)
class Evidence:
    """How likely the targets are under a kernel and weights.

    The log marginal likelihood, and the amplitude tau that makes it largest: the covariance is tau^2 k.

    `gradient`, where it was asked for, has the derivative in the logarithm of each setting by name.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(9 * X[:, 0]), weight=100.0)
    >>> smooth, rough = (rkhs.Problem(rkhs.Gaussian(scale=s), [term]).evidence().value for s in (0.3, 0.01))
    >>> bool(smooth > rough)
    True
    """

    value: float
    amplitude: float | Matrix  # a number, or one for each output
    gradient: dict[str, float] | None = None


def evidence_of(problem: Problem, gradient: bool) -> Evidence:
    """Return the evidence of a problem, in the subspace of its approximation if it has one."""
    check_squared(problem, "Evidence")
    observations = Observations.of(problem.represented)
    hyperparameters = [
        Hyperparameter(name, j)
        for name, value in problem.kernel.parameters().items()
        for j in (range(len(value)) if isinstance(value, tuple) else [None])
    ]
    hyperparameters += [Hyperparameter(term=k) for k in range(len(problem.terms))]
    asked = hyperparameters if gradient else None
    subspace = None if problem.approximation is None else problem._on_span(problem.approximation)
    if subspace is None or subspace.whole:
        with closing(Monitor(0.0)) as monitor, monitor.showing(FACTOR):
            found = log_evidence(observations, problem.kernel, observations.weight, asked)
    else:
        if gradient and not isinstance(subspace.space, LandmarkSpace):
            raise ValueError(
                f"Derivatives in settings are not known for {problem.approximation!r}: use rkhs.Landmarks."
            )
        where = subspace.space, subspace.full_basis
        found = subspace_log_evidence(*where, problem.terms, observations, observations.weight, asked)
    value, squares, derivatives = found
    tau = np.sqrt(squares)
    named = dict(zip([h.name for h in hyperparameters], derivatives.tolist(), strict=True)) if gradient else None
    return Evidence(value, float(tau[0]) if problem.represented.outputs is None else tau, named)


def log_evidence(
    observations: Observations,
    kernel: Kernel,
    weight: Matrix,
    hyperparameters: Sequence[Hyperparameter] | None,
    amplitude: float | None = None,
) -> tuple[float, Matrix, Matrix]:
    """Return the log likelihood, tau^2 (c,), and derivatives in hyperparameters; none of them where that is None."""
    G, saddle = observations.equations(kernel, weight)
    known, some = observations.known, observations.informative
    prior = Saddle(G[np.ix_(known, known)], 1 / (2 * weight[known]), observations.Q[known]) if len(known) else None
    a = saddle.solve(observations.target)[0]
    log_det = saddle.log_det() - (0.0 if prior is None else prior.log_det())
    value, squares = _log_likelihood(observations, np.sum(observations.target * a, axis=0), log_det, amplitude)
    if hyperparameters is None:
        return value, squares, np.zeros(0)
    scaled = a[:, some] / np.sqrt(squares[some])
    B = saddle.inverse()
    B *= -len(some) / 2
    B += scaled @ scaled.T / 2
    if prior is not None:
        B[np.ix_(known, known)] += prior.inverse() * (len(some) / 2)
    return value, squares, observations.gradient(kernel, weight, B, hyperparameters)


def subspace_log_evidence(
    space: DenseSpace,
    basis: FunctionSpace | None,
    terms: Sequence[Term],
    observations: Observations,
    weight: Matrix,
    hyperparameters: Sequence[Hyperparameter] | None,
    amplitude: float | None = None,
) -> tuple[float, Matrix, Matrix]:
    """Return what `log_evidence` does, of the process in a subspace; `weight` (N,) are the weights of the terms."""
    whole = _SubspaceEquations(space, basis, terms, observations, weight)
    known, some, prior = observations.known, observations.informative, None
    if 0 < len(known) < observations.size:
        theirs = [terms[k] for k in np.unique(observations.term[known])]
        prior = _SubspaceEquations(space, basis, theirs, observations.take(known), weight[known])
    linear = whole.problem.linear[: whole.problem.resolved]
    theta = whole.problem.curvature.minimum(linear)  # the minimizer, (r + m, c)
    energies = 2 * whole.problem.constant + np.sum(linear * theta, axis=0)
    log_det = whole.log_det - (0.0 if prior is None else prior.log_det)
    value, squares = _log_likelihood(observations, energies, log_det, amplitude)
    if hyperparameters is None:
        return value, squares, np.zeros(0)
    tau = np.sqrt(squares[some])
    slopes = whole.gradient(hyperparameters, len(some), theta[:, some] / tau, observations.target[:, some] / tau)
    if prior is not None:
        none = np.zeros((prior.r + prior.R.shape[1], 0)), np.zeros((len(known), 0))
        slopes = slopes - prior.gradient(hyperparameters, len(some), *none)
    return value, squares, slopes


def _log_likelihood(
    observations: Observations, energies: Matrix, log_det: float, amplitude: float | None
) -> tuple[float, Matrix]:
    """Return the log likelihood and tau^2 (c,), zero for outputs that say nothing, from b'Pb (c,) and log det Z'SZ."""
    free, some = observations.degrees_of_freedom, observations.informative
    if free < 1:
        raise ValueError(
            "There are no more functionals than basis functions: add functionals, or take a smaller basis."
        )
    squares = np.zeros(len(energies))
    squares[some] = np.maximum(energies[some], np.finfo(np.float64).tiny) / free if amplitude is None else amplitude**2
    terms = [energies[k] / squares[k] + free * log(2 * pi * squares[k]) + log_det for k in some.tolist()]
    return -sum(terms) / 2, squares


class _SubspaceEquations:
    """The equations of squared losses in a subspace, in its orthonormal functions."""

    def __init__(
        self,
        space: DenseSpace,
        basis: FunctionSpace | None,
        terms: Sequence[Term],
        observations: Observations,
        weight: Matrix,
    ) -> None:
        self.space, self.basis, self.observations, self.weight = space, basis, observations, weight
        projected = ProjectedProblem(FeatureBlocks.of(space, basis, terms, outputs_of(terms)))
        self.problem, self.r = projected.weighted(), projected.rank
        self.R = projected.functions.map[:, : self.problem.resolved - self.r]  # (p, m)

    @property
    def log_det(self) -> float:
        """log det Z'SZ."""
        L, seen = self.problem.curvature.L, self.problem.curvature.seen
        log_det = 2 * float(np.sum(np.log(np.diag(L)))) - float(np.sum(np.log(2 * self.weight)))
        if seen.shape[1]:
            sizes = np.linalg.norm(seen, axis=0)  # columns are eigenvectors of P'S^-1 P over the roots of eigenvalues
            P = on_basis(self.observations.functionals, self.basis)
            plain = np.linalg.svd(P @ (seen / sizes), compute_uv=False)
            log_det -= 2 * float(np.sum(np.log(sizes)) + np.sum(np.log(plain)))
        return log_det

    def gradient(self, hyperparameters: Sequence[Hyperparameter], count: int, theta: Matrix, b: Matrix) -> Matrix:
        """Return the derivatives of -count/2 log det Z'SZ + 1/2 b'Pb, for the minimizer theta that belongs to b."""
        assert isinstance(self.space, LandmarkSpace), "features have no derivatives in hyperparameters"
        r, R, H = self.r, self.R, self.problem.curvature.seen
        marks, kernel, size = self.space.functionals, self.space.kernel, len(self.weight)
        cross = self.problem.S[r : self.problem.resolved, :r]  # F'D^-1 P
        down = self.problem.curvature.down(np.concatenate([R.T, cross @ H], axis=1))
        half, lower = down[:, : len(R)], down[:, len(R) :]
        core, basis = half.T @ half, half.T @ lower  # R A^-1 R' and R A^-1 F'D^-1 P H
        c, tau = theta[:r], R @ theta[r:]
        own = [(h.parameter, h.feature) for h in hyperparameters if h.parameter is not None]
        inner = (tau @ tau.T - count * (R @ R.T - core - basis @ basis.T)) / 2
        found = {key: -value for key, value in sensitivity(kernel, marks, marks, inner, own).items()}
        noise = np.zeros(size)
        for rows in self.space.tiles(size):
            tick(rows.start / size)
            L = self.observations.functionals.take(rows)
            E, P, w = to_numpy(self.space.rows(L)), on_basis(L, self.basis), 2 * self.weight[rows, None]
            through = E @ core
            V = w * (P @ H - E @ basis)  # S^-1 P H
            a = w * (b[rows] - P @ c - E @ tau)
            diagonal = w[:, 0] - w[:, 0] ** 2 * np.sum(E * through, axis=1) - np.sum(V * V, axis=1)
            noise[rows] = (np.sum(a * a, axis=1) - count * diagonal) / 2
            through *= w
            through -= V @ basis.T
            through *= -count
            through += a @ tau.T  # twice the derivative in S, times E K^-1
            for key, value in sensitivity(kernel, L, marks, through, own).items():
                found[key] += value
        return gathered(hyperparameters, found, -noise / (2 * self.weight), self.observations.term)
