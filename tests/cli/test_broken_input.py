"""Test broken tables and options: each has a message with a remedy and no traceback, and nothing is written."""

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
    "empty": ("", [], "has no columns", "the first line of a table must name them"),
    "only a header": ("a,label\n", [], "has no rows", "add a line for each row"),
    "short row": (GOOD + "1,2\n", [], "has 2 cells and the header 3 names", "quote cells that contain a separator"),
    "long row": (GOOD + "1,2,x,3\n", [], "has 4 cells", "or name another separator with --separator"),
    "open quote": (
        GOOD + '1,2,"x\n',
        [],
        "opens a quote that is never closed",
        "double a quote within a quoted cell",
    ),
    "no name": (",b,label\n1,2,x\n", [], "Column 1 of table.csv has no name", "give it one in the header"),
    "same names": ("a,a,label\n1,2,x\n", [], "two columns 'a'", "rename one of them"),
    "other encoding": (GOOD.encode() + b"1,2,\xe9\n", [], "is not text in UTF-8", "save the file in that encoding"),
    "binary": (b"\x00\x01" * 50, [], "NUL byte", "not CSV text"),
    "word among numbers": (GOOD + "one,2,x\n", [], "has 'one', while most cells are numbers", "leave the cell empty"),
    "infinite": (GOOD + "inf,2,x\n", [], "has 'inf'", "use another unit"),
    "too large": (GOOD + "1e300,2,x\n", [], "numbers beyond 1e+100", "use another unit"),
    "long integers": (
        GOOD + "9007199254740993,2,x\n",
        [],
        "an integer that float64 cannot represent",
        "--text or leave",
    ),
    "percents": ("a,label\n10%,x\n20%,y\n30%,x\n40%,y\n", [], "neither a number", "write it without the sign '%'"),
    "prices": (
        "a,label\n" + "$63.93,x\n$5,y\n" * 3,
        [],
        "'$63.93', neither a number such as 1234.5",
        "write it without the sign '$', which the name of the column can hold; --ignore",
    ),
    "a price among numbers": (GOOD + "€5,2,x\n", [], "while most cells are numbers", "without the sign '€'"),
    "thousands among numbers": (
        GOOD + '"1,234.5",2,x\n',
        [],
        "while most cells are numbers",
        "state the decimal sign with --decimal; --ignore",
    ),
    "points with a decimal comma": (
        "a;label\n" + "1.5;x\n2.5;y\n" * 3,
        ["--decimal", ","],
        "neither a number such as 1234,5",
        "write it with the decimal sign ','",
    ),
    "points and commas": (
        "a;label\n" + "1.234;x\n2,5;y\n" * 3,
        [],
        "'1.234', while other cells have a comma",
        "state which is the decimal sign with --decimal",
    ),
    "points beside commas": (
        "a;b;label\n" + "1.234;0,5;x\n999;2,5;y\n" * 3,
        [],
        "'1.234', whose point may separate thousands",
        "state --decimal",
    ),
    "a price to predict": (
        "a,label\n" + "1,$5\n2,$6\n" * 6,
        ["--regression"],
        "'$5', which is not a number",
        "write it without the sign '$'",
    ),
    "thousands": (
        "a;label\n1,234;x\n2,345;y\n1,111;x\n2,1;y\n3,222;x\n".replace("2,1;", "2,100;"),
        [],
        "whose comma may be",
        "state --decimal",
    ),
    "dates of two orders": ("a,label\n2/3/2024,x\n4/3/2024,y\n", [], "day or month may be first", "write 2024-02-29"),
    "no such date": (
        "a,label\n2024-02-29,x\n2023-02-29,y\n",
        [],
        "nor a date such as 2024-02-29",
        "column 'a' has '2023-02-29'",
    ),
    "years of two digits": ("a,label\n1.2.24,x\n3.4.24,y\n", [], "'1.2.24', neither", "write it like these"),
    "one class": ("a,label\n1,x\n2,x\n3,x\n", [], "one class only, 'x'", "add rows of another class"),
    "single row of a class": (
        GOOD + "1,2,z\n",
        [],
        "Class 'z' of column 'label' has fewer than three rows",
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
        "a,label\n" + "1,x\n1,y\n" * 3,
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
    "weight of no prior": (GOOD, ["--nu", "1"], "--nu is the weight of a prior", "name one, such as gradient"),
    "long separator": (GOOD, ["--separator", "::"], "--separator must be one character", "such as ;"),
    "odd decimal sign": (GOOD, ["--decimal", "'"], "--decimal must be . or ,", "'"),
    "same signs": (GOOD, ["--decimal", ",", "--separator", ","], "are both ','", "they must differ"),
    "increasing and decreasing": (
        GOOD,
        ["--increasing", "a", "--decreasing", "a"],
        "is both --increasing and --decreasing",
        "keep one of them",
    ),
    "increasing elsewhere": (GOOD, ["--increasing", "c"], "'c' is not a column to learn from", "that do are a, b"),
    "decreasing text": (GOOD, ["--decreasing", "a", "--text", "a"], "has neither numbers nor dates", "that do are b"),
    "increasing classes": (
        GOOD + "1,2,z\n3,4,z\n5,6,z\n",
        ["--increasing", "a"],
        "has 3 classes",
        "leave it out, or predict numbers",
    ),
    "words to predict": (GOOD, ["--regression"], "which is not a number", "Without --regression classes are predicted"),
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


@pytest.mark.every
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
    message = " ".join(done.stderr.split())
    assert message.startswith("Error: ")
    assert wrong in message
    assert remedy in message
    assert "Traceback" not in message
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_all_problems_are_reported_at_once(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"a": ["1", "2", "x"] * 4, "b": ["1%"] * 12, "c": ["1/2/2024"] * 12, "label": ["x"] * 12})
    frame.to_csv("table.csv", index=False)
    options = ["--C", "0", "--ignore", "d", "--increasing", "a", "--decreasing", "a", "--invariance", "magic"]
    done = CliRunner().invoke(app, ["fit", "table.csv", "--target", "label", "--out", "m.skops", *options])
    first, *each = done.stderr.strip().splitlines()
    assert first == "Error: there are 8 problems."
    for number, (line, part) in enumerate(
        zip(
            each, ["magic", "--C", "--increasing", "'d'", "'x', while", "'1%'", "'1/2/2024'", "one class"], strict=True
        ),
        1,
    ):
        assert line.startswith(f"  {number}. ")
        assert part in line


def test_all_missing_columns_are_reported(tmp_path, monkeypatch):
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
