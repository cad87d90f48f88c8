"""One algorithm per file; `auto` chooses."""

from rkhs.solvers.base import NotApplicableError, Solver
from rkhs.solvers.descent import Descent

__all__ = ["Descent", "NotApplicableError", "Solver"]
