"""Truncated power series in s with array coefficients: the ring in which moments are computed."""

from __future__ import annotations

from dataclasses import dataclass

from rkhs._backend.arrays import Array


@dataclass(frozen=True, eq=False)
class Series:
    """c_0 + c_1 s + .. + c_p s^p mod s^(p+1); a coefficient None is zero, and all broadcast."""

    coefficients: tuple[Array | None, ...]

    def __add__(self, other: Series) -> Series:
        pairs = zip(self.coefficients, other.coefficients, strict=True)
        return Series(tuple(_add(a, b) for a, b in pairs))

    def __mul__(self, other: Series) -> Series:
        out: list[Array | None] = [None] * len(self.coefficients)
        for i, a in enumerate(self.coefficients):
            for j, b in enumerate(other.coefficients[: len(out) - i]):
                if a is not None and b is not None:
                    out[i + j] = _add(out[i + j], a * b)
        return Series(tuple(out))

    def exp(self) -> Series:
        """exp of a series without constant term, from (exp c)' = c' exp c."""
        out: list[Array | None] = [1.0] + [None] * (len(self.coefficients) - 1)
        for k in range(1, len(out)):
            for j in range(1, k + 1):
                c, e = self.coefficients[j], out[k - j]
                if c is not None and e is not None:
                    out[k] = _add(out[k], (j / k) * c * e)
        return Series(tuple(out))


def _add(a: Array | None, b: Array | None) -> Array | None:
    if a is None or b is None:
        return b if a is None else a
    return a + b
