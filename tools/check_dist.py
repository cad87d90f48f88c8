"""Is what `make dist` built fit to be published?  `python tools/check_dist.py dist`

The wheel is small and holds no results; alone in an empty environment it imports quickly, fits an estimator, solves a
problem, and names the extra for whatever needs one.  The examples of its docstrings run with the oldest versions of its
dependencies that pyproject.toml allows, and with the newest that there are.  With the extra `cli` every block and
command of README runs there, and `rkhs reproduce` names the repository.  The conda recipe makes the same package.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path
from statistics import median
from time import perf_counter
from zipfile import ZipFile

from check_recipe import check_recipe

ROOT = Path(__file__).resolve().parents[1]
MOST = 2**20  # bytes of a wheel
TOOLS = ROOT / "tools"
SLOWEST = 0.5  # seconds of `import rkhs`, the interpreter's own start not counted
ALONE = """
import numpy as np, rkhs
X = np.linspace(0, 1, 20)[:, None]
assert rkhs.InvariantClassifier().fit(X, (X[:, 0] > 0.5).astype(int)).score(X, X[:, 0] > 0.5) == 1
term = rkhs.Term(rkhs.Gradient(X), rkhs.Squared(), target=np.cos(X))
assert rkhs.Problem(rkhs.Gaussian(), [term]).solve().status == "converged"
assert rkhs.__version__ != "0+unknown"
"""


def main(folder: Path) -> None:
    """Check the one wheel and the one sdist in a folder."""
    (wheel,), (_,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    size = wheel.stat().st_size
    assert size < MOST, f"{wheel} has {size:,} bytes, more than {MOST:,}."
    names = ZipFile(wheel).namelist()
    assert "rkhs/py.typed" in names
    assert not [name for name in names if name.endswith((".png", ".npz")) or "/results/" in name or "papers" in name]
    print(f"{wheel.name}: {size / 1024:.0f} KiB, {len(names)} files")
    with tempfile.TemporaryDirectory() as place:
        python = environment(Path(place) / "bare")
        run(python, "-m", "pip", "install", "--quiet", str(wheel))
        run(python, "-c", ALONE)
        seconds = import_seconds(python)
        assert seconds < SLOWEST, f"import rkhs takes {seconds:.2f} s."
        print(f"alone: an estimator and a problem work; import rkhs takes {seconds:.2f} s")
        run(python, str(TOOLS / "bare.py"))
        run(python, str(TOOLS / "installed_examples.py"))
        oldest = environment(Path(place) / "oldest")
        run(oldest, "-m", "pip", "install", "--quiet", *oldest_dependencies(), str(wheel))
        run(oldest, str(TOOLS / "installed_examples.py"))
        run(python, "-m", "pip", "install", "--quiet", f"{wheel}[cli]", "pytest")
        says_where_the_papers_are(python)
        run(python, "-m", "pytest", "-q", "-rs", "-c", os.devnull, f"--rootdir={place}", "-p", "no:cacheprovider",
            "--noconftest", "-W", "ignore::pytest.PytestUnknownMarkWarning",  # both are for the whole suite
            str(ROOT / "tests/docs/test_pages.py"), "-k", "README")  # fmt: skip
        print("README runs from the wheel")
    check_recipe(wheel)


def says_where_the_papers_are(python: Path) -> None:
    """Check that `rkhs reproduce`, whose experiments are not in the wheel, names the repository."""
    done = subprocess.run(
        [python.parent / "rkhs", "reproduce", "theorems"], capture_output=True, text=True, cwd=python.parent
    )
    assert done.returncode == 1, done
    assert "git clone" in done.stderr, done
    assert "python -m papers theorems" in done.stderr, done


def oldest_dependencies() -> list[str]:
    """The oldest versions that pyproject.toml allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [requirement.replace(">=", "==") for requirement in project["dependencies"]]


def environment(place: Path) -> Path:
    """The Python of a new, empty environment."""
    venv.create(place, with_pip=True)
    return place / ("Scripts" if os.name == "nt" else "bin") / "python"


def run(python: Path, *arguments: str) -> None:
    """In the environment, and in no way from the source."""
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([python, *arguments], check=True, cwd=python.parent, env=clean)


def import_seconds(python: Path) -> float:
    """The median of five imports, once the compiled files are there, less that of an empty program."""

    def seconds(code: str) -> float:
        start = perf_counter()
        run(python, "-c", code)
        return perf_counter() - start

    return median(seconds("import rkhs") for _ in range(5)) - median(seconds("") for _ in range(5))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
