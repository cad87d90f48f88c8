"""Prior knowledge in the form of callables X -> functionals."""

from rkhs.invariances._base import Invariance, Jitter, Monotone, Sampled
from rkhs.invariances._graph import Graph
from rkhs.invariances._images import ImageTangents, RandomMotion
from rkhs.invariances._tangents import Moved, SignalTangents, Tangents, copies

__all__ = [
    "Graph",
    "ImageTangents",
    "Invariance",
    "Jitter",
    "Monotone",
    "Moved",
    "RandomMotion",
    "Sampled",
    "SignalTangents",
    "Tangents",
    "copies",
]
