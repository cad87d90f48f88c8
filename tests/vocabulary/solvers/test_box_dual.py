"""The box-constrained dual by the interior-point method, and LIBSVM: against scikit-learn, and exact."""

import difficult
import numpy as np
import pytest
from sklearn.svm import SVC

import rkhs
from rkhs._core.limits import with_limits
from rkhs.solvers._interior_point import Interior

LOSSES = (
    rkhs.Hinge(),
    rkhs.losses.Absolute(),
    rkhs.losses.EpsilonInsensitive(0.1),
    rkhs.Quantile(0.2),
    rkhs.losses.OneSided(),
    rkhs.SquaredHinge(),
    rkhs.Huber(0.3),
    rkhs.losses.SmoothedHinge(0.2),
)


def two_terms(loss, weight=1.0, kernel=None, basis=None, target=None):
    X, y = difficult.crossed(30)
    return rkhs.Problem(
        kernel or rkhs.Gaussian(1.0),
        [
            rkhs.Term(rkhs.Evaluation(X), loss, y if target is None else target, weight),
            rkhs.Term(rkhs.Gradient(X[:20]), rkhs.losses.EpsilonInsensitive(0.01), weight=0.1),
        ],
        basis,
    )


@pytest.mark.every
@pytest.mark.parametrize("solver", [rkhs.solvers.BoxDual(), rkhs.solvers.LibSVM()], ids=repr)
@pytest.mark.parametrize("C", [0.01, 1.0, 300.0])
def test_hinge_alone_is_sklearns_svc(C, solver):
    X, y = difficult.crossed(80)
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Hinge(), y, C)
    ours = rkhs.Problem(rkhs.Gaussian(0.8), [term], rkhs.Constant()).solve(solver, tol=1e-10)
    svc = SVC(C=C, gamma=1 / (2 * 0.8**2), tol=1e-10).fit(X, y)
    a = np.zeros(80)
    a[svc.support_] = svc.dual_coef_[0]
    np.testing.assert_allclose(ours.function.coefficients, a, atol=1e-5 * C)  # LIBSVM's kernel is in float32
    new = np.random.default_rng(1).standard_normal((50, 2))
    np.testing.assert_allclose(ours.function(new), svc.decision_function(new), atol=1e-6 * max(C, 1))
    assert set(np.flatnonzero(ours.function.coefficients)) == set(svc.support_)
    at_bound = np.abs(svc.dual_coef_[0]) == C
    assert set(np.flatnonzero(np.abs(ours.function.coefficients) == C)) == set(svc.support_[at_bound])


@pytest.mark.parametrize(
    ("kernel", "basis"), [(rkhs.Gaussian(1.0), rkhs.Constant()), (rkhs.kernels.Polyharmonic(3), None)]
)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_every_coefficient_is_where_the_optimality_conditions_put_it(loss, kernel, basis):
    """-alpha/w is a subgradient of the loss at u = L(f): strictly inside a piece the slope of that piece, exactly."""
    for weight in (1e-3, 1.0, 1e3):
        problem = two_terms(loss, weight, kernel, basis)
        solution = problem.solve(rkhs.solvers.BoxDual(), tol=1e-9)
        assert solution.status == "converged" or solution.relative_gap <= 1e-9  # and rounding is stated
        assert solution.iterations <= 40
        f, system = solution.function, problem.system
        u = problem.represented.functionals(f)
        for t in system.terms:
            a, v, b, w = f.coefficients[t.rows], u[t.rows], t.target[:, 0], t.weight[:, 0]
            clear = 1e-7
            low, high = t.loss.gradient(v - clear, b), t.loss.gradient(v + clear, b)
            assert np.all((-a / w >= low - 1e-9) & (-a / w <= high + 1e-9))
            same = low == high  # the loss is linear around u
            np.testing.assert_array_equal(a[same], -w[same] * low[same])


def test_interpolation_by_enormous_weights_is_not_claimed_beyond_rounding():
    """w |u - b| with w = 1e12 is 1e-4 at best: the dual value is right, and the gap is honest about the other."""
    (problem, *_) = difficult.problems(rkhs.losses.Absolute(), "weights of 1e12")
    solution = problem.solve(rkhs.solvers.BoxDual(), tol=1e-6)
    G = np.asarray(problem.system.gram.dense())
    minimum = difficult.Y @ np.linalg.solve(G, difficult.Y) / 2
    assert solution.dual == pytest.approx(minimum, rel=1e-9)
    assert solution.primal == pytest.approx(minimum, rel=1e-1)
    assert solution.status == "no further progress"
    assert solution.relative_gap > 1e-6


def test_a_gram_matrix_that_does_not_fit_is_refused():
    with (
        with_limits(stored_rows=0),
        pytest.raises(rkhs.exceptions.NotApplicableError, match=r"70 functionals.*NonlinearCG"),
    ):
        two_terms(rkhs.Hinge()).solve(rkhs.solvers.BoxDual())


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
@pytest.mark.parametrize("basis", [None, rkhs.Constant()], ids=repr)
def test_the_active_set_of_a_start_is_exchanged_until_it_is_optimal(loss, basis, monkeypatch):
    """Targets that differ a little need no interior points, if most rows of the start are at bounds or kinks."""
    target = difficult.crossed(30)[1]
    before = two_terms(loss, 3.0, basis=basis, target=target).solve(rkhs.solvers.BoxDual(), tol=1e-9)
    after = two_terms(loss, 3.0, basis=basis, target=np.where(np.arange(30) < 3, -target, target))
    cold = after.solve(rkhs.solvers.BoxDual(), tol=1e-9)
    a = before.function.coefficients
    if loss.width == 0 and np.mean((a == 0) | np.isin(np.abs(a), np.abs(a).max())) > 0.6:
        monkeypatch.setattr(Interior, "step", None)
    warm = after.solve(rkhs.solvers.BoxDual(), tol=1e-9, start=before)
    assert warm.status == "converged"
    assert warm.relative_gap <= 1e-9
    np.testing.assert_allclose(warm.primal, cold.primal, rtol=1e-8)
