"""Out-of-core learning: rows in blocks from arrays, files, iterators and dask clusters."""

from typing import Any

from rkhs.streams._blocks import Block, Blocks, blocks, read_parquet
from rkhs.streams._problem import StreamedProblem

__all__ = ["Block", "Blocks", "StreamedProblem", "blocks", "read_parquet"]


def __getattr__(name: str) -> Any:
    from rkhs._moved import STREAMS, missing

    raise missing(__name__, name, STREAMS)
