"""A fitted model owns its numbers: what becomes of the caller's arrays after `fit` changes no prediction.

Of rows, targets and weights that are given to `fit`, this is part of the law of `test_equal_problems`.
"""

from contextlib import suppress

import numpy as np
import pytest

import rkhs
from estimators.test_equal_problems import spoil

RNG = np.random.default_rng(0)
X = RNG.normal(size=(24, 2))
NEW = RNG.normal(size=(5, 2))
TARGET = np.sin(X[:, 0]) - X[:, 1]
WEIGHT = RNG.uniform(0.5, 2.0, 24)
SLOPES = np.stack([np.cos(X[:, 0]), np.full(24, -1.0)], axis=1)
SPAN = rkhs.Landmarks(8)


def observed_target(model, new):
    """All that a model says about new points, with what it computes when it is first asked."""
    ways = ["predict", "decision_function", "predict_proba", "predict_set", "predict_interval", "predict_gradient"]
    found = {}
    for way in filter(lambda way: hasattr(model, way), ways):
        with suppress(rkhs.exceptions.NotBoundedError):  # slopes of rough kernels
            found[way] = getattr(model, way)(new)
    if model.solution_.source is not None and hasattr(model, "predict_interval"):
        found["std"] = model.predict(new, return_std=True)[1]
    return {way: np.asarray(values) for way, values in found.items()}


def check(learn, arrays, new):
    """Learning from arrays that are overwritten before the first prediction is learning from those that stay."""
    expected = observed_target(learn(*arrays), new)
    own = [array.copy() for array in arrays]
    model = learn(*own)
    spoil(*own)
    found = observed_target(model, new)
    assert found.keys() == expected.keys()
    for way, values in expected.items():
        np.testing.assert_array_equal(found[way], values, err_msg=way)
    return model


@pytest.mark.filterwarnings("ignore:With C=.* InvariantRegressor misses its training")
def test_measured_slopes():
    check(
        lambda X, y, w, G: rkhs.InvariantRegressor(scale=1.0, C=10.0).fit(X, y, w, gradients=G),
        [X, TARGET, WEIGHT, SLOPES],
        NEW,
    )


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_blocks_of_partial_fit(loss):
    def learn(X, y, weight):
        model = rkhs.InvariantRegressor(loss=loss, approximation=SPAN)
        return model.partial_fit(X[:12], y[:12], weight[:12]).partial_fit(X[12:], y[12:], weight[12:])

    model = rkhs.InvariantRegressor(loss=loss, approximation=SPAN)
    block = [np.array(a[:12]) for a in (X, TARGET, WEIGHT)]
    model.partial_fit(*block)
    spoil(*block)  # between two blocks
    model.partial_fit(X[12:], TARGET[12:], WEIGHT[12:])
    np.testing.assert_array_equal(model.predict(NEW), learn(X, TARGET, WEIGHT).predict(NEW))


def test_a_parameter_that_changes_between_blocks_is_seen():
    scale = np.array([1.0, 2.0])
    model = rkhs.InvariantRegressor(scale=scale, approximation=SPAN).partial_fit(X, TARGET)
    scale *= 2
    with pytest.raises(ValueError, match="scale was"):
        model.partial_fit(X, TARGET)


def test_landmarks_and_the_box_of_a_shape_that_change():
    points, box, rows = X[:8].copy(), np.array([[-3.0], [3.0]]), X[:, 1:].copy()
    span = rkhs.InvariantRegressor(approximation=rkhs.Landmarks(rkhs.Evaluation(points))).fit(X, TARGET)
    shaped = rkhs.InvariantRegressor(C=10.0, shape=rkhs.Shape({0: "decreasing"}, box=box)).fit(rows, TARGET)
    before = (
        span.predict(NEW),
        shaped.predict(NEW[:, 1:]),
        str(shaped.shape_certificate_),
        shaped.shape_certificate_.box.copy(),
    )
    spoil(points, box, rows)
    after = span.predict(NEW), shaped.predict(NEW[:, 1:]), str(shaped.shape_certificate_), shaped.shape_certificate_.box
    for one, other in zip(before, after, strict=True):
        np.testing.assert_array_equal(one, other)


def test_observed_functionals():
    def learn(points, values, noise):
        return rkhs.FunctionalRegressor(scale=1.0).fit([rkhs.Measurement(rkhs.Evaluation(points), values, noise)])

    check(learn, [X, TARGET, np.full(24, 0.1)], NEW)
    points, values = X.copy(), TARGET.copy()
    observed = rkhs.Measurement(rkhs.Evaluation(points), values, 0.1)
    spoil(points, values)
    found = rkhs.FunctionalRegressor(scale=1.0).fit(observed).predict(NEW)
    np.testing.assert_array_equal(found, learn(X, TARGET, np.full((), 0.1)).predict(NEW))


def test_no_second_copy_of_the_points():
    """The functionals of all terms share the one copy that validation has made."""
    model = rkhs.InvariantRegressor(scale=1.0, invariance="gradient").fit(X, TARGET)
    points = {id(part.atoms.points) for term in model.problem_.terms for part in term.functional.parts}
    assert len(model.problem_.terms) == 2
    assert len(points) == 1


def test_rows_of_which_none_is_kept_are_not_copied(tmp_path):
    """A memory map may be larger than the memory; and the caller's array stays one that can be written to."""
    rows = np.memmap(tmp_path / "rows", dtype=np.float64, mode="w+", shape=X.shape)
    rows[:] = X
    model = rkhs.InvariantRegressor(scale=1.0, approximation=SPAN)
    assert np.shares_memory(model._validated(rows, TARGET, own=False)[0], rows)
    model.fit(rows, TARGET)
    assert rows.flags.writeable
