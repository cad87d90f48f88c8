"""The laws of families of functionals, checked on functions of the space of a Gaussian and on polynomials."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import prod
from typing import Any

import numpy as np
import scipy.sparse
from array_api_compat import is_torch_array

from rkhs import Function
from rkhs._backend.arrays import Array, like, namespace, to_numpy
from rkhs._calculus.atoms import Atoms
from rkhs._calculus.function_spaces import Polynomials, multi_indices
from rkhs._gram import gram
from rkhs.functionals import Evaluation, Functional, Gradient, stack
from rkhs.functionals._base import Combination, Part
from rkhs.kernels import Gaussian
from rkhs.testing._laws import HAS_TORCH, demand, demand_equal, largest, rounding

# What a functional is on ordinary functions, which take points (t, n) to values (t,).
Reference = Callable[[Callable[[Array], Array]], Array]


def check_functional(functional: Functional, reference: Reference | None = None) -> None:
    """Check that a family obeys the laws of functionals; an AssertionError names the first that is broken.

    L(f) has the shape of L; L(a f + b g) = a L(f) + b L(g); (a L + b M)(f) = a L(f) + b M(f), and so for W @ L,
    `stack` and `take`; L(f) = <z_L, f>; derivatives of polynomials are their difference quotients; the Gram
    matrix is symmetric and positive semi-definite; and all ways to compute it agree: product, dense,
    diagonal and blocks, NumPy and PyTorch.

    Parameters
    ----------
    functional : Functional
    reference : what L is meant to be, as code: it takes a function f of points, (t, n) -> (t,), to L(f).
        Difference quotients will do, for the f are polynomials of degree two.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> from rkhs.testing import check_functional
    >>> X = np.random.default_rng(0).standard_normal((5, 2))
    >>> check_functional(rkhs.Hessian(X))
    >>> check_functional(rkhs.Difference(X, 2 * X), reference=lambda f: f(X) - f(2 * X))
    >>> check_functional(rkhs.Difference(X, 2 * X), reference=lambda f: 3 * f(X))
    Traceback (most recent call last):
    ...
    AssertionError: Difference(5 points in R^2) breaks the law L(f) = reference(f), for a polynomial f: \
measured 3, allowed 2.64e-08.
    """
    sample = Sample(functional)
    for law in LAWS:
        law(sample)
    if reference is not None:
        _means(sample, reference)


@dataclass(frozen=True)
class Sample:
    """A family L, and what it is checked on; lengths are in units of the spread of its points."""

    L: Functional

    @cached_property
    def points(self) -> Array:
        return np.concatenate([to_numpy(part.atoms.points) for part in self.L.parts]).astype(np.float64)

    @cached_property
    def origin(self) -> Array:
        """The middle of the points."""
        return self.points.mean(axis=0) if len(self.points) else np.zeros(self.L.dimension)

    @cached_property
    def spread(self) -> float:
        """Their root mean square distance from it, 1 if they are all the same."""
        spread = float(np.sqrt(np.sum((self.points - self.origin) ** 2) / max(1, len(self.points))))
        return spread if spread > rounding(self.points) else 1.0

    @cached_property
    def kernel(self) -> Gaussian:
        return Gaussian(scale=self.spread)

    def seen(self, atoms: Atoms) -> Atoms:
        """The atoms seen from the origin, in units of the spread."""
        return atoms.shifted(like(self.origin, atoms.points)).pushed(np.full(atoms.dimension, 1 / self.spread))

    def draw(self, *shape: int) -> Array:
        """Normal numbers, always the same, in the namespace of the family."""
        return like(np.random.default_rng(shape).standard_normal(shape), self.L.prototype)

    @cached_property
    def others(self) -> Functional:
        """Values and gradients somewhere near the points of L."""
        Z = like(self.origin, self.L.prototype) + self.spread * self.draw(4, self.L.dimension)
        return stack([Evaluation(Z), Gradient(Z)])

    def function(self, which: int) -> Function:
        return Function(self.kernel, self.others, self.draw(which, self.others.size)[-1])

    @cached_property
    def scale(self) -> float:
        """The size of the terms that add up to L(f) = sum_j <z_L, z_j> c_j."""
        table = to_numpy(gram(self.kernel, self.L, self.others).dense())
        return largest(abs(table) @ abs(to_numpy(self.function(1).coefficients)))


def _shape(sample: Sample) -> None:
    """The parts of L write to each of its rows, and L(f) has its shape; flat, it is in C order."""
    L = sample.L
    demand(L, f"size = the product of the shape {L.shape} (difference)", abs(L.size - prod(L.shape)), 0.0)
    written = np.zeros(L.size, dtype=bool)
    for part in L.parts:
        if part.start < 0 or part.rows.stop > written.size:
            rows = f"{part.rows.start} to {part.rows.stop - 1}"
            raise AssertionError(f"{L!r} has shape {L.shape}, but a part of it writes to the rows {rows}.")
        written[part.rows] = True
    missing = float(np.sum(~written))
    demand(L, f"each functional of shape {L.shape} has a part (number of those without)", missing, 0.0)
    f = sample.function(1)
    expected = gram(sample.kernel, L, sample.others) @ f.coefficients
    demand_equal(L, "L(f) has the shape of L, in C order", L(f), to_numpy(expected).reshape(L.shape))


def _linear(sample: Sample) -> None:
    """L(a f + b g) = a L(f) + b L(g)."""
    L, f, g = sample.L, sample.function(1), sample.function(2)
    demand_equal(L, "L(2 f - 3 g) = 2 L(f) - 3 L(g)", L(2 * f - 3 * g), 2 * L(f) - 3 * L(g), 5 * sample.scale)


def _algebra(sample: Sample) -> None:
    """(a L + b M)(f) = a L(f) + b M(f),  (W @ L)(f) = W L(f), and `stack` and `take` are as on arrays."""
    L, f, rows = sample.L, sample.function(1), np.arange(sample.L.size)[::-2]
    flat = to_numpy(L(f)).ravel()
    M = L.take(np.roll(np.arange(L.size), 1))  # the same functionals in another order
    rolled = np.roll(flat, 1)
    W = to_numpy(sample.draw(3, L.size))
    laws: list[tuple[str, Functional, Array]] = [
        ("(2 L - M / 2)(f) = 2 L(f) - M(f) / 2", 2 * L.take(slice(None)) - M / 2, 2 * flat - rolled / 2),
        ("(-L + 3 L)(f) = 2 L(f)", -L + 3 * L, 2 * to_numpy(L(f))),
        ("(W @ L)(f) = W L(f)", W @ L, W @ flat),
        ("(W @ L)(f) = W L(f), sparse", scipy.sparse.csr_array(W) @ L, W @ flat),
        ("(W @ (L + M))(f) = W (L(f) + M(f))", W @ (L.take(slice(None)) + M), W @ (flat + rolled)),
        ("stack([L, M])(f) = (L(f), M(f))", stack([L, M]), np.concatenate([flat, rolled])),
        ("L.take(rows)(f) = L(f)[rows]", L.take(rows), flat[rows]),
    ]
    gain = max(5.0, 2 * float(np.max(np.sum(abs(W), axis=1))))
    for law, family, expected in laws:
        demand_equal(L, law, family(f), expected, gain * sample.scale)


def _reproducing(sample: Sample) -> None:
    """<sum_i c_i z_i, f> = sum_i c_i L_i(f)."""
    L, f, c = sample.L, sample.function(1), sample.draw(sample.L.size)
    values = to_numpy(c) * to_numpy(L(f)).ravel()
    found = like(Function(sample.kernel, L, c).inner(f), L.prototype)
    scale = float(np.sum(abs(to_numpy(c)))) * sample.scale
    demand_equal(L, "<sum c_i z_i, f> = sum c_i L_i(f)", found, np.sum(values), scale)


def _polynomials(sample: Sample) -> None:
    """L(p) is what difference quotients give, which are exact for polynomials p of degree up to four."""
    space = Polynomials(degree=min(4, sample.L.order + 1))

    def quotients(atoms: Atoms) -> Array:
        """Derivatives by central differences with steps 1 and 1/2, and Richardson's extrapolation."""
        if atoms.order == 0:
            return space.on(atoms)
        lower, u = atoms.restricted(range(atoms.order - 1)), atoms.u(atoms.order - 1)[:, 0]
        wide = (quotients(lower.shifted(-u)) - quotients(lower.shifted(u))) / 2
        narrow = quotients(lower.shifted(-u / 2)) - quotients(lower.shifted(u / 2))
        return (4 * narrow - wide) / 3

    def one_by_one(atoms: Atoms) -> Atoms:
        """The same atoms, one at each point."""
        return atoms.take(np.arange(atoms.size))

    exact = sample.L.assemble(lambda atoms: space.on(sample.seen(atoms)))
    found = np.zeros(exact.shape, dtype=to_numpy(exact).dtype)
    for part in sample.L.parts:
        found[part.rows] += to_numpy(part.forward(quotients(one_by_one(sample.seen(part.atoms)))))
    scale = sum(_gain(part) * _reach(sample.seen(part.atoms)) ** space.degree for part in sample.L.parts)
    demand_equal(sample.L, "L(p) = its difference quotients, for a polynomial p", exact, found, scale)


def _gain(part: Part) -> float:
    """How much larger the values of the part can be than those of its atoms."""
    return largest(abs(part.as_matrix()).sum(axis=1))


def _reach(atoms: Atoms) -> float:
    """How far from the origin the atoms and their difference quotients look at a function."""
    deviation = 0.0 if atoms.blur is None else largest(atoms.blur) ** 0.5
    return 1 + largest(atoms.points) + largest(atoms.directions) * atoms.order + deviation


def _gram(sample: Sample) -> None:
    """G = G', c'Gc >= 0, and G v, the diagonal and blocks of G are those of the dense matrix."""
    L, M, kernel = sample.L, sample.others, sample.kernel
    pairs: tuple[tuple[str, Functional, Functional | None], ...] = (
        ("<L, L>", L, None),
        ("<L, M>", L, M),
        ("<M, L>", M, L),
        ("<L, values>", L, Evaluation(sample.draw(L.size, L.dimension))),  # as many, one at each point
    )
    for name, one, other in pairs:
        G = gram(kernel, one, other)
        dense = to_numpy(G.dense())
        size = largest(dense)
        v = sample.draw(G.shape[1], 2)
        scale = largest(abs(dense) @ abs(to_numpy(v)))
        demand_equal(L, f"G v = dense v, for G = {name}", G @ v, dense @ to_numpy(v), scale)
        demand_equal(L, f"the diagonal of G = {name} is that of dense", G.diagonal(), np.diag(dense), size)
        rows, columns = np.arange(G.shape[0])[::2], slice(G.shape[1] // 2, None)
        demand_equal(L, f"blocks of G = {name} are those of dense", G.block(rows, columns), dense[rows, columns], size)
        demand_equal(L, f"G' = dense', for G = {name}", G.T.dense(), dense.T, size)
        if other is None:
            least = float(np.min(np.linalg.eigvalsh(dense), initial=0.0))
            demand(L, "c'Gc >= 0", -least, len(dense) * rounding(dense))


def _same_elsewhere(sample: Sample) -> None:
    """The numbers do not depend on the library: NumPy = PyTorch."""
    if not HAS_TORCH:
        return
    import torch

    def moved(array: Any) -> Any:
        if isinstance(array, np.ndarray):
            return torch.tensor(array)
        return to_numpy(array) if is_torch_array(array) else array

    parts = []
    for part in sample.L.parts:
        atoms = replace(part.atoms, points=moved(part.atoms.points), directions=moved(part.atoms.directions))
        parts.append(replace(part, atoms=atoms, matrix=moved(part.matrix)))
    L = Combination(sample.L.shape, tuple(parts), repr(sample.L))
    expected = gram(sample.kernel, sample.L).dense()
    demand_equal(sample.L, "PyTorch = NumPy", gram(sample.kernel, L).dense(), expected)


def _means(sample: Sample, reference: Reference) -> None:
    """L(f) = reference(f) for all monomials f of degree up to two."""
    xp, origin = namespace(sample.L.prototype), like(sample.origin, sample.L.prototype)
    values = to_numpy(sample.L.assemble(lambda atoms: Polynomials(degree=2).on(sample.seen(atoms))))

    def monomial(powers: Array, points: Array) -> Array:
        return xp.prod(((points - origin) / sample.spread) ** powers, axis=-1)

    for column, powers in enumerate(multi_indices(2, range(sample.L.dimension), sample.L.dimension)):
        found = values[:, column].reshape(sample.L.shape)
        expected = to_numpy(reference(partial(monomial, like(powers, origin))))
        if found.shape != expected.shape:
            raise AssertionError(f"{sample.L!r} has shape {found.shape}, but its reference {expected.shape}.")
        allowed = np.finfo(values.dtype).eps ** 0.5 * largest(values)  # half the digits: of a difference quotient
        demand(sample.L, "L(f) = reference(f), for a polynomial f", largest(found - expected), float(allowed))


LAWS = (_shape, _linear, _algebra, _reproducing, _polynomials, _gram, _same_elsewhere)
