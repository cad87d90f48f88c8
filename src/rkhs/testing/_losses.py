"""The laws of losses: value, gradient, curvature, prox and conjugate belong to the same convex function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from rkhs._backend.arrays import Array, to_numpy
from rkhs.losses import Loss
from rkhs.testing._block_losses import check_block_loss
from rkhs.testing._laws import HAS_TORCH, ROUNDING, demand, demand_equal, largest

TARGETS = (-1.5, 0.0, 0.25, 2.0)
CLASSES = (-1.0, 1.0)
OFFSETS = 2.0 ** np.arange(-10, 6)  # distances of the points from their targets
NEAR = (2.0**-10, 2.0**-16)  # steps of difference quotients
OFF = 0.1234567  # shift of points away from kinks and centers of symmetry
STEPS = (2.0**-40, 2.0**-20, 0.25, 4.0, 2.0**20, 2.0**40)  # steps of the prox
FAR = 2.0 ** np.arange(5, 31)  # points where a bounded gradient is near its limit, and a Lipschitz one nearly linear
HALVINGS = (28, 38)  # bisections of a unit interval, to less than the width of the transition of any smooth loss
UNITS = (0.25, 8.0)  # factors for `in_units`
SATURATED = 1.2  # a quotient that grows by less than this factor has a limit
UNIT = ROUNDING * float(np.finfo(np.float64).eps)
LIMIT = 2.0**-10  # largest relative distance of the gradient at the last point of FAR from its limit


def check_loss(loss: Loss, targets: Any = None) -> None:
    """Check that a loss has the properties that the package relies on.

    The laws are: the loss is convex; its gradient is a subgradient (the limit of difference quotients, if it exists)
    and its curvature the derivative of the gradient; the prox is the argmin and firmly nonexpansive; the conjugate is
    the supremum, and infinite outside of the domain, which is the range of the gradient; the Fenchel-Young inequality
    holds, with equality at the gradient, and so does Moreau's decomposition; the flags `smooth`, `quadratic`,
    `classification` and `attained` are correct; `in_units` returns the same loss in other units; and NumPy and PyTorch,
    float32 and float64 give the same results.

    Losses of vectors (`rkhs.extend.BlockLoss`) obey the same laws at random vectors, with three differences:
    `project_dual` is the projection onto the domain, `curvature` is at least the second derivative in all directions,
    and `excess_increase` bounds the effect of errors.

    Parameters
    ----------
    loss : Loss
        The loss.
    targets : array-like of shape (k, m), optional
        Vectors of targets for a loss of vectors of m functionals that does not support all targets; by default random.

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
    if not loss.separable:
        check_block_loss(loss, targets)
        return
    sample = Sample(loss)
    for law in LAWS:
        law(sample)


@dataclass(frozen=True)
class Sample:
    """A loss and the points (n, k) at which it is checked; each column has one target."""

    loss: Loss

    @cached_property
    def b(self) -> Array:
        """The targets (k,)."""
        return np.asarray(CLASSES if self.loss.classification else TARGETS)

    @cached_property
    def u(self) -> Array:
        """Points around each target, and the target itself, exactly representable in float32."""
        noise = 4 * np.random.default_rng(0).standard_normal(16).astype(np.float32).astype(np.float64)
        return np.sort(np.concatenate([-OFFSETS, [0.0], OFFSETS, noise]))[:, None] + self.b

    @cached_property
    def value(self) -> Array:
        return self.loss.value(self.u, self.b)

    @cached_property
    def gradient(self) -> Array:
        return self.loss.gradient(self.u, self.b)

    def prox(self, step: float) -> tuple[Array, Array]:
        """Return v = prox(u) and the subgradient s = (u - v) / step at v."""
        v = self.loss.prox(self.u, self.b, step)
        return v, (self.u - v) / step

    def conjugate(self, s: Array) -> Array:
        """Return the conjugate at slopes that are in the domain up to rounding."""
        return self.loss.conjugate(np.clip(s, *self.loss.domain(self.b)), self.b)

    @cached_property
    def slopes(self) -> Array:
        """Slopes between the gradients at neighboring points, including those at a kink."""
        return (3 * self.gradient[:-1] + self.gradient[1:]) / 4

    def demand(self, law: str, excess: Array, *terms: Array, **argument: Array) -> None:
        """Raise an AssertionError unless excess <= 0, up to rounding errors of 1 and of the terms.

        The message has the place of the largest excess: the `argument` with its name, by default u, and b.
        """
        name, points = next(iter(argument.items()), ("u", self.u))
        allowed = UNIT * (1 + sum(np.abs(term) for term in terms))
        excess, allowed, points, b = np.broadcast_arrays(excess, allowed, points, self.b)
        worst = np.unravel_index(np.argmax(excess - allowed), excess.shape)  # argmax returns the first NaN if any
        where = f"at {name} = {points[worst]:.4g}, b = {b[worst]:.4g}"
        demand(self.loss, f"{law}, {where}", float(excess[worst]), float(allowed[worst]))


def _finite(sample: Sample) -> None:
    """Check that values, gradients, curvatures and proxes are finite and computed element-wise."""
    for name, table in _tables(sample.loss, sample.u, sample.b).items():
        if table.shape != sample.u.shape:
            raise AssertionError(f"{sample.loss!r} gives {name} of shape {table.shape} for u of {sample.u.shape}.")
        if name != "conjugate":
            sample.demand(f"{name} is finite", np.where(np.isfinite(table), 0.0, np.inf))
    ends = (np.where(np.isfinite(end), end, 0.0) for end in sample.loss.domain(sample.b))
    for s in (sample.u / 32, *ends):
        excess = np.where(np.isnan(sample.loss.conjugate(s, sample.b)), np.nan, 0.0)
        sample.demand("conjugate is not NaN, also at the ends of its domain", excess, s=s)
    flat = _tables(sample.loss, sample.u.ravel(), np.tile(sample.b, len(sample.u)))
    for name, table in _tables(sample.loss, sample.u, sample.b).items():
        demand_equal(sample.loss, f"{name} is element-wise", *_where_finite(table.ravel(), flat[name]))


def _convex(sample: Sample) -> None:
    """Check loss((u + v) / 2) <= (loss(u) + loss(v)) / 2."""
    u, v, at_u, at_v = sample.u[:, None], sample.u[None], sample.value[:, None], sample.value[None]
    excess = sample.loss.value((u + v) / 2, sample.b) - (at_u + at_v) / 2
    sample.demand("loss((u + v) / 2) <= (loss(u) + loss(v)) / 2", excess, at_u, at_v, u=u)


def _subgradient(sample: Sample) -> None:
    """Check loss(v) >= loss(u) + gradient(u) (v - u); for near v the gradient is between the difference quotients."""
    near = [sample.u + sign * h for h in NEAR for sign in (1, -1)]
    for v in (*near, *sample.u):
        at_v = sample.loss.value(v, sample.b)
        line = sample.gradient * (v - sample.u)
        law = "loss(v) >= loss(u) + gradient(u) (v - u)"
        sample.demand(law, sample.value + line - at_v, sample.value, at_v, line)


def _curvature(sample: Sample) -> None:
    """Check curvature = (gradient(u + h) - gradient(u - h)) / 2h, up to the change of the quotient within h."""
    u, h = sample.u + OFF, NEAR[0]
    behind, here, ahead = (sample.loss.gradient(u + t, sample.b) for t in (-h, 0.0, h))
    left, right = (here - behind) / h, (ahead - here) / h
    excess = abs(sample.loss.curvature(u, sample.b) - (left + right) / 2) - abs(right - left)
    sample.demand("curvature = derivative of the gradient", excess, 1 / h, here / h, ahead / h, behind / h, u=u)


def _smooth(sample: Sample) -> None:
    """Check that `smooth` is true if and only if the gradient is Lipschitz, locally and at infinity."""
    u = np.arange(-32.0, 32.0)[:, None] + OFF + sample.b
    width, quotients = 1.0, {0: np.zeros(u.shape)}
    for k in range(1, max(HALVINGS) + 1):
        width /= 2
        behind, middle, ahead = (sample.loss.gradient(u + t * width, sample.b) for t in (0, 1, 2))
        u = np.where(ahead - middle > middle - behind, u + width, u)  # the half in which the gradient grows more
        quotients[k] = np.maximum(ahead - middle, middle - behind) / width
    coarse, fine = (np.max(quotients[k]) for k in HALVINGS)
    noise = UNIT * (1 + np.max(abs(sample.gradient))) / width
    lipschitz, why = fine <= 2 * coarse + noise, f"jumps near u = {u.ravel()[np.argmax(quotients[k])]:.4g}"
    for sign in (1, -1):
        with np.errstate(over="ignore", invalid="ignore"):
            slopes = abs(sample.loss.gradient(sign * FAR[:, None] + sample.b, sample.b))
            far = abs(np.diff(slopes, axis=0)) / np.diff(FAR)[:, None]
        if not np.max(far[-1]) <= SATURATED * max(np.max(far[:-2]), coarse) + noise:
            lipschitz, why = False, f"grows faster than linearly for u -> {sign * np.inf:g}"
    if lipschitz != sample.loss.smooth:
        reason = "is Lipschitz-continuous" if lipschitz else why
        raise AssertionError(f"{sample.loss!r} has smooth = {sample.loss.smooth}, but its gradient {reason}.")


def _flags(sample: Sample) -> None:
    """Check `quadratic` (loss = (u - b)^2), `attained` (there is a minimum) and `classification` (symmetry)."""
    u = np.concatenate([sample.u, FAR[:, None] + sample.b])
    squares = (u - sample.b) ** 2
    with np.errstate(over="ignore"):
        quadratic = bool(np.all(abs(sample.loss.value(u, sample.b) - squares) <= UNIT * (1 + squares)))
    if quadratic != sample.loss.quadratic:
        word = "is" if quadratic else "is not"
        raise AssertionError(f"{sample.loss!r} has quadratic = {not quadratic}, but it {word} (u - b)^2.")
    near = sample.gradient[np.abs(sample.u[:, 0] - sample.b[0]) <= 8]  # farther away a gradient may underflow
    attained = bool(np.all(np.any(near <= 0, axis=0) & np.any(near >= 0, axis=0)))
    if attained != sample.loss.attained:
        word = "does" if attained else "does not"
        raise AssertionError(f"{sample.loss!r} has attained = {not attained}, but 0 {word} occur among its gradients.")
    if sample.loss.classification:
        reflected = sample.loss.value(-sample.u, -sample.b)
        sample.demand("loss(-u; -b) = loss(u; b)", abs(reflected - sample.value), sample.value)


def _domain(sample: Sample) -> None:
    """Check that the domain contains all gradients, and that these approach its ends."""
    low, high = sample.loss.domain(sample.b)
    out = np.maximum(low - sample.gradient, sample.gradient - high)
    sample.demand("gradients are in the domain", out, sample.gradient)
    for name, end, sign in (("lower", low, -1), ("upper", high, 1)):
        with np.errstate(over="ignore"):
            before, last = (sign * sample.loss.gradient(sign * FAR[k] + sample.b, sample.b) for k in (-16, -1))
        finite = np.isfinite(end)
        bound = np.where(finite, sign * end, 0.0)
        missing = np.where(finite, bound - last, SATURATED * before - last)
        law = f"the gradient comes near the {name} end of the domain"
        sample.demand(law, missing - LIMIT * np.where(finite, 1 + abs(bound), 0.0), bound, u=sign * FAR[-1])
        outside = bound + LIMIT * (1 + abs(bound))
        infinite = np.isinf(sample.loss.conjugate(sign * outside, sample.b)) | ~finite
        sample.demand("conjugate = infinity outside the domain", np.where(infinite, 0.0, np.inf), s=sign * outside)


def _fenchel_young(sample: Sample) -> None:
    """Check the Fenchel-Young inequality loss(u) + conjugate(s) >= s u, with equality for s = gradient(u)."""
    conjugate = sample.loss.conjugate(sample.gradient, sample.b)
    product = sample.gradient * sample.u
    gap = sample.value + conjugate - product
    law = "loss(u) + conjugate(s) = s u for s = gradient(u)"
    sample.demand(law, abs(gap), sample.value, conjugate, product)
    for s in sample.slopes:
        product, conjugate = s * sample.u, sample.loss.conjugate(s, sample.b)
        law = "loss(u) + conjugate(s) >= s u"
        sample.demand(law, product - sample.value - conjugate, sample.value, conjugate, product)


def _conjugate(sample: Sample) -> None:
    """Check conjugate(s) = sup_u s u - loss(u); the maximizer is between points with gradients on both sides of s."""
    s = sample.slopes
    u = _maximizer(lambda u: s * u - sample.loss.value(u, sample.b), sample.u[:-1], sample.u[1:])
    product, value, conjugate = s * u, sample.loss.value(u, sample.b), sample.loss.conjugate(s, sample.b)
    law = "conjugate(s) = sup_u s u - loss(u)"
    sample.demand(law, abs(conjugate - (product - value)), product, value, conjugate, u=u)


def _prox(sample: Sample) -> None:
    """Check that v = prox(u) minimizes loss(v) + (v - u)^2 / (2 step): (u - v) / step is a subgradient at v."""
    for step in STEPS:
        v, s = sample.prox(step)
        h = 2.0**-30 * (1 + abs(v))
        below, above = sample.loss.gradient(v - h, sample.b), sample.loss.gradient(v + h, sample.b)
        law = f"(u - prox(u)) / step is a subgradient at prox(u), for step {step:.3g}"
        sample.demand(law, np.maximum(below - s, s - above), below, above, *(t / step for t in (1, sample.u, v)))
        by_array = sample.loss.prox(sample.u, sample.b, np.full(sample.u.shape, step))
        sample.demand(f"prox takes an array of steps {step:.3g}", abs(by_array - v), v)


def _non_expansive(sample: Sample) -> None:
    """Check that the prox is firmly nonexpansive: (prox(u) - prox(u'))^2 <= (prox(u) - prox(u')) (u - u')."""
    for step in STEPS:
        v, _ = sample.prox(step)
        dv, du = v[:, None] - v[None], sample.u[:, None] - sample.u[None]
        law = f"(prox(u) - prox(u'))^2 <= (prox(u) - prox(u')) (u - u'), for step {step:.3g}"
        size = abs(v[:, None]) + abs(v[None]) + abs(sample.u[:, None])
        sample.demand(law, dv**2 - dv * du, dv * size, du * size, u=sample.u[:, None])


def _moreau(sample: Sample) -> None:
    """Check Moreau's decomposition u = v + step s, v = prox(u), by loss(v) + conjugate(s) = s v."""
    for step in STEPS:
        v, s = sample.prox(step)
        value, conjugate = sample.loss.value(v, sample.b), sample.conjugate(s)
        law = f"u = prox(u) + step prox*(u / step), for step {step:.3g}"
        slack = (1 + abs(sample.u) + abs(v)) ** 2 / step
        sample.demand(law, abs(value + conjugate - s * v), value, conjugate, s * v, slack)


def _smoothed(sample: Sample) -> None:
    """Check that `smoothed` is the Moreau envelope, with the conjugate increased by width s^2 / 2."""
    for width in (0.25, 4.0):
        soft, (v, s) = sample.loss.smoothed(width), sample.prox(width)
        value = sample.loss.value(v, sample.b) + width * s**2 / 2
        law = f"smoothed({width:g}) is the Moreau envelope"
        sample.demand(f"{law}: value", abs(soft.value(sample.u, sample.b) - value), sample.value, value)
        sample.demand(f"{law}: gradient", abs(soft.gradient(sample.u, sample.b) - s), s, sample.u, v)
        inside = np.clip(s, *sample.loss.domain(sample.b))
        conjugate = sample.conjugate(s) + width * inside**2 / 2
        sample.demand(f"{law}: conjugate", abs(soft.conjugate(inside, sample.b) - conjugate), conjugate, s * v)


def _in_units(sample: Sample) -> None:
    """Check the loss and the factor of `in_units`, if the loss supports other units."""
    for unit in UNITS:
        converted = sample.loss.in_units(unit)
        if converted is not None:
            loss, factor = converted
            value = factor * loss.value(unit * sample.u, unit * sample.b)
            law = "loss(u / unit; b / unit) = factor * its loss in_units (u; b)"
            sample.demand(law, abs(value - sample.value), sample.value)


def _same_elsewhere(sample: Sample) -> None:
    """Check that NumPy and PyTorch, float32 and float64 give the same results up to rounding."""
    expected = _tables(sample.loss, sample.u, sample.b)
    for name, table in _tables(sample.loss, sample.u.astype(np.float32), sample.b.astype(np.float32)).items():
        if table.dtype != np.float32:
            raise AssertionError(f"{sample.loss!r} turns float32 into {table.dtype} in its {name}.")
        if name != "curvature":  # it may have jumps, which difference quotients locate only up to their step
            demand_equal(sample.loss, f"float32 = float64, for its {name}", *_where_finite(table, expected[name]))
    if HAS_TORCH:
        import torch

        for name, tensor in _tables(sample.loss, torch.asarray(sample.u), torch.asarray(sample.b)).items():
            actual, reference = _where_finite(to_numpy(tensor), expected[name])
            scale = largest(reference) / NEAR[0] if name == "curvature" else None  # it may be a difference quotient
            demand_equal(sample.loss, f"PyTorch = NumPy, for its {name}", actual, reference, scale)


def _tables(loss: Loss, u: Array, b: Array) -> dict[str, Array]:
    """Return the results of all methods of a loss, by name."""
    return {
        "value": loss.value(u, b),
        "gradient": loss.gradient(u, b),
        "curvature": loss.curvature(u, b),
        "prox": loss.prox(u, b, 0.75),
        "conjugate": loss.conjugate(u / 32, b),
    }


def _where_finite(a: Array, b: Array) -> tuple[Array, Array]:
    """Replace infinities by 1 in both arrays."""
    return np.where(np.isinf(a), np.float32(1), a), np.where(np.isinf(b), np.float32(1), b)


def _maximizer(f: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Return the maximizers of concave functions between low and high by ternary search."""
    for _ in range(90):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        rising = f(left) < f(right)
        low, high = np.where(rising, left, low), np.where(rising, high, right)
    return (low + high) / 2


LAWS = (
    _finite,
    _convex,
    _subgradient,
    _curvature,
    _flags,
    _smooth,
    _domain,
    _fenchel_young,
    _conjugate,
    _prox,
    _non_expansive,
    _moreau,
    _smoothed,
    _in_units,
    _same_elsewhere,
)
