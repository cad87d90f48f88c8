"""What is known about a function beside its labels: functionals that should stay near a target, made from points.

An invariance says: for the points x_1 .. x_t, L_1(f), L_2(f), .. are (about) zero.  It is given as

- a callable X -> rkhs.Functional, for example ``rkhs.Gradient``,
- the name of one: "gradient", "local_average", "laplacian", "graph",
- an `Invariance`, which adds a weight, a loss, a target and the points it is about,
- or a list of these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rkhs._backend.arrays import Array
from rkhs.functionals.base import Functional
from rkhs.invariances.named import NAMED
from rkhs.losses.base import Loss

PLACES = ("all", "labelled", "unlabelled")
Knowledge = Callable[[Array], Functional]


@dataclass(frozen=True)
class Invariance:
    """Something known about f at the training points, with its own weight, loss, target and points.

        weight * mean_i sum_j loss(L_ij(f); target), for the functionals L = functional(X) at the training points

    The mean is over the first axis of L, and L(f) in units of what it is for a typical f (`rkhs.estimators._problem`):
    a factor on all functionals, and on the target, changes nothing.

    Parameters
    ----------
    functional : a callable X -> rkhs.Functional, or "gradient", "local_average" or "laplacian"
    weight : a factor on the `nu` of an estimator
    loss : an rkhs loss or its name; None for the estimator's `invariance_loss`
    on : the points X it is about: "all", "labelled" or "unlabelled"
    target : what L(f) should be near to, in units of L(f)

    Examples
    --------
    >>> import rkhs
    >>> flat = rkhs.Invariance(rkhs.Gradient, loss=rkhs.Huber(0.1), on="unlabelled")
    >>> flat([[0.0, 1.0]])
    Gradient(1 point in R^2)
    """

    functional: Knowledge | str
    weight: float = 1.0
    loss: Loss | str | None = None
    on: str = "all"
    target: float = 0.0

    def __post_init__(self) -> None:
        known = self.functional in NAMED if isinstance(self.functional, str) else callable(self.functional)
        if not known:
            raise ValueError(
                f"An invariance is a callable X -> functionals, such as rkhs.Gradient, or one of {_names()}, "
                f"got {self.functional!r}."
            )
        if self.on not in PLACES:
            raise ValueError(f'on must be "all", "labelled" or "unlabelled", got {self.on!r}.')
        if not 0 <= self.weight < float("inf"):
            raise ValueError(f"The weight of an invariance must be finite and not negative, got {self.weight!r}.")

    @property
    def maker(self) -> Knowledge:
        """The callable X -> functionals."""
        return NAMED[self.functional] if isinstance(self.functional, str) else self.functional

    @property
    def once(self) -> bool:
        """Whether it looks at all points together, each of them once, and divides by what white noise has."""
        return bool(getattr(self.maker, "once", False))

    @property
    def promise(self) -> dict[Any, Any] | None:
        """What it says of f everywhere, in the words of an estimator's `shape`; None where it is about points."""
        return getattr(self.maker, "promise", None)

    def __call__(self, X: Array) -> Functional:
        """The functionals at the points X."""
        make = self.maker
        functionals = make(X)
        if not isinstance(functionals, Functional):
            raise TypeError(
                f"{make!r} must return functionals, such as rkhs.Gradient(X), and returned {functionals!r}."
            )
        return functionals


def as_invariances(knowledge: Any) -> tuple[Invariance, ...]:
    """A list of `Invariance` from anything an estimator takes as `invariance`; none from None.

    Examples
    --------
    >>> import rkhs
    >>> len(as_invariances(["gradient", rkhs.Laplacian]))
    2
    """
    if knowledge is None:
        return ()
    if isinstance(knowledge, Sequence) and not isinstance(knowledge, str):
        return tuple(one for item in knowledge for one in as_invariances(item))
    return (knowledge if isinstance(knowledge, Invariance) else Invariance(knowledge),)


def numbered(invariances: Iterable[Invariance], names: Sequence[str] | None) -> tuple[Invariance, ...]:
    """Knowledge about columns by name gets their numbers, by its own method `numbered`.

    `names` are those of the columns of X, None where they have none.
    """

    def own(one: Invariance) -> Invariance:
        by_name = getattr(one.functional, "numbered", None)
        return one if by_name is None else replace(one, functional=by_name(names))

    return tuple(map(own, invariances))


def _names() -> str:
    return ", ".join(f'"{name}"' for name in NAMED)
