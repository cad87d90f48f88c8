"""Molecular dynamics of ethanol with a learned force field: conservation of energy, and seconds of a step.

    python -m benchmarks.trajectory [--counts 100 400] [--steps 1000]

A force field is learned from the first n geometries of revised MD17.  ASE integrates 0.5 fs steps by velocity Verlet,
from the first geometry of the test file with velocities of 300 K.  The drift is the slope of the total energy by a
straight line, and the fluctuation its standard deviation about that line; of an exact integrator both are zero.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from ase import Atoms, units
from ase.md.verlet import VelocityVerlet
from rich.console import Console

import rkhs
from benchmarks.data import arrays
from benchmarks.timing import markdown, show, write

TEMPERATURE, STEP = 300.0, 0.5  # K, fs


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", nargs="+", type=int, default=[100, 400])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    data, rows = arrays("rmd17_ethanol"), []
    for count in options.counts:
        given = (data[name][:count] for name in ("R_train", "F_train", "E_train"))
        model = rkhs.geometry.ForceFieldRegressor(atoms=data["z"]).fit(*given)
        atoms = Atoms(numbers=data["z"], positions=data["R_test"][0], calculator=rkhs.ase.Calculator(model))
        normal = np.random.default_rng(0).standard_normal((len(atoms), 3))
        atoms.set_velocities(np.sqrt(TEMPERATURE * units.kB / atoms.get_masses())[:, None] * normal)
        run, total = VelocityVerlet(atoms, STEP * units.fs), np.empty(options.steps)
        used, started = 0.0, atoms.get_total_energy()
        for k in range(options.steps):
            start = time.process_time()
            run.run(1)
            used += time.process_time() - start
            total[k] = atoms.get_total_energy() - started
        ps = STEP / 1000 * np.arange(1, options.steps + 1)
        slope, at_zero = np.polyfit(ps, total, 1)
        about = 1000 * np.std(total - slope * ps - at_zero)
        std = 1000 * float(atoms.calc.get_property("forces_std", atoms).mean())
        figures = [f"{1000 * slope:.2f}", f"{about:.2f}", f"{1000 * atoms.get_kinetic_energy():.0f}", f"{std:.0f}"]
        rows.append([f"{count}", f"{1000 * used / options.steps:.1f}", *figures])
        print(*rows[-1], flush=True)
    title = f"Ethanol, {options.steps} steps of {STEP} fs"
    headings = [
        "geometries",
        "ms of a step",
        "drift, meV/ps",
        "fluctuation, meV",
        "kinetic, meV",
        "std of forces, meV/A",
    ]
    show(Console(), title, headings, rows)
    write(options.out, "trajectory.md", markdown(title, headings, rows))


if __name__ == "__main__":
    main()
