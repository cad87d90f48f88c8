"""List the types of results: type checkers read them here, and `results.py` imports each when it is first used."""

from rkhs._core.finite.certificate import Certificate as Certificate, Status as Status
from rkhs._core.finite.function import Function as Function
from rkhs._core.finite.solution import Posterior as Posterior, Solution as Solution
from rkhs._core.gram import Gram as Gram
from rkhs._core.learning.evidence import Evidence as Evidence
from rkhs._core.learning.leave_one_out import LeaveOneOut as LeaveOneOut
from rkhs._core.learning.tuning import Tuning as Tuning
from rkhs.shapes._fitting import ShapeCertificate as ShapeCertificate, ShapedSolution as ShapedSolution
from rkhs.surfaces import Surface as Surface
