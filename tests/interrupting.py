"""Ctrl-C at random moments of the command: exit status 130, one line, no traceback, no half file.

    PYTHONPATH=src python tests/interrupting.py 50 [seed]

Each command runs once to its end, which takes some seconds; then again and again with SIGINT after a random share of
them, sent to its whole group of processes, as a terminal does.  Files are those of before or complete ones.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import joblib
import numpy as np
import pandas as pd

import rkhs

COMMANDS = {
    "fit": ["fit", "data.csv", "--target", "label", "--invariance", "gradient", "--cv", "--out", "m.skops", "--force"],
    "predict": ["predict", "known.skops", "data.csv", "--out", "p.csv", "--force"],
    "reproduce": ["reproduce", "theorems", "--quick", "--out", "r", "--force"],
    "reproduce --jobs 2": ["reproduce", "theorems", "--quick", "--jobs", "2", "--out", "r", "--force"],
    "demo": ["demo", "--force"],
}


def start(arguments, folder: Path):
    """The command in a group of its own, when it has begun to listen: before that, nothing of ours has run."""
    door = (
        "import os, signal, sys; usual = signal.signal\n"
        "def listening(*given):\n"
        "    before = usual(*given); os.close(os.open('ready', os.O_CREAT)); return before\n"
        "signal.signal = listening; from rkhs_command import main\n"
        f"sys.argv = ['rkhs', *{arguments!r}]; main()"
    )
    (folder / "ready").unlink(missing_ok=True)
    command = [sys.executable, "-c", door]
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    while not (folder / "ready").exists():
        time.sleep(0.001)
    return process


def prepare(folder: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((80, 3)), columns=["a", "b", "c"])
    frame["label"] = np.where(frame["a"] > 0, "yes", "no")
    frame.to_csv(folder / "data.csv", index=False)
    done = start(["fit", "data.csv", "--target", "label", "--invariance", "none", "--out", "known.skops"], folder)
    _, err = done.communicate()
    assert done.returncode == 0, err


def check_files(folder: Path) -> None:
    """Everything that is there is whole."""
    for path in folder.rglob("*"):
        assert not path.name.startswith(".rkhs-"), f"{path.name} was left behind"
        if path.suffix == ".skops":
            rkhs.load(path)
        elif path.suffix == ".png":
            assert path.read_bytes().endswith(b"IEND\xaeB`\x82"), f"{path.name} is cut off"
        elif path.suffix == ".html":
            assert path.read_text().endswith("</html>\n"), f"{path.name} is cut off"
        elif path.name == "p.csv":
            assert len(pd.read_csv(path)) == 80
        elif path.suffix == ".json":
            json.loads(path.read_text())
        elif path.suffix == ".pkl":
            joblib.load(path)


def seconds_of(folder: Path, name: str) -> float:
    """How long the whole command takes."""
    begun = time.monotonic()
    whole = start(COMMANDS[name], folder)
    _, err = whole.communicate()
    assert whole.returncode == 0, err
    return time.monotonic() - begun


def interrupt(folder: Path, name: str, times: int, seed: int, seconds: float) -> Counter:
    """How the command ended, stopped at random moments of its first seconds."""
    chance, arguments, ends = random.Random(seed), COMMANDS[name], Counter()
    for _ in range(times):
        process = start(arguments, folder)
        time.sleep(chance.uniform(0, seconds))
        asked = process.poll() is None
        if asked:
            os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=600)
        check_files(folder)
        if process.returncode == 0:  # it was done before
            ends["done"] += 1
            continue
        assert process.returncode == 130, (process.returncode, err)
        assert err.strip() == "Stopped.", err
        ends["stopped"] += 1
    return ends


def main(times: int, seed: int) -> None:
    for name in COMMANDS:
        with TemporaryDirectory() as place:
            prepare(Path(place))
            seconds = seconds_of(Path(place), name)
            print(f"{name}: {dict(interrupt(Path(place), name, times, seed, seconds))}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0)
