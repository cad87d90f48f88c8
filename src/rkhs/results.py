"""Results: the types of the objects that methods return."""

from rkhs._core.finite.certificate import Certificate
from rkhs._core.finite.function import Function
from rkhs._core.finite.solution import Posterior, Solution
from rkhs._core.gram import Gram
from rkhs._core.learning.evidence import Evidence
from rkhs._core.learning.leave_one_out import LeaveOneOut
from rkhs._core.learning.tuning import Tuning
from rkhs.shapes._fitting import ShapeCertificate
from rkhs.surfaces._signed_distance import Surface

__all__ = ["Certificate", "Function", "Posterior", "ShapeCertificate", "Solution", "Surface"]
__all__ += ["Evidence", "Gram", "LeaveOneOut", "Tuning"]
