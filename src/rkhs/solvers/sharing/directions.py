"""Directions that many problems with one Gram share, and their images."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from rkhs._backend.arrays import Array, Matrix, like, namespace, to_numpy, zeros
from rkhs._backend.memory import tile_entries
from rkhs._finite.problem import FiniteProblem
from rkhs._linalg.saddle import inverse_root

CACHED = 2**12  # rows of a few columns that a cache holds while they are transposed
CHUNK = 2**16  # columns that are turned together
DEPENDENT = 1e-10  # squared norm left by orthogonalisation under which a direction is not new
ACCURATE = 1e-9  # error of moments from formulas that small problems do not feel
LITTLE = 1e-2  # of a direction of length one
COPIES = 4  # of some rows of a product that are alive at once


class Directions:
    """H-orthonormal directions D (m, N) with their images U (m, N), and what quadratic terms see of them."""

    def __init__(self, system: FiniteProblem, capacity: int) -> None:
        self.system = system
        self.capacity = capacity
        self.count = 0
        self.D = zeros((capacity, system.size), system.Q)  # the memory of zeros is taken when they are first changed
        self.U = zeros((capacity, system.size), system.Q)
        self.first, self.rows = 0, np.zeros(0, dtype=int)  # so many directions are zero but on these rows
        self.turn = zeros((0, 0), system.Q)  # their coefficients there (rows, first)
        self.filled = True  # whether their images are there, on other rows than these
        self.asked = 0  # images of combinations of them that were computed without
        r = self.rank = int(system.Q.shape[1])
        # E'WE of each quadratic term, over the basis first and the directions after it
        self.moments = {k: np.zeros((r + capacity,) * 2) for k, t in enumerate(system.terms) if t.loss.quadratic}
        self._add_moments(slice(0, r), system.Q.T)

    def images(self, rows: slice) -> Array:
        """E = [Q, U'] on some rows: the change of u for each of the small problem's variables."""
        if not (self.filled or rows.start in self.rows):
            self._fill()
        return namespace(self.U).concat([self.system.Q[rows], self.U[: self.count, rows].T], axis=1)

    def at(self, tau: Array) -> tuple[Array, Array]:
        """The points a = D'tau (N, b) and their images, for coefficients (m, b)."""
        return self._combined(tau.T).T, self._image(tau.T).T

    def _image(self, tau: Array) -> Array:
        """tau U (b, N), for coefficients (b, m)."""
        if 2 * self.asked > self.first:
            self._fill()
        if self.filled:
            return tau @ self.U[: self.count]
        self.asked += int(tau.shape[0])
        image = _by_rows(self.system.exact.part(slice(None), self.rows) @ (self.turn @ tau[:, : self.first].T))
        if self.count > self.first:
            image += tau[:, self.first :] @ self.U[self.first : self.count]
        return image

    def _combined(self, tau: Array) -> Array:
        """tau D (b, N), for coefficients (b, m)."""
        a = tau[:, self.first :] @ self.D[self.first : self.count]
        if self.first:
            a[:, self.rows] += tau[:, : self.first] @ self.D[: self.first, self.rows]
        return a

    def _inside(self, image: Array) -> Array:
        """The coefficients (b, m) of the projections on the directions, from images (b, N).

        Those on representers are right to rounding, for a second look needs their rows alone.
        """
        own = image @ self.D[self.first : self.count].T
        if not self.first:
            return own
        D, U, left = self.D[: self.first, self.rows], self.U[: self.first, self.rows], image[:, self.rows]
        inside = left @ D.T
        inside += (left - inside @ U) @ D.T
        return namespace(own).concat([inside, own], axis=1)

    def add(self, V: Array, image: Array, rows: Matrix | None = None) -> None:
        """Append what is new in the columns of V (N, b), or of some of its rows alone, with images GV (N, b)."""
        xp = namespace(image)
        image = _by_rows(image)
        V = self._spread(V, rows)
        sizes = xp.sqrt(xp.clip(xp.vecdot(V, image), 1e-300, None))[:, None]
        V /= sizes
        image /= sizes
        for _ in range(2):  # twice is enough, and once where little was inside
            inside = self._inside(image)
            V -= self._combined(inside)
            image -= self._image(inside)
            if self.count == self.first or float(xp.max(xp.abs(inside[:, self.first :]))) < LITTLE:
                break
        values, vectors = np.linalg.eigh(to_numpy(V @ image.T).astype(np.float64))
        kept = np.flatnonzero(values > DEPENDENT)[::-1][: self.capacity - self.count]
        turn = like((vectors[:, kept] / np.sqrt(values[kept])).T, V)
        new = slice(self.count, self.count + len(kept))
        self.D[new], self.U[new] = turn @ V, turn @ image
        self.count = new.stop
        self._add_moments(slice(self.rank + new.start, self.rank + new.stop), self.U[new])

    def _spread(self, V: Array, rows: Matrix | None) -> Array:
        """The columns of V as rows (b, N), zero but on the given ones."""
        if rows is None:
            return _by_rows(V)
        spread = zeros((int(V.shape[1]), self.system.size), V)
        spread[:, rows] = V.T
        return spread

    def add_representers(self, rows: Matrix, count: int) -> None:
        """Append the `count` leading directions in the span of the representers of some rows, all of it if so many.

        Their images need those columns of the Gram matrix alone.
        """
        block = to_numpy(self.system.exact.block(rows, rows)).astype(np.float64)
        R = inverse_root(block, DEPENDENT)[:, -count:]
        turn = self.turn = like(R, self.D)
        new = slice(self.count, self.count + int(turn.shape[1]))
        self.D[new, rows] = turn.T
        self.U[new, rows] = like(block @ R, self.D).T
        if self.count == 0:
            self.first, self.rows = new.stop, rows
        self.count = new.stop
        eps = float(namespace(self.D).finfo(self.D.dtype).eps)
        lost = eps * np.max(np.abs(R), initial=0.0) ** 2  # of moments, by turning them
        if self.first < new.stop or lost > ACCURATE or not self._add_closed_moments():
            self._fill()
            self._add_moments(slice(self.rank + new.start, self.rank + new.stop), self.U[new])

    def _fill(self) -> None:
        """The images of the representers on all rows, for those who need them, or have paid half as much without."""
        for some in _pieces(self.system, self.first):
            self.U[: self.first, some] = (self.system.exact.part(some, self.rows) @ self.turn).T
        self.filled, self.asked = True, 0

    def _add_closed_moments(self) -> bool:
        """The moments of the representers from formulas, if there is one for each quadratic term."""
        system, found = self.system, {}
        for k in self.moments:
            t = system.terms[k]
            if system.exact.stored:
                return False
            gram = system.exact.part(t.rows, self.rows)
            raw = gram.gradient_moments(t.weight[:, 0])
            if raw is None:
                return False
            with_basis = system.exact.part(self.rows, t.rows) @ (t.weight * system.Q[t.rows])
            found[k] = to_numpy(self.turn.T @ raw @ self.turn), to_numpy(self.turn.T @ with_basis)
        self.filled = False
        r, new = self.rank, slice(self.rank, self.rank + self.first)
        for k, (square, with_basis) in found.items():
            self.moments[k][new, new] = square
            self.moments[k][new, :r], self.moments[k][:r, new] = with_basis, with_basis.T
        return True

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
            known = weighted @ self.system.Q[t.rows], self._against(weighted, t.rows)
            against = np.concatenate([to_numpy(part) for part in known], axis=1) * (float(weight[0]) if common else 1.0)
            moment[new, : new.stop] = against
            moment[: new.stop, new] = against.T

    def _against(self, weighted: Array, rows: slice) -> Array:
        """The sums (b, m) of weighted values (b, n) on some rows times the images there."""
        first = 0 if self.filled else self.first
        own = weighted @ self.U[first : self.count, rows].T
        if not first:
            return own
        across = self.system.exact.part(self.rows, rows) @ weighted.T
        return namespace(own).concat([across.T @ self.turn, own], axis=1)


def _by_rows(V: Array) -> Array:
    """The columns (N, b) as rows (b, N) of an array of their own, one after the other in memory."""
    found = zeros((int(V.shape[1]), int(V.shape[0])), V)
    for start in range(0, int(V.shape[0]), CACHED):
        found[:, start : start + CACHED] = V[start : start + CACHED].T
    return found


def _pieces(system: FiniteProblem, columns: int) -> list[slice]:
    """Consecutive rows, whole points, of which so many columns stay in a cache."""
    most = tile_entries(system.exact.budget, system.Q, COPIES) // max(columns, 1)
    firsts = system.exact.firsts
    cuts = np.unique(firsts[np.searchsorted(firsts, np.arange(0, system.size, max(most, 1)), side="right") - 1])
    return [slice(int(start), int(stop)) for start, stop in zip(cuts, [*cuts[1:], system.size], strict=True)]
