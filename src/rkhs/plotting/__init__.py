"""Displays in the style of scikit-learn: class methods `from_...` compute, and `plot` draws."""

from rkhs.plotting._displays import BoundaryDisplay, ChangeDisplay, GridDisplay, MetricDisplay, TangentsDisplay

__all__ = ["BoundaryDisplay", "ChangeDisplay", "GridDisplay", "MetricDisplay", "TangentsDisplay"]
