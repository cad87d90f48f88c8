"""A million functionals: the product needs memory for its vectors and some tiles, and nothing else.

Memory is measured in a process of its own, as the peak of its resident set during the product, beyond
what it held just before.
"""

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the resident set is read from /proc")

T, N = 5000, 200
MIB = 2**20

PROGRAM = """
import json, resource, sys
import numpy as np
import rkhs

t, n, memory = json.loads(sys.argv[1])
rng = np.random.default_rng(0)
X, v = rng.normal(size=(t, n)), rng.normal(size=t * n)
kernel, L = rkhs.Gaussian(scale=n**0.5), rkhs.Gradient(X)
np.ones((64, 64)) @ np.ones((64, 64))  # the BLAS has its own room from its first product on


def resident():
    with open("/proc/self/statm") as fields:
        return int(fields.read().split()[1]) * resource.getpagesize()


G = rkhs.gram(kernel, L, memory=memory)
before = resident()
product = G @ v
extra = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before

rows = rng.choice(t * n, size=5, replace=False)
expected = rkhs.gram(kernel, L.take(rows), L).dense() @ v  # entry by entry
error = abs(product[rows] - expected).max() / abs(expected).max()
print(json.dumps({"size": G.shape[0], "extra": extra, "error": error}))
"""


def _run(memory):
    arguments = [sys.executable, "-c", PROGRAM, json.dumps([T, N, memory])]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_million_functionals_in_a_gibibyte():
    """Dense, the matrix has 7.3 TiB."""
    found = _run(None)
    assert found["size"] == 1_000_000
    assert found["error"] < 1e-12
    assert found["extra"] < 1024 * MIB


def test_memory_argument_is_honoured():
    """Beyond some arrays of the size of the points (8 MiB each), a budget of 2 MiB is 32 MiB less than the default."""
    most, little = _run(64 * MIB), _run(2 * MIB)
    assert little["error"] < 1e-12
    vectors = 12 * 8 * T * N
    assert most["extra"] < vectors + 64 * MIB
    assert little["extra"] < vectors + 2 * MIB
    assert little["extra"] < most["extra"] - 8 * MIB
