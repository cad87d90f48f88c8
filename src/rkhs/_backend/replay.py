"""Steps that an accelerator records once and plays again.

Small work on an accelerator waits for the processor that launches it, kernel by kernel.  A step that does the same to
the same arrays each time can be recorded (a CUDA graph): one launch plays all of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

WARM_UP = 1  # steps before the recording, in which libraries load and choose their kernels


class Replay:
    """A step in place, on arrays of a CUDA device that stay where they are and without a look at their numbers."""

    def __init__(self, step: Callable[[], None]) -> None:
        self.step = step
        self.taken = 0
        self.recording: Any = None

    def __call__(self) -> None:
        """The step."""
        if self.taken < WARM_UP:
            self.step()
        else:
            if self.recording is None:
                self.recording = _recorded(self.step)
            self.recording.replay()
        self.taken += 1


def _recorded(step: Callable[[], None]) -> Any:
    """The step as a graph; recording it does not run it."""
    import torch

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph
