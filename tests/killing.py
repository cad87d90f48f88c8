"""kill -9 at random moments of `rkhs.save`: the file is always one of the models that were saved.

    PYTHONPATH=src python tests/killing.py 200 [seed]

A process saves two models in turn to the same name, and is killed; then the file is loaded and its values compared.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import rkhs

POINTS = np.random.default_rng(0).standard_normal((400, 3))


def models():
    """Two that can be told apart."""
    return [
        rkhs.results.Function(rkhs.Gaussian(scale=1.0), rkhs.Evaluation(POINTS), np.full(400, value))
        for value in (1.0, -1.0)
    ]


def kill_while_saving(folder: Path, times: int, seed: int) -> dict[str, int]:
    """How often which model was found, and how many unfinished files the kills left behind."""
    path, chance = folder / "model.skops", random.Random(seed)
    old, new = models()
    rkhs.save(old, path)
    found = {"first": 0, "second": 0}
    for _ in range(times):
        child = os.fork()
        if child == 0:
            while True:
                for model in (new, old):
                    rkhs.save(model, path)
        time.sleep(chance.uniform(0, 0.1))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        values = rkhs.load(path)(POINTS[:5])
        assert any(np.array_equal(values, model(POINTS[:5])) for model in (old, new)), "a model that nobody saved"
        found["first" if np.array_equal(values, old(POINTS[:5])) else "second"] += 1
    left = [name for name in os.listdir(folder) if name != path.name]
    assert all(name.startswith(".rkhs-") for name in left), left
    return {**found, "unfinished files": len(left)}


if __name__ == "__main__":
    with TemporaryDirectory() as place:
        times, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
        print(f"killed {times} times, always loadable: {kill_while_saving(Path(place), times, seed)}")
