"""Results: the types of the objects that methods return."""

from rkhs._lazy import facade

__all__, __getattr__, __dir__ = facade(globals())
