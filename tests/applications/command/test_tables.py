"""Test odd tables: each is read right or refused with file, line and remedy."""

import gzip
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st
from numpy.testing import assert_array_equal
from running import refused

from rkhs._command.fit import examples_of
from rkhs._command.options import Request, write_table

NAN = np.nan


def seen(path, **options):
    """Return what `rkhs fit` would learn from: columns, targets, and facts."""
    examples, _, facts = examples_of(Request(data=path, target="label", **options))
    return {name: list(examples.features[name]) for name in examples.features.columns}, examples.y.tolist(), facts


def same(found, expected):
    assert list(found) == list(expected)
    for name, values in expected.items():
        assert_array_equal(found[name], values)


X, Y = [1.5, -2.0, 3.0], ["x", "y", "x"]  # what the tables below hold, if nothing else is said

# name -> (content, columns, labels)
READ = {
    "plain": ("a,label\n1.5,x\n-2,y\n3,x\n", {"a": X}, Y),
    "rows_end_in_a_comma": ("a,label\n1.5,x,\n-2,y,\n3,x,\n", {"a": X}, Y),
    "some_rows_end_in_a_comma": ("a,label\n1.5,x,\n-2,y\n3,x,,,\n", {"a": X}, Y),
    "all_lines_end_in_a_comma": ("a,label,\n1.5,x,\n-2,y,\n3,x,\n", {"a": X}, Y),
    "comma_behind_an_empty_label": ("a,label\n1.5,x,\n-2,,\n3,x,\n", {"a": X}, ["x", "", "x"]),
    "classes_called_none": ("a,label\n1.5,None\n-2,NA\n3,null\n", {"a": X}, ["None", "NA", "null"]),
    "classes_called_nan": ("a,label\n1.5,nan\n-2,NaN\n3,n/a\n", {"a": X}, ["nan", "NaN", "n/a"]),
    "texts_called_na": ("a,label\nNA,x\n,y\nnull,x\n", {"a": ["NA", "", "null"]}, Y),
    "classes_that_are_numbers": ("a,label\n1.5,01\n-2,1\n3,1.0\n", {"a": X}, ["01", "1", "1.0"]),
    "classes_beyond_float64": (
        "a,label\n1.5,9007199254740993\n-2,9007199254740992\n3,99999999999999999999\n",
        {"a": X},
        ["9007199254740993", "9007199254740992", "99999999999999999999"],
    ),
    "quoted": ('"a","label"\n"1.5","x"\n"-2","y"\n3,x\n', {"a": X}, Y),
    "quotes_within_quotes": ('a,label\n1.5,"x ""1"""\n-2,y\n3,x\n', {"a": X}, ['x "1"', "y", "x"]),
    "separator_in_quotes": ('a,label\n1.5,"x, y"\n-2,y\n3,x\n', {"a": X}, ["x, y", "y", "x"]),
    "newline_in_quotes": ('a,label\n1.5,"x\ny"\n-2,y\n3,x\n', {"a": X}, ["x\ny", "y", "x"]),
    "newline_in_a_name": ('"a\nb",label\n1.5,x\n-2,y\n3,x\n', {"a\nb": X}, Y),
    "quote_within_a_cell": ('a,label\n5" x,x\n6" x,y\n5" x,x\n', {"a": ['5" x', '6" x', '5" x']}, Y),
    "spaces": ("a , label\n 1.5 ,x \n -2, y\n3 , x\n", {"a": X}, Y),
    "space_before_a_quote": ('a, "label"\n1.5, "x, y"\n-2, "y"\n3, x\n', {"a": X}, ["x, y", "y", "x"]),
    "spaces_are_missing": ("a,label\n1.5,x\n  ,y\n3,  \n", {"a": [1.5, NAN, 3.0]}, ["x", "y", ""]),
    "windows": ("a,label\r\n1.5,x\r\n-2,y\r\n3,x\r\n", {"a": X}, Y),
    "old_mac": ("a,label\r1.5,x\r-2,y\r3,x\r", {"a": X}, Y),
    "no_last_newline": ("a,label\n1.5,x\n-2,y\n3,x", {"a": X}, Y),
    "blank_lines": ("\n\na,label\n1.5,x\n\n   \n-2,y\n3,x\n\n\n", {"a": X}, Y),
    "semicolons": ("a;label\n1.5;x\n-2;y\n3;x\n", {"a": X}, Y),
    "tabs": ("a\tlabel\n1.5\tx\n-2\ty\n3\tx\n", {"a": X}, Y),
    "bars": ("a|label\n1.5|x\n-2|y\n3|x\n", {"a": X}, Y),
    "semicolon_in_a_quoted_name": ('"a;b",label\n1.5,x\n-2,y\n3,x\n', {"a;b": X}, Y),
    "decimal_commas": ("a;b;label\n1,5;1;x\n-2;,25;y\n3,0;1,5e3;x\n", {"a": X, "b": [1.0, 0.25, 1500.0]}, Y),
    "points_that_are_decimal_signs": ("a;b;label\n1.5;1,5;x\n-2;-2;y\n3.0;3;x\n", {"a": X, "b": X}, Y),
    "points_in_texts_beside_commas": ("a;b;label\n1.234;1,5;x\nu;-2;y\nv;3;x\n", {"b": X, "a": ["1.234", "u", "v"]}, Y),
    "long_fraction_after_a_comma": ("a;label\n1,234;x\n-2,5;y\n3;x\n", {"a": [1.234, -2.5, 3.0]}, Y),
    "forms_of_numbers": ("a,b,label\n+1.5,.5,x\n-2.,1E3,y\n3e0,-1.e-2,x\n", {"a": X, "b": [0.5, 1000.0, -0.01]}, Y),
    "leading_zeros": ("a,label\n001.5,x\n-02,y\n3,x\n", {"a": X}, Y),
    "tiny_numbers": ("a,label\n1e-320,x\n1e-400,y\n3,x\n", {"a": [1e-320, 0.0, 3.0]}, Y),
    "many_digits": ("a,label\n0.12345678901234567890,x\n1,y\n3,x\n", {"a": [0.12345678901234568, 1.0, 3.0]}, Y),
    "large_integers_that_are_exact": (
        "a,label\n100000000000000000,x\n9007199254740992,y\n3,x\n",
        {"a": [1e17, 2.0**53, 3.0]},
        Y,
    ),
    "missing_numbers": ("a,label\n1.5,x\n,y\n3,x\n", {"a": [1.5, NAN, 3.0]}, Y),
    "booleans_with_gaps": ("a,label\ntrue,x\n,y\nfalse,x\n", {"a": ["true", "", "false"]}, Y),
    "empty_columns": ("a,b,label\n1.5,,x\n-2,,y\n3,,x\n", {"a": X}, Y),
    "constant_columns": ("a,b,label\n1.5,7,x\n-2,7,y\n3,7,x\n", {"a": X, "b": [7.0] * 3}, Y),
    "a_row_without_any_cell": ("a,label\n1.5,x\n,\n3,x\n", {"a": [1.5, NAN, 3.0]}, ["x", "", "x"]),
    "mostly_text": ("a,label\nb,x\n2,y\nc,x\n", {"a": ["b", "2", "c"]}, Y),
    "names_in_other_scripts": ("größe,label\n1.5,é\n-2,中\n3,é\n", {"größe": X}, ["é", "中", "é"]),
    "words_of_pandas": ("inf_,nan,label\n1.5,1,x\n-2,2,y\n3,3,x\n", {"inf_": X, "nan": [1.0, 2.0, 3.0]}, Y),
    "long_cells": (f"a,label\n{'b' * 200_000},x\nc,y\nc,x\n", {"a": ["b" * 200_000, "c", "c"]}, Y),
    "dates": ("a,label\n2024-02-29,x\n1970-01-02,y\n,x\n", {"a": [19782.0, 1.0, NAN]}, Y),
    "dates_of_germany": ("a,label\n29.2.2024,x\n2.1.1970,y\n1.1.1970,x\n", {"a": [19782.0, 1.0, 0.0]}, Y),
    "dates_of_america": ("a,label\n2/29/2024,x\n1/2/1970,y\n1/1/1970,x\n", {"a": [19782.0, 1.0, 0.0]}, Y),
    "instants": (
        "a,label\n1970-01-02T12:00:00Z,x\n1970-01-01 18:00,y\n1970-01-01T00:00:00.5+01:00,x\n",
        {"a": [1.5, 0.75, (0.5 - 3600) / 86400]},
        Y,
    ),
    "times": ("a,label\n23:30,x\n00:00:36,y\n6:45,x\n", {"a": [23.5, 0.01, 6.75]}, Y),
    "target_first": ("label,a\nx,1.5\ny,-2\nx,3\n", {"a": X}, Y),
}


@pytest.mark.every
@pytest.mark.parametrize(("content", "columns", "labels"), READ.values(), ids=READ)
def test_read_right(content, columns, labels, tmp_path):
    path = tmp_path / "odd.csv"
    path.write_bytes(content.encode())
    found, y, facts = seen(path)
    same(found, columns)
    assert y == labels
    assert facts["rows with a target"] == sum(1 for label in labels if label)
    assert facts["rows without a target"] == labels.count("")


NAMED = "größe,label\n1.5,é\n-2,y\n3,é\n"
ENCODED = {
    "utf8_with_a_mark": ("odd.csv", f"\ufeff{NAMED}".encode()),
    "utf16_little": ("odd.csv", b"\xff\xfe" + NAMED.encode("utf-16-le")),
    "utf16_big": ("odd.csv", b"\xfe\xff" + NAMED.encode("utf-16-be")),
    "compressed": ("odd.csv.gz", gzip.compress(NAMED.encode())),
}


@pytest.mark.parametrize(("name", "content"), ENCODED.values(), ids=ENCODED)
def test_encodings_with_a_mark_and_compressed_files(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    found, y, _ = seen(tmp_path / name)
    same(found, {"größe": X})
    assert y == ["é", "y", "é"]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([1, 2, None]), [1.0, 2.0, NAN]),
        (pa.array([1, 2, 3], pa.uint8()), [1.0, 2.0, 3.0]),
        (pa.array([0.5, NAN, None]), [0.5, NAN, NAN]),
        (pa.array([0.5, 1.5, None], pa.float32()), [0.5, 1.5, NAN]),
        (pa.array(np.array([0.5, 1.5, 2.0], dtype=np.float16)), [0.5, 1.5, 2.0]),
        (pa.array([Decimal("0.50"), Decimal("-2"), None]), [0.5, -2.0, NAN]),
        (pa.array([2**60, 1, 2]), [2.0**60, 1.0, 2.0]),
        (pa.array(pd.to_datetime(["1970-01-02 00:00", None, "1970-01-01 12:00"])), [1.0, NAN, 0.5]),
        (pa.array(pd.to_datetime(["2024-02-29"] * 3).date), [19782.0] * 3),
        (pa.array([3, None, 5], pa.duration("s")), [3.0, NAN, 5.0]),
        (pa.array([True, None, False]), ["True", "", "False"]),
        (pa.array(["NA", None, " b "]), ["NA", "", "b"]),
        (pa.array(["NA", "", "b"], pa.large_string()), ["NA", "", "b"]),
        (pa.array(["b", None, "b"]).dictionary_encode(), ["b", "", "b"]),
        (pa.array(["1.5", None, "2"]), [1.5, NAN, 2.0]),
    ],
    ids=lambda values: str(values.type) if isinstance(values, pa.Array) else "",
)
def test_columns_of_parquet(values, expected, tmp_path):
    path = tmp_path / "odd.parquet"
    pq.write_table(pa.table({"a": values, "b": [1, 2, 3], "label": ["x", None, ""]}), path)
    found, y, _ = seen(path)
    assert_array_equal(np.asarray(found["a"]), np.asarray(expected))
    assert y == ["x", "", ""]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (pa.array([2**53 + 1, 2**53, None]), ["9007199254740993", "9007199254740992", ""]),
        (pa.array([2**64 - 1, 1, 0], pa.uint64()), ["18446744073709551615", "1", "0"]),
        (pa.array([1.0, 0.5, None]), ["1", "0.5", ""]),
        (pa.array([1.0, NAN, 2.0]), ["1", "", "2"]),
        (pa.array([True, False, None]), ["True", "False", ""]),
        (pa.array(["None", "null", None]), ["None", "null", ""]),
        (pa.array([Decimal("1.50"), Decimal("2.00"), None]), ["1.50", "2.00", ""]),
    ],
    ids=["beyond 2^53", "beyond 2^63", "floats", "NaN", "booleans", "None", "decimals"],
)
def test_classes_of_parquet(labels, expected, tmp_path):
    path = tmp_path / "odd.parquet"
    pq.write_table(pa.table({"a": X, "label": labels}), path)
    found, y, _ = seen(path)
    same(found, {"a": X})
    assert y == expected


def test_the_index_of_pandas_is_no_column(tmp_path):
    frame = pd.DataFrame({"a": X, "label": Y}, index=[7, 3, 5])
    frame.to_parquet(tmp_path / "unnamed.parquet")
    frame.rename_axis("id").to_parquet(tmp_path / "named.parquet")
    for name in ("unnamed", "named"):
        found, y, _ = seen(tmp_path / f"{name}.parquet")
        same(found, {"a": X})
        assert y == Y


def test_a_folder_named_like_a_partition_adds_no_column(tmp_path):
    (tmp_path / "year=2024").mkdir()
    pq.write_table(pa.table({"a": X, "label": Y}), tmp_path / "year=2024" / "odd.parquet")
    same(seen(tmp_path / "year=2024" / "odd.parquet")[0], {"a": X})


def test_what_the_user_calls_missing_is_missing(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text("a,b,label\n1.5,NA,x\nNA,y,NA\n?,y,?\n3,?,na\n")
    found, y, facts = seen(path, missing="NA,?")
    same(found, {"a": [1.5, NAN, NAN, 3.0], "b": ["", "y", "y", ""]})
    assert y == ["x", "", "", "na"]
    assert facts["classes"] == {"na": 1, "x": 1}
    assert [row["missing"] for row in facts["table"]] == [2, 2, 2]
    pq.write_table(pa.table({"a": [1, -999, 2], "b": [0.5, -999.0, 1.0], "label": Y}), tmp_path / "odd.parquet")
    found, _, _ = seen(tmp_path / "odd.parquet", missing="-999,NA")
    same(found, {"a": [1.0, NAN, 2.0], "b": [0.5, NAN, 1.0]})


def test_what_the_user_calls_text_is_text(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text("zip,day,big,label\n01234,2024-02-29,9007199254740993,x\n1234,2024-03-01,9007199254740992,y\n")
    found, _, _ = seen(path, text=("zip", "day", "big"))
    expected = {"zip": ["01234", "1234"], "day": ["2024-02-29", "2024-03-01"]}
    same(found, {**expected, "big": ["9007199254740993", "9007199254740992"]})
    same(seen(path, ignore=("day", "big"))[0], {"zip": [1234.0, 1234.0]})


def test_numbers_to_predict(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text("a;label\n1,5;0,25\n-2;\n3;1e3\n")
    found, y, facts = seen(path, regression=True)
    same(found, {"a": X})
    assert_array_equal(y, [0.25, NAN, 1000.0])
    assert facts["rows without a target"] == 1
    for wrong, line in (("NA", 3), ("inf", 3), ("9007199254740993", 3), ("1e300", 3)):
        path.write_text(f"a,label\n1,2\n2,{wrong}\n3,4\n")
        complaint = refused("fit", path, "--target", "label", "--regression", "--out", tmp_path / "m.skops")
        assert f"odd.csv, line {line}: column 'label' has '{wrong}'" in complaint


TEXTS = ["=1+2", '=HYPERLINK("x")', "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "-x\ry", "+"]
PLAIN = ["-1.5", "+3", "-2e-3", "-1,5", "-.5", "yes", "a=b", "", "'=1"]


def test_no_text_is_written_as_a_formula(tmp_path):
    """Spreadsheets compute what begins with such a sign, in headers too; numbers stay, and Parquet has types."""
    frame = pd.DataFrame({"=label": TEXTS, "plain": PLAIN, "number": np.linspace(-1, 1, len(TEXTS))})
    write_table(frame, tmp_path / "table.csv")
    found = pd.read_csv(tmp_path / "table.csv", dtype={"plain": str}, keep_default_na=False)
    assert found.columns.tolist() == ["'=label", "plain", "number"]
    assert found["'=label"].tolist() == [f"'{text}" for text in TEXTS]
    assert found["plain"].tolist() == PLAIN
    np.testing.assert_array_equal(found["number"], frame["number"])
    write_table(frame, tmp_path / "table.parquet")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "table.parquet"), frame)


def test_the_table_of_what_was_read(tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text("a,b,c,d,label\n1.5,red,,u,x\n,red,,v,\n3,blue,,,y\n1.5,,,w,y\n")
    _, _, facts = seen(path, ignore=("d",))
    assert facts == {
        "table": [
            {"column": "a", "kind": "numbers", "values": 2, "cells": "1.5 to 3", "missing": 1},
            {"column": "b", "kind": "text", "values": 2, "cells": "red (2), blue (1)", "missing": 1},
            {"column": "c", "kind": "empty", "values": 0, "cells": "", "missing": 4},
            {"column": "d", "kind": "left out", "values": 3, "cells": "u (1), v (1), w (1)", "missing": 1},
            {"column": "label", "kind": "target", "values": 2, "cells": "y (2), x (1)", "missing": 1},
        ],
        "rows": 4,
        "rows with a target": 3,
        "rows without a target": 1,
        "classes": {"x": 1, "y": 2},
    }


cells = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), max_size=8)  # pandas does not quote \r


@given(rows=st.lists(st.tuples(cells, cells), min_size=1, max_size=8))
def test_whatever_pandas_writes_is_read_as_it_was(rows, tmp_path_factory):
    """Any texts, with quotes, separators and newlines in them: all cells as they were, but for spaces around them."""
    path = tmp_path_factory.mktemp("any") / "any.csv"
    pd.DataFrame({"n": "word", "a": [a for a, _ in rows], "label": [b for _, b in rows]}).to_csv(path, index=False)
    found, y, _ = seen(path, text=("a",))
    spaces = "".join(map(chr, (*range(9, 14), *range(28, 33), 133, 160, 5760, *range(8192, 8203), 8232, 8233, 8239)))
    spaces += "\u205f\u3000"
    assert y == [b.strip(spaces) for _, b in rows]
    if any(a.strip(spaces) for a, _ in rows):
        assert found["a"] == [a.strip(spaces) for a, _ in rows]
