"""Evidence: against scikit-learn and 50 digits, and its derivatives against differences."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from mpmath import mp
from sklearn.gaussian_process import GaussianProcessRegressor, kernels as theirs

import rkhs
from refusals import refused
from registry import FAMILIES, KERNELS, bounded, points
from rkhs._core.gram import gram
from rkhs._core.learning import evidence as module
from rkhs._core.learning.evidence import Hyperparameter
from rkhs._core.limits import with_limits

RNG = np.random.default_rng(1)
X = RNG.uniform(size=(25, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * RNG.standard_normal(25)
SLOPES = RNG.standard_normal((4, 2))


def problem(kernel, basis=None, weight=20.0, target=Y, **options):
    terms = [rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target, weight)]
    terms.append(rkhs.Term(rkhs.Gradient(X[:4]), rkhs.Squared(), SLOPES, np.linspace(0.5, 2.0, 8)))
    return rkhs.Problem(kernel, terms, basis, **options)


def moved(problem, name, step):
    """The problem with one setting multiplied by exp(step); names are paths."""
    if name.startswith("terms"):
        k = int(name[len("terms[") : name.index("]")])
        terms = list(problem.terms)
        terms[k] = terms[k].changed(weight=terms[k].weight * np.exp(step))
        return replace(problem, terms=terms)
    own, bracket, feature = name.removeprefix("kernel.").partition("scale[")
    if not bracket:
        value = problem.kernel.parameters()[own] * np.exp(step)
    else:
        own, j = own + "scale", int(feature[:-1])
        value = tuple(v * np.exp(step * (i == j)) for i, v in enumerate(problem.kernel.parameters()[own]))
    return replace(problem, kernel=problem.kernel.with_parameters({own: value}))


def check_gradient(problem, tolerance=1e-7):
    for name, found in problem.evidence(gradient=True).gradient.items():
        h = 1e-3
        near, far = (
            moved(problem, name, step).evidence().value - moved(problem, name, -step).evidence().value
            for step in (h, 2 * h)
        )
        expected = (8 * near - far) / (12 * h)
        assert abs(found - expected) <= tolerance * max(1.0, abs(expected)), name


@pytest.mark.parametrize("basis", [None, rkhs.Polynomials(1)], ids=repr)
@pytest.mark.parametrize(
    "kernel",
    [
        2.0 * rkhs.Gaussian((0.4, 0.7)) + rkhs.kernels.RationalQuadratic(0.7, 0.5),
        rkhs.Matern(1.5, (0.4, 0.7)),
        rkhs.Gaussian(0.5) * rkhs.kernels.Linear() + 0.3 * rkhs.Matern(2.5, 0.8) @ np.ones((1, 2)),
        rkhs.kernels.Polyharmonic(3) + 0.5 * rkhs.Matern(2.5, 1.4),
    ],
    ids=repr,
)
def test_derivatives_are_differences(kernel, basis):
    check_gradient(problem(kernel, basis, target=np.stack([Y, 3 * Y**2], axis=1)))


@pytest.mark.parametrize(
    ("ours", "kernel"),
    [
        (rkhs.Gaussian((0.3, 0.8)), theirs.RBF((0.3, 0.8))),
        (rkhs.Matern(1.5, 0.5), theirs.Matern(0.5, nu=1.5)),
        (rkhs.kernels.RationalQuadratic(0.7, 0.4), theirs.RationalQuadratic(0.4, 0.7)),
    ],
    ids=["Gaussian", "Matern", "RationalQuadratic"],
)
def test_scikit_learn(ours, kernel):
    found = rkhs.Problem(ours, [rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), Y, 20.0)]).evidence()
    square = found.amplitude**2
    process = GaussianProcessRegressor(theirs.ConstantKernel(square) * kernel, alpha=square / 40, optimizer=None)
    assert found.value == pytest.approx(process.fit(X, Y).log_marginal_likelihood_value_, rel=1e-12)


@pytest.mark.parametrize("basis", [None, rkhs.Constant(), rkhs.Polynomials(1)], ids=repr)
def test_fifty_digits(basis):
    """With a basis: the density of orthonormal contrasts, computed apart."""
    ours = problem(rkhs.Gaussian((0.3, 0.8)), basis)
    L = rkhs.stack([term.functional for term in ours.terms])
    b = np.concatenate([Y, SLOPES.reshape(-1)])
    with mp.workdps(50):
        S = mp.matrix(rkhs.gram(ours.kernel, L).dense().tolist())
        for i, w in enumerate([20.0] * 25 + np.linspace(0.5, 2.0, 8).tolist()):
            S[i, i] += 1 / (2 * mp.mpf(w))
        if basis is None:
            V, c = S, mp.matrix(b.tolist())
        else:
            Q = mp.qr(mp.matrix(L(basis).tolist()))[0]
            r = L(basis).shape[1]
            Z = Q[:, r:]
            V, c = Z.T * S * Z, Z.T * mp.matrix(b.tolist())
        n = V.rows
        square = (c.T * mp.lu_solve(V, c))[0] / n
        expected = -(n * (1 + mp.log(2 * mp.pi * square)) + mp.log(mp.det(V))) / 2
    found = ours.evidence()
    assert found.value == pytest.approx(float(expected), rel=1e-11)
    assert found.amplitude == pytest.approx(float(mp.sqrt(square)), rel=1e-11)


@given(st.sampled_from(sorted(KERNELS)), st.sampled_from([None, rkhs.Constant()]), st.integers(0, 2**32 - 1))
@settings(max_examples=8, deadline=None)
def test_derivatives_over_kernels_and_functionals(name, basis, seed):
    kernel, rng = KERNELS[name].make(2), np.random.default_rng(seed)
    families = rng.choice([f for f in bounded(kernel, 2) if FAMILIES[f].order < 2], 2, replace=False)
    terms = []
    for family in families:
        L = FAMILIES[family].make(points(2))
        terms.append(rkhs.Term(L, rkhs.Squared(), rng.standard_normal((*L.shape, 2)), rng.uniform(1.0, 5.0)))
    ours = rkhs.Problem(kernel, terms, basis)
    system = ours.system
    if system.size > system.Q.shape[1]:  # the polynomials of a conditionally positive definite kernel may be as many
        check_gradient(ours, 1e-6)


@pytest.mark.parametrize(
    "kernel",
    [
        rkhs.Gaussian((0.5, 0.9)),
        rkhs.Matern(0.5, (0.5, 0.9)),
        rkhs.kernels.Laplace((0.5, 0.9)),
        0.3 * (rkhs.Matern(2.5, 0.4) + 2.0 * rkhs.kernels.Linear()),
    ],
    ids=repr,
)
@pytest.mark.parametrize("basis", [None, rkhs.Constant()])
def test_values_at_points_take_a_shorter_way(kernel, basis):
    """Evidence and slopes are those of the saddle-point equations, and the curvature is the average information."""
    L, size = rkhs.Evaluation(np.vstack([X, X[:2]])), 27
    b = np.column_stack([np.append(Y, [0.5, 0.2]), np.arange(27.0) % 5])
    ours = rkhs.Problem(kernel, [rkhs.Term(L, rkhs.Squared(), b, 20.0)], basis)
    observations, keys = module.Observations.of(ours.represented), settings_of(kernel)
    settings = [*(Hyperparameter(*key) for key in keys), Hyperparameter(term=0)]
    shorter = module.log_evidence(observations, kernel, observations.weight, settings)
    with with_limits(factor_rows=20, factor_columns=10):
        longer = module.log_evidence(observations, kernel, observations.weight, settings)
    for one, other in zip(shorter[:3], longer[:3], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    assert longer[3] is None
    _, saddle, a = observations.equations(kernel, observations.weight)
    changes = [*(gram(kernel.tangent(*key), L).in_double() for key in keys), -np.eye(size) / 40]
    expected = np.zeros((len(settings),) * 2)
    for k, square in enumerate(shorter[1]):
        V = np.stack([change @ a[:, k] for change in changes])
        along = V @ a[:, k] / square
        expected += V @ saddle.inverse() @ V.T / (2 * square) - np.outer(along, along) / (2 * (size - saddle.rank))
    np.testing.assert_allclose(shorter[3], expected, rtol=1e-6, atol=1e-8)


def settings_of(kernel):
    """The names and features of all parameters of a kernel."""
    return [
        (name, j)
        for name, value in kernel.parameters().items()
        for j in (range(len(value)) if isinstance(value, tuple) else [None])
    ]


def test_units_of_targets_do_not_matter():
    """y -> c y changes the amplitude, and the density by its factor."""
    one, other = (problem(rkhs.Gaussian(0.4), rkhs.Constant(), target=Y) for _ in range(2))
    scaled = [term.changed(target=1000.0 * term.target.reshape(term.functional.shape)) for term in other.terms]
    one, other = one.evidence(True), replace(other, terms=scaled).evidence(True)
    assert other.amplitude == pytest.approx(1000 * one.amplitude)
    assert other.value == pytest.approx(one.value - 32 * np.log(1000))
    assert other.gradient == pytest.approx(one.gradient)


def test_outputs_add_up():
    kernel, both = rkhs.Gaussian(0.4), np.stack([Y, Y**2], axis=1)
    term = [rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target, 20.0) for target in (both, Y, Y**2)]
    together, one, other = (rkhs.Problem(kernel, [own]).evidence() for own in term)
    assert together.value == pytest.approx(one.value + other.value)
    assert together.amplitude == pytest.approx([one.amplitude, other.amplitude])


def test_weights_of_zero_are_left_out():
    weight = np.where(np.arange(25) < 20, 20.0, 0.0)
    some = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), Y, weight)
    few = rkhs.Term(rkhs.Evaluation(X[:20]), rkhs.Squared(), Y[:20], 20.0)
    found, expected = (rkhs.Problem(rkhs.Gaussian(0.4), [term]).evidence(True) for term in (some, few))
    assert found.value == pytest.approx(expected.value)
    assert found.gradient == pytest.approx(expected.gradient)


@pytest.mark.parametrize("basis", [None, rkhs.Polynomials(1)], ids=repr)
def test_in_a_span(basis):
    """The covariance of what is observed is that of its part in the span."""
    C = X[:10]
    ours = problem(rkhs.Gaussian((0.4, 0.7)), basis, approximation=rkhs.Landmarks(rkhs.Evaluation(C)))
    L, M = rkhs.stack([term.functional for term in ours.terms]), rkhs.Evaluation(C)
    E = rkhs.gram(ours.kernel, L, M).dense()
    S = E @ np.linalg.solve(rkhs.gram(ours.kernel, M).dense(), E.T)
    S += np.diag(1 / (2 * np.concatenate([np.full(25, 20.0), np.linspace(0.5, 2.0, 8)])))
    b = np.concatenate([Y, SLOPES.reshape(-1)])
    if basis is not None:
        Q = np.linalg.qr(L(basis), mode="complete")[0][:, L(basis).shape[1] :]
        S, b = Q.T @ S @ Q, Q.T @ b
    square = b @ np.linalg.solve(S, b) / len(b)
    expected = -(len(b) * (1 + np.log(2 * np.pi * square)) + np.linalg.slogdet(S)[1]) / 2
    assert ours.evidence().value == pytest.approx(expected, rel=1e-9)
    check_gradient(ours, 1e-5)


@pytest.mark.parametrize("approximation", [None, 12])
@pytest.mark.parametrize("basis", [None, rkhs.Polynomials(1)], ids=repr)
def test_targets_of_zero_are_knowledge(basis, approximation):
    """The evidence is that of the targets under the kernel that the knowledge leaves."""
    landmarks = None if approximation is None else rkhs.Landmarks(rkhs.Evaluation(X[:approximation]))
    terms = [
        rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), Y, 20.0),
        rkhs.Term(rkhs.Gradient(X[:6]), rkhs.Squared(), 0.0, 0.3),
    ]
    ours = rkhs.Problem(rkhs.Gaussian((0.4, 0.7)), terms, basis, approximation=landmarks)
    check_gradient(ours, 1e-5)
    if landmarks is None and basis is None:
        conditioned = rkhs.solvers._conditioned.ConditionedGram.of(rkhs.Problem(ours.kernel, terms[1:]))
        S = conditioned.covariance(rkhs.Evaluation(X)) + np.eye(25) / 40
        square = Y @ np.linalg.solve(S, Y) / 25
        found = ours.evidence()
        assert found.amplitude == pytest.approx(square**0.5)
        assert found.value == pytest.approx(
            -(25 * (1 + np.log(2 * np.pi * square)) + np.linalg.slogdet(S)[1]) / 2, rel=1e-9
        )


def test_with_features():
    """Waves stand for the kernel: many of them come near to it."""
    exact, waves = (problem(rkhs.Gaussian(0.6), approximation=a) for a in (None, rkhs.FourierFeatures(300)))
    assert waves.evidence().value == pytest.approx(exact.evidence().value, abs=5.0)
    with pytest.raises(ValueError, match=r"not implemented for FourierFeatures.*Landmarks"):
        waves.evidence(gradient=True)


def test_an_output_that_the_basis_explains_is_left_out():
    target = np.stack([Y, np.full(25, 3.0)], axis=1)
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target, 20.0)
    found = rkhs.Problem(rkhs.Gaussian(0.4), [term], rkhs.Constant()).evidence()
    alone = rkhs.Problem(rkhs.Gaussian(0.4), [rkhs.Term(term.functional, term.loss, Y, 20.0)], rkhs.Constant())
    assert found.value == pytest.approx(alone.evidence().value)
    assert found.amplitude[1] == 0.0


def test_large_weights_do_not_overflow_with_a_kernel_that_is_rough_at_zero():
    X = np.linspace(0, 1, 30)[:, None]
    term = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), 1e8 * X[:, 0], weight=1e14)
    evidence = rkhs.Problem(1e-12 * rkhs.Matern(0.5, 0.3), [term]).evidence(gradient=True)
    assert np.isfinite(evidence.value)
    assert all(np.all(np.isfinite(part)) for part in evidence.gradient.values())


def evidence(loss=None, X=X, y=Y, kernel=None, **options):
    term = rkhs.Term(rkhs.Evaluation(X), loss or rkhs.Squared(), y)
    return rkhs.Problem(kernel or rkhs.Gaussian(0.4), [term], **options).evidence()


test_what_is_refused = refused(
    (lambda: evidence(rkhs.Logistic(), y=np.sign(Y)), r"needs all losses to be Squared.*Logistic.*held_out"),
    (lambda: evidence(X=X[:1], y=[1.0], basis=rkhs.Constant()), "no more functionals than basis functions"),
    (lambda: evidence(kernel=rkhs.kernels.Polyharmonic(3), null_space="dropped"), 'null_space="kept"'),
)
