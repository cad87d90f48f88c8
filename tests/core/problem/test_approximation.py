"""Problems on spans of p functions: exact with their own functionals, optimal in the span, certified there."""

import cvxpy
import numpy as np
import pytest
import torch

import problems
import rkhs
from refusals import refused
from rkhs._core.limits import with_limits

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
LOSSES = (rkhs.Squared(), rkhs.Logistic(), rkhs.Hinge(), rkhs.SquaredHinge())
KERNELS = (
    rkhs.Gaussian(1.2),
    rkhs.Matern(2.5, 1.0),
    rkhs.kernels.Polyharmonic(3),
    rkhs.Gaussian(1.0) + 0.1 * rkhs.kernels.Linear(),
)
BASES = (None, rkhs.Constant(), rkhs.Polynomials(1))


def terms(loss):
    return [
        rkhs.Term(rkhs.Evaluation(X[:20]), loss, Y[:20], 10.0),
        rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.1),
        rkhs.Term(rkhs.Difference(X[:10], -X[:10]), rkhs.Huber(0.1)),
        rkhs.Term(rkhs.functionals.LocalAverage(X[:5], 0.3), rkhs.Squared(), target=Y[:5], weight=np.arange(5.0)),
    ]


def objective(solution, kernel_terms):
    """J(f) from the function alone."""
    f = solution.function
    risk = 0.0
    for term in kernel_terms:
        u = np.asarray(term.functional(f)).reshape(term.size)
        risk += np.sum(term.weight * term.loss.value(u, np.asarray(term.target)))
    return f.norm() ** 2 / 2 + risk


@pytest.mark.parametrize(
    ("loss", "kernel", "basis"),
    [
        (loss, kernel, basis)
        for i, loss in enumerate(LOSSES)
        for j, (kernel, basis) in enumerate(zip(KERNELS, (*BASES, None), strict=True))
        if (i + j) % 2 == 0
    ],
    ids=repr,
)
def test_own_functionals_give_the_exact_solution(loss, kernel, basis):
    some = terms(loss)[: 3 if isinstance(kernel, rkhs.Matern) else 4]  # whose averages are integrals by nodes
    own = rkhs.Landmarks(rkhs.stack([term.functional for term in some]))
    exact = rkhs.Problem(kernel, some, basis).solve(tol=1e-9)
    found = rkhs.Problem(kernel, some, basis, approximation=own).solve(tol=1e-9)
    assert found.status == "converged"
    assert abs(found.primal / exact.primal - 1) < 1e-8
    assert np.abs(found.function(X) - exact.function(X)).max() < 1e-3  # sqrt of the gap of the exact one
    enough = rkhs.Problem(kernel, some, basis, approximation=rkhs.Landmarks(1000)).solve(tol=1e-9)
    assert abs(enough.primal / exact.primal - 1) < 1e-8


SPANS = {
    "values": rkhs.Landmarks(rkhs.Evaluation(X[:15])),
    "derivatives": rkhs.Landmarks(rkhs.stack([rkhs.Evaluation(X[:8]), rkhs.Gradient(X[20:24])])),
    "differences": rkhs.Landmarks(rkhs.Difference(X[:15], X[15:30])),
    "chosen": rkhs.Landmarks(60),
    "random": rkhs.Landmarks(40, selection="random", derivatives=0.5, random_state=3),
    "waves": rkhs.FourierFeatures(40),
}


@pytest.mark.parametrize("span", SPANS.values(), ids=SPANS)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_optimal_in_the_span(loss, span):
    """Against cvxpy on the rows of the span; the value is that of the function itself."""
    basis, kernel = rkhs.Constant(), rkhs.Gaussian(1.2)
    found = rkhs.Problem(kernel, terms(loss), basis, approximation=span).solve(tol=1e-8)
    assert found.status == "converged"
    assert found.primal == pytest.approx(objective(found, terms(loss)), rel=1e-9)
    assert found.primal == pytest.approx(least_in_span(found.function, terms(loss), basis), rel=1e-6)
    assert found.certificate.uncertain < 1e-9  # the rounding that is stated
    assert "span" in repr(found)


def least_in_span(f, kernel_terms, basis):
    """The minimum over the functions of the span of f, by cvxpy."""
    if isinstance(f, rkhs.results.Function):
        K = rkhs.gram(f.kernel, f.functionals).dense()
        rows = lambda L: rkhs.gram(f.kernel, L, f.functionals).dense()  # noqa: E731
    else:
        K, rows = np.eye(f.features.size), f.features.rows
    sizes, vectors = np.linalg.eigh(K)
    kept = sizes > 1e-12 * sizes[-1]
    R = vectors[:, kept] / np.sqrt(sizes[kept])
    tau, c = cvxpy.Variable(R.shape[1]), cvxpy.Variable(1)
    cost = cvxpy.sum_squares(tau) / 2
    for term in kernel_terms:
        u = (rows(term.functional) @ R) @ tau + term.functional.assemble(basis.on) @ c
        cost += problems.cvxpy_risk(term.loss, u, np.asarray(term.target), np.broadcast_to(term.weight, term.size))
    return cvxpy.Problem(cvxpy.Minimize(cost)).solve(solver=cvxpy.CLARABEL)


@pytest.mark.parametrize("loss", [rkhs.Squared(), rkhs.Logistic()], ids=repr)
def test_several_outputs_are_several_problems(loss):
    targets, flat = np.where(np.arange(3) == (np.arange(20) % 3)[:, None], 1.0, -1.0), terms(loss)[1]

    def solved(y):
        labels = rkhs.Term(rkhs.Evaluation(X[:20]), loss, y)
        return (
            rkhs.Problem(KERNELS[0], [labels, flat], rkhs.Constant(), approximation=SPANS["values"]).solve().function(X)
        )

    np.testing.assert_allclose(solved(targets)[:, 1], solved(targets[:, 1]), atol=1e-8)


@pytest.mark.every
@pytest.mark.parametrize(("kind", "rel"), [(np.float32, 1e-5), (torch.from_numpy, 1e-6)], ids=["float32", "tensors"])
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_arrays_of_other_kinds(loss, kind, rel):
    def solved(convert):
        points = convert(X)
        labels = rkhs.Term(rkhs.Evaluation(points), loss, convert(Y))
        flat = rkhs.Term(rkhs.Gradient(points), rkhs.Squared(), weight=0.1)
        span = rkhs.Landmarks(rkhs.Evaluation(points[:20]))
        return rkhs.Problem(rkhs.Gaussian(2.0), [labels, flat], rkhs.Constant(), approximation=span).solve()

    found = solved(kind)
    assert type(found.function(kind(X))) is type(kind(X))
    assert found.primal == pytest.approx(solved(np.asarray).primal, rel=rel)


def test_many_rows_of_a_loss_with_kinks():
    """Beyond a few rows kinks are smoothed, less and less, and the certificate is still that of the kinks."""
    problem = rkhs.Problem(rkhs.Gaussian(1.2), terms(rkhs.Hinge()), rkhs.Constant(), approximation=SPANS["values"])
    exact = problem.solve(tol=1e-8)
    with with_limits(kinked_rows=5):
        found = problem.solve(tol=1e-6)
    assert found.relative_gap <= 1e-6
    assert found.primal == pytest.approx(exact.primal, rel=1e-6)


@pytest.mark.parametrize("span", SPANS.values(), ids=SPANS)
@pytest.mark.parametrize("uneven", [False, True])
def test_values_and_gradients_at_the_same_points(span, uneven):
    """The sums of the values are used again for the gradients, where that is right."""
    weight = np.linspace(1, 2, 40) if uneven else 2.0
    both = [
        rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), Y, weight),
        rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.3),
    ]
    found = rkhs.Problem(rkhs.Gaussian(1.2), both, approximation=span).solve()
    assert found.primal == pytest.approx(objective(found, both), rel=1e-9)


def test_derivatives_as_landmarks_earn_their_place():
    """Few labels, gradients at all points: p functions with derivatives beat p values."""
    points = np.random.default_rng(1).normal(size=(150, 6))
    target = np.sign(points[:30, 0] * points[:30, 1])
    both = [
        rkhs.Term(rkhs.Evaluation(points[:30]), rkhs.Logistic(), target, 10.0),
        rkhs.Term(rkhs.Gradient(points), rkhs.Squared(), weight=1.0),
    ]
    kernel = rkhs.Gaussian(rkhs.kernels.median_scale(points))
    best = rkhs.Problem(kernel, both).solve(tol=1e-8).primal
    excess = []
    for derivatives in (0.0, 0.25):
        chosen = rkhs.Landmarks(200, derivatives=derivatives)
        found = rkhs.Problem(kernel, both, approximation=chosen).solve()
        excess.append(found.primal / best - 1)
    assert 0 <= excess[1] < excess[0] / 2


def _problem(loss=LOSSES[0], kernel=KERNELS[0], **options):
    return rkhs.Problem(kernel, terms(loss), **options)


@pytest.mark.parametrize("gradients", [False, True])
def test_landmarks_are_more_than_the_null_space_has_functions(gradients):
    """Linear functions of three variables are four: they vanish on landmarks, and leave nothing of four of these."""
    flat = [rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.1)] if gradients else []
    rows = [rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), Y, 10.0), *flat]
    for few in (rkhs.Landmarks(3), rkhs.Landmarks(4), rkhs.Landmarks(rkhs.Evaluation(X[:4]))):
        problem = rkhs.Problem(rkhs.kernels.Polyharmonic(3), rows, approximation=few)
        for solve in (problem.solve, lambda problem=problem: problem.grid({0: [1.0]})):
            with pytest.raises(
                ValueError, match=r"Polyharmonic.*Polynomials\(degree=1\), has 4 functions.* at least 5"
            ):
                solve()
    for derivatives in (0.0, 0.25, 0.9):
        for count in (5, 6, 7, 10):
            span = rkhs.Landmarks(count, derivatives=derivatives)
            assert rkhs.Problem(rkhs.kernels.Polyharmonic(3), rows, approximation=span).solve().status == "converged"


def test_three_rows_need_no_more_landmarks_than_rows():
    """The problem's own functionals are its landmarks, and the solution is that of the whole space."""
    rows = [rkhs.Term(rkhs.Evaluation(X[:3]), rkhs.Squared(), Y[:3], 10.0)]
    span = rkhs.Problem(rkhs.kernels.Polyharmonic(3), rows, approximation=rkhs.Landmarks(100))
    assert span.solve().primal < 1e-12


@pytest.mark.parametrize("basis", [None, rkhs.Constant()], ids=repr)
def test_landmarks_that_share_an_array_with_a_term_are_not_its_functionals(basis):
    """Differences whose points are those of the values: the span was taken for the whole space."""
    values = rkhs.Evaluation(X)
    term = rkhs.Term(values, rkhs.Squared(), Y, 10.0)
    exact = rkhs.Problem(rkhs.Gaussian(1.2), [term], basis).solve()
    for shared, apart in (
        (rkhs.Difference(values.X, -values.X), rkhs.Difference(X.copy(), -X)),
        (rkhs.Difference(values.X, -values.X).take(np.arange(20)), rkhs.Difference(X[:20].copy(), -X[:20])),
        (0.5 * values + rkhs.Evaluation(-values.X), 0.5 * rkhs.Evaluation(X.copy()) + rkhs.Evaluation(-X)),
        (rkhs.Gradient(values.X), rkhs.Gradient(X.copy())),
    ):
        one, other = (
            rkhs.Problem(rkhs.Gaussian(1.2), [term], basis, approximation=rkhs.Landmarks(landmarks)).solve()
            for landmarks in (shared, apart)
        )
        assert one.primal == pytest.approx(other.primal, rel=1e-6)
        assert one.primal > (1 + 1e-4) * exact.primal
    for landmarks in (values, rkhs.Evaluation(X.copy()), rkhs.stack([rkhs.Gradient(X), rkhs.Evaluation(X.copy())])):
        own = rkhs.Problem(rkhs.Gaussian(1.2), [term], basis, approximation=rkhs.Landmarks(landmarks)).solve()
        assert own.primal == pytest.approx(exact.primal, rel=1e-6)


@pytest.mark.parametrize("loss", [rkhs.Huber(0.3), rkhs.losses.Absolute(), rkhs.losses.SquaredOneSided()], ids=repr)
@pytest.mark.parametrize("family", [rkhs.Gradient(X), rkhs.Difference(X, -X), rkhs.functionals.Laplacian(X)], ids=repr)
def test_a_basis_that_the_functionals_do_not_see(family, loss):
    """The dual point was projected to arbitrary directions: gaps of 2 to 190 %, "no further progress"."""
    target = np.random.default_rng(0).normal(size=family.shape)
    for basis in (rkhs.Constant(), rkhs.Polynomials(1)):
        for approximation in (SPANS["values"], rkhs.FourierFeatures(30, random_state=0)):
            seen = [rkhs.Term(rkhs.Difference(X[:9], X[9:18]), rkhs.Squared(), Y[:9])]
            for more in ([], seen):
                some = [rkhs.Term(family, loss, target, 10.0), *more]
                found = rkhs.Problem(rkhs.Gaussian(1.0), some, basis, approximation=approximation).solve()
                assert found.status == "converged", found


@pytest.mark.parametrize("distance", [0.0, 1e-8, 1e-9, 1e-13])
def test_landmarks_that_rounding_does_not_tell_apart(distance):
    """J was up to three times that of the span, and "converged"; landmarks that repeat others lose nothing."""
    centers = RNG.uniform(size=(6, 2))
    moved = centers + distance * RNG.normal(size=(6, 2))
    points = RNG.uniform(size=(30, 2))
    term = rkhs.Term(rkhs.Evaluation(points), rkhs.Squared(), np.sin(6 * points[:, 0]), 10.0)
    span = rkhs.Landmarks(rkhs.Evaluation(np.concatenate([centers, moved])))
    found = rkhs.Problem(rkhs.Gaussian(0.4), [term], approximation=span).solve()
    if distance == 0:
        assert found.status == "converged"
        return
    slopes = rkhs.functionals.DirectionalDerivative(
        centers, (moved - centers) / distance
    )  # the span, but for its rounding
    limit = rkhs.Landmarks(rkhs.stack([rkhs.Evaluation(centers), slopes]))
    least = rkhs.Problem(rkhs.Gaussian(0.4), [term], approximation=limit).solve()
    assert least.primal < 0.99 * found.primal
    assert found.status == "functions hidden by rounding"
    assert found.dual <= least.primal


def test_landmarks_beyond_number_lose_nothing():
    """Random ones are as near, but others make up for what rounding hides."""
    points = np.linspace(0, 1, 500)[:, None]
    term = rkhs.Term(rkhs.Evaluation(points), rkhs.Squared(), np.sin(6 * points[:, 0]), 10.0)
    span = rkhs.Landmarks(rkhs.Evaluation(np.random.default_rng(0).uniform(size=(300, 1))))
    found = rkhs.Problem(rkhs.Gaussian(0.5), [term], approximation=span).solve()
    assert "numerical rank" in found.span
    assert found.status == "converged"


def few_bytes(call):
    """Call with a limit on the rows that a problem in memory may keep."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rkhs._core.finite.sums.KEPT_BYTES", 1000)
        call()


class Nothing(rkhs.extend.Approximation):
    def choose(self, kernel, families, pilot):
        return None


FEW = rkhs.Landmarks(5)
test_errors_name_the_remedy = refused(
    (lambda: rkhs.Landmarks(0), "positive integer"),
    (lambda: rkhs.FourierFeatures(2.5), "positive integer"),
    (lambda: rkhs.Landmarks(5, selection="best"), "k-means"),
    (lambda: rkhs.Landmarks(5, derivatives=2.0), "between 0 and 1"),
    (lambda: _problem(approximation=7), "rkhs.Landmarks", TypeError),
    (lambda: _problem(approximation=FEW).grid({}, held_out={0: [[0]], 1: [[0], [1]]}), "same number of folds"),
    (lambda: _problem(approximation=FEW).solve(rkhs.solvers.NonlinearCG()), "solved directly"),
    (lambda: _problem(approximation=FEW).solve(callback=print), "solved directly"),
    (lambda: _problem(approximation=Nothing()).solve(), "Nothing.* must choose an rkhs.extend.FiniteSpace", TypeError),
    (
        lambda: few_bytes(_problem(rkhs.Logistic(), approximation=SPANS["values"]).solve),
        "20 rows with the loss Logistic.*StreamedProblem",
        MemoryError,
    ),
    *(
        (
            lambda span=span: _problem(kernel=rkhs.Matern(0.5), approximation=span).solve(),
            "Matern",
            rkhs.exceptions.NotBoundedError,
        )
        for span in (FEW, rkhs.FourierFeatures(5))
    ),
    *(
        (
            lambda model=model, learn=learn: getattr(model(approximation=100), learn)(X, Y > 0),
            r"approximation must be None, rkhs.Landmarks\(p\)",
            TypeError,
        )
        for model in (rkhs.InvariantClassifier, rkhs.InvariantRegressor)
        for learn in ("fit", "partial_fit")
    ),
)
