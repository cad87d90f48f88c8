"""The loss interface: a convex function of u with a target b.

    value      loss(u; b)
    gradient   a subgradient in u (the derivative where it exists)
    curvature  the second derivative in u, almost everywhere
    prox       argmin_v  loss(v; b) + (v - u)^2 / (2 step)
    conjugate  sup_u  s u - loss(u; b), finite for s in `domain(b)` and +infinity outside
    smoothed   min_v  loss(v; b) + (v - u)^2 / (2 width), the Moreau envelope, again a loss

All act elementwise on arrays that broadcast, in NumPy or PyTorch.  Solvers select losses by `smooth` (a Lipschitz
continuous gradient) and `quadratic`; every convex loss has a prox and a conjugate.  `rkhs.testing.check_loss` checks
that the methods are consistent.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

from rkhs._core.backend.arrays import Array, clip, namespace


class Loss(ABC):
    """A convex loss of the value u of a functional and its target b.

    A subclass implements `value`, `gradient`, `prox`, `domain` and `_conjugate` (the conjugate inside its domain), and
    `curvature` if it is not piecewise linear.

    Attributes
    ----------
    smooth : bool
        Whether the gradient is Lipschitz continuous.
    quadratic : bool
        Whether the loss is (u - b)^2.
    classification : bool
        Whether the target is a class, +1 or -1.
    attained : bool
        Whether the loss has a minimizer, not only an infimum.
    separable : bool
        Whether it is a loss of each functional, not of vectors (`BlockLoss`).
    hard : bool
        Whether it is the constraint that u is in an interval (`Indicator`), whose violations are not part of J.

    Examples
    --------
    >>> import rkhs
    >>> isinstance(rkhs.Huber(0.1), rkhs.extend.Loss), rkhs.Huber(0.1).smooth
    (True, True)
    """

    smooth: bool = False
    quadratic: bool = False
    classification: bool = False
    attained: bool = True
    separable: ClassVar[bool] = True
    hard: ClassVar[bool] = False

    def check_targets(self, b: Array) -> None:
        """Raise ValueError unless the targets are valid: +1 and -1 for classes, by default any number otherwise.

        Parameters
        ----------
        b : array
            The targets.
        """
        if self.classification and not bool(namespace(b).all(abs(b) == 1)):
            raise ValueError(f"{self!r} needs targets +1 and -1: encode the two classes as +1 and -1.")

    def of_family(self, shape: tuple[int, ...]) -> Loss:
        """Return the loss for functionals of a shape; losses of vectors learn the size of a vector.

        Parameters
        ----------
        shape : tuple of int
            The shape of the family of functionals.

        Returns
        -------
        Loss
            The loss.
        """
        return self

    @abstractmethod
    def value(self, u: Array, b: Array) -> Array:
        """Return loss(u; b).

        Parameters
        ----------
        u : array
            The values of the functionals.
        b : array
            The targets.

        Returns
        -------
        array
            The losses.
        """

    @abstractmethod
    def gradient(self, u: Array, b: Array) -> Array:
        """Return a subgradient in u; the derivative where it exists.

        Parameters
        ----------
        u : array
            The values of the functionals.
        b : array
            The targets.

        Returns
        -------
        array
            The subgradients.
        """

    @abstractmethod
    def prox(self, u: Array, b: Array, step: Any) -> Array:
        """Return the proximal operator argmin_v loss(v; b) + (v - u)^2 / (2 step).

        Parameters
        ----------
        u : array
            The points.
        b : array
            The targets.
        step : float or array
            The positive step sizes.

        Returns
        -------
        array
            The minimizers v.
        """

    @abstractmethod
    def _conjugate(self, s: Array, b: Array) -> Array:
        """Return the conjugate for s inside the domain."""

    @abstractmethod
    def domain(self, b: Array) -> tuple[Array, Array]:
        """Return the interval on which the conjugate is finite: the closed range of the gradient.

        Parameters
        ----------
        b : array
            The targets.

        Returns
        -------
        tuple of array
            The lower and upper ends.
        """

    def curvature(self, u: Array, b: Array) -> Array:
        """Return the second derivative in u, almost everywhere; zero for piecewise linear losses.

        Parameters
        ----------
        u : array
            The values of the functionals.
        b : array
            The targets.

        Returns
        -------
        array
            The second derivatives.
        """
        return namespace(u).zeros_like(u + b)

    def conjugate(self, s: Array, b: Array) -> Array:
        """Return the convex conjugate sup_u s u - loss(u; b).

        Parameters
        ----------
        s : array
            The slopes.
        b : array
            The targets.

        Returns
        -------
        array
            The conjugate, infinite outside `domain`.
        """
        xp = namespace(s)
        low, high = self.domain(b)
        outside = (s < low) | (s > high)
        if not bool(xp.any(outside)):
            return self._conjugate(s, b)
        value = self._conjugate(between(s, low, high), b)
        return xp.where(outside, xp.full_like(value, inf), value)

    def project_dual(self, s: Array, b: Array) -> Array:
        """Return the slopes nearest to s for which the conjugate is finite.

        Parameters
        ----------
        s : array
            The slopes.
        b : array
            The targets.

        Returns
        -------
        array
            The slopes, clipped to `domain`.
        """
        return between(s, *self.domain(b))

    def excess_increase(self, u: Array, b: Array, s: Array, error: Array) -> Array:
        """Return a bound on the increase of `excess` if u is any value within its error.

        Parameters
        ----------
        u : array
            The values of the functionals.
        b : array
            The targets.
        s : array
            Slopes in the domain of the conjugate.
        error : array
            The errors of u.

        Returns
        -------
        array
            The increases, which are not negative.
        """
        # the excess is convex in u, so that it is largest at an end of u +- error
        worst = namespace(u).maximum(self.excess(u + error, b, s), self.excess(u - error, b, s))
        return clip(worst - self.excess(u, b, s), 0, None)

    def excess(self, u: Array, b: Array, s: Array) -> Array:
        """Return the Fenchel-Young gap loss(u; b) + conjugate(s; b) - s u, which is never negative.

        Parameters
        ----------
        u : array
            The values of the functionals.
        b : array
            The targets.
        s : array
            Slopes in the domain of the conjugate.

        Returns
        -------
        array
            The gaps; zero iff s is a subgradient at u.
        """
        return clip(self.value(u, b) + self._conjugate(s, b) - s * u, 0, None)

    def smoothed(self, width: float) -> Loss:
        """Return the Moreau envelope min_v loss(v; b) + (v - u)^2 / (2 width).

        Parameters
        ----------
        width : float
            The width of the smoothing; 0 returns the loss itself.

        Returns
        -------
        Loss
            The smoothed loss.
        """
        return Smoothed(self, width) if width > 0 else self

    def in_units(self, unit: float) -> tuple[Loss, float] | None:
        """Return a loss and a factor with loss(u / unit; b / unit) = factor * that_loss(u; b), if they exist.

        With them a change of units need not rescale u and b.

        Parameters
        ----------
        unit : float
            The positive unit.

        Returns
        -------
        tuple of (Loss, float) or None
            The loss and the factor, or None if there is no such loss.

        Examples
        --------
        >>> import rkhs
        >>> rkhs.Huber(delta=0.1).in_units(2.0)
        (Huber(delta=0.2), 0.25)
        """
        return None


@dataclass(frozen=True)
class Smoothed(Loss):
    """The Moreau envelope of a loss: a smooth lower bound.

        min_v loss(v; b) + (v - u)^2 / (2 width)

    Its conjugate is that of the loss plus width s^2 / 2, on the same domain: dual feasible points of the smoothed
    problem are dual feasible for the original one.  This implementation needs only the prox of the loss;
    `Loss.smoothed` returns a closed form where there is one.

    Parameters
    ----------
    loss : Loss
        The loss to smooth.
    width : float
        The positive width.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.losses.Smoothed(rkhs.losses.Absolute(), width=1.0).value(np.array([0.5, 3.0]), np.array([0.0, 0.0]))
    array([0.125, 2.5  ])
    """

    loss: Loss
    width: float

    smooth = True

    def __post_init__(self) -> None:
        positive(self, "width")
        object.__setattr__(self, "classification", self.loss.classification)
        object.__setattr__(self, "attained", self.loss.attained)

    def value(self, u: Array, b: Array) -> Array:
        # loss(v) + (v - u)^2 / 2h at v = prox_h(u), where (u - v) / h is the gradient
        v = self.loss.prox(u, b, self.width)
        return self.loss.value(v, b) + self.width * self.gradient(u, b) ** 2 / 2

    def gradient(self, u: Array, b: Array) -> Array:
        low, high = self.loss.domain(b)
        return between((u - self.loss.prox(u, b, self.width)) / self.width, low, high)

    def curvature(self, u: Array, b: Array) -> Array:
        """Return (1 - dprox/du) / width by a difference quotient, since the prox is all that is known of the loss."""
        xp = namespace(u)
        # a central difference has the error h^2 + eps / h, least at h = eps^(1/3)
        h = float(xp.finfo(u.dtype).eps) ** (1 / 3) * (abs(u) + self.width)
        ahead, behind = u + h, u - h
        change = self.loss.prox(ahead, b, self.width) - self.loss.prox(behind, b, self.width)
        return clip(1 - change / (ahead - behind), 0, 1) / self.width

    def prox(self, u: Array, b: Array, step: Any) -> Array:
        """Return the convex combination of u and the prox of the loss with step + width."""
        v = self.loss.prox(u, b, step + self.width)
        return u + (step / (step + self.width)) * (v - u)

    def _conjugate(self, s: Array, b: Array) -> Array:
        return self.loss._conjugate(s, b) + self.width * s**2 / 2

    def domain(self, b: Array) -> tuple[Array, Array]:
        return self.loss.domain(b)


def between(u: Array, low: Array, high: Array) -> Array:
    """Return u clipped to the interval [low, high]."""
    xp = namespace(u)
    return xp.minimum(xp.maximum(u, low), high)


def positive(loss: Loss, name: str, *, or_zero: bool = False) -> None:
    """Validate a parameter of a loss and convert it to float (NumPy scalars would promote float32 arrays)."""
    value = getattr(loss, name)
    if not (0 <= value < inf) or (value == 0 and not or_zero):
        raise ValueError(f"{type(loss).__name__} needs {name} {'>=' if or_zero else '>'} 0, got {value!r}.")
    object.__setattr__(loss, name, float(value))
