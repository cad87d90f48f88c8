"""Ctrl-C at random moments of the command: a short share of `tests/interrupting.py`."""

import os
import signal
import subprocess
import sys
import time

import pytest

from interrupting import COMMANDS, check_files, interrupt, prepare, start


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    home = tmp_path_factory.mktemp("stopped")
    prepare(home)
    return home


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fit", "predict", "reproduce --jobs 2"])
def test_ctrl_c_at_a_random_moment(folder, name):
    ends = interrupt(folder, name, times=1, seed=len(name), seconds=6.0)
    assert sum(ends.values()) == 1


def test_ctrl_c_while_the_library_is_imported(tmp_path):
    process = start(COMMANDS["fit"], tmp_path)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=600)
    assert (process.returncode, err) == (130, "Stopped.\n")


@pytest.mark.slow
def test_a_request_to_terminate_is_obeyed_in_the_same_way(folder):
    process = start(COMMANDS["fit"], folder)
    time.sleep(2)
    process.terminate()
    _, err = process.communicate(timeout=600)
    assert process.returncode in (143, -signal.SIGTERM, 0)  # before the library is there, Python itself obeys
    check_files(folder)
    assert process.returncode != 143 or err == "Stopped.\n"


def test_a_stopped_command_leaves_nothing_half_written(tmp_path):
    """SIGINT in the middle of a write."""
    code = (
        "import os, signal, sys; from rkhs._core.files import exit_on_signals; from rkhs._core.files import replacing\n"
        "with exit_on_signals(), replacing('half.txt') as file:\n"
        "    file.write_text('ha'); os.kill(os.getpid(), signal.SIGINT); file.write_text('half')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "Stopped.\n")
    assert not os.listdir(tmp_path)
