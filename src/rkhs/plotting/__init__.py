"""Displays in the style of scikit-learn: class methods `from_...` compute, and `plot` draws."""

from rkhs.plotting._boundary import BoundaryDisplay
from rkhs.plotting._heat_maps import GridDisplay, MetricDisplay
from rkhs.plotting._motions import ChangeDisplay, TangentsDisplay

__all__ = ["BoundaryDisplay", "ChangeDisplay", "GridDisplay", "MetricDisplay", "TangentsDisplay"]
