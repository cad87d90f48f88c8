"""Ten classes at once: what they cost in columns, and that their certificates are true."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

import rkhs
from rkhs._finite.certificate import certify
from rkhs._finite.monitor import Monitor
from rkhs._finite.representers import VerifiedIterate
from rkhs._gram import Gram

X, Y = load_digits(return_X_y=True)
X, Y = X[:500] / 16, Y[:500]
LABELS = 60


def problem(loss, classes=10):
    target = np.where(Y[:LABELS, None] == np.arange(classes), 1.0, -1.0)
    labels = rkhs.Term(rkhs.Evaluation(X[:LABELS]), loss, target, weight=10.0)
    flat = rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.03)
    return rkhs.Problem(rkhs.Gaussian(rkhs.kernels.median_scale(X)), [labels, flat], rkhs.Constant())


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
    """Two products with the gradients of all classes, one column to verify all images, and thin ones."""
    solution = problem(rkhs.SquaredHinge()).solve(rkhs.solvers.Galerkin(), tol=2e-2)
    assert solution.status == "converged"
    assert sum(work) < 2 * 10 + 1 + 0.5


@pytest.mark.parametrize("tol", [2e-2, 1e-4, 1e-8])
@pytest.mark.parametrize("loss", [rkhs.SquaredHinge(), rkhs.Logistic(), rkhs.Hinge()], ids=repr)
def test_certificates_are_true(loss, tol):
    """Computed from scratch, the gap is what the solver said."""
    whole = problem(loss, classes=4)
    system = whole.system
    found = rkhs.solvers.Galerkin().run(system, system.start(), Monitor(tol))
    scratch = certify(system, found, 0.0)
    assert scratch.relative <= tol
    if isinstance(found, VerifiedIterate):
        np.testing.assert_allclose(found.certificate.primal, scratch.primal, rtol=1e-9)
        assert np.all(found.certificate.dual <= scratch.primal * (1 + 1e-12))
        assert found.certificate.within(tol)
