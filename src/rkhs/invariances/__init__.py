"""Priors on f as callables that map points X to functionals."""

from rkhs.invariances._base import InputNoise, Invariance, Monotone, RandomSubset
from rkhs.invariances._graph import Graph
from rkhs.invariances._images import ImageTangents, RandomImageTransform
from rkhs.invariances._tangents import SignalTangents, Tangents, TangentStep, WordSubstitution, transformed_copies
from rkhs.invariances._variation import TotalVariation

__all__ = ["Graph", "InputNoise", "Invariance", "Monotone", "RandomSubset", "TotalVariation"]
__all__ += [
    "ImageTangents",
    "RandomImageTransform",
    "SignalTangents",
    "TangentStep",
    "Tangents",
    "WordSubstitution",
    "transformed_copies",
]
