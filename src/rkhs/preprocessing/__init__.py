"""Transformers of tables (`TableEncoder`), and of images: `Deskew`, `Blur` and `EdgeDirections`."""

from rkhs.preprocessing._images import Blur, Deskew, EdgeDirections
from rkhs.preprocessing._tables import TableEncoder, column_kinds

__all__ = ["Blur", "Deskew", "EdgeDirections", "TableEncoder", "column_kinds"]
