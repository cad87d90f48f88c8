"""Priors on f: functionals, made from points, whose values should be near a target.

An invariance states that L_1(f), L_2(f), ... are about zero at the points x_1 .. x_t.  It is given as

- a callable X -> rkhs.extend.Functional, for example ``rkhs.Gradient``,
- one of the names "gradient", "local_average" and "graph",
- an `Invariance`, which adds a weight, a loss, a target and the subset of points,
- or a list of these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rkhs._core.backend.arrays import (
    Array,
    as_array,
    as_points,
    check_choice,
    check_count,
    check_number,
    like,
    take_rows,
    to_numpy,
)
from rkhs._core.backend.frames import column_index
from rkhs.functionals import Derivative, DirectionalDerivative, Gradient, stack
from rkhs.functionals._base import Functional
from rkhs.invariances._graph import NAMED
from rkhs.losses import OneSided
from rkhs.losses._base import Loss

FunctionalMaker = Callable[[Array], Functional]


@dataclass(frozen=True)
class Invariance:
    """A prior on f at the training points, with a weight, a loss, a target and a subset of the points.

        weight * mean_i sum_j loss(L_ij(f); target),  L = functional(X)

    The mean is over the first axis of L.  Estimators divide L(f) by its size for a typical f, so that a factor on all
    functionals and on the target has no effect.

    Parameters
    ----------
    functional : callable or {"gradient", "local_average", "graph"}
        A callable X -> rkhs.extend.Functional, or the name of one.
    weight : float, default=1.0
        A factor on the `nu` of an estimator.
    loss : Loss or str, default="squared"
        The loss or its name.
    on : {"all", "labeled", "unlabeled"}, default="all"
        The training points at which the prior applies.
    target : float, default=0.0
        The target of L(f), in units of L(f).

    Examples
    --------
    >>> import rkhs
    >>> flat = rkhs.Invariance(rkhs.Gradient, loss=rkhs.Huber(0.1), on="unlabeled")
    >>> flat([[0.0, 1.0]])
    Gradient(1 point in R^2)
    """

    functional: FunctionalMaker | str
    weight: float = 1.0
    loss: Loss | str = "squared"
    on: str = "all"
    target: float = 0.0

    def __post_init__(self) -> None:
        known = self.functional in NAMED if isinstance(self.functional, str) else callable(self.functional)
        if not known:
            names = ", ".join(f'"{name}"' for name in NAMED)
            raise ValueError(
                f"An invariance must be a callable X -> functionals, such as rkhs.Gradient, or one of {names}, "
                f"got {self.functional!r}."
            )
        check_choice(self.on, "on", "all", "labeled", "unlabeled")
        check_number(self.weight, "The weight of an invariance", or_zero=True, or_infinite=True)

    @property
    def maker(self) -> FunctionalMaker:
        """The callable X -> functionals."""
        return NAMED[self.functional] if isinstance(self.functional, str) else self.functional

    @property
    def once(self) -> bool:
        """Whether the functionals couple all points, each used once, and are normalized already (as by `Graph`)."""
        return bool(getattr(self.maker, "once", False))

    @property
    def shape_constraint(self) -> dict[Any, Any] | None:
        """The shape constraint that holds everywhere, as a `shape` of an estimator; None for a prior at points."""
        return getattr(self.maker, "shape_constraint", None)

    def __call__(self, X: Array) -> Functional:
        """Return the functionals at the points X.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.

        Returns
        -------
        Functional
            The functionals.
        """
        functionals = self.maker(X)
        if not isinstance(functionals, Functional):
            raise TypeError(
                f"{self.maker!r} must return functionals, such as rkhs.Gradient(X), but returned {functionals!r}."
            )
        return functionals


def as_invariances(invariance: Any) -> tuple[Invariance, ...]:
    """Return the `invariance` argument of an estimator as a tuple of `Invariance` objects.

    Parameters
    ----------
    invariance : None, str, callable, Invariance, or a sequence of these
        The argument; None gives an empty tuple, and so does "auto", by which nothing is stated.

    Returns
    -------
    tuple of Invariance
        The invariances.

    Examples
    --------
    >>> import rkhs
    >>> from rkhs.invariances._base import as_invariances
    >>> len(as_invariances(["gradient", rkhs.functionals.Laplacian]))
    2
    """
    if invariance is None or (isinstance(invariance, str) and invariance == "auto"):
        return ()
    if isinstance(invariance, Sequence) and not isinstance(invariance, str):
        return tuple(prior for item in invariance for prior in as_invariances(item))
    if isinstance(invariance, Invariance):
        return (invariance,)
    return (Invariance(invariance, loss=getattr(invariance, "default_loss", "squared")),)


def resolve_columns(invariances: Sequence[Invariance], names: Sequence[str] | None) -> tuple[Invariance, ...]:
    """Replace names of columns by their indices in the invariances that refer to columns.

    `names` are the column names of X, or None if it has none.  A functional that refers to columns has a method
    `resolve_columns(names)`.
    """
    methods = [getattr(prior.functional, "resolve_columns", None) for prior in invariances]
    pairs = zip(invariances, methods, strict=True)
    return tuple(prior if resolve is None else replace(prior, functional=resolve(names)) for prior, resolve in pairs)


@dataclass(frozen=True)
class RandomSubset:
    """Another invariance, restricted to a random sample of the points.

        L = functional(X_S) for a random subset S of at most `most` rows of X

    Parameters
    ----------
    functional : callable or str
        A callable X -> functionals, or the name of one, as in `Invariance`.
    most : int
        The maximal number of rows.
    random_state : int, default=0
        The seed of the sample.

    Examples
    --------
    >>> import numpy as np
    >>> from rkhs.invariances import RandomSubset
    >>> RandomSubset("gradient", most=100)(np.random.default_rng(0).standard_normal((5000, 3)))
    Gradient(100 points in R^3)
    """

    functional: Callable[[Array], Functional] | str
    most: int
    random_state: int = 0

    def __post_init__(self) -> None:
        check_count(self.most, "most")
        Invariance(self.functional)  # validates the functional

    def __call__(self, X: Array) -> Functional:
        """Return the functionals at the sampled rows, in the order of X.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.

        Returns
        -------
        Functional
            The functionals.
        """
        points = as_points(X)
        t = int(points.shape[0])
        if t > self.most:
            rows = np.sort(np.random.default_rng(self.random_state).choice(t, self.most, replace=False))
            points = take_rows(points, rows)
        return Invariance(self.functional)(points)


@dataclass(frozen=True)
class InputNoise:
    """Insensitivity to measurement errors of the features.

        L_ia(f) = width_a df/dx_a (x_i): the change of f when feature a of x_i is off by its typical error

    The sum of squares over a is E (f(x_i + z) - f(x_i))^2 for small noise z ~ N(0, diag(width^2)).  Estimators use the
    ratios of the widths; their `nu` sets the overall strength.

    Parameters
    ----------
    width : float or array-like of shape (n,)
        The standard error of the features, or one per feature; zero for a feature that is exact.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from rkhs.invariances import InputNoise
    >>> InputNoise([0.5, 2.0])(np.array([[3.0, 4.0]]))(rkhs.Polynomials(degree=1))  # of 1, x, y
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
        """Return the scaled partial derivatives at each row, for the features with nonzero width.

        Parameters
        ----------
        X : array-like of shape (t, n)
            The points.

        Returns
        -------
        Functional
            The functionals, of shape (t, number of nonzero widths).
        """
        points = as_points(X)
        if isinstance(self.width, float):
            return self.width * Gradient(points)
        if len(self.width) != points.shape[1]:
            raise ValueError(
                f"InputNoise has {len(self.width)} widths but X has {points.shape[1]} features: give one for each."
            )
        directions = np.diag(self.width)[np.flatnonzero(self.width)]
        return DirectionalDerivative(points, like(np.tile(directions, (len(points), 1, 1)), points))


def Monotone(
    features: Mapping[Any, int], weight: float = 1.0, on: str = "all", *, everywhere: bool = False
) -> Invariance:
    """Return the prior that f increases in some features and decreases in others.

        loss = max(0, -s_a df/dx_a (x_i)): f increases in feature a where s_a = +1, decreases where s_a = -1

    By default it is a penalty at the training points.  With `everywhere` it is a hard constraint: f is monotone on the
    whole bounding box of the training points, with a proof (`shape_certificate_`), as by ``shape={...: "increasing"}``.

    Parameters
    ----------
    features : dict of int or str to {+1, -1}
        The index of each feature, or its name in the data frame that the estimator is fitted with, and its sign.
    weight : float, default=1.0
        The weight of `Invariance`; without effect on a hard constraint.
    on : {"all", "labeled", "unlabeled"}, default="all"
        The points of `Invariance`; without effect on a hard constraint.
    everywhere : bool, default=False
        Whether f is monotone everywhere, not only near the training points.

    Returns
    -------
    Invariance
        The prior.

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
    """Signed partial derivatives L_ia(f) = s_a df/dx_a (x_i) in some features a, given by index or column name."""

    features: tuple[int | str, ...]
    signs: tuple[int, ...]
    everywhere: bool = False

    @property
    def shape_constraint(self) -> dict[int | str, str] | None:
        """The shape constraint that holds everywhere, as a `shape` of an estimator; None for a penalty at points."""
        words = {1: "increasing", -1: "decreasing"}
        return {a: words[s] for a, s in zip(self.features, self.signs, strict=True)} if self.everywhere else None

    def resolve_columns(self, names: Sequence[str] | None) -> Slopes:
        """Return the same functionals with column names replaced by indices; `names` are the columns of X or None."""
        return replace(self, features=tuple(column_index(a, names, "Monotone") for a in self.features))

    def __call__(self, X: Array) -> Functional:
        """Return the signed partial derivatives at each row, a flat family ordered by feature."""
        points: Any = as_points(X)
        pairs = zip(map(int, self.resolve_columns(None).features), self.signs, strict=True)
        return stack([float(sign) * Derivative(points, axes=[feature]) for feature, sign in pairs])
