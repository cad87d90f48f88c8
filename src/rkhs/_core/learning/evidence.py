"""The evidence, or log marginal likelihood, of the targets of squared losses.

J is the negative log posterior of a Gaussian process with covariance tau^2 k whose functionals are observed with noise
of variance tau^2 / (2 w).  With S = G + diag(1/(2w)) and Z an orthonormal basis of the complement of the values Q of
the basis functions,

    -2 log p(Z'b)  =  b'Pb / tau^2  +  log det Z'SZ  +  (N - r) log(2 pi tau^2),        P = Z (Z'SZ)^-1 Z'

is the restricted likelihood, that of the part of the targets which the basis cannot explain.  Q is orthonormal, so the
scaling of basis functions does not matter; without a basis this is the likelihood itself.  The amplitude is profiled
out, tau^2 = b'Pb / (N - r), unless it is known: if the noise is given in the units of the targets, k has these units
too and tau is 1.  Outputs are independent with one amplitude each; outputs that the basis explains exactly are left
out.

Terms whose targets are all zero are priors, not data: the evidence is conditional on them, log p(b) - log p(0 on the
priors).  Otherwise a thousand slopes that are known to be small would count as a thousand observations, which any
kernel of small amplitude explains.

*In a subspace* of p functions the algebra is p x p, from the sums that an approximation computes anyway.  In
orthonormal functions psi R, with rows F = E R, S = FF' + D, where D is the noise 1/(2w).  With A = I + F'D^-1 F and P
the values of the basis functions,

    log det S = log det D + log det A,     S^-1 F = D^-1 F A^-1,     b'S^-1 b = 2 min J

and the basis adds log det(P'S^-1 P) - log det(P'P).  Since S = E K^-1 E' + D, the kernel enters by E and K: if B is the
derivative in S, the derivative in E is 2 B E K^-1, computed in tiles of rows, and that in K is -K^-1 E'BE K^-1.

*Observations.*  The functionals of a Gaussian process with covariance k, observed with noise of variance 1/(2w), have
the covariance

    S = G + diag(1/(2w))

The evidence and leave-one-out residuals follow from the saddle-point equations [S, Q; Q', 0], where Q has the values of
the basis functions, orthonormalized.  Their solution is a = P b with P = Z (Z'SZ)^-1 Z', where Z is an orthonormal
basis of {Q'a = 0}.

A hyperparameter is named by its attribute path from the problem: "kernel.scale", "kernel.kernels[0].factor",
"kernel.scale[2]" (of the third feature), "terms[1].weight".  All derivatives are in the logarithms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from math import inf, log, pi
from typing import Protocol

import numpy as np
from scipy.linalg import lapack

from rkhs._core.backend.arrays import Array, Matrix, double, indices, like, namespace, to_numpy, unique_rows
from rkhs._core.backend.memory import on_cpu
from rkhs._core.calculus.function_spaces import FunctionSpace
from rkhs._core.finite.basis import Basis, on_basis
from rkhs._core.finite.features import FeatureTerms
from rkhs._core.finite.monitor import FACTOR, Monitor
from rkhs._core.finite.problem import degrees_of_freedom
from rkhs._core.finite.representers import RepresenterTerms, outputs_of
from rkhs._core.finite.solution import Solution
from rkhs._core.finite.sums import FeatureSums
from rkhs._core.finite.term import Term
from rkhs._core.gram.operator import gram
from rkhs._core.gram.sensitivity import Derivatives, sensitivity, value_gram
from rkhs._core.limits import limits
from rkhs._core.linalg.saddle import Saddle
from rkhs._core.progress import report_progress, subtask
from rkhs.functionals._base import Functional, point_groups, pointwise, repeats
from rkhs.kernels._base import Kernel
from rkhs.spaces._base import Approximation, FiniteSpace


class ConvexProblem(Protocol):
    """What the functions of this folder need of an `rkhs.Problem`."""

    @property
    def kernel(self) -> Kernel: ...
    @property
    def terms(self) -> Sequence[Term]: ...
    @property
    def basis(self) -> FunctionSpace | None: ...
    @property
    def null_space(self) -> str: ...
    @property
    def approximation(self) -> Approximation | None: ...
    @property
    def represented(self) -> RepresenterTerms: ...
    @property
    def space(self) -> FiniteSpace | None:
        """The space of the approximation; None if f is sought in the whole RKHS."""

    @property
    def full_basis(self) -> FunctionSpace | None:
        """The basis with the null space of the kernel."""

    def solve(self, *, tol: float) -> Solution: ...


@dataclass(frozen=True)
class Hyperparameter:
    """A positive number to tune: a parameter of the kernel, perhaps for one feature, or the weight of a term."""

    parameter: str | None = None  # of the kernel; None for the weight of a term
    feature: int | None = None  # None if the parameter is the same for all features
    term: int | None = None
    start: float = 1.0  # where a search begins
    low: float = 0.0
    high: float = inf

    @property
    def name(self) -> str:
        if self.parameter is None:
            return f"terms[{self.term}].weight"
        return f"kernel.{self.parameter}{'' if self.feature is None else f'[{self.feature}]'}"


@dataclass(frozen=True, eq=False)
class Observations:
    """The observed functionals of a problem with their targets and weights, in float64.

    Vectors are in NumPy; points, and so matrices, stay on an accelerator.
    """

    functionals: Functional
    basis: Basis
    target: Matrix  # b, (N, c)
    weight: Matrix  # (N,)
    term: Matrix  # (N,) the index of the term of each functional

    @classmethod
    def of(cls, represented: RepresenterTerms) -> Observations:
        """Return the observations of a problem with positive weights."""
        prototype = represented.functionals.prototype[:0]
        place = (
            np.zeros(0) if on_cpu(prototype) else namespace(prototype).astype(prototype, namespace(prototype).float64)
        )
        functionals = represented.functionals.like(place)
        basis = represented.basis
        if functionals is not represented.functionals:
            basis = Basis.of(functionals, basis.space)
        rows = represented.rows
        term = np.concatenate([np.full(t.rows.stop - t.rows.start, k) for k, t in enumerate(rows)])
        target = np.concatenate([double(t.target) for t in rows])
        weight = np.concatenate([double(t.weight)[:, 0] for t in rows])
        return cls(functionals, basis, target, weight, term)

    @property
    def Q(self) -> Matrix:
        return to_numpy(self.basis.Q)

    @property
    def size(self) -> int:
        return len(self.target)

    @cached_property
    def point_labels(self) -> Matrix:
        """Labels (N,) that are equal for functionals at the same point.

        If a term repeats a functional at a point, the repetitions have different labels, so that repeated measurements
        are left out one by one.
        """
        labels = np.stack([point_groups(self.functionals), repeats(self.functionals, self.term)], axis=1)
        return unique_rows(labels)[2]

    @cached_property
    def prior_rows(self) -> Matrix:
        """The indices of the functionals of terms whose targets are all zero, which are priors and not data."""
        data = np.unique(self.term[np.any(self.target != 0, axis=1)])
        return np.flatnonzero(~np.isin(self.term, data))

    @cached_property
    def degrees_of_freedom(self) -> int:
        """N - r without the priors: the number of targets minus the rank of the basis given the priors."""
        return degrees_of_freedom(self.Q, self.prior_rows)

    @cached_property
    def informative(self) -> Matrix:
        """The indices of the outputs that the basis does not explain up to rounding."""
        residual = np.abs(self.target - self.Q @ (self.Q.T @ self.target)).max(axis=0)
        return np.flatnonzero(residual > 256 * np.finfo(np.float64).eps * np.abs(self.target).max(axis=0))

    def take(self, rows: Matrix) -> Observations:
        """Return a subset of the observations."""
        functionals = self.functionals.take(rows)
        basis = Basis.of(functionals, self.basis.space)
        return Observations(functionals, basis, self.target[rows], self.weight[rows], self.term[rows])

    def sample(self, most: int, random: np.random.Generator) -> Observations:
        """Return all observations at points that are drawn at random, with at most `most` functionals in total."""
        if self.size <= most:
            return self
        labels, counts = np.unique(self.point_labels, return_counts=True)
        order = random.permutation(len(labels))
        kept = order[np.cumsum(counts[order]) <= most]
        return self.take(np.flatnonzero(np.isin(self.point_labels, labels[kept if len(kept) else order[:1]])))

    def equations(self, kernel: Kernel, weight: Matrix) -> tuple[Array, Saddle, Matrix]:
        """Return G, the factorized saddle-point equations for a kernel and weights (N,), and their solution (N, c)."""
        with subtask(0, 2):
            G = gram(kernel, self.functionals).in_double()
        with subtask(1, 2):
            saddle = Saddle(G, 1 / (2 * weight), self.Q)
            return G, saddle, saddle.solve(self.target)[0]

    def gradient(self, kernel: Kernel, weight: Matrix, B: Array, hyperparameters: Sequence[Hyperparameter]) -> Matrix:
        """Return sum_ij B_ij dS_ij / dlog(h) for each hyperparameter h."""
        keys = [(h.parameter, h.feature) for h in hyperparameters if h.parameter is not None]
        derivatives = sensitivity(kernel, self.functionals, self.functionals, B, keys) if keys else {}
        diagonal = to_numpy(namespace(B).linalg.diagonal(B))
        return in_order(hyperparameters, derivatives, -diagonal / (2 * weight), self.term)


def in_order(
    hyperparameters: Sequence[Hyperparameter],
    of_kernel: Mapping[tuple[str, int | None], float],
    of_weight: Matrix,
    term: Matrix,
) -> Matrix:
    """Return the derivatives in the order of the hyperparameters, from those in kernel parameters and weights (N,)."""
    return np.array(
        [
            float(of_weight[term == h.term].sum()) if h.parameter is None else of_kernel[h.parameter, h.feature]
            for h in hyperparameters
        ]
    )


def check_null_space(problem: ConvexProblem, what: str) -> None:
    """Raise an error if the null space of the kernel is dropped."""
    if problem.null_space == "dropped":
        raise ValueError(f'{what} is known with the null space of {problem.kernel!r}: use null_space="kept".')


def check_squared(problem: ConvexProblem, what: str) -> None:
    """Raise an error if a loss is not squared, or if the null space of the kernel is dropped."""
    others = [term.loss for term in problem.terms if not term.loss.quadratic]
    if others:
        raise ValueError(
            f"{what} needs all losses to be Squared, and one is {others[0]!r}: choose hyperparameters by "
            "problem.grid(.., held_out=..), which evaluates solutions on held-out data."
        )
    check_null_space(problem, what)


@dataclass(frozen=True, eq=False)
class Evidence:
    """The evidence (log marginal likelihood) of the targets under a kernel and weights; returned by `Problem.evidence`.

    Parameters
    ----------
    value : float
        The log marginal likelihood.
    amplitude : float or ndarray of shape (outputs,)
        The amplitude tau that maximizes it: the covariance of f is tau^2 k.
    gradient : dict of str to float, or None
        The derivatives in the logarithms of all hyperparameters by name, such as "kernel.scale", if requested.

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
    amplitude: float | Matrix
    gradient: dict[str, float] | None = None


def evidence_of(problem: ConvexProblem, gradient: bool) -> Evidence:
    """Return the evidence of a problem, in the subspace of its approximation if it has one."""
    check_squared(problem, "Evidence")
    observations = Observations.of(problem.represented)
    hyperparameters = [
        Hyperparameter(name, j)
        for name, value in problem.kernel.parameters().items()
        for j in (range(len(value)) if isinstance(value, tuple) else [None])
    ]
    hyperparameters += [Hyperparameter(term=k) for k in range(len(problem.terms))]
    requested = hyperparameters if gradient else None
    space = problem.space
    if space is None:
        with closing(Monitor(0.0)) as monitor, monitor.showing(FACTOR):
            result = log_evidence(observations, problem.kernel, observations.weight, requested)[:3]
    else:
        assert problem.approximation is not None
        if gradient and not problem.approximation.has_gradients:
            raise ValueError(
                f"The gradient of the evidence is not implemented for {problem.approximation!r}: use rkhs.Landmarks."
            )
        space.require_stored(
            f"The evidence of all rows is not implemented for {problem.approximation!r}: `tune` uses that of a "
            "sample of the rows, and rkhs.Landmarks has it."
        )
        result = space_log_evidence(
            space, problem.full_basis, problem.terms, observations, observations.weight, requested
        )
    value, squares, derivatives = result
    tau = np.sqrt(squares)
    named = dict(zip([h.name for h in hyperparameters], derivatives.tolist(), strict=True)) if gradient else None
    return Evidence(value, float(tau[0]) if problem.represented.outputs is None else tau, named)


def log_evidence(
    observations: Observations,
    kernel: Kernel,
    weight: Matrix,
    hyperparameters: Sequence[Hyperparameter] | None,
    amplitude: float | None = None,
) -> tuple[float, Matrix, Matrix, Matrix | None]:
    """Return the log evidence, tau^2 (c,), the derivatives in the logarithms of the hyperparameters, and the curvature.

    The amplitude is profiled out unless it is given.  The curvature (h, h) is known for values at points.  It is the
    average information, the mean of the observed and the expected Fisher information,

        A_ij = 1/2 (dS_i a)'P (dS_j a) / tau^2

    which is positive semidefinite and needs products with vectors only (Gilmour, Thompson and Cullis 1995).
    """
    rows, outputs = observations.prior_rows, observations.informative
    inverse, log_det, a, derivatives_of = _inverted(observations, kernel, weight)
    if len(rows):  # log p(b) - log p(0 on the priors)
        inverse_of_prior, log_det_of_prior, *_ = _inverted(observations.take(rows), kernel, weight[rows])
        log_det -= log_det_of_prior
    # b'Pb = b'a
    value, squares = _log_likelihood(observations, np.sum(observations.target * a, axis=0), log_det, amplitude)
    if hyperparameters is None:
        return value, squares, np.zeros(0), None
    # d log p / dS = 1/2 (a a' / tau^2 - P), summed over outputs; without the block P_0 of the priors alone
    # (Rasmussen and Williams 2006, equation 5.9).
    scaled, P = a[:, outputs] / np.sqrt(squares[outputs]), inverse()
    B = P * (-len(outputs) / 2)
    B += like(scaled, B) @ like(scaled, B).T / 2
    if len(rows):
        i = indices(rows, B)
        B[i[:, None], i] += inverse_of_prior() * (len(outputs) / 2)
    if derivatives_of is None:
        return value, squares, observations.gradient(kernel, weight, B, hyperparameters), None
    noise, term = 1 / (2 * weight), observations.term
    some = scaled[:, : max(1, 100 // len(hyperparameters))]  # outputs that suffice for the mean of their curvatures
    found = derivatives_of(B, some)
    gradient = in_order(hyperparameters, {key: total for key, (total, _) in found.items()}, -np.diag(B) * noise, term)
    # dS_i a, (h, n, outputs)
    of_noise = {h.term: -(noise * (term == h.term))[:, None] * some for h in hyperparameters}
    changes = np.stack(
        [of_noise[h.term] if h.parameter is None else found[h.parameter, h.feature][1] for h in hyperparameters]
    )
    curvature = sum(v @ (P @ v.T) for v in np.moveaxis(changes, 2, 0)) / 2
    if amplitude is None:  # without what a change of tau^2 can do
        along = np.einsum("hnc,nc->hc", changes, some)
        curvature -= along @ along.T / (2 * observations.degrees_of_freedom)
    return value, squares, gradient, curvature * (len(outputs) / some.shape[1])


def _inverted(
    observations: Observations, kernel: Kernel, weight: Matrix
) -> tuple[Callable[[], Matrix], float, Matrix, Derivatives | None]:
    """Return a function that returns P, log det Z'SZ, a = Pb and, for values at points, the derivatives of G.

    Values need no saddle-point equations: the error of a Cholesky factorization does not depend on the scaling of rows
    (Higham 2002, section 10.1).  That takes a third of the time.
    """
    part = pointwise(observations.functionals) if len(weight) <= limits().factor_rows else None
    found = value_gram(kernel, part.atoms) if part is not None and part.weight == 1.0 else None
    if found is not None:
        S, diagonal = np.array(found[0], order="F"), np.diag_indices(len(weight))
        S[diagonal] += 1 / (2 * weight)
        L, failed = lapack.dpotrf(S, lower=1, clean=1, overwrite_a=1)
    if found is None or failed:
        _, saddle, a = observations.equations(kernel, weight)
        return saddle.inverse, saddle.log_det(), a, None
    Q, b = observations.Q, observations.target
    P = lapack.dpotri(L, lower=1)[0]
    P = P + P.T
    P[diagonal] /= 2
    # P = S^-1 - VV' with V = S^-1 Q R'^-1 and RR' = Q'S^-1 Q, and det Z'SZ = det S det RR', as Q is orthonormal
    V = lapack.dpotrs(L, Q, lower=1)[0] if Q.size else Q  # more accurate than P Q
    R = np.linalg.cholesky(Q.T @ V)
    V = np.linalg.solve(R, V.T).T
    P -= V @ V.T
    log_det = 2 * float(np.sum(np.log(np.diag(L))) + np.sum(np.log(np.diag(R))))
    b = b - Q @ (Q.T @ b)
    return lambda: P, log_det, lapack.dpotrs(L, b, lower=1)[0] - V @ (V.T @ b), found[1]


def space_log_evidence(
    space: FiniteSpace,
    basis: FunctionSpace | None,
    terms: Sequence[Term],
    observations: Observations,
    weight: Matrix,
    hyperparameters: Sequence[Hyperparameter] | None,
    amplitude: float | None = None,
) -> tuple[float, Matrix, Matrix]:
    """Return the same as `log_evidence` for the process in a subspace; `weight` (N,) are the weights of the terms."""
    equations = _SpaceEquations(space, basis, terms, observations, weight)
    prior_rows, outputs, prior = observations.prior_rows, observations.informative, None
    if 0 < len(prior_rows) < observations.size:
        prior_terms = [terms[k] for k in np.unique(observations.term[prior_rows])]
        prior = _SpaceEquations(space, basis, prior_terms, observations.take(prior_rows), weight[prior_rows])
    features = equations.features
    linear = features.linear[: features.resolved]
    # b'S^-1 b = 2 min J, J(theta) = constant + linear'theta + 1/2 theta'A theta
    theta = features.curvature.minimum(linear)  # the minimizer, (r + m, c)
    energies = 2 * features.constant + np.sum(linear * theta, axis=0)
    log_det = equations.log_det - (0.0 if prior is None else prior.log_det)
    value, squares = _log_likelihood(observations, energies, log_det, amplitude)
    if hyperparameters is None:
        return value, squares, np.zeros(0)
    tau, count = np.sqrt(squares[outputs]), len(outputs)
    minimizer, targets = theta[:, outputs] / tau, observations.target[:, outputs] / tau
    gradient = equations.gradient(hyperparameters, count, minimizer, targets)
    if prior is not None:  # whose targets are zero: only its log det depends on hyperparameters
        minimizer, targets = np.zeros((prior.r + prior.R.shape[1], 0)), np.zeros((len(prior_rows), 0))
        gradient = gradient - prior.gradient(hyperparameters, count, minimizer, targets)
    return value, squares, gradient


def _log_likelihood(
    observations: Observations, energies: Matrix, log_det: float, amplitude: float | None
) -> tuple[float, Matrix]:
    """Return the log likelihood and tau^2 (c,), zero for uninformative outputs, from b'Pb (c,) and log det Z'SZ."""
    free, outputs = observations.degrees_of_freedom, observations.informative
    if free < 1:
        raise ValueError(
            "There are no more functionals than basis functions: add functionals, or take a smaller basis."
        )
    # tau^2 = b'Pb / (N - r)
    squares = np.zeros(len(energies))
    profiled = np.maximum(energies[outputs], np.finfo(np.float64).tiny) / free
    squares[outputs] = profiled if amplitude is None else amplitude**2
    # -2 log p = b'Pb / tau^2 + (N - r) log(2 pi tau^2) + log det Z'SZ
    terms = [energies[k] / squares[k] + free * log(2 * pi * squares[k]) + log_det for k in outputs.tolist()]
    return -sum(terms) / 2, squares


class _SpaceEquations:
    """The normal equations of squared losses in a subspace, in its orthonormal functions."""

    def __init__(
        self,
        space: FiniteSpace,
        basis: FunctionSpace | None,
        terms: Sequence[Term],
        observations: Observations,
        weight: Matrix,
    ) -> None:
        self.space, self.basis, self.observations, self.weight = space, basis, observations, weight
        found = FeatureTerms(FeatureSums.of(space, basis, terms, outputs_of(terms)))
        self.features, self.r = found.weighted().geometry, found.rank
        self.R = found.functions.map[:, : self.features.resolved - self.r]  # (p, m)

    @property
    def log_det(self) -> float:
        """log det Z'SZ."""
        # log det S = log det D + log det A, with the Cholesky factor L of A and D = 1 / (2w)
        L, seen = self.features.curvature.L, self.features.curvature.seen
        log_det = 2 * float(np.sum(np.log(np.diag(L)))) - float(np.sum(np.log(2 * self.weight)))
        # + log det(P'S^-1 P) - log det(P'P)
        if seen.shape[1]:
            sizes = np.linalg.norm(seen, axis=0)  # columns: eigenvectors of P'S^-1 P over the roots of the eigenvalues
            P = on_basis(self.observations.functionals, self.basis)
            singular = np.linalg.svd(P @ (seen / sizes), compute_uv=False)
            log_det -= 2 * float(np.sum(np.log(sizes)) + np.sum(np.log(singular)))
        return log_det

    def gradient(self, hyperparameters: Sequence[Hyperparameter], count: int, theta: Matrix, b: Matrix) -> Matrix:
        """Return the derivatives of -count/2 log det Z'SZ + 1/2 b'Pb, where theta is the minimizer for targets b."""
        assert self.space.representers is not None, "features have no derivatives in hyperparameters"
        r, R, H = self.r, self.R, self.features.curvature.seen
        landmarks, kernel, size = self.space.representers, self.space.kernel, len(self.weight)
        cross = self.features.square[r : self.features.resolved, :r]  # F'D^-1 P
        down = self.features.curvature.down(np.concatenate([R.T, cross @ H], axis=1))
        half, lower = down[:, : len(R)], down[:, len(R) :]
        core, basis = half.T @ half, half.T @ lower  # R A^-1 R' and R A^-1 F'D^-1 P H
        c, tau = theta[:r], R @ theta[r:]
        keys = [(h.parameter, h.feature) for h in hyperparameters if h.parameter is not None]
        # in K of the landmarks: -K^-1 E'BE K^-1 = -1/2 (tau tau' - count (R R' - R A^-1 R' - ..))
        inner = (tau @ tau.T - count * (R @ R.T - core - basis @ basis.T)) / 2
        derivatives = {key: -value for key, value in sensitivity(kernel, landmarks, landmarks, inner, keys).items()}
        noise = np.zeros(size)
        for rows in self.space.tiles(size):
            report_progress(rows.start / size)
            L = self.observations.functionals.take(rows)
            E, P, w = to_numpy(self.space.rows(L)), on_basis(L, self.basis), 2 * self.weight[rows, None]
            through = E @ core
            V = w * (P @ H - E @ basis)  # S^-1 P H
            # a = S^-1 (b - Pc) = 2w (b - Pc - E tau); the diagonal of (a a' - count P) / 2 is that in the noise
            a = w * (b[rows] - P @ c - E @ tau)
            diagonal = w[:, 0] - w[:, 0] ** 2 * np.sum(E * through, axis=1) - np.sum(V * V, axis=1)
            noise[rows] = (np.sum(a * a, axis=1) - count * diagonal) / 2
            # 2 B E K^-1 = a tau' - count S^-1 E K^-1
            through *= w
            through -= V @ basis.T
            through *= -count
            through += a @ tau.T  # twice the derivative in S, times E K^-1
            for key, value in sensitivity(kernel, L, landmarks, through, keys).items():
                derivatives[key] += value
        return in_order(hyperparameters, derivatives, -noise / (2 * self.weight), self.observations.term)
