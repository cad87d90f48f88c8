"""Proofs by branch and bound that a learned function has a shape everywhere on a box, not only at points.

A claim is L_x(f) >= b for all x of a box (`claims`), where L_x is a derivative along features, a value, or the least
eigenvalue of a Hessian.  `bounds` computes lower bounds on cells.  A cell whose bound is at least b is proved; if the
value at its center is below b, the claim fails there; any other cell is halved along the side with the largest cost.

Features that do not interact are treated separately: in a sum of kernels, L_x f depends only on the summands with the
features of the claim, and only their features are subdivided.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from math import ceil

import numpy as np

from rkhs.extend import Matrix, Monitor, Stopped, limits, with_progress_callback
from rkhs.shapes._bounds import LowerBound
from rkhs.shapes._claims import Claim

AT_ONCE = 256  # cells per step, for vectorization
ENOUGH = 64  # counterexamples of a claim that fails
PROVED, FAILS, OPEN = "proved", "fails", "open"


@dataclass(frozen=True, eq=False)
class ClaimProof:
    """The result of a proof of a claim: "proved", "fails" (at `worst`), or "open" (no counterexample was found).

    `margin` is a lower bound of L_x f - bound on the whole box: at least zero if the claim is proved, negative if it is
    not, and -inf if there are cells without a bound.  `least` is the smallest computed value, at the point `worst`, or
    inf if there is none.  `share` is the fraction of the volume of the box on which the claim is proved.

    `margin` and `least` are in units of L_x f: y for values, y / x for slopes, y / x^2 for second derivatives.  For a
    Hessian they bound its least eigenvalue in the units of its features, whereas search and proof use the length scales
    of the kernel (`LowerBound.units`), which make features of different units comparable.
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
    candidates: Matrix = field(repr=False)  # (m, n), points where the claim fails or is hardest to prove
    directions: Matrix = field(repr=False)  # (m, n), the eigenvectors of Hessians there
    stopped: bool = False  # whether the time limit ended the search
    rounding: float = 0.0  # the rounding error of L_x f, in its units
    work: float = 0.0  # the number of terms that were added up

    @property
    def hidden(self) -> bool:
        """Whether the least value is within its rounding error, so that smaller cells do not help."""
        return self.status != PROVED and abs(self.least) <= self.rounding

    def __repr__(self) -> str:
        result = {
            PROVED: f"proved on the box, with a margin of {self.margin:.2g}",
            FAILS: f"fails by {-self.least:.2g} at {np.array2string(self.worst, precision=4)}; {self.share:.1%} proved",
            OPEN: f"open; {self.share:.1%} of the box proved, "
            + ("no value computed" if np.isinf(self.least) else f"least value {self.least:.2g}"),
        }
        ended = ", stopped" if self.stopped else ""
        return f"{self.claim.name}: {result[self.status]} ({self.cells} cells, {self.seconds:.1f} s{ended})"


def prove(
    bounds: Sequence[LowerBound], box: Matrix, *, skip_failing: bool = False, verbose: bool = False
) -> tuple[ClaimProof, ...]:
    """Prove claims by branch and bound over the box (2, n), given the lower bounds of what they are about.

    Each claim takes at most `Limits.proof_cells` cells, and its share of `Limits.proof_work` terms that are added up,
    which ends proofs with many interacting features in seconds.  If a claim fails, the search continues until `ENOUGH`
    counterexamples are known; with `skip_failing`, cells whose center is a counterexample are not subdivided.  After
    the time limit of an enclosing block it returns the results so far.  With `verbose` it displays progress after a
    second, like solvers.
    """
    proofs, stopped = [], False
    with closing(Monitor(0.0, verbose=verbose)) as monitor:
        for lower in bounds:
            started, search = monitor.seconds, BranchAndBound(lower, box, skip_failing)
            most = min(limits().proof_cells, limits().proof_work / len(bounds) / lower.work)
            while search.unfinished and search.used < most and not stopped:
                try:
                    monitor.check()
                    with with_progress_callback(lambda fraction: monitor.check()):
                        search.step(ceil(most - search.used))
                    monitor.tell(f"proving that {lower.claim.name}: {search.proved:.1%} of the box")
                except Stopped:
                    stopped = True
            proofs.append(search.result(monitor.seconds - started, stopped))
    return tuple(proofs)


@dataclass(frozen=True, eq=False)
class BoxCells:
    """Cells of a box with lower bounds."""

    centers: Matrix  # (m, n)
    halves: Matrix  # (m, n), half the sides
    shares: Matrix  # (m,), fractions of the volume of the box
    lower: Matrix  # (m,), lower bounds on the parent cells; -inf before the first step

    def take(self, rows: Matrix) -> BoxCells:
        return BoxCells(*(getattr(self, column.name)[rows] for column in fields(self)))

    def split(self, side: Matrix) -> BoxCells:
        """Return both halves of each cell along the given side (m,) of each."""
        rows = np.arange(len(self.centers))
        halves, step = self.halves.copy(), np.zeros_like(self.halves)
        halves[rows, side] /= 2
        step[rows, side] = halves[rows, side]
        both = replace(self, halves=halves, shares=self.shares / 2)
        return replace(both, centers=both.centers - step).joined(replace(both, centers=both.centers + step))

    def joined(self, other: BoxCells) -> BoxCells:
        names = [column.name for column in fields(self)]
        return BoxCells(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))


class BranchAndBound:
    """The state of a search: the cells that are not proved yet, and the values so far."""

    def __init__(self, lower: LowerBound, box: Matrix, skip_failing: bool) -> None:
        self.lower, self.box, self.skip_failing = lower, box, skip_failing
        center, half = (box[0] + box[1])[None] / 2, (box[1] - box[0])[None] / 2
        self.cells = BoxCells(center, half, np.ones(1), np.full(1, -np.inf))
        active = np.array(lower.active, dtype=int)
        while len(self.cells.centers) < 128 and len(active):  # the maximal number of initial cells
            sizes = self.cells.halves[:, active] * lower.part.rates[active]
            if sizes.max() <= 0.3:  # half sides of initial cells in length scales
                break
            self.cells = self.cells.split(active[np.argmax(sizes, axis=1)])
        self.used, self.proved, self.margin = 0, 0.0, np.inf
        self.failing: list[tuple[float, Matrix]] = []  # values and points
        self.least, self.worst = np.inf, self.cells.centers[0]

    @property
    def unfinished(self) -> bool:
        """Whether there are cells left, and not enough counterexamples yet."""
        return len(self.cells.centers) > 0 and len(self.failing) < ENOUGH

    def step(self, most: int) -> None:
        """Compute bounds on at most `count` cells, whose parents have the lowest bounds; halve those not proved."""
        order, count = np.argsort(self.cells.lower, kind="stable"), min(most, AT_ONCE)
        cells = self.cells.take(order[:count])
        bounds = self.lower(cells.centers, cells.halves)
        self.used += len(cells.centers)
        k = int(np.argmin(bounds.values))
        if bounds.values[k] < self.least:
            self.least, self.worst = float(bounds.values[k]), cells.centers[k]
        proved, fails = bounds.lower >= 0, bounds.values < 0
        split = ~proved & ~fails if self.skip_failing else ~proved
        self.proved += float(cells.shares[proved].sum())
        self.margin = min(self.margin, float(bounds.lower[~split].min(initial=np.inf)))
        if np.any(fails):
            # The lower of both candidates of a cell: its approximate minimizer may be higher than its center.
            both = np.stack([cells.centers[fails], bounds.points[fails]])
            values = np.stack([self.lower.at(X)[0] for X in both])
            self.failing += [(float(values[i, k]), both[i, k]) for k, i in enumerate(np.argmin(values, axis=0))]
        halves = replace(cells, lower=bounds.lower).take(split).split(np.argmax(bounds.costs[split], axis=1))
        self.cells = self.cells.take(order[count:]).joined(halves)

    def result(self, seconds: float, stopped: bool) -> ClaimProof:
        """Return the result of the search so far."""
        cells, lower = self.cells, self.lower
        status = FAILS if self.failing else OPEN if len(cells.centers) else PROVED
        hardest = cells.take(np.argsort(cells.lower, kind="stable")[:ENOUGH])
        failures = [point for _, point in sorted(self.failing, key=lambda failure: failure[0])]
        candidates = np.array(failures) if failures else hardest.centers
        margin = min(self.margin, float(cells.lower.min(initial=np.inf)))
        return ClaimProof(
            lower.claim,
            status,
            share=1.0 if status == PROVED else min(self.proved, 1.0),
            margin=lower.in_units_of_features(margin),
            least=lower.least_in_features(self.worst) if self.used else np.inf,
            worst=self.worst,
            box=self.box,
            cells=self.used,
            seconds=seconds,
            candidates=candidates,
            directions=lower.at(candidates)[1],
            stopped=stopped and status != PROVED,
            rounding=lower.in_units_of_features(lower.rounding) if self.used else 0.0,
            work=self.used * lower.work,
        )
