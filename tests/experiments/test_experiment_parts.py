"""The fast ways of the experiments beside the estimators and problems that they stand for."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse.csgraph
from sklearn.datasets import make_moons
from sklearn.model_selection import StratifiedKFold
from sklearn.svm import SVC

import rkhs
from rkhs.experiments import digits, flat, protocol, thin_plate, usps, warped
from rkhs.experiments.experiment import Record
from rkhs.experiments.labelled_search import Setting, search
from rkhs.experiments.pairs import verdict
from rkhs.experiments.splitting import Splitting
from rkhs.experiments.squared_hinge import gaussian_machine, machine_values, thin_plate_machine
from rkhs.experiments.table1_printed import PRINTED
from rkhs.invariances.named import neighbour_graph
from rkhs.solvers.dense import in_memory


@pytest.fixture
def moons():
    X, y = make_moons(60, noise=0.15, random_state=0)
    return protocol.Points(X, np.where(y == 1, 1, -1), 0.5)


def kernel_of(points):
    return rkhs.gram(rkhs.Gaussian(points.scale), rkhs.Evaluation(points.X)).dense()


def decided(K, y, labelled, C):
    return SVC(C=C, kernel="precomputed", tol=1e-8).fit(K[np.ix_(labelled, labelled)], y[labelled]), K[:, labelled]


def test_the_kernel_warped_by_a_graph_is_that_of_laplacian_svc(moons):
    labelled, C, nu = np.arange(0, 60, 4), 10.0, 0.3
    L = scipy.sparse.csgraph.laplacian(neighbour_graph(moons.X, 5)).toarray()
    machine, across = decided(warped.graph_warped(kernel_of(moons), L, nu, np.arange(60)), moons.y, labelled, C)
    known = np.zeros(60, dtype=int)
    known[labelled] = moons.y[labelled]
    ours = rkhs.LaplacianSVC(5, C=C, nu=nu, scale=moons.scale, unlabeled=0, tol=1e-10).fit(moons.X, known)
    assert np.allclose(machine.decision_function(across), ours.decision_function(moons.X), atol=1e-4)


def test_the_kernel_warped_by_averages_is_the_covariance_given_them(moons):
    functionals, nu = rkhs.LocalDeviation(moons.X, width=0.2), 0.7
    norm = float(rkhs.gram(rkhs.Gaussian(moons.scale), functionals).diagonal()[0])
    weight = nu * 2 / (moons.scale**2 * norm)  # two slopes of squared norm 1 / scale^2 at each point of the plane
    problem = rkhs.Problem(rkhs.Gaussian(moons.scale), [rkhs.Term(functionals, rkhs.Squared(), weight=weight)])
    expected = rkhs.WarpedGram.of(problem.represented).covariance(rkhs.Evaluation(moons.X))
    at = np.arange(0, 60, 7)
    (found,) = warped.average_warped(moons, functionals, kernel_of(moons), [nu], at)
    assert np.allclose(found, expected[:, at], atol=1e-9)


@pytest.mark.parametrize("few", [3, 20])
def test_the_flat_kernel_is_the_covariance_given_all_slopes(moons, few):
    """As long as the bound says; few columns need more blocks."""
    nus, at = [0.01, 3.0], np.arange(0, 60, 60 // few)
    for nu, found in zip(nus, flat.flat_kernels(moons.X, at, moons.scale, nus), strict=True):
        terms = [rkhs.Term(rkhs.Gradient(moons.X), rkhs.Squared(), weight=nu)]
        problem = rkhs.Problem(rkhs.Gaussian(moons.scale), terms)
        expected = rkhs.WarpedGram.of(problem.represented).covariance(rkhs.Evaluation(moons.X))
        assert np.allclose(found, expected[:, at], atol=flat.TOL)
        assert not np.allclose(found, kernel_of(moons)[:, at], atol=flat.TOL)


def test_the_bound_of_the_krylov_space_is_never_below_the_error(moons):
    G = rkhs.gram(rkhs.Gaussian(moons.scale), rkhs.Gradient(moons.X)).dense()
    B = rkhs.gram(rkhs.Gaussian(moons.scale), rkhs.Gradient(moons.X), rkhs.Evaluation(moons.X)).dense()
    space, nu = flat.Krylov(lambda V: np.concatenate([B.T @ V, G @ V]), B[:, :4]), 3.0
    exact = B.T @ np.linalg.solve(G + np.eye(len(G)) / (2 * nu), B[:, :4])
    errors = []
    for _ in range(8):
        space.grow()
        y = space.solution(nu)
        errors.append(np.abs(space.values @ y - exact).max())
        assert errors[-1] <= np.sqrt(2 * nu) * space.residual(y)
    assert errors[-1] < errors[0] / 100


def test_a_machine_with_the_flat_kernel_is_an_invariant_classifier(moons):
    labelled, C, nu = np.arange(0, 60, 4), 10.0, 0.3
    (K,) = flat.flat_kernels(moons.X, np.arange(60), moons.scale, [nu])
    machine, across = decided(K, moons.y, labelled, C)
    known = np.zeros(60, dtype=int)
    known[labelled] = moons.y[labelled]
    ours = rkhs.InvariantClassifier(C=C, nu=nu, scale=moons.scale, unlabeled=0, tol=1e-8).fit(moons.X, known)
    assert np.allclose(machine.decision_function(across), ours.decision_function(moons.X), atol=0.05)


def test_the_chosen_machine_is_that_of_an_exhaustive_search(moons):
    """The best mean accuracy on the folds, counted by hand with SVC on the points themselves."""
    labelled = np.arange(0, 60, 2)
    K = kernel_of(moons)
    predicted, options = warped.chosen_machine((warped.Candidate(K, 0.0, {}),), moons.y, labelled)
    gamma = 1 / (2 * moons.scale**2)
    X, y = moons.X[labelled], moons.y[labelled]
    folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y))
    means = {
        C: np.mean([SVC(C=C, gamma=gamma).fit(X[a], y[a]).score(X[b], y[b]) for a, b in folds]) for C in protocol.CS
    }
    assert means[options["C"]] == max(means.values())
    plain = SVC(C=options["C"], gamma=gamma).fit(X, y)
    assert np.mean(predicted == plain.predict(moons.X)) == 1.0


def by_libsvm(X, y, scale, C, there):
    """The squared hinge's dual is that of a hinge SVM without an upper bound, on K + I / (2 C)."""
    kernel = rkhs.Gaussian(scale)
    K = rkhs.gram(kernel, rkhs.Evaluation(X)).dense()
    machine = SVC(C=1e10, kernel="precomputed", tol=1e-8).fit(K + np.eye(len(y)) / (2 * C), y)
    return machine.decision_function(rkhs.gram(kernel, rkhs.Evaluation(there), rkhs.Evaluation(X)).dense())


def test_gaussian_machines_are_those_of_libsvm(moons):
    y = np.column_stack([moons.y, np.where(moons.X[:, 0] > 0.5, 1, -1)]).astype(float)
    Cs, there = [0.3, 3.0, 30.0], np.random.default_rng(0).standard_normal((20, 2))
    found = machine_values(gaussian_machine(moons.X, y, 0.5).path(0, Cs, tol=1e-10), there)
    assert found.shape == (3, 20, 2)
    for i, C in enumerate(Cs):
        for k in range(2):
            assert np.allclose(found[i, :, k], by_libsvm(moons.X, y[:, k], 0.5, C, there), atol=1e-4)


def test_errors_of_folds_are_those_of_machines_trained_without_them(moons):
    y, Cs = moons.y.astype(float), [0.1, 1.0, 10.0]
    folds = [b for _, b in thin_plate.splits(y, 3, seed=0)]
    found = thin_plate.fold_errors(thin_plate_machine(moons.X, y), Cs, moons.X, y, folds)
    weight = 1 / rkhs.median_scale(moons.X) ** 2
    for C, error in zip(Cs, found, strict=True):
        wrong = []
        for b in folds:
            a = np.setdiff1d(np.arange(60), b)
            labels = rkhs.Term(rkhs.Evaluation(moons.X[a]), rkhs.SquaredHinge(), target=y[a], weight=C * weight)
            f = rkhs.Problem(rkhs.ThinPlate(order=2), [labels]).solve(tol=1e-8).function
            wrong.append(np.mean(np.sign(f(moons.X[b])) != y[b]))
        assert error == pytest.approx(np.mean(wrong), abs=0.5 / 60)  # a point near the boundary may change sides


def test_the_search_with_labels_chooses_by_the_held_out_loss_and_solves_what_it_chose(moons):
    X, y = moons.X[:40], moons.y[:40].astype(float)

    def problem(scale, labels, slopes):
        terms = [
            rkhs.Term(rkhs.Evaluation(X), rkhs.Logistic(), target=y, weight=labels),
            rkhs.Term(rkhs.Gradient(X), rkhs.EpsilonInsensitive(0.1), weight=slopes),
        ]
        return rkhs.Problem(rkhs.Gaussian(scale), terms, rkhs.Constant())

    def held_out_loss(scale, C, nu):
        losses = []
        for train, test in folds:
            f = problem(scale, C * np.isin(np.arange(40), train), nu).solve(tol=1e-8).function
            loss = np.log1p(np.exp(-y[test] * f(X[test])))
            losses.append((loss[y[test] > 0].mean() + loss[y[test] < 0].mean()) / 2)
        return np.mean(losses)

    folds = list(StratifiedKFold(3, shuffle=True, random_state=0).split(X, y))
    best = search([Setting(problem(s, 1.0, 1.0), s) for s in (0.3, 1.0)], (0.1, 10.0), (0.01, 1.0), y, folds)
    by_hand = {key: held_out_loss(*key) for key in product((0.3, 1.0), (0.1, 10.0), (0.01, 1.0))}
    assert (best.setting.scale, best.C, best.nu) == min(by_hand, key=by_hand.get)
    assert np.isclose(best.loss, min(by_hand.values()), atol=0.01)
    assert 0.5 < best.score <= 1
    exact = problem(best.setting.scale, best.C, best.nu).solve(tol=1e-8).function
    assert np.allclose(best.solve(1e-6)(X), exact(X), atol=0.01)


def test_problems_split_together_are_each_solved(moons):
    """Kinks with large weights, beside labels some of which are left out."""
    left_out = np.where(np.arange(60) % 4 == 0, 0.0, 1.0)
    weights = {"labels": [np.ones(60), 100 * left_out], "slopes": [1.0, 50.0]}
    families = {"labels": rkhs.Evaluation(moons.X), "slopes": rkhs.Gradient(moons.X)}

    def problem(labels, slopes):
        terms = [
            rkhs.Term(families["labels"], rkhs.Logistic(), target=moons.y, weight=labels),
            rkhs.Term(families["slopes"], rkhs.EpsilonInsensitive(0.1), weight=slopes),
        ]
        return rkhs.Problem(rkhs.Gaussian(0.5), terms, rkhs.Constant())

    columns = [np.r_[labels, np.full(120, slopes)] for labels, slopes in zip(*weights.values(), strict=True)]
    together = Splitting(in_memory(problem(1.0, 1.0).system), np.stack(columns, axis=1))
    together.run(1e-4)
    for k, (labels, slopes) in enumerate(zip(*weights.values(), strict=True)):
        f = problem(labels, slopes).solve(tol=1e-9).function
        assert np.allclose(together.images[:60, k], f(moons.X), atol=1e-3)
        assert np.allclose(together.images[60:, k], families["slopes"](f).ravel(), atol=5e-3)


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
        few, some, many = (protocol.labelled_points(y, labels, draw) for labels in protocol.LABELS)
        assert set(few) < set(some) < set(many)
        assert [len(few), len(some), len(many)] == [30, 60, 90]
        assert [int(np.sum(y[own] > 0)) for own in (few, some, many)] == [6, 12, 18]
    assert not np.array_equal(few, protocol.labelled_points(y, 30, 0))


def test_a_verdict_needs_a_difference_that_is_larger_than_its_noise():
    def records(machine, errors):
        return [Record({"machine": machine, "draw": d}, {"error": e}, 0.0) for d, e in enumerate(errors)]

    plain = records("SVM", [20.0, 22.0, 21.0, 19.0])
    assert verdict([*plain, *records("InvSVM", [18.0, 20.1, 19.2, 16.9])], "InvSVM", "SVM")[0] == "win"
    assert verdict([*plain, *records("InvSVM", [22.0, 24.1, 23.2, 20.9])], "InvSVM", "SVM")[0] == "loss"
    assert verdict([*plain, *records("InvSVM", [18.0, 25.0, 17.0, 22.0])], "InvSVM", "SVM")[0] == "tie"


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
    found = machine_values(usps.path(variant, X, usps.one_vs_rest(y, 10), 0.5, [0.5, 2.0]), X[:7])[1]
    median = rkhs.median_scale(X)
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
    monkeypatch.setattr(usps, "digits", lambda points: (X[:90], y[:90], X[90:], y[90:]))
    options = [{"C": 1.0, "scale": 0.5}] * 4 + [{"C": 100.0, "scale": 1.0}] * 3 + [{"C": 10.0, "scale": 0.5}] * 3
    found = usps.compute({"variant": "Gaussian", "points": 90, "chosen": options})
    values = np.empty((30, 10))
    for digit, own in enumerate(options):
        target = np.where(y[:90] == digit, 1.0, -1.0)
        values[:, digit] = by_libsvm(X[:90], target, own["scale"] * rkhs.median_scale(X[:90]), own["C"], X[90:])
    assert found["of"] == 30
    assert abs(found["errors"] - np.sum(values.argmax(axis=1) != y[90:])) <= 1


def test_the_printed_table_is_complete():
    assert set(PRINTED) == set(protocol.SETS)
    numbers = [cell for own in PRINTED.values() for cells in own.values() for cell in cells]
    assert len(numbers) == 9 * 3 * 3
    assert all(0 < mean < 50 and 0 < deviation < 12 for mean, deviation in numbers)
