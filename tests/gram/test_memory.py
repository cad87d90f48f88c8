"""The product needs memory for its vectors and some tiles, and nothing else: a million functionals fit anywhere."""

import json
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

import rkhs

T, N = 5000, 200
MIB = 2**20

PROGRAM = """
import json, sys
import numpy as np
import rkhs

t, n = json.loads(sys.argv[1])
rng = np.random.default_rng(0)
X, v = rng.normal(size=(t, n)), rng.normal(size=t * n)
kernel, L = rkhs.Gaussian(scale=n**0.5), rkhs.Gradient(X)
np.ones((64, 64)) @ np.ones((64, 64))  # the BLAS has its own room from its first product on


def resident(which):  # not getrusage, whose peak is also that of the process which started this one
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(which))


G = rkhs.gram(kernel, L)
before = resident("VmRSS")
product = G @ v
extra = resident("VmHWM") - before

rows = rng.choice(t * n, size=5, replace=False)
expected = rkhs.gram(kernel, L.take(rows), L).dense() @ v  # entry by entry
error = abs(product[rows] - expected).max() / abs(expected).max()
print(json.dumps({"size": G.shape[0], "extra": extra, "error": error}))
"""


def _run():
    """In a process of its own: the peak of its resident set in the product, beyond what it held just before."""
    arguments = [sys.executable, "-c", PROGRAM, json.dumps([T, N])]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the resident set is read from /proc")
def test_a_million_functionals_in_a_gibibyte():
    """Dense, the matrix has 7.3 TiB."""
    found = _run()
    assert found["size"] == 1_000_000
    assert found["error"] < 1e-12
    assert found["extra"] < 1024 * MIB


KERNELS = [
    rkhs.Gaussian(2.0),
    rkhs.Matern(3.5, 2.0),
    rkhs.RationalQuadratic(1.5, 2.0),
    rkhs.Polynomial(3),
    rkhs.kernels.Polyharmonic(3),
    rkhs.kernels.Polyharmonic(4),
]


@pytest.mark.parametrize("budget", [16 * MIB, 4 * MIB, MIB])
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_memory_argument_is_honored(kernel, budget):
    """Tiles take no more than the budget; 16 arrays of the size of the points are vectors and the like."""
    X = np.random.default_rng(0).normal(size=(1500, 4))
    jets = rkhs.stack([rkhs.Evaluation(X), rkhs.Gradient(X)])
    assert budget / 4 < _peak(kernel, jets, memory=budget) < budget + 16 * X.nbytes


@pytest.mark.parametrize("budget", [4 * MIB, MIB])
@pytest.mark.parametrize(
    ("kernel", "family"),
    [
        (rkhs.Gaussian(2.0), rkhs.Laplacian),
        (rkhs.Matern(3.5, 2.0), rkhs.Hessian),
        (rkhs.Matern(3.5, 2.0) * rkhs.Gaussian(2.0), rkhs.Gradient),
    ],
    ids=["Laplacian", "Hessian", "product"],
)
def test_memory_argument_is_honored_without_jets(kernel, family, budget):
    L = family(np.random.default_rng(0).normal(size=(100, 4)))
    assert budget / 4 < _peak(kernel, L, memory=budget) < budget + 64 * 8 * L.size


@pytest.mark.parametrize("kernel", [rkhs.Matern(2.5, 10.0), rkhs.kernels.Polyharmonic(3)], ids=repr)
def test_an_outlier_does_not_make_all_others_near(kernel):
    """Near points are treated one by one, from their differences: all pairs of them would take 190 MiB."""
    X = np.random.default_rng(0).normal(size=(500, 100))
    X[0] *= 1000
    assert _peak(kernel, rkhs.Gradient(X), memory=4 * MIB) < 4 * MIB + 16 * X.nbytes


def _peak(kernel, L, memory):
    """Bytes that a product allocates at once."""
    G = rkhs.gram(kernel, L, memory=memory)
    v = np.ones(G.shape[1])
    G @ v  # what is made once
    tracemalloc.start()
    G @ v
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak
