"""
From an xyz file to a trajectory
================================

A file of geometries with energies and forces becomes a model, the model a calculator of ASE, and the calculator a
trajectory, with a standard deviation of every force. The energy is conserved, because the forces are exactly minus its
slopes. ASE's effective medium theory writes the file here; any program whose results ASE reads can take its place.
"""

# %%
from tempfile import mkdtemp

import matplotlib.pyplot as plt
import numpy as np
from ase import units
from ase.build import molecule
from ase.calculators.emt import EMT
from ase.io import write
from ase.md import Langevin, VelocityVerlet

import rkhs

path, rng = f"{mkdtemp()}/water.xyz", np.random.default_rng(0)
atoms = molecule("H2O", calculator=EMT())
heat = Langevin(atoms, units.fs, temperature_K=500, friction=0.02 / units.fs, fixcm=False, rng=rng)
heat.attach(lambda: write(path, atoms, append=True), interval=20)
heat.run(1000)  # 51 geometries

R, forces, energies, numbers = rkhs.ase.read(path)
model = rkhs.ForceFieldRegressor(atoms=numbers).fit(R, forces, energies)

atoms.calc, rows = rkhs.ase.Calculator(model), []
run = VelocityVerlet(atoms, 0.5 * units.fs)


def record():
    """Append the energies, the standard deviation of the forces, and their error."""
    std, error = atoms.calc.get_property("forces_std", atoms), atoms.get_forces() - EMT().get_property("forces", atoms)
    rows.append([atoms.get_potential_energy(), atoms.get_total_energy(), np.mean(std), np.abs(error).mean()])


run.attach(record, interval=10)
run.run(1000)
_, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
axes[0].plot(np.array(rows)[:, :2], label=["potential energy", "total energy"])
axes[1].plot(1000 * np.array(rows)[:, 2:], label=["standard deviation of the forces", "their error"])
for ax, unit in zip(axes, ("eV", "meV/Å"), strict=True):
    ax.set(xlabel="time in units of 5 fs", ylabel=unit)
    ax.legend()
plt.show()
