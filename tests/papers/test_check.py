"""`rkhs reproduce --check`: a few cells of each kind, and every difference from the committed results."""

import json
from dataclasses import asdict

import pytest
from typer.testing import CliRunner

from papers.check import CELLS, COMMITTED, SECONDS, check_cells, differing, sample
from papers.experiment import Experiment, Record, finished_records
from papers.run import EXPERIMENTS, run
from rkhs._command.commands import app

PLAN = [{"model": model, "k": k} for model in ("SVM", "InvSVM") for k in range(30)]


def square(cell):
    return {"square": cell["k"] ** 2, "chosen": {"by": cell["model"], "values": [0.1 * cell["k"], None]}}


OWN = Experiment("own", "squares", lambda quick, _: PLAN, square, lambda records, _: "")


@pytest.fixture
def own(monkeypatch, tmp_path):
    monkeypatch.setitem(EXPERIMENTS, "own", OWN)
    run(OWN, tmp_path)
    return tmp_path


def change(folder, **values):
    """Change the results of the fastest cell of a model."""
    path = folder / "own.json"
    facts = json.loads(path.read_text())
    min((r for r in facts["records"] if r["cell"]["model"] == "SVM"), key=lambda r: r["seconds"])["result"].update(
        values
    )
    path.write_text(json.dumps(facts))


def test_unchanged_results(own):
    assert check_cells([OWN], committed=own)["own"].startswith(f"{CELLS} of 60 cells computed again")


def test_a_changed_result_is_named(own):
    change(own, square=-1)
    with pytest.raises(
        RuntimeError, match=r'(?s)own: .*: differ\nown \{"model": "SVM", "k": \d+\}: square was -1 and is'
    ):
        check_cells([OWN], committed=own)
    change(own, square=0, chosen={"by": "SVM"})
    with pytest.raises(RuntimeError, match="chosen was"):
        check_cells([OWN], committed=own)


def test_cells_of_an_earlier_experiment_are_not_compared(own, monkeypatch):
    now = Experiment("own", "squares", lambda quick, _: [{"model": "SVM", "k": -1}], square, lambda records, _: "")
    assert "none of the 60 committed cells" in check_cells([now], committed=own)["own"]


def test_each_kind_is_in_the_sample_and_the_time_is_kept():
    kinds = "abc"
    records = [Record({"set": kind, "draw": k}, {}, 1.0 + k) for kind in kinds for k in range(9)]
    chosen = sample(records)
    assert {r.cell["set"] for r in chosen} == set(kinds)
    assert sum(r.seconds for r in chosen) <= SECONDS
    assert len(sample([Record({"draw": 0}, {}, 1e4)])) == 1
    assert sample([]) == []
    first_computes = [Record({"set": "large", "draw": k}, {}, 0.1 if k else 500.0) for k in range(9)]
    assert all(record.cell["set"] != "large" for record in sample(first_computes + records)[: len(kinds)])


@pytest.mark.every
@pytest.mark.parametrize(
    ("committed", "now", "count"),
    [
        (1.0, 1.0 + 1e-9, 0),
        (1e9, 1e9 + 1, 0),
        (1.0, 1.001, 1),
        (float("inf"), float("inf"), 0),
        (float("nan"), 1.0, 1),
        (True, False, 1),
        ([1, 2], [1], 1),
        ({"relative gap": 1.0, "a": 1}, {"relative gap": 2.0, "a": 1}, 0),
        ({"a": None}, {"a": 1}, 1),
        ("x", "y", 1),
    ],
    ids=str,
)
def test_what_differs(committed, now, count):
    assert len(list(differing(committed, now))) == count


def test_every_committed_experiment_can_be_read():
    for name in EXPERIMENTS:
        records = finished_records(COMMITTED, name)
        assert records, name
        assert asdict(sample(records)[0])["cell"]


def test_the_command(monkeypatch):
    monkeypatch.setattr("papers.check.CELLS", 3)
    done = CliRunner().invoke(app, ["reproduce", "theorems", "--check", "--json"])
    assert done.exit_code == 0, done.output
    assert "3 of 126 cells computed again" in json.loads(done.stdout)["theorems"]
    assert all(name in CliRunner().invoke(app, ["reproduce"]).stdout for name in EXPERIMENTS)
