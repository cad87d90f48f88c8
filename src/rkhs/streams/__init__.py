"""Rows that are never all in memory: blocks of them, from arrays, files, iterators and clusters."""

from rkhs.streams._blocks import Block, Blocks, blocks, parquet
from rkhs.streams._problem import StreamedProblem

__all__ = ["Block", "Blocks", "StreamedProblem", "blocks", "parquet"]
