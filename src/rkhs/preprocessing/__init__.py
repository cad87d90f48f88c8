"""What to do with images before learning: upright (`Deskew`), smooth (`Blur`), edges (`EdgeDirections`)."""

from rkhs.preprocessing.blur import Blur
from rkhs.preprocessing.deskew import Deskew
from rkhs.preprocessing.edge_directions import EdgeDirections

__all__ = ["Blur", "Deskew", "EdgeDirections"]
