"""Grids and folds on a span: each cell is the problem with its weights, and the rows are looked at once."""

from types import SimpleNamespace

import numpy as np
import pytest

import rkhs
from problems import check_cells
from rkhs._core.finite import monitor
from rkhs._core.limits import with_limits
from rkhs.extend import Monitor

RNG = np.random.default_rng(3)
X, Z = RNG.normal(size=(60, 3)), RNG.normal(size=(7, 3))
Y = np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0)
SPANS = {
    "values": rkhs.Landmarks(rkhs.Evaluation(X[:25])),
    "derivatives": rkhs.Landmarks(rkhs.stack([rkhs.Evaluation(X[:8]), rkhs.Gradient(X[20:24])])),
    "waves": rkhs.FourierFeatures(30),
}
LOSSES = (rkhs.Squared(), rkhs.Logistic(), rkhs.Hinge())
CS, NUS = [0.5, 20.0], [0.0, 0.3]
FOLDS = [np.arange(k, 40, 4) for k in range(3)]  # some rows are in no fold


def problem(loss, span, C=1.0, nu=1.0, points=X, labels=40, target=None):
    target = Y[:labels] if target is None else target
    terms = [
        rkhs.Term(rkhs.Evaluation(points[:labels]), loss, target, C),
        rkhs.Term(rkhs.Gradient(points), rkhs.Squared(), weight=nu),
        rkhs.Term(rkhs.Difference(points[:10], -points[:10]), rkhs.Huber(0.1), weight=nu),
    ]
    return rkhs.Problem(rkhs.Gaussian(1.2), terms, rkhs.Constant(), approximation=span)


@pytest.mark.parametrize("span", SPANS.values(), ids=SPANS)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_every_cell_is_its_own_problem(loss, span):
    found = check_cells(problem(loss, span), {0: CS, (1, 2): NUS}, {0: FOLDS}, exact=1e-8, at=Z, atol=1e-4)
    assert found.shape == (2, 2, 3)


def test_labels_at_the_points_of_the_gradients():
    """Where both share tiles: the moments of all groups together are those that the gradients use again."""
    evaluation = rkhs.Evaluation(X)
    gradient = rkhs.Gradient(evaluation.prototype)
    assert gradient.prototype is evaluation.prototype
    terms = [rkhs.Term(evaluation, rkhs.Squared(), Y), rkhs.Term(gradient, rkhs.Squared())]
    shared = rkhs.Problem(rkhs.Gaussian(1.2), terms, approximation=SPANS["values"])
    check_cells(shared, {0: CS, 1: NUS}, {0: [np.arange(k, 60, 3) for k in range(3)]}, 1e-9)


@pytest.mark.parametrize("loss", LOSSES[:2], ids=repr)
@pytest.mark.parametrize("patterns", [0, 4])
def test_folds_that_overlap_and_have_factors(loss, patterns):
    """Rows grouped by their folds, or folds as groups, are the same."""
    factors = [RNG.choice(some, 40) for some in ([0.0, 0.5, 2.0], [0.5, 2.0], [1.0, 3.0])]
    with with_limits(fold_patterns=patterns):
        check_cells(problem(loss, SPANS["values"]), {}, {0: factors})


def test_folds_of_gradients_and_several_outputs():
    target = np.stack([Y[:40], np.roll(Y, 3)[:40]], axis=1)
    whole = problem(rkhs.Logistic(), SPANS["values"], target=target)
    check_cells(whole, {0: CS}, {1: [np.arange(0, 180, 2), np.arange(1, 180, 2)]})


def test_conditionally_positive_definite_kernels():
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), Y)
    thin = rkhs.Problem(rkhs.kernels.Polyharmonic(3), [term], approximation=SPANS["values"])
    check_cells(thin, {0: CS}, None, 1e-9, found=thin.path(0, CS))


def test_the_rows_are_looked_at_once(monkeypatch):
    """However many cells and folds there are."""
    seen = []
    rows = rkhs.gram.__globals__["Gram"].dense
    monkeypatch.setattr(
        rkhs.gram.__globals__["Gram"], "dense", lambda self, *args: seen.append(self.shape[0]) or rows(self, *args)
    )
    whole = problem(rkhs.Squared(), SPANS["values"])
    whole.solve()
    once, seen[:] = sum(seen), []
    problem(rkhs.Squared(), SPANS["values"]).grid({0: [1.0, 2.0, 3.0], (1, 2): [0.1, 0.2]}, held_out={0: FOLDS})
    assert sum(seen) == once


def test_progress_is_shown_cell_by_cell(monkeypatch):
    reported = []
    report = Monitor.report

    def noted(self, iterate, primal, gap):
        reported.append((iterate, primal, gap))
        report(self, iterate, primal, gap)

    monkeypatch.setattr(Monitor, "report", noted)
    found = problem(rkhs.Squared(), SPANS["values"]).grid({0: CS, (1, 2): NUS}, tol=1e-6)
    assert sorted(primal for _, primal, _ in reported) == pytest.approx(sorted(one.primal for one in found.flat))
    assert all(iterate is None for iterate, _, _ in reported)  # nothing that Ctrl-C could return


def test_progress_promises_what_there_is(monkeypatch):
    said = []
    monkeypatch.setattr(monitor, "PATIENCE", 0.0)
    for best in (None, "an iterate"):
        watched = Monitor(1e-6, verbose=True)
        watched._display = SimpleNamespace(update=said.append)
        watched.report(best, 1.0, 0.5)
    assert not any("Ctrl-C" in line for line in said)  # which `solve` and `fit` answer differently
