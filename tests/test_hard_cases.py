"""Problems at the edge: the right answer or a clear error, and never NaN."""

import warnings

import cvxpy
import numpy as np
import pytest

import problems
import rkhs

RNG = np.random.default_rng(0)
X = RNG.normal(size=(16, 2))
Y = np.sin(2 * X[:, 0]) + 0.3
LABELS = np.where(RNG.normal(size=16) > 0, 1.0, -1.0)  # not separable by lines
SIDES = np.where(X[:, 0] > 0, 1.0, -1.0)  # separable by lines
PROBES = rkhs.stack([rkhs.Evaluation(X), rkhs.Evaluation(RNG.normal(size=(10, 2)))])
KERNEL = rkhs.Gaussian(0.8)
LOSSES = pytest.mark.parametrize("loss", problems.LOSSES, ids=repr)
KERNELS = pytest.mark.parametrize("kernel", [KERNEL, rkhs.kernels.Polyharmonic(3)], ids=["Gaussian", "Polyharmonic"])


def targets(loss):
    return LABELS if loss.classification else Y


def values_term(loss, target=None, weight=1.0, points=X):
    return rkhs.Term(rkhs.Evaluation(points), loss, targets(loss) if target is None else target, weight)


def agrees(problem, tol=1e-9, **options):
    """Solve, and compare with cvxpy: the minimum, and f in H on the probes."""
    solution = problem.solve(tol=tol, **options)
    expected = problems.cvxpy_solution(problem, PROBES)
    assert solution.primal == pytest.approx(expected.value, rel=1e-6, abs=1e-9)
    assert solution.dual <= expected.value + 1e-8 * (1 + abs(expected.value))
    f = solution.function
    np.testing.assert_allclose(
        rkhs.gram(f.kernel, PROBES, f.functionals) @ f.coefficients, expected.penalized, atol=1e-4
    )
    return solution


def least(objective, constraints=()):
    """The minimum, by cvxpy."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the last digits may be wrong
        return cvxpy.Problem(cvxpy.Minimize(objective), list(constraints)).solve(cvxpy.CLARABEL)


def is_done_by_the_basis(solution):
    """At no cost, with nothing of the kernel."""
    assert solution.status == "converged"
    assert solution.primal == pytest.approx(0, abs=1e-9)
    assert solution.function.norm() < 1e-4


# Points.


@KERNELS
@LOSSES
def test_duplicate_and_contradictory_points(kernel, loss):
    t = targets(loss)
    twice = np.concatenate([t, t, t if loss.classification else t + 1.0])
    twice[::5] *= -1
    agrees(rkhs.Problem(kernel, [values_term(loss, twice, 2.0, np.tile(X, (3, 1)))], rkhs.Constant()))


@pytest.mark.parametrize("shift", [1e-9, 1e-6, 1e-3])
def test_points_that_nearly_coincide(shift):
    near = np.concatenate([X, X + shift])
    solution = agrees(rkhs.Problem(KERNEL, [values_term(rkhs.Squared(), np.r_[Y, -Y], 100.0, near)]))
    np.testing.assert_allclose(solution.function(X), 0, atol=10 * shift)


# Weights.


@KERNELS
@LOSSES
def test_tiny_weights_leave_the_basis(kernel, loss):
    """w -> 0: f tends to the function of the basis with the least loss."""
    w = 1e-12
    problem = rkhs.Problem(kernel, [values_term(loss, weight=w)], rkhs.Constant())
    solution = problem.solve()
    assert solution.status == "converged"
    Q = np.asarray(problem.system.Q)
    c = cvxpy.Variable(Q.shape[1])
    best = least(cvxpy.sum(problems.cvxpy_loss(loss, Q @ c, targets(loss))))
    assert solution.primal / w == pytest.approx(best, rel=1e-5, abs=1e-6)
    assert solution.function.norm() < 1e-3


def hard_limit(kernel, loss, basis):
    """w -> infinity: the least norm among the functions with no loss at all, by cvxpy."""
    problem = rkhs.Problem(kernel, [values_term(loss)], basis)
    G, Q = np.asarray(problem.system.gram.dense()), np.asarray(problem.system.Q)
    size, vectors = np.linalg.eigh(G - Q @ (Q.T @ G) - (G @ Q) @ Q.T + Q @ (Q.T @ G @ Q) @ Q.T)
    B = vectors[:, size > 1e-12] / np.sqrt(size[size > 1e-12])
    if not kernel.order:
        size, vectors = np.linalg.eigh(G)
        B = vectors / np.sqrt(size)
    v, c = cvxpy.Variable(B.shape[1]), cvxpy.Variable(max(1, Q.shape[1]))
    u = G @ B @ v + (Q @ c if Q.shape[1] else 0)
    t, slack = targets(loss), getattr(loss, "epsilon", 0.0)
    if loss.classification:
        constraints = [cvxpy.multiply(t, u) >= 1]
    elif isinstance(loss, (rkhs.losses.OneSided, rkhs.losses.SquaredOneSided)):
        constraints = [u >= t]
    else:
        constraints = [u - t <= slack, t - u <= slack]
    return least(cvxpy.sum_squares(v) / 2, constraints)


@pytest.mark.parametrize(
    ("kernel", "basis"),
    [(KERNEL, rkhs.Constant()), (rkhs.kernels.Polyharmonic(3), None)],
    ids=["Gaussian", "Polyharmonic"],
)
@LOSSES
def test_huge_weights_leave_no_loss(kernel, loss, basis):
    solution = rkhs.Problem(kernel, [values_term(loss, weight=1e12)], basis).solve(time_limit=300)
    u = solution.function(X)
    t = targets(loss)
    assert np.all(np.isfinite(u))
    assert np.max(np.asarray(loss.value(u, t))) < 1e-6
    if not isinstance(loss, rkhs.Logistic):  # whose limit has no bound
        assert solution.function.norm() ** 2 / 2 == pytest.approx(hard_limit(kernel, loss, basis), rel=1e-3)


@KERNELS
def test_weights_over_24_orders_of_magnitude(kernel):
    """Squared loss: (G + 1/(2w)) a + Q c = y, Q'a = 0, solved with rows and columns scaled."""
    w = 10.0 ** RNG.uniform(-12, 12, size=16)
    problem = rkhs.Problem(kernel, [values_term(rkhs.Squared(), weight=w)], rkhs.Constant())
    solution = problem.solve()
    G, Q = np.asarray(problem.system.gram.dense()), np.asarray(problem.system.Q)
    r = Q.shape[1]
    scale = np.r_[np.sqrt(w) / np.sqrt(1 + w), np.ones(r)]
    saddle = np.block([[G + np.diag(1 / (2 * w)), Q], [Q.T, np.zeros((r, r))]])
    solved = scale * np.linalg.solve(scale[:, None] * saddle * scale, scale * np.r_[Y, np.zeros(r)])
    np.testing.assert_allclose(solution.function(X), G @ solved[:16] + Q @ solved[16:], atol=1e-6)


@LOSSES
def test_weight_zero_leaves_a_functional_out(loss):
    w = np.where(np.arange(16) < 8, 1.0, 0.0)
    some = rkhs.Problem(KERNEL, [values_term(loss, weight=w)]).solve(tol=1e-9)
    half = rkhs.Problem(KERNEL, [values_term(loss, targets(loss)[:8], 1.0, X[:8])]).solve(tol=1e-9)
    assert some.primal == pytest.approx(half.primal, rel=1e-8)
    np.testing.assert_allclose(some.function(X), half.function(X), atol=1e-4)


# Few labels.


@pytest.mark.parametrize("basis", [None, rkhs.Constant()], ids=["plain", "offset"])
@LOSSES
def test_one_label(loss, basis):
    terms = [
        rkhs.Term(rkhs.Evaluation(X[:1]), loss, targets(loss)[:1], 3.0),
        rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.1),
    ]
    problem = rkhs.Problem(KERNEL, terms, basis)
    if basis is not None and isinstance(loss, rkhs.Logistic):
        with pytest.raises(rkhs.exceptions.UnattainedError, match="infinity"):
            problem.solve()
    elif basis is None:
        agrees(problem)
    else:
        is_done_by_the_basis(problem.solve())


# The basis.


@LOSSES
@pytest.mark.parametrize("kernel", [KERNEL, rkhs.kernels.Polyharmonic(2)], ids=["Gaussian", "Polyharmonic"])
def test_a_basis_that_separates_the_data(kernel, loss):
    """Without a minimizer an error says so; with one, the basis does it alone and the kernel adds nothing."""
    if not loss.classification:
        pytest.skip("there are no classes to separate")
    problem = rkhs.Problem(kernel, [values_term(loss, SIDES)], rkhs.Polynomials(1))
    if isinstance(loss, rkhs.Logistic):
        with pytest.raises(rkhs.exceptions.UnattainedError, match="separates the data"):
            problem.solve()
        return
    solution = problem.solve()
    is_done_by_the_basis(solution)
    assert np.min(SIDES * solution.function(X)) >= 1 - 1e-5


def test_a_null_space_that_separates_can_be_dropped():
    """Walder and Chapelle 2007, 6.2: without the polynomials the minimizer exists."""
    term = values_term(rkhs.Logistic(), SIDES)
    solution = rkhs.Problem(rkhs.kernels.Polyharmonic(2), [term], null_space="dropped").solve()
    assert solution.status == "converged"
    assert np.all(np.isfinite(solution.function(X)))


def functions(*columns):
    return rkhs.Functions(lambda Z: np.stack([column(Z) for column in columns], axis=1))


@pytest.mark.parametrize("where", ["line", "repeated"])
@LOSSES
def test_bases_that_are_not_independent(loss, where):
    """Points on a line see two of the three linear polynomials; functions may be given more than once."""
    one, first = (lambda Z: np.ones(len(Z))), (lambda Z: Z[:, 0])
    term = values_term(loss, points=np.outer(X[:, 0], [1.0, 2.0]) if where == "line" else X)
    repeated = functions(one, first, first, lambda Z: 2 * Z[:, 0] + 1)
    solution = agrees(rkhs.Problem(KERNEL, [term], rkhs.Polynomials(1) if where == "line" else repeated))
    same = rkhs.Problem(KERNEL, [term], functions(one, first)).solve(tol=1e-9)
    assert solution.primal == pytest.approx(same.primal, rel=1e-8)


def test_a_basis_that_no_functional_sees():
    """Gradients do not see constants: their coefficient is 0, not NaN."""
    terms = [rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), np.ones((16, 2)))]
    with_constant, without = (rkhs.Problem(KERNEL, terms, basis).solve() for basis in (rkhs.Constant(), None))
    assert with_constant.primal == pytest.approx(without.primal, rel=1e-9)
    np.testing.assert_allclose(with_constant.function(X), without.function(X), atol=1e-6)


def test_a_basis_that_is_not_finite():
    with pytest.raises(ValueError, match="not all finite"), np.errstate(divide="ignore"):
        rkhs.Problem(KERNEL, [values_term(rkhs.Squared())], rkhs.Functions(lambda Z: 1 / (0 * Z))).solve()


# Targets and functionals.


@pytest.mark.parametrize("constant", [0.0, 1.0, -3.0])
@KERNELS
@LOSSES
def test_all_targets_equal(kernel, loss, constant):
    """The constant takes them all, at no cost."""
    if loss.classification and abs(constant) != 1:
        pytest.skip("not a class")
    problem = rkhs.Problem(kernel, [values_term(loss, np.full(16, constant))], rkhs.Constant())
    if isinstance(loss, rkhs.Logistic):
        with pytest.raises(rkhs.exceptions.UnattainedError):
            problem.solve()
        return
    solution = problem.solve()
    is_done_by_the_basis(solution)
    assert np.max(np.asarray(loss.value(solution.function(X), np.full(16, constant)))) < 1e-6


@pytest.mark.parametrize("scale", [1e-150, 1e-8, 1e8, 1e150])
def test_targets_of_any_size(scale):
    """Squared loss is linear in the targets."""
    one, many = (rkhs.Problem(KERNEL, [values_term(rkhs.Squared(), s * Y)]).solve() for s in (1.0, scale))
    np.testing.assert_allclose(many.function(X) / scale, one.function(X), atol=1e-6)
