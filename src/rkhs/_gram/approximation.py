"""Which functions an approximation looks for f among: landmarks, or Fourier features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rkhs._backend.precision import check_precision
from rkhs.functionals.base import Functional

SELECTIONS = ("k-means++", "random")


@dataclass(frozen=True)
class Landmarks:
    """Approximation by p functions that sit at chosen points, for many rows.

    f in the span of p representers: of values, and of derivatives along chosen directions, at chosen points.

    The values are at points of the problem, chosen by k-means++ or at random.  The derivatives are taken where the
    problem has derivatives too, along the gradient of a first f that knows values only: the representers of a gradient
    penalty enter the solution with just this direction at each point.  Functionals of small terms (a few labels among
    many points) are landmarks themselves, and so are all, if there are at most p: then the solution is exact.

    Parameters
    ----------
    functionals : how many, p; or a family of functionals, such as rkhs.stack([rkhs.Evaluation(C), rkhs.Gradient(C)])
    selection : "k-means++" or "random"
    derivatives : the share of derivatives among those that are chosen; 0 for values only
    random_state : a seed; the same seed gives the same landmarks

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.random.default_rng(0).standard_normal((2000, 5))
    >>> terms = [
    ...     rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(X[:, 0]), weight=1.0),
    ...     rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.01),
    ... ]
    >>> problem = rkhs.Problem(rkhs.Gaussian(scale=3.0), terms, approximation=rkhs.Landmarks(300))
    >>> solution = problem.solve()
    >>> solution.status, solution.span
    ('converged', 'Landmarks: 300 functions')
    """

    functionals: int | Functional
    selection: str = "k-means++"
    derivatives: float = 0.25
    random_state: Any = 0

    def __post_init__(self) -> None:
        if not isinstance(self.functionals, Functional):
            _check_count(self, self.functionals)
        if self.selection not in SELECTIONS:
            raise ValueError(f'selection must be "k-means++" or "random", got {self.selection!r}.')
        if not 0 <= self.derivatives <= 1:
            raise ValueError(f"derivatives is a share, between 0 and 1, got {self.derivatives!r}.")


@dataclass(frozen=True)
class FourierFeatures:
    """Approximation by p random waves, for many rows.

        f in the span of p random waves cos(<w, x> + b), frequencies drawn from the spectrum of the kernel

    For Gaussian, Matern and rational quadratic kernels.  Needs no points to be chosen, and costs the least per row; for
    the same p it is further from the solution than `Landmarks`.

    Parameters
    ----------
    count : p
    random_state : a seed

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.random.default_rng(0).standard_normal((500, 2))
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=X[:, 0] * X[:, 1])
    >>> features = rkhs.FourierFeatures(200, random_state=0)
    >>> solution = rkhs.Problem(rkhs.Gaussian(scale=2.0), [term], approximation=features).solve()
    >>> bool(np.abs(solution.function(X) - X[:, 0] * X[:, 1]).mean() < 0.1)
    True
    """

    count: int
    random_state: Any = 0

    def __post_init__(self) -> None:
        _check_count(self, self.count)


Approximation = Landmarks | FourierFeatures


def check_approximation(approximation: Any) -> None:
    """Refuse what is neither."""
    if not isinstance(approximation, (Landmarks, FourierFeatures)):
        raise TypeError(
            f"approximation must be None, rkhs.Landmarks(p) or rkhs.FourierFeatures(p), got {approximation!r}."
        )


def check_sums(precision: str | None) -> None:
    """Refuse sums in less than float64."""
    check_precision(precision)
    if precision not in (None, "float64"):
        raise ValueError(
            f"precision={precision!r} is for Gram products, whose errors are corrected; those of the sums of an "
            "approximation are not, and the inverse of its Gram matrix multiplies them: leave `precision` out, or the "
            "approximation."
        )


def _check_count(owner: Any, count: Any) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ValueError(f"{type(owner).__name__} needs a positive number of functions, got {count!r}.")
