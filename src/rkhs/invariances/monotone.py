"""Monotone features: f rises or falls with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rkhs._backend.arrays import Array, as_points
from rkhs.functionals import Functional, stack
from rkhs.functionals.derivatives import Derivative
from rkhs.invariances.base import Invariance
from rkhs.losses import OneSided


def Monotone(
    features: Mapping[Any, int], weight: float = 1.0, on: str = "all", *, everywhere: bool = False
) -> Invariance:
    """f rises with some features and falls with others.

        loss = max(0, -s_a df/dx_a (x_i)): f increases in feature a where s_a = +1, decreases where s_a = -1

    At the points of the data it is a loss, which may be paid.  With `everywhere` it is a promise: f is monotone on the
    whole box of the training points, which is proved (`shape_certificate_`), as by `shape={..: "increasing"}`.

    Parameters
    ----------
    features : the number of each feature, or its name in the data frame that an estimator is given, and its sign, +1
        or -1
    weight, on : as in `Invariance`; without a meaning for what holds everywhere
    everywhere : whether it holds at all points, not only near those of the data

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from rkhs.invariances import Monotone
    >>> Monotone({0: +1, 3: -1}).functional
    Slopes(features=(0, 3), signs=(1, -1), everywhere=False)
    >>> X = np.linspace(0, 6, 30)[:, None]
    >>> rising = rkhs.InvariantRegressor(scale=1.0, invariance=Monotone({0: +1}, everywhere=True))
    >>> rising.fit(X, np.sin(X[:, 0])).shape_certificate_.proved
    True
    """
    if not features or any(sign not in (1, -1) for sign in features.values()):
        raise ValueError(f"Monotone needs a sign, +1 or -1, for each feature, such as {{0: +1}}, got {features!r}.")
    columns = tuple(a if isinstance(a, str) else int(a) for a in features)
    slopes = Slopes(columns, tuple(int(s) for s in features.values()), everywhere)
    return Invariance(slopes, weight=weight, loss=OneSided(), on=on)


@dataclass(frozen=True)
class Slopes:
    """L_ia(f) = s_a df/dx_a (x_i) for some features a, which are numbers or names of columns."""

    features: tuple[int | str, ...]
    signs: tuple[int, ...]
    everywhere: bool = False

    @property
    def promise(self) -> dict[int | str, str] | None:
        """What holds everywhere, in the words of an estimator's `shape`; None for a loss at points."""
        words = {1: "increasing", -1: "decreasing"}
        return {a: words[s] for a, s in zip(self.features, self.signs, strict=True)} if self.everywhere else None

    def numbered(self, names: Sequence[str] | None) -> Slopes:
        """The same with numbers in the place of names; `names` are those of the columns, None where they have none."""
        named = [a for a in self.features if isinstance(a, str)]
        if named and names is None:
            raise ValueError(
                f"Monotone names columns ({_quoted(named)}) and X has no column names: fit with a data frame, or give "
                "the numbers of the features."
            )
        places = {name: k for k, name in enumerate([] if names is None else names)}
        unknown = [a for a in named if a not in places]
        if unknown:
            raise ValueError(
                f"Monotone names columns that X does not have: {_quoted(unknown)}. Its columns are {_quoted(places)}."
            )
        return replace(self, features=tuple(places[a] if isinstance(a, str) else a for a in self.features))

    def __call__(self, X: Array) -> Functional:
        """The signed partial derivatives at each row: flat, feature by feature."""
        points: Any = as_points(X)
        pairs = zip(map(int, self.numbered(None).features), self.signs, strict=True)
        return stack([float(sign) * Derivative(points, axes=[feature]) for feature, sign in pairs])


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(repr(str(name)) for name in names)
