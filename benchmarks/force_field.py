"""A force field of ethanol from forces alone, compared with sgdml.

    python -m benchmarks.force_field [--counts 100 400] [--out DIR]

Revised MD17, geometries and forces of ethanol (data set rmd17_ethanol): the first n of the training file, tested on the
first 300 of the test file.  The energy is a function of the inverse distances of atoms, symmetric in atoms that can
change places (6 permutations); the forces are minus its slopes, so that energy is conserved.  The order of the Matern
kernel, its scale and the noise were chosen once, with 100 geometries, by the error on rows 600 to 700 of the training
file.  The peer, where it is installed, is sgdml with its own symmetries and sig=10 and 20, the better on those rows.
"""

from __future__ import annotations

import argparse
import resource
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

import rkhs
from benchmarks.data import arrays
from benchmarks.timing import markdown, show, write
from rkhs.kernels.symmetrised import generated

Matrix = np.ndarray[Any, Any]
NU, SCALE, NOISE = 3.5, 10.0, 1e-8
# turning the methyl group's hydrogens 5, 6, 7; mirroring, which exchanges 3 and 4, and 5 and 6
SYMMETRIES = [[0, 1, 2, 3, 4, 6, 7, 5, 8], [0, 1, 2, 4, 3, 6, 5, 7, 8]]


def load() -> dict[str, Matrix]:
    """The arrays of the data set."""
    return arrays("rmd17_ethanol")


def kernel_of(positions: Matrix) -> rkhs.Kernel:
    """A kernel of energies, in units in which a force has the size one."""
    descriptor = rkhs.kernels.InverseDistances()
    inner = rkhs.kernels.Symmetrised(rkhs.Matern(NU, SCALE), descriptor.moved(generated(SYMMETRIES)))
    kernel = inner @ descriptor
    size = float(np.mean(rkhs.gram(kernel, rkhs.Gradient(positions[:5])).diagonal()))
    return (1 / size) * kernel


def ours(R: Matrix, F: Matrix, test: Matrix, _: Any) -> Matrix:
    """Forces at the test geometries."""
    X = R.reshape(len(R), -1)
    term = rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), -F.reshape(len(F), -1), weight=1 / (2 * NOISE))
    energy = rkhs.Problem(kernel_of(X), [term]).solve(rkhs.solvers.Direct(), tol=1e-3).function
    return -rkhs.Gradient(test.reshape(len(test), -1))(energy).reshape(test.shape)


def sgdml(R: Matrix, F: Matrix, test: Matrix, data: dict[str, Matrix]) -> Matrix:
    """The same by sgdml, with the better of two scales."""
    from sgdml.predict import GDMLPredict
    from sgdml.train import GDMLTrain
    from sgdml.utils import io

    def dataset(rows: slice) -> dict[str, Any]:
        own: dict[str, Any] = {"type": np.array("d"), "name": np.array("ethanol"), "theory": np.array("PBE")}
        own["z"] = data["z"].astype(int)
        own |= {"R": data["R_train"][rows], "F": data["F_train"][rows], "E": data["E_train"][rows]}
        own |= {"r_unit": np.array("Ang"), "e_unit": np.array("eV")}
        own["md5"] = io.dataset_md5(own)
        return own

    train, valid = dataset(slice(len(R))), dataset(slice(600, 700))
    best, least = None, np.inf
    trainer = GDMLTrain()
    for sig in (10, 20):
        task = trainer.create_task(train, len(R), valid, 100, sig, lam=1e-10, use_E=False, use_sym=True)
        predictor = GDMLPredict(trainer.train(task))
        _, found = predictor.predict(valid["R"].reshape(100, -1))
        error = float(np.abs(found.reshape(-1) - valid["F"].reshape(-1)).mean())
        if error < least:
            best, least = predictor, error
    assert best is not None
    del trainer  # there may be only one at a time
    return best.predict(test.reshape(len(test), -1))[1].reshape(test.shape)


def main() -> None:
    """Print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--counts", nargs="+", type=int, default=[100, 400])
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    data = load()
    test, truth = data["R_test"][:300], data["F_test"][:300]
    ways = {"rkhs": ours}
    if find_spec("sgdml") is not None:
        ways["sgdml"] = sgdml
    rows = []
    for count in options.counts:
        for way, fit in ways.items():
            start, used = time.perf_counter(), time.process_time()
            found = fit(data["R_train"][:count], data["F_train"][:count], test, data)
            seconds, cpu = time.perf_counter() - start, time.process_time() - used
            error = 1000 * float(np.abs(found - truth).mean())
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            rows.append([f"{count}", way, f"{error:.1f}", f"{seconds:.0f}", f"{cpu:.0f}", f"{peak:.1f}"])
            print(*rows[-1], flush=True)
    title = "Ethanol from forces: mean absolute error of a force component, meV/A"
    headings = ["geometries", "model", "error", "seconds", "processor seconds", "peak GiB so far"]
    show(Console(), title, headings, rows)
    write(options.out, "force_field.md", markdown(title, headings, rows))


if __name__ == "__main__":
    main()
