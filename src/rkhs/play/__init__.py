"""`rkhs play`: a page on this machine, where points are painted and what is learnt from them is seen at once."""

from rkhs.play.server import Server

__all__ = ["Server"]
