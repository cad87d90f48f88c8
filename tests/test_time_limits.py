"""Time limits, Ctrl-C and progress inside work that has no iterations; clocks are not looked at but made."""

import warnings
from contextlib import contextmanager
from dataclasses import replace
from functools import partial, partialmethod
from itertools import count, product

import numpy as np
import pytest
import scipy.linalg
import sklearn.cluster
from sklearn.base import is_classifier

import campaign
import clocks
import rkhs
from estimators.test_honored_parameters import LEARNERS
from rkhs._core.finite import monitor as monitors, sums
from rkhs._core.finite.certificate import certify
from rkhs._core.finite.features import FeatureTerms
from rkhs._core.finite.representers import certify_quickly
from rkhs._core.gram.blocks import GramBlock
from rkhs._core.limits import with_limits
from rkhs._core.linalg.saddle import PackedCholesky
from rkhs.extend import FiniteSpace, Monitor, Stopped, with_progress_callback
from rkhs.maps import _toeplitz as toeplitz
from rkhs.solvers import _reduced
from rkhs.solvers._conditioned import ConditionedGram, ConditioningEquations

RNG = np.random.default_rng(0)
X = RNG.uniform(size=(100, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1]
LABELS = np.where(Y > 1, 1.0, -1.0)
KERNEL = rkhs.Gaussian(0.5)


SQUARED = rkhs.Squared()


def problem(loss=SQUARED, target=Y, **options):
    term = rkhs.Term(rkhs.Evaluation(X), loss, target, weight=10.0)
    return rkhs.Problem(KERNEL, [term], rkhs.Constant(), **options)


@pytest.fixture
def small_pieces():
    """Blocks of 8 rows, and tiles of about 16 x 16, in one thread: only one of several reports progress."""
    with with_limits(threads=1, factor_columns=8, factor_rows=8, tile_entries=256):
        yield


@pytest.fixture
def ticking():
    """A clock on which a second passes whenever it is looked at."""
    with clocks.ticking(1.0):
        yield


@pytest.fixture
def lines(monkeypatch):
    """What would be shown."""
    told = []
    monkeypatch.setattr(Monitor, "_show", lambda self, seconds, line: told.append(line))
    return told


def test_a_factorization_that_was_stopped_leaves_the_matrix():
    A = RNG.normal(size=(600, 600))
    G = A @ A.T
    halves = PackedCholesky(G, len(G), G)

    def stop(share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), with_progress_callback(stop):
        halves.factorize(np.ones(600), np.zeros((600, 0)), np.zeros((600, 0)))
    np.testing.assert_array_equal(np.triu(halves.matrix), np.triu(G))


@pytest.mark.parametrize("limit", [10.0, 60.0, 200.0])
def test_direct_stops_within_a_piece(limit, small_pieces, ticking):
    given = problem()
    solution = given.solve(rkhs.solvers.Direct(), time_limit=limit)
    assert solution.status == "time limit"
    assert solution.seconds < limit + 20  # a few looks at the clock; all of it would take 243
    assert not np.any(solution.function.coefficients)
    assert solution.primal == pytest.approx(float(np.sum(given.system.at_zero)))
    assert solution.dual <= given.solve(time_limit=None).primal * (1 + 1e-9) <= solution.primal


SPAN = rkhs.Landmarks(20)


def in_a_span(loss=SQUARED, target=Y, approximation=SPAN):
    """Values, and slopes that make the choice of landmarks a problem of its own."""
    values = rkhs.Term(rkhs.Evaluation(X), loss, target, weight=10.0)
    flat = rkhs.Term(rkhs.Gradient(X), SQUARED, weight=0.1)
    return rkhs.Problem(KERNEL, [values, flat], rkhs.Constant(), approximation=approximation)


@pytest.fixture
def small_tiles(monkeypatch):
    """Eight rows in each tile of a span."""
    monkeypatch.setattr(FiniteSpace, "tile_rows", 8)


@pytest.mark.parametrize("limit", [0.0, 5.0, 30.0, 60.0, 110.0])
def test_a_problem_in_a_span_keeps_a_time_limit(limit, small_tiles, ticking):
    """While functions are chosen, while rows are added up, while the small problem is solved."""
    given = in_a_span(rkhs.Logistic(), LABELS)
    solution = given.solve(time_limit=limit)
    assert solution.status == "time limit"
    assert solution.seconds < limit + 10  # looks at the clock
    np.testing.assert_array_equal(solution.function(X), 0)
    assert solution.primal == pytest.approx(10 * len(X) * np.log(2))
    assert solution.dual <= given.solve().primal
    assert given.solve(time_limit=1e4).status == "converged"


@pytest.mark.parametrize("loss", [SQUARED, rkhs.Huber(0.1), rkhs.losses.Absolute(), rkhs.Logistic()], ids=repr)
@pytest.mark.parametrize("approximation", [SPAN, rkhs.FourierFeatures(20), rkhs.FourierGrid(1e-2)], ids=repr)
def test_without_any_time_a_span_says_so(approximation, loss):
    """Nothing looked at the clock before the first cell was solved, while rows were summed up."""
    given, cells = in_a_span(loss, LABELS, approximation), {"weights": {0: [1.0, 10.0]}, "tol": 1e-2}
    stopped = [given.solve(time_limit=0.0), *given.grid(**cells, time_limit=0.0)]
    for own, minimum in zip(stopped, [given.solve(tol=1e-2), *given.grid(**cells)], strict=True):
        assert own.status == "time limit"
        assert own.dual <= minimum.primal <= own.primal * (1 + 1e-6)
        assert np.all(np.isfinite(own.function(X)))


def solving(solver="auto", **options):
    return lambda given: [given.solve(solver, **options)]


def both_cells(given):
    return given.grid({0: [1.0, 10.0]}, {0: [np.arange(9), np.arange(9, 30)]}).flat


OF_SPANS = [  # where functions are chosen, rows are summed up, or the small problem is solved
    (sklearn.cluster, "kmeans_plusplus", SPAN),
    (sums, "square", SPAN),
    (_reduced, "derivatives", SPAN),
    (sums.FeatureSums, "of", rkhs.FourierFeatures(20)),
    (toeplitz.ToeplitzSums, "of", rkhs.FourierGrid()),
]
INSIDE = [  # a problem, how it is solved, and the call of a function during which there is Ctrl-C
    *(
        (problem, solving(rkhs.solvers.Direct()), place, name, 5)
        for place, name in ((scipy.linalg.blas, "dtrsm"), (scipy.linalg.lapack, "dpotrf"), (GramBlock, "_tile"))
    ),
    *(
        (partial(problem, loss, LABELS), solving(solver, tol=1e-12), scipy.linalg.blas, "dtrsm", calls)
        for solver, loss in ((rkhs.solvers.Newton(), rkhs.SquaredHinge()), (rkhs.solvers.BoxDual(), rkhs.Hinge()))
        for calls in (10, 50)
    ),
    *(
        (partial(in_a_span, rkhs.Logistic(), LABELS, span), ask, place, name, 0)
        for place, name, span in OF_SPANS
        for ask in (solving(), both_cells)
    ),
]


@pytest.mark.every("place", "name")
@pytest.mark.parametrize(("make", "ask", "place", "name", "calls"), INSIDE)
def test_ctrl_c_inside_a_solve(make, ask, place, name, calls, small_pieces, monkeypatch):
    """It returns the iterate of before, at first f = 0, and true bounds."""
    right = ask(make())
    with monkeypatch.context() as patch:
        clocks.interrupting(patch, place, name, calls)
        stopped = list(ask(make()))
    for own, minimum in zip(stopped, right, strict=True):
        assert own.status == "interrupted"
        assert 0 <= own.dual <= minimum.primal * (1 + 1e-9)
        assert own.primal >= minimum.primal * (1 - 1e-9)
        assert calls >= 10 or not np.any(own.function(X))


def test_a_grid_in_a_span_that_is_stopped_keeps_what_it_has(small_tiles, monkeypatch):
    """Cells that were not reached cost nothing: their sums, once for each, were made after the limit."""
    folds = {0: [np.arange(k, 100, 3) for k in range(3)]}
    given = in_a_span(rkhs.Logistic(), LABELS)
    whole = given.grid({0: [0.1, 1.0, 10.0], 1: [1.0, 10.0]}, folds)
    clocks.interrupting(monkeypatch, FeatureTerms, "weighted", 4)
    found = given.grid({0: [0.1, 1.0, 10.0], 1: [1.0, 10.0]}, folds)
    done = [k for k in range(18) if found.flat[k].status == "converged"]
    assert len(done) == 4
    for k in range(18):
        if k in done:
            assert found.flat[k].primal == pytest.approx(whole.flat[k].primal, rel=1e-4)
        else:
            assert found.flat[k].status == "interrupted"
            np.testing.assert_array_equal(found.flat[k].function(X), 0)
            assert found.flat[k].dual <= whole.flat[k].primal <= found.flat[k].primal


SHOWN = {  # work, what is told of it, and how many lines at least
    "Direct": (lambda: problem().solve(rkhs.solvers.Direct()), [monitors.MATRIX, monitors.FACTOR], 20),
    "span": (lambda: in_a_span().solve(), ["choosing functions", "adding up rows"], 10),
    "evidence": (lambda: problem().evidence(), [monitors.FACTOR], 50),
    "leaving out": (lambda: problem().leave_out(), [monitors.FACTOR], 100),  # of the solution, and of what is left out
}


@pytest.mark.every
@pytest.mark.parametrize("name", SHOWN)
def test_work_shows_how_far_it_is(name, small_pieces, small_tiles, lines):
    work, told, least = SHOWN[name]
    work()
    for what in told:
        shares = [int(line.split(": ")[1].split("%")[0]) for line in lines if line.startswith(what)]
        assert len(shares) > least
        assert 50 < max(shares) <= 100
        assert shares == sorted(shares) or name != "Direct"


@pytest.mark.parametrize("convert", [np.float64, np.float32])
@pytest.mark.parametrize("loss", [rkhs.SquaredHinge(), rkhs.Logistic()], ids=repr)
def test_certificates_in_haste_are_those_of_one_after_the_other(loss, convert):
    given = rkhs.Problem(KERNEL, [rkhs.Term(rkhs.Evaluation(X.astype(convert)), loss, LABELS)], rkhs.Constant())
    system, cells = given.system, []
    for factor in (0.1, 1.0, 10.0):
        own = system.with_rows(tuple(replace(t, weight=factor * t.weight) for t in system.terms), None)
        found = rkhs.Problem(KERNEL, [given.terms[0].changed(weight=factor)], rkhs.Constant()).solve(tol=0.1)
        iterate = given.represented.iterate(found.function)
        cells += [(own, iterate), (own, replace(iterate, a=2 * iterate.a)), (own, own.start())]
    for (own, iterate), certificate in zip(cells, certify_quickly(cells), strict=True):
        alone = certify(own, iterate, quick=True)
        np.testing.assert_allclose(certificate.primal, alone.primal, rtol=1e-5)
        np.testing.assert_allclose(certificate.gaps, alone.gaps, rtol=1e-4, atol=1e-4)
    assert certify_quickly([]) == []


@pytest.mark.parametrize("gradients", [False, True], ids=["in memory", "together"])
def test_a_grid_that_is_stopped_takes_few_products_more(gradients, gram_products, monkeypatch):
    """It took two for each cell, which may be many times the limit."""
    terms = [rkhs.Term(rkhs.Evaluation(X), rkhs.SquaredHinge(), LABELS)]
    terms += [rkhs.Term(rkhs.Gradient(X), SQUARED, weight=0.1)] if gradients else []
    given = rkhs.Problem(KERNEL, terms, rkhs.Constant())
    if gradients:
        costs = (3.0, 2.0, 1.0, np.inf)  # in memory, alone, together, split
        monkeypatch.setattr("rkhs._core.problem.grid.GridSolver._costs", lambda *_: costs)
    before = []

    def stop(record):
        before[:] = gram_products
        return record.iteration == (1 if gradients else 3)

    found = given.grid({0: 10.0 ** np.arange(-2, 8)}, tol=1e-9, callback=stop)
    assert len(gram_products) - len(before) <= 3  # the check of images is one
    assert {one.status for one in found.flat} - {"converged"} == {"stopped by the callback"}


APPROXIMATIONS = [None, SPAN, rkhs.FourierGrid()]


def searched(approximation):
    settings = {"invariance": None, "Cs": [10.0], "nus": [0.0], "scales": 0.5, "approximation": approximation}
    return rkhs.InvariantRegressorCV("gaussian", **settings).fit(X, Y)


@pytest.mark.every("approximation")
@pytest.mark.parametrize(
    ("approximation", "limit"), [*((own, 1.0) for own in APPROXIMATIONS), (None, 20.0), (None, 60.0), (None, 200.0)]
)
def test_predictions_keep_the_time_limit_of_an_estimator(
    approximation, limit, request, small_pieces, small_tiles, lines
):
    """While the matrix is computed, while it is factorized: half a variance is none, and it is shown how far it was."""
    model = searched(approximation).set_params(time_limit=limit, verbose=True)
    request.getfixturevalue("ticking")
    with pytest.raises(TimeoutError, match="could not be computed"):
        model.predict(X, return_std=True)
    assert any(line.startswith("InvariantRegressorCV.predict: ") for line in lines)
    model.set_params(time_limit=None)
    assert np.all(np.isfinite(model.predict(X, return_std=True)[1])), "and asked for again it is found"


SPACES = [*APPROXIMATIONS, rkhs.FourierFeatures(20), rkhs.Neighbors(8)]
LIMITED = [  # every estimator that takes a limit, itself or with a shape
    (cls, invariance, shape)
    for cls, invariance, shape in product(LEARNERS, (None, "auto"), (None, {0: "increasing"}))
    if ("time_limit" in cls().get_params() or shape) and "shape" in cls().get_params()
]


def fitted_by(cls, options, limit):
    """Return a model that has learned with a limit, on a clock that ticks at each look, its notes, and the time."""
    options = dict(options)
    y = np.where(np.arange(40) % 4, LABELS[:40] > 0, -1) if is_classifier(cls()) else Y[:40] + 50
    if limit is not None and options["shape"] is not None:
        options["shape"] = rkhs.Shape(options["shape"], time_limit=limit)
    if limit is not None and "time_limit" in cls().get_params():
        options["time_limit"] = limit
    with clocks.ticking(1e-3) as clock, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = cls(loss="squared", **options).fit(X[:40], y)
    model.set_params(**({"time_limit": None} if "time_limit" in options else {}))
    return model, y, " ".join(str(note.message) for note in told), clock.now


@pytest.mark.every("space")
@pytest.mark.parametrize("space", SPACES, ids=repr)
@pytest.mark.parametrize("case", LIMITED, ids=repr)
def test_any_limit_leaves_a_model_and_is_reported(case, space):
    """A model is at worst about a constant, and the same as without the limit unless this is said."""
    options = {"approximation": space, "invariance": case[1], "shape": case[2]}
    try:
        whole, y, _, total = fitted_by(case[0], options, None)
    except ValueError as refused:
        with pytest.raises(type(refused)):
            fitted_by(case[0], options, 1e-6)
        return
    for limit in (1e-6, 0.1 * total, 0.5 * total):
        model, _, said, used = fitted_by(case[0], options, limit)
        assert used <= 1.5 * limit + 5
        if is_classifier(model):
            assert model.score(X[:40], y) >= max(np.mean(y[y >= 0]), 1 - np.mean(y[y >= 0])) - 0.05
        else:
            assert np.mean((model.predict(X[:40]) - y) ** 2) <= 1.1 * np.var(y)
        limited = any(word in said for word in ("time limit", "candidates", "open"))
        assert limited or limit > 1e-6
        if not limited:
            np.testing.assert_allclose(model.predict(X), whole.predict(X))


@pytest.mark.parametrize("limit", [0, -1.0, "long"])
def test_limits_that_are_none_are_refused(limit):
    shaped = rkhs.InvariantRegressor(shape=rkhs.Shape({0: "increasing"}, time_limit=limit))
    for model in (rkhs.InvariantRegressorCV(time_limit=limit), shaped):
        with pytest.raises((ValueError, TypeError), match="time_limit"):
            model.fit(X, Y)


def test_the_exceptions_of_the_package_have_one_base():
    for name in rkhs.exceptions.__all__:
        assert issubclass(getattr(rkhs.exceptions, name), rkhs.exceptions.RkhsError)


def test_intervals_of_a_part_of_the_folds_are_not_kept(monkeypatch):
    model = rkhs.InvariantRegressorCV("gaussian", invariance=None, Cs=[1.0], nus=[0.0], loss="absolute").fit(X, Y)
    with monkeypatch.context() as patch:
        patch.setattr(model, "time_limit", 1e-9)
        with pytest.raises(
            TimeoutError, match=r"InvariantRegressorCV.predict_interval .* time_limit=1e-09: pass fewer"
        ):
            model.predict_interval(X[:2])
    assert np.all(np.isfinite(model.predict_interval(X[:2])))


@pytest.mark.parametrize(("place", "name"), [(GramBlock, "_tile"), (scipy.linalg.blas, "dtrsm")])
def test_ctrl_c_in_variances_is_raised(place, name, small_pieces, monkeypatch):
    solution = problem().solve()
    with monkeypatch.context() as patch:
        clocks.interrupting(patch, place, name, 5)
        with pytest.raises(KeyboardInterrupt):
            solution.posterior.std(rkhs.Evaluation(X[:5]))
    assert np.all(np.isfinite(solution.posterior.std(rkhs.Evaluation(X[:5])))), "and asked for again it is found"


def test_many_variances_are_those_of_a_few_at_a_time(monkeypatch):
    whole = ConditionedGram.of(problem()).covariance(rkhs.Gradient(X[:10]))
    monkeypatch.setattr(ConditioningEquations, "solve", partialmethod(ConditioningEquations.solve, columns=3))
    np.testing.assert_allclose(ConditionedGram.of(problem()).covariance(rkhs.Gradient(X[:10])), whole, atol=1e-12)


@pytest.mark.parametrize("approximation", [None, rkhs.Landmarks(20)], ids=["whole", "span"])
def test_tuning_stops_inside_an_evaluation(approximation, small_pieces, small_tiles, monkeypatch):
    term = rkhs.Term(rkhs.Evaluation(X), SQUARED, Y, weight=rkhs.Tunable())
    given = rkhs.Problem(rkhs.Gaussian(rkhs.Tunable()), [term], rkhs.Constant(), approximation=approximation)
    told, tuned = count(), []

    @contextmanager
    def showing(self, what):
        def stop(share):
            if next(told) > 2000:
                raise Stopped("time limit")

        with with_progress_callback(stop):
            yield

    with monkeypatch.context() as patch:
        patch.setattr(Monitor, "showing", showing)
        tuned.append(given.tune())
    assert tuned[0].tuning.status == "time limit"
    assert tuned[0].tuning.evaluations > 0
    assert tuned[0].solve().status == "converged"


@pytest.mark.parametrize("model", [True, False], ids=["estimator", "problem"])
def test_streams_show_how_many_rows_were_read(model, lines):
    stream = rkhs.streams.blocks(X, Y, rows=20)
    if model:
        rkhs.InvariantRegressor(approximation=rkhs.Landmarks(10)).fit(stream)
    else:
        rkhs.streams.StreamedProblem(
            KERNEL, lambda block: [rkhs.Term(rkhs.Evaluation(block.X), SQUARED, block.y)], stream, rkhs.Landmarks(10)
        ).solve()
    for what in ("looking at rows", "adding up rows"):
        assert [line.split(": ")[1].split(" ")[0] for line in lines if line.startswith(what)][:5] == [
            "20", "40", "60", "80", "100"
        ]  # fmt: skip


def test_a_surface_is_whole_or_none(monkeypatch):
    points = RNG.normal(size=(60, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    clocks.interrupting(monkeypatch, scipy.linalg.lapack, "dpotrf", 0)
    with pytest.raises(KeyboardInterrupt):
        rkhs.geometry.reconstruct_surface(points, points)


# Several outputs: a stopped solve has all of them.


def three_classes(loss, basis=None, gradients=0):
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(40, 2)), rng.integers(3, size=40)
    target = np.where(labels[:, None] == np.arange(3), 1.0, -1.0)
    terms = [rkhs.Term(rkhs.Evaluation(X), loss, target, 10.0)]
    terms += [rkhs.Term(rkhs.Gradient(X[:gradients]), rkhs.Squared())] if gradients else []
    return rkhs.Problem(rkhs.Gaussian(1.0), terms, basis)


@pytest.mark.every
@pytest.mark.parametrize("how", ["stopped by the callback", "interrupted"])
@pytest.mark.parametrize("solver", ["auto", *campaign.SOLVERS])
def test_a_stopped_solve_has_all_outputs(solver, how):
    """Three classes were one or none, or a ValueError, where the solver of "auto" was Galerkin or SchurComplement."""
    chosen = "auto" if solver == "auto" else campaign.SOLVERS[solver]
    for loss in (rkhs.SquaredHinge(), rkhs.Logistic(), rkhs.Hinge()):
        problem = three_classes(loss, rkhs.Constant() if loss.smooth else None, gradients=10 * loss.smooth)
        try:
            found = problem.solve(chosen, tol=1e-9, callback=clocks.stopping(2, how))
        except rkhs.exceptions.NotApplicableError:
            continue
        assert found.status in (how, "converged", "no further progress") or "rounding" in found.status
        assert found.function.coefficients.shape[1] == len(found.certificate.primal) == 3
        assert found.primal <= problem.system.at_zero.sum()
        honest = certify(problem.system, problem.represented.iterate(found.function), quick=True)
        np.testing.assert_allclose(found.certificate.primal, honest.primal, rtol=1e-9)


@pytest.mark.parametrize("how", ["stopped by the callback", "interrupted"])
def test_a_stopped_grid_has_all_outputs_of_all_cells(how):
    for loss, gradients, iteration in ((rkhs.Hinge(), 0, 2), (rkhs.Logistic(), 10, 1)):
        problem = three_classes(loss, gradients=gradients)
        folds = {0: [np.arange(20), np.arange(20, 40)]}
        found = problem.grid({0: [1.0, 10.0]}, folds, tol=1e-9, callback=clocks.stopping(iteration, how))
        for solution in found.flat:
            assert solution.status in (how, "converged")
            assert len(solution.certificate.primal) == 3
        assert any(solution.status == how for solution in found.flat)
        assert any(np.any(solution.function.coefficients) for solution in found.flat), "the best iterate is lost"
