"""Kernels of functions that are invariant under a finite group, and groups of permutations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from rkhs._core.backend.arrays import Matrix, to_numpy, unique_rows
from rkhs._core.calculus.atoms import Atoms
from rkhs.kernels._algebra import Push, PushedKernel
from rkhs.kernels._base import Kernel, Tunable

RTOL = 1e-9  # relative tolerance of the checks of group closure and of the invariance of the kernel
MOST_ELEMENTS = 1000  # of generated groups: a Gram matrix takes as many times as long


@dataclass(frozen=True, eq=False)
class Symmetrized(PushedKernel):
    """The kernel of functions that are exactly invariant under a finite group.

        k(x, y) = mean over g of k_1(x, g y);  f(g x) = f(x) for every f of its space and every g of the group

    Since k_1(g x, g y) = k_1(x, y), averaging over one argument averages over both: the cost is that of |G| kernels,
    not of |G|^2.

    Parameters
    ----------
    kernel : Kernel
        A positive definite kernel k_1 with k_1(g x, g y) = k_1(x, y) for all g, such as `Gaussian` with one scale for
        features that are exchanged.
    group : array-like of shape (|G|, n, n) or (|G|, n)
        All elements of the group, including the identity: matrices, or permutations of the features as integers with
        g x = x[g].

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
                raise ValueError(f"A permutation must contain each of the numbers 0 to {given.shape[1] - 1} once.")
        elif given.ndim == 3 and given.shape[1] == given.shape[2] and given.size and np.all(np.isfinite(given)):
            given = given.astype(np.float64)
        else:
            raise ValueError(
                f"group must be matrices (|G|, n, n) or integer permutations (|G|, n), got shape {given.shape} of "
                f"{given.dtype}."
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
        # k(x, y) = mean over g of k_1(x, g y), since k_1(h x, g y) = k_1(x, h^-1 g y)
        yield 1 / len(self.group), None, self._orbit

    def _orbit(self, atoms: Atoms) -> tuple[Atoms, ...]:
        """Return the images of atoms under all elements of the group."""
        return tuple(image for g in self.group for image in _transform(g, atoms))

    def with_child_tangent(self, place: str, tangent: Kernel) -> Kernel:
        result = object.__new__(Symmetrized)  # skips the checks: the tangent is as symmetric as the kernel
        object.__setattr__(result, "kernel", tangent)
        object.__setattr__(result, "group", self.group)
        return result

    def _check_group(self) -> None:
        """Raise ValueError unless the product of any two elements is an element."""
        if self.group.ndim == 2:
            distinct = len(unique_rows(self.group)[0])
            if distinct < len(self.group):
                raise ValueError(f"{len(self.group) - distinct} elements of the group are duplicates; remove them.")
            closed = group_order(self.group) == distinct
        else:
            elements = self.group.reshape(len(self.group), -1)
            products = np.einsum("aij,bjk->abik", self.group, self.group).reshape(-1, 1, elements.shape[1])
            errors = np.abs(products - elements).max(axis=2).min(axis=1)
            closed = bool(np.all(errors <= RTOL * np.abs(elements).max()))
        if not closed:
            raise ValueError(
                "The transformations are not a group: the product of two of them is not among them. Add all products, "
                "for example with rkhs.kernels.generated_group(..) for permutations."
            )

    def _check_invariant(self) -> None:
        """Raise ValueError if a group element changes the kernel at a few random points."""
        if any(isinstance(value, (Tunable, str)) for value in self.kernel.parameters().values()):
            return  # the parameters are not known yet
        X = np.random.default_rng(0).standard_normal((4, self.group.shape[1]))
        expected = self.kernel(X)
        for k, g in enumerate(self.group):
            transformed = _transform(g, Atoms.values(X))[0].points
            if not np.allclose(self.kernel(transformed), expected, rtol=RTOL, atol=RTOL * np.abs(expected).max()):
                raise ValueError(
                    f"Element {k} of the group changes {self.kernel!r}: Symmetrized needs k(g x, g y) = k(x, y). Use "
                    "one scale for features that are exchanged."
                )


def _transform(g: Matrix, atoms: Atoms) -> tuple[Atoms, ...]:
    """Return the atoms at the points g x with directions g u."""
    if g.ndim == 2:
        return (atoms.pushed(g),)
    if atoms.blur is not None:
        return (atoms.pushed(np.eye(len(g))[g]),)
    if len(g) != atoms.dimension:
        raise ValueError(f"The group permutes {len(g)} features, but the points have {atoms.dimension}.")
    index = g.tolist()
    return (Atoms(atoms.points[:, index], atoms.directions[..., index]),)


def generated_group(generators: Any) -> Matrix:
    """Return the group that permutations generate: all their products, for `Symmetrized`.

    A group of more than 1000 elements raises ValueError with their number.

    Parameters
    ----------
    generators : array-like of int of shape (m, n)
        Permutations, each with the numbers 0 to n - 1 once.

    Returns
    -------
    ndarray of int of shape (elements, n)
        The group.

    Examples
    --------
    >>> import rkhs
    >>> len(rkhs.kernels.generated_group([[1, 2, 0, 3, 4], [0, 1, 2, 4, 3]]))  # rotations of three, exchanges of two
    6
    """
    permutations = [tuple(map(int, g)) for g in np.atleast_2d(np.asarray(generators))]
    order = group_order(permutations)
    if order > MOST_ELEMENTS:
        raise ValueError(
            f"The {len(permutations)} permutations generate a group of {order:,} elements, and a kernel that is "
            f"averaged over it takes {order:,} times as long; at most {MOST_ELEMENTS:,} are supported. Leave out "
            "symmetries, for example exchanges of atoms that do not change places in the data."
        )
    group = {tuple(range(len(permutations[0])))}
    new = set(group)
    while new:
        new = {_product(g, h) for h in new for g in permutations} - group
        group |= new
    return np.array(sorted(group))


def group_order(generators: Any) -> int:
    """Return the number of elements of the group that permutations generate, without generating it.

    It is the product of the sizes of orbits: of the first point, of the second one under the permutations that fix the
    first one, and so on (Schreier and Sims).

    Parameters
    ----------
    generators : array-like of int of shape (m, n)
        Permutations, each with the numbers 0 to n - 1 once.

    Returns
    -------
    int
        The number.

    Examples
    --------
    >>> from rkhs.kernels import group_order
    >>> group_order([[1, 2, 3, 4, 5, 6, 7, 8, 0], [1, 0, 2, 3, 4, 5, 6, 7, 8]])  # all permutations of nine
    362880
    """
    fixing = [tuple(map(int, g)) for g in generators]  # generators of the subgroup that fixes all earlier points
    identity, order = tuple(range(len(fixing[0]))), 1
    for point in identity:
        orbit, moves = [point], {point: identity}  # an element of the subgroup that moves `point` to each of its orbit
        for x in orbit:
            for g in fixing:
                if g[x] not in moves:
                    moves[g[x]] = _product(g, moves[x])
                    orbit.append(g[x])
        # |G| = |orbit of p| |stabilizer of p|
        order *= len(orbit)
        # The products of Schreier's lemma generate the next subgroup.  Sims's filter keeps one for each first point
        # that is moved and its image, so that there are at most n^2 / 2 of them.
        back = {x: _inverse(move) for x, move in moves.items()}
        kept: dict[tuple[int, int], tuple[int, ...]] = {}
        for x in orbit:
            for g in fixing:
                # Schreier's generators of the stabilizer: m_(g x)^-1 g m_x, with m_x moving the point to x
                candidate = _product(back[g[x]], _product(g, moves[x]))
                while candidate != identity:
                    first = next(i for i in identity if candidate[i] != i)
                    other = kept.setdefault((first, candidate[first]), candidate)
                    if other is candidate:
                        break
                    candidate = _product(_inverse(other), candidate)
        fixing = list(kept.values())
    return order


def _product(g: tuple[int, ...], h: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([g[i] for i in h])


def _inverse(g: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(g)), key=g.__getitem__))
