"""Prior knowledge in the form of callables X -> functionals."""

from rkhs.invariances.base import Invariance, as_invariances
from rkhs.invariances.copies import Moved, copies
from rkhs.invariances.graph import Graph
from rkhs.invariances.images import ImageTangents
from rkhs.invariances.jitter import Jitter
from rkhs.invariances.monotone import Monotone
from rkhs.invariances.motions import RandomMotion
from rkhs.invariances.sampled import Sampled
from rkhs.invariances.signals import SignalTangents
from rkhs.invariances.tangents import Tangents

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
    "as_invariances",
    "copies",
]
