"""Functions that a finite group of transformations leaves as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from rkhs._backend.arrays import Matrix, to_numpy
from rkhs._calculus.atoms import Atoms
from rkhs.kernels._algebra import Push, PushedKernel
from rkhs.kernels._base import Kernel, Tunable

EXACT = 1e-9  # relative, in which products of the group and the invariance of the kernel are checked


@dataclass(frozen=True, eq=False)
class Symmetrized(PushedKernel):
    """Functions that a group of symmetries does not change, exactly.

        k(x, y) = mean over g of k_1(x, g y);  f(g x) = f(x) for every f of its space and every g of the group

    As k_1(g x, g y) = k_1(x, y), averaging on one side is averaging on both: the cost is that of as many kernels as the
    group has elements, not of its square.

    Parameters
    ----------
    kernel : a positive definite kernel that no g changes: k_1(g x, g y) = k_1(x, y), such as `Gaussian` with one scale
        for features that are exchanged
    group : all elements of the group, the identity among them: matrices (|G|, n, n), or permutations of the features
        (|G|, n) of whole numbers, g x = x[g]

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> even = rkhs.kernels.Symmetrized(rkhs.Gaussian(scale=1.0), [[[1.0]], [[-1.0]]])
    >>> even([[2.0]], [[0.5], [-0.5]])
    array([[0.1842947, 0.1842947]])
    """

    kernel: Kernel
    group: Matrix
    takes_blur: ClassVar[bool] = True

    def __post_init__(self) -> None:
        given = np.array(to_numpy(self.group))
        if given.ndim == 2 and given.dtype.kind in "iu" and given.size:
            if not np.all(np.sort(given, axis=1) == np.arange(given.shape[1])):
                raise ValueError(f"A permutation has each of the numbers 0 to {given.shape[1] - 1} once.")
        elif given.ndim == 3 and given.shape[1] == given.shape[2] and given.size and np.all(np.isfinite(given)):
            given = given.astype(np.float64)
        else:
            raise ValueError(
                f"A group is given as matrices (|G|, n, n), or permutations (|G|, n) of whole numbers, got shape "
                f"{given.shape} of {given.dtype}."
            )
        given.flags.writeable = False
        object.__setattr__(self, "group", given)
        self._check_definite()
        self._check_group()
        self._check_invariant()

    def __repr__(self) -> str:
        return f"Symmetrized({self.kernel!r}, {len(self.group)} elements)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Symmetrized):
            return NotImplemented
        return self.kernel == other.kernel and np.array_equal(self.group, other.group)

    def __hash__(self) -> int:
        return hash((self.kernel, self.group.shape, self.group.tobytes()))

    def pushes(self) -> Iterator[tuple[float, Push | None, Push | None]]:
        for g in self.group:
            yield 1 / len(self.group), None, partial(_moved, g)

    def along(self, place: str, tangent: Kernel) -> Kernel:
        found = object.__new__(Symmetrized)  # a tangent is as symmetric as the kernel, and need not be checked
        object.__setattr__(found, "kernel", tangent)
        object.__setattr__(found, "group", self.group)
        return found

    def _check_group(self) -> None:
        """Refuse a set that is no group: the product of two elements has to be an element."""
        elements = self.group if self.group.ndim == 2 else self.group.reshape(len(self.group), -1)
        if self.group.ndim == 2:
            known = {g.tobytes() for g in np.ascontiguousarray(elements)}
            closed = all(g[h].tobytes() in known for g in self.group for h in self.group)
            if len(known) != len(elements):
                raise ValueError(f"{len(elements) - len(known)} elements of the group are given twice.")
        else:
            products = np.einsum("aij,bjk->abik", self.group, self.group).reshape(-1, 1, elements.shape[1])
            away = np.abs(products - elements).max(axis=2).min(axis=1)
            closed = bool(np.all(away <= EXACT * np.abs(elements).max()))
        if not closed:
            raise ValueError(
                "These transformations are no group: the product of two of them is not among them. Add all products; "
                "rkhs.kernels._symmetrized.generated(..) does."
            )

    def _check_invariant(self) -> None:
        """Refuse a kernel that an element changes; it is looked at on a few points."""
        values = [value for value in self.kernel.parameters().values() if isinstance(value, (Tunable, str))]
        if values:
            return  # not known yet
        X = np.random.default_rng(0).standard_normal((4, self.group.shape[1]))
        expected = self.kernel(X)
        for k, g in enumerate(self.group):
            moved = _moved(g, Atoms.values(X))[0].points
            if not np.allclose(self.kernel(moved), expected, rtol=EXACT, atol=EXACT * np.abs(expected).max()):
                raise ValueError(
                    f"Element {k} of the group changes {self.kernel!r}: k(g x, g y) is not k(x, y), which symmetrizing "
                    "on one side needs. Use one scale for features that are exchanged."
                )


def _moved(g: Matrix, atoms: Atoms) -> tuple[Atoms, ...]:
    """Return the atoms at g x with directions g u."""
    if g.ndim == 2:
        return (atoms.pushed(g),)
    if atoms.blur is not None:
        return (atoms.pushed(np.eye(len(g))[g]),)
    if len(g) != atoms.dimension:
        raise ValueError(f"The group moves {len(g)} features, and the points have {atoms.dimension}.")
    index = g.tolist()
    return (Atoms(atoms.points[:, index], atoms.directions[..., index]),)


def generated(generators: Any) -> Matrix:
    """Return all products of some permutations (m, n): the group that they generate.

    Examples
    --------
    >>> len(generated([[1, 2, 0, 3, 4], [0, 1, 2, 4, 3]]))  # turning three, exchanging two
    6
    """
    given = [tuple(map(int, g)) for g in np.atleast_2d(np.asarray(generators))]
    found = {tuple(range(len(given[0])))}
    new = set(found)
    while new:
        new = {tuple(g[i] for i in h) for h in new for g in given} - found
        found |= new
    return np.array(sorted(found))
