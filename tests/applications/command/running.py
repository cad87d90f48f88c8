"""Run the command within this process, which has everything imported."""

import json
import shlex
import signal
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO

import numpy as np
import pandas as pd
import pytest

from rkhs_command import main


def soundings(count=28):
    """Return a table of depths at longitudes and latitudes."""
    X = np.random.default_rng(0).uniform([-72.0, 10.0], [-68.0, 13.0], (count, 2))
    depth = 100 * np.sin(X[:, 0]) + 30 * X[:, 1]
    return pd.DataFrame({"longitude": X[:, 0], "latitude": X[:, 1], "depth": depth})


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    exit_code: int
    stdout: str
    stderr: str


def invoke(*arguments, columns=200):
    """Return the result of a command, which is one text or several arguments, in a terminal of so many columns."""
    words = shlex.split(arguments[0]) if len(arguments) == 1 else list(map(str, arguments))
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        patch.setattr(sys, "argv", ["rkhs", *words])
        patch.setenv("COLUMNS", str(columns))
        try:
            main()
        except SystemExit as end:
            return Done(end.code or 0, out.getvalue(), err.getvalue())
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
    raise AssertionError("the command did not end by SystemExit")


def command(*arguments, columns=200):
    """Return what a command prints that must succeed."""
    done = invoke(*arguments, columns=columns)
    assert done.exit_code == 0, done.stderr
    return done.stdout


def facts_of(*arguments):
    """Return the facts of a command that must succeed."""
    return json.loads(command(*(shlex.split(arguments[0]) if len(arguments) == 1 else arguments), "--json"))


def sentences(code, out, err):
    """Return the message of a command that failed as it must: one sentence for each problem, and no traceback."""
    lines = err.strip().splitlines()
    assert (code, out) == (1, "")
    assert len(lines) == 1 or lines[0] == f"Error: there are {len(lines) - 1} problems."
    assert lines[0].startswith("Error: ")
    assert all(line.endswith((".", "?")) for line in lines), err
    return " ".join(err.split())


def refused(*arguments):
    """Return the message of a command that must fail."""
    done = invoke(*arguments)
    return sentences(done.exit_code, done.stdout, done.stderr)


def check_words(facts):
    """Check that the words of a report follow from the numbers beside them."""
    for one in (facts["comparison"], *facts["priors"], facts["labels"]):
        assert one["difference"] == pytest.approx(one["its error"] - one["error"])
        clear = abs(one["difference"]) > 2 * one["standard error"]
        word = ("better" if one["difference"] > 0 else "worse") if clear else "no clear difference"
        assert one["verdict"] == word
        assert word in one["sentence"]
        for error in (one["error"], one["its error"]):
            assert (f"{error:.4g}" if facts["regression"] else f"{100 * error:.1f} %") in one["sentence"]
