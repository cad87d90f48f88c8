"""Model files that are damaged, or whose writers are killed or many: what is loaded is a model that was saved.

    PYTHONPATH=src python tests/model_files.py damaged 1000 [seed]     # 1 to 8 bytes are changed, or some are missing
    PYTHONPATH=src python tests/model_files.py killed 200 [seed]       # kill -9 at random moments of `rkhs.save`
    PYTHONPATH=src python tests/model_files.py shared 60               # 4 processes with 8 threads fit, save and load

A damaged file is refused by a `ModelFileError` that names it, or has the same predictions.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZIP_DEFLATED, ZipFile

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rkhs
from rkhs.export import notes_of

PROCESSES, THREADS, KINDS = 4, 8, 3
X = np.random.default_rng(0).standard_normal((40, 3))


def fitted(kind: int = 0):
    """Models that can be told apart, a pipeline each."""
    estimator = rkhs.InvariantClassifier(loss="squared_hinge", scale=1.0 + kind, invariance="gradient", tol=1e-2)
    return make_pipeline(StandardScaler(), estimator).fit(X, np.arange(40) % 3)


def same(model, other) -> bool:
    return np.array_equal(model.decision_function(X), other.decision_function(X))


# Damage.


def saved(path: Path):
    """A model in a file, and its decisions."""
    model = fitted()
    rkhs.save(model, path, notes={"target": "y", "classes": ["a", "b"]})
    return model.decision_function(X)


def changed(data: bytes, chance: random.Random) -> bytes:
    """Other bytes at 1 to 8 places, seldom another length."""
    other, kind = bytearray(data), chance.random()
    if kind < 0.05:
        return bytes(other[: chance.randrange(len(data))])
    if kind < 0.1:
        start = chance.randrange(len(data))
        other[start : start + chance.randrange(3)] = chance.randbytes(chance.randrange(1, 4))
        return bytes(other)
    near_end = chance.random() < 0.5  # where the directory of the archive is
    for _ in range(chance.randint(1, 8)):
        place = chance.randrange(len(data) * 2 // 3 if near_end else 0, len(data))
        other[place] ^= chance.randrange(1, 256)
    return bytes(other)


def load_damaged(folder: Path, times: int, seed: int = 0, checksum: bool = True) -> Counter:
    """How the loads ended; asserts that none ended otherwise.  Without a checksum, as early versions wrote files."""
    path, chance, ends = folder / "model.skops", random.Random(seed), Counter()
    expected = saved(path)
    if not checksum:
        without_checksum(path)
    data = path.read_bytes()
    for _ in range(times):
        path.write_bytes(changed(data, chance))
        attempt(notes_of, path)
        found = attempt(rkhs.load, path)
        assert found is None or np.array_equal(found.decision_function(X), expected)
        ends["refused" if found is None else "the same"] += 1
    return ends


def attempt(read, path: Path):
    """What is read, or None if it is refused by an error that names the file."""
    with warnings.catch_warnings(), suppress(rkhs.exceptions.ModelFileError):
        warnings.simplefilter("ignore")  # scikit-learn's, if a version was changed
        try:
            return read(path)
        except rkhs.exceptions.ModelFileError as error:
            if str(path) in str(error):
                raise
            raise AssertionError(f"{error} does not name the file") from error
    return None


def without_checksum(path: Path) -> None:
    with ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    note = json.loads(contents["rkhs.json"])
    del note["sha256"]
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for name, content in {**contents, "rkhs.json": json.dumps(note).encode()}.items():
            archive.writestr(name, content)


# Kills.


def kill_while_saving(folder: Path, times: int, seed: int = 0) -> Counter:
    """How often which model was found, and how many unfinished files the kills left behind."""
    path, chance, found, models = folder / "model.skops", random.Random(seed), Counter(), [fitted(0), fitted(1)]
    rkhs.save(models[0], path)
    for _ in range(times):
        child = os.fork()
        if child == 0:
            while True:
                for model in models[::-1]:
                    rkhs.save(model, path)
        time.sleep(chance.uniform(0, 0.1))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        loaded = rkhs.load(path)
        [which] = [k for k, model in enumerate(models) if same(loaded, model)]
        found[f"model {which}"] += 1
    left = [name for name in os.listdir(folder) if name != path.name]
    assert all(name.startswith(".rkhs-") for name in left), left
    return found + Counter({"unfinished files": len(left)})


# Processes and threads.


def work(path: Path, seconds: float, threads: int) -> int:
    """What one process does: the number of fits, saves and loads."""
    expected, end = [fitted(kind) for kind in range(KINDS)], time.monotonic() + seconds
    done, lock = Counter(), threading.Lock()

    def one(thread: int) -> None:
        step = thread
        while time.monotonic() < end or step == thread:  # once at least
            step += 1
            model = fitted(step % KINDS)
            assert same(model, expected[step % KINDS]), "a fit differs from the same fit alone"
            rkhs.save(model, path)
            found = rkhs.load(path)
            assert any(same(found, one) for one in expected), "a model that nobody saved"
            with lock:
                done["loads"] += 1

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(one, range(threads)))
    return done["loads"]


def share(folder: Path, seconds: float, processes: int = PROCESSES, threads: int = THREADS) -> int:
    """The number of loads of all processes; asserts that none failed and that only the model is left."""
    path = folder / "model.skops"
    command = [sys.executable, __file__, "worker", str(seconds), str(path), str(threads)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    started, loads = [subprocess.Popen(command, **pipes) for _ in range(processes)], 0
    for process in started:
        out, err = process.communicate()
        assert process.returncode == 0, err
        assert err == ""
        loads += int(out)
    assert os.listdir(folder) == [path.name]
    return loads


if __name__ == "__main__":
    what, *numbers = sys.argv[1:]
    if what == "worker":
        print(work(Path(numbers[1]), float(numbers[0]), int(numbers[2])))
    else:
        with TemporaryDirectory() as place:
            ordeal = {"damaged": load_damaged, "killed": kill_while_saving, "shared": share}[what]
            print(f"{what}: {ordeal(Path(place), *map(int, numbers))}")
