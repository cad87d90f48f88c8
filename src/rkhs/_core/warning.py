"""Warnings that point to the user's code."""

import sys
import warnings
from pathlib import Path

PACKAGE = str(Path(__file__).parents[1])


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
