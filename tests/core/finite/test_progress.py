"""Progress: nothing without verbose=True, also on a terminal and after a second; lines where rich is missing."""

import io
import os
import pty
import re
import subprocess
import sys
import threading
from contextlib import redirect_stderr, redirect_stdout, suppress

import numpy as np
import pytest
from sklearn.base import clone

import rkhs
from estimators.test_equal_problems import X as ROWS
from estimators.test_honored_parameters import LEARNERS
from rkhs._core import progress as _progress
from rkhs._core.finite import monitor
from rkhs.extend import Monitor

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 2))
CLASSES, VALUES = (X[:, 0] > 0).astype(int), np.sin(X[:, 0])
MODELS = {
    **{cls.__name__: cls() for cls in LEARNERS if cls is not rkhs.FunctionalRegressor},
    "by folds": rkhs.InvariantRegressorCV(invariance="gradient"),
    "landmarks": rkhs.InvariantRegressor(approximation=rkhs.Landmarks(10)),
    "shape": rkhs.InvariantRegressor(shape={0: "increasing"}),
}
WORK = {
    "solve": lambda verbose: problem(rkhs.Logistic(), 2.0 * CLASSES - 1).solve(verbose=verbose),
    "grid": lambda verbose: problem(rkhs.Squared(), VALUES).grid({0: [1.0, 10.0]}, verbose=verbose),
    "tune": lambda verbose: problem(rkhs.Squared(), VALUES, rkhs.Tunable()).tune(verbose=verbose),
    "measurements": lambda verbose: rkhs.FunctionalRegressor(verbose=verbose).fit(
        rkhs.Measurement(rkhs.Evaluation(X), VALUES)
    ),
    **{
        name: lambda verbose, own=model: clone(own).set_params(verbose=verbose).fit(ROWS, LEARNERS[type(own)])
        for name, model in MODELS.items()
    },
}


def problem(loss, target, scale=1.0):
    return rkhs.Problem(rkhs.Gaussian(scale), [rkhs.Term(rkhs.Evaluation(X), loss, target, 1.0)])


class Terminal(io.StringIO):
    def isatty(self):
        return True


def printed(work, monkeypatch):
    """What work prints on a terminal whose reader has no patience; not a fixture, as pytest resets both after these."""
    monkeypatch.setattr(monitor, "PATIENCE", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    screen = Terminal()
    with redirect_stderr(screen), redirect_stdout(screen):
        work()
    return screen.getvalue()


@pytest.mark.parametrize("name", WORK)
def test_silence_on_a_terminal(name, monkeypatch):
    assert printed(lambda: WORK[name](False), monkeypatch) == ""


@pytest.mark.parametrize("name", WORK)
def test_progress_on_a_terminal(name, monkeypatch):
    assert re.search(r" s\b", printed(lambda: WORK[name](True), monkeypatch))  # seconds


@pytest.mark.slow
@pytest.mark.parametrize("verbose", [False, True])
def test_silence_is_the_default_on_a_pseudo_terminal(verbose):
    """In a process of its own, whose work takes longer than anybody waits."""
    option = "verbose=True" if verbose else ""
    code = (
        "import numpy as np, rkhs\n"
        "from rkhs._core.finite import monitor\n"
        "monitor.PATIENCE = 0.0\n"
        "X = np.linspace(0, 1, 30)[:, None]\n"
        f"rkhs.InvariantClassifierCV({option}).fit(X, np.arange(30) % 2)\n"
        f"rkhs.InvariantClassifier(loss='logistic', {option}).fit(X, np.arange(30) % 2)\n"
    )
    ours, theirs = pty.openpty()
    done = subprocess.Popen([sys.executable, "-c", code], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = b""
    with suppress(OSError):  # which says that the other end is closed
        while part := os.read(ours, 4096):
            said += part
    os.close(ours)
    assert done.wait() == 0, said
    assert (b"choosing" in said and b"solving" in said) if verbose else said == b""


def test_lines_at_most_every_two_seconds_without_rich(monkeypatch, capsys):
    now = 0.0
    monkeypatch.setattr(_progress, "clock", lambda: now)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    watched = Monitor(1e-6, verbose=True, started=0.0)
    for k in range(21):
        now = 0.5 * k
        watched.report(None, 1.0, 0.5)
    watched.close()
    told = capsys.readouterr()
    at = [0.5 * (int(k) - 1) for k in re.findall(r"^solving: iteration (\d+), ", told.err, re.MULTILINE)]
    assert told.out == ""
    assert at[0] == 1.0  # seconds: nothing before
    assert np.diff(at).min() >= 2.0
    assert at[-1] > 7.0
    assert told.err.count("\n") == len(at)


def test_quick_work_prints_nothing(capfd):
    WORK["solve"](True)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("reports", [0, 3])
def test_work_of_many_short_parts_is_displayed(reports, monkeypatch):
    """One display for all monitors within it, and the time while none of them reports."""
    seen, shown = [], threading.Event()

    class Display:
        def __init__(self):
            seen.append("start")

        def update(self, line):
            seen.append(line)
            shown.set()

        def stop(self):
            seen.append("stop")

    monkeypatch.setattr(monitor, "PATIENCE", 0.0)
    monkeypatch.setattr(monitor, "INTERVAL", 3600.0)
    monkeypatch.setattr(monitor, "_display", lambda line: Display())
    with monitor.displayed("Model.fit", True), monitor.displayed("inner", True):
        for _ in range(reports):
            part = Monitor(1e-6, verbose=True)
            part.report(None, 1.0, 0.5)
            part.close()
        assert shown.wait(60)
    assert seen[0] == "start"
    assert seen[-1] == "stop"
    assert seen.count("start") == seen.count("stop") == 1
    assert sum("iteration 1" in line for line in seen) == reports
    if not reports:
        assert re.fullmatch(r"Model\.fit, \d+ s", seen[1])


@pytest.mark.every
@pytest.mark.parametrize("name", WORK)
def test_every_fit_is_one_piece_of_work(name, monkeypatch):
    begun = []
    work = monitor._Work
    monkeypatch.setattr(monitor, "_Work", lambda what: begun.append(what) or work(what))
    WORK[name](True)
    assert len(begun) == (0 if name in ("solve", "grid", "tune") else 1)
