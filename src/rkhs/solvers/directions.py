"""Directions that many problems with one Gram share, and their images."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.linalg

from rkhs.backend.arrays import Array, like, namespace, to_numpy, zeros
from rkhs.finite.system import System
from rkhs.gram import Gram
from rkhs.gram.matrix import GramMatrix
from rkhs.linalg.scaling import inverse_root
from rkhs.solvers.dense import Matrix

CACHED = 2**12  # rows of a few columns that a cache holds while they are transposed
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
        self.D = zeros((capacity, system.size), system.Q)  # the memory of zeros is taken when they are first changed
        self.U = zeros((capacity, system.size), system.Q)
        self.first, self.rows = 0, np.zeros(0, dtype=int)  # so many directions are zero but on these rows
        r = self.rank = int(system.Q.shape[1])
        # E'WE of each quadratic term, over the basis first and the directions after it
        self.moments = {k: np.zeros((r + capacity,) * 2) for k, t in enumerate(system.terms) if t.loss.quadratic}
        self._add_moments(slice(0, r), system.Q.T)

    def images(self, rows: slice) -> Array:
        """E = [Q, U'] on some rows: the change of u for each of the small problem's variables."""
        return namespace(self.U).concat([self.system.Q[rows], self.U[: self.count, rows].T], axis=1)

    def at(self, tau: Array) -> tuple[Array, Array]:
        """The points a = D'tau (N, b) and their images, for coefficients (m, b)."""
        return self._combined(tau.T).T, (tau.T @ self.U[: self.count]).T

    def _combined(self, tau: Array) -> Array:
        """tau D (b, N), for coefficients (b, m)."""
        a = tau[:, self.first :] @ self.D[self.first : self.count]
        if self.first:
            a[:, self.rows] += tau[:, : self.first] @ self.D[: self.first, self.rows]
        return a

    def _inside(self, image: Array) -> Array:
        """The coefficients (b, m) of the projections on the directions, from images (b, N)."""
        own = image @ self.D[self.first : self.count].T
        if not self.first:
            return own
        return namespace(own).concat([image[:, self.rows] @ self.D[: self.first, self.rows].T, own], axis=1)

    def add(self, V: Array, image: Array) -> None:
        """Append what is new in the columns of V (N, b), with images GV."""
        xp = namespace(V)
        sizes = xp.sqrt(xp.clip(xp.vecdot(V, image, axis=0), 1e-300, None))
        V, image = (V / sizes).T, (image / sizes).T
        for _ in range(2):  # twice is enough, and once where little was inside
            inside = self._inside(image)
            V, image = V - self._combined(inside), image - inside @ self.U[: self.count]
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
        turn = like(inverse_root(block, DEPENDENT)[:, -count:], self.D)
        new = slice(self.count, self.count + int(turn.shape[1]))
        self.D[new, rows] = turn.T
        if self.count == 0:
            self.first, self.rows = new.stop, rows
        columns = _columns(self.system, rows)
        for k in range(0, int(turn.shape[1]), TOGETHER):
            some = columns @ turn[:, k : k + TOGETHER]
            own = slice(new.start + k, new.start + k + int(some.shape[1]))
            for start in range(0, self.system.size, CACHED):
                self.U[own, start : start + CACHED] = some[start : start + CACHED].T
        self.count = new.stop
        self._add_moments(slice(self.rank + new.start, self.rank + new.stop), self.U[new])

    def restart(self, kept: Matrix) -> Matrix:
        """Make room: keep the representers, the span of the columns of `kept` (m, k) and the latest directions.

        All but the representers take half of the room.  Returns the map (m, new m) from the coefficients of the new
        directions to those of the old.
        """
        first, others = self.first, self.count - self.first
        latest = np.eye(others)[:, ::-1][:, : max(1, (self.capacity - first) // 2 - kept.shape[1])]
        turned = np.linalg.qr(np.concatenate([kept[first:], latest], axis=1))[0]
        turn, new = like(turned.T, self.D), first + turned.shape[1]
        for start in range(0, self.system.size, CHUNK):
            columns = slice(start, start + CHUNK)
            for directions in (self.D, self.U):
                directions[first:new, columns] = turn @ directions[first : self.count, columns]
        r, old = self.rank, self.rank + self.count
        R = scipy.linalg.block_diag(np.eye(first), turned)
        whole = scipy.linalg.block_diag(np.eye(r), R)
        for moment in self.moments.values():
            moment[: r + new, : r + new] = whole.T @ moment[:old, :old] @ whole
        self.count = new
        return np.asarray(R)

    def _add_moments(self, new: slice, E: Array) -> None:
        for k, moment in self.moments.items():
            t = self.system.terms[k]
            weight, own = t.weight[:, 0], E[:, t.rows]
            xp = namespace(weight)
            common = weight.shape[0] > 0 and bool(xp.all(weight == weight[0]))
            weighted = own if common else own * weight  # no copy where weights are equal
            known = weighted @ self.system.Q[t.rows], weighted @ self.U[: self.count, t.rows].T
            against = np.concatenate([to_numpy(part) for part in known], axis=1) * (float(weight[0]) if common else 1.0)
            moment[new, : new.stop] = against
            moment[: new.stop, new] = against.T


def _columns(system: System, rows: Matrix) -> Array | Gram:
    """Some columns of the Gram matrix, as an operator where the matrix is one."""
    if isinstance(system.exact, GramMatrix):
        return system.exact.block(slice(None), rows)
    return replace(system.exact, M=system.functionals.take(rows))
