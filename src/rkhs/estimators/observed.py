"""An observation: functionals of f, what was measured of them, and how well."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rkhs._backend.arrays import as_array, as_real, owned, to_numpy
from rkhs._finite.term import Term
from rkhs.functionals.base import Functional
from rkhs.kernels.open import learn
from rkhs.losses import Absolute, Huber, Loss, OneSided, Squared

EFFICIENT = 1.345  # standard deviations beyond which Huber's loss is linear: 95 % efficient where noise is Gaussian
CAUCHY, NORMAL = 2.385, 1.4826  # the same for Cauchy's weights; the standard deviation over the median of |r|
# losses of the residual in standard deviations, and the factor that makes them minus a log-likelihood
BY_NAME: dict[str, tuple[Loss, float]] = {
    "squared": (Squared(), 0.5),
    "huber": (Huber(delta=EFFICIENT), 0.5),
    "absolute": (Absolute(), 2**0.5),  # of the double exponential density of variance one
    "one_sided": (OneSided(), 2**0.5),
}


@dataclass(frozen=True, eq=False)
class Observed:
    """What was measured: functionals of f, their values, and how exact these are; for `FunctionalRegressor`.

    L_i(f) is about target_i, with noise of a standard deviation.

    Parameters
    ----------
    functional : a family of functionals L: `rkhs.Evaluation(X)`, `rkhs.Gradient(X)`, `rkhs.Integral(..)`, `W @ L`, ..
    target : a number, or an array of the shape of L, NaN for what was not observed; with one more axis several outputs
    noise : the standard deviation of the target, a number or one for each functional; None: one number, learnt
    loss : "squared"; "huber" and "absolute", which outliers cannot pull away; "one_sided", for which the target is a
        lower bound, held as tightly as its noise is small; or an rkhs loss, in the units of the target

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.Observed(rkhs.Gradient(np.zeros((2, 3))), np.ones((2, 3)), noise=0.1)
    Observed(Gradient(2 points in R^3), noise=0.1, loss='squared')
    """

    functional: Functional
    target: Any = 0.0
    noise: Any = None
    loss: Any = "squared"

    def __post_init__(self) -> None:
        L = self.functional
        if not isinstance(L, Functional):
            raise TypeError(f"Observed needs a family of functionals, such as rkhs.Evaluation(X), got {L!r}.")
        if not isinstance(self.loss, Loss) and self.loss not in BY_NAME:
            raise ValueError(f"loss must be an rkhs loss or one of {', '.join(map(repr, BY_NAME))}, got {self.loss!r}.")
        if self.bound and self.noise is None:
            raise ValueError(
                f"The target of {self!r} is a bound, from which no noise can be learnt: say by its `noise` how far "
                "beyond the bound L(f) may be."
            )
        if self.noise is not None:
            noise = to_numpy(as_array(self.noise, "noise")).astype(np.float64)
            if noise.shape not in ((), L.shape) or not np.all(noise > 0):
                raise ValueError(
                    f"The noise of {L!r} is a positive standard deviation, or one for each of its functionals, of "
                    f"shape {L.shape}; got {self.noise!r}."
                )
            object.__setattr__(self, "noise", float(noise) if noise.ndim == 0 else noise)
        object.__setattr__(self, "target", owned(as_real(self.target, "target")))
        Term(L, Squared(), self.target)  # which checks the target

    def __repr__(self) -> str:
        noise = f"{np.size(self.noise)} numbers" if isinstance(self.noise, np.ndarray) else repr(self.noise)
        return f"Observed({self.functional!r}, noise={noise}, loss={self.loss!r})"

    @property
    def bound(self) -> bool:
        """Whether the target is only a bound."""
        return self.loss == "one_sided"

    @property
    def size(self) -> int:
        return self.functional.size

    @property
    def squared(self) -> bool:
        """Whether its loss is squared."""
        return self.loss == "squared" or isinstance(self.loss, Squared)

    @property
    def told(self) -> np.ndarray[Any, Any]:
        """The targets in NumPy, (size,) or (size, outputs), NaN where there was no observation."""
        target, L = to_numpy(as_real(self.target, "target")).astype(np.float64), self.functional
        if target.ndim > len(L.shape):
            return target.reshape(L.size, -1)
        return np.broadcast_to(target, L.shape).reshape(-1)

    def squared_term(self, trust: Any = 1.0) -> Term:
        """The term of a squared loss from which settings are learnt: weight trust / (2 noise^2), open without noise."""
        if self.noise is None:
            return Term(self.functional, Squared(), self.target, learn() * np.broadcast_to(trust, (self.size,)))
        weight = np.broadcast_to(trust / (2 * np.reshape(self.noise, -1) ** 2), (self.size,))
        return Term(self.functional, Squared(), self.target, weight)

    def noise_in(self, term: Term, trust: Any = 1.0) -> Any:
        """The standard deviation: that which was given, or which was learnt with the term."""
        if self.noise is not None:
            return self.noise
        return float(np.sqrt(np.max(np.asarray(trust)) / (2 * np.max(term.weight))))

    def term(self, noise: Any) -> Term:
        """The term of its own loss, minus a log-likelihood where that has a name: then of residuals over the noise."""
        sizes = np.broadcast_to(np.asarray(noise, dtype=np.float64), self.functional.shape)
        if self.squared:
            return Term(self.functional, Squared(), self.target, 1 / (2 * sizes.reshape(-1) ** 2))
        if isinstance(self.loss, Loss):
            steep = getattr(self.loss, "width", 0.0) == 0.0  # it grows like |r|, not like r^2
            weight = 2**0.5 / sizes if steep else 1 / (2 * sizes**2)
            return Term(self.functional, self.loss, self.target, weight.reshape(-1))
        loss, factor = BY_NAME[self.loss]
        told, wide = self.told, sizes.reshape(-1)
        scaled = told / (wide if told.ndim == 1 else wide[:, None])
        L = (1 / sizes) * self.functional
        return Term(L, loss, scaled.reshape(*L.shape, *told.shape[1:]), factor)

    def trust(self, f: Any) -> Any:
        """How much each target may weigh when settings are learnt, at most 1: less where f says it is an outlier.

        Cauchy's weights 1 / (1 + (r / 2.385 s)^2), with s the median residual: one for all where the loss is squared.
        """
        if self.squared or self.bound:
            return 1.0
        found = to_numpy(self.functional(f)).reshape(self.told.shape)
        away = np.abs(self.told - found).reshape(self.size, -1).max(axis=1)
        typical = NORMAL * float(np.nanmedian(away))
        return np.where(np.isnan(away), 1.0, 1 / (1 + (away / (CAUCHY * max(typical, np.finfo(float).tiny))) ** 2))
