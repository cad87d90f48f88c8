"""Sums of representers that are evaluated at a few points at a time, such as the energy along a trajectory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rkhs._core.backend.arrays import Array, namespace, zeros
from rkhs._core.backend.memory import budget_bytes
from rkhs._core.backend.precision import products_in
from rkhs._core.calculus.atoms import Atoms
from rkhs._core.gram.blocks import GramBlock, pushed
from rkhs._core.gram.jets import ORDER, JetPoints, JetProduct, by_points
from rkhs.functionals._base import Functional, Part
from rkhs.kernels._algebra import Push, PushedKernel
from rkhs.kernels._base import Kernel


@dataclass(frozen=True, eq=False)
class _Summand:
    weight: float
    kernel: Kernel
    on_left: tuple[Push, ...]
    rights: tuple[Part, ...]  # one value and one derivative at each point
    coefficients: Array


@dataclass(frozen=True, eq=False)
class Expansion:
    """A sum of representers, of functionals of order at most one, whose coefficients were brought to jets once.

    Each point y_j has the coefficient of k(y_j, .) and one direction, the sum of all derivatives there.  So a value
    takes as long as that of a function of as many points, without the pushing forward of all functionals.
    ``Expansion.of(kernel, functionals, coefficients)`` makes it, and calling it with functionals returns their values.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> slopes, c = rkhs.Gradient(np.zeros((1, 2))), np.array([[1.0], [2.0]])
    >>> fast = rkhs.extend.Expansion.of(rkhs.Gaussian(), slopes, c)
    >>> point = rkhs.Evaluation([[0.5, 0.0]])
    >>> bool(np.isclose(fast(point)[0], point(rkhs.results.Function(rkhs.Gaussian(), slopes, c[:, 0]))[0]))
    True
    """

    summands: tuple[_Summand, ...]

    @classmethod
    def of(cls, kernel: Kernel, M: Functional, coefficients: Array) -> Expansion | None:
        """Return the expansion for coefficients (M.size, 1); None if the kernel has another form."""
        summands = []
        for weight, inner, on_left, rights in _pushed_right(kernel, M.parts):
            form = inner.form(rights[0].atoms.dimension)
            if form is None or any(part.atoms.order > ORDER or part.atoms.blur is not None for part in rights):
                return None
            xp, plain = namespace(coefficients), products_in(None)
            points, values, directions = [], [], []
            for group in by_points(rights):
                at = group[0].atoms.points
                jets = JetPoints(group, replace(form, linear=None), None, plain, plain).scatter(coefficients)
                points.append(at)
                values.append(zeros((int(at.shape[0]), 1), at) if jets.values is None else jets.values)
                directions.append(zeros(at.shape, at) if jets.gradients is None else jets.gradients[0])
            at, c = xp.concat(points), xp.concat(values)
            along = Part(Atoms(at, xp.concat(directions)[:, None, None, :]), start=int(at.shape[0]))
            coefficients_there = xp.concat([c, xp.ones_like(c)])
            summands.append(_Summand(weight, inner, on_left, (Part(Atoms.values(at)), along), coefficients_there))
        return cls(tuple(summands))

    def __call__(self, L: Functional) -> Array:
        """Return the values (L.size,) of functionals of order at most one."""
        out = zeros((L.size, 1), L.prototype)
        for one in self.summands:
            lefts = L.parts
            for push in one.on_left:
                lefts = pushed(lefts, push, False)
            block, form = (
                GramBlock(one.weight, one.kernel, lefts, one.rights),
                one.kernel.form(lefts[0].atoms.dimension),
            )
            assert form is not None
            JetProduct(form, block, budget_bytes(None, out), None).add_to(out, one.coefficients)
        return out[:, 0]


def _pushed_right(
    kernel: Kernel, rights: tuple[Part, ...]
) -> Iterator[tuple[float, Kernel, tuple[Push, ...], tuple[Part, ...]]]:
    """Yield the summands of a kernel with their weights, the maps on the left, and the parts on the right."""
    for weight, summand in kernel.summands():
        if not isinstance(summand, PushedKernel):
            yield weight, summand, (), rights
            continue
        for factor, on_left, on_right in summand.pushes():
            first = () if on_left is None else (on_left,)
            for inner, base, rest, parts in _pushed_right(summand.kernel, pushed(rights, on_right, summand.takes_blur)):
                yield weight * factor * inner, base, (*first, *rest), parts
