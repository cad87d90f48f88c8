"""Test that what reports, pictures and advice say is derived from the model that was kept."""

import re
from contextlib import chdir
from html import escape, unescape
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from running import facts_of
from sklearn.datasets import make_moons

import rkhs
from rkhs._command.comparison import PairedDifference, _ablations
from rkhs._command.effects import Effect, advise
from rkhs._command.learning import Examples, Fit, _search
from rkhs._command.options import Request
from rkhs._command.report import candidates_table, grid_chart
from rkhs.estimators.search._search import PRIORS


@pytest.fixture(scope="module")
def moons(tmp_path_factory):
    """A table for which a sum with a graph is chosen, though a graph alone has fewer leave-one-out errors."""
    home = tmp_path_factory.mktemp("moons")
    X, y = make_moons(60, noise=0.2, random_state=1)
    frame = pd.DataFrame(X, columns=["u", "v"]).assign(left=np.where(np.arange(60) % 2, None, "q"))
    frame["label"] = np.where(np.arange(60) < 16, np.where(y == 1, "yes", "no"), None)
    frame.to_csv(home / "moons.csv", index=False)
    frame[:24].to_csv(home / "few.csv", index=False)
    return home


def fitted(home, *options, table="few.csv"):
    with chdir(home):
        fit = ("fit", table, "--target", "label", "--ignore", "left", "--out", "m.skops", "--force")
        facts = facts_of(*fit, *options)
    return facts, (home / "m.html").read_text(), rkhs.load(home / "m.skops")[-1]


def section(page, name):
    """Return the text of a section of a page."""
    return unescape(re.search(rf'<section id="{name}">(.*?)</section>', page, re.DOTALL)[1])


def test_the_report_of_a_sum_with_a_graph(moons):
    facts, page, model = fitted(moons, "--picture", "m.svg", table="moons.csv")
    chosen = PRIORS["sum"]
    assert "GraphKernel" in repr(model.function_.kernel)
    assert model.selection_report_["chosen"]["prior"] == "sum"
    assert facts["prior"] == chosen
    assert "one without the unlabeled rows" in section(page, "gained")
    details = section(page, "details")
    assert f"<td>prior</td><td>{chosen}</td>" in details
    assert "<td>nu</td>" not in details  # which is zero, though there is a prior
    # the page: the chosen row has the prior of the model, and the smallest value of the criterion
    rows = re.findall(r"<tr><td>([^<]*)</td><td>.*?</td><td><data value=\"([^\"]*)\">.*?<td>(chosen|)</td></tr>", page)
    assert [name for name, _, mark in rows if mark] == [chosen]
    assert {name for name, _, _ in rows} == {
        PRIORS[kind] for kind in ("none", "additive", "features", "graph", "clusters", "sum")
    }
    assert escape(model.selection_report_["sentence"]) in page
    assert 'aria-label="chosen"' not in page  # a grid of errors, in which another cell may be better
    # the picture: the points of the candidates are in the order of the rows, and the chosen one is blue
    middle = re.search(r'<g id="axes_2">.*<g id="axes_3">', (moons / "m.svg").read_text(), re.DOTALL)[0]
    points = re.findall(r'<use [^>]*?y="([\d.]+)" style="fill: (#\w+); stroke: #', middle)
    colors = [color for _, color in sorted(points, key=lambda point: float(point[0]))]
    assert [color == "#1f77b4" for color in colors] == [bool(mark) for _, _, mark in rows]
    # the column "left" is missing in half of the rows, and is left out
    assert not any("'left'" in sentence for sentence in facts["advice"])


def test_a_monotone_column_beside_unlabeled_rows(moons):
    facts, _, model = fitted(moons, "--increasing", "u")
    assert "GraphKernel" not in repr(model.function_.kernel)  # whose functions have no derivatives
    assert facts["prior"] in (PRIORS["none"], PRIORS["features"], PRIORS["sum"])


def test_a_grid_of_folds_frames_the_best_cell(moons):
    facts, page, model = fitted(moons, "--invariance", "gradient", "--cv", "--nu", "3")
    assert (facts["nu"], facts["settings tried"], len(model.cv_results_["params"])) == (3.0, 15, 15)  # C and scale
    [cell] = re.findall(r'<td class="chosen"[^>]*><data value="([^"]+)"', page)
    cells = re.findall(r'<td[^>]*--shade[^>]*><data value="([^"]+)"', page)
    assert float(cell) == pytest.approx(1 - model.best_score_) == min(map(float, cells))
    assert not hasattr(model, "selection_report_")


def test_the_score_of_evidence_is_penalized():
    """The kernel with the larger evidence has more settings, and is not chosen."""
    rows = [
        {"name": repr(rkhs.Gaussian(scale=1 / 3)), "evidence": 10.0, "score": 8.0, "C": 1.0, "chosen": True},
        {"name": repr(rkhs.Gaussian(scale=2.0)), "evidence": 11.0, "score": 6.0, "C": 1.0, "chosen": False},
    ]
    columns = {"evidence": "logarithm of the evidence", "score": "the same minus the number of learned settings"}
    search = SimpleNamespace(selection_report_={"sentence": "", "columns": columns, "candidates": rows})
    page = candidates_table(search, regression=True)
    first, second = re.findall("<tr><td>.*?</tr>", page)
    assert ("chosen" in first, "chosen" in second) == (True, False)
    assert "Gaussian(scale=0.3333)" in first
    assert page.count("the same minus the number of learned settings") == 1
    assert grid_chart(search, regression=True) == ""


def test_nothing_is_gained_from_unlabeled_rows_that_are_not_there():
    request = Request(data=None, target="y")
    fit = Fit(
        request,
        SimpleNamespace(selection_report_={"chosen": {"prior": "features"}, "weights": [{"prior": "features"}]}),
        None,
    )
    assert list(_ablations(fit, unlabeled=True)) == ["one without the unlabeled rows"]
    assert _ablations(fit, unlabeled=False) == {}


def test_the_discriminant_belongs_to_the_settings():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(150, 4))
    score = X[:, 0] + 0.3 * rng.normal(size=150)
    y = np.array(["low", "mid", "top"])[np.digitize(score, [-1.0, 1.0])]
    examples = Examples(pd.DataFrame(X), y, regression=False)
    fit = Fit.of(Request(data=None, target="y"), X, examples)
    assert fit.model.discriminant_ is not None
    again = fit.refit(X, examples).model
    np.testing.assert_array_equal(again.predict(X), fit.model.predict(X))


def test_a_stated_C_is_kept_by_a_grid():
    X = np.random.default_rng(0).normal(size=(10, 2))
    stated = _search(Request(data=None, target="y", invariance="graph", cv=True, C=7.0), None, X)
    assert (stated.Cs, stated.nus) == ([7.0], 5)


def advice(effects, table, rows=50, unlabeled=0, drawn=0):
    y = np.r_[np.arange(50.0 - drawn), np.full(drawn, np.nan)]
    examples = Examples(pd.DataFrame({"a": y}, index=pd.RangeIndex(50, name="line")), y, regression=True)
    solution = SimpleNamespace(source=None)
    fit = SimpleNamespace(
        request=SimpleNamespace(increasing=(), decreasing=()), model=SimpleNamespace(solution_=solution)
    )
    found = {"rows": rows, "rows without a target": unlabeled, "table": table}
    labels = PairedDifference("one with half of the labels", 1.0, 1.0, 1.0, regression=True)
    return " ".join(advise(fit, examples, y[:, None], labels, effects, found))


def test_a_constant_prediction_neither_rises_nor_falls():
    flat = Effect("a", [0.0, 1.0], np.zeros((2, 1)), np.zeros((50, 1)))
    assert "with 'a'" not in advice([flat], [])
    falls = Effect("a", [0.0, 1.0], np.array([[1.0], [0.0]]), np.full((50, 1), -1.0))
    assert "falls with 'a' at 100 % of the rows" in advice([falls], [])


@pytest.mark.parametrize(("rows", "often"), [(50, True), (5000, False)])
def test_missing_cells_are_a_share_of_the_whole_table(rows, often):
    slope = Effect("a", [0.0, 1.0], np.array([[0.0], [1.0]]), np.array([[1.0], [-1.0]] * 25))
    table = [{"column": name, "kind": "numbers", "missing": 20} for name in ("a", "left out")]
    assert ("Cells are often missing in 'a':" in advice([slope], table, rows=rows)) == often


def test_kernels_are_listed_by_evidence_and_no_errors_are_shown():
    X = np.random.default_rng(0).uniform(size=(100, 2))
    search = rkhs.InvariantRegressorCV().fit(X, np.sin(6 * X[:, 0]) + X[:, 1])
    page = candidates_table(search, regression=True)
    assert "logarithm of the evidence" in page
    assert page.count("Matern") >= 3
    assert page.count("<td>chosen</td>") == 1
    assert grid_chart(search, regression=True) == ""
