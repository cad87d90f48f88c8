"""List the names for extensions: type checkers read them here, and `extend.py` imports each when it is first used."""

from rkhs._core.backend.arrays import (
    Array as Array,
    Matrix as Matrix,
    Vector as Vector,
    as_array as as_array,
    as_points as as_points,
    check_choice as check_choice,
    check_count as check_count,
    check_number as check_number,
    double as double,
    import_optional as import_optional,
    like as like,
    namespace as namespace,
    placed as placed,
    to_numpy as to_numpy,
    unique_rows as unique_rows,
    zeros as zeros,
)
from rkhs._core.backend.frames import (
    FrameColumn as FrameColumn,
    column_index as column_index,
    frame_columns as frame_columns,
)
from rkhs._core.backend.memory import (
    cores as cores,
    free_memory as free_memory,
    map_in_threads as map_in_threads,
    single_blas as single_blas,
)
from rkhs._core.calculus.atoms import Atoms as Atoms
from rkhs._core.calculus.forms import Form as Form
from rkhs._core.calculus.function_spaces import (
    FunctionSpace as FunctionSpace,
    Offsets as Offsets,
    multi_indices as multi_indices,
)
from rkhs._core.calculus.maps import Map as Map
from rkhs._core.files import exit_on_signals as exit_on_signals, replacing as replacing
from rkhs._core.finite.basis import on_basis as on_basis
from rkhs._core.finite.monitor import (
    Monitor as Monitor,
    OutOfIterations as OutOfIterations,
    Step as Step,
    Stopped as Stopped,
)
from rkhs._core.finite.problem import FiniteProblem as FiniteProblem, Iterate as Iterate
from rkhs._core.gram.blocks import check_bounded as check_bounded
from rkhs._core.gram.pairs import Expansion as Expansion, FunctionalTable as FunctionalTable, entries as entries
from rkhs._core.limits import limits as limits
from rkhs._core.linalg.saddle import Saddle as Saddle
from rkhs._core.progress import (
    interrupts_raised as interrupts_raised,
    report_progress as report_progress,
    seconds_left as seconds_left,
    with_extended_deadline as with_extended_deadline,
    with_progress_callback as with_progress_callback,
    with_time_limit as with_time_limit,
)
from rkhs.estimators._base import (
    BaseKernelEstimator as BaseKernelEstimator,
    as_input_type as as_input_type,
    check_finite as check_finite,
    documented_by as documented_by,
    transactional as transactional,
    warn_unless_converged as warn_unless_converged,
)
from rkhs.estimators._classifier import Classifier as Classifier
from rkhs.estimators._data import Sample as Sample
from rkhs.estimators._folds import left_out_by_folds as left_out_by_folds
from rkhs.estimators._formulation import WeightNormalization as WeightNormalization, as_loss as as_loss
from rkhs.estimators._length_scales import as_kernel as as_kernel, scaled_kernels as scaled_kernels
from rkhs.estimators._regressor import Regressor as Regressor
from rkhs.estimators.search._search import (
    Choice as Choice,
    Outcome as Outcome,
    Trial as Trial,
    best_of as best_of,
    choose as choose,
    paired_test as paired_test,
    row_losses as row_losses,
)
from rkhs.exceptions import NotApplicableError as NotApplicableError, warn as warn
from rkhs.functionals._base import Functional as Functional, Part as Part
from rkhs.invariances import Invariance as Invariance
from rkhs.invariances._base import as_invariances as as_invariances
from rkhs.kernels._algebra import PushedKernel as PushedKernel
from rkhs.kernels._base import FormKernel as FormKernel, Kernel as Kernel
from rkhs.kernels._scaled import ScaledKernel as ScaledKernel, SpectralDensity as SpectralDensity
from rkhs.losses._base import Loss as Loss
from rkhs.losses._blocks import BlockLoss as BlockLoss
from rkhs.losses._interval import IntervalLoss as IntervalLoss
from rkhs.solvers._base import Solver as Solver
from rkhs.spaces import (
    Approximation as Approximation,
    FiniteSpace as FiniteSpace,
    FourierSpace as FourierSpace,
    LandmarkSpace as LandmarkSpace,
)
from rkhs.spaces._base import corners as corners
