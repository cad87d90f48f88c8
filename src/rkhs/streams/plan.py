"""What to do with each block of a stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from rkhs._calculus.spaces import Space
from rkhs._finite.summary import Summary
from rkhs._finite.term import Term
from rkhs._gram.span import Span
from rkhs.errors import BlockError
from rkhs.streams.blocks import Block

TermsOf = Callable[[Block], Sequence[Term]]


@dataclass(frozen=True, eq=False)
class Plan:
    """The functions among which f is sought, and the terms of a block."""

    span: Span
    space: Space | None
    terms: TermsOf
    outputs: int | None

    def summary(self, block: Block, only: int | None = None) -> Summary:
        """The sums of a block, of all terms or of one, whose rows are then kept whatever their number."""
        terms = list(self.terms(block))
        some = terms if only is None else terms[only : only + 1]
        try:
            return Summary.of(self.span, self.space, some, self.outputs, None if only is None else inf)
        except (FloatingPointError, ValueError) as error:
            raise BlockError(block.index, f"cannot be summed up: {error}") from error


def summarise(plan: Plan, block: Block, _: Any = None) -> Summary:
    """The sums of a block."""
    return plan.summary(block)
