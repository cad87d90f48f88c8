"""A system without its rows of weight zero, such as those that a fold of a grid leaves out.

Their coefficients are zero.  What is left has fewer rows, and finite 1/w.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, indices, like, namespace, taken, to_numpy
from rkhs._finite.problem import FiniteProblem, Geometry, Iterate, consecutive
from rkhs._gram.matrix import diagonal_part


@dataclass(frozen=True, eq=False)
class Present:
    """The smaller system, and the way there and back."""

    whole: FiniteProblem
    system: FiniteProblem
    rows: np.ndarray[Any, Any]
    turn: Array  # R (r, r) of Q[rows] = Q_rows R

    @classmethod
    def of(cls, system: FiniteProblem) -> Present | None:
        """None where all rows have a weight."""
        counts = to_numpy(system.weight).max(axis=1, initial=0.0) > 0
        if counts.all():
            return None
        rows = np.flatnonzero(counts)
        Q, turn = namespace(system.Q).linalg.qr(taken(system.Q, rows))
        terms = []
        for t in system.terms:
            own = np.flatnonzero(counts[t.rows])
            here = {"rows": slice(0, len(own)), "target": taken(t.target, own), "weight": taken(t.weight, own)}
            terms.append(replace(t, **here))
        gram = diagonal_part(system.gram, rows)
        exact = diagonal_part(system.exact, rows) if system.inexact else gram
        geometry = Geometry(gram, exact, Q, system.definite, lambda: taken(system.geometry.sizes, rows))
        return cls(system, FiniteProblem(geometry, consecutive(terms), system.outputs), rows, turn)

    def there(self, iterate: Iterate) -> Iterate:
        """An iterate of the whole system, without the rows that are not here."""
        a = taken(iterate.a, self.rows)
        if not self.system.definite:
            a = self.system.inside(a)
        return Iterate(a, self.turn @ iterate.basis)

    def back(self, iterate: Iterate) -> Iterate:
        """One of this system as one of the whole."""
        alpha = None if iterate.alpha is None else self._spread(iterate.alpha)
        basis = like(np.linalg.pinv(to_numpy(self.turn)), self.turn) @ iterate.basis
        return Iterate(self._spread(iterate.a), basis, alpha)

    def _spread(self, a: Array) -> Array:
        found = self.whole.zeros(int(a.shape[1]))
        found[indices(self.rows, found)] = a
        return found
