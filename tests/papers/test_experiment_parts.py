"""The fast ways of the experiments beside the estimators and problems that they stand for."""

import signal
from itertools import product

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

import rkhs
from papers import digits, few_labels, thin_plate, usps
from papers.experiment import Record, compare
from papers.thin_plate import gaussian_problem, thin_plate_problem, values_at
from rkhs.extend import interrupts_raised
from rkhs.invariances._graph import nearest, neighbor_weights


@pytest.fixture
def moons():
    X, y = make_moons(60, noise=0.15, random_state=0)
    return few_labels.Points(X, np.where(y == 1, 1, -1), 0.5)


def kernel_of(points):
    return rkhs.gram(rkhs.Gaussian(points.scale), rkhs.Evaluation(points.X)).dense()


def test_a_functional_a_point_says_what_all_edges_say(moons):
    f = rkhs.results.Function(rkhs.Gaussian(0.5), rkhs.Evaluation(moons.X[:5]), [1.0, -2.0, 3.0, 0.5, -1.0])
    graph = neighbor_weights(*nearest(moons.X, 5), "ones")
    edges = rkhs.functionals.GraphDifference(moons.X, graph)(f)
    points = few_labels.graph_functionals(moons.X, 5)(f)
    assert len(points) == 60 < len(edges)
    assert np.isclose(np.sum(points**2), np.sum(edges**2))


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("model", ["LapSVM", "InvSVM", "local average"])
def test_a_machine_with_a_conditioned_kernel_is_that_of_the_whole_problem(moons, model, squared, monkeypatch):
    monkeypatch.setattr(few_labels, "load_points", lambda *_: moons)
    monkeypatch.setattr(few_labels, "GRADIENT_NUS", (0.1, 1.0))
    few_labels.candidates.cache_clear()
    labeled, C = np.arange(0, 60, 4), 10.0
    plain, *found = few_labels.candidates(model, "moons", "columns")
    few_labels.candidates.cache_clear()
    assert np.array_equal(plain.matrix, kernel_of(moons))
    assert plain.nu == 0
    terms = list(few_labels.invariances(model, moons))
    assert len(found) == len(terms) * len({one.nu for one in found})
    term, options = terms[0]
    own = next(one for one in found if one.options == options and one.nu == 0.1)
    model = few_labels.fit_svm(own.matrix[np.ix_(labeled, labeled)], moons.y[labeled], C, squared)
    loss = rkhs.SquaredHinge() if squared else rkhs.Hinge()
    labels = rkhs.Term(rkhs.Evaluation(moons.X[labeled]), loss, target=moons.y[labeled], weight=C)
    known = rkhs.Term(term.functional.like(moons.X), rkhs.Squared(), weight=0.1 * term.weight)
    f = rkhs.Problem(rkhs.Gaussian(moons.scale), [labels, known], rkhs.Constant()).solve(tol=1e-8).function
    assert np.allclose(model.decision_function(own.matrix[:, labeled]), f(moons.X), atol=0.02)


def test_the_chosen_machine_is_that_of_an_exhaustive_search(moons):
    """The best mean accuracy on the folds, counted by hand with SVC on the points themselves."""
    labeled = np.arange(0, 60, 2)
    K = kernel_of(moons)
    predicted, options = few_labels.predict_with_best((few_labels.Candidate(K, 0.0, {}),), moons.y, labeled)
    gamma = 1 / (2 * moons.scale**2)
    X, y = moons.X[labeled], moons.y[labeled]
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
    means = {
        C: np.mean([SVC(C=C, gamma=gamma).fit(X[a], y[a]).score(X[b], y[b]) for a, b in folds]) for C in few_labels.CS
    }
    assert means[options["C"]] == max(means.values())
    plain = SVC(C=options["C"], gamma=gamma).fit(X, y)
    assert np.mean(predicted == plain.predict(moons.X)) == 1.0


def by_libsvm(X, y, scale, C, there):
    """The squared hinge's dual is that of a hinge SVM without an upper bound, on K + I / (2 C)."""
    kernel = rkhs.Gaussian(scale)
    K = rkhs.gram(kernel, rkhs.Evaluation(X)).dense()
    model = SVC(C=1e10, kernel="precomputed", tol=1e-8).fit(K + np.eye(len(y)) / (2 * C), y)
    return model.decision_function(rkhs.gram(kernel, rkhs.Evaluation(there), rkhs.Evaluation(X)).dense())


def test_gaussian_problems_are_those_of_libsvm(moons):
    y = np.column_stack([moons.y, np.where(moons.X[:, 0] > 0.5, 1, -1)]).astype(float)
    Cs, there = [0.3, 3.0, 30.0], np.random.default_rng(0).standard_normal((20, 2))
    found = values_at(gaussian_problem(moons.X, y, 0.5).path(0, Cs, tol=1e-10), there)
    assert found.shape == (3, 20, 2)
    for i, C in enumerate(Cs):
        for k in range(2):
            assert np.allclose(found[i, :, k], by_libsvm(moons.X, y[:, k], 0.5, C, there), atol=1e-4)


def test_errors_of_folds_are_those_of_machines_trained_without_them(moons):
    y, Cs = moons.y.astype(float), [0.1, 1.0, 10.0]
    folds = [b for _, b in thin_plate.splits(y, 3, seed=0)]
    found = thin_plate.fold_errors(thin_plate_problem(moons.X, y), Cs, moons.X, y, folds)
    weight = 1 / rkhs.kernels.median_scale(moons.X) ** 2  # the kernel is r^2 log r in the plane
    for C, error in zip(Cs, found, strict=True):
        wrong = []
        for b in folds:
            a = np.setdiff1d(np.arange(60), b)
            labels = rkhs.Term(rkhs.Evaluation(moons.X[a]), rkhs.SquaredHinge(), target=y[a], weight=C * weight)
            f = rkhs.Problem(rkhs.kernels.ThinPlate(order=2), [labels]).solve(tol=1e-8).function
            wrong.append(np.mean(np.sign(f(moons.X[b])) != y[b]))
        assert error == pytest.approx(np.mean(wrong), abs=0.5 / 60)  # a point near the boundary may change sides


@pytest.mark.parametrize(
    ("variant", "kernel"),
    [
        *(pytest.param(v, "Gaussian", marks=pytest.mark.slow) for v in digits.VARIANTS),
        ("InvSVM, central derivatives", "linear"),
        pytest.param("InvSVM, central derivatives", "polynomial", marks=pytest.mark.slow),
    ],
)
def test_a_model_of_the_digits_chooses_by_the_held_out_loss(variant, kernel, monkeypatch):
    """Beside models of their own for each fold, without its images, their copies and their functionals."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(15) < 10, 1, -1)
    X = np.clip(rng.random((15, 784)) + 0.15 * (y == 1)[:, None], 0, 1)
    monkeypatch.setattr(digits, "FOLD_TOL", 1e-4)
    model = digits.Model(variant, kernel, X, y)
    shape = 2.0
    Cs, nu = (10.0, 1e4), 1.0 if model.invariance is not None else 0.0
    epsilon = 0.1 if model.invariance is not None else 0.0
    model.try_options(Cs, (nu,), shape, epsilon)
    each = 0 if model.invariance is None else model.invariance.size // 15
    for C in Cs:
        own = []
        for a, b in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
            labels, *others = model.problem(shape, epsilon).terms
            kept = np.tile(np.isin(np.arange(15), a), model.copies)
            terms = [rkhs.Term(labels.functional, labels.loss, labels.target, C * labels.weight * kept)]
            for other in others:
                rows = np.flatnonzero(np.repeat(np.isin(np.arange(15), a), each))
                size = other.functional.size
                ones = np.isin(np.arange(size), rows).astype(float).reshape(other.functional.shape)
                terms.append(rkhs.Term(other.functional, other.loss, weight=nu * ones))
            f = rkhs.Problem(model.problem(shape, epsilon).kernel, terms, rkhs.Constant()).solve(tol=1e-5).function
            loss = np.log1p(np.exp(-y[b] * f(X[b] / model.unit)))
            own.append((loss[y[b] > 0].mean() + loss[y[b] < 0].mean()) / 2)
        assert model.found[C, nu, shape, epsilon][0] == pytest.approx(np.mean(own), rel=0.05)
    C, *_ = model.best
    assert model.found[model.best][0] == min(loss for loss, _ in model.found.values())
    assert np.mean(np.sign(model.function(C, nu, shape, epsilon)(X / model.unit)) == y) > 0.9


class KnownLoss(digits.Model):
    def try_options(self, Cs, nus, shape, epsilon):
        for C, nu in product(Cs, nus):
            away = np.log10([C / 1e7, nu / 1e3, shape / 4, epsilon / 0.01])
            self.found[C, nu, shape, epsilon] = float(away @ away), 1.0


def test_the_search_of_the_digits_refines_around_the_best():
    """With a loss that is known: it finds the best power of ten, one step beyond the coarse grid too."""
    y = np.where(np.arange(15) < 10, 1, -1)
    model = KnownLoss("InvSVM, central derivatives", "Gaussian", np.random.default_rng(0).random((15, 784)), y)
    options, loss, accuracy = model.choose()
    assert options == {"C": 1e7, "nu": 1e3, "shape": 4.0, "epsilon": 0.01}
    assert (loss, accuracy) == (0.0, 1.0)


def test_digits_are_compared_with_the_moved_and_the_moved_with_those_moved_again():
    X = np.random.default_rng(0).random((2, 784))
    f = rkhs.results.Function(rkhs.Gaussian(5.0), rkhs.Evaluation(X), [1.0, -2.0])
    down, up, right, left = digits.moved(X)[:4]
    assert np.allclose(down.reshape(2, 28, 28)[:, 3:], X.reshape(2, 28, 28)[:, 1:-2], atol=1e-12)
    assert np.allclose(left.reshape(2, 28, 28)[:, :, :-3], X.reshape(2, 28, 28)[:, :, 2:-1], atol=1e-12)
    differences = digits.functionals("InvSVM, 24 differences", X)(f).reshape(2, 2, 12)  # images, once and twice
    assert np.allclose(differences[:, 0, 1], f(up) - f(X))
    assert np.allclose(differences[:, 1, 1], f(digits.moved(up)[3]) - f(up))
    assert np.allclose(differences[:, 1, 11], f(digits.moved(digits.moved(X)[11])[1]) - f(digits.moved(X)[11]))
    assert not np.allclose(f(right), f(left))


def test_derivatives_along_motions_of_digits():
    X = np.random.default_rng(0).random((2, 784))
    f = rkhs.results.Function(rkhs.Gaussian(5.0), rkhs.Evaluation(X), [1.0, -2.0])
    moved, h = digits.moved(X), 1e-5
    one_sided = digits.functionals("InvSVM, one-sided derivatives", X)(f)
    central = digits.functionals("InvSVM, central derivatives", X)(f)
    assert one_sided.shape == (2, 12)
    assert central.shape == (2, 6)
    assert np.allclose(one_sided[:, 3], (f(X + h * (moved[3] - X)) - f(X - h * (moved[3] - X))) / (2 * h))
    half = (moved[4] - moved[5]) / 2
    assert np.allclose(central[:, 2], (f(X + h * half) - f(X - h * half)) / (2 * h))


def test_folds_choose_among_the_variants_of_the_digits():
    cells = [{"repeat": r, "variant": v} for r in (300, 301) for v in digits.MODELS["VirSVM"]]
    results = [{"loss": loss, "error": error} for loss, error in ((0.5, 1.0), (0.4, 2.0), (0.3, 3.0), (0.4, 0.0))]
    records = [Record(cell, result, 0.0) for cell, result in zip(cells, results, strict=True)]
    assert [r.result["error"] for r in digits.by_folds(records, digits.MODELS["VirSVM"])] == [2.0, 3.0]


def test_draws_are_nested_and_have_classes_in_proportion():
    y = np.where(np.arange(200) < 40, 1, -1)  # a fifth
    for draw in range(10):
        few, some, many = (few_labels.labeled_rows(y, labels, draw) for labels in few_labels.LABELS)
        assert set(few) < set(some) < set(many)
        assert [len(few), len(some), len(many)] == [30, 60, 90]
        assert [int(np.sum(y[own] > 0)) for own in (few, some, many)] == [6, 12, 18]
    assert not np.array_equal(few, few_labels.labeled_rows(y, 30, 0))


def test_a_verdict_needs_a_difference_that_is_larger_than_its_noise():
    def records(model, errors):
        return [Record({"model": model, "draw": d}, {"error": e}, 0.0) for d, e in enumerate(errors)]

    plain = records("SVM", [20.0, 22.0, 21.0, 19.0])
    assert compare([*plain, *records("InvSVM", [18.0, 20.1, 19.2, 16.9])], "InvSVM", "SVM")[0] == "win"
    assert compare([*plain, *records("InvSVM", [22.0, 24.1, 23.2, 20.9])], "InvSVM", "SVM")[0] == "loss"
    assert compare([*plain, *records("InvSVM", [18.0, 25.0, 17.0, 22.0])], "InvSVM", "SVM")[0] == "tie"


def test_usps_chooses_for_each_digit_and_plans_the_last_machines_then():
    cells = usps.plan(True, [])
    assert all("fold" in cell for cell in cells)
    records = []
    for cell in cells:
        better = 0.05 if cell.get("power") == 3 else 0.0  # of the first five digits
        errors = {"1": [0.2] * 10, "10": [0.1 - better] * 5 + [0.3] * 5}
        records.append(Record(cell, {"errors": errors}, 1.0))
    last = {cell["variant"]: cell for cell in usps.plan(True, records) if "chosen" in cell}
    assert [own["C"] for own in last["Gaussian"]["chosen"]] == [10.0] * 5 + [1.0] * 5
    assert {own["scale"] for own in last["Gaussian"]["chosen"]} == {0.5}
    assert {own["power"] for own in last["thin plate, r^2 log r"]["chosen"]} == {2.0}
    assert [own["power"] for own in last[usps.CHOSEN]["chosen"]] == [3.0] * 10  # ties go to the smoother kernel
    few = last[f"{usps.CHOSEN}, {usps.FEW}"]
    assert few["chosen"] == last[usps.CHOSEN]["chosen"]
    assert few["landmarks"] == usps.QUICK_LANDMARKS


USPS_VARIANTS = {
    usps.GAUSSIAN: {"scale": 0.5},
    usps.PLATE: {"power": 2},
    "thin plate, r^3": {"power": 3},
    usps.BARE: {"power": 2},
    usps.STRAIGHT: {"power": 2},
    f"{usps.CHOSEN}, {usps.FEW}": {"power": 3},
}


@pytest.mark.parametrize("variant", USPS_VARIANTS)
def test_ten_machines_of_usps_are_each_their_own_problem(variant):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((80, 5)), np.arange(80) % 10
    option = USPS_VARIANTS[variant]
    cell = {"variant": variant} | ({"landmarks": 80, "draw": 0} if usps.FEW in variant else {})
    problem = usps.problem_of(cell, X, usps.one_against_rest(y), option)
    found = values_at(problem.path(0, [0.5, 2.0], tol=1e-8), X[:7])[1]
    median = rkhs.kernels.median_scale(X)
    target = np.where(y == 3, 1.0, -1.0)
    gaussian, power = variant == usps.GAUSSIAN, option.get("power")
    weight = 2.0 if gaussian else 2.0 / median**power
    labels = rkhs.Term(rkhs.Evaluation(X), rkhs.SquaredHinge(), target=target, weight=weight)
    kernel = rkhs.Gaussian(0.5 * median) if gaussian else rkhs.kernels.Polyharmonic(power)
    null_space = "kept" if variant in (usps.GAUSSIAN, usps.STRAIGHT) else "dropped"
    basis = None if variant in (usps.BARE, usps.STRAIGHT) else rkhs.Constant()
    expected = rkhs.Problem(kernel, [labels], basis, null_space).solve(tol=1e-10).function(X[:7])
    assert found.shape == (7, 10)
    assert np.allclose(found[:, 3], expected, atol=1e-3)


def test_the_last_machines_of_usps_take_each_digit_from_its_own_parameters(monkeypatch):
    rng = np.random.default_rng(1)
    y = np.arange(120) % 10
    X = rng.standard_normal((120, 5)) + np.eye(10)[y][:, :5] * 2
    monkeypatch.setattr(usps, "load_digits", lambda points: (X[:90], y[:90], X[90:], y[90:]))
    options = [{"C": 1.0, "scale": 0.5}] * 4 + [{"C": 100.0, "scale": 1.0}] * 3 + [{"C": 10.0, "scale": 0.5}] * 3
    found = usps.compute({"variant": "Gaussian", "points": 90, "chosen": options})
    values = np.empty((30, 10))
    for digit, own in enumerate(options):
        target = np.where(y[:90] == digit, 1.0, -1.0)
        values[:, digit] = by_libsvm(X[:90], target, own["scale"] * rkhs.kernels.median_scale(X[:90]), own["C"], X[90:])
    assert found["of"] == 30
    assert abs(found["errors"] - np.sum(values.argmax(axis=1) != y[90:])) <= 1


def test_the_search_of_the_thin_plate_widens_its_grid_until_the_best_is_inside():
    def known(best_scale, best_C, flat=0.0):
        def evaluate(scale, Cs):
            return [max(abs(np.log10(C / best_C)), flat) + abs(np.log2(scale / best_scale)) for C in Cs]

        return evaluate

    assert thin_plate.search(known(1.0, 1e-7), [1.0], thin_plate.CS)[1::2] == (pytest.approx(1e-7), True)
    scale, C, _, inside = thin_plate.search(known(32.0, 1e6), thin_plate.SCALES, thin_plate.GAUSSIAN_CS)
    assert (scale, C, inside) == (32.0, 1e6, True)
    # Below 1e-4 all errors are equal: the smallest C that is not at the end is chosen, after at most one step.
    _, C, Cs, inside = thin_plate.search(known(1.0, 1e-9, flat=5.0), [1.0], thin_plate.CS)
    assert (C, Cs[0], inside) == (pytest.approx(1e-4), pytest.approx(1e-5), True)
    *_, inside = thin_plate.search(known(1.0, 1e-30), [1.0], thin_plate.CS)
    assert not inside


def test_splice_in_columns_of_0_and_1():
    assert thin_plate.printed(thin_plate.CODED) == thin_plate.PRINTED["splice"]
    X = np.array([[1.0, 4.0], [3.0, 4.0], [2.0, 1.0]])
    coded = thin_plate.one_hot(X)
    assert coded.shape == (3, 8)
    assert np.array_equal(coded.reshape(3, 2, 4).argmax(axis=2) + 1, X)


def test_ctrl_c_ends_a_cell(moons):
    """Solvers would go on with the best function so far, and a cell would have its result."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    problem = gaussian_problem(moons.X, moons.y.astype(float), 0.5)

    def stopped(_):
        signal.raise_signal(signal.SIGINT)

    try:
        assert problem.solve(rkhs.solvers.NonlinearCG(), tol=1e-10, callback=stopped).status == "interrupted"
        with pytest.raises(KeyboardInterrupt), interrupts_raised():
            problem.solve(rkhs.solvers.NonlinearCG(), tol=1e-10, callback=stopped)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_solution_that_did_not_converge_is_wrong_everywhere(moons):
    problem = gaussian_problem(moons.X, moons.y.astype(float), 0.5)
    found = problem.path(0, [1.0, 1e6], tol=1e-10, callback=lambda record: record.iteration > 1)
    assert [one.status == "converged" for one in found] == [False, False]
    assert np.all(np.sign(values_at(found, moons.X)) != moons.y)
