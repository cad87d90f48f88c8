"""Functionals that cannot matter are left out, and the certificate is that of all."""

import numpy as np
import pytest

import rkhs
from rkhs.solvers._base import RowSubset
from rkhs.solvers._choose import SHARE, ScreenedSolver, auto, race, screen

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(20, 2))
Z = RNG.uniform(size=(30, 2))


def problem(weights, loss, basis=None, target=0.0):
    terms = [
        rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(5 * X[:, 0]), weight=10.0),
        rkhs.Term(rkhs.Gradient(Z), loss, target=target, weight=np.repeat(weights, 2)),
    ]
    return rkhs.Problem(rkhs.Gaussian(scale=0.5), terms, basis)


TINY = np.where(np.arange(30) % 3 == 0, 1e-2, 1e-12)


@pytest.mark.parametrize(
    "loss", [rkhs.Squared(), rkhs.losses.Absolute(), rkhs.Huber(0.1), rkhs.losses.OneSided()], ids=repr
)
@pytest.mark.parametrize("basis", [None, rkhs.Constant()], ids=["", "constant"])
def test_the_minimum_changes_by_less_than_the_bound(loss, basis):
    system = problem(TINY, loss, basis).system
    dropped = screen(system, 1e-4)
    assert len(dropped) == 40
    exact = problem(TINY, loss, basis).solve(race(system, 1e-10), tol=1e-10)
    without = problem(np.where(TINY > 1e-6, TINY, 0.0), loss, basis).solve(tol=1e-10)
    assert abs(exact.primal - without.primal) <= (SHARE * 1e-4 + 2e-10) * float(system.at_zero[0])


@pytest.mark.parametrize("loss", [rkhs.Squared(), rkhs.losses.Absolute(), rkhs.Logistic()], ids=repr)
def test_auto_leaves_them_out_and_certifies_all(loss):
    target = 1.0 if isinstance(loss, rkhs.Logistic) else 0.0
    whole = problem(TINY, loss, target=target)
    assert isinstance(auto(whole.system, 1e-4), ScreenedSolver)
    solution = whole.solve(tol=1e-4)
    exact = whole.solve(race(whole.system, 1e-8), tol=1e-8)
    assert solution.status == "converged"
    assert solution.dual <= exact.primal + 1e-9 <= solution.primal + 2e-9
    assert solution.primal <= exact.primal * (1 + 1e-4)


def test_the_same_terms_with_weights_that_matter_are_kept():
    assert len(screen(problem(np.ones(30), rkhs.Squared()).system, 1e-4)) == 0
    assert not isinstance(auto(problem(np.ones(30), rkhs.Squared()).system, 1e-4), ScreenedSolver)


def test_functionals_of_the_basis_are_kept():
    """Their values are not bounded by the norm of f."""
    terms = [
        rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.ones(20), weight=10.0),
        rkhs.Term(rkhs.Evaluation(Z), rkhs.Squared(), target=0.0, weight=1e-15),
    ]
    assert len(screen(rkhs.Problem(rkhs.Gaussian(), terms, rkhs.Constant()).system, 1e-4)) == 0
    assert len(screen(rkhs.Problem(rkhs.Gaussian(), terms).system, 1e-4)) == 30


def test_a_minimum_far_below_the_start_needs_all_of_them():
    """If J is tiny compared with J(0), the certificate fails without them, and the solver continues with all."""
    terms = [
        rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.full(20, 1e3), weight=1e6),
        rkhs.Term(rkhs.Gradient(Z), rkhs.Squared(), target=0.0, weight=1e-9),
    ]
    easy = rkhs.Problem(rkhs.Gaussian(scale=0.5) + 1e12 * rkhs.kernels.Linear() @ rkhs.kernels.Features(_one), terms)
    solution = easy.solve(tol=1e-6)
    exact = easy.solve(race(easy.system, 1e-8), tol=1e-6)
    assert solution.status == exact.status
    assert solution.primal == pytest.approx(exact.primal, rel=1e-5)


def _one(points):
    return 0 * points[:, :1] + 1.0


def test_parts_keep_the_order_of_terms():
    system = problem(np.ones(30), rkhs.Squared()).system
    rows = np.array([0, 5, 19, 20, 33, 79])
    part = RowSubset.of(system, rows).system
    assert [t.rows for t in part.terms] == [slice(0, 3), slice(3, 6)]
    assert np.allclose(part.exact.dense(), system.exact.dense()[np.ix_(rows, rows)])
