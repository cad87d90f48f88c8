"""The pages and pictures of full runs, from made-up results: every set, model and printed number is there."""

import json
from dataclasses import asdict

import numpy as np
import pytest

from papers.choice_rules import SCORES
from papers.experiment import Record, finished_records
from papers.few_labels import Points
from papers.local_average import effective_dimension, page
from papers.run import experiment_of

CHOSEN = {"nu": 0.1, "C": 1.0, "prior": "graph"}


def made_up(cell, rng):
    """A result as `compute` would give it, with InvSVM five points better than the others."""
    if cell.get("model") == "L-BFGS":
        reached = cell["set"] == "heart"
        return {"ours": 0.5, "our gap": 1e-4, "L-BFGS": 60.0, "its gap": 1e-2, "reached": reached}
    if "fold" in cell:
        return {"errors": {"1": [0.2] * 10, "10": [0.1] * 10}}
    if "variant" in cell:
        return {"errors": 86, "of": 2007, "training": 300.0, "straight": 9 * ("with basis" in cell["variant"])}
    if "draws" in cell:
        return made_up_scores(cell)
    better = 5.0 if cell.get("model") == "InvSVM" else 0.0
    return {"error": 20.0 - better + rng.random(), "chosen": CHOSEN, "relative gap": 1e-4, "not zero": 50.0}


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
        (
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
        ),
        ("table1-rows", 9 * 3 * 10 * 4 + 4, ["usps_ssl", "page of [`table1`]"]),
        (
            "choice-rules",
            9 * 3,
            ["| loss of the folds | 20.50 | 100 % | 27 / 0 / 0 |", "| sonar | 90 | 44.5 | 44.5 | 20.5 |"],
        ),
        ("digits", 4 * 3 * 20, ["on 4 of 4 pairs", "20 of 20"]),
        ("thin-plate", 12 * 2 * 5, ["8.333 (0.378)", "1.867 (0.254)", "On 4 of 12 sets"]),
        ("usps", 4 * 5 + 5 + 3, ["86 of 2007 (4.29 %)", "85 (4.25 %)", "~17 min", "for 9 of the 10 digits"]),
        ("two-moons", 20 * 2 * 4, ["20 data sets"]),
        ("two-moons-2006", 6 * 4 * 10, ["| 10 | 74.1 |", "radius 1.7"]),
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
