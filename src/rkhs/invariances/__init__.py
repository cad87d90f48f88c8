"""Prior knowledge in the form of callables X -> functionals."""

from rkhs.invariances.base import Invariance, as_invariances

__all__ = ["Invariance", "as_invariances"]
