"""Galerkin and what it stands on: elimination of a few variables, directions that are kept, restarts."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import rkhs
from rkhs._core.finite.certificate import certify
from rkhs._core.finite.representers import VerifiedIterate
from rkhs._core.problem.problem import solve_to_tolerance
from rkhs.extend import Monitor
from rkhs.solvers._recycling import SearchSubspace

RNG = np.random.default_rng(4)
X = RNG.standard_normal((60, 3))
LABELS = np.where(X[:12, 0] + 0.4 * RNG.standard_normal(12) > 0, 1.0, -1.0)
SPACES = (
    (rkhs.Gaussian(1.5), None),
    (rkhs.Gaussian(1.5), rkhs.Constant()),
    (rkhs.kernels.Polyharmonic(3), None),
    (rkhs.kernels.Polyharmonic(3), rkhs.Polynomials(2)),
)


def problem(loss=None, space=SPACES[1], weight=5.0, target=LABELS, values=False, points=X, more=()):
    terms = [
        rkhs.Term(rkhs.Evaluation(points[:12]), loss or rkhs.Hinge(), target, weight),
        rkhs.Term(rkhs.Gradient(points), rkhs.Squared(), weight=0.2),
        *more,
    ]
    if values:  # a squared loss with a target shifts what is left
        terms.append(rkhs.Term(rkhs.Evaluation(X[20:30]), rkhs.Squared(), np.sin(X[20:30, 0]), 2.0))
    return rkhs.Problem(space[0], terms, space[1])


@pytest.fixture
def whole_products(gram_products):
    """Solves, and says how many products with the whole Gram operator that took; those with parts of it are thin."""

    def solved(problem, solver, tol):
        gram_products.clear()
        found, size = problem.solve(solver, tol=tol), problem.system.size
        return found, sum(shape == (size, size) for shape, _ in gram_products)

    return solved


def test_at_most_one_product_an_iteration_and_fewer_than_descent(whole_products):
    for loss in (rkhs.Hinge(), rkhs.SquaredHinge()):
        whole = problem(loss, weight=10.0)
        ours, count = whole_products(whole, rkhs.solvers.Galerkin(), 1e-3)
        _, more = whole_products(whole, rkhs.solvers.NonlinearCG(), 1e-3)
        assert count <= ours.iterations + 1  # and one in the end, for the certificate
        assert count < more * (1 if loss.smooth else 0.5)


@pytest.mark.parametrize("loss", [rkhs.Hinge(), rkhs.SquaredHinge(), rkhs.Logistic()], ids=repr)
def test_representers_of_labels_save_products(loss, whole_products, monkeypatch):
    """With them as first directions the same solution takes fewer products."""
    whole = problem(loss, weight=100.0)
    ours, count = whole_products(whole, rkhs.solvers.Galerkin(), 1e-6)
    monkeypatch.setattr(SearchSubspace, "add_representers", lambda *_: None)
    without, more = whole_products(whole, rkhs.solvers.Galerkin(), 1e-6)
    assert count < more
    assert ours.primal == pytest.approx(without.primal, rel=2e-6)


def check_directions(directions, system, convert=np.asarray):
    """Check D G D' = 1 and U = D G, and the images and moments that are kept for the first term."""
    count, rows = directions.count, system.terms[0].rows
    identity = convert(np.eye(count))
    G, (D, U) = np.asarray(system.gram.dense()), (np.asarray(array).T for array in directions.at(identity))
    tolerance = 1e3 * np.finfo(G.dtype).eps
    np.testing.assert_allclose(U, D @ G, atol=tolerance * np.abs(U).max() * np.abs(D).max())
    np.testing.assert_allclose(D @ U.T, np.eye(count), atol=tolerance * np.abs(D).max())
    E, weight, size = np.asarray(directions.images(rows)), np.asarray(system.terms[0].weight), count + 1
    np.testing.assert_allclose(
        directions.moments[0][:size, :size], E.T @ (weight * E), atol=tolerance * np.abs(E).max()
    )
    np.testing.assert_allclose(E[:, 1:], U[:, rows].T, atol=tolerance * np.abs(U).max() * np.abs(D).max())


@pytest.mark.parametrize("convert", [lambda a: a, lambda a: a.astype(np.float32), torch.from_numpy])
@pytest.mark.parametrize("repeated", [False, True])
def test_the_representers_are_orthonormal_directions_with_their_images(convert, repeated):
    """A point that is there twice adds one direction."""
    points = np.concatenate([X[:20], X[:1]]) if repeated else X[:20]
    labels = rkhs.Term(rkhs.Evaluation(convert(points)), rkhs.Hinge(), convert(np.ones(len(points))))
    flat = rkhs.Term(rkhs.Gradient(convert(X)), rkhs.Squared(), weight=0.2)
    system = rkhs.Problem(rkhs.Gaussian(1.5), [flat, labels], rkhs.Constant()).system
    directions = SearchSubspace(system, 30)
    directions.add_representers(system.other_rows, 30)
    assert directions.count == 20
    check_directions(directions, system, convert)


def test_a_restart_keeps_the_representers():
    """Directions are still orthonormal, with their images, and the point to be kept is in their span."""
    labels = rkhs.Term(rkhs.Evaluation(X[:9]), rkhs.Hinge(), LABELS[:9], 5.0)
    weight = 10 ** RNG.uniform(-1, 0, 75)
    flat = rkhs.Term(rkhs.Gradient(X[:25]), rkhs.Squared(), RNG.standard_normal((25, 3)), weight)
    system = rkhs.Problem(rkhs.Gaussian(1.2), [flat, labels], rkhs.Constant()).system
    directions = SearchSubspace(system, 24)
    directions.add_representers(system.other_rows, 9)
    V = RNG.standard_normal((system.size, 13))
    directions.add(V, system.gram @ V)
    theta = RNG.standard_normal((22, 1))
    a, image = directions.at(theta)
    R = directions.restart(theta)
    assert R.shape == (22, directions.count) == (22, 9 + 7)
    for found, expected in zip(directions.at(R.T @ theta), (a, image), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-10)
    check_directions(directions, system)


def test_leading_representers_are_those_that_see_most():
    """Of the values of functions of norm one at the labeled points, no other five directions see more."""
    labels = rkhs.Term(rkhs.Evaluation(X[:20]), rkhs.Logistic(), np.ones(20))
    system = rkhs.Problem(rkhs.Gaussian(1.5), [labels, rkhs.Term(rkhs.Gradient(X), rkhs.Squared())]).system
    directions = SearchSubspace(system, 30)
    directions.add_representers(system.other_rows, 5)
    assert directions.count == 5
    seen = np.linalg.svd(directions.U[:5, :20], compute_uv=False) ** 2
    everything = np.linalg.eigvalsh(system.gram.block(slice(20), slice(20)))[::-1]
    np.testing.assert_allclose(seen, everything[:5], rtol=1e-8)


@pytest.mark.parametrize(
    ("loss", "capacity"),  # with 8 directions hinges end at a gap of 5e-3, and say so
    [pytest.param(rkhs.Hinge(), 12, marks=pytest.mark.slow), (rkhs.Logistic(), 8)],
    ids=repr,
)
def test_a_restart_forgets_no_point(loss, capacity):
    """With room for a few directions it still converges, and J never rises."""
    whole = problem(loss, weight=100.0, space=SPACES[0])
    free = whole.solve(rkhs.solvers.Galerkin(), tol=1e-8)
    tight = whole.solve(rkhs.solvers.Galerkin(capacity=capacity), tol=1e-8)
    assert tight.products > capacity + 1  # more than there is room for
    assert tight.status == "converged"
    assert tight.primal == pytest.approx(free.primal, rel=2e-8)
    primals = np.array([record.primal for record in tight.history])
    assert np.all(np.diff(primals) <= 1e-9 * primals[0])


# Ten classes at once: what they cost in columns, and that their certificates are true.


DIGITS, CLASSES = load_digits(return_X_y=True)
DIGITS, CLASSES, LABELED = DIGITS[:500] / 16, CLASSES[:500], 60


def digits(loss, classes=10):
    target = np.where(CLASSES[:LABELED, None] == np.arange(classes), 1.0, -1.0)
    labels = rkhs.Term(rkhs.Evaluation(DIGITS[:LABELED]), loss, target, weight=10.0)
    flat = rkhs.Term(rkhs.Gradient(DIGITS), rkhs.Squared(), weight=0.03)
    return rkhs.Problem(rkhs.Gaussian(rkhs.kernels.median_scale(DIGITS)), [labels, flat], rkhs.Constant())


def test_ten_classes_cost_little_more_than_their_certificates(gram_products):
    """Two products with the gradients of all classes, one column to verify all images, and thin ones."""
    solution = digits(rkhs.SquaredHinge()).solve(rkhs.solvers.Galerkin(), tol=2e-2)
    assert solution.status == "converged"
    size = DIGITS.size + LABELED
    work = sum(np.prod(shape) * np.prod(columns[1:]) for shape, columns in gram_products)
    assert work / size**2 < 2 * 10 + 1 + 0.5  # in columns of the whole operator


@pytest.mark.parametrize("tol", [2e-2, 1e-4, 1e-8])
@pytest.mark.parametrize("loss", [rkhs.SquaredHinge(), rkhs.Logistic(), rkhs.Hinge()], ids=repr)
def test_certificates_are_true(loss, tol):
    """Computed from scratch, the gap is what the solver said."""
    whole = digits(loss, classes=4)
    system = whole.system
    found, _, _ = solve_to_tolerance(rkhs.solvers.Galerkin(), system, system.start(), Monitor(tol))
    scratch = certify(system, found, 0.0)
    assert scratch.relative <= tol
    if isinstance(found, VerifiedIterate):
        np.testing.assert_allclose(found.certificate.primal, scratch.primal, rtol=1e-9)
        assert np.all(found.certificate.dual <= scratch.primal * (1 + 1e-12))
        assert found.certificate.within(tol)
