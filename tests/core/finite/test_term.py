"""Terms: what they accept as targets and weights, and what they refuse."""

import numpy as np
import pytest
import torch

import rkhs
from refusals import refused
from rkhs._core.finite.representers import RepresenterTerms

X = np.random.default_rng(0).standard_normal((4, 3))
values, gradients = rkhs.Evaluation(X), rkhs.Gradient(X)


@pytest.mark.every
@pytest.mark.parametrize(
    ("target", "outputs"),
    [
        (0.5, None),
        (np.arange(12.0).reshape(4, 3), None),
        (np.arange(24.0).reshape(4, 3, 2), 2),
        (np.ones((4, 3, 1)), 1),
    ],
    ids=["a number for all", "the shape of the family", "two outputs", "one output"],
)
def test_shapes_of_targets(target, outputs):
    term = rkhs.Term(gradients, rkhs.Squared(), target)
    assert (term.size, term.outputs) == (12, outputs)
    shape = (12,) if outputs is None else (12, outputs)
    np.testing.assert_array_equal(term.target, np.broadcast_to(target, (4, 3, *shape[1:])).reshape(shape))


def test_targets_are_in_the_dtype_and_library_of_the_points():
    term = rkhs.Term(rkhs.Evaluation(torch.asarray(X, dtype=torch.float32)), rkhs.Hinge(), target=[1, -1, 1, 1])
    assert isinstance(term.target, torch.Tensor)
    assert term.target.dtype == torch.float32
    assert term.weights().dtype == torch.float32
    assert tuple(term.weights().shape) == (4, 1)


@pytest.mark.parametrize("weight", [2.0, np.arange(1.0, 13.0)])
@pytest.mark.parametrize("approximation", [None, rkhs.Landmarks(5)])
def test_what_was_not_observed_is_left_out(weight, approximation):
    rng = np.random.default_rng(1)
    target = rng.standard_normal((4, 3))
    target[0, 1] = target[2, 0] = target[2, 2] = np.nan
    known = np.flatnonzero(~np.isnan(target))
    term = rkhs.Term(gradients, rkhs.Squared(), target, weight)
    np.testing.assert_array_equal(term.observed_target, target)
    np.testing.assert_array_equal(term.changed(weight=3.0).weight, np.where(np.isnan(target), 0.0, 3.0).reshape(-1))
    few = rkhs.Term(
        gradients.take(known), rkhs.Squared(), target.reshape(-1)[known], np.broadcast_to(weight, 12)[known]
    )
    options = {"basis": rkhs.Constant(), "approximation": approximation}
    if approximation is not None:
        options["approximation"] = rkhs.Landmarks(rkhs.Evaluation(X))
    new = rkhs.Evaluation(rng.standard_normal((5, 3)))
    one, other = (rkhs.Problem(rkhs.Gaussian(1.0), [t], **options).solve(tol=1e-10).function for t in (term, few))
    np.testing.assert_allclose(new(one), new(other), atol=1e-6)


def test_residuals_of_what_was_not_observed_are_unknown():
    term = rkhs.Term(values, rkhs.Squared(), [1.0, np.nan, 0.0, 2.0])
    left = rkhs.Problem(rkhs.Gaussian(1.0), [term]).leave_out()
    np.testing.assert_array_equal(np.isnan(left.residuals[0]), [False, True, False, False])
    assert np.all(np.isfinite(left.predictions[0]))


def test_open_weights_leave_out_what_was_not_observed():
    term = rkhs.Term(values, rkhs.Squared(), [1.0, np.nan, 0.0, 2.0], rkhs.Tunable())
    problem = rkhs.Problem(rkhs.Gaussian(1.0), [term]).tune()
    np.testing.assert_array_equal(problem.terms[0].weight > 0, [True, False, True, True])


def test_outputs_share_what_was_observed():
    target = np.ones((4, 2))
    target[1] = np.nan
    np.testing.assert_array_equal(rkhs.Term(values, rkhs.Squared(), target).observed, [True, False, True, True])


def test_classes_may_be_unknown():
    assert rkhs.Term(values, rkhs.Hinge(), [1, np.nan, -1, 1]).weight.tolist() == [1.0, 0.0, 1.0, 1.0]


def test_weights():
    assert rkhs.Term(values, rkhs.Squared(), weight=2).weight == 2.0
    many = np.arange(12.0).reshape(4, 3)
    for weight in (many, many.ravel(), torch.asarray(many), many.tolist()):
        term = rkhs.Term(gradients, rkhs.Squared(), weight=weight)
        np.testing.assert_array_equal(term.weight, np.arange(12.0))
        np.testing.assert_array_equal(term.weights(), np.arange(12.0)[:, None])


def test_repr():
    assert repr(rkhs.Term(values, rkhs.Huber(1), weight=3)) == (
        "Term(Evaluation(4 points in R^3), Huber(delta=1.0), weight=3.0)"
    )
    assert repr(rkhs.Term(values, rkhs.losses.Absolute(), weight=np.ones(4))).endswith("Absolute(), weight=4 weights)")


# What becomes of terms in the finite problem.


def test_conjugates_are_of_the_weighted_losses():
    """sum_i w_i loss*(-alpha_i / w_i) = sup_u -alpha'u - sum_i w_i loss(u_i), in the box."""
    rng = np.random.default_rng(3)
    weight = 10 ** rng.uniform(-12, 12, 4)
    target = rng.standard_normal(4)
    system = RepresenterTerms.of(rkhs.Gaussian(), [rkhs.Term(values, rkhs.Huber(0.5), target, weight)], None).system
    low, high = system.box
    np.testing.assert_allclose(high[:, 0], weight)
    np.testing.assert_allclose(low[:, 0], -weight)
    u = rng.standard_normal((4, 1))
    alpha = -system.gradient(u)
    young = system.loss(u) + system.conjugate(alpha) + np.sum(alpha * u, axis=0)
    np.testing.assert_allclose(young, 0.0, atol=1e-13 * float(weight.max()))


@pytest.mark.parametrize("shape", [(4, 3), (4, 3, 2)], ids=["one output", "two"])
def test_a_part_of_a_term_is_changed(shape):
    term = rkhs.Term(gradients, rkhs.Squared(), np.arange(np.prod(shape), dtype=float).reshape(shape), np.arange(12.0))
    other = term.changed(loss=rkhs.Huber(0.5))
    assert other.loss == rkhs.Huber(0.5)
    np.testing.assert_array_equal(other.target, term.target)
    np.testing.assert_array_equal(other.weight, term.weight)
    np.testing.assert_array_equal(term.changed(target=0.0, weight=2.0).target, np.zeros(12))


NOT_CLASSES = [0.0, [0, 1, 0, 1], [1, 2, 1, 2], [[1.0, -1.0, 0.5]] * 4]
CLASSIFYING = [rkhs.Hinge(), rkhs.SquaredHinge(), rkhs.losses.SmoothedHinge(0.1), rkhs.Logistic()]
test_what_is_refused = refused(
    *(
        (
            lambda shape=shape: rkhs.Term(gradients, rkhs.Squared(), np.zeros(shape)),
            r"target has shape .* needs \(4, 3\)",
        )
        for shape in [(3,), (12,), (4, 2), (3, 4), (4, 3, 2, 2), (0,)]
    ),
    *(
        (lambda loss=loss, target=target: rkhs.Term(values, loss, target), r"needs targets \+1 and -1")
        for plain in CLASSIFYING
        for loss in (plain, plain.smoothed(0.1))
        for target in NOT_CLASSES
    ),
    (lambda: rkhs.Term(values, rkhs.Squared(), [0.0, np.inf, 0.0, 0.0]), "target contains NaN or infinity"),
    (lambda: rkhs.Term(values, rkhs.Squared(), [[1, 1], [1, 1], [np.nan, 1], [1, 1]]), r"Row 2 of the .*each output"),
    (lambda: rkhs.Term(values, rkhs.Squared(), np.full(4, np.nan)), r"Every target of Evaluation.* is NaN"),
    (lambda: rkhs.Term(values, rkhs.Squared(), weight=-1.0), "must not be negative"),
    (lambda: rkhs.Term(values, rkhs.Squared(), weight=[1, 1, -3, 1]), r"must not be negative .* got -3"),
    (lambda: rkhs.Term(values, rkhs.Squared(), weight=[1.0, 2.0]), r"weight has shape \(2,\)"),
    (lambda: rkhs.Term(values, rkhs.Squared(), weight=np.nan), "weight contains NaN"),
    (lambda: rkhs.Term(X, rkhs.Squared()), r"family of functionals, such as rkhs\.Evaluation", TypeError),
    (lambda: rkhs.Term(values, rkhs.Squared), r"needs a loss, such as rkhs\.Squared", TypeError),
    (lambda: rkhs.Term(values, "hinge"), "needs a loss", TypeError),
)
