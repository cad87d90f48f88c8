"""What solvers ask of a Gram matrix, stored or not."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from rkhs._backend.arrays import Array


class GramOperator(Protocol):
    """The Gram matrix G of two families of functionals, in a problem (N, N) of one with itself."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def budget(self) -> int:
        """Bytes that work with it may take."""

    @property
    def stored(self) -> bool:
        """Whether the matrix is at hand, so that its entries cost nothing."""

    @property
    def steady(self) -> bool:
        """Whether products do the same whatever their numbers are, so that an accelerator can record them."""

    @property
    def seconds(self) -> float:
        """What a product is estimated to take; nothing on an accelerator, where that is not known."""

    @property
    def core_seconds(self) -> float:
        """What a product is estimated to take on one core, wherever it is computed: a measure of its work."""

    @property
    def firsts(self) -> np.ndarray[Any, Any]:
        """The rows at which groups begin that are best taken together: all functionals of a point."""

    def __matmul__(self, v: Array) -> Array: ...

    def energies(self, v: Array) -> Array:
        """v'Gv of each column of v."""

    def dense(self) -> Array: ...

    def in_double(self, out: np.ndarray[Any, Any] | None = None) -> np.ndarray[Any, Any]:
        """The whole matrix in NumPy and float64, computed in float64 even for points in float32; in `out`, of zeros."""

    def diagonal(self) -> Array: ...

    def block(self, rows: Any, columns: Any) -> Array:
        """The dense submatrix of some rows and columns."""

    def part(self, rows: Any, columns: Any) -> Any:
        """The same submatrix: an operator where the whole is one, an array where it is stored."""

    def gradient_moments(self, weight: Array) -> Array | None:
        """G' diag(weight) G of gradients against values from a formula, without G; None where there is none."""
