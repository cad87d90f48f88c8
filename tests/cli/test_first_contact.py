"""The commands of the README as printed, and what the options say: dates, names of rows, decimals, monotone columns."""

import shlex
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import rkhs
from rkhs._cli.commands import app
from rkhs._cli.terminal import show
from rkhs._io import notes_of
from rkhs.plotting import GridDisplay


def command(text):
    done = CliRunner().invoke(app, shlex.split(text))
    assert done.exit_code == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def churn(tmp_path_factory):
    home = tmp_path_factory.mktemp("churn")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        command("sample churn.csv")
        command("fit churn.csv --target churn --out churn.skops")
        command("predict churn.skops new.csv --out predictions.csv")
    return home


def test_sample_fit_predict(churn):
    new, found = pd.read_csv(churn / "new.csv"), pd.read_csv(churn / "predictions.csv")
    assert list(found.columns) == ["customer", "churn", "decision", "P(no)", "P(yes)"]
    assert list(found["customer"]) == list(new["customer"])
    assert np.mean(found["churn"] != new["churn"]) < 0.2
    notes = notes_of(churn / "churn.skops")["notes"]
    assert notes["date columns"] == {"joined": "year-month-day"}
    assert notes["id columns"] == ["customer"]
    table = pd.read_csv(churn / "churn.csv")
    assert table["churn"].isna().mean() > 0.5
    assert "fee [EUR/month]" in table.columns


def test_sample_replaces_nothing_and_can_write_parquet(churn, monkeypatch):
    monkeypatch.chdir(churn)
    done = CliRunner().invoke(app, ["sample", "churn.csv"])
    assert "churn.csv is there already" in done.stderr
    command("sample c.parquet --new later.parquet")
    assert len(pd.read_parquet("c.parquet")) == len(pd.read_csv("churn.csv"))
    assert list(pd.read_parquet("later.parquet").columns) == list(pd.read_csv("new.csv").columns)


def test_python_dash_m_is_the_command():
    done = subprocess.run([sys.executable, "-m", "rkhs", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"rkhs {rkhs.__version__}"


def test_texts_that_are_new_are_counted_and_named(churn, monkeypatch):
    monkeypatch.chdir(churn)
    new = pd.read_csv("new.csv").head(6)
    new["contract"] = ["weekly", "weekly", "daily", "monthly", "yearly", "hourly"]
    new.to_csv("odd.csv", index=False)
    assert "contract: 4 rows (weekly, daily, hourly)" in command("predict churn.skops odd.csv --out odd_out.csv")


@pytest.fixture
def table(tmp_path, monkeypatch):
    """y rises with a, a wiggle on top of it."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a [1/h]": rng.uniform(0, 10, 40).round(3), "b": rng.normal(size=40).round(3)})
    frame["y"] = (frame["a [1/h]"] + 3 * np.sin(frame["a [1/h]"]) + 0.1 * rng.normal(size=40)).round(3)
    frame.to_csv("table.csv", index=False)
    return frame


def slopes(model, frame, column):
    up, down = (model.predict(frame.assign(**{column: frame[column] + step})) for step in (1e-3, -1e-3))
    return (up - down) / 2e-3


def test_monotone_columns_are_monotone(table):
    fit = "fit table.csv --target y --regression --invariance none --C 1000"
    command(f"{fit} --out free.skops")
    command(f"{fit} --out rising.skops --monotone 'a [1/h]=+1,b=-1'")
    free, rising = rkhs.load("free.skops"), rkhs.load("rising.skops")
    assert slopes(free, table, "a [1/h]").min() < -0.5
    assert slopes(rising, table, "a [1/h]").min() > -0.01
    assert slopes(rising, table, "b").max() < 0.01
    notes = notes_of("rising.skops")["notes"]
    assert notes["monotone"] == {"a [1/h]": 1, "b": -1}
    assert notes["prior knowledge"] == ["monotone"]
    assert [row["prior knowledge"] for row in notes["gained"]] == ["monotone"]
    command("predict rising.skops table.csv")
    found = pd.read_csv("predictions.csv")
    inside = (found["lower (90 %)"] <= table["y"]) & (table["y"] <= found["upper (90 %)"])
    assert inside.mean() > 0.8  # intervals of held-out rows, without a standard deviation


def test_a_nu_of_zero_is_no_prior_knowledge(table):
    out = command("fit table.csv --target y --regression --invariance gradient --nu 0 --out m.skops")
    assert "rkhs, without prior knowledge" in out
    assert "with gradient" not in out
    assert notes_of("m.skops")["notes"]["prior knowledge"] is None


def test_separators_and_decimal_signs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"{k},{k % 10}5%2.0{k % 7:02}%{'xy'[k % 2]}\n" for k in range(30)]
    (tmp_path / "t.csv").write_text("a%b%label\n" + "".join(rows))
    command("fit t.csv --target label --separator % --decimal , --invariance none --out m.skops")
    table = notes_of("m.skops")["notes"]["table"]
    assert [row["cells"] for row in table[:2]] == ["0.05 to 29.95", "2000 to 2006"]
    command("predict m.skops t.csv --separator % --decimal ,")
    assert len(pd.read_csv("predictions.csv")) == 30


def test_names_of_rows_are_left_out_and_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=40), "user_id": np.arange(40) + 7, "name": [f"n{k}" for k in range(40)]})
    frame["P(x)"] = rng.integers(5, size=40)
    frame["label"] = np.where(frame["a"] > 0, "x", "y")
    frame.to_csv("t.csv", index=False)
    command("fit t.csv --target label --invariance none --out m.skops --id 'P(x)'")
    notes = notes_of("m.skops")["notes"]
    assert notes["id columns"] == ["user_id", "name", "P(x)"]
    assert notes["numeric columns"] == ["a"]
    command("predict m.skops t.csv")
    found = pd.read_csv("predictions.csv")
    assert list(found.columns) == ["user_id", "name", "P(x)", "label", "decision", "P(x) (2)", "P(y)"]
    assert list(found["P(x)"]) == list(frame["P(x)"])


@pytest.mark.parametrize("role", ["column", "class", "target", "text"])
def test_units_in_names_are_no_markup(role, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng, name = np.random.default_rng(0), "rate [/h]"
    frame = pd.DataFrame({"a": rng.normal(size=30), "t": rng.choice(["u", name if role == "text" else "v"], 30)})
    frame["label"] = np.where(frame["a"] > 0, name if role == "class" else "x", "y")
    frame = frame.rename(columns={"column": {"a": name}, "target": {"label": name}}.get(role, {}))
    frame.to_csv("t.csv", index=False)
    target = name if role == "target" else "label"
    assert name in command(f"fit t.csv --target '{target}' --invariance none --out m.skops")
    assert name in command("inspect m.skops")
    assert name in (tmp_path / "m.html").read_text()


def test_no_text_of_a_fact_is_markup(capsys):
    show({"[/bold]": "[/x]", "rows": [{"[/a]": "[/b]"}], "nested": {"[/c]": "[/d]"}})
    out = capsys.readouterr().out
    for text in ("[/bold]", "[/x]", "[/a]", "[/b]", "[/c]", "[/d]"):
        assert text in out


def test_the_grid_frames_the_cell_that_was_chosen():
    """Of two cells with the same score the search takes the one of the smaller loss, which is not the first."""
    results = {"param_C": [1, 10, 1, 10], "param_nu": [0, 0, 1, 1], "mean_test_score": [0.9, 0.9, 0.8, 0.9]}
    search = type("Search", (), {"cv_results_": results, "best_index_": 3})()
    for display, place in (
        (GridDisplay.from_estimator(search), (0.5, 0.5)),
        (GridDisplay.from_results(results), (-0.5, -0.5)),
    ):
        (frame,) = [patch for patch in display.ax_.patches if not patch.get_fill()]
        assert frame.get_xy() == place
