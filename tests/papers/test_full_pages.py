"""The pages and pictures of full runs, from made-up results: every set, model and printed number is there."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from papers.choice_rules import SCORES
from papers.experiment import Record, finished_records, select
from papers.few_labels import Points
from papers.local_average import effective_dimension, page
from papers.run import EXPERIMENTS, experiment_of
from papers.two_moons import LOSSES, NONZERO_PRINTED, SIZE

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "measurements" / "papers"
CHOSEN = {"nu": 0.1, "C": 1.0, "prior": "graph"}


def made_up(cell, rng):
    """A result as `compute` would give it, with InvSVM five points better than the others."""
    if cell.get("model") == "L-BFGS":
        reached = cell["set"] == "heart"
        return {"ours": 0.5, "our gap": 1e-4, "L-BFGS": 60.0, "its gap": 1e-2, "reached": reached}
    if "fold" in cell:
        return {"errors": {"1": [0.2] * 10, "10": [0.1] * 10}}
    if "chosen" in cell:  # of USPS
        return {"errors": 86, "of": 2007, "training": 300.0, "straight": 9 * ("linear functions" in cell["variant"])}
    if "draws" in cell:
        return made_up_scores(cell)
    better = 5.0 if "InvSVM" in cell.get("model", cell.get("variant", "")) else 0.0
    found = {"error": 20.0 - better + rng.random(), "chosen": CHOSEN, "relative gap": 1e-4, "not zero": 50.0}
    return {**found, "loss": float(rng.random()), "inside": True}


def made_up_scores(cell):
    """Scores in which the folds prefer the first C and nu, and the test points and the losses the last ones."""
    grid = np.arange(25.0).reshape(5, 5)
    tests = [(40 - grid + draw).tolist() for draw in range(cell["draws"])]
    scores = dict.fromkeys(SCORES, [(40 - grid).tolist()] * cell["draws"])
    return {**scores, "test error": tests, "fold accuracy": [(-grid).tolist()] * cell["draws"]}


def records_of(name):
    experiment, rng, records = experiment_of(name), np.random.default_rng(0), []
    while True:
        cells = experiment.plan(False, records)
        if len(cells) == len(records):
            return records
        done = [r.cell for r in records]
        records += [Record(cell, made_up(cell, rng), 2.0) for cell in cells if cell not in done]


@pytest.mark.parametrize(
    ("name", "cells", "shown"),
    [
        pytest.param(
            "table1",
            9 * 3 * 10 * 4 + 4,
            [
                "15.4 ± 4.02",
                "27 wins, 0 ties, 0 losses",
                "0 wins, 0 ties, 27 losses",
                "> 2.1",
                "of 27 cells",
                "45 printed cells of the five smaller sets 30 are",
                "with 245 rows 1 of its cells",
                "LapSVM of the paper, printed",
            ],
            marks=pytest.mark.slow,
        ),
        ("table1-rows", 9 * 3 * 10 * 4 + 4, ["usps_ssl", "page of [`table1`]"]),
        (
            "choice-rules",
            9 * 3,
            [
                "| loss of the folds | 20.50 | -24.00 ± 0.00 | 100 % | 27 / 0 / 0 |",
                "| sonar | 90 | 44.5 | 44.5 | 20.5 |",
            ],
        ),
        pytest.param(
            "digits",
            4 * 20 * (6 + 6 + 6 + 4),
            ["In 0 of 12 cells", "better on 4 of 4 pairs", "worse on 0", "20 of 20", "blurred by 1 pixel"],
            marks=pytest.mark.slow,
        ),
        ("thin-plate", 13 * 2 * 5, ["8.333 (0.378)", "1.867 (0.254)", "On 4 of 12 sets", "splice, 0 and 1"]),
        (
            "usps",
            7 * 5 + 11,
            ["86 of 2007 (4.29 %)", "86, 86, 86, 86, 86 of 2007", "85 (4.25 %)", "~17 min", "for 9 of the 10 digits"],
        ),
        ("two-moons", 20 * 2 * 4, ["20 data sets"]),
        ("two-moons-2006", 6 * 5 * 10, ["| 10 | 74.1 |", "radius 1.7", "squared + squared"]),
        ("lapsvm", 9 * 3 * 10, ["| heart | 30 | 23.2 ± 1.68 | none | 20."]),
    ],
)
def test_page_of_a_full_run(name, cells, shown, tmp_path):
    experiment, records = experiment_of(name), records_of(name)
    assert len(records) == cells
    text = experiment.page(records, tmp_path)
    for part in shown:
        assert part in text
    if name in ("table1", "digits", "thin-plate"):
        experiment.draw(records).savefig(tmp_path / "picture.png")
        assert (tmp_path / "picture.png").stat().st_size > 1000


def test_local_averages_stand_beside_the_results_of_table1(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    points = Points(rng.standard_normal((40, 4)), np.ones(40), 1.0)
    monkeypatch.setattr("papers.local_average.load_points", lambda *_: points)
    records = records_of("local-average")
    alone = page(records, tmp_path)
    assert "gradient" not in alone
    beside = [asdict(record) for record in records_of("table1")]
    (tmp_path / "table1.json").write_text(json.dumps({"records": beside}))
    text = page(records, tmp_path)
    assert text.count("gradient: win") == 27
    assert f"| heart | 4 | 10 | {effective_dimension(points.X):.0f} | " in text


def test_a_broken_page_of_results_is_named(tmp_path):
    for text in ("{", "[]", '{"records": [3]}', '{"record": []}', '{"records": [{"cell": {}}]}'):
        (tmp_path / "table1.json").write_text(text)
        with pytest.raises(ValueError, match=r"table1\.json holds no results"):
            finished_records(tmp_path, "table1")
    assert finished_records(tmp_path, "nothing") == []


def test_moons_have_the_printed_shares():
    """Of the committed run: all printed shares are within a standard deviation of ours, with the radius of the page."""
    records = finished_records(RESULTS, "two-moons-2006")
    for rho, printed in NONZERO_PRINTED.items():
        shares = [r.result["not zero"] for r in select(records, rho_2=rho, size=SIZE)]
        assert len(shares) == 10
        assert abs(np.mean(shares) - printed) <= np.std(shares, ddof=1) + 0.05  # the rounding of what is printed


def test_both_pairs_of_losses_separate_the_moons():
    records = finished_records(RESULTS, "two-moons")
    for losses in LOSSES:
        for nu in (0.1, 1.0):
            assert np.mean([r.result["error"] for r in select(records, losses=losses, nu=nu)]) < 1
    cell = {"losses": "hinge + epsilon-insensitive", "nu": 1.0, "seed": 0}
    assert experiment_of("two-moons").compute(cell)["error"] < 1


def test_a_share_of_the_moons_can_be_repeated():
    cell = {"rho_2": 0.001, "size": SIZE, "seed": 0}
    (before,) = select(finished_records(RESULTS, "two-moons-2006"), **cell)
    assert experiment_of("two-moons-2006").compute(cell)["not zero"] == pytest.approx(before.result["not zero"], abs=1)


def test_the_list_of_experiments_has_the_cells_of_the_results():
    page = (ROOT / "docs/reproduce.md").read_text()
    for file, _, test in re.findall(r"`((solvers|papers)/\w+\.py)(?:::(\w+))?`", page):
        assert f"def {test}" in (ROOT / "tests" / file).read_text(), test
    rows = re.findall(r"^\| \[`([\w-]+)`\].*\| ([\d,]+) \| [^|]+ \|$", page, re.M)
    assert [name for name, _ in rows] == list(EXPERIMENTS)
    for name, cells in rows:
        assert int(cells.replace(",", "")) == len(finished_records(RESULTS, name)), name


def test_pages_state_what_table1_has():
    """The counts on the page of differences and in the list of experiments are those of the generated page."""
    for name, count in (("table1", 4), ("table1-rows", 10)):
        assert f"At 5 percent {count} of 27 cells differ" in (RESULTS / f"{name}.md").read_text()
        assert re.search(rf"`{name}`.*differs .*in {count} of 27 cells", (ROOT / "docs/reproduce.md").read_text())
        assert f"printed one in {count} of 27 cells" in (RESULTS / "differences.md").read_text()
