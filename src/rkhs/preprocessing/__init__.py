"""What to do with images before learning: make them upright (`Deskew`), smooth (`Blur`), see edges (`EdgeDirections`)."""

from rkhs.preprocessing.blur import Blur
from rkhs.preprocessing.deskew import Deskew
from rkhs.preprocessing.edge_directions import EdgeDirections

__all__ = ["Blur", "Deskew", "EdgeDirections"]
