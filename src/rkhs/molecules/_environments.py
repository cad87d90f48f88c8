"""Representations of the neighborhoods of atoms, with their Jacobians, and kernels of them.

The neighborhood of atom i is described by sums over its neighbors j, and over pairs of them (j, k), of smooth functions
of distances and angles: a representation in the manner of FCHL19 (Christensen, Bratholm, Faber and von Lilienfeld,
J. Chem. Phys. 152, 044107, 2020).  With C the cutoff and T = 1 + 3 cos cos cos of the angles of the triangle (the
factor of Axilrod and Teller),

    two atoms    sum over j of a kind          r_ij^-1.8 C(r_ij) N(s; r_ij)
    three atoms  sum over (j, k) of two kinds  13.4 T (r_ij r_ik r_jk)^-0.57 C C C B(s; r_ij, r_ik) h(a)

for radii s on a grid, N the log-normal density of FCHL19, B = exp(-2.7 (s - (r_ij + r_ik) / 2)^2), a the angle at i,
and h(a) = cos a and sin^2 a.  FCHL19 has sin a, which is not differentiable where three atoms are in a line.

It is invariant under rotations, translations and exchanges of neighbors of one kind, so that atoms of one kind share
what is learned about their neighborhoods.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import pi
from typing import Any

import numpy as np

from rkhs.extend import (
    Array,
    Atoms,
    Kernel,
    Matrix,
    PushedKernel,
    Vector,
    like,
    map_in_threads,
    namespace,
    to_numpy,
    zeros,
)

# The constants of FCHL19 for forces, where lengths are in Angstrom.
CUTOFF, RADII_2, RADII_3 = 8.0, 24, 20
DECAY_2, WIDTH_2 = 1.8, 0.32
DECAY_3, WIDTH_3, WEIGHT_3 = 0.57, 2.7, 13.4
ANGLES = 2  # functions of an angle
BOND = 1.09  # Angstrom, a bond of carbon and hydrogen: the typical distance of an atom to the nearest one

CACHED, DEVICE = 2**17, 2**25  # numbers in an array of three atoms, on CPUs and on accelerators
LOST = 1e-6  # fraction of the squared derivatives of a representation that a projection may leave out
SAMPLED = 1500  # derivatives from which a projection is computed


@dataclass(frozen=True, eq=False)
class AtomicEnvironments:
    """The representations of the neighborhoods of all atoms of a molecule.

    Parameters
    ----------
    kinds : ndarray of int of shape (atoms,)
        The kinds of the atoms, 0 to m - 1: atoms of one kind may be exchanged.
    unit : float
        The length of an Angstrom in the units of the positions.
    projections : tuple of m ndarrays of shape (q, p), optional
        Linear maps from the q functions to the p features of each kind of center; by default p = q.

    Examples
    --------
    >>> import numpy as np
    >>> water = np.array([[0.0, 0.0, 0.0, 0.96, 0.0, 0.0, -0.24, 0.93, 0.0]])
    >>> x, J = AtomicEnvironments(np.array([0, 1, 1])).jets(water, 1)[0]
    >>> x.shape, J.shape
    ((1, 168), (1, 9, 168))
    """

    kinds: Vector
    unit: float = 1.0
    projections: tuple[Matrix, ...] | None = None

    def __repr__(self) -> str:
        return f"AtomicEnvironments({len(self.kinds)} atoms of {self.count} kinds)"

    @property
    def count(self) -> int:
        """The number of kinds."""
        return int(np.max(self.kinds)) + 1

    def size(self, kind: int) -> int:
        """Return the number of features of a neighborhood of an atom of a kind."""
        if self.projections is not None:
            return int(self.projections[kind].shape[1])
        return self.count * RADII_2 + self.count * (self.count + 1) // 2 * ANGLES * RADII_3

    def projected(self, X: Matrix) -> AtomicEnvironments:
        """Return the representation on its principal directions of change at some geometries X (t, 3 atoms).

        Energies depend on the changes of features with positions.  The features of a kind are projected onto the
        leading right singular vectors of their Jacobians, up to a fraction `LOST` of the squared derivatives.
        """
        projections = []
        for kind in range(self.count):
            per_geometry = X.shape[1] * int(np.sum(self.kinds == kind))
            rows = X[: max(2, -(-SAMPLED // per_geometry))]
            slopes = np.concatenate([J.reshape(-1, J.shape[2]) for _, J in self.jets(rows, kind)])
            energies, directions = np.linalg.eigh(
                slopes @ slopes.T if len(slopes) < slopes.shape[1] else slopes.T @ slopes
            )
            energies, directions = energies[::-1], directions[:, ::-1]
            total = float(np.sum(energies)) or 1.0  # an atom without neighbors has no features that change
            rest = 1 - np.cumsum(energies) / total
            directions = directions[:, : int(np.searchsorted(-rest, -LOST)) + 1]
            if len(slopes) < slopes.shape[1]:
                directions = slopes.T @ directions
                directions /= np.maximum(np.linalg.norm(directions, axis=0), np.finfo(np.float64).tiny)
            projections.append(directions)
        return AtomicEnvironments(self.kinds, self.unit, tuple(projections))

    def pushed(self, kind: int, atoms: Atoms) -> tuple[Atoms, ...]:
        """Return atoms of f whose sum is equal to atoms of x -> sum of f(neighborhood of i) over i of a kind."""
        xp, X = namespace(atoms.points), atoms.points
        (t, n), (k, m) = X.shape, (atoms.per_point, atoms.order)
        rows: Any = slice(None)
        if k == 1 and t > 1:  # single functionals, several of them at one geometry
            changed = to_numpy(xp.any(X[1:] != X[:-1], axis=1))
            rows = np.concatenate([[0], np.cumsum(changed)])
            X = X[np.flatnonzero(np.concatenate([[True], changed]))]
        result = []
        for x, J in self.jets(X, kind, slopes=m > 0):
            p = int(x.shape[1])
            if m == 0:
                result.append(Atoms(x[rows], zeros((k, 0, p), x)))
            elif atoms.gradient:
                result.append(Atoms(x[rows], J[rows][:, :, None, :]))
            else:
                along = xp.reshape(atoms.directions, (*atoms.directions.shape[:-3], k, n)) @ J[rows]
                result.append(Atoms(x[rows], along[:, :, None, :]))
        return tuple(result)

    def jets(self, X: Array, kind: int, slopes: bool = True) -> list[tuple[Array, Array]]:
        """Return the features x (t, p) and their derivatives J (t, 3 atoms, p) of each center of a kind."""
        xp, centers, p = namespace(X), np.flatnonzero(self.kinds == kind), self.size(kind)
        t, n = int(X.shape[0]), len(self.kinds)
        if X.shape[1] != 3 * n:
            raise ValueError(f"{self!r} needs {3 * n} coordinates, got points of {int(X.shape[1])} features.")
        V = None if self.projections is None else like(self.projections[kind], X)
        results = [(zeros((t, p), X), zeros((t if slopes else 0, 3 * n, p), X)) for _ in centers]

        def add(start: int) -> None:
            rows = slice(start, start + step)
            batch = _Batch(xp.reshape(X[rows], (-1, n, 3)) / self.unit)
            for center, (x, J) in zip(centers, results, strict=True):
                self._add(batch, int(center), V, x[rows], J[rows] if slopes else None)

        on_cores = isinstance(X, np.ndarray)
        step = max(1, (CACHED if on_cores or X.device.type == "cpu" else DEVICE) // (n * n * RADII_3))
        for _ in (map_in_threads if on_cores else map)(add, range(0, t, step)):
            pass
        return results

    def _add(self, batch: _Batch, center: int, V: Array | None, x: Array, J: Array | None) -> None:
        """Write the features of one center, and their derivatives, for a batch of geometries."""
        xp, t, n = namespace(x), x.shape[0], len(self.kinds)
        others = np.delete(np.arange(n), center)
        by_kind = [np.flatnonzero(self.kinds[others] == kind) for kind in range(self.count)]
        D = None if J is None else xp.reshape(J, (t, n, 3, -1))
        toward = batch.units[:, center][:, others]  # u_ij, (t, n - 1, 3)

        def add(where: slice, neighbors: Any, values: Array, radial: Array, moved: Array | None) -> None:
            """Add features at `where`: values (t, j, q), slopes along r_ij (t, j, q), and along r_j (t, j, 3, q)."""
            block = None if V is None else V[where]
            total = xp.sum(values, axis=1)
            if block is None:
                x[:, where] += total
            else:
                x[...] += total @ block
            if D is None:
                return
            along = toward[:, neighbors][..., None] * radial[:, :, None, :]  # (t, j, 3, q)
            rest = -along if moved is None else moved - along
            targets = others[neighbors]
            # The positions of all atoms sum up to zero slope: translations change nothing.  Angles give atom i the
            # opposite of the slopes of its neighbors along r_ij, and those along r_jk cancel among j and k.
            if block is None:
                D[:, center, :, where] += xp.sum(along, axis=1) / self.unit
                D[:, targets, :, where] += rest / self.unit
            else:
                D[:, center] += (xp.sum(along, axis=1) @ block) / self.unit
                D[:, targets] += (rest @ block) / self.unit

        two, slope = batch.two_atoms(center, others)
        for kind, neighbors in enumerate(by_kind):
            if len(neighbors):
                where = slice(kind * RADII_2, (kind + 1) * RADII_2)
                add(where, neighbors, two[:, neighbors], slope[:, neighbors], None)
        if n < 3:
            return
        triangles = batch.three_atoms(center, others)
        first = self.count * RADII_2
        for other, seconds in enumerate(by_kind):
            if not len(seconds):
                continue
            values, radial, moved = triangles.sums(seconds)
            for kind, neighbors in enumerate(by_kind):
                if len(neighbors):
                    low, high = min(kind, other), max(kind, other)
                    start = first + (high * (high + 1) // 2 + low) * ANGLES * RADII_3
                    where = slice(start, start + ANGLES * RADII_3)
                    add(where, neighbors, values[:, neighbors], radial[:, neighbors], moved[:, neighbors])


@dataclass(frozen=True)
class AtomicSum(PushedKernel):
    """The kernel of functions that are sums over atoms of functions of their neighborhoods.

        f(R) = sum_i f_kind(i)(phi_i(R)),      k(R, R') = sum over atoms i and j of one kind of k_1(phi_i(R), phi_j(R'))

    Atoms of one kind have the same function, so that f does not change if they are exchanged.

    Parameters
    ----------
    kernel : Kernel
        The positive definite kernel k_1 of the representation of a neighborhood.
    environments : AtomicEnvironments
        The representations phi_i.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> kernel = AtomicSum(rkhs.Gaussian(30.0), AtomicEnvironments(np.array([0, 1, 1])))
    >>> water = np.array([[0.0, 0.0, 0.0, 0.96, 0.0, 0.0, -0.24, 0.93, 0.0]])
    >>> kernel(water).round(6)  # one atom of oxygen, and two of hydrogen with the same neighborhood
    array([[5.]])
    """

    kernel: Kernel
    environments: AtomicEnvironments

    def __post_init__(self) -> None:
        self._check_definite()

    def __repr__(self) -> str:
        return f"AtomicSum({self.kernel!r}, {self.environments!r})"

    def image(self, dimension: int) -> int:
        return self.environments.size(0)

    def smoothness(self, dimension: int) -> float:
        return min(super().smoothness(dimension), 2.0)  # the representations have first derivatives only

    def pushes(self) -> Iterator[tuple[float, Any, Any]]:
        for kind in range(self.environments.count):
            push = partial(self.environments.pushed, kind)
            yield 1.0, push, push


class _Batch:
    """The distances and unit vectors between all atoms of a few geometries, with cutoffs."""

    def __init__(self, positions: Array) -> None:
        xp = namespace(positions)
        n = int(positions.shape[1])
        unit = like(np.eye(n), positions)
        difference = positions[:, :, None] - positions[:, None]
        r = xp.sqrt(xp.sum(difference**2, axis=-1)) + unit
        if bool(xp.any(r == 0)):
            row, i, j = np.argwhere(to_numpy(r) == 0)[0].tolist()
            raise ValueError(f"Atoms {i} and {j} of row {row} coincide: their neighborhoods are not defined.")
        self.distances, self.units = r, difference / r[..., None]
        near = xp.astype(r < CUTOFF, r.dtype) - unit  # no atom is its own neighbor
        self.cutoff = near * (xp.cos(pi * r / CUTOFF) + 1) / 2
        self.cutoff_slope = -near * (pi / CUTOFF / 2) * xp.sin(pi * r / CUTOFF)

    def two_atoms(self, i: int, others: Vector) -> tuple[Array, Array]:
        """Return r^-1.8 C(r) N(s; r) for the neighbors of atom i, and its derivative along r: (t, n - 1, RADII_2)."""
        xp, r = namespace(self.distances), self.distances[:, i][:, others][..., None]
        radii = like(np.linspace(0, CUTOFF, RADII_2 + 1)[1:], r)
        variance = xp.log(1 + WIDTH_2 / r**2)
        slope = -2 * WIDTH_2 / (r**3 + WIDTH_2 * r)  # of the variance
        e = xp.log(radii) - xp.log(r) + variance / 2
        density = xp.exp(-(e**2) / (2 * variance)) / (xp.sqrt(2 * pi * variance) * radii)
        change = e * (1 / r - slope / 2) / variance + (e**2 / variance - 1) * slope / (2 * variance)
        C, dC = (c[:, i][:, others][..., None] for c in (self.cutoff, self.cutoff_slope))
        factor = C * r**-DECAY_2
        return factor * density, (dC * r**-DECAY_2 - DECAY_2 * factor / r + factor * change) * density

    def three_atoms(self, i: int, others: Vector) -> _Triangles:
        return _Triangles(self, i, others)


class _Triangles:
    """The functions of three atoms around atom i, for all ordered pairs (j, k) of its neighbors.

    With a = r_ij, b = r_ik and c = r_jk, a function is w(a, b, c) h(a, b, c) B(s - (a + b)/2).  Sums over ordered pairs
    count each pair twice, so that values have a factor 1/2, and the slope along r_ij is that of the first argument.
    """

    def __init__(self, batch: _Batch, i: int, others: Vector) -> None:
        xp = namespace(batch.distances)
        square = np.ix_(others, others)
        a, b = batch.distances[:, i][:, others][:, :, None], batch.distances[:, i][:, others][:, None, :]
        c = batch.distances[:, square[0], square[1]]
        self.units = batch.units[:, square[0], square[1]]  # u_jk, (t, j, k, 3)
        x = (a * a + b * b - c * c) / (2 * a * b)  # cosines of the angles at i, j and k
        y = (a * a + c * c - b * b) / (2 * a * c)
        z = (b * b + c * c - a * a) / (2 * b * c)
        x_a, x_c = 1 / b - x / a, -c / (a * b)
        y_a, y_c = 1 / c - y / a, 1 / a - y / c
        z_a, z_c = -a / (b * c), 1 / b - z / c
        Ca, dCa = (values[:, i][:, others][:, :, None] for values in (batch.cutoff, batch.cutoff_slope))
        Cb = batch.cutoff[:, i][:, others][:, None, :]
        Cc, dCc = (values[:, square[0], square[1]] for values in (batch.cutoff, batch.cutoff_slope))
        decay = WEIGHT_3 * (a * b * c) ** -DECAY_3 * Cb
        T = 1 + 3 * x * y * z
        w = decay * T * Ca * Cc
        T_a = 3 * (x_a * y * z + x * y_a * z + x * y * z_a)
        T_c = 3 * (x_c * y * z + x * y_c * z + x * y * z_c)
        w_a = decay * Cc * (T_a * Ca + T * dCa) - DECAY_3 * w / a
        w_c = decay * Ca * (T_c * Cc + T * dCc) - DECAY_3 * w / c
        angles = ((x, x_a, x_c), (1 - x * x, -2 * x * x_a, -2 * x * x_c))
        self.values = [w * h for h, _, _ in angles]  # (t, j, k) each
        self.slopes = [(w_a * h + w * h_a, w_c * h + w * h_c) for h, h_a, h_c in angles]
        radii = like(np.linspace(0, CUTOFF, RADII_3 + 1)[1:], a)
        offsets = radii - (a + b)[..., None] / 2
        self.bumps = xp.exp(-WIDTH_3 * offsets**2)  # (t, j, k, RADII_3)
        self.tilted = WIDTH_3 * offsets * self.bumps  # their derivatives along a

    def sums(self, seconds: Vector) -> tuple[Array, Array, Array]:
        """Return the sums over k of a kind of values, slopes along r_ij, and slopes along r_j through r_jk."""
        xp = namespace(self.bumps)
        bumps, tilted, units = self.bumps[:, :, seconds], self.tilted[:, :, seconds], self.units[:, :, seconds]
        coefficients = []
        for value, (along_a, along_c) in zip(self.values, self.slopes, strict=True):
            of_c = along_c[:, :, seconds][..., None] * units
            columns = [value[:, :, seconds][..., None] / 2, along_a[:, :, seconds][..., None], of_c]
            coefficients.append(xp.concat(columns, axis=-1))
        table = xp.matrix_transpose(xp.concat(coefficients, axis=-1)) @ bumps  # (t, j, ANGLES * 5, RADII_3)
        ahead = xp.stack([value[:, :, seconds] for value in self.values], axis=2) @ tilted  # (t, j, ANGLES, RADII_3)
        t, j = table.shape[:2]
        table = xp.reshape(table, (t, j, ANGLES, 5, RADII_3))
        values = xp.reshape(table[:, :, :, 0], (t, j, -1))
        radial = xp.reshape(table[:, :, :, 1] + ahead, (t, j, -1))
        moved = xp.reshape(xp.permute_dims(table[:, :, :, 2:], (0, 1, 3, 2, 4)), (t, j, 3, -1))
        return values, radial, moved
