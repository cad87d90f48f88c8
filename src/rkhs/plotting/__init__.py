"""Displays in the style of scikit-learn: class methods `from_...` compute, and `plot` draws."""

from rkhs.plotting._displays import (
    ActiveRepresenters,
    BoundaryDisplay,
    ChangeDisplay,
    GridDisplay,
    MetricDisplay,
    TangentsDisplay,
)
from rkhs.plotting._maps import MapDisplay

__all__ = ["ActiveRepresenters", "BoundaryDisplay", "ChangeDisplay", "GridDisplay", "MapDisplay", "MetricDisplay"]
__all__ += ["TangentsDisplay"]
