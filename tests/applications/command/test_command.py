"""Test the command: fit, predict and a failure as separate processes, all other input within this one."""

import json
import os
import resource
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from running import command, facts_of

import rkhs
from rkhs.export import notes_of


def rkhs_command(*arguments, cwd=None):
    command = [sys.executable, "-m", "rkhs", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, check=False)


def table(rows=60, labeled=1.0, seed=0):
    """A frame with numbers, categories, an empty cell, and a target that depends on both kinds."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "width": rng.standard_normal(rows),
            "height": 100 + 10 * rng.standard_normal(rows),
            "color": rng.choice(["red", "green"], rows),
            "size": 2.5 * rng.standard_normal(rows),
        }
    )
    value = frame["width"] + (frame["color"] == "red") * 2 - 1
    frame.loc[3, "height"] = np.nan
    frame["label"] = np.where(value > 0, "yes", "no")
    frame.loc[rng.random(rows) > labeled, "label"] = None
    return frame


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with tables and a model."""
    home = tmp_path_factory.mktemp("tables")
    table(labeled=0.5).to_csv(home / "data.csv", index=False)
    table(seed=1).to_csv(home / "new.csv", index=False)
    with chdir(home):
        facts = facts_of("fit data.csv --target label --out model.skops --invariance none")
    (home / "facts.json").write_text(json.dumps(facts))
    return home


@pytest.fixture
def folder(home, monkeypatch):
    monkeypatch.chdir(home)
    return home


def test_facts_of_fit(folder):
    facts = json.loads((folder / "facts.json").read_text())
    data = pd.read_csv(folder / "data.csv")
    notes = notes_of(folder / "model.skops")["notes"]
    assert {key: facts[key] for key in notes} == notes
    assert facts["rows"] == 60
    assert facts["rows with a target"] == data["label"].notna().sum()
    assert facts["classes"] == data["label"].value_counts().sort_index().to_dict()
    assert facts["numeric columns"] == ["width", "height", "size"]
    assert facts["categorical columns"] == ["color"]
    assert facts["solution"].startswith("converged")
    assert facts["comparison"]["compared with"] == "a plain SVM"
    assert all(0 <= facts["comparison"][name] <= 0.5 for name in ("error", "its error"))
    assert (folder / "model.html").read_text().startswith("<!doctype html>")
    picture = (folder / "model.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 5000


def test_predict_writes_the_target_of_each_row(folder):
    facts = facts_of("predict", "model.skops", "new.csv", "--out", "out/predictions.csv")
    predictions = pd.read_csv(folder / "out" / "predictions.csv")
    truth = pd.read_csv(folder / "new.csv")["label"]
    assert list(predictions.columns) == ["label", "decision", "P(no)", "P(yes)"]
    assert np.allclose(predictions["P(no)"] + predictions["P(yes)"], 1)
    assert list(np.where(predictions["P(yes)"] > 0.5, "yes", "no")) == list(predictions["label"])
    assert len(predictions) == facts["rows"] == 60
    assert facts["error"] == pytest.approx(np.mean(predictions["label"] != truth))
    assert facts["error"] < 0.2
    features = pd.read_csv(folder / "new.csv")[["width", "height", "size", "color"]]
    assert list(rkhs.load(folder / "model.skops").predict(features)) == list(predictions["label"])  # a pipeline


def test_inspect_has_the_facts_of_fit(folder):
    facts, expected = facts_of("inspect", "model.skops"), json.loads((folder / "facts.json").read_text())
    printed = command("inspect model.skops")
    assert all(word in printed for word in ("target: label", "plain SVM", "converged", "width, height, size"))
    assert facts["rkhs"] == rkhs.__version__
    assert facts["size in bytes"] == (folder / "model.skops").stat().st_size
    for name in ("target", "C", "nu", "kernel", "comparison"):
        assert facts[name] == expected[name]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["fit", "nothere.csv", "--target", "y"], "There is no file nothere.csv"),
        (["fit", "nothere.csv", "--target", "y", "--C", "0"], "--C must be a finite number > 0"),
        (["fit", "nothere.csv", "--target", "y", "--decimal", ":"], "--decimal must be . or ,"),
        (["predict", "nothere.skops", "nothere.csv"], "There is no file nothere.skops"),
        (["inspect", "nothere.skops"], "There is no file nothere.skops"),
    ],
)
def test_wrong_files_and_options_are_reported_before_heavy_imports(arguments, complaint, tmp_path):
    heavy = {"matplotlib", "numpy", "pandas", "pyarrow", "scipy", "sklearn", "skops", "torch"}
    code = (
        f"import sys; sys.argv = ['rkhs', *{arguments!r}]; from rkhs_command import main\n"
        f"try: main()\nfinally: print(*{heavy!r} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert complaint in done.stderr
    assert done.stdout.split() == []


def test_help_and_version():
    assert rkhs_command("--version").stdout.strip() == f"rkhs {rkhs.__version__}"
    helped = command("--help")
    assert all(name in helped for name in ("fit", "predict", "inspect", "demo"))


@pytest.mark.slow
def test_many_rows_and_ten_thousand_texts_fit_and_predict_within_two_gibibytes(tmp_path):
    rng, rows = np.random.default_rng(0), 22_000
    X, city = rng.standard_normal((rows, 3)), rng.integers(10_000, size=rows)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["city"] = [f"city {k}" for k in city]
    frame["label"] = np.where(X[:, 0] + X[:, 1] * X[:, 2] > 0, "yes", "no")
    frame.to_csv(tmp_path / "large.csv", index=False)
    fit = ("fit", "large.csv", "--target", "label", "--invariance", "none", "--out", "large.skops", "--json")
    facts = json.loads(rkhs_command(*fit, cwd=tmp_path).stdout)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 2 * 2**20  # in KiB, of the largest child so far
    assert 20_000 <= facts["rows learned from"] < 20_100
    assert "in the span of Landmarks: 1000 functions" in facts["solution"]
    (column,) = [row for row in facts["table"] if row["column"] == "city"]
    assert column["values"] == len(set(city.tolist()))
    assert f"the {column['values'] - 49} rarest" in column["cells"]
    predict = ("predict", "large.skops", "large.csv", "--out", "out.csv", "--json")
    predicted = json.loads(rkhs_command(*predict, cwd=tmp_path).stdout)
    assert predicted["rows"] == rows
    assert predicted["error"] < 0.1
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 2 * 2**20


@pytest.mark.slow
def test_demo_shows_that_priors_help(tmp_path):
    (tmp_path / "demo.png").write_text("an earlier one")
    facts = facts_of("demo", "--out", tmp_path, "--force")
    errors = [row["error"] for row in facts["few labels"]]
    assert all(error < errors[0] for error in errors[1:])
    assert Path(facts["picture"]).read_bytes().startswith(b"\x89PNG")
