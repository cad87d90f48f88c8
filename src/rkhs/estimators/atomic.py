"""Learning changes a machine as a whole, or not at all."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

Method = TypeVar("Method", bound=Callable[..., Any])


def all_or_nothing(learn: Method) -> Method:
    """A method that learns: what it leaves takes its place in one step, and where it is stopped nothing is changed.

    It works on a copy of the machine, so that others may use the machine as it was until that step.
    """

    @wraps(learn)
    def whole(self: Any, *args: Any, **options: Any) -> Any:
        machine = object.__new__(type(self))
        vars(machine).update(vars(self))
        learn(machine, *args, **options)
        self.__dict__ = vars(machine)
        return self

    return cast(Method, whole)
