"""Processes and threads that fit, save and load the same file together: no failure, and no model that nobody saved.

    PYTHONPATH=src python tests/concurrency_files.py 60

4 processes with 8 threads each fit one of three models again and again, save it to one path, and load what is there.
"""

import os
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import rkhs

PROCESSES, THREADS, KINDS = 4, 8, 3
X = np.random.default_rng(0).standard_normal((40, 3))
Y = np.where(np.arange(40) < 20, np.arange(40) % 3, -1)


def fitted(kind: int):
    return rkhs.InvariantClassifier(loss="squared_hinge", scale=1.0 + kind, invariance="gradient", nu=0.1).fit(X, Y)


def decisions(model):
    return model.decision_function(X)


def work(path: Path, seconds: float, threads: int = THREADS) -> Counter:
    """What one process does: the number of fits, saves and loads."""
    expected = [decisions(fitted(kind)) for kind in range(KINDS)]
    done, end, lock = Counter(), time.monotonic() + seconds, threading.Lock()

    def one(thread: int) -> None:
        step = thread
        while time.monotonic() < end or step == thread:  # once at least
            step += 1
            kind = step % KINDS
            model = fitted(kind)
            assert np.array_equal(decisions(model), expected[kind]), "a fit differs from the same fit alone"
            rkhs.save(model, path)
            found = rkhs.load(path)
            assert any(np.array_equal(decisions(found), one) for one in expected), "a model that nobody saved"
            with lock:
                done.update(fits=1, saves=1, loads=1)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(one, range(threads)))
    return done


def together(folder: Path, seconds: float, processes: int = PROCESSES, threads: int = THREADS) -> Counter:
    """All processes; asserts that none failed and that only the model is left."""
    path = folder / "model.skops"
    command = [sys.executable, __file__, str(seconds), str(path), str(threads)]
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(processes)
    ]
    total: Counter = Counter()
    for process in started:
        out, err = process.communicate()
        assert process.returncode == 0, err
        assert err == ""
        total.update(fits=int(out), saves=int(out), loads=int(out))
    assert os.listdir(folder) == [path.name]
    return total


if __name__ == "__main__":
    if len(sys.argv) > 2:  # one of the processes
        print(work(Path(sys.argv[2]), float(sys.argv[1]), int(sys.argv[3]))["fits"])
    else:
        with TemporaryDirectory() as place:
            print(f"{PROCESSES} processes, {THREADS} threads each: {dict(together(Path(place), float(sys.argv[1])))}")
