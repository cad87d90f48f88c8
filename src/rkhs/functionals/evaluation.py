"""Values of a function."""

from __future__ import annotations

from dataclasses import dataclass

from rkhs._backend.arrays import Array, as_points, owned
from rkhs._calculus.atoms import Atoms
from rkhs.functionals.base import Functional, Part, described


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Functional):
    """Values at points.

        L_i(f) = f(x_i) at the rows x_i of X: shape (t,)

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.array([[0.0], [1.0]])
    >>> rkhs.gram(rkhs.Gaussian(scale=1.0), rkhs.Evaluation(X)).dense().round(4)
    array([[1.    , 0.6065],
           [0.6065, 1.    ]])
    """

    X: Array

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", owned(as_points(self.X)))

    def __repr__(self) -> str:
        return described("Evaluation", self.X)

    @property
    def shape(self) -> tuple[int, ...]:
        return (int(self.X.shape[0]),)

    @property
    def parts(self) -> tuple[Part, ...]:
        return (Part(Atoms.values(self.X)),)
