"""Write tests/data/oracle.npz: the inner products of the jets of `registry.points`, in 30 digits, for every kernel.

    python tests/make_oracle.py [--all]

Without --all, only what the file does not have yet is computed.  Each number is rounded once, to the nearest double.
The file holds the lower triangles, one after the other, of the orders that the kernel bounds.  All of it takes some
minutes; `test_accuracy` recomputes a sample.
"""

import sys
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np

import oracle
import rkhs
from registry import DIMENSIONS, KERNELS, ORDER, jet, near_points, points

FILE = Path(__file__).parent / "data" / "oracle.npz"


def order(kernel, d):
    """The highest order of derivative that is bounded, up to `ORDER`."""
    return max(m for m in range(ORDER + 1) if m < kernel.smoothness(d))


def entry(name, X, i, j):
    """The inner product of the jet's atoms i and j under a kernel."""
    t, d = X.shape
    atoms = jet(t, d)
    L, M = ([(1.0, X[p], np.eye(d)[list(axes)])] for p, axes in (atoms[i], atoms[j]))
    return float(oracle.inner(KERNELS[name].define(d), L, M))


def triangle(name, X):
    """All inner products of the jet, the lower triangle row by row."""
    t, d = X.shape
    size = len(jet(t, d, order(KERNELS[name].make(d), d)))
    return np.array([entry(name, X, i, j) for i in range(size) for j in range(i + 1)])


def near_kernels():
    """The kernels of x - y that have a kink in R^2 (and no smooth factor), for `near_points`."""
    made = {name: case.make(2) for name, case in KERNELS.items() if case.stationary}
    return [
        name for name, k in made.items() if np.isfinite(k.smoothness(2)) and not isinstance(k, rkhs.kernels.Product)
    ]


def cases():
    """The file's keys, each with its kernel and points."""
    found = {f"{name} in R^{d}": (name, points(d)) for name in KERNELS for d in DIMENSIONS}
    return found | {f"{name}, near": (name, near_points()) for name in near_kernels()}


@cache
def stored():
    with np.load(FILE) as file:
        return dict(file)


def table(key):
    """The stored inner products as a symmetric matrix, in extended precision for what is made of it."""
    packed = stored()[key]
    size = int((2 * len(packed)) ** 0.5)
    lower = np.zeros((size, size), dtype=np.longdouble)
    lower[np.tril_indices(size)] = packed
    return lower + np.tril(lower, -1).T


if __name__ == "__main__":
    known = {} if "--all" in sys.argv or not FILE.exists() else stored()
    with ProcessPoolExecutor() as pool:
        futures = {key: pool.submit(triangle, *case) for key, case in cases().items() if key not in known}
        found = {key: future.result() for key, future in futures.items()}
    np.savez_compressed(FILE, **{key: found[key] if key in found else known[key] for key in cases()})
    print(f"{FILE}: {FILE.stat().st_size / 2**10:.0f} KiB")
