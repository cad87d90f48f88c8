"""Proofs that a learnt function has a shape everywhere on a box, not only at points.

A claim is L_x(f) >= b for all x of a box (`claims`), L_x a derivative along features, a value, or the least eigenvalue
of a Hessian.  `lower` bounds it from below on a cell.  A cell whose bound is at least b is proved; one whose centre is
below b is where the claim fails; any other is halved along the side that costs most.

Features that do not act together are looked at apart: of a sum of kernels only those summands that depend on the
feature have a part in L_x f, and only their features have to be divided.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from rkhs._backend.arrays import Matrix
from rkhs._finite.function import Function
from rkhs._finite.monitor import Monitor, Stopped
from rkhs._finite.solution import Record
from rkhs._progress import interrupted, listening
from rkhs._shapes.bounds import Lower
from rkhs._shapes.claims import Claim

AT_FIRST, AT_ONCE = 128, 256  # cells
REACH = 0.3  # of the kernel's scale, half the side of the first cells
PROVED, FAILS, OPEN = "proved", "fails", "open"


@dataclass(frozen=True, eq=False)
class ClaimProof:
    """What is known about a claim: "proved", "fails" (at `worst`), or "open" (nothing found against it).

    `margin` is a lower bound of L_x f - bound on the whole box: at least zero where the claim is proved, negative where
    it is not, and -inf where cells were not looked at.  `least` is the value at the point `worst`, the smallest that
    was seen, inf where there was none.  `share` is the part of the box's volume that is proved.

    Both are in units of L_x f: y for values, y / x for slopes, y / x^2 for second derivatives.  Of a Hessian they bound
    its least eigenvalue in these units, those of its features; search and proof measure each feature in scales of the
    kernel (`Lower.units`), where features of different units can be compared.
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
    verbose: bool | None = None,
) -> tuple[ClaimProof, ...]:
    """Branch and bound over the box (2, n), until it is proved, `enough` failures are found, or the cells are spent.

    Where a claim fails, looking goes on until `enough` places are known; in a hurry, these places are not looked at
    closely.  After `seconds`, or by Ctrl-C, it returns what is proved so far.  Beyond two seconds it shows progress, as
    solvers do.
    """
    monitor = ProofMonitor(0.0, seconds, verbose=verbose)
    box, f = np.asarray(box, dtype=np.float64), f.compress()  # zeros cost as much as other coefficients
    proofs = []
    try:
        for lower in Lower.all(claims, f, box.shape[1], monitor):
            monitor.claim, started = lower.claim, monitor.seconds
            search = _Search(lower, box, enough, hurried)
            while search.goes_on and search.used < cells and not monitor.stopped:
                try:
                    with listening(lambda share: monitor.check()):
                        search.step()
                    monitor.report(None, search.proved, 1.0 - search.proved)
                except Stopped:
                    monitor.stopped = True
                except KeyboardInterrupt:
                    interrupted()
                    monitor.stopped = True
            proofs.append(search.found(monitor.seconds - started, monitor.stopped))
    finally:
        monitor.close()
    return tuple(proofs)


@dataclass
class ProofMonitor(Monitor):
    """Tells how much of the box is proved."""

    claim: Claim | None = None
    stopped: bool = False

    def line(self, record: Record) -> str:
        name = "" if self.claim is None else f" that {self.claim.name}"
        far = f"{record.primal:.1%} of the box, {record.seconds:.0f} s"
        return f"proving{name}: {far}"


class _Search:
    """The cells that are not proved yet, and what was seen."""

    def __init__(self, lower: Lower, box: Matrix, enough: int, hurried: bool) -> None:
        self.lower, self.box, self.enough, self.hurried = lower, box, enough, hurried
        self.centres, self.halves = ((box[0] + box[1]) / 2)[None], ((box[1] - box[0]) / 2)[None]
        own = np.array(lower.active, dtype=int)
        while len(self.centres) < AT_FIRST and len(own):
            sizes = self.halves[:, own] * lower.rates[own]
            if sizes.max() <= REACH:
                break
            parts = [_halved(self.centres, self.halves, own[np.argmax(sizes, axis=1)], which) for which in (-1.0, 1.0)]
            self.centres, self.halves = (np.concatenate(both) for both in zip(*parts, strict=True))
        self.shares = np.full(len(self.centres), 1 / len(self.centres))  # of the volume
        self.priority = np.full(len(self.centres), -np.inf)  # nothing is known of them yet
        self.used, self.proved, self.margin = 0, 0.0, np.inf
        self.failing: list[tuple[float, Matrix, Matrix]] = []
        self.least, self.plain, self.worst = np.inf, np.inf, self.centres[0]
        self.directions = np.zeros_like(self.centres)

    @property
    def goes_on(self) -> bool:
        return bool(len(self.centres)) and len(self.failing) < self.enough

    def step(self) -> None:
        """Look at some cells, those that were worst first, and halve what is not proved."""
        order = np.argsort(self.priority, kind="stable")
        chosen, later = order[:AT_ONCE], order[AT_ONCE:]
        centres, halves, shares = self.centres[chosen], self.halves[chosen], self.shares[chosen]
        seen = self.lower(centres, halves)
        self.used += len(chosen)
        k = int(np.argmin(seen.values))
        if seen.values[k] < self.least:
            self.least, self.plain, self.worst = float(seen.values[k]), float(seen.plain[k]), centres[k].copy()
        good = seen.lower >= 0
        self.proved += float(shares[good].sum())
        self.margin = min(self.margin, float(seen.lower[good].min(initial=np.inf)))
        bad = np.flatnonzero(seen.values < 0)
        self.failing += [(float(seen.values[i]), seen.places[i], seen.directions[i]) for i in bad]
        split = ~good & (seen.values >= 0) if self.hurried else ~good  # where it fails is known well enough
        self.margin = min(self.margin, float(seen.lower[~good & ~split].min(initial=np.inf)))
        side = np.argmax(seen.costs[split], axis=1)
        parts = [_halved(centres[split], halves[split], side, which) for which in (-1.0, 1.0)]
        self.centres = np.concatenate([self.centres[later], *(part[0] for part in parts)])
        self.halves = np.concatenate([self.halves[later], *(part[1] for part in parts)])
        self.shares = np.concatenate([self.shares[later], shares[split] / 2, shares[split] / 2])
        self.priority = np.concatenate([self.priority[later], seen.lower[split], seen.lower[split]])
        own = seen.directions[split]
        self.directions = np.concatenate([self.directions[later], own, own])

    def found(self, seconds: float, stopped: bool) -> ClaimProof:
        status = FAILS if self.failing else (PROVED if len(self.centres) == 0 else OPEN)
        self.failing.sort(key=lambda one: one[0])
        hardest = np.argsort(self.priority, kind="stable")[: self.enough]
        places = [place for _, place, _ in self.failing] or list(self.centres[hardest])
        directions = [v for _, _, v in self.failing] or list(self.directions[hardest])
        n = self.box.shape[1]
        return ClaimProof(
            self.lower.claim,
            status,
            1.0 if status == PROVED else min(self.proved, 1.0),
            self.lower.in_units_of_features(min(self.margin, float(self.priority.min(initial=np.inf)))),
            self.plain,
            self.worst,
            self.box,
            self.used,
            seconds,
            np.array(places).reshape(-1, n),
            np.array(directions).reshape(-1, n),
            stopped and status != PROVED,
            self.lower.in_units_of_features(self.lower.rounding) if self.used else 0.0,
        )


def _halved(centres: Matrix, halves: Matrix, side: Matrix, which: float) -> tuple[Matrix, Matrix]:
    """One half of each cell, along its own side."""
    rows = np.arange(len(centres))
    small, moved = halves.copy(), centres.copy()
    small[rows, side] /= 2
    moved[rows, side] += which * small[rows, side]
    return moved, small
