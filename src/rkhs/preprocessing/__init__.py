"""What to do with images before learning: make them upright (`Deskew`), and smooth (`Blur`)."""

from rkhs.preprocessing.blur import Blur
from rkhs.preprocessing.deskew import Deskew

__all__ = ["Blur", "Deskew"]
