"""Losses of vectors: jointly convex losses of several functionals, such as the length of a gradient.

A `BlockLoss` is a loss of vectors v of m functionals each.  Arrays hold the functionals of one vector in consecutive
rows, (t m, ..).  The loss of a vector is distributed equally over its rows, so that sums over rows are sums over
vectors, and everything that adds up losses needs no change.  Two things differ from losses of single functionals:

    domain      the conjugate is finite on a convex set of vectors, not on a box: `project_dual` projects onto it, and
                `domain` returns the smallest box that contains it
    curvature   a multiple of the identity for each vector that is at least the Hessian, so that Newton's method becomes
                majorization-minimization (iteratively reweighted least squares), which converges with a line search

The representer theorem needs nothing new: the loss is a function of finitely many bounded functionals.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from math import inf, prod
from typing import Any, ClassVar, cast

import numpy as np

from rkhs._core.backend.arrays import Array, clip, like, namespace
from rkhs.losses._base import Loss, Smoothed, positive
from rkhs.losses._interval import Absolute, IntervalLoss


class BlockLoss(Loss):
    """A convex loss of vectors of functionals.

    A subclass is a dataclass with the field `size`, and implements `of_vectors`, `gradients`, `curvatures`, `proxes`,
    `conjugates`, `excesses` and `projections` on arrays (t, m, ..).

    Attributes
    ----------
    size : int or None
        The number m of functionals in a vector; None for the last axis of the shape of the functionals, such as n for
        `rkhs.Gradient`.
    largest_slope : float
        The length of the longest gradient.
    lipschitz : float
        The Lipschitz constant of the gradient, finite for smooth losses; with `largest_slope` it bounds the effect of
        rounding errors, so that one of the two must be finite.
    step_groups : tuple of int
        The first components of the groups that share one step of the prox: (0,) if all components do, as by default.
        Components of different units, such as a value and a gradient, should have different steps.

    Examples
    --------
    >>> import rkhs
    >>> isinstance(rkhs.losses.GroupNorm(), rkhs.extend.BlockLoss)
    True
    """

    size: int | None = None
    largest_slope: float = inf
    lipschitz: float = inf
    separable: ClassVar[bool] = False
    step_groups: ClassVar[tuple[int, ...]] = (0,)

    def of_family(self, shape: tuple[int, ...]) -> Loss:
        if self.size is None:
            return cast(Loss, replace(cast(Any, self), size=int(shape[-1])))
        if self.size < 1 or prod(shape) % self.size:
            raise ValueError(f"{self!r} is a loss of vectors of {self.size} functionals, which do not divide {shape}.")
        return self

    def check_targets(self, b: Array) -> None:
        """Raise ValueError unless the vectors of targets (t, m, ..) are valid; by default all are.

        Parameters
        ----------
        b : array
            The targets.
        """

    @abstractmethod
    def of_vectors(self, v: Array, b: Array) -> Array:
        """Return the losses (t, ..) of vectors (t, m, ..)."""

    @abstractmethod
    def gradients(self, v: Array, b: Array) -> Array:
        """Return subgradients (t, m, ..)."""

    @abstractmethod
    def proxes(self, v: Array, b: Array, step: Array) -> Array:
        """Return the proximal points (t, m, ..) for steps (t, g, ..), one for each of `step_groups`."""

    @abstractmethod
    def conjugates(self, s: Array, b: Array) -> Array:
        """Return the conjugates (t, ..) of slopes inside of the domain."""

    def excesses(self, v: Array, b: Array, s: Array) -> Array:
        """Return the Fenchel-Young gaps (t, ..)."""
        return self.of_vectors(v, b) + self.conjugates(s, b) - namespace(v).sum(s * v, axis=1)

    @abstractmethod
    def projections(self, s: Array, b: Array) -> Array:
        """Return the nearest slopes (t, m, ..) in the domain."""

    @abstractmethod
    def curvatures(self, v: Array, b: Array) -> Array:
        """Return one bound (t, ..) of the Hessian for each vector."""

    def _vectors(self, u: Array) -> Array:
        if self.size is None:
            raise ValueError(f"{self!r} needs the number of functionals in a vector: pass size=.")
        return namespace(u).reshape(u, (-1, self.size, *u.shape[1:]))

    def _rows(self, v: Array) -> Array:
        return namespace(v).reshape(v, (-1, *v.shape[2:]))

    def _shared(self, values: Array, u: Array) -> Array:
        """Return values (t, ..) of vectors, distributed equally over their rows."""
        xp, m = namespace(values), self.size or 1
        return self._rows(xp.repeat((values / m)[:, None], m, axis=1))

    def _pair(self, u: Array, b: Array) -> tuple[Array, Array]:
        u, b = namespace(u).broadcast_arrays(u, b)
        return self._vectors(u), self._vectors(b)

    def value(self, u: Array, b: Array) -> Array:
        return self._shared(self.of_vectors(*self._pair(u, b)), u)

    def gradient(self, u: Array, b: Array) -> Array:
        return self._rows(self.gradients(*self._pair(u, b)))

    def curvature(self, u: Array, b: Array) -> Array:
        return (self.size or 1) * self._shared(self.curvatures(*self._pair(u, b)), u)

    def prox(self, u: Array, b: Array, step: Any) -> Array:
        steps = namespace(u).broadcast_to(like(step, u), u.shape)
        return self._rows(self.proxes(*self._pair(u, b), self._vectors(steps)[:, list(self.step_groups)]))

    def _conjugate(self, s: Array, b: Array) -> Array:
        return self._shared(self.conjugates(*self._pair(s, b)), s)

    def conjugate(self, s: Array, b: Array) -> Array:
        xp = namespace(s)
        s, b = xp.broadcast_arrays(s, b)
        inside = self.project_dual(s, b)
        distance = xp.sum(abs(self._vectors(s - inside)), axis=1)
        size = xp.sum(abs(self._vectors(s)), axis=1)
        outside = self._shared(distance, s) > 8 * float(xp.finfo(s.dtype).eps) * self._shared(size, s)
        value = self._conjugate(inside, b)
        return xp.where(outside, xp.full_like(value, inf), value)

    def project_dual(self, s: Array, b: Array) -> Array:
        return self._rows(self.projections(*self._pair(s, b)))

    def excess(self, u: Array, b: Array, s: Array) -> Array:
        u, b, s = namespace(u).broadcast_arrays(u, b, s)
        return clip(self._shared(self.excesses(*map(self._vectors, (u, b, s))), u), 0, None)

    def excess_increase(self, u: Array, b: Array, s: Array, error: Array) -> Array:
        """Return |e| (|s - g(u)| + |g(u + e) - g(u)|), since loss(u + e) - loss(u) <= g(u + e) e for the gradient g."""
        xp = namespace(u)
        u, b, s, error = xp.broadcast_arrays(u, b, s, error)
        # loss(u + e) - loss(u) - s e <= (g(u + e) - s) e <= |e| (|g(u) - s| + |g(u + e) - g(u)|)
        length = xp.linalg.vector_norm(self._vectors(error), axis=1)
        apart = xp.linalg.vector_norm(self._vectors(s - self.gradient(u, b)), axis=1)
        change = 2 * self.largest_slope
        if self.lipschitz < inf:
            change = clip(self.lipschitz * length, None, change)
        return self._shared(length * (apart + change), u)

    def smoothed(self, width: float) -> Loss:
        return SmoothedBlock(self, width) if width > 0 else self


@dataclass(frozen=True)
class GroupNorm(BlockLoss):
    """A loss of the length of vectors of functionals, such as the length of a gradient or the error of a field.

        loss = phi(|v - b|),        v = (L_1 f, .., L_m f)

    With the absolute loss phi, and `rkhs.Gradient`, it is the total variation of f over the points; with the components
    of a field it is robust against sensors that are wrong in all components; with `rkhs.losses.EpsilonInsensitive` it
    bounds lengths.  The loss does not depend on the coordinates, as a sum over components would.

    Parameters
    ----------
    loss : Absolute, Huber, EpsilonInsensitive or Squared, default=Absolute()
        The loss phi of the length.
    size : int, optional
        The number m of functionals in a vector; by default the last axis of the shape of the functionals, such as n for
        `rkhs.Gradient`.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.losses.GroupNorm(size=2).value(np.array([3.0, 4.0]), np.array([0.0, 0.0])).sum()
    np.float64(5.0)

    Steps of a signal survive, its noise does not:

    >>> x = np.linspace(0, 1, 60)[:, None]
    >>> y = (x[:, 0] > 0.5) + 0.1 * np.random.default_rng(0).standard_normal(60)
    >>> values = rkhs.Term(rkhs.Evaluation(x), rkhs.Squared(), target=y, weight=50.0)
    >>> variation = rkhs.Term(rkhs.Gradient(x), rkhs.losses.GroupNorm(), weight=0.1)
    >>> f = rkhs.Problem(rkhs.Matern(1.5, scale=0.2), [values, variation]).solve(tol=1e-3).function
    >>> np.abs(f(x[[10, 50]]) - [0, 1]) < 0.1
    array([ True,  True])
    """

    loss: IntervalLoss = field(default_factory=Absolute)
    size: int | None = None

    def __post_init__(self) -> None:
        if not _symmetric(self.loss):
            raise TypeError(
                "GroupNorm needs a symmetric loss of the length, such as rkhs.losses.Absolute() or rkhs.Huber(0.1), "
                f"got {self.loss!r}."
            )
        object.__setattr__(self, "smooth", self.loss.smooth)
        object.__setattr__(self, "largest_slope", float(self.loss.slopes[1]))
        object.__setattr__(self, "lipschitz", 1 / self.loss.width if self.loss.width > 0 else inf)

    def _lengths(self, v: Array) -> Array:
        return namespace(v).linalg.vector_norm(v, axis=1)

    def of_vectors(self, v: Array, b: Array) -> Array:
        length = self._lengths(v - b)
        return self.loss.value(length, 0 * length)

    def gradients(self, v: Array, b: Array) -> Array:
        e = v - b
        length = self._lengths(e)
        # grad phi(|e|) = phi'(|e|) e / |e|
        return e * _ratio(self.loss.gradient(length, 0 * length), length)[:, None]

    def curvatures(self, v: Array, b: Array) -> Array:
        """Return the larger of phi'(r) / r across and phi''(r) along the direction of v - b."""
        length = self._lengths(v - b)
        # the Hessian of phi(|e|) has phi'' along e and phi' / |e| across
        along = self.loss.curvature(length, 0 * length)
        return namespace(v).maximum(_ratio(self.loss.gradient(length, 0 * length), length), along)

    def proxes(self, v: Array, b: Array, step: Array) -> Array:
        e = v - b
        length = self._lengths(e)
        # prox of phi(|v - b|): b + prox_phi(|e|) e / |e| (Parikh and Boyd 2014, 6.5.1)
        shorter = self.loss.prox(length, 0 * length, step[:, 0])
        return b + e * _ratio(shorter, length)[:, None]

    def conjugates(self, s: Array, b: Array) -> Array:
        length = self._lengths(s)
        # sup_v <s, v> - phi(|v - b|) = <s, b> + phi*(|s|)
        return namespace(s).sum(s * b, axis=1) + self.loss._conjugate(length, 0 * length)

    def excesses(self, v: Array, b: Array, s: Array) -> Array:
        """Return that of the lengths, and what is lost because s and v - b have different directions."""
        e = v - b
        length, slope = self._lengths(e), self._lengths(s)
        # |e| |s| - <e, s> >= 0, zero if s and e have one direction
        turned = clip(length * slope - namespace(v).sum(s * e, axis=1), 0, None)
        return self.loss.excess(length, 0 * length, slope) + turned

    def projections(self, s: Array, b: Array) -> Array:
        length, most = self._lengths(s), self.largest_slope
        if most == inf:
            return s
        # s min(1, slope / |s|), the projection onto the ball of slopes
        factor = namespace(s).where(length > most, _ratio(most + 0 * length, length), 1 + 0 * length)
        return s * factor[:, None]

    def domain(self, b: Array) -> tuple[Array, Array]:
        zero = namespace(b).zeros_like(b)
        return zero - self.largest_slope, zero + self.largest_slope

    def smoothed(self, width: float) -> Loss:
        """Return the loss whose phi is smoothed: the Moreau envelope of phi(|v|) is the envelope of phi, of |v|."""
        return replace(self, loss=cast(Any, self.loss.smoothed(width))) if width > 0 else self

    def in_units(self, unit: float) -> tuple[Loss, float] | None:
        found = self.loss.in_units(unit)
        return None if found is None else (replace(self, loss=cast(Any, found[0])), found[1])


def _symmetric(loss: object) -> bool:
    if not isinstance(loss, IntervalLoss) or loss.classification:
        return False
    low, high = loss.interval(np.zeros(1))
    return loss.slopes[0] == loss.slopes[1] and bool(low[0] == -high[0])


def _ratio(a: Array, b: Array) -> Array:
    """Return a / b, 0 where b = 0."""
    xp = namespace(b)
    return xp.where(b > 0, a / xp.where(b > 0, b, xp.ones_like(b)), xp.zeros_like(b))


@dataclass(frozen=True)
class RobustHinge(BlockLoss):
    """The hinge loss of the smallest margin within a small ball around a point.

        loss = max(0, 1 - y f(x) + radius |grad f(x)|)

    To first order y f is at least y f(x) - radius |grad f(x)| within a ball of this radius around x, so that points of
    small classes get larger margins where f is steep.  A vector consists of the value and the gradient at a point
    (`rkhs.functionals.Jet`), and its target of the class, +1 or -1, followed by zeros.

    Parameters
    ----------
    radius : float
        The nonnegative radius of the ball.
    size : int, optional
        The number of functionals in a vector; by default the last axis of the shape of the functionals.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> value_and_gradient = np.array([2.0, 3.0, 4.0])
    >>> rkhs.losses.RobustHinge(radius=0.5, size=3).value(value_and_gradient, np.array([1.0, 0.0, 0.0])).sum()
    np.float64(1.5)
    """

    radius: float
    size: int | None = None
    step_groups: ClassVar[tuple[int, ...]] = (0, 1)

    def __post_init__(self) -> None:
        positive(self, "radius", or_zero=True)
        object.__setattr__(self, "largest_slope", (1 + self.radius**2) ** 0.5)

    def check_targets(self, b: Array) -> None:
        xp = namespace(b)
        if not bool(xp.all(abs(b[:, 0]) == 1) & xp.all(b[:, 1:] == 0)):
            raise ValueError(f"{self!r} needs vectors of targets (y, 0, .., 0) with the class y, +1 or -1.")

    def _parts(self, v: Array) -> tuple[Array, Array, Array]:
        """Return the first entries, the others, and the lengths of the others."""
        rest = v[:, 1:]
        return v[:, 0], rest, namespace(v).linalg.vector_norm(rest, axis=1)

    def of_vectors(self, v: Array, b: Array) -> Array:
        value, _, length = self._parts(v)
        # max(0, 1 - y f + radius |grad f|)
        return clip(1 - b[:, 0] * value + self.radius * length, 0, None)

    def gradients(self, v: Array, b: Array) -> Array:
        xp = namespace(v)
        value, rest, length = self._parts(v)
        # (-y, radius grad f / |grad f|) where the loss is positive
        active = xp.astype(1 - b[:, 0] * value + self.radius * length > 0, v.dtype)
        directions = rest * _ratio(active * self.radius, length)[:, None]
        return xp.concat([-(active * b[:, 0])[:, None], directions], axis=1)

    def curvatures(self, v: Array, b: Array) -> Array:
        return 0 * v[:, 0]

    def proxes(self, v: Array, b: Array, step: Array) -> Array:
        """Return v - step s for the maximizer s of s v - conjugate(s) - step s^2 / 2, a projection.

        In units of the gradient in which both steps are equal, the loss has another radius.
        """
        xp = namespace(v)
        # Moreau's identity:  prox_step(v) = v - step P(v / step), P the projection onto the slopes, tilted by the 1
        unit = (step[:, 1:] / step[:, :1]) ** 0.5
        units = xp.concat([xp.ones_like(unit), xp.broadcast_to(unit, v[:, 1:].shape)], axis=1)
        s = self._nearest(v / units / step[:, :1], b, 1 / step[:, 0], self.radius * unit[:, 0])
        return v - step[:, :1] * units * s

    def _nearest(self, s: Array, b: Array, tilt: Any, r: Any) -> Array:
        """Return the point (-b t, q) with |q| <= r t, 0 <= t <= 1, nearest to s + tilt (-b, 0).

        It is a projection in the plane of t and |q|: onto the ray |q| = r t, the line t = 1, or the tip.
        """
        xp = namespace(s)
        first, rest, length = self._parts(s)
        t = tilt - b[:, 0] * first
        # the foot of the perpendicular from (t, |q|) on the ray |q| = r t is t = (t + r |q|) / (1 + r^2)
        on_ray = (t + r * length) / (1 + r**2)
        outside = length > r * t
        t = clip(xp.where(outside, clip(on_ray, 0, None), t), None, 1.0)
        shorter = xp.minimum(length, r * t)
        return xp.concat([-(b[:, 0] * t)[:, None], rest * _ratio(shorter, length)[:, None]], axis=1)

    def projections(self, s: Array, b: Array) -> Array:
        return self._nearest(s, b, 0.0, self.radius)

    def conjugates(self, s: Array, b: Array) -> Array:
        return b[:, 0] * s[:, 0]  # -t

    def domain(self, b: Array) -> tuple[Array, Array]:
        xp = namespace(b)
        vectors = self._vectors(b)
        zero = xp.zeros_like(vectors[:, :1])
        sides = xp.zeros_like(vectors[:, 1:]) + self.radius
        low = xp.concat([xp.minimum(-vectors[:, :1], zero), -sides], axis=1)
        return self._rows(low), self._rows(xp.concat([xp.maximum(-vectors[:, :1], zero), sides], axis=1))


@dataclass(frozen=True)
class SmoothedBlock(BlockLoss, Smoothed):
    """The Moreau envelope of a block loss, from its prox."""

    loss: BlockLoss

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("size", "largest_slope"):
            object.__setattr__(self, name, getattr(self.loss, name))
        object.__setattr__(self, "lipschitz", 1 / self.width)

    def of_family(self, shape: tuple[int, ...]) -> Loss:
        return replace(self, loss=cast(BlockLoss, self.loss.of_family(shape)))

    def check_targets(self, b: Array) -> None:
        self.loss.check_targets(b)

    def _prox(self, v: Array, b: Array) -> Array:
        return self.loss.proxes(v, b, 0 * v[:, list(self.loss.step_groups)] + self.width)

    def of_vectors(self, v: Array, b: Array) -> Array:
        # loss(p) + |v - p|^2 / 2h at p = prox_h(v)
        nearest = self._prox(v, b)
        return self.loss.of_vectors(nearest, b) + namespace(v).sum((v - nearest) ** 2, axis=1) / (2 * self.width)

    def gradients(self, v: Array, b: Array) -> Array:
        # (v - prox_h(v)) / h, within the slopes of the loss
        return self.loss.projections((v - self._prox(v, b)) / self.width, b)

    def curvatures(self, v: Array, b: Array) -> Array:
        moved = namespace(v).any(self.gradients(v, b) != 0, axis=1)
        return namespace(v).astype(moved, v.dtype) / self.width

    def proxes(self, v: Array, b: Array, step: Array) -> Array:
        groups = [0] * len(self.loss.step_groups)  # the envelope has one width for all of them
        nearest = self.loss.proxes(v, b, step[:, groups] + self.width)
        # prox of the envelope: v + step / (step + h) (prox_(step + h)(v) - v) (Beck 2017, 6.64)
        return v + (step / (step + self.width)) * (nearest - v)

    def conjugates(self, s: Array, b: Array) -> Array:
        # loss*(s) + h |s|^2 / 2
        return self.loss.conjugates(s, b) + self.width / 2 * namespace(s).sum(s**2, axis=1)

    def projections(self, s: Array, b: Array) -> Array:
        return self.loss.projections(s, b)
