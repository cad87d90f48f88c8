"""Out-of-core learning: rows in blocks from arrays, files, iterators and dask clusters."""

from rkhs.streams._blocks import Block, Blocks, blocks, read_parquet
from rkhs.streams._problem import StreamedProblem

__all__ = ["Block", "Blocks", "StreamedProblem", "blocks", "read_parquet"]
