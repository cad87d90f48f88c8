"""A million points with gradient invariance at all of them, beside scikit-learn's Nystroem + Ridge without.

    python -m benchmarks.landmarks [--rows 10000 100000 1000000] [--landmarks 1000] [--out DIR]

Points in R^50, a smooth target with noise, p functions, in as many threads as OPENBLAS_NUM_THREADS says.  Each fit is a
process of its own, whose largest resident set is reported; the rows are on disk and mapped into memory.  We compute in
float64.  scikit-learn holds rows x p numbers twice: in float64 where that fits in memory, and in float32 beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console

import rkhs
from benchmarks.timing import markdown, show, write
from rkhs._core.backend.memory import free_memory

FEATURES = 50
GIB = 2**30
PEERS = ("scikit-learn", "scikit-learn, float32")
WAYS = {
    "landmarks": lambda p: rkhs.Landmarks(p),
    "values only": lambda p: rkhs.Landmarks(p, derivatives=0.0),
    "Fourier features": lambda p: rkhs.FourierFeatures(p),
}


def data(folder: Path, rows: int) -> None:
    """Write rows of points and targets, some at a time."""
    random = np.random.default_rng(0)
    X = np.lib.format.open_memmap(folder / "X.npy", mode="w+", dtype=np.float64, shape=(rows, FEATURES))
    y = np.lib.format.open_memmap(folder / "y.npy", mode="w+", dtype=np.float64, shape=(rows,))
    for start in range(0, rows, 2**16):
        some = slice(start, min(start + 2**16, rows))
        X[some] = random.standard_normal(X[some].shape)
        y[some] = target(X[some]) + 0.1 * random.standard_normal(len(y[some]))


def target(X: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What is to be learned."""
    return np.sin(X[:, 0] + 0.5 * X[:, 1]) + 0.5 * np.cos(X[:, 2]) * X[:, 3]


def fit(way: str, folder: str, rows: int, p: int) -> dict[str, Any]:
    """One fit, in this process: seconds, the largest resident set, and the error on new points."""
    X, y = (np.load(Path(folder) / f"{name}.npy", mmap_mode="r")[:rows] for name in ("X", "y"))
    fresh = np.random.default_rng(1).standard_normal((2000, FEATURES))
    scale = FEATURES**0.5
    start = perf_counter()
    if way.startswith("scikit-learn"):
        from sklearn.kernel_approximation import Nystroem
        from sklearn.linear_model import Ridge
        from sklearn.pipeline import make_pipeline

        model = make_pipeline(
            Nystroem(gamma=1 / (2 * scale**2), n_components=p, random_state=0), Ridge(alpha=0.5, copy_X=False)
        )
        model.fit(X.astype(np.float32) if "32" in way else X, y)
    else:
        model = rkhs.InvariantRegressor(scale=scale, C=1.0, nu=1e-3 * rows / scale**2, approximation=WAYS[way](p))
        model.fit(rkhs.streams.blocks(X, y))
    seconds = perf_counter() - start
    error = float(np.sqrt(np.mean((model.predict(fresh) - target(fresh)) ** 2)))
    return {"way": way, "rows": rows, "p": p, "seconds": seconds, "peak": peak(), "error": error}


def peak() -> float:
    """The largest resident set of this process so far, mapped files included, in GiB."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 / GIB for line in lines if line.startswith("VmHWM"))


def apart(way: str, folder: Path, rows: int, p: int) -> dict[str, Any] | None:
    """The same in a process of its own; None where it would not fit in memory."""
    entry = 4 if "32" in way else 8
    if way.startswith("scikit-learn") and 2.2 * rows * p * entry > 0.9 * free_memory(np.zeros(0)):
        return None
    command = [sys.executable, "-m", "benchmarks.landmarks", "--one", way, str(folder), str(rows), str(p)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{way}, {rows} rows: {done.stderr.strip().splitlines()[-1] if done.stderr else done.returncode}")
        return None
    return dict(json.loads(done.stdout.splitlines()[-1]))


def draw(found: list[dict[str, Any]], path: Path) -> None:
    """Seconds against rows."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.5, 4.5), layout="constrained")
    for way in dict.fromkeys(one["way"] for one in found):
        own = sorted((one["rows"], one["seconds"]) for one in found if one["way"] == way)
        axes.plot(*zip(*own, strict=True), "o-", label=way)
    rows = np.array(sorted({one["rows"] for one in found}))
    ours = max((one for one in found if one["way"] == "landmarks"), key=lambda one: one["rows"])
    axes.plot(rows, ours["seconds"] * rows / ours["rows"], "k:", label="proportional to rows")
    axes.set(xscale="log", yscale="log", xlabel="points in R^50", ylabel="seconds", title=f"p = {ours['p']}")
    axes.legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    """Run all sizes and write the table and the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument("--ways", nargs="+", choices=[*PEERS, *WAYS], default=[*PEERS, *WAYS])
    parser.add_argument("--one", nargs=4, metavar=("WAY", "FOLDER", "ROWS", "P"), help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path("build/bench"))
    options = parser.parse_args()
    if options.one:
        way, folder, rows, p = options.one
        print(json.dumps(fit(way, folder, int(rows), int(p))))
        return
    found = []
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        data(Path(folder), max(options.rows))
        for rows in options.rows:
            for way in options.ways:
                one = apart(way, Path(folder), rows, options.landmarks)
                if one is not None:
                    print(one, flush=True)
                    found.append(one)
    peers = [{one["rows"]: one["seconds"] for one in found if one["way"] == peer} for peer in PEERS]
    headings = ["way", "points", "functionals", "p", "seconds", *(f"/ {peer}" for peer in PEERS), "peak, GiB", "error"]
    lines = []
    for one in found:
        functionals = one["rows"] * (1 if one["way"] in PEERS else FEATURES + 1)
        rows = one["rows"]
        ratios = [f"{one['seconds'] / peer[rows]:.2f}" if rows in peer else "-" for peer in peers]
        numbers = [f"{one['seconds']:.1f}", *ratios, f"{one['peak']:.2f}", f"{one['error']:.4f}"]
        lines.append([one["way"], f"{one['rows']:,}", f"{functionals:,}", f"{one['p']:,}", *numbers])
    title = "Gradient invariance at all points, beside Nystroem + Ridge without"
    show(Console(), title, headings, lines)
    write(options.out, "landmarks.md", markdown(title, headings, lines))
    draw(found, options.out / "landmarks.png")


if __name__ == "__main__":
    main()
