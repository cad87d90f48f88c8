"""Convex losses: value, gradient, curvature, proximal operator and conjugate, independent of the functional."""

from rkhs.losses._base import Loss, Smoothed
from rkhs.losses._blocks import GroupNorm, RobustHinge
from rkhs.losses._counts import Poisson
from rkhs.losses._interval import (
    Absolute,
    EpsilonInsensitive,
    Hinge,
    Huber,
    Logistic,
    OneSided,
    Quantile,
    SmoothedHinge,
    Squared,
    SquaredEpsilonInsensitive,
    SquaredHinge,
    SquaredOneSided,
)

__all__ = ["Absolute", "EpsilonInsensitive", "Hinge", "Huber", "Logistic", "OneSided", "Poisson", "Quantile"]
__all__ += ["Squared", "SquaredEpsilonInsensitive", "SquaredHinge", "SquaredOneSided"]
__all__ += ["GroupNorm", "Loss", "RobustHinge", "Smoothed", "SmoothedHinge"]
