"""Law: every inner product of representers is its definition, to rounding.

Every kernel x every pair of families of order 0, 1, 2 in R^1, R^2 and R^5, against derivatives taken in
30-digit arithmetic (`oracle`, stored by `make_oracle`): to 1e-12 in float64 and 1e-4 in float32, relative

- to the largest entry of the block of the two families, and
- entry by entry to sqrt(<L, L> <M, M>), the bound of Cauchy and Schwarz, where the kernel is definite.

One of the points on either side is the same, so limits at coincident points are among the entries.
"""

import re
from itertools import product

import numpy as np
import pytest
import torch
from mpmath import mp

import oracle
import rkhs
from make_oracle import cases, entry, near_kernels, stored, table
from registry import DIMENSIONS, FAMILIES, KERNELS, bounded, combination, jet, near_points, points

TOLERANCE = {"float64": 1e-12, "float32": 1e-4}
# The kinds of atoms: order 0, 1, 2, directions that points share and that they do not, and a matrix.
KINDS = ("Evaluation", "Gradient", "DirectionalDerivative, several", "Hessian", "Laplacian")


class Reference:
    """The exact Gram matrix of families at the points and at the same points in reverse."""

    def __init__(self, name, d, families):
        U = table(f"{name} in R^{d}")
        t = len(points(d))
        rows = [combination(FAMILIES[f].define(t, d), t, d)[:, : len(U)] for f in families]
        ends = np.cumsum([len(r) for r in rows])
        self.blocks = {f: slice(end - len(r), end) for f, r, end in zip(families, rows, ends, strict=True)}
        L = np.concatenate(rows)
        place = {atom: j for j, atom in enumerate(jet(t, d))}
        M = L[:, [place[t - 1 - i, axes] for i, axes in jet(t, d)[: len(U)]]]
        self.gram = L @ U @ M.T
        self.squares = np.outer(np.sum(L @ U * L, axis=1), np.sum(M @ U * M, axis=1))

    def check(self, found, tolerance, definite):
        error = np.abs(np.asarray(found) - self.gram)
        for f, rows in self.blocks.items():
            for g, columns in self.blocks.items():
                worst, largest = error[rows, columns].max(), np.abs(self.gram[rows, columns]).max()
                assert worst <= tolerance * largest, f"{f} x {g}: off by {worst:.1e}, largest entry {largest:.1e}"
        if definite:
            assert np.all(error <= tolerance * np.sqrt(self.squares))


def gram(kernel, X, families):
    """The Gram matrix of the families at the points X and at the same points in reverse."""
    L, M = (rkhs.stack([FAMILIES[f].make(Z) for f in families]) for Z in (X, X[list(range(len(X)))[::-1]]))
    return rkhs.gram(kernel, L, M).dense()


def _pairs():
    """Families are taken apart in the same way in every space: all pairs in R^2; in R^1 and R^5 all kinds, below.

    Automatic differentiation takes 10 ms for every two parts of families: all of them once, and not in the quick run;
    nor are the nine blocks of fields in space.
    """
    slow = ("Autodiff", "DivergenceFree, space")
    for name, d in product(KERNELS, DIMENSIONS):
        if name != "Autodiff" or d == 2:
            yield pytest.param(name, d, marks=pytest.mark.slow if d != 2 or name in slow else ())


@pytest.mark.parametrize(("name", "d"), list(_pairs()))
def test_every_pair_of_families(name, d):
    kernel = KERNELS[name].make(d)
    families = bounded(kernel, d)
    found = gram(kernel, points(d), families)
    Reference(name, d, families).check(found, TOLERANCE["float64"], definite=kernel.order == 0)


def _kinds():
    """Arrays of NumPy in double are those of the test above, where that has them; tensors, or single, are in R^2.

    The formula of each entry is one for all libraries and precisions, and its dimensions are those of double.
    """
    for name, d, dtype, library in product(KERNELS, DIMENSIONS, TOLERANCE, ("numpy", "torch")):
        kind = name.split()[0].strip(",")
        seen = (dtype, library) == ("float64", "numpy") and (name, d) in PAIRS
        alike = (dtype, library) == ("float32", "torch") or ((dtype, library) != ("float64", "numpy") and d != 2)
        yield pytest.param(kind, name, d, dtype, library, marks=pytest.mark.slow if seen or alike else ())


PAIRS = {tuple(one.values) for one in _pairs() if not one.marks}


@pytest.mark.every("kind")  # of kernels, whose names begin with the same word
@pytest.mark.parametrize(("kind", "name", "d", "dtype", "library"), list(_kinds()))
def test_every_kind_in_every_library_and_precision(kind, name, d, dtype, library):
    kernel = KERNELS[name].make(d)
    families = [f for f in bounded(kernel, d) if f in KINDS]
    X = points(d).astype(dtype)
    found = gram(kernel, X if library == "numpy" else torch.tensor(X), families)
    assert str(found.dtype).endswith(dtype)
    Reference(name, d, families).check(found, TOLERANCE[dtype], definite=kernel.order == 0)


@pytest.mark.parametrize(("dtype", "offset"), [("float64", 1e6), ("float32", 1e3)])
@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("name", [name for name, case in KERNELS.items() if case.stationary])
def test_far_from_the_origin(name, d, dtype, offset):
    """Shifts by these offsets are exact, and do not change a function of x - y."""
    kernel = KERNELS[name].make(d)
    families = [f for f in bounded(kernel, d) if f in KINDS]
    X = (points(d) + offset).astype(dtype)
    assert np.array_equal(X - offset, points(d))
    Reference(name, d, families).check(gram(kernel, X, families), TOLERANCE[dtype], definite=kernel.order == 0)


@pytest.mark.parametrize(("dtype", "offset"), [("float64", 1e6), ("float32", 1e3)])
@pytest.mark.parametrize("name", [name for name, case in KERNELS.items() if case.stationary])
def test_among_points_that_are_far_away(name, dtype, offset):
    """The same points twice, an offset apart: each half is as accurate as it is alone."""
    kernel, X = KERNELS[name].make(2), points(2)
    families = [f for f in bounded(kernel, 2) if f in KINDS]
    reference = Reference(name, 2, families)
    both = [np.concatenate([Z, Z + offset]).astype(dtype) for Z in (X, X[::-1])]
    L, M = (rkhs.stack([FAMILIES[f].make(Z) for f in families]) for Z in both)
    first = np.concatenate(
        [2 * block.start + np.arange(block.stop - block.start) for block in reference.blocks.values()]
    )
    G = rkhs.gram(kernel, L, M)
    for found in (G.dense(), G @ np.eye(M.size, dtype=dtype)):
        reference.check(found[np.ix_(first, first)], TOLERANCE[dtype], definite=kernel.order == 0)


@pytest.mark.parametrize("name", near_kernels())
def test_near_points(name):
    """Points 1e-5, 1e-3 and 1 apart: the derivatives at each two of them to 1e-12 of the largest of their order."""
    kernel, X = KERNELS[name].make(2), near_points()
    U = table(f"{name}, near")
    rows = {}
    for row, (i, axes) in enumerate(jet(len(X), 2)[: len(U)]):
        rows.setdefault((i, len(axes)), []).append(row)
    partial = {0: rkhs.Evaluation, 1: rkhs.Gradient, 2: lambda Z: rkhs.Derivative(Z, axes=[[0, 0], [0, 1], [1, 1]])}
    for i, m in rows:
        for j, n in rows:
            exact = U[np.ix_(rows[i, m], rows[j, n])]
            G = rkhs.gram(kernel, partial[m](X), partial[n](X))
            place = slice(i * (m + 1), (i + 1) * (m + 1)), slice(j * (n + 1), (j + 1) * (n + 1))
            for found in (G.dense(), G @ np.eye(G.shape[1])):
                error = np.abs(found[place] - exact).max()
                assert error <= 1e-12 * np.abs(exact).max() + 1e-30, f"orders {m}, {n} at points {i}, {j}"


def clusters(d, far):
    """Points 1e-9, 1e-4 and about 1 apart in three places as far from the origin as it says."""
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(3, d))
    centers *= far / np.linalg.norm(centers, axis=1)[:, None]
    away = [h * rng.normal(size=(3, d)) / d**0.5 for h in (0.0, 1e-9, 1e-4, 0.7)]
    return np.concatenate([centers + a for a in away])


@pytest.mark.parametrize("far", [1.0, 12.0, 40.0, 1e3])
@pytest.mark.parametrize("d", [2, 5])
@pytest.mark.parametrize("name", [name for name in KERNELS if KERNELS[name].make(2).order == 0 and name != "Autodiff"])
def test_errors_are_within_the_bound_of_certificates(name, d, far):
    """An iterate with one coefficient has the values of a column of G, whose errors it bounds (issue: weights of 1e9).

    Values at near points change by 100 units of rounding if |x|^2 / scale^2 is 100 and q is a difference of squares.
    """
    kernel, define, X = KERNELS[name].make(d), KERNELS[name].define(d), clusters(d, far)
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.zeros(len(X)))
    system = rkhs.Problem(kernel, [term]).system
    with mp.workdps(30):
        exact = [[float(define(oracle.exact(x), oracle.exact(y))) for y in X] for x in X]
    for a, column in zip(np.eye(len(X)), np.array(exact).T, strict=True):
        point = system.geometry.point(system, rkhs.extend.Iterate(a[:, None], np.zeros((0, 1))))
        for found in (point.u, system.exact.dense() @ a[:, None]):
            assert np.all(np.abs(found[:, 0] - column) <= point.error[:, 0])


@pytest.mark.parametrize("order", [4, 5, 10])
def test_derivatives_of_high_order(order):
    """Derivatives of order m on both sides of exp(-d^2 / 2) are (-1)^m He_2m(d) exp(-d^2 / 2)."""
    x = np.array([[0.0], [0.5], [3.0]])
    d, hermite = x - x.T, np.eye(2 * order + 1)[-1]
    exact = (-1) ** order * np.polynomial.hermite_e.hermeval(d, hermite) * np.exp(-(d**2) / 2)
    found = rkhs.gram(rkhs.Gaussian(), rkhs.Derivative(x, axes=[0] * order)).dense()
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-13 * exact.max())
    plane = np.hstack([x, x])
    mixed = rkhs.gram(rkhs.Gaussian(), rkhs.Derivative(plane, axes=[0, 1] * order)).dense() if order < 10 else exact**2
    np.testing.assert_allclose(mixed, exact**2, rtol=0, atol=1e-13 * mixed.max())


def test_too_many_directions_are_refused():
    X = np.zeros((1, 7))
    with pytest.raises(ValueError, match="at most 4,096 are supported: take derivatives of lower orders"):
        rkhs.gram(rkhs.Gaussian(), rkhs.Derivative(X, axes=list(range(7)))).dense()


@pytest.mark.every("name")
@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("name", KERNELS)
def test_unbounded_families_are_refused(name, d):
    kernel, X = KERNELS[name].make(d), points(d)
    value, fine = rkhs.Evaluation(X), bounded(kernel, d)
    for f, case in FAMILIES.items():
        L = case.make(X)
        if f in fine:
            rkhs.gram(kernel, L)
            continue
        for pair in ((L,), (L, value), (value, L)):
            with pytest.raises(
                rkhs.exceptions.NotBoundedError, match=re.escape(f"{L!r} takes derivatives of order {L.order}")
            ):
                rkhs.gram(kernel, *pair)


# The oracle itself.


def test_the_stored_values_are_those_of_this_registry():
    assert list(stored()) == list(cases())


@pytest.mark.parametrize("key", cases())
def test_the_stored_values_by_sample(key):
    name, X = cases()[key]
    U = table(key)
    i, j = np.random.default_rng(len(key)).integers(len(U), size=2)
    assert abs(entry(name, X, i, j) - U[i, j]) <= 1e-30 + 1e-16 * abs(U[i, j])


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5, 3.5])
def test_the_closed_form_of_matern_by_bessel_functions(nu):
    x, y = oracle.exact([0.3, -1.0]), oracle.exact([1.1, 0.2])
    with mp.workdps(30):
        difference = oracle.matern(nu, 1.3)(x, y) - oracle.matern_by_bessel(nu, 1.3)(x, y)
    assert abs(difference) < mp.mpf(10) ** -29


def test_derivatives_of_a_known_function():
    """exp(<x, y>) is multiplied by <u, y> for each direction on x; here by (1 + 2 * 5)(3 - 5)^2 with y = (3, 5)."""
    k = lambda x, y: mp.exp(x[0] * y[0] + x[1] * y[1])  # noqa: E731
    found = oracle.inner(k, [(1.0, [0.0, 0.0], [[1.0, -1.0], [1.0, -1.0]])], [(2.0, [3.0, 5.0], [])])
    assert abs(found - 8) < mp.mpf(10) ** -28


@pytest.mark.parametrize("alpha", [0.3, 10.0, 1e4, 1e7])
def test_rational_quadratic_kernels_of_any_exponent(alpha):
    """(1 + x)^-alpha by log(1 + x) is wrong by alpha times the rounding of 1 + x: 1e-9 for alpha = 1e7."""
    r = np.linspace(0, 3, 50)
    with mp.workdps(30):
        wanted = [float((1 + mp.mpf(x) ** 2 / (2 * mp.mpf(alpha))) ** -mp.mpf(alpha)) for x in r]
    np.testing.assert_allclose(rkhs.kernels.RationalQuadratic(alpha, 1.0)([[0.0]], r[:, None])[0], wanted, rtol=5e-15)
