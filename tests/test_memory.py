"""What a process may take: limits of the system count, and the largest problem of the papers stays within them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rkhs._backend import memory

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
with open("/proc/self/status") as lines:  # not getrusage, whose peak is also that of the process which started this one
    kilobytes = next(line.split()[1] for line in lines if line.startswith("VmHWM"))
print(solution.status, solution.products, kilobytes)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the resident set is read from /proc")
def test_usps_with_all_gradients_stays_within_1_5_gib():
    """361,590 functionals, whose Gram matrix would take 974 GiB."""
    path = FOLDER / "usps_ssl.npz"
    if not path.exists():
        pytest.skip("usps_ssl.npz is not there: set RKHS_DATA to the folder that holds it.")
    run = subprocess.run([sys.executable, "-c", SOLVE, str(path)], capture_output=True, text=True, check=True)
    status, products, kilobytes = run.stdout.split()
    assert status == "converged"
    assert int(products) <= 40
    assert int(kilobytes) * 1024 < 1.5 * 2**30


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no module resource")
def test_a_limit_on_the_address_space_counts():
    code = (
        "import resource; from rkhs._backend.memory import free_main_memory;"
        "resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31)); print(free_main_memory())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 < int(done.stdout) < 2**31


@pytest.mark.parametrize(("limit", "left"), [("1000000", 400_000), ("max", None), ("what?", None)])
def test_a_limit_of_a_container_counts(tmp_path, monkeypatch, limit, left):
    (tmp_path / "memory.max").write_text(f"{limit}\n")
    (tmp_path / "memory.current").write_text("600000\n")
    monkeypatch.setattr(memory, "GROUP", tmp_path)
    found = memory.free_main_memory()
    assert found == left if left else found > 400_000  # which any computer has
