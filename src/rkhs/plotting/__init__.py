"""Pictures in scikit-learn's Display style: `from_...` computes, `plot` draws, `ax_` and `figure_` remain."""

from rkhs.plotting.boundary import BoundaryDisplay
from rkhs.plotting.change import ChangeDisplay
from rkhs.plotting.grid import GridDisplay
from rkhs.plotting.metric import MetricDisplay
from rkhs.plotting.tangents import TangentsDisplay

__all__ = ["BoundaryDisplay", "ChangeDisplay", "GridDisplay", "MetricDisplay", "TangentsDisplay"]
