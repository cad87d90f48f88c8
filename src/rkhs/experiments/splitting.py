"""Problems that differ in their weights alone, solved together: alternating directions (ADMM) on one inverse.

With a second copy z of the image u = Ga + Qc, which is asked to be equal to it at the price R per row, and multipliers
Rd, one step is

    a = argmin of 1/2 a'Ga + 1/2 |u - z + d|_R^2,    z = prox of the losses, with steps w / R, at u + d,    d += u - z

where the first line is a = P(z - d), u = z - d - a / R, and P is the inverse of G + 1 / R on {Q'a = 0}: one matrix for
all weights, and one product with it for all columns.  Kinks and large weights cost nothing beyond their prox: where
invariances are nearly constraints, some ten steps do what takes `Descent` hundreds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from rkhs.finite.system import Iterate, System

Array = np.ndarray[Any, Any]
STIFFNESS = {True: 3.0, False: 60.0}  # all losses smooth? -> R times the mean square of the norms of representers
RELAXED = 1.6  # u is taken so much further from the last z
CHECKED = 5  # steps between looks at what is open
MOST = 20_000  # steps
TINY = 1e-12  # step in place of zero, for rows that are left out


@dataclass
class State:
    """The columns z and d of each problem, with the a and u of the last step."""

    z: Array
    d: Array
    a: Array
    u: Array


class Splitting:
    """The problems of a system in memory with the weights (N, k), one in each column.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from rkhs.solvers.dense import in_memory
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([-1.0, 1.0, 1.0])
    >>> problem = rkhs.Problem(rkhs.Gaussian(1.0), [rkhs.Term(rkhs.Evaluation(X), rkhs.Hinge(), y)], rkhs.Constant())
    >>> together = Splitting(in_memory(problem.system), np.ones((3, 1)) * [0.5, 100.0])
    >>> together.run(1e-6)
    >>> together.images.round(3)
    array([[ 0.568, -1.   ],
           [ 0.961,  1.   ],
           [ 1.   ,  1.198]])
    """

    def __init__(self, system: System, weights: Array) -> None:
        self.system = system
        G = np.asarray(system.gram.dense())
        norms = [np.full(t.target.shape, np.mean(np.diag(G)[t.rows])) for t in system.terms]
        self.R = STIFFNESS[system.smooth] / np.concatenate(norms)
        inverse = scipy.linalg.inv(G + np.diag(1 / self.R[:, 0]), check_finite=False)
        onto = inverse @ system.Q
        self.P = inverse - onto @ np.linalg.solve(system.Q.T @ onto, onto.T)
        self.steps = np.maximum(weights / self.R, TINY)
        self.state = State(*(np.zeros(weights.shape) for _ in range(4)))

    @property
    def images(self) -> Array:
        """u = Ga + Qc of each problem, (N, k)."""
        return self.state.u

    def iterate(self, which: int) -> Iterate:
        """The coefficients of one problem, and its point of the dual."""
        one = [which]
        rest = self.state.u[:, one] - self.system.gram @ self.state.a[:, one]
        return Iterate(self.state.a[:, one], self.system.Q.T @ rest, -self.R * self.state.d[:, one])

    def run(self, tol: float) -> None:
        """Go on until no row of u and z differs, or has changed, by more than tol; what is done is left alone."""
        still = np.arange(self.steps.shape[1])
        for _ in range(MOST // CHECKED):
            if not len(still):
                return
            part = State(*(column[:, still] for column in vars(self.state).values()))
            for _ in range(CHECKED):
                before = part.z
                self._step(part, self.steps[:, still])
            for mine, its in zip(vars(self.state).values(), vars(part).values(), strict=True):
                mine[:, still] = its
            away = np.maximum(np.abs(part.u - part.z), np.abs(part.z - before))
            still = still[np.max(away, axis=0) > tol]
        raise RuntimeError(f"{len(still)} problems are not solved to {tol} after {MOST} steps.")

    def _step(self, part: State, steps: Array) -> None:
        goal = part.z - part.d
        part.a = self.P @ goal
        part.u = goal - part.a / self.R
        ahead = RELAXED * part.u + (1 - RELAXED) * part.z + part.d
        part.z = np.concatenate([t.loss.prox(ahead[t.rows], t.target, steps[t.rows]) for t in self.system.terms])
        part.d = ahead - part.z
