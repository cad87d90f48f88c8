"""The alternating direction method of multipliers (ADMM), for any losses and for many problems with one Gram matrix.

With a copy z of the image u = Ga + Qc, a penalty R per row on the constraint u = z, and scaled multipliers d, one step
is

    a = argmin of 1/2 a'Ga + 1/2 |u - z + d|_R^2,    z = prox of the losses, with steps w / R, at u + d,    d += u - z

The first line is a = P(z - d), u = z - d - a / R, where P is the inverse of G + 1 / R on {Q'a = 0}: one matrix for all
outputs, independent of their weights and targets, and one product with it for all of them.  Kinks and large weights
affect only the prox.  alpha = -Rd is dual feasible up to Q'alpha = 0.  R balances the relative primal residual u - z
and the relative change of z (Boyd et al. 2011, section 3.4.1); each change of R costs an inverse.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from rkhs._core.backend.arrays import Matrix, Vector
from rkhs._core.finite.certificate import Certificate, certificate_of
from rkhs._core.finite.monitor import Monitor, OutOfIterations, Step, Steps
from rkhs._core.finite.problem import FiniteProblem, Iterate, LossBlock
from rkhs.losses._blocks import BlockLoss
from rkhs.solvers._base import FLOP, DenseSolver, Estimate

REBALANCE = 2.0  # R changes if the residuals suggest at least this factor
RELAXATION = 1.6  # over-relaxation; 1.5 to 1.8 is recommended by Boyd et al. 2011, section 3.4.3
CHECK_EVERY = 10  # steps between certificates, or a tenth of all steps so far if that is more
STEP = 8e-4  # seconds per step of a few blocks, without its product
SMALLEST_STEP = 1e-12  # replaces a zero step of rows with weight zero, and a zero residual


@dataclass(frozen=True)
class ADMM(DenseSolver):
    """The alternating direction method of multipliers, for any losses; all outputs share one inverse.

    The Gram matrix must fit in memory.  The method suits low accuracy where functionals with kinks are nearly
    constraints, and grids of such problems, for which `Problem.grid` uses it.

    Parameters
    ----------
    max_iterations : int, default=20_000
        The maximal number of iterations.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> labels = rkhs.Term(rkhs.Evaluation(X[::4]), rkhs.Logistic(), target=np.sign(X[::4, 0] + 0.1), weight=10.0)
    >>> flat = rkhs.Term(rkhs.Gradient(X[10:30]), rkhs.losses.EpsilonInsensitive(0.1), weight=1000.0)
    >>> problem = rkhs.Problem(rkhs.Gaussian(scale=0.5), [labels, flat], rkhs.Constant())
    >>> problem.solve(rkhs.solvers.ADMM(), tol=1e-3).status
    'converged'
    """

    max_iterations: int = 20_000

    def cost(self, estimate: Estimate) -> float:
        size = estimate.system.size
        return estimate.matrix + 8 * FLOP * size**3 + self.max_iterations / CHECK_EVERY * self.step(estimate)

    def step(self, estimate: Estimate) -> float:
        system = estimate.system
        return CHECK_EVERY * (STEP + 2 * FLOP * system.size**2 * system.columns)

    def dense_steps(self, system: FiniteProblem, start: Iterate, tol: float, monitor: Monitor) -> Steps:
        state = _ADMMState(system, start)
        while state.steps < self.max_iterations:
            certificate, iterate = state.certificate(tol), state.iterate
            better = certificate.relative <= state.smallest_gap  # the gap oscillates
            state.smallest_gap = min(state.smallest_gap, certificate.relative)
            yield Step(iterate if better else None, float(np.sum(certificate.primal)), certificate.relative)
            if not len(state.active):
                return iterate
            if state.stuck():
                break
            monitor.afford(2 * FLOP * system.size**3 if state.unbalanced else 0.0)
            state.run_steps()
        raise OutOfIterations


class _ADMMState:
    """The iterates of all outputs; `active` are the outputs that have not converged."""

    def __init__(self, system: FiniteProblem, start: Iterate) -> None:
        self.system, self.G = system, system.gram.dense()
        norm = np.concatenate([_mean_norms(t, np.diag(self.G)[t.rows]) for t in system.terms])[:, None]
        size = len(self.G) ** 1.5 * np.max(np.abs(self.G), initial=0.0)
        self.smallest = 2 * np.finfo(np.float64).eps * size  # smaller values of 1 / R are lost in the rounding of G
        self.R = (3.0 if system.smooth else 60.0) / np.where(norm > 0, norm, 1.0)
        self.a, self.basis = start.a.copy(), start.basis.copy()
        self.u = self.G @ self.a + system.Q @ self.basis
        self.z, self.d = self.u.copy(), -self.a / self.R
        self.active = np.arange(system.columns)
        self.certificates: dict[int, Certificate] = {}  # the latest of each output
        self.unbalanced, self.factor, self.steps, self.next_balance = True, 1.0, 0, CHECK_EVERY
        self.smallest_gap = self.gap = np.inf  # of all iterates, and of those before the last check of progress
        self.next_progress_check = 250  # steps

    @property
    def iterate(self) -> Iterate:
        return Iterate(self.a, self.basis, -self.R * self.d)

    def certificate(self, tol: float) -> Certificate:
        """Return the certificate of all outputs, and remove those that have converged from `active`."""
        which = self.active
        iterate = Iterate(self.a[:, which], self.basis[:, which], -self.R * self.d[:, which])
        image = self.u[:, which] - self.system.Q @ iterate.basis
        joint = certificate_of(self.system.some(which), iterate, image, tol)
        for k, certificate in zip(which.tolist(), joint.split(), strict=True):
            self.certificates[k] = certificate
        self.active = which[~joint.done(tol)]
        return Certificate.joined([self.certificates[k] for k in range(self.system.columns)])

    def stuck(self) -> bool:
        """Return whether the last doubling of the number of steps has not halved the smallest gap."""
        if self.steps < self.next_progress_check:
            return False
        before, self.gap, self.next_progress_check = self.gap, self.smallest_gap, 2 * self.steps
        return self.gap > before / 2

    def run_steps(self) -> None:
        """Take some steps of the active outputs, and update R first if the residuals are unbalanced."""
        if self.unbalanced:
            R = np.minimum(self.R * self.factor, 1 / self.smallest) if self.smallest else self.R * self.factor
            self.R, self.d = R, self.d * (self.R / R)
            self.P, self.C = self._inverse()
        which, R = self.active, self.R
        terms = self.system.some(which).terms
        steps = [np.maximum(t.weight / R[t.rows], SMALLEST_STEP) for t in terms]
        z, d = self.z[:, which], self.d[:, which]
        count = max(CHECK_EVERY, self.steps // 10)
        for _ in range(count):
            before, right = z, z - d
            # a = P(z - d),    u = z - d - a / R
            a = self.P @ right
            u = right - a / R
            # z <- prox of the losses, with steps w / R, at d + (over-relaxed u),    d <- d + u - z
            relaxed = RELAXATION * u + (1 - RELAXATION) * z + d
            parts = zip(terms, steps, strict=True)
            z = np.concatenate([t.loss.prox(relaxed[t.rows], t.target, step) for t, step in parts])
            d = relaxed - z
        self.a[:, which], self.basis[:, which] = self.system.inside(a), self.C @ right
        self.u[:, which], self.z[:, which], self.d[:, which] = u, z, d
        self.steps += count
        self.unbalanced = False
        if self.steps >= self.next_balance:  # at exponentially growing intervals
            self.next_balance *= 2
            sizes = (np.linalg.norm(np.sqrt(R) * v, axis=0) + SMALLEST_STEP for v in (u - z, z - before, z, d))
            primal, dual, image, multiplier = sizes
            # R <- R (|u - z| |d| / (|u| |z - z_before|))^1/2, all in the norm of R; the mean over outputs
            balance = (primal / image) / (dual / multiplier)
            self.factor = float(np.clip(np.exp(np.mean(np.log(balance)) / 2), 0.01, 100.0))
            self.unbalanced = not 1 / REBALANCE < self.factor < REBALANCE

    def _inverse(self) -> tuple[Matrix, Matrix]:
        """Return P (N, N), and C (r, N) with c = C(z - d).

        The inverse is that of R^1/2 (G + 1/R) R^1/2 = I + R^1/2 G R^1/2, in which rows of different units have the same
        size.  A multiple of the projection onto the columns of R^1/2 Q is added, which makes it positive definite and
        does not change P.
        """
        root = np.sqrt(self.R)
        Q, K = root * self.system.Q, root * self.G * root.T
        orthonormal = np.linalg.qr(Q)[0]
        K += np.max(np.abs(K), initial=0.0) * len(K) * (orthonormal @ orthonormal.T)
        K[np.diag_indices_from(K)] += 1
        # P = R^1/2 (K^-1 - K^-1 Q C) R^1/2,    C = (Q'K^-1 Q)^-1 Q'K^-1,    K = I + R^1/2 G R^1/2 + (..) QQ'
        inverse = scipy.linalg.inv(K, overwrite_a=True, check_finite=False)
        inverse_Q = inverse @ Q
        C = np.linalg.solve(Q.T @ inverse_Q, inverse_Q.T)
        return root * (inverse - inverse_Q @ C) * root.T, C * root.T


def _mean_norms(block: LossBlock, norms: Vector) -> Vector:
    """Return the squared norms (N,) of functionals, averaged over those of a block for which R has to be the same.

    In losses of vectors whose components have different units, R is the ratio of dual and primal variables: relative
    to the first group of components it is the ratio of the largest slopes over the root of that of the norms.
    """
    if not isinstance(block.loss, BlockLoss):
        return np.full(len(norms), np.mean(norms))
    size, groups = block.loss.size or 1, block.loss.step_groups[1:]
    largest = np.max(np.abs(block.loss.domain(block.target[:size, :1])), axis=(0, 2))
    parts = zip(np.split(norms.reshape(-1, size), groups, axis=1), np.split(largest, groups), strict=True)
    means = [(part, float(np.mean(part)), float(np.max(slopes))) for part, slopes in parts]
    (_, first, slope), result = means[0], []
    for part, mean, other in means:
        comparable = 0 < other < np.inf and 0 < slope < np.inf
        result.append(np.full_like(part, (first * mean) ** 0.5 * slope / other if comparable else mean))
    return np.concatenate(result, axis=1).ravel()
