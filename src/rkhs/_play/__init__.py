"""`rkhs play`: a page on this machine, where points are painted and what is learned from them is seen at once."""

from rkhs._play.server import Server

__all__ = ["Server"]
