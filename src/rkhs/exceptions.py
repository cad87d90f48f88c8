"""Exceptions and warnings; each message names the object, states what is wrong with it and suggests a remedy."""

import sys
import warnings
from pathlib import Path
from typing import Any

__all__ = [
    "BlockError",
    "ExportError",
    "ModelFileError",
    "NotApplicableError",
    "NotBoundedError",
    "NotInTimeError",
    "NotSolvedError",
    "PrimalInfeasible",
    "RkhsError",
    "UnattainedError",
]

PACKAGE = str(Path(__file__).parent)


class RkhsError(Exception):
    """The base of the exceptions that this package defines; they also are of a kind that Python has.

    Examples
    --------
    >>> import rkhs
    >>> issubclass(rkhs.exceptions.NotSolvedError, rkhs.exceptions.RkhsError)
    True
    """


class NotSolvedError(RkhsError, RuntimeError):
    """Raised if none of the problems was solved on which a choice or a prediction is based.

    Examples
    --------
    >>> import rkhs
    >>> raise rkhs.exceptions.NotSolvedError("none of the 16 candidates was solved")
    Traceback (most recent call last):
    ...
    rkhs.exceptions.NotSolvedError: none of the 16 candidates was solved
    """


class NotInTimeError(RkhsError, TimeoutError):
    """Raised if a prediction or a variance, which is meaningless in part, takes longer than the time limit.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> model = rkhs.InvariantRegressorCV("gaussian", invariance=None, Cs=[1.0]).fit(X, X[:, 0])
    >>> try:
    ...     model.set_params(time_limit=0.0).predict(X, return_std=True)
    ... except rkhs.exceptions.NotInTimeError:
    ...     print("the time is over")
    the time is over
    """


class NotBoundedError(RkhsError, ValueError):
    """Raised if a functional is not bounded on the RKHS of a kernel, so that it has no representer there.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> rkhs.gram(rkhs.Matern(nu=0.5), rkhs.Gradient(np.zeros((1, 2))))
    Traceback (most recent call last):
    ...
    rkhs.exceptions.NotBoundedError: Gradient(1 point in R^2) takes derivatives of order 1, which are \
not bounded on the RKHS of Matern(nu=0.5, scale=1.0) in R^2: it bounds orders below 0.5. \
Use Matern(nu=1.5), or a Difference of values.
    """


class UnattainedError(RkhsError, ValueError):
    """Raised if a problem has no minimizer: its objective decreases without end along an unpenalized function.

    Examples
    --------
    >>> import rkhs
    >>> term = rkhs.Term(rkhs.Evaluation([[0.0]]), rkhs.Logistic(), target=[1.0])
    >>> try:
    ...     rkhs.Problem(rkhs.Gaussian(), [term], basis=rkhs.Constant()).solve()
    ... except rkhs.exceptions.UnattainedError:
    ...     print("only one class: the constant diverges")
    only one class: the constant diverges
    """


class PrimalInfeasible(RkhsError, ValueError):
    """Raised if no function satisfies the constraints of a problem, the terms of infinite weight.

    Parameters
    ----------
    message : str
        The constraints that contradict each other.
    alpha : dict
        The proof, by the index of the term: a coefficient for each of its functionals.  sum_i alpha_i L_i(f) = 0 for
        every f, while the constraints require a positive number.

    Attributes
    ----------
    alpha : dict
        The proof.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> values = rkhs.Term(rkhs.Evaluation([[0.0], [1.0]]), rkhs.Squared(), target=[0.0, 1.0], weight=np.inf)
    >>> rise = rkhs.Term(rkhs.Difference([[1.0]], [[0.0]]), rkhs.losses.OneSided(), target=2.0, weight=np.inf)
    >>> try:
    ...     rkhs.Problem(rkhs.Gaussian(), [values, rise]).solve()
    ... except rkhs.exceptions.PrimalInfeasible as error:
    ...     print(error.alpha[0] / error.alpha[1])
    [ 1. -1.]
    """

    def __init__(self, message: str, alpha: dict[int, Any]) -> None:
        super().__init__(message, alpha)
        self.alpha = alpha

    def __str__(self) -> str:
        return str(self.args[0])


class ModelFileError(RkhsError, ValueError):
    """Raised if a file does not contain a model of this package, or if a model cannot be saved.

    Examples
    --------
    >>> import rkhs
    >>> try:
    ...     rkhs.load(__file__)
    ... except rkhs.exceptions.ModelFileError:
    ...     print("not a model")
    not a model
    """


class ExportError(RkhsError, ValueError):
    """Raised if a model, or a part of it such as its kernel, cannot be exported to ONNX or JSON.

    Examples
    --------
    >>> import rkhs
    >>> f = rkhs.results.Function(rkhs.kernels.Precomputed([[1.0]]), rkhs.Evaluation([[0.0]]), [1.0])
    >>> try:
    ...     rkhs.to_json(f)
    ... except rkhs.exceptions.ExportError:
    ...     print("a matrix has no formula for new points")
    a matrix has no formula for new points
    """


class BlockError(RkhsError, ValueError):
    """Raised if a block of rows in a stream is invalid.

    Parameters
    ----------
    block : int
        The index of the block, starting at 0.
    reason : str
        What is wrong with the block.

    Attributes
    ----------
    block : int
        The index of the block.
    reason : str
        What is wrong with the block.

    Examples
    --------
    >>> import numpy as np, rkhs
    >>> model = rkhs.InvariantRegressor(scale=1.0, approximation=rkhs.Landmarks(2))
    >>> try:
    ...     model.partial_fit(np.full((4, 1), np.nan), np.zeros(4))
    ... except rkhs.exceptions.BlockError as error:
    ...     print(error.block)
    0
    """

    def __init__(self, block: int, reason: str) -> None:
        super().__init__(block, reason)
        self.block = block
        self.reason = reason

    def __str__(self) -> str:
        return f"Block {self.block} {self.reason}"


class NotApplicableError(RkhsError, ValueError):
    """Raised if a solver is not applicable to a problem; the message gives the reason and suggests another solver.

    Examples
    --------
    >>> import rkhs
    >>> term = rkhs.Term(rkhs.Evaluation([[0.0], [1.0]]), rkhs.Hinge(), target=[-1.0, 1.0])
    >>> try:
    ...     rkhs.Problem(rkhs.Gaussian(), [term]).solve(rkhs.solvers.Newton())
    ... except rkhs.exceptions.NotApplicableError:
    ...     print("Newton's method needs smooth losses")
    Newton's method needs smooth losses
    """


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points to the line of the user's code that called this package.

    Parameters
    ----------
    message : str
        What happened, and what to do.
    category : type, default=UserWarning
        The category.

    Examples
    --------
    >>> import warnings, rkhs
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     rkhs.extend.warn("Three rows repeat.")
    >>> [str(warning.message) for warning in caught]
    ['Three rows repeat.']
    """
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
