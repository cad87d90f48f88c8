"""Images that a solver has at hand, and one Gram product that shows whether all of them are right.

With independent normal numbers r_k, the vector

    G (sum_k r_k a_k)  -  sum_k r_k (Ga)_k  =  sum_k r_k e_k

is as long as the errors e_k of the images are together, up to a normal number: it is shorter than a thousandth of
that with a probability below one in a thousand (Freivalds' check of a matrix product).
"""

from __future__ import annotations

import numpy as np

from rkhs.backend.arrays import Array, like, namespace
from rkhs.finite.system import System

SHARE = 1e-4  # of a tolerance that may come from errors of images
ROUNDED = 64  # units of rounding, which a product has itself


class Ledger:
    """Points a (N, c) with their images Ga, each with the factor by which an error of the image matters.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from rkhs.finite.ledger import Ledger
    >>> X = np.linspace(0, 1, 5)[:, None]
    >>> term = rkhs.Term(rkhs.Evaluation(X), rkhs.Hinge(), target=np.ones(5))
    >>> system = rkhs.Problem(rkhs.Gaussian(1.0), [term]).system
    >>> ledger = Ledger(system)
    >>> a = np.eye(5)[:, :2]
    >>> ledger.add(a, system.gram @ a, np.ones(2))
    >>> ledger.right(1e-6)
    True
    >>> ledger.add(a, system.gram @ a + 1e-8, np.ones(2))
    >>> ledger.right(1e-6)
    False
    """

    def __init__(self, system: System) -> None:
        self.system = system
        self.random = np.random.default_rng(0)
        self.points, self.images = system.zeros(1), system.zeros(1)

    def add(self, a: Array, image: Array, factor: Array) -> None:
        """Enter the columns of a and what is believed to be Ga, with a factor (c,) each."""
        r = like((factor * self.random.standard_normal(len(factor)))[:, None], a)
        self.points, self.images = self.points + a @ r, self.images + image @ r

    def right(self, tol: float) -> bool:
        """Whether errors of images, times their factors, are small beside `tol`; one product."""
        xp = namespace(self.points)
        error = float(xp.linalg.vector_norm(self.system.exact @ self.points - self.images))
        return error <= max(SHARE * tol, ROUNDED * float(xp.finfo(self.points.dtype).eps))
