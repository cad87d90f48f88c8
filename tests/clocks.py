"""A clock that is made, not looked at: time limits are tested without waiting, alike on all computers."""

from contextlib import contextmanager

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
