"""ForceFieldRegressor: forces of one energy with symmetries, in any units, and a kernel chosen by held-out forces."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import rkhs
from refusals import refused
from rkhs._estimators.force_field import _permutations

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


@pytest.mark.parametrize(("length", "energy"), [(1e-3, 1e3), (1e3, 1e-3)])
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
    poor = rkhs.geometry.ForceFieldRegressor(rkhs.Matern(2.5, 0.05), symmetries=SYMMETRIES).fit(R, F)
    errors = [np.abs(one.predict_forces(NEW) - TRUE_F).mean() for one in (model, poor)]
    assert errors[0] < errors[1] / 2
    assert poor.best_params_["kernel"] == rkhs.Matern(2.5, 0.05)


def test_the_parts_leave_out_the_atoms_that_are_the_farthest_apart():
    """In a chain, whose energy is a sum over bonds, the parts without the first or the last atom are better."""
    chain = np.arange(5.0)[:, None] * [1.0, 0.0, 0.0]
    positions = np.random.default_rng(0).normal(chain, 0.1, (30, 5, 3))
    bonds = np.diff(positions, axis=1)
    lengths = np.linalg.norm(bonds, axis=2, keepdims=True)
    pull = (lengths - 1) / lengths * bonds
    forces = np.concatenate([pull, 0 * pull[:, :1]], axis=1) - np.concatenate([0 * pull[:, :1], pull], axis=1)
    fitted = rkhs.geometry.ForceFieldRegressor().fit(positions, forces)
    assert fitted.best_params_["left_out"] == ((), (0,), (4,))


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
        ]
    )
)


def test_many_permutations_are_named():
    nine = np.random.default_rng(0).normal(size=(4, 9, 3))
    with pytest.raises(ValueError, match="362,880 elements"):
        rkhs.geometry.ForceFieldRegressor(symmetries=[[*range(1, 9), 0], [1, 0, *range(2, 9)]]).fit(nine, nine)
    with pytest.warns(UserWarning, match="generate 120 permutations"):
        assert len(_permutations([[1, 2, 3, 4, 0], [1, 0, 2, 3, 4]], 5)) == 120


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
