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
from rkhs.kernels._symmetrized import generated

TURN, MIRROR = [0, 1, 2, 3, 4, 6, 7, 5, 8], [0, 1, 2, 4, 3, 6, 5, 7, 8]  # of atoms that can change places


class Learned(Calculator):
    """Energy and forces from a learned function of the positions."""

    implemented_properties = ("energy", "forces")

    def __init__(self, energy):
        super().__init__()
        self.energy = energy

    def calculate(self, atoms=None, properties=("energy",), system_changes=all_changes):
        """ASE calls this when atoms have moved."""
        super().calculate(atoms, properties, system_changes)
        x = self.atoms.positions.reshape(1, -1)
        self.results = {
            "energy": float(self.energy(x)[0]),
            "forces": -rkhs.Gradient(x)(self.energy).reshape(-1, 3),
        }


if __name__ == "__main__":
    with np.load(Path(os.environ["RKHS_DATA"]) / "rmd17_ethanol.npz") as file:
        X, F, z = file["R_train"][:100].reshape(100, -1), file["F_train"][:100].reshape(100, -1), file["z"]
    distances = rkhs.kernels.InverseDistances()
    kernel = rkhs.kernels.Symmetrized(rkhs.Matern(3.5, 10.0), distances.moved(generated([TURN, MIRROR]))) @ distances
    size = float(np.mean(rkhs.gram(kernel, rkhs.Gradient(X[:5])).diagonal()))
    forces = rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), -F, weight=0.5e8)
    energy = rkhs.Problem((1 / size) * kernel, [forces]).solve(rkhs.solvers.Direct(), tol=1e-3).function

    molecule = Atoms(numbers=z, positions=X[0].reshape(-1, 3), calculator=Learned(energy))
    MaxwellBoltzmannDistribution(molecule, temperature_K=300, rng=np.random.default_rng(0))
    run = VelocityVerlet(molecule, timestep=0.5 * units.fs)
    for _ in range(10):
        total = molecule.get_total_energy()
        print(f"{run.get_time() / units.fs:5.1f} fs, total energy {total:.4f} eV, {molecule.get_temperature():.0f} K")
        run.run(20)
