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
from typer.testing import CliRunner

import rkhs
from rkhs._cli.commands import app


def rkhs_command(*arguments, cwd=None):
    command = [sys.executable, "-m", "rkhs", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "200"}
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=environment, check=False)


def facts_of_process(*arguments, cwd=None):
    done = rkhs_command(*arguments, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def within(folder, *arguments):
    """Run the command without a new process, which would import everything again."""
    with chdir(folder):
        return CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "200"})


def facts_of(*arguments, cwd):
    done = within(cwd, *arguments, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


def sentence(code, out, err):
    """Return the only line of a command that fails."""
    assert code == 1
    assert out == ""
    lines = err.strip().splitlines()
    assert len(lines) == 1, err
    assert lines[0].startswith("Error: ")
    assert lines[0].endswith((".", "?"))
    return lines[0]


def refused(*arguments):
    """Run a command that fails within this process; return its message."""
    done = CliRunner().invoke(app, list(map(str, arguments)))
    return sentence(done.exit_code, done.stdout, done.stderr)


def table(rows=80, labeled=1.0, seed=0):
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
    frame["amount"] = value
    frame.loc[rng.random(rows) > labeled, ["label", "amount"]] = None
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with tables and a model."""
    home = tmp_path_factory.mktemp("tables")
    table(labeled=0.5).drop(columns="amount").to_csv(home / "data.csv", index=False)
    table(seed=1).drop(columns="amount").to_csv(home / "new.csv", index=False)
    facts = facts_of("fit", "data.csv", "--target", "label", "--out", "model.skops", cwd=home)
    (home / "facts.json").write_text(json.dumps(facts))
    return home


def test_facts_of_fit(folder):
    facts = json.loads((folder / "facts.json").read_text())
    data = pd.read_csv(folder / "data.csv")
    assert facts["rows"] == 80
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
    facts = facts_of("predict", "model.skops", "new.csv", "--out", "out/predictions.csv", cwd=folder)
    predictions = pd.read_csv(folder / "out" / "predictions.csv")
    truth = pd.read_csv(folder / "new.csv")["label"]
    assert list(predictions.columns) == ["label", "decision", "P(no)", "P(yes)"]
    assert np.allclose(predictions["P(no)"] + predictions["P(yes)"], 1)
    assert list(np.where(predictions["P(yes)"] > 0.5, "yes", "no")) == list(predictions["label"])
    assert len(predictions) == facts["rows"] == 80
    assert facts["error"] == pytest.approx(np.mean(predictions["label"] != truth))
    assert facts["error"] < 0.2


def test_the_model_is_a_pipeline_that_python_opens(folder):
    model = rkhs.load(folder / "model.skops")
    features = pd.read_csv(folder / "new.csv")
    predictions = pd.read_csv(folder / "out" / "predictions.csv") if (folder / "out").exists() else None
    found = model.predict(features[["width", "height", "size", "color"]])
    assert set(found) <= {"yes", "no"}
    if predictions is not None:
        assert list(found) == list(predictions["label"])


def test_inspect_has_the_facts_of_fit(folder):
    facts, expected = facts_of("inspect", "model.skops", cwd=folder), json.loads((folder / "facts.json").read_text())
    assert facts["rkhs"] == rkhs.__version__
    assert facts["size in bytes"] == (folder / "model.skops").stat().st_size
    for name in ("target", "C", "nu", "kernel", "comparison"):
        assert facts[name] == expected[name]


def test_text_output_has_the_same_facts(folder):
    done = within(folder, "inspect", "model.skops")
    assert done.exit_code == 0
    for word in ("target: label", "plain SVM", "converged", "width, height, size"):
        assert word in done.stdout


@pytest.mark.slow
def test_fit_with_a_grid_over_parquet(folder):
    table(rows=60).drop(columns="label").to_parquet(folder / "data.parquet")
    arguments = ("--target", "amount", "--regression", "--invariance", "graph", "--cv", "--out", "grid/model.skops")
    facts = facts_of("fit", "data.parquet", *arguments, "--picture", "grid/picture.png", cwd=folder)
    assert facts["picture"] == "grid/picture.png"
    assert (folder / "grid" / "picture.png").exists()
    model = rkhs.load(folder / "grid" / "model.skops")[-1]
    assert len(model.cv_results_["params"]) == facts["settings tried"] == 75  # C, nu and scale
    assert facts["C"] == model.C_
    facts_of("predict", "grid/model.skops", "data.parquet", "--out", "grid/out.parquet", cwd=folder)
    assert len(pd.read_parquet(folder / "grid" / "out.parquet")) == 60


@pytest.mark.slow
def test_fit_a_number(folder):
    frame = table(rows=60, labeled=0.8).drop(columns="label")
    frame.to_csv(folder / "numbers.csv", index=False)
    arguments = ("--target", "amount", "--regression", "--C", "100", "--out", "numbers.skops")
    facts = facts_of("fit", "numbers.csv", *arguments, cwd=folder)
    assert facts["rows with a target"] == frame["amount"].notna().sum()
    assert facts["comparison"]["error"] < frame["amount"].std()
    predicted = facts_of("predict", "numbers.skops", "numbers.csv", "--out", "numbers_out.csv", cwd=folder)
    assert predicted["root mean squared error"] < 0.5
    found = pd.read_csv(folder / "numbers_out.csv")
    assert list(found.columns) == ["amount", "lower (90 %)", "upper (90 %)"]
    known = frame["amount"].notna()
    inside = (found["lower (90 %)"] <= frame["amount"]) & (frame["amount"] <= found["upper (90 %)"])
    assert inside[known].mean() >= 0.9


def test_labels_that_look_like_numbers_stay_as_written(folder):
    frame = table(rows=40)
    frame["label"] = np.where(frame["label"] == "yes", "1", "0")
    frame.loc[::4, "label"] = ""
    frame.drop(columns="amount").to_csv(folder / "digits.csv", index=False)
    facts = facts_of(
        "fit", "digits.csv", "--target", "label", "--invariance", "none", "--out", "digits.skops", cwd=folder
    )
    assert set(facts["classes"]) == {"0", "1"}
    assert facts["rows with a target"] == 30


@pytest.mark.slow
def test_several_classes_without_invariance(folder):
    frame = table(rows=60)
    frame["label"] = np.digitize(frame["amount"], [-0.7, 0.7])
    frame.drop(columns="amount").to_csv(folder / "three.csv", index=False)
    facts = facts_of("fit", "three.csv", "--target", "label", "--invariance", "none", "--out", "t.skops", cwd=folder)
    assert set(facts["classes"]) == {"0", "1", "2"}
    assert facts["nu"] == 0
    predicted = facts_of("predict", "t.skops", "three.csv", "--out", "t.csv", cwd=folder)
    assert predicted["error"] < 0.3


def test_a_new_category_and_an_empty_cell_are_no_obstacle(folder):
    frame = pd.read_csv(folder / "new.csv").head(3)
    frame["color"] = ["red", "violet", None]
    frame["width"] = [1.0, None, 2.0]
    frame.to_csv(folder / "odd.csv", index=False)
    assert facts_of("predict", "model.skops", "odd.csv", "--out", "odd_out.csv", cwd=folder)["rows"] == 3


BAD_TABLES = {
    "empty.csv": "",
    "header.csv": "a,label\n",
    "ragged.csv": "a,label\n1,x\n2,y,3,4\n",
    "one_class.csv": "a,label\n1,x\n2,x\n3,\n",
    "no_label.csv": "a,label\n1,\n2,\n",
    "single.csv": "a,label\n1,x\n2,x\n3,x\n4,y\n",
    "alone.csv": "label\n" + "x\ny\n" * 3,
    "names.csv": "who,label\n" + "".join(f"person {k},{'xy'[k % 2]}\n" for k in range(60)),
    "many.csv": "a,label\n" + "".join(f"{k},{k / 7}\n" for k in range(60)),
    "text.csv": "a,label\n" + "".join(f"{k},word\n" for k in range(30)),
    "blank.csv": "\n\n",
    "one.csv": "a,label\n1,x\n",
    "prose.csv": "Dear Sir,\nthis is not a table, is it?\nNo.\n",
    "twice.csv": "a,a,label\n1,2,x\n3,4,y\n5,6,x\n",
    "huge.csv": "a,label\n1e200,x\n2,x\n2,x\n3,y\n4,y\n4,y\n",
    "same.csv": "a,label\n" + "1,x\n1,y\n" * 3,
    "mixed.csv": "a,label\n" + "".join(f"{'oops' if k == 4 else k / 7},{'xy'[k % 2]}\n" for k in range(60)),
    "infinite.csv": "a,label\n1,x\ninf,x\n2,y\n3,y\n2,x\n3,y\n",
}


@pytest.mark.every
@pytest.mark.parametrize(
    ("name", "arguments", "complaint"),
    [
        ("nothing.csv", [], "There is no file nothing.csv"),
        ("empty.csv", [], "empty.csv has no columns"),
        ("header.csv", [], "has no rows"),
        ("ragged.csv", [], "ragged.csv, line 3 has 4 cells and the header 2 names"),
        ("data.csv", ["--target", "lable"], "has no column 'lable'; its columns are width, height"),
        ("data.csv", ["--ignore", "nobody"], "has no column 'nobody'"),
        ("data.csv", ["--invariance", "magic"], "--invariance must be one of auto, gradient"),
        ("data.csv", ["--C", "-1"], "--C must be a finite number > 0"),
        ("data.csv", ["--nu", "inf"], "--nu must be a finite number >= 0"),
        ("data.csv", ["--regression"], "which is not a number"),
        ("one_class.csv", [], "has one class only, 'x'"),
        ("no_label.csv", [], "Every row of column 'label' is empty"),
        ("single.csv", [], "Class 'y' of column 'label' has fewer than three rows"),
        ("alone.csv", [], "alone.csv has no column to learn from"),
        ("names.csv", [], "no column to learn from but 'who', whose cells differ in most rows: read it as text with"),
        ("many.csv", [], "has 60 different numbers: predict it with --regression"),
        ("text.csv", ["--regression"], "text.csv, line 2: column 'label' has 'word', which is not a number"),
        ("infinite.csv", [], "infinite.csv, line 3: column 'a' has 'inf', and the squares of numbers beyond"),
        ("blank.csv", [], "blank.csv has no columns"),
        ("one.csv", [], "has one class only, 'x'"),
        ("prose.csv", [], "prose.csv, line 3 has 1 cells and the header 2 names"),
        ("twice.csv", [], "has two columns 'a': rename one of them"),
        ("huge.csv", [], "line 2: column 'a' has '1e200', and the squares of numbers beyond"),
        ("same.csv", [], "All rows of same.csv are the same"),
        ("mixed.csv", [], "mixed.csv, line 6: column 'a' has 'oops', while most cells are numbers"),
        ("latin.csv", [], "latin.csv, line 2 is not text in UTF-8"),
        ("broken.parquet", [], "broken.parquet cannot be read as a Parquet file"),
        (".", [], "is a folder, not a table"),
        ("data.csv", ["--out", "."], "is a folder: give the name of a file to write"),
        ("data.csv", ["--out", "data.csv/model.skops"], "cannot be written: choose another place with --out"),
    ],
)
def test_fit_refuses_with_one_sentence(folder, name, arguments, complaint, monkeypatch):
    monkeypatch.chdir(folder)
    for table_name, text in BAD_TABLES.items():
        (folder / table_name).write_text(text)
    (folder / "latin.csv").write_bytes("a,label\n1,\xe9\n2,\xdf\n".encode("latin-1"))
    (folder / "broken.parquet").write_text("no table")
    target = [] if "--target" in arguments else ["--target", "label"]
    out = [] if "--out" in arguments else ["--out", "never.skops"]
    assert complaint in refused("fit", name, *target, *arguments, *out)
    assert not (folder / "never.skops").exists()


@pytest.mark.every
@pytest.mark.parametrize(
    ("model", "data", "complaint"),
    [
        ("nothing.skops", "new.csv", "There is no file nothing.skops"),
        ("data.csv", "new.csv", "data.csv is not a model file of rkhs"),
        ("model.skops", "nothing.csv", "There is no file nothing.csv"),
        ("model.skops", "narrow.csv", "narrow.csv has no column 'size', which the model needs"),
        ("model.skops", "wordy.csv", "wordy.csv, line 3: column 'width' has 'wide', which is not a number"),
        ("old.skops", "new.csv", "was saved by rkhs 0.0.7 and this is rkhs"),
        ("bare.skops", "new.csv", "was not written by `rkhs fit`"),
        (".", "new.csv", ". is a folder, not a model file"),
        ("model.skops", "vast.csv", "vast.csv, line 2: column 'width' has '1e+200', and the squares of numbers beyond"),
        ("model.skops", "bare.skops", "bare.skops"),
    ],
)
def test_predict_refuses_with_one_sentence(folder, model, data, complaint, monkeypatch):
    monkeypatch.chdir(folder)
    new = pd.read_csv(folder / "new.csv")
    new.drop(columns="size").to_csv(folder / "narrow.csv", index=False)
    new.astype({"width": object}).head(3).replace({"width": {new["width"][1]: "wide"}}).to_csv(
        folder / "wordy.csv", index=False
    )
    new.assign(width=1e200).to_csv(folder / "vast.csv", index=False)
    rkhs.save(rkhs.Gaussian(), folder / "bare.skops")
    older(folder / "model.skops", folder / "old.skops")
    assert complaint in refused("predict", model, data, "--out", "never.csv")
    assert not (folder / "never.csv").exists()


def older(path: Path, copy: Path):
    """Copy a model file as if it were written by an older version."""
    from zipfile import ZipFile

    with ZipFile(path) as source, ZipFile(copy, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name == "rkhs.json":
                content = json.dumps({**json.loads(content), "rkhs": "0.0.7"}).encode()
            target.writestr(name, content)


def test_inspect_reads_files_of_other_versions_and_refuses_others(folder, monkeypatch):
    monkeypatch.chdir(folder)
    older(folder / "model.skops", folder / "old.skops")
    assert facts_of("inspect", "old.skops", cwd=folder)["rkhs"] == "0.0.7"
    assert "is not a model file of rkhs" in refused("inspect", "data.csv")
    assert "There is no file" in refused("inspect", "nothing.skops")


@pytest.mark.slow
def test_a_process_refuses_in_the_same_way(folder):
    done = rkhs_command("fit", "data.csv", "--target", "lable", "--out", "other.skops", cwd=folder)
    assert sentence(done.returncode, done.stdout, done.stderr)


@pytest.mark.slow
def test_ctrl_c_stops_at_once_and_writes_nothing(folder):
    code = (
        "import os, signal, sys, rkhs._cli.fit as fit; from rkhs._cli import main;"
        "fit.Fit.of = lambda *_: os.kill(os.getpid(), signal.SIGINT);"
        "sys.argv = ['rkhs', 'fit', 'data.csv', '--target', 'label', '--out', 'stopped.skops']; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 130
    assert "model" not in done.stdout
    assert done.stderr.strip() == "Stopped."
    assert not (folder / "stopped.skops").exists()


def test_errors_in_json(folder):
    done = within(folder, "inspect", "nothing.skops", "--json")
    assert done.exit_code == 1
    assert json.loads(done.stdout) == {"error": "There is no file nothing.skops."}


@pytest.mark.every
@pytest.mark.parametrize("arguments", [["fit"], ["fit", "a.csv"], ["conjure"], ["predict", "a.skops", "b.csv", "-x"]])
def test_wrong_usage_exits_with_two(arguments):
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert "Usage" in done.stderr


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
    helped = CliRunner().invoke(app, ["--help"])
    assert helped.exit_code == 0
    for name in ("fit", "predict", "inspect", "demo"):
        assert name in helped.stdout


@pytest.mark.slow
def test_many_rows_and_ten_thousand_texts_fit_and_predict_within_two_gibibytes(tmp_path):
    rng, rows = np.random.default_rng(0), 22_000
    X, city = rng.standard_normal((rows, 3)), rng.integers(10_000, size=rows)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    frame["city"] = [f"city {k}" for k in city]
    frame["label"] = np.where(X[:, 0] + X[:, 1] * X[:, 2] > 0, "yes", "no")
    frame.to_csv(tmp_path / "large.csv", index=False)
    command = ("fit", "large.csv", "--target", "label", "--invariance", "none", "--out", "large.skops")
    facts = facts_of_process(*command, cwd=tmp_path)
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 2 * 2**20  # in KiB, of the largest child so far
    assert 20_000 <= facts["rows learned from"] < 20_100
    assert "in the span of Landmarks: 1000 functions" in facts["solution"]
    (column,) = [row for row in facts["table"] if row["column"] == "city"]
    assert column["values"] == len(set(city.tolist()))
    assert f"the {column['values'] - 49} rarest" in column["cells"]
    predicted = facts_of_process("predict", "large.skops", "large.csv", "--out", "out.csv", cwd=tmp_path)
    assert predicted["rows"] == rows
    assert predicted["error"] < 0.1
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 2 * 2**20


@pytest.mark.slow
def test_demo_shows_that_priors_help(tmp_path):
    facts = facts_of("demo", "--out", tmp_path, cwd=tmp_path)
    errors = [row["error"] for row in facts["few labels"]]
    assert all(error < errors[0] for error in errors[1:])
    assert Path(facts["picture"]).read_bytes().startswith(b"\x89PNG")


def test_the_old_option_names_the_new_ones(tmp_path):
    done = CliRunner().invoke(app, ["fit", str(tmp_path / "a.csv"), "--target", "b", "--monotone", "c:+"])
    assert done.exit_code == 1
    assert "use --increasing COLUMN or --decreasing COLUMN" in " ".join((done.stdout + done.stderr).split())
