"""Directions that many problems with one Gram share, and their images."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from rkhs.backend.arrays import Array, like, namespace, to_numpy, zeros
from rkhs.finite.system import System
from rkhs.gram import Gram
from rkhs.gram.matrix import GramMatrix
from rkhs.solvers.dense import Matrix

CHUNK = 2**16  # columns that are turned together
DEPENDENT = 1e-10  # squared norm left by orthogonalisation under which a direction is not new
LITTLE = 1e-2  # of a direction of length one
TOGETHER = 16  # columns of a product


class Directions:
    """H-orthonormal directions D (m, N) with their images U (m, N), and what quadratic terms see of them."""

    def __init__(self, system: System, capacity: int) -> None:
        self.system = system
        self.capacity = capacity
        self.count = 0
        self.D = zeros((capacity, system.size), system.Q)
        self.U = zeros((capacity, system.size), system.Q)
        r = self.rank = int(system.Q.shape[1])
        # E'WE of each quadratic term, over the basis first and the directions after it
        self.moments = {k: np.zeros((r + capacity,) * 2) for k, t in enumerate(system.terms) if t.loss.quadratic}
        self._add_moments(slice(0, r), system.Q.T)

    def images(self, rows: slice) -> Array:
        """E = [Q, U'] on some rows: the change of u for each of the small problem's variables."""
        return namespace(self.U).concat([self.system.Q[rows], self.U[: self.count, rows].T], axis=1)

    def add(self, V: Array, image: Array) -> None:
        """Append what is new in the columns of V (N, b), with images GV."""
        xp = namespace(V)
        sizes = xp.sqrt(xp.clip(xp.vecdot(V, image, axis=0), 1e-300, None))
        V, image = (V / sizes).T, (image / sizes).T
        for _ in range(2):  # twice is enough, and once where little was inside
            inside = image @ self.D[: self.count].T
            V, image = V - inside @ self.D[: self.count], image - inside @ self.U[: self.count]
            if self.count == 0 or float(xp.max(xp.abs(inside))) < LITTLE:
                break
        values, vectors = np.linalg.eigh(to_numpy(V @ image.T).astype(np.float64))
        kept = np.flatnonzero(values > DEPENDENT)[::-1][: self.capacity - self.count]
        turn = like((vectors[:, kept] / np.sqrt(values[kept])).T, V)
        new = slice(self.count, self.count + len(kept))
        self.D[new], self.U[new] = turn @ V, turn @ image
        self.count = new.stop
        self._add_moments(slice(self.rank + new.start, self.rank + new.stop), self.U[new])

    def add_representers(self, rows: Matrix, count: int) -> None:
        """Append the `count` leading directions in the span of the representers of some rows, all of it if so many.

        Their images need those columns of the Gram matrix alone.
        """
        block = to_numpy(self.system.gram.block(rows, rows)).astype(np.float64)
        scale = 1 / np.sqrt(np.clip(np.diag(block), 1e-300, None))
        values, vectors = np.linalg.eigh(scale[:, None] * block * scale)
        kept = np.flatnonzero(values > DEPENDENT)[-count:]
        turn = like(scale[:, None] * (vectors[:, kept] / np.sqrt(values[kept])), self.D)
        new = slice(self.count, self.count + int(turn.shape[1]))
        self.D[new, rows] = turn.T
        columns = _columns(self.system, rows)
        for k in range(0, int(turn.shape[1]), TOGETHER):
            some = (columns @ turn[:, k : k + TOGETHER]).T
            self.U[new.start + k : new.start + k + int(some.shape[0])] = some
        self.count = new.stop
        self._add_moments(slice(self.rank + new.start, self.rank + new.stop), self.U[new])

    def restart(self, kept: Matrix) -> Matrix:
        """Make room: keep the span of the columns of `kept` (m, k) and the latest directions, half of the capacity.

        Returns the map (m, new m) from the coefficients of the new directions to those of the old.
        """
        latest = np.eye(self.count)[:, ::-1][:, : max(1, self.capacity // 2 - kept.shape[1])]
        R = np.linalg.qr(np.concatenate([kept, latest], axis=1))[0]
        turn, new = like(R.T, self.D), R.shape[1]
        for start in range(0, self.system.size, CHUNK):
            columns = slice(start, start + CHUNK)
            for directions in (self.D, self.U):
                directions[:new, columns] = turn @ directions[: self.count, columns]
        r, old = self.rank, self.rank + self.count
        whole = np.zeros((old, r + new))
        whole[:r, :r], whole[r:, r:] = np.eye(r), R
        for moment in self.moments.values():
            moment[: r + new, : r + new] = whole.T @ moment[:old, :old] @ whole
        self.count = new
        return R

    def _add_moments(self, new: slice, E: Array) -> None:
        for k, moment in self.moments.items():
            t = self.system.terms[k]
            weighted = E[:, t.rows] * t.weight[:, 0]
            known = weighted @ self.system.Q[t.rows], weighted @ self.U[: self.count, t.rows].T
            against = np.concatenate([to_numpy(part) for part in known], axis=1)
            moment[new, : new.stop] = against
            moment[: new.stop, new] = against.T


def _columns(system: System, rows: Matrix) -> Array | Gram:
    """Some columns of the Gram matrix, as an operator where the matrix is one."""
    if isinstance(system.exact, GramMatrix):
        return system.exact.block(slice(None), rows)
    return replace(system.exact, M=system.functionals.take(rows))
