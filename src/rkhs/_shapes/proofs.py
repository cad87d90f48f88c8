"""Proofs that a learned function has a shape everywhere on a box, not only at points.

A claim is L_x(f) >= b for all x of a box (`claims`), L_x a derivative along features, a value, or the least eigenvalue
of a Hessian.  `bounds` bounds it from below on a cell.  A cell whose bound is at least b is proved; one whose center is
below b is where the claim fails; any other is halved along the side that costs most.

Features that do not act together are looked at apart: of a sum of kernels only those summands that depend on the
feature have a part in L_x f, and only their features have to be divided.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields, replace

import numpy as np

from rkhs._backend.arrays import Matrix
from rkhs._finite.function import Function
from rkhs._finite.monitor import Monitor, Stopped
from rkhs._finite.solution import Record
from rkhs._progress import interrupted, limited, listening
from rkhs._shapes.bounds import LowerBound, lower_bounds
from rkhs._shapes.claims import Claim

AT_ONCE = 256  # cells that are bounded together
PROVED, FAILS, OPEN = "proved", "fails", "open"


@dataclass(frozen=True, eq=False)
class ClaimProof:
    """What is known about a claim: "proved", "fails" (at `worst`), or "open" (nothing found against it).

    `margin` is a lower bound of L_x f - bound on the whole box: at least zero where the claim is proved, negative where
    it is not, and -inf where cells were not looked at.  `least` is the value at the point `worst`, the smallest that
    was seen, inf where there was none.  `share` is the part of the box's volume that is proved.

    Both are in units of L_x f: y for values, y / x for slopes, y / x^2 for second derivatives.  Of a Hessian they bound
    its least eigenvalue in these units, those of its features; search and proof measure each feature in scales of the
    kernel (`LowerBound.units`), where features of different units can be compared.
    """

    claim: Claim
    status: str
    share: float
    margin: float
    least: float
    worst: Matrix
    box: Matrix  # (2, n)
    cells: int
    seconds: float
    candidates: Matrix = field(repr=False)  # (m, n), where the claim fails or is hardest to prove
    directions: Matrix = field(repr=False)  # (m, n), in which a Hessian does
    stopped: bool = False  # by the time limit or Ctrl-C, before its cells were spent
    rounding: float = 0.0  # what rounding of the sum over representers may hide of L_x f, in its units

    @property
    def hidden(self) -> bool:
        """Whether rounding hides if the claim holds where it was looked at: smaller cells do not help."""
        return self.status != PROVED and abs(self.least) <= self.rounding

    def __repr__(self) -> str:
        told = {
            PROVED: f"proved on the box, with a margin of {self.margin:.2g}",
            FAILS: f"fails by {-self.least:.2g} at {np.array2string(self.worst, precision=4)}; {self.share:.1%} proved",
            OPEN: f"open; {self.share:.1%} of the box proved, "
            + ("no value seen" if np.isinf(self.least) else f"least value seen {self.least:.2g}"),
        }
        ended = ", stopped" if self.stopped else ""
        return f"{self.claim.name}: {told[self.status]} ({self.cells} cells, {self.seconds:.1f} s{ended})"


def prove(
    claims: Sequence[Claim],
    f: Function,
    box: Matrix,
    *,
    cells: int = 20_000,
    seconds: float | None = None,
    enough: int = 64,
    hurried: bool = False,
    verbose: bool = False,
) -> tuple[ClaimProof, ...]:
    """Branch and bound over the box (2, n), until it is proved, `enough` failures are found, or the cells are spent.

    Where a claim fails, the search goes on until `enough` such points are known; `hurried` does not divide cells whose
    center is one.  After `seconds`, or by Ctrl-C, it returns what is proved so far.  Beyond two seconds it shows
    progress, as solvers do.
    """
    box, f = np.asarray(box, dtype=np.float64), f.compress()  # zeros cost as much as other coefficients
    proofs, stopped = [], False
    with limited(seconds), closing(ProofMonitor(0.0, verbose=verbose)) as monitor:
        for lower in lower_bounds(claims, f):
            monitor.claim, started = lower.claim, monitor.seconds
            search = BranchAndBound(lower, box, enough, hurried)
            while len(search.cells.centers) and len(search.failing) < enough and search.used < cells and not stopped:
                try:
                    with listening(lambda share: monitor.check()):
                        search.step()
                    monitor.report(None, search.proved, 1.0 - search.proved)
                except Stopped:
                    stopped = True
                except KeyboardInterrupt:
                    interrupted()
                    stopped = True
            proofs.append(search.result(monitor.seconds - started, stopped))
    return tuple(proofs)


@dataclass
class ProofMonitor(Monitor):
    """Shows how much of the box is proved."""

    claim: Claim | None = None

    def line(self, record: Record) -> str:
        name = "" if self.claim is None else f" that {self.claim.name}"
        return f"proving{name}: {record.primal:.1%} of the box, {record.seconds:.0f} s"


@dataclass(frozen=True, eq=False)
class BoxCells:
    """Some cells of a box: (m, n) centers and half sides, (m,) shares of its volume, and what is known of them."""

    centers: Matrix
    halves: Matrix
    shares: Matrix
    lower: Matrix  # (m,), the bound on the cell of which each is one half; -inf before any is known
    directions: Matrix  # (m, n), in which a Hessian was least there

    def take(self, rows: Matrix) -> BoxCells:
        return BoxCells(*(getattr(self, one.name)[rows] for one in fields(self)))

    def split(self, side: Matrix) -> BoxCells:
        """Return both halves of each cell along its own side."""
        rows = np.arange(len(self.centers))
        halves, step = self.halves.copy(), np.zeros_like(self.halves)
        halves[rows, side] /= 2
        step[rows, side] = halves[rows, side]
        one, other = (
            replace(self, centers=self.centers + s * step, halves=halves, shares=self.shares / 2) for s in (-1, 1)
        )
        return one.joined(other)

    def joined(self, other: BoxCells) -> BoxCells:
        return BoxCells(*(np.concatenate([getattr(self, one.name), getattr(other, one.name)]) for one in fields(self)))


class BranchAndBound:
    """The cells that are not proved yet, and what was seen."""

    def __init__(self, lower: LowerBound, box: Matrix, enough: int, hurried: bool) -> None:
        self.lower, self.box, self.enough, self.hurried = lower, box, enough, hurried
        center = (box[0] + box[1])[None] / 2
        self.cells = BoxCells(
            center, (box[1] - box[0])[None] / 2, np.ones(1), np.full(1, -np.inf), np.zeros_like(center)
        )
        own = np.array(lower.active, dtype=int)
        while len(self.cells.centers) < 128 and len(own):  # cells at first
            sizes = self.cells.halves[:, own] * lower.part.rates[own]
            if sizes.max() <= 0.3:  # of the kernel's scale, half the side of the first cells
                break
            self.cells = self.cells.split(own[np.argmax(sizes, axis=1)])
        self.used, self.proved, self.margin = 0, 0.0, np.inf
        self.failing: list[tuple[float, Matrix, Matrix]] = []  # values, points and directions
        self.least, self.plain, self.worst = np.inf, np.inf, self.cells.centers[0]

    def step(self) -> None:
        """Bound f on some cells, those with the lowest bounds first, and halve the cells that are not proved."""
        order = np.argsort(self.cells.lower, kind="stable")
        cells = self.cells.take(order[:AT_ONCE])
        seen = self.lower(cells.centers, cells.halves)
        self.used += len(cells.centers)
        k = int(np.argmin(seen.values))
        if seen.values[k] < self.least:
            self.least, self.plain, self.worst = float(seen.values[k]), float(seen.plain[k]), cells.centers[k]
        good, bad = seen.lower >= 0, seen.values < 0
        split = ~good & ~bad if self.hurried else ~good  # where it fails is known well enough
        self.proved += float(cells.shares[good].sum())
        self.margin = min(self.margin, float(seen.lower[~split].min(initial=np.inf)))
        self.failing += [(float(seen.values[i]), seen.places[i], seen.directions[i]) for i in np.flatnonzero(bad)]
        halves = replace(cells, lower=seen.lower, directions=seen.directions).take(split)
        halves = halves.split(np.argmax(seen.costs[split], axis=1))
        self.cells = self.cells.take(order[AT_ONCE:]).joined(halves)

    def result(self, seconds: float, stopped: bool) -> ClaimProof:
        """Return what the cells so far prove."""
        cells, lower = self.cells, self.lower
        status = FAILS if self.failing else OPEN if len(cells.centers) else PROVED
        hardest = cells.take(np.argsort(cells.lower, kind="stable")[: self.enough])
        found = sorted(self.failing, key=lambda one: one[0])
        margin = min(self.margin, float(cells.lower.min(initial=np.inf)))
        return ClaimProof(
            lower.claim,
            status,
            share=1.0 if status == PROVED else min(self.proved, 1.0),
            margin=lower.in_units_of_features(margin),
            least=self.plain,
            worst=self.worst,
            box=self.box,
            cells=self.used,
            seconds=seconds,
            candidates=np.array([place for _, place, _ in found]) if found else hardest.centers,
            directions=np.array([direction for _, _, direction in found]) if found else hardest.directions,
            stopped=stopped and status != PROVED,
            rounding=lower.in_units_of_features(lower.rounding) if self.used else 0.0,
        )
