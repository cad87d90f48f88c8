"""A space that is none of ours, and contains the whole RKHS: everything agrees with the exact problem."""

from dataclasses import dataclass, field, replace
from math import comb, perm
from typing import Any

import numpy as np
import pytest

import rkhs
from problems import LOSSES
from rkhs._core.finite.certificate import certify
from rkhs._core.finite.features import FeatureTerms
from rkhs._core.finite.operators import OperatorTerms
from rkhs._core.finite.sums import FeatureSums
from rkhs.extend import Approximation, FiniteSpace, Iterate, namespace
from rkhs.testing import check_space

KERNEL = rkhs.kernels.Polynomial(4)
X = np.random.default_rng(0).uniform(-1, 1, size=(40, 1))
Y, LABELS = np.sin(3 * X[:, 0]), np.where(X[:, 0] + 0.3 * np.sin(9 * X[:, 0]) > 0, 1.0, -1.0)


@dataclass(frozen=True, eq=False)
class Monomials(FiniteSpace):
    """As in docs/extend/space.md."""

    degree: int
    place: Any = field(default_factory=lambda: np.zeros(0))

    size = property(lambda self: self.degree + 1)
    dimension = property(lambda self: 1)
    gram = property(lambda self: np.eye(self.size))
    prototype = property(lambda self: self.place)

    def like(self, prototype):
        return type(self)(self.kernel, self.degree, prototype)

    def rows(self, functional):
        return self.on_device(functional).assemble(self.on_atoms)

    def on_atoms(self, atoms):
        atoms = atoms.like(self.place)
        x, m, xp = atoms.points, atoms.order, namespace(atoms.points)
        powers = [comb(self.degree, j) ** 0.5 * perm(j, m) * x ** max(j - m, 0) for j in range(self.size)]
        values = xp.concat(powers, axis=1)[:, None, :]
        for j in range(m):
            values = values * atoms.u(j)
        values = xp.broadcast_to(values, (x.shape[0], atoms.per_point, self.size))
        return xp.reshape(values, (atoms.size, self.size))


class MonomialProducts(Monomials):
    """The same functions, used by products."""

    stored = False


@dataclass(frozen=True)
class All(Approximation):
    space: type

    def choose(self, kernel, families, pilot):
        return self.space(kernel, kernel.degree)


SPACES = pytest.mark.parametrize("space", [Monomials, MonomialProducts])


CONSTANT, SQUARED = rkhs.Constant(), rkhs.Squared()


def problems(space, loss=SQUARED, target=Y, basis=CONSTANT):
    terms = [
        rkhs.Term(rkhs.Evaluation(X), loss, target=target, weight=5.0),
        rkhs.Term(rkhs.Gradient(X[:10]), rkhs.Squared(), target=3 * np.cos(3 * X[:10]), weight=0.5),
    ]
    exact = rkhs.Problem(KERNEL, terms, basis)
    return replace(exact, approximation=All(space)), exact


@SPACES
def test_the_laws_of_spaces(space):
    check_space(space(KERNEL, 4))


@pytest.mark.every("loss")
@SPACES
@pytest.mark.parametrize("loss", [rkhs.Squared(), rkhs.Huber(0.1), rkhs.Logistic(), rkhs.Hinge()], ids=repr)
def test_solutions_and_grids(space, loss):
    found, exact = problems(space, loss, LABELS)
    for own, other in (
        (found.solve(tol=1e-8), exact.solve(tol=1e-8)),
        *zip(*(p.path(0, [0.1, 10.0]) for p in (found, exact)), strict=True),
    ):
        assert own.status == other.status == "converged"
        assert own.primal == pytest.approx(other.primal, rel=2e-4)
    folds = {0: [[0, 1, 2], [3]]}
    cells = zip(found.grid({}, folds, tol=1e-8), exact.grid({}, folds, tol=1e-8), strict=True)
    for own, other in cells:
        np.testing.assert_allclose(own.function(X), other.function(X), atol=2e-3)


@pytest.mark.every("loss")
@SPACES
@pytest.mark.parametrize("basis", [None, CONSTANT], ids=repr)
@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_no_certificate_claims_less_than_the_true_gap(space, loss, basis):
    """Of any theta with any alpha, in stored features and by products; the minimum is that of the exact problem."""
    _, exact = problems(space, loss, LABELS, basis)
    least, chosen, rng = exact.solve(tol=1e-10).primal, space(KERNEL, 4), np.random.default_rng(1)
    if space.stored:
        system = FeatureTerms(FeatureSums.of(chosen, basis, exact.terms, None)).weighted()
    else:
        system = OperatorTerms.of(chosen, basis, exact.terms, None).weighted()
    for scale in (0.0, 1e-3, 1.0, 30.0):
        theta = Iterate(scale * rng.standard_normal((5, 1)), scale * rng.standard_normal((int(basis is not None), 1)))
        slopes = -system.gradient(system.geometry.point(system, theta).u)
        for alpha in (None, 0 * slopes, slopes, 1e6 + slopes, rng.standard_normal(slopes.shape)):
            certificate = certify(system, replace(theta, alpha=alpha))
            above = certificate.primal[0] - least
            assert above >= -1e-9 * least
            assert certificate.gap >= above - 1e-9 * least
            assert not certificate.within(0.5 * above / certificate.primal[0])


@SPACES
def test_the_posterior(space):
    own, other = (p.solve(tol=1e-10).posterior for p in problems(space))
    L = rkhs.stack([rkhs.Evaluation(X[:3]), rkhs.Gradient(X[:2])])
    assert own.amplitude == pytest.approx(other.amplitude, rel=1e-6)
    np.testing.assert_allclose(own.std(L), other.std(L), rtol=1e-4)
    np.testing.assert_allclose(own.cov(L), other.cov(L), atol=1e-5 * np.abs(other.cov(L)).max())


@pytest.mark.parametrize("groups", [None, "points"])
@pytest.mark.parametrize("loss", [rkhs.Squared(), rkhs.Logistic()], ids=repr)
def test_leaving_out_and_the_evidence(loss, groups):
    found, exact = problems(Monomials, loss, LABELS)
    own, other = found.leave_out(groups), exact.leave_out(groups)
    assert own.exact is other.exact is loss.quadratic
    for a, b in zip(own.predictions, other.predictions, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    if loss.quadratic:
        assert found.evidence().value == pytest.approx(exact.evidence().value, rel=1e-7)


def test_leaving_out_by_products_is_refused():
    with pytest.raises(ValueError, match=r"Leaving out is not implemented with approximation=All.*held_out"):
        problems(MonomialProducts)[0].leave_out()


def test_tuning_streams_and_estimators():
    found, exact = problems(Monomials)
    noisy = [term.changed(weight=rkhs.Tunable()) for term in found.terms[:1]]
    one, two = (rkhs.Problem(p.kernel, noisy, approximation=p.approximation).tune() for p in (found, exact))
    assert one.terms[0].weight == pytest.approx(two.terms[0].weight, rel=1e-3)

    def terms(block):
        return [rkhs.Term(rkhs.Evaluation(block.X), rkhs.Squared(), target=block.y, weight=5.0)]

    stream = rkhs.streams.StreamedProblem(KERNEL, terms, rkhs.streams.blocks(X, Y, rows=15), All(Monomials))
    whole = rkhs.Problem(KERNEL, [rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target=Y, weight=5.0)])
    np.testing.assert_allclose(stream.solve().function(X), whole.solve(tol=1e-10).function(X), atol=1e-6)
    for model in (rkhs.InvariantRegressor(kernel=KERNEL, C=1e4), rkhs.InvariantRegressorCV(kernel=KERNEL)):
        own = model.set_params(approximation=All(Monomials)).fit(X, Y)
        assert own.score(X, Y) > 0.99
        mean, std = own.predict(X[:3], return_std=True)
        assert mean.shape == std.shape == (3,)
