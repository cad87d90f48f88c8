"""Parquet files: columns of texts, integers and floats; of the rest only that they are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rkhs.cli.errors import CommandError


def read_parquet(path: Path) -> tuple[list[str], list[Any], int]:
    """The names of the columns, their cells (None for kinds that no machine learns from), and the number of rows.

    The index of a pandas frame is no column.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.ParquetFile(path).read()
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CommandError(f"{path} cannot be read as a Parquet file: {reason}") from error
    index = [name for name in (table.schema.pandas_metadata or {}).get("index_columns", []) if isinstance(name, str)]
    kept = [(name, column) for name, column in zip(table.schema.names, table.columns, strict=True) if name not in index]
    return [name.strip() for name, _ in kept], [_plain(column) for _, column in kept], table.num_rows


def _plain(cells: Any) -> Any:
    """Texts, integers or floats; truth values and dates as texts, durations in their unit."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = pa.types
    if kinds.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    if kinds.is_integer(cells.type):
        return cells
    if kinds.is_duration(cells.type):
        return pc.cast(cells, pa.int64())
    if kinds.is_floating(cells.type):
        cells = pc.cast(cells, pa.float64())
        return pc.if_else(pc.is_nan(cells), pa.scalar(None, pa.float64()), cells)
    if kinds.is_boolean(cells.type):
        return pc.if_else(cells, pa.scalar("True", pa.large_string()), pa.scalar("False", pa.large_string()))
    texts = kinds.is_string(cells.type) or kinds.is_large_string(cells.type) or kinds.is_string_view(cells.type)
    if texts or kinds.is_temporal(cells.type) or kinds.is_decimal(cells.type) or kinds.is_null(cells.type):
        return pc.cast(cells, pa.large_string())
    return None
