"""Alternating directions (ADMM): any losses with a prox, and many problems with one Gram matrix at once.

With a second copy z of the image u = Ga + Qc, which is asked to be equal to it at the price R per row, and multipliers
Rd, one step is

    a = argmin of 1/2 a'Ga + 1/2 |u - z + d|_R^2,    z = prox of the losses, with steps w / R, at u + d,    d += u - z

where the first line is a = P(z - d), u = z - d - a / R, and P is the inverse of G + 1 / R on {Q'a = 0}: one matrix for
all outputs, whatever their weights and targets, and one product with it for all of them.  Kinks and large weights cost
nothing beyond their prox.  alpha = -Rd is a point of the dual but for Q'alpha = 0.  R follows the residuals: what is
left of u = z, beside z, and what z still moves, beside d, are to be of one size; each change of R costs an inverse.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from rkhs._backend.arrays import Matrix
from rkhs._finite.certificate import Certificate, certificate_of
from rkhs._finite.monitor import Monitor, OutOfIterations
from rkhs._finite.problem import FiniteProblem, Iterate
from rkhs.solvers._base import DenseSolver, from_memory, in_memory, to_memory
from rkhs.solvers._costs import FLOP, Estimate

UNEVEN = 2.0  # factor from which on R is changed
RELAXED = 1.6  # u is taken so much further from the last z
CHECKED = 10  # steps between certificates, or a tenth of all so far, if more
STEP = 8e-4  # s, of a step of a few blocks, without its product
TINY = 1e-12  # step in place of zero, for rows that are left out


@dataclass(frozen=True)
class ADMM(DenseSolver):
    """Alternating directions, for any losses; all outputs share one inverse.

    The Gram matrix has to fit in memory.  It is meant for a few digits where functionals with kinks are nearly
    constraints, and for grids of such problems: `Problem.grid` takes it there.

    Parameters
    ----------
    max_iterations : after which it gives up

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(-1, 1, 40)[:, None]
    >>> labels = rkhs.Term(rkhs.Evaluation(X[::4]), rkhs.Logistic(), target=np.sign(X[::4, 0] + 0.1), weight=10.0)
    >>> flat = rkhs.Term(rkhs.Gradient(X[10:30]), rkhs.EpsilonInsensitive(0.1), weight=1000.0)
    >>> problem = rkhs.Problem(rkhs.Gaussian(scale=0.5), [labels, flat], rkhs.Constant())
    >>> problem.solve(rkhs.solvers.ADMM(), tol=1e-3).status
    'converged'
    """

    max_iterations: int = 20_000

    def seconds(self, size: int, columns: int) -> float:
        """Return the estimated cost of all its iterations, and of some inverses, with the Gram matrix in memory."""
        return self.max_iterations * (STEP + 2 * FLOP * size**2 * columns) + 8 * FLOP * size**3

    def run(self, system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
        monitor.afford(Estimate(system, monitor.tol).matrix)
        inside = in_memory(system)
        together = _Splits(inside, to_memory(inside, system, start))
        while together.steps < self.max_iterations:
            certificate = together.certificate(monitor.tol)
            found = from_memory(inside, system, together.iterate)
            monitor.report(found, float(np.sum(certificate.primal)), certificate.relative)
            if not len(together.still):
                return found
            if together.stuck(certificate):
                break
            monitor.afford(2 * FLOP * system.size**3 if together.uneven else 0.0)
            together.go_on()
        raise OutOfIterations


class _Splits:
    """All outputs of a system in memory, those that are `still` open, and where they are."""

    def __init__(self, system: FiniteProblem, start: Iterate) -> None:
        self.system, self.G = system, system.gram.dense()
        norms = [np.full((t.rows.stop - t.rows.start, 1), np.mean(np.diag(self.G)[t.rows])) for t in system.terms]
        norm = np.concatenate(norms)
        size = len(self.G) ** 1.5 * np.max(np.abs(self.G), initial=0.0)
        self.lost = 2 * np.finfo(np.float64).eps * size  # 1 / R under which G + 1 / R is no better to invert than G
        self.R = (3.0 if system.smooth else 60.0) / np.where(norm > 0, norm, 1.0)
        self.a, self.basis = start.a.copy(), start.basis.copy()
        self.u = self.G @ self.a + system.Q @ self.basis
        self.z, self.d = self.u.copy(), -self.a / self.R
        self.still = np.arange(system.columns)
        self.found: dict[int, Certificate] = {}  # by output, the last of each
        self.uneven, self.factor, self.steps, self.look = True, 1.0, 0, CHECKED
        self.gap, self.halfway = np.inf, 250  # steps before they are judged by what they lead to

    @property
    def iterate(self) -> Iterate:
        return Iterate(self.a, self.basis, -self.R * self.d)

    def certificate(self, tol: float) -> Certificate:
        """Of all outputs; those that it closes are left alone from now on."""
        which = self.still
        open_ones = Iterate(self.a[:, which], self.basis[:, which], -self.R * self.d[:, which])
        image = self.u[:, which] - self.system.Q @ open_ones.basis
        fresh = certificate_of(self.system.some(which), open_ones, image, tol)
        for k, own in zip(which.tolist(), fresh.split(), strict=True):
            self.found[k] = own
        self.still = which[~fresh.done(tol)]
        return Certificate.joined([self.found[k] for k in range(self.system.columns)])

    def stuck(self, certificate: Certificate) -> bool:
        """Whether twice the steps have not even halved the gap."""
        if self.steps < self.halfway:
            return False
        before, self.gap, self.halfway = self.gap, certificate.relative, 2 * self.steps
        return self.gap > before / 2

    def go_on(self) -> None:
        """Some steps of the open outputs, with an R that suits them."""
        if self.uneven:
            R = np.minimum(self.R * self.factor, 1 / self.lost) if self.lost else self.R * self.factor
            self.R, self.d = R, self.d * (self.R / R)
            self.P, self.C = self._inverse()
        which, R = self.still, self.R
        terms = self.system.some(which).terms
        steps = [np.maximum(t.weight / R[t.rows], TINY) for t in terms]
        z, d = self.z[:, which], self.d[:, which]
        count = max(CHECKED, self.steps // 10)
        for _ in range(count):
            before, goal = z, z - d
            a = self.P @ goal
            u = goal - a / R
            ahead = RELAXED * u + (1 - RELAXED) * z + d
            parts = zip(terms, steps, strict=True)
            z = np.concatenate([t.loss.prox(ahead[t.rows], t.target, step) for t, step in parts])
            d = ahead - z
        self.a[:, which], self.basis[:, which] = self.system.inside(a), self.C @ goal
        self.u[:, which], self.z[:, which], self.d[:, which] = u, z, d
        self.steps += count
        self.uneven = False
        if self.steps >= self.look:  # ever less often
            self.look *= 2
            sizes = (np.linalg.norm(np.sqrt(R) * v, axis=0) + TINY for v in (u - z, z - before, z, d))
            apart, moving, image, multiplier = sizes
            balance = (apart / image) / (moving / multiplier)
            self.factor = float(np.clip(np.exp(np.mean(np.log(balance)) / 2), 0.01, 100.0))
            self.uneven = not 1 / UNEVEN < self.factor < UNEVEN

    def _inverse(self) -> tuple[Matrix, Matrix]:
        """P (N, N), and C (r, N) with c = C(z - d); QQ' is added to G, which P does not see, where kernels need it."""
        Q = self.system.Q
        K = self.G + np.max(np.abs(self.G), initial=0.0) * len(self.G) * (Q @ Q.T)
        K[np.diag_indices_from(K)] += 1 / self.R[:, 0]
        inverse = scipy.linalg.inv(K, overwrite_a=True, check_finite=False)
        onto = inverse @ Q
        C = np.linalg.solve(Q.T @ onto, onto.T)
        return inverse - onto @ C, C
