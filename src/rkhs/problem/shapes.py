"""Proofs that a learnt function has a shape everywhere on a box, not only at points.

A claim is L_x(f) >= b for all x of a box, L_x a derivative along features (or a value) at x.  In a cell of centre c and
half sides h, Taylor's formula with f's norm for a bound of the second derivatives gives, for all x of the cell,

    L_x f  >=  L_c f  -  sum_k h_k |D_k L_c f|  -  1/2 N(h) |f|,        N(h) = max over corners of |D_h D_h L_x|

where the norm N is one Gram entry, and does not depend on x for a kernel of x - y.  A cell whose bound is at least b is
proved; one whose centre is below b is where the claim fails; any other is halved along the side that costs most.  The
bound is quadratic in h, so that a margin m needs cells of size sqrt(m).

Features that do not act together are looked at apart: of a sum of kernels only those summands that depend on the
feature have a part in L_x f, and only their features have to be divided.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np

from rkhs.backend.arrays import to_numpy
from rkhs.calculus.atoms import Atoms
from rkhs.calculus.polynomials import Polynomials
from rkhs.calculus.spaces import SumOfSpaces
from rkhs.finite.function import Function
from rkhs.functionals.base import Combination, Functional, Part
from rkhs.gram import gram
from rkhs.kernels.algebra import Multiple, Pullback, Sum
from rkhs.kernels.base import Kernel
from rkhs.kernels.scale import ScaledKernel

Matrix = np.ndarray[Any, Any]
AT_FIRST, AT_ONCE = 32, 256  # cells
ROUNDING = 1e-12  # of |L| |f|, which is taken away from every bound
IDLE = 1  # batches without a new failure, after which one in a hurry stops
PROVED, FAILS, OPEN = "proved", "fails", "open"


@dataclass(frozen=True)
class Claim:
    """sign * D_axes f >= bound on a box: a slope for one axis, a second derivative for two, a value for none."""

    name: str
    axes: tuple[int, ...]
    sign: float = 1.0
    bound: float = 0.0

    def at(self, X: Matrix) -> Functional:
        """sign * D_axes at the rows of X, (t,)."""
        return self.slopes(X, None)

    def slopes(self, X: Matrix, features: tuple[int, ...] | None) -> Functional:
        """sign * D_axes D_k at the rows of X for each of the features k, (t, k); without them, (t,)."""
        n = X.shape[1]
        more: list[list[int]] = [[]] if features is None else [[k] for k in features]
        directions = np.stack([np.eye(n)[[*self.axes, *extra]].reshape(-1, n) for extra in more])
        shape = (len(X),) if features is None else (len(X), len(more))
        return self.sign * Combination(shape, (Part(Atoms(X, directions)),), self.name)


@dataclass(frozen=True, eq=False)
class ClaimProof:
    """What is known about a claim: "proved", "fails" (at `worst`), or "open" (nothing found against it).

    `margin` is what L_x f - bound is at least on the whole box, negative where it is not proved; `least` the smallest
    value of it that was seen, at the point `worst`.  `share` is the part of the box's volume that is proved.
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

    def __repr__(self) -> str:
        told = {
            PROVED: f"proved on the box, with a margin of {self.margin:.2g}",
            FAILS: f"fails by {-self.least:.2g} at {np.round(self.worst, 4).tolist()}; {self.share:.1%} proved",
            OPEN: f"open; {self.share:.1%} of the box proved, least value seen {self.least:.2g}",
        }
        return f"{self.claim.name}: {told[self.status]} ({self.cells} cells, {self.seconds:.1f} s)"


@dataclass(frozen=True, eq=False)
class Lower:
    """Lower bounds of L_x f over cells, for the part of f that has a say in it."""

    claim: Claim
    f: Function
    active: tuple[int, ...]  # features
    norm: float

    @classmethod
    def of(cls, claim: Claim, f: Function, n: int) -> Lower:
        check_provable(claim, f, n)
        kernel, active = (f.kernel, tuple(range(n))) if not claim.axes else acting(f.kernel, claim.axes, n)
        if kernel is None:  # nothing of f depends on the feature but perhaps the basis
            kernel, active = f.kernel, ()
        part = replace(f, kernel=kernel)
        return cls(claim, part, active, float(part.norm()))

    def remainder(self, h: Matrix) -> Matrix:
        """1/2 N(h) |f| for half sides h (m, n), zero where a feature has no say."""
        n = h.shape[1]
        h, places = np.unique(h, axis=0, return_inverse=True)
        unit = np.broadcast_to(np.eye(n)[list(self.claim.axes)].reshape(1, -1, n), (len(h), len(self.claim.axes), n))
        directions = np.concatenate([unit, h[:, None, :], h[:, None, :]], axis=1)[:, None]
        family = Combination((len(h),), (Part(Atoms(np.zeros((len(h), n)), directions)),), "second derivatives")
        norms = np.sqrt(np.clip(to_numpy(gram(self.f.kernel, family).diagonal()), 0, None))
        return 0.5 * norms[places.reshape(-1)] * self.norm

    def __call__(self, centres: Matrix, h: Matrix) -> tuple[Matrix, Matrix, Matrix]:
        """Values at the centres, lower bounds on the cells, and what each side of a cell costs (m, n)."""
        own = list(self.active)
        masked, linear = np.zeros_like(h), np.zeros_like(h)
        masked[:, own] = h[:, own]
        values = to_numpy(self.claim.at(centres)(self.f)).astype(np.float64) - self.claim.bound
        if own:
            linear[:, own] = h[:, own] * np.abs(to_numpy(self.claim.slopes(centres, self.active)(self.f)))
        rest = self.remainder(masked)
        squares = (masked * self.rates) ** 2
        shares = squares / np.maximum(squares.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        return values, values - linear.sum(axis=1) - rest - self.slack, linear + rest[:, None] * shares

    @cached_property
    def rates(self) -> Matrix:
        """How fast functions of the space change with each feature, (n,): |D_k| of values."""
        n = self.f.functionals.dimension
        slopes = Combination((n,), (Part(Atoms(np.zeros((1, n)), np.eye(n)[:, None, :])),), "slopes")
        return np.sqrt(np.clip(to_numpy(gram(self.f.kernel, slopes).diagonal()), 0, None))

    @cached_property
    def slack(self) -> float:
        """What rounding may hide."""
        n = self.f.functionals.dimension
        size = to_numpy(gram(self.f.kernel, self.claim.at(np.zeros((1, n)))).diagonal())[0]
        return ROUNDING * float(np.sqrt(max(size, 0.0))) * max(self.norm, 1e-300)


def prove(
    claim: Claim,
    f: Function,
    box: Matrix,
    *,
    cells: int = 20_000,
    seconds: float | None = None,
    enough: int = 64,
    hurried: bool = False,
) -> ClaimProof:
    """Branch and bound over the box (2, n), until it is proved, `enough` failures are found, or the cells are spent.

    Where the claim fails, looking goes on until `enough` places are known; in a hurry, until no more are found.
    """
    started = perf_counter()
    low, high = np.asarray(box, dtype=np.float64)
    n = len(low)
    lower = Lower.of(claim, f, n)
    centres, halves = ((low + high) / 2)[None], ((high - low) / 2)[None]
    while len(centres) < AT_FIRST and lower.active:
        side = np.argmax(halves[:, lower.active] * lower.rates[list(lower.active)], axis=1)
        parts = [_halved(centres, halves, np.array(lower.active)[side], which) for which in (-1.0, 1.0)]
        centres, halves = (np.concatenate(both) for both in zip(*parts, strict=True))
    shares = np.full(len(centres), 1 / len(centres))  # of the volume
    used, proved, margin = 0, 0.0, np.inf
    failing: list[tuple[float, Matrix]] = []
    least, worst = np.inf, centres[0]
    priority = np.zeros(len(centres))
    known, idle = 0, 0  # failures, and batches without a new one
    while len(centres) and used < cells and len(failing) < enough and not (hurried and failing and idle >= IDLE):
        if seconds is not None and perf_counter() - started > seconds:
            break
        order = np.argsort(priority, kind="stable")
        chosen, later = order[:AT_ONCE], order[AT_ONCE:]
        values, bounds, costs = lower(centres[chosen], halves[chosen])
        used += len(chosen)
        k = int(np.argmin(values))
        if values[k] < least:
            least, worst = float(values[k]), centres[chosen][k].copy()
        good = bounds >= 0
        proved += float(shares[chosen][good].sum())
        margin = min(margin, float(bounds[good].min(initial=np.inf)))
        failing += [(float(v), c) for v, c in zip(values[values < 0], centres[chosen][values < 0], strict=True)]
        known, idle = len(failing), 0 if len(failing) > known else idle + 1
        split = chosen[~good]
        side = np.argmax(costs[~good], axis=1)
        parts = [_halved(centres[split], halves[split], side, which) for which in (-1.0, 1.0)]
        centres = np.concatenate([centres[later], *(part[0] for part in parts)])
        halves = np.concatenate([halves[later], *(part[1] for part in parts)])
        shares = np.concatenate([shares[later], shares[split] / 2, shares[split] / 2])
        priority = np.concatenate([priority[later], bounds[~good], bounds[~good]])
    status = FAILS if failing else (PROVED if len(centres) == 0 else OPEN)
    failing.sort(key=lambda pair: pair[0])
    hardest = [c for _, c in failing] or list(centres[np.argsort(priority, kind="stable")[:enough]])
    return ClaimProof(
        claim,
        status,
        min(proved, 1.0) if status != PROVED else 1.0,
        min(margin, float(priority.min(initial=np.inf))),
        least,
        worst,
        np.stack([low, high]),
        used,
        perf_counter() - started,
        np.array(hardest).reshape(-1, n),
    )


def _halved(centres: Matrix, halves: Matrix, side: Matrix, which: float) -> tuple[Matrix, Matrix]:
    """One half of each cell, along its own side."""
    rows = np.arange(len(centres))
    small, moved = halves.copy(), centres.copy()
    small[rows, side] /= 2
    moved[rows, side] += which * small[rows, side]
    return moved, small


def acting(kernel: Kernel, axes: tuple[int, ...], n: int) -> tuple[Kernel | None, tuple[int, ...]]:
    """The summands of a kernel that depend on all of the features, and the features that those depend on."""
    parts, active = [], set()
    for weight, summand in kernel.summands():
        own = depends_on(summand, n)
        if set(axes) <= own:
            parts.append(Multiple(weight, summand))
            active |= own
    if not parts:
        return None, ()
    return (Sum(tuple(parts)) if len(parts) > 1 else parts[0]), tuple(sorted(active))


def depends_on(kernel: Kernel, n: int) -> set[int]:
    """The features that a kernel depends on."""
    if isinstance(kernel, Pullback):
        used = np.any(kernel.linear != 0, axis=0) if kernel.linear.ndim == 2 else kernel.linear != 0
        return set(np.flatnonzero(used).tolist())
    return set(range(n))


def check_provable(claim: Claim, f: Any, n: int) -> None:
    """Refuse functions whose second derivatives have no bound from their norm."""
    if not isinstance(f, Function) or f.outputs is not None:
        raise ValueError("Shapes are proved for functions of one output that are sums of representers.")
    spaces = f.basis.spaces if isinstance(f.basis, SumOfSpaces) else [f.basis]
    polynomials = all(space is None or (isinstance(space, Polynomials) and space.degree <= 1) for space in spaces)
    if f.kernel.order or not polynomials or not all(_stationary(k) for _, k in f.kernel.summands()):
        raise ValueError(
            f"A proof needs a kernel of x - y with a scale for each feature, or a sum of such ones, and no basis but "
            f"linear functions: {f.kernel!r}{'' if polynomials else f' with {f.basis!r}'} is none."
        )
    needed = len(claim.axes) + 2
    if not needed < f.kernel.smoothness(n):
        remedy = f.kernel.smoother(needed, n) or "rkhs.Gaussian()"
        raise ValueError(
            f"That {claim.name} everywhere is proved by derivatives of order {needed}, which {f.kernel!r} does not "
            f"bound: use {remedy}."
        )


def _stationary(kernel: Kernel) -> bool:
    """Whether a kernel is one of x - y that knows no sign of a feature."""
    if isinstance(kernel, Pullback):
        single = kernel.linear.ndim == 1 or bool(np.all(np.count_nonzero(kernel.linear, axis=1) <= 1))
        return single and _stationary(kernel.kernel)
    return isinstance(kernel, ScaledKernel)
