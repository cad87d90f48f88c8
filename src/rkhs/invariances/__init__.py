"""Priors on f as callables that map points X to functionals."""

from typing import Any

from rkhs.invariances._base import InputNoise, Invariance, Monotone, RandomSubset
from rkhs.invariances._graph import Graph
from rkhs.invariances._images import ImageTangents, RandomImageTransform
from rkhs.invariances._tangents import SignalTangents, Tangents, TangentStep, transformed_copies
from rkhs.invariances._variation import TotalVariation
from rkhs.invariances._words import WordSubstitution

__all__ = [
    "Graph",
    "ImageTangents",
    "InputNoise",
    "Invariance",
    "Monotone",
    "RandomImageTransform",
    "RandomSubset",
    "SignalTangents",
    "TangentStep",
    "Tangents",
    "TotalVariation",
    "WordSubstitution",
    "transformed_copies",
]


def __getattr__(name: str) -> Any:
    from rkhs._moved import INVARIANCES, missing

    raise missing(__name__, name, INVARIANCES)
