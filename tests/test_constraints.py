"""Constraints, the terms of infinite weight: against Clarabel, in every solver and space, and where none can hold."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.svm import SVC

import judge
import problems
import rkhs
from campaign import SOLVERS
from rkhs.exceptions import NotApplicableError, PrimalInfeasible

INTERVALS = (
    rkhs.Squared(),
    rkhs.losses.Absolute(),
    rkhs.losses.EpsilonInsensitive(0.2),
    rkhs.losses.SquaredEpsilonInsensitive(0.2),
    rkhs.losses.OneSided(),
    rkhs.Hinge(),
    rkhs.losses.SmoothedHinge(0.5),
)
KERNELS = (
    rkhs.Gaussian(0.6),
    rkhs.Matern(2.5, 1.0),
    rkhs.Matern(3.5, 1.0),
    rkhs.kernels.Polynomial(2, 1.0),
    rkhs.kernels.Polyharmonic(3),
    rkhs.Gaussian(0.5) + 0.5 * rkhs.Matern(2.5, 2.0) + 0.1 * rkhs.kernels.Linear(),
    rkhs.kernels.Polyharmonic(3) + 0.5 * rkhs.Gaussian(0.5),
)
X = np.random.default_rng(0).normal(size=(24, 2))
Y = np.where(X[:, 0] + 0.5 * X[:, 1] > 0, 1.0, -1.0)
MARGIN = rkhs.Term(rkhs.Evaluation(X), rkhs.Hinge(), target=Y, weight=np.inf)
FLAT = rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.1)
ENDS = rkhs.Term(rkhs.Evaluation([[0.0], [1.0]]), rkhs.Squared(), target=[0.0, 1.0], weight=np.inf)


def _family(rng, kernel, points):
    """Values, differences, slopes or combinations."""
    values, slopes = map(rkhs.Evaluation, points), kernel.smoothness(points.shape[2]) > 1
    size = points.shape[1]
    kinds = [
        lambda: rkhs.Evaluation(points[0]),
        lambda: rkhs.Difference(*points),
        lambda: rkhs.Gradient(points[0, : 1 + size // 3]),
        lambda: rng.normal(size=(size, 2 * size)) @ rkhs.stack(list(values)) / size,
    ]
    return kinds[rng.choice([0, 1, 3, *[2] * slopes])]()


def drawn(seed, feasible=True):
    """A random problem whose constraints hold for a random function, or contradict a combination of themselves."""
    rng = np.random.default_rng([seed, 58])
    d, kernel = int(rng.integers(1, 4)), KERNELS[rng.integers(len(KERNELS))]
    loss, soft = INTERVALS[rng.integers(len(INTERVALS))], problems.LOSSES[rng.integers(len(problems.LOSSES))]
    size = int(rng.integers(4, 7 if isinstance(kernel, rkhs.kernels.Polynomial) else 13))
    points = rkhs.Evaluation(rng.normal(size=(size, d)))
    family = points if loss.classification else _family(rng, kernel, rng.normal(size=(2, size, d)))
    basis = problems.BASES[rng.integers(2)]
    f = rkhs.Problem(kernel, [rkhs.Term(points, rkhs.Squared(), rng.normal(size=size), weight=100.0)], basis).solve()
    u = family(f.function).reshape(-1)
    if loss.classification:
        target = np.where(u > 0, 1.0, -1.0)
    else:
        room = getattr(loss, "epsilon", 0.0)
        target = u - (
            rng.exponential(size=u.shape) if loss == rkhs.losses.OneSided() else rng.uniform(-room, room, u.shape)
        )
    hard = rkhs.Term(family, loss, target.reshape(family.shape), weight=np.inf)
    terms = [hard, problems._term(rng, d, kernel, soft, first=True)][: int(rng.integers(1, 3))]
    if not feasible:
        # c'u >= (the most that c'u can be) + a part of its size, for c where the ends of intervals are finite
        low, high = (np.asarray(end) for end in loss.interval(np.asarray(hard.target)))
        c = rng.normal(size=len(u)) * (np.arange(len(u)) < 4)
        c = np.where(np.isfinite(high) & np.isfinite(low), c, np.where(np.isfinite(high), abs(c), -abs(c)))
        most = np.where(c > 0, high, low)[c != 0] @ c[c != 0]
        target = most + rng.uniform(0.1, 1) * (abs(most) + np.abs(c).sum())
        terms.append(rkhs.Term(c[None, :] @ family, rkhs.losses.OneSided(), [target], weight=np.inf))
    problem = rkhs.Problem(kernel, terms, basis)
    return problem if problems.has_minimizer(problem) else drawn(seed + 10**6, feasible)


def check_against_clarabel(seed, feasible):
    problem = drawn(seed, feasible)
    if feasible:
        expected = problems.cvxpy_solution(problem, problem.terms[0].functional)
        found = problem.solve(tol=1e-8)
        assert found.status == "converged", (found, problem)
        assert found.primal == pytest.approx(expected.value, rel=1e-6, abs=1e-9)
        return
    with pytest.raises(AssertionError, match="infeasible"):
        problems.cvxpy_solution(problem, problem.terms[0].functional)
    with pytest.raises(PrimalInfeasible) as error:
        problem.solve()
    assert judge.contradicts(problem, error.value.alpha)


@pytest.mark.parametrize("feasible", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_values_and_verdicts_of_clarabel(seed, feasible):
    check_against_clarabel(seed, feasible)


@pytest.mark.slow
@pytest.mark.parametrize("feasible", [True, False])
@pytest.mark.parametrize("seed", range(8, 100))
def test_verdicts_on_many_problems(seed, feasible):
    check_against_clarabel(seed, feasible)


def both(**options):
    return rkhs.Problem(rkhs.Gaussian(1.0), [MARGIN, FLAT], rkhs.Constant(), **options)


@pytest.mark.parametrize("name", SOLVERS)
def test_solvers_satisfy_constraints_or_refuse_them(name):
    try:
        found = both().solve(SOLVERS[name], tol=1e-6)
    except NotApplicableError:
        assert name not in ("ADMM", "BoxDual", "ProximalNewton", "SchurComplement")
        return
    assert found.status == "converged"
    assert found.primal == pytest.approx(both().solve(tol=1e-10).primal, rel=2e-6)
    assert np.min(Y * found.function(X)) > 1 - 1e-4


def test_a_constraint_is_the_limit_of_weights():
    """Values as on paper: the proximal map and the conjugate of w * loss for a large w, inside of the domain."""
    u, b, w = np.linspace(-3, 3, 13), np.array([1.0, -1.0] * 6 + [1.0]), 1e12
    for loss in INTERVALS:
        limit = rkhs.Term(rkhs.Evaluation(np.zeros((13, 1))), loss, b, weight=np.inf).loss
        np.testing.assert_allclose(limit.prox(u, b, 1.0), loss.prox(u, b, w), atol=1e-9)
        low, high = limit.domain(b)
        s = np.clip(u, low, high)
        np.testing.assert_allclose(limit.conjugate(s, b), w * loss.conjugate(s / w, b), atol=1e-9)
        np.testing.assert_allclose(limit.violation(u, b), np.abs(u - limit.prox(u, b, 1.0)), atol=1e-15)
        assert np.all((limit.conjugate(u, b) == np.inf) == ((u < low) | (u > high)))


def test_weights_that_no_constraint_has():
    values = rkhs.Evaluation(X[:3])
    with pytest.raises(ValueError, match="use two terms"):
        rkhs.Term(values, rkhs.Squared(), weight=[1.0, np.inf, 1.0])
    for loss, family in ((rkhs.Logistic(), values), (rkhs.losses.GroupNorm(rkhs.Squared()), rkhs.Gradient(X[:3]))):
        with pytest.raises(ValueError, match="vanishes on no interval"):
            rkhs.Term(family, loss, np.ones(family.shape), weight=np.inf)
    soft = MARGIN.changed(weight=2.0)
    assert (soft.loss, soft.weight) == (rkhs.Hinge(), 2.0)
    observed = rkhs.Term(values, rkhs.Squared(), [0.0, np.nan, 1.0], weight=np.inf)
    assert observed.changed().loss == observed.loss
    f = rkhs.Problem(rkhs.Gaussian(), [observed]).solve().function
    np.testing.assert_allclose(f(X[[0, 2]]), [0, 1], atol=1e-12)


def test_what_is_violated_has_not_converged():
    found = both().solve(rkhs.solvers.BoxDual(), callback=lambda record: record.iteration >= 2)
    values = found.function(X)
    largest = np.max(np.maximum(1 - Y * values, 0))
    f, a = found.function, found.function.coefficients
    norms = np.sqrt(np.concatenate([np.ones(24), np.ones(48)]) * (a @ rkhs.gram(f.kernel, f.functionals).dense() @ a))
    assert found.status == "stopped by the callback"
    assert found.violations[0] == (pytest.approx(largest), np.inf)
    assert largest > 1e-3
    assert largest / (norms[0] + abs(values).max()) < found.certificate.violation[0] <= largest / norms[0]
    assert found.relative_gap >= found.certificate.violation[0]


def test_a_message_names_what_contradicts():
    rise = rkhs.Term(rkhs.Difference([[1.0]], [[0.0]]), rkhs.losses.OneSided(), target=2.0, weight=np.inf)
    free = rkhs.Term(rkhs.Evaluation([[3.0]]), rkhs.Squared(), target=1.0, weight=np.inf)
    problem = rkhs.Problem(rkhs.Gaussian(), [free, ENDS, rise])
    with pytest.raises(PrimalInfeasible, match=r"\[0, 1\] of term 1.* and \[0\] of term 2") as error:
        problem.solve()
    assert list(error.value.alpha) == [1, 2]
    in_span = replace(problem, terms=[free, ENDS], approximation=rkhs.Landmarks(rkhs.Evaluation([[0.5]])))
    with pytest.raises(PrimalInfeasible, match="of term 1"):
        in_span.solve()


def test_constraints_in_spaces_and_grids():
    exact = both().solve(tol=1e-9)
    own = both(approximation=rkhs.Landmarks(rkhs.stack([MARGIN.functional, FLAT.functional, rkhs.Evaluation(X[:1])])))
    np.testing.assert_allclose(own.solve(tol=1e-8).primal, exact.primal, rtol=1e-6)
    features = both(approximation=rkhs.FourierFeatures(60)).solve()
    assert features.status == "converged"
    assert np.min(Y * features.function(X)) > 1 - 1e-6
    with pytest.raises(NotApplicableError, match="finite weights"):
        both(approximation=rkhs.FourierGrid()).solve()
    grid = both().grid({FLAT: [1.0, 10.0]}, {MARGIN: [np.arange(12), np.arange(12, 24)]}, tol=1e-8)
    for (row, fold), cell in np.ndenumerate(grid):
        kept = np.arange(24)[12:] if fold == 0 else np.arange(12)
        terms = [MARGIN.take(kept), FLAT.changed(weight=0.1 * [1.0, 10.0][row])]
        alone = rkhs.Problem(rkhs.Gaussian(1.0), terms, rkhs.Constant()).solve(tol=1e-9)
        assert cell.status == "converged"
        assert cell.primal == pytest.approx(alone.primal, rel=1e-6)


def test_tensors():
    torch = pytest.importorskip("torch")
    terms = [
        term.changed(functional=term.functional.like(torch.zeros(1, dtype=torch.float64))) for term in (MARGIN, FLAT)
    ]
    found = replace(both(), terms=terms).solve(tol=1e-9)
    assert found.primal == pytest.approx(both().solve(tol=1e-9).primal, rel=1e-8)


def test_estimators_with_hard_margins():
    svc = SVC(C=1e12, gamma=0.5, tol=1e-9).fit(X, Y)
    model = rkhs.InvariantClassifier(invariance=None, scale=1.0, loss="hinge", C=np.inf, unlabeled=None).fit(X, Y)
    np.testing.assert_allclose(model.decision_function(X), svc.decision_function(X), atol=1e-5)
    even = rkhs.InvariantRegressor(invariance=lambda X: rkhs.Difference(X, X * [1, -1]), nu=np.inf, scale=1.0).fit(X, Y)
    np.testing.assert_allclose(even.predict(X), even.predict(X * [1, -1]), atol=1e-8)
