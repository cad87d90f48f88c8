"""Base classes, for kernels, functionals, losses, solvers, spaces and priors of your own.

The pages under "Extend" of the documentation have one example of each; `rkhs.testing` has the checks.
"""

from rkhs._core.backend.arrays import (
    Array,
    Matrix,
    Vector,
    as_points,
    check_choice,
    check_count,
    check_number,
    double,
    import_optional,
    like,
    namespace,
    to_numpy,
    unique_rows,
)
from rkhs._core.calculus.atoms import Atoms
from rkhs._core.calculus.forms import Form
from rkhs._core.calculus.function_spaces import FunctionSpace
from rkhs._core.finite.monitor import Monitor, OutOfIterations, Stopped
from rkhs._core.finite.problem import FiniteProblem, Iterate
from rkhs.exceptions import NotApplicableError, warn
from rkhs.functionals._base import Functional, Part
from rkhs.invariances import Invariance
from rkhs.kernels._base import FormKernel, Kernel
from rkhs.kernels._scaled import ScaledKernel, SpectralDensity
from rkhs.losses._base import Loss
from rkhs.losses._blocks import BlockLoss
from rkhs.losses._interval import IntervalLoss
from rkhs.solvers._base import Solver
from rkhs.spaces import Approximation, FiniteSpace, FourierSpace, LandmarkSpace

__all__ = ["Atoms", "Form", "FormKernel", "FunctionSpace", "Functional", "Kernel", "Part"]
__all__ += ["BlockLoss", "IntervalLoss", "Invariance", "Loss", "ScaledKernel", "SpectralDensity"]
__all__ += ["Array", "Matrix", "Vector", "as_points", "check_choice", "check_count", "check_number", "double"]
__all__ += ["import_optional", "like", "namespace", "to_numpy", "unique_rows", "warn"]
__all__ += ["Approximation", "FiniteProblem", "FiniteSpace", "FourierSpace", "LandmarkSpace"]
__all__ += ["Iterate", "Monitor", "NotApplicableError", "OutOfIterations", "Solver", "Stopped"]
