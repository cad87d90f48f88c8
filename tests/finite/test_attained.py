"""Is there a minimizer?  The linear program in the coefficients of the basis against one in all rows, from scratch."""

import tracemalloc

import numpy as np
import pytest
import scipy

import rkhs
from rkhs._finite.problem import FiniteProblem, is_unbounded_below
from rkhs._finite.representers import GramGeometry


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
