"""What ends work early: a clock that is made, not looked at, which is alike on all computers, and Ctrl-C."""

from contextlib import contextmanager
from itertools import count

import pytest

from rkhs._core import progress as _progress
from rkhs._core.finite import monitor
from rkhs.estimators.search import _many_labels as many_labels
from rkhs.solvers import _choose


class Clock:
    """A clock on which a certain time passes at each look, and whenever somebody says so."""

    def __init__(self, each: float = 0.0) -> None:
        self.now, self.each = 0.0, each

    def look(self) -> float:
        self.now += self.each
        return self.now


@contextmanager
def ticking(each: float = 0.0):
    """Let time limits, deadlines and progress look at this clock, on which this computer is the reference computer."""
    clock = Clock(each)
    with pytest.MonkeyPatch.context() as patch:
        for module in (monitor, _choose, many_labels):  # it would be measured, once for all, by this clock
            patch.setattr(module, "slowness", lambda: 1.0)
        patch.setattr(_progress, "clock", clock.look)
        yield clock


def stopping(iteration, how):
    """Return a callback that ends a solve after an iteration, by its answer or by Ctrl-C."""

    def callback(record):
        if record.iteration == iteration and how == "interrupted":
            raise KeyboardInterrupt
        return record.iteration == iteration

    return callback


def interrupting(monkeypatch, place, name, calls):
    """Let Ctrl-C come while a function is called for the n-th time."""
    own, left = getattr(place, name), count(calls, -1)

    def called(*arguments, **options):
        if next(left) == 0:
            raise KeyboardInterrupt
        return own(*arguments, **options)

    monkeypatch.setattr(place, name, called)
