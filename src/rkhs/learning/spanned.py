"""Evidence in the span of p functions: p x p algebra from the sums that an approximation keeps anyway.

In orthonormal functions psi R of the span, with rows F = E R, the covariance of what is observed is S = FF' + D, D the
noise 1/(2w).  With A = I + F'D^-1 F = LL' and P the values of the basis functions,

    log det S = log det D + log det A,     S^-1 F = D^-1 F A^-1,     b'S^-1 b = 2 min J

and the basis adds log det(P'S^-1 P) - log det(P'P) (`evidence`).  Since S = E K^-1 E' + D, a change of the kernel
changes E and K: with B the derivative in S the first is met by 2 B E K^-1, some rows at a time, and the second by
-K^-1 E'BE K^-1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from rkhs._backend.arrays import Matrix, to_numpy
from rkhs._calculus.function_spaces import FunctionSpace
from rkhs._finite.basis import on_basis
from rkhs._finite.representers import outputs_of
from rkhs._finite.summary import Summary
from rkhs._finite.term import Term
from rkhs._gram.landmark_span import LandmarkSpan
from rkhs._gram.sensitivity import sensitivity
from rkhs._gram.span import Span
from rkhs._progress import tick
from rkhs.functionals.base import Functional
from rkhs.learning.evidence import Likelihood
from rkhs.learning.observations import Observations
from rkhs.learning.settings import Setting
from rkhs.solvers.spans.summed import Summed


class Spanned:
    """The squared losses of some terms in a span; the observations are the same, with the weights that they have."""

    def __init__(
        self,
        span: Span,
        space: FunctionSpace | None,
        terms: Sequence[Term],
        observations: Observations,
    ) -> None:
        self.span, self.space, self.observations = span, space, observations
        given = observations.given
        known = [terms[k] for k in np.unique(observations.term[given])] if len(given) < observations.size else []
        self.prior = Spanned(span, space, known, observations.take(given)) if known else None
        self.weight = np.concatenate([to_numpy(term.weights())[:, 0] for term in terms]).astype(np.float64)
        self.weight = self.weight[self.weight > 0]
        summed = Summed(Summary.of(span, space, terms, outputs_of(terms)))
        self.cell, self.r = summed.cell(), summed.rank
        self.curvature = self.cell.curvature
        self.R = summed.map[self.r :, self.r : self.cell.told]  # (p, m)

    @cached_property
    def theta(self) -> Matrix:
        """The minimiser, (r + m, c)."""
        return self.curvature.minimum(self.cell.linear[: self.cell.told])

    @cached_property
    def likelihood(self) -> Likelihood:
        """Of all that was observed, less what is given."""
        energies = 2 * self.cell.constant + np.sum(self.cell.linear[: self.cell.told] * self.theta, axis=0)
        log_det = self.log_det - (0.0 if self.prior is None else self.prior.log_det)
        seen = self.observations
        return Likelihood.of(energies, seen.free, log_det, seen.informative, seen.amplitude)

    @cached_property
    def log_det(self) -> float:
        """Of Z'SZ."""
        L, seen = self.curvature.L, self.curvature.seen
        log_det = 2 * float(np.sum(np.log(np.diag(L)))) - float(np.sum(np.log(2 * self.weight)))
        if seen.shape[1]:
            sizes = np.linalg.norm(seen, axis=0)  # columns are eigenvectors of P'S^-1 P over the roots of eigenvalues
            plain = np.linalg.svd(self._on_basis(self.observations.functionals) @ (seen / sizes), compute_uv=False)
            log_det -= 2 * float(np.sum(np.log(sizes)) + np.sum(np.log(plain)))
        return log_det

    def _on_basis(self, L: Functional) -> Matrix:
        return np.zeros((L.size, 0)) if self.space is None else on_basis(L, self.space)

    def gradient(self, settings: Sequence[Setting]) -> Matrix:
        """The derivatives of the logarithm of the likelihood in those of settings."""
        some = self.observations.informative
        tau = np.sqrt(self.likelihood.squares[some])
        found = self._slopes(settings, len(some), self.theta[:, some] / tau, self.observations.target[:, some] / tau)
        return found if self.prior is None else found - self.prior._slopes(settings, len(some))

    def _slopes(
        self, settings: Sequence[Setting], count: int, theta: Matrix | None = None, b: Matrix | None = None
    ) -> Matrix:
        """Those of -count/2 log det, and of 1/2 b'P b at a theta that belongs to b."""
        assert isinstance(self.span, LandmarkSpan), "features have no derivatives in settings"
        r, R, H, marks = self.r, self.R, self.curvature.seen, self.span.functionals
        cross = self.cell.S[r : self.cell.told, :r]  # F'D^-1 P
        down = self.curvature.down(np.concatenate([R.T, cross], axis=1))
        half, lower = down[:, : len(R)], down[:, len(R) :]
        core, basis = half.T @ half, half.T @ lower  # R A^-1 R' and R A^-1 F'D^-1 P, (p, p) and (p, r)
        if theta is None or b is None:
            theta, b = np.zeros((r + R.shape[1], 0)), np.zeros((len(self.weight), 0))
        c, tau = theta[:r], R @ theta[r:]
        own = [(str(s.parameter), s.feature) for s in settings if s.parameter is not None]
        inner = R @ R.T - core - (basis @ H) @ (basis @ H).T
        inner = (tau @ tau.T - count * inner) / 2
        found = {key: -value for key, value in sensitivity(self.span.kernel, marks, marks, inner, own).items()}
        noise = np.zeros(len(self.weight))
        for start in range(0, len(self.weight), self.span.tall):
            tick(start / len(self.weight))
            rows = slice(start, min(start + self.span.tall, len(self.weight)))
            L = self.observations.functionals.take(rows)
            E, P, w = to_numpy(self.span.rows(L)), self._on_basis(L), 2 * self.weight[rows, None]
            through = E @ core
            V = w * (P - E @ basis) @ H  # S^-1 P H
            a = w * (b[rows] - P @ c - E @ tau)
            diagonal = w[:, 0] - w[:, 0] ** 2 * np.sum(E * through, axis=1) - np.sum(V * V, axis=1)
            noise[rows] = (np.sum(a * a, axis=1) - count * diagonal) / 2
            through *= w
            through -= V @ (basis @ H).T
            through *= -count
            through += a @ tau.T  # twice the derivative in S, times E K^-1
            for key, value in sensitivity(self.span.kernel, L, marks, through, own).items():
                found[key] += value
        noise *= -1 / (2 * self.weight)
        of_term = self.observations.term
        return np.array(
            [
                float(noise[of_term == s.term].sum()) if s.parameter is None else found[s.parameter, s.feature]
                for s in settings
            ]
        )
