"""Rows that are never all in memory: blocks of them, from arrays, files, iterators and clusters."""

from rkhs.streams.blocks import Block, Blocks
from rkhs.streams.problem import StreamedProblem
from rkhs.streams.sources import blocks, parquet

__all__ = ["Block", "Blocks", "StreamedProblem", "blocks", "parquet"]
