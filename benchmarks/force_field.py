"""Force fields of small molecules from forces alone, compared with sgdml and kernelforge.

    python -m benchmarks.force_field [--molecules M ..] [--counts N ..] [--models rkhs sgdml kernelforge] [--out DIR]
    python -m benchmarks.force_field --atoms 21 [--counts 1000] [--device cuda]

Revised MD17 (data sets rmd17_ethanol, rmd17_malonaldehyde, rmd17_toluene): the first n geometries of the training file,
tested on the first 300 of the test file.  `rkhs.geometry.ForceFieldRegressor(atoms=..)` is given the elements only.
The peers are compared where they are installed, and chosen by their errors on 100 other rows of the training file (the
last ones): sgdml with its own symmetries and the better of sig=10 and 20 (for NumPy 2.4 it needs `np.in1d`, which is
put back), and kernelforge, the kernel of FCHL19 by its authors, with the best of three scales and three ridges, chosen
with at most 200 geometries.

With --atoms, the molecule is a chain of carbon and hydrogen with harmonic bonds and angles and Lennard-Jones forces
between all other atoms, for sizes of which no data are shared; --device learns its force field on an accelerator.

Errors are mean absolute ones: of components of forces in meV/A, and of energies, up to a constant, in meV.  Coverage is
that of the intervals of two standard deviations (95 %) of forces.  Seconds are those of the fit, with the choice of its
settings, and of all, with predictions and their deviations.  Each result is measured in a process of its own, added to
the journal DIR/force_field.jsonl, and not computed again.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from importlib.util import find_spec
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import rkhs
from benchmarks.data import arrays
from benchmarks.timing import markdown, show, write

Matrix = np.ndarray[Any, Any]
MOLECULES = ("ethanol", "malonaldehyde", "toluene")
MODELS = ("rkhs", "sgdml", "kernelforge")
TESTED = 300  # geometries
HEADINGS = ("molecule", "geometries", "model", "forces", "energies", "coverage", "fit s", "seconds", "processor s")
HEADINGS += ("peak GiB",)


def chain(atoms: int) -> tuple[Matrix, Matrix]:
    """Return the elements and the positions of a zigzag chain of carbon atoms with hydrogen atoms on both sides."""
    carbons = max(atoms // 3, 1)
    index = np.arange(carbons)
    backbone = np.stack([1.25 * index, 0.42 * (-1.0) ** index, 0 * index], axis=1)
    sides = [backbone[k] + [0.0, 0.6 * (-1.0) ** k, 0.9 * side] for k in index for side in (1, -1)]
    ends = [backbone[0] - [1.0, 0.3, 0.0], backbone[-1] + [1.0, 0.3 * (-1.0) ** (carbons - 1), 0.0]]
    positions = np.concatenate([backbone, np.array([*ends, *sides])])[:atoms]
    return np.array([6] * carbons + [1] * (len(positions) - carbons)), positions


def chain_forces(rest: Matrix, R: Matrix) -> tuple[Matrix, Matrix]:
    """Return the energies and forces of geometries R (t, atoms, 3) of a molecule with the positions `rest` at rest."""
    E, F = np.zeros(len(R)), np.zeros_like(R)
    length = np.linalg.norm(rest[:, None] - rest[None], axis=-1)
    bonded = (length < 1.7) & (length > 0)
    angles = (bonded.astype(int) @ bonded.astype(int) > 0) & ~bonded
    for i, j in combinations(range(len(rest)), 2):
        d = R[:, j] - R[:, i]
        r = np.linalg.norm(d, axis=1)
        if bonded[i, j] or angles[i, j]:  # harmonic, in eV/A^2
            stiffness = 30.0 if bonded[i, j] else 4.0
            E += stiffness / 2 * (r - length[i, j]) ** 2
            slope = stiffness * (r - length[i, j])
        else:
            inverse = (2.6 / r) ** 6
            E += 0.005 * (inverse**2 - 2 * inverse)
            slope = 0.06 * (inverse - inverse**2) / r
        F[:, i] += (slope / r)[:, None] * d
        F[:, j] -= (slope / r)[:, None] * d
    return E, F


def load(molecule: str) -> dict[str, Matrix]:
    """Return the arrays of a molecule; the name of a synthetic chain is its number of atoms."""
    if not molecule.isdigit():
        return arrays(f"rmd17_{molecule}")
    z, rest = chain(int(molecule))
    random = np.random.default_rng(0)
    data: dict[str, Matrix] = {"z": z}
    for name, count in (("train", 2000), ("test", TESTED)):
        R = rest + random.normal(0, 0.06, (count, *rest.shape))
        E, F = chain_forces(rest, R)
        data |= {f"R_{name}": R, f"F_{name}": F, f"E_{name}": E}
    return data


def ours(data: dict[str, Matrix], count: int, device: str | None) -> tuple[Matrix, Matrix, float, float]:
    """Return energies and forces at the test geometries, the coverage of intervals, and the seconds of the fit."""
    start = time.perf_counter()
    model = rkhs.geometry.ForceFieldRegressor(atoms=data["z"].astype(int), device=device)
    model.fit(data["R_train"][:count], data["F_train"][:count])
    fitting = time.perf_counter() - start
    print(model.best_params_, model.solution_, f"{len(model.symmetries_)} permutations", flush=True)
    R = data["R_test"][:TESTED]
    forces, deviations = model.predict_forces(R, return_std=True)
    inside = np.abs(forces - data["F_test"][:TESTED]) < 1.96 * deviations
    return model.predict(R), forces, float(inside.mean()), fitting


def sgdml(data: dict[str, Matrix], count: int) -> tuple[Matrix, Matrix, float, float]:
    """Return the same by sgdml, with the better of two scales, without intervals."""
    start = time.perf_counter()
    vars(np).setdefault("in1d", np.isin)
    from sgdml.predict import GDMLPredict
    from sgdml.train import GDMLTrain
    from sgdml.utils import io

    def dataset(rows: slice) -> dict[str, Any]:
        given: dict[str, Any] = {"type": np.array("d"), "name": np.array("molecule"), "theory": np.array("PBE")}
        given["z"] = data["z"].astype(int)
        given |= {"R": data["R_train"][rows], "F": data["F_train"][rows], "E": data["E_train"][rows]}
        given |= {"r_unit": np.array("Ang"), "e_unit": np.array("eV")}
        given["md5"] = io.dataset_md5(given)
        return given

    train, valid = dataset(slice(count)), dataset(slice(-100, None))
    best, least = None, np.inf
    trainer = GDMLTrain()
    for sig in (10, 20):
        task = trainer.create_task(train, count, valid, 100, sig, lam=1e-10, use_E=False, use_sym=True)
        predictor = GDMLPredict(trainer.train(task))
        _, found = predictor.predict(valid["R"].reshape(100, -1))
        error = float(np.abs(found.reshape(-1) - valid["F"].reshape(-1)).mean())
        if error < least:
            best, least = predictor, error
    assert best is not None
    del trainer  # there may be only one at a time
    R, fitting = data["R_test"][:TESTED], time.perf_counter() - start
    E, F = best.predict(R.reshape(len(R), -1))
    return E, F.reshape(R.shape), float("nan"), fitting


def kernelforge(data: dict[str, Matrix], count: int) -> tuple[Matrix, Matrix, float, float]:
    """Return the same by kernelforge, with the best of three scales and three ridges, without intervals."""
    start = time.perf_counter()
    from kernelforge.models import LocalKRRModel

    z = data["z"].astype(np.int32)

    def fitted(rows: int, sigma: float, l2: float) -> Any:
        model = LocalKRRModel(sigma=sigma, l2=l2, elements=sorted(set(z.tolist())))
        return model.fit(list(data["R_train"][:rows]), [z] * rows, forces=data["F_train"][:rows])

    def predicted(model: Any, R: Matrix) -> tuple[Matrix, Matrix]:
        E, F = model.predict(list(R), [z] * len(R))
        return E, F.reshape(R.shape)

    def error(sigma: float, l2: float) -> float:
        _, F = predicted(fitted(min(count, 200), sigma, l2), data["R_train"][-100:])
        return float(np.nan_to_num(np.abs(F - data["F_train"][-100:]).mean(), nan=np.inf))

    model = fitted(count, *min(product((2.0, 6.0, 20.0), (1e-9, 1e-7, 1e-5)), key=lambda one: error(*one)))
    fitting = time.perf_counter() - start
    return *predicted(model, data["R_test"][:TESTED]), float("nan"), fitting


def measure(molecule: str, count: int, model: str, device: str | None) -> dict[str, Any]:
    """Return one result, with the processor time and the peak memory of this process."""
    data = load(molecule)
    start, used = time.perf_counter(), time.process_time()
    peer = {"sgdml": sgdml, "kernelforge": kernelforge}.get(model)
    E, F, coverage, fitting = peer(data, count) if peer else ours(data, count, device)
    seconds, cpu = time.perf_counter() - start, time.process_time() - used
    energies = E - data["E_test"][:TESTED]
    return {
        "molecule": molecule,
        "geometries": count,
        "model": model,
        "forces": 1000 * float(np.abs(F - data["F_test"][:TESTED]).mean()),
        "energies": 1000 * float(np.abs(energies - energies.mean()).mean()),
        "coverage": coverage,
        "fit s": fitting,
        "seconds": seconds,
        "processor s": cpu,
        "peak GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def main() -> None:
    """Measure what the journal lacks, print the table and write it as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--molecules", nargs="+", default=list(MOLECULES))
    parser.add_argument("--atoms", type=int, help="a synthetic chain of so many atoms")
    parser.add_argument("--counts", nargs="+", type=int, default=[100, 200, 400, 1000])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--device")
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)  # a single result, in a process of its own
    options = parser.parse_args()
    if options.one:
        molecule, count, model = options.one
        print(json.dumps(measure(molecule, int(count), model, options.device)))
        return
    molecules = [str(options.atoms)] if options.atoms else options.molecules
    models = [model for model in options.models if model == "rkhs" or find_spec(model) is not None]
    options.out.mkdir(parents=True, exist_ok=True)
    journal = options.out / "force_field.jsonl"
    found = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    done = {(one["molecule"], one["geometries"], one["model"], one["device"]) for one in found}
    for count in options.counts:
        for molecule in molecules:
            for model in models:
                device = options.device if model == "rkhs" else None
                if (molecule, count, model, device) in done:
                    continue
                call = [sys.executable, "-m", "benchmarks.force_field", "--one", molecule, str(count), model]
                call += ["--device", device] if device else []
                lines = subprocess.run(call, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
                print(*lines, sep="\n", flush=True)
                found.append({**json.loads(lines[-1]), "device": device})
                with journal.open("a") as file:
                    file.write(json.dumps(found[-1]) + "\n")
    rows = [
        [f"{one[key]:.3g}" if isinstance(one[key], float) else str(one[key]) for key in HEADINGS]
        for one in sorted(found, key=lambda one: (one["molecule"], one["geometries"], one["model"]))
    ]
    title = "Force fields: mean absolute errors of forces, meV/A, and of energies, meV"
    show(Console(width=130), title, HEADINGS, rows)
    write(options.out, "force_field.md", markdown(title, HEADINGS, rows))


if __name__ == "__main__":
    main()
