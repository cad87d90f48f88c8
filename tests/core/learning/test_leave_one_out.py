"""Leaving out: against solving again, over kernels, functionals, bases and losses."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import rkhs
from refusals import refused
from registry import FAMILIES, KERNELS, bounded

RNG = np.random.default_rng(2)
X = RNG.uniform(size=(12, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1] ** 2
SLOPES = RNG.standard_normal((12, 2))


def problem(kernel, basis=None, loss=None, target=Y):
    values = rkhs.Term(rkhs.Evaluation(X), loss or rkhs.Squared(), target, np.linspace(5.0, 20.0, 12))
    return rkhs.Problem(kernel, [values, rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), SLOPES, 0.5)], basis)


def refitted(problem, labels, tol=1e-12):
    """Predictions by solutions without each group in turn."""
    found = [np.zeros(term.target.shape) for term in problem.terms]
    for label in np.unique(np.concatenate(labels)):
        terms = [
            term.changed(weight=np.where(own == label, 0.0, term.weights()[:, 0]))
            for term, own in zip(problem.terms, labels, strict=True)
        ]
        function = replace(problem, terms=terms).solve(tol=tol).function
        for predictions, term, own in zip(found, terms, labels, strict=True):
            values = term.functional(function).reshape(predictions.shape)
            predictions[own == label] = values[own == label]
    return [own.reshape(term.functional.shape) for own, term in zip(found, problem.terms, strict=True)]


LABELS = {
    "each": (None, [np.arange(12), 12 + np.arange(24)]),
    "points": ("points", [np.arange(12), np.arange(12).repeat(2)]),
    "labels": ([np.arange(12) % 3, np.arange(24) % 3], [np.arange(12) % 3, np.arange(24) % 3]),
}


@pytest.mark.parametrize("groups", LABELS)
@pytest.mark.parametrize(
    ("kernel", "basis"),
    [
        (rkhs.Gaussian((0.4, 0.8)), None),
        (rkhs.Matern(2.5, 0.6), rkhs.Polynomials(1)),
        (rkhs.kernels.Polyharmonic(3), None),
    ],
    ids=["Gaussian", "with a basis", "conditionally positive definite"],
)
def test_as_solving_again(kernel, basis, groups):
    given_groups, labels = LABELS[groups]
    ours = problem(kernel, basis)
    found = ours.leave_out(given_groups)
    assert found.exact
    for term, own, left, expected in zip(
        ours.terms, found.predictions, found.residuals, refitted(ours, labels), strict=True
    ):
        np.testing.assert_allclose(own, expected, atol=1e-9)
        np.testing.assert_allclose(left, term.target.reshape(term.functional.shape) - expected, atol=1e-9)


@pytest.mark.slow
@given(st.sampled_from(sorted(KERNELS)), st.sampled_from([None, rkhs.Constant()]), st.integers(0, 2**32 - 1))
@settings(max_examples=8, deadline=None)
def test_over_kernels_and_functionals(name, basis, seed):
    kernel, rng = KERNELS[name].make(2), np.random.default_rng(seed)
    Z = rng.standard_normal((8, 2))
    family = rng.choice(bounded(kernel, 2))
    L = FAMILIES[family].make(Z)
    terms = [
        rkhs.Term(rkhs.Evaluation(rng.standard_normal((9, 2))), rkhs.Squared(), rng.standard_normal(9), 2.0),
        rkhs.Term(L, rkhs.Squared(), rng.standard_normal(L.shape), rng.uniform(0.5, 5.0)),
    ]
    ours = rkhs.Problem(kernel, terms, basis)
    labels = [rng.integers(0, 4, 9), rng.integers(0, 4, L.size)]
    few = np.concatenate(labels)
    if any(np.linalg.matrix_rank(ours.system.Q[few != g], 1e-6) < ours.system.Q.shape[1] for g in range(4)):
        return  # polynomials of high order that are not determined without a group
    found = ours.leave_out(labels)
    for own, expected in zip(found.predictions, refitted(ours, labels), strict=True):
        np.testing.assert_allclose(own, expected, atol=1e-7 * max(1.0, np.abs(expected).max()))


def test_several_outputs():
    both = problem(rkhs.Gaussian(0.5), rkhs.Constant(), target=np.stack([Y, Y**2], axis=1))
    found = both.leave_out("points")
    assert found.residuals[0].shape == (12, 2)
    assert found.residuals[1].shape == (12, 2, 2)
    for k, target in enumerate((Y, Y**2)):
        alone = problem(rkhs.Gaussian(0.5), rkhs.Constant(), target=target).leave_out("points")
        for own, expected in zip(found.residuals, alone.residuals, strict=True):
            np.testing.assert_allclose(own[..., k], expected, atol=1e-10)


@pytest.mark.parametrize("loss", [rkhs.Logistic(), rkhs.SquaredHinge()], ids=repr)
def test_smooth_losses_by_one_step(loss):
    """Nearer to the truth than the solution with all points by an order, and said to be no more than that."""
    ours = problem(rkhs.Gaussian(0.5), rkhs.Constant(), loss, target=np.sign(Y - 0.5))
    found = ours.leave_out("points")
    assert not found.exact
    expected = refitted(ours, LABELS["points"][1])[0]
    whole = ours.solve(tol=1e-10).function(X)
    assert np.abs(found.predictions[0] - expected).max() < 0.5 * np.abs(whole - expected).max()
    assert np.median(np.abs(found.predictions[0] - expected)) < 0.1 * np.median(np.abs(whole - expected))


def test_a_step_is_exact_where_losses_are_squared():
    """Huber with a wide middle is the squared loss."""
    exact, step = (problem(rkhs.Gaussian(0.5), rkhs.Constant(), loss) for loss in (None, rkhs.Huber(1e6)))
    for own, expected in zip(step.leave_out("points").predictions, exact.leave_out("points").predictions, strict=True):
        np.testing.assert_allclose(own, expected, atol=1e-6)


def test_functionals_of_weight_zero_are_not_seen_anyway():
    weight = np.where(np.arange(12) < 9, 10.0, 0.0)
    ours = rkhs.Problem(rkhs.Gaussian(0.5), [rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), Y, weight)])
    nothing = rkhs.Term(rkhs.Evaluation(X[:0]), rkhs.Squared(), Y[:0])
    found, none = replace(ours, terms=[*ours.terms, nothing]).leave_out().predictions
    assert none.shape == (0,)
    np.testing.assert_allclose(found[9:], ours.solve(tol=1e-12).function(X[9:]), atol=1e-10)


def test_a_poor_solution_is_told(monkeypatch):
    whole = problem(rkhs.Gaussian(0.5), loss=rkhs.Logistic(), target=np.sign(Y - 0.5))
    solve = rkhs.Problem.solve
    monkeypatch.setattr(
        rkhs.Problem, "solve", lambda self, **_: solve(self, rkhs.solvers.NonlinearCG(max_iterations=1), tol=1e-9)
    )
    with pytest.warns(UserWarning, match="has not converged: Solution"):
        whole.leave_out()


OURS = problem(rkhs.Gaussian(0.5))
test_what_is_refused = refused(
    (problem(rkhs.Gaussian(0.5), loss=rkhs.Hinge(), target=np.sign(Y)).leave_out, "smooth losses.*Hinge.*held_out"),
    (lambda: OURS.leave_out([np.arange(3), np.arange(24)]), "12 points in R"),
    (lambda: OURS.leave_out(np.arange(36)), "for each of 2 terms"),
    (lambda: OURS.leave_out("folds"), 'must be None, "points"'),
    (lambda: replace(OURS, basis=rkhs.Constant()).leave_out([np.zeros(12), np.ones(24)]), "do not determine the basis"),
    (replace(OURS, approximation=rkhs.FourierGrid()).leave_out, "not implemented with approximation"),
)
