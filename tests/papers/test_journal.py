"""Results on the disk: broken lines are named, results are replaced only if asked, one run at a time writes them."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rkhs.experiments import EXPERIMENTS, Experiment, Record, experiment_of, run
from rkhs.experiments.journal import Journal, finished
from typer.testing import CliRunner

from rkhs._progress import interrupted
from rkhs.cli.commands import app
from rkhs.datasets import MissingDataError
from rkhs.stopping import interrupted

CELLS = [{"k": k} for k in range(4)]


def squared(cell):
    return {"square": cell["k"] ** 2}


def page(records, _):
    return "".join(f"{r.cell['k']}: {r.result['square']}\n" for r in records)


def drawn(records, png):
    import matplotlib.pyplot as plt

    figure = plt.figure()
    figure.savefig(png)
    plt.close(figure)


OWN = Experiment("own", "squares", lambda quick, _: CELLS[: 2 if quick else 4], squared, page, drawn)


@pytest.fixture
def own(monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "own", OWN)
    return OWN


LINE = b'{"cell": {"k": 0}, "result": {"square": 0}, "seconds": 0.1}\n'


@pytest.mark.parametrize(
    "broken",
    [
        b"oops\n",
        b"\n",
        b'{"cell": {"k": 1}, "res\n',
        b"[1, 2]\n",
        b'{"cell": {"k": 1}}\n',
        b"\xff\xfe\n",
        b"3\n",
        b"null\n",
        b'{"cell": 1, "result": {}, "seconds": 1}\n',
        b"[" * 100_000 + b"\n",
        b"\0" * 20 + b"\n",
    ],
    ids=lambda line: repr(line[:12]),
)
@pytest.mark.parametrize("place", [1, 2, 3])
def test_a_broken_line_is_named(tmp_path, broken, place, own):
    lines = [LINE, LINE, LINE]
    lines[place - 1] = broken
    path = tmp_path / "own.jsonl"
    path.write_bytes(b"".join(lines))
    with pytest.raises(ValueError, match=rf"own\.jsonl, line {place} is no result of a cell .*: delete that line"):
        Journal(path).records()
    done = CliRunner().invoke(app, ["reproduce", "own", "--out", str(tmp_path), "--resume"])
    assert done.exit_code == 1
    assert f"own.jsonl, line {place} is no result of a cell" in done.stderr
    assert path.read_bytes() == b"".join(lines)


def test_a_broken_page_of_results_is_named(tmp_path):
    for text in ("{", "[]", '{"records": [3]}', '{"record": []}', '{"records": [{"cell": {}}]}'):
        (tmp_path / "table1.json").write_text(text)
        with pytest.raises(ValueError, match=r"table1\.json holds no results"):
            finished(tmp_path, "table1")
    assert finished(tmp_path, "nothing") == []


def test_a_line_that_cannot_be_written_whole_is_not_there(tmp_path):
    journal = Journal(tmp_path / "own.jsonl")
    journal.append(Record({"k": 0}, {"square": 0}, 0.1))
    before = journal.path.read_bytes()
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, usual[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            journal.append(Record({"k": 1}, {"square": 1}, 0.1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert journal.path.read_bytes() == before
    journal.append(Record({"k": 1}, {"square": 1}, 0.1))
    assert len(journal.records()) == 2


def test_results_are_replaced_only_if_that_is_asked_for(tmp_path, own):
    run(own, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert set(before) == {"own.jsonl", "own.json", "own.md", "own.png"}
    with pytest.raises(FileExistsError, match=r"own\.jsonl holds results .*--resume, replace them with --force, or"):
        run(own, tmp_path, quick=True)
    (tmp_path / "own.jsonl").unlink()  # as in a fresh copy of a repository that has the pages
    for resume in (False, True):
        with pytest.raises(FileExistsError, match=r"own\.json holds results .* replace them with --force, or"):
            run(own, tmp_path, quick=True, resume=resume)
    assert {path.name for path in tmp_path.iterdir()} == {"own.json", "own.md", "own.png"}
    assert (tmp_path / "own.json").read_bytes() == before["own.json"]
    facts = run(own, tmp_path, quick=True, force=True)
    assert facts["computed now"] == 2
    assert len(json.loads((tmp_path / "own.json").read_text())["records"]) == 2
    assert run(own, tmp_path, resume=True)["computed now"] == 2
    assert run(own, tmp_path, force=True)["computed now"] == 4
    assert len(Journal(tmp_path / "own.jsonl").records()) == 4


def test_one_run_at_a_time_writes_a_journal(tmp_path, own):
    with (
        Journal(tmp_path / "own.jsonl").owned(),
        pytest.raises(BlockingIOError, match="is being written by another run"),
    ):
        run(own, tmp_path)
    assert run(own, tmp_path)["computed now"] == 4


def test_ctrl_c_keeps_no_cell_of_which_a_solver_would_return_the_best_so_far(tmp_path, monkeypatch):
    def as_solvers_do(cell):
        try:
            if cell["k"] == 2:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(1)
        except KeyboardInterrupt:
            interrupted()
            return {"square": "the best so far"}
        return squared(cell)

    mine = Experiment("own", "squares", lambda *_: CELLS, as_solvers_do, page)
    monkeypatch.setitem(EXPERIMENTS, "own", mine)
    with pytest.raises(KeyboardInterrupt):
        run(mine, tmp_path)
    assert [r.result["square"] for r in Journal(tmp_path / "own.jsonl").records().values()] == [0, 1]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert [path.name for path in tmp_path.iterdir()] == ["own.jsonl"]


def test_workers_must_be_some(tmp_path, own):
    with pytest.raises(ValueError, match="jobs must be at least 1"):
        run(own, tmp_path, jobs=0)


def test_an_error_in_a_worker_is_raised_as_it_is(tmp_path, monkeypatch):
    """Where the data are not there."""
    monkeypatch.setenv("RKHS_DATA", str(tmp_path))
    monkeypatch.setenv("http_proxy", "http://localhost:9")
    monkeypatch.setenv("https_proxy", "localhost:9")
    with pytest.raises(MissingDataError, match="is not there"):
        run(experiment_of("table1"), tmp_path / "out", quick=True, jobs=2)


def test_a_worker_that_is_killed_is_told(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "rkhs.experiments", "theorems", "--jobs", "2", "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    workers, deadline = [], time.monotonic() + 60
    while len(workers) < 2 and time.monotonic() < deadline:
        workers = children(process.pid)
        time.sleep(0.01)
    os.kill(workers[0], signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Error: A worker ended while it computed" in err
    assert len(err.strip().splitlines()) == 1
    assert not Path(f"/proc/{workers[1]}").exists()


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in found.read_text().split()] if found.exists() else []
