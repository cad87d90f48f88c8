"""
A force field of ethanol for ASE
================================

From 100 geometries with forces: ``RKHS_DATA=.. python examples/ethanol.py``.

Energies are learned from forces alone, up to a constant; forces are exactly minus the slopes of that energy.  Needs the
data set rmd17_ethanol and ASE (pip install ase); ``python -m benchmarks.force_field`` measures the error.
"""

import os
from pathlib import Path

import numpy as np
from ase import Atoms, units
from ase.calculators.calculator import Calculator, all_changes
from ase.md.velocitydistribution import MaxwellBoltzmannDistribution
from ase.md.verlet import VelocityVerlet

import rkhs

TURN, MIRROR = [0, 1, 2, 3, 4, 6, 7, 5, 8], [0, 1, 2, 4, 3, 6, 5, 7, 8]  # of atoms that can change places


class Learned(Calculator):
    """Energy and forces of a fitted model."""

    implemented_properties = ("energy", "forces")

    def __init__(self, model):
        super().__init__()
        self.model = model

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        """ASE calls this when atoms have moved."""
        super().calculate(atoms, properties, system_changes)
        R = self.atoms.positions[None]
        self.results = {"energy": float(self.model.predict(R)[0]), "forces": self.model.predict_forces(R)[0]}


if __name__ == "__main__":
    with np.load(Path(os.environ["RKHS_DATA"]) / "rmd17_ethanol.npz") as file:
        R, F, z = file["R_train"][:100], file["F_train"][:100], file["z"]
    model = rkhs.geometry.ForceFieldRegressor(symmetries=[TURN, MIRROR]).fit(R, F)

    molecule = Atoms(numbers=z, positions=R[0], calculator=Learned(model))
    MaxwellBoltzmannDistribution(molecule, temperature_K=300, rng=np.random.default_rng(0))
    run = VelocityVerlet(molecule, timestep=0.5 * units.fs)
    for _ in range(10):
        total = molecule.get_total_energy()
        print(f"{run.get_time() / units.fs:5.1f} fs, total energy {total:.4f} eV, {molecule.get_temperature():.0f} K")
        run.run(20)
