"""The columns of X, their names and their number: kept and checked by scikit-learn, in its own words."""

from __future__ import annotations

from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data


class Columns(BaseEstimator):  # type: ignore[misc]
    """Those of a stream, which has no estimator to remember them."""

    @classmethod
    def of(cls, X: Any) -> Columns:
        """The columns of X."""
        columns = cls()
        keep_columns(columns, X)
        return columns


def keep_columns(owner: Any, X: Any) -> None:
    """Let an owner, which is an estimator, remember the columns of X, as `fit` does."""
    validate_data(owner, X, reset=True, skip_check_array=True)


def check_columns(owner: Any, X: Any) -> None:
    """Refuse an X with other columns than those that are remembered, or in another order, as `predict` does."""
    validate_data(owner, X, reset=False, skip_check_array=True)
