"""Convex losses: value, gradient, curvature, proximal operator and conjugate, independent of the functional."""

from rkhs.losses._base import Loss, Smoothed
from rkhs.losses._blocks import GroupNorm, RobustHinge
from rkhs.losses._classification import Hinge, Logistic, SmoothedHinge, SquaredHinge
from rkhs.losses._counts import Poisson
from rkhs.losses._regression import (
    Absolute,
    EpsilonInsensitive,
    Huber,
    OneSided,
    Quantile,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredOneSided,
)

__all__ = [
    "Absolute",
    "EpsilonInsensitive",
    "GroupNorm",
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "OneSided",
    "Poisson",
    "Quantile",
    "RobustHinge",
    "Smoothed",
    "SmoothedHinge",
    "Squared",
    "SquaredEpsilonInsensitive",
    "SquaredHinge",
    "SquaredOneSided",
]
