"""What certificates rest on: images that are checked, excesses that are none at the slope, rounding that is stated."""

import numpy as np
import pytest

import problems
import rkhs
from rkhs._finite.certificate import certify
from rkhs._finite.monitor import quiet
from rkhs._finite.problem import Iterate
from rkhs._finite.verified import Entry, VerifiedIterate, VerifiedProducts, joined

RNG = np.random.default_rng(0)
X = RNG.standard_normal((25, 2))
Y = np.where(X[:, 0] + 0.3 * RNG.standard_normal(25) > 0, 1.0, -1.0)


def solved(loss=None, kernel=None, basis=None, tol=1e-8):
    """A system and an iterate of it with an alpha that closes the gap."""
    term = rkhs.Term(rkhs.Evaluation(X), loss or rkhs.SquaredHinge(), Y, 2.0)
    system = rkhs.Problem(kernel or rkhs.Gaussian(1.0), [term], basis).system
    found = rkhs.solvers.BoxDual().run(system, system.start(), quiet(tol))
    return system, Iterate(found.a, found.basis, found.a)


def test_checked_iterates_cannot_be_made_by_hand():
    system, found = solved()
    with pytest.raises(TypeError, match="VerifiedProducts"):
        VerifiedIterate(found, certify(system, found), object())


def test_a_ledger_that_was_not_closed_checks_nothing():
    system, found = solved()
    ledger = VerifiedProducts(system.geometry)
    image = system.exact @ found.a
    entry = ledger.enter(system, found, image, image, 1e-6)
    with pytest.raises(RuntimeError, match="failed the check"):
        ledger.verified(entry)
    assert ledger.right(1e-6)
    checked = ledger.verified(entry)
    assert isinstance(checked, VerifiedIterate)
    assert checked.certificate.within(1e-6)
    assert isinstance(joined([checked]), VerifiedIterate)
    assert not isinstance(joined([checked, found]), VerifiedIterate)
    ledger.enter(system, found, image, image, 1e-6)
    with pytest.raises(RuntimeError, match="since the last entry"):
        ledger.verified(entry)


def test_a_ledger_checks_its_own_entries_only():
    system, found = solved()
    ledger = VerifiedProducts(system.geometry)
    image = system.exact @ found.a
    ledger.enter(system, found, image, image, 1e-6)
    assert ledger.right(1e-6)
    wrong = Iterate(0 * found.a, found.basis)
    with pytest.raises(RuntimeError, match="belongs to other products"):
        ledger.verified(Entry(wrong, certify(system, found)))


@pytest.mark.parametrize("which", ["image", "alpha_image"])
def test_a_wrong_image_is_caught(which):
    """It may close a gap, but not the ledger."""
    system, found = solved()
    images = {"image": system.exact @ found.a, "alpha_image": system.exact @ found.a}
    images[which] = images[which] * (1 + 1e-7)
    ledger = VerifiedProducts(system.geometry)
    entry = ledger.enter(system, found, **images, tol=1e-6)
    assert entry is not None
    assert not ledger.right(1e-6)


def test_an_image_that_flatters_is_caught():
    """An f far from the solution with the image of the solution."""
    system, found = solved()
    far = Iterate(0.5 * found.a, found.basis, 0.5 * found.a)
    image = system.exact @ found.a
    ledger = VerifiedProducts(system.geometry)
    entry = ledger.enter(system, far, image, image, 0.5)
    assert entry is None or not ledger.right(0.5)


@pytest.mark.parametrize("basis", [None, rkhs.Constant()], ids=repr)
@pytest.mark.parametrize("kernel", [rkhs.Gaussian(1.0), rkhs.kernels.Polyharmonic(3)], ids=repr)
@pytest.mark.parametrize("loss", [rkhs.Hinge(), rkhs.SquaredHinge(), rkhs.Huber(0.5)], ids=repr)
def test_a_wrong_alpha_does_no_harm(loss, kernel, basis):
    """However it is said, the dual value is below the minimum."""
    system, found = solved(loss, kernel, basis)
    minimum = certify(system, found).primal[0]
    for alpha in (1e3 * found.a, -found.a, RNG.standard_normal(found.a.shape), np.full(found.a.shape, 1e9)):
        certificate = certify(system, Iterate(found.a, found.basis, alpha))
        assert certificate.dual[0] <= minimum * (1 + 1e-9)
        far = certify(system, Iterate(0 * found.a, 0 * found.basis, alpha))
        assert far.dual[0] <= minimum * (1 + 1e-9)
        assert far.gap >= (far.primal[0] - minimum) * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(0, problems.COUNT, 13))
def test_the_stated_rounding_is_not_absurd(seed):
    """Where weights and Gram matrices are moderate, it is far below any tolerance."""
    case = problems.case(seed)
    solution = case.problem.solve(tol=1e-6)
    assert solution.status == "converged"
    assert solution.certificate.uncertain < 1e-9
