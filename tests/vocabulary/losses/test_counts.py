"""The Poisson loss: the laws, extreme values, and solutions that agree with other packages."""

import mpmath
import numpy as np
import pytest
import torch
from sklearn.metrics import mean_poisson_deviance

import problems
import rkhs

LOSS = rkhs.losses.Poisson()


def test_it_is_half_of_the_deviance():
    rng = np.random.default_rng(0)
    b, u = rng.poisson(3.0, 50).astype(float), rng.standard_normal(50)
    assert np.mean(LOSS.value(u, b)) == pytest.approx(mean_poisson_deviance(b, np.exp(u)) / 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("step", [1e-12, 1e-3, 1.0, 1e6, 1e12])
def test_prox_by_thirty_digits(dtype, step):
    u = np.array([-1e3, -30.0, -1.0, 0.0, 0.5, 20.0, 60.0, 1e3], dtype=dtype)[:, None]
    b = np.array([0.0, 1e-3, 1.0, 1e3], dtype=dtype)
    v = LOSS.prox(u, b, step)
    assert v.dtype == dtype
    eps = float(np.finfo(dtype).eps)
    with mpmath.workdps(40):
        for i, k in np.ndindex(v.shape):
            total, h = mpmath.mpf(float(u[i, 0])) + mpmath.mpf(float(dtype(step))) * float(b[k]), float(dtype(step))
            if total - 64 - h * mpmath.exp(64) > 0:
                exact = 64 + (total - 64 - h * mpmath.exp(64)) / (1 + h * mpmath.exp(64))
            else:
                exact = total - mpmath.lambertw(h * mpmath.exp(total)).real if total < 1e4 else None
            if exact is None:  # W(exp(total)) by its equation
                y = mpmath.findroot(lambda y: y + mpmath.exp(y) - total - mpmath.log(h), mpmath.log(total))  # noqa: B023
                exact = y - mpmath.log(h)
            size = 1 + abs(float(exact)) + abs(np.log(step)) + (abs(float(total)) if exact < 0 else 0.0)
            assert abs(float(v[i, k]) - float(exact)) <= 16 * eps * size
    tensor = LOSS.prox(torch.asarray(u), torch.asarray(b), step).numpy()
    assert tensor == pytest.approx(v, rel=64 * eps, abs=64 * eps * (1 + abs(np.log(step))))


def test_nothing_overflows():
    u = np.array([-1e150, -1e3, 0.0, 64.0, 1e3, 1e6])
    for b in (0.0, 1.0, 1e6):
        for values in (LOSS.value(u, b + 0 * u), LOSS.gradient(u, b + 0 * u), LOSS.curvature(u, b + 0 * u)):
            assert np.all(np.isfinite(values))


def test_small_losses_are_accurate():
    """Near its minimum the loss is b d^2 / 2 for u = log(b) + d, far below the rounding errors of its terms."""
    b = np.array([1.0, 1e6])
    value = LOSS.value(np.log(b) + 1e-6, b)
    assert value == pytest.approx(b * 1e-12 / 2, rel=1e-5)
    s = 1e-6 * b
    assert LOSS.excess(np.log(b) + 1e-6, b, s) == pytest.approx(b * 1e-24 / 8, abs=1e-20 * b[-1])


@pytest.mark.parametrize("highest", [3, 1000])
@pytest.mark.parametrize("weight", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("basis", [None, rkhs.Constant()])
def test_problems_converge(highest, weight, basis):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (80, 2))
    rate = np.exp(np.log(highest) * (0.5 + 0.5 * np.sin(2 * X[:, 0]) * np.cos(X[:, 1])))
    term = rkhs.Term(rkhs.Evaluation(X), LOSS, target=rng.poisson(rate).astype(float), weight=weight)
    solution = rkhs.Problem(rkhs.Gaussian(scale=1.0), [term], basis).solve(tol=1e-8)
    assert solution.status == "converged"
    assert solution.relative_gap <= 1e-8


def test_same_minimum_as_cvxpy():
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, (30, 2))
    y, exposure = rng.poisson(3 * np.exp(X[:, 0])), rng.uniform(0.5, 2.0, 30)
    term = rkhs.Term(rkhs.Evaluation(X), LOSS, target=y / exposure, weight=exposure)
    problem = rkhs.Problem(rkhs.Gaussian(scale=1.0), [term], rkhs.Constant())
    best = problems.cvxpy_solution(problem, rkhs.Evaluation(X)).value
    assert problem.solve(tol=1e-10).primal == pytest.approx(best, rel=1e-6)


def test_zeros_alone_have_no_minimum_with_a_constant():
    term = rkhs.Term(rkhs.Evaluation([[0.0], [1.0]]), LOSS, target=0.0)
    with pytest.raises(rkhs.exceptions.UnattainedError, match=r"minimum of Poisson\(\) is at infinity"):
        rkhs.Problem(rkhs.Gaussian(), [term], rkhs.Constant()).solve()
    assert rkhs.Problem(rkhs.Gaussian(), [term]).solve().status == "converged"


def test_negative_counts_are_refused():
    with pytest.raises(ValueError, match="not negative"):
        rkhs.Term(rkhs.Evaluation([[0.0], [1.0]]), rkhs.losses.Poisson(), target=[1.0, -1.0])
