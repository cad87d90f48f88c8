"""Pictures in scikit-learn's Display style: `from_...` computes, `plot` draws, `ax_` and `figure_` remain."""

from rkhs.plotting.boundary import BoundaryDisplay
from rkhs.plotting.heat_maps import GridDisplay, MetricDisplay
from rkhs.plotting.motions import ChangeDisplay, TangentsDisplay

__all__ = ["BoundaryDisplay", "ChangeDisplay", "GridDisplay", "MetricDisplay", "TangentsDisplay"]
