"""Ten million rows on a cluster of four workers: the same model as from one process, also when a worker is killed.

    python -m benchmarks.cluster [--rows 10000000] [--landmarks 200] [--memory 1GiB] [--folder build/cluster]

Rows are written to Parquet files first, 100,000 in each.  A worker may hold `memory`; dask ends one with more.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
from pathlib import Path
from threading import Timer
from time import perf_counter
from typing import Any

import dask.dataframe
import numpy as np
import pandas as pd
from dask.distributed import Client, LocalCluster
from rich.console import Console

import rkhs
from benchmarks.timing import show

FEATURES, PART = 10, 100_000
WORKERS = 4


def written(folder: Path, rows: int) -> None:
    """The files, where they are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"x{j}" for j in range(FEATURES)]
    for part in range(rows // PART):
        path = folder / f"part{part:05}.parquet"
        if not path.exists():
            X = np.random.default_rng(part).standard_normal((PART, FEATURES))
            frame = pd.DataFrame(X, columns=names).assign(y=np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2])
            frame.to_parquet(path)


def model(landmarks: int) -> Any:
    """What is fitted."""
    return rkhs.InvariantRegressor(scale=3.0, C=10.0, approximation=rkhs.Landmarks(landmarks))


def on_cluster(folder: Path, landmarks: int, memory: str, kill_after: float | None) -> tuple[Any, float, list[float]]:
    """The model, its time in seconds, and the peak memory of each worker that lived to the end, in MiB."""
    options: dict[str, Any] = {"n_workers": WORKERS, "threads_per_worker": 1, "memory_limit": memory}
    with LocalCluster(dashboard_address=None, **options) as cluster, Client(cluster) as client:
        if kill_after is not None:
            victim = next(iter(client.run(os.getpid).values()))
            Timer(kill_after, os.kill, (victim, signal.SIGKILL)).start()
        frame = dask.dataframe.read_parquet(folder)
        start = perf_counter()
        fitted = model(landmarks).fit(frame.drop(columns="y"), frame["y"])
        took = perf_counter() - start
        return fitted, took, [kib / 1024 for kib in client.run(_peak).values()]


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--landmarks", type=int, default=200)
    parser.add_argument("--memory", default="1GiB")
    parser.add_argument("--folder", type=Path, default=Path("build/cluster"))
    given = parser.parse_args()
    folder = given.folder / str(given.rows)
    written(folder, given.rows)
    lines = []
    first = None
    for what, kill_after in (("four workers", None), ("one of them killed", 10.0)):
        fitted, took, peaks = on_cluster(folder, given.landmarks, given.memory, kill_after)
        first = first or fitted
        lines.append([what, took, max(peaks), _apart(fitted, first)])
    start = perf_counter()
    alone = model(given.landmarks).fit(rkhs.streams.read_parquet(folder, target="y", rows=PART))
    lines.append(["one process", perf_counter() - start, _peak() / 1024, _apart(alone, first)])
    shown = [[what, f"{took:.0f}", f"{peak:.0f}", f"{apart:.1e}"] for what, took, peak, apart in lines]
    headings = ["", "s", "MiB, the largest", "coefficients apart"]
    show(Console(width=100), f"{given.rows:,} x {FEATURES}, {given.landmarks} landmarks", headings, shown)


def _apart(one: Any, other: Any) -> float:
    """The largest difference of coefficients, of the largest."""
    a, b = one.function_.coefficients, other.function_.coefficients
    return float(np.abs(a - b).max() / np.abs(b).max())


if __name__ == "__main__":
    main()
