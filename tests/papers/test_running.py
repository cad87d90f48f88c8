"""Results on the disk: damaged ones are computed again, results are replaced only if asked, workers end with a run."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from joblib.externals.loky import get_reusable_executor
from typer.testing import CliRunner

import rkhs
from papers.experiment import Experiment
from papers.few_labels import cells
from papers.run import EXPERIMENTS, experiment_of, run
from rkhs._command.commands import app
from rkhs.datasets import MissingDataError

ROOT = Path(__file__).resolve().parents[2]
CELLS = [{"k": k} for k in range(4)]


def squared(cell):
    return {"square": cell["k"] ** 2}


def page(records, _):
    return "".join(f"{r.cell['k']}: {r.result['square']}\n" for r in records)


def drawn(_):
    from matplotlib.figure import Figure

    return Figure()


OWN = Experiment("own", "squares", lambda quick, _: CELLS[: 2 if quick else 4], squared, page, drawn)


@pytest.fixture
def own(monkeypatch):
    monkeypatch.setitem(EXPERIMENTS, "own", OWN)
    return OWN


def cached(out):
    return sorted((out / "own.cache").rglob("output.pkl"))


@pytest.mark.parametrize("damage", [b"", b"oops"])
def test_a_damaged_result_is_computed_again(tmp_path, damage, own, caplog):
    run(own, tmp_path)
    before = (tmp_path / "own.md").read_bytes()
    first, *others = cached(tmp_path)
    kept = [path.stat().st_mtime_ns for path in others]
    first.write_bytes(damage)
    assert run(own, tmp_path, resume=True)["cells"] == 4
    assert "Exception while loading results" in caplog.text
    assert (tmp_path / "own.md").read_bytes() == before
    assert first.read_bytes() != damage
    assert [path.stat().st_mtime_ns for path in others] == kept


def test_results_are_replaced_only_if_that_is_asked_for(tmp_path, own):
    run(own, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    assert set(before) == {"own.json", "own.md", "own.png"}
    with pytest.raises(FileExistsError, match=r"own\.cache holds results .*--resume, replace them with --force, or"):
        run(own, tmp_path, quick=True)
    for path in cached(tmp_path):  # as in a fresh copy of a repository that has the pages
        path.unlink()
    for resume in (False, True):
        with pytest.raises(FileExistsError, match=r"own\.json holds results .* replace them with --force, or"):
            run(own, tmp_path, quick=True, resume=resume)
    assert (tmp_path / "own.json").read_bytes() == before["own.json"]
    facts = run(own, tmp_path, quick=True, force=True)
    assert facts["computed now"] == 2
    assert len(json.loads((tmp_path / "own.json").read_text())["records"]) == 2
    assert run(own, tmp_path, resume=True)["computed now"] == 2
    assert run(own, tmp_path, force=True)["computed now"] == 4
    assert len(cached(tmp_path)) == 4


def test_ctrl_c_keeps_no_cell_of_which_a_solver_would_return_the_best_so_far(tmp_path, monkeypatch):
    def as_solvers_do(cell):
        term = rkhs.Term(rkhs.Evaluation([[0.0], [1.0]]), rkhs.Logistic(), [1.0, -1.0])
        if cell["k"] == 2:
            rkhs.Problem(rkhs.Gaussian(), [term]).solve(callback=lambda _: signal.raise_signal(signal.SIGINT))
        return squared(cell)

    mine = Experiment("own", "squares", lambda *_: CELLS, as_solvers_do, page)
    monkeypatch.setitem(EXPERIMENTS, "own", mine)
    with pytest.raises(KeyboardInterrupt):
        run(mine, tmp_path)
    assert len(cached(tmp_path)) == 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert [path.name for path in tmp_path.iterdir()] == ["own.cache"]
    monkeypatch.setitem(EXPERIMENTS, "own", OWN)
    assert run(OWN, tmp_path, resume=True)["computed now"] == 2
    assert (tmp_path / "own.md").read_text().endswith("0: 0\n1: 1\n2: 4\n3: 9\n")


def test_a_run_that_computed_nothing_does_not_keep_the_next_one_from_starting(tmp_path, own, monkeypatch):
    def broken(_):
        raise OSError("no data")

    failing = Experiment("own", "squares", OWN.plan, broken, page)
    monkeypatch.setitem(EXPERIMENTS, "own", failing)
    for _ in range(2):
        with pytest.raises(OSError, match="no data"):
            run(failing, tmp_path)


def test_there_must_be_a_process(tmp_path, own):
    with pytest.raises(ValueError, match="jobs must be at least 1"):
        run(own, tmp_path, jobs=0)


@pytest.mark.slow
def test_an_error_in_a_worker_is_raised_as_it_is(tmp_path, monkeypatch):
    """Where the data are not there, and OpenML does not have them."""
    monkeypatch.setenv("RKHS_DATA", str(tmp_path))
    get_reusable_executor().shutdown()  # workers of other tests have another environment
    planned = replace(experiment_of("table1"), plan=lambda *_: cells(("bci", "bupa"), (30,), 1, ("SVM",), "columns"))
    with pytest.raises(MissingDataError, match="was not found"):
        run(planned, tmp_path / "out", jobs=2)


def started(out):
    """A run with two workers that have computed something, and their process ids."""
    process = subprocess.Popen(
        [sys.executable, "-m", "papers", "theorems", "--jobs", "2", "--out", str(out)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    workers, deadline = [], time.monotonic() + 600
    while (len(workers) < 2 or not any(out.rglob("output.pkl"))) and time.monotonic() < deadline:
        workers = [child for child in children(process.pid) if b"popen_loky" in cmdline(child)]
        time.sleep(0.01)
    return process, workers


@pytest.mark.slow
def test_a_worker_that_is_killed_is_named(tmp_path):
    process, workers = started(tmp_path)
    os.kill(workers[0], signal.SIGKILL)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 1
    assert "Error: A worker process managed by the executor was unexpectedly terminated" in err
    assert len(err.strip().splitlines()) == 1
    assert not Path(f"/proc/{workers[1]}").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_workers_end_with_a_run_that_is_stopped(tmp_path, number, status):
    process, workers = started(tmp_path)
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # as a terminal does
    else:
        process.terminate()
    _, err = process.communicate(timeout=600)
    assert (process.returncode, err) == (status, "Stopped.\n")
    assert not any(Path(f"/proc/{worker}").exists() for worker in workers)


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in found.read_text().split()] if found.exists() else []


def cmdline(pid: int) -> bytes:
    found = Path(f"/proc/{pid}/cmdline")
    return found.read_bytes() if found.exists() else b""


def test_the_command_of_an_installed_package_names_the_repository(tmp_path, monkeypatch):
    monkeypatch.setattr(rkhs, "__file__", str(tmp_path / "site-packages" / "rkhs" / "__init__.py"))
    done = CliRunner().invoke(app, ["reproduce", "theorems", "--out", str(tmp_path / "out")])
    assert done.exit_code == 1
    assert "git clone https://github.com/rkhs-developers/rkhs" in done.stderr
    assert "python -m papers theorems" in done.stderr
    assert not (tmp_path / "out").exists()
