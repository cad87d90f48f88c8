"""Displays in the style of scikit-learn: class methods `from_...` compute, and `plot` draws."""

from rkhs.plotting._displays import (
    ActiveRepresenters,
    BoundaryDisplay,
    ChangeDisplay,
    GridDisplay,
    HistoryDisplay,
    MetricDisplay,
    TangentsDisplay,
)
from rkhs.plotting._maps import MapDisplay

__all__ = ["ActiveRepresenters", "BoundaryDisplay", "ChangeDisplay", "GridDisplay", "HistoryDisplay", "MapDisplay"]
__all__ += ["MetricDisplay", "TangentsDisplay"]
