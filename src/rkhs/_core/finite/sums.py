"""Loss blocks in explicit features: moments of squared losses and rows of other losses, summed over blocks of data.

With f = sum_j c_j p_j + sum_a tau_a psi_a and theta = (c, tau), a term of squared losses is

    sum_i w_i ((E theta)_i - b_i)^2 = theta'M theta - 2 m'theta + constant,    E = [P, L(psi)]

with M = E'WE, m = E'Wb and b'Wb, sums over rows that are computed one tile at a time, without storing E.  Other losses
need their rows E, which are stored up to a limit (`KEPT_BYTES`).

Rows belong to groups whose weights can be changed later: row i has the share s_ij in group j, and with a factor f_j for
each group its weight is w_i sum_j s_ij f_j.  A fold excludes a group by a factor of 0, and a grid of weights multiplies
all groups, without another pass over the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import add
from typing import Any, NamedTuple

import numpy as np

from rkhs._core.backend.arrays import Array, Matrix, Vector, like, namespace, to_numpy, unique_rows, zeros
from rkhs._core.backend.memory import out_of_memory, release_memory
from rkhs._core.calculus.function_spaces import FunctionSpace, Polynomials
from rkhs._core.finite.term import Term
from rkhs._core.gram.jets import same_points
from rkhs._core.gram.rounding import cancellation_ratio, magnitudes
from rkhs._core.limits import limits
from rkhs._core.progress import report_progress
from rkhs.functionals._base import Functional, pointwise
from rkhs.losses._base import Loss
from rkhs.spaces._base import TILE_ROWS, FiniteSpace, Orthonormal, square

KEPT_BYTES = 2**29  # memory limit, in bytes, for the rows of losses that are not quadratic


@dataclass(frozen=True, eq=False)
class Moments:
    """The moments F'WF = [M, m; m', b'Wb] with F = [E, b] of a squared loss, for each group of rows."""

    loss: Loss
    sums: Array  # (g, r + p + c, r + p + c)
    cancellation_ratio: float = 1.0  # the largest ratio of the magnitudes of rows to their norms (cancellation)
    strongest: float = 0.0  # the largest product of the weight of a row and its squared magnitude
    count: int = 0  # number of functionals with a positive weight

    def __add__(self, other: Moments) -> Moments:
        ratio = max(self.cancellation_ratio, other.cancellation_ratio)
        strongest = max(self.strongest, other.strongest)
        return Moments(self.loss, self.sums + other.sums, ratio, strongest, self.count + other.count)

    def times(self, factor: float) -> Moments:
        """Return the moments with all weights multiplied by a factor."""
        return replace(self, sums=factor * self.sums, strongest=factor * self.strongest)

    def weighted(self, factors: Any) -> Matrix:
        """Return F'WF with weights multiplied by a factor for each group, or by one factor."""
        return np.tensordot(np.broadcast_to(np.asarray(factors, dtype=np.float64), len(self.sums)), self.sums, axes=1)


class Rows(NamedTuple):
    """Rows E (t, r + p), targets (t, c), weights (t, 1), magnitudes (t, 1 + r) and shares (t, g) in groups.

    Magnitudes bound the terms from which a row is computed: for functions of unit norm, and for each basis function.
    """

    E: Any
    target: Matrix
    weight: Matrix
    magnitudes: Matrix
    shares: Matrix

    def weighted(self, factors: Any) -> Rows:
        """Return the rows of positive weight, with weights multiplied by a factor for each group, or by one factor."""
        of_groups = np.broadcast_to(np.asarray(factors, float), self.shares.shape[1])
        weight = self.weight * (self.shares @ of_groups)[:, None]
        positive = weight[:, 0] > 0
        rows = self._replace(weight=weight)
        return rows if np.all(positive) else Rows(*(part[positive] for part in rows))


@dataclass(frozen=True, eq=False)
class KeptRows:
    """The stored rows of a loss that is not quadratic, in tiles; `tiles` is None if they exceed the memory limit."""

    loss: Loss
    count: int
    tiles: tuple[Rows, ...] | None

    def __add__(self, other: KeptRows) -> KeptRows:
        tiles = None if self.tiles is None or other.tiles is None else self.tiles + other.tiles
        exceeded = tiles is not None and sum(tile.E.nbytes for tile in tiles) > KEPT_BYTES
        return KeptRows(self.loss, self.count + other.count, None if exceeded else tiles)

    def times(self, factor: float) -> KeptRows:
        """Return the rows with all weights multiplied by a factor."""
        tiles = None if self.tiles is None else tuple(tile._replace(weight=factor * tile.weight) for tile in self.tiles)
        return replace(self, tiles=tiles)

    def joined(self) -> Rows:
        """Concatenate all tiles."""
        assert self.tiles
        return self.tiles[0] if len(self.tiles) == 1 else Rows(*map(np.concatenate, zip(*self.tiles, strict=True)))


def grouped(folds: list[Vector]) -> tuple[Matrix, list[Vector]]:
    """Group rows by their factors in all folds: return shares (t, g) and the factors (g,) of each fold.

    `folds` contains the factors (t,) of the rows in each fold.  Rows with equal factors in all folds form a group; if
    there are too many such groups, each fold is a group.

    Examples
    --------
    >>> import numpy as np
    >>> shares, factors = grouped([np.array([0.0, 0.0, 1.0]), np.array([1.0, 1.0, 0.0])])
    >>> shares.tolist(), [fold.tolist() for fold in factors]
    ([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]])
    """
    columns = np.stack(folds, axis=1)
    patterns, _, codes = unique_rows(columns)
    if len(patterns) > limits().fold_patterns * len(folds):
        return columns, list(np.eye(len(folds)))
    return (codes.reshape(-1, 1) == np.arange(len(patterns))).astype(np.float64), list(patterns.T)


@dataclass(frozen=True, eq=False)
class FeatureSums:
    """Sums and rows of the terms of a problem in explicit features, for each term; `+` adds two blocks of data.

    The features are the functions psi of the space, or orthonormal `functions` in it.  The latter cost three times as
    much and have no closed forms, but keep digits that moments of nearly dependent psi lose.
    """

    space: FiniteSpace
    basis: FunctionSpace | None  # the unpenalized functions
    outputs: int | None
    blocks: tuple[Moments | KeptRows, ...]
    functions: Orthonormal | None = None

    @property
    def rank(self) -> int:
        """The number r of basis functions."""
        return 0 if self.basis is None else self.basis.size(self.space.dimension)

    @property
    def size(self) -> int:
        """The number r + p of features."""
        return self.rank + (self.space.size if self.functions is None else len(self.functions.values))

    @classmethod
    def of(
        cls,
        space: FiniteSpace,
        basis: FunctionSpace | None,
        terms: Sequence[Term],
        outputs: int | None,
        functions: Orthonormal | None = None,
        *,
        limit: float | None = None,
        shares: Mapping[int, Matrix] | None = None,
    ) -> FeatureSums:
        """Compute the loss blocks of terms that are in memory, one tile at a time.

        `limit` is the memory, in bytes, for stored rows; `shares` maps indices of terms to the shares (t, g) of their
        rows in groups.
        """
        empty = cls(space, basis, outputs, (), functions)
        height = space.tile_rows
        while True:
            try:
                sums = _Accumulator(empty, terms, KEPT_BYTES if limit is None else limit, shares or {}, height)
                return replace(empty, blocks=tuple(sums.blocks()))
            except out_of_memory():  # the device has less memory than it reports: retry with smaller tiles
                release_memory()
                if height <= TILE_ROWS:
                    raise MemoryError(
                        f"The device has too little memory for {space.size} functions, even {height} rows at a time: "
                        "use fewer functions, or omit `device`."
                    ) from None
                height = max(TILE_ROWS, height // 4)

    def __add__(self, other: FeatureSums) -> FeatureSums:
        return replace(self, blocks=tuple(map(add, self.blocks, other.blocks)))

    def times(self, factors: Sequence[float]) -> FeatureSums:
        """Return the blocks with the weights of each term multiplied by a factor."""
        blocks = tuple(block.times(factor) for block, factor in zip(self.blocks, factors, strict=True))
        return replace(self, blocks=blocks)


class _Accumulator:
    """Partial sums of the loss blocks of terms in memory."""

    def __init__(
        self, empty: FeatureSums, terms: Sequence[Term], limit: float, shares: Mapping[int, Matrix], height: int
    ) -> None:
        self.terms, self.limit, self.shares, self.height = terms, limit, shares, height
        self.space, self.basis, self.rank, self.outputs = empty.space, empty.basis, empty.rank, empty.outputs or 1
        self.to_orthonormal = None if empty.functions is None else like(empty.functions.map, empty.space.prototype)
        self.psi = slice(empty.rank, empty.size)
        self.done, self.all, self.bytes = 0.0, max(sum(term.size for term in terms), 1), 0
        self.moments: dict[int, Moments] = {}
        self.kept: dict[int, list[Rows] | None] = {k: [] for k, term in enumerate(terms) if not term.loss.quadratic}
        for k, term in enumerate(terms):
            if k not in self.kept:
                groups, size = shares[k].shape[1] if k in shares else 1, empty.size + self.outputs
                count = int(np.count_nonzero(np.broadcast_to(np.asarray(term.weight), (term.size,)) > 0))
                self.moments[k] = Moments(term.loss, zeros((groups, size, size), self.space.prototype), count=count)

    def blocks(self) -> Iterator[Moments | KeptRows]:
        """Sum all terms, those at the same points together, and yield their blocks."""
        groups: list[tuple[Array | None, list[int]]] = []
        for k in range(len(self.terms)):
            points = self._points(k)
            for first, members in groups:
                if points is not None and first is not None and same_points(first, points):
                    members.append(k)
                    break
            else:
                groups.append((points, [k]))
        for points, members in groups:
            roots = {k: root for k in members if points is not None and (root := self._roots(k)) is not None}
            values = [k for k in members if points is not None and self.terms[k].functional.order == 0]
            for k in members:
                if k not in roots and k not in values:
                    self._add_rows(k)
            if roots or values:
                self._add_tiles(points, values, roots)
        for k, term in enumerate(self.terms):
            if k in self.kept:
                tiles = self.kept[k]
                yield KeptRows(term.loss, term.size, None if tiles is None else tuple(tiles))
            else:
                yield replace(self.moments[k], sums=to_numpy(self.moments[k].sums))

    def _points(self, k: int) -> Array | None:
        """Return the points of a term of values or full gradients with closed forms in the space; None for others."""
        part = pointwise(self.terms[k].functional)
        if self.to_orthonormal is not None or part is None or part.weight != 1.0:
            return None
        return None if self.space.tile(part.atoms.points[:0]) is None else part.atoms.points

    def _roots(self, k: int) -> Matrix | None:
        """Return the square roots (t, 1) of the weights of a term of full gradients with target 0; None for others.

        The basis must be constant, so that only the normal matrix of the space is needed.
        """
        term, constant = self.terms[k], isinstance(self.basis, Polynomials) and self.basis.degree <= 0
        if k in self.shares or not term.functional.order or not term.loss.quadratic:
            return None
        if not (self.basis is None or constant) or np.any(to_numpy(term.target)):
            return None
        if isinstance(term.weight, float):
            return np.full((term.size // term.functional.dimension, 1), term.weight**0.5)
        weight = term.weight.reshape(-1, term.functional.dimension)
        return None if np.any(weight != weight[:, :1]) else np.sqrt(weight[:, :1])

    def _add_tiles(self, points: Array, values: list[int], roots: dict[int, Matrix]) -> None:
        """Add values and gradients at the same points, by closed forms."""
        per_point = sum(self.terms[k].size for k in (*values, *roots)) / max(int(points.shape[0]), 1)
        products: dict[int, list[Array]] = {}
        for rows in self.space.tiles(int(points.shape[0]), self.height):
            self._report(per_point * (rows.stop - rows.start))
            tile = self.space.tile(points[rows])
            assert tile is not None
            unit = None  # E'E of the values
            for k in values:
                normal = self._add(k, rows, self.terms[k].functional.take(rows), tile.values)
                weight = _uniform(self.terms[k].weight, rows)
                if normal is not None and weight and tile.alike:
                    unit = normal / weight
            for k, root in roots.items():
                weight = _uniform(self.terms[k].weight, slice(None))
                known = None if unit is None or not weight else weight * unit
                tile_products = tile.gradient_products(like(root[rows], self.space.prototype), known)
                products[k] = list(map(add, products[k], tile_products)) if k in products else tile_products
        for k, total in products.items():
            sums = self.moments[k].sums
            sums[0, self.psi, self.psi] += like(self.space.gradient_normal(total), sums)

    def _add_rows(self, k: int) -> None:
        """Add a term of any functionals, one tile of rows at a time."""
        functional, size = self.terms[k].functional, self.terms[k].size
        for rows in self.space.tiles(size, self.height):
            self._report(rows.stop - rows.start)
            subset = functional if size <= self.height else functional.take(rows)
            E = self.space.rows(subset)
            self._add(k, rows, subset, E if self.to_orthonormal is None else E @ self.to_orthonormal)
            if k in self.moments:
                subset, moments = self.space.on_device(subset), self.moments[k]
                sizes = to_numpy(magnitudes(self.space.kernel, subset))
                strongest = float(np.max(self._weight(k, rows, sizes) * sizes**2, initial=moments.strongest))
                ratio = max(moments.cancellation_ratio, cancellation_ratio(self.space.kernel, subset))
                self.moments[k] = replace(moments, cancellation_ratio=ratio, strongest=strongest)

    def _report(self, count: float) -> None:
        """Report progress before the next `count` functionals."""
        report_progress(min(self.done / self.all, 1.0))
        self.done += count

    def _weight(self, k: int, rows: slice, E: Array) -> Array:
        """Return the weights (t, 1) of some rows; those of all rows of a term may need much memory."""
        weight = self.terms[k].finite_weight
        return like(np.full((len(E), 1), weight) if isinstance(weight, float) else weight[rows, None], E)

    def _add(self, k: int, rows: slice, functional: Functional, E: Array) -> Array | None:
        """Add rows E (t, p) of a term; return E'WE if the shares of each row sum to one."""
        term, xp, weight = self.terms[k], namespace(E), self._weight(k, rows, E)
        target = term.target[rows] if term.target.ndim == 2 else term.target[rows, None]
        target = like(namespace(target).broadcast_to(target, (len(E), self.outputs)), E)
        P = E[:, :0] if self.basis is None else like(functional.assemble(self.basis.on), E)
        shares = self.shares[k][rows] if k in self.shares else np.ones((len(E), 1))
        if k in self.kept:
            self._keep(k, functional, xp.concat([P, E], axis=1), target, weight, shares)
            return None
        F, sums, total = xp.concat([P, E, target], axis=1), self.moments[k].sums, 0.0
        for group, share in enumerate(shares.T):
            members = slice(None) if len(shares.T) == 1 else np.flatnonzero(share)  # a copy, which `square` overwrites
            # F'WF = [M, m; m', b'Wb] of the rows of a group, F = [P, E, b]
            normal = square(F[members], xp.sqrt(weight[members] * like(share[members, None], E)))
            sums[group] += normal
            total = total + normal[self.psi, self.psi]
        return total if np.all(shares.sum(axis=1) == 1) else None

    def _keep(self, k: int, functional: Functional, E: Array, target: Array, weight: Array, shares: Matrix) -> None:
        """Store rows; discard all rows of the term if the memory limit is exceeded."""
        tiles, E = self.kept[k], to_numpy(E)
        self.bytes += 0 if tiles is None else E.nbytes
        if tiles is None or self.bytes > self.limit:
            self.kept[k] = None
            return
        columns = [to_numpy(magnitudes(self.space.kernel, self.space.on_device(functional)))]
        if self.basis is not None:
            columns.append(to_numpy(functional.absolute().assemble(self.basis.magnitude)))
        tiles.append(Rows(E, to_numpy(target), to_numpy(weight), np.concatenate(columns, axis=1), shares))


def _uniform(weight: Any, rows: slice) -> float | None:
    """Return the common weight of all rows, or None if they differ."""
    if isinstance(weight, float):
        return weight
    weights = weight[rows]
    return float(weights[0]) if len(weights) and np.all(weights == weights[0]) else None
