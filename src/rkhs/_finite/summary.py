"""What terms say about a span of p functions: sums over rows, which add up over blocks, files and machines.

With f = sum_j c_j p_j + sum_a tau_a psi_a and theta = (c, tau), a term of squared losses is

    sum_i w_i ((E theta)_i - b_i)^2 = theta'M theta - 2 m'theta + constant,    E = [P, L(psi)]

M = E'WE, m = E'Wb and b'Wb, sums over rows that are computed block by block and never held.  Other losses need their
rows E as they are; those are kept while they are few (`moments.LIMIT`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import add
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, Matrix, like, namespace, to_numpy, zeros
from rkhs._backend.memory import out_of_memory, release_memory
from rkhs._calculus.function_spaces import FunctionSpace, Polynomials
from rkhs._finite import moments
from rkhs._finite.moments import Kept, KeptBlock, Moments
from rkhs._finite.term import Term
from rkhs._gram.jet_points import same_points
from rkhs._gram.magnitude import cancelled, magnitudes
from rkhs._gram.span import LEAST, Span, square
from rkhs._progress import tick
from rkhs.functionals.base import Functional
from rkhs.functionals.points import pointwise


@dataclass(frozen=True, eq=False)
class Summary:
    """The terms of a problem on a span, one entry for each; `+` adds the rows of two blocks."""

    span: Span
    space: FunctionSpace | None  # the unpenalised basis
    outputs: int | None
    terms: tuple[Moments | Kept, ...]

    @property
    def rank(self) -> int:
        """r, the number of basis functions."""
        return 0 if self.space is None else self.space.size(self.span.dimension)

    @property
    def size(self) -> int:
        """r + p."""
        return self.rank + self.span.size

    @classmethod
    def of(
        cls,
        span: Span,
        space: FunctionSpace | None,
        terms: Sequence[Term],
        outputs: int | None,
        limit: float | None = None,
        shares: Mapping[int, Matrix] | None = None,
    ) -> Summary:
        """The summary of terms that are in memory, a tile at a time.

        `limit` is for the bytes of rows that are kept; `shares` (t, g) of a term's rows in groups: see `moments`.
        """
        empty = cls(span, space, outputs, ())
        most, tall = moments.LIMIT if limit is None else limit, span.tall
        while True:
            try:
                return replace(empty, terms=_Work(empty, terms, most, shares or {}, tall).result())
            except out_of_memory():  # which has less than it said: all sums again, in smaller tiles
                release_memory()
                if tall <= LEAST:
                    raise MemoryError(
                        f"The device has too little memory for {span.size} functions, even {tall} rows at a time: take "
                        "fewer functions, or leave `device` out."
                    ) from None
                tall = max(LEAST, tall // 4)

    def __add__(self, other: Summary) -> Summary:
        return replace(self, terms=tuple(map(add, self.terms, other.terms)))

    def times(self, factors: Sequence[float]) -> Summary:
        """The same with the weights of each term multiplied."""
        return replace(self, terms=tuple(one.times(factor) for one, factor in zip(self.terms, factors, strict=True)))


def _on_same_points(terms: Sequence[Term]) -> list[list[int]]:
    """Return groups of terms that share what is computed at their points; any other family is on its own."""
    groups: list[list[int]] = []
    for k, term in enumerate(terms):
        atoms = _pointwise(term.functional)
        for members in groups:
            first = _pointwise(terms[members[0]].functional)
            if atoms is not None and first is not None and same_points(first.points, atoms.points):
                members.append(k)
                break
        else:
            groups.append([k])
    return groups


def _pointwise(functional: Functional) -> Any:
    """The atoms of a family of plain values, or of whole gradients; None for any other."""
    part = pointwise(functional)
    return None if part is None or part.weight != 1.0 else part.atoms


class _Work:
    """The sums of one block, under way."""

    def __init__(
        self,
        summary: Summary,
        terms: Sequence[Term],
        limit: float,
        shares: Mapping[int, Matrix],
        tall: int,
    ) -> None:
        self.limit, self.shares, self.tall = limit, shares, tall
        self.done, self.all = 0.0, max(sum(term.size for term in terms), 1)  # functionals
        self.span, self.space = summary.span, summary.space
        self.rank, self.size = summary.rank, summary.size
        self.outputs = summary.outputs or 1
        self.terms = terms
        self.targets = [self._target(term) for term in terms]
        self.moments = {
            k: self._no_moments(term, shares[k].shape[1] if k in shares else 1)
            for k, term in enumerate(terms)
            if term.loss.quadratic
        }
        self.kept: dict[int, list[KeptBlock] | None] = {k: [] for k in range(len(terms)) if k not in self.moments}
        self.bytes = 0

    def _no_moments(self, term: Term, groups: int) -> Moments:
        shapes = (groups, self.size, self.size), (groups, self.size, self.outputs), (groups, self.outputs)
        count = int(np.count_nonzero(np.broadcast_to(np.asarray(term.weight), (term.size,)) > 0))
        return replace(Moments(term.loss, *(zeros(shape, self.span.home) for shape in shapes)), count=count)

    def _target(self, term: Term) -> Array:
        target = term.target if term.target.ndim == 2 else term.target[:, None]
        return namespace(target).broadcast_to(target, (term.size, self.outputs))

    def _weight(self, k: int, rows: slice, E: Array) -> Array:
        """(t, 1); those of all rows of a term might be many."""
        weight = self.terms[k].weight
        return like(np.full((len(E), 1), weight) if isinstance(weight, float) else weight[rows, None], E)

    def result(self) -> tuple[Moments | Kept, ...]:
        """All terms; those on the same points together."""
        for members in _on_same_points(self.terms):
            self._add_group(members)
        found: list[Moments | Kept] = []
        for k, term in enumerate(self.terms):
            if k in self.moments:
                found.append(self.moments[k].in_numpy())
            else:
                kept = self.kept[k]
                found.append(Kept(term.loss, None if kept is None else tuple(kept), term.size))
        return tuple(found)

    def _add_group(self, members: list[int]) -> None:
        """Terms on the same points, or one term of any kind."""
        flat = {k: root for k in members if (root := self._gradient_roots(k)) is not None}
        values = [k for k in members if k not in flat and _order(self.terms[k]) == 0]
        for k in members:
            if k not in flat and k not in values:
                self._add_rows(k)
        if not (flat or values):
            return
        atoms = _pointwise(self.terms[members[0]].functional)
        share = sum(self.terms[k].size for k in (*values, *flat)) / max(int(atoms.points.shape[0]), 1)  # of a point
        sums = {k: found for k in flat if (found := self.span.sums()) is not None}
        for rows, tile in self.span.tiles(atoms.points, self.tall):
            self._tell(share * (rows.stop - rows.start))
            unit = None  # the moments of the values, of weight one
            for k in values:
                some = self.terms[k].functional.take(rows)
                square = self._add(k, rows, some, self.span.rows(some) if tile is None else tile.values)
                if tile is None and k in self.moments:
                    self._judge(k, rows, self.span.brought(some))
                weight = _uniform(self.terms[k].weight, rows)
                if square is not None and weight and tile is not None and tile.alike:
                    unit = square / weight
            for k, root in flat.items():
                weight = _uniform(self.terms[k].weight, slice(None))
                known = None if unit is None or not weight else weight * unit
                sums[k].add(tile, like(root[rows], self.span.home), known)
        for k in flat:
            own = self.moments[k].square
            own[0, self.rank :, self.rank :] += like(sums[k].total(), own)

    def _add_rows(self, k: int) -> None:
        """Any family, some functionals at a time."""
        functional, size = self.terms[k].functional, self.terms[k].size
        for start in range(0, size, self.tall):
            rows = slice(start, min(start + self.tall, size))
            self._tell(rows.stop - rows.start)
            some = functional if size <= self.tall else functional.take(rows)
            self._add(k, rows, some, self.span.rows(some))
            if k in self.moments:
                self._judge(k, rows, self.span.brought(some))

    def _tell(self, more: float) -> None:
        """Before so many functionals more."""
        tick(min(self.done / self.all, 1.0))
        self.done += more

    def _judge(self, k: int, rows: slice, functional: Functional) -> None:
        """What the rounding of rows is judged by."""
        own, sizes = self.moments[k], to_numpy(magnitudes(self.span.kernel, functional))[:, 0]
        weight = self.terms[k].weight
        strongest = float(np.max((weight if isinstance(weight, float) else weight[rows]) * sizes**2, initial=0.0))
        cancels = max(own.cancelled, cancelled(self.span.kernel, functional))
        self.moments[k] = replace(own, cancelled=cancels, strongest=max(own.strongest, strongest))

    def _add(self, k: int, rows: slice, functional: Functional, E: Array) -> Array | None:
        """Rows E (t, p) of a term; their moments E'WE, if they have been computed for all rows once."""
        target, weight = like(self.targets[k][rows], E), self._weight(k, rows, E)
        P = E[:, :0] if self.space is None else like(functional.assemble(self.space.on), E)
        shares = self.shares[k][rows] if k in self.shares else None
        if k in self.kept:
            E = namespace(E).concat([P, E], axis=1)
            self._keep(k, KeptBlock(to_numpy(E), to_numpy(target), to_numpy(weight), self._sizes(functional), shares))
            return None
        if shares is None:
            return self._add_moments(k, 0, P, E, target, weight)
        total = zeros((E.shape[1], E.shape[1]), E)
        for group, share in enumerate(shares.T):
            index = np.flatnonzero(share)
            own = [side[index] for side in (P, E, target, weight)]
            own[-1] = own[-1] * like(share[index, None], E)
            total += self._add_moments(k, group, *own)
        return total if np.all(shares.sum(axis=1) == 1) else None

    def _add_moments(self, k: int, group: int, P: Array, E: Array, target: Array, weight: Array) -> Array:
        """Rows of one group; E'WE."""
        r, own = self.rank, self.moments[k]
        M, m = own.square[group], own.linear[group]
        xp, weighted = namespace(E), weight * target
        m[:r] += P.T @ weighted
        m[r:] += E.T @ weighted
        own.constant[group] += xp.sum(weighted * target, axis=0)
        if r:
            M[:r, :r] += P.T @ (weight * P)
            cross = P.T @ (weight * E)
            M[:r, r:] += cross
            M[r:, :r] += cross.T
        found = square(E, xp.sqrt(weight))
        M[r:, r:] += found
        return found

    def _sizes(self, functional: Functional) -> Matrix:
        """(t, 1 + r), what the rounding of rows that are kept is judged by."""
        sizes = [to_numpy(magnitudes(self.span.kernel, self.span.brought(functional)))]
        if self.space is not None:
            sizes.append(to_numpy(functional.absolute().assemble(self.space.magnitude)))
        return np.concatenate(sizes, axis=1)

    def _keep(self, k: int, block: KeptBlock) -> None:
        """Rows as they are; none at all once they are too many."""
        own = self.kept[k]
        self.bytes += 0 if own is None else block.E.nbytes
        if own is None or self.bytes > self.limit:
            self.kept[k] = None
        else:
            own.append(block)

    def _gradient_roots(self, k: int) -> Matrix | None:
        """The square roots (t, 1) of the weights of whole gradients that should vanish; None if it is anything else.

        The basis must not change from point to point either: then only the span's own sums are needed.
        """
        term, atoms = self.terms[k], _pointwise(self.terms[k].functional)
        if k in self.shares:
            return None
        constant = self.space is None or (isinstance(self.space, Polynomials) and self.space.degree <= 0)
        if atoms is None or atoms.order == 0 or not term.loss.quadratic or not constant:
            return None
        if np.any(to_numpy(term.target)) or self.span.sums() is None:
            return None
        count = int(atoms.points.shape[0])
        if isinstance(term.weight, float):
            return np.full((count, 1), term.weight**0.5)
        weight = term.weight.reshape(count, -1)
        return None if np.any(weight != weight[:, :1]) else np.sqrt(weight[:, :1])


def _uniform(weight: Any, rows: slice) -> float | None:
    """The weight that all rows have; None if they differ."""
    if isinstance(weight, float):
        return weight
    own = weight[rows]
    return float(own[0]) if len(own) and np.all(own == own[0]) else None


def _order(term: Term) -> int:
    """0 for plain values, -1 for what is not on points alone."""
    atoms = _pointwise(term.functional)
    return -1 if atoms is None else int(atoms.order)
