"""The posterior: against the formula, its draws, its units, and the coverage of its error bars."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, make_friedman1, make_friedman2, make_friedman3

import rkhs
from refusals import refused

RNG = np.random.default_rng(6)
X, Z = RNG.uniform(size=(25, 2)), RNG.uniform(size=(4, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1] ** 2
VALUES, SLOPES = rkhs.Evaluation(Z), rkhs.Gradient(Z)


def problem(target=Y, kernel=None, basis=None, **options):
    terms = [
        rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), target, 20.0),
        rkhs.Term(rkhs.Gradient(X[:3]), rkhs.Squared(), np.ones((3, 2)), 2.0),
    ]
    return rkhs.Problem(kernel or rkhs.Gaussian((0.4, 0.7)), terms, basis, **options)


def test_the_formula():
    """Values and slopes that were observed, values and slopes that are asked for."""
    ours = problem()
    posterior = ours.solve(tol=1e-12).posterior
    q = rkhs.stack([term.functional for term in ours.terms])
    S = rkhs.gram(ours.kernel, q).dense() + np.diag([1 / 40] * 25 + [1 / 4] * 6)
    b = np.concatenate([Y, np.ones(6)])
    square = b @ np.linalg.solve(S, b) / 31
    assert posterior.amplitude == pytest.approx(square**0.5, rel=1e-8)
    assert posterior.amplitude == pytest.approx(ours.evidence().amplitude, rel=1e-8)
    both = rkhs.stack([VALUES, SLOPES])
    cross = rkhs.gram(ours.kernel, q, both).dense()
    expected = square * (rkhs.gram(ours.kernel, both).dense() - cross.T @ np.linalg.solve(S, cross))
    np.testing.assert_allclose(posterior.cov(both), expected, atol=1e-8)
    np.testing.assert_allclose(posterior.cov(VALUES, SLOPES), expected[:4, 4:].reshape(4, 4, 2), atol=1e-8)
    np.testing.assert_allclose(posterior.std(SLOPES), np.sqrt(np.diag(expected)[4:]).reshape(4, 2), atol=1e-7)
    np.testing.assert_allclose(posterior.mean(both), cross.T @ np.linalg.solve(S, b), atol=1e-8)
    noisy = posterior.std(VALUES, weight=20.0)
    np.testing.assert_allclose(noisy**2, posterior.std(VALUES) ** 2 + square / 40, rtol=1e-9)
    np.testing.assert_allclose(np.diag(posterior.cov(VALUES, weight=20.0)), noisy**2, rtol=1e-7)


@pytest.mark.parametrize(
    "approximation", [rkhs.Landmarks(rkhs.Evaluation(X[:10])), rkhs.FourierFeatures(40)], ids=["landmarks", "features"]
)
def test_in_a_span_deviations_are_roots_of_covariances(approximation):
    posterior = problem(basis=rkhs.Constant(), approximation=approximation).solve().posterior
    np.testing.assert_allclose(np.sqrt(np.diag(posterior.cov(VALUES))), posterior.std(VALUES), rtol=1e-6)
    both = posterior.cov(rkhs.stack([VALUES, SLOPES]))
    np.testing.assert_allclose(np.sqrt(np.diag(both)[4:]), posterior.std(SLOPES).reshape(-1), rtol=1e-6)
    assert np.linalg.eigvalsh(both).min() > -1e-6 * np.linalg.eigvalsh(both).max()


def test_draws():
    posterior = problem(basis=rkhs.Constant()).solve().posterior
    drawn = posterior.sample(SLOPES, 4000, random_state=0)
    assert drawn.shape == (4000, 4, 2)
    np.testing.assert_allclose(drawn.mean(axis=0), posterior.mean(SLOPES), atol=0.1 * posterior.std(SLOPES).max())
    np.testing.assert_allclose(drawn.std(axis=0), posterior.std(SLOPES), rtol=0.05)
    np.testing.assert_array_equal(posterior.sample(SLOPES, 3, 1), posterior.sample(SLOPES, 3, 1))


def test_several_outputs():
    ours = problem(np.stack([Y, 10 * Y**2], axis=1), basis=rkhs.Constant())
    posterior = ours.solve().posterior
    assert posterior.amplitude.shape == (2,)
    assert posterior.std(SLOPES).shape == (4, 2, 2)
    assert posterior.cov(VALUES, SLOPES).shape == (4, 4, 2, 2)
    assert posterior.sample(SLOPES, 5, 0).shape == (5, 4, 2, 2)
    for k, target in enumerate((Y, 10 * Y**2)):
        alone = problem(target, basis=rkhs.Constant()).solve().posterior
        np.testing.assert_allclose(posterior.std(SLOPES)[..., k], alone.std(SLOPES), rtol=1e-5)


def test_knowledge_is_no_observation():
    """Slopes that are known to be small narrow the posterior; that they are many does not make targets precise."""
    values = rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), Y, 20.0)
    flat = rkhs.Term(rkhs.Gradient(RNG.uniform(size=(300, 2))), rkhs.Squared(), weight=1e-9)
    alone, told = (rkhs.Problem(rkhs.Gaussian(0.4), t).solve().posterior for t in ([values], [values, flat]))
    assert told.amplitude == pytest.approx(alone.amplitude, rel=1e-3)


def test_cells_of_a_grid_have_their_own():
    ours = problem(basis=rkhs.Constant())
    held = np.arange(5)
    cell = ours.grid({0: [3.0]}, held_out={0: [held]}, tol=1e-8)[0, 0]
    weight = np.where(np.isin(np.arange(25), held), 0.0, 60.0)
    alone = replace(ours, terms=[ours.terms[0].changed(weight=weight), ours.terms[1]]).solve(tol=1e-8)
    np.testing.assert_allclose(cell.posterior.std(SLOPES), alone.posterior.std(SLOPES), rtol=1e-5)
    span = replace(ours, approximation=rkhs.Landmarks(10)).grid({0: [1.0]})[0]
    with pytest.raises(ValueError, match="solved alone"):
        _ = span.posterior


def test_pickles_and_tensors():
    torch = pytest.importorskip("torch")
    solution = problem().solve()
    expected = solution.posterior.std(SLOPES)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(solution)).posterior.std(SLOPES), expected)
    there = rkhs.Term(rkhs.Evaluation(torch.tensor(X)), rkhs.Squared(), torch.tensor(Y), 20.0)
    posterior = rkhs.Problem(rkhs.Gaussian(0.4), [there]).solve().posterior
    found = posterior.std(rkhs.Gradient(torch.tensor(Z)))
    assert isinstance(found, torch.Tensor)
    here = rkhs.Problem(rkhs.Gaussian(0.4), [rkhs.Term(rkhs.Evaluation(X), rkhs.Squared(), Y, 20.0)]).solve().posterior
    np.testing.assert_allclose(found.numpy(), here.std(SLOPES), rtol=1e-6)
    np.testing.assert_allclose(posterior.std(SLOPES), here.std(SLOPES), rtol=1e-6)


def data(name):
    """1,000 new points, or what is left of the table."""
    if name == "diabetes":
        points, targets = load_diabetes(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(points))
        return points[order], targets[order]
    make = {"friedman 1": make_friedman1, "friedman 2": make_friedman2, "friedman 3": make_friedman3}[name[:10]]
    noise = {"friedman 1": 1.0, "friedman 2": 50.0, "friedman 3": 0.1}[name[:10]]
    return make(1200, noise=noise if name.endswith("noise") else 0.0, random_state=0)


@pytest.mark.parametrize(
    "name", ["diabetes", *(f"friedman {k}{noise}" for noise in (", noise", "") for k in (1, 2, 3))]
)
def test_error_bars_cover(name):
    """95 % of new targets, in whatever unit, are within 1.96 deviations, or nearly.

    With one scale.  With one for each feature those without noise, which bend more in some places than in others, are
    covered less (Friedman 2 and 3: 0.87 to 0.89).
    """
    points, targets = data(name)
    unit = 1000.0
    learned, new = slice(0, 200), slice(200, None)
    term = rkhs.Term(rkhs.Evaluation(points[learned]), rkhs.Squared(), unit * targets[learned], rkhs.Tunable())
    tuned = rkhs.Problem(rkhs.Gaussian(rkhs.Tunable()), [term], rkhs.Constant()).tune(starts=1)
    posterior, L = tuned.solve().posterior, rkhs.Evaluation(points[new])
    away = np.abs(posterior.mean(L) - unit * targets[new]) / posterior.std(L, weight=tuned.terms[0].weight)
    assert 0.92 <= np.mean(away <= 1.96) <= 0.98, np.mean(away <= 1.96)


def test_covariances_that_no_memory_holds_are_refused_before_the_work(monkeypatch):
    """At 60,000 points they would take 115 GB; a process that is told so has computed nothing."""
    X = np.linspace(0, 1, 20)[:, None]
    model = rkhs.InvariantRegressor(scale=0.3).fit(X, np.sin(6 * X[:, 0]))
    points = np.linspace(0, 1, 300)[:, None]
    at, posterior = rkhs.Evaluation(points), model.solution_.posterior
    expected = model.predict(points, return_cov=True)[1]
    free = [4 * 8 * 300**2]
    monkeypatch.setattr("rkhs._core.backend.memory.free_main_memory", lambda: free[0])
    np.testing.assert_allclose(model.predict(points, return_cov=True)[1], expected, atol=1e-12)
    free[0] -= 1
    monkeypatch.setattr(rkhs.results.Function, "apply", None)  # nor is f
    for ask in (
        lambda: model.predict(points, return_cov=True),
        lambda: posterior.cov(at),
        lambda: posterior.cov(at, rkhs.Gradient(points)),
        lambda: posterior.sample(at),
    ):
        with pytest.raises(
            MemoryError, match=r"at 300 points take .* GB of memory, more than is free: ask for standard"
        ):
            ask()


@pytest.mark.parametrize("objects", [False, True])
def test_other_precisions_of_new_points_change_nothing_but_rounding(objects):
    """Deviations at float64 points of a model that was fitted to float32 points were infinite."""
    Z = np.random.default_rng(0).standard_normal((23, 3)).astype(np.float32)
    gaussian = rkhs.Gaussian(scale=1.0)
    kernel = rkhs.kernels.Precomputed(gaussian(Z.astype(np.float64))) if objects else gaussian
    points = kernel.points if objects else Z
    found = []
    for old in (np.float32, np.float64):
        model = rkhs.InvariantRegressor(kernel, loss="squared", C=100.0, invariance=None)
        model.fit(points[:20].astype(old), Z[:20, 0])
        found += [model.predict(points[20:].astype(new), return_std=True)[1] for new in (np.float32, np.float64)]
    for deviation in found[:3]:
        assert deviation == pytest.approx(found[3], rel=1e-5)


HINGE = rkhs.Term(rkhs.Evaluation(X), rkhs.Hinge(), np.sign(Y - 0.5))


def posterior():
    return problem().solve().posterior


test_what_is_refused = refused(
    (lambda: rkhs.Problem(rkhs.Gaussian(0.4), [HINGE]).solve().posterior, "all losses to be Squared.*held_out"),
    (lambda: posterior().std(VALUES, weight=0.0), "weight must be positive"),
    (lambda: posterior().cov(VALUES, SLOPES, weight=1.0), "mutually exclusive"),
    (lambda: posterior().sample(VALUES, 0), "n must be a positive integer"),
)
