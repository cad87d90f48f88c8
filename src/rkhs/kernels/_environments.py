"""Kernels of functions that are sums over the atoms of a molecule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from rkhs._calculus.environments import AtomicEnvironments
from rkhs.kernels._algebra import Push, PushedKernel
from rkhs.kernels._base import Kernel


@dataclass(frozen=True)
class AtomicSum(PushedKernel):
    """The kernel of functions that are sums over atoms of functions of their neighborhoods.

        f(R) = sum_i f_kind(i)(phi_i(R)),      k(R, R') = sum over atoms i and j of one kind of k_1(phi_i(R), phi_j(R'))

    Atoms of one kind have the same function, so that f does not change if they are exchanged.

    Parameters
    ----------
    kernel : Kernel
        The positive definite kernel k_1 of the representation of a neighborhood.
    environments : AtomicEnvironments
        The representations phi_i.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> kernel = AtomicSum(rkhs.Gaussian(30.0), AtomicEnvironments(np.array([0, 1, 1])))
    >>> water = np.array([[0.0, 0.0, 0.0, 0.96, 0.0, 0.0, -0.24, 0.93, 0.0]])
    >>> kernel(water).round(6)  # one atom of oxygen, and two of hydrogen with the same neighborhood
    array([[5.]])
    """

    kernel: Kernel
    environments: AtomicEnvironments

    def __post_init__(self) -> None:
        self._check_definite()

    def __repr__(self) -> str:
        return f"AtomicSum({self.kernel!r}, {self.environments!r})"

    def image(self, dimension: int) -> int:
        return self.environments.size(0)

    def smoothness(self, dimension: int) -> float:
        return min(super().smoothness(dimension), 2.0)  # the representations have first derivatives only

    def pushes(self) -> Iterator[tuple[float, Push | None, Push | None]]:
        for kind in range(self.environments.count):
            push = partial(self.environments.pushed, kind)
            yield 1.0, push, push
