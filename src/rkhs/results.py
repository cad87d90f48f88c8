"""Results: the types of the objects that methods return."""

from rkhs import _facade

__all__, __getattr__, __dir__ = _facade(globals())
