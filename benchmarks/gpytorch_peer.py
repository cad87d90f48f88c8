"""GPyTorch's kernel of values and all partial derivatives, beside ours; run in a process of its own for its memory.

    python -m benchmarks.gpytorch_peer POINTS DIMENSIONS

prints a line of JSON.  Both sides build the Gram operator of values and gradients at random points and multiply it by
one vector, in float64, with GPyTorch's length scale (which it keeps in float32) read back and given to us.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.timing import interleaved
from rkhs._core.backend.memory import free_memory

COPIES = 7.0  # of the dense matrix that GPyTorch holds at its peak: 18.1 GiB for 300 points in 64 dimensions, seen here


@dataclass(frozen=True)
class Comparison:
    """Seconds of build and product, the difference of the products, and the peak of the process."""

    points: int
    dimensions: int
    theirs: float
    ours: float
    difference: float
    peak_gib: float


def missing_memory(points: int, dimensions: int) -> str:
    """What is missing to run GPyTorch at this size; empty if nothing is."""
    needed = COPIES * 8 * (points * (dimensions + 1)) ** 2 / 2**30
    free = free_memory(np.zeros(1)) / 2**30
    return f"which needs {needed:.1f} GiB where {free:.1f} GiB are free" if free < needed else ""


def compare(points: int, dimensions: int) -> Comparison:
    """Both sides in this process: GPyTorch once where it is slow, ours several times."""
    warnings.simplefilter("ignore")  # GPyTorch's own
    import gpytorch
    import torch

    import rkhs

    rng = np.random.default_rng(0)
    X, table = rng.standard_normal((points, dimensions)), rng.standard_normal((points, dimensions + 1))
    kernel = gpytorch.kernels.RBFKernelGrad().double()
    kernel.lengthscale = dimensions**0.5
    scale = kernel.lengthscale.item()

    def theirs() -> Any:
        """Point by point, a value and then its partial derivatives."""
        with torch.no_grad():
            return (kernel(torch.from_numpy(X)).to_dense() @ torch.from_numpy(table.ravel())).numpy()

    def ours() -> Any:
        """All values, then all gradients."""
        L = rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X)])
        return rkhs.gram(rkhs.Gaussian(scale=scale), L) @ np.concatenate([table[:, 0], table[:, 1:].ravel()])

    found = ours()
    product = np.hstack([found[:points, None], found[points:].reshape(points, dimensions)]).ravel()
    products: list[Any] = []
    seconds = interleaved({"theirs": lambda: products.append(theirs())}, repeats=1 if points * dimensions > 5000 else 3)
    seconds |= interleaved({"ours": ours}, repeats=20)
    difference = float(np.linalg.norm(product - products[0]) / np.linalg.norm(products[0]))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return Comparison(points, dimensions, seconds["theirs"], seconds["ours"], difference, peak)


def apart(points: int, dimensions: int) -> Comparison:
    """`compare` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.gpytorch_peer", str(points), str(dimensions)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Comparison(**json.loads(done.stdout.splitlines()[-1]))


if __name__ == "__main__":
    print(json.dumps(asdict(compare(int(sys.argv[1]), int(sys.argv[2])))))
