"""The certificate: no iterate is below the minimum, no dual value above it, and both meet at the solution."""

import warnings
from math import inf

import cvxpy
import numpy as np
import pytest
import scipy.linalg

import problems
import rkhs
from rkhs._core.finite.certificate import certificate_of, certify, dual_value, feasible, relative_gap
from rkhs._core.finite.representers import RepresenterTerms
from rkhs.extend import Iterate
from rkhs.results import Certificate

KERNEL = rkhs.Gaussian()
SEEDS = range(3, problems.COUNT, 8)  # 39 problems with all losses and bases, some of kernels that bring their own


def values_system(points, loss, target=0.0, weight=1.0, basis=None, kernel=KERNEL):
    """The finite problem of values with one loss."""
    return RepresenterTerms.of(kernel, [rkhs.Term(rkhs.Evaluation(points), loss, target, weight)], basis).system


def iterates(system, seed):
    """Random ones, small and large, in the space of the kernel."""
    rng = np.random.default_rng(seed)
    for scale in (0.0, 1e-3, 1.0, 30.0):
        a = scale * rng.standard_normal((system.size, system.columns))
        yield Iterate(system.inside(a), scale * rng.standard_normal((system.Q.shape[1], system.columns)))


def minimizer(problem):
    """The iterate that cvxpy finds, with the losses as they are on paper."""
    system = problem.system
    G, Q = np.asarray(system.gram.dense()), np.asarray(system.Q)
    Z = scipy.linalg.null_space(Q.T) if Q.shape[1] else np.eye(system.size)
    size, vectors = np.linalg.eigh(Z.T @ G @ Z)
    B = Z @ (vectors / np.sqrt(size))
    v, c = cvxpy.Variable(B.shape[1]), cvxpy.Variable(max(Q.shape[1], 1))
    u = G @ B @ v + (Q if Q.shape[1] else np.zeros((system.size, 1))) @ c
    risk = sum(problems.cvxpy_risk(t.loss, u[t.rows], t.target[:, 0], t.weight[:, 0]) for t in system.terms)
    model = cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(v) / 2 + risk))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that 1e-12 was not reached
        model.solve(cvxpy.CLARABEL, tol_gap_abs=1e-12, tol_gap_rel=1e-12, tol_feas=1e-12)
    return Iterate((B @ v.value)[:, None], c.value[: Q.shape[1], None]), float(model.value)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_minimum_is_between_primal_and_dual(seed):
    system, minimum = problems.case(seed).problem.system, problems.reference(seed).value
    for iterate in iterates(system, seed):
        certificate = certify(system, iterate)
        slack = 1e-7 * abs(minimum) + 1e-10
        assert certificate.dual[0] - slack <= minimum <= certificate.primal[0] + slack
        assert certificate.dual[0] > -inf
        assert certificate.gap >= 0


LOSSES = [loss for loss in problems.LOSSES if loss != rkhs.Squared()]


@pytest.mark.parametrize("basis", [None, rkhs.Constant(), rkhs.Polynomials(1)], ids=["none", "constant", "linear"])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_no_gap_at_the_solution_of_cvxpy(loss, basis):
    rng = np.random.default_rng(0)
    X, Y = rng.standard_normal((14, 2)), rng.standard_normal((4, 2))
    target = np.where(rng.standard_normal(14) > 0, 1.0, -1.0)
    terms = [
        rkhs.Term(rkhs.Evaluation(X), loss, target, weight=10 ** rng.uniform(-0.5, 0.5, 14)),
        rkhs.Term(rkhs.Gradient(Y), rkhs.Squared(), rng.standard_normal((4, 2)), weight=0.3),
    ]
    problem = rkhs.Problem(rkhs.Matern(1.5, 0.8), terms, basis)
    iterate, minimum = minimizer(problem)
    certificate = certify(problem.system, iterate)
    assert certificate.primal[0] == pytest.approx(minimum, rel=1e-8)
    assert certificate.relative <= 1e-5


def test_fenchel_young_makes_it_half_the_squared_gradient():
    """For smooth losses, alpha = -w loss'(u) leaves the gap 1/2 |a + w loss'(u)|^2 in H."""
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((10, 2)), rng.choice([-1.0, 1.0], 10)
    system = values_system(X, rkhs.Logistic(), y, 3.0)
    a = rng.standard_normal((10, 1))
    G = system.gram.dense()
    g = a + system.gradient(G @ a)
    primal = a[:, 0] @ G @ a[:, 0] / 2 + system.loss(G @ a)[0]
    dual = dual_value(system, a - g, G @ (a - g))[0]
    assert primal - dual == pytest.approx(g[:, 0] @ G @ g[:, 0] / 2, rel=1e-12)


def test_a_dual_point_of_the_solver_counts():
    """At a kink neither the slopes at u nor a need be right, but alpha may be."""
    rng = np.random.default_rng(3)
    X, b = rng.standard_normal((8, 2)), rng.standard_normal(8)
    problem = rkhs.Problem(
        rkhs.Matern(1.5, 0.8), [rkhs.Term(rkhs.Evaluation(X), rkhs.losses.Absolute(), b, weight=5.0)]
    )
    iterate, _ = minimizer(problem)
    off = Iterate(np.linalg.solve(problem.system.gram.dense(), b[:, None] + 1e-9), iterate.basis)
    best = Iterate(off.a, off.basis, alpha=iterate.a)
    assert certify(problem.system, best).dual[0] > certify(problem.system, Iterate(0 * off.a, off.basis)).dual[0]
    assert certify(problem.system, best).dual[0] >= certify(problem.system, off).dual[0]
    assert certify(problem.system, best).dual[0] == pytest.approx(certify(problem.system, iterate).primal[0], rel=1e-6)


@pytest.mark.parametrize("loss", problems.LOSSES, ids=repr)
def test_weights_of_all_sizes(loss):
    """From 1e-12 to 1e12, with a basis: numbers, in the right order."""
    rng = np.random.default_rng(4)
    X = rng.standard_normal((12, 2))
    target = np.where(rng.standard_normal(12) > 0, 1.0, -1.0)
    system = values_system(X, loss, target, 10.0 ** rng.uniform(-12, 12, 12), rkhs.Constant())
    for iterate in iterates(system, 5):
        certificate = certify(system, iterate)
        assert np.all(np.isfinite(certificate.primal))
        assert np.all(np.isfinite(certificate.dual))
        assert np.all(certificate.dual <= certificate.primal * (1 + 1e-12))


def test_a_point_outside_the_space_has_no_upper_bound():
    """Polyharmonic kernels need Q'a = 0: else a'Ga is not a norm."""
    X = np.random.default_rng(6).standard_normal((6, 1))
    system = values_system(X, rkhs.Squared(), 1.0, kernel=rkhs.kernels.Polyharmonic(3))
    outside = certify(system, Iterate(np.ones((6, 1)), np.zeros((2, 1))))
    assert outside.primal[0] == outside.gap == outside.relative == -outside.dual[0] == inf
    assert not outside.within(1e300)


class Falling(rkhs.Squared):
    """-u, which has no minimum."""

    quadratic = False

    def value(self, u, b):
        return -u + 0 * b

    def gradient(self, u, b):
        return 0 * u - 1 + 0 * b

    def _conjugate(self, s, b):
        return 0 * s + 0 * b

    excess = rkhs.extend.Loss.excess

    def domain(self, b):
        return b * 0 - 1, b * 0 - 1


def test_no_lower_bound_where_there_is_none():
    """A linear loss and an unpenalized constant: J is unbounded below, and no dual point is feasible."""
    X = np.random.default_rng(7).standard_normal((6, 1))
    free = values_system(X, Falling(), basis=rkhs.Constant())
    certificate = certify(free, free.start())
    assert certificate.dual[0] == -inf
    assert certificate.gap == certificate.relative == inf
    penalized = values_system(X, Falling())
    a = np.ones((6, 1))  # the minimizer: a = -loss' = 1
    assert certify(penalized, Iterate(a, np.zeros((0, 1)))).relative <= 1e-14


def test_relative_gaps():
    assert relative_gap(2.0, 1.0) == 0.5
    assert relative_gap(1.0, -3.0) == pytest.approx(4 / 3)
    assert relative_gap(1.0, 1.0 + 1e-16) == 0.0
    assert relative_gap(0.0, 0.0) == 0.0
    assert relative_gap(1.0, -inf) == relative_gap(inf, 1.0) == inf


def test_several_outputs_are_several_problems():
    rng = np.random.default_rng(8)
    X, target = rng.standard_normal((9, 2)), rng.standard_normal((9, 3))
    many = values_system(X, rkhs.Quantile(0.3), target, basis=rkhs.Constant())
    iterate = Iterate(rng.standard_normal((9, 3)), rng.standard_normal((1, 3)))
    certificate = certify(many, iterate)
    for c in range(3):
        one = values_system(X, rkhs.Quantile(0.3), target[:, c], basis=rkhs.Constant())
        sign = np.sign(one.Q[0] * many.Q[0])[None]
        alone = certify(one, Iterate(iterate.a[:, c : c + 1], sign * iterate.basis[:, c : c + 1]))
        np.testing.assert_allclose(certificate.primal[c], alone.primal[0], rtol=1e-12)
        np.testing.assert_allclose(certificate.dual[c], alone.dual[0], rtol=1e-9)
    assert certificate.gap == pytest.approx(np.sum(certificate.primal - certificate.dual))
    assert certificate.relative == max(map(relative_gap, certificate.primal, certificate.dual))


@pytest.mark.parametrize("loss", [rkhs.Squared(), rkhs.Hinge(), rkhs.Logistic()], ids=repr)
def test_nothing_is_said_of_zero_that_takes_a_product(loss, monkeypatch):
    """A product of 20,000 values and gradients takes longer than the limit that was there for all of it."""
    X = np.random.default_rng(0).standard_normal((30, 2))
    problem = rkhs.Problem(rkhs.Gaussian(1.0), [rkhs.Term(rkhs.Evaluation(X), loss, np.where(X[:, 0] > 0, 1.0, -1.0))])
    best = problem.solve().primal
    monkeypatch.setattr(type(problem.system.gram), "__matmul__", lambda *_: pytest.fail("a product"))
    solution = problem.solve(rkhs.solvers.NonlinearCG(), time_limit=0.0)
    assert solution.status == "time limit"
    assert solution.primal == pytest.approx(float(problem.system.at_zero[0]))
    assert solution.dual <= best


def test_columns_of_zeros_are_left_out_of_the_product():
    """For points and gradients, and two outputs: what is said is what the whole product says."""
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40, 2))
    labels = rkhs.Term(rkhs.Evaluation(X), rkhs.Hinge(), target=np.sign(X[:, :2]), weight=3.0)
    flat = rkhs.Term(rkhs.Gradient(X[:10]), rkhs.Squared(), target=np.zeros((10, 2, 2)))
    system = rkhs.Problem(rkhs.Gaussian(1.0), [labels, flat], rkhs.Constant()).system
    for rows in (slice(0, 60), slice(0, 12), slice(35, 47), [3], []):
        a = np.zeros((60, 2))
        a[rows] = rng.standard_normal(a[rows].shape)
        iterate = Iterate(a, rng.standard_normal((1, 2)))
        found, whole = certify(system, iterate), certificate_of(system, iterate, system.exact @ a)
        np.testing.assert_allclose(found.primal, whole.primal, rtol=1e-13)
        np.testing.assert_allclose(found.gaps, whole.gaps, rtol=1e-12)
        np.testing.assert_allclose(found.rounding, whole.rounding, rtol=1e-12)


def test_an_overflow_is_not_rounding():
    """A J that is infinite, and so is its rounding, counted as zero."""
    infinite = np.array([np.inf])
    found = Certificate(*[infinite] * 5, np.zeros(1), 1e-16)
    assert found.relative == np.inf
    assert not found.within(1.0)


def test_a_dual_point_whose_squares_underflow():
    """Its norm was zero, and with it what Q'alpha may be: Newton's f was 1.2e-3 from the minimum, and said 5e-7."""
    X = np.linspace(0, 1, 6)[:, None]
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), np.sin(5 * X[:, 0]), 0.01)
    exact = rkhs.Problem(rkhs.Gaussian(0.4), [term], rkhs.Constant()).solve(tol=1e-10)
    same = rkhs.Problem(1e200 * rkhs.Gaussian(0.4), [term.changed(weight=1e-202)], rkhs.Constant())
    found = same.solve(rkhs.solvers.Newton())
    assert found.dual <= exact.primal * 1e-200 * (1 + 1e-9)


def test_an_iterate_and_its_dual_point_share_a_product(monkeypatch):
    """The image of a - alpha comes with that of a, and the certificate is the same as from two products."""
    system = problems.case(3).problem.system
    found = system.inside(np.random.default_rng(0).standard_normal((system.size, system.columns)))
    alpha = feasible(system, found / 2)
    iterate, columns = Iterate(found, np.zeros((system.Q.shape[1], system.columns)), alpha), []
    image = type(system.geometry).image
    monkeypatch.setattr(type(system.geometry), "image", lambda self, a: columns.append(a.shape[1]) or image(self, a))
    together = certify(system, iterate, quick=True)
    assert columns == [2 * system.columns]
    apart = certificate_of(system, iterate, system.geometry.image(found), quick=True)
    assert together.gap == pytest.approx(apart.gap, rel=1e-9)
    assert together.primal == pytest.approx(apart.primal, rel=1e-9)
