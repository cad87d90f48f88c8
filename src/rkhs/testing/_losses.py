"""The laws of losses: value, gradient, curvature, prox and conjugate belong to the same convex function.

A loss of single functionals is a loss of vectors of one functional, so that all laws are stated for vectors: |v| is a
length, s v an inner product, and the loss of a vector is the sum over its rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Array, to_numpy
from rkhs.losses import Loss
from rkhs.losses._blocks import BlockLoss
from rkhs.testing._laws import HAS_TORCH, ROUNDING, demand, demand_equal, largest

TARGETS = (-1.5, 0.0, 0.25, 2.0)
CLASSES = (-1.0, 1.0)
OFFSETS = 2.0 ** np.arange(-10, 6)  # distances of the points from their targets
DIRECTIONS = 3  # random vectors for each distance
NEAR = (2.0**-10, 2.0**-16)  # steps of difference quotients
OFF = 0.1234567  # shift of points away from kinks and centers of symmetry
STEPS = (2.0**-40, 2.0**-20, 0.25, 4.0, 2.0**20, 2.0**40)  # steps of the prox
FAR = 2.0 ** np.arange(5, 31)  # points where a bounded gradient is near its limit, and a Lipschitz one nearly linear
LENGTHS = 2.0 ** np.arange(0, 31, 6)  # lengths of slopes with which the domain is checked
HALVINGS = (28, 38)  # bisections of an interval, to less than the width of the transition of any smooth loss
UNITS = (0.25, 8.0)  # factors for `in_units`
SATURATED = 1.2  # a quotient that grows by less than this factor has a limit
UNIT = ROUNDING * float(np.finfo(np.float64).eps)
LIMIT = 2.0**-10  # largest relative distance of the gradient at the last point of FAR from its limit


def check_loss(loss: Loss, targets: Any = None) -> None:
    """Check that a loss has the properties that the package relies on.

    The laws are: the loss is convex; its gradient is a subgradient (the limit of difference quotients, if it exists)
    and its curvature the derivative of the gradient; the prox is the argmin and firmly nonexpansive; the conjugate is
    the supremum, and infinite outside of the domain, which is the range of the gradient; the Fenchel-Young inequality
    holds, with equality at the gradient, `excess` is its gap, and `excess_increase` bounds the effect of errors on it;
    Moreau's decomposition holds; `project_dual` is the projection onto the domain; the flags `smooth`, `quadratic`,
    `classification` and `attained` are correct; `in_units` returns the same loss in other units; and NumPy and PyTorch,
    float32 and float64 give the same results.

    Losses of vectors (`rkhs.extend.BlockLoss`) obey the same laws at random vectors, except that `curvature` is at
    least the second derivative in all directions, and that the flags `quadratic` and `classification` are false.

    Parameters
    ----------
    loss : Loss
        The loss.
    targets : array-like of shape (k,) or (k, m), optional
        The targets at which to check a loss that does not support all of them, vectors for a loss of vectors of m
        functionals; by default a few numbers, classes or random vectors.

    Raises
    ------
    AssertionError
        If a law is violated; the message names the law.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import rkhs
    >>> from rkhs.testing import check_loss
    >>> check_loss(rkhs.Huber(delta=0.5))
    >>> @dataclass(frozen=True)
    ... class Wrong(rkhs.Squared):
    ...     def gradient(self, u, b):
    ...         return u - b
    >>> check_loss(Wrong())  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    AssertionError: Wrong() breaks the law loss(v) >= loss(u) + gradient(u) (v - u), at u = ..., b = ...: \
measured ..., allowed ....
    """
    sample = LossSample.of(loss, targets)
    for law in PRIMAL + DUAL:
        law(sample)


@dataclass(frozen=True, eq=False)
class LossSample:
    """A loss and the vectors (t m, k) at which it is checked; each column has one target."""

    loss: Any
    targets: Array  # (k, m)

    @classmethod
    def of(cls, loss: Loss, targets: Any = None) -> LossSample:
        if not isinstance(loss, BlockLoss):
            given = (CLASSES if loss.classification else TARGETS) if targets is None else targets
            return cls(loss, np.reshape(np.asarray(given, dtype=np.float64), (-1, 1)))
        size = loss.size or (2 if targets is None else np.shape(targets)[-1])
        random = np.round(8 * np.random.default_rng(1).standard_normal((3, size))) / 8
        vectors = np.reshape(np.asarray(random if targets is None else targets, dtype=np.float64), (-1, size))
        sized = loss.of_family((1, size))
        sized.check_targets(vectors)
        return cls(sized, vectors)

    @cached_property
    def size(self) -> int:
        """The number m of functionals in a vector."""
        return int(self.targets.shape[1])

    @cached_property
    def of_vectors(self) -> bool:
        return isinstance(self.loss, BlockLoss)

    @cached_property
    def u(self) -> Array:
        """Vectors around each target, and the target itself, exactly representable in float32."""
        rng, distances = np.random.default_rng(0), np.concatenate([-OFFSETS, [0.0], OFFSETS])
        if not self.of_vectors:
            noise = 4 * rng.standard_normal(16).astype(np.float32).astype(np.float64)
            return np.sort(np.concatenate([distances, noise]))[:, None] + self.targets.T
        directions = rng.standard_normal((len(OFFSETS) + 1, DIRECTIONS, self.size, len(self.targets)))
        moved = distances[len(OFFSETS) :, None, None, None] * directions + self.targets.T
        return moved.astype(np.float32).astype(np.float64).reshape(-1, len(self.targets))

    @cached_property
    def b(self) -> Array:
        return self.repeated(len(self.u) // self.size)

    @cached_property
    def others(self) -> list[Array]:
        """The vectors shifted by 1, 2, ..., so that each meets all others."""
        vectors = self.vectors(self.u)
        return [np.roll(vectors, shift, axis=0).reshape(self.u.shape) for shift in range(1, len(vectors))]

    @cached_property
    def value(self) -> Array:
        return self.of_loss(self.u)

    @cached_property
    def gradient(self) -> Array:
        return self.loss.gradient(self.u, self.b)

    def repeated(self, count: int) -> Array:
        """Return the targets (count m, k) of `count` vectors in each column."""
        return np.tile(self.targets.T, (count, 1))

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

    def of_loss(self, u: Array) -> Array:
        """Return the losses (t, k)."""
        return self.summed(self.loss.value(u, self.b))

    def conjugate(self, s: Array) -> Array:
        """Return the conjugates (t, k) of slopes that are in the domain up to rounding."""
        return self.summed(self.loss.conjugate(self.loss.project_dual(s, self.b), self.b))

    def prox(self, step: float) -> tuple[Array, Array]:
        """Return v = prox(u) and the subgradient s = (u - v) / step at v."""
        v = self.loss.prox(self.u, self.b, step)
        return v, (self.u - v) / step

    @cached_property
    def slopes(self) -> list[Array]:
        """Slopes between the gradients at two vectors, including those at a kink, and projections onto the domain."""
        between = (3 * self.gradient + self.loss.gradient(self.others[0], self.b)) / 4
        directions = np.random.default_rng(2).standard_normal((len(LENGTHS), *self.u.shape))
        projected = [self.loss.project_dual(r * d, self.b) for r, d in zip(LENGTHS, directions, strict=True)]
        return [self.gradient, between, *projected]

    def declares(self, flag: str, found: bool, reason: str) -> None:
        """Raise an AssertionError with the reason unless a flag of the loss is what was found."""
        if getattr(self.loss, flag) != found:
            raise AssertionError(f"{self.loss!r} has {flag} = {not found}, but {reason}.")

    def place(self, points: Array, t: int, k: int) -> Any:
        """Return vector t of column k, or a number if vectors have one functional."""
        vector = self.vectors(points)[t, :, k]
        return vector.round(4).tolist() if self.of_vectors else float(f"{vector[0]:.4g}")

    def demand(self, law: str, excess: Array, *terms: Any, **argument: Array) -> None:
        """Raise an AssertionError unless excess (t, k) <= 0, up to rounding errors of 1 and of the terms.

        The message has the place of the largest excess: the `argument` with its name, by default u, and b.
        """
        name, points = next(iter(argument.items()), ("u", self.u))
        allowed = UNIT * (1 + sum(np.abs(term) for term in terms))
        shape = (len(self.u) // self.size, len(self.targets))
        excess, allowed = (np.broadcast_to(x, shape) for x in (excess, allowed))
        t, k = np.unravel_index(np.argmax(excess - allowed), excess.shape)  # argmax returns the first NaN if any
        u, b = (self.place(np.broadcast_to(x, self.u.shape), int(t), int(k)) for x in (points, self.b))
        demand(self.loss, f"{law}, at {name} = {u:}, b = {b:}", float(excess[t, k]), float(allowed[t, k]))


def _finite(sample: LossSample) -> None:
    """Check that results are finite, shared equally over the rows of a vector, and depend on that vector alone."""
    loss, u, b = sample.loss, sample.u, sample.b
    for s in (np.where(np.isfinite(end), end, 0.0) for end in loss.domain(b)):
        excess = np.where(np.isnan(sample.summed(loss.conjugate(s, b))), np.nan, 0.0)
        sample.demand("conjugate is not NaN, also at the ends of its domain", excess, s=s)
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
    for name, table in _tables(loss, u[half:, 0], b[half:, 0]).items():
        demand_equal(loss, f"{name} depends on one vector only", table, together[name][half:, 0])


def _convex(sample: LossSample) -> None:
    """Check loss(u + t (v - u)) <= (1 - t) loss(u) + t loss(v)."""
    for v in sample.others:
        at_v = sample.of_loss(v)
        for t in (0.25, 0.5):
            line = (1 - t) * sample.value + t * at_v
            excess = sample.of_loss(sample.u + t * (v - sample.u)) - line
            sample.demand("loss((1 - t) u + t v) <= (1 - t) loss(u) + t loss(v)", excess, sample.value, at_v)


def _subgradient(sample: LossSample) -> None:
    """Check loss(v) >= loss(u) + gradient(u) (v - u); for near v the gradient is between the difference quotients."""
    directions = np.random.default_rng(3).standard_normal((3, *sample.u.shape)) if sample.of_vectors else [1.0]
    near = (sample.u + sign * h * d for d in directions for h in NEAR for sign in (1, -1))
    for v in (*near, *sample.others):
        at_v, line = sample.of_loss(v), sample.dot(sample.gradient, v - sample.u)
        law = "loss(v) >= loss(u) + gradient(u) (v - u)"
        sample.demand(law, sample.value + line - at_v, sample.value, at_v, line)


def _curvature(sample: LossSample) -> None:
    """Check that the curvature of a number is the derivative of the gradient, and that of a vector a bound of it.

    Both hold up to the change of the difference quotient within its step h.  For vectors `lipschitz` bounds all changes
    of the gradient, and losses with kinks are exempt: no bound holds at a kink, and solvers do not use their curvature.
    """
    if sample.of_vectors and not sample.loss.smooth:
        return
    u, h = sample.u + OFF, NEAR[0]
    curvature = sample.vectors(sample.loss.curvature(u, sample.b))[:, 0]
    random = np.random.default_rng(5).standard_normal((6, *u.shape))
    directions = random if sample.of_vectors else np.ones((1, *u.shape))
    for d in directions:
        behind, here, ahead = (sample.dot(sample.loss.gradient(u + t * d, sample.b), d) for t in (-h, 0.0, h))
        left, right = (here - behind) / h, (ahead - here) / h
        excess, law = (left + right) / 2 - curvature * sample.dot(d, d), "curvature = derivative of the gradient"
        if sample.of_vectors:
            law = "curvature is at least the second derivative in any direction"
        else:
            excess = abs(excess)
        sample.demand(law, excess - abs(right - left), 1 / h, here / h, ahead / h, behind / h, u=u)
    for v in sample.others if sample.of_vectors else []:
        change = sample.length(sample.loss.gradient(v, sample.b) - sample.gradient)
        distance = sample.length(v - sample.u)
        law = "|gradient(u) - gradient(v)| <= lipschitz |u - v| < infinity"
        bound = sample.loss.lipschitz * distance if sample.loss.lipschitz < np.inf else -np.inf
        sample.demand(law, change - bound, change, distance)


def _lines(sample: LossSample) -> Iterator[tuple[Array, Array]]:
    """Yield starts and directions of lines: unit intervals, or between vectors and through the targets."""
    if not sample.of_vectors:
        start = np.arange(-32.0, 32.0)[:, None] + OFF + sample.targets.T
        yield start, np.ones(start.shape)
    else:
        for end in (sample.others[0], 2.7 * sample.b - 1.7 * sample.u):
            yield sample.u, end - sample.u


def _smooth(sample: LossSample) -> None:
    """Check that `smooth` is true if and only if the gradient is Lipschitz, locally and at infinity."""
    coarse, fine, width, why = 0.0, 0.0, 1.0, ""
    for start, d in _lines(sample):
        u, width, b = start, 1.0, sample.repeated(len(start) // sample.size)
        squares = np.where(sample.dot(d, d) > 0, sample.dot(d, d), 1.0)
        for k in range(1, max(HALVINGS) + 1):
            width /= 2
            behind, middle, ahead = (sample.dot(sample.loss.gradient(u + t * width * d, b), d) for t in (0, 1, 2))
            later = np.repeat(ahead - middle > middle - behind, sample.size, axis=0)
            u = np.where(later, u + width * d, u)  # the half in which the gradient grows more
            quotients = np.maximum(ahead - middle, middle - behind) / width / squares
            if k == min(HALVINGS):
                coarse = max(coarse, np.max(quotients))
            elif k == max(HALVINGS) and np.max(quotients) > fine:
                fine, worst = np.max(quotients), np.unravel_index(np.argmax(quotients), quotients.shape)
                why = f"jumps near u = {sample.place(u, *map(int, worst))}"
    noise = UNIT * (1 + np.max(abs(sample.gradient))) / width
    lipschitz, b = fine <= 2 * coarse + noise, sample.repeated(len(FAR))
    for sign in (1, -1):
        with np.errstate(over="ignore", invalid="ignore"):
            slopes = sample.length(sample.loss.gradient(sign * np.repeat(FAR, sample.size)[:, None] + b, b))
            far = abs(np.diff(slopes, axis=0)) / np.diff(FAR)[:, None]
        if not np.max(far[-1]) <= SATURATED * max(np.max(far[:-2]), coarse) + noise:
            lipschitz, why = False, f"grows faster than linearly for u -> {sign * np.inf:g}"
    sample.declares("smooth", lipschitz, f"its gradient {'is Lipschitz-continuous' if lipschitz else why}")


def _flags(sample: LossSample) -> None:
    """Check `quadratic` (loss = (u - b)^2), `attained` (there is a minimum) and `classification` (symmetry).

    A loss of vectors is not declared to be separable or (u - b)^2, which solvers treat row by row.
    """
    loss = sample.loss
    if sample.of_vectors:
        for name in ("separable", "quadratic", "classification"):
            if getattr(loss, name):
                raise AssertionError(f"{loss!r} is a loss of vectors, but has {name} = True.")
        return
    b = sample.targets.T
    u = np.concatenate([sample.u, FAR[:, None] + b])
    squares = (u - b) ** 2
    with np.errstate(over="ignore"):
        quadratic = bool(np.all(abs(loss.value(u, b) - squares) <= UNIT * (1 + squares)))
    sample.declares("quadratic", quadratic, f"it {'is' if quadratic else 'is not'} (u - b)^2")
    near = sample.gradient[np.abs(sample.u[:, 0] - b[0, 0]) <= 8]  # farther away a gradient may underflow
    attained = bool(np.all(np.any(near <= 0, axis=0) & np.any(near >= 0, axis=0)))
    sample.declares("attained", attained, f"0 {'does' if attained else 'does not'} occur among its gradients")
    if loss.classification:
        reflected = loss.value(-sample.u, -sample.b)
        sample.demand("loss(-u; -b) = loss(u; b)", abs(reflected - sample.value), sample.value)


def _domain(sample: LossSample) -> None:
    """Check that `project_dual` projects onto a convex set of slopes, the smallest one that contains all gradients."""
    loss, b = sample.loss, sample.b
    low, high = loss.domain(b)
    if sample.of_vectors:
        lengths = sample.length(sample.gradient)
        sample.demand("gradients are not longer than largest_slope", lengths - loss.largest_slope, lengths)
    else:
        _ends(sample)
    for step in (None, 0.25, 4.0):
        g = sample.gradient if step is None else sample.prox(step)[1]
        rounding = (sample.length(g),) if step is None else map(sample.length, (g, sample.u, b))
        sample.demand("gradients are in the domain", sample.length(loss.project_dual(g, b) - g), *rounding)
    for s in sample.slopes[2:]:
        size = sample.length(s)
        sample.demand("project_dual is idempotent", sample.length(loss.project_dual(s, b) - s), size)
        out = sample.vectors(np.maximum(low - s, s - high)).max(axis=1)
        sample.demand("project_dual is inside of `domain`", out, size)
        finite = np.isfinite(sample.summed(loss.conjugate(s, b)))
        sample.demand("conjugate is finite in the domain", np.where(finite, 0.0, np.inf))
    directions = np.random.default_rng(6).standard_normal((len(LENGTHS), *sample.u.shape))
    for length, direction in zip(LENGTHS, directions, strict=True):
        point = length * direction
        nearest = loss.project_dual(point, b)
        for g in sample.slopes:
            cosine = sample.dot(point - nearest, g - nearest)
            sizes = (sample.length(x) for x in (g, nearest))
            law = "project_dual returns the nearest slope"
            sample.demand(law, cosine, *(sample.length(point - nearest) * x for x in sizes))
        other = loss.project_dual(point + direction[::-1], b)
        excess = sample.length(other - nearest) - sample.length(direction[::-1])
        sample.demand("project_dual is nonexpansive", excess, sample.length(point))
        outside = sample.length(point - nearest) > 1e-6 * sample.length(point)
        infinite = np.isinf(sample.summed(loss.conjugate(point, b))) | ~outside
        sample.demand("conjugate = infinity outside the domain", np.where(infinite, 0.0, np.inf), s=point)


def _ends(sample: LossSample) -> None:
    """Check that gradients approach the ends of the domain of a loss of numbers."""
    b = sample.targets.T
    for name, end, sign in zip(("lower", "upper"), sample.loss.domain(b), (-1, 1), strict=True):
        with np.errstate(over="ignore"):
            before, last = (sign * sample.loss.gradient(sign * FAR[k] + b, b) for k in (-16, -1))
        finite = np.isfinite(end)
        bound = np.where(finite, sign * end, 0.0)
        missing = np.where(finite, bound - last, SATURATED * before - last)
        law = f"the gradient comes near the {name} end of the domain"
        sample.demand(law, missing - LIMIT * np.where(finite, 1 + abs(bound), 0.0), bound, u=sign * FAR[-1])
        outside = sign * (bound + LIMIT * (1 + abs(bound)))
        infinite = np.isinf(sample.loss.conjugate(outside, b)) | ~finite
        sample.demand("conjugate = infinity outside the domain", np.where(infinite, 0.0, np.inf), s=outside)


def _fenchel_young(sample: LossSample) -> None:
    """Check the Fenchel-Young inequality loss(u) + conjugate(s) >= s u, with equality for s = gradient(u)."""

    def gap(u: Array, s: Array) -> tuple[Array, list[Array]]:
        """Return loss(u) + conjugate(s) - s u and the sizes of its terms."""
        value, conjugate = sample.of_loss(u), sample.conjugate(s)
        sizes = [sample.length(s) * sample.length(x) for x in (u, sample.b)]
        return value + conjugate - sample.dot(s, u), [value, conjugate, *sizes]

    equality, sizes = gap(sample.u, sample.gradient)
    sample.demand("loss(u) + conjugate(s) = s u for s = gradient(u)", abs(equality), *sizes)
    for s in sample.slopes:
        for u in (*sample.others, *(sample.b + far * s for far in (-1.0, 1.0, *LENGTHS[2:4])), sample.u):
            difference, sizes = gap(u, s)
            sample.demand("loss(u) + conjugate(s) >= s u", -difference, *sizes)
        excess = sample.loss.excess(sample.u, sample.b, s)
        law = "excess = loss(u) + conjugate(s) - s u"
        sample.demand(law, abs(sample.summed(excess) - difference), *sizes)
        demand(sample.loss, "excess >= 0", -float(np.min(excess)), 0.0)


def _excess_increase(sample: LossSample) -> None:
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
                sample.demand(law, increase - bound, *terms, sample.of_loss(u), sample.length(s) * sample.length(u))


def _prox(sample: LossSample) -> None:
    """Check that v = prox(u) minimizes loss(v) + |v - u|^2 / (2 step), compared with other vectors."""
    rng = np.random.default_rng(8)
    for step in STEPS:
        v, _ = sample.prox(step)

        def objective(v: Array, step: float = step) -> Array:
            return sample.of_loss(v) + sample.dot(v - sample.u, v - sample.u) / (2 * step)

        least, size = objective(v), sample.length(sample.u) + sample.length(v) + 1
        law = f"prox(u) minimizes loss(v) + |v - u|^2 / (2 step), for step {step:.3g}"
        for h in (1e-6, 1e-2, 1.0):
            near = v + h * rng.standard_normal(v.shape)
            sample.demand(law, least - objective(near), least, size**2 / step)
        by_array = sample.loss.prox(sample.u, sample.b, np.full(sample.u.shape, step))
        sample.demand(f"prox takes an array of steps {step:.3g}", sample.length(by_array - v), sample.length(v))


def _moreau(sample: LossSample) -> None:
    """Check Moreau's decomposition u = v + step s, v = prox(u), by loss(v) + conjugate(s) = s v.

    It says that s is a subgradient at v.  As the slopes s fill the domain, equality there and the Fenchel-Young
    inequality elsewhere determine the conjugate: it is the supremum of s v - loss(v).
    """
    for step in STEPS:
        v, s = sample.prox(step)
        value, conjugate, product = sample.of_loss(v), sample.conjugate(s), sample.dot(s, v)
        law = f"u = prox(u) + step prox*(u / step), for step {step:.3g}"
        sizes = (sample.length(s) * sample.length(x) for x in (v, sample.b))
        slack = (1 + sample.length(sample.u) + sample.length(v)) ** 2 / step
        sample.demand(law, abs(value + conjugate - product), value, conjugate, *sizes, slack)


def _non_expansive(sample: LossSample) -> None:
    """Check that the prox is firmly nonexpansive: |prox(u) - prox(u')|^2 <= (prox(u) - prox(u')) (u - u')."""
    for step in STEPS:
        v, _ = sample.prox(step)
        for shift, other in enumerate(sample.others, 1):
            dv = v - np.roll(sample.vectors(v), shift, axis=0).reshape(v.shape)
            du = sample.u - other
            size = sample.length(v) + sample.length(v - dv) + sample.length(sample.u)
            law = f"|prox(u) - prox(u')|^2 <= (prox(u) - prox(u')) (u - u'), for step {step:.3g}"
            sample.demand(law, sample.dot(dv, dv - du), sample.length(dv) * size, sample.length(du) * size)


def _smoothed(sample: LossSample) -> None:
    """Check that `smoothed` is the Moreau envelope, with the conjugate increased by width |s|^2 / 2."""
    for width in (0.25, 4.0):
        soft, (v, s) = sample.loss.smoothed(width), sample.prox(width)
        law, sizes = f"smoothed({width:g}) is the Moreau envelope", [sample.length(x) for x in (s, sample.u, v)]
        value = sample.of_loss(v) + width * sample.dot(s, s) / 2
        found = sample.summed(soft.value(sample.u, sample.b))
        sample.demand(f"{law}: value", abs(found - value), sample.value, value)
        sample.demand(f"{law}: gradient", sample.length(soft.gradient(sample.u, sample.b) - s), *sizes)
        inside = sample.loss.project_dual(s, sample.b)
        conjugate = sample.conjugate(s) + width * sample.dot(inside, inside) / 2
        found = sample.summed(soft.conjugate(inside, sample.b))
        sample.demand(f"{law}: conjugate", abs(found - conjugate), conjugate, sizes[0] * sizes[2])
    demand(sample.loss, "smoothed(0) is the loss itself", float(sample.loss.smoothed(0) is not sample.loss), 0.0)


def _in_units(sample: LossSample) -> None:
    """Check the loss and the factor of `in_units`, if the loss supports other units."""
    for unit in UNITS:
        converted = sample.loss.in_units(unit)
        if converted is not None:
            loss, factor = converted
            value = factor * sample.summed(loss.value(unit * sample.u, unit * sample.b))
            law = "loss(u / unit; b / unit) = factor * its loss in_units (u; b)"
            sample.demand(law, abs(value - sample.value), sample.value)


def _same_elsewhere(sample: LossSample) -> None:
    """Check that NumPy and PyTorch, float32 and float64 give the same results up to rounding."""
    expected = _tables(sample.loss, sample.u, sample.b)
    for name, table in _tables(sample.loss, sample.u.astype(np.float32), sample.b.astype(np.float32)).items():
        if table.dtype != np.float32:
            raise AssertionError(f"{sample.loss!r} turns float32 into {table.dtype} in its {name}.")
        if name != "curvature":  # it may have jumps, which difference quotients locate only up to their step
            demand_equal(sample.loss, f"float32 = float64, for its {name}", table, expected[name])
    if HAS_TORCH:
        import torch

        for name, tensor in _tables(sample.loss, torch.asarray(sample.u), torch.asarray(sample.b)).items():
            reference = expected[name]
            scale = largest(reference) / NEAR[0] if name == "curvature" else None  # it may be a difference quotient
            demand_equal(sample.loss, f"PyTorch = NumPy, for its {name}", to_numpy(tensor), reference, scale)


def _tables(loss: Loss, u: Array, b: Array) -> dict[str, Array]:
    """Return the results of all methods of a loss, by name; they are finite."""
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


PRIMAL = (_finite, _convex, _subgradient, _flags, _smooth, _curvature, _prox, _non_expansive)
DUAL = (_domain, _fenchel_young, _moreau, _smoothed, _excess_increase, _in_units, _same_elsewhere)
