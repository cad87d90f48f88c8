"""Problems on a Fourier grid: against the exact problems, with true certificates, whatever the losses and units."""

from dataclasses import replace

import numpy as np
import pytest

import registry
import rkhs
from problems import LOSSES
from rkhs._core.finite import normal_equations
from rkhs._core.limits import with_limits
from rkhs.maps._search import spatial_sample

RNG = np.random.default_rng(5)
GRID = rkhs.FourierGrid(1e-9)
POINTS = {1: RNG.uniform(size=(30, 1)), 2: RNG.uniform(size=(30, 2)), 3: RNG.uniform(size=(20, 3))}
KERNELS = {1: rkhs.Gaussian(0.3), 2: rkhs.Gaussian((0.8, 1.2)), 3: rkhs.Gaussian(2.0)}
BASES = [None, rkhs.Constant(), rkhs.Polynomials(1)]
SQUARED = rkhs.Squared()


def target(X, loss=None):
    y = np.sin(5 * X[:, 0]) + X[:, -1] ** 2 + 0.1 * np.cos(50 * X[:, 0])
    return np.where(y > 0.7, 1.0, -1.0) if loss is not None and loss.classification else y


def problems(kernel, terms, basis=None, grid=GRID):
    """The problem on a grid, and the exact one."""
    exact = rkhs.Problem(kernel, terms, basis)
    return replace(exact, approximation=grid), exact


def solutions(kernel, terms, basis=None, grid=GRID, tol=1e-9):
    """Both solutions to the same tolerance."""
    return tuple(problem.solve(tol=tol) for problem in problems(kernel, terms, basis, grid))


def values(X, loss=SQUARED, weight=20.0, y=None):
    """One term, for values at points."""
    return [rkhs.Term(rkhs.Evaluation(X), loss, target(X, loss) if y is None else y, weight)]


def same(found, exact, X, tol, unit=1.0):
    """Whether two solutions agree in J and in values, and the certificate of the first is true."""
    assert found.status == "converged"
    assert 0 <= found.relative_gap <= tol
    slack = 1e-6 * exact.primal + 1e-12
    assert abs(found.primal - exact.primal) <= found.gap + exact.gap + slack
    assert found.dual <= exact.primal + slack
    distance = np.abs(found.function(X) - exact.function(X)).max()
    size = unit * np.sqrt(2 * (found.gap + exact.gap + slack))  # |f - f*| <= sqrt(2 gap), k(x, x) = 1
    assert distance <= max(size, 1e-9 * np.abs(exact.function(X)).max())


FAMILIES = {
    **{name: case.make for name, case in registry.FAMILIES.items()},
    "LocalAverage": lambda X: rkhs.functionals.LocalAverage(X, 0.2),
    "LocalDeviation": lambda X: rkhs.functionals.LocalDeviation(X, 0.2),
    "boxes": lambda X: rkhs.Integral.boxes(X[:3] - 0.1, X[:3] + 0.1, nodes=3),
    "segments": lambda X: rkhs.Integral.segments(X[:4], X[4:8]),
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("d", [pytest.param(1, marks=pytest.mark.slow), 2, pytest.param(3, marks=pytest.mark.slow)])
def test_all_functionals(d, name):
    X = POINTS[d]
    L = FAMILIES[name](X)
    terms = [
        rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target(X), 10.0),
        rkhs.Term(L, rkhs.Squared(), 0.3, np.linspace(0.1, 1, L.size).reshape(L.shape)),
    ]
    grid = GRID if d < 3 else rkhs.FourierGrid(1e-7)
    found, exact = (p.solve(tol=1e-10) for p in problems(KERNELS[d], terms, BASES[d - 1], grid))
    same(found, exact, X, 1e-10)
    scale = np.sqrt(rkhs.gram(KERNELS[d], L).diagonal().max())
    np.testing.assert_allclose(L(found.function), L(exact.function), atol=1e-3 * scale * exact.primal**0.5)


KINDS = [rkhs.Matern(2.5, 1.0), rkhs.Matern(1.5, 0.5), rkhs.kernels.RationalQuadratic(3.0, 0.5)]


@pytest.mark.parametrize("kernel", [*KINDS, rkhs.Gaussian(0.5) + 0.5 * rkhs.Matern(2.5, 1.0)], ids=repr)
def test_other_kernels(kernel):
    """J changes by at most the change of the kernel times the squared coefficients, |a|_1^2 / 2."""
    X = POINTS[1]
    found, exact = solutions(kernel, values(X, weight=1.0), rkhs.Constant(), rkhs.FourierGrid(1e-5), 1e-10)
    assert found.status == "converged"
    bound = 1e-5 * kernel(X[:1])[0, 0] * np.sum(np.abs(2 * (exact.function(X) - target(X)))) ** 2
    assert abs(found.primal - exact.primal) <= bound
    np.testing.assert_allclose(found.function(X), exact.function(X), atol=(2 * bound) ** 0.5)


@pytest.mark.every("loss")
@pytest.mark.parametrize("basis", BASES[:2], ids=repr)
@pytest.mark.parametrize("d", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_all_losses(loss, d, basis):
    X, tol = POINTS[d], 1e-8 if loss.smooth else 1e-4
    terms = [
        *values(X, loss, 3.0 if loss.smooth else 1.0),
        rkhs.Term(rkhs.Evaluation(X[:5]), rkhs.Squared(), weight=0.1),  # which determines the constant
        rkhs.Term(rkhs.Gradient(X[:9]), rkhs.Squared(), weight=0.01),
    ]
    approximate, exact = problems(KERNELS[d], terms, basis, GRID if loss.smooth else rkhs.FourierGrid(1e-7))
    same(approximate.solve(tol=tol), exact.solve(tol=1e-8), X, tol, unit=2.0)


@pytest.mark.parametrize("loss", [rkhs.Huber(0.1), rkhs.losses.Absolute()], ids=repr)
@pytest.mark.parametrize("basis", BASES[1:], ids=repr)
def test_targets_far_from_zero(basis, loss):
    """At f = 0 no residual has curvature."""
    X = POINTS[1]
    terms = values(X, loss, 3.0, 300.0 + target(X))
    approximate, exact = problems(KERNELS[1], terms, basis, rkhs.FourierGrid(1e-7))
    same(approximate.solve(tol=1e-4), exact.solve(tol=1e-8), X, 1e-4, unit=4.0)


@pytest.mark.parametrize("loss", [rkhs.Squared(), rkhs.Huber(0.1)], ids=repr)
@pytest.mark.parametrize("basis", BASES, ids=repr)
def test_several_outputs(basis, loss):
    X = POINTS[2]
    Y = np.stack([target(X), np.cos(4 * X[:, 1]), np.zeros(len(X))], axis=1)
    terms = [rkhs.Term(rkhs.Evaluation(X), loss, Y, np.linspace(0, 20, len(X)))]
    found, exact = solutions(KERNELS[2], terms, basis)
    assert found.status == "converged"
    np.testing.assert_allclose(found.certificate.primal, exact.certificate.primal, rtol=1e-6, atol=1e-12)
    assert found.function(X).shape == (30, 3)
    np.testing.assert_allclose(found.function(X), exact.function(X), atol=1e-4)
    np.testing.assert_allclose(found.function(X)[:, 2], 0.0, atol=1e-9)


@pytest.mark.parametrize("loss", [rkhs.Squared(), rkhs.Huber(0.1)], ids=repr)
def test_weights_of_zero_and_missing_targets(loss):
    """They change nothing but the box of the points."""
    X = POINTS[2]
    y, slopes = target(X), np.cos(X)
    y[3:6], slopes[:, 1] = np.nan, np.nan
    weight = np.where(np.arange(len(X)) < 10, 0.0, 5.0)
    terms = [rkhs.Term(rkhs.Evaluation(X), loss, y, weight), rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), slopes, 0.1)]
    found, exact = (p.solve(tol=1e-10) for p in problems(KERNELS[2], terms, rkhs.Constant()))
    same(found, exact, X[10:], 1e-10)
    few = [
        rkhs.Term(rkhs.Evaluation(X[10:]), loss, y[10:], 5.0),
        rkhs.Term(rkhs.Derivative(X, axes=[0]), rkhs.Squared(), slopes[:, 0], 0.1),
    ]
    other = rkhs.Problem(KERNELS[2], few, rkhs.Constant(), approximation=GRID).solve(tol=1e-10)
    assert other.primal == pytest.approx(found.primal, rel=1e-8)


@pytest.mark.parametrize("size", [1e-6, 1e6], ids=["small targets", "large targets"])
@pytest.mark.parametrize(
    "unit", [pytest.param(1e-6, marks=pytest.mark.slow), 1e6], ids=["small points", "large points"]
)
@pytest.mark.parametrize("basis", [*(pytest.param(b, marks=pytest.mark.slow) for b in BASES[:2]), BASES[2]], ids=repr)
def test_units(basis, unit, size):
    """Values in other units, a long way from the origin: as in units of 1."""
    X, shift = POINTS[2], np.array([100.0, -3.0])

    def solve(a, b, offset):
        terms = [
            rkhs.Term(rkhs.Evaluation(a * (X + offset)), rkhs.Squared(), b * target(X), 30.0),
            rkhs.Term(rkhs.Gradient(a * (X[:5] + offset)), rkhs.Squared(), b / a, a**2),
        ]
        kernel = rkhs.Gaussian((a * 0.8, a * 1.2))
        return rkhs.Problem(kernel, terms, basis, approximation=GRID).solve(tol=1e-8)

    found, one = solve(unit, size, shift), solve(1.0, 1.0, 0.0)
    assert found.status == "converged"
    assert found.primal == pytest.approx(size**2 * one.primal, rel=1e-6)
    np.testing.assert_allclose(found.function(unit * (X + shift)), size * one.function(X), atol=1e-3 * size)


@pytest.mark.parametrize("loss", [rkhs.Huber(0.1), rkhs.losses.Absolute()], ids=repr)
@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_units_of_other_losses(loss, size):
    """Huber's threshold and the weights in the same units."""
    X = POINTS[1]
    scaled = replace(loss, **{name: size * value for name, value in vars(loss).items() if name == "delta"})
    weight = size if isinstance(loss, rkhs.losses.Absolute) else 1.0
    solutions = [
        rkhs.Problem(
            KERNELS[1],
            [rkhs.Term(rkhs.Evaluation(X), one, unit * target(X), w)],
            rkhs.Constant(),
            approximation=rkhs.FourierGrid(1e-6),
        ).solve(tol=1e-4)
        for one, unit, w in ((loss, 1.0, 1.0), (scaled, size, weight))
    ]
    assert [s.status for s in solutions] == ["converged", "converged"]
    assert solutions[1].primal == pytest.approx(size**2 * solutions[0].primal, rel=3e-4)


def test_zero_targets():
    for loss in (rkhs.Squared(), rkhs.Huber(0.1), rkhs.losses.Absolute()):
        term = rkhs.Term(rkhs.Evaluation(POINTS[1]), loss, 0.0, 10.0)
        for basis in BASES:
            solution = rkhs.Problem(KERNELS[1], [term], basis, approximation=rkhs.FourierGrid()).solve()
            assert (solution.status, solution.primal) == ("converged", 0.0)
            assert not np.any(solution.function(POINTS[1]))


def test_the_basis_may_separate_the_data():
    """The logistic loss has no minimum then."""
    X = POINTS[1]
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Logistic(), np.where(X[:, 0] > 0.5, 1.0, -1.0))
    approximate, exact = problems(KERNELS[1], [term], rkhs.Polynomials(1))
    with pytest.raises(rkhs.exceptions.UnattainedError):
        exact.solve()
    solution = approximate.solve(time_limit=1.0)
    assert solution.relative_gap >= 0  # whatever the status, the certificate is true
    assert solution.dual <= 1e-9


# Limits.


@pytest.mark.parametrize("loss", [rkhs.Squared(), rkhs.Huber(0.1), rkhs.losses.Absolute()], ids=repr)
@pytest.mark.parametrize("after", [0, 3])
def test_interrupts(loss, after, monkeypatch):
    """After some products: the best iterate so far, with a true certificate."""
    X = POINTS[2]
    approximate, exact = problems(KERNELS[2], values(X, loss, 300.0), rkhs.Constant())
    count, product = 0, normal_equations.NormalEquations.product

    def interrupted(self, tau):
        nonlocal count
        count += 1
        if count > after:
            raise KeyboardInterrupt
        return product(self, tau)

    monkeypatch.setattr(normal_equations.NormalEquations, "product", interrupted)
    stopped = approximate.solve(tol=1e-9)
    assert stopped.status == "interrupted"
    minimum = exact.solve(tol=1e-6)
    assert stopped.dual <= minimum.primal <= stopped.primal * (1 + 1e-6)


# The posterior.


@pytest.mark.parametrize("basis", [*(pytest.param(b, marks=pytest.mark.slow) for b in BASES[:2]), BASES[2]], ids=repr)
def test_the_posterior(basis):
    X, Z = POINTS[2], RNG.uniform(size=(4, 2))
    slopes = rkhs.Term(rkhs.Gradient(X[:3]), rkhs.Squared(), np.ones((3, 2, 2)), 2.0)
    terms = [*values(X, y=np.stack([target(X), 10 * target(X)], axis=1)), slopes]
    both = solutions(KERNELS[2], terms, basis, rkhs.FourierGrid(1e-7), 1e-10)
    found, exact = (solution.posterior for solution in both)
    np.testing.assert_allclose(found.amplitude, exact.amplitude, rtol=1e-5)
    L, M = rkhs.Evaluation(Z), rkhs.Gradient(Z)
    np.testing.assert_allclose(found.std(L), exact.std(L), rtol=1e-4)
    np.testing.assert_allclose(found.std(M), exact.std(M), rtol=1e-4)
    np.testing.assert_allclose(found.std(L, weight=3.0), exact.std(L, weight=3.0), rtol=1e-5)
    np.testing.assert_allclose(found.mean(M), exact.mean(M), atol=1e-3 * np.abs(exact.mean(M)).max())
    np.testing.assert_allclose(found.cov(L, M), exact.cov(L, M), atol=1e-5 * exact.cov(M).max())
    assert found.sample(M, 5, 0).shape == (5, 4, 2, 2)


def test_a_matrix_that_rounding_makes_indefinite_leaves_no_nan(monkeypatch):
    X = POINTS[1]
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), X[:, 0], 1.0)
    problem = rkhs.Problem(rkhs.Gaussian(0.5), [term], approximation=rkhs.FourierGrid())
    monkeypatch.setattr(normal_equations.NormalEquations, "product", lambda self, tau: -tau)
    found = problem.solve()
    assert found.status == "no further progress"
    assert np.all(np.isfinite(found.function(X)))


@pytest.fixture
def without_leading_block():
    """The block would contain the whole grid."""
    with with_limits(plain_iterations=10**6):
        yield


@pytest.mark.usefixtures("without_leading_block")
def test_variances_take_fewer_iterations_than_solutions(monkeypatch):
    """Of accurate data with a trend, whose equations are ill-conditioned: an error of variances is quadratic."""
    X = np.random.default_rng(0).uniform(size=(500, 2))
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), 100 * X[:, 0], 1e5)
    problem = rkhs.Problem(rkhs.Matern(0.5, 1.0), [term], rkhs.Constant(), approximation=rkhs.FourierGrid(modes=2000))
    covariance, M = problem.solve(tol=1e-2).source.given, rkhs.Evaluation(X[:3])
    products, own = [], normal_equations.NormalEquations.product
    counted = lambda self, tau: (products.append(1), own(self, tau))[1]  # noqa: E731
    monkeypatch.setattr(normal_equations.NormalEquations, "product", counted)
    variance, used = covariance.variance(M) - covariance.space.missing(M), len(products)
    np.testing.assert_allclose(variance, np.diag(covariance.covariance(M)), rtol=1e-3)
    assert used < 0.5 * (len(products) - used)


@pytest.mark.parametrize("basis", BASES[:2], ids=repr)
def test_sampled_variances(basis):
    """Of more than a hundred functionals; 100 samples have a relative error of 7 %, the same samples for all."""
    X, Z = POINTS[1], np.linspace(-0.1, 1.1, 150)[:, None]
    found, exact = (solution.posterior for solution in solutions(KERNELS[1], values(X), basis))
    L = rkhs.Evaluation(Z)
    ratio = found.std(L) / exact.std(L)
    assert ratio.min() > 0.7
    assert ratio.max() < 1.3
    assert abs(ratio.mean() - 1) < 0.1
    np.testing.assert_array_equal(found.std(L), found.std(L))


def test_undetermined_basis_functions():
    """Values on a line, and slopes alone."""
    X = np.stack([POINTS[1][:, 0], np.full(30, 0.5)], axis=1)
    both = solutions(KERNELS[2], values(X), rkhs.Polynomials(1), rkhs.FourierGrid(1e-4), 1e-6)
    found, exact = (solution.posterior for solution in both)
    few = rkhs.Evaluation([[0.3, 0.5], [0.3, 0.6]])
    for L in (few, rkhs.Evaluation(np.tile([[0.3, 0.5], [0.3, 0.6]], (51, 1)))):
        np.testing.assert_array_equal(np.isinf(found.std(L)), np.isinf(exact.std(L)))
    assert np.isinf(found.std(few)).tolist() == [False, True]
    slopes = [rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), np.cos(X), 1.0)]
    posterior = rkhs.Problem(KERNELS[2], slopes, rkhs.Constant(), approximation=GRID).solve().posterior
    assert np.all(np.isinf(posterior.std(few)))
    assert np.all(np.isfinite(posterior.std(rkhs.Gradient(X[:2]))))


# Difficult data.


DIFFICULT = {
    **{f"one point in R^{d}": np.full((1, d), 0.3) for d in (1, 2, 3)},
    "repeated points": np.repeat(POINTS[2][:10], 3, axis=0),
    "points on a line": np.stack([POINTS[1][:, 0], np.full(30, 0.5)], axis=1),
    "points on a diagonal": POINTS[1][:, [0, 0]],
}


@pytest.mark.parametrize("basis", BASES, ids=repr)
@pytest.mark.parametrize("name", DIFFICULT)
def test_points_that_are_dependent(name, basis):
    X = DIFFICULT[name]
    y = target(X) + (np.arange(len(X)) % 3 if "repeated" in name else 0.0)  # contradictory
    found, exact = solutions(KERNELS[X.shape[1]], values(X, y=y), basis, rkhs.FourierGrid(1e-7))
    same(found, exact, X, 1e-9)


@pytest.mark.parametrize("extent", [1e-12, 1e12])
def test_extreme_extents(extent):
    X = extent * POINTS[2]
    terms = [rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target(POINTS[2]), 20.0)]
    found, exact = (p.solve(tol=1e-8) for p in problems(rkhs.Gaussian(extent), terms, rkhs.Polynomials(1)))
    same(found, exact, X, 1e-8)
    # Against a kernel of scale 1 the points are one point, or too far apart.
    problem = rkhs.Problem(rkhs.Gaussian(1.0), terms, rkhs.Constant(), approximation=rkhs.FourierGrid())
    if extent < 1:
        mean = target(POINTS[2]).mean()
        np.testing.assert_allclose(problem.solve().function(X), mean, rtol=1e-3)
    else:
        with pytest.raises(MemoryError, match=r"needs [\d,]+ frequencies"):
            problem.solve()


@pytest.mark.parametrize("d", [1, 2, 3])
def test_far_away_there_is_only_the_basis(d):
    X = POINTS[d]
    terms = [rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), 7.0 + target(X), 20.0)]
    grid = rkhs.FourierGrid(1e-4)
    solution = rkhs.Problem(KERNELS[d], terms, rkhs.Polynomials(1), approximation=grid).solve(tol=1e-6)
    far = X + 1e3
    f = solution.function
    h = 1e-3
    slope = (f(far + h * np.eye(d)[0]) - f(far)) / h
    np.testing.assert_allclose(slope, slope[0], rtol=1e-6)  # a linear function
    np.testing.assert_allclose(rkhs.Derivative(far, axes=[0])(f), slope, rtol=1e-6)
    constant = rkhs.Problem(KERNELS[d], terms, rkhs.Constant(), approximation=grid).solve(tol=1e-6).function
    assert np.ptp(constant(far)) == 0
    alone = rkhs.Problem(KERNELS[d], terms, approximation=grid).solve(tol=1e-6).function
    np.testing.assert_array_equal(alone(far), 0.0)
    mixed = np.concatenate([X, far])
    np.testing.assert_allclose(alone(mixed), np.concatenate([alone(X), alone(far)]), atol=1e-8)
    assert alone(X[:0]).shape == (0,)


# Tuning.


@pytest.mark.slow
def test_tuning_finds_the_process():
    """A sample of a known process, by waves of a grid."""
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(20_000, 2))
    values = rkhs.Evaluation(X)
    space = rkhs.FourierGrid(1e-3).choose(rkhs.Matern(1.5, 0.2), [values])
    y = space.apply(values, rng.standard_normal(space.size)) + 0.3 * rng.standard_normal(len(X))
    term = rkhs.Term(values, rkhs.Squared(), y, rkhs.Tunable())
    problem = rkhs.Problem(rkhs.Matern(1.5, rkhs.Tunable()), [term], approximation=rkhs.FourierGrid(1e-2))
    tuned = problem.tune(functionals=500, random_state=0)
    assert tuned.tuning.functionals[1] == 20_000
    assert tuned.tuning.functionals[0] <= 600
    assert 0.1 < tuned.kernel.scale < 0.4
    solution = tuned.solve(tol=1e-3)
    noise = solution.posterior.amplitude / (2 * tuned.terms[0].weight) ** 0.5
    assert 0.2 < noise < 0.45


def sampled(terms, most=200, seed=0):
    return spatial_sample(terms, most, np.random.default_rng(seed))


def test_half_of_a_spatial_sample_has_near_neighbors():
    X = RNG.uniform(size=(5000, 2))
    (term,) = sampled([rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), 0.0)], 400)
    points = term.functional.parts[0].atoms.points
    distances = np.sort(np.linalg.norm(points[:, None] - points, axis=2) + 9 * np.eye(len(points)), axis=1)[:, 0]
    assert np.mean(distances < 0.02) > 0.4
    assert np.ptp(points, axis=0).min() > 0.9


def test_spatial_samples_of_few_functionals_are_all():
    terms = [rkhs.Term(rkhs.Evaluation(POINTS[2]), rkhs.Squared(), 1.0)]
    assert sampled(terms, 30) == terms
    assert sampled(terms, 31) == terms


FAMILIES_OF_SAMPLES = {
    "values": rkhs.Evaluation,
    "gradients": rkhs.Gradient,
    "differences": lambda X: rkhs.Difference(X, X[::-1]),
    "means": lambda X: rkhs.functionals.Average(X.reshape(-1, 4, 2)),
    "stack": lambda X: rkhs.stack([rkhs.Evaluation(X[:300]), rkhs.Gradient(X[:33])]),
    "unequal stack": lambda X: rkhs.stack([rkhs.Evaluation(X[:300]), rkhs.Evaluation(X[300:])]),
    "few points, many functionals": lambda X: rkhs.functionals.Hessian(X[:7]),
    "matrix": lambda X: np.eye(400)[::-1] @ rkhs.Evaluation(X),
    "boxes": lambda X: rkhs.Integral.boxes(X[:50], X[:50] + 0.1, nodes=3),
    "local deviations": lambda X: rkhs.functionals.LocalDeviation(X, 0.1),
}


@pytest.mark.parametrize("name", FAMILIES_OF_SAMPLES)
def test_spatial_samples_keep_pairs_together(name):
    """Functionals with their targets, those of a polynomial, and their weights, the exponentials of the targets."""
    X = RNG.uniform(size=(400, 2))
    L = FAMILIES_OF_SAMPLES[name](X)
    polynomial = lambda L: L(rkhs.Polynomials(2)).reshape(L.size, -1) @ np.arange(6.0)  # noqa: E731
    term = rkhs.Term(L, rkhs.Squared(), polynomial(L).reshape(L.shape), np.exp(polynomial(L)).reshape(L.shape))
    for most in (20, 41):
        if L.size <= most:
            continue
        (found,) = sampled([term], most)
        assert found.size < L.size or name.startswith("few points")
        np.testing.assert_allclose(found.target, polynomial(found.functional))
        np.testing.assert_allclose(found.weight, np.exp(found.target))


# Copies and repetitions.


@pytest.mark.parametrize("loss", [rkhs.Squared(), rkhs.Huber(0.1)], ids=repr)
def test_the_same_result_twice_with_the_norm_of_its_function(loss):
    X = POINTS[2]
    one, other = (rkhs.Problem(KERNELS[2], values(X, loss), approximation=GRID).solve(tol=1e-9) for _ in range(2))
    np.testing.assert_array_equal(one.function(X), other.function(X))
    assert "FourierGrid: " in repr(one)
    assert "frequencies" in repr(one)
    losses = 20.0 * np.sum(loss.value(one.function(X), target(X)))
    assert one.primal == other.primal == pytest.approx(one.function.norm() ** 2 / 2 + losses, rel=1e-9)


@pytest.mark.parametrize("count", [1, 120])  # exact variances, and sampled ones
def test_far_from_the_data_the_variance_is_that_of_the_prior(count):
    X = np.random.default_rng(0).uniform(size=(200, 2))
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(5 * X[:, 0]), weight=50.0)
    problem = rkhs.Problem(rkhs.Gaussian(0.3), [term], approximation=rkhs.FourierGrid())
    posterior = problem.solve().posterior
    far = np.full((count, 2), 100.0)
    np.testing.assert_allclose(posterior.std(rkhs.Evaluation(far)), posterior.amplitude, rtol=1e-3)
    slopes = posterior.std(rkhs.Gradient(far[:1]))
    np.testing.assert_allclose(slopes, posterior.amplitude / 0.3, rtol=1e-3)
    assert posterior.std(rkhs.Evaluation(X[:1]))[0] < 0.3 * posterior.amplitude


def test_samples_know_the_box_of_the_user():
    X = np.random.default_rng(0).uniform(size=(200, 2))
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(5 * X[:, 0]), weight=50.0)
    grid = rkhs.FourierGrid(box=([-3.0, -3.0], [4.0, 4.0]))
    posterior = rkhs.Problem(rkhs.Gaussian(0.5), [term], approximation=grid).solve().posterior
    away = np.full((150, 2), 3.5)  # inside of the box, but far from the data
    with with_limits(sampled_functions=200):
        np.testing.assert_allclose(posterior.std(rkhs.Evaluation(away)), posterior.amplitude, rtol=0.4)


@pytest.mark.parametrize("count", [80, pytest.param(3000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("weight", [1e4, 1e8])
@pytest.mark.parametrize("basis", BASES, ids=repr)
def test_close_fits_converge(weight, basis, count):
    """Close fits need the leading block of the preconditioner, and transforms of full accuracy.

    With 80 values, products of the first accuracy stagnate where the dual value is still negative.
    """
    X = np.random.default_rng(0).uniform(size=(count, 2))
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=np.sin(9 * X[:, 0]) * X[:, 1], weight=weight)
    solution = rkhs.Problem(rkhs.Matern(2.5, 0.5), [term], basis, approximation=rkhs.FourierGrid()).solve()
    assert solution.status == "converged"
    assert np.max(np.abs(solution.function(X) - term.target)) < 1e-2  # missing frequencies count as noise
