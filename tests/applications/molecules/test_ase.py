"""`rkhs.ase`: energies, forces and deviations in ASE, molecular dynamics that conserves energy, and files."""

import sys
from importlib.util import module_from_spec, spec_from_file_location

import numpy as np
import pytest
from ase import Atoms, units
from ase.build import molecule
from ase.calculators.calculator import PropertyNotImplementedError
from ase.calculators.emt import EMT
from ase.calculators.fd import calculate_numerical_forces
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms
from ase.io import read as read_frames, write
from ase.md.verlet import VelocityVerlet
from ase.optimize import BFGS
from sklearn.exceptions import NotFittedError

import rkhs
from refusals import refused
from rkhs.ase import Calculator, read

KERNEL = rkhs.Matern(3.5, scale=2.0)


def water():
    """Water at the minimum of ASE's effective medium theory, which stands for a program of quantum chemistry."""
    atoms = molecule("H2O", calculator=EMT())
    BFGS(atoms, logfile=None).run(fmax=1e-4)
    return atoms


def labeled(count, seed, spread=0.06):
    """Distorted waters with the energies and forces of the effective medium theory."""
    rng, frames = np.random.default_rng(seed), []
    for displacement in rng.normal(0, spread, (count, 3, 3)):
        frame = water() if not frames else frames[0].copy()
        frame.positions = REST + displacement
        frame.calc = EMT()
        frame.calc = SinglePointCalculator(frame, energy=frame.get_potential_energy(), forces=frame.get_forces())
        frames.append(frame)
    return frames


REST = water().positions
FRAMES, NEW = labeled(30, 0), labeled(8, 1)


@pytest.fixture(scope="module")
def model():
    R, forces, energies, atoms = read(FRAMES)
    return rkhs.geometry.ForceFieldRegressor(KERNEL, atoms=atoms, symmetries=[[0, 2, 1]]).fit(R, forces, energies)


def calculated(model, frame=NEW[0]):
    atoms = frame.copy()
    atoms.calc = Calculator(model)
    return atoms


def test_results_are_those_of_the_model(model):
    atoms, R = calculated(model), NEW[0].positions[None]
    energy, energy_std = (values[0] for values in model.predict(R, return_std=True))
    forces, forces_std = (values[0] for values in model.predict_forces(R, return_std=True))
    assert atoms.get_potential_energy() == atoms.get_potential_energy(force_consistent=True) == energy
    np.testing.assert_array_equal(atoms.get_forces(), forces)
    assert atoms.calc.results.keys() == {"energy", "free_energy", "forces"}  # deviations take longer, and wait
    np.testing.assert_allclose(atoms.calc.get_property("energy_std", atoms), energy_std, rtol=1e-12)
    np.testing.assert_allclose(atoms.calc.get_property("forces_std", atoms), forces_std, rtol=1e-12)
    assert set(atoms.calc.results) == set(Calculator.implemented_properties)
    for frame in NEW[1:]:
        atoms.positions = frame.positions  # which makes all results old
        assert abs(atoms.get_potential_energy() - frame.get_potential_energy()) < 0.01
        assert np.abs(atoms.get_forces() - frame.get_forces()).max() < 0.2
        assert "forces_std" not in atoms.calc.results


def test_only_what_changes_the_results_is_computed_again(model, monkeypatch):
    atoms = calculated(model)
    before = atoms.get_forces()
    atoms.cell = [9.0, 9.0, 9.0]
    atoms.set_initial_charges([0.1, 0.0, -0.1])
    monkeypatch.setattr(model, "predict_forces", None)
    np.testing.assert_array_equal(atoms.get_forces(), before)
    atoms.rattle(0.01, seed=0)
    with pytest.raises(TypeError):
        atoms.get_forces()


def test_ase_finds_the_same_forces_by_differences(model):
    atoms = calculated(model)
    np.testing.assert_allclose(calculate_numerical_forces(atoms, 1e-3), atoms.get_forces(), atol=1e-4)
    with pytest.raises(PropertyNotImplementedError):
        atoms.get_stress()


def test_the_relaxed_geometry_is_that_of_the_teacher(model):
    atoms = calculated(model, NEW[1])
    BFGS(atoms, logfile=None).run(fmax=1e-3)
    np.testing.assert_allclose(atoms.get_all_distances(), water().get_all_distances(), atol=2e-3)


def test_molecular_dynamics_conserves_energy(model):
    """The total energy changes with the square of the time step, as velocity Verlet demands, and does not drift."""

    def deviations(step, steps):
        atoms = calculated(model, water())
        atoms.set_velocities(np.sqrt(300 * units.kB / atoms.get_masses())[:, None] * VELOCITIES)
        run, total = VelocityVerlet(atoms, step * units.fs), []
        run.attach(lambda: total.append(atoms.get_total_energy()))
        run.run(steps)
        return np.array(total) - total[0], atoms.get_kinetic_energy()

    coarse, kinetic = deviations(0.5, 60)
    fine, _ = deviations(0.25, 120)
    assert kinetic > 0.01
    assert np.abs(coarse).max() < 0.02 * kinetic
    assert 3 < np.abs(coarse).max() / np.abs(fine).max() < 5
    halves = [np.mean(part) for part in np.array_split(fine, 2)]
    assert abs(halves[1] - halves[0]) < 0.1 * np.abs(coarse).max()


VELOCITIES = np.random.default_rng(0).standard_normal((3, 3))


def test_saved_trajectories_keep_energies_and_forces(model, tmp_path):
    atoms = calculated(model)
    forces = atoms.get_forces()
    atoms.calc.get_property("forces_std", atoms)
    atoms.get_potential_energy()
    for name in ("one.xyz", "one.traj"):
        write(tmp_path / name, atoms)
        found = read_frames(tmp_path / name)
        np.testing.assert_allclose(found.get_forces(), forces, atol=1e-7)
        np.testing.assert_allclose(found.get_potential_energy(), atoms.get_potential_energy(), atol=1e-7)
    assert found.calc.name == "rkhs"
    assert atoms.calc.calculate_properties(atoms, ["forces"])["forces"].shape == (3, 3)


ORDER = Atoms("HOH", NEW[0].positions[[1, 0, 2]])
PERIODIC = Atoms("OH2", REST, cell=[9, 9, 9], pbc=True)
FOREIGN = Atoms("SH2", REST)


@pytest.mark.every
@pytest.mark.parametrize(
    ("atoms", "message"),
    [
        (ORDER, r"atoms are HOH, but the model was fitted with OH2, in this order.*give the atoms the order"),
        (FOREIGN, r"atoms are SH2, but the model was fitted with OH2, in this order.*fit another one"),
        (molecule("CH4"), r"atoms are CH4, 5 atoms, but the model was fitted with 3 atoms, OH2"),
        (PERIODIC, r"no periodic images: the pbc of the atoms is \[True, True, True\].*set atoms\.pbc = False"),
    ],
    ids=["order", "elements", "number", "periodic"],
)
def test_other_atoms_are_refused(model, atoms, message):
    atoms.calc = Calculator(model)
    with pytest.raises(ValueError, match=message):
        atoms.get_forces()


def test_a_model_without_elements_knows_the_number_of_atoms():
    R, forces, _, _ = read(FRAMES[:20])
    fitted = rkhs.geometry.ForceFieldRegressor(KERNEL).fit(R, forces)
    FOREIGN.calc = Calculator(fitted)
    assert np.all(np.isfinite(FOREIGN.get_forces()))
    with pytest.raises(ValueError, match=r"CH4, 5 atoms, but the model was fitted with 3 atoms\. "):
        calculated(fitted, molecule("CH4")).get_forces()


def test_files_are_read_as_written(tmp_path):
    path = tmp_path / "water.xyz"
    write(path, FRAMES[:5])
    for source in (path, str(path), FRAMES[:5]):
        R, forces, energies, atoms = read(source)
        np.testing.assert_allclose(R, [frame.positions for frame in FRAMES[:5]], atol=1e-7)
        np.testing.assert_allclose(forces, [frame.get_forces() for frame in FRAMES[:5]], atol=1e-7)
        np.testing.assert_allclose(energies, [frame.get_potential_energy() for frame in FRAMES[:5]], atol=1e-7)
        np.testing.assert_array_equal(atoms, [8, 1, 1])


def test_forces_are_those_of_the_file_and_not_of_constraints():
    frame = FRAMES[0].copy()
    frame.calc = FRAMES[0].calc
    frame.set_constraint(FixAtoms([0]))
    assert not np.any(frame.get_forces()[0])
    np.testing.assert_array_equal(read([frame])[1][0], FRAMES[0].calc.results["forces"])


def test_names_of_other_programs():
    frames = [Atoms("H2", [[0, 0, 0], [0.8 + k, 0, 0]], info={"E": 2.0 * k}) for k in range(3)]
    for k, frame in enumerate(frames):
        frame.arrays["REF_forces"] = np.full((2, 3), float(k))
    _, forces, energies, _ = read(frames, forces="REF_forces", energy="E")
    np.testing.assert_array_equal(forces[:, 0, 0], [0, 1, 2])
    np.testing.assert_array_equal(energies, [0, 2, 4])
    assert read(frames, forces="REF_forces")[2] is None
    with pytest.raises(
        ValueError,
        match=r"no 'forces' in frames 0, 1, 2 of the frames; frame 0 has 'REF_forces'.*forces=\"REF_forces\"",
    ):
        read(frames)
    with pytest.raises(ValueError, match=r"no 'Energy' in frames 0, 1, 2"):
        read(frames, forces="REF_forces", energy="Energy")
    assert read(frames, forces="REF_forces", energy=None)[2] is None
    del frames[1].info["E"]
    with pytest.raises(ValueError, match=r"no 'E' in frame 1 of the frames.*energy=None"):
        read(frames, forces="REF_forces", energy="E")


def test_results_of_atoms_that_have_moved_are_not_used():
    frames = [frame.copy() for frame in FRAMES[:8]]
    for frame, source in zip(frames, FRAMES, strict=False):
        frame.calc = SinglePointCalculator(source, forces=source.calc.results["forces"])
    for frame in frames[1:]:
        frame.rattle(0.1)
    with pytest.raises(ValueError, match=r"no 'forces' in frames 1, 2, 3, 4, 5 and 2 others of the frames"):
        read(frames)


def plain(text, tmp_path):
    path = tmp_path / "plain.xyz"
    path.write_text(text)
    return path


def test_a_file_without_forces_and_no_file(tmp_path):
    with pytest.raises(ValueError, match=r"no 'forces' in frame 0 of .*plain\.xyz; frame 0 has nothing besides"):
        read(plain("1\n\nH 0 0 0\n", tmp_path))
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "not_there.xyz")


REGRESSOR = rkhs.InvariantRegressor()
test_what_is_refused = refused(
    (lambda: read([FRAMES[0], ORDER]), r"frame 0 of the frames is OH2, but frame 1 is HOH.*without frame 1"),
    (lambda: read([FRAMES[0], PERIODIC]), "the pbc of frame 1 of the frames is"),
    (lambda: read([]), "no geometry in the frames"),
    (lambda: Calculator(REGRESSOR), "needs a fitted ForceFieldRegressor, got InvariantRegressor", TypeError),
    (lambda: Calculator(rkhs.geometry.ForceFieldRegressor()), "not fitted yet", NotFittedError),
)


def test_without_ase_the_extra_is_named(monkeypatch):
    for name in ("ase", "ase.calculators.calculator"):
        monkeypatch.setitem(sys.modules, name, None)
    spec = spec_from_file_location("rkhs_ase_alone", rkhs.ase.__file__)
    alone = module_from_spec(spec)
    spec.loader.exec_module(alone)  # `from rkhs import *` must work
    for call in (lambda: alone.Calculator(None), lambda: alone.read("water.xyz")):
        with pytest.raises(ImportError, match=r"needs ASE: pip install 'rkhs\[ase\]'"):
            call()
