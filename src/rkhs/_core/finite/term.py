"""Terms of the objective: functionals of f with a loss, targets and weights."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import Array, as_array, as_real, immutable_copy, like, namespace, to_numpy
from rkhs.functionals._base import Functional
from rkhs.kernels._base import Tunable
from rkhs.losses._base import Loss
from rkhs.losses._blocks import BlockLoss
from rkhs.losses._interval import Indicator, IntervalLoss


@dataclass(frozen=True, eq=False)
class Term:
    """One term of a problem: functionals, a loss, targets and a weight.

        weight * sum_i loss(L_i(f); target_i)

    Parameters
    ----------
    functional : Functional
        The family of functionals L.
    loss : Loss
        The loss of each L_i(f).
    target : float or array-like of shape L.shape or L.shape + (outputs,), default=0.0
        The targets; a last axis is for several outputs, such as classes, which share the computations.  NaN marks
        missing observations, whose functionals are omitted.
    weight : float, array-like of shape L.shape, or Tunable, default=1.0
        The weight of all functionals, or of each.  Functionals of weight zero are omitted.  `Problem.tune` finds the
        weight `rkhs.Tunable()`, or the factor in `rkhs.Tunable() * w`.  An infinite weight makes the term a constraint:
        L_i(f) is in the interval where the loss vanishes, and `loss` becomes its indicator.

    Attributes
    ----------
    observed : ndarray of bool of shape (size,) or None
        The mask of the functionals whose target is not NaN; None if all are observed.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.Term(rkhs.Evaluation(np.zeros((3, 2))), rkhs.Hinge(), target=[1, -1, 1], weight=10.0)
    Term(Evaluation(3 points in R^2), Hinge(), weight=10.0)

    A gradient with one missing component:

    >>> slopes = rkhs.Term(rkhs.Gradient(np.zeros((1, 3))), rkhs.Squared(), target=[[0.5, np.nan, -1.0]])
    >>> slopes.observed
    array([ True, False,  True])
    """

    functional: Functional
    loss: Loss
    target: Any = 0.0
    weight: Any = 1.0
    observed: Any = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.functional, Functional):
            raise TypeError(
                f"A term needs a family of functionals, such as rkhs.Evaluation(X), got {self.functional!r}."
            )
        if not isinstance(self.loss, Loss):
            raise TypeError(f"A term needs a loss, such as rkhs.Squared(), got {self.loss!r}.")
        object.__setattr__(self, "loss", self.loss.of_family(self.functional.shape))
        target, observed = self._as_target()
        object.__setattr__(self, "target", target)
        object.__setattr__(self, "weight", self._as_weight())
        if np.any(self.weight == np.inf) and not self.loss.hard:
            object.__setattr__(self, "loss", self._as_constraint())
        if observed is not None:
            object.__setattr__(self, "observed", observed)
            object.__setattr__(self, "weight", self._on_observed(observed))
        if isinstance(self.loss, BlockLoss):
            self._check_vectors(self.loss)

    def _check_vectors(self, loss: BlockLoss) -> None:
        """Raise ValueError unless targets are valid and the functionals of a vector have one weight or are missing."""
        shares = self.weight.shares if isinstance(self.weight, Tunable) else self.weight
        if isinstance(shares, np.ndarray):
            rows = shares.reshape(-1, loss.size or 1)
            wrong = np.flatnonzero(np.any(rows != rows[:, :1], axis=1))
            if len(wrong):
                raise ValueError(
                    f"{loss!r} is a loss of vectors of {loss.size} functionals, which have one weight and are missing "
                    f"together; vector {int(wrong[0])} has the weights {rows[wrong[0]].tolist()}."
                )
        vectors = to_numpy(self.target).reshape(-1, loss.size or 1, *self.target.shape[1:])
        loss.check_targets(vectors[rows[:, 0] > 0] if isinstance(shares, np.ndarray) else vectors)

    def __repr__(self) -> str:
        weight = f"{self.weight}" if isinstance(self.weight, (float, Tunable)) else f"{len(self.weight)} weights"
        return f"Term({self.functional!r}, {self.loss!r}, weight={weight})"

    @property
    def size(self) -> int:
        """The number of functionals."""
        return self.functional.size

    @property
    def outputs(self) -> int | None:
        """The number of outputs, or None for a target without an axis of outputs."""
        return int(self.target.shape[1]) if self.target.ndim == 2 else None

    def changed(self, **parts: Any) -> Term:
        """Return the term with another functional, loss, target or weight, which may be finite for a constraint.

        Parameters
        ----------
        **parts
            The parameters of `Term` to replace.

        Returns
        -------
        Term
            The new term.
        """
        loss = self.loss.loss if isinstance(self.loss, Indicator) else self.loss
        return replace(self, **{"target": self.observed_target, "loss": loss, **parts})

    def take(self, rows: Any) -> Term:
        """Return the term with some of its functionals, their targets and weights.

        Parameters
        ----------
        rows : array-like of int
            The indices of the functionals.

        Returns
        -------
        Term
            The new term.
        """
        weight = self.weight if isinstance(self.weight, float) else self.weight[rows]
        return Term(self.functional.take(rows), self.loss, to_numpy(self.target)[rows], weight)

    @property
    def observed_target(self) -> Array:
        """The targets in the shape of the functionals, with NaN for missing observations."""
        target = self.target
        if self.observed is not None:
            observed = self.observed.reshape(-1, *[1] * (target.ndim - 1))
            target = like(np.where(observed, to_numpy(target), np.nan), target)
        return namespace(target).reshape(target, (*self.functional.shape, *target.shape[1:]))

    @property
    def finite_weight(self) -> Any:
        """The weight, or 1 for constraints."""
        if isinstance(self.weight, np.ndarray):
            return np.where(self.weight == np.inf, 1.0, self.weight)
        return 1.0 if self.loss.hard else self.weight

    def weights(self) -> Array:
        """Return the weights of all functionals as a column.

        Returns
        -------
        array of shape (size, 1)
            The weights; 1 for constraints, whose indicators do not depend on it.
        """
        if isinstance(self.weight, Tunable):
            raise ValueError(
                f"{self!r} is not known yet: its weight is left open. Call problem.tune() to find it, or pass a number."
            )
        weight = self.finite_weight
        column = np.full((self.size, 1), weight) if isinstance(weight, float) else weight[:, None]
        return like(column, self.functional.prototype)

    def _as_target(self) -> tuple[Array, np.ndarray[Any, Any] | None]:
        """Return the targets (size,) or (size, outputs) in the dtype of the functionals, and the mask `observed`."""
        L, target = self.functional, immutable_copy(as_real(self.target, "target"))
        xp, shape = namespace(target), tuple(target.shape)
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
        observed = self._observed(to_numpy(target))
        if observed is not None:
            target = xp.where(xp.isnan(target), xp.ones_like(target), target)
        if self.loss.separable:  # vectors of targets are checked together with their weights
            self.loss.check_targets(target)
        return immutable_copy(like(as_array(target, "target"), L.prototype)), observed

    def _observed(self, target: np.ndarray[Any, Any]) -> np.ndarray[Any, Any] | None:
        """Return the mask (size,) of targets that are not NaN; None if no target is NaN."""
        missing = np.isnan(target)
        if not np.any(missing):
            return None
        whole = missing if missing.ndim == 1 else missing.all(axis=1)
        if missing.ndim == 2 and np.any(missing.any(axis=1) & ~whole):
            row = int(np.flatnonzero(missing.any(axis=1) & ~whole)[0])
            raise ValueError(
                f"Row {row} of the target of {self.functional!r} is NaN (missing) in some outputs but not in others; "
                "all outputs must have the same missing rows: solve a problem for each output."
            )
        if np.all(whole):
            raise ValueError(
                f"Every target of {self.functional!r} is NaN (missing), so that the term has no effect: omit the term."
            )
        return ~whole

    def _on_observed(self, observed: np.ndarray[Any, Any]) -> Any:
        """Return the weights with zeros for missing observations."""
        if isinstance(self.weight, Tunable):
            shares = np.ones(self.size) if self.weight.shares is None else self.weight.shares
            return replace(self.weight, shares=np.where(observed, shares, 0.0))
        return np.where(observed, self.weight, 0.0)

    def _as_weight(self) -> Any:
        """Return the validated weight: a float, an ndarray (size,), or a Tunable."""
        if isinstance(self.weight, Tunable):
            shares = self.weight.shares
            if self.weight.each:
                raise ValueError(f"The weight of a term is one number: omit each=True in {self.weight!r}.")
            if shares is not None and (shares.shape != (self.size,) or not np.all((shares >= 0) & (shares < np.inf))):
                raise ValueError(f"{self.weight!r} needs {self.size} weights for {self.functional!r}, none negative.")
            return self.weight
        weight = np.asarray(to_numpy(as_real(self.weight, "weight")), dtype=np.float64)
        hard = weight == np.inf
        as_array(np.where(hard, 1.0, weight), "weight")  # raises an error for NaN
        if np.any(hard) and np.any(~hard & (weight > 0)):
            raise ValueError(
                f"Some weights of {self.functional!r} are infinite, which are constraints, and others are finite: "
                "use two terms."
            )
        weight = immutable_copy(weight)
        if weight.shape not in ((), self.functional.shape, (self.size,)):
            raise ValueError(
                f"weight has shape {weight.shape}; {self.functional!r} needs a number or {self.functional.shape}."
            )
        if np.any(weight < 0):
            raise ValueError(f"Weights must not be negative (the problem would not be convex), got {weight.min():g}.")

        return float(weight) if weight.ndim == 0 else weight.reshape(-1)

    def _as_constraint(self) -> Indicator:
        """Return the indicator of the interval on which the loss vanishes."""
        if isinstance(self.loss, IntervalLoss):
            return Indicator(self.loss)
        raise ValueError(
            f"An infinite weight is a constraint on L(f), which {self.loss!r} does not define, as it vanishes on no "
            "interval of numbers: use a large finite weight, or another loss, such as rkhs.Squared() for L(f) = target "
            "or rkhs.Hinge() for a hard margin."
        )
