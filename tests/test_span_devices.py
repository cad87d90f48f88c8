"""Sums of an approximation on a device: the same numbers as in NumPy, in tiles that fit."""

import pickle

import numpy as np
import pytest
import torch

import rkhs
from rkhs._spaces import LandmarkSpace

RNG = np.random.default_rng(2)
X, Z = RNG.standard_normal((300, 3)), RNG.standard_normal((9, 3))
Y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
C = X[:30]
SPANS = {
    "landmarks": rkhs.Landmarks(rkhs.stack([rkhs.Evaluation(C), rkhs.Gradient(C[:4])])),
    "differences": rkhs.Landmarks(rkhs.Difference(C[:15], C[15:])),
    "chosen": rkhs.Landmarks(40),
    "waves": rkhs.FourierFeatures(41),
}
LOSSES = (rkhs.Squared(), rkhs.Logistic(), rkhs.Hinge())


def problem(loss, span, **where):
    points = rkhs.Evaluation(X)
    terms = [
        rkhs.Term(points, loss, Y, 10.0),
        rkhs.Term(rkhs.Gradient(points.prototype), rkhs.Squared(), weight=0.1),
        rkhs.Term(rkhs.Difference(X[:10], -X[:10]), rkhs.Squared(), weight=np.linspace(1, 2, 10)),
    ]
    return rkhs.Problem(rkhs.Gaussian(1.5), terms, rkhs.Constant(), approximation=span, **where)


@pytest.mark.parametrize("span", SPANS.values(), ids=SPANS)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_sums_on_a_device_are_those_of_numpy(loss, span):
    here = problem(loss, span).solve(tol=1e-8)
    there = problem(loss, span, device="cpu", precision="float64").solve(tol=1e-8)
    assert there.status == "converged"
    assert there.primal == pytest.approx(here.primal, rel=1e-8)
    values = there.function(Z)  # NumPy in, computed where the function is, NumPy out
    assert isinstance(values, np.ndarray)
    assert values.dtype == np.float64
    np.testing.assert_allclose(values, here.function(Z), atol=1e-5)
    assert isinstance(rkhs.Gradient(Z)(there.function), np.ndarray)


def test_a_grid_on_a_device():
    axes = {0: [1.0, 10.0], (1, 2): [0.1, 1.0]}
    folds = {0: [np.arange(k, 300, 3) for k in range(3)]}
    here, there = (problem(rkhs.Squared(), SPANS["chosen"], device=d).grid(axes, folds) for d in (None, "cpu"))
    for one, other in zip(there.flat, here.flat, strict=True):
        assert one.primal == pytest.approx(other.primal, rel=1e-8)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("span", SPANS.values(), ids=SPANS)
def test_without_a_gpu_the_cpu_and_a_warning(span):
    here = problem(rkhs.Squared(), span).solve()
    with pytest.warns(UserWarning, match=r"device=.cuda.: PyTorch sees no GPU here, so .* on the CPU"):
        there = problem(rkhs.Squared(), span, device="cuda").solve()
    assert isinstance(there.function(Z), np.ndarray)
    assert there.primal == pytest.approx(here.primal, rel=1e-12)
    with pytest.warns(UserWarning, match="PyTorch sees no GPU"):
        rkhs.InvariantRegressor(approximation=span, solver=rkhs.SolverOptions(device="cuda")).fit(X, Y)


@pytest.mark.parametrize("precision", ["float32", "tf32x3", "tf32"])
def test_sums_in_less_than_float64_are_refused(precision):
    with pytest.raises(ValueError, match=f"precision='{precision}' is for Gram products.*omit `precision`"):
        problem(rkhs.Squared(), SPANS["waves"], precision=precision)
    for learn in ("fit", "partial_fit"):
        model = rkhs.InvariantRegressor(approximation=SPANS["waves"], solver=rkhs.SolverOptions(precision=precision))
        with pytest.raises(ValueError, match="is for Gram products"):
            getattr(model, learn)(X, Y)


@pytest.mark.filterwarnings("ignore:y is -1, 0, 1, and")
@pytest.mark.parametrize("span", SPANS.values(), ids=SPANS)
@pytest.mark.parametrize("loss", ["squared", "squared_hinge"])
def test_machines_on_a_device(loss, span, tmp_path):
    labels = np.where(np.arange(300) < 200, Y > 0, -1)
    plain, moved = (
        rkhs.InvariantClassifier(
            loss=loss, scale=1.5, approximation=span, solver=rkhs.SolverOptions(device=device)
        ).fit(rkhs.streams.blocks(X, labels, rows=110))
        for device in (None, "cpu")
    )
    values = moved.decision_function(Z)
    assert isinstance(values, np.ndarray)
    np.testing.assert_allclose(values, plain.decision_function(Z), atol=1e-4)
    assert isinstance(moved.predict_proba(Z), np.ndarray)
    again = pickle.loads(pickle.dumps(moved))
    np.testing.assert_array_equal(again.decision_function(Z), values)
    rkhs.save(moved, tmp_path / "moved.skops")
    opened = rkhs.load(tmp_path / "moved.skops")
    assert isinstance(opened.function_(Z), np.ndarray)
    np.testing.assert_allclose(opened.decision_function(Z), values, atol=1e-9)


def test_partial_fit_and_streams_on_a_device():
    here, there = (
        rkhs.InvariantRegressor(scale=1.5, approximation=SPANS["landmarks"], solver=rkhs.SolverOptions(device=device))
        for device in (None, "cpu")
    )
    for rows in np.array_split(np.arange(300), 3):
        here.partial_fit(X[rows], Y[rows])
        there.partial_fit(X[rows], Y[rows])
    np.testing.assert_allclose(there.predict(Z), here.predict(Z), atol=1e-8)

    def terms(block):
        return [rkhs.Term(rkhs.Evaluation(block.X), rkhs.Squared(), target=block.y)]

    one, other = (
        rkhs.streams.StreamedProblem(
            rkhs.Gaussian(1.5), terms, rkhs.streams.blocks(X, Y, rows=100), SPANS["waves"], device=device
        ).solve()
        for device in (None, "cpu")
    )
    assert one.primal == pytest.approx(other.primal, rel=1e-9)


class FullError(Exception):
    """As of a device whose memory is used up."""


@pytest.fixture
def crowded(monkeypatch):
    """A device that takes so many rows at a time, by the list that is returned."""
    room, released, tile = [300], [], LandmarkSpace.tile

    def with_time_limit(self, points):
        if len(points) > room[0]:
            raise FullError
        return tile(self, points)

    monkeypatch.setattr(LandmarkSpace, "tile", with_time_limit)
    monkeypatch.setattr("rkhs._finite.features.out_of_memory", lambda: (FullError,))
    monkeypatch.setattr("rkhs._finite.features.release_memory", lambda: released.append(True))
    return room, released


def test_where_memory_is_short_tiles_get_smaller(crowded):
    room, released = crowded
    whole = problem(rkhs.Squared(), SPANS["landmarks"]).solve()
    assert not released
    room[0] = 150
    assert problem(rkhs.Squared(), SPANS["landmarks"]).solve().primal == pytest.approx(whole.primal, rel=1e-9)
    assert released
    room[0] = 20
    with pytest.raises(MemoryError, match=r"too little memory for 42 functions, even 128 rows .* omit `device`"):
        problem(rkhs.Squared(), SPANS["landmarks"]).solve()
