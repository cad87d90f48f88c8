"""Every experiment runs, in its quick form; a killed run goes on where it was.

One of them is a quick test: the parts and pages of the others are those of `test_experiment_parts` and
`test_full_pages`.
"""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from papers import digits, thin_plate
from papers.run import EXPERIMENTS, experiment_of, run
from rkhs._command.commands import app
from rkhs.datasets import MissingDataError

ROOT = Path(__file__).resolve().parents[2]
# what each page must show of the paper
SHOWN = {
    "two-moons": "nu = 0.01",
    "two-moons-2006": "| 0.001 | 36.6 |",
    "table1": "| heart | 30 | 23.5 ± 2.08 |",
    "table1-rows": "| heart | 30 | 23.5 ± 2.08 |",
    "lapsvm": "| heart | 30 | 23.2 ± 1.68 |",
    "choice-rules": "| A | errors of the folds (Table 1) |",
    "digits": "| 7-1 |",
    "thin-plate": "| thyroid | 4.199 (1.087) |",
    "usps": "88 (4.38 %)",
    "local-average": "| heart | 30 |",
    "theorems": "-0.0319658144",
}
QUICK = "local-average"


def quick(name, out, **options):
    try:
        return run(experiment_of(name), out, quick=True, **options)
    except MissingDataError as missing:
        pytest.skip(str(missing))


def results(out, name):
    """By cell, without the seconds that they took."""
    records = json.loads((out / f"{name}.json").read_text())["records"]
    return {json.dumps(r["cell"]): r["result"] for r in records}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("results")


@pytest.fixture
def few_theorems(monkeypatch):
    """Of the quickest experiment, which needs no data, as many cells as it takes to run it twice."""
    all_of_them = EXPERIMENTS["theorems"]
    few = replace(all_of_them, plan=lambda *told: all_of_them.plan(*told)[:4], page=lambda *_: "A page.")
    monkeypatch.setitem(EXPERIMENTS, "theorems", few)


@pytest.mark.parametrize(
    "name", [name if name == QUICK else pytest.param(name, marks=pytest.mark.slow) for name in EXPERIMENTS]
)
def test_quick_run(name, folder, monkeypatch):
    if name == "digits":  # what a model chooses among is tested by `test_experiment_parts`
        for choice, kept in (("CS", slice(1, 2)), ("NUS", slice(1, 2)), ("SCALES", slice(1))):
            monkeypatch.setattr(digits, choice, getattr(digits, choice)[kept])
    monkeypatch.setattr(thin_plate, "SCALES", (1.0, 2.0))  # what the thin plate and the Gaussian choose among, too
    facts = quick(name, folder)
    page = (folder / f"{name}.md").read_text()
    assert facts["cells"] == facts["computed now"] == len(results(folder, name)) > 0
    assert f"rkhs reproduce {name} --quick" in page
    assert SHOWN[name] in page
    assert (folder / f"{name}.png").exists() == (experiment_of(name).draw is not None)
    if name != "theorems":
        found = [r["error"] for r in results(folder, name).values() if "error" in r]
        assert all(0 <= error < 50 for error in found), "worse than guessing"


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was(folder, tmp_path):
    """SIGKILL when two of four cells are there, whatever else is computed by then."""
    if not (folder / "table1.json").exists():
        quick("table1", folder)

    def kept():
        return {path: path.read_bytes() for path in (tmp_path / "table1.cache").rglob("output.pkl")}

    command = [sys.executable, "-m", "papers", "table1", "--quick", "--out", str(tmp_path)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while len(kept()) < 2 and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = kept()
    assert len(before) >= 2
    done = subprocess.run([*command, "--resume"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["computed now"] == 4 - len(before)
    assert len(kept()) == 4
    assert before.items() <= kept().items()
    assert results(tmp_path, "table1") == results(folder, "table1")


@pytest.mark.slow
def test_two_processes_find_what_one_does(few_theorems, tmp_path):
    quick("theorems", tmp_path / "one")
    assert quick("theorems", tmp_path / "two", jobs=2)["cells"] > 2
    assert results(tmp_path / "two", "theorems") == results(tmp_path / "one", "theorems")


@pytest.mark.slow
def test_results_need_neither_typer_nor_rich_nor_matplotlib(tmp_path):
    bare = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(('typer', 'rich', 'matplotlib', 'skops')))\n"
        "from papers.__main__ import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", bare, "two-moons-2006", "--quick", "--out", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["picture"] is None
    assert "matplotlib is not installed" in done.stderr
    assert not (tmp_path / "two-moons-2006.png").exists()
    facts = quick("two-moons-2006", tmp_path, resume=True)
    assert facts["computed now"] == 0
    assert (tmp_path / "two-moons-2006.png").exists()
    assert SHOWN["two-moons-2006"] in (tmp_path / "two-moons-2006.md").read_text()


def test_the_command(few_theorems, tmp_path):
    done = CliRunner().invoke(app, ["reproduce", "theorems", "--quick", "--out", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["cells"] == len(results(tmp_path, "theorems")) > 2
    wrong = CliRunner().invoke(app, ["reproduce", "table2", "--out", str(tmp_path)])
    assert wrong.exit_code == 1
    assert "There is no experiment 'table2'; there are two-moons, two-moons-2006, table1" in wrong.stderr
