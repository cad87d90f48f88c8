"""One algorithm per file; `auto` chooses."""

from rkhs.solvers.base import NotApplicableError, Solver
from rkhs.solvers.box_dual import BoxDual
from rkhs.solvers.descent import Descent
from rkhs.solvers.lbfgs import LBFGS
from rkhs.solvers.newton import Newton
from rkhs.solvers.projected_dual import ProjectedDual

__all__ = ["LBFGS", "BoxDual", "Descent", "Newton", "NotApplicableError", "ProjectedDual", "Solver"]
