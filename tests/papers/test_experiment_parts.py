"""The fast ways of the experiments beside the estimators and problems that they stand for."""

import signal

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

import rkhs
from papers import digits, few_labels, thin_plate, usps
from papers.experiment import Record, compare
from papers.printed_deviations import PRINTED
from papers.thin_plate import gaussian_problem, thin_plate_problem, values_at
from rkhs._progress import interrupts_raised
from rkhs.invariances._graph import nearest, neighbor_weights


@pytest.fixture
def moons():
    X, y = make_moons(60, noise=0.15, random_state=0)
    return few_labels.Points(X, np.where(y == 1, 1, -1), 0.5)


def kernel_of(points):
    return rkhs.gram(rkhs.Gaussian(points.scale), rkhs.Evaluation(points.X)).dense()


def decided(K, y, labeled, C):
    return SVC(C=C, kernel="precomputed", tol=1e-8).fit(K[np.ix_(labeled, labeled)], y[labeled]), K[:, labeled]


def test_a_functional_a_point_says_what_all_edges_say(moons):
    f = rkhs.Function(rkhs.Gaussian(0.5), rkhs.Evaluation(moons.X[:5]), [1.0, -2.0, 3.0, 0.5, -1.0])
    graph = neighbor_weights(*nearest(moons.X, 5), "ones")
    edges = rkhs.functionals.GraphDifference(moons.X, graph)(f)
    points = few_labels.graph_functionals(moons.X, 5)(f)
    assert len(points) == 60 < len(edges)
    assert np.isclose(np.sum(points**2), np.sum(edges**2))


@pytest.mark.parametrize("model", ["LapSVM", "InvSVM", "local average"])
def test_a_machine_with_a_conditioned_kernel_is_that_of_the_whole_problem(moons, model, monkeypatch):
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
    model, across = decided(own.matrix, moons.y, labeled, C)
    labels = rkhs.Term(rkhs.Evaluation(moons.X[labeled]), rkhs.Hinge(), target=moons.y[labeled], weight=C)
    known = rkhs.Term(term.functional.like(moons.X), rkhs.Squared(), weight=0.1 * term.weight)
    f = rkhs.Problem(rkhs.Gaussian(moons.scale), [labels, known], rkhs.Constant()).solve(tol=1e-8).function
    assert np.allclose(model.decision_function(across), f(moons.X), atol=0.02)


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
    weight = 1 / rkhs.kernels.median_scale(moons.X) ** 2
    for C, error in zip(Cs, found, strict=True):
        wrong = []
        for b in folds:
            a = np.setdiff1d(np.arange(60), b)
            labels = rkhs.Term(rkhs.Evaluation(moons.X[a]), rkhs.SquaredHinge(), target=y[a], weight=C * weight)
            f = rkhs.Problem(rkhs.ThinPlate(order=2), [labels]).solve(tol=1e-8).function
            wrong.append(np.mean(np.sign(f(moons.X[b])) != y[b]))
        assert error == pytest.approx(np.mean(wrong), abs=0.5 / 60)  # a point near the boundary may change sides


@pytest.mark.parametrize("name", digits.MODELS)
def test_a_machine_of_the_digits_chooses_by_the_held_out_loss(name, monkeypatch):
    """Beside models of their own for each fold, without its images and their copies."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(15) < 10, 1, -1)
    X = np.clip(rng.random((15, 784)) + 0.15 * (y == 1)[:, None], 0, 1)
    monkeypatch.setattr(digits, "CS", (1.0, 1e4))
    monkeypatch.setattr(digits, "NUS", (1.0,))
    monkeypatch.setattr(digits, "SCALES", (1.0,))
    model = digits.Model(name, X, y)
    options, accuracy = model.choose()
    losses = {}
    for C in digits.CS:
        own = []
        for a, b in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
            labels, *others = model.terms
            kept = np.tile(np.isin(np.arange(15), a), model.copies)
            labels = rkhs.Term(labels.functional, labels.loss, labels.target, C * labels.weight * kept)
            kernel = rkhs.Gaussian(rkhs.kernels.median_scale(X))
            f = rkhs.Problem(kernel, [labels, *others], rkhs.Constant()).solve(tol=1e-4).function
            loss = np.log1p(np.exp(-y[b] * f(X[b])))
            own.append((loss[y[b] > 0].mean() + loss[y[b] < 0].mean()) / 2)
        losses[C] = np.mean(own)
    assert options["C"] == min(losses, key=losses.get)
    assert 0.5 <= accuracy <= 1
    assert np.mean(np.sign(model.function(**options)(X)) == y) > 0.9


def test_digits_are_compared_with_the_moved_and_the_moved_with_those_moved_again():
    X = np.random.default_rng(0).random((2, 784))
    f = rkhs.Function(rkhs.Gaussian(5.0), rkhs.Evaluation(X), [1.0, -2.0])
    down, up, right, left = digits.moved(X)[:4]
    assert np.allclose(down.reshape(2, 28, 28)[:, 3:], X.reshape(2, 28, 28)[:, 1:-2], atol=1e-12)
    assert np.allclose(left.reshape(2, 28, 28)[:, :, :-3], X.reshape(2, 28, 28)[:, :, 2:-1], atol=1e-12)
    differences = digits.unchanged(X)(f).reshape(2, 12, 2)  # once and twice, transformations, images
    assert np.allclose(differences[0, 1], f(up) - f(X))
    assert np.allclose(differences[1, 1], f(digits.moved(up)[3]) - f(up))
    assert np.allclose(differences[1, 11], f(digits.moved(digits.moved(X)[11])[1]) - f(digits.moved(X)[11]))
    assert not np.allclose(f(right), f(left))


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
        errors = {"1": [0.2] * 10, "10": [0.1] * 5 + [0.3] * 5}
        records.append(Record(cell, {"errors": errors}, 1.0))
    last = [cell for cell in usps.plan(True, records) if "chosen" in cell]
    assert [own["C"] for own in last[0]["chosen"]] == [10.0] * 5 + [1.0] * 5
    assert {own["scale"] for own in last[0]["chosen"]} == {0.5}
    assert "scale" not in last[1]["chosen"][0]


@pytest.mark.parametrize("variant", usps.VARIANTS)
def test_ten_machines_of_usps_are_each_their_own_problem(variant, monkeypatch):
    monkeypatch.setattr(usps, "TOL", 1e-8)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((80, 2)), np.arange(80) % 10
    found = values_at(usps.path(variant, X, usps.one_against_rest(y), 0.5, [0.5, 2.0]), X[:7])[1]
    median = rkhs.kernels.median_scale(X)
    target = np.where(y == 3, 1.0, -1.0)
    gaussian = variant == "Gaussian"
    weight = 2.0 if gaussian else 2.0 / median**2
    labels = rkhs.Term(rkhs.Evaluation(X), rkhs.SquaredHinge(), target=target, weight=weight)
    kernel = rkhs.Gaussian(0.5 * median) if gaussian else rkhs.ThinPlate(order=2)
    null_space = "dropped" if variant == "thin plate without basis" else "kept"
    problem = rkhs.Problem(kernel, [labels], rkhs.Constant() if gaussian else None, null_space)
    expected = problem.solve(tol=1e-10).function(X[:7])
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


def test_the_printed_table_is_complete():
    assert set(PRINTED) == set(few_labels.SETS)
    numbers = [cell for cells in PRINTED.values() for cell in cells]
    assert len(numbers) == 9 * 3 * 3
    assert all(0 < mean < 50 and 0 < deviation < 12 for mean, deviation in numbers)


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
