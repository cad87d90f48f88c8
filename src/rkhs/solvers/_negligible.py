"""Leave out functionals that cannot matter, and prove that they do not.

Every f with J(f) <= J(0) has |f|^2 <= 2 J(0), so that |L_i(f)| <= r_i = |z_i| sqrt(2 J(0)) for functionals that vanish
on the basis.  Without functional i the minimum of J changes by at most the range of its loss over this interval,

    e_i = w_i (max over u = r_i, -r_i of loss(u) - loss(0) + r_i |loss'(0)|)

Functionals with the smallest e_i are left out as long as the sum of their e_i is at most a small part of the tolerance,
relative to J(0).  The certificate is that of all functionals, with zero coefficients for those that were left out; if J
is so much smaller than J(0) that it fails, the solver continues with all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rkhs._backend.arrays import Vector, double, take_rows, to_numpy, zeros
from rkhs._finite.certificate import certify
from rkhs._finite.monitor import InnerMonitor, Monitor
from rkhs._finite.problem import FiniteProblem, Iterate
from rkhs.solvers._base import Solver

SHARE = 1e-2  # part of the tolerance that functionals which are left out may use
WORTH = 0.2  # smallest share of functionals that is left out


def negligible(system: FiniteProblem, tol: float) -> Vector:
    """Return the indices of functionals whose losses together change J by at most SHARE tol J(0)."""
    if system.columns > 1 or not (system.separable and system.definite and tol > 0):
        return np.zeros(0, dtype=int)
    energy = float(system.at_zero[0])
    norms = np.sqrt(np.abs(double(system.exact.diagonal())))
    r = norms * (2 * energy) ** 0.5
    effects = np.zeros(system.size)
    for t in system.terms:  # an overflow makes an effect infinite
        u, target, weight = r[t.rows, None], to_numpy(t.target), to_numpy(t.weight)
        zero = 0 * u
        with np.errstate(over="ignore", invalid="ignore"):
            ends = np.maximum(t.loss.value(u, target), t.loss.value(-u, target)) - t.loss.value(zero, target)
            effect = weight * (np.maximum(ends, 0) + u * np.abs(t.loss.gradient(zero, target)))
        effects[t.rows] = np.nan_to_num(effect[:, 0], nan=np.inf)
    effects[np.any(to_numpy(system.Q) != 0, axis=1)] = np.inf
    order = np.argsort(effects)
    return np.sort(order[np.cumsum(effects[order]) <= SHARE * tol * energy])


@dataclass(frozen=True)
class Restricted(Solver):
    """Run `first` without the functionals `dropped`; continue with `then` on all if the certificate asks for it."""

    first: Solver
    then: Solver
    dropped: tuple[int, ...]

    @property
    def name(self) -> str:
        return self.first.name

    def check(self, system: FiniteProblem) -> None:
        self.then.check(system)

    def run(self, system: FiniteProblem, start: Iterate, monitor: Monitor) -> Iterate:
        rows = np.delete(np.arange(system.size), np.array(self.dropped, dtype=int))
        part = restricted(system, rows)

        def whole(iterate: Iterate) -> Iterate:
            a = zeros((system.size, iterate.a.shape[1]), system.Q)
            a[rows] = iterate.a
            if iterate.alpha is None:
                return Iterate(a, iterate.basis)
            alpha = zeros((system.size, iterate.a.shape[1]), system.Q)
            alpha[rows] = iterate.alpha
            return Iterate(a, iterate.basis, alpha)

        inner = InnerMonitor((1 - SHARE) * monitor.tol, outer=monitor, whole=whole)
        iterate = whole(self.first.run(part, Iterate(take_rows(start.a, rows), start.basis), inner))
        if certify(system, iterate, monitor.tol).within(monitor.tol):
            return iterate
        return self.then.run(system, iterate, monitor)


def restricted(system: FiniteProblem, rows: Vector) -> FiniteProblem:
    """Return the problem of some of the functionals, in the order of the terms."""
    terms = []
    for t in system.terms:
        kept = rows[(rows >= t.rows.start) & (rows < t.rows.stop)] - t.rows.start
        if len(kept):
            target, weight = (take_rows(array, kept) for array in (t.target, t.weight))
            terms.append(replace(t, rows=slice(0, len(kept)), target=target, weight=weight))
    return system.part(rows, terms)
