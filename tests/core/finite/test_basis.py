"""Basis functions on functionals: from the middle of the points, zeros that are zeros, and f has the values Qd."""

import tracemalloc

import numpy as np
import pytest
import scipy
import torch

import rkhs
from rkhs._core.finite.basis import Basis, exact_rank, joined
from rkhs._core.finite.problem import is_unbounded_below
from rkhs._core.finite.representers import GramGeometry
from rkhs.extend import FiniteProblem, to_numpy
from rkhs.solvers._base import in_memory

RNG = np.random.default_rng(0)
X = RNG.standard_normal((30, 2))
SIDES = np.sign(X.sum(axis=1))
SECONDS = np.round(np.linspace(0, 100, 40) * 64) / 64  # which no shift below rounds
WAVE = np.sin(SECONDS / 10) + 0.05 * SECONDS
KERNELS = {  # in units of so many seconds, such that J does not change
    "thin plate": lambda unit: (unit**-5.0 * rkhs.kernels.ThinPlate(3), None),
    "polyharmonic": lambda unit: (unit**-5.0 * rkhs.kernels.Polyharmonic(5), None),
    "quadratic": lambda unit: (rkhs.Gaussian(10.0 * unit), rkhs.Polynomials(2)),
}
FLAT = {
    "deviation": rkhs.functionals.LocalDeviation(X, width=0.3),
    "Laplacian": rkhs.functionals.Laplacian(X),
    "nothing": rkhs.Difference(X, X),
    "symmetric": rkhs.Evaluation(X + 0.25) + rkhs.Evaluation(X - 0.25) - 2 * rkhs.Evaluation(X),
    "average": rkhs.functionals.Average(np.stack([X - 0.25, X, X + 0.25], axis=1)) - rkhs.Evaluation(X),
}


def fitted(name, shift=0.0, unit=1.0, weight=1.0, **options):
    kernel, basis = KERNELS[name](unit)
    points = (SECONDS + shift)[:, None] * unit
    term = rkhs.Term(rkhs.Evaluation(points), rkhs.Squared(), WAVE, weight)
    return rkhs.Problem(kernel, [term], basis, **options).solve(tol=1e-8 if weight == 1 else 1e-7), points


SHIFTED = [(1e3, 1.0), (1.7e9, 1.0), (0.0, 1e-6), (0.0, 1e6), (1.7e9, 2.0**-20)]
WEIGHTED = [(*where, {"weight": weight}, 1e-7) for where in SHIFTED for weight in (1.0, 1e4)]
IN_SPAN = (1.7e9, 1.0, {"approximation": rkhs.Landmarks(15, random_state=0)}, 1e-6)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("shift", "unit", "options", "rel"), [*WEIGHTED, IN_SPAN])
def test_neither_origin_nor_unit_matters(name, shift, unit, options, rel):
    (here, before), (there, after) = fitted(name, **options), fitted(name, shift, unit, **options)
    assert "approximation" in options or (there.status, there.basis_rank) == ("converged", (3, 3))
    assert there.primal == pytest.approx(here.primal, rel=rel)
    np.testing.assert_allclose(there.function(after), here.function(before), atol=rel / 10)


def test_thin_plates_far_away_in_many_dimensions():
    points = np.round(RNG.standard_normal((80, 5)) * 64) / 64
    found = [
        rkhs.Problem(
            rkhs.kernels.ThinPlate(4), [rkhs.Term(rkhs.Evaluation(points + shift), rkhs.Squared(), points[:, 0] ** 4)]
        ).solve()
        for shift in (0.0, 1e3, 1e9)
    ]
    for solution in found:
        assert solution.status == "converged"
        assert solution.primal == pytest.approx(found[0].primal, rel=1e-6)


@pytest.mark.parametrize("name", FLAT)
@pytest.mark.parametrize("shift", [0.0, 1e3])
def test_what_linear_functions_do_not_feel_is_zero(name, shift):
    moved = [rkhs.Evaluation(X + shift), FLAT[name]]
    if shift:
        points = X + shift
        flat = {
            "deviation": rkhs.functionals.LocalDeviation(points, width=0.3),
            "Laplacian": rkhs.functionals.Laplacian(points),
        }
        moved[1] = flat.get(name, rkhs.Difference(points, points))
    L = rkhs.stack(moved)
    basis = Basis.of(L, rkhs.Polynomials(1))
    assert basis.rank == 3
    np.testing.assert_array_equal(basis.Q[30:], 0.0)
    assert np.all(np.any(basis.Q[:30] != 0, axis=1))


@pytest.mark.parametrize("name", FLAT)
def test_nothing_runs_away_along_rounding(name):
    terms = [rkhs.Term(FLAT[name], rkhs.Squared(), 0.5), rkhs.Term(rkhs.Evaluation(X), rkhs.SquaredHinge(), SIDES)]
    solution = rkhs.Problem(rkhs.Gaussian(1.0), terms, rkhs.Polynomials(1)).solve()
    assert solution.status == "converged"
    assert np.max(np.abs(solution.function(X))) < 100


def circle():
    """Points on a circle, nearly: x^2 + y^2 is a constant but for 1e-9, and is kept."""
    angle = RNG.uniform(0, 2 * np.pi, 50)
    return (1 + 1e-9 * RNG.standard_normal((50, 1))) * np.stack([np.cos(angle), np.sin(angle)], axis=1)


SPACES = [rkhs.Constant(), rkhs.Polynomials(1), rkhs.Polynomials(2), rkhs.Polynomials(3)]
ON_POINTS = [(space, X + offset, 1e-13) for space in SPACES for offset in (0.0, 50.0, 1e3, 1e9)]
IN_KINDS = [
    (rkhs.Polynomials(2), kind((X + 50.0).astype(dtype)), 100 * np.finfo(dtype).eps)
    for kind in (np.asarray, torch.asarray)
    for dtype in (np.float32, np.float64)
]


@pytest.mark.parametrize(("space", "points", "atol"), [*ON_POINTS, (SPACES[2], circle(), 1e-5), *IN_KINDS])
def test_orthonormal_and_a_product(space, points, atol):
    """Also where the functions are all but dependent, with zeros where nothing is seen, in any kind of array."""
    seen = [rkhs.Evaluation(points), rkhs.Gradient(points), rkhs.functionals.LocalAverage(points, width=0.5)]
    L = rkhs.stack([*seen, rkhs.Difference(points, points)])
    basis = Basis.of(L, space)
    assert (type(basis.Q), basis.Q.dtype) == (type(points), points.dtype)
    assert basis.rank == basis.size == space.size(2)
    np.testing.assert_array_equal(to_numpy(basis.Q)[-len(points) :], 0.0)
    inside = in_memory(FiniteProblem(GramGeometry(None, rkhs.gram(rkhs.Gaussian(1.0), L), basis.Q), ()))
    assert inside.Q.dtype == np.float64
    np.testing.assert_allclose(inside.Q.T @ inside.Q, np.eye(basis.rank), atol=1e-12 if atol == 1e-5 else 1e-14)
    np.testing.assert_allclose(to_numpy(L(basis.space)) @ basis.back, inside.Q, atol=atol)


def test_the_function_has_the_values_of_its_certificate():
    solution, points = fitted("quadratic", 1e3)
    f = solution.function
    energy = f.norm() ** 2 / 2 + np.sum((f(points) - WAVE) ** 2)
    assert energy == pytest.approx(solution.primal, rel=1e-12)


@pytest.mark.parametrize("name", FLAT)
def test_what_no_term_determines_is_not_missed_by_what_does_not_feel_it(name):
    """Constants and slopes are undetermined, so values have infinite variance; what sees neither has not."""
    known = rkhs.Term(rkhs.Difference(X[:9], X[:9] + 0.25), rkhs.Squared())
    conditioned = rkhs.solvers._conditioned.ConditionedGram.of(
        rkhs.Problem(rkhs.Gaussian(1.0), [known], rkhs.Polynomials(1)).represented
    )
    assert np.all(np.isinf(conditioned.variance(rkhs.Evaluation(X))))
    assert np.all(np.isfinite(conditioned.variance(FLAT[name])))


@pytest.mark.every
@pytest.mark.parametrize(
    ("points", "basis", "rank"),
    [
        (np.outer(X[:, 0], [1.0, 2.0]), rkhs.Polynomials(1), (2, 3)),
        (np.eye(3)[np.arange(30) % 3], rkhs.Polynomials(1), (3, 4)),
        (X, rkhs.Constant(), (1, 1)),
        (X, None, None),
    ],
    ids=["a line", "one-hot", "constant", "none"],
)
def test_a_lost_rank_is_told(points, basis, rank):
    term = rkhs.Term(rkhs.Evaluation(points), rkhs.Squared(), X[:, 0])
    found = rkhs.Problem(rkhs.Gaussian(1.0), [term], basis).solve()
    assert (found.status, found.basis_rank) == ("converged", rank)
    told = "" if rank is None else f"{rank[0]} of {rank[1]} basis functions independent"
    assert (told in repr(found)) == (rank is None or rank[0] < rank[1])


def test_nothing_is_seen():
    """Of constants by gradients, and by no functionals at all."""
    none = Basis.of(rkhs.Gradient(X), rkhs.Constant())
    assert (none.rank, none.size, none.Q.shape) == (0, 1, (60, 0))
    empty = Basis.of(rkhs.Evaluation(X[:0]), rkhs.Polynomials(1))
    assert (empty.rank, empty.size, empty.Q.shape) == (0, 3, (0, 0))
    assert Basis.of(rkhs.Evaluation(X), None).size == 0


def test_joined():
    assert joined(None, rkhs.Polynomials(-1)) is None
    assert joined(rkhs.Constant(), rkhs.Polynomials(2)).degree == 2
    waves = rkhs.Functions(np.sin)
    assert joined(waves, rkhs.Polynomials(-1)) is waves
    assert joined(waves, rkhs.Polynomials(1)).size(2) == 5


def nearly_one_point(distance):
    """Three points at a distance of each other, two by two, and two others."""
    corner = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    return np.concatenate([distance * corner, [[1.0, 0.3], [-0.4, 1.0]]])


@pytest.mark.parametrize(
    "family",
    [rkhs.Evaluation, rkhs.Gradient, rkhs.functionals.Laplacian, lambda X: rkhs.functionals.LocalAverage(X, 0.5)],
)
def test_the_rank_without_rounding(family):
    L = family(X)
    for degree in (0, 1, 3):
        P = L.assemble(rkhs.Polynomials(degree).on)
        assert exact_rank(L, rkhs.Polynomials(degree)) == np.linalg.matrix_rank(P)
    difference = rkhs.Difference(X, X + 1e-30)
    assert exact_rank(difference, rkhs.Polynomials(1)) == 0
    assert exact_rank(rkhs.Evaluation(nearly_one_point(1e-200)), rkhs.Polynomials(4)) == 5
    assert exact_rank(rkhs.Evaluation(np.outer(X[:, 0], [1.0, 2.0])), rkhs.Polynomials(1)) == 2
    assert exact_rank(L, rkhs.Functions(np.sin)) is None


@pytest.mark.parametrize("distance", [1e-4, 1e-12, 1e-16, 1e-18, 0.0])
def test_basis_functions_that_rounding_hides(distance):
    """Polynomials go through all points; J was said to be at its minimum where some of these cannot be told apart."""
    points = nearly_one_point(distance)
    term = rkhs.Term(rkhs.Evaluation(points), rkhs.losses.Absolute(), [0.0, 1.0, 2.0, 0.5, 0.5], 1e-3)
    found = rkhs.Problem(rkhs.Gaussian(1.0), [term], rkhs.Polynomials(4)).solve()
    least = 2e-3 if distance == 0 else 0.0  # three values at one point: 0, 1 and 2
    assert found.dual <= least * (1 + 1e-9)
    if distance == 0:
        assert found.status == "converged"
    if 0 < distance <= 1e-16:
        assert found.status == "functions hidden by rounding"


# Is there a minimizer?  The linear program in the coefficients of the basis against one in all rows.


def by_all_rows(down):
    """Maximize sum t, 0 <= t_i <= (down c)_i and t_i <= 1: a variable for each row."""
    k, r = down.shape
    found = scipy.optimize.linprog(
        np.concatenate([-np.ones(k), np.zeros(r)]),
        A_ub=np.hstack([np.eye(k), -down]),
        b_ub=np.zeros(k),
        bounds=[(0, 1)] * k + [(None, None)] * r,
    )
    return bool(-found.fun > 0.5)


def system_of(X, y, degree):
    rows = np.concatenate([X**k for k in range(degree + 1)], axis=1)
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Logistic(), target=y)
    parts = rkhs.Problem(rkhs.Gaussian(), [term]).system.terms
    Q = np.linalg.qr(rows)[0][:, : np.linalg.matrix_rank(rows)]
    return FiniteProblem(GramGeometry.stored(np.eye(len(X)), Q), parts)


@pytest.mark.parametrize("seed", range(40))
def test_as_a_program_with_a_variable_for_each_row(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((int(rng.integers(1, 30)), 1)) * 10.0 ** rng.integers(-3, 4)
    y = np.sign(X[:, 0] - np.median(X)) if seed % 2 else np.sign(rng.standard_normal(len(X)))
    y[y == 0] = 1.0
    system = system_of(X, y, degree=seed % 3)
    assert is_unbounded_below(system, 0) == by_all_rows(system.Q * y[:, None])


def test_one_label_among_thousands_that_a_line_cannot_serve():
    X = np.linspace(-1, 1, 4000)[:, None]
    y = np.sign(X[:, 0])
    assert is_unbounded_below(system_of(X[:2000], y[:2000], 1), 0)
    y[10] = 1.0
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Logistic(), target=y)
    rkhs.Problem(rkhs.Gaussian(), [term], rkhs.Polynomials(1)).represented  # which would raise  # noqa: B018


def test_the_memory_is_that_of_the_rows():
    """A program with a variable for each of 20,000 rows held a matrix of 3.2 GB, and took minutes at 60,000."""
    X = np.random.default_rng(0).standard_normal((20_000, 1))
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Logistic(), target=np.sign(np.sin(5 * X[:, 0])))
    tracemalloc.start()
    rkhs.Problem(rkhs.Gaussian(), [term], rkhs.Constant()).represented  # noqa: B018
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e8
