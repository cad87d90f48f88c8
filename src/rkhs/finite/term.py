"""Terms: what is known about f, and how much it costs to disagree."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rkhs.backend.arrays import Array, as_array, like, namespace
from rkhs.functionals.base import Functional
from rkhs.kernels.open import Open
from rkhs.losses.base import Loss


@dataclass(frozen=True, eq=False)
class Term:
    """One term of a problem: functionals, a loss, targets and a weight.

        weight * sum_i loss(L_i(f); target_i)

    Parameters
    ----------
    functional : a family of functionals L
    loss : the loss on each L_i(f)
    target : a number, an array of the shape of L, or one with a further axis for several outputs
        (classes, for example, which then share all work)
    weight : a number, or one for each functional; zero leaves a functional out; `rkhs.learn()`, or `rkhs.learn() * w`,
        where `Problem.tune` is to find it

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.Term(rkhs.Evaluation(np.zeros((3, 2))), rkhs.Hinge(), target=[1, -1, 1], weight=10.0)
    Term(Evaluation(3 points in R^2), Hinge(), weight=10.0)
    """

    functional: Functional
    loss: Loss
    target: Any = 0.0
    weight: Any = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.functional, Functional):
            raise TypeError(
                f"A term needs a family of functionals, such as rkhs.Evaluation(X), got {self.functional!r}."
            )
        if not isinstance(self.loss, Loss):
            raise TypeError(f"A term needs a loss, such as rkhs.Squared(), got {self.loss!r}.")
        object.__setattr__(self, "target", self._as_target())
        object.__setattr__(self, "weight", self._as_weight())

    def __repr__(self) -> str:
        weight = f"{self.weight}" if isinstance(self.weight, (float, Open)) else f"{len(self.weight)} weights"
        return f"Term({self.functional!r}, {self.loss!r}, weight={weight})"

    @property
    def size(self) -> int:
        return self.functional.size

    @property
    def outputs(self) -> int | None:
        """The number of outputs, or None for a target without that axis."""
        return int(self.target.shape[1]) if self.target.ndim == 2 else None

    def changed(self, **parts: Any) -> Term:
        """The same term with another loss, target or weight."""
        target = namespace(self.target).reshape(self.target, (*self.functional.shape, *self.target.shape[1:]))
        return replace(self, **{"target": target, **parts})

    def weights(self) -> Array:
        """The weights as a column, (size, 1)."""
        if isinstance(self.weight, Open):
            raise ValueError(
                f"{self!r} is not known yet: its weight is left open. Let problem.tune() find what is open, or give a "
                "number."
            )
        whole = np.full((self.size, 1), self.weight) if isinstance(self.weight, float) else self.weight[:, None]
        return like(whole, self.functional.prototype)

    def _as_target(self) -> Array:
        """(size,) or (size, outputs), of the family's dtype."""
        L = self.functional
        target = as_array(self.target, "target")
        xp = namespace(target)
        shape = tuple(target.shape)
        if shape == ():
            target = xp.broadcast_to(target, (L.size,))
        elif shape == L.shape:
            target = xp.reshape(target, (L.size,))
        elif shape[:-1] == L.shape:
            target = xp.reshape(target, (L.size, shape[-1]))
        else:
            raise ValueError(
                f"target has shape {shape}; {L!r} needs {L.shape}, or {L.shape} and one more axis of outputs."
            )
        if self.loss.classification and not bool(xp.all(abs(target) == 1)):
            raise ValueError(f"{self.loss!r} needs targets +1 and -1; encode the classes so.")
        return like(target, L.prototype)

    def _as_weight(self) -> Any:
        """A float, (size,) in NumPy, or open."""
        if isinstance(self.weight, Open):
            shares = self.weight.shares
            if self.weight.each:
                raise ValueError(f"The weight of a term is one number: leave each=True out of {self.weight!r}.")
            if shares is not None and (shares.shape != (self.size,) or not np.all((shares >= 0) & (shares < np.inf))):
                raise ValueError(f"{self.weight!r} needs {self.size} weights for {self.functional!r}, none negative.")
            return self.weight
        weight = np.asarray(as_array(self.weight, "weight"), dtype=np.float64)
        if weight.shape not in ((), self.functional.shape, (self.size,)):
            raise ValueError(
                f"weight has shape {weight.shape}; {self.functional!r} needs a number or {self.functional.shape}."
            )
        if np.any(weight < 0):
            raise ValueError(f"Weights must not be negative (the problem would not be convex), got {weight.min():g}.")
        return float(weight) if weight.ndim == 0 else weight.reshape(-1)
