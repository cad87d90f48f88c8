"""The problem on the span of a few directions, in its coefficients.

    min over theta = (c, tau)   1/2 theta'S theta + linear'theta + constant + sum_i w_i loss_i((E theta)_i)

The sum is over the rows whose losses are not quadratic; the quadratic ones are in S, linear and constant.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rkhs.backend.arrays import Array, like, namespace
from rkhs.finite.system import Rows, System
from rkhs.solvers.dense import double
from rkhs.solvers.reduced import Matrix, Reduced
from rkhs.solvers.subspace import Restricted


@dataclass(frozen=True, eq=False)
class SmallProblem:
    """The small problem; `others` are the rows of one output and their E, `rank` is the number of the c."""

    square: Matrix
    linear: Matrix
    constant: float
    others: list[tuple[Rows, Array]]
    rank: int

    @property
    def _restricted(self) -> Restricted:
        rowwise = [(t, namespace(e).zeros_like(t.target[:, 0]), e) for t, e in self.others]
        return Restricted(0.0, self.linear, self.square, self.constant, rowwise)

    def value(self, theta: Matrix) -> float:
        return self._restricted.value(theta)

    def minimise(self, start: Matrix, rest: System, tol: float) -> tuple[Matrix, Matrix]:
        """theta, and alpha = -w loss'(u), or what stands in for it, on the rows; to rounding where losses are smooth.

        `rest` is any system of these rows, in NumPy.  Other losses are eliminated, to a relative gap of tol.
        """
        if all(t.loss.smooth for t, _ in self.others):
            theta = self._restricted.minimise(np.concatenate([start, np.zeros(len(self.linear) - len(start))]))
            slopes = [t.weight[:, 0] * t.loss.gradient(e @ like(theta, e), t.target[:, 0]) for t, e in self.others]
            return theta, np.concatenate([np.zeros(0), *(-double(slope) for slope in slopes)])
        rows = tuple(
            replace(own, loss=t.loss, target=double(t.target), weight=double(t.weight))
            for own, (t, _) in zip(rest.terms, self.others, strict=True)
        )
        E = np.concatenate([double(e) for _, e in self.others])
        return Reduced(rest, rows, E, self.square, self.linear, self.rank).solve(tol)
