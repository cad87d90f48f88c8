"""The standard deviation of f given all that a problem with squared losses says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from rkhs.backend.arrays import Array, namespace
from rkhs.backend.devices import in_one_place
from rkhs.functionals import Evaluation, Functional
from rkhs.problem import Problem
from rkhs.solvers.spans.spread import SpanSpread
from rkhs.solvers.warped import WarpedGram


@dataclass(eq=False)
class Spread:
    """The standard deviation at points: of the whole space from the problem, or in the span of an approximation."""

    source: Problem | SpanSpread

    @cached_property
    def known(self) -> WarpedGram | SpanSpread:
        """What has variances."""
        if isinstance(self.source, SpanSpread):
            return self.source
        return WarpedGram.of(replace(self.source, precision=None).represented)

    def __getstate__(self) -> dict[str, Any]:
        return {"source": self.source}  # what is cached is computed again where it is opened

    def __call__(self, X: Array) -> Array:
        points: Functional = Evaluation(X)
        if isinstance(self.known, WarpedGram):
            there = self.known.represented.functionals.prototype
            points = points if in_one_place(X, there) else points.like(there)
        variance = self.known.variance(points)
        return namespace(variance).sqrt(variance)
