"""ForceFieldRegressor: forces of one energy with symmetries, in any units, and a kernel chosen by held-out forces."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import rkhs
from refusals import refused
from rkhs.molecules._molecules import found_symmetries

REST = np.array([[0.0, 0.0, 0.0], [1.1, 0.0, 0.0], [-0.5, 1.0, 0.0], [-0.5, -0.5, 0.9]])  # one atom with three others
SYMMETRIES = [[0, 2, 1, 3]]  # exchange two of the three


def energies_and_forces(R):
    """Morse potentials along the three bonds, and a weak Lennard-Jones repulsion between the others."""
    E, F = np.zeros(len(R)), np.zeros_like(R)
    for i in range(4):
        for j in range(i + 1, 4):
            d = R[:, j] - R[:, i]
            r = np.linalg.norm(d, axis=1)
            if i == 0:
                decay = np.exp(-1.5 * (r - 1.1))
                E += (1 - decay) ** 2
                slope = 3.0 * decay * (1 - decay)
            else:
                E += 0.1 / r**6
                slope = -0.6 / r**7
            F[:, i] += (slope / r)[:, None] * d
            F[:, j] -= (slope / r)[:, None] * d
    return E, F


R, NEW = (np.random.default_rng(seed).normal(REST, 0.08, (count, 4, 3)) for seed, count in ((0, 24), (1, 12)))
E, F = energies_and_forces(R)
TRUE_E, TRUE_F = energies_and_forces(NEW)


@pytest.fixture(scope="module")
def model():
    return rkhs.geometry.ForceFieldRegressor(symmetries=SYMMETRIES).fit(R, F)


def test_forces_and_energies_of_new_geometries(model):
    assert np.abs(model.predict_forces(NEW) - TRUE_F).mean() < 0.02 * np.abs(TRUE_F).mean()
    error = model.predict(NEW) - TRUE_E
    assert np.std(error) < 0.02 * np.std(TRUE_E)  # up to a constant
    assert model.solution_.status == "converged"


def test_forces_are_minus_the_gradient_of_the_energy(model):
    step = 1e-4 * np.eye(12).reshape(12, 4, 3)
    slopes = (model.predict(NEW[0] + step) - model.predict(NEW[0] - step)) / 2e-4
    np.testing.assert_allclose(model.predict_forces(NEW[:1]).ravel(), -slopes, atol=1e-5 * np.abs(slopes).max())


def test_invariance_under_rotation_translation_and_exchange(model):
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    expected, forces = model.predict(NEW), model.predict_forces(NEW)
    tolerance = {"rtol": 1e-5, "atol": 1e-6 * np.abs(forces).max()}
    np.testing.assert_allclose(model.predict(NEW @ rotation + [1.0, -2.0, 0.5]), expected, **tolerance)
    np.testing.assert_allclose(model.predict_forces(NEW @ rotation), forces @ rotation, **tolerance)
    np.testing.assert_allclose(model.predict(NEW[:, [0, 2, 1, 3]]), expected, **tolerance)


@pytest.mark.parametrize(
    ("length", "energy"), [(1e-3, 1e3), pytest.param(1e3, 1e-3, marks=pytest.mark.slow)], ids=["small", "large"]
)
def test_energies_beside_forces_in_any_units(model, length, energy):
    """Energies determine the constant, and units do not matter."""
    scaled = clone(model).fit(length * R, energy / length * F, energy * (E - 7.0))
    np.testing.assert_allclose(scaled.predict(length * NEW) / energy, TRUE_E - 7.0, atol=0.05 * np.std(TRUE_E))
    found = scaled.predict_forces(length * NEW) * length / energy
    assert np.abs(found - TRUE_F).mean() < 0.02 * np.abs(TRUE_F).mean()


def test_the_forces_solve_the_normal_equations():
    """f = sum of c_i times the representers of the slopes, with (G + noise I) c = slopes."""
    fitted = rkhs.geometry.ForceFieldRegressor(rkhs.Gaussian(1.0)).fit(R, F)
    kernel, slopes = rkhs.Gaussian(1.0) @ rkhs.kernels.InverseDistances(), rkhs.Gradient(R.reshape(24, 12))
    G = np.asarray(rkhs.gram(kernel, slopes).dense())
    noise = fitted.best_params_["noise"] * np.mean(np.diag(G)[:60])
    c = np.linalg.solve(G + noise * np.eye(len(G)), -F.ravel())
    cross = np.asarray(rkhs.gram(kernel, rkhs.Gradient(NEW.reshape(12, 12)), slopes).dense())
    np.testing.assert_allclose(fitted.predict_forces(NEW).ravel(), -cross @ c, atol=1e-6 * np.abs(F).max())


def test_the_least_held_out_error_is_chosen(model):
    table = model.cv_results_
    best = len(table["error"]) - 1 - np.argmin(table["error"][::-1])  # the last, as the noise is chosen again
    assert {key: table[key][best] for key in model.best_params_} == model.best_params_
    assert {type(kernel) for kernel in table["kernel"]} == {rkhs.Gaussian, rkhs.Matern}
    assert {0.0, 0.7} <= set(table["share"])
    poor = rkhs.geometry.ForceFieldRegressor(rkhs.Matern(2.5, 0.05), symmetries=SYMMETRIES).fit(R, F)
    errors = [np.abs(one.predict_forces(NEW) - TRUE_F).mean() for one in (model, poor)]
    assert errors[0] < errors[1] / 2
    assert poor.best_params_["kernel"] == rkhs.Matern(2.5, 0.05)
    assert poor.best_params_["neighborhoods"] is None


def test_atoms_of_one_element_share_what_is_learned_about_their_neighborhoods():
    """The springs of a chain are equal, so that a model of its neighborhoods needs less data than one of distances."""
    chain = np.arange(6.0)[:, None] * [1.0, 0.0, 0.0]
    rng = np.random.default_rng(0)
    positions = rng.normal(chain, 0.12, (60, 6, 3))
    bonds = np.diff(positions, axis=1)
    lengths = np.linalg.norm(bonds, axis=2, keepdims=True)
    pull = (1 - np.exp(-2 * (lengths - 1))) * np.exp(-2 * (lengths - 1)) / lengths * bonds
    forces = np.concatenate([pull, 0 * pull[:, :1]], axis=1) - np.concatenate([0 * pull[:, :1], pull], axis=1)
    few, rest = slice(20), slice(20, None)
    fitted = rkhs.geometry.ForceFieldRegressor(atoms=[6] * 6, symmetries=None).fit(positions[few], forces[few])
    distances = rkhs.geometry.ForceFieldRegressor(fitted.best_params_["kernel"]).fit(positions[few], forces[few])
    errors = [np.abs(one.predict_forces(positions[rest]) - forces[rest]).mean() for one in (fitted, distances)]
    assert fitted.best_params_["share"] > 0
    assert errors[0] < errors[1] / 2


def ring(count, seed, size=0.05):
    """An equilateral triangle of atoms, each with another atom that is attached to it outside."""
    angles = 2 * np.pi * np.arange(3) / 3
    inner = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1)
    return np.random.default_rng(seed).normal(np.concatenate([inner, 2 * inner]), size, (count, 6, 3))


def test_permutations_are_found_in_the_data():
    """Those of the triangle move the attached atoms with the inner ones: 6 of the 36 that elements allow."""
    group = found_symmetries(ring(120, 0).reshape(120, -1), np.array([6, 6, 6, 1, 1, 1]))
    assert len(group) == 6
    np.testing.assert_array_equal(group[:, 3:], group[:, :3] + 3)


def test_atoms_that_differ_are_not_exchanged():
    """A longer bond to one of the attached atoms leaves the reflection that keeps it."""
    rest = ring(1, 0, size=0.0)[0]
    rest[3] *= 1.4
    X = np.random.default_rng(0).normal(rest, 0.05, (120, 6, 3)).reshape(120, -1)
    group = found_symmetries(X, np.array([6, 6, 6, 1, 1, 1]))
    assert group.tolist() == [[0, 1, 2, 3, 4, 5], [0, 2, 1, 3, 5, 4]]
    assert len(found_symmetries(X, np.array([6, 7, 8, 1, 1, 1]))) == 1


def test_larger_groups_than_the_bound_are_cut_with_a_warning(monkeypatch):
    monkeypatch.setattr("rkhs.molecules._molecules.MOST_FOUND", 2)
    with pytest.warns(UserWarning, match="more than 2 permutations of atoms; ForceFieldRegressor uses 2"):
        found_symmetries(ring(120, 0).reshape(120, -1), np.array([6, 6, 6, 1, 1, 1]))


def test_found_permutations_are_used():
    fitted = rkhs.geometry.ForceFieldRegressor(KERNEL, atoms=["C", "H", "H", "F"]).fit(R, F)
    assert fitted.atoms_.tolist() == [6, 1, 1, 9]
    np.testing.assert_allclose(fitted.predict(NEW[:, fitted.symmetries_[-1]]), fitted.predict(NEW), rtol=1e-6)
    assert rkhs.geometry.ForceFieldRegressor(KERNEL, atoms=[6, 1, 1, 9], symmetries=None).fit(
        R, F
    ).symmetries_.shape == (1, 4)


def test_standard_deviations_cover_held_out_errors():
    rng = np.random.default_rng(2)
    train, test = (rng.normal(REST, 0.15, (count, 4, 3)) for count in (40, 60))
    energy, forces = energies_and_forces(train)
    true_energy, true_forces = energies_and_forces(test)
    fitted = rkhs.geometry.ForceFieldRegressor(atoms=["C", "H", "H", "H"]).fit(train, forces, energy)
    found, deviations = fitted.predict_forces(test, return_std=True)
    assert found.shape == deviations.shape == test.shape
    errors = np.abs(found - true_forces)
    assert np.mean(errors < 1.96 * deviations) > 0.85
    assert deviations.mean() < 4 * errors.mean()  # not by being too large
    found, deviations = fitted.predict(test, return_std=True)
    assert found.shape == deviations.shape == (60,)
    assert np.mean(np.abs(found - true_energy) < 1.96 * deviations) > 0.8
    far = fitted.predict_forces(1.5 * test[:5], return_std=True)[1]
    assert far.mean() > 3 * fitted.predict_forces(test[:5], return_std=True)[1].mean()


def test_the_energy_has_a_deviation_without_energies_too(model):
    found, deviations = model.predict(NEW, return_std=True)
    assert np.all(deviations > 0)
    reference = model._reference.reshape(1, 4, 3)  # that of differences to this geometry
    truth = TRUE_E - energies_and_forces(reference)[0]
    assert np.mean(np.abs(found - model.predict(reference) - truth) < 3 * deviations) > 0.9


def test_conjugate_gradients_agree_with_the_factorization(model, monkeypatch):
    """For more components of forces than are factorized; the held-out geometries stay out of f."""
    for name, value in (("DIRECT", 100), ("NOISES", (1e-3,)), ("REFINED", (1.0,))):
        monkeypatch.setattr(f"rkhs.molecules._force_field.{name}", value)
    iterated = rkhs.geometry.ForceFieldRegressor(atoms=["C", "H", "H", "H"], tol=1e-5).fit(R, F)
    assert "ConjugateGradients" in repr(iterated.solution_)
    assert iterated.function_.functionals.size == 12 * 20
    monkeypatch.undo()
    settings = iterated.best_params_
    rows = np.random.RandomState(0).permutation(24)[4:]
    direct = rkhs.Problem(
        iterated.function_.kernel,
        [
            rkhs.Term(
                rkhs.Gradient(R[rows].reshape(20, 12)),
                rkhs.Squared(),
                -F[rows].reshape(20, 12),
                weight=1 / (2 * settings["noise"] * np.mean(F**2)),
            )
        ],
    ).solve(rkhs.solvers.Direct())
    expected = -rkhs.Gradient(NEW.reshape(12, 12))(direct.function).reshape(NEW.shape)
    np.testing.assert_allclose(iterated.predict_forces(NEW), expected, atol=1e-3 * np.abs(expected).max())


def test_a_device_gives_the_same(model):
    """The kernel is chosen, f is learned and deviations are computed by PyTorch."""
    pytest.importorskip("torch")
    other = clone(model).set_params(device="cpu").fit(R, F)
    assert other.best_params_["noise"] == model.best_params_["noise"]
    for found, expected in zip(
        other.predict_forces(NEW, return_std=True), model.predict_forces(NEW, return_std=True), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())


def test_linear_molecules():
    """Carbon dioxide, also at geometries where all atoms are in a line."""
    rest = np.array([[0.0, 0.0, 0.0], [1.2, 0.0, 0.0], [-1.2, 0.0, 0.0]])
    positions = np.random.default_rng(0).normal(rest, 0.05, (40, 3, 3))
    positions[:5] = rest * np.linspace(0.95, 1.05, 5)[:, None, None]
    bonds = positions[:, 1:] - positions[:, :1]
    lengths = np.linalg.norm(bonds, axis=2, keepdims=True)
    pull = -(lengths - 1.2) / lengths * bonds
    forces = np.concatenate([-pull.sum(axis=1, keepdims=True), pull], axis=1)
    fitted = rkhs.geometry.ForceFieldRegressor(atoms=["C", "O", "O"]).fit(positions[:30], forces[:30])
    assert len(fitted.symmetries_) == 2
    errors = fitted.predict_forces(positions[30:]) - forces[30:]
    assert np.abs(errors).mean() < 0.02 * np.abs(forces).mean()
    straight = fitted.predict_forces(rest[None])
    assert np.abs(straight).max() < 0.05 * np.abs(forces).mean()


def test_parameters_and_clone(model):
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        copy.predict(NEW)
    again = copy.fit(R, F)
    np.testing.assert_array_equal(again.predict(NEW), model.predict(NEW))


test_bad_input = refused(
    *(
        (lambda given=parameters, data=data: rkhs.geometry.ForceFieldRegressor(**given).fit(*data), message)
        for parameters, data, message in [
            ({}, (R.reshape(24, 12), F), r"R must have the shape \(geometries, atoms, 3\).*got \(24, 12\)"),
            ({}, (R, F[:, :3]), r"forces must have the shape of R, \(24, 4, 3\), got \(24, 3, 3\)"),
            ({}, ([REST, REST[:3]], F[:2]), "same atoms in the same order"),
            ({}, (R, F, E[:9]), "one number for each of the 24 geometries"),
            ({}, (R, np.where(F > 0, np.nan, F)), "forces contains NaN"),
            ({}, (R, 0 * F), "not all zero"),
            ({}, (R[:1], F[:1]), "at least two geometries"),
            ({"kernel": "gauss"}, (R, F), "'gauss'"),
            ({"symmetries": [[0, 1, 1, 3]]}, (R, F), "permutations of the 4 atoms"),
            ({"symmetries": [[1, 0]]}, (R, F), "permutations of the 4 atoms"),
            ({"symmetries": "all"}, (R, F), "must be \"auto\", None or permutations of atoms, got 'all'"),
            ({"atoms": ["C", "H", "H", "Xx"]}, (R, F), "'Xx', which are no symbols of elements"),
            ({"atoms": [6, 1, 1, 0]}, (R, F), "atomic numbers from 1 to 118"),
            ({"atoms": ["C", "H", "H"]}, (R, F), "atoms has 3 elements, but R has 4 atoms"),
            ({"atoms": [[6, 1, 1, 9]] * 24}, (R, F), "for all geometries"),
            ({}, (R[:, :1], F[:, :1]), "with two atoms or more"),
            ({}, (np.repeat(REST[:1], 4, axis=0)[None] + 0 * R, F), "Atoms 0 and 1 of row 0 coincide"),
        ]
    )
)


def test_many_permutations_are_named():
    nine = np.random.default_rng(0).normal(size=(4, 9, 3))
    with pytest.raises(ValueError, match="362,880 elements"):
        rkhs.geometry.ForceFieldRegressor(symmetries=[[*range(1, 9), 0], [1, 0, *range(2, 9)]]).fit(nine, nine)
    five = np.random.default_rng(0).normal(size=(3, 5, 3))
    with pytest.warns(UserWarning, match="generate 120 permutations"):
        rkhs.geometry.ForceFieldRegressor(KERNEL, symmetries=[[1, 2, 3, 4, 0], [1, 0, 2, 3, 4]]).fit(five, five)


def test_prediction_needs_the_same_atoms(model):
    with pytest.raises(ValueError, match="3 atoms, but the model was fitted with 4"):
        model.predict(NEW[:, :3])


KERNEL = rkhs.Matern(2.5, scale=2.0)


@pytest.mark.parametrize(
    ("factor", "remedy"),
    [
        (-1.0, r"energies have the wrong sign\. Multiply them by -1"),
        (23.06, r"energies are in other units\. Multiply them by 0\.04"),
        (-23.06, r"energies have the wrong sign and are in other units\. Multiply them by -0\.04"),
    ],
)
def test_energies_that_contradict_the_forces_are_reported(factor, remedy):
    with pytest.warns(UserWarning, match=remedy):
        rkhs.geometry.ForceFieldRegressor(KERNEL, symmetries=SYMMETRIES).fit(R, F, factor * E)


def test_exchanges_of_atoms_that_are_not_equivalent_are_reported():
    """Atom 1 is farther from its neighbor than the others are, after its spring was made stiffer."""
    d = R[:, 1] - R[:, 0]
    extra = 5 * (1 - 1.2 / np.linalg.norm(d, axis=1))[:, None] * d
    forces = F + np.stack([extra, -extra, 0 * extra, 0 * extra], axis=1)
    with pytest.warns(UserWarning, match=r"errors of held-out forces.*\[\[0, 2, 1, 3\]\]"):
        rkhs.geometry.ForceFieldRegressor(KERNEL, symmetries=[[0, 2, 1, 3], [0, 1, 3, 2]]).fit(R, forces)


def test_nothing_is_left_of_an_earlier_fit():
    """Predictions keep what they make of f and of the posterior: until the next fit."""
    rng = np.random.default_rng(5)
    first, second, new = (rng.normal(REST, 0.15, (count, 4, 3)) for count in (12, 14, 3))
    options = {"atoms": ["C", "H", "H", "H"], "kernel": rkhs.Gaussian(3.0)}
    again = rkhs.geometry.ForceFieldRegressor(**options).fit(first, energies_and_forces(first)[1])
    again.predict_forces(new, return_std=True)
    forces = -2 * energies_and_forces(second)[1]
    again.fit(second, forces)
    fresh = rkhs.geometry.ForceFieldRegressor(**options).fit(second, forces)
    for found, expected in zip(*(m.predict_forces(new, return_std=True) for m in (again, fresh)), strict=True):
        np.testing.assert_array_equal(found, expected)
