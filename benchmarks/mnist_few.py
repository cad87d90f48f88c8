"""100 labels of MNIST's 60,000 training images: the default model compared with label spreading on the same rows.

    python -m benchmarks.mnist_few [--rows N] [--labels N] [--draws N] [--alone]

Errors in percent at the unlabeled rows, seconds of the clock and of the processor, and the peak memory of the process
in GiB.
"""

from __future__ import annotations

import argparse
import resource
from time import perf_counter, process_time

import numpy as np
from rich.console import Console
from sklearn.semi_supervised import LabelSpreading

import rkhs
from benchmarks.data import digits


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--labels", type=int, default=100)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--alone", action="store_true", help="without label spreading")
    options = parser.parse_args()
    X, y = digits("mnist", "train")
    X, y = X[: options.rows] / 255, y[: options.rows].astype(int)
    console = Console(width=130)
    for draw in range(options.draws):
        labeled = np.random.default_rng(draw).choice(len(y), options.labels, replace=False)
        rest = np.setdiff1d(np.arange(len(y)), labeled)
        few = np.full(len(y), -1)
        few[labeled] = y[labeled]
        start, processor = perf_counter(), process_time()
        model = rkhs.InvariantClassifierCV().fit(X, few)
        wrong = 100 * np.mean(model.predict(X[rest]) != y[rest])
        seconds, peak = perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        times = f"{seconds:.0f} s, {process_time() - processor:.0f} s of the processor"
        console.print(f"ours: {wrong:.2f} %, {times}, {peak:.1f} GiB; {model.selection_report_['sentence']}")
        if options.alone:
            continue
        start = perf_counter()
        spread = LabelSpreading(kernel="knn", n_neighbors=10, max_iter=100).fit(X, few).transduction_
        wrong, seconds = 100 * np.mean(spread[rest] != y[rest]), perf_counter() - start
        console.print(f"label spreading, 10 neighbors: {wrong:.2f} %, {seconds:.0f} s")


if __name__ == "__main__":
    main()
