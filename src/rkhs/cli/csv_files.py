"""CSV files: every row has the cells of the header, or the file is refused with the line.

The file is a text in UTF-8, or in UTF-16 with its mark.  Commas separate columns, or semicolons, tabs or bars if the
header has no comma, or what the user says.  Blank lines are skipped, and empty cells behind the last column.
"""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from rkhs.cli.errors import CommandError

SEPARATORS = ",;\t|"
TOGETHER = 20_000  # rows that are taken to Arrow's arrays, which need a fifth of the memory


def read_csv(path: Path, separator: str | None = None) -> tuple[list[str], list[Any], np.ndarray[Any, Any], str]:
    """The names of the columns, their cells as Arrow arrays of texts, the line of each row, and the separator."""
    import pyarrow as pa

    csv.field_size_limit(2**31 - 1)
    encoding = "utf-8-sig"
    try:
        encoding = _encoding(path)
        if separator is None:
            with _opened(path, encoding) as file:
                separator = _separator(file, path)
        with _opened(path, encoding) as file:
            rows = _rows(path, file, separator)
            header = [name.strip() for name in next(rows, (0, []))[1]]
            parts: list[list[Any]] = [[] for _ in header]
            lines, some = [], []
            for line, row in rows:
                lines.append(line)
                some.append(_fitted(row, header, path, line))
                if len(some) == TOGETHER:
                    _move(some, parts)
            _move(some, parts)
    except UnicodeDecodeError as error:
        raise CommandError(f"{_undecodable(path, encoding)} is no text in UTF-8: save it in that encoding.") from error
    except (OSError, EOFError, zlib.error) as error:
        raise CommandError(f"{path} cannot be read: {error}") from error
    return header, [pa.chunked_array(part, pa.large_string()) for part in parts], np.array(lines, dtype=int), separator


def _encoding(path: Path) -> str:
    with _opened(path, None) as file:
        start = file.read(2)
    return "utf-16" if start in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def _opened(path: Path, encoding: str | None) -> IO[Any]:
    opener: Any = gzip.open if path.suffix.lower() == ".gz" else open
    return opener(path, "rb") if encoding is None else opener(path, "rt", encoding=encoding, newline="")


def _separator(file: IO[str], path: Path) -> str:
    """The first of the signs that is in the header, outside of quotes."""
    header = next((line for line in _lines(path, file) if line.strip()), "")
    bare = re.sub(r'"[^"]*("|$)', "", header)
    return next((sign for sign in SEPARATORS if sign in bare), ",")


def _lines(path: Path, file: IO[str]) -> Iterator[str]:
    for number, line in enumerate(file, 1):
        if "\0" in line:
            raise CommandError(f"{path}, line {number} has a NUL byte: this is no CSV text, or not one in UTF-8.")
        yield line


def _rows(path: Path, file: IO[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not blank, with the line on which each begins."""
    reader = csv.reader(_lines(path, file), delimiter=separator, skipinitialspace=True, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            open_ended = "end of data" in str(error)
            wrong = "opens a quote that is never closed" if open_ended else "has text behind a closing quote"
            raise CommandError(
                f'{path}, line {line} {wrong}: write a quote within a quoted cell twice, as in "5"" wide".'
            ) from error
        if row is None:
            return
        if len(row) > 1 or (row and row[0].strip()):
            yield line, row


def _fitted(row: list[str], header: list[str], path: Path, line: int) -> list[str]:
    """A row as long as the header."""
    extra = len(row) - len(header)
    if extra == 0:
        return row
    if extra < 0 or any(cell.strip() for cell in row[len(header) :]):
        raise CommandError(
            f"{path}, line {line}: its cells are {len(row)} and the names in the header {len(header)}: put cells with "
            "a separator in them in quotes, write the separators of empty cells too, or name another with --separator."
        )
    return row[: len(header)]


def _move(some: list[list[str]], parts: list[list[Any]]) -> None:
    """Append rows to the columns, as arrays of Arrow."""
    import pyarrow as pa

    for part, cells in zip(parts, zip(*some, strict=True), strict=False):
        part.append(pa.array(cells, pa.large_string()))
    some.clear()


def _undecodable(path: Path, encoding: str) -> str:
    """Where a file is not text in its encoding; in UTF-16 lines are not looked for."""
    if encoding == "utf-16":
        return str(path)
    with _opened(path, None) as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return f"{path}, line {number}"
    return str(path)
