"""What a process may take: limits of the system count, products need their vectors and some tiles, problems no more."""

import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import rkhs
from rkhs._core.backend import memory

MIB = 2**20
FOLDER = Path(os.environ.get("RKHS_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
SOLVE = """
import sys
import numpy as np, rkhs
data = np.load(sys.argv[1])
X, y = data["X"].astype(float), data["y"].astype(float)
X = (X - X.mean(0)) / np.where(X.std(0) > 0, X.std(0), 1)
labels = rkhs.Term(rkhs.Evaluation(X[:90]), rkhs.SquaredHinge(), target=y[:90])
flat = rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), weight=0.1)
problem = rkhs.Problem(rkhs.Gaussian(rkhs.kernels.median_scale(X)), [labels, flat], rkhs.Constant())
solution = problem.solve(tol=1e-4)
print(solution.status, solution.products, resident("VmHWM"))
"""
PRODUCT = """
import numpy as np, rkhs

t, n = 5000, 200
rng = np.random.default_rng(0)
X, v = rng.normal(size=(t, n)), rng.normal(size=t * n)
kernel, L = rkhs.Gaussian(scale=n**0.5), rkhs.Gradient(X)
np.ones((64, 64)) @ np.ones((64, 64))  # the BLAS has its own room from its first product on

G = rkhs.gram(kernel, L)
before = resident("VmRSS")
product = G @ v
extra = resident("VmHWM") - before

rows = rng.choice(t * n, size=5, replace=False)
expected = rkhs.gram(kernel, L.take(rows), L).dense() @ v  # entry by entry
error = abs(product[rows] - expected).max() / abs(expected).max()
print(G.shape[0], extra, error)
"""


def run(program, *arguments):
    """What a program prints in a process of its own.

    It may ask for its resident set: getrusage has the peak of the process that started it, too.
    """
    resident = """
def resident(which):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(which))
"""
    command = [sys.executable, "-c", resident + program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the resident set is read from /proc")
def test_usps_with_all_gradients_stays_within_1_5_gib():
    """361,590 functionals, whose Gram matrix would take 974 GiB."""
    path = FOLDER / "usps_ssl.npz"
    if not path.exists():
        pytest.skip("usps_ssl.npz is not there: set RKHS_DATA to the folder that holds it.")
    status, products, peak = run(SOLVE, str(path))
    assert status == "converged"
    assert int(products) <= 40
    assert int(peak) < 1.5 * 2**30


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the resident set is read from /proc")
def test_a_million_functionals_in_a_gibibyte():
    """Dense, the matrix has 7.3 TiB; the product needs memory for its vectors and some tiles, and nothing else."""
    size, extra, error = run(PRODUCT)
    assert int(size) == 1_000_000
    assert float(error) < 1e-12
    assert int(extra) < 1024 * MIB


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no module resource")
def test_a_limit_on_the_address_space_counts():
    code = (
        "import resource; from rkhs._core.backend.memory import free_main_memory;"
        "resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31)); print(free_main_memory())"
    )
    assert 0 < int(run(code)[0]) < 2**31


@pytest.mark.parametrize(("limit", "left"), [("1000000", 400_000), ("max", None), ("what?", None)])
def test_a_limit_of_a_container_counts(tmp_path, monkeypatch, limit, left):
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text("600000\n")
    monkeypatch.setattr(memory, "GROUP", tmp_path)
    found = memory.free_main_memory()
    assert found == left if left else found > 400_000  # which any computer has


KERNELS = [
    rkhs.Gaussian(2.0),
    rkhs.Matern(3.5, 2.0),
    rkhs.kernels.RationalQuadratic(1.5, 2.0),
    rkhs.kernels.Polynomial(3),
    rkhs.kernels.Polyharmonic(3),
    rkhs.kernels.Polyharmonic(4),
    rkhs.kernels.ThinPlate(4),
    rkhs.Gaussian((1.5, 2.0, 2.5, 3.0)),
    rkhs.Gaussian(2.0) + 0.5 * rkhs.kernels.Linear() + rkhs.Matern(1.5, 3.0),
    (rkhs.Gaussian() + 0.25 * rkhs.kernels.Polynomial(2)) @ np.eye(4)[::-1],
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
        (rkhs.Gaussian(2.0), rkhs.functionals.Laplacian),
        (rkhs.Matern(3.5, 2.0), rkhs.functionals.Hessian),
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
