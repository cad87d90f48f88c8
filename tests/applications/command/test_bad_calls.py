"""Bad calls of the command: each has an exit code and a sentence with the place and a remedy, and writes nothing.

`CALLS` is the table: the files that are there, the call, and parts of the message.
"""

import gzip
import json
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from running import command, invoke, refused, soundings

import rkhs

GOOD = "a,b,label\n" + "".join(f"{k % 7},{(k * k) % 11},{'xy'[k % 2]}\n" for k in range(40))
NAMES = "who,label\n" + "".join(f"p{k},{'xy'[k % 2]}\n" for k in range(60))
SIXTY = "a,label\n" + "".join(f"{k},{k / 3}\n" for k in range(60))
NEITHER, MOSTLY = "neither a number such as 1234.5 nor a date such as 2024-02-29", "while most cells are numbers"
COMPOUND = "Column 'a' of odd.parquet holds lists, bytes or other compound values"
CUT = gzip.compress(b"a,label\n" + b"1.5,x\n-2,y\n" * 1000)[:-40]

# name -> (content of odd.csv, what is wrong, what to do): parts of the message
TABLES = {
    "empty": ("", "odd.csv has no columns", "the first line of a table must name them"),
    "blank": ("\n \n\n", "odd.csv has no columns"),
    "only a header": ("a,label\n", "odd.csv has no rows", "add a line for each row"),
    "short row": ("a,b,label\n1,2,x\n3,y\n", "line 3 has 2 cells and the header 3 names", "quote cells that contain a"),
    "long row": ("a,label\n1,x\n2,y,3\n", "line 3 has 3 cells and the header 2", "another separator with --sep"),
    "row names of R": ("a,label\n1,1.5,x\n2,-2,y\n", "odd.csv, line 2 has 3 cells and the header 2 names"),
    "prose": ("Dear Sir,\nthis is not a table, is it?\nNo.\n", "odd.csv, line 3 has 1 cells and the header 2 names"),
    "long row after newlines": ('a,label\n"1\n2\n",x\n2,y,3\n', "odd.csv, line 5 has 3 cells"),
    "decimal commas between commas": ("a,label\n1,5,x\n", "odd.csv, line 2 has 3 cells"),
    "index of pandas": (",a,label\n0,1,x\n1,2,y\n", "Column 1 of odd.csv has no name", "give it one in the header"),
    "unnamed column": ("a,,label\n0,1,x\n1,2,y\n", "Column 2 of odd.csv has no name"),
    "same names": ("a,a,label\n1,2,x\n3,4,y\n", "odd.csv has two columns 'a'", "rename one of them"),
    "same names but for spaces": ("a,a ,label\n1,2,x\n3,4,y\n", "odd.csv has two columns 'a'"),
    "open quote": ('a,label\n1,x\n2,"y\n3,x\n', "line 3 opens a quote that is never closed", "double a quote within a"),
    "text behind a quote": ('a,label\n1,"x"y\n', "odd.csv, line 2 has text after a closing quote"),
    "backslashed quote": ('a,label\n1,x\n2,"5\\" y"\n', "odd.csv, line 3 has text after a closing quote"),
    "NUL": ("a,label\n1,x\n2,\0y\n", "odd.csv, line 3 contains a NUL byte", "not CSV text"),
    "Latin 1": (b"a,label\n1,x\n2,\xe9\n", "odd.csv, line 3 is not text in UTF-8", "save the file in that encoding"),
    "UTF-16 without a mark": ("a,label\n1,x\n2,y\n".encode("utf-16-le"), "odd.csv, line 1 contains a NUL byte"),
    "UTF-16 cut off": ("a,label\n1,x\n2,y\n".encode("utf-16")[:-1], "odd.csv is not text in UTF-8"),
    "UTF-32": ("a,label\n1,x\n2,y\n".encode("utf-32"), "NUL byte"),
    "zip": (b"PK\x03\x04\x14\x00\x00\x00\x08\x00\xe9\xff", "odd.csv, line 1"),
    "Parquet by another name": (b"PAR1\x15\x04\x15\x00\x00", "odd.csv, line 1"),
    "infinite": ("a,label\n1,x\ninf,y\n3,x\n", "line 3: column 'a' has 'inf', and the squares", "another unit"),
    "too large": ("a,label\n1,x\n1e400,y\n3,x\n", "line 3: column 'a' has '1e400', and the squares of numbers beyond"),
    "large": (GOOD + "1e300,2,x\n", "numbers beyond 1e+100", "use another unit"),
    "not a number": ("a,label\n1,x\nNaN,y\n3,x\n", f"has 'NaN', {MOSTLY}: leave the cell empty, or name"),
    "mark among numbers": ("a,label\n1,x\n2,y\n?,x\n", f"odd.csv, line 4: column 'a' has '?', {MOSTLY}"),
    "word among numbers": (GOOD + "one,2,x\n", f"line 42: column 'a' has 'one', {MOSTLY}", "leave the cell empty"),
    "beyond 2^53": (GOOD + "9007199254740993,2,x\n", "an integer that float64 cannot represent", "--text or leave"),
    "beyond 2^63": ("a,label\n1,x\n2,y\n9223372036854775809,x\n", "line 4: column 'a' has '9223372036854775809', an"),
    "percents": ("a,label\n10%,x\n20 %,y\n30%,x\n40%,y\n", f"'10%', {NEITHER}", "write it without the sign '%'"),
    "prices": ("a,label\n$63.93,x\n€5,y\n", f"'$63.93', {NEITHER}", "sign '$', which the name of the column can hold"),
    "a price among numbers": (GOOD + "€5,2,x\n", MOSTLY, "without the sign '€'"),
    "thousands": ('a,label\n"1,234",x\n"2,345",y\n', f"has '1,234', {NEITHER}"),
    "thousands among numbers": (GOOD + '"1,234.5",2,x\n', MOSTLY, "state the decimal sign with --decimal; --ignore"),
    "thousands or decimals": ("a;label\n1,234;x\n2,345;y\n", "whose comma may be a decimal or", "state --decimal"),
    "thousands of Switzerland": ("a,label\n1'234,x\n2'345,y\n", f'has "1\'234", {NEITHER}'),
    "thousands and decimals": ("a;label\n1.234,5;x\n2.345,6;y\n", f"has '1.234,5', {NEITHER}"),
    "quoted decimal commas": ('a,label\n"1,5",x\n"2,5",y\n', f"has '1,5', {NEITHER}"),
    "points and commas": ("a;label\n1.234;x\n2,5;y\n", "while other cells have a comma", "state which is the decimal"),
    "points beside commas": ("a;b;label\n1.234;0,5;x\n999;2,5;y\n", "whose point may separate thousands", "--decimal"),
    "dates of two orders": (
        "a,label\n2/3/2024,x\n3/4/2024,y\n",
        "day or month may be first: write 2024-02-29",
        "--ignore 'a' leaves",
    ),
    "dates in both orders": ("a,label\n29/3/2024,x\n3/29/2024,y\n", f"line 3: column 'a' has '3/29/2024', {NEITHER}"),
    "years of two digits": ("a,label\n29.2.24,x\n1.3.24,y\n", f"has '29.2.24', {NEITHER}", "write it like these"),
    "no such date": ("a,label\n2023-02-28,x\n2023-02-29,y\n", f"line 3: column 'a' has '2023-02-29', {NEITHER}"),
    "no such month": ("a,label\n2023-13-28,x\n2023-02-03,y\n", f"line 2: column 'a' has '2023-13-28', {NEITHER}"),
    "no such time": ("a,label\n23:59,x\n12:61,y\n", f"line 3: column 'a' has '12:61', {NEITHER}"),
    "word among dates": ("a,label\n2024-02-29,x\nsoon,y\n2024-02-03,x\n", "has 'soon', while most cells are dates"),
    "underscores": ("a,label\n1,x\n1_000,y\n3,x\n", f"line 3: column 'a' has '1_000', {MOSTLY}"),
    "hexadecimal": ("a,label\n1,x\n0x10,y\n3,x\n", f"line 3: column 'a' has '0x10', {MOSTLY}"),
    "other digits": ("a,label\n1,x\n\u0661,y\n3,x\n", f"line 3: column 'a' has '\u0661', {MOSTLY}"),
    "long class": (f"a,label\n1,x\n2,{'y' * 5000}\n", "yyy...', a text of more than 1000 char", "too long for a class"),
    "one class": ("a,label\n1,x\n2,x\n3,\n", "has one class only, 'x'", "add rows of another class"),
    "single row": ("a,label\n1,x\n", "has one class only, 'x'"),
    "single row of a class": (GOOD + "1,2,z\n", "Class 'z' of column 'label' has fewer", "add rows, or leave"),
    "no label": ("a,label\n1,\n2,\n", "Every row of column 'label' is empty", "some rows need a target"),
    "numbers as classes": (SIXTY, "60 different numbers", "--regression"),
    "no target": ("a,b\n1,x\n2,y\n", "odd.csv has no column 'label'; its columns are a, b"),
    "nothing to learn from": ("label\nx\ny\n", "odd.csv has no column to learn from", "add a column"),
    "only empty columns": ("a,label\n,x\n,y\n", "odd.csv has no column to learn from"),
    "names only": (NAMES, "but 'who', whose cells dif", "--text 'who'"),
    "all the same": ("a,label\n" + "1,x\n1,y\n" * 3, "All rows of odd.csv are the same", "add a column in which they"),
}

# name -> (options, what is wrong, what to do)
OPTIONS = {
    "target": (["--target", "lable"], "odd.csv has no column 'lable'; its columns are a, b", "Did you mean 'label'?"),
    "column": (["--ignore", "B"], "has no column 'B'", "Did you mean 'b'?"),
    "id": (["--id", "nobody"], "has no column 'nobody'", "its columns are a, b, label"),
    "invariance": (["--invariance", "gradeint"], "--invariance must be one of auto, g", "Did you mean 'gradient'?"),
    "C": (["--C", "-1"], "--C must be a finite number > 0", "10 is a good start"),
    "nu": (["--nu", "inf"], "--nu must be a finite number >= 0", "1 is a good start"),
    "weight of no prior": (["--nu", "1"], "--nu is the weight of a prior", "name one, such as gradient"),
    "separator": (["--separator", "::"], "--separator must be one character", "such as ;"),
    "decimal": (["--decimal", "'"], "--decimal must be . or ,", "'"),
    "same signs": (["--decimal", ",", "--separator", ","], "are both ','", "they must differ"),
    "both": (["--increasing", "a", "--decreasing", "a"], "is both --increasing and --decreasing", "keep one of them"),
    "increasing": (["--increasing", "c"], "'c' is not a column to learn from", "that do are a, b"),
    "text": (["--decreasing", "a", "--text", "a"], "has neither numbers nor dates", "that do are b"),
    "regression": (["--regression"], "which is not a number", "Without --regression classes are predicted"),
    "picture": (["--picture", "p.xyz"], "names no kind of picture", "it can end in"),
    "one file for two": (["--report", "m.skops"], "m.skops is the file of --out too", "another name with --report"),
    "over the table": (["--report", "odd.csv"], "is the input odd.csv", "give another name with --report"),
    "nowhere": (["--out", "odd.csv/m.skops"], "cannot be written", "choose another place with --out"),
    "folder": (["--out", "."], "is a folder", "give the name of a file to write"),
}

# name -> (content, options, what is wrong, what to do)
BOTH = {
    "points with a decimal comma": (
        "a;label\n1.5;x\n2.5;y\n",
        ["--decimal", ","],
        "such as 1234,5",
        "decimal sign ','",
    ),
    "a price to predict": (
        "a,label\n1,$5\n2,$6\n",
        ["--regression"],
        "'$5', which is not a number",
        "without the sign '$'",
    ),
    "a word to predict": ("a,label\n1,word\n", ["--regression"], "line 2: column 'label' has 'word', which is no"),
    "few numbers": ("a,label\n1,2\n2,3\n", ["--regression"], "has 2 numbers", "add rows with one"),
    "three classes": (GOOD + "1,2,z\n" * 3, ["--increasing", "a"], "has 3 classes", "leave it out, or predict numbers"),
}

NUMBERS = pa.array([1.0, 2.0, 3.0])


def with_labels(columns):
    """Return columns of Arrow and three labels."""
    return {**columns, "label": ["x", "y", "x"]}


# name -> (columns of odd.parquet, or its bytes, and parts of the message)
PARQUET = {
    "infinite": (with_labels({"a": pa.array([1.0, np.inf, 2.0])}), "row 2: column 'a' has 'inf', and the squares"),
    "2^53": (
        with_labels({"a": pa.array([1, 2**53 + 1, 2])}),
        "odd.parquet, row 2: column 'a' has '9007199254740993', an integer",
    ),
    "2^64": (
        with_labels({"a": pa.array([1, 2**64 - 1, 2], pa.uint64())}),
        "row 2: column 'a' has '18446744073709551615', an",
    ),
    "lists": (with_labels({"a": pa.array([[1.0], [2.0], [3.0]])}), COMPOUND),
    "bytes": (with_labels({"a": pa.array([b"1", b"2", b"3"])}), COMPOUND),
    "unnamed": (with_labels({"": NUMBERS}), "Column 1 of odd.parquet has no name"),
    "twice": (with_labels({"a": NUMBERS, "a ": NUMBERS}), "odd.parquet has two columns 'a'"),
    "nulls": (with_labels({"a": pa.nulls(3)}), "odd.parquet has no column to learn from"),
    "no rows": ({"a": pa.array([], pa.float64()), "label": pa.array([], pa.string())}, "odd.parquet has no rows"),
}


def written(content):
    """Return the bytes of a file: those of a text, of a frame as CSV, or of columns of Arrow as Parquet."""
    if isinstance(content, dict):
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table(content), sink)
        return sink.getvalue().to_pybytes()
    content = content.to_csv(index=False) if isinstance(content, pd.DataFrame) else content
    return content.encode() if isinstance(content, str) else content


def fit(options, name="odd.csv"):
    """Return the words of `rkhs fit`, with a target and a model unless the options name them."""
    given = {"--target": "label", "--out": "m.skops"}
    return ["fit", name, *options, *(word for option in given.items() if option[0] not in options for word in option)]


WHOLE = written(with_labels({"a": NUMBERS}))
PARQUET["no columns"] = ({}, "odd.parquet has no columns")
for name, content in {"cut off": WHOLE[:-20], "empty": b"", "no table": b"no table"}.items():
    PARQUET[name] = (content, "odd.parquet cannot be read as a Parquet file")
PREDICT = ["predict", "model.skops", "odd.csv", "--out", "never.csv"]
# name -> (content of odd.csv for a model of the columns a and b, parts of the message of `rkhs predict`)
PREDICTED = {
    "no model": ("a,b\n1,2\n", ["predict", "nothing.skops", "odd.csv"], "There is no file nothing.skops"),
    "a table as a model": ("a,b\n1,2\n", ["predict", "odd.csv", "odd.csv"], "odd.csv is not a model file of rkhs"),
    "a folder as a model": ("a,b\n1,2\n", ["predict", ".", "odd.csv"], ". is a folder, not a model"),
    "no table": ("", ["predict", "model.skops", "nothing.csv"], "There is no file nothing.csv"),
    "a model as a table": ("", ["predict", "model.skops", "bare.skops"], "bare.skops"),
    "another version": ("a,b\n1,2\n", ["predict", "old.skops", "odd.csv"], "was saved by rkhs 0.0.7 and this is rkhs"),
    "a model of Python": ("a,b\n1,2\n", ["predict", "bare.skops", "odd.csv"], "was not written by `rkhs fit`"),
    "missing columns": (
        "A,c\n1,2\n",
        PREDICT,
        "odd.csv has no column 'a', which the model needs. Did you mean 'A'?",
        "odd.csv has no column 'b', which the model needs.",
    ),
    "a word": ("a,b\nwide,2\n", PREDICT, "odd.csv, line 2: column 'a' has 'wide', which is not a number"),
    "vast numbers": ("a,b\n1e200,2\n", PREDICT, "line 2: column 'a' has '1e200', and the squares of numbers beyond"),
    "inspect: a table": ("a,b\n1,2\n", ["inspect", "odd.csv"], "is not a model file of rkhs"),
    "inspect: nothing": ("", ["inspect", "nothing.skops"], "There is no file nothing.skops"),
}
# (changes of the columns, options of `rkhs map`, parts of the message)
MAPPED = [
    ({}, "--value dept", "has no column 'dept'; ", "Did you mean 'depth'?"),
    ({}, "--x lon --y lat", "has no column 'lon'", "has no column 'lat'"),
    ({"depth": np.nan}, "", "--value must name the column of odd.csv to map: it has none"),
    ({"depth": np.nan}, "--value depth", "Column 'depth' of odd.csv has no numbers"),
    ({"depth": 7.0}, "", "'depth' of odd.csv is 7 in all rows: there is nothing to map"),
    ({"longitude": 1.0, "latitude": 2.0}, "", "at 1 places: a map needs at least 5 places"),
    ({"z": 1.0, "t": 2.0}, "", "--value must name the column of odd.csv to map, one of depth, z, t"),
    ({"depth": "deep"}, "--value depth", "column 'depth' has 'deep', which is not a number"),
    ({}, "--value latitude", "they must differ"),
    ({"sd": 0.0}, "--value depth --error sd", "'sd' of odd.csv must be positive"),
    ({"latitude": 95.0}, "", "line 2: column 'latitude' has '95.0', beyond 90 degrees", "--coordinates plane. 27 more"),
    ({"latitude": [-106.0, *[10.0] * 27]}, "--coordinates lonlat", "line 2: column 'latitude' has '-106.0', beyond 90"),
    ({}, "--region 1/2/3", "--region must be four numbers"),
    ({}, "--region 2/1/3/4", "(west, east, south, north) in degrees with west <= east"),
    ({}, "--region 170/-170/3/4", "No cell is within reach"),
    ({}, "--spacing 100", "is larger than the map"),
    ({}, "--spacing 0 --loss huber", "--loss must be one of squared, absolute", "--spacing must be a positive number"),
    ({}, "--out map.tif", "--out must be one of .nc, .csv, .parquet, .pq, got '.tif'"),
    ({}, "--picture map.xyz", "names no kind of picture"),
    ({}, "--spacing 1e-7", "cells, above 4,000,000"),
]
# name -> (files, words of the call, parts of the message)
CALLS = {
    **{f"table: {name}": ({"odd.csv": content}, fit([]), parts) for name, (content, *parts) in TABLES.items()},
    **{f"option: {name}": ({"odd.csv": GOOD}, fit(options), parts) for name, (options, *parts) in OPTIONS.items()},
    **{name: ({"odd.csv": content}, fit(options), parts) for name, (content, options, *parts) in BOTH.items()},
    **{
        f"Parquet: {name}": ({"odd.parquet": content}, fit([], "odd.parquet"), parts)
        for name, (content, *parts) in PARQUET.items()
    },
    **{name: ({"odd.csv": content}, words, parts) for name, (content, words, *parts) in PREDICTED.items()},
    **{
        f"map: {options} {change}": ({"odd.csv": soundings().assign(**change)}, f"map odd.csv {options}".split(), parts)
        for change, options, *parts in MAPPED
    },
    "map: names": (
        {"odd.csv": soundings().set_axis(["a", "b", "c"], axis=1)},
        ["map", "odd.csv"],
        ["its columns are a, b, c: name them with --x and --y"],
    ),
    "no file": ({"tables.csv": GOOD}, fit([], "table.cvs"), ["no file table.cvs", "Did you mean 'tables.csv'?"]),
    "a folder": ({}, fit([], "."), ["is a folder, not a table"]),
    "gzip cut off": ({"odd.csv.gz": CUT}, fit([], "odd.csv.gz"), ["odd.csv.gz cannot be read"]),
    "no gzip": ({"odd.csv.gz": "a,label\n1,x\n"}, fit([], "odd.csv.gz"), ["odd.csv.gz cannot be read"]),
    "a port": ({}, ["play", "--no-browser", "--port", "99999"], ["0 takes any that is free"]),
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Return model files by name: one of the columns a and b, a bare object, and one of an older version."""
    home = tmp_path_factory.mktemp("models")
    (home / "t.csv").write_text(GOOD)
    command("fit", home / "t.csv", "--target", "label", "--out", home / "model.skops", "--invariance", "none")
    rkhs.save(rkhs.Gaussian(), home / "bare.skops")
    with ZipFile(home / "model.skops") as source, ZipFile(home / "old.skops", "w") as target:
        for name in source.namelist():
            content = source.read(name)
            note = name == "rkhs.json"
            target.writestr(name, json.dumps({**json.loads(content), "rkhs": "0.0.7"}) if note else content)
    return {path.name: path.read_bytes() for path in home.glob("*.skops")}


@pytest.mark.every
@pytest.mark.parametrize(("files", "words", "parts"), CALLS.values(), ids=CALLS)
def test_a_bad_call_has_a_remedy_and_writes_nothing(files, words, parts, folder, request):
    before = {name: written(content) for name, content in files.items()}
    if words[0] in ("predict", "inspect"):
        before |= request.getfixturevalue("models")
    for name, content in before.items():
        Path(name).write_bytes(content)
    message = refused(*words)
    assert [part for part in parts if part not in message] == []
    assert {path.name: path.read_bytes() for path in Path().iterdir()} == before


def test_files_of_other_versions_are_inspected(folder, models):
    Path("old.skops").write_bytes(models["old.skops"])
    assert "rkhs: 0.0.7" in command("inspect old.skops")


def test_errors_in_json():
    done = invoke("inspect nothing.skops --json")
    assert (done.exit_code, json.loads(done.stdout)) == (1, {"error": "There is no file nothing.skops."})


USAGE = {"fit": "", "fit a.csv": "", "conjure": "", "predict a.skops b.csv -x": "", "fit t.csv --targt x": "--target"}


@pytest.mark.every
@pytest.mark.parametrize(("words", "near"), [*USAGE.items(), ("predcit", "Did you mean 'predict'?")])
def test_wrong_usage_exits_with_two(words, near):
    done = invoke(words)
    assert done.exit_code == 2
    assert "Usage" in done.stderr
    assert near in done.stderr


def test_all_problems_are_reported_at_once(folder):
    frame = pd.DataFrame({"a": ["1", "2", "x"] * 4, "b": ["1%"] * 12, "c": ["1/2/2024"] * 12, "label": ["x"] * 12})
    frame.to_csv("table.csv", index=False)
    options = ["--C", "0", "--ignore", "d", "--increasing", "a", "--decreasing", "a", "--invariance", "magic"]
    done = invoke("fit", "table.csv", "--target", "label", "--out", "m.skops", *options)
    first, *each = done.stderr.strip().splitlines()
    assert first == "Error: there are 8 problems."
    parts = ["magic", "--C", "--increasing", "'d'", "'x', while", "'1%'", "'1/2/2024'", "one class"]
    for number, (line, part) in enumerate(zip(each, parts, strict=True), 1):
        assert line.startswith(f"  {number}. ")
        assert part in line


@pytest.mark.parametrize("seed", range(6))
def test_random_damage_is_never_a_traceback(seed, folder):
    """Bytes of a good table changed, doubled or cut off at random: it is refused with a sentence, or read."""
    rng = np.random.default_rng(seed)
    for _ in range(15):
        data = bytearray(GOOD.encode())
        for _ in range(rng.integers(1, 6)):
            place, count = int(rng.integers(len(data))), int(rng.integers(0, 3))
            data[place : place + count] = rng.integers(0, 256, rng.integers(0, 3)).astype(np.uint8).tobytes()
        Path("table.csv").write_bytes(bytes(data[: rng.integers(1, len(data) + 1)]))
        refused("fit table.csv --target label --out m.skops --C 0")  # refused in any case, and learns nothing
