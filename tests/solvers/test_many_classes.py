"""Ten classes at once: what they cost in columns, and that their certificates are true."""

import sys

import numpy as np
import pytest
from sklearn.datasets import load_digits

import rkhs
from rkhs._finite.certificate import certify
from rkhs._finite.ledger import Checked, Ledger
from rkhs._finite.monitor import Monitor
from rkhs._gram import Gram
from rkhs.solvers.sharing.sampling import SHARE, sample

recycling = sys.modules["rkhs.solvers.sharing.recycling"]

X, Y = load_digits(return_X_y=True)
X, Y = X[:500] / 16, Y[:500]
LABELS = 60


def problem(loss, classes=10):
    target = np.where(Y[:LABELS, None] == np.arange(classes), 1.0, -1.0)
    labels = rkhs.Term(rkhs.Evaluation(X[:LABELS]), loss, target, weight=10.0)
    flat = rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.03)
    return rkhs.Problem(rkhs.Gaussian(rkhs.median_scale(X)), [labels, flat], rkhs.Constant())


@pytest.fixture
def work(monkeypatch):
    """What Gram operators were multiplied with, in columns of the whole one."""
    done = []
    original = Gram.__matmul__

    def call(gram, v):
        size = X.size + LABELS
        done.append(gram.shape[0] * gram.shape[1] * (1 if v.ndim == 1 else v.shape[1]) / size**2)
        return original(gram, v)

    monkeypatch.setattr(Gram, "__matmul__", call)
    return done


def test_ten_classes_cost_little_more_than_their_certificates(work):
    """One column for the norm of each class, one product to check all images, and thin ones."""
    solution = problem(rkhs.SquaredHinge()).solve(rkhs.solvers.Galerkin(), tol=2e-2)
    assert solution.status == "converged"
    assert sum(work) < 10 + 1 + 2


@pytest.mark.parametrize("tol", [2e-2, 1e-2, 1e-4, 1e-8])
@pytest.mark.parametrize("loss", [rkhs.SquaredHinge(), rkhs.Logistic(), rkhs.Hinge()], ids=repr)
def test_certificates_are_true(loss, tol):
    """Computed from scratch, the gap is what the solver said."""
    whole = problem(loss, classes=4)
    system = whole.system
    found = rkhs.solvers.Galerkin().run(system, system.start(), Monitor(tol, verbose=False))
    scratch = certify(system, found, 0.0)
    assert scratch.relative <= tol
    if isinstance(found, Checked):
        np.testing.assert_allclose(found.certificate.primal, scratch.primal, rtol=1e-9)
        assert np.all(found.certificate.dual <= scratch.primal * (1 + 1e-12))
        assert found.certificate.within(tol)


def test_a_sample_that_misleads_costs_products_alone(monkeypatch):
    """Rows that say little: the gap is closed by whole gradients."""
    samples = []

    def one_point(system, which):
        samples.append(which)
        return np.arange(LABELS, LABELS + X.shape[1])

    monkeypatch.setattr(recycling, "sample", one_point)
    monkeypatch.setattr(recycling, "NEXT", 0.0)  # norms are looked at in vain
    solution = problem(rkhs.SquaredHinge(), classes=4).solve(rkhs.solvers.Galerkin(), tol=1e-3)
    assert solution.status == "converged"
    assert samples[0] == 0


def test_another_sample_is_for_the_classes_that_the_first_left_open(monkeypatch):
    samples, judged = [], []
    enter = Ledger.enter

    def counted(system, which):
        samples.append(which)
        return sample(system, which)

    def one_fails(self, candidates, tol):
        first = not judged
        judged.extend(one.system for one in candidates)
        entries = enter(self, candidates, tol)
        return [None, *entries[1:]] if first else entries

    monkeypatch.setattr(recycling, "sample", counted)
    monkeypatch.setattr(Ledger, "enter", one_fails)
    solution = problem(rkhs.SquaredHinge()).solve(rkhs.solvers.Galerkin(), tol=2e-2)
    assert solution.status == "converged"
    assert samples == [0, 1]
    assert judged.count(judged[0]) == 2


def test_samples_are_of_quadratic_rows_and_whole_points():
    system = problem(rkhs.Hinge()).system
    rows = sample(system, 0)
    assert set(rows) != set(sample(system, 1))
    assert len(rows) == len(X) // SHARE * X.shape[1]
    points = (rows - LABELS).reshape(-1, X.shape[1])
    assert np.all(points >= 0)
    assert np.all(points[:, 0] % X.shape[1] == 0)
    assert np.all(np.diff(points, axis=1) == 1)
    few = rkhs.Problem(rkhs.Gaussian(1.0), [rkhs.Term(rkhs.Gradient(X[:20]), rkhs.Squared(), 1.0)]).system
    assert sample(few, 0) is None
