"""Pictures in scikit-learn's Display style: `from_...` computes, `plot` draws, `ax_` and `figure_` remain."""

from rkhs.plotting._boundary import BoundaryDisplay
from rkhs.plotting._heat_maps import GridDisplay, MetricDisplay
from rkhs.plotting._motions import ChangeDisplay, TangentsDisplay

__all__ = ["BoundaryDisplay", "ChangeDisplay", "GridDisplay", "MetricDisplay", "TangentsDisplay"]
