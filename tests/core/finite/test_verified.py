"""Images that are checked all at once: none that matters is wrong unseen, and bounds are those from scratch."""

import numpy as np
import pytest
import torch

import problems
import rkhs
from rkhs._core.finite.certificate import certify
from rkhs._core.finite.representers import SHARE, Entry, VerifiedIterate, VerifiedProducts, joined_iterates
from rkhs._core.problem.problem import solve_to_tolerance
from rkhs.extend import Iterate, Monitor
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


# What certificates rest on: images that are checked, and rounding that is stated.


def solved(loss=None, kernel=None, basis=None, tol=1e-8):
    """A system and an iterate of it with an alpha that closes the gap."""
    term = rkhs.Term(rkhs.Evaluation(X[:12]), loss or rkhs.SquaredHinge(), LABELS, 2.0)
    system = rkhs.Problem(kernel or rkhs.Gaussian(1.0), [term], basis).system
    found, _, _ = solve_to_tolerance(rkhs.solvers.BoxDual(), system, system.start(), Monitor(tol))
    return system, Iterate(found.a, found.basis, found.a)


def test_a_ledger_checks_its_own_entries_when_it_is_closed():
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
    assert isinstance(joined_iterates([checked]), VerifiedIterate)
    assert not isinstance(joined_iterates([checked, found]), VerifiedIterate)
    ledger.enter(system, found, image, image, 1e-6)
    with pytest.raises(RuntimeError, match="since the last entry"):
        ledger.verified(entry)
    assert ledger.right(1e-6)
    with pytest.raises(RuntimeError, match="belongs to other products"):
        ledger.verified(Entry(Iterate(0 * found.a, found.basis), certify(system, found)))
    with pytest.raises(TypeError, match="VerifiedProducts"):
        VerifiedIterate(found, certify(system, found), object())


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
