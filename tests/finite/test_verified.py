"""Images that are checked all at once: none that matters is wrong unseen, and bounds are those from scratch."""

import numpy as np
import pytest
import torch

import rkhs
from rkhs._finite.certificate import certify
from rkhs._finite.representers import SHARE, VerifiedProducts
from rkhs.solvers._recycling import SearchSubspace

RNG = np.random.default_rng(9)
X = RNG.standard_normal((40, 3))
LABELS = np.where(X[:12, 0] + 0.4 * RNG.standard_normal(12) > 0, 1.0, -1.0)


def problem(loss, basis=None, outputs=3, convert=np.asarray):
    target = np.stack([np.roll(LABELS, k) for k in range(outputs)], axis=1)
    labels = rkhs.Term(rkhs.Evaluation(convert(X[:12])), loss, convert(target), 5.0)
    flat = rkhs.Term(rkhs.Gradient(convert(X)), rkhs.Squared(), weight=0.2)
    return rkhs.Problem(rkhs.Gaussian(1.5), [labels, flat], basis)


@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy], ids=["numpy", "torch"])
def test_one_wrong_image_among_many_is_seen(convert):
    system = problem(rkhs.Hinge(), convert=convert).system
    a = convert(RNG.standard_normal((system.size, 20)))
    image = system.gram @ a
    error = convert(np.ones(system.size) / system.size**0.5)  # of length one
    for off, expected in ((0.0, True), (1e-3 * SHARE, True), (1e3 * SHARE, False)):
        ledger = VerifiedProducts(system.geometry)
        wrong = image + 0.0
        wrong[:, 7] += off * error
        ledger.add(a[:, :1], image[:, :1], np.ones(1))
        ledger.add(a, wrong, np.ones(20))
        assert ledger.right(1.0) is expected


def test_an_error_counts_as_much_as_it_matters():
    system = problem(rkhs.Hinge()).system
    a = RNG.standard_normal((system.size, 1))
    for factor, expected in ((1.0, False), (1e-6, True)):
        ledger = VerifiedProducts(system.geometry)
        ledger.add(a, system.gram @ a + 1e-6, np.full(1, factor))
        assert ledger.right(1e-4) is expected


@pytest.mark.parametrize("basis", [None, rkhs.Constant()], ids=repr)
@pytest.mark.parametrize("loss", [rkhs.Hinge(), rkhs.SquaredHinge(), rkhs.Logistic()], ids=repr)
def test_bounds_are_those_from_scratch(loss, basis, monkeypatch):
    """Of one solve and of the cells of a grid."""
    whole = problem(loss, basis)
    fast = [whole.solve(rkhs.solvers.Galerkin(), tol=1e-5), *whole.grid({0: [0.1, 1.0]}, {0: [[0, 1], [5]]}).flat]
    monkeypatch.setattr(VerifiedProducts, "right", lambda *_: False)
    slow = [whole.solve(rkhs.solvers.Galerkin(), tol=1e-5), *whole.grid({0: [0.1, 1.0]}, {0: [[0, 1], [5]]}).flat]
    for one, other in zip(fast, slow, strict=True):
        np.testing.assert_allclose(one.function.coefficients, other.function.coefficients, rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(one.certificate.primal, other.certificate.primal, rtol=1e-10)
        np.testing.assert_allclose(one.certificate.dual, other.certificate.dual, rtol=1e-10)


def test_what_is_not_right_is_computed_from_scratch(monkeypatch):
    """Directions whose images are a little off: the gap that is reported is the true one, not the one they show."""
    exact = SearchSubspace._add_moments

    def off(self, new, E):
        E *= 1 + 1e-3
        exact(self, new, E)

    whole = problem(rkhs.SquaredHinge())
    monkeypatch.setattr(SearchSubspace, "_add_moments", off)
    found = whole.solve(rkhs.solvers.Galerkin(), tol=1e-2)
    true = certify(whole.system, whole.represented.iterate(found.function))
    shown = found.history[-1].primal
    np.testing.assert_allclose(found.certificate.primal, true.primal, rtol=1e-12)
    assert not np.any(np.isclose(shown, true.primal, rtol=1e-5))
