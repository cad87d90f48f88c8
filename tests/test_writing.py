"""The writer of files: the old file or the new one, whatever happens."""

import os
import resource
import stat
from pathlib import Path

import numpy as np
import pytest

import rkhs
from model_files import kill_while_saving, share
from rkhs._core.files import remove_unfinished
from rkhs.extend import replacing


def test_a_block_that_ends_well_replaces_the_file(tmp_path):
    path = tmp_path / "report.txt"
    path.write_text("old")
    path.chmod(0o640)
    with replacing(path) as file:
        file.write_text("new")
        assert path.read_text() == "old"
        assert file.parent == tmp_path
        assert file.suffix == ".txt"
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["report.txt"]


def fail(path, error):
    with replacing(path) as file:
        file.write_text("ne")
        raise error


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit, MemoryError])
@pytest.mark.parametrize("there", [True, False])
def test_an_exception_leaves_what_was_there(tmp_path, error, there):
    path = tmp_path / "report.txt"
    if there:
        path.write_text("old")
    with pytest.raises(error):
        fail(path, error)
    assert os.listdir(tmp_path) == (["report.txt"] if there else [])
    assert not there or path.read_text() == "old"


def test_errors_name_the_file_and_keep_their_kind(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere/report\.txt cannot be written: No such file"):  # noqa: SIM117
        with replacing(tmp_path / "nowhere" / "report.txt") as file:
            file.write_text("new")
    with pytest.raises(IsADirectoryError, match="cannot be written: it is a folder"), replacing(tmp_path):
        pass


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_read_only_file_is_not_replaced(tmp_path):
    path = tmp_path / "report.txt"
    path.write_text("old")
    path.chmod(0o400)
    with pytest.raises(PermissionError, match="it is read-only"), replacing(path):
        pass
    assert path.read_text() == "old"


def test_a_process_that_ends_can_remove_what_it_was_writing(tmp_path):
    with replacing(tmp_path / "report.txt") as file:
        file.write_text("half")
        remove_unfinished()
        assert os.listdir(tmp_path) == []
        file.write_text("whole")
    assert os.listdir(tmp_path) == ["report.txt"]


def f(value: float):
    points = np.random.default_rng(0).standard_normal((50, 3))
    return rkhs.results.Function(rkhs.Gaussian(1.0), rkhs.Evaluation(points), np.full(50, value))


def test_save_on_a_full_disk_leaves_the_old_model(tmp_path):
    path = tmp_path / "model.skops"
    rkhs.save(f(1.0), path)
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, usual[1]))
    try:
        with pytest.raises(OSError, match=r"model\.skops cannot be written: File too large"):
            rkhs.save(f(2.0), path)
        with pytest.raises(OSError, match=r"other\.skops cannot be written"):
            rkhs.save(f(2.0), tmp_path / "other.skops")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert rkhs.load(path).coefficients[0] == 1.0
    assert os.listdir(tmp_path) == ["model.skops"]


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_save_that_fails_at_the_last_step_leaves_the_old_model(tmp_path, failing, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    path = tmp_path / "model.skops"
    rkhs.save(f(1.0), path)
    monkeypatch.setattr(*((os, "fsync") if failing == "fsync" else (Path, "replace")), full)
    with pytest.raises(OSError, match=r"model\.skops cannot be written: No space left on device"):
        rkhs.save(f(2.0), path)
    assert rkhs.load(path).coefficients[0] == 1.0
    assert os.listdir(tmp_path) == ["model.skops"]


def test_save_that_is_killed_leaves_the_old_model_or_the_new_one(tmp_path):
    found = kill_while_saving(tmp_path, 12, seed=3)
    assert found["model 0"] + found["model 1"] == 12


@pytest.mark.slow
def test_processes_and_threads_that_save_and_load_together(tmp_path):
    assert share(tmp_path, 1.0, processes=2, threads=3) >= 6
