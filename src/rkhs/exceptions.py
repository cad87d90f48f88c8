"""Exceptions: each message names the objects, what is wrong with them and the remedy."""


class NotBoundedError(ValueError):
    """A functional is not bounded on the RKHS of a kernel, so it has no representer there.

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


class UnattainedError(ValueError):
    """A problem has no minimizer: its objective falls for ever along a function that is not penalized.

    Examples
    --------
    >>> import rkhs
    >>> term = rkhs.Term(rkhs.Evaluation([[0.0]]), rkhs.Logistic(), target=[1.0])
    >>> try:
    ...     rkhs.Problem(rkhs.Gaussian(), [term], basis=rkhs.Constant()).solve()
    ... except rkhs.exceptions.UnattainedError:
    ...     print("one class only: the constant grows for ever")
    one class only: the constant grows for ever
    """


class ModelFileError(ValueError):
    """A file that is not a model of ours, or a model that cannot be written to one.

    Examples
    --------
    >>> import rkhs
    >>> try:
    ...     rkhs.load(__file__)
    ... except rkhs.exceptions.ModelFileError:
    ...     print("not a model")
    not a model
    """


class BlockError(ValueError):
    """A block of rows cannot be used; `block` is its number, the first being 0.

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


class NotApplicableError(ValueError):
    """A solver cannot solve this problem; the message says why and which can.

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
