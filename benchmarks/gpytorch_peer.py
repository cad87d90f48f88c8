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
from time import perf_counter
from typing import Any

GIGABYTES = 19.0  # that GPyTorch takes for 300 points in 64 dimensions, seen here


def compare(points: int, dimensions: int) -> dict[str, Any]:
    """Seconds of build and product of both, and how far the products differ."""
    import gpytorch
    import numpy as np
    import torch

    import rkhs

    rng = np.random.default_rng(0)
    X = rng.standard_normal((points, dimensions))
    v = rng.standard_normal(points * (dimensions + 1))

    kernel = gpytorch.kernels.RBFKernelGrad().double()
    kernel.lengthscale = dimensions**0.5
    scale = float(kernel.lengthscale)
    start = perf_counter()
    with torch.no_grad():
        theirs = (kernel(torch.from_numpy(X)).to_dense() @ torch.from_numpy(v)).numpy()
    their_seconds = perf_counter() - start

    # GPyTorch's order is point by point, a value and then its partial derivatives.
    table = v.reshape(points, dimensions + 1)
    ours_v = np.concatenate([table[:, 0], table[:, 1:].ravel()])

    def ours() -> Any:
        L = rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X)])
        return rkhs.gram(rkhs.Gaussian(scale=scale), L) @ ours_v

    times = []
    for _ in range(5):
        start = perf_counter()
        flat = ours()
        times.append(perf_counter() - start)
    product = np.hstack([flat[:points, None], flat[points:].reshape(points, dimensions)]).ravel()
    return {
        "points": points,
        "dimensions": dimensions,
        "theirs": their_seconds,
        "ours": min(times),
        "error": float(np.linalg.norm(product - theirs) / np.linalg.norm(theirs)),
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


def apart(points: int, dimensions: int) -> dict[str, Any]:
    """`compare` in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.gpytorch_peer", str(points), str(dimensions)]
    return dict(json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1]))


if __name__ == "__main__":
    print(json.dumps(compare(int(sys.argv[1]), int(sys.argv[2]))))
