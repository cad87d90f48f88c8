"""Broken tables and options: each has a sentence with a remedy and no traceback, and nothing is written."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from rkhs._cli.commands import app

GOOD = "a,b,label\n" + "".join(f"{k % 7},{(k * k) % 11},{'xy'[k % 2]}\n" for k in range(40))
ROWS = GOOD.splitlines()

# name -> (table, options, what is wrong, what to do)
BROKEN = {
    "no file": (None, [], "There is no file", "Did you mean 'tables.csv'?"),
    "empty": ("", [], "has no columns", "the first line of a table has their names"),
    "only a header": ("a,label\n", [], "has no rows", "a line for each row"),
    "short row": (GOOD + "1,2\n", [], "its cells are 2 and the names in the header 3", "put cells with a separator"),
    "long row": (GOOD + "1,2,x,3\n", [], "its cells are 4", "or name another with --separator"),
    "open quote": (
        GOOD + '1,2,"x\n',
        [],
        "opens a quote that is never closed",
        "write a quote within a quoted cell twice",
    ),
    "no name": (",b,label\n1,2,x\n", [], "Column 1 of table.csv has no name", "give it one in the header"),
    "same names": ("a,a,label\n1,2,x\n", [], "two columns 'a'", "give each a name of its own"),
    "other encoding": (GOOD.encode() + b"1,2,\xe9\n", [], "is no text in UTF-8", "save it in that encoding"),
    "binary": (b"\x00\x01" * 50, [], "NUL byte", "this is no CSV text"),
    "word among numbers": (GOOD + "one,2,x\n", [], "has 'one', while most cells are numbers", "leave the cell empty"),
    "infinite": (GOOD + "inf,2,x\n", [], "has 'inf'", "or name it with --missing"),
    "too large": (GOOD + "1e300,2,x\n", [], "numbers beyond 1e+100", "use other units"),
    "long integers": (GOOD + "9007199254740993,2,x\n", [], "an integer that float64 cannot hold", "--text or leave"),
    "percents": ("a,label\n10%,x\n20%,y\n30%,x\n40%,y\n", [], "a number in a form of its own", "write numbers with"),
    "thousands": (
        "a;label\n1,234;x\n2,345;y\n1,111;x\n2,1;y\n3,222;x\n".replace("2,1;", "2,100;"),
        [],
        "decimal comma",
        "--decimal",
    ),
    "dates of two orders": ("a,label\n2/3/2024,x\n4/3/2024,y\n", [], "day or month may be first", "write 2024-02-29"),
    "no such date": ("a,label\n2024-02-29,x\n2023-02-29,y\n", [], "no such date", "column 'a' has '2023-02-29'"),
    "years of two digits": ("a,label\n1.2.24,x\n3.4.24,y\n", [], "year has two digits", "write four"),
    "one class": ("a,label\n1,x\n2,x\n3,x\n", [], "one class only, 'x'", "add rows of another class"),
    "single row of a class": (
        GOOD + "1,2,z\n",
        [],
        "Class 'z' of column 'label' has a single row",
        "add rows, or leave",
    ),
    "no label": ("a,label\n1,\n2,\n", [], "Every row of column 'label' is empty", "some rows need a target"),
    "numbers as classes": (
        "a,label\n" + "".join(f"{k},{k / 3}\n" for k in range(60)),
        [],
        "60 different numbers",
        "--regression",
    ),
    "nothing to learn from": ("label\nx\ny\n", [], "no column to learn from", "add a column"),
    "names only": (
        "who,label\n" + "".join(f"p{k},{'xy'[k % 2]}\n" for k in range(60)),
        [],
        "but 'who'",
        "--text 'who'",
    ),
    "all the same": (
        "a,label\n1,x\n1,y\n1,x\n1,y\n",
        [],
        "are the same in the columns",
        "add a column in which they differ",
    ),
    "no such target": (GOOD, ["--target", "lable"], "has no column 'lable'", "Did you mean 'label'?"),
    "no such column": (GOOD, ["--ignore", "B"], "has no column 'B'", "Did you mean 'b'?"),
    "no such id": (GOOD, ["--id", "nobody"], "has no column 'nobody'", "its columns are a, b, label"),
    "no such invariance": (
        GOOD,
        ["--invariance", "gradeint"],
        "--invariance must be one of",
        "Did you mean 'gradient'?",
    ),
    "negative C": (GOOD, ["--C", "-1"], "--C must be a finite number > 0", "10 is a good start"),
    "infinite nu": (GOOD, ["--nu", "inf"], "--nu must be a finite number >= 0", "1 is a good start"),
    "long separator": (GOOD, ["--separator", "::"], "--separator must be one sign", "such as ;"),
    "odd decimal sign": (GOOD, ["--decimal", "'"], "--decimal must be the sign . or the sign ,", "'"),
    "same signs": (GOOD, ["--decimal", ",", "--separator", ","], "are both ','", "give each a sign of its own"),
    "monotone without a sign": (GOOD, ["--monotone", "a"], "takes columns with +1", "as in age=+1,income=-1"),
    "monotone twice": (GOOD, ["--monotone", "a=1,a=-1"], "names column 'a' twice", "give it one sign"),
    "monotone elsewhere": (GOOD, ["--monotone", "c=+1"], "'c' is no column to learn from", "those are a, b"),
    "monotone text": (GOOD, ["--monotone", "a=+1", "--text", "a"], "is no column of numbers or dates", "those are b"),
    "monotone classes": (
        GOOD + "1,2,z\n3,4,z\n",
        ["--monotone", "a=+1"],
        "has 3 classes",
        "leave it out, or predict numbers",
    ),
    "words to predict": (GOOD, ["--regression"], "which is no number", "Without --regression classes are predicted"),
    "few numbers": ("a,label\n1,2\n2,3\n", ["--regression"], "has 2 numbers", "add rows with one"),
    "picture of no kind": (GOOD, ["--picture", "p.xyz"], "names no kind of picture", "it can end in"),
    "one file for two": (
        GOOD,
        ["--report", "m.skops"],
        "m.skops is the file of --out too",
        "another name with --report",
    ),
    "over the table": (GOOD, ["--report", "table.csv"], "is the input table.csv", "give another name with --report"),
    "nowhere to write": (GOOD, ["--out", "table.csv/m.skops"], "cannot be written", "choose another place with --out"),
}


@pytest.mark.parametrize(("content", "options", "wrong", "remedy"), BROKEN.values(), ids=BROKEN)
def test_each_has_a_remedy(content, options, wrong, remedy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = "table.csv" if content is not None else "table.cvs"
    (tmp_path / ("table.csv" if content is not None else "tables.csv")).write_bytes(
        content if isinstance(content, bytes) else (GOOD if content is None else content).encode()
    )
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    target = [] if "--target" in options else ["--target", "label"]
    out = [] if "--out" in options else ["--out", "m.skops"]
    done = CliRunner().invoke(app, ["fit", name, *target, *out, *options])
    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit)
    assert done.stdout == ""
    said = " ".join(done.stderr.split())
    assert said.startswith("Error: ")
    assert wrong in said
    assert remedy in said
    assert "Traceback" not in said
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_all_problems_are_told_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"a": ["1", "2", "x"] * 4, "b": ["1%"] * 12, "c": ["1/2/2024"] * 12, "label": ["x"] * 12})
    frame.to_csv("table.csv", index=False)
    options = ["--C", "0", "--ignore", "d", "--monotone", "a", "--invariance", "magic"]
    done = CliRunner().invoke(app, ["fit", "table.csv", "--target", "label", "--out", "m.skops", *options])
    first, *each = done.stderr.strip().splitlines()
    assert first == "Error: there are 8 problems."
    for number, (line, part) in enumerate(
        zip(each, ["magic", "--C", "--monotone", "'d'", "'x', while", "'1%'", "'1/2/2024'", "one class"], strict=True),
        1,
    ):
        assert line.startswith(f"  {number}. ")
        assert part in line


def test_all_columns_that_a_model_misses_are_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.csv").write_text(GOOD)
    assert (
        CliRunner()
        .invoke(app, ["fit", "table.csv", "--target", "label", "--out", "m.skops", "--invariance", "none"])
        .exit_code
        == 0
    )
    (tmp_path / "new.csv").write_text("A,c\n1,2\n")
    done = CliRunner().invoke(app, ["predict", "m.skops", "new.csv"])
    assert "new.csv has no column 'a', which the model needs. Did you mean 'A'?" in done.stderr
    assert "new.csv has no column 'b', which the model needs." in done.stderr


def test_options_and_commands_that_resemble_others():
    for arguments, near in ((["fit", "t.csv", "--targt", "x"], "--target"), (["predcit"], "Did you mean 'predict'?")):
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 2
        assert near in done.stderr
    assert "0 takes any that is free" in CliRunner().invoke(app, ["play", "--no-browser", "--port", "99999"]).stderr


@pytest.mark.parametrize("seed", range(6))
def test_random_damage_is_never_a_traceback(seed, tmp_path, monkeypatch):
    """Bytes of a good table changed, doubled or cut off at random: it is refused with a sentence, or read."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(seed)
    for _ in range(15):
        data = bytearray(GOOD.encode())
        for _ in range(rng.integers(1, 6)):
            place = int(rng.integers(len(data)))
            data[place : place + int(rng.integers(0, 3))] = (
                rng.integers(0, 256, rng.integers(0, 3)).astype(np.uint8).tobytes()
            )
        (tmp_path / "table.csv").write_bytes(bytes(data[: rng.integers(1, len(data) + 1)]))
        done = CliRunner().invoke(app, ["fit", "table.csv", "--target", "label", "--out", "m.skops", "--C", "0"])
        assert done.exit_code == 1  # C = 0 is refused in any case, and learns nothing
        assert isinstance(done.exception, SystemExit)
        assert done.stderr.startswith("Error: ")
