"""
From an xyz file to a trajectory
================================

A file of geometries with energies and forces becomes a model, the model a calculator of ASE, and the calculator a
trajectory, with a standard deviation of every force (``pip install 'rkhs[ase]'``). The forces are exactly minus the
slopes of one energy, so that the total energy stays what it was. Here ASE's effective medium theory writes the file;
every format that ASE reads will do.
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
model = rkhs.geometry.ForceFieldRegressor(atoms=numbers).fit(R, forces, energies)

atoms.calc, rows = rkhs.ase.Calculator(model), []
run = VelocityVerlet(atoms, 0.5 * units.fs)
for _ in range(100):
    run.run(10)
    std, error = atoms.calc.get_property("forces_std", atoms), atoms.get_forces() - EMT().get_property("forces", atoms)
    rows.append([atoms.get_potential_energy(), atoms.get_total_energy(), std.mean(), np.abs(error).mean()])

fs, table = 5 * np.arange(1, 101), np.array(rows)
_, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
axes[0].plot(fs, table[:, :2], label=["potential energy", "total energy"])
axes[1].plot(fs, 1000 * table[:, 2:], label=["standard deviation of the forces", "their error"])
for ax, unit in zip(axes, ("eV", "meV/Å"), strict=True):
    ax.set(xlabel="fs", ylabel=unit)
    ax.legend()
plt.show()

# %%
# What it costs
# -------------
#
# The fit takes seven seconds of one core, most of them for the choice of kernels, and a step of the trajectory 2 ms.
# Standard deviations are computed only when they are asked for, and take longer than forces.
#
# When not to use it
# ------------------
#
# The model is that of one molecule with its atoms in one order: no periodic cell, no reaction whose bonds the file does
# not contain. Where a trajectory leaves the geometries of the file, the standard deviations grow: stop there, and label
# some of these geometries.
