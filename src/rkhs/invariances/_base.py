"""What is known about a function beside its labels: functionals that should stay near a target, made from points.

An invariance states: for the points x_1 .. x_t, L_1(f), L_2(f), .. are (about) zero.  It is given as

- a callable X -> rkhs.extend.Functional, for example ``rkhs.Gradient``,
- the name of one: "gradient", "local_average", "graph",
- an `Invariance`, which adds a weight, a loss, a target and the points it is about,
- or a list of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse

from rkhs._backend.arrays import Array, as_array, as_points, taken, to_numpy
from rkhs.functionals import Gradient, stack
from rkhs.functionals._base import Combination, Functional
from rkhs.functionals._derivatives import Derivative
from rkhs.invariances._graph import NAMED
from rkhs.losses import OneSided
from rkhs.losses._base import Loss

Knowledge = Callable[[Array], Functional]


@dataclass(frozen=True)
class Invariance:
    """Something known about f at the training points, with its own weight, loss, target and points.

        weight * mean_i sum_j loss(L_ij(f); target), for the functionals L = functional(X) at the training points

    The mean is over the first axis of L, and L(f) in units of what it is for a typical f (`rkhs._estimators.problem`):
    a factor on all functionals, and on the target, changes nothing.

    Parameters
    ----------
    functional : a callable X -> rkhs.extend.Functional, or "gradient", "local_average" or "graph"
    weight : a factor on the `nu` of an estimator
    loss : an rkhs loss or its name, "squared" by default
    on : the points X it is about: "all", "labeled" or "unlabeled"
    target : what L(f) should be near to, in units of L(f)

    Examples
    --------
    >>> import rkhs
    >>> flat = rkhs.Invariance(rkhs.Gradient, loss=rkhs.Huber(0.1), on="unlabeled")
    >>> flat([[0.0, 1.0]])
    Gradient(1 point in R^2)
    """

    functional: Knowledge | str
    weight: float = 1.0
    loss: Loss | str = "squared"
    on: str = "all"
    target: float = 0.0

    def __post_init__(self) -> None:
        known = self.functional in NAMED if isinstance(self.functional, str) else callable(self.functional)
        if not known:
            names = ", ".join(f'"{name}"' for name in NAMED)
            raise ValueError(
                f"An invariance is a callable X -> functionals, such as rkhs.Gradient, or one of {names}, "
                f"got {self.functional!r}."
            )
        if self.on not in ("all", "labeled", "unlabeled"):
            raise ValueError(f'on must be "all", "labeled" or "unlabeled", got {self.on!r}.')
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
    def hard_constraint(self) -> dict[Any, Any] | None:
        """What holds everywhere, in the words of an estimator's `shape`; None where it is about points."""
        return getattr(self.maker, "hard_constraint", None)

    def __call__(self, X: Array) -> Functional:
        """Return the functionals at the points X."""
        found = self.maker(X)
        if not isinstance(found, Functional):
            raise TypeError(
                f"{self.maker!r} must return functionals, such as rkhs.Gradient(X), and returned {found!r}."
            )
        return found


def as_invariances(knowledge: Any) -> tuple[Invariance, ...]:
    """Return every `Invariance` in what an estimator takes as `invariance`; none for None.

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


def resolve_columns(invariances: Sequence[Invariance], names: Sequence[str] | None) -> tuple[Invariance, ...]:
    """Return the invariances with numbers in place of names of columns, by the method of that name, if they have one.

    `names` are those of the columns of X, None where they have none.
    """
    resolve = [getattr(one.functional, "resolve_columns", None) for one in invariances]
    both = zip(invariances, resolve, strict=True)
    return tuple(one if own is None else replace(one, functional=own(names)) for one, own in both)


@dataclass(frozen=True)
class Sampled:
    """Another invariance, at a random sample of the points only.

        L = functional(X_S) for a random subset S of at most `most` rows of X

    Parameters
    ----------
    functional : a callable X -> functionals, or the name of one, as in `Invariance`
    most : how many rows at most
    random_state : the seed of the draw

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.invariances import Sampled
    >>> Sampled("gradient", most=100)(np.random.default_rng(0).standard_normal((5000, 3)))
    Gradient(100 points in R^3)
    """

    functional: Callable[[Array], Functional] | str
    most: int
    random_state: int = 0

    def __post_init__(self) -> None:
        if self.most < 1:
            raise ValueError(f"most must be a positive number of points, got {self.most!r}.")
        Invariance(self.functional)  # refuses what is none

    def __call__(self, X: Array) -> Functional:
        """Return the functionals at the drawn rows, in the order of the rows."""
        points = as_points(X)
        t = int(points.shape[0])
        if t > self.most:
            rows = np.sort(np.random.default_rng(self.random_state).choice(t, self.most, replace=False))
            points = taken(points, rows)
        return Invariance(self.functional)(points)


@dataclass(frozen=True)
class Jitter:
    """f changes little when features are off by their usual errors.

        L_ia(f) = width_a df/dx_a (x_i): how f changes when feature a of x_i is off by its usual error

    The sum of squares over a is E (f(x_i + z) - f(x_i))^2 for small noise z ~ N(0, diag(width^2)), so give the error of
    measurement of each feature; zero for one that is exact.  Estimators see which widths are larger, and by how much;
    how strong it all is, their `nu` says.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from rkhs.invariances import Jitter
    >>> Jitter([0.5, 2.0])(np.array([[3.0, 4.0]]))(rkhs.Polynomials(degree=1))  # of 1, x, y
    array([[[0. , 0.5, 0. ],
            [0. , 0. , 2. ]]])
    """

    width: Any

    def __post_init__(self) -> None:
        width = to_numpy(as_array(self.width, "width"))
        if width.ndim > 1 or width.size == 0 or not np.all(width >= 0) or not np.any(width > 0):
            raise ValueError(f"width must be positive, one number or one per feature, got {self.width!r}.")
        object.__setattr__(self, "width", float(width) if width.ndim == 0 else tuple(width.tolist()))

    def __call__(self, X: Array) -> Functional:
        """Return the scaled partial derivatives at each row, of the features whose width is not zero: (t, these)."""
        points = as_points(X)
        if isinstance(self.width, float):
            return self.width * Gradient(points)
        t, n = points.shape
        if len(self.width) != n:
            raise ValueError(f"Jitter has {len(self.width)} widths and X has {n} features: give one for each.")
        widths = np.tile(self.width, t)
        kept = np.flatnonzero(widths)
        scaled = scipy.sparse.csr_array((widths[kept], (np.arange(kept.size), kept)), shape=(kept.size, t * n))
        each = kept.size // t
        return Combination((t, each), (scaled @ Gradient(points)).parts, f"Jitter({t} points, {each} features)")


def Monotone(
    features: Mapping[Any, int], weight: float = 1.0, on: str = "all", *, everywhere: bool = False
) -> Invariance:
    """f rises with some features and falls with others.

        loss = max(0, -s_a df/dx_a (x_i)): f increases in feature a where s_a = +1, decreases where s_a = -1

    At the points of the data it is a loss, which may be paid.  With `everywhere` it is a hard constraint: f is monotone
    on the whole box of the training points, which is proved (`shape_certificate_`), as by `shape={..: "increasing"}`.

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
    def hard_constraint(self) -> dict[int | str, str] | None:
        """What holds everywhere, in the words of an estimator's `shape`; None for a loss at points."""
        words = {1: "increasing", -1: "decreasing"}
        return {a: words[s] for a, s in zip(self.features, self.signs, strict=True)} if self.everywhere else None

    def resolve_columns(self, names: Sequence[str] | None) -> Slopes:
        """Return the same with numbers in place of names; `names` are those of the columns, None if they have none."""
        known = {str(name): k for k, name in enumerate([] if names is None else names)}
        unknown = [a for a in self.features if isinstance(a, str) and a not in known]
        if unknown and names is None:
            raise ValueError(
                f"Monotone names columns ({', '.join(map(repr, unknown))}) and X has no column names: fit with a data "
                "frame, or give the numbers of the features."
            )
        if unknown:
            raise ValueError(
                f"Monotone names columns that X does not have: {', '.join(map(repr, unknown))}. Its columns are "
                f"{', '.join(map(repr, known))}."
            )
        return replace(self, features=tuple(known[a] if isinstance(a, str) else a for a in self.features))

    def __call__(self, X: Array) -> Functional:
        """Return the signed partial derivatives at each row: flat, feature by feature."""
        points: Any = as_points(X)
        pairs = zip(map(int, self.resolve_columns(None).features), self.signs, strict=True)
        return stack([float(sign) * Derivative(points, axes=[feature]) for feature, sign in pairs])
