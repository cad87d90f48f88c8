"""Problems and models on a device and in a precision, exact and in spans: the same solution, with a true gap.

Where there is no GPU, as in CI, tensors of the CPU refuse what those of a GPU refuse (`far`): to become NumPy arrays
unless `to_numpy` asks for it, and to be made without saying where.
"""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

import rkhs
from rkhs.spaces import LandmarkSpace

RNG = np.random.default_rng(7)
X, Z = RNG.standard_normal((40, 3)), RNG.standard_normal((5, 3))
Y = np.where(X[:, 0] + X[:, 1] > 0, 1.0, -1.0)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
FAR = {"device": DEVICE}  # as tensors
THERE = rkhs.SolverOptions(**FAR)
PROBES = torch.from_numpy(Z).to(DEVICE)
DENSE = ("solvers._base", "_core.learning.evidence")  # modules that ask where dense algebra belongs
MADE = ("asarray", "zeros", "ones", "full", "eye", "arange", "linspace", "empty")
SOLVERS = [
    (rkhs.Squared(), rkhs.solvers.Direct()),
    (rkhs.Squared(), rkhs.solvers.ConjugateGradients(5)),
    (rkhs.Squared(), rkhs.solvers.Galerkin()),
    (rkhs.Squared(), rkhs.solvers.Newton()),
    (rkhs.Squared(), rkhs.solvers.GreedyCoordinate()),
    (rkhs.Logistic(), rkhs.solvers.Newton()),
    (rkhs.Logistic(), rkhs.solvers.Galerkin()),
    (rkhs.Logistic(), rkhs.solvers.SchurComplement()),
    (rkhs.SquaredHinge(), rkhs.solvers.Galerkin()),
    (rkhs.SquaredHinge(), rkhs.solvers.NonlinearCG()),
    (rkhs.SquaredHinge(), rkhs.solvers.LBFGS()),
    (rkhs.SquaredHinge(), rkhs.solvers.SchurComplement()),
    (rkhs.Hinge(), rkhs.solvers.Galerkin()),
    (rkhs.Hinge(), rkhs.solvers.BoxDual()),
    (rkhs.Hinge(), rkhs.solvers.ProximalNewton()),
    (rkhs.Hinge(), rkhs.solvers.SchurComplement()),
    (rkhs.Hinge(), rkhs.solvers.NonlinearCG()),
    (rkhs.losses.Absolute(), "auto"),
    (rkhs.Logistic(), "auto"),
]


@pytest.fixture
def far(monkeypatch):
    """Tensors as those of a GPU, if they are not."""
    if torch.cuda.is_available():
        return

    def refuse(self, dtype=None, copy=None):
        raise TypeError("a tensor is not for NumPy without to_numpy")

    def placed(make):
        def call(*args, device=None, **options):
            assert device is not None or "like" in options or isinstance(args[0], torch.Tensor), "on which device?"
            return make(*args, device=device, **options)

        return call

    for place, made in {
        "torch.Tensor.__array__": refuse,
        **{f"torch.{name}": placed(getattr(torch, name)) for name in MADE},
        **{f"rkhs.{module}.on_cpu": lambda array: isinstance(array, np.ndarray) for module in DENSE},
    }.items():
        monkeypatch.setattr(place, made)


def problem(loss, kernel=None, **where):
    labels = rkhs.Term(rkhs.Evaluation(X[:20]), loss, Y[:20], 5.0)
    flat = rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.1)
    return rkhs.Problem(kernel or rkhs.Gaussian(2.0), [labels, flat], rkhs.Constant(), **where)


def near(found, expected, tol=2e-3):
    np.testing.assert_allclose(found.numpy(force=True), expected, atol=tol * np.abs(expected).max())


@pytest.mark.parametrize(("loss", "solver"), SOLVERS, ids=repr)
def test_every_solver_leaves_numbers_where_they_are(far, loss, solver):
    tol = 1e-3 if isinstance(solver, rkhs.solvers.LBFGS) else 1e-6  # which is slow
    found = problem(loss, **FAR).solve(solver, tol=tol)
    assert found.status == "converged"
    near(found.function(PROBES), problem(loss).solve(solver, tol=tol).function(Z), 2 * tol**0.5)
    assert found.function.compress(1e-9).functionals.size <= X.size + 20


@pytest.mark.parametrize(
    "kernel",
    [rkhs.Matern(2.5, 2.0), rkhs.kernels.Polyharmonic(3), rkhs.Gaussian(1.0) * rkhs.kernels.Linear()],
    ids=repr,
)
def test_every_kernel_leaves_numbers_where_they_are(far, kernel):
    found = problem(rkhs.SquaredHinge(), kernel, **FAR).solve(tol=1e-6)
    near(found.function(PROBES), problem(rkhs.SquaredHinge(), kernel).solve(tol=1e-6).function(Z))


def test_evidence_and_left_out_values_are_computed_there(far):
    kernel = rkhs.Gaussian((1.0, 2.0, 3.0))
    found, expected = (problem(rkhs.Squared(), kernel, **where) for where in (FAR, {}))
    left_out, by_numpy = (each.leave_out().predictions[0] for each in (found, expected))
    np.testing.assert_allclose(left_out, by_numpy, atol=1e-8)
    ours, theirs = (each.evidence(gradient=True) for each in (found, expected))
    assert ours.value == pytest.approx(theirs.value, rel=1e-9)
    assert ours.gradient == pytest.approx(theirs.gradient, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("loss", [rkhs.SquaredHinge(), rkhs.Hinge(), rkhs.Logistic()], ids=repr)
def test_a_grid_leaves_numbers_where_they_are(far, loss):
    cells = {"weights": {0: [1, 10], 1: [0.1, 1]}, "held_out": {0: [[0, 1, 2], [3, 4, 5]]}, "tol": 1e-6}
    found, expected = (problem(loss, **where).grid(**cells) for where in (FAR, {}))
    for one, other in zip(found.flat, expected.flat, strict=True):
        near(one.function(PROBES), other.function(Z))


CORRECTED = [  # by exact products
    (loss, solver)
    for loss, solver in SOLVERS
    if isinstance(solver, rkhs.solvers.Galerkin)
    or (loss.smooth and isinstance(solver, rkhs.solvers.ConjugateGradients | rkhs.solvers.NonlinearCG))
]


@pytest.mark.parametrize("precision", ["float64", "float32", "tf32x3", "tf32"])
@pytest.mark.parametrize(("loss", "solver"), CORRECTED, ids=repr)
def test_the_gap_is_true_whatever_the_products(loss, solver, precision):
    """A gap of 1e-8 is far beyond products of 1e-3: residuals are corrected."""
    tol = 1e-8 if precision != "tf32" else 1e-6
    found, exact = (problem(loss, precision=p).solve(solver, tol=tol) for p in (precision, None))
    assert found.status == "converged"
    assert exact.dual * (1 - 1e-12) <= found.primal <= exact.primal * (1 + tol)
    assert found.function.coefficients.dtype == np.float64
    again = rkhs.Problem(rkhs.Gaussian(2.0), problem(loss).terms, rkhs.Constant()).solve(solver, tol=tol, start=found)
    assert again.primal == pytest.approx(found.primal, rel=tol)  # by exact products


def test_on_a_device_numbers_are_tensors():
    solution = problem(rkhs.SquaredHinge(), device="cpu", precision="tf32x3").solve(tol=1e-6)
    assert isinstance(solution.function.coefficients, torch.Tensor)
    assert solution.function.coefficients.dtype == torch.float64
    plain = problem(rkhs.SquaredHinge()).solve(tol=1e-6)
    np.testing.assert_allclose(np.asarray(solution.function(torch.asarray(Z))), plain.function(Z), atol=1e-2)
    assert problem(rkhs.Squared(), device="cpu").solve().function.coefficients.dtype == torch.float64


@pytest.mark.parametrize("precision", [None, "float32"])
def test_estimators_take_a_device_and_a_precision(precision):
    there = rkhs.SolverOptions(device="cpu", precision=precision)
    plain, moved = (rkhs.InvariantClassifier(tol=1e-6, solver=where).fit(X, Y > 0) for where in ("auto", there))
    assert isinstance(moved.function_.coefficients, torch.Tensor)
    for method in ("decision_function", "predict_proba"):
        values = getattr(moved, method)(Z)
        assert isinstance(values, np.ndarray)
        np.testing.assert_allclose(values, getattr(plain, method)(Z), atol=1e-2)
    again = pickle.loads(pickle.dumps(moved))
    np.testing.assert_array_equal(again.decision_function(Z), moved.decision_function(Z))
    plain, moved = (rkhs.InvariantRegressor(tol=1e-6, solver=where).fit(X, Y) for where in ("auto", there))
    (expected, exact), (found, deviations) = (model.predict(Z, return_std=True) for model in (plain, moved))
    assert isinstance(deviations, np.ndarray)
    np.testing.assert_allclose(found, expected, atol=1e-2)
    np.testing.assert_allclose(deviations, exact, rtol=1e-6)


@pytest.mark.parametrize("approximation", [None, rkhs.Landmarks(5), rkhs.FourierFeatures(20)], ids=repr)
def test_what_comes_out_is_of_the_kind_of_what_goes_in(approximation):
    f = replace(problem(rkhs.Squared(), device="cpu"), approximation=approximation).solve().function
    for family in (rkhs.Evaluation, rkhs.Gradient):
        values, tensors = family(Z)(f), family(torch.from_numpy(Z))(f)
        assert isinstance(values, np.ndarray)
        assert isinstance(tensors, torch.Tensor)
        np.testing.assert_allclose(values, tensors.numpy(), rtol=1e-12)
    assert isinstance(f(Z.tolist()), np.ndarray)


@pytest.mark.parametrize("device", ["tpu", 1.5])
def test_a_device_that_pytorch_does_not_know_is_refused(device):
    with pytest.raises(ValueError, match='device must be one that PyTorch knows, such as "cuda"'):
        problem(rkhs.Squared(), device=device).solve()


ROBUST = rkhs.Invariance("gradient", loss="huber")
MACHINES = {
    "classifier": {},
    "hinge": {"loss": "hinge"},
    "logistic": {"loss": "logistic", "invariance": ROBUST},
    "graph": {"loss": "squared_hinge", "invariance": "graph"},
    "averages": {"loss": "squared", "invariance": "local_average"},
}


@pytest.mark.parametrize("name", MACHINES)
def test_machines_leave_numbers_where_they_are(far, name):
    classes = np.argmax(X, axis=1)
    classes[20:] = -1
    found, expected = (
        rkhs.InvariantClassifier(tol=1e-6, solver=where, **MACHINES[name]).fit(X, classes) for where in (THERE, "auto")
    )
    for values in (found.decision_function(Z), found.predict_proba(Z)):
        assert isinstance(values, np.ndarray)
    np.testing.assert_allclose(found.decision_function(Z), expected.decision_function(Z), atol=5e-3)


SEARCHES = {
    "auto": {},
    "squared": {"invariance": "gradient", "loss": "squared"},
    "hinge": {"invariance": "gradient", "loss": "hinge", "scales": [1.0]},
    "logistic": {"invariance": "gradient", "loss": "logistic"},
    "landmarks": {"invariance": "gradient", "loss": "squared", "approximation": rkhs.Landmarks(20)},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHES)
def test_searches_choose_the_same_there(far, name):
    classes = np.argmax(X, axis=1)
    classes[30:] = -1
    options = SEARCHES[name] | {"Cs": [1.0, 10.0], "tol": 1e-8}
    options |= {"nus": [0.0]} if name == "auto" else {"nus": [0.0, 0.1], "cv": 3}
    found, expected = (rkhs.InvariantClassifierCV(**options, solver=where).fit(X, classes) for where in (THERE, "auto"))
    assert str(found.best_params_) == str(expected.best_params_)  # distances in graphs are rounded differently
    np.testing.assert_allclose(found.cv_results_["mean_test_score"], expected.cv_results_["mean_test_score"])
    np.testing.assert_allclose(found.decision_function(Z), expected.decision_function(Z), atol=5e-3)


def test_a_search_of_numbers_chooses_the_same_there(far):
    options = {"invariance": "gradient", "Cs": [1.0, 10.0], "nus": [0.0, 0.1], "cv": 3, "tol": 1e-8}
    values = np.sin(X[:, 0])
    found, expected = (rkhs.InvariantRegressorCV(**options, solver=where).fit(X, values) for where in (THERE, "auto"))
    assert found.best_params_ == expected.best_params_
    np.testing.assert_allclose(found.predict(Z), expected.predict(Z), atol=5e-3)


# Sums of an approximation on a device: the same numbers as in NumPy, in tiles that fit.

ROWS = np.random.default_rng(2).standard_normal((300, 3))
LABELS = np.where(ROWS[:, 0] * ROWS[:, 1] > 0, 1.0, -1.0)
NEW = np.random.default_rng(3).standard_normal((9, 3))
C = ROWS[:30]
SPANS = {
    "landmarks": rkhs.Landmarks(rkhs.stack([rkhs.Evaluation(C), rkhs.Gradient(C[:4])])),
    "differences": rkhs.Landmarks(rkhs.Difference(C[:15], C[15:])),
    "chosen": rkhs.Landmarks(40),
    "waves": rkhs.FourierFeatures(41),
}
LOSSES = (rkhs.Squared(), rkhs.Logistic(), rkhs.Hinge())


def in_a_span(loss, span, **where):
    points = rkhs.Evaluation(ROWS)
    terms = [
        rkhs.Term(points, loss, LABELS, 10.0),
        rkhs.Term(rkhs.Gradient(points.prototype), rkhs.Squared(), weight=0.1),
        rkhs.Term(rkhs.Difference(ROWS[:10], -ROWS[:10]), rkhs.Squared(), weight=np.linspace(1, 2, 10)),
    ]
    return rkhs.Problem(rkhs.Gaussian(1.5), terms, rkhs.Constant(), approximation=span, **where)


@pytest.mark.parametrize("span", SPANS.values(), ids=SPANS)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_sums_on_a_device_are_those_of_numpy(loss, span):
    here = in_a_span(loss, span).solve(tol=1e-8)
    there = in_a_span(loss, span, device="cpu", precision="float64").solve(tol=1e-8)
    assert there.status == "converged"
    assert there.primal == pytest.approx(here.primal, rel=1e-8)
    values = there.function(NEW)  # NumPy in, computed where the function is, NumPy out
    assert isinstance(values, np.ndarray)
    assert values.dtype == np.float64
    np.testing.assert_allclose(values, here.function(NEW), atol=1e-5)
    assert isinstance(rkhs.Gradient(NEW)(there.function), np.ndarray)


def test_a_grid_on_a_device():
    axes = {0: [1.0, 10.0], (1, 2): [0.1, 1.0]}
    folds = {0: [np.arange(k, 300, 3) for k in range(3)]}
    here, there = (in_a_span(rkhs.Squared(), SPANS["chosen"], device=d).grid(axes, folds) for d in (None, "cpu"))
    for one, other in zip(there.flat, here.flat, strict=True):
        assert one.primal == pytest.approx(other.primal, rel=1e-8)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("span", [None, *SPANS.values()], ids=["whole", *SPANS])
def test_without_a_gpu_the_cpu_and_a_warning(span):
    here = in_a_span(rkhs.Squared(), span).solve()
    with pytest.warns(UserWarning, match=r"device=.cuda.: PyTorch sees no GPU here, so .* on the CPU"):
        there = in_a_span(rkhs.Squared(), span, device="cuda").solve()
    assert isinstance(there.function(NEW), np.ndarray)
    assert there.primal == pytest.approx(here.primal, rel=1e-12)
    with pytest.warns(UserWarning, match="PyTorch sees no GPU"):
        rkhs.InvariantRegressor(approximation=span, solver=rkhs.SolverOptions(device="cuda")).fit(ROWS, LABELS)


@pytest.mark.parametrize("precision", ["float32", "tf32x3", "tf32"])
def test_sums_in_less_than_float64_are_refused(precision):
    with pytest.raises(ValueError, match=f"precision='{precision}' is for Gram products.*omit `precision`"):
        in_a_span(rkhs.Squared(), SPANS["waves"], precision=precision)
    for learn in ("fit", "partial_fit"):
        model = rkhs.InvariantRegressor(approximation=SPANS["waves"], solver=rkhs.SolverOptions(precision=precision))
        with pytest.raises(ValueError, match=r"is for Gram products|which a CPU lacks"):
            getattr(model, learn)(ROWS, LABELS)


@pytest.mark.filterwarnings("ignore:y is -1, 0, 1, and")
@pytest.mark.parametrize("span", SPANS.values(), ids=SPANS)
@pytest.mark.parametrize("loss", ["squared", "squared_hinge"])
def test_machines_on_a_device(loss, span, tmp_path):
    labels = np.where(np.arange(300) < 200, LABELS > 0, -1)
    plain, moved = (
        rkhs.InvariantClassifier(
            loss=loss, scale=1.5, approximation=span, solver=rkhs.SolverOptions(device=device)
        ).fit(rkhs.streams.blocks(ROWS, labels, rows=110))
        for device in (None, "cpu")
    )
    values = moved.decision_function(NEW)
    assert isinstance(values, np.ndarray)
    np.testing.assert_allclose(values, plain.decision_function(NEW), atol=1e-4)
    assert isinstance(moved.predict_proba(NEW), np.ndarray)
    again = pickle.loads(pickle.dumps(moved))
    np.testing.assert_array_equal(again.decision_function(NEW), values)
    rkhs.save(moved, tmp_path / "moved.skops")
    opened = rkhs.load(tmp_path / "moved.skops")
    assert isinstance(opened.function_(NEW), np.ndarray)
    np.testing.assert_allclose(opened.decision_function(NEW), values, atol=1e-9)


def test_partial_fit_and_streams_on_a_device():
    here, there = (
        rkhs.InvariantRegressor(scale=1.5, approximation=SPANS["landmarks"], solver=rkhs.SolverOptions(device=device))
        for device in (None, "cpu")
    )
    for rows in np.array_split(np.arange(300), 3):
        here.partial_fit(ROWS[rows], LABELS[rows])
        there.partial_fit(ROWS[rows], LABELS[rows])
    np.testing.assert_allclose(there.predict(NEW), here.predict(NEW), atol=1e-8)

    def terms(block):
        return [rkhs.Term(rkhs.Evaluation(block.X), rkhs.Squared(), target=block.y)]

    one, other = (
        rkhs.streams.StreamedProblem(
            rkhs.Gaussian(1.5), terms, rkhs.streams.blocks(ROWS, LABELS, rows=100), SPANS["waves"], device=device
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

    for place, made in {
        "spaces.LandmarkSpace.tile": with_time_limit,
        "_core.finite.sums.out_of_memory": lambda: (FullError,),
        "_core.finite.sums.release_memory": lambda: released.append(True),
    }.items():
        monkeypatch.setattr(f"rkhs.{place}", made)
    return room, released


def test_where_memory_is_short_tiles_get_smaller(crowded):
    room, released = crowded
    whole = in_a_span(rkhs.Squared(), SPANS["landmarks"]).solve()
    assert not released
    room[0] = 150
    assert in_a_span(rkhs.Squared(), SPANS["landmarks"]).solve().primal == pytest.approx(whole.primal, rel=1e-9)
    assert released
    room[0] = 20
    with pytest.raises(MemoryError, match=r"too little memory for 42 functions, even 128 rows .* omit `device`"):
        in_a_span(rkhs.Squared(), SPANS["landmarks"]).solve()


def test_a_full_device_hands_the_problem_to_the_cpu():
    """Products that need more memory than the device has, whatever their tiles, after some iterations."""
    tiles, starts = [], []

    class OnFullDevice(rkhs.Gaussian):
        def radial_derivatives(self, q, orders):
            tiles.append(isinstance(q, torch.Tensor))
            if tiles[-1] and len(tiles) > 40:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return super().radial_derivatives(q, orders)

    class Watched(rkhs.solvers.NonlinearCG):
        def steps(self, system, start, tol, monitor):
            starts.append(start)
            return super().steps(system, start, tol, monitor)

    given = problem(rkhs.losses.Absolute(), OnFullDevice(2.0), device="cpu")
    with pytest.warns(UserWarning, match="too little memory for the problem: it is solved on the CPU"):
        solution = given.solve(Watched(), tol=1e-4)
    assert solution.status == "converged"
    assert isinstance(solution.function.coefficients, np.ndarray)
    assert isinstance(starts[-1].a, np.ndarray)
    assert np.any(starts[-1].a)  # what the device had found


def test_a_full_main_memory_is_an_error():
    class Full(rkhs.Gaussian):
        def radial_derivatives(self, q, orders):
            raise MemoryError("main memory")

    with pytest.raises(MemoryError, match="main memory"):
        problem(rkhs.Squared(), Full(2.0)).solve(rkhs.solvers.NonlinearCG())
