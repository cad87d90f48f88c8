"""The laws of losses of vectors: the methods of a `BlockLoss` belong to the same convex function of vectors.

They are those of `rkhs.testing._losses`, at random vectors.  Two are different: slopes fill a convex set of vectors,
onto which `project_dual` projects, and the curvature of a vector is at least the largest eigenvalue of the Hessian.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, to_numpy
from rkhs.losses import Loss
from rkhs.testing._laws import HAS_TORCH, ROUNDING, demand, demand_equal

OFFSETS = (0.0, *2.0 ** np.arange(-8, 6))  # distances of the vectors from their targets
COUNT = 3  # random directions for each distance
NEAR = (2.0**-10, 2.0**-16)  # steps of difference quotients
STEPS = (2.0**-20, 0.25, 4.0, 2.0**20)  # steps of the prox
FAR = 2.0 ** np.arange(0, 31, 6)  # lengths of slopes and vectors with which the domain is checked
HALVINGS = (26, 34)  # bisections of an interval, to less than the width of the transition of any smooth loss
UNITS = (0.25, 8.0)  # factors for `in_units`
UNIT = ROUNDING * float(np.finfo(np.float64).eps)


def check_block_loss(loss: Any, targets: Any = None) -> None:
    """Check the laws of a loss of vectors; `targets` (k, m) are those at which it is checked, by default random."""
    if targets is not None:
        targets = np.atleast_2d(np.asarray(targets, dtype=np.float64))
    size = loss.size or (2 if targets is None else targets.shape[1])
    sized = loss.of_family((1, size))
    if targets is None:
        targets = np.round(8 * np.random.default_rng(1).standard_normal((3, size))) / 8
    sized.check_targets(targets)
    sample = BlockSample(sized, targets)
    for law in LAWS:
        law(sample)


@dataclass(frozen=True, eq=False)
class BlockSample:
    """A loss and the vectors (t m, k) at which it is checked; each column has one target vector."""

    loss: Any
    targets: Array  # (k, m)

    @cached_property
    def size(self) -> int:
        return int(self.targets.shape[1])

    @cached_property
    def u(self) -> Array:
        """Vectors around each target, and the target, exactly representable in float32."""
        shape = (len(OFFSETS), COUNT, self.size, len(self.targets))
        directions = np.random.default_rng(0).standard_normal(shape)
        moved = (np.asarray(OFFSETS)[:, None, None, None] * directions).astype(np.float32).astype(np.float64)
        return (moved + self.targets.T).astype(np.float32).astype(np.float64).reshape(-1, len(self.targets))

    @cached_property
    def b(self) -> Array:
        return np.tile(self.targets.T, (len(self.u) // self.size, 1))

    @cached_property
    def others(self) -> list[Array]:
        """The vectors in other orders."""
        orders = (np.random.default_rng(seed).permutation(len(self.u) // self.size) for seed in range(6))
        return [self.vectors(self.u)[order].reshape(self.u.shape) for order in orders]

    @cached_property
    def value(self) -> Array:
        return self.of(self.u)

    @cached_property
    def gradient(self) -> Array:
        return self.loss.gradient(self.u, self.b)

    def vectors(self, x: Array) -> Array:
        """Return rows (t m, k) as vectors (t, m, k)."""
        return x.reshape(-1, self.size, x.shape[-1])

    def summed(self, x: Array) -> Array:
        """Return the sums (t, k) over the rows of each vector."""
        return self.vectors(x).sum(axis=1)

    def dot(self, x: Array, y: Array) -> Array:
        return self.summed(x * y)

    def length(self, x: Array) -> Array:
        return np.sqrt(self.dot(x, x))

    def of(self, u: Array) -> Array:
        """Return the losses (t, k)."""
        return self.summed(self.loss.value(u, self.b))

    def conjugate(self, s: Array) -> Array:
        """Return the conjugates (t, k) of slopes that are in the domain up to rounding."""
        return self.summed(self.loss.conjugate(self.loss.project_dual(s, self.b), self.b))

    def prox(self, step: float) -> tuple[Array, Array]:
        """Return v = prox(u) and the subgradient s = (u - v) / step at v."""
        v = self.loss.prox(self.u, self.b, step)
        return v, (self.u - v) / step

    def slopes(self) -> Iterator[Array]:
        """Yield slopes of all lengths, projected onto the domain."""
        directions = np.random.default_rng(2).standard_normal((len(FAR), *self.u.shape))
        for length, direction in zip(FAR, directions, strict=True):
            yield self.loss.project_dual(length * direction, self.b)

    def demand(self, law: str, excess: Array, *terms: Any, **argument: Array) -> None:
        """Raise an AssertionError unless excess (t, k) <= 0, up to rounding errors of 1 and of the terms.

        The message has the place of the largest excess: the `argument` with its name, by default u, and b.
        """
        name, points = next(iter(argument.items()), ("u", self.u))
        allowed = UNIT * (1 + sum(np.abs(term) for term in terms))
        excess, allowed = np.broadcast_arrays(excess, allowed)
        worst = np.unravel_index(np.argmax(excess - allowed), excess.shape)  # argmax returns the first NaN if any
        t, k = (int(i) for i in worst[-2:])
        where = f"at {name} = {self.vectors(points)[t, :, k].round(4).tolist()}, b = {self.targets[k].tolist()}"
        demand(self.loss, f"{law}, {where}", float(excess[worst]), float(allowed[worst]))


def _finite(sample: BlockSample) -> None:
    """Check that results are finite, shared equally over the rows of a vector, and depend on that vector alone."""
    loss, u, b = sample.loss, sample.u, sample.b
    together = _tables(loss, u, b)
    for name, table in together.items():
        if table.shape != u.shape:
            raise AssertionError(f"{loss!r} gives {name} of shape {table.shape} for u of {u.shape}.")
        argument = {"s": together["project_dual"]} if name == "conjugate" else {"u": u}
        sample.demand(f"{name} is finite", np.where(np.isfinite(sample.summed(table)), 0.0, np.inf), **argument)
    for name in ("value", "curvature"):
        rows = sample.vectors(together[name])
        spread = rows.max(axis=1) - rows.min(axis=1)
        sample.demand(f"the rows of a vector have the same {name}", spread, rows.max(axis=1))
    half = len(u) // sample.size // 2 * sample.size
    column = _tables(loss, u[half:, 0], b[half:, 0])
    for name, table in column.items():
        demand_equal(loss, f"{name} depends on one vector only", table, together[name][half:, 0])


def _convex(sample: BlockSample) -> None:
    """Check loss(u + t (v - u)) <= (1 - t) loss(u) + t loss(v)."""
    for v in sample.others:
        for t in (0.25, 0.5):
            line = (1 - t) * sample.value + t * sample.of(v)
            excess = sample.of(sample.u + t * (v - sample.u)) - line
            sample.demand("loss((1 - t) u + t v) <= (1 - t) loss(u) + t loss(v)", excess, line)


def _subgradient(sample: BlockSample) -> None:
    """Check loss(v) >= loss(u) + gradient(u) (v - u); for near v the gradient is between the difference quotients."""
    directions = np.random.default_rng(3).standard_normal((3, *sample.u.shape))
    near = (sample.u + sign * h * d for d in directions for h in NEAR for sign in (1, -1))
    for v in (*near, *sample.others):
        at_v, line = sample.of(v), sample.dot(sample.gradient, v - sample.u)
        law = "loss(v) >= loss(u) + gradient(u) (v - u)"
        sample.demand(law, sample.value + line - at_v, sample.value, at_v, line)


def _curvature(sample: BlockSample) -> None:
    """Check that `lipschitz` bounds the changes of the gradient, and the curvature its derivative in any direction.

    The latter holds up to the change of the difference quotient within its step h.  Losses with kinks are exempt: no
    bound holds at a kink, and solvers do not use their curvature.
    """
    if not sample.loss.smooth:
        return
    away = sample.u + 0.01 * np.random.default_rng(4).standard_normal(sample.u.shape)
    bound, h = sample.vectors(sample.loss.curvature(away, sample.b))[:, 0], NEAR[1]
    for d in np.random.default_rng(5).standard_normal((6, *sample.u.shape)):
        behind, here, ahead = (sample.dot(sample.loss.gradient(away + t * d, sample.b), d) for t in (-h, 0.0, h))
        left, right = (here - behind) / h, (ahead - here) / h
        excess = (left + right) / 2 - bound * sample.dot(d, d) - abs(right - left)
        law = "curvature is at least the second derivative in any direction"
        sample.demand(law, excess, 1 / h, here / h, ahead / h, behind / h)
    for v in sample.others:
        change = sample.length(sample.loss.gradient(v, sample.b) - sample.gradient)
        distance = sample.length(v - sample.u)
        law = "|gradient(u) - gradient(v)| <= lipschitz |u - v| < infinity"
        bound = sample.loss.lipschitz * distance if sample.loss.lipschitz < np.inf else -np.inf
        sample.demand(law, change - bound, change, distance)


def _smooth(sample: BlockSample) -> None:
    """Check that `smooth` is true if and only if the gradient has no jumps along lines, some through the target."""
    fine, coarse = 0.0, 0.0
    for start, end in ((sample.u, sample.others[0]), (sample.u, 2.7 * sample.b - 1.7 * sample.u)):
        d, u, width = end - start, start, 1.0
        for k in range(1, max(HALVINGS) + 1):
            width /= 2
            slopes = [sample.dot(sample.loss.gradient(u + t * width * d, sample.b), d) for t in (0, 1, 2)]
            later = np.repeat(slopes[2] - slopes[1] > slopes[1] - slopes[0], sample.size, axis=0)
            u = np.where(later, u + width * d, u)  # the half in which the gradient grows more
            growth = np.maximum(slopes[2] - slopes[1], slopes[1] - slopes[0]) / width
            if k in HALVINGS:
                growth = np.max(growth / np.where(sample.dot(d, d) > 0, sample.dot(d, d), 1.0))
                fine, coarse = (fine, max(coarse, growth)) if k == min(HALVINGS) else (max(fine, growth), coarse)
    lipschitz = fine <= 4 * coarse + UNIT * (1 + np.max(abs(sample.gradient))) / width
    if lipschitz != sample.loss.smooth:
        reason = "has no jumps" if lipschitz else "jumps"
        raise AssertionError(f"{sample.loss!r} has smooth = {sample.loss.smooth}, but its gradient {reason}.")


def _flags(sample: BlockSample) -> None:
    """Check that the loss is not declared to be separable or (u - b)^2, which solvers treat row by row."""
    for name in ("separable", "quadratic", "classification"):
        if getattr(sample.loss, name):
            raise AssertionError(f"{sample.loss!r} is a loss of vectors, but has {name} = True.")


def _domain(sample: BlockSample) -> None:
    """Check that `project_dual` projects onto a convex set of slopes that contains all gradients."""
    loss, b = sample.loss, sample.b
    low, high = loss.domain(b)
    lengths = sample.length(sample.gradient)
    sample.demand("gradients are not longer than largest_slope", lengths - loss.largest_slope, lengths)
    for g in (sample.gradient, *(sample.prox(step)[1] for step in STEPS[1:])):
        moved = sample.length(loss.project_dual(g, b) - g)
        sample.demand("gradients are in the domain", moved, *map(sample.length, (g, sample.u, b)))
    for s in sample.slopes():
        size = sample.length(s)
        again = loss.project_dual(s, b)
        sample.demand("project_dual is idempotent", sample.length(again - s), size)
        out = sample.vectors(np.maximum(low - s, s - high)).max(axis=1)
        sample.demand("project_dual is inside of `domain`", out, size)
        finite = np.isfinite(sample.summed(loss.conjugate(s, b)))
        sample.demand("conjugate is finite in the domain", np.where(finite, 0.0, np.inf))
    directions = np.random.default_rng(6).standard_normal((len(FAR), *sample.u.shape))
    for length, direction in zip(FAR, directions, strict=True):
        point = length * direction
        nearest = loss.project_dual(point, b)
        for g in (sample.gradient, *sample.slopes()):
            cosine = sample.dot(point - nearest, g - nearest)
            sizes = (sample.length(x) for x in (g, nearest))
            law = "project_dual returns the nearest slope"
            sample.demand(law, cosine, *(sample.length(point - nearest) * x for x in sizes))
        other = loss.project_dual(point + direction[::-1], b)
        excess = sample.length(other - nearest) - sample.length(direction[::-1])
        sample.demand("project_dual is nonexpansive", excess, sample.length(point))
        outside = sample.length(point - nearest) > 1e-6 * sample.length(point)
        infinite = np.isinf(sample.summed(loss.conjugate(point, b))) | ~outside
        sample.demand("conjugate = infinity outside the domain", np.where(infinite, 0.0, np.inf))


def _fenchel_young(sample: BlockSample) -> None:
    """Check the Fenchel-Young inequality loss(u) + conjugate(s) >= s u, with equality for s = gradient(u)."""
    conjugate, product = sample.conjugate(sample.gradient), sample.dot(sample.gradient, sample.u)
    law = "loss(u) + conjugate(s) = s u for s = gradient(u)"
    sizes = (sample.length(sample.gradient) * sample.length(x) for x in (sample.u, sample.b))
    sample.demand(law, abs(sample.value + conjugate - product), sample.value, conjugate, *sizes)
    for s in (sample.gradient, *sample.slopes()):
        conjugate, excess = sample.conjugate(s), sample.loss.excess(sample.u, sample.b, s)
        for u in (sample.u, *sample.others[:2], *(sample.b + far * s for far in (-1.0, 1.0, *FAR[2:4]))):
            product, value = sample.dot(s, u), sample.of(u)
            sizes = (sample.length(s) * sample.length(x) for x in (u, sample.b))
            sample.demand("loss(u) + conjugate(s) >= s u", product - value - conjugate, value, conjugate, *sizes)
        gap = sample.value + conjugate - sample.dot(s, sample.u)
        sizes = (sample.length(s) * sample.length(x) for x in (sample.u, sample.b))
        law = "excess = loss(u) + conjugate(s) - s u"
        sample.demand(law, abs(sample.summed(excess) - gap), sample.value, conjugate, *sizes)
        if not np.all(excess >= 0):
            raise AssertionError(f"{sample.loss!r} breaks the law excess >= 0.")


def _excess_increase(sample: BlockSample) -> None:
    """Check that `excess_increase` bounds the increase of the excess within the errors."""
    rng = np.random.default_rng(7)
    inner = 0.9 * sample.gradient + 0.1 * sample.loss.project_dual(rng.standard_normal(sample.u.shape), sample.b)
    for size in (1e-6, 1e-2, 1.0, 30.0):
        error = size * rng.uniform(0, 1, sample.u.shape)
        for s in (sample.gradient, inner):
            before = sample.summed(sample.loss.excess(sample.u, sample.b, s))
            bound = sample.summed(sample.loss.excess_increase(sample.u, sample.b, s, error))
            terms = sample.value, sample.length(s) * (sample.length(sample.u) + sample.length(sample.b)), before
            corners = (np.sign(rng.standard_normal(sample.u.shape)) for _ in range(8))
            toward = np.sign(sample.b - sample.u)
            for sign in (toward, -toward, *corners):
                u = sample.u + sign * error
                increase = sample.summed(sample.loss.excess(u, sample.b, s)) - before
                law = "excess_increase bounds the increase of excess within the error"
                sample.demand(law, increase - bound, *terms, sample.of(u), sample.length(s) * sample.length(u))


def _prox(sample: BlockSample) -> None:
    """Check that v = prox(u) minimizes loss(v) + |v - u|^2 / (2 step), compared with other vectors."""
    rng = np.random.default_rng(8)
    for step in STEPS:
        v, _ = sample.prox(step)

        def objective(v: Array, step: float = step) -> Array:
            return sample.of(v) + sample.dot(v - sample.u, v - sample.u) / (2 * step)

        least, size = objective(v), sample.length(sample.u) + sample.length(v) + 1
        law = f"prox(u) minimizes loss(v) + |v - u|^2 / (2 step), for step {step:.3g}"
        for h in (1e-6, 1e-2, 1.0):
            near = v + h * rng.standard_normal(v.shape)
            sample.demand(law, least - objective(near), least, size**2 / step)
        by_array = sample.loss.prox(sample.u, sample.b, np.full(sample.u.shape, step))
        sample.demand(f"prox takes an array of steps {step:.3g}", sample.length(by_array - v), size)


def _moreau(sample: BlockSample) -> None:
    """Check Moreau's decomposition u = v + step s, v = prox(u), by loss(v) + conjugate(s) = s v.

    It says that s is a subgradient at v.  As the slopes s fill the domain, equality there and the Fenchel-Young
    inequality elsewhere determine the conjugate: it is the supremum of s v - loss(v).
    """
    for step in STEPS:
        v, s = sample.prox(step)
        value, conjugate, product = sample.of(v), sample.conjugate(s), sample.dot(s, v)
        law = f"u = prox(u) + step prox*(u / step), for step {step:.3g}"
        sizes = (sample.length(s) * sample.length(x) for x in (v, sample.b))
        slack = (1 + sample.length(sample.u) + sample.length(v)) ** 2 / step
        sample.demand(law, abs(value + conjugate - product), value, conjugate, *sizes, slack)


def _non_expansive(sample: BlockSample) -> None:
    """Check that the prox is firmly nonexpansive: |prox(u) - prox(u')|^2 <= (prox(u) - prox(u')) (u - u')."""
    for step in STEPS:
        v, _ = sample.prox(step)
        for other in sample.others:
            dv, du = v - sample.loss.prox(other, sample.b, step), sample.u - other
            size = sample.length(v) + sample.length(sample.u) + sample.length(other) + 1
            law = f"|prox(u) - prox(u')|^2 <= (prox(u) - prox(u')) (u - u'), for step {step:.3g}"
            sample.demand(law, sample.dot(dv, dv - du), sample.length(dv) * size, sample.length(du) * size)


def _smoothed(sample: BlockSample) -> None:
    """Check that `smoothed` is the Moreau envelope, with the conjugate increased by width |s|^2 / 2."""
    for width in (0.25, 4.0):
        soft, (v, s) = sample.loss.smoothed(width), sample.prox(width)
        value = sample.of(v) + width * sample.dot(s, s) / 2
        law, size = f"smoothed({width:g}) is the Moreau envelope", sample.length(sample.u) + sample.length(s)
        found = sample.summed(soft.value(sample.u, sample.b))
        sample.demand(f"{law}: value", abs(found - value), value, size**2)
        sample.demand(f"{law}: gradient", sample.length(soft.gradient(sample.u, sample.b) - s), size)
        inside = sample.loss.project_dual(s, sample.b)
        conjugate = sample.conjugate(s) + width * sample.dot(inside, inside) / 2
        found = sample.summed(soft.conjugate(inside, sample.b))
        sample.demand(f"{law}: conjugate", abs(found - conjugate), conjugate, size**2)
    if sample.loss.smoothed(0) is not sample.loss:
        raise AssertionError(f"{sample.loss!r} breaks the law smoothed(0) is the loss itself.")


def _in_units(sample: BlockSample) -> None:
    """Check the loss and the factor of `in_units`, if the loss supports other units."""
    for unit in UNITS:
        converted = sample.loss.in_units(unit)
        if converted is not None:
            loss, factor = converted
            value = factor * sample.summed(loss.value(unit * sample.u, unit * sample.b))
            law = "loss(u / unit; b / unit) = factor * its loss in_units (u; b)"
            sample.demand(law, abs(value - sample.value), sample.value)


def _same_elsewhere(sample: BlockSample) -> None:
    """Check that NumPy and PyTorch, float32 and float64 give the same results up to rounding."""
    expected = _tables(sample.loss, sample.u, sample.b)
    for name, table in _tables(sample.loss, sample.u.astype(np.float32), sample.b.astype(np.float32)).items():
        if table.dtype != np.float32:
            raise AssertionError(f"{sample.loss!r} turns float32 into {table.dtype} in its {name}.")
        demand_equal(sample.loss, f"float32 = float64, for its {name}", table, expected[name])
    if HAS_TORCH:
        import torch

        for name, tensor in _tables(sample.loss, torch.asarray(sample.u), torch.asarray(sample.b)).items():
            demand_equal(sample.loss, f"PyTorch = NumPy, for its {name}", to_numpy(tensor), expected[name])


def _tables(loss: Loss, u: Array, b: Array) -> dict[str, Array]:
    """Return the finite results of a loss, by name."""
    inside = loss.project_dual(u / 2, b)
    return {
        "value": loss.value(u, b),
        "gradient": loss.gradient(u, b),
        "curvature": loss.curvature(u, b),
        "prox": loss.prox(u, b, 0.75),
        "project_dual": inside,
        "conjugate": loss.conjugate(inside, b),
        "excess": loss.excess(u, b, inside),
        "excess_increase": loss.excess_increase(u, b, inside, 0 * u + 0.125),
    }


LAWS = (
    _finite,
    _convex,
    _subgradient,
    _flags,
    _smooth,
    _curvature,
    _prox,
    _non_expansive,
    _domain,
    _fenchel_young,
    _moreau,
    _smoothed,
    _excess_increase,
    _in_units,
    _same_elsewhere,
)
