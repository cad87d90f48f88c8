"""NonlinearCG: one product per iteration, conjugate gradients on quadratics, and a certificate that is the truth."""

import numpy as np
import pytest

import problems
import rkhs
from rkhs._core.finite.certificate import certify
from rkhs._core.problem.problem import solve_to_tolerance
from rkhs.extend import Monitor
from rkhs.solvers import NonlinearCG

RNG = np.random.default_rng(2)
X = RNG.normal(size=(40, 2))
Y = np.sin(2 * X[:, 0]) + X[:, 1]
LABELS = np.where(Y + RNG.normal(size=40) > 0, 1.0, -1.0)
SMOOTH = [loss for loss in problems.LOSSES if loss.smooth]


def problem(loss, kernel=None, basis=None, weight=1.0):
    terms = [
        rkhs.Term(rkhs.Evaluation(X), loss, LABELS if loss.classification else Y, weight),
        rkhs.Term(rkhs.Gradient(X[:10]), rkhs.Squared(), weight=0.1),
    ]
    return rkhs.Problem(kernel or rkhs.Gaussian(1.0), terms, basis)


@pytest.mark.parametrize("loss", SMOOTH, ids=repr)
def test_one_product_per_iteration(loss):
    solution = problem(loss, basis=rkhs.Constant()).solve(NonlinearCG(), tol=1e-8)
    assert solution.status == "converged"
    assert solution.products == solution.iterations


@pytest.mark.parametrize("loss", problems.LOSSES, ids=repr)
def test_the_gap_it_sees_is_the_true_one(loss):
    solution = problem(loss, basis=rkhs.Constant()).solve(NonlinearCG(), tol=1e-5)
    assert solution.status == "converged"
    assert solution.history[-1].gap == pytest.approx(solution.relative_gap, abs=1e-6)


def test_memory_of_one_is_conjugate_gradients():
    """On a quadratic J, one step of memory is as good as twenty: as many iterations."""
    one, twenty = (problem(rkhs.Squared()).solve(NonlinearCG(memory=m), tol=1e-8).iterations for m in (1, 20))
    assert one <= twenty + 2


def test_finite_termination():
    """As many iterations as the Hessian has different eigenvalues, and one for the certificate."""
    far = 100.0 * np.arange(12.0)[:, None]  # G = I
    weight = np.repeat([1.0, 10.0, 100.0], 4)
    target = RNG.normal(size=12)
    terms = [rkhs.Term(rkhs.Evaluation(far), rkhs.Squared(), target, weight)]
    solution = rkhs.Problem(rkhs.Gaussian(1.0), terms).solve(NonlinearCG(), tol=1e-12)
    assert solution.iterations <= 4
    np.testing.assert_allclose(solution.function(far), target * 2 * weight / (1 + 2 * weight), rtol=1e-9)


@pytest.mark.parametrize("seed", [60, 132, 157, 308])
def test_dependent_directions_do_no_harm(seed):
    """Kernels of low rank and parallel steps, on which directions that rounding made up led to infinity."""
    solution = problems.case(seed).problem.solve(NonlinearCG(), tol=1e-6)
    assert solution.status == "converged"
    assert solution.primal == pytest.approx(problems.reference(seed).value, rel=2e-6)


def labeled(loss, count=400, weight=10.0, **options):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(count, 3))
    labels = np.where(np.sin(2 * points[:, 0]) + points[:, 1] + 0.3 * rng.normal(size=count) > 0, 1.0, -1.0)
    targets = np.stack([labels, np.where(points[:, 2] > 0, labels, 1.0)], axis=1)
    term = rkhs.Term(rkhs.Evaluation(points), loss, target=targets, weight=weight)
    return rkhs.Problem(rkhs.Gaussian(1.0), [term], rkhs.Constant(), **options)


@pytest.mark.slow
@pytest.mark.parametrize("loss", [rkhs.Hinge(), rkhs.SquaredHinge(), rkhs.Logistic()], ids=repr)
def test_landmarks_save_products_and_change_nothing_else(loss):
    problem = labeled(loss, count=200, weight=10.0 if loss == rkhs.Hinge() else 100.0)
    with_them, without = (problem.solve(NonlinearCG(landmarks=count), tol=2e-3) for count in (50, 0))
    assert with_them.status == without.status == "converged"
    assert with_them.products < 0.9 * without.products
    best = problem.solve(tol=1e-8).primal
    assert best <= with_them.primal <= best * (1 + 2.1e-3)


def test_landmarks_of_kernels_with_a_null_space():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(200, 2))
    term = rkhs.Term(rkhs.Evaluation(points), rkhs.SquaredHinge(), np.sign(points[:, 0] + 0.3 * rng.normal(size=200)))
    problem = rkhs.Problem(rkhs.kernels.ThinPlate(order=2), [term])
    found, without = (problem.solve(NonlinearCG(landmarks=count), tol=1e-8) for count in (50, 0))
    assert found.status == "converged"
    assert found.products <= without.products
    assert found.primal == pytest.approx(problem.solve(rkhs.solvers.Newton(), tol=1e-12).primal, rel=1e-7)


@pytest.mark.parametrize("loss", [rkhs.Hinge(), rkhs.SquaredHinge()], ids=repr)
def test_products_that_are_wrong_in_the_fourth_digit_lead_to_the_minimum(loss):
    """As on an accelerator in a low precision: images are corrected, and what is certified is true."""
    system = labeled(loss, count=200).system

    class Coarse:
        def __init__(self, operator):
            self.operator = operator

        def __getattr__(self, name):
            return getattr(self.operator, name)

        def __matmul__(self, v):
            image = self.operator @ v
            return image * (1 + 3e-4 * np.sin(1e6 * image))

    coarse = system.with_geometry(gram=Coarse(system.gram))
    assert coarse.inexact
    found, status, certificate = solve_to_tolerance(NonlinearCG(), coarse, coarse.start(), Monitor(1e-2))
    assert status == "converged"
    assert certificate.relative <= 1e-2
    assert certificate.relative == pytest.approx(certify(system, found, 1e-2).relative)
