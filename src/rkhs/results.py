"""Results: the types of the objects that methods return."""

from rkhs._finite.certificate import Certificate
from rkhs._finite.function import Function
from rkhs._finite.solution import Posterior, Solution
from rkhs._gram import Gram
from rkhs._learning.evidence import Evidence
from rkhs._learning.leave_one_out import LeaveOneOut
from rkhs._learning.tuning import Tuning
from rkhs._shapes.fitting import ShapeCertificate
from rkhs._surfaces import Surface

__all__ = ["Certificate", "Function", "Posterior", "ShapeCertificate", "Solution", "Surface"]
__all__ += ["Evidence", "Gram", "LeaveOneOut", "Tuning"]
