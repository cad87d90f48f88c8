"""The page of theorems: what it finds, by value, and that its checks can fail."""

from pathlib import Path

import numpy as np
import pytest

import rkhs
from papers import theorem_checks, theorems
from papers.experiment import Record, finished_records, select

PUBLISHED = Path(__file__).resolve().parents[2] / "docs" / "measurements" / "papers"
FAILING = {  # statements that are not true as printed
    "corollary 2.3": ["the same without linear functions (6.2)"],
    "lemma 3.2": ["1"],
    "existence": [None],
    "integral": list(theorem_checks.PLATES),
    "last line": [None],
    "local average": [list(place) for place in theorems.PLACES],
    "lemma 4.3": [theorem_checks.AGAIN],
    "scaling of plates": [name for name, (d, _, _) in theorem_checks.PLATES.items() if d % 2],
    "slip": list(theorems.SLIPS),
}


@pytest.fixture(scope="module")
def published():
    return finished_records(PUBLISHED, "theorems")


def test_the_published_page_is_that_of_the_present_plan(published):
    assert [r.cell for r in published] == theorems.plan(False, [])
    page = (PUBLISHED / "theorems.md").read_text()
    assert page.endswith(theorems.page(published, PUBLISHED))
    assert f"{len(published)} cells" in page


def test_what_holds_and_what_does_not(published):
    for record in published:
        wrong = FAILING.get(record.cell["check"], []) if record.cell.get("s", -1.0) < 0 else []
        which = next((v for k, v in record.cell.items() if k not in ("check", "s", "functions")), None)
        assert record.result["holds"] == (which not in wrong), record


def test_values(published):
    def value(name, check, **cell):
        return next(r.result[name] for r in select(published, check=check, **cell))

    assert value("ratio", "integral", kernel="r^3 in R^1") == pytest.approx(12)
    assert value("ratio", "integral", kernel="r^2 log r in R^2") == pytest.approx(8 * np.pi, rel=1e-3)
    assert value("ratio", "integral", kernel="-r in R^3") == pytest.approx(8 * np.pi, rel=1e-3)
    assert value("norms", "homogeneous kernel", power=3, s=3.0) == pytest.approx(3.0**-6)
    assert value("signs", "corollary 2.3", space="the same without linear functions (6.2)") > 1
    assert value("signs", "corollary 2.3", space="r^3 in R^6 without linear functions, dilation") == 0
    assert sum(r.result["reversed"] for r in select(published, check="lemma 4.5")) == 0
    assert value("large", "limits", regularization=1e6) < 1e-5
    assert value("small", "limits", regularization=1e-8) < 1e-4


def test_the_page_of_slips_has_the_numbers_of_every_counterexample(published):
    slips = (PUBLISHED / "slips.md").read_text()
    for record in select(published, check="slip"):
        assert all(number in slips for number in theorems.numbers(record.result["found"]).split(", ")), record


def test_a_motion_along_a_wrong_direction_is_noticed(monkeypatch):
    monkeypatch.setattr(theorem_checks.Picture, "tangent", lambda self, B, b: np.ones(64))
    assert not theorem_checks.motion("rotation", "Gaussian(scale=20)", 5)["holds"]


def test_a_space_that_is_not_scaled_is_noticed(monkeypatch):
    wrong = theorem_checks.Scaled(rkhs.Gaussian(1.0), 2, lambda X: 0.1 * X, 1.0)
    monkeypatch.setitem(theorem_checks.SCALED, "wrong", wrong)
    assert not theorem_checks.corollary("wrong")["holds"]


def test_a_page_names_the_statements_that_fail():
    cells = theorems.plan(True, [])[:3]
    result = {"span": 1.0, "larger": 1.0, "fewer": 2.0, "rkhs": 1.0, "holds": False}
    records = [Record(cell, result, 0.0) for cell in cells]
    assert "All hold except some in: Representer theorems" in theorems.page(records, PUBLISHED)
