"""Convex losses: value, gradient, curvature, prox and conjugate, one and the same for every functional."""

from rkhs.losses.base import Loss, Smoothed
from rkhs.losses.classification import Hinge, Logistic, SmoothedHinge, SquaredHinge
from rkhs.losses.regression import (
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
    "Hinge",
    "Huber",
    "Logistic",
    "Loss",
    "OneSided",
    "Quantile",
    "Smoothed",
    "SmoothedHinge",
    "Squared",
    "SquaredEpsilonInsensitive",
    "SquaredHinge",
    "SquaredOneSided",
]
