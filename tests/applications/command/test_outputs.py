"""What the command writes: never over what it reads, over what is there only if asked, and whole or not at all."""

import json
import os
from contextlib import chdir
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from running import invoke as command

import rkhs


def write_table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.standard_normal(20), "b": rng.choice(["[red]", ":smile:"], 20)})
    frame["decision"] = np.where(frame["a"] > 0, "[bold]", "no")
    frame.to_csv("data.csv", index=False)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a table, a link to it, and another name of it."""
    monkeypatch.chdir(tmp_path)
    write_table()
    (tmp_path / "link.csv").symlink_to("data.csv")
    os.link("data.csv", "twin.csv")
    (tmp_path / "way").symlink_to(tmp_path)
    return tmp_path


FIT = ("fit", "data.csv", "--target", "decision", "--invariance", "none")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """What `fit` writes for the table, what it prints, and predictions."""
    with chdir(tmp_path_factory.mktemp("fitted")):
        write_table()
        done = command(*FIT, "--out", "m.skops")
        assert done.exit_code == 0
        assert command("predict", "m.skops", "data.csv", "--out", "p.csv").exit_code == 0
        return {path.name: path.read_bytes() for path in Path().iterdir()}, done.stdout


@pytest.fixture
def fitted(folder, files):
    """The folder with the model and the predictions in it."""
    for name, content in files[0].items():
        if name != "data.csv":
            (folder / name).write_bytes(content)
    return folder


INPUTS = ["data.csv", "./data.csv", "../{}/data.csv", "link.csv", "twin.csv", "way/data.csv", "way/link.csv"]


@pytest.mark.parametrize("name", INPUTS)
@pytest.mark.parametrize("force", [[], ["--force"]], ids=["", "force"])
def test_an_input_is_never_replaced(folder, name, force):
    name, before = name.format(folder.name), (folder / "data.csv").read_bytes()
    for option, other in (("--out", []), ("--picture", ["--out", "m.skops"])):
        done = command(*FIT, option, name, *other, *force)
        assert done.exit_code == 1
        assert f"is the input data.csv: give another name with {option}" in done.stderr
    rkhs.save(rkhs.Gaussian(), "m.skops")
    for model, data in (("m.skops", name), (name, "other.csv")):
        assert command("predict", model, data, "--out", "data.csv", *force).exit_code == 1
    assert (folder / "data.csv").read_bytes() == before
    assert sorted(os.listdir()) == ["data.csv", "link.csv", "m.skops", "twin.csv", "way"]


def test_what_is_there_is_replaced_only_if_that_is_asked_for(fitted):
    before = {name: Path(name).read_bytes() for name in ("m.skops", "m.png", "p.csv")}
    for arguments in ((*FIT, "--out", "m.skops"), ("predict", "m.skops", "data.csv", "--out", "p.csv")):
        done = command(*arguments)
        assert done.exit_code == 1
        assert "is there already: give another name with --out, or replace it with --force" in done.stderr
    done = command(*FIT, "--out", "other.skops", "--picture", "m.png")
    assert "m.png is there already: give another name with --picture" in done.stderr
    Path("m.skops").unlink()
    assert "m.png is there already" in command(*FIT, "--out", "m.skops").stderr  # the picture beside the model
    Path("m.skops").write_bytes(before["m.skops"])
    assert {name: Path(name).read_bytes() for name in before} == before
    assert command(*FIT, "--out", "m.skops", "--C", "3", "--force").exit_code == 0
    assert command("predict", "m.skops", "data.csv", "--out", "p.csv", "--force").exit_code == 0
    assert rkhs.load("m.skops")[-1].C_ == 3
    assert not [name for name in os.listdir() if name.startswith(".")]


def test_a_model_and_its_picture_are_two_files(folder):
    (folder / "n.png").symlink_to("m.skops")
    assert "n.png is the file of --out too" in command(*FIT, "--out", "m.skops", "--picture", "n.png").stderr
    assert not Path("m.skops").exists()


@pytest.mark.slow
def test_a_link_stays_a_link(fitted):
    Path("latest.skops").symlink_to("m.skops")
    assert command(*FIT, "--out", "latest.skops", "--C", "3", "--force").exit_code == 0
    assert Path("latest.skops").is_symlink()
    assert rkhs.load("m.skops")[-1].C_ == 3


def test_names_that_a_terminal_would_understand_are_shown_and_kept(fitted, files):
    assert "[red] (" in files[1]
    assert ":smile: (" in files[1]
    found = pd.read_csv("p.csv")
    # a target of that name is not hidden by the decisions
    assert list(found.columns) == ["decision", "decision (2)", "P([bold])", "P(no)"]
    assert set(found["decision"]) == {"[bold]", "no"}


@pytest.mark.parametrize("columns", [1, pytest.param(2, marks=pytest.mark.slow)], ids=["points", "plane"])
def test_names_that_matplotlib_would_take_for_formulas_are_drawn(folder, columns):
    frame = pd.read_csv("data.csv").drop(columns="b")
    frame = frame.rename(columns={"a": "$x_{$"}).assign(other=np.arange(20))
    frame["decision"] = np.where(frame["$x_{$"] > 0, "$b^{$", "no")
    frame.to_csv("formulas.csv", index=False)
    ignored = ["--ignore", "other"] if columns == 1 else []
    done = command("fit", "formulas.csv", "--target", "decision", "--invariance", "none", "--out", "m.skops", *ignored)
    assert done.exit_code == 0, done.stderr
    assert Path("m.png").read_bytes().startswith(b"\x89PNG")


NEW_TEXTS = {
    "  b: 5 rows (u, v, (empty), ..)": ["u", "u", "v", None, "w", "[red]"],
    "  b: 1 row (u)": ["u", ":smile:"],
    "": ["[red]", ":smile:"],
}


def test_texts_that_a_model_has_not_seen_are_reported(fitted):
    for said, texts in NEW_TEXTS.items():
        pd.DataFrame({"a": [None, *np.ones(len(texts) - 1)], "b": texts}).to_csv("new.csv", index=False)
        out = command("predict", "m.skops", "new.csv", "--force").stdout
        assert ("texts that the model has not seen" in out) == bool(said)
        assert said in out
        assert len(pd.read_csv("predictions.csv")) == len(texts)


def test_sentences_are_read_by_their_words(folder):
    notes = [f"order {k} was {'late' if k % 3 else 'early'} and fine" for k in range(30)]
    pd.DataFrame({"note": notes, "price": np.arange(30) / 7}).to_csv("notes.csv", index=False)
    fit = ("fit", "notes.csv", "--target", "price", "--regression", "--invariance", "none", "--C", "1", "--json")
    note, price = json.loads(command(*fit).stdout)["table"]
    assert note["kind"] == "sentences, read by their words"
    assert (price["kind"], price["cells"]) == ("target", "0 to 4.143")
    assert "has not seen" not in command("predict", "model.skops", "notes.csv").stdout
    assert pd.read_csv("predictions.csv")["price"].round(9).nunique() == 2  # of "late" and "early"


def test_no_text_of_a_fact_is_markup(folder):
    notes = {"[/bold]": "[/x]", "rows": [{"[/a]": "[/b]"}], "nested": {"[/c]": "[/d]"}}
    rkhs.save(rkhs.Gaussian(), "m.skops", notes=notes)
    out = command("inspect", "m.skops").stdout
    assert all(text in out for text in ("[/bold]", "[/x]", "[/a]", "[/b]", "[/c]", "[/d]"))


@pytest.mark.slow
def test_what_stood_for_missing_cells_is_kept_in_the_model(folder):
    frame = pd.read_csv("data.csv")
    frame.loc[3, "b"] = "?"
    frame["a"] = frame["a"].astype(object)
    frame.loc[5, "a"] = "?"
    frame.to_csv("marked.csv", index=False)
    fit = ("fit", "marked.csv", "--target", "decision", "--invariance", "none", "--out", "m.skops")
    assert "marked.csv, line 7: column 'a' has '?'" in command(*fit).stderr
    assert command(*fit, "--missing", "?, NA").exit_code == 0
    assert command("predict", "m.skops", "marked.csv").exit_code == 0
    Path("new.csv").write_text("a,b\n1,[red]\n-,NA\n")
    assert "new.csv, line 3: column 'a' has '-'" in command("predict", "m.skops", "new.csv", "--out", "q.csv").stderr
    assert command("predict", "m.skops", "new.csv", "--out", "q.csv", "--missing", "-").exit_code == 0


def test_the_demo_replaces_no_picture(folder):
    Path("demo.png").write_text("mine")
    assert "demo.png is there already" in command("demo").stderr
    assert Path("demo.png").read_text() == "mine"


@pytest.mark.parametrize("name", ["/dev/null", "/dev/full", "pipe"])
def test_only_ordinary_files_are_replaced(folder, name):
    os.mkfifo("pipe")
    assert "cannot be written" in command(*FIT, "--out", name, "--force").stderr
    with pytest.raises(OSError, match="it is not a regular file"):
        rkhs.save(rkhs.Gaussian(), name)


@pytest.mark.parametrize("part", ["saving", "drawing", "predictions"])
def test_a_full_disk_leaves_what_was_there(fitted, part, monkeypatch):
    """Every file may grow to a few bytes only."""
    import resource

    before = {name: Path(name).read_bytes() for name in os.listdir() if Path(name).is_file()}
    least = {"saving": 100, "drawing": len(before["m.skops"]) + 5000, "predictions": 100}[part]
    assert part != "drawing" or len(before["m.png"]) > least
    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (least, usual[1]))
    try:
        if part == "predictions":
            done = command("predict", "m.skops", "data.csv", "--out", "p.csv", "--force")
        else:
            done = command(*FIT, "--out", "m.skops", "--C", "3", "--force")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)
    assert done.exit_code == 1
    name = {"saving": "m.skops", "drawing": "m.png", "predictions": "p.csv"}[part]
    (line,) = done.stderr.strip().splitlines()
    assert f"{name} cannot be written: File too large" in line
    kept = {name: Path(name).read_bytes() for name in os.listdir() if Path(name).is_file()}
    if part == "drawing":
        assert "The model is in m.skops, but m.png" in line
        assert rkhs.load("m.skops")[-1].C_ == 3
        kept["m.skops"] = before["m.skops"]
    assert kept == before
