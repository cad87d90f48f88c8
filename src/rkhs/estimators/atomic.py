"""Learning changes a machine as a whole, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from rkhs.estimators.options import check_number
from rkhs.stopping import interrupts_raised, limited

Method = TypeVar("Method", bound=Callable[..., Any])


def all_or_nothing(learn: Method) -> Method:
    """Make a method that learns transactional: it works on a copy, which is taken over in one step at its end.

    Whatever stops it, Ctrl-C included, is raised and leaves the estimator as it was.  All of it keeps the estimator's
    `time_limit`, where that has one.
    """

    @wraps(learn)
    def whole(self: Any, *args: Any, **options: Any) -> Any:
        machine = object.__new__(type(self))
        vars(machine).update(vars(self))
        limit = getattr(self, "time_limit", None)
        with interrupts_raised(), limited(None if limit is None else check_number(limit, "time_limit")):
            learn(machine, *args, **options)
        self.__dict__ = vars(machine)
        return self

    return cast(Method, whole)
