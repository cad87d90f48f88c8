"""Components of vector fields, which are functions of a point and a direction."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rkhs._backend.arrays import Array, as_points, like, namespace, owned
from rkhs._calculus.atoms import Atoms
from rkhs.functionals.base import Functional, Part, described


@dataclass(frozen=True, eq=False, repr=False)
class Components(Functional):
    """All components of a vector field v at the rows of X: shape (t, m).

    L_ic(F) = F(x_i, e_c), where the field is written as F(x, e) = <e, v(x)>.

    For kernels of points (x, e): `CurlFree`, `DivergenceFree`, and `rkhs.kernels.components`, which has m outputs.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.Components(np.zeros((5, 2))).shape, rkhs.Components(np.zeros((5, 2)), 3).shape
    ((5, 2), (5, 3))
    """

    X: Array
    outputs: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "X", owned(as_points(self.X)))
        outputs = int(self.X.shape[1]) if self.outputs is None else self.outputs
        if not (isinstance(outputs, int) and outputs > 0):
            raise ValueError(f"outputs is a positive whole number, got {self.outputs!r}.")
        object.__setattr__(self, "outputs", outputs)

    def __repr__(self) -> str:
        return described("Components", self.X)[:-1] + f", {self.outputs} outputs)"

    @property
    def shape(self) -> tuple[int, ...]:
        return int(self.X.shape[0]), int(self.outputs or 0)

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        t, m = self.shape
        xp = namespace(self.X)
        n = int(self.X.shape[1])
        places = xp.reshape(xp.broadcast_to(self.X[:, None, :], (t, m, n)), (t * m, n))
        return (Part(Atoms.values(xp.concat([places, like(np.tile(np.eye(m), (t, 1)), places)], axis=1))),)
